"""A workload as DataFrames: one stage per pass, whose rows are then told apart by query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from cetdsl.errors import ResolutionError
from cetdsl.execution.aggregate import Shipment, output_type, partial_fields, ship, shipped, typed, window_field
from cetdsl.execution.compat import arrow_type
from cetdsl.execution.expressions import combine, of_first
from cetdsl.execution.run import run
from cetdsl.execution.worker import map_stage
from cetdsl.ir.stages import WorkloadSpec
from cetdsl.ir.windowing import SLIDING
from cetdsl.planning.workload import Pass, Sharing, WorkloadPlan

#: Columns of a pass before the pool: query, keys, start of the window, window, metrics.
_QUERY, _START, _WINDOW, _METRICS = "q", "w", "window", "metrics"


@attrs.frozen
class Answered:
    """Where the answer of one query lies among the rows of a pass.

    Attributes
    ----------
    name : str
    rows : DataFrame
    number : int
        -1: all rows are its own, under the names of the answer.
    groups, outputs : tuple of (str, str)
        The name in the answer and the column of the rows.
    sliding : bool
    """

    name: str
    rows: DataFrame
    number: int
    groups: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    sliding: bool

    def answer(self) -> DataFrame:
        """The answer of the query alone."""
        if self.number < 0:
            return self.rows
        shown = [*self.groups, *([(_WINDOW, _WINDOW)] if self.sliding else []), *self.outputs]
        own = self.rows.filter(F.col(_QUERY) == self.number)
        return own.select(*(F.col(column) for _, column in shown)).toDF(*(name for name, _ in shown))

    def type_of(self, column: str) -> DataType:
        """The type of a column of the rows."""
        return next(field.dataType for field in self.rows.schema.fields if field.name == column)


@attrs.frozen
class WorkloadRows:
    """The rows of all passes, and whose they are."""

    passes: tuple[DataFrame, ...]
    answered: tuple[Answered, ...]

    def results(self) -> dict[str, DataFrame]:
        """The answer of each query."""
        return {one.name: one.answer() for one in self.answered}

    def metrics(self) -> DataFrame | None:
        """One row per task and set of queries that share; None if there is no pass."""
        parts = [rows.filter(F.col(_QUERY) < 0).select(_METRICS) for rows in self.passes]
        return reduce(DataFrame.union, parts) if parts else None


def workload_rows(df: DataFrame, plan: WorkloadPlan, order: Sequence[str]) -> WorkloadRows:
    """The rows of a workload, lazily; ``order`` names the queries in the order of the answer."""
    passes, answered = [], dict[str, Answered]()
    for one in plan.passes:
        rows, found = _pass_rows(df, one, plan.sharing)
        passes.append(rows)
        answered |= {each.name: each for each in found}
    for alone in plan.alone:
        rows = run(df, alone.decision.plan)
        groups = tuple((group, group) for group in alone.groups)
        outputs = tuple((column, column) for column in rows.columns[len(groups) + alone.sliding :])
        answered[alone.name] = Answered(alone.name, rows, -1, groups, outputs, alone.sliding)
    return WorkloadRows(tuple(passes), tuple(answered[name] for name in order))


class PreparedPass(NamedTuple):
    """The sorted events of one pass, what the kernel must know, and the columns of its rows.

    Attributes
    ----------
    shipment : Shipment
    spec : WorkloadSpec
    partial : tuple of DataType
        The columns of partial results; those of the answer where nothing is merged.
    final : tuple of DataType
    places : tuple of tuple of int
        Which of ``final`` each query uses.
    """

    shipment: Shipment
    spec: WorkloadSpec
    partial: tuple[DataType, ...]
    final: tuple[DataType, ...]
    places: tuple[tuple[int, ...], ...]


def prepare_pass(df: DataFrame, plan: Pass, sharing: Sharing) -> PreparedPass:
    """Ships the events of one pass, and says what is to be done with them."""
    shipment = ship(df, plan.source, plan.compiled, plan.reader, plan.values, in_runs=True)
    types = shipment.value_types
    specs = tuple(typed(member.spec, types) for member in plan.members)
    numbers = {member.name: number for number, member in enumerate(plan.members)}
    propagated = [member.propagation for member in plan.members]
    final, places = _pool(
        [[output_type(o, spec.answer.number, types, spec) for o in spec.answer.outputs] for spec in specs]
    )
    partial, partial_places = final, places
    if plan.merge:
        partial, partial_places = _pool([[f.dataType for f in partial_fields(spec, types)] for spec in specs])
    spec = WorkloadSpec(
        shipped(plan.reader, shipment),
        tuple(member.name for member in plan.members),
        specs,
        tuple(member.groups for member in plan.members),
        _arrow_pool(partial),
        partial_places,
        (),
        plan.families,
        (
            *(tuple(numbers[name] for name in one.queries) for one in plan.sets),
            *((number,) for number, how in enumerate(propagated) if how.in_bursts),
        ),
        tuple(how.why_not_in_panes is None for how in propagated),
        sharing.mode,
        tuple(sharing.deviations.get(member.name) for member in plan.members),
    )
    return PreparedPass(shipment, spec, partial, final, places)


def _pass_rows(df: DataFrame, plan: Pass, sharing: Sharing) -> tuple[DataFrame, list[Answered]]:
    shipment, spec, partial, final, places = prepare_pass(df, plan, sharing)
    keys = shipment.frame.key_fields("g", plan.source.groups)
    head = [StructField(_QUERY, LongType()), *keys, StructField(_START, LongType())]
    head += [window_field(plan.source.time_type), StructField(_METRICS, StringType())]
    rows = map_stage(shipment.rows, "workload", spec, _schema(head, partial))
    if plan.merge:
        by = [_QUERY, *(field.name for field in keys), _START]
        merging = attrs.evolve(spec, pool=_arrow_pool(final), places=places, partial_places=spec.places)
        rows = map_stage(
            rows.repartition(*by).sortWithinPartitions(*by), "merge workload", merging, _schema(head, final)
        )
    answered = [
        Answered(
            member.name,
            rows,
            number,
            tuple((name, f"g{key}") for name, key in zip(member.group_names, member.groups, strict=True)),
            tuple((output.name, f"p{place}") for output, place in zip(own.answer.outputs, at, strict=True)),
            own.query.windowing.kind == SLIDING,
        )
        for number, (member, own, at) in enumerate(zip(plan.members, spec.queries, places, strict=True))
    ]
    return rows, answered


def _schema(head: list[StructField], pool: tuple[DataType, ...]) -> StructType:
    return StructType(head + [StructField(f"p{number}", kind) for number, kind in enumerate(pool)])


def _pool(wanted: list[list[DataType]]) -> tuple[tuple[DataType, ...], tuple[tuple[int, ...], ...]]:
    """The fewest columns that give each query one of every type it wants, and which ones it uses."""
    numbers: dict[tuple[str, int], int] = {}
    pool: list[DataType] = []
    places = []
    for kinds in wanted:
        used: Counter[str] = Counter()
        own = []
        for kind in kinds:
            key = (kind.json(), used[kind.json()])
            used[kind.json()] += 1
            if key not in numbers:
                numbers[key] = len(pool)
                pool.append(kind)
            own.append(numbers[key])
        places.append(tuple(own))
    return tuple(pool), tuple(places)


def _arrow_pool(pool: tuple[DataType, ...]) -> tuple[tuple[str, bytes], ...]:
    fields = [pa.field(f"p{number}", arrow_type(kind)) for number, kind in enumerate(pool)]
    return tuple((field.name, pa.schema([field]).serialize().to_pybytes()) for field in fields)


# ------------------------------------------------------------------------------------------ one answer for all


def union_of_answers(rows: WorkloadRows) -> DataFrame:
    """All answers as one DataFrame: ``query``, ``group``, ``window`` and the union of the aggregates.

    ``group`` is left out where no query has group columns, ``window`` where none slides.
    """
    columns = _Columns(rows.answered)
    parts = []
    for passed in rows.passes:
        parts.append(columns.of([one for one in rows.answered if one.rows is passed], passed))
    parts += [columns.of([one], one.rows) for one in rows.answered if one.number < 0]
    return reduce(DataFrame.union, parts)


class _Columns:
    """The columns of the common answer."""

    def __init__(self, answered: Sequence[Answered]) -> None:
        self.groups: dict[str, tuple[str, DataType]] = {}
        self.outputs: dict[str, tuple[str, DataType]] = {}
        self.window: DataType | None = None
        owners: dict[str, str] = {}
        for one in answered:
            for name, column in one.groups:
                self.groups.setdefault(name.casefold(), (name, one.type_of(column)))
            for name, column in one.outputs:
                kind = one.type_of(column)
                known, first = self.outputs.setdefault(name.casefold(), (name, kind)), owners.setdefault(name, one.name)
                if known[1] != kind:
                    raise ResolutionError(
                        f"the queries {first!r} and {one.name!r} both return {name!r}, of different types "
                        f"({known[1].simpleString()} and {kind.simpleString()})",
                        hint="rename one of them with AS, or take the answers apart with results()",
                    )
            if one.sliding:
                self.window = one.type_of(_WINDOW)
        for name in ("query", "group", "window"):
            if name in self.outputs:
                raise ResolutionError(
                    f"an aggregate of the name {name!r} clashes with the column {name!r} of the answer",
                    hint="rename it with AS, or take the answers apart with results()",
                )

    def of(self, answered: Sequence[Answered], rows: DataFrame) -> DataFrame:
        """The answers that lie in some rows."""
        columns = [_name(answered).alias("query")]
        if self.groups:
            groups = [
                self._picked([(one, dict(_folded(one.groups)).get(key)) for one in answered], kind).alias(shown)
                for key, (shown, kind) in self.groups.items()
            ]
            columns.append(F.struct(*groups).alias("group"))
        if self.window is not None:
            of_window = [(one, _WINDOW if one.sliding else None) for one in answered]
            columns.append(self._picked(of_window, self.window).alias("window"))
        for key, (shown, kind) in self.outputs.items():
            found = [(one, dict(_folded(one.outputs)).get(key)) for one in answered]
            columns.append(self._picked(found, kind).alias(shown))
        kept = rows.filter(F.col(_QUERY) >= 0) if answered[0].number >= 0 else rows
        return kept.select(*columns)

    def _picked(self, found: Sequence[tuple[Answered, str | None]], kind: DataType) -> Column:
        """The column of each query's own; NULL for the queries that have none."""
        by_column: dict[str, list[Answered]] = {}
        for one, column in found:
            if column is not None:
                by_column.setdefault(column, []).append(one)
        picked = []
        for column, owners in by_column.items():
            value = F.col(f"`{column.replace('`', '``')}`")
            if len(owners) == len(found):
                return value
            picked.append((combine(Column.__or__, [_is(one) for one in owners]), value))
        return of_first(picked, F.lit(None).cast(kind))


def _name(answered: Sequence[Answered]) -> Column:
    """The name of the query that a row is of."""
    if answered[0].number < 0:
        return F.lit(answered[0].name)
    names = [one.name for one in sorted(answered, key=lambda one: one.number)]
    # One literal, which Spark reads once, instead of as many calls as there are queries.
    return F.get(F.from_json(F.lit(json.dumps(names)), "array<string>"), F.col(_QUERY).cast("int"))


def _is(one: Answered) -> Column:
    return F.lit(True) if one.number < 0 else F.col(_QUERY) == one.number


def _folded(pairs: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(name.casefold(), column) for name, column in pairs]
