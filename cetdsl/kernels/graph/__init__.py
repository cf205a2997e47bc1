"""The graph of events: building, reducing, walking, counting, sampling."""
