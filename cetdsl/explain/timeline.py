"""Timelines of trends: the data of each trend, and the figure of Plotly that shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs

from cetdsl.errors import MissingDependency, counted
from cetdsl.explain.charts import COLOURS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: A time on the axis: a number of ticks, or a date and time.
Time = int | datetime
#: Marks differ in form too, for printers and for eyes that do not tell all colours apart.
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon")
#: Colours of lines, borders and backgrounds that can be seen on light and on dark templates.
_LINE, _BORDER, _SHADE = "rgba(128, 128, 128, 0.9)", "rgba(128, 128, 128, 0.6)", "rgba(128, 128, 128, 0.16)"
#: In pixels: the height of a row, the height of what stands above and below all rows, and the least height of a figure.
_ROW, _AROUND, _LEAST = 26, 130, 300
#: As parts of a row's height: over how much events of one time are spread, and how far a window's background reaches
#: up and down from the middle of a row.
_SPREAD, _HALF = 0.5, 0.46
#: How far from the middle of the first and the last row the plot ends, so that no mark is cut off.
_EDGE = 0.3
#: Buttons of Plotly that send the figure to its makers. They are removed: a query's events are the user's alone.
SENDS = ("sendChartToCloud", "sendDataToCloud")
#: The longest text of one column that is shown beside a mark.
_LONGEST = 100


@attrs.frozen
class Mark:
    """An event that a trend binds: its variable, its time, and texts of the time and of the columns to show."""

    variable: str
    time: Time
    shown: str
    texts: tuple[str | None, ...] = ()


@attrs.frozen
class TimelineRow:
    """A trend: the texts of its keys, the ends of its window if windows slide, and its events in order."""

    keys: tuple[str | None, ...]
    window: tuple[Time, Time] | None
    marks: tuple[Mark, ...]


@attrs.frozen
class Timeline:
    """Trends over time, sorted by keys and window.

    ``variables`` are those of the pattern. ``keys`` names the texts of rows, ``columns`` those of marks, and ``time``
    is the name of the time column. ``zone`` is the time zone, None if the times have none. There are no more rows than
    ``limit``.
    """

    rows: tuple[TimelineRow, ...]
    variables: tuple[str, ...]
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    time: str
    zone: str | None = None
    limit: int | None = None


def require_plotly() -> None:
    """Raises unless Plotly, which draws, is installed.

    Raises
    ------
    MissingDependency
        If it is not installed.
    """
    try:
        import plotly.graph_objects  # noqa: F401
    except ImportError as error:
        raise MissingDependency("plotly, which draws, is not installed", hint="pip install 'cetdsl[plot]'") from error


def figure_of(timeline: Timeline) -> Figure:
    """The figure of a timeline: a row for each trend, and a trace of marks for each variable.

    Examples
    --------
    >>> marks = (Mark("A", 1, "1"), Mark("B", 4, "4"))
    >>> figure = figure_of(Timeline((TimelineRow((), None, marks),), ("A", "B"), (), (), "t"))
    >>> [(trace.name, trace.x) for trace in figure.data[1:]]
    [('A', (1,)), ('B', (4,))]
    """
    require_plotly()
    import plotly.graph_objects as go

    placed = [(row, list(zip(row.marks, _heights(place, row.marks)))) for place, row in enumerate(timeline.rows)]
    figure = go.Figure()
    if placed:
        figure.add_scatter(
            x=[x for _, marks in placed for x in (*(mark.time for mark, _ in marks), None)],
            y=[y for _, marks in placed for y in (*(height for _, height in marks), None)],
            mode="lines",
            line={"color": _LINE, "width": 1.5},
            hoverinfo="skip",
            showlegend=False,
            name="trends",
        )
    for number, variable in enumerate(timeline.variables):
        points = [(row, mark, y) for row, marks in placed for mark, y in marks if mark.variable == variable]
        if points:
            colour, symbol = COLOURS[number % len(COLOURS)], _SYMBOLS[number % len(_SYMBOLS)]
            figure.add_scatter(
                x=[mark.time for _, mark, _ in points],
                y=[y for _, _, y in points],
                mode="markers",
                marker={"color": colour, "symbol": symbol, "size": 11, "line": {"color": "#ffffff", "width": 1}},
                hovertext=[_hover(timeline, row, mark) for row, mark, _ in points],
                hoverinfo="text",
                showlegend=True,
                name=as_html(variable),
            )
    _lay_out(figure, timeline)
    return figure


def _lay_out(figure: Any, timeline: Timeline) -> None:
    """Sets titles and the names of the rows, and adds the backgrounds of windows and lines between keys."""
    rows = timeline.rows
    zone = "" if timeline.zone is None else f" ({timeline.zone})"
    more = f" (k={timeline.limit}: there may be more)" if len(rows) == timeline.limit else ""
    figure.update_layout(
        title={"text": counted(len(rows), "trend") + more},
        height=max(_LEAST, _AROUND + _ROW * len(rows)),
        hovermode="closest",
        modebar={"remove": list(SENDS)},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "itemsizing": "constant"},
        margin={"l": 20, "r": 20, "t": 70, "b": 50},
    )
    # Plotly would guess the kind, and be wrong where the first text looks like a date, or where years have few digits.
    kind = "linear" if not rows or isinstance(rows[0].marks[0].time, int) else "date"
    figure.update_xaxes(title_text=as_html(f"{timeline.time}{zone}"), type=kind, automargin=True)
    figure.update_yaxes(
        type="linear",
        range=[len(rows) - _EDGE, _EDGE - 1],
        tickmode="array",
        tickvals=list(range(len(rows))),
        ticktext=list(_names(timeline)),
        showgrid=False,
        zeroline=False,
        automargin=True,
    )
    if not rows:
        say_empty(figure)
    for window, first, last in _blocks([row.window and (row.keys, row.window) for row in rows]):
        if window is not None:
            figure.add_shape(
                type="rect", x0=window[1][0], x1=window[1][1], y0=first - _HALF, y1=last + _HALF, layer="below",
                fillcolor=_SHADE, line={"color": _BORDER, "width": 1, "dash": "dot"},
            )  # fmt: skip
    for _, first, _ in _blocks([row.keys for row in rows]):
        if first:
            figure.add_shape(
                type="line", xref="paper", x0=0, x1=1, y0=first - 0.5, y1=first - 0.5, layer="below",
                line={"color": _BORDER, "width": 1},
            )  # fmt: skip


def _blocks(values: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    """Each run of equal values: the value, the place of its first occurrence and that of its last."""
    for value, places in groupby(range(len(values)), key=values.__getitem__):
        among = list(places)
        yield value, among[0], among[-1]


def _heights(place: int, marks: Sequence[Mark]) -> Iterator[float]:
    """The height of each mark: that of the row, or around it where several have one time and would hide each other."""
    for _, first, last in _blocks([mark.time for mark in marks]):
        for number in range(last - first + 1):
            yield place + (_SPREAD * (number / (last - first) - 0.5) if last > first else 0.0)


def _names(timeline: Timeline) -> Iterator[str]:
    """The name of each row: its number among the rows of the same keys; the first of them also names the keys."""
    for keys, first, last in _blocks([row.keys for row in timeline.rows]):
        texts = pairs_html(timeline.keys, keys)
        for number in range(last - first + 1):
            yield f"{texts}  {number + 1}" if texts and not number else f"{number + 1}"


def _hover(timeline: Timeline, row: TimelineRow, mark: Mark) -> str:
    lines = [f"<b>{as_html(mark.variable)}</b>", _pair(timeline.time, mark.shown)]
    pairs = [*zip(timeline.keys, row.keys), *zip(timeline.columns, mark.texts)]
    lines += [_pair(name, text) for name, text in dict(pairs).items() if name != timeline.time]
    if row.window is not None:
        lines.append(f"window from {row.window[0]} to {row.window[1]}")
    return "<br>".join(lines)


def say_empty(figure: Figure) -> None:
    """Says in place of an empty picture which method tells the reason."""
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    why = "The query has no trend: diagnose() says why."
    figure.add_annotation(text=why, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False)


def pairs_html(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """Names and values of keys, as Plotly shows them.

    Examples
    --------
    >>> pairs_html(["user", "day"], ["ann", None])
    'user = ann, day = NULL'
    """
    return ", ".join(_pair(name, text) for name, text in zip(names, texts))


def _pair(name: str, text: str | None) -> str:
    shown = "NULL" if text is None else text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{as_html(name)} = {as_html(shown)}"


def as_html(text: str) -> str:
    """Escapes a text for Plotly, which interprets some HTML, so that it is shown as it is.

    Examples
    --------
    >>> as_html("a < b")
    'a &lt; b'
    """
    return escape(text, quote=False)
