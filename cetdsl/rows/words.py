"""Words with a meaning of their own in the expressions of a clause: navigations, aggregates, and Spark's syntax."""

from __future__ import annotations

from cetdsl.ir.rows import GREATEST, LEAST, LIST, SUM

#: Comparisons by their spellings.
COMPARED = {sign: sign for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>")}
COMPARED |= {"==": "=", "!=": "<>", "!<": ">=", "!>": "<="}
PHYSICAL = {"PREV": "lag", "NEXT": "lead"}
LOGICAL = {"FIRST", "LAST"}
#: Aggregates by the kind of their slot. COUNT and the averages are not here.
AGGREGATES = {"SUM": SUM, "MIN": LEAST, "MAX": GREATEST, "ARRAY_AGG": LIST, "COLLECT_LIST": LIST}
#: Aggregates, which may take a constant: it is then a value of each row.
COUNTED_EVERYWHERE = frozenset(AGGREGATES) | {"COUNT", "AVG", "MEAN"}
NAVIGATION = LOGICAL | set(PHYSICAL) | set(AGGREGATES) | {"COUNT", "AVG", "MEAN", "CLASSIFIER", "MATCH_NUMBER"}
#: Spark's other aggregates. They are refused, because in a measure they would aggregate over matches.
OTHER_AGGREGATES = frozenset(
    """ANY ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE APPROX_TOP_K BIT_AND BIT_OR BIT_XOR BITMAP_CONSTRUCT_AGG
    BITMAP_OR_AGG BOOL_AND BOOL_OR COLLECT_SET CORR COUNT_IF COUNT_MIN_SKETCH COVAR_POP COVAR_SAMP EVERY FIRST_VALUE
    GROUPING GROUPING_ID HISTOGRAM_NUMERIC HLL_SKETCH_AGG HLL_UNION_AGG KURTOSIS LAST_VALUE LISTAGG MAX_BY MEDIAN MIN_BY
    MODE PERCENTILE PERCENTILE_APPROX PERCENTILE_CONT PERCENTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT
    REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY SCHEMA_OF_JSON_AGG SKEWNESS SOME STD STDDEV STDDEV_POP STDDEV_SAMP
    STRING_AGG TRY_AVG TRY_SUM VAR_POP VAR_SAMP VARIANCE""".split()  # noqa: SIM905 - a list would take a page
)
#: Spark's functions that return any number of rows for one, and what to write in place of each. They are refused,
#: because with them an answer would have a match several times, or not at all.
GENERATORS = {
    **dict.fromkeys(
        """EXPLODE EXPLODE_OUTER INLINE INLINE_OUTER JSON_TUPLE POSEXPLODE POSEXPLODE_OUTER STACK VARIANT_EXPLODE
        VARIANT_EXPLODE_OUTER""".split(),  # noqa: SIM905 - a list would take a page
        "name the array, or ARRAY_AGG(...), in MEASURES, explode the answer; in DEFINE write exists(array, x -> ...)",
    ),
    **dict.fromkeys(("WINDOW", "SESSION_WINDOW"), "write date_trunc('hour', ...), or take windows of the answer"),
}
#: Functions of other engines or of windows, with what is written for them here.
ELSEWHERE = {
    "LAG": "write PREV(...)",
    "LEAD": "write NEXT(...)",
    "MATCH_SEQUENCE_NUMBER": "write COUNT(*), which with ALL ROWS PER MATCH is the number of the row",
}
#: Words that are part of Spark's syntax even if a column has such a name; in backquotes they name the column. Some name
#: it without backquotes where only a column can stand: :data:`COLUMNS_AS_WELL`.
SYNTAX = frozenset(
    """ALL AND ANY AS ASC BETWEEN BOTH CASE CAST COLLATE CROSS CURRENT_DATE CURRENT_TIMESTAMP CURRENT_USER DESC DISTINCT
    DIV ELSE END ESCAPE EXISTS EXTRACT FALSE FROM ILIKE IN INTERVAL IS LEADING LIKE NOT NULL OR OVERLAY REGEXP RLIKE
    SELECT SIMILAR SOME THEN TO TRAILING TRUE USING WHEN WHERE""".split()  # noqa: SIM905 - a list would take a page
)
#: Words of syntax that may be columns without backquotes, because no operand begins with them otherwise.
COLUMNS_AS_WELL = frozenset(("ASC", "DESC", "END", "FROM", "TO", "USING"))
#: Words of syntax that stand behind an operand.
BEHIND_OPERAND = COLUMNS_AS_WELL | set(
    """AND AS BETWEEN COLLATE DIV ELSE ESCAPE ILIKE IN IS LIKE NOT OR REGEXP RLIKE SIMILAR THEN WHEN""".split()  # noqa: SIM905
)
#: Words of syntax that stand before an operand.
BEFORE_OPERAND = frozenset(
    """ALL AND BETWEEN CASE DISTINCT DIV ELSE ESCAPE FROM ILIKE LIKE NOT OR REGEXP RLIKE THEN WHEN""".split()  # noqa: SIM905
)
UNITS = frozenset(
    f"{unit}{ending}"
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for ending in ("", "S")
)
TYPED = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "X"}
#: Functions that take a unit as the first of three arguments.
TAKE_UNIT = {"TIMESTAMPDIFF", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "DATEADD", "DATE_ADD"}
TAKE_TYPE = {"CAST", "TRY_CAST"}
#: The first part of the full name of a variable of a session.
SCHEMAS_OF_VARIABLES = {"session", "system"}
#: Functions in which FOR and PLACING are words of syntax: ``substring(x FROM 1 FOR 2)``.
TAKE_FOR = {"SUBSTRING", "SUBSTR", "OVERLAY"}
