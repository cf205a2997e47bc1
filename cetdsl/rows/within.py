"""Reads the length of WITHIN."""

from __future__ import annotations

from cetdsl.errors import ParseError, WindowError
from cetdsl.pattern.spans import Span
from cetdsl.rows.nodes import MatchClause
from cetdsl.rows.tokens import Kind

_HINT = "write WITHIN INTERVAL '1' HOUR, WITHIN INTERVAL 90 SECONDS, or a whole number for a column of whole numbers"


def span_of(clause: MatchClause) -> Span | None:
    """Returns how much later than its first row the last row of a match may be; None without WITHIN.

    Parameters
    ----------
    clause : MatchClause

    Returns
    -------
    Span or None

    Raises
    ------
    ParseError
        If WITHIN has no length, or one in months, or there is no ORDER BY.

    Examples
    --------
    >>> from cetdsl.rows.clause import parse_clause
    >>> str(span_of(parse_clause("ORDER BY ts PATTERN (A B) WITHIN INTERVAL '90' MINUTES")))
    '90 minutes'
    """
    within = clause.within
    if within is None:
        return None
    tokens = within.tokens[1:] if within.tokens[0].upper == "INTERVAL" else within.tokens
    words = [token.text[1:-1] if token.kind is Kind.STRING else token.text for token in tokens]
    try:
        span = Span.parse(" ".join(words))
    except WindowError as error:
        raise ParseError(error.message, hint=_HINT, span=within.span, text=clause.text) from None
    if span.unit == "month":
        hint = "write it in days"
        raise ParseError("months and years differ in length", hint=hint, span=within.span, text=clause.text)
    if not clause.order_by:
        hint = "write ORDER BY and the column of the time"
        raise ParseError("WITHIN needs a time to go by", hint=hint, span=within.span, text=clause.text)
    return span
