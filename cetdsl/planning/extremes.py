"""Makes one event of a Kleene variable the pivot of comparisons between all events of two variables.

``A.x < B.x`` holds of all events of both variables where it holds of the A with the largest ``x`` and of all B. Of
several such A let it be the last: then the A before it have no larger ``x``, and those after it a smaller one, so that
each trend has one such A, and all comparisons are about it. ``A.x = B.x`` says that all A have the ``x`` of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, product
from typing import NamedTuple

import attrs

from cetdsl.ir.compiled import MAX_VARIABLES, Compiled, Parts
from cetdsl.ir.machine import Machine, Pair, always_binds
from cetdsl.pattern.automaton import Automaton, Transition, reach
from cetdsl.pattern.nodes import Not
from cetdsl.pattern.query import ANY
from cetdsl.pattern.text import quote
from cetdsl.planning.pivots import pivots_of


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

    So ``A.x < B.x AND B.x < C.x`` is about the largest ``A`` and the smallest ``C``.
    """
    once = [compiled, *_about_extremes(compiled)]
    twice = (two for one in once[1:] for two in _about_extremes(one))
    return _first_about(once, 1) or _first_about(chain(once, twice), 2) or compiled


def _first_about(found: Iterable[Compiled], most: int) -> Compiled | None:
    """Returns the first query whose pairwise predicates are all about at most so many pivots; None: there is none."""
    return next((one for one in found if 0 < len(pivots_of(one.machine, one.pairs)) <= most), None)


def _about_extremes(compiled: Compiled) -> Iterator[Compiled]:
    """Yields the query with an extreme event of each variable for the pairs that no pivot is in yet."""
    correlated = any(negation.correlated for negation in compiled.negations)
    if not compiled.machine.variables:
        return  # no trend is left, nor any variable to have an extreme event
    # Which event a trend may go on with is not said by what is asked of an extreme one.
    if correlated or compiled.machine.matching != ANY or len(compiled.variables) + 2 > MAX_VARIABLES:
        return
    known = {one.numbers[1] for one in compiled.parts}
    rest = [pair for pair in compiled.pairs if known.isdisjoint((pair.left_variable, pair.right_variable))]
    for variable in sorted({v for pair in rest for v in (pair.left_variable, pair.right_variable)}):
        pairs = [pair for pair in (one.about(variable) for one in rest) if pair is not None]
        if _has_extreme(compiled.machine, pairs):
            others = [pair for pair in compiled.pairs if pair not in rest or pair.about(variable) is None]
            yield _parted(compiled, variable, pairs, others)


def _has_extreme(machine: Machine, pairs: list[Pair]) -> bool:
    """Whether an extreme event of the variable on the right stands for all of them: all or none must satisfy."""
    # A variable that a trend does not bind satisfies everything, also together with an event without a value.
    bound = all(always_binds(machine, v) for pair in pairs for v in (pair.left_variable, pair.right_variable))
    signs, columns = {pair.op[0] for pair in pairs}, {pair.right for pair in pairs}
    return bound and len(columns) == 1 and signs <= set(_EXTREMES) and ("=" in signs or len(signs) == 1)


def _parted(compiled: Compiled, variable: int, pairs: list[Pair], others: list[Pair]) -> Compiled:
    """Returns the query with a variable in three parts.

    The ``pairs`` have it on the right, and are then about the second part. The ``others`` hold of all three, if they
    relate the variable.
    """
    # Where all events are equal, any of them is the largest and the smallest.
    extreme = _EXTREMES[min((pair.op[0] for pair in pairs), key="=<>".index)]
    column, pivot, after = pairs[0].right, len(compiled.variables), len(compiled.variables) + 1
    own = [Pair(extreme.after, after, column, pivot, column)]
    if extreme.before:
        own.append(Pair(extreme.before, variable, column, pivot, column))
    name, condition = compiled.variables[variable]
    taken = {known for known, _ in compiled.variables}
    before_it, it, after_it = (_unlike(f"{name}_{part}", taken) for part in ("before", extreme.name, "after"))
    named = [*compiled.variables, (it, condition), (after_it, condition)]
    named[variable] = before_it, condition
    words = f"{it} is the {extreme.words.format(name, quote(compiled.codes[column].expr))}, "
    words += f"{after_it} are those after it" + f" and {before_it} those before it" * bool(extreme.before)
    machine = _around(compiled.machine, variable, (variable if extreme.before else -1, pivot, after))
    parts = Parts(name, (variable, pivot, after), words)
    return attrs.evolve(
        compiled,
        automaton=_named(machine, [name for name, _ in named], compiled.automaton.negations),
        variables=tuple(named),
        machine=machine,
        pairs=(
            *own,
            *(attrs.evolve(pair, right_variable=pivot) for pair in pairs),
            *(part for pair in others for part in _of_each(pair, parts)),
        ),
        parts=(*compiled.parts, parts),
    )


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


def _around(machine: Machine, variable: int, parts: tuple[int, int, int]) -> Machine:
    """Returns the machine of the same words with one event of a variable, the pivot, read as another variable.

    The ``parts`` are the variables that read the events before the pivot (-1: there are none), the pivot, and the
    events after it.
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
    return attrs.evolve(
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
