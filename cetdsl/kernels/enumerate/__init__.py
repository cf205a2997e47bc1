"""Lists all trends of a query by a depth-first search over the events."""
