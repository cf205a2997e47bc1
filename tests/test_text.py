from __future__ import annotations

import contextlib
import datetime
import re
import threading
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyparsing
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from nodes_strategy import event_lists, patterns, queries, terms

import cetdsl as cet
from cetdsl.aggregates.functions import SPELLINGS
from cetdsl.errors import CetdslError, InvalidNode, NotExpressible, ParseError
from cetdsl.frontend.sase import grammar, parse, parse_condition, parse_predicates, parse_queries
from cetdsl.pattern.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Length,
    Literal,
    Role,
    SparkColumn,
    Unary,
)
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq
from cetdsl.pattern.query import Query, Returned, Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse, unparse_expression, unparse_pattern

FAST = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
A, B, C, D, E = (Event(name, name) for name in "ABCDE")


def each(variable: str, name: str) -> Attribute:
    return Attribute(variable, name)


def window(length: str, slide: str | None = None) -> Window:
    return Window(Span.parse(length), None if slide is None else Span.parse(slide))


def predicate(text: str) -> Expr:
    """The one predicate of WHERE, over variables a and b."""
    (expr,), columns = parse_predicates(text, Seq((Event("a", "A"), Event("b", "B"))))
    assert not columns
    return expr


# --- Round trips -----------------------------------------------------------------------------------------------------


@FAST
@given(queries())
@example(Query(A, where=[Unary("-", Unary("-", each("A", "x")))]))
@example(Query(A, where=[Binary("-", each("A", "x"), Literal(-5))]))
@example(Query(A, where=[Binary("-", Unary("-", Literal(5)), Unary("-", Literal(-5.5)))]))
@example(Query(A, where=[Call("length", ()), Call("count", (Length(),)), Call("in", ())]))
@example(Query(Event("x", "", None)))
@example(Query(Event("x", None, None)))
@example(Query(Event("x", "x", Literal(True))))
@example(Query(A, where=[Literal(datetime.datetime(2024, 2, 29, 1, 2, 3, 4)), Literal(Decimal("1E+5"))]))
@example(Query(A, where=[Literal(float("nan")), Literal(float("-inf")), Literal(-0.0), Literal(1e300)]))
def test_a_query_survives_its_text(query: Query) -> None:
    text = unparse(query)
    parsed = parse(text)
    assert parsed == query
    assert unparse(parsed) == text


@FAST
@given(event_lists().flatmap(patterns))
def test_a_pattern_survives_its_text(pattern: Pattern) -> None:
    assert parse(f"pattern {unparse_pattern(pattern)} -- the end").pattern == pattern


@FAST
@given(terms(["a"]))
def test_a_condition_survives_its_text(term: Expr) -> None:
    assert parse_condition(unparse_expression(term), "a") == term


@pytest.mark.parametrize("names", ["FIRST MATCH", "longest match", "AFTER MATCH", "PARTITION BY"])
def test_a_type_and_a_variable_that_open_a_clause_together_survive_their_text(names: str) -> None:
    kind, variable = names.split()
    query = Query(Event(variable, kind))
    assert parse(unparse(query)) == query


def test_clauses_stand_on_lines_of_their_own() -> None:
    text = (
        "RETURN COUNT(*), SUM(T.duration) AS total, MAX(LENGTH)\n"
        "PATTERN SEQ(Request R, Travel T+, NOT Pickup P)\n"
        "WHERE [driver, rider] AND T.speed < 2.5 AND (R.x = 1 OR R.y IS NULL)\n"
        "GROUP BY district\n"
        "WITHIN 30 minutes SLIDE 5 minutes"
    )
    assert unparse(parse(text)) == text


def test_long_where_is_broken_at_and() -> None:
    condition = "b.a_rather_long_name < NEXT(b).a_rather_long_name"
    text = f"PATTERN B b+\nWHERE {condition}\n  AND {condition}\n  AND {condition}"
    assert unparse(parse(text)) == text


def test_a_spark_column_has_no_text() -> None:
    query = Query(Event("big", None, SparkColumn("amount > 1000")))
    with pytest.raises(
        NotExpressible, match=r"Spark column has no text form\n  hint: write it with cetdsl's own terms"
    ):
        unparse(query)
    assert unparse(query, lenient=True) == "PATTERN EVENT(big, <amount > 1000>)"


def test_a_constant_of_another_type_has_no_text() -> None:
    with pytest.raises(NotExpressible, match="type bytes"):
        unparse_expression(Literal(b"x"))


# --- Published spellings ---------------------------------------------------------------------------------------------

PUBLISHED = {
    "PATTERN Check+ c[]  WHERE c.type = 'notcovered' AND c.destination = NEXT(c).source  "
    "WITHIN 1 day SLIDE 10 minutes": Query(
        Repeat(Event("c", "Check")),
        where=[
            Binary("=", each("c", "type"), Literal("notcovered")),
            Binary("=", each("c", "destination"), Attribute("c", "source", Role.NEXT)),
        ],
        window=window("1 day", "10 minutes"),
    ),
    "PATTERN SEQ(Activity a, Activity+ b[])  WHERE [personID] AND b.rate < NEXT(b).rate AND a.rate*2 < b.rate "
    "AND b.type = 'passive'  WITHIN 10 minutes SLIDE 1 minute": Query(
        Seq((Event("a", "Activity"), Repeat(Event("b", "Activity")))),
        where=[
            Binary("<", each("b", "rate"), Attribute("b", "rate", Role.NEXT)),
            Binary("<", Binary("*", each("a", "rate"), Literal(2)), each("b", "rate")),
            Binary("=", each("b", "type"), Literal("passive")),
        ],
        partition_by=["personID"],
        window=window("10 minutes", "1 minute"),
    ),
    "PATTERN Stock+ s[]  WHERE [companyID] AND s.price < NEXT(s).price  WITHIN 1 hour SLIDE 30 minutes": Query(
        Repeat(Event("s", "Stock")),
        where=[Binary("<", each("s", "price"), Attribute("s", "price", Role.NEXT))],
        partition_by=["companyID"],
        window=window("1 hour", "30 minutes"),
    ),
    "PATTERN check + c[ ]  WHERE c.type = 'not covered' AND c[i].src = c[i - 1].dest  WITHIN 1 week SLIDE 1 day": Query(
        Repeat(Event("c", "check")),
        where=[
            Binary("=", each("c", "type"), Literal("not covered")),
            Binary("=", each("c", "src"), Attribute("c", "dest", Role.PREV)),
        ],
        window=window("1 week", "1 day"),
    ),
    "PATTERN stock + s[ ]  WHERE [id] AND s[i].price > 1.05 * s[i - 1].price  WITHIN 60 min SLIDE 10 min": Query(
        Repeat(Event("s", "stock")),
        where=[Binary(">", each("s", "price"), Binary("*", Literal(1.05), Attribute("s", "price", Role.PREV)))],
        partition_by=["id"],
        window=window("60 minutes", "10 minutes"),
    ),
    "PATTERN SEQ (A a, B b, C c)  WHERE ((a.person_id = b.person_id) ^ (b.person_id = c.person_id))  "
    "WITHIN 10 minutes.": Query(
        Seq((Event("a", "A"), Event("b", "B"), Event("c", "C"))),
        where=[
            Binary("=", each("a", "person_id"), each("b", "person_id")),
            Binary("=", each("b", "person_id"), each("c", "person_id")),
        ],
        window=window("10 minutes"),
    ),
    "RETURN COUNT(*), SUM(T.duration), AVG(T.speed)  PATTERN SEQ(Request R, Travel T+, NOT Pickup P)  "
    "WHERE [driver, rider]  GROUPBY district  WITHIN 30 min SLIDE 5 min": Query(
        Seq((Event("R", "Request"), Repeat(Event("T", "Travel")), Not(Event("P", "Pickup")))),
        partition_by=["driver", "rider"],
        group_by=["district"],
        window=window("30 min", "5 min"),
        returning=[
            Returned(Aggregate("count")),
            Returned(Aggregate("sum", None, each("T", "duration"))),
            Returned(Aggregate("avg", None, each("T", "speed"))),
        ],
    ),
    "PATTERN SEQ{A, B, !C, D}  WITHIN 20 min": Query(Seq((A, B, Not(C), D)), window=window("20 minutes")),
    "PATTERN AND{SEQ{A, B}, SEQ{C, OR{D, E}}}  WITHIN 20 min": Query(
        And((Seq((A, B)), Seq((C, Or((D, E)))))), window=window("20 minutes")
    ),
    "PATTERN (SEQ(A, B+))+  WITHIN 15 min SLIDE 5 min": Query(
        Repeat(Seq((A, Repeat(B)))), window=window("15 minutes", "5 minutes")
    ),
}


@pytest.mark.parametrize("text", PUBLISHED)
def test_published_spellings_parse(text: str) -> None:
    assert parse(text) == PUBLISHED[text]
    assert parse(unparse(PUBLISHED[text])) == PUBLISHED[text]


@pytest.mark.parametrize("text", PUBLISHED)
def test_published_spellings_parse_fast(text: str) -> None:
    parse(text)
    begun = time.perf_counter()
    for _ in range(3):
        parse(text)
    assert (time.perf_counter() - begun) / 3 < 0.05


# --- Other spellings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A", A),
        ("Travel T+", Repeat(Event("T", "Travel"))),
        ("Travel+ T", Repeat(Event("T", "Travel"))),
        ("T+", Repeat(Event("T", "T"))),
        ("A*", Repeat(A, 0)),
        ("A?", Repeat(A, 0, 1)),
        ("A{2,3}", Repeat(A, 2, 3)),
        ("A{2,}", Repeat(A, 2)),
        ("A{2}", Repeat(A, 2, 2)),
        ("A { 2 , 3 } a[]", Repeat(Event("a", "A"), 2, 3)),
        ("(A+)?", Repeat(Repeat(A), 0, 1)),
        ("A OR B AND C", Or((A, And((B, C))))),
        ("(A or B) and C", And((Or((A, B)), C))),
        ("A OR (B OR C)", Or((A, Or((B, C))))),
        ("OR(A, B, C)", Or((A, B, C))),
        ("seq(A, not B, !C, D)", Seq((A, Not(B), Not(C), D))),
        ("SEQ(A, NOT B+, C)", Seq((A, Not(Repeat(B)), C))),
        ("SEQ(A, NOT SEQ(B, C), D)", Seq((A, Not(Seq((B, C))), D))),
        ("SEQ(A, (NOT B), C)", Seq((A, Not(B), C))),
        ("(SEQ(A, NOT C))+", Repeat(Seq((A, Not(C))))),
        ("`not covered` `the c`+", Repeat(Event("the c", "not covered"))),
        ("EVENT(big, amount > 1000)", Event("big", None, Binary(">", each("big", "amount"), Literal(1000)))),
        ("EVENT(Check c, c.x > 5)", Event("c", "Check", Binary(">", each("c", "x"), Literal(5)))),
        ("EVENT(c)", Event("c")),
        ("Event e", Event("e", "Event")),
        ("A -- a comment, OR more\n OR B", Or((A, B))),
    ],
)
def test_patterns(text: str, pattern: Pattern) -> None:
    assert parse("PATTERN " + text).pattern == pattern


ax, bx = each("a", "x"), each("b", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x + 1 * 2 = -b.x", Binary("=", Binary("+", ax, Binary("*", Literal(1), Literal(2))), Unary("-", bx))),
        ("a.x - 1 - -2 = 3", Binary("=", Binary("-", Binary("-", ax, Literal(1)), Literal(-2)), Literal(3))),
        ("a.x-1=b.x", Binary("=", Binary("-", ax, Literal(1)), bx)),
        ("(a.x + 1) * 2 > .5", Binary(">", Binary("*", Binary("+", ax, Literal(1)), Literal(2)), Literal(0.5))),
        ("a.x == 1", Binary("=", ax, Literal(1))),
        ("a.x <> 1e3", Binary("!=", ax, Literal(1000.0))),
        ("a.x != b.x", Binary("!=", ax, bx)),
        ("NOT a.x = 1 OR b.x=2", Binary("or", Unary("not", Binary("=", ax, Literal(1))), Binary("=", bx, Literal(2)))),
        ("!(a.x = 1)", Unary("not", Binary("=", ax, Literal(1)))),
        ("a.x IS NULL", Call("isnull", (ax,))),
        ("a.x is not null", Call("isnotnull", (ax,))),
        ("a.x IN (1, 'x')", Call("in", (ax, Literal(1), Literal("x")))),
        ("a.x NOT IN (1)", Unary("not", Call("in", (ax, Literal(1))))),
        ("a.x LIKE 'a%'", Call("like", (ax, Literal("a%")))),
        ("a.x not like 'a%'", Unary("not", Call("like", (ax, Literal("a%"))))),
        (
            "a.x NOT BETWEEN 1 AND 2 + 3",
            Unary(
                "not",
                Binary("and", Binary(">=", ax, Literal(1)), Binary("<=", ax, Binary("+", Literal(2), Literal(3)))),
            ),
        ),
        (
            "ABS(a.x - NEXT(b).x) < 5",
            Binary("<", Call("abs", (Binary("-", ax, Attribute("b", "x", Role.NEXT)),)), Literal(5)),
        ),
        ("pi() > a.x", Binary(">", Call("pi", ()), ax)),
        ("COUNT(b) >= 3", Binary(">=", Aggregate("count", "b"), Literal(3))),
        ("count ( * ) > 3", Binary(">", Aggregate("count"), Literal(3))),
        ("LENGTH > 3", Binary(">", Length(), Literal(3))),
        ("length() > 3", Binary(">", Length(), Literal(3))),
        ("length(a.x) > 3", Binary(">", Call("length", (ax,)), Literal(3))),
        ("MAX(b.x * 2) > 3", Binary(">", Aggregate("max", None, Binary("*", bx, Literal(2))), Literal(3))),
        ("LAST(b).x > first(b).x", Binary(">", Attribute("b", "x", Role.LAST), Attribute("b", "x", Role.FIRST))),
        ("b[2].x > 5", Binary(">", Attribute("b", "x", Role.NTH, 2), Literal(5))),
        ("b[i+1].x > b[].x", Binary(">", Attribute("b", "x", Role.NEXT), bx)),
        ("PREV(b).x <= b.x", Binary("<=", Attribute("b", "x", Role.PREV), bx)),
        ("a.type = a.order", Binary("=", each("a", "type"), each("a", "order"))),
        ("a.in = a.`or`", Binary("=", each("a", "in"), each("a", "or"))),
        ('a.x = "it\'s"', Binary("=", ax, Literal("it's"))),
        ("a.x = 'it''s -- no comment'", Binary("=", ax, Literal("it's -- no comment"))),
        ("a.x = DATE '2024-02-29'", Binary("=", ax, Literal(datetime.date(2024, 2, 29)))),
        (
            "a.x = TIMESTAMP '2024-02-29T10:00:00Z'",
            Binary("=", ax, Literal(datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.timezone.utc))),
        ),
        ("a.x = DECIMAL '1.10'", Binary("=", ax, Literal(Decimal("1.10")))),
        ("TRUE", Literal(True)),
        ("a.x % 2 = 0", Binary("=", Binary("%", ax, Literal(2)), Literal(0))),
        ("A.x > 0", Binary(">", ax, Literal(0))),
    ],
)
def test_predicates(text: str, expected: Expr) -> None:
    assert predicate(text) == expected


def test_a_literal_of_another_type_is_another_query() -> None:
    assert parse("PATTERN A WHERE A.x = 1") != parse("PATTERN A WHERE A.x = 1.0")


def test_between_at_the_top_is_two_predicates() -> None:
    assert parse("PATTERN A WHERE A.x BETWEEN 1 AND 5 AND A.y > 0") == parse(
        "PATTERN A WHERE A.x >= 1 AND A.x <= 5 AND A.y > 0"
    )


def test_bracketed_lists_anywhere_at_the_top_are_partition_columns() -> None:
    query = parse("PATTERN A WHERE A.x > 1 AND ([a, `b c`] AND [d])")
    assert query.partition_by == ("a", "b c", "d")
    assert len(query.where) == 1


def test_a_type_name_stands_for_its_only_variable() -> None:
    query = parse("RETURN SUM(Travel.d), COUNT(Travel) PATTERN SEQ(Request R, Travel T+) WHERE Travel.x > Request.x")
    assert query == parse("RETURN SUM(T.d), COUNT(T) PATTERN SEQ(Request R, Travel T+) WHERE T.x > R.x")


def test_a_type_name_of_several_variables_stands_for_none() -> None:
    query = parse("PATTERN SEQ(Travel S, Travel T) WHERE Travel.x > 1")
    assert query.where == (Binary(">", each("Travel", "x"), Literal(1)),)


def test_keywords_in_any_case_and_clause_ends() -> None:
    text = "Return Count(*) As n Pattern A Where A.x Is Not Null Group By g Within 5 Slide 2;"
    query = parse(text)
    assert query.returning == (Returned(Aggregate("count"), "n"),)
    assert query.group_by == ("g",)
    assert query.window == Window(Span(5, "tick"), Span(2, "tick"))
    assert parse("PATTERN A WITHIN 1 day 2 hours .").window == Window(Span.parse("26 hours"))
    assert parse("PATTERN A WHERE A.x > 5.").where == (Binary(">", each("A", "x"), Literal(5)),)


def test_parameters_are_values() -> None:
    text = "PATTERN A WHERE A.x > -:low AND A.n IN (:n, ':n') AND A.d >= :day AND A.b = :b -- :none"
    query = cet.parse(text, low=2, n="' OR TRUE --", day=datetime.date(2024, 2, 29), b=None)
    where = "A.x > -(2) AND A.n IN (''' OR TRUE --', ':n') AND A.d >= DATE '2024-02-29' AND A.b = NULL"
    assert str(query) == f"PATTERN A\nWHERE {where}"
    assert str(cet.parse(str(query))) == str(query)


@pytest.mark.parametrize(
    ("given", "written"),
    [("10 minutes", "10 minutes"), (datetime.timedelta(seconds=90), "90 s"), (5, "5"), ("5", "5")],
)
def test_parameters_are_lengths(given: object, written: str) -> None:
    text = "PATTERN SEQ(A, SEQ(B, C) WITHIN :w) WITHIN :w SLIDE :w MAX_GAP :w"
    assert str(cet.parse(text, w=given)) == str(cet.parse(text.replace(":w", written)))


def test_parameters_are_numbers_of_repetitions() -> None:
    text = "PATTERN SEQ(A{:k}, B{:k,}, C{0,:m}, D{:k,:m}) WHERE COUNT(B) >= :k"
    assert str(cet.parse(text, k=2, m=3)) == str(cet.parse(text.replace(":k", "2").replace(":m", "3")))


@pytest.mark.parametrize(
    ("text", "values", "error", "message"),
    [
        ("PATTERN A WHERE A.x > :low", {}, ParseError, r":low has no value\n.*\n +\^{4}\n  hint: .*low=\.\.\."),
        ("PATTERN A WHERE A.x > :low", {"lwo": 1}, ParseError, "the parameter :low has no value"),
        ("PATTERN A WHERE A.x > :low", {"low": 1, "lw": 1}, InvalidNode, "parameter :lw\n  hint: did you mean ':low'"),
        ("PATTERN A WHERE A.n = ':n' -- :n", {"n": 1}, InvalidNode, "parameter :n\n  hint: write :n where its value"),
        ("PATTERN A WHERE A.x > :low", {"low": 1, "q": 1}, InvalidNode, "parameter :q\n  hint: the text has :low"),
        ("PATTERN A WHERE A.x > :low", {"low": [1]}, InvalidNode, r"the parameter :low: \[1\] \(list\)"),
        ("PATTERN A WHERE A.x > :low", {"low": cet.event("A").x}, InvalidNode, "the parameter :low is a term, A.x"),
        ("PATTERN A WHERE A.x > :low", {"low": 2**63}, InvalidNode, "beyond the range of BIGINT"),
        ("PATTERN A WHERE A.x > : low", {"low": 1}, ParseError, "a value is missing after >"),
        ("PATTERN A WITHIN :w", {}, ParseError, r":w has no value\n.*\n +\^{2}\n  hint: .*w=\.\.\."),
        ("PATTERN A WITHIN 5", {"w": 1}, InvalidNode, "no parameter :w"),
        ("PATTERN A WITHIN :w", {"w": "soon"}, ParseError, r":w: 'soon' is not a length of time\n.*\n {27}\^{2}\n"),
        ("PATTERN A WITHIN 5 SLIDE :s", {"s": 1.5}, ParseError, ":s: 1.5 is not a length of time"),
        ("PATTERN A MAX_GAP :g", {"g": None}, ParseError, ":g: None is not a length of time"),
        ("PATTERN A WITHIN :w", {"w": 0}, ParseError, ":w: a length of time must be positive"),
        ("PATTERN A WITHIN :w minutes", {"w": 5}, ParseError, "cannot read 'minutes'(.|\n)*with its unit"),
        ("PATTERN A{:k}", {"k": 2.0}, ParseError, r":k: 2.0 is no number of repetitions\n.*\n {20}\^{2}"),
        ("PATTERN A{:k}", {"k": True}, ParseError, "no number of repetitions"),
        ("PATTERN A{:k}", {"k": -1}, ParseError, "-1 is no number of repetitions(.|\n)*hint: .*whole number from 0 on"),
        ("PATTERN A WHERE A.x > :k", {"k": np.uint64(2**63)}, InvalidNode, "BIGINT\n  hint: up to 38 digits fit"),
        (
            "PATTERN A WHERE A.x > :k",
            {"k": [1]},
            InvalidNode,
            "hint: pass a single constant; a list has a parameter for each value",
        ),
        ("PATTERN A WHERE A.x > :k", {"k": b"2"}, InvalidNode, "hint: pass a constant: None, bool, int"),
        ("PATTERN A{:k,:m}", {"k": 3, "m": 2}, ParseError, "cannot repeat 3 to 2 times"),
    ],
)
def test_parameters_that_do_not_fit(text: str, values: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cet.parse(text, **values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RETURN SUM(a[i].x * a[j].x) PATTERN A+ a[]", r"a\[i\] and a\[j\]"),
        ("PATTERN A+ a[] WHERE a[i].x < a[j+1].x", r"a\[i\] and a\[j\]"),
        ("PATTERN A+ a[] WHERE a[k-1].x = 1 OR a[n].x > 3", r"a\[k\] and a\[n\]"),
        ("PATTERN SEQ(A+ a[], B+ b[]) WHERE a[i].x < b[j].x AND a[j].x < 3 AND b[i].x < b[i+1].x", None),
        ("RETURN SUM(a[i].x) PATTERN A+ a[] WHERE a[].x < a[i+1].x", None),
    ],
)
def test_a_predicate_has_one_index_of_a_variable(text: str, message: str | None) -> None:
    if message is None:
        assert parse(text) == parse(re.sub(r"(\w)\[\w?\]\.", r"\1.", text))
    else:
        with pytest.raises(ParseError, match=message):
            parse(text)


def test_any_number_of_repetitions_is_read() -> None:
    query = parse("PATTERN A{5,999999999999}")
    assert parse(unparse(query)) == query
    with pytest.raises(ParseError, match="a number of 5000 digits is too long"):
        parse("PATTERN A{" + "9" * 5000 + "}")


def test_parameters_of_several_queries() -> None:
    queries = parse_queries("NAME a: PATTERN A WHERE A.x > :low; NAME b: PATTERN B WHERE B.n = :n;", VALUES)
    assert [str(query.where[0].right.value) for query in queries.values()] == ["2", "x"]
    with pytest.raises(
        ParseError, match=r":low has no value\n.*\n +\^{4}\n  hint: give it: parameters={'low': \.\.\.}"
    ):
        parse_queries("NAME b: PATTERN B WHERE B.n = 'it'; NAME a: PATTERN A WHERE A.x > :low")
    with pytest.raises(InvalidNode, match="no parameter :n\n  hint: the text has :low"):
        parse_queries("NAME a: PATTERN A WHERE A.x > :low", VALUES)


VALUES = {"low": Literal(2), "n": Literal("x")}


def test_deep_nesting_is_an_error_of_ours_or_parses() -> None:
    assert parse("PATTERN " + "(" * 20 + "A" + ")" * 20 + " WHERE " + "(" * 20 + "A.x > 1" + ")" * 20).pattern == A
    with pytest.raises(ParseError, match="nested too deeply"):
        parse("PATTERN " + "(" * 5000 + "A" + ")" * 5000)


def test_an_innermost_bracket_is_shown() -> None:
    inside = "(" * 3000 + "A.x" + ")" * 3000
    with pytest.raises(ParseError, match="nested too deeply: 3,000 brackets stand inside each other") as caught:
        parse(f"PATTERN A WHERE {inside}")
    assert caught.value.span == (3015, 3016)
    line, carets = str(caught.value).splitlines()[1:3]
    assert line == f"  line 1: ...{'(' * 101}A.x{')' * 96}..."
    assert line[carets.index("^") :].startswith("(A.x")


def test_threads_share_the_grammar() -> None:
    texts = list(PUBLISHED) * 3
    answers: dict[int, bool] = {}

    def work(number: int) -> None:
        answers[number] = all(parse(text) == PUBLISHED[text] for text in texts)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == dict.fromkeys(range(4), True)


def test_the_grammar_has_named_rules() -> None:
    names = {rule.name for rule in grammar().visit_all()}
    assert {"query", "pattern", "event", "expression", "operand", "aggregate", "SEQ", "WHERE clause"} <= names
    assert isinstance(grammar(), pyparsing.ParserElement)


# --- Errors ----------------------------------------------------------------------------------------------------------

ERRORS = {
    "": """\
the text is empty
  hint: write [RETURN ...] PATTERN ... [WHERE ...] [MATCHING ...] [LONGEST MATCH] [FIRST MATCH]"""
    " [AFTER MATCH SKIP ...] [PARTITION BY ...] [GROUP BY ...] [WITHIN ...] [MAX_GAP ...]",
    "SEQ(A, B)": """\
PATTERN is missing: found 'SEQ'
  line 1: SEQ(A, B)
          ^^^
  hint: write [RETURN ...] PATTERN ... [WHERE ...] [MATCHING ...] [LONGEST MATCH] [FIRST MATCH]"""
    " [AFTER MATCH SKIP ...] [PARTITION BY ...] [GROUP BY ...] [WITHIN ...] [MAX_GAP ...]",
    "PATTERN SEQ(A, B": """\
( is never closed
  line 1: PATTERN SEQ(A, B
                     ^
  hint: add a )""",
    "PATTERN SEQ(A, B WHERE A.x > 1": """\
( is never closed
  line 1: PATTERN SEQ(A, B WHERE A.x > 1
                     ^
  hint: add a )""",
    "PATTERN SEQ()": """\
a pattern is missing
  line 1: PATTERN SEQ()
                      ^
  hint: SEQ needs at least one part, as in SEQ(A, B)""",
    "PATTERN SEQ(A, )": """\
a pattern is missing
  line 1: PATTERN SEQ(A, )
                         ^
  hint: remove the comma, or write a part after it""",
    "PATTERN A\nWHERE A.x > 1 AND\nWITHIN 5": """\
a predicate is missing after AND: found 'WITHIN'
  line 3: WITHIN 5
          ^^^^^^
  hint: AND needs a predicate on both sides""",
    "PATTERN A AND WITHIN 5": """\
a pattern is missing
  line 1: PATTERN A AND WITHIN 5
                        ^^^^^^
  hint: AND needs a pattern on both sides""",
    "PATTERN NOT A": """\
NOT stands outside SEQ
  line 1: PATTERN NOT A
                  ^^^
  hint: NOT says what must not happen beside something else: SEQ(A, NOT N, B)""",
    "PATTERN SEQ(A, B OR NOT C)": """\
NOT cannot stand directly inside OR
  line 1: PATTERN SEQ(A, B OR NOT C)
                              ^^^
  hint: NOT belongs inside SEQ, beside a positive part: seq(A, absent(N), B)""",
    "PATTERN A WITHIN 10 fortnights": """\
'fortnights' is not a unit of time
  line 1: PATTERN A WITHIN 10 fortnights
                              ^^^^^^^^^^
  hint: write '10 minutes', '1 day', '90 s', or a whole number of ticks for an integer time column""",
    "PATTERN A WITHIN 1 hour SLIDE 10 minuts": """\
'minuts' is not a unit of time
  line 1: PATTERN A WITHIN 1 hour SLIDE 10 minuts
                                           ^^^^^^
  hint: did you mean 'minutes'?""",
    "PATTERN A WITHIN ten minutes": """\
WITHIN needs a length of time: found 'ten'
  line 1: PATTERN A WITHIN ten minutes
                           ^^^
  hint: write 10 minutes, 1 day, 90 s, or a number of ticks""",
    "PATTERN A WHERE price > 3": """\
'price' does not say which event it belongs to
  line 1: PATTERN A WHERE price > 3
                          ^^^^^
  hint: write b.price for a column of the event b, 'price' for a string""",
    "PATTERN A\n\tWHERE\tA.x < A.y < A.z": """\
comparisons cannot be chained
  line 2: \tWHERE\tA.x < A.y < A.z
          \t     \t          ^
  hint: write a < b AND b < c instead of a < b < c""",
    "PATTERN SEQ(A a, B a)": """\
the variable 'a' stands for two different events
  line 1: PATTERN SEQ(A a, B a)
                             ^
  hint: give each its own name, such as 'a1' and 'a2'""",
    "PATTERN A a OR SEQ(EVENT(B, a = 1), B a) WHERE a.x > 1": """\
the variable 'a' stands for two different events
  line 1: PATTERN A a OR SEQ(EVENT(B, a = 1), B a) WHERE a.x > 1
                                                ^
  hint: give each its own name, such as 'a1' and 'a2'""",
    "PATTERN SEQ(A `a b`, B `a b`)": """\
the variable 'a b' stands for two different events
  line 1: PATTERN SEQ(A `a b`, B `a b`)
                                 ^^^^^
  hint: give each its own name, such as 'a b1' and 'a b2'""",
    "PATTERN A+ a[] WHERE a[i].x < a[j].x": """\
a[i] and a[j] would be any two events of a, and a predicate compares neighbours
  line 1: PATTERN A+ a[] WHERE a[i].x < a[j].x
                                        ^
  hint: write a[i] and a[i+1] for each two neighbours, or FIRST(a), LAST(a) or a[0] for one of them""",
    "PATTERN SEQ(A, ``)": """\
a name is empty
  line 1: PATTERN SEQ(A, ``)
                         ^^
  hint: write the name of a column or of an event in the backquotes""",
    "PATTERN SEQ(`` a, B) WHERE a.`` > 3": """\
a name is empty
  line 1: PATTERN SEQ(`` a, B) WHERE a.`` > 3
                                       ^^
  hint: write the name of a column or of an event in the backquotes""",
    "PATTERN SEQ(`` a, B) WITHIN": """\
WITHIN needs a length of time: the text ends
  line 1: PATTERN SEQ(`` a, B) WITHIN
                                     ^
  hint: write 10 minutes, 1 day, 90 s, or a number of ticks""",
    "PATTERN A{3,2}": """\
cannot repeat 3 to 2 times
  line 1: PATTERN A{3,2}
                   ^
  hint: 0 <= at_least <= at_most and at_most >= 1""",
    "PATTERN A b[]": """\
b[] stands for several events, but A is not repeated
  line 1: PATTERN A b[]
                     ^
  hint: write A+ b[], or leave out the brackets""",
    "RETURN A.x PATTERN A": """\
RETURN takes aggregates
  line 1: RETURN A.x PATTERN A
                 ^
  hint: such as COUNT(*), SUM(b.price) AS total, MAX(LENGTH); there are """
    + ", ".join(map(str.upper, SPELLINGS)),
    "RETURN COUNT(A.x) PATTERN A": """\
COUNT takes a variable or *, not a term
  line 1: RETURN COUNT(A.x) PATTERN A
                 ^^^^^
  hint: COUNT(b) counts events; filter NULLs with a predicate on the variable""",
    "PATTERN A WITHIN 5 WHERE A.x > 1": """\
WHERE stands too late in the query
  line 1: PATTERN A WITHIN 5 WHERE A.x > 1
                             ^^^^^
  hint: write [RETURN ...] PATTERN ... [WHERE ...] [MATCHING ...] [LONGEST MATCH] [FIRST MATCH]"""
    " [AFTER MATCH SKIP ...] [PARTITION BY ...] [GROUP BY ...] [WITHIN ...] [MAX_GAP ...]",
    "PATTERN SEQ(A, B+) WHER A.x > 1": """\
cannot read 'WHER' here
  line 1: PATTERN SEQ(A, B+) WHER A.x > 1
                             ^^^^
  hint: did you mean 'WHERE'?""",
    "PATTERN A WHER A.x > 1": """\
cannot read 'A' here
  line 1: PATTERN A WHER A.x > 1
                         ^
  hint: did you mean 'WHERE' by 'WHER'? Several parts stand in SEQ(A, B)""",
    "PATTERN A WHERE A.x > 1 WITHN 5 minutes": """\
cannot read 'WITHN' here
  line 1: PATTERN A WHERE A.x > 1 WITHN 5 minutes
                                  ^^^^^
  hint: did you mean 'WITHIN'?""",
    "PATTERN A WITHIN 10 minutes SLID 5 minutes": """\
cannot read 'SLID' here
  line 1: PATTERN A WITHIN 10 minutes SLID 5 minutes
                                      ^^^^
  hint: did you mean 'SLIDE'?""",
    "PATTERN A b other": """\
a pattern of several parts needs SEQ
  line 1: PATTERN A b other
                      ^^^^^
  hint: write PATTERN SEQ(A, B)""",
    "SELECT COUNT(*) PATTERN A": """\
PATTERN is missing: found 'SELECT'
  line 1: SELECT COUNT(*) PATTERN A
          ^^^^^^
  hint: write RETURN COUNT(*) PATTERN ...; a statement with MATCH_RECOGNIZE is for cetdsl.sql(text, spark)""",
    "PARTITION BY id ORDER BY t PATTERN (A B+) DEFINE B AS B.x > 1": """\
PATTERN is missing: found 'PARTITION'
  line 1: PARTITION BY id ORDER BY t PATTERN (A B+) DEFINE B AS B.x > 1
          ^^^^^^^^^
  hint: a MATCH_RECOGNIZE clause is for df.match_recognize(clause)""",
    "PATTERN A WHERE A.x = 'abc": """\
the ' that starts here is never closed
  line 1: PATTERN A WHERE A.x = 'abc
                                ^
  hint: add a closing '; inside of quotes it is doubled: 'it''s'""",
}


@pytest.mark.parametrize("text", ERRORS)
def test_error_messages(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert str(caught.value) == ERRORS[text]


@pytest.mark.parametrize(
    ("text", "found", "hint"),
    [
        ("PATTERN A WHERE CASE WHEN A.x > 1 THEN TRUE END", "WHEN", "no conditional"),
        ("PATTERN A WHERE CAST(A.x AS INT) = 1", "AS", "int(b.x)"),
        ("PATTERN A WHERE A.x::int = 1", ":", "int(b.x)"),
        ("PATTERN A WHERE EXTRACT(HOUR FROM A.ts) = 1", "FROM", "hour(b.ts)"),
        ("PATTERN A WHERE A.x || A.y = 'ab'", "|", "concat(a.x, b.x)"),
        ("PATTERN A WHERE A.x = 1 && A.y = 2", "&", "AND"),
        ("PATTERN A WHERE A.x RLIKE 'a'", "RLIKE", "rlike(b.x"),
        ("PATTERN A WHERE A.x LIKE 'a' ESCAPE '!'", "ESCAPE", "like(b.x, 'a!%', '!')"),
        ("PATTERN A WHERE A.x.y = 1", ".", "field of a struct"),
        ("PATTERN A GROUP BY st.a", "st", "field of a struct"),
        ("PATTERN A WHERE st.a = A.x GROUP BY st.a", "st", "field of a struct"),
        ("PATTERN A GROUP BY A.a", "A", "write GROUP BY a"),
        ("PATTERN A GROUP BY A.st.a", "A", "field of a struct"),
        ("PATTERN A GROUP BY date(st.a)", "date", "field of a struct"),
        ("PATTERN A GROUP BY date(A.a)", "date", "name columns without an event: a"),
        ("PATTERN A GROUP BY date(A.st.a)", ".", "field of a struct"),
        ("PATTERN A PARTITION BY st.a", ".", "field of a struct"),
        ("PATTERN A PARTITION BY A.a", ".", "write PARTITION BY sector"),
        ("PATTERN A WHERE [st.a]", ".", "field of a struct"),
        ("PATTERN A WHERE [A.a]", ".", "holds columns alone"),
        ("PATTERN `A` WHERE [A.a]", ".", "holds columns alone"),
        ("RETURN SUM(B.st.a) PATTERN B", ".", "field of a struct"),
        ("PATTERN EVENT(x, x.st.a > 2)", ".", "field of a struct"),
        ("PATTERN SEQ(A.b, C)", ".", "separate the parts"),
        ("PATTERN A WHERE A.x['k'] = 1", "[", "element_at(b.x"),
        ("PATTERN A WHERE A.x IS TRUE", "TRUE", "write = TRUE"),
        ("PATTERN A WHERE A.x IS NOT TRUE", "TRUE", "write != TRUE"),
        ("PATTERN A WHERE A.x IS DISTINCT FROM A.y", "DISTINCT", "NOT equal_null"),
        ("PATTERN A WHERE A.x <=> A.y", ">", "equal_null(a.x, b.x)"),
        ("PATTERN A WHERE A.x NOT NULL", "NOT", "IS NOT NULL"),
        ("PATTERN A WHERE A.x IN 1", "1", "IN (1, 2)"),
        ("PATTERN A WHERE A.x > +1", "+", "write 1"),
        ("PATTERN A WHERE A.ts > A.t - INTERVAL -90 SECONDS", "SECONDS", "INTERVAL '90' MINUTE"),
        ("RETURN COUNT() PATTERN A", ")", "COUNT(*), or COUNT(b)"),
        ("RETURN SUM() PATTERN A", ")", "SUM(b.price)"),
        ("PATTERN A LIMIT 10", "10", "limit=10"),
        ("PATTERN SEQ(A, B) LIMIT 10", "LIMIT", "limit=10"),
        ("PATTERN A WHERE A.x = 1 LIMIT 10", "LIMIT", "limit=10"),
        ("PATTERN A WITHIN 10 minutes LIMIT 10", "LIMIT", "limit=10"),
        ("PATTERN A ORDER BY ts", "BY", "orderBy"),
        ("PATTERN A HAVING COUNT(A) > 1", "COUNT", "COUNT(b) > 3"),
        ("PATTERN A FROM events", "events", "df.pattern(text)"),
        ("PATTERN A -> B", "-", "SEQ(A, B)"),
        ("PATTERN A B+ C", "C", "SEQ(A, B)"),
        ("PATTERN A WITHIN INTERVAL '10' MINUTE", "INTERVAL", "without INTERVAL and quotes: write 10 minutes"),
        ("PATTERN A WITHIN '10 minutes'", "'10 minutes'", "without INTERVAL and quotes: write 10 minutes"),
        ("PATTERN A PARTITION company", "company", "PARTITION BY"),
        ("PATTERN A OR NOT B", "NOT", "inside SEQ"),
        ("PATTERN A WHERE A.x = 1 OR A.x = 2 AND [company]", "[", "parentheses"),
        ("PATTERN A WHERE A.x = ’DE’", "’", "straight quotes"),
        ("PATTERN A WHERE A.x = “DE”", "“", "straight quotes"),
        ("PATTERN SEQ('card' c, B)", "'card'", "a type stands without quotes"),
        ("PATTERN A # rising", "#", "a comment begins with --"),
        ("PATTERN A // rising", "/", "a comment begins with --"),
        ("PATTERN A WHERE A.x > 1 // rising", "/", "a comment begins with --"),
        ("RETURN COUNT(*), PATTERN A", "PATTERN", "remove the comma"),
        ("RETURN SUM(A.x) total PATTERN A", "total", "name one by AS"),
        ("PATTERN A+ WHERE NXT(A).x > 1", ".", "did you mean 'NEXT'?"),
        ("PATTERN A+ WHERE LAG(A).x > 1", ".", "write NEXT, PREV, FIRST, LAST before (A).column"),
        ("PATTERN A WHERE A.x => 1", ">", "write >="),
        ("PATTERN A WHERE A.x =< 1", "<", "write <="),
        ("PATTERN A{1.5}", ".", "write A{2}, A{2,} or A{2,3}"),
        ("PATTERN A | B", "|", "write A OR B"),
        ("PATTERN SEQ(A | B, C)", "|", "write A OR B"),
        ("PATTERN A & B", "&", "write A AND B"),
        ("PATTERN my-type a", "-", "`my-type`"),
        ("PATTERN SEQ(A, B) MAX GAP 10", "MAX", "MAX_GAP"),
    ],
)
def test_what_other_languages_write_is_told_apart(text: str, found: str, hint: str) -> None:
    with pytest.raises(ParseError) as caught:
        cet.parse(text)
    begin, end = caught.value.span or (0, 0)
    assert text[begin:end] == found
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN",
        "PATTERN SEQ",
        "PATTERN SEQ A, B",
        "PATTERN A, B",
        "PATTERN A)",
        "PATTERN SEQ(A, B}",
        "PATTERN SEQ(A B C)",
        "PATTERN !",
        "PATTERN SEQ(A, !!B)",
        "PATTERN A{}",
        "PATTERN A{0}",
        "PATTERN EVENT()",
        "PATTERN EVENT(a, )",
        "PATTERN EVENT(a, [x] = 1)",
        "PATTERN A WHERE",
        "PATTERN A WHERE A.x >",
        "PATTERN A WHERE A.x > 3 4",
        "PATTERN A WHERE A.x BETWEEN 1",
        "PATTERN A WHERE A.x BETWEEN 1 OR 2",
        "PATTERN A WHERE A.x NOT 3",
        "PATTERN A WHERE A.x IN ()",
        "PATTERN A WHERE A.x IS 3",
        "PATTERN A WHERE NEXT(A) > 3",
        "PATTERN A WHERE FIRST(A.x) > 3",
        "PATTERN A WHERE A[i-2].x > 3",
        "PATTERN A WHERE A[-1].x > 3",
        "PATTERN A WHERE SUM(A) > 3",
        "PATTERN A WHERE SUM(*) > 3",
        "PATTERN A WHERE SUM(LENGTH) > 3",
        "PATTERN A WHERE abs(*) > 3",
        "PATTERN A WHERE [x] OR A.x > 1",
        "PATTERN A WHERE [A.x]",
        "PATTERN A WHERE A.x > 1e999",
        "PATTERN A WHERE A.x > 5abc",
        "PATTERN A WHERE A.x > DATE '2024-13-01'",
        "PATTERN A WHERE A.x > DECIMAL 'x'",
        "PATTERN A WHERE A.x = @",
        "PATTERN A GROUP x",
        "PATTERN A GROUP BY",
        "PATTERN A GROUP BY A.x",
        "PATTERN A WITHIN",
        "PATTERN A WITHIN 0 minutes",
        "PATTERN A WITHIN 1.5 hours",
        "PATTERN A WITHIN 5 SLIDE",
        "PATTERN A SLIDE 5",
        "PATTERN A WITHIN 5 SLIDE 0",
        "RETURN PATTERN A",
        "RETURN COUNT(*) AS PATTERN A",
        "RETURN COUNT(*), PATTERN A",
        "RETURN COUNT(*)",
        "RETURN LENGTH PATTERN A",
        "PATTERN A PATTERN B",
        "PATTERN AND(A)",
        "PATTERN `A",
        "PATTERN A WHERE " + "9" * 5000 + " > 1",
    ],
)
def test_every_malformed_text_gets_a_place_and_a_hint(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.span is not None
    assert caught.value.text == text
    assert caught.value.hint or text.endswith("> 1")


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """Published and arbitrary texts with a piece cut out and another put in."""
    text = draw(st.one_of(st.sampled_from(list(PUBLISHED)), queries().map(unparse)))
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    piece = draw(
        st.sampled_from(["", " AND ", "(", ")", "]", "{", ",", " NOT ", "'", "`", "+", "WHERE", "--", "[", "."])
    )
    return text[:start] + piece + text[min(end, start + 5) :]


@FAST
@given(broken_texts())
def test_broken_texts_raise_only_our_errors(text: str) -> None:
    with contextlib.suppress(CetdslError):
        assert isinstance(parse(text), Query)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidNode, match="a query text is a string, not int"):
        parse(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["A+?", "A*?", "A??", "A{2,3} ?", "SEQ(B, A+ a?)", "(A OR B)+?"])
def test_a_reluctant_repetition_is_refused(pattern: str) -> None:
    with pytest.raises(ParseError, match="all matches count here") as caught:
        parse(f"PATTERN {pattern}")
    assert caught.value.span is not None
    assert pattern[caught.value.span[0] - len("PATTERN ")] == "?"
    assert caught.value.hint is not None
    assert "(A+)?" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("PATTERN A+ PARTITION BY user", ("user",)),
        ("PATTERN SEQ(A a, B+ b[]) partition  by user, `home page` GROUP BY day WITHIN 1 hour", ("user", "home page")),
        ("PATTERN SEQ(A, B) WHERE [user] AND A.x < B.x PARTITION BY day, user", ("user", "day")),
        ("PATTERN A partition WHERE partition.x > 1 PARTITION BY partition", ("partition",)),
    ],
)
def test_partition_by_is_an_equivalence(text: str, columns: tuple[str, ...]) -> None:
    query = parse(text)
    assert query.partition_by == columns
    assert "PARTITION BY" not in unparse(query)
    assert parse(unparse(query)) == query


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PATTERN A PARTITION BY", "a name is missing: the text ends"),
        ("PATTERN A PARTITION BY A.user", "PARTITION BY takes columns without an event"),
        ("PATTERN A GROUP BY day PARTITION BY user", "PARTITION stands too late in the query"),
    ],
)
def test_partition_by_is_told_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.message == message
