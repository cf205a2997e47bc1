"""Random problems and statistics for the tests of detection plans."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from cetdsl.detection.plans import Problem, Variable
from cetdsl.detection.statistics import Statistics

NAMES = "abcdefgh"


def order_of(nodes: Any) -> tuple[set[tuple[int, int]], list[int]]:
    """The pairs of variables that a nested pattern, as ("seq", 0, ("and", 1, 2)), orders in time, and all of them."""
    if isinstance(nodes, int):
        return set(), [nodes]
    kind, *parts = nodes
    pairs: set[tuple[int, int]] = set()
    seen: list[int] = []
    for part in parts:
        inner, positions = order_of(part)
        pairs |= inner
        if kind == "seq":
            pairs |= set(itertools.product(seen, positions))
        seen += positions
    return pairs, seen


@st.composite
def patterns(draw: Any, positions: tuple[int, ...]) -> Any:
    """SEQ and AND, nested, over these variables."""
    if len(positions) == 1:
        return positions[0]
    cut = draw(st.integers(1, len(positions) - 1))
    kind = draw(st.sampled_from(["seq", "and"]))
    return kind, draw(patterns(positions[:cut])), draw(patterns(positions[cut:]))


@st.composite
def problems(draw: Any, most: int = 5, least: int = 1, kleene: bool = True) -> Problem:
    count = draw(st.integers(least, most))
    flat = st.sampled_from([("seq", *range(count)), ("and", *range(count))])
    ordered, _ = order_of(draw(st.one_of(flat, patterns(tuple(range(count))))))
    bounds = [(1, 1), (1, None), (2, 3)] if kleene else [(1, 1)]
    chosen = [draw(st.sampled_from(bounds)) for _ in range(count)]
    pairs = [(i, j) for j in range(count) for i in range(j + 1)]
    return Problem(
        tuple(
            Variable(name, *bound, draw(st.integers(0, 2)) if bound != (1, 1) else 0)
            for name, bound in zip(NAMES, chosen)
        ),
        frozenset(ordered),
        draw(st.frozensets(st.sampled_from(pairs), max_size=4)),
        draw(st.frozensets(st.sampled_from(pairs), max_size=1)),
        draw(st.sampled_from([None, 0.5, 10.0])),
        draw(st.booleans()),
        draw(st.sampled_from([(), (tuple(range(count)),), (tuple(range(count)), tuple(reversed(range(count))))])),
    )


#: Few values, so that many statistics tie. Zero is among them, and a rate of which the number of sets of events is more
#: than a double can hold.
RATES = st.sampled_from([0.0, 0.1, 1.0, 2.0, 2.5, 10.0, 100.0, 3000.0])
SHARES = st.sampled_from([0.0, 1e-6, 0.1, 0.25, 0.5, 1.0])


@st.composite
def statistics_of(draw: Any, problem: Problem) -> Statistics:
    """Statistics of a problem, of which some are missing."""
    names = problem.names
    pairs = [(names[i], names[j]) for i, j in sorted(problem.predicates | problem.adjacent)]
    return Statistics(
        {name: draw(st.one_of(RATES, st.floats(0, 1000))) for name in names if draw(st.integers(0, 9))},
        {pair: draw(st.one_of(SHARES, st.floats(0, 1))) for pair in pairs if draw(st.integers(0, 9))},
    )


@st.composite
def changed(draw: Any, statistics: Statistics) -> Statistics:
    """Other statistics: some a little off, some by much, some as they were."""
    factor = st.sampled_from([0.0, 0.01, 0.5, 0.9, 1.0, 1.0, 1.0, 1.1, 2.0, 100.0])
    return Statistics(
        {name: rate * draw(factor) for name, rate in statistics.rates.items()},
        {pair: min(share * draw(factor), 1.0) for pair, share in statistics.selectivities.items()},
    )


def allowed_share(problem: Problem, mask: int) -> Fraction:
    """The share of all orders of some variables that the pattern allows, by trying them all."""
    positions = [position for position in range(len(problem.variables)) if mask >> position & 1]
    orders = list(itertools.permutations(positions))
    good = [
        order
        for order in orders
        if all(order.index(a) < order.index(b) for a, b in problem.ordered if a in positions and b in positions)
    ]
    return Fraction(len(good), len(orders))
