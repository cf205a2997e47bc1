"""All trends of a branch, put together in the order of a plan."""
