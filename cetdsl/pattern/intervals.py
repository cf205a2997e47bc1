"""Lengths of time as constants of a query: ``INTERVAL '1' HOUR``."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction

from cetdsl.errors import InvalidNode
from cetdsl.pattern.spans import microseconds_of, months_of

HINT = "write INTERVAL '90' MINUTE, INTERVAL 1 HOUR 30 MINUTES, or INTERVAL '0 01:30:00' DAY TO SECOND"
#: The parts of a length such as ``1 02:03:04.5``, in order, with the separator before each.
_FIELDS = {"day": "", "hour": " ", "minute": ":", "second": ":"}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_SIGNED_NUMBER = rf"\s*[+-]?\s*{_NUMBER}\s*"
_PART = rf"([+-]?)\s*({_NUMBER})\s*([A-Za-z]+)"
#: The most digits of a length of time.
_LONGEST = 40


def read_interval(value: str, first: str | None = None, last: str | None = None) -> datetime.timedelta:
    """The length that ``INTERVAL 'value' first TO last`` writes.

    Parameters
    ----------
    value : str
        A number if only ``first`` is given; parts such as ``1 day 2 hours`` if no unit is given.
    first, last : str, optional
        Units of time, singular or plural.

    Raises
    ------
    InvalidNode
        If it is no length, or not a whole number of microseconds, or has no fixed length, such as a month.

    Examples
    --------
    >>> print(read_interval("90", "minute"), read_interval("-1.5", "seconds"), read_interval("1 day 2 hours"))
    1:30:00 -1 day, 23:59:58.500000 1 day, 2:00:00
    >>> print(read_interval("1 02:30", "day", "minute"))
    1 day, 2:30:00
    """
    if len(value) > _LONGEST:
        raise InvalidNode(f"{value[:_LONGEST]!r}... is no length of time", hint=HINT)
    if first is None:
        return _of_parts(value)
    if last is None:
        if not re.fullmatch(_SIGNED_NUMBER, value):
            raise InvalidNode(f"{value!r} is no number of {first.lower()}", hint=HINT)
        return _length(Fraction(re.sub(r"\s", "", value)) * _unit(first))
    return _of_fields(value, first, last)


def interval_text(length: datetime.timedelta) -> str:
    """The constant that :func:`read_interval` reads back.

    Examples
    --------
    >>> print(interval_text(datetime.timedelta(minutes=90)), interval_text(datetime.timedelta(milliseconds=-1500)))
    INTERVAL '90' MINUTE INTERVAL '-1.5' SECOND
    """
    micros = length // datetime.timedelta(microseconds=1)
    for unit in ("day", "hour", "minute", "second"):
        if micros % microseconds_of(unit) == 0 and (micros or unit == "second"):
            return f"INTERVAL '{micros // microseconds_of(unit)}' {unit.upper()}"
    whole, rest = divmod(abs(micros), 10**6)
    return f"INTERVAL '{'-' * (micros < 0)}{whole}.{rest:06d}".rstrip("0") + "' SECOND"


def moved_by(length: datetime.timedelta) -> str | None:
    """Returns whether adding a length to a time with a zone uses the "clock" or the "calendar"; None if it uses both.

    When clocks are set forward, the time one calendar day later may come before the time 23.5 hours later.

    Examples
    --------
    >>> [moved_by(datetime.timedelta(hours=hours)) for hours in (23, 48, 25)]
    ['clock', 'calendar', None]
    """
    day = datetime.timedelta(days=1)
    if abs(length) < day:
        return "clock"
    return None if length % day else "calendar"


def _of_parts(value: str) -> datetime.timedelta:
    if not re.fullmatch(rf"[\s,]*(?:{_PART}[\s,]*)+", value):
        raise InvalidNode(f"{value!r} is no length of time", hint=HINT)
    parts = re.findall(_PART, value)
    return _length(sum((Fraction(sign + number) * _unit(unit) for sign, number, unit in parts), Fraction()))


def _of_fields(value: str, first: str, last: str) -> datetime.timedelta:
    names = list(_FIELDS)
    ends = [name.lower().removesuffix("s") for name in (first, last)]
    if any(name not in names for name in ends) or names.index(ends[0]) >= names.index(ends[1]):
        raise InvalidNode(f"there is no interval {first.upper()} TO {last.upper()}", hint=HINT)
    asked = names[names.index(ends[0]) : names.index(ends[1]) + 1]
    shape = "".join((_FIELDS[name] if name != asked[0] else "") + f"({_digits(name)})" for name in asked)
    found = re.fullmatch(rf"\s*([+-]?)\s*{shape}\s*", value)
    if found is None:
        raise InvalidNode(f"{value!r} is no interval {first.upper()} TO {last.upper()}", hint=HINT)
    sign, *numbers = found.groups()
    whole = sum((Fraction(number) * _unit(name) for name, number in zip(asked, numbers, strict=True)), Fraction())
    return _length(-whole if sign == "-" else whole)


def _digits(field: str) -> str:
    return _NUMBER if field == "second" else "[0-9]+"


def _unit(word: str) -> int:
    if months_of(word):
        raise InvalidNode("months and years differ in length", hint="write the interval in days")
    micros = microseconds_of(word)
    if micros == 0:
        raise InvalidNode(f"{word!r} is not a unit of time", hint=HINT)
    return micros


def _length(micros: Fraction) -> datetime.timedelta:
    if micros.denominator != 1:
        raise InvalidNode("an interval is a whole number of microseconds", hint="write fewer digits after the point")
    try:
        return datetime.timedelta(microseconds=int(micros))
    except OverflowError:
        raise InvalidNode("an interval of so many days is out of range", hint="leave the condition out") from None
