"""Physical operators, one per file; a plan is a tree of them.

An operator owns its children, its requirements on their rows, the columns that it gives, its description for
``explain``, how its time grows, and the name of the kernel stage that executes it. :mod:`cetdsl.execution` has one
function for each.
"""

from cetdsl.ir.operators.aggregate_trends import AggregateTrends as AggregateTrends
from cetdsl.ir.operators.answer_together import AnsweredAlone as AnsweredAlone
from cetdsl.ir.operators.answer_together import AnswerTogether as AnswerTogether
from cetdsl.ir.operators.build_graph import BuildGraph as BuildGraph
from cetdsl.ir.operators.build_graph import OverGraph as OverGraph
from cetdsl.ir.operators.build_panes import BuildPanes as BuildPanes
from cetdsl.ir.operators.build_stretches import BuildStretches as BuildStretches
from cetdsl.ir.operators.check_trends import CheckTrends as CheckTrends
from cetdsl.ir.operators.choose_trends import ChooseTrends as ChooseTrends
from cetdsl.ir.operators.count_joined import CountJoined as CountJoined
from cetdsl.ir.operators.count_paths import CountPaths as CountPaths
from cetdsl.ir.operators.detect_together import DetectTogether as DetectTogether
from cetdsl.ir.operators.detect_together import Listed as Listed
from cetdsl.ir.operators.detect_trends import DetectTrends as DetectTrends
from cetdsl.ir.operators.drop_contained import DropContained as DropContained
from cetdsl.ir.operators.events_in_order import EventsInOrder as EventsInOrder
from cetdsl.ir.operators.exchange import Exchange as Exchange
from cetdsl.ir.operators.exchange import with_exchanges as with_exchanges
from cetdsl.ir.operators.find_matches import FindMatches as FindMatches
from cetdsl.ir.operators.find_pieces import FindPieces as FindPieces
from cetdsl.ir.operators.first_of_each import SampleOfEach as SampleOfEach
from cetdsl.ir.operators.first_of_each import TopOfEach as TopOfEach
from cetdsl.ir.operators.fold import Fold as Fold
from cetdsl.ir.operators.join_events import JoinEvents as JoinEvents
from cetdsl.ir.operators.join_paths import JoinPaths as JoinPaths
from cetdsl.ir.operators.join_pieces import InEveryShare as InEveryShare
from cetdsl.ir.operators.join_pieces import JoinPieces as JoinPieces
from cetdsl.ir.operators.join_sides import JoinSides as JoinSides
from cetdsl.ir.operators.join_together import JoinTogether as JoinTogether
from cetdsl.ir.operators.limit import Limit as Limit
from cetdsl.ir.operators.list_paths import ListPaths as ListPaths
from cetdsl.ir.operators.list_together import ListedAlone as ListedAlone
from cetdsl.ir.operators.list_together import ListTogether as ListTogether
from cetdsl.ir.operators.list_trends import ListTrends as ListTrends
from cetdsl.ir.operators.measure_choice import MeasureChoice as MeasureChoice
from cetdsl.ir.operators.measure_detection import MeasureDetection as MeasureDetection
from cetdsl.ir.operators.measure_instances import MeasureInstances as MeasureInstances
from cetdsl.ir.operators.merge import Merge as Merge
from cetdsl.ir.operators.merge_together import MergeTogether as MergeTogether
from cetdsl.ir.operators.messages import Messages as Messages
from cetdsl.ir.operators.multiply_panes import MultiplyPanes as MultiplyPanes
from cetdsl.ir.operators.multiply_stretches import MultiplyStretches as MultiplyStretches
from cetdsl.ir.operators.operator import Operator as Operator
from cetdsl.ir.operators.operator import Step as Step
from cetdsl.ir.operators.pair_counts import PairCounts as PairCounts
from cetdsl.ir.operators.panes_in_order import PanesInOrder as PanesInOrder
from cetdsl.ir.operators.panes_in_place import PanesInPlace as PanesInPlace
from cetdsl.ir.operators.propagate import Propagate as Propagate
from cetdsl.ir.operators.propagate_together import PropagateTogether as PropagateTogether
from cetdsl.ir.operators.read_again import ReadAgain as ReadAgain
from cetdsl.ir.operators.rows_in_order import RowsInOrder as RowsInOrder
from cetdsl.ir.operators.sample_detection import SampleDetection as SampleDetection
from cetdsl.ir.operators.sample_joined import SampleJoined as SampleJoined
from cetdsl.ir.operators.sample_paths import SamplePaths as SamplePaths
from cetdsl.ir.operators.sample_trends import SampleTrends as SampleTrends
from cetdsl.ir.operators.scan import Scan as Scan
from cetdsl.ir.operators.show_graph import ShowGraph as ShowGraph
from cetdsl.ir.operators.show_trends import ShowTrends as ShowTrends
from cetdsl.ir.operators.survey_graphs import SurveyGraphs as SurveyGraphs
from cetdsl.ir.operators.sweep import Sweep as Sweep
from cetdsl.ir.operators.top_paths import TopPaths as TopPaths
from cetdsl.ir.operators.top_trends import TopTrends as TopTrends
from cetdsl.ir.operators.union import Union as Union
