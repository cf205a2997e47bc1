"""The matrices that count trends, their entries, and their products.

If no predicate compares two events, an event changes the numbers of trends that end in each state by a linear map. A
*place* is a state of the machine, counted from 1; place 0 stands for "before the first event". A *transition* leads
from place to place. Entry ``(p, q)`` of the matrix of consecutive events is the number of ways to go from place ``p``
to place ``q`` over them. The matrix of an instant is ``I + sum(U_e)`` over its events, because simultaneous events do
not follow each other; ``U_e`` has a 1 for each transition to a place that may read event ``e``. The matrix of
consecutive instants is the product of their matrices, and a window's number of trends is the sum of the entries of its
matrix in row 0 and the columns of final states.

Each sum over the trends has a matrix of its own, which obeys the product rule, like a derivative of the counts:
``(A, A') (B, B') = (A B, A B' + A' B)``. A *matrix* of this module is the array of the matrices of all accumulators,
shape (accumulators, D, D) for D places; the first one counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.kernel import KernelSpec, is_exact_accumulator
from cetdsl.ir.machine import Machine
from cetdsl.kernels._jit import jit
from cetdsl.kernels._side_by_side import starts, starts_of
from cetdsl.kernels.answers.tables import additive_accumulators
from cetdsl.kernels.numbers.arithmetic import add_scaled
from cetdsl.kernels.numbers.linear import multiply
from cetdsl.kernels.vocabulary import Bools, Ints

#: Matrices of all accumulators, one after another along the first axis. Whole numbers are doubles where all of them are
#: known to fit, else Python's (type object); rounded numbers are scaled ones (complex).
Matrices = NDArray[Any]


class Transitions(NamedTuple):
    """The transitions of a machine without predicates as arrays; state ``s`` is place ``s + 1``."""

    #: What each place reads; -1 for place 0.
    variable: Ints
    #: ``entry[entry_start[q]:entry_start[q + 1]]`` are the entries of column ``q`` that may change when place ``q``
    #: reads an event, each as its position ``p * D + q`` among all entries.
    entry_start: Ints
    entry: Ints
    #: ``inflow[inflow_start[j]:inflow_start[j + 1]]`` are the entries that are added to ``entry[j]``: those of its row
    #: ``p`` in the columns of the places that lead to ``q``.
    inflow_start: Ints
    inflow: Ints
    #: Rows and columns of the entries that are not always 0.
    kept: tuple[Ints, Ints]
    #: Whether a trend may end in the place.
    final: Bools


def lay_out_transitions(machine: Machine) -> Transitions:
    """The arrays of a machine.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge, Machine
    >>> transitions = lay_out_transitions(Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1))))
    >>> [transitions.entry[a:b].tolist() for a, b in zip(transitions.entry_start, transitions.entry_start[1:])]
    [[], [1], [2, 5, 8]]
    >>> [transitions.inflow[a:b].tolist() for a, b in zip(transitions.inflow_start, transitions.inflow_start[1:])]
    [[0], [1, 2], [4, 5], [7, 8]]
    """
    size = len(machine.variables) + 1
    transition = np.zeros((size, size), dtype=np.bool_)
    transition[0, [state + 1 for state, _ in machine.initial]] = True
    for edge in machine.edges:
        transition[edge.source + 1, edge.target + 1] = True
    reach = transition.copy()
    for middle in range(size):
        reach |= reach[:, middle, None] & reach[None, middle, :]
    final = np.zeros(size, dtype=np.bool_)
    final[[state + 1 for state, _ in machine.final]] = True
    variable = np.array([-1, *machine.variables], dtype=np.int64)
    column, row = np.nonzero(reach.T)
    leading = [np.flatnonzero(transition[:, q]) for q in range(size)]
    kept = np.nonzero(reach | np.eye(size, dtype=np.bool_))
    inflow = [p * size + leading[q] for q, p in zip(column, row, strict=True)]
    return Transitions(
        variable,
        starts(np.bincount(column, minlength=size)),
        row * size + column,
        starts_of(inflow),
        np.concatenate([np.zeros(0, dtype=np.int64), *inflow]),
        (kept[0], kept[1]),
        final,
    )


class Part(NamedTuple):
    """Accumulators that are computed together; the first is the number of trends, which the others' sums need."""

    #: Positions among the additive accumulators.
    accumulators: tuple[int, ...]
    #: Whether they are whole numbers of any size, else scaled doubles.
    whole: bool


def zeros(shape: tuple[int, ...], dtype: Any) -> Matrices:
    return np.full(shape, 0, dtype=object) if np.dtype(dtype).hasobject else np.zeros(shape, dtype=dtype)


def one_of(dtype: Any) -> Any:
    return complex(0.5, 1) if dtype == np.complex128 else 1


def parts_of(spec: KernelSpec) -> list[Part]:
    """Returns the parts: the accumulators that are whole numbers, and those that are rounded."""
    additive = additive_accumulators(spec)
    whole = [k for k, accumulator in enumerate(additive) if is_exact_accumulator(spec, accumulator)]
    rounded = [k for k in range(len(additive)) if k not in whole]
    found = []
    if whole:
        found.append(Part(tuple(whole), True))
    if rounded:
        found.append(Part(tuple(sorted({0, *rounded})), False))
    return found


def product(a: Matrices, b: Matrices) -> Matrices:
    """Multiplies matrices of all accumulators, one by one along the first axis.

    Examples
    --------
    >>> a = np.array([[[[1, 2], [0, 1]], [[0, 5], [0, 0]]]], dtype=object)
    >>> product(a, a)[0].tolist()
    [[[1, 4], [0, 1]], [[0, 10], [0, 0]]]
    """
    if a.dtype == np.complex128:
        return _product_scaled(a, b)
    out: Matrices = a[:, :1] @ b
    if a.shape[1] > 1:
        out[:, 1:] += a[:, 1:] @ b[:, :1]
    return out


@jit
def _product_scaled(a: Matrices, b: Matrices) -> Matrices:
    count, accumulators, rows, inner = a.shape
    out = np.zeros((count, accumulators, rows, b.shape[3]), dtype=np.complex128)
    for n in range(count):
        for r in range(rows):
            for p in range(inner):
                if a[n, 0, r, p].real == 0.0:
                    continue  # then no accumulator has anything here
                for q in range(b.shape[3]):
                    if b[n, 0, p, q].real == 0.0:
                        continue
                    for k in range(accumulators):
                        term = multiply(a[n, 0, r, p], b[n, k, p, q], 0.0, 0.0)
                        out[n, k, r, q] = add_scaled(out[n, k, r, q], term)
                        if k > 0:
                            term = multiply(a[n, k, r, p], b[n, 0, p, q], 0.0, 0.0)
                            out[n, k, r, q] = add_scaled(out[n, k, r, q], term)
    return out


def multiply_neighbours(matrices: Matrices, owner: Ints) -> Matrices:
    """Multiplies the matrices of each owner as a balanced tree, so that large numbers meet others of their size.

    The ``owner`` of each matrix, a number, rises.
    """
    while (owner[1:] == owner[:-1]).any():
        starts = np.nonzero(changes(owner))[0]
        rank = np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))
        left = np.nonzero(rank % 2 == 0)[0]
        paired = np.append(owner[1:] == owner[:-1], False)[left]
        merged = matrices[left]
        merged[paired] = product(merged[paired], matrices[left[paired] + 1])
        matrices, owner = merged, owner[left]
    return matrices


def changes(values: Ints) -> Bools:
    """Whether a value differs from the one before it; the first does."""
    return np.append(True, values[1:] != values[:-1])
