"""BuildPanes and MultiplyPanes: small matrices of what each pane does, multiplied up to windows."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import KEY, TIME, numbered
from cetdsl.ir.operators.exchange import EventsInOrder, RowsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.words import amount_of_time, carried, columns_of, number_fact, shuffle
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.text import quote_name


@attrs.frozen
class BuildPanes(Unary):
    """A matrix per key and pane: what its events make of the numbers at its start."""

    spec: KernelSpec
    values: tuple[Expr, ...]
    stage = "panes"
    walks = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values, in_panes=True),)

    def steps(self) -> tuple[Step, ...]:
        places = len(self.compiled.machine.variables) + 1
        lines = carried(self.compiled, self.spec.answer.accumulators, self.values)
        return (Step("kernel: one matrix per key and pane", (f"{places} x {places}, for each:", *lines)),)


@attrs.frozen
class MultiplyPanes(Unary):
    """The answer of each group and window, or partial results if the specification says so."""

    stage = "windows"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        keys = list(map(quote_name, self.source.keys))
        said = (
            Step(shuffle(keys), ("one row per key and pane",)),
            Step("sort each task's panes by " + ", ".join([*keys, "pane"])),
        )
        return (RowsInOrder(numbered(KEY, len(keys)), (TIME,), said=said),)

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_of(self.source, *(output.name for output in self.spec.answer.outputs))

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: multiply the panes of each window", ("a suffix of one block, a prefix of the next",)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (
            "linear in the events, besides sorting them",
            "two products of matrices per pane, one of vectors per window, however many windows overlap",
        )

    def facts(self) -> tuple[tuple[str, str], ...]:
        source, windowing = self.source, self.source.windowing
        rest = windowing.length % windowing.slide
        if rest:
            first, second = (amount_of_time(source, amount) for amount in (rest, windowing.slide - rest))
            text = f"{first} and {second} in turn, between the windows' borders"
        else:
            text = f"{amount_of_time(source, windowing.slide)} each"
        return number_fact(self.spec.answer.number), ("panes", text)
