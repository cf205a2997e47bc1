"""Finds whether a group has more events than one task can hold, where Spark limits a worker's memory."""

from __future__ import annotations

import logging
import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cetdsl.execution.source import EventFrame
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import WHOLE

_LOG = logging.getLogger("cetdsl.joins")
#: The bytes that a worker takes before it reads an event, and per event while it lists the trends of a group. By this
#: estimate 740,000 events fit into a gigabyte; in measurements, about 1,400,000 were too many.
_WORKER_BYTES, _EVENT_BYTES = 300 * 2**20, 1024
_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "": 2**20}


def worker_memory(session: SparkSession) -> int | None:
    """Returns the bytes that a Python worker may take, ``spark.executor.pyspark.memory``; None: there is no limit."""
    text = session.conf.get("spark.executor.pyspark.memory", None) or ""
    setting = re.fullmatch(r"(\d+)([bkmgt]?)b?", text.lower())
    if setting is None:
        return None
    return int(setting[1]) * _UNITS[setting[2]] // int(session.conf.get("spark.executor.cores", None) or 1)


def exceeded_room(df: DataFrame, source: Source, compiled: Compiled) -> int | None:
    """Returns how many events a worker's limit has room for if some group has more; None if there is room for all.

    This runs a job if there is such a limit.
    """
    memory = worker_memory(df.sparkSession)
    if memory is None:
        return None
    most = max((memory - _WORKER_BYTES) // _EVENT_BYTES, 0)
    frame = EventFrame(df, source, compiled)
    rows = frame.select({**frame.keys(), "u": frame.ticks})
    if source.windowing.kind == WHOLE and not source.keys:
        beyond = rows.limit(most + 1).count() > most
    else:
        # A window overlaps at most two consecutive intervals of its length.
        stretch = [] if source.windowing.kind == WHOLE else [F.floor(F.col("u") / source.windowing.length)]
        sizes = rows.groupBy(*frame.key_names, *stretch).agg(F.count("*").alias("size"))
        beyond = not sizes.filter(F.col("size") > most).isEmpty()
    if not beyond:
        return None
    _LOG.warning("a group of more than %d events is beyond the %d bytes of a worker: joins take it", most, memory)
    return most
