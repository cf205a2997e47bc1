"""Names the fields of structs as Spark would name them, by the columns that stand in them.

Spark calls a field of ``struct(x, y + 1)``, of the row ``(x, y + 1)`` and of ``arrays_zip(x, y)`` by the column that it
is made of. Where a reference to rows of a match is replaced by a column of our own, the name is written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import attrs

from cetdsl.pattern.text import in_backquotes
from cetdsl.rows.tokens import Kind, Token, arguments_of, openings_of, word_at
from cetdsl.rows.words import BEFORE_OPERAND, SYNTAX

#: Words before parentheses around an expression. After all others, they hold arguments, or a list, as after LIKE ALL.
_BEFORE_EXPRESSION = BEFORE_OPERAND - {"ALL"}
#: Words of Spark's syntax that end an operand.
_OPERANDS = {"END", "FALSE", "NULL", "TRUE"}


@attrs.frozen
class Field:
    """The field that an argument becomes: its ``name``, and the place ``end`` after the argument.

    In a struct or a row, ``AS name`` is written at this place. Other calls take no AS. There ``end`` is None, and the
    argument is written as the field of a struct, whose name Spark adopts.
    """

    name: str
    end: int | None

    def within(self, sql: str) -> str:
        """Returns the SQL for a value, written so that its name is known although there is no AS."""
        return f"struct({sql} {self.alias}).{in_backquotes(self.name)}"

    @property
    def alias(self) -> str:
        """The words that name the field."""
        return f"AS {in_backquotes(self.name)}"


class Fields:
    """Finds the fields among the tokens of an expression.

    Brackets and arguments are looked up once: lists with hundreds of references take time with their length only.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._arguments: dict[int, dict[tuple[int, int], int]] = {}

    @cached_property
    def openings(self) -> list[int]:
        """For each token the place of the bracket that opens the innermost one around it; -1 if there is none."""
        return openings_of(self._tokens)

    def _numbers(self, opening: int) -> dict[tuple[int, int], int]:
        """Returns the numbers of the arguments that begin at a bracket, by where they stand."""
        if opening not in self._arguments:
            found = arguments_of(self._tokens, opening)
            self._arguments[opening] = {argument: number for number, argument in enumerate(found)}
        return self._arguments[opening]

    def of(self, begin: int, end: int) -> Field | None:
        """Returns the field that a reference or a call becomes if it is a whole argument, perhaps in parentheses.

        Its name is that of a column, or else tells its place: ``col1`` in a struct, ``0`` in ``arrays_zip``.
        """
        tokens = self._tokens
        last = tokens[end - 1]
        while word_at(tokens, begin - 1) == "(" and word_at(tokens, end) == ")" and not _is_called(tokens, begin - 1):
            begin, end = begin - 1, end + 1
        if word_at(tokens, begin - 1) not in ("(", ",") or word_at(tokens, end) not in (")", ","):
            return None
        opening = self.openings[begin]
        called = tokens[opening - 1] if _is_called(tokens, opening) else None
        function = "" if called is None else called.name.upper()
        if function not in ("", "STRUCT", "ARRAYS_ZIP"):
            return None
        numbers = self._numbers(opening)
        number = numbers.get((begin, end))
        if number is None or (called is None and len(numbers) < 2):
            return None
        if function == "ARRAYS_ZIP":
            return Field(last.name if last.is_name else str(number), None)
        name = last.name if last.is_name else f"col{number + 1}"
        return Field(name, end if called is None or called.kind is Kind.WORD else None)

    def are_named_by(self, place: int) -> bool:
        """Whether a word names the field before it without AS, as in ``struct(A.x price)``, if it is not syntax."""
        tokens = self._tokens
        if word_at(tokens, place + 1) not in (")", ",") or place == 0:
            return False
        before = tokens[place - 1]
        is_operand = before.kind is not Kind.SYMBOL and before.upper not in SYNTAX - _OPERANDS
        if not (is_operand or before.upper in (")", "]")):
            return False
        opening = self.openings[place]
        is_struct = _is_called(tokens, opening) and tokens[opening - 1].upper == "STRUCT"
        return is_struct and any(begin < place == end - 1 for begin, end in self._numbers(opening))


def _is_called(tokens: Sequence[Token], opening: int) -> bool:
    """Whether a parenthesis is not that of a row, or around an expression, but of a call or of a list."""
    if opening < 1:
        return False
    before = tokens[opening - 1]
    return (before.is_name and before.upper not in _BEFORE_EXPRESSION) or before.upper in (")", "]")
