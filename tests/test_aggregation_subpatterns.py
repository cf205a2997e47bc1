"""Sub-patterns that queries share are sound: what a match binds to their slots is a match of theirs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import chain

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.frontend import sase
from cetdsl.pattern import expressions as ex
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Seq
from cetdsl.pattern.query import Query, Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import quote
from cetdsl.sharing.aggregation.conditions import Condition
from cetdsl.sharing.aggregation.draft import Limits
from cetdsl.sharing.aggregation.plan import PlanData, Vertex
from cetdsl.sharing.aggregation.planner import ALGORITHMS, Planner
from cetdsl.sharing.aggregation.skeletons import skeleton
from cetdsl.sharing.aggregation.subpatterns import Absence, SubPattern, common
from tests import reference

TYPES = "ABC"


def pattern_of(text: str) -> SubPattern:
    return skeleton(sase.parse("PATTERN " + text)).pattern


def shared(first: str, second: str) -> str | None:
    both = common(pattern_of(first), pattern_of(second))
    return None if both is None else str(both.pattern)


# The rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("AND(A, B, C)", "AND(A, B, D)", "AND(A, B)"),
        ("SEQ(A, B, C, D)", "SEQ(B, C, E)", "SEQ(B, C)"),
        ("SEQ(B, C, E)", "AND(C, D, (E OR F))", "AND(C, OR(E, F))"),
        ("SEQ(A, NOT B, C, D)", "SEQ(A, NOT B, C, E)", "SEQ(A, NOT B, C)"),
    ],
)
def test_published_examples(first: str, second: str, expected: str) -> None:
    assert shared(first, second) == shared(second, first) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Something between A and the NOT would make the gap wider than the one that either forbids a B in.
        ("SEQ(A, X, NOT B, C)", "SEQ(A, NOT B, C)", "SEQ(A, C)"),
        ("SEQ(A, NOT B, C)", "SEQ(A, NOT D, C)", "SEQ(A, C)"),
        ("SEQ(NOT B, A, C)", "SEQ(NOT B, A, C)", "SEQ(A, C)"),
        ("SEQ(A, NOT SEQ(B, D), C)", "SEQ(A, NOT SEQ(B, D), C, E)", "SEQ(A, NOT SEQ(B, D), C)"),
        # Nested: the orders that both demand.
        ("SEQ(A, AND(B, C), D)", "SEQ(A, B, C, D)", "SEQ(A, AND(B, C), D)"),
        ("SEQ(A, B, C)", "SEQ(AND(A, B), C)", "SEQ(AND(A, B), C)"),
        ("SEQ(A, B) AND C", "SEQ(A, B, C)", "AND(SEQ(A, B), C)"),
        # OR of longer parts: what both hold.
        ("SEQ(A, B, C) OR SEQ(A, D, C)", "SEQ(A, C)", "SEQ(A, C)"),
        ("SEQ((SEQ(A, B) OR SEQ(A, C)), NOT D, E)", "SEQ(A, NOT D, E)", "SEQ(A, E)"),
        ("(A OR B)", "(B OR C)", "OR(A, B, C)"),
        ("SEQ(A, B)", "SEQ(C, D)", None),
        ("SEQ(A, B+)", "SEQ(A, B)", None),
        ("SEQ(A, B) WITHIN 5", "SEQ(A, B) WITHIN 5 SLIDE 1", None),
        ("[x] SEQ(A, B)", "SEQ(A, B)", None),
    ],
)
def test_rules_for_what_is_nested(first: str, second: str, expected: str | None) -> None:
    first, second = ("SEQ(A, B) WHERE [x]" if text.startswith("[x]") else text for text in (first, second))
    assert shared(first, second) == shared(second, first) == expected


def test_the_longer_span_holds() -> None:
    both = common(pattern_of("SEQ(A, B) WITHIN 5"), pattern_of("SEQ(A, B) WITHIN 9"))
    assert both is not None
    assert both.pattern.span == Span.parse(9)


def test_predicates_that_both_have_stay() -> None:
    first = pattern_of("SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x")
    second = pattern_of("SEQ(A u, B v) WHERE u.x < v.x")
    both = common(first, second)
    assert both is not None
    assert [quote(relation.predicate) for relation in both.pattern.relations] == ["`0`.x < `1`.x"]
    assert not skeleton(sase.parse("PATTERN SEQ(A a, B b) WHERE a.x < NEXT(b).x")).pattern.relations


def test_slots_that_a_parent_has_stay_in_a_longest_common_subsequence() -> None:
    first, second = pattern_of("SEQ(A, B, A)"), pattern_of("SEQ(B, A)")
    both = common(first, second, [(0, 1)])
    assert both is not None
    assert (both.first, both.second) == ((0,), (1,))


@pytest.mark.parametrize(
    ("first", "second", "given"),
    [
        # Under AND(A, B) and under OR(A, B).
        ("SEQ(A, B, C, D)", "SEQ(B, A, C, D)", [(0, 1), (1, 0)]),
        ("AND(A, C)", "AND(B, C)", [(0, 0)]),
        ("AND(A, (B OR C))", "AND(C, D)", [(1, 0)]),
    ],
)
def test_slots_that_a_parent_has_stay(first: str, second: str, given: list[tuple[int, int]]) -> None:
    both = common(pattern_of(first), pattern_of(second), given)
    assert both is not None
    pairs = list(zip(both.first, both.second, strict=True))
    assert set(given) <= set(pairs)
    assert len(set(both.first)) == len(set(both.second)) == len(pairs)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a.x < 5", "a.x < 7", "x < 7"),
        ("a.x < 5", "a.x >= 5", "x IS NOT NULL"),
        ("a.x < 5", "a.x > 5", "x != 5"),
        ("a.x = 1", "a.x = 2", "x = 1 OR x = 2"),
        ("a.x > 1 AND a.x < 3", "a.x >= 2 AND a.x <= 4", "x > 1 AND x <= 4"),
        ("a.x > 1 AND a.y < 3", "a.x > 0 AND a.y < 3", "x > 0 AND y < 3"),
        ("a.x > 1 AND a.y < 3", "a.x > 1", "x > 1"),
        ("a.x IN (1, 2)", "a.x = 2", "x = 1 OR x = 2"),
        ("a.s = 'b'", "a.s < 'b'", "s <= 'b'"),
        ("a.x > a.y", "a.x > a.y", "x > y"),
        ("1 < a.x", "a.x > 0", "x > 0"),
        ("a.x < 1 AND a.x > 2", "a.x > 5", "x > 5"),
        ("a.x > -1", "a.x > -2", "x > -2"),
    ],
)
def test_conditions_are_joined_by_or_and_simplified(first: str, second: str, expected: str) -> None:
    both = common(pattern_of(f"A a WHERE {first}"), pattern_of(f"A a WHERE {second}"))
    assert both is not None
    ((_, condition),) = both.pattern.slots[0].choices
    assert quote(condition.expression()) == expected


def terms() -> st.SearchStrategy[ex.Expr]:
    simple = st.builds(
        ex.Binary,
        st.sampled_from(ex.COMPARISONS),
        st.sampled_from([ex.Attribute(None, "x"), ex.Attribute(None, "y")]),
        st.builds(ex.Literal, st.sampled_from([0, 1, 2, 1.5])),
    )
    compared = st.just(ex.Binary("<", ex.Attribute(None, "x"), ex.Attribute(None, "y")))
    return st.recursive(simple | compared, _connected, max_leaves=4)


def _connected(inner: st.SearchStrategy[ex.Expr]) -> st.SearchStrategy[ex.Expr]:
    return st.builds(ex.Binary, st.sampled_from(["and", "or"]), inner, inner)


@given(st.lists(terms(), min_size=1, max_size=8))
def test_a_condition_lets_through_what_its_parts_let_through(parts: list[ex.Expr]) -> None:
    """Exactly that, if it has few boxes; never less."""
    whole = Condition.of([parts[0]])
    for part in parts[1:]:
        whole = whole.either(Condition.of([part]))
    expression = whole.expression()
    for x in (None, -1, 0, 0.5, 1, 1.5, 2, 3, float("nan")):
        for y in (None, 0, 1, 2):
            row = {"x": x, "y": y}
            meets = reference.evaluate(expression, lambda node, row=row: row[node.name]) is True
            some = any(reference.evaluate(part, lambda node, row=row: row[node.name]) is True for part in parts)
            assert meets or not some
            if len(parts) == 1:
                assert meets == some


# Soundness -----------------------------------------------------------------------------------------------------------


@st.composite
def random_queries(draw: st.DrawFn) -> Query:
    """Queries that the reference can enumerate: sequences with AND, OR and NOT within, and AND of sides at the top."""
    names = iter("abcdefghijkl")

    def event() -> Event:
        name, kind = next(names), draw(st.sampled_from(TYPES))
        limit = draw(st.sampled_from([None, None, 1, 2]))
        condition = None
        if limit is not None:
            condition = ex.Binary(draw(st.sampled_from(["<", ">="])), ex.Attribute(name, "x"), ex.Literal(limit))
        return Event(name, kind, condition)

    def part() -> Pattern:
        shape = draw(st.sampled_from(["event", "event", "event", "and", "or", "long"]))
        if shape == "event":
            return event()
        if shape == "long":
            return Or((Seq((event(), event())), event()))
        return (And if shape == "and" else Or)((event(), event()))

    def sequence() -> Pattern:
        parts: list[Pattern] = []
        for _ in range(draw(st.integers(2, 3))):
            if parts and draw(st.booleans()):
                parts.append(Not(event()))
            parts.append(part())
        return Seq(tuple(parts))

    shape = draw(st.sampled_from(["sequence", "sequence", "sequence", "events", "sides", "sides"]))
    span = Window(Span.parse(draw(st.sampled_from([2, 4, 6]))))
    if shape == "sequence":
        pattern = sequence()
    elif shape == "events":
        pattern = And(tuple(event() for _ in range(draw(st.integers(2, 3)))))
    else:
        side: Pattern = And((event(), Or((event(), event())))) if draw(st.booleans()) else event()
        pattern = And((Seq((event(), *([Not(event())] if draw(st.booleans()) else []), event())), side))
    window = draw(st.sampled_from([None, span, span, Window(Span.parse(4), Span.parse(2))]))
    where: tuple[ex.Expr, ...] = ()
    if draw(st.booleans()):
        first, second = sorted(reference.positive_events(pattern), key=lambda each: each.variable)[:2]
        sides = (ex.Attribute(each.variable, "x") for each in (first, second))
        where = (ex.Binary(draw(st.sampled_from(["<", "<="])), *sides),)
    return Query(pattern, where, window=window)


STREAMS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(TYPES), st.integers(0, 3)), min_size=3, max_size=8).map(
    lambda rows: [{"t": t, "type": kind, "x": x} for t, kind, x in rows]
)


def asked(pattern: SubPattern) -> Query:
    """A sub-pattern without what it negates as a query for the reference: AND of events whose times are compared."""

    def variable(slot: int) -> str:
        return f"s{slot}"

    def event(slot: int) -> Event:
        choices = []
        for kind, condition in pattern.slots[slot].choices:
            typed = ex.Binary("=", ex.Attribute(None, "type"), ex.Literal(kind))
            choices.append(ex.Binary("and", typed, condition.expression()))
        return Event(variable(slot), None, ex.joined("or", choices))

    def time(slot: int) -> ex.Expr:
        return ex.Attribute(variable(slot), "t")

    slots = range(len(pattern.slots))
    where = [ex.Binary("<", time(i), time(j)) for i in slots for j in slots if pattern.later[i] >> j & 1]
    if pattern.span is not None:
        length = ex.Literal(pattern.span.amount)
        where += [ex.Binary("<=", ex.Binary("-", time(i), time(j)), length) for i in slots for j in slots if i != j]
    for relation in pattern.relations:
        where.append(
            ex.with_attributes(relation.predicate, lambda a: attrs.evolve(a, variable=variable(int(a.variable or 0))))
        )
    parts = tuple(map(event, slots))
    return Query(And(parts) if len(parts) > 1 else parts[0], tuple(where))


def instances(pattern: SubPattern, rows: Sequence[reference.Row]) -> Iterator[tuple[int, ...]]:
    """All matches of a sub-pattern: for each slot the number of a row."""
    stream = reference.Stream(rows, "t", (), "type")
    for found in reference.trends(asked(pattern), rows).values():
        for match in found:
            bound = dict(binding[::-1] for binding in (chain(*match) if isinstance(match, frozenset) else match))
            rows_of = tuple(bound[f"s{slot}"] for slot in range(len(pattern.slots)))
            if not any(_is_broken(absence, rows_of, stream) for absence in pattern.absences):
                yield rows_of


def _is_broken(absence: Absence, rows_of: tuple[int, ...], stream: reference.Stream) -> bool:
    slots = range(len(rows_of))
    after, before = ([rows_of[i] for i in slots if mask >> i & 1] for mask in (absence.after, absence.before))
    assert isinstance(absence.pattern, Event)
    assert not absence.where
    return any(
        stream.satisfies(i, absence.pattern)
        and all(stream.precedes(j, i) for j in after)
        and all(stream.precedes(i, j) for j in before)
        for i in range(len(stream.rows))
    )


def matches(plan: PlanData, vertex: Vertex, rows: Sequence[reference.Row]) -> set[tuple[int, ...]]:
    """What the vertex's slots are bound to, of each match of its query, or of its sub-pattern if it has none."""
    if vertex.query is None:
        return set(instances(vertex.pattern, rows)) if len(vertex.pattern.slots) <= 4 else set()
    found = set()
    for trends in reference.trends(plan.queries[vertex.query], rows).values():
        for match in trends:
            bindings = list(chain(*match)) if isinstance(match, frozenset) else list(match)
            slots = [[row for row, variable in bindings if variable in names] for names in vertex.variables]
            assert all(len(rows_of) == 1 for rows_of in slots), "each slot holds one event"
            found.add(tuple(row for (row,) in slots))
    return found


def check_soundness(plan: PlanData, rows: Sequence[reference.Row]) -> None:
    vertices = {vertex.number: vertex for vertex in plan.vertices}
    for edge in plan.edges:
        parent = set(instances(vertices[edge.parent].pattern, rows))
        for match in matches(plan, vertices[edge.child], rows):
            assert tuple(match[slot] for slot in edge.slots) in parent


@settings(max_examples=150, deadline=None)
@given(
    st.lists(random_queries(), min_size=2, max_size=6),
    STREAMS,
    st.sampled_from(ALGORITHMS),
    st.integers(1, 2),
)
def test_each_match_of_a_child_contains_a_match_of_its_parents(
    queries: list[Query], rows: list[reference.Row], algorithm: str, least: int
) -> None:
    named = {f"q{number}": query for number, query in enumerate(queries)}
    check_soundness(Planner(named, algorithm, Limits(least_slots=least)).plan, rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from(ALGORITHMS), STREAMS)
def test_deep_plans_are_sound_too(seed: int, algorithm: str, rows: list[reference.Row]) -> None:
    """Many queries over few types, so that clusters hold clusters."""
    chance = random.Random(seed)
    queries = {}
    for number in range(14):
        parts: list[Pattern] = []
        for place, kind in enumerate(chance.sample(TYPES + "D", chance.randint(2, 4))):
            names = [
                f"v{place}{other}" for other in dict.fromkeys([kind, *chance.choices(TYPES, k=chance.randint(0, 1))])
            ]
            limits = [ex.Binary("<", ex.Attribute(name, "x"), ex.Literal(chance.choice([1, 2, 9]))) for name in names]
            choices = [Event(name, name[-1], limit) for name, limit in zip(names, limits, strict=True)]
            parts.append(choices[0] if len(choices) == 1 else Or(tuple(choices)))
        if chance.random() < 0.4 and all(isinstance(part, Event) for part in parts[:2]):
            parts = [And(tuple(parts[:2])), *parts[2:]]
        window = Window(Span.parse(chance.choice([3, 6])))
        queries[f"q{number}"] = Query(Seq(tuple(parts)), window=window)
    plan = Planner(queries, algorithm, Limits()).plan
    assert plan.levels
    check_soundness(plan, rows)


@settings(max_examples=300, deadline=None)
@given(random_queries(), random_queries(), STREAMS)
def test_what_two_patterns_have_in_common_is_in_each_match_of_either(
    first: Query, second: Query, rows: list[reference.Row]
) -> None:
    one, other = skeleton(first), skeleton(second)
    both = common(one.pattern, other.pattern)
    if both is None:
        return
    found = set(instances(both.pattern, rows))
    for query, own, slots in ((first, one, both.first), (second, other, both.second)):
        for trends in reference.trends(query, rows).values():
            for match in trends:
                bindings = list(chain(*match)) if isinstance(match, frozenset) else list(match)
                bound = tuple(next(row for row, name in bindings if name in own.variables[slot]) for slot in slots)
                assert bound in found
