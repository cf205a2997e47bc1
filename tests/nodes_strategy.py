"""Hypothesis strategies for arbitrary valid pattern nodes, terms and queries."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal

import attrs
from hypothesis import strategies as st

from cetdsl.pattern import nodes
from cetdsl.pattern.expressions import (
    AGGREGATES,
    ARITHMETIC,
    COMPARISONS,
    CONNECTIVES,
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Length,
    Literal,
    Role,
    Unary,
    conjuncts,
    transform,
)
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, Within
from cetdsl.pattern.query import POLICIES, AfterMatch, Computed, Query, Returned, Selection, Window
from cetdsl.pattern.spans import Span

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
_PLAIN = st.sampled_from(["a", "b", "c", "A", "B", "price", "type", "ts", "größe", "_c0", "x1"])
_ODD = st.sampled_from(
    ["where", "Seq", "AND", "not", "length", "COUNT", "next", "event", "date", "in", "i", "null", "a b", "`", "``", "'"]
    + ["--", "1a", "a.b", "İN", "liKe", "iſ", "\t", "\n", "[x]", "sum(x)", "timestamp", "*", "is"]
)
NAMES = st.one_of(_PLAIN, _PLAIN, _ODD, _TEXT.filter(bool))
_ZONES = st.sampled_from([None, datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))])

LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from([1.05, 1e20, -1e-7, 5e-324]),
    _TEXT,
    st.sampled_from(["it's", "''", "--", "a -- b\n", '"', "\t", "passive"]),
    st.builds(
        lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-(10**18), 10**18), st.integers(-18, 18)
    ),
    st.dates(),
    st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 12, 31), timezones=_ZONES),
).map(Literal)

_FUNCTIONS = st.sampled_from(
    ["abs", "coalesce", "isnull", "isnotnull", "like", "in", "length", "countDistinct", "sum", "first", "not", "upper"]
)


SPANS = st.one_of(
    st.builds(Span, st.integers(1, 2**61), st.just("tick")),
    st.builds(Span, st.integers(1, 9_998 * 365 * 86_400_000_000), st.just("microsecond")),
    st.builds(Span, st.sampled_from([1_000, 60_000_000, 3_600_000_000, 604_800_000_000]), st.just("microsecond")),
    st.builds(Span, st.integers(1, 30), st.just("month")),
)


_AFTER_MATCH = st.one_of(
    st.builds(AfterMatch, st.sampled_from(["past_last", "next_row"])),
    st.builds(AfterMatch, st.sampled_from(["to_first", "to_last"]), NAMES),
)
SELECTIONS = st.one_of(
    st.just(Selection()), st.builds(Selection, _AFTER_MATCH, longest=st.booleans()), st.just(Selection(first=True))
)

# Strategies are built once, over stand-ins "0", "1", ... of variables: building them per example is slow.
_STAND_INS = st.sampled_from(["0", "1", "2", "3"])


def terms(variables: Sequence[str]) -> st.SearchStrategy[Expr]:
    """Arbitrary terms and predicates over the attributes of ``variables``."""

    def change(node: Expr) -> Expr:
        if isinstance(node, (Attribute, Aggregate)) and node.variable is not None:
            return attrs.evolve(node, variable=variables[int(node.variable) % len(variables)])
        return node

    return _TERMS.map(lambda term: transform(term, change))


def _terms() -> st.SearchStrategy[Expr]:
    variable = _STAND_INS
    plain_roles = st.sampled_from([role for role in Role if role is not Role.NTH])
    leaves = st.one_of(
        st.builds(Attribute, variable, NAMES, plain_roles),
        st.builds(Attribute, variable, NAMES, st.just(Role.NTH), st.integers(0, 99)),
        LITERALS,
        st.just(Length()),
        st.builds(Aggregate, st.just("count"), st.none() | variable),
    )

    def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        arguments = st.lists(inner, max_size=3).map(tuple)
        return st.one_of(
            st.builds(Unary, st.sampled_from(["-", "not"]), inner),
            st.builds(Binary, st.sampled_from([*COMPARISONS, *ARITHMETIC, *CONNECTIVES]), inner, inner),
            st.builds(Binary, st.sampled_from(CONNECTIVES), inner, inner),
            st.builds(Call, st.one_of(_FUNCTIONS, NAMES), arguments),
            aggregates(inner),
        )

    return st.recursive(leaves, larger, max_leaves=8)


def aggregates(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Aggregate]:
    """Aggregates other than COUNT over terms."""

    def build(function: str, term: Expr) -> Aggregate:
        return Aggregate("max" if isinstance(term, Length) else function, None, term)

    return st.builds(build, st.sampled_from([name for name in AGGREGATES if name != "count"]), inner)


_TERMS = _terms()


@st.composite
def event_lists(draw: st.DrawFn) -> list[Event]:
    """Events of different variables."""
    found = []
    for variable in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        kind = draw(st.one_of(st.just(variable), st.none(), NAMES, _TEXT))
        condition = draw(st.one_of(st.none(), st.none(), terms([variable])))
        found.append(Event(variable, kind, condition))
    return found


def patterns(events: Sequence[Event]) -> st.SearchStrategy[Pattern]:
    """Arbitrary patterns over ``events``; a negation stands only inside SEQ."""

    def change(node: Pattern) -> Pattern:
        return events[int(node.variable) % len(events)] if isinstance(node, Event) else node

    return _PATTERNS.map(lambda pattern: nodes.transform(pattern, change))


def _negated(pattern: Pattern) -> Pattern:
    """NOT of the pattern, or the pattern when it holds a NOT already."""
    return pattern if nodes.negations(pattern) else Not(pattern)


def _patterns() -> st.SearchStrategy[Pattern]:
    def larger(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
        part = st.one_of(inner, inner, inner.map(_negated))
        return st.one_of(
            st.lists(part, min_size=1, max_size=4).map(Seq),
            st.lists(inner, min_size=1, max_size=3).map(Or),
            st.lists(inner, min_size=2, max_size=3).map(And),
            st.builds(Repeat, inner, st.integers(0, 3), st.none()),
            st.builds(Within, inner, SPANS),
            st.integers(1, 20).flatmap(lambda most: st.builds(Repeat, inner, st.integers(0, most), st.just(most))),
        )

    return st.recursive(_STAND_INS.map(Event), larger, max_leaves=6)


_PATTERNS = _patterns()


def _of_one_event(term: Expr) -> Expr:
    """The term over one event: its own columns replace the attributes, aggregates and LENGTH of a trend."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Attribute):
            return Attribute(None, node.name)
        return Attribute(None, "ts") if isinstance(node, (Aggregate, Length)) else node

    return Call("coalesce", (Attribute(None, "ts"), transform(term, change)))


#: What queries compute to group by it.
COMPUTED = st.lists(
    st.builds(Computed, NAMES, terms(["a"]).map(_of_one_event)), max_size=2, unique_by=lambda item: item.name
)
WINDOWS = st.builds(Window, SPANS, st.none() | SPANS)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Arbitrary valid queries; the parts of ``where`` are not conjunctions themselves."""
    pattern = draw(event_lists().flatmap(patterns))
    variables = list(dict.fromkeys(event.variable for event in nodes.events(pattern)))
    term = terms(variables)
    counts = st.builds(Aggregate, st.just("count"), st.none() | st.sampled_from(variables))
    columns = st.lists(NAMES, max_size=3)
    computed = draw(COMPUTED)
    groups = [name for name in draw(columns) if name not in {item.name for item in computed}]
    groups = draw(st.permutations([*groups, *(item.name for item in computed)]))
    where = draw(st.lists(term, max_size=3))
    return Query(
        pattern,
        where=[part for whole in where for part in conjuncts(whole)],
        partition_by=draw(columns),
        group_by=groups,
        computed=sorted(computed, key=lambda item: groups.index(item.name)),
        window=draw(st.none() | WINDOWS),
        matching=draw(st.sampled_from((None, *POLICIES))),
        selection=draw(SELECTIONS),
        max_gap=draw(st.none() | SPANS),
        returning=draw(st.lists(st.builds(Returned, counts | aggregates(term), st.none() | NAMES), max_size=3)),
    )
