"""What programs of machines are made of: codes of equalities, places in rising stretches, sorted members."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.ir.links import Link, Option
from cetdsl.ir.machine import Comparison
from cetdsl.kernels.machine import program
from cetdsl.kernels.machine.links import never, next_instants
from cetdsl.kernels.machine.program import dense_codes, equality_codes, place_of
from cetdsl.kernels.vocabulary import Events
from cetdsl.pattern.expressions import HOLDS

SMALL = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@settings(deadline=None)
@given(SMALL, st.data())
def test_codes_are_equal_exactly_where_the_values_are(later: list[int], data: Any) -> None:
    values = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1, 2**40]))
    earlier = data.draw(st.lists(values, min_size=len(later), max_size=len(later)))
    f, g, size = dense_codes(np.array(later), np.array(earlier))
    assert {(a, b): a == b for a in later for b in earlier} == {
        (a, b): bool(m == n) for a, m in zip(later, f, strict=True) for b, n in zip(earlier, g, strict=True)
    }
    assert min(*f, *g) >= 0
    assert max(*f, *g) < size <= max(4 * len(later), 1)


@settings(deadline=None)
@given(st.lists(st.lists(st.none() | st.integers(-1, 1), min_size=3, max_size=3), min_size=1, max_size=8))
def test_several_equalities_have_one_code_and_null_has_none(rows: list[list[int | None]]) -> None:
    columns = list(zip(*rows, strict=True))
    nothing = np.zeros(0, dtype=np.int64)
    events = Events(
        nothing,
        np.arange(len(rows)),
        nothing,
        nothing,
        np.array([[0 if value is None else value for value in column] for column in columns]),
        np.array([[value is not None for value in column] for column in columns]),
        np.zeros((0, 0), dtype=np.int64),
        nothing,
    )
    f, g, _ = equality_codes([Comparison("=", 0, 1), Comparison("=", 2, 2)], events)
    for m, later in enumerate(rows):
        for n, earlier in enumerate(rows):
            equal = None not in (later[0], later[2], earlier[1], earlier[2]) and later[::2] == earlier[1:]
            assert (f[m] == g[n] >= 0) == equal


@settings(deadline=None)
@given(SMALL.map(sorted), st.integers(-4, 4), st.data())
def test_the_first_place_that_holds_no_less(rising: list[int], least: int, data: Any) -> None:
    start = data.draw(st.integers(0, len(rising)))
    stop = data.draw(st.integers(start, len(rising)))
    found = place_of(np.array(rising), start, stop, least)
    assert found == bisect_left(rising, least, start, stop)


@pytest.mark.parametrize("count", [50, program._MANY_VALUES + 50])
def test_members_are_sorted_by_value_and_equals_stay(count: int) -> None:
    random = np.random.default_rng(count)
    values = random.choice([-(2**63), -1, 0, 1, 300, 2**40, 2**63 - 1], count)
    members = random.permutation(count).astype(np.int32)
    kept, expected = members.copy(), members[np.argsort(values, kind="stable")]
    found, other = program._sorted_by(values.copy(), np.empty_like(values), members, np.empty_like(members))
    assert found.tolist() == expected.tolist()
    assert other is not found
    assert sorted(found) == sorted(kept)


_TESTS = st.lists(
    st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(0, 1), st.integers(0, 1)),
    max_size=3,
    unique=True,
)


@settings(deadline=None)
@given(st.data())
def test_a_link_leads_to_the_first_instant_with_an_event_that_may_follow(data: Any) -> None:
    count = data.draw(st.integers(1, 12))
    drawn = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    instant = np.cumsum(drawn)
    keys = sorted(set(data.draw(st.lists(st.integers(1, count), max_size=2))) | {0, count})
    for begin in keys[1:-1]:
        instant[begin:] += 1  # no instant has events of two keys
    values = st.lists(st.none() | st.integers(0, 2), min_size=count, max_size=count)
    columns = [data.draw(values) for _ in range(2)]
    mask = np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), dtype=np.int64)
    # Of each event a few earlier ones, as lists of events that may precede it have them.
    lists = [sorted(data.draw(st.sets(st.integers(0, i), max_size=3))) for i in range(count)]
    start = np.cumsum([0, *map(len, lists)]).astype(np.int64)[None, :]
    events = Events(
        np.array(keys, dtype=np.int64),
        instant.astype(np.int64),
        instant.astype(np.int64),
        mask,
        np.array([[0 if value is None else value for value in column] for column in columns], dtype=np.int64),
        np.array([[value is not None for value in column] for column in columns]),
        start,
        np.array([i for one in lists for i in one], dtype=np.int64),
    )
    listed = st.sampled_from([(), (0,)])
    options = st.builds(Option, st.integers(0, 1), _TESTS.map(tuple), listed)
    link = Link(data.draw(st.integers(0, 1)), frozenset(data.draw(st.lists(options, min_size=1, max_size=2))))

    def may_follow(option: Option, i: int, j: int) -> bool:
        related = ((c.op, columns[c.later][j], columns[c.earlier][i]) for c in option.comparisons)
        return (
            bool(mask[j] >> option.variable & 1)
            and all(None not in (a, b) and HOLDS[op](a, b) for op, a, b in related)
            and (not option.listed or i in lists[j])
        )

    if all(option.is_plain for option in link.options):
        link = Link(-1, link.options)
    found = next_instants(link, events)
    for i in range(count):
        if link.source >= 0 and not mask[i] >> link.source & 1:
            continue
        key_end = next(end for end in keys if end > i)
        later = [j for j in range(i, key_end) if instant[j] > instant[i]]
        leads = [instant[j] for j in later if any(may_follow(option, i, j) for option in link.options)]
        assert found[i] == min(leads, default=never(events)), (i, link)
