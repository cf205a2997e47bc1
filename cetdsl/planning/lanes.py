"""Which numbers must be propagated to answer a RETURN list."""

from __future__ import annotations

from cetdsl.aggregates.vocabulary import COUNT, Update
from cetdsl.ir.accumulators import TRENDS, Lane, Output
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
        function = aggregate.definition
        lanes = [self._lane(aggregate, update) for update in function.buffer]
        places = tuple(self.lanes.setdefault(lane, len(self.lanes)) for lane in lanes)
        self.outputs.append(Output(name, function.finish, places))

    def answer(self, source: Source, number: str, partial: bool) -> Answer:
        """What the answer of a query over a source consists of."""
        exact = number in ("decimal", "string")
        return Answer(len(source.groups), tuple(self.lanes), tuple(self.outputs), number, exact, partial)

    def _number(self, variable: str) -> int:
        number = self.compiled.number_of(variable)
        # Variables that are never bound stay apart, so that the lanes of both sides of an AND correspond.
        return number if number < MAX_VARIABLES else self.absent.setdefault(variable, MAX_VARIABLES + len(self.absent))

    def _lane(self, aggregate: Aggregate, update: Update) -> Lane:
        argument = aggregate.argument
        if argument is None:
            return TRENDS if aggregate.variable is None else Lane(update, self._number(aggregate.variable))
        if not isinstance(argument, Length):
            column = self.values.setdefault(strip(argument), len(self.values))
            return Lane(update, self._number(variables(argument)[0]), column)
        if not update.is_additive:
            return Lane(update)
        # Of a trend, which has one length: how many there are is how many trends, their sum is how many events.
        return Lane(COUNT) if update.power else TRENDS


def plan_lanes(compiled: Compiled, aggregates: tuple[tuple[str, Aggregate], ...]) -> LanePlan:
    """The lanes of a RETURN list."""
    plan = LanePlan(compiled)
    for name, aggregate in aggregates:
        plan.add(name, aggregate)
    return plan
