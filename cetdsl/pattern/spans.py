"""Lengths of time: of windows, of parts of a pattern, and between neighbours."""

from __future__ import annotations

import datetime
import re

import attrs

from cetdsl.errors import WindowError, nearest, shown, whole_number

#: Microseconds per unit of a length.
MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_ALIASES = {
    "us": "microsecond",
    "microsec": "microsecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "millisec": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
    "wk": "week",
}
#: Months per unit of time without a fixed length.
_CALENDAR = {"month": 1, "quarter": 3, "year": 12}
#: The longest window by its unit; all times of events lie within 9999 years, or 2^63 ticks.
_LONGEST = {"microsecond": 9_998 * 365 * 86_400_000_000, "tick": 2**61, "month": 9_998 * 12}
_PART = r"([0-9]+)\s*([A-Za-z]+)"


def microseconds_of(word: str) -> int:
    """Returns the length of a unit of time by its name, in the singular or plural or short; 0 for other names.

    Examples
    --------
    >>> microseconds_of("min"), microseconds_of("Hours"), microseconds_of("fortnight")
    (60000000, 3600000000, 0)
    """
    return MICROSECONDS.get(_unit_named(word), 0)


def months_of(word: str) -> int:
    """Returns the months of a unit of time that has no fixed length; 0 for other names.

    Examples
    --------
    >>> months_of("years"), months_of("days")
    (12, 0)
    """
    return _CALENDAR.get(_unit_named(word), 0)


def check_unit(word: str) -> None:
    """Raises WindowError unless a word is the name of a unit of time."""
    if not (microseconds_of(word) or months_of(word)):
        plurals = [f"{unit}s" for unit in MICROSECONDS]
        raise WindowError(f"{word!r} is not a unit of time", hint=nearest(word, plurals, _FORMS))


def no_fixed_length(what: str) -> WindowError:
    """Returns the error for a length of time that is not fixed.

    Examples
    --------
    >>> print(no_fixed_length("WITHIN 1 month").message)
    WITHIN 1 month has no fixed length: months differ
    """
    return WindowError(f"{what} has no fixed length: months differ", hint="use weeks or days, as in '30 days'")


def is_finer(value: datetime.datetime | datetime.timedelta) -> bool:
    """Whether a time or a length of pandas has fractions of a microsecond; those of Python have none.

    Examples
    --------
    >>> import pandas as pd
    >>> is_finer(pd.Timedelta(1, "ns")), is_finer(pd.Timestamp(0)), is_finer(datetime.timedelta(1))
    (True, False, False)
    """
    return bool(getattr(value, "nanosecond", getattr(value, "nanoseconds", 0)))


def _unit_named(word: str) -> str:
    unit = word.lower()
    return _ALIASES.get(unit) or _ALIASES.get(unit.rstrip("s")) or unit.rstrip("s")


def _amount(digits: str) -> int:
    """Returns the number with these digits; one of so many digits that Python does not parse it is out of range."""
    significant = digits.lstrip("0")
    if len(significant) > 20:
        raise WindowError(f"a window length of {len(significant)} digits is out of range")
    return int(significant or "0")


_FORMS = "write '10 minutes', '1 day', '90 s', or a whole number of ticks for an integer time column"


@attrs.frozen
class Span:
    """A length of time: microseconds, ticks of an integer time column, or (refused later) calendar months.

    Parameters
    ----------
    amount : int
        How many units; at least 1.
    unit : {"microsecond", "tick", "month"}
        ``month`` can be written, so that analysis can refuse it beside the other errors of a query.

    Examples
    --------
    >>> Span.parse("10 minutes")
    Span(amount=600000000, unit='microsecond')
    >>> str(Span.parse("90 s")), str(Span.parse(15))
    ('90 seconds', '15')
    """

    amount: int
    unit: str = attrs.field(validator=attrs.validators.in_(("microsecond", "tick", "month")))

    def __attrs_post_init__(self) -> None:
        if self.amount < 1:
            raise WindowError(f"a length of time must be positive, not {shown(self.amount)}", hint=_FORMS)
        if self.amount > _LONGEST[self.unit]:
            raise WindowError(
                f"a window length of {shown(self.amount)} {self.unit}s is out of range",
                hint="the longest ones are 9998 years, and 2^61 ticks of an integer time column",
            )

    @classmethod
    def parse(cls, value: object) -> Span:
        """A length from ``"10 minutes"``, ``"1 day 2 hours"``, an int (ticks), a timedelta or a Span.

        Raises
        ------
        WindowError
            If the value is no length.
        """
        if isinstance(value, Span):
            return value
        if isinstance(value, datetime.timedelta):
            if is_finer(value) or value != value:  # NaT of pandas is not itself
                raise WindowError(f"{value!r} is no whole number of microseconds", hint=_FORMS)
            return cls((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds, "microsecond")
        ticks = whole_number(value)
        if ticks is not None:
            return cls(ticks, "tick")
        if not isinstance(value, str):
            raise WindowError(f"{value!r} is not a length of time", hint=_FORMS)
        if re.fullmatch(r"\s*[0-9]+\s*", value):
            return cls(_amount(value.strip()), "tick")
        if not re.fullmatch(rf"[\s,]*(?:{_PART}[\s,]*)+", value):
            raise WindowError(f"{value!r} is not a length of time", hint=_FORMS)
        micros = months = 0
        for digits, word in re.findall(_PART, value):
            check_unit(word)
            amount = _amount(digits)
            months += amount * months_of(word)
            micros += amount * microseconds_of(word)
        if months and micros:
            raise no_fixed_length(repr(value))
        return cls(months, "month") if months else cls(micros, "microsecond")

    def __str__(self) -> str:
        if self.unit == "tick":
            return str(self.amount)
        if self.unit == "month":
            return f"{self.amount} month{'s' if self.amount > 1 else ''}"
        for unit in ("week", "day", "hour", "minute", "second", "millisecond", "microsecond"):
            count, rest = divmod(self.amount, MICROSECONDS[unit])
            if not rest and (unit != "week" or count > 0):
                return f"{count} {unit}{'s' if count != 1 else ''}"
        raise AssertionError("a microsecond divides every length")
