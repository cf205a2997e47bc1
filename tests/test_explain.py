"""What explain() shows: the words of each stage, and pictures that stand by themselves."""

from __future__ import annotations

import itertools
import re
import sys
import threading
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import pytest

import cetdsl as cet
from cetdsl.analysis import Binding, Field, Schema, analyse
from cetdsl.errors import CetdslError, InvalidNode, UnsupportedQuery
from cetdsl.execution.printed import printed
from cetdsl.explain import Explanation, draw_automaton, explain_query
from cetdsl.explain.automata import automaton_view, pattern_view
from cetdsl.explain.graphviz import dot_of
from cetdsl.explain.html import fragment_of, page_of
from cetdsl.explain.physical import STRATEGIES
from cetdsl.explain.stages import DECISIONS, STAGES, Analysed, Plans
from cetdsl.explain.svg import svg_of
from cetdsl.explain.text import text_of
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode
from cetdsl.frontend import session
from cetdsl.frontend.sase import parse
from cetdsl.ir.indexes import TREE, index_of_edge
from cetdsl.ir.machine import Edge
from cetdsl.ir.operators import Merge
from cetdsl.pattern.automaton import build_automaton
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.nodes import Event, Pattern, Repeat, Seq
from cetdsl.planning.planner import (
    AGGREGATE_STRATEGIES,
    COMPLETE_REQUEST_STRATEGIES,
    COMPLETE_STRATEGIES,
    TRENDS_STRATEGIES,
    Decision,
    plan_aggregate,
    plan_trends,
    strategy_name,
)
from cetdsl.planning.strategies.join_events import join_events
from cetdsl.planning.strategies.match import match
from cetdsl.rewrite import rewrite

SCHEMA = Schema(
    [
        Field("ts", "timestamp"),
        Field("type", "string"),
        Field("Price", "double"),
        Field("id", "bigint"),
        Field("company", "string"),
    ]
)
RISING = (
    "RETURN COUNT(*), SUM(B.price) AS total PATTERN SEQ(A, NOT C, B+) "
    "WHERE [company] AND B.price < NEXT(B).price AND A.price > 3 WITHIN 10 minutes SLIDE 5 minutes"
)
#: One of each kind of physical plan, and what it is hard for.
QUERIES = (
    "PATTERN SEQ(A, B+)",
    "PATTERN SEQ(A, B+) GROUP BY company WITHIN 10 minutes SLIDE 10 minutes",
    RISING,
    "RETURN AVG(B.price), MAX(LENGTH) PATTERN SEQ(A, B+) WHERE A.price * 2 < B.price WITHIN 1 hour",
    "PATTERN A+ AND SEQ(A, B?)",
    "PATTERN SEQ(A, NOT SEQ(C, D), B) WHERE ABS(C.price - NEXT(D).price) < 3 AND AVG(B.price) > 3",
    "PATTERN SEQ(A, NOT D, B+) WHERE D.price < A.price AND B.id != NEXT(B).id",
    "PATTERN A+ WHERE sqrt(A.price * NEXT(A).price) < 5",
    "PATTERN SEQ(NOT C, A?, B{2,3}, NOT EVENT(`an \"odd\" \\ name`, company LIKE '<%\n'))",
    "PATTERN EVENT(x, 1 = 2)",
)


def not_asked_for() -> Any:
    raise AssertionError("a plan was made that no stage shows")


def plans(decision: Decision) -> Plans:
    """Plans of which only the one of the aggregates may be made."""
    return Plans(
        not_asked_for, not_asked_for, {"physical": lambda: decision, **dict.fromkeys(DECISIONS, not_asked_for)}
    )


def explained(text: str, stage: str | None, *, number: str = "decimal", trends: bool = False) -> Explanation:
    query = parse(text)
    resolved = analyse(query, SCHEMA, Binding())
    rewritten, trace = rewrite(resolved)
    returned = tuple((item.output_name, item.aggregate) for item in rewritten.query.returning)
    if trends:
        decision = plan_trends(rewritten, ("ts", "Price"), 5)
    else:
        decision = plan_aggregate(rewritten, returned or (("count", Aggregate("count")),), number)
    return explain_query(stage, Analysed(query, resolved, rewritten, trace), plans(decision))


def lines(text: str) -> str:
    return text.strip("\n")


# Text -----------------------------------------------------------------------------------------------------------------


def test_parsed_is_the_text_of_the_query() -> None:
    assert str(explained(RISING, "parsed")) == lines(
        """
== parsed ==
RETURN COUNT(*), SUM(B.price) AS total
PATTERN SEQ(A, NOT C, B+)
WHERE [company] AND B.price < NEXT(B).price AND A.price > 3
WITHIN 10 minutes SLIDE 5 minutes
"""
    )


def test_resolved_names_columns_and_how_events_are_read() -> None:
    assert str(explained("PATTERN SEQ(A, B+) WHERE B.price > A.price", "resolved")) == lines(
        """
== resolved ==
time          ts (timestamp), in microseconds
simultaneous  events of the same time are never in one trend
type          type
no time       an error
columns       ts timestamp, type string, Price double, id bigint, company string

PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(B, B.type = 'B')+)
WHERE B.Price > A.Price
"""
    )


def test_rewritten_shows_what_each_rule_changed() -> None:
    text = str(explained("PATTERN SEQ(A, (B+)+) WHERE A.price > 3", "rewritten"))
    assert text == lines(
        """
== rewritten ==
1. collapse-nested-repetition
   - PATTERN SEQ(EVENT(A, A.type = 'A'), (EVENT(B, B.type = 'B')+)+)
   + PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(B, B.type = 'B')+)
2. push-local-predicate
   - PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(B, B.type = 'B')+)
   - WHERE A.Price > 3
   + PATTERN SEQ(EVENT(A, A.type = 'A' AND A.Price > 3), EVENT(B, B.type = 'B')+)
3. prune-columns
   - reads ts, type, Price, id, company
   + reads ts, type, Price

-- rewritten query --
reads  ts, type, Price

PATTERN SEQ(EVENT(A, A.type = 'A' AND A.Price > 3), EVENT(B, B.type = 'B')+)
"""
    )


def test_nothing_to_rewrite_says_so() -> None:
    query = parse("PATTERN SEQ(EVENT(a), EVENT(b))")
    schema = Schema([Field("t", "int")])
    rewritten, _ = rewrite(analyse(query, schema, Binding("t", type=None)))
    again, trace = rewrite(rewritten)
    decision = plan_aggregate(again, (("count", Aggregate("count")),), "decimal")
    shown = explain_query("rewritten", Analysed(query, again, again, trace), plans(decision))
    assert "nothing to rewrite" in shown.text


def test_physical_of_a_kernel_plan() -> None:
    assert str(explained(RISING, "physical")) == lines(
        """
== physical ==
strategy      kernel: one compiled pass over each task's sorted events
declined      fold: adjacent, pairwise or aggregate predicates compare events with each other
declined      panes: adjacent, pairwise or aggregate predicates compare events with each other
declined      sweep: no predicate relates events that are no neighbours
declined      messages: the pattern is no AND of single events
cost          n log n in the events of a window
numbers       decimal: exact, DECIMAL(38,0); a count that does not fit is an error
windows       10 minutes long, one every 5 minutes; an event is in up to 2
time buckets  80 minutes each, so that many tasks share a key; events within 10 minutes of a border go to both

answer
    window, count, total
+- add up partial results
       shuffled by window
   +- kernel: carry along the automaton
          number of trends
          number of B.Price that are not NULL
          sum of B.Price
      +- sort each task's events by company, time bucket, ts
             by the kernel: cheaper for events of about 40 bytes
         +- shuffle by company, time bucket
            +- pack events, many in one row
                   a shuffle's cost grows with the rows
               +- project
                      keys: company
                      order: ts
                      which of A, B, C it may be bound to
                      compared: Price
                      aggregated: Price
                  +- keep what some variable can bind
                         A: type = 'A' AND Price > 3
                         B: type = 'B'
                         C: type = 'C'
                     +- events
                            time: ts (timestamp)
                            rows without a time: an error

-- automaton --
A       begins a trend
  -> B  NOT C  [TREE]
B       ends a trend
  -> B  B.Price < NEXT(B).Price  [TREE]
"""
    )


def test_every_strategy_is_described() -> None:
    complete = itertools.chain(*COMPLETE_STRATEGIES.values(), *COMPLETE_REQUEST_STRATEGIES.values())
    named = {strategy_name(each) for each in (*AGGREGATE_STRATEGIES, *TRENDS_STRATEGIES, join_events, match, *complete)}
    assert named == set(STRATEGIES)
    page = (Path(__file__).parent.parent / "docs" / "execution.rst").read_text(encoding="utf-8")
    for each in AGGREGATE_STRATEGIES:
        assert f"* - ``{strategy_name(each)}``" in page


def test_a_fact_of_a_new_name_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Merge, "facts", lambda merge: (("weather", "fair"),))
    facts = str(explained(RISING, "physical")).split("\n\n")[0].splitlines()
    assert facts[-1].split() == ["weather", "fair"]


def test_physical_of_a_fold_plan() -> None:
    text = explained("PATTERN SEQ(A, B+) GROUP BY company", "physical", number="double").text
    assert text.startswith(
        "== physical ==\nstrategy  fold: built-in Spark expressions only, no Python worker\n"
        "cost      linear in the events of a key, besides sorting them\nnumbers   double: rounded\n"
    )
    assert "+- fold: aggregate() over the array\n" in text
    assert "+- group by company\n          collect_list, which Spark sorts by ts\n" in text
    assert "declined" not in text
    assert "[TOTAL]" not in text, "the fold has no indexes"


def test_the_fold_does_not_hold_all_events_in_one_row() -> None:
    declined = "fold: without groups and windows one row would hold all events\n"
    assert declined in explained("PATTERN SEQ(A, B+)", "physical", number="double").text
    assert declined not in explained("PATTERN SEQ(A, B+) WITHIN 1 hour SLIDE 1 hour", "physical", number="double").text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PATTERN A+ WHERE A.id = NEXT(A).id + 1", ["[HASH]", "linear in the events of the DataFrame"]),
        ("PATTERN A+ WHERE A.price != NEXT(A).price", ["[TREE]", "n log n"]),
        ("PATTERN A+ WHERE A.id < NEXT(A).id AND A.price != NEXT(A).price", ["[SCAN]", "quadratic (pairwise scan)"]),
        ("PATTERN SEQ(A, NOT C, B)", ["[TREE]", "n log n"]),
        (
            "PATTERN SEQ(A, B+) WHERE A.price < B.price",
            [
                "strategy  sweep: ",
                "n log n in the events of the DataFrame",
                "all pairs  B.Price > A.Price (fixed: the event",
            ],
        ),
        (
            "PATTERN SEQ(A, B+, C) WHERE A.price < C.price AND A.id < B.id",
            ["declined  sweep: predicates compare two attributes of A", "one pass per event bound to A"],
        ),
        ("PATTERN A+ WITHIN 1 hour", ["a trend spans at most 1 hour", "one pass per event that can begin a trend"]),
        ("PATTERN A+ WHERE sqrt(A.price * NEXT(A).price) < 5", ["for every two events of a key", "[SCAN]"]),
        ("PATTERN A+ AND SEQ(A, B?)", ["C12*(C12 - 1)/2", "automaton of the left side", "trends of both sides"]),
        ("PATTERN A+ AND B", ["count = C1 * C2"]),
        (
            "PATTERN AND(A, B, C) WHERE A.id = B.id AND B.price < C.price",
            [
                "strategy  messages: ",
                "declined  sweep: AND at the top",
                "n log n in the events of the DataFrame",
                "B.Price < C.Price\n",
                "A.id = B.id\n",
            ],
        ),
        (
            "PATTERN AND(A, B, C) WHERE A.id = B.id AND B.price < C.price AND A.price < C.price",
            [
                "strategy  enumerate: ",
                "declined  messages: the predicates relate the variables in a circle, through ",
                "kernel: put trends together by a plan\n          bind A, B, C\n",
            ],
        ),
        (
            "PATTERN AND(A, B) WHERE A.price < B.price WITHIN 5 minutes",
            ["strategy      messages: ", "n log n in the events of the DataFrame", "A.Price < B.Price\n"],
        ),
        (
            "PATTERN AND(A, B, C) WHERE A.id = B.id WITHIN 5 minutes",
            [
                "strategy      enumerate: ",
                "declined      messages: a span bounds 3 events together, and of them only A and B must be equal\n",
            ],
        ),
        (
            "PATTERN AND(SEQ(A, B), C) WHERE AVG(A.price) > 3 WITHIN 5 minutes",
            [
                "kernel: a span bounds both sides of AND together, so the counts of each do not multiply",
                "join the trends of the two sides\n",
                "all of them within 5 minutes\n",
            ],
        ),
        ("PATTERN A+ WHERE AVG(A.price) > 3", ["grows with the number of trends", "declined  kernel: "]),
        ("PATTERN SEQ(A, NOT SEQ(C, D), B)", ["A       begins a trend\n  -> B  NOT SEQ(C, D)", "-- NOT SEQ(C, D) --"]),
    ],
)
def test_physical_says_what_a_query_costs_and_why(text: str, said: list[str]) -> None:
    shown = explained(text, "physical").text
    assert [words for words in said if words not in shown] == []


def test_trends_are_listed_until_the_limit() -> None:
    text = explained("PATTERN SEQ(A, B+)", "physical", trends=True).text
    assert "cost      grows with the number of trends, until 5 are found" in text
    assert "answer\n    trend\n+- limit 5\n" in text
    assert "event: ts, Price" in text
    assert "stops after 5" in explained("PATTERN A AND B", "physical", trends=True).text
    pairs = explained("PATTERN A AND B WHERE AVG(A.price) > 3", "physical", trends=True).text
    assert "stops after" not in pairs, "pairs are limited, not the sides"


def test_the_index_is_the_kernels_own() -> None:
    plan = explained(RISING, "physical")
    assert plan.views[1].edges[-1].label.splitlines() == ["B.Price < NEXT(B).Price", "[TREE]"]
    decision = plan_aggregate(rewrite(analyse(parse(RISING), SCHEMA))[0], (("n", Aggregate("count")),), "decimal")
    assert isinstance(decision.plan, Merge)
    assert index_of_edge(decision.plan.compiled, Edge(0, 1, guards=(0,))) == TREE


def test_states_of_one_variable_are_numbered() -> None:
    view = automaton_view(build_automaton(Seq((Event("A"), Repeat(Event("B"), 2, 3)))))
    assert [node.label for node in view.nodes] == ["A", "B #1", "B #2", "B #3"]
    assert [node.shape for node in view.nodes] == ["state", "state", "final", "final"]


def test_every_line_of_text_is_ascii() -> None:
    """Some terminals can print nothing else."""
    for query in QUERIES:
        assert explained_but_spark(query).text.isascii()


def test_a_view_with_a_loose_end_cannot_be_built() -> None:
    with pytest.raises(AssertionError, match="leads to no node"):
        PlanView("wrong", (ViewNode("1", "a"),), (ViewEdge("1", "2"),))


# Stages ---------------------------------------------------------------------------------------------------------------


def explained_but_spark(text: str) -> Explanation:
    return Explanation(tuple(s for stage in STAGES[:-1] for s in explained(text, stage).sections))


@pytest.mark.parametrize("query", QUERIES)
def test_every_stage_but_spark_needs_no_dataframe(query: str) -> None:
    shown = explained_but_spark(query)
    assert re.findall(r"^== (\w+) ==$", shown.text, re.MULTILINE) == list(STAGES[:-1])
    assert repr(shown) == str(shown) == shown.text


def test_an_unknown_stage_names_the_known_ones() -> None:
    with pytest.raises(InvalidNode) as caught:
        explained("PATTERN A", "fysical")
    assert str(caught.value) == "no stage 'fysical'\n  hint: did you mean 'physical'?"
    with pytest.raises(InvalidNode) as caught:
        explained("PATTERN A", "all")
    assert str(caught.value) == (
        "no stage 'all'\n  hint: choose one of parsed, resolved, rewritten, physical, spark, trends, complete, "
        "complete_count, sample, top, matches, survey, or leave it out to see the first five"
    )


def test_what_is_no_text_is_no_stage() -> None:
    for stage in (10**5000, b"parsed", ["parsed"]):
        with pytest.raises(InvalidNode, match="no stage"):
            explained("PATTERN A", stage)  # type: ignore[arg-type]


def test_steps_tell_what_they_take(spark: Any) -> None:
    """Rows are told apart by step: read, sent, given for each window of each key, and answered."""
    df = spark.range(50).selectExpr("id AS t", "if(id % 5 = 0, 'A', if(id % 5 < 3, 'B', 'Z')) AS type", "id % 2 AS k")
    bound = df.pattern("PATTERN SEQ(A, B+) WHERE [k] AND B.t < NEXT(B).t WITHIN 10 SLIDE 10", time="t")
    shown = bound.explain(measured=True)
    rows = {line.split()[1] for line in shown.text.splitlines() if "measured:" in line}
    assert rows == {"50", "30", "10", "5"}
    assert [name for name, views in shown.sections if "took" in dict(views[0].facts)] == [
        "resolved",
        "rewritten",
        "physical",
        "spark",
    ]
    assert bound.count_trends().count() == 5
    assert "measured" not in bound.explain("physical").text


@pytest.mark.classic
def test_every_plan_can_be_measured(spark: Any) -> None:
    df = spark.range(20).selectExpr("id AS t", "if(id % 5 = 0, 'A', 'B') AS type", "id % 2 AS k")
    bound = df.pattern("PATTERN SEQ(A, B+) WHERE [k] AND B.t < NEXT(B).t WITHIN 10 SLIDE 10", time="t")
    answers = {"trends": bound.trends(), "complete": bound.complete_trends(), "top": bound.top_trends(3)}
    answers |= {"sample": bound.sample_trends(4), "matches": bound.matches()}
    answers |= {"complete_count": bound.count_complete_trends()}
    assert set(answers) == set(DECISIONS)
    for stage, answer in answers.items():
        limit = {"top": 3, "sample": 4}.get(stage)
        shown = bound.explain(stage, measured=True, limit=limit)
        assert "took" in dict(shown.views[0].facts), stage
        steps = [detail for node in shown.views[0].nodes for detail in node.details if "measured:" in detail]
        assert re.match(rf"measured: {answer.count()} rows?, ", steps[-1]), stage
        assert len(steps) >= 2, stage
    assert "took" in dict(bound.explain("survey", measured=True).views[0].facts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"emit": "bogus"},
        {"plan": "bogus"},
        {"adaptation": "bogus"},
        {"complete": "yes"},
        {"per_group": 7},
        {"measured": 1},
        {"columns": ["no"]},
        {"statistics": {"rates": {"Z": 1}}},
    ],
)
@pytest.mark.classic
def test_arguments_have_their_values_whatever_the_stage(spark: Any, wrong: dict[str, Any]) -> None:
    bound = spark.createDataFrame([(1, "A")], "t int, type string").pattern("PATTERN SEQ(A, B)", time="t")
    for stage in ("parsed", "physical", "complete", "matches"):
        with pytest.raises(CetdslError):
            bound.explain(stage, **wrong)


@pytest.mark.parametrize("query", QUERIES)
def test_a_page_shows_each_thing_once(query: str) -> None:
    for view in explained_but_spark(query).views:
        page = unescape(re.sub("<[^>]*>", "", fragment_of([("stage", (view,))])))
        if view.text:
            assert page.count(view.text) == 1
            assert not view.nodes or "<svg" not in fragment_of([("stage", (view,))])
        elif not view.is_automaton:
            labels = [node.label for node in view.nodes if len(node.label) > 15]
            assert Counter({label: page.count(label) for label in labels}) == Counter(labels)


def test_spark_shows_its_own_plan_and_runs_nothing(spark: object, capsys: pytest.CaptureFixture[str]) -> None:
    import cetdsl as cet

    df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")  # type: ignore[attr-defined]
    bound = cet.pattern(df, "PATTERN SEQ(A, B+)", time="t")
    shown = bound.explain("spark")
    assert capsys.readouterr().out == ""
    assert shown.text.startswith("== spark ==\n== Physical Plan ==")
    assert re.findall(r"^== (\w+) ==$", bound.explain().text, re.MULTILINE) == list(STAGES)
    assert "Physical Plan" in shown.html()
    assert shown.graphviz().startswith("digraph {")


def test_what_two_threads_print_is_kept_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """One is caught, and goes on after the other one, which is caught too, has begun; a third prints on."""
    output, begun, printed_on = sys.stdout, threading.Event(), threading.Event()

    def long() -> None:
        sys.stdout.write("long\n")
        begun.set()
        assert printed_on.wait(60)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(printed, long)
        assert begun.wait(60)
        second = pool.submit(printed, lambda: sys.stdout.write("short\n"))
        sys.stdout.write("in between\n")
        printed_on.set()
        assert (first.result(60), second.result(60)) == ("long\n", "short\n")
    assert sys.stdout is output
    assert capsys.readouterr().out == "in between\n"


# Graphviz -------------------------------------------------------------------------------------------------------------

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_ATTRIBUTES = rf"\[\w+=(?:{_STRING}|\w+)(?:, \w+=(?:{_STRING}|\w+))*\]"
_DOT_LINE = re.compile(
    rf"\s*(digraph \{{|subgraph cluster_\d+ \{{|\}}|rankdir=LR|(node|edge) {_ATTRIBUTES}|label={_STRING}"
    rf"|{_STRING} {_ATTRIBUTES}|{_STRING} -> {_STRING} {_ATTRIBUTES})"
)


@pytest.mark.parametrize("query", QUERIES)
def test_dot_is_well_formed(query: str) -> None:
    source = explained_but_spark(query).graphviz()
    assert [line for line in source.splitlines() if not _DOT_LINE.fullmatch(line)] == []
    assert source.count("{\n") == len(re.findall(r"^\s*}$", source, re.MULTILINE))
    named = set(re.findall(rf"^\s*({_STRING}) \[", source, re.MULTILINE))
    used = {end for pair in re.findall(rf"({_STRING}) -> ({_STRING})", source) for end in pair}
    assert used <= named


def test_dot_of_an_automaton() -> None:
    query = parse("PATTERN SEQ(A, NOT C, B+) WHERE B.x < NEXT(B).x")
    source = dot_of(automaton_view(build_automaton(query.pattern), query.where, "rising"))
    assert source == lines(
        """
digraph {
  rankdir=LR
  node [fontname="Helvetica", fontsize=11]
  edge [fontname="Courier", fontsize=10]
  label="rising"
  "0" [label="A", shape=circle]
  "1" [label="B", shape=doublecircle]
  "begin 0" [shape=point, style=invis]
  "begin 0" -> "0" [label=""]
  "0" -> "1" [label="NOT C"]
  "1" -> "1" [label="B.x < NEXT(B).x"]
}
"""
    )


# Pictures -------------------------------------------------------------------------------------------------------------

PATTERNS = (
    "A",
    "SEQ(A, B+)",
    "(SEQ(A, B+))+",
    "SEQ(A?, B*, C)",
    "SEQ(A, B OR C, D)",
    "SEQ(NOT C, A, NOT D, B, NOT E)",
    "(A OR B OR SEQ(C, D))+",
    "SEQ(A, B{2,4}, C)",
    "SEQ(A, (B AND C), D)",
)
_SVG = "{http://www.w3.org/2000/svg}"


def pattern_of(text: str) -> Pattern:
    return parse(f"PATTERN {text}").pattern


@pytest.mark.parametrize("text", PATTERNS)
def test_automata_are_drawn_inside_the_picture(text: str) -> None:
    pattern = pattern_of(text)
    root = ET.fromstring(draw_automaton(pattern))
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    boxes = [tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height")) for box in root.iter(f"{_SVG}rect")]
    for x, y, w, h in boxes:
        assert left <= x
        assert top <= y
        assert x + w <= left + width + 0.1
        assert y + h <= top + height + 0.1
    automaton = build_automaton(pattern)
    drawn = [box for box in root.iter(f"{_SVG}rect") if "rx" in box.attrib]
    assert len(drawn) == len(automaton.variables) + len(automaton.final)
    guarded_ends = sum(bool(guards) for _, guards in automaton.final)
    arrows = [path for path in root.iter(f"{_SVG}path") if "marker-end" in path.attrib]
    assert len(arrows) == len(automaton.initial) + len(automaton.transitions) + guarded_ends


@pytest.mark.parametrize("text", PATTERNS)
def test_states_do_not_overlap(text: str) -> None:
    root = ET.fromstring(draw_automaton(pattern_of(text)))
    boxes = [
        [float(box.attrib[key]) for key in ("x", "y", "width", "height")]
        for box in root.iter(f"{_SVG}rect")
        if box.attrib.get("rx") == "20.0"
    ]
    for n, (x, y, w, h) in enumerate(boxes):
        for a, b, c, d in boxes[n + 1 :]:
            assert x + w < a or a + c < x or y + h < b or b + d < y


def test_predicates_are_written_on_the_arrows() -> None:
    query = parse("PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x AND A.s = NEXT(B).s")
    texts = [node.text for node in ET.fromstring(draw_automaton(query.pattern, query.where)).iter(f"{_SVG}text")]
    assert sorted(texts) == ["A", "A.s = NEXT(B).s", "B", "B.x < NEXT(B).x"]  # type: ignore[type-var]


def test_a_large_automaton_is_text_only() -> None:
    view = automaton_view(build_automaton(Repeat(Event("A"), 30, 30)))
    assert svg_of(view) == ""
    assert text_of(view).count("\n") == 58


class _Page(HTMLParser):
    """Collects tags and attributes, and checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("query", QUERIES)
def test_html_stands_by_itself(query: str) -> None:
    shown = explained_but_spark(query)
    page = _Page()
    page.feed(shown.html())
    assert page.open == []
    assert not {tag for tag, _ in page.seen} & {"script", "link", "img", "iframe"}
    assert not [value for _, values in page.seen for name, value in values.items() if name in ("src", "href")]
    assert "@import" not in shown.html()
    assert re.findall(r"url\(([^)]*)\)", shown.html()).count("#cetdsl-arrow") > 0
    assert shown._repr_html_() in shown.html()


def test_html_escapes_what_users_wrote() -> None:
    page = page_of("<b>", [("s", (PlanView("<i>", (ViewNode("1", "<u>", ("a < b",)),), text="x < y & z"),))])
    assert not re.findall("<[biu]>", page)
    assert "x &lt; y &amp; z" in page


def test_the_tree_of_a_pattern() -> None:
    view = pattern_view(parse("PATTERN SEQ(Start a, NOT C, (A OR B){2,3})").pattern, "pattern")
    assert [node.label for node in view.nodes] == ["SEQ", "a", "NOT", "C", "{2,3}", "OR", "A", "B"]
    assert view.nodes[1].details == ("type Start",)
    assert text_of(attrs.evolve(view, text="")).splitlines()[:2] == ["SEQ", ":- a"]
    ET.fromstring(svg_of(view))


def test_a_pattern_of_one_part_stands_above_it() -> None:
    view = pattern_view(parse("PATTERN (A+){2}").pattern, "pattern")
    assert text_of(view).split() == ["{2}", "+-", "+", "+-", "A"]


_PATHS = "the number of trends and of paths that a test ends"
_MANY = _PATHS + ", which may be exponentially many"


@pytest.mark.parametrize(
    ("query", "tests", "cost"),
    [
        ("SEQ(A+, B+) WHERE A.x < B.y AND A.y > B.x", "on the path: B.y > A.x, on the path: B.x < A.y", _MANY),
        ("SEQ(A+, B) WHERE SUM(A.x) > 9", "of finished trends: SUM(A.x) > 9", _MANY),
        ("SEQ(A, NOT C, B+) WHERE C.x > A.x", "on the path: NOT C with C.x > A.x", _MANY),
        ("SEQ(A, B, C) WHERE MAX(A.x) > LENGTH", "of finished trends: MAX(A.x) > LENGTH", _PATHS),
        ("SEQ(A, B+) WHERE A.x < B.x", "", "the number of trends"),
        ("SEQ(A+, B+) WHERE B.x < NEXT(B).x", "", "the number of trends"),
    ],
)
def test_a_search_tells_which_tests_may_end_its_paths(spark: Any, query: str, tests: str, cost: str) -> None:
    df = spark.createDataFrame([], "t int, type string, x int, y int")
    told = str(df.pattern(f"PATTERN {query}", time="t").explain("trends", plan="pattern"))
    assert ", ".join(re.findall(r"(?:on the path|of finished trends): .*\S", told)) == tests
    assert ("as far as that shows before these tests" in told) == bool(tests)
    assert re.search(rf"^cost +grows with {cost}$", told, re.MULTILINE)


_X = cet.event("B").x
#: How an answer is asked for, and the stage and the arguments that explain it.
ASKED = [
    (lambda asked: asked.trends(3, ["t"]), "trends", {"limit": 3, "columns": ["t"]}),
    (lambda asked: asked.trends(plan="greedy"), "trends", {"plan": "greedy"}),
    (lambda asked: asked.complete_trends("ends", "h-cet", limit=2), "complete",
     {"completeness": "ends", "algorithm": "h-cet", "limit": 2}),
    (lambda asked: asked.complete_trends(columns=["x"]), "complete", {"columns": ["x"]}),
    (lambda asked: asked.count_complete_trends("ends", number="log2"), "complete_count",
     {"completeness": "ends", "number": "log2"}),
    (lambda asked: asked.count_complete_trends(algorithm="joins"), "complete_count", {"algorithm": "joins"}),
    (lambda asked: asked.sample_trends(10, 0), "sample", {}),
    (lambda asked: asked.sample_trends(4, 0, complete=False, columns=["t"], per_group=True), "sample",
     {"limit": 4, "complete": False, "columns": ["t"], "per_group": True}),
    (lambda asked: asked.top_trends(10), "top", {}),
    (lambda asked: asked.top_trends(2, cet.avg(_X), completeness="ends"), "top",
     {"limit": 2, "by": cet.avg(_X), "completeness": "ends"}),
    (lambda asked: asked.top_trends(2, cet.sum(_X), per_group=True), "top",
     {"limit": 2, "by": cet.sum(_X), "per_group": True}),
    (lambda asked: asked.matches(2, ["x"]), "matches", {"limit": 2, "columns": ["x"]}),
]  # fmt: skip


@pytest.mark.classic
@pytest.mark.parametrize("where", ["B.x < NEXT(B).x", "AVG(B.x) > 1"])
@pytest.mark.parametrize(("ask", "stage", "arguments"), ASKED)
def test_the_plan_that_is_explained_is_the_one_that_runs(
    spark: Any, ask: Any, stage: str, arguments: dict[str, Any], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Decision] = []
    for name in ("plan_trends", "plan_complete", "plan_matches"):
        plan = getattr(session, name)
        monkeypatch.setattr(session, name, lambda *given, plan=plan: made.append(plan(*given)) or made[-1])
    df = spark.createDataFrame([(1, "A", 1)], "t int, type string, x int")
    if stage == "matches":
        asked = df.pattern("PATTERN SEQ(A, B+) MATCHING STRICT", time="t")
    else:
        asked = df.pattern(f"PATTERN SEQ(A, B+) WHERE {where} WITHIN 10 SLIDE 5", time="t")

    def refused(call: Callable[[], object]) -> str | None:
        try:
            call()
        except UnsupportedQuery as error:
            return str(error)
        return None

    explanations: list[Explanation] = []
    reason = refused(lambda: ask(asked))
    assert refused(lambda: explanations.append(asked.explain(stage, **arguments))) == reason
    if reason is None:
        ran, explained = made
        assert explained == ran
        assert re.search(f"^strategy +{ran.strategy}: ", explanations[0].text, re.MULTILINE)
