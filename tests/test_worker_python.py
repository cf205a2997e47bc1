"""Whether Spark's workers are a Python that can run kernels is asked before any job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from cetdsl.errors import MissingDependency
from cetdsl.execution import python
from cetdsl.execution.python import require_worker_python

KERNEL = "PATTERN B+ WHERE B.t < NEXT(B).t"


def session(command: str, master: str = "local[2]") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=command, environment={}))


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Makes a program of the lines of a shell."""

    def make(lines: str) -> str:
        path = tmp_path / "bin" / "python3"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    return make


#: Programs, and what is said of them.
OTHERS = {
    "another version": ("echo '[[2, 7], []]'", r"python3 is Python 2\.7"),
    # A Python of this version, without what is installed for this one.
    "no packages": (f'exec "{sys.executable}" -I -S "$@"', "python3 has no cetdsl and no pyarrow and no numba"),
    "a failing program": ("exit 1", "python3 is no Python that runs"),
    "another program": ("echo hello", "python3 is no Python that runs"),
}


@pytest.mark.skipif(os.name == "nt", reason="the programs are scripts of a shell")
@pytest.mark.parametrize("what", OTHERS)
def test_a_python_that_cannot_run_kernels_is_refused(program: Callable[[str], str], what: str) -> None:
    lines, said = OTHERS[what]
    command = program(lines)
    with pytest.raises(MissingDependency, match=said) as failure:
        require_worker_python(session(command))
    assert repr(command) in failure.value.message
    assert sys.executable in failure.value.message
    assert "os.environ['PYSPARK_PYTHON'] = sys.executable" in str(failure.value.hint)
    # Nobody can tell from here what a cluster has.
    require_worker_python(session(command, "spark://host:7077"))


def test_a_program_that_does_not_exist_is_refused() -> None:
    with pytest.raises(MissingDependency, match=r"'no-such-python', and there is no such program"):
        require_worker_python(session("no-such-python"))


def test_this_python_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python.subprocess, "run", None)
    require_worker_python(session(sys.executable))
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    require_worker_python(session(os.path.basename(sys.executable)))


@pytest.mark.skipif(os.name == "nt", reason="the programs are scripts of a shell")
def test_another_python_that_can_is_asked_once(program: Callable[[str], str], tmp_path: Path) -> None:
    command = program(f"echo asked >> {tmp_path / 'log'}\nexec '{sys.executable}' \"$@\"")
    for _ in range(3):
        require_worker_python(session(command))
    assert (tmp_path / "log").read_text() == "asked\n"


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_link_to_the_same_file_is_another_environment(tmp_path: Path) -> None:
    """As the Python that a virtual environment was made from."""
    (tmp_path / "python3").symlink_to(os.path.realpath(sys.executable))
    assert not python._same(str(tmp_path / "python3"), sys.executable)
    (tmp_path / "python").symlink_to("python3")
    assert python._same(str(tmp_path / "python"), str(tmp_path / "python3"))


def test_binding_a_query_says_so_before_any_job(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    df = spark.createDataFrame([(1, "B")], "t int, type string")
    try:
        context = spark.sparkContext
    except PySparkException:
        assert df.pattern(KERNEL, time="t").count_trends().count() == 1  # Connect cannot tell
        return
    monkeypatch.setattr(context, "pythonExec", "no-such-python")
    for bind in (
        lambda: df.pattern(KERNEL, time="t"),
        lambda: df.patterns({"q": f"RETURN COUNT(*) {KERNEL}"}, time="t"),
    ):
        with pytest.raises(MissingDependency, match="there is no such program"):
            bind()
