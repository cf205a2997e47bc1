"""Physical plans as DataFrames. Each of these modules says by ``@runs`` which operators its functions run."""

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
