"""Computes the accumulators that add up, by *passes* of some kernel, each in one of the number systems that are needed.

The kernels differ in how they compute accumulators (:class:`AdditivePass`), and share what is here: which number
systems are needed, and the weights of events in each of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Total
from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.answers.tables import additive_accumulators
from cetdsl.kernels.machine.propagate import Accumulators
from cetdsl.kernels.numbers.ladder import DECIMAL_BITS, Moduli, exact, rounded
from cetdsl.kernels.numbers.linear import NO_TREND
from cetdsl.kernels.numbers.residues import Residues
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.values import ValueColumn


class AdditivePass(Protocol):
    """Computes accumulators of some slices in one number system."""

    def __call__(self, accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
        """Returns an array of ``kind``, shape (rows, accumulators).

        Weights are doubles, or for ``np.uint64`` residues modulo ``prime``; other kinds have the prime 0.
        """


class System(NamedTuple):
    """A number system: 0 and 1, the prime and its inverse."""

    zero: Any
    one: Any
    prime: Any
    reciprocal: float


def system_of(kind: Any, prime: Any) -> System:
    """Returns the number system of an :class:`AdditivePass`."""
    if kind is np.complex128:
        return System(kind(0), complex(0.5, 1), np.float64(0), 0.0)
    if kind is np.int64:
        return System(kind(NO_TREND), kind(0), prime, 0.0)
    return System(kind(0), kind(1), prime, 1.0 / float(prime) if prime else 0.0)


def whole_accumulators(spec: KernelSpec, columns: list[ValueColumn]) -> list[int]:
    """Returns the additive accumulators that are also computed as whole numbers."""
    accumulators = enumerate(additive_accumulators(spec)) if spec.answer.exact else ()
    return [
        k for k, accumulator in accumulators if accumulator.update.power == 0 or columns[accumulator.column].is_exact
    ]


def most_bits(spec: KernelSpec) -> NDArray[np.float64]:
    """Returns, for each additive accumulator, the bits beyond which no exact value is computed.

    A count that no decimal holds ends in an error, for which the rounded value will do.
    """
    counted = {output.value for output in spec.answer.outputs if isinstance(output.finish, Total)}
    bounded = counted if spec.answer.number == "decimal" else set()
    additive = [(k, accumulator) for k, accumulator in enumerate(spec.answer.accumulators) if accumulator.is_additive]
    return np.array([DECIMAL_BITS if k in bounded and one.update.power == 0 else np.inf for k, one in additive])


def only_trends(accumulators: int, kind: Any) -> NDArray[Any]:
    """Returns the accumulators of a trend without events: its count is one, and its sums are zero."""
    one = np.zeros(accumulators, dtype=kind)
    one[0] = 1
    return one


def _unit_weights(accumulators: int, count: int, kind: Any) -> NDArray[Any]:
    """Returns the weights of ``count`` events that add 1 to each accumulator but the first.

    The weights of the first one are never read, so the system never has to provide the memory of their zeros.
    """
    weights = np.zeros((accumulators, count), dtype=kind)
    weights[1:] = 1
    return weights


def additive_values(
    spec: KernelSpec,
    columns: list[ValueColumn],
    count: int,
    long: Bools,
    one_pass: AdditivePass,
    moduli: tuple[Moduli, Moduli],
) -> tuple[list[Scaled], list[Objects | None]]:
    """Returns scaled values of the additive accumulators, and whole ones where the number form is exact.

    Parameters
    ----------
    spec, columns, count
        The query, its value columns, and the number of events.
    long : bool array, shape (slices,)
        The slices whose numbers are likely to leave the range of doubles.
    one_pass
        Computes accumulators in one number system.
    moduli
        The primes for residues where only the number of trends is exact, and where sums are exact too.
    """
    additive = additive_accumulators(spec)
    whole = whole_accumulators(spec, columns)
    signed = [k for k in whole if additive[k].update.may_cancel]
    weights = _unit_weights(len(additive) + len(signed), count, np.float64)
    for k, accumulator in enumerate(additive):
        if accumulator.column >= 0:
            weights[k] = columns[accumulator.column].weights(accumulator.update, k in whole)
    # Sums may cancel out, so they are computed once more with the absolute values of their weights: their magnitudes.
    weights[len(additive) :] = np.abs(weights[signed])

    def described(numbers: list[int], weights: NDArray[Any]) -> Accumulators:
        """Returns the accumulators of these numbers, which may repeat; the first one has no weights."""
        bound = np.array([additive[k].bound for k in numbers], dtype=np.int64)
        return Accumulators(bound, np.array([-1] + [0] * (len(numbers) - 1), dtype=np.int64), weights)

    all_of_them = described([*range(len(additive)), *signed], weights)

    def added(kind: Any, rows: Ints) -> NDArray[Any]:
        return one_pass(all_of_them, rows, kind, np.float64(0))

    def residues(rows: Ints, primes: Residues) -> Residues:
        found = []
        for prime in primes:
            weights = _unit_weights(len(whole), count, np.uint64)
            for position, k in enumerate(whole):
                if additive[k].column >= 0:
                    weights[position] = columns[additive[k].column].residues(additive[k].update, int(prime))
            found.append(one_pass(described(whole, weights), rows, np.uint64, prime))
        return np.stack(found, axis=2)

    scaled = rounded(added, long, len(weights))
    table: list[Objects | None] = [None] * len(additive)
    if whole:
        largest = [len(additive) + signed.index(k) if k in signed else k for k in whole]
        chosen = moduli[len(whole) > 1]
        numbers = exact(residues, scaled[:, whole], scaled[:, largest], most_bits(spec)[whole], chosen)
        for position, k in enumerate(whole):
            table[k] = numbers[:, position]
    return [scaled[:, k] for k in range(len(additive))], table
