"""Plans how complete trends are recognised where the edges at the ends of a path in the event graph do not suffice.

A longer trend may bind the events of a trend in other states of the automaton; these states are the *shadows* of the
trend's own states (:mod:`cetdsl.ir.shadows`, which also names the three kinds of graphs that take shadows into
account). The planner picks a kind by two properties of automata:

- A state *covers* another state if every continuation from the other is possible from it, too. If a shadow covers the
  state that it stands beside, no trend through this state is complete.
- The language of a machine *rises* if it is upward closed in that of its ``plain`` machine, which has one state for
  each variable: a word of the plain machine that contains a word of the machine is a word of the machine, too. So it is
  with ``COUNT(b) >= k`` and ``A{k,}``. Then the complete trends are the complete trends of the plain machine whose
  words the machine has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product

import attrs

from cetdsl.ir.kernel import ALL, ENDS
from cetdsl.ir.machine import Edge, Machine
from cetdsl.ir.shadows import FOLLOWED, REDUCED, STATES, Reading, Shadows

#: The most states, and transitions, of a machine whose states encode the shadows.
MOST_STATES = 512
MOST_TRANSITIONS = 8 * MOST_STATES
#: The most states of a pattern for which such a machine is built: to compare all pairs of more states takes seconds.
_MOST_PLACES = 256
#: The most states that read one variable: all sets of them are tried as what may precede a trend.
MOST_ALIKE = 12
#: The most states where a kernel follows shadows along edges: a set of shadows is then the bits of one number.
MOST_FOLLOWED = 62
#: The most steps that the comparison of two machines may take.
_MOST_STEPS = 200_000
#: The most sets of states that the search for what may precede an event visits.
_MOST_SETS = 4096
#: The state before the first binding, and the state after a sequence of variables that no word begins with.
_START, _DEAD = -1, -2

#: Shadows as pairs of base states, see :class:`~cetdsl.ir.shadows.Reading`; and a base state with its shadows.
_Shadows = frozenset[tuple[int, int]]
_State = tuple[int, _Shadows]


class TooMany(Exception):
    """Raised if shadows would need too many states; the argument explains it in a user's words."""


def plan_shadows(machine: Machine, completeness: str, *, span: bool) -> tuple[Machine, Shadows]:
    """Returns the machine whose states distinguish the requested trends, and the meaning of these states.

    ``span`` says that a span bounds the time between the first and the last event of a trend. :class:`TooMany` is
    raised if the machine would need too many states, or if states cannot express what the NOTs of the pattern require.
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
    """Returns a machine whose states encode their shadows; if it would be too large, a kernel follows the shadows."""
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
    """Returns for each state the states that cover it: itself, and those of its variable that allow all that it allows.

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
    # A pair does not cover if a pair that it leads to does not, so each loss is propagated backwards.
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
    """Returns for each state its outgoing edges, by the variable that they read."""
    after: list[dict[int, Edge]] = [{} for _ in machine.variables]
    for edge in machine.edges:
        after[edge.source][machine.variables[edge.target]] = edge
    return after


def _agree(ends: Iterable[tuple[int, tuple[int, ...]]]) -> bool:
    """Whether the same NOTs guard all initial, or all final, states."""
    return len({guards for _, guards in ends}) <= 1


def _rises(machine: Machine, plain: Machine) -> bool:
    """Whether each word of the plain machine that contains a word of the machine is a word of the machine, too."""
    small, large = _moves(machine), _moves(plain)
    final = ({q for q, _ in machine.final}, {q for q, _ in plain.final})
    # The state of a word in the machine; of a word that contains it, the state in the plain machine and in the machine.
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
    """Returns the target state by state and variable, also from ``_START`` and ``_DEAD``."""
    moves: dict[int, dict[int, int]] = {
        state: {variable: edge.target for variable, edge in steps.items()}
        for state, steps in enumerate(_steps(machine))
    }
    return moves | {_START: {machine.variables[q]: q for q, _ in machine.initial}, _DEAD: {}}


def _led(machine: Machine, plain: Machine, span: bool) -> tuple[Machine, Shadows]:
    """Returns a machine whose states follow the reduced edges of a plain machine's graph.

    A reduced edge is one that no longer path between its two events bypasses.
    """
    place = [plain.variables.index(variable) for variable in machine.variables]
    if not span:
        readings = tuple(Reading(state, unpreceded=(state,)) for state in place)
        return machine, Shadows(plain, readings, REDUCED)
    labelled, pairs = _labelled(machine)
    readings = tuple(Reading(place[q], shadows=((place[first], place[q]),)) for first, q in pairs)
    return labelled, Shadows(plain, readings, REDUCED)


def _followed_edges(machine: Machine, span: bool) -> Shadows:
    """Returns the shadows as a kernel follows them along the edges of a machine of at most ``MOST_FOLLOWED`` states."""
    states = range(len(machine.variables))
    covers = tuple(sum(1 << other for other in found) for found in covering(machine))
    first = {machine.variables[q] for q, _ in machine.initial}
    reached = sorted({edge.target for edge in machine.edges if machine.variables[edge.target] in first})
    return Shadows(machine, tuple(map(Reading, states)), FOLLOWED, covers, tuple(reached) if span else ())


def _labelled(machine: Machine) -> tuple[Machine, list[tuple[int, int]]]:
    """Returns a machine whose states remember the initial state of the trend; and (initial state, state) of each."""
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
    """Makes a machine each of whose states is a copy of the base state in ``places``."""
    initial, final = dict(base.initial), dict(base.final)
    return Machine(
        tuple(base.variables[place] for place in places),
        tuple((n, initial[places[n]]) for n in begins),
        tuple((n, final[place]) for n, place in enumerate(places) if place in final),
        tuple(edges),
    )


def _unions(sets: Iterable[frozenset[int]]) -> set[frozenset[int]] | None:
    """Returns all unions of the given sets of states, the empty one included; None if there are too many.

    Examples
    --------
    >>> sorted(map(sorted, _unions([frozenset({0}), frozenset({1, 2})])))
    [[], [0], [0, 1, 2], [1, 2]]
    """
    # Each set is represented by the bits of one number. Of thousands of sets most are unions of others.
    found = {0}
    for one in {sum(1 << state for state in states) for states in sets}:
        if one not in found:
            found |= {one | other for other in found}
        if len(found) > _MOST_SETS:
            return None
    return {frozenset(state for state in range(union.bit_length()) if union >> state & 1) for union in found}


class _Product:
    """Builds the machine whose states are those of a base machine, each with its shadows after what has been read."""

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
                # The times of preceding events decide which of these shadows exist, so the kernel finds out.
                yield (first, frozenset((q, q) for q in reached)), Reading(first)
                continue
            yield from self._sets(first, reached)

    def _sets(self, first: int, reached: list[int]) -> Iterator[tuple[_State, Reading]]:
        """Yields each set of shadows beside the first state, and the reading that stands for it.

        A shadow that covers the first state would let no trend be complete, so no set has one. Nor has a set a shadow
        that another one of it covers, because the covering one decides.
        """
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
        """Returns the sets of states in which longer trends may read an event that they bind after earlier events.

        ``deadly`` states cover the ``first`` one; sets with any of them are left out. If a sequence of bindings may
        precede the event, so may each suffix of it: all states that the suffixes lead to occur together, and so do the
        states of several such sequences. The result is None, and the caller must reckon with any set, where NOTs guard
        edges or initial states, or where there are too many sets.
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
        """Returns the shadows after an edge; None if one of them covers the target of the edge."""
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
