"""The loop of detection and adaptation for one branch of a pattern and one key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from time import thread_time

import attrs
import numpy as np

from cetdsl.detection.checks import whole_from_one
from cetdsl.detection.cost import Expectation
from cetdsl.detection.decisions import Adaptation, decision_for
from cetdsl.detection.generators import GENERATORS, algorithm_for
from cetdsl.detection.invariants import Condition, Recorder
from cetdsl.detection.plans import Plan, Problem
from cetdsl.detection.statistics import Statistics
from cetdsl.detection.watching import Watch, Watched
from cetdsl.errors import shown

#: By default a stream is cut into about so many slices; and the fewest and the most events of a slice.
_SLICES, _SHORTEST, _LONGEST = 256, 1_000, 100_000
#: The share of the time that deciding and planning may take before slices become longer.
_SHARE = 0.01


@attrs.define
class Counts:
    """Counts a loop's work: slices seen, violated invariants, plans made and put in force, and processor seconds."""

    slices: int = 0
    violations: int = 0
    plannings: int = 0
    changes: int = 0
    seconds_deciding: float = 0.0
    seconds_planning: float = 0.0

    def add(self, other: Counts) -> None:
        """Adds what another loop has done.

        Examples
        --------
        >>> counts = Counts(slices=2)
        >>> counts.add(Counts(slices=3, changes=1))
        >>> counts.slices, counts.changes
        (5, 1)
        """
        for name, value in attrs.asdict(other).items():
            setattr(self, name, getattr(self, name) + value)

    def since(self, before: Counts) -> Counts:
        """Returns the work done since earlier counts.

        Examples
        --------
        >>> Counts(slices=5, changes=1).since(Counts(slices=2)).slices
        3
        """
        then = attrs.asdict(before)
        return Counts(**{name: value - then[name] for name, value in attrs.asdict(self).items()})


class Loop:
    """The plan in force, and all that is needed to change it; callers pass it the statistics of each slice.

    Parameters
    ----------
    problem : Problem
        The branch.
    algorithm : str
        "auto", "greedy", "dynamic" or "tree".
    adaptation : Adaptation
        When to plan anew.
    statistics : Statistics
        The statistics before the first slice, for which the first plan is made.

    Notes
    -----
    Algorithm 1 of Kolchinsky and Schuster (PVLDB 11(11), 2018).

    Examples
    --------
    >>> rates = {"a": 100, "b": 15, "c": 10}
    >>> loop = Loop(Problem.sequence("a", "b", "c"), "greedy", Adaptation(distance=0.0), Statistics(rates))
    >>> loop.plan.show("abc")
    'c, b, a'
    >>> loop.observe(Statistics({"a": 94})).show("abc")
    'c, b, a'
    >>> loop.observe(Statistics({"c": 16})).show("abc"), loop.violated.show("abc")
    ('b, c, a', 'c < b')
    >>> loop.counts.slices, loop.counts.violations, loop.counts.changes
    (2, 1, 1)
    """

    def __init__(
        self, problem: Problem, algorithm: str, adaptation: Adaptation, statistics: Statistics | None = None
    ) -> None:
        self.problem = problem
        self.statistics = Statistics() if statistics is None else statistics
        self.counts = Counts()
        self._generate = GENERATORS[algorithm_for(algorithm, problem)]
        self._decision = decision_for(adaptation)
        started = thread_time()
        self._expectation, recorder = Expectation(problem, self.statistics), Recorder()
        self.watch = Watch(self._expectation)
        made = self._generate(self._expectation, recorder)
        self.plan: Plan = made.plan
        self._decision.planned(made, recorder, self.plan, self._expectation)
        self.counts.seconds_planning += thread_time() - started

    @property
    def idle(self) -> bool:
        """Whether it plans only once, and so needs no statistics of slices."""
        return self._decision.idle

    @property
    def violated(self) -> Condition | None:
        """The invariant that was violated after the last slice, if one was."""
        return self._decision.violated

    @property
    def watched(self) -> Watched:
        """The checks by which a kernel can pass over slices that change nothing."""
        return self._decision.watched(self.plan, self.watch)

    def passed_over(self, slices: int, gains: Sequence[float] = ()) -> None:
        """Records slices after which no check requires planning anew.

        Parameters
        ----------
        slices : int
            Their number.
        gains : sequence of float
            For each of them, while the last change of plan is on trial, the share of the cost that the change saved.
        """
        self.counts.slices += slices
        self._decision.passed_over(slices, gains)

    def observe(self, statistics: Statistics) -> Plan:
        """Takes the statistics after a slice, and returns the plan that is in force from now on.

        Parameters
        ----------
        statistics : Statistics
            The current estimates. Statistics that they lack keep their values.

        Returns
        -------
        OrderPlan or TreePlan
        """
        self.counts.slices += 1
        if self._decision.idle:
            return self.plan
        started = thread_time()
        self.statistics = self.statistics.updated(statistics)
        expectation = self._expectation.renewed(self.statistics)
        wanted = self._decision.wants_plan(expectation, self.plan)
        decided = thread_time()
        self.counts.seconds_deciding += decided - started
        if wanted:
            self.counts.violations += self.violated is not None
            self._plan_anew(expectation)
            self.counts.seconds_planning += thread_time() - decided
        return self.plan

    def _plan_anew(self, expectation: Expectation) -> None:
        self.counts.plannings += 1
        recorder = Recorder()
        made = self._generate(expectation, recorder)
        if self._decision.accepts(made.plan, self.plan, expectation):
            self.plan = made.plan
            self.counts.changes += 1
        self._decision.planned(made, recorder, self.plan, expectation)

    def fresh(self) -> Loop:
        """Returns a loop for another key, which begins with this one's plan; nothing is planned for it."""
        other = copy(self)
        other.counts = Counts()
        other._decision = self._decision.fresh()
        return other


def slice_length(given: object, events: int) -> int:
    """Returns how many events a slice of the stream has, after which plans may change.

    Parameters
    ----------
    given : int or None
        What the user says. It may be more than there are events: then there is one slice, and one plan.
    events : int
        How many events there are, as far as is known.

    Returns
    -------
    int
        By default about a 256th of the events, from 1,000 to 100,000.

    Raises
    ------
    InvalidNode
        It is not a whole number from 1 up.

    Examples
    --------
    >>> slice_length(None, 1_000_000), slice_length(None, 10), slice_length(500, 10)
    (3906, 1000, 500)
    >>> slice_length(0, 10)
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: a slice has 0 events
      hint: write a whole number of events from 1 up
    """
    if given is None:
        return min(max(events // _SLICES, _SHORTEST), _LONGEST)
    return whole_from_one(given, f"a slice has {shown(given)} events", "write a whole number of events from 1 up")


class Pace:
    """Sets how long slices are, so that deciding after each of them costs little.

    If deciding and planning took more than a hundredth of the thread's processor time between two chunks of events,
    slices of later chunks become longer by the factor of the excess, up to 100,000 events. A length that the user gives
    never changes.

    Examples
    --------
    >>> seconds = iter([0, 1, 2]).__next__
    >>> pace = Pace(None, seconds)
    >>> for spent in (0.0, 0.03, 0.005):
    ...     pace.chunk(spent)
    ...     print(pace.lengths(np.array([0, 500_000])).tolist())
    [1000, 1953]
    [3000, 5859]
    [3000, 5859]
    """

    def __init__(self, given: int | None, clock: Callable[[], float] = thread_time) -> None:
        self._given = given
        self._clock = clock
        self._since: float | None = None
        self._stretch = 1.0

    def chunk(self, spent: float) -> None:
        """Begins a chunk; deciding and planning took ``spent`` seconds of the time since the last one began."""
        now = self._clock()
        if self._since is not None and spent > _SHARE * (now - self._since):
            self._stretch = min(self._stretch * spent / (_SHARE * max(now - self._since, spent)), _LONGEST / _SHORTEST)
        self._since = now

    def lengths(self, events: np.ndarray) -> np.ndarray:
        """Returns the lengths of slices of keys, by their known numbers of events: int64 arrays of one shape."""
        if self._given is not None:
            return np.full_like(events, slice_length(self._given, 0))
        lengths = np.clip(events // _SLICES, _SHORTEST, _LONGEST)
        stretched: np.ndarray = np.minimum(np.round(lengths * self._stretch), _LONGEST).astype(np.int64)
        return stretched
