"""A row pattern as a position automaton whose arrows are ordered by preferment.

Each place of a variable in the pattern is a *position*; if a quantifier counts repetitions, it is one position for each
of them. A match binds its rows to positions. *Arrows* lead from each position to those that the next row may be bound
to, the preferred one first, and to ``ACCEPT`` where the match may end. So a matcher need not look at parentheses,
quantifiers or alternatives, and the first row at which two matches differ tells which of them is preferred.

ISO/IEC 19075-5, 7.2, says which arrows there are, and in which order: earlier alternatives are preferred, more
repetitions if they are greedy, and fewer if they are reluctant. Repetitions that match no row stop as they do in Perl
(7.2.8): when a repetition has matched no row and the least number is reached, no other one is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import factorial

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.rows import ACCEPT, Arrows
from cetdsl.rows.nodes import (
    Alternation,
    Anchor,
    Exclusion,
    Permutation,
    Repetition,
    RowPattern,
    Variable,
)

#: Stands among the positions with which a part of the pattern may begin, if the part may match no row.
_NOTHING = -2
#: The most positions, and the most arrows between them.
MOST_POSITIONS = 4096
MOST_ARROWS = 1_000_000
#: The most parts of a PERMUTE: all orders of six parts would have 4,320 positions.
MOST_PERMUTED = 5

#: Different positions, ACCEPT and _NOTHING, the preferred one first.
_Ways = tuple[int, ...]


@attrs.frozen
class PositionAutomaton:
    """The positions of a pattern and what may follow them.

    Parameters
    ----------
    variable : tuple of str
        The variable of each position.
    excluded : tuple of bool
        Whether each position stands in an exclusion.
    first, first_of_partition : tuple of int
        The positions with which a match may begin, at a row that is not the first of its partition and at one that is;
        and ``ACCEPT`` where the match may be empty.
    follow : tuple of tuple of int
        For each position, the positions that may follow it, and ``ACCEPT`` where the match may end, if its row is not
        the last one of the partition.
    ends : tuple of bool
        For each position, whether the match may end there if its row is the last one of the partition.
    """

    variable: tuple[str, ...]
    excluded: tuple[bool, ...]
    first: _Ways
    first_of_partition: _Ways
    follow: tuple[_Ways, ...]
    ends: tuple[bool, ...]


def automaton_of(pattern: RowPattern) -> PositionAutomaton:
    """Returns the position automaton of a pattern.

    Parameters
    ----------
    pattern : RowPattern

    Returns
    -------
    PositionAutomaton

    Raises
    ------
    UnsupportedQuery
        If it has more than :data:`MOST_POSITIONS` positions or :data:`MOST_ARROWS` arrows, or a PERMUTE of more than
        :data:`MOST_PERMUTED` parts.

    Examples
    --------
    >>> from cetdsl.rows.clause import parse_clause
    >>> automaton_of(parse_clause("PATTERN (A B+? C*)").pattern).follow
    ((1,), (2, -1, 1), (2, -1))
    """
    positions = _Positions()
    tree = positions.expand(pattern, excluded=False)
    inner, at_start, at_end = _Paths(), _Paths(at_start=True), _Paths(at_end=True)
    follow, ends = dict[int, _Ways](), dict[int, _Ways]()
    inner.link(tree, (ACCEPT,), follow)
    at_end.link(tree, (ACCEPT,), ends)
    many = range(len(positions.variable))
    if sum(len(follow[position]) for position in many) > MOST_ARROWS:
        raise _too_large()
    return PositionAutomaton(
        tuple(positions.variable),
        tuple(positions.excluded),
        inner.through(tree, (ACCEPT,)),
        at_start.through(tree, (ACCEPT,)),
        tuple(follow[position] for position in many),
        tuple(ACCEPT in ends[position] for position in many),
    )


def arrows_of(automaton: PositionAutomaton, variables: Sequence[str], tested: Iterable[int]) -> Arrows:
    """Returns the automaton with its variables as numbers, their places in ``variables``.

    ``tested`` are the numbers of the variables that have tests, in the order of the tests.
    """
    numbers = {name.lower(): number for number, name in enumerate(variables)}
    bits = {variable: bit for bit, variable in enumerate(tested)}
    return Arrows(
        tuple(numbers[name.lower()] for name in automaton.variable),
        automaton.excluded,
        automaton.first,
        automaton.first_of_partition,
        automaton.follow,
        automaton.ends,
        tuple(variables),
        tuple(bits.get(number, -1) for number in range(len(variables))),
    )


def _too_large() -> UnsupportedQuery:
    return UnsupportedQuery(
        f"the pattern has more than {MOST_POSITIONS} places for rows once its quantifiers and PERMUTE are written out",
        hint="ask for fewer repetitions, or for * or + and count the rows in a condition or in WHERE",
    )


# -- the pattern, written out -------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Row:
    """A position."""

    position: int


@attrs.frozen(eq=False)
class _Sequence:
    parts: tuple[_Tree, ...]


@attrs.frozen(eq=False)
class _Choice:
    parts: tuple[_Tree, ...]


@attrs.frozen(eq=False)
class _Loop:
    """Repetitions, each with positions of its own.

    The first ``low`` of the ``copies`` must match. If ``endless``, the last one may be repeated any number of times.
    """

    copies: tuple[_Tree, ...]
    low: int
    endless: bool
    greedy: bool


_Tree = _Row | _Sequence | _Choice | _Loop | Anchor


class _Positions:
    """Writes out quantifiers and PERMUTE, and numbers the positions."""

    def __init__(self) -> None:
        self.variable: list[str] = []
        self.excluded: list[bool] = []

    def expand(self, node: RowPattern, excluded: bool) -> _Tree:
        if isinstance(node, Variable):
            if len(self.variable) == MOST_POSITIONS:
                raise _too_large()
            self.variable.append(node.name)
            self.excluded.append(excluded)
            return _Row(len(self.variable) - 1)
        if isinstance(node, Anchor):
            return node
        if isinstance(node, Exclusion):
            return self.expand(node.body, True)
        if isinstance(node, Permutation):
            if len(node.parts) > MOST_PERMUTED:
                raise UnsupportedQuery(
                    f"PERMUTE of {len(node.parts)} parts has {_many(len(node.parts))} orders, which are too many",
                    hint=f"permute at most {MOST_PERMUTED} parts at once",
                    span=node.span,
                )
            orders = permutations(node.parts)
            return _Choice(tuple(_Sequence(self._each(order, excluded)) for order in orders))
        if isinstance(node, Repetition):
            endless = node.high is None
            copies = max(node.low, 1) if node.high is None else node.high
            many = self.expand_copies(node.body, copies, excluded)
            return _Loop(many, node.low, endless, node.greedy)
        parts = self._each(node.parts, excluded)
        return _Choice(parts) if isinstance(node, Alternation) else _Sequence(parts)

    def expand_copies(self, body: RowPattern, copies: int, excluded: bool) -> tuple[_Tree, ...]:
        if copies > MOST_POSITIONS:
            raise _too_large()
        return tuple(self.expand(body, excluded) for _ in range(copies))

    def _each(self, nodes: Iterable[RowPattern], excluded: bool) -> tuple[_Tree, ...]:
        return tuple(self.expand(node, excluded) for node in nodes)


def _many(parts: int) -> str:
    return str(factorial(parts)) if parts <= 20 else f"{parts}!"


class _Paths:
    """Computes the possible next steps (positions or ``ACCEPT``) in a pattern.

    ``at_start`` and ``at_end`` say whether the place in question is the beginning of the partition, and whether it is
    its end: anchors there hold.
    """

    def __init__(self, *, at_start: bool = False, at_end: bool = False) -> None:
        self._at_start, self._at_end = at_start, at_end
        self._begins: dict[_Tree, _Ways] = {}

    def through(self, node: _Tree, then: _Ways) -> _Ways:
        """Returns the possible next steps at the beginning of a part, after which ``then`` are the next steps."""
        ways = self._begins_of(node)
        if _NOTHING not in ways:
            return ways
        return _distinct(way for one in ways for way in (then if one == _NOTHING else (one,)))

    def _begins_of(self, node: _Tree) -> _Ways:
        """Returns the positions with which a part may begin; ``_NOTHING`` among them if it may match no row."""
        if node not in self._begins:
            self._begins[node] = self._find_begins(node)
        return self._begins[node]

    def _find_begins(self, node: _Tree) -> _Ways:
        if isinstance(node, _Row):
            return (node.position,)
        if isinstance(node, Anchor):
            holds = self._at_start if node.at_start else self._at_end
            return (_NOTHING,) if holds else ()
        if isinstance(node, _Choice):
            return _distinct(way for part in node.parts for way in self._begins_of(part))
        if isinstance(node, _Sequence):
            return self._behind(node, (_NOTHING,))[0]
        return self._after_each(node, (_NOTHING,))[0]

    def _behind(self, node: _Sequence, then: _Ways) -> list[_Ways]:
        """Returns the possible next steps before each part of a sequence, and after the last one."""
        found = [then]
        for part in reversed(node.parts):
            found.append(self.through(part, found[-1]))
        return found[::-1]

    def _after_each(self, loop: _Loop, then: _Ways) -> list[_Ways]:
        """Returns the possible next steps after 0, 1, ... repetitions, the last of which has bound a row."""
        copies, low = loop.copies, loop.low
        found: list[_Ways] = [then]
        if loop.endless:
            found = [self._once_more(copies[-1], loop, then)]
        for done in range(len(copies) - 1, -1, -1):
            if done >= low:
                found.append(self._once_more(copies[done], loop, then))
            else:
                # A repetition that matches no row counts, but if it reaches the least number, it is the last one.
                found.append(self.through(copies[done], found[-1] if done + 1 < low else then))
        return found[::-1]

    def _once_more(self, copy: _Tree, loop: _Loop, then: _Ways) -> _Ways:
        """Returns the next steps where the least number is reached: into another repetition, or to what follows."""
        more = self.through(copy, then)
        return _distinct((*more, *then) if loop.greedy else (*then, *more))

    def link(self, node: _Tree, then: _Ways, follow: dict[int, _Ways]) -> None:
        """Writes the next steps after each position of a part into ``follow``; ``then`` are those after the part."""
        if isinstance(node, _Row):
            follow[node.position] = then
        elif isinstance(node, _Choice):
            for part in node.parts:
                self.link(part, then, follow)
        elif isinstance(node, _Sequence):
            for part, behind in zip(node.parts, self._behind(node, then)[1:]):
                self.link(part, behind, follow)
        elif isinstance(node, _Loop):
            for copy, behind in zip(node.copies, self._after_each(node, then)[1:]):
                self.link(copy, behind, follow)


def _distinct(ways: Iterable[int]) -> _Ways:
    return tuple(dict.fromkeys(ways))
