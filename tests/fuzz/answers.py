"""Random queries over many streams, as groups of one DataFrame, in all engines, in odd sessions, on odd inputs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import attrs
import generators
import modes
import test_complete_engines
import test_engines
import test_workload
from test_engines import NUMBERS

import cetdsl as cet
from cetdsl.frontend.sase import parse
from cetdsl.pattern.text import unparse
from cetdsl.planning.sharing import SHARING
from fuzz.cases import Case, Kind, Streams, with_smaller_text, within, without_parts

STREAMS = 30
#: Settings of a session with the values that they may have, the plainest first.
SETTINGS: dict[str, tuple[str, ...]] = {
    "spark.sql.shuffle.partitions": ("3", "1", "3", "3", "3", "8", "300"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"),
    "spark.sql.adaptive.enabled": ("false", "true"),
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK", "CODEGEN_ONLY"),
    "spark.sql.execution.arrow.maxRecordsPerBatch": ("10000", "1", "10", "0"),
    "spark.sql.caseSensitive": ("false", "true"),
    "spark.sql.autoBroadcastJoinThreshold": ("10485760", "-1", "0"),
    "spark.sql.execution.arrow.useLargeVarTypes": ("false", "true"),
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": ("true", "false"),
    "spark.sql.legacy.timeParserPolicy": ("EXCEPTION", "LEGACY", "CORRECTED"),
    "spark.sql.sources.useV1SourceList": ("parquet", ""),
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.orderByOrdinal": ("true", "false"),
    "spark.sql.groupByOrdinal": ("true", "false"),
    "spark.sql.crossJoin.enabled": ("true", "false"),
    "spark.sql.mapKeyDedupPolicy": ("EXCEPTION", "LAST_WIN"),
    "spark.sql.execution.pandas.convertToArrowArraySafely": ("false", "true"),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true", "false"),
}
#: The ways in which the rows may be held; see :func:`laid_out`.
INPUTS = ("plain", "cached", "one partition", "many partitions", "checkpointed", "broadcast", "view", "union", "sorted")


def laid_out(df: Any, how: str) -> Any:
    """The same rows, held in one of the ways of :data:`INPUTS`."""
    if how == "cached":
        return df.cache()
    if how == "one partition":
        return df.coalesce(1)
    if how == "many partitions":
        return df.repartition(40, "t")
    if how == "checkpointed":
        return df.localCheckpoint()
    if how == "broadcast":
        return df.join(df.select("case").distinct().hint("broadcast"), "case").select(df.columns)
    if how == "view":
        df.createOrReplaceTempView("fuzzed")
        return df.sparkSession.table("fuzzed")
    if how == "union":
        return df.filter("id % 2 = 0").union(df.filter("id % 2 = 1"))
    return df.orderBy("t", ascending=False) if how == "sorted" else df


@attrs.frozen
class Answer(Streams):
    """A query in every engine that takes it, and the trends themselves."""

    ties: tuple[str, ...]
    number: str
    session: dict[str, str]
    how: str

    def check(self, spark: Any = None) -> None:
        query = parse(self.text)
        with within(60, 600), modes.settings(spark, self.session):
            judge = test_engines.Judge(self.numbered, self.df(spark))
            try:
                self.ask(judge, query)
            finally:
                judge.df.unpersist()

    def df(self, spark: Any) -> Any:
        return laid_out(generators.frame(spark, self.numbered), self.how)

    def ask(self, judge: Any, query: Any) -> None:
        judge.judge(query, self.ties, self.number)
        judge.judge_trends(query, self.ties)

    def smaller(self) -> Iterator[Case]:
        for name in self.session:
            yield attrs.evolve(self, session={key: value for key, value in self.session.items() if key != name})
        if self.how != "plain":
            yield attrs.evolve(self, how="plain")
        cases = sorted({row["case"] for row in self.rows})
        for kept in without_parts(cases) if len(cases) > 1 else ():
            yield attrs.evolve(self, rows=[row for row in self.rows if row["case"] in kept])
        yield from with_smaller_text(self)
        for rows in without_parts(self.rows) if len(cases) == 1 else ():
            yield attrs.evolve(self, rows=rows)


@attrs.frozen
class CompleteAnswer(Answer):
    """The complete trends of a query, by every algorithm, listed, drawn and counted."""

    def check(self, spark: Any = None) -> None:
        query = parse(self.text)
        with within(60, 600), modes.settings(spark, self.session):
            judge = test_complete_engines.Judge(self.numbered, self.df(spark))
            try:
                judge.judge(query, self.ties, test_complete_engines.in_turn(len(self.text)))
                judge.judge_counts(query, self.ties)
            finally:
                judge.df.unpersist()


@attrs.frozen
class WorkloadAnswer(Answer):
    """A workload of the query and its ``company``, which share what they can; the answers of all are judged."""

    company: list[str] = attrs.Factory(list)

    def ask(self, judge: Any, query: Any) -> None:
        queries = {f"q{n}": test_engines.by_case(parse(text)) for n, text in enumerate([self.text, *self.company])}
        answerable = {}
        for name, each in queries.items():
            try:
                judge.df.pattern(each, time="t").aggregate()
            except (cet.errors.UnsupportedQuery, cet.errors.NoPhysicalPlan):
                continue
            answerable[name] = each
        if answerable:
            expected = test_workload.expected_of(judge, answerable)
            sharing = SHARING[len(self.text) % len(SHARING)]
            test_workload.judge_workload(judge, answerable, expected, sharing, self.number)

    def smaller(self) -> Iterator[Case]:
        for company in without_parts(self.company):
            yield attrs.evolve(self, company=company)
        yield from super().smaller()


def surroundings(choose: Random) -> tuple[dict[str, str], str]:
    """A few settings of a session, and a way to hold the rows."""
    names = choose.sample(list(SETTINGS), choose.randint(0, 6))
    # Else each plan is compiled, which takes most of the time.
    plain = modes.SIMPLE_PLANS if choose.random() < 0.7 else {}
    return {**plain, **{name: choose.choice(SETTINGS[name]) for name in names}}, choose.choice(INPUTS)


def question(choose: Random, features: generators.Features) -> tuple[Any, ...]:
    case = generators.random_case(choose.getrandbits(40), features)
    few = choose.choice((0, 1, STREAMS, STREAMS, STREAMS, STREAMS))
    rows = generators.stack([case.rows, *(generators.random_stream(choose.getrandbits(40)) for _ in range(few))])
    number = choose.choice(NUMBERS)
    return unparse(case.query), rows, case.tie_break, number, *surroundings(choose)


def answer(choose: Random) -> Answer:
    return Answer(*question(choose, test_engines.ALL))


def complete_answer(choose: Random) -> CompleteAnswer:
    features = choose.choice((test_complete_engines.GRAPHS, test_complete_engines.EVERYTHING))
    return CompleteAnswer(*question(choose, features))


def distinct_names(query: Any) -> bool:
    names = [item.output_name.casefold() for item in query.returning]
    return len(set(names)) == len(names)


def workload_answer(choose: Random) -> WorkloadAnswer:
    # The streams of a workload have no order among equal times.
    features = attrs.evolve(test_workload.FEATURES.without("tie_break"), chains=choose.random() < 0.3)
    company = [generators.random_case(choose.getrandbits(40), features).query for _ in range(choose.randint(1, 5))]
    text, rows, _, *rest = question(choose, features)
    while not distinct_names(parse(text)):
        text, *_ = question(choose, features)
    return WorkloadAnswer(text, rows, (), *rest, [unparse(query) for query in company if distinct_names(query)])


KINDS = {
    "answers": Kind(answer, 2, spark=True),
    "listings": Kind(complete_answer, 1, spark=True),
    "workloads": Kind(workload_answer, 1, spark=True),
}
