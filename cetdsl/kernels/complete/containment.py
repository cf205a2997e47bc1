"""Drops trends that another one of their key and window contains: the definition of completeness, taken literally.

The trends of a key come longest first. So each trend that could contain another one has come before it, and, since
containment is transitive, has been kept or is contained in one that has. Only kept trends are remembered: their
bindings stand one after the other in one array. All bindings of one event to one variable have a number in common,
their *code*, and are linked into a list. A new trend is looked for in those kept trends that the shortest list of its
bindings leads to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cetdsl.errors import GroupTooLarge
from cetdsl.ir.kernel import MAXIMAL
from cetdsl.ir.layout import KEY, NAMES, NUMBERS, TREND, WINDOW
from cetdsl.ir.stages import ContainmentSpec
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.vocabulary import Bools, Ints, Places
from cetdsl.kernels.wire.columns import as_array, differs_from_previous, from_numpy, integers, python_value, to_numpy

Words = NDArray[np.uint64]

#: Positions in the array of counters: the number of the key and window that is being read, and how many distinct
#: bindings, kept trends, and bindings of kept trends it has.
_KEY, _CODES, _TRENDS, _BINDINGS = 0, 1, 2, 3
#: The bytes that a code, a kept trend, and a binding of one take in the arrays below, a half-empty hash table included.
_CODE_BYTES, _TREND_BYTES, _BINDING_BYTES = 64, 16, 16


class _Table(NamedTuple):
    """The distinct bindings of a key, in an open hash table; slots with the number of another ``key`` are free."""

    key: Ints
    event: Ints
    variable: Places
    code: Places


class _Kept(NamedTuple):
    """The kept trends of a key.

    For each code, ``head`` is its last position among the bindings of the kept trends (-1: it has none), and ``times``
    the number of its positions. For each of these bindings, one trend after the other, there are its ``code``, the
    trend that is its ``owner``, and the position before it with the same code (``previous``; -1: none). For each trend
    there are its ``start`` among the bindings, and its ``signature``: the set of its codes, folded into 64 bits.
    """

    head: Ints
    times: Ints
    code: Places
    owner: Places
    previous: Ints
    start: Ints
    signature: Words


def containment_stream(spec: ContainmentSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Yields the trends that no other one of their key and window contains.

    The rows are sorted by key, window and falling length. The columns are the shown keys, the window if sliding, and
    the trend. GroupTooLarge is raised if the kept trends of one key and window take more than ``spec.memory`` bytes.
    """
    sieve, position = _Sieve(spec), spec.layout.position
    names = pa.array(spec.variables, pa.string())
    apart = [position(name) for name in spec.layout.partition]
    windows = [position(name) for name in spec.layout.all_of(WINDOW)]
    shown = [*(position(f"{KEY}{key}") for key in spec.shown), *windows, position(TREND)]
    before: list[pa.Array] | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        columns = [as_array(column) for column in batch.columns]
        keys = [columns[k] for k in apart]
        fresh = _fresh(keys, before, batch.num_rows)
        before = [column.slice(batch.num_rows - 1) for column in keys]
        numbers = columns[position(NUMBERS)]
        start = to_numpy(numbers.offsets).astype(np.int64)
        variable = pc.index_in(columns[position(NAMES)].flatten(), names)
        kept = sieve.sift(start - start[0], integers(numbers.flatten()), integers(variable), fresh)
        if sieve.bytes_kept > spec.memory:
            raise _too_large(spec, before, sieve)
        if kept.any():
            yield [columns[k].take(from_numpy(np.flatnonzero(kept))) for k in shown]


def _fresh(keys: list[pa.Array], before: list[pa.Array] | None, count: int) -> Bools:
    """Whether each row begins a key and window; ``before`` has the key and window of the row before the first one."""
    if before is None:
        return differs_from_previous(keys, count)
    joined = [pa.concat_arrays(pair) for pair in zip(before, keys, strict=True)]
    return differs_from_previous(joined, count + 1)[1:]


class _Sieve:
    """Remembers the kept trends of one key and window."""

    def __init__(self, spec: ContainmentSpec) -> None:
        self.spec = spec
        self.counters = np.zeros(4, dtype=np.int64)
        self.table = _new_table(1024)
        self.kept = _Kept(*(np.zeros(0, dtype=kind) for kind in ("i8", "i8", "i4", "i4", "i8", "i8", "u8")))

    def sift(self, start: Ints, event: Ints, variable: Ints, fresh: Bools) -> Bools:
        """Returns which trends are kept; ``fresh`` marks where another key and window begins."""
        self._make_room(len(fresh), len(event))
        unbroken = self.spec.completeness != MAXIMAL
        return _sift(start, event, variable, fresh, unbroken, self.counters, self.table, self.kept)

    @property
    def bytes_kept(self) -> int:
        """Returns the bytes that the kept trends of the present key and window take."""
        codes, trends, bindings = (int(n) for n in self.counters[1:])
        return _CODE_BYTES * codes + _TREND_BYTES * trends + _BINDING_BYTES * bindings

    def _make_room(self, trends: int, bindings: int) -> None:
        """Makes room for ``trends`` more trends and ``bindings`` more bindings."""
        _, codes, owners, held = (int(n) for n in self.counters + [0, bindings, trends, bindings])
        sizes = (codes, codes, held, held, held, owners + 1, owners)
        self.kept = _Kept(*(_grown(column, size) for column, size in zip(self.kept, sizes)))
        if 2 * codes > len(self.table.key):
            table = _new_table(1 << (2 * codes).bit_length())
            _move(self.table, table, int(self.counters[_KEY]))
            self.table = table


def _too_large(spec: ContainmentSpec, keys: list[pa.Array], sieve: _Sieve) -> GroupTooLarge:
    count = spec.layout.keys
    values = tuple(python_value(column, len(column) - 1) for column in keys[:count])
    where = f"group {values!r}" if count else "the whole input"
    if spec.layout.has(WINDOW):
        start, end = (python_value(bound, len(bound) - 1) for bound in keys[-1].flatten())
        where += f", the window from {start} to {end},"
    return GroupTooLarge(
        f"{where} has more complete trends than there is memory for: the first {sieve.counters[_TRENDS]} take "
        f"{sieve.bytes_kept} bytes, and {spec.memory} are allowed",
        hint="shorten WITHIN, add partition columns or predicates, or raise memory_limit",
    )


def _grown(array: Any, size: int) -> Any:
    """Returns the array with room for at least ``size`` entries."""
    if len(array) >= size:
        return array
    out = np.empty(max(size, 3 * len(array) // 2), dtype=array.dtype)
    out[: len(array)] = array
    return out


def _new_table(size: int) -> _Table:
    return _Table(*(np.zeros(size, dtype=kind) for kind in ("i8", "i8", "i4", "i4")))


@inlined
def _slot(table: _Table, key: int, event: int, variable: int) -> int:
    """Returns the slot of a binding, or the free one where it belongs."""
    last = len(table.key) - 1
    mixed = np.uint64(event) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(variable) * np.uint64(0xC2B2AE3D27D4EB4F)
    slot = np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(last))
    while table.key[slot] == key and (table.event[slot] != event or table.variable[slot] != variable):
        slot = (slot + 1) & last
    return int(slot)


@jit
def _move(old: _Table, new: _Table, key: int) -> None:
    """Moves the bindings of a key into another table."""
    for old_slot in range(len(old.key)):
        if key > 0 and old.key[old_slot] == key:
            slot = _slot(new, key, old.event[old_slot], old.variable[old_slot])
            new.key[slot], new.event[slot] = key, old.event[old_slot]
            new.variable[slot], new.code[slot] = old.variable[old_slot], old.code[old_slot]


@inlined
def _is_subsequence(kept: _Kept, trend: Places, low: int, high: int) -> bool:
    """Whether a trend's bindings occur among the kept bindings ``low:high``, in the same order."""
    at = low
    for code in trend:
        while at < high and kept.code[at] != code:
            at += 1
        if at == high:
            return False
        at += 1
    return True


@inlined
def _is_stretch(kept: _Kept, trend: Places, low: int, high: int) -> bool:
    """Whether a trend's bindings stand side by side from ``low`` on, before ``high``."""
    same = low + len(trend) <= high
    for k in range(len(trend)):
        same = same and kept.code[low + k] == trend[k]
    return same


@jit
def _is_contained(kept: _Kept, trend: Places, signature: np.uint64, unbroken: bool) -> bool:
    """Whether a longer kept trend contains a trend, all of whose codes must be known.

    If ``unbroken``, the trend's bindings have to stand side by side in the longer one.
    """
    rarest = 0
    for k in range(1, len(trend)):
        if kept.times[trend[k]] < kept.times[trend[rarest]]:
            rarest = k
    at = kept.head[trend[rarest]]
    while at >= 0:
        owner = kept.owner[at]
        low, high = kept.start[owner], kept.start[owner + 1]
        if high - low > len(trend) and signature & ~kept.signature[owner] == 0:
            if unbroken:
                if at - rarest >= low and _is_stretch(kept, trend, at - rarest, high):
                    return True
            elif _is_subsequence(kept, trend, low, high):
                return True
        at = kept.previous[at]
    return False


@jit
def _sift(
    start: Ints, event: Ints, variable: Ints, fresh: Bools, unbroken: bool, counters: Ints, table: _Table, kept: _Kept
) -> Bools:
    """Returns which trends are kept; there must be room for all of them."""
    out = np.zeros(len(fresh), dtype=np.bool_)
    codes = np.empty(len(event), dtype=np.int32)
    one = np.uint64(1)
    for t in range(len(fresh)):
        if fresh[t]:
            counters[_KEY] += 1
            counters[_CODES] = counters[_TRENDS] = counters[_BINDINGS] = 0
        low, high = start[t], start[t + 1]
        known, signature = True, np.uint64(0)
        for k in range(low, high):
            slot = _slot(table, counters[_KEY], event[k], variable[k])
            if table.key[slot] != counters[_KEY]:
                known = False
                code = counters[_CODES]
                counters[_CODES] += 1
                table.key[slot], table.event[slot] = counters[_KEY], event[k]
                table.variable[slot], table.code[slot] = variable[k], code
                kept.head[code], kept.times[code] = -1, 0
            codes[k] = table.code[slot]
            signature |= one << np.uint64(codes[k] & 63)
        if known and _is_contained(kept, codes[low:high], signature, unbroken):
            continue
        out[t] = True
        owner, at = counters[_TRENDS], counters[_BINDINGS]
        kept.start[owner] = at
        for k in range(low, high):
            kept.code[at], kept.owner[at] = codes[k], owner
            kept.previous[at] = kept.head[codes[k]]
            kept.head[codes[k]] = at
            kept.times[codes[k]] += 1
            at += 1
        kept.start[owner + 1], kept.signature[owner] = at, signature
        counters[_TRENDS], counters[_BINDINGS] = owner + 1, at
    return out
