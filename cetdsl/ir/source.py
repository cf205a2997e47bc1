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
    equal along a trend, of which the user named ``asked_partitions``. Rows without a time raise an error ("error") or
    are left out ("skip"). ``sort`` is the requested way to sort. For a stream, ``watermark`` is the delay of its
    watermark in microseconds, for which it waits for late events; ``emit`` says when it gives an answer, and ``state``
    how it keeps events until then. ``computed`` are the columns that are computed from others. If several queries read
    the events by one common windowing, ``asked_windowings`` are their own windowings. ``columns`` are those that the
    query reads, for estimates of sizes only: sources that differ in nothing else are equal.
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
    columns: tuple[str, ...] = attrs.field(default=(), eq=False)

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
        """The columns by which a stream groups the events that it keeps.

        When an event arrives, Spark emits again all that it keeps in the event's group, and nothing else. For the
        current answer of a query's group, that must be the events of all keys of this group.
        """
        return self.groups if self.emit == UPDATE else self.keys

    @property
    def answers_add_up(self) -> bool:
        """Whether the answer of a group is merged from several: those of partitions, or of a span's time buckets."""
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
