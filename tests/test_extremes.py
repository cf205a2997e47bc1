"""Comparisons between all events of two variables, counted about an extreme event, compared with the reference."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
from collections import Counter
from typing import Any

import attrs
import generators
import pytest
from pyspark.sql import functions as F
from test_complete_engines import READINGS, Task, cuts_of, expected_trends, judge_paths, tasks
from test_engines import judge_of
from test_kernel_aggregate import FEATURES, NUMBERS, Worker, check_trends, compare
from test_sweep import RETURNING
from test_workload import expected_of, judge_workload

import cetdsl as cet
from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.kernel import ALL, ENDS
from cetdsl.ir.operators import ListPaths
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels.aggregate import evaluate
from cetdsl.kernels.enumerate import search
from cetdsl.kernels.machine.conditions import Subslices
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse
from cetdsl.planning.strategies.complete import graph
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.paths import paths
from cetdsl.planning.strategies.request import Declined, TrendsRequest, compile_sides
from cetdsl.planning.strategies.sweep import sweep

#: Each with variables that every trend binds, of which the first is compared with the others.
PATTERNS = [
    ("SEQ(A+ a, B+ b)", "ab"),
    ("SEQ(A+ a, B+ b)", "ba"),
    ("SEQ(B+ b, C? c, A+ a)", "ab"),
    ("SEQ(A+ a, B+ b, C+ c)", "bac"),
    ("(SEQ(A+ a, B b))+", "ab"),
    ("SEQ(A a, (SEQ(B b, C* c))+, A+ d)", "dab"),
    ("(SEQ(A+ a, B b) OR SEQ(B b, A+ a))", "ab"),
    ("SEQ(A+ a, NOT C n, B+ b)", "ba"),
    ("SEQ(A{1,3} a, B{2,} b)", "ab"),
    ("SEQ(B b, NOT C n, A+ a, NOT C m, B+ c, NOT C o)", "abc"),
]
#: What other events are, compared with those of the first variable.
SIDES = (("<",), ("<=",), (">",), (">=",), ("=",), ("<", "<="), (">=", ">"), ("=", "<", ">"))
NEIGHBOURS = {"A+ a": "a.x <= NEXT(a).x", "B+ b": "b.y != NEXT(b).y", "A+ d": "d.x > NEXT(d).x"}
WINDOWS = ("", "", " WITHIN 6 SLIDE 2", " WITHIN 4 SLIDE 4")
SPANS = (" WITHIN 3", " WITHIN 5")


def query_of(
    choose: random.Random, pattern: str, names: str, *, adjacent: bool, windows: tuple[str, ...] = WINDOWS
) -> str:
    """A query that compares one attribute of the first variable with attributes of the others."""
    first, *others = names
    own = choose.choice([f"{first}.x", f"{first}.y", f"{first}.x * 2", f"{first}.name", f"{first}.k"])
    columns = ("name", "k") if "name" in own or ".k" in own else ("x", "x", "y", "x + 1")
    orders = choose.choice(SIDES)
    found = [f"{other}.{choose.choice(columns)} {choose.choice(orders)} {own}" for other in others]
    found += [one for part, one in NEIGHBOURS.items() if adjacent and part in pattern and choose.random() < 0.7]
    bound = [name for name in names if name not in "nmo"]
    returning = RETURNING.format(v=choose.choice(bound), w=choose.choice(bound))
    group = choose.choice([" GROUP BY case", " GROUP BY case, g"])
    return f"{returning}PATTERN {pattern} WHERE {' AND '.join(found)}{group}{choose.choice(windows)}"


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_an_extreme_event_stands_for_all(pattern: str, names: str) -> None:
    compared = {sweep: 0, kernel: 0}
    for seed in range(16):
        choose = random.Random(f"{pattern} {names} {seed}")
        strategy = (sweep, kernel)[seed % 2]
        windows = WINDOWS if strategy is sweep else WINDOWS + SPANS
        query = cet.parse(query_of(choose, pattern, names, adjacent=strategy is kernel, windows=windows))._query()
        rows, ties = generators.stacked(90_000 + 8 * seed, 8), choose.choice([(), (), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        compared[strategy] += compare(query, rows, ties, NUMBERS[seed // 2 % 4], cuts, seed, strategy)
    assert min(compared.values()) >= 4


@pytest.mark.parametrize(("pattern", "names"), [("SEQ(A+ a, B+ b)", "ab"), ("SEQ(A+ a, C? c, B{1,2} b)", "ab")])
def test_all_are_equal_to_the_first_event_of_a_span(pattern: str, names: str) -> None:
    first, other = names
    for seed in range(8):
        returning = RETURNING.format(v=first, w=other)
        text = f"{returning}PATTERN {pattern} WHERE {first}.x = {other}.y GROUP BY case{SPANS[seed % 2]}"
        rows, strategy = generators.stacked(97_000 + 8 * seed, 8), (sweep, kernel)[seed // 2 % 2]
        assert compare(cet.parse(text)._query(), rows, (), NUMBERS[seed % 4], (-1, 1, 3), seed, strategy)


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_trends_are_listed_about_it(pattern: str, names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = 0
    for seed in range(8):
        # Pivots in vain are looked for in slices of any size, or of more pivots than these have.
        monkeypatch.setattr(search, "_FEW_PIVOTS", (0, 8)[seed % 2])
        choose = random.Random(f"{pattern} {names} {seed} trends")
        query = cet.parse(query_of(choose, pattern, names, adjacent=True, windows=WINDOWS + SPANS))._query()
        rows, ties = generators.stacked(95_000 + 8 * seed, 8), choose.choice([(), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        listed += check_trends(attrs.evolve(query, returning=(), group_by=()), rows, ties, cuts, seed)
    assert listed == 8


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_complete_trends_are_those_of_it_that_no_other_contains(pattern: str, names: str) -> None:
    """Those about one extreme event are the paths of a graph, and may be part of those about another one."""
    by_graphs: Counter[bool] = Counter()
    for seed in range(8):
        choose = random.Random(f"{pattern} {names} {seed} complete")
        text = query_of(choose, pattern, names, adjacent=True, windows=(WINDOWS, SPANS)[seed % 2])
        query = attrs.evolve(cet.parse(text)._query(), returning=())
        rows, ties = generators.stacked(99_000 + 8 * seed, 8), choose.choice([(), (), ("s",)])
        for completeness in READINGS:
            task = Task(query, rows, ties)
            plan = task.definition(completeness, "auto")
            expected = expected_trends(query, rows, completeness, ties)
            assert task.defined(plan, (2**20, 2)[seed % 2]) == expected, (completeness, ties, text)
            by_graphs[plan.source.windowing.kind == SPAN] += isinstance(plan.child, ListPaths)
    assert min(by_graphs[False], by_graphs[True]) >= 2 or " OR " in pattern  # which has a pivot: all trends bind one b


@pytest.mark.parametrize("orders", ["<<", "<=<", ">>=", "=="])
@pytest.mark.parametrize("pattern", ["SEQ(A+ a, B+ b, C+ c)", "SEQ(B+ b, A+ a, C+ c)"])
def test_an_extreme_event_is_compared_in_several_types(pattern: str, orders: str) -> None:
    """A whole number with another one and with a double: it keeps its order in both types."""
    first, second = re.findall("[<>=]=?", orders) if orders != "==" else orders
    judged: Counter[Any] = Counter()
    for seed in range(4):
        choose = random.Random(f"{pattern} {orders} {seed} types")
        text = f"{RETURNING.format(v='a', w='c')}PATTERN {pattern} WHERE a.x {first} b.x AND a.x {second} c.y"
        query = cet.parse(f"{text} GROUP BY case{(WINDOWS + SPANS)[seed + 2]}")._query()
        rows = dense_streams(choose, pattern, 15)
        judged[kernel] += compare(query, rows, (), NUMBERS[seed], (-1,), seed, kernel)
        query = attrs.evolve(query, returning=())
        for completeness in READINGS:
            judged[completeness] += judge_complete(query, rows, (), completeness, seed) > 0
    assert set(judged.values()) == {4}


#: Each with pairs of variables that are compared: two events decide all of them, extreme ones or those of one variable.
CHAINS = [
    ("SEQ(A+ a, B+ b, C+ c)", ("ab", "bc")),
    ("SEQ(C+ c, A+ a, B+ b)", ("bc", "ba")),
    ("SEQ(A a, B+ b, C c)", ("ab", "bc")),
    ("SEQ(A a, B+ b, NOT A n, C+ c)", ("ab", "bc")),
    ("SEQ((SEQ(A+ a, B+ b))+, C+ c, A* d)", ("ab", "bc")),
    ("SEQ(A+ a, B+ b, A+ c, B+ d)", ("ab", "cd")),
]


def chain_of(choose: random.Random, pattern: str, pairs: tuple[str, ...]) -> str:
    """A query that compares attributes of pairs of variables."""
    orders = ("<", "<=", ">", ">=", "=")
    found = [f"{u}.{choose.choice('xy')} {choose.choice(orders)} {v}.{choose.choice('xy')}" for u, v in pairs]
    found += [one for part, one in NEIGHBOURS.items() if part in pattern and choose.random() < 0.3]
    returning = RETURNING.format(v=pairs[0][0], w=pairs[1][1])
    return f"{returning}PATTERN {pattern} WHERE {' AND '.join(found)} GROUP BY case"


@pytest.mark.parametrize(("pattern", "pairs"), CHAINS)
def test_two_events_stand_for_all(pattern: str, pairs: tuple[str, ...]) -> None:
    compared = about_two = 0
    for seed in range(8):
        choose = random.Random(f"{pattern} {pairs} {seed}")
        query = cet.parse(chain_of(choose, pattern, pairs) + choose.choice((*WINDOWS, *SPANS)))._query()
        streams = generators.Chooser(choose.randint)
        rows = generators.stack([generators.build_stream(streams, 8, likely="AABBC") for _ in range(6)])
        ties = choose.choice([(), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        compared += compare(query, rows, ties, NUMBERS[seed % 4], cuts, seed, kernel)
        query = attrs.evolve(query, returning=())
        about_two += sum(judge_complete(query, rows, ties, completeness, seed) == 2 for completeness in READINGS)
    assert min(compared, about_two) >= 4


@pytest.mark.parametrize(("pattern", "pairs"), CHAINS)
def test_trends_are_paths_about_two_events(pattern: str, pairs: tuple[str, ...]) -> None:
    judged = 0
    for seed in range(6):
        choose = random.Random(f"{pattern} {pairs} {seed} paths")
        query = cet.parse(chain_of(choose, pattern, pairs) + (*WINDOWS, *SPANS)[seed])._query()
        query = attrs.evolve(query, returning=())
        rows, ties = dense_streams(choose, pattern, 10), choose.choice([(), ("s",)])
        task = Task(query, rows, ties)
        plan = paths(TrendsRequest(task.resolved, ("id",), None, compile_sides(task.resolved)))
        if isinstance(plan, ListPaths):
            expected = expected_trends(query, rows, ALL, ties)
            for chunk in (2**20, 2):
                assert task.complete(plan, "auto", chunk, chunk) == expected, (ties, unparse(query))
            judged += 1
    assert judged >= 2


def test_dead_ends_of_chains_are_not_searched(spark: Any) -> None:
    """There are 2^28 sets of B whose values all A are below, and no C is above any but the last."""
    rows = [(0, "A", 0), *((t, "B", 5) for t in range(1, 29)), (29, "B", 2), (30, "C", 3), (31, "C", 1)]
    asked = spark.createDataFrame(rows, "t int, type string, x int").pattern(
        "PATTERN SEQ(A+, B+, C+) WHERE A.x < B.x AND B.x < C.x", time="t"
    )
    assert [[b.event.t for b in row.trend] for row in asked.trends(columns=["t"]).collect()] == [[0, 29, 30]]
    assert re.search(r"strategy +paths: ", str(asked.explain("trends")))
    assert "C.x > B_largest.x (fixed: the event bound to B_largest)" in str(asked.explain("physical"))


def test_what_is_about_two_events_is_told_with_both(spark: Any) -> None:
    asked = spark.createDataFrame([(1, "A", 1)], "t int, type string, x int").pattern(
        "PATTERN SEQ(A+, (SEQ(B+, C+))+) WHERE A.x < B.x AND B.x < C.x", time="t"
    )
    told = str(asked.explain("physical", plan="greedy"))
    assert "A_largest.x < B_largest.x (fixed: the event bound to A_largest and the event bound to B_largest)" in told
    assert "a repetition of more than one event, so paths of graphs are listed" in told


@pytest.mark.parametrize("window", ["", " WITHIN 5"])
def test_pairs_of_pivots_of_one_window_are_held_for_few_at_a_time(monkeypatch: pytest.MonkeyPatch, window: str) -> None:
    text = (
        f"RETURN COUNT(*), MAX(b.x) PATTERN SEQ(A+ a, B+ b, C+ c) WHERE a.x < b.x AND b.x < c.x GROUP BY case{window}"
    )
    worker = Worker(cet.parse(text)._query(), dense_streams(random.Random(5), text, 12), ())
    held: list[int] = []

    def measured(*given: Any) -> None:
        held.append(next(len(one.pivot) for one in given if isinstance(one, Subslices)))
        propagate(*given)

    propagate = evaluate.propagate
    monkeypatch.setattr(evaluate, "propagate", measured)
    answers, most_held = [], []
    for most in (2**17, 9):
        monkeypatch.setattr(evaluate, "most_pivots", lambda _, most=most: most)
        monkeypatch.setattr(evaluate, "in_lots", lambda slices, bounds, together, _: together(slices, bounds))
        answers.append(worker.aggregate("string", 2**17, 2**17, strategy=kernel))
        most_held.append(max(held))
        held.clear()
    assert answers[0] == answers[1] != {}
    assert most_held[0] > 9 >= most_held[1]


@pytest.mark.parametrize("first", [0, 60])
def test_generated_chains(first: int) -> None:
    features = attrs.evolve(FEATURES, chains=True).without("top_conjunction", "inseparable", "strings")
    pivots: Counter[int] = Counter()
    for number, (query, rows, ties) in enumerate(tasks(360_000 + first, 60, features)):
        with contextlib.suppress(UnsupportedQuery):
            compare(query, rows, ties, NUMBERS[number % 4], cuts_of(query), number)
            pivots.update(judge_complete(query, rows, ties, completeness, number) for completeness in READINGS)
    assert pivots[1] >= 10


@pytest.mark.classic
@pytest.mark.simple_plans
def test_chains_of_a_workload(spark: Any) -> None:
    """Variables have other numbers in the pass of a workload than in their own query, also the two that decide."""
    choose, streams = random.Random("chains of a workload"), generators.Chooser(random.Random(61).randint)
    queries = {f"q{n}": cet.parse(chain_of(choose, *chain))._query() for n, chain in enumerate(CHAINS)}
    rows = generators.stack([generators.build_stream(streams, 8, likely="AABBC") for _ in range(40)])
    judge = judge_of(spark, rows)
    judge_workload(judge, queries, expected_of(judge, queries), "dynamic", "string")


def judge_complete(
    query: Query, rows: list[Any], ties: tuple[str, ...], completeness: str, turn: int, *, listed: bool = True
) -> int:
    """Compares complete trends with the reference, and returns how many pivots their graphs are about.

    Candidates may be ``listed``, and the complete ones told among them; else all must be paths of graphs.
    """
    task = Task(query, rows, ties, cuts_of(query)[-1])
    expected, context = expected_trends(query, rows, completeness, ties), (completeness, ties, unparse(query))
    found = graph(task.request(completeness))
    if isinstance(found, Declined):
        assert listed, context
        plan = task.definition(completeness, "auto")
        assert task.defined(plan, 2**20) == expected, context
        found = plan.child
    else:
        judge_paths(task, found, completeness, expected, turn, turn, context)
    return len(found.child.spec.query.pivots) if isinstance(found, ListPaths) else 0


#: Each with pairs of variables that are compared, and how many events decide what may stand beside a trend.
DECIDED = [
    ("SEQ(A+ a, B+ b)", ("ab",), 2),
    ("SEQ(A+ a, NOT C n, B+ b)", ("ba",), 2),
    ("SEQ(NOT C n, A+ a, B+ b, NOT C o)", ("ab",), 2),
    ("SEQ(A+ a, C* c, B+ b)", ("ab",), 2),
    ("SEQ(A+ a, A+ b)", ("ab",), 2),
    ("SEQ(A+ a, (SEQ(B+ b, C+ c))+)", ("ab",), 2),
    ("SEQ(A+ a, B+ b, A+ c, B+ d)", ("ad",), 2),
    ("SEQ(A+ a, B+ b, C c)", ("ab",), 1),
    ("SEQ(A+ a, B+ b, C c)", ("ab", "ac"), 2),
    ("SEQ(C c, A+ a, B+ b, D d)", ("ab",), 1),
]


def dense_streams(choose: random.Random, pattern: str, count: int) -> list[Any]:
    """Short streams of the types that a pattern names, whose trends can be longer by events of few values."""
    kinds = [kind for kind in "ABCD" if f"{kind} " in pattern or f"{kind}+" in pattern or f"{kind}*" in pattern]
    [row, *_] = generators.stacked(1, 1)

    def stream() -> list[Any]:
        times = list(itertools.accumulate(choose.choices((0, 1, 2), (1, 3, 1), k=choose.randint(5, 9))))
        in_turn = [kinds[place * len(kinds) // len(times)] for place in range(len(times))]
        return [
            {**row, "t": t, "s": place, "type": choose.choice((kind, choose.choice(kinds))),
             "x": choose.choice((None, *range(6))), "y": float(choose.randrange(5))}
            for place, (t, kind) in enumerate(zip(times, in_turn, strict=True))
        ]  # fmt: skip

    return generators.stack([stream() for _ in range(count)])


@pytest.mark.parametrize(("pattern", "pairs", "pivots"), DECIDED)
def test_extreme_events_decide_whether_a_trend_can_be_longer_at_its_ends(
    pattern: str, pairs: tuple[str, ...], pivots: int
) -> None:
    judged = 0
    for seed in range(6):
        choose = random.Random(f"{pattern} {pairs} {seed} ends")
        compared = [f"{u}.x {choose.choice(('<', '<=', '>', '>='))} {v}.{choose.choice('xy')}" for u, v in pairs]
        compared += [one for part, one in NEIGHBOURS.items() if part in pattern and choose.random() < 0.2]
        windows = (*WINDOWS, *SPANS)[seed]
        query = cet.parse(f"PATTERN {pattern} WHERE {' AND '.join(compared)} GROUP BY case{windows}")._query()
        rows, ties = dense_streams(choose, pattern, 20), choose.choice([(), ("s",)])
        judged += judge_complete(query, rows, ties, ENDS, seed, listed=False) == pivots
    # A comparison with the neighbours alone says the same as some of these comparisons.
    assert judged >= 3


def test_ends_about_extreme_events_are_counted_and_ranked_without_being_listed(spark: Any) -> None:
    """Also by sums over the events of all parts of a variable."""
    values = [3, 9, 4, 8, 2, 7, 9, 5]
    rows = [(t, "AAABABBB"[t], value) for t, value in enumerate(values)]
    asked = spark.createDataFrame(rows, "t int, type string, x int").pattern(
        "PATTERN SEQ(A+, B+) WHERE A.x < B.x", time="t"
    )
    listed = asked.complete_trends("ends", "definition").collect()
    sums = [sum(b.event.x for b in row.trend if b.variable == "A") for row in listed]
    assert len(sums) > 5
    assert asked.count_complete_trends("ends").first()["count"] == len(sums)
    best = asked.top_trends(3, by=cet.sum(cet.event("A").x), completeness="ends").collect()
    assert [row["sum"] for row in best] == sorted(sums, reverse=True)[:3]
    told = str(asked.explain("complete", completeness="ends", algorithm="m-cet"))
    assert "one per event bound to A_largest and event bound to B_smallest" in told
    with pytest.raises(UnsupportedQuery, match="pairwise predicate relates events that are no neighbours"):
        asked.complete_trends("ends", "joins")


def test_what_is_put_beside_a_trend_must_not_be_compared_with_itself() -> None:
    """Where a B and an A may stand before a trend, or more than two events decide, candidates are listed."""
    for text in (
        "(SEQ(A+ a, B+ b))+ WHERE a.x < b.x",
        "SEQ(A+ a, B+ b, C+ c) WHERE a.x < b.x AND b.x < c.x",
        "SEQ(A{1,3} a, B+ b) WHERE a.x < b.x",
    ):
        task = Task(cet.parse(f"PATTERN {text}")._query(), generators.stacked(1, 1), ())
        assert isinstance(graph(task.request(ENDS)), Declined), text
        assert isinstance(task.definition(ENDS, "auto").child, ListPaths), text


def test_pivots_without_company_are_not_searched_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values fall, so that only the A whose value is not above that of the last B have trends."""
    [row, *_] = generators.stacked(1, 8)
    rows = [{**row, "id": t, "t": t, "type": "AB"[t % 2], "x": 16 - t} for t in range(16)]
    rows[-1]["x"] = 5
    looked: list[int] = []

    def looking(*given: Any) -> Any:
        looked.append(int(search_hopeful(*given).sum()))
        return search_hopeful(*given)

    search_hopeful = search.have_company
    monkeypatch.setattr(search, "have_company", looking)
    query = cet.parse("PATTERN SEQ(A+ a, B+ b) WHERE a.x < b.x")._query()
    assert check_trends(query, rows, (), (-1,), 0)
    # The A that have 4 and 2; no chunk sees others.
    assert set(looked) == {2}


def test_few_of_many_trends_are_complete(spark: Any) -> None:
    """The values fall, so that trends of the first A have the smallest B, and 15 billion trends."""
    rows = [(t, "A" if t < 30 else "B", 100 - t % 30) for t in range(60)]
    asked = spark.createDataFrame(rows, "t int, type string, x int").pattern(
        "PATTERN SEQ(A+, B+) WHERE A.x < B.x", time="t"
    )
    lengths = Counter(len(row.trend) for row in asked.complete_trends(columns=["t"]).collect())
    assert lengths == {30: 29}
    assert asked.count_complete_trends().first()["count"] == 29
    assert asked.count_trends().first()["count"] == 28 * 2**29 + 1
    [longest] = asked.top_trends(1, by=cet.avg(cet.event("A").x), columns=["t"]).collect()
    assert longest.trend[0].event.t == 1
    told = str(asked.explain("complete"))
    assert "A_largest is the last A of a trend that has its largest x" in told
    assert "its trends, complete or not" in told


def test_the_strategy_that_lists_candidates_has_a_name_of_its_own(spark: Any) -> None:
    """Only what lists all trends is called the definition, which can be asked for."""
    rows = [(t, "AAABBB"[t], t) for t in range(6)]
    asked = spark.createDataFrame(rows, "t int, type string, x int").pattern(
        "PATTERN SEQ(A+, B+) WHERE A.x < B.x", time="t"
    )
    for stage in ("complete", "complete_count", "sample", "top"):
        assert re.search(r"strategy +candidates: ", str(asked.explain(stage))), stage
    told = str(asked.explain("complete", algorithm="definition"))
    assert re.search(r"strategy +definition: lists all trends", told)
    assert "largest" not in told
    everything = str(asked.explain("sample", complete=False))
    assert re.search(r"strategy +definition: ", everything)
    assert "candidates: trends that are not complete are asked for, too" in everything


def test_few_of_many_trends_of_a_span_are_complete(spark: Any) -> None:
    """Each span of 15 A and 15 B, whose values fall, has 212,993 trends."""
    rows = [(t, "AB"[t // 15 % 2], 100 - t % 15) for t in range(120)]
    asked = spark.createDataFrame(rows, "t int, type string, x int").pattern(
        "PATTERN SEQ(A+, B+) WHERE A.x < B.x WITHIN 29", time="t"
    )
    assert Counter(len(row.trend) for row in asked.complete_trends(columns=["t"]).collect()) == {15: 4 * 14}
    assert asked.count_complete_trends().first()["count"] == 4 * 14
    assert asked.count_trends().first()["count"] == 4 * 212_993
    assert "one pass per event that can begin a trend and event bound to A_largest" in str(asked.explain("physical"))
    told = str(asked.explain("complete"))
    assert "for each event that a trend may begin with, of the events within the span" in told
    assert "for each A_largest, of the events that may stand beside it" in told
    assert "one per event that a trend may begin with and event bound to A_largest" in told
    assert "its trends, complete or not" in told


#: The second one has a variable whose name could be that of a part, and aggregates both.
TEXTS = {
    "plain": "PATTERN SEQ(A+, B+)",
    "extreme": "PATTERN SEQ(B+, EVENT(B_before, type = 'A')+) WHERE B.x <= B_before.x",
    "more": "PATTERN SEQ(A+, C*, B+) WHERE A.x > B.x",
}


@pytest.mark.classic
@pytest.mark.simple_plans
def test_in_a_workload_by_joins_and_in_words(spark: Any) -> None:
    df = generators.frame(spark, generators.stacked(98_000, 12)).cache()
    over, columns = " GROUP BY case WITHIN 6 SLIDE 3", ("count", "n", "total", "least")

    def asked(name: str) -> str:
        first = "B_before" if name == "extreme" else "A"
        return f"RETURN COUNT(*), COUNT(B) AS n, SUM({first}.id) AS total, MIN({first}.x) AS least {TEXTS[name]}{over}"

    def rows(answer: Any) -> Counter[Any]:
        return Counter(map(tuple, answer.select("case", "window.start", *columns).collect()))

    together = df.patterns({name: asked(name) for name in TEXTS}, time="t").aggregate().cache()
    for name, text in TEXTS.items():
        alone = df.pattern(asked(name), time="t")
        found = rows(alone.aggregate())
        own = together.where(F.col("query") == name)
        assert rows(own.withColumn("case", F.col("group.case"))) == found, name
        trends = df.pattern(text + over, time="t").trends(columns=["id"])
        counts = Counter((row.case, row.window.start) for row in trends.collect())
        assert counts == {row[:2]: row[2] for row in found}, name
        joined = df.pattern(text + over, time="t").trends(algorithm="joins", columns=["id"])
        assert Counter(map(str, joined.collect())) == Counter(map(str, trends.collect())), name
        told = str(alone.explain("physical"))
        assert ("B_before_ those before it" in told) == (name == "extreme"), told
        assert ("A_smallest is the last A of a trend that has its smallest x" in told) == (name == "more"), told
