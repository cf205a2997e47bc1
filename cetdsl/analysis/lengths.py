"""Turns limits on the length of a part of a pattern into predicates on the times of its events."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator

import attrs

from cetdsl.errors import CetdslError, UnsupportedQuery
from cetdsl.ir.schema import Field
from cetdsl.pattern.expressions import Aggregate, Attribute, Binary, Call, Expr, Literal, Role, joined
from cetdsl.pattern.nodes import Event, Not, Pattern, Repeat, Seq, Within, dissolved, events, transform
from cetdsl.pattern.properties import (
    binds_at_least_one,
    binds_at_most_one,
    binds_exactly_one,
    bound_together,
    ends_of,
    follow_pairs,
    negated_variables,
    positive_variables,
)
from cetdsl.pattern.query import Query
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import quote

#: Whole numbers from here on are BIGINT, and so is their sum with another whole number.
_LONG = 2**31


def has_lengths(query: Query) -> bool:
    """Whether the query limits the time between neighbours, or the duration of a part of its pattern."""
    return query.max_gap is not None or any(isinstance(node, Within) for node in query.pattern.walk())


def lengths_of(query: Query) -> Iterator[tuple[str, Span]]:
    """The lengths of these limits, each with the keyword before it."""
    for node in query.pattern.walk():
        if isinstance(node, Within):
            yield "WITHIN", node.length
    if query.max_gap is not None:
        yield "MAX_GAP", query.max_gap


def unlimited(pattern: Pattern) -> Pattern:
    """The pattern without the lengths of its parts.

    Examples
    --------
    >>> part = Within(Seq((Event("b"), Event("c"))), Span.parse("1 hour"))
    >>> quote(unlimited(Seq((Event("a", "a"), part))))
    'SEQ(a, SEQ(EVENT(b), EVENT(c)))'
    """
    return transform(pattern, lambda node: node.part if isinstance(node, Within) else node)


def as_predicates(query: Query, time: Field) -> tuple[Query, list[CetdslError]]:
    """Returns the query with predicates on times in place of its lengths, and errors for lengths without such a form.

    Examples
    --------
    >>> a, b, c = (Event(name, type=name) for name in "abc")
    >>> query = Query(Seq((a, Within(Seq((b, c)), Span.parse(5)))), max_gap=Span.parse(9))
    >>> said, errors = as_predicates(query, Field("t", "bigint"))
    >>> [quote(predicate) for predicate in said.where], errors
    (['c.t <= b.t + 5', 'NEXT(b).t <= a.t + 9', 'NEXT(c).t <= b.t + 9'], [])
    """
    whole = unlimited(query.pattern)
    where: list[Expr] = []
    errors: list[CetdslError] = []
    for part, repeated, negated in _limited_parts(query.pattern):
        try:
            where += _Limited(part, whole, time, repeated=repeated, negated=negated).predicates()
        except UnsupportedQuery as error:
            errors.append(error)
    if query.max_gap is not None:
        pairs = sorted(follow_pairs(whole))
        where += [at_most_apart(Attribute(x, time.name), _next(y, time), query.max_gap, time) for x, y in pairs]
    return attrs.evolve(query, pattern=whole, where=(*query.where, *where), max_gap=None), errors


def at_most_apart(earlier: Attribute, later: Attribute, length: Span, time: Field) -> Expr:
    """The later time is at most a length after the earlier one, as elapsed time and not by the clock of a zone.

    Examples
    --------
    >>> a, b = Attribute("a", "ts"), Attribute("b", "ts")
    >>> quote(at_most_apart(a, b, Span.parse("1 ms"), Field("ts", "timestamp")))
    'unix_micros(b.ts) <= unix_micros(a.ts) + 1000'
    >>> quote(at_most_apart(a, b, Span.parse("1 day"), Field("ts", "timestamp_ntz")))
    "b.ts <= a.ts + INTERVAL '1' DAY"
    >>> quote(at_most_apart(a, b, Span.parse(5), Field("ts", "int")))
    'b.ts <= ceil(a.ts) + 5'
    """
    bound: Literal = Literal(length.amount)
    first: Expr = earlier
    second: Expr = later
    if time.type == "timestamp_ntz":
        bound = Literal(datetime.timedelta(microseconds=length.amount))
    elif time.type in ("timestamp", "date"):
        first, second = (_micros(each, time) for each in (earlier, later))
    elif time.type != "bigint" and length.amount < _LONG:
        # A sum of two INT could overflow. CEIL converts a whole number to BIGINT, and does nothing else.
        first = Call("ceil", (earlier,))
    return Binary("<=", second, Binary("+", first, bound))


def _micros(moment: Attribute, time: Field) -> Expr:
    # Like windows, this takes a date as its first moment in the zone of the session.
    return Call("unix_micros", (Call("to_timestamp", (moment,)) if time.type == "date" else moment,))


def _next(variable: str, time: Field) -> Attribute:
    return Attribute(variable, time.name, Role.NEXT)


def _limited_parts(
    pattern: Pattern, *, repeated: bool = False, negated: bool = False
) -> Iterator[tuple[Within, bool, bool]]:
    """The parts that have a length, each with whether it stands in a repetition, and under NOT."""
    if isinstance(pattern, Within):
        yield pattern, repeated, negated
    repeated |= isinstance(pattern, Repeat) and pattern.at_most != 1
    negated |= isinstance(pattern, Not)
    for child in pattern.children:
        yield from _limited_parts(child, repeated=repeated, negated=negated)


class _Limited:
    """A part of a pattern with a length, and the predicates that express this length."""

    def __init__(self, node: Within, whole: Pattern, time: Field, *, repeated: bool, negated: bool) -> None:
        self.node = node
        self.part = dissolved(unlimited(node.part), Seq)
        self.whole = whole
        self.time = time
        self.repeated = repeated
        self.negated = negated

    def predicates(self) -> list[Expr]:
        """Returns all of the predicates; UnsupportedQuery is raised if predicates cannot express the length."""
        if isinstance(self.part, Event):
            return []
        self._require_own_variables()
        return [*self._of_ends(), *self._of_negations()]

    def _refused(self, why: str, hint: str) -> UnsupportedQuery:
        message = f"WITHIN {self.node.length} of the part {quote(self.node.part)}: {why}"
        text, span = self.node.written or (None, None)
        return UnsupportedQuery(message, hint=hint, span=span, text=text)

    def _require_own_variables(self) -> None:
        inside, everywhere = (Counter(event.variable for event in events(one)) for one in (self.part, self.whole))
        shared = [name for name, times in inside.items() if everywhere[name] != times]
        shared += sorted(set(positive_variables(self.part)) & self._under_not())
        if shared:
            raise self._refused(
                f"{shared[0]!r} stands at another place of the pattern, too",
                f"give the part variables of its own: event('{shared[0]}2', type='{shared[0]}')",
            )

    def _under_not(self) -> set[str]:
        return {event.variable for node in self.part.walk() if isinstance(node, Not) for event in events(node)}

    def _apart(self, earlier: Attribute, later: Attribute) -> Expr:
        return at_most_apart(earlier, later, self.node.length, self.time)

    def _time(self, variable: str, role: Role = Role.EACH) -> Attribute:
        return Attribute(variable, self.time.name, role)

    # The first and the last event

    def _of_ends(self) -> Iterable[Expr]:
        if self.repeated:
            return self._of_each_time()
        first, last = ends_of(self.part)
        together = bound_together(self.part)
        pairs = [(x, y) for x in first for y in last]
        return [
            self._within_variable(x) if x == y else self._apart(self._time(x), self._time(y))
            for x, y in pairs
            if ((x, y) in together if x != y else not binds_at_most_one(self.part, x))
        ]

    def _of_each_time(self) -> Iterable[Expr]:
        """Returns the predicates of a part in a repetition, whose two events are neighbours in each iteration.

        Events of two iterations are never neighbours in this order.
        """
        bound = [node for node in self.part.children or (self.part,) if not isinstance(node, Not)]
        names = list(dict.fromkeys(node.variable for node in bound if isinstance(node, Event)))
        if len(names) != len(bound) or len(bound) > 2 or not isinstance(self.part, (Seq, Event)):
            raise self._refused(
                "it cannot be told which events belong to the same repetition",
                "repeat a part of two single events, (SEQ(A, B) WITHIN 1 hour)+, or limit neighbours by max_gap",
            )
        return [self._apart(self._time(names[0]), _next(names[1], self.time))] if len(names) == 2 else []

    def _within_variable(self, name: str) -> Expr:
        """Returns the predicate that all events of a variable lie within the length."""
        if self.negated:
            raise self._refused(
                f"under NOT nothing says which event of {name!r} is the first",
                "begin and end the part with single events: NOT (SEQ(A, B) WITHIN 1 hour)",
            )
        apart = self._apart(self._time(name, Role.FIRST), self._time(name, Role.LAST))
        if binds_at_least_one(self.whole, name):
            return apart
        return joined("or", (Binary("=", Aggregate("count", name), Literal(0)), apart))

    # NOT at an end

    def _of_negations(self) -> Iterator[Expr]:
        parts = self.part.parts if isinstance(self.part, Seq) else ()
        bound = [place for place, part in enumerate(parts) if not isinstance(part, Not)]
        first, last = ends_of(self.part)
        for place, part in enumerate(parts):
            if place < bound[0]:
                end = self._anchor(part, last, "ends")
                yield from (self._apart(self._time(name), self._time(end)) for name in negated_variables(part))
            elif place > bound[-1]:
                begin = self._anchor(part, first, "begins")
                yield from (self._apart(self._time(begin), self._time(name)) for name in negated_variables(part))

    def _anchor(self, part: Pattern, variables: tuple[str, ...], what: str) -> str:
        """Returns the variable of the single event at the other end of the part, from which the length limits a NOT."""
        if len(variables) == 1 and binds_exactly_one(self.whole, variables[0]):
            return variables[0]
        raise self._refused(
            f"{quote(part)} looks so far from where the part {what}, but it {what} with no single event",
            f"let the part {what.removesuffix('s')} with one event that is never left out or repeated",
        )
