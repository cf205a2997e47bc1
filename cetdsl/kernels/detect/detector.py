"""Lists the trends of a query branch by branch, each in the order, or along the tree, of its plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial as given
from typing import NamedTuple

import attrs
import numpy as np

from cetdsl.detection.histograms import counters_of
from cetdsl.detection.plans import OrderPlan, Plan, TreePlan
from cetdsl.detection.statistics import Statistics
from cetdsl.ir.branches import Between, Branch, BranchPlan, Slot
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Comparison
from cetdsl.ir.windowing import WHOLE
from cetdsl.kernels.detect.adapt import BranchLoop, Trial
from cetdsl.kernels.detect.frames import make_frames
from cetdsl.kernels.detect.nodes import TreeProgram, lay_out_tree
from cetdsl.kernels.detect.plan_ranges import PlanRanges, cut_scopes
from cetdsl.kernels.detect.scopes import Scopes, scopes_of
from cetdsl.kernels.detect.search import OPENING, Effort, search, whole_effort
from cetdsl.kernels.detect.steps import MOST, PRUNED, VARIABLE, Negations, Program, Steps, lay_out_steps
from cetdsl.kernels.detect.tables import Extents, TableMaker, Tables, extents_of
from cetdsl.kernels.detect.trees import TreeSearch
from cetdsl.kernels.enumerate.blocks import BLOCK, WINDOW, in_blocks, make_position
from cetdsl.kernels.enumerate.correlated import Gaps, gaps_of, lay_out_correlated, make_path, without_correlated
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.machine.conditions import Conditions, conditions_of, span_of
from cetdsl.kernels.vocabulary import Block, Events, Floats, Ints, Slices


def _lowered(branch: Branch, plain: frozenset[int], codes: int) -> Branch:
    """Turns guards between neighbours into comparisons, as :func:`~cetdsl.ir.indexes.lower_guards` does."""

    def lowered(between: Between | None) -> Between | None:
        if between is None:
            return None
        guards = tuple(Comparison("<=", codes + 1 + guard, codes) for guard in between.guards if guard in plain)
        return attrs.evolve(between, comparisons=between.comparisons + guards)

    slots = tuple(
        slot if slot.inner is None else Slot(slot.variable, slot.at_least, slot.at_most, lowered(slot.inner))
        for slot in branch.slots
    )
    return attrs.evolve(branch, slots=slots, between=tuple(map(lowered, branch.between)))


class Detector:
    """Lists the trends of one query over chunk after chunk of sorted events, in the order of plans.

    If ``by_slice``, each slice of the stream is a group of its own in the counts, for branches whose plans change. The
    plans of such branches are made of the counts of earlier events, one branch after the other, if any are ``learned``.

    Examples
    --------
    >>> from cetdsl.ir.kernel import KernelQuery
    >>> from cetdsl.ir.layout import RowLayout
    >>> from cetdsl.ir.machine import Edge, Machine
    >>> from cetdsl.kernels.wire.windows import NEVER, cut_slices
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))  # SEQ(A, B+)
    >>> spec = KernelSpec(KernelQuery(machine), RowLayout.of(0, "t", "bigint"))
    >>> branch = Branch((Slot(0), Slot(1, 1, None, Between())), (Between(),))
    >>> segment, time, none = np.array([0, 3]), np.arange(3), np.zeros(0, dtype=np.int64)
    >>> no_codes, no_lists = np.zeros((0, 3), dtype=np.int64), np.zeros((0, 4), dtype=np.int64)
    >>> events = Events(segment, time, time, np.array([1, 2, 2]), no_codes, no_codes.astype(bool), no_lists, none)
    >>> slices = cut_slices(spec.query.windowing, segment, time, np.zeros(1, dtype=np.int64), True, NEVER)
    >>> detector = Detector(spec, [BranchPlan(branch, OrderPlan((1, 0)))])  # B+ first
    >>> for block in detector.enumerate(events, slices, (time[:1], time[:1])):
    ...     [part.tolist() for part in np.split(block.event, block.start[1:-1])]
    [[0, 1], [0, 1, 2], [0, 2]]
    >>> detector.partial[0].tolist()
    [[3, 3]]
    """

    def __init__(
        self,
        spec: KernelSpec,
        plans: Sequence[BranchPlan],
        *,
        by_slice: bool = False,
        learned: Floats | None = None,
    ) -> None:
        query = spec.query
        self._guarded = GuardedMachine(without_correlated(spec))
        self._query = without_correlated(spec).query
        self._pairs = query.pairs
        self._span = span_of(query)
        correlated = [number for number, negation in enumerate(query.negations) if negation.correlated]
        self._negations = Negations(
            frozenset(number for number, negation in enumerate(query.negations) if not negation.looks_at_trend),
            {number: k for k, number in enumerate(correlated)},
            {n: frozenset(pair.right_variable for pair in query.negations[n].correlated) for n in correlated},
        )
        self._correlated, self._negated = lay_out_correlated(spec)
        self._by_slice = by_slice
        self._branches = [_lowered(plan.branch, self._negations.plain, spec.layout.codes) for plan in plans]
        self._plans = [_settled(plan.plan) for plan in plans]
        self._programs: dict[tuple[int, Plan], Program | TreeProgram] = {}
        #: How many numbers are counted for the statistics of each branch; none if its plan stays.
        self._counters = [0 if plan.adapting is None else counters_of(plan.adapting.problem) for plan in plans]
        known = [None] * len(plans) if learned is None else np.split(learned, np.cumsum(self._counters)[:-1])
        self.loops = [self._loop(number, *one) for number, one in enumerate(zip(plans, known, strict=True))]
        #: For each branch, the ranges of the last chunk, if its plans change.
        self.ranges: list[PlanRanges | None] = [None] * len(plans)
        #: For each branch, the partial matches so far, by group (see :class:`PlanRanges`) and step.
        self.partial = [np.zeros((1, len(plan.masks)), dtype=np.int64) for plan in self._plans]

    @property
    def counters(self) -> int:
        """How many numbers are counted for statistics, for all branches together."""
        return sum(self._counters)

    @property
    def counted(self) -> list[object]:
        """What is counted for statistics, for each branch: see :attr:`BranchLoop.counted`."""
        return [loop and loop.counted for loop in self.loops]

    def _loop(self, number: int, plan: BranchPlan, learned: Floats | None) -> BranchLoop | None:
        if plan.adapting is None:
            return None
        in_time = self._program(number, OrderPlan(range(len(plan.branch.slots)))).candidates
        windowing = self._query.windowing
        window = windowing.length if windowing.kind != WHOLE else 0
        return BranchLoop(plan, self._branches[number], self._pairs, in_time, window, learned)

    def _program(self, number: int, plan: Plan) -> Program | TreeProgram:
        if (number, plan) not in self._programs:
            branch, rest = self._branches[number], (self._pairs, self._negations, self._span > 0)
            self._programs[number, plan] = (
                lay_out_tree(branch, plan, *rest)
                if isinstance(plan, TreePlan)
                else lay_out_steps(branch, plan.order, *rest)
            )
        return self._programs[number, plan]

    def enumerate(
        self,
        events: Events,
        slices: Slices,
        bounds: tuple[Ints, Ints],
        limit: int = -1,
        block: int = BLOCK,
        ends: tuple[Hashable, Hashable] = (None, None),
    ) -> Iterator[Block]:
        """Yields all trends of all slices, or the first ``limit`` of them, in blocks of ``block`` bindings.

        With a span, ``bounds`` are, for each slice, the times from which and before which the first event of a trend
        lies. If plans change, ``ends`` identify the first key and the last one.
        """
        if not len(events.time) or limit == 0:
            return
        scopes = scopes_of(slices, events, bounds, self._span)
        events, before, until = self._guarded.with_guards(events)
        chunk = _Chunk(
            events,
            TableMaker(events),
            extents_of(events, self._span),
            conditions_of(self._query, events, before, until),
            gaps_of(self._correlated, self._negated, events, slices),
        )
        for number in range(len(self._branches)):
            for plan, some in self._parts(number, chunk, scopes, ends, slices.keep_from):
                program = self._program(number, plan)
                for found in _blocks(program, chunk, some, self.partial[number], limit, block):
                    limit -= len(found.slice) if limit > 0 else 0
                    yield found
                if limit == 0:
                    return

    def sample(self, events: Events) -> Iterator[Statistics]:
        """Yields the statistics of a chunk for each branch, all of whose plans may change."""
        for loop, counts in zip(self.loops, self.count(events), strict=True):
            assert loop is not None, "its plan stays"
            yield loop.statistics(counts)

    def count(self, events: Events) -> Iterator[Floats]:
        """Yields the counts of a chunk for each branch, all of whose plans may change."""
        events, _, _ = self._guarded.with_guards(events)
        tables = TableMaker(events)
        for loop in self.loops:
            assert loop is not None, "its plan stays"
            yield loop.count(events, tables)

    def _parts(
        self, number: int, chunk: _Chunk, scopes: Scopes, ends: tuple[Hashable, Hashable], keep_from: int
    ) -> Iterator[tuple[Plan, Scopes]]:
        """Yields the plans of a branch, each with the scopes in which it is in force."""
        loop = self.loops[number]
        if loop is None:
            yield self._plans[number], scopes
            return
        try_out = given(self._try_out, number, chunk, scopes)
        ranges = loop.ranges(chunk.events, chunk.tables, ends, keep_from, try_out, by_slice=self._by_slice)
        self.ranges[number] = ranges
        if self._by_slice:
            self.partial[number] = np.zeros((len(ranges.low), len(self._plans[number].masks)), dtype=np.int64)
        parts, which = cut_scopes(scopes, ranges, chunk.extents)
        plan = ranges.plan[which]
        for chosen in np.unique(plan).tolist():
            yield _settled(loop.plans[chosen]), parts.take(plan == chosen)

    def _try_out(self, number: int, chunk: _Chunk, scopes: Scopes, plan: Plan) -> Trial:
        """Returns the function that counts the candidates of a search in an order, see :meth:`BranchLoop.ranges`.

        The tables are made beforehand: the search itself needs them, too, so their time does not count for the trial.
        """
        program = self._program(number, plan)
        assert isinstance(program, Program), "a tree is not searched"
        tables = chunk.tables.tables(program)

        def tried(low: Ints, high: Ints, enough: Ints, thin: int) -> Ints:
            groups, none = np.arange(len(low)), np.zeros(len(low), dtype=np.int64)
            parts, _ = cut_scopes(scopes, PlanRanges(low, high, none, groups, none, none), chunk.extents)
            effort = Effort(np.zeros(len(low), dtype=np.int64), enough, thin)
            partial = np.zeros((len(low), len(program.steps.step)), dtype=np.int64)
            for _ in _orders(program.steps, tables, chunk, parts, partial, -1, BLOCK, effort):
                pass  # the search itself will find these trends again
            return effort.tried

        return tried


class _Chunk(NamedTuple):
    """A chunk of events with the data that all plans share."""

    events: Events
    tables: TableMaker
    extents: Extents
    conditions: Conditions
    gaps: Gaps | None


def _settled(plan: Plan) -> Plan:
    """Returns the plan; a tree of one leaf becomes an order, which stores nothing."""
    return OrderPlan((0,)) if isinstance(plan, TreePlan) and isinstance(plan.root, int) else plan


def _blocks(
    program: Program | TreeProgram, chunk: _Chunk, scopes: Scopes, partial: Ints, limit: int, block: int
) -> Iterator[Block]:
    """The trends of one branch in some scopes."""
    if isinstance(program, TreeProgram):
        shared = chunk.events, chunk.tables, chunk.extents, chunk.conditions, chunk.gaps
        yield from TreeSearch(program, *shared, partial).blocks(scopes, limit, block)
        return
    steps, tables = program.steps, chunk.tables.tables(program)
    yield from _orders(steps, tables, chunk, scopes, partial, limit, block, whole_effort(len(partial)))


def _orders(
    steps: Steps,
    tables: Tables,
    chunk: _Chunk,
    scopes: Scopes,
    partial: Ints,
    limit: int,
    block: int,
    effort: Effort,
) -> Iterator[Block]:
    """The trends of one branch in some scopes, found in an order."""
    conditions, gaps = (chunk.conditions, chunk.gaps) if len(steps.judged) else (None, None)
    most = steps.step[:, MOST]
    longest = int((scopes.high - scopes.low).max(initial=0)) if (most > 1).any() else 0
    longest = len(most) + min(longest, int(np.minimum(most, longest).sum()))
    marked = len(chunk.events.time) if steps.step[:, PRUNED].any() else 0
    path, frames = make_path(longest), make_frames(longest, len(most), len(steps.test), marked)
    at = make_position(1)
    at[WINDOW] = at[OPENING] = -1

    def fill(out: Block) -> None:
        room = path, frames, partial, effort, at, out
        search(steps, tables, chunk.extents, chunk.events, scopes, conditions, gaps, *room)

    yield from in_blocks(fill, at, steps.step[:, VARIABLE], limit, block)
