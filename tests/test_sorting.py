"""Who puts the events of a task in order, by the planner's decision, by an argument, and by a setting."""

from __future__ import annotations

import re
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from modes import settings

import cetdsl as cet
from cetdsl.analysis import Binding, analyse
from cetdsl.errors import SHARES, InvalidNode, StreamingNotSupported
from cetdsl.execution.compat import bytes_of, shuffle_tasks
from cetdsl.execution.exchange import exchange
from cetdsl.execution.parcels import packed_by_share, shares_of_bytes, shares_of_keys
from cetdsl.frontend.sase import parse
from cetdsl.ir.operators import EventsInOrder, Exchange
from cetdsl.ir.schema import Field, Schema
from cetdsl.ir.shares import task_of
from cetdsl.ir.sorting import KERNEL, RUNS, SORT_MEMORY, SPARK, UNLIMITED, AskedSort, Sorting
from cetdsl.pattern.expressions import Aggregate
from cetdsl.planning.planner import plan_aggregate, plan_trends
from cetdsl.planning.sorting import WIDE_EVENT
from cetdsl.planning.strategies.fold import MANY_BYTES
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.rewrite import rewrite

FIELDS = [
    Field("t", "bigint"),
    Field("type", "string"),
    Field("key", "string"),
    Field("parts", "array<int>"),
    Field("folded", "string collate UTF8_LCASE"),
    Field("price", "double"),
    *(Field(f"note{n}", "string") for n in range(30)),
]
SCHEMA = Schema(FIELDS)


def decided(text: str, ties: tuple[str, ...] = (), columns: tuple[str, ...] | None = None, **asked: Any) -> Sorting:
    """Who sorts the events of a query that is counted, or whose trends are listed with these columns."""
    resolved, _ = rewrite(analyse(parse(text), SCHEMA, Binding("t", ties, sort=AskedSort(**asked))))
    if columns is None:
        plan = plan_aggregate(resolved, (("n", Aggregate("count")),), "decimal", [kernel]).plan
    else:
        plan = plan_trends(resolved, columns, None).plan
    [needed] = [each.gives_rows for each in plan.walk() if isinstance(each, Exchange)]
    assert isinstance(needed, EventsInOrder)
    return needed.sorting


BY_KEY = "PATTERN SEQ(A, B+) WHERE B.price < NEXT(B).price GROUP BY key"


def test_few_events_are_sent_one_by_one(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark expects few bytes, unless the kernel is asked for; answers are the same, and plans tell the way."""
    terms = "'k' || id % 3 AS key", "id AS t", "IF(id % 5 = 0, 'A', 'B') AS type", "double(id % 7) AS price"
    df = spark.range(60).selectExpr(*terms)
    queries = {"rising": f"RETURN COUNT(*) {BY_KEY}", "falling": f"RETURN COUNT(*) {BY_KEY.replace('<', '>')}"}
    clause = (
        "PARTITION BY key ORDER BY t MEASURES LAST(B.t) AS last PATTERN (A B+) DEFINE A AS type = 'A', B AS type = 'B'"
    )

    def told(**asked: Any) -> set[bool]:
        bound = cet.pattern(df, BY_KEY, time="t", **asked)
        many = cet.patterns(df, queries, time="t", **asked)
        matches = cet.pattern(df, BY_KEY.replace("GROUP", "MATCHING STRICT GROUP"), time="t", **asked).explain(
            "matches"
        )
        views = [
            bound.explain(stage) for stage in ("physical", "trends", "complete", "complete_count", "sample", "top")
        ]
        plans = [*views, matches, many.explain(), many.explain(of="trends")]
        return {"many in one row" in view.text or "into sorted runs" in view.text for view in plans}

    def answers(**asked: Any) -> list[Any]:
        bound = cet.pattern(df, BY_KEY, time="t", **asked)
        many = cet.patterns(df, queries, time="t", **asked)
        found = [bound.count_trends(), bound.trends(), bound.complete_trends(), many.aggregate(), many.trends()]
        found.append(df.match_recognize(clause, **asked))
        return [sorted(map(repr, one.collect())) for one in found]

    one_by_one = answers()
    assert told() == {False}
    assert told(sort="kernel") == {True}
    assert answers(sort="kernel") == one_by_one
    monkeypatch.setattr("cetdsl.execution.exchange.FEW_BYTES", 0)
    assert told() == {True}
    assert answers() == one_by_one


def test_the_kernel_sorts_narrow_events() -> None:
    """Within the usual memory, or what was asked for; without it where all events are held in any case."""
    assert decided(BY_KEY) == Sorting("cheaper for events of about 40 bytes", SORT_MEMORY, packed=True)
    assert decided(BY_KEY, memory=5).memory == 5
    assert decided("PATTERN SEQ(A, B+)", memory=5).memory == UNLIMITED
    assert decided("PATTERN SEQ(A, B+) WITHIN 10 SLIDE 5", memory=5).memory == 5


def test_spark_sorts_wide_events() -> None:
    notes = tuple(f"note{n}" for n in range(30))
    assert 24 * len(notes) > WIDE_EVENT
    found = decided(BY_KEY, columns=notes)
    assert not found.by_kernel
    assert found.why.startswith("cheaper for events of about 7")
    assert decided(BY_KEY, columns=notes[:4]).by_kernel
    assert decided(BY_KEY, columns=notes, by=KERNEL).by_kernel


def test_what_only_spark_compares_is_sorted_by_spark() -> None:
    """Even where the kernel was asked for."""
    for asked in ("auto", KERNEL):
        found = decided(BY_KEY.replace("BY key", "BY parts"), by=asked)
        assert found == Sorting("the kernel cannot compare 'parts', of type array<int>, as Spark does")
        assert not decided(BY_KEY.replace("BY key", "BY folded"), by=asked).by_kernel
        assert not decided(BY_KEY, ties=("parts",), by=asked).by_kernel


def test_who_was_asked_for_sorts() -> None:
    assert decided(BY_KEY, by=SPARK) == Sorting("as asked for")
    assert decided(BY_KEY, by=KERNEL) == Sorting("as asked for", SORT_MEMORY, packed=True)


def test_events_of_one_query_go_in_runs_where_that_was_asked_for() -> None:
    """Nobody knows before how many events a key has, and runs of few events do not pay."""
    for asked in ("auto", KERNEL, SPARK):
        assert not decided(BY_KEY, by=asked).in_runs
    found = decided(BY_KEY, by=RUNS)
    assert found.runs == "as asked for"
    assert found.without_runs == decided(BY_KEY)


@pytest.mark.parametrize(
    ("text", "more", "why"),
    [
        (BY_KEY, {"columns": ("price",)}, "more of an event is sent than numbers"),
        (BY_KEY, {"ties": ("price",)}, "they are sorted by more than their time"),
        (
            BY_KEY.replace("B.price < NEXT(B).price", "B.note0 < NEXT(B).note0"),
            {},
            "the type of note0, string, is no number of a machine",
        ),
        (BY_KEY.replace("B.price < NEXT(B).price", "B.price < B.t"), {}, None),
    ],
)
def test_what_is_no_number_goes_in_no_runs(text: str, more: dict[str, Any], why: str | None) -> None:
    """What was asked for in vain is said."""
    found = decided(text, by=RUNS, **more)
    assert found.in_runs == (why is None)
    if why is not None:
        assert found.why.endswith(f"; no sorted runs: {why}")
        assert found.by_kernel


def test_terms_that_are_no_numbers_are_found_by_their_types(spark: Any) -> None:
    """Only Spark knows the type of a term; ``explain`` says what is done, and the answers are the same."""
    rows = [(f"k{n % 3}", n, "AB"[n % 5 > 0], float(n % 7), Decimal(n % 7)) for n in range(60)]
    df = spark.createDataFrame(rows, "key string, t int, type string, price double, cost decimal(9, 2)")
    for term, in_runs in (("B.price * 2", True), ("B.cost * 2", False)):
        text = f"RETURN SUM({term}) AS x PATTERN SEQ(A, B+) GROUP BY key"
        asked = cet.pattern(df, text, time="t", sort="runs")
        plan = asked.explain("physical").text
        assert ("merge the runs of each key" in plan) == in_runs, plan
        assert ("by the kernel: " in plan) != in_runs
        answer, expected = (
            sorted(map(tuple, cet.pattern(df, text, time="t", sort=sorter).aggregate().collect()))
            for sorter in ("runs", "spark")
        )
        assert answer == expected


def test_arguments_and_settings(spark: Any) -> None:
    """An argument is stronger than a setting of the session, and what is neither is an error at once."""
    rows = [(f"k{n % 3}", n, "AB"[n % 5 > 0], float(n % 7)) for n in range(60)]
    df = spark.createDataFrame(rows, "key string, t int, type string, price double")

    def sorter(**asked: Any) -> str:
        text = cet.pattern(df, BY_KEY, time="t", **asked).explain("physical").text
        return next(line.split(":")[0].strip() for line in text.split("\n") if line.strip().startswith("by "))

    def answer(**asked: Any) -> list[Any]:
        found = cet.pattern(df, BY_KEY, time="t", **asked).count_trends().collect()
        return sorted(map(tuple, found))

    assert sorter() == "by the kernel"
    assert sorter(sort="spark") == "by Spark"
    assert answer(sort="spark") == answer(sort="kernel", sort_memory=1) == answer()
    spark.conf.set("cetdsl.sort", "spark")
    try:
        assert sorter() == "by Spark"
        assert sorter(sort="kernel") == "by the kernel"
        spark.conf.set("cetdsl.sort", "java")
        with pytest.raises(
            InvalidNode,
            match=r"setting cetdsl.sort='java' is unknown(.|\n)*'auto', 'kernel', 'spark', 'runs' or 'input'",
        ):
            sorter()
    finally:
        spark.conf.unset("cetdsl.sort")
    spark.conf.set("cetdsl.sort.memory", "none")
    try:
        with pytest.raises(InvalidNode, match=r"setting cetdsl.sort.memory is wrong: 'none' is not an amount"):
            sorter()
        assert sorter(sort_memory="64k") == "by the kernel"
    finally:
        spark.conf.unset("cetdsl.sort.memory")
    with pytest.raises(InvalidNode, match="sort='java' is unknown"):
        sorter(sort="java")
    with pytest.raises(InvalidNode, match="must be positive"):
        sorter(sort_memory=0)


@pytest.mark.classic
def test_a_task_of_more_than_20_times_what_its_kernel_holds(spark: Any) -> None:
    """Its events, 650 kB where each takes 13 bytes, are sorted a part at a time, written to files, and merged."""
    rows = ["pmod(hash(id), 50) AS key", "pmod(hash(id, 1), 10000) AS t", "if(id % 3 = 0, 'A', 'B') AS type"]
    df = spark.range(50_000).selectExpr(*rows, "double(pmod(hash(id, 2), 1000)) AS price")
    text = f"{BY_KEY} WITHIN 400 SLIDE 400"
    with settings(spark, {SHARES: "1", "spark.sql.execution.arrow.maxRecordsPerBatch": "2000"}):
        answers = [
            sorted(map(tuple, cet.pattern(df, text, time="t", **asked).count_trends(number="string").collect()))
            for asked in ({"sort": "kernel", "sort_memory": "16k"}, {"sort": "kernel"}, {"sort": "spark"})
        ]
    assert answers[0] == answers[1] == answers[2] != []


def chosen(size: int | None, **asked: Any) -> tuple[str, dict[str, str]]:
    """The strategy that counts trends by key of about so many bytes of events, and why others declined."""
    binding = Binding("t", sort=AskedSort(**asked))
    resolved, _ = rewrite(analyse(parse("PATTERN SEQ(A, B+) GROUP BY key"), SCHEMA, binding))
    decision = plan_aggregate(resolved, (("n", Aggregate("count")),), "decimal", bytes_read=lambda: size)
    return decision.strategy, dict(decision.declined)


def test_many_bytes_are_left_to_kernels() -> None:
    assert chosen(None)[0] == chosen(MANY_BYTES - 1)[0] == "fold"
    strategy, declined = chosen(MANY_BYTES)
    assert strategy == "kernel"
    assert declined["fold"].startswith("Spark would sort row by row what it estimates to be 1 MiB")
    assert chosen(MANY_BYTES, by=SPARK)[0] == "fold"


@pytest.mark.parametrize("sorter", [KERNEL, RUNS])
def test_few_bytes_are_left_to_the_sorter_that_was_asked_for(sorter: str) -> None:
    strategy, declined = chosen(None, by=sorter)
    assert strategy == "kernel"
    assert f"sort={sorter!r} is asked for" in declined["fold"]


def test_spark_tells_about_how_many_bytes_it_reads(spark: Any, tmp_path: Any) -> None:
    few = spark.range(3).selectExpr("'a' AS key", "id AS `the t`")
    assert 0 < bytes_of(few, ["the t"]) < bytes_of(few, few.columns) < 1000
    few.write.parquet(str(tmp_path / "events"))
    assert 100 < bytes_of(spark.read.parquet(str(tmp_path / "events")), few.columns) < 10_000
    assert bytes_of(spark.readStream.schema(few.schema).parquet(str(tmp_path / "events")), few.columns) is None
    # Names that Spark takes for one are told apart by position when the query runs, and nobody is bothered before.
    alike = few.toDF("a", "A")
    assert bytes_of(alike, ["a"]) is None
    assert cet.pattern(alike, "PATTERN x GROUP BY a", time="A", type=None).count_trends().count() == 1
    many = spark.range(10**9).selectExpr("id AS a")
    assert 7 * 10**9 < bytes_of(many, ["a"]) < 9 * 10**9
    assert bytes_of(many.crossJoin(many.toDF("b")).crossJoin(many.toDF("c")), ["a"]) is None


def test_a_session_that_sets_nothing_packs_shares_for_all_tasks_of_its_shuffles(spark: Any) -> None:
    """Not one share, so that one task would get all events."""
    events = spark.range(1000).selectExpr("id AS k0", "id AS t")
    with settings(spark, {SHARES: "7"}):
        spark.conf.unset(SHARES)
        tasks = shuffle_tasks(spark)
        packed = packed_by_share(events, ["k0", "t"], ["k0"], shares_of_bytes(spark, None))
        assert tasks == 200
        assert packed.select("share").distinct().count() > 150


def test_few_bytes_are_divided_into_few_shares() -> None:
    """Of the tasks of a shuffle, evenly spaced ones get rows, as Spark gives neighbours to one task."""
    platform: Any = _Platform()
    platform.conf[SHARES] = "200"
    sizes = 0, 96 << 20, 1 << 40
    tasks_of = {size: [task_of(share, 200) for share in shares_of_bytes(platform, size)] for size in sizes}
    assert tasks_of[0] == [share * 200 // 32 for share in range(32)]
    assert tasks_of[96 << 20] == [share * 200 // 64 for share in range(64)]
    assert tasks_of[1 << 40] == list(range(200))
    assert len(shares_of_bytes(platform, None)) == 200
    platform.conf[SHARES] = "3"
    assert len(shares_of_bytes(platform, 0)) == 3


def test_rows_of_few_bytes_go_to_few_tasks(spark: Any) -> None:
    """All rows of a key go to one of them; equal texts of a collation, which differ in bytes, too."""
    keys = ["CAST(id % 50 AS double) AS k0", "collate(chr(65 + id % 26 + id % 2 * 32), 'UTF8_LCASE') AS k1"]
    rows = spark.range(1000).selectExpr(*keys)
    with settings(spark, {"spark.sql.adaptive.enabled": "false", SHARES: "100"}):
        for by, key, most in (("k0", "k0", len(shares_of_bytes(spark, 1))), ("k1", "lower(k1)", 26)):
            placed = (
                exchange(rows, [by], size=lambda: 1)
                .selectExpr(f"{key} AS key", "spark_partition_id() AS task")
                .distinct()
            )
            tasks = {row["key"]: row["task"] for row in placed.collect()}
            assert placed.count() == len(tasks)
            assert 1 < len(set(tasks.values())) <= most


class _Platform:
    """A session of a platform that decides by itself how many tasks a shuffle has; four of them can run at once."""

    def __init__(self) -> None:
        self.conf = {SHARES: "auto"}
        self.sparkContext = SimpleNamespace(defaultParallelism=4)


def test_a_platform_may_decide_how_many_tasks_a_shuffle_has() -> None:
    """State, which is read by later runs, is not left to that."""
    platform: Any = _Platform()
    assert shuffle_tasks(platform) == shares_of_keys(platform, []) * 4 == 4
    with pytest.raises(StreamingNotSupported, match=rf"'auto'(.|\n)*{SHARES}\", 4\)"):
        shares_of_keys(platform, ["k0"])
    platform.conf[SHARES] = "7"
    assert shuffle_tasks(platform) == shares_of_keys(platform, ["k0"]) == 7


def test_events_that_the_kernel_sorts_are_packed() -> None:
    assert decided(BY_KEY).in_parcels
    assert decided("PATTERN SEQ(A, B+) WHERE A.price < NEXT(B).price").in_parcels
    assert not decided(BY_KEY, by=SPARK).in_parcels
    assert not decided(BY_KEY, by=RUNS).in_parcels


def test_explain_says_where_a_sort_is_asked_for_in_vain(spark: Any) -> None:
    df = spark.createDataFrame([([1], 1, "A"), ([1], 2, "B")], "k array<int>, t int, type string")
    text = "PATTERN SEQ(A, B) GROUP BY k"
    for by in ("kernel", "runs"):
        told = str(df.pattern(text, time="t", sort=by).explain())
        assert re.search(rf"not used +sort='{by}': the kernel cannot compare 'k', of type array<int>", told)
    # Products of what is read need no order of keys.
    assert "strategy   panes" in str(df.pattern(text, time="t", sort="input").explain())
    for stage in ("trends", "complete"):
        told = str(df.pattern("PATTERN SEQ(A, B+)", time="t", sort="input").explain(stage))
        assert re.search("not used +sort='input': only aggregates are products of what each task reads", told)


def test_words_of_sql_are_no_names_of_ours(spark: Any) -> None:
    df = spark.createDataFrame([("u", 1, "A"), ("u", 2, "B")], "k string, t int, type string")
    with settings(spark, {"spark.sql.ansi.enforceReservedKeywords": "true"}):
        answer = df.pattern("PATTERN SEQ(A, B) GROUP BY k", time="t", sort="input").count_trends().collect()
    assert [tuple(row) for row in answer] == [("u", 1)]
