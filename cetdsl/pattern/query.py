"""A whole query: pattern, predicates, keys, window and what to return."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from cetdsl.errors import InvalidNode, is_one_of, shown
from cetdsl.pattern.expressions import Aggregate, Attribute, Expr, Length, as_terms, check_text
from cetdsl.pattern.nodes import Event, Pattern, events
from cetdsl.pattern.spans import Span

#: Which events a trend may skip between two that it binds: any; those that could not have been bound; none.
ANY, NEXT, STRICT = "any", "next", "strict"
POLICIES = (ANY, NEXT, STRICT)


@attrs.frozen
class Window:
    """``WITHIN length [SLIDE slide]``; without a slide the length bounds a trend's span."""

    length: Span
    slide: Span | None = None

    def __str__(self) -> str:
        return f"WITHIN {self.length}" + (f" SLIDE {self.slide}" if self.slide is not None else "")


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
    max_gap : Span or None
        The longest time between two neighbours of a trend.
    """

    pattern: Pattern
    where: tuple[Expr, ...] = attrs.field(default=(), converter=as_terms)
    partition_by: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_TEXTS)
    group_by: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_TEXTS)
    window: Window | None = None
    returning: tuple[Returned, ...] = attrs.field(default=(), converter=_items)
    matching: str = attrs.field(default=ANY, validator=_check_matching)
    max_gap: Span | None = None

    def __attrs_post_init__(self) -> None:
        known: dict[str, Event] = {}
        for event in events(self.pattern):
            other = known.setdefault(event.variable, event)
            if other != event:
                raise InvalidNode(
                    f"the variable {event.variable!r} stands for two different events",
                    hint="give each its own name: event('a1', type='A'), event('a2', type='A')",
                )
