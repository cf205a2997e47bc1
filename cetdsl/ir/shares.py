"""Shares of a key's work: the numbers of shares, in a column of rows, are chosen so that each goes to a different task.

Spark sends a row to the task whose number is the hash of its keys modulo the number of tasks. So shares numbered from 0
on would leave some tasks without work and give others twice as much. Numbers are therefore chosen by their hashes.
"""

from __future__ import annotations

from functools import cache, lru_cache

#: The parts of MurmurHash3, of 32 bits (Appleby, SMHasher), as Spark computes it, with its seed.
_MASK, _SEED = 2**32 - 1, 42
_FIRST, _SECOND, _ADDED = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_FIRST_FINAL, _SECOND_FINAL = 0x85EBCA6B, 0xC2B2AE35
#: The inverses of the factors modulo 2**32, which exist as all factors are odd.
_FIRST_BACK, _SECOND_BACK, _FIVE_BACK, _FIRST_FINAL_BACK, _SECOND_FINAL_BACK = (
    pow(factor, -1, 2**32) for factor in (_FIRST, _SECOND, 5, _FIRST_FINAL, _SECOND_FINAL)
)
#: Bytes of the types, which are hashed as well.
_INT, _LONG = 4, 8


@cache
def share_numbers(tasks: int) -> tuple[int, ...]:
    """Returns numbers that ``repartition(tasks, column)`` sends to different tasks, the first to the first task.

    Examples
    --------
    >>> share_numbers(4)
    (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < tasks:
        found.setdefault(task_of(number, tasks), number)
        number += 1
    return tuple(found[task] for task in range(tasks))


def spread_numbers(shares: int, tasks: int) -> tuple[int, ...]:
    """Returns the numbers of so many shares, which ``repartition(tasks, column)`` spreads evenly over the tasks.

    There are at most as many shares as tasks.

    Examples
    --------
    >>> numbers = spread_numbers(3, 12)
    >>> [task_of(number, 12) for number in numbers]
    [0, 4, 8]
    """
    numbers, shares = share_numbers(tasks), min(shares, tasks)
    return tuple(numbers[share * tasks // shares] for share in range(shares))


def task_of(number: int, tasks: int) -> int:
    """Returns the task, among ``tasks``, to which Spark sends a row with this number.

    Examples
    --------
    >>> [task_of(number, 4) for number in share_numbers(4)]
    [0, 1, 2, 3]
    """
    return murmur3(number) % tasks


def murmur3(number: int) -> int:
    """Computes Spark's hash of an ``int`` column: MurmurHash3 (32 bits, one block), seed 42, as a signed number.

    Examples
    --------
    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    return _signed(_hash_of_int(number), 32)


def number_of_task(share: int, second: int, low: int) -> int:
    """Returns a third number with which rows of a share go to the share's task, whatever their ``second`` number is.

    Spark distributes state by the hash of all columns that rows are grouped by: here the share, and two numbers of type
    ``bigint``. With the returned number, the hash of all three equals the hash of the share alone, so that one task has
    all rows of a share, however many tasks there are. The lower 32 bits of the number are ``low``. The upper bits are
    found by computing the hash backwards, as each of its steps has an inverse.

    Examples
    --------
    >>> number_of_task(12, 1_000_000, 7)
    -3149588737512439801
    """
    before, after = _around(share, second)
    block = _with_block(before, low) ^ after
    high = _rotated(block * _SECOND_BACK & _MASK, 32 - 15) * _FIRST_BACK & _MASK
    return _signed(high << 32 | low, 64)


@lru_cache
def _around(share: int, second: int) -> tuple[int, int]:
    """Returns the hash up to the third number, and its required value after that number's upper bits are mixed in."""
    share_hash = _hash_of_int(share)
    after = (_unfinished(share_hash) ^ _LONG) - _ADDED
    return _hash_of_long(second, share_hash), _rotated(after * _FIVE_BACK & _MASK, 32 - 13)


def _hash_of_int(number: int) -> int:
    return _finished(_with_block(_SEED, number) ^ _INT)


def _hash_of_long(number: int, seed: int) -> int:
    low, high = number & _MASK, number >> 32 & _MASK
    return _finished(_with_block(_with_block(seed, low), high) ^ _LONG)


def _with_block(value: int, block: int) -> int:
    """Mixes 32 bits more into a hash."""
    mixed = _rotated(block * _FIRST & _MASK, 15) * _SECOND & _MASK
    return (_rotated(value ^ mixed, 13) * 5 + _ADDED) & _MASK


def _finished(value: int) -> int:
    value = (value ^ (value >> 16)) * _FIRST_FINAL & _MASK
    value = (value ^ (value >> 13)) * _SECOND_FINAL & _MASK
    return value ^ (value >> 16)


def _unfinished(value: int) -> int:
    """Undoes :func:`_finished`."""
    value = (value ^ (value >> 16)) * _SECOND_FINAL_BACK & _MASK
    value = (value ^ (value >> 13) ^ (value >> 26)) * _FIRST_FINAL_BACK & _MASK
    return value ^ (value >> 16)


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
