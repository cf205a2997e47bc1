"""Adds ``pattern`` and ``patterns`` to Spark's DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame

from cetdsl.frontend.session import pattern
from cetdsl.frontend.workload import patterns


def install() -> None:
    """Gives DataFrames the methods ``pattern`` and ``patterns`` (done by ``import cetdsl``).

    Classic and Connect DataFrames both derive from this class, so Connect's own need not be imported, which would cost
    every Python worker 60 MB. Connect takes an unknown attribute for a column, but looks here first.
    """
    DataFrame.pattern = pattern  # type: ignore[attr-defined]
    DataFrame.patterns = patterns  # type: ignore[attr-defined]
