"""Takes statistics of single events in one pass: the numbers that meet conditions, and the ranges of columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.errors import recovering
from cetdsl.execution.compat import EVALUATE_TERMS, translated
from cetdsl.execution.layouts import times_of_ends
from cetdsl.execution.source import EventFrame, equal_zeros
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.machine import Machine
from cetdsl.ir.source import Source
from cetdsl.pattern.automaton import Automaton
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.text import in_backquotes

#: What a measure counts or finds: rows where a condition holds, NULLs, the least or greatest value, distinct values.
HOLDS, NULL, LEAST, GREATEST, DISTINCT = "holds", "null", "least", "greatest", "distinct"
_MEASURES: dict[str, Callable[[Column], Column]] = {
    HOLDS: F.count_if,
    NULL: F.count_if,
    LEAST: F.min,
    GREATEST: F.max,
    DISTINCT: F.approx_count_distinct,
}
#: Keys are sampled by their hash modulo this number.
_STEPS = 1_000_000
_NOTHING = Compiled(Automaton((), (), (), (), ()), (), Machine((), (), (), ()), (), (), (), (), ())


@attrs.frozen
class Measure:
    """A measure of a term, taken over the rows for which all conditions in ``among`` hold.

    Rows without a time are no events and do not count. A condition is evaluated only for rows for which the conditions
    before it hold, because an earlier one may guard a later one from an error.
    """

    what: str
    term: Expr
    among: tuple[Expr, ...] = ()


@attrs.frozen
class Totals:
    """Rows, those of them without a time, and the first and the last time as whole numbers (None: there is none)."""

    rows: int
    no_time: int
    first: int | None
    last: int | None

    @property
    def events(self) -> int:
        """The rows that have a time."""
        return self.rows - self.no_time


class Census:
    """Measures the single events that a query is run on; ``terms`` are all terms to be measured.

    Each method but :meth:`sampled` runs one job.
    """

    def __init__(self, df: DataFrame, source: Source, terms: Sequence[Expr]) -> None:
        self._df = df
        self._frame = EventFrame(df, source, _NOTHING, tests=terms)
        self._source = source

    def take(self, measures: Sequence[Measure]) -> tuple[Totals, dict[Measure, Any]]:
        """Returns the totals, and the values of the measures."""
        frame = self._frame
        ticks = frame.ticks
        totals = [F.count("*"), F.count_if(frame.time.isNull()), F.min(ticks), F.max(ticks)]
        known = translated(lambda: [self._column(one) for one in measures], EVALUATE_TERMS)
        columns = [column.alias(f"m{number}") for number, column in enumerate([*totals, *known])]
        with recovering():
            [row] = translated(lambda: frame.frame.agg(*columns), EVALUATE_TERMS).collect()
        return Totals(*row[: len(totals)]), dict(zip(measures, row[len(totals) :], strict=True))

    def _column(self, measure: Measure) -> Column:
        term = self._frame.row_column(measure.term)
        if measure.what == NULL:
            term = term.isNull()
        told = _MEASURES[measure.what](self._among(measure.among, term))
        # For a key, NULL is a value of its own, but Spark's function does not count it.
        return told if measure.what != DISTINCT else told + F.bool_or(term.isNull()).cast("int")

    def _among(self, conditions: tuple[Expr, ...], term: Column) -> Column:
        for condition in reversed(conditions):
            term = F.when(self._frame.row_column(condition), term)
        return F.when(self._frame.time.isNotNull(), term)

    def values(self, term: Expr, most: int) -> list[tuple[Any, int]]:
        """Returns the ``most`` frequent values of a term that are not NULL, and how often each occurs."""
        value = self._frame.row_column(term)
        events = self._frame.frame.filter(self._frame.time.isNotNull())
        counted = events.select(value.alias("value")).filter("value IS NOT NULL").groupBy("value").count()
        with recovering():
            rows = counted.orderBy(F.desc("count"), "value").limit(most).collect()
        return [(row["value"], int(row["count"])) for row in rows]

    def most_of_a_key(self, keys: Sequence[str]) -> int:
        """The number of rows of the key that has most of them; without keys, the number of all rows."""
        own = [self._frame.own_name(name) for name in keys]
        with recovering():
            counted = self._frame.frame.groupBy(*own).agg(F.count("*").alias("rows"))
            [row] = counted.agg(F.max("rows")).collect()
        return int(row[0] or 0)

    def alike(self, names: Sequence[str], variables: Sequence[tuple[Expr, ...]]) -> int:
        """Returns the number of events that agree with another event in the columns of these names.

        Events are the rows that meet all conditions of one of the ``variables``.
        """
        frame = self._frame
        bound = F.coalesce(*(self._among(conditions, F.lit(True)) for conditions in variables))
        alike = frame.frame.filter(bound).groupBy(*map(frame.own_name, names)).agg(F.count("*").alias("events"))
        with recovering():
            [row] = alike.filter("events > 1").agg(F.sum("events")).collect()
        return int(row[0] or 0)

    def sampled(self, keys: Sequence[str], share: float) -> DataFrame:
        """Returns all rows of about a share of the keys; without keys, the earliest rows, about this share of all."""
        if keys:
            # Equal doubles have equal hashes, except for the two zeros.
            columns = [F.expr(equal_zeros(in_backquotes(name), self._frame.type_of(name))) for name in keys]
            return self._df.filter(F.pmod(F.xxhash64(*columns), F.lit(_STEPS)) < int(share * _STEPS))
        ticks = self._frame.ticks
        with recovering():
            [row] = self._frame.frame.agg(F.percentile_approx(ticks, share, 10_000)).collect()
        return self._df.filter(self._frame.ticks_of(in_backquotes(self._source.time)) <= row[0])

    def lasting(self, trends: DataFrame) -> DataFrame:
        """Adds how long each trend ``lasts``: from its first event to its last, in microseconds or ticks."""
        first, last = times_of_ends(self._source.time)
        ends = {"first": first, "last": last}
        lasts = self._frame.ticks_of("last") - self._frame.ticks_of("first")
        return trends.withColumns(ends).withColumn("lasts", lasts).drop("first", "last")


@contextmanager
def held(df: DataFrame, names: Collection[str] | None) -> Iterator[DataFrame]:
    """Yields the rows of a DataFrame with these columns alone, persisted, so that repeated use reads the input once.

    If ``names`` is None, all columns are yielded, and nothing is persisted.
    """
    if names is None:
        yield df
        return
    # By position, as other columns may have any names.
    places = {name: f"c{place}" for place, name in reversed(list(enumerate(df.columns)))}
    renamed = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
    kept = renamed.select(*(places[name] for name in names)).toDF(*names).persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def totals_of(counted: DataFrame) -> Mapping[str, float]:
    """Returns the number of trends of each query in all groups and windows, given the answer in logarithms.

    Whole numbers below 2^45 are exact; numbers beyond the range of doubles are infinite.
    """
    power = F.pow(F.lit(2.0), F.col("count"))
    whole = F.when(F.col("count") < 45, F.round(power)).otherwise(power)
    with recovering():
        rows = counted.groupBy("query").agg(F.sum(whole).alias("total")).collect()
    return {row["query"]: float(row["total"]) for row in rows}
