"""Splits the expressions of a clause into what Spark evaluates for each row, and what is known of matches only.

Expressions are Spark's SQL and stay so. Only references to rows of the match, such as ``FIRST(A.price)``, are taken out
of the tokens: each becomes a slot, which the matcher fills with the value of an expression at some row or with an
aggregate, and the name of the slot stands for it in what Spark evaluates afterwards. Physical neighbours,
``PREV(price)``, are Spark's own ``lag`` and ``lead``.

Names of columns that are made here have a blank in them, so that no word of the user's can be one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import attrs

from cetdsl.errors import (
    CetdslError,
    ParseError,
    ResolutionError,
    UnknownColumn,
    UnknownVariable,
    UnsupportedQuery,
    nearest,
)
from cetdsl.ir.rows import COUNT, GREATEST, LEAST, LIST, NUMBER, ROW, SUM, Pointed
from cetdsl.pattern.text import in_backquotes
from cetdsl.rows.dependent import ARITHMETIC, Bound, Cell, Extreme, Operation, Total, Tree
from cetdsl.rows.nodes import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    MatchClause,
    Name,
    Output,
    Permutation,
    Repetition,
    RowPattern,
    SkipTo,
    Variable,
)
from cetdsl.rows.tokens import Kind, Token

_PHYSICAL = {"PREV": "lag", "NEXT": "lead"}
_LOGICAL = {"FIRST", "LAST"}
#: Beside these and COUNT, an average, which is a sum and a count.
_AGGREGATES = {"SUM": SUM, "MIN": LEAST, "MAX": GREATEST, "ARRAY_AGG": LIST, "COLLECT_LIST": LIST}
AVERAGE = "average"
#: What may take a constant, which then stands for a value of each row.
_COUNTED_EVERYWHERE = frozenset(_AGGREGATES) | {"COUNT", "AVG", "MEAN"}
_NAVIGATION = _LOGICAL | set(_PHYSICAL) | set(_AGGREGATES) | {"COUNT", "AVG", "MEAN", "CLASSIFIER", "MATCH_NUMBER"}
#: Spark's other aggregates: they would aggregate the matches themselves.
_OTHER_AGGREGATES = frozenset(
    """ANY ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE APPROX_TOP_K BIT_AND BIT_OR BIT_XOR BITMAP_CONSTRUCT_AGG
    BITMAP_OR_AGG BOOL_AND BOOL_OR COLLECT_SET CORR COUNT_IF COUNT_MIN_SKETCH COVAR_POP COVAR_SAMP EVERY FIRST_VALUE
    GROUPING GROUPING_ID HISTOGRAM_NUMERIC HLL_SKETCH_AGG HLL_UNION_AGG KURTOSIS LAST_VALUE LISTAGG MAX_BY MEDIAN MIN_BY
    MODE PERCENTILE PERCENTILE_APPROX PERCENTILE_CONT PERCENTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT
    REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY SCHEMA_OF_JSON_AGG SKEWNESS SOME STD STDDEV STDDEV_POP STDDEV_SAMP
    STRING_AGG TRY_AVG TRY_SUM VAR_POP VAR_SAMP VARIANCE""".split()  # noqa: SIM905 - a list would take a page
)
#: Words that are part of an expression even if a column is called so; in backquotes they are the column.
_SYNTAX = frozenset(
    """ALL AND ANY AS ASC BETWEEN BOTH CASE CAST COLLATE CROSS CURRENT_DATE CURRENT_TIMESTAMP CURRENT_USER DESC DISTINCT
    DIV ELSE END ESCAPE EXISTS EXTRACT FALSE FROM ILIKE IN INTERVAL IS LEADING LIKE NOT NULL OR OVERLAY REGEXP RLIKE
    SELECT SIMILAR SOME THEN TO TRAILING TRUE USING WHEN WHERE""".split()  # noqa: SIM905 - a list would take a page
)
_UNITS = frozenset(
    f"{unit}{ending}"
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for ending in ("", "S")
)
_TYPED = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "X"}
_TAKE_UNIT = {"EXTRACT", "TIMESTAMPDIFF", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "DATEADD", "DATE_ADD"}
_TAKE_TYPE = {"CAST", "TRY_CAST"}
#: Comparisons by their spellings, and predicates that are left to Spark.
_COMPARED = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_OPAQUE = ("LIKE", "ILIKE", "RLIKE", "REGEXP")


@attrs.frozen
class Value:
    """An expression over one row, as SQL over the columns ``col 0``, ``col 1``, ...

    ``move`` is -2 for the row two before the one that is asked about, 1 for the next one. If the value depends on the
    variable that the row is bound to, ``each`` is the SQL for each of them, and empty for those that are not asked for.
    """

    sql: str
    move: int = 0
    each: tuple[str, ...] = ()

    def within(self, write: Callable[[str], str]) -> Value:
        """What is computed of the value, given by the SQL for it."""
        return attrs.evolve(self, sql=write(self.sql), each=tuple(sql and write(sql) for sql in self.each))

    @property
    def is_there(self) -> Value:
        """Whether the value is not NULL."""
        return self.within(lambda sql: f"({sql}) IS NOT NULL")


@attrs.frozen
class Wanted:
    """A slot: like :class:`~cetdsl.ir.rows.Slot`, with the value itself; None is the label, or all rows of a COUNT.

    An aggregate may be over the ``distinct`` values alone, and a label that of a row so many rows behind (``move``).
    """

    kind: str
    members: tuple[bool, ...] = ()
    running: bool = False
    value: Value | None = None
    first: bool = False
    offset: int = 0
    distinct: bool = False
    move: int = 0
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


@attrs.frozen
class Expression:
    """A measure or a condition as SQL, and the words in it that are no columns, which Spark must know."""

    sql: str
    span: tuple[int, int]
    unknown: tuple[Token, ...] = ()


@attrs.frozen
class ResolvedMatch:
    """A clause against the columns of a DataFrame.

    Parameters
    ----------
    clause : MatchClause
    columns : tuple of str
        The columns of the DataFrame; those below are numbers among them.
    partition_by, order_by : tuple of int
    variables : tuple of str
        The variables of the pattern, as it first writes them.
    conditions : mapping of int to Expression
        By the number of the variable. They are SQL over ``col n`` and over the values of :attr:`moved`.
    depending : mapping of int to Tree
        By the number of the variable, what must hold besides and depends on rows that the match has bound before.
    unknown : tuple of Token
        The words in conditions that are no columns, which Spark must know.
    measures : tuple of Expression
        They are SQL over ``slot n``.
    slots : tuple of Wanted
    moved : tuple of Value
        Values of other rows that conditions look at, as ``moved n``.
    skip_members : tuple of bool
    whole : Tree, optional
        What must hold of a whole match besides.
    is_first, is_longest : bool
        Whether the first match of a partition is the only one, and whether of those that begin at a row the longest is
        taken. SQL has neither.
    time_name : str
        How the user calls the first column of :attr:`order_by`, if a row without a time is an error; else empty.
    undefined : tuple of Variable
        The variables that DEFINE does not mention, which any row can be bound to.
    skip_may_fail : bool
        Whether there may be matches without a row to skip to.
    """

    clause: MatchClause
    columns: tuple[str, ...]
    partition_by: tuple[int, ...]
    order_by: tuple[int, ...]
    variables: tuple[str, ...]
    conditions: Mapping[int, Expression]
    depending: Mapping[int, Tree]
    unknown: tuple[Token, ...]
    measures: tuple[Expression, ...]
    slots: tuple[Wanted, ...]
    moved: tuple[Value, ...]
    skip_members: tuple[bool, ...]
    whole: Tree | None = None
    is_first: bool = False
    is_longest: bool = False
    time_name: str = ""
    undefined: tuple[Variable, ...] = ()
    skip_may_fail: bool = False

    @property
    def pointed(self) -> Pointed:
        """What errors of the run point at."""
        defined = {each.variable.casefold(): each.tokens for each in self.clause.definitions}
        found = [defined.get(name.casefold(), ()) for name in self.variables]
        spans = tuple((tokens[0].start, tokens[-1].end) if tokens else (0, 0) for tokens in found)
        return Pointed(self.clause.text, self.clause.skip.span, spans)


def column(number: int) -> str:
    """The SQL that names a column of the DataFrame."""
    return in_backquotes(f"col {number}")


def slot_name(number: int) -> str:
    """The SQL that names a slot."""
    return in_backquotes(f"slot {number}")


def moved_name(number: int) -> str:
    """The SQL that names a value of another row."""
    return in_backquotes(f"moved {number}")


def resolve(clause: MatchClause, columns: Sequence[str]) -> ResolvedMatch:
    """What a clause asks of a DataFrame with some columns.

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
        With the place in the text and a hint: for unknown variables and columns, and what cannot be asked.

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
    """Looks names up, and collects the slots and moved values of all expressions."""

    def __init__(self, clause: MatchClause, columns: Sequence[str]) -> None:
        self.clause, self.columns = clause, tuple(columns)
        self._exact: dict[str, list[int]] = {}
        self._folded: dict[str, list[int]] = {}
        for number, name in enumerate(columns):
            self._exact.setdefault(name, []).append(number)
            self._folded.setdefault(name.casefold(), []).append(number)
        self.variables: dict[str, Variable] = {}
        for variable in _variables_of(clause.pattern):
            self.variables.setdefault(variable.name.casefold(), variable)
        self.numbers = {folded: number for number, folded in enumerate(self.variables)}
        self.groups: dict[str, tuple[bool, ...]] = {}
        self.slots: dict[Wanted, int] = {}
        self.moved: dict[Value, int] = {}

    def resolved(self) -> ResolvedMatch:
        clause = self.clause
        self._check_shape()
        for folded in self.variables:
            self.groups[folded] = tuple(folded == other for other in self.variables)
        for subset in clause.subsets:
            self._add_subset(subset.name, subset.members, subset.span)
        partition_by = tuple(self.column_number(name) for name in clause.partition_by)
        order_by = tuple(self.column_number(key.column) for key in clause.order_by)
        conditions, depending, defined = dict[int, Expression](), dict[int, Tree](), set[int]()
        unknown: list[Token] = []
        for definition in clause.definitions:
            name = Name(definition.variable, definition.span)
            number = self.numbers.get(definition.variable.casefold())
            if number is None:
                self._unknown_variable(name, "the pattern has no variable", self.variables)
            if number in defined:
                self.fail(f"the variable {name.name!r} is defined twice", "join the conditions with AND", name.span)
            defined.add(number)
            reader = _Condition(self, definition.tokens, number, name.name)
            condition, dependent = reader.parts()
            unknown += reader.unknown
            if condition is not None:
                conditions[number] = condition
            if dependent is not None:
                depending[number] = dependent
        measures = tuple(_Measures(self, measure.tokens).expression() for measure in clause.measures)
        everyone = tuple(True for _ in self.variables)
        skip = everyone
        if clause.skip.to in (SkipTo.FIRST, SkipTo.LAST):
            skip = self.members(Name(clause.skip.variable, clause.skip.span))
        if clause.output is Output.ONE_ROW and not clause.measures and not clause.partition_by:
            self.fail("nothing is shown of a match", "name something in MEASURES, or write ALL ROWS PER MATCH", (0, 1))
        return ResolvedMatch(
            clause,
            self.columns,
            partition_by,
            order_by,
            tuple(variable.name for variable in self.variables.values()),
            conditions,
            depending,
            tuple(unknown),
            measures,
            tuple(self.slots),
            tuple(self.moved),
            skip,
            undefined=tuple(each for number, each in enumerate(self.variables.values()) if number not in defined),
            skip_may_fail=_without(clause.pattern, {name for name, asked in zip(self.variables, skip) if asked})[1],
        )

    def _check_shape(self) -> None:
        clause = self.clause
        if clause.output is Output.UNMATCHED and _has_exclusion(clause.pattern):
            raise UnsupportedQuery(
                "a pattern with an exclusion {- -} cannot be shown WITH UNMATCHED ROWS, because excluded rows are"
                " neither shown nor unmatched",
                hint="leave out the exclusion, or write ALL ROWS PER MATCH SHOW EMPTY MATCHES",
            )
        seen: set[str] = set()
        for measure in clause.measures:
            if measure.name.casefold() in seen:
                self.fail(f"two measures are called {measure.name!r}", "give one of them another name", measure.span)
            seen.add(measure.name.casefold())
        if clause.output is Output.ONE_ROW:
            shown = {name.name.casefold() for name in clause.partition_by}
        else:
            shown = set(self._folded)
        for measure in clause.measures:
            if measure.name.casefold() in shown:
                self.fail(
                    f"a measure is called {measure.name!r} like a column that is shown",
                    "give the measure another name",
                    measure.span,
                )

    def _add_subset(self, name: str, members: Iterable[Name], span: tuple[int, int]) -> None:
        if name.casefold() in self.groups:
            self.fail(f"the subset {name!r} is called like a variable", "give the subset another name", span)
        numbers = set()
        for member in members:
            number = self.numbers.get(member.name.casefold())
            if number is None:
                self._unknown_variable(member, "the pattern has no variable", self.variables)
            numbers.add(number)
        self.groups[name.casefold()] = tuple(number in numbers for number in range(len(self.variables)))

    def fail(
        self,
        message: str,
        hint: str,
        span: tuple[int, int],
        kind: type[CetdslError] = ResolutionError,
    ) -> NoReturn:
        """Raises an error that points at a place of the clause."""
        raise kind(message, hint=hint, span=span, text=self.clause.text)

    def _unknown_variable(self, name: Name, message: str, known: Iterable[str]) -> NoReturn:
        names = [self.variables[one].name if one in self.variables else one for one in known]
        hint = nearest(name.name, names, f"its variables are {', '.join(names)}")
        self.fail(f"{message} {name.name!r}", hint, name.span, UnknownVariable)

    def members(self, name: Name) -> tuple[bool, ...]:
        """The variables that a name stands for."""
        found = self.groups.get(name.name.casefold())
        if found is None:
            self._unknown_variable(name, "the pattern has no variable and no subset", self.groups)
        return found

    def find_column(self, name: str, span: tuple[int, int]) -> int | None:
        """The number of a column; None if there is none of the name."""
        found = self._exact.get(name) or self._folded.get(name.casefold())
        if found is None:
            return None
        if len(found) > 1:
            self.fail(f"several columns are called {name!r}", "rename all but one of them first", span)
        return found[0]

    def column_number(self, name: Name) -> int:
        """The number of a column that must be there."""
        found = self.find_column(name.name, name.span)
        if found is None:
            error = UnknownColumn.among(name.name, self.columns)
            error.span, error.text = name.span, self.clause.text
            raise error
        return found

    def slot(self, wanted: Wanted) -> str:
        """The SQL that stands for a slot."""
        return slot_name(self.slots.setdefault(wanted, len(self.slots)))

    def moved_value(self, value: Value) -> str:
        """The SQL that stands for a value of another row."""
        return moved_name(self.moved.setdefault(value, len(self.moved)))


def _variables_of(node: RowPattern) -> Iterable[Variable]:
    if isinstance(node, Variable):
        yield node
    elif isinstance(node, (Repetition, Exclusion)):
        yield from _variables_of(node.body)
    elif isinstance(node, (Concatenation, Alternation, Permutation)):
        for part in node.parts:
            yield from _variables_of(part)


def _without(node: RowPattern, names: set[str]) -> tuple[bool, bool]:
    """Whether a part may match without a row that is bound to some variables, and whether it may do so with others."""
    if isinstance(node, Variable):
        is_other = node.name.casefold() not in names
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


@attrs.frozen
class _Aggregated:
    """An aggregate over rows of a name, with its values: None where COUNT counts all rows, or for labels.

    ``behind`` is the place of the token behind it.
    """

    kind: str
    name: Name | None
    value: Value | None
    behind: int
    distinct: bool = False


class _Expression:
    """Reads the tokens of an expression, and writes the SQL that Spark evaluates."""

    def __init__(self, resolver: _Resolver, tokens: Sequence[Token]) -> None:
        self.resolver, self.tokens = resolver, tokens
        self.unknown: list[Token] = []
        self._shadowed: list[tuple[int, str]] = []

    def expression(self) -> Expression:
        """The whole expression."""
        sql = self._sql(0, len(self.tokens))
        return Expression(sql, (self.tokens[0].start, self.tokens[-1].end), tuple(self.unknown))

    # What a reference stands for depends on where the expression stands.

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        """The SQL for a column of the rows that are bound to ``name``, or of any row of the match."""
        raise NotImplementedError

    def call(self, begin: int) -> tuple[str, int]:
        """The SQL for a call that looks at rows of the match, and the place behind it."""
        raise NotImplementedError

    def _fail(self, message: str, hint: str, token: Token, kind: type[CetdslError] = ResolutionError) -> NoReturn:
        self.resolver.fail(message, hint, token.span, kind)

    def _sql(self, begin: int, end: int) -> str:
        parts: list[str] = []
        place = begin
        while place < end:
            text, place = self._part(place, end)
            parts.append(text)
        return " ".join(parts)

    def _upper(self, place: int) -> str:
        return self.tokens[place].upper if 0 <= place < len(self.tokens) else ""

    def _part(self, place: int, end: int) -> tuple[str, int]:
        token, word = self.tokens[place], self._upper(place)
        behind = self._upper(place + 1) if place + 1 < end else ""
        if word == "OVER":
            hint = "compute it as a column first"
            self._fail("a window function cannot stand in MATCH_RECOGNIZE", hint, token, UnsupportedQuery)
        if word == "(" and behind in ("SELECT", "WITH"):
            closing = self._closing(place + 1, end)
            return " ".join(token.text for token in self.tokens[place : closing + 1]), closing + 1
        if not token.is_name or self._upper(place - 1) == ".":
            return token.text, place + 1
        if token.kind is Kind.WORD and word in ("RUNNING", "FINAL") and self._upper(place + 1) in _NAVIGATION:
            return self.call(place)
        if token.kind is Kind.WORD and behind == "(":
            if word in _NAVIGATION:
                return self.call(place)
            if word in _OTHER_AGGREGATES:
                hint = "write a function of ARRAY_AGG(...) for it, such as array_distinct or aggregate"
                self._fail(f"the aggregate {token.text} is not known of rows of a match", hint, token, UnsupportedQuery)
            return token.text, place + 1
        name = Name(token.name, token.span)
        if behind == "." and place + 2 < end and token.name.casefold() in self.resolver.groups:
            if self.tokens[place + 2].upper == "*":
                self._fail(f"{token.text}.* stands for whole rows", "only COUNT takes them", token, UnsupportedQuery)
            if self.tokens[place + 2].is_name:
                last = self.tokens[place + 2]
                number = self.resolver.column_number(Name(last.name, last.span))
                return self.reference(name, number, (token.start, last.end)), place + 3
        if self._is_syntax(place, end) or self._is_shadowed(place, end):
            return token.text, place + 1
        column_number = self.resolver.find_column(token.name, token.span)
        if column_number is not None:
            return self.reference(None, column_number, token.span), place + 1
        if behind == "." or token.kind is Kind.QUOTED:
            if behind == ".":
                self.resolver.members(name)
            self.resolver.column_number(name)
        self.unknown.append(token)
        return token.text, place + 1

    def _is_syntax(self, place: int, end: int) -> bool:
        """Whether a word is part of Spark's syntax here, and no name of a column."""
        token, word = self.tokens[place], self._upper(place)
        if token.kind is Kind.QUOTED:
            return False
        if word in _SYNTAX:
            return True
        if word in _TYPED and place + 1 < end and self.tokens[place + 1].kind is Kind.STRING:
            return True
        if word in _UNITS and (self._in_interval(place) or self._is_first_argument(place, _TAKE_UNIT)):
            return True
        if self._is_first_argument(place, {"EXTRACT"}) or self._upper(place - 1) in ("::", "COLLATE"):
            return True
        return self._in_type(place)

    def _in_interval(self, place: int) -> bool:
        """Whether a word is a unit of INTERVAL: ``INTERVAL '1' DAY``, ``INTERVAL 1 day 2 hours``."""
        place -= 1
        while place >= 0:
            token = self.tokens[place]
            if token.upper == "INTERVAL":
                return True
            literal = token.kind in (Kind.NUMBER, Kind.STRING) or token.upper in ("-", "+", "TO")
            if not literal and token.upper not in _UNITS:
                return False
            place -= 1
        return False

    def _is_first_argument(self, place: int, functions: set[str]) -> bool:
        return self._upper(place - 1) == "(" and self._upper(place - 2) in functions

    def _in_type(self, place: int) -> bool:
        """Whether a word stands behind the AS of a CAST."""
        depth, seen_as = 0, False
        for before in range(place - 1, -1, -1):
            word = self._upper(before)
            if word == ")":
                depth += 1
            elif word == "(" and depth:
                depth -= 1
            elif word == "(":
                if self._upper(before - 1) in _TAKE_TYPE:
                    return seen_as
                if not seen_as and self._upper(before - 1) in ("", ",", "("):
                    return False
            elif word == "AS" and not depth:
                seen_as = True
        return False

    def _is_shadowed(self, place: int, end: int) -> bool:
        """Whether a word is a parameter of a lambda function: where it is declared, or behind that."""
        name = self.tokens[place].name.casefold()
        self._shadowed = [(until, known) for until, known in self._shadowed if place < until]
        if any(known == name for _, known in self._shadowed):
            return True
        arrow = place + 1
        if self._upper(place - 1) in ("(", ","):
            # x -> ..., or (x, y) -> ...
            while arrow + 1 < end and self._upper(arrow) == "," and self.tokens[arrow + 1].is_name:
                arrow += 2
            arrow += self._upper(arrow) == ")" and self._upper(arrow + 1) == "->"
        if self._upper(arrow) != "->":
            return False
        self._shadowed.append((self._closing(arrow, end), name))
        return True

    def _closing(self, place: int, end: int) -> int:
        """The place of the bracket that closes the one around a place."""
        depth = 0
        for after in range(place, end):
            word = self._upper(after)
            if word in ("(", "["):
                depth += 1
            elif word in (")", "]"):
                depth -= 1
                if depth < 0:
                    return after
        return end

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _arguments(self, name: int) -> tuple[list[tuple[int, int]], int]:
        """The arguments of a call whose name stands at a place, each from and to a place; and the place behind it."""
        begin, closing = name + 2, self._closing(name + 2, len(self.tokens))
        if closing == len(self.tokens):
            self._fail(f"{self.tokens[name].text}( does not end", "close it with )", self.tokens[name], ParseError)
        if begin == closing:
            return [], closing + 1
        found, depth = list[tuple[int, int]](), 0
        for place in range(begin, closing):
            word = self._upper(place)
            depth += (word in ("(", "[")) - (word in (")", "]"))
            if word == "," and not depth:
                found.append((begin, place))
                begin = place + 1
        return [*found, (begin, closing)], closing + 1

    def _offset(self, name: int, arguments: Sequence[tuple[int, int]], default: int) -> int:
        """The second argument of a navigation."""
        token = self.tokens[name]
        if not arguments or len(arguments) > 2 or arguments[0][0] == arguments[0][1]:
            self._fail(f"{token.text} takes an expression and a number of rows", f"write {token.text}(A.x, 2)", token)
        if len(arguments) == 1:
            return default
        begin, end = arguments[1]
        last = self.tokens[begin]
        if end - begin != 1 or last.kind is not Kind.NUMBER or not last.text.isdecimal() or int(last.text) >= 2**31:
            at = self.tokens[min(begin, len(self.tokens) - 1)]
            self._fail(f"the number of rows of {token.text} is no whole number", "write a literal, such as 2", at)
        return int(last.text)

    def _inner(self, begin: int, end: int, call: Token, move: int = 0) -> tuple[Value | None, Name | None]:
        """An argument over rows of one name: its value, None for their labels, and the name."""
        label = self._label_argument(begin, end)
        if label is not None:
            return None, label[0]
        tokens = self.tokens[begin:end]
        inner = _RowExpression(self.resolver, tokens, call)
        sql = inner.expression().sql
        self.unknown += inner.unknown
        if not inner.found and inner.unknown:
            self.resolver.column_number(Name(inner.unknown[0].name, inner.unknown[0].span))
        if not inner.found and call.upper not in _COUNTED_EVERYWHERE:
            hint = "name a column of the rows, as in A.x"
            self._fail(f"what {call.text} takes refers to no row", hint, call)
        each: tuple[str, ...] = ()
        if inner.labelled:
            if move:
                hint = f"write {call.text}(CLASSIFIER()) and {call.text} of the column, and what is made of them around"
                self._fail(f"{call.text} takes a label or values of columns, not both", hint, call, UnsupportedQuery)
            labels = zip(self.resolver.variables.values(), self._members(inner.name))
            each = tuple(
                _RowExpression(self.resolver, tokens, call, variable.name).expression().sql if is_asked else ""
                for variable, is_asked in labels
            )
        return Value(sql, move, each), inner.name

    def _label_argument(self, begin: int, end: int) -> tuple[Name | None] | None:
        """The name in an argument that is CLASSIFIER(name) and nothing else."""
        if self._upper(begin) != "CLASSIFIER" or self._upper(begin + 1) != "(":
            return None
        name, behind = self._classified(begin)
        return (name,) if behind == end else None

    def _classified(self, place: int) -> tuple[Name | None, int]:
        """The name in CLASSIFIER(name), and the place behind it."""
        arguments, behind = self._arguments(place)
        if not arguments:
            return None, behind
        (begin, end), *more = arguments
        token = self.tokens[begin]
        if more or end - begin != 1 or not token.is_name:
            self._fail(
                "CLASSIFIER takes a variable or nothing", "write CLASSIFIER() or CLASSIFIER(A)", self.tokens[place]
            )
        return Name(token.name, token.span), behind

    def _aggregated(self, place: int) -> _Aggregated:
        """The aggregate whose name stands at a place."""
        token, word = self.tokens[place], self._upper(place)
        arguments, behind = self._arguments(place)
        if self._upper(behind) == "FILTER":
            hint = f"write {word}(CASE WHEN condition THEN value END)"
            self._fail("FILTER is not known of rows of a match", hint, self.tokens[behind], UnsupportedQuery)
        if len(arguments) != 1 or arguments[0][0] == arguments[0][1]:
            self._fail(f"{token.text} takes one argument", f"write {token.text}(A.x)", token)
        begin, end = arguments[0]
        distinct = self._upper(begin) == "DISTINCT"
        begin += self._upper(begin) in ("DISTINCT", "ALL")
        if word == "COUNT" and (counted := self._counted(begin, end)) is not None:
            if distinct:
                hint = "count the distinct values of a column: COUNT(DISTINCT A.x)"
                self._fail("rows are not told apart as wholes", hint, self.tokens[begin - 1], UnsupportedQuery)
            return _Aggregated(COUNT, counted[0], None, behind)
        value, name = self._inner(begin, end, token)
        kind = COUNT if word == "COUNT" else _AGGREGATES.get(word, AVERAGE)
        # The least and the greatest value are what they are, however often they occur.
        distinct = distinct and kind not in (LEAST, GREATEST)
        if word == "COUNT" and not distinct:
            return _Aggregated(COUNT, name, None if value is None else value.is_there, behind)
        if value is None and kind not in (LIST, COUNT):
            # Of a label alone MIN and MAX compare texts, and the others are for Spark to refuse.
            labels = tuple(map(_quoted, (variable.name for variable in self.resolver.variables.values())))
            value = Value(labels[0], 0, labels)
        return _Aggregated(kind, name, value, behind, distinct)

    def _counted(self, begin: int, end: int) -> tuple[Name | None] | None:
        """The name in ``*`` or ``name.*``; None for anything else."""
        if end - begin == 1 and self._upper(begin) == "*":
            return (None,)
        token = self.tokens[begin]
        if end - begin == 3 and token.is_name and self._upper(begin + 1) == "." and self._upper(begin + 2) == "*":
            return (Name(token.name, token.span),)
        return None

    def _members(self, name: Name | None) -> tuple[bool, ...]:
        if name is None:
            return tuple(True for _ in self.resolver.variables)
        return self.resolver.members(name)


class _RowExpression(_Expression):
    """What FIRST, PREV or an aggregate takes: an expression over rows of one name."""

    def __init__(self, resolver: _Resolver, tokens: Sequence[Token], call: Token, label: str = "") -> None:
        super().__init__(resolver, tokens)
        self._call, self._label = call, label
        self.found, self.labelled = False, False
        self.name = None

    name: Name | None

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        self._refer(name, span)
        return column(number)

    def _refer(self, name: Name | None, span: tuple[int, int]) -> None:
        if self.found and (name and name.name.casefold()) != (self.name and self.name.name.casefold()):
            hint = "write one call for each of them"
            self.resolver.fail(f"{self._call.text} takes rows of one variable, and here are several", hint, span)
        self.found, self.name = True, name

    def call(self, begin: int) -> tuple[str, int]:
        token = self.tokens[begin]
        if token.upper == "CLASSIFIER":
            name, behind = self._classified(begin)
            self._refer(name, token.span)
            self.labelled = True
            return _quoted(self._label), behind
        hint = "FIRST and LAST may stand in PREV and NEXT, all others only in expressions around each other"
        return self._fail(f"{token.text} cannot stand in {self._call.text} like this", hint, token, UnsupportedQuery)


class _Measures(_Expression):
    """A measure: every reference is a slot."""

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        value = Value(column(number))
        return self.resolver.slot(Wanted(ROW, self._members(name), self._is_running(), value, span=span))

    def _is_running(self, word: str = "") -> bool:
        return word != "FINAL" and self.resolver.clause.output is not Output.ONE_ROW

    def call(self, begin: int) -> tuple[str, int]:
        prefix = self._upper(begin) if self._upper(begin) in ("RUNNING", "FINAL") else ""
        place = begin + bool(prefix)
        token, word = self.tokens[place], self._upper(place)
        if self._upper(place + 1) != "(":
            self._fail(f"{token.text} is not called", f"write {token.text}(...)", token, ParseError)
        if prefix and word in ("PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER"):
            hint = f"write {prefix} before FIRST, LAST or an aggregate"
            self._fail(f"{prefix} cannot stand before {token.text}", hint, self.tokens[begin])
        running = self._is_running(prefix)
        if word == "MATCH_NUMBER":
            arguments, behind = self._arguments(place)
            if arguments:
                self._fail("MATCH_NUMBER takes nothing", "write MATCH_NUMBER()", token)
            return self.resolver.slot(Wanted(NUMBER)), behind
        if word == "CLASSIFIER":
            name, behind = self._classified(place)
            return self.resolver.slot(Wanted(ROW, self._members(name), running)), behind
        if word in _PHYSICAL or word in _LOGICAL:
            return self._navigation(place, running)
        return self._aggregate(place, running)

    def _navigation(self, place: int, running: bool) -> tuple[str, int]:
        move, logical, arguments, behind = _navigated(self, place)
        begin, end = arguments[0]
        first, offset = False, 0
        call = self.tokens[place]
        if logical is not None:
            call = self.tokens[logical]
            if logical != place:
                running = self._is_running(self._upper(logical - 1))
            first = call.upper == "FIRST"
            inner, _ = self._arguments(logical)
            offset = self._offset(logical, inner, 0)
            begin, end = inner[0]
        value, name = self._inner(begin, end, call, move)
        moved = move if value is None else 0
        return self.resolver.slot(Wanted(ROW, self._members(name), running, value, first, offset, move=moved)), behind

    def _aggregate(self, place: int, running: bool) -> tuple[str, int]:
        found = self._aggregated(place)
        span = (self.tokens[place].start, self.tokens[found.behind - 1].end)
        members = self._members(found.name)
        wanted = Wanted(found.kind, members, running, found.value, distinct=found.distinct, span=span)
        return self.resolver.slot(wanted), found.behind


def _quoted(label: str) -> str:
    """A label as a constant of SQL."""
    return "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _navigated(reader: _Expression, place: int) -> tuple[int, int | None, list[tuple[int, int]], int]:
    """What a navigation is: how many rows to move, where FIRST or LAST stands, its arguments, the place behind it."""
    word = reader._upper(place)
    arguments, behind = reader._arguments(place)
    if word in _LOGICAL:
        return 0, place, arguments or [(place, place)], behind
    rows = reader._offset(place, arguments, 1)
    move = -rows if word == "PREV" else rows
    begin, end = arguments[0]
    inner = begin + (reader._upper(begin) in ("RUNNING", "FINAL"))
    if reader._upper(inner) in _LOGICAL and reader._upper(inner + 1) == "(" and reader._arguments(inner)[1] == end:
        return move, inner, arguments, behind
    return move, None, arguments, behind


class _Condition(_Expression):
    """A condition of DEFINE: the part that Spark evaluates, and the one that depends on the match."""

    def __init__(self, resolver: _Resolver, tokens: Sequence[Token], variable: int, name: str) -> None:
        super().__init__(resolver, tokens)
        self._variable, self._name = variable, name
        # What the SQL that is being written looks at: rows (None is the one that is tested), or a total of several.
        self._rows: set[Bound | Extreme | None] = set()
        self._total: Total | None = None
        # Whether rows are missing in the SQL that is being written, or which variable they are bound to if it matters.
        self._absent, self._label, self._labelled = False, "", False

    def parts(self) -> tuple[Expression | None, Tree | None]:
        """The condition as two that must both hold, of which one may be missing."""
        ranges = self._split(0, len(self.tokens), "AND")
        trees = [self._tree(begin, end) for begin, end in ranges]
        rows = [tree for tree in trees if isinstance(tree, Cell) and tree.at is None]
        others = tuple(tree for tree in trees if not (isinstance(tree, Cell) and tree.at is None))
        span = (self.tokens[0].start, self.tokens[-1].end)
        expression = Expression(" AND ".join(f"({tree.sql})" for tree in rows), span, tuple(self.unknown))
        if len(rows) == len(trees):
            expression = attrs.evolve(expression, sql=self._sql(0, len(self.tokens)))
        return expression if rows else None, _joined("AND", others, span) if others else None

    # -- what the SQL looks at -----------------------------------------------------------------------------------------

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        return self._cell(self._bound(name, False, 0), column(number))

    def _bound(self, name: Name | None, first: bool, offset: int) -> Bound | None:
        """The row that FIRST or LAST means; None if it is the one that is tested, whatever was bound before."""
        members = self._members(name)
        is_own = members[self._variable] and not first and not offset
        return None if is_own else Bound(members, first, offset)

    def _cell(self, row: Bound | Extreme | None, sql: str) -> str:
        self._rows.add(row)
        return self._cell_without_row(sql) if self._absent else sql

    def _cell_without_row(self, sql: str) -> str:
        """The SQL for NULL of the type of an expression."""
        return f"(CASE WHEN FALSE THEN {sql} END)"

    def call(self, begin: int) -> tuple[str, int]:
        token, word = self.tokens[begin], self._upper(begin)
        if word == "FINAL":
            self._refuse_final(token)
        place = begin + (word == "RUNNING")
        token, word = self.tokens[place], self._upper(place)
        if self._upper(place + 1) != "(":
            self._fail(f"{token.text} is not called", f"write {token.text}(...)", token, ParseError)
        if word == "CLASSIFIER":
            name, behind = self._classified(place)
            return self._label_of(self._bound(name, False, 0)), behind
        if word == "MATCH_NUMBER":
            return self._match_number(place)
        if word in _PHYSICAL or word in _LOGICAL:
            return self._navigation(place)
        return self._aggregate(place)

    def _label_of(self, row: Bound | None) -> str:
        """The SQL for the label of a row."""
        if row is None:
            return _quoted(self._name)
        self._labelled = True
        return self._cell(row, _quoted(self._label))

    def _match_number(self, place: int) -> tuple[str, int]:
        arguments, behind = self._arguments(place)
        token = self.tokens[place]
        if arguments:
            self._fail("MATCH_NUMBER takes nothing", "write MATCH_NUMBER()", token)
        self._total = Total(NUMBER, (), "", token.span)
        return "total", behind

    def _refuse_final(self, token: Token) -> NoReturn:
        self._fail("FINAL cannot stand in DEFINE", "the match is not final while rows are tested; leave it out", token)

    def _refuse(self, what: str, span: tuple[int, int]) -> NoReturn:
        hint = (
            "what brings several rows together may be AND, OR, NOT, IS NULL, IN, BETWEEN, comparisons, + - * / %, ABS;"
            " what looks at a single row, anything"
        )
        self.resolver.fail(
            f"the condition of {self._name} {what}, which is not known there", hint, span, UnsupportedQuery
        )

    def _navigation(self, place: int) -> tuple[str, int]:
        move, logical, arguments, behind = _navigated(self, place)
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
        sql = f"({value.sql})" if not move else self.resolver.moved_value(value)
        return self._cell(self._bound(name, first, offset), sql), behind

    def _bound_or_tested(self, name: Name | None, first: bool, offset: int, move: int = 0) -> Bound | None:
        """As :meth:`_bound`; the tested row is the last one that is bound if its neighbour is looked at."""
        row = self._bound(name, first, offset)
        if not move:
            return row
        everyone = tuple(True for _ in self.resolver.variables)
        return Bound(everyone, False, 0, move) if row is None else attrs.evolve(row, move=move)

    def _of_label(self, value: Value, row: Bound | None) -> str:
        """The SQL for a value that depends on the variable of a row."""
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
        """The tree of a part of the condition: a cell if it looks at one row only."""
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
        """The SQL of a part of the condition, and what it looks at."""
        self._rows, self._total, self._labelled = set(), None, False
        return self._sql(begin, end), self._rows, self._total

    @property
    def _labels(self) -> list[str]:
        return [variable.name for variable in self.resolver.variables.values()]

    def _sql_of_label(self, begin: int, end: int, label: str) -> str:
        """The SQL of a part where the row that it looks at is bound to a variable."""
        known = len(self.unknown)
        self._label = label
        sql = self._sql(begin, end)
        self._label = ""
        del self.unknown[known:]
        return sql

    def _sql_without_row(self, begin: int, end: int, present: str) -> str:
        """The SQL of a part where there is no row to look at; empty for a column alone, which is NULL then."""
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
        depths = list(self._outermost(begin, end))
        return (
            self._predicate(depths, begin, end, span)
            or self._binary(depths, begin, end, span, ("+", "-", "||", "&", "|", "^"))
            or self._binary(depths, begin, end, span, ("*", "/", "%", "DIV"))
            or self._unary(begin, end, span)
        )

    def _predicate(self, places: Sequence[int], begin: int, end: int, span: tuple[int, int]) -> Tree | None:
        found = [place for place in places if self._upper(place) in ("IS", "IN", "BETWEEN", *_COMPARED, *_OPAQUE)]
        if not found:
            return None
        place = found[-1]
        word = self._upper(place)
        negated = self._upper(place - 1) == "NOT"
        left = (begin, place - negated)
        tree: Tree | None = None
        if word in _COMPARED:
            return Operation(_COMPARED[word], (self._tree(*left), self._tree(place + 1, end)), span)
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
        """The last operator of some, as they are applied from left to right; a sign is none."""
        signs = ("+", "-", "*", "/", "%", "||", "&", "|", "^", "DIV", "~")
        for place in reversed(places):
            word = self._upper(place)
            if word in operators and place > begin and self._upper(place - 1) not in signs:
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
        """The places of the tokens that stand in no bracket and no CASE."""
        depth = 0
        for place in range(begin, end):
            # A field may be called like a keyword.
            word = "" if self._upper(place - 1) == "." else self._upper(place)
            depth -= word in (")", "]", "END")
            if not depth:
                yield place
            depth += word in ("(", "[", "CASE")

    def _split(self, begin: int, end: int, word: str) -> list[tuple[int, int]]:
        """The parts between AND, or OR, that bind no closer; the AND of a BETWEEN is none."""
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


def _joined(operator: str, operands: tuple[Tree, ...], span: tuple[int, int]) -> Tree:
    """Operands of AND, or OR, as operations of two."""
    tree = operands[0]
    for operand in operands[1:]:
        tree = Operation(operator, (tree, operand), span)
    return tree
