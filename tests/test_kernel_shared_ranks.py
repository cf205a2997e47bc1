"""Trees of predicates that compare one later column hold what each of them would hold alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.ir.machine import Comparison
from cetdsl.kernels.shared.ranks import Indexed, ranked_tables
from cetdsl.kernels.vocabulary import Events

COMPARED = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def events(keys: list[int], mask: list[int], codes: np.ndarray, valid: np.ndarray) -> Events:
    count = int(sum(keys))
    none = np.zeros((0, count + 1), dtype=np.int64)
    start = np.append(0, np.cumsum(keys)).astype(np.int64)
    every = np.arange(count)
    return Events(start, every, every, np.array(mask, dtype=np.int64), codes, valid, none, none[:, 0])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_predicates_with_one_order_share_a_tree_and_find_what_they_would_alone(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    count = sum(keys)
    mask = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    value = st.lists(st.integers(-3, 3), min_size=count, max_size=count)
    first, other, known = np.array(data.draw(value)), np.array(data.draw(value)), np.array(data.draw(value)) < 3
    # Column 1 is column 0 moved up, so of the same order; column 2 is another; NULLs differ in column 3.
    codes = np.array([first, first + 1, other, first + 2])
    valid = np.array([known, known, known, np.ones(count, dtype=np.bool_)])
    op = data.draw(st.sampled_from(sorted(COMPARED)))
    trees = tuple((Comparison(op, 0, earlier),) for earlier in range(4))
    found = events(keys, mask, codes, valid)
    tables, leader = ranked_tables(Indexed((), trees), dict.fromkeys(trees, (1, 2)), found)
    assert leader[:2] == (0, 0)
    for number in range(4):
        for s, size in enumerate(keys):
            low = int(found.segment_start[s])
            for i in range(low, low + size):
                if not (mask[i] & 2 and valid[0, i]):
                    continue
                base, length = tables.query_base[number, i], tables.query_length[number, i]
                inside = {
                    d
                    for d in range(low, low + size)
                    if mask[d] & 1
                    and valid[number, d]
                    and tables.update_base[leader[number], d] == base
                    and 0 < tables.update_position[leader[number], d] <= length
                }
                assert inside == {
                    d
                    for d in range(low, low + size)
                    if mask[d] & 1 and valid[number, d] and COMPARED[op](codes[0, i], codes[number, d])
                }
