"""The numbers that are carried along trends, and the columns of the answer that are made of them."""

from __future__ import annotations

import attrs

from cetdsl.aggregates.vocabulary import COUNT, Finish, Update

#: The forms a count may take (``number=``).
NUMBERS = ("decimal", "string", "double", "log2")
#: Those in which counts, and sums of whole numbers, are exact.
EXACT_NUMBERS = ("decimal", "string")


@attrs.frozen
class Accumulator:
    """One number that is propagated along trends.

    ``update`` says what an event of ``variable`` adds (-1: an event of any variable; -2: none, as for the number of
    trends). If a ``column`` among the value columns is given (-1: none), only events in which it is not NULL add
    something. Extremes without a column are lengths of trends. Where the planner has split the variable into parts,
    ``also`` has the numbers of the further parts.
    """

    update: Update
    variable: int = -1
    column: int = -1
    also: tuple[int, ...] = attrs.field(default=(), repr=False)

    @property
    def bound(self) -> int:
        """The variables whose events add something, as the bits of a 64-bit number; -1: all."""
        if self.variable < 0:
            return self.variable if self.variable == -1 else 0
        # Variables without a bit bind no event.
        return sum(1 << number for number in {self.variable, *self.also} if number < 62)

    @property
    def is_additive(self) -> bool:
        """Whether the accumulator adds up; others keep an extreme."""
        return self.update.is_additive

    @property
    def is_length(self) -> bool:
        """Whether it keeps the length of a trend."""
        return not self.update.is_additive and self.column < 0


#: The accumulator of all trends, always the first one. Others are weighted by it.
TRENDS = Accumulator(COUNT, -2)


@attrs.frozen
class Output:
    """A column of the answer, made of accumulators.

    ``inputs`` are the positions of the accumulators that ``finish`` names. ``type`` is the Spark type of the aggregated
    column, or "" for counts.
    """

    name: str
    finish: Finish
    inputs: tuple[int, ...]
    type: str = ""

    @property
    def value(self) -> int:
        """The accumulator that holds the value."""
        return self.inputs[-1]
