"""``df.match_recognize(clause)``: SQL's row pattern recognition over a DataFrame."""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame

from cetdsl.errors import CetdslError, InvalidNode, ResolutionError, shown
from cetdsl.execution.compat import as_dataframe, refuse_streaming
from cetdsl.execution.match_rows import match_rows
from cetdsl.execution.python import require_worker_python
from cetdsl.frontend.sorting import asked_sort
from cetdsl.ir.sorting import AUTO, KERNEL, SPARK
from cetdsl.rows.automaton import arrows_of, automaton_of
from cetdsl.rows.clause import parse_clause
from cetdsl.rows.resolve import resolve
from cetdsl.rows.resolved import ResolvedMatch
from cetdsl.rows.within import span_of

_LOG = logging.getLogger("cetdsl.rows")


def match_recognize(
    df: DataFrame, clause: str, sort: str | None = None, sort_memory: str | int | None = None
) -> DataFrame:
    """Finds the matches of a row pattern in the ordered rows of each partition, as SQL's MATCH_RECOGNIZE does.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row per event. A DataFrame of pandas, or of pandas on Spark, is converted where a session is active.
    clause : str
        The clause, as it stands between the parentheses of ``MATCH_RECOGNIZE ( ... )`` in SQL; its expressions are
        Spark's SQL, which may also read other tables and call any function, so take it from nobody whom you would not
        give the session. See :doc:`/match_recognize`.
    sort : {"auto", "kernel", "spark"}, optional
        The side that sorts the rows of a partition and evaluates PREV and NEXT: the kernel, wherever it can, or Spark,
        with window functions. By default the session's setting ``cetdsl.sort``, or ``"auto"`` if it is not set.
    sort_memory : str or int, optional
        The memory for rows that the kernel sorts, in bytes or as ``"64m"``; the rest goes to Spark's local directory.
        By default the session's setting ``cetdsl.sort.memory``, or 48 MiB if it is not set.

    Returns
    -------
    pyspark.sql.DataFrame
        With ONE ROW PER MATCH the columns of PARTITION BY and the measures; with ALL ROWS PER MATCH the columns of
        PARTITION BY, the columns of ORDER BY, the measures, and all other columns.

    Raises
    ------
    ParseError
        If the clause is malformed.
    ResolutionError
        If the clause does not fit the DataFrame.
    StreamingNotSupported
        If the DataFrame is a stream.
    InvalidNode
        If the clause is no text, or ``sort`` or ``sort_memory`` has no such value.

    Examples
    --------
    >>> prices = spark.createDataFrame([(1, 9), (2, 7), (3, 5), (4, 8), (5, 6)], "day int, price int")
    >>> found = cet.match_recognize(prices, '''
    ...     ORDER BY day
    ...     MEASURES FIRST(down.day) AS since, LAST(down.price) AS low, up.price AS price
    ...     PATTERN (down+ up)
    ...     DEFINE down AS price < PREV(price), up AS price > PREV(price)
    ... ''')
    >>> found.show()
    +-----+---+-----+
    |since|low|price|
    +-----+---+-----+
    |    2|  5|    8|
    +-----+---+-----+
    <BLANKLINE>
    """
    df = as_dataframe(df)
    parsed = parse_clause(_text_of(clause))
    refuse_streaming(df, "matches of MATCH_RECOGNIZE")
    try:
        match, automaton, span = resolve(parsed, df.columns), automaton_of(parsed.pattern), span_of(parsed)
    except CetdslError as error:
        if error.span is not None and error.text is None:
            error.text = clause
        raise
    _warn(match)
    asked = asked_sort(df.sparkSession, sort, sort_memory, (AUTO, KERNEL, SPARK))
    answer = match_rows(df, match, arrows_of(automaton, match.variables, match.conditions), span, asked)
    require_worker_python(df.sparkSession)
    return answer


def _warn(match: ResolvedMatch) -> None:
    """Logs warnings of likely mistakes: a skip that may fail, variables without a condition, rows without an order."""
    if not match.clause.order_by:
        message = "rows are matched in whatever order Spark reads them, which may differ from run to run"
        _LOG.warning("%s", ResolutionError(message, hint="write ORDER BY and the column of their time"))
    if match.skip_may_fail and match.clause.skip.variable:
        name, span = match.clause.skip.variable, match.clause.skip.span
        message = f"a match may have no row that is bound to {name}, to skip to: the query fails where one has none"
        hint = "skip to a variable, or a SUBSET of several, that every match binds"
        _LOG.warning("%s", ResolutionError(message, hint=hint, span=span, text=match.clause.text))
    if match.undefined:
        names = ", ".join(variable.name for variable in match.undefined)
        verb = "has" if len(match.undefined) == 1 else "have"
        hint = f"if that is meant, DEFINE {match.undefined[0].name} AS TRUE says so"
        span, text = match.undefined[0].span, match.clause.text
        message = f"{names} {verb} no condition in DEFINE, so that any row can be bound there"
        _LOG.warning("%s", ResolutionError(message, hint=hint, span=span, text=text))


def _text_of(clause: object) -> str:
    if isinstance(clause, str):
        return clause
    hint = 'write the clause as a text: "ORDER BY ... PATTERN (...) DEFINE ..."'
    raise InvalidNode(f"MATCH_RECOGNIZE is a text, not {shown(clause)}", hint=hint)
