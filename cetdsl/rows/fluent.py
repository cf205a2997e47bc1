"""Translates patterns of events into row patterns: quantifiers are greedy, and earlier alternatives are preferred."""

from __future__ import annotations

from cetdsl.pattern.nodes import And, Event, Or, Pattern, Repeat, Seq
from cetdsl.rows.nodes import Alternation, Concatenation, Permutation, Repetition, RowPattern, Variable


def row_pattern_of(pattern: Pattern) -> RowPattern:
    """Returns the row pattern that is equivalent to a pattern of events.

    Parameters
    ----------
    pattern : Pattern
        A pattern without NOT.

    Returns
    -------
    RowPattern

    Examples
    --------
    >>> row_pattern_of(Seq((Event("a"), Repeat(Event("b"), 1, None))))
    Concatenation(parts=(Variable(name='a'), Repetition(body=Variable(name='b'), low=1, high=None, greedy=True)))
    """
    if isinstance(pattern, Event):
        return Variable(pattern.variable)
    if isinstance(pattern, Repeat):
        return Repetition(row_pattern_of(pattern.part), pattern.at_least, pattern.at_most, True)
    assert isinstance(pattern, (Seq, Or, And)), pattern
    parts = tuple(map(row_pattern_of, pattern.parts))
    if isinstance(pattern, Or):
        return Alternation(parts)
    return Concatenation(parts) if isinstance(pattern, Seq) else Permutation(parts)
