"""The order of a plan for a branch, as arrays: what each step binds, and which tests a candidate must pass.

A *test* compares a candidate with an event that is bound already, or with the one before it in the same slot. The tests
of a step form four groups: those of *each* candidate, of the *first* event of a set, of an event that follows another
one in its set (*inner*), and of the last event of a set, when the set *closes*. If a slot binds one event, all tests
except the inner ones are in the group of each candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.branches import Between, Branch
from cetdsl.ir.machine import Comparison, Pair
from cetdsl.kernels.enumerate.blocks import variable_bits
from cetdsl.kernels.enumerate.layout import ints
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Ints
from cetdsl.pattern.expressions import MIRRORED

#: Operators beyond those of :data:`~cetdsl.kernels.machine.program.OPERATORS`: the bound event is in the candidate's
#: list, the candidate is in the bound event's list, and the candidate differs from all events of a set.
IN_OWN_LIST, IN_OTHERS_LIST, UNLIKE_ALL = 6, 7, 8
#: Which of the other slot's events a test is about.
ALL, FIRST, LAST = 0, 1, 2
#: A slot may bind any number of events.
ANY_NUMBER = 2**62
#: The kinds of judgements: no match of a negation before the trend; none after it; none of a correlated one in any gap.
BEFORE, AFTER, CORRELATED = 0, 1, 2


#: Where the search looks for events that follow another one in a set (0: among the step's own items): among items with
#: a tree of their own; in buckets of their own; or in the step's bucket, which is the same for the whole set.
IN_OWN_ORDER, IN_OWN_BUCKETS, SAME_BUCKET = 1, 2, 3


class Test(NamedTuple):
    """``column of the candidate  <op>  other_column of the other slot's events``; for lists, their number is both."""

    op: int
    column: int
    other: int
    other_column: int
    which: int


#: The columns of ``Steps.step``.
#: SLOT: the slot that the step binds.
#: LEAST: the least number of events that it binds.
#: MOST: the greatest number of events that it binds.
#: VARIABLE: the variable of the slot.
#: BITS: the bits that the variable adds to labels.
#: BELOW: the nearest slot before it in time, of its own sequence, that is bound already (-1: none).
#: ABOVE: the nearest slot behind it in time, of its own sequence, that is bound already (-1: none).
#: LOWEST: the first slot, of its own sequence, that is bound already (-1: none).
#: HIGHEST: the last slot, of its own sequence, that is bound already (-1: none).
#: EACH: where the tests of each candidate begin.
#: FIRSTS: where the tests of the first event of a set begin.
#: CLOSE: where the tests of the last event of a set begin.
#: TESTS_END: where the tests of the last event of a set end.
#: INNER: where the inner tests begin, those of an event and the one before it in its set.
#: INNER_END: where the inner tests end.
#: SORTED: the test of each candidate that a tree of extremes answers (-1: none).
#: BUCKET_SLOT: the slot whose event says which bucket the candidates are in (-1: there are no buckets).
#: BUCKET_LAST: whether that is the last event of the slot, and not the first.
#: JUDGED: where the judgements of gaps begin that are made as soon as the step has bound its slot.
#: JUDGED_END: where these judgements end.
#: OTHERS: where the other sequences begin of which slots are bound, if a span bounds all of them together.
#: OTHERS_END: where these sequences end.
#: OPENS: whether the slot holds the first event of a trend, as there is one sequence.
#: CLOSES: whether the slot holds the last event of a trend, as there is one sequence.
#: LASTLY: whether the step is the last one of several sequences, any of which may hold the first or last event.
#: WIDE_SETS: whether a set of events may be longer than the longest span.
#: FOLLOW: how the events that follow another one in a set are looked for, IN_OWN_ORDER, IN_OWN_BUCKETS or SAME_BUCKET.
#: FOLLOW_SORTED: the inner test by order that a tree of extremes answers (-1: none).
#: INNER_LEFT: where the inner tests begin that neither this tree nor buckets answer.
#: PRUNED: whether the search first finds the events that can lie in a set that closes.
#: FIELDS: the number of columns.
(SLOT, LEAST, MOST, VARIABLE, BITS, BELOW, ABOVE, LOWEST, HIGHEST, EACH, FIRSTS, CLOSE, TESTS_END) = range(13)
(INNER, INNER_END, SORTED, BUCKET_SLOT, BUCKET_LAST, JUDGED, JUDGED_END) = range(13, 20)
(OTHERS, OTHERS_END, OPENS, CLOSES, LASTLY, WIDE_SETS) = range(20, 26)
(FOLLOW, FOLLOW_SORTED, INNER_LEFT, PRUNED, FIELDS) = range(26, 31)


class Steps(NamedTuple):
    """The slots that steps bind, and their tests, in few arrays, each of which a search passes on by itself."""

    #: Shape (steps, FIELDS), by the columns above.
    step: Ints
    #: Shape (tests, 5), the fields of a :class:`Test`, of all steps.
    test: Ints
    #: The same for the tests of an event and the one before it in its set.
    inner: Ints
    #: The kind of each judgement, its negation, the slots before and behind the gap (-1: none), and the first and the
    #: last slot of their sequence; shape (judgements, 6).
    judged: Ints
    #: The first and the last bound slot of each other sequence, step by step, shape (sequences by step, 2).
    other: Ints


class Buckets(NamedTuple):
    """The equalities by which the candidates of a step are hashed, and the event of the bound slot that they name."""

    slot: int
    last: bool
    comparisons: tuple[Comparison, ...]


class Candidates(NamedTuple):
    """The candidates of a slot: the events of a variable whose values in some columns are not NULL."""

    variable: int
    columns: tuple[int, ...]


class Program(NamedTuple):
    """A branch and an order, laid out for a search; all fields but ``steps`` are by step."""

    steps: Steps
    candidates: tuple[Candidates, ...]
    buckets: tuple[Buckets | None, ...]
    #: The equalities by which the events that follow another one in a set are hashed; empty if they are not.
    following: tuple[tuple[Comparison, ...], ...]


class Negations(NamedTuple):
    """A query's negations: the numbers of those that do not look at the trend, and the numbering of those that do."""

    plain: frozenset[int]
    correlated: dict[int, int]
    #: The variables of the trend that each correlated negation looks at.
    mentions: dict[int, frozenset[int]]


class _Branch:
    """The tests of a candidate for a slot of a branch against bound events, whichever of the two is later."""

    def __init__(self, branch: Branch, pairs: Sequence[Pair], negations: Negations, span: bool) -> None:
        self.branch = branch
        self.pairs = pairs
        self.negations = negations
        self.span = span

    def candidates(self, slot: int) -> Candidates:
        """Returns the candidates of a slot, without events that no order can bind because a compared value is NULL."""
        own = self.branch.slots[slot]
        bound = {other.variable for other in self.branch.slots}
        columns = set()
        for pair in self.pairs:
            if pair.left_variable == own.variable and pair.right_variable in bound:
                columns.add(pair.left)
            if pair.right_variable == own.variable and pair.left_variable in bound:
                columns.add(pair.right)
        if not own.kleene:
            columns |= {comparison.later for comparison in self.between(slot - 1).comparisons}
            columns |= {comparison.earlier for comparison in self.between(slot).comparisons}
        return Candidates(own.variable, tuple(sorted(columns)))

    def between(self, slot: int) -> Between:
        """Returns the conditions between a slot and the next one of its sequence, if there is one."""
        known = self.branch.between[slot] if 0 <= slot < len(self.branch.between) else None
        return known or Between()

    def each(self, slot: int, bound: set[int]) -> list[Test]:
        """Returns the tests that relate a candidate for ``slot`` to every event that the ``bound`` slots hold."""
        own = self.branch.slots[slot].variable
        tests = []
        for other in sorted(bound):
            variable = self.branch.slots[other].variable
            for pair in self.pairs:
                if (pair.left_variable, pair.right_variable) == (own, variable):
                    tests.append(Test(OPERATORS[pair.op], pair.left, other, pair.right, ALL))
                if (pair.right_variable, pair.left_variable) == (own, variable):
                    tests.append(Test(OPERATORS[MIRRORED[pair.op]], pair.right, other, pair.left, ALL))
        kleene = {other for other in bound if self.branch.slots[other].kleene}
        return [t._replace(op=UNLIKE_ALL) if t.op == OPERATORS["!="] and t.other in kleene else t for t in tests]

    def first(self, slot: int, bound: set[int]) -> list[Test]:
        """Returns the tests between the first event of a slot and the last one of the slot before it."""
        if slot - 1 not in bound:
            return []
        return _as_later(self.between(slot - 1), slot - 1)

    def close(self, slot: int, bound: set[int]) -> list[Test]:
        """Returns the tests between the last event of a slot and the first one of the slot behind it."""
        if slot + 1 not in bound:
            return []
        between = self.between(slot)
        return [
            *(Test(OPERATORS[MIRRORED[c.op]], c.earlier, slot + 1, c.later, FIRST) for c in between.comparisons),
            *(Test(IN_OTHERS_LIST, row, slot + 1, row, FIRST) for row in between.listed),
        ]

    def inner(self, slot: int) -> list[Test]:
        """Returns the tests between neighbours in the set of a slot."""
        inner = self.branch.slots[slot].inner
        return [] if inner is None or not self.branch.slots[slot].kleene else _as_later(inner, slot)

    def gaps(self) -> list[tuple[tuple[int, ...], set[int]]]:
        """Returns the judgement of each gap, see :class:`Steps`, and the slots that must be bound."""
        found: list[tuple[tuple[int, ...], set[int]]] = []
        for number, sequence in enumerate(self.branch.sequences):
            first, last = sequence[0], sequence[-1]
            for gap in range(first, last + 2):
                before, behind = gap - 1 if gap > first else -1, gap if gap <= last else -1
                sides, inside = {before, behind} - {-1}, -1 not in (before, behind)
                if self.span and not inside:
                    sides = {first, last}
                ends = self.branch.begin if before < 0 else self.branch.end
                for guard in self.between(before).guards if inside else ends[number]:
                    place = before, behind, first, last
                    if guard in self.negations.plain and not inside:
                        found.append(((BEFORE if before < 0 else AFTER, guard, *place), sides))
                    elif guard in self.negations.correlated:
                        mentioned = self.negations.mentions[guard]
                        more = {k for k, slot in enumerate(self.branch.slots) if slot.variable in mentioned}
                        found.append(((CORRELATED, self.negations.correlated[guard], *place), sides | more))
        return found


def _as_later(between: Between, other: int) -> list[Test]:
    return [
        *(Test(OPERATORS[c.op], c.later, other, c.earlier, LAST) for c in between.comparisons),
        *(Test(IN_OWN_LIST, row, other, row, LAST) for row in between.listed),
    ]


def _hashed(tests: list[Test], kleene: set[int]) -> tuple[Buckets | None, list[Test]]:
    """Chooses the bound event with the most equalities for the buckets; also returns the remaining tests."""
    by_event: dict[tuple[int, int], list[Test]] = {}
    for test in tests:
        if test.op == OPERATORS["="]:
            by_event.setdefault((test.other, test.which if test.other in kleene else ALL), []).append(test)
    if not by_event:
        return None, tests
    # For a set, the equality must hold with all of its events, which buckets by one event do not ensure.
    (slot, which), chosen = max(by_event.items(), key=lambda one: (one[0][0] not in kleene, len(one[1])))
    comparisons = tuple(Comparison("=", test.column, test.other_column) for test in chosen)
    whole = slot in kleene and which == ALL
    return Buckets(slot, which == LAST, comparisons), [test for test in tests if whole or test not in chosen]


#: Which index answers a test of neighbours in a set: buckets, a tree, or none.
_BUCKETED, _SORTED, _TESTED = range(3)


def _indexed(test: Test, *, in_buckets: bool) -> int:
    """Returns the index that may answer a test of neighbours in a set."""
    if test.op == OPERATORS["="]:
        return _BUCKETED if in_buckets else _TESTED
    return _SORTED if OPERATORS["<"] <= test.op <= OPERATORS[">="] else _TESTED


def lay_out_steps(
    branch: Branch, order: Sequence[int], pairs: Sequence[Pair], negations: Negations, span: bool
) -> Program:
    """Lays out a branch whose guards between neighbours are comparisons, in the order of a plan.

    ``pairs`` are the pairwise predicates of the query, and ``span`` says whether it has a longest span.
    """
    asked = _Branch(branch, pairs, negations, span)
    kleene = {k for k, slot in enumerate(branch.slots) if slot.kleene}
    bits = variable_bits(ints([slot.variable for slot in branch.slots])).tolist()
    # Filling rows of an array would take several times as long as filling lists, and changing a plan waits for this.
    step = [[0] * FIELDS for _ in order]
    tests: list[Test] = []
    inner: list[Test] = []
    judged: list[tuple[int, ...]] = []
    others: list[tuple[int, int]] = []
    buckets, following = [], []
    bound: set[int] = set()
    gaps, sequences = asked.gaps(), branch.sequences
    for own, slot in zip(step, order, strict=True):
        one = branch.slots[slot]
        most = ANY_NUMBER if one.at_most is None else one.at_most
        own[SLOT], own[LEAST], own[MOST] = slot, one.at_least, most
        own[VARIABLE], own[BITS] = one.variable, bits[slot]
        in_line = [bound.intersection(sequence) for sequence in sequences]
        near = next(line for line, sequence in zip(in_line, sequences, strict=True) if slot in sequence)
        own[BELOW] = max((k for k in near if k < slot), default=-1)
        own[ABOVE] = min((k for k in near if k > slot), default=-1)
        own[LOWEST], own[HIGHEST] = min(near, default=-1), max(near, default=-1)
        own[OTHERS] = len(others)
        others += [(min(line), max(line)) for line in in_line if span and line and line is not near]
        own[OTHERS_END] = len(others)
        alone = len(sequences) == 1
        own[OPENS], own[CLOSES] = alone and slot == 0, alone and slot == len(order) - 1
        own[LASTLY] = not alone and len(bound) == len(order) - 1
        own[WIDE_SETS] = span and slot in kleene and (not bound or not alone)
        each, first, close = asked.each(slot, bound), asked.first(slot, bound), asked.close(slot, bound)
        if slot not in kleene:
            each, first, close = [*each, *first, *close], [], []
        hashed, each = _hashed(each, kleene)
        ordered = [k for k, test in enumerate(each) if OPERATORS["<"] <= test.op <= OPERATORS[">="]]
        own[SORTED] = len(tests) + ordered[0] if ordered else -1
        for field, some in zip((EACH, FIRSTS, CLOSE), (each, first, close), strict=True):
            own[field] = len(tests)
            tests += some
        own[TESTS_END] = len(tests)
        # Tests that buckets answer come first, then one for a tree, then the others. If the step has buckets, they
        # apply to each event of the set, so that followers have no buckets of their own.
        in_buckets = hashed is None
        neighbours = sorted(asked.inner(slot), key=lambda one: _indexed(one, in_buckets=in_buckets))
        own[INNER], own[INNER_END] = len(inner), len(inner) + len(neighbours)
        kinds = [_indexed(one, in_buckets=in_buckets) for one in neighbours]
        alike = tuple(
            Comparison("=", one.column, one.other_column) for one, kind in zip(neighbours, kinds) if kind == _BUCKETED
        )
        by_order = _SORTED in kinds
        own[FOLLOW_SORTED] = len(inner) + len(alike) if by_order else -1
        own[INNER_LEFT] = len(inner) + len(alike) + by_order
        if alike:
            own[FOLLOW] = SAME_BUCKET if all(one.later == one.earlier for one in alike) else IN_OWN_BUCKETS
        elif by_order:
            own[FOLLOW] = IN_OWN_ORDER
        own[PRUNED] = len(close) > 0
        inner += neighbours
        following.append(alike)
        own[BUCKET_SLOT], own[BUCKET_LAST] = (-1, 0) if hashed is None else (hashed.slot, hashed.last)
        buckets.append(hashed)
        bound.add(slot)
        own[JUDGED] = len(judged)
        judged += [told for told, needed in gaps if slot in needed and needed <= bound]
        own[JUDGED_END] = len(judged)
    steps = Steps(
        np.array(step, dtype=np.int64).reshape(-1, FIELDS),
        np.array(tests, dtype=np.int64).reshape(-1, 5),
        np.array(inner, dtype=np.int64).reshape(-1, 5),
        np.array(judged, dtype=np.int64).reshape(-1, 6),
        np.array(others, dtype=np.int64).reshape(-1, 2),
    )
    return Program(steps, tuple(map(asked.candidates, order)), tuple(buckets), tuple(following))
