"""Patterns of events as row patterns: all their quantifiers are greedy, and earlier alternatives are preferred."""

from __future__ import annotations

from cetdsl.errors import UnsupportedQuery
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq
from cetdsl.pattern.text import quote
from cetdsl.rows.nodes import Alternation, Concatenation, Permutation, Repetition, RowPattern, Variable


def row_pattern_of(pattern: Pattern) -> RowPattern:
    """The row pattern that says the same.

    Parameters
    ----------
    pattern : Pattern

    Returns
    -------
    RowPattern

    Raises
    ------
    UnsupportedQuery
        If it holds a NOT.

    Examples
    --------
    >>> row_pattern_of(Seq((Event("a"), Repeat(Event("b"), 1, None))))
    Concatenation(parts=(Variable(name='a'), Repetition(body=Variable(name='b'), low=1, high=None, greedy=True)))
    """
    if isinstance(pattern, Event):
        return Variable(pattern.variable)
    if isinstance(pattern, Repeat):
        return Repetition(row_pattern_of(pattern.part), pattern.at_least, pattern.at_most, True)
    if isinstance(pattern, Not):
        raise UnsupportedQuery(
            f"{quote(pattern)} where matches are taken one at a time, which binds rows and knows no NOT",
            hint="ask for trends(), or say of a variable beside it what its events must not be",
        )
    assert isinstance(pattern, (Seq, Or, And)), pattern
    parts = tuple(map(row_pattern_of, pattern.parts))
    if isinstance(pattern, Or):
        return Alternation(parts)
    return Concatenation(parts) if isinstance(pattern, Seq) else Permutation(parts)
