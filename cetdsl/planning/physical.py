"""The physical vocabulary: what a kernel is told, in numbers only.

Everything here is plain data that pickles small and travels to the executors; no pattern node, no Spark object.
Variables, columns, negations and states are referred to by their position.
"""

from __future__ import annotations

import attrs

#: A window specification's ``kind``.
WHOLE, SLIDING, SPAN = "whole", "sliding", "span"

#: The forms a count may take (``number=``).
NUMBERS = ("decimal", "string", "double", "log2")


@attrs.frozen
class Comparison:
    """``columns[later] of the later event  <op>  columns[earlier] of the earlier one``."""

    op: str
    later: int
    earlier: int


@attrs.frozen
class Edge:
    """A step from one state to another, with what must hold between the two neighbouring events.

    ``listed`` names list columns: the earlier event must be in the later one's list (inseparable predicates).
    ``guards`` names negations that must have no match in the gap.
    """

    source: int
    target: int
    comparisons: tuple[Comparison, ...] = ()
    listed: tuple[int, ...] = ()
    guards: tuple[int, ...] = ()


@attrs.frozen
class Machine:
    """An automaton with predicates on its edges.

    Attributes
    ----------
    variables : tuple of int
        The variable that each state reads.
    initial, final : tuple of (int, tuple of int)
        State, and the negations that must have no match before the first or after the last event.
    edges : tuple of Edge
    """

    variables: tuple[int, ...]
    initial: tuple[tuple[int, tuple[int, ...]], ...]
    final: tuple[tuple[int, tuple[int, ...]], ...]
    edges: tuple[Edge, ...]


@attrs.frozen
class Pair:
    """A pairwise predicate: for every event of ``left_variable`` and every one of ``right_variable``.

    ``columns[left] of the one  <op>  columns[right] of the other``.
    """

    op: str
    left_variable: int
    left: int
    right_variable: int
    right: int


@attrs.frozen
class Negation:
    """What must not match in a gap.

    ``correlated`` relates its variables (left) to positive ones (right), ``pairs`` its own to each other.
    """

    machine: Machine
    correlated: tuple[Pair, ...] = ()
    pairs: tuple[Pair, ...] = ()


@attrs.frozen
class Lane:
    """One number that is propagated along trends.

    Attributes
    ----------
    kind : {"count", "sum", "min", "max", "shortest", "longest"}
        ``count`` adds 1 for every event of ``variable`` (-1: of any), or, with a column, for every one where the
        column is not NULL.
    variable : int
    column : int
        Position among the value columns; -1 for none.
    """

    kind: str
    variable: int = -1
    column: int = -1


@attrs.frozen
class Output:
    """A column of the answer, made of lanes.

    ``numerator`` is the lane that holds the value; ``denominator`` (AVG) what it is divided by; for SUM, MIN and
    MAX ``present`` counts the non-null values, so that none of them gives NULL. ``-1`` is the number of trends.
    ``type`` is the Spark type of the aggregated column, or "" for counts.
    """

    name: str
    function: str
    numerator: int = -1
    denominator: int = -1
    present: int = -1
    type: str = ""


@attrs.frozen
class Windowing:
    """How time is cut: ``length`` and ``slide`` in the time column's own unit.

    ``cut`` > 0 says that the key has a last column that numbers stretches of time of this length: a task answers
    only the windows (or, for a span, the trends)
    that start in its own stretch, so that one long key is spread over all cores.
    """

    kind: str = WHOLE
    length: int = 0
    slide: int = 0
    cut: int = 0


@attrs.frozen
class KernelSpec:
    """All that a worker must know to answer a query over its sorted events.

    Its input columns are, in this order: ``keys`` key columns (the first ``groups`` of them are output), the number
    of the
    time stretch if ``windowing.cut``, time, ``ties`` tie-break columns, the bit mask of variables that the event
    may be bound
    to, ``codes`` columns that comparisons refer to, ``values`` columns that lanes refer to, ``lists`` list
    columns preceded by the event's position in its key (if any), and for trends the event itself. If ``packed`` > 0
    there is no mask: the time column holds ``time * 2**packed + mask``.
    """

    machine: Machine
    negations: tuple[Negation, ...]
    windowing: Windowing
    keys: int
    groups: int
    time: str
    time_type: str
    ties: int
    codes: int
    values: tuple[str, ...]
    lists: int
    pairs: tuple[Pair, ...] = ()
    pivot: int = -1
    lanes: tuple[Lane, ...] = ()
    outputs: tuple[Output, ...] = ()
    number: str = "decimal"
    exact: bool = True
    partial: bool = False
    packed: int = 0


def is_exact_lane(spec: KernelSpec, lane: Lane) -> bool:
    """Whether whole numbers are kept for this lane."""
    if not spec.exact:
        return False
    return lane.kind == "count" or not spec.values[lane.column].startswith(("double", "float"))


@attrs.frozen
class TrendsSpec:
    """What a worker must know to list trends.

    Attributes
    ----------
    kernel : KernelSpec
        Its input has the event itself, a struct, as the last column.
    keys : tuple of int
        Positions of the key columns that the answer shows.
    variables : tuple of str
    fields : tuple of str
        Names of the event's fields in the answer.
    limit : int
        Trends that one task lists at most; -1: all.
    """

    kernel: KernelSpec
    keys: tuple[int, ...]
    variables: tuple[str, ...]
    fields: tuple[str, ...]
    limit: int = -1
