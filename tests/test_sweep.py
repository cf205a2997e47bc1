"""Counts by sweeping a pivot, compared with the reference enumerator."""

from __future__ import annotations

import random
from typing import Any

import generators
import pytest
from test_kernel_aggregate import NUMBERS, Worker, compare

import cetdsl as cet
from cetdsl.kernels.aggregate import evaluate, stream
from cetdsl.kernels.aggregate import sweep as kernel_sweep
from cetdsl.planning.strategies.sweep import sweep

RETURNING = (
    "RETURN COUNT(*), COUNT({v}), SUM({v}.x), AVG({v}.y), SUM({w}.y), MIN({v}.x), MAX({w}.name), "
    "MIN({w}.y), MIN(LENGTH), MAX(LENGTH), AVG(LENGTH), VARIANCE({w}.x) "
)
PATTERNS = [
    ("SEQ(A a, B b, C c)", "ac"),
    ("SEQ(A a, B+ b)", "ab"),
    ("SEQ(A+ a, B b)", "ba"),
    ("SEQ(A+ a, B b, C+ c, A d)", "bacd"),
    ("SEQ(A a, (B b OR SEQ(C c, B+ d)))", "abcd"),
    ("SEQ(A a, B? b, C c)", "abc"),
    ("SEQ(A* a, B b, (SEQ(C c, A d))+)", "bacd"),
    ("SEQ(A a, B{2,3} b, C c)", "abc"),
    ("SEQ(A a, B b AND C c, A d)", "abcd"),
    ("(SEQ(A a, B+ b) OR SEQ(B+ b, A a))", "ab"),
    ("SEQ(A a, NOT C n, B b, C c)", "abcn"),
    ("SEQ(NOT C n, B b, A a, NOT C m, B+ c, NOT C o)", "abcnmo"),
    ("SEQ(A a, (SEQ(B b, NOT C n, C c))+, A d)", "abcdn"),
    ("SEQ(A a, NOT (C n OR B m), B+ b, NOT C o)", "abnm"),
]
ORDERS = ("<", "<=", ">", ">=", "=", "!=", ">=")


def query_of(choose: random.Random, pattern: str, names: str) -> str:
    """A query whose predicates compare one attribute of the first variable with the others."""
    pivot, *others = names
    own = choose.choice([f"{pivot}.x", f"{pivot}.y", f"{pivot}.x * 2", f"{pivot}.name", f"{pivot}.k"])
    text = "name" in own or ".k" in own
    found = []
    for other in [choose.choice(others), *(other for other in others if choose.random() < 0.4)]:
        columns = ("name", "k") if text else ("x", "x", "y", "x + 1")
        sides = [own, f"{other}.{choose.choice(columns)}"]
        if choose.random() < 0.5:
            sides.reverse()
        found.append(f" {choose.choice(ORDERS)} ".join(sides))
    window = choose.choice(["", "", " WITHIN 4", " WITHIN 6 SLIDE 2", " WITHIN 3 SLIDE 3", " WITHIN 5 SLIDE 2"])
    bound = [name for name in names if name not in "nmo"]
    first, second = choose.choice(bound), choose.choice(bound)
    group = choose.choice([" GROUP BY case", " GROUP BY case, g", " GROUP BY case"])
    partition = choose.choice(["", "", "[g] AND "]) if ", g" not in group else ""
    returning = RETURNING.format(v=first, w=second)
    return f"{returning}PATTERN {pattern} WHERE {partition}{' AND '.join(found)}{group}{window}"


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_sweeps_count_as_the_reference(pattern: str, names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third query makes passes where slices are small, and most of the others sort what they ask trees for."""
    compared = 0
    for seed in range(24):
        monkeypatch.setattr(stream, "FEW", (0, 0, 4)[seed % 3])
        for evaluator in (evaluate, kernel_sweep):
            monkeypatch.setattr(evaluator, "most_pivots", lambda _, most=(2**17, 1, 9)[seed % 3]: most)
        monkeypatch.setattr(kernel_sweep, "_SEARCHED", (2048, 0, 1)[seed // 3 % 3])
        choose = random.Random(f"{pattern} {seed}")
        text = query_of(choose, pattern, names)
        query = cet.parse(text)._query()
        rows, ties = generators.stacked(70_000 + 8 * seed, 8), choose.choice([(), (), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        compared += compare(query, rows, ties, NUMBERS[seed % 4], cuts, seed, sweep)
    assert compared >= 10


#: Neighbours that are compared, with a NOT or another comparison between them, so that no index answers both.
NEIGHBOURS = [
    ("SEQ(A a, NOT C n, B b)", "a.x < b.x"),
    ("SEQ(A a, NOT C n, B b)", "a.x != b.y"),
    ("SEQ(A+ a, NOT C n, B b)", "a.x >= NEXT(b).x"),
    ("SEQ(A a, NOT (C n OR B m), B+ b, C* c)", "a.y <= NEXT(b).y AND n.x > 0"),
    ("SEQ(C* c, A a, NOT C n, B b, NOT C m)", "a.x > b.x AND a.x <= b.x + 2"),
    ("SEQ(NOT C m, A+ a, B b)", "NEXT(b).x > a.x AND NEXT(b).x <= a.x + 2"),
]


@pytest.mark.parametrize(("pattern", "predicates"), NEIGHBOURS)
def test_neighbours_that_no_index_answers_are_swept(
    pattern: str, predicates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    for seed in range(12):
        monkeypatch.setattr(stream, "FEW", (0, 0, 4)[seed % 3])
        choose = random.Random(f"{pattern} {predicates} {seed}")
        window = choose.choice(["", " WITHIN 4", " WITHIN 6 SLIDE 2", " WITHIN 3 SLIDE 3"])
        returning = RETURNING.format(v="a", w="b")
        query = cet.parse(f"{returning}PATTERN {pattern} WHERE {predicates} GROUP BY case{window}")._query()
        rows, ties = generators.stacked(71_000 + 8 * seed, 8), choose.choice([(), (), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        compared += compare(query, rows, ties, NUMBERS[seed % 4], cuts, seed, sweep)
    assert compared >= 5


def test_what_an_index_answers_is_not_swept(spark: Any) -> None:
    df = spark.createDataFrame([], "t int, type string, x int, y int")
    for query, swept in (
        ("SEQ(A a, NOT C, B b) WHERE a.x < b.x", True),
        ("SEQ(A a, B b) WHERE a.x < b.x AND b.x < a.x + 5", True),
        ("SEQ(A a, NOT C, B b) WHERE a.x = b.x", False),
        ("SEQ(A a, NOT A, B b) WHERE a.x < b.x", False),
        ("SEQ(A a, B b) WHERE a.x < b.x", False),
    ):
        told = str(df.pattern(f"PATTERN {query}", time="t").explain("physical"))
        assert ("strategy  sweep" in told) == swept, query


@pytest.mark.parametrize("impossible", ["COUNT(A) < 1", "LENGTH < 2", "COUNT(B) = 3 AND LENGTH = 3"])
@pytest.mark.parametrize("pattern", ["SEQ(A, B+, NOT C)", "SEQ(NOT C, A, B+)", "SEQ(A, B+, C+)"])
def test_what_no_trend_fulfils_is_answered_by_nothing(spark: Any, pattern: str, impossible: str) -> None:
    """Also beside another query, whose answer is that of any pass."""
    df = spark.createDataFrame([(1, "A", 1), (2, "B", 5), (3, "C", 7)], "t int, type string, x int")
    text = f"PATTERN {pattern} WHERE {impossible} AND C.x >= A.x"
    assert df.pattern(text, time="t").count_trends().collect() == []
    both = {"nothing": f"RETURN COUNT(*) AS n {text}", "something": "RETURN COUNT(*) AS m PATTERN B+"}
    assert [row.query for row in df.patterns(both, time="t").aggregate().collect()] == ["something"]


def test_pivots_of_windows_that_overlap_are_held_for_few_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many windows hold an event, it is a subslice of those alone that are evaluated together."""
    query = cet.parse("RETURN COUNT(*) PATTERN SEQ(A+ a, B+ b) WHERE a.x < b.x GROUP BY case WITHIN 9 SLIDE 1")._query()
    held, subslices_of = list[int](), kernel_sweep.subslices_of

    def measured(*arguments: Any) -> Any:
        subslices = subslices_of(*arguments)
        held.append(len(subslices.pivot))
        return subslices

    monkeypatch.setattr(stream, "FEW", 0)
    monkeypatch.setattr(kernel_sweep, "subslices_of", measured)
    worker = Worker(query, generators.stacked(500, 60), ())
    answers = []
    for most in (2**17, 40):
        monkeypatch.setattr(kernel_sweep, "most_pivots", lambda _, most=most: most)
        held.clear()
        answers.append(worker.aggregate("string", 2**17, 2**17, strategy=sweep))
        assert max(held) <= most
    assert answers[0] == answers[1] != {}
    assert sum(held) > 200
