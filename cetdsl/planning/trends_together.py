"""Plans to list the matches of many queries: one shuffle and one pass for all whose keys agree.

The kinds of events, conditions, compared terms and names of variables of the queries of a pass are numbered together.
All spans and windows of a pass are read by the longest of them, as a span: a match is found once, and put into the
windows that hold it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Machine, Negation
from cetdsl.ir.operators import (
    DetectTogether,
    Listed,
    ListedAlone,
    ListTogether,
    MeasureInstances,
    Operator,
    Scan,
)
from cetdsl.ir.slots import ANY_KIND, Fit
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE, Windowing, cut_into
from cetdsl.pattern.automaton import Automaton
from cetdsl.pattern.expressions import Attribute, Binary, Call, Expr, Literal, joined
from cetdsl.planning.instances import Wanted, join_vertices
from cetdsl.planning.planner import plan_trends
from cetdsl.planning.slots import Alternative, NotInSlots, Numbers, alternatives_of
from cetdsl.planning.sorting import exchanged
from cetdsl.planning.strategies.request import BUCKET_WINDOWS, source_of
from cetdsl.sharing.aggregation.plan import PlanData

_NO_MACHINE = Machine((), (), (), ())


def plan_trends_together(
    queries: Mapping[str, ResolvedQuery],
    plan: PlanData | None,
    columns: tuple[str, ...],
    limit: int | None,
    type_column: str | None,
) -> ListTogether:
    """Plans the matches of rewritten queries by name.

    Parameters
    ----------
    queries : mapping of str to ResolvedQuery
    plan : PlanData or None
        Which sub-patterns they share; None: each query is put together by itself.
    columns : tuple of str
        The columns of each event to show.
    limit : int or None
        So many matches of each query at most.
    type_column : str or None
        The column that holds the types of events as plain texts, if there is one.
    """
    passes: dict[Hashable, _Pass] = {}
    alone = []
    for name, resolved in queries.items():
        source = source_of(resolved)
        key = (frozenset(source.keys), source.tie_break, source.windowing.kind == WHOLE)
        into = passes.get(key) or _Pass(source, type_column)
        try:
            into.add(name, resolved, source)
        except NotInSlots as reason:
            decision = plan_trends(resolved, columns, limit)
            alone.append(ListedAlone(name, decision.plan, decision.strategy, str(reason), source.shown_keys))
        else:
            passes[key] = into
    planned = tuple(exchanged(one.finished(plan, columns, limit)) for one in passes.values())
    return ListTogether(planned, tuple(alone), columns, limit)


class _Pass:
    """Collects the queries of a pass."""

    def __init__(self, source: Source, type_column: str | None) -> None:
        self.source = source
        self.numbers = Numbers(type_column)
        self.found: dict[str, tuple[Alternative, ...]] = {}
        self.sources: dict[str, Source] = {}

    def add(self, name: str, resolved: ResolvedQuery, source: Source) -> None:
        """Adds a query; if slots cannot say what it looks for, that is an error, and nothing has changed."""
        numbers = self.numbers.copy()
        self.found[name] = alternatives_of(resolved, numbers)
        self.numbers, self.sources[name] = numbers, source

    def finished(self, plan: PlanData | None, columns: tuple[str, ...], limit: int | None) -> DetectTogether:
        """Returns the plan of the pass."""
        numbers = self.numbers
        wanted = {
            name: Wanted(number, self.found[name], _window(self.sources[name].windowing))
            for number, name in enumerate(self.found)
        }
        vertices = join_vertices(plan, wanted)
        gaps = [gap for vertex in vertices for gap in vertex.demands.gaps]
        fits = [fit for vertex in vertices for slot in vertex.demands.slots for fit in slot]
        condition = self._condition([*fits, *(fit for gap in gaps for fit in gap.fits)])
        looks_back = any(not gap.after for gap in gaps)
        source = attrs.evolve(
            self.source,
            groups=self.source.keys,
            partitions=(),
            asked_partitions=(),
            windowing=_common([source.windowing for source in self.sources.values()]),
        )
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
        # A negation only tells the reader to keep the events before a match.
        negations = (Negation(_NO_MACHINE),) if looks_back else ()
        layout = RowLayout.of(
            len(source.keys),
            source.time,
            source.time_type,
            len(source.tie_break),
            len(numbers.codes),
            bucketed=source.windowing.cut > 0,
        )
        return DetectTogether(
            Scan(source, compiled),
            KernelSpec(KernelQuery(_NO_MACHINE, negations, source.windowing), layout),
            vertices,
            tuple(Listed(name, its.shown_keys, bool(its.window)) for name, its in self.sources.items()),
            numbers.type_column if numbers.kinds else None,
            tuple(numbers.kinds),
            tuple(numbers.tests),
            tuple(numbers.variables),
            columns,
            limit,
        )

    def _condition(self, fits: list[Fit]) -> Expr | None:
        """What holds of each event that fits somewhere; None: nothing need hold."""
        tests = tuple(self.numbers.tests)
        others = [fit for fit in fits if fit.kind == ANY_KIND]
        if not all(fit.tests for fit in others):
            return None
        parts = [tests[number] for number in dict.fromkeys(test for fit in others for test in fit.tests)]
        kinds = list(map(Literal, self.numbers.kinds))
        if kinds:
            column = Attribute(None, self.numbers.type_column or "")
            parts.append(Binary("=", column, kinds[0]) if len(kinds) == 1 else Call("in", (column, *kinds)))
        return joined("or", parts)


def _window(windowing: Windowing) -> tuple[int, int] | None:
    return (windowing.length, windowing.slide) if windowing.kind == SLIDING else None


def _common(windowings: list[Windowing]) -> Windowing:
    """Returns the span that all windows and spans fit into, and its time buckets."""
    if windowings[0].kind == WHOLE:
        return Windowing(WHOLE)
    return cut_into(Windowing(SPAN, max(windowing.length for windowing in windowings)), BUCKET_WINDOWS)


def measuring(plan: ListTogether) -> tuple[Operator, ...]:
    """Plans to tell of the work of each pass instead of what it finds."""
    return tuple(_measuring(one) for one in plan.passes)


def _measuring(operator: Operator) -> Operator:
    if not isinstance(operator, DetectTogether):
        return operator.with_children(tuple(map(_measuring, operator.children)))
    return MeasureInstances(**{field.name: getattr(operator, field.name) for field in attrs.fields(DetectTogether)})
