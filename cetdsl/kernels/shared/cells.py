"""The cells that hold the numbers of each *column*, that is, of each window of each query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._side_by_side import starts
from cetdsl.kernels.shared.bursts import Frame
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Bools, Ints


class Cells(NamedTuple):
    """The layout of the numbers of all columns: one *cell* per node, accumulator and slot.

    Nodes, variants and window numbers are those of :mod:`~cetdsl.kernels.shared.template`, slots those of
    :class:`~cetdsl.kernels.shared.bursts.Frame`. The cells of repeating nodes come first, variant by variant:
    accumulator 0 of all nodes, then the other accumulators by weight, so that an operation on a variant is one on few
    ranges of cells.

    Attributes
    ----------
    count, repeating, size : int
        The number of cells of all nodes, and of repeating ones; and the most cells of a plain node.
    accumulator_start, first, row : int64 arrays, shapes (nodes + 1,), (entries,), (entries,)
        The entries of each node, one per accumulator: its first cell, and its weights (-1: none).
    base : int64 array, shape (repeating,)
        For each cell of a repeating node, the cell of accumulator 0 of the same node and slot.
    counted : int64 array, shape (variants, 2)
        The range of each variant's cells of accumulator 0.
    weighed_start, weighed : int64 arrays, shapes (variants + 1,), (..., 3)
        Ranges of each variant's cells of the other accumulators: the weights, the first cell and the end.
    slot_start, slots : int64 arrays, shapes (windows + 1,), (nodes,)
        The first slot of each window number, and the number of slots of each node's window number.
    accumulators, out_start : int64 arrays, shape (queries,)
        The number of accumulators of each query, and the first row of its answer.
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


def cells_of(template: Template, frame: Frame, weights: list[list[tuple[int, int]]], slices: Ints) -> Cells:
    """Lays out the cells.

    ``weights`` has for each query and accumulator the variable whose events add something (-1: all variables) and the
    row of what they add (-1: nothing); ``slices`` is the number of slices of each query.
    """
    accumulators = np.array([len(own) for own in weights], dtype=np.int64)
    slots = frame.slots[template.window[template.query]]
    entries = _entries(template, accumulators, weights)
    order = _in_order(template, entries)
    node, width = entries.node[order], slots[entries.node[order]]
    end = np.cumsum(width)
    begin = end - width
    first = np.empty_like(end)
    first[order] = begin
    repeating = int(width[node < template.repeating].sum())
    own, later = node < template.repeating, entries.number[order] > 0
    base = np.repeat((first[entries.start[node]] - begin)[own], width[own]) + np.arange(repeating)

    def ranges(which: Bools) -> tuple[Ints, Ints]:
        row = entries.row[order][which]
        return _ranges(template.variants, template.variant[node[which]], row, begin[which], end[which])

    counted = np.ascontiguousarray(ranges(own & ~later)[1][:, 1:])
    weighed_start, weighed = ranges(own & later)
    plain = (accumulators[template.query] * slots)[template.repeating :]
    return Cells(
        int(width.sum()),
        repeating,
        entries.start,
        first,
        entries.row,
        base,
        counted,
        weighed_start,
        weighed,
        starts(frame.slots),
        slots,
        accumulators,
        starts(accumulators * slices)[:-1],
        int(plain.max(initial=1)),
    )


class _Entries(NamedTuple):
    """The entries of all nodes, one per accumulator: node, number of the accumulator, and weights (-1: none)."""

    start: Ints
    node: Ints
    number: Ints
    row: Ints


def _entries(template: Template, accumulators: Ints, weights: list[list[tuple[int, int]]]) -> _Entries:
    variable, row = np.array([pair for own in weights for pair in own], dtype=np.int64).reshape(-1, 2).T
    per_node = accumulators[template.query]
    start = starts(per_node)
    node = np.repeat(np.arange(len(per_node)), per_node)
    number = np.arange(len(node)) - start[node]
    found = (np.cumsum(accumulators) - accumulators)[template.query[node]] + number
    weighs = (variable[found] == -1) | (variable[found] == template.variable[node])
    return _Entries(start, node, number, np.where(weighs, row[found], -1))


def _in_order(template: Template, entries: _Entries) -> Ints:
    """Returns the entries in the order in which their cells are laid out."""
    repeats = entries.node < template.repeating
    variant = np.full(len(entries.node), template.variants)
    variant[repeats] = template.variant[entries.node[repeats]]
    later = repeats & (entries.number > 0)
    return np.lexsort((np.arange(len(later)), np.where(later, entries.row, -1), later, variant))


def _ranges(variants: int, variant: Ints, row: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Returns the ranges of neighbouring cells of one variant and weight, and where those of each variant begin."""
    new = np.ones(len(row), dtype=np.bool_)
    new[1:] = (variant[1:] != variant[:-1]) | (row[1:] != row[:-1])
    lead = np.flatnonzero(new)
    last = np.append(lead[1:], len(row))[: len(lead)] - 1
    start = starts(np.bincount(variant[lead], minlength=variants))
    return start, np.stack([row[lead], begin[lead], end[last]], axis=1)
