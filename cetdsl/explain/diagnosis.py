"""Views of a diagnosis, which says why a query has no trend, or what its demands cost: sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cetdsl.explain.view import PlanView
from cetdsl.pattern.spans import MICROSECONDS
from cetdsl.tables import table

_UNITS = (
    ("day", "d"),
    ("hour", "h"),
    ("minute", "min"),
    ("second", "s"),
    ("millisecond", "ms"),
    ("microsecond", "us"),
)


def amount(length: int, unit: str) -> str:
    """A length of time in days, hours and so on, or in ticks.

    Examples
    --------
    >>> amount(680_000_000, "microsecond"), amount(86_400_000_007, "microsecond"), amount(17, "tick")
    ('11 min 20 s', '1 d 7 us', '17')
    """
    if unit == "tick" or length <= 0:
        return f"{length:,}"
    parts = []
    for name, short in _UNITS:
        whole, length = divmod(length, MICROSECONDS[name])
        if whole:
            parts.append(f"{whole} {short}")
    return " ".join(parts)


def count_text(count: float | None) -> str:
    """A number of trends in words.

    Examples
    --------
    >>> count_text(1), count_text(51204), count_text(3.2e45), count_text(math.inf), count_text(None)
    ('1 trend', '51,204 trends', 'about 3.2e+45 trends', 'more than 1e308 trends', 'trends that were not counted')
    """
    if count is None:
        return "trends that were not counted"
    return f"{number(count)} trend" + ("" if count == 1 else "s")


def number(count: float | None) -> str:
    """A number of trends as a table shows it."""
    if count is None:
        return "not counted"
    if math.isinf(count):
        return "more than 1e308"
    return f"{count:,.0f}" if count < 2**45 else f"about {count:.3g}"


def diagnosis_views(
    causes: Sequence[str], notes: Sequence[str], tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[Any]]]]
) -> tuple[PlanView, ...]:
    """The causes and notes as a list, and each table, which has a title, names of columns, and rows."""
    said = "\n".join([*causes, *(f"note: {note}" for note in notes)])
    views = [PlanView("causes", text=said)]
    views += [PlanView(title, text=table(names, rows)) for title, names, rows in tables if rows]
    return tuple(views)
