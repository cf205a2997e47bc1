"""Exchanges as DataFrames: rows projected, copied, shuffled and sorted as an operator requires them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cetdsl.execution import complete
from cetdsl.execution.aggregate import Shipment, ship, shipped
from cetdsl.execution.compat import parallelism
from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.execution.source import EventFrame
from cetdsl.ir.operators import EventsByPane, EventsInOrder, Exchange, Operator, Requirement, RowsInOrder


@runs(Exchange)
def exchange(df: DataFrame, plan: Exchange) -> Rows:
    """The rows of the operator below, as they are required."""
    return _CARRY_OUT[type(plan.gives_rows)](df, plan.child, plan.gives_rows)


def _events_in_order(df: DataFrame, below: Operator, needed: EventsInOrder) -> Rows:
    shares = complete.share_numbers(parallelism(df.sparkSession)) if needed.shared else ()
    shipment = ship(
        df,
        below.source,
        below.compiled,
        needed.spec,
        needed.values,
        needed.columns or (),
        identified=needed.identified,
        shares=shares,
        settled=needed.settled,
    )
    spec = shipped(needed.spec, shipment)
    spec = spec.with_layout(keys=spec.layout.keys + bool(shares))
    return Rows(shipment.rows, shipment.frame, shipment.value_types, spec, shares)


def _events_by_pane(df: DataFrame, below: Operator, needed: EventsByPane) -> Rows:
    frame = EventFrame(df, below.source, below.compiled)
    by = [*frame.key_names, "p"]
    columns = {**frame.keys(), "p": frame.pane(), **frame.instant()}
    rows = frame.select(columns | {f"v{number}": frame.term(expr) for number, expr in enumerate(needed.values)})
    schema = rows.schema
    frame.refuse_collations(schema)
    types = tuple(schema[f"v{number}"].dataType for number in range(len(needed.values)))
    ordered = rows.repartition(*by).sortWithinPartitions(*by, *frame.order)
    return Rows(ordered, frame, types, shipped(needed.spec, Shipment(ordered, types, frame)))


def _rows_in_order(df: DataFrame, below: Operator, needed: RowsInOrder) -> Rows:
    rows = execute(df, below)
    data = rows.data.selectExpr(*needed.select) if needed.select else rows.data
    by = list(map(F.expr, needed.by))
    spread = data.repartition(*by) if by else data.repartition(1)
    order = [*by, *map(F.expr, needed.order)]
    return rows.now(spread.sortWithinPartitions(*order) if order else spread)


_CARRY_OUT: dict[type[Requirement], Callable[[DataFrame, Operator, Any], Rows]] = {
    EventsByPane: _events_by_pane,
    EventsInOrder: _events_in_order,
    RowsInOrder: _rows_in_order,
}
