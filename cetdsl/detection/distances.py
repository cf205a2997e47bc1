"""Distances: by how much an invariant must be violated before a new plan is made."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from copy import copy

import attrs
import numpy as np

from cetdsl.detection.cost import Expectation
from cetdsl.detection.invariants import Condition, Key, average_distance
from cetdsl.detection.plans import Plan
from cetdsl.detection.watching import Watch, Watched


class Distances:
    """Gives the same distance, set by the user, for all invariants.

    Examples
    --------
    >>> from cetdsl.detection.generators import Block
    >>> Distances(0.2).of(Condition(Block(0, 0), ((1,),), ((2,),), strict=True))
    0.2
    """

    #: Whether the invariants stay if a new plan is not accepted. Otherwise they become those of the new plan.
    keeps_invariants = False

    def __init__(self, distance: float = 0.0) -> None:
        self._distance = distance

    def of(self, condition: Condition) -> float:
        """Returns the distance of an invariant, 0 or more."""
        return self._distance

    def planned(self, invariants: Sequence[Condition], expectation: Expectation) -> None:
        """Records the invariants of a new plan, and the statistics that it was made for."""

    def passed(self, expectation: Expectation, plan: Plan) -> None:
        """Records another slice: its statistics, and the plan that was in force."""

    def watched(self, watched: Watched, invariants: Sequence[Condition], plan: Plan, watch: Watch) -> Watched:
        """Returns the conditions to check after a slice, by these distances."""
        return watched._replace(distance=np.full(len(invariants), self._distance))

    def passed_over(self, slices: int, gains: Sequence[float]) -> None:
        """Records slices that were passed over, and what a change of plan on trial gained in each."""

    def accept(self, violated: Condition | None, gain: float, old: Plan, expectation: Expectation) -> bool:
        """Returns whether a new plan shall be in force.

        Parameters
        ----------
        violated : Condition or None
            The invariant that was violated.
        gain : float
            The share of the old plan's expected cost that the new plan saves; less than 0 if it costs more.
        old : OrderPlan or TreePlan
            The plan that was in force.
        expectation : Expectation
            The expectation under the current statistics.
        """
        return gain > 0

    def fresh(self) -> Distances:
        """Returns a copy for another key, which learns from the data of that key."""
        return copy(self)


class AverageDistance(Distances):
    """The average relative difference between both sides of the invariants, computed at each planning.

    Notes
    -----
    This is from section 3.4 of the paper, which does not say over which deciding conditions to average. Those that are
    no invariants are further from being violated, often by orders of magnitude: with them the distance would be so
    large that no plan would ever change.
    """

    def planned(self, invariants: Sequence[Condition], expectation: Expectation) -> None:
        """Computes the distance that holds until the next planning."""
        self._distance = average_distance([invariants], expectation)


@attrs.define
class _Trial:
    """A change of plan whose gain is being measured: what led to it, the plan before, and the gains of slices since."""

    condition: Condition
    excess: float
    old: Plan
    gains: list[float] = attrs.field(factory=list)


class MetaDistances(Distances):
    """A distance for each invariant, raised if changing the plan gained little and lowered if it gained much.

    All distances begin at 0. When an invariant is violated, a new plan is made. If it would save less than
    ``least_gain`` of the cost, it is not put in force. Otherwise it is on trial: both plans are costed for each of the
    next ``probation`` slices, and the mean share of the cost that the change saved is its gain. If the gain is less
    than ``least_gain``, the same violation would gain as little again, so the distance becomes 1.5 times the violation,
    and at least twice its previous value. So does the distance of the reverse comparison, which would lead back. If a
    change gains more, both distances are halved.

    Distances do not grow without bound: after each ``half_life`` slices, half of a raised distance is forgotten, so
    that no change is overlooked for ever. Only the ``most`` comparisons that were judged last are remembered.

    Notes
    -----
    This is the third direction of section 3.4 of the paper, which leaves it for the future, with a distance for each
    invariant.

    Examples
    --------
    >>> from cetdsl.detection.generators import Block
    >>> condition = Condition(Block(0, 0), ((1,),), ((2,),), strict=True)
    >>> distances = MetaDistances()
    >>> distances.judge(condition, excess=0.1, gain=0.01)
    >>> round(distances.of(condition), 6)
    0.15
    >>> distances.judge(condition, excess=0.2, gain=0.5)
    >>> round(distances.of(condition), 6)
    0.075
    """

    keeps_invariants = True
    least_gain = 0.05
    probation = 8
    half_life = 64
    most = 256
    #: A smaller distance counts as 0.
    _least = 0.01

    def __init__(self) -> None:
        super().__init__()
        self._slices = 0
        self._trial: _Trial | None = None
        #: Raised distances, each with the number of slices passed when it was raised, in the order of last judgement.
        self._raised: OrderedDict[Key, tuple[float, int]] = OrderedDict()

    def of(self, condition: Condition) -> float:
        """Returns the distance of an invariant, 0 or more."""
        distance, since = self._raised.get(condition.key, (0.0, 0))
        distance *= 0.5 ** ((self._slices - since) / self.half_life)
        return distance if distance >= self._least else 0.0

    def passed(self, expectation: Expectation, plan: Plan) -> None:
        """Measures the gain of the last change, and forgets a little of the distances."""
        self._slices += 1
        if self._trial:
            # A loss is limited to what a gain can be, so that a single slice does not decide.
            gain = max(1 - expectation.cost(plan) / expectation.cost(self._trial.old), -1.0)
            self._trial.gains.append(gain)
            if len(self._trial.gains) == self.probation:
                self._end_trial()

    def watched(self, watched: Watched, invariants: Sequence[Condition], plan: Plan, watch: Watch) -> Watched:
        """Returns the checks after a slice, with distances that fade, and both plans if one is on trial."""
        raised = [self._raised.get(condition.key, (0.0, 0)) for condition in invariants]
        watched = watched._replace(
            distance=np.array([distance for distance, _ in raised], dtype=np.float64),
            since=np.array([since for _, since in raised], dtype=np.int64),
            half_life=float(self.half_life),
            least=self._least,
            slices=self._slices,
        )
        if self._trial is None:
            return watched
        return watch.on_trial(watched, plan.masks, self._trial.old.masks, self.probation - len(self._trial.gains))

    def passed_over(self, slices: int, gains: Sequence[float]) -> None:
        """Forgets a little of the distances, and keeps the gains; the last slice of a trial is always looked at."""
        self._slices += slices
        if self._trial:
            self._trial.gains += gains

    def accept(self, violated: Condition | None, gain: float, old: Plan, expectation: Expectation) -> bool:
        """Returns whether the new plan gains enough; if so, puts it on trial."""
        self._end_trial()
        assert violated is not None, "a new plan is made only when an invariant is violated"
        left, right = violated.whole_sides(expectation, {})
        if gain < self.least_gain:
            self.judge(violated, left / right - 1, gain)
            return False
        self._trial = _Trial(violated, left / right - 1, old)
        return True

    def _end_trial(self) -> None:
        trial, self._trial = self._trial, None
        if trial and trial.gains:
            self.judge(trial.condition, trial.excess, sum(trial.gains) / len(trial.gains))

    def judge(self, condition: Condition, excess: float, gain: float) -> None:
        """Raises or lowers the distances of an invariant and of its reverse.

        Parameters
        ----------
        condition : Condition
            The invariant that was violated.
        excess : float
            The share by which its left side cost more than its right side.
        gain : float
            The share of the cost that the change of plan saved, or would have saved.
        """
        distance = self.of(condition)
        distance = distance / 2 if gain >= self.least_gain else max(2 * distance, 1.5 * excess, self._least)
        for key in (condition.key, condition.reverse):
            self._raised.pop(key, None)
            if distance >= self._least:
                self._raised[key] = distance, self._slices
        while len(self._raised) > self.most:
            self._raised.popitem(last=False)

    def fresh(self) -> MetaDistances:
        """Returns distances that are not raised yet."""
        return type(self)()
