"""A query in numbers: its automaton, and the columns of single events that its predicates need."""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.pattern.automaton import Automaton
from cetdsl.pattern.expressions import Expr

#: One bit of a 64-bit mask per variable.
MAX_VARIABLES = 62


@attrs.frozen
class CodeColumn:
    """A column that comparisons refer to; where ``partner`` is given, both are compared in their common type."""

    expr: Expr
    partner: Expr | None = None


@attrs.frozen
class Compiled:
    """A query (or one side of a top-level AND) in numbers.

    Attributes
    ----------
    automaton : Automaton
    variables : tuple of (str, Expr or None)
        Name and condition of each variable; their positions are the numbers used everywhere below.
    machine : Machine
    negations : tuple of Negation
    pairs : tuple of Pair
    codes : tuple of CodeColumn
    lists : tuple of Expr
        Inseparable adjacent predicates, the later event's attributes in the NEXT role.
    residual : tuple of Expr
        Predicates that only a finished trend can be tested for.
    """

    automaton: Automaton
    variables: tuple[tuple[str, Expr | None], ...]
    machine: Machine
    negations: tuple[Negation, ...]
    pairs: tuple[Pair, ...]
    codes: tuple[CodeColumn, ...]
    lists: tuple[Expr, ...]
    residual: tuple[Expr, ...]

    def number_of(self, variable: str) -> int:
        """The number of a variable; one that no event has when the variable can never be bound."""
        names = [name for name, _ in self.variables]
        return names.index(variable) if variable in names else MAX_VARIABLES
