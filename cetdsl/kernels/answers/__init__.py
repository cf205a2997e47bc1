"""Accumulators as rows of an answer: partial results, merging, and the forms of numbers."""
