"""Answers before they are final: at each trigger they are those of a batch over the events that have been read so far.

Each query is a stream of its own, as Spark keeps state in one operator where it writes updates.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import generators
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType
from test_engines import by_case
from test_streaming import (
    BEGIN,
    DELAY,
    FEATURES,
    SECOND,
    Live,
    Row,
    _few_tasks,  # noqa: F401 - a fixture of all tests here
    _written,
    aggregates_of,
    at,
    common,
    compare,
    complete_counts_of,
    expected_rows,
    in_seconds,
    marked,  # noqa: F401 - a fixture
    stream_of_streams,
    trends_of,
    unmarked,  # noqa: F401 - a fixture
)

import cetdsl as cet
from cetdsl import errors
from cetdsl.pattern.nodes import And, negations
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans
#: Queries whose sides nothing relates, so that a batch multiplies what it has counted of each.
PAIRS = (
    "RETURN COUNT(*), SUM(B.x), MIN(A.x), MAX(LENGTH) PATTERN A AND B WHERE A.x > 0",
    "RETURN COUNT(*), COUNT(C) PATTERN A AND C",
)
#: What a query answers, and by which rows of the reference it is judged.
Asked = tuple[Callable[..., Any], Query, tuple[str, ...], DataFrame]


def run_each(live: Live, answers: Sequence[DataFrame]) -> list[list[list[Any]]]:
    """Runs answers in update mode over all files; gives the rows of each answer, by micro-batch."""
    running = []
    for number, answer in enumerate(answers):
        out = str(live.folder / "early" / str(number))

        def write(rows: DataFrame, batch: int, out: str = out) -> None:
            rows.withColumn("batch", F.lit(batch)).write.mode("overwrite").parquet(f"{out}/{batch}")

        writer = answer.writeStream.outputMode("update").option("checkpointLocation", f"{out} checkpoint")
        running.append(writer.foreachBatch(write).trigger(availableNow=True).start())
    for query in running:
        query.awaitTermination()
    found = []
    for number, answer in enumerate(answers):
        schema = StructType([*answer.schema, StructField("batch", IntegerType())])
        rows = live.spark.read.schema(schema).parquet(f"{live.folder}/early/{number}/*").collect()
        found.append([[row for row in rows if row.batch == batch] for batch in range(len(live.batches))])
    return found


def read_by(live: Live, query: Query, batch: int) -> list[Row]:
    """The events up to a micro-batch."""
    return [row for rows in live.batches[: batch + 1] for row in rows if row["case"] >= 0]


def asked_of(live: Live, number: int, asked: Any, query: Query, ties: tuple[str, ...], emit: str) -> Asked:
    """One query, asked for its answers before they are final."""
    bound = cet.pattern(live.events, query, time="t", tie_break=ties)
    if asked is aggregates_of:
        told = [F.col(item.output_name).cast("string") for item in query.returning]
        answer = common(number, bound.aggregate(number="string", emit=emit), query, told)
    elif asked is trends_of:
        answer = common(number, bound.trends(columns=["id"], emit=emit), query, [_written(F.col("trend"))])
    else:
        counts = bound.count_complete_trends(emit=emit)
        answer = common(number, counts, query, [F.col("count").cast("string")])
    return asked, query, ties, answer


def asked_early(live: Live, first: int, kinds: Sequence[Any], emit: str) -> list[Asked]:
    """For each kind the first generated query that can be asked for its answers before they are final."""
    found: list[Asked] = []
    for seed in range(first, first + 1000):
        if len(found) == len(kinds):
            return found
        asked, wanted = kinds[len(found)]
        case = generators.random_case(seed, FEATURES)
        query = in_seconds(by_case(case.query))
        if query.window is None or isinstance(query.pattern, And) or not wanted(query):
            continue
        with suppress(errors.StreamingNotSupported):
            found.append(asked_of(live, len(found), asked, query, case.tie_break, emit))
    raise AssertionError(f"only {len(found)} queries are found")


def is_negated(query: Query) -> bool:
    return bool(negations(query.pattern))


def is_partitioned(query: Query) -> bool:
    return bool(set(query.partition_by) - set(query.group_by))


@pytest.mark.classic
def test_each_trigger_gives_the_answer_so_far(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, stream_of_streams(2000, 40, DELAY, random.Random(20)))
    kinds = [
        (aggregates_of, lambda query: is_negated(query) and is_partitioned(query)),
        (complete_counts_of, lambda query: is_negated(query) and not is_partitioned(query)),
        (aggregates_of, lambda query: is_negated(query) and query.window.slide is None),
    ]
    found = asked_early(live, 2000, kinds, "update")
    for text in PAIRS:
        pair = by_case(cet.parse(f"{text} WITHIN 6 seconds SLIDE 4 seconds")._query())
        found.append(asked_of(live, len(found), aggregates_of, pair, (), "update"))
    live.arrive()
    given = run_each(live, [answer for *_, answer in found])
    withdrawn = 0
    for (asked, query, ties, _), batches in zip(found, given, strict=True):
        last: dict[Any, Any] = {}
        for number, rows in enumerate(batches[:-1]):
            places = Counter((tuple(row.groups), row.start) for row in rows)
            assert not places or max(places.values()) == 1
            last |= {(tuple(row.groups), row.start): row for row in rows}
            expected = expected_rows(asked, query, ties, read_by(live, query, number))
            wanted = {(tuple(None if g is None else str(g) for g in group), start) for group, start, _ in expected}
            nothing = [row for place, row in last.items() if place not in wanted]
            assert {value for row in nothing for value in row.told} <= {"0", None}
            assert is_negated(query) or not nothing
            withdrawn += len(nothing)
            told = [row for place, row in last.items() if place in wanted]
            compare(told, expected, f"{asked.__name__}, ties={ties}, trigger {number}\n{unparse(query)}")
    assert withdrawn


def test_trends_are_given_at_once_and_once(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, stream_of_streams(2100, 40, DELAY, random.Random(21)))
    kinds = [
        (trends_of, lambda query: not is_negated(query) and query.window.slide is not None),
        (trends_of, lambda query: not is_negated(query) and query.window.slide is None),
    ]
    found = asked_early(live, 2100, kinds, "eager")
    live.arrive()
    for (asked, query, ties, _), batches in zip(found, run_each(live, [one[-1] for one in found]), strict=True):
        before: Counter[Any] = Counter()
        for number, rows in enumerate(batches[:-1]):
            so_far = expected_rows(asked, query, ties, read_by(live, query, number))
            now = Counter(so_far) - before
            compare(rows, list(now.elements()), f"ties={ties}, trigger {number}\n{unparse(query)}")
            before = Counter(so_far)


def test_an_answer_is_taken_back(spark: Any, tmp_path: Path) -> None:
    live = Live(
        spark,
        tmp_path,
        [
            [at(1, 0, "A", k="u"), at(2, 0, "A", k="v"), at(1, 1, "B", k="u")],
            [at(4, 0, "C", k="v")],
            [at(3, 0, "C", k="u")],
        ],
    )
    text = "PATTERN SEQ(A, NOT C) WHERE [k] GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"
    bound = live.events.pattern(text, time="t")
    live.arrive()
    (batches,) = run_each(live, [bound.count_trends(emit="update")])
    assert [[(row.case, int(row["count"])) for row in rows] for rows in batches] == [
        [(0, 2)],
        [(0, 1)],
        [(0, 0)],
        [],
    ]


@pytest.mark.classic
def test_trends_are_given_at_once_where_the_clock_was_put_back(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, [[at(1, 0, "A")], [at(2, 0, "B")]])
    # The only timestamp is the time, also where cetdsl notes when each event came.
    asked = live.events.pattern("PATTERN SEQ(A, B) GROUP BY case WITHIN 10 seconds SLIDE 10 seconds")
    trends = asked.trends(columns=["id"], emit="eager")
    live.arrive()
    (before,) = run_each(live, [trends])
    # The second micro-batch is to be done once more, and was planned a day before the first.
    checkpoint = tmp_path / "early" / "0 checkpoint"
    for number in range(1, len(live.batches) + 1):
        for path in (checkpoint / "commits", checkpoint / "offsets"):
            (path / f".{number}.crc").unlink(missing_ok=True)
            if number > 1 or path.name == "commits":
                (path / str(number)).unlink(missing_ok=True)
    planned = checkpoint / "offsets" / "1"
    told = [json.loads(line) if line.startswith("{") else line for line in planned.read_text().splitlines()]
    told[1]["batchTimestampMs"] -= 24 * 60 * 60 * 1000
    planned.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in told))
    (after,) = run_each(live, [trends])
    assert [len(rows) for rows in after] == [len(rows) for rows in before] == [0, 1, 0]


# Refusals and words ---------------------------------------------------------------------------------------------------

WITHIN = "WITHIN 10 seconds SLIDE 5 seconds"


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_spark_starts_final_answers_in_no_mode_but_append(spark: Any, tmp_path: Path, mode: str) -> None:
    live = Live(spark, tmp_path, [])
    live.arrive()
    counts = live.events.pattern(f"PATTERN SEQ(A, NOT C) {WITHIN}", time="t").count_trends()
    listed = live.events.pattern(f"PATTERN A+ WHERE A.x * NEXT(A).s < 5 {WITHIN}", time="t").count_trends()
    trends = live.events.pattern(f"PATTERN SEQ(A, B) {WITHIN}", time="t").trends()
    panes = live.events.pattern("PATTERN SEQ(A, B) WITHIN 10 seconds SLIDE 1 second", time="t").count_trends()
    for answer in (counts, listed, trends, panes):
        writer = answer.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        with pytest.raises(AnalysisException, match=r"correctness|[Mm]ultiple stateful"):
            writer.outputMode(mode).start()


def test_trends_that_are_given_at_once_are_not_appended(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, [[at(1, 0, "A")]])
    live.arrive()
    with (
        pytest.raises(
            errors.StreamingNotSupported, match=r"are not written in update mode(.|\n)*hint: .*outputMode\('update'\)"
        ),
        errors.recovering(),
    ):
        live.run(live.events.pattern(f"PATTERN A {WITHIN}", time="t").trends(emit="eager"))


def test_what_is_not_given_before_it_is_final(marked: DataFrame) -> None:  # noqa: F811 - a fixture
    negated = marked.pattern(f"PATTERN SEQ(A, NOT C, B) {WITHIN}", time="t")
    with pytest.raises(errors.StreamingNotSupported, match=r"under NOT may still come(.|\n)*hint: leave emit= away"):
        negated.trends(emit="eager")
    with pytest.raises(errors.InvalidNode, match=r"trends cannot be emitted by emit='update'(.|\n)*'eager'"):
        negated.trends(emit="update")
    with pytest.raises(errors.InvalidNode, match=r"aggregates cannot be emitted by emit='eager'(.|\n)*'update'"):
        negated.count_trends(emit="eager")
    many = marked.patterns({"q": f"PATTERN A+ {WITHIN}"}, time="t")
    for ask, emit in ((many.aggregate, "update"), (many.trends, "eager")):
        with pytest.raises(errors.StreamingNotSupported, match=rf"a workload gives(.|\n)*pattern\(query\).*'{emit}'"):
            ask(emit=emit)
        with pytest.raises(errors.InvalidNode, match="cannot be emitted by emit='now'"):
            ask(emit="now")
    pairs = marked.pattern(f"PATTERN A+ AND B+ {WITHIN}", time="t")
    with pytest.raises(errors.StreamingNotSupported, match=r"state in one operator(.|\n)*hint: leave emit= away"):
        pairs.count_trends(emit="update")
    compared = marked.pattern(f"PATTERN A+ WHERE [k] AND A.x * NEXT(A).s < 5 {WITHIN}", time="t")
    with pytest.raises(errors.StreamingNotSupported, match="inseparable predicates within a key"):
        compared.count_trends(emit="update")


def test_explain_says_that_an_update_waits_for_nothing(marked: DataFrame) -> None:  # noqa: F811 - a fixture
    bound = marked.pattern("PATTERN SEQ(A, B) WHERE [k] GROUP BY case WITHIN 10 seconds SLIDE 1 second", time="t")
    text = str(bound.explain("physical", emit="update"))
    assert "waits     for nothing; it is final when the watermark, 90 seconds behind" in text
    assert "by case, window" in text
    assert "panes: before an answer is final Spark keeps state in one operator, and this plan needs 2" in text


def test_explain_says_for_what_trends_wait_that_are_given_at_once(marked: DataFrame) -> None:  # noqa: F811 - a fixture
    bound = marked.pattern(f"PATTERN SEQ(A, B) GROUP BY case {WITHIN}", time="t")
    trends = str(bound.explain("trends", emit="eager"))
    assert "waits     for no event but the last one of a trend" in trends
    assert "packed" not in trends
    assert str(bound.explain("physical", emit="eager")) == trends
    assert trends.replace("== trends ==", "== physical ==") in str(bound.explain(emit="eager"))
    with pytest.raises(errors.InvalidNode, match="trends cannot be emitted by emit='update'"):
        bound.explain("trends", emit="update")


def test_a_batch_has_final_answers_alone(spark: Any) -> None:
    rows = [(BEGIN + 1 * SECOND, "A"), (BEGIN + 2 * SECOND, "C")]
    events = spark.createDataFrame(rows, "t timestamp, type string")
    bound = events.pattern(f"PATTERN SEQ(A, NOT C) {WITHIN}", time="t")
    assert bound.count_trends(emit="update").count() == 0
