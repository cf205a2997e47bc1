"""Puts trends together along the tree of a plan, and stores the partial matches of each node, which windows share.

Scopes are processed in *batches*, so that only partial matches for the current batch are stored. Within a batch, each
partial match is found once, for all windows that it lies in. Those of the root are the trends; they are written to each
of their windows as soon as there are some thousands.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from cetdsl.errors import GroupTooLarge
from cetdsl.kernels._jit import jit
from cetdsl.kernels.detect.frames import make_frames
from cetdsl.kernels.detect.join import (
    ENTRIES,
    FROM,
    LINKS,
    ROWS,
    STOP_ROW,
    Chains,
    RightSide,
    Rows,
    Scope,
    events_of,
    find_sets,
    join,
    write_trends,
)
from cetdsl.kernels.detect.nodes import COLUMN as TEST_COLUMN
from cetdsl.kernels.detect.nodes import EDGE, LEFT, OP, RIGHT, SLOT, SORTED, TreeProgram
from cetdsl.kernels.detect.nodes import EVENT as TEST_EVENT
from cetdsl.kernels.detect.scopes import Scopes
from cetdsl.kernels.detect.steps import CLOSES, LASTLY, MOST, OPENS, VARIABLE
from cetdsl.kernels.detect.tables import LEVEL, Extents, TableMaker, into_buckets
from cetdsl.kernels.enumerate.blocks import ROOT, WINDOW, in_blocks, make_position
from cetdsl.kernels.enumerate.correlated import Gaps, make_path
from cetdsl.kernels.machine.conditions import Conditions
from cetdsl.kernels.machine.lookups import LARGEST, LEVELS, add_levels, level_starts
from cetdsl.kernels.vocabulary import Block, Events, Ints, Places

#: The number of rows that a batch should store, and the most that one scope may store; a row takes 16 bytes.
WANTED, MOST_ROWS = 1 << 21, 1 << 26
#: The number of rows of the root that are found before they are written.
AT_ONCE = 1 << 16
#: The number of events of the first batch, and the fewest and the most events of any batch.
FIRST_BATCH, FEWEST, MOST_EVENTS = 1 << 14, 1 << 8, 1 << 22


class _Full(Exception):
    """Raised if there is no room for the partial matches of several scopes together."""


class TreeSearch:
    """Finds the trends of one branch in the scopes of a chunk, along a tree.

    ``conditions`` and ``gaps`` are those of :func:`~cetdsl.kernels.detect.search.search`. ``partial`` counts the
    partial matches of each node (for the root, the trends) by the group of the scope in which their last event lies.
    """

    def __init__(
        self,
        program: TreeProgram,
        events: Events,
        tables: TableMaker,
        extents: Extents,
        conditions: Conditions | None,
        gaps: Gaps | None,
        partial: Ints,
    ) -> None:
        self._program, self._tree = program, program.tree
        self._events, self._tables, self._extents = events, tables, extents
        judged = len(program.steps.judged) > 0
        self._conditions, self._gaps = (conditions, gaps) if judged else (None, None)
        self._partial = partial
        self._rows = Rows(*(np.empty(1 << 12, dtype=np.int32) for _ in range(4)))
        self._chains = Chains(*(np.empty(1 << 12, dtype=np.int32) for _ in range(2)))

    def blocks(self, scopes: Scopes, limit: int, block: int) -> Iterator[Block]:
        """Yields the trends of all scopes, or the first ``limit`` (-1: all), in blocks of ``block`` bindings."""
        scopes = _in_pieces(scopes, self._extents)
        scopes = scopes.take(np.argsort(scopes.first_low, kind="stable"))
        begin, most = 0, FIRST_BATCH
        while begin < len(scopes.low):
            behind = np.maximum.accumulate(scopes.high[begin:]) - scopes.low[begin]
            stop = begin + max(1, int(np.searchsorted(behind, most, side="right")))
            before = self._partial.copy()
            try:
                stored = yield from self._of_batch(scopes.take(np.arange(begin, stop)), limit, block)
            except _Full:
                self._partial[:] = before
                most = max(int(behind[stop - begin - 1]) // 4, 1)
                continue
            if limit > 0:
                limit -= int(self._partial[:, -1].sum() - before[:, -1].sum())
            if limit == 0:
                return
            events = int(behind[stop - begin - 1])
            most = int(min(max(events * min(WANTED / max(stored, 1), 4.0), FEWEST), MOST_EVENTS))
            begin = stop

    def _of_batch(self, scopes: Scopes, limit: int, block: int) -> Generator[Block, None, int]:
        """Yields the trends of some scopes; returns how many partial matches were stored."""
        scope, within, group = scope_of(scopes, self._extents)
        at = np.zeros(ENTRIES, dtype=np.int64)
        several = len(scopes.low) > 1
        starts = [0]
        root = len(self._tree.node) - 1
        for k in range(root):
            at[FROM:] = 0
            if self._tree.node[k, SLOT] >= 0:
                self._leaf(k, scope, at, several)
            else:
                self._inner(k, starts, scope, at, several)
            starts.append(int(at[ROWS]))
            last = self._rows.last[starts[k] : starts[k + 1]]
            self._partial[:, k] += np.bincount(group[last - scope.begin], minlength=len(self._partial))
        yield from self._trends(starts, scope, within, scopes, at, limit, block)
        return starts[-1]

    def _leaf(self, k: int, scope: Scope, at: Ints, several: bool) -> None:
        """Stores the events, or sets of events, that a slot can be bound to."""
        slot = int(self._tree.node[k, SLOT])
        steps, end = self._program.steps, scope.begin + len(scope.reach)
        items = self._tables.candidates(self._program.candidates[slot])
        items = items[np.searchsorted(items, scope.begin) : np.searchsorted(items, end)]
        if steps.step[slot, MOST] == 1:
            place = items - scope.begin
            allowed = scope.reach[place] > items
            for ends, kept in ((OPENS, scope.opens), (CLOSES, scope.closes)):
                if steps.step[slot, ends]:
                    allowed &= kept[place]
            items = items[allowed]
            begin, stop = int(at[ROWS]), int(at[ROWS]) + len(items)
            self._make_room(stop, 0, several)
            self._rows.first[begin:stop] = self._rows.last[begin:stop] = items
            self._rows.left[begin:stop] = self._rows.right[begin:stop] = -1
            at[ROWS] = stop
            return
        items = items[scope.reach[items - scope.begin] > items]
        stack = np.empty((len(items) + 1, 2), dtype=np.int64)
        while not find_sets(
            items, steps, slot, self._rows, self._chains, self._events, self._extents, scope, stack, at
        ):
            self._make_room(int(at[ROWS]) + 1, int(at[LINKS]) + 1, several)

    def _inner(self, k: int, starts: list[int], scope: Scope, at: Ints, several: bool) -> None:
        """Stores the partial matches of a node that joins two others."""
        side, stop = self._right_side(k, starts), self._left_rows(k, starts, at)
        while not self._joined(k, side, scope, stop, at):
            self._make_room(int(at[ROWS]) + 1, 0, several)

    def _left_rows(self, k: int, starts: list[int], at: Ints) -> int:
        """Goes to the first row of the left child; returns the one behind its last."""
        left = int(self._tree.node[k, LEFT])
        at[FROM] = starts[left] - 1
        return starts[left + 1]

    def _joined(self, k: int, side: RightSide, scope: Scope, stop: int, at: Ints) -> bool:
        return join(self._tree, k, side, self._rows, self._chains, self._events, self._extents, scope, stop, at)

    def _trends(
        self, starts: list[int], scope: Scope, within: Ints, scopes: Scopes, at: Ints, limit: int, block: int
    ) -> Iterator[Block]:
        """Joins the children of the root, and writes the trends part by part."""
        root, steps = len(self._tree.node) - 1, self._program.steps
        at[FROM:] = 0
        side, stop = self._right_side(root, starts), self._left_rows(root, starts, at)
        self._grow(starts[-1] + AT_ONCE, 0)
        most = steps.step[:, MOST]
        widest = int((scopes.high - scopes.low).max(initial=0)) if (most > 1).any() else 0
        longest = len(most) + min(widest, int(np.minimum(most, widest).sum()))
        path, frames = make_path(longest), make_frames(longest, len(most), 0)
        complete = False
        while not complete and limit != 0:
            at[ROWS] = starts[-1]
            complete = self._joined(root, side, scope, stop, at)
            position = make_position(1)
            position[ROOT], position[STOP_ROW], position[WINDOW] = starts[-1], at[ROWS], -1

            def fill(out: Block, position: Ints = position) -> None:
                write_trends(
                    self._tree, steps, self._rows, self._chains, self._events, self._extents, scopes, within,
                    scope.begin, self._conditions, self._gaps, path, frames, self._partial, position, out,
                )  # fmt: skip

            for found in in_blocks(fill, position, steps.step[:, VARIABLE], limit, block):
                limit -= len(found.slice) if limit > 0 else 0
                yield found

    def _right_side(self, k: int, starts: list[int]) -> RightSide:
        """Puts the rows of the right child into buckets, with a tree over what a test by order compares."""
        tree, hashed = self._tree, self._program.hashed[k]
        right = int(tree.node[k, RIGHT])
        start, stop = starts[right], starts[right + 1]
        item = np.arange(start, stop, dtype=np.int32)
        if self._program.steps.step[-1, LASTLY]:
            # Rows were found in the order of their left parts. Only in a single sequence do these begin the rows.
            item = item[np.argsort(self._rows.first[start:stop], kind="stable")]
        bucket = np.array([0, stop - start], dtype=np.int32)
        probe, slot = np.zeros(0, dtype=np.int64), EDGE
        if hashed is not None:
            codes, probe, size = self._tables.codes_of(hashed.comparisons)
            own = codes[events_of(tree, self._rows, right, start, stop, hashed.event)[item - start]]
            place, bucket = into_buckets(np.arange(stop - start, dtype=np.int32), own, size)
            item, slot = item[place], hashed.other_event
        key, levels = np.zeros(0, dtype=np.int64), np.zeros((1, LEVEL + LEVELS), dtype=np.int64)
        if tree.node[k, SORTED] >= 0:
            test = tree.test[tree.node[k, SORTED]]
            event = events_of(tree, self._rows, right, start, stop, int(test[TEST_EVENT]))[item - start]
            begins = level_starts(len(item))
            key = np.empty(begins[-1], dtype=np.int64)
            key[: len(item)] = self._events.codes[int(test[TEST_COLUMN]), event]
            add_levels(key, begins, len(item), bool(test[OP] >= LARGEST))
            levels[0, LEVEL : LEVEL + len(begins) - 1] = begins[:-1]
        return RightSide(item, bucket, probe, slot, key, levels)

    def _make_room(self, rows: int, links: int, several: bool) -> None:
        """Makes room for rows and links; less if they are of ``several`` scopes, as the batch can then be divided."""
        if max(rows, links) > (MOST_ROWS // 16 if several else MOST_ROWS):
            if several:
                raise _Full
            raise GroupTooLarge(
                f"a tree stores more than {MOST_ROWS} partial matches of one window at once",
                hint="write plan='greedy' or plan='dynamic', which store none, or shorten WITHIN",
            )
        self._grow(rows, links)

    def _grow(self, rows: int, links: int) -> None:
        if rows > len(self._rows.first):
            self._rows = Rows(*(_longer(column, rows) for column in self._rows))
        if links > len(self._chains.event):
            self._chains = Chains(*(_longer(column, links) for column in self._chains))


def _longer(column: Places, size: int) -> Places:
    longer = np.empty(max(size, 2 * len(column)), dtype=np.int32)
    longer[: len(column)] = column
    return longer


def _in_pieces(scopes: Scopes, extents: Extents) -> Scopes:
    """Cuts scopes with a span by the first events of their trends, so that few are stored at once."""
    if not len(extents.span_stop):
        return scopes
    sizes = np.maximum(scopes.first_high - scopes.first_low, 0)
    pieces = (sizes + FIRST_BATCH - 1) // FIRST_BATCH
    owner = np.repeat(np.arange(len(sizes)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    parts = scopes.take(owner)
    first_low = parts.first_low + number * FIRST_BATCH
    first_high = np.minimum(first_low + FIRST_BATCH, parts.first_high)
    high = np.minimum(parts.high, extents.span_stop[first_high - 1])
    return parts._replace(
        low=np.maximum(parts.low, first_low), high=high, first_low=first_low, first_high=first_high,
        last_low=np.maximum(parts.last_low, first_low), last_high=np.minimum(parts.last_high, high),
    )  # fmt: skip


def scope_of(scopes: Scopes, extents: Extents) -> tuple[Scope, Ints, Ints]:
    """Returns, event by event, the bounds of partial matches, and the scopes of trends that begin or end there.

    The second array, of shape (events, 2), has for each event the range of scopes of the trends that begin with it. The
    third one has the group of the scopes of trends that end with it. Scopes are in the order of their first events.

    Examples
    --------
    >>> ends = np.array([0, 2]), np.array([4, 6])
    >>> scopes = Scopes(*ends, *ends, *ends, np.arange(2), *ends, np.zeros(2, dtype=np.int64))
    >>> none = np.zeros(0, dtype=np.int32)
    >>> scope, within, _ = scope_of(scopes, Extents(none, none, none, none))
    >>> scope.reach.tolist(), within.tolist()
    ([4, 4, 6, 6, 6, 6], [[0, 1], [0, 1], [0, 2], [0, 2], [1, 2], [1, 2]])
    """
    begin, end = int(scopes.low.min()), int(scopes.high.max())
    reach, group = np.zeros(end - begin, dtype=np.int64), np.zeros(end - begin, dtype=np.int64)
    opens, closes = np.zeros(end - begin, dtype=np.int64), np.zeros(end - begin, dtype=np.int64)
    _mark(scopes.low, scopes.high, scopes.last_low, scopes.last_high, scopes.group, begin, reach, group)
    for low, high, marked in (
        (scopes.first_low, scopes.first_high, opens),
        (scopes.last_low, scopes.last_high, closes),
    ):
        _cover(low - begin, high - begin, marked)
    event = np.arange(begin, end)
    if len(extents.span_stop):
        reach = np.minimum(reach, extents.span_stop[begin:end])
    behind = np.maximum.accumulate(scopes.first_high)
    within = np.stack(
        [np.searchsorted(behind, event, side="right"), np.searchsorted(scopes.first_low, event, side="right")], axis=1
    )
    back = begin + np.searchsorted(reach, event, side="right")
    return Scope(begin, reach, back, opens > 0, closes > 0), within.astype(np.int64), group


@jit
def _mark(
    low: Ints, high: Ints, last_low: Ints, last_high: Ints, own: Ints, begin: int, reach: Ints, group: Ints
) -> None:
    """Finds where the last of the scopes ends that hold each event, and the group of trends that end with it."""
    for s in range(len(low)):
        if low[s] < high[s]:
            reach[low[s] - begin] = max(reach[low[s] - begin], high[s])
        for event in range(last_low[s], last_high[s]):
            group[event - begin] = own[s]
    for e in range(1, len(reach)):
        reach[e] = max(reach[e], reach[e - 1])


@jit
def _cover(low: Ints, high: Ints, covered: Ints) -> None:
    """Counts, for each event, the ranges that it lies in."""
    for s in range(len(low)):
        if low[s] < high[s]:
            covered[low[s]] += 1
            if high[s] < len(covered):
                covered[high[s]] -= 1
    for e in range(1, len(covered)):
        covered[e] += covered[e - 1]
