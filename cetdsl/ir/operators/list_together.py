"""ListTogether: puts the matches of many queries beside each other, from some passes and from plans of their own."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.detect_together import DetectTogether
from cetdsl.ir.operators.operator import Operator


@attrs.frozen
class ListedAlone:
    """A query that no pass can take, with a plan and strategy of its own, and the reason."""

    name: str
    plan: Operator
    strategy: str
    reason: str
    keys: tuple[str, ...]

    @property
    def sliding(self) -> bool:
        """Whether its windows slide."""
        return bool(self.plan.source.window)


@attrs.frozen
class ListTogether(Operator):
    """Gives ``query``, the group and partition columns of all queries, ``window`` if any slides, and ``trend``.

    It is the root of a workload's plan for trends. Its answer may be taken apart by query.
    """

    passes: tuple[Operator, ...]
    alone: tuple[ListedAlone, ...]
    columns: tuple[str, ...]
    limit: int | None = None

    @property
    def children(self) -> tuple[Operator, ...]:
        return (*self.passes, *(one.plan for one in self.alone))

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        passes, plans = children[: len(self.passes)], children[len(self.passes) :]
        alone = (attrs.evolve(one, plan=plan) for one, plan in zip(self.alone, plans, strict=True))
        return attrs.evolve(self, passes=passes, alone=tuple(alone))

    @property
    def together(self) -> tuple[DetectTogether, ...]:
        """The operators that list the matches of each pass."""
        return tuple(each for one in self.passes for each in one.walk() if isinstance(each, DetectTogether))

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns that some answer shows."""
        own = [*(key for one in self.together for key in one.keys), *(key for one in self.alone for key in one.keys)]
        return tuple(dict.fromkeys(own))

    @property
    def sliding(self) -> bool:
        """Whether the windows of some query slide."""
        return any(one.sliding for one in self.together) or any(one.sliding for one in self.alone)

    @property
    def gives(self) -> tuple[str, ...]:
        return ("query", *self.keys, *(["window"] if self.sliding else []), "trend")

    def facts(self) -> tuple[tuple[str, str], ...]:
        return (
            *((f"pass {number}", words.some(one.queries)) for number, one in enumerate(self.together, 1)),
            *((f"{one.name} alone", f"{one.strategy}: {one.reason}") for one in self.alone),
        )
