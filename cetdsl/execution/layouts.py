"""Shows trends in other shapes than an array: a row per trend with a column per attribute, or a row per binding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.errors import InvalidNode
from cetdsl.execution.compat import is_case_sensitive, refuse_streaming
from cetdsl.pattern.text import in_backquotes

NESTED, WIDE, LONG = LAYOUTS = ("nested", "wide", "long")
#: The times of a trend's first and last event.
FIRST_TIME, LAST_TIME = "first_time", "last_time"
_OTHER_NAMES = "choose other columns to show with columns=[...], or rename the variable or the column"
_OTHER_LAYOUT = "rename the column {name!r} before the query is bound, or leave layout= and times= away"


@attrs.frozen
class Layout:
    """Describes how trends are shown.

    ``variables`` are those that trends bind, each with whether it binds at most one event. Events show ``columns``.
    ``keys`` are columns beside each trend, equal in all of its events. With ``times``, the times of the first and of
    the last event are further columns.
    """

    form: str
    variables: tuple[tuple[str, bool], ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    time: str
    times: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that the events must have to be laid out."""
        return tuple(dict.fromkeys((*self.columns, self.time))) if self.times else self.columns


def lay_out(rows: DataFrame, layout: Layout) -> DataFrame:
    """Lays out trends in another shape.

    ``rows`` have keys, a window if the query slides, perhaps other columns, and last ``trend``, whose events have the
    needed columns.
    """
    if layout.form == NESTED and not layout.times:
        return rows
    before = [name for name in rows.columns if name != "trend"]
    trend = F.col("trend")
    ends = []
    if layout.times:
        ends = [time.alias(name) for time, name in zip(times_of_ends(layout.time), (FIRST_TIME, LAST_TIME))]
    if layout.form == NESTED:
        _refuse_clashes(rows, [*before, *([FIRST_TIME, LAST_TIME] if ends else []), "trend"])
        whole = trend if layout.needed == layout.columns else narrowed(layout.columns)
        return rows.select(*map(_column, before), *ends, whole.alias("trend"))
    beside, names = _flat(before, layout.keys)
    beside += ends
    names += [FIRST_TIME, LAST_TIME] if ends else []
    if layout.form == WIDE:
        return _wide(rows, layout, beside, names)
    return _long(rows, layout, beside, names)


def _wide(rows: DataFrame, layout: Layout, beside: Sequence[Column], names: Sequence[str]) -> DataFrame:
    own = [f"{variable}_{column}" for variable, _ in layout.variables for column in layout.columns]
    _refuse_clashes(rows, [*names, *own], own)
    shown = []
    for variable, is_single in layout.variables:
        bound = F.filter("trend", _binds(variable))
        for column in layout.columns:
            values = F.transform(bound, _value_of(column))
            shown.append((F.get(values, F.lit(0)) if is_single else values).alias(f"{variable}_{column}"))
    return rows.select(*beside, *shown)


def _long(rows: DataFrame, layout: Layout, beside: Sequence[Column], names: Sequence[str]) -> DataFrame:
    refuse_streaming(rows, "its trends in the layout 'long', which numbers them")
    columns = [column for column in layout.columns if column not in layout.keys]
    own = [*names, "trend", "position", "variable", *columns]
    _refuse_clashes(rows, own, columns)
    # Columns by number, as those of an answer may have any name.
    numbered = rows.select(*beside, F.monotonically_increasing_id(), "trend")
    numbered = numbered.toDF(*(f"c{place}" for place in range(len(names))), "number", "trend")
    kept = [f"c{place}" for place in range(len(names))]
    each = numbered.select(*kept, "number", F.posexplode("trend").alias("place", "bound"))
    event = [_of_event(F.col("bound"), column) for column in columns]
    flat = each.select(*kept, "number", F.col("place") + 1, F.col("bound").getField("variable"), *event)
    return flat.toDF(*own)


def _flat(before: Sequence[str], keys: Sequence[str]) -> tuple[list[Column], list[str]]:
    """The columns beside the trend, and their names, with the ends of the window as columns of their own."""
    columns, names = [], []
    for place, name in enumerate(before):
        if name == "window" and place == len(keys):
            columns += [F.col(name).getField(end) for end in ("start", "end")]
            names += ["window_start", "window_end"]
        else:
            columns.append(_column(name))
            names.append(name)
    return [column.alias(name) for column, name in zip(columns, names)], names


def _column(name: str) -> Column:
    return F.col(in_backquotes(name))


def _of_event(binding: Column, name: str) -> Column:
    return binding.getField("event").getField(name)


def times_of_ends(time: str) -> tuple[Column, Column]:
    """The times of the first and of the last event of ``trend``, from the column of that name in its events."""
    return _of_event(F.get("trend", F.lit(0)), time), _of_event(F.element_at("trend", -1), time)


def _binds(variable: str) -> Callable[[Column], Column]:
    return lambda binding: binding.getField("variable") == F.lit(variable)


def _value_of(name: str) -> Callable[[Column], Column]:
    return lambda binding: _of_event(binding, name)


def narrowed(columns: Sequence[str]) -> Column:
    """The column ``trend`` of rows with these columns of its events alone."""

    def binding(bound: Column) -> Column:
        event = F.struct(*(_of_event(bound, name).alias(name) for name in columns))
        return F.struct(bound.getField("variable").alias("variable"), event.alias("event"))

    return F.transform("trend", binding)


def _refuse_clashes(rows: DataFrame, names: Sequence[str], shown: Sequence[str] = ()) -> None:
    """Raises where an answer would have two columns of one name; those ``shown`` are of events."""
    fold: Callable[[str], str] = str if is_case_sensitive(rows.sparkSession) else str.lower
    folded = [fold(name) for name in names]
    for name in names:
        if folded.count(fold(name)) > 1:
            of_events = fold(name) in map(fold, shown)
            hint = _OTHER_NAMES if of_events else _OTHER_LAYOUT.format(name=name)
            raise InvalidNode(f"the answer would have two columns of the name {name!r}", hint=hint)
