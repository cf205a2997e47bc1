"""The terms that declare an aggregate function: its input, its buffer, how events update the buffer, and the result.

The *buffer* is a tuple of *accumulators*, numbers that are carried along trends. As in Catalyst's
``DeclarativeAggregate``, a function is a value without code of its own: kernels interpret its updates over arrays,
``execution`` interprets them as Spark expressions, and neither knows any function by its name.
"""

from __future__ import annotations

import enum

import attrs


class Merge(enum.Enum):
    """The ways to merge two values of an accumulator; they alone decide which engines can compute it.

    An accumulator that is added up is a sum over trends of a sum over their events. It is linear in the number of
    trends, so products of panes, shared snapshots and the pairing of two sides of AND can compute it. That does not
    hold for extremes.
    """

    ADD = "added up"
    SMALLEST = "the smallest"
    LARGEST = "the largest"


@attrs.frozen
class Update:
    """The contribution of an event to an accumulator.

    Attributes
    ----------
    words : str
        For ``explain``; ``{}`` stands for the aggregated term.
    merge : Merge
    power : int
        The event's value to this power is added; power 0 adds 1.
    moment : bool
        Whether the sum is one of the power sums of a variance, which are subtracted from each other. In every row of an
        answer such sums are whole numbers, whatever the number form of counts: see
        :mod:`cetdsl.kernels.numbers.moments`.
    odd : bool
        Whether only values without power sums count: infinities, NaN, and values extremely far from the others.
    """

    words: str
    merge: Merge = Merge.ADD
    power: int = 0
    moment: bool = False
    odd: bool = False

    @property
    def is_additive(self) -> bool:
        """Whether the accumulator adds up."""
        return self.merge is Merge.ADD

    @property
    def may_cancel(self) -> bool:
        """Whether summands may be negative, so that partial sums may be larger than the sum."""
        return self.is_additive and self.power % 2 == 1


COUNT = Update("number of {} that are not NULL")
SUM = Update("sum of {}", power=1)
SMALLEST = Update("min of {}", Merge.SMALLEST)
LARGEST = Update("max of {}", Merge.LARGEST)
ODD = Update("number of {} that are infinite or no numbers", odd=True)
#: Sums of the powers 0, 1 and 2.
MOMENTS = (
    Update("number of {} for its moments", moment=True),
    Update("sum of {} for its moments", power=1, moment=True),
    Update("sum of squares of {}", power=2, moment=True),
)


class Input(enum.Enum):
    """The inputs that a function aggregates over."""

    EVENTS = "a variable or *"
    NUMBERS = "numbers"
    ORDERED = "values that have an order"


class Result(enum.Enum):
    """The type that a function gives."""

    TOTAL = "a count, or the type of a sum, in the number form that is asked for"
    VALUE = "the type of its input"
    DOUBLE = "double"


class Finish:
    """Computes the result from the accumulators of a buffer."""

    __slots__ = ()
    result = Result.DOUBLE


@attrs.frozen
class Total(Finish):
    """The last accumulator, a count or a sum of first powers; NULL if there are two accumulators and the first is 0."""

    result = Result.TOTAL


@attrs.frozen
class Extreme(Finish):
    """The accumulator itself, NULL for none."""

    result = Result.VALUE


@attrs.frozen
class Quotient(Finish):
    """The second accumulator divided by the first; NULL if the first is 0."""


@attrs.frozen
class CentralMoment(Finish):
    """The variance of ``n`` values, ``(q - s * s / n) / (n - less)``, from the accumulators ``MOMENTS`` and ``ODD``.

    ``less`` is 1 for the variance of a sample, else 0. The variance is NULL unless there are more than ``less`` values,
    and otherwise NaN if a value is odd. ``root`` says whether the result is its square root.
    """

    less: int
    root: bool = False


@attrs.frozen
class AggregateFunction:
    """An aggregate function.

    Its ``name`` is in lower case, as it is written, and ``spellings`` are other names of it. ``of_length`` says whether
    it also runs over the lengths of trends.
    """

    name: str
    input: Input
    buffer: tuple[Update, ...]
    finish: Finish
    of_length: bool = False
    spellings: tuple[str, ...] = ()

    @property
    def is_additive(self) -> bool:
        """Whether all of its accumulators add up."""
        return all(update.is_additive for update in self.buffer)

    @property
    def is_count(self) -> bool:
        """Whether it only counts events or trends."""
        return self.input is Input.EVENTS

    @property
    def is_total(self) -> bool:
        """Whether its value over some trends is the sum of its values in each."""
        return isinstance(self.finish, Total)
