"""Carry: the base of the operators that carry accumulators along the automaton of a query."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Unary
from cetdsl.pattern.expressions import Expr


@attrs.frozen
class Carry(Unary):
    """``values`` are the terms that the accumulators of ``spec`` run over."""

    spec: KernelSpec
    values: tuple[Expr, ...]
    walks = True

    @property
    def carried(self) -> tuple[str, ...]:
        """The numbers that are carried along, in words."""
        accumulators = self.spec.answer.accumulators
        return tuple(words.of_accumulator(self.compiled, accumulator, self.values) for accumulator in accumulators)
