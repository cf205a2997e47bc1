"""A whole query: pattern, predicates, keys, window and what to return."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import attrs

from cetdsl.errors import InvalidNode, WindowError, is_one_of, shown
from cetdsl.pattern.expressions import Aggregate, Attribute, Expr, Length, as_terms, check_text
from cetdsl.pattern.nodes import Event, Pattern, events

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
_CALENDAR = ("month", "quarter", "year")
#: Which events a trend may skip between two that it binds: any; those that could not have been bound; none.
ANY, NEXT, STRICT = "any", "next", "strict"
POLICIES = (ANY, NEXT, STRICT)
#: The longest window by its unit; all times of events lie within 9999 years, or 2^63 ticks.
_LONGEST = {"microsecond": 9_998 * 365 * 86_400_000_000, "tick": 2**61, "month": 9_998 * 12}
_PART = r"([0-9]+)\s*([A-Za-z]+)"


def microseconds_of(word: str) -> int:
    """The length of a unit of time by its name, in the singular or plural or short; 0 for what is none.

    Examples
    --------
    >>> microseconds_of("min"), microseconds_of("Hours"), microseconds_of("fortnight")
    (60000000, 3600000000, 0)
    """
    return MICROSECONDS.get(_unit_named(word), 0)


def is_calendar_unit(word: str) -> bool:
    """Whether a unit of time is of no fixed length.

    Examples
    --------
    >>> is_calendar_unit("months"), is_calendar_unit("days")
    (True, False)
    """
    return _unit_named(word) in _CALENDAR


def _unit_named(word: str) -> str:
    unit = word.lower()
    return _ALIASES.get(unit) or _ALIASES.get(unit.rstrip("s")) or unit.rstrip("s")


def _amount(digits: str) -> int:
    """The number that the digits write; one of thousands of digits, which Python does not read, is out of range."""
    significant = digits.lstrip("0")
    if len(significant) > 20:
        raise WindowError(f"a window length of {len(significant)} digits is out of range")
    return int(significant or "0")


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
            raise WindowError(f"a window length must be positive, not {shown(self.amount)}")
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
        import datetime

        if isinstance(value, Span):
            return value
        if isinstance(value, datetime.timedelta):
            return cls((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds, "microsecond")
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(value, "tick")
        hint = "write '10 minutes', '1 day', '90 s', or a whole number of ticks for an integer time column"
        if not isinstance(value, str):
            raise WindowError(f"{value!r} is not a length of time", hint=hint)
        if re.fullmatch(r"\s*[0-9]+\s*", value):
            return cls(_amount(value.strip()), "tick")
        if not re.fullmatch(rf"[\s,]*(?:{_PART}[\s,]*)+", value):
            raise WindowError(f"{value!r} is not a length of time", hint=hint)
        micros = months = 0
        for digits, word in re.findall(_PART, value):
            amount, length = _amount(digits), microseconds_of(word)
            if is_calendar_unit(word):
                months += amount
            elif length:
                micros += amount * length
            else:
                raise WindowError(f"{word!r} is not a unit of time", hint=hint)
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


@attrs.frozen
class Window:
    """``WITHIN length [SLIDE slide]``; without a slide the length bounds a trend's span."""

    length: Span
    slide: Span | None = None


def _check_name(_: Any, __: Any, name: Any) -> None:
    if name is not None and not isinstance(name, str):
        raise InvalidNode(f"the name of a returned column is a string, not {shown(name)}", hint="write it in quotes")


@attrs.frozen
class Returned:
    """One item of RETURN: an aggregate and the name of its column."""

    aggregate: Aggregate
    name: str | None = attrs.field(default=None, validator=[_check_name, check_text])

    @property
    def output_name(self) -> str:
        """The given name, or one made of the aggregate: ``count``, ``count_b``, ``avg_b_price``, ``max_length``."""
        if self.name is not None:
            return self.name
        aggregate = self.aggregate
        if aggregate.argument is None:
            return "count" if aggregate.variable is None else f"count_{aggregate.variable}"
        if isinstance(aggregate.argument, Length):
            return f"{aggregate.function}_length"
        words = [f"{node.variable}_{node.name}" for node in aggregate.argument.walk() if isinstance(node, Attribute)]
        return "_".join([aggregate.function, *words])


def _check_matching(_: Any, __: Any, policy: Any) -> None:
    if not is_one_of(policy, POLICIES):
        raise InvalidNode(
            f"there is no matching policy {shown(policy)}",
            hint="'any' skips any event, 'next' only events that could not be bound, 'strict' none",
        )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


_TEXTS = attrs.validators.deep_iterable(check_text)


def _items(items: Iterable[Returned]) -> tuple[Returned, ...]:
    return tuple(items)


@attrs.frozen
class Query:
    """What is asked, knowing nothing of any DataFrame.

    Parameters
    ----------
    pattern : Pattern
    where : tuple of Expr
        Predicates that must all hold.
    partition_by, group_by : tuple of str
        Columns equal along a trend; the group columns are output as well.
    window : Window or None
    returning : tuple of Returned
    matching : {"any", "next", "strict"}
        The matching policy: which events a trend may skip between two that it binds.
    """

    pattern: Pattern
    where: tuple[Expr, ...] = attrs.field(default=(), converter=as_terms)
    partition_by: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_TEXTS)
    group_by: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_TEXTS)
    window: Window | None = None
    returning: tuple[Returned, ...] = attrs.field(default=(), converter=_items)
    matching: str = attrs.field(default=ANY, validator=_check_matching)

    def __attrs_post_init__(self) -> None:
        known: dict[str, Event] = {}
        for event in events(self.pattern):
            other = known.setdefault(event.variable, event)
            if other != event:
                raise InvalidNode(
                    f"the variable {event.variable!r} stands for two different events",
                    hint="give each its own name: event('a1', type='A'), event('a2', type='A')",
                )
