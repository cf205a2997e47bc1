"""Counts the trends of many variants of a query over the same events, within bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse
from cetdsl.errors import CetdslError
from cetdsl.execution.census import Census, totals_of
from cetdsl.execution.compat import condition_of, function_names
from cetdsl.execution.workload import union_of_answers, workload_rows
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.indexes import SCAN, index_of_edge
from cetdsl.ir.schema import Schema
from cetdsl.ir.sharing import Sharing
from cetdsl.pattern.expressions import Aggregate, Expr, conjuncts
from cetdsl.pattern.properties import binds_at_least_one
from cetdsl.pattern.query import Query, Returned
from cetdsl.pattern.variants import GAP, NOT, PART, PREDICATE, demands_of, without
from cetdsl.planning.listed_pairs import with_listed_pairs
from cetdsl.planning.planner import plan_aggregate, strategy_name
from cetdsl.planning.strategies.enumerate_and_aggregate import enumerate_and_aggregate
from cetdsl.planning.strategies.request import compile_sides
from cetdsl.planning.workload import plan_workload
from cetdsl.rewrite import rewrite

#: Where trends can only be counted by listing candidates, so many candidates are listed at most.
LISTED = 1_000_000
#: A variant without the window or a key of the query is not asked where it compares events pair by pair and some key
#: has more events than this.
PAIRED = 10_000

_COUNT = Aggregate("count")


class VariantCounts:
    """The numbers of trends of a query and of its variants, each counted once, over the events of ``df``.

    The query and its variants are resolved against the columns of a ``schema``; ``df`` has those that they read.

    The number of a variant is None if it would take too long to find, if no query can state the variant, or if Spark
    fails at it: without one predicate another one may divide by zero. ``unbound`` are the variables for which the query
    finds no event, each with its predicates on single events. A variant that must bind such a variable, with no fewer
    of these predicates, has no trends, and is not counted by a job.
    """

    def __init__(
        self,
        df: DataFrame,
        schema: Schema,
        census: Census,
        query: Query,
        binding: Binding,
        unbound: Mapping[str, Collection[Expr]],
    ) -> None:
        self.df = df
        self._schema = schema
        self._census = census
        self._query = query
        self._unbound = {name: frozenset(asked) for name, asked in unbound.items()}
        self._binding = attrs.evolve(binding, on_null_time="skip")
        self._known: dict[Query, float | None] = {}
        self._most: dict[tuple[str, ...], int] = {}

    def __getitem__(self, variant: Query) -> float | None:
        """Returns the number of trends of a variant given to :meth:`count` before; infinity if it is beyond doubles."""
        return self._known[_counting(variant)]

    def count(self, variants: Iterable[Query]) -> None:
        """Counts the trends of those variants that are not known yet."""
        asked = [query for query in dict.fromkeys(map(_counting, variants)) if query not in self._known]
        self._known.update((query, 0.0) for query in asked if self._binds_nothing(query))
        asked = [query for query in asked if query not in self._known]
        resolved = {query: self.resolved(query) for query in asked}
        counted: dict[Query, ResolvedQuery] = {}
        candidates: dict[Query, Query] = {}
        for query, known in resolved.items():
            self._known[query] = None
            if known is None or self._takes_pairs(query, known):
                continue
            if not _is_listed(known):
                counted[query] = known
                continue
            more = self._with_candidates(query)
            if more is not None:
                candidates[query] = more
        new = {more: self.resolved(more) for more in candidates.values() if more not in {**self._known, **counted}}
        self._ask({**counted, **{more: known for more, known in new.items() if known is not None}})
        few = [query for query, more in candidates.items() if (self._known.get(more) or 0) <= LISTED]
        few = [query for query in few if self._known.get(candidates[query]) is not None]
        self._ask({query: known for query in few if (known := resolved[query]) is not None})

    def _binds_nothing(self, query: Query) -> bool:
        """Whether each trend of a variant would bind a variable that no event can be bound to."""
        own = frozenset(part for whole in query.where for part in conjuncts(whole))
        return any(asked <= own and binds_at_least_one(query.pattern, name) for name, asked in self._unbound.items())

    def resolved(self, query: Query) -> ResolvedQuery | None:
        """Returns the rewritten query; None if it is invalid."""
        try:
            return rewrite(analyse(query, self._schema, self._binding, known_functions=function_names()))[0]
        except CetdslError:
            return None

    def _ask(self, queries: dict[Query, ResolvedQuery]) -> None:
        if not queries:
            return
        names = {f"q{number}": query for number, query in enumerate(queries)}
        try:
            totals = self._totals(names, queries)
        except (CetdslError, PySparkException) as error:
            # One that lacks a guard divides by zero, say, or has a key that is too large for a task. No other query
            # fares better where the session was stopped.
            if list(queries) == [_counting(self._query)] or "SESSION" in condition_of(error):
                raise
            self._ask_in_halves(queries)
            return
        self._known.update((query, totals.get(name, 0.0)) for name, query in names.items())

    def _ask_in_halves(self, queries: dict[Query, ResolvedQuery]) -> None:
        """Runs queries in smaller sets, as one of them cannot be answered; alone, that one is not counted."""
        items = list(queries.items())
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]) if middle else ():
            self._ask(dict(half))

    def _totals(self, names: Mapping[str, Query], queries: Mapping[Query, ResolvedQuery]) -> Mapping[str, float]:
        plan = plan_workload({name: queries[query] for name, query in names.items()}, "log2", Sharing("never"))
        return totals_of(union_of_answers(workload_rows(self.df, plan, tuple(names))))

    def _with_candidates(self, query: Query) -> Query | None:
        """The query without what can only be tested of trends that are listed; None if it is listed all the same."""
        demands = [demand for demand in demands_of(query) if demand.kind in (PREDICATE, NOT, PART, GAP)]
        listed = []
        for demand in demands:
            alone = self.resolved(without(query, [other for other in demands if other != demand]))
            if alone is None or _is_listed(alone):
                listed.append(demand)
        more = without(query, listed)
        known = self.resolved(more)
        return None if known is None or _is_listed(known) else more

    def _takes_pairs(self, query: Query, resolved: ResolvedQuery) -> bool:
        """Whether a variant without the query's window or one of its keys compares too many events pair by pair."""
        keys, own = set(_keys(query)), set(_keys(self._query))
        if keys == own and (query.window is None) == (self._query.window is None):
            return False
        sides = (with_listed_pairs(side, resolved) for side in compile_sides(resolved))
        if not any(map(_is_quadratic, sides)):
            return False
        return self._most_of_a_key(sorted(keys)) > PAIRED

    def _most_of_a_key(self, keys: Collection[str]) -> int:
        names = tuple(self._schema.resolve(name).name for name in keys)
        if names not in self._most:
            self._most[names] = self._census.most_of_a_key(names)
        return self._most[names]


def _counting(query: Query) -> Query:
    """A query that counts trends in all groups together."""
    return attrs.evolve(query, partition_by=_keys(query), group_by=(), returning=(Returned(_COUNT, "count"),))


def _keys(query: Query) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*query.partition_by, *query.group_by)))


def _is_listed(resolved: ResolvedQuery) -> bool:
    decision = plan_aggregate(resolved, (("count", _COUNT),), "log2")
    return decision.strategy == strategy_name(enumerate_and_aggregate)


def _is_quadratic(compiled: Compiled) -> bool:
    """Whether pairs of events are compared one by one."""
    if compiled.lists or compiled.pairs or any(one.looks_at_trend for one in compiled.negations):
        return True
    return any(index_of_edge(compiled, edge) == SCAN for edge in compiled.machine.edges)
