"""The wording that several operators share in ``explain``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.accumulators import TRENDS, Accumulator
from cetdsl.ir.compiled import Compiled, ListColumn
from cetdsl.ir.keeping import Keeping
from cetdsl.ir.kernel import ALL, ENDS, MAXIMAL, KernelQuery
from cetdsl.ir.machine import LISTED, Comparison, Edge, Pair
from cetdsl.ir.operators.operator import Step
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE
from cetdsl.pattern.expressions import MIRRORED, Aggregate, Attribute, Expr, Length, Role, with_attributes
from cetdsl.pattern.query import ANY
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import quote, quote_name, short_pattern

COMPLETENESS = {
    ALL: "all trends",
    MAXIMAL: "maximal: trends that are not another one with some bindings left out",
    ENDS: "ends: trends that are no contiguous part of another one",
}
NUMBER_FORMS = {
    "decimal": "decimal: exact, DECIMAL(38,0); a count that does not fit is an error",
    "string": "string: exact at any size",
    "double": "double: rounded",
    "log2": "log2: the logarithm, good at any size",
}
ALONG_EDGES = "grows with the edges of the graph, however many trends there are"
#: The most queries that ``explain`` names before it only counts the rest.
_NAMED = 6


def some(names: Sequence[str]) -> str:
    """Lists the names of queries; of many, only the first."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def number_fact(number: str) -> tuple[str, str]:
    """Describes the form of an answer's numbers."""
    return "numbers", NUMBER_FORMS.get(number, number)


def trends_fact(completeness: str) -> tuple[tuple[str, str], ...]:
    """Describes which trends an answer is about, unless it is about all of them."""
    return () if completeness == ALL else (("trends", COMPLETENESS[completeness]),)


def until(limit: int | None) -> str:
    """Describes where listing ends."""
    return f", until {limit} are found" if limit is not None else ""


def along_paths(limit: int | None = None) -> str:
    """Describes how the time of listing the paths of a graph grows."""
    return f"grows with the edges of the graph and with the number of its trends{until(limit)}"


def rounds_before(query: KernelQuery) -> tuple[str, ...]:
    """Describes the rounds of joins before paths are followed: they find the events on trends, and the edges."""
    machine = query.machine
    states = set(range(len(machine.variables)))
    if {state for state, _ in machine.initial} == states == {state for state, _ in machine.final}:
        useful = "one round for each side finds where trends begin and end"
    else:
        useful = (
            "rounds from the first events on, and from the last ones back, find what lies on a trend, until no event is"
            " new"
        )
    if query.completeness != MAXIMAL:
        return (useful,)
    return useful, "edges are listed, and rounds from their first events on find those that a longer path goes round"


def keys_and_window(source: Source, keys: Iterable[str]) -> list[str]:
    """Returns the names of the columns that distinguish the rows of an answer, or of partial results."""
    return [*map(quote_name, keys), *source.window]


def partial_keys(source: Source, groups: Sequence[str]) -> tuple[str, ...]:
    """Returns the internal names of the columns that distinguish rows of partial results."""
    return (*(f"g{number}" for number in range(len(groups))), *(["w"] if source.window else []))


def weight(by: Aggregate, name: str) -> str:
    """Describes the weight that orders trends."""
    return name if isinstance(by.argument, Length) else quote(by)


def heaviest(size: int, by: str, *, of_each: bool = False) -> str:
    """Describes the choice of the heaviest trends."""
    return f"the {size} of largest {by}" + (" of each key and window" if of_each else "")


def shuffle(keys: list[str]) -> str:
    """Describes a shuffle by keys."""
    return "shuffle by " + ", ".join(keys) if keys else "shuffle to one task, as there is no key"


def packed(what: str) -> Step:
    """Describes that events, or rows, are packed before they are sent."""
    return Step(f"pack {what}, many in one row", ("a shuffle's cost grows with the rows",))


def amount_of_time(source: Source, amount: int) -> str:
    """Describes an amount of time in the unit of the time column."""
    unit = "microsecond" if source.time_type.startswith("timestamp") else "tick"
    text = str(Span(amount, unit))
    return f"{text} ticks" if unit == "tick" else text


def lengths_of_panes(source: Source) -> str:
    """Describes the lengths of the panes of sliding windows."""
    windowing = source.windowing
    rest = windowing.length % windowing.slide
    if not rest:
        return f"{amount_of_time(source, windowing.slide)} each"
    first, second = (amount_of_time(source, amount) for amount in (rest, windowing.slide - rest))
    return f"{first} and {second} in turn, between the windows' borders"


def kept(source: Source, keeping: Keeping, *, in_panes: bool = False) -> Step:
    """Describes how a stream keeps events until the window, span or pane that needs them is closed."""
    unit = "pane" if in_panes else unit_of(source).removeprefix("a ")
    how = f"each once, {keeping.why}" if keeping.once else f"once for each {unit}: {keeping.why}"
    packed = keeping.once or keeping.packed
    by = ["share of the keys"] if packed and source.keys else [] if packed else map(quote_name, source.kept_by)
    lines = [how, *(["packed, many in one value of state"] if packed else [])]
    tasks = "shares of the keys, a task each at every trigger" if packed else "tasks at every trigger"
    lines.append(f"{tasks}: {source.state.shares}")
    if source.state.why_slow is not None:
        lines.append(f"{source.state.why_slow}: {source.state.advice}")
    until = "keep until the watermark passes what they are needed for, by " + ", ".join([*by, unit])
    return Step(until, tuple(lines))


def unit_of(source: Source) -> str:
    """Describes the part of the events that is processed at once."""
    unit = {WHOLE: "a key", SLIDING: "a window", SPAN: "a span"}[source.windowing.kind]
    return "the DataFrame" if not source.keys and unit == "a key" else unit


def projected(source: Source, compiled: Compiled, values: tuple[Expr, ...]) -> list[str]:
    """Describes the columns that are kept of each event."""
    lines = []
    if source.keys:
        added = [name for name in source.partitions if name not in source.asked_partitions]
        lines.append("keys: " + ", ".join(map(quote_name, source.keys)))
        if added:
            lines.append("  found by rewriting: " + ", ".join(map(quote_name, added)))
    lines.append("order: " + ", ".join(map(quote_name, (source.time, *source.tie_break))))
    if len(compiled.asked) > 1:
        lines.append(f"which of {', '.join(quote_name(name) for name, _ in compiled.asked)} it may be bound to")
    codes = list(dict.fromkeys(quote(column.expr) for column in compiled.codes))
    if codes:
        lines.append("compared: " + ", ".join(codes))
    if compiled.lists:
        names = dict.fromkeys(name for column in compiled.lists for name in column.names)
        lines.append("compared by Spark: " + ", ".join(map(quote_name, names)))
    if compiled.machine.matching != ANY:
        lines.append(f"matching: {compiled.machine.matching}, by the instant that each event leads to")
    if values:
        lines.append("aggregated: " + ", ".join(map(quote, values)))
    return lines


def bound(expr: Expr, variable: str, role: Role) -> str:
    """Writes a term over one event's row as a term over the events of a variable."""
    text = quote(with_attributes(expr, lambda attribute: Attribute(variable, attribute.name, role)))
    return text if isinstance(expr, Attribute) or " " not in text else f"({text})"


def compared(compiled: Compiled, comparison: Comparison, earlier: str, later: str) -> str:
    """Writes a comparison of two neighbours, by the names of their variables."""
    left = bound(compiled.codes[comparison.earlier].expr, earlier, Role.EACH)
    right = bound(compiled.codes[comparison.later].expr, later, Role.NEXT)
    return f"{left} {MIRRORED[comparison.op]} {right}"


def pair_of_rows(predicate: Expr, earlier: str, later: str) -> str:
    """Writes a predicate over the rows of two neighbours."""
    names = {Role.NEXT: later}
    return quote(with_attributes(predicate, lambda a: Attribute(names.get(a.role, earlier), a.name, a.role)))


def of_list(compiled: Compiled, column: ListColumn) -> str:
    """Describes a predicate that Spark tests of an event, ``e``, and the earlier ones."""
    of_variables = column.earlier >= 0
    names = [compiled.name_of(number) for number in (column.earlier, column.later)] if of_variables else ["e", "e"]
    write = pair_of_list if of_variables else pair_of_rows
    text = write(column.predicate, *names)
    if column.guard is not None:
        text += f", where {write(column.guard, *names)}"
    return text if of_variables else f"{text} (e: the event)"


def cost_of_list(source: Source, compiled: Compiled, column: ListColumn) -> str:
    """Describes for how many pairs of events Spark tests a predicate."""
    if column.earlier < 0:
        pairs = "every two events of a key"
    else:
        earlier, later = compiled.name_of(column.earlier), compiled.name_of(column.later)
        pairs = f"every event of {earlier} with every later one of {later}"
    near = "" if source.windowing.kind == WHOLE else ", where a window may have both"
    return f"Spark tests an inseparable predicate for {pairs}{near}"


def pair_of_list(predicate: Expr, earlier: str, later: str) -> str:
    """Writes a pairwise predicate over the rows of an earlier and a later event, which need not be neighbours."""
    names = {Role.NEXT: later}
    return quote(with_attributes(predicate, lambda a: Attribute(names.get(a.role, earlier), a.name)))


def pair_text(compiled: Compiled, pair: Pair) -> str:
    """Writes a pairwise predicate over the variables that it relates."""
    if pair.op == LISTED:
        in_order = pair if pair.left >= 0 else pair.turned
        earlier, later = compiled.name_of(in_order.left_variable), compiled.name_of(in_order.right_variable)
        return f"{pair_of_list(compiled.lists[in_order.left].predicate, earlier, later)} [LIST]"
    left = bound(compiled.codes[pair.left].expr, compiled.name_of(pair.left_variable), Role.EACH)
    right = bound(compiled.codes[pair.right].expr, compiled.name_of(pair.right_variable), Role.EACH)
    return f"{left} {pair.op} {right}"


def tested(compiled: Compiled, edge: Edge, comparisons: Iterable[Comparison], guards: Iterable[int]) -> list[str]:
    """Describes the conditions of an edge that no index answers: comparisons, inseparable predicates, and NOTs."""
    variables = compiled.machine.variables
    earlier, later = (compiled.name_of(variables[state]) for state in (edge.source, edge.target))
    tests = [compared(compiled, comparison, earlier, later) for comparison in comparisons]
    tests += [pair_of_rows(compiled.lists[number].predicate, earlier, later) for number in edge.listed]
    tests += [f"{short_pattern(compiled.automaton.negations[guard])} between {earlier} and {later}" for guard in guards]
    return [f"tested for each two events that meet: {test}" for test in tests]


def of_parts(compiled: Compiled) -> tuple[str, ...]:
    """Describes the parts of those variables that the planner split."""
    return tuple(one.words for one in compiled.parts)


def of_accumulator(compiled: Compiled, accumulator: Accumulator, values: tuple[Expr, ...]) -> str:
    """Describes the number that an accumulator carries along trends."""
    if accumulator == TRENDS:
        return "number of trends"
    if accumulator.is_length:
        return f"length of the {'shortest' if accumulator.update.merge is Merge.SMALLEST else 'longest'} trend"
    if accumulator.variable < 0:
        return "number of events of the trends"
    variable = compiled.asked_name_of(accumulator.variable)
    if accumulator.column < 0:
        return f"number of events bound to {quote_name(variable)}"
    term = bound(values[accumulator.column], variable, Role.EACH)
    return accumulator.update.words.format(term)
