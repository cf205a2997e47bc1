#!/usr/bin/env python3
"""Sets everything up and runs it: ``python3 run.py demo``, ``python3 run.py test``, ...

Needs a Python and a Java, nothing else. Makes a virtual environment (`.venv` beside this file, or wherever
CETDSL_VENV says), installs into it what the task needs, once, and again only when pyproject.toml has changed.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):
    # Before anything that an older Python cannot run.
    print(
        "cetdsl needs Python 3.10 or newer, and this is Python {}.{}: run it with a newer one, for example\n"
        "    python3.12 run.py {}".format(*sys.version_info[:2], " ".join(sys.argv[1:])),
        file=sys.stderr,
    )
    sys.exit(2)

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent

#: Two processes, each with one Spark session: while one plans a query, or judges an answer, the other one computes.
IN_PARALLEL = ["-n", "2", "--dist", "worksteal"]

#: The extras of every task but the demo: one set, so that a machine installs once for all of them. ``docs`` includes
#: ``connect``, ``demo`` and ``plot``.
DEVELOPMENT = "dev,docs"

#: One command: the words after ``python``, and what it adds to the environment.
Command = tuple[Sequence[str], dict[str, str]]


class Task(NamedTuple):
    """What a task is for, the extras of cetdsl that it needs, and what it runs."""

    about: str
    extras: str
    commands: Callable[[list[str]], Iterator[Command]]
    needs_java: bool = True
    folder: Path | None = ROOT


def demo(arguments: list[str]) -> Iterator[Command]:
    yield ["-m", "cetdsl", "demo", *arguments], {}


def test(arguments: list[str]) -> Iterator[Command]:
    # The whole suite comes last, so that its summary is the last line; conftest.py says what a mode leaves out.
    mode = os.environ.get("CETDSL_TEST_MODE")
    for each in [mode] if mode else ["cluster", "connect", "classic"]:
        # The examples in docstrings share the sessions of the tests.
        words = arguments or (["--doctest-modules", "tests", "cetdsl"] if each == "classic" else [])
        yield ["-m", "pytest", *(IN_PARALLEL if each != "cluster" else []), *words], {"CETDSL_TEST_MODE": each}


def doctests(arguments: list[str]) -> Iterator[Command]:
    yield ["-m", "pytest", *IN_PARALLEL, "--doctest-modules", "cetdsl", *arguments], {}


def fuzz(arguments: list[str]) -> Iterator[Command]:
    path = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
    yield ["-m", "fuzz", *arguments], {"PYTHONPATH": path}


def lint(arguments: list[str]) -> Iterator[Command]:
    yield ["-m", "ruff", "check", *arguments], {}
    yield ["-m", "ruff", "format", "--check", *arguments], {}


def types(arguments: list[str]) -> Iterator[Command]:
    yield ["-m", "mypy", "--strict", "cetdsl", *arguments], {}


def docs(arguments: list[str]) -> Iterator[Command]:
    yield ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html", *arguments], {}


TASKS = {
    "demo": Task("the demo, on a year of real flights", "demo", demo, folder=None),
    "test": Task("all tests: on a local cluster, on Spark Connect, on classic Spark", DEVELOPMENT, test),
    "doctests": Task("only the examples in the docstrings", DEVELOPMENT, doctests),
    "fuzz": Task("attacks that chance makes up; --minutes, --seed, --rounds, --only", DEVELOPMENT, fuzz),
    "lint": Task("ruff: rules and format", DEVELOPMENT, lint, needs_java=False),
    "types": Task("mypy --strict", DEVELOPMENT, types, needs_java=False),
    "docs": Task("the documentation, into docs/_build/html", DEVELOPMENT, docs),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Set everything up and run one task.",
        epilog="\n".join(f"  {name:<10} {task.about}" for name, task in TASKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", choices=TASKS, metavar="task")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to what the task runs")
    chosen = parser.parse_args()
    task = TASKS[chosen.task]
    if task.needs_java:
        check_java()
    python = environment(Path(os.environ.get("CETDSL_VENV") or ROOT / ".venv").absolute())
    install(python, task.extras)
    # Another Spark on this machine must not stand in for the one just installed.
    os.environ.pop("SPARK_HOME", None)
    for words, added in task.commands(chosen.arguments):
        print(f"== {' '.join(['python', *words])}", *(f"[{value}]" for value in added.values()), flush=True)
        status = subprocess.call([str(python), *words], cwd=task.folder, env={**os.environ, **added})
        # pytest exits with 5 if its arguments select no test; that is no failure where a mode has none of them.
        if status and not (status == 5 and added.get("CETDSL_TEST_MODE", "classic") != "classic"):
            return status
    return 0


def check_java() -> None:
    """End with one message when there is no Java that Spark could run on."""
    # Loaded by its path, because importing the package needs what is not installed yet.
    spec = importlib.util.spec_from_file_location("java", ROOT / "cetdsl" / "java.py")
    java = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(java)
    problem = java.java_problem()
    if problem:
        fail(*problem)


def environment(folder: Path) -> Path:
    """The Python of the virtual environment in ``folder``, which is made unless it works already."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if works(python, "import pip"):
        return python
    print(f"== making a virtual environment in {folder}", flush=True)
    if not (works(sys.executable, "import ensurepip, venv") or works(sys.executable, "import virtualenv")):
        version = "{}.{}".format(*sys.version_info[:2])
        fail(
            "this Python cannot make virtual environments: its modules venv and ensurepip are not installed",
            "install them, then run the same command again:\n"
            f"    Debian, Ubuntu   sudo apt-get install python{version}-venv\n"
            "    elsewhere        a Python from python.org, Homebrew, conda or uv has them",
        )
    maker = "venv" if works(sys.executable, "import ensurepip, venv") else "virtualenv"
    # Nothing but a broken environment is ever emptied.
    clear = ["--clear"] if (folder / "pyvenv.cfg").exists() else []
    if subprocess.call([sys.executable, "-m", maker, *clear, str(folder)]) or not works(python, "import pip"):
        fail(f"could not make a virtual environment in {folder}", "set CETDSL_VENV to a folder that can be written")
    return python


def works(python: Path | str, statement: str) -> bool:
    """Whether this Python exists and runs the statement."""
    if not shutil.which(str(python)):
        return False
    return subprocess.run([str(python), "-c", statement], capture_output=True, check=False).returncode == 0


def install(python: Path, extras: str) -> None:
    """Installs cetdsl, editable, with the extras, unless that was done since pyproject.toml last changed."""
    wanted = hashlib.sha256(ROOT.joinpath("pyproject.toml").read_bytes() + str(ROOT).encode()).hexdigest()
    stamp = python.parent.parent / f"cetdsl-{extras.replace(',', '-')}.stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"== installing cetdsl[{extras}] (the first time takes a while: PySpark is about 450 MB)", flush=True)
    command = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--editable", f".[{extras}]"]
    if subprocess.call(command, cwd=ROOT):
        fail("the installation failed", "pip says why above; once that is solved, run the same command again")
    stamp.write_text(wanted)


def fail(message: str, hint: str) -> NoReturn:
    print(f"error: {message}\n  hint: {hint}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
