"""Parse actions that build clauses, and queries of them, as :mod:`~cetdsl.frontend.sase.terms` builds terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import attrs
import pyparsing as pp

from cetdsl.aggregates.functions import SPELLINGS
from cetdsl.frontend.sase.terms import Equivalence, of_columns, settled
from cetdsl.frontend.sase.tokens import (
    checked,
    error_at,
    is_no_event,
    skip_blanks,
    token_at,
    tokens_before,
    tokens_from,
)
from cetdsl.pattern.expressions import Aggregate, Attribute, Expr, attributes, conjuncts, transform
from cetdsl.pattern.nodes import Event, Not, Pattern, events
from cetdsl.pattern.query import (
    AfterMatch,
    Computed,
    Query,
    Returned,
    Selection,
    Window,
    computed_name,
    other_event,
)
from cetdsl.pattern.spans import Span, check_unit
from cetdsl.pattern.text import in_backquotes


@attrs.frozen
class Clause:
    """One clause of a query."""

    kind: str
    value: Any
    at: int


FIELDS = "a column is one name: make a field of a struct a column of the DataFrame before asking"
LENGTHS = "write 10 minutes, 1 day, 90 s, or a number of ticks"


def clause(kind: str) -> Callable[[str, int, pp.ParseResults], Clause]:
    def build(text: str, at: int, tokens: pp.ParseResults) -> Clause:
        return Clause(kind, tuple(tokens), at)

    return build


def returned(text: str, at: int, tokens: pp.ParseResults) -> Returned:
    if not isinstance(tokens[0], Aggregate):
        known = ", ".join(map(str.upper, SPELLINGS))
        hint = f"such as COUNT(*), SUM(b.price) AS total, MAX(LENGTH); there are {known}"
        raise error_at(text, at, "RETURN takes aggregates", hint)
    return Returned(*tokens)


def group_of(text: str, at: int, tokens: pp.ParseResults) -> str | Computed:
    """Returns a column to group by: its name, or the term that it is computed from."""
    first, *given = tokens
    if isinstance(first, str):
        return first
    term = of_columns(first, text)
    if isinstance(term, Attribute) and not given:
        if term.variable is None:
            return term.name
        of_struct = is_no_event(term.variable, tokens_before(text, at)) or _goes_on_by_dot(text, at)
        hint = FIELDS if of_struct else f"write GROUP BY {term.name}"
        raise error_at(text, at, "GROUP BY takes columns without an event", hint)
    for node in attributes(term):
        if node.variable is not None and is_no_event(node.variable, tokens_before(text, at)):
            raise error_at(text, at, f"the pattern has no event {node.variable!r}, and a group names none", FIELDS)
    name = given[0] if given else computed_name(term)
    computed = checked(text, at, Computed, name or "group", term)
    if name is None:
        raise error_at(text, at, "a group that is computed needs a name", "give it one with AS: ... AS bucket")
    return computed


def _goes_on_by_dot(text: str, at: int) -> bool:
    """Whether another dot stands behind the column of an event at a place, as in ``A.st.a``."""
    return [found.group() for found in islice(tokens_from(text, at), 4)][3:] == ["."]


def unit_of_time(text: str, at: int, tokens: pp.ParseResults) -> None:
    checked(text, at, check_unit, tokens[0])


def length(text: str, at: int, tokens: pp.ParseResults) -> Span:
    return checked(text, at, Span.parse, " ".join(tokens), hint=LENGTHS)


def query(text: str, at: int, tokens: pp.ParseResults) -> Query:
    clauses: dict[str, Clause] = {clause.kind: clause for clause in tokens}
    pattern_clause = clauses["pattern"]
    (pattern,) = pattern_clause.value
    if isinstance(pattern, Not):
        raise error_at(
            text,
            skip_blanks(text, pattern_clause.at) + len("PATTERN"),
            "NOT stands outside SEQ",
            "NOT says what must not happen beside something else: SEQ(A, NOT N, B)",
        )
    where: tuple[Expr, ...] = ()
    partition_by: tuple[str, ...] = ()
    if "where" in clauses:
        where, partition_by = split_where(clauses["where"].value[0], text)
    if "partition" in clauses:
        partition_by += tuple(name for name in clauses["partition"].value if name not in partition_by)
    groups = clauses["group"].value if "group" in clauses else ()
    computed = tuple(item for item in groups if isinstance(item, Computed))
    group_by = tuple(item.name if isinstance(item, Computed) else item for item in groups)
    window = Window(*clauses["within"].value) if "within" in clauses else None
    max_gap = clauses["max_gap"].value[0] if "max_gap" in clauses else None
    returned = _changed(clauses["return"].value, lambda term: settled(term, text)) if "return" in clauses else ()
    matching = clauses["matching"].value[0] if "matching" in clauses else None
    after = AfterMatch(*clauses["after"].value) if "after" in clauses else None
    if after is not None and "first" in clauses:
        at = skip_blanks(text, clauses["first"].at)
        message = "FIRST MATCH asks for one match alone, and AFTER MATCH for others after it"
        raise error_at(text, at, message, "leave out one of them")
    selection = Selection(after, "first" in clauses, "longest" in clauses)
    parts = pattern, where, partition_by, group_by, window, returned, matching, max_gap, selection, computed
    other = other_event(pattern)
    at = pattern_clause.at if other is None else _place_of(other, pattern, text, pattern_clause.at)
    return _with_variables(checked(text, at, Query, *parts))


def _place_of(event: Event, pattern: Pattern, text: str, begin: int) -> int:
    """Returns where an event of a pattern, which begins at a place, gets its name."""
    alike = [each for each in events(pattern) if each.variable == event.variable]
    spellings = (event.variable, in_backquotes(event.variable))
    named = (token for token in tokens_from(text, begin) if token.group() in spellings)
    # Where it is a column, an operator or a dot stands behind it.
    places = [token.start() for token in named if re.match(r"[,)}\[{+*?\w]|\Z", token_at(text, token.end()))]
    return places[next(number for number, each in enumerate(alike) if each is event)]


def split_where(whole: Expr, text: str) -> tuple[tuple[Expr, ...], tuple[str, ...]]:
    predicates: list[Expr] = []
    columns: list[str] = []
    for part in conjuncts(whole):
        if isinstance(part, Equivalence):
            columns.extend(part.columns)
        else:
            predicates.append(settled(part, text))
    return tuple(predicates), tuple(columns)


def type_names(pattern: Pattern) -> Callable[[Expr], Expr]:
    """A change that replaces the name of an event's type by its variable, where only one can be meant."""
    declared = {event.variable: event.type for event in events(pattern)}
    by_type: dict[str, list[str]] = {}
    for variable, kind in declared.items():
        if kind is not None:
            by_type.setdefault(kind, []).append(variable)
    meant = {kind: found[0] for kind, found in by_type.items() if len(found) == 1 and kind not in declared}

    def change(node: Expr) -> Expr:
        if isinstance(node, (Attribute, Aggregate)) and node.variable in meant:
            return attrs.evolve(node, variable=meant[node.variable])
        return node

    return change


def _with_variables(query: Query) -> Query:
    rename = type_names(query.pattern)
    return attrs.evolve(
        query,
        where=tuple(transform(part, rename) for part in query.where),
        returning=_changed(query.returning, lambda term: transform(term, rename)),
    )


def _changed(items: Iterable[Returned], change: Callable[[Expr], Expr]) -> tuple[Returned, ...]:
    """The items of RETURN with changed aggregates."""
    changed = []
    for item in items:
        aggregate = change(item.aggregate)
        assert isinstance(aggregate, Aggregate)
        changed.append(Returned(aggregate, item.name))
    return tuple(changed)
