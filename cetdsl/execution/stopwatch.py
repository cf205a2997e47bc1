"""Measures the rows and the seconds of each operator of a physical plan, by running the plan up to each of them."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import attrs
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from cetdsl.execution.compat import own_errors
from cetdsl.execution.operators import execute
from cetdsl.execution.worker import map_stage
from cetdsl.ir.operators import EventsInOrder, Exchange, Operator, Scan


@attrs.frozen
class Taken:
    """The rows that an operator gives, and the seconds from reading events up to them."""

    rows: int
    seconds: float


def take(df: DataFrame, plan: Operator) -> Mapping[int, Taken]:
    """Runs a plan up to each operator that has steps of its own; returns the measurements by the operator's ``id()``.

    For a scan, Spark reads the events. Operators next to the events run first, so that the time of compiling a kernel
    counts for the first operator that needs it. No answer is written anywhere.
    """
    taken = {}
    with own_errors():
        for operator in reversed(list(plan.walk())):
            if isinstance(operator, Scan):
                taken[id(operator)] = _run(df)
            elif operator.steps():
                taken[id(operator)] = _run(_given(df, operator))
    return taken


def _given(df: DataFrame, operator: Operator) -> DataFrame:
    """Returns the rows that an operator gives; if it packs events, they are unpacked, so that they can be counted."""
    rows = execute(df, operator).data
    if not isinstance(operator, Exchange) or not isinstance(operator.gives_rows, EventsInOrder):
        return rows
    needed = operator.gives_rows
    if not needed.sorting.in_parcels:
        return rows
    apart = attrs.evolve(needed, sorting=attrs.evolve(needed.sorting, packed=False))
    return map_stage(rows, "unpack", 0, execute(df, Exchange(operator.child, apart)).data.schema)


def _run(rows: DataFrame) -> Taken:
    counted, begin = Observation(), perf_counter()
    rows.observe(counted, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return Taken(counted.get["rows"], perf_counter() - begin)
