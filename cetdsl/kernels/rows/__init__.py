"""Matches of row patterns, and what their measures are computed from."""
