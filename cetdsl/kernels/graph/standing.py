"""Finds with which nodes the trends of slices may begin and end, given NOTs at either end, a span and longer trends.

The slices' events are copies, and each slice is a key of its own, so that paths before and after an event stay within
its slice. With a span there is a slice for each event that a trend may begin with. Base states are those of the base
machine, which recognises trends whether or not they are complete (:mod:`cetdsl.ir.shadows`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.ir.kernel import ALL, KernelQuery
from cetdsl.ir.machine import Machine
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels.graph.attribute_graph import NEVER
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.reachability import Standing, usual_standing
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Places

#: Before all times.
_LONG_AGO = -(2**63)
#: The deadlines where there is no span.
NO_DEADLINES = np.zeros((0, 0), dtype=np.int64)


class Surroundings(NamedTuple):
    """All events of a chunk, with the code columns that guards need, and the latest starts of negated matches.

    ``before`` and ``until`` have the shape (negations, events). Of the matches of a negation that end before each event
    (``before``), or no later than it (``until``), they are the instant of the latest start; -1: there is none.
    """

    events: Events
    before: Ints
    until: Ints


class Beside(NamedTuple):
    """What trends of the base machine bind before and after each copy in its slice, of shape (copies, base states).

    ``precedes`` says whether one binds something before it. ``after`` is the earliest copy with which a trend ends that
    goes on after it; ``NEVER``: there is none.
    """

    precedes: Bools
    after: Places


class Copies(NamedTuple):
    """Copies of events, slice by slice: the chunk's ``number`` of each one, and its ``owner``, the slice.

    Each slice holds the events ``low:high`` of the chunk. With a span, its trends begin with the first of these, bound
    to the variable ``begin``. A longer trend that begins earlier, and reads this event in a base state, may last up to
    the time ``deadline``, of shape (slices, base states).
    """

    events: Events
    number: Ints
    owner: Ints
    low: Ints
    high: Ints
    begin: Ints
    deadline: Ints


def find_deadlines(builder: GraphBuilder, events: Events, span: int) -> Ints:
    """Finds the time up to which a trend may last that begins before an event and reads it in a base state.

    It has the shape (events, base states), and is before all times where there is no such trend.
    """
    before = builder.preceding(events, usual_standing(builder.joins, events))
    return np.where(before >= 0, events.time[np.maximum(before, 0)] + span, _LONG_AGO)


def find_standing(
    query: KernelQuery, builder: GraphBuilder, around: Surroundings, copies: Copies
) -> tuple[Standing, Standing, Beside]:
    """Returns the standing of copies in states of the query's machine, that in base states, and what is beside them.

    ``builder`` is that of the base machine. For the last result see :class:`Beside`.
    """
    assert query.shadows is not None
    spanning, shadows = query.windowing.kind == SPAN, query.shadows
    own = _allowed(query.machine, query, around, copies)
    if query.completeness == ALL:
        none = np.zeros((len(copies.number), len(shadows.base.variables)), dtype=np.bool_)
        return own, own, Beside(none, np.full_like(none, NEVER, dtype=np.int32))
    events = copies.events
    base = usual_standing(builder.joins, events) if spanning else _allowed(shadows.base, query, around, copies)
    after = builder.following(events, base)
    follows = after != NEVER
    precedes = np.zeros_like(follows) if spanning else builder.preceding(events, base) >= 0
    begins, ends = own.begins.copy(), own.ends.copy()
    for state, reading in enumerate(shadows.readings):
        begins[:, state] &= precedes[:, list(reading.preceded)].all(axis=1)
        begins[:, state] &= ~precedes[:, list(reading.unpreceded)].any(axis=1)
        if shadows.covers:
            continue  # whether a trend may end depends on its shadows, which are found along its edges
        ends[:, state] &= ~follows[:, reading.place]
        for first, shadow in reading.shadows:
            if spanning:
                ends[:, state] &= ~_outlasted(copies, base, after, first, shadow)
            else:
                ends[:, state] &= ~(follows[:, shadow] | base.ends[:, shadow])
    return Standing(own.exists, begins, ends), base, Beside(precedes, after)


def _bound(variable: Ints, events: Events) -> Bools:
    """Whether each event may be bound to the variable of each state."""
    return (events.mask[:, None] >> variable & 1).astype(np.bool_)


def _outlasted(copies: Copies, base: Standing, after: Places, first: int, shadow: int) -> Bools:
    """Whether a longer trend that begins earlier ends with each copy or later.

    It reads the first event of the slice in the base state ``first``, and the copy in the base state ``shadow``.
    """
    deadline = copies.deadline[copies.owner, first]
    beyond = ends_by(after[:, shadow], copies.events.time, deadline)
    outlasted: Bools = beyond | base.ends[:, shadow] & (copies.events.time <= deadline)
    return outlasted


def ends_by(after: Places, time: Ints, deadline: Ints) -> Bools:
    """Whether the copies ``after``, if there are any, are no later than a deadline."""
    timely: Bools = (after != NEVER) & (time[np.minimum(after, len(time) - 1)] <= deadline)
    return timely


def _allowed(machine: Machine, query: KernelQuery, around: Surroundings, copies: Copies) -> Standing:
    """Returns the nodes with which trends of the slices may begin and end, whether or not they are complete."""
    exists = _bound(np.array(machine.variables, dtype=np.int64), copies.events)
    begins, ends = np.zeros_like(exists), np.zeros_like(exists)
    number, owner = copies.number, copies.owner
    instant = around.events.instant[number]
    spanning = query.windowing.kind == SPAN
    for state, guards in machine.initial:
        begins[:, state] = exists[:, state]
        if spanning:
            begins[:, state] &= (number == copies.low[owner]) & (machine.variables[state] == copies.begin[owner])
            continue
        for guard in guards:
            begins[:, state] &= around.before[guard, number] < around.events.instant[copies.low][owner]
    for state, guards in machine.final:
        ends[:, state] = exists[:, state]
        for guard in guards:
            ends[:, state] &= around.until[guard, copies.high - 1][owner] <= instant
    if spanning:
        ends &= _late_enough(machine, query, around, copies)[:, None]
    return Standing(exists, begins, ends)


def _late_enough(machine: Machine, query: KernelQuery, around: Surroundings, copies: Copies) -> Bools:
    """Whether a trend that ends with each copy is unaffected by NOTs before it.

    That is so if the negated matches before the slice's first event all begin more than a span before the copy.
    """
    time, length = copies.events.time, query.windowing.length
    late = np.ones(len(time), dtype=np.bool_)
    at = np.zeros(int(around.events.instant[-1]) + 1, dtype=np.int64)
    at[around.events.instant] = around.events.time
    for state, guards in machine.initial:
        begun = (copies.begin == machine.variables[state])[copies.owner]
        for guard in guards:
            latest = around.before[guard, copies.low][copies.owner]
            late &= ~(begun & (latest >= 0) & (at[np.maximum(latest, 0)] >= time - length))
    return late
