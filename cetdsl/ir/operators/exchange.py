"""Exchange: rows put where, and in the order in which, the operator above requires them."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators.operator import Operator, Requirement, Step, Unary
from cetdsl.ir.operators.words import in_order, pair_of_rows, projected, shuffle
from cetdsl.ir.source import kernel_sorts_shares
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.text import quote_name


@attrs.frozen
class EventsInOrder(Requirement):
    """The events of a key in one task, in order of time.

    Attributes
    ----------
    spec : KernelSpec
    values : tuple of Expr
        What is aggregated of each event.
    columns : tuple of str or None
        The user's columns of each event that are shown; None: no events are.
    identified : bool
        Whether each event gets a number that tells it from all others.
    shared : bool
        Whether as many tasks as there are cores get all events of a key, each with the number of its share.
    settled : bool
        Whether simultaneous events have an order that is the same whenever the rows are computed.
    in_panes : bool
        Whether events go to tasks by key and pane.
    """

    spec: KernelSpec
    values: tuple[Expr, ...] = ()
    columns: tuple[str, ...] | None = None
    identified: bool = False
    shared: bool = False
    settled: bool = False
    in_panes: bool = False

    def steps(self, below: Operator) -> tuple[Step, ...]:
        source, compiled, steps = below.source, below.compiled, []
        lines = projected(source, compiled, self.values)
        if self.columns is not None:
            lines.append("event: " + (", ".join(self.columns) or "no columns"))
        steps.append(Step("project", tuple(lines)))
        if compiled.lists:
            terms = (f"{pair_of_rows(term, 'e', 'e')} (e: the event)" for term in compiled.lists)
            steps.append(Step("list which earlier event may precede", tuple(terms)))
        keys = list(map(quote_name, source.keys)) + (["time bucket"] if source.windowing.cut else [])
        if self.in_panes:
            keys.append("pane")
        if self.shared:
            steps.append(Step("copy to every share, one per core"))
            keys.insert(len(source.keys), "share")
        by_kernel = self.shared and kernel_sorts_shares(source, compiled)
        return (*steps, Step(shuffle(keys)), Step(in_order(source, keys), ("by the kernel",) if by_kernel else ()))


@attrs.frozen
class RowsInOrder(Requirement):
    """The rows of an earlier stage that agree in some columns in one task, in order.

    Attributes
    ----------
    by : tuple of str
        Our names of these columns.
    order : tuple of str
        What orders the rows that agree in them, as SQL.
    select : tuple of str
        The columns to take along, as SQL; empty: all.
    said : tuple of Step
    """

    by: tuple[str, ...]
    order: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    said: tuple[Step, ...] = ()

    def steps(self, below: Operator) -> tuple[Step, ...]:
        return self.said


@attrs.frozen
class Exchange(Unary):
    """Projects, copies, shuffles and sorts the rows of its child as the operator above requires it."""

    gives_rows: Requirement

    def steps(self) -> tuple[Step, ...]:
        return self.gives_rows.steps(self.child)


def with_exchanges(plan: Operator) -> Operator:
    """The plan with an exchange wherever an operator requires something of rows that no exchange gives yet."""
    pairs = zip(map(with_exchanges, plan.children), plan.requires, strict=True)
    children = tuple(child if needed is None else _exchanged(child, needed) for child, needed in pairs)
    return plan if children == plan.children else plan.with_children(children)


def _exchanged(child: Operator, needed: Requirement) -> Exchange:
    below = child.child if isinstance(child, Exchange) else child
    return Exchange(below, needed)
