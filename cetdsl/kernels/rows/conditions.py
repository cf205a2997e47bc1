"""Evaluates conditions that depend on the rows that a match has bound so far.

A condition is a program of steps for a stack machine (:class:`~cetdsl.ir.rows.Dependent`). A *set* is the rows that are
bound to some of the variables. A *pick* is one row of a set: the n-th from its first or its last one, or the one with
an *extreme* value. A *total* is a count or a sum over a set. The search binds rows one by one and takes them back, last
first, so all of these are kept for each number of rows of a set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.ir.rows import (
    ABSOLUTE,
    ADD,
    AVERAGE_OF,
    BOTH,
    CONSTANT,
    COUNTED,
    DECIMAL_AVERAGE,
    EITHER,
    EQUAL,
    EXTREME,
    FROM_FIRST,
    IS_NULL,
    LESS,
    LESS_OR_EQUAL,
    MATCH_NUMBER,
    MULTIPLY,
    NEGATE,
    NEITHER,
    REAL,
    REAL_ABSOLUTE,
    REAL_ADD,
    REAL_CELL,
    REAL_DIVIDE,
    REAL_EQUAL,
    REAL_LESS,
    REAL_LESS_OR_EQUAL,
    REAL_MULTIPLY,
    REAL_NEGATE,
    REAL_REMAINDER,
    REAL_SAME,
    REAL_SUBTRACT,
    REMAINDER,
    SAME,
    SUBTRACT,
    TO_REAL,
    UP_TO_LAST,
    WHOLE,
    WHOLE_CELL,
    WHOLE_OF_LABEL,
    WHOLE_SUM,
    Dependent,
)
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.vocabulary import Bools, Floats, Index, Ints
from cetdsl.kernels.wire.columns import integers, order_codes, to_numpy, validity

#: The status of a value on the stack: it is there, it is NULL, or computing it has failed.
_THERE, _NULL, _FAILED = range(3)
#: How many states from which no match was found are remembered at a time.
REMEMBERED = 1 << 16
#: The counters: how many rows have been taken back; the *era*, a number that all searches have in common that share
#: remembered states; the first row of the match, and its number; and how often a remembered state was met again in the
#: current trial.
BACKTRACKED, ERA, BEGIN, NUMBER_OF_MATCH, HELPED = range(5)
#: After so many rows taken back, a trial ends: remembering states helps if one in ``_RARELY`` has been met again. If it
#: does not help, ``_PAUSE`` rows are taken back before the next trial.
_TRIAL, _RARELY, _PAUSE = 1 << 17, 64, 1 << 23
#: Kinds of *sights*, the facts about the bound rows that conditions can see: how many rows a set has, up to a number; a
#: row of it, counted from the first or from the last one; the row with an extreme value; how many values a total has;
#: its sum, of whole numbers or doubles.
_MANY, _FROM_FIRST, _UP_TO_LAST, _BEST, _COUNTED, _WHOLE_SUM, _REAL_SUM = range(7)
#: The answer of a condition: it holds, it does not (or is NULL), or it cannot be computed.
HOLDS, FAILS, CANNOT = range(3)
_SMALLEST = np.iinfo(np.int64).min
#: Products of whole numbers from here on are refused. The test uses doubles, which cannot tell a few larger products
#: that would fit 64 bits from those that do not.
_LARGEST_PRODUCT = 9.2e18
#: The largest sum of decimals, in units of the last digit, of which an average is computed.
_LARGEST_AVERAGED = 400_000_000_000_000
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Conditions(NamedTuple):
    """The arrays of :class:`~cetdsl.ir.rows.Dependent`, and the cells of the rows of a chunk."""

    whole: Ints
    whole_there: Bools
    real: Floats
    real_there: Bools
    sets: Bools
    picks: Ints
    extremes: Ints
    totals: Ints
    #: The steps of variable ``v`` are ``steps[step_start[v]:step_start[v + 1]]``; after those of the last variable come
    #: the steps of the condition for whole matches.
    step_start: Ints
    steps: Ints
    #: All facts about the rows bound so far that conditions can see; see :func:`_sights`.
    sights: Ints
    labelled: Ints
    #: Whether a condition looks at the number of the match.
    counts_matches: bool


class Memory(NamedTuple):
    """The rows that the match on trial has bound so far, with totals and extremes, so that the last can be taken back.

    Of each set, ``many`` is the number of its rows, and ``met`` are the rows. Of each total, for each number of rows of
    its set, there are the sums, how many values were not NULL (``counted``), and whether a sum was ``too_large``. Of
    each extreme, for each number of rows, ``best`` is the row with the extreme value (-1: all values are NULL).
    """

    many: Ints
    met: Ints
    whole_sum: Ints
    real_sum: Floats
    #: The bits of ``real_sum`` as whole numbers.
    real_bits: Ints
    counted: Ints
    too_large: Bools
    best: Ints
    #: The stack of the machine: whole numbers, doubles, and the status of each.
    stack: Ints
    real_stack: Floats
    known: Ints
    #: States from which no match was found: era (0: none), row, position, and the sights. A hash of these is the place,
    #: and a state replaces another one that has the same place.
    fruitless: Ints
    #: See ``BACKTRACKED``, ``ERA``, ``BEGIN``, ``NUMBER_OF_MATCH`` and ``HELPED``.
    counters: Ints
    #: The variable that each row is bound to, if conditions look at it.
    label: Ints


def conditions_of(
    dependent: Dependent, variables: int, rows: int, column: Callable[[int], pa.Array]
) -> tuple[Conditions, Memory]:
    """Returns the arrays of conditions, and a memory for matches of up to ``rows`` rows."""
    whole = np.zeros((len(dependent.whole), rows), dtype=np.int64)
    whole_there = np.ones((len(dependent.whole), rows), dtype=np.bool_)
    coded = [place for place, is_coded in enumerate(dependent.coded) if is_coded]
    if coded:
        whole[coded], whole_there[coded] = order_codes([column(dependent.whole[place]) for place in coded])
    for place, number in enumerate(dependent.whole):
        if place not in coded:
            whole[place], whole_there[place] = integers(column(number)), validity(column(number))
    real = np.zeros((len(dependent.real), rows), dtype=np.float64)
    real_there = np.ones((len(dependent.real), rows), dtype=np.bool_)
    for place, number in enumerate(dependent.real):
        real[place], real_there[place] = to_numpy(column(number)), validity(column(number))
    each_steps = [*dependent.steps, *([()] * (variables - len(dependent.steps))), dependent.final]
    steps = [step for each in each_steps for step in each]
    conditions = Conditions(
        whole,
        whole_there,
        real,
        real_there,
        np.array(dependent.sets, dtype=np.bool_).reshape(len(dependent.sets), variables),
        _table(dependent.picks, 3),
        _table(dependent.extremes, 3),
        _table(dependent.totals, 3),
        np.cumsum([0, *map(len, each_steps)], dtype=np.int64),
        _table(steps, 4),
        _sights(dependent),
        _table(dependent.labelled, 1 + variables),
        any(step[0] == MATCH_NUMBER for step in steps),
    )
    sets, totals, extremes = len(dependent.sets), len(dependent.totals), len(dependent.extremes)
    room = rows + 1 if steps else 1
    real_sum = np.zeros((totals, room), dtype=np.float64)
    memory = Memory(
        np.zeros(sets, dtype=np.int64),
        np.empty((sets, room), dtype=np.int64),
        np.zeros((totals, room), dtype=np.int64),
        real_sum,
        real_sum.view(np.int64),
        np.zeros((totals, room), dtype=np.int64),
        np.zeros((totals, room), dtype=np.bool_),
        np.full((extremes, room), -1, dtype=np.int64),
        np.empty(len(steps) + 1, dtype=np.int64),
        np.empty(len(steps) + 1, dtype=np.float64),
        np.empty(len(steps) + 1, dtype=np.int64),
        np.zeros((REMEMBERED if steps else 1, 3 + len(conditions.sights)), dtype=np.int64),
        np.array([0, 1, 0, 0, 0], dtype=np.int64),
        np.zeros(room if dependent.labelled else 0, dtype=np.int64),
    )
    return conditions, memory


def _sights(dependent: Dependent) -> Ints:
    """Returns the sights, the facts by which conditions can distinguish two ways to bind the same rows.

    The shape is (sights, 3): kind, number and offset. For a pick they are how many rows its set has, and the row itself
    if it is counted from the first one; if it is counted from the last one, all rows that it can still become as more
    rows are bound. For an extreme it is its row, and for a total its count and sums.
    """
    found: dict[tuple[int, int, int], None] = {}
    for kind, number, offset in dependent.picks:
        if kind == EXTREME:
            found[_BEST, number, 0] = None
            continue
        found[_MANY, number, offset + 1] = None
        if kind == FROM_FIRST:
            found[_FROM_FIRST, number, offset] = None
        else:
            found |= {(_UP_TO_LAST, number, place): None for place in range(offset + 1)}
    for number in range(len(dependent.totals)):
        found |= {(kind, number, 0): None for kind in (_COUNTED, _WHOLE_SUM, _REAL_SUM)}
    return _table(list(found), 3)


def _table(rows: object, columns: int) -> Ints:
    table: NDArray[np.int64] = np.array(rows, dtype=np.int64).reshape(-1, columns)
    return table


@inlined
def bind(conditions: Conditions, memory: Memory, variable: Index, row: Index) -> None:
    """Binds a row to a variable."""
    conditions, memory = borrowed(conditions), borrowed(memory)
    if len(memory.label):
        memory.label[row] = variable
    for number in range(len(memory.many)):
        if conditions.sets[number, variable]:
            memory.met[number, memory.many[number]] = row
            memory.many[number] += 1
    for number in range(len(conditions.totals)):
        rows = conditions.totals[number, 1]
        if conditions.sets[rows, variable]:
            _add(conditions, memory, number, memory.many[rows], row)
    for number in range(len(conditions.extremes)):
        rows, column, greatest = (
            conditions.extremes[number, 0],
            conditions.extremes[number, 1],
            conditions.extremes[number, 2],
        )
        if not conditions.sets[rows, variable]:
            continue
        many = memory.many[rows]
        best = memory.best[number, many - 1]
        if conditions.whole_there[column, row]:
            value = conditions.whole[column, row]
            if (
                best < 0
                or (greatest == 1 and value > conditions.whole[column, best])
                or (greatest == 0 and value < conditions.whole[column, best])
            ):
                best = row
        memory.best[number, many] = best


@inlined
def _add(conditions: Conditions, memory: Memory, number: Index, many: Index, row: Index) -> None:
    """Adds a row to a total; it is row number ``many`` of the total's set."""
    kind, column = conditions.totals[number, 0], conditions.totals[number, 2]
    there, added, real_added = True, 0, 0.0
    if kind == REAL:
        there = conditions.real_there[column, row]
        real_added = conditions.real[column, row] if there else 0.0
    elif column >= 0:
        there = conditions.whole_there[column, row]
        added = conditions.whole[column, row] if there else 0
        if kind != WHOLE:
            there, added = added != 0, 0
    before = memory.whole_sum[number, many - 1]
    total = before + added
    memory.whole_sum[number, many] = total
    memory.too_large[number, many] = memory.too_large[number, many - 1] or (before ^ total) & (added ^ total) < 0
    memory.real_sum[number, many] = memory.real_sum[number, many - 1] + real_added
    memory.counted[number, many] = memory.counted[number, many - 1] + there


@inlined
def take_back(conditions: Conditions, memory: Memory, variable: Index) -> None:
    """Takes back the last row that has been bound, which was to this variable."""
    conditions, memory = borrowed(conditions), borrowed(memory)
    for number in range(len(memory.many)):
        if conditions.sets[number, variable]:
            memory.many[number] -= 1


@jit
def _see(conditions: Conditions, memory: Memory, place: Index, position: Index, seen: Ints) -> Index:
    """Writes the state of a search and all sights into ``seen``, and returns the place where it is remembered."""
    seen[0], seen[1], seen[2] = memory.counters[ERA], place, position
    for sight in range(len(conditions.sights)):
        kind, number, offset = conditions.sights[sight]
        value = -1
        if kind == _BEST:
            value = memory.best[number, memory.many[conditions.extremes[number, 0]]]
        elif kind <= _UP_TO_LAST:
            many = memory.many[number]
            if kind == _MANY:
                value = min(many, offset)
            elif offset < many:
                value = memory.met[number, offset if kind == _FROM_FIRST else many - 1 - offset]
        else:
            many = memory.many[conditions.totals[number, 1]]
            if kind == _COUNTED:
                value = 2 * memory.counted[number, many] + memory.too_large[number, many]
            elif kind == _WHOLE_SUM:
                value = memory.whole_sum[number, many]
            else:
                value = memory.real_bits[number, many]
        seen[3 + sight] = value
    mixed = np.uint64(0)
    for value in seen:
        mixed = (mixed ^ np.uint64(value)) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return int(mixed % np.uint64(len(memory.fruitless)))


@inlined
def remembers(memory: Memory, patience: int) -> bool:
    """Whether states are remembered at present.

    They are only after ``patience`` rows have been taken back, and only as long as some are met again, because
    remembering a state takes as long as binding tens of rows. Where a condition compares rows with the first row of
    the match, for example, no state is ever met again.
    """
    counters = memory.counters
    if counters[BACKTRACKED] <= patience:
        return False
    if counters[BACKTRACKED] - patience > _TRIAL:
        helped = bool(counters[HELPED] * _RARELY >= _TRIAL)
        counters[BACKTRACKED] = patience + 1 if helped else patience - _PAUSE
        counters[HELPED] = 0
        return helped
    return True


@jit
def is_fruitless(conditions: Conditions, memory: Memory, place: Index, position: Index, seen: Ints) -> bool:
    """Whether no match was found when the search was in this state before: about to bind a row, after a position.

    ``place`` is the row, and ``position`` the one that the row before it is bound to. ``seen`` is overwritten.
    """
    conditions, memory = borrowed(conditions), borrowed(memory)
    slot = _see(conditions, memory, place, position, seen)
    for column in range(len(seen)):
        if memory.fruitless[slot, column] != seen[column]:
            return False
    memory.counters[HELPED] += 1
    return True


@jit
def remember(conditions: Conditions, memory: Memory, place: Index, position: Index, seen: Ints) -> None:
    """Notes that no match was found from a state; for the arguments see :func:`is_fruitless`."""
    conditions, memory = borrowed(conditions), borrowed(memory)
    memory.fruitless[_see(conditions, memory, place, position, seen)] = seen


@inlined
def _picked(conditions: Conditions, memory: Memory, pick: Index) -> Index:
    """Returns the row of a pick; -1 if its set has no such row."""
    kind, number, offset = conditions.picks[pick, 0], conditions.picks[pick, 1], conditions.picks[pick, 2]
    if kind == FROM_FIRST:
        return int(memory.met[number, offset]) if offset < memory.many[number] else -1
    if kind == UP_TO_LAST:
        many = memory.many[number]
        return int(memory.met[number, many - 1 - offset]) if offset < many else -1
    return int(memory.best[number, memory.many[conditions.extremes[number, 0]]])


@inlined
def _of_label(conditions: Conditions, memory: Memory, number: Index, at: Index, row: Index) -> Index:
    """Returns the column for the variable of a row, where a value depends on that; -1 if the match has not bound it.

    The row is ``at``, moved by as many rows as the value number ``number`` says; ``row`` is the last bound row.
    """
    at += conditions.labelled[number, 0]
    if at < memory.counters[BEGIN] or at > row:
        return -1
    return int(conditions.labelled[number, 1 + memory.label[at]])


@inlined
def _compare(one: float, other: float) -> int:
    """Compares two doubles as Spark orders them: NaN equals NaN and is the largest."""
    if one != one:
        return 0 if other != other else 1
    if other != other or one < other:
        return -1
    return 1 if one > other else 0


@inlined
def says(conditions: Conditions, memory: Memory, variable: Index, row: Index) -> int:
    """Evaluates the condition of a variable for a row that has been bound to it: ``HOLDS``, ``FAILS`` or ``CANNOT``."""
    conditions, memory = borrowed(conditions), borrowed(memory)
    stack, real_stack, known = memory.stack, memory.real_stack, memory.known
    begin, end = conditions.step_start[variable], conditions.step_start[variable + 1]
    if begin == end:
        return HOLDS
    top = -1
    for number in range(begin, end):
        step, pick = conditions.steps[number, 0], conditions.steps[number, 1]
        column, absent = conditions.steps[number, 2], conditions.steps[number, 3]
        if step <= REAL_CELL or step >= WHOLE_OF_LABEL:
            top += 1
            at = row if pick < 0 else _picked(conditions, memory, pick)
            if at >= 0 and step >= WHOLE_OF_LABEL:
                column = _of_label(conditions, memory, column, at, row)
                at = at if column >= 0 else -1
            if at < 0:
                at, column = row, absent
            known[top] = _NULL
            if column >= 0 and step in (WHOLE_CELL, WHOLE_OF_LABEL):
                stack[top] = conditions.whole[column, at]
                known[top] = _THERE if conditions.whole_there[column, at] else _NULL
            elif column >= 0:
                real_stack[top] = conditions.real[column, at]
                known[top] = _THERE if conditions.real_there[column, at] else _NULL
        elif step <= AVERAGE_OF:
            top += 1
            many = memory.many[conditions.totals[pick, 1]]
            counted = memory.counted[pick, many]
            known[top] = _THERE if step == COUNTED or counted else _NULL
            if step == COUNTED:
                stack[top] = counted
            elif step == WHOLE_SUM:
                stack[top] = memory.whole_sum[pick, many]
                if memory.too_large[pick, many]:
                    known[top] = _FAILED
            else:
                total = memory.real_sum[pick, many]
                real_stack[top] = total / counted if step == AVERAGE_OF and counted else total
        elif step == CONSTANT:
            top += 1
            stack[top], known[top] = column, _THERE
        elif step == MATCH_NUMBER:
            top += 1
            stack[top], known[top] = memory.counters[NUMBER_OF_MATCH], _THERE
        elif step == DECIMAL_AVERAGE:
            top += 1
            many = memory.many[conditions.totals[pick, 1]]
            total, counted = memory.whole_sum[pick, many], memory.counted[pick, many]
            _decimal_average(total, counted, memory.too_large[pick, many], top, stack, known)
        elif step == TO_REAL:
            real_stack[top] = float(stack[top])
        elif step == IS_NULL:
            if known[top] != _FAILED:
                stack[top], known[top] = int(known[top] == _NULL), _THERE
        elif step == NEITHER:
            stack[top] = 1 - stack[top]
        elif step in (NEGATE, ABSOLUTE):
            if stack[top] == _SMALLEST and known[top] == _THERE:
                known[top] = _FAILED
            elif step == NEGATE or stack[top] < 0:
                stack[top] = -stack[top]
        elif step == REAL_NEGATE:
            real_stack[top] = -real_stack[top]
        elif step == REAL_ABSOLUTE:
            real_stack[top] = abs(real_stack[top])
        else:
            top -= 1
            _binary(step, top, stack, real_stack, known)
    if known[0] == _FAILED:
        return CANNOT
    return HOLDS if known[0] == _THERE and stack[0] != 0 else FAILS


@inlined
def _decimal_average(total: int, counted: int, too_large: bool, top: Index, stack: Ints, known: Ints) -> None:
    """Divides a sum of decimals, with four more digits after the point; halves are rounded away from zero."""
    known[top] = _THERE if counted else _NULL
    if too_large or abs(total) > _LARGEST_AVERAGED:
        known[top] = _FAILED
    elif counted:
        rounded = (abs(total) * 10_000 * 2 + counted) // (2 * counted)
        stack[top] = rounded if total >= 0 else -rounded


@inlined
def _binary(step: Index, top: Index, stack: Ints, real_stack: Floats, known: Ints) -> None:
    """Replaces the first operand of an operator, at ``top`` of the stack, by the result; the second one is above it."""
    left, right = known[top], known[top + 1]
    one, other = stack[top], stack[top + 1]
    if step in (BOTH, EITHER):
        # False settles AND, and true settles OR, even if the other operand is NULL or has failed.
        settling = 0 if step == BOTH else 1
        if (left == _THERE and one == settling) or (right == _THERE and other == settling):
            stack[top], known[top] = settling, _THERE
        else:
            known[top] = max(left, right)
            stack[top] = 1 - settling
        return
    if step in (SAME, REAL_SAME) and max(left, right) == _NULL:
        stack[top], known[top] = int(left == right), _THERE
        return
    known[top] = max(left, right)
    if known[top] != _THERE:
        return
    if step in (EQUAL, SAME):
        stack[top] = int(one == other)
    elif step == LESS:
        stack[top] = int(one < other)
    elif step == LESS_OR_EQUAL:
        stack[top] = int(one <= other)
    elif step <= REMAINDER:
        _whole_arithmetic(step, top, one, other, stack, known)
    else:
        _real_binary(step, top, real_stack[top], real_stack[top + 1], stack, real_stack, known)


@inlined
def _whole_arithmetic(step: Index, top: Index, one: Index, other: Index, stack: Ints, known: Ints) -> None:
    """Adds, subtracts or multiplies whole numbers, or finds a remainder; a result that does not fit has failed."""
    if step == ADD:
        result = one + other
        wrong = (one ^ result) & (other ^ result) < 0
    elif step == SUBTRACT:
        result = one - other
        wrong = (one ^ other) & (one ^ result) < 0
    elif step == MULTIPLY:
        result = one * other
        wrong = abs(float(one) * float(other)) >= _LARGEST_PRODUCT
    else:
        wrong = other == 0
        result = 0 if wrong else one % other
        if result != 0 and (result ^ one) < 0:
            # As in Java, a remainder has the sign of the dividend.
            result -= other
    stack[top] = result
    if wrong:
        known[top] = _FAILED


@inlined
def _real_binary(
    step: Index, top: Index, one: float, other: float, stack: Ints, real_stack: Floats, known: Ints
) -> None:
    """Computes with doubles, or compares them."""
    if step == REAL_ADD:
        real_stack[top] = one + other
    elif step == REAL_SUBTRACT:
        real_stack[top] = one - other
    elif step == REAL_MULTIPLY:
        real_stack[top] = one * other
    elif step in (REAL_DIVIDE, REAL_REMAINDER):
        if other == 0:
            known[top] = _FAILED
        else:
            real_stack[top] = one / other if step == REAL_DIVIDE else np.fmod(one, other)
    elif step in (REAL_EQUAL, REAL_SAME):
        stack[top] = int(_compare(one, other) == 0)
    elif step == REAL_LESS:
        stack[top] = int(_compare(one, other) < 0)
    elif step == REAL_LESS_OR_EQUAL:
        stack[top] = int(_compare(one, other) <= 0)
