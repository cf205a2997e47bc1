"""Asks small queries of every kind, so that the kernels that answer them are compiled before they are needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame, SparkSession

from cetdsl.errors import InvalidNode
from cetdsl.execution.compat import as_session
from cetdsl.frontend.match_recognize import match_recognize
from cetdsl.frontend.session import pattern
from cetdsl.frontend.workload import patterns

_LOG = logging.getLogger("cetdsl.warm_up")
_NUMBERS = ("decimal", "string", "double", "log2")
_RISING = "PATTERN SEQ(A, B+) WHERE [k] AND B.x < NEXT(B).x"


def warm_up(spark: SparkSession | None = None) -> dict[str, float]:
    """Compiles the kernels of the usual queries, so that these do not wait for it later.

    Numba compiles a kernel when it is first used, and cetdsl keeps it on disk for all processes of the same user. This
    function runs a small query of every kind: aggregates in all number forms, trends, complete trends, workloads, and
    ``MATCH_RECOGNIZE``. Kernels that these do not use, such as those of rare aggregates, are still compiled on first
    use. The logger ``cetdsl.warm_up`` reports each kind when it is done.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession, optional
        The session to use; by default the active one. Kernels are compiled in the Python workers that run the few tasks
        of these queries. On a cluster, these are not workers of all machines, so there it is better to run
        ``cetdsl warm-up`` once on each machine, before Spark starts.

    Returns
    -------
    dict of str to float
        The seconds that each kind of query took; close to none if the kernels have been compiled before.

    Raises
    ------
    InvalidNode
        If ``spark`` is no session, or is left out while no session is active.

    Examples
    --------
    >>> sorted(cet.warm_up())  # doctest: +SKIP
    ['aggregates', 'complete trends', 'matches of rows', 'trends', 'workloads']
    """
    session = SparkSession.getActiveSession() if spark is None else as_session(spark)
    if session is None:
        raise InvalidNode(
            "there is no active Spark session to warm up", hint="begin with spark = SparkSession.builder.getOrCreate()"
        )
    rows = [(n, "uv"[n % 2], "ABC"[n % 3], n % 5 + 0.5, n % 4) for n in range(48)]
    events = session.createDataFrame(rows, "t int, k string, type string, x double, n bigint")
    took = {}
    for kind, answers in _KINDS.items():
        begun = time.perf_counter()
        for answer in answers(events):
            answer.collect()
        took[kind] = time.perf_counter() - begun
        _LOG.info("%s: %.1f seconds", kind, took[kind])
    return took


def _aggregates(events: DataFrame) -> Iterator[DataFrame]:
    ungrouped = (
        "PATTERN SEQ(A, B+)",
        "PATTERN SEQ(A, B+) WITHIN 24 SLIDE 6",
        "PATTERN SEQ(A, NOT C c, B+) WHERE B.x < NEXT(B).x WITHIN 24",
        "PATTERN SEQ(A, B, C) WHERE A.x < C.x",
        "PATTERN AND(A, B) WHERE A.k = B.k WITHIN 8",
    )
    for number in _NUMBERS:
        yield pattern(events, _RISING, time="t").count_trends(number=number)
        for text in ungrouped:
            yield pattern(events, text, time="t").count_trends(number=number)
    returned = "COUNT(*) AS n, SUM(B.n) AS s, AVG(B.x) AS a, MIN(B.x) AS least, MAX(LENGTH) AS longest"
    yield pattern(events, f"RETURN {returned} {_RISING}", time="t").aggregate()


def _trends(events: DataFrame) -> Iterator[DataFrame]:
    for text in (
        _RISING,
        "PATTERN SEQ(A, B, C) WHERE A.x < C.x WITHIN 9",
        "PATTERN SEQ(A, NOT C c, B) WITHIN 12 SLIDE 4",
        "PATTERN AND(A, B) WHERE A.k = B.k WITHIN 8",
    ):
        yield pattern(events, text, time="t").trends(limit=10, columns=["t"])
    yield pattern(events, "PATTERN SEQ(A, B, C) WITHIN 9", time="t").trends(10, columns=["t"], plan="greedy")


def _complete_trends(events: DataFrame) -> Iterator[DataFrame]:
    rising = pattern(events, _RISING, time="t")
    for completeness in ("maximal", "ends"):
        yield rising.complete_trends(completeness, columns=["t"])
        for number in _NUMBERS:
            yield rising.count_complete_trends(completeness, number=number)
        yield rising.sample_trends(3, seed=1, completeness=completeness)
    yield rising.top_trends(3, columns=["t"])


def _workloads(events: DataFrame) -> Iterator[DataFrame]:
    shared = {
        "a": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)",
        "c": "RETURN COUNT(*) AS n PATTERN SEQ(C, B+)",
        "b": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x",
    }
    for sharing in ("dynamic", "never"):
        for number in _NUMBERS:
            yield patterns(events, shared, time="t", sharing=sharing).aggregate(number)
    alike = {"abc": "PATTERN SEQ(A, B, C) WITHIN 9", "aba": "PATTERN SEQ(A, B, A a2) WHERE A.x < B.x WITHIN 9"}
    yield patterns(events, alike, time="t").trends(10, columns=["t"])


def _rows(events: DataFrame) -> Iterator[DataFrame]:
    for condition in ("x < PREV(x)", "x <= FIRST(down.x)"):
        yield match_recognize(
            events,
            "PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n, AVG(down.x) AS a "
            f"PATTERN (any down+ up?) DEFINE down AS {condition}, up AS x > PREV(x)",
        )


_KINDS: dict[str, Callable[[DataFrame], Iterator[DataFrame]]] = {
    "aggregates": _aggregates,
    "trends": _trends,
    "complete trends": _complete_trends,
    "workloads": _workloads,
    "matches of rows": _rows,
}
