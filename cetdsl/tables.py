"""Rows as plain text tables that a person can read."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

_WIDEST = 100


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with its columns aligned, numbers to the right.

    Examples
    --------
    >>> print(table(["carrier", "trends"], [("B6", 27), ("EV", 4)]))
    carrier  trends
    -------  ------
    B6           27
    EV            4
    """
    rows = [list(row) for row in rows]
    cells = [[cell(value) for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(names, *cells)]
    right = [
        bool(rows) and all(value is None or isinstance(value, (int, float, Decimal)) for value in column)
        for column in (zip(*rows) if rows else [()] * len(names))
    ]

    def line(texts: Sequence[str]) -> str:
        aligned = [
            text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in zip(texts, widths, right)
        ]
        return "  ".join(aligned).rstrip()

    return "\n".join([line(names), line(["-" * width for width in widths]), *map(line, cells)])


def cell(value: Any) -> str:
    """A value in few characters: a window as its two ends, a trend as its events.

    Examples
    --------
    >>> cell(datetime.datetime(2013, 6, 7, 12)), cell(None), cell(1234567)
    ('2013-06-07 12:00', 'NULL', '1,234,567')
    >>> cell([{"variable": "b", "event": {"price": 1.5}}, {"variable": "b", "event": {"price": 2.0}}])
    'b(1.5) > b(2)'
    """
    fields = _fields(value)
    if fields is not None:
        if list(fields) == ["start", "end"]:
            return f"{cell(fields['start'])} to {cell(fields['end'])}"
        if list(fields) == ["variable", "event"]:
            return (
                f"{fields['variable']}({', '.join(cell(part) for part in (_fields(fields['event']) or {}).values())})"
            )
        text = ", ".join(f"{name}={cell(part)}" for name, part in fields.items())
    elif isinstance(value, (list, tuple)):
        text = " > ".join(cell(part) for part in value)
        return text if len(text) <= 2 * _WIDEST else f"{text[: 2 * _WIDEST]}... ({len(value)} in all)"
    else:
        text = _plain(value)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}... ({len(text)} characters)"


def _fields(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    # A Row of Spark is a tuple that knows its names.
    names = getattr(value, "__fields__", None)
    return dict(zip(names, value)) if names is not None else None


def _plain(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Decimal):
        return f"{value:,f}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ")
        return text.removesuffix(":00") if value.tzinfo is None else text
    return str(value)
