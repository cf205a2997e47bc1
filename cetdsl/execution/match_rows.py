"""MATCH_RECOGNIZE as a DataFrame.

Spark evaluates the conditions for each row, which become bits; a kernel finds the matches; and Spark computes the
measures from values that the kernel gives for each match. If the kernel can evaluate conditions on neighbouring rows
exactly as Spark would, it also sorts the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.analysis.types import is_collated, is_orderable
from cetdsl.errors import (
    SUM_TOO_LARGE,
    SUM_TOO_LARGE_ADVICE,
    CetdslError,
    CountOverflow,
    ParseError,
    QueryTypeError,
    UnsupportedQuery,
    WindowError,
)
from cetdsl.execution.compat import bytes_of, condition_of, noted_type, refuse_unsendable, translated
from cetdsl.execution.exchange import exchange, exchange_parcels, sent_for_size
from cetdsl.execution.match_conditions import ORDERED, ConditionSteps
from cetdsl.execution.match_keys import refuse_unordered_keys
from cetdsl.execution.source import equal_zeros, ntz_micros
from cetdsl.execution.worker import map_stage
from cetdsl.ir.rows import (
    COUNT,
    GREATEST,
    LABEL,
    LEAST,
    LIST,
    MEAN,
    NOWHERE,
    NUMBER,
    OMIT_EMPTY,
    ONE_ROW,
    ROW,
    SHOW_EMPTY,
    SKIPS,
    SUM,
    UNMATCHED,
    Arrows,
    Dependent,
    MatchSpec,
    Neighbours,
    Slot,
)
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.ir.sorting import AS_USUAL, AskedSort, OrderKey, RowOrder, Sorting
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import in_backquotes
from cetdsl.planning.sorting import OrderedRows, who_sorts_rows
from cetdsl.rows.nodes import Output
from cetdsl.rows.resolved import (
    AVERAGE,
    Expression,
    ResolvedMatch,
    Value,
    Wanted,
    column,
    moved_name,
    placed,
    slot_name,
)

#: The outputs of a clause, as the specification for kernels names them.
OUTPUTS = {
    Output.ONE_ROW: ONE_ROW,
    Output.SHOW_EMPTY: SHOW_EMPTY,
    Output.OMIT_EMPTY: OMIT_EMPTY,
    Output.UNMATCHED: UNMATCHED,
}
_INTEGERS = ("byte", "short", "integer", "long")
#: The error message for a sum that is too large, which :func:`cetdsl.errors.recover` reads.
_TOO_LARGE = f"cetdsl.errors.{CountOverflow.__name__}: {SUM_TOO_LARGE}\\n  hint: {SUM_TOO_LARGE_ADVICE}"
#: An internal name from this module in an error message of Spark.
_MADE_NAME = re.compile(r"`?\b((?:col|slot|moved) \d+)\b`?")
#: What to write in place of MIN and MAX of values that only Spark compares.
_LEAST_OF_LIST = "write array_min(ARRAY_AGG(...)) or array_max(ARRAY_AGG(...))"
_NUMBER, _MATCH = in_backquotes("number of row"), in_backquotes("number of match")


def match_rows(
    df: DataFrame, match: ResolvedMatch, arrows: Arrows, span: Span | None, sort: AskedSort = AS_USUAL
) -> DataFrame:
    """The DataFrame of a clause.

    Parameters
    ----------
    df : DataFrame
    match : ResolvedMatch
        The clause, against the columns of ``df``.
    arrows : Arrows
        The automaton of its pattern.
    span : Span or None
        The span of its WITHIN.
    sort : AskedSort
        Who sorts the rows, and looks at neighbours.
    """
    return _Match(df, match, arrows, span, sort).answer()


def sorting_of_rows(df: DataFrame, match: ResolvedMatch, arrows: Arrows, span: Span | None, sort: AskedSort) -> Sorting:
    """Decides who puts the rows in order for :func:`match_rows`, and why."""
    return _Match(df, match, arrows, span, sort).prepared().sorting


class _Prepared(NamedTuple):
    """Preparations for the kernel: how slots are made, conditions, and who sorts."""

    finished: list[Callable[[Sequence[str]], str]]
    conditions: list[Expression]
    dependent: Dependent | None
    sorting: Sorting


class _Match:
    """Makes the DataFrame of a clause."""

    def __init__(self, df: DataFrame, match: ResolvedMatch, arrows: Arrows, span: Span | None, sort: AskedSort) -> None:
        self._df, self._match, self._arrows, self._span = df, match, arrows, span
        self._fields = df.schema.fields
        refuse_unordered_keys(match, self._fields)
        self._frame = df.toDF(*(f"col {number}" for number in range(len(self._fields))))
        self._moved = list(match.moved)
        self._slots: list[tuple[Slot, Value | None]] = []
        #: The columns that are sent, as SQL, in their order.
        self._sent: dict[str, int] = {}
        for number in match.partition_by:
            self._sent.setdefault(self._key(number), len(self._sent))
        self._keys = tuple(self._sent)
        self._asked_sort = sort
        self._typed: DataFrame | None = None

    def answer(self) -> DataFrame:
        finished, conditions, dependent, sorting = self.prepared()
        spec = self._spec(conditions, dependent, sorting)
        rows, schema = self._rows(spec)
        shown = [schema.fields[number] for number in spec.shown]
        moved = (T.StructField(name, kind) for name, kind in zip(self._moved_names, self._types_of_moved()))
        fields = T.StructType([*shown, *_slot_fields(spec, [*schema.fields, *moved])])
        found = map_stage(rows, "match rows", spec, fields, f"sorted {sorting.who}")
        names = [in_backquotes(f"found {place}") for place in range(len(spec.slots))]
        made = [f"{make(names)} AS {slot_name(number)}" for number, make in enumerate(finished)]
        numbered = [f"{names[-1]} AS {_MATCH}"] if self._tells_unmatched else []
        found = found.toDF(
            *(f"shown {number}" for number in self._shown_columns), *(f"found {n}" for n in range(len(names)))
        )
        columns = [in_backquotes(f"shown {number}") for number in self._shown_columns]
        return self._measured(found.selectExpr(*columns, *numbered, *made))

    def prepared(self) -> _Prepared:
        finished = [self._slot(wanted) for wanted in self._match.slots]
        conditions, dependent = self._checked_conditions(), self._dependent()
        return _Prepared(finished, conditions, dependent, self._who_sorts(conditions))

    @property
    def _tells_unmatched(self) -> bool:
        """Whether rows in no match are shown, which have NULL as the number of their match."""
        return self._match.clause.output is Output.UNMATCHED

    @property
    def _shown_columns(self) -> Sequence[int]:
        """The columns of the DataFrame that are shown."""
        if self._match.clause.output is Output.ONE_ROW:
            return self._match.partition_by
        return range(len(self._fields))

    # -- what the kernel is told -------------------------------------------------------------------------------------

    def _dependent(self) -> Dependent | None:
        """Returns the parts of conditions that depend on the match."""
        match = self._match

        def types_of(asked: Sequence[tuple[str, tuple[int, int]]]) -> Sequence[T.DataType]:
            unknown = tuple(match.unknown)
            expressions = [Expression(sql, span, unknown) for sql, span in asked]
            return self._types_of(self._with_types_of_moved(), expressions, ["a condition of DEFINE"] * len(asked))

        steps = ConditionSteps(types_of, self._value, match.clause.text)
        return steps.dependent(match.depending, len(match.variables), match.whole)

    def _who_sorts(self, conditions: Sequence[Expression]) -> Sorting:
        """Decides who puts rows in order, and who looks at neighbours."""
        match, kinds = self._match, [field.dataType.simpleString() for field in self._fields]
        moved = {f"moved {n}": kind.simpleString() for n, kind in enumerate(self._types_of_moved())}
        held_back = ""
        if any(map(self._looks_around, self._sent)):
            held_back = "what is computed with the values of neighbouring rows is computed by Spark"
        read = {column(number) for number in (*match.partition_by, *match.order_by, *self._shown_columns)}
        read |= {value.sql for _, value in self._slots if value is not None} | {value.sql for value in self._moved}
        rows = OrderedRows(
            tuple(kinds[number] for number in match.partition_by),
            tuple(kinds[number] for number in match.order_by),
            tuple(kind for number, kind in enumerate(kinds) if column(number) in read),
            tuple(condition.sql for condition in conditions if self._looks_around(condition.sql)),
            {**{f"col {number}": _compared_as(field) for number, field in enumerate(self._fields)}, **moved},
            max((abs(value.move) for value in self._moved), default=0),
            held_back,
        )
        return sent_for_size(who_sorts_rows(self._asked_sort, rows), self._asked_sort, self._size)

    def _size(self) -> int | None:
        """Returns about how many bytes of rows are sent; None if that is unknown."""
        return bytes_of(self._df, self._df.columns)

    def _spec(self, conditions: Sequence[Expression], dependent: Dependent | None, sorting: Sorting) -> MatchSpec:
        match, arrows = self._match, self._arrows
        output = OUTPUTS[match.clause.output]
        time = self._value(self._ticks()) if self._has_time else -1
        shown = tuple(self._value(column(number)) for number in self._shown_columns)
        order = neighbours = None
        number, moved = -1, dict[str, int]()
        if sorting.by_kernel:
            order = self._order(sorting.memory)
            neighbours, moved, words = self._neighbours(conditions)
        else:
            words = tuple(self._words(dict(enumerate(conditions))))
            number = self._value(_NUMBER) if self._moved else -1
        slots = []
        for slot, value in self._slots:
            place, each = (LABEL, ()) if value is None else self._columns_of(value, moved)
            slots.append(attrs.evolve(slot, column=place, columns=each))
        if self._tells_unmatched or not (slots or shown):
            # Batches without columns would not have a number of rows, so that matches could not be counted.
            slots.append(Slot(NUMBER))
        keys = tuple(match.columns[key] for key in dict.fromkeys(match.partition_by))
        return MatchSpec(
            keys,
            words,
            arrows,
            output,
            NOWHERE if match.is_first else SKIPS[match.clause.skip.to.value],
            match.skip_members,
            shown,
            tuple(slots),
            number,
            time,
            match.time_name or (match.columns[match.order_by[0]] if match.order_by else ""),
            -1 if self._span is None else self._span.amount,
            self._span is not None and not match.clause.order_by[0].ascending,
            dependent,
            match.is_longest,
            bool(match.time_name),
            order,
            order is not None and sorting.in_parcels,
            neighbours,
            match.pointed,
        )

    def _value(self, sql: str) -> int:
        """The number of a column with the value of each row, which is sent."""
        return self._sent.setdefault(sql, len(self._sent))

    def _columns_of(self, value: Value, moved: Mapping[str, int]) -> tuple[int, tuple[int, ...]]:
        """The column of a value, and those for each variable if it depends on that."""
        if value.sql in moved:
            return moved[value.sql], ()
        if not value.each:
            return self._value(value.sql), ()
        each = tuple(self._value(sql) if sql else -1 for sql in value.each)
        return max(each), each

    def _order(self, memory: int) -> RowOrder | None:
        """The order in which the kernel puts rows; None if any one will do."""
        match = self._match
        by = tuple(
            OrderKey(self._value(column(number)), not key.ascending, not key.nulls_first)
            for number, key in zip(match.order_by, match.clause.order_by)
        )
        keys = tuple(range(len(self._keys)))
        return RowOrder(keys, by, memory, bool(match.time_name)) if by or keys else None

    def _neighbours(
        self, conditions: Sequence[Expression]
    ) -> tuple[Neighbours | None, dict[str, int], tuple[int, ...]]:
        """Returns the tests and values that the kernel computes itself, the columns of these values, and all words.

        A word is a column whose bits are the results of tests.
        """
        looking = {
            bit: one.sql for bit, one in enumerate(conditions) if any(map(one.sql.__contains__, self._moved_names))
        }
        words = self._words({bit: one for bit, one in enumerate(conditions) if bit not in looking})
        values = [(self._value(value.sql), value.move) for value in self._moved]
        for number in range(len(self._fields)):
            if any(column(number) in sql for sql in looking.values()):
                self._value(column(number))
        for _, value in self._slots:
            if value is not None and value.sql not in self._moved_names:
                self._columns_of(value, {})
        if not self._moved:
            return None, {}, tuple(words)
        many = len(self._sent)
        moved = {name: many + place for place, name in enumerate(self._moved_names)}
        named = {**{name: place for name, place in self._sent.items() if name.startswith("`col ")}, **moved}
        names = tuple((sql.strip("`"), place) for sql, place in named.items())
        found = Neighbours(tuple(values), names, tuple(looking.items()), tuple(words))
        return found, moved, tuple(range(many + len(moved), many + len(moved) + len(words)))

    def _words(self, conditions: Mapping[int, Expression]) -> list[int]:
        """The columns with the tests of conditions, given by their numbers; -1 for a word that has none."""
        words = []
        for first in range(0, TESTS_IN_WORD * self._arrows.words, TESTS_IN_WORD):
            bits = [
                f"(CASE WHEN {conditions[bit].sql} THEN {1 << bit - first}L ELSE 0L END)"
                for bit in range(first, first + TESTS_IN_WORD)
                if bit in conditions
            ]
            words.append(self._value(" | ".join(bits)) if bits else -1)
        return words

    def _looks_around(self, sql: str) -> bool:
        """Whether an expression looks at values of other rows."""
        return any(name in sql for name in self._moved_names)

    @property
    def _moved_names(self) -> list[str]:
        """The names of the values of other rows in SQL."""
        return [moved_name(number) for number in range(len(self._moved))]

    # -- rows for the kernel -------------------------------------------------------------------------------------------

    def _checked_conditions(self) -> list[Expression]:
        """Returns the conditions, after Spark has determined that they are of a type for conditions."""
        conditions = list(self._match.conditions.values())
        moved = self._with_types_of_moved()
        kinds = self._types_of(moved, conditions, ["a condition of DEFINE"] * len(conditions))
        for condition, kind in zip(conditions, kinds):
            if not isinstance(kind, (T.BooleanType, T.NullType)):
                raise QueryTypeError(
                    f"a condition of DEFINE is of type {kind.simpleString()}, not true or false",
                    hint="compare it with something",
                    span=condition.span,
                    text=self._match.clause.text,
                )
        return conditions

    def _types_of(
        self, frame: DataFrame, expressions: Sequence[Expression], what: Sequence[str], beside: str = "*"
    ) -> list[T.DataType]:
        """The types that Spark finds for expressions; an error of one of them points at it.

        Expressions are selected ``beside`` plain columns, so that an aggregate over all rows is an error.
        """
        # In parentheses, as Spark would take a superfluous word for an alias; on two lines, as a comment may end it.
        each = [f"({expression.sql}\n)" for expression in expressions]
        select = lambda: frame.selectExpr(*filter(None, (beside, *each)))  # noqa: E731
        try:
            fields = translated(select, "evaluate the clause").schema.fields
        except (ParseError, QueryTypeError) as error:
            if len(expressions) > 1:
                # Each expression is analysed by itself to find the wrong one.
                for expression, name in zip(expressions, what):
                    self._types_of(frame, [expression], [name], beside)
                raise
            raise self._pointing(error, expressions[0], what[0]) from error.__cause__
        return [field.dataType for field in fields[len(fields) - len(each) :]]

    def _pointing(self, error: ParseError | QueryTypeError, expression: Expression, what: str) -> CetdslError:
        """An error of Spark's analysis that points at the expression, or at the word in it that is no column."""
        text = self._match.clause.text
        condition = condition_of(error.__cause__)
        if condition.startswith("UNRESOLVED_COLUMN") and expression.unknown:
            return self._match.unknown_column(expression.unknown[0])
        message = self._in_words_of_the_user(error.message.replace("evaluate the clause", f"evaluate {what}"))
        if isinstance(error, ParseError):
            return ParseError(message, hint=error.hint, span=expression.span, text=text)
        hint = "check the types of the columns, and the names of functions"
        return QueryTypeError(message, hint=hint, span=expression.span, text=text)

    def _in_words_of_the_user(self, message: str) -> str:
        """Puts what the user wrote in the place of names that are made here."""
        match = self._match
        written = {column(number): name for number, name in enumerate(match.columns)}
        for number, wanted in enumerate(match.slots):
            written[slot_name(number)] = match.clause.text[slice(*wanted.span)] or "a value of the match"
        written |= dict.fromkeys(self._moved_names, "a value of another row")
        return _MADE_NAME.sub(lambda made: written.get(in_backquotes(made[1]), made[0]), message)

    def _with_types_of_moved(self) -> DataFrame:
        """Adds columns with the types of the values of other rows, for analysis only: the query never runs."""
        if self._typed is None:
            values = [f"({value.sql}) AS {name}" for value, name in zip(self._moved, self._moved_names)]
            self._typed = self._selected(self._frame, ["*", *values])
        return self._typed

    def _types_of_moved(self) -> list[T.DataType]:
        fields = self._with_types_of_moved().schema.fields
        return [field.dataType for field in fields[len(self._fields) :]]

    def _with_moved(self) -> DataFrame:
        """Adds values of other rows, and the number of each row in the same order."""
        frame, moved = self._frame, self._moved
        if not moved:
            return frame
        over = self._over()
        values = [
            f"{'lag' if value.move < 0 else 'lead'}({value.sql}, {abs(value.move)}) OVER {over} AS {moved_name(number)}"
            for number, value in enumerate(moved)
        ]
        number = f"row_number() OVER {over} AS {_NUMBER}"
        looking: DataFrame = translated(lambda: frame.selectExpr("*", *values, number), "look at neighbours")
        return looking

    def _over(self) -> str:
        partition = ", ".join(column(number) for number in self._match.partition_by)
        order = ", ".join(
            f"{column(number)} {'ASC' if key.ascending else 'DESC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for number, key in zip(self._match.order_by, self._match.clause.order_by)
        )
        # Without ORDER BY any order is right, but Spark requires one.
        return f"({f'PARTITION BY {partition} ' if partition else ''}ORDER BY {order or '1'})"

    def _rows(self, spec: MatchSpec) -> tuple[DataFrame, T.StructType]:
        """Returns the rows that the kernel reads, shuffled to the tasks of their partitions, and sorted if Spark sorts.

        Also returns their schema, because the rows may come in parcels.
        """
        match = self._match
        # Batches without columns would not have a number of rows.
        sent = list(self._sent) or ["0"]
        selected = [f"({sql}) AS c{place}" for place, sql in enumerate(sent)]
        by = [f"c{place}" for place in range(len(self._keys))]
        if spec.order is not None:
            rows = self._selected(self._frame, selected)
        elif self._moved:
            # Spark has sent the rows to their tasks and sorted them there. The kernel checks the numbers.
            rows = self._selected(self._with_moved(), selected)
        else:
            order = [f"{column(number)} AS `order {place}`" for place, number in enumerate(match.order_by)]
            rows = self._selected(self._frame, [*selected, *order])
            rows = exchange(rows, by, [*by, *self._sorted()]).drop(*(f"order {n}" for n in range(len(order))))
        schema = rows.schema
        self._refuse_collated(schema, spec)
        refuse_unsendable(schema)
        if spec.in_parcels:
            rows = exchange_parcels(rows, schema.names, by, self._size)
        elif spec.order is not None:
            rows = exchange(rows, by)
        return rows, schema

    def _selected(self, frame: DataFrame, selected: Sequence[str]) -> DataFrame:
        """Selects values of rows; an error of one of them points at the call that takes it."""
        try:
            rows: DataFrame = translated(lambda: frame.selectExpr(*selected), "evaluate the clause")
        except (ParseError, QueryTypeError) as error:
            self._point_at_values()
            raise type(error)(self._in_words_of_the_user(error.message), hint=error.hint) from error.__cause__
        return rows

    def _point_at_values(self) -> None:
        """Raises the error of the first call in a measure whose argument Spark cannot evaluate, if there is one."""
        for wanted in self._match.slots:
            if wanted.value is not None and not wanted.value.each:
                written = self._match.clause.text[slice(*wanted.span)]
                self._types_of(self._frame, [Expression(wanted.value.sql, wanted.span)], [written])

    def _sorted(self) -> list[Column]:
        keys = []
        for place, key in enumerate(self._match.clause.order_by):
            name = F.col(in_backquotes(f"order {place}"))
            if key.ascending:
                keys.append(name.asc_nulls_first() if key.nulls_first else name.asc_nulls_last())
            else:
                keys.append(name.desc_nulls_first() if key.nulls_first else name.desc_nulls_last())
        return keys

    def _key(self, number: int) -> str:
        """A partition column, in which equal doubles look equal to the kernel too."""
        return equal_zeros(column(number), self._fields[number].dataType)

    @property
    def _has_time(self) -> bool:
        """Whether the kernel looks at times."""
        return self._span is not None or bool(self._match.time_name)

    def _ticks(self) -> str:
        """The first column of ORDER BY as the whole number that WITHIN limits."""
        clause, span = self._match.clause, self._span
        if span is None:
            return column(self._match.order_by[0])
        number = self._match.order_by[0]
        kind, name = self._fields[number].dataType, column(number)
        where = clause.order_by[0].column.span
        if kind.typeName() in _INTEGERS:
            if span.unit != "tick":
                hint = "write WITHIN and a number, as the first column of ORDER BY holds whole numbers"
                raise WindowError(
                    "a length of time cannot limit whole numbers", hint=hint, span=where, text=clause.text
                )
            return f"CAST({name} AS bigint)"
        times = {
            "timestamp": f"unix_micros({name})",
            "timestamp_ntz": ntz_micros(name),
            "date": f"unix_date({name}) * 86400000000L",
        }
        if kind.typeName() not in times:
            raise WindowError(
                f"WITHIN goes by the first column of ORDER BY, and {self._fields[number].name!r} is of type"
                f" {kind.simpleString()}",
                hint="order by a timestamp, a date or a whole number first",
                span=where,
                text=clause.text,
            )
        if span.unit == "tick":
            hint = "write WITHIN INTERVAL '1' HOUR"
            raise WindowError("a number of ticks cannot limit times", hint=hint, span=where, text=clause.text)
        return times[kind.typeName()]

    def _refuse_collated(self, schema: T.StructType, spec: MatchSpec) -> None:
        compared = {slot.column for slot in spec.slots if slot.kind in (LEAST, GREATEST)}
        for place, field in enumerate(schema.fields):
            text = field.dataType.simpleString()
            if is_collated(text) and (place < len(self._keys) or place in compared):
                raise UnsupportedQuery(
                    f"a partition column or an argument of MIN or MAX is of type {text}, in which texts of different"
                    " bytes may be equal, and kernels compare bytes",
                    hint="give it Spark's default collation first: F.collate(F.lower(...), 'UTF8_BINARY')",
                )

    # -- slots ---------------------------------------------------------------------------------------------------------

    def _slot(self, wanted: Wanted) -> Callable[[Sequence[str]], str]:
        """Requests the values for a slot from the kernel; returns a function that makes Spark's SQL of their names."""
        if wanted.distinct:
            return self._over_distinct(wanted)
        if wanted.kind in (SUM, AVERAGE):
            return self._added(wanted)
        value = None if wanted.value is None else placed(wanted.value, self._moved)
        if wanted.kind in (LEAST, GREATEST):
            self._require_ordered(wanted)
        place = self._asked(wanted, wanted.kind, value)
        return lambda names: names[place]

    def _asked(
        self,
        wanted: Wanted,
        kind: str,
        value: Value | None,
        decimal: tuple[int, int] | None = None,
        distinct: bool = False,
    ) -> int:
        slot = Slot(
            kind,
            wanted.members,
            wanted.running,
            LABEL,
            wanted.first,
            wanted.offset,
            move=wanted.move,
            decimal=decimal,
            distinct=distinct,
            span=wanted.span,
        )
        self._slots.append((slot, value))
        return len(self._slots) - 1

    def _over_distinct(self, wanted: Wanted) -> Callable[[Sequence[str]], str]:
        """An aggregate of distinct values, which Spark makes of the list of all of them."""
        self._require_comparable(wanted)
        if wanted.kind in (SUM, AVERAGE):
            total, average = self._types_of_sums(wanted)
            if isinstance(total, T.DecimalType):
                return self._of_decimals(wanted, total, average)
            listed = self._asked(wanted, LIST, wanted.value)
            return lambda names: _sum_of(f"array_distinct({names[listed]})", total, average is not None)
        listed = self._asked(wanted, LIST, wanted.value)
        if wanted.kind == LIST:
            return lambda names: f"array_distinct({names[listed]})"
        assert wanted.kind == COUNT, wanted
        return lambda names: f"CAST(size(array_distinct({names[listed]})) AS bigint)"

    def _types_of_sums(self, wanted: Wanted) -> tuple[T.DataType, T.DataType | None]:
        """The types that Spark gives the sum of some values, and their average if that is wanted."""
        assert wanted.value is not None
        sql, function = wanted.value.sql, "sum" if wanted.kind == SUM else "avg"
        totals = [Expression(f"{name}({sql})", wanted.span) for name in (function, "sum")]
        kind, total = self._types_of(self._frame, totals, [function.upper()] * 2, beside="")
        if not isinstance(total, (T.LongType, T.DoubleType, T.DecimalType)):
            raise UnsupportedQuery(
                f"{function.upper()} of values that add up to {total.simpleString()} is not known of rows of a match",
                hint="cast them to a number first",
                span=wanted.span,
                text=self._match.clause.text,
            )
        return total, None if wanted.kind == SUM else kind

    def _added(self, wanted: Wanted) -> Callable[[Sequence[str]], str]:
        """Computes a sum or an average, of the type that Spark determines."""
        assert wanted.value is not None
        value, (total, average) = wanted.value, self._types_of_sums(wanted)
        if isinstance(total, T.DecimalType):
            return self._of_decimals(wanted, total, average)
        to = total.simpleString() if average is None else "double"
        added = self._asked(wanted, SUM, value.within(lambda sql: f"CAST({sql} AS {to})"))
        if average is None:
            return lambda names: names[added]
        counted = self._asked(wanted, COUNT, value.is_there)
        return lambda names: f"(CASE WHEN {names[counted]} > 0 THEN {names[added]} / {names[counted]} END)"

    def _of_decimals(
        self, wanted: Wanted, total: T.DecimalType, average: T.DataType | None
    ) -> Callable[[Sequence[str]], str]:
        """Computes a sum or an average of decimals in the kernel: each ``+`` of Spark may round one of 38 digits."""
        assert wanted.value is not None
        value = wanted.value.within(lambda sql: f"CAST({sql} AS {total.simpleString()})")
        kind = total if average is None else average
        assert isinstance(kind, T.DecimalType), kind
        decimal = (kind.precision, kind.scale)
        place = self._asked(wanted, SUM if average is None else MEAN, value, decimal=decimal, distinct=wanted.distinct)
        return lambda names: names[place]

    def _type_of_values(self, wanted: Wanted, what: str) -> T.DataType:
        """The type of what an aggregate takes."""
        assert wanted.value is not None
        [kind] = self._types_of(self._frame, [Expression(wanted.value.sql, wanted.span)], [what])
        return kind

    def _require_comparable(self, wanted: Wanted) -> None:
        """Raises if Spark cannot tell which values of an aggregate are the same."""
        if wanted.value is None:
            return  # labels
        kind = self._type_of_values(wanted, "an aggregate of distinct values").simpleString()
        if not is_orderable(kind):
            raise QueryTypeError(
                f"DISTINCT values are of type {kind}, which has no order, so that they are not told apart",
                hint="aggregate a field or an element of them, or to_json(...) of them",
                span=wanted.span,
                text=self._match.clause.text,
            )

    def _require_ordered(self, wanted: Wanted) -> None:
        kind = self._type_of_values(wanted, "MIN or MAX")
        if not isinstance(kind, ORDERED):
            raise UnsupportedQuery(
                f"MIN and MAX of values of type {kind.simpleString()} are not known of rows of a match",
                hint=_LEAST_OF_LIST if is_orderable(kind.simpleString()) else "aggregate a field of them, or a text",
                span=wanted.span,
                text=self._match.clause.text,
            )

    def _measured(self, found: DataFrame) -> DataFrame:
        """The columns of the answer: those of PARTITION BY, ORDER BY, the measures, and the others."""
        match, clause = self._match, self._match.clause
        all_rows = clause.output is not Output.ONE_ROW
        names = [measure.name for measure in clause.measures]
        beside = in_backquotes(found.columns[0]) if found.columns else "0"
        self._types_of(found, match.measures, [f"the measure {name}" for name in names], beside)
        measures = []
        for name, expression in zip(names, match.measures):
            sql = expression.sql
            if clause.output is Output.UNMATCHED:
                sql = f"CASE WHEN {_MATCH} IS NOT NULL THEN {sql} END"
            measures.append(F.expr(f"{sql} AS {in_backquotes(name)}"))
        begin = list(dict.fromkeys((*match.partition_by, *(match.order_by if all_rows else ()))))
        rest = [number for number in range(len(self._fields)) if all_rows and number not in begin]
        return found.select(*map(self._shown, begin), *measures, *map(self._shown, rest))

    def _shown(self, number: int) -> Column:
        return F.col(in_backquotes(f"shown {number}")).alias(self._fields[number].name)


def _compared_as(field: T.StructField) -> str:
    """Returns the type that a column is compared as, by Spark's name: ``char(5)`` of a text that is padded."""
    noted = noted_type(field)
    return noted if noted is not None and noted.startswith("char") else field.dataType.simpleString()


def _slot_fields(spec: MatchSpec, columns: Sequence[T.StructField]) -> list[T.StructField]:
    """Returns the fields that the kernel gives for its slots, by its columns.

    A value of a row has the metadata of its column, too: Spark notes there that a text is a ``char(5)``.
    """
    fields = []
    for place, slot in enumerate(spec.slots):
        kind: T.DataType = T.StringType() if slot.column == LABEL else columns[slot.column].dataType
        noted = columns[slot.column].metadata if slot.kind == ROW and slot.column != LABEL else None
        if slot.kind in (COUNT, NUMBER):
            kind = T.LongType()
        elif slot.decimal is not None:
            kind = T.DecimalType(*slot.decimal)
        elif slot.kind == LIST:
            kind = T.ArrayType(kind, False)
        fields.append(T.StructField(f"found {place}", kind, metadata=noted))
    return fields


def _sum_of(values: str, total: T.DataType, is_average: bool) -> str:
    """The SQL for the sum of an array of whole numbers or doubles, or for their average; NULL if it is empty."""
    kind = "double" if is_average else total.simpleString()
    more = "total + value"
    if kind == "bigint":
        # In a session without ANSI, the sum would wrap.
        more = f"coalesce(try_add(total, value), CAST(raise_error('{_TOO_LARGE}') AS bigint))"
    added = f"aggregate({values}, CAST(0 AS {kind}), (total, value) -> CAST({more} AS {kind}))"
    if is_average:
        added = f"{added} / size({values})"
    return f"(CASE WHEN size({values}) > 0 THEN {added} END)"
