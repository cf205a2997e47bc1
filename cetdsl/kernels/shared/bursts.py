"""Finds the bursts of a chunk, their open windows, and the numbers that decisions on sharing depend on.

A *burst* is a maximal sequence of consecutive events that are bound to variants of certain families and to nothing
else, such that no window opens or closes inside (Hamlet, SIGMOD 2021, definition 10); families and variants are those
of :mod:`~cetdsl.kernels.shared.template`. The *survey* of a chunk counts bursts and events by *stretches*: ranges of
consecutive bursts about which one decision is made. A family's variants mostly take the same events: those that most of
its columns take are the events of its shared *graphlet*, and a variant *deviates* at an event that it takes and the
graphlet does not, or the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices

#: A stretch has at least so many events; a burst of more than four times as many is divided.
DECISION_EVENTS = 256
#: For each variant, a stretch has at least so many events: to decide about a variant takes about a tenth as long as to
#: propagate an event that all share, which would be noticeable with many variants.
EVENTS_PER_VARIANT = 8

#: What the survey counts of each variant in a stretch: the events bound to it; how often it begins to deviate; the
#: columns of it that plain events touch, added up over these events; how often it is interrupted, by plain events that
#: touch it or by one of its windows that opens or closes; and the instants at which it takes several events.
BOUND, DEVIATIONS, SEATS, BREAKS, TIES = 0, 1, 2, 3, 4


class Frame(NamedTuple):
    """The windows of a chunk: which columns are open when.

    A *column* is one window of one query. Queries with equal windows have one *window number*, and each number has as
    many *slots* as its windows are ever open at once. An *island* is a range of events that windows cover without a
    gap.

    Attributes
    ----------
    slots : int64 array, shape (windows,)
        The slots of each window number.
    border : int64 array, shape (borders, 4)
        Where slices open and close, in order of events: the event, whether a slice opens, its window number, and its
        number. At one event slices close before others open.
    island, long : int64 array, shape (islands, 4), and bool array, shape (islands,)
        Of each island the first event and the end, the first border and the end; and whether a slice in it has more
        events than ``few``.
    columns, near_columns : int64 arrays, shape (variants,), (entries,)
        The columns of each variant; and for each entry of ``Template.near``, the columns of the variant that belong to
        queries in which it is next to a plain node of the variable.
    """

    slots: Ints
    border: Ints
    island: Ints
    long: Bools
    columns: Ints
    near_columns: Ints


def frame_of(template: Template, slices: list[Slices], few: int) -> Frame:
    """Makes the frame of a chunk; ``slices[w]`` are those of window number ``w``."""
    slots, border, island = windows_in_order(slices)
    per_query = slots[template.window]
    columns = np.bincount(template.variant, per_query[template.query[: template.repeating]], template.variants)
    near = np.bincount(template.touch[:, 0], per_query[template.touch[:, 1]], len(template.near))
    long = np.zeros(len(island), dtype=np.bool_)
    for cut in slices:
        large = cut.low[cut.high - cut.low > few]
        long[np.searchsorted(island[:, 0], large, side="right") - 1] = True
    return Frame(slots, border, island, long, columns.astype(np.int64), near.astype(np.int64))


def windows_in_order(slices: Sequence[Slices]) -> tuple[Ints, Ints, Ints]:
    """Returns the ``slots``, ``border`` and ``island`` of a :class:`Frame`; ``slices[w]`` are those of window ``w``."""
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
    return np.array(slots, dtype=np.int64), border, _islands(border)


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


def events_of_decisions(template: Template) -> int:
    """Returns how many events a stretch has at least."""
    return max(DECISION_EVENTS, EVENTS_PER_VARIANT * template.variants)


class Survey(NamedTuple):
    """The numbers of a chunk's bursts that decisions depend on.

    Attributes
    ----------
    start : int64 array, shape (stretches,)
        The first event of each stretch.
    bursts, events : int64 arrays, shape (stretches, families)
        The bursts of each family, and the events of its graphlet.
    of_variant : int64 array, shape (stretches, variants, 5)
        Its last axis are the columns ``BOUND`` to ``TIES``.
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


def slices_of_windows(window: Sequence[int], slices: Sequence[Slices]) -> list[Slices]:
    """Returns the slices of each window number, given those of each query and its number (``window``)."""
    found: dict[int, list[Slices]] = {}
    for number, cut in zip(window, slices, strict=True):
        found.setdefault(number, []).append(cut)
    return [common_slices(found[number]) for number in range(len(found))]


def common_slices(slices: Sequence[Slices]) -> Slices:
    """Returns the slices of queries with equal windows, after checking that they are all the same."""
    first = slices[0]
    for cut in slices[1:]:
        if cut is not first and not (np.array_equal(first.low, cut.low) and np.array_equal(first.high, cut.high)):
            raise ValueError("queries with equal windows have different slices")
    return first


@inlined
def end_of_instant(instant: Ints, low: int, high: int) -> int:
    """Returns the end of the events that are simultaneous with the one at ``low``."""
    end = low + 1
    while end < high and instant[end] == instant[low]:
        end += 1
    return end


@inlined
def bound_to(mask: Ints, low: int, high: int) -> int:
    """Returns the variables that events can be bound to, as a bit mask."""
    together = 0
    for e in range(low, high):
        together |= mask[e]
    return together


@inlined
def taken_by(family_bits: Ints, together: int) -> int:
    """Returns the families of some variables, as a bit mask."""
    taken = 0
    for f in range(len(family_bits)):
        if together & family_bits[f]:
            taken |= 1 << f
    return taken


@inlined
def is_for_one_node(crowded: int, plain: int) -> bool:
    """Whether ``plain`` is one variable at most, and each query has at most one plain node that reads it."""
    return plain & (plain - 1) == 0 and plain & crowded == 0


@jit
def survey(template: Template, frame: Frame, events: Events, decision_events: int) -> Survey:
    """Reads the chunk once and counts what decisions depend on."""
    mask, instant, borders, islands = events.mask, events.instant, frame.border, frame.island
    near_start, near, near_columns = template.near_start, template.near, frame.near_columns
    family_bits, plain_bits, part_start = template.family_bits, template.plain_bits, template.part_start
    variants, families, windows = len(template.bit), len(family_bits), len(frame.slots)
    members = np.stack((template.bit, frame.columns), axis=1)
    family = np.stack((template.family_start[:-1], template.family_start[1:], family_bits), axis=1)
    most = 2
    for k in range(len(islands)):
        most += islands[k, 1] - islands[k, 0]
    most = most // decision_events + 2
    start = np.zeros(most, dtype=np.int64)
    bursts = np.zeros((most, families), dtype=np.int64)
    graphlet = np.zeros((most, families), dtype=np.int64)
    of_variant = np.zeros((most, variants, 5), dtype=np.int64)
    reference = np.zeros(len(mask) if families < variants else 0, dtype=np.int64)
    apart = np.zeros(families, dtype=np.int64)  # the variants that deviated at the family's last instant
    largest, stretch, waiting = 1, 0, 0
    for k in range(len(islands)):
        i, high, border, last_border = islands[k, 0], islands[k, 1], islands[k, 2], islands[k, 3]
        apart[:] = 0
        before = 0  # the families of the burst that is under way
        bound_before = 0  # the variable of the plain events that can be bound in one operation, if any are under way
        while i < high:
            while border < last_border and borders[border, 0] == i:
                for v in range(variants):
                    part = v * windows + borders[border, 2]
                    of_variant[stretch, v, BREAKS] += part_start[part] < part_start[part + 1]
                border += 1
                before = bound_before = 0
            end = end_of_instant(instant, i, high)
            largest = max(largest, end - i)
            together = bound_to(mask, i, end)
            plain, taken = together & plain_bits, taken_by(family_bits, together)
            begins = plain != 0 or taken != before
            if taken and waiting >= (decision_events if begins else 4 * decision_events):
                stretch, waiting = stretch + 1, 0
                start[stretch] = i
            if begins:
                for f in range(families):
                    bursts[stretch, f] += (taken >> f) & 1
            before = 0 if plain else taken
            waiting += end - i if taken else 0
            in_one_go = end == i + 1 and taken == 0 and is_for_one_node(template.crowded, plain)
            if plain | taken:
                if in_one_go and plain == bound_before:
                    plain = 0
                else:
                    bound_before = plain if in_one_go else 0
            while plain:
                b = lowest_bit(plain)
                plain &= plain - 1
                for entry in range(near_start[b], near_start[b + 1]):
                    of_variant[stretch, near[entry], SEATS] += near_columns[entry]
                    of_variant[stretch, near[entry], BREAKS] += 1
            for f in range(families):
                if not (taken >> f) & 1:
                    continue
                if family[f, 1] > family[f, 0] + 1:
                    bound, apart[f] = _compare(
                        members, family, mask, reference, of_variant, stretch, f, apart[f], i, end
                    )
                else:
                    v, bound = family[f, 0], 0
                    for e in range(i, end):
                        bound += (mask[e] & family_bits[f]) != 0
                    of_variant[stretch, v, BOUND] += bound
                    of_variant[stretch, v, TIES] += bound > 1
                graphlet[stretch, f] += bound
            i = end
    count = stretch + 1
    for f in range(families):
        if family[f, 1] > family[f, 0] + 1:
            for u in range(count):
                # So far ``BOUND`` has how many more events each variant takes than the graphlet, or how many fewer.
                for v in range(family[f, 0], family[f, 1]):
                    of_variant[u, v, BOUND] += graphlet[u, f]
    return Survey(start[:count], bursts[:count], graphlet[:count], of_variant[:count], reference, largest)


@inlined
def _compare(
    members: Ints,
    family: Ints,
    mask: Ints,
    reference: Ints,
    of_variant: Ints,
    stretch: int,
    f: int,
    before: int,
    low: int,
    high: int,
) -> tuple[int, int]:
    """Compares the variants of family ``f`` at an instant, and counts what the survey wants to know of them.

    Marks the events of the graphlet in ``reference``, counts events and deviations in ``of_variant``, and returns the
    number of the graphlet's events and the variants that deviate, as a bit mask of variables. Variants are rows of
    ``members`` (variable, columns), families are rows of ``family`` (first variant, end, bits of the variables), and
    ``before`` are the variants that deviated at the family's last instant.
    """
    first, last, bits = family[f, 0], family[f, 1], family[f, 2]
    deviating, bound = 0, 0
    for e in range(low, high):
        own = mask[e] & bits
        if own == 0:
            continue
        # The graphlet takes an event if all variants do, or if those that do have half of the columns or more.
        weight = 0
        if own != bits:
            for v in range(first, last):
                weight += members[v, 1] if (own >> members[v, 0]) & 1 else -members[v, 1]
        if weight >= 0:
            reference[e] |= 1 << f
            bound += 1
            own ^= bits
        deviating |= own
    if bound > 1:
        for v in range(first, last):
            of_variant[stretch, v, TIES] += 1
    if deviating:
        for v in range(first, last):
            b = members[v, 0]
            if (deviating >> b) & 1:
                of_variant[stretch, v, DEVIATIONS] += (~before >> b) & 1
                of_variant[stretch, v, BOUND] -= bound
                for e in range(low, high):
                    of_variant[stretch, v, BOUND] += (mask[e] >> b) & 1
    return bound, deviating
