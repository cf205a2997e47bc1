"""The cells that hold the numbers of each column (one window of one query)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels.machine.program import flat, starts_of
from cetdsl.kernels.shared.bursts import Frame
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Ints


class Cells(NamedTuple):
    """The numbers of columns: one *cell* per node, accumulator and slot.

    The cells of repeating nodes come first, variant by variant: accumulator 0 of all nodes, then the other accumulators
    by weight, so that what is done to a variant is done to few ranges of cells.

    Attributes
    ----------
    count, repeating, size : int
        Cells of all nodes, and of repeating ones; and the most that a plain node has.
    accumulator_start, first, row : int64 arrays, shapes (nodes + 1,), (entries,), (entries,)
        The entries of each node, one per accumulator: its first cell, and its weights (-1: none).
    base : int64 array, shape (repeating,)
        The cell of accumulator 0 of each cell's node and slot.
    counted : int64 array, shape (variants, 2)
        The cells of accumulator 0.
    weighed_start, weighed : int64 arrays, shapes (variants + 1,), (..., 3)
        Weights and range of cells of the other accumulators.
    slot_start, slots : int64 arrays, shapes (windows + 1,), (nodes,)
        The first slot of each window number, and how many slots that of each node has.
    accumulators, out_start : int64 arrays, shape (queries,)
        Accumulators of each query, and the row of the answer that its first slice begins at.
    """

    count: int  # type: ignore[assignment]
    repeating: int
    accumulator_start: Ints
    first: Ints
    row: Ints
    base: Ints
    counted: Ints
    weighed_start: Ints
    weighed: Ints
    slot_start: Ints
    slots: Ints
    accumulators: Ints
    out_start: Ints
    size: int


def cells_of(template: Template, frame: Frame, rows: list[list[list[int]]], slices: Ints) -> Cells:
    """Lays out the cells.

    ``rows`` are per query and accumulator the weights of each variable's events, by variable (-1: none); ``slices`` is
    how many slices each query has.
    """
    nodes = len(template.query)
    accumulators = np.array([len(own) for own in rows], dtype=np.int64)
    accumulator_start = np.append(0, np.cumsum(accumulators[template.query]))
    first = np.zeros(accumulator_start[-1], dtype=np.int64)
    row = flat([[by_variable[v] for by_variable in rows[q]] for q, v in zip(template.query, template.variable)])
    slots = frame.slots[template.window[template.query]]
    cell = 0
    base: list[Ints] = []
    counted = np.zeros((template.variants, 2), dtype=np.int64)
    weighed: list[list[tuple[int, int, int]]] = []
    for variant in range(template.variants):
        low, high = template.part_start[[variant * template.windows, (variant + 1) * template.windows]]
        begin = cell
        for node in range(low, high):
            first[accumulator_start[node]] = cell
            cell += int(slots[node])
        counted[variant] = begin, cell
        base.append(np.arange(begin, cell))
        others = [
            (row[k], node, k)
            for node in range(low, high)
            for k in range(accumulator_start[node] + 1, accumulator_start[node + 1])
        ]
        ranges: list[tuple[int, int, int]] = []
        for weights, node, k in sorted(others):
            first[k] = cell
            base.append(first[accumulator_start[node]] + np.arange(slots[node]))
            begin = ranges.pop()[1] if ranges and ranges[-1][0] == weights else cell
            cell += int(slots[node])
            ranges.append((weights, begin, cell))
        weighed.append(ranges)
    repeating = cell
    for node in range(template.repeating, nodes):
        for k in range(accumulator_start[node], accumulator_start[node + 1]):
            first[k] = cell
            cell += int(slots[node])
    plain = (accumulators[template.query] * slots)[template.repeating :]
    return Cells(
        cell,
        repeating,
        accumulator_start,
        first,
        row,
        np.concatenate(base),
        counted,
        starts_of(weighed),
        flat(weighed).reshape(-1, 3),
        np.append(0, np.cumsum(frame.slots)),
        slots,
        accumulators,
        np.append(0, np.cumsum(accumulators * slices))[:-1],
        int(plain.max(initial=1)),
    )
