"""choose: puts trends together in an order that a sample of the events says, or enters no dead ends."""

from __future__ import annotations

from cetdsl.detection.plans import pattern_order
from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.operators import ChooseTrends, Operator
from cetdsl.ir.operators.detect_trends import Planned
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SPAN
from cetdsl.planning.detection import ORDERS, adapting_for, problem_of
from cetdsl.planning.strategies.detect import with_plan
from cetdsl.planning.strategies.enumerate import list_trends
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of
from cetdsl.planning.strategies.subject import Subject, subject_of


def choose(request: TrendsRequest) -> Operator | Declined:
    """Lists trends part by part of the events, in an order for that part."""
    asked = request.detection
    if asked.plan != "auto" or asked.statistics is not None or asked.adapts:
        return Declined("a plan, or what it goes by, is given")
    subject = subject_of(request)
    if isinstance(subject, str):
        return Declined(subject)
    if not any(len(branch.slots) > 1 or branch.slots[0].kleene for branch in subject.branches):
        return Declined("a single event is in no order")
    source = source_of(request.resolved)
    reason = _why_no_sets(subject, source)
    if reason is not None:
        return Declined(reason)
    problems = tuple(problem_of(branch, subject.compiled, source) for branch in subject.branches)
    orders = tuple(map(pattern_order, problems))
    plans = tuple(
        BranchPlan(branch, order, adapting_for(asked, problem, source))
        for branch, order, problem in zip(subject.branches, orders, problems, strict=True)
    )
    planned = Planned(problems, orders, asked.plan)
    return with_plan(list_trends(subject.request), source, plans, planned, ChooseTrends)


def _why_no_sets(subject: Subject, source: Source) -> str | None:
    """Returns why a variable with Kleene is better left to the search that enters no dead ends; None where it is not.

    That search passes once over a window before it lists anything, but with a span once over all that is behind each
    event that a trend may begin with. So only with a span it takes longer than an order that lists as many sets; and
    not where it leads from event to event of a set as fast, or faster.
    """
    slots = [slot for branch in subject.branches for slot in branch.slots if slot.kleene]
    if not slots or subject.is_conjunction:
        return None
    if source.windowing.kind != SPAN:
        return "sets within windows are listed faster by a search that passes over each window once"
    if subject.compiled.negations:
        return "sets that a NOT guards are listed faster by a search that enters no dead ends"
    if any(one.op in ORDERS for slot in slots if slot.inner for one in slot.inner.comparisons):
        return "sets that rise or fall are listed faster by a search that enters no dead ends"
    return None
