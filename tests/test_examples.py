"""The examples run as they are, each as a process of its own, and the README tells the truth."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
#: What examples write to the folder that they are told; the others are told one too, and leave it empty.
WRITTEN = {"kiting_rings": {"chains", "ring.html"}}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert len(path.read_text().splitlines()) < 60
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell",
    }
    folder = tmp_path_factory.mktemp("written")
    done = subprocess.run(
        [sys.executable, str(path), str(folder)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    # Every table that is shown has rows: no border follows another.
    assert "|\n+" in done.stdout
    assert "+\n+" not in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert {each.name for each in folder.iterdir()} == WRITTEN.get(path.stem, set())


def test_the_readme_shows_what_it_prints(spark, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    names = {"spark": spark}
    for code, output in re.findall(r"```python\n(.*?)```.*?```\n(.*?)```", readme, re.DOTALL):
        exec(code.replace("spark = SparkSession.builder.getOrCreate()", ""), names)
        # Rows come in any order.
        assert sorted(capsys.readouterr().out.split("\n")) == sorted(["", *output.split("\n")])
    assert "bound" in names
