"""What goes wrong on a worker, or in the JVM, reaches the user as an error of cetdsl, on each kind of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

import cetdsl as cet
from cetdsl import errors
from cetdsl.errors import CountOverflow, EngineError, GroupTooLarge, MissingDependency, NullTime, recover, recovering
from cetdsl.execution.worker import map_stage
from cetdsl.kernels import entry
from cetdsl.session import readable

pytestmark = pytest.mark.simple_plans

KERNEL = "PATTERN B+ WHERE B.x < NEXT(B).x"
PLAIN = "PATTERN B+ GROUP BY type"
#: Trends of one event each, which the planner does not know.
SINGLE = "PATTERN B+ WHERE SUM(B.x) = FIRST(B).x AND SUM(B.x) = LAST(B).x AND SUM(B.x) > 0"


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    """200 events with growing x; a column without a time; weights of which two add up to more than 64 bits."""
    return spark.range(200).select(
        F.col("id").alias("t"),
        F.when(F.col("id") > 1, F.col("id")).alias("late"),
        F.lit("B").alias("type"),
        F.col("id").alias("x"),
        (F.col("id") * 0 + 2**62).alias("weight"),
        F.lit("9" * 38).cast("decimal(38,0)").alias("huge"),
    )


def first(events: Any, number: int) -> Any:
    return events.filter(F.col("t") < number)


B = cet.event("B")
#: An answer that fails when it runs, its class, and what its message says.
FAILING: dict[str, tuple[Callable[[Any], Any], type[errors.CetdslError], str]] = {
    "a missing time, in a kernel": (
        lambda events: events.pattern(KERNEL, time="late").count_trends(),
        NullTime,
        "the time column 'late' is NULL in 2 rows",
    ),
    "a missing time, in the JVM": (
        lambda events: first(events, 4).pattern(PLAIN, time="late").count_trends(),
        NullTime,
        "the time column 'late' is NULL in 2 rows",
    ),
    "a count, in a kernel": (
        lambda events: events.pattern(KERNEL, time="t").count_trends("n"),
        CountOverflow,
        "'n' is about 2^200.0 in ",
    ),
    "a count, in the JVM": (
        lambda events: events.pattern(PLAIN, time="t").count_trends("n"),
        CountOverflow,
        "'n' of group (B) does not fit DECIMAL(38, 0)",
    ),
    "a sum over listed trends": (
        lambda events: first(events, 4).pattern(SINGLE, time="t").aggregate(total=cet.sum(B.huge)),
        CountOverflow,
        "a sum over enumerated trends has more than 38 digits",
    ),
    "a sum over one trend": (
        lambda events: first(events, 4).pattern("PATTERN B+ WHERE SUM(B.huge) > 0", time="t").count_trends(),
        CountOverflow,
        "the sum over one trend has more than 38 digits",
    ),
    "the weight of a trend": (
        lambda events: first(events, 4).pattern(KERNEL, time="t").top_trends(1, by=cet.sum(B.weight)),
        CountOverflow,
        "the values of a trend, or of its last events, have a sum",
    ),
    "too little memory": (
        lambda events: events.pattern(KERNEL, time="t").complete_trends("ends", "m-cet", memory_limit=2000),
        GroupTooLarge,
        "the whole input: the graph of 200 events takes ",
    ),
    "too little memory for trends that are compared": (
        lambda events: (
            first(events, 12).pattern(KERNEL, time="t").complete_trends("ends", "definition", memory_limit=2000)
        ),
        GroupTooLarge,
        "the whole input has more complete trends than there is memory for",
    ),
}


#: Of each class, as from workers and from the JVM, Connect hands on one.
ALSO_ON_CONNECT = {
    "a missing time, in a kernel",
    "a missing time, in the JVM",
    "a count, in a kernel",
    "a count, in the JVM",
    "too little memory",
}


@pytest.mark.parametrize(
    "what", [what if what in ALSO_ON_CONNECT else pytest.param(what, marks=pytest.mark.classic) for what in FAILING]
)
def test_the_message_comes_first_and_the_class_can_be_had(events: Any, what: str) -> None:
    ask, kind, message = FAILING[what]
    with pytest.raises(Exception, match=rf"cetdsl\.errors\.{kind.__name__}: ") as failure:
        ask(events).collect()
    text = str(failure.value)
    # Before our class and message stands what Spark calls such errors, and no frame of anybody's code.
    before, _, after = text.partition(f"cetdsl.errors.{kind.__name__}: ")
    assert "Traceback" not in before
    assert " at " not in before
    assert len(before.splitlines()) <= 3
    found = recover(failure.value)
    assert type(found) is kind
    assert found.message in after
    assert found.message.startswith(message)
    assert "\n" not in found.message
    assert found.hint
    assert "\n" not in found.hint
    assert readable(failure.value) == str(found)


class Recorded:
    """In place of a DataFrame: what it is to run on workers."""

    function: Callable[[Any], Any]

    def __init__(self, session: Any) -> None:
        self.sparkSession = session

    def mapInArrow(self, function: Any, schema: Any) -> Recorded:  # noqa: N802 - Spark's name
        self.function = function
        return self


def failing_stage(events: Any, error: BaseException) -> Any:
    """A kernel stage that raises this error."""
    stage = map_stage(Recorded(events.sparkSession), "runs", None, StructType().add("x", IntegerType())).function  # type: ignore[arg-type]

    def run(batches: Any) -> Any:
        import sys
        from types import ModuleType

        if isinstance(error, ImportError):
            sys.modules["cetdsl.kernels.entry"] = None  # type: ignore[assignment]
        else:
            from cetdsl.kernels.wire import runs

            def run_stream(told: Any, batches: Any) -> Any:
                raise error

            assert isinstance(runs, ModuleType)
            runs.run_stream = run_stream
        yield from stage(batches)

    return first(events, 1).select(F.col("x").cast("int")).mapInArrow(run, "x int")


@pytest.mark.parametrize(
    ("raised", "kind", "message", "hint"),
    [
        (EngineError("out of order", hint="report it"), EngineError, "out of order", "report it"),
        (MemoryError(), GroupTooLarge, "a task of the stage 'runs' needs more than this worker's memory", "shorten"),
        (pa.ArrowMemoryError("malloc"), GroupTooLarge, "a task of the stage 'runs' needs more", "shorten"),
        (ImportError(), MissingDependency, "a Python worker cannot import cetdsl's kernels", "install the same cetdsl"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_no_query_shows(
    events: Any, raised: BaseException, kind: type[Exception], message: str, hint: str
) -> None:
    with pytest.raises(Exception, match=rf"cetdsl\.errors\.{kind.__name__}: ") as failure:
        failing_stage(events, raised).collect()
    assert "Traceback" not in str(failure.value)
    found = recover(failure.value)
    assert type(found) is kind
    assert found.message.startswith(message)
    assert found.hint is not None
    assert found.hint.startswith(hint)


def test_what_the_library_runs_raises_its_own_classes(events: Any, tmp_path: Any) -> None:
    late = events.pattern(KERNEL, time="late")
    with pytest.raises(NullTime, match="NULL in 2 rows") as failure:
        late.explain("survey")
    assert type(failure.value.__context__).__name__ == "PythonException"
    with pytest.raises(NullTime, match="NULL in 2 rows"):
        late.complete_trends(algorithm="joins")
    with pytest.raises(NullTime, match="NULL in 2 rows"):
        _ = late.graph("joins").edges
    with pytest.raises(NullTime, match="NULL in 2 rows"):
        events.patterns({"q": f"RETURN COUNT(*) {KERNEL}"}, time="late").explain(measured=True)


def test_the_user_gets_them_around_any_action(events: Any, tmp_path: Any) -> None:
    answer = events.pattern(KERNEL, time="late").count_trends()
    actions: list[Callable[[], Any]] = [
        answer.toArrow,
        lambda: list(answer.toLocalIterator()),
        lambda: answer.write.parquet(str(tmp_path / "answer")),
    ]
    for action in actions:
        with pytest.raises(NullTime, match="NULL in 2 rows") as failure, recovering():
            action()
        assert failure.value.hint
    with pytest.raises(ZeroDivisionError), recovering():
        _ = 1 / 0
    own = NullTime("a message")
    with pytest.raises(NullTime) as failure, recovering():
        raise own
    assert failure.value is own


@pytest.mark.parametrize("kind", [ImportError, OSError, MemoryError, SystemError])
def test_libraries_that_do_not_load_are_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def import_module(name: str) -> Any:
        raise kind("failed to map segment from shared object")

    monkeypatch.setattr(entry, "import_module", import_module)
    with pytest.raises(
        MissingDependency, match=r"failed to map segment(.|\n)*hint: where spark.executor.pyspark.memory"
    ):
        next(entry.run_stage("aggregate", b"", iter(())))


TOLD = """\
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: cetdsl.errors.{}: a sentence
  hint: another one
 SQLSTATE: 38000
\tat org.apache.spark
"""


@pytest.mark.parametrize("name", sorted(name for name in errors.__all__ if name[0].isupper()))
def test_every_class_is_restored(name: str) -> None:
    found = recover(RuntimeError(TOLD.format(name)))
    assert type(found) is getattr(errors, name)
    assert (found.message, found.hint) == ("a sentence", "another one")
    assert str(found) == "a sentence\n  hint: another one"


def test_an_unknown_class_is_an_error_of_the_engine() -> None:
    found = recover(RuntimeError(TOLD.format("OfAnotherVersion")))
    assert type(found) is EngineError
    assert recover(RuntimeError("Job aborted: my own error")) is None
    plan = "[INTERNAL_ERROR] raise_error(concat(cetdsl.errors.NullTime: the time column 't' is NULL in , n))"
    assert recover(RuntimeError(plan)) is None


@pytest.mark.parametrize(
    "text",
    [
        "Traceback ...\nModuleNotFoundError: No module named 'pyarrow'\n",
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark "
        "cannot run with different minor versions.\nPlease check",
        'java.io.IOException: Cannot run program "python3": error=2, No such file or directory\n\tat x',
    ],
)
def test_another_python_in_the_workers_is_said_so(text: str) -> None:
    cause = RuntimeError(text)
    error = RuntimeError("Job aborted due to stage failure")
    error.__cause__ = cause
    found = recover(error)
    assert type(found) is MissingDependency
    assert "Spark's Python workers are another Python" in found.message
    assert "os.environ['PYSPARK_PYTHON'] = sys.executable" in str(found.hint)
    assert "\n" not in found.message
    assert re.search(r"pyarrow|different minor versions\.$|No such file", found.message)
