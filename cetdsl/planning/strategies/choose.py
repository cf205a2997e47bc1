"""choose: puts trends together in an order chosen from a sample of the events, or by a search without dead ends."""

from __future__ import annotations

from cetdsl.detection.plans import pattern_order
from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.operators import ChooseTrends, MeasureChoice, Operator, Scan
from cetdsl.ir.operators.detect_trends import Planned
from cetdsl.planning.detection import adapting_for, problem_of
from cetdsl.planning.strategies.detect import with_plan
from cetdsl.planning.strategies.enumerate import list_as_compiled
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of
from cetdsl.planning.strategies.subject import subject_of


def choose(request: TrendsRequest) -> Operator | Declined:
    """Lists trends one part of the events after the other; the kernel chooses an order of variables for each part."""
    asked = request.detection
    if asked.plan != "auto" or asked.statistics is not None or asked.adapts:
        return Declined("a plan, or what it goes by, is given")
    subject = subject_of(request)
    if isinstance(subject, str):
        return Declined(subject)
    if all(len(branch.slots) == 1 for branch in subject.branches):
        return Declined("a single event is in no order")
    source = source_of(request.resolved)
    if not subject.is_conjunction and any(slot.kleene for branch in subject.branches for slot in branch.slots):
        # The loop of that search over chains of events takes half the time per set of the search in an order.
        return Declined("sets of events are listed faster by a search that enters no dead ends")
    problems = tuple(problem_of(branch, subject.compiled, source) for branch in subject.branches)
    orders = tuple(map(pattern_order, problems))
    plans = tuple(
        BranchPlan(branch, order, adapting_for(asked, problem, source))
        for branch, order, problem in zip(subject.branches, orders, problems, strict=True)
    )
    planned = Planned(problems, orders, asked.plan)
    return with_plan(list_as_compiled(subject.request), source, plans, planned, ChooseTrends)


def measure_choice(request: TrendsRequest) -> MeasureChoice | Declined:
    """Puts trends together as :func:`choose` does, and reports the orders in which that was done."""
    found = choose(request)
    if isinstance(found, Declined):
        return found
    plan = next(operator for operator in found.walk() if isinstance(operator, ChooseTrends))
    return MeasureChoice(Scan(plan.source, plan.compiled), plan.spec, plan.plans)
