"""detect: puts trends together in a planned order of their variables."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from cetdsl.detection.plans import pattern_order
from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.operators import DetectTrends, ListTrends, MeasureDetection, Operator, SampleDetection, Scan
from cetdsl.ir.operators.detect_trends import Planned
from cetdsl.ir.source import Source
from cetdsl.planning.detection import Detection, adapting_for, plans_for, problem_of, why_no_plan
from cetdsl.planning.strategies.enumerate import list_as_compiled
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of
from cetdsl.planning.strategies.subject import Subject, subject_of


def detect(request: TrendsRequest) -> Operator | Declined:
    """Lists trends branch by branch, each in the order of a plan, with an index per step."""
    reason = why_no_plan(request.detection)
    if reason is not None and request.detection.plan == "auto":
        return Declined(reason)
    return _planned(request)


def _planned(request: TrendsRequest) -> Operator | Declined:
    return by_plans(request, lambda subject: list_as_compiled(subject.request))


def by_plans(request: TrendsRequest, listing: Callable[[Subject], Operator]) -> Operator | Declined:
    """Chooses a plan for each branch of a request; in the listing, the plans replace the order of the pattern."""
    asked = request.detection
    reason = why_no_plan(asked)
    if reason is not None and len(request.compiled) == 1:
        return Declined(reason)
    subject = subject_of(request)
    if isinstance(subject, str):
        return Declined(subject)
    source = _uncut(source_of(request.resolved), asked)
    problems = tuple(problem_of(branch, subject.compiled, source) for branch in subject.branches)
    chosen = plans_for(asked, problems) if asked.plan != "pattern" else ""
    if isinstance(chosen, str):
        if not subject.is_conjunction:
            return Declined(chosen)
        # For an AND the order of the pattern serves as a plan: other strategies list all trends of each side first.
        chosen = tuple(map(pattern_order, problems))
    plans = tuple(
        BranchPlan(branch, plan, adapting_for(asked, problem, source) if asked.adapts else None)
        for branch, plan, problem in zip(subject.branches, chosen, problems, strict=True)
    )
    planned = Planned(problems, chosen, asked.plan, asked.statistics, asked.sampled)
    return with_plan(listing(subject), source, plans, planned)


def _uncut(source: Source, asked: Detection) -> Source:
    """Returns the source without time buckets if plans adapt: they predict later events of a key from earlier ones.

    A stream needs its time buckets: only their events are ever complete.
    """
    if not asked.adapts or source.is_stream:
        return source
    return attrs.evolve(source, windowing=attrs.evolve(source.windowing, cut=0))


def measure(request: TrendsRequest) -> MeasureDetection | Declined:
    """Puts trends together as :func:`detect` does, and reports the work for each slice of a key."""
    found = _planned(request)
    if isinstance(found, Declined):
        return found
    plan = next(operator for operator in found.walk() if isinstance(operator, DetectTrends))
    source = attrs.evolve(plan.source, windowing=attrs.evolve(plan.source.windowing, cut=0))
    plans = tuple(
        attrs.evolve(one, adapting=one.adapting or adapting_for(request.detection, problem, source))
        for one, problem in zip(plan.plans, plan.planned.problems, strict=True)
    )
    return MeasureDetection(Scan(source, plan.compiled), base_spec(source, plan.compiled), plans)


def sample(request: TrendsRequest) -> SampleDetection | Declined:
    """Takes statistics of the events, even if the user gave some; declines if no order can be chosen."""
    asked = attrs.evolve(request.detection, plan="greedy", statistics=None)
    found = measure(attrs.evolve(request, detection=asked))
    return found if isinstance(found, Declined) else SampleDetection(found.child, found.spec, found.plans)


def with_plan(
    operator: Operator,
    source: Source,
    plans: tuple[BranchPlan, ...],
    planned: Planned,
    kind: type[DetectTrends] = DetectTrends,
) -> Operator:
    """Replaces the listing in the order of the pattern, in a tree of operators, by a listing in planned orders."""
    if type(operator) is not ListTrends:
        children = tuple(with_plan(child, source, plans, planned, kind) for child in operator.children)
        return operator.with_children(children)
    fields = {field.name: getattr(operator, field.name) for field in attrs.fields(ListTrends)}
    compiled = operator.compiled
    fields |= {"child": Scan(source, compiled), "spec": base_spec(source, compiled)}
    return kind(**fields, plans=plans, planned=planned)
