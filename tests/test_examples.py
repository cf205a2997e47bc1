"""The examples run as they are, and the README tells the truth."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from modes import OWN_FILES, QUICK_JAVA, settings

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
#: What examples write to the folder that they are told; the others are told one too, and leave it empty.
WRITTEN = {"kiting_rings": {"chains", "ring.html"}, "streaming_flights": {"flights", "answers", "checkpoint"}}


@pytest.mark.classic
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(
    spark,
    path: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the session of the tests, which stands in for the one that the example would start."""
    assert len(path.read_text().splitlines()) < 60
    folder = tmp_path_factory.mktemp("written")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), str(folder)])
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    with settings(spark, OWN_FILES):
        example = runpy.run_path(str(path), run_name="__main__")
        judge_output(path, capsys.readouterr().out, tmp_path, folder)
        if path.stem == "streaming_flights":
            runpy.run_path(str(path), run_name="__main__")
            judge_second_run(spark, capsys.readouterr().out, folder, example)


def judge_second_run(spark, printed: str, folder: Path, example: dict[str, Any]) -> None:
    """It goes on where the first one was stopped: the answers of both are those of a batch over the days that ended."""
    first, *_ = re.findall(r"^ +(\d+) +\d+ +0 ", printed, re.MULTILINE)
    assert int(first) > example["DAYS"]
    stored = spark.read.schema(example["FLIGHTS"]).parquet(str(folder / "flights"))
    whole = stored.pattern(example["QUERY"], time="scheduled", type=None).aggregate().collect()
    ended = sorted({row.window.start for row in whole})[:-1]
    assert len(ended) == 2 * example["DAYS"] - 1
    answers = spark.read.parquet(str(folder / "answers")).select("origin", "window", "rises", "minutes").collect()
    assert sorted(map(str, answers)) == sorted(str(row) for row in whole if row.window.start in ended)


def test_an_example_as_a_process(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path, folder = EXAMPLES[0], tmp_path_factory.mktemp("written")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": QUICK_JAVA,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell",
    }
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
    judge_output(path, done.stdout, tmp_path, folder)


def judge_output(path: Path, printed: str, here: Path, folder: Path) -> None:
    # Every table that is shown has rows: no border follows another.
    assert "|\n+" in printed
    assert "+\n+" not in printed
    assert list(here.iterdir()) == []
    assert {each.name for each in folder.iterdir()} == WRITTEN.get(path.stem, set())


def test_the_readme_shows_what_it_prints(spark, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    names = {"spark": spark}
    for code, output in re.findall(r"```python\n(.*?)```.*?```\n(.*?)```", readme, re.DOTALL):
        exec(code.replace("spark = SparkSession.builder.getOrCreate()", ""), names)
        # Rows come in any order.
        assert sorted(capsys.readouterr().out.split("\n")) == sorted(["", *output.split("\n")])
    assert "bound" in names
