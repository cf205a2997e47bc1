"""Links between two variables: what the events of the one receive from those of the other that may stand beside them.

A link holds the events of both sides that have all values compared, sorted by the values of its equalities, and among
equals by that of its other comparison. So the events that may stand beside one of them are a run of equal values, all
that come before it, or all that come after it, and one walk over all of them, or one in either direction, sums up what
each receives. Nothing is ever subtracted, so that sums of doubles lose nothing to cancellation, not even for ``!=``.
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
    """Which events a side receives from: those of smaller, equal and larger values."""

    smaller: bool
    equal: bool
    larger: bool


#: By what the sender's value must be to the receiver's.
_WALKS = {
    "=": Walks(False, True, False),
    "!=": Walks(True, False, True),
    "<": Walks(True, False, False),
    "<=": Walks(True, True, False),
    ">": Walks(False, False, True),
    ">=": Walks(False, True, True),
}


class Members(NamedTuple):
    """The events that may be bound to one variable, slice after slice; an event is in each slice that holds it."""

    slice: Ints
    event: Ints


class Link(NamedTuple):
    """The sorted members of both sides, the members of the second counted on from those of the first.

    Attributes
    ----------
    first : int
        The number of members of the first side, with and without all values.
    member : int64 array, shape (rows,)
        The members that have all values compared, sorted.
    run : int64 array, shape (runs + 1,)
        Where each run of equal values begins.
    begins : bool array, shape (runs + 1,)
        Whether the values of the equalities, or the slice, differ from those of the run before.
    """

    first: int
    member: Ints
    run: Ints
    begins: Bools


@inlined
def _collect(link: Link, r: int, backwards: bool, sent: NDArray[Any], total: NDArray[Any], prime: Any) -> None:
    """Adds to a total what the senders of a run send."""
    for at in range(link.run[r], link.run[r + 1]):
        m = link.member[at]
        if (m >= link.first) == backwards:
            m -= link.first if backwards else 0
            for k in range(len(total)):
                total[k] = add(total[k], sent[m, k], prime)


@inlined
def _deliver(link: Link, r: int, backwards: bool, received: NDArray[Any], total: NDArray[Any], prime: Any) -> None:
    """Adds a total to what the receivers of a run have received."""
    for at in range(link.run[r], link.run[r + 1]):
        m = link.member[at]
        if (m >= link.first) != backwards:
            m -= 0 if backwards else link.first
            for k in range(len(total)):
                received[m, k] = add(received[m, k], total[k], prime)


@jit
def send(
    link: Link, backwards: bool, walks: Walks, sent: NDArray[Any], received: NDArray[Any], zero: Any, prime: Any
) -> None:
    """Adds to what each member of one side receives what those of the other send that may stand beside it.

    Parameters
    ----------
    link, walks
        The link, and the values that count.
    backwards : bool
        Whether the second side sends to the first, and not the first to the second.
    sent, received : arrays, shape (members, accumulators)
        Of the side that sends, and of the one that receives.
    zero, prime
        The number 0, and the modulus of ``uint64`` arithmetic.
    """
    total = np.full(sent.shape[1], zero)
    runs = len(link.run) - 1
    if walks.smaller or not walks.larger:
        for r in range(runs):
            if link.begins[r] or not walks.smaller:
                total[:] = zero
            if walks.equal:
                _collect(link, r, backwards, sent, total, prime)
            _deliver(link, r, backwards, received, total, prime)
            if not walks.equal:
                _collect(link, r, backwards, sent, total, prime)
    if walks.larger:
        for r in range(runs - 1, -1, -1):
            if link.begins[r + 1]:
                total[:] = zero
            if walks.equal:
                _collect(link, r, backwards, sent, total, prime)
            _deliver(link, r, backwards, received, total, prime)
            if not walks.equal:
                _collect(link, r, backwards, sent, total, prime)


@jit
def absorb(message: NDArray[Any], received: NDArray[Any], prime: Any, reciprocal: float) -> None:
    """Multiplies each message by what its member has received; sums follow the counts as derivatives do."""
    for m in range(message.shape[0]):
        count, other = message[m, 0], received[m, 0]
        message[m, 0] = multiply(count, other, prime, reciprocal)
        for k in range(1, message.shape[1]):
            own = multiply(message[m, k], other, prime, reciprocal)
            message[m, k] = add(own, multiply(count, received[m, k], prime, reciprocal), prime)


@jit
def gather(message: NDArray[Any], slice_: Ints, out: NDArray[Any], prime: Any) -> None:
    """Adds the messages of all members to those of their slices."""
    for m in range(message.shape[0]):
        for k in range(message.shape[1]):
            out[slice_[m], k] = add(out[slice_[m], k], message[m, k], prime)


def walks_of(pairs: Sequence[Pair], backwards: bool) -> Walks:
    """Returns the values that count where the first variable of some predicates, or the second, sends."""
    op = next((pair.op for pair in pairs if pair.op != "="), "=")
    return _WALKS[MIRRORED[op] if backwards else op]


def link_of(pairs: Sequence[Pair], events: Events, sides: tuple[Members, Members]) -> Link:
    """Sorts the members of two variables by what their predicates, one of which may be no equality, compare."""
    ordered = sorted(pairs, key=lambda pair: pair.op != "=")
    rows: list[Ints] = []
    for side, columns in zip(sides, ([pair.left for pair in ordered], [pair.right for pair in ordered]), strict=True):
        rows.append(np.flatnonzero(np.logical_and.reduce(events.valid[columns][:, side.event])))
    values = [np.concatenate([side.slice[which] for side, which in zip(sides, rows, strict=True)])]
    for pair in ordered:
        codes = zip((pair.left, pair.right), sides, rows, strict=True)
        values.append(np.concatenate([events.codes[column][side.event[which]] for column, side, which in codes]))
    member = np.concatenate([rows[0], rows[1] + len(sides[0].event)])
    order = np.lexsort(values[::-1])
    differs = [np.append(True, (column := value[order])[1:] != column[:-1]) for value in values]
    equalities = sum(pair.op == "=" for pair in ordered)
    begins = np.logical_or.reduce(differs[: equalities + 1])
    run = np.flatnonzero(np.logical_or.reduce(differs)[: len(order)])
    return Link(
        len(sides[0].event),
        member[order],
        np.append(run, len(order)),
        np.append(begins[run], True),
    )
