"""Finds the clauses MATCH_RECOGNIZE in a query of Spark's SQL.

A clause follows a table. The table becomes a query of its own. In the rest of the query, a name for the answer takes
the place of table and clause, so that Spark reads this rest as usual.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from cetdsl.errors import ParseError
from cetdsl.rows.tokens import Kind, tokens_of, word_at
from cetdsl.rows.words import SYNTAX, UNITS

#: The tokens that may come before a table, besides an opening parenthesis.
_BEFORE_TABLE = ("FROM", "JOIN", "LATERAL", ",")

#: The statements that may keep a query for later, and the words for what keeps it; CACHE TABLE makes a view, too.
_MAY_KEEP, _KEPT = ("CREATE", "ALTER", "CACHE"), ("VIEW", "FUNCTION")


@attrs.frozen
class FoundClause:
    """A clause in a query, by offsets into its text.

    Parameters
    ----------
    table : tuple of int
        The begin and end of the table that the clause follows, with its alias if it has one.
    body : tuple of int
        The begin and end of the text in the parentheses of the clause.
    end : int
        The end of the clause.
    scopes : tuple of tuple of int
        The begin and end of the named queries to which the table may refer, as ``RECURSIVE name AS (...), ...``: one
        pair for each WITH, the outermost first.
    """

    table: tuple[int, int]
    body: tuple[int, int]
    end: int
    scopes: tuple[tuple[int, int], ...]


def clauses_of(text: str) -> list[FoundClause]:
    """Returns the clauses of a query, in the order of its text.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of FoundClause

    Raises
    ------
    ParseError
        If a clause has no table or does not end.

    Examples
    --------
    >>> text = "SELECT * FROM prices AS p MATCH_RECOGNIZE (PATTERN (A)) AS m -- MATCH_RECOGNIZE (...)"
    >>> [found] = clauses_of(text)
    >>> text[slice(*found.table)], text[slice(*found.body)]
    ('prices AS p', 'PATTERN (A)')
    """
    return list(_Query(text).clauses())


def kept_query(text: str) -> tuple[int, int] | None:
    """Returns the part of a statement that says that Spark keeps its query, to run it later; None if it runs at once.

    Examples
    --------
    >>> text = "CREATE OR REPLACE TEMP VIEW v AS SELECT 1"
    >>> text[slice(*kept_query(text))], kept_query("CREATE TABLE view AS SELECT 1")
    ('CREATE OR REPLACE TEMP VIEW', None)
    """
    tokens = tokens_of(text)
    first = tokens[0].upper if tokens else ""
    kinds = [token for token in tokens if token.upper in ("TABLE", *_KEPT)] if first in _MAY_KEEP else []
    if not kinds or not (first == "CACHE" or kinds[0].upper in _KEPT):
        return None
    return tokens[0].start, kinds[0].end


class Pieces:
    """The text of a query in which parts are replaced by names."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._names: dict[tuple[int, int], str] = {}

    def replace(self, begin: int, end: int, name: str) -> None:
        """Replaces a part by a name, with all names that have been put into it before."""
        self._names = {span: known for span, known in self._names.items() if not begin <= span[0] < end}
        self._names[begin, end] = name

    def place(self, offset: int, width: int) -> int:
        """Returns the offset in the original text for an offset in the text with names of ``width`` characters each."""
        longer = 0
        for start, stop in sorted(self._names):
            if offset < start + longer:
                break
            if offset < start + longer + width:
                return start
            longer += width - (stop - start)
        return offset - longer

    def text(self, begin: int = 0, end: int | None = None) -> str:
        """Returns a part of the text, with the names in it."""
        end, place, parts = len(self._text) if end is None else end, begin, list[str]()
        for (start, stop), name in sorted(self._names.items()):
            if begin <= start and stop <= end:
                parts += [self._text[place:start], name]
                place = stop
        return "".join([*parts, self._text[place:end]])


class _Query:
    """The tokens of a query.

    For each opening parenthesis there is the place of the closing one, and for each token the place of the opening
    parenthesis around it (-1: none).
    """

    def __init__(self, text: str) -> None:
        self._text, self._tokens = text, tokens_of(text)
        self._closing: dict[int, int] = {}
        self._around: list[int] = []
        opened: list[int] = []
        for place, token in enumerate(self._tokens):
            if token.upper == ")" and opened:
                self._closing[opened.pop()] = place
            self._around.append(opened[-1] if opened else -1)
            if token.upper == "(":
                opened.append(place)

    def clauses(self) -> Iterator[FoundClause]:
        for place, token in enumerate(self._tokens[:-1]):
            if token.upper == "MATCH_RECOGNIZE" and self._tokens[place + 1].upper == "(":
                yield self._clause(place)

    def _clause(self, place: int) -> FoundClause:
        token, tokens = self._tokens[place], self._tokens
        closing = self._closing.get(place + 1)
        if closing is None:
            span = tokens[place + 1].span
            raise ParseError("MATCH_RECOGNIZE ( does not end", hint="close it with )", span=span, text=self._text)
        first = self._table_before(place)
        words = {tokens[n].upper for n in range(first, place) if self._around[n] == self._around[place]}
        if first == place or words & {"ON", "USING", "SELECT", "WHERE"}:
            hint = "write FROM table MATCH_RECOGNIZE ( ... ), or FROM (SELECT ...) MATCH_RECOGNIZE ( ... )"
            raise ParseError("MATCH_RECOGNIZE stands behind no table", hint=hint, span=token.span, text=self._text)
        body = (tokens[place + 1].end, tokens[closing].start)
        return FoundClause((tokens[first].start, tokens[place - 1].end), body, tokens[closing].end, self._scopes(place))

    def _table_before(self, place: int) -> int:
        """Returns the first token of the table that ends before a place."""
        around, first = self._around[place], place
        while first > around + 1:
            before = self._tokens[first - 1]
            if self._around[first - 1] == around and before.upper in _BEFORE_TABLE:
                rows = self._values_before(first - 1, around) if before.upper == "," else None
                return first if rows is None else rows
            first -= 1
        return first

    def _values_before(self, comma: int, around: int) -> int | None:
        """Returns the place of VALUES if a comma separates two of its rows; None if it separates tables."""
        for place in range(comma - 1, around, -1):
            if self._around[place] != around:
                continue
            if self._upper(place) == "VALUES":
                return place
            if self._upper(place) in ("AS", *_BEFORE_TABLE[:-1]) or self._is_alias(place):
                return None
        return None

    def _is_alias(self, place: int) -> bool:
        """Whether a word comes right behind a value, so that it names the table of VALUES."""
        token, before = self._tokens[place], self._tokens[place - 1]
        is_value = before.kind in (Kind.NUMBER, Kind.STRING) or before.upper in (")", "]", "TRUE", "FALSE", "NULL")
        return token.is_name and is_value and token.upper not in SYNTAX | UNITS

    def _scopes(self, place: int) -> tuple[tuple[int, int], ...]:
        scopes, around = list[tuple[int, int]](), place
        while around >= 0:
            around = self._around[around]
            scopes[:0] = self._named_before(around, place)
        return tuple(scopes)

    def _named_before(self, around: int, place: int) -> Iterator[tuple[int, int]]:
        """Yields, for each WITH directly within a parenthesis or statement, its named queries that end before a place.

        ``WITH a AS (...) INSERT INTO t WITH b AS (...) SELECT ...`` has two.
        """
        at = around + 1
        while at < place:
            word = self._upper(at) if self._around[at] == around else ""
            if word in ("SELECT", "FROM"):
                break
            last = self._last_of_named(at + 1, place) if word == "WITH" else None
            if last is not None:
                yield self._tokens[at + 1].start, self._tokens[last].end
                at = last
            at += 1

    def _last_of_named(self, first: int, place: int) -> int | None:
        """Returns where the last of the named queries of a WITH ends that ends before a place; None if none does."""
        name = first + (self._upper(first) == "RECURSIVE" and self._upper(first + 1) != "AS")
        end = None
        while (closing := self._closing_of_named(name)) is not None and closing < place:
            end = closing
            if self._upper(closing + 1) != ",":
                break
            name = closing + 2
        return end

    def _closing_of_named(self, name: int) -> int | None:
        """Returns where ``name (columns) MAX RECURSION LEVEL n AS (...)`` ends; None if there is no such query."""
        at = name + 1
        columns = self._closing.get(at)
        if columns is not None and self._upper(columns + 1) in ("MAX", "AS", "("):
            at = columns + 1
        at += 4 * (self._upper(at) == "MAX")
        at += self._upper(at) == "AS"
        return self._closing.get(at)

    def _upper(self, place: int) -> str:
        return word_at(self._tokens, place)


def table_query(pieces: Pieces, found: FoundClause) -> str:
    """Returns the query for the table of a clause, with the named queries to which it may refer."""
    query = f"SELECT * FROM {pieces.text(*found.table)}"
    for scope in reversed(found.scopes):
        inner = query if scope is found.scopes[-1] else f"SELECT * FROM ({query})"
        query = f"WITH {pieces.text(*scope)} {inner}"
    return query
