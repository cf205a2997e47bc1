"""Matches of many queries, put together along the sub-patterns that they share; each of these is joined once."""
