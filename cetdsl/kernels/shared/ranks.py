"""Index tables of many predicates that compare the same later column, with one sort for all of them.

``t.price * 1.01 < NEXT(t).price`` and ``t.price * 1.02 < NEXT(t).price`` put events into a tree in the same order, and
ask for different prefixes of it. So the events are sorted once, a merge of both sorted sides finds each predicate's
prefixes, and there is one tree, with the values of the states of all these predicates side by side. Whether two
predicates have the same order is found out from the values of each chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.ir.machine import Comparison
from cetdsl.kernels._jit import jit
from cetdsl.kernels.machine.program import Tables, build_tables
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Places

Comparisons = tuple[Comparison, ...]


class Indexed(NamedTuple):
    """The comparisons that hash tables and trees answer."""

    hashes: tuple[Comparisons, ...]
    trees: tuple[Comparisons, ...]


class Ranked(NamedTuple):
    """Index tables, and for each tree the number of the one whose order it shares (its own, if none)."""

    tables: Tables
    leader: tuple[int, ...]


def ranked_tables(indexed: Indexed, ends: dict[Comparisons, tuple[int, int]], events: Events) -> Ranked:
    """Builds tables; ``ends`` has the variables of the earlier and of the later events of each tree, as bit masks."""
    trees = indexed.trees
    rows = np.zeros((5, len(trees), len(events.time)), dtype=np.int32)
    leader = list(range(len(trees)))
    families: dict[tuple[str, int], list[int]] = {}
    for number, comparisons in enumerate(trees):
        if len(comparisons) == 1:
            families.setdefault((comparisons[0].op, comparisons[0].later), []).append(number)
    placed = np.zeros(len(trees), dtype=np.bool_)
    for (op, later), members in families.items():
        if len(members) < 2:
            continue
        sources = targets = 0
        for number in members:
            sources, targets = sources | ends[trees[number]][0], targets | ends[trees[number]][1]
        earlier = np.array([trees[number][0].earlier for number in members], dtype=np.int64)
        flip = -1 if op in ("<", "<=") else 0
        fits = _place_together(
            events, later, earlier, sources, targets, flip, op in ("<=", ">="), rows, np.array(members, dtype=np.int64)
        )
        own = np.array(members)[fits]
        placed[own] = True
        for number in own.tolist():
            leader[number] = members[0]
    others = np.flatnonzero(~placed)
    built = build_tables(Indexed(indexed.hashes, tuple(trees[number] for number in others.tolist())), events)
    for row, found in enumerate(built[3:]):
        rows[row, others] = found
    return Ranked(Tables(*built[:3], *rows), tuple(leader))


@jit
def _place_together(
    events: Events,
    later: int,
    earlier: Ints,
    sources: int,
    targets: int,
    flip: int,
    inclusive: bool,
    rows: Places,
    tables: Ints,
) -> Bools:
    """Writes the rows of those of several trees that have the order of the first one, and returns which these are.

    A tree answers queries for prefixes. ``flip`` is -1, which reverses the order (``x ^ -1`` is ``~x``), where a prefix
    is to have the largest values, else 0. ``inclusive`` says whether equal values count.
    """
    fits = np.ones(len(earlier), dtype=np.bool_)
    mask, codes, valid, segment_start = events.mask, events.codes, events.valid, events.segment_start
    first_column = earlier[0]
    for s in range(len(segment_start) - 1):
        low, high = segment_start[s], segment_start[s + 1]
        entering, asking = np.empty(high - low, dtype=np.int64), np.empty(high - low, dtype=np.int64)
        size, asked = 0, 0
        for i in range(low, high):
            if mask[i] & sources and valid[first_column, i]:
                entering[size] = i
                size += 1
            if mask[i] & targets and valid[later, i]:
                asking[asked] = i
                asked += 1
            if mask[i] & sources:
                for k in range(1, len(earlier)):
                    fits[k] &= valid[earlier[k], i] == valid[first_column, i]
        entering, asking = entering[:size], asking[:asked]
        keys = np.empty(size, dtype=np.int64)
        for n in range(size):
            keys[n] = codes[first_column, entering[n]] ^ flip
        entering = entering[np.argsort(keys, kind="mergesort")]
        wanted = np.empty(asked, dtype=np.int64)
        for n in range(asked):
            wanted[n] = codes[later, asking[n]] ^ flip
        order = np.argsort(wanted, kind="mergesort")
        asking, wanted = asking[order], wanted[order]
        for k in range(len(earlier)):
            column, table = earlier[k], tables[k]
            for n in range(size):
                keys[n] = codes[column, entering[n]] ^ flip
                if n > 0 and keys[n] < keys[n - 1]:
                    fits[k] = False
            if not fits[k]:
                continue
            for n in range(size):
                i = entering[n]
                rows[2, table, i], rows[3, table, i], rows[4, table, i] = low, n + 1, size
            place = 0
            for n in range(asked):
                while place < size and (keys[place] < wanted[n] or (inclusive and keys[place] == wanted[n])):
                    place += 1
                rows[0, table, asking[n]], rows[1, table, asking[n]] = low, place
    return fits
