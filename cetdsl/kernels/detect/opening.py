"""Opens a step of a plan: finds the events that its slot may bind, and the values that candidates are compared with."""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.frames import Frames, ends_of_path, neighbours_allow
from cetdsl.kernels.detect.scopes import Scopes
from cetdsl.kernels.detect.steps import (
    ABOVE,
    ALL,
    BELOW,
    BUCKET_LAST,
    BUCKET_SLOT,
    CLOSE,
    CLOSES,
    EACH,
    FIRSTS,
    FOLLOW_SORTED,
    HIGHEST,
    IN_OWN_LIST,
    LAST,
    LASTLY,
    LOWEST,
    MOST,
    OPENS,
    OTHERS,
    OTHERS_END,
    TESTS_END,
    Steps,
)
from cetdsl.kernels.detect.tables import BUCKETS, ITEMS, PROBES, RANKS, Extents, Tables
from cetdsl.kernels.machine.conditions import compare
from cetdsl.kernels.machine.lookups import LARGEST
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Bools, Events, Index, Ints, Places


@inlined
def reach(
    steps: Steps,
    extents: Extents,
    scopes: Scopes,
    path_event: Ints,
    frames: Frames,
    scope: Index,
    k: Index,
    depth: Index,
) -> tuple[Index, Index, Index]:
    """Returns the range of events with which the slot of a step may begin, and the event before which its set ends."""
    step, others, slot_start, slot_stop = steps.step, steps.other, frames.slot_start, frames.slot_stop
    below, above, spans = step[k, BELOW], step[k, ABOVE], len(extents.span_stop) > 0
    low, high = scopes.low[scope], scopes.high[scope]
    if below >= 0:
        low = np.int64(extents.instant_stop[path_event[slot_stop[below] - 1]])
        if above < 0 and spans:
            high = min(high, extents.span_stop[path_event[slot_start[step[k, LOWEST]]]])
    if above >= 0:
        high = np.int64(extents.instant_start[path_event[slot_start[above]]])
        if below < 0 and spans:
            low = max(low, extents.span_start[path_event[slot_stop[step[k, HIGHEST]] - 1]])
    for o in range(step[k, OTHERS], step[k, OTHERS_END]):
        low = max(low, extents.span_start[path_event[slot_stop[others[o, 1]] - 1]])
        high = min(high, extents.span_stop[path_event[slot_start[others[o, 0]]]])
    wide = high
    if step[k, OPENS]:
        low, high = max(low, scopes.first_low[scope]), min(high, scopes.first_high[scope])
    if step[k, CLOSES]:
        high, wide = min(high, scopes.last_high[scope]), min(wide, scopes.last_high[scope])
        if step[k, MOST] == 1:
            low = max(low, scopes.last_low[scope])
    if step[k, LASTLY]:
        first, last = ends_of_path(path_event, depth)
        if first >= scopes.first_high[scope]:
            high = min(high, scopes.first_high[scope])
        if last < scopes.last_low[scope] and step[k, MOST] == 1:
            low = max(low, scopes.last_low[scope])
    return low, high, wide


@inlined
def set_limits(steps: Steps, codes: Ints, valid: Bools, path_event: Ints, frames: Frames, k: Index) -> bool:
    """Looks up the values with which a step's tests compare candidates; returns whether any candidate can pass."""
    test, limit = steps.test, frames.limit
    possible = True
    for t in range(steps.step[k, EACH], steps.step[k, FIRSTS]):
        op, column, other, which = test[t, 0], test[t, 3], test[t, 2], test[t, 4]
        start, stop = frames.slot_start[other], frames.slot_stop[other]
        event = path_event[stop - 1] if which == LAST else path_event[start]
        if op >= IN_OWN_LIST:
            limit[t] = event
            continue
        value = codes[column, event]
        possible = possible and valid[column, event]
        for d in range(start + 1, stop if which == ALL else start):
            more = codes[column, path_event[d]]
            possible = possible and (op != 0 or more == value)
            value = min(value, more) if op < 4 else max(value, more)
        limit[t] = value
    return possible


@inlined
def in_bucket(
    tables: Tables, row: Index, event: Index, low: Index, high: Index, wide: Index
) -> tuple[Index, Index, Index]:
    """Returns the range of items in an event's bucket: the first from ``low`` on, and the one from ``high`` on.

    The third number is the first item from ``wide`` on, which is no earlier than ``high``.
    """
    zero: Index = np.int64(0)
    first, stop, widest = zero, zero, zero
    code = tables.probe[tables.place[row, PROBES], event]
    if code >= 0:
        base, start = tables.place[row, ITEMS], tables.place[row, BUCKETS] + code
        end = base + tables.bucket[start + 1]
        first = place_of(tables.item, base + tables.bucket[start], end, low)
        stop = place_of(tables.item, first, end, high)
        widest = place_of(tables.item, stop, end, wide) if wide > high else stop
    return first, stop, widest


@inlined
def items_between(
    step: Ints, tables: Tables, path_event: Ints, frames: Frames, k: Index, low: Index, high: Index, wide: Index
) -> tuple[Index, Index, Index]:
    """Returns the items of a step in a range of events, as :func:`in_bucket` does."""
    row = tables.place[k, RANKS]
    if row < 0:
        other = step[k, BUCKET_SLOT]
        place = frames.slot_stop[other] - 1 if step[k, BUCKET_LAST] else frames.slot_start[other]
        return in_bucket(tables, k, path_event[place], low, high, wide)
    base = tables.place[k, ITEMS]
    stop = base + tables.rank[row, high]
    return base + tables.rank[row, low], stop, base + tables.rank[row, wide] if wide > high else stop


@jit
def mark_alive(
    steps: Steps, events: Events, item: Places, k: Index, first: Index, stop: Index, behind: Index, alive: Bools
) -> int:
    """Marks as alive the items in ``first:stop`` that can lie in a set in front of the event ``behind``.

    It goes from the last item to the first. An item is alive if it may end a set, or if a later item that is alive may
    follow it by the test between neighbours that compares by order. Returns the end of the items that are alive.
    """
    steps, events = borrowed(steps), borrowed(events)
    step, inner, codes, valid = steps.step, steps.inner, events.codes, events.valid
    ordered, end, begin, tests_end = step[k, FOLLOW_SORTED], first, step[k, CLOSE], step[k, TESTS_END]
    op = column = other_column = 0
    if ordered >= 0:
        op, column, other_column = int(inner[ordered, 0]), int(inner[ordered, 1]), int(inner[ordered, 3])
    largest = op >= LARGEST
    best = np.int64(-(2**63)) if largest else np.int64(2**63 - 1)
    for i in range(stop - 1, first - 1, -1):
        event = int(item[i])
        found = neighbours_allow(events, steps.test, begin, tests_end, event, int(behind))
        if not found and end > first:
            found = ordered < 0 or (valid[other_column, event] and compare(op, int(best), codes[other_column, event]))
        alive[k, event] = found
        if found:
            end = max(end, i + 1)
            if ordered >= 0 and valid[column, event]:
                code = codes[column, event]
                best = max(best, code) if largest else min(best, code)
    return int(end)
