"""Computes links: columns with the instant of the next event that may be bound after each event.

By these columns, a matching policy other than ANY becomes an equality of neighbours, see :mod:`cetdsl.ir.links`. An
*option* is one way to go on: an edge's variable and predicates.

========================  ==============================================================
predicates of an edge     how the next event that may be bound is found
========================  ==============================================================
none                      the next event of the variable, by one pass from the last event to the first
equalities                the next event of the variable that has the event's values
one order, besides        the next of these events whose value is in order, by a tree of extremes
others, besides           the events found so are tested one after the other
========================  ==============================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.ir.links import Link, Option, links_of
from cetdsl.ir.machine import Machine
from cetdsl.ir.transitions import ORDERS
from cetdsl.kernels._jit import jit
from cetdsl.kernels.machine.conditions import compare, is_listed
from cetdsl.kernels.machine.lookups import LARGEST, add_levels, level_starts, next_holding
from cetdsl.kernels.machine.program import OPERATORS, equality_codes, place_of
from cetdsl.kernels.vocabulary import Bools, Events, Ints
from cetdsl.pattern.query import ANY, NEXT


class PolicyColumns:
    """Computes the columns that a machine's matching policy adds to the events of a chunk, ``count`` in number."""

    def __init__(self, machine: Machine) -> None:
        self._links = tuple(links_of(machine)) if machine.matching == NEXT else ()
        self.count = 0 if machine.matching == ANY else len(self._links) or 2

    def of(self, events: Events) -> tuple[Ints, Bools]:
        """Returns the columns, and whether each event leads to another one; shape (columns, n)."""
        shape = self.count, len(events.time)
        if not self._links:
            return _single(events) if self.count else (np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.bool_))
        links = np.empty(shape, dtype=np.int64)
        for row, link in enumerate(self._links):
            links[row] = next_instants(link, events)
        return links, links < never(events)


def _single(events: Events) -> tuple[Ints, Bools]:
    """Returns each event's instant and the one after it, both valid only if no other event is simultaneous."""
    alone = np.bincount(events.instant)[events.instant] == 1
    return np.stack([events.instant, events.instant + 1]), np.stack([alone, alone])


def never(events: Events) -> int:
    """Returns a number greater than all instants of a chunk, which stands for "no instant"."""
    return int(events.instant.max(initial=-1)) + 1


def next_instants(link: Link, events: Events) -> Ints:
    """Returns the instant to which each event leads that the link's source may bind; :func:`never` for none."""
    plain = sum(1 << variable for variable in {option.variable for option in link.options if option.is_plain})
    found = _next_of_mask(events, plain, never(events))
    others = sorted((option for option in link.options if not option.is_plain), key=lambda option: option.variable)
    if others:
        source = np.nonzero(events.mask & (1 << link.source))[0]
        for option in others:
            _find(found, source, events, _candidates(option, events))
    return found


@jit
def _next_of_mask(events: Events, wanted: int, never: int) -> Ints:
    """Returns, for each event, the next later instant of its segment that has an event of a ``wanted`` variable."""
    mask, instant, segment_start = events.mask, events.instant, events.segment_start
    found = np.empty(len(instant), dtype=np.int64)
    for segment in range(len(segment_start) - 1):
        low = segment_start[segment]
        ahead, here = never, never
        for i in range(segment_start[segment + 1] - 1, low - 1, -1):
            # ``here`` is the instant of event ``i + 1`` if one of its events seen so far is wanted, else ``never``.
            if here != never and instant[i] != here:
                ahead, here = here, never
            found[i] = ahead
            if mask[i] & wanted:
                here = instant[i]
    return found


class _Candidates(NamedTuple):
    """The events that one option may bind, sorted by *bucket*, the code of the values that must be equal, then by time.

    Attributes
    ----------
    event : int64 array
        The events.
    bucket_start : int64 array
        Where the events of each bucket begin; the last entry is their number.
    bucket : int64 array, shape (n,)
        The bucket in which each event of the chunk looks for its next event; -1: a value is NULL.
    order : int
        The position of the comparison by order in ``comparison``; -1: there is none.
    key, place : int64 arrays
        The tree of extremes over the later column of this comparison, and where its levels begin, shape (1, levels).
    comparison : int64 array, shape (comparisons, 3)
        Operator, later and earlier column of each comparison except the equalities.
    listed : int64 array
        The list columns of the option.
    """

    event: Ints
    bucket_start: Ints
    bucket: Ints
    order: int
    key: Ints
    place: Ints
    comparison: Ints
    listed: Ints


def _candidates(option: Option, events: Events) -> _Candidates:
    equalities = [c for c in option.comparisons if c.op == "="]
    others = [c for c in option.comparisons if c.op != "="]
    later, earlier, buckets = equality_codes(equalities, events)
    event = np.nonzero((events.mask & (1 << option.variable) != 0) & (later >= 0))[0]
    event = event[np.argsort(later[event], kind="stable")]
    bucket_start = np.searchsorted(later[event], np.arange(buckets + 1))
    order = next((number for number, c in enumerate(others) if c.op in ORDERS), -1)
    key, levels = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    if order >= 0:
        levels = level_starts(len(event))
        key = np.empty(levels[-1], dtype=np.int64)
        key[: len(event)] = events.codes[others[order].later, event]
        add_levels(key, levels, len(event), OPERATORS[others[order].op] >= LARGEST)
    comparison = np.array([(OPERATORS[c.op], c.later, c.earlier) for c in others], dtype=np.int64).reshape(-1, 3)
    listed = np.array(option.listed, dtype=np.int64)
    return _Candidates(event, bucket_start, earlier, order, key, levels[None, :], comparison, listed)


@jit
def _find(found: Ints, source: Ints, events: Events, candidates: _Candidates) -> None:
    """Lowers the instant found for each source to that of its next candidate, if this is sooner."""
    codes, valid, instant, segment_start = events.codes, events.valid, events.instant, events.segment_start
    list_start, list_items = events.list_start, events.list_items
    event, bucket_start, bucket = candidates.event, candidates.bucket_start, candidates.bucket
    order, key, place = candidates.order, candidates.key, candidates.place
    comparison, listed = candidates.comparison, candidates.listed
    segment, behind = 0, 0
    for i in source:
        # ``behind`` is the first event of a later instant; sources rise.
        while segment_start[segment + 1] <= i:
            segment += 1
        behind = max(behind, i)
        while behind < segment_start[segment + 1] and instant[behind] == instant[i]:
            behind += 1
        if bucket[i] < 0:
            continue
        stop = place_of(event, bucket_start[bucket[i]], bucket_start[bucket[i] + 1], segment_start[segment + 1])
        item = place_of(event, bucket_start[bucket[i]], stop, behind)
        while item < stop:
            # No candidate before ``item`` may follow the source.
            if order >= 0:
                g = comparison[order, 2]
                if not valid[g, i]:
                    break
                item = next_holding(key, place, 0, 0, comparison[order, 0], codes[g, i], item, stop)
                if item == stop:
                    break
            j = event[item]
            if instant[j] >= found[i]:
                break
            holds = True
            for c in range(comparison.shape[0]):
                f, g = comparison[c, 1], comparison[c, 2]
                holds = holds and valid[f, j] and valid[g, i] and compare(comparison[c, 0], codes[f, j], codes[g, i])
            for k in range(len(listed)):
                holds = holds and is_listed(list_start, list_items, listed[k], i, j)
            if holds:
                found[i] = instant[j]
                break
            item += 1
