"""The state of a stream that keeps each live event once: parcels of events, and a timer for the next time bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from cetdsl.execution.states import STATE_VERSION

#: Prefix of the stored meaning where all events are kept (``keep=``); the rest names their columns, for the error that
#: is raised where they do not fit.
WHOLE = "all events"
#: Bytes of parcels that are given at once, about.
_GIVEN_BYTES = 8 << 20
#: Bytes of events that are not merged with others any more: the names of columns take a twelfth of so many or less.
_MERGED_BYTES = 8 << 10


def keeper(meaning: str, cut: int, end: int) -> StatefulProcessor:
    """Returns the stateful processor that keeps parcels until their time buckets are closed.

    Rows are those of one share of the keys: ``bucket``, a time bucket that is open; ``first``, from which on a parcel
    is needed; and ``body``, the parcel, in the row of the last bucket that needs it. A bucket is closed when the
    watermark passes its end, which is ``end`` behind its start, a multiple of ``cut``. Its parcels are given then, with
    those of all buckets that are closed at the same time, and each of them is dropped with its last bucket. What
    parcels mean is kept beside them, and is to be ``meaning``.

    Small parcels of the same buckets are merged, as each has the names of its columns: those that a micro-batch brings
    with the last one of before, until it is large enough to stay as it is. So no micro-batch reads and writes more of
    what is known already than one small parcel of each share and its buckets.

    It travels to the workers by value.
    """
    meaning = f"{STATE_VERSION} {meaning}"

    def expiry(bucket: int) -> int:
        """The first millisecond that is no part of a bucket: a timer expires when the watermark reaches it."""
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
            #: Numbers from 0 on are drawn; each pair of buckets has a small parcel, with a number below 0.
            self.parcels = handle.getMapState(
                "parcels", "last bigint, number bigint", "first bigint, bodies array<binary>"
            )
            #: Of each share the first bucket that has not been given.
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
            """Adds parcels that the same buckets need to those that are known."""
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
            # Timers expire in order: the first one of a share stands for all of its buckets that the watermark has
            # closed, so that their parcels are given once for all of them. Another one waits for the next bucket.
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
            yield from given(closed, still_open - 1, wanted)
            if awaited:
                self.handle.registerTimer(expiry(min(awaited)))
            else:
                self.meaning.clear()

        def refuse_others(self) -> None:
            """Raises where the parcels in state were kept for another query, or by another version of cetdsl."""
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

    def given(first: int, last: int, parcels: list[list[bytes]]) -> Iterator[Any]:
        """Yields parcels behind the numbers of the first and the last of their buckets, not too many at once."""
        import pandas as pd

        def rows() -> Any:
            return pd.DataFrame({"s": [first] * len(some), "u": [last] * len(some), "p": some})

        some, size = list[bytes](), 0
        for bodies in parcels:
            for body in bodies:
                some.append(body)
                size += len(body)
                if size >= _GIVEN_BYTES:
                    yield rows()
                    some, size = [], 0
        if some:
            yield rows()

    return Keeper()
