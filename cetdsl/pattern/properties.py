"""What can be said of a pattern without seeing an event: lengths, counts of bindings, who may follow whom.

A pattern is read as a regular expression over its variables. NOT is invisible here: it restricts the gap in which
it stands but binds nothing. AND of single events inside another pattern is each of their orders; AND at the top
is a pair of trends, so that nothing of one side ever follows anything of the other.
"""

from __future__ import annotations

from itertools import product

import attrs

from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, events, positive_events


def sides(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns whose trends a query looks for: both sides of an AND at the top, else the pattern itself."""
    return pattern.parts if isinstance(pattern, And) else (pattern,)


def positive_variables(pattern: Pattern) -> tuple[str, ...]:
    """The variables outside every NOT, each once, in reading order."""
    return tuple(dict.fromkeys(event.variable for event in positive_events(pattern)))


def negated_variables(pattern: Pattern) -> tuple[str, ...]:
    """The variables that occur under a NOT and nowhere else, each once, in reading order."""
    positive = set(positive_variables(pattern))
    return tuple(dict.fromkeys(event.variable for event in events(pattern) if event.variable not in positive))


def nullable(pattern: Pattern) -> bool:
    """Whether the empty sequence is a word of the pattern.

    Examples
    --------
    >>> a = Event("a")
    >>> nullable(Repeat(a, 0, None)), nullable(Seq((a, Repeat(a, 0, 1))))
    (True, False)
    """
    return minimum_length(pattern) == 0


def minimum_length(pattern: Pattern) -> int:
    """The fewest bindings of a word; for AND at the top, of both trends together."""
    return _count(pattern, None)[0]


def maximum_length(pattern: Pattern) -> int | None:
    """The most bindings of a word; None when there is no bound.

    Examples
    --------
    >>> maximum_length(Seq((Event("a"), Repeat(Event("b"), 1, 3)))), maximum_length(Repeat(Event("a")))
    (4, None)
    """
    return _count(pattern, None)[1]


def binds_exactly_one(pattern: Pattern, variable: str) -> bool:
    """Whether each trend binds the variable to one event.

    Under AND at the top only the sides that bind the variable at all are asked.
    """
    return all(_count(side, variable) == (1, 1) for side in _binding_sides(pattern, variable))


def binds_at_most_one(pattern: Pattern, variable: str) -> bool:
    """Whether no trend binds the variable to two events."""
    return all(_count(side, variable) in ((0, 0), (0, 1), (1, 1)) for side in sides(pattern))


def binds_at_least_one(pattern: Pattern, variable: str) -> bool:
    """Whether each trend binds the variable; under AND at the top, each trend of the sides that bind it at all."""
    return all(_count(side, variable)[0] >= 1 for side in _binding_sides(pattern, variable))


def follow_pairs(pattern: Pattern) -> set[tuple[str, str]]:
    """Which variable can be bound directly after which, as (earlier, later).

    Examples
    --------
    >>> a, b = Event("a"), Event("b")
    >>> sorted(follow_pairs(Seq((a, Repeat(b)))))
    [('a', 'b'), ('b', 'b')]
    """
    return set().union(*(_ends(side).follow for side in sides(pattern)))


def bound_together(pattern: Pattern) -> set[tuple[str, str]]:
    """The pairs of variables, in both orders, that one trend can bind.

    Examples
    --------
    >>> a, b, c = Event("a"), Event("b"), Event("c")
    >>> sorted(bound_together(Seq((a, Or((b, c))))))
    [('a', 'b'), ('a', 'c'), ('b', 'a'), ('c', 'a')]
    """
    return set().union(*(_together(side) for side in sides(pattern)))


def _binding_sides(pattern: Pattern, variable: str) -> tuple[Pattern, ...]:
    return tuple(side for side in sides(pattern) if variable in positive_variables(side)) or (pattern,)


def _count(pattern: Pattern, variable: str | None) -> tuple[int, int | None]:
    """Fewest and most bindings of a variable, or of any when ``variable`` is None."""
    if isinstance(pattern, Not):
        return 0, 0
    if isinstance(pattern, Event):
        hit = int(variable is None or pattern.variable == variable)
        return hit, hit
    inner = [_count(child, variable) for child in pattern.children]
    low, high = [pair[0] for pair in inner], [pair[1] for pair in inner]
    if isinstance(pattern, Or):
        return min(low), _no_bound_wins(high, max)
    if isinstance(pattern, Repeat):
        most = 0 if high[0] == 0 else None if None in (high[0], pattern.at_most) else high[0] * pattern.at_most  # type: ignore[operator]
        return low[0] * pattern.at_least, most
    return sum(low), _no_bound_wins(high, sum)


def _no_bound_wins(bounds: list[int | None], combine: object) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return combine(known) if len(known) == len(bounds) else None  # type: ignore[operator]


@attrs.frozen
class _Ends:
    nullable: bool
    first: frozenset[str]
    last: frozenset[str]
    follow: frozenset[tuple[str, str]]


_NOTHING = _Ends(True, frozenset(), frozenset(), frozenset())


def _ends(pattern: Pattern) -> _Ends:
    if isinstance(pattern, Not):
        return _NOTHING
    if isinstance(pattern, Event):
        own = frozenset({pattern.variable})
        return _Ends(False, own, own, frozenset())
    inner = [_ends(child) for child in pattern.children]
    if isinstance(pattern, Seq):
        whole = _NOTHING
        for part in inner:
            whole = _joined(whole, part)
        return whole
    first = frozenset().union(*(part.first for part in inner))
    last = frozenset().union(*(part.last for part in inner))
    follow = frozenset().union(*(part.follow for part in inner))
    if isinstance(pattern, Or):
        return _Ends(any(part.nullable for part in inner), first, last, follow)
    if isinstance(pattern, Repeat):
        if pattern.at_most is None or pattern.at_most > 1:
            follow |= frozenset(product(last, first))
        return _Ends(inner[0].nullable or pattern.at_least == 0, first, last, follow)
    for i, earlier in enumerate(inner):
        for j, later in enumerate(inner):
            if i != j:
                follow |= frozenset(product(earlier.last, later.first))
    return _Ends(all(part.nullable for part in inner), first, last, follow)


def _joined(left: _Ends, right: _Ends) -> _Ends:
    return _Ends(
        left.nullable and right.nullable,
        left.first | right.first if left.nullable else left.first,
        left.last | right.last if right.nullable else right.last,
        left.follow | right.follow | frozenset(product(left.last, right.first)),
    )


def _together(pattern: Pattern) -> set[tuple[str, str]]:
    if isinstance(pattern, (Not, Event)):
        return set()
    inner: set[tuple[str, str]] = set().union(*(_together(child) for child in pattern.children))
    names = [positive_variables(child) for child in pattern.children]
    if isinstance(pattern, Repeat) and (pattern.at_most is None or pattern.at_most > 1):
        names = names * 2
    if isinstance(pattern, Or):
        return inner
    for i, left in enumerate(names):
        for j, right in enumerate(names):
            if i != j:
                inner |= set(product(left, right))
    return inner
