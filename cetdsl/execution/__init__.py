"""Runs physical plans as DataFrames. The imported modules register, by ``@runs``, the functions that run operators."""

from cetdsl.execution import (  # noqa: F401
    aggregate,
    complete,
    detect_joins,
    detection,
    exchange,
    fold,
    join_paths,
    join_together,
    joined_counts,
    matches,
    trends,
    trends_together,
    workload,
)
