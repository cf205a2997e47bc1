"""The parts of a kernel's task: the query, the rows that it reads, and the answer that is wanted."""

from __future__ import annotations

from typing import Any

import attrs

from cetdsl.ir.accumulators import Accumulator, Output
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.ir.shadows import Shadows
from cetdsl.ir.windowing import Windowing

#: The requested trends: all of them, or the complete ones in one of two senses. A trend is complete if no trend has
#: all of its bindings and more: more anywhere (``MAXIMAL``), or more before its first or after its last one (``ENDS``).
ALL, MAXIMAL, ENDS = "all", "maximal", "ends"
#: Why no one graph has the trends as its paths.
NOT_NEIGHBOURS = "a pairwise predicate relates events that are no neighbours"


@attrs.frozen
class KernelQuery:
    """The part of a query that a kernel evaluates over the events of a key, in numbers.

    ``pivot`` is a variable that binds exactly one event of each trend (-1: none). The kernel makes a pass for each of
    its events, so that predicates in ``pairs`` compare with a fixed event: all of them if trends are counted, some if
    they are listed. If the predicates have no variable in common, those that do not mention the pivot mention another
    such variable, ``outer``, and the kernel makes a pass for each two events of both. ``completeness`` says which
    trends are requested: "all", "maximal" or "ends". If the edges at the ends of a path do not show which trends these
    are, ``shadows`` do (:mod:`cetdsl.ir.shadows`), and the machine is one that was made for them.
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
        """Whether, with a span, events before the first event of a trend decide whether the trend is an answer."""
        return bool(self.negations) or self.shadows is not None

    @property
    def pivot_begins(self) -> bool:
        """Whether there is a pivot, and every trend begins with it."""
        first = {self.machine.variables[state] for state, _ in self.machine.initial}
        return self.pivot >= 0 and first <= {self.pivot}

    @property
    def why_not_one_graph(self) -> str | None:
        """The reason why there is no single graph whose paths from sources to sinks are the trends; None: there is."""
        if self.pairs:
            return NOT_NEIGHBOURS
        if self.shadows is not None:
            return "the edges at the ends of a path do not tell whether it is a trend that is asked for"
        return None

    @property
    def why_not_joined(self) -> str | None:
        """The reason why Spark's joins cannot answer from a graph without a kernel; None: they can."""
        if reason := self.why_not_one_graph:
            return reason
        if self.negations:
            return "a kernel tells whether something that NOT forbids lies between two events"
        if self.completeness == ALL:
            return "trends that are not complete begin and end anywhere, and joins go from the first events to the last"
        if self.edges_by_kernel:
            return (
                "joins can tell which edges a longer path bypasses only if a predicate equates a value of neighbouring "
                "events"
            )
        return None

    @property
    def edges_by_kernel(self) -> bool:
        """Whether a kernel lists the edges that joins follow.

        It does if there are NOTs, which forbid some edges. For "maximal" trends it finds the edges that no longer path
        bypasses, unless each edge compares by an equality: then few events may follow one, and joins find these edges.
        """
        by_equality = (any(c.op == "=" for c in edge.comparisons) for edge in self.machine.edges)
        return bool(self.negations) or (self.completeness == MAXIMAL and not all(by_equality))


@attrs.frozen
class Answer:
    """The contents of the answer of a query.

    The first ``groups`` key columns are output. If the answer is ``exact``, counts and sums of whole numbers are kept
    as whole numbers. Another operator adds up ``partial`` results. With ``zeros``, groups and windows that have events
    but no trend have a row as well, which withdraws one that was given earlier.
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
