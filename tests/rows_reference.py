"""A slow and obvious reference for row pattern recognition, as ISO/IEC 19075-5 defines it: it judges the kernels.

Generators over the pattern's nodes try all ways to match the pattern, row by row, in the standard's order of
preferment. A function says whether a row may be bound to a variable; it may look at the rows that are bound so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

import attrs

from cetdsl.rows.nodes import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    Permutation,
    Repetition,
    RowPattern,
    Skip,
    SkipTo,
    Variable,
)

#: The bindings of consecutive rows: variable, and whether it is excluded from what is shown.
Bound = tuple[tuple[str, bool], ...]
#: Whether a variable may be bound to a row, given the first row of the match and the bindings before the row.
Holds = Callable[[str, int, int, Bound], bool]


class SkipFails(Exception):
    """AFTER MATCH SKIP has nowhere to go."""


@attrs.frozen
class Match:
    number: int
    start: int
    bound: Bound

    @property
    def end(self) -> int:
        return self.start + len(self.bound)


@attrs.frozen
class Unmatched:
    row: int


def ways(
    node: RowPattern, rows: int, start: int, bound: Bound, holds: Holds, excluded: bool = False
) -> Iterator[Bound]:
    """The bindings that begin with ``bound`` and go on with those of a part of a pattern, in order of preferment."""
    here = start + len(bound)
    if isinstance(node, Variable):
        if here < rows and holds(node.name, here, start, bound):
            yield (*bound, (node.name, excluded))
    elif isinstance(node, Anchor):
        if here == (0 if node.at_start else rows):
            yield bound
    elif isinstance(node, Exclusion):
        yield from ways(node.body, rows, start, bound, holds, True)
    elif isinstance(node, Alternation):
        for part in node.parts:
            yield from ways(part, rows, start, bound, holds, excluded)
    elif isinstance(node, Permutation):
        for order in permutations(node.parts):
            yield from ways(Concatenation(order), rows, start, bound, holds, excluded)
    elif isinstance(node, Concatenation):
        if not node.parts:
            yield bound
            return
        for first in ways(node.parts[0], rows, start, bound, holds, excluded):
            yield from ways(Concatenation(node.parts[1:]), rows, start, first, holds, excluded)
    else:
        assert isinstance(node, Repetition)
        yield from _repeat(node, 0, False, rows, start, bound, holds, excluded)


def _repeat(
    node: Repetition, done: int, empty: bool, rows: int, start: int, bound: Bound, holds: Holds, excluded: bool
) -> Iterator[Bound]:
    """The bindings after ``done`` iterations and any further ones; the last iteration may have been ``empty``."""
    may_stop = done >= node.low
    may_go_on = (node.high is None or done < node.high) and not (may_stop and empty)
    if may_stop and not node.greedy:
        yield bound
    if may_go_on:
        for more in ways(node.body, rows, start, bound, holds, excluded):
            yield from _repeat(node, done + 1, len(more) == len(bound), rows, start, more, holds, excluded)
    if may_stop and node.greedy:
        yield bound


def matches(
    pattern: RowPattern,
    rows: int,
    holds: Holds,
    skip: Skip = Skip(),  # noqa: B008 - it is frozen
    subsets: dict[str, Sequence[str]] | None = None,
    longest: Callable[[int, int], bool] = lambda start, end: True,
    judge: Callable[[Bound], bool] = lambda bound: True,
    choose: Callable[[Iterator[Bound]], Bound | None] = lambda found: next(found, None),
) -> Iterator[Match | Unmatched]:
    """The matches of a partition of so many rows, and the rows that are in none.

    A candidate must pass ``longest``, which is given its first and last row and stands for WITHIN, and ``judge``, which
    is given its bindings. ``choose`` takes one of the candidates that begin at a row, given the preferred one first.
    """
    place, number, covered = 0, 0, 0
    while place < rows:

        def fits(bound: Bound, place: int = place) -> bool:
            return (not bound or longest(place, place + len(bound) - 1)) and judge(bound)

        found = choose(filter(fits, ways(pattern, rows, place, (), holds)))
        if found is None:
            if place >= covered:
                yield Unmatched(place)
            place += 1
            continue
        number += 1
        match = Match(number, place, found)
        yield match
        covered = max(covered, match.end)
        place = _next_start(match, skip, subsets or {})


def _next_start(match: Match, skip: Skip, subsets: dict[str, Sequence[str]]) -> int:
    if not match.bound or skip.to is SkipTo.NEXT_ROW:
        return match.start + 1
    if skip.to is SkipTo.PAST_LAST:
        return match.end
    wanted = subsets.get(skip.variable, (skip.variable,))
    rows = [match.start + n for n, (name, _) in enumerate(match.bound) if name in wanted]
    if not rows:
        raise SkipFails("no row")
    target = rows[0] if skip.to is SkipTo.FIRST else rows[-1]
    if target == match.start:
        raise SkipFails("first row")
    return target


@attrs.frozen
class Shown:
    """A row of the answer: the row of the partition, and its match (None if it is in none).

    ``seen`` counts the rows of the match up to this one, which are those that RUNNING measures look at.
    """

    row: int
    match: Match | None
    seen: int


def shown_rows(found: Sequence[Match | Unmatched], output: str) -> Iterator[Shown]:
    """What an answer shows; ``output`` is one of those of :mod:`cetdsl.ir.rows`."""
    for match in found:
        if isinstance(match, Unmatched):
            if output == "unmatched":
                yield Shown(match.row, None, 0)
        elif output == "one row":
            yield Shown(match.start, match, len(match.bound))
        elif not match.bound:
            if output != "omit empty":
                yield Shown(match.start, match, 0)
        else:
            for place, (_, excluded) in enumerate(match.bound):
                if not excluded:
                    yield Shown(match.start + place, match, place + 1)


def bound_rows(shown: Shown, names: Sequence[str], running: bool) -> list[int]:
    """The rows of the match, up to the one shown if ``running``, that are bound to one of some variables."""
    if shown.match is None:
        return []
    bound = shown.match.bound[: shown.seen] if running else shown.match.bound
    return [shown.match.start + place for place, (name, _) in enumerate(bound) if name in names]
