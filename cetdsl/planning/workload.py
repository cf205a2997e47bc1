"""Plans the aggregates of many queries over the same events: one shuffle and one pass for all whose keys agree.

All queries of a pass share one numbering of variables, compared terms and aggregated terms, so that one projection, one
shuffle and one sort serve them all. Their windows may differ. On a stream, which closes windows together, they may
differ only if it keeps events whole for queries that come and go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import TypeVar

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import NoPhysicalPlan, UnsupportedQuery, of_query
from cetdsl.ir.compiled import MAX_VARIABLES, CodeColumn, Compiled, ListColumn
from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import LISTED, Comparison, Machine, Negation, Pair
from cetdsl.ir.operators import (
    AnsweredAlone,
    AnswerTogether,
    Exchange,
    Merge,
    MergeTogether,
    Operator,
    PairCounts,
    Propagate,
    PropagateTogether,
    Scan,
)
from cetdsl.ir.sharing import PAIRED, Member, Propagation, Sharing
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.automaton import Automaton
from cetdsl.pattern.expressions import Expr, strip
from cetdsl.pattern.nodes import events
from cetdsl.pattern.query import ANY
from cetdsl.planning.compile import queries_of_sides
from cetdsl.planning.planner import AGGREGATE_STRATEGIES, plan_aggregate, strategy_name
from cetdsl.planning.sharing import plan_sharing
from cetdsl.planning.sorting import exchanged
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.request import common_windowing, read_together, source_of_pass
from cetdsl.planning.streams import refuse_scattered
from cetdsl.sharing.families import family

_T = TypeVar("_T", bound=Hashable)
_LookedFor = TypeVar("_LookedFor", KernelQuery, Negation)

#: The condition of a variable, and how many variables before it in its query have the same condition. Queries share the
#: number of a variable that agrees in both; variables of one query keep different numbers.
_Variable = tuple[Expr | None, int]
#: Only the kernel takes many queries in one pass, so it is asked first.
_STRATEGIES = (kernel, *(strategy for strategy in AGGREGATE_STRATEGIES if strategy is not kernel))


def plan_workload(queries: Mapping[str, ResolvedQuery], number: str, sharing: Sharing) -> AnswerTogether:
    """Plans a workload of rewritten queries by name, each with its RETURN list."""
    together: dict[str, _Asked] = {}
    alone: list[AnsweredAlone] = []
    taken = set(queries)
    for name, resolved in queries.items():
        aggregates = tuple((item.output_name, item.aggregate) for item in resolved.query.returning)
        try:
            decision = plan_aggregate(resolved, aggregates, number, _STRATEGIES)
        except (UnsupportedQuery, NoPhysicalPlan) as error:
            raise of_query(name, error) from None
        policy = resolved.query.matching
        if decision.strategy == strategy_name(kernel) and policy == ANY:
            together[name] = _asked(name, decision.plan, queries, taken)
            taken.update(one.name for one in together[name].propagated)
            continue
        alone_by = f"what may follow an event by MATCHING {policy.upper()} is a matter of its own query"
        reason = dict(decision.declined).get(strategy_name(kernel), alone_by)
        groups = tuple(dict.fromkeys(resolved.query.group_by))
        alone.append(AnsweredAlone(name, decision.plan, decision.strategy, reason, groups))
    passes: dict[Hashable, list[_Pass]] = {}
    for asked in together.values():
        open_passes = passes.setdefault(_read_by(asked), [])
        if not open_passes or not open_passes[-1].takes(asked):
            open_passes.append(_Pass())
        open_passes[-1].add(asked)
    planned = tuple(exchanged(one.finished(sharing)) for group in passes.values() for one in group)
    refuse_scattered([*planned, *(one.plan for one in alone)])
    return AnswerTogether(planned, tuple(alone), sharing)


def _read_by(asked: _Asked) -> Hashable:
    """Returns what the queries of one pass agree in; with lists, which Spark makes by window, in their windows, too."""
    plans = [one.plan for one in asked.propagated]
    windowing = plans[0].source.windowing if any(plan.compiled.lists for plan in plans) else None
    return read_together(plans[0].source), windowing


def names_of_sides(name: str, taken: Collection[str]) -> tuple[str, str, str]:
    """Returns names, none of them taken, for the two sides of an AND and for the trends that match both.

    Examples
    --------
    >>> names_of_sides("q", {"q", "left side of q"})
    ("left side of q'", "right side of q'", "both sides of q'")
    """
    while not {f"{side} of {name}" for side in _SIDES}.isdisjoint(taken):
        name += "'"
    left, right, both = (f"{side} of {name}" for side in _SIDES)
    return left, right, both


_SIDES = "left side", "right side", "both sides"


@attrs.frozen
class _Propagated:
    """A plan that is propagated under a name."""

    name: str
    plan: Propagate
    resolved: ResolvedQuery


@attrs.frozen
class _Asked:
    """A query of a pass: its propagated plans, and for an AND at the top how the trends of these are paired."""

    name: str
    propagated: tuple[_Propagated, ...]
    pairs: PairCounts | None = None


def _asked(name: str, plan: Operator, queries: Mapping[str, ResolvedQuery], taken: Collection[str]) -> _Asked:
    """Extracts the propagated plans from the kernel strategy's plan for a query; names sides by names not yet taken."""
    plan = _below_merges(plan)
    if not isinstance(plan, PairCounts):
        assert isinstance(plan, Propagate), plan
        return _Asked(name, (_Propagated(name, plan, queries[name]),))
    sides = zip(names_of_sides(name, taken), _below_merges(plan.child).children, queries_of_sides(queries[name]))
    propagated = []
    for side, part, resolved in sides:
        below = _below_merges(part)
        assert isinstance(below, Propagate), below
        propagated.append(_Propagated(side, below, resolved))
    return _Asked(name, tuple(propagated), plan)


def _below_merges(plan: Operator) -> Operator:
    while isinstance(plan, (Merge, Exchange)):
        plan = plan.child
    return plan


class _Pass:
    """Collects the queries of a pass."""

    def __init__(self) -> None:
        self.asked: list[_Asked] = []
        self.plans: dict[str, Propagate] = {}
        self.resolved: dict[str, ResolvedQuery] = {}
        self.variables: dict[_Variable, int] = {}
        self.families: list[Hashable] = []
        self.codes: dict[CodeColumn, int] = {}
        self.lists: dict[ListColumn, int] = {}
        self.values: dict[Expr, int] = {}
        self.renumber: dict[str, _Renumbering] = {}

    def takes(self, asked: _Asked) -> bool:
        """Whether the variables of one more query fit into the bit mask."""
        variables = set(self.variables).union(*(_variables(one.plan.compiled) for one in asked.propagated))
        return len(variables) <= MAX_VARIABLES

    def add(self, asked: _Asked) -> None:
        """Adds a query."""
        self.asked.append(asked)
        for one in asked.propagated:
            self._propagate(one.name, one.plan, one.resolved)

    def _propagate(self, name: str, plan: Propagate, resolved: ResolvedQuery) -> None:
        kinds = {event.variable: family(event, resolved.type) for event in events(resolved.query.pattern)}
        for name_in_query, variable in zip(plan.compiled.names, _variables(plan.compiled), strict=True):
            if _number(self.variables, variable) == len(self.families):
                self.families.append(kinds[name_in_query])
        variables = _Renumbering([self.variables[variable] for variable in _variables(plan.compiled)])
        self.renumber[name] = attrs.evolve(
            variables,
            codes=[_number(self.codes, code) for code in plan.compiled.codes],
            lists=[_number(self.lists, variables.list_column(one)) for one in plan.compiled.lists],
            values=[_number(self.values, value) for value in plan.values],
        )
        self.plans[name] = plan
        self.resolved[name] = resolved

    def finished(self, sharing: Sharing) -> Operator:
        """Returns the plan of the pass for all queries added; partial results of several keys or tasks are merged."""
        plans = list(self.plans.values())
        sources = [plan.source for plan in plans]
        windowing = common_windowing([source.windowing for source in sources], sources[0].is_stream)
        merge = any(self._is_merged(asked) for asked in self.asked)
        sets, abreast, propagation = plan_sharing(self.resolved, self.plans, sharing.mode)
        source = source_of_pass(sources, windowing)
        members = tuple(member for asked in self.asked for member in self._members(asked, source, merge, propagation))
        variables = tuple((f"v{number}", condition) for (condition, _), number in self.variables.items())
        no_automaton, no_machine = Automaton((), (), (), (), ()), Machine((), (), (), ())
        compiled = Compiled(no_automaton, variables, no_machine, (), (), tuple(self.codes), tuple(self.lists), ())
        negations = next((m.spec.query.negations for m in members if m.spec.query.negations), ())
        reader = members[0].spec.with_query(windowing=windowing, negations=negations)
        reader = reader.with_answer(accumulators=(), outputs=())
        order = {kind: number for number, kind in enumerate(dict.fromkeys(self.families))}
        families = tuple(order[kind] for kind in self.families)
        scan = Scan(source, compiled)
        together = PropagateTogether(scan, reader, tuple(self.values), members, families, sets, abreast, sharing)
        return MergeTogether(together) if merge else together

    def _is_merged(self, asked: _Asked) -> bool:
        """Whether the answer of a query is merged from partial results."""
        if asked.pairs is not None:
            # One task has all events of a key and forms all pairs of trends.
            return len(asked.pairs.groups) < len(asked.pairs.source.keys)
        return asked.propagated[0].plan.spec.answer.partial

    def _members(
        self, asked: _Asked, source: Source, merge: bool, propagation: Mapping[str, Propagation]
    ) -> Iterator[Member]:
        """Yields the member that answers a query, followed by the members whose trends it pairs."""
        own = [self._member(one.name, one.plan, source, merge, propagation[one.name]) for one in asked.propagated]
        if asked.pairs is None:
            yield from own
            return
        spec = own[0].spec.with_answer(outputs=asked.pairs.outputs)
        groups = tuple(source.keys.index(column) for column in asked.pairs.groups)
        yield Member(asked.name, spec, groups, PAIRED, (), pairs=tuple(side.name for side in own))
        yield from (attrs.evolve(side, is_side=True) for side in own)

    def _member(self, name: str, plan: Propagate, source: Source, merge: bool, propagation: Propagation) -> Member:
        spec = self.renumber[name].spec(plan.spec)
        windowing = spec.query.windowing
        if windowing.kind != WHOLE:
            windowing = attrs.evolve(windowing, cut=source.windowing.cut)
        codes, lists = len(self.codes), len(self.lists)
        layout = RowLayout.of(len(source.keys), source.time, source.time_type, codes=codes, lists=lists)
        spec = attrs.evolve(spec.with_query(windowing=windowing), layout=layout)
        spec = spec.with_answer(groups=len(source.keys), partial=merge)
        groups = tuple(source.keys.index(column) for column in plan.source.groups)
        variables = tuple(zip(self.renumber[name].variables, plan.compiled.names, strict=True))
        return Member(name, spec, groups, propagation, variables)


def _variables(compiled: Compiled) -> list[_Variable]:
    """Returns the variables of a query as a pass distinguishes them."""
    seen: Counter[Expr | None] = Counter()
    found = []
    for _, condition in compiled.variables:
        bare = None if condition is None else strip(condition)
        found.append((bare, seen[bare]))
        seen[bare] += 1
    return found


def _number(numbers: dict[_T, int], thing: _T) -> int:
    return numbers.setdefault(thing, len(numbers))


@attrs.frozen
class _Renumbering:
    """Translates the numbers of one query to those of its pass."""

    variables: list[int]
    codes: list[int] = attrs.field(factory=list)
    lists: list[int] = attrs.field(factory=list)
    values: list[int] = attrs.field(factory=list)

    def spec(self, spec: KernelSpec) -> KernelSpec:
        """Returns a query's specification in the numbers of the pass."""
        query = self.looked_for(spec.query)
        negations = tuple(map(self.negation, query.negations))
        query = attrs.evolve(query, negations=negations, outer=self.variable(query.outer))
        accumulators = []
        for accumulator in spec.answer.accumulators:
            column = self.values[accumulator.column] if accumulator.column >= 0 else accumulator.column
            variable, also = self.variable(accumulator.variable), tuple(map(self.variable, accumulator.also))
            accumulators.append(attrs.evolve(accumulator, variable=variable, column=column, also=also))
        return attrs.evolve(spec, query=query).with_answer(accumulators=tuple(accumulators))

    def looked_for(self, one: _LookedFor) -> _LookedFor:
        """Returns a query, or a negation of it, in the numbers of the pass."""
        pairs, pivot = tuple(map(self.pair, one.pairs)), self.variable(one.pivot)
        return attrs.evolve(one, machine=self.machine(one.machine), pairs=pairs, pivot=pivot)

    def negation(self, one: Negation) -> Negation:
        """Returns a negation in the numbers of the pass."""
        sight = None if one.sight is None else self.pair(one.sight)
        return attrs.evolve(self.looked_for(one), correlated=tuple(map(self.pair, one.correlated)), sight=sight)

    def variable(self, number: int) -> int:
        """Returns the number of a variable in the pass; numbers that stand for none or any stay the same."""
        return self.variables[number] if 0 <= number < len(self.variables) else number

    def machine(self, machine: Machine) -> Machine:
        """Returns a machine over the variables and columns of the pass."""
        edges = []
        for edge in machine.edges:
            compared = (Comparison(c.op, self.codes[c.later], self.codes[c.earlier]) for c in edge.comparisons)
            listed = (self.lists[number] for number in edge.listed)
            edges.append(attrs.evolve(edge, comparisons=tuple(compared), listed=tuple(listed)))
        return attrs.evolve(machine, variables=tuple(map(self.variable, machine.variables)), edges=tuple(edges))

    def pair(self, pair: Pair) -> Pair:
        """Returns a pairwise predicate over the variables and columns of the pass."""
        left, right = self.variable(pair.left_variable), self.variable(pair.right_variable)
        columns = self.lists if pair.op == LISTED else self.codes
        of_left, of_right = (columns[number] if number >= 0 else number for number in (pair.left, pair.right))
        return Pair(pair.op, left, of_left, right, of_right)

    def list_column(self, column: ListColumn) -> ListColumn:
        """Returns a predicate that Spark tests, of the variables of the pass."""
        return attrs.evolve(column, earlier=self.variable(column.earlier), later=self.variable(column.later))
