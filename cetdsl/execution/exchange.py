"""Rows on their way to the tasks of their keys: projected, filtered, shuffled, and sorted there.

This is the one writer of the rows that kernels read; see :class:`~cetdsl.ir.layout.RowLayout`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
    VariantType,
)

from cetdsl.execution.compat import parallelism
from cetdsl.execution.lists import with_lists
from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.execution.source import EventFrame, Terms
from cetdsl.execution.worker import map_stage
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import (
    BUCKET,
    CODE,
    EVENT,
    FINGERPRINT,
    KEY,
    LIST,
    POSITION,
    SHARE,
    TIE,
    VALUE,
    EventColumn,
    InColumn,
    OfTime,
    OfVariable,
    RowLayout,
    RunSpec,
    numbered,
)
from cetdsl.ir.operators import EventsInOrder, Exchange, Operator, Requirement, RowsInOrder
from cetdsl.ir.shares import share_numbers
from cetdsl.ir.source import Source, kernel_sorts_shares
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.expressions import Attribute, Expr


@attrs.frozen
class Required:
    """What a stage requires of its events beside what its query refers to.

    Attributes
    ----------
    values : tuple of Expr
        What aggregates run over.
    event : tuple of str
        The event's own columns that are shown.
    identified : bool
        Whether events have one more column, the last, that tells them from all others.
    shares : int
        If > 0, so many tasks get every event of a key each, and the share that they are to work on.
    settled : bool
        Whether simultaneous events have an order that is the same whenever the rows are computed. Shares of a key agree
        on its trends only if all of them see its events in the same order, so theirs have.
    in_runs : bool
        Whether the events of a key are put together before they are sent, where they are numbers.
    in_panes : bool
        Whether events go to tasks by key and pane, each to one.
    """

    values: tuple[Expr, ...] = ()
    event: tuple[str, ...] = ()
    identified: bool = False
    shares: int = 0
    settled: bool = False
    in_runs: bool = False
    in_panes: bool = False


@attrs.frozen
class Exchanged:
    """Events in the tasks of their keys.

    Attributes
    ----------
    rows : DataFrame
    layout : RowLayout
    value_types : tuple of DataType
    frame : EventFrame
    """

    rows: DataFrame
    layout: RowLayout
    value_types: tuple[DataType, ...]
    frame: EventFrame

    def spec(self, planned: KernelSpec) -> KernelSpec:
        """What a kernel must know to answer a query over these rows."""
        return attrs.evolve(typed(planned, self.value_types), layout=self.layout)


def exchange(rows: DataFrame, by: Sequence[str], order: Sequence[Column | str] = (), tasks: int = 0) -> DataFrame:
    """Rows sent to the tasks of some columns, and sorted there.

    Only ``repartition(...).sortWithinPartitions(...)`` was seen to keep an order for a Python worker;
    ``groupBy().applyInArrow`` promises none.

    Parameters
    ----------
    rows : DataFrame
    by : sequence of str
        If none, all rows go to one task.
    order : sequence of Column or str
        If none, rows stay in the order in which they arrive.
    tasks : int, optional
        How many tasks there are; by default the session decides.
    """
    keys = list(map(F.expr, by))
    if tasks or not by:
        spread = rows.repartition(tasks or 1, *keys)
    else:
        spread = rows.repartition(*keys)
    ordered = [F.expr(column) if isinstance(column, str) else column for column in order]
    return spread.sortWithinPartitions(*ordered) if ordered else spread


def exchange_events(
    df: DataFrame, source: Source, compiled: Compiled, spec: KernelSpec, required: Required
) -> Exchanged:
    """Projects each event to what a kernel needs, sends it to its key's task and sorts it there, or lets the kernel."""
    if required.shares:
        required = attrs.evolve(required, settled=True)
    frame = EventFrame(df, source, compiled, by_dictionary=True, bare=not required.in_runs)
    terms, layout = _project(frame, spec, required)
    rows = _for_tasks(frame, spec, terms, layout)
    schema = rows.schema
    frame.refuse_collations(schema)
    types = tuple(schema[name].dataType for name in numbered(VALUE, len(required.values)))
    layout = layout.with_values(tuple(kind.simpleString() for kind in types))
    by, lone_share = list(layout.partition), layout.partition == (SHARE,)
    runs = run_spec(schema, len(by)) if required.in_runs and frame.encoding.bits else None
    if runs is not None:
        layout = attrs.evolve(layout, runs=runs)
        rows = map_stage(rows, "runs", runs, _run_schema(schema, runs))
    # A task has one share of a lone key, so that nothing is gained by sorting by it.
    order = [] if lone_share else by
    if required.shares and kernel_sorts_shares(source, compiled):
        layout = attrs.evolve(layout, unsorted=True)
    elif compiled.lists:
        order = [*order, *frame.order, POSITION]  # which lists refer to
    else:
        order = [*order, *(frame.settled_order if required.settled else frame.order)]
    rows = exchange(rows, by, order, required.shares if lone_share else 0)
    return Exchanged(rows, layout, types, frame)


def _project(frame: EventFrame, spec: KernelSpec, required: Required) -> tuple[Terms, RowLayout]:
    """The columns to select, and the layout of those that are sent."""
    lists = len(frame.compiled.lists)
    terms = frame.keys()
    if required.shares:
        terms[SHARE] = frame.shares(share_numbers(required.shares))
    if required.in_panes:
        terms[BUCKET] = frame.pane()
    elif spec.query.windowing.cut:
        terms[BUCKET] = _time_buckets(frame, spec)
    terms |= frame.instant()
    terms |= frame.codes
    terms |= {f"{VALUE}{n}": frame.term(expr) for n, expr in enumerate(required.values)}
    sent = list(terms)
    if lists:
        sent += [POSITION, *numbered(LIST, lists)]
    elif required.settled:
        sent.append(FINGERPRINT)  # sending it takes less than leaving it out of sorted rows
    if required.settled:
        terms[FINGERPRINT] = frame.fingerprint()
    # An event's columns as one struct would be sorted and sent later than flat ones.
    event = _event_columns(frame, sent, required.event)
    own: Terms = {
        found.name: frame.own_name(name)
        for name, found in zip(required.event, event, strict=True)
        if isinstance(found, InColumn) and found.name not in sent
    }
    if required.identified:
        event.append(InColumn(f"{EVENT}{len(event)}"))
        own[f"{EVENT}{len(required.event)}"] = "monotonically_increasing_id()"
    layout = attrs.evolve(spec.layout, columns=(*sent, *own), encoding=frame.encoding, event=tuple(event))
    return terms | own, layout


def _for_tasks(frame: EventFrame, spec: KernelSpec, terms: Terms, layout: RowLayout) -> DataFrame:
    """The rows that some variable can bind, once for each time bucket and each share that needs them."""
    if layout.lists:
        rows = with_lists(frame, terms)
    else:
        rows = frame.select({name: terms[name] for name in layout.columns})
    if spec.query.windowing.cut and _overlaps(spec):
        rows = rows.withColumn(BUCKET, F.explode(BUCKET))
    if layout.has(SHARE):
        rows = rows.withColumn(SHARE, F.explode(SHARE))
    return rows.selectExpr(*layout.columns) if layout.lists else rows


def _event_columns(frame: EventFrame, sent: Sequence[str], shown: tuple[str, ...]) -> list[EventColumn]:
    """Where each of the user's columns is found that are shown: among those that are sent, as it is, or apart."""
    source = frame.source
    codes = [
        code.expr.name if isinstance(code.expr, Attribute) and kind == frame.type_of(code.expr.name) else None
        for code, kind in zip(frame.compiled.codes, frame.code_types)
    ]
    others: list[tuple[str, Sequence[str | None]]] = [(KEY, source.keys), (TIE, source.tie_break), (CODE, codes)]
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


def _overlaps(spec: KernelSpec) -> bool:
    return spec.query.windowing.kind == SPAN or spec.query.windowing.slide < spec.query.windowing.length


def _time_buckets(frame: EventFrame, spec: KernelSpec) -> Column:
    if _overlaps(spec):
        return frame.time_buckets(looks_back=spec.query.windowing.kind == SPAN and bool(spec.query.negations))
    return frame.time_bucket()


def typed(spec: KernelSpec, value_types: tuple[DataType, ...]) -> KernelSpec:
    """The specification with the types that Spark found for the aggregated terms."""
    texts = tuple(kind.simpleString() for kind in value_types)
    outputs = []
    for output in spec.answer.outputs:
        column = spec.answer.accumulators[output.value].column
        outputs.append(attrs.evolve(output, type=texts[column] if column >= 0 else ""))
    return attrs.evolve(spec, layout=spec.layout.with_values(texts)).with_answer(outputs=tuple(outputs))


# ---------------------------------------------------------------------------------------------------- sorted runs


#: The types of numbers that runs may hold, as NumPy knows them.
_IN_RUNS: dict[type[DataType], str] = {
    ByteType: "<i1",
    ShortType: "<i2",
    IntegerType: "<i4",
    LongType: "<i8",
    FloatType: "<f4",
    DoubleType: "<f8",
}


def run_spec(schema: StructType, keys: int) -> RunSpec | None:
    """How rows of so many keys, a time and numbers are put into runs; None if some column cannot be.

    Examples
    --------
    >>> from pyspark.sql.types import StringType
    >>> fields = [StructField("k0", StringType()), StructField("t", LongType()), StructField("v0", DoubleType())]
    >>> run_spec(StructType(fields), 1)
    RunSpec(keys=1, columns=('<i8', '<f8'))
    """
    nested = (ArrayType, MapType, StructType, VariantType)
    if any(isinstance(field.dataType, nested) for field in schema.fields[:keys]):
        return None
    columns = [_IN_RUNS.get(type(field.dataType)) for field in schema.fields[keys:]]
    known = [column for column in columns if column is not None]
    return RunSpec(keys, tuple(known)) if len(known) == len(columns) else None


def _run_schema(schema: StructType, runs: RunSpec) -> StructType:
    return StructType([*schema.fields[: runs.keys + 1], StructField("p", BinaryType())])


# ------------------------------------------------------------------------------------------- what operators require


@runs(Exchange)
def carry_out(df: DataFrame, plan: Exchange) -> Rows:
    """The rows of the operator below, as they are required."""
    return _CARRY_OUT[type(plan.gives_rows)](df, plan.child, plan.gives_rows)


def _events_in_order(df: DataFrame, below: Operator, needed: EventsInOrder) -> Rows:
    shares = parallelism(df.sparkSession) if needed.shared else 0
    required = Required(
        needed.values,
        needed.columns or (),
        needed.identified,
        shares,
        settled=needed.settled,
        in_panes=needed.in_panes,
    )
    events = exchange_events(df, below.source, below.compiled, needed.spec, required)
    return Rows(events.rows, events.frame, events.value_types, events.spec(needed.spec), shares)


def _rows_in_order(df: DataFrame, below: Operator, needed: RowsInOrder) -> Rows:
    rows = execute(df, below)
    data = rows.data.selectExpr(*needed.select) if needed.select else rows.data
    return rows.now(exchange(data, needed.by, [*needed.by, *needed.order]))


_CARRY_OUT: dict[type[Requirement], Callable[[DataFrame, Operator, Any], Rows]] = {
    EventsInOrder: _events_in_order,
    RowsInOrder: _rows_in_order,
}
