"""Finds the matches of row patterns, and the values from which their measures are computed."""
