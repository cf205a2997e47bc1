"""The base classes of physical operators, with the questions that every operator answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.source import Source
from cetdsl.pattern.expressions import Expr


@attrs.frozen
class Step:
    """One step of an operator's work, as ``explain`` shows it: a label, and details below it."""

    label: str
    details: tuple[str, ...] = ()


class Requirement:
    """An operator's requirement on the rows that it reads, which an exchange fulfils."""

    __slots__ = ()

    def steps(self, below: Operator) -> tuple[Step, ...]:
        """Returns the steps that make the rows of the operator below fulfil the requirement."""
        raise NotImplementedError


@attrs.frozen
class Operator:
    """A physical operator. A plan is a tree of them, with a scan of events at each leaf.

    ``inputs`` names the fields that hold its children, and ``stage`` the stage of :mod:`cetdsl.kernels.entry` that runs
    it; None: Spark alone runs it, or the stage of the operator above does. If it ``walks``, it goes through the
    automaton of its query; if it is ``indexed``, an index answers the predicates of each edge, see
    :mod:`cetdsl.ir.indexes`. If it ``aggregates``, its rows are aggregates of each group and window; else a row is a
    trend. ``only_batch`` is the reason why it cannot run on a stream; None: it answers each time bucket from the
    bucket's own events alone, when no more of them are awaited.
    """

    inputs: ClassVar[tuple[str, ...]] = ()
    stage: ClassVar[str | None] = None
    walks: ClassVar[bool] = False
    indexed: ClassVar[bool] = False
    aggregates: ClassVar[bool] = False
    only_batch: ClassVar[str | None] = "it needs all events, and those of a stream never end"

    @property
    def children(self) -> tuple[Operator, ...]:
        """The operators whose rows it reads."""
        return tuple(getattr(self, name) for name in self.inputs)

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        """Returns the same operator over other children."""
        return attrs.evolve(self, **dict(zip(self.inputs, children, strict=True)))

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        """The requirement on the rows of each child; None: there is none."""
        return (None,) * len(self.children)

    @property
    def gives(self) -> tuple[str, ...]:
        """The names of the answer's columns, if this operator gives the answer."""
        source = self.source
        if self.aggregates:
            return (*source.groups, *source.window, *(output.name for output in self.spec.answer.outputs))
        return (*source.shown_keys, *source.window, "trend")

    def steps(self) -> tuple[Step, ...]:
        """Returns the steps of its work, in order."""
        return ()

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        """Describes how the time of the plan up to here grows, if ``limit`` rows are wanted."""
        return self.children[0].costs(limit) if self.children else ()

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Returns further facts for ``explain``, as pairs of name and text."""
        return (words.number_fact(self.spec.answer.number),) if self.aggregates else ()

    # The following are those of the scan; in a plan of several sides, those of the first side.

    @property
    def source(self) -> Source:
        """The source that the events are read from."""
        return self.children[0].source

    @property
    def compiled(self) -> Compiled:
        """The query in numbers."""
        return self.children[0].compiled

    @property
    def side(self) -> str:
        """The name of the side of the query that the plan is for; "" where there is but one."""
        return self.children[0].side

    @property
    def spec(self) -> KernelSpec:
        """The specification of the kernel's work."""
        return self.children[0].spec

    def walk(self) -> Iterator[Operator]:
        """Yields this operator and all below it, from the answer to the events."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen
class Unary(Operator):
    """Base of the operators that read the rows of one other."""

    child: Operator
    inputs = ("child",)


@attrs.frozen
class Carry(Unary):
    """Base of the operators that carry accumulators of ``values`` along the automaton."""

    spec: KernelSpec
    values: tuple[Expr, ...]
    walks = True

    @property
    def carried(self) -> tuple[str, ...]:
        """The numbers that are carried along, in words."""
        accumulators = self.spec.answer.accumulators
        return tuple(words.of_accumulator(self.compiled, accumulator, self.values) for accumulator in accumulators)
