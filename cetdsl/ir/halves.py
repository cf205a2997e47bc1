"""Conditions under which a key is counted by two threads, each of which has half of its events."""

from __future__ import annotations

from cetdsl.ir.indexes import SCAN, TOTAL, index_of, lower_guards, with_orders
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import WHOLE

#: A key of so many events is worth a second thread.
LONG_KEY = 1 << 18


def fits_in_halves(spec: KernelSpec) -> bool:
    """Whether the events of a long key can be cut in two, and are not cut by windows already.

    Windows are given to tasks of their own, so that all cores have work. Indexes must answer all edges, and some edge
    must compare; guards before and after a trend look at events that the half of its other end has.
    """
    query = spec.query
    if query.windowing.kind != WHOLE or query.pivot >= 0:
        return False
    machine = with_orders(lower_guards(query.machine, spec.layout.codes, query.negations))
    kinds = {index_of(edge) for edge in machine.edges}
    guarded = any(guards for _, guards in query.machine.initial + query.machine.final)
    return not guarded and SCAN not in kinds and bool(kinds - {TOTAL})
