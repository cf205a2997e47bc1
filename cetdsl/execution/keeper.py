"""The state of a stream that keeps each live event once: parcels of events, and a timer for each open time bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from cetdsl.execution.states import STATE_VERSION

#: How the meaning begins of events that are kept whole: what state holds of them is told where it does not fit.
WHOLE = "all events"
#: Bytes of parcels that are given at once, about.
_GIVEN_BYTES = 8 << 20


def keeper(meaning: str, cut: int, end: int) -> StatefulProcessor:
    """Returns what keeps parcels until their time buckets are closed.

    Rows are those of one share of the keys: ``bucket``, a time bucket that is open; ``first``, from which on a parcel
    is needed; and ``body``, the parcel, in the row of the last bucket that needs it. A bucket is closed when the
    watermark passes its end, which is ``end`` behind its start, a multiple of ``cut``; its parcels are given then, and
    each of them is dropped with its last bucket. What parcels mean is kept beside them, and is to be ``meaning``.

    It travels to the workers by value.
    """
    meaning = f"{STATE_VERSION} {meaning}"

    def expiry(bucket: int) -> int:
        """The millisecond that the watermark is to pass."""
        return -(-(bucket * cut + end) // 1000) - 1

    def closed_at(milliseconds: int) -> range:
        """The buckets that end within the millisecond."""
        return range((milliseconds * 1000 - end) // cut + 1, ((milliseconds + 1) * 1000 - end) // cut + 1)

    class Keeper(StatefulProcessor):
        """One is made for each task of a micro-batch; each access to state asks the JVM over a socket."""

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.meaning = handle.getValueState("meaning", "text string")
            self.parcels = handle.getMapState(
                "parcels", "last bigint, number bigint", "first bigint, bodies array<binary>"
            )
            self.share: Any = None
            self.held: list[tuple[tuple[int, int], int, list[bytes]]] = []

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
                self.parcels.updateValue((last, uuid4().int >> 65), (first, found))
            for milliseconds in set(map(expiry, opened)) - set(self.handle.listTimers()):
                self.handle.registerTimer(milliseconds)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            if key != self.share:
                self.refuse_others()
                self.share = key
                self.held = [(name, first, bodies) for name, (first, bodies) in self.parcels.iterator()]
            closed = closed_at(expiredTimerInfo.getExpiryTimeInMs())
            for bucket in closed:
                yield from given(bucket, [one for (last, _), first, one in self.held if first <= bucket <= last])
            for name, _, _ in self.held:
                if name[0] in closed:
                    self.parcels.removeKey(name)
            self.held = [one for one in self.held if one[0][0] not in closed]
            if not self.held:
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

    def given(bucket: int, parcels: list[list[bytes]]) -> Iterator[Any]:
        """Yields parcels behind the number of their bucket, not too many at once."""
        import pandas as pd

        some, size = list[bytes](), 0
        for bodies in parcels:
            for body in bodies:
                some.append(body)
                size += len(body)
                if size >= _GIVEN_BYTES:
                    yield pd.DataFrame({"s": [bucket] * len(some), "p": some})
                    some, size = [], 0
        if some:
            yield pd.DataFrame({"s": [bucket] * len(some), "p": some})

    return Keeper()
