"""match: finds matches one after the other, as MATCH_RECOGNIZE does."""

from __future__ import annotations

from cetdsl.analysis.classify import PredicateClass, adjacent_pair, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.operators import FindMatches, Operator, Scan
from cetdsl.ir.rows import NEXT_ROW, NOWHERE, PAST_LAST, TO_FIRST, TO_LAST
from cetdsl.pattern import query as asked
from cetdsl.pattern.expressions import Aggregate, Expr, variables
from cetdsl.pattern.properties import binds_at_most_one
from cetdsl.pattern.text import quote
from cetdsl.planning.compile import compile_query
from cetdsl.planning.matches import Neighbours, places_of
from cetdsl.planning.strategies.enumerate import limited
from cetdsl.planning.strategies.request import source_of
from cetdsl.rows.automaton import automaton_of
from cetdsl.rows.fluent import row_pattern_of

_SKIPS = {
    asked.PAST_LAST: PAST_LAST,
    asked.NEXT_ROW: NEXT_ROW,
    asked.TO_FIRST: TO_FIRST,
    asked.TO_LAST: TO_LAST,
}
#: The aggregates whose values the kernel keeps up to date while it matches rows.
_KNOWN = ("count", "sum", "avg", "min", "max")


def match(resolved: ResolvedQuery, columns: tuple[str, ...], limit: int | None) -> Operator:
    """Plans matches of a rewritten query, with these columns of their events.

    UnsupportedQuery is raised if some predicate cannot be decided while rows are matched.
    """
    query = resolved.query
    automaton = automaton_of(row_pattern_of(query.pattern))
    sorted_out: dict[PredicateClass, list[Expr]] = {kind: [] for kind in PredicateClass}
    for predicate in query.where:
        sorted_out[shape(predicate)].append(predicate)
    adjacent, pairs, whole = (
        tuple(sorted_out[kind]) for kind in (PredicateClass.ADJACENT, PredicateClass.PAIRWISE, PredicateClass.AGGREGATE)
    )
    compiled = compile_query(resolved.with_query(where=adjacent))
    single = tuple(binds_at_most_one(query.pattern, name) for name, _ in compiled.variables)
    for predicate in whole:
        _refuse_unknown_aggregates(predicate)
    for predicate in pairs:
        _refuse_unequal(predicate, compiled, single)
    places = places_of(automaton, compiled.number_of, _neighbours(adjacent, compiled), query.matching)
    selection = query.selection
    after = selection.after or asked.AfterMatch()
    found = FindMatches(
        Scan(source_of(resolved), compiled),
        places.arrows,
        places.demands,
        single,
        pairs,
        whole,
        NOWHERE if selection.first else _SKIPS[after.to],
        compiled.number_of(after.variable) if after.variable else -1,
        selection.longest,
        columns,
    )
    return limited(found, limit)


def _neighbours(adjacent: tuple[Expr, ...], compiled: Compiled) -> Neighbours:
    found: dict[tuple[int, int], tuple[Expr, ...]] = {}
    for predicate in adjacent:
        pair = adjacent_pair(predicate)
        assert pair is not None, predicate
        earlier, later = map(compiled.number_of, pair)
        found[earlier, later] = (*found.get((earlier, later), ()), predicate)
    return found


def _refuse_unknown_aggregates(predicate: Expr) -> None:
    """Raises if a predicate on a whole match has an aggregate that the kernel does not compute."""
    for node in predicate.walk():
        if isinstance(node, Aggregate) and node.function not in _KNOWN:
            raise UnsupportedQuery(
                f"{quote(predicate)}: {node.function.upper()} is not known while matches are looked for",
                hint="ask for COUNT, SUM, AVG, MIN, MAX, FIRST and LAST, or filter what matches() gives",
            )


def _refuse_unequal(predicate: Expr, compiled: Compiled, single: tuple[bool, ...]) -> None:
    """Raises if a predicate compares a row with all rows of a variable, and no least or greatest one decides it."""
    several = [name for name in variables(predicate) if not single[compiled.number_of(name)]]
    found = separate(predicate)
    if several and (found is None or found.op == "!="):
        raise UnsupportedQuery(
            f"{quote(predicate)} where matches are taken one at a time: it relates a row to each one of {several[0]!r}",
            hint="compare by =, <, <=, > or >=, with one variable on each side, or relate neighbours: NEXT(b).x != b.x",
        )
