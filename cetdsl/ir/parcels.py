"""The format of parcels: many events that go to one task, packed as bytes in one value."""

from __future__ import annotations

import attrs

#: The events of a task, and of a micro-batch, are counted by at most so many time buckets: the oldest ones, as the late
#: are among these, and all others as one.
TALLIED = 64


@attrs.frozen
class BucketsOfTime:
    """The time buckets that need an event, of those that begin at multiples of ``cut``.

    A bucket needs the events from ``begin`` until ``end``, counted from its start, all in microseconds. The time is in
    the column at ``time``, times ``2**bits``, in a ``unit`` of so many microseconds.
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
        The positions of the key columns, whole numbers, by which the worker finds an event's share. If None, it does so
        by the first column, a hash of the keys.
    left_out : int
        So many columns, the first ones, are not packed.
    buckets : BucketsOfTime, optional
        Of a stream, which time buckets need an event; a parcel has events that the same ones need.
    by_window : bool, optional
        Of a stream, whether a parcel is kept once for each of its buckets, where a number sends it to its share's task.
    by_share : bool, optional
        Whether the first column is the number of the share itself, and nothing is told of the keys.
    """

    shares: tuple[int, ...]
    keys: tuple[int, ...] | None = None
    left_out: int = 0
    buckets: BucketsOfTime | None = None
    by_window: bool = False
    by_share: bool = False
