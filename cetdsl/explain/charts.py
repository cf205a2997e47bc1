"""Draws charts of lines over time as SVG, with marks at some times, in the style of the other pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cetdsl.explain.svg import Canvas

#: Width and height of the plot, and colours of lines that can be told apart on a light and on a dark page.
_WIDTH, _HEIGHT = 640.0, 260.0
COLOURS = ("#0b69a3", "#c44e3b", "#3f8f4f", "#8a5fb0", "#b07d10", "#4f6d7a")
_GREY = "#cbd2d9"

Points = Sequence[tuple[float, float]]


def chart_svg(
    title: str,
    lines: Mapping[str, Points],
    marks: Sequence[tuple[float, str]],
    ticks: Sequence[tuple[float, str]],
    unit: str,
) -> str:
    """Returns a chart of lines over time whose values are 0 or more, with numbered marks at some times.

    Parameters
    ----------
    title : str
    lines : mapping of str to sequence of (float, float)
        Times and values of each line.
    marks : sequence of (float, str)
        Times of marks, and what each number stands for.
    ticks : sequence of (float, str)
        Times to write below the lines, and their labels.
    unit : str
        The unit of the values.

    Returns
    -------
    str

    Examples
    --------
    >>> svg = chart_svg("rates", {"a": [(0, 1), (1, 3)]}, [(0.5, "a, b")], [(0, "noon")], "an hour")
    >>> [svg.count(text) for text in (">1: a, b<", ">noon<", ">an hour<", "</svg>")]
    [1, 1, 1, 1]
    """
    canvas = Canvas()
    times = [time for points in lines.values() for time, _ in points] + [time for time, _ in ticks]
    first, last = min(times), max(times)
    top = max((value for points in lines.values() for _, value in points), default=0.0) or 1.0
    step = _round_step(top / 4)

    def x(time: float) -> float:
        return _WIDTH * (time - first) / ((last - first) or 1.0)

    def y(value: float) -> float:
        return _HEIGHT * (1 - value / top)

    for number in range(int(top / step) + 1):
        canvas.line([(0, y(number * step)), (_WIDTH, y(number * step))], _GREY)
        canvas.text(-8, y(number * step), f"{number * step:g}", anchor="end")
    canvas.text(0, -38, unit, anchor="start")
    for time, label in ticks:
        canvas.text(x(time), _HEIGHT + 14, label)
    for number, (time, label) in enumerate(marks):
        canvas.line([(x(time), -8), (x(time), _HEIGHT)], _GREY, dashed=True)
        canvas.text(x(time), -16, f"{number + 1}", bold=True)
        canvas.text(_WIDTH + 20, number * 18, f"{number + 1}: {label}", anchor="start")
    for number, (name, points) in enumerate(lines.items()):
        colour, left, low = COLOURS[number % len(COLOURS)], 120 * number, _HEIGHT + 38
        canvas.line([(x(time), y(value)) for time, value in points], colour, width=2.0)
        canvas.line([(left, low), (left + 22, low)], colour, width=2.0)
        canvas.text(left + 28, low, name, anchor="start")
    return canvas.svg(title)


def _round_step(least: float) -> float:
    """Returns the smallest of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ... that is at least ``least``."""
    power = 1.0
    while power > least:
        power /= 10
    while power * 10 < least:
        power *= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
