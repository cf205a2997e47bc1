"""Sends rows to the tasks of their keys: projects, filters and shuffles them, and sorts them in these tasks.

This module alone writes the rows that kernels read; see :class:`~cetdsl.ir.layout.RowLayout`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.analysis.types import is_collated
from cetdsl.execution.compat import bytes_of, parallelism, refuse_unsendable, shuffle_tasks
from cetdsl.execution.lists import with_lists
from cetdsl.execution.live_events import kept_whole
from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.execution.parcels import in_batches, packed_by_share, shares_of_bytes
from cetdsl.execution.source import EventFrame, Terms
from cetdsl.execution.streams import gathered, gathered_panes, gathered_parcels, sent_in_order
from cetdsl.execution.worker import map_stage
from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.layout import (
    BUCKET,
    CODE,
    EVENT,
    FINGERPRINT,
    FIRST,
    KEY,
    KIND,
    LIST,
    POSITION,
    SHARE,
    TESTS,
    TIE,
    TIME,
    UNTIL,
    VALUE,
    EventColumn,
    InColumn,
    OfTime,
    OfVariable,
    RowLayout,
    RunSpec,
    in_repeated_parcels,
    numbered,
)
from cetdsl.ir.operators import BuildPanes, EventsInOrder, Exchange, InEveryShare, Operator, PanesInOrder, RowsInOrder
from cetdsl.ir.shares import share_numbers
from cetdsl.ir.sorting import AUTO, AskedSort, Sorting
from cetdsl.ir.source import Source
from cetdsl.ir.stages import LearnSpec
from cetdsl.ir.windowing import TIME_RANGES, WHOLE, Windowing, overlaps, panes_apart
from cetdsl.pattern.expressions import Attribute

#: Up to about so many bytes, sending events one by one takes less time than starting the workers that pack them:
#: 0.19 s against 0.26 s per query of 1,000 events. From three times as many bytes on, packing pays.
FEW_BYTES = 2 << 20
#: Returns about how many bytes Spark expects to read for some rows, or None; a function, because asking takes time.
Size: TypeAlias = Callable[[], "int | None"]


def exchange(
    rows: DataFrame,
    by: Sequence[str],
    order: Sequence[Column | str] = (),
    tasks: int = 0,
    size: Size | None = None,
) -> DataFrame:
    """Shuffles rows by some columns (without columns: to one task), and sorts them within tasks if an order is given.

    ``groupBy().applyInArrow`` is not used because it promises no order. The session sets the number of tasks unless
    ``tasks`` does; if ``size`` returns few bytes, only some of these tasks get rows.
    """
    if tasks or not by:
        spread = rows.repartition(tasks or 1, *map(F.expr, by))
    else:
        spread = rows.repartition(*map(F.expr, _shares_of(rows, by, size)))
    ordered = [F.expr(column) if isinstance(column, str) else column for column in order]
    return spread.sortWithinPartitions(*ordered) if ordered else spread


def _shares_of(rows: DataFrame, by: Sequence[str], size: Size | None) -> Sequence[str]:
    """Returns what rows are shuffled by: the columns themselves, or the number of their share if there are few shares.

    Texts of a collation are left to Spark's shuffle, as equal ones may have different hashes.
    """
    if size is None or (known := size()) is None:
        return by
    shares = shares_of_bytes(rows.sparkSession, known)
    kinds = (rows.schema[name].dataType.simpleString() for name in by)
    if len(shares) == shuffle_tasks(rows.sparkSession) or any(map(is_collated, kinds)):
        return by
    numbers = ", ".join(map(str, shares))
    return [f"element_at(array({numbers}), 1 + pmod(hash({', '.join(by)}), {len(shares)}))"]


def exchange_parcels(rows: DataFrame, columns: Sequence[str], by: Sequence[str], size: Size) -> DataFrame:
    """Packs rows into parcels, and shuffles these by the columns ``by``; without such columns, all go to one task.

    ``size`` is only called, and Spark only asked, if there are such columns.
    """
    shares = shares_of_bytes(rows.sparkSession, size()) if by else share_numbers(1)
    parcels = packed_by_share(rows, columns, by, shares)
    return in_batches(exchange(parcels, ("share",) if by else ()))


def _copied_parcels(rows: DataFrame, layout: RowLayout, shares: int) -> DataFrame:
    """Sends all rows of the only key to each share: packs them once, and copies the parcels."""
    columns = [name for name in layout.columns if name != SHARE]
    parcels = packed_by_share(rows, columns, (), share_numbers(1)).select(_every_share(shares), "p")
    return in_batches(exchange(parcels, (SHARE,), (), shares), SHARE)


def _every_share(shares: int) -> Column:
    """Returns the number of each share, a row for each."""
    return F.explode(F.array(*map(F.lit, share_numbers(shares)))).alias(SHARE)


def _events_in_order(df: DataFrame, below: Operator, needed: EventsInOrder) -> Rows:
    """Projects events to what a kernel needs, and sends them to the tasks of their keys; Spark or the kernel sorts."""
    source, spec = below.source, needed.spec
    if needed.keeping.whole:
        df = kept_whole(df, EventFrame(df, source, below.compiled), spec.query.windowing)
    shares = parallelism(df.sparkSession) if needed.shared else 0
    needed = attrs.evolve(needed, sorting=_sorting_of(df, below, needed), settled=needed.settled or needed.shared)
    frame, rows, layout = _selected(df, below, needed, shares)
    types = tuple(rows.schema[name].dataType for name in numbered(VALUE, len(needed.values)))
    layout = layout.with_values(tuple(kind.simpleString() for kind in types))
    by, lone_share = list(layout.partition), layout.partition == (SHARE,)
    in_runs = run_spec(rows.schema, len(by)) if needed.sorting.in_runs else None
    if in_runs is not None:
        layout = attrs.evolve(layout, runs=in_runs)
        packed = T.StructType([*rows.schema.fields[: in_runs.keys + 1], T.StructField("p", T.BinaryType())])
        rows = map_stage(rows, "runs", in_runs, packed)
    elif needed.sorting.in_runs:
        return _events_in_order(df, below, attrs.evolve(needed, sorting=needed.sorting.without_runs))
    # A task has only one share of a single key, so sorting by the share would be useless.
    order = [*([] if lone_share else by), *layout.order]
    if needed.sorting.by_kernel:
        layout, order = attrs.evolve(layout, sort_memory=needed.sorting.memory), []
    size = _size(df, below, needed)
    if needed.keeping.in_parcels:
        kept, given = _kept_for(needed), _given(needed, layout)
        read = attrs.evolve(typed(spec, types), layout=given)
        learning = LearnSpec(read, needed.learning) if needed.learns else None
        rows = gathered_parcels(frame, kept, rows, layout, given, _asked_of_events(needed), learning)
        layout = given
    elif needed.sorting.in_parcels:
        if shares:
            rows = _copied_parcels(rows, layout, shares)
        else:
            rows = exchange_parcels(rows, layout.columns, by, size)
        layout = attrs.evolve(layout, in_parcels=True)
    elif needed.where_read:
        rows = rows.sortWithinPartitions(*map(F.expr, order)) if order else rows
    elif not source.is_stream:
        rows = exchange(rows, by, order, shares if lone_share else 0, size)
    return Rows(rows, frame, types, attrs.evolve(typed(spec, types), layout=layout), shares)


def sent_for_size(sorting: Sorting, asked: AskedSort, size: Size) -> Sorting:
    """Returns how rows are sorted, without parcels and runs if nothing is asked for and Spark expects few bytes."""
    if not (sorting.in_parcels or sorting.in_runs) or asked.by != AUTO:
        return sorting
    known = size()
    return sorting if known is None or known > FEW_BYTES else attrs.evolve(sorting.without_runs, packed=False)


def _sorting_of(df: DataFrame, below: Operator, needed: EventsInOrder) -> Sorting:
    """Returns how events are sorted, given how many bytes Spark expects."""
    if needed.shared:
        return needed.sorting  # events of the only key are packed once, and copied to each share
    return sent_for_size(needed.sorting, below.source.sort, _size(df, below, needed))


def _size(df: DataFrame, below: Operator, needed: EventsInOrder) -> Size:
    """Returns what asks Spark about how many bytes of events are sent."""
    return partial(_bytes_sent, df, below.source, needed.spec.query.windowing)


def _bytes_sent(df: DataFrame, source: Source, windowing: Windowing) -> int | None:
    """Returns about how many bytes of events are sent, with their copies for time buckets; None if that is unknown."""
    size = bytes_of(df, source.columns)
    if size is None or not (windowing.cut and overlaps(windowing)):
        return size
    return size * (1 + -(-windowing.length // windowing.cut))


def _selected(
    df: DataFrame, below: Operator, needed: EventsInOrder, shares: int
) -> tuple[EventFrame, DataFrame, RowLayout]:
    """Selects the events as a kernel needs them, and returns them with the layout of their columns."""
    # Runs need time as a number, which it is where it is packed with the variables, so variables stay.
    bare = not needed.sorting.in_runs
    frame = EventFrame(df, below.source, below.compiled, by_dictionary=True, bare=bare, tests=needed.tests)
    terms, layout = _project(frame, needed, shares)
    rows = _for_tasks(frame, needed, terms, layout)
    frame.refuse_incomparable(rows.schema)
    refuse_unsendable(rows.schema)
    return frame, rows, layout


def _project(frame: EventFrame, needed: EventsInOrder, shares: int) -> tuple[Terms, RowLayout]:
    """Returns the columns to select, and the layout of those that are sent."""
    spec, shown, lists = needed.spec, needed.columns or (), len(frame.compiled.lists)
    terms = frame.keys()
    if shares:
        terms[SHARE] = frame.shares(share_numbers(shares))
    if needed.where_read and (part := frame.part_of_file()):
        terms[SHARE] = part
    if needed.keeping.whole:
        terms |= {BUCKET: f"c{len(frame.fields) - 2}", UNTIL: f"c{len(frame.fields) - 1}"}
    elif needed.where_read and spec.query.windowing.kind == WHOLE:
        pass  # all events are one pane
    elif needed.in_panes:
        terms[BUCKET] = frame.range_of_time(TIME_RANGES) if spec.query.windowing.kind == WHOLE else frame.pane()
    elif spec.query.windowing.cut:
        terms[BUCKET] = frame.time_buckets(spec.query.looks_back)
    terms |= frame.instant()
    terms |= frame.codes
    terms |= {f"{VALUE}{n}": frame.term(expr) for n, expr in enumerate(needed.values)}
    if needed.kind is not None:
        terms[f"{KIND}0"] = frame.own_name(needed.kind)
    terms |= {f"{TESTS}{n}": word for n, word in enumerate(frame.words())}
    sent = list(terms)
    if lists:
        sent += [POSITION, *numbered(LIST, lists)]
    elif needed.settled:
        sent.append(FINGERPRINT)  # a projection that drops it after sorting would take longer than sending it
    if needed.settled:
        terms[FINGERPRINT] = frame.fingerprint()
    # Spark sorts and sends flat columns faster than one struct of an event's columns.
    event = _event_columns(frame, sent, shown, needed.kind)
    own: Terms = {
        found.name: frame.own_name(name)
        for name, found in zip(shown, event, strict=True)
        if isinstance(found, InColumn) and found.name not in sent
    }
    if needed.identified:
        event.append(InColumn(f"{EVENT}{len(event)}"))
        own[f"{EVENT}{len(shown)}"] = "monotonically_increasing_id()"
    layout = attrs.evolve(spec.layout, columns=(*sent, *own), encoding=frame.encoding, event=tuple(event))
    return terms | own, layout


def _for_tasks(frame: EventFrame, needed: EventsInOrder, terms: Terms, layout: RowLayout) -> DataFrame:
    """Selects the rows that some variable can bind, once for each time bucket and each share that needs them."""
    spec = needed.spec
    if needed.keeping.whole:
        return frame.select({name: terms[name] for name in layout.columns})
    if needed.shared and needed.sorting.in_parcels:
        return frame.select({name: terms[name] for name in layout.columns if name != SHARE})
    if frame.source.is_stream:
        query = _kept_for(needed)
        if needed.keeping.in_parcels:
            return frame.select({name: terms[name] for name in layout.columns if name != BUCKET})
        return gathered(frame, query, terms, layout, _asked_of_events(needed))
    if layout.lists:
        rows = with_lists(frame, terms)
    else:
        rows = frame.select({name: terms[name] for name in layout.columns})
    if spec.query.windowing.cut and overlaps(spec.query.windowing):
        rows = rows.withColumn(BUCKET, F.explode(BUCKET))
    if needed.shared:
        rows = rows.withColumn(SHARE, F.explode(SHARE))
    return rows.selectExpr(*layout.columns) if layout.lists else rows


def _given(needed: EventsInOrder, layout: RowLayout) -> RowLayout:
    """Returns the layout of the parcels that a stream gives when time buckets close.

    Parcels that are kept once have the first and the last of their buckets. Those that are kept by window are repeated
    for each of their buckets, if windows overlap.
    """
    if needed.keeping.once:
        return attrs.evolve(layout, columns=(*layout.columns, UNTIL), in_parcels=True, learned=needed.learns)
    if overlaps(_kept_for(needed).windowing):
        return in_repeated_parcels(layout)
    # Panes are packed by the shares of their events.
    return attrs.evolve(layout, columns=(*layout.columns, *([SHARE] if needed.in_panes else [])), in_parcels=True)


def _kept_for(needed: EventsInOrder) -> KernelQuery:
    """Returns the query with the windows by which a stream keeps its events."""
    query = needed.spec.query
    return attrs.evolve(query, windowing=panes_apart(query.windowing)) if needed.in_panes else query


def _asked_of_events(needed: EventsInOrder) -> object:
    """Returns the columns and terms of each event that are needed beside those that the query refers to."""
    return needed.values, needed.columns, needed.kind, needed.tests


def _event_columns(
    frame: EventFrame, sent: Sequence[str], shown: tuple[str, ...], kind_column: str | None
) -> list[EventColumn]:
    """Finds the source of each shown column: a column that is sent in any case, or a column of its own."""
    source = frame.source
    codes = [
        code.expr.name if isinstance(code.expr, Attribute) and kind == frame.type_of(code.expr.name) else None
        for code, kind in zip(frame.compiled.codes, frame.code_types)
    ]
    kinds = (kind_column,) if kind_column is not None else ()
    others: list[tuple[str, Sequence[str | None]]] = [
        (KEY, source.keys),
        (TIE, source.tie_break),
        (CODE, codes),
        (KIND, kinds),
    ]
    texts = frame.fixed_texts()
    found: list[EventColumn] = []
    for number, name in enumerate(shown):
        kind = frame.type_of(name)
        if name in texts:
            found.append(OfVariable(texts[name]))
        elif name == source.time and kind.simpleString() in ("timestamp", "timestamp_ntz", "bigint"):
            found.append(OfTime())
        else:
            # A key of 0.0 may have been -0.0.
            rounded = kind.typeName() in ("float", "double")
            twins = (
                f"{role}{columns.index(name)}"
                for role, columns in others
                if name in columns and not (role == KEY and rounded)
            )
            found.append(InColumn(next((twin for twin in twins if twin in sent), f"{EVENT}{number}")))
    return found


def typed(spec: KernelSpec, value_types: tuple[T.DataType, ...]) -> KernelSpec:
    """Returns the specification with the types that Spark found for the aggregated terms."""
    texts = tuple(kind.simpleString() for kind in value_types)
    outputs = []
    for output in spec.answer.outputs:
        column = spec.answer.accumulators[output.value].column
        outputs.append(attrs.evolve(output, type=texts[column] if column >= 0 else ""))
    return attrs.evolve(spec, layout=spec.layout.with_values(texts)).with_answer(outputs=tuple(outputs))


#: The types of numbers that runs may hold, as NumPy knows them.
_IN_RUNS: dict[type[T.DataType], str] = {
    T.ByteType: "<i1",
    T.ShortType: "<i2",
    T.IntegerType: "<i4",
    T.LongType: "<i8",
    T.FloatType: "<f4",
    T.DoubleType: "<f8",
}


def run_spec(schema: T.StructType, keys: int) -> RunSpec | None:
    """Returns how rows of keys, a time and numbers are put into sorted runs; None if some column cannot be.

    Examples
    --------
    >>> run_spec(T.StructType().add("k0", "string").add("t", "long").add("v0", "double"), 1)
    RunSpec(keys=1, columns=('<i8', '<f8'))
    """
    nested = (T.ArrayType, T.MapType, T.StructType, T.VariantType)
    if any(isinstance(field.dataType, nested) for field in schema.fields[:keys]):
        return None
    columns = [_IN_RUNS.get(type(field.dataType)) for field in schema.fields[keys:]]
    known = [column for column in columns if column is not None]
    return RunSpec(keys, tuple(known)) if len(known) == len(columns) else None


@runs(Exchange)
def carry_out(df: DataFrame, plan: Exchange) -> Rows:
    """Gives the rows of the operator below in the form that the operator above requires."""
    needed = plan.gives_rows
    if isinstance(needed, EventsInOrder):
        return _events_in_order(df, plan.child, needed)
    rows = execute(df, plan.child)
    if isinstance(needed, InEveryShare):
        shares = parallelism(df.sparkSession)
        copied = rows.data.select(_every_share(shares), "*")
        return attrs.evolve(rows, data=exchange(copied, (SHARE,), (needed.order,), shares), shares=shares)
    if isinstance(needed, PanesInOrder):
        if plan.source.is_stream:
            panes = plan.child
            assert isinstance(panes, BuildPanes), panes
            keys = [field.simpleString() for field in rows.frame.key_fields(KEY, plan.source.keys)]
            asked = keys, panes.compiled.variables, panes.values, panes.spec.query, panes.spec.answer
            return rows.now(gathered_panes(rows.data, plan.source, asked))
        by = numbered(KEY, len(plan.source.keys))
        order = [*by, TIME, *([FIRST] if needed.in_stretches else [])]
        return rows.now(exchange(rows.data, by, order, size=partial(bytes_of, df, plan.source.columns)))
    assert isinstance(needed, RowsInOrder), needed
    data = rows.data.selectExpr(*needed.select) if needed.select else rows.data
    if plan.source.is_stream:
        return rows.now(sent_in_order(data, needed, plan.source.sort.memory))
    return rows.now(exchange(data, needed.by, [*needed.by, *needed.order]))


def as_carried_out(df: DataFrame, plan: Operator) -> Operator:
    """Returns the plan as it is carried out, given what only Spark knows.

    Events are put into sorted runs only if all columns are numbers according to Spark's types, and packed only if Spark
    expects many bytes of them.
    """
    if not isinstance(plan, Exchange):
        return plan.with_children(tuple(as_carried_out(df, child) for child in plan.children))
    needed = plan.gives_rows
    if isinstance(needed, EventsInOrder):
        sorting = _sorting_of(df, plan.child, needed)
        if sorting.in_runs and execute(df, plan).spec.layout.runs is None:
            sorting = sorting.without_runs
        needed = attrs.evolve(needed, sorting=sorting)
    return Exchange(as_carried_out(df, plan.child), needed)
