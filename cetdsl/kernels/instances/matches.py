"""Turns instances of a query's pattern into trends: bindings in order of time, each with its variable."""

from __future__ import annotations

import numpy as np

from cetdsl.ir.slots import Fit
from cetdsl.kernels._jit import jit
from cetdsl.kernels.vocabulary import Block, Ints, Places, Shorts


def variables_of(slots: tuple[tuple[Fit, ...], ...]) -> tuple[Ints, Ints, Ints]:
    """Returns, slot by slot, the kinds of events and the variables that bind them, and where each slot begins."""
    flat = [fit for fits in slots for fit in fits]
    start = np.cumsum([0, *map(len, slots)]).astype(np.int64)
    return np.array([fit.kind for fit in flat]), np.array([fit.variable for fit in flat]), start


def trends_of(rows: Places, count: int, variables: tuple[Ints, Ints, Ints], kind: Ints, segment: Ints) -> Block:
    """Returns the trends of ``count`` rows; slices are keys."""
    slots = len(variables[2]) - 1
    table = rows[: count * (slots + 1)]
    event, variable = _in_order(table, count, slots, *variables, kind)
    start = np.arange(count + 1, dtype=np.int64) * slots
    return Block(start, event, variable, segment[event[start[:-1]]])


@jit
def _in_order(
    rows: Places, count: int, slots: int, kinds: Ints, names: Ints, start: Ints, kind: Ints
) -> tuple[Ints, Shorts]:
    event = np.empty(count * slots, dtype=np.int64)
    variable = np.empty(count * slots, dtype=np.int16)
    for row in range(count):
        begin = row * slots
        for slot in range(slots):
            its = np.int64(rows[row * (slots + 1) + slot])
            name = names[start[slot]]
            for fit in range(start[slot], start[slot + 1]):
                if kinds[fit] == kind[its]:
                    name = names[fit]
            place = begin + slot
            while place > begin and event[place - 1] > its:
                event[place], variable[place] = event[place - 1], variable[place - 1]
                place -= 1
            event[place], variable[place] = its, name
    return event, variable
