"""How the events of a query are read, keyed and cut by time."""

from __future__ import annotations

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.schema import Schema
from cetdsl.ir.windowing import SLIDING, WHOLE, Windowing


@attrs.frozen
class Source:
    """How events are read, keyed and cut by time.

    ``groups`` are the columns that are output, in the order of GROUP BY; ``partitions`` are further columns that are
    equal along a trend, of which the user named ``asked_partitions``. Rows without a time are an "error", or a "skip".
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

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The key columns of an answer that has a row per trend."""
        return self.groups + self.asked_partitions

    @property
    def window(self) -> tuple[str, ...]:
        """The column of an answer that holds the window, if windows slide."""
        return ("window",) if self.windowing.kind == SLIDING else ()


def kernel_sorts_shares(source: Source, compiled: Compiled) -> bool:
    """Whether shares go unsorted: time alone orders the events, and a kernel holds all before it begins."""
    whole = not source.keys and source.windowing.kind == WHOLE
    return whole and not source.tie_break and not compiled.lists
