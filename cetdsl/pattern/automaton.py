"""From a pattern to an unambiguous automaton over its event variables.

The position automaton (Glushkov 1961) has one state per occurrence of a variable; where a variable occurs more
than once it is determinised over variables, so that every trend has exactly one accepting path and counting paths
counts trends. NOT contributes no state: it is a *guard* on the gap between two neighbouring bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq
from cetdsl.pattern.nodes import transform as transform_pattern

#: More states than this would make every event cost more than a window of events is worth.
MAX_STATES = 4096

Guards = frozenset[int]
_NO_GUARDS: Guards = frozenset()


@attrs.frozen
class Transition:
    """``target`` may be bound directly after ``source`` when no guard's NOT matches in the gap."""

    source: int
    target: int
    guards: Guards = _NO_GUARDS


@attrs.frozen
class Automaton:
    """A deterministic automaton whose states each read one variable.

    Attributes
    ----------
    variables : tuple of str
        ``variables[q]`` is the variable that is bound on entering state ``q``.
    initial, final : tuple of (int, frozenset of int)
        States a trend may begin or end in, with the guards of the gap before or after it.
    transitions : tuple of Transition
    negations : tuple of Not
        What the guard numbers stand for.
    """

    variables: tuple[str, ...]
    initial: tuple[tuple[int, Guards], ...]
    final: tuple[tuple[int, Guards], ...]
    transitions: tuple[Transition, ...]
    negations: tuple[Not, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no trend can match."""
        return not self.initial or not self.final


def build_automaton(pattern: Pattern) -> Automaton:
    """The minimal unambiguous automaton of a pattern.

    AND may join single events only; a top-level AND of larger patterns is split before. UnsupportedQuery is raised if
    a variable is reached in two ways that differ in their NOTs, or there are too many states.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Repeat, Seq
    >>> automaton = build_automaton(Seq((Event("A", "A"), Repeat(Event("B", "B")))))
    >>> automaton.variables
    ('A', 'B')
    >>> [(t.source, t.target) for t in automaton.transitions]
    [(0, 1), (1, 1)]
    """
    return minimise(_determinise(_Positions(expand_and(pattern))))


def expand_and(pattern: Pattern) -> Pattern:
    """AND of single events as the alternatives of their orders."""

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, And):
            return node
        if not all(isinstance(part, Event) for part in node.parts):
            raise UnsupportedQuery(
                "AND of larger patterns can only stand at the top of a query",
                hint="inside SEQ, OR or a repetition AND joins single events",
            )
        if len(node.parts) > 6:
            raise UnsupportedQuery("AND of more than six events has too many orders")
        orders = dict.fromkeys(permutations(node.parts))
        return Or(tuple(Seq(order) for order in orders))

    return transform_pattern(pattern, change)


_Ways = dict[int, set[Guards]]


@attrs.frozen
class _Fragment:
    """The first and last positions of a sub-pattern, and the guards under which it may be empty."""

    empty: set[Guards]
    first: _Ways
    last: _Ways


def _minimal(ways: Iterable[Guards]) -> set[Guards]:
    """Only the weakest guard sets: a trend needs one way that lets it pass."""
    distinct = set(ways)
    return {way for way in distinct if not any(other < way for other in distinct)}


def _merged(*parts: _Ways) -> _Ways:
    merged: _Ways = {}
    for part in parts:
        for position, ways in part.items():
            merged[position] = _minimal(merged.get(position, set()) | ways)
    return merged


def _guarded(ways: _Ways, empties: set[Guards]) -> _Ways:
    if not empties:
        return {}
    return {position: _minimal(w | e for w in found for e in empties) for position, found in ways.items()}


class _Positions:
    """The position automaton of a pattern; NOT markers accumulate in the gap in which they stand."""

    def __init__(self, pattern: Pattern) -> None:
        self.variables: list[str] = []
        self.follow: dict[tuple[int, int], set[Guards]] = {}
        self.negations: dict[Not, int] = {}
        whole = self._fragment(pattern)
        self.first, self.last = whole.first, whole.last

    def _fragment(self, node: Pattern) -> _Fragment:
        if isinstance(node, Event):
            if len(self.variables) >= MAX_STATES:
                raise UnsupportedQuery(
                    f"the pattern needs more than {MAX_STATES} states",
                    hint="use smaller bounds in repeat(), or a Kleene with COUNT(b) >= n",
                )
            position = len(self.variables)
            self.variables.append(node.variable)
            return _Fragment(set(), {position: {_NO_GUARDS}}, {position: {_NO_GUARDS}})
        if isinstance(node, Not):
            guard = self.negations.setdefault(node, len(self.negations))
            return _Fragment({frozenset((guard,))}, {}, {})
        if isinstance(node, Seq):
            return self._sequence([self._fragment(part) for part in node.parts])
        if isinstance(node, Or):
            parts = [self._fragment(part) for part in node.parts]
            empty = _minimal(guards for part in parts for guards in part.empty)
            return _Fragment(empty, _merged(*(p.first for p in parts)), _merged(*(p.last for p in parts)))
        assert isinstance(node, Repeat), node
        return self._repetition(node)

    def _repetition(self, node: Repeat) -> _Fragment:
        number = max(node.at_least, 1) if node.at_most is None else node.at_most
        copies = [self._fragment(node.part) for _ in range(number)]
        if node.at_most is None:
            self._link(copies[-1].last, copies[-1].first)
        copies[node.at_least :] = [
            _Fragment(_minimal(c.empty | {_NO_GUARDS}), c.first, c.last) for c in copies[node.at_least :]
        ]
        return self._sequence(copies)

    def _sequence(self, parts: list[_Fragment]) -> _Fragment:
        whole = parts[0]
        for part in parts[1:]:
            self._link(whole.last, part.first)
            whole = _Fragment(
                _minimal(a | b for a in whole.empty for b in part.empty),
                _merged(whole.first, _guarded(part.first, whole.empty)),
                _merged(part.last, _guarded(whole.last, part.empty)),
            )
        return whole

    def _link(self, last: _Ways, first: _Ways) -> None:
        for p, exits in last.items():
            for q, entries in first.items():
                ways = {x | e for x in exits for e in entries}
                self.follow[p, q] = _minimal(self.follow.get((p, q), set()) | ways)


def _only_way(ways: Iterable[Guards], variable: str) -> Guards:
    weakest = _minimal(ways)
    if len(weakest) > 1:
        raise _two_ways(variable)
    return next(iter(weakest))


def _two_ways(variable: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"{variable!r} can be reached in two ways that differ in their NOTs",
        hint="give the two occurrences of the event different variable names",
    )


def _determinise(positions: _Positions) -> Automaton:
    successors: dict[int, list[tuple[int, set[Guards]]]] = {}
    for (p, q), ways in positions.follow.items():
        successors.setdefault(p, []).append((q, ways))

    numbers: dict[frozenset[int], int] = {}
    queue: list[frozenset[int]] = []

    def by_variable(reached: Iterable[tuple[int, set[Guards]]]) -> list[tuple[int, Guards]]:
        groups: dict[str, dict[int, set[Guards]]] = {}
        for position, ways in reached:
            groups.setdefault(positions.variables[position], {}).setdefault(position, set()).update(ways)
        result = []
        for variable, members in groups.items():
            # Every member must be entered under the same guards, or the subset would forget them.
            guards = {_only_way(ways, variable) for ways in members.values()}
            if len(guards) > 1:
                raise _two_ways(variable)
            subset = frozenset(members)
            if subset not in numbers:
                if len(numbers) >= MAX_STATES:
                    raise UnsupportedQuery(
                        f"the pattern needs more than {MAX_STATES} states",
                        hint="give its repeated events different variable names",
                    )
                numbers[subset] = len(numbers)
                queue.append(subset)
            result.append((numbers[subset], guards.pop()))
        return result

    initial = by_variable(sorted(positions.first.items()))
    transitions: list[Transition] = []
    for subset in queue:  # grows while it is walked
        reached = [pair for p in sorted(subset) for pair in sorted(successors.get(p, ()), key=lambda s: s[0])]
        transitions += [Transition(numbers[subset], q, guards) for q, guards in by_variable(reached)]
    final = []
    for subset, number in numbers.items():
        exits = [guards for p in subset for guards in positions.last.get(p, ())]
        if exits:
            final.append((number, _only_way(exits, positions.variables[min(subset)])))
    variables = tuple(positions.variables[min(subset)] for subset in numbers)
    return Automaton(variables, tuple(initial), tuple(final), tuple(transitions), tuple(positions.negations))


def minimise(automaton: Automaton) -> Automaton:
    """The same language with the fewest states (Moore's partition refinement), useless states removed."""
    automaton = trim(automaton)
    final = dict(automaton.final)
    signature: list[object] = [
        (variable, tuple(sorted(final[q])) if q in final else None) for q, variable in enumerate(automaton.variables)
    ]
    outgoing: list[list[Transition]] = [[] for _ in automaton.variables]
    for transition in automaton.transitions:
        outgoing[transition.source].append(transition)
    block = _numbered(signature)
    while True:
        refined = _numbered(
            [
                (block[q], tuple(sorted((block[t.target], tuple(sorted(t.guards))) for t in leaving)))
                for q, leaving in enumerate(outgoing)
            ]
        )
        if max(refined, default=-1) == max(block, default=-1):
            break
        block = refined
    return _relabel(automaton, block)


def _numbered(keys: list[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _relabel(automaton: Automaton, block: list[int]) -> Automaton:
    variables: dict[int, str] = {}
    for state, variable in enumerate(automaton.variables):
        variables.setdefault(block[state], variable)
    merged = dict.fromkeys(Transition(block[t.source], block[t.target], t.guards) for t in automaton.transitions)
    return attrs.evolve(
        automaton,
        variables=tuple(variables[number] for number in sorted(variables)),
        initial=tuple(dict.fromkeys((block[q], guards) for q, guards in automaton.initial)),
        final=tuple(dict.fromkeys((block[q], guards) for q, guards in automaton.final)),
        transitions=tuple(sorted(merged, key=lambda t: (t.source, t.target))),
    )


def trim(automaton: Automaton) -> Automaton:
    """Without the states that lie on no way from an initial to a final state."""
    forward = _reach({q for q, _ in automaton.initial}, [(t.source, t.target) for t in automaton.transitions])
    backward = _reach({q for q, _ in automaton.final}, [(t.target, t.source) for t in automaton.transitions])
    useful = forward & backward
    numbers = {old: new for new, old in enumerate(sorted(useful))}
    return attrs.evolve(
        automaton,
        variables=tuple(automaton.variables[q] for q in sorted(useful)),
        initial=tuple((numbers[q], g) for q, g in automaton.initial if q in useful),
        final=tuple((numbers[q], g) for q, g in automaton.final if q in useful),
        transitions=tuple(
            Transition(numbers[t.source], numbers[t.target], t.guards)
            for t in automaton.transitions
            if t.source in useful and t.target in useful
        ),
    )


def _reach(start: set[int], arrows: list[tuple[int, int]]) -> set[int]:
    after: dict[int, list[int]] = {}
    for source, target in arrows:
        after.setdefault(source, []).append(target)
    seen, stack = set(start), list(start)
    while stack:
        for target in after.get(stack.pop(), ()):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def restrict_count(automaton: Automaton, variable: str | None, limit: int, allowed: Callable[[int], bool]) -> Automaton:
    """Only the words in which a variable occurs an allowed number of times.

    This is the product with a counter that stops at ``limit``; it turns ``COUNT(b) >= 3`` into states.

    ``variable`` None counts every binding. Counts from ``limit`` on are all the same to ``allowed``.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Repeat
    >>> plus = build_automaton(Repeat(Event("B", "B")))
    >>> len(restrict_count(plus, "B", 3, lambda n: n >= 3).variables)
    3
    """
    if len(automaton.variables) * (limit + 1) > MAX_STATES:
        raise UnsupportedQuery(f"counting to {limit} needs more than {MAX_STATES} states")

    def counted(count: int, state: int) -> int:
        counts = variable is None or automaton.variables[state] == variable
        return min(count + 1, limit) if counts else count

    outgoing: dict[int, list[Transition]] = {}
    for transition in automaton.transitions:
        outgoing.setdefault(transition.source, []).append(transition)
    numbers: dict[tuple[int, int], int] = {}
    queue: list[tuple[int, int]] = []

    def number(state: int, count: int) -> int:
        pair = (state, counted(count, state))
        if pair not in numbers:
            numbers[pair] = len(numbers)
            queue.append(pair)
        return numbers[pair]

    initial = tuple((number(q, 0), guards) for q, guards in automaton.initial)
    transitions: list[Transition] = []
    for state, count in queue:  # grows while it is walked
        for t in outgoing.get(state, ()):
            transitions.append(Transition(numbers[state, count], number(t.target, count), t.guards))
    final = dict(automaton.final)
    return minimise(
        Automaton(
            tuple(automaton.variables[state] for state, _ in numbers),
            initial,
            tuple((n, final[state]) for (state, count), n in numbers.items() if state in final and allowed(count)),
            tuple(transitions),
            automaton.negations,
        )
    )


def intersect(left: Automaton, right: Automaton) -> Automaton:
    """The words of both automata (neither may have guards: they could not be told apart)."""
    if left.negations or right.negations:
        raise UnsupportedQuery(
            "AND of patterns that share a variable and hold a NOT", hint="give the two sides different variable names"
        )
    pairs = [
        (p, q)
        for p, variable in enumerate(left.variables)
        for q, other in enumerate(right.variables)
        if variable == other
    ]
    numbers = {pair: n for n, pair in enumerate(pairs)}
    arrows = {(t.source, t.target) for t in right.transitions}
    initial = {q for q, _ in right.initial}
    final = {q for q, _ in right.final}
    transitions = [
        Transition(numbers[p, q], numbers[t.target, r])
        for p, q in pairs
        for t in left.transitions
        if t.source == p
        for r in range(len(right.variables))
        if (q, r) in arrows and (t.target, r) in numbers
    ]
    return minimise(
        Automaton(
            tuple(left.variables[p] for p, _ in pairs),
            tuple((numbers[p, q], _NO_GUARDS) for p, _ in left.initial for q in initial if (p, q) in numbers),
            tuple((numbers[p, q], _NO_GUARDS) for p, _ in left.final for q in final if (p, q) in numbers),
            tuple(transitions),
        )
    )
