"""Queries changed in ways that give the rewrite rules something to do: dead events, ties, needless predicates."""

from __future__ import annotations

import functools
import itertools
import random

import attrs

from cetdsl.errors import InvalidNode
from cetdsl.pattern.expressions import Attribute, Binary, Expr, Literal, Role, Unary, variables
from cetdsl.pattern.nodes import Event, Not, Or, Pattern, Repeat, Seq, events, negations, positive_events, transform
from cetdsl.pattern.properties import follow_pairs
from cetdsl.pattern.query import Query


def mutated(query: Query, seed: int) -> Query:
    """The query with some of the things that rewrite rules look for, chosen by a seed."""
    choose = random.Random(seed)
    changes = (
        _with_dead_events,
        _with_wrappers,
        _with_self_negation,
        _with_ties,
        _with_needless_not,
        _with_true,
        _with_alternatives_of_not,
        _with_two_bounds,
    )
    for change in changes:
        if choose.random() < 0.4:
            try:
                query = change(query, choose)
            except InvalidNode:
                continue
    return query


def _with_dead_events(query: Query, choose: random.Random) -> Query:
    names = sorted({event.variable for event in events(query.pattern)})
    dead = choose.choice(names)
    false = choose.choice(
        [
            Binary("and", _is(dead, "k", "u"), _is(dead, "k", "v")),
            Binary(
                "and", Binary(">", Attribute(dead, "x"), Literal(2)), Binary("<=", Attribute(dead, "x"), Literal(2))
            ),
            Binary("=", Attribute(dead, "x"), Literal(None)),
            Literal(False),
        ]
    )

    def change(node: Pattern) -> Pattern:
        return attrs.evolve(node, condition=false) if isinstance(node, Event) and node.variable == dead else node

    return attrs.evolve(query, pattern=transform(query.pattern, change))


def _with_two_bounds(query: Query, choose: random.Random) -> Query:
    """Adds two bounds on the time between consecutive events: one may be tighter, or strict where the other is not."""
    pairs = sorted(follow_pairs(query.pattern))
    if not pairs:
        return query
    earlier, later = choose.choice(pairs)
    op = choose.choice("<>")
    bounds = [
        Binary(
            choose.choice([op, op + "="]),
            Attribute(later, "t", Role.NEXT),
            Binary("+", Attribute(earlier, "t"), Literal(choose.randint(0, 4))),
        )
        for _ in range(2)
    ]
    return attrs.evolve(query, where=(*query.where, *bounds))


def _is(variable: str, name: str, value: str) -> Expr:
    return Binary("=", Attribute(variable, name), Literal(value))


def _with_wrappers(query: Query, choose: random.Random) -> Query:
    def change(node: Pattern) -> Pattern:
        if isinstance(node, Not) or choose.random() < 0.6:
            return node
        wrap = choose.choice(
            [
                lambda p: Seq((p,)),
                lambda p: Or((p, p)),
                lambda p: Repeat(p, 1, 1),
                lambda p: Repeat(p, 0, 1),
                lambda p: Repeat(p, *choose.choice([(1, 2), (2, 3), (0, 2), (2, 2), (3, 4)])),
            ]
        )
        return wrap(node)

    return attrs.evolve(query, pattern=transform(query.pattern, change))


def _with_self_negation(query: Query, choose: random.Random) -> Query:
    again = choose.choice(positive_events(query.pattern))
    parts = (query.pattern, Not(again)) if choose.random() < 0.5 else (Not(again), query.pattern)
    return attrs.evolve(query, pattern=Seq(parts))


def _with_ties(query: Query, choose: random.Random) -> Query:
    names = list(dict.fromkeys(event.variable for event in events(query.pattern)))
    column = choose.choice("kxg")
    ties: list[Expr] = []
    if choose.random() < 0.5:
        ties += [
            Binary("=", Attribute(u, column), Attribute(v, column, Role.NEXT))
            for u, v in sorted(follow_pairs(query.pattern))
        ]
    else:
        ties += [Binary("=", Attribute(u, column), Attribute(v, column)) for u, v in itertools.pairwise(names)]
    if choose.random() < 0.2:
        ties = ties[:-1]
    keys = (column,) if choose.random() < 0.3 else query.partition_by
    return attrs.evolve(query, where=(*query.where, *ties), partition_by=keys)


def _with_needless_not(query: Query, choose: random.Random) -> Query:
    where = list(query.where)
    names = sorted({event.variable for event in positive_events(query.pattern)})
    local = Binary(choose.choice(["<", ">"]), Attribute(choose.choice(names), "x"), Literal(1))
    if where and choose.random() < 0.5:
        i = choose.randrange(len(where))
        if variables(where[i]):
            where[i] = Unary(
                "not", Binary("or", Unary("not", where[i]), Unary("not", choose.choice([where[i], local])))
            )
    else:
        where.append(Unary("not", Binary("or", Unary("not", local), Literal(False))))
    return attrs.evolve(query, where=tuple(where))


def _with_alternatives_of_not(query: Query, choose: random.Random) -> Query:
    negated = [event.variable for node in negations(query.pattern) for event in events(node)]
    if not negated:
        return query
    name, other = choose.choice(negated), choose.choice(positive_events(query.pattern)).variable
    pairs = [Binary(op, Attribute(name, column), Attribute(other, column)) for op, column in ("<x", "=g", ">x")]
    either = functools.reduce(lambda left, right: Binary("or", left, right), pairs[: choose.choice((2, 3))])
    return attrs.evolve(query, where=(*query.where, either))


def _with_true(query: Query, choose: random.Random) -> Query:
    true = choose.choice([Literal(True), Binary("<", Literal(1), Literal(2))])
    return attrs.evolve(query, where=(*query.where, true))
