"""Adds ``pattern`` to Spark's DataFrame classes."""

from __future__ import annotations

from cetdsl.execution.compat import dataframe_classes
from cetdsl.frontend.session import pattern


def install() -> None:
    """Gives every DataFrame class the method ``pattern`` (done by ``import cetdsl``)."""
    for cls in dataframe_classes():
        cls.pattern = pattern  # type: ignore[attr-defined]
