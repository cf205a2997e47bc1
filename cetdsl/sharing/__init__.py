"""Several queries as one: what they have in common, and what can be computed once for all of them."""
