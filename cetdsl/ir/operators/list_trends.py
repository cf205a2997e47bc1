"""ListTrends: the kernel enumerates trends, depth first."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators.exchange import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.words import columns_with_trend, until


@attrs.frozen
class ListTrends(Unary):
    """A row per trend: key columns, window, trend.

    Attributes
    ----------
    spec : KernelSpec
    columns : tuple of str
        The columns of each event that are shown.
    keys : tuple of str
        The key columns of the rows.
    limit : int or None
        Trends that one task lists at most.
    named : bool
        Whether columns have the user's names, as an answer has, or ours, for other operators.
    identified : bool
        Whether each event has a further field that tells it from all others; ours only.
    """

    spec: KernelSpec
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    limit: int | None = None
    named: bool = False
    identified: bool = False
    stage = "trends"
    walks = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, columns=self.columns, identified=self.identified),)

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_with_trend(self.source)

    def steps(self) -> tuple[Step, ...]:
        stops = (f"stops after {self.limit}",) if self.limit is not None else ()
        label = "kernel: list trends" + (f" of the {self.side}" if self.side else "")
        return (Step(label, ("depth first, only where a trend can still be completed", *stops)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"grows with the number of trends{until(limit)}",)
