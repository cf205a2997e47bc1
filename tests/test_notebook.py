"""What notebooks show of queries, workloads and graphs: all of it is there, and nothing runs for it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import cetdsl as cet

RISING = "PATTERN SEQ(A, B+ b[]) WHERE [user] AND b.x < NEXT(b).x WITHIN 10 SLIDE 5"


@pytest.fixture(scope="module")
def unreadable(spark: Any) -> DataFrame:
    """Events that no job can read."""
    return spark.range(9).select(
        F.raise_error("a job has run").cast("int").alias("t"),
        F.lit("A").alias("type"),
        F.lit("ann").alias("user"),
        F.col("id").alias("x"),
    )


def pictures(html: str) -> list[ET.Element]:
    """The pictures of a fragment that is well formed, brings all it needs, and asks nobody for anything."""
    assert not re.search(r"<script|<link|<img|@import|url\(h|src=", html)
    # What a browser would read as markup, and not as text, has to be closed.
    whole = ET.fromstring(html)
    return list(whole.iter("{http://www.w3.org/2000/svg}svg"))


def words(html: str) -> str:
    return " ".join(" ".join(ET.fromstring(html).itertext()).split())


@pytest.mark.parametrize("shown", [cet.parse(RISING), cet.seq("A", +cet.event("B")), cet.event("A")])
def test_patterns_and_queries_show_their_text_and_automaton(shown: Any) -> None:
    html = shown._repr_html_()
    assert len(pictures(html)) == 1
    assert " ".join(str(shown).split()) in words(html)


def test_arrows_carry_predicates_between_neighbours() -> None:
    [picture] = pictures(cet.parse(RISING)._repr_html_())
    assert "b.x < NEXT(b).x" in "".join(picture.itertext())


def test_both_sides_of_a_top_conjunction_are_drawn() -> None:
    html = cet.parse("PATTERN AND(SEQ(A, B), C+) WITHIN 5")._repr_html_()
    assert len(pictures(html)) == 2
    assert "automaton of SEQ(A, B)" in words(html)


@pytest.mark.parametrize(
    "text", ["A{30}", "SEQ(" + ", ".join(f"E{n}" for n in range(30)) + ")", "SEQ(A, AND(SEQ(B, C), D))"]
)
def test_what_cannot_be_drawn_is_still_shown(text: str) -> None:
    html = cet.parse(f"PATTERN {text}")._repr_html_()
    assert not pictures(html)
    assert "PATTERN" in words(html)


def test_a_lone_not_and_a_length_are_shown() -> None:
    assert "NOT A" in words(cet.absent("A")._repr_html_())
    assert len(pictures(cet.parse("PATTERN SEQ(A, SEQ(B, NOT C) WITHIN 5)")._repr_html_())) == 1


def test_markup_in_a_query_is_text() -> None:
    query = cet.event("<b>", type="</svg><script>").where("`<b>`.x = '</pre><script>'")
    html = query._repr_html_()
    assert len(pictures(html)) == 1
    assert "</pre><script>" in words(html)


def test_bound_queries_say_how_events_are_read(unreadable: DataFrame) -> None:
    bound = unreadable.pattern(cet.parse(RISING).group_by(half="x % 2"), time="t")
    html = bound._repr_html_()
    assert len(pictures(html)) == 1
    text = words(html)
    assert "t (int), in whole ticks" in text
    assert "GROUP BY x % 2 AS half" in text
    assert "explain()" in text


def test_workloads_list_their_queries(unreadable: DataFrame) -> None:
    texts = {f"q{n}": f"RETURN COUNT(*) PATTERN SEQ(A, B{{{n + 1},}})" for n in range(60)}
    html = unreadable.patterns(texts, time="t")._repr_html_()
    assert len(pictures(html)) == 6
    assert "RETURN COUNT(*) PATTERN SEQ(A, B{50,})" in words(html)
    assert "and 10 more" in words(html)


def test_graphs_name_their_dataframes(unreadable: DataFrame) -> None:
    graph = unreadable.pattern("PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x", time="t").graph(algorithm="kernel")
    html = graph._repr_html_()
    assert len(pictures(html)) == 1
    text = words(html)
    for name in ("vertices", "edges", "attribute_vertices", "from_edges", "to_edges", "direct_edges"):
        assert name in text
        assert hasattr(type(graph), name)
