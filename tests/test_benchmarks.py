"""The benchmarks still run; nothing is asserted of their times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from modes import QUICK_JAVA

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "run.py"


def run(folder: Path, races: list[str], *words: str) -> dict[str, dict[str, Any]]:
    """The results of some races, of which each contestant runs twice."""
    only = [word for race in races for word in ("--only", race)]
    command = [*only, "--runs", "1", "--cores", "2", "--output", str(folder), *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    environment["JDK_JAVA_OPTIONS"] = QUICK_JAVA
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *command],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results: dict[str, dict[str, Any]] = json.loads((folder / "results.json").read_text())["races"]
    return results


def test_races_and_their_report(tmp_path: Path) -> None:
    """One race on Spark, and those of plans, whose script stops where contestants find different numbers of trends."""
    (tmp_path / "README.md").write_text(
        "before\n<!-- begin: python benchmarks/run.py --report -->\n<!-- end -->\nafter\n"
    )
    prices = "".join(f"{'ABCDE'[n % 5]},2008020109{n // 5:02},{(n * n * 7) % 13 + n % 7}.5\n" for n in range(100))
    bars = tmp_path / "bars.csv"
    bars.write_text("ticker,minute,open\n" + prices)
    of_plans = ["traffic", "bars", "keys", "orders", "anchors", "unlisted"]
    races = run(tmp_path, ["shapes", *of_plans], "--scale", "0.01", "--bars", str(bars))

    assert [line["limit"] for line in races["shapes"]["verdicts"]] == [0.8, 1.1]
    assert races["shapes"]["rows"] == 100
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("before")
    assert readme.endswith("after\n")
    assert "SEQ(A, B+), 1,000 keys" in readme
    assert "<svg" in (tmp_path / "results.svg").read_text()

    assert all(any(row["trends"] for row in races[name]["cells"]) for name in ("traffic", "bars"))
    assert {row["method"] for row in races["traffic"]["cells"]} == set(races["traffic"]["speeds"])
    assert "bars.csv" not in (tmp_path / "results.json").read_text()
    assert (tmp_path / "traffic-methods.svg").read_text().count("changes of plan") == 1
