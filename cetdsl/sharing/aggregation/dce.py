"""Differential compensation: finds sub-patterns that queries of different clusters share."""

from __future__ import annotations

from collections import Counter

from cetdsl.sharing.aggregation.draft import Clock, Draft
from cetdsl.sharing.aggregation.entropy import ROOT
from cetdsl.sharing.aggregation.subpatterns import common


def compensate(draft: Draft, late: Clock, node: int | None = None) -> bool:
    """Gives queries of different clusters common parents outside the tree, for their differential parts (Algorithm 2).

    The *differential part* of a vertex are its slots that no parent has. The clusters are those of which queries are
    children; pairs of clusters are taken in the order of how many edges the graph has between their queries.

    Parameters
    ----------
    draft : Draft
    late : callable
        Called before each pair of queries; the search stops if it returns true.
    node : int, optional
        Only the edges of this query are examined.

    Returns
    -------
    bool
        Whether all pairs have been examined.
    """
    parent, neighbours = draft.tree.parent, draft.graph.neighbours
    linked = ((one, other) for one in (neighbours if node is None else (node,)) for other in neighbours[one])
    edges = {(min(one, other), max(one, other)) for one, other in linked if parent[one] != parent[other]}
    edges = {(one, other) for one, other in edges if ROOT not in (parent[one], parent[other])}
    clusters = {edge: (min(parent[edge[0]], parent[edge[1]]), max(parent[edge[0]], parent[edge[1]])) for edge in edges}
    similarity = Counter(clusters.values())
    for first, second in sorted(edges, key=lambda edge: (-similarity[clusters[edge]], clusters[edge], edge)):
        if late():
            return False
        _join(draft, first, second)
    return True


def _join(draft: Draft, first: int, second: int) -> None:
    """Gives two queries a common parent for their differential parts, or one of them a parent that the other has."""
    for one, other in ((first, second), (second, first)):
        rest = draft.remaining(other)
        if len(rest) < draft.limits.least_slots:
            continue
        part = draft.patterns[other].restricted(rest)
        for helper in draft.besides.get(one, {}):
            both = common(draft.patterns[helper], part)
            if both is not None and both.covers_first(draft.patterns[helper]):
                draft.patterns[helper] = both.pattern
                draft.help(helper, other, (rest[slot] for slot in both.second))
                return
    mine, its = draft.remaining(first), draft.remaining(second)
    both = common(draft.patterns[first].restricted(mine), draft.patterns[second].restricted(its))
    if both is None or len(both.pattern.slots) < draft.limits.least_slots:
        return
    helper = draft.tree.fresh()
    draft.patterns[helper] = both.pattern
    draft.help(helper, first, (mine[slot] for slot in both.first))
    draft.help(helper, second, (its[slot] for slot in both.second))
