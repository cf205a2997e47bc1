"""Counts of trends by window: the data, and the figure of Plotly that shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import attrs

from cetdsl.errors import counted
from cetdsl.explain.charts import COLOURS
from cetdsl.explain.timeline import SENDS, Time, as_html, pairs_html, require_plotly, say_empty

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: How many groups have a colour of their own if there are more groups than colours; the last is for all others.
_COLOURED = len(COLOURS) - 1
#: If a number is larger, logarithms are drawn: it may be more than a double can hold.
_LARGEST = 10**300
#: Numbers of more digits are written with an exponent.
_DIGITS = 15


@attrs.frozen
class WindowCount:
    """The number of trends of a window and group: texts of the group's values, the window's ends, the number."""

    keys: tuple[str | None, ...]
    window: tuple[Time, Time]
    trends: int


@attrs.frozen
class WindowCounts:
    """Numbers of trends, sorted by window; a group without a trend in a window has no number there.

    ``keys`` names the group columns, and ``time`` the time column. ``slide`` is how far apart windows start, in ticks
    or seconds. ``zone`` is the time zone, None if the times have none.
    """

    counts: tuple[WindowCount, ...]
    keys: tuple[str, ...]
    slide: float
    time: str
    zone: str | None = None


def figure_of_counts(data: WindowCounts) -> Figure:
    """The figure: a bar for each window, in as many parts as groups have trends in it.

    Examples
    --------
    >>> counts = WindowCounts((WindowCount(("x",), (0, 10), 3), WindowCount(("y",), (5, 15), 4)), ("k",), 5, "t")
    >>> [(bars.name, bars.x, bars.y) for bars in figure_of_counts(counts).data]
    [('k = y', (5,), (4,)), ('k = x', (0,), (3,))]
    """
    require_plotly()
    import plotly.graph_objects as go

    figure = go.Figure()
    logarithmic = any(one.trends > _LARGEST for one in data.counts)
    for number, (name, counts) in enumerate(_by_group(data)):
        figure.add_bar(
            x=[one.window[0] for one in counts],
            y=[math.log2(one.trends) if logarithmic else one.trends for one in counts],
            width=data.slide * (1 if _is_ticks(data) else 1000),
            offset=0,
            marker={"color": COLOURS[number], "line": {"width": 0}},
            hovertext=[_hover(name, one) for one in counts],
            hoverinfo="text",
            name=name,
            showlegend=bool(data.keys),
        )
    figure.update_layout(
        barmode="group" if logarithmic else "stack",
        modebar={"remove": list(SENDS)},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"},
        margin={"l": 20, "r": 20, "t": 60, "b": 50},
    )
    zone = "" if data.zone is None else f" ({data.zone})"
    kind = "linear" if _is_ticks(data) else "date"
    figure.update_xaxes(title_text=as_html(f"start of the window, {data.time}{zone}"), type=kind, automargin=True)
    title = "log2 of the number of trends" if logarithmic else "trends"
    figure.update_yaxes(title_text=title, type="linear", rangemode="tozero", automargin=True)
    if not data.counts:
        say_empty(figure)
    return figure


def _is_ticks(data: WindowCounts) -> bool:
    return not data.counts or isinstance(data.counts[0].window[0], int)


def _by_group(data: WindowCounts) -> list[tuple[str, list[WindowCount]]]:
    """The groups with the most trends, and all others together, each with its name."""
    groups: dict[tuple[str | None, ...], list[WindowCount]] = {}
    for one in data.counts:
        groups.setdefault(one.keys, []).append(one)
    ordered = sorted(groups.items(), key=lambda group: -sum(one.trends for one in group[1]))
    if len(ordered) <= len(COLOURS):
        return [(pairs_html(data.keys, keys), counts) for keys, counts in ordered]
    named = [(pairs_html(data.keys, keys), counts) for keys, counts in ordered[:_COLOURED]]
    rest = _together([one for _, counts in ordered[_COLOURED:] for one in counts])
    return [*named, (f"{len(ordered) - _COLOURED} other groups", rest)]


def _together(counts: Sequence[WindowCount]) -> list[WindowCount]:
    """The numbers of several groups, added up by window."""
    totals: dict[tuple[Time, Time], int] = {}
    for one in counts:
        totals[one.window] = totals.get(one.window, 0) + one.trends
    return [WindowCount((), window, trends) for window, trends in sorted(totals.items())]


def _hover(name: str, one: WindowCount) -> str:
    count = counted(one.trends, "trend") if one.trends < 10**_DIGITS else f"about {_rounded(one.trends)} trends"
    lines = [f"<b>{count}</b>", name]
    return "<br>".join([*filter(None, lines), f"window from {one.window[0]} to {one.window[1]}"])


def _rounded(number: int) -> str:
    """A large number in four digits and an exponent."""
    return f"{Decimal(number):.3e}".replace("+", "")
