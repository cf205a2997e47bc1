"""Counts of an AND of single events by messages along its predicates, compared with the reference enumerator."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import generators
import numpy as np
import pytest
from modes import more_on_classic
from test_engines import Judge, agrees, judge_of
from test_kernel_aggregate import NUMBERS, SCHEMA, Worker, compare

import cetdsl as cet
from cetdsl.analysis import Binding, analyse
from cetdsl.errors import UnsupportedQuery
from cetdsl.kernels.aggregate import messages as kernel_messages
from cetdsl.pattern.expressions import HOLDS
from cetdsl.planning.compile import compile_query, joint_query
from cetdsl.planning.forests import forest_of
from cetdsl.planning.strategies.messages import messages
from cetdsl.rewrite import rewrite

pytestmark = pytest.mark.simple_plans

RETURNING = (
    "RETURN COUNT(*), COUNT({v}), SUM({v}.x), AVG({v}.y), SUM({w}.y), MIN({v}.x), MAX({w}.name), AVG(LENGTH), "
    "MIN(LENGTH), VARIANCE({w}.x) "
)
#: Patterns with the pairs of variables that predicates relate.
PATTERNS = [
    ("AND(A a, B b)", "ab"),
    ("AND(A a, B b, C c)", "ab bc"),
    ("AND(A a, B b, C c)", "ac"),
    ("AND(A a, B b, C c)", ""),
    ("AND(A a, B b, C c, A d)", "ab bc cd"),
    ("AND(A a, B b, C c, B d)", "ab ac ad"),
    ("AND(A a, B b, C c, C d, A e)", "ab cd"),
    ("AND(A a, A b, EVENT(c, c.x > 0))", "ab bc"),
]
OPERATORS = ("<", "<=", ">", ">=", "=", "!=")


WINDOWS = ("", "", " WITHIN 6 SLIDE 2", " WITHIN 3 SLIDE 3", " WITHIN 5 SLIDE 2")


def query_of(
    choose: random.Random, pattern: str, links: str, windows: Sequence[str] = WINDOWS, more: Sequence[str] = ()
) -> str:
    """A query whose predicates relate the variables of each link by equalities and one other comparison."""
    found = list(more)
    for u, v in links.split():
        kind = choose.choice(["order", "equality", "both", "keys"])
        if kind in ("order", "both"):
            columns = choose.choice(["xx", "xy", "yy", "xx", ("x * 2", "y"), ("name", "name")])
            sides = [f"{u}.{columns[0]}", f"{v}.{columns[1]}"]
            found.append(f"{sides[0]} {choose.choice(OPERATORS)} {sides[1]}")
        if kind in ("equality", "both", "keys"):
            found.append(f"{u}.k = {v}.k")
        if kind == "keys":
            found.append(f"{v}.name = {u}.name")
    choose.shuffle(found)
    names = sorted(set("ab" + links.replace(" ", "")))
    if choose.random() < 0.3:
        found.append(f"{choose.choice(names)}.x > 0")
    window = choose.choice(windows)
    group = choose.choice([" GROUP BY case", " GROUP BY case, g", " GROUP BY case"])
    if ", g" not in group and choose.random() < 0.3:
        found.append("[g]")
    where = f" WHERE {' AND '.join(found)}" if found else ""
    returning = RETURNING.format(v=choose.choice(names), w=choose.choice(names))
    return f"{returning}PATTERN {pattern}{where}{group}{window}"


@pytest.mark.parametrize(("pattern", "links"), PATTERNS)
def test_messages_count_as_the_reference(pattern: str, links: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third query evaluates its slices one by one."""
    compared = 0
    for seed in range(24):
        monkeypatch.setattr(kernel_messages, "_TOGETHER", (2**21, 2**21, 1)[seed % 3])
        choose = random.Random(f"{pattern} {links} {seed}")
        text = query_of(choose, pattern, links)
        query = cet.parse(text)._query()
        rows, ties = generators.stacked(80_000 + 8 * seed, 8), choose.choice([(), (), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        compared += compare(query, rows, ties, NUMBERS[seed % 4], cuts, seed, messages)
    assert compared >= 20


#: Patterns of which a first event says by itself which others go with it: any two, all equal, or all at will.
CLIQUES = [
    ("AND(A a, B b)", "ab", ()),
    ("AND(A a, A b)", "ab", ()),
    ("AND(A a, B b)", "", ()),
    ("AND(A a, B b, C c, A d)", "", ()),
    ("AND(A a, B b, C c)", "", ("a.k = b.k", "b.k = c.k")),
    ("AND(A a, A b, EVENT(c, c.x > 0))", "", ("a.k = b.k", "a.k = c.k", "c.y = a.x", "c.y = b.x")),
    ("AND(A a, B b, A c)", "", ("a.y = b.x", "b.x = c.y", "c.x = a.y")),
]


@pytest.mark.parametrize(("pattern", "links", "equal"), CLIQUES)
def test_spans_are_counted_as_by_the_reference(pattern: str, links: str, equal: tuple[str, ...]) -> None:
    compared = 0
    for seed in range(24):
        choose = random.Random(f"span {pattern} {links} {equal} {seed}")
        text = query_of(choose, pattern, links, [f" WITHIN {choose.choice((1, 2, 3, 5, 9))}"], equal)
        query = cet.parse(text)._query()
        rows, ties = generators.stacked(85_000 + 8 * seed, 8), choose.choice([(), (), ("s",)])
        compared += compare(query, rows, ties, NUMBERS[seed % 4], (-1, 1, 3), seed, messages)
    assert compared >= 20


#: Queries with the strategies that answer them.
ON_SPARK = [
    ("AND(A a, B b, C c) WHERE a.k = b.k AND b.x <= c.y AND [g]", {"messages", "enumerate"}),
    ("AND(A a, B b) WHERE a.x < b.x", {"messages", "enumerate"}),
    ("AND(A a, B b) WHERE a.x < b.x WITHIN 3", {"messages", "enumerate"}),
    ("AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND c.y != a.y", {"enumerate"}),
    ("AND(A a, A b, A c) WHERE a.x + b.x > c.x AND a.id != b.id WITHIN 4 SLIDE 2", {"enumerate"}),
]


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    return judge_of(spark, generators.stacked(90_000, 20))


@pytest.mark.parametrize(("pattern", "strategies"), more_on_classic(*ON_SPARK))
def test_answers_and_lists_on_spark(judge: Judge, pattern: str, strategies: set[str]) -> None:
    query = cet.parse(f"{RETURNING.format(v='b', w='a')}PATTERN {pattern}")._query()
    assert judge.judge(query, (), "decimal") == strategies
    assert judge.judge_trends(query, ("s",))


FORESTS = [
    ("a.k = b.k AND b.k = c.k AND a.k = c.k", {"ab", "ac"}),
    # The equality goes where an order relates the variables already.
    ("a.k = b.k AND b.k = c.k AND a.y < c.y", {"ac", "ab"}),
    ("a.x = b.x AND b.x = c.x AND b.y = c.y", {"ab", "bc"}),
    ("a.x < b.x AND b.x > a.x", {"ab"}),
    ("a.x < b.x AND a.y < b.y", "two comparisons other than = relate a and b"),
    ("a.x < b.x AND b.x < c.x AND c.x < a.y", "the predicates relate the variables in a circle, through a and c"),
    ("a.x = b.x AND b.y = c.y AND c.g = a.g", "the predicates relate the variables in a circle, through "),
]


@pytest.mark.parametrize(("where", "expected"), FORESTS)
def test_forests_say_the_same_without_a_circle(where: str, expected: set[str] | str) -> None:
    resolved, _ = rewrite(
        analyse(cet.parse(f"PATTERN AND(A a, B b, C c) WHERE {where}")._query(), SCHEMA, Binding("t"))
    )
    compiled = compile_query(joint_query(resolved))
    forest = forest_of(compiled)
    if isinstance(expected, str):
        assert isinstance(forest, str)
        assert forest.startswith(expected)
        return
    assert not isinstance(forest, str)
    links = {(compiled.name_of(pair.left_variable), compiled.name_of(pair.right_variable)) for pair in forest}
    assert {u + v for u, v in links} == expected


@pytest.mark.parametrize(
    ("pattern", "where", "reason"),
    [
        ("A a, B b, C c", "a.x < b.x", "a span bounds 3 events together, and a and b are compared by <"),
        ("A a, B b, C c", "a.x = b.x", "a span bounds 3 events together, and of them only a and b must be equal"),
        ("A a, B b, C c", "a.x = b.x AND b.y = c.y", "a span bounds 3 events together, and of them only "),
        ("A a, B b", "a.x < b.x AND a.y < b.y", "two comparisons other than = relate a and b"),
    ],
)
def test_what_a_span_asks_for(pattern: str, where: str, reason: str) -> None:
    query = cet.parse(f"RETURN COUNT(*) PATTERN AND({pattern}) WHERE {where} WITHIN 3")._query()
    with pytest.raises(UnsupportedQuery) as declined:
        Worker(query, []).aggregate("decimal", strategy=messages)
    assert str(declined.value).startswith(reason)


@pytest.mark.parametrize("number", NUMBERS)
def test_counts_are_exact_far_beyond_doubles(number: str) -> None:
    """Eight variables of 400 events each have some 10^18 ways, weighted with values of either sign."""
    chance = random.Random(7)
    model = generators.stacked(5, 1)[0]
    rows = [dict(model, id=n, t=n % 50, type="ABC"[n % 3], x=chance.randrange(-50, 50), name=None) for n in range(1200)]
    names, operators = "abcdefgh", ("<", "!=", ">=", "<", "!=", "<=", ">")
    pattern = ", ".join(f"{'ABC'[n % 3]} {name}" for n, name in enumerate(names))
    where = " AND ".join(f"{u}.x {op} {v}.x" for u, v, op in zip(names, names[1:], operators, strict=False))
    query = cet.parse(f"RETURN COUNT(*), SUM(c.x), AVG(f.x) PATTERN AND({pattern}) WHERE {where}")._query()
    values = [np.array([row["x"] for row in rows if row["type"] == "ABC"[n % 3]]) for n in range(len(names))]

    def ways(weighted: int) -> int:
        """The number of ways, each weighted with the value of one of its events, -1: of none."""
        found = np.ones(1, dtype=object)
        for n, own in enumerate(values):
            beside = HOLDS[operators[n - 1]](values[n - 1][:, None], own) if n else np.ones((1, len(own)))
            found = found @ beside.astype(int).astype(object) * (own.astype(object) if n == weighted else 1)
        return int(found.sum())

    count = ways(-1)
    assert count > 2**53
    (answer,) = Worker(query, rows).aggregate(number, strategy=messages).values()
    for item, expected in zip(query.returning, (count, ways(2), Fraction(ways(5), count)), strict=True):
        assert agrees(answer[item.output_name], expected, number, item.aggregate)
