"""The source of a query's events: how they are read, keyed and cut by time."""

from __future__ import annotations

import attrs

from cetdsl.ir import keeping
from cetdsl.ir.emission import FINAL, UPDATE
from cetdsl.ir.schema import Schema
from cetdsl.ir.sorting import AS_USUAL, AskedSort
from cetdsl.ir.windowing import SPAN, Windowing, has_windows
from cetdsl.pattern.query import Computed


@attrs.frozen
class Source:
    """Describes how events are read, keyed and cut by time.

    ``groups`` are the columns that are output, in the order of GROUP BY; ``partitions`` are further columns that are
    equal along a trend, of which the user named ``asked_partitions``. Rows without a time are an "error", or a "skip".
    ``sort`` says who is to sort. Of a stream, ``watermark`` is the delay of its watermark in microseconds: how long it
    waits for late events, ``emit`` says when it gives an answer, and ``state`` how events are to be kept until then.
    ``computed`` are those of its columns that are computed of others. Where several queries read the events by one
    windowing, ``asked_windowings`` are their own.
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
    sort: AskedSort = AS_USUAL
    watermark: int | None = None
    emit: str = FINAL
    state: keeping.AskedState = keeping.AS_USUAL
    computed: tuple[Computed, ...] = ()
    asked_windowings: tuple[Windowing, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether the events are those of a stream."""
        return self.watermark is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """All columns that are equal along a trend, the output ones first."""
        return self.groups + self.partitions

    @property
    def kept_by(self) -> tuple[str, ...]:
        """The columns by which a stream keeps events apart.

        Spark gives again what it keeps together, and nothing else, when an event comes to it: for the answer of a group
        so far, that is all keys of the group.
        """
        return self.groups if self.emit == UPDATE else self.keys

    @property
    def answers_add_up(self) -> bool:
        """Whether the answer of a group is made of several: of partitions, or of the time buckets of a span."""
        return bool(self.partitions) or (self.windowing.kind == SPAN and not self.window)

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The key columns of an answer that has a row per trend."""
        return self.groups + self.asked_partitions

    def listed_keys(self, identified: bool) -> tuple[str, ...]:
        """The key columns of rows of trends: all if their events are ``identified``, else those of an answer."""
        return self.keys if identified else self.shown_keys

    @property
    def answered_windowings(self) -> tuple[Windowing, ...]:
        """The windowings of the answers that are made of the events."""
        return self.asked_windowings or (self.windowing,)

    @property
    def window(self) -> tuple[str, ...]:
        """The column of an answer that holds the window, if answers are distinguished by one."""
        return ("window",) if has_windows(self.windowing) else ()
