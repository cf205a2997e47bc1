"""Executes the fold strategy: ``aggregate()`` over each key's sorted array of events, in Spark expressions alone."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.errors import NULL_TIME_ADVICE, OVERFLOW_ADVICE, CountOverflow, NullTime
from cetdsl.execution.expressions import combine, raised
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame
from cetdsl.ir.machine import Machine
from cetdsl.ir.operators import Fold

_ZERO_TYPES = {"double": "double", "decimal": "decimal(38,0)"}


@runs(Fold)
def fold(df: DataFrame, plan: Fold) -> Rows:
    """Gives the answer of a fold plan: group columns, window, counts."""
    source, compiled, wanted = plan.source, plan.compiled, plan.spec.answer
    frame = EventFrame(df, source, compiled, by_dictionary=True)
    columns = frame.keys() | frame.instant()
    sliding = bool(source.window)
    if sliding:
        start = frame.ticks - F.pmod(frame.ticks, F.lit(source.windowing.slide).cast("bigint"))
        columns["w"] = F.when(frame.time.isNotNull(), start)
    by = frame.key_names + (["w"] if sliding else [])
    rows = frame.select(columns)
    event = F.col("t") if frame.encoding.bits else F.struct(*frame.order, "m")
    events = F.sort_array(F.collect_list(event)).alias("events")
    nulls = F.count_if(F.col("t").isNull()).alias("nulls")
    grouped = rows.groupBy(*by).agg(events, nulls)
    if frame.checks_time:
        grouped = grouped.filter(refuse_nulls(source.time))
    folded = grouped.select(*by, _Fold(plan, frame).over(F.col("events")).alias("state"))
    present = folded.select(*by, *(F.col(f"state.r{n}").alias(f"r{n}") for n in range(len(wanted.accumulators))))
    answer = present.filter(F.col("r0").isNull() | (F.col("r0") > 0))
    groups = [F.col(f"k{n}") for n in range(len(source.groups))]
    if sliding:
        groups.append(frame.window(F.col("w")).alias("window"))
    where = _place(by[: len(source.groups)], frame.window(F.col("w")) if sliding else None)
    outputs = [_checked(f"r{output.value}", output.name, wanted.number, where) for output in wanted.outputs]
    return Rows(answer.select(*groups, *outputs).toDF(*plan.gives), frame)


def refuse_nulls(time: str) -> Column:
    """Returns a condition that raises in rows whose column ``nulls``, a number of events without a time, is not 0."""
    error = raised(
        NullTime,
        f"the time column {time!r} is NULL in ",
        F.col("nulls").cast("string"),
        F.when(F.col("nulls") == 1, " row").otherwise(" rows"),
        hint=NULL_TIME_ADVICE,
        kind="boolean",
    )
    return F.when(F.col("nulls") > 0, error).otherwise(F.lit(True))


def _place(groups: list[str], window: Column | None) -> Column:
    """Describes the group and window of a row, for messages."""
    parts = []
    if groups:
        values = [F.coalesce(F.col(name).cast("string"), F.lit("NULL")) for name in groups]
        parts.append(F.concat(F.lit("group ("), F.concat_ws(", ", *values), F.lit(")")))
    if window is not None:
        bounds = [window.getField(side).cast("string") for side in ("start", "end")]
        parts.append(F.concat(F.lit("the window from "), bounds[0], F.lit(" to "), bounds[1]))
    return F.concat_ws(", ", *parts)


def _checked(column: str, name: str, number: str, where: Column) -> Column:
    """Returns a result, or raises if it does not fit its type, in which case it is NULL or infinity."""
    fits, hint = OVERFLOW_ADVICE[number]
    error = raised(CountOverflow, f"{name!r} of ", where, f" does not fit {fits}", hint=hint, kind=_ZERO_TYPES[number])
    value = F.col(column)
    overflown = value.isNull() if number == "decimal" else value == F.lit(float("inf"))
    return F.when(overflown, error).otherwise(value)


class _Fold:
    """The automaton as an ``aggregate()``, whose state has two sums per automaton state and accumulator.

    One is the sum so far, and one the sum before the current instant: simultaneous events see only the latter.
    Additions of decimals that do not fit give NULL, which spreads only into results that depend on them.
    """

    def __init__(self, plan: Fold, frame: EventFrame) -> None:
        self.encoding = frame.encoding
        self.machine: Machine = plan.compiled.machine
        answer = plan.spec.answer
        self.accumulators = answer.accumulators
        self.kind = _ZERO_TYPES[answer.number]
        self.order = frame.order
        self.exact = answer.number == "decimal"
        self.cells = [(q, k) for q in range(len(self.machine.variables)) for k in range(len(self.accumulators))]

    def over(self, events: Column) -> Column:
        """Folds an array of events."""
        return F.aggregate(events, self._start(events), self._step, self._finish)

    def _number(self, value: int) -> Column:
        return F.lit(value).cast(self.kind)

    def _add(self, a: Column, b: Column) -> Column:
        return F.try_add(a, b).cast(self.kind) if self.exact else a + b

    def _instant(self, event: Column) -> Column:
        if self.encoding.bits:
            return F.shiftright(event, self.encoding.bits)
        if len(self.order) == 1:
            return event.getField(self.order[0])
        return F.struct(*[event.getField(name).alias(name) for name in self.order])

    def _binds(self, event: Column, variable: int) -> Column:
        """Whether an event may be bound to a variable."""
        bits, dictionary = self.encoding.bits, self.encoding.dictionary
        if dictionary:
            kind = event.bitwiseAND(F.lit((1 << bits) - 1))
            return kind.isin([number for number, mask in enumerate(dictionary) if mask >> variable & 1])
        mask = event if bits else event.getField("m")
        return mask.bitwiseAND(F.lit(1 << variable)) != 0

    def _start(self, events: Column) -> Column:
        zeros = [self._number(0).alias(f"{part}{q}_{k}") for part in ("sum", "before") for q, k in self.cells]
        return F.struct(self._instant(F.get(events, F.lit(0))).alias("at"), *zeros)

    def _step(self, state: Column, event: Column) -> Column:
        # The only condition surrounds everything, so that all terms within it are plain fields.
        at, now = state.getField("at"), self._instant(event)
        same = at == now if len(self.order) == 1 else at.eqNullSafe(now)
        return F.when(same, self._next(state, event, "before")).otherwise(self._next(state, event, "sum"))

    def _next(self, state: Column, event: Column, seen: str) -> Column:
        """Returns the state after an event that sees the sums ``seen``."""
        before = {(q, k): state.getField(f"{seen}{q}_{k}") for q, k in self.cells}
        sums = []
        for q, variable in enumerate(self.machine.variables):
            bound = self._binds(event, variable)
            for k, value in enumerate(self._values(q, variable, before)):
                total = state.getField(f"sum{q}_{k}")
                sums.append(F.when(bound, self._add(total, value)).otherwise(total).alias(f"sum{q}_{k}"))
        kept = [before[q, k].alias(f"before{q}_{k}") for q, k in self.cells]
        return F.struct(self._instant(event).alias("at"), *sums, *kept)

    def _values(self, state: int, variable: int, before: dict[tuple[int, int], Column]) -> list[Column]:
        """Returns the accumulators of the trends that end with an event bound on entering a state."""
        sources = [edge.source for edge in self.machine.edges if edge.target == state]
        begins = any(q == state for q, _ in self.machine.initial)
        values: list[Column] = []
        for k, accumulator in enumerate(self.accumulators):
            terms = [before[p, k] for p in sources]
            if k == 0 and begins:
                terms.append(self._number(1))
            total = combine(self._add, terms) if terms else self._number(0)
            if k > 0 and accumulator.variable in (-1, variable):
                total = self._add(total, values[0])
            values.append(total)
        return values

    def _finish(self, state: Column) -> Column:
        results = []
        for k in range(len(self.accumulators)):
            terms = [state.getField(f"sum{q}_{k}") for q, _ in self.machine.final]
            results.append((combine(self._add, terms) if terms else self._number(0)).alias(f"r{k}"))
        return F.struct(*results)
