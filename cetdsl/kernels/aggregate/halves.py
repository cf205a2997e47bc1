"""Long slices in two halves: one thread propagates values forwards over the first, another backwards over the second.

A trend that crosses the middle consists of a prefix in the first half and a suffix in the second half, and an edge of
the machine leads from the last event of the prefix to the first event of the suffix. The first half is propagated as
usual, which gives a value for the prefixes that end with each event in each state. The second half is propagated with
the reversed machine and reversed comparisons, from the last event to the first, which gives a value for the suffixes
that begin with each event in each state. Then, for each edge, the values of all pairs of an earlier and a later event
that satisfy its predicates are joined. The trees of both halves have the events in the order of the values that the
edge compares, so one merge of two sorted lists finds all these pairs.

A third thread would have nothing to propagate: the values of events in a middle part depend on the values of the parts
on either side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.indexes import HASH, TOTAL, index_of
from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.ir.transitions import ORDERS, RISING
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels._side_by_side import starts
from cetdsl.kernels.machine.conditions import NO_CONDITIONS, Subslices
from cetdsl.kernels.machine.program import Layout, build_tables, equality_codes, lay_out
from cetdsl.kernels.machine.propagate import Accumulators, Ending, propagate
from cetdsl.kernels.numbers.arithmetic import ADD, by_type, by_types, fitted, gather
from cetdsl.kernels.numbers.linear import add, multiply
from cetdsl.kernels.vocabulary import Events, Ints, Places
from cetdsl.pattern.expressions import MIRRORED

_First = TypeVar("_First")
_Second = TypeVar("_Second")
_Comparisons = tuple[Comparison, ...]


def has_second_core() -> bool:
    """Whether this process may run on more than one core."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


def backwards(machine: Machine) -> Machine:
    """Returns the machine of the same trends, read from their last event to the first; edges in the same order.

    Examples
    --------
    >>> backwards(Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1, (Comparison("<", 2, 3),)),)))
    Machine(variables=(0, 1), initial=((1, ()),), final=((0, ()),), edges=(Edge(source=1, target=0,
        comparisons=(Comparison(op='>', later=3, earlier=2),), listed=(), guards=(), met=False),), matching='any')
    """
    edges = tuple(Edge(edge.target, edge.source, _mirrored(edge.comparisons)) for edge in machine.edges)
    return attrs.evolve(machine, initial=machine.final, final=machine.initial, edges=edges)


def _mirrored(comparisons: _Comparisons) -> _Comparisons:
    """Returns the same comparisons with the earlier and the later event exchanged."""
    return tuple(Comparison(MIRRORED[c.op], c.earlier, c.later) for c in comparisons)


def _equalities(edge: Edge) -> _Comparisons:
    return tuple(c for c in edge.comparisons if c.op == "=")


def _order(edge: Edge) -> Comparison:
    return next(c for c in edge.comparisons if c.op in ORDERS)


class HalvedMachine:
    """A machine in both directions; its guards are comparisons, and indexes answer the predicates of all its edges.

    In either direction, the source of an edge is the state of the event in that direction's half.
    """

    def __init__(self, machine: Machine) -> None:
        self.machines = machine, backwards(machine)
        self.layouts = lay_out(self.machines[0]), lay_out(self.machines[1])


class Pass(NamedTuple):
    """One computation over all events of a slice; its fields are parameters of ``propagate``."""

    accumulators: Accumulators
    zero: Any
    one: NDArray[Any]
    prime: Any


class _Numbered(NamedTuple):
    """The numbers of the values that equalities compare, for each event as the ``later`` and as the ``earlier`` one.

    Equal values have equal numbers, which are below ``distinct``.
    """

    later: Ints
    earlier: Ints
    distinct: int


class _Laid(NamedTuple):
    """The events of a half that an edge may connect with the other half, in the order of their places in its tree.

    Attributes
    ----------
    row : int32 array, shape (events,)
        The row of each event's value among the values that were kept of the state.
    code, bucket : int64 arrays, shape (events,) and (events,) or (0,)
        The value that the edge compares, and the number of the values that must be equal, if the edge has equalities.
    """

    row: Places
    code: Ints
    bucket: Ints


class _Ordered(NamedTuple):
    """What :class:`_Laid` is made of: the tree of an edge whose predicates include a comparison by order.

    It is laid out only when the halves are joined, because by then the trees of the propagation have been freed.

    Attributes
    ----------
    mask, bucket : int64 arrays, shape (n,), bucket also (0,)
        As in :class:`~cetdsl.kernels.vocabulary.Events`, and the number of the values that must be equal, if the edge
        has equalities.
    code : int64 array
        The value that the edge compares, for each event of the chunk.
    start, step, variable : int
        The half's event ``i`` is event ``start + step * i`` of the chunk (``step`` is 1 or -1). ``variable`` is the one
        that the edge's events in this half are bound to.
    base, position : int32 arrays, shape (n,)
        As in :class:`~cetdsl.kernels.machine.program.Tables`.
    """

    mask: Ints
    bucket: Ints
    code: Ints
    start: int
    step: int
    variable: int
    base: Places
    position: Places


class _Members(NamedTuple):
    """The events of a half that an edge with equalities alone may connect with the other half, in order of time.

    ``bucket`` has the number of the values that must be equal; -1: one of them is NULL.
    """

    bucket: Ints


class _Half:
    """One half: its part of a chunk's events, in the order in which they are propagated, and their index tables.

    ``numbered`` has equal numbers for equal values in both halves.
    """

    def __init__(
        self, machine: Machine, layout: Layout, chunk: Events, numbered: dict[_Comparisons, _Numbered], part: slice
    ) -> None:
        self.events, self._program, self._edges = _stretch(chunk, part), layout.program, machine.edges
        self._codes, self._part = chunk.codes, part
        self._tables = build_tables(layout, self.events, lambda equalities, _: numbered[tuple(equalities)])
        self.crossing = [self._crossing(edge, layout, numbered) for edge in machine.edges]

    def _crossing(
        self, edge: Edge, layout: Layout, numbered: dict[_Comparisons, _Numbered]
    ) -> _Ordered | _Members | None:
        """Returns the events that an edge may connect with the other half; None: all events of its source state."""
        kind, equal = index_of(edge), _equalities(edge)
        if kind == TOTAL:
            return None
        mask, variable = self.events.mask, self._program.variable[edge.source]
        bucket = numbered[equal].earlier if equal else np.zeros(0, dtype=np.int64)
        if kind == HASH:
            return _Members(bucket[(mask >> variable) & 1 == 1])
        number = layout.trees.index(edge.comparisons)
        base, position = self._tables.update_base[number], self._tables.update_position[number]
        code, start, step = self._codes[_order(edge).earlier], self._part.start, self._part.step or 1
        return _Ordered(mask, bucket, code, start, step, int(variable), base, position)

    def carry(self, wanted: Pass, out: NDArray[Any]) -> list[NDArray[Any]]:
        """Adds the trends within this half to ``out``, and returns the values that each edge joins with the other half.

        For an edge without predicates this is a single row, the total of its source state; for any other edge it is a
        row for each event of the source state, in order of time.
        """
        accumulators, zero, one, prime = wanted
        # The weights of the first accumulator are never read, so they are not copied.
        weights = np.zeros((len(one), len(self.events.time)), dtype=accumulators.weights.dtype)
        weights[1:] = accumulators.weights[1:, self._part]
        kept = {edge.source for edge, crossing in zip(self._edges, self.crossing) if crossing is not None}
        sizes = [_count(self.events.mask, v) if q in kept else 0 for q, v in enumerate(self._program.variable)]
        begin, width = starts(sizes), len(one)
        start = np.array([begin[q] if q in kept else -1 for q in range(len(sizes))], dtype=np.int64)
        ending = Ending(
            np.empty((len(sizes), width), dtype=one.dtype), start, np.empty((begin[-1], width), dtype=one.dtype)
        )
        none, whole = np.array([-1]), np.zeros(1, dtype=np.int64)
        propagate(
            self._program,
            self._tables,
            # Indexes answer all edges, so the kernel never reads the columns themselves.
            self.events._replace(codes=np.zeros((0, 0), dtype=np.int64), valid=np.zeros((0, 0), dtype=np.bool_)),
            NO_CONDITIONS,
            accumulators._replace(weights=weights),
            Subslices(whole, np.array([len(self.events.time)]), none, whole, whole, none),
            zero,
            one,
            prime,
            -1,
            False,
            out,
            np.zeros(0, dtype=one.dtype),
            ending,
        )
        values = list[NDArray[Any]]()
        for edge, crossing in zip(self._edges, self.crossing):
            of_state = ending.value[begin[edge.source] : begin[edge.source + 1]]
            values.append(ending.total[edge.source : edge.source + 1] if crossing is None else of_state)
        return values


class HalvedSlice:
    """A slice of a chunk's events, cut between two instants."""

    def __init__(self, machine: HalvedMachine, events: Events, low: int, high: int) -> None:
        self._edges = machine.machines[0].edges
        instants = events.instant[low:high]
        middle = low + int(np.searchsorted(instants, instants[len(instants) // 2]))
        # The second half is read backwards. If the chunk has no event before the middle, the end of its slice is None.
        parts = slice(low, middle), slice(high - 1, middle - 1 if middle else None, -1)
        whole = _stretch(events, slice(low, high))
        numbered = {
            equal: _Numbered(*equality_codes(equal, whole)) for equal in {*map(_equalities, self._edges)} if equal
        }
        self.buckets = {equal: one.distinct for equal, one in numbered.items()}
        cut = middle - low
        of_halves = (
            {equal: _Numbered(one.later[:cut], one.earlier[:cut], one.distinct) for equal, one in numbered.items()},
            {
                _mirrored(equal): _Numbered(_reversed(one.earlier[cut:]), _reversed(one.later[cut:]), one.distinct)
                for equal, one in numbered.items()
            },
        )
        first, second = (
            partial(_Half, machine.machines[n], machine.layouts[n], events, of_halves[n], parts[n]) for n in (0, 1)
        )
        self._halves = _both(first, second)

    def add_to(self, out: NDArray[Any], wanted: Pass) -> None:
        """Adds the values of the slice's complete trends to ``out``, of shape (accumulators,)."""
        first, second = self._halves
        within = np.full((2, 1, len(out)), wanted.zero)
        ahead, behind = _both(lambda: first.carry(wanted, within[0]), lambda: second.carry(wanted, within[1]))
        prime = wanted.prime
        how = _How(wanted.accumulators.how, wanted.one, prime, 1.0 / float(prime) if prime else 0.0)
        _gather_rows(within[:, 0], out, prime)
        for number, edge in enumerate(self._edges):
            before, after = first.crossing[number], second.crossing[number]
            if isinstance(before, _Ordered) and isinstance(after, _Ordered):
                op, count = _order(edge).op, self.buckets.get(_equalities(edge), 1)
                falling, inclusive = op not in RISING, op in ("<=", ">=")
                laid = _both(partial(_lay_out, before), partial(_lay_out, after))
                _join_ordered(*laid, count, falling, inclusive, ahead[number], behind[number], how, wanted.zero, out)
            elif isinstance(before, _Members) and isinstance(after, _Members):
                count = self.buckets[_equalities(edge)]
                _join_equal(before.bucket, after.bucket, count, ahead[number], behind[number], how, wanted.zero, out)
            else:
                _join(ahead[number][0], behind[number][0], how, out)


def _stretch(events: Events, part: slice) -> Events:
    """Returns some events as those of one key, in their order, or, by a step of -1, from the last to the first."""
    instant = events.instant[part]
    if part.step == -1:
        instant = instant[:1] - instant
    return events._replace(
        segment_start=np.array([0, len(instant)]),
        time=instant,  # only its length is used here
        instant=instant,
        mask=np.ascontiguousarray(events.mask[part]),
        codes=events.codes[:, part],
        valid=events.valid[:, part],
    )


def _reversed(values: Ints) -> Ints:
    return np.ascontiguousarray(values[::-1])


def _both(first: Callable[[], _First], second: Callable[[], _Second]) -> tuple[_First, _Second]:
    """Calls two functions at the same time, and returns both results; kernels release the interpreter's lock."""
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(second)
        return first(), waiting.result()


class _How(NamedTuple):
    """How the values of both halves are joined.

    The fields are the operation of each accumulator (``how``), the value of a trend without events (``one``), and the
    modulus of ``uint64`` arithmetic with its reciprocal.
    """

    how: Ints
    one: NDArray[Any]
    prime: Any
    reciprocal: float


@by_types
def _joined(a: Any, b: Any, count_a: Any, count_b: Any, k: int, how: int, one: Any, prime: Any, reciprocal: Any) -> Any:
    """Combines the values ``a`` of prefixes and ``b`` of suffixes in accumulator ``k``, given the numbers of both."""

    def scaled(
        a: Any, b: Any, count_a: Any, count_b: Any, k: int, how: int, one: Any, prime: Any, reciprocal: Any
    ) -> Any:
        found = _scaled_product(a, count_b)
        return found if k == 0 else gather(found, _scaled_product(count_a, b), prime)

    def linear(
        a: Any, b: Any, count_a: Any, count_b: Any, k: int, how: int, one: Any, prime: Any, reciprocal: Any
    ) -> Any:
        found = multiply(a, count_b, prime, reciprocal)
        return found if k == 0 else add(found, multiply(count_a, b, prime, reciprocal), prime)

    def lattice(
        a: Any, b: Any, count_a: Any, count_b: Any, k: int, how: int, one: Any, prime: Any, reciprocal: Any
    ) -> Any:
        if count_a < 0 or count_b < 0:
            return -1
        return a + b - one if how == ADD else max(a, b)

    return by_type(a, linear, scaled, lattice, linear)


@inlined
def _scaled_product(a: complex, b: complex) -> complex:
    """Multiplies two numbers of long sums; zero times anything is zero."""
    if a.real == 0.0 or b.real == 0.0:
        return complex(0.0, 0.0)
    return fitted(a.real * b.real, a.imag + b.imag)


@inlined
def _join(ahead: NDArray[Any], behind: NDArray[Any], how: _How, out: NDArray[Any]) -> None:
    """Adds the values of all trends that consist of a prefix in ``ahead`` and a suffix in ``behind``."""
    for k in range(len(out)):
        value = _joined(ahead[k], behind[k], ahead[0], behind[0], k, how.how[k], how.one[k], how.prime, how.reciprocal)
        out[k] = gather(out[k], value, how.prime)


@jit
def _join_equal(
    first: Ints, second: Ints, count: int, ahead: NDArray[Any], behind: NDArray[Any], how: _How, zero: Any, out: Any
) -> None:
    """Joins events of the first half with those of the second half that have the same number, below ``count``."""
    how, width = borrowed(how), len(out)
    total = np.full((count, width), zero)
    for n in range(len(first)):
        if first[n] >= 0:
            for k in range(width):
                total[first[n], k] = gather(total[first[n], k], ahead[n, k], how.prime)
    for n in range(len(second)):
        if second[n] >= 0:
            _join(total[second[n]], behind[n], how, out)


@jit
def _join_ordered(
    first: _Laid,
    second: _Laid,
    count: int,
    falling: bool,
    inclusive: bool,
    ahead: NDArray[Any],
    behind: NDArray[Any],
    how: _How,
    zero: Any,
    out: NDArray[Any],
) -> None:
    """Joins events of the first half with larger ones of the same number in the second half, or, ``falling``, smaller.

    ``inclusive`` says whether equal values are joined too. The events of both halves are sorted by their numbers, which
    are below ``count``. Those of one number are sorted in the first half by rising values, or by falling ones if
    ``falling``; in the second half it is the other way round.
    """
    first, second, how = borrowed(first), borrowed(second), borrowed(how)
    flip = -1 if falling else 0  # x ^ -1 is ~x, which reverses the order and cannot overflow
    bucketed = len(first.bucket) > 0
    begin, stop = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if bucketed:
        for n in range(len(first.bucket)):
            bucket = first.bucket[n]
            if stop[bucket] == 0:
                begin[bucket] = n
            stop[bucket] = n + 1
    else:
        stop[0] = len(first.code)
    total = np.full(len(out), zero)
    current, at, end = -1, 0, 0
    for n in range(len(second.code) - 1, -1, -1):
        bucket = second.bucket[n] if bucketed else 0
        if bucket != current:
            current, at, end = bucket, begin[bucket], stop[bucket]
            total[:] = zero
        wanted = second.code[n] ^ flip
        # ``total`` has the values of the events of this number up to ``at``, and of no others.
        while at < end:
            value = first.code[at] ^ flip
            if value > wanted or (value == wanted and not inclusive):
                break
            for k in range(len(total)):
                total[k] = gather(total[k], ahead[first.row[at], k], how.prime)
            at += 1
        _join(total, behind[second.row[n]], how, out)


@jit
def _gather_rows(found: NDArray[Any], out: NDArray[Any], prime: Any) -> None:
    """Adds the rows of ``found`` to ``out``."""
    for row in range(found.shape[0]):
        for k in range(len(out)):
            out[k] = gather(out[k], found[row, k], prime)


@jit
def _count(mask: Ints, variable: int) -> int:
    """Returns how many events a variable may be bound to."""
    found = 0
    for own in mask:
        found += (own >> variable) & 1
    return found


@jit
def _lay_out(events: _Ordered) -> _Laid:
    """Puts events in the order of their places in a tree; those without a place are left out."""
    events = borrowed(events)
    mask, variable, base, position = events.mask, events.variable, events.base, events.position
    row, number = np.full(len(mask), -1, dtype=np.int32), np.empty(len(mask), dtype=np.int32)
    members = 0
    for i in range(len(mask)):
        if (mask[i] >> variable) & 1:
            if position[i] > 0:
                row[base[i] + position[i] - 1] = i
            number[i] = members
            members += 1
    code = np.empty(members, dtype=np.int64)
    bucket = np.empty(members if len(events.bucket) else 0, dtype=np.int64)
    size = 0
    for place in range(len(row)):
        own = row[place]
        if own >= 0:
            # From ``place`` on ``row`` has events; before ``size`` it has the rows of the values laid out already.
            row[size] = number[own]
            code[size] = events.code[events.start + events.step * own]
            if len(bucket):
                bucket[size] = events.bucket[own]
            size += 1
    return _Laid(row[:size], code[:size], bucket[: size if len(bucket) else 0])
