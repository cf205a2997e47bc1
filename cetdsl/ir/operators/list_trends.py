"""ListTrends: the kernel enumerates trends, depth first."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary


@attrs.frozen
class ListTrends(Unary):
    """Gives a row per trend: key columns, window, trend.

    ``columns`` of each event are shown; one task lists ``limit`` trends at most. Columns that are ``named`` have the
    user's names, as in an answer; otherwise they have internal names, for other operators. Each ``identified`` event
    has a further field that tells it from all others, and its rows have all keys; its columns are never ``named``.
    """

    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None = None
    named: bool = False
    identified: bool = False
    stage = "trends"
    only_batch = None
    walks = True

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of the rows."""
        return self.source.listed_keys(self.identified)

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, columns=self.columns, identified=self.identified),)

    def steps(self) -> tuple[Step, ...]:
        stops = (f"stops after {self.limit}",) if self.limit is not None else ()
        label = "kernel: list trends" + (f" of the {self.side}" if self.side else "")
        parts = words.of_parts(self.compiled)
        return (Step(label, ("depth first, only where a trend can still be completed", *parts, *stops)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"grows with the number of trends{words.until(limit)}",)
