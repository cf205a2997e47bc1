"""AnswerTogether: combines the answers of many queries, from some passes and from plans of their own."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Operator
from cetdsl.ir.operators.propagate_together import PropagateTogether
from cetdsl.ir.sharing import CALIBRATED, Member, Sharing


@attrs.frozen
class Alone:
    """A query that no pass can take, with a plan and strategy of its own, and the reason."""

    name: str
    plan: Operator
    strategy: str
    reason: str
    groups: tuple[str, ...]

    @property
    def sliding(self) -> bool:
        """Whether its windows slide."""
        return bool(self.plan.source.window)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its aggregates."""
        return self.plan.gives[len(self.groups) + self.sliding :]


@attrs.frozen
class AnswerTogether(Operator):
    """Puts the answers beside each other: ``query``, ``group``, ``window`` and the union of the aggregates.

    It is the root of a workload's plan. Its answer may be taken apart by query.
    """

    passes: tuple[Operator, ...]
    alone: tuple[Alone, ...]
    sharing: Sharing

    @property
    def children(self) -> tuple[Operator, ...]:
        return (*self.passes, *(one.plan for one in self.alone))

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        passes, plans = children[: len(self.passes)], children[len(self.passes) :]
        alone = (attrs.evolve(one, plan=plan) for one, plan in zip(self.alone, plans, strict=True))
        return attrs.evolve(self, passes=passes, alone=tuple(alone))

    @property
    def together(self) -> tuple[PropagateTogether, ...]:
        """The operators that answer the queries of each pass."""
        return tuple(each for one in self.passes for each in one.walk() if isinstance(each, PropagateTogether))

    @property
    def gives(self) -> tuple[str, ...]:
        queries: list[Member | Alone] = [*(member for one in self.together for member in one.members), *self.alone]
        group = ["group"] if any(one.groups for one in queries) else []
        window = ["window"] if any(one.sliding for one in queries) else []
        return ("query", *group, *window, *dict.fromkeys(name for one in queries for name in one.outputs))

    def facts(self) -> tuple[tuple[str, str], ...]:
        shares = self.sharing.deviations.items()
        return (
            ("sharing", self.sharing.mode),
            *([("cost model", self.sharing.cost_model)] if self.sharing.cost_model != CALIBRATED else ()),
            *(("deviation", f"{name}: {part:.1%}, as given") for name, part in shares),
            *((f"pass {number}", words.some(one.queries)) for number, one in enumerate(self.together, 1)),
            *((f"{one.name} alone", f"{one.strategy}: {one.reason}") for one in self.alone),
        )
