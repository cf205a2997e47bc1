"""Lists the trends of a query branch by branch, each in the order of its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from cetdsl.ir.branches import Between, Branch, BranchOrder, Slot
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Comparison
from cetdsl.kernels.detect.scopes import Scopes, scopes_of
from cetdsl.kernels.detect.search import OPENING, make_frames, search
from cetdsl.kernels.detect.steps import MOST, VARIABLE, Negations, Program, lay_out_steps
from cetdsl.kernels.detect.tables import Extents, TableMaker, extents_of
from cetdsl.kernels.enumerate.blocks import BLOCK, WINDOW, in_blocks, make_position
from cetdsl.kernels.enumerate.correlated import Gaps, lay_out_correlated, make_path, without_correlated
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.machine.conditions import Conditions, conditions_of, span_of
from cetdsl.kernels.vocabulary import Block, Events, Ints, Slices


def _lowered(branch: Branch, plain: frozenset[int], codes: int) -> Branch:
    """Turns guards between neighbours into comparisons, as :func:`~cetdsl.ir.indexes.lower_guards` does."""

    def lowered(between: Between) -> Between:
        guards = tuple(Comparison("<=", codes + 1 + guard, codes) for guard in between.guards if guard in plain)
        return attrs.evolve(between, comparisons=between.comparisons + guards)

    slots = tuple(
        slot if slot.inner is None else Slot(slot.variable, slot.at_least, slot.at_most, lowered(slot.inner))
        for slot in branch.slots
    )
    return attrs.evolve(branch, slots=slots, between=tuple(map(lowered, branch.between)))


class Detector:
    """Lists the trends of one query over chunk after chunk of sorted events, in the order of plans.

    ``partial`` counts the partial matches of each step, for each branch.

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
    >>> detector = Detector(spec, [BranchOrder(branch, (1, 0))])  # B+ first
    >>> for block in detector.enumerate(events, slices, (time[:1], time[:1])):
    ...     [part.tolist() for part in np.split(block.event, block.start[1:-1])]
    [[0, 1], [0, 1, 2], [0, 2]]
    >>> detector.partial[0].tolist()
    [3, 3]
    """

    def __init__(self, spec: KernelSpec, plans: Sequence[BranchOrder]) -> None:
        query = spec.query
        self._guarded = GuardedMachine(without_correlated(spec))
        self._query = without_correlated(spec).query
        self._span = span_of(query)
        correlated = [number for number, negation in enumerate(query.negations) if negation.correlated]
        negations = Negations(
            frozenset(number for number, negation in enumerate(query.negations) if not negation.looks_at_trend),
            {number: k for k, number in enumerate(correlated)},
            {n: frozenset(pair.right_variable for pair in query.negations[n].correlated) for n in correlated},
        )
        lowered = [_lowered(plan.branch, negations.plain, spec.layout.codes) for plan in plans]
        self._programs = [
            lay_out_steps(branch, plan.order, query.pairs, negations, self._span > 0)
            for branch, plan in zip(lowered, plans, strict=True)
        ]
        self._correlated, self._negated = lay_out_correlated(spec)
        self.partial = [np.zeros(len(plan.order), dtype=np.int64) for plan in plans]

    def enumerate(
        self, events: Events, slices: Slices, bounds: tuple[Ints, Ints], limit: int = -1, block: int = BLOCK
    ) -> Iterator[Block]:
        """Yields all trends of all slices, or the first ``limit`` of them, in blocks of ``block`` bindings.

        With a span, ``bounds`` are the times from which and before which the first event of a trend of each slice lies.
        """
        if not len(slices.low) or limit == 0:
            return
        scopes = scopes_of(slices, events, bounds, self._span)
        events, before, until = self._guarded.with_guards(events)
        judging = conditions_of(self._query, events, before, until), self._gaps(slices)
        extents, tables = extents_of(events, self._span), TableMaker(events)
        for program, partial in zip(self._programs, self.partial, strict=True):
            for found in self._blocks(program, tables, extents, events, scopes, judging, partial, limit, block):
                limit -= len(found.slice) if limit > 0 else 0
                yield found
            if limit == 0:
                return

    def _gaps(self, slices: Slices) -> Gaps | None:
        if not len(self._correlated.pair):
            return None
        widest = int((slices.high - slices.low).max())
        reach = np.empty((widest, int(self._correlated.state_start[-1])), dtype=np.bool_)
        return Gaps(self._correlated, self._negated, reach)

    @staticmethod
    def _blocks(
        program: Program,
        tables: TableMaker,
        extents: Extents,
        events: Events,
        scopes: Scopes,
        judging: tuple[Conditions, Gaps | None],
        partial: Ints,
        limit: int,
        block: int,
    ) -> Iterator[Block]:
        """The trends of one branch."""
        steps, made = program.steps, tables.tables(program)
        conditions, gaps = judging if len(steps.judged) else (None, None)
        most = steps.step[:, MOST]
        longest = int((scopes.high - scopes.low).max(initial=0)) if (most > 1).any() else 0
        longest = len(most) + min(longest, int(np.minimum(most, longest).sum()))
        path, frames = make_path(longest), make_frames(longest, len(most), len(steps.test))
        at = make_position(1)
        at[WINDOW] = at[OPENING] = -1

        def fill(out: Block) -> None:
            search(steps, made, extents, events, scopes, conditions, gaps, path, frames, partial, at, out)

        yield from in_blocks(fill, at, steps.step[:, VARIABLE], limit, block)
