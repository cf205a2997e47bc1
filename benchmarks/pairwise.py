"""Races of predicates between any two events of a match, which is counted without being listed.

Times of kernels are those of one core, from sorted events in memory on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from events import Events
from measure import take_turns
from pyspark.sql import DataFrame
from races import Result, Verdict, count, decide, discard, result

import cetdsl as cet
from cetdsl.execution.operators import execute
from cetdsl.ir.operators import Messages, Operator, Sweep
from cetdsl.kernels.aggregate.messages import MessageEvaluator
from cetdsl.kernels.aggregate.sweep import SweepEvaluator
from cetdsl.kernels.wire.chunks import ChunkReader
from cetdsl.planning.strategies import messages as planned_messages
from cetdsl.planning.strategies import sweep as planned_sweep

A, B, C, D = cet.events("A", "B", "C", "D")
IN_ONE_SWEEP = {
    "SEQ(A, B, C) WHERE A.x < C.x": cet.seq(A, B, C).where(A.x < C.x),
    "SEQ(A, B, C) WHERE A.x < B.x AND A.x < C.x": cet.seq(A, B, C).where((A.x < B.x) & (A.x < C.x)),
    "SEQ(A, B+) WHERE A.x * 2 < B.x": cet.seq(A, cet.kleene(B)).where(A.x * 2 < B.x),
}
BY_MESSAGES = {
    "AND(A, B, C, D) WHERE A.id = B.id AND B.x < C.x": cet.all_of(A, B, C, D).where(A.id == B.id, B.x < C.x),
}
FEW, MANY = 62_500, 1_000_000
#: n log n from few to many events, and a fifth more.
GROWTH = 24


class Engine(NamedTuple):
    """A way to count without listing: its strategy, the operator that this plans, and what the kernel runs."""

    strategy: Any
    operator: type[Operator]
    evaluator: Callable[[Any], Any]


SWEEP = Engine(planned_sweep.sweep, Sweep, SweepEvaluator)
MESSAGES = Engine(planned_messages.messages, Messages, MessageEvaluator)


def in_memory(df: DataFrame, query: Any, engine: Engine) -> Callable[[], None]:
    """What counts one window of events that are sorted and in memory."""
    (plan,) = (
        each for each in decide(df, query, "log2", [engine.strategy]).plan.walk() if type(each) is engine.operator
    )
    rows = execute(df, plan.children[0])
    [chunk] = ChunkReader(rows.spec, iter(rows.data.toArrow().to_batches()), 2**40)
    evaluator = engine.evaluator(rows.spec)

    def run() -> None:
        evaluator.evaluate(chunk.events, chunk.values, chunk.slices, chunk.bounds)

    return run


def race(events: Events, runs: int, queries: dict[str, Any], engine: Engine, kinds: str) -> Result:
    """Few and many events of one group and one window, in the kernel and on Spark."""
    actions, verdicts = {}, []
    for name, query in queries.items():
        for size in (FEW, MANY):
            df = events.of_kinds(kinds, size)
            actions[f"{name}, {size:,}"] = in_memory(df, query, engine)
            actions[f"{name}, {size:,}, Spark"] = lambda df=df, query=query: discard(count(df, query, "log2"))
        few, many = (f"{name}, {size:,}" for size in (FEW, MANY))
        verdicts += [
            Verdict(f"{name}, {MANY:,} events", many, "", 5),
            Verdict(f"{name}, growth from {FEW:,}", many, few, GROWTH),
            Verdict(f"{name}, {MANY:,} events, on Spark", f"{many}, Spark", "", None),
        ]
    measured = take_turns(actions, runs)
    return result(f"one group, one window of events of {len(kinds)} kinds, log2", measured, verdicts)


def sweeps(events: Events, runs: int) -> Result:
    return race(events, runs, IN_ONE_SWEEP, SWEEP, "ABC")


def messages(events: Events, runs: int) -> Result:
    return race(events, runs, BY_MESSAGES, MESSAGES, "ABCD")


RACES = {each.__name__: each for each in (sweeps, messages)}
