"""The only module that knows Spark versions and Spark Connect."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cetdsl.analysis.schema import Field, Schema
from cetdsl.errors import CetdslError, QueryTypeError, StreamingNotSupported

if TYPE_CHECKING:
    from collections.abc import Callable


def dataframe_classes() -> tuple[type, ...]:
    """The DataFrame classes that users meet; on Connect >= 4.2 a missing attribute would be taken for a column."""
    classes: list[type] = [DataFrame]
    modules = ["pyspark.sql.classic.dataframe"]
    # Connect's own packages are an extra. Without them, importing it under `python -m` or `-c` ends the process.
    if find_spec("grpc") is not None:
        modules.append("pyspark.sql.connect.dataframe")
    for module in modules:
        try:
            found = __import__(module, fromlist=["DataFrame"]).DataFrame
        except (ImportError, PySparkException, SystemExit):
            continue
        if not issubclass(found, DataFrame):
            classes.append(found)
    return tuple(classes)


def schema_of(df: DataFrame) -> Schema:
    """Names and types of a DataFrame's columns."""
    return Schema([Field(field.name, field.dataType.simpleString()) for field in df.schema.fields])


def refuse_streaming(df: DataFrame) -> None:
    """Grouped maps over a stream silently run once per micro-batch, so a stream is refused."""
    if df.isStreaming:
        raise StreamingNotSupported(
            "a streaming DataFrame cannot be asked for trends yet",
            hint="read the same data with spark.read, or ask inside foreachBatch and mind the window edges",
        )


def session_of(df: DataFrame) -> SparkSession:
    """The session of a DataFrame."""
    session: SparkSession = df.sparkSession
    return session


@lru_cache(maxsize=1)
def function_names() -> frozenset[str]:
    """The functions that a query may call: those of ``pyspark.sql.functions``."""
    excluded = {"col", "column", "lit", "expr", "udf", "pandas_udf", "arrow_udf", "udtf", "call_udf", "call_function"}
    names = getattr(F, "__all__", None) or dir(F)
    return frozenset(
        name.lower()
        for name in names
        if callable(getattr(F, name, None)) and name[0].islower() and name not in excluded
    )


def translated(action: Callable[[], Any], doing: str) -> Any:
    """Runs an analysis step of Spark; what Spark cannot resolve becomes an error of cetdsl."""
    try:
        result = action()
        if isinstance(result, DataFrame):
            _ = result.schema  # Connect resolves nothing before it is asked
        return result
    except CetdslError:
        raise
    except PySparkException as error:
        message = str(error).split("\n")[0]
        raise QueryTypeError(
            f"Spark cannot {doing}: {message}", hint="check the types of the columns in the query"
        ) from error
