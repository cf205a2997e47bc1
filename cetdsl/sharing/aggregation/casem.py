"""CASEM, the search for a plan: it clusters patterns by structural entropy as far as they have something in common.

The vertices of the partition tree are those of the plan, each with its sub-pattern. Algorithm 1 of PatternInsight looks
at pairs of siblings in the order of the greater gain of combining and merging them. Combining never gains less, as
:mod:`cetdsl.sharing.aggregation.entropy` says; so that is the order here, and the patterns decide which it is.
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

    A pair stands in the queue with the gain that it had when it came to be. Its parent may have grown since, so the
    gain is computed again when its turn comes: the pair then goes back if others gain more.

    The last two below the root are combined too: that neither adds to the entropy nor reduces it.

    Pairs whose kinds of events say that nothing is to be had are not looked at, and neither are clusters of them.

    Parameters
    ----------
    draft : Draft
    pairs : sequence of (int, int)
        Siblings to begin with; those that come to be are looked at too.
    late : callable
        Asked before each step.

    Returns
    -------
    bool
        Whether nothing was left to be looked at.
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
    """Pairs of siblings, those first that gained most when they came to be, and of these the lowest numbers.

    Most pairs are siblings no longer when their turn comes. So those that come to be together stand in a sorted lane,
    and only the first of each lane is in the heap.
    """

    def __init__(self, tree: PartitionTree) -> None:
        self._tree = tree
        #: Loss, both vertices, and the number of the lane.
        self._heap: list[tuple[float, int, int, int]] = []
        #: The others of each lane, the last one next.
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
            # What is gone has no parent, not even that of another that is gone.
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
            # In the other order it may pair other slots, and then not all of them.
            if swapped.covers_first(draft.patterns[one]):
                merged = _merge(draft, one, other, swapped)
                if merged is not None:
                    return merged
    return _combine(draft, first, second, both)


def _turned(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(second, first) for first, second in pairs]


def _may_be_worthwhile(draft: Draft, first: SubPattern, second: SubPattern, above: int) -> bool:
    """Whether what two have in common may say enough: a quick look at the kinds of events spares most of the others."""
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
    """Puts the second of two siblings below the first, whose pattern they share; None if that gains nothing.

    If both share the whole patterns of both, they become one vertex. A first that says no more than what both share is
    merged with the second at any gain: by combining them it would be there for nothing, below one that is the same.
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
    # The conditions and the span hold for the instances of both from now on.
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
    """Notes how many clusters stand above each other from a vertex down."""
    for above in draft.tree.way_up(vertex):
        if draft.height.get(above, 0) >= height:
            return
        draft.height[above] = height
        height += 1
