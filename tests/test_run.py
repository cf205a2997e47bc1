"""The script behind the two commands of the README."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with a project of its own."""
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text("[project]")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_the_readme_shows_the_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^python3 run\.py (\w+)$", readme, re.MULTILINE) == ["demo", "test"]
    assert "python3 run.py test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("task", ["demo", "test"])
def test_without_java_there_is_one_message(task: str, tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": "", "PATH": "/nowhere", "CETDSL_VENV": str(tmp_path / "venv")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), task], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: Java was not found")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "venv").exists(), "nothing is installed before Java is there"


def test_installs_once_and_again_when_the_project_changes(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(run.subprocess, "call", lambda command, **_: calls.append(command) or 0)
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    run.install(python, "dev,demo")
    run.install(python, "dev,demo")
    assert [command[-1] for command in calls] == [".[dev,demo]"]
    run.install(python, "demo")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'")
    run.install(python, "dev,demo")
    assert [command[-1] for command in calls] == [".[dev,demo]", ".[demo]", ".[dev,demo]"]


def test_a_failed_installation_is_tried_again(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run.subprocess, "call", lambda command, **_: 1)
    with pytest.raises(SystemExit, match="2"):
        run.install(tmp_path / "bin" / "python", "dev")
    assert "the installation failed" in capsys.readouterr().err
    assert list(tmp_path.glob("*.stamp")) == []


def test_a_python_without_ensurepip_is_one_message(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "works", lambda python, statement: False)
    with pytest.raises(SystemExit, match="2"):
        run.environment(tmp_path / "venv")
    assert "apt-get install python3" in capsys.readouterr().err


def test_each_mode_is_run_and_the_whole_suite_last(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CETDSL_TEST_MODE", raising=False)
    modes = [added["CETDSL_TEST_MODE"] for _, added in run.test([])]
    assert modes == ["cluster", "connect", "classic"]
    assert [("cetdsl" in words) for words, _ in run.test([])] == [False, False, True], "doctests run once"
    assert all("cetdsl" not in words for words, _ in run.test(["-k", "one"]))
    monkeypatch.setenv("CETDSL_TEST_MODE", "connect")
    assert [added["CETDSL_TEST_MODE"] for _, added in run.test([])] == ["connect"]
