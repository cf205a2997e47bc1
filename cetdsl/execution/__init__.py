"""From physical nodes to lazy DataFrames, by Spark's public API alone."""
