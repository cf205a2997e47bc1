"""JoinPieces: joins the partial trends between anchors to trends, the second stage of the algorithm "anchors"."""

from __future__ import annotations

import attrs

from cetdsl.ir.extraction import Extraction
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Operator, Requirement, Step, Unary


@attrs.frozen
class InEveryShare(Requirement):
    """Requires that as many tasks as there are cores each get all rows, preceded by the number of the task's share."""

    order: str
    said: tuple[Step, ...] = ()

    def steps(self, below: Operator) -> tuple[Step, ...]:
        return self.said


@attrs.frozen
class JoinPieces(Unary):
    """Joins the partial trends along anchors; each task gives an equal part of the trends.

    ``extraction.memory`` bounds the bytes of partial trends that a task may hold.
    """

    child: Operator
    extraction: Extraction
    stage = "join pieces"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        said = Step("copy to every share, one per core"), Step(words.shuffle(["share"])), Step("sort them by number")
        return (InEveryShare("number", said),)

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: join partial trends", ("along anchors, depth first", "an equal part in each task")),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths(limit),)
