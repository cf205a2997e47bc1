"""Adds ``pattern``, ``patterns`` and ``match_recognize`` to Spark's DataFrames."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame


class _LoadedWhenAsked:
    """Stands for a function of the front end as a method, and gives way to it when the method is first asked for."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, df: DataFrame | None, kind: type[DataFrame]) -> Any:
        function = getattr(import_module(self._module), self._name)
        setattr(DataFrame, self._name, function)
        return function.__get__(df, kind)


def install() -> None:
    """Gives DataFrames the methods ``pattern``, ``patterns`` and ``match_recognize`` (done by ``import cetdsl``).

    Classic and Connect DataFrames both derive from this class, so Connect's own need not be imported, which would cost
    every Python worker 60 MB. Connect takes an unknown attribute for a column, but looks here first.
    """
    DataFrame.pattern = _LoadedWhenAsked("cetdsl.frontend.session", "pattern")  # type: ignore[attr-defined]
    DataFrame.patterns = _LoadedWhenAsked("cetdsl.frontend.workload", "patterns")  # type: ignore[attr-defined]
    matching = _LoadedWhenAsked("cetdsl.frontend.match_recognize", "match_recognize")
    DataFrame.match_recognize = matching  # type: ignore[attr-defined]
