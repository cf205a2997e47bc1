"""Accumulator values as rows of an answer: merging partial results, and the forms that numbers take."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.aggregates.vocabulary import CentralMoment, Extreme, Merge, Quotient
from cetdsl.errors import OF_DOUBLES
from cetdsl.ir.accumulators import EXACT_NUMBERS, Accumulator, Output
from cetdsl.ir.kernel import KernelSpec, is_whole_in_rows
from cetdsl.kernels.numbers.moments import SMALLEST, about_zero, central_moment
from cetdsl.kernels.numbers.scaled import (
    DECIMAL_LIMIT,
    Objects,
    Scaled,
    from_scaled,
    log2_of,
    overflow,
    ratio,
    sum_scaled,
)
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.columns import from_bytes, from_numpy, to_numpy
from cetdsl.kernels.wire.values import ValueColumn

#: ``str`` refuses numbers of more than 4,300 digits.
_STR_LIMIT = 10**4000
#: Describes the group and window of a row of an answer, given its number.
Descriptions = Callable[[int], str]


class Values(NamedTuple):
    """The accumulators' values for each slice."""

    #: Whether there is a trend at all.
    found: Bools
    #: As in `AccumulatorTable`.
    exact: list[Objects | None]
    scaled: list[Scaled]
    #: Per accumulator of an extreme the ranks (from 1) of its column's values, or the lengths; below 1 for none.
    extremes: list[Ints]


class AccumulatorTable(NamedTuple):
    """Accumulator values, one row per group and window that has a trend."""

    #: Per additive accumulator the whole numbers (of the last digit of a decimal), if they are wanted.
    exact: list[Objects | None]
    #: The same rounded, ``mantissa + exponent * 1j``; they stand for the exact ones where there are none.
    scaled: list[Scaled]
    #: Per accumulator of an extreme the values, or lengths; NULL for none.
    extremes: list[pa.Array]

    def take(self, rows: Ints) -> AccumulatorTable:
        """Returns the table that has the given rows alone."""
        return AccumulatorTable(
            [None if accumulator is None else accumulator[rows] for accumulator in self.exact],
            [accumulator[rows] for accumulator in self.scaled],
            [accumulator.take(from_numpy(rows)) for accumulator in self.extremes],
        )


def additive_accumulators(spec: KernelSpec) -> list[Accumulator]:
    """The accumulators that add up."""
    return [accumulator for accumulator in spec.answer.accumulators if accumulator.is_additive]


def extreme_accumulators(spec: KernelSpec) -> list[Accumulator]:
    """The accumulators that keep an extreme."""
    return [accumulator for accumulator in spec.answer.accumulators if not accumulator.is_additive]


def turned(ranks: Ints, values: int) -> Ints:
    """Returns ranks from 1, among ``values`` values, in the opposite order; 0, for none, stays 0."""
    return np.where(ranks > 0, values + 1 - ranks, 0)


def accumulator_table(
    spec: KernelSpec, values: Values, columns: list[ValueColumn], rows: Ints, segment: Ints
) -> AccumulatorTable:
    """Makes a typed table of the accumulators of some slices; row ``r`` is of segment ``segment[r]``."""
    extremes: list[pa.Array] = []
    for accumulator, found in zip(extreme_accumulators(spec), values.extremes, strict=True):
        picked = found[rows]
        if accumulator.is_length:
            extremes.append(from_numpy(picked, picked <= 0))  # where no trend was found, none has a length
            continue
        ranked = columns[accumulator.column].ranks()[1]
        extremes.append(ranked.take(from_numpy(picked - 1, picked <= 0)))
    exact = [None if accumulator is None else accumulator[rows] for accumulator in values.exact]
    scaled = [accumulator[rows] for accumulator in values.scaled]
    for moments in _rounded_moments(spec, exact):
        column = columns[additive_accumulators(spec)[moments[0]].column]
        sums = [scaled[k] if (whole := exact[k]) is None else whole for k in moments]
        for k, total in zip(moments, about_zero(sums, column.deviations(), segment), strict=True):
            exact[k], scaled[k] = total, scaled_integers(total)
    return AccumulatorTable(exact, scaled, extremes)


def _rounded_moments(spec: KernelSpec, exact: list[Objects | None]) -> list[list[int]]:
    """Returns the positions of the moments of each variable and column, unless all of them are whole numbers."""
    groups: dict[tuple[int, int], list[int]] = {}
    for k, accumulator in enumerate(additive_accumulators(spec)):
        if accumulator.update.moment:
            groups.setdefault((accumulator.variable, accumulator.column), []).append(k)
    return [moments for moments in groups.values() if any(exact[k] is None for k in moments)]


def concatenate(tables: list[AccumulatorTable]) -> AccumulatorTable:
    """The rows of several tables, one below the other."""
    first = tables[0]
    exact = [table.exact for table in tables]
    return AccumulatorTable(
        [None if known is None else np.concatenate([one[k] for one in exact]) for k, known in enumerate(first.exact)],
        [np.concatenate([table.scaled[k] for table in tables]) for k in range(len(first.scaled))],
        [pa.concat_arrays([table.extremes[k] for table in tables]) for k in range(len(first.extremes))],
    )


def merge_rows(spec: KernelSpec, table: AccumulatorTable, starts: Ints) -> AccumulatorTable:
    """Adds up neighbouring rows; each group of them begins at one of ``starts``."""
    smallest = [accumulator.update.merge is Merge.SMALLEST for accumulator in extreme_accumulators(spec)]
    return AccumulatorTable(
        [None if accumulator is None else np.add.reduceat(accumulator, starts) for accumulator in table.exact],
        [sum_scaled(accumulator, starts) for accumulator in table.scaled],
        [merge_extremes(values, least, starts) for values, least in zip(table.extremes, smallest, strict=True)],
    )


def merge_extremes(values: pa.Array, smallest: bool, starts: Ints) -> pa.Array:
    """Returns the smallest or largest value of the rows from each of ``starts`` to the next, NULLs left out."""
    ranks, distinct = ValueColumn(values).ranks()
    if smallest:
        ranks = turned(ranks, len(distinct))
    best = np.maximum.reduceat(ranks, starts)
    if smallest:
        best = turned(best, len(distinct))
    return distinct.take(from_numpy(best - 1, best <= 0))


def encode_partial(table: AccumulatorTable) -> list[pa.Array]:
    """Makes columns that carry a table to the merging stage: text for whole numbers, two doubles for scaled ones."""
    columns: list[pa.Array] = []
    for exact, scaled in zip(table.exact, table.scaled, strict=True):
        if exact is not None:
            # Hexadecimal: Python refuses decimal conversions of more than 4,300 digits, and is quadratic there.
            columns.append(from_bytes([b"%x" % int(value) for value in exact], pa.string()))
        else:
            columns += [from_numpy(scaled.real), from_numpy(scaled.imag)]
    return columns + list(table.extremes)


def decode_partial(spec: KernelSpec, columns: list[pa.Array]) -> AccumulatorTable:
    """The inverse of :func:`encode_partial`."""
    exact: list[Objects | None] = []
    scaled: list[Scaled] = []
    position = 0
    for accumulator in additive_accumulators(spec):
        if is_whole_in_rows(spec, accumulator):
            whole = np.array([int(text, 16) for text in columns[position].to_pylist()], dtype=object)
            exact.append(whole)
            scaled.append(scaled_integers(whole))
            position += 1
        else:
            exact.append(None)
            value = to_numpy(columns[position]).astype(np.complex128)
            value.imag = to_numpy(columns[position + 1])
            scaled.append(value)
            position += 2
    return AccumulatorTable(exact, scaled, list(columns[position:]))


def scaled_integers(values: Objects) -> Scaled:
    """Whole numbers of any size as scaled doubles."""
    out = np.zeros(len(values), dtype=np.complex128)
    for row, value in enumerate(values):
        shift = max(int(value).bit_length() - 64, 0)
        mantissa, exponent = np.frexp(float(int(value) >> shift))
        out[row] = complex(mantissa, exponent + shift if mantissa else 0)
    return out


def finish(spec: KernelSpec, table: AccumulatorTable, where: Descriptions) -> list[pa.Array]:
    """Makes the output columns of a table.

    Raises CountOverflow for a count or sum that does not fit its number form; ``where`` describes its row.
    """
    return [_finish_output(spec, output, table, where) for output in spec.answer.outputs]


def _finish_output(spec: KernelSpec, output: Output, table: AccumulatorTable, where: Descriptions) -> pa.Array:
    accumulators = [spec.answer.accumulators[k] for k in output.inputs]
    if isinstance(output.finish, Extreme):
        return table.extremes[extreme_accumulators(spec).index(accumulators[0])]
    additive = additive_accumulators(spec)
    columns = [(table.exact[k], table.scaled[k]) for k in map(additive.index, accumulators)]
    if isinstance(output.finish, Quotient):
        return _average(output, columns)
    if isinstance(output.finish, CentralMoment):
        return _central_moments(output, output.finish, columns)
    return _total(spec, output, columns, where)


_Column = tuple["Objects | None", Scaled]


def _total(spec: KernelSpec, output: Output, columns: list[_Column], where: Descriptions) -> pa.Array:
    exact, scaled = columns[-1]
    present = columns[0][1].real == 0 if len(columns) > 1 else None
    if output.type.startswith(("double", "float")) and spec.answer.accumulators[output.value].update.power:
        return _double_column(output.name, scaled, present, OF_DOUBLES, where)
    scale = decimal_scale(output.type)
    if exact is not None and spec.answer.number in EXACT_NUMBERS:
        return _exact_column(output.name, exact, present, spec.answer.number, scale, where)
    if spec.answer.number == "log2":
        return from_numpy(log2_of(scaled) - scale * np.log2(10), present)
    # Only the mantissa is divided: in units of the last digit, a sum may leave the range of doubles though it fits.
    scaled = scaled.real / 10.0**scale + scaled.imag * 1j
    return _double_column(output.name, scaled, present, spec.answer.number, where)


def decimal_scale(spark_type: str) -> int:
    """The scale of ``decimal(p,s)``; 0 for other types."""
    return int(spark_type[:-1].split(",")[1]) if spark_type.startswith("decimal(") else 0


def _average(output: Output, columns: list[_Column]) -> pa.Array:
    (whole, counts), (exact, scaled) = columns
    none = counts.real == 0
    scale = decimal_scale(output.type)
    if exact is not None and whole is not None:
        # Python divides whole numbers of any size with correct rounding.
        quotients = [0.0 if not w else int(s) / (int(w) * 10**scale) for s, w in zip(exact, whole, strict=True)]
        return from_numpy(np.array(quotients, dtype=np.float64), none)
    with np.errstate(invalid="ignore"):
        return from_numpy(ratio(scaled, counts) / 10.0**scale, none)


def _central_moments(output: Output, finish: CentralMoment, columns: list[_Column]) -> pa.Array:
    *moments, (_, odd) = columns
    is_double = output.type.startswith(("double", "float"))
    unit = Fraction(1, 2**SMALLEST if is_double else 10 ** decimal_scale(output.type))
    values, none = np.zeros(len(odd)), np.zeros(len(odd), dtype=np.bool_)
    for row, sums in enumerate(zip(*(whole for whole, _ in moments if whole is not None), strict=True)):
        count, first, second = map(int, sums)
        none[row] = count <= finish.less
        if not none[row]:
            values[row] = central_moment(count, first, second, unit, finish.less)
    values[odd.real != 0] = np.nan
    return from_numpy(np.sqrt(values) if finish.root else values, none)


def _double_column(name: str, scaled: Scaled, absent: Bools | None, number: str, where: Descriptions) -> pa.Array:
    doubles = from_scaled(scaled)
    beyond = np.isinf(doubles) & np.isfinite(scaled.real)
    if beyond.any():
        row = int(np.argmax(beyond))
        magnitude = float(np.log2(abs(scaled[row].real)) + scaled[row].imag)
        raise overflow(name, where(row), magnitude, number)
    return from_numpy(doubles, absent)


def _exact_column(
    name: str, exact: Objects, absent: Bools | None, number: str, scale: int, where: Descriptions
) -> pa.Array:
    if number == "string":
        return from_bytes([_decimal_text(int(value), scale).encode() for value in exact], pa.string(), absent)
    magnitudes = np.abs(exact) if len(exact) else exact
    if len(exact) and max(magnitudes) >= DECIMAL_LIMIT:
        row = int(np.argmax(magnitudes >= DECIMAL_LIMIT))
        magnitude = math.log2(abs(int(exact[row]))) - scale * math.log2(10)
        raise overflow(name, where(row), magnitude, "decimal", scale)
    kind = pa.decimal128(38, scale)
    if scale == 0 and (len(exact) == 0 or max(magnitudes) < 2**62):
        return from_numpy(exact.astype(np.int64), absent).cast(kind)
    with decimal.localcontext() as context:
        context.prec = 60
        values = [decimal.Decimal(int(value)).scaleb(-scale) for value in exact]
    return pa.array(values, kind, mask=absent)


def _decimal_text(value: int, scale: int) -> str:
    """Writes a whole number of last digits as decimal text, at any size (see :func:`integer_text`)."""
    text = integer_text(abs(value))
    if scale:
        text = text.rjust(scale + 1, "0")
        text = f"{text[:-scale]}.{text[-scale:]}"
    return f"-{text}" if value < 0 else text


def integer_text(value: int) -> str:
    """Writes the decimal digits of a whole number of any size (``str`` refuses more than 4,300 digits)."""
    if value < _STR_LIMIT:
        return str(value)
    half = (value.bit_length() * 30103 // 100000) // 2
    head, tail = divmod(value, 10**half)
    return integer_text(head) + integer_text(tail).rjust(half, "0")
