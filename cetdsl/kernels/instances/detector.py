"""Lists the matches of many queries: the instances of each sub-pattern are joined once, and kept for its children."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.slots import TESTS_IN_WORD, Demands, Fit, Gap, JoinedVertex
from cetdsl.kernels.instances.candidates import Board, Fits, gather, lay_out_fits, make_board
from cetdsl.kernels.instances.join import FRAME_FIELDS, NEXT, STATE_FIELDS, STOP, TRIED, join
from cetdsl.kernels.instances.join import ROWS as WRITTEN
from cetdsl.kernels.instances.matches import trends_of, variables_of
from cetdsl.kernels.instances.programs import Given, Program, given_by, lay_out_join
from cetdsl.kernels.vocabulary import Block, Events, Ints, Places, Slices

#: So many matches, or fewer if they are long, are given at once.
BLOCK_ROWS, BLOCK_NUMBERS = 65_536, 262_144
#: The instances of all sub-patterns of a chunk take so many numbers of four bytes at most. A sub-pattern of more is not
#: kept: what is made of it is made of that of which it would have been made.
MOST_KEPT = 24_000_000
_FIRST_ROOM = 1 << 16
#: As many candidates as there are may be looked at; and so many in any case, which take less time than to plan a join.
ANY_EFFORT, LEAST_EFFORT = 2**62, 1_000


class Kept(NamedTuple):
    """The instances of a vertex: where they begin, how many there are, and how many numbers each of them takes."""

    place: int
    instances: int
    width: int


class _Source(NamedTuple):
    """A vertex whose instances are kept, and for each of its slots that of the vertex that is made of it."""

    vertex: int
    slots: tuple[int, ...]


class Detector:
    """Lists the matches of many queries over chunk after chunk of sorted events.

    The instances of a vertex are those among the events of the chunk. ``most_kept`` bounds how many numbers are kept of
    all of them.

    Examples
    --------
    >>> from cetdsl.ir.slots import Parent
    >>> from cetdsl.ir.windowing import Windowing
    >>> from cetdsl.kernels.wire.windows import NEVER, cut_slices
    >>> def seq(*variables):
    ...     slots = tuple((Fit(0, (), v),) if v < 1 else (Fit(v, (), v),) for v in variables)
    ...     before = frozenset((a, b) for b in range(len(slots)) for a in range(b))
    ...     return Demands(slots, before, before)
    >>> shared = JoinedVertex(seq(0, 1))
    >>> first = JoinedVertex(seq(0, 1, 2), (Parent(0, (0, 1)),), query=0)
    >>> second = JoinedVertex(seq(0, 1, 3), (Parent(0, (0, 1)),), query=1)
    >>> time, no_codes = np.arange(4), np.zeros((0, 4), dtype=np.int64)
    >>> events = Events(np.array([0, 4]), time, time, time, no_codes, no_codes.astype(bool), no_codes, time[:0])
    >>> slices = cut_slices(Windowing(), events.segment_start, time, np.zeros(1, dtype=np.int64), True, NEVER)
    >>> bounds = np.array([NEVER]), np.array([-NEVER])
    >>> detector = Detector((shared, first, second))
    >>> kinds, tests = np.array([0, 1, 2, 3]), np.zeros((0, 4), dtype=np.int64)
    >>> [(query, block.event.tolist()) for query, block in detector.find(events, kinds, tests, slices, bounds)]
    [(0, [0, 1, 2]), (1, [0, 1, 3])]
    >>> int(detector.built[0]), int(detector.shared[0])
    (1, 1)
    """

    def __init__(self, vertices: Sequence[JoinedVertex], limit: int = -1, most_kept: int = MOST_KEPT) -> None:
        self.most_kept = most_kept
        self._classes: dict[tuple[tuple[int, tuple[int, ...]], ...], int] = {}
        self.vertices = [_Vertex(one, self._class) for one in vertices]
        words = (
            1 + max((test for fits in self._classes for _, tests in fits for test in tests), default=0) // TESTS_IN_WORD
        )
        self._fits = lay_out_fits([tuple(Fit(*fit) for fit in fits) for fits in self._classes], words)
        #: The classes, and the columns by whose values their events may be looked up.
        self._looked_up = sorted({found for vertex in self.vertices for found in vertex.looked_up()})
        self.left = dict.fromkeys((one.query for one in vertices if one.query >= 0), limit)
        self.below = _leaves_below(vertices)
        self._serves = [frozenset(vertices[leaf].query for leaf in leaves) for leaves in self.below]
        #: Of each vertex the instances that were built, those that a child did not build again, the events of its own
        #: slots that were not looked at as a parent had no instance, and how often it was not kept.
        self.built, self.shared, self.avoided, self.not_kept = np.zeros((4, len(vertices)), dtype=np.int64)

    def _class(self, fits: tuple[Fit, ...]) -> int:
        """The number of a class of slots, or of events that gaps must not hold; variables play no part in it."""
        return self._classes.setdefault(tuple((fit.kind, fit.tests) for fit in fits), len(self._classes))

    @property
    def wants_more(self) -> bool:
        """Whether the limit of some query has not been reached."""
        return any(self.left.values())

    def find(
        self, events: Events, kinds: Ints, tests: Ints, slices: Slices, bounds: tuple[Ints, Ints]
    ) -> Iterator[tuple[int, Block]]:
        """Yields the matches in a chunk, each batch of them with the number of its query.

        Parameters
        ----------
        events : Events
            Their masks play no part.
        kinds : Ints
            The kind of each event, -1 for a kind that no query names.
        tests : Ints
            Where test ``t`` holds, bit ``t % TESTS_IN_WORD`` of row ``t // TESTS_IN_WORD`` is set; shape
            (words, events).
        slices : Slices
            Keys; each answers one window, or spans.
        bounds : (Ints, Ints)
            The times between which the matches of each key begin that are listed now.
        """
        if not len(slices.low):
            return
        board = make_board(events, kinds, tests, slices, bounds)
        work = _Work(self, board, self._fits, self._looked_up)
        for number, vertex in enumerate(self.vertices):
            if any(self.left[query] for query in self._serves[number]):
                if vertex.query < 0:
                    work.keep(number)
                else:
                    yield from work.match(number)


def _leaves_below(vertices: Sequence[JoinedVertex]) -> list[frozenset[int]]:
    """The vertices of queries that each vertex is for."""
    found = [{number} if one.query >= 0 else set() for number, one in enumerate(vertices)]
    for number in reversed(range(len(vertices))):
        for parent in vertices[number].parents:
            found[parent.vertex] |= found[number]
    return [frozenset(one) for one in found]


class _Vertex:
    """A vertex with the classes of its slots and gaps, and the programs that it has been joined by."""

    def __init__(self, told: JoinedVertex, number_of: Callable[[tuple[Fit, ...]], int]) -> None:
        self.demands: Demands = told.demands
        self.parents = [_Source(parent.vertex, parent.slots) for parent in told.parents]
        self.query = told.query
        self.classes = tuple(number_of(fits) for fits in told.demands.slots)
        self.gaps: tuple[Gap, ...] = tuple(sorted(told.demands.gaps, key=repr))
        self.gap_classes = tuple(number_of(gap.fits) for gap in self.gaps)
        self.variables = variables_of(told.demands.slots)
        window, slide = told.window or (0, 0)
        self.bounds = np.array([told.demands.length, told.query >= 0, window, slide], dtype=np.int64)
        self.programs: dict[tuple[_Source | int, ...], tuple[Program, tuple[tuple[int, int] | None, ...]]] = {}

    @property
    def width(self) -> int:
        """The numbers in a row of an instance."""
        return len(self.classes) + 1

    def looked_up(self) -> Iterator[tuple[int, int]]:
        """The classes of its slots, and the columns by whose values their events may be looked up."""
        for one in self.demands.compared:
            if one.op == "=":
                yield self.classes[one.slot], one.column
                yield self.classes[one.other], one.other_column


class _Work:
    """The joins over one chunk."""

    def __init__(self, detector: Detector, board: Board, fits: Fits, looked_up: Sequence[tuple[int, int]]) -> None:
        self.detector, self.board, self.fits = detector, board, fits
        items, start = gather(board, fits)
        #: Where the events of each class lie, and those of a class in order of a column.
        self.places: dict[int | tuple[int, int], tuple[int, int]] = dict(
            enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True))
        )
        parts, count = [items], len(items)
        for number, column in looked_up:
            begin, end = self.places[number]
            own = items[begin:end]
            own = own[board.valid[column, own]]
            parts.append(own[np.lexsort((own, board.codes[column, own]))])
            self.places[number, column] = count, count + len(own)
            count += len(own)
        self.items = np.concatenate(parts)
        self.store, self.used = np.empty(_FIRST_ROOM, dtype=np.int32), 0
        self.rows = np.empty(_FIRST_ROOM, dtype=np.int32)
        self.kept: dict[int, Kept] = {}
        #: Of a vertex that is not kept, the sources that its children have in its place.
        self.instead: dict[int, list[_Source]] = {}
        self.in_order: set[int] = set()
        self.in_use: set[int] = set()

    def keep(self, number: int) -> None:
        """Joins a sub-pattern and keeps its instances, unless they are too many."""
        detector, vertex = self.detector, self.detector.vertices[number]
        sources = self._sources(vertex)
        if not self._can_match(number, vertex, sources):
            self.kept[number] = Kept(0, 0, vertex.width)
            return
        parts, effort = self._parts(vertex, sources), self._worth(number)
        if self._fewest(vertex, parts) > effort:
            self._give_up(number, sources)
            return
        join_of = _Join(self, vertex, parts, effort)
        room = detector.most_kept - self.used
        while join_of.goes_on(self.rows, len(self.rows) // vertex.width):
            if len(self.rows) >= room or join_of.tried >= effort:
                self._give_up(number, sources)
                return
            grown = np.empty(2 * len(self.rows), dtype=np.int32)
            grown[: len(self.rows)] = self.rows
            self.rows = grown
        size = join_of.written * vertex.width
        if size > room:
            self._give_up(number, sources)
            return
        if self.used + size > len(self.store):
            grown = np.empty(max(2 * len(self.store), self.used + size), dtype=np.int32)
            grown[: self.used] = self.store[: self.used]
            self.store = grown
        self.store[self.used : self.used + size] = self.rows[:size]
        self.kept[number] = Kept(self.used, join_of.written, vertex.width)
        self.used += size
        detector.built[number] += join_of.written
        self._count_uses(sources)

    def match(self, number: int) -> Iterator[tuple[int, Block]]:
        """Joins a query, or an alternative of it, and yields its matches, up to what is left of its limit."""
        detector, vertex = self.detector, self.detector.vertices[number]
        sources = self._sources(vertex)
        if not self._can_match(number, vertex, sources):
            return
        self._count_uses(sources)
        join_of = _Join(self, vertex, self._parts(vertex, sources), ANY_EFFORT)
        rows_at_once = max(min(BLOCK_ROWS, BLOCK_NUMBERS // vertex.width), 1)
        goes_on = True
        while goes_on and detector.left[vertex.query]:
            left = detector.left[vertex.query]
            most = rows_at_once if left < 0 else min(rows_at_once, left)
            if len(self.rows) < most * vertex.width:
                self.rows = np.empty(most * vertex.width, dtype=np.int32)
            join_of.written = 0
            goes_on = join_of.goes_on(self.rows, most)
            if join_of.written:
                detector.built[number] += join_of.written
                detector.left[vertex.query] -= join_of.written if left > 0 else 0
                board = self.board
                yield vertex.query, trends_of(self.rows, join_of.written, vertex.variables, board.kind, board.segment)

    def _give_up(self, number: int, sources: list[_Source]) -> None:
        """Notes that a vertex is not kept, and what its children are made of instead."""
        self.detector.not_kept[number] += 1
        self.instead[number] = sources

    def _sources(self, vertex: _Vertex) -> list[_Source]:
        """The vertices whose instances a vertex is made of: its parents; in place of one not kept, the parent's own."""
        found: dict[_Source, None] = {}
        for one in vertex.parents:
            if one.vertex in self.kept:
                found[one] = None
            for above in self.instead.get(one.vertex, ()):
                found[_Source(above.vertex, tuple(one.slots[slot] for slot in above.slots))] = None
        return list(found)

    def _can_match(self, number: int, vertex: _Vertex, sources: Sequence[_Source]) -> bool:
        """Whether each source has an instance and each slot an event; counts the events that are not looked at."""
        if all(self.kept[one.vertex].instances for one in sources):
            return all(self._size(each) for each in vertex.classes)
        covered = {slot for one in sources for slot in one.slots}
        own = (each for slot, each in enumerate(vertex.classes) if slot not in covered)
        self.detector.avoided[number] += sum(map(self._size, own))
        return False

    def _count_uses(self, sources: Sequence[_Source]) -> None:
        for vertex in {one.vertex for one in sources}:
            used_before = vertex in self.in_use
            self.detector.shared[vertex] += self.kept[vertex].instances if used_before else 0
            self.in_use.add(vertex)

    def _worth(self, number: int) -> int:
        """How many candidates may be looked at to build a vertex: as many as its queries begin with without it.

        So what is built in vain takes no longer than to do without.
        """
        detector = self.detector
        wanting = (one for one in detector.below[number] if detector.left[detector.vertices[one].query])
        begins = sum(min(map(self._size, detector.vertices[one].classes)) for one in wanting)
        return max(begins, LEAST_EFFORT)

    def _fewest(self, vertex: _Vertex, parts: Sequence[_Source | int]) -> int:
        """How many candidates the first step of a join has."""
        first = parts[0]
        return self.kept[first.vertex].instances if isinstance(first, _Source) else self._size(vertex.classes[first])

    def _size(self, number: int) -> int:
        begin, end = self.places[number]
        return end - begin

    def _parts(self, vertex: _Vertex, sources: Sequence[_Source]) -> tuple[_Source | int, ...]:
        """The parts of a join, those first of which there are fewest; sources that bind nothing new are left out."""
        covered: set[int] = set()
        sized: list[tuple[int, int, _Source | int]] = []
        for one in sorted(sources, key=lambda one: self.kept[one.vertex].instances):
            if not covered.issuperset(one.slots):
                sized.append((self.kept[one.vertex].instances, len(sized), one))
                covered.update(one.slots)
        for slot, number in enumerate(vertex.classes):
            if slot not in covered:
                sized.append((self._size(number), len(sized), slot))
        return tuple(part for _, _, part in sorted(sized, key=lambda one: one[:2]))

    def put_in_order(self, number: int) -> None:
        """Sorts the instances of a vertex by their first events, by which they are looked up."""
        if number in self.in_order:
            return
        self.in_order.add(number)
        place, instances, width = self.kept[number]
        table = self.store[place : place + instances * width].reshape(instances, width)
        table[:] = table[np.argsort(table[:, -1], kind="stable")]

    def program(self, vertex: _Vertex, parts: tuple[_Source | int, ...]) -> tuple[Program, Ints]:
        """The steps of a join, laid out when it is first joined so, and where the candidates of each step lie."""
        if parts not in vertex.programs:
            given = [self._given(part) if isinstance(part, _Source) else part for part in parts]
            vertex.programs[parts] = lay_out_join(vertex.demands, vertex.classes, vertex.gaps, given)
        program, looked_up = vertex.programs[parts]
        where = np.zeros((len(parts), 3), dtype=np.int64)
        for row, (part, index) in enumerate(zip(parts, looked_up, strict=True)):
            if isinstance(part, _Source):
                kept = self.kept[part.vertex]
                where[row] = 0, kept.instances, kept.place
                if row:
                    self.put_in_order(part.vertex)
            else:
                where[row, :2] = self.places[vertex.classes[part] if index is None else index]
        return program, where

    def _given(self, one: _Source) -> Given:
        above = self.detector.vertices[one.vertex]
        return given_by(one.slots, above.demands, above.classes)


class _Join:
    """A join that may be interrupted."""

    def __init__(self, work: _Work, vertex: _Vertex, parts: tuple[_Source | int, ...], effort: int) -> None:
        self._work, self._vertex, self._effort = work, vertex, effort
        self._program, self._where = work.program(vertex, parts)
        self._gaps = np.array([work.places[number] for number in vertex.gap_classes], dtype=np.int64).reshape(-1, 2)
        self._frame = np.zeros((len(parts), FRAME_FIELDS), dtype=np.int64)
        self._frame[0, [NEXT, STOP]] = self._where[0, :2]
        self._bound = np.zeros(len(vertex.classes), dtype=np.int64)
        self._state = np.zeros(STATE_FIELDS, dtype=np.int64)

    @property
    def tried(self) -> int:
        """The candidates that have been looked at."""
        return int(self._state[TRIED])

    @property
    def written(self) -> int:
        """The rows that have been written."""
        return int(self._state[WRITTEN])

    @written.setter
    def written(self, rows: int) -> None:
        self._state[WRITTEN] = rows

    def goes_on(self, rows: Places, most: int) -> bool:
        """Writes rows until so many are written; returns whether there may be more."""
        if self.written >= most:
            return True
        return bool(
            join(
                self._work.board,
                self._work.fits,
                self._program,
                self._where,
                self._gaps,
                self._work.items,
                self._work.store,
                rows,
                self._frame,
                self._bound,
                self._state,
                self._vertex.bounds,
                most,
                self._effort,
            )
        )
