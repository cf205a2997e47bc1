"""Builds the automaton over *places* by which the kernel finds matches under a matching policy.

A row pattern's automaton says which positions may follow each position, in order of preference. A place is a position
together with everything else that decides what a row there must satisfy, so that the kernel can test rows one by one
under any policy:

- Under STRICT, neighbours are consecutive rows, and no instant has two rows. A predicate on two neighbours becomes a
  test of the later row, which depends on the variable of the earlier one.
- Under NEXT, rows that a match skips have places of their own, which are not shown. A row may be skipped if it could
  not have been bound at any position that the variables bound so far may have led to. The rows of one instant are not
  ordered, and a match binds at most one of them and skips the others. If it skips one in order to bind another one of
  the same instant, the path must bind that one before the instant ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.matches import ALONE, ANY_INSTANT, OTHER_INSTANT, SAME_INSTANT, Demand, Option
from cetdsl.ir.rows import ACCEPT, Arrows
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.query import STRICT
from cetdsl.rows.automaton import MOST_POSITIONS, PositionAutomaton

#: The predicates on two neighbours, by the numbers of the earlier and the later variable.
Neighbours = Mapping[tuple[int, int], tuple[Expr, ...]]


@attrs.frozen
class Places:
    """The places of rows in a match: the places that may follow each, and what a row at each must satisfy."""

    arrows: Arrows
    demands: tuple[Demand, ...]


def places_of(
    automaton: PositionAutomaton, number_of: Callable[[str], int], neighbours: Neighbours, policy: str
) -> Places:
    """The places of a pattern under a policy.

    Parameters
    ----------
    automaton : PositionAutomaton
        That of the pattern.
    number_of : callable
        The number of a variable.
    neighbours : mapping
        See :data:`Neighbours`.
    policy : {"next", "strict"}

    Returns
    -------
    Places

    Raises
    ------
    UnsupportedQuery
        If there are too many.

    Examples
    --------
    >>> from cetdsl.rows.automaton import automaton_of
    >>> from cetdsl.rows.clause import parse_clause
    >>> automaton = automaton_of(parse_clause("PATTERN (A B+)").pattern)
    >>> places_of(automaton, "AB".index, {}, "strict").arrows.follow
    ((1,), (1, -1))
    """
    variable = tuple(map(number_of, automaton.variable))
    kind = _Strict if policy == STRICT else _Next
    return kind(automaton, variable, neighbours).places()


@attrs.frozen
class _Place:
    """A place of a row: its conditions, and all that decides the places that may follow it.

    ``position`` is that of the last bound row, and ``known`` are the positions that the variables bound so far may have
    led to. If the row is skipped, ``kind`` says why: it could not be bound (``skipped``), it has the instant of the
    last bound row (``rest``), or another row of its instant will be bound (``owed``). While rows are skipped, ``run``
    remembers which following positions the next row may be bound to: those preferred to the end of the match (0), or
    those to which the end is preferred (1).
    """

    demand: Demand
    position: int
    known: frozenset[int] = frozenset()
    run: int = 0
    kind: str = ""


class _Builder:
    """Finds all places that can be reached from the first ones."""

    def __init__(self, automaton: PositionAutomaton, variable: Sequence[int], neighbours: Neighbours) -> None:
        self.automaton, self.variable, self.neighbours = automaton, tuple(variable), neighbours

    def first(self) -> Iterator[_Place]:
        """The places that a match may begin with."""
        raise NotImplementedError

    def behind(self, place: _Place) -> Iterator[_Place | None]:
        """Yields the places that may follow a place, the preferred first; None is the end of the match."""
        raise NotImplementedError

    def places(self) -> Places:
        """Returns all places, in numbers."""
        found: dict[_Place, int] = {}
        first = tuple(found.setdefault(place, len(found)) for place in self.first())
        follow = []
        # The loop itself finds further places.
        for place in iter(_Growing(found)):
            ways = dict.fromkeys(self.behind(place))
            follow.append(tuple(ACCEPT if way is None else found.setdefault(way, len(found)) for way in ways))
            if len(found) > MOST_POSITIONS:
                raise UnsupportedQuery(
                    f"the pattern has more than {MOST_POSITIONS} places for rows once its repetitions are written out",
                    hint="ask for fewer repetitions, or for kleene(...) and a predicate such as COUNT(b) <= 100",
                )
        demands = list(dict.fromkeys(place.demand for place in found))
        numbers = tuple(demands.index(place.demand) for place in found)
        names = {number: name for name, number in zip(self.automaton.variable, self.variable)}
        labels = tuple("" if demand.bound is None else names[demand.bound.variable] for demand in demands)
        ends = tuple(ACCEPT in ways for ways in follow)
        excluded = (False,) * len(found)
        return Places(Arrows(numbers, excluded, first, first, tuple(follow), ends, labels, ()), tuple(demands))

    def option(self, position: int, there: int) -> Option:
        """Returns the binding of a row at position ``there`` that follows a row bound at ``position``."""
        pair = self.variable[position], self.variable[there]
        return Option(pair[1], self.neighbours.get(pair, ()))


class _Growing:
    """Iterates over the keys of a dictionary, including those that are added during the iteration."""

    def __init__(self, found: dict[_Place, int]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[_Place]:
        done = 0
        while done < len(self._found):
            for place in list(self._found)[done:]:
                done += 1
                yield place


class _Strict(_Builder):
    def first(self) -> Iterator[_Place]:
        for position in self.automaton.first:
            if position != ACCEPT:
                yield _Place(Demand(ANY_INSTANT, Option(self.variable[position])), position)

    def behind(self, place: _Place) -> Iterator[_Place | None]:
        for there in self.automaton.follow[place.position]:
            yield None if there == ACCEPT else _Place(Demand(ALONE, self.option(place.position, there)), there)


class _Next(_Builder):
    def first(self) -> Iterator[_Place]:
        begins = [position for position in self.automaton.first if position != ACCEPT]
        for position in begins:
            known = frozenset(other for other in begins if self.variable[other] == self.variable[position])
            yield _Place(Demand(ANY_INSTANT, Option(self.variable[position])), position, known)

    def behind(self, place: _Place) -> Iterator[_Place | None]:
        # The end of the match is preferred to the positions behind it in ``follow``. As rows may be skipped before the
        # next one is bound, the two runs of positions are followed separately.
        follow = self.automaton.follow[place.position]
        end = follow.index(ACCEPT) if ACCEPT in follow else len(follow)
        runs = follow[:end], follow[end + 1 :]
        if place.kind:
            yield from self._on(place, place.run, runs[place.run])
            return
        yield from self._on(place, 0, runs[0])
        if end < len(follow):
            yield None
        yield from self._on(place, 1, runs[1])

    def _on(self, place: _Place, number: int, run: Sequence[int]) -> Iterator[_Place]:
        if not run:
            return
        # Rows behind a bound one, and behind those skipped in its instant, may have its instant, too.
        instant = {"": OTHER_INSTANT, "rest": OTHER_INSTANT, "owed": SAME_INSTANT}.get(place.kind, ANY_INSTANT)
        here, ahead = place.position, self._ahead(place.known)
        for there in run:
            known = frozenset(other for other in ahead if self.variable[other] == self.variable[there])
            yield _Place(Demand(instant, self.option(here, there)), there, known)
        skip = attrs.evolve(place, run=number)
        if place.kind in ("", "rest"):
            yield attrs.evolve(skip, kind="rest", demand=Demand(SAME_INSTANT))
        if place.kind != "owed":
            unless = tuple(dict.fromkeys(self.option(here, there) for there in sorted(ahead)))
            yield attrs.evolve(skip, kind="skipped", demand=Demand(instant, unless=unless))
        yield attrs.evolve(skip, kind="owed", demand=Demand(instant))

    def _ahead(self, known: frozenset[int]) -> set[int]:
        """Returns the positions that may follow, given the variables bound so far."""
        return {there for position in known for there in self.automaton.follow[position] if there != ACCEPT}
