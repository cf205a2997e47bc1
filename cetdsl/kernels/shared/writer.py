"""Writes the tape of a chunk: its bursts, the borders of its windows and the decisions on sharing become operations.

The *tape* is the list of these operations (:mod:`~cetdsl.kernels.shared.operations`). Events of a row are collected in
the *ledger* until something requires that they are written. The ledger has a row for the shared graphlet of each family
and, behind these, a row for each variant, which is also the row of the graphlet that the variant may have of its own.
(For graphlets and stretches see :mod:`~cetdsl.kernels.shared.bursts`.)
"""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.numbers.copying import copy, copy_rows
from cetdsl.kernels.shared import operations as op
from cetdsl.kernels.shared.bursts import Frame, Survey, bound_to, end_of_instant, is_for_one_node, lowest_bit, taken_by
from cetdsl.kernels.shared.operations import NEVER, OWN, SHARED, Modes, Operations, Tape
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Events, Ints

#: A plain node takes no more events than this in one operation.
MOST_BOUND = 256

#: The mode of a variant that shares, but has left the graphlet of its family while it deviates from it.
_OUT = 3

#: Columns of the ledger: the number of events that a row has taken and that are not on the tape yet, and the range of
#: events that they are among.
_COUNT, _LOW, _HIGH = 0, 1, 2
#: The variables of a row, as a bit mask, and its mode; that of a family's row is ``OWN``.
_BITS, _MODE = 3, 4
#: Of a family: the rows of its variants; and the variables of those that share now, and of those that are out.
_FIRST_ROW, _LAST_ROW, _SHARING, _AWAY = 5, 6, 7, 8
#: Of a variant: its number, the row of its family, and its nodes.
_VARIANT, _FAMILY, _FIRST_NODE, _LAST_NODE = 9, 10, 11, 12


@jit
def _new_ledger(template: Template, windows: int) -> Ints:
    family_start, part_start = template.family_start, template.part_start
    variants, families = len(template.bit), len(template.family_bits)
    ledger = np.zeros((families + variants, 13), dtype=np.int64)
    for f in range(families):
        ledger[f, _BITS], ledger[f, _MODE] = template.family_bits[f], OWN
        ledger[f, _FIRST_ROW], ledger[f, _LAST_ROW] = families + family_start[f], families + family_start[f + 1]
    for v in range(variants):
        row = families + v
        ledger[row, _BITS], ledger[row, _VARIANT], ledger[row, _FAMILY] = 1 << template.bit[v], v, template.family[v]
        ledger[row, _FIRST_NODE], ledger[row, _LAST_NODE] = part_start[v * windows], part_start[(v + 1) * windows]
    return ledger


@inlined
def _enter(ledger: Ints, row: int, mode: int) -> None:
    """Sets the mode of a variant."""
    family, bit = ledger[row, _FAMILY], ledger[row, _BITS]
    ledger[row, _MODE] = mode
    ledger[family, _SHARING] = ledger[family, _SHARING] | bit if mode == SHARED else ledger[family, _SHARING] & ~bit
    ledger[family, _AWAY] = ledger[family, _AWAY] | bit if mode == _OUT else ledger[family, _AWAY] & ~bit


@inlined
def _flush(out: Operations, at: int, ledger: Ints, row: int) -> int:
    """Writes the events that a row has taken to the tape."""
    count, low, high = ledger[row, _COUNT], ledger[row, _LOW], ledger[row, _HIGH]
    if count == 0:
        return at
    ledger[row, _COUNT] = 0
    if ledger[row, _MODE] == OWN:
        return op.put_events(out, at, op.ADVANCE, row, count, low, high)
    code = op.EACH if ledger[row, _MODE] == NEVER else op.JUMP
    return op.put_events(out, at, code, ledger[row, _VARIANT], count, low, high)


@inlined
def _settle(out: Operations, at: int, ledger: Ints, row: int) -> int:
    """Writes the events that a variant has taken to the tape, so that its values can be read or changed behind them."""
    return _flush(out, at, ledger, ledger[row, _FAMILY] if ledger[row, _MODE] == SHARED else row)


@inlined
def _settle_near(out: Operations, at: int, ledger: Ints, near_start: Ints, near_rows: Ints, variable: int) -> int:
    """Writes the events that the variants next to a variable's plain nodes have taken to the tape."""
    for entry in range(near_start[variable], near_start[variable + 1]):
        at = _settle(out, at, ledger, near_rows[entry])
    return at


@inlined
def _take(out: Operations, at: int, ledger: Ints, row: int, count: int, low: int, high: int) -> int:
    """Lets a row take ``count`` simultaneous events among those in ``[low, high)``."""
    if count == 1:
        if ledger[row, _COUNT] == 0:
            ledger[row, _LOW] = low
        ledger[row, _COUNT] += 1
        ledger[row, _HIGH] = high
        return at
    at = _flush(out, at, ledger, row)
    ledger[row, _COUNT], ledger[row, _LOW], ledger[row, _HIGH] = -count, low, high
    return _flush(out, at, ledger, row)


@inlined
def _leave(out: Operations, at: int, ledger: Ints, row: int) -> int:
    """Writes that a variant leaves its graphlet, if it is in one."""
    at = _settle(out, at, ledger, row)
    if ledger[row, _MODE] == SHARED or ledger[row, _MODE] == OWN:
        at = op.put_sync(out, at, ledger[row, _FIRST_NODE], ledger[row, _LAST_NODE], -1)
        at = op.put_split(out, at, ledger[row, _VARIANT])
    _enter(ledger, row, _OUT)
    return at


@inlined
def _join(out: Operations, at: int, ledger: Ints, row: int, mode: int) -> int:
    """Writes that a variant, which is in no graphlet, joins the one that its new mode requires, if any."""
    at = _settle(out, at, ledger, row)
    _enter(ledger, row, mode)
    if mode == NEVER:
        return at
    graphlet = ledger[row, _FAMILY] if mode == SHARED else row
    at = _flush(out, at, ledger, graphlet)
    return op.put_merge(out, at, ledger[row, _VARIANT], graphlet)


@inlined
def _sync_next(out: Operations, at: int, start: Ints, nodes: Ints, repeating: int, node: int) -> int:
    """Writes that the repeating nodes among a node's sources, or targets, are brought up to date."""
    for entry in range(start[node], start[node + 1]):
        if nodes[entry] < repeating:
            at = op.put_sync(out, at, nodes[entry], nodes[entry] + 1, -1)
    return at


@jit
def _rooms(template: Template, rows: int) -> tuple[int, int, int]:
    """Returns the most operations that an instant takes: for each of its events, for each border, and in addition."""
    nodes, links = len(template.query) - template.repeating, len(template.link_source)
    neighbours = len(template.source) + len(template.target)
    others = 20 * rows + 2 * (links * (3 + neighbours) + len(template.link_node)) + 16
    return 2 * (nodes + neighbours + len(template.near)), 2 * len(template.bit) + 1, others


@jit
def write_tape(template: Template, frame: Frame, events: Events, seen: Survey, modes: Modes) -> Tape:
    """Writes the operations on the columns' values; ``modes``, shape (stretches, variants), are the decisions."""
    # Arrays of the inner loop have names: a look at a field of a tuple of arrays counts references.
    borders, islands, part_start = frame.border, frame.island, template.part_start
    near_start, near_rows = template.near_start, template.near + len(template.family_bits)
    family_bits, plain_bits = template.family_bits, template.plain_bits
    link_source, link_target, family = template.link_source, template.link_target, template.family
    mask, instant, reference, stretch_start = events.mask, events.instant, seen.reference, seen.start
    variants, families, links = len(template.bit), len(template.family_bits), len(template.link_source)
    known_bits = bound_to(family_bits, 0, families) | plain_bits
    ledger = _new_ledger(template, len(frame.slots))
    row_of = np.zeros(64, dtype=np.int64)
    for v in range(variants):
        row_of[template.bit[v]] = families + v
    stale = np.zeros(links, dtype=np.bool_)
    out = np.empty((1024, op.OPERANDS), dtype=np.int32)
    start = np.zeros(len(islands) + 1, dtype=np.int64)
    mode_at = np.zeros((len(islands), variants), dtype=np.int8)
    event_room, border_room, other_room = _rooms(template, len(ledger))
    at, stretch, stages, most_bound = 0, 0, 0, 1
    for k in range(len(islands)):
        i, high, border, last_border = islands[k, 0], islands[k, 1], islands[k, 2], islands[k, 3]
        while stretch + 1 < len(stretch_start) and stretch_start[stretch + 1] <= i:
            stretch += 1
        copy(mode_at[k], modes[stretch])
        for v in range(variants):
            _enter(ledger, families + v, modes[stretch, v])
        ledger[:, _COUNT] = 0
        stale[:] = False
        while i < high or border < last_border:
            here = border
            while here < last_border and borders[here, 0] == i:
                here += 1
            end = end_of_instant(instant, i, high) if i < high else i
            room = at + (here - border) * border_room + (end - i) * event_room + other_room
            if room > len(out):
                larger = np.empty((2 * room, op.OPERANDS), dtype=np.int32)
                copy_rows(larger, out[:at])
                out = larger
            if border < here:
                at = _cross(out, at, ledger, borders[border:here], frame.slots, part_start)
            border = here
            if i >= high:
                break
            if stretch + 1 < len(stretch_start) and stretch_start[stretch + 1] == i:
                stretch += 1
                at = _change_modes(out, at, ledger, families, modes[stretch])
            together = bound_to(mask, i, end)
            plain, taken = together & plain_bits, taken_by(family_bits, together)
            if taken:
                for link in range(links):
                    if stale[link] and (taken >> family[link_target[link]]) & 1:
                        at = _refresh(out, at, ledger, template, link)
                        stale[link] = False
            elif plain and end == i + 1 and is_for_one_node(template.crowded, plain):
                # Consecutive events that only one plain node of each query takes have the same value, because nothing
                # that leads to this node changes between them. So one operation binds them all.
                until = high if border == last_border else min(high, borders[border, 0])
                if stretch + 1 < len(stretch_start):
                    until = min(until, stretch_start[stretch + 1])
                end, count = _end_of_plain(mask, instant, plain, known_bits, i, until, high)
                most_bound = max(most_bound, count)
                at = _settle_near(out, at, ledger, near_start, near_rows, lowest_bit(plain))
                at = op.put_events(out, at, op.BIND, lowest_bit(plain), count, i, end)
                i = end
                continue
            # Simultaneous events do not follow each other: all their values are staged before any of them is applied.
            if plain:
                at, staged = _bind(out, at, ledger, template, near_rows, mask, i, end, False)
                stages = max(stages, staged)
            if taken:
                at, moved = _take_instant(out, at, ledger, row_of, mask, reference, i, end, taken)
                for link in range(links):
                    stale[link] |= moved & ledger[families + link_source[link], _BITS] != 0
            if plain:
                at, staged = _bind(out, at, ledger, template, near_rows, mask, i, end, True)
            i = end
        start[k + 1] = at
    return Tape(out[:at].copy(), start, mode_at, stages, _longest(out, at), most_bound)


@jit
def _longest(out: Operations, count: int) -> int:
    """Returns the most single events that one of ``count`` operations takes at once."""
    longest = 1
    for k in range(count):
        if out[k, op.CODE] == op.ADVANCE or out[k, op.CODE] == op.JUMP:
            longest = max(longest, out[k, op.COUNT])
    return longest


@inlined
def _cross(out: Operations, at: int, ledger: Ints, borders: Ints, slots: Ints, part_start: Ints) -> int:
    """Writes that slices close and open, after the variants in them have been brought up to date."""
    variants = (len(part_start) - 1) // len(slots)
    families = len(ledger) - variants
    for row in range(len(borders)):
        opens, windows, piece = borders[row, 1], borders[row, 2], borders[row, 3]
        slot = piece % slots[windows]
        for v in range(variants):
            part = v * len(slots) + windows
            if part_start[part] < part_start[part + 1]:
                at = _settle(out, at, ledger, families + v)
                if not opens:
                    at = op.put_sync(out, at, part_start[part], part_start[part + 1], slot)
        at = op.put_border(out, at, op.OPEN if opens else op.CLOSE, windows, piece, slot)
    return at


@inlined
def _change_modes(out: Operations, at: int, ledger: Ints, families: int, modes: Modes) -> int:
    """Begins a new stretch: writes that variants whose mode is another one there leave and join graphlets."""
    for row in range(families, len(ledger)):
        mode, before = modes[row - families], ledger[row, _MODE]
        if before != mode and not (before == _OUT and mode == SHARED):
            at = _leave(out, at, ledger, row)
            at = _join(out, at, ledger, row, mode)
    return at


@inlined
def _end_of_plain(mask: Ints, instant: Ints, bits: int, known: int, low: int, until: int, high: int) -> tuple[int, int]:
    """Returns the end of the consecutive events that are bound to the variable ``bits`` alone, and their number.

    Events that no variable of the ``known`` ones can bind are skipped; an instant with several events ends the
    sequence.
    """
    end, count, e = low + 1, 1, low + 1
    while e < until and count < MOST_BOUND and (e + 1 == high or instant[e + 1] != instant[e]):
        own = mask[e] & known
        if own == bits:
            end, count = e + 1, count + 1
        elif own:
            break
        e += 1
    return end, count


@jit
def _bind(
    out: Operations,
    at: int,
    ledger: Ints,
    template: Template,
    near_rows: Ints,
    mask: Ints,
    low: int,
    high: int,
    applies: bool,
) -> tuple[int, int]:
    """Writes that the values of an instant's events at plain nodes are staged or, ``applies``, applied.

    Also returns the number of these values.
    """
    stage = 0
    for e in range(low, high):
        bits = mask[e] & template.plain_bits
        while bits:
            b = lowest_bit(bits)
            bits &= bits - 1
            at = _settle_near(out, at, ledger, template.near_start, near_rows, b)
            for entry in range(template.plain_start[b], template.plain_start[b + 1]):
                node = template.plain[entry]
                if applies:
                    at = _sync_next(out, at, template.target_start, template.target, template.repeating, node)
                    at = op.put_apply(out, at, node, stage)
                else:
                    at = _sync_next(out, at, template.source_start, template.source, template.repeating, node)
                    at = op.put_value(out, at, node, stage, e)
                stage += 1
    return at, stage


@inlined
def _take_instant(
    out: Operations, at: int, ledger: Ints, row_of: Ints, mask: Ints, reference: Ints, low: int, high: int, taken: int
) -> tuple[int, int]:
    """Lets the families that are ``taken`` take an instant's events; ``row_of`` has the row of each variable's variant.

    Also returns the variables whose variants take one, as a bit mask.
    """
    moved = 0
    while taken:
        f = lowest_bit(taken)
        taken &= taken - 1
        first, last, bits = ledger[f, _FIRST_ROW], ledger[f, _LAST_ROW], ledger[f, _BITS]
        if last == first + 1:
            count = 0
            for e in range(low, high):
                count += (mask[e] & bits) != 0
            at = _take(out, at, ledger, f if ledger[first, _MODE] == SHARED else first, count, low, high)
            moved |= bits
            continue
        count, deviating, together = 0, 0, 0
        for e in range(low, high):
            own = mask[e] & bits
            together |= own
            if (reference[e] >> f) & 1:
                count += 1
                own ^= bits
            deviating |= own
        # Variants that take the same events as their family's graphlet stay in it; the others are handled one by one.
        changing = ledger[f, _SHARING] & deviating
        while changing:
            at = _leave(out, at, ledger, row_of[lowest_bit(changing)])
            changing &= changing - 1
        changing = ledger[f, _AWAY] & ~deviating
        while changing:
            at = _join(out, at, ledger, row_of[lowest_bit(changing)], SHARED)
            changing &= changing - 1
        sharing = ledger[f, _SHARING]
        apart = together & ~sharing
        moved |= apart
        while apart:
            row = row_of[lowest_bit(apart)]
            apart &= apart - 1
            bound = 0
            for e in range(low, high):
                bound += (mask[e] & ledger[row, _BITS]) != 0
            at = _take(out, at, ledger, row, bound, low, high)
        if sharing and count:
            moved |= sharing
            at = _take(out, at, ledger, f, count, low, high)
    return at, moved


@jit
def _refresh(out: Operations, at: int, ledger: Ints, template: Template, link: int) -> int:
    """Writes that the nodes of a link add up the present values of their sources anew."""
    families = len(template.family_bits)
    at = _settle(out, at, ledger, families + template.link_source[link])
    at = _settle(out, at, ledger, families + template.link_target[link])
    for entry in range(template.link_start[link], template.link_start[link + 1]):
        node = template.link_node[entry]
        at = op.put_sync(out, at, node, node + 1, -1)
        at = _sync_next(out, at, template.source_start, template.source, template.repeating, node)
    return op.put_refresh(out, at, link)
