"""Reads the expressions of a clause and writes them as SQL over the columns of a row.

Expressions are Spark's SQL, and their tokens are kept as they are. Only references to rows of the match, such as
``FIRST(A.price)``, are replaced. What replaces them differs between measures (:mod:`~cetdsl.rows.measures`) and
conditions (:mod:`~cetdsl.rows.conditions`). Physical neighbours, ``PREV(price)``, become Spark's ``lag`` and ``lead``.
A *place* is the number of a token in the expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import attrs

from cetdsl.errors import CetdslError, ParseError, ResolutionError, UnsupportedQuery
from cetdsl.ir.rows import COUNT, GREATEST, LEAST, LIST
from cetdsl.rows.fields import Fields
from cetdsl.rows.nodes import Name
from cetdsl.rows.resolved import AVERAGE, Expression, Value, column
from cetdsl.rows.scope import Scope
from cetdsl.rows.tokens import IN_BACKQUOTES, Kind, Token, arguments_of, closing_of, end_of_type, word_at
from cetdsl.rows.words import (
    AGGREGATES,
    BEFORE_OPERAND,
    BEHIND_OPERAND,
    COLUMNS_AS_WELL,
    COUNTED_EVERYWHERE,
    ELSEWHERE,
    GENERATORS,
    LOGICAL,
    NAVIGATION,
    OTHER_AGGREGATES,
    SCHEMAS_OF_VARIABLES,
    SYNTAX,
    TAKE_FOR,
    TAKE_TYPE,
    TAKE_UNIT,
    TYPED,
    UNITS,
)


@attrs.frozen
class Aggregated:
    """An aggregate over the rows that are bound to ``name``, a variable or subset (None: all rows of the match).

    ``value`` is the value that is aggregated; it is None where COUNT counts rows, and where labels are aggregated.
    ``behind`` is the place of the token after the aggregate.
    """

    kind: str
    name: Name | None
    value: Value | None
    behind: int
    distinct: bool = False


class ExpressionReader:
    """Reads the tokens of an expression, and writes the SQL that Spark evaluates."""

    def __init__(self, scope: Scope, tokens: Sequence[Token]) -> None:
        self.scope, self.tokens, self._fields = scope, tokens, Fields(tokens)
        self.unknown: list[Token] = []
        # The parameters of lambda functions: the first place where each is known, the one after the last, and its name.
        self._parameters: set[tuple[int, int, str]] = set()

    def expression(self) -> Expression:
        """Returns the whole expression."""
        sql = self._sql(0, len(self.tokens))
        return Expression(sql, (self.tokens[0].start, self.tokens[-1].end), tuple(self.unknown))

    # Subclasses say what replaces a reference.

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        """Returns the SQL for a column of the rows that are bound to ``name`` (None: to any variable)."""
        raise NotImplementedError

    def call(self, begin: int) -> tuple[str, int]:
        """Returns the SQL for a call that looks at rows of the match, and the place after it."""
        raise NotImplementedError

    def _fail(self, message: str, hint: str, token: Token, kind: type[CetdslError] = ResolutionError) -> NoReturn:
        self.scope.fail(message, hint, token.span, kind)

    def _sql(self, begin: int, end: int) -> str:
        parts, named = list[str](), dict[int, str]()
        place = begin
        while place < end:
            text, behind = self._part(place, end)
            is_replaced = text != self._text(place, behind)
            field = self._fields.of(place, behind) if is_replaced else None
            if field is not None and field.end is not None:
                named[field.end] = field.alias
            elif field is not None:
                text = field.within(text)
            parts.append(text)
            if behind in named:
                parts.append(named.pop(behind))
            place = behind
        return " ".join(parts)

    def _text(self, begin: int, end: int) -> str:
        """Returns some tokens as they were written."""
        return " ".join(token.text for token in self.tokens[begin:end])

    def _upper(self, place: int) -> str:
        return word_at(self.tokens, place)

    def _part(self, place: int, end: int) -> tuple[str, int]:
        token, word = self.tokens[place], self._upper(place)
        behind = self._upper(place + 1) if place + 1 < end else ""
        if word == "OVER":
            hint = "compute it as a column first"
            self._fail("a window function cannot stand in MATCH_RECOGNIZE", hint, token, UnsupportedQuery)
        if word == "(" and self._begins_query(place, end):
            closing = self._closing(place + 1, end)
            return self._text(place, closing + 1), closing + 1
        if word == "::":
            behind_type = end_of_type(self.tokens, place + 1)
            return self._text(place, behind_type), behind_type
        if word == "*" and (place == 0 or self._upper(place - 1) in ("(", ",")):
            self._fail("* stands for whole rows", "only COUNT takes it; name the columns", token, UnsupportedQuery)
        if not token.is_name or self._upper(place - 1) in (".", ":", "AS") or behind == "=>" or self._is_field(place):
            # No name of a column: a field, an alias or type after AS, or the name of an argument.
            return token.text, place + 1
        if token.kind is Kind.WORD and word in ("RUNNING", "FINAL") and self._begins_operand(place + 1, end):
            if self._upper(place + 1) not in NAVIGATION:
                hint = f"write {word} before FIRST, LAST or an aggregate, as in {word} LAST(A.x)"
                self._fail(f"{word} cannot stand before {self.tokens[place + 1].text}", hint, token)
            return self.call(place)
        if token.kind is Kind.WORD and behind == "(" and word in NAVIGATION:
            return self.call(place)
        called = self._called(place, end)
        if called is not None:
            if self._upper(place - 1) not in ("LIKE", "ILIKE"):  # as in LIKE ANY ('a%', 'b%')
                self._refuse_function(self.tokens[called])
            return self._text(place, called + 1), called + 1
        if self._is_parameter(place, end):
            return token.text, place + 1
        name = Name(token.name, token.span)
        if behind == "." and place + 2 < end and token.name.lower() in self.scope.groups:
            if self.tokens[place + 2].upper == "*":
                self._fail(f"{token.text}.* stands for whole rows", "only COUNT takes them", token, UnsupportedQuery)
            if self.tokens[place + 2].is_name:
                last = self.tokens[place + 2]
                number = self.scope.column_number(Name(last.name, last.span))
                return self.reference(name, number, (token.start, last.end)), place + 3
        if self._is_syntax(place, end):
            return token.text, place + 1
        column_number = self.scope.find_column(token.name, token.span)
        if column_number is not None:
            return self.reference(None, column_number, token.span), place + 1
        if behind == "." or token.kind is Kind.QUOTED:
            if behind == "." and token.name.lower() in SCHEMAS_OF_VARIABLES:
                return token.text, place + 1  # session.x, a variable of the session
            if behind == ".":
                self.scope.members(name)
            self.scope.column_number(name)
        self.unknown.append(token)
        return token.text, place + 1

    def _begins_operand(self, place: int, end: int) -> bool:
        """Whether a name at a place begins an operand, so that a word before it is none."""
        return place < end and self.tokens[place].is_name and self._upper(place) not in BEHIND_OPERAND

    def _is_field(self, place: int) -> bool:
        """Whether a word names the field of a struct before it."""
        return self._fields.are_named_by(place) and not self._is_syntax(place, len(self.tokens))

    def _begins_query(self, place: int, end: int) -> bool:
        """Whether a parenthesis begins a subquery: ``(SELECT ...)``, ``(FROM ...)``, ``(VALUES 1)``, ``(TABLE t)``."""
        word, following = self._upper(place + 1), self.tokens[place + 2] if place + 2 < end else None
        if word == "FROM":
            is_source = following is not None and (following.kind is not Kind.SYMBOL or following.text == "(")
            return is_source and self._upper(place - 1) != "TRIM" and not self._is_operand(place + 1, end)
        if word in ("VALUES", "TABLE") and following is not None:
            return following.kind is not Kind.SYMBOL or (word == "VALUES" and following.text == "(")
        return word in ("SELECT", "WITH")

    def _called(self, place: int, end: int) -> int | None:
        """Returns the place of the last word of a function's name, as in ``system.builtin.abs(x)``; None: no call."""
        while self._upper(place + 1) == "." and place + 2 < end and self.tokens[place + 2].is_name:
            place += 2
        return place if place + 1 < end and self._upper(place + 1) == "(" else None

    def _refuse_function(self, token: Token) -> None:
        """Raises if a function is called that aggregates, returns several rows, or has to be read as a navigation."""
        name = token.name.upper()
        if name in NAVIGATION:
            message = f"{token.text} is not known as a function of rows where it is quoted, or named with its schema"
            self._fail(message, f"write {name}(...)", token, UnsupportedQuery)
        if name in OTHER_AGGREGATES:
            hint = "write a function of ARRAY_AGG(...) for it, such as array_distinct or aggregate"
            self._fail(f"the aggregate {token.text} is not known of rows of a match", hint, token, UnsupportedQuery)
        if name in ELSEWHERE:
            self._fail(f"{token.text} is not known in MATCH_RECOGNIZE", ELSEWHERE[name], token, UnsupportedQuery)
        if name in GENERATORS:
            message = f"{token.text} gives any number of rows for one, and a clause takes one value"
            self._fail(message, GENERATORS[name], token, UnsupportedQuery)

    def _is_syntax(self, place: int, end: int) -> bool:
        """Whether a word is part of Spark's syntax here, and not the name of a column."""
        token, word = self.tokens[place], self._upper(place)
        if token.kind is Kind.QUOTED:
            return False
        if word in SYNTAX:
            return not self._is_operand(place, end)
        if word in TYPED and place + 1 < end and self.tokens[place + 1].kind is Kind.STRING:
            return True
        if word in UNITS and (self._in_interval(place) or self._is_unit_of_call(place)):
            return True
        if self._is_first_argument(place, {"EXTRACT"}) or self._upper(place - 1) == "COLLATE":
            return True
        if word in ("FOR", "PLACING") and self._upper(place - 1) not in ("(", ","):
            return self._upper(self._fields.openings[place] - 1) in TAKE_FOR
        return self._in_type(place)

    def _is_operand(self, place: int, end: int) -> bool:
        """Whether a word of syntax names a column, because nothing else can stand there: ``end > 1``, ``LAST(to)``."""
        token, word = self.tokens[place], self._upper(place)
        if word not in COLUMNS_AS_WELL or token.kind is not Kind.WORD or not self._is_operand_due(place, end):
            return False
        behind = self.tokens[place + 1] if place + 1 < end else None
        if behind is not None and behind.kind is not Kind.SYMBOL and behind.upper not in BEHIND_OPERAND:
            return False
        return self.scope.find_column(token.name, token.span) is not None

    def _is_operand_due(self, place: int, end: int) -> bool:
        """Whether what stands before a place is to be followed by an operand."""
        if place == 0:
            return True
        before = self.tokens[place - 1]
        if before.kind is Kind.SYMBOL:
            is_of_trim = before.text == "(" and self._upper(place - 2) == "TRIM" and self._upper(place) == "FROM"
            return before.text not in (")", "]") and not is_of_trim
        if before.upper == "DISTINCT" and self._upper(place - 2) != "(":
            return False  # that of IS DISTINCT FROM
        return before.kind is Kind.WORD and before.upper in BEFORE_OPERAND and not self._is_operand(place - 1, end)

    def _in_interval(self, place: int) -> bool:
        """Whether a word is a unit of INTERVAL: ``INTERVAL '1' DAY``, ``INTERVAL 1 day 2 hours``."""
        place -= 1
        while place >= 0:
            token = self.tokens[place]
            if token.upper == "INTERVAL":
                return True
            is_sign = token.upper in ("-", "+") and self._is_literal(place + 1)
            if not (is_sign or self._is_literal(place) or token.upper == "TO" or token.upper in UNITS):
                return False
            place -= 1
        return False

    def _is_literal(self, place: int) -> bool:
        return self.tokens[place].kind in (Kind.NUMBER, Kind.STRING)

    def _is_unit_of_call(self, place: int) -> bool:
        """Whether a word is the unit of a call: ``date_add(day, 1, x)``, but not ``date_add(day, 1)``."""
        return self._is_first_argument(place, TAKE_UNIT) and len(self._arguments(place - 2)[0]) == 3

    def _is_first_argument(self, place: int, functions: set[str]) -> bool:
        return self._upper(place - 1) == "(" and self._upper(place - 2) in functions

    def _in_type(self, place: int) -> bool:
        """Whether a word follows the AS of a CAST."""
        opening = self._fields.openings[place]
        if self._upper(opening - 1) not in TAKE_TYPE:
            return False
        return any(
            self._upper(before) == "AS" and self._fields.openings[before] == opening
            for before in range(opening + 1, place)
        )

    def _is_parameter(self, place: int, end: int) -> bool:
        """Whether a word is a parameter of a lambda function: where it is declared, or in the body."""
        name = self.tokens[place].name.lower()
        if any(begin <= place < until and known == name for begin, until, known in self._parameters):
            return True
        arrow = self._arrow(place, end)
        if arrow is None:
            return False
        self._parameters.add((place, self._closing(arrow, end, ","), name))
        return True

    def _arrow(self, place: int, end: int) -> int | None:
        """Returns the place of the arrow if a word is a parameter before it, in ``x -> ...`` or ``(x, y) -> ...``."""
        behind = place + 1
        if self._upper(behind) == "->":
            return behind
        if self._upper(place - 1) not in ("(", ","):
            return None
        while behind + 1 < end and self._upper(behind) == "," and self.tokens[behind + 1].is_name:
            behind += 2
        return behind + 1 if self._upper(behind) == ")" and self._upper(behind + 1) == "->" else None

    def _closing(self, place: int, end: int, *separators: str) -> int:
        """Returns the place of the bracket that closes those around a place, or of the first separator before it."""
        return closing_of(self.tokens, place, end, *separators)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _arguments(self, name: int) -> tuple[list[tuple[int, int]], int]:
        """Returns the arguments of a call, each as its first place and the one after its last, and the place after it.

        ``name`` is the place of the call's name.
        """
        closing = self._closing(name + 2, len(self.tokens))
        if closing == len(self.tokens):
            self._fail(f"{self.tokens[name].text}( does not end", "close it with )", self.tokens[name], ParseError)
        return arguments_of(self.tokens, name + 1), closing + 1

    def _offset(self, name: int, arguments: Sequence[tuple[int, int]], default: int) -> int:
        """Returns the second argument of a navigation, a number of rows."""
        token = self.tokens[name]
        if not arguments or len(arguments) > 2 or arguments[0][0] == arguments[0][1]:
            self._fail(f"{token.text} takes an expression and a number of rows", f"write {token.text}(A.x, 2)", token)
        if len(arguments) == 1:
            return default
        begin, end = arguments[1]
        last = self.tokens[begin]
        if end - begin != 1 or last.kind is not Kind.NUMBER or not last.text.isdecimal() or int(last.text) >= 2**31:
            at = self.tokens[min(begin, len(self.tokens) - 1)]
            wrong = f"the number of rows of {token.text} is no whole number below 2^31"
            self._fail(wrong, "write a literal, such as 2", at)
        return int(last.text)

    def _inner(self, begin: int, end: int, call: Token, move: int = 0) -> tuple[Value | None, Name | None]:
        """Reads an argument over the rows of one name. Returns its value (None: the label of the row), and the name."""
        label = self._label_argument(begin, end)
        if label is not None:
            return None, label[0]
        tokens = self.tokens[begin:end]
        inner = _RowReader(self.scope, tokens, call)
        sql = inner.expression().sql
        self.unknown += inner.unknown
        if not inner.found and inner.unknown:
            self.scope.column_number(Name(inner.unknown[0].name, inner.unknown[0].span))
        if not inner.found and call.upper not in COUNTED_EVERYWHERE:
            is_quoted = len(tokens) == 1 and tokens[0].is_in_double_quotes
            hint = IN_BACKQUOTES if is_quoted else "name a column of the rows, as in A.x"
            self._fail(f"what {call.text} takes refers to no row", hint, call)
        each: tuple[str, ...] = ()
        if inner.labelled:
            if move:
                hint = f"write {call.text}(CLASSIFIER()) and {call.text} of the column, and what is made of them around"
                self._fail(f"{call.text} takes a label or values of columns, not both", hint, call, UnsupportedQuery)
            labels = zip(self.scope.variables.values(), self._members(inner.name))
            each = tuple(
                _RowReader(self.scope, tokens, call, variable.name).expression().sql if is_asked else ""
                for variable, is_asked in labels
            )
        return Value(sql, move, each), inner.name

    def _label_argument(self, begin: int, end: int) -> tuple[Name | None] | None:
        """Returns the name in an argument that is CLASSIFIER(name), as a tuple; None if it is anything else."""
        if self._upper(begin) != "CLASSIFIER" or self._upper(begin + 1) != "(":
            return None
        name, behind = self._classified(begin)
        return (name,) if behind == end else None

    def _classified(self, place: int) -> tuple[Name | None, int]:
        """Returns the name in CLASSIFIER(name), and the place after the call."""
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

    def _require_call(self, place: int) -> None:
        """Raises unless an opening parenthesis follows the word at a place."""
        token = self.tokens[place]
        if self._upper(place + 1) != "(":
            self._fail(f"{token.text} is not called", f"write {token.text}(...)", token, ParseError)

    def _behind_match_number(self, place: int) -> int:
        """Returns the place after MATCH_NUMBER()."""
        arguments, behind = self._arguments(place)
        if arguments:
            self._fail("MATCH_NUMBER takes nothing", "write MATCH_NUMBER()", self.tokens[place])
        return behind

    def _aggregated(self, place: int) -> Aggregated:
        """Reads the aggregate whose name is at a place."""
        token, word = self.tokens[place], self._upper(place)
        arguments, behind = self._arguments(place)
        if self._upper(behind) == "FILTER":
            hint = f"write {word}(CASE WHEN condition THEN value END)"
            self._fail("FILTER is not known of rows of a match", hint, self.tokens[behind], UnsupportedQuery)
        begin, end = arguments[0] if len(arguments) == 1 else (0, 0)
        modified = begin < end and self._upper(begin) in ("DISTINCT", "ALL")
        distinct = modified and self._upper(begin) == "DISTINCT"
        begin += modified
        if begin == end:
            self._fail(f"{token.text} takes one argument", f"write {token.text}(A.x)", token)
        if word == "COUNT" and (counted := self._counted(begin, end)) is not None:
            if distinct:
                hint = "count the distinct values of a column: COUNT(DISTINCT A.x)"
                self._fail("rows are not told apart as wholes", hint, self.tokens[begin - 1], UnsupportedQuery)
            return Aggregated(COUNT, counted[0], None, behind)
        value, name = self._inner(begin, end, token)
        kind = COUNT if word == "COUNT" else AGGREGATES.get(word, AVERAGE)
        # DISTINCT does not change the least and the greatest value.
        distinct = distinct and kind not in (LEAST, GREATEST)
        if word == "COUNT" and not distinct:
            return Aggregated(COUNT, name, None if value is None else value.is_there, behind)
        if value is None and kind not in (LIST, COUNT):
            # MIN and MAX of a label alone compare texts. Spark refuses SUM and AVG of a text.
            labels = tuple(map(quoted, (variable.name for variable in self.scope.variables.values())))
            value = Value(labels[0], 0, labels)
        return Aggregated(kind, name, value, behind, distinct)

    def _counted(self, begin: int, end: int) -> tuple[Name | None] | None:
        """Returns the name in ``*`` or ``name.*``, as a tuple; None for anything else."""
        if end - begin == 1 and self._upper(begin) == "*":
            return (None,)
        token = self.tokens[begin]
        if end - begin == 3 and token.is_name and self._upper(begin + 1) == "." and self._upper(begin + 2) == "*":
            return (Name(token.name, token.span),)
        return None

    def _members(self, name: Name | None) -> tuple[bool, ...]:
        if name is None:
            return tuple(True for _ in self.scope.variables)
        return self.scope.members(name)


class _RowReader(ExpressionReader):
    """Reads the argument of FIRST, PREV or an aggregate: an expression over rows of one name."""

    def __init__(self, scope: Scope, tokens: Sequence[Token], call: Token, label: str = "") -> None:
        super().__init__(scope, tokens)
        self._call, self._label = call, label
        self.found, self.labelled = False, False
        self.name = None

    name: Name | None

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        self._refer(name, span)
        return column(number)

    def _refer(self, name: Name | None, span: tuple[int, int]) -> None:
        if self.found and (name and name.name.lower()) != (self.name and self.name.name.lower()):
            hint = "write one call for each of them"
            self.scope.fail(f"{self._call.text} takes rows of one variable, and here are several", hint, span)
        self.found, self.name = True, name

    def call(self, begin: int) -> tuple[str, int]:
        token = self.tokens[begin]
        if token.upper == "CLASSIFIER":
            name, behind = self._classified(begin)
            self._refer(name, token.span)
            self.labelled = True
            return quoted(self._label), behind
        hint = "FIRST and LAST may stand in PREV and NEXT, all others only in expressions around each other"
        return self._fail(f"{token.text} cannot stand in {self._call.text} like this", hint, token, UnsupportedQuery)


def quoted(label: str) -> str:
    """Returns a label as a string constant of SQL."""
    return "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"


def navigated(reader: ExpressionReader, place: int) -> tuple[int, int | None, list[tuple[int, int]], int]:
    """Reads a navigation, as in ``PREV(LAST(A.x), 2)``.

    Returns the rows to move (-2), the place of FIRST or LAST (None: there is none), the arguments of the call at
    ``place``, and the place after it.
    """
    word = reader._upper(place)
    arguments, behind = reader._arguments(place)
    if word in LOGICAL:
        return 0, place, arguments or [(place, place)], behind
    rows = reader._offset(place, arguments, 1)
    move = -rows if word == "PREV" else rows
    begin, end = arguments[0]
    inner = begin + (reader._upper(begin) in ("RUNNING", "FINAL"))
    if reader._upper(inner) in LOGICAL and reader._upper(inner + 1) == "(" and reader._arguments(inner)[1] == end:
        return move, inner, arguments, behind
    return move, None, arguments, behind
