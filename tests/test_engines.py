"""Every engine gives the reference enumerator's answer, on generated queries over generated streams.

One Spark job judges a query over many streams at once: each stream is a group of one DataFrame. Two queries are asked
at a time, because most of a small job is waiting.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import attrs
import generators
import pytest
import reference

import cetdsl as cet
from cetdsl.analysis import Binding, analyse
from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.compat import schema_of
from cetdsl.execution.run import run
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse
from cetdsl.planning.planner import plan_aggregate
from cetdsl.planning.strategies.enumerate import enumerate_and_aggregate
from cetdsl.planning.strategies.fold import fold
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.request import Declined
from cetdsl.rewrite import rewrite

STREAMS = 40
SCHEMA = generators.SCHEMA + ", case int"
NUMBERS = ("decimal", "string", "double", "log2")
STRATEGIES = {"fold": fold, "kernel": kernel, "enumerate": enumerate_and_aggregate}
SIMPLE = generators.Features().without(
    "negation", "edge_negation", "nested_negation", "complex_negation", "correlated_negation",
    "adjacent", "inseparable", "pairwise", "aggregate_predicates", "span", "partition", "top_conjunction",
)  # fmt: skip
ALL = generators.Features(returned_strings=True)


def by_case(query: Query) -> Query:
    """The query with each stream as a group of its own."""
    return attrs.evolve(query, group_by=("case", *query.group_by))


class Judge:
    """Streams in one DataFrame, and the answers that they should give."""

    def __init__(self, spark: Any, first: int) -> None:
        self.rows = generators.stack([generators.random_stream(first + n) for n in range(STREAMS)])
        self.df = spark.createDataFrame([tuple(row.values()) for row in self.rows], SCHEMA).cache()
        assert list(self.rows[0]) == self.df.columns

    def strategies(self, query: Query, ties: tuple[str, ...], number: str) -> dict[str, Any]:
        """The lazy answer of each strategy that does not decline."""
        resolved, _ = rewrite(analyse(query, schema_of(self.df), Binding("t", ties)))
        named = tuple((item.output_name, item.aggregate) for item in resolved.query.returning)
        answers = {}
        for name, strategy in STRATEGIES.items():
            if name == "enumerate" and "kernel" in answers and hash(unparse(query)) % 4:
                continue  # it shares the kernel of trends(), which is judged on every query below

            def only(request: Any, strategy: Any = strategy) -> Any:
                plan = strategy(request)
                if isinstance(plan, Declined):
                    raise _DeclinedError(plan.reason)
                return plan

            try:
                answers[name] = run(self.df, plan_aggregate(resolved, named, number, [only]).plan)
            except (_DeclinedError, UnsupportedQuery):
                continue
        return answers

    def judge(self, query: Query, ties: tuple[str, ...], number: str) -> set[str]:
        """Compares all strategies' answers with the reference; gives the strategies that answered."""
        query = by_case(query)
        aggregates = {item.output_name: item.aggregate for item in query.returning}
        expected = reference.aggregate(query, self.rows, aggregates, tie_break=ties)
        answers = self.strategies(query, ties, number)
        for name, answer in answers.items():
            found = {}
            for row in answer.collect():
                values = row.asDict()
                window = values.pop("window", None)
                key = tuple(reference._key(values.pop(column)) for column in query.group_by)
                assert (key, window) not in found, (name, "two rows of one group and window", key)
                found[key, tuple(window) if window else None] = values
            context = f"{name}, number={number}, ties={ties}\n{unparse(query)}"
            assert set(found) == set(expected), f"{context}\ngroups differ: {set(found) ^ set(expected)}"
            for key, values in expected.items():
                for column, value in values.items():
                    got = found[key][column]
                    assert agrees(got, value, number, aggregates[column]), (context, key, column, got, value)
        return set(answers)

    def judge_trends(self, query: Query, ties: tuple[str, ...]) -> bool:
        """Compares the trends themselves; False where listing them is refused."""
        query = by_case(query)
        try:
            answer = cet.pattern(self.df, query, time="t", tie_break=ties).trends(columns=["id"])
        except UnsupportedQuery:
            return False
        expected: dict[Any, list[Any]] = {}
        for (group, window, _), found in reference.trends(query, self.rows, tie_break=ties).items():
            expected.setdefault((group, window), []).extend(shown(trend) for trend in found)
        got: dict[Any, list[Any]] = {}
        for row in answer.collect():
            values = row.asDict()
            window = values.get("window")
            key = tuple(reference._key(values[column]) for column in query.group_by), tuple(window) if window else None
            got.setdefault(key, []).append(tuple((b.event.id, b.variable) for b in row.trend))
        if query.pattern.__class__.__name__ == "And":
            got = {key: [tuple(sorted(trend)) for trend in found] for key, found in got.items()}
        expected = {key: sorted(found) for key, found in expected.items()}
        assert {key: sorted(found) for key, found in got.items()} == expected, f"trends, ties={ties}\n{unparse(query)}"
        return True


class _DeclinedError(Exception):
    pass


def shown(trend: Any) -> Any:
    if isinstance(trend, frozenset):
        return tuple(sorted(binding for side in trend for binding in side))
    return tuple(trend)


def agrees(got: Any, value: Any, number: str, aggregate: Any) -> bool:
    """Whether a result in a number form is the exact value."""
    is_number = aggregate.function in ("count", "sum") and value is not None and not isinstance(value, float)
    if is_number and number == "string":
        return isinstance(got, str) and Decimal(got) == value
    if is_number and number == "log2":
        if value < 0:
            return math.isnan(got)
        return got == -math.inf if value == 0 else math.isclose(got, math.log2(value), abs_tol=1e-12)
    return reference.same_value(got, value)


def run_cases(spark: Any, features: generators.Features, first: int, count: int) -> dict[str, int]:
    """Judges ``count`` queries; how often each strategy answered."""
    judge = Judge(spark, first)
    used: dict[str, int] = {}

    def one(seed: int) -> set[str]:
        case = generators.random_case(seed, features)
        names = judge.judge(case.query, case.tie_break, NUMBERS[seed % 4])
        return names | ({"trends"} if judge.judge_trends(case.query, case.tie_break) else set())

    with ThreadPoolExecutor(2) as pool:
        for names in pool.map(one, range(first, first + count)):
            for name in names:
                used[name] = used.get(name, 0) + 1
    return used


@pytest.mark.parametrize("first", [0, 10_000])
def test_simple_queries(spark: Any, first: int) -> None:
    used = run_cases(spark, SIMPLE, first, 12)
    assert used["kernel"] == used["trends"] == 12
    assert used["fold"] >= 2


@pytest.mark.parametrize("first", [20_000, 30_000, 40_000])
def test_all_queries(spark: Any, first: int) -> None:
    used = run_cases(spark, ALL, first, 16)
    assert used["kernel"] >= 6
    assert used["trends"] >= 12
