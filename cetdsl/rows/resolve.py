"""Splits the expressions of a clause into parts that Spark evaluates for each row, and parts that depend on a match.

In measures, a reference to rows of the match, such as ``FIRST(A.price)``, becomes a *slot*: a value that the matcher
computes for each match, from an expression at some row or as an aggregate. Spark then evaluates the measure, in which
the name of the slot takes the place of the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cetdsl.errors import UnsupportedQuery
from cetdsl.rows.conditions import ConditionReader
from cetdsl.rows.dependent import Tree
from cetdsl.rows.measures import MeasureReader
from cetdsl.rows.nodes import (
    Alternation,
    Anchor,
    Exclusion,
    MatchClause,
    Name,
    Output,
    Repetition,
    RowPattern,
    SkipTo,
    Variable,
)
from cetdsl.rows.resolved import Expression, ResolvedMatch
from cetdsl.rows.scope import Scope
from cetdsl.rows.tokens import Token


def resolve(clause: MatchClause, columns: Sequence[str]) -> ResolvedMatch:
    """Resolves a clause against the columns of a DataFrame.

    Parameters
    ----------
    clause : MatchClause
    columns : sequence of str
        The names of the DataFrame's columns.

    Returns
    -------
    ResolvedMatch

    Raises
    ------
    ResolutionError
        For unknown variables and columns, and for clauses that cannot be answered; the error points at a place in the
        text, and has a hint.

    Examples
    --------
    >>> from cetdsl.rows.clause import parse_clause
    >>> clause = parse_clause(
    ...     "ORDER BY day MEASURES LAST(B.price) - A.price AS rise PATTERN (A B) DEFINE B AS price > PREV(price)"
    ... )
    >>> resolved = resolve(clause, ["day", "price"])
    >>> resolved.measures[0].sql, resolved.conditions[1].sql
    ('`slot 0` - `slot 1`', '`col 1` > `moved 0`')
    """
    return _Resolver(clause, columns).resolved()


class _Resolver:
    """Resolves a clause part by part."""

    def __init__(self, clause: MatchClause, columns: Sequence[str]) -> None:
        self._clause, self._scope = clause, Scope(clause, columns)

    def resolved(self) -> ResolvedMatch:
        clause = self._clause
        self._check_shape()
        for folded in self._scope.variables:
            self._scope.groups[folded] = tuple(folded == other for other in self._scope.variables)
        for subset in clause.subsets:
            self._add_subset(subset.name, subset.members, subset.span)
        partition_by = tuple(dict.fromkeys(map(self._scope.column_number, clause.partition_by)))
        order_by = tuple(self._scope.column_number(key.column) for key in clause.order_by)
        conditions, depending, defined = dict[int, Expression](), dict[int, Tree](), set[int]()
        unknown: list[Token] = []
        for definition in clause.definitions:
            name = Name(definition.variable, definition.span)
            number = self._scope.numbers.get(definition.variable.lower())
            if number is None:
                self._scope.unknown_variable(name, "the pattern has no variable", self._scope.variables)
            if number in defined:
                self._scope.fail(
                    f"the variable {name.name!r} is defined twice", "join the conditions with AND", name.span
                )
            defined.add(number)
            label = self._scope.variables[name.name.lower()].name  # as the pattern writes it
            reader = ConditionReader(self._scope, definition.tokens, number, label)
            condition, dependent = reader.parts()
            unknown += reader.unknown
            if condition is not None:
                conditions[number] = condition
            if dependent is not None:
                depending[number] = dependent
        measures = tuple(MeasureReader(self._scope, measure.tokens).expression() for measure in clause.measures)
        everyone = tuple(True for _ in self._scope.variables)
        skip = everyone
        if clause.skip.to in (SkipTo.FIRST, SkipTo.LAST):
            skip = self._scope.members(Name(clause.skip.variable, clause.skip.span))
        if clause.output is Output.ONE_ROW and not clause.measures and not clause.partition_by:
            self._scope.fail(
                "nothing is shown of a match", "name something in MEASURES, or write ALL ROWS PER MATCH", (0, 1)
            )
        return ResolvedMatch(
            clause,
            self._scope.columns,
            partition_by,
            order_by,
            tuple(variable.name for variable in self._scope.variables.values()),
            conditions,
            depending,
            tuple(unknown),
            measures,
            tuple(self._scope.slots),
            tuple(self._scope.moved),
            skip,
            undefined=tuple(
                each for number, each in enumerate(self._scope.variables.values()) if number not in defined
            ),
            skip_may_fail=_without(clause.pattern, {name for name, asked in zip(self._scope.variables, skip) if asked})[
                1
            ],
        )

    def _check_shape(self) -> None:
        clause = self._clause
        if clause.output is Output.UNMATCHED and _has_exclusion(clause.pattern):
            raise UnsupportedQuery(
                "a pattern with an exclusion {- -} cannot be shown WITH UNMATCHED ROWS, because excluded rows are"
                " neither shown nor unmatched",
                hint="leave out the exclusion, or write ALL ROWS PER MATCH SHOW EMPTY MATCHES",
            )
        seen: set[str] = set()
        for measure in clause.measures:
            if measure.name.lower() in seen:
                self._scope.fail(
                    f"two measures are called {measure.name!r}", "give one of them another name", measure.span
                )
            seen.add(measure.name.lower())
        if clause.output is Output.ONE_ROW:
            shown = {name.name.lower() for name in clause.partition_by}
        else:
            shown = set(self._scope.folded)
        for measure in clause.measures:
            if measure.name.lower() in shown:
                self._scope.fail(
                    f"a measure is called {measure.name!r} like a column that is shown",
                    "give the measure another name",
                    measure.span,
                )

    def _add_subset(self, name: str, members: Iterable[Name], span: tuple[int, int]) -> None:
        if name.lower() in self._scope.groups:
            is_variable = name.lower() in self._scope.numbers
            wrong = (
                f"the subset {name!r} is called like a variable" if is_variable else f"there are two subsets {name!r}"
            )
            self._scope.fail(wrong, "give the subset another name", span)
        numbers = set()
        for member in members:
            number = self._scope.numbers.get(member.name.lower())
            if number is None:
                self._scope.unknown_variable(member, "the pattern has no variable", self._scope.variables)
            numbers.add(number)
        self._scope.groups[name.lower()] = tuple(number in numbers for number in range(len(self._scope.variables)))


def _without(node: RowPattern, names: set[str]) -> tuple[bool, bool]:
    """Whether a part may match without rows of some variables, and whether it may do so with rows of others."""
    if isinstance(node, Variable):
        is_other = node.name.lower() not in names
        return is_other, is_other
    if isinstance(node, Anchor):
        return True, False
    if isinstance(node, Exclusion):
        return _without(node.body, names)
    if isinstance(node, Repetition):
        bare, with_others = _without(node.body, names)
        return bare or node.low == 0, with_others and node.high != 0
    bares, others = zip(*(_without(part, names) for part in node.parts)) if node.parts else ((), ())
    if isinstance(node, Alternation):
        return any(bares), any(others)
    return all(bares), all(bares) and any(others)


def _has_exclusion(node: RowPattern) -> bool:
    if isinstance(node, Exclusion):
        return True
    if isinstance(node, Repetition):
        return _has_exclusion(node.body)
    return not isinstance(node, (Variable, Anchor)) and any(map(_has_exclusion, node.parts))
