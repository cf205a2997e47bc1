"""joins: puts trends together by Spark's joins, in a planned order of their variables."""

from __future__ import annotations

from cetdsl.detection.plans import OrderPlan, pattern_order
from cetdsl.ir.branches import BranchPlan, branches_of
from cetdsl.ir.operators import JoinEvents, Operator
from cetdsl.ir.operators.detect_trends import Planned
from cetdsl.planning.detection import branches_to_order, plans_for, problem_of
from cetdsl.planning.strategies.detect import with_plan
from cetdsl.planning.strategies.enumerate import list_trends
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of


def join_events(request: TrendsRequest) -> Operator | Declined:
    """Lists trends branch by branch, with a join of DataFrames for each event of a trend."""
    asked = request.detection
    if asked.adapts:
        return Declined("joins keep their order, and the adaptation would change it")
    if len(request.compiled) != 1:
        return Declined("AND at the top pairs the trends of both sides")
    compiled = request.compiled[0]
    branches = branches_to_order(compiled)
    if isinstance(branches, str):
        return Declined(branches)
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
    return with_plan(list_trends(request), source, plans, planned, JoinEvents)
