"""The arithmetic of planning, shared by the planner and by kernels that plan again at each slice of a stream.

Python runs these functions as they are, and the kernels compile the same source text. So each function is
self-contained: it calls nothing of this package, and takes numbers and arrays only.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

#: Numbers with larger logarithms than this are compressed, so that sums and ratios stay in the range of doubles.
LARGEST_LOG = 600.0
_COMPRESSED_LOG = 50.0
#: The number of terms to each side of the largest one that count in the sum over the sizes of bounded sets.
_TERMS = 64
#: The most events of a set, which a double still represents exactly.
_MOST_EVENTS = 1e15
#: Up to so many buckets are never merged; and the default for the largest relative error of a sum over buckets.
FEW, ERROR = 32, 0.05
#: The entries of an array with the position of buckets: the first bucket, the one behind the last, the number of slices
#: added, and the number of buckets beyond which they are merged.
BEGIN, END, ADDED, MERGE_AT, ENTRIES = range(5)

#: Which slices the decision function looks at: each; those in which a statistic deviates from its value at the last
#: planning; or those in which a condition may be violated.
ALWAYS, DEVIATIONS, CONDITIONS = range(3)

_Ints = npt.NDArray[np.int64]
_Doubles = npt.NDArray[np.float64]


def compressed_exp(log: float) -> float:
    """Returns e^log; beyond e^600 a number below e^650 that still grows with ``log``, and likewise below e^-600.

    Examples
    --------
    >>> compressed_exp(0.0), compressed_exp(599.0) < compressed_exp(601.0) < compressed_exp(1e9) < 1e283
    (1.0, True)
    """
    size = abs(log)
    if size > LARGEST_LOG:
        log = math.copysign(LARGEST_LOG + _COMPRESSED_LOG * (1 - LARGEST_LOG / size), log)
    return math.exp(log)


def log_sets(
    events: float, log_each: float, between: float, at_least: int, at_most: int, monotone: int
) -> tuple[float, float]:
    """Computes how many sets a variable is expected to bind: the natural logarithm, and their mean size.

    Parameters
    ----------
    events : float
        Expected events of the variable in a window.
    log_each : float
        Logarithm of the selectivity of the predicates between an event and the events that are bound already.
    between : float
        Selectivity of the predicates between neighbours in a set.
    at_least, at_most : int
        The bounds of the sizes of sets; ``at_most`` is 0 if there is no bound.
    monotone : int
        The number of attributes that must rise, or fall, from each repetition to the next.

    Returns
    -------
    tuple of float

    Notes
    -----
    There are C(n, k) sets of k of n events, so 2^n - 1 of one event or more (Kolchinsky and Schuster model a Kleene
    closure as a type of rate 2^(rW) / W). If each event satisfies the predicates with selectivity q, there are
    (1 + q)^n - 1. If fewer events are expected than the smallest set has, n^k / k!, but at most 1, replaces C(n, k): it
    is the mean of C(N, k) for a Poisson number N of mean n.

    If neighbours satisfy their predicates with selectivity s, independently of each other, s^(k-1) of all sets of k
    events do. Comparisons by order are not independent: k independent values rise with probability 1 / k!, and so m
    independent attributes rise in 1 of k!^m sets, and between two neighbours with probability 2^-m. So the selectivity
    of sets is estimated as s^(k-1) 2^(m(k-1)) / k!^m, where the rest of s is due to other predicates. If s is more than
    2^-m, values depend on time, and m is replaced by log2(1 / s): if each value is larger than all values before it, s
    is 1, and all sets rise. The sum over all sizes has no closed form, but its terms have one peak.

    Examples
    --------
    >>> log, size = log_sets(10, 0.0, 1.0, 1, 0, 0)
    >>> round(math.exp(log)), round(size, 2)
    (1023, 5.0)
    >>> round(math.exp(log_sets(10, 0.0, 1.0, 2, 3, 0)[0]))  # C(10, 2) + C(10, 3)
    165
    >>> round(log_sets(1e6, 0.0, 1.0, 1, 0, 0)[0])  # of 2^1000000
    693147
    >>> round(math.exp(log_sets(3, 0.0, 0.5, 1, 0, 1)[0]), 4)  # 3 + 3 / 2! + 1 / 3!
    4.6667
    """
    if at_most == 1:
        return math.log(events) + log_each, 1.0
    # The number of attributes that rise by chance, and the selectivity between neighbours of all other predicates.
    by_chance = 0.0
    if monotone > 0:
        by_chance = min(float(monotone), -math.log2(between))
        between *= 2.0**by_chance
    log_each += math.log(between)
    share = math.exp(log_each)
    # No set has more events than expected, except for the smallest sets, for which there may be enough by chance.
    largest = max(at_least, math.floor(min(events, _MOST_EVENTS)))
    most = min(at_most, largest) if at_most else largest
    peak = events * share / (1 + share)
    # With many events, hardly any set is as small as half of the mean.
    if by_chance == 0 and at_most == 0 and (at_least == 1 or at_least <= peak / 2 > _TERMS):
        exponent = events * math.log1p(share)
        # With less than one event, there would be fewer sets than events; and the selectivity may underflow a double.
        log, size = math.log(events) + log_each, 1.0
        if exponent > 0:
            log = max(log, exponent if exponent > LARGEST_LOG else math.log(math.expm1(exponent)))
            size = max(size, peak / -math.expm1(-exponent))
        return log - math.log(between), size
    middle = int(min(max(peak, float(at_least)), float(most)) + 0.5)
    if by_chance > 0:
        middle, above = at_least, most
        while middle < above:
            k = (middle + above) // 2
            if (events - k) * share > (k + 1.0) ** (1 + by_chance):
                middle = k + 1
            else:
                above = k
    first, last = max(at_least, middle - _TERMS), min(middle + _TERMS, most)
    terms = np.empty(last - first + 1)
    for k in range(first, last + 1):
        if k > events:
            choose = min(k * math.log(events) - math.lgamma(k + 1.0), 0.0)
        else:
            choose = math.lgamma(events + 1.0) - math.lgamma(k + 1.0) - math.lgamma(events - k + 1.0)
        terms[k - first] = choose + k * log_each - by_chance * math.lgamma(k + 1.0)
    peak_term = terms.max()
    total = sizes = 0.0
    for k in range(first, last + 1):
        part = math.exp(terms[k - first] - peak_term)
        total += part
        sizes += k * part
    return float(peak_term) + math.log(total) - math.log(between), sizes / total


def add_to_buckets(
    row: _Doubles, window: int, allowed: float, first: _Ints, last: _Ints, sums: _Doubles, total: _Doubles, at: _Ints
) -> bool:
    """Adds the counts of a slice to the buckets of an exponential histogram; returns whether there was room.

    Parameters
    ----------
    row : float64 array, shape (counters,)
        The counts of the slice.
    window : int
        How many slices the sums are over.
    allowed : float
        Two neighbouring buckets are merged if they hold together at most this share of the sum of all newer buckets.
    first, last : int64 array, shape (room,)
        The first and the last slice of each bucket, the oldest first.
    sums : float64 array, shape (room, counters)
        The sums of each bucket.
    total : float64 array, shape (counters,)
        The sums over all buckets.
    at : int64 array, shape (ENTRIES,)
        The position of the buckets. If they take more than half of the room, more room is needed.
    """
    begin, end, counters = at[BEGIN], at[END], len(row)
    if end == len(first):
        if begin < len(first) // 2:
            return False
        for bucket in range(begin, end):
            first[bucket - begin], last[bucket - begin] = first[bucket], last[bucket]
            sums[bucket - begin] = sums[bucket]
        begin, end = 0, end - begin
    first[end] = last[end] = at[ADDED]
    for c in range(counters):
        sums[end, c] = row[c]
        total[c] += row[c]
    end += 1
    at[ADDED] += 1
    while last[begin] < at[ADDED] - window:
        for c in range(counters):
            total[c] -= sums[begin, c]
        begin += 1
    if end - begin > at[MERGE_AT]:
        newer = total.copy()
        kept = begin
        for bucket in range(begin, end):
            for c in range(counters):
                newer[c] -= sums[bucket, c]
            fits = kept > begin
            for c in range(counters):
                fits = fits and sums[kept - 1, c] + sums[bucket, c] <= allowed * newer[c]
            if fits:
                last[kept - 1] = last[bucket]
                for c in range(counters):
                    sums[kept - 1, c] += sums[bucket, c]
            else:
                first[kept], last[kept] = first[bucket], last[bucket]
                sums[kept] = sums[bucket]
                kept += 1
        end = kept
        at[MERGE_AT] = max(FEW, 2 * (end - begin))
    at[BEGIN], at[END] = begin, end
    return True


def sum_buckets(window: int, first: _Ints, sums: _Doubles, total: _Doubles, at: _Ints, out: _Doubles) -> None:
    """Writes the sums over the last slices of an exponential histogram to ``out``: float64 array, shape (counters,)."""
    begin = at[BEGIN]
    parted = begin < at[END] and first[begin] < at[ADDED] - window
    for c in range(len(out)):
        out[c] = total[c] - sums[begin, c] / 2 if parted else total[c]


def rates_and_shares(sums: _Doubles, variables: int, now: _Doubles) -> None:
    """Writes the statistics from the last slices' sums to ``now``; a pair that was never tried stays as it was.

    If no combination of a pair passed, half a combination counts as passed: with a larger selectivity than that, some
    would be expected to pass.

    Parameters
    ----------
    sums : float64 array, shape (1 + variables + 2 * pairs,)
        The duration, the events of each variable, and for each pair how many combinations were tried, and passed.
    variables : int
        How many variables there are.
    now : float64 array, shape (variables + pairs or more,)
        Rates by variable, and then selectivities by pair.

    Examples
    --------
    >>> now = np.array([1.0, 1.0, 0.5])
    >>> rates_and_shares(np.array([100.0, 10, 50, 200, 10]), 2, now)
    >>> now.tolist()
    [0.1, 0.5, 0.05]
    """
    pairs = (len(sums) - 1 - variables) // 2
    duration = sums[0] if sums[0] != 0.0 else 1.0
    for v in range(variables):
        now[v] = sums[1 + v] / duration
    for p in range(pairs):
        tried, passed = sums[1 + variables + p], sums[1 + variables + pairs + p]
        if tried > 0.0:
            now[variables + p] = min(max(passed, 0.5) / tried, 1.0)
