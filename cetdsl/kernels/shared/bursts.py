"""The bursts of a chunk: which windows are open when, and what decisions on sharing depend on.

A *burst* is a maximal run of events that a family's variants, and nothing else, can be bound to, with no window opening
or closing inside (Hamlet, SIGMOD 2021, definition 10). What bursts do to the counts of a query depends on how many of
its events the query takes, not on what the counts are. So the stream is read once, decisions included, and written
down as a tape (:mod:`~cetdsl.kernels.shared.writer`); the tape is played in each number system, and once per row of
primes where counts are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices

#: Shorter bursts are decided on together; bursts of more than four times as many events, in parts.
DECISION_EVENTS = 64

#: What is known of a variant in a stretch of bursts that is decided on as one.
BOUND, DEVIATIONS, SEATS, BREAKS, TIES = 0, 1, 2, 3, 4


class Frame(NamedTuple):
    """The windows of a chunk: which columns are open when.

    A column is one window of one query. Each query has as many *slots* as windows are ever open at once.

    Attributes
    ----------
    slots : int64 array, shape (windows,)
    border : int64 array, shape (borders, 4)
        Event number, whether a slice opens, windows, slice; in order, a slice's end before another one's begin.
    island : int64 array, shape (islands, 4)
        First event and end, first border and end, of each stretch that columns span without a gap.
    long : bool array, shape (islands,)
        Whether a slice of the island has more events than ``few``.
    columns : int64 array, shape (variants,)
        Columns of each variant.
    near_columns : int64 array
        Columns of each entry of ``Template.near`` that an event touches.
    """

    slots: Ints
    border: Ints
    island: Ints
    long: Bools
    columns: Ints
    near_columns: Ints


def frame_of(template: Template, slices: list[Slices], few: int) -> Frame:
    """The frame of a chunk; ``slices[w]`` are those of window number ``w``."""
    slots, borders = [], []
    for number, cut in enumerate(slices):
        if np.any(np.diff(cut.low) < 0) or np.any(np.diff(cut.high) < 0):
            raise ValueError("slices must be in order of their begins and of their ends")
        first = np.searchsorted(cut.high, cut.low, side="right")
        slots.append(int((np.arange(len(cut.low)) - first).max(initial=0)) + 1)
        for opens, at in ((0, cut.high), (1, cut.low)):
            filled = np.nonzero(cut.high > cut.low)[0]
            rows = np.empty((len(filled), 4), dtype=np.int64)
            rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = at[filled], opens, number, filled
            borders.append(rows)
    border = np.concatenate(borders)
    border = border[np.argsort(border[:, 0] * 2 + border[:, 1], kind="stable")]
    per_query = np.array(slots, dtype=np.int64)[template.window]
    columns = np.bincount(template.variant, per_query[template.query[: template.repeating]], template.variants)
    near = np.bincount(template.touch[:, 0], per_query[template.touch[:, 1]], len(template.near))
    island = _islands(border)
    long = np.zeros(len(island), dtype=np.bool_)
    for cut in slices:
        large = cut.low[cut.high - cut.low > few]
        long[np.searchsorted(island[:, 0], large, side="right") - 1] = True
    return Frame(np.array(slots, dtype=np.int64), border, island, long, columns.astype(np.int64), near.astype(np.int64))


@jit
def _islands(border: Ints) -> Ints:
    island = np.empty((len(border) // 2, 4), dtype=np.int64)
    count = depth = 0
    for b in range(len(border)):
        if depth == 0:
            island[count, 0], island[count, 2] = border[b, 0], b
        depth += 1 if border[b, 1] else -1
        if depth == 0:
            island[count, 1], island[count, 3] = border[b, 0], b + 1
            count += 1
    return island[:count].copy()


# ----------------------------------------------------------------------------------------------- what there is


class Survey(NamedTuple):
    """What a chunk's bursts are like, before anything is decided.

    Attributes
    ----------
    start : int64 array, shape (stretches,)
        The first event of each stretch of bursts that is decided on as one.
    bursts : int64 array, shape (stretches, families)
    events : int64 array, shape (stretches, families)
        Events that most columns of the family take: those of its graphlet.
    of_variant : int64 array, shape (stretches, variants, 5)
        Events bound; runs of events at which the variant does otherwise than most; columns that plain events touch;
        events that do so; instants of several events.
    reference : int64 array, shape (n,) or (0,)
        Bit ``f`` is set at the events of family ``f``'s graphlet; empty where no family has two variants.
    largest : int
        The most events of an instant.
    """

    start: Ints
    bursts: Ints
    events: Ints
    of_variant: Ints
    reference: Ints
    largest: int


@inlined
def lowest_bit(bits: int) -> int:
    """The number of the lowest bit that is set."""
    return int(_NUMBER[(np.uint64(bits & -bits) * _DE_BRUIJN) >> np.uint64(58)])


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_NUMBER = np.zeros(64, dtype=np.int64)
_NUMBER[[(int(_DE_BRUIJN) << number & (1 << 64) - 1) >> 58 for number in range(64)]] = np.arange(64)


@jit
def _most_take(template: Template, columns: Ints, family: int, mask: int) -> bool:
    """Whether most columns of a family take an event with this mask."""
    weight = 0
    for v in range(template.family_start[family], template.family_start[family + 1]):
        weight += columns[v] if (mask >> template.bit[v]) & 1 else -columns[v]
    return weight >= 0


@jit
def bits_of(template: Template, family: int) -> int:
    bits = 0
    for v in range(template.family_start[family], template.family_start[family + 1]):
        bits |= 1 << template.bit[v]
    return bits


@inlined
def is_bound_alone(crowded: int, bits: int) -> bool:
    """Whether plain events of these variables take one node of a query at most."""
    return bits & (bits - 1) == 0 and bits & crowded == 0


@jit
def survey(template: Template, frame: Frame, events: Events, decision_events: int) -> Survey:
    """Reads the chunk once and counts what decisions depend on."""
    mask, instant, borders, islands = events.mask, events.instant, frame.border, frame.island
    near_start, near, near_columns, columns = template.near_start, template.near, frame.near_columns, frame.columns
    family_start, bit_of, crowded = template.family_start, template.bit, template.crowded
    variants, families = len(bit_of), len(family_start) - 1
    most = 2
    for k in range(len(islands)):
        most += islands[k, 1] - islands[k, 0]
    most = most // decision_events + 2
    start = np.zeros(most, dtype=np.int64)
    bursts = np.zeros((most, families), dtype=np.int64)
    graphlet = np.zeros((most, families), dtype=np.int64)
    of_variant = np.zeros((most, variants, 5), dtype=np.int64)
    mixed = families < variants
    reference = np.zeros(len(mask) if mixed else 0, dtype=np.int64)
    family_bits = np.array([bits_of(template, f) for f in range(families)])
    variant_of = np.zeros(64, dtype=np.int64)
    for v in range(variants):
        variant_of[bit_of[v]] = v
    plain_bits = 0
    for b in range(len(template.plain_start) - 1):
        if template.plain_start[b] < template.plain_start[b + 1]:
            plain_bits |= 1 << b
    apart = np.zeros(families, dtype=np.int64)  # variants that are out of step
    largest, unit, waiting = 1, 0, 0
    for k in range(len(islands)):
        low, high = islands[k, 0], islands[k, 1]
        border, last_border = islands[k, 2], islands[k, 3]
        apart[:] = 0
        before = 0  # the families of the burst that is under way
        bound_before = 0  # the one variable of plain nodes that the run under way is of
        i = low
        while i < high:
            while border < last_border and borders[border, 0] == i:
                border += 1
                before = bound_before = 0
            end = i + 1
            while end < high and instant[end] == instant[i]:
                end += 1
            largest = max(largest, end - i)
            together = 0
            for e in range(i, end):
                together |= mask[e]
            bits = together & plain_bits
            taken = 0
            for f in range(families):
                if together & family_bits[f]:
                    taken |= 1 << f
            begins = bits != 0 or taken != before
            if taken and waiting >= (decision_events if begins else 4 * decision_events):
                unit, waiting = unit + 1, 0
                start[unit] = i
            if begins:
                for f in range(families):
                    bursts[unit, f] += (taken >> f) & 1
            before = 0 if bits else taken
            waiting += end - i if taken else 0
            alone = end == i + 1 and taken == 0 and is_bound_alone(crowded, bits)
            if bits | taken:
                if alone and bits == bound_before:
                    bits = 0
                else:
                    bound_before = bits if alone else 0
            while bits:
                b = lowest_bit(bits)
                bits &= bits - 1
                for entry in range(near_start[b], near_start[b + 1]):
                    v = near[entry]
                    of_variant[unit, v, SEATS] += near_columns[entry]
                    of_variant[unit, v, BREAKS] += 1
            for f in range(families):
                if not (taken >> f) & 1:
                    continue
                first = family_start[f]
                if family_start[f + 1] == first + 1:
                    bound = 0
                    for e in range(i, end):
                        bound += (mask[e] & family_bits[f]) != 0
                    graphlet[unit, f] += bound
                    of_variant[unit, first, BOUND] += bound
                    of_variant[unit, first, TIES] += bound > 1
                    continue
                deviating, bound = 0, 0
                for e in range(i, end):
                    own = mask[e] & family_bits[f]
                    if own == 0:
                        continue
                    if own == family_bits[f] or _most_take(template, columns, f, own):
                        reference[e] |= 1 << f
                        bound += 1
                        own ^= family_bits[f]
                    deviating |= own
                graphlet[unit, f] += bound
                if bound > 1:
                    of_variant[unit, first : family_start[f + 1], TIES] += 1
                fresh = deviating & ~apart[f]
                apart[f] = deviating
                while deviating:
                    b = lowest_bit(deviating)
                    deviating &= deviating - 1
                    v = variant_of[b]
                    of_variant[unit, v, DEVIATIONS] += (fresh >> b) & 1
                    of_variant[unit, v, BOUND] -= bound
                    for e in range(i, end):
                        of_variant[unit, v, BOUND] += (mask[e] >> b) & 1
            i = end
    count = unit + 1
    for u in range(count):
        for f in range(families):
            if family_start[f + 1] > family_start[f] + 1:
                for v in range(family_start[f], family_start[f + 1]):
                    of_variant[u, v, BOUND] += graphlet[u, f]
    return Survey(start[:count], bursts[:count], graphlet[:count], of_variant[:count], reference, largest)
