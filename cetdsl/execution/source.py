"""Events as Spark columns with internal names, so that the user's names cannot clash with others."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.analysis.checks import collated
from cetdsl.analysis.types import is_collated
from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.compat import EVALUATE_TERMS, noted_type, translated
from cetdsl.execution.expressions import combine, of_first, to_column
from cetdsl.execution.times import refuse_null_time, refuse_times
from cetdsl.ir.compiled import Compiled, ListColumn
from cetdsl.ir.layout import Encoding
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SLIDING, SPAN, overlaps
from cetdsl.pattern.expressions import Attribute, Binary, Expr, Literal, Role, SparkColumn, conjunction, conjuncts
from cetdsl.pattern.query import STRICT

#: The bits for variables beside the time in one 64-bit number, by the type of the time column: five bits leave 59 for
#: microseconds, enough for the years 1 to 9999, and ticks leave one (see :data:`~cetdsl.ir.windowing.LAST_TICK`).
_PACKED_BITS = {"timestamp": 5, "timestamp_ntz": 5, "date": 5, "integer": 5, "short": 5, "byte": 5, "long": 1}

#: Numbers of variables, each with conditions that must all hold.
_Conditions = list[tuple[int, list[Expr]]]
#: A Spark column, or SQL text over internal names only: Spark parses a text in one call from Python, while a column
#: takes a call for each node of its expression.
Terms = dict[str, Column | str]


#: A number that identifies the part of a file that a row is read from, as Spark splits files among tasks: made of the
#: start and the length of the part, it is computed faster than a hash of the file's name. Without files it is the same
#: for all rows.
_PART_OF_FILE = "input_file_block_start() + 7 * input_file_block_length()"
#: Ranges of time lie between two quantiles of the times, estimated from this part of the events with this accuracy.
_SAMPLED, _SEED, _QUANTILES, _ACCURACY = 0.05, 1, (0.01, 0.99), 1_000


class EventFrame:
    """A user's DataFrame with its columns renamed by position: ``c0``, ``c1``, ..., and Spark conditions ``o0``, ...

    Renaming by position works for all names: duplicate ones, dotted ones, or words such as ``window``. The frame
    selects the events that the ``compiled`` query needs. The reader of the rows understands a dictionary of variables
    if ``by_dictionary``, and needs no column for a single variable if ``bare``: see
    :class:`~cetdsl.ir.layout.Encoding`. ``tests`` are conditions on single events whose truth values are sent as bits.
    """

    def __init__(
        self,
        df: DataFrame,
        source: Source,
        compiled: Compiled,
        *,
        by_dictionary: bool = False,
        bare: bool = False,
        tests: Sequence[Expr] = (),
    ) -> None:
        self.source = source
        self.compiled = compiled
        self.fields = df.schema.fields
        #: Whether the frame also reads events that no variable can bind, as they may lie between two events of a trend.
        self.keeps_all = compiled.machine.matching == STRICT and len(compiled.variables) > 0
        self._by_dictionary, self._bare = by_dictionary and not self.keeps_all, bare and not self.keeps_all
        self._positions = {field.name: number for number, field in reversed(list(enumerate(self.fields)))}
        self._columns: dict[str, Column] = {}
        self._tests = tests
        conditions = [condition for _, condition in compiled.variables if condition is not None]
        conditions += tests
        nodes = (node for condition in conditions for node in condition.walk())
        opaque = list(dict.fromkeys(node for node in nodes if isinstance(node, SparkColumn)))
        self.opaque = {node: f"o{number}" for number, node in enumerate(opaque)}
        columns = [node.column.alias(f"o{number}") for number, node in enumerate(opaque)]
        names = [f"c{number}" for number in range(len(self.fields))] + list(self.opaque.values())
        widened = translated(lambda: df.select("*", *columns), "evaluate a condition") if columns else df
        self.frame = widened.toDF(*names)

    def own_name(self, name: str) -> str:
        """Returns the internal name of the user's column of exactly this name."""
        return f"c{self._positions[name]}"

    def column(self, name: str) -> Column:
        """Returns the user's column of exactly this name; it is cached, as each call to the JVM takes a while."""
        own = self.own_name(name)
        if own not in self._columns:
            self._columns[own] = F.expr(own)
        return self._columns[own]

    def type_of(self, name: str) -> T.DataType:
        """Returns the type of the user's column of exactly this name."""
        return self.fields[self._positions[name]].dataType

    def term(self, expr: Expr) -> Column | str:
        """Returns a term over one event's own row; see :data:`Terms`."""
        return self.own_name(expr.name) if isinstance(expr, Attribute) else self.row_column(expr)

    def row_column(self, expr: Expr) -> Column:
        """Returns a term over one event's own row as a column."""
        return to_column(expr, self._resolve, self.source.schema)

    def _resolve(self, node: Expr) -> Column:
        if isinstance(node, SparkColumn):
            return F.col(self.opaque[node])
        assert isinstance(node, Attribute), node
        return self.column(node.name)

    def pair_column(self, expr: Expr, earlier: Column, later: Column) -> Column:
        """A term over two events, given as structs with the columns ``c0``, ``c1``, ...: NEXT is the later one."""

        def resolve(node: Expr) -> Column:
            assert isinstance(node, Attribute), node
            row = later if node.role is Role.NEXT else earlier
            return row.getField(self.own_name(node.name))

        return to_column(expr, resolve, self.source.schema)

    def satisfy(self, listed: ListColumn, earlier: Column, later: Column) -> Column:
        """Whether two events, structs as for :meth:`pair_column`, satisfy a predicate, tested if the guard holds."""
        holds = self.pair_column(listed.predicate, earlier, later)
        return holds if listed.guard is None else F.when(self.pair_column(listed.guard, earlier, later), holds)

    @cached_property
    def time(self) -> Column:
        """The time column; dates as timestamps, which is how windows see them."""
        return F.expr(self._time)

    @cached_property
    def ticks(self) -> Column:
        """Time as a whole number: microseconds since the epoch, or ticks."""
        return F.expr(self._ticks)

    def ticks_of(self, column: str) -> Column:
        """Returns a column of the time column's type as a whole number, like :attr:`ticks`."""
        return F.expr(self._ticks_of(self._time_of(column)))

    @property
    def _time(self) -> str:
        return self._time_of(self.own_name(self.source.time))

    @property
    def _ticks(self) -> str:
        return self._ticks_of(self._time)

    def _time_of(self, column: str) -> str:
        return f"CAST({column} AS timestamp)" if self.type_of(self.source.time).typeName() == "date" else column

    def _ticks_of(self, time: str) -> str:
        kind = self.source.time_type
        if kind == "timestamp":
            return f"unix_micros({time})"
        return ntz_micros(time) if kind == "timestamp_ntz" else f"CAST({time} AS bigint)"

    @property
    def key_names(self) -> list[str]:
        """``k0``, ``k1``, ...: the names of :meth:`keys`."""
        return [f"k{number}" for number in range(len(self.source.keys))]

    @property
    def order(self) -> list[str]:
        """``t``, ``b0``, ...: the names of what orders the events of a key, once they are selected."""
        return ["t", *(f"b{number}" for number in range(len(self.source.tie_break)))]

    @property
    def settled_order(self) -> list[str]:
        """The columns of :attr:`order`, then others for simultaneous events: variables, :meth:`fingerprint` ``i``."""
        return [*self.instant(), "i"]

    def keys(self) -> Terms:
        """Partition and group columns ``k0``, ``k1``, ...; equal doubles look equal to a shuffle.

        Rows without a time all get the same key, so that one task can count them and raise.
        """
        columns: Terms = {}
        for key, name in zip(self.key_names, self.source.keys, strict=True):
            term = equal_zeros(self.own_name(name), self.type_of(name))
            columns[key] = f"CASE WHEN {self._time} IS NOT NULL THEN {term} END" if self.checks_time else term
        return columns

    @property
    def checks_time(self) -> bool:
        """Whether the frame must raise an error if there are rows without a time."""
        nullable = self.fields[self._positions[self.source.time]].nullable
        return bool(nullable) and self.source.on_null_time == "error"

    @cached_property
    def mask(self) -> Column:
        """The bits of the variables that an event may be bound to, or one plus their position in the dictionary.

        It is 0 for an event that no variable can bind.

        If conditions require different values of one column, as those on the type of an event do, the expression stops
        at the first value that matches.
        """
        if self.encoding.dictionary:
            [(column, choices)] = self._by_text[1].items()
            # Evaluated in less than half the time of a CASE.
            number = F.array_position(F.array(*map(F.lit, choices)), self.column(column))
            return F.coalesce(number, F.lit(0).cast("bigint"))
        kinds = ((7, "tinyint"), (15, "smallint"), (31, "int"))
        kind = next((kind for bits, kind in kinds if len(self.compiled.variables) <= bits), "bigint")
        zero = F.lit(0).cast(kind)

        def bits_of(conditions: _Conditions) -> Column:
            bits = []
            for number, parts in conditions:
                bit = F.lit(1 << number).cast(kind)
                bits.append(F.when(self.row_column(conjunction(list(parts))), bit).otherwise(zero) if parts else bit)
            return combine(lambda a, b: a.bitwiseOR(b), bits)

        rest, by_value = self._by_text
        found = [bits_of(rest)] if rest else []
        for column, choices in by_value.items():
            own = self.column(column)
            found.append(of_first([(own == value, bits_of(each)) for value, each in choices.items()], zero))
        return combine(lambda a, b: a.bitwiseOR(b), found) if found else zero

    def words(self) -> list[Column]:
        """Returns columns whose bits are the results of the tests on an event; a test that is NULL does not hold."""

        def bit_of(place: int, test: Expr) -> Column:
            bit, zero = (F.lit(value).cast("bigint") for value in (1 << place, 0))
            return F.when(self.row_column(test), bit).otherwise(zero)

        tests = self._tests
        return [
            combine(
                lambda a, b: a.bitwiseOR(b),
                [bit_of(place, test) for place, test in enumerate(tests[begin : begin + TESTS_IN_WORD])],
            )
            for begin in range(0, len(tests), TESTS_IN_WORD)
        ]

    @cached_property
    def _by_text(self) -> tuple[_Conditions, dict[str, dict[str, _Conditions]]]:
        """The conditions of variables: those without a required text, and the others by column and required text."""
        rest: _Conditions = []
        by_value: dict[str, dict[str, _Conditions]] = {}
        for number, (_, condition) in enumerate(self.compiled.variables):
            parts = [] if condition is None else conjuncts(condition)
            asked = next(filter(None, map(self._text_of, parts)), None)
            if asked is None:
                rest.append((number, parts))
            else:
                others = [part for part in parts if self._text_of(part) != asked]
                by_value.setdefault(asked[0], {}).setdefault(asked[1], []).append((number, others))
        return rest, by_value

    def _text_of(self, part: Expr) -> tuple[str, str] | None:
        """Column and text of ``column = 'text'``; None if other texts may equal this one, by collation or padding."""
        if not isinstance(part, Binary) or part.op != "=":
            return None
        column, value = part.left, part.right
        if isinstance(column, Literal):
            column, value = value, column
        if not (isinstance(column, Attribute) and isinstance(value, Literal) and isinstance(value.value, str)):
            return None
        field = self.fields[self._positions[column.name]]
        is_plain = field.dataType == T.StringType() and noted_type(field) is None
        return (column.name, value.value) if is_plain else None

    def fixed_texts(self) -> dict[str, tuple[str, ...]]:
        """The columns for which each variable's condition requires a text, and these texts by variable."""
        if self.keeps_all:
            return {}  # events that no variable can bind have other texts
        asked = []
        for _, condition in self.compiled.variables:
            parts = [] if condition is None else conjuncts(condition)
            asked.append(dict(filter(None, map(self._text_of, parts))))
        names = [name for name in asked[0] if all(name in texts for texts in asked)] if asked else []
        return {name: tuple(texts[name] for texts in asked) for name in names}

    @cached_property
    def encoding(self) -> Encoding:
        """The encoding of time and variables.

        Both are packed in one number where there is room. Packing takes less time than a further column would, even for
        timestamps without a zone, which take long to convert to numbers.
        """
        if self._bare and len(self.compiled.variables) == 1:
            return Encoding(known=True)
        if self.source.tie_break or self.compiled.lists:
            return Encoding()
        bits = _PACKED_BITS[self.type_of(self.source.time).typeName()]
        if len(self.compiled.variables) <= bits:
            return Encoding(bits)
        dictionary = self._dictionary if self._by_dictionary else ()
        return Encoding(bits, dictionary) if 0 < len(dictionary) <= 1 << bits else Encoding()

    @property
    def _dictionary(self) -> tuple[int, ...]:
        """Returns the variables, as bits, for each text of one column; empty if the text alone does not decide them."""
        rest, by_value = self._by_text
        if rest or len(by_value) != 1:
            return ()
        [choices] = by_value.values()
        if any(parts for kind in choices.values() for _, parts in kind):
            return ()
        return tuple(sum(1 << number for number, _ in kind) for kind in choices.values())

    def instant(self) -> Terms:
        """Time, tie-break columns and variables, as ``t``, ``b0``, ... and ``m``.

        If they can be packed, they are one number ``t`` in the order of time: every column that is sent to a worker
        costs time, and whole numbers sort several times faster than structs. If the variable is known, the time alone
        is sent, in the form that takes the least time to compute.
        """
        if self.encoding.known:
            ordered = [self._time if self.source.time_type == "timestamp_ntz" else self._ticks]
            ordered += map(self.own_name, self.source.tie_break)
            return dict(zip(self.order, ordered, strict=True))
        if self.encoding.bits:
            mask = "m - 1" if self.encoding.dictionary else "m"
            return {"t": f"shiftleft({self._ticks}, {self.encoding.bits}) + CAST({mask} AS bigint)"}
        ordered = [self._time, *map(self.own_name, self.source.tie_break)]
        return {**dict(zip(self.order, ordered, strict=True)), "m": "m"}

    def select(self, columns: Terms) -> DataFrame:
        """Selects the rows that some variable can bind, with these columns, before anything is shuffled.

        The columns may refer to :attr:`mask` as ``m``, unless the variable is known.
        """

        def build() -> DataFrame:
            return self._kept().select([_named(name, term) for name, term in columns.items()])

        selected: DataFrame = translated(build, EVALUATE_TERMS)
        return selected

    def timed(self, columns: Terms) -> DataFrame:
        """Selects all rows of a stream that have a time, with these columns."""
        time = self.source.time
        in_range = refuse_times(self.own_name(time), self.type_of(time).typeName(), self.source)
        assert in_range is not None, "a watermark is on a timestamp"
        rows = self._kept_of_stream(self.frame, F.lit(True), in_range)
        return rows.select([_named(name, term) for name, term in columns.items()])

    def _kept(self) -> DataFrame:
        """The rows that some variable can bind, and those that must raise."""
        rows, absent, windowing = self.frame, F.expr(f"{self._time} IS NULL"), self.source.windowing
        if self.keeps_all:
            rows, holds = rows.withColumn("m", self.mask), F.lit(True)
        elif self.encoding.known:
            [(_, condition)] = self.compiled.variables
            holds = F.lit(True) if condition is None else self.row_column(condition)
        else:
            rows, holds = rows.withColumn("m", self.mask), F.expr("m != 0")
        if windowing.kind == SLIDING and windowing.slide > windowing.length:
            holds = holds & F.expr(f"pmod({self._ticks}, {windowing.slide}) < {windowing.length}")
        time = self.source.time
        in_range = refuse_times(self.own_name(time), self.type_of(time).typeName(), self.source)
        if self.source.is_stream:
            assert in_range is not None, "a watermark is on a timestamp"
            return self._kept_of_stream(rows, holds, in_range)
        if in_range is not None:
            holds = holds & in_range
        return rows.filter(absent | holds if self.checks_time else ~absent & holds)

    def _kept_of_stream(self, rows: DataFrame, holds: Column, in_range: Column) -> DataFrame:
        """The rows of a stream that some variable can bind, of those that have a time.

        Spark would push a plain filter down to where the events are read. Then events that no variable can bind would
        not advance the watermark, and rows without a time would be lost before they can raise an error. Spark does not
        push down a filter behind a nondeterministic value, so the filter depends on one. The condition itself has to
        depend on it, because Spark would still push down a condition that is always false.
        """
        without = refuse_null_time(self.source) if self.source.on_null_time == "error" else F.lit(False)
        stays = F.spark_partition_id() >= 0
        is_kept = F.when(self.time.isNull(), without).otherwise(F.when(stays, in_range & holds))
        return rows.withColumn("u", is_kept).filter("u")

    def refuse_incomparable(self, schema: T.StructType) -> None:
        """Raises if a kernel would have to compare nested values, or texts with a collation that is not by bytes.

        The schema is that of the rows for the kernel, with keys ``k0``, ..., compared values ``f0``, ... and aggregated
        values ``v0``, ... Columns of ``tie_break`` have been checked earlier.
        """
        for field in schema.fields:
            if field.name[0] in "fv" and field.dataType.typeName() in ("array", "struct", "map", "variant"):
                raise UnsupportedQuery(
                    f"values of type {field.dataType.simpleString()} cannot be compared along a trend",
                    hint="compare, or aggregate, a field or an element of them",
                )
            if field.name[0] not in "kfv" or not is_collated(field.dataType.simpleString()):
                continue
            name = self.source.keys[int(field.name[1:])] if field.name[0] == "k" else ""
            what = f"the key column {name!r}" if name else "a compared or aggregated value"
            raise collated(what, field.dataType.simpleString(), name)

    @property
    def codes(self) -> Terms:
        """The columns that comparisons refer to, ``f0``, ``f1``, ..., each pair in its common type."""
        return {f"f{n}": value for n, (value, _) in enumerate(self._codes)}

    @property
    def code_types(self) -> list[T.DataType]:
        """The types of :attr:`codes`."""
        return [kind for _, kind in self._codes]

    @cached_property
    def _codes(self) -> list[tuple[Column | str, T.DataType]]:
        values = [self.row_column(column.expr) for column in self.compiled.codes]
        kinds = [self._known_type(column.expr) for column in self.compiled.codes]
        common: dict[int, Column] = {}
        for n, column in enumerate(self.compiled.codes):
            if column.partner is not None and (kinds[n] is None or kinds[n] != self._known_type(column.partner)):
                common[n] = F.coalesce(values[n], self.row_column(column.partner))
            elif kinds[n] is None:
                common[n] = values[n]
        found = dict(zip(common, self._types_of(list(common.values())), strict=True))
        codes: list[tuple[Column | str, T.DataType]] = []
        for n, column in enumerate(self.compiled.codes):
            own = kinds[n]
            common_type = found.get(n, own)
            assert common_type is not None
            codes.append((self.term(column.expr) if common_type == own else values[n].cast(common_type), common_type))
        return codes

    def _known_type(self, expr: Expr) -> T.DataType | None:
        """Returns the type of a plain column without a call to Spark; None for other terms."""
        return self.type_of(expr.name) if isinstance(expr, Attribute) else None

    def _types_of(self, columns: list[Column]) -> list[T.DataType]:
        """Returns the types of terms by one call to Spark, which takes as long for one term as for a hundred."""
        if not columns:
            return []
        named = [column.alias(f"x{n}") for n, column in enumerate(columns)]
        schema: T.StructType = translated(lambda: self.frame.select(*named).schema, "type a term")
        return [field.dataType for field in schema.fields]

    def time_buckets(self, negated: bool) -> Column:
        """Returns the time buckets whose tasks need an event, for exploding; never empty, so that no row is lost.

        Where windows do not overlap, there is only one.
        """
        windowing, time, zero = self.source.windowing, self.ticks, F.lit(0).cast("bigint")
        if not overlaps(windowing):
            return F.coalesce(floor_divide(time, windowing.cut), zero)
        spans = windowing.kind == SPAN
        last = floor_divide(time + (windowing.length if spans and negated else 0), windowing.cut)
        first = floor_divide(time - windowing.length + (0 if spans else 1), windowing.cut)
        return F.coalesce(F.sequence(first, last), F.array(zero))

    def pane(self) -> Column:
        """The number of the pane that holds an event; NULL without a time."""
        windowing = self.source.windowing
        rest = windowing.length % windowing.slide
        number = floor_divide(self.ticks, windowing.slide)
        if not rest:
            return number
        after_end = F.pmod(self.ticks, F.lit(windowing.slide)) >= rest
        return number * 2 + after_end.cast("bigint")

    def range_of_time(self, ranges: int) -> Column:
        """The number of the range of time that holds an event: it rises with time, up to ``ranges - 1``.

        Ranges are equally long between two quantiles of a sample, so that a few outliers do not put all other events
        into one range. If the sample is empty or has a single time, there is only one range.
        """
        sampled = self.frame.sample(_SAMPLED, _SEED)
        ends = sampled.agg(F.percentile_approx(self.ticks, list(_QUANTILES), _ACCURACY)).scalar()
        low, high = (ends.getItem(side).cast("double") for side in (0, 1))
        place = (self.ticks.cast("double") - low) / F.nullif(high - low, F.lit(0.0)) * ranges
        inside = F.greatest(F.least(F.floor(place), F.lit(ranges - 1)), F.lit(0))
        return F.coalesce(inside, F.lit(0)).cast("bigint")

    def part_of_file(self) -> str | None:
        """Returns the SQL for the part of a file that holds a row; None if there is none, for example behind a join."""
        try:
            self.frame.select(F.expr(_PART_OF_FILE)).schema  # noqa: B018 - Connect analyses when asked for it
        except AnalysisException:
            return None
        return _PART_OF_FILE

    def key_fields(self, prefix: str, names: Sequence[str]) -> list[T.StructField]:
        """Returns the fields of the answer for key columns."""
        return [T.StructField(f"{prefix}{number}", self.type_of(name)) for number, name in enumerate(names)]

    def place_fields(self, prefix: str, names: Sequence[str]) -> list[T.StructField]:
        """Returns the fields of the answer for key columns and, if windows slide, for the window."""
        return self.key_fields(prefix, names) + ([self.window_field] if self.source.window else [])

    @property
    def window_field(self) -> T.StructField:
        """``window: struct<start, end>``, as Spark's ``window`` function gives it."""
        kinds = {"timestamp": T.TimestampType(), "timestamp_ntz": T.TimestampNTZType()}
        bound = kinds.get(self.source.time_type, T.LongType())
        return T.StructField("window", T.StructType([T.StructField("start", bound), T.StructField("end", bound)]))

    def event_struct(self, names: Sequence[str]) -> Column:
        """Returns the user's columns as one struct, under internal names."""
        return F.struct(*map(self.column, names))

    def fingerprint(self) -> str:
        """Returns a hash of all of the user's columns, which orders simultaneous events deterministically."""
        hashed = [_hashable(f"c{n}", field.dataType) for n, field in enumerate(self.fields)]
        return f"xxhash64({', '.join(hashed)})"

    def shares(self, numbers: Sequence[int]) -> str:
        """Returns the shares that get an event; a single share gets the rows without a time, which it counts."""
        every = f"array({', '.join(map(str, numbers))})"
        one = f"CASE WHEN {self._time} IS NULL THEN array({numbers[0]}) ELSE {every} END"
        return one if self.checks_time else every

    def window_starts(self) -> Column:
        """The starts of all windows that hold an event, in ticks, of queries that slide."""
        windowing, time = self.source.windowing, self.ticks
        first = floor_divide(time - windowing.length, windowing.slide) + 1
        numbers = F.sequence(first, floor_divide(time, windowing.slide))
        return F.transform(numbers, lambda number: number * F.lit(windowing.slide).cast("bigint"))

    def window(self, start: Column, length: int | None = None) -> Column:
        """``struct<start, end>`` of the window that starts at a tick, as Spark's ``window`` function gives it.

        Its ``length`` is that of the windows of the source, unless another one is given.
        """
        bounds = [start, start + F.lit(self.source.windowing.length if length is None else length).cast("bigint")]
        if self.source.time_type == "timestamp":
            bounds = [F.timestamp_micros(bound) for bound in bounds]
        elif self.source.time_type == "timestamp_ntz":
            bounds = [_clock(bound) for bound in bounds]
        return F.struct(bounds[0].alias("start"), bounds[1].alias("end"))

    def term_type(self, expr: Expr) -> T.DataType:
        """The type of a term over one event's row."""
        return self._types_of([self.row_column(expr)])[0]


def _named(name: str, term: Column | str) -> Column:
    return F.expr(f"{term} AS {name}") if isinstance(term, str) else term.alias(name)


def equal_zeros(term: str, kind: T.DataType) -> str:
    """Returns a term in which equal doubles have equal bits: -0.0 becomes 0.0."""
    if not isinstance(kind, (T.DoubleType, T.FloatType)):
        return term
    return f"CASE WHEN {term} = 0 THEN CAST(0 AS {kind.simpleString()}) ELSE {term} END"


def ntz_micros(time: str) -> str:
    """Returns microseconds from 1970 on by a clock without a zone.

    Spark has no function for that, so they are computed from whole seconds and the rest. ``unix_timestamp`` takes such
    a clock as it is, and rounds towards zero.
    """
    second = f"CAST(unix_timestamp({time}) AS bigint)"
    rest = f"pmod(CAST(date_part('SECOND', {time}) * 1000000 AS bigint), 1000000L)"
    is_rounded_up = f"{time} < TIMESTAMP_NTZ '1970-01-01' AND {rest} > 0"
    return f"(CASE WHEN {is_rounded_up} THEN {second} - 1L ELSE {second} END) * 1000000L + {rest}"


def _clock(micros: Column) -> Column:
    """Returns microseconds as a timestamp without a zone, avoiding a zone's clock, on which some hours repeat."""
    seconds = (micros.cast("decimal(20,0)") * F.lit(Decimal("0.000001"))).cast("decimal(18,6)")
    return F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(secs=seconds)


def _hashable(column: str, kind: T.DataType) -> str:
    """Returns a column that Spark can hash: it refuses maps and variants, wherever they are inside."""
    text = kind.simpleString()
    return f"to_json(struct({column}))" if "map<" in text or "variant" in text else column


def floor_divide(value: Column, by: int) -> Column:
    """Divides whole numbers and rounds down, exactly, where dividing doubles would round."""
    divisor = F.lit(by).cast("bigint")
    return F.call_function("div", value - F.pmod(value, divisor), divisor)
