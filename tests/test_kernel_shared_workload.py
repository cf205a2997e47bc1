"""Workloads of every shape of query, planned and answered without Spark: each query's answer is the reference's."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping
from typing import Any

import attrs
import generators
import pytest
import reference
import test_kernel_aggregate
from test_engines import agrees
from test_kernel_aggregate import SCHEMA, Worker, by_case, rows_of

from cetdsl.analysis import Binding, analyse
from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.workload import told_to_workers
from cetdsl.explain.workload import explain_workload
from cetdsl.frontend.sase import parse
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.operators import AnswerTogether, PropagateTogether
from cetdsl.ir.schema import Field, Schema
from cetdsl.ir.sharing import Member, Sharing
from cetdsl.ir.stages import Pool
from cetdsl.kernels.answers.rows import answer_columns
from cetdsl.kernels.shared.workload import WorkloadRows
from cetdsl.kernels.wire.chunks import ChunkReader
from cetdsl.pattern.query import Query
from cetdsl.planning.sharing import SHARING
from cetdsl.planning.workload import plan_workload
from cetdsl.rewrite import rewrite

#: Patterns: NOT at every place, nested Kleene patterns, OR, AND of events, and variables at several places.
PATTERNS = (
    "B+", "SEQ(A, B+)", "SEQ(C, B+)", "SEQ(A, B+, C)", "(SEQ(A, B+))+", "(SEQ(A, B))+", "SEQ(A, B*)", "B{2,}",
    "SEQ(A, NOT C, B+)", "SEQ(A, B+, NOT C)", "SEQ(NOT C, B+)", "SEQ(A, NOT SEQ(C, A), B+)", "SEQ((A OR C), B+)",
    "SEQ(B+, A, B+)", "SEQ(A, B+) OR SEQ(B+, C)", "SEQ(A, B)", "SEQ(A AND C, B+)", "SEQ(A+, B+)", "A+ AND B+",
)  # fmt: skip
#: Conditions, predicates between neighbours, and between a single event and a repeated one.
WHERE = (
    "", "", "", "B.x > 0", "B.x > 1", "B.x <= 1 AND B.y > 0", "[k]", "B.x < NEXT(B).x", "B.x < NEXT(B).x",
    "B.x = NEXT(B).x", "B.x < NEXT(B).x + 1", "B.x + B.y < NEXT(B).x * B.y", "A.x < B.x", "A.x = B.x", "A.x = C.x",
    "COUNT(B) < 3",
)  # fmt: skip
RETURNED = (
    "COUNT(*) AS n", "COUNT(*) AS n, COUNT(B) AS b", "SUM(B.x) AS s", "AVG(B.y) AS a", "MIN(B.x) AS m, MAX(B.x) AS z",
    "MAX(B.y) AS z, COUNT(*) AS n", "MIN(LENGTH) AS l",
)  # fmt: skip
#: Windows of one workload; a workload may also have none.
WINDOWS = (
    ("",),
    ("", "WITHIN 4"),
    ("WITHIN 6 SLIDE 2",),
    ("WITHIN 6 SLIDE 6", "WITHIN 6 SLIDE 2", "WITHIN 9 SLIDE 3", "WITHIN 3 SLIDE 5"),
    ("WITHIN 8 SLIDE 1", "WITHIN 4 SLIDE 2", "WITHIN 5"),
)


class WorkloadWorker(Worker):
    """The queries of a workload over some rows, as a worker would see them."""

    def __init__(self, queries: Mapping[str, Query], rows: list[dict[str, Any]]) -> None:
        self.rows, self.cut = rows, -1
        self.queries = {name: rewrite(analyse(query, SCHEMA, Binding("t")))[0] for name, query in queries.items()}

    def plan(self, number: str, sharing: str) -> AnswerTogether:
        return plan_workload(self.queries, number, Sharing(sharing))

    def answers(self, plan: AnswerTogether, chunk_events: int, batch: int) -> dict[str, dict[Any, dict[str, Any]]]:
        """The answers of the queries that some pass takes."""
        return {name: own for one in plan.together for name, own in self._pass(one, chunk_events, batch).items()}

    def _pass(self, plan: PropagateTogether, chunk_events: int, batch: int) -> dict[str, dict[Any, dict[str, Any]]]:
        source, layout = plan.source, plan.spec.layout
        bucketed = plan.spec.query.windowing.cut > 0
        layout = RowLayout.of(layout.keys, "t", "bigint", codes=layout.codes, lists=layout.lists, bucketed=bucketed)
        reader = self._typed(attrs.evolve(plan.spec, layout=layout), plan.values)
        specs = tuple(self._typed(member.spec, plan.values) for member in plan.members)
        workload = told_to_workers(plan, reader, specs, None, Pool(reader.layout, b"", ()))
        rows = WorkloadRows(workload)
        found: list[list[Any]] = [[] for _ in specs]
        batches = self.batches(source, plan.compiled, reader, plan.values, batch)
        for chunk in ChunkReader(reader, batches, chunk_events, specs):
            for q, part in rows.found(chunk):
                found[q] += rows_of(iter([answer_columns(specs[q], *part)]))
        for q, part in rows.last():
            found[q] += rows_of(iter([answer_columns(specs[q], *part)]))
        return {
            member.name: self._added_up(member, spec, own, batch)
            for member, spec, own in zip(plan.members, specs, found, strict=True)
            if not member.is_side
        }

    def _added_up(self, member: Member, spec: Any, found: list[Any], batch: int) -> dict[Any, dict[str, Any]]:
        keys = spec.answer.groups
        if spec.answer.partial:
            spec = spec.with_answer(groups=len(member.groups))
            found = [(*(row[key] for key in member.groups), *row[keys:]) for row in found]
            found = self._merged(spec, found, batch)
        return self._answer(spec, found)


def workload(choose: random.Random) -> dict[str, Query]:
    queries: dict[str, Query] = {}
    windows = choose.choice(WINDOWS)
    while len(queries) < 8:
        pattern, where = choose.choice(PATTERNS), choose.choice(WHERE)
        if not {name for name in "ABC" if f"{name}." in where} <= set(pattern):
            continue
        where = f"WHERE {where}" if where else ""
        returned = choose.choice(RETURNED)
        try:
            query = by_case(parse(f"RETURN {returned} PATTERN {pattern} {where} {choose.choice(windows)}"))
            WorkloadWorker({"q": query}, []).plan("decimal", "dynamic")
        except UnsupportedQuery:
            continue
        queries[f"q{len(queries)}"] = query
    return queries


@pytest.mark.parametrize("seed", range(24))
def test_each_query_of_a_workload_gets_the_answer_of_the_reference(seed: int) -> None:
    choose = random.Random(seed)
    rows = generators.stacked(91_000 + 50 * seed, 6)
    queries = workload(choose)
    worker = WorkloadWorker(queries, rows)
    number = ("decimal", "string", "log2")[seed % 3]
    expected: dict[str, Any] = {}
    for sharing in SHARING:
        plan = worker.plan(number, sharing)
        answers = worker.answers(plan, *choose.choice([(2**20, 2**20), (3, 2)]))
        assert {*answers, *(one.name for one in plan.alone)} == set(queries)
        judge(queries, rows, answers, number, expected)


def judge(
    queries: dict[str, Query],
    rows: list[dict[str, Any]],
    answers: dict[str, dict[Any, dict[str, Any]]],
    number: str,
    expected: dict[str, Any],
) -> None:
    """Compares answers with those of the reference, which are kept in ``expected``."""
    for name, answer in answers.items():
        aggregates = {item.output_name: item.aggregate for item in queries[name].returning}
        if name not in expected:
            expected[name] = reference.aggregate(queries[name], rows, aggregates)
        assert set(answer) == set(expected[name]), (name, str(queries[name]))
        for key, values in expected[name].items():
            for column, value in values.items():
                got = answer[key][column]
                assert agrees(got, value, number, aggregates[column]), (name, str(queries[name]), key, column, got)


@pytest.mark.parametrize("where", ["", "WHERE B.x < NEXT(B).x"])
def test_only_counts_that_are_asked_for_are_exact(where: str) -> None:
    """In a workload as alone, also where queries share; 2^99 - 1 trends have more digits than doubles."""
    returned = {
        "counted": "COUNT(*) AS n",
        "largest": "MAX(B.x) AS m",
        "mean": "AVG(B.y) AS a",
        "longest": "MAX(LENGTH) AS l",
    }
    queries = {name: parse(f"RETURN {one} PATTERN SEQ(A, B+) {where}") for name, one in returned.items()}
    common = {"s": 0, "k": "u", "g": 1, "name": "n", "case": 1}
    rows = [{"id": t, "t": t, "type": "B" if t else "A", "x": t, "y": t / 2, **common} for t in range(100)]
    worker = WorkloadWorker(queries, rows)
    for sharing in SHARING:
        plan = worker.plan("decimal", sharing)
        members = [member for one in plan.together for member in one.members]
        assert [member.name for member in members if member.spec.answer.exact] == ["counted"]
        found = {name: next(iter(answer.values())) for name, answer in worker.answers(plan, 2**20, 2**20).items()}
        assert found["counted"]["n"] == 2**99 - 1
        assert (found["largest"]["m"], found["longest"]["l"]) == (99, 100)
        assert found["mean"]["a"] == pytest.approx(25, rel=1e-12)


#: AND at the top, of sides apart and of sides that have trends in common, and what may share with the sides.
PAIRED = {
    "apart": "RETURN COUNT(*) AS n, MIN(LENGTH) AS l, MIN(A.x) AS m PATTERN A+ AND B+",
    "prefixed": "RETURN COUNT(*) AS n, SUM(B.x) AS s PATTERN SEQ(A, B+) AND SEQ(C, B+)",
    "common": "RETURN COUNT(*) AS n, AVG(B.y) AS a PATTERN SEQ(A, B+) AND SEQ(A+, B+)",
    "within": "RETURN COUNT(*) AS n, SUM(B.y) AS s PATTERN B+ AND B{2,}",
    "single": "RETURN COUNT(*) AS n, MAX(B.x) AS z PATTERN B AND C",
    "left side of apart": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)",
}


@pytest.mark.parametrize("number", ["decimal", "log2"])
@pytest.mark.parametrize("end", ["", "WITHIN 6 SLIDE 2", "WHERE [k]", "GROUP BY g"])
def test_the_sides_of_an_and_are_propagated_with_other_queries(end: str, number: str) -> None:
    queries = {name: by_case(parse(f"{text} {end}")) for name, text in PAIRED.items()}
    for seed, sharing in enumerate(SHARING):
        rows = generators.stacked(92_000 + 50 * seed, 6)
        worker = WorkloadWorker(queries, rows)
        plan = worker.plan(number, sharing)
        assert not plan.alone
        answers = worker.answers(plan, *((3, 2), (2**20, 2**20))[seed % 2])
        assert any(answers.values())
        judge(queries, rows, answers, number, {})


def test_sides_of_several_ands_have_names_of_their_own() -> None:
    texts = {
        "q": "RETURN COUNT(*) AS n PATTERN A AND B",
        "q'": "RETURN COUNT(*) AS n PATTERN A AND C",
        "left side of q": "RETURN COUNT(*) AS n PATTERN A+",
    }
    queries = {name: by_case(parse(text)) for name, text in texts.items()}
    rows = generators.stacked(93_000, 6)
    worker = WorkloadWorker(queries, rows)
    judge(queries, rows, worker.answers(worker.plan("decimal", "dynamic"), 2**20, 2**20), "decimal", {})


def test_explain_says_with_whom_the_sides_of_an_and_share() -> None:
    queries = {name: by_case(parse(text)) for name, text in PAIRED.items()}
    worker = WorkloadWorker(queries, [])
    text = str(explain_workload(worker.plan("decimal", "dynamic"), worker.queries))
    said = dict(re.findall(r"^(\w+) +(left side of .*)$", text, re.M))
    assert set(said) == set(queries) - {"left side of apart"}
    left, right = said["prefixed"].split("; ")
    assert left.startswith("left side of prefixed may share bursts of (B)+ with ")
    assert right.startswith("right side of prefixed may share bursts of (B)+ with ")
    # A query has the name that its left side would have.
    assert said["apart"].startswith(
        "left side of apart' alone: what else has its Kleene pattern shares another one: right side of common; "
        "no other query that walks repeats events of its types; right side of"
    )
    assert said["single"].count("alone: it has no Kleene of a single variable") == 2
    assert "prefixed pairs the trends of left side of prefixed, right side of prefixed" in text


#: Workloads, and why the first query of each shares no bursts.
ALONE = {
    "no other query of its pass has its Kleene pattern": ("SEQ(A, B+)", "SEQ(A, C+)"),
    "what else has its Kleene pattern may share no bursts: q1, q2": (
        "SEQ(A, B+)", "SEQ(A, B+) WHERE B.x < NEXT(B).x", "SEQ(A, NOT C, B+)"
    ),
    "what else has its Kleene pattern shares another one: q1": (
        "SEQ(A, B+)", "SEQ(A+, B+)", "SEQ(C, A+)", "SEQ(B, A+)"
    ),
    "fewer than 3 queries whose windows are products of panes take less time apart": (
        "SEQ(A, B+) WITHIN 60 SLIDE 2", "SEQ(C, B+) WITHIN 60 SLIDE 2"
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", ALONE)
def test_explain_says_why_a_query_shares_no_bursts(reason: str) -> None:
    queries = {
        f"q{number}": by_case(parse(f"RETURN COUNT(*) AS n PATTERN {text}"))
        for number, text in enumerate(ALONE[reason])
    }
    worker = WorkloadWorker(queries, [])
    text = str(explain_workload(worker.plan("log2", "dynamic"), worker.queries))
    assert re.search(rf"^q0 +alone: {reason}(;|$)|^ +q0(, q\d)* abreast, .* and {reason};", text, re.M), text


#: Trips of a ridesharing service, the events of the Hamlet paper's first figure.
RIDES = "id bigint, t bigint, type string, district string, driver int, rider int, kind string, speed int, duration int"
#: Trips whose rider is not picked up, pool riders who are dropped off, and cancelled trips in slow traffic.
FIGURE_1 = {
    "q1": "PATTERN SEQ(Request R, Travel T+, NOT Pickup P) WHERE [driver, rider]",
    "q2": "PATTERN SEQ(Request R, Travel T+, Dropoff D) WHERE [driver, rider] AND R.kind = 'Pool'",
    "q3": "PATTERN SEQ(Request R, Travel T+, Cancel C) WHERE [driver, rider] AND T.speed < 10",
}


@pytest.mark.parametrize("number", ["decimal", "log2"])
@pytest.mark.parametrize(
    "windows",
    [
        ("", "", ""),
        ("WITHIN 30 SLIDE 5",) * 3,
        ("WITHIN 15 SLIDE 5", "WITHIN 30 SLIDE 10", "WITHIN 45 SLIDE 15"),
    ],
)
def test_figure_1_of_the_hamlet_paper_is_shared(
    windows: tuple[str, str, str], number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NOT in the first query, a condition before the Kleene pattern in the second, one within it in the third."""
    schema = Schema([Field(*column.split(" ")) for column in f"{RIDES}, case int".split(", ")])
    for module in (test_kernel_aggregate, sys.modules[__name__]):
        monkeypatch.setattr(module, "SCHEMA", schema)
    returned = "RETURN COUNT(*) AS n, SUM(T.duration) AS s, AVG(T.speed) AS a"
    queries = {
        name: by_case(parse(f"{returned} {text} GROUP BY district {window}"))
        for (name, text), window in zip(FIGURE_1.items(), windows, strict=True)
    }
    choose, rows = random.Random(4), []
    for event in range(12 * 20):
        trip = {"district": "n", "driver": choose.randint(1, 2), "rider": 7, "kind": choose.choice(["Pool", "Solo"])}
        kind = choose.choice(["Request", "Travel", "Travel", "Travel", "Pickup", "Dropoff", "Cancel"])
        measured = {"speed": choose.randint(5, 14), "duration": choose.randint(1, 9)}
        rows.append({"id": event, "t": event % 20 * 3, "type": kind, **trip, **measured, "case": event // 20})
    worker = WorkloadWorker(queries, rows)
    plan = worker.plan(number, "dynamic")
    assert [one.queries for together in plan.together for one in together.abreast] == [("q1", "q2", "q3")]
    answers = worker.answers(plan, 2**20, 2**20)
    assert all(answers.values())
    judge(queries, rows, answers, number, {})
