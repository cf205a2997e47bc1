"""Splits Spark's SQL into tokens, so that no parser reads into comments, strings and quoted names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

import attrs

from cetdsl.errors import ParseError


class Kind(Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@attrs.frozen
class Token:
    """A word of a text, and where it stands."""

    kind: Kind
    text: str
    start: int = attrs.field(eq=False, repr=False)
    end: int = attrs.field(eq=False, repr=False)

    @property
    def span(self) -> tuple[int, int]:
        """The offsets of its begin and end, in characters."""
        return self.start, self.end

    @property
    def upper(self) -> str:
        """The text of a plain word, in upper case, or of a symbol; empty for other tokens, which are never keywords."""
        if self.kind is Kind.WORD:
            return self.text.upper()
        return self.text if self.kind is Kind.SYMBOL else ""

    @property
    def is_name(self) -> bool:
        """Whether it can name something."""
        return self.kind in (Kind.WORD, Kind.QUOTED)

    @property
    def is_in_double_quotes(self) -> bool:
        """Whether it is a text in double quotes, which other engines take for a name."""
        return self.kind is Kind.STRING and self.text.startswith('"')

    @property
    def name(self) -> str:
        """The text without quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text


#: The hint for a name in double quotes.
IN_BACKQUOTES = "to Spark, a word in double quotes is a text: write the name in backquotes"

_BLANK = re.compile(r"(?:\s+|--[^\n\r]*)+")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_TOKEN = re.compile(
    r"""(?P<string>[rR]'[^']*'|[rR]"[^"]*"|[xX]'[^']*'|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LSYFDlsyfd])?(?!\w))"
    r"|(?P<word>\w+)"
    r"|(?P<symbol><=>|<=|>=|<>|!=|==|!<|!>|<<|>>>|>>|\|\||\|>|->|=>|::|\{-|-\}|[^\s'\"`])",
    re.DOTALL,
)
_KINDS = {"string": Kind.STRING, "quoted": Kind.QUOTED, "number": Kind.NUMBER, "word": Kind.WORD, "symbol": Kind.SYMBOL}


def tokens_of(text: str) -> list[Token]:
    """Returns the tokens of a text, without blanks and comments.

    Parameters
    ----------
    text : str
        A text in Spark's SQL.

    Raises
    ------
    ParseError
        If a string, a quoted name or a comment does not end.

    Examples
    --------
    >>> [token.text for token in tokens_of("PATTERN (A+ {- B -}) -- a comment")]
    ['PATTERN', '(', 'A', '+', '{-', 'B', '-}', ')']
    """
    found: list[Token] = []
    place = 0
    while place < len(text):
        if blank := _BLANK.match(text, place):
            place = blank.end()
        elif text.startswith("/*", place):
            place = _end_of_comment(text, place)
        else:
            token = _TOKEN.match(text, place)
            if token is None:
                what = "quoted name" if text[place] == "`" else "string"
                raise ParseError(
                    f"a {what} does not end", hint=f"close it with {text[place]}", span=(place, place + 1), text=text
                )
            assert token.lastgroup is not None
            found.append(Token(_KINDS[token.lastgroup], token.group(), place, token.end()))
            place = token.end()
    return found


def _end_of_comment(text: str, start: int) -> int:
    """Returns the end of a comment, which may hold others."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            return edge.end()
    raise ParseError("a comment does not end", hint="close it with */", span=(start, start + 2), text=text)


def word_at(tokens: Sequence[Token], place: int) -> str:
    """Returns the plain word or symbol at a place, in upper case; empty for other tokens, and outside of the text."""
    return tokens[place].upper if 0 <= place < len(tokens) else ""


def closing_of(tokens: Sequence[Token], place: int, end: int, *separators: str) -> int:
    """Returns the place of the bracket that closes those around a place, or of the first separator before it.

    If there is neither before ``end``, that is returned. Commas of a type, as in ``x::map<string, int>``, are no
    separators.
    """
    depth = 0
    while place < end:
        word = tokens[place].upper
        if word in ("(", "["):
            depth += 1
        elif word in (")", "]"):
            depth -= 1
            if depth < 0:
                return place
        elif not depth and word in separators:
            return place
        place = end_of_type(tokens, place + 1) if word == "::" else place + 1
    return end


def openings_of(tokens: Sequence[Token]) -> list[int]:
    """Returns for each token the place of the bracket that opens the innermost one around it; -1 if there is none."""
    found, around = list[int](), list[int]()
    for place, token in enumerate(tokens):
        if token.upper in (")", "]") and around:
            around.pop()
        found.append(around[-1] if around else -1)
        if token.upper in ("(", "["):
            around.append(place)
    return found


def arguments_of(tokens: Sequence[Token], opening: int) -> list[tuple[int, int]]:
    """Returns what commas separate after the bracket at a place: the first place of each part, and the one after it."""
    begin, closing = opening + 1, closing_of(tokens, opening + 1, len(tokens))
    found = list[tuple[int, int]]()
    while begin <= closing and opening + 1 < closing:
        stop = closing_of(tokens, begin, closing, ",")
        found.append((begin, stop))
        begin = stop + 1
    return found


def end_of_type(tokens: Sequence[Token], place: int) -> int:
    """Returns the place after a type that begins at a place, such as ``int`` or ``array<struct<x: int, y: date>>``."""
    place += 1
    if place < len(tokens) and tokens[place].upper == "(":
        return min(closing_of(tokens, place + 1, len(tokens)) + 1, len(tokens))
    if place < len(tokens) and tokens[place].upper == "<>":
        return place + 1
    if place == len(tokens) or tokens[place].upper != "<":
        return min(place, len(tokens))
    depth = 0
    for after in range(place, len(tokens)):
        word = tokens[after].upper
        depth += 1 if word == "<" else -len(word) if word in (">", ">>", ">>>") else 0
        if depth <= 0:
            return after + 1
    return len(tokens)
