"""Aggregates over all trends, carried along the machine or multiplied pane by pane."""
