"""Builds an unambiguous automaton over the event variables of a pattern.

The position automaton (Glushkov 1961) has one state per occurrence of a variable; where a variable occurs more
than once it is determinised over variables, so that every trend has exactly one accepting path and counting paths
counts trends. NOT contributes no state: it is a *guard* on the gap between two neighbouring bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq

#: The most states; with more, each event would cost too much.
MAX_STATES = 4096
#: The most transitions, which take one or two seconds; and so do the most steps to find them.
MAX_TRANSITIONS = 100_000
MAX_STEPS = 10_000_000
#: The most occurrences of variables, repetitions counted, in a pattern and in its NOTs.
MAX_POSITIONS = 4 * MAX_STATES
#: The cost of a pair of positions, in time and memory, in steps.
_STEPS_OF_PAIR = 10

_Node = TypeVar("_Node")

Guards = frozenset[int]
_NO_GUARDS: Guards = frozenset()


class Transition(NamedTuple):
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
        The NOTs, to which guards refer by their positions here.
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


#: Alternative sets of guards under which a position is reached: a trend passes if all guards of one set let it pass.
_Ways = frozenset[Guards]
_NEVER: _Ways = frozenset()
_FREELY: _Ways = frozenset((_NO_GUARDS,))


def _weakest(ways: _Ways) -> _Ways:
    if _NO_GUARDS in ways:
        return _FREELY
    return ways if len(ways) < 2 else frozenset(way for way in ways if not any(other < way for other in ways))


def _either(first: _Ways, second: _Ways) -> _Ways:
    if first is _FREELY or second is _FREELY:
        return _FREELY
    return first if first == second else _weakest(first | second)


class Work:
    """The steps that the automata of a query have taken so far; a query that would take minutes is refused."""

    def __init__(self) -> None:
        self._steps = 0
        self._positions = 0

    def spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise UnsupportedQuery(
                "the pattern has too many ways through it: to tell them apart takes a number of steps that grows with "
                "the square of its optional parts in a row",
                hint="use fewer optional parts in a row, or a repetition of one part",
            )

    def add_position(self) -> None:
        self._positions += 1
        if self._positions > MAX_POSITIONS:
            raise UnsupportedQuery(
                f"the pattern and its NOTs need more than {MAX_POSITIONS} states together",
                hint="use smaller bounds in repeat(), or a Kleene with COUNT(b) >= n",
            )

    def both(self, first: _Ways, second: _Ways) -> _Ways:
        """The alternatives for passing two places one after the other."""
        if first is _FREELY:
            return second
        if second is _FREELY:
            return first
        size = len(first) * len(second)
        self.spend(size * size + _STEPS_OF_PAIR * sum(map(len, first)) * len(second))
        return _weakest(frozenset(a | b for a in first for b in second))


def build_automaton(pattern: Pattern, work: Work | None = None) -> Automaton:
    """Returns the minimal unambiguous automaton of a pattern; ``work`` counts the steps of all automata of a query.

    AND may join single events only; callers split a top-level AND of larger patterns. UnsupportedQuery is raised if a
    variable is reached in two ways that differ in their NOTs, or if there are too many states.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Repeat, Seq
    >>> automaton = build_automaton(Seq((Event("A", "A"), Repeat(Event("B", "B")))))
    >>> automaton.variables
    ('A', 'B')
    >>> [(t.source, t.target) for t in automaton.transitions]
    [(0, 1), (1, 1)]
    """
    return minimise(_determinise(_Positions(pattern, work or Work())))


def _orders(parts: tuple[Pattern, ...]) -> Pattern:
    """Returns an AND of single events as the OR of all their orders, with common beginnings factored out."""
    if not all(isinstance(part, Event) for part in parts):
        raise UnsupportedQuery(
            "AND of larger patterns can only stand at the top of a query",
            hint="inside SEQ, OR or a repetition AND joins single events",
        )
    if len(parts) > 6:
        raise UnsupportedQuery(
            "AND of more than six events has too many orders",
            hint="use a repetition of their alternatives, (A OR B OR C)+, and COUNT of each",
        )
    if len(parts) == 1:
        return parts[0]
    rest = {part: (*parts[:n], *parts[n + 1 :]) for n, part in enumerate(parts)}
    return Or(tuple(Seq((part, _orders(others))) for part, others in rest.items()))


@attrs.frozen
class _Fragment:
    """The first and last positions of a sub-pattern, and the guards under which it may be empty."""

    empty: _Ways
    first: dict[int, _Ways]
    last: dict[int, _Ways]


class _Positions:
    """The position automaton of a pattern; NOT markers accumulate in the gap in which they stand."""

    def __init__(self, pattern: Pattern, work: Work) -> None:
        self.variables: list[str] = []
        self.follow: list[dict[int, _Ways]] = []
        self.negations: dict[Not, int] = {}
        self.work = work
        self.whole = self._fragment(pattern)

    def _fragment(self, node: Pattern) -> _Fragment:
        if isinstance(node, Event):
            if len(self.variables) >= MAX_STATES:
                raise UnsupportedQuery(
                    f"the pattern needs more than {MAX_STATES} states",
                    hint="use smaller bounds in repeat(), or a Kleene with COUNT(b) >= n",
                )
            self.work.add_position()
            position = len(self.variables)
            self.variables.append(node.variable)
            self.follow.append({})
            return _Fragment(_NEVER, {position: _FREELY}, {position: _FREELY})
        if isinstance(node, Not):
            guard = self.negations.setdefault(node, len(self.negations))
            return _Fragment(frozenset((frozenset((guard,)),)), {}, {})
        if isinstance(node, Seq):
            return self._sequence([self._fragment(part) for part in node.parts])
        if isinstance(node, Or):
            parts = [self._fragment(part) for part in node.parts]
            empty = _weakest(_NEVER.union(*(part.empty for part in parts)))
            # The positions of different parts are disjoint.
            first = {position: ways for part in parts for position, ways in part.first.items()}
            return _Fragment(empty, first, {position: ways for part in parts for position, ways in part.last.items()})
        if isinstance(node, And):
            return self._fragment(_orders(node.parts))
        assert isinstance(node, Repeat), node
        return self._repetition(node)

    def _repetition(self, node: Repeat) -> _Fragment:
        """Makes copies of the part, one after the other, of which only the last ones may be left out.

        A trend that leaves out a copy and takes the next one is also found without this, so each copy is only entered
        from the one before it. Any copy may be left out if the part itself may be empty.
        """
        copy = self._fragment(node.part)
        required = 0 if _NO_GUARDS in copy.empty else node.at_least
        number = max(required, 1) if node.at_most is None else node.at_most
        copies = [copy, *(self._fragment(node.part) for _ in range(number - 1))]
        if node.at_most is None:
            self._link(copies[-1].last, copies[-1].first)
        parts = copies[:required]
        if optional := copies[required:]:
            for earlier, later in pairwise(optional):
                self._link(earlier.last, later.first)
            last = {position: ways for one in optional for position, ways in one.last.items()}
            parts.append(_Fragment(_FREELY, optional[0].first, last))
        return self._sequence(parts)

    def _sequence(self, parts: list[_Fragment]) -> _Fragment:
        both = self.work.both
        empty, first, last = parts[0].empty, dict(parts[0].first), parts[0].last
        for part in parts[1:]:
            self._link(last, part.first)
            if empty:
                first.update({position: both(ways, empty) for position, ways in part.first.items()})
            if part.empty:
                self.work.spend(len(last))
                left = last if part.empty is _FREELY else {p: both(ways, part.empty) for p, ways in last.items()}
                last = {**left, **part.last}
            else:
                last = part.last
            empty = both(empty, part.empty) if empty and part.empty else _NEVER
        return _Fragment(empty, first, last)

    def _link(self, last: dict[int, _Ways], first: dict[int, _Ways]) -> None:
        self.work.spend(_STEPS_OF_PAIR * len(last) * len(first))
        freely = all(ways is _FREELY for ways in first.values())
        for p, exits in last.items():
            follow = self.follow[p]
            if freely and exits is _FREELY:
                follow.update(first)
                continue
            for q, entries in first.items():
                ways = self.work.both(exits, entries)
                follow[q] = _either(follow[q], ways) if q in follow else ways


def _only_way(ways: _Ways, variable: str) -> Guards:
    weakest = _weakest(ways)
    if len(weakest) > 1:
        raise _two_ways(variable)
    return next(iter(weakest))


def _two_ways(variable: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"{variable!r} can be reached in two ways that differ in their NOTs",
        hint="give the two occurrences of the event different variable names",
    )


def _determinise(positions: _Positions) -> Automaton:
    numbers: dict[frozenset[int], int] = {}
    queue: list[frozenset[int]] = []

    def by_variable(reached: dict[int, _Ways]) -> list[tuple[int, Guards]]:
        positions.work.spend(_STEPS_OF_PAIR * len(reached))
        groups: dict[str, list[int]] = {}
        for position in sorted(reached):
            groups.setdefault(positions.variables[position], []).append(position)
        result = []
        for variable, members in groups.items():
            # All members must be entered under the same guards, as a subset has only one set of guards.
            guards = {_only_way(ways, variable) for ways in {reached[position] for position in members}}
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

    freely = [{q for q, ways in follow.items() if ways is _FREELY} for follow in positions.follow]
    guarded = [[pair for pair in follow.items() if pair[1] is not _FREELY] for follow in positions.follow]
    initial = by_variable(positions.whole.first)
    transitions: list[Transition] = []
    for subset in queue:  # grows while it is walked
        reached: dict[int, _Ways] = {}
        for p in subset:
            positions.work.spend(len(positions.follow[p]))
            for q, ways in guarded[p]:
                reached[q] = _either(reached[q], ways) if q in reached else ways
        reached |= dict.fromkeys(set().union(*(freely[p] for p in subset)), _FREELY)
        transitions += [Transition(numbers[subset], q, guards) for q, guards in by_variable(reached)]
        _check_transitions(transitions)
    final = []
    last = positions.whole.last
    for subset, number in numbers.items():
        exits = _NEVER.union(*(last[p] for p in subset if p in last))
        if exits:
            final.append((number, _only_way(exits, positions.variables[min(subset)])))
    variables = tuple(positions.variables[min(subset)] for subset in numbers)
    return Automaton(variables, tuple(initial), tuple(final), tuple(transitions), tuple(positions.negations))


def _check_transitions(transitions: Sequence[Transition]) -> None:
    if len(transitions) > MAX_TRANSITIONS:
        raise UnsupportedQuery(
            f"the pattern needs more than {MAX_TRANSITIONS} transitions between its states",
            hint="use fewer optional parts in a row and fewer alternatives in a repetition",
        )


def minimise(automaton: Automaton) -> Automaton:
    """Returns the automaton of the same language with the fewest states, without useless states.

    Blocks of states are split until all states of a block lead to the same blocks (Hopcroft 1971). If a block is split
    that was used as a splitter before, only its smaller part needs to be used again, so the time grows with n log n.
    """
    automaton = trim(automaton)
    final = dict(automaton.final)
    block = _numbered([(variable, final.get(q)) for q, variable in enumerate(automaton.variables)])
    members: list[set[int]] = [set() for _ in range(max(block, default=-1) + 1)]
    for state, number in enumerate(block):
        members[number].add(state)
    incoming: list[list[Transition]] = [[] for _ in automaton.variables]
    for transition in automaton.transitions:
        incoming[transition.target].append(transition)
    waiting = list(range(len(members)))
    is_waiting = [True] * len(members)
    while waiting:
        splitter = waiting.pop()
        is_waiting[splitter] = False
        leading: dict[Guards, dict[int, None]] = {}
        for state in members[splitter]:
            for transition in incoming[state]:
                leading.setdefault(transition.guards, {})[transition.source] = None
        for sources in leading.values():
            hit: dict[int, list[int]] = {}
            for state in sources:
                hit.setdefault(block[state], []).append(state)
            for number, found in hit.items():
                if len(found) == len(members[number]):
                    continue
                new = len(members)
                members.append(set(found))
                members[number].difference_update(found)
                for state in found:
                    block[state] = new
                again = number if not is_waiting[number] and len(members[number]) < len(found) else new
                is_waiting.append(False)
                is_waiting[again] = True
                waiting.append(again)
    return _relabel(automaton, _numbered(block))


def _numbered(keys: Sequence[object]) -> list[int]:
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
    """Returns the automaton without useless states: those that lie on no path from an initial to a final state."""
    forward = reach({q for q, _ in automaton.initial}, [(t.source, t.target) for t in automaton.transitions])
    backward = reach({q for q, _ in automaton.final}, [(t.target, t.source) for t in automaton.transitions])
    useful = forward & backward
    if len(useful) == len(automaton.variables):
        return automaton
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


def reach(start: set[_Node], arrows: Iterable[tuple[_Node, _Node]]) -> set[_Node]:
    """Returns the nodes that can be reached along arrows from some nodes, including these."""
    after: dict[_Node, list[_Node]] = {}
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
    """Intersects the automaton with the words in which a variable occurs an allowed number of times.

    This is the product with a counter that stops at ``limit``; it turns ``COUNT(b) >= 3`` into states.

    If ``variable`` is None, every binding counts. ``allowed`` must be the same for all counts from ``limit`` on.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Repeat
    >>> plus = build_automaton(Repeat(Event("B", "B")))
    >>> len(restrict_count(plus, "B", 3, lambda n: n >= 3).variables)
    3
    """
    if len(automaton.variables) * (limit + 1) > MAX_STATES:
        raise UnsupportedQuery(f"counting to {limit} needs more than {MAX_STATES} states")
    if len(automaton.transitions) * (limit + 1) > MAX_TRANSITIONS:
        raise UnsupportedQuery(f"counting to {limit} needs more than {MAX_TRANSITIONS} transitions")

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
    """Returns the automaton of the words of both; neither may have guards, which could not be told apart."""
    if left.negations or right.negations:
        raise UnsupportedQuery(
            "AND of patterns that share a variable and hold a NOT", hint="give the two sides different variable names"
        )
    numbers: dict[tuple[int, int], int] = {}
    queue: list[tuple[int, int]] = []

    def numbered(left_states: Iterable[int], right_states: Iterable[int]) -> list[int]:
        """The pairs that read the same variable; an automaton reaches one state by each."""
        by_variable = {right.variables[q]: q for q in right_states}
        found = []
        for p in left_states:
            if left.variables[p] in by_variable:
                pair = p, by_variable[left.variables[p]]
                if pair not in numbers:
                    numbers[pair] = len(numbers)
                    queue.append(pair)
                found.append(numbers[pair])
        if len(numbers) > MAX_STATES:
            raise UnsupportedQuery(
                f"the trends that both sides of AND match need more than {MAX_STATES} states",
                hint="use smaller bounds in repeat(), or give the two sides different variable names",
            )
        return found

    after = [_targets(automaton) for automaton in (left, right)]
    initial = numbered((p for p, _ in left.initial), (q for q, _ in right.initial))
    transitions: list[Transition] = []
    for p, q in queue:  # grows while it is walked
        source = numbers[p, q]
        transitions += [Transition(source, target) for target in numbered(after[0][p], after[1][q])]
        _check_transitions(transitions)
    final = {p for p, _ in left.final}, {q for q, _ in right.final}
    return minimise(
        Automaton(
            tuple(left.variables[p] for p, _ in numbers),
            tuple((number, _NO_GUARDS) for number in initial),
            tuple((number, _NO_GUARDS) for (p, q), number in numbers.items() if p in final[0] and q in final[1]),
            tuple(transitions),
        )
    )


def _targets(automaton: Automaton) -> list[list[int]]:
    """Returns the states that the transitions from each state lead to."""
    targets: list[list[int]] = [[] for _ in automaton.variables]
    for transition in automaton.transitions:
        targets[transition.source].append(transition.target)
    return targets
