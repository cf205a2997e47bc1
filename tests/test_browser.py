"""Pictures and pages in a real browser: nothing is cut off, and all of it can be read; skipped where there is none."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cetdsl as cet
from cetdsl.explain import draw_automaton

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine"),
    pytest.mark.classic,
]
#: Pages on a light ground, on a dark one, and on a phone: width, and the colours that the page has.
LOOKS = {
    "light": (1200, "#ffffff", "#111111"),
    "dark": (1200, "#111111", "#eeeeee"),
    "phone": (400, "#ffffff", "#111111"),
}
#: The least contrast of text and ground that WCAG 2 asks for (level AA, large text and graphics).
CONTRAST = 3.0
#: Says of a page how much wider it is than the window, which texts of pictures reach out of them, and which texts have
#: less contrast.
MEASURE = """
const rgb = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const clear = colour => colour.length > 3 && colour[3] === 0;
const light = colour => {
  const part = colour.slice(0, 3).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
};
const ground = node => {
  for (let at = node; at; at = at.parentElement) {
    const whole = at.tagName === "svg" && at.querySelector("rect");
    if (whole) return rgb(getComputedStyle(whole).fill);
    const colour = rgb(getComputedStyle(at).backgroundColor);
    if (!clear(colour)) return colour;
  }
  return [255, 255, 255];
};
const pale = [], outside = [];
for (const node of document.querySelectorAll("body *")) {
  const text = [...node.childNodes].filter(c => c.nodeType === 3).map(c => c.nodeValue.trim()).join("");
  const box = node.getBoundingClientRect(), style = getComputedStyle(node);
  if (!text || !box.width || /^(script|style|title)$/i.test(node.tagName)) continue;
  const picture = node.closest("svg");
  const a = light(rgb(picture ? style.fill : style.color)), b = light(ground(node));
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < LEAST) pale.push([text.slice(0, 40), Number(contrast.toFixed(2))]);
  if (picture) {
    const frame = picture.getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
        || box.bottom > frame.bottom + 1) outside.push(text.slice(0, 40));
  }
}
const wider = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const told = document.createElement("pre");
told.id = "told";
told.textContent = JSON.stringify({pale, outside, wider});
document.body.appendChild(told);
"""


def looked_at(folder: Path, fragment: str, look: str) -> dict[str, Any]:
    """What the browser measures of a fragment on a page."""
    width, ground, ink = LOOKS[look]
    script = MEASURE.replace("LEAST", str(CONTRAST))
    page = folder / "page.html"
    page.write_text(
        '<!DOCTYPE html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>'
        f'<body style="background: {ground}; color: {ink}">{fragment}<script>{script}</script></body></html>',
        encoding="utf-8",
    )
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}",
    ]
    command += [f"--window-size={width},900", "--dump-dom", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    found = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-500:]
    measured: dict[str, Any] = json.loads(html.unescape(found[1]))
    return measured


def automaton() -> str:
    picture = draw_automaton(
        cet.parse("PATTERN SEQ(Check a, NOT Refund n, (Transfer b OR Withdrawal c)+, Alarm{2,3} d)").node.pattern
    )
    return f'<div style="overflow-x: auto">{picture}</div>'


def aggregation_plan() -> str:
    letters = "ABCDEFGH"
    queries = {f"query {one}{two}": f"PATTERN SEQ(A, B, {one}, {two})" for one in letters[2:] for two in letters[2:]}
    return (
        cet.aggregation_plan({name: text for name, text in queries.items() if name[-1] != name[-2]})
        .explain()
        ._repr_html_()
    )


SHOWN: dict[str, Callable[[], str]] = {"automaton": automaton, "aggregation plan": aggregation_plan}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", SHOWN)
def test_pictures_are_whole_and_can_be_read(tmp_path: Path, name: str, look: str) -> None:
    assert looked_at(tmp_path, SHOWN[name](), look) == {"pale": [], "outside": [], "wider": 0}


@pytest.mark.parametrize("look", LOOKS)
def test_explanations_and_diagnoses_are_whole_and_can_be_read(spark: Any, tmp_path: Path, look: str) -> None:
    rows = [(1, "view", "ann"), (20, "cart", "ann"), (45, "cart", "ann"), (50, "view", "bob"), (60, "cart", "cid")]
    df = spark.createDataFrame(rows, "t int, action string, user string")
    asked = df.pattern("PATTERN SEQ(view v, cart+ c) WHERE [user] AND v.t < c.t WITHIN 5", time="t", type="action")
    many = df.patterns({"views": "RETURN COUNT(*) PATTERN view+", "carts": asked.query}, time="t", type="action")
    shown = "".join(
        one._repr_html_() for one in (asked.explain(), asked.diagnose(), asked, many, cet.parse("PATTERN SEQ(A, B+)"))
    )
    assert looked_at(tmp_path, shown, look) == {"pale": [], "outside": [], "wider": 0}


def test_the_browser_sees_what_is_wrong(tmp_path: Path) -> None:
    wrong = (
        '<p style="color: #dddddd">faint</p><div style="width: 3000px">wide</div>'
        '<svg width="40" height="20"><text x="0" y="15" fill="#000000">reaches far out of its frame</text></svg>'
    )
    found = looked_at(tmp_path, wrong, "phone")
    assert [text for text, _ in found["pale"]] == ["faint"]
    assert found["outside"] == ["reaches far out of its frame"]
    assert found["wider"] > 2000
