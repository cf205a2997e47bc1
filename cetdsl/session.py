"""Starts the Spark session of the command line, quietly, with one clear error when it cannot start."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from cetdsl.errors import EngineError, recover
from cetdsl.java import require_java

#: What differs from Spark's defaults, because these sessions serve one query and no one watches them.
CONFIGURATION = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Hadoop's usual file system also looks for a checksum file, and cannot make its path if the name has a colon.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


@contextmanager
def spark_session(
    *, master: str | None = None, configuration: Mapping[str, str] | None = None, verbose: bool = False
) -> Iterator[SparkSession]:
    """The running Spark session if there is one, else a new one that is stopped at the end.

    ``master`` is that of ``spark-submit --master``, by default what Spark is configured for, or all local cores. With
    ``verbose`` Spark logs to stderr. Otherwise its log goes to a temporary file, and is quoted if Spark does not start.

    Raises
    ------
    MissingDependency
        If there is no Java that Spark could run on.
    EngineError
        If Spark does not start.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    require_java()
    # Workers on this machine must be this Python: only it is known to have cetdsl and Numba.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="cetdsl-", ignore_cleanup_errors=True) as scratch:
        builder = SparkSession.builder.appName("cetdsl")
        settings = {**CONFIGURATION, "spark.local.dir": scratch, "spark.sql.warehouse.dir": scratch}
        for name, value in {**settings, **(configuration or {})}.items():
            builder = builder.config(name, value)
        if master is not None:
            builder = builder.master(master)
        log = Path(scratch) / "spark.log"
        try:
            with nullcontext() if verbose else _stderr_into(log):
                session = builder.getOrCreate()
        except Exception as error:
            said = log.read_text(errors="replace").strip().splitlines()[-5:] if log.exists() else []
            raise EngineError(
                "\n  ".join([f"Spark did not start: {first_line(error)}", *said]),
                hint="--verbose shows all that Spark says",
            ) from error
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Send what this process writes to stderr to a file; the JVM started inside keeps writing there."""
    sys.stderr.flush()
    saved = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


def readable(error: BaseException) -> str:
    r"""Returns what to tell a user of an error that ended a query: the message of cetdsl's own error, or Spark's.

    An error of cetdsl may have been raised in a worker; Spark then quotes it.

    Examples
    --------
    >>> readable(RuntimeError("Traceback ...\ncetdsl.errors.NullTime: 3 rows have no time\n SQLSTATE: 38000"))
    '3 rows have no time'
    >>> readable(RuntimeError("[PATH_NOT_FOUND] Path does not exist: file:/nope. SQLSTATE: 42K03"))
    'Path does not exist: file:/nope.'
    """
    own = recover(error)
    return first_line(error) if own is None else str(own)


def first_line(error: BaseException) -> str:
    r"""Returns the one line of an error of Spark that describes it.

    Examples
    --------
    >>> first_line(RuntimeError("calling o1.x\n: java.io.IOException: disk full\n\tat a\nCaused by: x.Y: no inode"))
    'no inode'
    >>> text = "Traceback (most recent call last):\npy4j.protocol.Py4JJavaError: An error\nCaused by: x.Y: no inode"
    >>> first_line(RuntimeError(text + "\n=== Streaming Query ===\nIdentifier: [id = 1]"))
    'no inode'
    """
    # After the error that ended a stream, Spark writes the stream's plan.
    text = str(error).partition("\n=== Streaming Query ===")[0]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    traceback = text.partition("Traceback (most recent call last)")[2].splitlines()
    candidates = [
        # In this order: the end of a worker's traceback; the last cause that Java names; the error that it names first.
        *[line for line in traceback if re.match(r"(?!py4j\.)[A-Za-z][\w.]*: ", line)][-1:],
        *[line for line in lines if line.startswith("Caused by: ")][-1:],
        *[line for line in lines if re.match(r": [\w.$]+(Exception|Error): ", line)],
        *lines,
        type(error).__name__,
    ]
    line = re.sub(r"^(Caused by: |: )?(\[[A-Z_.]+\] |(?:\w+\.)+[\w$]+: )*", "", candidates[0].strip())
    return re.sub(r"\s*SQLSTATE: \w+;?$", "", line)
