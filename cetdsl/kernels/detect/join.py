"""Stores the partial matches of the nodes of a tree, and joins those of the two children of a node.

The partial matches of all nodes are *rows* of one table; those of a node are consecutive, ordered by their first event.
A row does not list its events. It has only the first and the last of them, and the numbers of the two rows that it
joins, so it takes 16 bytes for any number of events. The events of a set form a *chain*, of which sets with the same
beginning share a part.

All functions here stop when there is no room for another row, and continue from a position when they are called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.frames import Frames, may_neighbour, neighbours_allow
from cetdsl.kernels.detect.nodes import (
    BACKWARDS,
    BEFORE,
    BEHIND,
    COLUMN,
    EDGE,
    EVENT,
    IN_TIME,
    LEFT,
    MASK,
    NONE,
    OP,
    OTHER_COLUMN,
    OTHER_EVENT,
    RIGHT,
    SET_TESTS,
    SORTED,
    TESTS,
    TESTS_END,
    Tree,
)
from cetdsl.kernels.detect.scopes import Scopes
from cetdsl.kernels.detect.search import judge, put_in_time
from cetdsl.kernels.detect.steps import (
    BITS,
    CLOSES,
    IN_OWN_LIST,
    INNER,
    INNER_END,
    LASTLY,
    LEAST,
    MOST,
    OPENS,
    VARIABLE,
    Steps,
)
from cetdsl.kernels.detect.tables import LEVEL, Extents
from cetdsl.kernels.enumerate.blocks import BINDINGS, NEED, OWN, ROOT, TRENDS, WIDE, WINDOW
from cetdsl.kernels.enumerate.correlated import Gaps, Path
from cetdsl.kernels.machine.conditions import Conditions, compare
from cetdsl.kernels.machine.lookups import next_holding
from cetdsl.kernels.vocabulary import Block, Bools, Events, Index, Ints, Places


class Rows(NamedTuple):
    """The table of partial matches of all nodes, with room for more; events are numbers of the chunk's events."""

    first: Places
    last: Places
    #: The two rows that each row joins; for a set of events, the end of its chain and -1.
    left: Places
    right: Places


class Chains(NamedTuple):
    """The events of sets, each with the link of the one before it in its set (-1: it is the first)."""

    event: Places
    before: Places


class Scope(NamedTuple):
    """The scope of a search: event by event from ``begin`` on (:func:`~cetdsl.kernels.detect.trees.scope_of`)."""

    begin: int
    #: By event: the event before which a partial match that begins with it must end (``reach``), and the event from
    #: which on a partial match that ends with it may begin (``back``).
    reach: Ints
    back: Ints
    #: Whether a trend may begin with the event, and whether one may end with it.
    opens: Bools
    closes: Bools


class RightSide(NamedTuple):
    """The right rows of a join: in their buckets by the first event."""

    item: Places
    #: Where each bucket begins; there is one if nothing is hashed.
    bucket: Places
    #: The bucket of the rows that go with each event; empty if nothing is hashed. The event is that of this slot.
    probe: Ints
    slot: int
    #: The keys of the items that the test by order compares, and the tree over them; ``place`` has its levels.
    key: Ints
    place: Ints


#: Entries of a position: how many rows (and links of chains) there are, and where a join or a search for sets goes on.
ROWS, LINKS, FROM, CURSOR, UNTIL, DEPTH, ENTRIES = range(7)
#: An entry of the position of :func:`write_trends`: the row before which to stop.
STOP_ROW = OWN


@inlined
def leaf_row(tree: Tree, rows: Rows, k: Index, row: Index, slot: Index) -> Index:
    """Returns the row of a slot's events within a row of node ``k``."""
    while tree.node[k, LEFT] >= 0:
        if (tree.node[tree.node[k, LEFT], MASK] >> slot) & 1:
            k, row = tree.node[k, LEFT], np.int64(rows.left[row])
        else:
            k, row = tree.node[k, RIGHT], np.int64(rows.right[row])
    return row


@jit
def events_of(tree: Tree, rows: Rows, k: int, start: int, stop: int, slot: int) -> Places:
    """Lists the event that each of some rows of node ``k`` binds to a slot; by default the first."""
    found = np.empty(stop - start, dtype=np.int32)
    for row in range(start, stop):
        found[row - start] = rows.first[row if slot == EDGE else leaf_row(tree, rows, k, row, slot)]
    return found


@jit
def _sets_hold(
    tree: Tree, rows: Rows, chains: Chains, events: Events, k: int, t: int, row: int, other_row: int
) -> bool:
    """Whether test ``t`` holds of the sets of events in both rows, each event with each."""
    left, right, slot, other = tree.node[k, LEFT], tree.node[k, RIGHT], tree.test[t, EVENT], tree.test[t, OTHER_EVENT]
    op, column, other_column = tree.test[t, OP], tree.test[t, COLUMN], tree.test[t, OTHER_COLUMN]
    leaf = np.int64(row) if slot == EDGE else leaf_row(tree, rows, right, row, slot)
    other_leaf = np.int64(other_row) if other == EDGE else leaf_row(tree, rows, left, other_row, other)
    link = -1 if slot == EDGE else int(rows.left[leaf])
    while True:
        event = int(chains.event[link]) if link >= 0 else int(rows.first[leaf])
        other_link = -1 if other == EDGE else int(rows.left[other_leaf])
        while True:
            before = int(rows.last[other_leaf])
            if other_link >= 0:
                before = int(chains.event[other_link])
            if not may_neighbour(events, op, column, other_column, event, before):
                return False
            other_link = int(chains.before[other_link]) if other_link >= 0 else -1
            if other_link < 0:
                break
        link = int(chains.before[link]) if link >= 0 else -1
        if link < 0:
            return True


@inlined
def _last_of(tree: Tree, rows: Rows, k: Index, row: Index, slot: Index) -> Index:
    """The last event that a row of node ``k`` binds to a slot, or to any."""
    return np.int64(rows.last[row if slot == EDGE else leaf_row(tree, rows, k, row, slot)])


@inlined
def _first_of(tree: Tree, rows: Rows, k: Index, row: Index, slot: Index) -> Index:
    """The first event that a row of node ``k`` binds to a slot, or to any."""
    return np.int64(rows.first[row if slot == EDGE else leaf_row(tree, rows, k, row, slot)])


@inlined
def _first_from(rows: Rows, side: RightSide, start: Index, stop: Index, event: Index) -> Index:
    """The first item in ``[start, stop)`` whose row does not begin before an event."""
    while start < stop:
        middle = (start + stop) // 2
        if rows.first[side.item[middle]] < event:
            start = middle + 1
        else:
            stop = middle
    return start


@jit
def join(
    tree: Tree,
    k: int,
    side: RightSide,
    rows: Rows,
    chains: Chains,
    events: Events,
    extents: Extents,
    scope: Scope,
    stop: int,
    at: Ints,
) -> bool:
    """Joins the rows of both children of node ``k``; those of the left one are ``at[FROM]:stop``.

    Returns whether all are joined; otherwise there is no room for another row.
    """
    test, ordered = tree.test, tree.node[k, SORTED]
    codes, valid = events.codes, events.valid
    begin, sets, end = tree.node[k, TESTS], tree.node[k, SET_TESTS], tree.node[k, TESTS_END]
    left, right = tree.node[k, LEFT], tree.node[k, RIGHT]
    count, room = at[ROWS], len(rows.first)
    one, cursor, until = at[FROM], at[CURSOR], at[UNTIL]
    while True:
        if cursor >= until:
            one += 1
            if one >= stop:
                at[ROWS], at[FROM], at[CURSOR], at[UNTIL] = count, one, 0, 0
                return True
            low, high = scope.back[rows.last[one] - scope.begin], scope.reach[rows.first[one] - scope.begin]
            if tree.node[k, BEHIND] != NONE:
                low = np.int64(extents.instant_stop[_last_of(tree, rows, left, one, tree.node[k, BEHIND])])
            if tree.node[k, BEFORE] != NONE:
                high = min(high, extents.instant_start[_first_of(tree, rows, left, one, tree.node[k, BEFORE])])
            bucket = 0
            if len(side.probe):
                bucket = side.probe[_last_of(tree, rows, left, one, side.slot)]
            cursor = until = 0
            if low < high and bucket >= 0:
                first, behind = np.int64(side.bucket[bucket]), np.int64(side.bucket[bucket + 1])
                cursor = _first_from(rows, side, first, behind, low)
                until = _first_from(rows, side, cursor, behind, high)
            continue
        limit = np.int64(0)
        if ordered >= 0:
            event = _last_of(tree, rows, left, one, test[ordered, OTHER_EVENT])
            limit = events.codes[test[ordered, OTHER_COLUMN], event]
            if not events.valid[test[ordered, OTHER_COLUMN], event]:
                cursor = until
        while cursor < until:
            if ordered >= 0:
                cursor = next_holding(side.key, side.place, 0, LEVEL, test[ordered, OP], int(limit), cursor, until)
                if cursor >= until:
                    break
            row = np.int64(side.item[cursor])
            first = min(rows.first[one], rows.first[row])
            allowed = rows.last[row] < scope.reach[first - scope.begin]
            t = begin
            while allowed and t < sets:
                slot, column, other_column = test[t, EVENT], test[t, COLUMN], test[t, OTHER_COLUMN]
                if test[t, BACKWARDS]:
                    event = int(_last_of(tree, rows, right, row, slot))
                    other = int(_first_of(tree, rows, left, one, test[t, OTHER_EVENT]))
                else:
                    event = int(_first_of(tree, rows, right, row, slot))
                    other = int(_last_of(tree, rows, left, one, test[t, OTHER_EVENT]))
                if test[t, OP] == IN_TIME:
                    earlier, later = (event, other) if test[t, BACKWARDS] else (other, event)
                    allowed = extents.instant_start[later] > earlier
                elif test[t, OP] >= IN_OWN_LIST:
                    allowed = may_neighbour(events, test[t, OP], column, other_column, event, other)
                else:
                    allowed = (
                        valid[column, event]
                        and valid[other_column, other]
                        and compare(test[t, OP], codes[column, event], codes[other_column, other])
                    )
                t += 1
            while allowed and t < end:
                allowed = _sets_hold(tree, rows, chains, events, k, t, int(row), one)
                t += 1
            if allowed:
                if count == room:
                    at[ROWS], at[FROM], at[CURSOR], at[UNTIL] = count, one, cursor, until
                    return False
                rows.first[count], rows.last[count] = first, max(rows.last[one], rows.last[row])
                rows.left[count], rows.right[count] = one, row
                count += 1
            cursor += 1


@jit
def find_sets(
    item: Places,
    steps: Steps,
    slot: int,
    rows: Rows,
    chains: Chains,
    events: Events,
    extents: Extents,
    scope: Scope,
    stack: Ints,
    at: Ints,
) -> bool:
    """Finds the sets of events, among some items, that a slot binds.

    ``stack`` has room for the sets that the search stands on: of each the end of its chain, and the next item to be
    tried. Returns whether all are found; otherwise there is no room for another one.
    """
    opens, closes = steps.step[slot, OPENS], steps.step[slot, CLOSES]
    least, most = steps.step[slot, LEAST], steps.step[slot, MOST]
    begin, end = steps.step[slot, INNER], steps.step[slot, INNER_END]
    one, depth, count, links = at[FROM], at[DEPTH], at[ROWS], at[LINKS]
    while True:
        full = count == len(rows.first) or links == len(chains.event)
        if full or (depth == 0 and one == len(item)):
            at[FROM], at[DEPTH], at[ROWS], at[LINKS] = one, depth, count, links
            return not full
        if depth == 0:
            event, before, cursor = int(item[one]), -1, one + 1
            first = event
            one += 1
            if opens and not scope.opens[event - scope.begin]:
                continue
        else:
            event, before, cursor = -1, int(stack[depth - 1, 0]), stack[depth - 1, 1]
            last, high = int(chains.event[before]), scope.reach[first_of(chains, stack) - scope.begin]
            while depth < most and cursor < len(item) and item[cursor] < high:
                candidate = int(item[cursor])
                cursor += 1
                if extents.instant_start[candidate] > last and neighbours_allow(
                    events, steps.inner, begin, end, candidate, last
                ):
                    event = candidate
                    break
            stack[depth - 1, 1] = cursor
            if event < 0:
                depth -= 1
                continue
            first = first_of(chains, stack)
        chains.event[links], chains.before[links] = event, before
        stack[depth, 0], stack[depth, 1] = links, cursor
        depth += 1
        if depth >= least and (not closes or scope.closes[event - scope.begin]):
            rows.first[count], rows.last[count], rows.left[count], rows.right[count] = first, event, links, -1
            count += 1
        links += 1


@inlined
def first_of(chains: Chains, stack: Ints) -> int:
    """The first event of the sets that a search stands on."""
    return int(chains.event[stack[0, 0]])


@jit
def write_trends(
    tree: Tree,
    steps: Steps,
    rows: Rows,
    chains: Chains,
    events: Events,
    extents: Extents,
    scopes: Scopes,
    within: Ints,
    begin: int,
    conditions: Conditions | None,
    gaps: Gaps | None,
    path: Path,
    frames: Frames,
    partial: Ints,
    at: Ints,
    out: Block,
) -> None:
    """Writes the rows of the root as trends of the scopes that they lie in, unless a gap forbids it.

    Parameters
    ----------
    tree, steps, rows, chains, events, extents
        The plan and its rows; those from ``at[ROOT]`` to ``at[STOP_ROW]`` are written.
    scopes : Scopes
        By their first event. Those of a trend that begins with event ``begin + i`` are among ``within[i]``.
    conditions, gaps
        As of :func:`~cetdsl.kernels.detect.search.search`.
    path, frames : Path, Frames
        Room for one trend.
    partial : int64 array, shape (groups, nodes)
        The trends are counted here by the group of their scope.
    at : int64 array
        A position, see :mod:`~cetdsl.kernels.enumerate.blocks`; its window is the number of a scope, -1 for the first.
    out : Block
        The block to fill; its events become labels.
    """
    root, count = len(tree.node) - 1, len(steps.step)
    most, size = len(out.slice), len(out.event) - WIDE
    row, scope, trends, bindings = at[ROOT], at[WINDOW], 0, 0
    out.start[0] = 0
    at[NEED] = 0
    while row < at[STOP_ROW]:
        first, last = rows.first[row], rows.last[row]
        depth = 0
        for slot in range(count):
            leaf = leaf_row(tree, rows, root, row, slot)
            depth = _bind(steps, rows, chains, slot, leaf, depth, path, frames)
        scope = within[first - begin, 0] if scope < 0 else scope
        while scope < within[first - begin, 1]:
            inside = scopes.first_low[scope] <= first and first < scopes.first_high[scope]
            inside = inside and scopes.last_low[scope] <= last and last < scopes.last_high[scope]
            k = 0
            while inside and conditions is not None and k < count:
                inside = judge(conditions, gaps, steps, extents, events, path, frames, scopes, scope, k, depth)
                k += 1
            if inside:
                if trends == most or bindings + depth > size:
                    at[NEED], at[ROOT], at[WINDOW], at[TRENDS], at[BINDINGS] = depth, row, scope, trends, bindings
                    return
                for d in range(depth):
                    out.event[bindings + d] = path.label[d]
                if steps.step[count - 1, LASTLY]:
                    put_in_time(out.event, bindings, bindings + depth, extents.instant_start)
                bindings += depth
                out.slice[trends] = scopes.slice[scope]
                trends += 1
                out.start[trends] = bindings
                partial[scopes.group[scope], root] += 1
            scope += 1
        row, scope = row + 1, np.int64(-1)
    at[ROOT], at[WINDOW], at[TRENDS], at[BINDINGS] = row, scope, trends, bindings


@inlined
def _bind(
    steps: Steps, rows: Rows, chains: Chains, slot: int, leaf: Index, depth: int, path: Path, frames: Frames
) -> int:
    """Puts the events of a slot on a path, in order of time; returns the depth behind them."""
    size, link = 1, int(rows.left[leaf])
    while link >= 0 and chains.before[link] >= 0:
        size, link = size + 1, int(chains.before[link])
    frames.slot_start[slot], frames.slot_stop[slot] = depth, depth + size
    link = int(rows.left[leaf])
    for d in range(depth + size - 1, depth - 1, -1):
        event = int(chains.event[link]) if link >= 0 else int(rows.first[leaf])
        path.event[d], path.label[d] = event, event | steps.step[slot, BITS]
        path.variable[d] = steps.step[slot, VARIABLE]
        link = int(chains.before[link]) if link >= 0 else -1
    return depth + size
