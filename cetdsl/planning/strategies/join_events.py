"""joins: puts trends together by Spark's joins, in a planned order of their variables."""

from __future__ import annotations

from cetdsl.detection.plans import OrderPlan, pattern_order
from cetdsl.ir.branches import BranchPlan, branches_of
from cetdsl.ir.operators import JoinEvents, Operator
from cetdsl.ir.operators.detect_trends import Planned
from cetdsl.planning.detection import plans_for, problem_of
from cetdsl.planning.strategies.detect import with_plan
from cetdsl.planning.strategies.enumerate import list_as_compiled, with_lists
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of
from cetdsl.planning.strategies.subject import subject_of


def join_events(request: TrendsRequest) -> Operator | Declined:
    """Lists trends branch by branch, with a join of DataFrames for each event of a trend."""
    asked = request.detection
    if asked.adapts:
        return Declined("joins keep their order, and the adaptation would change it")
    subject = subject_of(request)
    if isinstance(subject, str):
        return Declined(subject)
    compiled, branches = subject.compiled, subject.branches
    for number, negation in enumerate(compiled.negations):
        if negation.deferred:
            return Declined("a predicate of NOT compares more than a term of one variable with a term of another")
        within = branches_of(negation.machine)
        if isinstance(within, str):
            return Declined(f"NOT number {number + 1} has {within}")
    source = source_of(request.resolved)
    problems = tuple(problem_of(branch, compiled, source) for branch in branches)
    own = tuple(map(pattern_order, problems))
    chosen = own if asked.plan == "pattern" else plans_for(asked, problems)
    chosen = own if isinstance(chosen, str) else chosen
    if not all(isinstance(plan, OrderPlan) for plan in chosen):
        return Declined("joins add event after event, and a tree joins partial matches")
    plans = tuple(map(BranchPlan, branches, chosen))
    planned = Planned(problems, chosen, asked.plan, asked.statistics, asked.sampled)
    return with_plan(list_as_compiled(with_lists(subject.request)), source, plans, planned, JoinEvents)
