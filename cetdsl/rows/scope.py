"""The names that the expressions of a clause may use, and the slots and moved values that these expressions need.

For slots and moved values see :mod:`~cetdsl.rows.resolved`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from cetdsl.errors import CetdslError, ResolutionError, UnknownVariable, nearest
from cetdsl.rows.nodes import (
    Alternation,
    Concatenation,
    Exclusion,
    MatchClause,
    Name,
    Permutation,
    Repetition,
    RowPattern,
    Variable,
)
from cetdsl.rows.resolved import Value, Wanted, moved_name, slot_name, unknown_column


class Scope:
    """Looks names up, and collects the slots and moved values of all expressions."""

    def __init__(self, clause: MatchClause, columns: Sequence[str]) -> None:
        self.clause, self.columns = clause, tuple(columns)
        self._exact: dict[str, list[int]] = {}
        self.folded: dict[str, list[int]] = {}
        for number, name in enumerate(columns):
            self._exact.setdefault(name, []).append(number)
            self.folded.setdefault(name.lower(), []).append(number)
        self.variables: dict[str, Variable] = {}
        for variable in _variables_of(clause.pattern):
            self.variables.setdefault(variable.name.lower(), variable)
        self.numbers = {folded: number for number, folded in enumerate(self.variables)}
        self.groups: dict[str, tuple[bool, ...]] = {}
        self.slots: dict[Wanted, int] = {}
        self.moved: dict[Value, int] = {}

    def fail(
        self,
        message: str,
        hint: str,
        span: tuple[int, int],
        kind: type[CetdslError] = ResolutionError,
    ) -> NoReturn:
        """Raises an error that points at a place of the clause."""
        raise kind(message, hint=hint, span=span, text=self.clause.text)

    def unknown_variable(self, name: Name, message: str, known: Iterable[str]) -> NoReturn:
        """Raises an error for a name that is not among those that are ``known``."""
        names = [self.variables[one].name if one in self.variables else one for one in known]
        hint = nearest(name.name, names, f"its variables are {', '.join(names)}") if names else "add it to PATTERN"
        self.fail(f"{message} {name.name!r}", hint, name.span, UnknownVariable)

    def members(self, name: Name) -> tuple[bool, ...]:
        """Returns, for each variable, whether a name stands for it."""
        found = self.groups.get(name.name.lower())
        if found is None:
            self.unknown_variable(name, "the pattern has no variable and no subset", self.groups)
        return found

    def find_column(self, name: str, span: tuple[int, int]) -> int | None:
        """Returns the number of a column; None if no column has the name."""
        found = self._exact.get(name) or self.folded.get(name.lower())
        if found is None:
            return None
        if len(found) > 1:
            self.fail(f"several columns are called {name!r}", "rename all but one of them first", span)
        return found[0]

    def column_number(self, name: Name) -> int:
        """Returns the number of a column; raises if no column has the name."""
        found = self.find_column(name.name, name.span)
        if found is None:
            raise unknown_column(name.name, name.span, self.clause.text, self.columns, self.groups)
        return found

    def slot(self, wanted: Wanted) -> str:
        """Returns the SQL that names a slot, which is added if it is new."""
        return slot_name(self.slots.setdefault(wanted, len(self.slots)))

    def moved_value(self, value: Value) -> str:
        """Returns the SQL that names a moved value, which is added if it is new."""
        return moved_name(self.moved.setdefault(value, len(self.moved)))


def _variables_of(node: RowPattern) -> Iterable[Variable]:
    if isinstance(node, Variable):
        yield node
    elif isinstance(node, (Repetition, Exclusion)):
        yield from _variables_of(node.body)
    elif isinstance(node, (Concatenation, Alternation, Permutation)):
        for part in node.parts:
            yield from _variables_of(part)
