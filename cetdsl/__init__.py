"""Event trends in PySpark: a declarative language of event patterns over DataFrames."""

from __future__ import annotations

from cetdsl.errors import CetdslError
from cetdsl.frontend.install import install
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
from cetdsl.frontend.workload import Workload, patterns

__version__ = "0.1.0"

__all__ = [
    "CetdslError",
    "EventVariable",
    "PatternFrame",
    "PatternTerm",
    "QueryTerm",
    "Term",
    "Workload",
    "absent",
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
    "max",
    "min",
    "next_",
    "optional",
    "parse",
    "pattern",
    "patterns",
    "prev",
    "repeat",
    "seq",
    "star",
    "stddev",
    "stddev_pop",
    "sum",
    "var_pop",
    "variance",
]

install()
