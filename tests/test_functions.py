"""A query calls functions of one row alone, and what is judged of each function agrees with what Spark says of it."""

from __future__ import annotations

from typing import Any

import pytest
from modes import more_on_classic
from pyspark.sql import Window
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.analysis import Field, Schema, analyse
from cetdsl.analysis.functions import REFUSED, ROW_FUNCTIONS, refusal
from cetdsl.errors import AnalysisErrors, UnknownFunction, UnsupportedQuery
from cetdsl.execution.compat import function_names
from cetdsl.frontend.sase import parse
from cetdsl.pattern.expressions import Call, Literal

A = cet.event("A")
SCHEMA = Schema([Field("ts", "timestamp"), Field("type", "string"), Field("x", "int"), Field("k", "string")])
#: Operators and special forms, which stand in the language itself; Spark lists them as functions too.
FORMS = {"and", "or", "not", "in", "between", "case", "when", "if"}
GENERAL = "org.apache.spark.sql.catalyst.expressions."
#: What no function of one row is, by the classes of Spark.
NOT_OF_ONE_ROW = (
    "Nondeterministic",
    "aggregate.AggregateFunction",
    "Generator",
    "WindowFunction",
    "CallMethodViaReflection",
)


def listed(spark: Any) -> dict[str, tuple[str, str]]:
    """Class and group of every function that Spark has."""
    state, jvm = spark._jsparkSession.sessionState(), spark._jvm
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    found = {}
    names = state.functionRegistry().listFunction().iterator()
    while names.hasNext():
        name = names.next().funcName()
        info = state.catalog().lookupFunctionInfo(identifier(name))
        found[name] = (info.getClassName(), info.getGroup().removesuffix("_funcs"))
    return {name: said for name, said in found.items() if name.isidentifier() and name not in FORMS}


@pytest.mark.classic
def test_each_function_of_spark_is_judged_by_its_properties(spark: Any) -> None:
    """A function that Spark adds to a group of functions of one row is named here until somebody has looked at it."""
    known = listed(spark)
    assert len(known) > 400
    by_hand = {name for names in REFUSED.values() for name in names.split()}
    wrong = {
        name: group
        for name, (_, group) in known.items()
        if (refusal(Call(name, (Literal(1),))) is None) != (group in ROW_FUNCTIONS and name not in by_hand)
    }
    assert not wrong
    assert {name: group for name, (_, group) in known.items() if refusal(Call(name, ())) is None} == {
        name: group
        for group, names in ROW_FUNCTIONS.items()
        for name in names
        if name in known
        if name != "unix_timestamp"
    }


@pytest.mark.classic
def test_no_class_of_an_allowed_function_is_another_kind(spark: Any) -> None:
    load = spark._jvm.org.apache.spark.util.Utils.classForName
    kinds = [load(GENERAL + name, True, False) for name in NOT_OF_ONE_ROW]
    allowed = {name: said[0] for name, said in listed(spark).items() if refusal(Call(name, (Literal(1),))) is None}
    wrong = {
        name for name, own in allowed.items() if any(kind.isAssignableFrom(load(own, True, False)) for kind in kinds)
    }
    assert not wrong


def test_a_function_has_one_judgement() -> None:
    by_hand = [name for names in REFUSED.values() for name in names.split()]
    allowed = [name for names in ROW_FUNCTIONS.values() for name in names]
    assert len(set(by_hand + allowed)) == len(by_hand + allowed)


@pytest.mark.parametrize(
    "text",
    [
        *("reflect('java.lang.System', 'exit', 1) = 1", "java_method('java.lang.System', 'getenv', A.k) = 'x'"),
        *("Try_Reflect('java.lang.System', 'exit', 1) = 1", "`REFLECT`('java.lang.System', 'exit', 1) = 1"),
        *("uniform(0, 10) > A.x", "A.x + rand() > 1", "uuid() = A.k", "shuffle(A.x) = 1", "A.k = randstr(3)"),
        *("A.ts < now()", "unix_timestamp() > A.x", "user() = A.k", "input_file_name() = A.k", "version() = A.k"),
        *("isnull(raise_error('stop'))", "isnull(assert_true(A.x > 1))", "from_xml(A.k, 'a int') = 1"),
        *("row_number() > 3", "lag(A.x) > 1", "explode(A.x) > 1", "collect_list(A.x) = 1", "count_distinct(A.x) > 1"),
        *("window(A.ts, '1 day') = 1", "stack(2, A.x) = 1", "aes_encrypt(A.k, A.k) = A.k", "create_map(A.k, A.x) = 1"),
    ],
)
def test_what_is_no_function_of_one_row(text: str) -> None:
    queries = [f"PATTERN A WHERE {text}", f"PATTERN EVENT(A, {text})", f"PATTERN A+ WHERE A.x > 1 AND NOT ({text})"]
    for query in [*queries, f"RETURN MAX(coalesce(({text}), A.x > 1)) PATTERN A"]:
        with pytest.raises(
            UnsupportedQuery, match=r"\(\) .*, so it cannot be part of a query(.|\n)*compute it as a col"
        ):
            analyse(parse(query), SCHEMA, known_functions=None if text.startswith(("`", "uuid")) else function_names())


@pytest.mark.parametrize(
    "name", ["system.builtin.reflect", "spark_catalog.default.mine", "mine", "REFLECT", "in(", "expr"]
)
def test_other_names_are_no_way_around(name: str) -> None:
    for known in (None, function_names()):
        with pytest.raises((UnsupportedQuery, UnknownFunction)):
            analyse(cet.seq(A).where(cet.fn[name](A.x) == 1).node, SCHEMA, known_functions=known)


def test_functions_of_one_row_stay() -> None:
    text = "abs(A.x) > 1 AND try_divide(A.x, 2) > 1 AND unix_timestamp(A.ts) > 1 AND rlike(A.k, 'x') AND hash(A.x) = 1"
    assert len(analyse(parse(f"PATTERN A WHERE {text}"), SCHEMA, known_functions=function_names()).query.where) == 5


# ------------------------------------------------------------------------------------------ conditions as Spark columns


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    return spark.range(6).selectExpr("id AS t", "'A' AS type", "CAST(id AS int) AS x", "'k' AS k")


CHANGING = more_on_classic(
    "reflect('java.lang.System', 'getProperty', 'user.name') = k",
    *("java_method('java.lang.System', 'lineSeparator') = k", "try_reflect('java.lang.System', 'exit', 1) = k"),
    *("rand() > 0.5", "uniform(0, 10) > x", "uuid() > k", "input_file_name() = k", "monotonically_increasing_id() > 2"),
    *("lag(x) OVER (PARTITION BY k ORDER BY t) > 1", "max(x) > 1", "explode(array(x)) > 1"),
)


@pytest.mark.parametrize("condition", CHANGING)
def test_columns_that_spark_calls_nondeterministic(events: Any, condition: str) -> None:
    sound = cet.event("a", F.col("x") > 1)
    with pytest.raises(
        UnsupportedQuery, match=r"the condition .* (fixed value|of one row)(.|\n)*hint: compute it as a col"
    ):
        events.pattern(cet.seq(sound, cet.event("b", F.expr(condition))), time="t")


def test_columns_of_functions(events: Any) -> None:
    for condition in (F.rand() > 0.5, F.row_number().over(Window.partitionBy("k").orderBy("t")) > 1):
        with pytest.raises(UnsupportedQuery, match="cannot be part of a query"):
            events.pattern(cet.event("b", condition), time="t")
    drawn = events.withColumn("drawn", F.rand())
    assert drawn.pattern(cet.event("b", F.col("drawn") >= 0), time="t").count_trends().first()["count"] == 6


def test_columns_in_workloads(events: Any) -> None:
    queries = {"one": cet.event("a", F.rand() > 0.5).returning(cet.count()), "two": A.returning(cet.count())}
    with pytest.raises(UnsupportedQuery, match=r"'one'(.|\n)*gives no fixed value"):
        events.patterns(queries, time="t")


def test_errors_of_functions_come_with_all_others() -> None:
    with pytest.raises(AnalysisErrors, match="3 errors"):
        analyse(parse("PATTERN A WHERE rand() > A.nope AND reflect('a', 'b') = 1"), SCHEMA)


def test_functions_that_spark_forgets_to_list_are_known() -> None:
    """And what its module has imported for itself is none."""
    assert "chr" in function_names()
    assert not {"any", "cast", "overload", "callable"} & function_names()
