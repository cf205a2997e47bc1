"""Aggregation plans: the sub-patterns that hundreds of patterns detect once for all of them, by structural entropy.

The plans are those of PatternInsight (Wu et al., IEEE TMC): patterns that share event types are the nodes of a graph,
its clusters share sub-patterns, and clusters of clusters share sub-patterns of these.
"""
