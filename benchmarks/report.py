"""results.json as a table and as a picture; every figure comes from the file."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from races import MEMORY_LIMIT

BEGIN, END = "<!-- begin: python benchmarks/run.py --report -->", "<!-- end -->"


def write(results: dict[str, Any], folder: Path) -> None:
    """Writes the picture, and the table into the README.md of the folder if there is one."""
    (folder / "results.svg").write_text(picture(results), encoding="utf-8")
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
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB; "
        + ", ".join(f"{name} {version}" for name, version in results["versions"].items())
        + f"; {results['runs']} runs each.",
    ]
    if results["scale"] != 1:
        lines.append(f"**Sizes are {results['scale']} of what the table says.**")
    for name, race in results["races"].items():
        lines += ["", f"**{name}**: {race['about']} ({race['measured_on']})", ""]
        lines += ["| | seconds | against | ratio | from, to | processor | limit | | worker MB | all workers MB |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|---|--:|--:|"]
        lines += [_row(line) for line in race["verdicts"]]
        if "growth_without_fixed_cost" in race:
            lines += ["", f"Growth with the time of 100 events taken off: {race['growth_without_fixed_cost']}."]
        if "events_per_task" in race:
            lines += ["", f"Events in each task: {', '.join(f'{size:,}' for size in race['events_per_task'])}."]
    lines += [
        "",
        f"Largest Python worker in all of these: {_megabytes(_largest(results))} MB (limit {MEMORY_LIMIT}).",
        "",
    ]
    return "\n".join(lines)


def _row(line: dict[str, Any]) -> str:
    is_ratio = line["unit"] == "x"
    limit = "" if line["limit"] is None else f"{line['limit']:g}{'' if is_ratio else ' s'}"
    verdict = {True: "met", False: "**missed**", None: ""}[met(line)]
    cells = [
        line["what"],
        f"{line['seconds']:.2f}",
        f"{line['against_seconds']:.2f}" if is_ratio else "",
        f"{line['figure']:.2f}" if is_ratio else "",
        f"{line['from']:.2f}, {line['to']:.2f}" if is_ratio else "",
        f"{line['processor']:.2f}" if is_ratio else "",
        limit,
        verdict,
        _megabytes(line["largest_worker_mb"]),
        str(line["all_workers_mb"] or "–"),
    ]
    return f"| {' | '.join(cells)} |"


def _megabytes(size: int) -> str:
    return "–" if not size else f"{size}" if size <= MEMORY_LIMIT else f"**{size}**"


def met(line: dict[str, Any]) -> bool | None:
    """Whether a line keeps its limit; None where it has none."""
    return None if line["limit"] is None else line["figure"] <= line["limit"]


def _largest(results: dict[str, Any]) -> int:
    return max(line["largest_worker_mb"] for race in results["races"].values() for line in race["verdicts"])


# ----------------------------------------------------------------------------------------------------- picture

_LEFT, _WIDTH, _ROW, _TOP = 470, 420, 26, 46
_MET, _MISSED = "#2a78b5", "#c44e3b"


def picture(results: dict[str, Any]) -> str:
    """Each judged figure as a part of its limit, as SVG: bars that end left of the line keep theirs."""
    lines = [line for race in results["races"].values() for line in race["verdicts"] if line["limit"] is not None]
    memory = _largest(results)
    bars = [(line["what"], line["figure"], line["limit"], line["unit"], met(line)) for line in lines]
    bars.append(("largest Python worker", memory, MEMORY_LIMIT, " MB", memory <= MEMORY_LIMIT))
    widest = max(1.0, *(figure / limit for _, figure, limit, _, _ in bars))
    unit = _WIDTH / min(widest, 3.0)
    height = _TOP + _ROW * len(bars) + 14
    total = _LEFT + _WIDTH + 170
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{total}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="15">Measured as a part of the limit, scale {results["scale"]:g}</text>',
    ]
    for number, (what, figure, limit, sign, kept) in enumerate(bars):
        y = _TOP + number * _ROW
        length = min(figure / limit * unit, _WIDTH)
        text = f"{figure:g}{sign} of {limit:g}{sign}"
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(what)}</text>',
            f'<rect x="{_LEFT}" y="{y + 3}" width="{length:.1f}" height="{_ROW - 8}" '
            f'fill="{_MET if kept else _MISSED}"/>',
            f'<text x="{_LEFT + max(length, unit) + 8:.1f}" y="{y + 15}" fill="#444">{text}</text>',
        ]
    x = _LEFT + unit
    parts.append(f'<line x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{height - 8}" stroke="black"/>')
    parts.append(f'<text x="{x:.1f}" y="{_TOP - 14}" text-anchor="middle" font-size="11">limit</text></svg>')
    return "\n".join(parts) + "\n"
