"""The stack of frames of a search in the order of a plan, and the tests between the events that frames bind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.steps import IN_OTHERS_LIST, IN_OWN_LIST
from cetdsl.kernels.machine.conditions import compare, is_listed
from cetdsl.kernels.vocabulary import Bools, Events, Index, Ints


class Frames(NamedTuple):
    """The stack of frames, as arrays by depth, and the state of the open steps; a frame holds one binding."""

    #: For each frame: its step, the next item to try, the item before which to stop, and whether it has a binding whose
    #: continuations are being tried. ``wide`` is the item before which those stop that follow in its set, and ``until``
    #: the event before which they lie.
    step: Ints
    next: Ints
    stop: Ints
    wide: Ints
    until: Ints
    bound: Bools
    #: The frames ``start[s]:stop_of[s]`` are those of the slot ``s``.
    slot_start: Ints
    slot_stop: Ints
    #: The value with which each test compares candidates.
    limit: Ints
    #: Whether a set with an event can still be closed, as far as is known, shape (steps, n); empty if no step needs it.
    alive: Bools


def make_frames(longest: int, slots: int, tests: int, events: int = 0) -> Frames:
    """Makes room for frames, slots and tests, and for marks of ``events`` events per slot if this is not 0."""
    step, following, stop, wide, until = (np.empty(longest, dtype=np.int64) for _ in range(5))
    bound, limit = np.empty(longest, dtype=np.bool_), np.empty(tests, dtype=np.int64)
    start, behind = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    alive = np.empty((slots if events else 0, events), dtype=np.bool_)
    return Frames(step, following, stop, wide, until, bound, start, behind, limit, alive)


@inlined
def push(frames: Frames, depth: Index, k: Index, first: Index, stop: Index, wide: Index, until: Index) -> None:
    """Adds a frame without a binding, for a step and the items to try."""
    frames.step[depth], frames.bound[depth], frames.next[depth] = k, False, first
    frames.stop[depth], frames.wide[depth], frames.until[depth] = stop, wide, until


@inlined
def ends_of_path(path_event: Ints, depth: Index) -> tuple[Index, Index]:
    """Returns the first and the last of ``depth`` events of a path."""
    first = last = path_event[0]
    for d in range(1, depth):
        first, last = min(first, path_event[d]), max(last, path_event[d])
    return first, last


@inlined
def may_neighbour(events: Events, op: int, column: int, other_column: int, event: int, other: int) -> bool:
    """Whether an event and its neighbour satisfy a test; the values of both may be NULL."""
    if op == IN_OWN_LIST:
        return is_listed(events.list_start, events.list_items, column, other, event)
    if op == IN_OTHERS_LIST:
        return is_listed(events.list_start, events.list_items, column, event, other)
    if not (events.valid[column, event] and events.valid[other_column, other]):
        return False
    return compare(op, events.codes[column, event], events.codes[other_column, other])


@jit
def tests_hold(
    test: Ints,
    start: int,
    stop: int,
    codes: Ints,
    valid: Bools,
    list_start: Ints,
    list_items: Ints,
    event: int,
    other: int,
) -> bool:
    """Whether the tests ``start:stop`` of an event and its neighbour hold; takes the arrays of events one by one.

    In the loop of the search this is faster than passing the whole tuple at each test.
    """
    allowed = True
    for t in range(start, stop):
        op = test[t, 0]
        if op == IN_OWN_LIST:
            allowed = is_listed(list_start, list_items, test[t, 1], other, event)
        elif op == IN_OTHERS_LIST:
            allowed = is_listed(list_start, list_items, test[t, 1], event, other)
        else:
            allowed = (
                valid[test[t, 1], event]
                and valid[test[t, 3], other]
                and compare(op, codes[test[t, 1], event], codes[test[t, 3], other])
            )
        if not allowed:
            break
    return allowed


@inlined
def neighbours_allow(events: Events, test: Ints, start: int, stop: int, event: int, other: int) -> bool:
    """Whether the tests ``start:stop`` of an event and its neighbour hold."""
    arrays = (events.codes, events.valid, events.list_start, events.list_items)
    return tests_hold(test, start, stop, *arrays, event, other)
