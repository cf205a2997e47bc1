"""The node of a whole query: pattern, predicates, keys, window and the aggregates to return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

from cetdsl.errors import InvalidNode, check_choice, shown
from cetdsl.pattern.expressions import (
    Aggregate,
    Attribute,
    Call,
    Expr,
    Length,
    Role,
    SparkColumn,
    as_terms,
    check_name,
    check_text,
)
from cetdsl.pattern.nodes import Event, Pattern, events
from cetdsl.pattern.spans import Span

#: The matching policies: a trend may skip any events between two that it binds; only events that could not have been
#: bound; or none.
ANY, NEXT, STRICT = "any", "next", "strict"
POLICIES = (ANY, NEXT, STRICT)
#: Where the search for matches continues after a match: behind its last event, at the event behind its first one, or at
#: the first or the last event that it binds to some variable.
PAST_LAST, NEXT_ROW, TO_FIRST, TO_LAST = AFTER_MATCH = ("past_last", "next_row", "to_first", "to_last")


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
    if name == "":
        raise InvalidNode("the name of a returned column is empty", hint="leave it away, or name the column")


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


@attrs.frozen
class Computed:
    """A column that is computed from each event, by which trends are grouped: ``date(ts) AS day``.

    Parameters
    ----------
    name : str
    term : Expr
        A term over columns of one event, whose attributes have no variable.
    """

    name: str = attrs.field(validator=check_name)
    term: Expr

    def __attrs_post_init__(self) -> None:
        read = False
        for node in self.term.walk():
            if isinstance(node, (Aggregate, Length)):
                raise InvalidNode(
                    f"the group {self.name!r} is computed of one event, and an aggregate is about several",
                    hint="group by a function of one row, such as date(ts), and aggregate in RETURN",
                )
            if isinstance(node, Attribute) and (node.variable is not None or node.role is not Role.EACH):
                raise InvalidNode(
                    f"the group {self.name!r} speaks of the event {node.variable!r}, and is one for all events",
                    hint=f"name columns without an event: {node.name}",
                )
            read = read or isinstance(node, (Attribute, SparkColumn))
        if not read:
            raise InvalidNode(
                "a group is computed of no column, so it is the same for all events",
                hint="group by a term such as date(ts)",
            )


def computed_name(term: Expr) -> str | None:
    """The default name of a computed column, made of the names of its functions and columns; None without a function.

    Examples
    --------
    >>> computed_name(Call("date", (Attribute(None, "ts"),)))
    'date_ts'
    """
    words = [node.name for node in term.walk() if isinstance(node, (Attribute, Call))]
    return "_".join(words) if any(isinstance(node, Call) for node in term.walk()) else None


def check_policy(policy: object) -> None:
    """Raises InvalidNode unless a value is one of the matching policies."""
    meaning = "'any' skips any event, 'next' only events that could not be bound, 'strict' none"
    check_choice("matching policy", policy, POLICIES, meaning)


def _check_policy(_: Any, __: Any, policy: Any) -> None:
    if policy is not None:
        check_policy(policy)


@attrs.frozen
class AfterMatch:
    """Where the search continues after a match; ``to_first`` and ``to_last`` name a ``variable``, others none."""

    to: str = attrs.field(default=PAST_LAST, validator=attrs.validators.in_(AFTER_MATCH))
    variable: str = attrs.field(default="", validator=check_text)

    def __attrs_post_init__(self) -> None:
        if self.to in (TO_FIRST, TO_LAST) and not self.variable:
            raise InvalidNode(f"the place {self.to!r} to go on at does not name a variable", hint=AFTER_MATCH_HINT)
        if self.to not in (TO_FIRST, TO_LAST) and self.variable:
            raise InvalidNode(
                f"the place {self.to!r} to go on at takes no variable, and has {self.variable!r}",
                hint=AFTER_MATCH_HINT,
            )


AFTER_MATCH_HINT = "write 'past_last', 'next_row', 'to_first(B)' or 'to_last(B)'"


@attrs.frozen
class Selection:
    """Which matches to take if they are taken one at a time: see :meth:`PatternFrame.matches`.

    Parameters
    ----------
    after : AfterMatch or None
        Where the search continues after a match; None: past its last event.
    first : bool
        Whether the first match of each partition and group is the only one.
    longest : bool
        Whether to take the longest of the matches that begin at an event, instead of the preferred one.
    """

    after: AfterMatch | None = None
    first: bool = False
    longest: bool = False

    def __attrs_post_init__(self) -> None:
        if self.first and self.after is not None:
            raise InvalidNode(
                "a query for the first match alone cannot say where the search goes on after it",
                hint="leave out first(), or after_match(...)",
            )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


_TEXTS = attrs.validators.deep_iterable(check_text)


def _items(items: Iterable[Returned]) -> tuple[Returned, ...]:
    return tuple(items)


def _computed(items: Iterable[Computed]) -> tuple[Computed, ...]:
    return tuple(items)


def other_event(pattern: Pattern) -> Event | None:
    """Returns the first event whose variable occurs earlier with another type or condition; None if there is none."""
    known: dict[str, Event] = {}
    return next((event for event in events(pattern) if known.setdefault(event.variable, event) != event), None)


@attrs.frozen
class Query:
    """A query for event patterns, independent of any DataFrame.

    Parameters
    ----------
    pattern : Pattern
    where : tuple of Expr
        Predicates that must all hold.
    partition_by, group_by : tuple of str
        Columns equal along a trend; the group columns are output as well.
    window : Window or None
    returning : tuple of Returned
    policy : {"any", "next", "strict"} or None
        The requested matching policy, passed as ``matching``; if it is None, :attr:`matching` gives the default.
    max_gap : Span or None
        The longest time between two neighbours of a trend.
    selection : Selection
        Which matches are taken if they are taken one at a time.
    computed : tuple of Computed
        The group columns, in their order, that are computed from columns of the DataFrame.
    """

    pattern: Pattern
    where: tuple[Expr, ...] = attrs.field(default=(), converter=as_terms)
    partition_by: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_TEXTS)
    group_by: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_TEXTS)
    window: Window | None = None
    returning: tuple[Returned, ...] = attrs.field(default=(), converter=_items)
    policy: str | None = attrs.field(default=None, alias="matching", validator=_check_policy)
    max_gap: Span | None = None
    selection: Selection = Selection()
    computed: tuple[Computed, ...] = attrs.field(default=(), converter=_computed)

    def __attrs_post_init__(self) -> None:
        self._check_computed()
        other = other_event(self.pattern)
        if other is not None:
            raise InvalidNode(
                f"the variable {other.variable!r} stands for two different events",
                hint=f"give each its own name, such as {other.variable + '1'!r} and {other.variable + '2'!r}",
            )

    @property
    def matching(self) -> str:
        """The matching policy of the query's trends: which events they may skip between two that they bind."""
        return ANY if self.policy is None else self.policy

    def over_columns(self) -> Query:
        """Returns the query with its computed groups treated as existing columns."""
        return attrs.evolve(self, computed=()) if self.computed else self

    def _check_computed(self) -> None:
        groups = Counter(self.group_by)
        for item in self.computed:
            if groups[item.name] != 1:
                raise InvalidNode(
                    f"{groups[item.name] or 'no'} groups have the name of the computed one, {item.name!r}",
                    hint="give each group a name of its own: date(ts) AS day",
                )
        names = [item.name for item in self.computed]
        if names != [name for name in self.group_by if name in names]:
            raise InvalidNode("computed groups stand in another order than in group_by", hint="give both in one order")
