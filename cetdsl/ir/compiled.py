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
    """A column that comparisons refer to; where ``partner`` is given, both are compared in their common type.

    The column is ``in_order`` if larger values of its term are not smaller ones in this type.
    """

    expr: Expr
    partner: Expr | None = None
    in_order: bool = True


@attrs.frozen
class ListColumn:
    """A predicate of two events that Spark tests: each event is told which earlier ones satisfy it together with it.

    The later event's attributes are in the NEXT role. ``earlier`` and ``later`` are the variables that the two must be
    able to bind, by number; -1: any. The predicate is tested only where the ``guard`` holds of the two: the query's
    other conditions may exclude events for which the predicate would fail, as by a division by zero.
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
    """A negation, by its number, whose predicates are evaluated when trends have been listed.

    It forbids a trend by each of its matches for which all ``predicates`` hold. ``variables`` are those that a match
    binds; all others are of the trend.
    """

    negation: int
    variables: tuple[str, ...]
    predicates: tuple[Expr, ...]


@attrs.frozen
class Parts:
    """A variable of the query in several parts, each a variable of its own, and what they are in a user's words.

    The first of their ``numbers`` is that of the whole variable.
    """

    variable: str
    numbers: tuple[int, ...]
    words: str


@attrs.frozen
class Compiled:
    """A query (or one side of a top-level AND) in numbers.

    ``variables`` are names and conditions; their positions are the numbers used everywhere else. ``lists`` are the
    inseparable predicates that Spark tests, and ``residual`` those that only a finished trend can be tested for. Some
    variables of the query may be in ``parts``, which have names of their own.
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
        """The names that the query has for the variables, by their numbers."""
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
        """Returns the numbers of a variable of the query: several if it is in parts."""
        names = self.names
        usual = (names.index(variable) if variable in names else MAX_VARIABLES,)
        return next((one.numbers for one in self.parts if one.variable == variable), usual)

    def asked_name_of(self, number: int) -> str:
        """Returns the name that the query has for the variable of a number."""
        return next((one.variable for one in self.parts if number in one.numbers), None) or self.name_of(number)

    def name_of(self, number: int) -> str:
        """Returns the name of the variable of a number."""
        return self.variables[number][0] if number < len(self.variables) else "(never bound)"
