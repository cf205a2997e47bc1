"""Measures contestants in turn, and the memory of Spark's Python workers and of single actions."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

_PROC = Path("/proc")
_EVERY = 0.1  # seconds between looks at the workers
_MEGABYTE = 1e6


class WorkerMemory:
    """The peak memory of the Python workers below this process while the block runs (Linux only).

    Linux keeps each process's own peak, so none is missed between two looks; it is reset when the block begins.

    Attributes
    ----------
    largest : float
        Peak of the largest worker, in megabytes; 0 where no worker ran or there is no ``/proc``.
    together : float
        Peak of the sum over all workers, from samples; a page that several share is counted once. 0 without samples.

    Parameters
    ----------
    sampled : bool
        Whether to take samples. Linux goes through all pages of a process for one: 8 ms for one of 250 MB.
    """

    def __init__(self, *, sampled: bool) -> None:
        self._sampled = sampled
        self.largest = self.together = 0.0
        self._stop = threading.Event()
        self._known: dict[int, bool] = {}
        self._idle: dict[int, int] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        for pid in self._workers():
            self._idle[pid] = _ticks(pid)
            _write(_PROC / str(pid) / "clear_refs", "5")
        if self._sampled:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._sampled:
            self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        # Workers that other contestants left behind are not counted while they only wait.
        busy = [pid for pid in self._workers() if _ticks(pid) > self._idle.get(pid, 0)]
        self.largest = max([self.largest, *(_megabytes(pid, "status", "VmHWM") for pid in busy)])
        if self._sampled:
            self.together = max(self.together, sum(_megabytes(pid, "smaps_rollup", "Pss") for pid in busy))

    def _workers(self) -> list[int]:
        if not _PROC.is_dir():
            return []
        present = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
        for pid in present:
            if pid not in self._known:
                self._known[pid] = _is_worker(pid)
        return [pid for pid in present if self._known[pid]]


def _is_worker(pid: int) -> bool:
    command = _read(_PROC / str(pid) / "cmdline")
    if "pyspark.daemon" not in command and "pyspark.worker" not in command:
        return False
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = int(_stat(pid)[1])
    return False


def _stat(pid: int) -> list[str]:
    # The name of the command, in parentheses, may itself hold spaces.
    return _read(_PROC / str(pid) / "stat").rpartition(")")[2].split() or ["0"] * 20


def _ticks(pid: int) -> int:
    """Processor time used so far, in units of 10 ms."""
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12])


def _megabytes(pid: int, file: str, name: str) -> float:
    """A size of a process, by its name in one of the files of ``/proc``, in megabytes."""
    lines = dict(line.split(":", 1) for line in _read(_PROC / str(pid) / file).splitlines() if ":" in line)
    return int(lines.get(name, "0 kB").split()[0]) * 1024 / _MEGABYTE


def processor_seconds() -> float:
    """Processor time that this process and all below it have used so far (Linux only, else 0)."""
    if not _PROC.is_dir():
        return 0.0
    stats = {int(entry.name): _stat(int(entry.name)) for entry in _PROC.iterdir() if entry.name.isdigit()}
    below = {os.getpid()}
    for pid in sorted(stats):
        chain = [pid]
        while chain[-1] in stats and chain[-1] not in below:
            chain.append(int(stats[chain[-1]][1]))
        if chain[-1] in below:
            below.update(chain)
    # Own time, and that of children which have ended and been waited for.
    ticks = sum(int(stats[pid][field]) for pid in below & stats.keys() for field in (11, 12, 13, 14))
    return ticks / os.sysconf("SC_CLK_TCK")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


def _write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # not ours to reset, or ended
        path.write_text(text)


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def shuffled(spark: SparkSession, action: Callable[[], object]) -> float:
    """The megabytes that the stages of an action write for shuffles, as classic Spark counts them."""
    context: Any = spark.sparkContext
    store, no_quantiles = context._jsc.sc().statusStore(), context._gateway.new_array(context._jvm.double, 0)

    def written() -> int:
        stages = store.stageList(None, False, False, no_quantiles, None)
        return sum(stages.apply(number).shuffleWriteBytes() for number in range(stages.size()))

    before = written()
    action()
    return (written() - before) / _MEGABYTE


def held(action: Callable[[], object]) -> int:
    """The most bytes of Python's objects and of arrays that an action holds at a time."""
    gc.collect()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def balanced(names: Sequence[str]) -> list[list[str]]:
    """Returns orders of contestants in which, together, each comes directly after each other one equally often.

    This is Williams' design (Australian Journal of Scientific Research A 2, 1949): a Latin square whose first row is
    0, 1, n - 1, 2, n - 2, ..., and for an odd number of contestants its mirror image, too.

    Examples
    --------
    >>> balanced("ABCD")
    [['A', 'B', 'D', 'C'], ['B', 'C', 'A', 'D'], ['C', 'D', 'B', 'A'], ['D', 'A', 'C', 'B']]
    """
    count = len(names)
    first = [(k + 1) // 2 if k % 2 else -(k // 2) for k in range(count)]
    square = [[names[(start + place) % count] for place in first] for start in range(count)]
    return square + [row[::-1] for row in square] if count % 2 else square


def take_turns(contestants: dict[str, Callable[[], object]], runs: int) -> dict[str, dict[str, Any]]:
    """Runs the contestants in turn, after one warm-up each, in the orders of :func:`balanced`.

    Returns
    -------
    dict
        Per contestant ``seconds`` and ``processor_seconds`` of each run, their medians ``median`` and
        ``processor_median``, ``warm_up``, and the workers' peak memory, ``largest_worker_mb`` over all runs and
        ``all_workers_mb`` in the warm-up.
    """
    results: dict[str, dict[str, Any]] = {name: {"seconds": [], "processor_seconds": []} for name in contestants}
    orders = balanced(list(contestants))
    for turn in range(runs + 1):
        # The contestant after the slowest one finds the caches cold, so each of them must come after it as often.
        for name in orders[turn % len(orders)]:
            action, result = contestants[name], results[name]
            with WorkerMemory(sampled=turn == 0) as memory:
                before = processor_seconds()
                took = seconds(action)
                used = processor_seconds() - before
            if turn == 0:
                result["warm_up"] = round(took, 6)
            else:
                result["seconds"].append(round(took, 6))
                result["processor_seconds"].append(round(used, 2))
            result["largest_worker_mb"] = max(result.get("largest_worker_mb", 0), round(memory.largest))
            result["all_workers_mb"] = max(result.get("all_workers_mb", 0), round(memory.together))
    for result in results.values():
        result["median"] = round(median(result["seconds"]), 6)
        result["processor_median"] = round(median(result["processor_seconds"]), 2)
    return results
