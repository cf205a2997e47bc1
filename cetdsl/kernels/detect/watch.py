"""Passes over the slices of a stream after which no plan can change; compiled, as there may be very many.

:mod:`cetdsl.detection.watching` defines the checks and their arrays; the formulas are those of
:mod:`cetdsl.detection.arithmetic`, compiled from the same source. This module decides nothing: a slice that may matter,
within a margin of a millionth, goes to the decision function, which looks at it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cetdsl.detection import arithmetic
from cetdsl.detection.histograms import Buckets, no_buckets
from cetdsl.detection.watching import Factors, Sets, Watched
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.vocabulary import Bools, Floats, Ints

_compressed_exp = jit(arithmetic.compressed_exp)
_log_sets = jit(arithmetic.log_sets)
_add_to_buckets = jit(arithmetic.add_to_buckets)
_sum_buckets = jit(arithmetic.sum_buckets)
_rates_and_shares = jit(arithmetic.rates_and_shares)

#: Sides that differ by a smaller share than the first may differ by rounding alone; smaller than the second, they do.
_NEARLY, _ROUNDING = 1e-6, 1e-12
#: Constants of the formulas.
_ALWAYS, _DEVIATIONS = arithmetic.ALWAYS, arithmetic.DEVIATIONS
_MERGE_AT, _FEW, _ALLOWED = arithmetic.MERGE_AT, arithmetic.FEW, 2 * arithmetic.ERROR


@jit
def log_count(factors: Factors, sets: Sets, s: int, now: Floats, shares: Floats, sizes: Floats) -> float:
    """Computes the logarithm of the expected number of partial matches that bind a set of variables.

    Parameters
    ----------
    factors, sets : Factors, Sets
        What it is made of.
    s : int
        The number of the set.
    now, shares : float64 array
        Rates by variable, and logarithms of the selectivities by column.
    sizes : float64 array, shape (variables,)
        Room for the mean sizes of what each variable binds.

    Returns
    -------
    float
        The natural logarithm, as :meth:`~cetdsl.detection.cost.Expectation.log_count` returns it.
    """
    variables = len(factors.at_least)
    begin, end = sets.start[s], sets.start[s + 1]
    log, total = float(sets.fixed[s]), 0.0
    for a in range(begin, end):
        v = sets.member[a]
        single = factors.at_most[v] == 1
        log_each = log_once = 0.0
        for b in range(begin, a):
            column = factors.pair[v, sets.member[b]]
            if column >= 0:
                if not single and factors.pairwise[column]:
                    log_each += sizes[sets.member[b]] * shares[column]
                else:
                    log_once += shares[column]
        events, between = max(now[v] * factors.length, factors.least), 1.0
        own = factors.pair[v, v]
        if own >= 0 and now[variables + own] != 1.0:
            if not single and factors.adjacent[own]:
                between = max(now[variables + own], factors.least)
            else:
                events *= max(now[variables + own], factors.least)
        least, most, monotone = factors.at_least[v], factors.at_most[v], factors.monotone[v]
        found, size = _log_sets(events, log_each, between, least, most, monotone)
        sizes[v] = size
        log += found + log_once
        total += size
    for t in range(sets.term_start[s], sets.term_start[s + 1]):
        held = 0.0
        for a in range(begin, end):
            if (sets.mask[t] >> sets.member[a]) & 1:
                held += sizes[sets.member[a]]
        log += sets.sign[t] * math.lgamma(held + 1.0)
    return log + math.log(total) if factors.span else log


@inlined
def _deviates(watched: Watched, least: float, now: Floats) -> bool:
    for k in range(len(watched.then)):
        then = watched.then[k]
        if abs(now[k] - then) >= watched.threshold * max(then, least) * (1 - _NEARLY) - _NEARLY * least:
            return True
    return False


@jit
def _may_be_violated(watched: Watched, counts: Floats, slices: int) -> bool:
    """Whether one of the conditions is violated, or nearly so."""
    side, start, shared = watched.side, watched.side_start, watched.side_shared
    for c in range(len(watched.common)):
        left = right = 0.0
        for k in range(start[2 * c], shared[2 * c]):
            left += counts[side[k]]
        for k in range(start[2 * c + 1], shared[2 * c + 1]):
            right += counts[side[k]]
        # Sides that are equal except for rounding are a tie. A common part of both may hide a difference in the sums.
        rises = left > right * (1 + _ROUNDING)
        for k in range(shared[2 * c], start[2 * c + 1]):
            left += counts[side[k]]
            right += counts[side[k]]
        if left < right * (1 - _NEARLY) or not (watched.strict[c] or rises):
            continue
        distance = watched.distance[c]
        if watched.half_life > 0:
            distance *= 0.5 ** ((slices - watched.since[c]) / watched.half_life)
            distance = distance if distance >= watched.least * (1 + _NEARLY) else 0.0
        if watched.common[c] >= 0:
            left += counts[watched.common[c]]
            right += counts[watched.common[c]]
        if left >= (1 + distance) * right * (1 - _NEARLY):
            return True
    return False


@inlined
def _take_logarithms(now: Floats, variables: int, least: float, shares: Floats) -> None:
    """Writes the logarithms of the selectivities, which come behind the rates of ``variables`` variables."""
    for column in range(len(shares)):
        share = now[variables + column]
        shares[column] = 0.0 if share == 1.0 else math.log(max(share, least))


@inlined
def _forget(seen: Buckets, now: Floats, begin: Floats) -> None:
    """Resets the buckets of a key, and its statistics to those known at first."""
    seen.at[:], seen.total[:], now[:] = 0, 0.0, begin
    seen.at[_MERGE_AT] = _FEW


@jit
def look_from(
    rows: Floats, units: Floats, begin: int, stop: int, window: int, factors: Factors, watched: Watched, seen: Buckets,
    now: Floats, gains: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Adds the slices of a key to its statistics until one must be looked at.

    Parameters
    ----------
    rows : float64 array, shape (slices, counters)
        The counts of each slice: its duration, events by variable, pairs that were tried, and pairs that passed.
    units : float64 array, shape (slices,)
        For each slice, the number of units of duration that rates after it are based on.
    begin, stop : int
        The slices of the key that are left.
    window : int
        How many slices statistics are over.
    factors, watched : Factors, Watched
        The branch, and what is looked at.
    seen : Buckets
        The sums of the last slices.
    now : float64 array
        The statistics after the last slice that was taken in.
    gains : float64 array
        Room for what the change on trial gained in each slice that is passed over.

    Returns
    -------
    tuple of int
        The slice that must be looked at, which has been added, or ``stop``; and the number of gains.
    """
    factors, watched, seen = borrowed(factors), borrowed(watched), borrowed(seen)
    variables = len(factors.at_least)
    sums, sizes = np.empty(rows.shape[1]), np.empty(variables)
    shares, counts = np.empty(len(now) - variables), np.empty(len(watched.sets.fixed))
    tried = 0
    for s in range(begin, stop):
        # There is room for all buckets that such a window can have.
        _add_to_buckets(rows[s], window, _ALLOWED, seen.first, seen.last, seen.sums, seen.total, seen.at)
        _sum_buckets(window, seen.first, seen.sums, seen.total, seen.at, sums)
        _rates_and_shares(sums, variables, now)
        now[:variables] *= units[s]
        if watched.how == _ALWAYS:
            return s, tried
        if watched.how == _DEVIATIONS:
            if _deviates(watched, factors.least, now):
                return s, tried
            continue
        _take_logarithms(now, variables, factors.least, shares)
        for k in range(len(counts)):
            counts[k] = _compressed_exp(log_count(factors, watched.sets, k, now, shares, sizes))
        if watched.trial > 0:
            if tried == watched.trial - 1:
                return s, tried
            cost = before = 0.0
            for k in watched.plan:
                cost += counts[k]
            for k in watched.before:
                before += counts[k]
        if _may_be_violated(watched, counts, watched.slices + 1 + s - begin):
            return s, tried
        if watched.trial > 0:
            gains[tried] = max(1 - cost / before, -1.0)
            tried += 1
    return stop, tried


@jit
def first_looks(
    rows: Floats, units: Floats, start: Ints, stop: Ints, window: int, factors: Factors, watched: Watched,
    seen: Buckets, now: Floats, begin: Floats, looked: Bools,
) -> None:  # fmt: skip
    """Finds the keys with a slice that must be looked at; all of them begin with the same plan.

    The slices of key ``k`` are ``start[k]:stop[k]``. Each key begins with the statistics ``begin``, and its later
    statistics are not kept.
    """
    factors, watched, seen = borrowed(factors), borrowed(watched), borrowed(seen)
    gains = np.empty(0)
    for k in range(len(looked)):
        _forget(seen, now, begin)
        found, _ = look_from(rows, units, start[k], stop[k], window, factors, watched, seen, now, gains)
        looked[k] = found < stop[k]


def room_for(counters: int, window: int) -> Buckets:
    """Returns room for all the buckets that ``counters`` counters over ``window`` slices can have at once."""
    return no_buckets(counters, max(2 * _FEW, 2 * (window + 2)))


def pass_over(
    rows: Floats,
    units: Floats,
    begin: int,
    window: int,
    factors: Factors,
    watched: Watched,
    seen: Buckets,
    now: Floats,
) -> tuple[int, Sequence[float]]:
    """Adds the slices of a key until one must be looked at; returns its number, and the gains of those before it."""
    gains = np.empty(max(watched.trial, 1))
    found, tried = look_from(rows, units, begin, len(rows), window, factors, watched, seen, now, gains)
    return found, gains[:tried].tolist()
