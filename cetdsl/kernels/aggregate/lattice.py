"""Extremes of windows that are made of panes: matrices over the lattice, where sums are maxima.

They are the matrices of :mod:`~cetdsl.kernels.aggregate.matrices` in another semiring. Entry ``(p, q)`` of the matrix
of some events is the largest value of any way from place ``p`` to place ``q`` over them, where the value of a way is
the sum of what its events contribute if lengths are kept, else the largest contribution. :data:`NO_TREND` says that
there is no way. Where the other matrices add two ways, a product takes the larger one. It is associative like any
matrix product, so a window is a suffix of one block of panes and a prefix of the next here too.
"""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.aggregate.blocks import ends_of_blocks, windows_of_blocks
from cetdsl.kernels.aggregate.cover import Cover
from cetdsl.kernels.aggregate.extremes import Kept
from cetdsl.kernels.aggregate.matrices import Transitions
from cetdsl.kernels.numbers.arithmetic import ADD
from cetdsl.kernels.numbers.linear import NO_TREND, multiply
from cetdsl.kernels.vocabulary import Events, Ints


def window_extremes(
    events: Events, start: Ints, cover: Cover, transitions: Transitions, kept: Kept, variable: int
) -> Ints:
    """Computes an extreme over the windows of a cover of panes.

    Parameters
    ----------
    events : Events
        The events of a chunk.
    start : int64 array, shape (panes + 1,)
        The first event of each pane, and the end of the last one.
    cover : Cover
        How windows are made of these panes.
    transitions : Transitions
        The machine.
    kept : Kept
        How the extreme is encoded.
    variable : int
        The variable whose events contribute to it; -1: all do.

    Returns
    -------
    int64 array, shape (windows,)
        The code of each extreme; -1 where there is no trend.
    """
    matrices = _pane_matrices(start, events.instant, events.mask, kept.weights, variable, kept.how, *transitions[:5])
    suffix, prefix = ends_of_blocks(matrices[:, None], cover.begins, transitions.final, NO_TREND, kept.how, 0.0)
    ways = windows_of_blocks(suffix, prefix, *cover[1:], transitions.final, NO_TREND, 0, kept.how, 0.0)
    found = ways[:, 0]
    none = found == NO_TREND
    # The matrices count from 0; the code of a trend begins with that of a trend without events.
    found = found + kept.one if kept.how == ADD else np.maximum(found, kept.one)
    return np.where(none, -1, found)


@jit
def _pane_matrices(
    start: Ints,
    instant: Ints,
    mask: Ints,
    weights: Ints,
    counted: int,
    how: int,
    variable: Ints,
    entry_start: Ints,
    entry: Ints,
    inflow_start: Ints,
    inflow: Ints,
) -> Ints:
    """Multiplies the instants of each pane; returns matrices of shape (panes, places, places)."""
    places = len(variable)
    out = np.full((len(start) - 1, places * places), NO_TREND)
    best, gain = np.full(places, NO_TREND), np.full(len(entry), NO_TREND)
    for n in range(len(start) - 1):
        matrix = out[n]
        for p in range(places):
            matrix[p * places + p] = 0
        i = start[n]
        while i < start[n + 1]:
            now = instant[i]
            for q in range(places):
                best[q] = NO_TREND
            while i < start[n + 1] and instant[i] == now:
                for q in range(1, places):
                    if (mask[i] >> variable[q]) & 1:
                        best[q] = max(best[q], weights[i] if counted == -1 or counted == variable[q] else 0)
                i += 1
            # Simultaneous events do not see each other, so all gains are known before any is added.
            for q in range(1, places):
                if best[q] == NO_TREND:
                    continue
                for j in range(entry_start[q], entry_start[q + 1]):
                    influx = NO_TREND
                    for k in range(inflow_start[j], inflow_start[j + 1]):
                        influx = max(influx, matrix[inflow[k]])
                    gain[j] = multiply(influx, best[q], how, 0.0)
            for q in range(1, places):
                if best[q] != NO_TREND:
                    for j in range(entry_start[q], entry_start[q + 1]):
                        matrix[entry[j]] = max(matrix[entry[j]], gain[j])
    return out.reshape(len(out), places, places)
