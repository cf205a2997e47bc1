"""AnswerTogether: combines the answers of many queries, from some passes and from plans of their own."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.propagate_together import PropagateTogether
from cetdsl.ir.operators.together import Alone, Together
from cetdsl.ir.sharing import CALIBRATED, Member, Sharing


@attrs.frozen
class AnsweredAlone(Alone):
    """A query that no pass can take, and the columns that it groups by."""

    groups: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its aggregates."""
        return self.plan.gives[len(self.groups) + self.sliding :]


@attrs.frozen
class AnswerTogether(Together):
    """Puts the answers beside each other: ``query``, ``group``, ``window`` and the union of the aggregates.

    Its answer may be taken apart by query.
    """

    alone: tuple[AnsweredAlone, ...]
    sharing: Sharing

    @property
    def together(self) -> tuple[PropagateTogether, ...]:
        """The operators that answer the queries of each pass."""
        return tuple(each for one in self.passes for each in one.walk() if isinstance(each, PropagateTogether))

    @property
    def gives(self) -> tuple[str, ...]:
        queries: list[Member | AnsweredAlone] = [member for one in self.together for member in one.answered]
        queries += self.alone
        group = ["group"] if any(one.groups for one in queries) else []
        window = ["window"] if any(one.sliding for one in queries) else []
        return ("query", *group, *window, *dict.fromkeys(name for one in queries for name in one.outputs))

    def facts(self) -> tuple[tuple[str, str], ...]:
        shares = self.sharing.deviations.items()
        return (
            ("sharing", self.sharing.mode),
            *([("cost model", self.sharing.cost_model)] if self.sharing.cost_model != CALIBRATED else ()),
            *(("deviation", f"{name}: {part:.1%}, as given") for name, part in shares),
            *super().facts(),
        )
