"""What a kernel is told of a query, of the rows that it reads, and of the answer that is wanted."""

from __future__ import annotations

from typing import Any

import attrs

from cetdsl.ir.accumulators import Lane, Output
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.ir.windowing import SLIDING, SPAN, Windowing, overlap

#: Which trends are asked for: all of them, or those that are not part of another one, by one of two readings.
ALL, MAXIMAL, ENDS = "all", "maximal", "ends"

#: Where windows are products of panes: the most states, because a product takes time with their cube, ...
MAX_PANES_STATES = 12


#: ... and so many windows per event at least, else going through each event once per window costs less.
MIN_PANES_OVERLAP = 4


@attrs.frozen
class KernelQuery:
    """What is looked for among the events of a key, in numbers.

    Attributes
    ----------
    machine : Machine
    negations : tuple of Negation
    windowing : Windowing
    pairs : tuple of Pair
    pivot : int
        The variable that all ``pairs`` have in common; -1 for none.
    completeness : {"all", "maximal", "ends"}
        Which trends are asked for.
    """

    machine: Machine
    negations: tuple[Negation, ...] = ()
    windowing: Windowing = attrs.field(factory=Windowing)
    pairs: tuple[Pair, ...] = ()
    pivot: int = -1
    completeness: str = ALL


@attrs.frozen
class Answer:
    """What the answer of a query consists of.

    Attributes
    ----------
    groups : int
        So many of the key columns, the first ones, are output.
    lanes : tuple of Lane
    outputs : tuple of Output
    number : {"decimal", "string", "double", "log2"}
    exact : bool
        Whether whole numbers are kept of counts and of sums of whole numbers.
    partial : bool
        Whether partial results are wanted, which are added up elsewhere.
    """

    groups: int = 0
    lanes: tuple[Lane, ...] = ()
    outputs: tuple[Output, ...] = ()
    number: str = "decimal"
    exact: bool = True
    partial: bool = False


@attrs.frozen
class KernelSpec:
    """All that a worker must know to answer a query over its sorted events."""

    query: KernelQuery
    layout: RowLayout
    answer: Answer = attrs.field(factory=Answer)

    def with_query(self, **changes: Any) -> KernelSpec:
        """The same over these rows, with changes to what is looked for."""
        return attrs.evolve(self, query=attrs.evolve(self.query, **changes))

    def with_answer(self, **changes: Any) -> KernelSpec:
        """The same query over these rows, with changes to what is answered."""
        return attrs.evolve(self, answer=attrs.evolve(self.answer, **changes))


#: Why events cannot be counted without looking at others.
COMPARED = "adjacent, pairwise or aggregate predicates compare events with each other"


NEGATED = "NOT needs the latest match of the negated pattern"


SPANNED = "a span without SLIDE needs one pass per first event"


_EXTREMES = {"min": "MIN", "shortest": "MIN", "max": "MAX", "longest": "MAX"}


def why_not_in_panes(spec: KernelSpec) -> str | None:
    """Why the windows of a query are no products of panes; None when they are.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge
    >>> steps = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> spec = KernelSpec(KernelQuery(steps), RowLayout.of(0, "t", "bigint"), Answer(lanes=(Lane("count", -2),)))
    >>> why_not_in_panes(spec)
    'without windows nothing says how long a pane is'
    """
    if (
        spec.query.pairs
        or spec.layout.lists
        or any(edge.comparisons or edge.listed for edge in spec.query.machine.edges)
    ):
        return COMPARED
    if spec.query.negations:
        return NEGATED
    if spec.query.windowing.kind == SPAN:
        return SPANNED
    if spec.query.windowing.kind != SLIDING:
        return "without windows nothing says how long a pane is"
    if len(spec.query.machine.variables) > MAX_PANES_STATES:
        return f"the automaton has more than {MAX_PANES_STATES} states"
    if extremes := dict.fromkeys(_EXTREMES[lane.kind] for lane in spec.answer.lanes if lane.kind in _EXTREMES):
        return f"an extreme is no sum of products: {', '.join(extremes)}"
    return None


def pays_in_panes(spec: KernelSpec) -> bool:
    """Whether the windows of a query are products of panes, and overlap enough for that to take less time."""
    return why_not_in_panes(spec) is None and overlap(spec.query.windowing) >= MIN_PANES_OVERLAP


def is_exact_lane(spec: KernelSpec, lane: Lane) -> bool:
    """Whether whole numbers are kept for this lane."""
    if not spec.answer.exact:
        return False
    return lane.kind == "count" or not spec.layout.values[lane.column].startswith(("double", "float"))
