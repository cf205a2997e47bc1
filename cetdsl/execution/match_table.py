"""MATCH_RECOGNIZE as a table function: Spark SQL hands over the rows of a partition, and a kernel matches them.

Spark evaluates no expression of the clause here, so conditions and measures may only use what
:mod:`cetdsl.kernels.rows.evaluate` can evaluate. The function holds all rows of a partition as Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from functools import partial
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from cetdsl.errors import (
    SUM_TOO_LARGE,
    SUM_TOO_LARGE_ADVICE,
    CetdslError,
    CountOverflow,
    NullTime,
    QueryTypeError,
    UnsupportedQuery,
    WindowError,
)
from cetdsl.execution.match_conditions import ORDERED, ConditionSteps
from cetdsl.execution.match_keys import refuse_unordered_keys
from cetdsl.execution.match_rows import OUTPUTS
from cetdsl.ir.rows import COUNT, GREATEST, LABEL, LEAST, LIST, NUMBER, SKIPS, SUM, Dependent, MatchSpec, Slot
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.kernels.rows.evaluate import TYPES, ZONED, evaluate
from cetdsl.kernels.rows.stream import match_stream
from cetdsl.rows.automaton import arrows_of, automaton_of
from cetdsl.rows.clause import parse_clause
from cetdsl.rows.expressions import read_expression
from cetdsl.rows.nodes import Output
from cetdsl.rows.resolve import resolve
from cetdsl.rows.resolved import AVERAGE, Expression, ResolvedMatch, Value, Wanted, placed
from cetdsl.rows.within import span_of

#: The end of the window aggregates in the SQL whose types :class:`ConditionSteps` requests.
_OVER = ") OVER ()"
#: WITHIN compares times as microseconds since this time.
_EPOCH = datetime(1970, 1, 1)


class TableMatch:
    """A clause over rows of a schema.

    Parameters
    ----------
    schema : pyspark.sql.types.StructType
    text : str
        The clause.

    Raises
    ------
    CetdslError
        If the clause is malformed, does not fit the schema, or has expressions that only Spark can evaluate.
    """

    def __init__(self, schema: T.StructType, text: str) -> None:
        clause = parse_clause(text)
        self._fields = schema.fields
        self._match: ResolvedMatch = resolve(clause, schema.names)
        match = self._match
        refuse_unordered_keys(match, self._fields)
        self._arrows = arrows_of(automaton_of(clause.pattern), match.variables, match.conditions)
        self._span = span_of(clause)
        self._values: dict[str, int] = {}
        self._moved: list[Value] = list(match.moved)
        self._slots: list[Slot] = []
        self._refuse_unknown_words()
        finished = [self._slot(wanted) for wanted in match.slots]
        self._finished: list[Callable[[Sequence[pa.Array]], pa.Array]] = finished
        self._dependent = self._conditions()
        # Unsupported types raise here, before any row comes.
        self._types = [field.dataType for field in self.schema_of_answer()]

    # -- before rows come ------------------------------------------------------------------------------------------

    def schema_of_answer(self) -> T.StructType:
        """The columns of the answer."""
        measures = self._measured(list(self._answered([])), 0)
        fields = [self._fields[number] for number in self._begin]
        names = [measure.name for measure in self._match.clause.measures]
        fields += [T.StructField(name, _spark_type(values.type)) for name, values in zip(names, measures)]
        return T.StructType([*fields, *(self._fields[number] for number in self._rest)])

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns of PARTITION BY."""
        return tuple(self._fields[number].name for number in self._match.partition_by)

    @property
    def order_by(self) -> tuple[tuple[str, bool, bool], ...]:
        """The columns of ORDER BY, each with whether it rises and whether NULL comes first."""
        keys = zip(self._match.order_by, self._match.clause.order_by)
        return tuple((self._fields[number].name, key.ascending, key.nulls_first) for number, key in keys)

    @property
    def _begin(self) -> list[int]:
        match, all_rows = self._match, self._match.clause.output is not Output.ONE_ROW
        return list(dict.fromkeys((*match.partition_by, *(match.order_by if all_rows else ()))))

    @property
    def _rest(self) -> list[int]:
        if self._match.clause.output is Output.ONE_ROW:
            return []
        return [number for number in range(len(self._fields)) if number not in self._begin]

    def _refuse_unknown_words(self) -> None:
        unknown = list(self._match.unknown) + [word for each in self._match.measures for word in each.unknown]
        for token in unknown:
            raise self._match.unknown_column(token)

    def _pointing(self, span: tuple[int, int], compute: Callable[[], pa.Array]) -> pa.Array:
        """Computes a value; an error points at the expression."""
        try:
            return compute()
        except CetdslError as error:
            if error.span is None and span != (0, 0):
                error.span, error.text = span, self._match.clause.text
            raise

    def _conditions(self) -> Dependent | None:
        match, nothing = self._match, self._columns([])

        def types_of(asked: Sequence[tuple[str, tuple[int, int]]]) -> Sequence[T.DataType]:
            return [self._type_of(sql, span, nothing) for sql, span in asked]

        for number, condition in match.conditions.items():
            kind = self._type_of(condition.sql, condition.span, nothing)
            if not isinstance(kind, (T.BooleanType, T.NullType)):
                raise QueryTypeError(
                    f"the condition of {match.variables[number]} is of type {kind.simpleString()}, not true or false",
                    hint="compare it with something",
                    span=condition.span,
                    text=match.clause.text,
                )
        steps = ConditionSteps(types_of, self._value, match.clause.text)
        return steps.dependent(match.depending, len(match.variables))

    def _type_of(self, sql: str, span: tuple[int, int], columns: Mapping[str, pa.Array]) -> T.DataType:
        for function in ("sum(", "avg("):
            if sql.startswith(function) and sql.endswith(_OVER):
                inner = self._type_of(sql[len(function) : -len(_OVER)], span, columns)
                is_whole = isinstance(inner, T.IntegralType) and function == "sum("
                return T.LongType() if is_whole else T.DoubleType()
        return _spark_type(self._pointing(span, lambda: evaluate(read_expression(sql), columns, 0)).type)

    # -- slots -------------------------------------------------------------------------------------------------------

    def _value(self, sql: str) -> int:
        """The number of a column with the value of each row."""
        return self._values.setdefault(sql, len(self._values))

    def _asked(self, wanted: Wanted, kind: str, value: Value | None) -> int:
        each = () if value is None else tuple(self._value(sql) if sql else -1 for sql in value.each)
        place = LABEL if value is None else max(each) if each else self._value(value.sql)
        moved = (wanted.first, wanted.offset, each, wanted.move)
        slot = Slot(kind, wanted.members, wanted.running, place, *moved, span=wanted.span)
        self._slots.append(slot)
        return len(self._slots) - 1

    def _slot(self, wanted: Wanted) -> Callable[[Sequence[pa.Array]], pa.Array]:
        value = None if wanted.value is None else placed(wanted.value, self._moved)
        if wanted.kind in (SUM, AVERAGE, LEAST, GREATEST) or wanted.distinct:
            self._require_known(wanted, value)
        if wanted.distinct:
            place = self._asked(wanted, LIST, value)
            return lambda found: _of_distinct(wanted.kind, found[place])
        if wanted.kind not in (SUM, AVERAGE):
            place = self._asked(wanted, wanted.kind, value)
            return lambda found: found[place]
        assert value is not None, wanted
        function = "sum" if wanted.kind == SUM else "avg"
        kind = self._type_of(f"{function}({value.sql}{_OVER}", wanted.span, self._columns([])).simpleString()
        added = self._asked(wanted, SUM, value.within(lambda sql: f"CAST({sql} AS {kind})"))
        if wanted.kind == SUM:
            return lambda found: found[added]
        counted = self._asked(wanted, COUNT, value.is_there)
        return lambda found: pc.divide(found[added], pc.cast(_or_null(found[counted]), pa.float64()))

    def _require_known(self, wanted: Wanted, value: Value | None) -> None:
        kind = T.StringType() if value is None else self._type_of(value.sql, wanted.span, self._columns([]))
        adds = wanted.kind in (SUM, AVERAGE)
        fits = isinstance(kind, T.NumericType) and not isinstance(kind, T.DecimalType) if adds else True
        if not fits or not isinstance(kind, ORDERED):
            raise UnsupportedQuery(
                f"an aggregate of values of type {kind.simpleString()} is not known in a table function",
                hint="cast them to DOUBLE or BIGINT",
                span=wanted.span,
                text=self._match.clause.text,
            )

    # -- rows --------------------------------------------------------------------------------------------------------

    def _columns(self, rows: Sequence[Sequence[Any]]) -> dict[str, pa.Array]:
        """The columns of rows that expressions may look at, as ``col n``, and those of neighbours, as ``moved n``."""
        columns = dict[str, pa.Array]()
        for number, field in enumerate(self._fields):
            kind = _arrow_type(field.dataType)
            if kind is not None:
                columns[f"col {number}"] = pa.array([row[number] for row in rows], kind)
        for number, value in enumerate(self._moved):
            values = evaluate(read_expression(value.sql), columns, len(rows))
            columns[f"moved {number}"] = _shifted(values, value.move)
        return columns

    def answer(self, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """The matches of a partition, whose rows come in order."""
        if not rows:
            return
        for shown, found in self._found(rows):
            measures = [_plain(values).to_pylist() for values in self._measured(found, len(shown))]
            for place, number in enumerate(shown):
                row = rows[number]
                begin, rest = ([row[column] for column in each] for each in (self._begin, self._rest))
                yield (*begin, *(values[place] for values in measures), *rest)

    def _found(self, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[list[int], list[pa.Array]]]:
        spec, batch = self._told(rows)
        for shown, *found in match_stream(spec, iter([batch])):
            yield shown.to_pylist(), found

    def _answered(self, rows: Sequence[Sequence[Any]]) -> Iterator[pa.Array]:
        """Yields an empty array for each slot, whose type is the one that the kernel gives that slot."""
        spec, batch = self._told(rows)
        for slot in spec.slots:
            kind = pa.string() if slot.column == LABEL else batch.column(slot.column).type
            if slot.kind in (COUNT, NUMBER):
                kind = pa.int64()
            yield pa.array([], pa.list_(kind) if slot.kind == LIST else kind)

    def _told(self, rows: Sequence[Sequence[Any]]) -> tuple[MatchSpec, pa.RecordBatch]:
        """Returns the specification for the kernel, and the rows in its form."""
        match, columns, many = self._match, self._columns(rows), len(rows)
        arrays = self._words(columns, many)
        time = -1
        if self._span is not None:
            time = len(arrays)
            arrays.append(self._times(rows))
        shown = len(arrays)
        arrays.append(pa.array(range(many), pa.int64()))
        values = len(arrays)
        arrays += [evaluate(read_expression(sql), columns, many) for sql in self._values]

        def placed(column: int) -> int:
            return column + values if column >= 0 else column

        slots = [
            attrs.evolve(slot, column=placed(slot.column), columns=tuple(map(placed, slot.columns)))
            for slot in self._slots
        ]
        spec = MatchSpec(
            (),
            tuple(range(self._arrows.words)),
            self._arrows,
            OUTPUTS[match.clause.output],
            SKIPS[match.clause.skip.to.value],
            match.skip_members,
            (shown,),
            (*slots, Slot(NUMBER)),
            -1,
            time,
            self._fields[match.order_by[0]].name if match.order_by else "",
            -1 if self._span is None else self._span.amount,
            self._span is not None and not match.clause.order_by[0].ascending,
            self._shifted(values),
            pointed=match.pointed,
        )
        return spec, pa.RecordBatch.from_arrays(arrays, names=[f"c{n}" for n in range(len(arrays))])

    def _shifted(self, values: int) -> Dependent | None:
        found = self._dependent
        if found is None:
            return None
        whole, real = (tuple(column + values for column in each) for each in (found.whole, found.real))
        return attrs.evolve(found, whole=whole, real=real)

    def _words(self, columns: Mapping[str, pa.Array], many: int) -> list[pa.Array]:
        bits = [self._holds(condition, columns, many) for condition in self._match.conditions.values()]
        words = []
        for first in range(0, len(bits), TESTS_IN_WORD):
            word = pa.array([0] * many, pa.int64())
            for place, each in enumerate(bits[first : first + TESTS_IN_WORD]):
                word = pc.bit_wise_or(word, pc.multiply(pc.cast(each, pa.int64()), 1 << place))
            words.append(word)
        return words

    def _holds(self, condition: Expression, columns: Mapping[str, pa.Array], many: int) -> pa.Array:
        found = self._pointing(condition.span, lambda: evaluate(read_expression(condition.sql), columns, many))
        return pc.fill_null(pc.cast(found, pa.bool_()), False)

    def _times(self, rows: Sequence[Sequence[Any]]) -> pa.Array:
        """The first column of ORDER BY as the whole number that WITHIN limits."""
        number, clause = self._match.order_by[0], self._match.clause
        field, span = self._fields[number], self._span
        assert span is not None
        is_whole = isinstance(field.dataType, T.IntegralType)
        if is_whole != (span.unit == "tick") or not isinstance(
            field.dataType, (T.IntegralType, T.DateType, T.TimestampType, T.TimestampNTZType)
        ):
            raise WindowError(
                f"WITHIN {span} does not fit {field.name!r}, which is of type {field.dataType.simpleString()}",
                hint="order by a time first, or by a whole number with WITHIN and a whole number",
                span=clause.order_by[0].column.span,
                text=clause.text,
            )
        times = [row[number] for row in rows]
        if None in times:
            raise NullTime(
                f"the column {field.name!r}, which WITHIN goes by, is NULL in some row",
                hint="leave these rows out first",
            )
        if isinstance(field.dataType, T.TimestampType):
            times = list(map(_moment, times))
        return pa.array(times if is_whole else list(map(_micros, times)), pa.int64())

    def _measured(self, found: Sequence[pa.Array], many: int) -> list[pa.Array]:
        """The measures of some rows, from what the kernel has found."""
        slots = {f"slot {number}": make(found) for number, make in enumerate(self._finished)}
        measures = []
        for measure in self._match.measures:
            values = self._pointing(measure.span, partial(self._of_slots, measure.sql, slots, many))
            if self._match.clause.output is Output.UNMATCHED:
                values = pc.if_else(pc.is_valid(found[-1]), values, pa.scalar(None, values.type))
            measures.append(values)
        return measures

    @staticmethod
    def _of_slots(sql: str, slots: Mapping[str, pa.Array], many: int) -> pa.Array:
        return evaluate(read_expression(sql), slots, many)


def _plain(values: pa.Array) -> pa.Array:
    """The values with times as Spark takes them from Python: by the worker's clock."""
    if values.type == ZONED:
        return pc.cast(values, pa.timestamp("us"))
    if pa.types.is_list(values.type) and values.type.value_type == ZONED:
        return pc.cast(values, pa.list_(pa.timestamp("us")))
    return values


def _moment(time: datetime) -> datetime:
    """Returns a time of the worker's clock in UTC, because local hours repeat when summer time ends."""
    try:
        return time.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return time  # at an end of the calendar, where UTC may lie beyond it, and where no clock changes


def _micros(time: date | datetime) -> int:
    moment = time if isinstance(time, datetime) else datetime(time.year, time.month, time.day)
    return (moment.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


def _shifted(values: pa.Array, move: int) -> pa.Array:
    """Returns the values of other rows, each ``move`` rows behind."""
    many = len(values)
    beyond = pa.nulls(min(abs(move), many), values.type)
    kept = values.slice(move) if move > 0 else values.slice(0, max(0, many + move))
    return pa.concat_arrays([kept, beyond] if move > 0 else [beyond, kept])


def _or_null(counts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(counts, 0), pa.scalar(None, counts.type), counts)


def _of_distinct(kind: str, lists: pa.Array) -> pa.Array:
    """An aggregate of the distinct values of lists."""
    value = lists.type.value_type
    each = [None if listed is None else _distinct(listed) for listed in lists.to_pylist()]
    if kind == LIST:
        return pa.array(each, lists.type)
    if kind == COUNT:
        return pa.array([None if listed is None else len(listed) for listed in each], pa.int64())
    sums = [sum(listed) if listed else None for listed in each]
    if kind == SUM and pa.types.is_integer(value):
        if any(total is not None and not -(2**63) <= total < 2**63 for total in sums):
            raise CountOverflow(SUM_TOO_LARGE, hint=SUM_TOO_LARGE_ADVICE)
        return pa.array(sums, pa.int64())
    if kind == SUM:
        return pa.array(sums, pa.float64())
    return pa.array([None if not listed else sum(listed) / len(listed) for listed in each], pa.float64())


def _distinct(values: Sequence[Any]) -> list[Any]:
    # NaN equals NaN, and -0.0 equals 0.0.
    known = {("NaN" if value != value else value): value for value in reversed(values)}
    return list(known.values())[::-1]


def _arrow_type(kind: T.DataType) -> pa.DataType | None:
    """The type of a column in expressions; None if it cannot stand in any."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return TYPES.get(kind.simpleString())


def _spark_type(kind: pa.DataType) -> T.DataType:
    if pa.types.is_list(kind):
        return T.ArrayType(_spark_type(kind.value_type), False)
    if pa.types.is_decimal(kind):
        return T.DecimalType(kind.precision, kind.scale)
    return _SPARK_TYPES[kind]


_SPARK_TYPES: Mapping[pa.DataType, T.DataType] = {
    pa.bool_(): T.BooleanType(),
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float32(): T.FloatType(),
    pa.float64(): T.DoubleType(),
    pa.string(): T.StringType(),
    pa.binary(): T.BinaryType(),
    pa.date32(): T.DateType(),
    ZONED: T.TimestampType(),
    pa.timestamp("us"): T.TimestampNTZType(),
    pa.null(): T.NullType(),
}
