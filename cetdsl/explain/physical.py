"""A physical plan as views: its steps, its cost in words, and the automata that it walks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import attrs

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.explain.automata import automaton_view, short_pattern
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode
from cetdsl.ir.accumulators import TRENDS, Lane, Output
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.indexes import INDEXES, index_of_edge
from cetdsl.ir.kernel import ALL, ENDS, MAXIMAL
from cetdsl.ir.machine import Machine, Pair
from cetdsl.ir.source import Source, kernel_sorts_shares
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE, overlap
from cetdsl.pattern.automaton import Transition, build_automaton
from cetdsl.pattern.expressions import MIRRORED, Attribute, Expr, Length, Role, attributes, transform
from cetdsl.pattern.query import Span
from cetdsl.pattern.text import quote, quote_name
from cetdsl.planning.planner import Decision
from cetdsl.planning.plans import (
    AggregateTrends,
    DefinedTrends,
    EnumerateTrends,
    FoldAggregate,
    GraphTrends,
    JoinedTrends,
    KernelAggregate,
    PairAggregate,
    PairTrends,
    PanesAggregate,
    PhysicalPlan,
    SampledTrends,
    SurveyedTrends,
    TopTrends,
)

STRATEGIES = {
    "fold": "built-in Spark expressions only, no Python worker",
    "panes": "small matrices of stretches of time, multiplied up to windows",
    "kernel": "one compiled pass over each task's sorted events",
    "enumerate": "lists the trends one by one, and aggregates them where that is asked",
    "graph": "trends are the paths of a graph of each key's events",
    "balanced": "all cores build the one large graph, and each lists an equal part of its paths",
    "joins": "the paths of one large graph, extended by one event per round of joins",
    "definition": "lists all trends, and drops those that another one contains",
}
COMPLETENESS = {
    ALL: "all trends",
    MAXIMAL: "maximal: trends that are not another one with some bindings left out",
    ENDS: "ends: trends that are not a run of neighbours of another one",
}
ALGORITHMS = {
    "auto": "what suits each graph",
    "m-cet": "depth first, one trend in memory",
    "t-cet": "breadth first, all partial trends kept",
    "h-cet": "cut by time into graphlets, whose partial trends are kept where the memory allows, and stitched",
    "anchors": "partial trends between chosen values, joined along these",
}
NUMBER_FORMS = {
    "decimal": "decimal: exact, DECIMAL(38,0); a count that does not fit is an error",
    "string": "string: exact at any size",
    "double": "double: rounded",
    "log2": "log2: the logarithm, good at any size",
}
_GROWTH = ("linear", "linear", "n log n", "quadratic (pairwise scan)")


def physical_views(decision: Decision) -> tuple[PlanView, ...]:
    """The plan that was chosen, and the automata that it walks."""
    plan = decision.plan
    steps = _Steps()
    steps.plan(plan)
    facts = [("strategy", f"{decision.strategy}: {STRATEGIES.get(decision.strategy, '')}".rstrip(": "))]
    facts += [("declined", f"{name}: {reason}") for name, reason in decision.declined]
    facts += _complete_facts(plan)
    facts += [("cost", text) for text in costs_of(plan)]
    if (form := _number_of(plan)) is not None:
        facts.append(("numbers", NUMBER_FORMS.get(form, form)))
    facts += _windows(_source_of(plan))
    if isinstance(plan, PanesAggregate):
        facts.append(("panes", _panes(plan.source)))
    whole = PlanView("physical plan", tuple(steps.nodes), tuple(steps.edges), tuple(facts))
    return (whole, *_automata(plan))


# ------------------------------------------------------------------------------------------------- what plans hold


_Side = KernelAggregate | PanesAggregate | EnumerateTrends | FoldAggregate | GraphTrends | JoinedTrends


def _sides(plan: PhysicalPlan) -> list[tuple[str, _Side]]:
    """The parts of a plan that walk an automaton, with their names."""
    if isinstance(plan, (AggregateTrends, DefinedTrends, SampledTrends, TopTrends, SurveyedTrends)):
        return _sides(plan.trends)
    if isinstance(plan, PairTrends):
        return [("left side", plan.left), ("right side", plan.right)]
    if isinstance(plan, PairAggregate):
        both = [("trends of both sides", plan.both)] if plan.both is not None else []
        return [("left side", plan.left), ("right side", plan.right), *both]
    assert isinstance(plan, _Side), plan
    return [("", plan)]


def _source_of(plan: PhysicalPlan) -> Source:
    return plan.source if isinstance(plan, PairAggregate) else _sides(plan)[0][1].source


def _number_of(plan: PhysicalPlan) -> str | None:
    if isinstance(plan, (FoldAggregate, AggregateTrends, PairAggregate)):
        return plan.number
    return plan.spec.answer.number if isinstance(plan, (KernelAggregate, PanesAggregate)) else None


def _complete_facts(plan: PhysicalPlan) -> list[tuple[str, str]]:
    """Which trends are asked for, and how they are got out of a graph."""
    if isinstance(plan, (AggregateTrends, SampledTrends, TopTrends, SurveyedTrends)):
        return _complete_facts(plan.trends)
    if isinstance(plan, DefinedTrends):
        kept = f"{plan.memory} bytes for the trends kept of one key{_and_window(plan.source)}"
        return [("trends", COMPLETENESS[plan.completeness]), ("memory", kept)]
    if not isinstance(plan, (GraphTrends, JoinedTrends, KernelAggregate)) or plan.spec.query.completeness == ALL:
        return []
    facts = [("trends", COMPLETENESS[plan.spec.query.completeness])]
    if isinstance(plan, GraphTrends):
        facts.append(("algorithm", f"{plan.algorithm}: {ALGORITHMS[plan.algorithm]}"))
        limit = "no limit" if plan.memory is None else f"{plan.memory} bytes per task"
        facts.append(("memory", f"{limit} for partial trends"))
    return facts


def _and_window(source: Source) -> str:
    return " and window" if source.windowing.kind == SLIDING else ""


def _time(source: Source, amount: int) -> str:
    unit = "microsecond" if source.time_type.startswith("timestamp") else "tick"
    text = str(Span(amount, unit))
    return f"{text} ticks" if unit == "tick" else text


def _windows(source: Source) -> list[tuple[str, str]]:
    windowing = source.windowing
    if windowing.kind == WHOLE:
        return [("windows", "none: the events of a key all together")]
    length = _time(source, windowing.length)
    if windowing.kind == SPAN:
        text = f"none: a trend spans at most {length}"
    else:
        text = f"{length} long, one every {_time(source, windowing.slide)}"
        if _overlaps(source):
            text += f"; an event is in up to {overlap(windowing)}"
    facts = [("windows", text)]
    if windowing.cut:
        how = f"{_time(source, windowing.cut)} each, so that many tasks share a key"
        if _overlaps(source):
            how += f"; events within {length} of a border go to both"
        facts.append(("stretches", how))
    return facts


def _panes(source: Source) -> str:
    windowing = source.windowing
    rest = windowing.length % windowing.slide
    if not rest:
        return f"{_time(source, windowing.slide)} each"
    return f"{_time(source, rest)} and {_time(source, windowing.slide - rest)} in turn, between the windows' borders"


def _overlaps(source: Source) -> bool:
    windowing = source.windowing
    return windowing.kind == SPAN or (windowing.kind == SLIDING and windowing.slide < windowing.length)


# ----------------------------------------------------------------------------------------------------------- costs


def costs_of(plan: PhysicalPlan) -> list[str]:
    """How the time grows, in words."""
    if isinstance(plan, FoldAggregate):
        return [f"linear in the events of {_unit(plan)}, besides sorting them"]
    if isinstance(plan, PanesAggregate):
        return [
            "linear in the events, besides sorting them",
            "two products of matrices per pane, one of vectors per window, however many windows overlap",
        ]
    if isinstance(plan, KernelAggregate) and plan.spec.query.completeness != ALL:
        return ["grows with the edges of the graph, however many trends there are"]
    if isinstance(plan, (KernelAggregate, PairAggregate)):
        return _kernel_costs(plan)
    if isinstance(plan, (SampledTrends, TopTrends)):
        if isinstance(plan.trends, GraphTrends):
            return ["grows with the edges of the graph, however many trends there are"]
        return costs_of(plan.trends)
    if isinstance(plan, SurveyedTrends):
        return costs_of(plan.trends)
    if isinstance(plan, PairTrends):
        return ["grows with the number of trends of each side, and of their pairs"]
    limit = plan.limit if isinstance(plan, (EnumerateTrends, GraphTrends, JoinedTrends)) else None
    until = f", until {limit} are found" if limit is not None else ""
    if isinstance(plan, (GraphTrends, JoinedTrends)):
        return [f"grows with the edges of the graph and with the number of its trends{until}"]
    if isinstance(plan, DefinedTrends) or (
        isinstance(plan, AggregateTrends) and isinstance(plan.trends, DefinedTrends)
    ):
        return ["grows with the number of all trends, complete or not"]
    return [f"grows with the number of trends{until}"]


def _unit(plan: PhysicalPlan) -> str:
    """What is gone through at once."""
    unit = {WHOLE: "a key", SLIDING: "a window", SPAN: "a span"}[_source_of(plan).windowing.kind]
    return "the DataFrame" if not _source_of(plan).keys and unit == "a key" else unit


def _kernel_costs(plan: KernelAggregate | PairAggregate) -> list[str]:
    unit, costs = _unit(plan), []
    sides = [side for _, side in _sides(plan)]
    worst = max((_worst_index(side.compiled) for side in sides), default=0)
    costs.append(f"{_GROWTH[worst]} in the events of {unit}")
    for side in sides:
        assert isinstance(side, KernelAggregate), side
        if side.spec.query.pivot >= 0 and unit != "a span":
            costs.append(f"one pass per event bound to {_variable(side.compiled, side.spec.query.pivot)}")
    if unit == "a span":
        costs.append("one pass per event that can begin a trend")
    if any(side.compiled.lists for side in sides):
        costs.append("Spark tests an inseparable predicate for every two events of a key")
    return list(dict.fromkeys(costs))


def _worst_index(compiled: Compiled) -> int:
    machines = [compiled.machine, *(negation.machine for negation in compiled.negations)]
    return max((index_of_edge(compiled, edge) for machine in machines for edge in machine.edges), default=0)


# -------------------------------------------------------------------------------------------------------- automata


def _automata(plan: PhysicalPlan) -> tuple[PlanView, ...]:
    views: dict[PlanView, None] = {}
    for name, side in _sides(plan):
        compiled = side.compiled
        title = f"automaton of the {name}" if name else "automaton"
        conditions = partial(_step_conditions, compiled, isinstance(side, KernelAggregate))
        view = automaton_view(compiled.automaton, title=title, conditions=partial(conditions, compiled.machine))
        views.setdefault(attrs.evolve(view, facts=tuple(_pair_facts(side))))
        for node, negation in zip(compiled.automaton.negations, compiled.negations):
            inner = build_automaton(node.part)
            if len(inner.variables) < 2 and not negation.machine.edges and not negation.correlated:
                continue  # a lone event says nothing that its name has not said
            view = automaton_view(inner, title=short_pattern(node), conditions=partial(conditions, negation.machine))
            facts = [
                ("forbids", f"a match with {_pair_text(compiled, pair)}")
                for pair in (*negation.correlated, *negation.pairs)
            ]
            views.setdefault(attrs.evolve(view, facts=tuple(facts)))
    return tuple(views)


def _step_conditions(compiled: Compiled, indexed: bool, machine: Machine, step: Transition) -> list[str]:
    """The predicates of an edge, and in brackets the index that answers it."""
    lines: list[str] = []
    for edge in machine.edges:
        if (edge.source, edge.target) != (step.source, step.target):
            continue
        earlier, later = (_variable(compiled, machine.variables[state]) for state in (edge.source, edge.target))
        for comparison in edge.comparisons:
            left = _bound(compiled.codes[comparison.earlier].expr, earlier, Role.EACH)
            right = _bound(compiled.codes[comparison.later].expr, later, Role.NEXT)
            lines.append(f"{left} {MIRRORED[comparison.op]} {right}")
        lines += [_pair_of_rows(compiled.lists[number], earlier, later) for number in edge.listed]
        if indexed:
            lines.append(f"[{INDEXES[index_of_edge(compiled, edge)]}]")
    return lines


def _variable(compiled: Compiled, number: int) -> str:
    return compiled.variables[number][0] if number < len(compiled.variables) else "(never bound)"


def _bound(expr: Expr, variable: str, role: Role) -> str:
    def change(node: Expr) -> Expr:
        return Attribute(variable, node.name, role) if isinstance(node, Attribute) else node

    text = quote(transform(expr, change))
    return text if isinstance(expr, Attribute) or " " not in text else f"({text})"


def _pair_of_rows(predicate: Expr, earlier: str, later: str) -> str:
    def change(node: Expr) -> Expr:
        if not isinstance(node, Attribute):
            return node
        return Attribute(later if node.role is Role.NEXT else earlier, node.name, node.role)

    return quote(transform(predicate, change))


def _pair_text(compiled: Compiled, pair: Pair) -> str:
    left = _bound(compiled.codes[pair.left].expr, _variable(compiled, pair.left_variable), Role.EACH)
    right = _bound(compiled.codes[pair.right].expr, _variable(compiled, pair.right_variable), Role.EACH)
    return f"{left} {pair.op} {right}"


def _pair_facts(side: _Side) -> Iterable[tuple[str, str]]:
    compiled = side.compiled
    pivot = -1 if isinstance(side, FoldAggregate) else side.spec.query.pivot
    for pair in compiled.pairs:
        fixed = pivot in (pair.left_variable, pair.right_variable)
        how = f" (fixed: the event bound to {_variable(compiled, pivot)})" if fixed else ""
        yield "all pairs", _pair_text(compiled, pair) + how


# ----------------------------------------------------------------------------------------------------------- steps


class _Steps:
    """The steps of a plan, from the events to the answer."""

    def __init__(self) -> None:
        self.nodes: list[ViewNode] = []
        self.edges: list[ViewEdge] = []

    def add(self, label: str, details: Iterable[str] = (), *inputs: str) -> str:
        identity = str(len(self.nodes))
        self.nodes.append(ViewNode(identity, label, tuple(details)))
        self.edges += [ViewEdge(before, identity) for before in inputs]
        return identity

    def plan(self, plan: PhysicalPlan) -> None:
        """All steps of a plan."""
        if isinstance(plan, FoldAggregate):
            self._answer(self._fold(plan), plan.source, plan.outputs)
        elif isinstance(plan, KernelAggregate):
            self._answer(self._kernel(plan), plan.source, plan.spec.answer.outputs)
        elif isinstance(plan, PanesAggregate):
            self._answer(self._panes(plan), plan.source, plan.spec.answer.outputs)
        elif isinstance(plan, (EnumerateTrends, GraphTrends, JoinedTrends, DefinedTrends)):
            self._trends_answer(self._listing(plan), plan.source, plan.limit)
        elif isinstance(plan, AggregateTrends):
            self._aggregate_trends(plan)
        elif isinstance(plan, SampledTrends):
            self._sample(plan)
        elif isinstance(plan, TopTrends):
            self._top(plan)
        elif isinstance(plan, SurveyedTrends):
            self.add("survey: what the graphs hold, and what listing their trends takes", (), self._graph(plan.trends))
        elif isinstance(plan, PairAggregate):
            self._pair_aggregate(plan)
        else:
            assert isinstance(plan, PairTrends), plan
            self._trends_answer(self._listing(plan), plan.left.source, plan.limit)

    def _answer(self, before: str, source: Source, outputs: tuple[Output, ...]) -> None:
        window = ("window",) if source.windowing.kind == SLIDING else ()
        self.add("answer", _columns((*source.groups, *window, *(output.name for output in outputs))), before)

    def _rows(self, source: Source, compiled: Compiled, shipped: Iterable[str]) -> str:
        """The events that may matter, with the columns that do."""
        start = self.add("events", _reading(source))
        kept = self.add("keep what some variable can bind", _conditions(compiled), start)
        return self.add("project", shipped, kept)

    def _sorted(self, source: Source, compiled: Compiled, shipped: Iterable[str], in_every_task: bool = False) -> str:
        rows = self._rows(source, compiled, shipped)
        if compiled.lists:
            terms = [_pair_of_rows(term, "e", "e") for term in compiled.lists]
            rows = self.add("list which earlier event may precede", [f"{term} (e: the event)" for term in terms], rows)
        keys = list(map(quote_name, source.keys)) + (["stretch of time"] if source.windowing.cut else [])
        if in_every_task:
            rows = self.add("copy to every share, one per core", (), rows)
            keys.insert(len(source.keys), "share")
        spread = "shuffle by " + ", ".join(keys) if keys else "shuffle to one task, as there is no key"
        rows = self.add(spread, (), rows)
        order = [*keys, quote_name(source.time), *map(quote_name, source.tie_break)]
        details = ["by the kernel"] if in_every_task and kernel_sorts_shares(source, compiled) else []
        return self.add("sort each task's events by " + ", ".join(order), details, rows)

    def _fold(self, plan: FoldAggregate) -> str:
        source = plan.source
        rows = self._rows(source, plan.compiled, _shipped(source, plan.compiled, plan.values))
        keys = [*map(quote_name, source.keys), *(["window"] if source.windowing.kind == SLIDING else [])]
        by = "group by " + ", ".join(keys) if keys else "one group, as there is no key"
        order = ", ".join(map(quote_name, (source.time, *source.tie_break)))
        rows = self.add(by, [f"collect_list, sorted by {order}"], rows)
        return self.add("fold: aggregate() over the array", _lanes(plan.compiled, plan.lanes, plan.values), rows)

    def _kernel(self, plan: KernelAggregate, name: str = "") -> str:
        rows = self._sorted(plan.source, plan.compiled, _shipped(plan.source, plan.compiled, plan.values))
        if plan.spec.query.completeness != ALL:
            return self._count_paths(plan, rows)
        label = "kernel: carry along the automaton" + (f" of the {name}" if name else "")
        rows = self.add(label, _lanes(plan.compiled, plan.spec.answer.lanes, plan.values), rows)
        return self._merge(rows, plan.source) if plan.merge and not name else rows

    def _panes(self, plan: PanesAggregate) -> str:
        source, places = plan.source, len(plan.compiled.machine.variables) + 1
        rows = self._rows(source, plan.compiled, _shipped(source, plan.compiled, plan.values))
        keys = list(map(quote_name, source.keys))
        rows = self.add("shuffle by " + ", ".join([*keys, "pane"]), (), rows)
        order = [*keys, "pane", quote_name(source.time), *map(quote_name, source.tie_break)]
        rows = self.add("sort each task's events by " + ", ".join(order), (), rows)
        details = [f"{places} x {places}, for each:", *_lanes(plan.compiled, plan.spec.answer.lanes, plan.values)]
        rows = self.add("kernel: one matrix per key and pane", details, rows)
        spread = "shuffle by " + ", ".join(keys) if keys else "shuffle to one task, as there is no key"
        rows = self.add(spread, ["one row per key and pane"], rows)
        rows = self.add("sort each task's panes by " + ", ".join([*keys, "pane"]), (), rows)
        rows = self.add(
            "kernel: multiply the panes of each window", ["a suffix of one block, a prefix of the next"], rows
        )
        return self._merge(rows, source) if plan.merge else rows

    def _merge(self, rows: str, source: Source) -> str:
        keys = [*map(quote_name, source.groups), *(["window"] if source.windowing.kind == SLIDING else [])]
        by = "by " + ", ".join(keys) if keys else "to one task"
        return self.add("add up partial results", [f"shuffled {by}"], rows)

    def _pair_aggregate(self, plan: PairAggregate) -> None:
        ends = [self._kernel(side, name) for name, side in _sides(plan) if isinstance(side, KernelAggregate)]
        formula = "C1 * C2" if plan.both is None else "C1*C2 + C1*C12 + C2*C12 + C12*(C12 - 1)/2"
        pairs = self.add("pair the trends of the two sides", [f"count = {formula}, per key and window"], *ends)
        self._answer(self._merge(pairs, plan.source), plan.source, plan.outputs)

    def _enumerate(self, plan: EnumerateTrends, name: str = "") -> str:
        shipped = [*_shipped(plan.source, plan.compiled, ()), "event: " + (", ".join(plan.columns) or "no columns")]
        rows = self._sorted(plan.source, plan.compiled, shipped)
        details = ["depth first, only where a trend can still be completed"]
        if plan.limit is not None and not plan.compiled.residual and not name:
            details.append(f"stops after {plan.limit}")
        rows = self.add("kernel: list trends" + (f" of the {name}" if name else ""), details, rows)
        if plan.compiled.residual:
            rows = self.add("test finished trends", [quote(term) for term in plan.compiled.residual], rows)
        return rows

    def _count_paths(self, plan: KernelAggregate, rows: str) -> str:
        rows = self._build(plan.spec.query.completeness, rows)
        rows = self.add("kernel: count the paths of each graph", ["no trend is listed"], rows)
        return self._merge(rows, plan.source) if plan.merge else rows

    def _build(self, completeness: str, rows: str) -> str:
        """The graph of each key's events."""
        details = ["attribute ranges for predicates that order or equate values", "without events that lie on no trend"]
        if completeness == MAXIMAL:
            details.append("without edges that a longer path goes round: the transitive reduction")
        return self.add("kernel: build the graph", details, rows)

    def _listing(self, plan: EnumerateTrends | GraphTrends | JoinedTrends | DefinedTrends | PairTrends) -> str:
        """Trends, one by one."""
        if isinstance(plan, GraphTrends):
            return self.add("kernel: list the paths", [ALGORITHMS[plan.algorithm]], self._graph(plan))
        if isinstance(plan, JoinedTrends):
            rows = self._rows(plan.source, plan.compiled, _shipped(plan.source, plan.compiled, ()))
            rows = self.add("join events to the graph", (), rows)
            return self.add("join paths with edges, round by round", ["complete paths leave in each round"], rows)
        if isinstance(plan, PairTrends):
            ends = [self._enumerate(plan.left, "left side"), self._enumerate(plan.right, "right side")]
            return self.add("join the trends of the two sides", ["per key and window"], *ends)
        if isinstance(plan, EnumerateTrends):
            return self._enumerate(plan)
        rows = self._enumerate(plan.trends)
        window = ["window"] if plan.source.windowing.kind == SLIDING else []
        keys = ", ".join([*map(quote_name, plan.source.keys), *window])
        rows = self.add(f"shuffle by {keys}" if keys else "shuffle to one task, as there is no key", (), rows)
        rows = self.add("sort each task's trends by their length", (), rows)
        return self.add("kernel: drop the trends that a kept one contains", [COMPLETENESS[plan.completeness]], rows)

    def _graph(self, plan: GraphTrends) -> str:
        shipped = [*_shipped(plan.source, plan.compiled, ()), "event: " + (", ".join(plan.columns) or "no columns")]
        return self._build(
            plan.spec.query.completeness, self._sorted(plan.source, plan.compiled, shipped, plan.balanced)
        )

    def _sample(self, plan: SampledTrends) -> None:
        if isinstance(plan.trends, GraphTrends):
            details = [f"the {plan.size} smallest of random keys, one per path", "no other path is listed"]
            rows = self.add("kernel: draw paths", details, self._graph(plan.trends))
        else:
            rows = self.add("a random key per trend", (), self._listing(plan.trends))
        source = plan.trends.left.source if isinstance(plan.trends, PairTrends) else plan.trends.source
        self._trends_answer(self.add(f"the {plan.size} smallest keys", (), rows), source, None)

    def _top(self, plan: TopTrends) -> None:
        by = plan.name if isinstance(plan.by.argument, Length) else quote(plan.by)
        if isinstance(plan.trends, GraphTrends):
            details = ["best first: what is to come is known exactly", "no other path is listed"]
            rows = self.add(f"kernel: the {plan.size} paths of largest {by}", details, self._graph(plan.trends))
        else:
            rows = self.add(f"work out {by}", (), self._listing(plan.trends))
        rows = self.add(f"the {plan.size} of largest {by}", (), rows)
        self._trends_answer(rows, plan.trends.source, None, plan.name)

    def _trends_answer(self, before: str, source: Source, limit: int | None, *more: str) -> None:
        if limit is not None:
            before = self.add(f"limit {limit}", (), before)
        window = ("window",) if source.windowing.kind == SLIDING else ()
        groups = (*source.groups, *source.asked_partitions)
        self.add("answer", _columns((*groups, *window, *more, "trend")), before)

    def _aggregate_trends(self, plan: AggregateTrends) -> None:
        rows = self._listing(plan.trends)
        rows = self.add("aggregate the trends", [f"{name}: {quote(term)}" for name, term in plan.outputs], rows)
        outputs = tuple(Output(name, term.definition.finish, ()) for name, term in plan.outputs)
        self._answer(rows, plan.trends.source, outputs)


def _columns(names: Iterable[str]) -> list[str]:
    return [", ".join(map(quote_name, names))]


def _reading(source: Source) -> list[str]:
    lines = [f"time: {quote_name(source.time)} ({source.time_type})"]
    if source.tie_break:
        lines.append("ties broken by " + ", ".join(map(quote_name, source.tie_break)))
    skipped = "left out" if source.on_null_time == "skip" else "an error"
    return [*lines, f"rows without a time: {skipped}"]


def _conditions(compiled: Compiled) -> list[str]:
    return [
        f"{quote_name(name)}: {'every event' if condition is None else _unowned(condition)}"
        for name, condition in compiled.variables
    ]


def _unowned(condition: Expr) -> str:
    """A condition of one event, over its columns."""

    def change(node: Expr) -> Expr:
        return Attribute(None, node.name) if isinstance(node, Attribute) else node

    return quote(transform(condition, change))


def _shipped(source: Source, compiled: Compiled, values: tuple[Expr, ...]) -> list[str]:
    """What each event takes through the shuffle."""
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


def _lanes(compiled: Compiled, lanes: tuple[Lane, ...], values: tuple[Expr, ...]) -> list[str]:
    """The numbers that are carried, in words."""
    return [_lane(compiled, lane, values) for lane in lanes]


def _lane(compiled: Compiled, lane: Lane, values: tuple[Expr, ...]) -> str:
    if lane == TRENDS:
        return "number of trends"
    if lane.is_length:
        return f"length of the {'shortest' if lane.update.merge is Merge.SMALLEST else 'longest'} trend"
    if lane.variable < 0:
        return "number of events of the trends"
    variable = quote_name(_variable(compiled, lane.variable))
    if lane.column < 0:
        return f"number of events bound to {variable}"
    term = _bound(values[lane.column], _variable(compiled, lane.variable), Role.EACH)
    return lane.update.words.format(term)
