"""Sums as Spark columns: of whole numbers and decimals, exact at any size, and of doubles.

Spark's own sums have at most 38 digits, and its additions of decimals may round digits behind the sixth one after the
point. Here a sum consists of two *parts*, which are added up separately, first over the values of an array and then
over rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

import attrs
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.errors import CountOverflow
from cetdsl.execution.expressions import of_first, raised, unscaled

#: The two parts of a sum.
Parts = tuple[Column, Column]
#: The number of digits of the lower part of a whole number, and the most of the upper part, so that 10^19 numbers can
#: be added up.
_DIGITS = 19
_BASE = Decimal(10**_DIGITS)
_WHOLE = "decimal(38,0)"
#: Doubles multiplied by this can be added up without overflow, more of them than any computer holds.
_SMALL = 2.0**-128


class Sum(Protocol):
    """Adds up numbers of one type."""

    @property
    def zero(self) -> Parts:
        """The sum of no numbers."""

    def parts(self, value: Column) -> Parts:
        """Returns the sum of a single number."""

    def total(self, parts: Parts, number: str, what: str) -> Column:
        """Returns a sum in a number form; an error says ``what`` it is that does not fit."""

    def mean(self, parts: Parts, count: Column) -> Column:
        """Returns a sum divided by the number of its values, as a double."""


def sum_of(kind: T.DataType) -> Sum:
    """Returns what adds up values of a type of numbers."""
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return _DoubleSum()
    return _ExactSum(kind.precision, kind.scale) if isinstance(kind, T.DecimalType) else _ExactSum(_DIGITS, 0)


def over_array(adds: Sum, values: Column, finish: Callable[[Parts], Column] | None = None) -> Column:
    """Adds up an array of numbers: returns what ``finish`` makes of the sum, by default a struct of its parts."""

    def fields(parts: Parts) -> Column:
        return F.struct(parts[0].alias("a"), parts[1].alias("b"))

    def parts_of(sum_: Column) -> Parts:
        return sum_.getField("a"), sum_.getField("b")

    def step(sum_: Column, value: Column) -> Column:
        (a, b), (more_a, more_b) = parts_of(sum_), adds.parts(value)
        return fields((a + more_a, b + more_b))

    return F.aggregate(values, fields(adds.zero), step, finish and (lambda sum_: finish(parts_of(sum_))))


def log2_of(total: Column) -> Column:
    """Returns the logarithm of a number to base 2: that of 0 is -Infinity, and that of a negative number NaN."""
    undefined = [(total == 0, F.lit(-math.inf)), (total < 0, F.lit(math.nan))]
    return of_first(undefined, F.log2(total.cast("double")))


@attrs.frozen
class _ExactSum:
    """Adds up whole numbers, and decimals (precision ``digits``) in units of the last of ``scale`` digits."""

    digits: int
    scale: int

    @property
    def zero(self) -> Parts:
        return F.lit(0).cast(_WHOLE), F.lit(0).cast(_WHOLE)

    def parts(self, value: Column) -> Parts:
        whole = unscaled(value, self.digits, self.scale)
        lower = whole % F.lit(_BASE)
        return ((whole - lower) / F.lit(_BASE)).cast(_WHOLE), lower.cast(_WHOLE)

    def total(self, parts: Parts, number: str, what: str) -> Column:
        text = self._text(parts)
        if number == "string":
            return text
        if number != "decimal":
            double = text.cast("double")
            return log2_of(double) if number == "log2" else double
        kind = f"decimal(38,{self.scale})"
        beyond = _beyond(f"{what} has more than 38 digits", "cast the column to double, whose sums are rounded", kind)
        return F.coalesce(text.try_cast(kind), F.when(parts[0].isNotNull(), beyond))

    def mean(self, parts: Parts, count: Column) -> Column:
        return F.try_divide(self._text(parts).cast("double"), count)

    def _text(self, parts: Parts) -> Column:
        """Writes a sum, with all digits behind the point."""
        upper, lower = parts
        negative = _in_digits(upper, lower)[0] < 0
        upper, lower = (F.when(negative, -part).otherwise(part) for part in parts)
        upper, lower = _in_digits(upper, lower)
        # Zeros in front ensure at least one digit before the point.
        digits = F.concat(F.lit("0" * 38), upper.cast("string"), F.lpad(lower.cast("string"), _DIGITS, "0"))
        split = "$1.$2" if self.scale else "$1"
        plain = F.regexp_replace(digits, f"^0*([0-9]+)([0-9]{{{self.scale}}})$", split)
        return F.concat(F.when(negative, F.lit("-")).otherwise(F.lit("")), plain)


def _in_digits(upper: Column, lower: Column) -> Parts:
    """Carries from the lower part to the upper one, so that the lower one is not negative and fits its digits."""
    rest = F.pmod(lower, F.lit(_BASE)).cast(_WHOLE)
    return upper + ((lower - rest) / F.lit(_BASE)).cast(_WHOLE), rest


@attrs.frozen
class _DoubleSum:
    """Adds up doubles, and also small multiples of them, which show whether only intermediate sums overflow."""

    @property
    def zero(self) -> Parts:
        return F.lit(0.0), F.lit(0.0)

    def parts(self, value: Column) -> Parts:
        double = value.cast("double")
        return double, double * _SMALL

    def total(self, parts: Parts, number: str, what: str) -> Column:
        plain, small = parts
        total = small / _SMALL
        beyond = _beyond(f"{what} is beyond the range of doubles", "divide the column by a constant", "double")
        return _where_finite(plain, plain, small, F.when(_is_finite(total), total).otherwise(beyond))

    def mean(self, parts: Parts, count: Column) -> Column:
        plain, small = parts
        return _where_finite(plain, F.try_divide(plain, count), small, F.try_divide(small, count) / _SMALL)


def _is_finite(double: Column) -> Column:
    return F.abs(double) < math.inf  # NaN is greater than any number


def _where_finite(plain: Column, found: Column, small: Column, instead: Column) -> Column:
    """Returns ``found``, or ``instead`` if the ``plain`` sum is not finite although that of ``small`` multiples is."""
    return F.when(~_is_finite(plain) & _is_finite(small), instead).otherwise(found)


def _beyond(message: str, hint: str, kind: str) -> Column:
    return raised(CountOverflow, message, hint=hint, kind=kind)
