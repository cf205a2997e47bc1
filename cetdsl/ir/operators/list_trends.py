"""ListTrends: the kernel enumerates trends, depth first."""

from __future__ import annotations

import attrs

from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import longest_trend
from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.pattern.text import quote, short_pattern


@attrs.frozen
class ListTrends(Unary):
    """Gives a row per trend: key columns, window, trend.

    ``columns`` of each event are shown; one task lists at most ``limit`` trends. If ``named``, columns have the user's
    names, as in an answer; otherwise they have internal names, for other operators. If ``identified``, each event has a
    further field that identifies it, rows have all keys, and columns are never ``named``.
    """

    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None = None
    named: bool = False
    identified: bool = False
    stage = "trends"
    only_batch = None
    walks = True

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of the rows."""
        return self.source.listed_keys(self.identified)

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        read = EventsInOrder(self.spec, columns=self.columns, identified=self.identified, learning=self.learning)
        return (read,)

    @property
    def learning(self) -> tuple[BranchPlan, ...]:
        """The plans that begin with statistics of earlier events, if a stream keeps them."""
        return ()

    def steps(self) -> tuple[Step, ...]:
        stops = (f"stops after {self.limit}",) if self.limit is not None else ()
        label = "kernel: list trends" + (f" of the {self.side}" if self.side else "")
        parts = words.of_parts(self.compiled)
        return (Step(label, (*self._search, *parts, *stops)),)

    @property
    def _search(self) -> tuple[str, ...]:
        """Describes which paths the search follows, and the tests that may reject a path after it was followed."""
        how, tests = "depth first, only where a trend can still be completed", self._tests
        return (f"{how}, as far as that shows before these tests", *tests) if tests else (how,)

    @property
    def _tests(self) -> tuple[str, ...]:
        """Describes the tests that the search cannot decide in advance for an event and a state."""
        compiled, query = self.compiled, self.spec.query
        pairs = [pair for pair in compiled.pairs if query.pivot not in (pair.left_variable, pair.right_variable)]
        tests = [f"on the path: {words.pair_text(compiled, pair)}" for pair in pairs]
        for node, negation in zip(compiled.automaton.negations, compiled.negations):
            if negation.correlated:
                forbidding = " and ".join(words.pair_text(compiled, pair) for pair in negation.correlated)
                tests.append(f"on the path: {short_pattern(node)} with {forbidding}")
        return *tests, *(f"of finished trends: {quote(predicate)}" for predicate in compiled.unfinished)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        if not self._tests:
            return (f"grows with the number of trends{words.until(limit)}",)
        worst = "" if longest_trend(self.compiled.machine) else ", which may be exponentially many"
        return (f"grows with the number of trends and of paths that a test ends{worst}{words.until(limit)}",)
