"""Races of predicates between events that are no neighbours: counted in one sweep, in kernels and on Spark.

Times of kernels are those of one core, from sorted events in memory on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from events import Events
from measure import take_turns
from pyspark.sql import DataFrame
from races import Result, Verdict, count, decide, discard, result

import cetdsl as cet
from cetdsl.execution.operators import execute
from cetdsl.ir.operators import Sweep
from cetdsl.kernels.aggregate.sweep import SweepEvaluator
from cetdsl.kernels.wire.chunks import Chunk, ChunkReader
from cetdsl.planning.strategies.sweep import sweep

A, B, C = cet.events("A", "B", "C")
QUERIES = {
    "SEQ(A, B, C) WHERE A.x < C.x": cet.seq(A, B, C).where(A.x < C.x),
    "SEQ(A, B, C) WHERE A.x < B.x AND A.x < C.x": cet.seq(A, B, C).where((A.x < B.x) & (A.x < C.x)),
    "SEQ(A, B+) WHERE A.x * 2 < B.x": cet.seq(A, cet.kleene(B)).where(A.x * 2 < B.x),
}
FEW, MANY = 62_500, 1_000_000
#: n log n from few to many events, and a fifth more.
GROWTH = 24


class Loaded(NamedTuple):
    """One window of events as a kernel reads it, and what sweeps it."""

    evaluator: SweepEvaluator
    chunk: Chunk

    @classmethod
    def of(cls, df: DataFrame, query: Any) -> Loaded:
        (plan,) = (each for each in decide(df, query, "log2", [sweep]).plan.walk() if isinstance(each, Sweep))
        rows = execute(df, plan.child)
        [chunk] = ChunkReader(rows.spec, iter(rows.data.toArrow().to_batches()), 2**40)
        return cls(SweepEvaluator(rows.spec), chunk)

    def run(self) -> None:
        """The count of one window."""
        chunk = self.chunk
        self.evaluator.evaluate(chunk.events, chunk.values, chunk.slices, chunk.bounds)


def sweeps(events: Events, runs: int) -> Result:
    """One group and one window of three kinds of events in turn."""
    actions, verdicts = {}, []
    for name, query in QUERIES.items():
        for size in (FEW, MANY):
            df = events.three_kinds(size)
            loaded = Loaded.of(df, query)
            actions[f"{name}, {size:,}"] = loaded.run
            actions[f"{name}, {size:,}, Spark"] = lambda df=df, query=query: discard(count(df, query, "log2"))
        few, many = (f"{name}, {size:,}" for size in (FEW, MANY))
        verdicts += [
            Verdict(f"{name}, {MANY:,} events", many, "", 5),
            Verdict(f"{name}, growth from {FEW:,}", many, few, GROWTH),
            Verdict(f"{name}, {MANY:,} events, on Spark", f"{many}, Spark", "", None),
        ]
    measured = take_turns(actions, runs)
    return result("one group, one window of three kinds of events, log2", measured, verdicts)


RACES = {race.__name__: race for race in (sweeps,)}
