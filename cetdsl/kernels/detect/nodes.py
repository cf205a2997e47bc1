"""A branch in the tree of a plan, as arrays: what each node joins, and what it asks of two partial matches.

A partial match of the *left* part comes before one of the *right* part in time. A test compares an event of the right
one with an event of the left one, each given by its slot; :data:`EDGE` is the first event of the right one, or the last
event of the left one, which are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.detection.plans import Node, TreePlan, mask_of, members, walk
from cetdsl.ir.branches import Branch
from cetdsl.ir.machine import Comparison, Pair
from cetdsl.kernels.detect.steps import IN_OWN_LIST, Candidates, Negations, Program, Steps, lay_out_steps
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Ints
from cetdsl.pattern.expressions import MIRRORED

#: The slot of the event by which two parts are neighbours in time.
EDGE = -1
#: Columns of ``Tree.node``: the slot of a leaf (-1: it joins two nodes), its children, the first slot and the one
#: behind the last, where its tests of single events begin, those of sets, and where these end, and the test by order
#: that a tree of extremes answers (-1: none).
SLOT, LEFT, RIGHT, FIRST, STOP, TESTS, SET_TESTS, TESTS_END, SORTED, FIELDS = range(10)
#: Columns of ``Tree.test``: ``column of the right event  <op>  other_column of the left event``; for lists, their
#: number is both.
OP, COLUMN, OTHER_COLUMN, EVENT, OTHER_EVENT = range(5)


class Hashed(NamedTuple):
    """The equalities by which the right parts of a node are hashed, and the slots of both events."""

    event: int
    other_event: int
    comparisons: tuple[Comparison, ...]


class Tree(NamedTuple):
    """What each node joins, children before parents."""

    #: Shape (nodes, FIELDS), by the columns above.
    node: Ints
    #: The tests of all nodes, shape (tests, 5).
    test: Ints


class TreeProgram(NamedTuple):
    """All that must be known of a branch and a tree."""

    tree: Tree
    #: By node, what its right parts are hashed by.
    hashed: tuple[Hashed | None, ...]
    #: By slot, what it can be bound to.
    candidates: tuple[Candidates, ...]
    #: The branch in the order of the pattern: what sets of events ask, and what is judged of gaps.
    steps: Steps


def _tests_of(left: range, right: range, branch: Branch, pairs: Sequence[Pair]) -> list[tuple[int, ...]]:
    """What is asked of two parts, which hold these slots."""
    between = branch.between[right.start - 1]
    tests: list[tuple[int, ...]] = []
    tests += [(OPERATORS[c.op], c.later, c.earlier, EDGE, EDGE) for c in between.comparisons]
    tests += [(IN_OWN_LIST, row, row, EDGE, EDGE) for row in between.listed]
    for slot in right:
        event = EDGE if slot == right.start and not branch.slots[slot].kleene else slot
        for other in left:
            other_event = EDGE if other == left.stop - 1 and not branch.slots[other].kleene else other
            variables = branch.slots[slot].variable, branch.slots[other].variable
            for pair in pairs:
                if (pair.left_variable, pair.right_variable) == variables:
                    tests.append((OPERATORS[pair.op], pair.left, pair.right, event, other_event))
                if (pair.right_variable, pair.left_variable) == variables:
                    tests.append((OPERATORS[MIRRORED[pair.op]], pair.right, pair.left, event, other_event))
    return tests


def _looks_at_set(test: tuple[int, ...], branch: Branch) -> bool:
    return any(slot != EDGE and branch.slots[slot].kleene for slot in (test[EVENT], test[OTHER_EVENT]))


def _index(singles: list[tuple[int, ...]]) -> tuple[Hashed | None, list[tuple[int, ...]], int | None]:
    """Chooses the events with the most equalities for the hash, and a test by order; returns the tests left to ask."""
    by_events: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for test in singles:
        if test[OP] == OPERATORS["="]:
            by_events.setdefault((test[EVENT], test[OTHER_EVENT]), []).append(test)
    hashed = None
    if by_events:
        (event, other), chosen = max(by_events.items(), key=lambda one: len(one[1]))
        comparisons = tuple(Comparison("=", test[COLUMN], test[OTHER_COLUMN]) for test in chosen)
        hashed = Hashed(event, other, comparisons)
        singles = [test for test in singles if test not in chosen]
    ordered = (k for k, test in enumerate(singles) if OPERATORS["<"] <= test[OP] <= OPERATORS[">="])
    return hashed, singles, next(ordered, None)


def lay_out_tree(
    branch: Branch, plan: TreePlan, pairs: Sequence[Pair], negations: Negations, span: bool
) -> TreeProgram:
    """Lays out a branch whose guards between neighbours are comparisons, in the tree of a plan.

    Each node of the tree holds neighbouring slots.
    """
    every = list(walk(plan.root))
    number: dict[Node, int] = {node: k for k, node in enumerate(every)}
    rows = np.full((len(every), FIELDS), -1, dtype=np.int64)
    tests: list[tuple[int, ...]] = []
    hashes: list[Hashed | None] = []
    for row, node in zip(rows, every, strict=True):
        slots = _slots(node)
        row[[FIRST, STOP]] = slots.start, slots.stop
        hashed: Hashed | None = None
        singles: list[tuple[int, ...]] = []
        sets: list[tuple[int, ...]] = []
        ordered: int | None = None
        if isinstance(node, int):
            row[SLOT] = node
        else:
            row[[LEFT, RIGHT]] = number[node[0]], number[node[1]]
            own = _tests_of(_slots(node[0]), _slots(node[1]), branch, pairs)
            sets = [test for test in own if _looks_at_set(test, branch)]
            hashed, singles, ordered = _index([test for test in own if test not in sets])
        row[SORTED] = -1 if ordered is None else len(tests) + ordered
        row[TESTS] = len(tests)
        row[SET_TESTS] = row[TESTS] + len(singles)
        row[TESTS_END] = row[SET_TESTS] + len(sets)
        tests += singles + sets
        hashes.append(hashed)
    in_time = _in_time(branch, pairs, negations, span)
    tree = Tree(rows, np.array(tests, dtype=np.int64).reshape(-1, 5))
    return TreeProgram(tree, tuple(hashes), in_time.candidates, in_time.steps)


def _in_time(branch: Branch, pairs: Sequence[Pair], negations: Negations, span: bool) -> Program:
    return lay_out_steps(branch, range(len(branch.slots)), pairs, negations, span)


def _slots(node: Node) -> range:
    """The slots in and below a node, which are neighbours."""
    slots = list(members(mask_of(node)))
    assert slots[-1] - slots[0] == len(slots) - 1, node
    return range(slots[0], slots[-1] + 1)
