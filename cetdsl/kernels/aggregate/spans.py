"""Counts the matches of an AND of single events that lie within a span, by the first event of each match.

The predicates are such that one event decides alone beside which events of every other variable it may stand: given
that event, the other events of a match need not be compared with each other. So the number of matches that begin with
an event is a product with one factor for each other variable: the number of its events, up to a span later, that the
predicates with the first event allow. A match whose first instant has events of several variables is counted once, by
the first of these variables in their order: the events of a variable before that one must be later than the first
event, and those of a variable behind it may be simultaneous.

Time is cut into *areas* as long as a span. So the events up to a span after a first event lie in the rest of its own
area and in the beginning of the next one. A tree of sums has the events of the other variable as leaves, sorted by area
and value, so that the values that a predicate allows in one area are a range of leaves. One walk against time adds
events to the tree and asks for the sums in the first events' own areas; another walk, along time, asks for those in the
next areas. Together they take ``n log n`` steps. Nothing is ever subtracted, so sums of doubles lose nothing to
cancellation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Pair
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.aggregate.additive import System, system_of
from cetdsl.kernels.aggregate.links import Link, Members, Walks, absorb, gather, link_of, walks_of
from cetdsl.kernels.aggregate.messages import members_of, own_messages, values_of
from cetdsl.kernels.answers.tables import Values, extreme_accumulators, turned
from cetdsl.kernels.machine.propagate import Accumulators
from cetdsl.kernels.numbers.arithmetic import RAISE_TO
from cetdsl.kernels.numbers.linear import NO_TREND, add
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn


class SpanEvaluator:
    """Evaluates one query over chunk after chunk of sorted events, about the first event of each match."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.variables = sorted(set(spec.query.machine.variables))
        #: The predicates between two variables, in both directions: each is turned so that its left side is the first
        #: variable of the key.
        self.links: dict[tuple[int, int], list[Pair]] = {}
        for pair in spec.query.pairs:
            for one in (pair, pair.turned):
                self.links.setdefault((one.left_variable, one.right_variable), []).append(one)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """Computes all accumulators over all slices."""
        return values_of(self.spec, _Job(self, events, slices, bounds), columns, len(events.time))


class _Asked(NamedTuple):
    """The events of another variable that may stand beside each first event, as ranges of places.

    A *place* is the position of an event of the other variable when these are sorted by area and value.

    Attributes
    ----------
    low, high : int64 arrays, shape (2, 2 * first events)
        For each first event two ranges of places in its own area; then, for each first event again, two ranges in the
        next area. A range may be empty.
    place : int64 array, shape (members,)
        The place of each event of the other variable; -1 if it has none, because a value that is compared is NULL.
    """

    low: Ints
    high: Ints
    place: Ints


class _Job:
    """One evaluation of some slices: the events of each variable, and beside which of them each first event may stand.

    All passes over the slices, one per number system, share these.
    """

    def __init__(self, evaluator: SpanEvaluator, events: Events, slices: Slices, bounds: tuple[Ints, Ints]) -> None:
        self.evaluator, self.time, self.slices = evaluator, events.time, len(slices.low)
        self.span = evaluator.spec.query.windowing.length
        self.members = {
            variable: members_of(events.mask, variable, slices.low, slices.high) for variable in evaluator.variables
        }
        areas = _areas(events.time, slices.low, slices.high, self.span)
        start = np.cumsum(slices.high - slices.low) - slices.high  # of the areas of a slice, less its first event
        area = {variable: areas[start[one.slice] + one.event] for variable, one in self.members.items()}
        self.firsts: dict[int, Ints] = {}
        self.asked: dict[tuple[int, int], _Asked] = {}
        for variable, (slice_, event) in self.members.items():
            # Matches that begin outside the bounds are counted with another chunk or time bucket.
            begins = (bounds[0][slice_] <= events.time[event]) & (events.time[event] < bounds[1][slice_])
            self.firsts[variable] = np.flatnonzero(begins)
            first, own = event[self.firsts[variable]], area[variable][self.firsts[variable]]
            queries = Members(np.concatenate((own, own + 1)), np.tile(first, 2))
            for other in evaluator.variables:
                if other != variable:
                    pairs, beside = evaluator.links.get((variable, other), []), self.members[other].event
                    link = link_of(pairs, events, (queries, Members(area[other], beside)))
                    walks = walks_of(pairs, backwards=True)
                    self.asked[variable, other] = _Asked(*_ranges(link, walks, len(beside)))

    def compute(self, accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
        """Computes the accumulators of some slices, see :class:`~cetdsl.kernels.aggregate.additive.AdditivePass`."""
        system = system_of(kind, prime)
        own = {
            variable: own_messages(members.event, variable, accumulators, system)
            for variable, members in self.members.items()
        }
        return self._total(own, system)[rows]

    def _total(self, own: dict[int, NDArray[Any]], system: System) -> NDArray[Any]:
        """Adds up the matches of each slice; ``own`` has the accumulators of each event of a variable by itself."""
        total = np.full((self.slices, next(iter(own.values())).shape[1]), system.zero)
        for variable, firsts in self.firsts.items():
            members = self.members[variable]
            begins = Members(members.slice[firsts], members.event[firsts])
            message = own[variable][firsts]
            for other in self.evaluator.variables:
                if other == variable:
                    continue
                received = np.full(message.shape, system.zero)
                asked, beside = self.asked[variable, other], self.members[other]
                limits = self.time, self.span, other < variable
                receive(begins, beside, asked, *limits, own[other], received, system.zero, system.prime)
                absorb(message, received, system.prime, system.reciprocal)
            gather(message, begins.slice, total, system.prime)
        return total

    def extremes(self, columns: list[ValueColumn], found: Bools) -> list[Ints]:
        """The smallest or largest ranks among the events that are part of a match, or lengths of matches."""
        system = System(np.int64(NO_TREND), np.int64(0), np.int64(RAISE_TO), 0.0)
        out = []
        for accumulator in extreme_accumulators(self.evaluator.spec):
            if accumulator.is_length:
                out.append(np.where(found, len(self.evaluator.variables), 0))
                continue
            ranks, values = columns[accumulator.column].ranks()
            largest = accumulator.update.merge is Merge.LARGEST
            kept = ranks if largest else turned(ranks, len(values))
            own = {
                variable: (kept[members.event] if variable == accumulator.variable else 0 * members.event)[:, None]
                for variable, members in self.members.items()
            }
            best = np.maximum(self._total(own, system)[:, 0], 0)
            out.append(best if largest else turned(best, len(values)))
        return out


@jit
def _areas(time: Ints, low: Ints, high: Ints, span: int) -> Ints:
    """Numbers the area of each event of each slice, one slice after the other; slices may have events in common.

    Two areas have consecutive numbers if and only if the one follows the other directly, in the same slice.
    """
    area = np.zeros((high - low).sum(), dtype=np.int64)
    number = count = 0
    for s in range(len(low)):
        number += 2  # what follows another slice is not next to it
        for i in range(low[s], high[s]):
            if i > low[s]:
                number += min((time[i] - time[low[s]]) // span - (time[i - 1] - time[low[s]]) // span, 2)
            area[count] = number
            count += 1
    return area


@jit
def _ranges(link: Link, walks: Walks, members: int) -> tuple[Ints, Ints, Ints]:
    """Returns the fields of :class:`_Asked`: ranges among the ``members`` events of the link's second side."""
    low, high = np.zeros((2, link.first), dtype=np.int64), np.zeros((2, link.first), dtype=np.int64)
    place = np.full(members, -1)
    runs = len(link.run) - 1
    before = np.zeros(runs + 1, dtype=np.int64)
    for r in range(runs):
        before[r + 1] = before[r]
        for at in range(link.run[r], link.run[r + 1]):
            if link.member[at] >= link.first:
                place[link.member[at] - link.first] = before[r + 1]
                before[r + 1] += 1
    begin = 0
    while begin < runs:
        end = begin + 1
        while not link.begins[end]:
            end += 1
        for r in range(begin, end):
            for at in range(link.run[r], link.run[r + 1]):
                q = link.member[at]
                if q < link.first:
                    # Smaller and larger values are two ranges, one if equal ones count too.
                    low[0, q] = before[begin] if walks.smaller else before[r] if walks.equal else before[r + 1]
                    high[0, q] = before[r + 1] if walks.equal else before[r]
                    if walks.larger:
                        low[1, q], high[1, q] = before[r + 1], before[end]
        begin = end
    return low, high, place


@inlined
def _let_in(tree: NDArray[Any], place: int, sent: NDArray[Any], prime: Any) -> None:
    """Adds an event to a tree of sums, whose node ``n`` has the children ``2 * n`` and ``2 * n + 1``."""
    node = place + len(tree) // 2
    tree[node] = sent
    while node > 1:
        node //= 2
        for k in range(tree.shape[1]):
            tree[node, k] = add(tree[2 * node, k], tree[2 * node + 1, k], prime)


@inlined
def _collect(tree: NDArray[Any], low: int, high: int, received: NDArray[Any], prime: Any) -> None:
    """Adds the sum over a range of a tree's places to ``received``."""
    low, high = low + len(tree) // 2, high + len(tree) // 2
    while low < high:
        if low % 2:
            for k in range(tree.shape[1]):
                received[k] = add(received[k], tree[low, k], prime)
            low += 1
        if high % 2:
            high -= 1
            for k in range(tree.shape[1]):
                received[k] = add(received[k], tree[high, k], prime)
        low, high = low // 2, high // 2


@jit
def receive(
    firsts: Members,
    beside: Members,
    asked: _Asked,
    time: Ints,
    span: int,
    later: bool,
    sent: NDArray[Any],
    received: NDArray[Any],
    zero: Any,
    prime: Any,
) -> None:
    """Sums up, for each first event, the accumulators of the other variable's events that may stand beside it.

    Parameters
    ----------
    firsts, beside : Members
        The first events, and the events of the other variable, in order of time.
    asked : _Asked
        Beside which of the latter each of the former may stand.
    time, span
        The time of each event of the chunk, and how much later than the first event another one may be.
    later : bool
        Whether the other event must be later than the first one; else it may be simultaneous.
    sent : array, shape (events of the other variable, accumulators)
        The accumulators of the other variable's events.
    received : array, shape (first events, accumulators)
        The sums are added to it.
    zero, prime
        The number 0, and the modulus of ``uint64`` arithmetic, or the operation of the lattice.
    """
    size, places = len(firsts.event), len(beside.event)
    tree = np.full((2 * places, sent.shape[1]), zero)
    at = places
    for f in range(size - 1, -1, -1):
        own, begin = firsts.slice[f], time[firsts.event[f]]
        while at > 0:
            slice_, when = beside.slice[at - 1], time[beside.event[at - 1]]
            if slice_ < own or (slice_ == own and (when < begin or (later and when == begin))):
                break
            at -= 1
            if asked.place[at] >= 0:
                _let_in(tree, asked.place[at], sent[at], prime)
        for r in range(2):
            _collect(tree, asked.low[r, f], asked.high[r, f], received[f], prime)
    tree[:] = zero
    for f in range(size):
        own, begin = firsts.slice[f], time[firsts.event[f]]
        while at < places:
            slice_, when = beside.slice[at], time[beside.event[at]]
            if slice_ > own or (slice_ == own and when - begin > span):
                break
            if asked.place[at] >= 0:
                _let_in(tree, asked.place[at], sent[at], prime)
            at += 1
        for r in range(2):
            _collect(tree, asked.low[r, size + f], asked.high[r, size + f], received[f], prime)
