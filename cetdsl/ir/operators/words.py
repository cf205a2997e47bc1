"""The words that operators have in common."""

from __future__ import annotations

from collections.abc import Iterable

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.accumulators import TRENDS, Accumulator
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import ALL, ENDS, MAXIMAL
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE
from cetdsl.pattern.expressions import Attribute, Expr, Role, attributes, transform
from cetdsl.pattern.query import Span
from cetdsl.pattern.text import quote, quote_name

COMPLETENESS = {
    ALL: "all trends",
    MAXIMAL: "maximal: trends that are not another one with some bindings left out",
    ENDS: "ends: trends that are not a run of neighbours of another one",
}
NUMBER_FORMS = {
    "decimal": "decimal: exact, DECIMAL(38,0); a count that does not fit is an error",
    "string": "string: exact at any size",
    "double": "double: rounded",
    "log2": "log2: the logarithm, good at any size",
}
ALONG_EDGES = "grows with the edges of the graph, however many trends there are"


def number_fact(number: str) -> tuple[str, str]:
    """Of what form the numbers of an answer are."""
    return "numbers", NUMBER_FORMS.get(number, number)


def until(limit: int | None) -> str:
    """Where listing ends."""
    return f", until {limit} are found" if limit is not None else ""


def columns_of(source: Source, *more: str) -> tuple[str, ...]:
    """The columns of an answer that has ``more`` of its own: groups, window, and these."""
    return (*source.groups, *_window(source), *more)


def columns_with_trend(source: Source, *more: str) -> tuple[str, ...]:
    """The columns of an answer with a row per trend."""
    return (*source.groups, *source.asked_partitions, *_window(source), *more, "trend")


def _window(source: Source) -> tuple[str, ...]:
    return ("window",) if source.windowing.kind == SLIDING else ()


def keys_and_window(source: Source, keys: Iterable[str]) -> list[str]:
    """What tells apart the rows of an answer, or of what it is made of."""
    return [*map(quote_name, keys), *_window(source)]


def shuffle(keys: list[str]) -> str:
    """A shuffle by keys."""
    return "shuffle by " + ", ".join(keys) if keys else "shuffle to one task, as there is no key"


def in_order(source: Source, keys: list[str]) -> str:
    """A sort of events by keys and time."""
    return "sort each task's events by " + ", ".join(
        [*keys, quote_name(source.time), *map(quote_name, source.tie_break)]
    )


def amount_of_time(source: Source, amount: int) -> str:
    """An amount of time in the unit of the time column."""
    unit = "microsecond" if source.time_type.startswith("timestamp") else "tick"
    text = str(Span(amount, unit))
    return f"{text} ticks" if unit == "tick" else text


def unit_of(source: Source) -> str:
    """What is gone through at once."""
    unit = {WHOLE: "a key", SLIDING: "a window", SPAN: "a span"}[source.windowing.kind]
    return "the DataFrame" if not source.keys and unit == "a key" else unit


def projected(source: Source, compiled: Compiled, values: tuple[Expr, ...]) -> list[str]:
    """What is taken along of each event."""
    lines = []
    if source.keys:
        added = [name for name in source.partitions if name not in source.asked_partitions]
        lines.append("keys: " + ", ".join(map(quote_name, source.keys)))
        if added:
            lines.append("  found by rewriting: " + ", ".join(map(quote_name, added)))
    lines.append("order: " + ", ".join(map(quote_name, (source.time, *source.tie_break))))
    if len(compiled.variables) > 1:
        lines.append(f"which of {', '.join(quote_name(name) for name, _ in compiled.variables)} it may be bound to")
    codes = list(dict.fromkeys(quote(column.expr) for column in compiled.codes))
    if codes:
        lines.append("compared: " + ", ".join(codes))
    if compiled.lists:
        names = dict.fromkeys(node.name for term in compiled.lists for node in attributes(term))
        lines.append("compared by Spark: " + ", ".join(map(quote_name, names)))
    if values:
        lines.append("aggregated: " + ", ".join(map(quote, values)))
    return lines


def bound(expr: Expr, variable: str, role: Role) -> str:
    """A term over one event's row, as a term over the events of a variable."""

    def change(node: Expr) -> Expr:
        return Attribute(variable, node.name, role) if isinstance(node, Attribute) else node

    text = quote(transform(expr, change))
    return text if isinstance(expr, Attribute) or " " not in text else f"({text})"


def pair_of_rows(predicate: Expr, earlier: str, later: str) -> str:
    """A predicate over the rows of two neighbours."""

    def change(node: Expr) -> Expr:
        if not isinstance(node, Attribute):
            return node
        return Attribute(later if node.role is Role.NEXT else earlier, node.name, node.role)

    return quote(transform(predicate, change))


def carried(compiled: Compiled, accumulators: Iterable[Accumulator], values: tuple[Expr, ...]) -> list[str]:
    """The numbers that are carried along trends."""
    return [_accumulator(compiled, accumulator, values) for accumulator in accumulators]


def _accumulator(compiled: Compiled, accumulator: Accumulator, values: tuple[Expr, ...]) -> str:
    if accumulator == TRENDS:
        return "number of trends"
    if accumulator.is_length:
        return f"length of the {'shortest' if accumulator.update.merge is Merge.SMALLEST else 'longest'} trend"
    if accumulator.variable < 0:
        return "number of events of the trends"
    variable = compiled.name_of(accumulator.variable)
    if accumulator.column < 0:
        return f"number of events bound to {quote_name(variable)}"
    term = bound(values[accumulator.column], variable, Role.EACH)
    return accumulator.update.words.format(term)
