"""Matches of the fluent language as DataFrames: its terms become columns, and its predicates conditions on rows.

The conditions get the form that they have in the clause MATCH_RECOGNIZE, which :mod:`match_rows` executes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.analysis.classify import separate
from cetdsl.analysis.guards import own_term
from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.expressions import to_column
from cetdsl.execution.match_rows import match_rows, sorting_of_rows
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame, Terms
from cetdsl.execution.trends import Shown
from cetdsl.ir.matches import ALONE, ANY_INSTANT, OTHER_INSTANT, Demand, Option
from cetdsl.ir.operators import FindMatches, Operator
from cetdsl.ir.rows import COUNT, LIST, NOWHERE, SKIPS, SUM, Arrows
from cetdsl.ir.sorting import AskedSort
from cetdsl.ir.windowing import SLIDING, SPAN
from cetdsl.pattern.expressions import (
    COMPARISONS,
    MIRRORED,
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Length,
    Role,
    Unary,
    strip,
    variables,
)
from cetdsl.pattern.query import STRICT
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import quote
from cetdsl.rows.dependent import Bound, Cell, Extreme, Operation, Total, Tree
from cetdsl.rows.nodes import Concatenation, MatchClause, Measure, Name, Output, Skip, SkipTo, SortKey
from cetdsl.rows.resolved import AVERAGE, Expression, ResolvedMatch, Value, Wanted, column, moved_name, slot_name

_OPERATORS = {**dict(zip(COMPARISONS, COMPARISONS, strict=True)), "!=": "<>", "and": "AND", "or": "OR"}
_TOTALS = {"sum": SUM, "avg": AVERAGE}
_NOWHERE = (0, 0)
#: The row that a term looks at; None is the tested row itself.
_Row = Bound | Extreme | None
#: The row right before the tested row, whatever it is bound to.
_BEFORE = Bound((), False, 0)


@runs(FindMatches)
def find_matches(df: DataFrame, plan: FindMatches) -> Rows:
    """Gives keys, window, and each match as a trend, under the user's column names."""
    frame = EventFrame(df, plan.source, plan.compiled)
    return Rows(_Matches(frame, plan).answer(), frame)


def with_sorting(df: DataFrame, plan: Operator) -> Operator:
    """Returns a plan of matches with the decision who puts rows in order, by the types of terms."""
    if not isinstance(plan, FindMatches):
        return plan.with_children(tuple(with_sorting(df, child) for child in plan.children))
    frame = EventFrame(df, plan.source, plan.compiled)
    return attrs.evolve(plan, sorting=sorting_of_rows(*_Matches(frame, plan).asked()))


class _Matches:
    """Translates a request for matches into a clause, over columns that are made for it."""

    def __init__(self, frame: EventFrame, plan: FindMatches) -> None:
        self.frame, self.plan = frame, plan
        self.terms: Terms = {}
        self.numbers: dict[str, int] = {}
        self.moved: dict[Value, int] = {}
        self.known: dict[tuple[Expr, bool], str] = {}
        self.is_strict = plan.compiled.machine.matching == STRICT
        self.keys = [self._number(name, term) for name, term in frame.keys().items()]
        if plan.source.windowing.kind == SLIDING:
            self.keys.append(self._number("w", F.explode_outer(frame.window_starts())))
        self.order = [self._number("t", frame.ticks)]
        self.order += [self._number(f"b{n}", frame.own_name(name)) for n, name in enumerate(plan.source.tie_break)]
        event = F.struct(*(frame.column(name).alias(name) for name in plan.columns))
        self.event = column(self._number("event", event))
        self.instant = column(self.order[0])
        if len(self.order) > 1:
            self.instant = f"struct({', '.join(map(column, self.order))})"

    def asked(self) -> tuple[DataFrame, ResolvedMatch, Arrows, Span | None, AskedSort]:
        """Returns the arguments for :func:`match_rows`."""
        plan, source = self.plan, self.plan.source
        conditions = {number: self._tested(demand) for number, demand in enumerate(plan.demands)}
        tested = {number: Expression(sql, _NOWHERE) for number, sql in conditions.items() if sql}
        trees = {number: self._depending(demand) for number, demand in enumerate(plan.demands)}
        depending = {number: tree for number, tree in trees.items() if tree is not None}
        whole = _all([self._of_match(predicate) for predicate in plan.whole])
        bound = self._members()
        slots = (Wanted(LIST, bound), Wanted(LIST, bound, value=Value(self.event)))
        binding = "(variable, event) -> named_struct('variable', variable, 'event', event)"
        trend = Expression(f"zip_with({slot_name(0)}, {slot_name(1)}, {binding})", _NOWHERE)
        match = ResolvedMatch(
            self._clause(),
            tuple(self.numbers),
            tuple(self.keys),
            tuple(self.order),
            plan.arrows.names,
            tested,
            depending,
            (),
            (trend,),
            slots,
            tuple(self.moved),
            self._members(plan.skip_variable),
            whole,
            plan.skip == NOWHERE,
            plan.longest,
            self.frame.source.time if self.frame.checks_time else "",
        )
        bits = {number: bit for bit, number in enumerate(tested)}
        arrows = attrs.evolve(plan.arrows, bits=tuple(bits.get(number, -1) for number in range(len(plan.demands))))
        span = Span(source.windowing.length, "tick") if source.windowing.kind == SPAN else None
        return self.frame.select(self.terms), match, arrows, span, source.sort

    def answer(self) -> DataFrame:
        found, source = match_rows(*self.asked()), self.plan.source
        shown = Shown.of(source)
        keys: list[Column] = [F.col(self.frame.key_names[source.keys.index(name)]) for name in shown.keys]
        window = [self.frame.window(F.col("w"))] if shown.sliding else []
        return found.select(*keys, *window, "trend").toDF(*shown.names())

    def _clause(self) -> MatchClause:
        """Returns the clause for the rows to show, their order, and where to go on."""
        names = {self.numbers[name]: name for name in self.numbers}
        order = tuple(SortKey(Name(names[number], _NOWHERE), True, True) for number in self.order)
        to = next((SkipTo(words) for words, skip in SKIPS.items() if skip == self.plan.skip), SkipTo.PAST_LAST)
        measures = (Measure("trend", (), _NOWHERE),)
        return MatchClause("", (), order, measures, Output.ONE_ROW, Skip(to), Concatenation(()), None, (), ())

    def _members(self, variable: int | None = None) -> tuple[bool, ...]:
        """Returns for each demand whether its rows are bound, or bound to a variable."""
        bound = [demand.bound for demand in self.plan.demands]
        return tuple(one is not None and variable in (None, one.variable) for one in bound)

    # -- what a row must satisfy ---------------------------------------------------------------------------------------

    def _tested(self, demand: Demand) -> str:
        """Returns the conditions on the row and its neighbours, as SQL; empty where any row will do."""
        parts = [self._of_instant(demand.instant)]
        if demand.bound is not None:
            parts.append(self._is_of(demand.bound.variable))
            if self.is_strict:
                parts += [_sql_of(self._of_neighbours(each, None)) for each in demand.bound.predicates]
        elif demand.unless and not any(option.predicates for option in demand.unless):
            parts.append(f"NOT ({' OR '.join(self._is_of(option.variable) for option in demand.unless)})")
        return " AND ".join(f"({part})" for part in parts if part)

    def _of_instant(self, instant: str) -> str:
        same = f"{self._moved(self.instant, -1)} <=> {self.instant}" if instant != ANY_INSTANT else ""
        if instant == OTHER_INSTANT:
            return f"NOT ({same})"
        if instant == ALONE:
            before = f"{self._moved(self.instant, -2)} <=> {self._moved(self.instant, -1)}"
            return f"NOT ({same} OR {before} OR {self.instant} <=> {self._moved(self.instant, 1)})"
        return same

    def _is_of(self, variable: int) -> str:
        """Whether a row meets the condition of a variable."""
        return column(self._number(f"is{variable}", f"(CAST(m AS bigint) & {1 << variable}L) <> 0"))

    def _moved(self, sql: str, move: int) -> str:
        return moved_name(self.moved.setdefault(Value(sql, move), len(self.moved)))

    def _depending(self, demand: Demand) -> Tree | None:
        """Returns the conditions that depend on more of the match than the row before."""
        if demand.bound is None:
            return None if self._tested_alone(demand) else _all([_not(self._taken(option)) for option in demand.unless])
        parts = [] if self.is_strict else [self._of_neighbours(each, 1) for each in demand.bound.predicates]
        name, _ = self.plan.compiled.variables[demand.bound.variable]
        parts += [self._of_pair(pair, name) for pair in self.plan.pairs if name in variables(pair)]
        return _all(parts)

    def _tested_alone(self, demand: Demand) -> bool:
        return not any(option.predicates for option in demand.unless)

    def _taken(self, option: Option) -> Tree:
        """Whether a row could be bound in this way, behind the one that is bound last."""
        of_variable = Cell(None, self._is_of(option.variable))
        whole = _all([of_variable, *(self._of_neighbours(each, 0) for each in option.predicates)])
        assert whole is not None
        return whole

    def _of_neighbours(self, predicate: Expr, offset: int | None) -> Tree:
        """A predicate on the tested row and a row bound before it: ``offset`` bound rows back from the last one.

        If ``offset`` is None, the other row is the one right before the tested row.
        """
        last = None if offset is None else Bound(self._members(), False, offset)

        def cell(row: _Row, term: Expr) -> Tree:
            if row is not None and last is None:
                return Cell(None, self._moved(self._term(term), -1))
            return self._cell(row, term)

        before = last or _BEFORE
        return _tree(predicate, lambda node: None if node.role is Role.NEXT else before, cell)

    def _of_pair(self, predicate: Expr, name: str) -> Tree:
        """A predicate on the tested row, of one variable, and the rows of another variable bound before it."""
        others = [other for other in variables(predicate) if other != name]
        if not all(self.plan.single[self.plan.compiled.number_of(other)] for other in others):
            return self._of_all(predicate, name, others[0])
        bound = {other: Bound(self._members(self.plan.compiled.number_of(other)), True, 0) for other in others}
        holds = _tree(predicate, lambda node: bound.get(str(node.variable)), self._cell)
        return _any([*(Cell(row, "FALSE", "TRUE") for row in bound.values()), holds])

    def _of_all(self, predicate: Expr, name: str, other: str) -> Tree:
        """A comparison of a row with each row of a variable: with the least or the greatest, if none is NULL."""
        found = separate(predicate)
        assert found is not None, predicate
        own, op, theirs = found.left, found.op, found.right
        if found.variables[0] != name:
            own, op, theirs = theirs, MIRRORED[op], own
        members, term = self._members(self.plan.compiled.number_of(other)), self._term(theirs)
        extremes = {"<": (False,), "<=": (False,), ">": (True,), ">=": (True,), "=": (False, True)}[op]
        parts: list[Tree] = [Operation("=", (Total(COUNT, members, f"{term} IS NULL"), Cell(None, "0L")))]
        for greatest in extremes:
            row = Extreme(members, term, greatest)
            holds = Operation(_OPERATORS[op], (Cell(None, self._term(own)), Cell(row, term)))
            parts.append(_any([Cell(row, "FALSE", "TRUE"), holds]))
        whole = _all(parts)
        assert whole is not None
        return whole

    def _of_match(self, predicate: Expr) -> Tree:
        """A predicate on a whole match."""
        places = {Role.FIRST: (True, 0), Role.LAST: (False, 0)}

        def row_of(node: Attribute) -> Bound:
            first, offset = places.get(node.role, (True, node.index or 0))
            return Bound(self._members(self.plan.compiled.number_of(str(node.variable))), first, offset)

        return _tree(predicate, row_of, self._cell, self._total)

    def _total(self, node: Aggregate | Length) -> Tree:
        if isinstance(node, Length) or isinstance(node.argument, Length):
            return Total(COUNT, self._members(), "")
        name = node.variable or (variables(node.argument)[0] if node.argument is not None else None)
        members = self._members(None if name is None else self.plan.compiled.number_of(name))
        if node.argument is None:
            return Total(COUNT, members, "")
        term = self._term(node.argument)
        if node.function in _TOTALS:
            return Total(_TOTALS[node.function], members, term)
        return Cell(Extreme(members, term, node.function == "max"), term)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _cell(self, row: _Row, term: Expr) -> Tree:
        # If the row does not exist, its columns are NULL, but a term over these columns need not be NULL.
        absent = "" if row is None or isinstance(term, Attribute) else self._term(term, absent=True)
        return Cell(row, self._term(term), absent)

    def _term(self, term: Expr, absent: bool = False) -> str:
        """The SQL for a term over one event's own row, or over NULL in place of all of its columns."""
        stripped = strip(term) if absent else own_term(term, self.plan.source.schema, self.frame.compiled.conditions)
        key = stripped, absent
        if key not in self.known:
            made = self._over_nothing(stripped) if absent else self.frame.term(stripped)
            self.known[key] = column(self._number(f"x{len(self.known)}", made))
        return self.known[key]

    def _over_nothing(self, term: Expr) -> Column:
        def resolve(node: Expr) -> Column:
            assert isinstance(node, Attribute), node
            return F.when(F.lit(False), self.frame.column(node.name))

        return to_column(term, resolve, self.plan.source.schema)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _number(self, name: str, term: Column | str) -> int:
        self.terms[name] = term
        return self.numbers.setdefault(name, len(self.numbers))


def _tree(
    term: Expr,
    row_of: Callable[[Attribute], _Row],
    cell: Callable[[_Row, Expr], Tree],
    total: Callable[[Aggregate | Length], Tree] | None = None,
) -> Tree:
    """A term over several rows as a tree, with the row of each attribute, and leaves of one row or of totals."""
    totals = [node for node in term.walk() if isinstance(node, (Aggregate, Length))]
    rows = dict.fromkeys(row_of(node) for node in term.walk() if isinstance(node, Attribute))
    if not totals and len(rows) <= 1:
        return cell(next(iter(rows), None), term)
    if isinstance(term, (Aggregate, Length)):
        assert total is not None, term
        return total(term)

    def inner(part: Expr) -> Tree:
        return _tree(part, row_of, cell, total)

    if isinstance(term, Unary):
        return Operation("NEGATIVE" if term.op == "-" else "NOT", (inner(term.operand),))
    if isinstance(term, Binary):
        return Operation(_OPERATORS.get(term.op, term.op), (inner(term.left), inner(term.right)))
    if isinstance(term, Call) and term.name.lower() == "abs":
        return Operation("ABS", (inner(term.arguments[0]),))
    if isinstance(term, Call) and term.name == "in":
        tested, *options = map(inner, term.arguments)
        return _any([Operation("=", (tested, option)) for option in options])
    raise UnsupportedQuery(
        f"{quote(term)} brings several events together by a function, where matches are taken one at a time",
        hint="bring them together by AND, OR, NOT, comparisons, + - * / % and ABS; of one event any function will do",
    )


def _all(parts: Sequence[Tree]) -> Tree | None:
    return reduce(lambda one, other: Operation("AND", (one, other)), parts) if parts else None


def _any(parts: Sequence[Tree]) -> Tree:
    return reduce(lambda one, other: Operation("OR", (one, other)), parts)


def _not(tree: Tree) -> Tree:
    """Negates a condition, where one that is NULL counts as not holding."""
    return Operation("OR", (Operation("NOT", (tree,)), Operation("IS NULL", (tree,))))


def _sql_of(tree: Tree) -> str:
    """A tree over a row and the one before it as SQL."""
    if isinstance(tree, Cell):
        return tree.sql
    assert isinstance(tree, Operation), tree
    parts = list(map(_sql_of, tree.operands))
    if len(parts) == 2:
        return f"({parts[0]} {tree.operator} {parts[1]})"
    return {"NEGATIVE": f"(-{parts[0]})", "ABS": f"abs({parts[0]})"}.get(tree.operator, f"(NOT {parts[0]})")
