"""Kernels over random streams, cut in any way into batches, chunks and time buckets; the reference judges."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import generators
import test_complete_engines
import test_kernel_aggregate
from test_kernel_aggregate import CUTTING, NUMBERS

from cetdsl.errors import UnsupportedQuery
from cetdsl.frontend.sase import parse
from cetdsl.ir.kernel import ENDS, MAXIMAL
from cetdsl.pattern.text import unparse
from fuzz.cases import Failure, Kind, Streams, within

#: Seconds that one case may take; most of them are the reference's.
LIMIT = 60


@attrs.frozen
class Kernel(Streams):
    """A query over streams, told apart by ``case``: aggregates and all trends."""

    ties: tuple[str, ...]
    number: str
    cuts: tuple[int, ...]
    turn: int

    def check(self, spark: Any = None) -> None:
        query = parse(self.text)
        with within(LIMIT):
            test_kernel_aggregate.check(query, self.numbered, self.ties, self.number, self.cuts, self.turn)
            test_kernel_aggregate.check_trends(query, self.numbered, self.ties, self.cuts[:2], self.turn)


@attrs.frozen
class Complete(Streams):
    """A query over streams: the trends that are complete by one definition of completeness, by one algorithm."""

    ties: tuple[str, ...]
    completeness: str
    algorithm: str
    cut: int
    turn: int

    def check(self, spark: Any = None) -> None:
        query = test_complete_engines.by_case(parse(self.text))
        task = test_complete_engines.Task(query, self.numbered, self.ties, self.cut)
        chunk, batch = CUTTING[self.turn]
        with within(LIMIT):
            try:
                if self.algorithm in ("definition", "auto"):  # auto: without a graph
                    found = task.defined(task.definition(self.completeness, self.algorithm), batch)
                else:
                    found = task.complete(task.graph(self.completeness), self.algorithm, chunk, batch)
            except UnsupportedQuery:
                return
            expected = test_complete_engines.expected_trends(query, self.numbered, self.completeness, self.ties)
            if found != expected:
                raise Failure(f"too many: {found - expected}, missing: {expected - found}")


def streams(choose: Random, features: generators.Features) -> tuple[generators.Case, list[dict[str, Any]]]:
    """A query, a stream that fits it, and some that may not."""
    features = attrs.evolve(features, chains=choose.random() < 0.3)
    case = generators.random_case(choose.getrandbits(40), features)
    more = [generators.random_stream(choose.getrandbits(40)) for _ in range(choose.randint(0, 3))]
    return case, generators.stack([case.rows, *more])


def kernel(choose: Random) -> Kernel:
    case, rows = streams(choose, test_kernel_aggregate.FEATURES)
    cuts = (-1, *choose.sample((1, 2, 3, 7), 2)) if case.query.window is not None else (-1,)
    return Kernel(unparse(case.query), rows, case.tie_break, choose.choice(NUMBERS), cuts, choose.randint(0, 2))


def complete(choose: Random) -> Complete:
    features = choose.choice((test_complete_engines.GRAPHS, test_complete_engines.EVERYTHING))
    case, rows = streams(choose, features.without("aggregate_predicates"))
    algorithm = choose.choice((*test_complete_engines.IN_TASK, "definition", "auto"))
    cut = choose.choice(test_complete_engines.cuts_of(case.query))
    completeness = choose.choice((MAXIMAL, ENDS))
    return Complete(unparse(case.query), rows, case.tie_break, completeness, algorithm, cut, choose.randint(0, 2))


KINDS = {"kernels": Kind(kernel, 20), "complete": Kind(complete, 20)}
