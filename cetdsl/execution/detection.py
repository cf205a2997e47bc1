"""Reports, as DataFrames, how trends were put together: plans, decisions, statistics, and partial matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.detection.histograms import SlidingStatistics
from cetdsl.detection.statistics import Statistics
from cetdsl.execution.compat import own_errors
from cetdsl.execution.operators import Rows, execute, run, runs
from cetdsl.execution.trends import Shown, trends_spec
from cetdsl.ir.operators import MeasureChoice, MeasureDetection, Operator, SampleDetection
from cetdsl.ir.stages import DETECTION, DetectSpec
from cetdsl.pattern.text import in_backquotes

#: About the most rows of the sample that is taken before planning.
MOST_SAMPLED = 1_000_000

_TYPES: Mapping[str, T.DataType] = {
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "boolean": T.BooleanType(),
    "map<string,bigint>": T.MapType(T.StringType(), T.LongType()),
    "map<string,double>": T.MapType(T.StringType(), T.DoubleType()),
}


@runs(SampleDetection)
@runs(MeasureChoice)
@runs(MeasureDetection)
def measure_detection(df: DataFrame, plan: MeasureDetection) -> Rows:
    """Gives rows of keys, by internal names, and :data:`~cetdsl.ir.stages.DETECTION` straight from the kernel."""
    rows, keys = execute(df, plan.child), plan.source.shown_keys
    told = DetectSpec(trends_spec(plan, keys, rows.spec, (), None), plan.plans)
    fields = rows.frame.key_fields("g", keys)
    return rows.mapped(plan, told, T.StructType([*fields, *(T.StructField(n, _TYPES[kind]) for n, kind in DETECTION)]))


def adaptation(df: DataFrame, plan: Operator) -> DataFrame:
    """Returns a row per key, branch and slice of its events: the plan, the decision behind it, and the work."""
    matches = F.aggregate(F.map_values("partial_matches"), F.lit(0).cast("bigint"), lambda a, b: a + b)
    columns = {
        "plan": F.max("plan"),
        "events": F.sum("events"),
        "planned": F.max("planned"),
        "changed": F.max("changed"),
        "violated": F.max("violated"),
        "partial_matches": F.sum(matches),
        "seconds_deciding": F.sum("seconds_deciding"),
        "seconds_planning": F.sum("seconds_planning"),
    }
    return _of_slices(df, plan, columns)


def statistics(df: DataFrame, plan: Operator) -> DataFrame:
    """Returns a row per key, branch and complete slice of its events: rates and selectivities as they were seen."""
    seen = {name: F.max_by(name, F.size(name)) for name in ("rates", "selectivities")}
    return _of_slices(df, plan, {"events": F.sum("events"), **seen}).filter(F.col("rates").isNotNull())


def sample(df: DataFrame, plan: Operator) -> Statistics:
    """Returns the statistics of at most about :data:`MOST_SAMPLED` events; this runs jobs."""
    assert isinstance(plan, SampleDetection), plan
    with own_errors():
        rows = run(_bounded(df, plan), plan).select("branch", "events", "rates", "selectivities").collect()
    rates: dict[str, list[tuple[int, float]]] = {}
    shares: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in rows:
        adapting = plan.plans[row["branch"]].adapting
        assert adapting is not None, "its statistics are taken"
        pairs = {", ".join(pair): pair for pair in SlidingStatistics(adapting.problem, 1).pairs}
        for name, rate in row["rates"].items():
            rates.setdefault(name, []).append((row["events"], rate))
        for pair, share in row["selectivities"].items():
            shares.setdefault(pairs[pair], []).append((row["events"], share))
    return Statistics(
        {name: _mean(rates[name]) for name in sorted(rates)}, {pair: _mean(shares[pair]) for pair in sorted(shares)}
    )


def _mean(found: list[tuple[int, float]]) -> float:
    """Returns the mean of the values of chunks, each weighted by the number of its events."""
    return sum(events * value for events, value in found) / sum(events for events, _ in found)


def _bounded(df: DataFrame, plan: Operator) -> DataFrame:
    """Keeps a part from the middle of the time, with about ``MOST_SAMPLED`` rows if rows are evenly distributed."""
    time = df[in_backquotes(plan.source.time)]
    number = time.cast("timestamp").cast("double") if plan.source.time_type.startswith("timestamp") else time
    count, least, most = df.select(F.count(time), F.min(number), F.max(number)).collect()[0]
    if count <= MOST_SAMPLED:
        return df
    middle, half = (least + most) / 2, (most - least) / 2 * MOST_SAMPLED / count
    return df.filter(number.between(middle - half, middle + half))


def _of_slices(df: DataFrame, plan: Operator, columns: dict[str, Column]) -> DataFrame:
    """Aggregates the rows of each key, branch and slice to columns of these names."""
    shown = Shown(plan.source.shown_keys, sliding=False)
    places = ("branch", "slice")
    own = (*places, *columns)
    plan.source.schema.refuse_clashing_keys(shown.keys, own)
    with own_errors():
        found = run(df, plan).groupBy(*shown.internal, *places)
        return found.agg(*columns.values()).toDF(*shown.names_before(*own))


class Work(NamedTuple):
    """The work of one plan of a branch over all keys: its events while in force, and its partial matches by step."""

    branch: int
    plan: str
    events: int
    partial_matches: dict[str, int]


def work(df: DataFrame, plan: Operator) -> list[Work]:
    """Returns the work of each plan of each branch over all keys; this runs a job."""
    with own_errors():
        rows = run(df, plan).select("branch", "plan", "events", "partial_matches")
        step = F.posexplode_outer("partial_matches").alias("place", "step", "matches")
        # The events of a row are those of each of its steps.
        told = rows.select("branch", "plan", "events", step).groupBy("branch", "plan", "place", "step")
        found = told.agg(F.sum("events").alias("events"), F.sum("matches").alias("n")).orderBy("place").collect()
    by_plan: dict[tuple[int, str], Work] = {}
    for row in found:
        one = by_plan.setdefault((row["branch"], row["plan"]), Work(row["branch"], row["plan"], row["events"], {}))
        if row["step"] is not None:
            one.partial_matches[row["step"]] = row["n"]
    return sorted(by_plan.values())
