"""Analysis: names, types, classes of predicates, and every error with its words."""

from __future__ import annotations

import re

import pytest

from cetdsl.analysis import (
    Binding,
    Field,
    PredicateClass,
    ResolvedQuery,
    Schema,
    adjacent_pair,
    analyse,
    classify,
    negations_of,
    separate,
    type_of,
)
from cetdsl.errors import (
    AnalysisErrors,
    CetdslError,
    QueryTypeError,
    ResolutionError,
    UnknownColumn,
    UnknownFunction,
    UnknownVariable,
    UnsupportedQuery,
    WindowError,
)
from cetdsl.frontend.sase import parse
from cetdsl.pattern import properties
from cetdsl.pattern.expressions import Attribute, Binary, Call, Length, Literal, SparkColumn, Unary
from cetdsl.pattern.nodes import And, Event, Not, Or, Repeat, Seq
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse, unparse_expression

SCHEMA = Schema(
    [
        Field("ts", "timestamp"),
        Field("type", "string"),
        Field("price", "double"),
        Field("volume", "bigint"),
        Field("tags", "map<string,int>"),
        Field("day", "date"),
        Field("a.b", "int"),
        Field("window", "int"),
        Field("count", "int"),
        Field("flag", "boolean"),
    ]
)
COLLATED = Schema(
    [
        Field("ts", "timestamp"),
        Field("volume", "bigint"),
        Field("folded", "string collate UTF8_LCASE"),
        Field("names", "array<struct<name:string collate UTF8_LCASE>>"),
    ]
)


def analysed(text: str, schema: Schema = SCHEMA, **binding: object) -> ResolvedQuery:
    return analyse(parse(text), schema, Binding(**binding))  # type: ignore[arg-type]


def error_of(query: str | Query, schema: Schema = SCHEMA, **binding: object) -> CetdslError:
    with pytest.raises(ResolutionError) as caught:
        analyse(parse(query) if isinstance(query, str) else query, schema, Binding(**binding))  # type: ignore[arg-type]
    return caught.value


# Resolution -----------------------------------------------------------------------------------------------------------


def test_types_become_conditions() -> None:
    resolved = analysed("PATTERN SEQ(A, EVENT(B big, big.price > 5))")
    assert unparse(resolved.query) == (
        "PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(big, big.type = 'B' AND big.price > 5))"
    )
    assert (resolved.time, resolved.time_unit, resolved.type) == (Field("ts", "timestamp"), "timestamp", "type")
    assert resolved.columns == SCHEMA.names


def test_without_a_type_column_every_event_is_of_every_type() -> None:
    resolved = analysed("PATTERN SEQ(A, B)", type=None)
    assert resolved.query.pattern == Seq((Event("A"), Event("B")))
    assert resolved.type is None


def test_type_column_is_needed_by_typed_events_only() -> None:
    schema = Schema([Field("ts", "timestamp"), Field("x", "int")])
    assert analysed("PATTERN EVENT(a, a.x > 1)", schema).query.pattern.children == ()
    assert str(error_of("PATTERN A", schema)) == (
        "no type column 'type' in the DataFrame\n  hint: no column holds texts: write type=None if every event is of "
        "every type, and event(name, condition) for events of a kind"
    )


@pytest.mark.parametrize(
    ("columns", "best"), [(["action"], "action"), (["page", "types"], "types"), (["page", "action"], "page")]
)
def test_the_column_of_types_is_looked_for_among_the_texts(columns: list[str], best: str) -> None:
    schema = Schema([Field("ts", "timestamp"), Field("typ", "int"), *(Field(name, "string") for name in columns)])
    assert str(error_of("PATTERN A", schema)) == (
        "no type column 'type' in the DataFrame\n"
        f'  hint: write type="{best}" if that column says what an event is, '
        "or type=None if every event is of every type"
    )


def test_names_are_found_as_spark_finds_them() -> None:
    resolved = analysed("PATTERN A WHERE A.PRICE > 1 AND A.`A.B` = 2 AND A.Window = 1 GROUP BY Volume")
    assert [predicate.left.name for predicate in resolved.query.where] == ["price", "a.b", "window"]
    assert resolved.query.group_by == ("volume",)


def test_an_exact_name_wins() -> None:
    schema = Schema([Field("ts", "timestamp"), Field("x", "int"), Field("X", "string")])
    resolved = analysed("PATTERN A WHERE A.x = 1 AND A.X = 'a'", schema, type=None)
    assert [predicate.left.name for predicate in resolved.query.where] == ["x", "X"]


def test_duplicates_matter_only_when_named() -> None:
    schema = Schema([Field("ts", "timestamp"), Field("x", "int"), Field("x", "string"), Field("y", "int")])
    assert analysed("PATTERN A WHERE A.y > 1", schema, type=None)
    assert str(error_of("PATTERN A WHERE A.x > 1", schema, type=None)) == (
        "the column 'x' is ambiguous: the DataFrame has 'x' (int), 'x' (string); A.x > 1 asks for it\n"
        "  hint: rename or drop all but one of them"
    )


def test_conjunctions_are_predicates_of_their_own() -> None:
    a, b = Attribute("A", "price"), Attribute("B", "price")
    both = Binary("and", Binary("<", a, b), Binary(">", a, Literal(1)))
    query = Query(Seq((Event("A"), Event("B"))), (both, both))
    assert len(analyse(query, SCHEMA).query.where) == 2


def test_count_of_everything_within_a_trend_is_its_length() -> None:
    (predicate,) = analysed("PATTERN A+ WHERE COUNT(*) > 2").query.where
    assert predicate == Binary(">", Length(), Literal(2))


def test_returned_names_do_not_follow_the_case_of_columns() -> None:
    (item,) = analysed("RETURN SUM(A.PRICE) PATTERN A").query.returning
    assert (item.name, item.aggregate.argument) == ("sum_A_PRICE", Attribute("A", "price"))


@pytest.mark.parametrize(
    ("type_", "unit"), [("timestamp_ntz", "timestamp"), ("date", "timestamp"), ("smallint", "tick")]
)
def test_time_may_be_of_these_types(type_: str, unit: str) -> None:
    resolved = analysed("PATTERN A", Schema([Field("when", type_)]), time="WHEN", type=None)
    assert (resolved.time.name, resolved.time_unit) == ("when", unit)


def test_and_within_and_is_flat_inside_a_pattern() -> None:
    a, b, c = (Event(name) for name in "abc")
    nested = Seq((And((And((a, b)), c)),))
    assert analyse(Query(nested), SCHEMA).query.pattern == Seq((And((a, b, c)),))


# Errors ---------------------------------------------------------------------------------------------------------------

TWO_TIMES = Schema([Field("t1", "timestamp"), Field("t2", "timestamp_ntz")])
NO_TIME = Schema([Field("tick", "bigint"), Field("day", "date"), Field("name", "string")])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "PATTERN A WHERE A.prise > 5",
            UnknownColumn,
            "no column 'prise' in the DataFrame; A.prise > 5 asks for it\n  hint: did you mean 'price'?",
        ),
        (
            "PATTERN SEQ(A a1, B b1) WHERE a2.price > 5",
            UnknownVariable,
            "no variable 'a2' in this pattern; a2.price > 5 asks for it\n  hint: the pattern binds a1, b1",
        ),
        (
            "PATTERN A WHERE A.type = 5",
            QueryTypeError,
            "cannot compare A.type (string) with 5 (int)\n  hint: write the number in quotes",
        ),
        (
            "PATTERN A WHERE A.type > 5",
            QueryTypeError,
            "cannot compare A.type (string) with 5 (int)\n  hint: cast the column to a number before asking; in quotes "
            "the number is a text, and '9' > '10'",
        ),
        (
            "PATTERN A WHERE A.ts > 'yesterday'",
            QueryTypeError,
            "'yesterday' is no time, and is compared with A.ts, which is one\n"
            "  hint: write it as '2024-02-29' or '2024-02-29 12:30:00'",
        ),
        (
            "PATTERN A WHERE A.ts IN ('2024-02-29', '2024-02-30')",
            QueryTypeError,
            "'2024-02-30' is no time, and is compared with A.ts, which is one\n"
            "  hint: write it as '2024-02-29' or '2024-02-29 12:30:00'",
        ),
        (
            "PATTERN A WHERE A.price > '5'",
            QueryTypeError,
            "cannot compare A.price (double) with '5' (string)\n  hint: write the number without quotes",
        ),
        (
            "PATTERN A WHERE A.price = A.type",
            QueryTypeError,
            "cannot compare A.price (double) with A.type (string)\n  hint: cast one of the columns before asking",
        ),
        (
            "PATTERN A WHERE A.type + 1 > 5",
            QueryTypeError,
            "+ needs numbers, but A.type is of type string\n  hint: cast the column to a number before asking",
        ),
        (
            "PATTERN A WHERE A.price + 1",
            QueryTypeError,
            "the predicate A.price + 1 is of type double, not boolean\n  hint: compare it with something",
        ),
        (
            "PATTERN A WHERE A.tags = A.tags",
            QueryTypeError,
            "A.tags cannot be compared: it is of type map<string,int>\n  hint: compare its parts instead",
        ),
        (
            "RETURN SUM(A.type) PATTERN A",
            QueryTypeError,
            "SUM(A.type) needs numbers, but its argument is of type string\n  hint: use COUNT, MIN or MAX",
        ),
        (
            "PATTERN SEQ(A, B) WHERE B.price < NEXT(B).price",
            UnsupportedQuery,
            "B never directly follows itself in this pattern, so it has no NEXT(B)\n"
            "  hint: repeat it with kleene(B), in text B+",
        ),
        (
            "PATTERN SEQ(A, B, C) WHERE A.price < NEXT(C).price",
            UnsupportedQuery,
            "C never directly follows A in this pattern, so NEXT(C) says nothing beside A\n"
            "  hint: compare all their events instead: A.x < C.x",
        ),
        (
            "PATTERN SEQ(Alpha, B) WHERE Alfa.price > 5",
            UnknownVariable,
            "no variable 'Alfa' in this pattern; Alfa.price > 5 asks for it\n  hint: did you mean 'Alpha'?",
        ),
        (
            "PATTERN A+ WHERE PREV(A).price < A.price + NEXT(A).price",
            UnsupportedQuery,
            "PREV(A).price < A.price + NEXT(A).price mixes NEXT and PREV: it speaks of three events in a row\n"
            "  hint: write one predicate for each pair of consecutive events",
        ),
        (
            "PATTERN SEQ(A, B, C)+ WHERE A.price < NEXT(B).price + NEXT(C).price",
            UnsupportedQuery,
            "A.price < NEXT(B).price + NEXT(C).price mentions NEXT(B) and NEXT(C): one event has one neighbour\n"
            "  hint: write one predicate for NEXT(B) and one for NEXT(C)",
        ),
        (
            "PATTERN SEQ(A, B)+ WHERE A.price + B.price < NEXT(B).price",
            UnsupportedQuery,
            "A.price + B.price < NEXT(B).price relates NEXT(B) to 2 variables, A and B\n"
            "  hint: write one predicate for each pair of variables",
        ),
        (
            "PATTERN A+ WHERE NEXT(A).price > 5",
            UnsupportedQuery,
            "NEXT(A).price > 5 says nothing of the event beside NEXT(A)\n"
            "  hint: relate it to a plain attribute, A.x < NEXT(A).x, or leave NEXT away to restrict every A",
        ),
        (
            "PATTERN SEQ(A, B+) WHERE COUNT(B) > A.price",
            UnsupportedQuery,
            "COUNT(B) > A.price mixes aggregates of a trend with single events of 'A'\n"
            "  hint: aggregate it too: MIN(A.x), MAX(A.x), FIRST(A).x or LAST(A).x",
        ),
        (
            "PATTERN SEQ(A+, NOT C, B) WHERE C.price > A.price",
            UnsupportedQuery,
            "C.price > A.price relates the negated 'C' to 'A', which need not bind exactly one event\n"
            "  hint: relate it to a variable outside every repetition and alternative",
        ),
        (
            "PATTERN SEQ(A, NOT C, B, NOT D) WHERE C.price > D.price",
            UnsupportedQuery,
            "C.price > D.price relates 'C' and 'D', which stand under different NOTs\n"
            "  hint: write one predicate for each NOT",
        ),
        (
            "PATTERN SEQ(A, NOT SEQ(B, C), B) WHERE C.price > B.price",
            UnsupportedQuery,
            "C.price > B.price: 'B' stands inside and outside of NOT, so it is not clear which is meant\n"
            "  hint: give the event under NOT a name of its own",
        ),
        (
            "PATTERN SEQ(A, NOT C, B) WHERE COUNT(C) > 1",
            UnsupportedQuery,
            "COUNT(C) > 1 aggregates over 'C', which is bound only under NOT: no trend holds its events\n"
            "  hint: aggregate over variables outside NOT",
        ),
        (
            "PATTERN SEQ(A, NOT C, B) WHERE LAST(C).price > 1",
            UnsupportedQuery,
            "LAST(C).price > 1 aggregates over 'C', which is bound only under NOT: no trend holds its events\n"
            "  hint: aggregate over variables outside NOT",
        ),
        (
            "PATTERN SEQ(A, NOT C, B) WHERE A.price < NEXT(C).price",
            UnsupportedQuery,
            "A.price < NEXT(C).price makes neighbours of 'A' and the negated 'C': "
            "an event under NOT has no neighbour in the trend\n  hint: compare plain attributes",
        ),
        (
            "RETURN COUNT(C) PATTERN SEQ(A, NOT C, B)",
            UnsupportedQuery,
            "COUNT(C): 'C' is bound only under NOT, so no trend holds its events\n"
            "  hint: aggregate over variables outside NOT",
        ),
        (
            "PATTERN A WITHIN 2 months",
            WindowError,
            "WITHIN 2 months has no fixed length: months differ\n  hint: use weeks or days, as in '30 days'",
        ),
        (
            "PATTERN A WITHIN 10",
            WindowError,
            "WITHIN 10 counts ticks, but the time column 'ts' is of type timestamp\n  hint: write a unit: '10 seconds'",
        ),
        (
            "PATTERN A WITHIN 10 minutes SLIDE 5",
            WindowError,
            "SLIDE 5 counts ticks, but the time column 'ts' is of type timestamp\n  hint: write a unit: '5 seconds'",
        ),
        (
            "PATTERN A GROUP BY sector",
            UnknownColumn,
            "no group column 'sector' in the DataFrame\n"
            "  hint: its columns are 'ts', 'type', 'price', 'volume', 'tags', 'day', 'a.b', 'window', 'count', 'flag'",
        ),
        (
            "PATTERN A WHERE [tags]",
            QueryTypeError,
            "the partition column 'tags' is of type map<string,int>, which has no order\n"
            "  hint: use a column of numbers, strings or times",
        ),
        (
            "RETURN COUNT(*) AS n, COUNT(A) AS N PATTERN A",
            ResolutionError,
            "RETURN has several columns called 'n'\n  hint: name them apart: COUNT(*) AS trends",
        ),
        (
            "RETURN COUNT(*) PATTERN A GROUP BY count",
            ResolutionError,
            "the returned column 'count' clashes with a group column\n"
            "  hint: name it COUNT(*) AS trends in a text, count_trends('trends') or aggregate(trends=...) in Python",
        ),
        (
            "RETURN COUNT(*) AS Window PATTERN A WITHIN 2 hours SLIDE 1 hour",
            ResolutionError,
            "the returned column 'Window' clashes with the window column of the answer\n"
            "  hint: name it COUNT(*) AS trends in a text, count_trends('trends') or aggregate(trends=...) in Python",
        ),
        (
            "PATTERN A GROUP BY window WITHIN 2 hours SLIDE 1 hour",
            ResolutionError,
            "the group column 'window' clashes with the window column of the answer\n"
            "  hint: rename the column of the DataFrame; a group that is computed gets another name by AS",
        ),
        (
            "PATTERN SEQ(NOT A, NOT B)",
            UnsupportedQuery,
            "SEQ(NOT A, NOT B) holds only NOT parts, so it binds no event\n"
            "  hint: put a positive part beside it: SEQ(A, NOT N, B)",
        ),
        (
            "PATTERN SEQ(A, AND(SEQ(B, C), D))",
            UnsupportedQuery,
            "inside another pattern AND joins single events, not SEQ(B, C) AND D\n"
            "  hint: write out the orders with OR: SEQ(P, Q) OR SEQ(Q, P)",
        ),
        (
            "PATTERN AND(A, B, SEQ(C, A+))",
            UnsupportedQuery,
            "AND of more than two sides at the top binds variables of its own on each, but 'A' stands on several sides "
            "of A AND B AND SEQ(C, A+)\n  hint: name them apart: AND(Stock a, Stock b, Bond c)",
        ),
        (
            "PATTERN AND(A, B, C) WHERE A.price < NEXT(B).price",
            UnsupportedQuery,
            "B never directly follows A in this pattern, so NEXT(B) says nothing beside A\n"
            "  hint: compare all their events instead: A.x < B.x",
        ),
        (
            "PATTERN AND(A, B) WHERE AVG(A.price) < AVG(B.price)",
            UnsupportedQuery,
            "AVG(A.price) < AVG(B.price) aggregates over several sides of AND, each of which is a trend of its own\n"
            "  hint: compare their attributes: a.x < b.x",
        ),
        (
            "PATTERN AND(SEQ(A, B), SEQ(B, C)) WHERE A.price < C.price",
            UnsupportedQuery,
            "A.price < C.price relates both sides of AND, which share a variable\n"
            "  hint: name the variables of the sides apart, or compare the sides after the query",
        ),
        (
            "PATTERN AND(SEQ(A, NOT N, B), C) WHERE N.price < C.price",
            UnsupportedQuery,
            "N.price < C.price relates 'N', which stands under NOT, to another side of AND\n"
            "  hint: relate what is under NOT to variables of its own side",
        ),
        (
            "RETURN MAX(LENGTH) PATTERN AND(A+, SEQ(A, B))",
            UnsupportedQuery,
            "MAX(LENGTH) over AND whose sides share the variable 'A'\n"
            "  hint: give the sides different variables, or ask for AVG(LENGTH)",
        ),
        (
            "PATTERN A WHERE 1 = 1",
            UnsupportedQuery,
            "the predicate 1 = 1 mentions no event\n  hint: leave it away, or compare an attribute",
        ),
        (
            "PATTERN A WHERE A.price > rand()",
            UnsupportedQuery,
            "rand() gives no fixed value for a row, so it cannot be part of a query; A.price > rand() asks for it\n"
            "  hint: compute it as a column of the DataFrame first",
        ),
        (
            "PATTERN A+ WHERE MAX(LENGTH) > 3",
            UnsupportedQuery,
            "MAX(LENGTH) in WHERE: a trend has a single length\n  hint: write LENGTH, as in LENGTH >= 3",
        ),
        (
            "RETURN SUM(A.price * B.price) PATTERN SEQ(A, B)",
            UnsupportedQuery,
            "SUM(A.price * B.price) mentions A and B: it must mention exactly one\n"
            "  hint: aggregate the attributes of one variable, SUM(b.price)",
        ),
    ],
)
def test_errors_say_what_is_wrong_and_what_to_do(text: str, kind: type[CetdslError], message: str) -> None:
    error = error_of(text)
    assert str(error) == message
    assert type(error) is kind


@pytest.mark.parametrize(
    ("schema", "binding", "message"),
    [
        (
            TWO_TIMES,
            {},
            "which column is the time? The DataFrame has several timestamps: 't1', 't2'\n  hint: say which: time='t1'",
        ),
        (
            NO_TIME,
            {},
            "the DataFrame has no timestamp column\n"
            "  hint: say which column is the time: 'day' (date), 'tick' (bigint)",
        ),
        (
            Schema([Field("name", "string")]),
            {},
            "the DataFrame has no timestamp column\n  hint: cast a column with to_timestamp",
        ),
        (
            NO_TIME,
            {"time": "name"},
            "the time column 'name' is of type string\n"
            "  hint: time is a timestamp, a date or a whole number; cast the column",
        ),
        (NO_TIME, {"time": "tock"}, "no time column 'tock' in the DataFrame\n  hint: did you mean 'tick'?"),
        (
            SCHEMA,
            {"tie_break": ("tags",)},
            "the tie_break column 'tags' is of type map<string,int>, which has no order\n"
            "  hint: use a column of numbers, strings or times",
        ),
        (
            COLLATED,
            {"tie_break": ("volume", "folded")},
            "the tie_break column 'folded' is of type string collate UTF8_LCASE, in which texts of different bytes may "
            "be equal or come in another order, and kernels compare bytes\n"
            "  hint: give the column Spark's default collation first: df.withColumn('folded', "
            "F.collate(F.lower('folded'), 'UTF8_BINARY')), without F.lower where case counts",
        ),
        (
            COLLATED,
            {"tie_break": ("names",)},
            "the tie_break column 'names' is of type array<struct<name:string collate UTF8_LCASE>>, in which texts of "
            "different bytes may be equal or come in another order, and kernels compare bytes\n"
            "  hint: give the texts inside Spark's default collation first, as by CAST",
        ),
        (
            SCHEMA,
            {"tie_break": ("volumes",)},
            "no tie_break column 'volumes' in the DataFrame\n  hint: did you mean 'volume'?",
        ),
    ],
)
def test_errors_of_the_binding(schema: Schema, binding: dict[str, object], message: str) -> None:
    assert str(error_of(Query(Event("a")), schema, **binding)) == message


def test_a_type_column_that_is_no_string() -> None:
    assert str(error_of("PATTERN A", type="volume")) == (
        "the type column 'volume' is of type bigint, but 'A' asks for the type 'A'\n"
        "  hint: cast it to string, or use event('A', condition)"
    )


def test_a_window_of_time_on_ticks() -> None:
    assert str(error_of("PATTERN A WITHIN 10 minutes", NO_TIME, time="tick", type=None)) == (
        "WITHIN 10 minutes is a length of time, but the time column 'tick' is of type bigint\n"
        "  hint: write a whole number of ticks, or cast the column to timestamp"
    )


def test_not_alone() -> None:
    assert str(error_of(Query(Not(Event("n"))))).startswith("NOT EVENT(n) stands alone")


def test_the_type_of_an_event_is_not_its_variable() -> None:
    assert str(error_of(Query(Event("c", type="Check"), (Binary(">", Attribute("Check", "price"), Literal(1)),)))) == (
        "no variable 'Check' in this pattern; Check.price > 1 asks for it\n"
        "  hint: events of type 'Check' are bound to 'c'"
    )


def test_conditions_speak_of_their_own_event() -> None:
    other = Binary("<", Attribute(None, "price"), Attribute("a", "price"))
    assert str(error_of(Query(Seq((Event("a"), Event("b", condition=other)))))) == (
        "the condition of 'b' mentions 'a', another variable\n  hint: relate variables in WHERE"
    )


def test_spark_columns_belong_to_events() -> None:
    assert "does not say which event" in str(error_of(Query(Event("a"), (SparkColumn("x"),))))
    assert analyse(Query(Event("a", condition=SparkColumn("x"))), SCHEMA)


@pytest.mark.parametrize("known", [{"upper", "lower"}, ("upper", "lower").__contains__])
def test_unknown_functions(known: object) -> None:
    query = parse("PATTERN A WHERE uper(A.type) = 'A'")
    with pytest.raises(UnknownFunction) as caught:
        analyse(query, SCHEMA, known_functions=known)  # type: ignore[arg-type]
    assert caught.value.message == "no function 'uper' in pyspark.sql.functions; uper(A.type) = 'A' asks for it"
    assert "upper" in str(caught.value.hint) or callable(known)


def test_all_errors_come_at_once() -> None:
    error = error_of(
        "RETURN SUM(A.type) PATTERN SEQ(A, B) WHERE A.prise > 5 AND B.price < NEXT(B).price AND b2.price = 1 "
        "AND A.prise < 9 GROUP BY sector WITHIN 1 month"
    )
    assert isinstance(error, AnalysisErrors)
    assert [type(each) for each in error.errors] == [
        QueryTypeError,
        UnknownColumn,
        UnsupportedQuery,
        UnknownVariable,
        UnknownColumn,
        WindowError,
    ]
    assert str(error).startswith("the query has 6 errors\n 1. SUM(A.type) needs numbers")
    assert (
        "\n 2. no column 'prise' in the DataFrame; A.prise > 5 asks for it\n"
        "      hint: did you mean 'price'?\n 3. B never"
    ) in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A WHERE A.day > '2024-01-01' AND A.ts < '2024-01-01 10:00:00'",
        "PATTERN A WHERE soundex(A.price) > 'x'",
        "PATTERN A WHERE A.price = NULL",
        "PATTERN A WHERE A.flag AND NOT A.flag",
        "PATTERN A+ WHERE NEXT(A).ts - A.ts < A.ts - A.ts",
        "PATTERN A WHERE A.price IN (1, 2.5) AND A.type LIKE 'x%'",
        "PATTERN (A OR B)+ WHERE A.price < NEXT(B).price",
        "PATTERN AND(A+, SEQ(A, B)) WHERE A.price < NEXT(A).price",
        "PATTERN SEQ(A, NOT SEQ(C, D), B) WHERE C.price < NEXT(D).price AND C.price > A.price",
        "PATTERN A+ WHERE LENGTH > 2 AND COUNT(A) > 1 AND A[1].price > FIRST(A).price",
        "PATTERN A WITHIN 1 week SLIDE 1 day",
        "PATTERN AND(A, B, C) WHERE A.price < B.price AND B.price + C.price > A.price WITHIN 1 week SLIDE 1 day",
        "PATTERN AND(A, B) WITHIN 1 week",
    ],
)
def test_these_are_fine(text: str) -> None:
    analysed(text)


# Types ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("A.volume + 1", "bigint"),
        ("A.volume / 2", "double"),
        ("A.volume * 1.5", "double"),
        ("-A.price", "double"),
        ("A.day - A.day", "interval day"),
        ("abs(A.volume)", "bigint"),
        ("length(A.type)", "int"),
        ("unheard_of(A.type)", None),
        ("DECIMAL '1.25' + A.volume", "decimal(23,2)"),
        ("DECIMAL '1.25' * DECIMAL '1.5'", "decimal(6,3)"),
        ("A.price > 1", "boolean"),
        ("COUNT(A)", "bigint"),
        ("AVG(A.volume)", "double"),
        ("SUM(A.volume)", "bigint"),
        ("MIN(A.type)", "string"),
        ("concat(A.type, A.type)", "string"),
        ("concat(A.volume, A.type)", None),
        ("substring(A.type, 1, 2)", "string"),
        ("floor(A.price)", "bigint"),
        ("floor(A.price, 1)", None),
        ("abs(A.type)", None),
        ("DECIMAL '1.25' / 2", "decimal(7,6)"),
        ("DECIMAL '1.25' / A.volume", "decimal(24,23)"),
    ],
)
def test_types_of_terms(text: str, type_: str | None) -> None:
    (predicate,) = parse(f"PATTERN A WHERE ({text}) IS NULL").where
    assert isinstance(predicate, Call)
    assert type_of(predicate.arguments[0], SCHEMA) == type_


# Classes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "kind"),
    [
        ("A.price > 2 * A.volume", PredicateClass.LOCAL),
        ("A.price < NEXT(B).price", PredicateClass.ADJACENT),
        ("PREV(B).price < B.price", PredicateClass.ADJACENT),
        ("A.price < B.price", PredicateClass.PAIRWISE),
        ("COUNT(B) > 2", PredicateClass.AGGREGATE),
        ("LENGTH > 2", PredicateClass.AGGREGATE),
        ("B[2].price > FIRST(A).price", PredicateClass.AGGREGATE),
        ("C.price > 2", PredicateClass.NEGATION),
        ("C.price > A.price", PredicateClass.NEGATION),
        ("1 < 2", PredicateClass.CONSTANT),
    ],
)
def test_classes_of_predicates(predicate: str, kind: PredicateClass) -> None:
    query = parse(f"PATTERN SEQ(A, NOT C, B+) WHERE {predicate}")
    assert classify(query.where[0], query.pattern) is kind


def test_negations_of_a_predicate() -> None:
    query = parse("PATTERN SEQ(A, NOT C, B, NOT SEQ(C, D)) WHERE C.price > 1 AND C.price < D.price AND A.price > 1")
    first, second = (node for node in query.pattern.walk() if isinstance(node, Not))
    owners = [negations_of(predicate, query.pattern) for predicate in query.where]
    assert owners == [(first, second), (second,), ()]


@pytest.mark.parametrize(
    ("predicate", "pair", "text"),
    [
        ("A.x < NEXT(B).x", ("A", "B"), ("NEXT(B).x", ">", "A.x")),
        ("PREV(A).x * 2 <= B.x", ("A", "B"), ("B.x", ">=", "PREV(A).x * 2")),
        ("A.x + NEXT(B).x < 5", ("A", "B"), None),
        ("A.x < NEXT(B).x OR A.y = 1", ("A", "B"), None),
    ],
)
def test_adjacent_comparisons_separate(
    predicate: str, pair: tuple[str, str], text: tuple[str, str, str] | None
) -> None:
    (expr,) = parse(f"PATTERN SEQ(A, B) WHERE {predicate}").where
    assert adjacent_pair(expr) == pair
    found = separate(expr)
    if text is None:
        assert found is None
    else:
        assert found is not None
        assert (unparse_expression(found.left), found.op, unparse_expression(found.right)) == text


# Properties of patterns -----------------------------------------------------------------------------------------------

A, B, C = Event("a"), Event("b"), Event("c")


@pytest.mark.parametrize(
    ("pattern", "lengths", "follow"),
    [
        (A, (1, 1), set()),
        (Repeat(A), (1, None), {("a", "a")}),
        (Repeat(A, 0, 1), (0, 1), set()),
        (Repeat(Repeat(A, 2, 3), 0, 2), (0, 6), {("a", "a")}),
        (Seq((A, Not(C), B)), (2, 2), {("a", "b")}),
        (Seq((A, Repeat(B, 0, 1), C)), (2, 3), {("a", "b"), ("b", "c"), ("a", "c")}),
        (Or((A, Seq((B, C)))), (1, 2), {("b", "c")}),
        (Seq((And((A, B)), C)), (3, 3), {("a", "b"), ("b", "a"), ("a", "c"), ("b", "c")}),
        (And((Repeat(A), Seq((B, C)))), (3, None), {("a", "a"), ("b", "c")}),
        (Repeat(Not(A).part, 0, None), (0, None), {("a", "a")}),
    ],
)
def test_lengths_and_neighbours(pattern: object, lengths: tuple[int, int | None], follow: object) -> None:
    assert (properties.minimum_length(pattern), properties.maximum_length(pattern)) == lengths  # type: ignore[arg-type]
    assert properties.follow_pairs(pattern) == follow  # type: ignore[arg-type]
    assert properties.nullable(pattern) is (lengths[0] == 0)  # type: ignore[arg-type]


def test_counts_of_bindings() -> None:
    pattern = Seq((A, Repeat(B, 0, 1), Repeat(C), Not(Event("n"))))
    assert [name for name in "abcn" if properties.binds_exactly_one(pattern, name)] == ["a"]
    assert [name for name in "abcn" if properties.binds_at_most_one(pattern, name)] == ["a", "b", "n"]
    assert [name for name in "abcn" if properties.binds_at_least_one(pattern, name)] == ["a", "c"]
    assert properties.positive_variables(pattern) == ("a", "b", "c")
    assert properties.negated_variables(pattern) == ("n",)
    assert properties.maximum_length(Seq((Not(A),))) == 0


def test_not_of_a_comparison_of_unknown_type_is_no_error() -> None:
    unknown = Call("soundex", (Attribute("a", "price"),))
    analyse(Query(A, (Unary("not", unknown),)), SCHEMA)


@pytest.mark.parametrize("type_", ["time(6)", "void", "interval day to second", "variant", "a type of tomorrow"])
@pytest.mark.parametrize("function", ["SUM", "AVG", "STDDEV", "VAR_POP"])
def test_what_no_numbers_are_has_no_sums(function: str, type_: str) -> None:
    schema = Schema([Field("ts", "timestamp"), Field("type", "string"), Field("x", type_)])
    wrong = f"{function}(B.x) needs numbers, but its argument is of type {type_}"
    for text in (f"RETURN {function}(B.x) PATTERN B+", f"PATTERN B+ WHERE {function}(B.x) > 1"):
        with pytest.raises(QueryTypeError, match=re.escape(wrong)):
            analysed(text, schema)
