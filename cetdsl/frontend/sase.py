"""The text form of a query: a pyparsing grammar in the manner of SASE, and its error messages.

An expression is read as a flat chain of operands and operators, which :class:`_Chain` then builds by precedence: this
keeps the grammar free of backtracking and its nesting shallow.
"""

from __future__ import annotations

import datetime
import math
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from decimal import Decimal, InvalidOperation
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

import attrs
import pyparsing as pp

from cetdsl.aggregates.functions import FUNCTIONS, SPELLINGS
from cetdsl.errors import CetdslError, InvalidNode, ParseError, nearest, shown
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
    conjuncts,
    joined,
    transform,
)
from cetdsl.pattern.intervals import HINT as INTERVALS
from cetdsl.pattern.intervals import read_interval
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, Within, events
from cetdsl.pattern.nodes import transform as transform_pattern
from cetdsl.pattern.query import (
    POLICIES,
    TO_LAST,
    AfterMatch,
    Computed,
    Query,
    Returned,
    Selection,
    Window,
    computed_name,
)
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import (
    ANY_NAME,
    COMPARISON,
    LEVELS,
    NEIGHBOURS,
    NOT,
    OR,
    PLAIN_NAME,
    RESERVED,
    SIGN,
    SKIPS,
    SUM,
)

T = TypeVar("T")

_SHAPE = (
    "write [RETURN ...] PATTERN ... [WHERE ...] [MATCHING ...] [LONGEST MATCH] [FIRST MATCH] [AFTER MATCH SKIP ...] "
    "[PARTITION BY ...] [GROUP BY ...] [WITHIN ...] [MAX_GAP ...]"
)
#: The words that clauses begin with.
_CLAUSES = (
    *("RETURN", "PATTERN", "WHERE", "MATCHING", "LONGEST", "FIRST", "AFTER"),
    *("PARTITION", "GROUP", "GROUPBY", "WITHIN", "MAX_GAP"),
)
_SKIPS = "write AFTER MATCH SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST b or TO LAST b"
_LENGTHS = "write 10 minutes, 1 day, 90 s, or a number of ticks"
_ARITHMETIC_OR_COMPARISON = r"==|!=|<>|<=|>=|[=<>+\-*/%]"
# No part of a text can be split in two ways by any of these: what does not match is found out in one pass.
_COMMENT = r"--[^\n\r]*"
_SPACE = rf"\s*(?:{_COMMENT}(?:[\n\r]\s*|\Z))*"
_QUOTED_NAME = r"`(?:[^`]|``)+`"
_STRING = r"'[^']*(?:''[^']*)*'" + r'|"[^"]*(?:""[^"]*)*"'
_DIGITS = "[0-9]+"
_PARAMETER = r":[^\W\d]\w*"
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<quoted>{_QUOTED_NAME})|(?P<parameter>{_PARAMETER})|(?P<word>\w+)|(?P<open>[(\[{{])|(?P<close>[)\]}}])"
    rf"|<=|>=|==|!=|<>|\S"
)
_BLANK = re.compile(_SPACE)
_NAMED = re.compile(rf"NAME{_SPACE}(?P<name>(?P<plain>[^\W\d]\w*)|(?P<quoted>{_QUOTED_NAME})){_SPACE}:", re.IGNORECASE)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def _as_argument(name: str) -> str:
    return f"give it: cet.parse(text, {name}=...)" if name.isascii() else "give it as an argument of cet.parse"


def in_parameters(name: str) -> str:
    """What to do about a parameter without a value where values are given together, as of a workload."""
    return f"give it: parameters={{{name!r}: ...}}"


_NO_PARAMETERS: Mapping[str, Literal] = MappingProxyType({})


def parse(
    text: str, parameters: Mapping[str, Literal] = _NO_PARAMETERS, advice: Callable[[str], str] = _as_argument
) -> Query:
    """The query that ``text`` states.

    Parameters
    ----------
    text : str
        ``[RETURN ...] PATTERN ... [WHERE ...] [MATCHING ...] [LONGEST MATCH] [FIRST MATCH] [AFTER MATCH SKIP ...]
        [PARTITION BY ...] [GROUP BY ...] [WITHIN ... [SLIDE ...]] [MAX_GAP ...]``; keywords in any case, comments from
        ``--`` to the end of the line.
    parameters : mapping of str to Literal, optional
        The constant that stands for ``:name``, in a term, as a length of time or as a number of repetitions, by name.
    advice : callable, optional
        Says how to give a value to the parameter of a name that has none.

    Returns
    -------
    Query

    Raises
    ------
    ParseError
        With the place in the text and a hint.
    InvalidNode
        The text has no parameter of a name.

    Examples
    --------
    >>> query = parse("PATTERN SEQ(A, Stock+ s[]) WHERE [company] AND s.price < NEXT(s).price WITHIN 10 min")
    >>> query.partition_by, str(query.window.length)
    (('company',), '10 minutes')
    >>> parse("PATTERN SEQ(A, )")
    Traceback (most recent call last):
        ...
    cetdsl.errors.ParseError: a pattern is missing
      line 1: PATTERN SEQ(A, )
                             ^
      hint: remove the comma, or write a part after it
    """
    query = _read(text, Query, parameters, advice)
    refuse_unused(parameters, parameters_in(text))
    return query


def parameters_in(text: str) -> set[str]:
    """The names of the parameters that a text mentions.

    Examples
    --------
    >>> parameters_in("PATTERN A WHERE A.n = ':no' AND A.x > :low -- :no")
    {'low'}
    """
    return {found["parameter"][1:] for found in _tokens(text) if found["parameter"]}


def refuse_unused(parameters: Iterable[str], mentioned: Collection[str]) -> None:
    """Refuses parameters that no text mentions."""
    known = {f":{name}" for name in mentioned}
    for name in parameters:
        if name not in mentioned:
            every = f"the text has {', '.join(sorted(known)) or 'no parameters'}"
            raise InvalidNode(f"the text has no parameter :{name}", hint=nearest(f":{name}", known, every))


def parse_constant(text: str) -> Literal:
    """The constant that a text states as a query would, or else the text itself.

    Examples
    --------
    >>> [parse_constant(text).value for text in ("1.05", "-3", "FALSE", "'1.05'", "it's tech", "")]
    [1.05, -3, False, '1.05', "it's tech", '']
    """
    try:
        stated = _read(text, Expr)
    except ParseError:
        return Literal(text)
    return stated if isinstance(stated, Literal) else Literal(text)


def parse_queries(text: str, parameters: Mapping[str, Literal] = _NO_PARAMETERS) -> dict[str, Query]:
    """The queries that a text states one after the other, each with its name.

    Parameters
    ----------
    text : str
        ``NAME q1: RETURN ... PATTERN ...; NAME q2: ...;``; the last semicolon may be left out.
    parameters : mapping of str to Literal, optional
        The constant that stands for ``:name`` in all of them, by name.

    Returns
    -------
    dict of str to Query
        In the order of the text.

    Raises
    ------
    ParseError
        If there is no query, a query has no name or a name of another one, or is malformed.
    InvalidNode
        The text has no parameter of a name.

    Examples
    --------
    >>> list(parse_queries("NAME a: PATTERN SEQ(A, B); NAME b: PATTERN SEQ(A, C+);"))
    ['a', 'b']
    >>> parse_queries("NAME a: PATTERN A; PATTERN B")
    Traceback (most recent call last):
        ...
    cetdsl.errors.ParseError: a query has no name
      line 1: NAME a: PATTERN A; PATTERN B
                                 ^^^^^^^
      hint: begin each query with NAME and a colon: NAME q1: RETURN ...
    """
    _refuse_surrogates(text)
    queries: dict[str, Query] = {}
    for start, stop in _statements(text):
        named = _NAMED.match(text, start, stop)
        if named is None:
            message = "a query has no name" if stop > start else "a query is missing before the semicolon"
            hint = "begin each query with NAME and a colon: NAME q1: RETURN ..."
            raise _error(text, start, message, hint)
        name = named["plain"] or named["quoted"][1:-1].replace("``", "`")
        if name in queries:
            raise _error(text, named.start("name"), f"there are two queries of the name {name!r}", "rename one of them")
        queries[name] = _parse_part(text, named.end(), stop, parameters)
    if not queries:
        raise ParseError("there is no query in the text", hint="write NAME q1: RETURN ... PATTERN ...;")
    refuse_unused(parameters, parameters_in(text))
    return queries


def _statements(text: str) -> Iterable[tuple[int, int]]:
    """Where the parts of a text between semicolons begin and end, blanks and comments before them left out."""
    start = _skip(text, 0)
    for token in _tokens(text):
        if token.group() == ";":
            yield start, token.start()
            start = _skip(text, token.end())
    if start < len(text):
        yield start, len(text)


def _parse_part(text: str, start: int, stop: int, parameters: Mapping[str, Literal]) -> Query:
    """The query that a part of a text states; errors point into the whole text."""
    try:
        query = _read(text[start:stop], Query, parameters, in_parameters)
    except ParseError as error:
        span = None if error.span is None else (error.span[0] + start, error.span[1] + start)
        raise ParseError(error.message, hint=error.hint, span=span, text=text) from None

    def moved(node: Pattern) -> Pattern:
        if not isinstance(node, Within) or node.written is None:
            return node
        begin, end = node.written[1]
        return attrs.evolve(node, written=(text, (begin + start, end + start)))

    return attrs.evolve(query, pattern=transform_pattern(query.pattern, moved))


def parse_predicates(text: str, pattern: Pattern) -> tuple[tuple[Expr, ...], tuple[str, ...]]:
    """The predicates of a WHERE clause over ``pattern``, and the columns of its bracketed lists.

    Examples
    --------
    >>> predicates, columns = parse_predicates("[company] AND s.price > 5 AND s.volume > 0", Event("s", "Stock"))
    >>> len(predicates), columns
    (2, ('company',))
    """
    where, columns = _split_where(_read(text, Expr), text)
    rename = _type_names(pattern)
    return tuple(transform(part, rename) for part in where), columns


def parse_condition(text: str, variable: str) -> Expr:
    """The condition of the event ``variable``, whose columns may stand without it.

    Examples
    --------
    >>> parse_condition("amount > 1000", "big").left
    Attribute(variable='big', name='amount', role=<Role.EACH: 'each'>, index=None)
    """
    return _own_columns(_read(text, Expr), variable, text)


def parse_group(text: str) -> Expr:
    """A term over the columns of one event, to group by.

    Examples
    --------
    >>> parse_group("date(ts)").arguments
    (Attribute(variable=None, name='ts', role=<Role.EACH: 'each'>, index=None),)
    """
    return _of_columns(_read(text, Expr), text)


def grammar() -> pp.ParserElement:
    """The pyparsing grammar of a query, each rule named, for diagrams and tools.

    Examples
    --------
    >>> grammar().name
    'query'
    """
    return _grammar(commented=True).query


# --- What parse actions hand to each other ---------------------------------------------------------------------------


@attrs.frozen
class _Sign:
    """An operator with its place."""

    word: str
    at: int


@attrs.frozen
class _Test:
    """``IS [NOT] NULL`` or ``[NOT] IN (...)``, which follow their operand."""

    function: str
    negated: bool
    items: tuple[Expr, ...]
    at: int


@attrs.frozen
class _Bare(Expr):
    """A name alone: a variable inside COUNT, a column inside the condition of an event, else an error."""

    name: str
    at: int


@attrs.frozen
class _Equivalence(Expr):
    """``[a, b]``."""

    columns: tuple[str, ...]
    at: int


@attrs.frozen
class _Clause:
    """One clause of a query."""

    kind: str
    value: Any
    at: int


@attrs.frozen
class _Times:
    """A postfix of a pattern."""

    at_least: int
    at_most: int | None
    at: int


@attrs.frozen
class _Brackets:
    """``s[]``: says that the variable stands for several events."""

    at: int


@attrs.frozen
class _Rules:
    """The entry points of the grammar, each up to the end of the text."""

    query: pp.ParserElement
    expression: pp.ParserElement


# --- Running the grammar ---------------------------------------------------------------------------------------------

# pyparsing keeps caches on shared elements; a query is short, so one at a time costs nothing.
_LOCK = threading.RLock()


@cache
def _grammar(*, commented: bool) -> _Rules:
    """The rules for texts with or without comments; looking for them before every token takes almost half the time."""
    with _LOCK:
        spaces = pp.ParserElement.DEFAULT_WHITE_CHARS
        try:
            pp.ParserElement.set_default_whitespace_chars(" \n\t\r")
            return _build(commented)
        finally:
            pp.ParserElement.set_default_whitespace_chars(spaces)


#: The values of the parameters of the text that is being read, and what to do about one that has none.
_VALUES: ContextVar[tuple[Mapping[str, Literal], Callable[[str], str]]] = ContextVar("_VALUES")


def _read(
    text: object,
    kind: type[T],
    parameters: Mapping[str, Literal] = _NO_PARAMETERS,
    advice: Callable[[str], str] = _as_argument,
) -> T:
    """The query or the expression that a text states."""
    if not isinstance(text, str):
        raise InvalidNode(f"a query text is a string, not {type(text).__name__}")
    _refuse_surrogates(text)
    if _skip(text, 0) == len(text):
        raise ParseError("the text is empty", hint=_SHAPE if kind is Query else "write a predicate such as b.price > 5")
    values = _VALUES.set((parameters, advice))
    try:
        with _LOCK:
            rules = _grammar(commented="--" in text)
            (result,) = (rules.query if kind is Query else rules.expression).parse_string(text)
    except pp.ParseBaseException as error:
        raise _explain(text, error.loc, error.msg.removeprefix("Expected ")) from None
    except RecursionError:
        raise ParseError("the query is nested too deeply", hint="remove parentheses that change nothing") from None
    finally:
        _VALUES.reset(values)
    assert isinstance(result, kind)
    return result


def _refuse_surrogates(text: str) -> None:
    found = re.search("[\ud800-\udfff]", text)
    if found is not None:
        # The text of the error must be one that can be printed.
        raise _error(
            text.encode(errors="replace").decode(),
            found.start(),
            f"{found[0]!r} is half of a surrogate pair, which is no character",
            "decode what the text was read from with the right encoding",
        )


def _skip(text: str, at: int) -> int:
    """The place of the next token."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _token(text: str, at: int) -> str:
    found = _TOKEN.match(text, _skip(text, at))
    return found.group() if found else ""


def _error(text: str, at: int, message: str, hint: str | None = None) -> ParseError:
    start = _skip(text, at)
    if start == len(text):
        start = len(text.rstrip())
    return ParseError(message, hint=hint, span=(start, start + max(1, len(_token(text, start)))), text=text)


def _checked(text: str, at: int, build: Callable[..., T], *arguments: Any, hint: str | None = None) -> T:
    """``build(*arguments)``, whose refusal becomes an error with a place, and with ``hint`` if it has none."""
    try:
        return build(*arguments)
    except ParseError:
        raise
    except CetdslError as error:
        raise _error(text, at, error.message, error.hint or hint) from None


def _placed(action: Callable[[str, int, pp.ParseResults], T]) -> Callable[[str, int, pp.ParseResults], T]:
    """The parse action, whose refusals get a place."""
    return lambda text, at, tokens: _checked(text, at, action, text, at, tokens)


# --- Parse actions: expressions --------------------------------------------------------------------------------------


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
        if isinstance(item, _Sign):
            return Unary(item.word, self.tree(NOT if item.word == "not" else SIGN))
        assert isinstance(item, Expr)
        return item

    def tree(self, floor: int = OR) -> Expr:
        left = self.operand()
        compared = False
        while (item := self.peek()) is not None:
            level = COMPARISON if isinstance(item, _Test) else _SIGN_LEVELS[item.word]
            if level < floor:
                break
            if level == COMPARISON and compared:
                raise _error(
                    self.text, item.at, "comparisons cannot be chained", "write a < b AND b < c instead of a < b < c"
                )
            left = self.combine(left, self.take(), level)
            compared = level == COMPARISON
        return left

    def combine(self, left: Expr, item: _Sign | _Test, level: int) -> Expr:
        if isinstance(item, _Test):
            whole: Expr = Call(item.function, (left, *item.items))
            return Unary("not", whole) if item.negated else whole
        if item.word in LEVELS:
            return joined(item.word, (left, self.tree(level + 1)))
        word = item.word.removeprefix("not ")
        whole = Call("like", (left, self.tree(SUM))) if word == "like" else self.between(left, item)
        return whole if item.word == word else Unary("not", whole)

    def between(self, value: Expr, item: _Sign) -> Expr:
        low = self.tree(SUM)
        connective = self.peek()
        if not (isinstance(connective, _Sign) and connective.word == "and"):
            raise _error(self.text, item.at, "BETWEEN needs two bounds", "write b.x BETWEEN 1 AND 5")
        self.take()
        return Binary("and", Binary(">=", value, low), Binary("<=", value, self.tree(SUM)))


_SIGN_LEVELS = {**LEVELS, **dict.fromkeys(("like", "not like", "between", "not between"), COMPARISON)}
_SPELLINGS = {"==": "=", "<>": "!=", "^": "and", "!": "not"}


def _sign(text: str, at: int, tokens: pp.ParseResults) -> _Sign:
    word = " ".join(tokens).lower()
    return _Sign(_SPELLINGS.get(word, word), at)


def _expression(text: str, at: int, tokens: pp.ParseResults) -> Expr:
    return _Chain(text, tokens).tree()


def _null_test(text: str, at: int, tokens: pp.ParseResults) -> _Test:
    return _Test("isnotnull" if len(tokens) == 3 else "isnull", False, (), at)


def _in_test(text: str, at: int, tokens: pp.ParseResults) -> _Test:
    negated = tokens[0].upper() == "NOT"
    return _Test("in", negated, tuple(tokens[2 if negated else 1 :]), at)


def _number(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    digits = re.sub(r"\s", "", tokens[0])
    if re.fullmatch(rf"-?{_DIGITS}", digits):
        return Literal(_checked(text, at, _whole_number, digits))
    value = float(digits)
    if math.isinf(value):
        raise _error(text, at, "this number is too large for a double", "write DECIMAL '...' for an exact number")
    return Literal(value)


def _whole_number(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise InvalidNode(f"a number of {len(digits)} digits is too long") from None


def _unquote(quoted: str) -> str:
    return quoted[1:-1].replace(quoted[0] * 2, quoted[0])


def _string(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    return Literal(_unquote(tokens[0]))


def _timestamp(value: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip()))


_TYPED: dict[str, tuple[Callable[[str], Any], str]] = {
    "DATE": (datetime.date.fromisoformat, "2024-02-29"),
    "TIMESTAMP": (_timestamp, "2024-02-29 12:30:00"),
    "DECIMAL": (Decimal, "1.50"),
    "DOUBLE": (float, "1.5"),
}


def _typed_literal(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    kind = tokens[0].upper()
    read, example = _TYPED[kind]
    try:
        value = read(tokens[1].value)
    except (ValueError, InvalidOperation):
        raise _error(text, at, f"{tokens[1].value!r} is not a {kind.lower()}", f"write {kind} '{example}'") from None
    return Literal(value)


def _interval(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    _, length, *units = tokens
    if isinstance(length, str):
        return _checked(text, at, _interval_constant, " ".join((length, *units)))
    return _checked(text, at, _interval_constant, length.value, *units)


def _interval_constant(*written: str) -> Literal:
    return Literal(read_interval(*written))


def _constant(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    return Literal({"NULL": None, "TRUE": True, "FALSE": False}[tokens[0].upper()])


def _parameter(text: str, at: int, tokens: pp.ParseResults) -> Literal:
    name, (values, advice) = tokens[0][1:], _VALUES.get()
    if name not in values:
        raise _error(text, at, f"the parameter :{name} has no value", advice(name))
    return values[name]


def _parameter_as(read: Callable[[Any], T]) -> Callable[[str, int, pp.ParseResults], T]:
    """A parameter where no term stands, read as what stands there."""

    def build(text: str, at: int, tokens: pp.ParseResults) -> T:
        value = _parameter(text, at, tokens).value
        try:
            return read(value)
        except CetdslError as error:
            raise _error(text, at, f"the parameter {tokens[0]}: {error.message}", error.hint) from None

    return build


def _neighbour(text: str, at: int, tokens: pp.ParseResults) -> Attribute:
    word, variable, column = tokens
    return Attribute(variable, column, NEIGHBOURS[word.upper()])


def _indexed(text: str, at: int, tokens: pp.ParseResults) -> Attribute:
    variable, index, column = tokens
    number = re.fullmatch(rf"(-?)\s*({_DIGITS})", index.strip())
    if number is not None:
        nth = _checked(text, at, _whole_number, "".join(number.groups()))
        return _checked(text, at, Attribute, variable, column, Role.NTH, nth)
    moved = re.fullmatch(rf"({ANY_NAME}|)\s*(|[+-]\s*1)", index.strip())
    # A superscript two is no digit, but not the name of an index either.
    if moved is None or not (moved[1].isidentifier() or not moved[1]):
        raise _error(
            text,
            at,
            f"{variable}[{index}] is not an event of {variable}",
            f"write {variable}[i], {variable}[i-1], {variable}[i+1], or {variable}[2] for the third one",
        )
    return Attribute(variable, column, {"": Role.EACH, "-": Role.PREV, "+": Role.NEXT}[moved[2][:1]])


def _attribute(text: str, at: int, tokens: pp.ParseResults) -> Expr:
    return _Bare(tokens[0], at) if len(tokens) == 1 else Attribute(*tokens)


def _aggregate(text: str, at: int, tokens: pp.ParseResults) -> Aggregate:
    function, argument = tokens[0].lower(), tokens[1]
    if FUNCTIONS[SPELLINGS[function]].is_count:
        if argument == "*":
            return Aggregate(function)
        if isinstance(argument, _Bare):
            return Aggregate(function, argument.name)
    elif argument == "*" or isinstance(argument, _Bare):
        said, owner, column = ("*", "b", "price") if argument == "*" else (argument.name, argument.name, argument.name)
        raise _error(
            text,
            at,
            f"{function.upper()}({said}) does not say which column of which event",
            f"write {function.upper()}({owner}.price)"
            + (f", or {function.upper()}(b.{column}) for the column {column}" if said != "*" else ""),
        )
    return _checked(text, at, Aggregate, function, None, argument)


def _distinct(text: str, at: int, tokens: pp.ParseResults) -> None:
    raise _error(
        text,
        at,
        "no aggregate over all trends takes DISTINCT: the values of two sets may be the same, so sets do not add up",
        "list the trends with trends(), and aggregate their events by Spark's own functions",
    )


def _call(text: str, at: int, tokens: pp.ParseResults) -> Expr:
    written, *arguments = tokens
    if written.startswith("`"):
        return Call(_unquote(written), tuple(arguments))
    name = written.lower()
    return Length() if name == "length" and not arguments else Call(name, tuple(arguments))


# --- Parse actions: patterns -----------------------------------------------------------------------------------------


def _times(text: str, at: int, tokens: pp.ParseResults) -> _Times:
    sign = tokens[0]
    if sign != "{":
        low, high = {"+": (1, None), "*": (0, None), "?": (0, 1)}[sign]
        return _Times(low, high, at)
    counts = [token for token in tokens[1:] if isinstance(token, int)]
    unbounded = len(counts) == 1 and "," in list(tokens)
    return _Times(counts[0], None if unbounded else counts[-1], at)


def _repetitions(value: object) -> int:
    """A number of repetitions that is given as a value."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidNode(f"{shown(value)} is no number of repetitions", hint="pass a whole number, as of A{2,3}")
    return value


def _repeated(text: str, part: Pattern, times: Iterable[_Times]) -> Pattern:
    """A part of a pattern with its postfixes."""
    repeated = False
    for item in times:
        if repeated and (item.at_least, item.at_most) == (0, 1):
            raise _error(
                text,
                item.at,
                "a ? behind a repetition would say that it is reluctant, but all matches count here",
                "leave it out; a repetition that may be left out stands in parentheses: (A+)?",
            )
        repeated = True
        part = _checked(text, item.at, Repeat, part, item.at_least, item.at_most)
    return part


def _event(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    names = [token for token in tokens if isinstance(token, str)]
    times = [token for token in tokens if isinstance(token, _Times)]
    brackets = [token for token in tokens if isinstance(token, _Brackets)]
    if brackets and not times:
        raise _error(
            text,
            brackets[0].at,
            f"{names[-1]}[] stands for several events, but {names[0]} is not repeated",
            f"write {names[0]}+ {names[-1]}[], or leave out the brackets",
        )
    return _repeated(text, _checked(text, at, Event, names[-1], names[0]), times)


def _event_with_condition(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    names = [token for token in tokens if isinstance(token, str)]
    conditions = [_own_columns(token, names[-1], text) for token in tokens if isinstance(token, Expr)]
    kind = names[0] if len(names) > 1 else None
    return _checked(text, at, Event, names[-1], kind, conditions[0] if conditions else None)


def _group(word: str, kind: type[Pattern]) -> Callable[[str, int, pp.ParseResults], Pattern]:
    def build(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
        return _checked(text, at, kind, tuple(tokens), hint=f"write {word}(A, B)")

    return build


def _limited(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    """A part of a pattern, with its WITHIN if it has one."""
    part, *length = tokens
    assert isinstance(part, Pattern)
    if not length:
        return part
    whole: Within = _checked(text, at, Within, part, *length)
    begin = _skip(text, at)
    return attrs.evolve(whole, written=(text, (begin, _end_of_part(text, begin))))


def _end_of_part(text: str, begin: int) -> int:
    """Where a part of a list, or what stands in parentheses, ends."""
    depth, end = 0, begin
    for token in _tokens(text, begin):
        depth += bool(token["open"]) - bool(token["close"])
        if depth < 0 or (depth == 0 and token.group() == ","):
            break
        end = token.end()
    return end


def _unit(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    negated = isinstance(tokens[0], _Sign)
    part, *times = tokens[1:] if negated else tokens
    whole = _repeated(text, part, times)
    return _checked(text, at, Not, whole) if negated else whole


def _alternatives(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    """``A AND B OR C``: AND binds stronger."""
    sides: list[list[Pattern]] = [[]]
    for token in tokens:
        if isinstance(token, Pattern):
            sides[-1].append(token)
        elif token.word == "or":
            sides.append([])
    parts = [side[0] if len(side) == 1 else _checked(text, at, And, tuple(side)) for side in sides]
    return parts[0] if len(parts) == 1 else _checked(text, at, Or, tuple(parts))


# --- Parse actions: clauses ------------------------------------------------------------------------------------------


def _clause(kind: str) -> Callable[[str, int, pp.ParseResults], _Clause]:
    def build(text: str, at: int, tokens: pp.ParseResults) -> _Clause:
        return _Clause(kind, tuple(tokens), at)

    return build


def _returned(text: str, at: int, tokens: pp.ParseResults) -> Returned:
    if not isinstance(tokens[0], Aggregate):
        known = ", ".join(map(str.upper, SPELLINGS))
        hint = f"such as COUNT(*), SUM(b.price) AS total, MAX(LENGTH); there are {known}"
        raise _error(text, at, "RETURN takes aggregates", hint)
    return Returned(*tokens)


def _group_of(text: str, at: int, tokens: pp.ParseResults) -> str | Computed:
    """A column to group by: its name, or what it is computed of."""
    first, *given = tokens
    if isinstance(first, str):
        return first
    term = _of_columns(first, text)
    if isinstance(term, Attribute) and not given:
        if term.variable is None:
            return term.name
        raise _error(text, at, "GROUP BY takes columns without an event", f"write GROUP BY {term.name}")
    name = given[0] if given else computed_name(term)
    computed = _checked(text, at, Computed, name or "group", term)
    if name is None:
        raise _error(text, at, "a group that is computed needs a name", "give it one with AS: ... AS bucket")
    return computed


def _length(text: str, at: int, tokens: pp.ParseResults) -> Span:
    return _checked(text, at, Span.parse, " ".join(tokens), hint=_LENGTHS)


def _query(text: str, at: int, tokens: pp.ParseResults) -> Query:
    clauses: dict[str, _Clause] = {clause.kind: clause for clause in tokens}
    pattern_clause = clauses["pattern"]
    (pattern,) = pattern_clause.value
    if isinstance(pattern, Not):
        raise _error(
            text,
            _skip(text, pattern_clause.at) + len("PATTERN"),
            "NOT stands outside SEQ",
            "NOT says what must not happen beside something else: SEQ(A, NOT N, B)",
        )
    where: tuple[Expr, ...] = ()
    partition_by: tuple[str, ...] = ()
    if "where" in clauses:
        where, partition_by = _split_where(clauses["where"].value[0], text)
    if "partition" in clauses:
        partition_by += tuple(name for name in clauses["partition"].value if name not in partition_by)
    groups = clauses["group"].value if "group" in clauses else ()
    computed = tuple(item for item in groups if isinstance(item, Computed))
    group_by = tuple(item.name if isinstance(item, Computed) else item for item in groups)
    window = Window(*clauses["within"].value) if "within" in clauses else None
    max_gap = clauses["max_gap"].value[0] if "max_gap" in clauses else None
    returned = clauses["return"].value if "return" in clauses else ()
    matching = clauses["matching"].value[0] if "matching" in clauses else None
    after = AfterMatch(*clauses["after"].value) if "after" in clauses else None
    if after is not None and "first" in clauses:
        at = _skip(text, clauses["first"].at)
        message = "FIRST MATCH asks for one match alone, and AFTER MATCH for others after it"
        raise _error(text, at, message, "leave out one of them")
    selection = Selection(after, "first" in clauses, "longest" in clauses)
    for item in returned:
        _refuse_bare(item.aggregate, text)
    parts = pattern, where, partition_by, group_by, window, returned, matching, max_gap, selection, computed
    return _with_variables(_checked(text, pattern_clause.at, Query, *parts))


def _split_where(whole: Expr, text: str) -> tuple[tuple[Expr, ...], tuple[str, ...]]:
    predicates: list[Expr] = []
    columns: list[str] = []
    for part in conjuncts(whole):
        if isinstance(part, _Equivalence):
            columns.extend(part.columns)
        else:
            _refuse_bare(part, text)
            predicates.append(part)
    return tuple(predicates), tuple(columns)


def _refuse_bare(expr: Expr, text: str) -> None:
    for node in expr.walk():
        if isinstance(node, _Bare):
            raise _error(
                text,
                node.at,
                f"{node.name!r} does not say which event it belongs to",
                f"write b.{node.name} for a column of the event b, '{node.name}' for a string",
            )
        if isinstance(node, _Equivalence):
            raise _error(
                text,
                node.at,
                "a list in brackets is not a part of another predicate",
                "join it with AND: WHERE [company] AND b.price > 5",
            )


def _own_columns(condition: Expr, variable: str, text: str) -> Expr:
    """The condition with its bare names read as columns of ``variable``."""
    return bind_attributes(_of_columns(condition, text), variable)


def _of_columns(term: Expr, text: str) -> Expr:
    """The term with its bare names read as columns."""

    def change(node: Expr) -> Expr:
        return Attribute(None, node.name) if isinstance(node, _Bare) else node

    term = transform(term, change)
    _refuse_bare(term, text)
    return term


def _type_names(pattern: Pattern) -> Callable[[Expr], Expr]:
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
    rename = _type_names(query.pattern)
    return attrs.evolve(
        query,
        where=tuple(transform(part, rename) for part in query.where),
        returning=tuple(_renamed(item, rename) for item in query.returning),
    )


def _renamed(item: Returned, rename: Callable[[Expr], Expr]) -> Returned:
    aggregate = transform(item.aggregate, rename)
    assert isinstance(aggregate, Aggregate)
    return Returned(aggregate, item.name)


# --- The grammar -----------------------------------------------------------------------------------------------------


def _keyword(*words: str) -> pp.ParserElement:
    keywords = [pp.CaselessKeyword(word).set_name(word) for word in words]
    return keywords[0] if len(keywords) == 1 else pp.And(keywords)


def _before(pattern: str, following: str) -> pp.ParserElement:
    """A token that must be followed by ``following``, which it does not consume."""
    return pp.Regex(rf"(?:{pattern})(?={_SPACE}(?:{following}))")


def _word_before(words: Iterable[str], following: str) -> pp.ParserElement:
    return _before(rf"(?ai:{'|'.join(words)})", following).set_name(" or ".join(words))


def _listed(item: pp.ParserElement) -> pp.ParserElement:
    return item + pp.ZeroOrMore(pp.Suppress(",") - item)


def _name(plain: str, label: str) -> pp.ParserElement:
    found = pp.Regex(rf"(?:{_QUOTED_NAME})|(?:{plain})").set_name(label)
    return found.set_parse_action(lambda s, at, tokens: _unquote(tokens[0]) if tokens[0][0] == "`" else tokens[0])


def _build(commented: bool) -> _Rules:
    expression = pp.Forward()
    expression.set_name("expression")
    name = _name(PLAIN_NAME, "name")
    expression << _expression_rule(expression, name)
    length = _length_rule()
    pattern = _pattern_rule(expression, name, length)
    query = _query_rule(pattern, expression, name, length)
    whole_expression = (expression + pp.StringEnd().set_name("end of text")).set_name("predicate")
    for rule in (query, whole_expression):
        if commented:
            rule.ignore(pp.Regex(_COMMENT).set_name("comment"))
        # Tabs must stay, or the places in error messages would be wrong.
        rule.parse_with_tabs().streamline()
    return _Rules(query, whole_expression)


def _operand_rule(expression: pp.Forward, name: pp.ParserElement) -> pp.ParserElement:
    lpar, rpar, lbracket, rbracket = map(pp.Suppress, "()[]")
    dot_column = pp.Suppress(".") - _name(ANY_NAME, "column name")
    string = pp.Regex(_STRING).set_name("string").set_parse_action(_placed(_string))
    number = pp.Regex(rf"(?:-\s*)?(?:{_DIGITS}(?:\.{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?(?!\w)")
    unit = pp.Regex(PLAIN_NAME).set_name("unit of time")
    quoted = string + pp.Opt(unit + pp.Opt(pp.Suppress(_keyword("TO")) - unit))
    counted = pp.OneOrMore(pp.Regex(rf"{_DIGITS}(?:\.{_DIGITS})?").set_name("length") - unit)
    distinct = pp.Regex(rf"(?ai:DISTINCT)\b(?!{_SPACE}[).,\[])").set_name("DISTINCT").set_parse_action(_distinct)
    arguments = pp.Literal("*") | expression
    rules: list[tuple[str, pp.ParserElement, Callable[[str, int, pp.ParseResults], Expr]]] = [
        ("number", number, _number),
        ("parameter", pp.Regex(_PARAMETER), _parameter),
        ("typed literal", _word_before(_TYPED, "['\"]") - string, _typed_literal),
        ("interval", _word_before(["INTERVAL"], "['\"0-9]") - (quoted | counted).set_name("length"), _interval),
        ("constant", pp.Regex(r"(?ai:NULL|TRUE|FALSE)\b"), _constant),
        ("neighbour", _word_before(NEIGHBOURS, r"\(") + lpar - name - rpar - dot_column, _neighbour),
        ("aggregate", _word_before(SPELLINGS, r"\(") + lpar - pp.Opt(distinct) - arguments - rpar, _aggregate),
        (
            "function call",
            _before(f"{_QUOTED_NAME}|{PLAIN_NAME}", r"\(").set_name("function")
            + lpar
            - pp.Opt(_listed(expression))
            - rpar,
            _call,
        ),
        (
            "length",
            pp.Regex(rf"(?ai:LENGTH)\b(?!{_SPACE}[.\[])"),
            lambda text, at, tokens: Length(),
        ),
        (
            "indexed attribute",
            name + lbracket + pp.Regex(r"[^\[\]\n\r]*").set_name("index") - rbracket - dot_column,
            _indexed,
        ),
        ("attribute", name + pp.Opt(dot_column), _attribute),
        ("equivalence", lbracket - _listed(name) - rbracket, lambda text, at, tokens: _Equivalence(tuple(tokens), at)),
    ]
    atoms = [string] + [rule.set_name(label).set_parse_action(_placed(action)) for label, rule, action in rules]
    return pp.MatchFirst([*atoms, (lpar - expression - rpar).set_name("parenthesised")]).set_name("operand")


def _expression_rule(expression: pp.Forward, name: pp.ParserElement) -> pp.ParserElement:
    not_, and_, or_ = (_keyword(word).set_parse_action(_sign) for word in ("NOT", "AND", "OR"))
    minus = pp.Regex(r"-(?!\s*\.?[0-9])").set_name("minus").set_parse_action(_sign)
    bang = pp.Regex(r"!(?!=)").set_name("!").set_parse_action(_sign)
    operand = _operand_rule(expression, name)
    signed = pp.ZeroOrMore(not_ | bang | minus) + operand
    signed.set_name("operand")
    in_list = pp.Suppress("(") - _listed(expression) - pp.Suppress(")")
    test = (
        (_keyword("IS") - pp.Opt(_keyword("NOT")) - _keyword("NULL")).set_parse_action(_null_test)
        | (_word_before(["NOT"], r"(?ai:IN)\b") + _keyword("IN") - in_list).set_parse_action(_in_test)
        | (_keyword("IN") - in_list).set_parse_action(_in_test)
    ).set_name("test")
    worded = (
        _word_before(["NOT"], r"(?ai:BETWEEN|LIKE)\b") + (_keyword("BETWEEN") | _keyword("LIKE"))
        | _keyword("BETWEEN")
        | _keyword("LIKE")
    ).set_parse_action(_sign)
    symbol = pp.Regex(rf"{_ARITHMETIC_OR_COMPARISON}|\^").set_name("= != < <= > >= + - * / % ^").set_parse_action(_sign)
    operator = (and_ | or_ | symbol | worded).set_name("operator")
    return (signed + pp.ZeroOrMore(test | operator - signed)).set_parse_action(_placed(_expression))


def _length_rule() -> pp.ParserElement:
    amount = pp.Regex(rf"{_DIGITS}(?:\.{_DIGITS})?").set_name("length")
    unit = pp.Regex(PLAIN_NAME).set_name("unit of time")
    written = pp.OneOrMore(amount + pp.Opt(unit)).set_parse_action(_length)
    given = pp.Regex(_PARAMETER).set_parse_action(_parameter_as(Span.parse))
    return (written | given).set_name("length")


def _pattern_rule(expression: pp.Forward, name: pp.ParserElement, length: pp.ParserElement) -> pp.ParserElement:
    pattern = pp.Forward()
    pattern.set_name("pattern")
    limited = (pattern + pp.Opt(pp.Suppress(_keyword("WITHIN")) - length)).set_name("pattern")
    limited.set_parse_action(_limited)
    written = pp.Regex(r"[0-9]{1,9}(?!\w)").set_parse_action(lambda text, at, tokens: int(tokens[0]))
    count = (written | pp.Regex(_PARAMETER).set_parse_action(_parameter_as(_repetitions))).set_name("count")
    times = pp.Regex(r"[+*?]").set_name("+ * ?") | pp.Literal("{") - count - pp.Opt(
        pp.Literal(",") - pp.Opt(count)
    ) - pp.Suppress("}")
    times = times.set_name("times").set_parse_action(_times)
    brackets = (pp.Suppress("[") - pp.Suppress("]")).set_parse_action(lambda text, at, tokens: _Brackets(at))
    # A type is any string, the empty one too; a name is not empty.
    empty_type = pp.Regex("``(?!`)").set_name("empty type").set_parse_action(lambda text, at, tokens: "") + name
    repeats = pp.ZeroOrMore(times)
    event = (name + repeats + pp.Opt(name + pp.Opt(brackets)) | empty_type) + repeats
    event = event.set_name("event").set_parse_action(_event)
    conditioned = (
        pp.Suppress(_word_before(["EVENT"], r"\("))
        + pp.Suppress("(")
        - (name + pp.Opt(name) | empty_type).set_name("name")
        - pp.Opt(pp.Suppress(",") - expression)
        - pp.Suppress(")")
    )
    conditioned = conditioned.set_name("event with condition").set_parse_action(_event_with_condition)

    def group(word: str, kind: type[Pattern]) -> pp.ParserElement:
        keyword = pp.Suppress(_keyword(word))
        bodies = [pp.Suppress(left) - _listed(limited) - pp.Suppress(right) for left, right in ("()", "{}")]
        rule = keyword - pp.MatchFirst(bodies).set_name(f"( after {word}")
        return rule.set_name(word).set_parse_action(_group(word, kind))

    groups = [group("SEQ", Seq), group("AND", And), group("OR", Or)]
    parenthesised = (pp.Suppress("(") - limited - pp.Suppress(")")).set_name("parenthesised pattern")
    primary = pp.MatchFirst([*groups, conditioned, event, parenthesised]).set_name("pattern part")
    negation = (_keyword("NOT") | pp.Literal("!")).set_name("NOT").set_parse_action(_sign)
    unit = (negation - primary + pp.ZeroOrMore(times)) | (primary + pp.ZeroOrMore(times))
    unit = unit.set_name("pattern part").set_parse_action(_unit)
    connective = (_keyword("AND") | _keyword("OR")).set_name("AND or OR").set_parse_action(_sign)
    pattern << (unit + pp.ZeroOrMore(connective - unit)).set_parse_action(_alternatives)
    return pattern


def _query_rule(
    pattern: pp.ParserElement, expression: pp.ParserElement, name: pp.ParserElement, length: pp.ParserElement
) -> pp.ParserElement:
    def clause(label: str, *parts: pp.ParserElement) -> pp.ParserElement:
        return pp.And(parts).set_name(label).set_parse_action(_clause(label.split()[0].lower()))

    def keyword(*words: str) -> pp.ParserElement:
        return pp.Suppress(_keyword(*words)).set_name(" ".join(words))

    returned = (expression + pp.Opt(pp.Suppress(_keyword("AS")) - name)).set_name("returned aggregate")
    returned.set_parse_action(_returned)
    # A column behind which a list goes on, or ends; most groups are that, and no term has to be looked for.
    column = name + pp.FollowedBy(pp.Regex(rf",|[.;]?{_SPACE}\Z|(?ai:WITHIN|MAX_GAP)\b"))
    group = column | expression + pp.Opt(pp.Suppress(_keyword("AS")) - name)
    group = group.set_name("group").set_parse_action(_group_of)
    policy = pp.MatchFirst([pp.CaselessKeyword(word, word) for word in POLICIES]).set_name("matching policy")
    partition_by = (keyword("PARTITION") - keyword("BY")).set_name("PARTITION BY")
    group_by = (keyword("GROUPBY") | keyword("GROUP") - keyword("BY")).set_name("GROUP BY")
    clauses = [
        pp.Opt(clause("RETURN clause", keyword("RETURN") - _listed(returned))),
        clause("PATTERN clause", keyword("PATTERN") - pattern),
        pp.Opt(clause("WHERE clause", keyword("WHERE") - expression)),
        pp.Opt(clause("MATCHING clause", keyword("MATCHING") - policy)),
        pp.Opt(clause("LONGEST MATCH clause", keyword("LONGEST", "MATCH"))),
        pp.Opt(clause("FIRST MATCH clause", keyword("FIRST", "MATCH"))),
        pp.Opt(clause("AFTER MATCH clause", keyword("AFTER", "MATCH") - keyword("SKIP") - _skip_rule(name))),
        pp.Opt(clause("PARTITION BY clause", partition_by - _listed(name))),
        pp.Opt(clause("GROUP BY clause", group_by - _listed(group))),
        pp.Opt(clause("WITHIN clause", keyword("WITHIN") - length + pp.Opt(keyword("SLIDE") - length))),
        pp.Opt(clause("MAX_GAP clause", keyword("MAX_GAP") - length)),
        pp.Suppress(pp.Opt(pp.Regex(rf"[.;](?={_SPACE}\Z)").set_name(". or ;"))),
        pp.StringEnd().set_name("end of text"),
    ]
    return pp.And(clauses).set_name("query").set_parse_action(_query)


def _skip_rule(name: pp.ParserElement) -> pp.ParserElement:
    """What stands behind AFTER MATCH SKIP; SQL's SKIP TO v is SKIP TO LAST v."""
    ways = [_keyword(*words.split()).set_parse_action(pp.replace_with(to)) for to, words in SKIPS.items()]
    past_last, next_row, to_first, to_last = ways
    to = _keyword("TO").set_parse_action(pp.replace_with(TO_LAST))
    return pp.MatchFirst([past_last, next_row, to_first - name, to_last - name, to - name]).set_name("place to skip to")


# --- Error messages --------------------------------------------------------------------------------------------------


def _explain(text: str, at: int, expected: str) -> ParseError:
    """The error for text that does not fit the grammar at ``at``, where ``expected`` names the rule that failed."""
    at = _skip(text, at)
    broken = _unclosed(text, at)
    if broken is not None:
        return broken
    before = [found.group() for found in _tokens(text) if found.start() < at]
    previous = before[-1] if before else ""
    found = _token(text, at)
    message, hint = _wording(expected, previous, found, before)
    return _error(text, at, message, hint)


def _tokens(text: str, begin: int = 0) -> Iterable[re.Match[str]]:
    at = _skip(text, begin)
    while found := _TOKEN.match(text, at):
        yield found
        at = _skip(text, found.end())


def _unclosed(text: str, at: int) -> ParseError | None:
    """The error for a quote that is never closed, or a bracket before ``at`` that is never closed."""
    opened: list[re.Match[str]] = []
    for found in _tokens(text):
        token = found.group()
        if token in ("'", '"', "`"):
            return _error(
                text, found.start(), f"the {token} that starts here is never closed", f"add a closing {token}"
            )
        if found["open"]:
            opened.append(found)
        elif found["close"]:
            if not opened:
                if found.start() == at:
                    return _error(text, at, f"{token} closes nothing", f"remove it, or open it before {token}")
                return None
            if _CLOSING[opened.pop().group()] != token:
                return None
    if opened and opened[-1].start() < at:
        token = opened[-1].group()
        return _error(text, opened[-1].start(), f"{token} is never closed", f"add a {_CLOSING[token]}")
    return None


def _wording(expected: str, previous: str, found: str, before: list[str]) -> tuple[str, str | None]:
    """What is wrong, and what to do, in the user's words."""
    instead = f"found {found!r}" if found else "the text ends"
    word = previous.upper()
    if expected == "PATTERN":
        return f"PATTERN is missing: {instead}", _SHAPE
    if "pattern" in expected:
        return "a pattern is missing", _missing_pattern(word, found, before)
    if expected.startswith("( after "):
        keyword = expected.removeprefix("( after ")
        return f"{keyword} needs a list of patterns: {instead}", f"write {keyword}(A, B)"
    if expected in ("operand", "expression", "returned aggregate"):
        return _missing_operand(word, found, instead)
    if expected == "unit of time":
        return f"a unit of time is missing after {previous}: {instead}", INTERVALS
    if expected == "length":
        return f"{word} needs a length of time: {instead}", _LENGTHS
    if expected == "matching policy":
        return f"MATCHING needs a policy: {instead}", "write MATCHING ANY, MATCHING NEXT or MATCHING STRICT"
    if expected == "place to skip to":
        return f"AFTER MATCH SKIP does not say where to go on: {instead}", _SKIPS
    if expected == "SKIP":
        return f"AFTER MATCH does not say SKIP: {instead}", _SKIPS
    if expected == "count":
        return f"a number of repetitions is missing: {instead}", "write A{2}, A{2,} or A{2,3}"
    if expected == "end of text":
        return _left_over(word, found, before)
    if expected in ("name", "column name", "group"):
        if found.upper() in RESERVED:
            return f"{found!r} is a reserved word", f"write `{found}` in backquotes to use it as a name"
        if expected == "group":
            return f"a column to group by is missing: {instead}", "write GROUP BY sector, or GROUP BY date(ts) AS day"
        return f"a {expected} is missing: {instead}", "names that are not plain words stand in backquotes"
    sign = expected.strip("'\"")
    if sign in _CLOSING.values():
        return f"{sign} is missing: {instead}", _not_closed(sign, found, before)
    if sign == ".":
        return f"a column is missing: {instead}", f"write {''.join(before[-4:])}.price"
    hints = {"NULL": "write IS NULL or IS NOT NULL", "BY": "write GROUP BY sector"}
    return f"{sign} is missing: {instead}", hints.get(sign, "see the form of a query: " + _SHAPE)


def _not_closed(sign: str, found: str, before: list[str]) -> str:
    if found == "." and sign == "]":
        return "a list in brackets holds columns alone: [company]"
    if found == "." and len(before) > 2 and before[-3].upper() in NEIGHBOURS:
        return f"the column stands behind: {before[-3]}({before[-1]}).price"
    return "separate the parts with commas, or close the list"


def _missing_pattern(word: str, found: str, before: list[str]) -> str:
    if word in ("AND", "OR"):
        return f"{word} needs a pattern on both sides"
    if word in ("NOT", "!"):
        return "NOT needs the pattern that must not happen: SEQ(A, NOT N, B)"
    if word == ",":
        return "remove the comma, or write a part after it"
    if word in ("(", "{") and found in (")", "}"):
        keyword = before[-2].upper() if len(before) > 1 and before[-2].upper() in ("SEQ", "AND", "OR") else "the group"
        return f"{keyword} needs at least one part, as in {keyword}(A, B)" if keyword != "the group" else "write (A)"
    if found.upper() in RESERVED:
        return f"write an event such as A before {found.upper()}; a type of that name stands in backquotes: `{found}`"
    return "write an event such as A, or SEQ(A, B+)"


def _missing_operand(word: str, found: str, instead: str) -> tuple[str, str]:
    if word in ("AND", "OR", "^", "NOT", "!"):
        sides = "a predicate after it" if word in ("NOT", "!") else "a predicate on both sides"
        return f"a predicate is missing after {word}: {instead}", f"{word} needs {sides}"
    if word == "WHERE":
        return f"WHERE needs a predicate: {instead}", "write WHERE b.price > 5, or leave WHERE out"
    if word == "RETURN":
        return f"RETURN needs an aggregate: {instead}", "write RETURN COUNT(*), or leave RETURN out"
    return f"a value is missing after {word}: {instead}", "write a column such as b.price, a number or a 'string'"


def _left_over(word: str, found: str, before: list[str]) -> tuple[str, str]:
    clause = found.upper()
    if clause in _CLAUSES:
        twice = clause in (token.upper() for token in before)
        return f"{clause} stands {'twice' if twice else 'too late'} in the query", _SHAPE
    if clause == "SLIDE":
        return "SLIDE needs a WITHIN before it", "write WITHIN 10 minutes SLIDE 1 minute"
    if clause == "NOT":
        return "cannot read NOT here", "after a value only NOT IN, NOT LIKE and NOT BETWEEN can stand"
    keys = [token.upper().removesuffix("BY") for token in before if token.upper() in ("PARTITION", "GROUP", "GROUPBY")]
    if found == "." and keys:
        return f"{keys[-1]} BY takes columns without an event", f"write {keys[-1]} BY sector"
    if found == "(" and keys and keys[-1] == "PARTITION":
        return "PARTITION BY takes columns alone", "compute it as a column of the DataFrame first, or GROUP BY it"
    if keys and re.fullmatch(ANY_NAME, found):
        return f"cannot read {found!r} here", f"separate columns by commas; a computed group is named by AS {found}"
    if any(token.upper() == "WITHIN" for token in before):
        if re.fullmatch(_PARAMETER, word):
            return f"cannot read {found!r} here", "a parameter is a whole length, with its unit: '10 minutes'"
        return f"cannot read {found!r} here", "a length is a whole number and a unit, such as 10 minutes"
    if any(token.upper() == "WHERE" for token in before):
        return f"cannot read {found!r} here", "join predicates with AND or OR, and write strings in 'quotes'"
    if found == ",":
        return "a pattern of several parts needs SEQ", "write PATTERN SEQ(A, B)"
    return f"cannot read {found!r} here", _SHAPE
