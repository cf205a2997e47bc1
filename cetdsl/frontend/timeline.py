"""``cet.timeline(bound)``: trends drawn over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cetdsl.errors import InvalidNode, recovering, shown
from cetdsl.execution.compat import refuse_streaming
from cetdsl.execution.timelines import over_time, zone_of
from cetdsl.explain.timeline import Mark, Timeline, TimelineRow, figure_of, require_plotly
from cetdsl.frontend.given import positive
from cetdsl.frontend.session import PatternFrame
from cetdsl.pattern.properties import positive_variables

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def timeline(bound: PatternFrame, k: int = 20, *, columns: Sequence[str] | None = None) -> Figure:
    """Draw trends over time, as a figure of Plotly.

    Each trend is a row, and each of its events a mark, coloured by variable. Rows are sorted by group and partition
    columns, window and time. Sliding windows are shaded. Point at a mark to see the event, and drag to zoom in. The
    call runs a job.

    Parameters
    ----------
    bound : PatternFrame
        A query bound to a DataFrame, as ``df.pattern(...)`` gives it.
    k : int
        The maximum number of trends that are drawn. Which ones are drawn is arbitrary.
    columns : sequence of str, optional
        The columns of an event that are shown when the mouse points at it; all by default.

    Returns
    -------
    plotly.graph_objects.Figure
        A notebook shows it; ``figure.write_html("trends.html", include_plotlyjs=True)`` writes a page that needs no
        network. Timestamps are as clocks show them in Spark's session time zone, which the axis names.

    Raises
    ------
    MissingDependency
        If Plotly is not installed: it comes with the extra ``plot``.
    InvalidNode
        If ``bound`` is no bound query, or ``k`` no number of trends.
    StreamingNotSupported
        If the events are those of a stream.

    Examples
    --------
    >>> rows = [(1, "view", "ann"), (3, "cart", "ann"), (4, "cart", "ann"), (2, "view", "bob"), (6, "cart", "bob")]
    >>> df = spark.createDataFrame(rows, "t int, type string, user string")
    >>> figure = cet.timeline(df.pattern("PATTERN SEQ(view, cart) WHERE [user]", time="t"))
    >>> [(trace.name, trace.x) for trace in figure.data if trace.mode == "markers"]
    [('view', (1, 1, 2)), ('cart', (3, 4, 6))]
    """
    require_plotly()
    return figure_of(trends_over_time(bound, k, columns))


def trends_over_time(bound: PatternFrame, k: int = 20, columns: Sequence[str] | None = None) -> Timeline:
    """The data of :func:`timeline`, which takes the same arguments; this runs a job, and needs no Plotly.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A", 5), (2, "B", 7)], "t int, type string, x int")
    >>> [row] = trends_over_time(df.pattern("PATTERN SEQ(A, B)", time="t"), columns=["x"]).rows
    >>> [(mark.variable, mark.time, mark.texts) for mark in row.marks]
    [('A', 1, ('5',)), ('B', 2, ('7',))]
    """
    if not isinstance(bound, PatternFrame):
        raise InvalidNode(
            f"a timeline is drawn of a query that is bound to a DataFrame, not of {shown(bound)}",
            hint="write cet.timeline(df.pattern(query, time=...))",
        )
    refuse_streaming(bound._df, "a timeline of its trends")
    names, time = dict.fromkeys(bound._columns(columns)), bound._rewritten.time.name
    window = bound.query.window
    slides = window is not None and window.slide is not None
    limit = positive("k", k)
    rows = bound.trends(limit=limit, columns=list(names | {time: None}))
    with recovering():
        found = over_time(rows, time, list(names), slides).collect()
    return Timeline(
        tuple(
            TimelineRow(
                tuple(keys),
                None if start is None else (start, end),
                tuple(Mark(variable, at, text, tuple(texts)) for variable, at, text, texts in bindings),
            )
            for keys, start, end, bindings in found
        ),
        positive_variables(bound.query.pattern),
        tuple(rows.columns[: -2 if slides else -1]),
        tuple(names),
        time,
        zone_of(rows, time),
        limit,
    )
