"""Plans a listing of the matches of many queries: one shuffle and one pass for all queries whose keys agree.

All queries of a pass share one numbering of kinds of events, conditions, compared terms and names of variables. A pass
reads events by the longest of its queries' spans and windows, as a span: it finds a match once, and puts it into the
windows that hold it. On a stream, the queries of a pass have the same windows, which close one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

import attrs

from cetdsl.analysis.guards import may_fail
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import UnsupportedQuery, of_query
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Machine, Negation
from cetdsl.ir.operators import (
    DetectTogether,
    JoinTogether,
    Listed,
    ListedAlone,
    ListTogether,
    MeasureInstances,
    Operator,
    Scan,
)
from cetdsl.ir.schema import Schema
from cetdsl.ir.slots import ANY_KIND, Fit, Walked
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE, Windowing
from cetdsl.pattern.automaton import Automaton
from cetdsl.pattern.expressions import Attribute, Binary, Call, Expr, Guarded, Literal, conjuncts, joined, strip
from cetdsl.pattern.nodes import And
from cetdsl.pattern.query import ANY
from cetdsl.planning.detection import Detection
from cetdsl.planning.instances import Wanted, join_vertices
from cetdsl.planning.planner import plan_trends
from cetdsl.planning.slots import Alternative, NotInSlots, Numbers, alternatives_of
from cetdsl.planning.sorting import exchanged
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import (
    common_windowing,
    compile_sides,
    in_buckets,
    read_together,
    source_of,
    source_of_pass,
)
from cetdsl.planning.streams import refuse_on_stream, refuse_scattered
from cetdsl.sharing.aggregation.plan import PlanData

_NO_MACHINE = Machine((), (), (), ())


def plan_trends_together(
    queries: Mapping[str, ResolvedQuery],
    plan: PlanData | None,
    columns: tuple[str, ...],
    limit: int | None,
    type_column: str | None,
    algorithm: str = "auto",
) -> ListTogether:
    """Plans the matches of rewritten queries by name.

    Parameters
    ----------
    queries : mapping of str to ResolvedQuery
    plan : PlanData or None
        The sub-patterns that they share; None: each query shares nothing.
    columns : tuple of str
        The columns of each event to show.
    limit : int or None
        The most matches of each query.
    type_column : str or None
        The column that holds the types of events as plain texts, if there is one.
    algorithm : str
        The kernel or Spark's joins: one of :data:`~cetdsl.planning.detection.ALGORITHMS`.

    Raises
    ------
    UnsupportedQuery
        Spark's joins are asked for, and cannot put the trends of some query together; or events would show two columns
        of one name.
    ResolutionError
        A key column has the name of one of the answer's own columns.
    """
    schema = next(iter(queries.values())).schema
    schema.refuse_duplicates(columns)
    by_joins = algorithm == "joins"
    passes: dict[Hashable, _Pass] = {}
    reasons: dict[str, str] = {}
    for name, resolved in queries.items():
        source = source_of(resolved)
        key = read_together(source)
        into = passes.get(key) or _Pass(source.schema, type_column, by_joins)
        try:
            into.add(name, resolved, source)
        except NotInSlots as reason:
            reasons[name] = str(reason)
        else:
            passes[key] = into
    for alike, one in list(passes.items()):
        if len(one.sources) == len(one.compiled) == 1:
            # The only query of the pass cannot share anything, and a plan of its own sends less of each event.
            reasons |= one.why_walked
            del passes[alike]
    planned = tuple(exchanged(one.finished(plan, columns, limit)) for one in passes.values())
    for each in planned:
        refuse_on_stream(each)
    alone = []
    for name, why in reasons.items():
        try:
            decision = plan_trends(queries[name], columns, limit, Detection(algorithm=algorithm))
        except UnsupportedQuery as error:
            raise of_query(name, error) from None
        alone.append(ListedAlone(name, decision.plan, decision.strategy, why, source_of(queries[name]).shown_keys))
    refuse_scattered([*planned, *(one.plan for one in alone)])
    listed = ListTogether(planned, tuple(alone), columns, limit)
    schema.refuse_clashing_keys(listed.keys, listed.own_names)
    return listed


class _Pass:
    """Collects the queries of a pass."""

    def __init__(self, schema: Schema, type_column: str | None, by_joins: bool) -> None:
        self.by_joins, self.numbers = by_joins, Numbers(type_column, schema)
        self.found: dict[str, tuple[Alternative, ...]] = {}
        #: The queries whose trends are listed depth first, and the reasons why slots cannot express them.
        self.compiled: dict[str, Compiled] = {}
        self.why_walked: dict[str, str] = {}
        self.sources: dict[str, Source] = {}

    def add(self, name: str, resolved: ResolvedQuery, source: Source) -> None:
        """Adds a query; raises NotInSlots, and changes nothing, if the pass cannot list its trends."""
        try:
            self.found[name] = alternatives_of(resolved, self.numbers)
        except NotInSlots as reason:
            if self.by_joins:
                raise  # joins bind one event to each slot, so this query is joined by itself
            self.compiled[name] = _walkable(resolved, reason)
            self.why_walked[name] = str(reason)
        self.sources[name] = source

    def _walked(self, windowing: Windowing) -> tuple[Walked, ...]:
        """The queries that are listed depth first, whose windows lie in those of the pass."""
        walked = []
        for number, name in enumerate(self.sources):
            if (compiled := self.compiled.get(name)) is None:
                continue
            fits = tuple(
                self.numbers.fit([] if condition is None else conjuncts(strip(condition)), variable)
                for variable, condition in compiled.variables
            )
            codes = tuple(self.numbers.codes.setdefault(code, len(self.numbers.codes)) for code in compiled.codes)
            spec = base_spec(self.sources[name], compiled)
            if windowing.kind != WHOLE:
                spec = spec.with_query(windowing=attrs.evolve(spec.query.windowing, cut=windowing.cut))
            walked.append(Walked(number, spec, tuple(variable for variable, _ in compiled.variables), fits, codes))
        return tuple(walked)

    def finished(self, plan: PlanData | None, columns: tuple[str, ...], limit: int | None) -> DetectTogether:
        """Returns the plan of the pass."""
        numbers = self.numbers
        wanted = {
            name: Wanted(number, self.found[name], _window(self.sources[name].windowing))
            for number, name in enumerate(self.sources)
            if name in self.found
        }
        sources = list(self.sources.values())
        windowing = _common([source.windowing for source in sources], sources[0].is_stream)
        walked = self._walked(windowing)
        vertices = join_vertices(plan, wanted)
        gaps = [gap for vertex in vertices for gap in vertex.demands.gaps]
        fits = [fit for vertex in vertices for slot in vertex.demands.slots for fit in slot]
        fits += [fit for gap in gaps for fit in gap.fits] + [fit for one in walked for fit in one.fits]
        condition = self._condition(fits)
        looks_back = any(not gap.after for gap in gaps) or any(one.kernel.query.looks_back for one in walked)
        source = source_of_pass(sources, windowing)
        compiled = Compiled(
            Automaton((), (), (), (), ()),
            (("any event of the queries", condition),),
            _NO_MACHINE,
            (),
            (),
            tuple(numbers.codes),
            (),
            (),
        )
        # This negation matches nothing. It only makes the reader keep the events before a match.
        negations = (Negation(_NO_MACHINE),) if looks_back else ()
        layout = RowLayout.of(
            len(source.keys),
            source.time,
            source.time_type,
            len(source.tie_break),
            len(numbers.codes),
            bucketed=source.windowing.cut > 0,
        )
        return (JoinTogether if self.by_joins else DetectTogether)(
            Scan(source, compiled),
            KernelSpec(KernelQuery(_NO_MACHINE, negations, source.windowing), layout),
            vertices,
            tuple(Listed(name, its.shown_keys, bool(its.window)) for name, its in self.sources.items()),
            numbers.type_column if numbers.kinds else None,
            tuple(numbers.kinds),
            self._tests(fits),
            tuple(numbers.variables),
            columns,
            limit,
            walked,
        )

    def _condition(self, fits: list[Fit]) -> Expr | None:
        """Returns a condition that each event satisfies that fits into any slot; None if any event may fit."""
        tests = tuple(self.numbers.tests)
        others = [fit for fit in fits if fit.kind == ANY_KIND]
        if not all(fit.tests for fit in others):
            return None
        parts = [tests[number] for number in dict.fromkeys(test for fit in others for test in fit.tests)]
        if self.numbers.kinds:
            parts.append(self._is_of(self.numbers.kinds.values()))
        return joined("or", parts)

    def _tests(self, fits: list[Fit]) -> tuple[Expr, ...]:
        """Returns the tests; one that may fail is evaluated only for events of the kinds that it is needed for."""
        kinds: dict[int, set[int]] = {}
        for fit in fits:
            for number in fit.tests:
                kinds.setdefault(number, set()).add(fit.kind)
        return tuple(
            Guarded(self._is_of(kinds[number]), test)
            if may_fail(test, self.numbers.schema) and ANY_KIND not in kinds[number]
            else test
            for test, number in self.numbers.tests.items()
        )

    def _is_of(self, kinds: Collection[int]) -> Expr:
        """Returns the condition that an event is of one of some kinds."""
        column = Attribute(None, self.numbers.type_column or "")
        texts = [Literal(text) for text, number in self.numbers.kinds.items() if number in kinds]
        return Binary("=", column, texts[0]) if len(texts) == 1 else Call("in", (column, *texts))


def _walkable(resolved: ResolvedQuery, reason: NotInSlots) -> Compiled:
    """Returns the compiled query if its trends can be listed depth first; else raises the reason."""
    if isinstance(resolved.query.pattern, And):
        raise reason
    [compiled] = compile_sides(resolved)
    if compiled.unfinished or compiled.lists or compiled.machine.matching != ANY:
        raise reason
    return compiled


def _window(windowing: Windowing) -> tuple[int, int] | None:
    return (windowing.length, windowing.slide) if windowing.kind == SLIDING else None


def _common(windowings: list[Windowing], is_stream: bool) -> Windowing:
    """Returns the span that all windows and spans fit into, and its time buckets; of a stream its windows."""
    if windowings[0].kind == WHOLE or is_stream:
        return common_windowing(windowings, is_stream)
    return in_buckets(Windowing(SPAN, max(windowing.length for windowing in windowings)), is_stream)


def measuring(plan: ListTogether) -> tuple[Operator, ...]:
    """Plans a report on the work of each pass instead of its matches."""
    return tuple(_measuring(one) for one in plan.passes)


def _measuring(operator: Operator) -> Operator:
    if not isinstance(operator, DetectTogether):
        return operator.with_children(tuple(map(_measuring, operator.children)))
    return MeasureInstances(**{field.name: getattr(operator, field.name) for field in attrs.fields(DetectTogether)})
