"""Exchange: rows put where, and in the order in which, the operator above requires them."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Operator, Requirement, Step, Unary


@attrs.frozen
class Exchange(Unary):
    """Projects, copies, shuffles and sorts the rows of its child as the operator above requires it."""

    gives_rows: Requirement
    only_batch = None

    def steps(self) -> tuple[Step, ...]:
        return self.gives_rows.steps(self.child)


def with_exchanges(plan: Operator) -> Operator:
    """The plan with an exchange wherever an operator requires something of rows that no exchange gives yet."""
    children: list[Operator] = []
    for child, needed in zip(map(with_exchanges, plan.children), plan.requires, strict=True):
        below = child.child if isinstance(child, Exchange) else child
        children.append(child if needed is None else Exchange(below, needed))
    return plan if tuple(children) == plan.children else plan.with_children(tuple(children))
