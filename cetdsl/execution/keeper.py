"""The state of a stream that keeps each live event once: parcels of events, and a timer for the next time bucket.

A *parcel* has many events, packed as bytes in one value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from cetdsl.execution.states import STATE_VERSION

#: Prefix of the stored meaning if the stream keeps all events whole (``keep=``); the rest names their columns, for the
#: error message if a checkpoint does not match.
WHOLE = "all events"
#: About how many bytes of parcels are emitted at once.
_GIVEN_BYTES = 8 << 20
#: Parcels of so many bytes are not merged any more: the names of columns take at most a twelfth of them.
_MERGED_BYTES = 8 << 10


def keeper(meaning: str, cut: int, end: int, learning: bytes | None = None) -> StatefulProcessor:
    """Returns the stateful processor that keeps parcels until their time buckets are closed.

    The input has, for one share of the keys, a row per parcel and time bucket that needs it: ``bucket``, an open time
    bucket; ``first``, the first bucket that needs the parcel; and ``body``, the parcel itself, in the row of the last
    bucket that needs it. A bucket is closed when the watermark passes its end. The end is ``end`` behind the start of
    the bucket, a multiple of ``cut``. The processor then emits the bucket's parcels, together with those of all buckets
    that close at the same time, and deletes each parcel with its last bucket. It stores the ``meaning`` of parcels
    beside them, and refuses state with another meaning.

    Each parcel repeats the names of its columns, so small parcels of the same buckets are merged: those of a
    micro-batch with the previous small one, until it is large enough to stay as it is. So a micro-batch rewrites at
    most one small parcel for each share and pair of buckets.

    If it is ``learning``, a pickled :class:`~cetdsl.ir.stages.LearnSpec`, it takes statistics of the events that it
    emits, and keeps them, also when the share has no live events. It emits them in front of the parcels. They are no
    part of the meaning of parcels, so a stream may begin or cease to learn when it is started again.

    The processor is pickled by value for the workers.
    """
    meaning = f"{STATE_VERSION} {meaning}"

    def expiry(bucket: int) -> int:
        """The first millisecond behind a bucket: a timer expires when the watermark reaches it."""
        return -(-(bucket * cut + end) // 1000)

    def first_after(milliseconds: int) -> int:
        """The first bucket that ends after a millisecond."""
        return (milliseconds * 1000 - end) // cut + 1

    class Keeper(StatefulProcessor):
        """Stateful processor: keeps parcels per share, and emits them by event-time timers.

        Each task of a micro-batch makes one. Each access to state asks the JVM over a socket.
        """

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.meaning = handle.getValueState("meaning", "text string")
            #: Numbers from 0 on are random; the small parcel of a pair of first and last bucket has a number below 0.
            self.parcels = handle.getMapState(
                "parcels", "last bigint, number bigint", "first bigint, bodies array<binary>"
            )
            self.counts: Any = (
                handle.getValueState("statistics", "about string, counts array<double>") if learning else None
            )
            #: For each share, the first bucket that has not been emitted.
            self.open: dict[Any, int] = {}

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            self.refuse_others()
            opened, bodies = set[int](), dict[tuple[int, int], list[bytes]]()
            for some in rows:
                columns = (some[name].tolist() for name in ("bucket", "first", "body"))
                for bucket, first, body in zip(*columns, strict=True):
                    opened.add(bucket)
                    if body is not None:
                        bodies.setdefault((first, bucket), []).append(bytes(body))
            for (first, last), found in bodies.items():
                self.keep(first, last, found)
            soonest = expiry(min(opened))
            if min(self.handle.listTimers(), default=soonest + 1) > soonest:
                self.handle.registerTimer(soonest)
            return iter(())

        def keep(self, first: int, last: int, bodies: list[bytes]) -> None:
            """Stores further parcels that the same buckets need."""
            small = (last, first - last - 1)
            if sum(map(len, bodies)) < _MERGED_BYTES:
                from cetdsl.kernels.wire.parcels import merged

                known = self.parcels.getValue(small)
                body = merged([*(known[1] if known else []), *bodies])
                if len(body) < _MERGED_BYTES:
                    self.parcels.updateValue(small, (first, [body]))
                    return
                if known:
                    self.parcels.removeKey(small)
                bodies = [body]
            self.parcels.updateValue((last, uuid4().int >> 65), (first, bodies))

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            # Timers expire in order. The first timer of a share emits the parcels of all of its buckets that the
            # watermark has closed, once for all of them. Later timers of these buckets do nothing, and a new timer
            # waits for the next bucket.
            closed = first_after(expiredTimerInfo.getExpiryTimeInMs() - 1)
            if closed < self.open.get(key, closed):
                return
            self.refuse_others()
            self.open[key] = still_open = first_after(timerValues.getCurrentWatermarkInMs())
            wanted, awaited = list[list[bytes]](), list[int]()
            for (last, number), (first, bodies) in list(self.parcels.iterator()):
                if first < still_open and last >= closed:
                    wanted.append(bodies)
                if last < still_open:
                    self.parcels.removeKey((last, number))
                else:
                    awaited.append(max(first, still_open))
            yield from given(closed, still_open - 1, wanted, self.learned(closed, still_open - 1, wanted))
            if awaited:
                self.handle.registerTimer(expiry(min(awaited)))
            else:
                self.meaning.clear()

        def learned(self, first: int, last: int, wanted: list[list[bytes]]) -> bytes | None:
            """Updates the statistics of the share by the events of closed buckets, and returns them as bytes."""
            if learning is None or not wanted:
                return None
            from cetdsl.kernels.detect.learned import learn

            about, counts = learn(learning, self.counts.get(), first, last, wanted)
            self.counts.update((about, counts.tolist()))
            return counts.tobytes()

        def refuse_others(self) -> None:
            """Raises if the state has parcels of another query, or of another version of cetdsl."""
            known = self.meaning.get()
            if known is None:
                self.meaning.update((meaning,))
            elif known[0] != meaning:
                from cetdsl.errors import OTHER_STATE, OTHER_STATE_ADVICE, OtherState

                version, _, held = known[0].partition(" ")
                if version == str(STATE_VERSION) and held.startswith(WHOLE):
                    raise OtherState(
                        f"the checkpoint keeps {held}, and not {meaning.partition(' ')[2]}", hint=OTHER_STATE_ADVICE
                    )
                raise OtherState(OTHER_STATE, hint=OTHER_STATE_ADVICE)

        def close(self) -> None:
            pass

    def given(first: int, last: int, parcels: list[list[bytes]], learned: bytes | None) -> Iterator[Any]:
        """Yields rows of the first and the last of the closed buckets and a parcel, not too many at once.

        The first row has what was ``learned``, if the processor is learning.
        """
        import pandas as pd

        def rows() -> Any:
            found = {"s": [first] * len(some), "u": [last] * len(some), "p": some}
            return pd.DataFrame(found if learning is None else {"y": [learned] + [None] * (len(some) - 1), **found})

        some, size = list[bytes](), 0
        for bodies in parcels:
            for body in bodies:
                some.append(body)
                size += len(body)
                if size >= _GIVEN_BYTES:
                    yield rows()
                    some, size, learned = [], 0, None
        if some:
            yield rows()

    return Keeper()
