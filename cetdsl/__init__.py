"""Event trends in PySpark: a declarative language of event patterns over DataFrames.

A Python worker of Spark imports this package for its kernels alone, so the front end is loaded when one of its names is
first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cetdsl.errors import CetdslError
from cetdsl.frontend.install import install

if TYPE_CHECKING:
    from cetdsl.frontend.aggregation import AggregationPlan, aggregation_plan
    from cetdsl.frontend.match_recognize import match_recognize
    from cetdsl.frontend.patterns import (
        EventVariable,
        PatternTerm,
        QueryTerm,
        absent,
        all_of,
        any_of,
        event,
        events,
        kleene,
        optional,
        parse,
        repeat,
        seq,
        star,
    )
    from cetdsl.frontend.session import PatternFrame, pattern
    from cetdsl.frontend.sql import sql
    from cetdsl.frontend.table_function import register
    from cetdsl.frontend.terms import (
        Term,
        avg,
        col,
        count,
        first,
        fn,
        last,
        length,
        max,
        min,
        next_,
        prev,
        stddev,
        stddev_pop,
        sum,
        var_pop,
        variance,
    )
    from cetdsl.frontend.timeline import timeline
    from cetdsl.frontend.warm_up import warm_up
    from cetdsl.frontend.watch import watch
    from cetdsl.frontend.window_counts import window_counts
    from cetdsl.frontend.workload import Workload, patterns

__version__ = "0.1.0"

__all__ = [
    "AggregationPlan",
    "CetdslError",
    "EventVariable",
    "PatternFrame",
    "PatternTerm",
    "QueryTerm",
    "Term",
    "Workload",
    "absent",
    "aggregation_plan",
    "all_of",
    "any_of",
    "avg",
    "col",
    "count",
    "event",
    "events",
    "first",
    "fn",
    "kleene",
    "last",
    "length",
    "match_recognize",
    "max",
    "min",
    "next_",
    "optional",
    "parse",
    "pattern",
    "patterns",
    "prev",
    "register",
    "repeat",
    "seq",
    "sql",
    "star",
    "stddev",
    "stddev_pop",
    "sum",
    "timeline",
    "var_pop",
    "variance",
    "warm_up",
    "watch",
    "window_counts",
]

# cetdsl.pattern is also a package: it is imported now, as a later first import would replace the function of its name.
import_module("cetdsl.pattern")
del globals()["pattern"]

#: The modules of the front end that define the public names.
_HOMES = (
    "patterns",
    "terms",
    "session",
    "workload",
    "aggregation",
    "match_recognize",
    "sql",
    "table_function",
    "timeline",
    "warm_up",
    "watch",
    "window_counts",
)

#: The modules that are public themselves; each is loaded when it is first asked for.
_MODULES = ("datasets", "errors")

if not TYPE_CHECKING:  # or type checkers would take any name for one of the package

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f"cetdsl.{name}")
        for module in _HOMES if name in __all__ else ():
            offered = vars(import_module(f"cetdsl.frontend.{module}"))
            if name in offered:
                globals()[name] = offered[name]
                return offered[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MODULES})


install()
