"""What a query means and how it will run, as data first and as text, DOT or HTML after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.frozen
class PlanView:
    """Placeholder until view.py is written."""

    title: str


@attrs.frozen(repr=False)
class Explanation:
    """The text of the asked stages."""

    text: str

    def __repr__(self) -> str:
        return self.text


def explain_query(
    stage: str | None, query: Any, resolved: Any, rewritten: Any, trace: Any, decision: Any, dataframe: Callable[[], Any]
) -> Explanation:
    """Provisional."""
    return Explanation(f"{query}\n{trace}\n{decision}")


def automaton_view(automaton: Any, adjacent_predicates: Any = ()) -> PlanView:
    """Provisional."""
    return PlanView("automaton")
