"""Races of row patterns: MATCH_RECOGNIZE, the matching policies, and what people write on Spark without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import pandas as pd
import pyarrow as pa
from events import Events
from measure import take_turns
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from races import AFTER_A, Result, Verdict, count, discard, floor, result

from cetdsl.execution import match_rows
from cetdsl.ir.rows import MatchSpec
from cetdsl.kernels.rows.stream import match_stream

#: V-shapes: falling prices, each below that of the row before, then rising ones. The next may begin where one ends.
DEFINE = "DEFINE fall AS price < PREV(price), rise AS price > PREV(price)"
V_SHAPES = f"""
    ORDER BY time
    MEASURES onset.time AS since, LAST(fall.price) AS low, LAST(rise.time) AS until
    AFTER MATCH SKIP TO LAST rise
    PATTERN (onset fall+ rise+)
    {DEFINE}
"""
SHAPES = "key bigint, since timestamp, low double, until timestamp"


def by_key(clause: str) -> str:
    return f"PARTITION BY key {clause}"


# ---------------------------------------------------------------------------------------------- what people write today


def by_lag(df: DataFrame) -> DataFrame:
    """The same shapes by window functions: runs of falls and of rises are numbered, summed up, and joined in pairs."""
    ordered = Window.partitionBy("key").orderBy("time")
    before = F.lag("price").over(ordered)
    steps = df.select(
        "key",
        "time",
        "price",
        F.lag("time").over(ordered).alias("since"),
        F.when(F.col("price") < before, -1).when(F.col("price") > before, 1).otherwise(0).alias("way"),
    )
    begins = (F.lag("way", 1, 2).over(ordered) != F.col("way")).cast("int")
    numbered = steps.withColumn("run", F.sum(begins).over(ordered))
    last = F.max_by("price", "time").alias("low"), F.max("time").alias("until")
    runs = numbered.groupBy("key", "run", "way").agg(F.min("since").alias("since"), *last)
    falls = runs.where("way = -1").select("key", (F.col("run") + 1).alias("run"), "since", "low")
    rises = runs.where("way = 1").select("key", "run", "until")
    return falls.join(rises, ["key", "run"]).select("key", "since", "low", "until")


def by_pandas(df: DataFrame, shapes: Callable[[pd.DataFrame], pd.DataFrame]) -> DataFrame:
    """The same shapes by a loop in Python over the rows of each key."""
    return df.select("key", "time", "price").groupBy("key").applyInPandas(shapes, SHAPES)


def over_lists(rows: pd.DataFrame) -> pd.DataFrame:
    """A loop over lists, the fastest way to write one."""
    rows = rows.sort_values("time")
    key, times, prices = rows["key"].iloc[0], rows["time"].tolist(), rows["price"].tolist()
    found = []
    onset = 0
    while onset < len(prices):
        low = onset
        while low + 1 < len(prices) and prices[low + 1] < prices[low]:
            low += 1
        end = low
        while end + 1 < len(prices) and prices[end + 1] > prices[end]:
            end += 1
        if low > onset and end > low:
            found.append((key, times[onset], prices[low], times[end]))
            onset = end
        else:
            onset += 1
    return pd.DataFrame(found, columns=["key", "since", "low", "until"])


def over_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """A loop that looks at one row after the other, as most are written."""
    rows = rows.sort_values("time").reset_index(drop=True)
    found = []
    onset = 0
    while onset < len(rows):
        low = onset
        while low + 1 < len(rows) and rows.iloc[low + 1]["price"] < rows.iloc[low]["price"]:
            low += 1
        end = low
        while end + 1 < len(rows) and rows.iloc[end + 1]["price"] > rows.iloc[end]["price"]:
            end += 1
        if low > onset and end > low:
            begin, bottom, top = rows.iloc[onset], rows.iloc[low], rows.iloc[end]
            found.append((begin["key"], begin["time"], bottom["price"], top["time"]))
            onset = end
        else:
            onset += 1
    return pd.DataFrame(found, columns=["key", "since", "low", "until"])


def sent(df: DataFrame) -> DataFrame:
    """Sends the rows to Python workers, by key; these return nothing."""
    rows = df.select("key", "time", "price")
    return rows.repartition("key").mapInArrow(lambda batches: (batch.slice(0, 0) for batch in batches), rows.schema)


# ----------------------------------------------------------------------------------------------------------- whole jobs


def v_shapes(events: Events, runs: int) -> Result:
    """V-shapes by MATCH_RECOGNIZE, by window functions, by loops in Python, and the floor."""
    df = events.many_keys()
    some = df.where(F.col("key") < events.scaled(1_000))
    contestants: dict[str, Callable[[], DataFrame]] = {
        "MATCH_RECOGNIZE": lambda: df.match_recognize(by_key(V_SHAPES)),
        "lag and self-join": lambda: by_lag(df),
        "applyInPandas": lambda: by_pandas(df, over_lists),
    }
    actions = {"floor": floor(df, F.col("price") + 0.0)}
    # A loop over rows takes ten times as long as one over lists, so that both sides get fewer keys.
    fewer: dict[str, Callable[[], DataFrame]] = {
        "MATCH_RECOGNIZE, fewer keys": lambda: some.match_recognize(by_key(V_SHAPES)),
        "applyInPandas, row by row": lambda: by_pandas(some, over_rows),
    }
    actions |= {name: lambda ask=ask: discard(ask()) for name, ask in (contestants | fewer).items()}
    actions["sent to Python"] = lambda: discard(sent(df))
    measured = take_turns(actions, runs)
    verdicts = [
        Verdict("onset fall+ rise+", "MATCH_RECOGNIZE", "floor", 2),
        Verdict("onset fall+ rise+, against lag and self-join", "MATCH_RECOGNIZE", "lag and self-join", 0.333),
        Verdict("onset fall+ rise+, against applyInPandas over lists", "MATCH_RECOGNIZE", "applyInPandas", 0.0333),
        Verdict(
            "the same of 1,000 partitions, against applyInPandas row by row",
            "MATCH_RECOGNIZE, fewer keys",
            "applyInPandas, row by row",
            0.0333,
        ),
        Verdict("the rows sent to Python, and none back", "sent to Python", "floor", None),
    ]
    found = {name: _summed(ask()) for name, ask in contestants.items()}
    for same in (found, {name: _summed(ask()) for name, ask in fewer.items()}):
        if len(set(same.values())) > 1:
            raise RuntimeError(f"the answers differ: {same}")
    return result(f"5 million rows, 10,000 partitions: {found['MATCH_RECOGNIZE'][0]:,} matches", measured, verdicts)


def _summed(answer: DataFrame) -> tuple[int, int]:
    """The number of matches, and the sum of their hashes."""
    hashed = F.xxhash64("key", "since", "low", "until")
    return tuple(answer.agg(F.count("*"), F.sum(hashed.cast("decimal(38,0)"))).first())  # type: ignore[return-value]


def one_partition(events: Events, runs: int) -> Result:
    """V-shapes of one partition, which one task matches."""
    actions = {
        f"{size:,}": lambda size=size: discard(events.one_key(size).match_recognize(V_SHAPES))
        for size in (1_250_000, 5_000_000)
    }
    measured = take_turns(actions, runs)
    verdicts = [
        Verdict("onset fall+ rise+, 5,000,000 rows", "5,000,000", "", 20),
        Verdict("the same, 1,250,000 rows", "1,250,000", "", None),
    ]
    return result("rows of one partition", measured, verdicts)


def policies(events: Events, runs: int) -> Result:
    """``SEQ(A, B+)`` counted under each matching policy, and the floor."""
    df = events.many_keys()
    actions = {"floor": floor(df, (F.col("type") == "B").cast("double"))}
    actions |= {
        policy: lambda policy=policy: discard(count(df, AFTER_A.matching(policy), "double"))
        for policy in ("any", "next", "strict")
    }
    measured = take_turns(actions, runs)
    verdicts = [
        Verdict(f"SEQ(A, B+), matching {policy}", policy, "floor", 1.3 if policy != "any" else None)
        for policy in ("any", "next", "strict")
    ]
    return result("5 million events, 10,000 keys, double", measured, verdicts)


# -------------------------------------------------------------------------------------------------------------- kernels


class Loaded(NamedTuple):
    """The sorted rows of one partition as the kernel reads them, and what it looks for."""

    spec: MatchSpec
    batches: list[pa.RecordBatch]

    @classmethod
    def of(cls, df: DataFrame, clause: str) -> Loaded:
        taken: list[tuple[DataFrame, MatchSpec]] = []

        def take(rows: DataFrame, stage: str, spec: MatchSpec, schema: Any, remark: str) -> DataFrame:
            taken.append((rows, spec))
            return made(rows, stage, spec, schema, remark)

        made = match_rows.map_stage
        with mock.patch.object(match_rows, "map_stage", take):
            df.match_recognize(clause, sort="spark")  # and not by the kernel that is measured
        [(rows, spec)] = taken
        return cls(spec, rows.toArrow().to_batches())

    def run(self) -> Iterator[Any]:
        """All matches."""
        for _ in match_stream(self.spec, iter(self.batches)):
            pass


#: For each pattern the number of rows, the seconds that it may take, its clause, and what other engines report.
CLAUSES = {
    "onset dip+ climb+": (
        2_000_000,
        0.15,
        f"MEASURES MATCH_NUMBER() AS n PATTERN (onset fall+ rise+) {DEFINE}",
        "DuckDB 0.146 s on 16 cores, Trino 1.48 s",
    ),
    "nested quantifiers": (
        500_000,
        0.1,
        f"MEASURES MATCH_NUMBER() AS n PATTERN (((fall+ rise)+ fall*)+ rise) {DEFINE}",
        "DuckDB 0.072 s on 16 cores, Trino 0.29 s",
    ),
    "navigation into the match": (
        200_000,
        0.06,
        "MEASURES MATCH_NUMBER() AS n PATTERN (onset fall+ rise+) "
        "DEFINE fall AS price < PREV(price), rise AS price > FIRST(onset.price) * 0.5 AND price > LAST(fall.price)",
        "DuckDB 0.055 s on 16 cores, Trino 0.44 s",
    ),
}


def row_kernel(events: Events, runs: int) -> Result:
    """The matcher alone, over one partition."""
    given = {
        name: Loaded.of(events.one_key(size), f"ORDER BY time {clause}")
        for name, (size, _, clause, _) in CLAUSES.items()
    }
    measured = take_turns({name: one.run for name, one in given.items()}, runs)
    verdicts = [Verdict(f"{name}, {size:,} rows", name, "", limit) for name, (size, limit, *_) in CLAUSES.items()]
    notes = [f"{name}, as their authors report it: {said}" for name, (*_, said) in CLAUSES.items()]
    return result("one partition, one core, from sorted rows in memory on", measured, verdicts, notes=notes)


RACES = {race.__name__: race for race in (v_shapes, one_partition, policies, row_kernel)}
