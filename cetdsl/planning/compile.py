"""Compiles a rewritten query to an automaton with predicates on its edges, and the columns that these need.

All terms are reduced to columns of single events here: ``b.price < NEXT(b).price`` becomes one column ``price`` and the
operator ``>`` between its values at two neighbouring events.
"""

from __future__ import annotations

import attrs

from cetdsl.analysis.classify import PredicateClass, adjacent_pair, negations_of, separate, shape
from cetdsl.analysis.guards import Conditions, may_fail, own_term
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import are_compared_in_order, are_of_one_type
from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.compiled import MAX_VARIABLES, CodeColumn, Compiled, Deferred, ListColumn
from cetdsl.ir.machine import Comparison, Edge, Machine, Negation, Pair
from cetdsl.ir.schema import Schema
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.automaton import Automaton, Work, build_automaton, restrict_count
from cetdsl.pattern.expressions import Expr, conjunction, conjuncts, strip, variables
from cetdsl.pattern.nodes import Event, Not, Or, Pattern, Seq, events
from cetdsl.pattern.properties import sides
from cetdsl.pattern.query import NEXT
from cetdsl.pattern.text import quote
from cetdsl.planning.count_predicates import count_predicate
from cetdsl.planning.pivots import search_pivot
from cetdsl.sharing.families import unnamed

#: The most that states may count up to. ``COUNT(b) >= n`` is compiled into states that count up to n + 2, so n is 510
#: at most.
MAX_COUNTED = 512
#: The predicates between an earlier variable and the later one that is its neighbour.
_Adjacent = dict[tuple[str, str], list[Expr]]


def compile_query(resolved: ResolvedQuery, automaton: Automaton | None = None) -> Compiled:
    """Compiles a rewritten query whose pattern is not a top-level AND; ``automaton`` replaces the pattern's own."""
    return _Compiler(resolved, automaton).compile()


def comparison_columns(
    left: Expr, right: Expr, schema: Schema, conditions: Conditions
) -> tuple[CodeColumn, CodeColumn]:
    """Returns the columns of single events that two compared terms become, in their common type.

    The ``conditions`` are those of the events that variables can be bound to.
    """
    alike = are_of_one_type(left, right, schema)
    left, right = (own_term(side, schema, conditions) for side in (left, right))
    if alike:
        return CodeColumn(left), CodeColumn(right)
    in_order = are_compared_in_order(left, right, schema)
    return CodeColumn(left, right, in_order), CodeColumn(right, left, in_order)


class _Compiler:
    def __init__(self, resolved: ResolvedQuery, automaton: Automaton | None) -> None:
        self.resolved = resolved
        self.pattern = resolved.query.pattern
        self.matching = resolved.query.matching
        self.work = Work()
        self.automaton = automaton or build_automaton(self.pattern, self.work)
        self.codes: dict[CodeColumn, int] = {}
        self.lists: dict[ListColumn, int] = {}
        self.residual: list[Expr] = []
        self.deferred: list[Deferred] = []
        self.conditions = {event.variable: event.condition for event in events(self.pattern)}

    def compile(self) -> Compiled:
        adjacent, pairwise, negated = self._sort_predicates()
        negated_events = (event for negation in self.automaton.negations for event in events(negation.part))
        names = list(dict.fromkeys([*self.automaton.variables, *(event.variable for event in negated_events)]))
        if len(names) > MAX_VARIABLES:
            raise UnsupportedQuery(
                f"the pattern has more than {MAX_VARIABLES} event variables",
                hint="let one variable stand for several types of events: event('x', condition)",
            )
        self.numbers = {name: number for number, name in enumerate(names)}
        pairs = []
        for predicate in pairwise:
            found = self._pair(predicate)
            if found is None:
                self.residual.append(predicate)
            else:
                pairs.append(found)
        machine = self._machine(self.automaton, adjacent, frozenset(negated))
        machine = attrs.evolve(machine, matching=self.matching)
        nodes = enumerate(self.automaton.negations)
        negations = tuple(self._negation(number, node, negated.get(node, [])) for number, node in nodes)
        named = tuple((name, self.conditions.get(name)) for name in names)
        codes, lists, residual = tuple(self.codes), tuple(self.lists), tuple(self.residual)
        finished = residual, tuple(self.deferred)
        return Compiled(self.automaton, named, machine, negations, tuple(pairs), codes, lists, *finished)

    def _sort_predicates(self) -> tuple[_Adjacent, list[Expr], dict[Not, list[Expr]]]:
        adjacent: _Adjacent = {}
        pairwise: list[Expr] = []
        negated: dict[Not, list[Expr]] = {}
        for predicate in self.resolved.query.where:
            owners = negations_of(predicate, self.pattern)
            kind = shape(predicate)
            if owners:
                for owner in owners:
                    negated.setdefault(owner, []).append(predicate)
            elif kind is PredicateClass.ADJACENT:
                pair = adjacent_pair(predicate)
                assert pair is not None, predicate
                adjacent.setdefault(pair, []).append(predicate)
            elif kind is PredicateClass.PAIRWISE:
                pairwise.append(predicate)
            elif kind is not PredicateClass.AGGREGATE or not self._count(predicate):
                self.residual.append(predicate)
        return adjacent, pairwise, negated

    def _count(self, predicate: Expr) -> bool:
        """Compiles ``COUNT(b) >= 3`` and ``LENGTH < 5`` into the automaton's states."""
        found = count_predicate(predicate)
        # Under NEXT the pattern alone decides which event could have been bound next; counting states would change it.
        if found is None or self.matching == NEXT:
            return False
        bound = max(found.bound, -1)  # no count is negative
        if bound > MAX_COUNTED - 2:
            return False
        try:
            self.automaton = restrict_count(self.automaton, found.variable, int(bound) + 2, found.holds)
        except UnsupportedQuery:
            return False
        return True

    def _pair(self, predicate: Expr) -> Pair | None:
        found = separate(predicate)
        if found is None:
            return None
        left, right = self._comparison_columns(found.left, found.right)
        u, v = found.variables
        return Pair(found.op, self._number(u), left, self._number(v), right)

    def _number(self, variable: str) -> int:
        return self.numbers.get(variable, MAX_VARIABLES)

    def _comparison_columns(self, left: Expr, right: Expr) -> tuple[int, int]:
        first, second = comparison_columns(left, right, self.resolved.schema, self.conditions)
        return self._code(first), self._code(second)

    def _code(self, column: CodeColumn) -> int:
        return self.codes.setdefault(column, len(self.codes))

    def _machine(self, automaton: Automaton, adjacent: _Adjacent, related: frozenset[Not] = frozenset()) -> Machine:
        """Returns the automaton in numbers; predicates refer to matches of the ``related`` negations."""
        names = automaton.variables
        conditions: dict[tuple[str, str], tuple[tuple[Comparison, ...], tuple[int, ...]]] = {}
        edges = []
        for t in automaton.transitions:
            pair = names[t.source], names[t.target]
            if pair not in conditions:
                conditions[pair] = self._edge_conditions(adjacent.get(pair, []))
            guarding = [automaton.negations[guard] for guard in t.guards]
            met = all(node not in related and self._is_match(pair[0], node) for node in guarding)
            edges.append(Edge(t.source, t.target, *conditions[pair], tuple(sorted(t.guards)), met and bool(guarding)))
        return Machine(
            tuple(self.numbers[name] for name in names),
            tuple((state, tuple(sorted(guards))) for state, guards in automaton.initial),
            tuple((state, tuple(sorted(guards))) for state, guards in automaton.final),
            tuple(edges),
        )

    def _is_match(self, variable: str, node: Not) -> bool:
        """Whether every event that a variable can bind is by itself a match of a negation."""
        alternatives = node.part.parts if isinstance(node.part, Or) else (node.part,)
        own = self._demands(self.conditions.get(variable))
        single = [part for part in alternatives if isinstance(part, Event)]
        return any(self._demands(part.condition) <= own for part in single)

    @staticmethod
    def _demands(condition: Expr | None) -> frozenset[Expr]:
        return frozenset() if condition is None else frozenset(conjuncts(strip(condition)))

    def _edge_conditions(self, predicates: list[Expr]) -> tuple[tuple[Comparison, ...], tuple[int, ...]]:
        comparisons, listed = [], []
        before = [unnamed(predicate) for predicate in predicates if separate(predicate) is not None]
        for predicate in predicates:
            found = separate(predicate)
            if found is None:
                # Queries share equal list columns. A guard would make them differ, so only predicates that may fail
                # get one.
                guard = conjunction(before) if before and may_fail(predicate, self.resolved.schema) else None
                column = ListColumn(unnamed(predicate), guard=guard)
                listed.append(self.lists.setdefault(column, len(self.lists)))
                before.append(column.predicate)
            else:
                later, earlier = self._comparison_columns(found.left, found.right)
                comparisons.append(Comparison(found.op, later, earlier))
        return tuple(dict.fromkeys(comparisons)), tuple(dict.fromkeys(listed))

    def _negation(self, number: int, node: Not, predicates: list[Expr]) -> Negation:
        before = len(self.deferred)
        automaton = build_automaton(node.part, self.work)
        own = {event.variable for event in events(node.part)}
        adjacent: _Adjacent = {}
        inner: list[Expr] = []
        relating: list[Expr] = []
        for predicate in predicates:
            if shape(predicate) is PredicateClass.ADJACENT:
                pair = adjacent_pair(predicate)
                assert pair is not None, predicate
                adjacent.setdefault(pair, []).append(predicate)
                continue
            inside = own.issuperset(variables(predicate))
            (inner if inside else relating).append(predicate)
        separable = [predicate for predicate in inner if separate(predicate) is not None]
        pairs = tuple(found for predicate in separable if (found := self._pair(predicate)) is not None)
        finished = [predicate for predicate in inner if predicate not in separable]
        # The kernel judges predicates that compare one event of a match with one of the trend. All others wait for
        # listed trends.
        if finished or (pairs and relating) or any(separate(predicate) is None for predicate in relating):
            self.deferred.append(Deferred(number, tuple(sorted(own)), (*relating, *finished)))
            relating = []
        correlated = tuple(self._correlated(predicate, own) for predicate in relating)
        machine, deferred = self._machine(automaton, adjacent), len(self.deferred) > before
        return Negation(machine, correlated, pairs, search_pivot(machine, pairs, WHOLE), deferred)

    def _correlated(self, predicate: Expr, own: set[str]) -> Pair:
        """A predicate that relates a negated variable, on the left, to one of the trend."""
        found = self._pair(predicate)
        assert found is not None, predicate
        return found.turned if found.right_variable in {self._number(name) for name in own} else found


def why_finished(compiled: Compiled) -> str | None:
    """Returns which predicate no kernel evaluates before a trend is finished, and why; None if there is none."""
    if not compiled.residual:
        return None
    predicate = compiled.residual[0]
    if shape(predicate) is not PredicateClass.AGGREGATE:
        return f"{quote(predicate)} does not split into a side for each event"
    if count_predicate(predicate) is not None:
        why = "counts, and the states of the automaton cannot count along"
    else:
        why = "is about all events of a trend together"
    return f"a predicate needs the finished trend: {quote(predicate)} {why}"


def joint_query(resolved: ResolvedQuery) -> ResolvedQuery:
    """Turns a query for a top-level AND into one for the OR of its sides, which keeps the predicates between them."""
    return resolved.with_query(pattern=Or(sides(resolved.query.pattern)))


def queries_of_sides(resolved: ResolvedQuery) -> tuple[ResolvedQuery, ResolvedQuery, ResolvedQuery]:
    """Returns a query for each of the two sides of a top-level AND, and one for the trends that both sides match.

    The pattern of the third only says which variables may be bound: the caller compiles it with the intersection of the
    other two queries' automata.
    """
    left, right = sides(resolved.query.pattern)
    return side_query(resolved, left), side_query(resolved, right), side_query(resolved, Seq((left, right)))


def side_query(resolved: ResolvedQuery, side: Pattern) -> ResolvedQuery:
    """Returns the query for one side of a top-level AND, with those predicates all of whose variables it binds."""
    bound = {event.variable for event in events(side) if isinstance(event, Event)}
    where = tuple(p for p in resolved.query.where if bound.issuperset(variables(p)))
    return attrs.evolve(resolved, query=attrs.evolve(resolved.query, pattern=side, where=where))
