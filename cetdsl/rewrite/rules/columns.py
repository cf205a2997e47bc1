"""The rule that drops columns that a query does not read."""

from __future__ import annotations

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.expressions import Attribute, Expr, SparkColumn
from cetdsl.pattern.nodes import events
from cetdsl.rewrite.rule import Keeps, rule


@rule("prune-columns", keeps=Keeps.DERIVATIONS)
def prune_columns(resolved: ResolvedQuery) -> ResolvedQuery:
    """Columns ts, type, price, note of PATTERN A WHERE A.price > 5  ->  columns ts, type, price

    A condition given as a Spark column may read any column, so then all of them stay.
    """
    query = resolved.query
    terms: list[Expr] = [*query.where, *(item.aggregate for item in query.returning)]
    terms += [event.condition for event in events(query.pattern) if event.condition is not None]
    nodes = [node for term in terms for node in term.walk()]
    if any(isinstance(node, SparkColumn) for node in nodes):
        return resolved
    needed = {resolved.time.name, *resolved.tie_break, *query.partition_by, *query.group_by}
    needed |= set(resolved.asked_partition_by)
    needed |= {node.name for node in nodes if isinstance(node, Attribute)}
    columns = tuple(name for name in resolved.columns if name in needed)
    return resolved if columns == resolved.columns else attrs.evolve(resolved, columns=columns)
