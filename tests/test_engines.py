"""Every engine gives the reference enumerator's answer, on generated queries over generated streams.

One Spark job judges a query over many streams at once: each stream is a group of one DataFrame.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import attrs
import generators
import pytest
import reference
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import cetdsl as cet
from cetdsl.analysis import Binding, analyse
from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.compat import schema_of
from cetdsl.execution.operators import run
from cetdsl.ir.sorting import KERNEL, RUNS, SPARK, AskedSort
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse
from cetdsl.planning.planner import AGGREGATE_STRATEGIES, plan_aggregate, strategy_name
from cetdsl.planning.strategies.panes import panes
from cetdsl.planning.strategies.request import Declined
from cetdsl.rewrite import rewrite

STREAMS = 40
NUMBERS = ("decimal", "string", "double", "log2")
#: All but panes, which declines where it would not pay; test_panes.py asks it whether that pays or not.
STRATEGIES = {strategy_name(each): each for each in AGGREGATE_STRATEGIES if each is not panes}
SIMPLE = generators.Features().without(
    "negation", "edge_negation", "nested_negation", "complex_negation", "correlated_negation",
    "adjacent", "inseparable", "pairwise", "aggregate_predicates", "span", "partition", "top_conjunction",
)  # fmt: skip
ALL = generators.Features(returned_strings=True)


def by_case(query: Query) -> Query:
    """The query with each stream as a group of its own."""
    return attrs.evolve(query, group_by=("case", *query.group_by))


def sorted_by(query: Query) -> AskedSort:
    """Who sorts, by chance: Spark, the kernel in memory or with a file for each batch that comes, or both by runs."""
    sorters = (AskedSort(SPARK), AskedSort(KERNEL), AskedSort(KERNEL, memory=1), AskedSort(RUNS))
    return sorters[len(unparse(query)) % len(sorters)]


class Judge:
    """Streams in one DataFrame, and the answers that they should give."""

    def __init__(self, rows: list[generators.Row], df: Any) -> None:
        self.rows, self.df = rows, df

    def strategies(self, query: Query, ties: tuple[str, ...], number: str) -> dict[str, Any]:
        """The lazy answer of each strategy that does not decline."""
        resolved, _ = rewrite(analyse(query, schema_of(self.df), Binding("t", ties, sort=sorted_by(query))))
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
                # Fold declines where the kernel, or both, are asked to sort.
                asked = attrs.evolve(resolved, sort=AskedSort(SPARK)) if name == "fold" else resolved
                answers[name] = run(self.df, plan_aggregate(asked, named, number, [only]).plan)
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
            asked = sorted_by(query)
            bound = cet.pattern(self.df, query, time="t", tie_break=ties, sort=asked.by, sort_memory=asked.memory)
            answer = bound.trends(columns=["id"])
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
    is_number = aggregate.definition.is_total and value is not None and not isinstance(value, float)
    if is_number and number == "string":
        return isinstance(got, str) and Decimal(got) == value
    if is_number and number == "log2":
        if value < 0:
            return math.isnan(got)
        return got == -math.inf if value == 0 else math.isclose(got, math.log2(value), abs_tol=1e-12)
    return reference.same_value(got, value)


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    return judge_of(spark, generators.stacked(0, STREAMS))


def judge_of(spark: Any, rows: list[generators.Row]) -> Judge:
    return Judge(rows, generators.frame(spark, rows).cache())


def property_of(examples: int, features: generators.Features) -> Any:
    """A property over generated queries. Each example is one query over all streams, so few of them say much.

    Shrinking would ask Spark hundreds of times; the failing query is printed as text instead.
    """

    def decorate(test: Any) -> Any:
        given_cases = given(case=generators.cases(features), number=st.sampled_from(NUMBERS))(test)
        return settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )(given_cases)

    return decorate


@pytest.mark.classic
@property_of(16, SIMPLE)
def test_fold_and_kernel_agree_on_counts(judge: Judge, case: generators.Case, number: str) -> None:
    counts = [item for item in case.query.returning if item.aggregate.function == "count"]
    query = attrs.evolve(case.query, returning=counts)
    used = judge.judge(query, case.tie_break, "decimal" if number in ("decimal", "string") else "double")
    window = query.window
    overlaps = window is not None and (window.slide is None or window.slide.amount < window.length.amount)
    assert used >= ({"kernel"} if overlaps else {"fold", "kernel"})


@pytest.mark.classic
@pytest.mark.simple_plans
@property_of(20, SIMPLE)
def test_simple_queries(judge: Judge, case: generators.Case, number: str) -> None:
    assert "kernel" in judge.judge(case.query, case.tie_break, number)
    assert judge.judge_trends(case.query, case.tie_break)


@pytest.mark.classic
@pytest.mark.simple_plans
@property_of(45, ALL)
def test_all_queries(judge: Judge, case: generators.Case, number: str) -> None:
    answered = judge.judge(case.query, case.tie_break, number)
    listed = judge.judge_trends(case.query, case.tie_break)
    event(f"answered by {sorted(answered)}")
    event(f"trends are {'listed' if listed else 'refused'}")
