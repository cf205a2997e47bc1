"""Parse actions that build terms and predicates.

An expression is read as a flat chain of operands and operators, which :class:`_Chain` then builds by precedence: this
keeps the grammar free of backtracking and its nesting shallow. An action is called by pyparsing, with the text, the
place in it and the tokens of its rule.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import attrs
import pyparsing as pp

from cetdsl.aggregates.functions import FUNCTIONS, SPELLINGS
from cetdsl.errors import CetdslError, InvalidNode
from cetdsl.frontend.sase.tokens import DIGITS, checked, error_at
from cetdsl.pattern.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Length,
    Literal,
    Role,
    Unary,
    bind_attributes,
    joined,
    transform,
    with_attributes,
)
from cetdsl.pattern.intervals import read_interval
from cetdsl.pattern.text import ANY_NAME, COMPARISON, LEVELS, NEIGHBOURS, NOT, OR, SIGN, SUM

T = TypeVar("T")


@attrs.frozen
class Sign:
    """An operator with its place."""

    word: str
    at: int


@attrs.frozen
class Test:
    """``IS [NOT] NULL`` or ``[NOT] IN (...)``, which follow their operand."""

    function: str
    negated: bool
    items: tuple[Expr, ...]
    at: int


@attrs.frozen
class Bare(Expr):
    """A name alone: a variable inside COUNT, a column inside the condition of an event, else an error."""

    name: str
    at: int


@attrs.frozen
class Indexed(Attribute):
    """``a[i].x``, ``a[i-1].x`` or ``a[i+1].x`` with the name of its index, which a predicate has one of."""

    letter: str = attrs.field(kw_only=True)
    at: int = attrs.field(kw_only=True)


@attrs.frozen
class Equivalence(Expr):
    """``[a, b]``."""

    columns: tuple[str, ...]
    at: int


#: The values of the parameters of the text that is being read, and what to do about one that has none.
VALUES: ContextVar[tuple[Mapping[str, Literal], Callable[[str], str]]] = ContextVar("VALUES")


class _Chain:
    """Builds the tree of a flat chain of operands and operators by precedence."""

    def __init__(self, text: str, items: Iterable[Any]) -> None:
        self.text = text
        self.items = list(items)
        self.place = 0

    def peek(self) -> Any:
        return self.items[self.place] if self.place < len(self.items) else None

    def take(self) -> Any:
        self.place += 1
        return self.items[self.place - 1]

    def operand(self) -> Expr:
        item = self.take()
        if isinstance(item, Sign):
            return Unary(item.word, self.tree(NOT if item.word == "not" else SIGN))
        assert isinstance(item, Expr)
        return item

    def tree(self, floor: int = OR) -> Expr:
        left = self.operand()
        compared = False
        while (item := self.peek()) is not None:
            level = COMPARISON if isinstance(item, Test) else _SIGN_LEVELS[item.word]
            if level < floor:
                break
            if level == COMPARISON and compared:
                raise error_at(
                    self.text, item.at, "comparisons cannot be chained", "write a < b AND b < c instead of a < b < c"
                )
            left = self.combine(left, self.take(), level)
            compared = level == COMPARISON
        return left

    def combine(self, left: Expr, item: Sign | Test, level: int) -> Expr:
        if isinstance(item, Test):
            whole: Expr = Call(item.function, (left, *item.items))
            return Unary("not", whole) if item.negated else whole
        if item.word in LEVELS:
            return joined(item.word, (left, self.tree(level + 1)))
        word = item.word.removeprefix("not ")
        whole = Call("like", (left, self.tree(SUM))) if word == "like" else self.between(left, item)
        return whole if item.word == word else Unary("not", whole)

    def between(self, value: Expr, item: Sign) -> Expr:
        low = self.tree(SUM)
        connective = self.peek()
        if not (isinstance(connective, Sign) and connective.word == "and"):
            raise error_at(self.text, item.at, "BETWEEN needs two bounds", "write b.x BETWEEN 1 AND 5")
        self.take()
        return Binary("and", Binary(">=", value, low), Binary("<=", value, self.tree(SUM)))


_SIGN_LEVELS = {**LEVELS, **dict.fromkeys(("like", "not like", "between", "not between"), COMPARISON)}
_SPELLINGS = {"==": "=", "<>": "!=", "^": "and", "!": "not"}


def sign(text: str, at: int, tokens: pp.ParseResults) -> Sign:
    word = " ".join(tokens).lower()
    return Sign(_SPELLINGS.get(word, word), at)


def expression(text: str, at: int, tokens: pp.ParseResults) -> Expr:
    return _Chain(text, tokens).tree()


def null_test(text: str, at: int, tokens: pp.ParseResults) -> Test:
    return Test("isnotnull" if len(tokens) == 3 else "isnull", False, (), at)


def in_test(text: str, at: int, tokens: pp.ParseResults) -> Test:
    negated = tokens[0].upper() == "NOT"
    return Test("in", negated, tuple(tokens[2 if negated else 1 :]), at)


def number(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    digits = re.sub(r"\s", "", tokens[0])
    if re.fullmatch(rf"-?{DIGITS}", digits):
        return Literal(checked(text, at, whole_number_of, digits))
    value = float(digits)
    if math.isinf(value):
        raise error_at(text, at, "this number is too large for a double", "write DECIMAL '...' for an exact number")
    return Literal(value)


def whole_number_of(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise InvalidNode(f"a number of {len(digits)} digits is too long") from None


def unquote(quoted: str) -> str:
    return quoted[1:-1].replace(quoted[0] * 2, quoted[0])


def string(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    return Literal(unquote(tokens[0]))


def _timestamp(value: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip()))


TYPED: dict[str, tuple[Callable[[str], Any], str]] = {
    "DATE": (datetime.date.fromisoformat, "2024-02-29"),
    "TIMESTAMP": (_timestamp, "2024-02-29 12:30:00"),
    "DECIMAL": (Decimal, "1.50"),
    "DOUBLE": (float, "1.5"),
}


def typed_literal(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    kind = tokens[0].upper()
    read, example = TYPED[kind]
    try:
        value = read(tokens[1].value)
    except (ValueError, InvalidOperation):
        raise error_at(text, at, f"{tokens[1].value!r} is not a {kind.lower()}", f"write {kind} '{example}'") from None
    return Literal(value)


def interval(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    _, length, *units = tokens
    if isinstance(length, str):
        return checked(text, at, _interval_constant, " ".join((length, *units)))
    return checked(text, at, _interval_constant, length.value, *units)


def _interval_constant(*written: str) -> Literal:
    return Literal(read_interval(*written))


def constant(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    return Literal({"NULL": None, "TRUE": True, "FALSE": False}[tokens[0].upper()])


def parameter(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    name, (values, advice) = tokens[0][1:], VALUES.get()
    if name not in values:
        raise error_at(text, at, f"the parameter :{name} has no value", advice(name))
    return values[name]


def parameter_as(read: Callable[[Any], T]) -> Callable[[str, int, pp.ParseResults], T]:
    """A parameter where no term stands, read as what stands there."""

    def build(text: str, at: int, tokens: pp.ParseResults) -> T:
        value = parameter(text, at, tokens).value
        try:
            return read(value)
        except CetdslError as error:
            raise error_at(text, at, f"the parameter {tokens[0]}: {error.message}", error.hint) from None

    return build


def neighbour(text: str, at: int, tokens: pp.ParseResults) -> Attribute:
    word, variable, column = tokens
    return Attribute(variable, column, NEIGHBOURS[word.upper()])


def indexed(text: str, at: int, tokens: pp.ParseResults) -> Attribute:
    variable, index, column = tokens
    number = re.fullmatch(rf"(-?)\s*({DIGITS})", index.strip())
    if number is not None:
        nth = checked(text, at, whole_number_of, "".join(number.groups()))
        return checked(text, at, Attribute, variable, column, Role.NTH, nth)
    moved = re.fullmatch(rf"({ANY_NAME}|)\s*(|[+-]\s*1)", index.strip())
    # A superscript two is no digit, but not the name of an index either.
    if moved is None or not (moved[1].isidentifier() or not moved[1]):
        raise error_at(
            text,
            at,
            f"{variable}[{index}] is not an event of {variable}",
            f"write {variable}[i], {variable}[i-1], {variable}[i+1], or {variable}[2] for the third one",
        )
    role = {"": Role.EACH, "-": Role.PREV, "+": Role.NEXT}[moved[2][:1]]
    return Indexed(variable, column, role, letter=moved[1], at=at)


def attribute(text: str, at: int, tokens: pp.ParseResults) -> Expr:
    return Bare(tokens[0], at) if len(tokens) == 1 else Attribute(*tokens)


def aggregate(text: str, at: int, tokens: pp.ParseResults) -> Aggregate:
    function, argument = tokens[0].lower(), tokens[1]
    if FUNCTIONS[SPELLINGS[function]].is_count:
        if argument == "*":
            return Aggregate(function)
        if isinstance(argument, Bare):
            return Aggregate(function, argument.name)
    elif argument == "*" or isinstance(argument, Bare):
        said, owner, column = ("*", "b", "price") if argument == "*" else (argument.name, argument.name, argument.name)
        raise error_at(
            text,
            at,
            f"{function.upper()}({said}) does not say which column of which event",
            f"write {function.upper()}({owner}.price)"
            + (f", or {function.upper()}(b.{column}) for the column {column}" if said != "*" else ""),
        )
    return checked(text, at, Aggregate, function, None, argument)


def distinct(text: str, at: int, tokens: pp.ParseResults) -> None:
    raise error_at(
        text,
        at,
        "no aggregate over all trends takes DISTINCT: the values of two sets may be the same, so sets do not add up",
        "list the trends with trends(), and aggregate their events by Spark's own functions",
    )


def call(text: str, at: int, tokens: pp.ParseResults) -> Expr:
    written, *arguments = tokens
    if written.startswith("`"):
        return Call(unquote(written), tuple(arguments))
    name = written.lower()
    return Length() if name == "length" and not arguments else Call(name, tuple(arguments))


def settled(expr: Expr, text: str) -> Expr:
    """A whole predicate, or another term, as it is meant: without the names of indexes.

    Raises
    ------
    ParseError
        It holds what has a meaning elsewhere alone, or indexes of two names.
    """
    indexes: dict[str | None, str] = {}
    for node in expr.walk():
        if isinstance(node, Bare):
            raise error_at(
                text,
                node.at,
                f"{node.name!r} does not say which event it belongs to",
                f"write b.{node.name} for a column of the event b, '{node.name}' for a string",
            )
        if isinstance(node, Equivalence):
            raise error_at(
                text,
                node.at,
                "a list in brackets is not a part of another predicate",
                "join it with AND, and put an OR in parentheses: WHERE [company] AND (b.x = 1 OR b.x = 2)",
            )
        if isinstance(node, Indexed) and node.letter:
            letter, event = indexes.setdefault(node.variable, node.letter), node.variable
            if letter != node.letter:
                raise error_at(
                    text,
                    node.at,
                    f"{event}[{letter}] and {event}[{node.letter}] would be any two events of {event}, and a predicate "
                    "compares neighbours",
                    f"write {event}[{letter}] and {event}[{letter}+1] for each two neighbours, or FIRST({event}), "
                    f"LAST({event}) or {event}[0] for one of them",
                )
    return with_attributes(expr, lambda node: Attribute(node.variable, node.name, node.role, node.index))


def own_columns(condition: Expr, variable: str, text: str) -> Expr:
    """The condition with its bare names read as columns of ``variable``."""
    return bind_attributes(of_columns(condition, text), variable)


def of_columns(term: Expr, text: str) -> Expr:
    """The term with its bare names read as columns."""

    def change(node: Expr) -> Expr:
        return Attribute(None, node.name) if isinstance(node, Bare) else node

    return settled(transform(term, change), text)
