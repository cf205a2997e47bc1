"""Puts trends together in the order of a plan, by depth-first search.

A *frame* holds one binding, and the place at which the search for another binding in its place continues. A slot that
binds a set of events has a frame for each of them. The frames of a step come after those of earlier steps. When the
search *opens* a step, it looks up once the values with which the step's tests compare candidates (its *limits*), and
the range of its items that is allowed by the bound neighbours in time, the scope and the longest span.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.frames import Frames, ends_of_path, neighbours_allow, push
from cetdsl.kernels.detect.opening import in_bucket, items_between, mark_alive, reach, set_limits
from cetdsl.kernels.detect.scopes import Scopes
from cetdsl.kernels.detect.steps import (
    AFTER,
    BEFORE,
    BITS,
    CLOSE,
    CLOSES,
    EACH,
    FIRSTS,
    FOLLOW,
    FOLLOW_SORTED,
    IN_OWN_BUCKETS,
    IN_OWN_LIST,
    IN_OWN_ORDER,
    INNER_END,
    INNER_LEFT,
    JUDGED,
    JUDGED_END,
    LASTLY,
    LEAST,
    MOST,
    PRUNED,
    SAME_BUCKET,
    SLOT,
    SORTED,
    TESTS_END,
    UNLIKE_ALL,
    VARIABLE,
    WIDE_SETS,
    Steps,
)
from cetdsl.kernels.detect.tables import ITEMS, LEVEL, Extents, Tables
from cetdsl.kernels.enumerate.blocks import BINDINGS, DEPTH, EVENT_BITS, NEED, OWN, TRENDS, WIDE, WINDOW, copy_path
from cetdsl.kernels.enumerate.correlated import Gaps, Path, has_match
from cetdsl.kernels.machine.conditions import Conditions, compare, is_listed
from cetdsl.kernels.machine.lookups import next_holding
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Block, Events, Index, Ints, Places

#: The bits of a label that are its event.
EVENT = (1 << EVENT_BITS) - 1
#: An entry of the search's position: the step that is to be opened next; -1: none.
OPENING = OWN


class Effort(NamedTuple):
    """Counts the candidates that a search tries, by the group of the scope, and limits them."""

    #: The numbers of candidates tried or marked, shape (groups,), and those at which the search of a group stops.
    tried: Ints
    enough: Ints
    #: One in so many candidates of the first step is tried.
    thin: int


def whole_effort(groups: int) -> Effort:
    """Returns an effort that tries all candidates."""
    return Effort(np.zeros(groups, dtype=np.int64), np.full(groups, 2**62), 1)


@jit
def judge(
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
    """Judges the gaps whose events are all bound once step ``k`` has bound its slot."""
    # It has more than ten parameters because its callers have each of these tuples at hand.
    judged = steps.judged
    slice_low, slice_high = scopes.slice_low[scope], scopes.slice_high[scope]
    for row in range(steps.step[k, JUDGED], steps.step[k, JUDGED_END]):
        kind, negation, earlier, later = judged[row, 0], judged[row, 1], judged[row, 2], judged[row, 3]
        first, last = judged[row, 4], judged[row, 5]
        before = path.event[frames.slot_stop[earlier] - 1] if earlier >= 0 else np.int64(-1)
        behind = path.event[frames.slot_start[later]] if later >= 0 else np.int64(-1)
        high = slice_high
        if later < 0 and conditions.span > 0:
            high = np.int64(extents.span_stop[path.event[frames.slot_start[first]]])
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


@inlined
def put_in_time(label: Ints, begin: Index, end: Index, instant_start: Places) -> None:
    """Sorts the labels of a trend by the instants of their events; simultaneous ones stay as they are."""
    for i in range(begin + 1, end):
        one = label[i]
        instant, place = instant_start[one & EVENT], i
        while place > begin and instant_start[label[place - 1] & EVENT] > instant:
            label[place] = label[place - 1]
            place -= 1
        label[place] = one


@inlined
def _write_trend(
    step: Ints, path: Path, frames: Frames, instant_start: Places, in_order: bool, depth: Index, label: Ints, end: Index
) -> None:
    """Writes the labels of the trend in the frames, such that they end at ``end``.

    The last label is not on the path yet, because copying memory that was just written would stall.
    """
    last, begin = len(step) - 1, end - depth
    own = path.event[depth - 1] | step[last, BITS]
    if in_order:
        copy_path(path.label, depth - 1, label, begin)
        label[end - 1] = own
    else:
        path.label[depth - 1] = own
        place = begin
        for slot in range(len(step)):
            first = frames.slot_start[slot]
            length = frames.slot_stop[slot] - first
            label[place] = path.label[first]
            if length > 1:
                for d in range(0, length, WIDE):
                    for e in range(WIDE):
                        label[place + d + e] = path.label[first + d + e]
            place += length
    if step[last, LASTLY]:
        put_in_time(label, begin, end, instant_start)


@inlined
def _followers(
    steps: Steps, tables: Tables, extents: Extents, frames: Frames, k: Index, d: Index, one: Index, begun: bool
) -> tuple[Index, Index, Index]:
    """Returns the range of items that may follow an event in a frame's set, and the event before which they lie."""
    step, follow = steps.step, steps.step[k, FOLLOW]
    first, stop, until = frames.next[d], frames.wide[d], frames.until[d]
    if begun and step[k, WIDE_SETS]:
        until = min(until, np.int64(extents.span_stop[one]))
        stop = place_of(tables.item, first, stop, until)
    if follow == IN_OWN_BUCKETS or (begun and follow == SAME_BUCKET):
        first, stop, _ = in_bucket(tables, len(step) + k, one, np.int64(extents.instant_stop[one]), until, until)
    return first, stop, until


@inlined
def _may_follow(steps: Steps, extents: Extents, events: Events, k: Index, apart: bool, one: int, other: int) -> bool:
    """Whether an event may directly follow another one in its set; ``apart`` if followers have tables of their own."""
    ordered, begin, end = steps.step[k, FOLLOW_SORTED], steps.step[k, INNER_LEFT], steps.step[k, INNER_END]
    if extents.instant_start[one] <= other:
        return False
    if apart and ordered >= 0 and not events.valid[steps.inner[ordered, 1], one]:
        return False
    return begin == end or neighbours_allow(events, steps.inner, begin, end, one, other)


@inlined
def _may_end(
    steps: Steps, events: Events, path_event: Ints, frames: Frames, last_low: Index, k: Index, depth: Index
) -> bool:
    """Whether the set of a step may end with the last event of the path."""
    step, slot, event = steps.step, steps.step[k, SLOT], path_event[depth - 1]
    if depth - frames.slot_start[slot] < step[k, LEAST] or (step[k, CLOSES] and event < last_low):
        return False
    if step[k, LASTLY] and ends_of_path(path_event, depth)[1] < last_low:
        return False
    begin, end = step[k, CLOSE], step[k, TESTS_END]
    if begin == end:
        return True
    return neighbours_allow(events, steps.test, begin, end, event, path_event[frames.slot_start[slot + 1]])


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
    effort: Effort,
    at: Ints,
    out: Block,
) -> None:
    """Continues the search from the position ``at`` until the block is full or all trends are found.

    Parameters
    ----------
    steps, tables, extents, events
        The plan, and the chunk.
    scopes : Scopes
        The scopes to search; the position's window is the number of a scope.
    conditions, gaps
        The data for judging gaps: ``gaps`` is None if none is judged, ``conditions`` if no negation is correlated.
    path, frames : Path, Frames
        The current bindings of the search.
    partial : int64 array, shape (groups, steps)
        The partial matches of each step, which are counted here by the group of the scope.
    effort : Effort
        The limits on candidates, and their counts.
    at : int64 array
        A position, see :mod:`~cetdsl.kernels.enumerate.blocks`.
    out : Block
        The block to fill; its events become labels, and its variables are left as they are.
    """
    steps, tables, extents, events = borrowed(steps), borrowed(tables), borrowed(extents), borrowed(events)
    scopes, path, frames = borrowed(scopes), borrowed(path), borrowed(frames)
    effort, out = borrowed(effort), borrowed(out)
    # The inner loop over candidates takes its arrays out of their tuples: a search takes a quarter longer without that.
    step, test, inner = steps.step, steps.test, steps.inner
    place, item, key, key_start = tables.place, tables.item, tables.key, tables.key_start
    codes, valid, list_start, list_items = events.codes, events.valid, events.list_start, events.list_items
    f_step, f_next, f_stop, f_bound = frames.step, frames.next, frames.stop, frames.bound
    slot_start, slot_stop, limit, alive = frames.slot_start, frames.slot_stop, frames.limit, frames.alive
    path_event, path_label, group = path.event, path.label, scopes.group
    tried, enough, thin = effort.tried, effort.enough, effort.thin
    most, size, count = len(out.slice), len(out.event) - WIDE, len(step)
    scope, depth, need, opening = at[WINDOW], at[DEPTH], at[NEED], at[OPENING]
    trends, bindings = 0, 0
    out.start[0] = 0
    looks: Index = 0
    most_looks = enough[group[scope]] - tried[group[scope]] if scope >= 0 else 0
    in_order = True
    for s in range(count):
        in_order = in_order and step[s, SLOT] == s
    while True:
        if need > 0:  # the frames hold a trend that is to be written
            if trends == most or bindings + need > size:
                break
            bindings += need
            _write_trend(step, path, frames, extents.instant_start, in_order, depth, out.event, bindings)
            out.slice[trends] = scopes.slice[scope]
            trends += 1
            out.start[trends] = bindings
            need = 0
        if opening >= 0:
            k, opening = opening, -1
            slot = step[k, SLOT]
            low, high, wide = reach(steps, extents, scopes, path_event, frames, scope, k, depth)
            if low < high and set_limits(steps, codes, valid, path_event, frames, k):
                first, stop, widest = items_between(step, tables, path_event, frames, k, low, high, wide)
                if step[k, PRUNED] and first < stop:
                    behind = path_event[slot_start[slot + 1]]
                    looks += widest - first
                    widest = mark_alive(steps, events, item, k, first, widest, behind, alive)
                    stop = min(stop, widest)
                if first < stop:
                    slot_start[slot] = depth
                    push(frames, depth, k, first, stop, widest, wide)
                    depth += 1
        if depth == 0 or looks > most_looks:
            if scope >= 0:
                tried[group[scope]] += looks
            scope += 1
            if scope == len(scopes.low):
                break
            looks, most_looks = 0, enough[group[scope]] - tried[group[scope]]
            depth, opening = np.int64(0), 0
            continue
        d = depth - 1
        k = f_step[d]
        slot, several = step[k, SLOT], step[k, MOST] > 1
        follow, begun = step[k, FOLLOW], d == slot_start[slot]
        if several and f_bound[d]:
            # All trends with this binding have been found, except for those with larger sets.
            f_bound[d] = False
            if depth - slot_start[slot] < step[k, MOST]:
                one = path_event[d]
                first, stop, until = _followers(steps, tables, extents, frames, k, d, one, begun)
                if first < stop:
                    path_label[d] = one | step[k, BITS]
                    push(frames, depth, k, first, stop, stop, until)
                    d = depth
                    depth += 1
                    begun = False
        each, each_end, pruned = step[k, EACH], step[k, FIRSTS], step[k, PRUNED]
        cursor, stop = f_next[d], f_stop[d]
        # ``ordered`` is the test that a tree of extremes answers, if it is one of each candidate; the first of its
        # set is looked for by that, and another one by a test between neighbours if there is one by order.
        row, ordered, op_of_tree, extreme = k, step[k, SORTED], -1, 0
        if ordered >= 0:
            op_of_tree, extreme = int(test[ordered, 0]), int(limit[ordered])
        keyed = True
        if not begun and follow > 0:
            row, ordered, keyed, op_of_tree = count + k, np.int64(-1), follow == IN_OWN_ORDER, -1
            t = step[k, FOLLOW_SORTED]
            if t >= 0:
                other = path_event[d - 1]
                op_of_tree, extreme = int(inner[t, 0]), int(codes[inner[t, 3], other])
                if not valid[inner[t, 3], other]:
                    cursor = stop
        base = place[row, ITEMS]
        event = -1
        thinned = thin > 1 and d == 0
        while cursor < stop:
            # No candidate of the frame before ``cursor`` is left to try.
            if op_of_tree >= 0:
                cursor = base + next_holding(key, place, row, LEVEL, op_of_tree, extreme, cursor - base, stop - base)
                if cursor >= stop:
                    break
            if thinned and (cursor - base) % thin:
                cursor += thin - (cursor - base) % thin
                continue
            candidate = int(item[cursor])
            allowed = True
            looks += 1
            if pruned:
                allowed = alive[k, candidate]
            for t in range(each, each_end if allowed else each):
                op = test[t, 0]
                if op < IN_OWN_LIST:
                    if keyed:
                        allowed = t == ordered or compare(op, key[key_start[t] + cursor - base], limit[t])
                    else:
                        allowed = compare(op, codes[test[t, 1], candidate], limit[t])
                elif op == UNLIKE_ALL:
                    value, other, column = codes[test[t, 1], candidate], test[t, 2], test[t, 3]
                    for e in range(slot_start[other], slot_stop[other]):
                        allowed = allowed and codes[column, path_event[e]] != value
                elif op == IN_OWN_LIST:
                    allowed = is_listed(list_start, list_items, test[t, 1], limit[t], candidate)
                else:
                    allowed = is_listed(list_start, list_items, test[t, 1], candidate, limit[t])
                if not allowed:
                    break
            if allowed and several and begun and each_end < step[k, CLOSE]:
                other = path_event[slot_stop[slot - 1] - 1]
                allowed = neighbours_allow(events, test, each_end, step[k, CLOSE], candidate, other)
            if allowed and not begun:
                allowed = _may_follow(steps, extents, events, k, row != k, candidate, path_event[d - 1])
            cursor += 1
            if allowed:
                event = candidate
                break
        if event < 0:
            depth -= 1
            continue
        f_next[d], f_bound[d] = cursor, True
        path_event[d], path.variable[d] = event, step[k, VARIABLE]
        slot_stop[slot] = depth
        if several and not _may_end(steps, events, path_event, frames, scopes.last_low[scope], k, depth):
            continue
        if conditions is not None and not judge(
            conditions, gaps, steps, extents, events, path, frames, scopes, scope, k, depth
        ):
            continue
        partial[group[scope], k] += 1
        if k == count - 1:
            need = depth
        else:
            path_label[d] = event | step[k, BITS]
            opening = k + 1
    if scope < len(scopes.low):
        tried[group[scope]] += looks
    at[WINDOW], at[DEPTH], at[OPENING] = scope, depth, opening
    at[TRENDS], at[BINDINGS], at[NEED] = trends, bindings, need
