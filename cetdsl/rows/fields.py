"""Names the fields of structs as Spark would name them, by the columns that stand in them.

Spark calls a field of ``struct(x, y + 1)``, of the row ``(x, y + 1)`` and of ``arrays_zip(x, y)`` by the column that it
is made of. Where a reference to rows of a match is replaced by a column of our own, the name is written out.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cetdsl.pattern.text import in_backquotes
from cetdsl.rows.tokens import Kind, Token, arguments_of, opening_of, word_at
from cetdsl.rows.words import SYNTAX

#: Words of Spark's syntax before an operand. After all other words, parentheses hold a list, or arguments.
_BEFORE_OPERAND = frozenset(("AND", "BETWEEN", "CASE", "DISTINCT", "ELSE", "FROM", "LIKE", "NOT", "OR", "THEN", "WHEN"))
#: Words of Spark's syntax that end an operand.
_OPERANDS = {"END", "FALSE", "NULL", "TRUE"}


@attrs.frozen
class Field:
    """The field that some tokens are, by its ``name``.

    Spark takes ``AS name`` after the token before the place ``end``. It takes none in a call by ``end`` is None; there
    the name of a field of a struct is taken.
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


def field_of(tokens: Sequence[Token], begin: int, end: int) -> Field | None:
    """Returns the field that the tokens of a reference or a call are by themselves, or in parentheses; None if none.

    Its name is that of a column, or else tells its place: ``col1`` in a struct, ``0`` in ``arrays_zip``.
    """
    inner = (begin, end)
    while word_at(tokens, begin - 1) == "(" and word_at(tokens, end) == ")" and not _is_called(tokens, begin - 1):
        begin, end = begin - 1, end + 1
    if word_at(tokens, begin - 1) not in ("(", ",") or word_at(tokens, end) not in (")", ","):
        return None
    opening = opening_of(tokens, begin)
    arguments = arguments_of(tokens, opening)
    if (begin, end) not in arguments:
        return None
    number, last = arguments.index((begin, end)), tokens[inner[1] - 1]
    called = tokens[opening - 1] if _is_called(tokens, opening) else None
    function = "" if called is None else called.name.upper()
    if function == "ARRAYS_ZIP":
        return Field(last.name if last.is_name else str(number), None)
    if function not in ("", "STRUCT") or (called is None and len(arguments) < 2):
        return None
    name = last.name if last.is_name else f"col{number + 1}"
    return Field(name, end if called is None or called.kind is Kind.WORD else None)


def names_field(tokens: Sequence[Token], place: int) -> bool:
    """Whether a word names the field before it without AS, as in ``struct(A.x price)``, if it is no word of syntax."""
    if word_at(tokens, place + 1) not in (")", ",") or place == 0:
        return False
    before = tokens[place - 1]
    is_operand = before.kind is not Kind.SYMBOL and before.upper not in SYNTAX - _OPERANDS
    if not (is_operand or before.upper in (")", "]")):
        return False
    opening = opening_of(tokens, place)
    is_struct = _is_called(tokens, opening) and tokens[opening - 1].upper == "STRUCT"
    return is_struct and any(begin < place == end - 1 for begin, end in arguments_of(tokens, opening))


def _is_called(tokens: Sequence[Token], opening: int) -> bool:
    """Whether a parenthesis is not that of a row, or around an expression, but of a call or of a list."""
    if opening < 1:
        return False
    before = tokens[opening - 1]
    return (before.is_name and before.upper not in _BEFORE_OPERAND) or before.upper in (")", "]")
