"""Which numbers must be propagated to answer a RETURN list."""

from __future__ import annotations

from cetdsl.ir.accumulators import ANY, TRENDS, Lane, Output
from cetdsl.ir.compiled import MAX_VARIABLES, Compiled
from cetdsl.ir.kernel import Answer
from cetdsl.ir.source import Source
from cetdsl.pattern.expressions import Aggregate, Expr, Length, strip, variables


class LanePlan:
    """Lanes, shared between the outputs, and the value columns that they read.

    Lane 0 is always the number of trends: the others are weighted by it.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.lanes: dict[Lane, int] = {TRENDS: 0}
        self.values: dict[Expr, int] = {}
        self.outputs: list[Output] = []
        self.absent: dict[str, int] = {}

    def add(self, name: str, aggregate: Aggregate) -> None:
        """Plans one output column."""
        function, argument = aggregate.function, aggregate.argument
        if function == "count":
            lane = TRENDS if aggregate.variable is None else Lane("count", self._number(aggregate.variable))
            self.outputs.append(Output(name, "count", self._lane(lane)))
        elif isinstance(argument, Length):
            self.outputs.append(self._length(name, function))
        else:
            assert argument is not None, aggregate
            self.outputs.append(self._attribute(name, function, argument))

    def answer(self, source: Source, number: str, partial: bool) -> Answer:
        """What the answer of a query over a source consists of."""
        exact = number in ("decimal", "string")
        return Answer(len(source.groups), tuple(self.lanes), tuple(self.outputs), number, exact, partial)

    def _number(self, variable: str) -> int:
        number = self.compiled.number_of(variable)
        # Variables that are never bound stay apart, so that the lanes of both sides of an AND correspond.
        return number if number < MAX_VARIABLES else self.absent.setdefault(variable, MAX_VARIABLES + len(self.absent))

    def _lane(self, lane: Lane) -> int:
        return self.lanes.setdefault(lane, len(self.lanes))

    def _length(self, name: str, function: str) -> Output:
        if function == "avg":
            return Output(name, "avg", self._lane(Lane("count", ANY)), denominator=self._lane(TRENDS))
        return Output(name, function, self._lane(Lane("shortest" if function == "min" else "longest")))

    def _attribute(self, name: str, function: str, argument: Expr) -> Output:
        variable = self._number(variables(argument)[0])
        column = self.values.setdefault(strip(argument), len(self.values))
        if function in ("min", "max"):
            return Output(name, function, self._lane(Lane(function, variable, column)))
        present = self._lane(Lane("count", variable, column))
        total = self._lane(Lane("sum", variable, column))
        if function == "avg":
            return Output(name, "avg", total, denominator=present)
        return Output(name, "sum", total, present=present)


def plan_lanes(compiled: Compiled, aggregates: tuple[tuple[str, Aggregate], ...]) -> LanePlan:
    """The lanes of a RETURN list."""
    plan = LanePlan(compiled)
    for name, aggregate in aggregates:
        plan.add(name, aggregate)
    return plan
