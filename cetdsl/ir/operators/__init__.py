"""Physical operators, one per file: what a plan is a tree of.

from __future__ import annotations

An operator owns its children, what it requires of their rows, what it gives, how ``explain`` describes it, how its time
grows, and the name of the kernel stage that runs it. :mod:`cetdsl.execution` has one function for each.
"""

from cetdsl.ir.operators.aggregate_trends import AggregateTrends
from cetdsl.ir.operators.build_graph import BuildGraph, OverGraph
from cetdsl.ir.operators.check_trends import CheckTrends
from cetdsl.ir.operators.count_paths import CountPaths
from cetdsl.ir.operators.drop_contained import DropContained
from cetdsl.ir.operators.exchange import EventsInOrder, Exchange, RowsInOrder, with_exchanges
from cetdsl.ir.operators.fold import Fold
from cetdsl.ir.operators.join_paths import JoinPaths
from cetdsl.ir.operators.join_sides import JoinSides
from cetdsl.ir.operators.limit import Limit
from cetdsl.ir.operators.list_paths import ListPaths
from cetdsl.ir.operators.list_trends import ListTrends
from cetdsl.ir.operators.merge import Merge
from cetdsl.ir.operators.operator import Operator, Requirement, Step
from cetdsl.ir.operators.pair_counts import PairCounts
from cetdsl.ir.operators.panes import BuildPanes, MultiplyPanes
from cetdsl.ir.operators.propagate import Propagate
from cetdsl.ir.operators.sample import SamplePaths, SampleTrends
from cetdsl.ir.operators.scan import Scan
from cetdsl.ir.operators.show_graph import ShowGraph
from cetdsl.ir.operators.show_trends import ShowTrends
from cetdsl.ir.operators.survey import SurveyGraphs
from cetdsl.ir.operators.top import TopPaths, TopTrends
from cetdsl.ir.operators.union import Union

__all__ = [
    "AggregateTrends",
    "BuildGraph",
    "BuildPanes",
    "CheckTrends",
    "CountPaths",
    "DropContained",
    "EventsInOrder",
    "Exchange",
    "Fold",
    "JoinPaths",
    "JoinSides",
    "Limit",
    "ListPaths",
    "ListTrends",
    "Merge",
    "MultiplyPanes",
    "Operator",
    "OverGraph",
    "PairCounts",
    "Propagate",
    "Requirement",
    "RowsInOrder",
    "SamplePaths",
    "SampleTrends",
    "Scan",
    "ShowGraph",
    "ShowTrends",
    "Step",
    "SurveyGraphs",
    "TopPaths",
    "TopTrends",
    "Union",
    "with_exchanges",
]
