"""Builds a graph for each chunk of a sorted stream, and lists, counts or surveys its paths, the trends.

The graph of a chunk serves all of its windows. Where it would have too many edges, its windows are split into halves,
each with a graph of its own, until the edges fit. If those of a single window are too many, GroupTooLarge is raised;
counts that need no listed edges have no such limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.errors import EngineError, GroupTooLarge, InvalidNode
from cetdsl.ir.extraction import Extraction
from cetdsl.ir.indexes import with_orders
from cetdsl.ir.kernel import ALL, MAXIMAL, KernelSpec
from cetdsl.ir.layout import SHARE
from cetdsl.ir.shadows import FOLLOWED, STATES
from cetdsl.ir.shares import task_of
from cetdsl.ir.stages import SURVEY, GraphSpec, SurveySpec
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE
from cetdsl.kernels.answers.rows import RowNames, answer_columns, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable
from cetdsl.kernels.complete.extract import Survey, extract, survey
from cetdsl.kernels.complete.graphlets import STEP_BYTES
from cetdsl.kernels.complete.grounds import Asked, Ground, Grounds
from cetdsl.kernels.complete.jobs import Settings
from cetdsl.kernels.complete.shadowed import ShadowedGraphs, ShadowedPart, cut_events
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.enumerate.trends import TrendRows
from cetdsl.kernels.graph.attribute_graph import AttributeGraph
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.census import Census, census
from cetdsl.kernels.graph.counts import count_trends
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.reachability import find_horizon
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.graph.standing import Surroundings
from cetdsl.kernels.machine.conditions import span_of
from cetdsl.kernels.numbers.mixing import mixed
from cetdsl.kernels.numbers.scaled import sum_scaled
from cetdsl.kernels.vocabulary import Block, Events, Graph, Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks, window_column
from cetdsl.kernels.wire.columns import from_numpy, integers

#: No number of more bits is a DECIMAL(38, 0).
_DECIMAL_BITS = 128
#: The shares of a key, each of which is a task's, divide the trends of each slice of so many events or more; each
#: smaller slice falls to one share.
DIVIDED_EVENTS = 16
#: The number and count of shares where a slice is not divided.
WHOLE_SLICES = (0, 1)
#: The most edges of one graph: half a gigabyte, and as much again while its transitive reduction is made.
MOST_EDGES = 2**27
#: An edge of a graph with shadows (:mod:`cetdsl.kernels.graph.follow`) takes the memory of so many others.
SHADOWED_EDGE = 4


class Part(NamedTuple):
    """Some slices of a chunk, and the graph of their events; ``edges`` is None if none were requested.

    ``number`` is the chunk's number of each event of the graph, and ``asked`` are the slices; their ``low:high`` are
    events of the graph. A slice is there once for each pivot event, and with a span once for each event that a trend
    may begin with, and variable that this may be bound to. ``attributes`` is None for graphs that need listed edges
    from the start.
    """

    attributes: AttributeGraph | None
    edges: Graph | None
    number: Ints
    asked: Asked

    def alone(self) -> Iterator[Part]:
        """Yields the graph with each of its slices alone."""
        for n in range(len(self.slices)):
            yield self._replace(asked=self.asked.rows(slice(n, n + 1)))

    @property
    def slices(self) -> Ints:
        """The number that each of these slices has in the chunk."""
        return self.asked.slices

    @property
    def low(self) -> Ints:
        """The first event of each slice in the graph."""
        return self.asked.low

    @property
    def high(self) -> Ints:
        """The event after the last one of each slice in the graph."""
        return self.asked.high

    @property
    def bytes_held(self) -> int:
        """The bytes of the arrays of the graph, each counted once."""
        arrays = _arrays((self.attributes, self.edges))
        owners = {id(owner): owner.nbytes for owner in map(_owner, arrays)}
        return sum(owners.values())

    @property
    def graph(self) -> Graph:
        """The graph, where its edges were requested."""
        assert self.edges is not None
        return self.edges


def _arrays(parts: object) -> Iterator[NDArray[Any]]:
    """Yields the arrays within nested tuples."""
    if isinstance(parts, np.ndarray):
        yield parts
    elif isinstance(parts, tuple):
        for part in parts:
            yield from _arrays(part)


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the array that owns the memory of another one, which may be a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Graphs:
    """Builds the graphs of a query, chunk after chunk of sorted events.

    ``"maximal"`` trends are paths of the transitive reduction, so for these the graph is reduced. A graph that several
    windows share takes no more than half of the ``memory`` bytes (None: no limit).
    """

    def __init__(self, spec: KernelSpec, memory: int | None = None) -> None:
        self.spec = spec
        self._memory = memory
        # Graphs with shadows let only complete trends begin and end, so each of their paths counts.
        self.complete = spec.query.completeness != ALL and spec.query.shadows is None
        self.variable = np.array(spec.query.machine.variables, dtype=np.int64)
        self._guarded, windowing = GuardedMachine(spec), spec.query.windowing
        # Two events exactly one span apart may be on one trend, but not two that are a window's length apart.
        length = {SPAN: windowing.length + 1, SLIDING: windowing.length}.get(windowing.kind, 0)
        self._machine = with_orders(self._guarded.machine)
        self.builder = GraphBuilder(self._machine, length)
        self._grounds = Grounds(spec.query, self.builder)
        self._shadowed = ShadowedGraphs(spec, self.builder) if spec.query.shadows else None

    def parts(
        self, chunk: Chunk, slices: Ints | None = None, *, listed: bool = True, turn: tuple[int, int] = WHOLE_SLICES
    ) -> Iterator[Part]:
        """Yields the slices of a chunk (by default all of them) with their graphs; ``listed``: with edges.

        With a span, each event that trends begin with falls to one of the shares of a key. ``turn`` is the number of
        the share that is wanted, and the number of shares.
        """
        numbers = np.arange(len(chunk.slices.low)) if slices is None else slices
        if len(numbers) == 0:
            return
        around = Surroundings(*self._guarded.with_guards(chunk.events))
        for ground, whole in self._lots(chunk, around.events, numbers, turn):
            waiting = [whole]
            while waiting:
                asked = waiting.pop()
                part, told = self._part(around, ground, asked)
                if listed:
                    part = part._replace(edges=self._edges(part, ground, asked, told))
                    if len(asked.slices) > 1 and (part.edges is None or self._is_large(part)):
                        # Neighbours overlap most, so halves of consecutive windows have the fewest events in common.
                        half = len(asked.slices) // 2
                        waiting += [asked.rows(slice(half, None)), asked.rows(slice(half))]
                        continue
                    if part.edges is None:
                        raise _too_many_edges(self.spec, chunk, part)
                yield part

    def _is_large(self, part: Part) -> bool:
        """Whether a graph takes more than half of the memory."""
        return self._memory is not None and 2 * part.bytes_held > self._memory

    def _lots(
        self, chunk: Chunk, events: Events, numbers: Ints, turn: tuple[int, int]
    ) -> Iterator[tuple[Ground, Asked]]:
        """Yields the ground of some slices, and the slices, which are few enough for one graph to fit memory.

        ``events`` are those of the chunk, with the code columns that guards need.
        """
        shadowed, spanning = self._shadowed, self.spec.query.windowing.kind == SPAN
        horizon = find_horizon(events.segment_start, events.time, span_of(self.spec.query) + 1)
        for ground, asked in self._grounds.of(events, numbers, chunk.slices.low[numbers], chunk.slices.high[numbers]):
            if shadowed is None:
                yield ground, asked
                continue
            if spanning:
                bounds = chunk.bounds[0][asked.slices], chunk.bounds[1][asked.slices]
                ground = shadowed.with_deadlines(ground)
                asked = shadowed.firsts(ground, asked, bounds, horizon)
                share, shares = turn
                mixed_times = mixed(events.time[asked.since].astype(np.uint64))
                asked = asked.rows(np.flatnonzero(mixed_times % np.uint64(shares) == share))
            for some in asked.lots():
                yield ground, some

    def _part(self, around: Surroundings, ground: Ground, asked: Asked) -> tuple[Part, ShadowedPart | None]:
        """Builds the graph of some slices, without edges; if there are shadows, also returns the facts about them."""
        if self._shadowed is not None:
            told = self._shadowed.part(around, ground, asked)
            return Part(told.attributes, None, told.number, asked._replace(low=told.low, high=told.high)), told
        first, last = int(asked.low.min()), int(asked.high.max())
        graph, number = self.builder.build(cut_events(ground.events, first, last)), ground.number[first:last]
        return Part(graph, None, number, asked._replace(low=asked.low - first, high=asked.high - first)), None

    def _edges(self, part: Part, ground: Ground, asked: Asked, told: ShadowedPart | None) -> Graph | None:
        if self._shadowed is not None and told is not None:
            return self._shadowed.edges(ground, asked, told, _most_edges(self.spec))
        assert part.attributes is not None
        if self.spec.query.completeness == MAXIMAL:
            return reduce_edges(part.attributes, self._machine, MOST_EDGES)
        return list_edges(part.attributes, MOST_EDGES)


def _too_many_edges(spec: KernelSpec, chunk: Chunk, part: Part) -> GroupTooLarge:
    """Makes the error of a window whose graph does not fit into memory."""
    where, events = _described(spec, chunk, part), len(part.number)
    joined = "list them with algorithm='joins', " if spec.query.why_not_joined is None else ""
    if spec.query.completeness == MAXIMAL:
        counted = "count those of the other reading, which lists no edges for that, with count_complete_trends('ends')"
    else:
        counted = "count them with count_complete_trends('ends')"
    return GroupTooLarge(
        f"{where}: {events} events are joined by more than {_most_edges(spec)} edges, too many for one task",
        hint=f"{joined}shorten WITHIN, add partition columns or predicates, or {counted}",
    )


def _most_edges(spec: KernelSpec) -> int:
    """Returns how many edges the graphs of a query may have."""
    shadows = spec.query.shadows
    return MOST_EDGES // SHADOWED_EDGE if shadows is not None and shadows.kind == FOLLOWED else MOST_EDGES


def settings_of(spec: KernelSpec, asked: Extraction, part: Part) -> Settings:
    """Returns the settings for an extraction from a graph, with the memory that the graph leaves."""
    events = len(part.number)
    is_one_group = not spec.layout.keys and spec.query.windowing.kind == WHOLE
    if asked.anchors is not None and asked.anchors > events and is_one_group:
        raise InvalidNode(
            f"there are {events} events, and anchors={asked.anchors} asks for more anchors than that",
            hint="leave anchors= out: then their number is chosen by what it costs",
        )
    if asked.memory is None:
        return Settings(**attrs.asdict(asked))
    held = part.bytes_held
    if held + STEP_BYTES > asked.memory:
        raise GroupTooLarge(
            f"the graph of {events} events takes {held} bytes, and {asked.memory} are allowed with partial trends",
            hint="raise memory_limit, shorten WITHIN, or add partition columns or predicates",
        )
    return Settings(**attrs.asdict(attrs.evolve(asked, memory=asked.memory - held)))


@contextmanager
def naming_the_group(spec: KernelSpec, chunk: Chunk, part: Part) -> Iterator[None]:
    """Adds the name of the group to a GroupTooLarge that is raised inside."""
    try:
        yield
    except GroupTooLarge as error:
        raise GroupTooLarge(f"{_described(spec, chunk, part)}: {error.message}", hint=error.hint) from error


def _described(spec: KernelSpec, chunk: Chunk, part: Part) -> str:
    """Describes the group and window of a part; of a part with several, the first and the last ones."""
    ends = part.slices[[0, -1]]
    windows = np.searchsorted(chunk.slices.slice, ends)
    groups = group_columns(spec, chunk, chunk.slices.segment[windows])
    named = RowNames(spec, groups, chunk.slices.start[windows])
    first, last = named(0), named(1)
    return first if first == last else f"one of the graphs from {first} to {last}"


def graph_stream(spec: GraphSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Lists the trends that are paths of the graphs of a sorted stream.

    The columns are keys, the window if sliding, and the trend: ``list<struct<variable, event>>``.
    """
    kernel, left = spec.trends.kernel, spec.trends.limit
    graphs = Graphs(kernel, spec.extraction.memory)

    def trends(chunk: Chunk) -> Columns:
        nonlocal left
        rows = TrendRows(spec.trends, chunk)
        for turn, share, slices in _shares(spec, chunk):
            for whole in graphs.parts(chunk, slices, turn=turn):
                with naming_the_group(kernel, chunk, whole):
                    settings = settings_of(kernel, spec.extraction, whole)
                for part in [whole] if share == WHOLE_SLICES else whole.alone():
                    found = extract(
                        part.graph, graphs.variable, part.low, part.high, complete=graphs.complete, settings=settings,
                        limit=left, share=share,
                    )  # fmt: skip
                    with naming_the_group(kernel, chunk, part):
                        for block in found:
                            left -= len(block.slice) if left >= 0 else 0
                            yield from rows.rows(placed(block, part))
                    if left == 0:
                        return

    if left != 0:
        yield from by_chunks(kernel, batches, chunk_events, trends, enough=lambda: left == 0)


def _shares(spec: GraphSpec, chunk: Chunk) -> Iterator[tuple[tuple[int, int], tuple[int, int], Ints]]:
    """Yields the work of this task's shares: the turn, the share of each slice's trends, and the slices.

    With a span, a share has the trends that begin with some of the events, which the *turn* (number of the share, and
    how many there are) chooses. Else a share has a part of the trends of each large slice, and all trends of some small
    ones.

    The shares of a key are listed by different tasks, whose chunks may hold other keys and windows beside it. So the
    trends of a share have to depend on nothing but the slice: a large slice is divided by itself, and the first time
    and the length of a small one choose its share.
    """
    low, high = chunk.slices.low, chunk.slices.high
    if not spec.shares:
        yield WHOLE_SLICES, WHOLE_SLICES, np.arange(len(low))
        return
    segment = np.searchsorted(chunk.events.segment_start, low, side="right") - 1
    shares = shares_of(spec, chunk)[segment]
    if spec.trends.kernel.query.windowing.kind == SPAN:
        for share in np.unique(shares).tolist():
            yield (share, spec.shares), WHOLE_SLICES, np.flatnonzero(shares == share)
        return
    small = high - low < DIVIDED_EVENTS
    turn = mixed((chunk.events.time[low] + (high - low)).astype(np.uint64)) % np.uint64(spec.shares)
    yield WHOLE_SLICES, WHOLE_SLICES, np.flatnonzero(small & (turn == shares))
    for share in np.unique(shares[~small]).tolist():
        yield WHOLE_SLICES, (share, spec.shares), np.flatnonzero(~small & (shares == share))


def shares_of(spec: GraphSpec, chunk: Chunk) -> Ints:
    """Returns which share of its key each segment of a chunk is to list."""
    number = integers(chunk.column(SHARE))[chunk.events.segment_start[:-1]].tolist()
    if spec.trends.kernel.layout.partition == (SHARE,) and len(number) > 1:
        raise EngineError(
            "two shares of the events came to one task",
            hint="this is a defect of cetdsl or of the Spark version; use algorithm='joins', and please report it with "
            "the physical plan",
        )
    return np.array([task_of(one, spec.shares) for one in number], dtype=np.int64)


def placed(block: Block, part: Part) -> Block:
    """Returns a block of a part with the event and slice numbers of its chunk."""
    return block._replace(event=part.number[block.event], slice=part.slices[block.slice])


def count_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Counts the trends that are paths of the graphs of a sorted stream, for one accumulator and one output.

    The columns are groups, the window (a struct, or only its start for partial results) if sliding, and the count or
    partial accumulator.
    """
    graphs = Graphs(spec)
    needs_edges = spec.query.shadows.kind != STATES if spec.query.shadows else spec.query.completeness == MAXIMAL
    # A count too large for the answer's type need not be exact: its size is enough for the error, or is the answer.
    most_bits = {"decimal": _DECIMAL_BITS, "string": None}.get(spec.answer.number, 0)

    def counts(chunk: Chunk) -> Columns:
        slices = chunk.slices
        exact = np.zeros(len(slices.low), dtype=object)
        scaled = np.zeros(len(slices.low), dtype=np.complex128)
        found = []
        for part in graphs.parts(chunk, listed=needs_edges):
            graph = part.edges or part.attributes
            assert graph is not None
            counts = count_trends(graph, part.low, part.high, graphs.complete, most_bits)
            found.append((part.slices, counts.exact, counts.scaled))
        if found:
            number, *each = map(np.concatenate, zip(*found, strict=True))
            order = np.argsort(number, kind="stable")
            own, first = np.unique(number[order], return_index=True)
            exact[own] = np.add.reduceat(each[0][order], first)
            scaled[own] = sum_scaled(each[1][order], first)
        zeros = spec.answer.zeros
        counted = np.arange(len(slices.slice)) if zeros else np.flatnonzero(scaled.real[slices.slice] > 0)
        if len(counted):
            rows = slices.slice[counted]
            table = AccumulatorTable([exact[rows] if spec.answer.exact else None], [scaled[rows]], [])
            groups = group_columns(spec, chunk, slices.segment[counted])
            yield answer_columns(spec, table, groups, slices.start[counted])

    return by_chunks(spec, batches, chunk_events, counts)


def survey_stream(spec: SurveySpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Surveys the graphs of a sorted stream, and the cost of listing their trends.

    The columns are keys, the window if sliding, and those of :data:`~cetdsl.ir.stages.SURVEY`.
    """
    kernel = spec.graph.trends.kernel
    graphs, asked = Graphs(kernel, spec.graph.extraction.memory), spec.graph.extraction

    def surveyed(chunk: Chunk) -> Columns:
        slices, numbers, found = chunk.slices, [], []
        for part in graphs.parts(chunk):
            windows, complete = (part.low, part.high), graphs.complete
            with naming_the_group(kernel, chunk, part):
                held = census(part.graph, *windows, complete)
                settings = settings_of(kernel, asked, part)
                work = survey(part.graph, *windows, complete=complete, settings=settings, measure=spec.measure)
            numbers.append(part.slices)
            found.append(_survey_columns(held, work, part.bytes_held))
        if found:
            rows = from_numpy(np.argsort(np.concatenate(numbers))[slices.slice])
            shown = chunk.key_columns(spec.graph.trends.keys, slices.segment)
            if kernel.query.windowing.kind == SLIDING:
                shown.append(window_column(kernel, slices.start))
            yield [*shown, *(pa.concat_arrays(column).take(rows) for column in zip(*found))]

    return by_chunks(kernel, batches, chunk_events, surveyed)


def _survey_columns(held: Census, work: Survey, graph_bytes: int) -> list[pa.Array]:
    """Returns the columns of a survey; values that were not measured are NULL."""
    known = {**held._asdict(), **work._asdict(), "vertices": work.nodes, "cuts": work.graphlets - 1}
    known["predicted_bytes"] = work.predicted_bytes + graph_bytes
    known["bytes"] = np.where(work.bytes < 0, -1, work.bytes + graph_bytes)
    return [
        pa.array(known[name].tolist(), pa.string())
        if kind == "string"
        else from_numpy(known[name], known[name] < 0 if name in ("bytes", "steps") else None)
        for name, kind in SURVEY
    ]
