"""Plans the shadows that tell complete trends where the edges at the ends of a path of bindings do not.

Three kinds of graphs do, which :mod:`cetdsl.ir.shadows` names. All of them rest on two relations of small automata. A
state *covers* another one if a trend can go on from it in whatever ways it can go on from the other; a shadow that
covers the reading that it is of lets no trend be complete. And the words of a machine *rise* in those of its ``plain``
machine, which has one state for each variable, if nothing that can be put into a word leads out of them. So it is with
``COUNT(b) >= k`` and ``A{k,}``: then complete trends are those complete trends of the plain machine that are words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product

import attrs

from cetdsl.ir.kernel import ALL, ENDS
from cetdsl.ir.machine import Edge, Machine
from cetdsl.ir.shadows import FOLLOWED, REDUCED, STATES, Reading, Shadows

#: A machine that tells shadows has so many states at most, and as many transitions for each of them.
MOST_STATES = 512
MOST_TRANSITIONS = 8 * MOST_STATES
#: States of a pattern for which such a machine is looked for: with more, all pairs of them take seconds.
_MOST_PLACES = 256
#: States of one variable whose sets are tried out.
MOST_ALIKE = 12
#: Shadows are bits of one number where they are followed.
MOST_FOLLOWED = 62
#: Steps that the comparison of two machines may take.
_MOST_STEPS = 200_000
#: Sets of states that are looked at for what may precede an event.
_MOST_SETS = 4096
#: Before the first binding, and a state that no word leads to.
_START, _DEAD = -1, -2

#: Pairs of base states, as :class:`~cetdsl.ir.shadows.Reading` has them, and a base state with such shadows.
_Shadows = frozenset[tuple[int, int]]
_State = tuple[int, _Shadows]


class TooMany(Exception):
    """Raised if shadows would need too many states; the argument explains it in a user's words."""


def plan_shadows(machine: Machine, completeness: str, *, span: bool) -> tuple[Machine, Shadows]:
    """Returns the machine whose states distinguish the requested trends, and the meaning of these states.

    ``span`` says that the first and the last event of a trend are related. A pattern that would need too many states,
    or more than these, raises :class:`TooMany`.
    """
    if completeness == ALL:
        return machine, Shadows(machine, tuple(map(Reading, range(len(machine.variables)))))
    if span and not (_agree(machine.initial) and _agree(machine.final)):
        raise TooMany("trends may begin or end in ways that differ in their NOTs, and WITHIN without SLIDE bounds them")
    if completeness == ENDS:
        return _product(machine, span)
    plain = plain_machine(machine)
    if plain is not None and _rises(machine, plain):
        return _led(machine, plain, span)
    if len(machine.variables) > MOST_FOLLOWED:
        raise TooMany(f"the places of the pattern need more than {MOST_FOLLOWED} states")
    return machine, _followed_edges(machine, span)


def _product(machine: Machine, span: bool) -> tuple[Machine, Shadows]:
    """Returns a machine whose states know their shadows; if it would be too large, shadows that are followed."""
    if len(machine.variables) > _MOST_PLACES:
        raise TooMany(f"the places of the pattern need more than {_MOST_PLACES} states")
    try:
        return _Product(machine, span).build()
    except TooMany:
        if len(machine.variables) > MOST_FOLLOWED:
            raise
        return machine, _followed_edges(machine, span)


def plain_machine(machine: Machine) -> Machine | None:
    """Returns the machine with one state for each variable that has all words of this one; None if NOTs differ.

    Examples
    --------
    >>> twice = Machine((0, 0), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> plain_machine(twice) == Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0),))
    True
    """
    variables = tuple(dict.fromkeys(machine.variables))
    state = [variables.index(variable) for variable in machine.variables]
    initial = {(state[q], guards) for q, guards in machine.initial}
    final = {(state[q], guards) for q, guards in machine.final}
    edges = {attrs.evolve(edge, source=state[edge.source], target=state[edge.target]) for edge in machine.edges}
    for pairs in ([q for q, _ in initial], [q for q, _ in final], [(edge.source, edge.target) for edge in edges]):
        if len(set(pairs)) < len(pairs):
            return None
    ordered = sorted(edges, key=lambda edge: (edge.source, edge.target))
    return Machine(variables, tuple(sorted(initial)), tuple(sorted(final)), tuple(ordered))


def covering(machine: Machine) -> list[set[int]]:
    """Returns for each state the states of its variable that cover it: itself, and those that allow no less.

    Examples
    --------
    ``A{1,3}``: after one A there may be two more, after two only one.

    >>> final = tuple((q, ()) for q in range(3))
    >>> covering(Machine((0, 0, 0), ((0, ()),), final, (Edge(0, 1), Edge(1, 2))))
    [{0}, {0, 1}, {0, 1, 2}]
    """
    states, after, final = range(len(machine.variables)), _steps(machine), dict(machine.final)

    def may_cover(p: int, q: int) -> bool:
        """Whether ``q`` may end where ``p`` may, and read the variables that ``p`` reads, under no more guards."""
        if p in final and (q not in final or not set(final[q]) <= set(final[p])):
            return False
        others = after[q]
        return all(v in others and set(others[v].guards) <= set(edge.guards) for v, edge in after[p].items())

    alike = {(p, q) for p in states for q in states if machine.variables[p] == machine.variables[q]}
    found = {pair for pair in alike if may_cover(*pair)}
    before: list[list[int]] = [[] for _ in states]
    for p in states:
        for edge in after[p].values():
            before[edge.target].append(p)
    # A pair is lost with one that it leads to, so each is looked at once for each of those.
    lost = list(alike - found)
    while lost:
        targets = lost.pop()
        for pair in product(*(before[target] for target in targets)):
            if pair in found:
                found.remove(pair)
                lost.append(pair)
    covered: list[set[int]] = [set() for _ in states]
    for p, q in found:
        covered[p].add(q)
    return covered


def _steps(machine: Machine) -> list[dict[int, Edge]]:
    """Returns for each state the edge of each variable."""
    after: list[dict[int, Edge]] = [{} for _ in machine.variables]
    for edge in machine.edges:
        after[edge.source][machine.variables[edge.target]] = edge
    return after


def _agree(ends: Iterable[tuple[int, tuple[int, ...]]]) -> bool:
    """Whether trends begin, or end, in all states under the same NOTs."""
    return len({guards for _, guards in ends}) <= 1


def _rises(machine: Machine, plain: Machine) -> bool:
    """Whether each word of the plain machine that a word of the machine is part of is a word of the machine too."""
    small, large = _moves(machine), _moves(plain)
    final = ({q for q, _ in machine.final}, {q for q, _ in plain.final})
    # Where a word is, and where a longer one is in the plain machine and in this one.
    waiting = [(_START, _START, _START)]
    seen = set(waiting)
    while waiting:
        word, longer, own = waiting.pop()
        if word in final[0] and longer in final[1] and own not in final[0]:
            return False
        for variable, target in large[longer].items():
            after = small[own].get(variable, _DEAD)
            both = [(small[word][variable], target, after)] if variable in small[word] else []
            for found in [(word, target, after), *both]:
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
        if len(seen) > _MOST_STEPS:
            return False
    return True


def _moves(machine: Machine) -> dict[int, dict[int, int]]:
    """Returns where each variable leads from each state, from before the first one, and from nowhere."""
    moves: dict[int, dict[int, int]] = {
        state: {variable: edge.target for variable, edge in steps.items()}
        for state, steps in enumerate(_steps(machine))
    }
    return moves | {_START: {machine.variables[q]: q for q, _ in machine.initial}, _DEAD: {}}


def _led(machine: Machine, plain: Machine, span: bool) -> tuple[Machine, Shadows]:
    """Returns a machine whose states lead along the edges of a plain machine that no longer path bypasses."""
    place = [plain.variables.index(variable) for variable in machine.variables]
    if not span:
        readings = tuple(Reading(state, unpreceded=(state,)) for state in place)
        return machine, Shadows(plain, readings, REDUCED)
    labelled, pairs = _labelled(machine)
    readings = tuple(Reading(place[q], shadows=((place[first], place[q]),)) for first, q in pairs)
    return labelled, Shadows(plain, readings, REDUCED)


def _followed_edges(machine: Machine, span: bool) -> Shadows:
    """Returns the shadows that are followed along the edges of a machine, which has few enough states."""
    states = range(len(machine.variables))
    covers = tuple(sum(1 << other for other in found) for found in covering(machine))
    first = {machine.variables[q] for q, _ in machine.initial}
    reached = sorted({edge.target for edge in machine.edges if machine.variables[edge.target] in first})
    return Shadows(machine, tuple(map(Reading, states)), FOLLOWED, covers, tuple(reached) if span else ())


def _labelled(machine: Machine) -> tuple[Machine, list[tuple[int, int]]]:
    """Returns a machine whose states remember the one that the trend begins in, and the pairs of both."""
    firsts = [q for q, _ in machine.initial]
    numbers = {(q, q): n for n, q in enumerate(firsts)}
    edges = []
    after = _steps(machine)
    queue = list(numbers)
    for first, q in queue:  # grows while it is walked
        for edge in after[q].values():
            pair = first, edge.target
            if pair not in numbers:
                numbers[pair] = len(numbers)
                queue.append(pair)
            edges.append(attrs.evolve(edge, source=numbers[first, q], target=numbers[pair]))
    return _machine(machine, [q for _, q in numbers], range(len(firsts)), edges), list(numbers)


def _machine(base: Machine, places: list[int], begins: Iterable[int], edges: Iterable[Edge]) -> Machine:
    """Makes a machine whose states stand for those of a base machine."""
    initial, final = dict(base.initial), dict(base.final)
    return Machine(
        tuple(base.variables[place] for place in places),
        tuple((n, initial[places[n]]) for n in begins),
        tuple((n, final[place]) for n, place in enumerate(places) if place in final),
        tuple(edges),
    )


def _unions(sets: Iterable[frozenset[int]]) -> set[frozenset[int]] | None:
    """Returns the unions of any number of some sets of states; None if they are too many.

    Examples
    --------
    >>> sorted(map(sorted, _unions([frozenset({0}), frozenset({1, 2})])))
    [[], [0], [0, 1, 2], [1, 2]]
    """
    # A set is the bits of one number here. There may be thousands of sets, and most of them are unions of others.
    found = {0}
    for one in {sum(1 << state for state in states) for states in sets}:
        if one not in found:
            found |= {one | other for other in found}
        if len(found) > _MOST_SETS:
            return None
    return {frozenset(state for state in range(union.bit_length()) if union >> state & 1) for union in found}


class _Product:
    """The machine of a base machine whose states know the shadows of what has been read."""

    def __init__(self, base: Machine, span: bool) -> None:
        self.base = base
        self.span = span
        self.after = _steps(base)
        self.covers = covering(base)

    def build(self) -> tuple[Machine, Shadows]:
        begun = dict(self._begun())
        numbers = {key: n for n, key in enumerate(begun)}
        edges: list[Edge] = []
        queue = list(numbers)
        for place, shadows in queue:  # grows while it is walked
            for variable, edge in self.after[place].items():
                following = self._followed(edge, variable, shadows)
                if following is None:
                    continue
                key = edge.target, following
                if key not in numbers:
                    numbers[key] = len(numbers)
                    queue.append(key)
                edges.append(attrs.evolve(edge, source=numbers[place, shadows], target=numbers[key]))
            if len(numbers) > MOST_STATES or len(edges) > MOST_TRANSITIONS:
                raise TooMany(f"what may precede and follow its trends takes more than {MOST_STATES} states to tell")
        machine = _machine(self.base, [place for place, _ in numbers], range(len(begun)), edges)
        readings = [attrs.evolve(begun.get(key, Reading(key[0])), shadows=tuple(sorted(key[1]))) for key in numbers]
        return machine, Shadows(self.base, tuple(readings), STATES)

    def _begun(self) -> Iterator[tuple[_State, Reading]]:
        """Yields what a trend may begin with: a state, and the shadows that stand beside it."""
        for first, _ in self.base.initial:
            alike = [q for q, variable in enumerate(self.base.variables) if variable == self.base.variables[first]]
            reached = [q for q in alike if any(edge.target == q for edge in self.base.edges)]
            if self.span:
                # Which of them there are, the time of what precedes the event says.
                yield (first, frozenset((q, q) for q in reached)), Reading(first)
                continue
            yield from self._sets(first, reached)

    def _sets(self, first: int, reached: list[int]) -> Iterator[tuple[_State, Reading]]:
        """Yields sets of shadows where none covers another one or the first state, and the reading that has each."""
        harmless = [q for q in reached if q not in self.covers[first]]
        deadly = tuple(q for q in reached if q in self.covers[first])
        preceded = self._preceded(first, deadly)
        if preceded is None:
            if len(harmless) > MOST_ALIKE:
                raise TooMany(f"more than {MOST_ALIKE} places of one variable may follow what precedes a trend")
            sizes = range(len(harmless) + 1)
            preceded = {frozenset(some) for size in sizes for some in combinations(harmless, size)}
        found = set(map(self._uncovered, preceded))
        for chosen in sorted(found, key=sorted):
            others = [q for q in harmless if q not in chosen and not chosen & self.covers[q]]
            shadows = frozenset((q, q) for q in chosen)
            yield (first, shadows), Reading(first, tuple(sorted(chosen)), (*deadly, *others))

    def _uncovered(self, states: frozenset[int]) -> frozenset[int]:
        """Returns the states that no other one of them covers."""
        return frozenset(q for q in states if not (states - {q}) & self.covers[q])

    def _preceded(self, first: int, deadly: tuple[int, ...]) -> set[frozenset[int]] | None:
        """Returns the sets of states, none of them deadly, of an event that something may precede.

        If something precedes the event, so does what is left of it without its beginning. So an event has all states
        that the ends of some words lead to, and those of other words. None where NOTs decide, or there are too many:
        any set.
        """
        if any(guards for _, guards in self.base.initial) or any(edge.guards for edge in self.base.edges):
            return None
        variable, begun = self.base.variables[first], {self.base.variables[q]: q for q, _ in self.base.initial}
        empty: frozenset[int] = frozenset()
        seen, waiting = {empty}, [empty]
        while waiting:
            read = waiting.pop()
            moves = [{letter: edge.target for letter, edge in self.after[q].items()} for q in read]
            for letter in {*begun, *(letter for move in moves for letter in move)}:
                longer = frozenset(move[letter] for move in (begun, *moves) if letter in move)
                if longer not in seen:
                    seen.add(longer)
                    waiting.append(longer)
            if len(seen) > _MOST_SETS:
                return None
        following = {q: edges[variable].target for q, edges in enumerate(self.after) if variable in edges}
        reached = {frozenset(following[q] for q in read if q in following) for read in seen}
        return _unions(states for states in reached if states.isdisjoint(deadly))

    def _followed(self, edge: Edge, variable: int, shadows: _Shadows) -> _Shadows | None:
        """Returns the shadows after an edge; None where one of them covers what the edge leads to."""
        found = set()
        for first, shadow in shadows:
            other = self.after[shadow].get(variable)
            if other is None:
                continue
            if not set(other.guards) <= set(edge.guards):
                raise TooMany("a variable follows another one at two places of the pattern, under different NOTs")
            found.add((first, other.target))
        if self.span:
            return frozenset(found)
        reached = {q for _, q in found}
        if reached & self.covers[edge.target]:
            return None
        return frozenset((q, q) for q in self._uncovered(frozenset(reached)))
