"""The benefit of sharing: the cost of a burst in a shared graphlet, compared with the cost query by query.

The model is that of Hamlet (SIGMOD 2021, section 4). Its equation 8 says of a burst of ``b`` events in a graphlet of
``g``, in a window of ``n``, which ``k`` queries with ``p`` predecessor types share, and from which ``sc`` snapshots are
created and ``sp`` propagated::

    Shared    = sc * k * g * p + b * (log2(g) + n * sp)
    NonShared = k * b * (log2(g) + n)
    Benefit   = NonShared - Shared

Equation 7 leaves out the search for a place, ``log2(g)``. Both count the steps of a program that scans predecessors,
and that takes a snapshot for all queries where one of them deviates from the others. The kernels here add predecessors
up in advance, which leaves ``n = g = 1``, and only the variant that deviates leaves the graphlet for that event, so
that ``k`` is 1 for its snapshots and ``sp`` is 1 throughout. The equation's terms then stand for other steps, each of
which has a measured price (:class:`Rates`). Either way, the same plans are considered, by the two pruning principles of
the paper's section 4.3. (Bursts, stretches and graphlets are those of :mod:`~cetdsl.kernels.shared.bursts`.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.numbers.copying import copy
from cetdsl.kernels.shared.bursts import BOUND, BREAKS, DEVIATIONS, SEATS, TIES, Frame, Survey
from cetdsl.kernels.shared.operations import NEVER, OWN, SHARED, Modes
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Bools, Floats, Ints


class Rates(NamedTuple):
    """Nanoseconds per unit of work, of one pass over a chunk's tape."""

    #: A snapshot of one cell (a number of one column) is brought up to date.
    create: float
    #: A graphlet takes the events of one step, be it one event or many.
    advance: float
    #: One event's weight is added up for a graphlet, ...
    weigh: float
    #: ... or for a variant in no graphlet.
    alone: float
    #: One cell takes one event by itself.
    each: float
    #: A variant outside its family's graphlet takes an event, whatever the number of its cells.
    event: float
    #: A variant leaves its family's graphlet for some events and joins it again, whatever the number of its cells.
    detour: float
    #: An event is read, and a cell takes an event of a plain node: these two cost the same whatever is decided.
    read: float
    bind: float

    def of_passes(self, count: float, once: Rates) -> Rates:
        """Returns the rates of ``count`` passes, and of the work done once before them."""
        return Rates(*(count * own + before for own, before in zip(self, once)))


class Prices(NamedTuple):
    """The prices of work that is done once for a chunk, and those of one pass over its tape in each number system."""

    once: Rates
    doubles: Rates
    scaled: Rates
    residues: Rates


#: Measured on one core of an AMD EPYC, on workloads of 2 to 40 queries and 1 to 40 cells per variant. Decisions depend
#: only on the ratios of these prices. Those of residues are for sixteen primes in lockstep.
FIXED = Prices(
    Rates(1.0, 3.0, 0.5, 0.0, 0.0, 1.5, 80.0, 27.0, 0.0),
    Rates(14.0, 200.0, 3.0, 40.0, 1.2, 1.0, 230.0, 2.0, 65.0),
    Rates(18.0, 360.0, 11.0, 55.0, 4.5, 0.6, 360.0, 1.0, 110.0),
    Rates(12.0, 170.0, 4.0, 300.0, 25.0, 0.6, 190.0, 2.5, 75.0),
)


class Load(NamedTuple):
    """The sizes of the data that is kept for the variants of a chunk.

    Attributes
    ----------
    columns, cells : int64 arrays, shape (variants,)
        The windows of queries, and the numbers that are kept for them.
    predecessors : int64 array, shape (variants,)
        The types of events that may come before one of a variant's, its own among them.
    rows : int
        The different weights that are summed up.
    """

    columns: Ints
    cells: Ints
    predecessors: Ints
    rows: int


class Decisions(NamedTuple):
    """The ``mode`` in which each variant is propagated in each stretch of bursts, shape (stretches, variants).

    ``made`` is the number of decisions; ``splits`` and ``merges`` say how often variants left the graphlet of their
    family and joined it again.
    """

    mode: Modes
    made: int
    splits: int
    merges: int


# ------------------------------------------------------------------------------------------- prices that are measured

#: The prices of a variant: a plain event touches one of its columns; it deviates, or changes its mode; and it takes an
#: event in a graphlet of its own, or in none.
_TOUCH, _CHANGE, _EVENT, _SINGLE = 0, 1, 2, 3
#: The code of a variant that keeps its mode in a stretch, whichever it is (see :func:`_step`).
_STAYS = 0


@inlined
def _prices_of_variants(rates: Rates, rows: int, columns: Ints, cells: Ints) -> Floats:
    """Returns the prices of each variant, shape (variants, 4): the columns are ``_TOUCH`` to ``_SINGLE``."""
    prices = np.empty((len(columns), 4))
    for v in range(len(columns)):
        prices[v, _TOUCH] = rates.create * cells[v] / max(columns[v], 1)
        prices[v, _CHANGE] = 2.0 * rates.create * cells[v] + rates.detour
        prices[v, _EVENT] = rates.weigh * rows + rates.event
        prices[v, _SINGLE] = rates.alone * rows + rates.each * cells[v] + rates.event
    return prices


@inlined
def _costs(prices: Floats, advance: float, known: Ints, u: int, v: int) -> tuple[float, float, float]:
    """Returns the costs of stretch ``u`` for variant ``v``: in its family's graphlet, in its own, and in none.

    They are the terms of equation 8 for ``n = g = 1``: snapshots times queries, a step for each event that must find
    its place, and events times what is propagated. What the events cost the family's graphlet itself is not among them.
    """
    touched, bound = prices[v, _TOUCH] * known[u, v, SEATS], float(known[u, v, BOUND])
    apart = prices[v, _CHANGE] * known[u, v, DEVIATIONS]
    own = advance * _steps(known, u, v) + prices[v, _EVENT] * bound
    return touched + apart, touched + own, prices[v, _SINGLE] * bound


@inlined
def _steps(known: Ints, u: int, v: int) -> int:
    """Returns how many steps the events of a stretch are for a graphlet of the variant."""
    return int(known[u, v, BREAKS] + known[u, v, TIES])


def work_of(template: Template, load: Load, seen: Survey, mode: int) -> Floats:
    """Returns the units of each kind of work, in the order of :class:`Rates`, where all variants are in one mode."""
    units = np.eye(len(Rates._fields))
    known = template.family_start, load.columns, load.cells, load.rows, seen.events, seen.of_variant
    return np.array([_cost_of_mode(*known, Rates(*unit), mode) for unit in units.tolist()])


@jit
def _cost_of_mode(
    family_start: Ints, columns: Ints, cells: Ints, rows: int, events: Ints, of_variant: Ints, rates: Rates, mode: int
) -> float:
    total = 0.0
    prices = _prices_of_variants(rates, rows, columns, cells)
    for u in range(len(events)):
        for f in range(len(family_start) - 1):
            steps = 0
            total += rates.read * events[u, f]
            for v in range(family_start[f], family_start[f + 1]):
                total += _costs(prices, rates.advance, of_variant, u, v)[mode]
                total += rates.bind * cells[v] / max(columns[v], 1) * of_variant[u, v, SEATS]
                steps = max(steps, _steps(of_variant, u, v))
            if mode == SHARED:
                total += rates.weigh * rows * events[u, f] + rates.advance * steps
    return total


class Demand(NamedTuple):
    """What a template's repeating states require, whatever the chunk: two arrays of shape (nodes,), and a number.

    ``window`` is the window number of each state, ``accumulators`` the number of accumulators that its query keeps per
    window, and ``rows`` the number of different weights that are summed up.
    """

    window: Ints
    accumulators: Ints
    rows: int


def decide_chunk(
    template: Template, demand: Demand, frame: Frame, seen: Survey, doubles: Floats, scaled: Floats
) -> Decisions:
    """Chooses for each stretch of bursts which variants share, by measured prices.

    For each variant, its costs with sharing are compared with those of the plan in which all others share (the paper's
    benefit-driven pruning). A variant that brings no snapshot of its own is cheapest in the shared graphlet (its
    snapshot-driven pruning), unless a burst has so few events that a snapshot of the variant's cells costs more than
    its events one by one, which the paper's Theorem 4.1 rules out by ``sc <= b``. To change a variant's mode costs as
    much as a deviation. As all bursts of the chunk are known, the modes are those of the sequence that costs least,
    changes included, which dynamic programming over the stretches finds (Viterbi's algorithm).

    The prices are :class:`Rates` as arrays: for ``doubles``, and for ``scaled`` numbers, which are taken where a window
    is likely to overflow doubles. A chunk's decisions take some ten microseconds if their code and data are in the
    processor's caches, and several times as long if not, so each call of NumPy and each tuple that is unpacked counts.
    """
    return Decisions(
        *_decide_chunk(
            template.family_start,
            template.variant,
            *demand,
            frame.slots,
            frame.columns,
            frame.long,
            seen.events,
            seen.of_variant,
            doubles,
            scaled,
        )
    )


@jit
def cells_of(variant: Ints, window: Ints, accumulators: Ints, slots: Ints, variants: int) -> Ints:
    """Returns how many numbers are kept for each variant: accumulators of its nodes, for each window that is open."""
    cells = np.zeros(variants, dtype=np.int64)
    for node in range(len(variant)):
        cells[variant[node]] += accumulators[node] * slots[window[node]]
    return cells


@jit
def _decide_chunk(
    family_start: Ints,
    variant: Ints,
    window: Ints,
    accumulators: Ints,
    rows: int,
    slots: Ints,
    columns: Ints,
    long: Bools,
    events: Ints,
    of_variant: Ints,
    doubles: Floats,
    scaled: Floats,
) -> tuple[Modes, int, int, int]:
    cells = cells_of(variant, window, accumulators, slots, len(columns))
    own = scaled if long.any() else doubles
    rates = Rates(own[0], own[1], own[2], own[3], own[4], own[5], own[6], own[7], own[8])
    return _decide(family_start, columns, cells, rows, events, of_variant, rates)


@jit
def _decide(
    family_start: Ints, columns: Ints, cells: Ints, rows: int, events: Ints, of_variant: Ints, rates: Rates
) -> tuple[Modes, int, int, int]:
    stretches, variants = len(events), len(columns)
    mode = np.empty((stretches, variants), dtype=np.int8)
    prices = _prices_of_variants(rates, rows, columns, cells)
    least, cost = np.zeros((variants, 3)), np.empty((variants, 3))
    made = 0
    for u in range(stretches):
        for f in range(len(family_start) - 1):
            first, last = family_start[f], family_start[f + 1]
            if events[u, f] == 0:
                mode[u, first:last] = _STAYS
                continue
            made += last - first
            steps, saved = 0, 0.0
            for v in range(first, last):
                shared, own, never = _costs(prices, rates.advance, of_variant, u, v)
                own = own if last > first + 1 else np.inf
                cost[v, SHARED], cost[v, OWN], cost[v, NEVER] = shared, own, never
                steps = max(steps, _steps(of_variant, u, v))
                saved += max(min(own, never) - shared, 0.0)
            common = rates.weigh * rows * events[u, f] + rates.advance * steps
            if saved < common:
                # The graphlet costs more than it saves all variants together.
                for v in range(first, last):
                    cost[v, SHARED] = min(cost[v, OWN], cost[v, NEVER]) + common
            for v in range(first, last):
                mode[u, v] = _step(least, cost, v, prices[v, _CHANGE])
    splits, merges = _trace(mode, least)
    return mode, made, splits, merges


@inlined
def _step(least: Floats, cost: Floats, v: int, change: float) -> int:
    """Adds a stretch to the least costs of a variant by its last mode; returns where these modes come from.

    Two bits are the mode that is left if the mode changes, and a bit for each mode says that it does.
    """
    shared, own, never = least[v, SHARED], least[v, OWN], least[v, NEVER]
    before = SHARED if shared <= min(own, never) else OWN if own <= never else NEVER
    changed = min(shared, own, never) + change
    least[v, SHARED] = min(shared, changed) + cost[v, SHARED]
    least[v, OWN] = min(own, changed) + cost[v, OWN]
    least[v, NEVER] = min(never, changed) + cost[v, NEVER]
    return int(before | (changed < shared) << 2 | (changed < own) << 3 | (changed < never) << 4)


@inlined
def _trace(mode: Modes, least: Floats) -> tuple[int, int]:
    """Turns what :func:`_step` returned into the modes of the cheapest plan; returns its splits and merges."""
    splits = merges = 0
    for v in range(len(least)):
        now = int(np.argmin(least[v]))
        for u in range(len(mode) - 1, -1, -1):
            code = mode[u, v]
            mode[u, v] = now
            if (code >> (now + 2)) & 1:
                splits += (code & 3) == SHARED
                merges += now == SHARED
                now = code & 3
    return splits, merges


# ----------------------------------------------------------------------------------------------- the equations as such


class Bursts(NamedTuple):
    """The numbers of the bursts of a stretch that the equations use, in the paper's letters.

    There are ``b`` events in graphlets of ``g`` events on average, in windows of ``n`` events, with ``p`` predecessor
    types. ``created`` and ``propagated`` are the snapshots that are there for all queries, whichever of them share.
    """

    b: float
    g: float
    n: float
    p: float
    created: float
    propagated: float


@inlined
def shared_cost(bursts: Bursts, k: float, more: float, searched: bool) -> float:
    """Returns the cost of ``k`` queries that share, and that need ``more`` snapshots because some of them deviate.

    ``searched`` says whether finding an event's place in the graphlet counts: equation 8, else equation 7.
    """
    place = math.log2(bursts.g) if searched else 0.0
    created, propagated = bursts.created + more, bursts.propagated + more
    return created * k * bursts.g * bursts.p + bursts.b * (place + bursts.n * propagated)


@inlined
def unshared_cost(bursts: Bursts, k: float, searched: bool) -> float:
    """Returns what ``k`` queries cost one by one."""
    place = math.log2(bursts.g) if searched else 0.0
    return k * bursts.b * (place + bursts.n)


def decide_as_published(
    template: Template, frame: Frame, load: Load, seen: Survey, searched: bool
) -> tuple[Decisions, Floats]:
    """Chooses for each stretch of bursts which variants share, by equation 8 if ``searched``, else by equation 7.

    Returns
    -------
    Decisions, float64 array of shape (stretches, families, 2)
        For each stretch and family, the costs if all variants share, and if none does.
    """
    mode, splits, merges, costs = _decide_as_published(
        template.family_start,
        load.columns,
        load.predecessors,
        seen.events,
        seen.bursts,
        seen.of_variant,
        _events_of_windows(frame, seen),
        searched,
    )
    return Decisions(mode, mode.size, splits, merges), costs


@jit
def _decide_as_published(
    family_start: Ints,
    columns: Ints,
    predecessors: Ints,
    events: Ints,
    bursts: Ints,
    of_variant: Ints,
    window: Floats,
    searched: bool,
) -> tuple[Modes, int, int, Floats]:
    stretches, variants = len(events), len(columns)
    families = len(family_start) - 1
    mode = np.full((stretches, variants), NEVER, dtype=np.int8)
    costs = np.zeros((stretches, families, 2))
    graphlet, carried = np.zeros(families), np.zeros(families)  # events and snapshots of the graphlet under way
    splits, merges = 0, 0
    for u in range(stretches):
        for f in range(families):
            first, last = family_start[f], family_start[f + 1]
            if events[u, f] == 0:
                if u > 0:
                    copy(mode[u, first:last], mode[u - 1, first:last])
                continue
            shared_before = False
            for v in range(first, last):
                shared_before |= u > 0 and mode[u - 1, v] == SHARED
            b, begun = float(events[u, f]), float(bursts[u, f])
            if begun == 0.0 and shared_before:
                known = Bursts(b, graphlet[f] + b, window[u], 0.0, 0.0, carried[f])
            else:
                # A graphlet begins with its burst, or when queries merge, each time with a snapshot of what was before.
                begun = max(begun, 1.0)
                known = Bursts(b, b / begun, window[u], 0.0, begun, 1.0)
            p, k, more = 0.0, 0.0, 0.0
            for v in range(first, last):
                p = max(p, float(predecessors[v]))
                k += columns[v]
                more += of_variant[u, v, DEVIATIONS]
            known = Bursts(known.b, known.g, known.n, p, known.created, known.propagated)
            all_share = shared_cost(known, k, more, searched)
            costs[u, f, 0], costs[u, f, 1] = all_share, unshared_cost(known, k, searched)
            sharing, brought = 0.0, 0.0
            for v in range(first, last):
                own = float(of_variant[u, v, DEVIATIONS])
                # A variant without snapshots of its own shares (their Theorem 4.1). Any other one shares if that costs
                # no more than if all but it share and it is propagated alone (Theorem 4.2).
                without = shared_cost(known, k - columns[v], more - own, searched)
                if own == 0.0 or all_share <= without + unshared_cost(known, float(columns[v]), searched):
                    mode[u, v] = SHARED
                    sharing += columns[v]
                    brought += own
            if shared_cost(known, sharing, brought, searched) >= unshared_cost(known, sharing, searched):
                for v in range(first, last):
                    mode[u, v] = NEVER
            elif sharing > 0.0:
                graphlet[f], carried[f] = known.g, known.propagated + brought
            if u > 0:
                for v in range(first, last):
                    splits += mode[u - 1, v] == SHARED and mode[u, v] != SHARED
                    merges += mode[u - 1, v] != SHARED and mode[u, v] == SHARED
    return mode, splits, merges, costs


def _events_of_windows(frame: Frame, seen: Survey) -> Floats:
    """Returns how many events an open window has by the end of each stretch, on average."""
    opens, closes = (frame.border[frame.border[:, 1] == kind, 0] for kind in (1, 0))
    begin_of_closing = np.zeros(len(closes))
    by_slice = frame.border[np.lexsort((frame.border[:, 0], frame.border[:, 3], frame.border[:, 2]))]
    low, high = by_slice[0::2, 0], by_slice[1::2, 0]
    order = np.argsort(high, kind="stable")
    begin_of_closing[:] = low[order]
    last = frame.island[-1, 1] if len(frame.island) else 0
    end = np.append(seen.start[1:], last)
    # Windows that open at the end of a stretch are not counted, and those that close there are.
    opened, closed = np.searchsorted(np.sort(opens), end, side="left"), np.searchsorted(high[order], end, side="left")
    begun = np.append(0, np.cumsum(np.sort(opens)))[opened] - np.append(0, np.cumsum(begin_of_closing))[closed]
    count = opened - closed
    found: Floats = end - begun / np.maximum(count, 1)
    return np.maximum(found, 1.0)


# ---------------------------------------------------------------------------------------------------- once for a chunk


def all_in_one(template: Template, seen: Survey, deviations: Floats) -> Survey:
    """Takes all bursts of a chunk together as one stretch, so that one decision is made for them.

    ``deviations[v]`` is the share of its family's events at which variant ``v`` is known to deviate, by which the count
    of the chunk is replaced; NaN: unknown.
    """
    of_variant = seen.of_variant.sum(axis=0, keepdims=True)
    # If a variant deviates at each event with probability d, it begins to deviate there with probability d (1 - d).
    expected = deviations * (1.0 - deviations) * seen.events.sum(axis=0)[template.family]
    known = ~np.isnan(deviations)
    of_variant[0, known, DEVIATIONS] = np.ceil(expected[known]).astype(np.int64)
    return seen._replace(
        start=seen.start[:1],
        bursts=seen.bursts.sum(axis=0, keepdims=True),
        events=seen.events.sum(axis=0, keepdims=True),
        of_variant=of_variant,
    )
