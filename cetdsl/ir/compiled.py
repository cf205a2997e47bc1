"""A query in numbers: its automaton, and the columns of single events that its predicates need."""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.pattern.automaton import Automaton
from cetdsl.pattern.expressions import Expr, attributes

#: One bit of a 64-bit mask per variable.
MAX_VARIABLES = 62


@attrs.frozen
class CodeColumn:
    """A column that comparisons refer to; if a ``partner`` is given, both are compared in their common type.

    The column is ``in_order`` if the conversion to the common type keeps the order of values.
    """

    expr: Expr
    partner: Expr | None = None
    in_order: bool = True


@attrs.frozen
class ListColumn:
    """A column of lists: Spark tests a predicate on pairs of events, and each event lists its earlier partners.

    In the predicate, attributes of the later event have the role NEXT. ``earlier`` and ``later`` are the numbers of the
    variables that must be able to bind the two events; -1: any. Spark tests the predicate only for pairs for which the
    ``guard`` holds: other conditions of the query may exclude events for which the predicate would fail, for example by
    a division by zero.
    """

    predicate: Expr
    earlier: int = -1
    later: int = -1
    guard: Expr | None = None

    @property
    def names(self) -> dict[str, None]:
        """The names of the columns that are compared, in reading order."""
        parts = (self.predicate,) if self.guard is None else (self.predicate, self.guard)
        return dict.fromkeys(node.name for part in parts for node in attributes(part))


@attrs.frozen
class Deferred:
    """A ``negation``, by its number, whose predicates Spark evaluates once trends have been listed.

    A match of the negation forbids a trend if all ``predicates`` hold. The match binds ``variables``; the trend binds
    all others that the predicates mention.
    """

    negation: int
    variables: tuple[str, ...]
    predicates: tuple[Expr, ...]


@attrs.frozen
class Parts:
    """The *parts* of a variable of the query: variables that replace it, each for some of its events.

    :mod:`cetdsl.planning.extremes` makes parts: one for an extreme event, and others for the events before and after
    it. ``words`` describe them to a user. The first of their ``numbers`` is that of the whole variable.
    """

    variable: str
    numbers: tuple[int, ...]
    words: str


@attrs.frozen
class Compiled:
    """A query (or one side of a top-level AND) in numbers.

    ``variables`` are names and conditions; their positions are the numbers used everywhere else. ``codes`` are the
    columns that comparisons refer to, ``lists`` the predicates that Spark tests because they do not split into a side
    for each event, and ``residual`` those predicates that need a finished trend. Variables of the query may be replaced
    by ``parts``, which have names of their own.
    """

    automaton: Automaton
    variables: tuple[tuple[str, Expr | None], ...]
    machine: Machine
    negations: tuple[Negation, ...]
    pairs: tuple[Pair, ...]
    codes: tuple[CodeColumn, ...]
    lists: tuple[ListColumn, ...]
    residual: tuple[Expr, ...]
    deferred: tuple[Deferred, ...] = ()
    parts: tuple[Parts, ...] = ()

    @property
    def asked(self) -> tuple[tuple[str, Expr | None], ...]:
        """The names and conditions of the query's own variables."""
        further = {number for one in self.parts for number in one.numbers[1:]}
        return tuple(
            (self.asked_name_of(n), self.variables[n][1]) for n in range(len(self.variables)) if n not in further
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The query's names for the variables, by their numbers: for a part, that of the whole variable."""
        return tuple(map(self.asked_name_of, range(len(self.variables))))

    @property
    def conditions(self) -> dict[str, Expr | None]:
        """The conditions of the query's own variables, by their names."""
        return dict(self.asked)

    @property
    def unfinished(self) -> tuple[Expr, ...]:
        """The predicates that are evaluated when trends have been listed."""
        return (*self.residual, *(predicate for one in self.deferred for predicate in one.predicates))

    def number_of(self, variable: str) -> int:
        """Returns the number of a variable, or one that no event has if the variable can never be bound."""
        return self.numbers_of(variable)[0]

    def numbers_of(self, variable: str) -> tuple[int, ...]:
        """Returns the numbers of a variable of the query: several if parts replace it."""
        names = self.names
        usual = (names.index(variable) if variable in names else MAX_VARIABLES,)
        return next((one.numbers for one in self.parts if one.variable == variable), usual)

    def asked_name_of(self, number: int) -> str:
        """Returns the query's name for the variable of a number: for a part, that of the whole variable."""
        return next((one.variable for one in self.parts if number in one.numbers), None) or self.name_of(number)

    def name_of(self, number: int) -> str:
        """Returns the name of the variable of a number."""
        return self.variables[number][0] if number < len(self.variables) else "(never bound)"
