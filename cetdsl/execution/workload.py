"""Executes a workload: one stage per pass, whose rows are then separated by query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from cetdsl.errors import ResolutionError
from cetdsl.execution.aggregate import output_type, partial_fields
from cetdsl.execution.compat import arrow_type, is_case_sensitive, own_errors
from cetdsl.execution.exchange import typed
from cetdsl.execution.expressions import combine, of_first
from cetdsl.execution.observed import answers, decisions
from cetdsl.execution.operators import Rows, check_readers, execute, execute_whole, runs
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import KEY, METRICS, POOLED, QUERY, WINDOW, of_pool
from cetdsl.ir.operators import AnswerTogether, MergeTogether, PropagateTogether
from cetdsl.ir.stages import Pool, WorkloadSpec


@attrs.frozen
class Answered:
    """The place of a query's answer among the rows of a pass.

    They are the rows that have its ``number``, or all of them if ``number`` is -1.

    ``groups`` and ``outputs`` are pairs of the name in the answer and the column of the rows.
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
        shown = [*self.groups, *([("window", WINDOW)] if self.sliding else []), *self.outputs]
        own = self.rows.filter(F.col(QUERY) == self.number)
        return own.select(*(F.col(column) for _, column in shown)).toDF(*(name for name, _ in shown))

    @property
    def window(self) -> str:
        """The column of the window."""
        return "window" if self.number < 0 else WINDOW


@attrs.frozen
class WorkloadRows:
    """The rows of all passes over ``events``, and the query that each row belongs to."""

    events: DataFrame
    plan: AnswerTogether
    passes: tuple[DataFrame, ...]
    answered: tuple[Answered, ...]

    @own_errors()
    def results(self) -> dict[str, DataFrame]:
        """Returns the answer of each query."""
        return {one.name: one.answer() for one in self.answered}

    def metrics(self) -> DataFrame | None:
        """One row per task and set of queries that share; None if there is no pass."""
        parts = [rows.filter(F.col(QUERY) < 0).select(F.col(METRICS).alias("metrics")) for rows in self.passes]
        return combine(DataFrame.union, parts) if parts else None


@own_errors()
def workload_rows(df: DataFrame, plan: AnswerTogether, order: Sequence[str]) -> WorkloadRows:
    """Returns the rows of a workload, lazily; ``order`` names the queries in the order of the answer."""
    passes, answered = [], dict[str, Answered]()
    for one, together in zip(plan.passes, plan.together, strict=True):
        rows = execute(df, one)
        rows = rows.now(decisions(rows.data, METRICS))
        passes.append(rows.data)
        spec, _, _ = workload_spec(rows, together)
        for number, (member, own) in enumerate(zip(together.members, spec.answer.own, strict=True)):
            if member.is_side:
                continue
            groups = tuple((together.source.keys[key], f"{KEY}{key}") for key in member.groups)
            outputs = tuple(zip(member.outputs, own, strict=True))
            answered[member.name] = Answered(member.name, rows.data, number, groups, outputs, member.sliding)
    for alone in plan.alone:
        groups, outputs = (tuple((name, name) for name in names) for names in (alone.groups, alone.outputs))
        answered[alone.name] = Answered(
            alone.name, execute_whole(df, alone.plan).data, -1, groups, outputs, alone.sliding
        )
    return WorkloadRows(df, plan, tuple(passes), tuple(answered[name] for name in order))


@runs(PropagateTogether)
def propagate_together(df: DataFrame, plan: PropagateTogether) -> Rows:
    """Gives the rows of the queries of a pass, or partial results of them."""
    rows = execute(df, plan.child)
    spec, schema, _ = workload_spec(rows, plan)
    return rows.mapped(plan, spec, schema)


@runs(MergeTogether)
def merge_together(df: DataFrame, plan: MergeTogether) -> Rows:
    """Gives the rows that partial results add up to."""
    rows = execute(df, plan.child)
    [together] = (each for each in plan.walk() if isinstance(each, PropagateTogether))
    spec, _, schema = workload_spec(rows, together)
    return rows.mapped(plan, spec, schema)


def workload_spec(rows: Rows, plan: PropagateTogether) -> tuple[WorkloadSpec, StructType, StructType]:
    """Returns the specification for the queries of a pass, and the schemas of the kernel's rows and of the answer."""
    types, members = rows.types, plan.members
    specs = tuple(typed(member.spec, types) for member in members)
    finished = [[output_type(o, spec.answer.number, types, spec) for o in spec.answer.outputs] for spec in specs]
    answer, schema = _pool(rows, plan, finished)
    partial, given = None, schema
    if any(spec.answer.partial for spec in specs):
        unfinished = [
            [] if member.is_side else [field.dataType for field in partial_fields(spec, types)]
            for member, spec in zip(members, specs, strict=True)
        ]
        partial, given = _pool(rows, plan, unfinished)
    return told_to_workers(plan, rows.spec, specs, partial, answer), given, schema


def told_to_workers(
    plan: PropagateTogether, reader: KernelSpec, specs: tuple[KernelSpec, ...], partial: Pool | None, answer: Pool
) -> WorkloadSpec:
    """Builds the kernel's specification from the typed specifications of the rows and of each query."""
    members = plan.members
    numbers = {member.name: number for number, member in enumerate(members)}
    query_of = {side: member.name for member in members for side in member.pairs}
    in_bursts = ((number,) for number, member in enumerate(members) if member.propagation.in_bursts)
    return WorkloadSpec(
        reader,
        tuple(numbers),
        specs,
        tuple(member.groups for member in members),
        partial,
        answer,
        plan.families,
        (*(tuple(numbers[name] for name in one.queries) for one in plan.sets), *in_bursts),
        tuple(tuple(numbers[name] for name in one.queries) for one in plan.abreast),
        tuple(member.propagation.why_not_in_panes is None for member in members),
        plan.sharing.mode,
        plan.sharing.cost_model,
        tuple(plan.sharing.deviations.get(query_of.get(name, name)) for name in numbers),
        tuple(member.propagation.why_not_shared for member in members),
        tuple(tuple(numbers[name] for name in member.pairs) for member in members),
    )


def _pool(rows: Rows, plan: PropagateTogether, wanted: list[list[DataType]]) -> tuple[Pool, StructType]:
    """Returns a pool of as few columns as possible, with enough of each type for any query, and its schema."""
    names: dict[tuple[str, int], str] = {}
    kinds: list[DataType] = []
    own = []
    for asked in wanted:
        used, mine = Counter[str](), []
        for kind in asked:
            key = (kind.json(), used[kind.json()])
            used[kind.json()] += 1
            if key not in names:
                names[key] = f"{POOLED}{len(names)}"
                kinds.append(kind)
            mine.append(names[key])
        own.append(tuple(mine))
    layout, window = of_pool(rows.spec.layout, len(kinds)), rows.frame.window_field.dataType
    keys = [field.dataType for field in rows.frame.key_fields(KEY, plan.source.keys)]
    every = (LongType(), *keys, LongType(), window, StringType(), *kinds)
    fields = [StructField(name, kind) for name, kind in zip(layout.columns, every, strict=True)]
    arrow = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in zip(names.values(), kinds, strict=True)])
    return Pool(layout, arrow.serialize().to_pybytes(), tuple(own)), StructType(fields)


@own_errors()
def union_of_answers(rows: WorkloadRows) -> DataFrame:
    """Puts all answers into one DataFrame: ``query``, ``group``, ``window`` and the union of the aggregates.

    ``group`` is left out where no query has group columns, ``window`` where none slides.
    """
    check_readers(rows.events, rows.plan)
    columns = _Columns(rows.answered)
    parts = []
    for passed in rows.passes:
        parts.append(columns.of([one for one in rows.answered if one.rows is passed], passed))
    parts += [columns.of([one], one.rows) for one in rows.answered if one.number < 0]
    return answers(combine(DataFrame.union, parts))


class _Columns:
    """The columns of the common answer."""

    def __init__(self, answered: Sequence[Answered]) -> None:
        #: Maps names that Spark would not distinguish to one key.
        self._folded: Callable[[str], str] = str if is_case_sensitive(answered[0].rows.sparkSession) else str.lower
        self.groups: dict[str, tuple[str, DataType]] = {}
        self.outputs: dict[str, tuple[str, DataType]] = {}
        self.window: DataType | None = None
        self._owners: dict[tuple[str, str], str] = {}
        for one in answered:
            for name, column in one.groups:
                self._add(self.groups, one, "group by", name, column)
            for name, column in one.outputs:
                self._add(self.outputs, one, "return", name, column)
            if one.sliding:
                self.window = one.rows.schema[one.window].dataType
        own = ("query", *(("group",) if self.groups else ()), *(("window",) if self.window is not None else ()))
        for name in own:
            if name in self.outputs:
                raise ResolutionError(
                    f"an aggregate of the name {name!r} clashes with the column {name!r} of the answer",
                    hint="rename it with AS, or take the answers apart with results()",
                )

    def _add(self, known: dict[str, tuple[str, DataType]], one: Answered, verb: str, name: str, column: str) -> None:
        """Adds a column of a query; raises if another query has a column of this name with another type."""
        kind, key = one.rows.schema[column].dataType, self._folded(name)
        first, other = self._owners.setdefault((verb, key), one.name), known.setdefault(key, (name, kind))[1]
        if other != kind:
            raise ResolutionError(
                f"the queries {first!r} and {one.name!r} both {verb} {name!r}, of different types "
                f"({other.simpleString()} and {kind.simpleString()})",
                hint="rename one of them with AS, or take the answers apart with results()",
            )

    def of(self, answered: Sequence[Answered], rows: DataFrame) -> DataFrame:
        """Returns the answers of the queries whose rows these are, in the common columns."""
        columns = [_name(answered).alias("query")]
        if self.groups:
            groups = [
                self._picked([(one, self._column(one.groups, key)) for one in answered], kind).alias(shown)
                for key, (shown, kind) in self.groups.items()
            ]
            columns.append(F.struct(*groups).alias("group"))
        if self.window is not None:
            of_window = [(one, one.window if one.sliding else None) for one in answered]
            columns.append(self._picked(of_window, self.window).alias("window"))
        for key, (shown, kind) in self.outputs.items():
            found = [(one, self._column(one.outputs, key)) for one in answered]
            columns.append(self._picked(found, kind).alias(shown))
        kept = rows.filter(F.col(QUERY) >= 0) if answered[0].number >= 0 else rows
        return kept.select(*columns)

    def _column(self, pairs: tuple[tuple[str, str], ...], key: str) -> str | None:
        """Returns the column of a query's own that is known by a key, if it has one."""
        return next((column for name, column in pairs if self._folded(name) == key), None)

    def _picked(self, found: Sequence[tuple[Answered, str | None]], kind: DataType) -> Column:
        """Returns the column of each query's own; NULL for the queries that have none."""
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
    """Returns the name of the query that a row is of."""
    if answered[0].number < 0:
        return F.lit(answered[0].name)
    # The sides of an AND have numbers, too, but no answers of their own.
    by_number = {one.number: one.name for one in answered}
    names = [by_number.get(number) for number in range(max(by_number) + 1)]
    # One literal, which Spark reads once, instead of as many calls as there are queries.
    return F.get(F.from_json(F.lit(json.dumps(names)), "array<string>"), F.col(QUERY).cast("int"))


def _is(one: Answered) -> Column:
    return F.lit(True) if one.number < 0 else F.col(QUERY) == one.number
