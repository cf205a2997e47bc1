"""CASEM, the search for a plan: it clusters patterns by structural entropy as long as they have something in common.

The vertices of the partition tree are the vertices of the plan, each with its sub-pattern. Algorithm 1 of
PatternInsight takes pairs of siblings in the order of what combining or merging them gains, whichever gains more. As
combining never gains less than merging (:mod:`cetdsl.sharing.aggregation.entropy`), pairs are taken here in the order
of what combining gains, and their patterns decide whether they are combined or merged.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from cetdsl.sharing.aggregation.draft import Clock, Draft
from cetdsl.sharing.aggregation.entropy import ROOT, PartitionTree
from cetdsl.sharing.aggregation.subpatterns import Common, SubPattern, common

#: Gains that differ by less are the same but for rounding.
_ROUNDING = 1e-12
#: No vertex.
_NOWHERE = ROOT - 1


def cluster(draft: Draft, pairs: Sequence[tuple[int, int]], late: Clock) -> bool:
    """Combines and merges siblings for as long as that reduces the entropy and they have a sub-pattern in common.

    A pair is queued with the gain that it has when both become siblings. Their parent may grow later, so the gain is
    computed again when the pair's turn comes, and the pair is queued again if the gain has become less.

    The last two vertices below the root are combined too, which does not change the entropy.

    Pairs whose kinds of events show that they have too little in common are skipped, and so are pairs of a vertex with
    a cluster that contains such a partner.

    Parameters
    ----------
    draft : Draft
    pairs : sequence of (int, int)
        Siblings to begin with; pairs that become siblings are examined too.
    late : callable
        Called before each step; the search stops if it returns true.

    Returns
    -------
    bool
        Whether all pairs have been examined.
    """
    tree = draft.tree
    queue = _Queue(draft.tree)
    #: By vertex the siblings that it has too little in common with.
    strange: defaultdict[int, set[int]] = defaultdict(set)

    queue.enter(pairs)
    while (next_pair := queue.pop()) is not None:
        if late():
            return False
        known, first, second = next_pair
        above = tree.parent[first]
        if not _may_be_worthwhile(draft, draft.patterns[first], draft.patterns[second], above):
            strange[first].add(second)
            strange[second].add(first)
            continue
        if tree.gain_of_combining(first, second) < known - _ROUNDING:
            queue.enter([(first, second)])
            continue
        to_either = strange[first] | strange[second]
        coming = []
        for vertex, other in _examine(draft, first, second):
            # A cluster has no more in common with a sibling than each of its parts has.
            if other in to_either and tree.parent[vertex] == above:
                strange[vertex].add(other)
                strange[other].add(vertex)
            else:
                coming.append((vertex, other))
        queue.enter(coming)
    return True


class _Queue:
    """Pairs of siblings in falling order of what they gained when they were entered, and then of rising numbers.

    Most pairs are no longer siblings when their turn comes. So the pairs that are entered together form a sorted list,
    their *lane*, and only the first pair of each lane is in the heap.
    """

    def __init__(self, tree: PartitionTree) -> None:
        self._tree = tree
        #: Loss, both vertices, and the number of the lane.
        self._heap: list[tuple[float, int, int, int]] = []
        #: The other pairs of each lane; the last one comes next.
        self._lanes: list[list[tuple[float, int, int]]] = []

    def enter(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Adds the pairs that gain something, or have an edge and the root as their parent."""
        tree = self._tree
        gain_of = tree.gain_of_combining
        lane = [
            (-gain, first, second)
            for first, second in pairs
            if (gain := gain_of(first, second)) > 0 or (tree.parent[first] == ROOT and second in tree.beside[first])
        ]
        if lane:
            lane.sort(reverse=True)
            heapq.heappush(self._heap, (*lane.pop(), len(self._lanes)))
            self._lanes.append(lane)

    def pop(self) -> tuple[float, int, int] | None:
        """Removes and returns the first pair that are siblings still, with its gain; None if there is none."""
        heap, parent = self._heap, self._tree.parent
        while heap:
            loss, first, second, number = heap[0]
            if lane := self._lanes[number]:
                heapq.heapreplace(heap, (*lane.pop(), number))
            else:
                heapq.heappop(heap)
            # A removed vertex has no parent; the two defaults differ, so that two removed vertices are no siblings.
            if parent.get(first) == parent.get(second, _NOWHERE):
                return -loss, first, second
        return None


def _examine(draft: Draft, first: int, second: int) -> list[tuple[int, int]]:
    """Combines or merges two siblings if they have a sub-pattern in common; returns the new pairs of siblings."""
    above = draft.tree.parent[first]
    mine, its = draft.patterns[first], draft.patterns[second]
    given: list[tuple[int, int]] = []
    if above != ROOT:
        given = list(zip(draft.inherited[first], draft.inherited[second], strict=True))
    both = common(mine, its, given)
    if both is None or not _is_worthwhile(draft, both.pattern, above):
        return []
    for one, other, covers in (
        (first, second, both.covers_first(mine)),
        (second, first, both.covers_second(its)),
    ):
        if covers and one in draft.tree.children:
            swapped = both if one == first else common(draft.patterns[one], draft.patterns[other], _turned(given))
            assert swapped is not None, "two that have something in common have so in either order"
            # In the other order, ``common`` may pair other slots, and then not cover the whole pattern.
            if swapped.covers_first(draft.patterns[one]):
                merged = _merge(draft, one, other, swapped)
                if merged is not None:
                    return merged
    return _combine(draft, first, second, both)


def _turned(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(second, first) for first, second in pairs]


def _may_be_worthwhile(draft: Draft, first: SubPattern, second: SubPattern, above: int) -> bool:
    """Whether two patterns may have enough in common, by their kinds of events: a quick test that most pairs fail."""
    if first.places is None or second.places is None:
        return True
    most = len(first.kinds & second.kinds)
    if above == ROOT:
        return most >= draft.limits.least_slots
    of = draft.patterns[above]
    more = bool((first.absences and second.absences) or (first.relations and second.relations))
    return most > len(of.slots) or min(first.ordered, second.ordered) > of.ordered or more


def _is_worthwhile(draft: Draft, pattern: SubPattern, above: int) -> bool:
    """Whether a sub-pattern adds to that of the parent above it: more slots, or more conditions on the same ones."""
    if above == ROOT:
        return len(pattern.slots) >= draft.limits.least_slots
    of = draft.patterns[above]
    return (len(pattern.slots), pattern.ordered, len(pattern.absences), len(pattern.relations)) > (
        len(of.slots),
        of.ordered,
        len(of.absences),
        len(of.relations),
    )


def _combine(draft: Draft, first: int, second: int, both: Common) -> list[tuple[int, int]]:
    height = 1 + max(draft.height.get(first, 0), draft.height.get(second, 0))
    if draft.limits.levels is not None and height + _depth(draft, first) > draft.limits.levels:
        return []
    above = draft.inherited.get(first)
    vertex = draft.tree.combine(first, second)
    draft.patterns[vertex] = both.pattern
    if above is not None:
        draft.inherited[vertex] = tuple(both.first.index(slot) for slot in above)
    draft.inherited[first], draft.inherited[second] = both.first, both.second
    draft.touched.update((first, second, vertex))
    _raise(draft, vertex, height)
    return [(vertex, other) for other in draft.tree.beside[vertex]]


def _merge(draft: Draft, first: int, second: int, both: Common) -> list[tuple[int, int]] | None:
    """Merges the second of two siblings into the first, whose pattern both share; None if that gains nothing.

    If both patterns are the same, except conditions and span, the two become one vertex; else the second becomes a
    child of the first. If the first pattern is exactly what both share, they are merged whatever the gain: if they were
    combined, the new parent would be the same pattern again.
    """
    tree, levels = draft.tree, draft.limits.levels
    whole = second in tree.children and both.covers_second(draft.patterns[second])
    height = draft.height.get(second, 0) + (not whole)
    if tree.gain_of_merging(first, second, whole=whole) <= 0 and draft.patterns[first] != both.pattern:
        return None
    if levels is not None and height + _depth(draft, first) > levels:
        return None
    few = len(tree.children[first]) == 2
    inner = {child: draft.inherited[child] for child in tree.children[second]} if whole else {}
    moved = tree.merge(first, second, whole=whole)
    # The first vertex now also serves the second pattern, so it gets the wider conditions and span.
    draft.patterns[first] = both.pattern
    draft.inherited.pop(second, None)
    draft.touched.update((first, *moved))
    for child in moved:
        draft.inherited[child] = tuple(inner[child][slot] for slot in both.second) if whole else both.second
    if whole:
        del draft.patterns[second], draft.height[second]
        draft.leave(second)
    _raise(draft, first, height)
    # Two children alone gain nothing by being combined; with a third they do.
    touched = list(tree.children[first]) if few else moved
    pairs = {(min(child, other), max(child, other)) for child in touched for other in tree.beside[child]}
    return [*sorted(pairs), *((first, other) for other in tree.beside[first])]


def _depth(draft: Draft, vertex: int) -> int:
    """Returns how many clusters stand above a vertex."""
    return sum(1 for _ in draft.tree.way_up(vertex)) - 1


def _raise(draft: Draft, vertex: int, height: int) -> None:
    """Raises the heights of a vertex and those above it: how many clusters stand above each other from there down."""
    for above in draft.tree.way_up(vertex):
        if draft.height.get(above, 0) >= height:
            return
        draft.height[above] = height
        height += 1
