"""How the events of a query are read, keyed and cut by time."""

from __future__ import annotations

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.schema import Schema
from cetdsl.ir.windowing import WHOLE, Windowing


@attrs.frozen
class Source:
    """How events are read, keyed and cut by time.

    Attributes
    ----------
    schema : Schema
    time : str
    time_type : str
        Spark type of the time column.
    tie_break : tuple of str
    on_null_time : {"error", "skip"}
    groups : tuple of str
        Columns that are output, in the order of GROUP BY.
    partitions : tuple of str
        Further columns that are equal along a trend.
    asked_partitions : tuple of str
        Those of them that the user named.
    windowing : Windowing
    """

    schema: Schema
    time: str
    time_type: str
    tie_break: tuple[str, ...]
    on_null_time: str
    groups: tuple[str, ...]
    partitions: tuple[str, ...]
    asked_partitions: tuple[str, ...]
    windowing: Windowing

    @property
    def keys(self) -> tuple[str, ...]:
        """All columns that are equal along a trend, the output ones first."""
        return self.groups + self.partitions


def kernel_sorts_shares(source: Source, compiled: Compiled) -> bool:
    """Whether shares of a key go unsorted: time alone orders the events, and a kernel holds all before it begins."""
    whole = not source.keys and source.windowing.kind == WHOLE
    return whole and not source.tie_break and not compiled.lists
