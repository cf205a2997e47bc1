"""All trends of a branch, put together in the order, or along the tree, of a plan."""
