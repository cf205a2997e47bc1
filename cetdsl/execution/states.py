"""What the state of a stream holds is told with it, so that another query never reads it as its own."""

from __future__ import annotations

from hashlib import sha256

from pyspark.sql import Column
from pyspark.sql import functions as F

from cetdsl.errors import OTHER_STATE, OTHER_STATE_ADVICE, OtherState
from cetdsl.execution.expressions import raised

#: Counts the ways in which rows have been put into state: another one where the same query reads them otherwise.
STATE_VERSION = 1


def of_same_meaning(rows: Column, meaning: str) -> Column:
    """Returns collected rows, an aggregate; raises where some were collected under another meaning.

    Spark compares the types of state with those of the query that goes on from a checkpoint, but not what is inside
    collected rows, so that it would read those of another query as if they were this one's. Each row adds the number of
    its meaning to its group.
    """
    digest = sha256(f"{STATE_VERSION} {meaning}".encode()).digest()
    number = F.lit(int.from_bytes(digest[:8], "big", signed=True))
    error = raised(
        OtherState,
        OTHER_STATE,
        hint=OTHER_STATE_ADVICE,
        kind="boolean",
    )
    is_own = F.when((F.min(number) == number) & (F.max(number) == number), F.lit(True)).otherwise(error)
    return F.when(is_own, rows)
