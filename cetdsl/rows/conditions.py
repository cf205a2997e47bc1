"""Reads conditions of DEFINE, and splits each into SQL that Spark evaluates for each row and a tree for the kernel.

The tree (:mod:`~cetdsl.rows.dependent`) has the parts that depend on rows that the match has bound before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.rows import COUNT, GREATEST, LEAST, LIST, NUMBER
from cetdsl.rows.dependent import ARITHMETIC, Bound, Cell, Extreme, Operation, Total, Tree
from cetdsl.rows.nodes import Name
from cetdsl.rows.references import ExpressionReader, navigated, quoted
from cetdsl.rows.resolved import Expression, Value, column
from cetdsl.rows.scope import Scope
from cetdsl.rows.tokens import Token, end_of_type
from cetdsl.rows.words import COMPARED, LOGICAL, PHYSICAL

#: Operators of two operands, those that bind least first.
_BINARY = (("|",), ("^",), ("&",), ("<<", ">>", ">>>"), ("+", "-", "||"), ("*", "/", "%", "DIV"))
#: Tokens after which an operand comes, so that + and - are signs there.
_BEFORE_SIGN = frozenset(("~", *(operator for operators in _BINARY for operator in operators)))
#: Predicates that only Spark evaluates: all that they compare must be of one row.
_OPAQUE = ("LIKE", "ILIKE", "RLIKE", "REGEXP")


class ConditionReader(ExpressionReader):
    """Reads a condition of DEFINE: the part that Spark evaluates, and the one that depends on the match."""

    def __init__(self, scope: Scope, tokens: Sequence[Token], variable: int, name: str) -> None:
        super().__init__(scope, tokens)
        self._variable, self._name = variable, name
        # The rows at which the SQL that is being written looks (None: the row that is tested), and its total, if any.
        self._rows: set[Bound | Extreme | None] = set()
        self._total: Total | None = None
        # For the SQL that is being written: whether to write it for the case that its row is missing; the variable to
        # which its row is taken to be bound; and whether it depends on that.
        self._absent, self._label, self._labelled = False, "", False

    def parts(self) -> tuple[Expression | None, Tree | None]:
        """Returns the condition as two parts that must both hold; one of them may be missing."""
        ranges = self._split(0, len(self.tokens), "AND")
        trees = [self._tree(begin, end) for begin, end in ranges]
        rows = [tree for tree in trees if isinstance(tree, Cell) and tree.at is None]
        others = tuple(tree for tree in trees if not (isinstance(tree, Cell) and tree.at is None))
        span = (self.tokens[0].start, self.tokens[-1].end)
        expression = Expression(" AND ".join(f"({tree.sql})" for tree in rows), span, tuple(self.unknown))
        if len(rows) == len(trees):
            # Spark does not take a NULL without a type for a condition.
            untyped = len(self.tokens) == 1 and self.tokens[0].upper == "NULL"
            sql = "CAST(NULL AS BOOLEAN)" if untyped else self._sql(0, len(self.tokens))
            expression = attrs.evolve(expression, sql=sql)
        return expression if rows else None, _joined("AND", others, span) if others else None

    # -- what the SQL looks at -----------------------------------------------------------------------------------------

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        return self._cell(self._bound(name, False, 0), column(number))

    def _bound(self, name: Name | None, first: bool, offset: int) -> Bound | None:
        """Returns the row to which FIRST or LAST refers; None if it is always the row that is tested."""
        members = self._members(name)
        is_own = members[self._variable] and not first and not offset
        return None if is_own else Bound(members, first, offset)

    def _cell(self, row: Bound | Extreme | None, sql: str) -> str:
        self._rows.add(row)
        return self._cell_without_row(sql) if self._absent else sql

    def _cell_without_row(self, sql: str) -> str:
        """Returns the SQL for a NULL that has the type of an expression."""
        return f"(CASE WHEN FALSE THEN {sql} END)"

    def call(self, begin: int) -> tuple[str, int]:
        token, word = self.tokens[begin], self._upper(begin)
        if word == "FINAL":
            self._refuse_final(token)
        place = begin + (word == "RUNNING")
        word = self._upper(place)
        self._require_call(place)
        if word == "CLASSIFIER":
            name, behind = self._classified(place)
            return self._label_of(self._bound(name, False, 0)), behind
        if word == "MATCH_NUMBER":
            self._total = Total(NUMBER, (), "", self.tokens[place].span)
            return "total", self._behind_match_number(place)
        if word in PHYSICAL or word in LOGICAL:
            return self._navigation(place)
        return self._aggregate(place)

    def _label_of(self, row: Bound | None) -> str:
        """Returns the SQL for the label of a row, the name of the variable to which it is bound."""
        if row is None:
            return quoted(self._name)
        self._labelled = True
        return self._cell(row, quoted(self._label))

    def _refuse_final(self, token: Token) -> NoReturn:
        self._fail("FINAL cannot stand in DEFINE", "the match is not final while rows are tested; leave it out", token)

    def _refuse(self, what: str, span: tuple[int, int]) -> NoReturn:
        hint = (
            "what brings several rows together may be AND, OR, NOT, IS NULL, IN, BETWEEN, comparisons, + - * / %, ABS;"
            " what looks at a single row, anything"
        )
        self.scope.fail(f"the condition of {self._name} {what}, which is not known there", hint, span, UnsupportedQuery)

    def _navigation(self, place: int) -> tuple[str, int]:
        move, logical, arguments, behind = navigated(self, place)
        begin, end = arguments[0]
        call, first, offset = self.tokens[place], False, 0
        if logical is not None:
            call = self.tokens[logical]
            if self._upper(logical - 1) == "FINAL":
                self._refuse_final(self.tokens[logical - 1])
            inner, _ = self._arguments(logical)
            first, offset = call.upper == "FIRST", self._offset(logical, inner, 0)
            begin, end = inner[0]
        value, name = self._inner(begin, end, call, move)
        if value is None:
            return self._label_of(self._bound_or_tested(name, first, offset, move)), behind
        if value.each:
            return self._of_label(value, self._bound_or_tested(name, first, offset)), behind
        sql = f"({value.sql})" if not move else self.scope.moved_value(value)
        return self._cell(self._bound(name, first, offset), sql), behind

    def _bound_or_tested(self, name: Name | None, first: bool, offset: int, move: int = 0) -> Bound | None:
        """Returns the row of :meth:`_bound`, moved by ``move`` rows.

        The tested row has been bound as the last one, so that with a ``move`` it is the last row of all variables.
        """
        row = self._bound(name, first, offset)
        if not move:
            return row
        everyone = tuple(True for _ in self.scope.variables)
        return Bound(everyone, False, 0, move) if row is None else attrs.evolve(row, move=move)

    def _of_label(self, value: Value, row: Bound | None) -> str:
        """Returns the SQL for a value that depends on the variable of a row."""
        if row is None:
            return f"({value.each[self._variable]})"
        self._labelled = True
        sql = value.each[self._labels.index(self._label)] if self._label else value.sql
        return self._cell(row, f"({sql or value.sql})")

    def _aggregate(self, place: int) -> tuple[str, int]:
        token = self.tokens[place]
        found = self._aggregated(place)
        kind, value, behind = found.kind, found.value, found.behind
        members, span = self._members(found.name), (token.start, self.tokens[behind - 1].end)
        if kind == LIST or (value is None and kind != COUNT):
            self._refuse("lists rows", span)
        if found.distinct:
            self._refuse("aggregates distinct values", span)
        if value is not None and value.each:
            self._refuse("aggregates what depends on labels", span)
        sql = "" if value is None else value.sql
        if kind in (LEAST, GREATEST):
            return self._cell(Extreme(members, sql, kind == GREATEST), f"({sql})"), behind
        self._total = Total(kind, members, sql, span)
        return "total", behind

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _tree(self, begin: int, end: int) -> Tree:
        """Returns the tree of a part of the condition: a cell if it looks at one row only."""
        span = (self.tokens[min(begin, len(self.tokens) - 1)].start, self.tokens[end - 1].end)
        if begin >= end:
            self._refuse("lacks an operand", span)
        sql, rows, total = self._seen(begin, end)
        if total is None and len(rows) <= 1:
            row = next(iter(rows), None)
            each = tuple(self._sql_of_label(begin, end, name) for name in self._labels) if self._labelled else ()
            return Cell(row, sql, "" if row is None else self._sql_without_row(begin, end, sql), span, each)
        if total is not None and not rows and sql == "total":
            return attrs.evolve(total, span=span)
        if self._upper(begin) == "(" and self._closing(begin + 1, end) == end - 1:
            return self._tree(begin + 1, end - 1)
        return self._operation(begin, end, span)

    def _seen(self, begin: int, end: int) -> tuple[str, set[Bound | Extreme | None], Total | None]:
        """Returns the SQL of a part of the condition, the rows to which it refers, and its total, if any."""
        self._rows, self._total, self._labelled = set(), None, False
        return self._sql(begin, end), self._rows, self._total

    @property
    def _labels(self) -> list[str]:
        return [variable.name for variable in self.scope.variables.values()]

    def _sql_of_label(self, begin: int, end: int, label: str) -> str:
        """Returns the SQL of a part for the case that the row it looks at is bound to the variable ``label``."""
        known = len(self.unknown)
        self._label = label
        sql = self._sql(begin, end)
        self._label = ""
        del self.unknown[known:]
        return sql

    def _sql_without_row(self, begin: int, end: int, present: str) -> str:
        """Returns the SQL of a part for the case that its row is missing; empty if that is just NULL."""
        known = len(self.unknown)
        self._absent = True
        sql = self._sql(begin, end)
        self._absent = False
        del self.unknown[known:]
        return "" if sql == self._cell_without_row(present) else sql

    def _operation(self, begin: int, end: int, span: tuple[int, int]) -> Tree:
        for word in ("OR", "AND"):
            parts = self._split(begin, end, word)
            if len(parts) > 1:
                return _joined(word, tuple(self._tree(*part) for part in parts), span)
        if self._upper(begin) in ("NOT", "!"):
            return Operation("NOT", (self._tree(begin + 1, end),), span)
        places = list(self._outermost(begin, end))
        tree = self._predicate(places, begin, end, span)
        for operators in _BINARY:
            tree = tree or self._binary(places, begin, end, span, operators)
        return tree or self._unary(begin, end, span)

    def _predicate(self, places: Sequence[int], begin: int, end: int, span: tuple[int, int]) -> Tree | None:
        found = [place for place in places if self._upper(place) in ("IS", "IN", "BETWEEN", *COMPARED, *_OPAQUE)]
        if not found:
            return None
        place = found[-1]
        word = self._upper(place)
        negated = self._upper(place - 1) == "NOT"
        left = (begin, place - negated)
        tree: Tree | None = None
        if word in COMPARED:
            return _compared(COMPARED[word], self._tree(*left), self._tree(place + 1, end), span)
        if word == "IS":
            negated = self._upper(place + 1) == "NOT"
            if self._upper(place + 1 + negated) == "NULL" and place + 2 + negated == end:
                tree = Operation("IS NULL", (self._tree(*left),), span)
        elif word == "BETWEEN":
            low, high = self._split_between(place + 1, end)
            tested = self._tree(*left)
            bounds = (Operation(">=", (tested, self._tree(*low))), Operation("<=", (tested, self._tree(*high))))
            tree = Operation("AND", bounds, span)
        elif word == "IN" and self._upper(place + 1) == "(" and self._closing(place + 2, end) == end - 1:
            tested = self._tree(*left)
            options = self._arguments(place)[0]
            equal = tuple(Operation("=", (tested, self._tree(*option)), span) for option in options)
            tree = _joined("OR", equal, span)
        if tree is None:
            self._refuse(f"brings several rows together by {word}", self.tokens[place].span)
        return Operation("NOT", (tree,), span) if negated else tree

    def _split_between(self, begin: int, end: int) -> tuple[tuple[int, int], tuple[int, int]]:
        place = next((place for place in self._outermost(begin, end) if self._upper(place) == "AND"), None)
        if place is None:
            self._refuse("has a BETWEEN without AND", self.tokens[begin - 1].span)
        return (begin, place), (place + 1, end)

    def _binary(
        self, places: Sequence[int], begin: int, end: int, span: tuple[int, int], operators: Sequence[str]
    ) -> Tree | None:
        """Returns the operation of the last of some operators, which is applied last; None if there is none.

        A sign does not count as an operator.
        """
        for place in reversed(places):
            word = self._upper(place)
            if word in operators and place > begin and self._upper(place - 1) not in _BEFORE_SIGN:
                if word not in ARITHMETIC:
                    self._refuse(f"brings several rows together by {word}", self.tokens[place].span)
                return Operation(word, (self._tree(begin, place), self._tree(place + 1, end)), span)
        return None

    def _unary(self, begin: int, end: int, span: tuple[int, int]) -> Tree:
        word = self._upper(begin)
        if word == "+":
            return self._tree(begin + 1, end)
        if word == "-":
            return Operation("NEGATIVE", (self._tree(begin + 1, end),), span)
        if word != "ABS" or self._upper(begin + 1) != "(" or self._closing(begin + 2, end) != end - 1:
            self._refuse("brings several rows together", span)
        return Operation("ABS", (self._tree(begin + 2, end - 1),), span)

    def _outermost(self, begin: int, end: int) -> Iterator[int]:
        """Yields the places of the tokens outside of brackets and CASE."""
        depth, place = 0, begin
        while place < end:
            # A field may have the name of a keyword.
            word = "" if self._upper(place - 1) == "." else self._upper(place)
            depth -= word in (")", "]") or (word == "END" and not self._is_operand(place, end))
            if not depth:
                yield place
            depth += word in ("(", "[", "CASE")
            # The < and > of a type, as in x::array<int>, compare nothing.
            place = end_of_type(self.tokens, place + 1) if word == "::" else place + 1

    def _split(self, begin: int, end: int, word: str) -> list[tuple[int, int]]:
        """Returns the operands that ``word``, which is AND or OR, joins; the AND of a BETWEEN does not count."""
        found, between = list[tuple[int, int]](), 0
        places = list(self._outermost(begin, end))
        if word == "AND" and any(self._upper(place) == "OR" for place in places):
            return [(begin, end)]
        for place in places:
            between += self._upper(place) == "BETWEEN"
            if self._upper(place) == "AND" and between:
                between -= 1
            elif self._upper(place) == word:
                found.append((begin, place))
                begin = place + 1
        return [*found, (begin, end)]


def _compared(operator: str, one: Tree, other: Tree, span: tuple[int, int]) -> Tree:
    """Compares two trees; truth values are equal if both hold, or neither does."""
    is_truth = any(isinstance(tree, Operation) and tree.operator not in ARITHMETIC for tree in (one, other))
    if not is_truth or operator not in ("=", "<>"):
        return Operation(operator, (one, other), span)
    neither = Operation("AND", (Operation("NOT", (one,), span), Operation("NOT", (other,), span)), span)
    equal = Operation("OR", (Operation("AND", (one, other), span), neither), span)
    return equal if operator == "=" else Operation("NOT", (equal,), span)


def _joined(operator: str, operands: tuple[Tree, ...], span: tuple[int, int]) -> Tree:
    """Joins operands by AND or OR, as nested operations of two operands."""
    tree = operands[0]
    for operand in operands[1:]:
        tree = Operation(operator, (tree, operand), span)
    return tree
