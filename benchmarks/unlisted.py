"""A race of kernels that count trends under predicates between non-consecutive events, and list none of the trends.

Times are those of one core, from sorted events in memory on.
"""

from __future__ import annotations

from typing import NamedTuple

from events import Events
from measure import take_turns
from pyspark.sql import DataFrame
from races import Result, Verdict, decide, result

import cetdsl as cet
from cetdsl.execution.operators import execute
from cetdsl.ir.operators import Messages, Sweep
from cetdsl.kernels.aggregate.messages import MessageEvaluator
from cetdsl.kernels.aggregate.sweep import SweepEvaluator
from cetdsl.kernels.answers.tables import Values
from cetdsl.kernels.wire.chunks import Chunk, ChunkReader

SIZES = (62_500, 250_000, 1_000_000)
#: Queries with the kinds of their events.
QUERIES = {
    "SEQ(A a, B b, C c) WHERE a.x < c.x": "ABC",
    "SEQ(A a, B+ b) WHERE a.rate * 2 < b.rate": "AB",
    # Relates all events of a variable to all of another one; the largest ``a`` of each trend decides.
    "SEQ(A+ a, B+ b) WHERE a.rate < b.rate": "AB",
    "AND(A a, B b, C c, D d) WHERE a.account = b.account AND b.y < c.y": "ABCD",
}


class Loaded(NamedTuple):
    """The events of one window as a kernel reads them."""

    evaluator: SweepEvaluator | MessageEvaluator
    chunk: Chunk

    @classmethod
    def of(cls, df: DataFrame, text: str) -> Loaded:
        plan = decide(df, cet.parse(f"PATTERN {text}"), "log2").plan
        if not isinstance(plan, Sweep | Messages):
            raise RuntimeError(f"{text} is not counted as it should be")
        rows = execute(df, plan.child)
        [chunk] = ChunkReader(rows.spec, iter(rows.data.toArrow().to_batches()), 2**40)
        kind = SweepEvaluator if isinstance(plan, Sweep) else MessageEvaluator
        return cls(kind(rows.spec), chunk)

    def run(self) -> Values:
        """Counts all trends."""
        return self.evaluator.evaluate(self.chunk.events, self.chunk.values, self.chunk.slices, self.chunk.bounds)


def unlisted(events: Events, runs: int) -> Result:
    """Queries over one window of ever more events."""
    given = {
        f"{text}, {size:,} events": Loaded.of(events.kinds(size, kinds), text)
        for text, kinds in QUERIES.items()
        for size in SIZES
    }
    measured = take_turns({name: one.run for name, one in given.items()}, runs)
    verdicts = []
    for text in QUERIES:
        first, *_, last = (f"{text}, {size:,} events" for size in SIZES)
        # The second limit is the growth of n log n, and a fifth more.
        verdicts += [
            Verdict(last, last, "", 5),
            Verdict(f"{text}, against {SIZES[0]:,} events", last, first, 24),
        ]
    counts = {name: one.run().scaled[0][0] for name, one in given.items()}
    notes = [f"{name}: 2^{value.imag:,.0f} of them" for name, value in counts.items() if f"{SIZES[-1]:,}" in name]
    return result("one window, log2, one core", measured, verdicts, notes=notes)


RACES = {race.__name__: race for race in (unlisted,)}
