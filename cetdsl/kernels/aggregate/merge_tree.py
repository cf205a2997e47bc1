"""Products of matrices that change along a sweep, for all ranges of time and all ranks of the sweep at once.

A sweep (:mod:`~cetdsl.kernels.aggregate.sweep`) brings events in and takes them out again at *ranks*. So the matrix of
an event has *versions*, each valid from its rank up to the rank of the next; the first begins at rank 0. The versions
of two neighbours in time are merged by rank into the versions of their product. The same is done with neighbouring
products, and so on up to the root: a tree over time, built level by level, each of whose nodes holds all its versions.
A balanced tree that is updated at each rank would compute the same products; here each level is read and written once,
in order, and then dropped. A *query* asks for the product over a range of leaves at a rank. That is a product of at
most two nodes per level, one at either end of the range, and they are multiplied in while the level exists.

The number of ways is accumulator 0. The other accumulators are sums, which obey the product rule, like derivatives of
it: ``(A, A') (B, B') = (A B, A B' + A' B)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.aggregate.sides import ONE, Rules
from cetdsl.kernels.numbers.copying import copy_rows
from cetdsl.kernels.numbers.linear import add, multiply
from cetdsl.kernels.vocabulary import Ints, Places

#: Behind all ranks.
_NEVER = 2**31 - 1


class Level(NamedTuple):
    """The nodes of one level of all trees.

    Attributes
    ----------
    owner_start : int64 array, shape (owners + 1,)
        The nodes of each tree.
    start : int64 array, shape (nodes + 1,)
        The versions of each node.
    rank : int32 array, shape (versions,)
        The rank that each version begins at.
    values : array, shape (versions, accumulators, entries)
        The entries of the matrices.
    """

    owner_start: Ints
    start: Ints
    rank: Places
    values: NDArray[Any]


class Queries(NamedTuple):
    """Queries: the ranges that are left of them, and what has been multiplied in from both ends so far.

    Attributes
    ----------
    owner, left, right, rank : int32 arrays, shape (queries,)
        The tree of each query, the nodes ``left:right`` of this level that are left of its range, counted within the
        tree, and its rank.
    row, column : arrays, shape (queries, accumulators, places)
        The vector that the nodes at the left end have been multiplied with, and the one for those at the right end.
    """

    owner: Places
    left: Places
    right: Places
    rank: Places
    row: NDArray[Any]
    column: NDArray[Any]


@jit
def room_for_leaves(rules: Rules, events: Ints, mask: Ints, first: Places, last: Places, ranks: int) -> int:
    """Returns how many versions :func:`build_leaves` makes at most when it is called with the same arguments."""
    variable, most = rules.variable, 0
    for n in range(len(events)):
        most += 1
        for q in range(len(variable)):
            if variable[q] >= 0 and (mask[events[n]] >> variable[q]) & 1:
                for g in range(first.shape[1]):
                    if first[q, g, n] < last[q, g, n]:
                        most += (first[q, g, n] > 0) + (last[q, g, n] < ranks)
    return most


@jit
def build_leaves(
    rules: Rules,
    events: Ints,
    mask: Ints,
    first: Places,
    last: Places,
    ranks: int,
    weights: NDArray[Any],
    counted: Ints,
    one: Any,
    rank: Places,
    values: NDArray[Any],
) -> Ints:
    """Makes the versions of each event's leaf, the matrix that it adds to its instant; returns their level's ``start``.

    Parameters
    ----------
    rules
        Those of the side.
    events : int64 array, shape (leaves,)
        The events, in the order of the side's walks.
    mask : int64 array, shape (n,)
        Bit v is set when the event may be bound to variable v.
    first, last : int32 arrays, shape (places, ranges, leaves)
        Ranges of ranks in which each event may enter each place: the first rank, and the one after the last. Ranges of
        a place and an event are disjoint, and some may be empty.
    ranks : int
        The number of ranks.
    weights, counted : array, shape (accumulators, n), and int64 array, shape (accumulators,)
        What each event adds to each accumulator, and the variables, as bits, whose events add something. The weights of
        accumulator 0 are factors of the number of ways.
    one
        The number 1.
    rank, values : int32 array, shape (versions,), and array, shape (versions, accumulators, entries)
        Where the versions are written to, with room for :func:`room_for_leaves`; all ``values`` are 0.
    """
    variable, into_start, into = rules.variable, rules.into_start, rules.into
    places, accumulators = len(variable), len(counted)
    start = np.empty(len(events) + 1, dtype=np.int64)
    size = 0
    for n in range(len(events)):
        i = events[n]
        start[n] = size
        now = 0
        while now < ranks:
            rank[size] = now
            after = ranks
            for q in range(places):
                if variable[q] < 0 or not (mask[i] >> variable[q]) & 1:
                    continue
                for g in range(first.shape[1]):
                    begin, end = first[q, g, n], last[q, g, n]
                    if begin >= end or end <= now:
                        continue
                    if begin > now:
                        after = min(after, begin)
                        continue
                    after = min(after, end)
                    for at in range(into_start[q], into_start[q + 1]):
                        # Each transition leads to one place, so its entry is written once.
                        for k in range(accumulators):
                            if counted[k] >> variable[q] & 1:
                                values[size, k, into[at]] = weights[k, i]
                            elif k == 0:
                                values[size, k, into[at]] = one
            size += 1
            now = after
    start[len(events)] = size
    return start


@inlined
def _multiply(
    below: NDArray[Any],
    a: int,
    b: int,
    out: NDArray[Any],
    at: int,
    factor_start: Ints,
    left: Ints,
    right: Ints,
    zero: Any,
    prime: Any,
    reciprocal: float,
) -> None:
    """Writes the product of the matrices ``a`` and ``b`` of all accumulators to the matrix ``at`` of ``out``.

    Matrices are given by their numbers: to cut them out takes longer than to multiply them.
    """
    for e in range(out.shape[2]):
        for k in range(out.shape[1]):
            total = zero
            for t in range(factor_start[e], factor_start[e + 1]):
                p, q = left[t], right[t]
                if p == ONE:
                    total = add(total, below[b, k, q], prime)
                elif q == ONE:
                    total = add(total, below[a, k, p], prime)
                else:
                    total = add(total, multiply(below[a, 0, p], below[b, k, q], prime, reciprocal), prime)
                    if k > 0:
                        total = add(total, multiply(below[a, k, p], below[b, 0, q], prime, reciprocal), prime)
            out[at, k, e] = total


@jit
def merge_neighbours(
    level: Level,
    multiplied: bool,
    rank: Places,
    values: NDArray[Any],
    rules: Rules,
    zero: Any,
    prime: Any,
    reciprocal: float,
) -> tuple[Ints, Ints]:
    """Makes the level above: each two neighbours of a tree become one node, their product or, else, their sum.

    The versions are written to ``rank`` and ``values``, which have room for as many as the level has. Returns the first
    two fields of the new level: the nodes of each tree, and the versions of each node. ``prime`` is the modulus of
    ``uint64`` arithmetic and ``reciprocal`` its inverse in doubles; in the lattice ``prime`` is the operation, and the
    other number systems ignore both.
    """
    below_owner, below, below_rank, below_values = level
    factor_start, left, right = rules.factor_start, rules.left, rules.right
    owner_start = np.zeros_like(below_owner)
    for o in range(len(below_owner) - 1):
        owner_start[o + 1] = owner_start[o] + (below_owner[o + 1] - below_owner[o] + 1) // 2
    start = np.zeros(owner_start[-1] + 1, dtype=np.int64)
    size, node = 0, 0
    for o in range(len(below_owner) - 1):
        for j in range(below_owner[o], below_owner[o + 1], 2):
            a, a_end = below[j], below[j + 1]
            if j + 1 == below_owner[o + 1]:
                for at in range(a, a_end):
                    rank[size] = below_rank[at]
                    copy_rows(values[size], below_values[at])
                    size += 1
            else:
                b, b_end = a_end, below[j + 2]
                now = 0
                while now < _NEVER:
                    rank[size] = now
                    if multiplied:
                        _multiply(below_values, a, b, values, size, factor_start, left, right, zero, prime, reciprocal)
                    else:
                        for k in range(values.shape[1]):
                            for e in range(values.shape[2]):
                                values[size, k, e] = add(below_values[a, k, e], below_values[b, k, e], prime)
                    size += 1
                    next_a = below_rank[a + 1] if a + 1 < a_end else _NEVER
                    next_b = below_rank[b + 1] if b + 1 < b_end else _NEVER
                    now = min(next_a, next_b)
                    a += next_a == now and now < _NEVER
                    b += next_b == now and now < _NEVER
            node += 1
            start[node] = size
    return owner_start, start


@jit
def add_identity(values: NDArray[Any], own: Ints, undone: Ints, zero: Any, one: Any, prime: Any) -> None:
    """Adds the identity to the sums of the events of each instant, which makes them the matrices of the instants.

    The diagonal entry of a place gets no 1 in those versions in which the place is undone: then the ways that have come
    to it before the instant do not stay there.
    """
    for v in range(len(values)):
        for at in range(len(own)):
            if undone[at] < 0 or values[v, 0, undone[at]] == zero:
                values[v, 0, own[at]] = add(values[v, 0, own[at]], one, prime)


@inlined
def _times(
    vectors: NDArray[Any],
    n: int,
    matrices: NDArray[Any],
    at: int,
    from_: Ints,
    to: Ints,
    entry: Ints,
    out: NDArray[Any],
    zero: Any,
    prime: Any,
    reciprocal: float,
) -> None:
    """Multiplies the vector ``n`` of all accumulators with the matrix ``at`` in place; ``out`` is room for it.

    Vectors and matrices are given by their numbers: to cut them out takes longer than to multiply them.
    """
    for k in range(out.shape[0]):
        for q in range(out.shape[1]):
            out[k, q] = zero
    for t in range(len(entry)):
        r, q, e = from_[t], to[t], entry[t]
        for k in range(out.shape[0]):
            if e == ONE:
                out[k, q] = add(out[k, q], vectors[n, k, r], prime)
                continue
            out[k, q] = add(out[k, q], multiply(vectors[n, k, r], matrices[at, 0, e], prime, reciprocal), prime)
            if k > 0:
                out[k, q] = add(out[k, q], multiply(vectors[n, 0, r], matrices[at, k, e], prime, reciprocal), prime)
    for k in range(out.shape[0]):
        for q in range(out.shape[1]):
            vectors[n, k, q] = out[k, q]


@inlined
def _version(rank: Places, low: int, high: int, wanted: int) -> int:
    """Returns the last of the versions ``low:high`` that begins at the wanted rank or before."""
    while low + 1 < high:
        middle = (low + high) // 2
        if rank[middle] <= wanted:
            low = middle
        else:
            high = middle
    return low


@inlined
def _following(rank: Places, cursor: Ints, node: int, end: int, wanted: int) -> int:
    """Returns the last version of a node that begins at the wanted rank or before; calls must come by rising ranks."""
    at = cursor[node]
    while at + 1 < end and rank[at + 1] <= wanted:
        at += 1
    cursor[node] = at
    return int(at)


@jit
def take_ends(
    queries: Queries, level: Level, by_rank: bool, rules: Rules, zero: Any, prime: Any, reciprocal: float
) -> None:
    """Multiplies in the nodes at the ends of each query's range that the level above lacks, and moves up to that level.

    If the queries of each tree come ``by_rank``, the versions of each node are needed in order, so none is searched
    for. Where nodes have many versions, a search would cost one cache miss after another.
    """
    owner, left, right, wanted = queries.owner, queries.left, queries.right, queries.rank
    rows, columns = queries.row, queries.column
    owner_start, start, rank, values = level
    row, column, entry = rules.row, rules.column, rules.entry
    out = np.full((rows.shape[1], rows.shape[2]), zero)
    cursor = start[: len(start) if by_rank else 0].copy()
    for n in range(len(owner)):
        if left[n] >= right[n]:
            continue
        base = owner_start[owner[n]]
        nodes = owner_start[owner[n] + 1] - base
        # A range that reaches the end of its tree leaves the last node to the level above, if there is one.
        to_end = right[n] == nodes and nodes > 1
        if left[n] & 1:
            node = base + left[n]
            if by_rank:
                at = _following(rank, cursor, node, start[node + 1], wanted[n])
            else:
                at = _version(rank, start[node], start[node + 1], wanted[n])
            _times(rows, n, values, at, row, column, entry, out, zero, prime, reciprocal)
            left[n] += 1
        if left[n] < right[n] and right[n] & 1 and not to_end:
            node = base + right[n] - 1
            if by_rank:
                at = _following(rank, cursor, node, start[node + 1], wanted[n])
            else:
                at = _version(rank, start[node], start[node + 1], wanted[n])
            _times(columns, n, values, at, column, row, entry, out, zero, prime, reciprocal)
            right[n] -= 1
        left[n] //= 2
        right[n] = (right[n] + to_end) // 2


@jit
def inner_products(rows: NDArray[Any], columns: NDArray[Any], zero: Any, prime: Any, reciprocal: float) -> NDArray[Any]:
    """Multiplies the rows and columns of queries: shape (queries, accumulators)."""
    queries, accumulators, places = rows.shape
    out = np.full((queries, accumulators), zero)
    for n in range(queries):
        for p in range(places):
            for k in range(accumulators):
                out[n, k] = add(out[n, k], multiply(rows[n, 0, p], columns[n, k, p], prime, reciprocal), prime)
                if k > 0:
                    out[n, k] = add(out[n, k], multiply(rows[n, k, p], columns[n, 0, p], prime, reciprocal), prime)
    return out


@jit
def add_products(
    before: NDArray[Any],
    after: NDArray[Any],
    pivot: Ints,
    weights: NDArray[Any],
    counted: NDArray[np.bool_],
    slice_: Ints,
    out: NDArray[Any],
    zero: Any,
    prime: Any,
    reciprocal: float,
) -> None:
    """Adds the trends of each query to its slice: the walks before the pivot times those after it, and its own weight.

    Parameters
    ----------
    before, after : arrays, shape (queries, accumulators)
        The accumulators of the walks on both sides.
    pivot, slice_ : int64 arrays, shape (queries,)
        The event of the pivot, and the slice that the query belongs to.
    weights, counted : array, shape (accumulators, n), and bool array, shape (accumulators,)
        What each event adds to each accumulator if it is the pivot's event, and whether it does.
    out : array, shape (slices, accumulators)
    zero, prime, reciprocal
        As in :func:`merge_neighbours`.
    """
    for n in range(len(pivot)):
        trends = multiply(before[n, 0], after[n, 0], prime, reciprocal)
        s = slice_[n]
        if counted[0]:
            trends = multiply(trends, weights[0, pivot[n]], prime, reciprocal)
        out[s, 0] = add(out[s, 0], trends, prime)
        for k in range(1, out.shape[1]):
            total = multiply(before[n, 0], after[n, k], prime, reciprocal)
            total = add(total, multiply(before[n, k], after[n, 0], prime, reciprocal), prime)
            if counted[k]:
                total = add(total, multiply(trends, weights[k, pivot[n]], prime, reciprocal), prime)
            out[s, k] = add(out[s, k], total, prime)
