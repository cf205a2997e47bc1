"""Negations whose predicates a kernel cannot judge: each trend is yielded with the matches that may forbid it.

Such a predicate may be any expression over events of the negated match and of the trend, so Spark evaluates it later.
The kernel finds all matches in each gap that the negation guards, whatever the predicate says of them. A gap is the
time between two neighbouring bindings of a trend, before the first one or after the last.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np

from cetdsl.errors import GroupTooLarge
from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels._jit import jit
from cetdsl.kernels.enumerate.batches import join_blocks, take_trends
from cetdsl.kernels.enumerate.search import Search
from cetdsl.kernels.vocabulary import Block, Events, Ints, Slices
from cetdsl.kernels.wire.windows import NEVER

#: The most bindings of matches that a task holds.
MOST = 50_000_000


class Walk(NamedTuple):
    """The steps of a machine, and the gaps that one negation guards."""

    #: The state that reads each variable first, shape (variables,), and the one that reads it after each state, shape
    #: (states, variables); -1: none.
    first: Ints
    next: Ints
    #: Whether the negation guards the gap before a trend that begins in each state, the gap between a state and the
    #: next variable, of shape (states, variables), and the gap after a trend that ends in each state.
    begins: Ints
    on_way: Ints
    ends: Ints


class Matches(NamedTuple):
    """The matches of a negated pattern, by slice and first event."""

    #: Where the matches in each slice begin, shape (slices + 1,).
    slice_start: Ints
    first: Ints
    last: Ints


@jit
def _guarded(
    walk: Walk, matches: Matches, events: Events, slices: Slices, span: int, block: Block, trends: Ints, out: Ints
) -> Ints:
    """Counts the matches in the guarded gaps of each trend, and writes them into ``out`` as far as it has room.

    ``trends`` are the numbers, in the block, of the first trend to look at and of the one after the last.
    """
    counts = np.zeros(trends[1] - trends[0], dtype=np.int64)
    found = 0
    for t in range(trends[0], trends[1]):
        begin, end, own = block.start[t], block.start[t + 1], block.slice[t]
        low, high = slices.low[own], slices.high[own]
        state = np.int64(-1)
        for position in range(begin, end + 1):
            # The gap before the binding at ``position``, or after the last one.
            if position == end:
                guarded = walk.ends[state]
            elif position == begin:
                state = walk.first[block.variable[position]]
                guarded = walk.begins[state]
            else:
                after = walk.next[state, block.variable[position]]
                guarded = walk.on_way[state, block.variable[position]]
                state = after
            if guarded == 0:
                continue
            left, right = low, high
            if position > begin:
                earlier = block.event[position - 1]
                left = earlier + 1
                while left < high and events.instant[left] == events.instant[earlier]:
                    left += 1
            elif span > 0:
                earliest = events.time[block.event[end - 1]] - span
                left = low + np.searchsorted(events.time[low:high], earliest)
            if position < end:
                later = block.event[position]
                right = later
                while right > left and events.instant[right - 1] == events.instant[later]:
                    right -= 1
            elif span > 0:
                latest = events.time[block.event[begin]] + span
                right = low + np.searchsorted(events.time[low:high], latest, side="right")
            members = matches.slice_start[own], matches.slice_start[own + 1]
            match = members[0] + np.searchsorted(matches.first[members[0] : members[1]], left)
            while match < members[1] and matches.first[match] < right:
                if matches.last[match] < right:
                    if found < len(out):
                        out[found] = match
                    found += 1
                    counts[t - trends[0]] += 1
                match += 1
    return counts


class DeferredNegation:
    """One negation whose predicates Spark evaluates."""

    def __init__(self, spec: KernelSpec, number: int) -> None:
        query = spec.query
        negation = query.negations[number]
        pivot = -1 if query.windowing.kind == SPAN else negation.pivot
        looked_for = KernelQuery(negation.machine, windowing=query.windowing, pairs=negation.pairs, pivot=pivot)
        self._search = Search(attrs.evolve(spec, query=looked_for))
        self._walk = _walk_of(spec, number)
        self._span = query.windowing.length if query.windowing.kind == SPAN else 0

    def match(self, events: Events, slices: Slices) -> GuardedGaps:
        """Finds all matches in some slices."""
        everywhere = np.full(len(slices.low), NEVER), np.full(len(slices.low), -NEVER)
        none = np.zeros((0, 0), dtype=np.int64)
        blocks: list[Block] = []
        size = 0
        for block in self._search.blocks(events, none, none, slices, everywhere):
            blocks.append(block)
            size += len(block.event)
            if size > MOST:
                raise GroupTooLarge(
                    f"a NOT has matches of more than {MOST} events, and its predicates are evaluated for each",
                    hint="relate the negated event by a comparison of one term of each event, or use a shorter window",
                )
        return GuardedGaps(self._walk, self._span, events, slices, join_blocks(blocks))


class GuardedGaps:
    """The matches of a negation in one chunk; finds those that lie in the guarded gaps of a trend."""

    def __init__(self, walk: Walk, span: int, events: Events, slices: Slices, found: Block) -> None:
        self._walk, self._span, self._events, self._slices = walk, span, events, slices
        first, last = found.event[found.start[:-1]], found.event[found.start[1:] - 1]
        order = np.lexsort((first, found.slice))
        places = np.searchsorted(found.slice[order], np.arange(len(slices.low) + 1)).astype(np.int64)
        self._order, self._found = order, found
        self._matches = Matches(places, first[order], last[order])

    def count(self, block: Block) -> Ints:
        """Returns the number of matches in the guarded gaps of each trend."""
        return self._guarded(block, 0, len(block.slice), np.zeros(0, dtype=np.int64))

    def pick(self, block: Block, begin: int, end: int, counts: Ints) -> Block:
        """Returns the matches in the guarded gaps of the trends ``begin:end``, trend by trend.

        ``counts`` are the numbers that :meth:`count` returns for these trends.
        """
        out = np.empty(int(counts.sum()), dtype=np.int64)
        self._guarded(block, begin, end, out)
        return take_trends(self._found, self._order[out])

    def _guarded(self, block: Block, begin: int, end: int, out: Ints) -> Ints:
        trends = np.array([begin, end], dtype=np.int64)
        return _guarded(self._walk, self._matches, self._events, self._slices, self._span, block, trends, out)


def _walk_of(spec: KernelSpec, number: int) -> Walk:
    machine = spec.query.machine
    states = len(machine.variables)
    variables = max((*machine.variables, 0)) + 1
    first = np.full(variables, -1, dtype=np.int64)
    following = np.full((states, variables), -1, dtype=np.int64)
    on_way = np.zeros((states, variables), dtype=np.int64)
    begins, ends = np.zeros(states, dtype=np.int64), np.zeros(states, dtype=np.int64)
    for state, guards in machine.initial:
        first[machine.variables[state]], begins[state] = state, number in guards
    for state, guards in machine.final:
        ends[state] = number in guards
    for edge in machine.edges:
        place = edge.source, machine.variables[edge.target]
        following[place], on_way[place] = edge.target, number in edge.guards
    return Walk(first, following, begins, on_way, ends)
