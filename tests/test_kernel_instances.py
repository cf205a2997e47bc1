"""Matches of many queries along an aggregation plan: each query's are its own alone, whatever the plan.

No Spark here: workloads are drawn, planned and laid out as for a worker, and the kernel reads arrays.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import chain, product
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.analysis.resolve import Binding, analyse
from cetdsl.frontend import sase
from cetdsl.ir.schema import Field, Schema
from cetdsl.ir.slots import TESTS_IN_WORD as WORD
from cetdsl.ir.windowing import Windowing
from cetdsl.kernels.instances.detector import Detector
from cetdsl.kernels.vocabulary import Events
from cetdsl.kernels.wire.columns import order_codes
from cetdsl.kernels.wire.windows import NEVER, cut_slices
from cetdsl.pattern import expressions as ex
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Seq
from cetdsl.pattern.query import Query, Window
from cetdsl.pattern.spans import Span
from cetdsl.planning.instances import Wanted, join_vertices
from cetdsl.planning.slots import NotInSlots, Numbers, alternatives_of
from cetdsl.rewrite import rewrite
from cetdsl.sharing.aggregation.draft import Limits
from cetdsl.sharing.aggregation.plan import PlanData
from cetdsl.sharing.aggregation.planner import ALGORITHMS, Planner

TYPES = "ABC"
SCHEMA = Schema([Field("k", "int"), Field("t", "int"), Field("type", "string"), Field("x", "int"), Field("y", "int")])
#: The matches of each query: for each, which row is bound to which variable.
Found = dict[str, set[frozenset[tuple[int, str]]]]


class Workload:
    """Queries laid out for a worker along a plan."""

    def __init__(self, queries: Mapping[str, Query], plan: PlanData | None) -> None:
        self.names, self.numbers, self.queries = list(queries), Numbers("type", SCHEMA), dict[str, Query]()
        wanted = {}
        for number, (name, query) in enumerate(queries.items()):
            resolved = rewrite(analyse(query, SCHEMA, Binding("t")))[0]
            if set(resolved.query.partition_by) != set(query.partition_by):
                # Equalities of all its events have become a key, so it is in a pass of other keys.
                continue
            window = resolved.query.window
            windows = (window.length.amount, window.slide.amount) if window and window.slide else None
            sizes = self.numbers.sizes
            try:
                wanted[name] = Wanted(number, alternatives_of(resolved, self.numbers), windows)
            except NotInSlots:
                assert self.numbers.sizes == sizes, "nothing is numbered for a query that is not taken"
                continue
            self.queries[name] = query
        self.vertices = join_vertices(plan, wanted)

    def found(self, rows: Sequence[Mapping[str, Any]], keyed: bool = False, **how: Any) -> tuple[Found, Detector]:
        """The matches among some rows, each once; of several keys if they are keyed."""
        order = sorted(range(len(rows)), key=lambda i: (rows[i]["k"] if keyed else 0, rows[i]["t"]))
        ordered = [rows[i] for i in order]
        detector = Detector(self.vertices, **how)
        names = dict(map(reversed, self.numbers.variables.items()))  # type: ignore[arg-type]
        found: Found = {name: set() for name in self.queries}
        for query, block in detector.find(*self.arrays(ordered, keyed)):
            for begin, end in zip(block.start[:-1], block.start[1:], strict=True):
                bound = zip(block.event[begin:end], block.variable[begin:end], strict=True)
                match = frozenset((order[event], names[int(variable)]) for event, variable in bound)
                assert match not in found[self.names[query]], "each match is found once"
                found[self.names[query]].add(match)
        return found, detector

    def arrays(self, rows: Sequence[Mapping[str, Any]], keyed: bool) -> tuple[Any, ...]:
        """What a worker makes of rows."""
        time = np.array([row["t"] for row in rows], dtype=np.int64)
        key = np.array([row["k"] if keyed else 0 for row in rows])
        new = np.append(True, key[1:] != key[:-1])
        instant = np.cumsum(np.append(True, (time[1:] != time[:-1]) | new[1:])) - 1
        start = np.append(np.nonzero(new)[0], len(rows)).astype(np.int64)
        kinds = np.array([self.numbers.kinds.get(row["type"], -1) for row in rows], dtype=np.int64)
        tests = np.zeros((-(-len(self.numbers.tests) // WORD), len(rows)), dtype=np.int64)
        for test, number in self.numbers.tests.items():
            for i, row in enumerate(rows):
                if reference.evaluate(test, lambda node, row=row: row[node.name]) is True:
                    tests[number // WORD, i] |= 1 << number % WORD
        columns = [
            pa.array([reference.evaluate(code.expr, lambda node, row=row: row[node.name]) for row in rows], pa.int64())
            for code in self.numbers.codes
        ]
        codes, valid = order_codes(columns)
        if not columns:
            codes, valid = np.zeros((0, len(rows)), dtype=np.int64), np.zeros((0, len(rows)), dtype=np.bool_)
        none = np.zeros(0, dtype=np.int64)
        events = Events(start, time, instant, time, codes, valid, np.zeros((0, len(rows) + 1), dtype=np.int64), none)
        slices = cut_slices(Windowing(), start, time, np.zeros(len(start) - 1, dtype=np.int64), True, NEVER)
        bounds = np.full(len(start) - 1, NEVER), np.full(len(start) - 1, -NEVER)
        return events, kinds, tests, slices, bounds


def expected(queries: Mapping[str, Query], rows: Sequence[Mapping[str, Any]]) -> Found:
    """What the reference finds, of all windows and keys together."""
    return {
        name: {
            frozenset(chain(*match)) if isinstance(match, frozenset) else frozenset(match)
            for found in reference.trends(query, rows).values()
            for match in found
        }
        for name, query in queries.items()
    }


def planned(queries: Mapping[str, Query], algorithm: str | None = "casem+dce", deadline: float | None = None) -> Any:
    return None if algorithm is None else Planner(queries, algorithm, Limits(), deadline).plan


def texts(**queries: str) -> dict[str, Query]:
    return {name: sase.parse(text) for name, text in queries.items()}


def stream(text: str, **more: Any) -> list[dict[str, Any]]:
    """Events one tick after the other, of the types that a text spells."""
    return [{"k": 0, "t": t, "type": kind, "x": t % 3, "y": t % 2, **more} for t, kind in enumerate(text)]


# Random workloads ----------------------------------------------------------------------------------------------------


def random_query(chance: random.Random) -> Query:
    """Nested SEQ, AND, OR and NOT over few types, so that queries have much in common."""
    names = iter("abcdefghijklmnopqrstuvwxyz")

    def event() -> Event:
        name, kind = next(names), chance.choice(TYPES)
        if chance.random() < 0.6:
            return Event(name, kind)
        limit = ex.Binary(chance.choice(["<", ">="]), ex.Attribute(name, "x"), ex.Literal(chance.choice([1, 2])))
        return Event(name, kind, limit)

    def part(inner: bool = True) -> Pattern:
        shape = chance.choice(["event"] * 5 + ["and", "or", "long"])
        if shape == "event" or (shape == "and" and not inner):
            return event()
        if shape == "long":
            return Or((Seq((event(), event())), event()))
        return (And if shape == "and" else Or)((event(), event()))

    def sequence(ends: bool = True) -> Pattern:
        parts: list[Pattern] = []
        for _ in range(chance.randint(2, 3)):
            if (parts or (ends and chance.random() < 0.2)) and chance.random() < 0.3:
                parts.append(Not(event()))
            parts.append(part())
        if ends and chance.random() < 0.1:
            parts.append(Not(event()))
        return Seq(tuple(parts))

    def side() -> Pattern:
        shape = chance.choice(["event", "event", "sequence", "or"])
        if shape == "sequence":
            gap = [Not(event())] if chance.random() < 0.3 else []
            return Seq((event(), *gap, event()))
        return event() if shape == "event" else Or((event(), event()))

    shape = chance.choice(["sequence", "sequence", "sequence", "events", "sides", "sides"])
    span, windows = (
        Window(Span.parse(chance.choice([2, 4, 6]))),
        Window(Span.parse(4), Span.parse(chance.choice([2, 4]))),
    )
    if shape == "sequence":
        window = chance.choice([None, span, span, windows])
        pattern = sequence(ends=window is not windows)
    elif shape == "events":
        pattern, window = And(tuple(event() for _ in range(chance.randint(2, 3)))), chance.choice([None, span, windows])
    else:
        sides = [side() for _ in range(chance.randint(1, 2))]
        pattern, window = And((Seq((event(), event())), *sides)), chance.choice([None, span, span, windows])
    where: list[ex.Expr] = []
    bound = reference.positive_events(pattern)
    for _ in range(chance.choice([0, 0, 1, 1, 2, 4]) if len(bound) > 1 else 0):
        first, second = chance.sample(bound, 2)
        op, columns = chance.choice(["=", "=", "<", "<=", ">", "!="]), chance.choice(["xy", "xx", "yx"])
        sides = (ex.Attribute(event.variable, column) for event, column in zip((first, second), columns, strict=True))
        where.append(ex.Binary(op, *sides))
    partition = ("k",) if chance.random() < 0.3 else ()
    return Query(pattern, tuple(where), partition, window=window)


def random_rows(chance: random.Random, most: int = 9) -> list[dict[str, Any]]:
    return [
        {
            "k": chance.randint(0, 1),
            "t": chance.randint(0, 7),
            "type": chance.choice(TYPES + "D"),
            "x": chance.choice([0, 1, 2, None]),
            "y": chance.choice([0, 1, 2, None]),
        }
        for _ in range(chance.randint(3, most))
    ]


def of_one_key(queries: Mapping[str, Query], keyed: bool) -> dict[str, Query]:
    return {name: attrs.evolve(query, partition_by=("k",) if keyed else ()) for name, query in queries.items()}


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 10**9),
    st.integers(2, 12),
    st.sampled_from([*ALGORITHMS, None]),
    st.sampled_from([None, None, 0.0]),
    st.booleans(),
    st.sampled_from([10**6, 10**6, 12]),
    st.booleans(),
)
def test_each_query_of_a_workload_finds_what_it_finds_alone(
    seed: int, size: int, algorithm: str | None, deadline: float | None, keyed: bool, most_kept: int, frugal: bool
) -> None:
    chance = random.Random(seed)
    queries = of_one_key({f"q{number}": random_query(chance) for number in range(size)}, keyed)
    workload = Workload(queries, planned(queries, algorithm, deadline))
    rows = random_rows(chance)
    found, _ = workload.found(rows, keyed, most_kept=most_kept, frugal=frugal)
    assert found == expected(workload.queries, rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.integers(13, 40), st.sampled_from(ALGORITHMS), st.booleans())
def test_each_of_many_queries_finds_what_it_finds_alone(seed: int, size: int, algorithm: str, frugal: bool) -> None:
    chance = random.Random(seed)
    queries = of_one_key({f"q{number}": random_query(chance) for number in range(size)}, keyed=False)
    workload = Workload(queries, planned(queries, algorithm))
    rows = random_rows(chance)
    assert workload.found(rows, frugal=frugal)[0] == expected(workload.queries, rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 10), st.sampled_from(ALGORITHMS), st.sampled_from([None, 0.0, 0.01]))
def test_queries_that_come_and_go_leave_the_others_their_matches(
    seed: int, size: int, algorithm: str, deadline: float | None
) -> None:
    chance = random.Random(seed)
    queries = of_one_key({f"q{number}": random_query(chance) for number in range(size)}, keyed=False)
    planner = Planner(queries, algorithm, Limits(), deadline)
    for number in range(chance.randint(1, 8)):
        if queries and chance.random() < 0.5:
            name = chance.choice(sorted(queries))
            planner.remove(name)
            del queries[name]
        else:
            more = of_one_key({f"new{number}": random_query(chance)}, keyed=False)
            for name, query in more.items():
                planner.add(name, query, deadline)
            queries |= more
    # The kernel knows queries by their numbers, in an order that is not the planner's.
    names = sorted(queries, key=lambda _: chance.random())
    workload = Workload({name: queries[name] for name in names}, planner.plan)
    rows = random_rows(chance)
    assert workload.found(rows, frugal=False)[0] == expected(workload.queries, rows)


# By hand -------------------------------------------------------------------------------------------------------------

SHARING = {"c": "PATTERN SEQ(A, B, C)", "d": "PATTERN SEQ(A, B, D)", "e": "PATTERN SEQ(A, B, E)"}


def test_instances_of_a_sub_pattern_are_built_once() -> None:
    queries = texts(**SHARING)
    workload = Workload(queries, planned(queries))
    found, detector = workload.found(stream("AABBCDE"), frugal=False)
    assert {name: len(matches) for name, matches in found.items()} == {"c": 4, "d": 4, "e": 4}
    assert [vertex.name for vertex in workload.vertices] == ["SEQ(A, B)", "c", "d", "e"]
    assert detector.built.tolist() == [4, 4, 4, 4]
    assert detector.shared.tolist() == [8, 0, 0, 0]


def test_nothing_is_looked_at_where_an_event_that_a_match_needs_is_out_of_reach() -> None:
    queries = texts(**SHARING)
    found, detector = Workload(queries, planned(queries)).found(stream("BBACCDDE"))
    assert not any(found.values())
    assert detector.built.tolist() == [0, 0, 0, 0]
    assert detector.avoided.tolist() == [0, 5, 5, 4], "A, both B, and the events of C, D and E"


def test_nothing_is_built_of_a_parent_without_an_instance() -> None:
    queries = texts(**{name: f"{text.replace('A, B', 'A a, B b')} WHERE a.x = b.y" for name, text in SHARING.items()})
    rows = [{**row, "x": 2, "y": 1} for row in stream("AABBCCDDE")]
    found, detector = Workload(queries, planned(queries)).found(rows, frugal=False)
    assert not any(found.values())
    assert detector.built.tolist() == [0, 0, 0, 0]
    assert detector.avoided.tolist() == [0, 2, 2, 1], "events of C, D and E"


def test_a_sub_pattern_is_built_where_that_takes_less_than_it_saves() -> None:
    # The first comparison, which an index answers, holds of all pairs; so the second one is tested of each.
    where = "a.y < b.x + 60 AND a.x > b.y"
    queries = texts(**{name: f"{text.replace('A, B', 'A a, B b')} WHERE {where}" for name, text in SHARING.items()})
    workload = Workload(queries, planned(queries))
    few, many = stream("AABBCDE"), stream("A" * 60 + "B" * 60 + "C" * 9 + "D" * 9 + "E" * 9, y=57)
    assert workload.found(few)[1].not_kept.tolist() == [1, 0, 0, 0], "each query takes little by itself"
    for number, row in enumerate(many):
        row["x"] = number
    found, detector = workload.found(many)
    assert found == workload.found(many, frugal=False)[0]
    assert detector.built.tolist() == [120, 1_080, 1_080, 1_080]
    assert detector.shared.tolist() == [240, 0, 0, 0]
    for row in many:
        row["y"] = -1
    found, detector = workload.found(many)
    assert {name: len(matches) for name, matches in found.items()} == dict.fromkeys("cde", 60 * 60 * 9)
    assert detector.not_kept.tolist() == [1, 0, 0, 0], "to read so many instances takes longer than to join them"


def test_a_sub_pattern_is_left_alone_when_its_queries_have_what_they_want() -> None:
    queries = texts(**SHARING)
    workload = Workload(queries, planned(queries))
    found, detector = workload.found(stream("AABBCDE"), limit=3, frugal=False)
    assert {name: len(matches) for name, matches in found.items()} == {"c": 3, "d": 3, "e": 3}
    assert not detector.wants_more
    rows = stream("AABBCDE")
    assert not list(detector.find(*workload.arrays(rows, keyed=False)))
    assert detector.built.tolist() == [4, 3, 3, 3]


# Indexes -------------------------------------------------------------------------------------------------------------

RELATED = (
    "a.x = b.x AND a.y = b.y AND b.x = c.y",
    "a.x < b.y - 2 AND b.x < c.y - 2",
    "a.x > b.x AND a.y = c.y AND c.x >= b.x",
    "a.y = b.y AND a.x <= c.x AND b.y != c.y",
)


@pytest.mark.parametrize("where", RELATED)
@pytest.mark.parametrize("frugal", [True, False])
def test_what_is_looked_up_by_value_is_what_nested_loops_find(where: str, frugal: bool) -> None:
    """Among so many events that trees of extremes have several levels; of several keys, with and without parents."""
    chance = random.Random(3)
    rows = [
        {"k": key, "t": t, "type": kind, "x": chance.choice([None, *range(6)]), "y": chance.choice([None, *range(6)])}
        for key in (0, 1)
        for t, kind in enumerate(chance.choices("ABCD", k=130))
    ]
    forms = {"p": ("SEQ", "C"), "q": ("SEQ", "D"), "r": ("AND", "C")}
    queries = texts(
        **{name: f"PATTERN {form}(A a, B b, {kind} c) WHERE {where} WITHIN 60" for name, (form, kind) in forms.items()}
    )
    found, _ = Workload(queries, planned(queries)).found(rows, keyed=True, frugal=frugal)
    for name, (form, kind) in forms.items():
        fitting = [[i for i, row in enumerate(rows) if row["type"] == each] for each in ("A", "B", kind)]
        matches = set()
        for three in product(*fitting):
            bound = dict(zip("abc", (rows[i] for i in three), strict=True))
            times = [row["t"] for row in bound.values()]
            together = len({row["k"] for row in bound.values()}) == 1 and max(times) - min(times) <= 60
            if together and (form == "AND" or times == sorted(times)):
                holds = (
                    reference.evaluate(one, lambda node, bound=bound: bound[node.variable][node.name])
                    for one in queries[name].where
                )
                if all(one is True for one in holds):
                    matches.add(frozenset(zip(three, "abc", strict=True)))
        assert matches
        assert found[name] == matches


def test_slots_that_predicates_relate_are_bound_one_after_the_other() -> None:
    queries = texts(q="PATTERN AND(A a, B b, C c) WHERE a.x = b.x AND b.x = c.x")
    workload = Workload(queries, None)
    rows = [{**row, "x": t % 20} for t, row in enumerate(stream("A" * 20 + "B" * 40 + "C" * 30))]
    found, detector = workload.found(rows)
    assert len(found["q"]) == 20 * 2 * 2 - 10 * 2
    [(parts, (program, lookups))] = detector.vertices[0].programs.items()
    assert parts == (0, 1, 2), "there are fewer C than B, but nothing relates them to A"
    assert program.test.tolist() == [], "all is looked up"
    assert [lookup and lookup.equal for lookup in lookups] == [None, ((0, 0),), ((0, 0),)]
