"""The subject of detection plans: a query of one automaton, and the branches of this automaton, even for an AND."""

from __future__ import annotations

import attrs

from cetdsl.analysis.classify import PredicateClass, shape
from cetdsl.ir.branches import Branch, branches_of, conjunctions_of
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.nodes import And, events
from cetdsl.pattern.properties import has_sides_apart, positive_variables, sides
from cetdsl.pattern.query import ANY
from cetdsl.planning.compile import compile_query, joint_query
from cetdsl.planning.detection import branches_to_order, why_no_orders
from cetdsl.planning.strategies.request import TrendsRequest, windowing_of


@attrs.frozen
class Subject:
    """A request about a query of one automaton, and the branches of its pattern; each trend belongs to exactly one."""

    request: TrendsRequest
    branches: tuple[Branch, ...]

    @property
    def compiled(self) -> Compiled:
        """The query in numbers."""
        (compiled,) = self.request.compiled
        return compiled

    @property
    def is_conjunction(self) -> bool:
        """Whether the pattern is an AND, so that branches have sequences side by side."""
        return any(len(branch.sequences) > 1 for branch in self.branches)


def subject_of(request: TrendsRequest) -> Subject | str:
    """Returns the subject of a request's plans; or why there can be no plans.

    An AND is compiled as an OR of its sides, so that each path through the automaton belongs to one side. A branch of
    the AND consists of one path of each side.
    """
    resolved = request.resolved
    pattern = resolved.query.pattern
    if resolved.query.matching != ANY:
        return f"a plan binds events in other orders than that of time, and not by MATCHING {resolved.query.matching}"
    if not isinstance(pattern, And):
        branches = branches_to_order(request.compiled[0])
        return branches if isinstance(branches, str) else Subject(request, branches)
    reason = _why_not_joined(pattern)
    if reason is None and any(shape(predicate) is PredicateClass.AGGREGATE for predicate in resolved.query.where):
        reason = "a predicate aggregates over a side of AND"
    if reason is not None:
        return reason
    joint = joint_query(resolved)
    compiled = compile_query(joint)
    if compiled.deferred:
        return "a predicate of NOT, in a side of AND, compares more than a term of one variable with a term of another"
    ways = branches_of(compiled.machine)
    if isinstance(ways, str):
        return ways
    numbers = [set(map(compiled.number_of, positive_variables(side))) for side in sides(pattern)]
    found = conjunctions_of(ways, numbers)
    if isinstance(found, str):
        return found
    if windowing_of(resolved.query.window).kind == SPAN and any(any(branch.end) for branch in found):
        # The gap of such a NOT ends a span behind the first event of its side, and so up to two spans behind the first
        # event of all sides.
        return "a NOT ends a side of AND, and a span bounds all sides"
    return why_no_orders(compiled, found) or Subject(attrs.evolve(request, resolved=joint, compiled=(compiled,)), found)


def _why_not_joined(pattern: And) -> str | None:
    """Returns why plans cannot join the sides of an AND, whatever the predicates; None if they can."""
    if not has_sides_apart(pattern):
        return "both sides of AND share a variable"
    names = [name for side in pattern.parts for name in {event.variable for event in events(side)}]
    if len(names) > len(set(names)):
        return "a variable under NOT stands on several sides of AND"
    return None
