"""Decides who puts the events of a task in order.

Spark sorts rows as they are, by comparing them; the kernel numbers the keys, sorts positions by the digits of times,
and moves every column once. So the kernel takes the less time the narrower the events are.
"""

from __future__ import annotations

import re

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.operators import EventsInOrder, Exchange, Operator, with_exchanges
from cetdsl.ir.sorting import KERNEL, SPARK, UNLIMITED, Sorting
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.expressions import Attribute, Expr

#: The types whose values the kernel can put in order, or tell apart, as Spark does.
_COMPARABLE = re.compile(
    r"tinyint|smallint|int|bigint|float|double|decimal\(.*\)|boolean|string|binary|date|timestamp|timestamp_ntz|"
    r"(var)?char\(.*\)"
)
#: Bytes of a value by type, and of those of any other: texts, and terms whose type only Spark knows.
_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4, "boolean": 1}
_NUMBER_BYTES, _TEXT_BYTES, _NESTED_BYTES = 8, 24, 128
#: From so many bytes of an event on, moving its columns is expected to take longer than Spark's sort: an estimate.
WIDE_EVENT = 512


def exchanged(plan: Operator) -> Operator:
    """Returns the plan with the exchanges that its operators require, each with whoever sorts its events."""
    return _decided(with_exchanges(plan))


def _decided(plan: Operator) -> Operator:
    plan = plan.with_children(tuple(map(_decided, plan.children)))
    if not isinstance(plan, Exchange) or not isinstance(plan.gives_rows, EventsInOrder):
        return plan
    needed = plan.gives_rows
    sorting = who_sorts(plan.source, plan.compiled, needed.values, needed.columns or ())
    # Runs are made of all events of a key in a partition; a stream has them one micro-batch after the other.
    in_runs = needed.in_runs and not plan.source.is_stream
    return attrs.evolve(plan, gives_rows=attrs.evolve(needed, sorting=sorting, in_runs=in_runs))


def who_sorts(
    source: Source, compiled: Compiled, values: tuple[Expr, ...] = (), columns: tuple[str, ...] = ()
) -> Sorting:
    """Decides who sorts events of which these terms are aggregated, and these columns shown."""
    asked = source.sort
    if source.is_stream:
        return Sorting("Spark sorts no stream", asked.memory)
    if asked.by == SPARK:
        return Sorting("as asked for")
    reason = why_not_sorted_by_kernel(source)
    if reason is not None:
        return Sorting(reason)
    held = not source.keys and source.windowing.kind == WHOLE
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
