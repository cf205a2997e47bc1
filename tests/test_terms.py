from __future__ import annotations

import copy
import datetime
import enum
import operator
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cetdsl.errors import AmbiguousTruth, InvalidNode, NotExpressible, ParseError, UnknownAttribute, WindowError
from cetdsl.frontend import terms as cet
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
    pattern_of,
    query_of,
    repeat,
    seq,
    star,
)
from cetdsl.frontend.terms import Term, col, first, fn, last, length, next_, prev, to_expr
from cetdsl.pattern.expressions import Attribute, Binary, Call, Literal, Role, SparkColumn, Unary
from cetdsl.pattern.nodes import And, Event, Not, Or, Repeat, Seq
from cetdsl.pattern.query import Query, Window
from cetdsl.pattern.spans import Span

A, B, C, N = events("A", "B", "C", "N")


class Color(str, enum.Enum):
    RED = "red"


class FakeColumn:
    """Looks like a Spark column to the front end, which must not import Spark to see that."""


FakeColumn.__name__ = "Column"
FakeColumn.__module__ = "pyspark.sql.connect.column"


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (A.rate * 2 < B.rate, "A.rate * 2 < B.rate"),
        (2 * A.rate < B.rate, "2 * A.rate < B.rate"),
        (1 - A.x == -B.x, "1 - A.x = -B.x"),
        (1 + A.x != A.x + 1, "1 + A.x != A.x + 1"),
        ((A.x + 1) * 2 <= 3 / B.x, "(A.x + 1) * 2 <= 3 / B.x"),
        (5 % A.x >= A.x % 5, "5 % A.x >= A.x % 5"),
        (A.x / 2 - 1 > 0, "A.x / 2 - 1 > 0"),
        ((A.x > 1) & (B.x > 1) | ~(A.y == "it's"), "A.x > 1 AND B.x > 1 OR NOT A.y = 'it''s'"),
        ((A.x > 1) & ((B.x > 1) | True), "A.x > 1 AND (B.x > 1 OR TRUE)"),
        (True & (A.x > 1), "TRUE AND A.x > 1"),
        (B.x.is_null(), "B.x IS NULL"),
        (B.x.is_not_null(), "B.x IS NOT NULL"),
        (B.x.isin(1, 2), "B.x IN (1, 2)"),
        (B.x.isin([1, 2]), "B.x IN (1, 2)"),
        (B.x.isin({"b", "a"}), "B.x IN ('a', 'b')"),
        (B.x.between(1, A.x), "B.x >= 1 AND B.x <= A.x"),
        (B.x.like("a%"), "B.x LIKE 'a%'"),
        (abs(B.x - next_(B).x) < 5, "abs(B.x - NEXT(B).x) < 5"),
        (fn.round(B.x, 2) == 1.5, "round(B.x, 2) = 1.5"),
        (fn["pi"]() > B.x, "pi() > B.x"),
        (prev(B).x <= B.x, "PREV(B).x <= B.x"),
        (last(B).x > first(B)["x y"], "LAST(B).x > FIRST(B).`x y`"),
        (B[2].price > 5, "B[2].price > 5"),
        (next_("b").x == B["where"], "NEXT(b).x = B.where"),
        (cet.count(B) >= 3, "COUNT(B) >= 3"),
        (cet.count() > cet.count("B"), "COUNT(*) > COUNT(B)"),
        (cet.sum(B.x * 2) > cet.avg(B.x), "SUM(B.x * 2) > AVG(B.x)"),
        (cet.min(length()) < cet.max(B.x), "MIN(LENGTH) < MAX(B.x)"),
        (length() >= 3, "LENGTH >= 3"),
        (col("x") == None, "x = NULL"),  # noqa: E711
    ],
)
def test_terms_read_as_text(term: Term, text: str) -> None:
    assert isinstance(term, Term)
    assert repr(term) == text


def test_equality_makes_a_predicate_but_nodes_keep_true_equality() -> None:
    assert isinstance(A.x == A.x, Term)
    assert (A.x == B.x).node == Binary("=", Attribute("A", "x"), Attribute("B", "x"))
    assert (A.x == B.x).node != (A.x == B.y).node
    assert hash(A.x) == hash(events("A")[0].x)


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (1.5, 1.5),
        ("x", "x"),
        (Decimal("1.5"), Decimal("1.5")),
        (datetime.date(2024, 1, 2), datetime.date(2024, 1, 2)),
        (datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 2)),
        (np.int64(3), 3),
        (np.float64(1.5), 1.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (pd.Timestamp("2024-01-02"), datetime.datetime(2024, 1, 2)),
        (Color.RED, "red"),
    ],
)
def test_python_values_become_constants(value: object, literal: object) -> None:
    assert to_expr(value) == Literal(literal)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ([1, 2], "compare with several values by .isin(...)"),
        (B, "name a column of the event, as in B.price"),
        (next_(B), "name a column of the event, as in B.price"),
        (FakeColumn(), "Spark columns do not know event variables"),
        (np.array([1, 2]), "use a term such as B.price"),
        (len, "functions of Python cannot run here"),
        (b"x", "use a term such as B.price"),
    ],
)
def test_other_values_are_refused_with_a_hint(value: object, hint: str) -> None:
    with pytest.raises(InvalidNode, match=re.escape(hint)):
        Term.__gt__(B.price, value)


def test_truth_is_refused() -> None:
    with pytest.raises(AmbiguousTruth) as caught:
        1 < B.x < 3  # noqa: B015
    assert str(caught.value) == (
        "the predicate B.x > 1 has no truth value until it runs\n"
        "  hint: join predicates with & | ~ instead of and, or, not; write (a < b) & (b < c) instead of a < b < c, "
        "and .isin(...) instead of in"
    )
    with pytest.raises(AmbiguousTruth):
        bool((B.x > 1) and (B.x < 3))
    with pytest.raises(AmbiguousTruth):
        B.x in [A.x]  # noqa: B015
    with pytest.raises(AmbiguousTruth, match="join patterns with >>"):
        bool(A and B)


def test_missing_parentheses_are_noticed() -> None:
    with pytest.raises(InvalidNode, match=r"3 \(int\) is not a predicate\n.*put each comparison in parentheses"):
        B.x > 3 & B.y  # noqa: B015


def test_event_variables() -> None:
    assert B.price.node == B["price"].node == Attribute("B", "price")
    assert B[2].price.node == B[2]["price"].node == Attribute("B", "price", Role.NTH, 2)
    assert B.type.node == Attribute("B", "type")
    assert B._c0.node == Attribute("B", "_c0")
    assert repr(B[2]) == "B[2]"
    for name in ("__len__", "_repr_html_", "_ipython_display_"):
        assert not hasattr(B, name) or name == "_repr_html_"
        assert not hasattr(next_(B), name)
        assert not hasattr(fn, name)
    with pytest.raises(InvalidNode, match=r"B\[-1\] is negative\n  hint: count from 0, or use LAST\(B\)"):
        B[-1]
    with pytest.raises(InvalidNode, match="neither a column nor a number"):
        B[1.5]
    with pytest.raises(InvalidNode, match=r"compare a column: B.price > 5"):
        B > 5  # noqa: B015
    for one, name in ((cet.next_(B), "NEXT(B)"), (B[2], "B[2]")):
        for compare, symbol in ((operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">=")):
            wanted = f"the event {name} cannot be compared\n  hint: compare a column: {name}.price {symbol} 5"
            with pytest.raises(InvalidNode, match=re.escape(wanted)):
                compare(one, 5)
        for compute, symbol in ((operator.add, "+"), (operator.sub, "-"), (operator.mul, "*"), (operator.mod, "%")):
            wanted = f"the event {name} is no number\n  hint: compute with a column: {name}.price {symbol} 5"
            for values in ((one, 5), (5, one), (one, one), (one, B.price)):
                with pytest.raises(InvalidNode, match=re.escape(wanted)):
                    compute(*values)
    with pytest.raises(InvalidNode, match=r"compute with a column: B.price / 5"):
        B / 5
    with pytest.raises(TypeError):
        list(B)


@pytest.mark.parametrize(
    ("write", "hint"),
    [
        (lambda x: x.a, "first, df.withColumn('a', F.col('x.a'))"),
        (lambda x: x["a b"], "first, df.withColumn('a b', F.col('x.a b'))"),
        (lambda x: x[0], "cet.fn.element_at(A.x, ...)"),
        (lambda x: x.cast("int"), "cet.fn.int(A.x)"),
        (lambda x: x.isNull(), "write A.x.is_null()"),
        (lambda x: x.upper(), "cet.fn.upper(A.x); a field of a struct"),
        (lambda x: x**2, "write cet.fn.pow(A.x, 2)"),
        (lambda x: 2**x, "write cet.fn.pow(2, A.x)"),
        (lambda x: x // B.y, "write cet.fn.floor(A.x / B.y)"),
        (lambda x: 7 // x, "write cet.fn.floor(7 / A.x)"),
        (lambda x: +x, "write A.x, and + before an event"),
        (lambda x: round(x), "write cet.fn.round(A.x)"),
        (lambda x: round(x, 1), "write cet.fn.round(A.x, 1)"),
    ],
)
def test_what_terms_lack_is_refused_with_what_is_written_instead(write: Callable[[Term], object], hint: str) -> None:
    with pytest.raises(InvalidNode, match=re.escape(hint)):
        write(A.x)


def test_terms_lack_the_attributes_that_protocols_ask_for() -> None:
    for name in ("a", "_repr_html_", "_ipython_display_", "__len__", "__array__", "_private", "__deepcopy__"):
        assert not hasattr(A.x, name)
    with pytest.raises(UnknownAttribute, match=r"the term A\.x has no attribute 'a'"):
        _ = A.x.a
    with pytest.raises(AttributeError, match="'Term' object has no attribute 'node'"):
        _ = Term.__new__(Term).node
    with pytest.raises(TypeError, match="not iterable"):
        list(A.x)
    assert str(np.float64(2) * A.x) == "2.0 * A.x"
    for copied in (copy.copy(A.x), copy.deepcopy(A.x), pickle.loads(pickle.dumps(A.x))):
        assert copied.node == A.x.node


@pytest.mark.parametrize("thing", [B, +B, (+B).where(B.x > 1), next_(B)])
def test_wrappers_can_be_copied_and_pickled(thing: object) -> None:
    assert pickle.loads(pickle.dumps(thing)) == thing
    assert copy.deepcopy(thing) == thing


def test_wrappers_are_immutable() -> None:
    for thing in (B, +B, B.x, next_(B), (+B).where(B.x > 1)):
        with pytest.raises(AttributeError):
            thing.node = None  # type: ignore[union-attr]


a, b, c, n = A.node, B.node, C.node, N.node


@pytest.mark.parametrize(
    ("pattern", "node"),
    [
        (A >> B >> C, Seq((a, b, c))),
        (seq(A, B, C), Seq((a, b, c))),
        (seq(A, B) >> C, Seq((a, b, c))),
        (A >> seq(B, C), Seq((a, Seq((b, c))))),
        ("A" >> B, Seq((a, b))),
        (A >> ~N >> +B, Seq((a, Not(n), Repeat(b)))),
        (A >> "B", Seq((a, b))),
        (+B, Repeat(b)),
        (kleene("B"), Repeat(b)),
        (star(B), Repeat(b, 0)),
        (optional(B), Repeat(b, 0, 1)),
        (repeat(B, 2, 3), Repeat(b, 2, 3)),
        (repeat(B, 2), Repeat(b, 2)),
        (A | B | C, Or((a, b, c))),
        ("A" | B, Or((a, b))),
        (any_of("A", B), Or((a, b))),
        (A & B, And((a, b))),
        ("A" & B, And((a, b))),
        (all_of(A, B, C), And((a, b, c))),
        (absent(seq(A, B)), Not(Seq((a, b)))),
        (seq(Event("A", "A")), Seq((a,))),
    ],
)
def test_patterns(pattern: PatternTerm, node: object) -> None:
    assert pattern.node == node
    assert pattern == PatternTerm(pattern.node)
    assert hash(pattern) == hash(PatternTerm(pattern.node))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: seq(), "a sequence needs at least one part\n  hint: write seq(A, B)"),
        (lambda: any_of(), "an alternative needs at least one part\n  hint: write any_of(A, B)"),
        (lambda: all_of(A), "AND needs at least two parts\n  hint: write all_of(A, B)"),
        (lambda: A.matching(None), "no matching policy None\n  hint: 'any' skips any event"),
        (lambda: A.after_match("to_last( )"), "the place 'to_last' to go on at does not name a variable"),
        (lambda: A.after_match("next_row(B)"), "the place 'next_row' to go on at takes no variable, and has 'B'"),
        (lambda: seq([A, B]), "write seq(A, B), or seq(*parts)"),
        (lambda: seq(A, 3), "3 is not a pattern"),
        (lambda: seq(A, B.x > 1), "predicates go into .where(...)"),
        (lambda: A >> (+B).where(B.x > 1), "a query cannot be part of a pattern"),
        (lambda: A & (B.x > 1), "the term B.x > 1 is not a pattern"),
        (lambda: +~N, "NOT cannot stand directly inside a repetition"),
        (lambda: ~~N, "a negated pattern cannot hold another NOT"),
        (lambda: ~N | A, "NOT cannot stand directly inside OR"),
        (lambda: (~N).within("1 day"), "a query cannot consist of an absent pattern alone"),
        (lambda: query_of(~N), "a query cannot consist of an absent pattern alone"),
        (lambda: repeat(B, 3, 2), "cannot repeat 3 to 2 times"),
        (lambda: repeat(B, -1), "cannot repeat -1 or more times"),
        (lambda: repeat(B, 1.5), "1.5 is not a number of repetitions"),
        (lambda: event(""), "'' is not the name of an event variable"),
        (lambda: event("c", type=3), "the type 3 of c is not a string"),
        (lambda: event("c", lambda row: True), "is not a condition of the event c"),
        (lambda: event("c", A.x > 1), "the condition of c speaks of A"),
        (lambda: event("c", "A.x > 1"), "the condition of c speaks of A"),
        (lambda: next_(+B), "next_ needs an event variable"),
        (lambda: cet.count(B.x), "count takes a variable, not the term B.x"),
        (lambda: cet.sum(B), "write sum(B.price)"),
        (lambda: cet.max([1, 2]), "max needs a term, not [1, 2] (list)"),
        (lambda: cet.sum(length()), "SUM(LENGTH) is not an aggregate"),
        (lambda: B.x.isin(), "isin needs at least one value"),
        (lambda: A.where(True), "True is not a predicate: Python has already decided it"),
        (lambda: A.where(B == 3), "False is not a predicate: Python has already decided it"),
        (lambda: A.where(FakeColumn()), "write it with event variables"),
        (lambda: A.where(None), "None is not a predicate"),
        (lambda: A.group_by(A.sector), "write .group_by('sector')"),
        (lambda: A.partition_by(["x"]), "write .partition_by('x')"),
        (lambda: A.group_by(("x", "y")), "write .group_by('x', 'y')"),
        (lambda: A.returning(A.x), "A.x is not an aggregate"),
        (lambda: A.returning(n=cet.count() + 1), "is not an aggregate"),
        (lambda: query_of(3), "3 is not a query"),
        (lambda: pattern_of(None), "None is not a pattern"),
        (lambda: (event("x", type="A") >> event("x", type="B")).where(), "stands for two different events"),
        (lambda: col(3), "is not the name of a column"),
    ],
)
def test_wrong_patterns_are_refused(build: object, message: str) -> None:
    with pytest.raises(InvalidNode, match=re.escape(message)):
        build()  # type: ignore[operator]


def test_events() -> None:
    assert events("A B") == events("A,B") == events(" A, B ") == events("A", "B") == (A, B)
    assert event("c", type="Check").node == Event("c", "Check")
    condition = Binary(">", Attribute("big", "amount"), Literal(1000))
    assert event("big", col("amount") > 1000).node == Event("big", None, condition)
    assert event("big", "amount > 1000").node == Event("big", None, condition)
    assert event("big", "big.amount > 1000", type="T").node == Event("big", "T", condition)
    assert isinstance(event("big"), EventVariable)


def test_a_spark_column_is_an_opaque_condition() -> None:
    column = FakeColumn()
    big = event("big", column)
    assert isinstance(big.node.condition, SparkColumn)
    assert big.node.condition.column is column
    assert big.where().node.pattern == big.node
    assert repr(big).startswith("EVENT(big, <")
    with pytest.raises(NotExpressible):
        str(big.within(5))


def test_queries_are_built_step_by_step() -> None:
    base = seq(A, kleene(B))
    query = (
        base.where(B.price < next_(B).price, A.rate * 2 < B.rate)
        .where(B.type == "passive")
        .partition_by("company")
        .partition_by("x", "y")
        .group_by("sector")
        .within("1 day")
        .within("10 minutes", slide="1 minute")
        .returning(cet.count(B))
        .returning(cet.count(), mean=cet.avg(B.price))
    )
    assert isinstance(query, QueryTerm)
    assert str(query) == (
        "RETURN COUNT(*), AVG(B.price) AS mean\n"
        "PATTERN SEQ(A, B+)\n"
        "WHERE [company, x, y] AND B.price < NEXT(B).price AND A.rate * 2 < B.rate AND B.type = 'passive'\n"
        "GROUP BY sector\n"
        "WITHIN 10 minutes SLIDE 1 minute"
    )
    assert repr(query) == str(query)
    assert parse(str(query)) == query
    assert hash(parse(str(query))) == hash(query)
    assert base.node == Seq((a, Repeat(b)))


def test_both_front_ends_build_the_same_nodes() -> None:
    first_way = (A >> +B).where((B.x > 1) & (B.y.between(1, 5)) & (A.x.is_null() | ~B.z.like("a%")))
    second = "PATTERN SEQ(A, B+) WHERE B.x > 1 AND B.y BETWEEN 1 AND 5 AND (A.x IS NULL OR B.z NOT LIKE 'a%')"
    assert first_way.node == query_of(second)
    assert len(first_way.node.where) == 4


def test_predicates_can_be_text() -> None:
    query = (A >> +B).where("[company] AND B.price < NEXT(B).price", B.x > 1, "COUNT(B) >= 3")
    assert query == (A >> +B).partition_by("company").where(B.price < next_(B).price, B.x > 1, cet.count(B) >= 3)
    typed = event("c", type="Check")
    assert typed.where("Check.x > 1") == typed.where(typed.x > 1)
    with pytest.raises(ParseError, match="'price' does not say which event it belongs to"):
        A.where("price > 3")
    with pytest.raises(ParseError, match="the text is empty"):
        A.where("")


def test_windows() -> None:
    window = A.within(datetime.timedelta(minutes=10), slide=Span.parse("1 minute")).node.window
    assert window == Window(Span.parse("10 minutes"), Span.parse("1 minute"))
    assert A.within(10).node.window == Window(Span(10, "tick"))
    with pytest.raises(WindowError):
        A.within("10 fortnights")
    with pytest.raises(WindowError, match=r"^the slide of windows: a length of time(.|\n)*not 0\n  hint: write"):
        A.within("10 minutes", slide=0)
    with pytest.raises(WindowError, match=r"^a length of time must be positive"):
        A.within(0)


def test_query_of() -> None:
    query = A.within(5)
    for thing in (query, query.node, "PATTERN A WITHIN 5"):
        assert query_of(thing) == query.node
    assert query_of(A) == query_of(A.node) == Query(a)


def test_calls_keep_their_names() -> None:
    assert fn.countDistinct(B.x).node == Call("countDistinct", (Attribute("B", "x"),))
    assert (~B.flag).node == Unary("not", Attribute("B", "flag"))


@pytest.mark.parametrize("number", [np.int64(3), np.uint8(3), np.array(3)])
def test_whole_numbers_of_numpy_are_numbers(number: Any) -> None:
    assert seq("A").within(number, slide=number).node == seq("A").within(3, slide=3).node
    assert repeat("A", number, number).node == repeat("A", 3, 3).node
    assert event("A")[number].x.node == event("A")[3].x.node
    assert parse("PATTERN A{:n,} WITHIN :n", n=number).node == parse("PATTERN A{3,} WITHIN 3").node


@pytest.mark.parametrize("value", [True, np.True_, np.float64(3), 3.0, "3", None])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidNode, match="is not a number of repetitions"):
        repeat("A", value)
    if not isinstance(value, str):
        with pytest.raises(WindowError, match="is not a length of time"):
            seq("A").within(value)
        with pytest.raises(InvalidNode, match="neither a column nor a number"):
            event("A")[value]
