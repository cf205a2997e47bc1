"""What keeps each event of a stream once: small parcels are merged, and each event is given to its buckets, once."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cetdsl.execution.keeper import keeper
from cetdsl.ir.parcels import BucketsOfTime, ParcelSpec
from cetdsl.kernels.wire.parcels import parcel_stream

#: Two columns of eight bytes are kept of each event, and a bucket is as long as three times the cut.
EVENT_BYTES, CUT = 16, 1_000_000
NEEDED = BucketsOfTime(0, 0, CUT, 0, 3 * CUT)


class Values:
    """A map of state, or a value of it, that counts the bytes of parcels that are written."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}
        self.written = 0

    def getValue(self, key: Any) -> Any:  # noqa: N802 - a name of Spark's, as are the next ones
        return self.known.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.known[key] = value
        self.written += sum(map(len, value[1]))

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self.known[key]

    def iterator(self) -> Any:
        return iter(self.known.items())

    def get(self) -> Any:
        return self.known.get("value")

    def update(self, value: Any) -> None:
        self.known["value"] = value

    def clear(self) -> None:
        self.known.clear()


class Share:
    """State of one share of the keys, micro-batch by micro-batch."""

    def __init__(self) -> None:
        self.map, value, self.timers = Values(), Values(), set[int]()
        self.processor = keeper("a query", NEEDED.cut, NEEDED.end)
        self.handle = SimpleNamespace(
            getValueState=lambda *_: value,
            getMapState=lambda *_: self.map,
            listTimers=lambda: sorted(self.timers),
            registerTimer=self.timers.add,
        )

    @property
    def held(self) -> int:
        return sum(len(body) for _, bodies in self.map.known.values() for body in bodies)

    def comes(self, times: Any, numbers: Any) -> int:
        """Takes the events of a micro-batch, and returns how many bytes are written for them."""
        self.processor.init(self.handle)
        batch = pa.RecordBatch.from_arrays([pa.array(times), pa.array(numbers)], names=["t", "x"])
        rows = []
        for _, first, last, bodies, _ in parcel_stream(ParcelSpec((0,), (), buckets=NEEDED), iter([batch])):
            for begin, end, body in zip(first.to_pylist(), last.to_pylist(), bodies.to_pylist(), strict=True):
                if begin is not None and body is not None:
                    rows += [(bucket, begin, body if bucket == end else None) for bucket in range(begin, end + 1)]
        before = self.map.written
        self.processor.handleInputRows(0, iter([pd.DataFrame(rows, columns=["bucket", "first", "body"])]), None)
        return self.map.written - before

    def pass_watermark(self, watermark: int) -> Counter[Any]:
        """Returns the events that are given, each with its buckets."""
        self.processor.init(self.handle)
        times = SimpleNamespace(getCurrentWatermarkInMs=lambda: watermark)
        given: Counter[Any] = Counter()
        for timer in sorted(timer for timer in self.timers if timer < watermark):
            self.timers.remove(timer)
            expired = SimpleNamespace(getExpiryTimeInMs=lambda timer=timer: timer)
            for some in self.processor.handleExpiredTimer(0, times, expired):
                for first, last, body in some.itertuples(index=False):
                    with pa.ipc.open_stream(body) as reader:
                        events = reader.read_all().to_pydict()
                    for event in zip(*events.values(), strict=True):
                        own = range(max(first, event[0] // CUT - 2), min(last, event[0] // CUT) + 1)
                        given.update((bucket, *event) for bucket in own)
        return given


@pytest.mark.parametrize(("triggers", "each"), [(500, 1), (100, 10), (100, 100), (10, 2000)])
def test_state_is_not_much_larger_than_its_events_however_few_come_at_once(triggers: int, each: int) -> None:
    share, draw = Share(), np.random.default_rng(each)
    times, numbers = 7 * CUT + draw.integers(0, 3 * CUT, (triggers, each)), np.arange(triggers * each)
    written = [share.comes(*some) for some in zip(times, numbers.reshape(triggers, each), strict=True)]
    assert share.held <= 1.5 * EVENT_BYTES * times.size
    # Of each pair of buckets no more is written again than one small parcel.
    assert max(written) <= 3 * (8 << 10) + 2 * EVENT_BYTES * each + 3000
    given = share.pass_watermark(8000) + share.pass_watermark(11_500) + share.pass_watermark(99_000)
    expected: Counter[Any] = Counter()
    for time, number in zip(times.ravel().tolist(), numbers.tolist(), strict=True):
        expected.update((bucket, time, number) for bucket in range(time // CUT - 2, time // CUT + 1))
    assert given == expected
    assert not share.map.known
