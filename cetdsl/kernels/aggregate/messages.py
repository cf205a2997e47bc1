"""Counts the matches of an AND of single events whose predicates form a forest, without listing them.

The variables are the nodes of the forest, and the predicates between two variables are an edge, a *link*. An event of a
variable has a *message*: the number of ways to complete it to a match of all variables on its side of a link. It is a
product over the other links of the variable: each factor is the sum of the messages of those events at the far end that
the predicates allow beside the event. So messages are computed from the leaves towards a root, as in the algorithm of
Yannakakis for acyclic joins. The messages of the root's events add up to the number of matches of its tree, and the
numbers of the trees multiply. Sorting the events of each link takes most of the time
(:mod:`~cetdsl.kernels.aggregate.links`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Pair
from cetdsl.kernels._jit import jit
from cetdsl.kernels.aggregate.additive import System, additive_values, system_of
from cetdsl.kernels.aggregate.links import Link, Members, absorb, gather, link_of, send, walks_of
from cetdsl.kernels.aggregate.lots import in_lots
from cetdsl.kernels.answers.tables import Values, extreme_accumulators, turned
from cetdsl.kernels.machine.propagate import Accumulators
from cetdsl.kernels.numbers.ladder import MULTIPLIED, RANGE_BITS
from cetdsl.kernels.numbers.scaled import to_scaled
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Slices are evaluated together up to so many events; an event counts once for each slice that holds it.
_TOGETHER = 2**21


@jit
def members_of(mask: Ints, variable: int, low: Ints, high: Ints) -> Members:
    """Returns the events in each slice that may be bound to a variable."""
    size = 0
    for s in range(len(low)):
        for i in range(low[s], high[s]):
            size += (mask[i] >> variable) & 1
    slice_, event = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    size = 0
    for s in range(len(low)):
        for i in range(low[s], high[s]):
            if (mask[i] >> variable) & 1:
                slice_[size], event[size] = s, i
                size += 1
    return Members(slice_, event)


class MessageEvaluator:
    """Evaluates one query over chunk after chunk of sorted events, by messages between its variables."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.variables = sorted(set(spec.query.machine.variables))
        self.links: dict[tuple[int, int], list[Pair]] = {}
        for pair in spec.query.pairs:
            self.links.setdefault((pair.left_variable, pair.right_variable), []).append(pair)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """Computes all accumulators over all slices."""

        def together(lot: Slices, bounds: tuple[Ints, Ints]) -> Values:
            return values_of(self.spec, _Job(self, events, lot.low, lot.high), columns, len(events.time))

        return in_lots(slices, bounds, together, _TOGETHER)

    def neighbours(self, variable: int) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yields the variables at the other ends of a variable's links, each with the link."""
        for link in self.links:
            if variable in link:
                yield link[link[0] == variable], link

    def roots(self) -> list[int]:
        """Returns one variable of each tree of the forest."""
        found: list[int] = []
        reached: set[int] = set()
        for root in self.variables:
            if root in reached:
                continue
            found.append(root)
            stack = [root]
            while stack:
                variable = stack.pop()
                reached.add(variable)
                stack += [other for other, _ in self.neighbours(variable) if other not in reached]
        return found


class Job(Protocol):
    """One evaluation of some slices of an AND of single events; ``members`` are the events of each variable."""

    slices: int
    members: dict[int, Members]

    def compute(self, accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
        """Computes the accumulators of some slices, see :class:`~cetdsl.kernels.aggregate.additive.AdditivePass`."""

    def extremes(self, columns: list[ValueColumn], found: Bools) -> list[Ints]:
        """Computes the smallest or largest ranks, or lengths, of the slices in which a match was found."""


def values_of(spec: KernelSpec, job: Job, columns: list[ValueColumn], events: int) -> Values:
    """Evaluates all accumulators over the slices of a job; their chunk has ``events`` events."""
    ways = np.zeros(job.slices)
    for members in job.members.values():
        ways += np.log2(np.maximum(np.bincount(members.slice, minlength=job.slices), 1))
    moduli = (MULTIPLIED, MULTIPLIED)
    scaled, exact = additive_values(spec, columns, events, ways > RANGE_BITS, job.compute, moduli)
    found = scaled[0].real != 0
    return Values(found, exact, scaled, job.extremes(columns, found))


def own_messages(event: Ints, variable: int, accumulators: Accumulators, system: System) -> NDArray[Any]:
    """Returns the accumulators of events of a variable before any message has come: shape (events, accumulators)."""
    weights = accumulators.weights
    message = np.full((len(event), len(weights)), system.zero)
    message[:, 0] = system.one
    for k in range(1, len(weights)):
        if accumulators.bound[k] >> variable & 1:
            own = weights[k, event]
            message[:, k] = to_scaled(own) if isinstance(system.zero, np.complex128) else own
    return message


class _Job:
    """One evaluation of some slices: the members of each variable, and their links, which all passes share."""

    def __init__(self, evaluator: MessageEvaluator, events: Events, low: Ints, high: Ints) -> None:
        self.evaluator, self.events, self.slices = evaluator, events, len(low)
        self.members = {variable: members_of(events.mask, variable, low, high) for variable in evaluator.variables}
        self.links: dict[tuple[int, int], Link] = {
            ends: link_of(pairs, events, (self.members[ends[0]], self.members[ends[1]]))
            for ends, pairs in evaluator.links.items()
        }

    def compute(self, accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
        """Computes the accumulators of some slices, see :class:`~cetdsl.kernels.aggregate.additive.AdditivePass`."""
        system = system_of(kind, prime)

        def own(variable: int) -> NDArray[Any]:
            return own_messages(self.members[variable].event, variable, accumulators, system)

        out = np.zeros((0, 0), dtype=kind)
        for number, root in enumerate(self.evaluator.roots()):
            total = np.full((self.slices, len(accumulators.weights)), system.zero)
            gather(self._towards(root, -1, own, system), self.members[root].slice, total, system.prime)
            if number:
                absorb(out, total, system.prime, system.reciprocal)
            else:
                out = total
        return out[rows]

    def _towards(self, variable: int, parent: int, own: Any, system: System, clip: bool = False) -> NDArray[Any]:
        """Returns the messages of a variable's events to its ``parent``, made of those of its other neighbours.

        With the parent -1, the messages of all neighbours go into them. With ``clip``, the messages received are
        clipped to 1, so that they only say whether there is any way.
        """
        message: NDArray[Any] = own(variable)
        for other, ends in self.evaluator.neighbours(variable):
            if other == parent:
                continue
            sent = self._towards(other, variable, own, system, clip)
            received = np.full(message.shape, system.zero)
            backwards = other == ends[1]
            walks = walks_of(self.evaluator.links[ends], backwards)
            send(self.links[ends], backwards, walks, sent, received, system.zero, system.prime)
            if clip:
                received = np.minimum(received, 1)
            absorb(message, received, system.prime, system.reciprocal)
        return message

    def extremes(self, columns: list[ValueColumn], found: Bools) -> list[Ints]:
        """The smallest or largest ranks among the events that are part of a match, or lengths of matches."""
        known: dict[int, Bools] = {}
        out = []
        for accumulator in extreme_accumulators(self.evaluator.spec):
            if accumulator.is_length:
                out.append(np.where(found, len(self.evaluator.variables), 0))
                continue
            variable = accumulator.variable
            if variable not in known:
                known[variable] = self._completed(variable, found)
            members, (ranks, values) = self.members[variable], columns[accumulator.column].ranks()
            largest = accumulator.update.merge is Merge.LARGEST
            kept, best = known[variable], np.zeros(self.slices, dtype=np.int64)
            ranks = (ranks if largest else turned(ranks, len(values)))[members.event[kept]]
            np.maximum.at(best, members.slice[kept], ranks)
            out.append(best if largest else turned(best, len(values)))
        return out

    def _completed(self, variable: int, found: Bools) -> Bools:
        """Returns which events of a variable are part of a match."""

        def own(variable: int) -> NDArray[Any]:
            return np.ones((len(self.members[variable].event), 1))

        ways = self._towards(variable, -1, own, system_of(np.float64, np.float64(0)), clip=True)
        # Where a slice has a match, the other trees of the forest have one in it too.
        return (ways[:, 0] > 0) & found[self.members[variable].slice]
