"""Prunes the events that a join begins with: an anchor stays only if every other slot has a fitting event in reach.

A join begins with the events of its rarest slot, its *anchors*. An anchor is useful only if, for each other slot, some
fitting event is near enough for one match to contain both, and behind or before the anchor as the pattern requires. An
instance of a sub-pattern is useful only if a query built from it may still match. So an anchor of a sub-pattern stays
only if it meets the needs of some query that is built from the sub-pattern.

One walk along the events judges the anchors of all vertices; it keeps the nearest events of each class of slots on
either side. It may keep useless anchors, but never drops one that is in a match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.slots import Demands
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import jit
from cetdsl.kernels._side_by_side import starts_of
from cetdsl.kernels.instances.candidates import Board
from cetdsl.kernels.vocabulary import Bools, Ints

#: The columns of ``Needs.entry``: the vertex whose anchors are judged, the vertex of a query that is built from it, and
#: where the query's slots for the vertex's slots begin in ``Needs.slots``.
_JUDGED, _OF, _SLOTS, _FIELDS = range(4)
#: The side of an anchor on which an event is needed.
_BEHIND, _BEFORE, _EITHER = 0, 1, 2


class Needs(NamedTuple):
    """The needs of the matches that are built from each vertex; laid out once for all chunks."""

    #: Each vertex with each query by whose needs its anchors are judged, ordered by vertex; shape (entries, _FIELDS).
    entry: Ints
    slots: Ints
    #: For each vertex, where the classes of its slots begin in ``classes``, and where its orders begin in ``before``.
    slot_start: Ints
    classes: Ints
    before_start: Ints
    #: The event of the first slot is before that of the second; shape (n, 2).
    before: Ints
    #: The longest time from the first event to the last; below 0: any.
    length: Ints


class Anchors(NamedTuple):
    """The anchors of all vertices in a chunk."""

    #: The slot of each vertex that its anchors are of.
    slot: Ints
    #: The anchors of vertex ``v`` are ``event[start[v]:start[v + 1]]``, ascending.
    event: Ints
    start: Ints


def lay_out_needs(
    demands: Sequence[Demands],
    classes: Sequence[Sequence[int]],
    below: Sequence[Sequence[tuple[int, tuple[int, ...]]]],
) -> Needs:
    """Lays out needs.

    Parameters
    ----------
    demands : sequence of Demands
        The demands of each vertex.
    classes : sequence of sequence of int
        The classes of the slots of each vertex.
    below : sequence of sequence of (int, tuple of int)
        For each vertex, the vertices of queries that are built from it, with the query's slots for its own slots; for
        the vertex of a query, itself with all its slots.
    """
    entry: list[tuple[int, int, int]] = []
    slots: list[int] = []
    for vertex, those in enumerate(below):
        for leaf, its in those:
            entry.append((vertex, leaf, len(slots)))
            slots += its
    before = [sorted(one.before) for one in demands]
    return Needs(
        np.array(entry, dtype=np.int64).reshape(-1, _FIELDS),
        np.array(slots, dtype=np.int64),
        starts_of(classes),
        np.array([number for own in classes for number in own], dtype=np.int64),
        starts_of(before),
        np.array([pair for own in before for pair in own], dtype=np.int64).reshape(-1, 2),
        np.array([one.length for one in demands], dtype=np.int64),
    )


def find_anchors(needs: Needs, board: Board, items: Ints, start: Ints, wanted: Bools) -> Anchors:
    """Returns the anchors of the vertices that are ``wanted``, and none of others.

    The events of class ``c`` are ``items[start[c]:start[c + 1]]``.
    """
    own = needs._replace(entry=needs.entry[wanted[needs.entry[:, _JUDGED]]])
    return Anchors(*_find_anchors(own, board.time, board.low, board.high, items, start, wanted))


@jit
def _find_anchors(
    needs: Needs, time: Ints, low: Ints, high: Ints, items: Ints, start: Ints, wanted: Bools
) -> tuple[Ints, Ints, Ints]:
    needs = borrowed(needs)
    slot, rare = _by_rarity(needs, start)
    count = len(slot)
    # The anchors of a vertex may be all events of a class, so there is a mark for each of these.
    room = np.zeros(count + 1, dtype=np.int64)
    for vertex in range(count):
        its = needs.classes[needs.slot_start[vertex] + slot[vertex]]
        room[vertex + 1] = room[vertex] + (start[its + 1] - start[its] if wanted[vertex] else 0)
    passed = np.zeros(room[count], dtype=np.bool_)
    order, entries = _by_class(needs, slot, len(start) - 1)
    need_start, kinds, sides = _needs_of(needs, slot, rare)
    places, event_start, number_of = _by_event(items, start, len(time))
    length = needs.length[needs.entry[:, _OF]]
    judged = needs.entry[:, _JUDGED].copy()
    #: For each class, the first position that is not before the current event.
    at = start[:-1].copy()
    for key in range(len(low)):
        begin, end = low[key], high[key]
        for event in range(begin, end):
            for one in range(event_start[event], event_start[event + 1]):
                place = places[one]
                number = number_of[place]
                for each in range(entries[number], entries[number + 1]):
                    row = order[each]
                    mark = room[judged[row]] + place - start[number]
                    if passed[mark]:
                        continue
                    reach = length[row]
                    near = True
                    for need in range(need_start[row], need_start[row + 1]):
                        kind, side = kinds[need], sides[need]
                        following, held = at[kind], False
                        if side != _BEFORE and following < start[kind + 1]:
                            other = items[following]
                            held = other < end and (reach < 0 or time[other] - time[event] <= reach)
                        if not held and side != _BEHIND and following > start[kind]:
                            other = items[following - 1]
                            held = other >= begin and (reach < 0 or time[event] - time[other] <= reach)
                        if not held:
                            near = False
                            break
                    passed[mark] = near
            for one in range(event_start[event], event_start[event + 1]):
                at[number_of[places[one]]] = places[one] + 1
    return slot, *_those_that_passed(needs, slot, passed, room, items, start)


@jit
def _those_that_passed(
    needs: Needs, slot: Ints, passed: Bools, room: Ints, items: Ints, start: Ints
) -> tuple[Ints, Ints]:
    event = np.empty(int(passed.sum()), dtype=np.int64)
    where = np.zeros(len(slot) + 1, dtype=np.int64)
    written = 0
    for vertex in range(len(slot)):
        begin = start[needs.classes[needs.slot_start[vertex] + slot[vertex]]]
        for place in range(room[vertex], room[vertex + 1]):
            if passed[place]:
                event[written] = items[begin + place - room[vertex]]
                written += 1
        where[vertex + 1] = written
    return event, where


@jit
def _by_rarity(needs: Needs, start: Ints) -> tuple[Ints, Ints]:
    """Returns for each vertex the slot that the fewest events fit, and all its slots, the rarest first."""
    first = np.zeros(len(needs.slot_start) - 1, dtype=np.int64)
    rare = np.empty(len(needs.classes), dtype=np.int64)
    for vertex in range(len(first)):
        begin, end = needs.slot_start[vertex], needs.slot_start[vertex + 1]
        own = needs.classes[begin:end]
        rare[begin:end] = np.argsort(start[own + 1] - start[own], kind="mergesort")
        if end > begin:
            first[vertex] = rare[begin]
    return first, rare


@jit
def _needs_of(needs: Needs, slot: Ints, rare: Ints) -> tuple[Ints, Ints, Ints]:
    """The classes that each entry needs, the rarest first, each with its side, and where those of an entry begin."""
    entry = needs.entry
    start = np.zeros(len(entry) + 1, dtype=np.int64)
    for row in range(len(entry)):
        leaf = entry[row, _OF]
        start[row + 1] = start[row] + needs.slot_start[leaf + 1] - needs.slot_start[leaf] - 1
    kinds, sides = np.empty((2, start[-1]), dtype=np.int64)
    side = np.empty(len(needs.classes), dtype=np.int64)
    for row in range(len(entry)):
        leaf = entry[row, _OF]
        anchor = needs.slots[entry[row, _SLOTS] + slot[entry[row, _JUDGED]]]
        begin, end = needs.slot_start[leaf], needs.slot_start[leaf + 1]
        side[begin:end] = _EITHER
        for pair in range(needs.before_start[leaf], needs.before_start[leaf + 1]):
            if needs.before[pair, 0] == anchor:
                side[begin + needs.before[pair, 1]] = _BEHIND
            elif needs.before[pair, 1] == anchor:
                side[begin + needs.before[pair, 0]] = _BEFORE
        written = start[row]
        for its in rare[begin:end]:
            if its != anchor:
                kinds[written], sides[written] = needs.classes[begin + its], side[begin + its]
                written += 1
    return start, kinds, sides


@jit
def _by_class(needs: Needs, slot: Ints, classes: int) -> tuple[Ints, Ints]:
    """The entries by the class of their anchors, those of a vertex together, and where each class begins."""
    own = np.empty(len(needs.entry), dtype=np.int64)
    begin = np.zeros(classes + 1, dtype=np.int64)
    for row in range(len(own)):
        vertex = needs.entry[row, _JUDGED]
        own[row] = needs.classes[needs.slot_start[vertex] + slot[vertex]]
        begin[own[row] + 1] += 1
    return np.argsort(own, kind="mergesort"), np.cumsum(begin)


@jit
def _by_event(items: Ints, start: Ints, events: int) -> tuple[Ints, Ints, Ints]:
    """Inverts ``items``: returns the places at which each event stands in it, one event after the other.

    Beside them it returns where the places of each event begin, and the class of each place.
    """
    begin = np.zeros(events + 2, dtype=np.int64)
    for event in items:
        begin[event + 2] += 1
    begin = np.cumsum(begin)
    places, number_of = np.empty((2, len(items)), dtype=np.int64)
    for number in range(len(start) - 1):
        for place in range(start[number], start[number + 1]):
            event = items[place]
            number_of[place] = number
            places[begin[event + 1]] = place
            begin[event + 1] += 1
    return places, begin[:-1].copy(), number_of
