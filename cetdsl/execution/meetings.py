"""Joins rows with events, or with other rows, of the same key, the same window, and near times."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.expressions import combine
from cetdsl.execution.source import floor_divide
from cetdsl.pattern.expressions import HOLDS

#: The bucket of a joined event, relative to that of the rows' anchor: the same one, the next one, or the one before.
HERE, LATER, EARLIER = 0, -1, 1


@attrs.frozen
class Meetings:
    """Joins rows whose columns ``by`` are equal (NULL equals NULL), and whose distance in time a span may bound.

    ``length`` is the length of the span; None if there is no bound. Events are structs whose field ``u`` is their time.
    """

    by: tuple[str, ...]
    length: int | None

    def joined(
        self,
        rows: DataFrame,
        side: DataFrame,
        tests: Iterable[Column],
        event: Column,
        anchor: Column,
        near: tuple[int, ...],
        how: str = "inner",
    ) -> DataFrame:
        """Joins rows with the rows of a ``side`` if all ``tests`` hold.

        With a span, the time bucket of the side's ``event`` is that of the rows' event ``anchor``, or one beside it, as
        ``near`` says; buckets are as long as the span.
        """
        side = side.withColumnsRenamed({name: f"x_{name}" for name in self.by})
        extra = [f"x_{name}" for name in self.by]
        tests = [*(F.col(name).eqNullSafe(F.col(f"x_{name}")) for name in self.by), *tests]
        if self.length is not None:
            bucket = self._bucket(event)
            side, extra = side.withColumn("x_z", F.explode(F.array(*(bucket + step for step in near)))), [*extra, "x_z"]
            tests.append(self._bucket(anchor) == F.col("x_z"))
        return rows.join(side, all_of(tests), how).drop(*extra)

    def _bucket(self, event: Column) -> Column:
        assert self.length is not None
        return floor_divide(event.getField("u"), max(self.length, 1))


def instant(event: Column, names: Sequence[str]) -> Column:
    """Returns the instant of an event: its time, and the columns that order events of one time."""
    return F.struct(*(event.getField(name).alias(name) for name in names))


def bindings_in_time(placed: Column) -> Column:
    """Returns the ``binding`` of each struct of an array, in order of ``time``, and of ``slot`` where times agree."""

    def by_time(one: Column, other: Column) -> Column:
        a, b = (F.struct(each.getField("time"), each.getField("slot")) for each in (one, other))
        return F.when(a < b, -1).when(a > b, 1).otherwise(0)

    return F.transform(F.array_sort(placed, by_time), lambda each: each.getField("binding"))


def compared(op: str, event: Column, own: int, other: int) -> Callable[[Column], Column]:
    """Returns a function that compares a value of an event with one of another event, its argument."""
    return lambda of: HOLDS[op](event.getField(f"f{own}"), of.getField(f"f{other}"))


def all_of(tests: Iterable[Column]) -> Column:
    """Returns whether all tests hold."""
    every = list(tests)
    return combine(operator.and_, every) if every else F.lit(True)
