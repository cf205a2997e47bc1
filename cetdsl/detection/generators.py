"""The generators of plans: greedy and dynamic programming for orders, dynamic programming for trees.

A generator lets a comparator choose the cheapest of several candidates, and does nothing else with costs. So a
comparator that records its calls has all comparisons that made a plan, from which invariants are made, and generators
need not know about invariants. Of candidates with equal costs the first is chosen, so that the same numbers give the
same plan.

A *shape* describes how a set of variables is put together, as far as costs depend on it: the set's mask, and then the
shapes of its parts. The cost of a shape is the sum of the expected numbers of partial matches of its mask and of all
masks inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import attrs

from cetdsl.detection.cost import Expectation
from cetdsl.detection.plans import Node, OrderPlan, Plan, Problem, TreePlan, is_convex, members

#: A mask and the shapes below it.
Shape: TypeAlias = "tuple[int | Shape, ...]"

#: The most variables for which dynamic programming enumerates all subsets.
MOST_FOR_DYNAMIC = 12
#: The most variables for which the leaves of trees may come in any order that the pattern leaves free.
MOST_FOR_FREE_LEAVES = 10
#: The most variables for which "auto" chooses an order by dynamic programming.
MOST_FOR_AUTO = 8


class Candidate(NamedTuple):
    """One choice of a generator: its cost, without what all candidates have in common, and the shapes that cost it."""

    cost: float
    shapes: tuple[Shape, ...]


@attrs.frozen
class Block:
    """A building block of a plan: one step of an order, or one inner node of a tree.

    ``given`` is the mask of the variables bound before a greedy step. ``whole`` is the mask of the subset whose best
    plan dynamic programming searched for; the partial matches of this subset itself are the same for all candidates,
    and no part of their costs.
    """

    given: int
    whole: int


class Comparator:
    """Chooses the candidate that costs least.

    Examples
    --------
    >>> Comparator().choose(Block(0, 0), [Candidate(3.0, ()), Candidate(2.0, ()), Candidate(2.0, ())])
    1
    """

    def choose(self, block: Block, candidates: Sequence[Candidate]) -> int:
        """Returns the number of the cheapest candidate, of the first if several are."""
        return min(range(len(candidates)), key=lambda number: candidates[number].cost)


@attrs.frozen
class Generated:
    """A plan, and its building blocks: the steps in their order, or the inner nodes from the leaves to the root."""

    plan: Plan
    blocks: tuple[Block, ...]


Generator: TypeAlias = Callable[[Expectation, Comparator], Generated]


def greedy(expectation: Expectation, comparator: Comparator) -> Generated:
    """Always binds next the variable that leaves the fewest partial matches.

    Notes
    -----
    Algorithm 2 of Kolchinsky and Schuster (PVLDB 11(11), 2018). All candidates of a step extend the same partial
    matches, so comparing the resulting numbers of partial matches is the same as comparing the growth factors.

    Examples
    --------
    >>> from cetdsl.detection.statistics import Statistics
    >>> rates = Statistics({"a": 100, "b": 15, "c": 10})
    >>> greedy(Expectation(Problem.sequence("a", "b", "c"), rates), Comparator()).plan.show("abc")
    'c, b, a'
    """
    order: list[int] = []
    blocks: list[Block] = []
    bound, free = 0, list(range(len(expectation.problem.variables)))
    while free:
        masks = [bound | 1 << position for position in free]
        chosen = 0
        if len(free) > 1:
            blocks.append(Block(bound, 0))
            candidates = [Candidate(expectation.count(mask), ((mask,),)) for mask in masks]
            chosen = comparator.choose(blocks[-1], candidates)
        order.append(free.pop(chosen))
        bound = masks[chosen]
    return Generated(OrderPlan(tuple(order)), tuple(blocks))


def dynamic(expectation: Expectation, comparator: Comparator) -> Generated:
    """Finds the order with the fewest partial matches in total, by dynamic programming over subsets.

    The best order of a set is the best order of all but one variable, followed by that one: 2^n sets, n choices each.

    Examples
    --------
    >>> from cetdsl.detection.statistics import Statistics
    >>> known = Statistics({"a": 5, "b": 6, "c": 6}, {("b", "c"): 0.01})
    >>> problem = Problem.conjunction("a", "b", "c", predicates={(1, 2)})
    >>> greedy(Expectation(problem, known), Comparator()).plan.show("abc")  # 5, 30, 1.8
    'a, b, c'
    >>> dynamic(Expectation(problem, known), Comparator()).plan.show("abc")  # 6, 0.36, 1.8
    'b, c, a'
    """
    best: dict[int, tuple[float, Shape]] = {}
    for mask in range(1, expectation.problem.everything + 1):
        candidates = []
        for position in reversed(list(members(mask))):  # of orders that cost the same, the pattern's own
            before = best.get(mask ^ 1 << position)
            if before:
                candidates.append(Candidate(before[0], (before[1],)))
        best[mask] = _put_together(mask, candidates, expectation, comparator)
    shape = best[expectation.problem.everything][1]
    masks: list[int] = []
    while shape:
        masks.append(_mask(shape))
        shape = next(iter(_below(shape)), ())
    masks.reverse()
    order = tuple((mask ^ before).bit_length() - 1 for before, mask in zip([0, *masks], masks))
    return Generated(OrderPlan(order), tuple(Block(0, mask) for mask in masks[1:]))


def tree(expectation: Expectation, comparator: Comparator) -> Generated:
    """Finds the tree with the fewest partial matches in total, by dynamic programming.

    No other variable stands, in time, between the variables of a node. So in a sequence a node has a range of
    neighbours, and in a conjunction any set. For more than ten variables that are not one sequence, nodes only have
    ranges of the pattern's order.

    Notes
    -----
    Algorithm 3 of Kolchinsky and Schuster (PVLDB 11(11), 2018), which is that of ZStream (Mei and Madden, SIGMOD 2009):
    cost(T) = cost(L) + cost(R) + card(T), and a leaf costs its number of events.

    Examples
    --------
    >>> from cetdsl.detection.statistics import Statistics
    >>> known = Statistics({"a": 10, "b": 10, "c": 10, "d": 10}, {("a", "c"): 0.01, ("b", "d"): 0.01})
    >>> both = {(0, 2), (1, 3)}
    >>> tree(Expectation(Problem.conjunction(*"abcd", predicates=both), known), Comparator()).plan.show("abcd")
    '((a, c), (b, d))'
    >>> tree(Expectation(Problem.sequence(*"abcd", predicates=both), known), Comparator()).plan.show("abcd")
    '(((a, b), c), d)'
    """
    best: dict[int, tuple[float, Shape]] = {}
    problem = expectation.problem
    for mask, splits in subtrees(problem.ordered, len(problem.variables)):
        candidates = []
        for left, right in splits:
            (cost, shape), (other_cost, other_shape) = best[left], best[right]
            candidates.append(Candidate(cost + other_cost, (shape, other_shape)))
        best[mask] = _put_together(mask, candidates, expectation, comparator)
    shape = best[problem.everything][1]
    return Generated(TreePlan(_node(shape)), tuple(_blocks(shape)))


def _put_together(
    mask: int, candidates: list[Candidate], expectation: Expectation, comparator: Comparator
) -> tuple[float, Shape]:
    """Returns cost and shape of the best way to put a set together; a single variable has no candidates."""
    if not candidates:
        return expectation.count(mask), (mask,)
    chosen = candidates[comparator.choose(Block(0, mask), candidates) if len(candidates) > 1 else 0]
    return chosen.cost + expectation.count(mask), (mask, *chosen.shapes)


def _mask(shape: Shape) -> int:
    mask = shape[0]
    assert isinstance(mask, int)
    return mask


def _below(shape: Shape) -> tuple[Shape, ...]:
    return tuple(part for part in shape if not isinstance(part, int))


def _node(shape: Shape) -> Node:
    below = _below(shape)
    return (_node(below[0]), _node(below[1])) if below else _mask(shape).bit_length() - 1


def _blocks(shape: Shape) -> list[Block]:
    below = _below(shape)
    return [block for part in below for block in _blocks(part)] + ([Block(0, _mask(shape))] if below else [])


def cost_of(shape: Shape, expectation: Expectation, known: dict[int, float]) -> float:
    """Computes the cost of a shape; the cost of each part is computed once.

    The additions are those of the generators in the same order, so that the result is the same to the last bit.

    Parameters
    ----------
    shape : Shape
    expectation : Expectation
    known : dict
        A cache of costs by the ``id()`` of shapes, which must live as long as the cache.

    Examples
    --------
    >>> from cetdsl.detection.statistics import Statistics
    >>> expectation = Expectation(Problem.conjunction("a", "b"), Statistics({"a": 2, "b": 8}))
    >>> round(cost_of((0b11, (0b01,), (0b10,)), expectation, {}), 6)
    26.0
    """
    cost = known.get(id(shape))
    if cost is None:
        own = expectation.count(_mask(shape))
        below = _below(shape)
        cost = sum(cost_of(part, expectation, known) for part in below) + own if below else own
        known[id(shape)] = cost
    return cost


def plan_shape(plan: Plan) -> Shape:
    """Returns the shape of a whole plan.

    Examples
    --------
    >>> plan_shape(OrderPlan((1, 0)))
    (3, (2,))
    >>> plan_shape(TreePlan((0, 1)))
    (3, (1,), (2,))
    """
    if isinstance(plan, TreePlan):
        return _shape(plan.root)
    shape: Shape = ()
    for mask in plan.masks:
        shape = (mask, shape) if shape else (mask,)
    return shape


def _shape(node: Node) -> Shape:
    if isinstance(node, int):
        return (1 << node,)
    left, right = _shape(node[0]), _shape(node[1])
    return (_mask(left) | _mask(right), left, right)


@lru_cache(maxsize=256)
def subtrees(ordered: frozenset[tuple[int, int]], count: int) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    """Returns the sets that a node of a tree may have, smaller ones first, each with the ways to divide it in two.

    The part with the lowest position is the left one.

    Examples
    --------
    >>> subtrees(Problem.sequence("a", "b", "c").ordered, 3)[3:]
    ((3, ((1, 2),)), (6, ((2, 4),)), (7, ((3, 4), (1, 6))))
    >>> len(subtrees(frozenset(), 3)), len(subtrees(frozenset(), 12))
    (7, 78)
    """
    if len(ordered) == count * (count - 1) // 2 or count > MOST_FOR_FREE_LEAVES:
        masks = [(1 << stop) - (1 << start) for stop in range(1, count + 1) for start in range(stop)]
    else:
        masks = [mask for mask in range(1, 1 << count) if is_convex(mask, ordered)]
    masks.sort(key=lambda mask: (mask.bit_count(), mask))
    allowed = frozenset(masks)
    return tuple((mask, tuple(_splits(mask, allowed))) for mask in masks)


def _splits(mask: int, allowed: frozenset[int]) -> list[tuple[int, int]]:
    lowest = mask & -mask
    rest = mask ^ lowest
    # All subsets of the rest in ascending order, by the usual trick: next = (part - rest) & rest.
    splits, part = [], 0
    while part != rest:
        left = part | lowest
        if left in allowed and mask ^ left in allowed:
            splits.append((left, mask ^ left))
        part = (part - rest) & rest
    return splits[::-1]  # of trees with equal costs, the left-deep one comes first


GENERATORS: dict[str, Generator] = {"greedy": greedy, "dynamic": dynamic, "tree": tree}


def algorithm_for(asked: str, problem: Problem) -> str:
    """Returns the name of the generator that is used for a requested one.

    ``"auto"`` is dynamic programming up to eight variables. Beyond twelve, dynamic programming becomes greedy.

    Examples
    --------
    >>> algorithm_for("auto", Problem.sequence("a", "b")), algorithm_for("dynamic", Problem.sequence(*"abcdefghijklm"))
    ('dynamic', 'greedy')
    """
    most = {"auto": MOST_FOR_AUTO, "dynamic": MOST_FOR_DYNAMIC}
    if asked not in most:
        return asked
    return "dynamic" if len(problem.variables) <= most[asked] else "greedy"
