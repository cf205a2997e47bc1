"""Turns a matching policy into columns of events and comparisons of neighbours.

A policy other than ANY says which events may lie between two neighbours of a trend. Where that depends on the earlier
of them alone, and on the state that it is bound in, all events that may come next are of one instant. A *link* is a
column that holds this instant, so that the policy is an equality of neighbours like any other: the instant of the later
event is the one that the link of the earlier event leads to.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Comparison, Machine
from cetdsl.pattern.query import ANY, NEXT


@attrs.frozen
class Option:
    """One way to go on: an event of a variable, for which comparisons and lists of an edge hold."""

    variable: int
    comparisons: tuple[Comparison, ...]
    listed: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether any event of the variable will do."""
        return not (self.comparisons or self.listed)


@attrs.frozen
class Link:
    """The first later instant with an event that an event of ``source``, a variable, may be followed by.

    Where all options are plain, it does not depend on the event, and ``source`` is -1.
    """

    source: int
    options: frozenset[Option]


def links_of(machine: Machine) -> dict[Link, tuple[int, ...]]:
    """Returns the links of a machine whose policy is NEXT, each with the states whose events it leads on from.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)), NEXT)  # SEQ(A, B+)
    >>> [([option.variable for option in link.options], states) for link, states in links_of(machine).items()]
    [([1], (0, 1))]
    """
    options: dict[int, set[Option]] = {}
    for edge in machine.edges:
        # What NOT forbids is judged of the trend, and does not keep an event from being bound.
        one = Option(machine.variables[edge.target], edge.comparisons, edge.listed)
        options.setdefault(edge.source, set()).add(one)
    found: dict[Link, tuple[int, ...]] = {}
    for state in sorted(options):
        is_plain = all(option.is_plain for option in options[state])
        link = Link(-1 if is_plain else machine.variables[state], frozenset(options[state]))
        found[link] = (*found.get(link, ()), state)
    return found


def columns_of_policy(machine: Machine) -> int:
    """Returns how many columns a machine's policy adds to the events, behind the one of their instants.

    STRICT adds two: the instant of an event that is alone in it, and the one after it.
    """
    if machine.matching == ANY:
        return 0
    return len(links_of(machine)) if machine.matching == NEXT else 2


def comparisons_of_policy(machine: Machine, columns: int) -> dict[int, Comparison]:
    """Returns the comparison, by state, of an event with the next one by a policy; ``columns``: that of instants."""
    if machine.matching == ANY:
        return {}
    if machine.matching == NEXT:
        links = enumerate(links_of(machine).values(), columns + 1)
        return {state: Comparison("=", columns, link) for link, states in links for state in states}
    return dict.fromkeys(range(len(machine.variables)), Comparison("=", columns + 1, columns + 2))
