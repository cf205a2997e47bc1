"""Lists the matches of many queries: one stage per pass, whose rows name the query that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import attrs
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.execution.compat import noted_type, own_errors
from cetdsl.execution.expressions import union
from cetdsl.execution.operators import Rows, check_readers, execute, execute_whole, runs
from cetdsl.execution.trends import trend_field
from cetdsl.ir.operators import DetectTogether, ListTogether, MeasureInstances, Operator
from cetdsl.ir.slots import WORK, InstancesSpec
from cetdsl.pattern.text import in_backquotes


@attrs.frozen
class ListedRows:
    """The matches of one query: some of the rows of a pass, or all rows of a plan of its own."""

    name: str
    rows: DataFrame
    columns: tuple[str, ...]
    alone: bool

    def answer(self, limit: int | None) -> DataFrame:
        """The answer of the query alone."""
        if self.alone:
            return self.rows
        own = self.rows.filter(F.col("query") == F.lit(self.name)).select(*map(in_backquotes, self.columns))
        return own if limit is None else own.limit(limit)


@attrs.frozen
class TrendsOfAll:
    """The rows of all passes over ``events``, and the query that each row belongs to."""

    events: DataFrame
    plan: ListTogether
    passes: tuple[DataFrame, ...]
    listed: tuple[ListedRows, ...]

    def results(self) -> dict[str, DataFrame]:
        """Returns the answer of each query."""
        return {one.name: one.answer(self.plan.limit) for one in self.listed}

    def union(self) -> DataFrame:
        """All matches as one DataFrame."""
        check_readers(self.events, self.plan)
        parts = [
            _limited(rows, None if together.limits_all else self.plan.limit, len(together.members))
            for rows, together in zip(self.passes, self.plan.together, strict=True)
        ]
        parts += [
            one.rows.select(F.lit(one.name).alias("query"), *map(in_backquotes, one.columns))
            for one in self.listed
            if one.alone
        ]
        return union(parts).select(*map(in_backquotes, self.plan.gives))


def trends_of_all(df: DataFrame, plan: ListTogether, order: Sequence[str]) -> TrendsOfAll:
    """Returns the matches of a workload, lazily; ``order`` names the queries in the order of the answer."""
    with own_errors():
        passes, listed = [], dict[str, ListedRows]()
        for one, together in zip(plan.passes, plan.together, strict=True):
            rows = execute(df, one).data
            passes.append(rows)
            for member in together.members:
                shown = (*member.keys, *(("window",) if member.sliding else ()), "trend")
                listed[member.name] = ListedRows(member.name, rows, shown, False)
        for single in plan.alone:
            rows = execute_whole(df, single.plan).data
            listed[single.name] = ListedRows(single.name, rows, tuple(rows.columns), True)
        return TrendsOfAll(df, plan, tuple(passes), tuple(listed[name] for name in order))


def _limited(rows: DataFrame, limit: int | None, queries: int) -> DataFrame:
    """Returns at most ``limit`` rows of each query; each task gives no more, but there may be several tasks."""
    if limit is None:
        return rows
    if queries == 1:
        return rows.limit(limit)
    # This runs all tasks. Spark's own limit counts rows of any query: one limit per query would run the pass once per
    # query, and one for all would return the rows of the queries that find the most. Little data is shuffled, as each
    # task gives at most ``limit`` rows of a query.
    taken = set(map(str.lower, rows.columns))
    name = next(name for name in map("n{}".format, count()) if name not in taken)
    number = F.row_number().over(Window.partitionBy("query").orderBy(F.lit(0)))
    return rows.withColumn(name, number).filter(F.col(name) <= limit).drop(name)


@runs(DetectTogether)
def detect_together(df: DataFrame, plan: DetectTogether) -> Rows:
    """Gives the matches of the queries of a pass, under the user's names."""
    rows = execute(df, plan.child)
    frame = rows.frame
    keys = [T.StructField(name, frame.type_of(name)) for name in plan.keys]
    window = [frame.window_field] if plan.sliding else []
    fields = [T.StructField("query", T.StringType()), *keys, *window, trend_field(frame, plan.columns, plan.columns)]
    return rows.mapped(plan, _told(rows, plan), T.StructType(fields))


@runs(MeasureInstances)
def measure_instances(df: DataFrame, plan: MeasureInstances) -> Rows:
    """Returns the work for each vertex, task by task."""
    rows = execute(df, plan.child)
    schema = T.StructType(
        [T.StructField(name, T.IntegerType() if kind == "int" else T.LongType()) for name, kind in WORK]
    )
    return rows.mapped(plan, _told(rows, plan), schema)


def _told(rows: Rows, plan: DetectTogether) -> InstancesSpec:
    every = plan.source.keys
    return InstancesSpec(
        rows.spec,
        plan.vertices,
        plan.kinds,
        plan.variables,
        plan.queries,
        tuple(tuple(map(every.index, member.keys)) for member in plan.members),
        tuple(map(every.index, plan.keys)),
        plan.columns,
        plan.sliding,
        -1 if plan.limit is None else plan.limit,
        plan.walked,
    )


def measured_work(df: DataFrame, plan: Operator) -> dict[int, dict[str, int]]:
    """Runs a pass, and returns the numbers of each vertex over all tasks."""
    names = [name for name, _ in WORK[1:]]
    with own_errors():
        rows = execute(df, plan).data.groupBy("vertex").agg(*(F.sum(name).alias(name) for name in names)).collect()
    return {row["vertex"]: {name: row[name] for name in names} for row in rows}


def plain_text_column(df: DataFrame, name: str | None) -> str | None:
    """Returns the exact name of a column if it is the only one of this name, and its texts are compared by bytes."""
    found = [field for field in df.schema.fields if name is not None and field.name.lower() == name.lower()]
    exact = [field for field in found if field.name == name] or found
    if len(exact) != 1 or exact[0].dataType != T.StringType():
        return None
    return exact[0].name if noted_type(exact[0]) is None else None
