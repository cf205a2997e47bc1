"""Comparisons between all events of two variables, counted about an extreme event, compared with the reference."""

from __future__ import annotations

import random

import attrs
import generators
import pytest
from test_kernel_aggregate import NUMBERS, check_trends, compare
from test_sweep import RETURNING

import cetdsl as cet
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.sweep import sweep

#: Each with variables that every trend binds, of which the first is compared with the others.
PATTERNS = [
    ("SEQ(A+ a, B+ b)", "ab"),
    ("SEQ(A+ a, B+ b)", "ba"),
    ("SEQ(B+ b, C? c, A+ a)", "ab"),
    ("SEQ(A+ a, B+ b, C+ c)", "bac"),
    ("(SEQ(A+ a, B b))+", "ab"),
    ("SEQ(A a, (SEQ(B b, C* c))+, A+ d)", "dab"),
    ("(SEQ(A+ a, B b) OR SEQ(B b, A+ a))", "ab"),
    ("SEQ(A+ a, NOT C n, B+ b)", "ba"),
    ("SEQ(A{1,3} a, B{2,} b)", "ab"),
    ("SEQ(B b, NOT C n, A+ a, NOT C m, B+ c, NOT C o)", "abc"),
]
#: What other events are, compared with those of the first variable.
SIDES = (("<",), ("<=",), (">",), (">=",), ("=",), ("<", "<="), (">=", ">"), ("=", "<", ">"))
NEIGHBOURS = {"A+ a": "a.x <= NEXT(a).x", "B+ b": "b.y != NEXT(b).y", "A+ d": "d.x > NEXT(d).x"}
WINDOWS = ("", "", " WITHIN 6 SLIDE 2", " WITHIN 4 SLIDE 4")
SPANS = (" WITHIN 3", " WITHIN 5")


def query_of(
    choose: random.Random, pattern: str, names: str, *, adjacent: bool, windows: tuple[str, ...] = WINDOWS
) -> str:
    """A query that compares one attribute of the first variable with attributes of the others."""
    first, *others = names
    own = choose.choice([f"{first}.x", f"{first}.y", f"{first}.x * 2", f"{first}.name", f"{first}.k"])
    columns = ("name", "k") if "name" in own or ".k" in own else ("x", "x", "y", "x + 1")
    orders = choose.choice(SIDES)
    found = [f"{other}.{choose.choice(columns)} {choose.choice(orders)} {own}" for other in others]
    found += [one for part, one in NEIGHBOURS.items() if adjacent and part in pattern and choose.random() < 0.7]
    bound = [name for name in names if name not in "nmo"]
    returning = RETURNING.format(v=choose.choice(bound), w=choose.choice(bound))
    group = choose.choice([" GROUP BY case", " GROUP BY case, g"])
    return f"{returning}PATTERN {pattern} WHERE {' AND '.join(found)}{group}{choose.choice(windows)}"


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_an_extreme_event_stands_for_all(pattern: str, names: str) -> None:
    compared = {sweep: 0, kernel: 0}
    for seed in range(16):
        choose = random.Random(f"{pattern} {names} {seed}")
        strategy = (sweep, kernel)[seed % 2]
        query = cet.parse(query_of(choose, pattern, names, adjacent=strategy is kernel))._query()
        rows, ties = generators.stacked(90_000 + 8 * seed, 8), choose.choice([(), (), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        compared[strategy] += compare(query, rows, ties, NUMBERS[seed // 2 % 4], cuts, seed, strategy)
    assert min(compared.values()) >= 4


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_trends_are_listed_about_it(pattern: str, names: str) -> None:
    listed = 0
    for seed in range(8):
        choose = random.Random(f"{pattern} {names} {seed} trends")
        query = cet.parse(query_of(choose, pattern, names, adjacent=True, windows=WINDOWS + SPANS))._query()
        rows, ties = generators.stacked(95_000 + 8 * seed, 8), choose.choice([(), ("s",)])
        cuts = (-1, 1, 3) if query.window is not None else (-1,)
        listed += check_trends(attrs.evolve(query, returning=(), group_by=()), rows, ties, cuts, seed)
    assert listed == 8
