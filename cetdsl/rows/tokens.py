"""Splits Spark's SQL into tokens, so that no parser reads into comments, strings and quoted names."""

from __future__ import annotations

import re
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
    def name(self) -> str:
        """The text without quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text


_BLANK = re.compile(r"(?:\s+|--[^\n\r]*)+")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_TOKEN = re.compile(
    r"""(?P<string>[rR]'[^']*'|[rR]"[^"]*"|[xX]'[^']*'|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LSYFDlsyfd])?(?!\w))"
    r"|(?P<word>\w+)"
    r"|(?P<symbol><=>|<=|>=|<>|!=|==|!<|!>|<<|>>>|>>|\|\||->|=>|::|\{-|-\}|[^\s'\"`])",
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
