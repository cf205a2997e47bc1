"""Evaluates *inseparable* predicates with Spark, pair by pair within each key.

A predicate such as ``SQRT(POW(NEXT(b).x - b.x, 2) + POW(NEXT(b).y - b.y, 2)) < 5`` does not split into a side for each
event. Spark evaluates it for the pairs of events of a key within a window's length. With each event, the kernel gets a
list of the earlier events that satisfy the predicate together with it, as distances in the order of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.compat import EVALUATE_TERMS, translated
from cetdsl.execution.source import EventFrame, Terms
from cetdsl.ir.compiled import ListColumn
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE

#: The empty list.
_NONE = "CAST(array() AS array<int>)"


def with_lists(
    frame: EventFrame,
    columns: Terms,
    closing: Sequence[str] = (),
    gather: Callable[[Column], Column] = F.collect_list,
    once: Callable[[DataFrame], DataFrame] = lambda gathered: gathered,
) -> DataFrame:
    """Returns the selected rows with the lists ``l0``, ``l1``, ... and a number ``p`` that orders events of one time.

    A list has a distance for each earlier event that satisfies the predicate: 1 is the event immediately before this
    one in the order of the key. On a stream, events are grouped by the columns ``closing`` as well as by keys;
    ``gather`` is the aggregate that collects them, and ``once`` is applied to the groups.
    """
    asked, windowing = frame.compiled.lists, frame.source.windowing
    by_variable = {f"l{n}": column for n, column in enumerate(asked) if column.earlier >= 0}
    of_any = {f"l{n}": column for n, column in enumerate(asked) if column.earlier < 0}
    names = sorted({name for column in asked for name in column.names})
    in_stretches = windowing.kind != WHOLE and not closing
    added: Terms = {"x": frame.event_struct(names), "u": frame.ticks}
    if in_stretches and "i" not in columns:
        # Each event is in two groups, which must order simultaneous events in the same way.
        added["i"] = frame.fingerprint()
    rows = frame.select({**columns, **added})
    keys = [*frame.key_names, *closing]
    others = [name for name in rows.columns if name not in keys]
    order = frame.settled_order if "i" in rows.columns else frame.order
    if in_stretches:
        rows = _in_stretches(rows, max(windowing.length, 1))
    stretch, own = ([_STRETCH], [_OWN]) if in_stretches else ([], [])
    event = F.struct(*order, *own, *(name for name in others if name not in order))
    # Sorting whole structs would compare columns that have no order (maps), so only the ordering columns are compared.
    by_order = F.array_sort(gather(event), lambda left, right: _compared(left, right, order))
    grouped = once(rows.groupBy(*keys, *stretch).agg(by_order.alias("events")))
    if in_stretches:
        grouped = grouped.filter(F.exists("events", lambda one: one.getField(_OWN)))
    found = [_lists_of_group(frame, column, has_own=in_stretches).alias(name) for name, column in by_variable.items()]
    events = [F.col("events")] if of_any else []
    row = F.col("row").getField("events")
    kept = [row.getField(name).alias(name) for name in others if name not in added]
    lists = {name: F.col("row").getField(name) for name in by_variable}
    lists |= {name: _distances(frame, column, row) for name, column in of_any.items()}
    position = F.col("p").cast("bigint").alias("p")

    def build() -> DataFrame:
        zipped = F.posexplode(F.arrays_zip("events", *found)).alias("p", "row")
        exploded = grouped.select(*keys, *events, zipped)
        if in_stretches:
            exploded = exploded.filter(row.getField(_OWN))
        return exploded.select(*keys, *kept, position, *(lists[f"l{n}"].alias(f"l{n}") for n in range(len(asked))))

    listed: DataFrame = translated(build, EVALUATE_TERMS)
    return listed


#: The columns with the number of an interval of time as long as a window, and whether the event itself lies in this
#: interval or is copied from the interval before.
_STRETCH, _OWN = "stretch", "own"


def _in_stretches(rows: DataFrame, length: int) -> DataFrame:
    """Copies each event into two groups: its own interval of ``length``, and the next one.

    An event can share a window only with earlier events of its own interval and of the one before, however many events
    a key has. Events without a time form a group of their own, which the kernel reports.
    """
    own = F.expr(f"(u - pmod(u, {length})) div {length}")
    each = F.when(own.isNull(), F.array(own)).otherwise(F.array(own, own + 1))
    return rows.select("*", F.explode(each).alias(_STRETCH)).withColumn(_OWN, F.col(_STRETCH).eqNullSafe(own))


def _compared(left: Column, right: Column, order: list[str]) -> Column:
    result = F.lit(0)
    for name in reversed(order):
        a, b = left.getField(name), right.getField(name)
        nulls_first = F.when(a.isNull() & b.isNotNull(), -1).when(a.isNotNull() & b.isNull(), 1)
        result = nulls_first.when(a < b, -1).when(a > b, 1).otherwise(result)
    return result


def _distances(frame: EventFrame, column: ListColumn, row: Column) -> Column:
    """Returns the distances to the earlier events that satisfy the predicate together with a row."""
    place = F.col("p")
    before = F.slice(F.col("events"), F.lit(1), place)

    def distance_if(earlier: Column, number: Column) -> Column:
        return F.when(_holds(frame, column, earlier, row), place - number).otherwise(F.lit(0))

    return F.filter(F.transform(before, distance_if), lambda distance: distance > 0)


def _lists_of_group(frame: EventFrame, column: ListColumn, *, has_own: bool) -> Column:
    """Returns the lists of all events of a group; those of events that cannot be the later event are empty.

    They are computed within the array, before it is exploded: afterwards each row would carry the array of all
    candidates.
    """
    earlier, later = F.lit(1 << column.earlier), F.lit(1 << column.later)

    def candidate(event: Column, number: Column) -> Column:
        return F.struct(number.alias("p"), event.alias("event"))

    def lists(candidates: Column) -> Column:
        def of_event(event: Column, number: Column) -> Column:
            def fits(one: Column) -> Column:
                return (one.getField("p") < number) & _holds(frame, column, one.getField("event"), event)

            fitting = F.transform(F.filter(candidates, fits), lambda one: number - one.getField("p"))
            asked = event.getField("m").bitwiseAND(later) != 0
            asked = event.getField(_OWN) & asked if has_own else asked
            return F.when(asked, fitting).otherwise(F.expr(_NONE))

        return F.transform("events", of_event)

    marked = F.transform("events", candidate)
    candidates = F.filter(marked, lambda one: one.getField("event").getField("m").bitwiseAND(earlier) != 0)
    # The lambda function computes the candidates once; as a column, Spark would copy their term into each use.
    return F.transform(F.array(candidates), lists).getItem(0)


def _holds(frame: EventFrame, column: ListColumn, earlier: Column, later: Column) -> Column:
    """Whether two events of a key satisfy a predicate, which is tested only if a trend may have both.

    No trend has two simultaneous events, nor two events that no window has together.
    """
    x, y = earlier.getField("x"), later.getField("x")
    holds, windowing = frame.satisfy(column, x, y), frame.source.windowing
    first, last = earlier.getField("u"), later.getField("u")
    meet = first != last
    for name in frame.order[1:]:
        meet = meet | ~earlier.getField(name).eqNullSafe(later.getField(name))
    if windowing.kind == SLIDING:
        # The last window that has the earlier event has the later one, if any has both.
        meet = (last < first - F.pmod(first, F.lit(windowing.slide)) + F.lit(windowing.length)) & meet
    elif windowing.kind == SPAN:
        meet = (last <= first + F.lit(windowing.length)) & meet
    return F.when(meet, holds)
