"""Matches of many queries along the sub-patterns that they share, each of which is joined once."""
