"""The tree of a plan for a branch, as arrays: what each node joins, and which tests two partial matches must pass.

A test compares an event of the *right* partial match with an event of the *left* one, each given by its slot. In a
single sequence the left part comes before the right one in time, and :data:`EDGE` stands for the first event of the
right part or the last event of the left part, which are neighbours. For several sequences (AND at the top), each part
may have slots of any sequence, and for some of them the right part may have the earlier slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.detection.plans import Node, TreePlan, mask_of, members, walk
from cetdsl.ir.branches import Between, Branch
from cetdsl.ir.machine import Comparison, Pair
from cetdsl.kernels.detect.steps import (
    IN_OTHERS_LIST,
    IN_OWN_LIST,
    Candidates,
    Negations,
    Program,
    Steps,
    lay_out_steps,
)
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Ints
from cetdsl.pattern.expressions import MIRRORED

#: The slot of the event by which two parts are neighbours in time.
EDGE = -1
#: No slot.
NONE = -2
#: Columns of ``Tree.node``: the slot of a leaf (-1: it joins two nodes), its children, the mask of its slots, where its
#: tests of single events begin, those of sets, and where these end, the test by order that a tree of extremes answers
#: (-1: none), and the slots of the left part that all of the right one comes after, and before (``NONE``: none).
SLOT, LEFT, RIGHT, MASK, TESTS, SET_TESTS, TESTS_END, SORTED, BEHIND, BEFORE, FIELDS = range(11)
#: Columns of ``Tree.test``: ``column of the right event  <op>  other_column of the left event``; for lists, both are
#: the number of the list. For sets of events, the events are the first right and the last left one, or the last right
#: and the first left one if the right part comes first (``BACKWARDS``).
OP, COLUMN, OTHER_COLUMN, EVENT, OTHER_EVENT, BACKWARDS = range(6)
#: An operator beyond those of steps: the events follow each other in time.
IN_TIME = 9


class Hashed(NamedTuple):
    """The equalities by which the right parts of a node are hashed, and the slots of both events."""

    event: int
    other_event: int
    comparisons: tuple[Comparison, ...]


class Tree(NamedTuple):
    """The nodes of a tree, children before parents, and their tests."""

    #: Shape (nodes, FIELDS), by the columns above.
    node: Ints
    #: The tests of all nodes, shape (tests, 6).
    test: Ints


class TreeProgram(NamedTuple):
    """A branch and a tree, laid out for a search."""

    tree: Tree
    #: By node, the equalities by which its right parts are hashed.
    hashed: tuple[Hashed | None, ...]
    #: By slot, the events that it can be bound to.
    candidates: tuple[Candidates, ...]
    #: The branch laid out in the order of the pattern, for the tests within sets of events and the judgements of gaps.
    steps: Steps


class _Asked(NamedTuple):
    """The tests that two partial matches must pass to be joined.

    Some compare single events, others sets. The right part lies ``behind`` one slot of the left part and
    ``before`` another one.
    """

    singles: list[tuple[int, ...]]
    sets: list[tuple[int, ...]]
    behind: int
    before: int


def _asked_of(left: Sequence[int], right: Sequence[int], branch: Branch, pairs: Sequence[Pair]) -> _Asked:
    """Returns the tests of two parts, which hold these slots."""
    several = len(branch.sequences) > 1
    singles: list[tuple[int, ...]] = []
    behind = before = NONE
    for sequence in branch.sequences:
        here, there = [s for s in left if s in sequence], [s for s in right if s in sequence]
        if not here or not there:
            continue
        backwards = there[0] < here[0]
        earlier, later = (there[-1], here[0]) if backwards else (here[-1], there[0])
        if set(right) <= set(sequence):
            behind, before = (before, here[0]) if backwards else (here[-1], before)
        if several:
            ends = (earlier, later) if backwards else (later, earlier)
            singles.append((IN_TIME, -1, -1, *ends, int(backwards)))
        if later == earlier + 1:
            singles += _of_neighbours(branch.between[earlier] or Between(), earlier, later, backwards=backwards)
    if not several:
        # The events are at the ends where the two parts meet, so that no slots have to be looked up.
        singles = [(*test[:EVENT], EDGE, EDGE, 0) for test in singles]
        behind = EDGE
    sets: list[tuple[int, ...]] = []
    for slot in right:
        for other in left:
            of_sets = branch.slots[slot].kleene or branch.slots[other].kleene
            event = slot if several or slot != right[0] or branch.slots[slot].kleene else EDGE
            other_event = other if several or other != left[-1] or branch.slots[other].kleene else EDGE
            variables = branch.slots[slot].variable, branch.slots[other].variable
            tests = sets if of_sets else singles
            for pair in pairs:
                if (pair.left_variable, pair.right_variable) == variables:
                    tests.append((OPERATORS[pair.op], pair.left, pair.right, event, other_event, 0))
                if (pair.right_variable, pair.left_variable) == variables:
                    tests.append((OPERATORS[MIRRORED[pair.op]], pair.right, pair.left, event, other_event, 0))
    return _Asked(singles, sets, behind, before)


def _of_neighbours(between: Between, earlier: int, later: int, *, backwards: bool) -> Iterator[tuple[int, ...]]:
    """Yields the tests of two slots, where the right part has the later one, or (``backwards``) the earlier."""
    for c in between.comparisons:
        if backwards:
            yield OPERATORS[MIRRORED[c.op]], c.earlier, c.later, earlier, later, 1
        else:
            yield OPERATORS[c.op], c.later, c.earlier, later, earlier, 0
    for row in between.listed:
        yield (IN_OTHERS_LIST, row, row, earlier, later, 1) if backwards else (IN_OWN_LIST, row, row, later, earlier, 0)


def _index(singles: list[tuple[int, ...]], branch: Branch) -> tuple[Hashed | None, list[tuple[int, ...]], int | None]:
    """Chooses the events with the most equalities for the hash, and a test by order; also returns the other tests."""

    def is_indexed(test: tuple[int, ...]) -> bool:
        sets = (slot >= 0 and branch.slots[slot].kleene for slot in (test[EVENT], test[OTHER_EVENT]))
        return not (test[BACKWARDS] and any(sets))

    by_events: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for test in filter(is_indexed, singles):
        if test[OP] == OPERATORS["="]:
            by_events.setdefault((test[EVENT], test[OTHER_EVENT]), []).append(test)
    hashed = None
    if by_events:
        (event, other), chosen = max(by_events.items(), key=lambda one: len(one[1]))
        comparisons = tuple(Comparison("=", test[COLUMN], test[OTHER_COLUMN]) for test in chosen)
        hashed = Hashed(event, other, comparisons)
        singles = [test for test in singles if test not in chosen]
    ordered = (
        k for k, test in enumerate(singles) if OPERATORS["<"] <= test[OP] <= OPERATORS[">="] and is_indexed(test)
    )
    return hashed, singles, next(ordered, None)


def lay_out_tree(
    branch: Branch, plan: TreePlan, pairs: Sequence[Pair], negations: Negations, span: bool
) -> TreeProgram:
    """Lays out a branch whose guards between neighbours are comparisons, in the tree of a plan.

    Each node of the tree holds neighbouring slots of each sequence.
    """
    every = list(walk(plan.root))
    number: dict[Node, int] = {node: k for k, node in enumerate(every)}
    rows = np.full((len(every), FIELDS), -1, dtype=np.int64)
    tests: list[tuple[int, ...]] = []
    hashes: list[Hashed | None] = []
    for row, node in zip(rows, every, strict=True):
        row[MASK] = mask_of(node)
        hashed: Hashed | None = None
        asked = _Asked([], [], NONE, NONE)
        singles: list[tuple[int, ...]] = []
        ordered: int | None = None
        if isinstance(node, int):
            row[SLOT] = node
        else:
            row[[LEFT, RIGHT]] = number[node[0]], number[node[1]]
            left, right = (list(members(mask_of(child))) for child in node)
            asked = _asked_of(left, right, branch, pairs)
            hashed, singles, ordered = _index(asked.singles, branch)
        row[[BEHIND, BEFORE]] = asked.behind, asked.before
        row[SORTED] = -1 if ordered is None else len(tests) + ordered
        row[TESTS] = len(tests)
        row[SET_TESTS] = row[TESTS] + len(singles)
        row[TESTS_END] = row[SET_TESTS] + len(asked.sets)
        tests += singles + asked.sets
        hashes.append(hashed)
    in_time = _in_time(branch, pairs, negations, span)
    tree = Tree(rows, np.array(tests, dtype=np.int64).reshape(-1, 6))
    return TreeProgram(tree, tuple(hashes), in_time.candidates, in_time.steps)


def _in_time(branch: Branch, pairs: Sequence[Pair], negations: Negations, span: bool) -> Program:
    return lay_out_steps(branch, range(len(branch.slots)), pairs, negations, span)
