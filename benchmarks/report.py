"""Writes results.json as tables and pictures; every figure comes from the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from races import MEMORY_LIMIT

BEGIN, END = "<!-- begin: python benchmarks/run.py --report -->", "<!-- end -->"


def write(results: dict[str, Any], folder: Path) -> None:
    """Writes the pictures, and the tables into the README.md of the folder if there is one."""
    save(picture(results), folder / "results.svg")
    for race in results["races"].values():
        for name, chart in race.get("charts", {}).items():
            save(draw(chart), folder / f"{name}.svg")
    readme = folder / "README.md"
    if readme.exists():
        before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        chart = "![Each figure as a part of its limit](results.svg)"
        readme.write_text(f"{before}{BEGIN}\n\n{chart}\n\n{table(results)}\n{END}{after}", encoding="utf-8")


def table(results: dict[str, Any]) -> str:
    """The report in Markdown."""
    machine = results["machine"]
    lines = [
        f"{_machine(machine)}; "
        + ", ".join(f"{name} {version}" for name, version in results["versions"].items())
        + f"; {results['runs']} runs each.",
    ]
    if results["scale"] != 1:
        lines.append(f"**Sizes are {results['scale']} of what the table says.**")
    for name, race in results["races"].items():
        elsewhere = f"; {_machine(race['machine'])}" if race.get("machine", machine) != machine else ""
        times = f"; {race['runs']} runs" if race.get("runs", results["runs"]) != results["runs"] else ""
        # A contestant and its floor keep two cores busy by themselves.
        is_busy = race.get("load_average", 0) > 2 * race.get("machine", machine)["cores"]
        busy = f"; beside other work, load average {race['load_average']}" if is_busy else ""
        lines += ["", f"**{name}**: {race['about']} ({race['measured_on']}{elsewhere}{times}{busy})", ""]
        lines += ["| | seconds | against | ratio | from, to | processor | limit | | worker MB | all workers MB |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|---|--:|--:|"]
        lines += [_row(line) for line in race["verdicts"]]
        if "growth_without_fixed_cost" in race:
            lines += ["", f"Growth with the time of 100 events taken off: {race['growth_without_fixed_cost']}."]
        if "events_per_task" in race:
            lines += ["", f"Events in each task: {', '.join(f'{size:,}' for size in race['events_per_task'])}."]
        lines += ["", *(f"- {note}" for note in race.get("notes", ()))]
        if "claims" in race:
            lines += [
                "",
                "| published | here |",
                "|---|---|",
                *(f"| {' | '.join(claim)} |" for claim in race["claims"]),
            ]
        for chart_name, chart in race.get("charts", {}).items():
            lines += ["", f"![{chart['title']}]({chart_name}.svg)", "", chart["about"]]
    lines += [
        "",
        f"Largest Python worker in all of these: {_megabytes(_largest(results))} MB (limit {MEMORY_LIMIT}).",
        "",
    ]
    return "\n".join(lines)


def _machine(machine: dict[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB"


def _row(line: dict[str, Any]) -> str:
    is_ratio = line["unit"] == "x"
    limit = "" if line["limit"] is None else f"{_number(line['limit'])}{'' if is_ratio else ' s'}"
    verdict = {True: "met", False: "**missed**", None: ""}[met(line)]
    cells = [
        line["what"],
        _number(line["seconds"]),
        _number(line["against_seconds"]) if is_ratio else "",
        _number(line["figure"]) if is_ratio else "",
        f"{_number(line['from'])}, {_number(line['to'])}" if is_ratio else "",
        f"{line['processor']:.2f}" if is_ratio else "",
        limit,
        verdict,
        _megabytes(line["largest_worker_mb"]),
        str(line["all_workers_mb"] or "–"),
    ]
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    """Two digits after the point; three significant ones if the number is below 1."""
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:.3g}"


def _megabytes(size: int) -> str:
    return "–" if not size else f"{size}" if size <= MEMORY_LIMIT else f"**{size}**"


def met(line: dict[str, Any]) -> bool | None:
    """Whether a line keeps its limit; None where it has none."""
    return None if line["limit"] is None else line["figure"] <= line["limit"]


def _largest(results: dict[str, Any]) -> int:
    """The peak of the largest worker of any contestant, floors included."""
    contestants = (one for race in results["races"].values() for one in race["measured"].values())
    return max(one.get("largest_worker_mb", 0) for one in contestants)


# ---------------------------------------------------------------------------------------------------- pictures

_MET, _MISSED = "#2a78b5", "#c44e3b"
#: Bars longer than so many times the limit are cut off.
_WIDEST = 3.0
#: An axis whose end is less than so many times its beginning has numbers at 1, 2 and 5 of each power of ten.
_FEW_DECADES = 2_000.0


def picture(results: dict[str, Any]) -> Figure:
    """Each figure that has a limit, as a part of it: where a bar ends left of the line, the limit is met."""
    lines = [line for race in results["races"].values() for line in race["verdicts"] if line["limit"] is not None]
    bars = [(line["what"], line["figure"], line["limit"], line["unit"]) for line in lines]
    bars.append(("largest Python worker", _largest(results), MEMORY_LIMIT, " MB"))
    figure = Figure(figsize=(14, 1.5 + 0.3 * len(bars)), layout="constrained")
    axes = figure.add_subplot(
        title=f"What was measured as a part of its limit, scale {results['scale']:g}",
        xlabel=f"measured / limit; bars beyond {_WIDEST:g} are cut off, and say so",
    )
    parts = [value / limit for _, value, limit, _ in bars]
    # Bars have numbers for places, as lines of several races may have the same text.
    drawn = axes.barh(
        range(len(bars)),
        [min(part, _WIDEST) for part in parts],
        color=[_MET if part <= 1 else _MISSED for part in parts],
    )
    said = [
        f"{value:g}{unit} of {limit:.3g}{unit}" + (f", {part:.1f} times the limit" if part > _WIDEST else "")
        for (_, value, limit, unit), part in zip(bars, parts, strict=True)
    ]
    axes.bar_label(drawn, said, padding=4)
    axes.set_yticks(range(len(bars)), [what for what, *_ in bars], fontsize="small")
    axes.axvline(1, color="lightgray", zorder=0)
    axes.set_xlim(0, max(1.4, min(max(parts), _WIDEST) * 1.75))
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.legend(handles=[Patch(color=_MET, label="limit met"), Patch(color=_MISSED, label="limit missed")])
    return figure


def draw(chart: dict[str, Any]) -> Figure:
    """A chart of a race, or its panels: three in a row where that fills all rows, else two."""
    if "panels" not in chart:
        figure = Figure(figsize=(8, 5.5), layout="constrained")
        _draw_in(figure.add_subplot(), chart)
        figure.legend(loc="outside lower center", ncols=2)
        return figure
    count = len(chart["panels"])
    columns = 3 if count % 3 == 0 else min(count, 2)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(5 * columns, 8), max(4 * rows, 5.5)), layout="constrained")
    figure.suptitle(chart["title"])
    for number, panel in enumerate(chart["panels"]):
        _draw_in(figure.add_subplot(rows, columns, number + 1), panel)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if all(axes.get_legend_handles_labels()[1] == labels for axes in figure.axes):
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    else:
        # Panels show different things, so each has a legend of its own.
        for axes in figure.axes:
            axes.legend(fontsize="small")
    return figure


def _draw_in(axes: Axes, chart: dict[str, Any]) -> None:
    """Draws lines over a number, or groups of bars."""
    axes.set(title=chart.get("title", ""), xlabel=chart.get("x", ""), ylabel=chart.get("y", ""))
    lines = chart.get("lines", {})
    most = max(map(len, lines.values()), default=0)
    for name, points in lines.items():
        # A line of fewer points than others is dotted, as it is not known between them.
        axes.plot(*zip(*points), "-" if len(points) == most else ":", label=name, marker="o", markersize=4)
    if lines and not chart.get("log_x") and all(float(x).is_integer() for points in lines.values() for x, _ in points):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for name, points in chart.get("points", {}).items():
        axes.scatter(*zip(*points), label=name, s=14)
    for name, parts in chart.get("stacked", {}).items():
        begins = [sum(other[bar] for other in _before(chart["stacked"], name)) for bar in parts]
        drawn = axes.barh(list(parts), list(parts.values()), left=begins, height=0.5, label=name)
        # A number that is wider than its part would be white on white.
        wide = max(map(sum, zip(*(other.values() for other in chart["stacked"].values()))))
        said = [f"{value:.2f}" if value > wide / 20 else "" for value in parts.values()]
        axes.bar_label(drawn, said, label_type="center", color="white")
    groups = chart.get("bars", {})
    for number, (name, bars) in enumerate(groups.items()):
        places = [place + number / (len(groups) + 1) for place in range(len(bars))]
        drawn = axes.barh(places, list(bars.values()), height=1 / (len(groups) + 1), label=name)
        axes.bar_label(
            drawn, [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in bars.values()], padding=4
        )
        axes.set_yticks(range(len(bars)), list(bars))
    if groups:
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.margins(x=0.15)
    if chart.get("log_x"):
        axes.set_xscale("log")
        _number_decades(axes.xaxis, *axes.get_xlim())
    if chart.get("log_y"):
        axes.set_yscale("log")
        _number_decades(axes.yaxis, *axes.get_ylim())
    if chart.get("from_zero"):
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(_in_full)


def _number_decades(axis: Axis, low: float, high: float) -> None:
    """Puts numbers at 1, 2 and 5 of each power of ten on an axis that spans few of them.

    With numbers at the powers alone there would be next to none; by default they would lie over one another.
    """
    if high < _FEW_DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(_in_full)
        axis.set_minor_locator(NullLocator())


def _before(parts: dict[str, Any], name: str) -> list[Any]:
    """The parts of stacked bars that stand before one."""
    return list(parts.values())[: list(parts).index(name)]


def _in_full(value: float, _: int) -> str:
    return f"{value:,.10g}"


def save(figure: Figure, path: Path) -> None:
    # Without the date and with fixed names of clips, the same results make the same file.
    with matplotlib.rc_context({"svg.hashsalt": "cetdsl", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
