"""watch(): the progress of a running stream, shown as it goes on."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from cetdsl.errors import InvalidNode, recovering, shown
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
    "live rows": 11,
    "live bytes": 14,
    "rows out": 11,
    "seconds": 9,
    "watermark": 26,
}
#: So many of the latest lines a notebook shows, as it gets all of them anew with each one.
_LINES_OF_NOTEBOOK = 100
#: What stands where a sink does not tell how many rows it took, and where there is no watermark yet.
_UNTOLD = "-"


def watch(query: StreamingQuery | ConnectQuery, *, every: float = 1.0) -> None:
    """Shows what becomes of a running stream, one line for each micro-batch, until the stream ends.

    A line tells the number of the trigger, the events that were read, the late ones that Spark dropped, the rows and
    the bytes that state holds, the rows that went out (``-`` where the sink does not tell), how long the trigger took
    and where the watermark stands. These are Spark's own figures (``query.recentProgress``), added up over the
    operators that keep state. Spark counts late events where state is kept: once for each window, and those of one key
    and window that one task has read together as one.

    A terminal gets lines of text, a notebook one table in HTML, which is written again and has the last hundred lines.
    Whoever interrupts watching leaves the stream running.

    Parameters
    ----------
    query : pyspark.sql.streaming.StreamingQuery
        What ``writeStream.start()`` returns; of Spark Connect as well.
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
     trigger     events     late  live rows    live bytes   rows out  seconds                 watermark
           0        100        0 ...
    """
    if isinstance(query, DataFrame) or not hasattr(query, "recentProgress"):  # of Connect, it has any name
        raise InvalidNode(
            f"watch() takes a running stream, not {shown(query)}",
            hint="give it what answer.writeStream....start() returns",
        )
    if not every > 0:
        raise InvalidNode(f"every={shown(every)} is no time to wait", hint="give it a number of seconds above 0")
    show = _shower()
    for progress in micro_batches(query, every):
        show(_row(progress))


def micro_batches(query: StreamingQuery | ConnectQuery, every: float) -> Iterator[Progress]:
    """Yields what Spark tells of each micro-batch of a stream, until the stream ends; raises what it fails with."""
    last, ended, failure = -1, False, None
    while not ended:
        try:
            ended = bool(query.awaitTermination(every))  # type: ignore[arg-type]  # both take parts of a second
        except PySparkException as error:
            # What went before a failure is worth knowing as well.
            ended, failure = True, error
        for progress in query.recentProgress:
            if _is_after(progress, last):
                last = progress["batchId"]
                yield progress
    if failure is not None:
        with recovering():
            raise failure


def late_events(progress: Progress) -> int:
    """Returns how many late events Spark dropped, as it counts them."""
    return _total(progress, "numRowsDroppedByWatermark")


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
    """Whether a micro-batch is told that comes after the last one; an idle stream tells others from time to time."""
    return progress["batchId"] > last and "addBatch" in progress["durationMs"]


def _row(progress: Progress) -> list[str]:
    """Returns a line of the table for one micro-batch."""
    sent = progress["sink"]["numOutputRows"]
    return [
        str(progress["batchId"]),
        # Connect tells the total of no batch.
        cell(sum(source["numInputRows"] for source in progress["sources"])),
        cell(late_events(progress)),
        cell(_total(progress, "numRowsTotal")),
        cell(state_bytes(progress)),
        _UNTOLD if sent is None or sent < 0 else cell(sent),
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
