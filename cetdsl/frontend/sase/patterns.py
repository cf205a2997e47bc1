"""Parse actions that build patterns, as :mod:`~cetdsl.frontend.sase.terms` builds terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import pyparsing as pp

from cetdsl.errors import InvalidNode, shown, whole_number
from cetdsl.frontend.sase.terms import Sign, own_columns, whole_number_of
from cetdsl.frontend.sase.tokens import checked, error_at, skip_blanks, tokens_from
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Within


@attrs.frozen
class Times:
    """A postfix of a pattern."""

    at_least: int
    at_most: int | None
    at: int


@attrs.frozen
class Brackets:
    """``s[]``: marks that the variable stands for several events."""

    at: int


def times(text: str, at: int, tokens: pp.ParseResults) -> Times:
    sign = tokens[0]
    if sign != "{":
        low, high = {"+": (1, None), "*": (0, None), "?": (0, 1)}[sign]
        return Times(low, high, at)
    counts = [token for token in tokens[1:] if isinstance(token, int)]
    unbounded = len(counts) == 1 and "," in list(tokens)
    return Times(counts[0], None if unbounded else counts[-1], at)


def written_count(text: str, at: int, tokens: pp.ParseResults) -> int:
    return checked(text, at, whole_number_of, tokens[0])


def repetitions(value: object) -> int:
    """A number of repetitions that is given as a value."""
    number = whole_number(value)
    if number is None or number < 0:
        raise InvalidNode(
            f"{shown(value)} is no number of repetitions", hint="pass a whole number from 0 on, as of A{2,3}"
        )
    return number


def _repeated(text: str, part: Pattern, times: Iterable[Times]) -> Pattern:
    """A part of a pattern with its postfixes."""
    repeated = False
    for item in times:
        if repeated and (item.at_least, item.at_most) == (0, 1):
            raise error_at(
                text,
                item.at,
                "a ? behind a repetition would say that it is reluctant, but all matches count here",
                "leave it out; a repetition that may be left out stands in parentheses: (A+)?",
            )
        repeated = True
        part = checked(text, item.at, Repeat, part, item.at_least, item.at_most)
    return part


def event(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    names = [token for token in tokens if isinstance(token, str)]
    times = [token for token in tokens if isinstance(token, Times)]
    brackets = [token for token in tokens if isinstance(token, Brackets)]
    if brackets and not times:
        raise error_at(
            text,
            brackets[0].at,
            f"{names[-1]}[] stands for several events, but {names[0]} is not repeated",
            f"write {names[0]}+ {names[-1]}[], or leave out the brackets",
        )
    return _repeated(text, checked(text, at, Event, names[-1], names[0]), times)


def event_with_condition(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    names = [token for token in tokens if isinstance(token, str)]
    conditions = [own_columns(token, names[-1], text) for token in tokens if isinstance(token, Expr)]
    kind = names[0] if len(names) > 1 else None
    return checked(text, at, Event, names[-1], kind, conditions[0] if conditions else None)


def group(word: str, kind: type[Pattern]) -> Callable[[str, int, pp.ParseResults], Pattern]:
    def build(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
        return checked(text, at, kind, tuple(tokens), hint=f"write {word}(A, B)")

    return build


def limited(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    """A part of a pattern, with its WITHIN if it has one."""
    part, *length = tokens
    assert isinstance(part, Pattern)
    if not length:
        return part
    whole: Within = checked(text, at, Within, part, *length)
    begin = skip_blanks(text, at)
    return attrs.evolve(whole, written=(text, (begin, _end_of_part(text, begin))))


def _end_of_part(text: str, begin: int) -> int:
    """Returns the end of a part of a list, or of the text in parentheses."""
    depth, end = 0, begin
    for token in tokens_from(text, begin):
        depth += bool(token["open"]) - bool(token["close"])
        if depth < 0 or (depth == 0 and token.group() == ","):
            break
        end = token.end()
    return end


def unit(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    negated = isinstance(tokens[0], Sign)
    part, *times = tokens[1:] if negated else tokens
    whole = _repeated(text, part, times)
    return checked(text, at, Not, whole) if negated else whole


def alternatives(text: str, at: int, tokens: pp.ParseResults) -> Pattern:
    """``A AND B OR C``: AND binds stronger."""
    sides: list[list[Pattern]] = [[]]
    begin = blamed = at
    for token in tokens:
        if isinstance(token, Pattern):
            sides[-1].append(token)
            if isinstance(token, Not):  # which stands neither in AND nor in OR
                blamed = begin
        else:
            begin = token.at + len(token.word)
            if token.word == "or":
                sides.append([])
    parts = [side[0] if len(side) == 1 else checked(text, blamed, And, tuple(side)) for side in sides]
    return parts[0] if len(parts) == 1 else checked(text, blamed, Or, tuple(parts))
