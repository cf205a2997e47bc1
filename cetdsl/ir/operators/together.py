"""The base classes of operators that answer many queries: some in common passes, the others by plans of their own."""

from __future__ import annotations

from typing import Protocol

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Operator


@attrs.frozen
class Alone:
    """A query that no pass can take, with a plan and strategy of its own, and the reason."""

    name: str
    plan: Operator
    strategy: str
    reason: str

    @property
    def sliding(self) -> bool:
        """Whether its answers are distinguished by windows."""
        return bool(self.plan.source.window)


class OfMany(Protocol):
    """An operator that answers many queries."""

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries."""


@attrs.frozen
class Together(Operator):
    """Base of the root of a workload's plan, which puts together the rows of its ``passes`` and of queries ``alone``.

    Subclasses add the ``passes`` and the queries that are ``alone``, each a subclass of :class:`Alone`.
    """

    passes: tuple[Operator, ...]
    alone: tuple[Alone, ...]

    @property
    def children(self) -> tuple[Operator, ...]:
        return (*self.passes, *(one.plan for one in self.alone))

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        passes, plans = children[: len(self.passes)], children[len(self.passes) :]
        alone = (attrs.evolve(one, plan=plan) for one, plan in zip(self.alone, plans, strict=True))
        return attrs.evolve(self, passes=passes, alone=tuple(alone))

    @property
    def together(self) -> tuple[OfMany, ...]:
        """The operators that answer the queries of each pass."""
        raise NotImplementedError

    def facts(self) -> tuple[tuple[str, str], ...]:
        return (
            *((f"pass {number}", words.some(one.queries)) for number, one in enumerate(self.together, 1)),
            *((f"{one.name} alone", f"{one.strategy}: {one.reason}") for one in self.alone),
        )
