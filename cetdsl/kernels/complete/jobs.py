"""Chooses an algorithm for the trends of each window, and makes jobs that do the work in order.

Windows for which a walk takes less time than making a plan are walked, many of them in one job. Windows that overlap
share graphlets: the stretches of nodes between the bounds of all windows (*panes*) are planned one by one, and the
partial trends of a graphlet, which do not depend on the window, are kept from the first window that holds it to the
last.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import attrs
import numpy as np

from cetdsl.errors import GroupTooLarge, InvalidNode
from cetdsl.ir.extraction import Extraction
from cetdsl.kernels.complete.anchors import choose_anchors
from cetdsl.kernels.complete.cut_plan import algorithm_of
from cetdsl.kernels.complete.cuts import (
    ENTRY_BYTES,
    Flow,
    Loads,
    Scope,
    find_cuts,
    find_flow,
    find_loads,
    plan_graphlets,
)
from cetdsl.kernels.complete.graphlets import (
    INDEX_BYTES,
    STEP_BYTES,
    Junctions,
    Stitcher,
    Tables,
    Way,
    count_pieces,
    drop_tables,
    fill_tables,
    make_tables,
    make_way,
)
from cetdsl.kernels.enumerate.blocks import variable_bits
from cetdsl.kernels.graph.attribute_graph import NEVER
from cetdsl.kernels.graph.shares import share_of_roots, split
from cetdsl.kernels.graph.walk import FRAME_BYTES, Records, Trace, Walker, records_of
from cetdsl.kernels.graph.windows import Windows, rules_of, windows_of
from cetdsl.kernels.vocabulary import Bools, Graph, Ints, Shorts

#: Bytes for partial trends where no limit is given: more would not fit a processor's caches.
USUAL_MEMORY = 8 * 2**20
#: The most bytes of partial trends where no limit is given; t-cet, which keeps all of them, fails beyond.
MOST_MEMORY = 4 * 2**30
#: h-cet plans a window if a walk makes at least so many visits in it: in all, and per vertex and edge. With fewer, a
#: plan would take longer than the walk.
PLANNING_VISITS, PLANNING_LOOKS = 2**20, 16
#: The least visits where windows share plans.
SHARING_VISITS = 2**17
#: Windows share partial trends only where a window by itself would keep more than this many for each visit of a walk:
#: stitching takes no more visits than a walk, but a visit takes it longer than writing a partial trend.
SHARED_ENTRIES = 2
_NONE, _NO, _YES = (np.array(values, dtype=np.bool_) for values in ([], [False], [True]))


@attrs.frozen
class Settings(Extraction):
    """Settings of how trends are extracted.

    ``memory`` is the bytes for partial trends and for the search, without the graph and the blocks of trends that are
    yielded. With ``sharing``, windows that overlap share graphlets. A ``thorough`` extraction plans every window, also
    where a walk takes less time than a plan.
    """

    sharing: bool = True
    thorough: bool = False

    def __attrs_post_init__(self) -> None:
        if self.memory is not None and self.memory < STEP_BYTES:
            raise InvalidNode(
                f"{self.memory} bytes are not enough for one vertex, which takes {STEP_BYTES}",
                hint="raise memory_limit, or leave it out",
            )


@attrs.define
class Measured:
    """The measured work of an extraction: the most bytes held at a time, and the steps.

    For steps see :class:`~cetdsl.kernels.complete.extract.Survey`.
    """

    bytes: int = 0
    steps: int = 0


class Choice(NamedTuple):
    """The choice of the partial trends that are kept of a window or pane, and its predicted cost.

    ``junctions`` are the edges between the partial trends, and ``cached`` says which graphlets have tables of them.
    ``entries`` is their predicted number, ``steps`` is as in a :class:`~cetdsl.kernels.complete.extract.Survey`, and
    ``anchors`` is the number of attribute vertices that are anchors.
    """

    junctions: Junctions
    cached: Bools
    entries: float
    steps: float
    anchors: int = 0


#: A stretch of nodes between the bounds of windows, and the choice for it.
_Pane = tuple[Scope, Choice]


class Work:
    """Makes the jobs of an extraction one after the other; each must be done before the next is requested.

    Its arguments are those of :func:`~cetdsl.kernels.complete.extract.extract`.
    """

    def __init__(
        self,
        graph: Graph,
        variable: Ints | Shorts,
        low: Ints,
        high: Ints,
        complete: bool,
        settings: Settings,
        measured: Measured | None = None,
    ) -> None:
        self.graph = graph
        self.windows = windows_of(graph, low, high)
        self.rules = rules_of(graph, complete)
        self.settings = settings
        self._variable = np.asarray(variable, dtype=np.int16)
        self._measured = measured or Measured()

    @cached_property
    def loads(self) -> Loads:
        """The cost of walking each window."""
        return find_loads(self.graph, self.rules, self.windows)

    @cached_property
    def _records(self) -> Records:
        return records_of(self.graph, self._variable)

    @cached_property
    def _labels(self) -> Ints:
        """The label of a binding of each node."""
        bits = variable_bits(self._variable)
        return self.graph.event | bits[self.graph.state] if bits.any() else self.graph.event

    def finish(self, job: Walker | Stitcher) -> None:
        """Adds the cost of a job to the measured work."""
        self._measured.steps += job.steps
        self._measured.bytes = max(self._measured.bytes, job.bytes_held)

    def jobs(self) -> Iterator[Walker | Stitcher]:
        """Yields jobs that find all trends, window by window."""
        count = len(self.windows.low)
        if self.settings.algorithm in ("auto", "m-cet"):
            yield self._walk(0, count)
            return
        heavy = self._heavy()
        window = 0
        while window < count:
            stop = window + 1
            while stop < count and heavy[stop] == heavy[window] and (not heavy[window] or self._shares[stop]):
                stop += 1
            if not heavy[window]:
                yield self._walk(window, stop)
            elif stop > window + 1:
                yield from self._stitch_series(window, stop)
            else:
                yield self.job(window)
            window = stop

    def share(self, part: int, parts: int) -> Iterator[Walker | Stitcher]:
        """Yields jobs that find part number ``part`` of ``parts`` equal parts of the trends.

        A walk can begin and end at any trend, so its parts are equal whatever the graph. Trends that are put together
        from partial ones are divided by their first events, so that each part needs only the partial trends to which
        these lead.
        """
        if parts == 1:
            yield from self.jobs()
        elif self.settings.algorithm in ("auto", "m-cet"):
            yield from self.walk(part, parts)
        else:
            own = share_of_roots(self.graph, self.windows, self.rules.complete, part, parts)
            low, high = self.windows.low, self.windows.high
            yield from Work(own, self._variable, low, high, self.rules.complete, self.settings, self._measured).jobs()

    def walk(self, part: int, parts: int) -> Iterator[Walker]:
        """Makes the job that walks one of equal parts of the trends."""
        wanted = [number for number in (part, part + 1) if 0 < number < parts]
        traces = split(self.graph, self.windows, self.rules.complete, np.array(wanted) / parts)
        if traces is not None:
            begin = traces[0] if part > 0 else None
            yield self._walk(0, len(self.windows.low), begin, traces[-1] if part + 1 < parts else None)

    def _heavy(self) -> Bools:
        """Whether each window is worth a plan, by itself or shared with others."""
        among = self._shares.copy()
        among[:-1] |= self._shares[1:]
        heavy: Bools = self._worth_a_plan | (among & (self.loads.visits >= SHARING_VISITS))
        return heavy

    @cached_property
    def _worth_a_plan(self) -> Bools:
        """Whether each window is worth a plan of its own."""
        size = self.loads.edges + self.windows.last - self.windows.first
        worth: Bools = self.loads.visits >= np.maximum(PLANNING_VISITS, PLANNING_LOOKS * size)
        if self.settings.thorough or self.settings.algorithm != "h-cet":
            worth = self.loads.visits > 0
        return worth

    @cached_property
    def _shares(self) -> Bools:
        """Whether each window shares graphlets with the one before."""
        first, last = self.windows.first, self.windows.last
        shares = np.zeros(len(first), dtype=np.bool_)
        if self.settings.sharing and self.settings.algorithm in ("t-cet", "h-cet", "anchors"):
            shares[1:] = (first[:-1] <= first[1:]) & (first[1:] < last[:-1]) & (last[:-1] <= last[1:])
        return shares

    # -- one window ------------------------------------------------------------------------------------------------

    def _scope(self, window: int) -> Scope:
        low, high, first, last = (int(column[window]) for column in self.windows)
        return Scope(low, high, first, last, lasting=False)

    def _room(self, nodes: int, longest: int) -> int:
        """Returns the bytes that are left for partial trends."""
        memory = USUAL_MEMORY if self.settings.memory is None else self.settings.memory
        return min(memory - INDEX_BYTES * nodes - STEP_BYTES * longest, ENTRY_BYTES * (2**31 - 1))

    def choose(self, window: int) -> Choice:
        """Chooses the partial trends to keep of one window, which shares none with others."""
        graph, rules, scope, algorithm = self.graph, self.rules, self._scope(window), self.settings.algorithm
        room = self._room(scope.last - scope.first, int(self.loads.longest[window]))
        flow = find_flow(graph, rules, scope, scope.first, scope.last)
        whole = Junctions(np.array([scope.first, scope.last]), _NONE)
        if algorithm == "anchors":
            return self._choose_anchors(scope, room, flow)
        if algorithm == "t-cet":
            entries, visits = count_pieces(graph, rules, scope, whole, flow.paths)
            return Choice(whole, _YES, entries, entries + visits)
        if algorithm == "h-cet" and room >= 0:
            return self._choose_graphlets(scope, room, flow)
        return Choice(whole, _NO, 0.0, flow.visits + flow.trend_refs)

    def _choose_anchors(self, scope: Scope, room: int, flow: Flow) -> Choice:
        """Chooses the anchors of a stretch of nodes."""
        most, asked = room / ENTRY_BYTES, self.settings.anchors
        junctions, entries, visits, count = choose_anchors(self.graph, self.rules, scope, flow, most, asked)
        return Choice(junctions, _YES, entries, entries + visits + flow.trend_refs, count)

    def _choose_graphlets(self, scope: Scope, room: int, flow: Flow, reuse: int = 0) -> Choice:
        """Chooses the graphlets of a stretch of nodes, whose partial trends ``reuse`` windows use again."""
        bounds, plan = plan_graphlets(self.graph, self.rules, scope, room, flow, self.settings, reuse)
        return Choice(Junctions(bounds, _NONE), np.array(plan.cached), plan.memory / ENTRY_BYTES, plan.cpu)

    def bytes_of(self, window: int, entries: float) -> float:
        """Returns the bytes that the extraction from a window holds, with ``entries`` partial trends."""
        longest = int(self.loads.longest[window])
        if entries == 0:
            return float(FRAME_BYTES * longest)
        nodes = int(self.windows.last[window] - self.windows.first[window])
        return ENTRY_BYTES * entries + INDEX_BYTES * nodes + STEP_BYTES * longest

    def _walk(
        self, begin: int, end: int, start: Trace | None = None, stop: Trace | None = None, *, exact: bool = False
    ) -> Walker:
        """Makes the job that walks the windows ``begin:end``, from the trend ``start`` to before the trend ``stop``.

        With a memory limit, or if it is to be ``exact``, it holds no more than a path as long as the longest trend.
        """
        windows = Windows(*(column[begin:end] for column in self.windows))
        longest = None
        if exact or self.settings.memory is not None:
            longest = int(self.loads.longest[begin:end].max(initial=0))
            self._refuse_beyond(FRAME_BYTES * longest, f"the search for a trend of {longest} events")
        return Walker(
            self.graph, self._variable, lambda: self._records, windows, self.rules, begin, longest, start, stop
        )

    def job(self, window: int) -> Walker | Stitcher:
        """Makes the job of one window, which shares no partial trends with others."""
        choice = self.choose(window)
        if choice.entries == 0:
            return self._walk(window, window + 1, exact=True)
        scope = self._scope(window)
        nodes = scope.last - scope.first
        self._refuse_beyond(self.bytes_of(window, choice.entries), f"the partial trends of {nodes} vertices")
        tables, way = make_tables(nodes, int(choice.entries), scope.first), make_way(int(self.loads.longest[window]))
        self._fill(scope, choice, tables, 0)
        return self._stitcher(window, choice.junctions, tables, way)

    def _fill(self, scope: Scope, choice: Choice, tables: Tables, at: int) -> int:
        """Builds the tables of all cached graphlets from the entry ``at`` on, and returns where they end."""
        begun = at
        for (first, last), cached in zip(pairwise(choice.junctions.bounds), choice.cached):
            if cached:
                at = fill_tables(self.graph, self.rules, scope, choice.junctions, first, last, tables, at)
        self._measured.steps += at - begun
        return at

    def _stitcher(self, window: int, junctions: Junctions, tables: Tables, way: Way) -> Stitcher:
        given = (self._scope(window), window, junctions, tables, way)
        return Stitcher(self.graph, self._variable, self._labels, self.rules, *given)

    def _refuse_beyond(self, size: float, what: str) -> None:
        memory = MOST_MEMORY if self.settings.memory is None else self.settings.memory
        if size <= memory:
            return
        hint = "raise memory_limit, or shorten WITHIN"
        if self.settings.algorithm in ("t-cet", "anchors"):
            hint = "raise memory_limit, or use algorithm='h-cet', which keeps what fits"
        raise GroupTooLarge(f"{size:.6g} bytes are needed for {what}, and {memory} are allowed", hint=hint)

    # -- windows that overlap --------------------------------------------------------------------------------------

    def _stitch_series(self, begin: int, end: int) -> Iterator[Walker | Stitcher]:
        """Yields the jobs of a series of windows, each of which overlaps the next one."""
        first, last = self.windows.first[begin:end], self.windows.last[begin:end]
        widest, longest = int((last - first).max()), int(self.loads.longest[begin:end].max())
        room = self._room(widest, longest)
        if room < 0 and self.settings.algorithm == "h-cet":
            yield self._walk(begin, end)
            return
        # The window with most visits decides for all, as those at the ends of the data may hold few events.
        fullest = begin + int(np.argmax(self.loads.visits[begin:end]))
        if self.choose(fullest).entries <= SHARED_ENTRIES * self.loads.visits[fullest]:
            for window in range(begin, end):
                yield self.job(window) if self._worth_a_plan[window] else self._walk(window, window + 1)
            return
        bounds = np.unique(np.concatenate([first, last]))
        first_pane, last_pane = np.searchsorted(bounds, first), np.searchsorted(bounds, last)
        most_panes = int((last_pane - first_pane).max())
        # If windows begin at equal distances, as many windows share a pane as there are panes in a window.
        panes = self._panes(begin, bounds, last, room // most_panes, most_panes)
        # The number of entries of all panes before each one, and of the panes of each window.
        before = np.cumsum([0.0] + [choice.entries for _, choice in panes])
        with np.errstate(invalid="ignore"):
            entries = before[last_pane] - before[first_pane]
        memory = MOST_MEMORY if self.settings.memory is None else self.settings.memory
        needed = ENTRY_BYTES * float(entries.max()) + INDEX_BYTES * widest + STEP_BYTES * longest
        if not entries.any() or not (needed <= memory and entries.max() < 2**31):
            # No pane has partial trends that are worth keeping, or those of some window are too many.
            for window in range(begin, end):
                yield self.job(window) if self._worth_a_plan[window] else self._walk(window, window + 1)
            return
        tables, way = make_tables(widest, int(entries.max()), int(first[0])), make_way(longest)
        kept, filled, at = 0, 0, 0
        for number in range(end - begin):
            if first[number] > tables.base:
                gone = int(before[first_pane[number]] - before[kept])
                tables = drop_tables(tables, int(first[number]), gone, at)
                kept, at = int(first_pane[number]), at - gone
            while filled < last_pane[number]:
                at = self._fill(*panes[filled], tables, at)
                filled += 1
            inside = [choice.junctions for _, choice in panes[first_pane[number] : last_pane[number]]]
            inner = np.unique(np.concatenate([junctions.bounds for junctions in inside]))
            junctions = Junctions(inner, np.concatenate([junctions.anchored for junctions in inside]))
            yield self._stitcher(begin + number, junctions, tables, way)

    def _panes(self, begin: int, bounds: Ints, last: Ints, room: int, reuse: int) -> list[_Pane]:
        """Plans the panes between bounds, each for ``reuse`` windows, with ``room`` bytes for its partial trends."""
        panes = []
        for here, there in pairwise(bounds.tolist()):
            # Of the windows that hold the pane, the first one begins earliest: it has the partial trends that others
            # need, too.
            window = begin + int(np.searchsorted(last, there))
            scope = Scope(int(self.windows.low[window]), NEVER, here, len(self.graph.event), lasting=True)
            panes.append((scope, self._choose_pane(scope, here, there, room, reuse)))
        return panes

    def _choose_pane(self, scope: Scope, first: int, last: int, room: int, reuse: int) -> Choice:
        """Chooses the partial trends to keep of a pane, as if paths entered it at the nodes without predecessors in it.

        At which nodes they really enter depends on the window, so a rough choice will do.
        """
        flow = find_flow(self.graph, self.rules, scope, first, last)
        if self.settings.algorithm == "anchors":
            return self._choose_anchors(scope, room, flow)
        whole = Junctions(np.array([first, last]), _NONE)
        entries, visits = count_pieces(self.graph, self.rules, scope, whole, flow.paths)
        steps, walked = entries / reuse + visits, flow.visits
        if self.settings.algorithm == "t-cet":
            return Choice(whole, _YES, entries, steps)
        if steps >= walked:
            return Choice(whole, _NO, 0.0, walked)
        if ENTRY_BYTES * entries <= room:
            return Choice(whole, _YES, entries, steps)
        return self._choose_graphlets(scope, room, flow, reuse)

    def survey(self, window: int) -> tuple[object, ...]:
        """Returns the first columns of a :class:`~cetdsl.kernels.complete.extract.Survey`."""
        scope, choice = self._scope(window), self.choose(window)
        flow = find_flow(self.graph, self.rules, scope, scope.first, scope.last)
        cuts = find_cuts(self.graph, self.rules, scope, scope.first, scope.last)
        return (
            "anchors" if choice.anchors else algorithm_of(choice.cached),
            flow.nodes,
            flow.edges,
            len(cuts) + 1 if flow.nodes else 0,
            len(choice.cached),
            int(choice.cached.sum()),
            choice.anchors,
            flow.trends,
            flow.trend_refs,
            self.bytes_of(window, choice.entries),
            choice.steps,
        )
