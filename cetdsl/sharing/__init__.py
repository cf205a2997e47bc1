"""Several queries as one: their common parts, and the results that can be computed once for all of them."""
