"""The format of parcels: many events that go to one task, packed as bytes in one value."""

from __future__ import annotations

import attrs

#: The most time buckets for which the events of a task, and of a micro-batch, are counted separately: the oldest ones,
#: because late events belong to these. All other events are counted together.
TALLIED = 64


@attrs.frozen
class BucketsOfTime:
    """Describes the time buckets, which start at multiples of ``cut``, and the events that each of them needs.

    A bucket needs the events from ``begin`` until ``end``, counted from its start, all in microseconds. The column at
    position ``time`` holds the time of an event, multiplied by ``2**bits``, in units of ``unit`` microseconds.
    """

    time: int
    bits: int
    cut: int
    begin: int
    end: int
    unit: int = 1

    def closes(self, bucket: int) -> int:
        """Returns when a bucket is closed, in microseconds: nothing that it needs comes later."""
        return bucket * self.cut + self.end


@attrs.frozen
class ParcelSpec:
    """Describes how a worker packs events.

    Parameters
    ----------
    shares : tuple of int
        The numbers of the shares of the keys; each share is a task's work.
    keys : tuple of int, optional
        The positions of the key columns, which hold whole numbers and determine an event's share. If None, the first
        column, a hash of the keys, determines it.
    left_out : int
        The number of leading columns that are not packed.
    buckets : BucketsOfTime, optional
        For a stream, the time buckets that need an event; a parcel has events that the same buckets need.
    by_window : bool, optional
        For a stream, whether a parcel is kept once for each of its buckets. Each copy then gets a number by which Spark
        sends it to the task of its share.
    by_share : bool, optional
        Whether the first column is the number of the share itself, and the worker reports nothing about the keys.
    """

    shares: tuple[int, ...]
    keys: tuple[int, ...] | None = None
    left_out: int = 0
    buckets: BucketsOfTime | None = None
    by_window: bool = False
    by_share: bool = False
