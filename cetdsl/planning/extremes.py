"""Makes one *extreme* event of a Kleene variable the pivot (:mod:`cetdsl.planning.pivots`) of pairwise comparisons.

``A.x < B.x`` holds for all events of both variables if and only if it holds for the A with the largest ``x`` and all B.
If several A have the largest ``x``, the last of them is the extreme event. The A before it have no larger ``x``, and
the A after it have a smaller one. So each trend has exactly one extreme A, and comparing that one with each B is
enough. For ``A.x = B.x`` the extreme event is the first A, and all other A must have its ``x``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product
from typing import NamedTuple

import attrs

from cetdsl.ir.compiled import MAX_VARIABLES, CodeColumn, Compiled, Parts
from cetdsl.ir.machine import Machine, Pair, always_binds
from cetdsl.pattern.automaton import Automaton, Transition, reach
from cetdsl.pattern.nodes import Not
from cetdsl.pattern.query import ANY
from cetdsl.pattern.text import quote
from cetdsl.planning.pivots import MOST_PIVOTS, binds_exactly_one, pivots_of


class _Extreme(NamedTuple):
    """A choice of the extreme event among the events of a variable.

    ``before`` and ``after`` are the operators by which the values of the variable's events before it and after it
    compare with its own value; ``before`` is "" if no such event precedes it.
    """

    name: str
    before: str
    after: str
    words: str


#: The extreme event by the first character of the comparisons, where the variable stands on the right.
_EXTREMES = {
    ">": _Extreme("largest", "<=", "<", "last {} of a trend that has its largest {}"),
    "<": _Extreme("smallest", ">=", ">", "last {} of a trend that has its smallest {}"),
    "=": _Extreme("first", "", "=", "first {} of a trend, all of which have one {}"),
}

#: A copy of the base machine (for the bindings before the pivot, the pivot, or those after it) and a state of it.
_State = tuple[int, int]
_BEFORE, _PIVOT, _AFTER = range(3)
#: The pairs of copies between which edges lead.
_WAYS = ((_BEFORE, _BEFORE), (_BEFORE, _PIVOT), (_PIVOT, _AFTER), (_AFTER, _AFTER))


def with_extreme(compiled: Compiled) -> Compiled:
    """Returns the query with an extreme event as its pivot, if it has no pivot and some variable has such an event.

    Three variables, its *parts*, then replace this variable: one binds the events before the extreme one, one the
    extreme one, and one the events after it.
    """
    return _first_about(chain((compiled,), _about_extremes(compiled)), 1) or compiled


def with_extremes(compiled: Compiled) -> Compiled:
    """Returns the query with one pivot, as :func:`with_extreme` does, or else with two; either may be an extreme event.

    The pivots of ``A.x < B.x AND B.x < C.x`` are the largest ``A`` and the largest ``B``.
    """
    once = [compiled, *_about_extremes(compiled)]
    twice = (two for one in once[1:] for two in _about_extremes(one))
    return _first_about(once, 1) or _first_about(chain(once, twice), 2) or compiled


def _first_about(found: Iterable[Compiled], most: int) -> Compiled | None:
    """Returns the first query where at most ``most`` pivots occur in all pairwise predicates; None: there is none."""
    return next((one for one in found if 0 < len(pivots_of(one.machine, one.pairs)) <= most), None)


class EndsDecided(NamedTuple):
    """A query whose pivots decide what a longer trend may bind before and behind each of its trends.

    ``states`` has, for each state of its machine, the state that it was before parts replaced variables. ``wholes``
    pairs each pivot that is a part with the number of its whole variable, which no state reads.
    """

    compiled: Compiled
    states: tuple[int, ...]
    wholes: tuple[tuple[int, int], ...]


def with_ends_decided(compiled: Compiled, machine: Machine) -> EndsDecided | None:
    """Returns the query with pivots that decide its pairs, and which events a longer trend may add at the ends.

    A longer trend may add an A before a trend of ``SEQ(A+, B+) WHERE A.x < B.x`` if this A has a smaller ``x`` than the
    smallest B, and a B behind it if this B has a larger ``x`` than the largest A. So the smallest B and the largest A
    are the pivots. No predicate may compare two variables that are both added at the same end. The result is None if
    there are no such pivots. ``machine`` accepts the same words as the query's own machine.
    """
    own = compiled.machine
    if not _may_have_parts(compiled) or len(set(own.variables)) < len(own.variables):
        return None
    chosen = _deciding(compiled)
    if chosen is None:
        return None
    parted, states = attrs.evolve(compiled, machine=machine, pairs=()), tuple(range(len(machine.variables)))
    for variable in (v for v in chosen if not binds_exactly_one(own, v)):
        if len(parted.variables) + 3 > MAX_VARIABLES:
            return None
        parted, origins = _in_parts(parted, variable, _about(compiled.pairs, variable), kept=True)
        states = tuple(states[origin] for origin in origins)
    parts = {one.numbers[0]: one.numbers for one in parted.parts}
    pivots = {variable: parts[variable][-2] if variable in parts else variable for variable in chosen}
    pairs = dict.fromkeys(parted.pairs)
    for variable, pivot in pivots.items():
        for pair in _about(compiled.pairs, variable):
            for left in parts.get(pair.left_variable, (pair.left_variable,)):
                one = attrs.evolve(pair, left_variable=left, right_variable=pivot)
                pairs |= {} if one.turned in pairs else {one: None}
    wholes = tuple((pivots[variable], variable) for variable in parts)
    return EndsDecided(attrs.evolve(parted, pairs=tuple(pairs)), states, wholes)


def _deciding(compiled: Compiled) -> tuple[int, ...] | None:
    """Returns variables whose pivots decide all pairs, also those of events that are added at the ends of a trend."""
    machine, codes, pairs = compiled.machine, compiled.codes, compiled.pairs
    beside = _put_beside(machine)
    sides = [(pair.left_variable, pair.right_variable) for pair in pairs]
    if any(one.issuperset(both) for one in beside for both in sides):
        return None
    both_ways = [*sides, *((v, u) for u, v in sides)]
    needed = {v for u, v in both_ways if u in beside[0] | beside[1]}
    others = sorted({v for _, v in both_ways} - needed)
    for further in (some for size in range(MOST_PIVOTS - len(needed) + 1) for some in combinations(others, size)):
        chosen = tuple(sorted({*needed, *further}))
        if (
            chosen
            and all(u in chosen or v in chosen for u, v in sides)
            and all(_has_pivot(machine, codes, pairs, v) for v in chosen)
        ):
            return chosen
    return None


def _put_beside(machine: Machine) -> tuple[set[int], set[int]]:
    """Returns the variables that longer trends may bind before the first event of a trend, and behind the last one."""
    initial, final = ({state for state, _ in ends} for ends in (machine.initial, machine.final))
    arrows = [(edge.source, edge.target) for edge in machine.edges]
    before = reach({s for s, t in arrows if t in initial}, [(t, s) for s, t in arrows])
    behind = reach({t for s, t in arrows if s in final}, arrows)
    return {machine.variables[s] for s in before}, {machine.variables[s] for s in behind}


def _has_pivot(machine: Machine, codes: tuple[CodeColumn, ...], pairs: tuple[Pair, ...], variable: int) -> bool:
    """Whether one event of a variable stands for all of them in each trend."""
    return binds_exactly_one(machine, variable) or _has_extreme(machine, codes, _about(pairs, variable))


def _about(pairs: Iterable[Pair], variable: int) -> list[Pair]:
    """Returns the pairs that relate a variable, with it on the right."""
    return [pair for pair in (one.about(variable) for one in pairs) if pair is not None]


def _may_have_parts(compiled: Compiled) -> bool:
    """Whether variables of the query may be replaced by parts."""
    correlated = any(negation.correlated for negation in compiled.negations)
    # A machine without variables has no trend, and so no extreme event. Under another policy than ANY the pattern
    # decides which event a trend may go on with, and parts would change the pattern.
    return bool(compiled.machine.variables) and not correlated and compiled.machine.matching == ANY


def _about_extremes(compiled: Compiled) -> Iterator[Compiled]:
    """Yields, for each variable of the pairs without an extreme event so far, the query with one of this variable."""
    if not _may_have_parts(compiled) or len(compiled.variables) + 2 > MAX_VARIABLES:
        return
    known = {one.numbers[1] for one in compiled.parts}
    rest = [pair for pair in compiled.pairs if known.isdisjoint((pair.left_variable, pair.right_variable))]
    for variable in sorted({v for pair in rest for v in (pair.left_variable, pair.right_variable)}):
        pairs = _about(rest, variable)
        if _has_extreme(compiled.machine, compiled.codes, pairs):
            others = [pair for pair in compiled.pairs if pair not in rest or pair.about(variable) is None]
            yield _parted(compiled, variable, pairs, others)


def _has_extreme(machine: Machine, codes: tuple[CodeColumn, ...], pairs: list[Pair]) -> bool:
    """Whether the pairs hold for all events of the variable on the right if they hold for one extreme event."""
    signs = {pair.op[0] for pair in pairs}
    if not signs <= set(_EXTREMES):
        return False  # pairs by lists compare no columns
    # If a trend does not bind one of the variables, the pairs hold, even for events whose value is NULL.
    if not all(always_binds(machine, v) for v in {v for one in pairs for v in (one.left_variable, one.right_variable)}):
        return False
    columns = {codes[pair.right] for pair in pairs}
    if len({column.expr for column in columns}) > 1:
        return False
    # Values that are equal in one type may differ in another one.
    alike = len(columns) == 1 or signs == {"="} or all(column.in_order for column in columns)
    return alike and (len(signs) == 1 or ("=" in signs and len(columns) == 1))


def _parted(compiled: Compiled, variable: int, pairs: list[Pair], others: list[Pair]) -> Compiled:
    """Returns the query with three parts in place of a variable.

    The ``pairs`` have the variable on the right; afterwards they compare with the second part, the extreme event. Those
    of the ``others`` that relate the variable are repeated for each part.
    """
    parted, _ = _in_parts(attrs.evolve(compiled, pairs=()), variable, pairs, kept=False)
    parts = parted.parts[-1]
    about_pivot = [attrs.evolve(pair, right_variable=parts.numbers[-2]) for pair in pairs]
    of_parts = [part for pair in others for part in _of_each(pair, parts)]
    return attrs.evolve(parted, pairs=(*parted.pairs, *about_pivot, *of_parts))


def _in_parts(compiled: Compiled, variable: int, pairs: list[Pair], *, kept: bool) -> tuple[Compiled, tuple[int, ...]]:
    """Returns the query with three parts in place of a variable, and the state that each of its machine's states was.

    The ``pairs`` have the variable on the right. New pairs compare the other parts with the extreme event. If the
    variable is ``kept``, no part takes over its number.
    """
    # With an equality all events have one value, so that the first of them is the largest and the smallest, too.
    extreme = _EXTREMES[min((pair.op[0] for pair in pairs), key="=<>".index)]
    name, condition = compiled.variables[variable]
    named, taken = list(compiled.variables), {known for known, _ in compiled.variables}
    before_it, it, after_it = (_unlike(f"{name}_{part}", taken) for part in ("before", extreme.name, "after"))
    before = len(named) if kept else variable
    named[before : before + 1] = [(before_it, condition)]
    pivot, after = len(named), len(named) + 1
    named += [(it, condition), (after_it, condition)]
    codes, columns = compiled.codes, list(dict.fromkeys(pair.right for pair in pairs))
    if extreme.before and len(columns) > 1:
        # The term's own type distinguishes more values than the types in which it is compared.
        whole = CodeColumn(codes[columns[0]].expr)
        codes = codes if whole in codes else (*codes, whole)
        columns = list(dict.fromkeys((codes.index(whole), *columns)))
    column = columns[0]
    signs = {after: extreme.after} | ({before: extreme.before} if extreme.before else {})
    own = [Pair(sign, part, column, pivot, column) for part, sign in signs.items()]
    # A value may become NULL in another type, which no comparison accepts, and equal values may differ in another type.
    own += [Pair(extreme.before or "=", part, other, pivot, other) for other in columns[1:] for part in signs]
    words = f"{it} is the {extreme.words.format(name, quote(codes[column].expr))}, "
    words += f"{after_it} are those after it" + f" and {before_it} those before it" * bool(extreme.before)
    machine, states = _around(compiled.machine, variable, (before if extreme.before else -1, pivot, after))
    parted = attrs.evolve(
        compiled,
        automaton=_named(machine, [name for name, _ in named], compiled.automaton.negations),
        variables=tuple(named),
        machine=machine,
        codes=codes,
        pairs=(*compiled.pairs, *own),
        parts=(*compiled.parts, Parts(name, tuple(dict.fromkeys((variable, before, pivot, after))), words)),
    )
    return parted, states


def _of_each(pair: Pair, parts: Parts) -> Iterator[Pair]:
    """Yields a pair for each part of a variable, or itself if it does not relate this variable."""
    about = pair.about(parts.numbers[0])
    if about is None:
        yield pair
    else:
        yield from (attrs.evolve(about, right_variable=number) for number in parts.numbers)


def _unlike(name: str, taken: set[str]) -> str:
    """Returns a name, perhaps longer, that no variable has."""
    return name if name not in taken else _unlike(f"{name}_", taken)


def _named(machine: Machine, names: list[str], negations: tuple[Not, ...]) -> Automaton:
    """Returns the automaton of a machine, whose variables have these names."""
    return Automaton(
        tuple(names[variable] for variable in machine.variables),
        tuple((state, frozenset(guards)) for state, guards in machine.initial),
        tuple((state, frozenset(guards)) for state, guards in machine.final),
        tuple(Transition(edge.source, edge.target, frozenset(edge.guards)) for edge in machine.edges),
        negations,
    )


def _around(machine: Machine, variable: int, parts: tuple[int, int, int]) -> tuple[Machine, tuple[int, ...]]:
    """Returns the machine that reads one event of a variable, the pivot, as another variable, and its states' origins.

    The ``parts`` are the variables that read the variable's events before the pivot (-1: there are none), the pivot,
    and those after it. The origin of a state is the state of the given machine that it is a copy of.
    """

    def read(state: _State) -> int:
        """Returns the variable that a state of a copy reads; -1: there is no such state."""
        part, base = state
        if machine.variables[base] == variable:
            return parts[part]
        return -1 if part == _PIVOT else machine.variables[base]

    steps = [
        ((before, edge.source), (behind, edge.target), edge)
        for edge, (before, behind) in product(machine.edges, _WAYS)
        if read((before, edge.source)) >= 0 <= read((behind, edge.target))
    ]
    initial = [((part, q), guards) for (q, guards), part in product(machine.initial, (_BEFORE, _PIVOT))]
    final = [((part, q), guards) for (q, guards), part in product(machine.final, (_PIVOT, _AFTER))]
    arrows = [(source, target) for source, target, _ in steps]
    begun = reach({state for state, _ in initial if read(state) >= 0}, arrows)
    ended = reach({state for state, _ in final if read(state) >= 0}, [(b, a) for a, b in arrows])
    number = {state: n for n, state in enumerate(sorted(begun & ended))}
    around = attrs.evolve(
        machine,
        variables=tuple(map(read, number)),
        initial=tuple((number[state], guards) for state, guards in initial if state in number),
        final=tuple((number[state], guards) for state, guards in final if state in number),
        edges=tuple(
            attrs.evolve(edge, source=number[source], target=number[target])
            for source, target, edge in steps
            if source in number and target in number
        ),
    )
    return around, tuple(base for _, base in number)
