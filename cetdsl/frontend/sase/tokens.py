"""The tokens of a query text, and errors at places in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, TypeVar

import pyparsing as pp

from cetdsl.errors import CetdslError, ParseError

T = TypeVar("T")

# No part of a text can be split in two ways by any of these: what does not match is found out in one pass.
COMMENT = r"--[^\n\r]*"
SPACE = rf"\s*(?:{COMMENT}(?:[\n\r]\s*|\Z))*"
QUOTED_NAME = r"`(?:[^`]|``)+`"
#: Backquotes without a name: only the type of an event may be empty, as any other text.
NO_NAME = "``(?!`)"
STRING = r"'[^']*(?:''[^']*)*'" + r'|"[^"]*(?:""[^"]*)*"'
DIGITS = "[0-9]+"
PARAMETER = r":[^\W\d]\w*"
_TOKEN = re.compile(
    rf"(?P<string>{STRING})|(?P<quoted>{QUOTED_NAME})|{NO_NAME}|(?P<parameter>{PARAMETER})|(?P<word>\w+)"
    rf"|(?P<open>[(\[{{])|(?P<close>[)\]}}])|<=|>=|==|!=|<>|\S"
)
_BLANK = re.compile(SPACE)
CLOSING = {"(": ")", "[": "]", "{": "}"}


def skip_blanks(text: str, at: int) -> int:
    """The place of the next token."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def token_at(text: str, at: int) -> str:
    """The token at a place, or behind the blanks there; "" at the end."""
    found = _TOKEN.match(text, skip_blanks(text, at))
    return found.group() if found else ""


def tokens_from(text: str, begin: int = 0) -> Iterable[re.Match[str]]:
    """The tokens of a text from a place on."""
    at = skip_blanks(text, begin)
    while found := _TOKEN.match(text, at):
        yield found
        at = skip_blanks(text, found.end())


def tokens_before(text: str, at: int) -> list[str]:
    """Returns the tokens of a text that begin before a place."""
    return [found.group() for found in tokens_from(text) if found.start() < at]


def is_no_event(name: str, before: list[str]) -> bool:
    """Whether a name before a dot is certainly no event: the pattern stands in the tokens before it, without the name.

    Examples
    --------
    >>> is_no_event("st", ["PATTERN", "A", "GROUP", "BY"]), is_no_event("A", ["PATTERN", "A", "GROUP", "BY"])
    (True, False)
    """
    alone = {token for token, behind in pairwise([*before, ""]) if behind != "."}
    return "PATTERN" in map(str.upper, before) and name not in alone and f"`{name}`" not in alone


def error_at(text: str, at: int, message: str, hint: str | None = None) -> ParseError:
    """The error that points to the token at a place."""
    start = skip_blanks(text, at)
    if start == len(text):
        start = len(text.rstrip())
    return ParseError(message, hint=hint, span=(start, start + max(1, len(token_at(text, start)))), text=text)


def checked(text: str, at: int, build: Callable[..., T], *arguments: Any, hint: str | None = None) -> T:
    """``build(*arguments)``, whose refusal becomes an error with a place, and with ``hint`` if it has none."""
    try:
        return build(*arguments)
    except ParseError:
        raise
    except CetdslError as error:
        raise error_at(text, at, error.message, error.hint or hint) from None


def placed(action: Callable[[str, int, pp.ParseResults], T]) -> Callable[[str, int, pp.ParseResults], T]:
    """The parse action, whose refusals get a place."""
    return lambda text, at, tokens: checked(text, at, action, text, at, tokens)


def refuse_surrogates(text: str) -> None:
    """Raises for a text with halves of characters, which are there when it was decoded by a wrong encoding."""
    found = re.search("[\ud800-\udfff]", text)
    if found is not None:
        # The text of the error must be one that can be printed.
        raise error_at(
            text.encode(errors="replace").decode(),
            found.start(),
            f"{found[0]!r} is half of a surrogate pair, which is no character",
            "decode what the text was read from with the right encoding",
        )
