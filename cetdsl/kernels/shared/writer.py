"""Writes the tape of a chunk: what its bursts, borders of windows and decisions on sharing come to, event by event."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.shared.bursts import Frame, Survey, bits_of, is_bound_alone, lowest_bit
from cetdsl.kernels.shared.tape import (
    ADVANCE,
    ALONE,
    APPLY,
    BIND,
    EACH,
    JUMP,
    MERGE,
    NEVER,
    RECORD,
    REFRESH,
    SHARED,
    SPLIT,
    SYNC,
    VALUE,
    Modes,
    Tape,
    put,
)
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Bools, Events, Ints

#: A plain node takes no more events than this in one go.
MOST_BOUND = 256

#: In the graphlet of the family, but for the moment not in step with it.
_OUT = 3

#: Columns of what graphlets, and variants by themselves, have taken but is not yet on the tape. Rows are the families,
#: then the variants.
_COUNT, _FIRST, _LAST = 0, 1, 2


@inlined
def _flush(out: NDArray[np.int32], at: int, pending: Ints, entry: int, families: int, state: Modes) -> int:
    """Writes down what an entry has taken so far."""
    if pending[entry, _COUNT] == 0:
        return at
    v = entry - families
    code, x = ADVANCE, entry
    if v >= 0 and state[v] != ALONE:
        code, x = EACH if state[v] == NEVER else JUMP, v
    at = put(out, at, code, x, pending[entry, _COUNT], pending[entry, _FIRST], pending[entry, _LAST])
    pending[entry, _COUNT] = 0
    return at


@inlined
def _settle(out: NDArray[np.int32], at: int, pending: Ints, v: int, family: Ints, families: int, state: Modes) -> int:
    """Writes down all that a variant has taken so far, so that its values can be read or changed."""
    entry = family[v] if state[v] == SHARED else families + v
    return _flush(out, at, pending, entry, families, state)


@inlined
def _take(
    out: NDArray[np.int32],
    at: int,
    pending: Ints,
    entry: int,
    families: int,
    state: Modes,
    count: int,
    low: int,
    high: int,
) -> int:
    """An entry takes ``count`` simultaneous events among those in ``[low, high)``."""
    if count == 1:
        if pending[entry, _COUNT] == 0:
            pending[entry, _FIRST] = low
        pending[entry, _COUNT] += 1
        pending[entry, _LAST] = high
        return at
    at = _flush(out, at, pending, entry, families, state)
    pending[entry, _COUNT], pending[entry, _FIRST], pending[entry, _LAST] = -count, low, high
    return _flush(out, at, pending, entry, families, state)


@inlined
def _sync_sources(
    out: NDArray[np.int32], at: int, source_start: Ints, sources: Ints, variant: Ints, repeating: int, node: int
) -> int:
    """What leads to a node is brought up to date."""
    for s in range(source_start[node], source_start[node + 1]):
        source = sources[s]
        if source < repeating:
            at = put(out, at, SYNC, source, source + 1, variant[source], 0)
    return at


@inlined
def _sync_targets(out: NDArray[np.int32], at: int, target_start: Ints, targets: Ints, variant: Ints, node: int) -> int:
    """What a plain node leads to is brought up to date."""
    for t in range(target_start[node], target_start[node + 1]):
        target = targets[t]
        at = put(out, at, SYNC, target, target + 1, variant[target], 0)
    return at


@inlined
def _leave(
    out: NDArray[np.int32], at: int, pending: Ints, v: int, family: Ints, families: int, nodes: Ints, state: Modes
) -> int:
    """A variant leaves its graphlet, if it is in one."""
    at = _settle(out, at, pending, v, family, families, state)
    if state[v] == SHARED or state[v] == ALONE:
        at = put(out, at, SYNC, nodes[v, 0], nodes[v, 1], v, 0)
        at = put(out, at, SPLIT, v, 0, 0, 0)
    return at


@inlined
def _join(
    out: NDArray[np.int32], at: int, pending: Ints, v: int, family: Ints, families: int, state: Modes, mode: int
) -> int:
    """A variant that is in no graphlet joins one, if its new mode says so."""
    at = _settle(out, at, pending, v, family, families, state)
    state[v] = mode
    if mode in (SHARED, ALONE):
        entry = family[v] if mode == SHARED else families + v
        at = _flush(out, at, pending, entry, families, state)
        at = put(out, at, MERGE, v, entry, 0, 0)
    return at


@jit
def write_tape(template: Template, frame: Frame, events: Events, seen: Survey, modes: Modes, recorded: bool) -> Tape:
    """Writes down what is to be done to the columns' values.

    Parameters
    ----------
    modes : int8 array, shape (stretches, variants)
        How each variant is propagated in each stretch of bursts.
    recorded : bool
        Whether snapshots are recorded: those of each burst's begin, and those after an event that not all take.
    """
    borders, islands, slots_of = frame.border, frame.island, frame.slots
    near_start, near, plain_start = template.near_start, template.near, template.plain_start
    plain, part_start, unit_start = template.plain, template.part_start, seen.start
    source_start, sources = template.source_start, template.source
    target_start, targets, variant = template.target_start, template.target, template.variant
    family, family_start, crowded = template.family, template.family_start, template.crowded
    link_source, link_target = template.link_source, template.link_target
    mask, instant, reference = events.mask, events.instant, seen.reference
    variants, families, links = len(template.bit), len(template.family_start) - 1, len(template.link_source)
    windows = len(slots_of)
    family_bits = np.array([bits_of(template, f) for f in range(families)])
    plain_bits, plain_nodes = 0, 0
    for b in range(len(plain_start) - 1):
        if plain_start[b] < plain_start[b + 1]:
            plain_bits |= 1 << b
            plain_nodes += plain_start[b + 1] - plain_start[b]
    size = families + variants
    pending = np.zeros((size, 3), dtype=np.int64)
    state = np.zeros(variants, dtype=np.int8)
    stale = np.zeros(links, dtype=np.bool_)
    moved = np.zeros(variants, dtype=np.bool_)
    nodes = np.empty((variants, 2), dtype=np.int64)
    for v in range(variants):
        nodes[v, 0], nodes[v, 1] = part_start[v * windows], part_start[(v + 1) * windows]
    out = np.empty((1024, 5), dtype=np.int32)
    start = np.zeros(len(islands) + 1, dtype=np.int64)
    mode_at = np.zeros((len(islands), variants), dtype=np.int8)
    neighbours = len(template.source) + len(template.target)
    event_room = 2 * (plain_nodes + neighbours + len(near))
    step_room = 20 * size + 2 * (links * (3 + neighbours) + len(template.link_node)) + 16
    at, unit, stages, records, most_bound = 0, 0, 0, 0, 1
    every_bit = 0
    for f in range(families):
        every_bit |= family_bits[f]
    for k in range(len(islands)):
        low, high = islands[k, 0], islands[k, 1]
        border, last_border = islands[k, 2], islands[k, 3]
        while unit + 1 < len(unit_start) and unit_start[unit + 1] <= low:
            unit += 1
        state[:] = modes[unit]
        mode_at[k] = state
        pending[:, _COUNT] = 0
        stale[:] = False
        burst = apart = 0
        i = low
        while i < high or border < last_border:
            here = border
            while here < last_border and borders[here, 0] == i:
                here += 1
            end = i + 1 if i < high else i
            while end < high and instant[end] == instant[i]:
                end += 1
            # No step below writes more than this.
            room = at + (here - border) * (2 * variants + 1) + (end - i) * event_room + step_room
            if room > len(out):
                larger = np.empty((2 * room, 5), dtype=np.int32)
                larger[:at] = out[:at]
                out = larger
            for row in range(border, here):
                burst = 0
                w = borders[row, 2]
                for v in range(variants):
                    first, last = part_start[v * windows + w], part_start[v * windows + w + 1]
                    if first < last:
                        at = _settle(out, at, pending, v, family, families, state)
                        if not borders[row, 1]:
                            at = put(out, at, SYNC, first, last, v, 1 + borders[row, 3] % slots_of[w])
                piece = borders[row, 3]
                at = put(out, at, borders[row, 1] == 0, w, piece % slots_of[w], piece, 0)
            border = here
            if i >= high:
                break
            if unit + 1 < len(unit_start) and unit_start[unit + 1] == i:
                unit += 1
                for v in range(variants):
                    same = state[v] == modes[unit, v] or (state[v] == _OUT and modes[unit, v] == SHARED)
                    if not same:
                        at = _leave(out, at, pending, v, family, families, nodes, state)
                        if state[v] != NEVER:
                            state[v] = _OUT
                        at = _join(out, at, pending, v, family, families, state, modes[unit, v])
            together = 0
            for e in range(i, end):
                together |= mask[e]
            bits = together & plain_bits
            taken = 0
            for f in range(families):
                if together & family_bits[f]:
                    taken |= 1 << f
            if taken:
                for link in range(links):
                    if stale[link] and (taken >> family[link_target[link]]) & 1:
                        at = _refresh(out, at, pending, template, state, link)
                        stale[link] = False
                if recorded:
                    begun = 0 if bits else taken & (~burst | apart)
                    at, records = _record(out, at, pending, template, state, nodes, records, i, begun)
                    apart = _deviating(events, template, reference, family_bits, i, end)
            burst = 0 if bits else taken
            # What only one node of a query takes, and nothing else, can be bound at once. Such events in a row have the
            # same value: nothing that leads to them changes in between.
            alone = end == i + 1 and taken == 0 and is_bound_alone(crowded, bits)
            if alone and bits:
                until = high if border == last_border else min(high, borders[border, 0])
                if unit + 1 < len(unit_start):
                    until = min(until, unit_start[unit + 1])
                end, run = _plain_run(mask, instant, bits, plain_bits | every_bit, i, until, high)
                most_bound = max(most_bound, run)
                b = lowest_bit(bits)
                for entry in range(near_start[b], near_start[b + 1]):
                    at = _settle(out, at, pending, near[entry], family, families, state)
                at = put(out, at, BIND, b, run, i, end)
                i = end
                continue
            stage = 0
            for e in range(i, end):
                bits = mask[e] & plain_bits
                while bits:
                    b = lowest_bit(bits)
                    bits &= bits - 1
                    for entry in range(near_start[b], near_start[b + 1]):
                        at = _settle(out, at, pending, near[entry], family, families, state)
                    for entry in range(plain_start[b], plain_start[b + 1]):
                        node = plain[entry]
                        at = _sync_sources(out, at, source_start, sources, variant, template.repeating, node)
                        at = put(out, at, VALUE, node, stage, e, e + 1)
                        stage += 1
            if taken:
                if links:
                    moved[:] = False
                at = _step(
                    out,
                    at,
                    pending,
                    mask,
                    reference,
                    state,
                    family_start,
                    family,
                    template.bit,
                    family_bits,
                    nodes,
                    moved,
                    i,
                    end,
                    taken,
                )
                for link in range(links):
                    stale[link] |= moved[link_source[link]]
            if stage:
                stages = max(stages, stage)
                stage = 0
                for e in range(i, end):
                    bits = mask[e] & plain_bits
                    while bits:
                        b = lowest_bit(bits)
                        bits &= bits - 1
                        for entry in range(near_start[b], near_start[b + 1]):
                            at = _settle(out, at, pending, near[entry], family, families, state)
                        for entry in range(plain_start[b], plain_start[b + 1]):
                            node = plain[entry]
                            at = _sync_targets(out, at, target_start, targets, variant, node)
                            at = put(out, at, APPLY, node, stage, e, 0)
                            stage += 1
            i = end
        start[k + 1] = at
    longest = 1
    for row in range(at):
        if out[row, 0] == ADVANCE or out[row, 0] == JUMP:
            longest = max(longest, out[row, 2])
    return Tape(out[:at].copy(), start, mode_at, stages, longest, most_bound)


@inlined
def _plain_run(mask: Ints, instant: Ints, bits: int, known: int, i: int, until: int, high: int) -> tuple[int, int]:
    """Where the run of events ends that only the variable ``bits`` can be bound to, and how many there are.

    Events that nothing can be bound to do not end it, more than one event of an instant do.
    """
    end, run, e = i + 1, 1, i + 1
    while e < until and run < MOST_BOUND and (e + 1 == high or instant[e + 1] != instant[e]):
        own = mask[e] & known
        if own == bits:
            end, run = e + 1, run + 1
        elif own:
            break
        e += 1
    return end, run


@inlined
def _step(
    out: NDArray[np.int32],
    at: int,
    pending: Ints,
    mask: Ints,
    reference: Ints,
    state: Modes,
    family_start: Ints,
    family: Ints,
    bit_of: Ints,
    family_bits: Ints,
    nodes: Ints,
    moved: Bools,
    i: int,
    end: int,
    taken: int,
) -> int:
    """All families take the events of an instant; ``moved`` tells the variants that took one.

    It gets arrays, not the template: a tuple of arrays costs a reference to each of them whenever it is passed on.
    """
    families = len(family_bits)
    together = 0
    for e in range(i, end):
        together |= mask[e]
    for f in range(families):
        if not (taken >> f) & 1:
            continue
        first, last = family_start[f], family_start[f + 1]
        if last == first + 1:
            count = 0
            for e in range(i, end):
                count += (mask[e] & family_bits[f]) != 0
            entry = f if state[first] == SHARED else families + first
            at = _take(out, at, pending, entry, families, state, count, i, end)
            moved[first] = True
            continue
        # Variants in step with the family take what its graphlet takes; the others are seen to one by one.
        count, deviating = 0, 0
        for e in range(i, end):
            own = mask[e] & family_bits[f]
            if (reference[e] >> f) & 1:
                count += 1
                own ^= family_bits[f]
            deviating |= own
        shared = False
        for v in range(first, last):
            mode, b = state[v], bit_of[v]
            if mode in (SHARED, _OUT):
                if (deviating >> b) & 1:
                    if mode == SHARED:
                        at = _leave(out, at, pending, v, family, families, nodes, state)
                        state[v] = _OUT
                else:
                    if mode == _OUT:
                        at = _join(out, at, pending, v, family, families, state, SHARED)
                    shared = True
                    moved[v] |= count > 0
                    continue
            bound = 0
            if (together >> b) & 1:
                for e in range(i, end):
                    bound += (mask[e] >> b) & 1
                at = _take(out, at, pending, families + v, families, state, bound, i, end)
                moved[v] = True
        if shared and count:
            at = _take(out, at, pending, f, families, state, count, i, end)
    return at


@jit
def _deviating(events: Events, template: Template, reference: Ints, family_bits: Ints, i: int, end: int) -> int:
    """The families of which not all variants take the events of an instant alike."""
    found = 0
    for f in range(len(family_bits)):
        if template.family_start[f + 1] == template.family_start[f] + 1:
            continue
        for e in range(i, end):
            own = events.mask[e] & family_bits[f]
            if own != (family_bits[f] if (reference[e] >> f) & 1 else 0):
                found |= 1 << f
    return found


@jit
def _record(
    out: NDArray[np.int32],
    at: int,
    pending: Ints,
    template: Template,
    state: Modes,
    nodes: Ints,
    records: int,
    i: int,
    begun: int,
) -> tuple[int, int]:
    """Asks for the snapshots of the families that need new ones before event ``i``."""
    families = len(template.family_start) - 1
    for f in range(families):
        if not (begun >> f) & 1:
            continue
        for v in range(template.family_start[f], template.family_start[f + 1]):
            at = _settle(out, at, pending, v, template.family, families, state)
            at = put(out, at, SYNC, nodes[v, 0], nodes[v, 1], v, 0)
            at = put(out, at, RECORD, v, records, i, 0)
        records += 1
    return at, records


@jit
def _refresh(
    out: NDArray[np.int32],
    at: int,
    pending: Ints,
    template: Template,
    state: Modes,
    link: int,
) -> int:
    """The nodes of a link learn what their sources are worth by now."""
    families = len(template.family_start) - 1
    at = _settle(out, at, pending, template.link_source[link], template.family, families, state)
    at = _settle(out, at, pending, template.link_target[link], template.family, families, state)
    for entry in range(template.link_start[link], template.link_start[link + 1]):
        node = template.link_node[entry]
        at = put(out, at, SYNC, node, node + 1, template.link_target[link], 0)
        at = _sync_sources(out, at, template.source_start, template.source, template.variant, template.repeating, node)
    return put(out, at, REFRESH, link, 0, 0, 0)
