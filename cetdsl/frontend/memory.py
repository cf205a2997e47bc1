"""Parses amounts of memory, such as ``"512m"``."""

from __future__ import annotations

import re

from cetdsl.errors import InvalidNode, whole_number

_UNITS = {unit: 1024**power for power, unit in enumerate(["", "k", "m", "g", "t", "p"])}
_AMOUNT = re.compile(r"\s*(\d+)\s*([kmgtp]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)


def parse_memory(amount: str | int) -> int:
    """An amount in bytes, written as in Spark's settings with units of 1024, or given as a whole number of bytes.

    InvalidNode is raised if it is no amount of memory, or none at all.

    Examples
    --------
    >>> parse_memory("64k"), parse_memory("1 GB"), parse_memory(1_000_000)
    (65536, 1073741824, 1000000)
    """
    hint = "write '512m', '1g', '64k', or a whole number of bytes"
    if isinstance(amount, str) and (match := _AMOUNT.fullmatch(amount)):
        number, unit = match.groups()
        size: int | None = int(number) * _UNITS[unit.lower()]
    else:
        size = whole_number(amount)
    if size is None:
        raise InvalidNode(f"{amount!r} is not an amount of memory", hint=hint)
    if size <= 0:
        raise InvalidNode(f"an amount of memory must be positive, not {amount!r}", hint=hint)
    return size
