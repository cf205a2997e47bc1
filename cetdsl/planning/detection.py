"""Plans how the trends of a query are put together: its branches, the problem of each, and the choice of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from cetdsl.detection.cost import Expectation
from cetdsl.detection.decisions import Adaptation, given_adaptation
from cetdsl.detection.generators import GENERATORS, Comparator, algorithm_for
from cetdsl.detection.loop import slice_length
from cetdsl.detection.plans import OrderPlan, Plan, Problem, Variable, given_orders, given_tree, pattern_order
from cetdsl.detection.statistics import Statistics, given_statistics
from cetdsl.errors import InvalidNode, check_choice, is_one_of, nearest, shown
from cetdsl.ir.branches import Adapting, Branch, Slot, branches_of
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.machine import Pair
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SPAN, WHOLE
from cetdsl.pattern.nodes import Pattern, events, positive_events

#: What ``plan=`` may be, beside a list of variables, or of pairs of them.
PLANS = ("auto", "pattern", "greedy", "dynamic", "tree")
#: What ``algorithm=`` may be: the kernel or Spark's joins put trends together; "auto" is the kernel.
ALGORITHMS = ("auto", "kernel", "joins")
#: The planner prefers an order to that of the pattern if it expects so many times fewer partial matches.
CLEARLY = 2.0
_MICROSECONDS = 1e6
_ORDERS = ("<", "<=", ">", ">=")


#: The word for statistics that are taken before planning.
SAMPLED = "sample"
_KNOWN = "write statistics='sample', or a mapping of rates and selectivities"
#: The plan stays.
STATIC = Adaptation("static")
#: What a mapping given as ``adaptation=`` may hold.
_ADAPTATION = ("method", "threshold", "distance", "most", "slice")


@attrs.frozen
class Detection:
    """The user's request for the plans that put trends together, and known statistics of the events.

    ``plan`` is one of :data:`PLANS`, or names all variables: in a row for an order, in nested pairs for a tree.

    ``adaptation`` says when plans change; ``slice_events`` is the number of events of a key after which it is asked.
    ``algorithm`` is one of :data:`ALGORITHMS`.
    """

    plan: str | tuple[Any, ...] = "auto"
    statistics: Statistics | None = None
    adaptation: Adaptation = STATIC
    slice_events: int | None = None
    algorithm: str = "auto"
    #: Whether the statistics are of a sample, which is taken before planning.
    sampled: bool = False

    @property
    def adapts(self) -> bool:
        """Whether plans may change while events are read."""
        return self.adaptation != STATIC


#: What is done where a user says nothing.
BY_DEFAULT = Detection()


def given_detection(
    pattern: Pattern,
    plan: object = "auto",
    statistics: object = None,
    adaptation: object = None,
    algorithm: object = "auto",
) -> Detection:
    """Checks and returns a user's request for how trends are put together.

    Raises
    ------
    InvalidNode
        There is no such plan or algorithm; the plan leaves out, repeats or negates a variable; the statistics or the
        adaptation are no such objects; or the adaptation would change a plan that is given.
    UnknownVariable
        The pattern has no such variable.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Seq
    >>> given_detection(Seq([Event("A"), Event("B")]), ["B", "A"]).plan
    ('B', 'A')
    >>> given_detection(Seq([Event("A"), Event("B")]), "greddy")
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: no plan 'greddy'
      hint: did you mean 'greedy'?
    """
    road = check_algorithm(algorithm)
    positive = tuple(dict.fromkeys(event.variable for event in positive_events(pattern)))
    negated = {event.variable for event in events(pattern)} - set(positive)
    sampled = is_one_of(statistics, (SAMPLED,))
    if isinstance(statistics, str) and not sampled:
        raise InvalidNode(f"there are no statistics {shown(statistics)}", hint=nearest(statistics, (SAMPLED,), _KNOWN))
    known = None if statistics is None or sampled else given_statistics(statistics, positive, negated)
    if isinstance(plan, str):
        check_choice("plan", plan, PLANS, f"choose one of {', '.join(PLANS)}, or write a list of all variables")
        asked = Detection(plan, known, *_given_adaptation(adaptation), road)
    else:
        given = given_tree if _is_tree(plan) else given_orders
        given(plan, [Problem.conjunction(*positive)], negated)
        assert isinstance(plan, Sequence), plan
        asked = Detection(_frozen(plan), known, *_given_adaptation(adaptation), road)
    if asked.adapts and asked.plan not in ("auto", *GENERATORS):
        raise InvalidNode(
            f"the plan {shown(plan)} is given, and the adaptation would change it",
            hint="leave the adaptation out, or write plan='greedy', plan='dynamic' or plan='tree'",
        )
    return attrs.evolve(asked, sampled=sampled)


def check_algorithm(algorithm: object) -> str:
    """Checks and returns the algorithm that a user requests for putting trends together.

    Raises
    ------
    InvalidNode
        There is no such algorithm.
    """
    check_choice("algorithm", algorithm, ALGORITHMS)
    return str(algorithm)


def _given_adaptation(given: object) -> tuple[Adaptation, int | None]:
    """Returns the rule for when to plan anew, and how many events of a key a slice has."""
    if given is None:
        return STATIC, None
    if not isinstance(given, Mapping):
        return given_adaptation(given), None
    for key in given:
        if not is_one_of(key, _ADAPTATION):
            every = f"write some of {', '.join(map(repr, _ADAPTATION))}"
            hint = nearest(key, _ADAPTATION, every) if isinstance(key, str) else every
            raise InvalidNode(f"an adaptation has no {shown(key)}", hint=hint)
    options = {str(key): value for key, value in given.items()}
    events = options.pop("slice", None)
    length = None if events is None else slice_length(events, 0)
    return given_adaptation(options.pop("method", "invariants"), **options), length


def why_no_orders(compiled: Compiled, branches: Sequence[Branch]) -> str | None:
    """Returns why the branches of a query cannot be put together in any order; None when they can."""
    if not branches:
        return "no trend is possible"
    looking = {number for number, negation in enumerate(compiled.negations) if negation.looks_at_trend}
    for branch in branches:
        variables = [slot.variable for slot in branch.slots]
        for variable in variables:
            if variables.count(variable) > 1:
                return f"{compiled.name_of(variable)} stands at two places of the pattern"
        if any(slot.inner is not None and looking.intersection(slot.inner.guards) for slot in branch.slots):
            return "a NOT between repetitions depends on which events the trend binds"
    return None


def branches_to_order(compiled: Compiled) -> tuple[Branch, ...] | str:
    """Returns the branches of a query that can be put together in any order; or why there are none."""
    found = branches_of(compiled.machine)
    if isinstance(found, str):
        return found
    return why_no_orders(compiled, found) or found


def problem_of(branch: Branch, compiled: Compiled, source: Source) -> Problem:
    """Returns the planning problem of a branch.

    Rates are per second, or per tick where the time is a whole number; without windows they are numbers of events.
    """
    slots = branch.slots
    place = {slot.variable: position for position, slot in enumerate(slots)}
    predicates, adjacent = set(), set()
    for pair in compiled.pairs:
        if pair.left_variable in place and pair.right_variable in place:
            one, other = place[pair.left_variable], place[pair.right_variable]
            predicates.add((min(one, other), max(one, other)))
    for position, between in enumerate(branch.between):
        if between is not None and (between.comparisons or between.listed):
            adjacent.add((position, position + 1))
    for position, slot in enumerate(slots):
        if slot.inner is not None and slot.kleene and (slot.inner.comparisons or slot.inner.listed):
            adjacent.add((position, position))
    windowing = source.windowing
    unit = unit_of_rates(source)
    return Problem(
        tuple(Variable(compiled.name_of(slot.variable), slot.at_least, slot.at_most, monotone(slot)) for slot in slots),
        branch.ordered,
        frozenset(predicates),
        frozenset(adjacent - predicates),
        None if windowing.kind == WHOLE else windowing.length / unit,
        windowing.kind == SPAN,
        _rising(branch, compiled.pairs, place),
    )


def monotone(slot: Slot) -> int:
    """Returns how many attributes must rise, or must fall, from each event of a Kleene slot's set to the next."""
    if slot.inner is None or not slot.kleene:
        return 0
    return len({one.later for one in slot.inner.comparisons if one.op in _ORDERS and one.earlier == one.later})


def _rising(branch: Branch, pairs: Sequence[Pair], place: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    """Returns the chains of variables along which the predicates make an attribute rise.

    A chain has at least three variables, each of which binds one event. It ends at a variable that predicates place
    directly below several others, and begins at one that they place directly above several.
    """
    below: set[tuple[tuple[int, int], tuple[int, int]]] = set()  # (variable, column), (variable, column)
    for slot, between in enumerate(branch.between):
        for one in between.comparisons if between else ():
            sides = (slot, one.earlier), (slot + 1, one.later)
            if one.op in _ORDERS:
                below.add(sides if one.op.startswith(">") else sides[::-1])
    for pair in pairs:
        if pair.op in _ORDERS and pair.left_variable in place and pair.right_variable in place:
            sides = (place[pair.left_variable], pair.left), (place[pair.right_variable], pair.right)
            below.add(sides if pair.op.startswith("<") else sides[::-1])
    below = {sides for sides in below if not any(branch.slots[slot].kleene for slot, _ in sides)}
    sources, targets = Counter(source for source, _ in below), Counter(target for _, target in below)
    following = {a: b for a, b in below if sources[a] == targets[b] == 1}
    chains = []
    for begin in sorted(set(following) - set(following.values())):
        chain = [begin]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        chains.append(tuple(slot for slot, _ in chain))
    return tuple(chain for chain in chains if len(chain) > 2)


def why_no_plan(asked: Detection) -> str | None:
    """Returns why the request leaves the order of the pattern in place for any query; None if plans may change it."""
    if asked.plan == "pattern":
        return "the order of the pattern is asked for"
    if asked.plan == "auto" and asked.statistics is None and not asked.adapts:
        return "no statistics say that another order than the pattern's is cheaper"
    return None


def unit_of_rates(source: Source) -> float:
    """Returns the length of the unit of time in which rates are given, in the unit of the time column."""
    return _MICROSECONDS if source.time_type.startswith("timestamp") else 1.0


def adapting_for(asked: Detection, problem: Problem, source: Source) -> Adapting:
    """Returns how the plan of a branch changes."""
    algorithm = asked.plan if isinstance(asked.plan, str) and asked.plan != "pattern" else "auto"
    known = asked.statistics or Statistics()
    return Adapting(problem, algorithm, asked.adaptation, known, unit_of_rates(source), asked.slice_events)


def plans_for(asked: Detection, problems: Sequence[Problem]) -> tuple[Plan, ...] | str:
    """Chooses a plan for each branch; or returns the reason why the pattern's own order is taken."""
    if _is_tree(asked.plan):
        return given_tree(asked.plan, problems)
    if not isinstance(asked.plan, str):
        return tuple(_in_order(asked.plan, problem) for problem in problems)
    known = [Expectation(problem, asked.statistics or Statistics()) for problem in problems]
    chosen = [_chosen(asked.plan, expectation) for expectation in known]
    if asked.plan == "auto" and not asked.adapts:
        own = sum(expectation.cost(pattern_order(expectation.problem)) for expectation in known)
        if sum(expectation.cost(plan) for expectation, plan in zip(known, chosen)) * CLEARLY > own:
            return "the statistics say that no order is clearly cheaper than the pattern's"
    return tuple(chosen)


def _is_tree(plan: object) -> bool:
    return isinstance(plan, (list, tuple)) and any(isinstance(part, (list, tuple)) for part in plan)


def _frozen(plan: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_frozen(part) if isinstance(part, (list, tuple)) else part for part in plan)


def _chosen(algorithm: str, expectation: Expectation) -> Plan:
    return GENERATORS[algorithm_for(algorithm, expectation.problem)](expectation, Comparator()).plan


def _in_order(names: tuple[str, ...], problem: Problem) -> OrderPlan:
    return OrderPlan(tuple(problem.names.index(name) for name in names if name in problem.names))
