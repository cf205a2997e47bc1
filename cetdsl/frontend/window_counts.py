"""``cet.window_counts(bound)``: the number of trends of each window, drawn."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from cetdsl.errors import InvalidNode, recovering, shown
from cetdsl.execution.compat import refuse_streaming
from cetdsl.execution.timelines import by_window, zone_of_windows
from cetdsl.explain.timeline import require_plotly
from cetdsl.explain.window_counts import WindowCount, WindowCounts, figure_of_counts
from cetdsl.frontend.session import PatternFrame

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def window_counts(bound: PatternFrame) -> Figure:
    """Draw the number of trends of each window, as a figure of Plotly.

    Each window is a bar at its start, as wide as the slide, with a part for each group. The six groups with the most
    trends have colours of their own. Point at a bar to see its number, and drag to zoom in. Numbers beyond the range of
    a double are drawn by their logarithm. The call runs a job.

    Parameters
    ----------
    bound : PatternFrame
        A query with windows that slide, bound to a DataFrame.

    Returns
    -------
    plotly.graph_objects.Figure
        A notebook shows it; ``figure.write_html("counts.html", include_plotlyjs=True)`` writes a page that needs no
        network.

    Raises
    ------
    MissingDependency
        If Plotly is not installed: it comes with the extra ``plot``.
    InvalidNode
        If ``bound`` is no bound query, or its windows do not slide.
    StreamingNotSupported
        If the events are those of a stream.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A"), (2, "B"), (3, "B"), (11, "A"), (12, "B")], "t int, type string")
    >>> figure = cet.window_counts(df.pattern("PATTERN SEQ(A, B) WITHIN 10 SLIDE 10", time="t"))
    >>> [(bars.x, bars.y) for bars in figure.data]
    [((0, 10), (2, 1))]
    """
    require_plotly()
    return figure_of_counts(counts_of_windows(bound))


def counts_of_windows(bound: PatternFrame) -> WindowCounts:
    """The data of :func:`window_counts`; this runs a job, and needs no Plotly.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
    >>> counts_of_windows(df.pattern("PATTERN A WITHIN 5 SLIDE 5 ", time="t")).counts
    (WindowCount(keys=(), window=(0, 5), trends=1),)
    """
    if not isinstance(bound, PatternFrame):
        raise InvalidNode(
            f"windows are drawn of a query that is bound to a DataFrame, not of {shown(bound)}",
            hint="write cet.window_counts(df.pattern(query, time=...))",
        )
    window = bound.query.window
    if window is None or window.slide is None:
        raise InvalidNode(
            "the query has no windows whose trends could be counted",
            hint="add windows that slide, .within('1 hour', slide='1 hour'), or draw trends with cet.timeline",
        )
    refuse_streaming(bound._df, "a picture of its windows")
    rows = bound.count_trends(number="string")
    with recovering():
        found = by_window(rows).collect()
    # Python reads no text of more than 4,300 digits as a whole number, but as a decimal.
    resolved = bound._rewritten
    slide = window.slide.amount / (1 if resolved.time_unit == "tick" else 1_000_000)
    return WindowCounts(
        tuple(WindowCount(tuple(keys), (start, end), int(Decimal(count))) for keys, start, end, count in found),
        tuple(rows.columns[:-2]),
        slide,
        resolved.time.name,
        zone_of_windows(rows),
    )
