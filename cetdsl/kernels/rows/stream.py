"""Matches rows in a stream of Arrow batches; see :class:`~cetdsl.ir.rows.MatchSpec`.

Only the rows from which the search for the next match goes on are kept from one chunk to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.errors import (
    DECIMAL_TOO_LARGE_ADVICE,
    SUM_TOO_LARGE,
    SUM_TOO_LARGE_ADVICE,
    CountOverflow,
    EngineError,
    NullTime,
)
from cetdsl.ir.rows import (
    ACCEPT,
    COUNT,
    GREATEST,
    LABEL,
    LEAST,
    LIST,
    MEAN,
    NUMBER,
    OMIT_EMPTY,
    ONE_ROW,
    ROW,
    SUM,
    UNMATCHED,
    Dependent,
    MatchSpec,
    Slot,
)
from cetdsl.kernels.rows.conditions import conditions_of
from cetdsl.kernels.rows.neighbours import with_neighbours
from cetdsl.kernels.rows.program import Program, program_of
from cetdsl.kernels.rows.reach import lengths_all, reach_all
from cetdsl.kernels.rows.slots import (
    count_rows,
    extremes,
    list_labels,
    navigate,
    navigate_to_end,
    rows_of_labels,
    rows_to_show,
    sum_doubles,
    sum_integers,
)
from cetdsl.kernels.rows.walk import (
    AT_ROW,
    CANNOT_SAY,
    COVERED,
    FULL,
    MATCHES,
    NEEDS_MORE,
    NO_ROW_TO_SKIP_TO,
    SEGMENT,
    SKIPS_TO_START,
    TOO_MANY_STEPS,
    Asked,
    Effort,
    Found,
    find_matches,
)
from cetdsl.kernels.vocabulary import Bools, Ints, Places
from cetdsl.kernels.wire.chunks import Pending
from cetdsl.kernels.wire.columns import (
    as_array,
    differs_from_previous,
    from_bytes,
    from_numpy,
    from_unscaled,
    integers,
    limbs_of,
    order_codes,
    python_value,
    to_numpy,
    truths,
    unscaled_integers,
    validity,
)
from cetdsl.kernels.wire.order import in_order
from cetdsl.kernels.wire.parcels import events_of_parcels

#: The most rows of a chunk.
CHUNK_ROWS = 131_072
#: The most bytes that the sets of positions of a chunk may take.
SET_BYTES = 64 << 20
#: A search that has taken back as many rows as ``patience`` has met more than rows that just do not match.
EFFORT = Effort(patience=1 << 20, steps=1 << 28)
_NEVER = 1 << 62
_Columns = Iterator[list[pa.Array]]
_NO_CONDITIONS = Dependent((), (), (), (), (), (), (), ())


def match_stream(
    spec: MatchSpec, batches: Iterator[pa.RecordBatch], chunk_rows: int = CHUNK_ROWS, effort: Effort = EFFORT
) -> _Columns:
    """Yields the matches, or their rows, of the partitions of a stream."""
    yield from _Matcher(spec, chunk_rows, effort).answer(batches)


class _Matcher:
    """Finds matches chunk by chunk."""

    def __init__(self, spec: MatchSpec, chunk_rows: int, effort: Effort) -> None:
        if spec.dependent is not None and spec.dependent.labelled:
            # Conditions may then see the variables of many rows, so that hardly any state would be met again.
            effort = effort._replace(patience=_NEVER)
        self._spec, self._program, self._effort = spec, program_of(spec.arrows), effort
        set_bytes = 16 * self._program.behind.shape[1] + (4 * len(self._program.variable) if spec.longest else 0)
        self._chunk_rows = max(1, min(chunk_rows, SET_BYTES // set_bytes))
        # For the partition in which a chunk ends: the cursor, which counts rows from the first one that is kept, and
        # whether other rows of the partition came before that.
        self._cursor = np.zeros(4, dtype=np.int64)
        self._inside = False
        self._last_number = 0

    def answer(self, batches: Iterator[pa.RecordBatch]) -> _Columns:
        spec = self._spec
        if spec.in_parcels:
            batches = events_of_parcels(0, batches)
        if spec.order is not None:
            batches = in_order(spec.order, batches)
        batches = self._timed(batches)
        if spec.neighbours is not None:
            batches = with_neighbours(spec.neighbours, len(spec.keys), batches)
        pending = Pending(self._chunk_rows)
        for batch in batches:
            pending.add(batch)
            if pending.is_enough:
                chunk = _Chunk(self._spec, pa.Table.from_batches(pending.batches))
                pending.keep([])
                yield from self._matches(chunk, last_is_open=True)
                pending.keep([batch for batch in chunk.rest(self._keep).to_batches() if batch.num_rows])
        if pending.batches:
            yield from self._matches(_Chunk(self._spec, pa.Table.from_batches(pending.batches)), last_is_open=False)

    def _timed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches that have rows. Raises if rows have no time; such rows come first, and in one task."""
        spec, untimed = self._spec, 0
        for batch in batches:
            if spec.counts_untimed and batch.num_rows:
                time = batch.column(spec.time)
                untimed += time.null_count
                if not time[-1].is_valid:
                    continue  # more rows without a time may come, which the error is to count
                NullTime.refuse_rows(untimed, spec.time_name)
            if batch.num_rows:
                yield batch
        NullTime.refuse_rows(untimed, spec.time_name)

    def _matches(self, chunk: _Chunk, last_is_open: bool) -> _Columns:
        spec, program, count = self._spec, self._program, chunk.count
        self._check_order(chunk)
        sure, possible = np.empty((2, count, program.behind.shape[1]), dtype=np.uint64)
        reach_all(program, chunk.tests, chunk.segment_start, last_is_open, sure, possible)
        most = np.empty((count if spec.longest else 0, len(program.variable)), dtype=np.int32)
        if spec.longest:
            lengths_all(program, chunk.tests, chunk.segment_start, last_is_open, most)
        asked = Asked(
            chunk.time,
            spec.span,
            spec.skip,
            np.array(spec.skip_members, dtype=np.bool_),
            spec.output == UNMATCHED,
            self._inside,
            last_is_open,
            most,
            self._effort,
        )
        room = 2 * count  # so that there is room for a match of all rows after other matches
        start, end, number = np.empty((3, count), dtype=np.int64)
        found = Found(start, end, number, np.empty(count + 1, dtype=np.int64), np.empty(room, dtype=np.int32))
        conditions, memory = conditions_of(
            spec.dependent or _NO_CONDITIONS, len(spec.arrows.names), count, chunk.column
        )
        status = FULL
        while status == FULL:
            status, many = find_matches(
                program,
                chunk.tests,
                asked,
                chunk.segment_start,
                sure,
                possible,
                self._cursor,
                found,
                conditions,
                memory,
            )
            if many and status not in (CANNOT_SAY, TOO_MANY_STEPS):
                yield from _answer(spec, program, chunk, found, many)
        if status in (NO_ROW_TO_SKIP_TO, SKIPS_TO_START):
            raise self._cannot_skip(chunk, status)
        if status == CANNOT_SAY:
            raise self._cannot_say(chunk, int(found.position[0]))
        if status == TOO_MANY_STEPS:
            raise self._gives_up(chunk)
        if last_is_open:
            self._carry(chunk, status == NEEDS_MORE)

    def _carry(self, chunk: _Chunk, stuck: bool) -> None:
        """Keeps the rows from which the search goes on, and at least the last row, to recognise its partition."""
        cursor, count = self._cursor, chunk.count
        self._keep = min(int(cursor[AT_ROW]), count - 1)
        self._inside = self._keep > chunk.segment_start[-2] or (self._inside and len(chunk.segment_start) == 2)
        cursor[SEGMENT] = 0
        cursor[AT_ROW] -= self._keep
        cursor[COVERED] = max(0, cursor[COVERED] - self._keep)
        if chunk.number is not None:
            self._last_number = int(chunk.number[self._keep]) - 1

    def _check_order(self, chunk: _Chunk) -> None:
        """Raises unless the rows of each partition come in the order in which Spark has numbered them."""
        if chunk.number is None:
            return
        due = np.ones(chunk.count, dtype=np.int64)
        due[1:] = chunk.number[:-1] + 1
        due[chunk.segment_start[:-1]] = 1
        if self._inside:
            due[0] = self._last_number + 1
        if (due != chunk.number).any():
            raise EngineError(
                "the rows of a partition did not arrive in their order",
                hint="this is a defect of cetdsl or of the Spark version; please report it with the physical plan",
            )

    def _cannot_say(self, chunk: _Chunk, position: int) -> EngineError:
        key, names = self._key(chunk), self._spec.arrows.names
        variable = self._program.variable[position]
        whose = "a whole match" if position == ACCEPT else names[variable]
        spans = self._spec.pointed.definitions
        return self._pointing(
            f"the condition of {whose} divides by zero, or a number in it does not fit BIGINT"
            + (f", in partition {key}" if key else ""),
            "guard it with AND, or cast the numbers to DOUBLE",
            spans[variable] if spans and position != ACCEPT else (0, 0),
        )

    def _pointing(self, message: str, hint: str, span: tuple[int, int]) -> EngineError:
        """Returns an error that points at a part of the clause, if the text of the clause is known."""
        if span == (0, 0) or not self._spec.pointed.text:
            return EngineError(message, hint=hint)
        return EngineError(message, hint=hint, span=span, text=self._spec.pointed.text)

    def _gives_up(self, chunk: _Chunk) -> EngineError:
        key = self._key(chunk)
        return EngineError(
            f"match {self._cursor[MATCHES] + 1}" + (f" of partition {key}" if key else "") + " was not found in"
            f" {self._effort.steps:,} steps: rows can be bound in so many ways that conditions tell apart",
            hint="let conditions see less of the match, such as LAST(A.x) in place of SUM(A.x), give variables"
            " conditions that exclude each other, limit quantifiers, or write WITHIN",
        )

    def _key(self, chunk: _Chunk) -> dict[str, Any]:
        row = int(chunk.segment_start[int(self._cursor[SEGMENT])])
        columns = map(as_array, chunk.table.columns)
        return {name: python_value(column, row) for name, column in zip(self._spec.keys, columns)}

    def _cannot_skip(self, chunk: _Chunk, status: int) -> EngineError:
        spec, key = self._spec, self._key(chunk)
        where = f"match {self._cursor[MATCHES]}" + (f" of partition {key}" if key else "")
        names = dict.fromkeys(name for name, asked in zip(spec.arrows.names, spec.skip_members) if asked)
        if status == SKIPS_TO_START:
            return self._pointing(
                f"AFTER MATCH SKIP TO {' or '.join(names)} goes to the first row of {where}, so that the search would"
                " never end",
                "skip to a variable that stands behind another one, or write SKIP TO NEXT ROW",
                spec.pointed.skip,
            )
        return self._pointing(
            f"AFTER MATCH SKIP TO {' or '.join(names)} has no row to go to: {where} has none that is bound to it",
            "skip to a variable that every match binds, or write SKIP PAST LAST ROW",
            spec.pointed.skip,
        )


class _Chunk:
    """Consecutive rows of the stream."""

    def __init__(self, spec: MatchSpec, table: pa.Table) -> None:
        self.table, self.count = table, table.num_rows
        keys = [as_array(table.column(number)) for number in range(len(spec.keys))]
        changes = differs_from_previous(keys, self.count)
        self.segment_start: Ints = np.append(np.nonzero(changes)[0], self.count).astype(np.int64)
        self.tests: Ints = np.zeros((len(spec.words), self.count), dtype=np.int64)
        for word, number in enumerate(spec.words):
            self.tests[word] = integers(self.column(number))
        self.number = integers(self.column(spec.number)) if spec.number >= 0 else None
        self.time = np.zeros(0, dtype=np.int64)
        if spec.time >= 0 and spec.span >= 0:
            time = self.column(spec.time)
            if time.null_count:
                raise NullTime(
                    f"the column {spec.time_name!r}, which WITHIN goes by, is NULL in some row",
                    hint="leave these rows out first: df.where(column IS NOT NULL)",
                )
            self.time = -integers(time) if spec.descending else integers(time)

    def column(self, number: int) -> pa.Array:
        return as_array(self.table.column(number))

    def rest(self, begin: int) -> pa.Table:
        """Returns the rows from one on, without keeping those before it in memory."""
        return self.table.slice(begin).combine_chunks() if begin < self.count // 2 else _copied(self.table, begin)


def _copied(table: pa.Table, begin: int) -> pa.Table:
    rows = np.arange(begin, table.num_rows)
    return pa.Table.from_batches(table.take(from_numpy(rows)).combine_chunks().to_batches(), table.schema)


def _answer(spec: MatchSpec, program: Program, chunk: _Chunk, found: Found, many: int) -> _Columns:
    """Yields the columns of the answer for some matches."""
    rows = rows_of_labels(found, many)
    ends = found.label[1 : many + 1] - 1
    last = np.where(found.label[:many] <= ends, ends, -1)
    if spec.output == ONE_ROW:
        shown, matches, labels = found.start[:many], np.arange(many), last
    else:
        shown, matches, labels = rows_to_show(found, many, program.excluded, spec.output != OMIT_EMPTY)
    if not len(shown):
        return
    answer = _Answer(program, chunk, found, many, rows, matches, labels, last[matches])
    taken = from_numpy(shown)
    columns = [chunk.column(number).take(taken) for number in spec.shown]
    for slot in spec.slots:
        try:
            columns.append(answer.slot(slot, spec.arrows.names))
        except CountOverflow as error:
            error.span, error.text = slot.span, spec.pointed.text
            raise
    yield columns


class _Answer:
    """The rows that the answer shows of some matches.

    ``rows`` are the rows of all labels. Of each shown row, there are its match, its label, and the last label of its
    match (-1: none).
    """

    def __init__(
        self,
        program: Program,
        chunk: _Chunk,
        found: Found,
        many: int,
        rows: Ints,
        matches: Ints,
        labels: Ints,
        last: Ints,
    ) -> None:
        self._program, self._chunk, self._many = program, chunk, many
        self._label, self._position = found.label, found.position
        self._rows, self._matches, self._labels, self._last = rows, matches, labels, last
        self._number = found.number[matches]

    def slot(self, slot: Slot, names: tuple[str, ...]) -> pa.Array:
        """Returns one column of the answer."""
        if slot.kind == NUMBER:
            return from_numpy(self._number, self._number == 0)
        members = np.array(slot.members, dtype=np.bool_)[self._program.variable]
        until = self._labels if slot.running else self._last
        column, rows = self._given(slot)
        bound = (self._label, self._many, self._position, members)
        if slot.kind == ROW:
            if slot.running:
                label = _at(navigate(*bound, slot.first, slot.offset), until, -1)
            else:
                label = navigate_to_end(*bound, slot.first, slot.offset)[self._matches]
            return self._values(column, rows, self._neighbours(label, slot.move), names)
        if slot.kind == COUNT:
            counted = truths(column) if column is not None else np.ones(self._chunk.count, dtype=np.bool_)
            # The count is 0 for an empty match, and NULL for a row in no match.
            return from_numpy(_at(count_rows(*bound, rows, counted), until, 0), self._number == 0)
        if slot.kind == LIST:
            return self._list(column, rows, members, until, names)
        assert column is not None, slot
        if slot.decimal is not None:
            return self._decimals(slot, column, (*bound, rows), until)
        if slot.kind == SUM:
            return self._sum(column, (*bound, rows), until)
        assert slot.kind in (LEAST, GREATEST), slot
        codes, valid = order_codes([column])
        best = extremes(*bound, rows, codes[0], valid[0], slot.kind == GREATEST)
        return self._values(column, rows, _at(best, until, -1), names)

    def _given(self, slot: Slot) -> tuple[pa.Array | None, Ints]:
        """Returns the values that a slot looks at (None: labels), and the place of each bound row among them."""
        if not slot.columns:
            return None if slot.column == LABEL else self._chunk.column(slot.column), self._rows
        # The columns are joined one after the other; each row looks at the one for its variable.
        columns = list(dict.fromkeys(column for column in slot.columns if column >= 0))
        behind = [self._chunk.count * columns.index(column) if column >= 0 else 0 for column in slot.columns]
        variable = self._program.variable[self._position[: len(self._rows)]]
        rows = self._rows + np.array(behind, dtype=np.int64)[variable]
        return pa.concat_arrays(list(map(self._chunk.column, columns))), rows

    def _neighbours(self, label: Ints, move: int) -> Ints:
        """Returns the labels of the rows ``move`` rows after others; -1 where the match has no such row."""
        if not move:
            return label
        low, high = self._label[self._matches], self._label[self._matches + 1]
        return np.where((label >= 0) & (label + move >= low) & (label + move < high), label + move, -1)

    def _sum(self, column: pa.Array, bound: tuple[Ints, int, Places, Bools, Ints], until: Ints) -> pa.Array:
        values = to_numpy(column)
        counts = _at(count_rows(*bound, validity(column)), until, 0)
        if pa.types.is_floating(column.type):
            return from_numpy(_at(sum_doubles(*bound, values), until, 0.0), counts == 0)
        sums, right = sum_integers(*bound, values)
        if not right:
            raise CountOverflow(SUM_TOO_LARGE, hint=SUM_TOO_LARGE_ADVICE)
        return from_numpy(_at(sums, until, 0), counts == 0)

    def _decimals(
        self, slot: Slot, column: pa.Array, bound: tuple[Ints, int, Places, Bools, Ints], until: Ints
    ) -> pa.Array:
        """Returns sums or averages of decimals, rounded as Spark does."""
        assert slot.decimal is not None, slot
        add = self._add_distinct_decimals if slot.distinct else self._add_decimals
        totals, counts = add(column, bound, until)
        digits, scale = slot.decimal
        if slot.kind == MEAN:
            unit = 10 ** (scale - column.type.scale)
            totals = [_quotient(total * unit, count) if count else 0 for total, count in zip(totals, counts)]
        if any(abs(total) >= 10**digits for total in totals):
            name = "AVG" if slot.kind == MEAN else "SUM"
            raise CountOverflow(
                f"{name} over the rows of a match does not fit DECIMAL({digits}, {scale})",
                hint=DECIMAL_TOO_LARGE_ADVICE,
            )
        return from_unscaled(totals, np.array(counts) == 0, pa.decimal128(digits, scale))

    @staticmethod
    def _add_decimals(
        column: pa.Array, bound: tuple[Ints, int, Places, Bools, Ints], until: Ints
    ) -> tuple[list[int], list[int]]:
        """Returns the sums of decimals, in units of their last digit, and how many values each adds up."""
        counts = _at(count_rows(*bound, validity(column)), until, 0)
        # Each limb is summed by itself: 64 bits hold a sum of 2**31 limbs, and a chunk has fewer rows.
        limbs = [_at(sum_integers(*bound, limb)[0], until, 0).tolist() for limb in limbs_of(column)]
        totals = [sum(limb << 32 * place for place, limb in enumerate(each)) for each in zip(*limbs)]
        return totals, counts.tolist()

    def _add_distinct_decimals(
        self, column: pa.Array, bound: tuple[Ints, int, Places, Bools, Ints], until: Ints
    ) -> tuple[list[int], list[int]]:
        """Returns the sums of the distinct decimals, in units of their last digit, and how many values each adds up."""
        label, _, position, members, rows = bound
        start, labels = list_labels(label, position, members, rows, validity(column), self._matches, until)
        values = [int(value) for value in unscaled_integers(column)]
        listed = [values[row] for row in rows[labels]]
        sets = [set(listed[begin:end]) for begin, end in pairwise(start)]
        return [sum(each) for each in sets], [len(each) for each in sets]

    def _values(self, column: pa.Array | None, rows: Ints, label: Ints, names: tuple[str, ...]) -> pa.Array:
        """Returns the values of the rows of some labels; NULL where a label is -1."""
        absent = label < 0
        if column is None:
            variable = _at(self._program.variable[self._position[: len(self._rows)]], label, 0)
            return from_bytes([name.encode() for name in names], pa.string()).take(from_numpy(variable, absent))
        return column.take(from_numpy(_at(rows, label, 0), absent))

    def _list(
        self, column: pa.Array | None, rows: Ints, members: Bools, until: Ints, names: tuple[str, ...]
    ) -> pa.Array:
        valid = np.ones(self._chunk.count, dtype=np.bool_) if column is None else validity(column)
        start, labels = list_labels(self._label, self._position, members, rows, valid, self._matches, until)
        if start[-1] >= 2**31:
            raise MemoryError("the lists of a chunk exceed what one Arrow array can hold")
        values = self._values(column, rows, labels, names)
        # A row in no match has no list.
        absent = self._number == 0
        buffers = from_numpy(start[:-1], absent).buffers()[0] if absent.any() else None
        offsets = pa.py_buffer(start.astype(np.int32))
        return pa.ListArray.from_buffers(pa.list_(values.type), len(until), [buffers, offsets], children=[values])


def _quotient(dividend: int, divisor: int) -> int:
    """Returns the whole number nearest to a quotient; halves are rounded away from zero."""
    nearest = (2 * abs(dividend) + divisor) // (2 * divisor)
    return nearest if dividend >= 0 else -nearest


def _at(values: NDArray[Any], label: Ints, absent: float) -> NDArray[Any]:
    """Returns the values at some labels, and ``absent`` where a label is -1."""
    if not len(values):
        return np.full(len(label), absent, dtype=values.dtype)
    return np.where(label >= 0, values[label], values.dtype.type(absent))
