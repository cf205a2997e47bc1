"""Invariants: those of the comparisons that made a plan which are checked while it is in force.

Kolchinsky and Schuster, "Efficient Adaptive Detection of Complex Event Patterns" (PVLDB 11(11), 2018), section 3. For
each building block of a plan, the comparisons that chose it over something else are its *deciding conditions*. The
tightest of each block, or the K tightest, are its *invariants*. As long as they hold, no better plan is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from cetdsl.detection.cost import Expectation
from cetdsl.detection.generators import Block, Candidate, Comparator, Shape, cost_of
from cetdsl.detection.plans import members

#: The largest distance that is computed from data, as the two sides may differ by any factor.
MOST_DISTANCE = 1e6

Key: TypeAlias = "tuple[tuple[Shape, ...], tuple[Shape, ...]]"


class Recorder(Comparator):
    """A comparator that keeps all comparisons, by the building block that they are about.

    Examples
    --------
    >>> from cetdsl.detection.generators import greedy
    >>> from cetdsl.detection.plans import Problem
    >>> from cetdsl.detection.statistics import Statistics
    >>> problem = Problem.sequence("a", "b", "c")
    >>> expectation = Expectation(problem, Statistics({"a": 100, "b": 15, "c": 10}))
    >>> recorder = Recorder()
    >>> made = greedy(expectation, recorder)
    >>> for conditions in recorder.deciding(made.blocks):
    ...     print([condition.show(problem.names) for condition in conditions])
    ['c < a', 'c < b']
    ['c, b < c, a']
    """

    def __init__(self) -> None:
        self._comparisons: dict[Block, tuple[int, Sequence[Candidate]]] = {}

    def choose(self, block: Block, candidates: Sequence[Candidate]) -> int:
        """Returns the number of the cheapest candidate, and keeps the comparison."""
        chosen = super().choose(block, candidates)
        self._comparisons[block] = chosen, candidates
        return chosen

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks that were considered, those of the plan and others."""
        return tuple(self._comparisons)

    def deciding(self, blocks: Iterable[Block]) -> tuple[tuple[Condition, ...], ...]:
        """Returns the deciding conditions of each of some blocks."""
        return tuple(self._conditions(block) for block in blocks)

    def _conditions(self, block: Block) -> tuple[Condition, ...]:
        if block not in self._comparisons:
            return ()  # there was nothing else to choose
        chosen, candidates = self._comparisons[block]
        return tuple(
            # A later candidate with the same cost would not have been chosen, either.
            Condition(block, candidates[chosen].shapes, other.shapes, strict=number < chosen)
            for number, other in enumerate(candidates)
            if number != chosen
        )


@attrs.frozen
class Condition:
    """``cost(left) < cost(right)``, or ``<=``: a comparison that chose the left side for a building block.

    Parameters
    ----------
    block : Block
        The block that this comparison decided on.
    left, right : tuple of Shape
        The shapes of the chosen candidate, and those of the other one.
    strict : bool
        Whether the right side is chosen if both cost the same.
    """

    block: Block
    left: tuple[Shape, ...]
    right: tuple[Shape, ...]
    strict: bool

    @property
    def key(self) -> Key:
        """The key of the comparison, which is the same after the plan changed back."""
        return self.left, self.right

    @property
    def reverse(self) -> Key:
        """The key of the condition that holds instead if this one is violated."""
        return self.right, self.left

    def sides(self, expectation: Expectation, known: dict[int, float]) -> tuple[float, float]:
        """Returns the costs of both sides, without what they have in common."""
        left = sum(cost_of(shape, expectation, known) for shape in self.left)
        right = sum(cost_of(shape, expectation, known) for shape in self.right)
        return left, right

    def whole_sides(self, expectation: Expectation, known: dict[int, float]) -> tuple[float, float]:
        """Returns the costs of both sides, with what they have in common."""
        left, right = self.sides(expectation, known)
        common = expectation.count(self.block.whole) if self.block.whole else 0.0
        return left + common, right + common

    def violated(self, distance: float, expectation: Expectation, known: dict[int, float]) -> bool:
        """Returns whether the condition does not hold, by at least a relative distance.

        Parameters
        ----------
        distance : float
            The share by which the left side must cost more than the right one, 0 or more.
        expectation : Expectation
            The expectation under the current statistics.
        known : dict
            A cache of costs of shapes under these statistics.

        Notes
        -----
        Section 3.4 introduces the distance as the difference that is "required for an invariant to be considered as
        violated", and so it is read here: violated if f1 >= (1 + d) f2. The formula that is printed there,
        (1 + d) f1 < f2, would be violated sooner for a larger d.

        Examples
        --------
        >>> from cetdsl.detection.plans import Problem
        >>> from cetdsl.detection.statistics import Statistics
        >>> condition = Condition(Block(0, 0), ((0b01,),), ((0b10,),), strict=True)
        >>> expectation = Expectation(Problem.conjunction("a", "b"), Statistics({"a": 12, "b": 10}))
        >>> [condition.violated(distance, expectation, {}) for distance in (0.0, 0.1, 0.3)]
        [True, True, False]
        """
        left, right = self.sides(expectation, known)
        if left < right or (left == right and not self.strict):
            return False
        left, right = self.whole_sides(expectation, known)
        return left >= (1 + distance) * right

    def show(self, names: Sequence[str]) -> str:
        """Returns the condition in words, with names of variables by position."""
        sign = "<" if self.strict else "<="
        left, right = (", ".join(_written(shape, self.block, names) for shape in side) for side in self.key)
        return f"{left} {sign} {right}"


def _written(shape: Shape, block: Block, names: Sequence[str]) -> str:
    """Writes a tree as a tree, an order as an order, and a greedy step as its bound variables, the new one last."""
    mask, *below = shape
    assert isinstance(mask, int)
    parts = [part for part in below if not isinstance(part, int)]
    if len(parts) == 2:
        return "(" + ", ".join(_written(part, block, names) for part in parts) + ")"
    if parts:
        inner = parts[0][0]
        assert isinstance(inner, int)
        return f"{_written(parts[0], block, names)}, {names[(mask ^ inner).bit_length() - 1]}"
    positions = [*members(mask & block.given), *members(mask & ~block.given)]
    return ", ".join(names[position] for position in positions)


def tightest(
    deciding: Iterable[Sequence[Condition]], expectation: Expectation, most: int | None
) -> tuple[Condition, ...]:
    """Returns the invariants: of each block the conditions that are nearest to being violated.

    Parameters
    ----------
    deciding : iterable of sequence of Condition
        The deciding conditions of each block, in the order of the blocks, in which they are looked at.
    expectation : Expectation
        The expectation under the statistics that the plan was made for.
    most : int or None
        How many of each block, K. None for all.

    Returns
    -------
    tuple of Condition

    Notes
    -----
    Section 3.1: the condition that minimises the right side minus the left side; section 3.3 for more than one.
    """
    known: dict[int, float] = {}

    def slack(condition: Condition) -> float:
        left, right = condition.sides(expectation, known)
        return right - left

    return tuple(condition for conditions in deciding for condition in sorted(conditions, key=slack)[:most])


def average_distance(deciding: Iterable[Sequence[Condition]], expectation: Expectation) -> float:
    """Returns the average relative difference between both sides of all deciding conditions, at most a million.

    Notes
    -----
    Section 3.4: the average of abs(f2 - f1) / min(f1, f2).

    Examples
    --------
    >>> from cetdsl.detection.generators import greedy
    >>> from cetdsl.detection.plans import Problem
    >>> from cetdsl.detection.statistics import Statistics
    >>> expectation = Expectation(Problem.sequence("a", "b", "c"), Statistics({"a": 100, "b": 15, "c": 10}))
    >>> recorder = Recorder()
    >>> blocks = greedy(expectation, recorder).blocks
    >>> average = average_distance(recorder.deciding(blocks), expectation)  # of 5 / 10, 90 / 10 and 85 / 15
    >>> round(average, 6)
    5.055556
    """
    known: dict[int, float] = {}
    differences = []
    for conditions in deciding:
        for condition in conditions:
            left, right = condition.whole_sides(expectation, known)
            differences.append(min(abs(right - left) / min(left, right), MOST_DISTANCE))
    return sum(differences) / len(differences) if differences else 0.0
