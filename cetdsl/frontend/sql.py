"""``cet.sql(text, spark)``: a query of Spark's SQL in which MATCH_RECOGNIZE may stand behind tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from cetdsl.errors import CetdslError, InvalidNode, shown
from cetdsl.frontend.match_recognize import match_recognize
from cetdsl.rows.query import FoundClause, Pieces, clauses_of, table_query


def sql(text: str, spark: SparkSession) -> DataFrame:
    """Runs a query in which MATCH_RECOGNIZE may stand where SQL allows it: behind a table in FROM.

    Parameters
    ----------
    text : str
        A query of Spark's SQL. Each clause becomes a DataFrame of its own, see :func:`match_recognize`, and Spark reads
        all else as always.
    spark : pyspark.sql.SparkSession

    Returns
    -------
    pyspark.sql.DataFrame

    Raises
    ------
    ParseError
        If a clause is malformed; the place is that in the whole text.
    ResolutionError
        If a clause does not fit its table.

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
    text = _text_of(text)
    pieces, answers = Pieces(text), dict[str, DataFrame]()
    for found in clauses_of(text):
        table = _run(spark, table_query(pieces, found), answers)
        # A word of which no text can know.
        name = f"match_{uuid4().hex}"
        answers[name] = _matches(table, text, found)
        pieces.replace(found.table[0], found.end, name)
    return _run(spark, pieces.text(), answers)


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
    if not used:
        return spark.sql(query)
    query = query.replace("{", "{{").replace("}", "}}")
    for name in used:
        query = query.replace(name, f"{{{name}}}")
    # PySpark lets Spark know them for this query alone, also on Connect.
    return spark.sql(query, **used)


def _text_of(text: object) -> str:
    if isinstance(text, str):
        return text
    raise InvalidNode(f"a query is a text, not {shown(text)}", hint='write cet.sql("SELECT ...", spark)')
