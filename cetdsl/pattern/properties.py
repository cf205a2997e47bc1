"""Static properties of a pattern: lengths, counts of bindings, and which variables may follow each other.

A pattern is read as a regular expression over its variables. NOT is invisible here: it restricts the gap in which
it stands but binds nothing. AND of single events inside another pattern is each of their orders; AND at the top
is a set of trends, one of each side, so that nothing of one side ever follows anything of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from itertools import combinations, product
from typing import TypeVar

from cetdsl.pattern.expressions import Expr, variables
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, events, positive_events

_Property = TypeVar("_Property")
#: So many patterns are remembered with what was found out about them.
_REMEMBERED = 64


class _Same:
    """A pattern that is known by being the same object: to compare patterns takes as long as to look through them."""

    __slots__ = ("pattern",)

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.pattern is other.pattern

    def __hash__(self) -> int:
        return id(self.pattern)


def _once_per_pattern(find: Callable[[Pattern], _Property]) -> Callable[[Pattern], _Property]:
    """Caches the results of ``find``, as each predicate of a query needs the same ones."""
    remembered = lru_cache(_REMEMBERED)(lambda same: find(same.pattern))

    @wraps(find)
    def found(pattern: Pattern) -> _Property:
        return remembered(_Same(pattern))

    return found


def sides(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns whose trends a query looks for: the sides of an AND at the top, else the pattern itself."""
    return pattern.parts if isinstance(pattern, And) else (pattern,)


def joins_events(pattern: Pattern) -> bool:
    """Whether the pattern is an AND at the top of single events, each bound to a variable of its own.

    Examples
    --------
    >>> a, b = Event("a"), Event("b")
    >>> joins_events(And((a, b))), joins_events(And((a, a))), joins_events(And((a, Repeat(b))))
    (True, False, False)
    """
    if not isinstance(pattern, And):
        return False
    names = [part.variable for part in pattern.parts if isinstance(part, Event)]
    return len(names) == len(set(names)) == len(pattern.parts)


def has_sides_apart(pattern: Pattern) -> bool:
    """Whether the pattern is an AND at the top whose sides bind different variables.

    Examples
    --------
    >>> a, b, c = Event("a"), Event("b"), Event("c")
    >>> has_sides_apart(And((Seq((a, b)), Repeat(c)))), has_sides_apart(And((Seq((a, b)), a)))
    (True, False)
    """
    if not isinstance(pattern, And):
        return False
    names = list(map(positive_variables, pattern.parts))
    return sum(map(len, names)) == len(set().union(*names))


def is_joint(pattern: Pattern, where: Iterable[Expr]) -> bool:
    """Whether each answer is a trend of every side of an AND at the top, and all of them are judged together.

    Two sides that no predicate relates are a pair of trends, each judged by itself, which says the same but for a span.
    """
    if not isinstance(pattern, And) or not has_sides_apart(pattern):
        return False
    return len(pattern.parts) > 2 or any(relates_sides(pattern, predicate) for predicate in where)


def relates_sides(pattern: Pattern, predicate: Expr) -> bool:
    """Whether no side of an AND at the top has all variables of a predicate."""
    names = set(variables(predicate))
    return not any(names <= {event.variable for event in events(side)} for side in sides(pattern))


@_once_per_pattern
def positive_variables(pattern: Pattern) -> tuple[str, ...]:
    """The variables outside every NOT, each once, in reading order."""
    return tuple(dict.fromkeys(event.variable for event in positive_events(pattern)))


@_once_per_pattern
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


@_once_per_pattern
def follow_pairs(pattern: Pattern) -> frozenset[tuple[str, str]]:
    """Returns the pairs (earlier, later) of variables that can be bound directly after each other.

    Examples
    --------
    >>> a, b = Event("a"), Event("b")
    >>> sorted(follow_pairs(Seq((a, Repeat(b)))))
    [('a', 'b'), ('b', 'b')]
    """
    follow: set[tuple[str, str]] = set()
    for side in sides(pattern):
        _ends(side, follow)
    return frozenset(follow)


def ends_of(pattern: Pattern) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that the first and that the last event of a trend may be bound to, in reading order.

    Examples
    --------
    >>> a, b, c = Event("a"), Event("b"), Event("c")
    >>> ends_of(Seq((Or((a, b)), Repeat(c, 0, 1))))
    (('a', 'b'), ('a', 'b', 'c'))
    """
    _, first, last = _ends(pattern, set())
    names = positive_variables(pattern)
    return tuple(name for name in names if name in first), tuple(name for name in names if name in last)


@_once_per_pattern
def bound_together(pattern: Pattern) -> frozenset[tuple[str, str]]:
    """The pairs of variables, in both orders, that one trend can bind, or the trends of all sides of AND.

    Examples
    --------
    >>> a, b, c = Event("a"), Event("b"), Event("c")
    >>> sorted(bound_together(Seq((a, Or((b, c))))))
    [('a', 'b'), ('a', 'c'), ('b', 'a'), ('c', 'a')]
    """
    together: set[tuple[str, str]] = set()
    for side in (pattern,) if has_sides_apart(pattern) else sides(pattern):
        _together(side, together)
    return frozenset(together)


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


#: Whether a pattern may be empty, and its first and last variables.
_Ends = tuple[bool, frozenset[str], frozenset[str]]
_NOTHING: _Ends = (True, frozenset(), frozenset())


def _ends(pattern: Pattern, follow: set[tuple[str, str]]) -> _Ends:
    """The ends of a pattern; which variable can be bound directly after which is added to ``follow``."""
    if isinstance(pattern, Not):
        return _NOTHING
    if isinstance(pattern, Event):
        own = frozenset({pattern.variable})
        return False, own, own
    inner = [_ends(child, follow) for child in pattern.children]
    if isinstance(pattern, Seq):
        whole = _NOTHING
        for part in inner:
            follow.update(product(whole[2], part[1]))
            begins = whole[1] | part[1] if whole[0] else whole[1]
            ends = whole[2] | part[2] if part[0] else part[2]
            whole = whole[0] and part[0], begins, ends
        return whole
    first: frozenset[str] = frozenset().union(*(part[1] for part in inner))
    last: frozenset[str] = frozenset().union(*(part[2] for part in inner))
    if isinstance(pattern, Or):
        return any(part[0] for part in inner), first, last
    if isinstance(pattern, Repeat):
        if pattern.at_most is None or pattern.at_most > 1:
            follow.update(product(last, first))
        return inner[0][0] or pattern.at_least == 0, first, last
    for earlier, later in combinations(inner, 2):
        follow.update(product(earlier[2], later[1]), product(later[2], earlier[1]))
    return all(part[0] for part in inner), first, last


#: Stands for several parts of a sequence.
_MANY = -1


def _together(pattern: Pattern, together: set[tuple[str, str]]) -> frozenset[str]:
    """The variables of a pattern; the pairs that one trend can bind are added to ``together``."""
    if isinstance(pattern, Not):
        return frozenset()
    if isinstance(pattern, Event):
        return frozenset({pattern.variable})
    inner = [_together(child, together) for child in pattern.children]
    names = frozenset().union(*inner)
    if isinstance(pattern, Repeat):
        if pattern.at_most is None or pattern.at_most > 1:
            together.update(product(names, names))
    elif not isinstance(pattern, Or):
        part: dict[str, int] = {}
        for number, own in enumerate(inner):
            part.update((name, _MANY if name in part else number) for name in own)
        pairs = product(names, names)
        together.update((u, v) for u, v in pairs if part[u] != part[v] or part[u] == _MANY)
    return names
