"""The registry of the functions that execute physical operators, and the rows that they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from cetdsl.execution.compat import own_errors, refuse_second_reader
from cetdsl.execution.observed import answers
from cetdsl.execution.source import EventFrame
from cetdsl.execution.worker import map_stage
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import Operator, Scan


@attrs.frozen
class Rows:
    """The rows that an operator gives, lazily, and facts about the events that they come from.

    ``types`` are those of the aggregated terms. ``told`` is the kernel's specification, with the actual layout of its
    rows; None if no kernel reads events. If ``shares`` > 0, so many tasks each get all events of a key.
    """

    data: DataFrame
    frame: EventFrame
    types: tuple[DataType, ...] = ()
    told: KernelSpec | None = None
    shares: int = 0

    @property
    def spec(self) -> KernelSpec:
        """The specification for a kernel."""
        assert self.told is not None, "no kernel reads these events"
        return self.told

    def now(self, data: DataFrame) -> Rows:
        """Returns a copy with other data."""
        return attrs.evolve(self, data=data)

    def mapped(self, plan: Operator, told: Any, schema: StructType) -> Rows:
        """Returns the rows that the kernel stage of an operator makes of these."""
        assert plan.stage is not None, plan
        return self.now(map_stage(self.data, plan.stage, told, schema))


_Run = TypeVar("_Run", bound=Callable[[DataFrame, Any], Rows])
_RUN: dict[type[Operator], Callable[[DataFrame, Any], Rows]] = {}


def runs(*kinds: type[Operator]) -> Callable[[_Run], _Run]:
    """Registers a function that executes operators of these kinds over a DataFrame of events."""

    def register(function: _Run) -> _Run:
        _RUN.update(dict.fromkeys(kinds, function))
        return function

    return register


def run(df: DataFrame, plan: Operator, given: Callable[[DataFrame], DataFrame] | None = None) -> DataFrame:
    """Returns the lazy answer of a physical plan over a DataFrame of events; ``given`` may transform the rows first."""
    with own_errors():
        rows = execute_whole(df, plan).data
        return answers(rows if given is None else given(rows))


def execute_whole(df: DataFrame, plan: Operator) -> Rows:
    """Returns the rows of a plan that is a query of its own, lazily; raises if Spark cannot serve all its readers."""
    check_readers(df, plan)
    return execute(df, plan)


def check_readers(df: DataFrame, plan: Operator) -> None:
    """Raises if a plan reads a stream more often than Spark can serve it."""
    if df.isStreaming and sum(isinstance(one, Scan) for one in plan.walk()) > 1:
        refuse_second_reader(df)


def execute(df: DataFrame, plan: Operator) -> Rows:
    """Returns the rows of an operator over a DataFrame of events, lazily."""
    return _RUN[type(plan)](df, plan)
