"""Counts the paths that lead to each event: exact numbers, doubles or logarithms, added up by Spark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.errors import CountOverflow
from cetdsl.execution.expressions import raised

#: The type of exact numbers.
EXACT = "decimal(38,0)"
#: The hint for numbers that joins cannot count in any form.
MORE_MEMORY = "give the Python workers memory for the group, whose trends a task counts to any number"
#: Numbers given by logarithms are grouped by powers of two of so many; within a group, they are added up as doubles.
_SCALE = 512


def one_way(number: str) -> Column:
    """Returns the count 1 in a number form: an exact decimal, a double, or, for ``"log2"``, the logarithm of 1."""
    if number == "log2":
        return F.lit(0.0)
    return F.lit(1).cast("double" if number == "double" else EXACT)


def summed(
    rows: DataFrame, by: Sequence[str], number: str, ways: Column | None = None, *, hint: str | None = None
) -> DataFrame:
    """Adds up the ``ways`` of rows that agree in the columns ``by`` (NULL if all are), and counts the rows as ``size``.

    A sum beyond the range of its form raises an error. ``hint`` is the hint of this error if the user did not choose
    the form.
    """
    rows, size = rows.withColumn("ways", F.col("ways") if ways is None else ways), F.count("*").alias("size")
    if number != "log2":
        return rows.groupBy(*by).agg(size, _total(F.col("ways"), number, hint).alias("ways"))
    scaled = rows.withColumn("scale", F.floor(F.col("ways") / _SCALE) * _SCALE)
    parts = scaled.groupBy(*by, "scale").agg(
        size, F.sum(F.pow(F.lit(2.0), F.col("ways") - F.col("scale"))).alias("part")
    )
    logs = F.array_sort(F.collect_list(F.log2("part") + F.col("scale")))
    return parts.groupBy(*by).agg(
        F.sum("size").alias("size"), F.aggregate(logs, F.lit(None).cast("double"), _added).alias("ways")
    )


def _added(less: Column, more: Column) -> Column:
    """Computes the logarithm of a sum from logarithms; ``less`` may be NULL, and is not greater than ``more``."""
    return F.coalesce(more + F.log1p(F.pow(F.lit(2.0), less - more)) / math.log(2), more)


def _total(ways: Column, number: str, hint: str | None) -> Column:
    """The sum of exact numbers or of doubles, NULL if there are none; raises an error beyond their range."""
    if number == "double":
        sum_: Any = F.sum(ways)
        beyond = _beyond("the range of doubles", number, "double", hint)
        return F.when(sum_ != math.inf, sum_).when(sum_ == math.inf, beyond)
    return F.when(F.count(ways) > 0, F.coalesce(F.try_sum(ways), _beyond("38 digits", number, EXACT, hint)))


def _beyond(most: str, number: str, kind: str, hint: str | None) -> Column:
    message = f"a number of trends is beyond {most}, all that joins can count"
    if hint is None:
        others = "number='log2'" if number == "double" else "number='double' or number='log2'"
        message, hint = f"{message} as number={number!r}", f"use {others}, or {MORE_MEMORY}"
    return raised(CountOverflow, message, hint=hint, kind=kind)
