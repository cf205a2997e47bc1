"""Which cases of a test run on which kind of Spark (see ``conftest.py``), and on what Java."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

#: Thousands of small plans: a JVM that compiles quickly ends sooner than one that compiles well.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def more_on_classic(first: Any, *more: Any) -> list[Any]:
    """Parameters of which Spark Connect tries only the first: the plans are those of classic Spark."""
    return [first, *(pytest.param(*_values(each), marks=pytest.mark.classic) for each in more)]


def _values(case: Any) -> Iterable[Any]:
    return case if isinstance(case, tuple) else (case,)
