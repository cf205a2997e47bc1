"""Trends put together in the order of a plan, depth first.

A *frame* holds one binding, and where the search for another one in its place goes on. A slot that binds a set of
events has a frame for each of them. The frames of a step come after those of the steps before it. When a step is
*opened*, what its tests compare candidates with is looked up once (its *limits*), and so is the range of its items that
the neighbours in time, the scope and the longest span leave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.scopes import Scopes
from cetdsl.kernels.detect.steps import (
    AFTER,
    ALL,
    BEFORE,
    IN_OTHERS_LIST,
    IN_OWN_LIST,
    LAST,
    UNLIKE_ALL,
    Steps,
)
from cetdsl.kernels.detect.tables import Extents, Tables, next_holding
from cetdsl.kernels.enumerate.blocks import BINDINGS, DEPTH, NEED, OWN, TRENDS, WIDE, WINDOW
from cetdsl.kernels.enumerate.correlated import Gaps, Path, has_match
from cetdsl.kernels.machine.conditions import Conditions, compare, is_listed
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Block, Bools, Events, Ints

#: An entry of the search's position: the step that is to be opened next; -1: none.
OPENING = OWN


class Frames(NamedTuple):
    """The frames that the search stands on, and what is known of the steps that are open."""

    #: Of each frame its step, the next item to be tried, the item before which to stop, and whether it has a binding
    #: whose consequences are being tried. ``wide`` is where those that follow it in its set stop.
    step: Ints
    next: Ints
    stop: Ints
    wide: Ints
    bound: Bools
    #: The frames ``start[s]:stop_of[s]`` are those of the slot ``s``.
    slot_start: Ints
    slot_stop: Ints
    #: What each test compares candidates with.
    limit: Ints


@jit
def _set_allows(events: Events, path: Ints, start: int, stop: int, test: Ints, row: int, event: int) -> bool:
    """Whether an event differs from all events of a set, ``path[start:stop]``, by the test in a row."""
    value, other = events.codes[test[row, 1], event], test[row, 3]
    unlike = True
    for d in range(start, stop):
        unlike = unlike and events.codes[other, path[d]] != value
    return unlike


@inlined
def _may_neighbour(events: Events, op: int, column: int, other_column: int, event: int, other: int) -> bool:
    """Whether an event and one that it neighbours satisfy a test; the values of both may be NULL."""
    if op == IN_OWN_LIST:
        return is_listed(events.list_start, events.list_items, column, other, event)
    if op == IN_OTHERS_LIST:
        return is_listed(events.list_start, events.list_items, column, event, other)
    if not (events.valid[column, event] and events.valid[other_column, other]):
        return False
    return compare(op, events.codes[column, event], events.codes[other_column, other])


@jit
def _neighbours_allow(events: Events, test: Ints, start: int, stop: int, event: int, other: int) -> bool:
    """Whether the tests ``start:stop`` of an event and one that it neighbours hold."""
    allowed = True
    for t in range(start, stop):
        allowed = allowed and _may_neighbour(events, test[t, 0], test[t, 1], test[t, 3], event, other)
    return allowed


@jit
def _hoist(steps: Steps, events: Events, path: Ints, frames: Frames, k: int) -> bool:
    """Looks up what the tests of each candidate of a step compare with; returns whether any candidate may pass."""
    test, limit = steps.test, frames.limit
    for t in range(steps.each[k], steps.first[k]):
        op, column, other, which = test[t, 0], test[t, 3], test[t, 2], test[t, 4]
        start, stop = frames.slot_start[other], frames.slot_stop[other]
        event = path[stop - 1] if which == LAST else path[start]
        if op >= IN_OWN_LIST:
            limit[t] = event
            continue
        if not events.valid[column, event]:
            return False
        value = events.codes[column, event]
        for d in range(start + 1, stop if which == ALL else start):
            more = events.codes[column, path[d]]
            if op == 0 and more != value:
                return False
            value = min(value, more) if op < 4 else max(value, more)
        limit[t] = value
    return True


@jit
def _judge(
    conditions: Conditions,
    gaps: Gaps | None,
    steps: Steps,
    extents: Extents,
    events: Events,
    path: Path,
    frames: Frames,
    scopes: Scopes,
    scope: int,
    k: int,
    depth: int,
) -> bool:
    """Judges the gaps of which all is known once step ``k`` has bound its slot."""
    last = len(steps.slot) - 1
    slice_low, slice_high = scopes.slice_low[scope], scopes.slice_high[scope]
    for row in range(steps.judged_start[k], steps.judged_start[k + 1]):
        kind, negation, gap = steps.judged[row, 0], steps.judged[row, 1], steps.judged[row, 2]
        if gap == 0:
            before = np.int64(-1)
        else:
            before = path.event[frames.slot_stop[gap - 1] - 1]
        behind = path.event[frames.slot_start[gap]] if gap <= last else np.int64(-1)
        high = slice_high
        if gap > last and conditions.span > 0:
            high = np.int64(extents.span_stop[path.event[frames.slot_start[0]]])
        if kind == BEFORE:
            latest = conditions.latest_before[negation, behind]
            if conditions.span > 0:
                end = events.time[path.event[frames.slot_stop[last] - 1]]
                if latest >= 0 and conditions.instant_time[latest] >= end - conditions.span:
                    return False
            elif latest >= events.instant[slice_low]:
                return False
        elif kind == AFTER:
            if conditions.latest_until[negation, high - 1] > events.instant[before]:
                return False
        elif gaps is not None:
            low = slice_low
            if before >= 0:
                low = int(extents.instant_stop[before])
            elif conditions.span > 0:
                low = max(low, extents.span_start[path.event[frames.slot_stop[last] - 1]])
            if behind >= 0:
                high = int(extents.instant_start[behind])
            if has_match(gaps, events, path, depth, negation, low, high):
                return False
    return True


@jit
def _open(
    steps: Steps,
    tables: Tables,
    extents: Extents,
    events: Events,
    scopes: Scopes,
    path: Ints,
    frames: Frames,
    scope: int,
    k: int,
    depth: int,
) -> bool:
    """Opens step ``k`` with a frame at ``depth``; returns False where it has no candidates."""
    slot, below, above = steps.slot[k], steps.below[k], steps.above[k]
    low, high = scopes.low[scope], scopes.high[scope]
    if below >= 0:
        low = np.int64(extents.instant_stop[path[frames.slot_stop[below] - 1]])
        if above < 0 and len(extents.span_stop):
            high = min(high, extents.span_stop[path[frames.slot_start[steps.lowest[k]]]])
    if above >= 0:
        high = np.int64(extents.instant_start[path[frames.slot_start[above]]])
        if below < 0 and len(extents.span_start):
            low = max(low, extents.span_start[path[frames.slot_stop[steps.highest[k]] - 1]])
    wide = high
    if slot == 0:
        low, high = max(low, scopes.first_low[scope]), min(high, scopes.first_high[scope])
    if slot == len(steps.slot) - 1:
        high, wide = min(high, scopes.last_high[scope]), min(wide, scopes.last_high[scope])
        if steps.most[k] == 1:
            low = max(low, scopes.last_low[scope])
    if low >= high or not _hoist(steps, events, path, frames, k):
        return False
    base, row = tables.item_start[k], tables.rank_row[k]
    if row >= 0:
        first, stop = base + tables.rank[row, low], base + tables.rank[row, high]
        widest = base + tables.rank[row, wide] if wide > high else stop
    else:
        other = steps.bucket_slot[k]
        event = path[frames.slot_stop[other] - 1] if steps.bucket_last[k] else path[frames.slot_start[other]]
        code = tables.probe[tables.probe_row[k], event]
        if code < 0:
            return False
        bucket = tables.bucket_start[k] + code
        begin, end = base + tables.bucket[bucket], base + tables.bucket[bucket + 1]
        first = place_of(tables.item, begin, end, low)
        stop = place_of(tables.item, first, end, high)
        widest = place_of(tables.item, stop, end, wide) if wide > high else stop
    if first >= stop:
        return False
    frames.step[depth], frames.bound[depth] = k, False
    frames.next[depth], frames.stop[depth], frames.wide[depth] = first, stop, widest
    frames.slot_start[slot] = depth
    return True


@jit
def search(
    steps: Steps,
    tables: Tables,
    extents: Extents,
    events: Events,
    scopes: Scopes,
    conditions: Conditions | None,
    gaps: Gaps | None,
    path: Path,
    frames: Frames,
    partial: Ints,
    at: Ints,
    out: Block,
) -> None:
    """Goes on from the position ``at`` until the block is full or all trends are found.

    Parameters
    ----------
    steps, tables, extents, events
        The plan, and the chunk.
    scopes : Scopes
        What is searched; the position's window is the number of a scope.
    conditions, gaps
        What it takes to judge gaps; None where none is judged, and where no negation is correlated.
    path, frames : Path, Frames
        The bindings that the search stands on.
    partial : int64 array, shape (steps,)
        The partial matches of each step, which are counted here.
    at : int64 array
        A position, see :mod:`~cetdsl.kernels.enumerate.blocks`.
    out : Block
        The block to fill; its events become labels, and its variables are left as they are.
    """
    # One long loop with arrays of its own: what it would call per candidate needs most of them.
    item, key, key_start, level_start = tables.item, tables.key, tables.key_start, tables.level_start
    item_start, sorted_test, test = tables.item_start, steps.sorted, steps.test
    slot_of, least, most_of, bits, each, first_test = (
        steps.slot,
        steps.least,
        steps.most,
        steps.bits,
        steps.each,
        steps.first,
    )
    f_step, f_next, f_stop, f_wide, f_bound = frames.step, frames.next, frames.stop, frames.wide, frames.bound
    slot_start, slot_stop, limit = frames.slot_start, frames.slot_stop, frames.limit
    path_event, path_label, path_variable = path.event, path.label, path.variable
    out_trend, out_event, out_slice = out.start, out.event, out.slice
    most, size, count = len(out_slice), len(out_event) - WIDE, len(slot_of)
    scope, depth, need, opening = at[WINDOW], at[DEPTH], at[NEED], at[OPENING]
    trends, bindings = 0, 0
    out_trend[0] = 0
    while True:
        if need > 0:
            # The frames are a trend to be written.
            if trends == most or bindings + need > size:
                break
            for s in range(count):
                for d in range(slot_start[s], slot_stop[s]):
                    out_event[bindings] = path_label[d]
                    bindings += 1
            out_slice[trends] = scopes.slice[scope]
            trends += 1
            out_trend[trends] = bindings
            need = 0
        if opening >= 0:
            depth += _open(steps, tables, extents, events, scopes, path_event, frames, scope, opening, depth)
            opening = -1
        if depth == 0:
            scope += 1
            if scope == len(scopes.low):
                break
            opening = 0
            continue
        d = depth - 1
        k = f_step[d]
        slot = slot_of[k]
        if f_bound[d]:
            # All that follows from this binding has been found, but for larger sets.
            f_bound[d] = False
            if depth - slot_start[slot] < most_of[k]:
                stop = f_wide[d]
                if d == slot_start[slot] and k == 0 and len(extents.span_stop):
                    stop = place_of(item, f_next[d], stop, extents.span_stop[path_event[d]])
                f_step[depth], f_bound[depth], f_next[depth] = k, False, f_next[d]
                f_stop[depth] = f_wide[depth] = stop
                d = depth
                depth += 1
        base, ordered = item_start[k], sorted_test[k]
        cursor, stop = f_next[d], f_stop[d]
        begun = d == slot_start[slot]
        event = -1
        while cursor < stop:
            # No candidate of the frame before ``cursor`` is left to try.
            if ordered >= 0:
                cursor = base + next_holding(
                    key, level_start[k], test[ordered, 0], limit[ordered], cursor - base, stop - base
                )
                if cursor >= stop:
                    break
            candidate = int(item[cursor])
            allowed = True
            for t in range(each[k], first_test[k]):
                op = test[t, 0]
                if op < IN_OWN_LIST:
                    allowed = t == ordered or compare(op, key[key_start[t] + cursor - base], limit[t])
                elif op == UNLIKE_ALL:
                    other = test[t, 2]
                    allowed = _set_allows(events, path_event, slot_start[other], slot_stop[other], test, t, candidate)
                else:
                    allowed = _may_neighbour(events, op, test[t, 1], test[t, 3], candidate, limit[t])
                if not allowed:
                    break
            if allowed and most_of[k] > 1:
                if begun:
                    other = slot - 1
                    allowed = first_test[k] == steps.close[k] or _neighbours_allow(
                        events, test, first_test[k], steps.close[k], candidate, path_event[slot_stop[other] - 1]
                    )
                else:
                    allowed = extents.instant_start[candidate] > path_event[d - 1] and _neighbours_allow(
                        events,
                        steps.inner,
                        steps.inner_start[k],
                        steps.inner_start[k + 1],
                        candidate,
                        path_event[d - 1],
                    )
            cursor += 1
            if allowed:
                event = candidate
                break
        if event < 0:
            depth -= 1
            continue
        f_next[d], f_bound[d] = cursor, True
        path_event[d], path_label[d], path_variable[d] = event, event | bits[k], steps.variable[k]
        slot_stop[slot] = depth
        if most_of[k] > 1:
            if depth - slot_start[slot] < least[k]:
                continue
            if slot == count - 1 and event < scopes.last_low[scope]:
                continue
            if steps.close[k] < each[k + 1] and not _neighbours_allow(
                events, test, steps.close[k], each[k + 1], event, path_event[slot_start[slot + 1]]
            ):
                continue
        if conditions is not None and not _judge(
            conditions, gaps, steps, extents, events, path, frames, scopes, scope, k, depth
        ):
            continue
        partial[k] += 1
        if k == count - 1:
            need = depth
        else:
            opening = k + 1
    at[WINDOW], at[DEPTH], at[OPENING] = scope, depth, opening
    at[TRENDS], at[BINDINGS], at[NEED] = trends, bindings, need


def make_frames(longest: int, slots: int, tests: int) -> Frames:
    """Room for so many frames, slots and tests."""
    step, following, stop, wide = (np.empty(longest, dtype=np.int64) for _ in range(4))
    start, behind = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    return Frames(
        step, following, stop, wide, np.empty(longest, dtype=np.bool_), start, behind, np.empty(tests, dtype=np.int64)
    )
