"""Turns a matching policy into columns of events and comparisons of neighbours.

A policy other than ANY restricts the events between two neighbours of a trend. The earlier neighbour and its state
alone decide which events may come next, and all of these have one instant. A *link* is a column that holds this
instant. So the policy becomes an equality between neighbours like any other: the instant of the later event equals the
link of the earlier event.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Comparison, Machine
from cetdsl.pattern.query import ANY, NEXT


@attrs.frozen
class Option:
    """One way to continue: an event of a variable, for which the comparisons and lists of an edge hold."""

    variable: int
    comparisons: tuple[Comparison, ...]
    listed: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether any event of the variable will do."""
        return not (self.comparisons or self.listed)


@attrs.frozen
class Link:
    """The first instant after an event of the variable ``source`` with an event by one of the ``options``.

    If all options are plain, it does not depend on the event's variable, and ``source`` is -1.
    """

    source: int
    options: frozenset[Option]


def links_of(machine: Machine) -> dict[Link, tuple[int, ...]]:
    """Returns the links of a machine whose policy is NEXT, each with the states from which it leads on.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)), NEXT)  # SEQ(A, B+)
    >>> [([option.variable for option in link.options], states) for link, states in links_of(machine).items()]
    [([1], (0, 1))]
    """
    options: dict[int, set[Option]] = {}
    for edge in machine.edges:
        # Guards forbid finished trends; an event that they forbid could still have been bound next.
        one = Option(machine.variables[edge.target], edge.comparisons, edge.listed)
        options.setdefault(edge.source, set()).add(one)
    found: dict[Link, tuple[int, ...]] = {}
    for state in sorted(options):
        is_plain = all(option.is_plain for option in options[state])
        link = Link(-1 if is_plain else machine.variables[state], frozenset(options[state]))
        found[link] = (*found.get(link, ()), state)
    return found


def columns_of_policy(machine: Machine) -> int:
    """Returns how many columns a machine's policy adds to the events, behind the column of instants.

    STRICT adds two: the instant of an event that is alone in its instant, and the instant after the event.
    """
    if machine.matching == ANY:
        return 0
    return len(links_of(machine)) if machine.matching == NEXT else 2


def comparisons_of_policy(machine: Machine, columns: int) -> dict[int, Comparison]:
    """Returns, by the earlier event's state, the policy as a comparison; ``columns`` is the column of instants."""
    if machine.matching == ANY:
        return {}
    if machine.matching == NEXT:
        links = enumerate(links_of(machine).values(), columns + 1)
        return {state: Comparison("=", columns, link) for link, states in links for state in states}
    return dict.fromkeys(range(len(machine.variables)), Comparison("=", columns + 1, columns + 2))
