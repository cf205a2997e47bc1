"""Lists the matches of many queries: the instances of each sub-pattern are joined once, and kept for its children."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.slots import TESTS_IN_WORD, Compared, Demands, Fit, Gap, JoinedVertex
from cetdsl.kernels.instances.candidates import Board, Fits, gather, lay_out_fits, make_board
from cetdsl.kernels.instances.indexes import BEGIN, END, FIELDS, PLACE, Indexes
from cetdsl.kernels.instances.join import FRAME_FIELDS, NEXT, STATE_FIELDS, STOP, TRIED, join
from cetdsl.kernels.instances.join import ROWS as WRITTEN
from cetdsl.kernels.instances.matches import trends_of, variables_of
from cetdsl.kernels.instances.programs import Given, Lookup, Program, given_by, lay_out_join
from cetdsl.kernels.instances.reach import find_anchors, lay_out_needs
from cetdsl.kernels.vocabulary import Block, Bools, Events, Ints, Places, Slices

#: The most matches, and the most numbers in them, that are returned at once.
BLOCK_ROWS, BLOCK_NUMBERS = 65_536, 262_144
#: The most numbers, of four bytes each, of the instances of all sub-patterns of a chunk. A sub-pattern that would take
#: more is not kept: its children are then joined from its own parts.
MOST_KEPT = 24_000_000
_FIRST_ROOM = 1 << 16
#: The effort of a join without a limit on the number of candidates.
ANY_EFFORT = 2**62
#: The costs of beginning a join, writing an instance and reading one, in units of trying a candidate; and the number of
#: candidates that are tried for a query by itself before a sub-pattern is built to save work.
JOIN, KEEPING, READING, TRIAL = 200, 0.6, 1.5, 2_000


class Kept(NamedTuple):
    """The stored instances of a vertex: where they begin, how many there are, and the numbers that each takes."""

    place: int
    instances: int
    width: int


class _Source(NamedTuple):
    """A vertex whose instances are kept, and for each of its slots the slot of the vertex that is built from it."""

    vertex: int
    slots: tuple[int, ...]


class Detector:
    """Lists the matches of many queries over chunk after chunk of sorted events.

    Instances of vertices consist of events of the chunk (:mod:`cetdsl.ir.slots`). ``most_kept`` bounds the numbers that
    are stored for all of them. If ``frugal``, joins begin only with events that may be in a match, and a sub-pattern is
    built only if that saves more work than it takes; else all sub-patterns are built that are not too large, from all
    events that fit.

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
    >>> detector = Detector((shared, first, second), frugal=False)
    >>> kinds, tests = np.array([0, 1, 2, 3]), np.zeros((0, 4), dtype=np.int64)
    >>> [(query, block.event.tolist()) for query, block in detector.find(events, kinds, tests, slices, bounds)]
    [(0, [0, 1, 2]), (1, [0, 1, 3])]
    >>> int(detector.built[0]), int(detector.shared[0])
    (1, 1)
    """

    def __init__(
        self, vertices: Sequence[JoinedVertex], limit: int = -1, most_kept: int = MOST_KEPT, *, frugal: bool = True
    ) -> None:
        self.most_kept, self.frugal = most_kept, frugal
        self._classes: dict[tuple[tuple[int, tuple[int, ...]], ...], int] = {}
        self.vertices = [_Vertex(one, self._class) for one in vertices]
        words = (
            1 + max((test for fits in self._classes for _, tests in fits for test in tests), default=0) // TESTS_IN_WORD
        )
        self._fits = lay_out_fits([tuple(Fit(*fit) for fit in fits) for fits in self._classes], words)
        self.left = dict.fromkeys((one.query for one in vertices if one.query >= 0), limit)
        self.queries = [one.query for one in vertices]
        self.are_queries = np.array(self.queries, dtype=np.int64) >= 0
        below = _leaves_below(vertices)
        self.below = [frozenset(leaf for leaf, _ in leaves) for leaves in below]
        self.needs = lay_out_needs([one.demands for one in vertices], [one.classes for one in self.vertices], below)
        #: For each vertex, the instances that were built; those that a child need not build again; the events of its
        #: own slots that were not tried because a parent had no instance or no other event that it needs was near; and
        #: how often its instances were not kept.
        self.built, self.shared, self.avoided, self.not_kept = np.zeros((4, len(vertices)), dtype=np.int64)

    def _class(self, fits: tuple[Fit, ...]) -> int:
        """The number of the class for these conditions, of slots or of gaps; variables play no part in it."""
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
            Bit ``t % TESTS_IN_WORD`` of row ``t // TESTS_IN_WORD`` is set for events for which test ``t`` holds; shape
            (words, events).
        slices : Slices
            Keys; each answers one window, or spans.
        bounds : (Ints, Ints)
            For each key, the range of times in which the matches listed in this chunk begin.
        """
        if not len(slices.low):
            return
        board = make_board(events, kinds, tests, slices, bounds)
        work = _Work(self, board, self._fits)
        yield from work.try_alone()
        for number, vertex in enumerate(self.vertices):
            if vertex.query < 0:
                if work.may_save.any():
                    work.keep(number)
            elif number in work.alone and self.left[vertex.query]:
                yield from work.match(number)


def _leaves_below(vertices: Sequence[JoinedVertex]) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Returns for each vertex the queries that are built from it, each with the query's slots for the vertex's slots.

    A query occurs once for each way in which it contains the vertex.
    """
    found: list[dict[tuple[int, tuple[int, ...]], None]] = [{} for _ in vertices]
    for number in reversed(range(len(vertices))):
        one = vertices[number]
        if one.query >= 0:
            found[number][number, tuple(range(len(one.demands.slots)))] = None
        for parent in one.parents:
            through = ((leaf, tuple(slots[slot] for slot in parent.slots)) for leaf, slots in found[number])
            found[parent.vertex].update(dict.fromkeys(through))
    return [list(one) for one in found]


def _slots_of(part: _Source | int) -> tuple[int, ...]:
    return part.slots if isinstance(part, _Source) else (part,)


class _Vertex:
    """A vertex with the classes of its slots and gaps, and the cached programs of its joins."""

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
        #: The comparisons of each slot with others.
        self.compared: dict[int, list[Compared]] = {}
        for one in sorted(told.demands.compared, key=repr):
            for slot in {one.slot, one.other}:
                self.compared.setdefault(slot, []).append(one)
        self.programs: dict[tuple[_Source | int, ...], tuple[Program, tuple[Lookup | None, ...]]] = {}

    @property
    def width(self) -> int:
        """The numbers in a row of an instance."""
        return len(self.classes) + 1


class _Work:
    """The joins over one chunk."""

    def __init__(self, detector: Detector, board: Board, fits: Fits) -> None:
        self.detector, self.board, self.fits = detector, board, fits
        items, self.class_start = gather(board, fits)
        self.indexes = Indexes(board, items, self.class_start)
        #: For each vertex, where its anchors (see :mod:`cetdsl.kernels.instances.reach`) begin and end.
        self.anchors = np.zeros((len(detector.queries), 2), dtype=np.int64)
        self.store, self.used = np.empty(_FIRST_ROOM, dtype=np.int32), 0
        self.rows = np.empty(_FIRST_ROOM, dtype=np.int32)
        self.kept: dict[int, Kept] = {}
        #: For a vertex that is not kept, the sources that its children use in its place.
        self.instead: dict[int, list[_Source]] = {}
        #: For a vertex that is kept, the number of candidates tried to build it.
        self.works: dict[int, int] = {}
        self.in_order: set[int] = set()
        self.in_use: set[int] = set()

    def _find_anchors(self, wanted: Bools, whose: str) -> None:
        """Finds the anchors of some vertices."""
        start = self.class_start
        if not self.detector.frugal:
            classes = [one.classes for one in self.detector.vertices]
            rarest = [int(np.argmin([self._size(each) for each in own])) for own in classes]
            every = [self.indexes.classes[own[slot]] for own, slot in zip(classes, rarest, strict=True)]
            self.anchor_slot = np.array(rarest, dtype=np.int64)
            self.anchors = np.array(every, dtype=np.int64).reshape(-1, 2)
            return
        found = find_anchors(self.detector.needs, self.board, self.indexes.items[: start[-1]], start, wanted)
        bounds = np.stack((found.start[:-1], found.start[1:]), axis=1)
        self.anchors[wanted] = bounds[wanted] + self.indexes.add(("anchors", whose), found.event)
        #: The slot of each vertex that its anchors are of.
        self.anchor_slot = found.slot

    def try_alone(self) -> Iterator[tuple[int, Block]]:
        """Joins the queries that need so little work that sharing could not save much; estimates the work of others."""
        detector = self.detector
        self._find_anchors(detector.are_queries, "queries")
        wanting = [n for n, one in enumerate(detector.queries) if one >= 0 and detector.left[one]]
        #: The candidates that each query would try if it were joined from events alone; finished queries are not in it.
        self.alone = dict.fromkeys(wanting, ANY_EFFORT)
        for number in wanting if detector.frugal else ():
            vertex = detector.vertices[number]
            if vertex.parents and self._can_match(number, vertex, ()):
                yield from self._try(number, vertex)
            elif vertex.parents:
                del self.alone[number]
        least = 2 if detector.frugal else 1
        #: Whether building a sub-pattern may save work; finding its instances takes as long as finding matches.
        self.may_save = np.zeros(len(detector.queries), dtype=np.bool_)
        if sum(bool(detector.vertices[number].parents) for number in self.alone) >= least:
            inner = np.nonzero(~detector.are_queries)[0].tolist()
            self.may_save[[number for number in inner if len(self._served(number)) >= least]] = True
        detector.not_kept[~detector.are_queries & ~self.may_save] += 1
        if self.may_save.any():
            self._find_anchors(self.may_save, "sub-patterns")

    def _try(self, number: int, vertex: _Vertex) -> Iterator[tuple[int, Block]]:
        """Joins a query from events alone; if that takes more than ``TRIAL`` candidates, only estimates its work."""
        detector = self.detector
        left = detector.left[vertex.query]
        most = TRIAL if left < 0 else min(TRIAL, left)
        join_of = _Join(self, number, self._parts(number, vertex, ()), TRIAL)
        self._make_room(TRIAL * vertex.width)
        goes_on = join_of.goes_on(self.rows, most)
        if goes_on and join_of.written < most:
            self.alone[number] = int(join_of.tried / join_of.progress)
            return
        if not goes_on or join_of.written == left:
            del self.alone[number]
            yield from self._found(number, vertex, join_of.written)

    def _served(self, number: int) -> list[int]:
        """The unfinished queries that are built from a sub-pattern."""
        left, queries = self.detector.left, self.detector.queries
        return [one for one in self.detector.below[number] if one in self.alone and left[queries[one]]]

    def keep(self, number: int) -> None:
        """Joins a sub-pattern and keeps its instances, unless they are too many or save too little."""
        detector, vertex = self.detector, self.detector.vertices[number]
        sources = self._sources(vertex)
        if not self.may_save[number] or not self._served(number):
            self.detector.not_kept[number] += int(self.may_save[number])
            self.instead[number] = sources
            return
        if not self._can_match(number, vertex, sources):
            self.kept[number] = Kept(0, 0, vertex.width)
            return
        parts = self._parts(number, vertex, sources)
        join_of, served = _Join(self, number, parts, ANY_EFFORT), self._served(number)
        saved = sum(self.alone[one] for one in served)
        room, check = detector.most_kept - self.used, JOIN if detector.frugal else ANY_EFFORT
        join_of.effort = check
        while join_of.goes_on(self.rows, len(self.rows) // vertex.width):
            if join_of.tried >= join_of.effort:
                if not self._is_worth(join_of, served):
                    self._give_up(number, sources)
                    return
                join_of.effort = min(2 * join_of.effort, saved)
                continue
            if len(self.rows) >= room:
                self._give_up(number, sources)
                return
            self._make_room(2 * len(self.rows), kept=len(self.rows))
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
        self._count_uses(parts)
        self.works[number] = join_of.tried

    def _is_worth(self, join_of: _Join, served: Sequence[int]) -> bool:
        """Whether a sub-pattern saves more work than it takes, if the rest of its join continues as it has begun.

        For a query built from its instances, it saves at most the work of building them, and at most the query's work
        by itself.
        """
        takes, instances = join_of.tried / join_of.progress, join_of.written / join_of.progress
        saved = sum(max(min(self.alone[one], takes) - READING * instances, 0) for one in served)
        return saved > takes + KEEPING * instances

    def match(self, number: int) -> Iterator[tuple[int, Block]]:
        """Joins a query, or an alternative of it, and yields its matches, within the rest of its limit."""
        detector, vertex = self.detector, self.detector.vertices[number]
        sources = self._sources(vertex)
        if not self._can_match(number, vertex, sources):
            return
        parts = self._parts(number, vertex, sources)
        self._count_uses(parts)
        join_of = _Join(self, number, parts, ANY_EFFORT)
        rows_at_once = max(min(BLOCK_ROWS, BLOCK_NUMBERS // vertex.width), 1)
        goes_on = True
        while goes_on and detector.left[vertex.query]:
            left = detector.left[vertex.query]
            most = rows_at_once if left < 0 else min(rows_at_once, left)
            self._make_room(most * vertex.width)
            join_of.written = 0
            goes_on = join_of.goes_on(self.rows, most)
            yield from self._found(number, vertex, join_of.written)

    def _found(self, number: int, vertex: _Vertex, written: int) -> Iterator[tuple[int, Block]]:
        """Yields the matches that have been written, and subtracts them from the rest of the limit."""
        detector, board = self.detector, self.board
        if written:
            detector.built[number] += written
            detector.left[vertex.query] -= written if detector.left[vertex.query] > 0 else 0
            yield vertex.query, trends_of(self.rows, written, vertex.variables, board.kind, board.segment)

    def _make_room(self, numbers: int, kept: int = 0) -> None:
        """Makes room for ``numbers`` numbers in rows, the first of which are ``kept``."""
        if len(self.rows) < numbers:
            grown = np.empty(numbers, dtype=np.int32)
            grown[:kept] = self.rows[:kept]
            self.rows = grown

    def _give_up(self, number: int, sources: list[_Source]) -> None:
        """Records that a vertex is not kept, and the sources from which its children are built instead."""
        self.detector.not_kept[number] += 1
        self.instead[number] = sources

    def _sources(self, vertex: _Vertex) -> list[_Source]:
        """The vertices from whose instances a vertex is built: its parents, or the sources of parents not kept."""
        found: dict[_Source, None] = {}
        for one in vertex.parents:
            if one.vertex in self.kept:
                found[one] = None
            for above in self.instead.get(one.vertex, ()):
                found[_Source(above.vertex, tuple(one.slots[slot] for slot in above.slots))] = None
        return list(found)

    def _can_match(self, number: int, vertex: _Vertex, sources: Sequence[_Source]) -> bool:
        """Whether each source has an instance and the vertex an anchor; if not, counts the events that are spared."""
        if self._begins(number) and all(self.kept[one.vertex].instances for one in sources):
            return True
        covered = {slot for one in sources for slot in one.slots}
        own = (each for slot, each in enumerate(vertex.classes) if slot not in covered)
        self.detector.avoided[number] += sum(map(self._size, own))
        return False

    def _begins(self, number: int) -> int:
        """Returns how many anchors a vertex has."""
        return int(self.anchors[number, 1] - self.anchors[number, 0])

    def _count_uses(self, parts: Sequence[_Source | int]) -> None:
        for vertex in {part.vertex for part in parts if isinstance(part, _Source)}:
            used_before = vertex in self.in_use
            self.detector.shared[vertex] += self.kept[vertex].instances if used_before else 0
            self.in_use.add(vertex)

    def _size(self, number: int) -> int:
        begin, end = self.indexes.classes[number]
        return end - begin

    def _parts(self, number: int, vertex: _Vertex, sources: Sequence[_Source]) -> tuple[_Source | int, ...]:
        """Returns the parts of a join, the smallest first.

        A source is left out if it binds no slot that is still free, or if it has so many instances that binding its
        slots one by one takes less time.
        """
        covered: set[int] = set()
        sized: list[tuple[int, int, _Source | int]] = []
        anchor = int(self.anchor_slot[number])
        for one in sorted(sources, key=lambda one: self.kept[one.vertex].instances):
            instances, new = self.kept[one.vertex].instances, set(one.slots) - covered
            fewest = min((self._size(vertex.classes[slot]) for slot in new), default=-1)
            takes = min(self.alone.get(number, ANY_EFFORT), self.works[one.vertex])
            if instances <= fewest or (
                new and not covered and (READING * instances < takes or not self.detector.frugal)
            ):
                sized.append((instances, len(sized), one))
                covered.update(one.slots)
        for slot, its in enumerate(vertex.classes):
            if slot not in covered:
                first = slot == anchor and not covered
                sized.append((-1 if first else self._size(its), len(sized), slot))
        sized.sort(key=lambda one: one[:2])
        parts = [part for _, _, part in sized]
        return tuple(self._by_expectation(vertex, parts, [size for size, _, _ in sized]) if vertex.compared else parts)

    def _by_expectation(
        self, vertex: _Vertex, parts: Sequence[_Source | int], sizes: Sequence[float]
    ) -> Iterator[_Source | int]:
        """Yields the parts in order: the smallest first, and then always the one with the fewest expected candidates.

        Candidates of a part are those that satisfy its comparisons with the slots bound before.
        """
        owner: dict[int, int] = {}
        for number in reversed(range(len(parts))):
            owner.update(dict.fromkeys(_slots_of(parts[number]), number))
        expected, left = list(sizes), list(range(len(parts)))
        while left:
            chosen = min(left, key=lambda number: expected[number])
            left.remove(chosen)
            yield parts[chosen]
            for slot in _slots_of(parts[chosen]):
                for one in vertex.compared.get(slot, ()):
                    other = owner[one.other if one.slot == slot else one.slot]
                    expected[other] *= self.indexes.share(one, vertex.classes[one.slot], vertex.classes[one.other])

    def put_in_order(self, number: int) -> None:
        """Sorts the instances of a vertex by their first events, by which they are looked up."""
        if number in self.in_order:
            return
        self.in_order.add(number)
        table = self._table(self.kept[number])
        table[:] = table[np.argsort(table[:, -1], kind="stable")]

    def program(self, number: int, parts: tuple[_Source | int, ...]) -> tuple[Program, Ints]:
        """The steps of a join, laid out once for each order of parts, and where the candidates of each step lie."""
        vertex = self.detector.vertices[number]
        if parts not in vertex.programs:
            given = [self._given(part) if isinstance(part, _Source) else part for part in parts]
            vertex.programs[parts] = lay_out_join(vertex.demands, vertex.classes, vertex.gaps, given)
        program, lookups = vertex.programs[parts]
        where = np.zeros((len(parts), FIELDS), dtype=np.int64)
        for row, (part, lookup) in enumerate(zip(parts, lookups, strict=True)):
            if isinstance(part, _Source):
                where[row] = self._instances(part, row == 0, lookup)
            elif lookup is not None:
                where[row] = self.indexes.events(vertex.classes[part], lookup)
            elif not row and part == self.anchor_slot[number]:
                where[row, [BEGIN, END]] = self.anchors[number]
            else:
                where[row, [BEGIN, END]] = self.indexes.classes[vertex.classes[part]]
        return program, where

    def _instances(self, part: _Source, first: bool, lookup: Lookup | None) -> Ints:
        """Returns where the instances of a parent lie, as a row of ``where``."""
        kept = self.kept[part.vertex]
        if not first:
            self.put_in_order(part.vertex)
        where = np.zeros(FIELDS, dtype=np.int64)
        where[END] = kept.instances
        if lookup is not None:
            where = self.indexes.instances(part.vertex, self._table(kept), lookup)
        where[PLACE] = kept.place
        return where

    def _table(self, kept: Kept) -> Places:
        """The instances of a vertex, a row each."""
        table: Places = self.store[kept.place : kept.place + kept.instances * kept.width]
        return table.reshape(kept.instances, kept.width)

    def _given(self, one: _Source) -> Given:
        above = self.detector.vertices[one.vertex]
        return given_by(one.slots, above.demands, above.classes)


class _Join:
    """A join that may be interrupted."""

    def __init__(self, work: _Work, number: int, parts: tuple[_Source | int, ...], effort: int) -> None:
        self._work, self.effort = work, effort
        vertex = self._vertex = work.detector.vertices[number]
        self._program, self._where = work.program(number, parts)
        within = [work.indexes.classes[number] for number in vertex.gap_classes]
        self._gaps = np.array(within, dtype=np.int64).reshape(-1, 2)
        self._frame = np.zeros((len(parts), FRAME_FIELDS), dtype=np.int64)
        self._frame[0, [NEXT, STOP]] = self._where[0, :2]
        self._bound = np.zeros(len(vertex.classes), dtype=np.int64)
        self._state = np.zeros(STATE_FIELDS, dtype=np.int64)

    @property
    def tried(self) -> int:
        """The candidates that have been looked at."""
        return int(self._state[TRIED])

    @property
    def progress(self) -> float:
        """The share of the first step's candidates that are finished, above 0."""
        begin, end = self._where[0, :2]
        return max(int(self._frame[0, NEXT] - begin) - 1, 0.5) / max(int(end - begin), 1)

    @property
    def written(self) -> int:
        """The rows that have been written."""
        return int(self._state[WRITTEN])

    @written.setter
    def written(self, rows: int) -> None:
        self._state[WRITTEN] = rows

    def goes_on(self, rows: Places, most: int) -> bool:
        """Writes rows until ``most`` are written; returns whether there may be more."""
        if self.written >= most:
            return True
        return bool(
            join(
                self._work.board,
                self._work.fits,
                self._program,
                self._where,
                self._gaps,
                self._work.indexes.items,
                self._work.indexes.keys,
                self._work.store,
                rows,
                self._frame,
                self._bound,
                self._state,
                self._vertex.bounds,
                most,
                self.effort,
            )
        )
