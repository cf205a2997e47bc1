"""Compiled kernels: arrays in, arrays out. Nothing here imports Spark, so all of it can be tested without."""
