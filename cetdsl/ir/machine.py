"""Automata with predicates on their edges, in numbers: variables, columns, negations and states by position."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import attrs

from cetdsl.pattern.automaton import reach
from cetdsl.pattern.expressions import MIRRORED
from cetdsl.pattern.query import ANY

#: The operator of a pairwise predicate that Spark has tested: list columns say which events satisfy it.
LISTED = "listed"


@attrs.frozen
class Comparison:
    """``columns[later] of the later event  <op>  columns[earlier] of the earlier one``."""

    op: str
    later: int
    earlier: int


@attrs.frozen
class Edge:
    """A transition from one state to another, with what must hold between the two neighbouring events.

    ``listed`` has numbers of list columns: the earlier event must be in the later one's list. So predicates are
    expressed that do not split into a side for each event. ``guards`` has the numbers of negations that must have no
    match between the two events. They are ``met`` if every event that the source state reads is itself a match of each.
    """

    source: int
    target: int
    comparisons: tuple[Comparison, ...] = ()
    listed: tuple[int, ...] = ()
    guards: tuple[int, ...] = ()
    met: bool = False


@attrs.frozen
class Machine:
    """An automaton with predicates on its edges.

    ``variables`` says which variable each state reads. ``initial`` and ``final`` are states, each with the negations
    that must have no match before the first or after the last event. ``matching`` says which events may lie between two
    neighbours.
    """

    variables: tuple[int, ...]
    initial: tuple[tuple[int, tuple[int, ...]], ...]
    final: tuple[tuple[int, tuple[int, ...]], ...]
    edges: tuple[Edge, ...]
    matching: str = ANY


def longest_trend(machine: Machine) -> int:
    """Returns how many events a trend has at most; 0: any number.

    Examples
    --------
    >>> sequence = Machine((0, 1, 2), ((0, ()),), ((2, ()),), (Edge(0, 1), Edge(1, 2)))
    >>> longest_trend(sequence), longest_trend(attrs.evolve(sequence, edges=(*sequence.edges, Edge(1, 1))))
    (3, 0)
    """
    before: dict[int, set[int]] = {state: set() for state in range(len(machine.variables))}
    for edge in machine.edges:
        before[edge.target].add(edge.source)
    length: dict[int, int] = {}
    try:
        for state in TopologicalSorter(before).static_order():
            length[state] = 1 + max((length[source] for source in before[state]), default=0)
    except CycleError:
        return 0
    return max(length.values(), default=0)


def always_binds(machine: Machine, variable: int) -> bool:
    """Whether every word of the machine has the variable.

    Examples
    --------
    >>> machine = Machine((0, 1), ((0, ()),), ((0, ()), (1, ())), (Edge(0, 1), Edge(1, 1)))
    >>> always_binds(machine, 0), always_binds(machine, 1)
    (True, False)
    """
    without = {state for state, read in enumerate(machine.variables) if read != variable}
    arrows = [(edge.source, edge.target) for edge in machine.edges if without.issuperset((edge.source, edge.target))]
    passed = reach({state for state, _ in machine.initial} & without, arrows)
    return not any(state in passed for state, _ in machine.final)


def may_follow(machine: Machine, earlier: int, later: int) -> bool:
    """Whether a trend may bind an event to one variable, and a later event to another.

    Examples
    --------
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> may_follow(machine, 0, 1), may_follow(machine, 1, 0)
    (True, False)
    """
    arrows = [(edge.source, edge.target) for edge in machine.edges]
    behind = {target for source, target in arrows if machine.variables[source] == earlier}
    return any(machine.variables[state] == later for state in reach(behind, arrows))


@attrs.frozen
class Pair:
    """A pairwise predicate: for every event of ``left_variable`` and every one of ``right_variable``.

    ``columns[left] of the one  <op>  columns[right] of the other``. If ``op`` is :data:`LISTED`, ``left`` and ``right``
    are the numbers of list columns. If the event of ``left_variable`` comes first, the later event's list ``left`` must
    have it; if the event of ``right_variable`` comes first, the later event's list ``right`` must have it. -1 stands
    for an order in which no trend binds the two.
    """

    op: str
    left_variable: int
    left: int
    right_variable: int
    right: int

    @property
    def turned(self) -> Pair:
        """The same predicate, with its sides exchanged."""
        op = MIRRORED.get(self.op, self.op)
        return Pair(op, self.right_variable, self.right, self.left_variable, self.left)

    def about(self, variable: int) -> Pair | None:
        """The predicate with a variable on its right; None if it does not relate this variable."""
        return next((one for one in (self, self.turned) if one.right_variable == variable), None)


@attrs.frozen
class Negation:
    """A pattern that must not match in a gap.

    ``correlated`` are predicates between its variables (left) and those of the trend (right); ``pairs`` are predicates
    between its own variables, and ``pivot`` serves them as in :class:`~cetdsl.ir.kernel.KernelQuery`. If the negation
    is ``deferred``, its matches forbid a trend only if predicates hold that are judged later. If it has a ``sight``,
    its matches are single events, and the sight compares them with an event of the trend beside the gap: by ``<`` or
    ``<=`` with the event before the gap, by ``>`` or ``>=`` with the one behind it. If the comparison fails for the
    match nearest to this event, it fails for all others, and the negation forbids nothing.
    """

    machine: Machine
    correlated: tuple[Pair, ...] = ()
    pairs: tuple[Pair, ...] = ()
    pivot: int = -1
    deferred: bool = False
    sight: Pair | None = None

    @property
    def looks_ahead(self) -> bool:
        """Whether it has a sight that compares with the event before its gap."""
        return self.sight is not None and self.sight.op in ("<", "<=")

    @property
    def looks_at_trend(self) -> bool:
        """Whether the matches that it forbids depend on the events of the trend."""
        return bool(self.correlated) or self.deferred
