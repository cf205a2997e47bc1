"""Shares of a key's work are numbers in a column of rows, chosen so that each sends its rows to another task.

Spark sends a row to the task that is the remainder of a hash of its keys. So the numbers from 0 on would leave some
tasks without work and give others twice as much, and numbers are chosen by their hashes.
"""

from __future__ import annotations

from functools import cache


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


def task_of(number: int, tasks: int) -> int:
    """Returns the task, of so many, to which Spark sends a row with this number.

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
    mask = 2**32 - 1

    def rotated(value: int, bits: int) -> int:
        return ((value << bits) | (value >> (32 - bits))) & mask

    block = rotated(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    value = (rotated(42 ^ block, 13) * 5 + 0xE6546B64) & mask
    value ^= 4  # the length in bytes
    value = (value ^ (value >> 16)) * 0x85EBCA6B & mask
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & mask
    value ^= value >> 16
    return value - 2**32 if value >= 2**31 else value
