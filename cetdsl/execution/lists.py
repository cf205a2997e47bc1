"""Evaluates inseparable predicates with Spark, pair by pair within each key.

A predicate such as ``SQRT(POW(NEXT(b).x - b.x, 2) + POW(NEXT(b).y - b.y, 2)) < 5`` splits into no two sides. Spark's
own expressions decide it for every pair of events of a key within a window's length; the kernel gets, with each event,
the positions of the earlier events that may precede it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.source import EventFrame, Terms
from cetdsl.pattern.expressions import Expr, attributes


def with_lists(
    frame: EventFrame,
    columns: Terms,
    closing: Sequence[str] = (),
    gather: Callable[[Column], Column] = F.collect_list,
    once: Callable[[DataFrame], DataFrame] = lambda gathered: gathered,
) -> DataFrame:
    """The selected rows with the event's position ``p`` in its key and the lists ``l0``, ``l1``, ...

    The columns ``closing`` of a stream tell its events apart as keys do; it may ``gather`` them in its own way, and see
    to it that this is done ``once`` for each key.
    """
    compiled = frame.compiled
    names = sorted({node.name for term in compiled.lists for node in attributes(term)})
    rows = frame.select({**columns, "x": frame.event_struct(names), "u": frame.ticks})
    keys = [*frame.key_names, *closing]
    order = frame.settled_order if "i" in columns else frame.order
    others = [name for name in rows.columns if name not in keys]
    event = F.struct(*order, *(name for name in others if name not in order))
    # Sorting whole structs would compare columns that have no order (maps), so only the ordering columns are compared.
    by_order = F.array_sort(gather(event), lambda left, right: _compared(left, right, order))
    grouped = once(rows.groupBy(*keys).agg(by_order.alias("events")))
    length = frame.source.windowing.length
    lists = [_positions(frame, term, length).alias(f"l{n}") for n, term in enumerate(compiled.lists)]
    exploded = grouped.select(*keys, "events", F.posexplode("events").alias("p", "row"))
    kept = [F.col("row").getField(name).alias(name) for name in others if name not in ("x", "u")]
    return exploded.select(*keys, *kept, F.col("p").cast("bigint").alias("p"), *lists)


def _compared(left: Column, right: Column, order: list[str]) -> Column:
    result = F.lit(0)
    for name in reversed(order):
        a, b = left.getField(name), right.getField(name)
        nulls_first = F.when(a.isNull() & b.isNotNull(), -1).when(a.isNotNull() & b.isNull(), 1)
        result = nulls_first.when(a < b, -1).when(a > b, 1).otherwise(result)
    return result


def _positions(frame: EventFrame, term: Expr, length: int) -> Column:
    """Returns positions of the earlier events of the key that satisfy the predicate together with this row."""
    later = F.col("row")
    before = F.slice(F.col("events"), F.lit(1), F.col("p"))

    def position_if(earlier: Column, number: Column) -> Column:
        holds = frame.pair_column(term, earlier.getField("x"), later.getField("x"))
        if length:
            holds = (earlier.getField("u") >= later.getField("u") - F.lit(length)) & holds
        return F.when(holds, number.cast("bigint")).otherwise(F.lit(-1).cast("bigint"))

    return F.filter(F.transform(before, position_if), lambda number: number >= 0)
