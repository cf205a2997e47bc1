"""Trends put together in the order of a plan, depth first.

A *frame* holds one binding, and where the search for another one in its place goes on. A slot that binds a set of
events has a frame for each of them. The frames of a step come after those of the steps before it. When a step is
*opened*, what its tests compare candidates with is looked up once (its *limits*), and so is the range of its items that
the neighbours in time, the scope and the longest span leave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.scopes import Scopes
from cetdsl.kernels.detect.steps import (
    ABOVE,
    AFTER,
    ALL,
    BEFORE,
    BELOW,
    BITS,
    BUCKET_LAST,
    BUCKET_SLOT,
    CLOSE,
    CLOSES,
    EACH,
    FIRSTS,
    FOLLOW,
    FOLLOW_SORTED,
    HIGHEST,
    IN_OTHERS_LIST,
    IN_OWN_BUCKETS,
    IN_OWN_LIST,
    IN_OWN_ORDER,
    INNER_END,
    INNER_LEFT,
    JUDGED,
    JUDGED_END,
    LAST,
    LASTLY,
    LEAST,
    LOWEST,
    MOST,
    OPENS,
    OTHERS,
    OTHERS_END,
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
from cetdsl.kernels.detect.tables import BUCKETS, ITEMS, LEVEL, PROBES, RANKS, Extents, Tables
from cetdsl.kernels.enumerate.blocks import BINDINGS, DEPTH, EVENT_BITS, NEED, OWN, TRENDS, WIDE, WINDOW, copy_path
from cetdsl.kernels.enumerate.correlated import Gaps, Path, has_match
from cetdsl.kernels.machine.conditions import Conditions, compare, is_listed
from cetdsl.kernels.machine.lookups import LARGEST, next_holding
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Block, Bools, Events, Index, Ints, Places

#: The bits of a label that are its event.
EVENT = (1 << EVENT_BITS) - 1
#: An entry of the search's position: the step that is to be opened next; -1: none.
OPENING = OWN


class Frames(NamedTuple):
    """The frames that the search stands on, and the state of the steps that are open."""

    #: Of each frame its step, the next item to be tried, the item before which to stop, and whether it has a binding
    #: whose consequences are being tried. ``wide`` is where those that follow it in its set stop, and ``until`` the
    #: event that they come before.
    step: Ints
    next: Ints
    stop: Ints
    wide: Ints
    until: Ints
    bound: Bools
    #: The frames ``start[s]:stop_of[s]`` are those of the slot ``s``.
    slot_start: Ints
    slot_stop: Ints
    #: What each test compares candidates with.
    limit: Ints
    #: Whether a set that holds an event can be closed, as far as is known, shape (steps, n); empty where no step asks.
    alive: Bools


class Effort(NamedTuple):
    """Counts the candidates that a search tries, by the group of the scope, and limits them."""

    #: The candidates that were tried, or marked, shape (groups,), and how many are enough: then the rest is left out.
    tried: Ints
    enough: Ints
    #: Of the candidates of the first step, one in so many is tried.
    thin: int


def whole_effort(groups: int) -> Effort:
    """Returns an effort that tries all candidates."""
    return Effort(np.zeros(groups, dtype=np.int64), np.full(groups, 2**62), 1)


@inlined
def may_neighbour(events: Events, op: int, column: int, other_column: int, event: int, other: int) -> bool:
    """Whether an event and one that it neighbours satisfy a test; the values of both may be NULL."""
    if op == IN_OWN_LIST:
        return is_listed(events.list_start, events.list_items, column, other, event)
    if op == IN_OTHERS_LIST:
        return is_listed(events.list_start, events.list_items, column, event, other)
    if not (events.valid[column, event] and events.valid[other_column, other]):
        return False
    return compare(op, events.codes[column, event], events.codes[other_column, other])


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
    # It takes more than ten arguments as it is called where all of them are at hand, each in its own tuple.
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
    """Whether the tests ``start:stop`` of an event and one that it neighbours hold; arrays of events come one by one.

    In the loop of the search this is faster than to hand over all of them at each test.
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


@jit
def neighbours_allow(events: Events, test: Ints, start: int, stop: int, event: int, other: int) -> bool:
    """Whether the tests ``start:stop`` of an event and one that it neighbours hold."""
    arrays = (events.codes, events.valid, events.list_start, events.list_items)
    return tests_hold(test, start, stop, *arrays, event, other)


@jit
def mark_alive(
    step: Ints,
    inner: Ints,
    test: Ints,
    codes: Ints,
    valid: Bools,
    list_start: Ints,
    list_items: Ints,
    item: Places,
    k: Index,
    first: Index,
    stop: Index,
    behind: Index,
    alive: Bools,
) -> int:
    """Marks which of the items ``first:stop`` can lie in a set that ends beside the event ``behind`` it.

    From the last item to the first: one that may end a set, or that some later one which is alive may follow, by the
    test between neighbours that compares by order. Returns the end of the items that are alive.
    """
    ordered, end, begin, tests_end = step[k, FOLLOW_SORTED], first, step[k, CLOSE], step[k, TESTS_END]
    op = column = other_column = 0
    if ordered >= 0:
        op, column, other_column = int(inner[ordered, 0]), int(inner[ordered, 1]), int(inner[ordered, 3])
    largest = op >= LARGEST
    best = np.int64(-(2**63)) if largest else np.int64(2**63 - 1)
    for i in range(stop - 1, first - 1, -1):
        event = int(item[i])
        found = tests_hold(test, begin, tests_end, codes, valid, list_start, list_items, event, int(behind))
        if not found and end > first:
            found = ordered < 0 or (valid[other_column, event] and compare(op, int(best), codes[other_column, event]))
        alive[k, event] = found
        if found:
            end = max(end, i + 1)
            if ordered >= 0 and valid[column, event]:
                code = codes[column, event]
                best = max(best, code) if largest else min(best, code)
    return int(end)


@inlined
def ends_of_path(path_event: Ints, depth: Index) -> tuple[Index, Index]:
    """Returns the first and the last of ``depth`` events of a path."""
    first = last = path_event[0]
    for d in range(1, depth):
        first, last = min(first, path_event[d]), max(last, path_event[d])
    return first, last


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
    partial : int64 array, shape (groups, steps)
        The partial matches of each step, which are counted here by the group of the scope.
    effort : Effort
        How much is tried.
    at : int64 array
        A position, see :mod:`~cetdsl.kernels.enumerate.blocks`.
    out : Block
        The block to fill; its events become labels, and its variables are left as they are.
    """
    # One long loop over arrays that are taken out of their tuples before it: what it would call per partial match needs
    # most of them, and each access to a field of a tuple counts references.
    steps, tables, extents, events = borrowed(steps), borrowed(tables), borrowed(extents), borrowed(events)
    scopes, path, frames = borrowed(scopes), borrowed(path), borrowed(frames)
    effort, out = borrowed(effort), borrowed(out)
    step, test, inner, others = steps.step, steps.test, steps.inner, steps.other
    place, item, rank, bucket, probe = tables.place, tables.item, tables.rank, tables.bucket, tables.probe
    key, key_start = tables.key, tables.key_start
    instant_start, instant_stop = extents.instant_start, extents.instant_stop
    span_start, span_stop = extents.span_start, extents.span_stop
    codes, valid, list_start, list_items = events.codes, events.valid, events.list_start, events.list_items
    f_step, f_next, f_stop, f_wide, f_bound = frames.step, frames.next, frames.stop, frames.wide, frames.bound
    f_until, alive = frames.until, frames.alive
    slot_start, slot_stop, limit = frames.slot_start, frames.slot_stop, frames.limit
    path_event, path_label, path_variable = path.event, path.label, path.variable
    scope_low, scope_high, first_low, first_high = scopes.low, scopes.high, scopes.first_low, scopes.first_high
    last_low, last_high, scope_slice = scopes.last_low, scopes.last_high, scopes.slice
    group = scopes.group
    out_trend, out_event, out_slice = out.start, out.event, out.slice
    most, size, count, spans = len(out_slice), len(out_event) - WIDE, len(step), len(span_stop) > 0
    scope, depth, need, opening = at[WINDOW], at[DEPTH], at[NEED], at[OPENING]
    trends, bindings = 0, 0
    out_trend[0] = 0
    tried, enough, thin = effort.tried, effort.enough, effort.thin
    looks, most_looks = 0, enough[group[scope]] - tried[group[scope]] if scope >= 0 else 0
    in_order = True
    for s in range(count):
        in_order = in_order and step[s, SLOT] == s
    while True:
        if need > 0:
            # The frames are a trend to be written. Its last label is not on the path yet, as memory that was just
            # written would hold up the copying.
            if trends == most or bindings + need > size:
                break
            label = path_event[depth - 1] | step[count - 1, BITS]
            if in_order:
                copy_path(path_label, depth - 1, out_event, bindings)
                bindings += need
                out_event[bindings - 1] = label
            else:
                path_label[depth - 1] = label
                for s in range(count):
                    begin = slot_start[s]
                    length = slot_stop[s] - begin
                    out_event[bindings] = path_label[begin]
                    if length > 1:
                        for d in range(0, length, WIDE):
                            for e in range(WIDE):
                                out_event[bindings + d + e] = path_label[begin + d + e]
                    bindings += length
            if step[count - 1, LASTLY]:
                put_in_time(out_event, bindings - need, bindings, instant_start)
            out_slice[trends] = scope_slice[scope]
            trends += 1
            out_trend[trends] = bindings
            need = 0
        if opening >= 0:
            k, opening = opening, -1
            slot, below, above = step[k, SLOT], step[k, BELOW], step[k, ABOVE]
            low, high = scope_low[scope], scope_high[scope]
            if below >= 0:
                low = np.int64(instant_stop[path_event[slot_stop[below] - 1]])
                if above < 0 and spans:
                    high = min(high, span_stop[path_event[slot_start[step[k, LOWEST]]]])
            if above >= 0:
                high = np.int64(instant_start[path_event[slot_start[above]]])
                if below < 0 and spans:
                    low = max(low, span_start[path_event[slot_stop[step[k, HIGHEST]] - 1]])
            for o in range(step[k, OTHERS], step[k, OTHERS_END]):
                low = max(low, span_start[path_event[slot_stop[others[o, 1]] - 1]])
                high = min(high, span_stop[path_event[slot_start[others[o, 0]]]])
            wide = high
            if step[k, OPENS]:
                low, high = max(low, first_low[scope]), min(high, first_high[scope])
            if step[k, CLOSES]:
                high, wide = min(high, last_high[scope]), min(wide, last_high[scope])
                if step[k, MOST] == 1:
                    low = max(low, last_low[scope])
            if step[k, LASTLY]:
                first, last = ends_of_path(path_event, depth)
                if first >= first_high[scope]:
                    high = min(high, first_high[scope])
                if last < last_low[scope] and step[k, MOST] == 1:
                    low = max(low, last_low[scope])
            possible = low < high
            t, end = step[k, EACH], step[k, FIRSTS] if possible else 0
            while t < end:
                # The limits of the tests before ``t`` are known.
                op, column, other, which = test[t, 0], test[t, 3], test[t, 2], test[t, 4]
                start, stop = slot_start[other], slot_stop[other]
                event = path_event[stop - 1] if which == LAST else path_event[start]
                if op >= IN_OWN_LIST:
                    limit[t] = event
                else:
                    value = codes[column, event]
                    possible = possible and valid[column, event]
                    for d in range(start + 1, stop if which == ALL else start):
                        more = codes[column, path_event[d]]
                        possible = possible and (op != 0 or more == value)
                        value = min(value, more) if op < 4 else max(value, more)
                    limit[t] = value
                t += 1
            if possible:
                base, row = place[k, ITEMS], place[k, RANKS]
                if row >= 0:
                    first, stop = base + rank[row, low], base + rank[row, high]
                    widest = base + rank[row, wide] if wide > high else stop
                else:
                    other = step[k, BUCKET_SLOT]
                    event = path_event[slot_stop[other] - 1 if step[k, BUCKET_LAST] else slot_start[other]]
                    code = probe[place[k, PROBES], event]
                    first = stop = widest = np.int64(0)
                    if code >= 0:
                        start = place[k, BUCKETS] + code
                        begin, end = base + bucket[start], base + bucket[start + 1]
                        first = place_of(item, begin, end, low)
                        stop = place_of(item, first, end, high)
                        widest = place_of(item, stop, end, wide) if wide > high else stop
                if step[k, PRUNED] and first < stop:
                    behind = path_event[slot_start[slot + 1]]
                    looks += widest - first
                    widest = mark_alive(
                        step, inner, test, codes, valid, list_start, list_items, item, k, first, widest, behind, alive
                    )
                    stop = min(stop, widest)
                if first < stop:
                    f_step[depth], f_bound[depth], slot_start[slot] = k, False, depth
                    f_next[depth], f_stop[depth], f_wide[depth], f_until[depth] = first, stop, widest, wide
                    depth += 1
        if depth == 0 or looks > most_looks:
            if scope >= 0:
                tried[group[scope]] += looks
            scope += 1
            if scope == len(scope_low):
                break
            looks, most_looks = 0, enough[group[scope]] - tried[group[scope]]
            depth, opening = np.int64(0), 0
            continue
        d = depth - 1
        k = f_step[d]
        slot, several = step[k, SLOT], step[k, MOST] > 1
        follow, begun = step[k, FOLLOW], d == slot_start[slot]
        if several and f_bound[d]:
            # All that follows from this binding has been found, but for larger sets.
            f_bound[d] = False
            if depth - slot_start[slot] < step[k, MOST]:
                first, stop, until, one = f_next[d], f_wide[d], f_until[d], path_event[d]
                if begun and step[k, WIDE_SETS]:
                    until = min(until, np.int64(span_stop[one]))
                    stop = place_of(item, first, stop, until)
                if follow == IN_OWN_BUCKETS or (begun and follow == SAME_BUCKET):
                    code = probe[place[count + k, PROBES], one]
                    first = stop = np.int64(0)
                    if code >= 0:
                        start = place[count + k, BUCKETS] + code
                        base = place[count + k, ITEMS]
                        begin, end = base + bucket[start], base + bucket[start + 1]
                        first = place_of(item, begin, end, instant_stop[one])
                        stop = place_of(item, first, end, until)
                if first < stop:
                    path_label[d] = one | step[k, BITS]
                    f_step[depth], f_bound[depth], f_next[depth] = k, False, first
                    f_stop[depth] = f_wide[depth] = stop
                    f_until[depth] = until
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
                allowed = tests_hold(
                    test, each_end, step[k, CLOSE], codes, valid, list_start, list_items, candidate, other
                )
            if allowed and not begun:
                other = path_event[d - 1]
                allowed = instant_start[candidate] > other
                if allowed and row != k and step[k, FOLLOW_SORTED] >= 0:
                    allowed = valid[inner[step[k, FOLLOW_SORTED], 1], candidate]
                if allowed and step[k, INNER_LEFT] < step[k, INNER_END]:
                    allowed = tests_hold(
                        inner,
                        step[k, INNER_LEFT],
                        step[k, INNER_END],
                        codes,
                        valid,
                        list_start,
                        list_items,
                        candidate,
                        other,
                    )
            cursor += 1
            if allowed:
                event = candidate
                break
        if event < 0:
            depth -= 1
            continue
        f_next[d], f_bound[d] = cursor, True
        path_event[d], path_variable[d] = event, step[k, VARIABLE]
        slot_stop[slot] = depth
        if several:
            if depth - slot_start[slot] < step[k, LEAST] or (step[k, CLOSES] and event < last_low[scope]):
                continue
            if step[k, LASTLY] and ends_of_path(path_event, depth)[1] < last_low[scope]:
                continue
            if step[k, CLOSE] < step[k, TESTS_END]:
                other = path_event[slot_start[slot + 1]]
                if not tests_hold(
                    test, step[k, CLOSE], step[k, TESTS_END], codes, valid, list_start, list_items, event, other
                ):
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
    if scope < len(scope_low):
        tried[group[scope]] += looks
    at[WINDOW], at[DEPTH], at[OPENING] = scope, depth, opening
    at[TRENDS], at[BINDINGS], at[NEED] = trends, bindings, need


def make_frames(longest: int, slots: int, tests: int, events: int = 0) -> Frames:
    """Makes room for frames, slots and tests; with marks of ``events`` events for each slot if there are any."""
    step, following, stop, wide, until = (np.empty(longest, dtype=np.int64) for _ in range(5))
    bound, limit = np.empty(longest, dtype=np.bool_), np.empty(tests, dtype=np.int64)
    start, behind = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    alive = np.empty((slots if events else 0, events), dtype=np.bool_)
    return Frames(step, following, stop, wide, until, bound, start, behind, limit, alive)
