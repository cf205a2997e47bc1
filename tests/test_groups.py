"""Groups by what a query computes: the same answers as over a DataFrame that has the columns already."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import attrs
import generators
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from test_engines import by_case

import cetdsl as cet
from cetdsl.errors import (
    AnalysisErrors,
    InvalidNode,
    NotExpressible,
    ParseError,
    QueryTypeError,
    ResolutionError,
    UnknownColumn,
    UnknownFunction,
    UnsupportedQuery,
)
from cetdsl.pattern.query import Computed, Query
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans

#: What is computed, as cetdsl reads it and as Spark does.
GROUPS = {
    "x % 2": "x % 2",
    "coalesce(g, x)": "coalesce(g, x)",
    "x > 1 AND y < 2": "x > 1 AND y < 2",
    "upper(name)": "upper(name)",
    "STRING(x)": "CAST(x AS STRING)",
    "type IN ('A', 'C')": "type IN ('A', 'C')",
    "t": "t",
    "Date(t * 40000)": "to_date(timestamp_seconds(t * 40000))",
}
FEATURES = generators.Features.none(kleene=True, alternation=True, sliding=True, group=True)


@pytest.fixture(scope="module")
def stream(spark: Any) -> DataFrame:
    rows = generators.stacked(9_100, 30)
    return generators.frame(spark, rows).withColumn("ts", F.timestamp_seconds("t")).cache()


def grouped(query: Query, groups: list[str]) -> Query:
    """The query grouped by what texts say, too."""
    term = cet.frontend.patterns.QueryTerm(query)
    return term.group_by(**{f"own {number}": text for number, text in enumerate(groups)}).node


def as_one(answers: list[DataFrame]) -> DataFrame:
    """Answers of any columns as one, with the number of each."""
    texts = [
        answer.select(F.lit(number).alias("query"), F.to_json(F.struct("*")).alias("row"))
        for number, answer in enumerate(answers)
    ]
    return reduce(DataFrame.unionAll, texts)


def test_a_computed_group_is_a_column(stream: DataFrame) -> None:
    choose = random.Random(5)
    expected, found = [], []
    for seed in range(4):
        case = generators.random_case(9_204 + seed, FEATURES)
        texts = choose.sample([text for text in GROUPS if "Date" not in text], choose.randint(1, 2))
        columns = {f"own {number}": F.expr(GROUPS[text]) for number, text in enumerate(texts)}
        query = by_case(case.query)
        plain = attrs.evolve(query, group_by=(*query.group_by, *columns))
        read = {"time": "t", "tie_break": case.tie_break}
        by_hand = stream.withColumns(columns).pattern(plain, **read)
        bound = stream.pattern(grouped(query, texts), **read)
        if seed % 2:
            expected.append(by_hand.aggregate(number="string"))
            found.append(bound.aggregate(number="string"))
        else:
            expected.append(by_hand.trends(columns=stream.columns))
            found.append(bound.trends())
    judged = Counter(map(tuple, as_one(expected).collect()))
    assert Counter(map(tuple, as_one(found).collect())) == judged
    assert len({number for number, _ in judged}) == 4


def test_casts_are_functions_of_their_types(stream: DataFrame) -> None:
    """SQL writes casts as functions; of a day of a time there is no other short form."""
    text = "RETURN COUNT(*) AS n PATTERN A WHERE BIGINT(A.x) >= 1 GROUP BY DATE(ts), Date(ts) AS day, string(x) AS x2"
    answer = stream.pattern(text, time="t").aggregate()
    assert [name for name, _ in answer.dtypes] == ["date_ts", "day", "x2", "n"]
    by_hand = stream.where("type = 'A' AND CAST(x AS BIGINT) >= 1").select(
        F.to_date("ts").alias("a"), F.to_date("ts").alias("b"), F.col("x").cast("string").alias("c")
    )
    expected = {(a, b, c): n for a, b, c, n in by_hand.groupBy("a", "b", "c").count().collect()}
    assert {(a, b, c): n for a, b, c, n in answer.collect()} == expected
    assert expected


def test_queries_of_a_workload_compute_a_group_once(stream: DataFrame) -> None:
    queries = {
        "runs": "RETURN COUNT(*) AS n PATTERN A+ GROUP BY case, x % 2 = 0 AS even",
        "pairs": "RETURN COUNT(*) AS n PATTERN SEQ(A, B) GROUP BY case, x % 2 = 0 AS even, upper(name)",
    }
    together = stream.patterns(queries, time="t")
    assert {name: str(cet.frontend.patterns.QueryTerm(query)) for name, query in together.queries.items()} == {
        name: str(cet.parse(text)) for name, text in queries.items()
    }
    alone = [stream.pattern(text, time="t").aggregate() for text in queries.values()]
    answers = together.results()
    assert Counter(as_one(list(answers.values())).collect()) == Counter(as_one(alone).collect())
    together.unpersist()
    listed = stream.patterns(queries, time="t").trends(limit=1)
    [event] = {field.dataType.elementType["event"].dataType for field in listed.schema if field.name == "trend"}
    assert event.names == stream.columns


def test_events_are_shown_without_computed_columns(stream: DataFrame) -> None:
    bound = stream.pattern("PATTERN SEQ(A, B) GROUP BY date(ts) AS day", time="t")
    nested = bound.trends(limit=0)
    assert nested.columns == ["day", "trend"]
    assert nested.schema["trend"].dataType.elementType["event"].dataType.names == stream.columns
    assert bound.trends(limit=0, columns=["day"], layout="wide").columns == ["day", "A_day", "B_day"]
    assert bound.graph().vertices.schema["event"].dataType.names == stream.columns


def test_a_computed_time_is_not_the_time_of_events(spark: Any) -> None:
    rows = [(datetime.datetime(2024, 1, 1, 10 + n // 3), kind) for n, kind in enumerate("ABABAB")]
    df = spark.createDataFrame(rows, "ts timestamp, type string")
    bound = df.pattern("PATTERN SEQ(A, B) GROUP BY date_trunc('day', ts) AS day")
    assert [(row.day.hour, int(row["count"])) for row in bound.count_trends().collect()] == [(0, 4)]


def test_all_forms_are_one_query(spark: Any) -> None:
    by_text = cet.parse("PATTERN SEQ(A, B) GROUP BY user, date(ts) AS day")
    fluent = cet.seq("A", "B").group_by("user", day=cet.fn.date(cet.col("ts")))
    assert fluent == by_text == cet.seq("A", "B").group_by("user").group_by(day="DATE(ts)")
    assert cet.parse(str(by_text)) == by_text
    opaque = cet.event("A").group_by(day=F.to_date("ts"))
    with pytest.raises(NotExpressible):
        str(opaque)
    assert "AS day" in repr(opaque)
    df = spark.createDataFrame([(datetime.datetime(2024, 1, 1), "A")], "ts timestamp, type string")
    [row] = df.pattern(opaque).count_trends().collect()
    assert row.day == datetime.date(2024, 1, 1)


def test_stages_say_what_is_computed(stream: DataFrame) -> None:
    bound = stream.pattern("PATTERN SEQ(A, B) GROUP BY date(ts) AS day", time="t")
    assert "GROUP BY date(ts) AS day" in str(bound.explain("parsed"))
    resolved = str(bound.explain("resolved"))
    assert "GROUP BY day" in resolved
    assert "day date" in resolved
    assert "date(ts) AS day" in repr(bound)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + 1", "a group that is computed needs a name"),
        ("A.x", "GROUP BY takes columns without an event"),
        ("date(A.ts) AS day", "speaks of the event 'A'"),
        ("count(x) AS n", "an aggregate is about several"),
        ("LENGTH AS n", "an aggregate is about several"),
        ("1 AS one", "a group is computed of no column"),
        ("x, date(ts) AS x", "2 groups have the name"),
        ("date(ts), date(ts)", "2 groups have the name"),
        ("date(ts) day", "named by AS day"),
        ("x,", "a column to group by is missing"),
    ],
)
def test_texts_that_are_no_groups(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("(", r"\(")) as caught:
        cet.parse(f"PATTERN A GROUP BY {text}")
    assert caught.value.span is not None
    with pytest.raises(ParseError, match="PARTITION BY takes columns alone"):
        cet.parse("PATTERN A PARTITION BY date(ts)")


def test_values_that_are_no_groups(stream: DataFrame) -> None:
    event = cet.event("A")
    for positional in (cet.fn.date(cet.col("ts")), F.to_date("ts")):
        with pytest.raises(InvalidNode, match="has no name"):
            event.group_by(positional)  # type: ignore[arg-type]
    with pytest.raises(InvalidNode, match="nothing to group by"):
        event.group_by(day=len)
    with pytest.raises(InvalidNode, match="several"):
        event.group_by(n=cet.count())
    with pytest.raises(InvalidNode, match="no groups have the name"):
        Query(event.node, computed=[Computed("x", cet.col("x").node)])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("date(ts) AS X", ResolutionError, "has the name of a column of the DataFrame, 'x'"),
        ("date(when_) AS day", UnknownColumn, "'when_'"),
        ("daet(ts) AS day", UnknownFunction, "'daet'"),
        ("date(ts) AS day, x + rand() AS r", UnsupportedQuery, "gives no fixed value"),
        ("name + 1 AS n", QueryTypeError, "name is of type string"),
        ("date_add(name, ts) AS n", QueryTypeError, "compute the group n"),
        ("map(x, x) AS m", UnknownFunction, "'map'"),
        ("map_from_arrays(array(x), array(x)) AS m", QueryTypeError, "map<"),
    ],
)
def test_groups_that_do_not_fit_the_events(stream: DataFrame, text: str, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message.replace("(", r"\(")):
        stream.pattern(f"PATTERN A GROUP BY {text}", time="t")


def test_every_wrong_group_is_named(stream: DataFrame) -> None:
    with pytest.raises(AnalysisErrors) as caught:
        stream.pattern("PATTERN A GROUP BY date(no) AS day, weak(ts) AS week", time="t")
    assert len(caught.value.errors) == 2
    with pytest.raises(UnsupportedQuery, match="the group r gives no fixed value"):
        stream.pattern(cet.event("A").group_by(r=F.rand()), time="t")
    queries = {"a": "PATTERN A GROUP BY date(ts) AS d", "b": "PATTERN A GROUP BY hour(ts) AS D"}
    with pytest.raises(ResolutionError, match="query 'b': the query 'a' computes another group of the name 'D'"):
        stream.patterns(queries, time="t")


@pytest.mark.classic
def test_streams_have_computed_groups(spark: Any, tmp_path: Path) -> None:
    begin = datetime.datetime(2020, 1, 1)
    rows = [(begin + datetime.timedelta(hours=n), "AB"[n % 2]) for n in range(0, 72, 3)]
    rows.append((begin + datetime.timedelta(days=30), "Z"))
    spark.createDataFrame(rows, "ts timestamp, type string").write.parquet(str(tmp_path / "events"))
    reader = spark.readStream.schema("ts timestamp, type string")
    text = "RETURN COUNT(*) AS n PATTERN SEQ(A, B) GROUP BY date(ts) AS day WITHIN 12 hours SLIDE 12 hours"
    live = reader.parquet(str(tmp_path / "events")).withWatermark("ts", "1 second").pattern(text).aggregate()
    writer = live.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.outputMode("append").trigger(availableNow=True).start(str(tmp_path / "answer")).awaitTermination()
    found = spark.read.schema(live.schema).parquet(str(tmp_path / "answer")).collect()
    expected = spark.read.parquet(str(tmp_path / "events")).pattern(text).aggregate().collect()
    assert Counter(found) == Counter(expected)
    assert len({row.day for row in found}) == 3


def test_groups_of_any_kind_have_texts_that_parse_back() -> None:
    for text in GROUPS:
        query = cet.event("A").group_by("k", **{"of mine": text}).node
        assert cet.parse(unparse(query)).node == query
    assert cet.parse("PATTERN A GROUP BY x, date( ts )") == cet.parse("PATTERN A GROUPBY x, DATE(ts)")


def test_keys_that_are_structs_may_be_null(spark: Any) -> None:
    """Spark says of the fields of some structs that they are never NULL; those of a struct that is NULL are."""
    named = "named_struct('a', 1, 'b', array(2))"
    df = spark.range(1, 4).selectExpr("id AS t", "'B' AS type", f"IF(id = 2, NULL, {named}) AS k", f"{named} AS full")
    repeated = +cet.event("B")
    for query in (repeated.partition_by("k"), repeated.group_by("k")):
        assert sorted(row["count"] for row in df.pattern(query, time="t").count_trends().collect()) in ([4], [1, 3])
        assert df.pattern(query, time="t").complete_trends().count() == 2
    twice = df.withColumn("t", F.lit(1))
    assert twice.pattern(repeated, time="t", tie_break="k").count_trends().first()["count"] == 5
    texts = {by: f"RETURN COUNT(*) AS n PATTERN B+ {by} BY full" for by in ("GROUP", "PARTITION")}
    assert {row.query: row.n for row in df.patterns(texts, time="t").aggregate().collect()} == dict.fromkeys(texts, 7)
