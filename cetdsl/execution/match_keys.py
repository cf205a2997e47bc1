"""Checks that columns of a clause have an order, so that Spark's errors do not mention internal names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import types as T

from cetdsl.analysis.checks import unorderable
from cetdsl.analysis.types import is_orderable
from cetdsl.ir.schema import Field
from cetdsl.rows.nodes import Name
from cetdsl.rows.resolved import ResolvedMatch


def refuse_unordered_keys(match: ResolvedMatch, fields: Sequence[T.StructField]) -> None:
    """Raises QueryTypeError if a column of PARTITION BY or ORDER BY has no order."""
    clause = match.clause
    _refuse_unordered("partition column", match.partition_by, clause.partition_by, match, fields)
    _refuse_unordered("order column", match.order_by, [key.column for key in clause.order_by], match, fields)


def _refuse_unordered(
    what: str, numbers: Iterable[int], written: Iterable[Name], match: ResolvedMatch, fields: Sequence[T.StructField]
) -> None:
    """Raises for the first column without an order; the error points at its name, as it is ``written``."""
    places = {name.name.lower(): name.span for name in written}
    for number in numbers:
        name, kind = fields[number].name, fields[number].dataType.simpleString()
        if not is_orderable(kind):
            error = unorderable(Field(name, kind), what)
            error.span, error.text = places.get(name.lower()), match.clause.text
            raise error
