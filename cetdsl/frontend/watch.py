"""``watch()``: shows the progress of a running stream."""

from __future__ import annotations

import json
import math
import sys
from base64 import b64decode
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import reduce
from html import escape
from operator import or_
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from cetdsl.errors import InvalidNode, recovering, shown
from cetdsl.execution.compat import observed_fields
from cetdsl.ir.emission import ANSWERED, DECIDED, KEPT, KEYED
from cetdsl.ir.windowing import FIRST_MICROSECOND
from cetdsl.tables import cell

if TYPE_CHECKING:
    from pyspark.sql.connect.streaming.query import StreamingQuery as ConnectQuery
    from pyspark.sql.streaming.query import StreamingQuery

#: What Spark tells of a micro-batch.
Progress = Mapping[str, Any]
#: The columns of the table, and how wide each is where lines are printed one after the other.
_COLUMNS = {
    "trigger": 8,
    "events": 11,
    "late": 9,
    "live events": 13,
    "live keys": 11,
    "live rows": 11,
    "live bytes": 14,
    "rows out": 11,
    "decisions": 11,
    "seconds": 9,
    "watermark": 26,
}
#: So many of the latest lines a notebook shows, as it gets all of them anew with each one.
_LINES_OF_NOTEBOOK = 100
#: How many bits a bitmap of keys has, one of which each key sets, and how many keys it can tell, about.
_BITS, _MOST_KEYS = 8 * 4096, 250_000
#: What stands where something is not observed, and where there is no watermark yet.
_UNTOLD = "-"


def watch(query: StreamingQuery | ConnectQuery, *, every: float = 1.0) -> None:
    """Shows what becomes of a running stream, one line for each micro-batch, until the stream ends.

    A line shows the number of the trigger, the number of events that were read, of late events that were dropped, of
    live events (since the start, of windows that are still open) and, estimated, of live keys. Then come the rows and
    the bytes that state holds, the rows that went out, the number of a workload's decisions on sharing, the duration of
    the trigger and the watermark. Late and live events count once for each of their windows. All figures are in
    ``query.recentProgress``, as Spark's own and as metrics that Spark observes for cetdsl; see :doc:`/streaming`. A
    dash means that a figure is not observed.

    A terminal gets lines of text, and a notebook a table of the last hundred lines, which is updated. If you interrupt
    ``watch``, the stream goes on.

    Parameters
    ----------
    query : pyspark.sql.streaming.StreamingQuery
        The running stream that ``writeStream.start()`` returns, on classic Spark or Spark Connect.
    every : float
        Seconds between two looks at the stream.

    Raises
    ------
    InvalidNode
        If ``query`` is no running stream, or ``every`` is not positive.
    CetdslError
        If the stream ends with an error of cetdsl; any other error of the stream is raised as Spark has it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> spark.sql("SELECT timestamp_seconds(id) AS ts, 'A' AS type FROM range(100)").write.parquet(folder + "/events")
    >>> files = spark.readStream.schema("ts timestamp, type string").parquet(folder + "/events")
    >>> text = "PATTERN A WITHIN 10 seconds SLIDE 10 seconds"
    >>> counts = files.withWatermark("ts", "1 second").pattern(text, time="ts").count_trends()
    >>> writer = counts.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
    >>> watch(writer.trigger(availableNow=True).start(folder + "/counts"))  # doctest: +ELLIPSIS
     trigger     events     late  live events  live keys  live rows    live bytes   rows out  decisions  seconds ...
           0        100        0          100          1 ...
    """
    if isinstance(query, DataFrame) or not hasattr(query, "recentProgress"):  # of Connect, it has any name
        raise InvalidNode(
            f"watch() takes a running stream, not {shown(query)}",
            hint="give it what answer.writeStream....start() returns",
        )
    if not every > 0:
        raise InvalidNode(f"every={shown(every)} is no time to wait", hint="give it a number of seconds above 0")
    show = _shower()
    for batch in micro_batches(query, every):
        show(_row(batch))


@attrs.frozen
class MicroBatch:
    """A micro-batch: Spark's progress, and the numbers of ``late`` events that it dropped and ``live`` ones after it.

    Both count an event once for each window. Those alive are of the micro-batches that have been seen, and so are their
    ``keys``, of which there are at most so many, about; None where Spark looks at each event in state.
    """

    progress: Progress
    late: int
    live: int | None
    keys: int | None


def micro_batches(query: StreamingQuery | ConnectQuery, every: float) -> Iterator[MicroBatch]:
    """Yields each micro-batch of a stream with its numbers, until the stream ends; raises the error that ends it."""
    last, ended, failure, windows = -1, False, None, _OpenWindows()
    while not ended:
        try:
            ended = bool(query.awaitTermination(every))  # type: ignore[arg-type]  # both take parts of a second
        except PySparkException as error:
            # What went before a failure is worth knowing as well.
            ended, failure = True, error
        for progress in query.recentProgress:
            if _is_after(progress, last):
                last = progress["batchId"]
                yield windows.after(progress)
    if failure is not None:
        with recovering():
            raise failure


class _OpenWindows:
    """Counts the events of windows that the watermark has not passed, and keys, from micro-batch to micro-batch."""

    def __init__(self) -> None:
        self._events: Counter[int] = Counter()
        #: Until when some event of a micro-batch is needed, and its keys as bits.
        self._keys: list[tuple[int, int]] = []
        self._passed = ""

    def after(self, progress: Progress) -> MicroBatch:
        """Counts the events of one more micro-batch.

        It drops those of windows that the watermark had passed before it, and closes those that it has passed now.
        """
        dropped, observed = _total(progress, "numRowsDroppedByWatermark"), list(_observed(progress, KEPT))
        now = (progress["eventTime"] or {}).get("watermark", "")
        if not observed:
            return MicroBatch(progress, dropped, None, None)
        # Where watching begins, the watermark before is not known.
        before = _microseconds(self._passed or now)
        late = 0
        for row in observed:
            for part in json.loads(row["ends"]):
                if part["end"] > before:
                    self._events[part["end"]] += part["events"]
                elif dropped:
                    late += part["events"]
        self._passed, closed = now, _microseconds(now)
        self._events = Counter({end: count for end, count in self._events.items() if end > closed})
        self._keys += [(row["until"], _bits(row["keys"])) for row in _observed(progress, KEYED) if row["until"]]
        self._keys = [(until, bits) for until, bits in self._keys if until > closed]
        return MicroBatch(progress, late, self._events.total(), keys_of(bits for _, bits in self._keys))


def _bits(keys: str) -> int:
    return int.from_bytes(b64decode(keys), "little")


def keys_of(bitmaps: Iterable[int]) -> int:
    """Returns how many different keys have set the bits of some bitmaps, about: each key one bit, at random.

    Examples
    --------
    >>> keys_of([0b0101, 0b0110])
    3
    """
    unset = _BITS - reduce(or_, bitmaps, 0).bit_count()
    return min(round(-_BITS * math.log(unset / _BITS)), _MOST_KEYS) if unset else _MOST_KEYS


def _observed(progress: Progress, what: str) -> Iterator[Mapping[str, Any]]:
    """Yields the fields of all observations whose names begin with ``what``."""
    for name, row in (progress["observedMetrics"] or {}).items():
        if name.startswith(what):
            yield observed_fields(row)


def _microseconds(watermark: str) -> int:
    """Returns a time as Spark's progress has it in microseconds since the epoch; where there is none, before all."""
    if not watermark:
        return FIRST_MICROSECOND - 1
    since = datetime.fromisoformat(watermark.replace("Z", "+00:00")) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return since // timedelta(microseconds=1)


def state_bytes(progress: Progress) -> int:
    """Returns how many bytes state holds after a micro-batch: in memory by default, in its files by RocksDB.

    Examples
    --------
    >>> by_default = {"memoryUsedBytes": 200, "customMetrics": {}}
    >>> by_rocksdb = {"memoryUsedBytes": 9000, "customMetrics": {"rocksdbSstFileSize": 50}}
    >>> state_bytes({"stateOperators": [by_default, by_rocksdb]})
    250
    """
    operators = progress["stateOperators"]
    # What RocksDB holds in memory are its caches.
    return sum(one.get("customMetrics", {}).get("rocksdbSstFileSize", one["memoryUsedBytes"]) for one in operators)


def _total(progress: Progress, name: str) -> int:
    return sum(operator[name] for operator in progress["stateOperators"])


def _is_after(progress: Progress, last: int) -> bool:
    """Whether progress is of a new micro-batch; an idle stream reports others from time to time."""
    return progress["batchId"] > last and "addBatch" in progress["durationMs"]


def _row(batch: MicroBatch) -> list[str]:
    """Returns a line of the table for one micro-batch."""
    progress = batch.progress

    def total(what: str, field: str) -> str:
        found = [row[field] for row in _observed(progress, what)]
        return cell(sum(found)) if found else _UNTOLD

    return [
        str(progress["batchId"]),
        # Connect tells the total of no batch.
        cell(sum(source["numInputRows"] for source in progress["sources"])),
        cell(batch.late),
        _UNTOLD if batch.live is None else cell(batch.live),
        _UNTOLD if batch.keys is None else f"{cell(batch.keys)}{'+' * (batch.keys == _MOST_KEYS)}",
        cell(_total(progress, "numRowsTotal")),
        cell(state_bytes(progress)),
        total(ANSWERED, "rows"),
        total(DECIDED, "decisions"),
        f"{progress['durationMs']['triggerExecution'] / 1000:.2f}",
        (progress["eventTime"] or {}).get("watermark", _UNTOLD),
    ]


def _shower() -> Callable[[Sequence[str]], None]:
    """Returns what shows one more line: in a notebook in one table, elsewhere below each other."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return _in_notebook() if type(shell).__name__ == "ZMQInteractiveShell" else _in_terminal()


def _in_terminal() -> Callable[[Sequence[str]], None]:
    def show(texts: Sequence[str]) -> None:
        aligned = (text.rjust(width) for text, width in zip(texts, _COLUMNS.values(), strict=True))
        sys.stdout.write("".join(aligned) + "\n")
        sys.stdout.flush()

    show(list(_COLUMNS))
    return show


def _in_notebook() -> Callable[[Sequence[str]], None]:
    from IPython.display import HTML, display

    known: deque[Sequence[str]] = deque(maxlen=_LINES_OF_NOTEBOOK)
    handle = display(HTML(_html(known)), display_id=True)

    def show(texts: Sequence[str]) -> None:
        known.append(texts)
        handle.update(HTML(_html(known)))

    return show


def _html(rows: Iterable[Sequence[str]]) -> str:
    """Returns the whole table for a notebook."""

    def line(tag: str, texts: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', list(_COLUMNS))}</thead><tbody>{body}</tbody></table>"
