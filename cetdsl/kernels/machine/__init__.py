"""A machine as arrays, and the index tables that answer its predicates."""
