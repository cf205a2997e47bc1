"""Which queries may share: a common Kleene sub-pattern, aggregates that add up alike, windows that overlap, equal keys.

Hamlet (SIGMOD 2021, section 3.1): queries whose partition and group columns agree, whose windows overlap, whose
aggregates can be computed from each other's and which have a Kleene sub-pattern in common.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.expressions import Length
from cetdsl.pattern.nodes import And, Repeat, events
from cetdsl.pattern.query import Returned
from cetdsl.sharing.families import kleene_signatures


@attrs.frozen
class SharableSet:
    """Queries that may share the propagation along a Kleene sub-pattern.

    Attributes
    ----------
    queries : tuple of str
    kleene : tuple of Repeat
        The sub-pattern, as each of them states it.
    pane : int
        The greatest common divisor of all lengths and slides: windows begin and end with panes. 0: no windows.
    """

    queries: tuple[str, ...]
    kleene: tuple[Repeat, ...]
    pane: int

    @property
    def variables(self) -> frozenset[str]:
        """The variables of the sub-pattern, in the words of the first query."""
        return frozenset(event.variable for event in events(self.kleene[0]))


def sharable_sets(queries: Mapping[str, ResolvedQuery]) -> tuple[SharableSet, ...]:
    """The sets of queries that may share, each query in at most one, the largest first.

    Parameters
    ----------
    queries : mapping of str to ResolvedQuery
        Rewritten, by name.
    """
    candidates: dict[Hashable, dict[str, Repeat]] = {}
    for name, resolved in queries.items():
        for signature, repeat in _offers(resolved):
            candidates.setdefault(signature, {})[name] = repeat
    sets, taken = [], set[str]()
    for found in sorted(candidates.values(), key=len, reverse=True):
        members = {name: repeat for name, repeat in found.items() if name not in taken}
        if len(members) > 1:
            taken |= set(members)
            pane = _pane([queries[name] for name in members])
            sets.append(SharableSet(tuple(members), tuple(members.values()), pane))
    return tuple(sets)


def _offers(resolved: ResolvedQuery) -> list[tuple[Hashable, Repeat]]:
    """What a query can share, under the conditions on which others may join."""
    query = resolved.query
    if isinstance(query.pattern, And):
        return []
    keys = frozenset(query.partition_by + query.group_by)
    sliding = query.window is not None and query.window.slide is not None
    if query.window is not None and not sliding:
        return []  # every event begins a span of its own, so no two spans have a graphlet in common
    return [
        ((signature, kind, keys, resolved.tie_break, sliding), repeat)
        for signature, repeat in kleene_signatures(resolved).items()
        for kind in _kinds(query.returning)
    ]


def _kinds(returning: tuple[Returned, ...]) -> set[Hashable]:
    """How the aggregates of a RETURN list are computed; those of one kind are computed from each other's values."""
    kinds: set[Hashable] = set()
    for item in returning:
        aggregate = item.aggregate
        if aggregate.definition.is_additive:
            kinds.add("sums")
        else:
            argument = aggregate.argument
            kinds.add((aggregate.function, "length" if isinstance(argument, Length) else argument))
    return kinds or {"sums"}


def _pane(members: list[ResolvedQuery]) -> int:
    windows = [resolved.query.window for resolved in members]
    lengths = [window.length.amount for window in windows if window is not None]
    slides = [window.slide.amount for window in windows if window is not None and window.slide is not None]
    return math.gcd(*lengths, *slides) if lengths else 0
