"""Decision functions, which decide after each slice of the stream whether to plan anew."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import attrs

from cetdsl.detection.checks import from_zero, whole_from_one
from cetdsl.detection.cost import LEAST, Expectation
from cetdsl.detection.distances import AverageDistance, Distances, MetaDistances
from cetdsl.detection.generators import Block, Generated, plan_shape
from cetdsl.detection.invariants import Condition, Recorder, tightest
from cetdsl.detection.plans import Plan
from cetdsl.detection.watching import Watch, Watched
from cetdsl.errors import InvalidNode, check_choice, is_one_of, shown

METHODS = ("static", "unconditional", "threshold", "invariants")


@attrs.frozen
class Adaptation:
    """The rule for when to plan anew: one of four methods, and its parameters.

    Parameters
    ----------
    method : str
        "static": never. "unconditional": after each slice. "threshold": when a statistic deviates from its value at the
        last planning by a share of ``threshold`` or more. "invariants": when an invariant is violated.
    threshold : float
        t, a share of the value at the last planning.
    distance : float or str
        d, the share by which an invariant must be violated; or "average" or "meta".
    most : int or None
        K, how many invariants a building block has; None for all its deciding conditions.
    """

    method: str = "invariants"
    threshold: float = 0.5
    distance: float | str = "meta"
    most: int | None = 1


def given_adaptation(
    method: object = "invariants", *, threshold: object = None, distance: object = None, most: object = None
) -> Adaptation:
    """Checks and returns a user's setting of when to plan anew.

    Parameters
    ----------
    method : str
        "static", "unconditional", "threshold" or "invariants".
    threshold : float, optional
        For "threshold": t, 0 or more.
    distance : float or str, optional
        For "invariants": d, 0 or more, or "average" or "meta".
    most : int or str, optional
        For "invariants": K, 1 or more, or "all".

    Returns
    -------
    Adaptation

    Raises
    ------
    InvalidNode
        A word or number is none of these, or is for another method.

    Examples
    --------
    >>> given_adaptation("threshold", threshold=0.2).threshold
    0.2
    >>> given_adaptation("invariants", distance=-1)
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: the distance d is -1, which is negative
      hint: write a number from 0 up, "average" or "meta"
    """
    check_choice("adaptation", method, METHODS)
    for value, what, owner in (
        (threshold, "the threshold t", "threshold"),
        (distance, "the distance d", "invariants"),
        (most, "the number K", "invariants"),
    ):
        if value is not None and method != owner:
            raise InvalidNode(
                f"{what} is {shown(value)}, but the adaptation is {method!r}",
                hint=f"write adaptation={owner!r}, or leave it out",
            )
    given: dict[str, float | str | int | None] = {"method": str(method)}
    if threshold is not None:
        given["threshold"] = from_zero(threshold, "the threshold t", "write a share from 0 up, such as 0.5")
    if distance is not None:
        hint = 'write a number from 0 up, "average" or "meta"'
        named = is_one_of(distance, ("average", "meta"))
        given["distance"] = str(distance) if named else from_zero(distance, "the distance d", hint)
    if most is not None:
        hint = 'write a whole number from 1 up, or "all" deciding conditions'
        given["most"] = (
            None if is_one_of(most, ("all",)) else whole_from_one(most, f"the number K is {shown(most)}", hint)
        )
    return Adaptation(**given)  # type: ignore[arg-type]


class DecisionFunction:
    """The base of the decision functions; by itself it never plans anew."""

    #: Whether it looks at statistics at all.
    idle = True
    #: The invariant that was violated after the last slice, if one was.
    violated: Condition | None = None

    def wants_plan(self, expectation: Expectation, plan: Plan) -> bool:
        """Returns whether to plan anew after a slice.

        Parameters
        ----------
        expectation : Expectation
            The expectation under the current statistics.
        plan : OrderPlan or TreePlan
            The plan in force.
        """
        return False

    def accepts(self, new: Plan, old: Plan, expectation: Expectation) -> bool:
        """Returns whether a new plan is better than the one in force, and so replaces it."""
        return new != old and expectation.cost(new) < expectation.cost(old)

    def planned(self, made: Generated, recorder: Recorder, plan: Plan, expectation: Expectation) -> None:
        """Records a new plan, the comparisons that made it, and the plan that is in force from now on."""

    def watched(self, plan: Plan, watch: Watch) -> Watched:
        """Returns the checks by which a kernel can pass over slices that do not matter, while a plan is in force.

        Parameters
        ----------
        plan : OrderPlan or TreePlan
            The plan in force.
        watch : Watch
            The watch of the branch.
        """
        return watch.always()

    def passed_over(self, slices: int, gains: Sequence[float]) -> None:
        """Records slices that were passed over.

        Parameters
        ----------
        slices : int
            Their number.
        gains : sequence of float
            For each of them, while the last change of plan is on trial, the share of the cost that the change saved.
        """

    def fresh(self) -> DecisionFunction:
        """Returns a decision function for another key, with what this one knows."""
        return copy(self)


class Unconditional(DecisionFunction):
    """Plans anew after each slice."""

    idle = False

    def wants_plan(self, expectation: Expectation, plan: Plan) -> bool:
        """Returns True."""
        return True


class Threshold(DecisionFunction):
    """Plans anew when a rate or a selectivity deviates from its value at the last planning by a share of t or more.

    Notes
    -----
    The deviation is relative, so that one t fits rates and selectivities of any size.
    """

    idle = False

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._then: tuple[float, ...] = ()

    def wants_plan(self, expectation: Expectation, plan: Plan) -> bool:
        """Compares all statistics with those of the last planning."""
        now = self._values(expectation)
        return any(
            abs(value - then) >= self._threshold * max(then, LEAST) for value, then in zip(now, self._then, strict=True)
        )

    def planned(self, made: Generated, recorder: Recorder, plan: Plan, expectation: Expectation) -> None:
        """Keeps the statistics that the plan was made for."""
        self._then = self._values(expectation)

    def watched(self, plan: Plan, watch: Watch) -> Watched:
        """Returns checks of the deviations."""
        return watch.deviations(self._threshold, self._then)

    @staticmethod
    def _values(expectation: Expectation) -> tuple[float, ...]:
        problem, statistics = expectation.problem, expectation.statistics
        pairs = sorted(problem.predicates | problem.adjacent)
        rates = [statistics.rate(name) for name in problem.names]
        shares = [statistics.selectivity(problem.names[i], problem.names[j], compared=True) for i, j in pairs]
        return (*rates, *shares)


class Invariants(DecisionFunction):
    """Plans anew when an invariant is violated."""

    idle = False

    def __init__(self, distances: Distances, most: int | None) -> None:
        self._distances = distances
        self._most = most
        #: The invariants in force, in the order in which they are looked at.
        self.invariants: tuple[Condition, ...] = ()
        #: Invariants, and their arrays, which are cached for them.
        self._arrays: tuple[tuple[Condition, ...], Watched] | None = None

    def wants_plan(self, expectation: Expectation, plan: Plan) -> bool:
        """Checks the invariants in the order of the building blocks, until one is violated.

        Costs that several invariants share are computed once, from the leaves to the root, so that the work grows with
        the number of building blocks.
        """
        self._distances.passed(expectation, plan)
        known: dict[int, float] = {}
        for condition in self.invariants:
            if condition.violated(self._distances.of(condition), expectation, known):
                self.violated = condition
                return True
        self.violated = None
        return False

    def accepts(self, new: Plan, old: Plan, expectation: Expectation) -> bool:
        """Returns whether the new plan is better by as much as the distances require."""
        gain = 1 - expectation.cost(new) / expectation.cost(old)
        return self._distances.accept(self.violated, gain, old, expectation) and new != old

    def planned(self, made: Generated, recorder: Recorder, plan: Plan, expectation: Expectation) -> None:
        """Turns the comparisons that made the plan into invariants.

        With a greedy generator, the plan in force may be better than the one that the generator makes now. Then it
        stays in force as long as the generator would make the same plan again, and the plan in force stays better.
        """
        if plan != made.plan and self._distances.keeps_invariants:
            return
        deciding = recorder.deciding(made.blocks)
        self.invariants = tightest(deciding, expectation, self._most)
        self._distances.planned(self.invariants, expectation)
        if plan != made.plan:
            sides = (plan_shape(plan),), (plan_shape(made.plan),)
            self.invariants += (Condition(Block(0, 0), *sides, strict=False),)

    def watched(self, plan: Plan, watch: Watch) -> Watched:
        """Returns checks of the invariants, and of the gain of a change of plan that is on trial."""
        if self._arrays is None or self._arrays[0] is not self.invariants:
            sides = [(one.left, one.right, one.block.whole, one.strict) for one in self.invariants]
            self._arrays = self.invariants, watch.conditions(sides)
        return self._distances.watched(self._arrays[1], self.invariants, plan, watch)

    def passed_over(self, slices: int, gains: Sequence[float]) -> None:
        """Passes the slices on to the distances."""
        self.violated = None if slices else self.violated
        self._distances.passed_over(slices, gains)

    def fresh(self) -> Invariants:
        """Returns the same invariants, with distances of their own."""
        other = copy(self)
        other._distances = self._distances.fresh()
        other.violated = None
        return other


def decision_for(adaptation: Adaptation) -> DecisionFunction:
    """Returns the decision function that a user requests.

    Examples
    --------
    >>> type(decision_for(Adaptation("threshold"))).__name__
    'Threshold'
    """
    if adaptation.method == "static":
        return DecisionFunction()
    if adaptation.method == "unconditional":
        return Unconditional()
    if adaptation.method == "threshold":
        return Threshold(adaptation.threshold)
    distances: Distances
    if isinstance(adaptation.distance, str):
        distances = AverageDistance() if adaptation.distance == "average" else MetaDistances()
    else:
        distances = Distances(adaptation.distance)
    return Invariants(distances, adaptation.most)
