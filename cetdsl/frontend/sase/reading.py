"""Reads query texts, and parts of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

import attrs
import pyparsing as pp

from cetdsl.errors import InvalidNode, ParseError, nearest
from cetdsl.frontend.sase.clauses import split_where, type_names
from cetdsl.frontend.sase.grammar import LOCK, rules_for
from cetdsl.frontend.sase.messages import SHAPE, explain_failure
from cetdsl.frontend.sase.terms import VALUES, of_columns, own_columns
from cetdsl.frontend.sase.tokens import (
    QUOTED_NAME,
    SPACE,
    error_at,
    refuse_surrogates,
    skip_blanks,
    tokens_from,
)
from cetdsl.pattern.expressions import DEEPEST, Expr, Literal, transform
from cetdsl.pattern.nodes import Pattern, Within
from cetdsl.pattern.nodes import transform as transform_pattern
from cetdsl.pattern.query import Query

T = TypeVar("T")

_NAMED = re.compile(rf"NAME{SPACE}(?P<name>(?P<plain>[^\W\d]\w*)|(?P<quoted>{QUOTED_NAME})){SPACE}:", re.IGNORECASE)
_NO_PARAMETERS: Mapping[str, Literal] = MappingProxyType({})


def _as_argument(name: str) -> str:
    return f"give it: cet.parse(text, {name}=...)" if name.isascii() else "give it as an argument of cet.parse"


def in_parameters(name: str) -> str:
    """Returns the hint for a parameter without a value where values are given together, as for a workload."""
    return f"give it: parameters={{{name!r}: ...}}"


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
    return {found["parameter"][1:] for found in tokens_from(text) if found["parameter"]}


def refuse_unused(parameters: Iterable[str], mentioned: Collection[str]) -> None:
    """Refuses parameters that no text mentions."""
    known = {f":{name}" for name in mentioned}
    for name in parameters:
        if name not in mentioned:
            every = f"the text has {', '.join(sorted(known))}" if known else f"write :{name} where its value belongs"
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
    refuse_surrogates(text)
    queries: dict[str, Query] = {}
    for start, stop in _statements(text):
        named = _NAMED.match(text, start, stop)
        if named is None:
            message = "a query has no name" if stop > start else "a query is missing before the semicolon"
            hint = "begin each query with NAME and a colon: NAME q1: RETURN ..."
            raise error_at(text, start, message, hint)
        name = named["plain"] or named["quoted"][1:-1].replace("``", "`")
        if name in queries:
            raise error_at(
                text, named.start("name"), f"there are two queries of the name {name!r}", "rename one of them"
            )
        queries[name] = _parse_part(text, named.end(), stop, parameters)
    if not queries:
        raise ParseError("there is no query in the text", hint="write NAME q1: RETURN ... PATTERN ...;")
    refuse_unused(parameters, parameters_in(text))
    return queries


def _statements(text: str) -> Iterable[tuple[int, int]]:
    """Yields the begin and end of each part of a text between semicolons, without leading blanks and comments."""
    start = skip_blanks(text, 0)
    for token in tokens_from(text):
        if token.group() == ";":
            yield start, token.start()
            start = skip_blanks(text, token.end())
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
    >>> from cetdsl.pattern.nodes import Event
    >>> predicates, columns = parse_predicates("[company] AND s.price > 5 AND s.volume > 0", Event("s", "Stock"))
    >>> len(predicates), columns
    (2, ('company',))
    """
    where, columns = split_where(_read(text, Expr), text)
    rename = type_names(pattern)
    return tuple(transform(part, rename) for part in where), columns


def parse_condition(text: str, variable: str) -> Expr:
    """The condition of the event ``variable``, whose columns may stand without it.

    Examples
    --------
    >>> parse_condition("amount > 1000", "big").left
    Attribute(variable='big', name='amount', role=<Role.EACH: 'each'>, index=None)
    """
    return own_columns(_read(text, Expr), variable, text)


def parse_group(text: str) -> Expr:
    """A term over the columns of one event, to group by.

    Examples
    --------
    >>> parse_group("date(ts)").arguments
    (Attribute(variable=None, name='ts', role=<Role.EACH: 'each'>, index=None),)
    """
    return of_columns(_read(text, Expr), text)


def grammar() -> pp.ParserElement:
    """The pyparsing grammar of a query, each rule named, for diagrams and tools.

    Examples
    --------
    >>> grammar().name
    'query'
    """
    return rules_for(commented=True).query


def _too_deep(text: str) -> ParseError:
    """The error for a text that nests too deeply; it points to the innermost bracket."""
    depth, most, place = 0, 0, None
    for token in tokens_from(text):
        depth += bool(token["open"]) - bool(token["close"])
        if depth > most:
            most, place = depth, token.span()
    inside = f": {most:,} brackets stand inside each other" if most > DEEPEST else ""
    return ParseError(
        f"the query is nested too deeply{inside}",
        hint=f"remove what changes nothing; up to {DEEPEST} levels can be read",
        span=place,
        text=text,
    )


def _read(
    text: object,
    kind: type[T],
    parameters: Mapping[str, Literal] = _NO_PARAMETERS,
    advice: Callable[[str], str] = _as_argument,
) -> T:
    """The query or the expression that a text states."""
    if not isinstance(text, str):
        raise InvalidNode(f"a query text is a string, not {type(text).__name__}")
    refuse_surrogates(text)
    if skip_blanks(text, 0) == len(text):
        raise ParseError("the text is empty", hint=SHAPE if kind is Query else "write a predicate such as b.price > 5")
    values = VALUES.set((parameters, advice))
    try:
        with LOCK:
            rules = rules_for(commented="--" in text)
            (result,) = (rules.query if kind is Query else rules.expression).parse_string(text)
    except pp.ParseBaseException as error:
        raise explain_failure(text, error.loc, error.msg.removeprefix("Expected ")) from None
    except RecursionError:
        raise _too_deep(text) from None
    finally:
        VALUES.reset(values)
    assert isinstance(result, kind)
    return result
