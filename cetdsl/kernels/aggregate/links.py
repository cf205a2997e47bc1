"""Links: the predicates between two variables, along which events of one variable send numbers to those of the other.

A link holds the events of both variables, its *members*, except those in which a value that it compares is NULL. They
are sorted by the values of its equalities, and among equals by the value of its one other comparison. A *run* is a
sequence of members with equal values. So the events that may stand beside a given one are those of its own run, all in
the runs before it, all in the runs behind it, or some of these together. One walk over all members, or two, one in
either direction, sums up what each event receives from the events beside it. Nothing is ever subtracted, so sums of
doubles lose nothing to cancellation, not even for ``!=``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.machine import Pair
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.numbers.linear import add, multiply
from cetdsl.kernels.vocabulary import Bools, Events, Ints
from cetdsl.pattern.expressions import MIRRORED


class Walks(NamedTuple):
    """Whether an event receives from events of the other side whose values are smaller, equal, and larger."""

    smaller: bool
    equal: bool
    larger: bool


#: By the operator between the sender's value, on the left, and the receiver's.
_WALKS = {
    "=": Walks(False, True, False),
    "!=": Walks(True, False, True),
    "<": Walks(True, False, False),
    "<=": Walks(True, True, False),
    ">": Walks(False, False, True),
    ">=": Walks(False, True, True),
}


class Members(NamedTuple):
    """The events that may be bound to one variable, slice after slice; an event stands once for each slice with it."""

    slice: Ints
    event: Ints


class Link(NamedTuple):
    """The members of two linked variables, sorted together by the values that the link compares.

    Members of the second variable are numbered on from those of the first.

    Attributes
    ----------
    first : int
        The number of members of the first variable, those with NULL included.
    member : int64 array, shape (rows,)
        The members without NULL among the values that are compared, sorted.
    run : int64 array, shape (runs + 1,)
        Where each run of equal values begins.
    begins : bool array, shape (runs + 1,)
        Whether the values of the equalities, or the slice, differ from those of the run before.
    """

    first: int
    member: Ints
    run: Ints
    begins: Bools


@jit
def _cut(order: Ints, rows: Ints, grouping: int) -> tuple[Ints, Ints, Bools]:
    """Returns the fields of :class:`Link` after ``first``, given the members' ``order``.

    The last column of ``rows`` is the member, the others are its keys. The first ``grouping`` keys are the slice and
    the values of the equalities. All are in one array because all are read together.
    """
    size, keys = len(order), rows.shape[1] - 1
    member, run, begins = np.empty_like(order), np.empty(size + 1, dtype=np.int64), np.empty(size + 1, dtype=np.bool_)
    runs = 0
    for at in range(size):
        row = order[at]
        member[at] = rows[row, keys]
        differs = 0 if at == 0 else keys
        if at > 0:
            before = order[at - 1]
            for k in range(keys):
                if rows[row, k] != rows[before, k]:
                    differs = k
                    break
        if differs < keys:
            run[runs] = at
            begins[runs] = differs < grouping
            runs += 1
    run[runs] = size
    begins[runs] = True
    return member, run[: runs + 1], begins[: runs + 1]


@inlined
def _collect(link: Link, r: int, backwards: bool, sent: NDArray[Any], total: NDArray[Any], prime: Any) -> None:
    """Adds what the senders of a run send to ``total``."""
    for at in range(link.run[r], link.run[r + 1]):
        m = link.member[at]
        if (m >= link.first) == backwards:
            m -= link.first if backwards else 0
            for k in range(len(total)):
                total[k] = add(total[k], sent[m, k], prime)


@inlined
def _deliver(link: Link, r: int, backwards: bool, received: NDArray[Any], total: NDArray[Any], prime: Any) -> None:
    """Adds ``total`` to what each receiver of a run has received."""
    for at in range(link.run[r], link.run[r + 1]):
        m = link.member[at]
        if (m >= link.first) != backwards:
            m -= 0 if backwards else link.first
            for k in range(len(total)):
                received[m, k] = add(received[m, k], total[k], prime)


@inlined
def _exchange(
    link: Link,
    r: int,
    backwards: bool,
    equal: bool,
    sent: NDArray[Any],
    received: NDArray[Any],
    total: NDArray[Any],
    prime: Any,
) -> None:
    """Delivers ``total`` to the receivers of a run, and adds to it what the run's senders send.

    The senders come first if ``equal``, so that receivers count those of their own run; else afterwards.
    """
    if equal:
        _collect(link, r, backwards, sent, total, prime)
    _deliver(link, r, backwards, received, total, prime)
    if not equal:
        _collect(link, r, backwards, sent, total, prime)


@jit
def send(
    link: Link, backwards: bool, walks: Walks, sent: NDArray[Any], received: NDArray[Any], zero: Any, prime: Any
) -> None:
    """Sums up, for each member of one variable, what those members of the other send that may stand beside it.

    Parameters
    ----------
    link, walks
        The link, and the senders' values that count, compared with the receiver's.
    backwards : bool
        Whether the second variable's members send to the first's, and not the other way round.
    sent, received : arrays, shape (members, accumulators)
        What each member of the sending variable sends, and the sums of each member of the receiving one.
    zero, prime
        The number 0, and the modulus of ``uint64`` arithmetic.
    """
    total = np.full(sent.shape[1], zero)
    runs = len(link.run) - 1
    if walks.smaller or not walks.larger:
        for r in range(runs):
            if link.begins[r] or not walks.smaller:
                total[:] = zero
            _exchange(link, r, backwards, walks.equal, sent, received, total, prime)
    if walks.larger:
        for r in range(runs - 1, -1, -1):
            if link.begins[r + 1]:
                total[:] = zero
            _exchange(link, r, backwards, walks.equal, sent, received, total, prime)


@jit
def absorb(message: NDArray[Any], received: NDArray[Any], prime: Any, reciprocal: float) -> None:
    """Multiplies each message by what its member has received; sums obey the product rule, like derivatives."""
    for m in range(message.shape[0]):
        count, other = message[m, 0], received[m, 0]
        message[m, 0] = multiply(count, other, prime, reciprocal)
        for k in range(1, message.shape[1]):
            own = multiply(message[m, k], other, prime, reciprocal)
            message[m, k] = add(own, multiply(count, received[m, k], prime, reciprocal), prime)


@jit
def gather(message: NDArray[Any], slice_: Ints, out: NDArray[Any], prime: Any) -> None:
    """Adds the message of each member to the row of its slice."""
    for m in range(message.shape[0]):
        for k in range(message.shape[1]):
            out[slice_[m], k] = add(out[slice_[m], k], message[m, k], prime)


def walks_of(pairs: Sequence[Pair], backwards: bool) -> Walks:
    """Returns which senders' values count where the first variable sends or, ``backwards``, the second one."""
    op = next((pair.op for pair in pairs if pair.op != "="), "=")
    return _WALKS[MIRRORED[op] if backwards else op]


def link_of(pairs: Sequence[Pair], events: Events, sides: tuple[Members, Members]) -> Link:
    """Sorts the members of two variables by the columns that their predicates compare."""
    ordered = sorted(pairs, key=lambda pair: pair.op != "=")
    columns = [pair.left for pair in ordered], [pair.right for pair in ordered]
    which = [_comparable(events, side, own) for side, own in zip(sides, columns, strict=True)]
    first, middle = len(sides[0].event), len(which[0])
    rows = np.empty((middle + len(which[1]), len(ordered) + 2), dtype=np.int64)
    for part, chosen, side, own in zip((rows[:middle], rows[middle:]), which, sides, columns, strict=True):
        part[:, 0] = side.slice[chosen]
        for number, column in enumerate(own, 1):
            part[:, number] = events.codes[column][side.event[chosen]]
        part[:, -1] = chosen
    rows[middle:, -1] += first
    equalities = sum(pair.op == "=" for pair in ordered)
    return Link(first, *_cut(_order(rows[:, :-1]), rows, equalities + 1))


def _comparable(events: Events, side: Members, columns: list[int]) -> Ints:
    """Returns the members of a side that have a value in all columns."""
    which = np.arange(len(side.event))
    for column in columns:
        valid = events.valid[column][side.event[which]]
        if not valid.all():
            which = which[valid]
    return which


def _order(keys: Ints) -> Ints:
    """Returns the order of rows by their columns, of which the first is the most significant.

    To sort one number that stands for all columns takes a third of the time of sorting by one column after another.
    """
    varied = [np.ascontiguousarray(key) for key in keys.T if len(key) and key.min() != key.max()]
    if not varied:
        return np.arange(len(keys))
    whole = varied[0]
    for key in varied[1:]:
        ranks = _ranks(key)
        whole = _ranks(whole) * (ranks.max() + 1) + ranks
    return np.argsort(whole)


def _ranks(values: Ints) -> Ints:
    """Returns the rank of each value among the distinct ones, from 0."""
    order = np.argsort(values)
    rising = values[order]
    ranks = np.zeros_like(values)
    ranks[order[1:]] = np.cumsum(rising[1:] != rising[:-1])
    return ranks
