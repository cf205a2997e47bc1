"""Random queries on a stream of many small streams, in random micro-batches, against the reference over all events."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import attrs
import generators
import modes
import test_streaming
from pyspark.sql import DataFrame
from test_engines import by_case

from cetdsl.errors import NoPhysicalPlan, UnsupportedQuery
from cetdsl.frontend.sase import parse
from cetdsl.pattern.nodes import And
from cetdsl.pattern.text import unparse
from fuzz.cases import Case, Kind, within

#: Cuts that make no event late. A cut of one event of each stream would, as some streams are far ahead of others.
CUTS = test_streaming.IN_THREE, test_streaming.DRAWN, test_streaming.WHOLE
#: Queries of one run, which each take as long as some 60 streams.
QUERIES = 4


@attrs.frozen
class LiveStream(Case):
    """Queries over some of the generated streams.

    Each query has the number of what is asked, in ``test_streaming.ASKED``, its text, and the columns that break ties.
    """

    queries: list[tuple[int, str, tuple[str, ...]]]
    first: int
    streams: int
    disorder: int
    cuts: str
    seed: int
    kept: str
    shares: int

    def check(self, spark: Any = None) -> None:
        shares = {"spark.sql.shuffle.partitions": str(self.shares), **modes.OWN_FILES}
        said = {**modes.SIMPLE_PLANS, **shares, **test_streaming.KEPT[self.kept]}
        with tempfile.TemporaryDirectory() as folder, within(120, 600), modes.settings(spark, said):
            batches = (self.first, self.streams, self.disorder, Random(self.seed), self.cuts)
            live = test_streaming.Live(spark, Path(folder), test_streaming.stream_of_streams(*batches))
            asked = {number: answer for number in range(len(self.queries)) for answer in self.answers(live, number)}
            if not asked:
                return
            live.arrive()
            got = live.run(reduce(DataFrame.union, asked.values()))
            rows = [row for batch in live.batches[:-1] for row in batch]
            for number in asked:
                kind, text, ties = self.queries[number]
                expected = test_streaming.expected_rows(test_streaming.ASKED[kind], parse(text), ties, rows)
                test_streaming.compare([row for row in got if row.q == number], expected, text)

    def answers(self, live: Any, number: int) -> Iterator[DataFrame]:
        """The answer to a query, if a stream can be asked for it."""
        kind, text, ties = self.queries[number]
        try:
            yield test_streaming.ASKED[kind](number, parse(text), ties, live.events)
        except (UnsupportedQuery, NoPhysicalPlan):
            return

    def smaller(self) -> Iterator[Case]:
        if len(self.queries) > 1:
            for query in self.queries:
                yield attrs.evolve(self, queries=[query])
        elif self.streams > 1:
            half = self.streams // 2
            yield attrs.evolve(self, streams=half)
            yield attrs.evolve(self, first=self.first + half, streams=self.streams - half)


def live(choose: Random) -> LiveStream:
    queries: list[tuple[int, str, tuple[str, ...]]] = []
    while len(queries) < QUERIES:
        case, kind = generators.random_case(choose.getrandbits(40), test_streaming.FEATURES), choose.randrange(4)
        query = test_streaming.in_seconds(by_case(case.query))
        complete = test_streaming.ASKED[kind].__name__.startswith("complete")
        if query.window is not None and not (complete and isinstance(query.pattern, And)):
            queries.append((kind, unparse(query), case.tie_break))
    return LiveStream(
        queries,
        choose.randrange(10**6),
        60,
        choose.choice((0, 1, test_streaming.DELAY)),
        choose.choice(CUTS),
        choose.getrandbits(30),
        choose.choice(tuple(test_streaming.KEPT)),
        choose.choice((1, 2, 3)),
    )


KINDS = {"live": Kind(live, 1, spark=True, heavy=True)}
