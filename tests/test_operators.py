"""Plans as trees of operators: what each requires is met by an exchange, and each has a function that runs it."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from test_explain import SCHEMA

import cetdsl.ir.operators
from cetdsl.analysis import Binding, analyse
from cetdsl.execution.operators import _RUN
from cetdsl.frontend.sase import parse
from cetdsl.ir.operators import Exchange, Merge, Operator, OverGraph, Propagate, Scan, Sweep, with_exchanges
from cetdsl.ir.operators.operator import Carry, Unary
from cetdsl.ir.operators.together import Together
from cetdsl.kernels.entry import _STAGES
from cetdsl.pattern.expressions import Aggregate
from cetdsl.planning.planner import plan_aggregate
from cetdsl.planning.sorting import exchanged
from cetdsl.rewrite import rewrite


def kinds() -> list[type[Operator]]:
    """All operators, wherever they are defined."""
    for module in pkgutil.iter_modules(cetdsl.ir.operators.__path__):
        importlib.import_module(f"cetdsl.ir.operators.{module.name}")
    found = [Operator]
    for kind in found:
        found += [below for below in kind.__subclasses__() if below not in found and "__attrs_attrs__" in vars(below)]
    return [kind for kind in found if kind not in (Operator, Unary, OverGraph, Carry, Together)]


def planned(text: str) -> Operator:
    rewritten, _ = rewrite(analyse(parse(text), SCHEMA, Binding()))
    return plan_aggregate(rewritten, (("n", Aggregate("count")),), "decimal").plan


def test_each_operator_has_a_function_that_runs_it() -> None:
    # A scan is read by whoever reads its rows; a graph is shown part by part, and a workload answered query by query.
    assert {kind.__name__ for kind in kinds() if kind not in _RUN} == {
        "Scan",
        "ShowGraph",
        "AnswerTogether",
        "ListTogether",
    }


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_the_stage_of_an_operator_is_one_of_the_kernels(kind: type[Operator]) -> None:
    assert kind.stage is None or kind.stage in _STAGES


def test_exchanges_lie_between_operators_that_require_something_and_their_input() -> None:
    shape = [Merge, Exchange, Propagate, Exchange, Scan]
    plan = planned("PATTERN A+ WHERE [company] AND A.price < NEXT(A).price")
    assert [type(operator) for operator in plan.walk()] == shape
    swept = planned("PATTERN SEQ(A, B+) WHERE [company] AND A.price < B.price")
    assert [type(operator) for operator in swept.walk()] == [Sweep if each is Propagate else each for each in shape]


def test_what_is_met_is_not_met_again() -> None:
    plan = planned("PATTERN A+ AND SEQ(A, B?) WHERE A.id = NEXT(A).id")
    assert exchanged(plan) == plan


def test_another_requirement_replaces_an_exchange() -> None:
    plan = planned("PATTERN A+ WHERE A.price < NEXT(A).price")
    assert isinstance(plan, Propagate)
    other = Propagate(plan.child, plan.spec.with_answer(exact=False), plan.values)
    exchange = with_exchanges(other).children[0]
    assert isinstance(exchange, Exchange)
    assert isinstance(exchange.child, Scan)
    assert exchange.gives_rows == other.requires[0] != plan.requires[0]


def test_an_operator_is_described_without_its_class() -> None:
    """explain() asks operators; it knows none of them."""
    import ast
    from pathlib import Path

    source = (Path(cetdsl.ir.operators.__file__).parents[2] / "explain" / "physical.py").read_text(encoding="utf-8")
    assert "isinstance" not in {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
