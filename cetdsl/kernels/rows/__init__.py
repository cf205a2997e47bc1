"""Matches of row patterns, and the values that their measures are computed from."""
