"""detect: puts trends together in a planned order of their variables."""

from __future__ import annotations

import attrs

from cetdsl.ir.branches import BranchOrder
from cetdsl.ir.operators import DetectTrends, ListTrends, Operator
from cetdsl.ir.operators.detect_trends import Planned
from cetdsl.planning.detection import branches_to_order, orders_for, problem_of, why_no_plan
from cetdsl.planning.strategies.enumerate import list_trends
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of


def detect(request: TrendsRequest) -> Operator | Declined:
    """Lists trends branch by branch, each in an order that a plan says, with an index per step."""
    asked = request.detection
    reason = why_no_plan(asked)
    if reason is not None:
        return Declined(reason)
    if len(request.compiled) != 1:
        return Declined("AND at the top pairs the trends of both sides")
    compiled = request.compiled[0]
    branches = branches_to_order(compiled)
    if isinstance(branches, str):
        return Declined(branches)
    source = source_of(request.resolved)
    problems = tuple(problem_of(branch, compiled, source) for branch in branches)
    orders = orders_for(asked, problems)
    if isinstance(orders, str):
        return Declined(orders)
    plans = tuple(BranchOrder(branch, plan.order) for branch, plan in zip(branches, orders, strict=True))
    return _with_plan(list_trends(request), plans, Planned(problems, orders, asked.plan, asked.statistics))


def _with_plan(operator: Operator, plans: tuple[BranchOrder, ...], planned: Planned) -> Operator:
    """Puts a listing in planned orders in the place of one in the order of the pattern."""
    if type(operator) is ListTrends:
        fields = {field.name: getattr(operator, field.name) for field in attrs.fields(ListTrends)}
        return DetectTrends(**fields, plans=plans, planned=planned)
    return operator.with_children(tuple(_with_plan(child, plans, planned) for child in operator.children))
