"""Conditions under which two threads count the trends of a key, each with half of its events."""

from __future__ import annotations

from cetdsl.ir.indexes import SCAN, TOTAL, index_of, lower_guards, with_orders
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import WHOLE

#: A key of so many events is worth a second thread.
LONG_KEY = 1 << 18


def fits_in_halves(spec: KernelSpec) -> bool:
    """Whether two threads can each take half of the events of a long key, and windows do not divide its work already.

    Windows go to tasks of their own, so that all cores have work. Indexes must answer all edges, and some edge must
    have a comparison. NOTs before or after a trend prevent halves: they look at events that the other half has.
    """
    query = spec.query
    if query.windowing.kind != WHOLE or query.pivot >= 0:
        return False
    machine = with_orders(lower_guards(query.machine, spec.layout.codes, query.negations))
    kinds = {index_of(edge) for edge in machine.edges}
    guarded = any(guards for _, guards in query.machine.initial + query.machine.final)
    return not guarded and SCAN not in kinds and bool(kinds - {TOTAL})
