"""The windows of a chunk's events are counted before any is made."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cetdsl.errors import GroupTooLarge
from cetdsl.ir.windowing import SLIDING, Windowing
from cetdsl.kernels.wire.windows import MOST_WINDOWS, NEVER, count_windows, cut_slices


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("buckets", [0, 3])
def test_as_many_windows_are_counted_as_are_made(complete: bool, buckets: int) -> None:
    """With gaps between events and between windows, with windows answered before, and with buckets of time."""
    counts = set()
    for seed in range(300):
        choose = random.Random(seed)
        times = [sorted(choose.choices(range(-40, 40), k=choose.randint(1, 6))) for _ in range(choose.randint(1, 4))]
        starts, time = np.cumsum([0, *map(len, times)]), np.concatenate(times)
        length, slide, resume = choose.randint(1, 12), choose.randint(1, 12), choose.choice([NEVER, -2, 1])
        bucket = np.array([choose.randint(-3, 3) for _ in times])
        until = bucket + choose.randint(0, 2)
        windowing = Windowing(SLIDING, length, slide, buckets * slide)
        slices = cut_slices(windowing, starts, time, bucket, complete, resume, until=until)
        counted = count_windows(starts, time, bucket, until, complete, resume, length, slide, buckets * slide)
        assert counted.tolist() == np.bincount(slices.segment, minlength=len(times)).tolist()
        counts.add(counted.sum())
    assert len(counts) > 5


@pytest.mark.parametrize("length", [2**61, MOST_WINDOWS + 1])
def test_more_windows_than_there_is_room_for_are_refused(length: int) -> None:
    """Before they are made, which would take all memory."""
    bucket = np.zeros(1, dtype=np.int64)
    with pytest.raises(GroupTooLarge, match=r"events .* lie in [\d,]+ windows(.|\n)*SLIDE"):
        cut_slices(Windowing(SLIDING, length, 1), np.array([0, 2]), np.array([0, 5]), bucket, True, NEVER)


def test_the_group_of_the_most_windows_is_named() -> None:
    """The second one, whose events are five ticks apart, has five windows more."""
    starts, time, bucket = np.array([0, 1, 3]), np.array([0, 0, 5]), np.zeros(2, dtype=np.int64)
    windowing = Windowing(SLIDING, 100_000_000, 1)
    with pytest.raises(GroupTooLarge, match=r"lie in 200,000,005 windows.*; 100,000,005 of them are of group 'b'"):
        cut_slices(windowing, starts, time, bucket, True, NEVER, group=lambda segment: f"group {'ab'[segment]!r}")
