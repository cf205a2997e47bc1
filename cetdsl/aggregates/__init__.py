"""What is known of each aggregate function, in words that parsers, planners, kernels and Spark all understand."""
