"""Equal parts of the trends of a graph, found without a search.

The number and the total length of the trends that go on from each node, computed backwards, say how much lies below
each branch, and one descent leads to the trend at any given fraction of the whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.attribute_graph import NOWHERE
from cetdsl.kernels.graph.walk import Trace
from cetdsl.kernels.graph.windows import Rules, Windows, is_end, is_root, successors_stop
from cetdsl.kernels.vocabulary import Floats, Graph, Ints, Places


class Weights(NamedTuple):
    """The trends that go on from each node of a window: ``trends * 2**exponent`` of them, of ``mean`` nodes each."""

    trends: Floats
    exponent: Ints
    mean: Floats


def split(graph: Graph, windows: Windows, rules: Rules, fractions: Floats) -> list[Trace] | None:
    """The trends at given fractions of the refs (sum of lengths) of all windows; None if there is no trend.

    They come in the order of the fractions, and the same fraction gives the same trend wherever it is asked for.
    """
    totals = np.zeros((len(windows.low), 2))
    weighed = -1
    for window in range(len(windows.low)):
        weights, totals[window] = _weigh(graph, windows, rules, window)
        weighed = window
    found = totals[:, 0] > 0
    if not found.any():
        return None
    largest = totals[found, 1].max()
    sizes = np.ldexp(totals[:, 0], np.maximum(totals[:, 1] - largest, -2000).astype(np.int32) * found)
    ends = np.cumsum(sizes)
    final = int(np.flatnonzero(found)[-1])
    traces: list[Trace] = []
    for fraction in fractions:
        aim = fraction * ends[-1]
        window = min(int(np.searchsorted(ends, aim, side="right")), final)
        if window != weighed:
            (weights, _), weighed = _weigh(graph, windows, rules, window), window
        before = ends[window - 1] if window else 0.0
        nodes = _seek(graph, windows, rules, window, weights, max(aim - before, 0.0), int(largest))
        traces.append(Trace(window, nodes))
    return traces


def share_of_roots(graph: Graph, windows: Windows, rules: Rules, part: int, parts: int) -> Graph:
    """The graph of the trends that begin at one of ``parts`` stretches of roots, with about as many refs each."""
    ends = np.cumsum(_root_refs(graph, windows, rules))
    if not ends[-1:].any():
        return graph
    # A root belongs to the stretch that its middle lies in.
    middle = (ends - np.diff(ends, prepend=0.0) / 2) / ends[-1] * parts
    return _from_roots(graph, (middle >= part) & ((middle < part + 1) | (part + 1 == parts)))


def _root_refs(graph: Graph, windows: Windows, rules: Rules) -> Floats:
    """The refs of the trends of all windows that begin at each node, as parts of any one number."""
    weighed = [_weigh(graph, windows, rules, window)[0] for window in range(len(windows.low))]
    largest = max((int(weights.exponent.max(initial=0)) for weights in weighed), default=0)
    sizes = np.zeros(len(graph.event))
    for window, (trends, exponent, mean) in enumerate(weighed):
        low, high, first, last = (int(column[window]) for column in windows)
        _add_root_refs(graph, rules, low, high, first, trends, exponent - largest, mean, sizes[first:last])
    return sizes


@jit
def _add_root_refs(
    graph: Graph,
    rules: Rules,
    low: int,
    high: int,
    first: int,
    trends: Floats,
    exponent: Ints,
    mean: Floats,
    sizes: Floats,
) -> None:
    begins, reach, origin_before = graph.begins, graph.reach, graph.origin_before
    for v in range(len(sizes)):
        if trends[v] > 0.0 and is_root(begins, reach, origin_before, rules.complete, first + v, low, high):
            sizes[v] += math.ldexp(trends[v] * mean[v], max(exponent[v], -1000))


def _from_roots(graph: Graph, own: NDArray[np.bool_]) -> Graph:
    """The graph of the trends that begin at nodes of one's own: no other one is useful to them."""
    begins = graph.begins & own
    return graph._replace(begins=begins, origin=np.where(_reached(graph, begins), graph.origin, NOWHERE))


@jit
def _reached(graph: Graph, begins: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The nodes that a path from one that begins leads to."""
    target, starts, stops = graph.target, graph.start, graph.stop
    out = begins.copy()
    for v in range(len(out)):
        if out[v]:
            for k in range(starts[v], stops[v]):
                out[target[k]] = True
    return out


@jit
def _weigh(graph: Graph, windows: Windows, rules: Rules, window: int) -> tuple[Weights, tuple[float, float]]:
    """What goes on from each node of a window; the refs of the whole window as mantissa and exponent."""
    target, starts, stops, begins, ends = graph.target, graph.start, graph.stop, graph.begins, graph.ends
    origin, reach = graph.origin, graph.reach
    origin_before, reach_after = graph.origin_before, graph.reach_after
    low, high = windows.low[window], windows.high[window]
    first, last = windows.first[window], windows.last[window]
    count = np.zeros(last - first)
    exponent = np.zeros(last - first, dtype=np.int64)
    mean = np.ones(last - first)
    total, total_exponent = 0.0, np.int64(0)
    for v in range(last - 1, first - 1, -1):
        if reach[v] >= high or origin[v] < low:
            continue
        trends = refs = 1.0 if is_end(ends, reach_after, rules.complete, v, high) else 0.0
        scale = np.int64(0)
        if reach_after[v] < high:
            for k in range(starts[v], successors_stop(starts, stops, target, v, last)):
                t = target[k] - first
                if count[t] == 0.0:
                    continue
                more = count[t]
                if exponent[t] > scale:
                    trends, refs = (
                        math.ldexp(trends, int(scale - exponent[t])),
                        math.ldexp(refs, int(scale - exponent[t])),
                    )
                    scale = exponent[t]
                elif exponent[t] < scale:
                    more = math.ldexp(more, int(exponent[t] - scale))
                trends += more
                refs += more * (mean[t] + 1.0)
        shift = 0
        if trends > 1e200:
            shift = 600
            trends, refs = math.ldexp(trends, -shift), math.ldexp(refs, -shift)
        count[v - first], exponent[v - first], mean[v - first] = trends, scale + shift, refs / trends
        if is_root(begins, reach, origin_before, rules.complete, v, low, high):
            scale += shift
            if scale > total_exponent:
                total, total_exponent = math.ldexp(total, int(total_exponent - scale)), scale
            total += math.ldexp(refs, int(scale - total_exponent))
    return Weights(count, exponent, mean), (total, float(total_exponent))


@jit
def _seek(
    graph: Graph, windows: Windows, rules: Rules, window: int, weights: Weights, rest: float, exponent: int
) -> Places:
    """The trend before which ``rest * 2**exponent`` refs of a window lie.

    Of successors that rounding leaves nothing to choose from, it is the last: a larger ``rest`` never gives an earlier
    trend.
    """
    target, starts, stops, begins, ends = graph.target, graph.start, graph.stop, graph.begins, graph.ends
    reach, reach_after, origin_before = graph.reach, graph.reach_after, graph.origin_before
    low, high = windows.low[window], windows.high[window]
    first, last = windows.first[window], windows.last[window]
    path = np.empty(last - first, dtype=np.int32)
    depth, v, below = 0, np.int64(-1), 0.0
    while True:
        if depth > 0 and is_end(ends, reach_after, rules.complete, v, high):
            alone = math.ldexp(float(depth), -exponent)
            if rest < alone or reach_after[v] >= high:
                break
            rest -= alone
        cursor = first if depth == 0 else starts[v]
        stop = last if depth == 0 else successors_stop(starts, stops, target, v, last)
        chosen = np.int64(-1)
        while cursor < stop:
            t = cursor if depth == 0 else np.int64(target[cursor])
            cursor += 1
            if weights.trends[t - first] == 0.0:
                continue
            if depth == 0 and not is_root(begins, reach, origin_before, rules.complete, t, low, high):
                continue
            if chosen >= 0:
                rest -= below
            chosen = t
            below = math.ldexp(
                weights.trends[t - first] * (weights.mean[t - first] + depth), weights.exponent[t - first] - exponent
            )
            if rest < below:
                break
        v = chosen
        path[depth] = v
        depth += 1
        # The scale of the rest follows that of what is left to choose from.
        shift = exponent - weights.exponent[v - first]
        if shift != 0:
            rest, exponent = math.ldexp(rest, shift), weights.exponent[v - first]
    return path[:depth].copy()
