"""The benchmarks still run; nothing is asserted of their times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from modes import QUICK_JAVA

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "run.py"


def test_one_race_and_its_report(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "before\n<!-- begin: python benchmarks/run.py --report -->\n<!-- end -->\nafter\n"
    )
    words = ["--only", "sequence", "--scale", "0.001", "--runs", "1", "--cores", "2", "--output", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    environment["JDK_JAVA_OPTIONS"] = QUICK_JAVA
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads((tmp_path / "results.json").read_text())
    assert [line["limit"] for line in results["races"]["sequence"]["verdicts"]] == [1.5, 1.5]
    assert results["races"]["sequence"]["rows"] == 10
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("before")
    assert readme.endswith("after\n")
    assert "SEQ(A, B+), kernel" in readme
    assert "<svg" in (tmp_path / "results.svg").read_text()
