"""DetectTrends: the kernel puts trends together in the order of plans."""

from __future__ import annotations

from typing import Any

import attrs

from cetdsl.detection.cost import Expectation
from cetdsl.detection.plans import Plan, Problem, TreePlan
from cetdsl.detection.statistics import Statistics
from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.operators import words
from cetdsl.ir.operators.list_trends import ListTrends
from cetdsl.ir.operators.operator import Step

#: Above this power of two, ``explain`` shows the number of partial matches by its logarithm.
_MANY_BITS = 50


@attrs.frozen
class Planned:
    """The plans of the branches, with the problems they solve; ``asked`` is what the user requested."""

    problems: tuple[Problem, ...]
    plans: tuple[Plan, ...]
    asked: str | tuple[Any, ...]
    statistics: Statistics | None = None
    sampled: bool = False

    def expected(self) -> tuple[tuple[float, ...], ...]:
        """Returns log2 of the expected number of partial matches of each step, for each branch."""
        known = self.statistics or Statistics()
        return tuple(Expectation(problem, known).steps(plan) for problem, plan in zip(self.problems, self.plans))


@attrs.frozen(kw_only=True)
class DetectTrends(ListTrends):
    """Gives the rows of :class:`ListTrends`; each branch of the query has a plan."""

    plans: tuple[BranchPlan, ...]
    planned: Planned
    stage = "detect"

    @property
    def learning(self) -> tuple[BranchPlan, ...]:
        adapting = [plan.adapting for plan in self.plans if plan.adapting is not None]
        return self.plans if any(one.adaptation.method != "static" for one in adapting) else ()

    def steps(self) -> tuple[Step, ...]:
        stops = (f"stops after {self.limit}",) if self.limit is not None else ()
        if self.planned.statistics is None:
            lines = [self._order(number) for number in range(len(self.plans))]
        else:
            lines = [line for number in range(len(self.plans)) for line in self._expected(number)]
        return (Step("kernel: put trends together by a plan", (*lines, *stops)),)

    def _order(self, number: int) -> str:
        plan, names = self.planned.plans[number], self.planned.problems[number].names
        return f"{'join' if isinstance(plan, TreePlan) else 'bind'} {plan.show(names)}"

    def _expected(self, number: int) -> tuple[str, ...]:
        """The partial matches that each step of a branch is expected to have, in a window, span or key."""
        names, plan = self.planned.problems[number].names, self.planned.plans[number]
        each = [f"{step} {_amount(log)}" for step, log in zip(plan.steps(names), self.planned.expected()[number])]
        return self._order(number), f"partial matches expected in {words.unit_of(self.source)}: {', '.join(each)}"

    def facts(self) -> tuple[tuple[str, str], ...]:
        sampled = (("statistics", _written(self.planned.statistics)),) if self.planned.sampled else ()
        adapting = self.plans[0].adapting
        if adapting is None:
            return sampled
        events = "some thousand" if adapting.slice_events is None else str(adapting.slice_events)
        return (
            *sampled,
            (
                "adaptation",
                f"{adapting.adaptation.method}, after every {events} events of a key, which stays in one task",
            ),
        )

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"grows with the number of partial matches{words.until(limit)}",)


def _written(statistics: Statistics | None) -> str:
    """Writes the statistics of a sample."""
    known = statistics or Statistics()
    rates = [f"{name} {rate:.3g}" for name, rate in known.rates.items()]
    shares = [f"{', '.join(dict.fromkeys(pair))} {share:.3g}" for pair, share in known.selectivities.items()]
    parts = [f"{what} {', '.join(all_)}" for what, all_ in (("rates", rates), ("selectivities", shares)) if all_]
    return "of a sample: " + ("; ".join(parts) or "there are no events")


def _amount(log: float) -> str:
    return f"2^{log:.0f}" if log > _MANY_BITS else f"{2**log:.3g}"
