"""What Spark says of a query in which answers stand for clauses, in the words and at the place of the user's text."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, ParseException

from cetdsl.errors import CetdslError, ParseError, QueryTypeError, ResolutionError, UnknownColumn, UnknownFunction
from cetdsl.execution.compat import SYNTAX_HINT, condition_of, reason_of
from cetdsl.rows.query import Pieces

#: The names that PySpark gives to the answers that a query refers to.
_TEMPORARY = re.compile(r"_pyspark_\w+")
_QUALIFIER, _ANSWER = re.compile(r"`?_pyspark_\w+`?\."), re.compile(r"`?_pyspark_\w+`?")
#: The place of a syntax error, what stands there, and the text that Spark has read.
_SYNTAX = re.compile(r"(?s)\(line (\d+), pos (\d+)\).*?== SQL ==\n(.*)")
_NEAR = re.compile(r"at or near '([^']+)'")
#: The kinds of errors by what Spark's names for them begin with, and what to do.
_KINDS: dict[str, tuple[type[CetdslError], str]] = {
    "UNRESOLVED_COLUMN": (
        UnknownColumn,
        "check the name; outside of a clause, only the columns of its answer are known",
    ),
    "UNRESOLVED_ROUTINE": (UnknownFunction, "check the name of the function"),
    "TABLE_OR_VIEW_NOT_FOUND": (ResolutionError, "check the name of the table"),
}
_OTHER = (QueryTypeError, "check the types of the columns, and the names of functions")


def error_of_query(error: AnalysisException, text: str, pieces: Pieces | None, within: tuple[int, int]) -> CetdslError:
    """Returns the error for one of Spark.

    Parameters
    ----------
    error : AnalysisException
    text : str
        What the user wrote.
    pieces : Pieces or None
        How Spark's text was made of it; None if the query is that of a table alone.
    within : tuple of int
        The part of the text that the query is about.
    """
    reason = _ANSWER.sub("the answer of MATCH_RECOGNIZE", _QUALIFIER.sub("", reason_of(error)))
    message, span = f"Spark cannot run the query: {reason}", _span(error, text, pieces, within)
    if isinstance(error, ParseException):
        return ParseError(message, hint=SYNTAX_HINT, span=span, text=text)
    kind, hint = _KINDS.get(condition_of(error).partition(".")[0], _OTHER)
    return kind(message, hint=hint, span=span, text=text)


def _span(
    error: AnalysisException, text: str, pieces: Pieces | None, within: tuple[int, int]
) -> tuple[int, int] | None:
    """The place of an error in the user's text; of a table's query all of the table where it is not known better."""
    begin, word = _spark_s_place(error)
    if pieces is not None and word:
        named = _TEMPORARY.search(str(error))
        place = pieces.place(begin, len(named[0]) if named else 0)
        if text.startswith(word, place):
            return place, place + len(word)
    found = list(re.finditer(rf"(?<![\w.`]){re.escape(word)}(?![\w.`])", text[slice(*within)])) if word else []
    if len(found) == 1:
        return within[0] + found[0].start(), within[0] + found[0].end()
    return None if pieces is not None else within


def _spark_s_place(error: AnalysisException) -> tuple[int, str]:
    """The offset of an error in the text that Spark has read, and what stands there; "" if it is not known."""
    if isinstance(error, ParseException):
        syntax, near = _SYNTAX.search(str(error)), _NEAR.search(str(error))
        if syntax is None or near is None:
            return 0, ""
        lines = syntax[3].split("\n")[: int(syntax[1]) - 1]
        return sum(len(line) + 1 for line in lines) + int(syntax[2]), near[1]
    for context in error.getQueryContext():
        if context.fragment():
            return context.startIndex(), context.fragment()
    return 0, ""
