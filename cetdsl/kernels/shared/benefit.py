"""The benefit of sharing: what a burst costs in a shared graphlet, and what query by query.

The model is that of Hamlet (SIGMOD 2021, section 4), its equation 8::

    Shared    = sc * k * g * p + b * (log2(g) + n * sp)
    NonShared = k * b * (log2(g) + n)
    Benefit   = NonShared - Shared

It counts the work of a program that scans predecessors. The kernels here sum them up in advance, which leaves ``n = 1``
of a scan, and propagate the whole events of a burst in one step. So each term has a price, which is measured.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.numbers.copying import copy
from cetdsl.kernels.shared.bursts import BOUND, BREAKS, DEVIATIONS, SEATS, TIES, Survey
from cetdsl.kernels.shared.operations import NEVER, OWN, SHARED, Modes
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Floats, Ints


class Rates(NamedTuple):
    """Nanoseconds per unit of work, of one pass over a chunk's tape."""

    #: A snapshot of one cell (a number of one column) is brought up to date.
    create: float
    #: A graphlet takes the events of one step, be it one event or many.
    advance: float
    #: One event's weight is added up for a graphlet.
    weigh: float
    #: One cell takes one event by itself.
    each: float
    #: A variant takes an event that its family does not, or the other way round, whatever its cells.
    event: float
    #: A variant leaves its family's graphlet for some events and joins it again, whatever its cells.
    detour: float

    def of_passes(self, count: float, once: Rates) -> Rates:
        """Returns the rates of so many passes, and of the work done once before them."""
        return Rates(*(count * own + before for own, before in zip(self, once)))


# Measured on one core of an AMD EPYC, on workloads of 2 to 40 queries and 1 to 40 cells per variant; what counts is how
# they compare with each other.
#: What is done once for a chunk, whatever the number systems.
ONCE = Rates(0.0, 0.0, 0.0, 0.0, 35.0, 500.0)
#: One pass in doubles, in scaled numbers, and for sixteen primes in lockstep.
DOUBLES = Rates(8.0, 20.0, 1.0, 0.3, 5.0, 300.0)
SCALED = Rates(8.0, 40.0, 8.0, 2.0, 5.0, 300.0)
RESIDUES = Rates(8.0, 40.0, 1.0, 4.0, 1.0, 500.0)


@inlined
def _costs(
    rates: Rates, rows: int, known: Ints, u: int, v: int, cells: int, share: float
) -> tuple[float, float, float]:
    """Returns the costs of stretch ``u`` for variant ``v``: in its family's graphlet, in its own, and in none."""
    touched = rates.create * share * known[u, v, SEATS] + rates.advance * known[u, v, BREAKS]
    apart = known[u, v, DEVIATIONS] * (2.0 * rates.create * cells + rates.detour)
    own = rates.advance * known[u, v, TIES] + (rates.weigh * rows + rates.event) * known[u, v, BOUND]
    return touched + apart, touched + own, (rates.each * cells + rates.event) * known[u, v, BOUND]


class Decisions(NamedTuple):
    """How each variant is propagated in each stretch of bursts: ``mode``, shape (stretches, variants).

    So many decisions were ``made``, and so often a variant left its family's graphlet (``splits``) and joined it again.
    """

    mode: Modes
    made: int
    splits: int
    merges: int


def decide(template: Template, columns: Ints, cells: Ints, rows: int, seen: Survey, rates: Rates) -> Decisions:
    """Chooses for each stretch of bursts which variants share.

    Whatever brings no snapshot of its own shares (their first pruning principle); each other variant is judged against
    the plan in which all but it share (the second one). A decision is revised when what it has cost by now would have
    paid for the change. Each variant has so many ``columns`` and ``cells``, the numbers that are kept for them; so many
    ``rows`` of different weights are summed up.
    """
    # Arrays, for whole tuples of them take longer to hand over than the decisions take.
    return Decisions(*_decide(template.family_start, columns, cells, rows, seen.events, seen.of_variant, rates))


@jit
def _decide(
    family_start: Ints, columns: Ints, cells: Ints, rows: int, events: Ints, of_variant: Ints, rates: Rates
) -> tuple[Modes, int, int, int]:
    stretches, variants = len(events), len(columns)
    families = len(family_start) - 1
    mode = np.zeros((stretches, variants), dtype=np.int8)
    debt = np.zeros(variants)
    made, splits, merges = 0, 0, 0
    cost = np.zeros((variants, 3))
    for u in range(stretches):
        for f in range(families):
            first, last = family_start[f], family_start[f + 1]
            if events[u, f] == 0 and u > 0:
                copy(mode[u, first:last], mode[u - 1, first:last])
                continue
            common = rates.weigh * rows * events[u, f]
            saved = 0.0
            for v in range(first, last):
                share = cells[v] / max(columns[v], 1)
                costs = _costs(rates, rows, of_variant, u, v, cells[v], share)
                cost[v, SHARED], cost[v, OWN], cost[v, NEVER] = costs
                if last == first + 1:
                    cost[v, OWN] = np.inf
                    common += rates.advance * of_variant[u, v, TIES]
                saved += max(min(cost[v, OWN], cost[v, NEVER]) - cost[v, SHARED], 0.0)
            for v in range(first, last):
                made += 1
                best = OWN if cost[v, OWN] < cost[v, NEVER] else NEVER
                if saved >= common and cost[v, SHARED] <= cost[v, best]:
                    best = SHARED
                if u == 0:
                    mode[u, v] = best
                    continue
                now = mode[u - 1, v]
                debt[v] = max(debt[v] + cost[v, now] - cost[v, best], 0.0) if best != now else 0.0
                if debt[v] > 2.0 * rates.create * cells[v] + rates.detour:
                    splits += now == SHARED
                    merges += best == SHARED
                    now, debt[v] = best, 0.0
                mode[u, v] = now
    return mode, made, splits, merges


def once(
    template: Template, columns: Ints, cells: Ints, rows: int, seen: Survey, rates: Rates, deviations: Floats
) -> Modes:
    """Makes one decision for a whole chunk: that for all its bursts taken together.

    ``deviations[v]`` is the share of the events at which a variant is known to differ from most; NaN: unknown.
    """
    of_variant = seen.of_variant.sum(axis=0, keepdims=True)
    # Draws that differ with probability d begin to differ with probability d (1 - d).
    expected = deviations * (1.0 - deviations) * seen.events.sum(axis=0)[template.family]
    known = ~np.isnan(deviations)
    of_variant[0, known, DEVIATIONS] = np.ceil(expected[known]).astype(np.int64)
    whole = seen._replace(events=seen.events.sum(axis=0, keepdims=True), of_variant=of_variant)
    chosen: Modes = decide(template, columns, cells, rows, whole, rates).mode[0]
    return chosen
