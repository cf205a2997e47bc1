"""The join of a vertex in some order of its parts, as arrays: what each step binds, where it looks, what it tests.

A *part* is a parent, whose instances bind several slots at once, or a single slot. If a slot precedes, or follows, a
bound slot, the range of its candidates' positions is narrowed accordingly. If columns must equal those of bound slots,
candidates (events or instances of a parent) are looked up by these values. A tree of extremes answers the first
comparison by order: it finds the next candidate for which the comparison holds. All other conditions are tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from cetdsl.ir.slots import Compared, Demands, Gap
from cetdsl.ir.transitions import ORDERS
from cetdsl.kernels.machine.lookups import LARGEST
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Ints
from cetdsl.pattern.expressions import MIRRORED

#: Tests beyond the comparisons of :data:`~cetdsl.kernels.machine.program.OPERATORS`: one event is before the other;
#: both have different instants; the event fits into a class of slots; no event lies in a gap.
BEFORE, APART, FITS, EMPTY = 6, 7, 8, 9
#: How a bound slot narrows the range of a part: the part's event is behind the slot's, before it, or the same.
BEHIND, AHEAD, SAME = 0, 1, 2
#: The columns of ``Program.step``: whether the part is a parent; the numbers in a row of its instances; whether
#: candidates are looked up by value; the operator that the tree answers (-1: none), with the bound slot and its column;
#: and where the following begin and end: the slots of the part, what narrows its range, its equal values, its tests.
IS_PARENT, WIDTH, INDEXED, ORDER, ORDER_SLOT, ORDER_COLUMN = range(6)
SLOTS, SLOTS_END, NARROWED, NARROWED_END, EQUAL, EQUAL_END, TESTS, TESTS_END, FIELDS = range(6, 15)


class Program(NamedTuple):
    """The steps of a join."""

    #: Shape (steps, FIELDS), by the columns above.
    step: Ints
    #: The slots of each part, and 1 where the slot is bound already; shape (n, 2).
    slot: Ints
    #: A bound slot and how it narrows a range; shape (n, 2).
    narrow: Ints
    #: The place in an instance (0 for an event), its column, a bound slot, and the slot's column, whose values must be
    #: equal; shape (n, 4).
    equal: Ints
    #: Operator, slot, column, other slot, other column; for FITS the first column is the class, and for EMPTY the gap;
    #: shape (n, 5).
    test: Ints
    #: For each gap, positions in ``gap_slot``: where the slots before the gap begin, where the slots behind it begin,
    #: and where these end; shape (gaps, 3).
    gap: Ints
    gap_slot: Ints


class Lookup(NamedTuple):
    """The values by which the candidates of a step are looked up, at places in an instance (0 for an event).

    ``equal`` has the places and columns, in the order in which candidates are sorted by them. ``ordered`` is the place
    and the column of the tree, which is over the ``largest`` values or the smallest.
    """

    equal: tuple[tuple[int, int], ...]
    ordered: tuple[int, int] | None
    largest: bool


@attrs.frozen
class Given:
    """A parent of a vertex: the slots of the vertex that it binds, the demands that it ensures, and their classes."""

    slots: tuple[int, ...]
    known: Demands
    classes: tuple[int, ...]
    #: The slot, in the vertex, that always has the parent's first event; -1: there is no such slot.
    first: int


def given_by(slots: tuple[int, ...], demands: Demands, classes: tuple[int, ...]) -> Given:
    """Returns the parent whose slots are these of the child, as a given part."""
    number = dict(enumerate(slots))
    turned = Demands(
        demands.slots,
        frozenset((number[a], number[b]) for a, b in demands.before),
        frozenset((min(number[a], number[b]), max(number[a], number[b])) for a, b in demands.apart),
        frozenset(_turned(one, number) for one in demands.compared),
        frozenset(
            Gap(gap.fits, frozenset(number[a] for a in gap.after), frozenset(number[b] for b in gap.before))
            for gap in demands.gaps
        ),
        demands.length,
    )
    ahead = [a for a in range(len(slots)) if all(a == b or (a, b) in demands.before for b in range(len(slots)))]
    return Given(slots, turned, classes, slots[ahead[0]] if ahead else -1)


def _turned(one: Compared, number: dict[int, int]) -> Compared:
    slot, other = number[one.slot], number[one.other]
    if slot < other:
        return Compared(one.op, slot, one.column, other, one.other_column)
    return Compared(MIRRORED[one.op], other, one.other_column, slot, one.column)


def lay_out_join(
    demands: Demands, classes: Sequence[int], gaps: Sequence[Gap], parts: Sequence[Given | int]
) -> tuple[Program, tuple[Lookup | None, ...]]:
    """Lays out a join of parts, parents or slots, in this order.

    Returns
    -------
    Program
    tuple of Lookup or None
        For each step the values that it looks candidates up by, if it does.
    """
    laid = _Laid(demands, classes, gaps)
    for number, part in enumerate(parts):
        laid.add(part, last=number == len(parts) - 1)
    return laid.program(), tuple(laid.lookups)


class _Laid:
    def __init__(self, demands: Demands, classes: Sequence[int], gaps: Sequence[Gap]) -> None:
        self.demands, self.classes, self.gaps = demands, classes, gaps
        self.bound: set[int] = set()
        self.steps: list[list[int]] = []
        self.slots: list[tuple[int, int]] = []
        self.narrow: list[tuple[int, int]] = []
        self.tests: list[tuple[int, int, int, int, int]] = []
        self.equal: list[tuple[int, int, int, int]] = []
        self.lookups: list[Lookup | None] = []
        self.judged: set[Gap] = set()
        # The demands between two slots, by slot, so that a step only visits those of its own slots.
        self.before = _by_slot(sorted(demands.before))
        self.apart = _by_slot([(a, b) for a, b in sorted(demands.apart) if not {(a, b), (b, a)} & demands.before])
        self.compared = sorted(demands.compared, key=repr)

    def add(self, part: Given | int, last: bool) -> None:
        """Adds a step that binds a part."""
        own = part.slots if isinstance(part, Given) else (part,)
        new = [slot for slot in own if slot not in self.bound]
        step = [0] * FIELDS
        step[IS_PARENT], step[WIDTH], step[ORDER] = isinstance(part, Given), len(own) + 1, -1
        step[SLOTS], step[NARROWED], step[EQUAL], step[TESTS] = self._laid()
        self.slots += [(slot, slot in self.bound) for slot in own]
        known = part.known if isinstance(part, Given) else None
        if isinstance(part, Given):
            self._narrow_parent(part)
            fitting = zip(part.slots, part.classes, strict=True)
            self.tests += [(FITS, s, self.classes[s], s, 0) for s, its in fitting if self.classes[s] != its]
        else:
            self._narrow_slot(part)
        answered = self._look_up(own, step)
        self.bound.update(own)
        self.tests += self._tests(new, known, answered, last)
        step[SLOTS_END], step[NARROWED_END], step[EQUAL_END], step[TESTS_END] = self._laid()
        self.steps.append(step)

    def _laid(self) -> tuple[int, int, int, int]:
        """Returns the lengths so far of the lists that have a begin and an end for each step."""
        return len(self.slots), len(self.narrow), len(self.equal), len(self.tests)

    def _look_up(self, own: Sequence[int], step: list[int]) -> set[Compared]:
        """Chooses the values by which a step's candidates are looked up; returns the comparisons that this answers."""
        place = {slot: number for number, slot in enumerate(own)}
        equal: dict[tuple[int, int], Compared] = {}
        ordered: Compared | None = None
        for told in self.compared:
            for one in (told, _mirrored(told)):
                if one.slot in place and one.slot not in self.bound and one.other in self.bound - set(own):
                    if one.op == "=":
                        equal.setdefault((place[one.slot], one.column), one)
                    elif one.op in ORDERS and ordered is None:
                        ordered = one
        self.equal += [(*key, one.other, one.other_column) for key, one in sorted(equal.items())]
        step[INDEXED] = bool(equal) or ordered is not None
        if ordered is not None:
            step[ORDER], step[ORDER_SLOT], step[ORDER_COLUMN] = (
                OPERATORS[ordered.op],
                ordered.other,
                ordered.other_column,
            )
        over = None if ordered is None else (place[ordered.slot], ordered.column)
        lookup = Lookup(tuple(sorted(equal)), over, step[ORDER] >= LARGEST)
        self.lookups.append(lookup if step[INDEXED] else None)
        answered = {*equal.values(), *([] if ordered is None else [ordered])}
        return answered | set(map(_mirrored, answered))

    def _narrow_slot(self, slot: int) -> None:
        for a, b in self.before.get(slot, ()):
            other = a if b == slot else b
            if other in self.bound:
                self.narrow.append((other, BEHIND if b == slot else AHEAD))

    def _narrow_parent(self, part: Given) -> None:
        """Narrows a parent's instances by the position of their first event, in whose order they are."""
        for other in sorted(self.bound):
            if other == part.first:
                self.narrow.append((other, SAME))
            elif any((slot, other) in self.demands.before for slot in part.slots):
                self.narrow.append((other, AHEAD))
            elif all((other, slot) in self.demands.before for slot in part.slots):
                self.narrow.append((other, BEHIND))

    def _tests(
        self, new: Sequence[int], known: Demands | None, answered: set[Compared], last: bool
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Yields the tests of newly bound slots that are neither known nor answered by range, values or tree."""
        # For a single slot, the range of positions ensures the order in time.
        if known is not None:
            for a, b in self._due(self.before, new):
                if (a, b) not in known.before:
                    yield BEFORE, a, 0, b, 0
        for a, b in self._due(self.apart, new):
            if known is None or (a, b) not in known.apart:
                yield APART, a, 0, b, 0
        for one in self.compared:
            slots = {one.slot, one.other}
            is_due = slots <= self.bound and not slots.isdisjoint(new)
            if is_due and one not in answered and one not in (known.compared if known else ()):
                yield OPERATORS[one.op], one.slot, one.column, one.other, one.other_column
        for number, gap in enumerate(self.gaps):
            mentioned = gap.after | gap.before
            closed = bool(gap.after and gap.before)
            if gap in self.judged or not (mentioned <= self.bound if closed else last):
                continue
            self.judged.add(gap)
            if known is None or gap not in known.gaps:
                yield EMPTY, 0, number, 0, 0

    def _due(self, pairs: Mapping[int, Sequence[tuple[int, int]]], new: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Returns the pairs with one slot that has just been bound and another one that is bound."""
        bound = self.bound
        return dict.fromkeys(
            pair for slot in new for pair in pairs.get(slot, ()) if pair[0] in bound and pair[1] in bound
        )

    def program(self) -> Program:
        """Returns the steps so far."""
        places: list[int] = []
        gaps = []
        for gap in self.gaps:
            begin = len(places)
            places += sorted(gap.after)
            middle = len(places)
            places += sorted(gap.before)
            gaps.append((begin, middle, len(places)))
        return Program(
            _table(self.steps, FIELDS),
            _table(self.slots, 2),
            _table(self.narrow, 2),
            _table(self.equal, 4),
            _table(self.tests, 5),
            _table(gaps, 3),
            np.array(places, dtype=np.int64),
        )


def _table(rows: Sequence[Sequence[int]], columns: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)


def _by_slot(pairs: Sequence[tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        for slot in pair:
            found.setdefault(slot, []).append(pair)
    return found


def _mirrored(one: Compared) -> Compared:
    return Compared(MIRRORED[one.op], one.other, one.other_column, one.slot, one.column)
