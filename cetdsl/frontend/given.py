"""What is given for arguments that several methods have, checked and resolved."""

from __future__ import annotations

from collections.abc import Sequence

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import InvalidNode, check_choice, is_one_of, names_of, shown, whole_number
from cetdsl.ir.accumulators import NUMBERS
from cetdsl.ir.emission import FINAL

_ALL_TRENDS = "leave it out to get all trends"
_FEWER = "ask for fewer, or list all trends with trends()"


def shown_columns(resolved: ResolvedQuery, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The exact names of the columns to show."""
    if columns is None:
        return resolved.event_columns
    return tuple(resolved.schema.resolve(name).name for name in names_of(columns, "columns="))


def check_number(number: str) -> None:
    """Raises InvalidNode unless ``number`` is one of NUMBERS."""
    check_choice("number form", number, NUMBERS)


def check_count_name(name: str) -> None:
    """Refuses the name of a form of numbers for a column: who writes ``count_trends("log2")`` means the form."""
    if is_one_of(name, NUMBERS):
        raise InvalidNode(
            f"the column cannot be called {name!r}, which is a form of numbers",
            hint=f"write number={name!r} for that form, or choose another name",
        )


def check_emit(emit: str, what: str, early: str) -> None:
    """Raises InvalidNode unless ``what`` of a stream can be emitted so: when it is final, or ``early``."""
    if not is_one_of(emit, (FINAL, early)):
        raise InvalidNode(
            f"{what} cannot be emitted by emit={shown(emit)}",
            hint=f"choose {FINAL!r} or {early!r}",
        )


def whole(name: str, number: int | None) -> int | None:
    """Refuse values that are no number of trends."""
    if number is None:
        return None
    given = whole_number(number)
    if given is None or given < 0:
        raise InvalidNode(f"{name} must be a whole number of trends, not {shown(number)}", hint=_ALL_TRENDS)
    return _below_limit(name, given, _ALL_TRENDS)


def positive(name: str, number: int) -> int:
    """Refuse values that are no number of trends, or 0."""
    return _below_limit(name, at_least_one(name, number, "trends"), _FEWER)


def at_least_one(name: str, number: object, what: str, hint: str | None = None) -> int:
    """Refuse values that are no number of something, or less than 1."""
    given = whole_number(number)
    if given is None or given < 1:
        raise InvalidNode(f"{name} must be a number of {what}, at least 1, not {shown(number)}", hint=hint)
    return given


def _below_limit(name: str, number: int, hint: str) -> int:
    """Refuse numbers beyond the 32 bits in which Spark counts the rows that it keeps."""
    if number >= 2**31:
        raise InvalidNode(f"{name} is below 2^31, not {shown(number)}", hint=hint)
    return number
