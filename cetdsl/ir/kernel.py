"""The parts of a kernel's task: the query, the rows that it reads, and the answer that is wanted."""

from __future__ import annotations

from typing import Any

import attrs

from cetdsl.ir.accumulators import Accumulator, Output
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.ir.shadows import Shadows
from cetdsl.ir.windowing import Windowing

#: Which trends are asked for: all of them, or those that are not part of another one, by one of two readings.
ALL, MAXIMAL, ENDS = "all", "maximal", "ends"
#: Why no one graph has the trends as its paths.
NOT_NEIGHBOURS = "a pairwise predicate relates events that are no neighbours"


@attrs.frozen
class KernelQuery:
    """The part of a query that a kernel evaluates over the events of a key, in numbers.

    ``pivot`` is a variable that is bound to one event of every trend, -1: none. The kernel takes each of its events in
    turn, so that the predicates in ``pairs`` compare with a fixed one: all of them where trends are counted, some where
    they are listed. Where they have no variable in common, those that are not about the pivot are about another such
    variable, ``outer``, and the kernel takes each event of both. ``completeness`` says which trends are asked for:
    "all", "maximal" or "ends". Where the edges at the ends of a path do not tell which trends these are, ``shadows``
    do, and the states are those of a machine made for it.
    """

    machine: Machine
    negations: tuple[Negation, ...] = ()
    windowing: Windowing = attrs.field(factory=Windowing)
    pairs: tuple[Pair, ...] = ()
    pivot: int = -1
    completeness: str = ALL
    shadows: Shadows | None = None
    outer: int = -1

    @property
    def pivots(self) -> tuple[int, ...]:
        """The variables whose events are taken in turn."""
        return tuple(variable for variable in (self.pivot, self.outer) if variable >= 0)

    @property
    def looks_back(self) -> bool:
        """Whether, with a span, events before the first one of a trend decide whether it is an answer."""
        return bool(self.negations) or self.shadows is not None

    @property
    def pivot_begins(self) -> bool:
        """Whether there is a pivot, and every trend begins with it."""
        first = {self.machine.variables[state] for state, _ in self.machine.initial}
        return self.pivot >= 0 and first <= {self.pivot}

    @property
    def why_not_one_graph(self) -> str | None:
        """The reason why no single graph of events has the trends as its paths from sources to sinks; None: one has."""
        if self.pairs:
            return NOT_NEIGHBOURS
        if self.shadows is not None:
            return "the edges at the ends of a path do not tell whether it is a trend that is asked for"
        return None

    @property
    def why_not_joined(self) -> str | None:
        """The reason why Spark's joins cannot take a graph of which no task may hold anything; None: they can."""
        if reason := self.why_not_one_graph:
            return reason
        if self.negations:
            return "a kernel tells whether something that NOT forbids lies between two events"
        if self.completeness == ALL:
            return "trends that are not complete begin and end anywhere, and joins go from the first events to the last"
        if self.edges_by_kernel:
            return (
                "which edges a longer path goes round, a kernel tells that has the index of a key, unless each event "
                "equals the one before in some value"
            )
        return None

    @property
    def edges_by_kernel(self) -> bool:
        """Whether a kernel lists the edges that joins follow.

        NOT forbids some of them. Of "maximal" trends, no longer path goes round them; joins tell that where each event
        equals the one before in some value, so that few may follow one.
        """
        by_equality = (any(c.op == "=" for c in edge.comparisons) for edge in self.machine.edges)
        return bool(self.negations) or (self.completeness == MAXIMAL and not all(by_equality))


@attrs.frozen
class Answer:
    """The contents of the answer of a query.

    The first ``groups`` key columns are output. Where the answer is ``exact``, counts and sums of whole numbers are
    kept as whole numbers. ``partial`` results are added up elsewhere. With ``zeros``, groups and windows of which there
    are events, but no trend, have a row as well: it takes back one that was given before.
    """

    groups: int = 0
    accumulators: tuple[Accumulator, ...] = ()
    outputs: tuple[Output, ...] = ()
    number: str = "decimal"
    exact: bool = True
    partial: bool = False
    zeros: bool = False


@attrs.frozen
class KernelSpec:
    """The specification by which a worker answers a query over its sorted events."""

    query: KernelQuery
    layout: RowLayout
    answer: Answer = attrs.field(factory=Answer)

    def with_query(self, **changes: Any) -> KernelSpec:
        """Returns a copy for the same rows, with changes to the query."""
        return attrs.evolve(self, query=attrs.evolve(self.query, **changes))

    def with_answer(self, **changes: Any) -> KernelSpec:
        """Returns a copy for the same rows and query, with changes to the answer."""
        return attrs.evolve(self, answer=attrs.evolve(self.answer, **changes))


def is_exact_accumulator(spec: KernelSpec, accumulator: Accumulator) -> bool:
    """Whether whole numbers are propagated for this accumulator."""
    if not spec.answer.exact:
        return False
    return accumulator.update.power == 0 or not spec.layout.values[accumulator.column].startswith(("double", "float"))


def is_whole_in_rows(spec: KernelSpec, accumulator: Accumulator) -> bool:
    """Whether partial results hold whole numbers for this accumulator, as they do for all moments."""
    return accumulator.update.moment or is_exact_accumulator(spec, accumulator)
