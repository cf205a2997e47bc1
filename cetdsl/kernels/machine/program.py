"""A machine (an automaton) as flat arrays, and the tables of the indexes that answer its predicates.

An *edge* leads from state to state and has predicates on two neighbouring events. An *index* holds the values of
earlier events in such an order that the sum over those that satisfy an edge's predicates is found quickly
(:mod:`cetdsl.ir.indexes`): ``TOTAL`` is a single sum, ``HASH`` has one per value, ``TREE`` is a Fenwick tree, and
``SCAN`` looks at each event. An index that several edges can use is kept once, in a *slot*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.indexes import HASH, SCAN, TREE, index_of
from cetdsl.ir.machine import LISTED, Comparison, Machine
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels._side_by_side import flat, grouped, starts_of
from cetdsl.kernels.numbers.copying import copy
from cetdsl.kernels.vocabulary import Bools, Events, Index, Ints, Places
from cetdsl.kernels.wire.columns import from_numpy, to_numpy

OPERATORS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
#: The operators of pairwise predicates; the last one asks lists in place of codes.
PAIR_OPERATORS = {**OPERATORS, LISTED: 6}

#: From so many values on, they are sorted byte by byte.
_MANY_VALUES = 4_096
#: The sign bit alone: flipped, it gives unsigned bytes the order of the signed values.
_SIGN = -(2**63)


class Program(NamedTuple):
    """A machine as arrays.

    Attributes
    ----------
    variable, begins, ends : arrays, shape (states,)
        The variable of each state, and whether trends may begin and end there.
    begin_guard_start, begin_guard, end_guard_start, end_guard : int64 arrays
        The guards of trends that begin in each state, and of trends that end there.
    in_start : int64 array, shape (states + 1,)
        Where the edges that lead to each state begin.
    in_source, in_index, in_table, in_slot : int64 arrays, shape (edges,)
        The source of each edge, its kind of index, and for ``HASH`` and ``TREE`` the table and the slot.
    comparison_start, comparison, listed_start, listed : int64 arrays
        The comparisons (operator, later column, earlier column) of each edge, and its list columns.
    slot_start, slot_index, slot_table, slot_number : int64 arrays
        The slots that receive the values of events in each state: kind of index, table, and number.
    hash_slots, tree_slots : int
        How many slots of either kind there are.
    scans : bool
        Whether some edge is answered by ``SCAN``.
    """

    variable: Ints
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    begin_guard_start: Ints
    begin_guard: Ints
    end_guard_start: Ints
    end_guard: Ints
    in_start: Ints
    in_source: Ints
    in_index: Ints
    in_table: Ints
    in_slot: Ints
    comparison_start: Ints
    comparison: Ints
    listed_start: Ints
    listed: Ints
    slot_start: Ints
    slot_index: Ints
    slot_table: Ints
    slot_number: Ints
    hash_slots: int
    tree_slots: int
    scans: bool


class Tables(NamedTuple):
    """The place of each event in each table of an index, for one chunk of events.

    As the later event of an edge, event ``i`` queries an index; as the earlier one it updates it. In a hash table, it
    queries the code ``hash_query[t, i]`` and updates ``hash_update[t, i]`` (-1: NULL). A Fenwick tree is a row of
    entries that starts at ``*_base``: the event queries its first ``query_length`` entries, and updates the one at
    ``update_position`` (from 1) of a tree with ``tree_size`` entries.
    """

    hash_query: Ints
    hash_update: Ints
    hash_codes: int
    query_base: Ints
    query_length: Ints
    update_base: Ints
    update_position: Ints
    tree_size: Ints


class Indexed(Protocol):
    """The comparison sets that hash tables and trees answer."""

    @property
    def hashes(self) -> tuple[tuple[Comparison, ...], ...]: ...
    @property
    def trees(self) -> tuple[tuple[Comparison, ...], ...]: ...


class Layout(NamedTuple):
    """A program and the comparison sets that its tables are built from."""

    program: Program
    hashes: tuple[tuple[Comparison, ...], ...]
    trees: tuple[tuple[Comparison, ...], ...]


def lay_out(machine: Machine) -> Layout:
    """Lays out a machine whose guards have been lowered as arrays.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge, Machine
    >>> layout = lay_out(Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1))))
    >>> layout.program.in_start.tolist(), layout.program.in_source.tolist()
    ([0, 0, 2], [0, 1])
    """
    states = len(machine.variables)
    edges = sorted(machine.edges, key=lambda e: (e.target, e.source))
    tables: dict[int, dict[tuple[Comparison, ...], int]] = {HASH: {}, TREE: {}}
    slots: dict[tuple[int, int, int], int] = {}
    numbers = {HASH: 0, TREE: 0}
    index, table, slot = [], [], []
    for edge in edges:
        kind = index_of(edge)
        index.append(kind)
        number = position = -1
        if kind in tables:
            number = tables[kind].setdefault(edge.comparisons, len(tables[kind]))
            position = slots.setdefault((edge.source, kind, number), numbers[kind])
            numbers[kind] = max(numbers[kind], position + 1)
        table.append(number)
        slot.append(position)
    by_target: list[list[int]] = [[] for _ in range(states)]
    for number, edge in enumerate(edges):
        by_target[edge.target].append(number)
    by_source: list[list[tuple[int, int, int]]] = [[] for _ in range(states)]
    for (source, kind, number), position in slots.items():
        by_source[source].append((kind, number, position))
    comparisons = [[(OPERATORS[c.op], c.later, c.earlier) for c in edge.comparisons] for edge in edges]
    initial, final = dict(machine.initial), dict(machine.final)
    program = Program(
        flat([machine.variables]),
        np.array([state in initial for state in range(states)], dtype=np.bool_),
        np.array([state in final for state in range(states)], dtype=np.bool_),
        *grouped([initial.get(state, ()) for state in range(states)]),
        *grouped([final.get(state, ()) for state in range(states)]),
        starts_of(by_target),
        flat([[edge.source for edge in edges]]),
        flat([index]),
        flat([table]),
        flat([slot]),
        starts_of(comparisons),
        flat(comparisons).reshape(-1, 3),
        *grouped([edge.listed for edge in edges]),
        starts_of(by_source),
        flat([[kind for kind, _, _ in group] for group in by_source]),
        flat([[number for _, number, _ in group] for group in by_source]),
        flat([[position for _, _, position in group] for group in by_source]),
        numbers[HASH],
        numbers[TREE],
        SCAN in index,
    )
    return Layout(program, tuple(tables[HASH]), tuple(tables[TREE]))


#: Codes are compacted if the range from the least to the greatest has more than so many times as many numbers as there
#: are codes.
_SPARSE = 2


def dense_codes(later: Ints, earlier: Ints) -> tuple[Ints, Ints, int]:
    """Numbers the values of two arrays together, from 0: returns the codes of both, and a bound above the codes."""
    if len(later):
        # Instants, for example, lie so close together that they can be codes themselves.
        least = min(int(later.min()), int(earlier.min()))
        many = max(int(later.max()), int(earlier.max())) - least + 1
        if many <= _SPARSE * (len(later) + len(earlier)):
            return later - least, earlier - least, many
    encoded = from_numpy(np.concatenate([later, earlier])).dictionary_encode()
    numbers = to_numpy(encoded.indices).astype(np.int64)
    return numbers[: len(later)], numbers[len(later) :], len(encoded.dictionary)


def equality_codes(equalities: Sequence[Comparison], events: Events) -> tuple[Ints, Ints, int]:
    """Returns codes of each event as the later and as the earlier one, which are equal if all equalities hold.

    Also returns a bound above the codes. The code is -1 if a value is NULL.
    """
    if not equalities:
        zeros = np.zeros(len(events.time), dtype=np.int64)
        return zeros, zeros, 1
    query, update, size = dense_codes(events.codes[equalities[0].later], events.codes[equalities[0].earlier])
    for comparison in equalities[1:]:
        f, g, size = dense_codes(events.codes[comparison.later], events.codes[comparison.earlier])
        query, update, size = dense_codes(query * size + f, update * size + g)
    f_valid = np.logical_and.reduce([events.valid[c.later] for c in equalities])
    g_valid = np.logical_and.reduce([events.valid[c.earlier] for c in equalities])
    return np.where(f_valid, query, -1), np.where(g_valid, update, -1), size


#: Numbers the values of equalities, as :func:`equality_codes` does.
Numbering = Callable[[Sequence[Comparison], Events], tuple[Ints, Ints, int]]


def build_tables(layout: Indexed, events: Events, numbering: Numbering = equality_codes) -> Tables:
    """Builds the index tables of a chunk of events; each column is sorted or hashed once for all windows."""
    count = len(events.time)
    hash_query = np.empty((len(layout.hashes), count), dtype=np.int64)
    hash_update = np.empty_like(hash_query)
    hash_codes = 0
    for number, comparisons in enumerate(layout.hashes):
        hash_query[number], hash_update[number], size = numbering(comparisons, events)
        hash_codes = max(hash_codes, size)
    trees: NDArray[Any] = np.zeros((5, len(layout.trees), count), dtype=np.int32)  # half the memory of int64
    longest = int(np.diff(events.segment_start).max(initial=0)) if layout.trees else 0
    # Allocated by NumPy, which asks the system for large pages: a kernel would wait for one small page after another.
    room = np.empty((2, longest), dtype=np.int64), np.empty((2, longest), dtype=np.int32)
    for number, comparisons in enumerate(layout.trees):
        order = next(c for c in comparisons if c.op != "=")
        equalities = [c for c in comparisons if c.op == "="]
        query_bucket = update_bucket = np.zeros(0, dtype=np.int64)
        if equalities:
            query_bucket, update_bucket, _ = numbering(equalities, events)
        later, later_valid = _column(events, order.later)
        earlier, earlier_valid = (
            (later, later_valid) if order.earlier == order.later else _column(events, order.earlier)
        )
        _place_in_trees(
            events.segment_start,
            query_bucket,
            update_bucket,
            later,
            earlier,
            later_valid,
            earlier_valid,
            order.op in ("<", "<="),
            order.op in ("<=", ">="),
            all(c.later == c.earlier for c in comparisons),
            trees[:, number],
            *room,
        )
    return Tables(hash_query, hash_update, hash_codes, *trees)


def _column(events: Events, column: int) -> tuple[Ints, Bools]:
    """Returns the codes of a column, and which are not NULL, as contiguous arrays."""
    return np.ascontiguousarray(events.codes[column]), np.ascontiguousarray(events.valid[column])


@inlined
def place_of(rising: Places | Ints, start: Index, stop: Index, least: Index) -> Index:
    """Returns the first place in ``[start, stop)`` of rising numbers that is not below ``least``."""
    while start < stop:
        middle = (start + stop) // 2
        if rising[middle] < least:
            start = middle + 1
        else:
            stop = middle
    return start


@jit
def _sorted_by(values: Ints, spare: Ints, members: Places, other: Places) -> tuple[Places, Places]:
    """Sorts members by their values, stably; if they are many, byte by byte, in linear time.

    The contents of ``values`` and ``spare`` are overwritten. The sorted members are in ``members`` or in ``other``, and
    both arrays are returned, the sorted one first: one key may have millions of events, so nothing is copied.
    """
    count = len(values)
    if count < _MANY_VALUES:
        copy(other, members[np.argsort(values, kind="mergesort")])
        return other, members
    digit = np.zeros((8, 257), dtype=np.int64)
    for n in range(count):
        values[n] ^= _SIGN
        for byte in range(8):
            digit[byte, ((values[n] >> (8 * byte)) & 255) + 1] += 1
    for byte in range(8):
        if digit[byte].max() == count:
            continue  # all values agree in this byte
        place = np.cumsum(digit[byte])
        for n in range(count):
            own = (values[n] >> (8 * byte)) & 255
            spare[place[own]], other[place[own]] = values[n], members[n]
            place[own] += 1
        values, spare, members, other = spare, values, other, members
    return members, other


@jit
def _place_in_trees(
    segment_start: Ints,
    query_bucket: Ints,
    update_bucket: Ints,
    later: Ints,
    earlier: Ints,
    later_valid: NDArray[np.bool_],
    earlier_valid: NDArray[np.bool_],
    reverse: bool,
    inclusive: bool,
    same: bool,
    out: Ints,
    keys: Ints,
    places: Places,
) -> None:
    """Sorts each key's events by (bucket, value) and finds each event's place and the end of its query.

    The tree of a bucket occupies the slots of its own events, so all trees of a chunk need one slot per event.

    Parameters
    ----------
    segment_start : int64 array, shape (segments + 1,)
        Where each key's events begin.
    query_bucket, update_bucket : int64 arrays, shape (n,) or (0,)
        The bucket (values of the equalities) that each event queries as the later one, and the one that it is put in as
        the earlier one (-1: none). Without buckets, all events of a key share a tree.
    later, earlier : int64 arrays, shape (n,)
        The values that are compared, of each event as the later and as the earlier one.
    later_valid, earlier_valid : bool arrays, shape (n,)
        Whether these are not NULL.
    reverse, inclusive : bool
        Whether a query finds larger values in place of smaller ones, and whether it finds equal ones.
    same : bool
        Whether both sides are the same columns. Then a query ends at the place of its own event: before the events of
        equal values or, if ``inclusive``, behind them.
    out : int32 array, shape (5, n)
        Receives this table's rows of the last five fields of :class:`Tables`.
    keys, places : int64 and int32 arrays, shape (2, longest)
        Room for two copies of the longest key's values, and of its events.
    """
    # This function takes its arrays one by one, because it does little but write to arrays: it would fetch an array of
    # a tuple again after each write (kernels/_jit.py). It is long because its parts would need most of the arrays.
    bucketed = len(query_bucket) > 0
    flip = -1 if reverse else 0  # x ^ -1 is ~x, which reverses the order and cannot overflow
    for s in range(len(segment_start) - 1):
        # The events of earlier keys have their places. ``members`` are the events of this key that enter a tree.
        first, last = segment_start[s], segment_start[s + 1]
        members, size = places[0], 0
        for i in range(first, last):
            if earlier_valid[i] and (not bucketed or update_bucket[i] >= 0):
                members[size] = i
                size += 1
        members, other = members[:size], places[1, :size]
        values, spare = keys[0, :size], keys[1, :size]
        for position in range(size):
            values[position] = earlier[members[position]] ^ flip
        members, other = _sorted_by(values, spare, members, other)
        if bucketed:
            for position in range(size):
                values[position] = update_bucket[members[position]]
            members, _ = _sorted_by(values, spare, members, other)
        for position in range(size):
            values[position] = earlier[members[position]] ^ flip
        buckets = update_bucket[members] if bucketed else update_bucket
        start = 0
        while start < size:
            # Members before ``start`` have their places; ``start:end`` is one bucket, rising by value.
            end = size
            if bucketed:
                end = start + 1
                while end < size and buckets[end] == buckets[start]:
                    end += 1
            equal, behind = start, start
            # The array is 0 already, so a base of 0 is not written: the memory of a lone tree's bases is never touched.
            base = first + start
            for position in range(start, end):
                # ``equal:behind`` are the members with the same value as the one before ``position``.
                i = members[position]
                if base:
                    out[2, i] = base
                out[3, i] = position - start + 1
                out[4, i] = end - start
                if same:
                    if position == behind:
                        equal = position
                        while behind < end and values[behind] == values[equal]:
                            behind += 1
                    if base:
                        out[0, i] = base
                    out[1, i] = (behind if inclusive else equal) - start
            start = end
        if same:
            continue
        for i in range(first, last):
            if not later_valid[i] or (bucketed and query_bucket[i] < 0):
                continue
            low, high = 0, size
            if bucketed:
                low = np.searchsorted(buckets, query_bucket[i])
                high = np.searchsorted(buckets, query_bucket[i], side="right")
            start, base = low, first + low
            target = later[i] ^ flip
            while low < high:
                # The query includes all members before ``low``, and none from ``high`` on.
                middle = (low + high) // 2
                value = values[middle]
                if value < target or (inclusive and value == target):
                    low = middle + 1
                else:
                    high = middle
            if base:
                out[0, i] = base
            out[1, i] = low - start
