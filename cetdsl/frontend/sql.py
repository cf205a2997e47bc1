"""``cet.sql(text, spark)``: a query of Spark's SQL in which MATCH_RECOGNIZE may stand behind tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from cetdsl.errors import CetdslError, InvalidNode, UnsupportedQuery, shown
from cetdsl.execution.compat import as_session, own_errors
from cetdsl.frontend.match_recognize import match_recognize
from cetdsl.frontend.sql_errors import error_of_query
from cetdsl.rows.query import FoundClause, Pieces, clauses_of, kept_query, table_query


def sql(text: str, spark: SparkSession) -> DataFrame:
    """Runs a query in which MATCH_RECOGNIZE may stand where SQL allows it: behind a table in FROM.

    Parameters
    ----------
    text : str
        A query of Spark's SQL. Each MATCH_RECOGNIZE clause becomes a DataFrame, as by :func:`match_recognize`, and
        Spark runs the rest of the query. As with ``spark.sql``, take it from nobody whom you would not give the
        session.
    spark : pyspark.sql.SparkSession

    Returns
    -------
    pyspark.sql.DataFrame

    Raises
    ------
    ParseError
        If a clause or the rest of the query is malformed; the error points into the whole text.
    ResolutionError
        If a clause does not fit its table, Spark cannot resolve the rest of the query, or the statement would store the
        query, as CREATE VIEW does.
    InvalidNode
        If the query is no text, or there is no session.

    Examples
    --------
    >>> prices = [("ACME", 1, 9), ("ACME", 2, 7), ("ACME", 3, 8), ("EVIL", 1, 3), ("EVIL", 2, 4)]
    >>> spark.createDataFrame(prices, "company string, day int, price int").createOrReplaceTempView("prices")
    >>> cet.sql('''
    ...     SELECT m.company, m.low
    ...     FROM prices MATCH_RECOGNIZE (
    ...         PARTITION BY company ORDER BY day
    ...         MEASURES down.price AS low
    ...         PATTERN (down up) DEFINE down AS price < PREV(price), up AS price > PREV(price)
    ...     ) AS m
    ...     WHERE m.low > 5
    ... ''', spark).show()
    +-------+---+
    |company|low|
    +-------+---+
    |   ACME|  7|
    +-------+---+
    <BLANKLINE>
    """
    text, spark = _text_of(text), as_session(spark)
    clauses, pieces, answers = clauses_of(text), Pieces(text), dict[str, DataFrame]()
    if clauses:
        _refuse_kept(text)
    for found in clauses:
        with _errors_of_spark(text, None, found.table):
            table = _run(spark, table_query(pieces, found), answers)
        # A word of which no text can know.
        name = f"match_{uuid4().hex}"
        answers[name] = _matches(table, text, found)
        pieces.replace(found.table[0], found.end, name)
    with _errors_of_spark(text, pieces, (0, len(text))):
        return _run(spark, pieces.text(), answers)


def _refuse_kept(text: str) -> None:
    """Raises for a statement such as CREATE VIEW, whose query Spark runs when the answers are gone."""
    span = kept_query(text)
    if span is not None:
        raise UnsupportedQuery(
            "Spark keeps the query of this statement to run it later, and knows the answer of MATCH_RECOGNIZE in one"
            " statement only",
            hint='write cet.sql("SELECT ...", spark).createOrReplaceTempView("vw"), or CREATE TABLE name AS SELECT ...',
            span=span,
            text=text,
        )


@contextmanager
def _errors_of_spark(text: str, pieces: Pieces | None, within: tuple[int, int]) -> Iterator[None]:
    """Turns what Spark says of a query into errors that speak of the user's text."""
    try:
        with own_errors():
            yield
    except AnalysisException as error:
        raise error_of_query(error, text, pieces, within) from error


def _matches(table: DataFrame, text: str, found: FoundClause) -> DataFrame:
    """The answer of a clause; errors point into the whole text."""
    begin, end = found.body
    clause = text[begin:end]
    try:
        return match_recognize(table, clause)
    except CetdslError as error:
        if error.span is not None and error.text == clause:
            error.span, error.text = (error.span[0] + begin, error.span[1] + begin), text
        raise


def _run(spark: SparkSession, query: str, answers: Mapping[str, DataFrame]) -> DataFrame:
    """Has Spark run a query that refers to answers by their names."""
    used: dict[str, Any] = {name: answer for name, answer in answers.items() if name in query}
    if used:
        query = query.replace("{", "{{").replace("}", "}}")
        for name in used:
            query = query.replace(name, f"{{{name}}}")
    # PySpark lets Spark know them for this query alone, also on Connect.
    answer = spark.sql(query, **used)
    _ = answer.schema  # Connect resolves nothing before it is asked
    return answer


def _text_of(text: object) -> str:
    if isinstance(text, str):
        return text
    raise InvalidNode(f"a query is a text, not {shown(text)}", hint='write cet.sql("SELECT ...", spark)')
