"""Columns of any name and type, in every place where a query can mention them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from modes import more_on_classic, settings
from pyspark.sql import functions as F
from pyspark.sql import types as T

import cetdsl as cet
from cetdsl.errors import CetdslError, ResolutionError, UnsupportedQuery

pytestmark = pytest.mark.simple_plans

A, B = cet.events("A", "B")
EACH = cet.event("e")  # every row


def union(answers: list[Any]) -> Any:
    """Several answers as one job."""
    return reduce(lambda a, b: a.unionByName(b), answers)


# ---------------------------------------------------------------------------------------------------------- names

PLAIN = ("t", "type", "g", "p", "x", "s")
ROWS = [
    (1, "A", 1, "u", 1, 0),
    (1, "A", 1, "u", 2, 1),
    (2, "B", 1, "u", 3, 0),
    (3, "B", 1, "u", 2, 0),
    (3, "B", 1, "u", 5, 1),
    (4, "B", 1, "v", 5, 0),
    (2, "A", 2, "u", 7, 0),
    (5, "B", 2, "u", 9, 0),
]
NAMES = [
    ("time", "a.b", "window", "count", "_1", "k0"),
    ("a.b", "time", "k0", "w", "r0", "t"),
    ("my time", "ty`pe", 'gr"oup', "pa'rt", "prix €", "ключ"),
    ("c0", "m", "variable", "event", "trend", "e.`f`.g"),
    ("select", "from", "where", "next", "within", "and"),
    (" x", "x ", "{x}", "[x]", "(x)", "x,y;z"),
]


def questions(names: tuple[str, ...]) -> tuple[Any, Any]:
    """A query for the kernel and one for the fold."""
    _, _, group, partition, value, _ = names
    kernel = cet.seq(A, +B).where(B[value] < cet.next_(B)[value], A[value] < B[value])
    return kernel.partition_by(partition).group_by(group), cet.seq(A, +B).group_by(group)


def ask(df: Any, names: tuple[str, ...], as_text: bool) -> list[Any]:
    """Counts and trends under the plain names."""
    time, type_, _, _, value, tie = names
    found = []
    for number, query in enumerate(questions(names)):
        asked = df.pattern(str(query) if as_text else query, time=time, tie_break=tie, type=type_)
        counted = (
            asked.aggregate(n=cet.count(), s=cet.count(B))
            if number
            else asked.aggregate(n=cet.count(), s=cet.sum(B[value]))
        )
        found.append(sorted(tuple(map(int, row)) for row in counted.collect()))
    listed = asked.trends().collect() if as_text else asked.trends(columns=[value, time]).collect()
    found.append(
        sorted((row[0], tuple((b.variable, b.event[value], b.event[time]) for b in row.trend)) for row in listed)
    )
    return found


@pytest.fixture(scope="module")
def plain(spark: Any) -> tuple[Any, list[Any]]:
    df = spark.createDataFrame(ROWS, "t int, type string, g int, p string, x int, s int")
    expected = ask(df, PLAIN, False)
    assert expected[0] == [(1, 8, 41), (2, 1, 9)]
    return df, expected


@pytest.mark.parametrize("names", more_on_classic(NAMES[0], *((names,) for names in NAMES[1:])))
@pytest.mark.parametrize("as_text", more_on_classic(False, True))
def test_any_names(plain: tuple[Any, list[Any]], names: tuple[str, ...], as_text: bool) -> None:
    df, expected = plain
    assert ask(df.toDF(*names), names, as_text) == expected


def test_answers_keep_the_names_of_the_dataframe(plain: tuple[Any, list[Any]]) -> None:
    df = plain[0].toDF("Time", "Type", "a.B", "P", "X", "S")
    asked = df.pattern(
        "PATTERN SEQ(A, B+) WHERE [p] AND b.x < NEXT(b).X GROUP BY `A.b`".replace("b.", "B.").replace("(b)", "(B)"),
        time="TIME",
        tie_break=["s"],
        type="TYPE",
    )
    assert asked.count_trends("a b`c").columns == ["a.B", "a b`c"]
    assert asked.trends(columns=["x"]).columns == ["a.B", "P", "trend"]
    assert asked.trends(columns=["x"]).schema["trend"].dataType.elementType["event"].dataType.names == ["X"]
    assert asked.trends().schema["trend"].dataType.elementType["event"].dataType.names == df.columns


def test_text_with_backquotes(plain: tuple[Any, list[Any]]) -> None:
    df = plain[0].toDF("t", "type", "g", "a.b", "my price", "s")
    text = "PATTERN SEQ(A, B+) WHERE [`a.b`] AND B.`my price` < NEXT(B).`my price` GROUP BY g"
    rows = df.pattern(text, time="t", tie_break="s").count_trends().collect()
    plainly = plain[0].pattern("PATTERN SEQ(A, B+) WHERE [p] AND B.x < NEXT(B).x GROUP BY g", time="t", tie_break="s")
    assert sorted(map(tuple, rows)) == sorted(map(tuple, plainly.count_trends().collect()))


def test_duplicate_names_matter_only_when_named(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", 1, 2, 3), (2, "B", 1, 2, 4)], "t int, type string, a int, b int, c int")
    df = df.toDF("t", "type", "x", "x", "y")
    for query in ("PATTERN SEQ(A, B)", "PATTERN SEQ(A, B) WHERE A.y < B.y GROUP BY y"):
        asked = df.pattern(query.replace(" GROUP BY y", ""), time="t")
        assert asked.count_trends().first()["count"] == 1
        with pytest.raises(UnsupportedQuery, match="two columns of the name 'x'"):
            asked.trends()
        assert asked.trends(columns=["y"]).first().trend[1].event.y == 4
    for text in ("PATTERN A WHERE A.x > 1", "PATTERN A GROUP BY x", "PATTERN A WHERE [x]", "RETURN MAX(A.x) PATTERN A"):
        with pytest.raises(ResolutionError, match="'x' is ambiguous"):
            df.pattern(text, time="t")
    with pytest.raises(ResolutionError, match="'x' is ambiguous"):
        df.pattern("PATTERN A", time="t").trends(columns=["x"])


def test_what_two_columns_of_one_name_refuse_is_refused_by_explain_too(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", 1, 2)], "t int, type string, a int, b int").toDF("t", "type", "x", "X")
    asked = df.pattern("PATTERN A+", time="t")
    for ask in (
        asked.trends, asked.complete_trends, asked.graph, lambda: asked.sample_trends(1), lambda: asked.top_trends(1),
        asked.matching("strict").matches, lambda: asked.explain("trends"), lambda: asked.explain("complete"),
        lambda: asked.matching("strict").explain("matches"),
        lambda: df.patterns({"q": "PATTERN A+"}, time="t").explain(of="trends"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedQuery, match="two columns of the name 'X'"):
            ask()
    clock = df.toDF("T", "type", "x", "t").pattern("PATTERN A+", time="T")
    assert clock.trends(columns=["t"]).first().trend[0].event.t == 2
    with pytest.raises(UnsupportedQuery, match="two columns of the name 'T'"):
        clock.trends(columns=["t"], times=True)


def test_a_key_with_the_name_of_a_column_of_the_answer_is_refused_by_explain_too(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", 1)], "t int, type string, trend int")
    asked = df.pattern("PATTERN A GROUP BY trend", time="t")
    for ask in (
        asked.trends,
        asked.complete_trends,
        lambda: asked.explain("trends"),
        lambda: asked.explain("complete"),
    ):
        with pytest.raises(ResolutionError, match="'trend' clashes with the trend column"):
            ask()
    many = df.patterns({"q": "PATTERN A GROUP BY trend"}, time="t")
    for ask in (many.trends, lambda: many.explain(of="trends")):
        with pytest.raises(ResolutionError, match="'trend' clashes with the trend column"):
            ask()


def test_a_predicate_may_read_another_column_of_the_name_of_one_that_is_shown(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", 1, 5), (2, "A", 2, 6)], "t int, type string, x int, y int")
    asked = df.toDF("t", "type", "x", "X").pattern("PATTERN A+ WHERE SUM(A.x) > 2", time="t")
    assert [[binding.event.X for binding in row.trend] for row in asked.trends(columns=["X"]).collect()] == [[5, 6]]
    top = asked.top_trends(1, by=cet.max(cet.event("A").x), columns=["X"]).first()
    assert (top.max, [binding.event.X for binding in top.trend]) == (2, [5, 6])


def test_names_that_differ_in_case_alone(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", 1, 30), (2, "A", 2, 20)], "t int, type string, x int, y int")
    df = df.toDF("t", "type", "x", "X")
    counted = [df.pattern(f"PATTERN A+ WHERE A.{x} < NEXT(A).{x}", time="t").count_trends().first()[0] for x in "xX"]
    assert counted == [3, 2]
    trend = df.pattern("PATTERN A+ WHERE A.X > 25", time="t").trends(columns=["X"]).first().trend
    assert trend[0].event["X"] == 30


def test_outputs_that_clash(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", 1)], "t int, type string, window int")
    assert df.pattern("PATTERN A GROUP BY window", time="t").count_trends("n").columns == ["window", "n"]
    with pytest.raises(ResolutionError, match="clashes with the window column"):
        df.pattern("PATTERN A GROUP BY window WITHIN 2 SLIDE 2", time="t")
    with pytest.raises(ResolutionError, match="clashes with the window column"):
        df.pattern("PATTERN A WITHIN 2 SLIDE 2", time="t").count_trends("Window")
    partitioned = df.pattern("PATTERN A WHERE [window] WITHIN 2 SLIDE 2", time="t")
    assert partitioned.count_trends().columns == ["window", "count"]
    with pytest.raises(ResolutionError, match="clashes with the window column"):
        partitioned.trends()
    stream = spark.readStream.format("rate").load().selectExpr("timestamp AS t", "'A' AS type", "value AS window")
    bound = stream.withWatermark("t", "1 second").pattern("PATTERN A GROUP BY window WITHIN 5 seconds", time="t")
    assert bound.trends().columns == ["window", "trend"]
    with pytest.raises(ResolutionError, match="the group column 'window' clashes with the window column"):
        bound.count_trends()
    bound = stream.withWatermark("t", "1 second").pattern("PATTERN A WITHIN 5 seconds", time="t")
    for ask in (bound.count_trends, bound.count_complete_trends):
        with pytest.raises(ResolutionError, match="the returned column 'Window' clashes with the window column"):
            ask(name="Window")
    with pytest.raises(ResolutionError, match="clashes with the trend column"):
        df.toDF("t", "type", "Trend").pattern("PATTERN A GROUP BY trend", time="t").trends()


# ----------------------------------------------------------------------------------------------- time and windows

LENGTHS = [
    ("7 minutes", "7 minutes"),
    ("10 minutes", "3 minutes"),
    ("1 day", "5 hours"),
    ("1 week", "1 week"),
    ("3 milliseconds", "2 milliseconds"),
]
GAPPED = [("3 minutes", "10 minutes")]
OF_DATES = [("1 day", "5 hours"), ("1 week", "1 week"), ("1 hour", "1 hour")]
SECONDS = [
    # around 1970, far before it, and around both changes of the clock in New York in 2024
    *(n * 97.000001 for n in range(-12, 12)),
    *(-4_000_000_000.25 + n * 1801 for n in range(4)),
    *(1_710_054_000.5 + n * 1799 for n in range(8)),
    *(1_730_610_000.000001 + n * 1801 for n in range(10)),
]  # fmt: skip
#: The zone decides which instants the days of timestamps and dates begin at; those of clock times have none.
IN_ZONES = [
    *(("timestamp", zone) for zone in ("UTC", "America/New_York", "Asia/Kolkata")),
    ("timestamp_ntz", "America/New_York"),
    ("date", "America/New_York"),
    ("date", "Asia/Kolkata"),
]


def tagged(answers: list[Any]) -> list[Any]:
    """The rows of several answers, each with its answer's number, in one order."""
    whole = union([answer.withColumn("n", F.lit(n)) for n, answer in enumerate(answers)])
    return sorted(tuple(row) for row in whole.collect())


def comparable(window: str, kind: str) -> list[Any]:
    """The bounds of a window in a form that no time zone can blur."""
    bounds = [F.col(f"{window}.{side}") for side in ("start", "end")]
    return [(F.unix_micros(b) if kind != "timestamp_ntz" else b.cast("string")).alias(n) for b, n in zip(bounds, "ab")]


def by_spark(df: Any, length: str, slide: str, kind: str) -> Any:
    """The number of rows in each window, as Spark's own function has them."""
    if (length, slide) not in GAPPED:
        return df.groupBy(F.window("t", length, slide)).count().select(*comparable("window", kind), "count")
    whole = df.select(F.window("t", slide).alias("w"), "t")
    inside = whole.filter(F.col("t") < F.col("w.start") + F.expr(f"INTERVAL {length}"))
    cut = F.struct(F.col("w.start"), (F.col("w.start") + F.expr(f"INTERVAL {length}")).alias("end")).alias("window")
    return inside.select(cut).groupBy("window").count().select(*comparable("window", kind), "count")


@pytest.mark.classic
@pytest.mark.parametrize(("kind", "zone_name"), IN_ZONES)
def test_windows_are_those_of_spark(spark: Any, kind: str, zone_name: str) -> None:
    seconds = spark.createDataFrame([(float(s),) for s in SECONDS], "s double")
    with settings(spark, {"spark.sql.session.timeZone": zone_name}):
        moment = F.timestamp_micros(F.round(F.col("s") * 1_000_000).cast("bigint"))
        if kind == "timestamp_ntz":
            # Any clock time can be a timestamp without a zone, also one that the zone's clock skips.
            moment = F.to_timestamp_ntz(F.lit("1970-01-01 00:00:00")) + F.make_dt_interval(
                secs=F.col("s").cast("decimal(18,6)")
            )
        df = seconds.select(moment.cast(kind).alias("t"))
        lengths = [*LENGTHS, *GAPPED] if kind != "date" else OF_DATES
        expected = tagged([by_spark(df, length, slide, kind) for length, slide in lengths])
        assert expected
        # Exact text is beyond the fold, so both engines have their turn.
        for form in ("decimal", "string"):
            answers = [
                df.pattern(EACH.within(length, slide=slide), time="t", type=None).count_trends(number=form)
                for length, slide in lengths
            ]
            found = [
                a.select(*comparable("window", kind), F.col("count").cast("bigint").alias("count")) for a in answers
            ]
            assert tagged(found) == expected, form
        answer = df.pattern(EACH.within("1 hour", slide="1 hour"), time="t", type=None).count_trends()
        listed = df.pattern(EACH.within("1 hour", slide="1 hour"), time="t", type=None).trends()
        windowed = df.groupBy(F.window("t", "1 hour")).count().schema["window"].dataType
        assert answer.schema["window"].dataType == listed.schema["window"].dataType == windowed
        counted = listed.groupBy("window").count().select(*comparable("window", kind), "count")
        assert tagged([counted]) == tagged([by_spark(df, "1 hour", "1 hour", kind)])


@pytest.mark.classic
@pytest.mark.parametrize("kind", ["smallint", "tinyint", "int", "bigint"])
def test_windows_of_ticks(spark: Any, kind: str) -> None:
    ticks = [-128, -100, -7, -6, -5, -1, 0, 1, 4, 5, 6, 100, 127]
    if kind == "bigint":
        ticks += [2**61, -(2**61)]
    df = spark.createDataFrame([(t,) for t in ticks], "t bigint").select(F.col("t").cast(kind).alias("t"))
    answers, expected = [], set()
    for length, slide in ((5, 5), (5, 2), (7, 3), (2, 5), (300, 300), (1, 1)):
        for t in ticks:
            for k in range((t - length) // slide + 1, t // slide + 1):
                if k * slide <= t < k * slide + length:
                    count = sum(k * slide <= other < k * slide + length for other in ticks)
                    expected |= {
                        (length, slide, form, k * slide, k * slide + length, count) for form in ("double", "string")
                    }
        for form in ("double", "string"):
            answer = df.pattern(EACH.within(length, slide=slide), time="t", type=None).count_trends(number=form)
            assert answer.schema["window"].dataType.simpleString() == "struct<start:bigint,end:bigint>"
            columns = [F.lit(v).alias(n) for n, v in (("l", length), ("s", slide), ("f", form))]
            answers.append(answer.select(*columns, "window.start", "window.end", F.col("count").cast("bigint")))
    rows = union(answers).collect()
    assert {tuple(row) for row in rows} == expected
    assert len(rows) == len(expected)


@pytest.mark.parametrize("kind", more_on_classic("timestamp", "timestamp_ntz", "date"))
def test_spans_of_time(spark: Any, kind: str) -> None:
    days = [-800, -799, -797, 0, 1, 2, 9, 19_000, 19_002]
    df = spark.createDataFrame([(d,) for d in days], "d int").select(
        F.date_add(F.lit("1970-01-01").cast("date"), F.col("d")).cast(kind).alias("t")
    )
    asked = df.pattern(cet.seq(cet.event("e"), cet.event("f")).within("2 days"), time="t", type=None)
    assert asked.count_trends().first()[0] == sum(0 < b - a <= 2 for a in days for b in days)
    assert asked.trends().count() == asked.count_trends().first()[0]


# ------------------------------------------------------------------------------------------------------------ keys

NAN = float("nan")
OLD, NEW = datetime.datetime(1969, 12, 31), datetime.datetime(2024, 1, 1)
KEYS: list[tuple[str, list[Any]]] = [
    ("string", ["a", "A", "", "é", "e\u0301", " a", None, "a"]),
    ("int", [1, 1, -1, 0, None, None, 2**31 - 1]),
    ("double", [0.0, -0.0, NAN, -NAN, None, 1.5, NAN, math.inf]),
    ("float", [0.0, -0.0, NAN, None, 1.5, NAN]),
    ("decimal(38,10)", [Decimal("1.5"), Decimal("1.50"), Decimal("-1"), None, Decimal("1E+20")]),
    ("date", [datetime.date(1969, 12, 31), datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 1)]),
    ("timestamp", [OLD, NEW, None, NEW]),
    ("boolean", [True, False, None, True, False]),
    ("binary", [b"a", b"", b"\xff", None, b"a"]),
    ("struct<a:int,b:string>", [(1, "x"), (1, "x"), (1, None), None, (2, "x"), (1, None)]),
    ("struct<a:double>", [(0.0,), (-0.0,), (0.0,), (NAN,), (NAN,), None]),
    ("array<int>", [[1], [1, 2], [], None, [1], [None]]),
    ("interval day to second", [datetime.timedelta(1), datetime.timedelta(0), None, datetime.timedelta(1)]),
]  # fmt: skip


@pytest.mark.classic
@pytest.mark.parametrize(("kind", "values"), KEYS)
def test_key_types(spark: Any, kind: str, values: list[Any]) -> None:
    # Two windows of each key, so that a key comes more than once.
    rows = [(t, value) for t, value in enumerate(values * 3)]
    df = spark.createDataFrame(rows, f"t int, k {kind}").repartition(3)
    spread = df.groupBy("k").count()
    expected = sorted(str(tuple(row)) for row in spread.collect())
    for form in ("decimal", "string"):
        answer = df.pattern(EACH.group_by("k"), time="t", type=None).count_trends(number=form)
        assert answer.schema["k"].dataType == df.schema["k"].dataType
        found = answer.select("k", F.col("count").cast("bigint"))
        assert sorted(str(tuple(row)).replace("-0.0", "0.0") for row in found.collect()) == expected, form
    pairs = df.pattern(cet.seq(cet.event("e"), cet.event("f")).partition_by("k"), time="t", type=None)
    total = spread.agg(F.sum(F.expr("count * (count - 1) div 2"))).first()[0]
    assert pairs.count_trends().first()[0] == total
    assert pairs.trends(columns=["t"]).count() == total


# ----------------------------------------------------------------------------------------------------- comparisons

VALUES = {
    "s": ("string", ["a", "b", "", "Z", "é", "e\u0301", "\uffff", "\U0001f600", None, "ab", "a"]),
    "dec": ("decimal(38,10)", [Decimal(v) if v else None for v in
            ("1.0000000001", "1.0000000002", "-5", "9999999999999999999999999999",
             "9999999999999999999999999998.9999999999",
             None, "0", "0.1", "-0.1", "1", "2")]),
    "small": ("decimal(5,2)", [Decimal(v) if v else None for v in
              ("1.00", "2.50", "-5", "0.5", None, "0", "0.10", "-0.1", "1", "2", "999.99")]),
    "d": ("date", [datetime.date(1960 + 7 * n, 1, 1) if n != 4 else None for n in (3, 1, 2, 4, 5, 5, 9, 0, 1, 7, 3)]),
    "ts": ("timestamp", [datetime.datetime(1960 + 7 * n, 1, 1, 0, 0, 0, n) if n != 4 else None
                         for n in (3, 1, 2, 4, 5, 5, 9, 0, 1, 7, 3)]),
    "ntz": ("timestamp_ntz", [datetime.datetime(1960 + 7 * n, 1, 1, 0, 0, 0, n) if n != 4 else None
                              for n in (3, 1, 2, 4, 5, 5, 9, 0, 1, 7, 3)]),
    "flag": ("boolean", [True, False, None, False, True, True, False, None, True, False, True]),
    "i": ("int", [3, 1, 2, None, 5, 5, 9, 0, 1, -7, 3]),
    "l": ("bigint", [2**60, 2**60 + 1, -(2**60), None, 5, 5, 9, 0, 1, -7, 3]),
    "dbl": ("double", [2.0**60, 3.0, NAN, None, math.inf, -math.inf, 5.0, -0.0, 0.0, NAN, 1.5]),
    "f": ("float", [0.5, 3.0, NAN, None, math.inf, -math.inf, 5.0, -0.0, 0.0, NAN, 1.5]),
    "bin": ("binary", [b"a", b"", b"\xff", None, b"a", b"ab", b"b", b"\x00", b"\x7f", b"\x80", b"z"]),
    "gap": ("interval day to second", [datetime.timedelta(n) if n != 4 else None
                                       for n in (3, 1, 2, 4, 5, 5, 9, 0, 1, -7, 3)]),
}  # fmt: skip
COMPARED = [
    *((name, name) for name in VALUES),
    ("i", "dbl"), ("i", "l"), ("l", "dbl"), ("dec", "dbl"), ("small", "dbl"), ("small", "dec"), ("i", "small"),
    ("f", "dbl"), ("d", "ts"), ("i", "f"), ("l", "dec"),
]  # fmt: skip
OPERATORS = ["<", ">=", "=", "!="]


@pytest.fixture(scope="module")
def valued(spark: Any) -> Any:
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
    rows = list(zip(range(11), *(values for _, values in VALUES.values()), strict=True))
    return spark.createDataFrame(rows, f"t int, {schema}").cache()


@pytest.mark.classic
@pytest.mark.parametrize("op", OPERATORS)
def test_comparisons_are_those_of_spark(valued: Any, op: str) -> None:
    """Along an edge and in pairs, by turns: each pair of types meets both, and each operator meets all types."""
    left = valued.toDF(*(f"l_{name}" for name in valued.columns))
    right = valued.toDF(*(f"r_{name}" for name in valued.columns))
    pairs = left.join(right, F.col("l_t") < F.col("r_t"))
    expected = pairs.select(*[F.count_if(F.expr(f"l_{a} {op} r_{b}")).alias(f"{a}_{b}") for a, b in COMPARED]).first()
    answers = []
    for turn, (a, b) in enumerate(COMPARED, OPERATORS.index(op)):
        later = "b" if turn % 2 else "NEXT(b)"
        text = f"PATTERN SEQ(X a, X b) WHERE a.{a} {op} {later}.{b}"
        counted = valued.pattern(text, time="t", type=None).count_trends()
        answers.append(counted.select(F.lit(f"{a}_{b}").alias("which"), F.col("count").cast("bigint")))
    found = dict(map(tuple, union(answers).collect()))
    assert {name: found.get(name, 0) for name in expected.asDict()} == expected.asDict()


#: Comparisons of terms whose types go by Spark's own rules; the A and the B fulfil each of them.
COMPUTED = (
    "A.d / 2 = B.e / 30000",
    "A.d / 2 = B.f",
    "A.d * 3 > B.f * 5",
    "floor(A.x, 1) < B.n",
    "NOT floor(A.x, 1) > B.n",
    "trim(A.s, 'x') = 'a'",
    "substring(A.b, 1, 1) = B.b",
    "A.t = TIMESTAMP '2024-01-01 00:00:00'",
    "A.t IN (TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-07-01 00:00:00')",
    "A.l = TIMESTAMP '2024-01-01 00:00:00' AND B.l > TIMESTAMP '2024-01-01 00:30:00'",
)


def test_computed_terms_are_compared_as_by_spark(spark: Any) -> None:
    """The types of decimals go by their digits, and a time without a zone is one of the session's, not the system's."""
    with settings(spark, {"spark.sql.session.timeZone": "Pacific/Chatham"}):
        rows = spark.createDataFrame(
            [
                ("2024-01-01 00:00:00", "A", "4", "1", "2", 1.5, 0, "xax", b"ab"),
                ("2024-01-01 01:00:00", "B", "1", "60000", "2", 2.5, 15, "", b"a"),
            ],
            "at string, type string, d string, e string, f string, x double, n bigint, s string, b binary",
        )
        typed = {"d": "decimal(10,2)", "e": "decimal(10,2)", "f": "decimal(21,13)"}
        times = {"t": F.to_timestamp("at"), "l": F.col("at").cast("timestamp_ntz")}
        df = rows.withColumns({**{name: F.col(name).cast(kind) for name, kind in typed.items()}, **times}).cache()
        asked = {text: df.pattern(f"PATTERN SEQ(A, B) WHERE {text}", time="t") for text in COMPUTED}
        counted = [one.count_trends().select(F.lit(text).alias("text"), "count") for text, one in asked.items()]
        assert {row.text: int(row["count"]) for row in union(counted).collect()} == dict.fromkeys(COMPUTED, 1)
        start = datetime.datetime(2024, 1, 1)
        assert df.pattern(cet.seq(A, B).where(A.t == start, A.l == start), time="t").trends().count() == 1


def test_incomparable_types_are_an_error(valued: Any) -> None:
    for a, b in (("s", "i"), ("flag", "i"), ("ts", "i"), ("bin", "i"), ("gap", "i")):
        with pytest.raises(CetdslError, match="cannot compare"):
            valued.pattern(f"PATTERN SEQ(X a, X b) WHERE a.{a} < b.{b}", time="t", type=None)


@pytest.mark.classic
def test_comparisons_in_one_event(valued: Any) -> None:
    text = "PATTERN X x WHERE (x.s >= 'a' OR x.dec < 0.5) AND x.d < '2000-01-01' AND x.i IN (1, 2, 3, 9)"
    expected = valued.filter("(s >= 'a' OR dec < 0.5) AND d < '2000-01-01' AND i IN (1, 2, 3, 9)").count()
    assert expected
    assert valued.pattern(text, time="t", type=None).count_trends().first()[0] == expected


# ------------------------------------------------------------------------------------------------------- aggregates

ORDERED = [name for name in VALUES if name != "gap"]


@pytest.mark.parametrize("partition", more_on_classic((), (("g",),)))
def test_aggregates_are_those_of_spark(valued: Any, partition: tuple[str, ...]) -> None:
    df = valued.withColumn("g", F.col("t") % 3)
    numbers = ["small", "i", "l", "f"]
    aggregates = {f"min_{n}": cet.min(EACH[n]) for n in ORDERED} | {f"max_{n}": cet.max(EACH[n]) for n in ORDERED}
    aggregates |= {f"sum_{n}": cet.sum(EACH[n]) for n in numbers} | {f"avg_{n}": cet.avg(EACH[n]) for n in numbers}
    query = EACH.partition_by(*partition) if partition else EACH
    answer = df.pattern(query, time="t", type=None).aggregate(**aggregates)
    wanted = [getattr(F, name.split("_")[0])(name.split("_")[1]).alias(name) for name in aggregates]
    types = {name: answer.schema[name].dataType for name in aggregates}
    for name in ORDERED:
        assert types[f"min_{name}"] == types[f"max_{name}"] == df.schema[name].dataType
    assert types["sum_small"] == T.DecimalType(38, 2)
    assert types["sum_i"] == types["sum_l"] == T.DecimalType(38, 0)
    assert types["sum_f"] == types["avg_small"] == T.DoubleType()
    found, expected = answer.first(), df.agg(*wanted).first()
    for name in aggregates:
        a, b = found[name], expected[name]
        if isinstance(a, float) and b is not None:
            assert (math.isnan(a) and math.isnan(b)) or a == pytest.approx(float(b), rel=1e-9), name
        else:
            assert a == b, name


@pytest.mark.classic
def test_sums_of_decimals_in_every_form(spark: Any) -> None:
    rows = [(0, Decimal("0.01")), (1, Decimal("-2.50")), (2, Decimal("3.99")), (3, None)]
    df = spark.createDataFrame(rows, "t int, v decimal(10,2)")
    asked = df.pattern(+EACH, time="t", type=None)
    # Every event is in 8 of the 15 trends.
    total = Decimal("12.00")
    got = {n: asked.aggregate(number=n, s=cet.sum(EACH.v)).first()[0] for n in ("decimal", "string", "double", "log2")}
    assert got["decimal"] == total
    assert got["string"] == "12.00"
    assert got["double"] == pytest.approx(12.0)
    assert got["log2"] == pytest.approx(math.log2(12))
    none = (
        df.filter("v IS NULL")
        .pattern(+EACH, time="t", type=None)
        .aggregate(s=cet.sum(EACH.v), a=cet.avg(EACH.v), m=cet.min(EACH.v))
    )
    assert tuple(none.first()) == (None, None, None)


# ------------------------------------------------------------------------------------------------------- conditions


def test_conditions_given_as_spark_columns(spark: Any) -> None:
    df = spark.createDataFrame([(t, 400.0 * t, {"z": t}) for t in range(8)], "t int, `a.mount` double, n struct<z:int>")
    big = cet.event("big", F.col("`a.mount`") > 1000)
    odd = cet.event("odd", (F.col("n.z") % 2 == 1) & df["t"].isNotNull())
    also = cet.event("also", cet.col("a.mount") > 1000)
    for query in (cet.seq(odd, +big), cet.seq(odd, +big).where(big["a.mount"] < cet.next_(big)["a.mount"])):
        expected = sum(2 ** sum(t > o for t in (3, 4, 5, 6, 7)) - 1 for o in (1, 3, 5, 7))
        assert df.pattern(query, time="t").count_trends().first()[0] == expected
        assert df.pattern(query, time="t").trends(columns=["t"]).count() == expected
    assert df.pattern(cet.seq(odd, +also), time="t").count_trends().first()[0] == expected
    assert "big" in str(df.pattern(cet.seq(odd, +big), time="t").explain())


# ----------------------------------------------------------------------------------------------------------- trends


def test_limit_and_columns_of_trends(spark: Any) -> None:
    df = spark.range(30).select(F.col("id").alias("t"), (F.col("id") % 3).alias("g"), F.col("id").alias("x"))
    asked = df.pattern((+EACH).group_by("g"), time="t", type=None)
    assert asked.trends(limit=7).count() == 7
    assert asked.trends(limit=0).collect() == []
    assert df.filter("t < 6").pattern((+EACH).group_by("g"), time="t", type=None).trends(limit=1000).count() == 9
    # 2^60 trends: only a limit can end this.
    whole = spark.range(60).pattern(+EACH, time="id", type=None)
    rows = whole.trends(limit=5).collect()
    assert len({tuple(b.event.id for b in row.trend) for row in rows}) == 5
    with_residual = spark.range(60).pattern((+EACH).where(cet.sum(EACH["id"]) > 3), time="id", type=None)
    assert len(with_residual.trends(limit=5).collect()) == 5
    trends = asked.trends(limit=3, columns=["x", "T"])
    assert trends.schema["trend"].dataType.elementType["event"].dataType.names == ["x", "t"]
    assert asked.trends(limit=3, columns=[]).count() == 3


def test_nested_columns_of_events(spark: Any) -> None:
    schema = "t int, type string, s struct<a:int,`b.c`:array<struct<d:string>>>, m map<string,array<int>>, z timestamp"
    moment = datetime.datetime(2024, 5, 1, 12)
    rows = [
        (1, "A", (1, [("x",), (None,)]), {"k": [1, 2]}, moment),
        (2, "B", (None, []), {}, None),
        (3, "B", None, None, moment),
    ]
    df = spark.createDataFrame(rows, schema)
    original = {row.t: row for row in df.collect()}
    for query in ("PATTERN SEQ(A, B+)", "PATTERN SEQ(A, B+) WHERE COUNT(B) >= 1 AND SUM(B.t) > 0"):
        answer = df.pattern(query, time="t").trends()
        event = answer.schema["trend"].dataType.elementType["event"].dataType
        assert event.simpleString() == df.schema.simpleString()
        found = answer.collect()
        assert sorted([b.event.t for b in row.trend] for row in found) == [[1, 2], [1, 2, 3], [1, 3]]
        for row in found:
            assert all(b.event == original[b.event.t] for b in row.trend)
    inner = df.pattern("PATTERN SEQ(A a, B+) GROUP BY s", time="t").trends(columns=["s", "m"])
    assert inner.columns == ["s", "trend"]


@pytest.mark.classic
def test_the_first_and_the_last_day_of_time(spark: Any) -> None:
    """Sentinel dates such as 9999-12-31 keep their place, whatever else is packed beside the time."""
    rows = [("0001-01-01", "A"), ("2024-01-01", "A"), ("9999-12-31", "B")]
    df = spark.createDataFrame(rows, "day string, type string").selectExpr("CAST(day AS TIMESTAMP) AS ts", "type")
    a, b = cet.events("A", "B")
    assert df.pattern(cet.seq(a, b)).count_trends().first()["count"] == 2
    assert df.pattern(cet.seq(b, a)).count_trends().collect() == []
    assert df.pattern(cet.seq(a, b)).count_trends(number="string").first()["count"] == "2"


@pytest.mark.classic
@pytest.mark.parametrize("time", ["stamp", "t", "day"])
def test_events_are_shown_as_they_came(spark: Any, time: str) -> None:
    """Also columns that are keys, times, tie-breaks or compared, those of one text, and negative zeros."""
    fields = (
        "k double, g string, t bigint, stamp timestamp, day date, x double, y int, type string, note string, raw binary"
    )
    day = datetime.date(2024, 5, 1)
    rows = [
        (
            -0.0 if n % 2 else 0.0,
            None if n % 4 < 2 else "group",
            n,
            datetime.datetime(2024, 5, 1, 0, n),
            day + datetime.timedelta(n),
            None if n == 9 else -0.0 if n == 3 else float(n),
            n % 3,
            "E",
            None if n == 5 else "note",
            b"\0" if n % 2 else None,
        )
        for n in range(12)
    ]
    df = spark.createDataFrame(rows, fields)
    original = {row.t: row for row in df.collect()}
    each = cet.event("E")
    rising = (+each).where(each.x <= cet.next_(each).x).partition_by("k").group_by("g")
    asked = df.pattern(rising, time=time, tie_break=["y"] if time == "t" else None)
    lists = [asked.trends(), *(asked.complete_trends(algorithm=name) for name in ("m-cet", "t-cet", "definition"))]
    lists.append(df.pattern(+each, time=time).complete_trends("ends"))
    for answer in lists:
        found = answer.collect()
        assert found
        for row in found:
            for binding in row.trend:
                assert str(binding.event) == str(original[binding.event.t])
    vertices = asked.graph().vertices.collect()
    assert vertices
    for vertex in vertices:
        assert str(vertex.event) == str(original[vertex.event.t])


@pytest.mark.classic
def test_texts_that_conditions_fix_are_shown(spark: Any) -> None:
    """They are not sent with the events, but known from the variables; those of padded columns may differ."""
    rows = [(n, "abc"[n % 3], "x" if n < 4 else "y") for n in range(7)]
    df = spark.createDataFrame(rows, "t int, type string, mark string")
    original = {row.t: row for row in df.collect()}
    texts = (
        "PATTERN SEQ(a, b+)",
        "PATTERN SEQ(a OR b, c+)",
        "PATTERN SEQ(a first, a+) WHERE a.mark = 'y'",
        "PATTERN SEQ(a, NOT c, b)",
    )
    for text in texts:
        for answer in (df.pattern(text, time="t").trends(), df.pattern(text, time="t").complete_trends()):
            found = answer.collect()
            assert found
            assert all(binding.event == original[binding.event.t] for row in found for binding in row.trend)
    fixed_length = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    padded = df.select("t", F.rpad("type", 3, " ").alias("type", metadata=fixed_length))
    found = padded.pattern("PATTERN a+", time="t").trends().collect()
    assert found
    assert all(binding.event["type"] == "a  " for row in found for binding in row.trend)


@pytest.mark.classic
def test_a_long_text_that_all_events_share_is_shown(spark: Any) -> None:
    """Trends of one block repeat it more often than one array of Arrow holds."""
    df = spark.range(1, 16).selectExpr("id AS t", "'A' AS type", "repeat('x', 40000) AS p")
    shown = df.pattern(+A, time="t").trends(columns=["p"]).limit(3)
    assert {binding.event.p for row in shown.collect() for binding in row.trend} == {"x" * 40_000}


# ------------------------------------------------------------------------------------------ case-sensitive sessions

#: Each column has a twin that differs in case alone.
TWINS = "t int, type string, g string, G string, x int, X int"
OF_TWINS = "PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x AND B.X > NEXT(B).X GROUP BY g, G"
TWIN_ROWS = [
    (1, "A", "u", "p", 1, 9),
    (2, "B", "u", "p", 2, 8),
    (3, "B", "u", "p", 3, 7),
    (4, "B", "u", "p", 4, 9),
    (5, "A", "u", "q", 5, 1),
    (6, "B", "v", "p", 6, 1),
]
TREND, LONGEST = [(1, 9), (3, 7)], [(1, 9), (2, 8), (3, 7)]
TRENDS = [TREND, LONGEST, [(1, 9), (2, 8)], [(1, 9), (4, 9)]]


def twins_of(answer: Any) -> list[tuple[Any, ...]]:
    """Groups and the values of the trends' events, which are columns ``x`` and ``X``."""
    return sorted((row["g"], row["G"], [(b["event"]["x"], b["event"]["X"]) for b in row["trend"]]) for row in answer)


@pytest.fixture
def twins(spark: Any) -> Any:
    with settings(spark, {"spark.sql.caseSensitive": "true"}):
        yield spark.createDataFrame(TWIN_ROWS, TWINS)


def test_columns_that_differ_in_case_are_aggregated(twins: Any) -> None:
    asked = twins.pattern(OF_TWINS, time="t")
    found = asked.aggregate(n=cet.count(), N=cet.max(B.X), low=cet.min(B.x))
    assert found.columns == ["g", "G", "n", "N", "low"]
    assert [tuple(row) for row in found.collect()] == [("u", "p", 4, 9, 2)]
    returning = f"RETURN COUNT(*) AS n, MAX(B.x) AS N {OF_TWINS}"
    row = twins.patterns({"one": returning, "other": returning}, time="t").aggregate().where("query = 'one'").first()
    assert (row["group"]["g"], row["group"]["G"], row["n"], row["N"]) == ("u", "p", 4, 4)
    counted = twins.pattern("PATTERN SEQ(A, B) GROUP BY g, G", time="t").count_trends()
    assert [(row["g"], row["G"], row["count"]) for row in counted.collect()] == [("u", "p", 3)]


@pytest.mark.parametrize("columns", [None, ["X", "x"]])
def test_columns_that_differ_in_case_are_shown(twins: Any, columns: list[str] | None) -> None:
    asked = twins.pattern(OF_TWINS, time="t")
    expected = sorted(("u", "p", trend) for trend in TRENDS)
    for algorithm in ("auto", "joins"):
        assert twins_of(asked.trends(columns=columns, algorithm=algorithm).collect()) == expected
    together = twins.patterns({"one": OF_TWINS, "other": OF_TWINS}, time="t").trends(columns=columns)
    assert twins_of(together.where("query = 'one'").collect()) == expected
    complete = sorted(("u", "p", trend) for trend in (LONGEST, TRENDS[3]))
    for algorithm in ("auto", "joins"):
        assert twins_of(asked.complete_trends(columns=columns, algorithm=algorithm).collect()) == complete
    assert twins_of(asked.sample_trends(9, columns=columns).collect()) == complete
    assert twins_of(asked.top_trends(1, by=cet.sum(A.X), complete=False, columns=columns).collect())[0][:2] == (
        "u",
        "p",
    )


def test_columns_that_differ_in_case_in_other_answers(twins: Any) -> None:
    asked = twins.pattern(OF_TWINS, time="t")
    vertices = asked.graph().vertices.collect()
    assert {(v["g"], v["G"], v["event"]["x"], v["event"]["X"]) for v in vertices} == {
        ("u", "p", x, big) for _, _, _, _, x, big in TWIN_ROWS[:4]
    }
    wide = asked.trends(columns=["x", "X"], layout="wide").where("size(B_x) = 2")
    assert [(row["A_x"], row["A_X"], row["B_x"], row["B_X"]) for row in wide.collect()] == [(1, 9, [2, 3], [8, 7])]
    row = asked.survey_complete_trends().first()
    assert (row["g"], row["G"], row["events"]) == ("u", "p", 4)
    clause = "PARTITION BY g, G ORDER BY t MEASURES A.x AS m, A.X AS n PATTERN (A B+) DEFINE B AS B.x > PREV(B.x)"
    assert ("u", "p", 1, 9) in {tuple(row) for row in twins.match_recognize(clause).collect()}


def test_names_that_differ_in_case_alone_are_one_by_default(spark: Any) -> None:
    """As Spark has it, and the errors say what to do."""
    df = spark.createDataFrame(TWIN_ROWS, TWINS)
    with pytest.raises(UnsupportedQuery, match="two columns of the name 'G'"):
        df.pattern(OF_TWINS, time="t").trends()
    with pytest.raises(ResolutionError, match="several columns called 'n'"):
        df.select("t", "type").pattern("PATTERN A", time="t").aggregate(n=cet.count(), N=cet.max(cet.length()))
