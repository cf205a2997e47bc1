"""Splits the expressions of a clause into what Spark evaluates for each row, and what is known of matches only.

Expressions are Spark's SQL and stay so. Only references to rows of the match, such as ``FIRST(A.price)``, are taken out
of the tokens: each becomes a slot, which the matcher fills with the value of an expression at some row or with an
aggregate, and the name of the slot stands for it in what Spark evaluates afterwards. Physical neighbours,
``PREV(price)``, are Spark's own ``lag`` and ``lead``.

Names of columns that are made here have a blank in them, so that no word of the user's can be one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from cetdsl.ir.rows import COUNT, GREATEST, LEAST, LIST, NUMBER, ROW, SUM
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
from cetdsl.rows.tokens import Kind, Token, quote

_PHYSICAL = {"PREV": "lag", "NEXT": "lead"}
_LOGICAL = {"FIRST", "LAST"}
#: Beside these and COUNT, an average, which is a sum and a count.
_AGGREGATES = {"SUM": SUM, "MIN": LEAST, "MAX": GREATEST, "ARRAY_AGG": LIST, "COLLECT_LIST": LIST}
AVERAGE = "average"
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


@attrs.frozen
class Value:
    """An expression over one row, as SQL over the columns ``col 0``, ``col 1``, ...

    ``move`` is -2 for the row two before the one that is asked about, 1 for the next one.
    """

    sql: str
    move: int = 0


@attrs.frozen
class Wanted:
    """A slot: like :class:`~cetdsl.ir.rows.Slot`, with the value itself; None is the label, or all rows of a COUNT."""

    kind: str
    members: tuple[bool, ...] = ()
    running: bool = False
    value: Value | None = None
    first: bool = False
    offset: int = 0
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
    measures : tuple of Expression
        They are SQL over ``slot n``.
    slots : tuple of Wanted
    moved : tuple of Value
        Values of other rows that conditions look at, as ``moved n``.
    skip_members : tuple of bool
    """

    clause: MatchClause
    columns: tuple[str, ...]
    partition_by: tuple[int, ...]
    order_by: tuple[int, ...]
    variables: tuple[str, ...]
    conditions: Mapping[int, Expression]
    measures: tuple[Expression, ...]
    slots: tuple[Wanted, ...]
    moved: tuple[Value, ...]
    skip_members: tuple[bool, ...]


def column(number: int) -> str:
    """The SQL that names a column of the DataFrame."""
    return quote(f"col {number}")


def slot_name(number: int) -> str:
    """The SQL that names a slot."""
    return quote(f"slot {number}")


def moved_name(number: int) -> str:
    """The SQL that names a value of another row."""
    return quote(f"moved {number}")


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
        conditions: dict[int, Expression] = {}
        for definition in clause.definitions:
            name = Name(definition.variable, definition.span)
            number = self.numbers.get(definition.variable.casefold())
            if number is None:
                self._unknown_variable(name, "the pattern has no variable", self.variables)
            if number in conditions:
                self.fail(f"the variable {name.name!r} is defined twice", "join the conditions with AND", name.span)
            reader = _Condition(self, definition.tokens, number, name.name)
            conditions[number] = reader.expression()
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
            measures,
            tuple(self.slots),
            tuple(self.moved),
            skip,
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


def _has_exclusion(node: RowPattern) -> bool:
    if isinstance(node, Exclusion):
        return True
    if isinstance(node, Repetition):
        return _has_exclusion(node.body)
    return not isinstance(node, (Variable, Anchor)) and any(map(_has_exclusion, node.parts))


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
        if word in ("SELECT", "OVER"):
            what = "a sub-query" if word == "SELECT" else "a window function"
            self._fail(
                f"{what} cannot stand in MATCH_RECOGNIZE", "compute it as a column first", token, UnsupportedQuery
            )
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

    def _inner(self, begin: int, end: int, call: Token) -> tuple[str | None, Name | None]:
        """An argument over rows of one name: its SQL, None for their labels, and the name."""
        label = self._label_argument(begin, end)
        if label is not None:
            return None, label[0]
        inner = _RowExpression(self.resolver, self.tokens[begin:end], call)
        sql = inner.expression().sql
        self.unknown += inner.unknown
        if not inner.found:
            hint = "name a column of the rows, as in A.x"
            self._fail(f"what {call.text} takes refers to no row", hint, call)
        return sql, inner.name

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

    def _members(self, name: Name | None) -> tuple[bool, ...]:
        if name is None:
            return tuple(True for _ in self.resolver.variables)
        return self.resolver.members(name)


class _RowExpression(_Expression):
    """What FIRST, PREV or an aggregate takes: an expression over rows of one name."""

    def __init__(self, resolver: _Resolver, tokens: Sequence[Token], call: Token) -> None:
        super().__init__(resolver, tokens)
        self._call = call
        self.found, self.name = False, None

    name: Name | None

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        if self.found and (name and name.name.casefold()) != (self.name and self.name.name.casefold()):
            hint = "write one call for each of them"
            self.resolver.fail(f"{self._call.text} takes rows of one variable, and here are several", hint, span)
        self.found, self.name = True, name
        return column(number)

    def call(self, begin: int) -> tuple[str, int]:
        token = self.tokens[begin]
        hint = "FIRST and LAST may stand in PREV and NEXT, all others only in expressions around each other"
        self._fail(f"{token.text} cannot stand in {self._call.text} like this", hint, token, UnsupportedQuery)


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
        sql, name = self._inner(begin, end, call)
        if sql is None and move:
            hint = "write FIRST or LAST of CLASSIFIER()"
            self._fail(f"{call.text} cannot look at labels", hint, call, UnsupportedQuery)
        value = None if sql is None else Value(sql, move)
        return self.resolver.slot(Wanted(ROW, self._members(name), running, value, first, offset)), behind

    def _aggregate(self, place: int, running: bool) -> tuple[str, int]:
        token, word = self.tokens[place], self._upper(place)
        arguments, behind = self._arguments(place)
        if self._upper(behind) == "FILTER":
            hint = f"write {word}(CASE WHEN condition THEN value END)"
            self._fail("FILTER is not known of rows of a match", hint, self.tokens[behind], UnsupportedQuery)
        if len(arguments) != 1 or arguments[0][0] == arguments[0][1]:
            self._fail(f"{token.text} takes one argument", f"write {token.text}(A.x)", token)
        begin, end = arguments[0]
        if self._upper(begin) == "DISTINCT":
            hint = "write array_distinct(ARRAY_AGG(A.x)) and a function of it"
            self._fail("DISTINCT is not known of rows of a match", hint, self.tokens[begin], UnsupportedQuery)
        begin += self._upper(begin) == "ALL"
        span = (token.start, self.tokens[behind - 1].end)
        if word == "COUNT" and (counted := self._counted(begin, end)) is not None:
            return self.resolver.slot(Wanted(COUNT, self._members(counted[0]), running, span=span)), behind
        sql, name = self._inner(begin, end, token)
        members = self._members(name)
        if word == "COUNT":
            value = None if sql is None else Value(f"({sql}) IS NOT NULL")
            return self.resolver.slot(Wanted(COUNT, members, running, value, span=span)), behind
        kind = AVERAGE if word in ("AVG", "MEAN") else _AGGREGATES[word]
        if sql is None and kind != LIST:
            hint = "write ARRAY_AGG(CLASSIFIER()) and a function of it"
            self._fail(f"{token.text} cannot look at labels", hint, token, UnsupportedQuery)
        value = None if sql is None else Value(sql)
        return self.resolver.slot(Wanted(kind, members, running, value, span=span)), behind

    def _counted(self, begin: int, end: int) -> tuple[Name | None] | None:
        """The name in ``*`` or ``name.*``; None for anything else."""
        if end - begin == 1 and self._upper(begin) == "*":
            return (None,)
        token = self.tokens[begin]
        if end - begin == 3 and token.is_name and self._upper(begin + 1) == "." and self._upper(begin + 2) == "*":
            return (Name(token.name, token.span),)
        return None


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
    """A condition of DEFINE, as far as it depends on the row that is tested and its neighbours."""

    def __init__(self, resolver: _Resolver, tokens: Sequence[Token], variable: int, name: str) -> None:
        super().__init__(resolver, tokens)
        self._variable, self._name = variable, name

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        self._require_own(name, span)
        return column(number)

    def _require_own(self, name: Name | None, span: tuple[int, int]) -> None:
        """Raises if the last row of this name may be another one than the row that is tested."""
        if not self._members(name)[self._variable]:
            self._depends_on_match(span)

    def _depends_on_match(self, span: tuple[int, int]) -> NoReturn:
        self.resolver.fail(
            f"the condition of {self._name} depends on rows that the match has bound before, which is not supported"
            " yet",
            f"a condition may use the row itself, as in {self._name}.x, and its neighbours by PREV and NEXT",
            span,
            UnsupportedQuery,
        )

    def call(self, begin: int) -> tuple[str, int]:
        token, word = self.tokens[begin], self._upper(begin)
        if word == "FINAL":
            hint = "the match is not final while its rows are tested; leave out FINAL"
            self._fail("FINAL cannot stand in DEFINE", hint, token)
        place = begin + (word == "RUNNING")
        token, word = self.tokens[place], self._upper(place)
        if self._upper(place + 1) != "(":
            self._fail(f"{token.text} is not called", f"write {token.text}(...)", token, ParseError)
        if word == "CLASSIFIER":
            name, behind = self._classified(place)
            self._require_own(name, token.span)
            return "'" + self._name.replace("\\", "\\\\").replace("'", "\\'") + "'", behind
        if word not in _PHYSICAL and word not in _LOGICAL:
            self._depends_on_match(token.span)
        move, logical, arguments, behind = _navigated(self, place)
        begin, end = arguments[0]
        call = token
        if logical is not None:
            call = self.tokens[logical]
            if self._upper(logical - 1) == "FINAL":
                hint = "the match is not final while its rows are tested; leave out FINAL"
                self._fail("FINAL cannot stand in DEFINE", hint, self.tokens[logical - 1])
            inner, _ = self._arguments(logical)
            if self._offset(logical, inner, 0) or call.upper == "FIRST":
                self._depends_on_match((token.start, self.tokens[behind - 1].end))
            begin, end = inner[0]
        sql, name = self._inner(begin, end, call)
        self._require_own(name, (token.start, self.tokens[behind - 1].end))
        if sql is None:
            self._depends_on_match(token.span)
        value = Value(sql, move)
        return (f"({sql})" if not move else self.resolver.moved_value(value)), behind
