"""Exchange: sends rows to the tasks, and in the order, that the operator above requires."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Operator, Requirement, Step, Unary


@attrs.frozen
class Exchange(Unary):
    """Projects, copies, shuffles and sorts the rows of its child as the operator above requires."""

    gives_rows: Requirement
    only_batch = None

    def steps(self) -> tuple[Step, ...]:
        return self.gives_rows.steps(self.child)


def with_exchanges(plan: Operator) -> Operator:
    """Returns the plan with an exchange below each operator whose requirement on rows no exchange fulfils yet."""
    children: list[Operator] = []
    for child, needed in zip(map(with_exchanges, plan.children), plan.requires, strict=True):
        below = child.child if isinstance(child, Exchange) else child
        children.append(child if needed is None else Exchange(below, needed))
    return plan if tuple(children) == plan.children else plan.with_children(tuple(children))
