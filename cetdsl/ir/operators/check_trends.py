"""CheckTrends: Spark tests predicates that need a finished trend, and those of NOTs that depend on one."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.pattern.text import quote


@attrs.frozen
class CheckTrends(Unary):
    """Keeps the trends that the residual predicates of the query are true of, and that no deferred NOT forbids."""

    only_batch = None

    def steps(self) -> tuple[Step, ...]:
        tests = [quote(term) for term in self.compiled.residual]
        for one in self.compiled.deferred:
            forbidding = " and ".join(map(quote, one.predicates))
            tests.append(f"no match of {quote(self.compiled.automaton.negations[one.negation].part)} with {forbidding}")
        return (Step("test finished trends", tuple(tests)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        if not self.compiled.deferred:
            return super().costs(limit)
        return (*super().costs(limit), "and with the matches of NOT in the gaps of each trend")
