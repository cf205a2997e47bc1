"""Equal parts of the trends of a graph, found without a search.

The worth of the nodes of a window (:mod:`~cetdsl.kernels.graph.counts`) says how many trends go on from each node and
how long they are in all. So one descent, from a root along successors, leads to the trend at any given fraction of the
whole.
"""

from __future__ import annotations

import math

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.attribute_graph import NOWHERE
from cetdsl.kernels.graph.counts import (
    Accumulators,
    Values,
    fill_worth,
    in_units,
    make_worth,
    rounding,
    scaled_counts,
    shared_targets,
    worth_of,
)
from cetdsl.kernels.graph.walk import Trace
from cetdsl.kernels.graph.windows import END, ROOT, Roles, Windows, successors_stop
from cetdsl.kernels.numbers.scaled import Scaled, from_scaled
from cetdsl.kernels.vocabulary import Bools, Floats, Graph, Places


def split(graph: Graph, windows: Windows, complete: bool, fractions: Floats) -> list[Trace] | None:
    """Finds the trends at given fractions of the *refs* of all windows; None if there is no trend.

    The refs (references to events) of some trends are the sum of their lengths. The trends come in the order of the
    fractions, and the same fraction gives the same trend in every task that asks for it.
    """
    refs, largest = _refs(graph, windows, complete)
    if not refs.any():
        return None
    ends = np.cumsum(from_scaled(refs - 1j * largest))
    final = int(np.flatnonzero(refs)[-1])
    traces: list[Trace] = []
    weighed = -1
    for fraction in fractions:
        aim = fraction * ends[-1]
        window = min(int(np.searchsorted(ends, aim, side="right")), final)
        if window != weighed:
            # No node has more refs than its window, so the number system that holds those of the window holds all.
            counted = rounding(np.float64 if refs[window].imag < 1000 else np.complex128, True)
            worth, weighed = worth_of(graph, windows, window, complete, counted), window
        before = ends[window - 1] if window else 0.0
        nodes = _seek(graph, windows, window, worth.role, worth.value, max(aim - before, 0.0), largest)
        traces.append(Trace(window, nodes))
    return traces


def share_of_roots(graph: Graph, windows: Windows, complete: bool, part: int, parts: int) -> Graph:
    """Returns the graph of the trends from one of ``parts`` stretches of roots, with about as many refs each."""
    sizes = _root_refs(graph, windows, complete, rounding(np.float64, True), 0)
    if not np.isfinite(sizes.sum()):
        _, largest = _refs(graph, windows, complete)
        sizes = _root_refs(graph, windows, complete, rounding(np.complex128, True), largest)
    if not sizes.any():
        return graph
    ends = np.cumsum(sizes)
    # A root belongs to the stretch that its middle lies in.
    middle = (ends - sizes / 2) / ends[-1] * parts
    begins = graph.begins & (middle >= part) & ((middle < part + 1) | (part + 1 == parts))
    # The nodes to which no path leads from these roots are marked as on no trend.
    return graph._replace(begins=begins, origin=np.where(_reached(graph, begins), graph.origin, NOWHERE))


def _refs(graph: Graph, windows: Windows, complete: bool) -> tuple[Scaled, int]:
    """Returns the refs of each window, and the largest exponent among them."""
    refs = scaled_counts(graph, windows, complete, lengths=True)[:, 1]
    return refs, int(refs.imag.max(initial=0))


@jit
def _root_refs(graph: Graph, windows: Windows, complete: bool, accumulators: Accumulators, exponent: int) -> Floats:
    """Sums up the refs of the trends of all windows by the node that they begin at, in multiples of ``2**exponent``."""
    worth = make_worth(windows, accumulators, shared_targets(graph))
    role, value, sizes = worth.role, worth.value, np.zeros(len(graph.event))
    for window in range(len(windows.low)):
        fill_worth(graph, windows, window, complete, accumulators, worth)
        first = windows.first[window]
        for v in range(first, windows.last[window]):
            if role[v - first] & ROOT:
                sizes[v] += in_units(value[v - first, 1], exponent)
    return sizes


@jit
def _reached(graph: Graph, begins: Bools) -> Bools:
    """Whether a path from a node that begins leads to each node."""
    target, starts, stops = graph.target, graph.start, graph.stop
    out = begins.copy()
    for v in range(len(out)):
        if out[v]:
            for k in range(starts[v], stops[v]):
                out[target[k]] = True
    return out


@jit
def _seek(
    graph: Graph, windows: Windows, window: int, role: Roles, value: Values, rest: float, exponent: int
) -> Places:
    """Finds the trend before which ``rest * 2**exponent`` refs of a window lie.

    ``role`` and ``value`` are those of the window's nodes: the number of trends that go on from each, and their refs
    from there on. If, because of rounding, the rest is beyond the last successor, the search takes the last one. So a
    larger ``rest`` never gives an earlier trend.
    """
    target, starts, stops = graph.target, graph.start, graph.stop
    first, last = windows.first[window], windows.last[window]
    path = np.empty(last - first, dtype=np.int32)
    depth, v, below = 0, np.int64(-1), 0.0
    while True:
        if depth > 0 and role[v - first] & END:
            own = math.ldexp(float(depth), -exponent)
            if rest < own:
                break
            rest -= own
        cursor = first if depth == 0 else starts[v]
        stop = last if depth == 0 else successors_stop(starts, stops, target, v, last)
        chosen = np.int64(-1)
        while cursor < stop:
            row = (cursor if depth == 0 else np.int64(target[cursor])) - first
            cursor += 1
            if value[row, 0].real == 0.0 or (depth == 0 and not role[row] & ROOT):
                continue
            if chosen >= 0:
                rest -= below
            chosen = first + row
            below = in_units(value[row, 1], exponent) + depth * in_units(value[row, 0], exponent)
            if rest < below:
                break
        if chosen < 0:
            break
        v = chosen
        path[depth] = v
        depth += 1
        # The rest is scaled like the refs of the node that was chosen.
        following = int(value[v - first, 1].imag)
        rest, exponent = math.ldexp(rest, exponent - following), following
    return path[:depth].copy()
