"""What is measured against what, and the limits; one function per race."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import attrs
import pyarrow as pa
from events import TEXT_KEYS, Events
from measure import seconds, take_turns
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

import cetdsl as cet
from cetdsl.analysis import Binding, analyse
from cetdsl.execution import exchange as exchanges
from cetdsl.execution.compat import bytes_of, function_names, schema_of
from cetdsl.execution.operators import execute, run
from cetdsl.ir.operators import Operator, Propagate, Scan
from cetdsl.ir.sorting import AS_USUAL, KERNEL, RUNS, SPARK, AskedSort
from cetdsl.pattern.expressions import Aggregate
from cetdsl.planning.planner import Decision, plan_aggregate
from cetdsl.planning.sorting import exchanged
from cetdsl.planning.strategies.fold import fold
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.rewrite import rewrite

#: Megabytes that a Python worker may use at its peak.
MEMORY_LIMIT = 500
A, B = cet.events("A", "B")
AFTER_A = cet.seq(A, cet.kleene(B)).group_by("key")
RISING = cet.kleene(B).where(B.price < cet.next_(B).price)

Result = dict[str, Any]


class Skipped(Exception):
    """Raised if a race is not run; says why."""


class Verdict(NamedTuple):
    """One line of the report: a figure and its limit (None: told, not judged).

    The figure is how many times as long as ``against`` the ``candidate`` takes; if ``against`` is empty, its seconds.
    """

    what: str
    candidate: str
    against: str
    limit: float | None


def floor(
    df: DataFrame, value: Column, keys: Sequence[str] = ("key",), order: Sequence[str] = ("time",)
) -> Callable[[], None]:
    """Reads the columns, shuffles by key, sorts by key and time and sums one column: what any answer has to do.

    The column is a double, whose sum depends on the order of rows, so that Spark cannot leave the sort out.
    """

    def once() -> DataFrame:
        rows = df.select(*keys, *order, value.alias("value"))
        return rows.repartition(*keys).sortWithinPartitions(*keys, *order).agg(F.sum("value"))

    with contextlib.redirect_stdout(io.StringIO()) as plan:
        once().explain()
    if f"Sort [{keys[0]}" not in plan.getvalue() or f"Exchange hashpartitioning({keys[0]}" not in plan.getvalue():
        raise RuntimeError(f"Spark's optimizer took the sort or the shuffle out of the floor:\n{plan.getvalue()}")
    return lambda: discard(once())


def discard(df: DataFrame) -> None:
    """Computes all rows, and keeps none."""
    df.write.format("noop").mode("overwrite").save()


def count(df: DataFrame, query: Any, number: str, sort: str | None = None) -> DataFrame:
    """The count as users ask for it: the planner chooses the strategy, and who sorts unless ``sort`` says so."""
    return cet.pattern(df, query, time="time", sort=sort).count_trends(number=number)


def decide(
    df: DataFrame, query: Any, number: str, strategies: Sequence[Any] | None = None, sort: AskedSort = AS_USUAL
) -> Decision:
    """The plan, by the planner's choice or by one of the given strategies."""
    binding = Binding("time", (), sort=sort)
    resolved, _ = rewrite(analyse(query.node, schema_of(df), binding, known_functions=function_names()))
    asked = (resolved, (("count", Aggregate("count")),), number)
    if strategies is not None:
        return plan_aggregate(*asked, strategies)  # whatever the size
    return plan_aggregate(*asked, bytes_read=partial(bytes_of, df, resolved.columns))


def count_by(df: DataFrame, query: Any, number: str, strategy: Any, sort: AskedSort = AS_USUAL) -> DataFrame:
    """The count by one strategy."""
    return run(df, decide(df, query, number, [strategy], sort).plan)


def fingerprint(answer: DataFrame) -> tuple[int, float]:
    """Number of rows and the sum of the counts' logarithms: equal for strategies that agree."""
    return _summed(answer, F.log2(F.col("count").cast("double")))


def _summed(answer: DataFrame, term: Column) -> tuple[int, float]:
    size, total = answer.select(term.alias("x")).agg(F.count("x"), F.sum("x")).first() or (0, 0.0)
    return size, total or 0.0


def agree(answers: dict[str, DataFrame], *, logarithms: bool = False) -> Result:
    """Raises unless all answers, or their ``logarithms``, are the same; gives the number of their rows."""
    prints = {
        name: _summed(answer, F.col("count")) if logarithms else fingerprint(answer) for name, answer in answers.items()
    }
    size, total = next(iter(prints.values()))
    for name, (rows, logarithms) in prints.items():
        if rows != size or not math.isclose(logarithms, total, rel_tol=1e-9):
            raise RuntimeError(f"the answers differ: {prints} ({name})")
    return {"rows": size}


def result(about: str, measured: Result, verdicts: Sequence[Verdict], **more: Any) -> Result:
    """A race as it is written to results.json."""
    lines = []
    for verdict in verdicts:
        line: Result = verdict._asdict()
        line["seconds"] = measured[verdict.candidate]["median"]
        line["figure"] = line["seconds"]
        line["unit"] = "s"
        if verdict.against:
            line["against_seconds"] = measured[verdict.against]["median"]
            line["figure"] = line["seconds"] / line["against_seconds"]
            line["unit"] = "x"
            pairs = zip(measured[verdict.candidate]["seconds"], measured[verdict.against]["seconds"])
            ratios = sorted(a / b for a, b in pairs)
            line["from"], line["to"] = _rounded(ratios[0]), _rounded(ratios[-1])
            used, against_used = (measured[name]["processor_median"] for name in (verdict.candidate, verdict.against))
            line["processor"] = round(used / against_used, 2) if against_used else 0
        line["figure"] = _rounded(line["figure"])
        line["largest_worker_mb"] = measured[verdict.candidate].get("largest_worker_mb", 0)
        line["all_workers_mb"] = measured[verdict.candidate].get("all_workers_mb", 0)
        lines.append(line)
    return {"about": about, "verdicts": lines, "measured": measured, **more}


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


# ------------------------------------------------------------------------------------------------- the races


def sorting(events: Events, runs: int) -> Result:
    """Both queries as planned and with other sorts, over rows in order of time and over rows in no order."""
    queries = {"SEQ(A, B+)": (AFTER_A, 0.95), "B+ with increasing price": (RISING.group_by("key"), 1.0)}
    sets = {"timestamps": events.many_keys(), "scattered bigints": events.scattered()}
    actions: dict[str, Callable[[], None]] = {}
    answers: dict[str, dict[str, Callable[[], DataFrame]]] = {}
    verdicts = []
    for place, df in sets.items():
        against = f"floor, {place}"
        actions[against] = floor(df, (F.col("type") == "B").cast("double"))
        for text, (query, limit) in queries.items():
            same = answers[f"{text}, {place}"] = {"as planned": partial(count, df, query, "double")}
            for sorter in (SPARK, RUNS):
                same[f"kernel, sorted by {sorter}"] = partial(count_by, df, query, "double", kernel, AskedSort(sorter))
            if query is AFTER_A:
                same["fold"] = partial(count_by, df, query, "double", fold)
            for how, answer in same.items():
                name = f"{text}, {place}, {how}"
                actions[name] = lambda answer=answer: discard(answer())
                verdicts.append(Verdict(name, name, against, limit if how == "as planned" else None))
    measured = take_turns(actions, runs)
    checks = [agree({name: answer() for name, answer in same.items()}) for same in answers.values()]
    return result("5 million events, 10,000 keys, double", measured, verdicts, **checks[0])


def shapes(events: Events, runs: int) -> Result:
    """``SEQ(A, B+)`` where keys are few and long, and where keys are texts and events have a tie-break."""
    sets = {"1,000 keys": (events.few_keys(), ("key",), (), 0.8)}
    sets["three text keys and a tie-break"] = (events.text_keys(), TEXT_KEYS, ("number",), 1.1)
    actions, verdicts, rows = {}, [], 0
    for name, (df, keys, ties, limit) in sets.items():
        value = (F.col("type") == "B").cast("double")
        actions[f"{name}, floor"] = floor(df, value, keys, ("time", *ties))
        asked = cet.pattern(df, cet.seq(A, cet.kleene(B)).group_by(*keys), time="time", tie_break=ties or None)
        actions[name] = lambda asked=asked: discard(asked.count_trends(number="log2"))
        verdicts.append(Verdict(f"SEQ(A, B+), {name}", name, f"{name}, floor", limit))
        answers = {
            sort: cet.pattern(df, asked.query, time="time", tie_break=ties or None, sort=sort)
            for sort in (SPARK, KERNEL)
        }
        rows = agree({sort: one.count_trends(number="log2") for sort, one in answers.items()}, logarithms=True)["rows"]
    measured = take_turns(actions, runs)
    return result("5 million events, log2", measured, verdicts, rows=rows)


#: Numbers of events of the race ``scale``; time per event is to stay as it is from the second to the last.
SCALES = (100_000, 10_000_000, 100_000_000)


def scale(events: Events, runs: int) -> Result:
    """``SEQ(A, B+)`` over events that are made as they are read, of 10,000 keys."""
    actions = {}
    for size in SCALES:
        df = events.made(events.scaled(size))
        actions[f"{size:,}"] = lambda df=df: discard(count(df, AFTER_A, "log2"))
    *most, last = (f"{size:,}" for size in SCALES)
    measured = take_turns({name: actions[name] for name in most}, runs)
    measured |= take_turns({last: actions[last]}, 1)  # a minute each
    for name, size in zip((*most, last), SCALES, strict=True):
        per_event = {
            figure: [taken / events.scaled(size) * 1e6 for taken in measured[name][figure]] for figure in _TAKEN
        }
        measured[f"{name}, each"] = {
            **measured[name],
            **per_event,
            "median": statistics.median(per_event["seconds"]),
            "processor_median": statistics.median(per_event["processor_seconds"]),
        }
    about = f"microseconds for each of {last} events, against each of {most[-1]}"
    verdicts = [Verdict(about, f"{last}, each", f"{most[-1]}, each", 1.15)]
    verdicts += [Verdict(f"{name} events", name, "", None) for name in (*most, last)]
    return result("10,000 keys, 20 % A and 80 % B, made by spark.range as they are read; log2", measured, verdicts)


_TAKEN = ("seconds", "processor_seconds")


def elsewhere(events: Events, runs: int) -> Result:
    """``SEQ(A, B+)`` against the floor in other kinds of sessions, each a process of its own."""
    events.many_keys()
    measured, verdicts, prints = {}, [], {}
    for kind, master in SESSIONS.items():
        told = child("against_floor", events, runs, os.cpu_count() or 2, master=master)
        prints[kind] = tuple(told.pop("print"))
        measured |= {f"{kind}, {name}": one for name, one in told.items()}
        verdicts.append(Verdict(f"SEQ(A, B+), {kind}", f"{kind}, planned", f"{kind}, floor", None))
    if len({rows for rows, _ in prints.values()}) > 1 or not all(
        math.isclose(total, prints["local"][1], rel_tol=1e-9) for _, total in prints.values()
    ):
        raise RuntimeError(f"the answers differ: {prints}")
    return result("5 million events, 10,000 keys, double", measured, verdicts, rows=prints["local"][0])


#: Kinds of sessions, and how each is asked for; see ``run.session``.
SESSIONS = {"local": "", "a cluster of two executors": "local-cluster[2,1,1024]", "Spark Connect": "connect"}


def against_floor(events: Events, runs: int) -> Result:
    df = events.many_keys()
    actions = {"floor": floor(df, (F.col("type") == "B").cast("double"))}
    actions["planned"] = lambda: discard(count(df, AFTER_A, "double"))
    return {**take_turns(actions, runs), "print": fingerprint(count(df, AFTER_A, "double"))}


def pipeline(events: Events, runs: int) -> Result:
    """Where the seconds of ``SEQ(A, B+)`` go: each contestant runs the plan one step farther than the one before."""
    sets = {"timestamps": events.many_keys(), "scattered bigints": events.scattered()}
    actions: dict[str, Callable[[], object]] = {}
    for place, df in sets.items():
        plan = decide(df, AFTER_A, "double", [kernel]).plan
        actions |= {f"{step}, {place}": partial(discard_made, make) for step, make in steps_of(df, plan).items()}
    measured = take_turns(actions, runs)
    bars: dict[str, dict[str, float]] = {step: {} for step in STEPS}
    for place in sets:
        up_to = [0.0, *(measured[f"{step}, {place}"]["median"] for step in STEPS)]
        for step, before, taken in zip(STEPS, up_to, up_to[1:]):
            bars[step][place] = round(max(taken - before, 0.0), 3)
    chart = {
        "title": "Where the seconds of SEQ(A, B+) go",
        "about": "Each part is how much longer the plan takes when it is run one step farther (medians).",
        "x": "seconds",
        "stacked": bars,
    }
    verdicts = [Verdict(name, name, "", None) for name in actions]
    return result("5 million events, 10,000 keys, double", measured, verdicts, charts={"pipeline": chart})


#: The steps of :func:`pipeline`.
STEPS = ("read", "project and pack", "shuffle", "send to workers", "sort, kernel and answer")


def steps_of(df: DataFrame, plan: Operator) -> dict[str, Callable[[], DataFrame]]:
    """For each of the :data:`STEPS`, what makes the rows of the plan when it is run as far as this step."""
    exchange = plan.children[0]
    schema = "none int"

    def shuffled() -> DataFrame:
        return execute(df, exchange).data

    def packed() -> DataFrame:
        # Without the shuffle: the exchange packs rows into parcels, and they stay where they are.
        with (
            mock.patch.object(exchanges, "exchange", lambda rows, *_: rows),
            mock.patch.object(exchanges, "in_batches", lambda rows, *_: rows),
        ):
            return shuffled()

    def moved() -> DataFrame:
        with mock.patch.object(exchanges, "in_batches", lambda rows, *_: rows):
            return shuffled()

    makers = (
        lambda: df.select("key", "time", "type"),
        packed,
        moved,
        lambda: shuffled().mapInArrow(_nothing, schema),
        lambda: run(df, plan),
    )
    return dict(zip(STEPS, makers, strict=True))


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Takes all rows and gives none."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pylist([], pa.schema([("none", pa.int32())]))


def discard_made(make: Callable[[], DataFrame]) -> None:
    discard(make())


def sliding(events: Events, runs: int) -> Result:
    df = events.many_windows()
    tumble, slide = (AFTER_A.within("150 minutes", slide=slide) for slide in ("150 minutes", "15 minutes"))
    actions = {
        "tumbling": lambda: discard(count(df, tumble, "double")),
        "tumbling by kernel": lambda: discard(count_by(df, tumble, "double", kernel)),
        "sliding": lambda: discard(count(df, slide, "double")),
    }
    measured = take_turns(actions, runs)
    one, other = (decide(df, query, "double").strategy for query in (slide, tumble))
    verdicts = [
        Verdict(f"10 overlapping windows, {one}, against tumbling as planned, {other}", "sliding", "tumbling", 4),
        Verdict(f"10 overlapping windows, {one}, against tumbling by the kernel", "sliding", "tumbling by kernel", 4),
    ]
    check = agree({"fold": count(df, tumble, "double"), "kernel": count_by(df, tumble, "double", kernel)})
    check["sliding_rows"] = count(df, slide, "double").count()
    return result("5 million events, 1,000 keys, 20 windows of 250 events, double", measured, verdicts, **check)


#: The events of ``small``: Spark expects to read 2 MiB or less of each.
SMALL = (1_000, 30_000, 100_000)


def small(events: Events, runs: int) -> Result:
    frames = {f"{size:,}": events.small(size) for size in SMALL}
    alone = {name: partial(count, df, RISING.group_by("key"), "log2") for name, df in frames.items()}
    workload = partial(_constants, frames["1,000"])
    actions = {**alone, "many": workload}
    actions |= {f"{name} packed": partial(action, sort="kernel") for name, action in alone.items()}
    actions["many in runs"] = partial(workload, sort="runs")
    measured = take_turns({name: partial(discard_made, make) for name, make in actions.items()}, runs)
    verdicts = [Verdict(f"{name} events, as planned, against packed", name, f"{name} packed", 1) for name in alone]
    verdicts.append(Verdict("20 queries, 1,000 events, against sorted runs", "many", "many in runs", 1))
    check = agree({name: actions[name]() for name in ("1,000", "1,000 packed")})
    return result("few events of 10 keys; B+ with increasing price, log2", measured, verdicts, **check)


def _constants(df: DataFrame, sort: str | None = None) -> DataFrame:
    """20 queries that differ by a constant."""
    texts = {
        f"q{n}": f"RETURN COUNT(*), SUM(B.price) PATTERN SEQ(A, B+) WHERE A.price > {n} GROUP BY key" for n in range(20)
    }
    return cet.patterns(df, texts, time="time", sort=sort).aggregate(number="log2")


def exact(events: Events, runs: int) -> Result:
    df = events.many_windows()
    query = AFTER_A.within("1 hour", slide="1 hour")
    actions = {
        number: lambda number=number: discard(count(df, query, number)) for number in ("double", "decimal", "string")
    }
    actions |= {
        f"{number} by kernel": lambda number=number: discard(count_by(df, query, number, kernel))
        for number in ("double", "decimal")
    }
    measured = take_turns(actions, runs)
    strategy = {number: decide(df, query, number).strategy for number in ("double", "decimal", "string")}
    verdicts = [
        Verdict(
            f"exact decimal, {strategy['decimal']}, against double, {strategy['double']}", "decimal", "double", 1.15
        ),
        Verdict(f"exact string, {strategy['string']}, against double, {strategy['double']}", "string", "double", 1.15),
        Verdict("exact decimal, kernel, against double, kernel", "decimal by kernel", "double by kernel", 1.15),
        Verdict(f"exact string, {strategy['string']}, against double, kernel", "string", "double by kernel", 1.15),
    ]
    check = agree({name: count(df, query, name) for name in ("double", "decimal", "string")})
    return result("5 million events, 1,000 keys, windows of 100 events", measured, verdicts, **check)


SIZES = (100_000, 200_000, 400_000, 800_000, 1_600_000)


def growth(events: Events, runs: int) -> Result:
    frames = {f"{size:,}": events.one_key(size) for size in SIZES}
    # What any query costs however few its events: unless it is taken off, growth looks smaller than it is.
    frames["next to nothing"] = events.one_key(100)
    actions = {name: lambda df=df: discard(count(df, RISING, "log2")) for name, df in frames.items()}
    measured = take_turns(actions, runs)
    first, last = f"{SIZES[0]:,}", f"{SIZES[-1]:,}"
    verdicts = [
        Verdict(f"growth from {first} to {last} events", last, first, 20),
        Verdict(f"{last} events", last, "", 30),
        *(Verdict(f"{size:,} events", f"{size:,}", "", None) for size in SIZES[:-1]),
        Verdict("100 events", "next to nothing", "", None),
    ]
    answer = result("one group, one window, B+ with increasing price, log2", measured, verdicts)
    idle = measured["next to nothing"]["median"]
    net = [measured[name]["median"] - idle for name in (last, first)]
    if net[1] > 0:
        answer["growth_without_fixed_cost"] = round(net[0] / net[1], 2)
    return answer


def trends(events: Events, runs: int) -> Result:
    df = events.trends_events()

    def listed() -> DataFrame:
        return cet.pattern(df, AFTER_A, time="time").trends()

    one_key = listed().filter("key = 0").toArrow()
    rows, bindings = listed().agg(F.count(F.lit(1)), F.coalesce(F.sum(F.size("trend")), F.lit(0))).first() or (0, 0)
    emitted = emitter(df, pa.concat_tables([one_key] * EMITTED_KEYS), rows)
    size = F.sum(F.size("trend"))
    if emitted().agg(size).first()[0] != bindings:
        raise RuntimeError("the floor does not emit as many bindings as trends() does")
    measured = take_turns({"floor": lambda: discard(emitted()), "trends": lambda: discard(listed())}, runs)
    verdicts = [Verdict("trends() against only emitting arrays", "trends", "floor", 1.2)]
    return result(
        "SEQ(A, B+), 10 million bindings, all columns, noop sink", measured, verdicts, rows=rows, bindings=bindings
    )


#: Keys whose trends the floor of ``trends()`` emits in one batch: 8,128 rows, about what the engine emits at once.
EMITTED_KEYS = 64


def emitter(df: DataFrame, few: pa.Table, rows: int) -> Callable[[], DataFrame]:
    """A job that only emits trends, a floor for listing them: tasks repeat one batch until so many rows are out."""
    spark = df.sparkSession
    tasks = spark.sparkContext.defaultParallelism
    share = [rows * (task + 1) // tasks - rows * task // tasks for task in range(tasks)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, few.schema) as writer:
        writer.write_table(few)
    data = sink.getvalue().to_pybytes()

    def emit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        whole = pa.ipc.open_stream(data).read_all().combine_chunks().to_batches()[0]
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for begun in range(0, share[task], len(whole)):
                    yield whole.slice(0, min(len(whole), share[task] - begun))

    schema = from_arrow_schema(few.schema)
    return lambda: spark.range(0, tasks, 1, tasks).mapInArrow(emit, schema)


def cores(events: Events, runs: int) -> Result:
    df = events.giant_key()
    plan = decide(df, RISING.within("10 hours", slide="1 hour"), "string").plan
    actions = {"cut": lambda: discard(run(df, plan)), "whole": lambda: discard(run(df, uncut(plan)))}
    measured = take_turns(actions, runs)
    verdicts = [
        Verdict("one giant group, cut by time, against the same in one task", "cut", "whole", None),
        Verdict("the same in one task", "whole", "", None),
    ]
    more = agree({"cut": run(df, plan), "whole": run(df, uncut(plan))})
    more["events_per_task"] = events_per_task(df, plan)
    about = "B+ with increasing price, exact string, one key, 1.6 million B, 10 overlapping windows of 800 of them"
    return result(about, measured, verdicts, **more)


def uncut(plan: Operator) -> Operator:
    """The plan without time buckets: the whole of a key goes to one task."""
    assert isinstance(plan, Propagate), plan
    windowing = attrs.evolve(plan.source.windowing, cut=0)
    scan = Scan(attrs.evolve(plan.source, windowing=windowing), plan.compiled)
    return exchanged(Propagate(scan, plan.spec.with_query(windowing=windowing), plan.values))


def events_per_task(df: DataFrame, plan: Operator) -> list[int]:
    """How many events each kernel gets, those that two time buckets share counted in both."""
    rows = execute(df, plan.children[0]).data
    return [size for _, size in sorted(rows.groupBy(F.spark_partition_id()).count().collect())]


# --------------------------------------------------------------------------- races between processes of their own


def cold(events: Events, runs: int) -> Result:
    events.one_key(100)
    with tempfile.TemporaryDirectory() as empty:
        first = child("first", events, 1, 2, {"NUMBA_CACHE_DIR": empty})
    later = child("first", events, 1, 2)
    programs = {"process": _PROGRAM, "Spark alone": _SPARK_ALONE}
    processes = take_turns({name: partial(new_process, program) for name, program in programs.items()}, runs)
    measured = {"compiling": first, "cached": later, **processes}
    verdicts = [
        Verdict("the first query of a session, kernels compiled on the spot", "compiling", "", None),
        Verdict("the first query of a session, compiled kernels on disk", "cached", "", None),
        Verdict("a new process up to its first answer, Spark's start included", "process", "", FIRST_ANSWER),
        Verdict("the same, against a process with Spark and no cetdsl", "process", "Spark alone", None),
    ]
    about = "cold start: B+ with increasing price on 100 events, Spark already up but where its start is included"
    return result(about, measured, verdicts)


#: So many seconds a new process may take up to its first answer, if kernels are on disk.
FIRST_ANSWER = 12.0
_BEGINNING = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
df = spark.range(100).selectExpr("id AS t", "'B' AS type", "id * 7 % 13 AS price")
"""
#: What somebody's own program does: imports, a session, a query, and its answer.
_PROGRAM = f"""
import cetdsl as cet
{_BEGINNING}
df.pattern("PATTERN B+ WHERE B.price < NEXT(B).price", time="t").count_trends().show()
"""
#: The part of this that any program does whose rows go through a shuffle to a Python worker.
_SPARK_ALONE = f"""
{_BEGINNING}
df.repartition("type").mapInArrow(lambda batches: batches, df.schema).show()
"""


def new_process(program: str) -> None:
    """Runs a program from its start to its end."""
    subprocess.run(
        [sys.executable, "-c", program],
        env=_own_environment(),
        cwd=Path(__file__).parents[1],
        check=True,
        capture_output=True,
    )


def child(
    task: str, events: Events, runs: int, number: int, environment: dict[str, str] | None = None, master: str = ""
) -> Result:
    """Runs one of :data:`CHILDREN` in a session of its own."""
    words = ["--child", task, "--cores", str(number), "--runs", str(runs), "--scale", str(events.scale)]
    words += ["--master", master] if master else []
    command = [sys.executable, str(Path(__file__).parent / "run.py"), *words, "--data", str(events.folder)]
    done = subprocess.run(command, capture_output=True, text=True, env={**_own_environment(), **(environment or {})})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    answer: Result = json.loads(done.stdout.splitlines()[-1])
    return answer


def _own_environment() -> dict[str, str]:
    """The environment without the gateway of this process's JVM, which would be used in place of a new one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}


def first(events: Events, runs: int) -> Result:
    df = events.one_key(100)
    df.count()
    return {"median": round(seconds(lambda: discard(count(df, RISING, "log2"))), 3)}


RACES = {
    race.__name__: race
    for race in (sorting, shapes, pipeline, scale, small, elsewhere, sliding, exact, growth, trends, cores, cold)
}
CHILDREN = {"first": first, "against_floor": against_floor}
