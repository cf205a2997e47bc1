"""Declarations of the aggregate functions, in terms that parsers, planners, kernels and Spark all understand."""
