"""Aggregation plans: their graph, their entropy, how they are found, and what they are when queries come and go."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cetdsl as cet
from cetdsl.datasets import read_workload
from cetdsl.errors import CetdslError, InvalidNode, ParseError
from cetdsl.frontend import sase
from cetdsl.pattern.expressions import Attribute, Binary, Literal
from cetdsl.pattern.nodes import And, Event, Pattern, Repeat, Seq
from cetdsl.pattern.query import Query, Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse
from cetdsl.sharing.aggregation.draft import Limits
from cetdsl.sharing.aggregation.entropy import PartitionTree
from cetdsl.sharing.aggregation.graph import CorrelationGraph
from cetdsl.sharing.aggregation.plan import PlanData
from cetdsl.sharing.aggregation.planner import ALGORITHMS, Planner

# The graph -----------------------------------------------------------------------------------------------------------

KINDS = st.lists(st.sets(st.sampled_from("ABCDEFGH"), max_size=5), min_size=1, max_size=80)


def alike(first: set[str], second: set[str]) -> float:
    return len(first & second) / len(first | second) if first & second else 0.0


@given(KINDS, st.integers(1, 4), st.sampled_from([0.0, 0.1, 0.3]))
def test_each_pattern_is_linked_to_those_most_like_it(kinds: list[set[str]], most: int, least: float) -> None:
    graph = CorrelationGraph(dict(enumerate(kinds)), least, most)
    chosen = set()
    for i, own in enumerate(kinds):
        others = [j for j, other in enumerate(kinds) if j != i and alike(own, other) > least]
        nearest = sorted(others, key=lambda j: (-alike(own, kinds[j]), j))[:most]
        chosen |= {frozenset((i, j)) for j in nearest}
    assert {frozenset((i, j)) for i, those in graph.neighbours.items() for j in those} == chosen


@given(KINDS, st.integers(1, 4))
def test_a_pattern_that_comes_later_finds_those_most_like_it(kinds: list[set[str]], most: int) -> None:
    graph = CorrelationGraph(dict(enumerate(kinds[:-1])), 0.1, most)
    linked = graph.add(99, kinds[-1])
    shares = sorted((alike(kinds[-1], own) for own in kinds[:-1]), reverse=True)
    assert [alike(kinds[-1], kinds[other]) for other in linked] == [share for share in shares if share > 0.1][:most]
    before = {number: set(those) - {99} for number, those in graph.neighbours.items() if number != 99}
    assert sorted(graph.remove(99)) == sorted(linked)
    assert graph.neighbours == before


# The entropy ---------------------------------------------------------------------------------------------------------


def grown_tree(draw: st.DrawFn) -> tuple[PartitionTree, dict[int, set[int]]]:
    """A random graph with a random tree over it."""
    nodes = draw(st.integers(3, 9))
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(lambda pair: pair[0] != pair[1])
    neighbours: dict[int, set[int]] = {node: set() for node in range(nodes)}
    for first, second in draw(st.lists(pairs, min_size=1, max_size=20)):
        neighbours[first].add(second)
        neighbours[second].add(first)
    tree = PartitionTree(neighbours)
    for _ in range(draw(st.integers(0, 5))):
        pair = drawn_pair(draw, tree)
        if pair is None:
            break
        if pair[0] in tree.children and draw(st.booleans()):
            tree.merge(*pair, whole=draw(st.booleans()))
        else:
            tree.combine(*pair)
    return tree, neighbours


def drawn_pair(draw: st.DrawFn, tree: PartitionTree) -> tuple[int, int] | None:
    """Two siblings."""
    parents = sorted(parent for parent, children in tree.children.items() if len(children) > 2)
    if not parents:
        return None
    first, second = draw(st.permutations(sorted(tree.children[draw(st.sampled_from(parents))])))[:2]
    return first, second


def check_tree(tree: PartitionTree) -> None:
    """What a tree keeps is what its graph says."""
    assert all(vertex in tree.children[parent] for vertex, parent in tree.parent.items())
    for vertex in tree.parent:
        nodes = set(tree.leaves(vertex))
        assert tree.volume[vertex] == sum(len(tree.neighbours[node]) for node in nodes)
        assert tree.cut[vertex] == sum(len(tree.neighbours[node] - nodes) for node in nodes)
        assert len(tree.children.get(vertex, (0, 0))) > 1
        counts = {
            other: sum(len(tree.neighbours[node] & set(tree.leaves(other))) for node in nodes)
            for other in tree.children[tree.parent[vertex]]
            if other != vertex
        }
        assert tree.beside[vertex] == {other: count for other, count in counts.items() if count}


@settings(deadline=None)
@given(st.data())
def test_gains_are_differences_of_the_whole_entropy(data: st.DataObject) -> None:
    tree, _ = grown_tree(data.draw)
    check_tree(tree)
    pair = drawn_pair(data.draw, tree)
    if pair is None:
        return
    before = tree.entropy()
    combining = tree.gain_of_combining(*pair)
    if pair[0] in tree.children and data.draw(st.booleans()):
        whole = data.draw(st.booleans())
        gain = tree.gain_of_merging(*pair, whole=whole)
        assert gain <= combining + 1e-12
        tree.merge(*pair, whole=whole)
    else:
        gain = combining
        tree.combine(*pair)
    check_tree(tree)
    assert before - tree.entropy() == pytest.approx(gain, abs=1e-9)


@settings(deadline=None)
@given(st.data())
def test_a_tree_follows_its_graph(data: st.DataObject) -> None:
    tree, neighbours = grown_tree(data.draw)
    node = data.draw(st.sampled_from(sorted(neighbours)))
    linked = sorted(neighbours.pop(node))
    for other in linked:
        neighbours[other].remove(node)
    tree.remove(node, linked)
    check_tree(tree)
    neighbours[99] = set(data.draw(st.lists(st.sampled_from(sorted(neighbours)), unique=True)))
    for other in neighbours[99]:
        neighbours[other].add(99)
    tree.add(99)
    check_tree(tree)


def test_entropy_of_a_flat_tree_is_that_of_the_degrees() -> None:
    # A path of three nodes: degrees 1, 2, 1 of 4.
    assert PartitionTree({0: {1}, 1: {0, 2}, 2: {1}}).entropy() == pytest.approx(1.5)


# Plans ---------------------------------------------------------------------------------------------------------------


def workload(patterns: int, seed: int, kinds: int = 30) -> dict[str, Query]:
    """Patterns over kinds that lie on a line, each of neighbouring ones; some have Kleene and share nothing."""
    chance = random.Random(seed)
    made = {}
    for number in range(patterns):
        middle = chance.randrange(kinds)
        names = list(dict.fromkeys(f"K{(middle + chance.randrange(6)) % kinds}" for _ in range(chance.randrange(2, 7))))
        parts: list[Pattern] = [Event(name, name) for name in names]
        if chance.random() < 0.1:
            parts[0] = Repeat(parts[0])
        half = len(parts) // 2
        pattern = Seq(tuple(parts))
        if len(parts) > 3 and chance.random() < 0.6:
            pattern = And((Seq(tuple(parts[:half])), *parts[half:]))
        where = [Binary("<", Attribute(name, "x"), Literal(chance.choice([1, 2, 9]))) for name in names[::2]]
        made[f"p{number}"] = Query(
            pattern, tuple(where), window=Window(Span.parse(f"{chance.choice([10, 20])} minutes"))
        )
    return made


def check_plan(plan: PlanData, queries: Mapping[str, Query]) -> None:
    """The plan is one for these queries, and all of it fits together."""
    assert dict(plan.queries) == dict(queries)
    assert sorted(vertex.query for vertex in plan.vertices if vertex.query is not None) == sorted(queries)
    vertices = {vertex.number: vertex for vertex in plan.vertices}
    assert len(vertices) == len(plan.vertices)
    assert [vertex.level for vertex in plan.vertices] == sorted(vertex.level for vertex in plan.vertices)
    inherited: dict[int, set[int]] = {number: set() for number in vertices}
    for edge in plan.edges:
        parent, child = vertices[edge.parent], vertices[edge.child]
        assert parent.query is None
        assert edge.parent in child.parents
        assert parent.pattern.scope == child.pattern.scope
        assert len(set(edge.slots)) == len(edge.slots) == len(parent.pattern.slots)
        for slot, own in enumerate(edge.slots):
            allowed = dict(parent.pattern.slots[slot].choices)
            for kind, condition in child.pattern.slots[own].choices:
                # Each condition is x < some limit.
                assert allowed[kind].either(condition) == allowed[kind]
            later = {edge.slots[i] for i in range(len(edge.slots)) if parent.pattern.later[slot] >> i & 1}
            assert all(child.pattern.later[own] >> i & 1 for i in later)
        assert parent.pattern.span is None or child.pattern.span is not None
        if parent.pattern.span is not None and child.pattern.span is not None:
            assert parent.pattern.span.amount >= child.pattern.span.amount
        inherited[edge.child] |= set(edge.slots)
    for vertex in plan.vertices:
        assert vertex.level == 1 + max((vertices[parent].level for parent in vertex.parents), default=0)
        assert set(vertex.own) == set(range(len(vertex.pattern.slots))) - inherited[vertex.number]
        served = plan.serves(vertex)
        assert served == (vertex.query,) if vertex.query is not None else len(set(served)) > 1
    assert plan.slots == sum(len(vertex.own) for vertex in plan.vertices)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("deadline", [None, 0, 0.003])
def test_each_algorithm_gives_a_valid_plan_at_any_deadline(algorithm: str, deadline: float | None) -> None:
    queries = workload(60, 1)
    plan = Planner(queries, algorithm, Limits(), deadline).plan
    check_plan(plan, queries)
    if deadline == 0:
        assert len(plan.levels) == 1
        assert plan.unshared == tuple(queries)
        assert not plan.finished
    if deadline is None:
        assert plan.finished
        assert plan.slots < Planner(queries, algorithm, Limits(), 0).plan.slots
    if algorithm == "casem-2":
        # Two levels of sub-patterns above the queries.
        assert len(plan.levels) <= 3


def test_the_same_queries_give_the_same_plan() -> None:
    first, second = (Planner(workload(50, 2), "casem+dce", Limits()).plan for _ in range(2))
    assert (first.vertices, first.edges, first.entropy) == (second.vertices, second.edges, second.entropy)


def test_clustering_reduces_the_entropy() -> None:
    flat, plan = (Planner(workload(50, 3), "casem", Limits(), deadline).plan for deadline in (0, None))
    assert plan.entropy < flat.entropy


def test_compensation_shares_what_clusters_leave() -> None:
    """The example of figure 8."""
    texts = ["SEQ(A, B, E, F)", "SEQ(A, B, G)", "SEQ(A, B, H)", "SEQ(C, D, E, F)", "SEQ(C, D, I)", "SEQ(C, D, J)"]
    queries = {text: sase.parse(f"PATTERN {text}") for text in texts}
    limits = Limits(most_neighbours=3)
    casem, compensated = (Planner(queries, algorithm, limits).plan for algorithm in ("casem", "casem+dce"))
    check_plan(compensated, queries)
    assert [str(vertex.pattern) for vertex in casem.levels[0]] == ["SEQ(A, B)", "SEQ(C, D)"]
    parents = [str(parent.pattern) for parent in compensated.parents(compensated.vertex("SEQ(A, B, E, F)"))]
    assert parents == ["SEQ(A, B)", "SEQ(E, F)"]
    assert compensated.slots == casem.slots - 2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(ALGORITHMS), st.data())
def test_plans_stay_valid_when_queries_come_and_go(seed: int, algorithm: str, data: st.DataObject) -> None:
    queries = workload(20, seed)
    coming = {f"new {name}": query for name, query in workload(8, seed + 1).items()}
    planner = Planner(queries, algorithm, Limits())
    before = planner.plan
    changed = planner.copy()
    for _ in range(12):
        if queries and (not coming or data.draw(st.booleans())):
            name = data.draw(st.sampled_from(sorted(queries)))
            changed.remove(name)
            queries = {other: query for other, query in queries.items() if other != name}
        else:
            name, query = coming.popitem()
            changed.add(name, query)
            queries = {**queries, name: query}
        check_plan(changed.plan, queries)
    # What is drawn change by change is what would be drawn at once.
    anew = changed.copy()
    anew._draft._drawn, anew._draft.touched = {}, set(anew._draft.patterns)
    assert anew.plan == changed.plan
    check_tree(changed._draft.tree)
    # The planner that was copied knows nothing of all this.
    assert planner.plan == before


def test_a_pattern_that_comes_goes_where_those_like_it_are() -> None:
    """The example of figure 9."""
    texts = ["SEQ(A, B, X)", "SEQ(A, B, Y)", "SEQ(C, D, U)", "SEQ(C, D, V)"]
    planner = Planner({text: sase.parse(f"PATTERN {text}") for text in texts}, "casem", Limits())
    rest = [vertex for vertex in planner.plan.vertices if "A" in str(vertex.pattern)]
    planner.add("new", sase.parse("PATTERN SEQ(C, D, M)"))
    plan = planner.plan
    assert [str(parent.pattern) for parent in plan.parents(plan.vertex("new"))] == ["SEQ(C, D)"]
    assert [vertex for vertex in plan.vertices if "A" in str(vertex.pattern)] == rest


def test_queries_that_have_nothing_in_common_make_a_flat_plan() -> None:
    queries = {f"q{number}": sase.parse(f"PATTERN SEQ(A{number}, B{number})") for number in range(5)}
    plan = Planner(queries, "casem+dce", Limits()).plan
    check_plan(plan, queries)
    assert (plan.edges, len(plan.levels), plan.entropy, plan.finished) == ((), 1, 0.0, True)


# What users see ------------------------------------------------------------------------------------------------------

TEXTS = {"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)", "r": "PATTERN E+"}


def test_plans_come_from_anything_that_is_a_query() -> None:
    a, b, c, d = cet.events("A", "B", "C", "D")
    plans = [
        cet.aggregation_plan(TEXTS),
        cet.aggregation_plan("; ".join(f"NAME {name}: {text}" for name, text in TEXTS.items())),
        cet.aggregation_plan({"p": cet.seq(a, b, c), "q": cet.seq(a, b, d).returning(cet.count()), "r": "PATTERN E+"}),
    ]
    assert [str(plan) for plan in plans] == [str(plans[0])] * 3
    assert [vertex.query for vertex in plans[0].levels[0]] == [None, "r"]
    assert plans[0].vertex("p").variables == tuple(frozenset(name) for name in "ABC")


def test_a_plan_stays_when_another_is_made_of_it() -> None:
    plan = cet.aggregation_plan(TEXTS)
    before = str(plan)
    more = plan.adding("s", "PATTERN SEQ(A, B, E)")
    assert [vertex.query for vertex in more.children(more.vertices[0])] == ["p", "q", "s"]
    less = more.removing("q").removing("s")
    assert less.unshared == ("p", "r")
    assert str(plan) == before
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        plan.entropy = 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: cet.aggregation_plan({}), "no queries"),
        (lambda: cet.aggregation_plan(["PATTERN A"]), r"write cet.aggregation_plan\("),
        (lambda: cet.aggregation_plan({"": "PATTERN A"}), "non-empty string"),
        (lambda: cet.aggregation_plan({"p": "PATTERN SEQ(A"}), "query 'p': "),
        (lambda: cet.aggregation_plan("NAME p: PATTERN A; NAME p: PATTERN B"), "p"),
        (lambda: cet.aggregation_plan(TEXTS, algorithm="spass"), "no algorithm 'spass'"),
        (lambda: cet.aggregation_plan(TEXTS, deadline=-1), "from 0 on"),
        (lambda: cet.aggregation_plan(TEXTS, deadline="soon"), "from 0 on"),  # type: ignore[arg-type]
        (lambda: cet.aggregation_plan(TEXTS, least_alike=2), "share from 0 to 1"),
        (lambda: cet.aggregation_plan(TEXTS, most_neighbours=0), "most_neighbours is a number from 1 on"),
        (lambda: cet.aggregation_plan(TEXTS, least_slots=True), "least_slots is a number from 1 on"),
        (lambda: cet.aggregation_plan(TEXTS, levels=0), "levels is a number from 1 on"),
        (lambda: cet.aggregation_plan(TEXTS, statistics=[1]), "are not a mapping"),  # type: ignore[arg-type]
        (lambda: cet.aggregation_plan(TEXTS, statistics={"rate": {"A": 1}}), "did you mean 'rates'"),
        (lambda: cet.aggregation_plan(TEXTS, statistics={"rates": {"A": -1}}), "rate of 'A' is -1, which is negative"),
        (lambda: cet.aggregation_plan(TEXTS, statistics={"rates": {"A": "often"}}), "'often', which is not a number"),
        (lambda: cet.aggregation_plan(TEXTS, statistics={"rates": {1: 1}}), "1, which is not the name of a type"),
        (lambda: cet.aggregation_plan(TEXTS, statistics={"selectivities": {("A",): 1}}), "is of no pair of types"),
        (lambda: cet.aggregation_plan(TEXTS, statistics={"selectivities": {"A": 1.5}}), "no share is above 1"),
        (lambda: cet.aggregation_plan(TEXTS).adding("p", "PATTERN A"), "has a query 'p' already"),
        (lambda: cet.aggregation_plan(TEXTS).adding("x", "PATTERN"), "query 'x': "),
        (lambda: cet.aggregation_plan(TEXTS).removing("x"), "no query 'x'"),
        (lambda: cet.aggregation_plan({"p": "PATTERN A"}).removing("p"), "only query"),
        (lambda: cet.aggregation_plan(TEXTS).explain(most=0), "most is a number from 1 on"),
    ],
)
def test_errors_say_what_is_wrong(ask: Callable[[], object], says: str) -> None:
    with pytest.raises(CetdslError, match=says):
        ask()


def test_large_clusters_fold() -> None:
    queries = workload(500, 5, kinds=200)
    plan = cet.aggregation_plan(queries)
    folded, whole = plan.explain(), plan.explain(levels=None, most=None)
    assert len(folded.text.splitlines()) < 200
    assert "queries more" in folded.text
    assert set(re.findall(r"\bp\d+\b", whole.text)) >= set(queries) - set(plan.unshared)
    for shown in (folded, whole):
        assert shown.graphviz().count("->") == len(shown.views[0].edges)
    assert "<svg" in cet.aggregation_plan(TEXTS).explain().html()
    page = whole.html()
    assert "<svg" not in page
    # Each cluster unfolds once, however many parents it has.
    assert page.count("<details>") == page.count("</details>") == sum(v.query is None for v in plan.vertices)
    assert all(f">{name}<" in page for name in set(queries) - set(plan.unshared))


# The authors' form ---------------------------------------------------------------------------------------------------

PATTERN: dict[str, Any] = {
    "id": ["A", "B", "C", "D"],
    "logic": {"seq": 1, "sub_id": ["C", "A"]},
    "interval": 20,
    "property": ["B"],
    "condition": 3,
}


def written(tmp_path: Path, text: object) -> Path:
    path = tmp_path / "workload.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return path


def test_workloads_are_read_as_queries(tmp_path: Path) -> None:
    unordered = {**PATTERN, "logic": {"seq": 0, "sub_id": ["C", "A"]}, "property": []}
    found = read_workload(written(tmp_path, {"1": PATTERN, "2": unordered}), types="ABCD")
    assert unparse(found["1"], lenient=True).splitlines() == [
        "PATTERN SEQ(C, A) AND B AND D",
        "WHERE B.restriction = 3",
        "WITHIN 20 minutes",
    ]
    assert found["2"].pattern == And(tuple(Event(name, name) for name in "ABCD"))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ('{"1": {"id": ["A"', ParseError, "is no JSON"),
        ("[" * 100_000, ParseError, "is no JSON"),
        ('{"1": 1, "1": 2}', ParseError, "'1' stands 2 times"),
        ("[]", InvalidNode, "no patterns by name"),
        ("{}", InvalidNode, "no patterns by name"),
        ({"1": {**PATTERN, "id": []}}, InvalidNode, "'1' has no event types"),
        ({"1": {"id": ["A"]}}, InvalidNode, "'1' has no 'logic'"),
        ({"1": [1]}, InvalidNode, "'1' has no 'id'"),
        ({"1": {**PATTERN, "id": "A"}}, InvalidNode, "no list of names"),
        ({"1": {**PATTERN, "id": ["A", "A"]}}, InvalidNode, "'A' 2 times"),
        ({"1": {**PATTERN, "id": ["A", "Z"]}}, InvalidNode, "'Z', which is not in the workload"),
        ({"1": {**PATTERN, "property": ["E"]}}, InvalidNode, "'E', which is not among its own"),
        ({"1": {**PATTERN, "logic": {"seq": 1, "sub_id": ["E"]}}}, InvalidNode, "'E', which is not among its own"),
        ({"1": {**PATTERN, "interval": "20"}}, InvalidNode, "'interval' of the pattern '1' is '20'"),
        ({"1": {**PATTERN, "interval": 0}}, CetdslError, "positive"),
    ],
)
def test_errors_of_workloads_say_what_is_wrong(
    tmp_path: Path, text: object, error: type[CetdslError], says: str
) -> None:
    with pytest.raises(error, match=says):
        read_workload(written(tmp_path, text), types="ABCDE")


def test_types_are_not_judged_where_none_are_given(tmp_path: Path) -> None:
    assert list(read_workload(written(tmp_path, {"1": {**PATTERN, "id": [*PATTERN["id"], "Z"]}}))) == ["1"]


def test_a_file_that_is_no_text_is_no_workload(tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParseError, match="is no JSON"):
        read_workload(path)
