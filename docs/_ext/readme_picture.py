"""The picture of the README: ``python docs/_ext/readme_picture.py`` writes it anew; a test says when it is old."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from cetdsl.explain.svg import Canvas

PATH = Path(__file__).parents[1] / "_static" / "rising_prices.svg"
PRICES = (10, 12, 11, 13)
_RIGHT, _UP, _SIZE = 150.0, 52.0, (58.0, 34.0)
_ACCENT, _SOFT = "#0b69a3", "#52606d"


def rising_prices() -> str:
    """Prices over time, an arrow to each later one that is higher, and how many trends these are."""
    canvas = Canvas()
    places = [(_RIGHT * minute, -_UP * (price - PRICES[0])) for minute, price in enumerate(PRICES)]
    for (one, (x1, y1)), (other, (x2, y2)) in combinations(zip(PRICES, places, strict=True), 2):
        if one < other:
            start, end = (x1 + _SIZE[0] / 2, y1), (x2 - _SIZE[0] / 2 - 1, y2)
            canvas.arrow(f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}", start, end)
    for minute, ((x, y), price) in enumerate(zip(places, PRICES, strict=True), 1):
        canvas.box(x, y, *_SIZE, 8)
        canvas.text(x, y, f"{price}.0", bold=True)
        canvas.text(x, 58, f"minute {minute}", colour=_SOFT)
    of_length = [0] * len(PRICES)
    for count in range(1, len(PRICES) + 1):
        of_length[count - 1] = sum(list(run) == sorted(set(run)) for run in combinations(PRICES, count))
    middle = _RIGHT * (len(PRICES) - 1) / 2
    canvas.text(middle, 92, "PATTERN Stock+ s[] WHERE s.price < NEXT(s).price", bold=True)
    parts = f"{of_length[0]} of one price, {of_length[1]} of two, {of_length[2]} of three"
    canvas.text(middle, 114, f"{sum(of_length)} trends: {parts}", colour=_ACCENT)
    canvas.text(middle, 134, "counted in one pass over the events, however many they are", colour=_SOFT)
    return canvas.svg("Prices over time; each path along the arrows is a trend") + "\n"


if __name__ == "__main__":
    PATH.write_text(rising_prices(), encoding="utf-8")
