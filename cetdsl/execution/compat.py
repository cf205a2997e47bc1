"""The only module that knows Spark versions and Spark Connect."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.util import find_spec
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import ParseException, PySparkException, UnsupportedOperationException
from pyspark.errors import utils as call_sites
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from cetdsl.analysis.functions import CASTS
from cetdsl.errors import (
    SHARES,
    CetdslError,
    EngineError,
    InvalidNode,
    ParseError,
    QueryTypeError,
    StreamingNotSupported,
    UnsupportedQuery,
    recovering,
    set_shares,
    shown,
)
from cetdsl.execution.printed import printed
from cetdsl.ir.schema import Field, Schema
from cetdsl.pattern.text import in_backquotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_LOG = logging.getLogger("cetdsl.session")


def schema_of(df: DataFrame) -> Schema:
    """Returns the names and types of a DataFrame's columns."""
    fields = [Field(field.name, field.dataType.simpleString()) for field in df.schema.fields]
    return Schema(fields, is_case_sensitive(df.sparkSession))


def is_case_sensitive(session: SparkSession) -> bool:
    """Whether names of columns that differ in case alone are two names in a session."""
    return (session.conf.get("spark.sql.caseSensitive", None) or "false").lower() == "true"


def as_session(spark: object) -> SparkSession:
    """Checks and returns a session, which may be classic or of Spark Connect.

    Raises
    ------
    InvalidNode
        If it is something else.
    EngineError
        If it is stopped.
    """
    kinds = {(kind.__module__.split(".")[0], kind.__name__) for kind in type(spark).__mro__}
    if ("pyspark", "SparkSession") not in kinds:  # Connect's is no class of classic Spark
        raise InvalidNode(
            f"a session of Spark is expected, not {shown(spark)}",
            hint="hand over spark, as in spark = SparkSession.builder.getOrCreate()",
        )
    _refuse_stopped(spark)  # type: ignore[arg-type]
    return spark  # type: ignore[return-value]


def _refuse_stopped(session: SparkSession) -> None:
    """Raises if a session is stopped; in some places PySpark itself would only fail an assertion without a message."""
    context = context_of(session)
    # A stopped context has lost its JVM object, and with it the attribute startTime.
    stopped = getattr(session, "is_stopped", False) if context is None else not hasattr(context, "startTime")
    if stopped:
        raise EngineError(
            "the Spark session is stopped, and with it all of its DataFrames",
            hint="begin with spark = SparkSession.builder.getOrCreate(), read the events again, and bind the query",
        )


def alive(df: DataFrame) -> DataFrame:
    """Returns the DataFrame; raises EngineError if its session is stopped."""
    _refuse_stopped(df.sparkSession)
    return df


def as_dataframe(events: object) -> DataFrame:
    """Returns events as a DataFrame of Spark; those of pandas, or of pandas on Spark, are converted with their index.

    Raises
    ------
    InvalidNode
        If they are neither, or those of pandas and there is no active session, or Spark cannot take them.
    EngineError
        If their session is stopped.
    """
    if isinstance(events, DataFrame):
        return alive(events)
    kind, packages = type(events).__name__, type(events).__module__
    if kind == "DataFrame" and packages.startswith("pyspark.pandas."):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*index_col")  # one without names may go
            converted: DataFrame = events.to_spark(index_col=_index_names(events) or None)  # type: ignore[attr-defined]
        return converted
    if kind != "DataFrame" or not packages.startswith("pandas."):
        raise InvalidNode(
            f"events are a DataFrame of Spark, not {shown(events)}",
            hint="write cet.pattern(df, query, time=...) where df is a DataFrame of Spark, or of pandas",
        )
    session = SparkSession.getActiveSession()
    if session is None:
        raise InvalidNode(
            "events are a DataFrame of pandas, and there is no active Spark session that could take it",
            hint="begin with spark = SparkSession.builder.getOrCreate()",
        )
    names = _index_names(events)
    try:
        return session.createDataFrame(events.reset_index(names) if names else events)  # type: ignore[attr-defined]
    except PySparkException as error:
        raise InvalidNode(
            f"Spark cannot take these events of pandas: {reason_of(error)}",
            hint="give each column one type; where there are no rows: spark.createDataFrame([], 't int, type string')",
        ) from error


def _index_names(events: Any) -> list[str]:
    """Returns the names of a pandas index's levels, which are no columns; pandas' default index has none."""
    return [name for name in events.index.names if name is not None and name not in events.columns]


def refuse_streaming(df: DataFrame, asked: str, instead: str = "") -> None:
    """Raises if the DataFrame is a stream, because the request needs all events, or a job at once.

    The error says what the user can ask ``instead``, if there is something.
    """
    if df.isStreaming:
        raise StreamingNotSupported(
            f"a streaming DataFrame cannot be asked for {asked}",
            hint=f"{instead}store its events, and ask for it where they are read with spark.read",
        )


def refuse_limited(df: DataFrame, limit: int | None) -> None:
    """Raises if a limited number of trends of a stream is requested."""
    if limit is not None:
        refuse_streaming(df, "a limited number of trends")


#: The key of a column's metadata under which Spark stores the delay of a watermark, in milliseconds.
WATERMARK = "spark.watermarkDelayMs"


def watermarks_of(df: DataFrame) -> dict[str, int] | None:
    """Returns the delays of a stream's watermarks in microseconds, by column; None for a batch."""
    if not df.isStreaming:
        return None
    noted = {field.name: field.metadata.get(WATERMARK) for field in df.schema.fields}
    return {name: 1000 * int(delay) for name, delay in noted.items() if delay is not None}


#: The setting by which Spark executes equal shuffles of a query once.
REUSE = "spark.sql.exchange.reuse"
#: Operators without an exchange: behind them, Spark finds the watermark, however often the stream is read.
_NARROW = frozenset(
    """AdaptiveSparkPlan ArrowEvalPython BatchEvalPython Coalesce CollectMetrics DeserializeToObject EventTimeWatermark
    Expand Filter Generate MapElements MapInArrow MapInPandas MapPartitions Project PythonMapInArrow Sample
    SerializeFromObject StreamingRelation Union UpdateEventTimeWatermarkColumn""".split()  # noqa: SIM905
)
#: The operator in a line of a plan's text.
_OPERATOR = re.compile(r"(?:[ :]  )*(?:[:+]- )?(?:\*\(\d+\) )?(\w*)")


def refuse_second_reader(stream: DataFrame) -> None:
    """Raises if a query that reads a stream several times might miss rows, as Spark exchanges it behind its watermark.

    Spark executes equal exchanges of a query once, and of the operators behind an exchange that is executed for another
    reader it does not know the watermark (``PropagateWatermarkSimulator`` of Spark 4). So their state is never closed,
    and they never answer. Whether a join exchanges the stream is only decided for each micro-batch, by its size.

    Raises
    ------
    StreamingNotSupported
        If there may be an exchange between the watermark and the query, and Spark does execute equal ones once.
    """
    if (stream.sparkSession.conf.get(REUSE, None) or "true").lower() == "false":
        return
    if not is_narrow_behind_watermark(printed(stream.explain)):
        raise StreamingNotSupported(
            "this plan reads the stream several times, and the stream may be shuffled behind its watermark, as by a "
            "groupBy, dropDuplicates, join or repartition: Spark would shuffle once for all readers, and all but the "
            "first would lose the watermark, and never answer",
            hint=f'set {REUSE} to "false" before the query is bound, and whenever the stream is started, or ask one '
            "query at a time; behind a repartition or a join with a table, it is enough to call withWatermark there",
        )


def is_narrow_behind_watermark(plan: str) -> bool:
    r"""Whether only operators without an exchange stand above the watermarks in the text of a physical plan.

    A line that names no operator, because a constant or a column's name has a line break, counts as an operator with an
    exchange, and so does a text that was cut.

    Examples
    --------
    >>> is_narrow_behind_watermark("== Physical Plan ==\nExchange hashpartitioning(g)\n+- EventTimeWatermark t")
    False
    >>> is_narrow_behind_watermark("== Physical Plan ==\nEventTimeWatermark t\n+- Exchange hashpartitioning(g)")
    True
    """
    lines = plan.strip().splitlines()[1:]
    operators = [found[1] for found in map(_OPERATOR.match, lines) if found is not None]
    if "EventTimeWatermark" not in operators:
        return False
    last = len(operators) - 1 - operators[::-1].index("EventTimeWatermark")
    return set(operators[:last]) <= _NARROW


#: The setting that names the provider of state stores, and the provider that arbitrary stateful processing requires.
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def why_no_state_of_events(session: SparkSession) -> str | None:
    """Returns why there is no arbitrary stateful processing in a session; None if there is.

    PySpark has ``transformWithStateInPandas`` since 4.0. It also has ``transformWithState`` over rows since 4.1, but
    that holds all rows of a task's answer at once, so cetdsl uses the former in all versions.
    """
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        return "the package protobuf, by which PySpark reaches such state, is not installed"
    store = session.conf.get(STATE_STORE, None) or "the default"
    if "RocksDB" in store:
        return None
    return f"{STATE_STORE} is {store.rpartition('.')[2]}, and it takes RocksDB to keep each event once"


def shuffle_tasks(session: SparkSession) -> int:
    """Returns how many tasks a shuffle sends rows to, which is also the number of shares of keys in parcels.

    If the setting is no number, such as ``auto`` of some platforms, it is the number of tasks that can run at the same
    time.
    """
    return _set_shares(session) or parallelism(session)


def kept_shares(session: SparkSession) -> int:
    """Returns into how many shares of their keys a stream divides the rows that it keeps: the tasks of a shuffle.

    Raises
    ------
    StreamingNotSupported
        If the setting is no number: a later run could use another one, and would not find the kept rows.
    """
    shares = _set_shares(session)
    if shares is None:
        raise StreamingNotSupported(
            f"a stream keeps rows in as many shares of their keys as {SHARES} says, and that is "
            f"{session.conf.get(SHARES)!r}",
            hint=f"{set_shares(parallelism(session))} before the stream is asked",
        )
    return shares


def _set_shares(session: SparkSession) -> int | None:
    setting = session.conf.get(SHARES) or ""  # a second argument would replace Spark's own default
    return int(setting) if setting.isdecimal() else None


#: The bytes of rows that Spark sends to a Python worker at once, and the value that stands for any number.
BATCH_BYTES, UNMEASURED = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)


def leave_batches_unmeasured(session: SparkSession) -> None:
    """Makes Spark cut rows for Python workers into batches by their number alone, unless the session limits bytes.

    To respect a limit in bytes, newer versions of Spark add up the sizes of all columns after each row, which takes
    about as long as sending the row, and their default is such a limit. Without a limit, a batch has as many rows as
    ``spark.sql.execution.arrow.maxRecordsPerBatch`` says, 10,000 by default in all versions.
    """
    try:
        if session.conf.get(BATCH_BYTES, None) is not None:
            return
        session.conf.set(BATCH_BYTES, UNMEASURED)
    except PySparkException:  # some platforms do not allow setting it
        return
    _LOG.info("%s is %s from now on in this session, as measuring each row takes long", BATCH_BYTES, UNMEASURED)


#: If Spark has no estimate, it reports about 2^63 bytes; estimates from here on count as none.
_NO_ESTIMATE = 1 << 60
#: The format of Spark's estimate: "37.4 MiB", and from 2^63 bytes on "1.23E+22 B".
_ESTIMATE = re.compile(r"Statistics\(sizeInBytes=([\d.]+(?:E\+?\d+)?) ([KMGTPE]?)i?B")
#: The estimates of :func:`bytes_of`, by DataFrame.
_ESTIMATES: WeakKeyDictionary[DataFrame, dict[tuple[str, ...], int | None]] = WeakKeyDictionary()
_ASKS_ZONE = "timezone" in signature(to_arrow_type).parameters
#: The number of tasks that share one large key if the server of Spark Connect does not tell how many it can run.
USUAL_PARALLELISM = 8


def context_of(session: SparkSession) -> SparkContext | None:
    """Returns the context of a session; None on Connect, which has only settings."""
    try:
        return session.sparkContext
    except PySparkException:
        return None


def parallelism(session: SparkSession) -> int:
    """Returns how many tasks can run at the same time, as far as Spark knows; runs no job."""
    context = context_of(session)
    if context is not None:
        return int(context.defaultParallelism)
    setting = session.conf.get("spark.default.parallelism", None)
    if setting is not None:
        return int(setting)
    local = re.fullmatch(r"local\[(\d+|\*).*\]", session.conf.get("spark.master", None) or "")
    if local:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    executors = session.conf.get("spark.executor.instances", None)
    if executors is None:
        return USUAL_PARALLELISM
    return int(executors) * int(session.conf.get("spark.executor.cores", None) or 1)


def is_of_spark(error: Exception) -> bool:
    """Whether an error is Spark's own: captured from the JVM, or sent over Connect.

    Such errors are recognized by their module, as they have no common base class.
    """
    return any(kind.__module__.split(".")[0] in ("pyspark", "py4j", "grpc") for kind in type(error).__mro__)


def bytes_of(df: DataFrame, columns: Sequence[str]) -> int | None:
    """Returns about how many bytes of some columns Spark expects to read; None if it has no estimate.

    Spark optimizes the plan for this estimate, but runs no job. The estimate is cached by DataFrame and columns. For a
    join, unless tables have statistics, Spark assumes that every row may join every other.
    """
    if df.isStreaming:
        return None
    known, asked = _ESTIMATES.setdefault(df, {}), tuple(columns)
    if asked not in known:
        known[asked] = _estimated_bytes(df, asked)
    return known[asked]


def estimated_like(part: DataFrame, whole: DataFrame) -> None:
    """Makes :func:`bytes_of` return for some rows of a DataFrame what it returns for all, without asking Spark."""
    _ESTIMATES[part] = _ESTIMATES.setdefault(whole, {})


def _estimated_bytes(df: DataFrame, columns: Sequence[str]) -> int | None:
    # PySpark would log the error of a name that several columns have.
    names = Counter(map(str.lower, df.columns))
    if any(names[name.lower()] > 1 for name in columns):
        return None
    try:
        with WITHOUT_CALL_SITES:
            needed = df.select(*map(in_backquotes, columns))
        told: str = needed.sparkSession.sql("EXPLAIN COST SELECT * FROM {needed}", needed=needed).collect()[0][0]
    except Exception as error:
        if not is_of_spark(error):
            raise
        return None  # an error in the plan is reported when the plan runs
    estimate = _ESTIMATE.search(told)
    size = None if estimate is None else int(float(estimate[1]) * 1024 ** "BKMGTPE".index(estimate[2]))
    return size if size is not None and size < _NO_ESTIMATE else None


def arrow_type(kind: DataType) -> pa.DataType:
    """Returns the Arrow type in which Spark expects a column from a Python worker."""
    # Newer versions require a time zone for timestamps; their values are microseconds in UTC in any case.
    convert = partial(to_arrow_type, timezone="UTC") if _ASKS_ZONE else to_arrow_type
    return convert(kind, error_on_duplicated_field_names_in_struct=True)


def noted_type(field: StructField) -> str | None:
    """Returns the type that a column of texts was declared with, as ``char(5)``; None for a plain string.

    Spark stores this type in the column's metadata, and ignores trailing blanks of a ``char`` in comparisons.
    """
    noted: str | None = field.metadata.get("__CHAR_VARCHAR_TYPE_STRING")
    return noted


def refuse_unsendable(schema: StructType) -> None:
    """Raises if Spark cannot send values of some column to a Python worker, or take them back."""
    for field in schema.fields:
        try:
            arrow_type(field.dataType)
        except UnsupportedOperationException:
            raise QueryTypeError(
                f"a struct in {field.dataType.simpleString()} has two fields of one name, and Spark cannot exchange "
                "such values with Python workers",
                hint="cast the column to a struct whose fields have names of their own before asking, or do not show "
                "it: columns=[...]",
            ) from None
        except (PySparkException, ValueError):  # Arrow raises the latter for array(), an array of nothing
            raise QueryTypeError(
                f"Spark cannot exchange values of type {field.dataType.simpleString()} with Python workers",
                hint="cast the column to months, a number or a string before asking, or do not show it: columns=[...]",
            ) from None


@lru_cache(maxsize=1)
def function_names() -> frozenset[str]:
    """Returns the functions that a query may call: those of ``pyspark.sql.functions``, and casts."""
    excluded = {"col", "column", "lit", "expr", "udf", "pandas_udf", "arrow_udf", "udtf", "call_udf", "call_function"}
    # The module's __all__ lacks some, such as chr, so all names count that the module does not import from elsewhere.
    defined = {name for name in dir(F) if str(getattr(getattr(F, name), "__module__", "")).startswith(F.__name__)}
    names = {*getattr(F, "__all__", ()), *defined}
    return frozenset(CASTS) | {
        name.lower()
        for name in names
        if callable(getattr(F, name, None)) and name[0].islower() and name not in excluded
    }


class _WithoutCallSites:
    """A context in which PySpark does not record the line of Python that creates a column, for Spark's error messages.

    Lines of cetdsl are of no use to users, and for each column PySpark would make some ten more calls to the JVM: a
    third of the time of making a plan. PySpark's switch applies to the whole process. So columns that users create in
    other threads in the meantime have no recorded line either, and the last thread that leaves restores the switch.
    Versions of PySpark without the switch record the lines.
    """

    _SWITCH = "_enable_debugging_cache"

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = getattr(call_sites, self._SWITCH, None)
                setattr(call_sites, self._SWITCH, False)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                setattr(call_sites, self._SWITCH, self._before)


#: The only instance in the process: plans of all threads are made within it.
WITHOUT_CALL_SITES = _WithoutCallSites()


@contextmanager
def own_errors() -> Iterator[None]:
    """Turns errors while a DataFrame is made, for example by jobs of round-by-round joins, into cetdsl's own errors.

    It also translates the error of plans that nest deeper than the hundred levels that Spark Connect's messages allow,
    and keeps PySpark from recording lines of cetdsl.
    """
    try:
        with recovering(), WITHOUT_CALL_SITES:
            yield
    except Exception as error:
        if type(error).__name__ != "DecodeError":  # of protobuf, which classic Spark does without
            raise
        raise UnsupportedQuery(
            "Spark Connect cannot read a plan as deep as that of this query and its DataFrame together",
            hint="compute inner parts of terms as columns, and checkpoint() or save the DataFrame before asking",
        ) from error


def condition_of(error: BaseException | None) -> str:
    """Returns Spark's name for the error condition; "" if it has none.

    Examples
    --------
    >>> condition_of(ValueError("of Python"))
    ''
    """
    return (error.getCondition() or "") if isinstance(error, PySparkException) else ""


#: The hint for a syntax error that Spark has found.
SYNTAX_HINT = "look for an operand, a comma or a parenthesis that is missing or one too many"
#: The place of an error in Spark's message, which refers to a text that only Spark has seen.
_PLACE = re.compile(r"(?:;? line \d+ pos \d+;?| ?\(line \d+, pos \d+\))\s*$")


def reason_of(error: PySparkException) -> str:
    """Returns the first line of Spark's message, without the place and the plan."""
    # The parser's messages begin with an empty line.
    return _PLACE.sub("", str(error).strip().split("\n")[0])


#: What Spark was asked to do, for :func:`translated`, where an error is about a term of the query.
EVALUATE_TERMS = "evaluate the query's terms"


def translated(action: Callable[[], Any], doing: str) -> Any:
    """Runs an action of Spark's analysis, and turns an error about what cannot be resolved into one of cetdsl."""
    try:
        result = action()
        if isinstance(result, DataFrame):
            _ = result.schema  # Spark Connect resolves nothing before the schema is requested
        return result
    except CetdslError:
        raise
    except PySparkException as error:
        if "SESSION" in condition_of(error):
            raise  # the session was stopped, which is no error of the query
        raise untranslatable(doing, error) from error


def untranslatable(doing: str, error: PySparkException) -> ParseError | QueryTypeError:
    """Returns the error that Spark cannot do something, with the first line of Spark's message.

    Examples
    --------
    >>> from pyspark.errors import AnalysisException
    >>> untranslatable("type a term", AnalysisException("no plus for maps")).message
    'Spark cannot type a term: no plus for maps'
    """
    message = f"Spark cannot {doing}: {reason_of(error)}"
    if isinstance(error, ParseException):
        return ParseError(message, hint=SYNTAX_HINT)
    return QueryTypeError(message, hint="check the types of the columns in the query")


def observed_fields(row: Row) -> dict[str, Any]:
    """Returns the observed metrics by name: the fields of a row, or on Spark Connect its values and their schema.

    Examples
    --------
    >>> schema = {"type": "struct", "fields": [{"name": "rows", "type": "long"}]}
    >>> observed_fields(Row(rows=3)) == observed_fields(Row(values=[3], schema=schema)) == {"rows": 3}
    True
    """
    fields = row.asDict()
    if set(fields) == {"values", "schema"}:
        return {field["name"]: value for field, value in zip(fields["schema"]["fields"], fields["values"], strict=True)}
    return fields
