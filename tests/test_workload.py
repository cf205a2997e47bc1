"""Workloads: each query's answer is what it would be alone, whatever it shares a pass with."""

from __future__ import annotations

import random
import re
from typing import Any

import attrs
import generators
import pytest
import reference
from modes import more_on_classic, settings
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from test_engines import STREAMS, Judge, agrees, by_case, judge_of

import cetdsl as cet
from cetdsl.errors import (
    AnalysisErrors,
    CountOverflow,
    InvalidNode,
    ParseError,
    ResolutionError,
    UnknownColumn,
    UnsupportedQuery,
    recovering,
)
from cetdsl.execution.operators import execute
from cetdsl.pattern.query import Query
from cetdsl.planning.sharing import SHARING

pytestmark = pytest.mark.simple_plans

FIGURE_4 = "AACBBBBAACCCBB"  # of the Hamlet paper
FEATURES = generators.Features(returned_strings=True)


@pytest.fixture(scope="module")
def figure_4(spark: Any) -> Any:
    rows = [(t, key, kind, float(t * 7 % 5)) for t, kind in enumerate(FIGURE_4) for key in ("x", "y")]
    return spark.createDataFrame(rows, "t int, key string, type string, x double")


def workload_of(judge: Judge, seed: int, size: int) -> dict[str, Query]:
    """Random queries over the judge's streams, without those that are refused, alone as in company."""
    queries: dict[str, Query] = {}
    while len(queries) < size:
        query = by_case(generators.random_case(seed, FEATURES).query)
        seed += 1
        returned = {item.output_name.casefold() for item in query.returning}
        if len(returned) < len(query.returning):
            continue
        try:
            judge.df.pattern(query, time="t").aggregate()
        except UnsupportedQuery:
            continue
        queries[f"q{len(queries)}"] = query
    return queries


def rows_by_key(answer: Any, query: Query) -> dict[Any, dict[str, Any]]:
    """The rows of an answer by group and window."""
    found: dict[Any, dict[str, Any]] = {}
    for row in answer.collect():
        values = row.asDict()
        window = values.pop("window", None)
        key = tuple(reference._key(values.pop(column)) for column in query.group_by), tuple(window) if window else None
        assert key not in found, ("two rows of one group and window", key)
        found[key] = values
    return found


def expected_of(judge: Judge, queries: dict[str, Query]) -> dict[str, Any]:
    """What each query should answer, by group and window."""
    return {
        name: reference.aggregate(query, judge.rows, {item.output_name: item.aggregate for item in query.returning})
        for name, query in queries.items()
    }


def judge_workload(
    judge: Judge, queries: dict[str, Query], answered: dict[str, Any], sharing: str, number: str
) -> None:
    """Compares the answers of a workload with those of :func:`expected_of`."""
    many = judge.df.patterns(queries, time="t", sharing=sharing)
    answers = many.results(number=number)
    try:
        for name, query in queries.items():
            aggregates = {item.output_name: item.aggregate for item in query.returning}
            expected = answered[name]
            found = rows_by_key(answers[name], query)
            assert set(found) == set(expected), (sharing, name, str(query))
            for key, values in expected.items():
                for column, value in values.items():
                    got = found[key][column]
                    context = (sharing, name, str(query), key, column, got, value)
                    assert agrees(got, value, number, aggregates[column]), context
    finally:
        many.unpersist()


def judge_one_answer(
    judge: Judge, queries: dict[str, Query], answered: dict[str, Any], sharing: str, number: str
) -> None:
    """Compares the one DataFrame of all answers with those of :func:`expected_of`."""
    # Aggregates of one name would have to be of one type.
    renamed = {
        name: attrs.evolve(
            query, returning=tuple(attrs.evolve(item, name=f"{name}_{n}") for n, item in enumerate(query.returning))
        )
        for name, query in queries.items()
    }
    many = judge.df.patterns(renamed, time="t", sharing=sharing)
    rows: dict[str, dict[Any, Any]] = {name: {} for name in queries}
    for row in many.aggregate(number=number).collect():
        query, window = queries[row["query"]], row.asDict().get("window")
        key = tuple(reference._key(row["group"][column]) for column in query.group_by), window and tuple(window)
        assert key not in rows[row["query"]]
        rows[row["query"]][key] = row
    many.unpersist()
    for name, query in queries.items():
        assert set(rows[name]) == set(answered[name]), (name, str(query))
        for key, values in answered[name].items():
            for n, item in enumerate(query.returning):
                got, value = rows[name][key][f"{name}_{n}"], values[item.output_name]
                context = (sharing, name, str(query), key, got, value)
                assert agrees(got, value, number, item.aggregate), context


@pytest.mark.classic
@pytest.mark.parametrize(("seed", "size"), [(10_000, 2), (20_000, 5), (30_000, 8), (40_000, 12)])
def test_each_query_of_a_random_workload_gets_its_own_answer(spark: Any, seed: int, size: int) -> None:
    judge = judge_of(spark, generators.stacked(seed, STREAMS))
    queries = workload_of(judge, seed, size)
    expected = expected_of(judge, queries)
    numbers = ("decimal", "string", "double", "log2")
    for sharing, number in zip(SHARING, numbers, strict=True):
        judge_one_answer(judge, queries, expected, sharing, number)
    # Answers one by one take a job for each query, so each workload is asked for them in one way.
    turn = seed // 10_000 % len(SHARING)
    judge_workload(judge, queries, expected, SHARING[turn], numbers[turn - 1])


@pytest.fixture(scope="module")
def common_kleene(spark: Any) -> tuple[Judge, dict[str, Query], dict[str, Any]]:
    """What Hamlet shares: one Kleene pattern, different prefixes, constants, predicates, windows and aggregates."""
    texts = {
        "plain": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)",
        "other": "RETURN COUNT(*) AS n PATTERN SEQ(C, B+)",
        "alone": "RETURN COUNT(*) AS n, COUNT(B) AS b PATTERN B+",
        "constants": "RETURN COUNT(*) AS n, SUM(B.x) AS s PATTERN SEQ(A, B+) WHERE B.x > 0",
        "more constants": "RETURN COUNT(*) AS n, AVG(B.x) AS a PATTERN SEQ(A, B+) WHERE B.x > 1",
        "rising": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x",
        "short": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WITHIN 4 SLIDE 2",
        "long": "RETURN COUNT(*) AS n, MAX(B.x) AS m PATTERN SEQ(C, B+) WITHIN 6 SLIDE 2",
        "between": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+, C)",
        "nested": "RETURN COUNT(*) AS n PATTERN (SEQ(A, B+))+",
    }
    queries = {name: by_case(cet.parse(text)._query()) for name, text in texts.items()}
    judge = judge_of(spark, generators.stacked(77_000, STREAMS))
    return judge, queries, expected_of(judge, queries)


@pytest.mark.classic
@pytest.mark.parametrize("sharing", SHARING)
def test_queries_with_a_common_kleene_pattern_agree_with_each_alone(common_kleene: Any, sharing: str) -> None:
    judge_workload(*common_kleene, sharing, "decimal")


#: What queries that are propagated abreast may look for, and by what.
ABREAST = (
    "B+", "SEQ(A, B+)", "SEQ(C, B+)", "SEQ(A, B+, C)", "(SEQ(A, B))+", "(SEQ(A, B+))+", "SEQ(A, NOT C, B+)",
    "SEQ(NOT C, A, B+)", "SEQ(A, B+, NOT C)", "SEQ(C, A, B+)", "SEQ((A OR C), B+)", "SEQ(A, NOT SEQ(C, A), B+)",
)  # fmt: skip
NEXT_OF_B = (
    "", "B.x < NEXT(B).x", "B.x < NEXT(B).x", "B.x <= NEXT(B).x", "B.x < NEXT(B).x + 1", "B.x < NEXT(B).x + 2",
    "B.y = NEXT(B).y", "B.y = NEXT(B).y AND B.x > NEXT(B).x", "B.x > 0",
)  # fmt: skip
RETURNED = ("COUNT(*) AS n", "COUNT(*) AS n, MIN(B.x) AS m", "MAX(B.x) AS m", "SUM(B.x) AS s", "MIN(LENGTH) AS l")


@pytest.mark.classic
@pytest.mark.parametrize(("seed", "window"), [(0, ""), (1, "WITHIN 6 SLIDE 2"), (2, ""), (3, "WITHIN 9 SLIDE 9")])
def test_queries_abreast_agree_with_each_alone(spark: Any, seed: int, window: str) -> None:
    choose = random.Random(seed)
    texts = []
    for _ in range(12):
        pattern = choose.choice(ABREAST)
        where = choose.choice(NEXT_OF_B) if "B+" in pattern else ""
        texts.append(f"RETURN {choose.choice(RETURNED)} PATTERN {pattern} {'WHERE ' + where if where else ''} {window}")
    queries = {f"q{number}": by_case(cet.parse(text)._query()) for number, text in enumerate(texts)}
    judge = judge_of(spark, generators.stacked(55_000 + seed, STREAMS))
    assert "abreast" in str(judge.df.patterns(queries, time="t").explain())
    judge_one_answer(judge, queries, expected_of(judge, queries), "dynamic", ("decimal", "log2")[seed % 2])


def test_figure_4_of_the_hamlet_paper(figure_4: Any) -> None:
    many = figure_4.patterns(
        "NAME q1: RETURN COUNT(*) PATTERN SEQ(A, B+) GROUP BY key;"
        "NAME q2: RETURN COUNT(*) PATTERN SEQ(C, B+) GROUP BY key",
        time="t",
    )
    found = {(row.query, row.group.key): int(row["count"]) for row in many.aggregate().collect()}
    assert found == {("q1", "x"): 132, ("q1", "y"): 132, ("q2", "x"): 72, ("q2", "y"): 72}


def test_example_7_of_the_hamlet_paper_is_shared(spark: Any) -> None:
    """The edge from b4 to b5 holds for q1 and not for q2, all others for both: z, the count of b5, is 8 and 2."""
    prices = [0, 0, 0, 0, 3, 2, 4]
    # A group per prefix of the stream, so that differences of answers are the counts of single events.
    rows = [(t, end, FIGURE_4[t], prices[t]) for end in range(1, 8) for t in range(end)]
    df = spark.createDataFrame(rows, "t int, end int, type string, x int")
    many = df.patterns(
        "NAME q1: RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x + 2 GROUP BY end;"
        "NAME q2: RETURN COUNT(*) AS n PATTERN SEQ(C, B+) WHERE B.x < NEXT(B).x GROUP BY end",
        time="t",
    )
    assert "q1  may share a walk over the events with q2" in str(many.explain())
    found = {(row.query, row.group.end): int(row.n) for row in many.aggregate().collect()}
    counted = {q: [found[q, end] - found.get((q, end - 1), 0) for end in (4, 5, 6, 7)] for q in ("q1", "q2")}
    assert counted == {"q1": [2, 4, 8, 16], "q2": [1, 2, 2, 6]}


def test_one_answer_for_all_has_the_union_of_the_columns(figure_4: Any) -> None:
    many = figure_4.patterns(
        {
            "counted": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) GROUP BY key",
            "summed": "RETURN SUM(B.x) AS total, COUNT(*) AS n PATTERN SEQ(A, B) WITHIN 4 SLIDE 4",
            "alone": "RETURN COUNT(*) AS n PATTERN A AND B",
        },
        time="t",
    )
    answer = many.aggregate()
    assert answer.columns == ["query", "group", "window", "n", "total"]
    rows = answer.collect()
    assert {row.query for row in rows} == {"counted", "summed", "alone"}
    assert {row.group.key for row in rows if row.query == "counted"} == {"x", "y"}
    assert all(row.group.key is None for row in rows if row.query != "counted")
    assert all((row.window is None) == (row.query != "summed") for row in rows)
    assert all((row.total is None) == (row.query != "summed") for row in rows)
    plain = figure_4.patterns({"a": "RETURN COUNT(*) AS n PATTERN SEQ(A, B)"}, time="t").aggregate()
    assert plain.columns == ["query", "n"]


def test_one_pass_reads_and_shuffles_once(figure_4: Any, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {f"q{k}": f"RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.x > {k} GROUP BY key" for k in range(12)}
    figure_4.patterns(texts, time="t").aggregate().explain()
    plan = capsys.readouterr().out
    assert plan.count("Exchange") == 1


def test_explain_shows_passes_sets_and_templates(figure_4: Any) -> None:
    many = figure_4.patterns(
        {
            "q1": "RETURN COUNT(*) PATTERN SEQ(A, B+) GROUP BY key WITHIN 10 SLIDE 4",
            "q2": "RETURN COUNT(*) PATTERN SEQ(C, B+) GROUP BY key WITHIN 6 SLIDE 2",
            "q3": "RETURN MIN(B.x) PATTERN SEQ(C, B+) GROUP BY key WITHIN 6 SLIDE 2",
            "q4": "RETURN COUNT(*) PATTERN SEQ(A, C) GROUP BY key WITHIN 6 SLIDE 2",
            "q5": "RETURN COUNT(*) PATTERN B+ WHERE AVG(B.x) > 1",
        },
        time="t",
        sort="runs",
    )
    text = str(many.explain())
    assert "pass 1    q1, q2, q3, q4" in text
    assert "q1, q2, q3 may share (B)+" in text  # q4 has no Kleene pattern
    assert "pane     2 " in text
    assert "begins a trend if q1" in text
    assert "q5 alone  enumerate" in text
    assert "merged template" in many.explain().html()
    assert "+- merge the runs of each key" in text
    assert "v0  A of q1, q4\nv1  B of q1, q2, q3\nv2  C of q2, q3, q4\n\nkernel: all queries" in text
    with_texts = figure_4.patterns({"q": "RETURN MAX(B.type) PATTERN B+"}, time="t").explain()
    assert re.search(
        r"sort each task's events by t\n +\|? +by the kernel: cheaper for events of about \d+ bytes", str(with_texts)
    )


def test_explain_says_what_each_query_calls_a_common_variable(figure_4: Any) -> None:
    texts = {
        "plain": "RETURN COUNT(*) PATTERN SEQ(A a, B+ b) WHERE a.type = 'A' AND b.type = 'B'",
        "renamed": "RETURN COUNT(*) PATTERN SEQ(A `first one`, NOT C, B+ b) WHERE b.type = 'B'",
        "twice": "RETURN COUNT(*) PATTERN SEQ(B b, B c)",
        **{f"q{number}": "RETURN COUNT(*) PATTERN SEQ(A a, C)" for number in range(8)},
    }
    text = str(figure_4.patterns(texts, time="t").explain())
    assert "v0  a of plain, q0, q1, q2, q3, q4 and 3 more; `first one` of renamed" in text


def test_metrics_have_one_row_per_task_and_set(figure_4: Any) -> None:
    texts = {
        "q1": "RETURN COUNT(*) PATTERN SEQ(A, B+) GROUP BY key",
        "q2": "RETURN COUNT(*) PATTERN SEQ(C, B+) GROUP BY key",
    }
    many = figure_4.patterns(texts, time="t", sharing="always")
    rows = many.metrics().collect()
    assert rows
    assert all(row.queries == ["q1", "q2"] for row in rows)
    assert sum(row.bursts for row in rows) == 4  # two bursts of B per key
    assert sum(row.snapshots for row in rows) >= 4
    assert [sum(row.together[name] for row in rows) for name in texts] == [4, 4]
    assert all(set(row.alone.values()) == {0} for row in rows)
    assert figure_4.patterns(texts, time="t", sharing="never").metrics().agg({"shared": "sum"}).first()[0] in (None, 0)


@pytest.mark.classic
def test_explain_says_of_how_many_bursts_each_query_shared(spark: Any) -> None:
    """Each event of B is a burst of its own, over which snapshots of two queries do not pay."""
    df = spark.createDataFrame([(t, "AB"[t % 2]) for t in range(20)], "t int, type string")
    texts = {"q1": "RETURN COUNT(*) PATTERN SEQ(A, B+)", "q2": "RETURN COUNT(*), SUM(B.t) PATTERN SEQ(C, B+)"}
    for sharing, said in (("dynamic", "0 of 10 bursts: alone they cost less"), ("always", "10 of 10 bursts")):
        text = str(df.patterns(texts, time="t", sharing=sharing).explain(measured=True))
        assert re.findall(r"^(q\d) shared +(.*)$", text, re.M) == [("q1", said), ("q2", said)]


#: Queries of which some share, and some may not.
MIXED = (
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)",
    "RETURN COUNT(*) AS n, AVG(B.x) AS a PATTERN SEQ(C, B+)",
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.x > 1",
    "RETURN MAX(B.x) AS m PATTERN SEQ(A, B+)",
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x",
    "RETURN COUNT(*) AS n PATTERN SEQ(C, B+) WHERE B.x != NEXT(B).x",
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+, C) WHERE A.x < C.x",
    "RETURN COUNT(*) AS n PATTERN SEQ(A, NOT C, B+)",
    "RETURN COUNT(*) AS n PATTERN (SEQ(A, B))+",
    "RETURN COUNT(*) AS n PATTERN SEQ((SEQ(A, B))+, C+)",
    "RETURN COUNT(*) AS n PATTERN (A OR B)+",
    "RETURN COUNT(*) AS n PATTERN SEQ(C, (A OR B)+)",
    "RETURN COUNT(*) AS n PATTERN B+ WHERE COUNT(B) < 4",
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WITHIN 5",
    "RETURN COUNT(*) AS n PATTERN SEQ(C, B+) WITHIN 5",
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WITHIN 8 SLIDE 1",
    "RETURN COUNT(*) AS n PATTERN SEQ(C, B+) WITHIN 6 SLIDE 1",
    "RETURN COUNT(*) AS n PATTERN SEQ(C, B+) WITHIN 6 SLIDE 3",
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B)",
)


@pytest.mark.classic
@pytest.mark.parametrize("seed", range(6))
def test_what_explain_says_shares_is_what_the_kernel_shares(figure_4: Any, seed: int) -> None:
    """Every query is in a set, and then in its metrics, or explain says why it is not."""
    chosen = random.Random(seed).sample(MIXED, 6)
    texts = {f"q{number}": text for number, text in enumerate(chosen)}
    many = figure_4.patterns(texts, time="t", sharing=("always", "dynamic")[seed % 2])
    text = str(many.explain())
    said = {tuple(line.split(", ")) for line in re.findall(r"^ *(.*) (?:may share \(|abreast,)", text, re.M)}
    shared = {name for names in said for name in names}
    apart = {name for line in re.findall(r"^ *(.*?) alone[, ] *\w.*: ", text, re.M) for name in line.split(", ")}
    assert (shared | apart, shared & apart) == (set(texts), set())
    rows = many.metrics().collect()
    together = [row for row in rows if not row.apart]
    assert {tuple(row.queries) for row in together} == said
    assert all((row.unshared, row.propagated > 0) == (0, True) for row in together)
    # Explain and metrics say the same of each query.
    told = {name: reason for row in rows for name, reason in row.apart.items()}
    lines = dict(re.findall(r"^(q\d+) +(may share .*|alone.*)$", text, re.M))
    assert set(lines) == set(texts)
    assert {name for name, line in lines.items() if line.startswith("may share")} == shared
    assert {name: line for name, line in lines.items() if line.startswith("alone: ")} == {
        name: f"alone: {reason}" for name, reason in told.items()
    }


def test_a_query_that_nobody_walks_with_says_so(figure_4: Any) -> None:
    texts = {kind: f"RETURN COUNT(*) PATTERN SEQ(A, {kind}+) WHERE {kind}.x < NEXT({kind}).x" for kind in "BC"}
    text = str(figure_4.patterns(texts, time="t").explain())
    nobody = "it has predicates between neighbours; no other query that walks repeats events of its types"
    assert re.findall(r"^[BC]  +(.*)$", text, re.M) == [f"alone: {nobody}"] * 2


def test_where_sharing_is_never_asked_for_that_is_the_reason(figure_4: Any) -> None:
    """Also of queries that would walk together, as predicates relate their neighbours."""
    texts = {kind: f"RETURN COUNT(*) PATTERN SEQ({kind}, B+) WHERE B.x < NEXT(B).x" for kind in "AC"}
    text = str(figure_4.patterns(texts, time="t", sharing="never").explain())
    assert re.findall(r"^[AC]  +(.*)$", text, re.M) == ["alone: sharing is never asked for"] * 2


# --- Bad input -------------------------------------------------------------------------------------------------------


def test_all_errors_of_all_queries_come_together(figure_4: Any) -> None:
    with pytest.raises(AnalysisErrors) as caught:
        figure_4.patterns(
            {
                "first": "RETURN COUNT(*), SUM(B.w) PATTERN SEQ(A, B+) WHERE A.y > 1",
                "second": "PATTERN SEQ(A, B) WHERE B.v > 1",
                "third": "RETURN COUNT(*) PATTERN SEQ(A, B)",
            },
            time="t",
        )
    message = str(caught.value)
    assert "the workload has 3 errors" in message
    assert "query 'first': no column 'y'" in message
    assert "query 'first': no column 'w'" in message
    assert "query 'second': no column 'v'" in message
    assert "third" not in message


def test_aggregates_of_queries_that_return_nothing(figure_4: Any) -> None:
    queries = {"first": "PATTERN SEQ(A, B)", "second": "RETURN COUNT(*) PATTERN SEQ(A, B)", "third": "PATTERN A"}
    many = figure_4.patterns(queries, time="t")
    for ask in (many.aggregate, many.results, many.metrics, many.explain):
        with pytest.raises(AnalysisErrors) as caught:
            ask()
        assert "query 'first': there is nothing to return" in str(caught.value)
        assert "query 'third': there is nothing to return" in str(caught.value)
        assert "second" not in str(caught.value)
    with pytest.raises(ResolutionError, match="query 'q': there is nothing to return"):
        figure_4.patterns({"q": "PATTERN A"}, time="t").aggregate()


def test_one_error_keeps_its_class(figure_4: Any) -> None:
    with pytest.raises(UnknownColumn, match="query 'q': no column 'y'"):
        figure_4.patterns({"q": "RETURN COUNT(*) PATTERN A WHERE A.y > 1"}, time="t")


@pytest.mark.parametrize(
    ("queries", "error", "message"),
    [
        ({}, InvalidNode, "the workload has no queries"),
        ([], InvalidNode, "a dict by name or one text"),
        ("", ParseError, "no query in the text"),
        ("-- nothing\n", ParseError, "no query in the text"),
        ({"": "RETURN COUNT(*) PATTERN A"}, InvalidNode, "a non-empty string"),
        ({1: "RETURN COUNT(*) PATTERN A"}, InvalidNode, "a non-empty string"),
        ({"q": "RETURN COUNT(*) PATTERN SEQ(A, )"}, ParseError, "query 'q': a pattern is missing"),
        ({"q": 5}, InvalidNode, "query 'q'"),
        ("NAME q: RETURN COUNT(*) PATTERN A; NAME q: RETURN COUNT(*) PATTERN B", ParseError, "two queries of the name"),
        ("RETURN COUNT(*) PATTERN A", ParseError, "a query has no name"),
        ({"q": "RETURN COUNT(*) PATTERN A WHERE A.x > :low"}, ParseError, r":low has(.|\n)*parameters={'low': \.\.\.}"),
        ("NAME q: RETURN COUNT(*) PATTERN A;; NAME r: RETURN COUNT(*) PATTERN B", ParseError, "before the semicolon"),
    ],
)
def test_what_is_no_workload(figure_4: Any, queries: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        figure_4.patterns(queries, time="t")


def test_parameters_are_given_to_the_texts_that_mention_them(spark: Any) -> None:
    df = spark.createDataFrame([(t, "AB"[t % 2]) for t in range(9)], "t int, type string")
    ends = {"early": "RETURN COUNT(*) AS n PATTERN A WHERE A.t < :t", "all": "RETURN COUNT(*) AS n PATTERN A"}
    ends["late"] = cet.parse("RETURN COUNT(*) AS n PATTERN A WHERE A.t > :t", t=5)
    answer = df.patterns(ends, time="t", parameters={"t": 4}).aggregate()
    assert {row.query: row.n for row in answer.collect()} == {"early": 2, "all": 5, "late": 2}
    for parameters, message in (
        ({"t": 4, "tt": 5}, "no parameter :tt\n  hint: did you mean ':t'"),
        ({"t": [4]}, "the parameter :t: "),
        (["t"], "a dict of constants by name, not \\['t'\\]"),
    ):
        with pytest.raises(InvalidNode, match=message):
            df.patterns(ends, time="t", parameters=parameters)
    with pytest.raises(ParseError, match=r"hint: give it: cet\.parse"):
        df.patterns(ends, time="t", parameters={"t": 4}).add("more", "RETURN COUNT(*) PATTERN A WHERE A.t > :t")


def test_wrong_arguments(figure_4: Any) -> None:
    queries = {"q": "RETURN COUNT(*) PATTERN A"}
    with pytest.raises(InvalidNode, match="no sharing mode 'sometimes'"):
        figure_4.patterns(queries, time="t", sharing="sometimes")
    for mode, deviations, message in (
        ("dynamic", {"q": 0.1}, "sharing is 'dynamic' and does not go by them"),
        ("static", {"p": 0.1}, "a query 'p' that the workload does not have"),
        ("static", {"q": 1.5}, "a share from 0 to 1, not 1.5"),
        ("static", {"q": True}, "a share from 0 to 1, not True"),
        ("static", [0.1], "a share for each of some queries, not"),
    ):
        with pytest.raises(InvalidNode, match=message):
            figure_4.patterns(queries, time="t", sharing=mode, deviations=deviations)
    many = figure_4.patterns(queries, time="t")
    with pytest.raises(InvalidNode, match="no number form 'int'"):
        many.aggregate(number="int")
    for asked, message in (
        ("physical", r"as a whole, without the stage 'physical'(.|\n)*explain\('physical'\)"),
        ("int", "no number form"),
    ):
        for of in ("aggregates", "trends"):
            with pytest.raises(InvalidNode, match=message):
                many.explain(asked, of=of)
    for arguments, message in (
        ({"limit": 1}, "limit= is about trends"),
        ({"columns": ["t"]}, "columns= is about trends"),
        ({"of": "trends", "number": "double"}, "number='double' is about aggregates"),
        ({"of": "trends", "number": "int"}, "no number form 'int'"),
    ):
        with pytest.raises(InvalidNode, match=message):
            many.results(**arguments)  # type: ignore[arg-type]


def test_an_answer_that_does_not_fit_names_its_query(spark: Any) -> None:
    df = spark.range(130).selectExpr("CAST(id AS int) AS t", "'B' AS type")
    many = df.patterns({"huge": "RETURN COUNT(*) PATTERN B+", "fine": "RETURN COUNT(*) PATTERN B"}, time="t")
    with pytest.raises(CountOverflow, match="in the whole input, of the query 'huge'"), recovering():
        many.aggregate().collect()


@pytest.mark.parametrize("names", [("two", "paired", "one"), ("paired", "one", "two"), ("one", "paired", "two")])
def test_answers_have_the_names_of_their_queries_wherever_an_and_stands(figure_4: Any, names: tuple[str, ...]) -> None:
    """The sides of an AND are counted in the same pass, and their numbers are those of no answer."""
    texts = {
        "one": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE A.x < B.x GROUP BY key",
        "paired": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) AND SEQ(C, B+) GROUP BY key",
        "two": "RETURN COUNT(*) AS n PATTERN SEQ(C, B) GROUP BY key",
    }
    many = figure_4.patterns({name: texts[name] for name in names}, time="t")
    expected = {(name, *row) for name in names for row in figure_4.pattern(texts[name], time="t").aggregate().collect()}
    assert len({row[2] for row in expected}) == 3
    assert {(row.query, row.group.key, row.n) for row in many.aggregate().collect()} == expected
    assert {(name, *row) for name, answer in many.results().items() for row in answer.collect()} == expected


@pytest.mark.parametrize(("names", "is_case_sensitive"), [(("straße", "strasse"), "false"), (("k", "K"), "true")])
def test_groups_that_spark_tells_apart_are_two_columns(
    spark: Any, names: tuple[str, str], is_case_sensitive: str
) -> None:
    with settings(spark, {"spark.sql.caseSensitive": is_case_sensitive}):
        rows = [(1, "A", "u", "p"), (2, "B", "u", "q"), (3, "B", "v", "p"), (4, "A", "v", "q"), (5, "B", "u", "p")]
        df = spark.createDataFrame(
            rows, StructType.fromDDL(f"t int, type string, `{names[0]}` string, {names[1]} string")
        )
        one, other = (f"`{name}`" for name in names)
        texts = {"one": one, "other": other, "both": f"{one}, {other}"}
        asked = {name: f"RETURN COUNT(*) AS n PATTERN SEQ(A, B) GROUP BY {by}" for name, by in texts.items()}
        found = {(row["query"], *row["group"], row.n) for row in df.patterns(asked, time="t").aggregate().collect()}
        assert found == {("one", "u", None, 2), ("other", None, "p", 2), ("both", "u", "p", 1)}


def test_names_that_clash(figure_4: Any) -> None:
    clashing = {"a": "RETURN COUNT(*) AS n PATTERN A", "b": "RETURN MAX(A.x) AS N PATTERN A"}
    many = figure_4.patterns(clashing, time="t")
    with pytest.raises(ResolutionError, match="'a' and 'b' both return 'N', of different types"):
        many.aggregate()
    assert set(many.results()) == {"a", "b"}
    many.unpersist()
    window = figure_4.patterns({"q": "RETURN COUNT(*) AS `window` PATTERN SEQ(A, B)"}, time="t").aggregate()
    assert window.columns == ["query", "window"]
    taken = figure_4.patterns({"a": "RETURN COUNT(*) AS query PATTERN A"}, time="t")
    with pytest.raises(ResolutionError, match="clashes with the column 'query'"):
        taken.aggregate()


def test_windows_of_a_pass_that_leave_gaps(spark: Any) -> None:
    df = spark.createDataFrame([(t, "A") for t in range(100)], "t int, type string")
    texts = {f"{n}": f"RETURN COUNT(*) AS n PATTERN A+ WITHIN {n} SLIDE 10" for n in (2, 3)}
    together = df.patterns(texts, time="t").aggregate().collect()
    assert {(row.query, row.window.start, row.n) for row in together} == {
        (f"{n}", start, 2**n - 1) for n in (2, 3) for start in range(0, 100, 10)
    }


@pytest.mark.classic
@pytest.mark.parametrize(("types", "numbered"), more_on_classic((5, False), (12, True), (32, True), (33, False)))
def test_events_of_many_types_travel_by_number(spark: Any, types: int, numbered: bool) -> None:
    kind = F.when(F.col("id") % 7 == 0, F.lit(None)).otherwise(F.concat(F.lit("K"), (F.hash("id") % types).cast("int")))
    df = spark.range(300).select(F.timestamp_seconds("id").alias("t"), F.regexp_replace(kind, "-", "").alias("type"))
    letters = [f"K{number}" for number in range(types)]
    queries = {f"q{n}": f"RETURN COUNT(*) AS n PATTERN SEQ({name}, K0+)" for n, name in enumerate(letters[1:])}
    many = df.patterns(queries, time="t")
    [one] = many._plan("string").together
    encoding = execute(df, one.child).spec.layout.encoding
    assert bool(encoding.dictionary) == numbered
    assert (encoding.bits > 0) == (types <= 32)
    got = {row.query: row.n for row in many.aggregate(number="string").collect()}
    asked = [name for name in queries if name in got][:3]
    assert asked
    for name in asked:
        assert df.pattern(queries[name], time="t").aggregate(number="string").first().n == got[name]


@pytest.mark.classic
def test_more_variables_than_a_mask_has_bits_take_more_passes(spark: Any) -> None:
    rows = [(t, f"T{t % 70}") for t in range(140)]
    df = spark.createDataFrame(rows, "t int, type string")
    texts = {f"q{k}": f"RETURN COUNT(*) AS n PATTERN SEQ(T{2 * k}, T{2 * k + 1})" for k in range(35)}
    found = {row.query: int(row.n) for row in df.patterns(texts, time="t").aggregate().collect()}
    assert found == dict.fromkeys(texts, 3)


@pytest.mark.parametrize(("arguments", "said"), [
    ({"cost_model": "cheapest"}, "choose one of calibrated, equation-8, equation-7"),
    ({"cost_model": "equation-8", "sharing": "always"}, 'write sharing="dynamic" or "static", or leave it away'),
])  # fmt: skip
def test_cost_models_that_are_refused(figure_4: Any, arguments: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidNode, match=re.escape(said)):
        figure_4.patterns({"q": "RETURN COUNT(*) PATTERN B+"}, time="t", **arguments)


@pytest.mark.parametrize("cost_model", more_on_classic("equation-7", "equation-8"))
def test_cost_models_give_the_same_answers(figure_4: Any, cost_model: str) -> None:
    texts = {name: f"RETURN COUNT(*) AS n PATTERN SEQ({name}, B+) GROUP BY key" for name in ("A", "C")}
    many = figure_4.patterns(texts, time="t", cost_model=cost_model)
    assert f"cost model  {cost_model}" in str(many.explain())
    assert sorted({(row.query, int(row.n)) for row in many.aggregate().collect()}) == [("A", 132), ("C", 72)]
