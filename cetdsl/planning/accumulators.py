"""Chooses the accumulators that must be propagated to answer a RETURN list."""

from __future__ import annotations

from cetdsl.aggregates.vocabulary import COUNT, Update
from cetdsl.analysis.guards import own_term
from cetdsl.analysis.types import type_of
from cetdsl.ir.accumulators import EXACT_NUMBERS, TRENDS, Accumulator, Output
from cetdsl.ir.compiled import MAX_VARIABLES, Compiled
from cetdsl.ir.emission import UPDATE
from cetdsl.ir.kernel import Answer
from cetdsl.ir.schema import Schema
from cetdsl.ir.source import Source
from cetdsl.pattern.expressions import Aggregate, Expr, Length, variables


class AccumulatorPlan:
    """The accumulators of a RETURN list, shared between its outputs, and the value columns that they read.

    Accumulator 0 is always the number of trends: the others are weighted by it.
    """

    def __init__(self, compiled: Compiled, aggregates: tuple[tuple[str, Aggregate], ...], schema: Schema) -> None:
        self.compiled, self.schema = compiled, schema
        self.accumulators: dict[Accumulator, int] = {TRENDS: 0}
        self.values: dict[Expr, int] = {}
        self.outputs: list[Output] = []
        self.absent: dict[str, int] = {}
        for name, aggregate in aggregates:
            found = [self._accumulator(aggregate, update) for update in aggregate.definition.buffer]
            inputs = tuple(self.accumulators.setdefault(one, len(self.accumulators)) for one in found)
            self.outputs.append(Output(name, aggregate.definition.finish, inputs))

    def answer(self, source: Source, number: str, partial: bool) -> Answer:
        """Describes the answer of a query over a source.

        Trends are counted exactly only if an output shows whole numbers, because exact counts may take far longer than
        extremes or sums of doubles.
        """
        exact = number in EXACT_NUMBERS and self._shows_whole_numbers()
        zeros = source.is_stream and source.emit == UPDATE and bool(self.compiled.negations)
        return Answer(len(source.groups), tuple(self.accumulators), tuple(self.outputs), number, exact, partial, zeros)

    def _shows_whole_numbers(self) -> bool:
        """Whether some output is a count, or made of sums of whole numbers or decimals."""
        accumulators = list(self.accumulators)
        rounded = [type_of(value, self.schema) in ("double", "float") for value in self.values]
        inputs = (accumulators[number] for output in self.outputs for number in output.inputs)
        return any(one.is_additive and not (one.column >= 0 and rounded[one.column]) for one in inputs)

    def _number(self, variable: str) -> int:
        number = self.compiled.number_of(variable)
        # Variables that are never bound keep distinct numbers, so that the accumulators of both sides of an AND match.
        return number if number < MAX_VARIABLES else self.absent.setdefault(variable, MAX_VARIABLES + len(self.absent))

    def _of(self, update: Update, variable: str, column: int = -1) -> Accumulator:
        return Accumulator(update, self._number(variable), column, self.compiled.numbers_of(variable)[1:])

    def _accumulator(self, aggregate: Aggregate, update: Update) -> Accumulator:
        argument = aggregate.argument
        if argument is None:
            return TRENDS if aggregate.variable is None else self._of(update, aggregate.variable)
        if not isinstance(argument, Length):
            value = own_term(argument, self.schema, self.compiled.conditions)
            column = self.values.setdefault(value, len(self.values))
            return self._of(update, variables(argument)[0], column)
        if not update.is_additive:
            return Accumulator(update)
        # The aggregate is about the lengths of trends: one per trend, and their sum is the number of bound events.
        return Accumulator(COUNT) if update.power else TRENDS
