"""Decides how the events of a task are put in order.

There are three ways:

- Spark sorts the rows after the shuffle, by comparing them.
- The kernel numbers the keys, sorts positions by the digits of times (radix sort), and moves every column once, which
  is faster for narrower events. A shuffle's cost grows with the number of rows, so events that the kernel sorts are
  packed into *parcels*, many events in one row, before the shuffle.
- Workers put events into *sorted runs*, many events of one key in one row, before the shuffle. That is possible if all
  columns are numbers, and done for events of many queries, or where the user asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.operators import EventsInOrder, Exchange, Operator, with_exchanges
from cetdsl.ir.sorting import AUTO, KERNEL, RUNS, SPARK, UNLIMITED, AskedSort, Sorting
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.expressions import Attribute, Expr
from cetdsl.pattern.text import quote_name
from cetdsl.planning.keeping import keeping_of
from cetdsl.planning.neighbours import why_left_to_spark

#: The types whose values the kernel can put in order, or tell apart, as Spark does.
_COMPARABLE = re.compile(
    r"tinyint|smallint|int|bigint|float|double|decimal\(.*\)|boolean|string|binary|date|timestamp|timestamp_ntz|"
    r"(var)?char\(.*\)"
)
#: The types of the numbers that runs may hold.
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
#: Bytes of a value by type; and those of other numbers, of texts, and of all else.
_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4, "boolean": 1}
_NUMBER_BYTES, _TEXT_BYTES, _NESTED_BYTES = 8, 24, 128
#: From so many bytes per event on, moving the columns is estimated to take longer than Spark's sort.
WIDE_EVENT = 512


def exchanged(plan: Operator) -> Operator:
    """Returns the plan with the exchanges that its operators require, and decides for each who sorts its events."""
    return _decided(with_exchanges(plan))


def _decided(plan: Operator) -> Operator:
    plan = plan.with_children(tuple(map(_decided, plan.children)))
    if not isinstance(plan, Exchange) or not isinstance(plan.gives_rows, EventsInOrder):
        return plan
    sorting = _sorting_of(plan.source, plan.compiled, plan.gives_rows)
    needed = attrs.evolve(plan.gives_rows, sorting=sorting)
    if plan.source.is_stream:
        needed = attrs.evolve(needed, keeping=keeping_of(plan.source, plan.compiled))
    return attrs.evolve(plan, gives_rows=needed)


def _sorting_of(source: Source, compiled: Compiled, needed: EventsInOrder) -> Sorting:
    """Decides how the events that a stage needs are put in order."""
    asked = source.sort.by
    sorting = who_sorts(source, compiled, needed.values, needed.columns or (), in_ranges=needed.in_panes)
    if needed.where_read:
        return sorting
    is_copied_first = needed.shared and (source.keys or source.windowing.cut or compiled.lists)
    if sorting.by_kernel and not is_copied_first and not source.is_stream:
        # Events are not packed if Spark copies them to shares first and keys, time buckets or lists need the single
        # copies: a parcel has events of several keys and buckets. A stream packs events where it keeps them.
        sorting = attrs.evolve(sorting, packed=True)
    why = _why_runs(asked, needed)
    if why is None:
        return sorting
    reason = _why_no_runs(source, compiled, needed)
    if reason is None:
        return attrs.evolve(sorting, runs=why)
    return attrs.evolve(sorting, why=f"{sorting.why}; no sorted runs: {reason}") if asked == RUNS else sorting


def _why_runs(asked: str, needed: EventsInOrder) -> str | None:
    """Returns why events should go in sorted runs; None if they should not.

    Runs save time if keys have many events each. With ten events per key or fewer, making the runs takes longer than
    they save, and the number of events per key is unknown at planning time. Only for many queries, which send more
    columns of each event, are runs expected to pay in any case.
    """
    if asked == RUNS:
        return "as asked for"
    return "many queries read them" if asked == AUTO and needed.for_many else None


def _why_no_runs(source: Source, compiled: Compiled, needed: EventsInOrder) -> str | None:
    """Returns why events cannot be put into sorted runs; None if nothing known before Spark's types prevents it."""
    if source.is_stream:
        return "those of a key come one micro-batch after the other"
    if source.tie_break or needed.settled or needed.shared:
        return "they are sorted by more than their time"
    if compiled.lists:
        return "lists of other events are sent with each"
    if needed.columns is not None or needed.kind is not None or needed.identified:
        return "more of an event is sent than numbers"
    terms = [*needed.values, *(code.expr for code in compiled.codes)]
    for name in (term.name for term in terms if isinstance(term, Attribute)):
        kind = source.schema.type_of(name)
        if kind not in _NUMBERS:
            return f"the type of {quote_name(name)}, {kind}, is no number of a machine"
    return None


def who_sorts(
    source: Source,
    compiled: Compiled,
    values: tuple[Expr, ...] = (),
    columns: tuple[str, ...] = (),
    *,
    in_ranges: bool = False,
) -> Sorting:
    """Decides whether Spark or the kernel sorts events, given the aggregated terms and the shown columns of each.

    A task holds all events of one group without windows in any case, unless it reads them in ranges of time, one after
    the other. The kernel then needs no bound for the bytes that it holds.
    """
    asked = source.sort
    if source.is_stream:
        return Sorting("Spark sorts no stream", asked.memory)
    if asked.by == SPARK:
        return Sorting("as asked for")
    reason = why_not_sorted_by_kernel(source)
    if reason is not None:
        return Sorting(reason)
    held = not source.keys and source.windowing.kind == WHOLE and not in_ranges
    memory = UNLIMITED if held else asked.memory
    if asked.by == KERNEL:
        return Sorting("as asked for", memory)
    width = _width(source, compiled, values, columns)
    return Sorting(f"cheaper for events of about {width} bytes", memory if width < WIDE_EVENT else 0)


def why_not_sorted_by_kernel(source: Source) -> str | None:
    """Returns why the kernel cannot put events in order; None if it can."""
    for name in (*source.keys, *source.tie_break):
        kind = source.schema.type_of(name) or ""
        if not _COMPARABLE.fullmatch(kind):
            return f"the kernel cannot compare {name!r}, of type {kind}, as Spark does"
    return None


#: The most rows that a condition may look away if the kernel sorts; it holds as many rows from batch to batch.
FARTHEST = 1024


@attrs.frozen
class OrderedRows:
    """The facts about the rows of a row pattern that decide who sorts them.

    Parameters
    ----------
    keys, order : tuple of str
        The types of the columns of PARTITION BY and of ORDER BY.
    shown : tuple of str
        The types of all columns that are sent.
    conditions : tuple of str
        The conditions, in SQL, that look at rows before or behind the row that they test.
    types : mapping of str to str
        The types of the columns that the conditions look at.
    farthest : int
        The number of rows that the conditions look away at most.
    held_back : str
        The reason why only Spark can evaluate the conditions; empty if there is none.
    """

    keys: tuple[str, ...]
    order: tuple[str, ...]
    shown: tuple[str, ...]
    conditions: tuple[str, ...]
    types: Mapping[str, str]
    farthest: int
    held_back: str = ""


def who_sorts_rows(asked: AskedSort, rows: OrderedRows) -> Sorting:
    """Decides who sorts rows and evaluates conditions on neighbouring rows: Spark's window functions, or the kernel."""
    if asked.by == SPARK:
        return Sorting("as asked for")
    for kind in (*rows.keys, *rows.order):
        if not _COMPARABLE.fullmatch(kind):
            return Sorting(f"the kernel cannot compare values of type {kind} as Spark does")
    if rows.order and re.match(r"string|binary|decimal|(var)?char", rows.order[0]):
        return Sorting(f"the kernel sorts by numbers and times first, and not by values of type {rows.order[0]}")
    if rows.held_back or rows.farthest > FARTHEST:
        return Sorting(rows.held_back or f"a condition looks {rows.farthest} rows away")
    for condition in rows.conditions:
        reason = why_left_to_spark(condition, rows.types)
        if reason is not None:
            return Sorting(f"a condition on neighbouring rows is evaluated by Spark: {reason}")
    width = sum(map(_bytes_of, rows.shown))
    if asked.by == AUTO and width >= WIDE_EVENT:
        return Sorting(f"cheaper for rows of about {width} bytes")
    why = "as asked for" if asked.by == KERNEL else f"cheaper for rows of about {width} bytes"
    return Sorting(why, asked.memory, packed=True)


def _width(source: Source, compiled: Compiled, values: tuple[Expr, ...], columns: tuple[str, ...]) -> int:
    """Returns about how many bytes an event takes on its way to a worker."""
    terms = [*values, *(code.expr for code in compiled.codes)]
    names = dict.fromkeys((*source.keys, *source.tie_break, *columns))
    names |= dict.fromkeys(term.name for term in terms if isinstance(term, Attribute))
    others = 1 + sum(not isinstance(term, Attribute) for term in terms)
    return others * _NUMBER_BYTES + sum(_bytes_of(source.schema.type_of(name) or "") for name in names)


def _bytes_of(kind: str) -> int:
    if kind in _BYTES:
        return _BYTES[kind]
    if kind in ("bigint", "double", "timestamp", "timestamp_ntz") or kind.startswith("decimal"):
        return _NUMBER_BYTES
    return _TEXT_BYTES if re.match(r"string|binary|(var)?char", kind) else _NESTED_BYTES
