"""Aggregation plans: the sub-patterns that hundreds of patterns detect once for all of them, by structural entropy.

The plans are those of PatternInsight (Wu et al., IEEE TMC): patterns are the nodes of a graph that links those with
similar event types, the patterns of a cluster share a sub-pattern, and clusters of clusters share sub-patterns of
these.
"""
