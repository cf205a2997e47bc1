"""Makes one event of a Kleene variable the pivot of comparisons between all events of two variables.

``A.x < B.x`` holds of all events of both variables where it holds of the A with the largest ``x`` and of all B. Of
several such A let it be the last: then the A before it have no larger ``x``, and those after it a smaller one, so that
each trend has one such A, and all comparisons are about it. ``A.x = B.x`` says that all A have the ``x`` of the first.
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
    """An event of a variable that all comparisons can be about.

    ``before`` and ``after`` are what the values of the events before it and after it must be, compared with its own;
    "": there are none before it.
    """

    name: str
    before: str
    after: str
    words: str


#: By the first sign of comparisons that have all other events on the left.
_EXTREMES = {
    ">": _Extreme("largest", "<=", "<", "last {} of a trend that has its largest {}"),
    "<": _Extreme("smallest", ">=", ">", "last {} of a trend that has its smallest {}"),
    "=": _Extreme("first", "", "=", "first {} of a trend, all of which have one {}"),
}

#: A state of the base machine, in a copy of it: before the pivot, at it, or after it.
_State = tuple[int, int]
_BEFORE, _PIVOT, _AFTER = range(3)
#: Which copies an edge leads between.
_WAYS = ((_BEFORE, _BEFORE), (_BEFORE, _PIVOT), (_PIVOT, _AFTER), (_AFTER, _AFTER))


def with_extreme(compiled: Compiled) -> Compiled:
    """Returns the query with an extreme event as its pivot, if it has no pivot and some variable has such an event.

    This variable is then in three parts: the events before the extreme one, the extreme one, and those after it.
    """
    return _first_about(chain((compiled,), _about_extremes(compiled)), 1) or compiled


def with_extremes(compiled: Compiled) -> Compiled:
    """Returns the query with one pivot, as by :func:`with_extreme`, or else with two, either of which may be extreme.

    So ``A.x < B.x AND B.x < C.x`` is about the largest ``A`` and the largest ``B``.
    """
    once = [compiled, *_about_extremes(compiled)]
    twice = (two for one in once[1:] for two in _about_extremes(one))
    return _first_about(once, 1) or _first_about(chain(once, twice), 2) or compiled


def _first_about(found: Iterable[Compiled], most: int) -> Compiled | None:
    """Returns the first query whose pairwise predicates are all about at most so many pivots; None: there is none."""
    return next((one for one in found if 0 < len(pivots_of(one.machine, one.pairs)) <= most), None)


class EndsDecided(NamedTuple):
    """A query about pivots that decide what a longer trend may bind before and behind each of its trends.

    ``states`` are the states that those of its machine were before variables came in parts. ``wholes`` are each pivot
    that is a part, and the whole variable, which no state reads.
    """

    compiled: Compiled
    states: tuple[int, ...]
    wholes: tuple[tuple[int, int], ...]


def with_ends_decided(compiled: Compiled, machine: Machine) -> EndsDecided | None:
    """Returns the query about pivots that decide its pairs and what may be put before and behind a trend.

    An A may stand before a trend of ``SEQ(A+, B+) WHERE A.x < B.x`` if its ``x`` is smaller than that of each B, of
    which the smallest decides, and a B behind it if its ``x`` is larger than that of the largest A. So these two are
    the pivots. What is put before a trend, or behind it, must not be compared with itself. None if no such pivots are
    found. The ``machine`` has the words of the query's own.
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
    """Returns variables whose pivots decide all pairs, and those with what is put before and behind trends."""
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
    """Returns the variables of what longer trends bind before the first event of a trend, and behind the last one."""
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
    """Whether variables of the query may be in parts."""
    correlated = any(negation.correlated for negation in compiled.negations)
    # Where no trend is left, there is no variable to have an extreme event; and which event a trend may go on with is
    # not said by what is asked of such an event.
    return bool(compiled.machine.variables) and not correlated and compiled.machine.matching == ANY


def _about_extremes(compiled: Compiled) -> Iterator[Compiled]:
    """Yields the query with an extreme event of each variable for the pairs that no pivot is in yet."""
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
    """Whether an extreme event of the variable on the right stands for all of them: all or none must satisfy."""
    signs = {pair.op[0] for pair in pairs}
    if not signs <= set(_EXTREMES):
        return False  # pairs that are listed compare no columns
    # A variable that a trend does not bind satisfies everything, also together with an event without a value.
    if not all(always_binds(machine, v) for v in {v for one in pairs for v in (one.left_variable, one.right_variable)}):
        return False
    columns = {codes[pair.right] for pair in pairs}
    if len({column.expr for column in columns}) > 1:
        return False
    # Events that are equal in one type may differ in another one.
    alike = len(columns) == 1 or signs == {"="} or all(column.in_order for column in columns)
    return alike and (len(signs) == 1 or ("=" in signs and len(columns) == 1))


def _parted(compiled: Compiled, variable: int, pairs: list[Pair], others: list[Pair]) -> Compiled:
    """Returns the query with a variable in three parts.

    The ``pairs`` have it on the right, and are then about the second part. The ``others`` hold of all three, if they
    relate the variable.
    """
    parted, _ = _in_parts(attrs.evolve(compiled, pairs=()), variable, pairs, kept=False)
    parts = parted.parts[-1]
    about_pivot = [attrs.evolve(pair, right_variable=parts.numbers[-2]) for pair in pairs]
    of_parts = [part for pair in others for part in _of_each(pair, parts)]
    return attrs.evolve(parted, pairs=(*parted.pairs, *about_pivot, *of_parts))


def _in_parts(compiled: Compiled, variable: int, pairs: list[Pair], *, kept: bool) -> tuple[Compiled, tuple[int, ...]]:
    """Returns the query with a variable in three parts, and the state that each of its machine's was before.

    The ``pairs`` have the variable on the right. What the parts are to each other becomes a pair. If the variable is
    ``kept``, its number is that of none of its parts.
    """
    # Where all events are equal, any of them is the largest and the smallest.
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
        # The term's own type tells more values apart than those that it is compared in.
        whole = CodeColumn(codes[columns[0]].expr)
        codes = codes if whole in codes else (*codes, whole)
        columns = list(dict.fromkeys((codes.index(whole), *columns)))
    column = columns[0]
    signs = {after: extreme.after} | ({before: extreme.before} if extreme.before else {})
    own = [Pair(sign, part, column, pivot, column) for part, sign in signs.items()]
    # What is NULL in another type compares with nothing there, and equal values of one type may differ in another.
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
    """Returns the machine of the same words with one event of a variable, the pivot, read as another variable.

    The ``parts`` are the variables that read the events before the pivot (-1: there are none), the pivot, and the
    events after it. Beside the machine stand the states of the one before that its states are copies of.
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
