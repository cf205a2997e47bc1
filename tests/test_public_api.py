"""Every public name has a docstring with an example, and is in the reference."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cetdsl
from cetdsl.errors import CetdslError

DOCS = Path(__file__).parent.parent / "docs"
NAMES = sorted(name for name in cetdsl.__all__ if not name.startswith("__"))
#: Modules offered as they are; their own pages describe them.
CALLABLES = [name for name in NAMES if callable(getattr(cetdsl, name))]
ERRORS = [
    name
    for name in CALLABLES
    if inspect.isclass(getattr(cetdsl, name)) and issubclass(getattr(cetdsl, name), CetdslError)
]


def test_all_names_exist() -> None:
    assert [name for name in cetdsl.__all__ if not hasattr(cetdsl, name)] == []
    assert len(set(cetdsl.__all__)) == len(cetdsl.__all__)


def test_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(cetdsl.__file__).read_text(encoding="utf-8"))
    seen = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    homes = {alias.name: importlib.import_module(str(node.module)) for node in seen for alias in node.names}
    assert [name for name in NAMES if getattr(cetdsl, name) is not getattr(homes[name], name)] == []
    assert set(cetdsl.__all__) <= set(dir(cetdsl))
    with pytest.raises(AttributeError, match="module 'cetdsl' has no attribute 'sequence'"):
        _ = cetdsl.sequence  # type: ignore[attr-defined]


WORKER = """
import sys
from pyspark.sql import DataFrame
from cetdsl.kernels import entry
assert [name for name in sys.modules if name.startswith(("cetdsl.planning", "cetdsl.execution", "pyparsing"))] == []
import cetdsl.pattern.nodes, cetdsl.frontend.session, cetdsl.frontend.workload
for method in ("pattern", "patterns"):
    assert getattr(cetdsl, method).__name__ == method
    assert getattr(DataFrame, method) is getattr(DataFrame, method) is getattr(cetdsl, method)
"""


def test_a_worker_does_not_load_the_front_end() -> None:
    subprocess.run([sys.executable, "-c", WORKER], cwd=DOCS.parent, check=True)


MODULES = """
import sys
import cetdsl as cet
assert {"datasets", "errors"} <= set(dir(cet))
assert "cetdsl.datasets" not in sys.modules
assert cet.datasets.read_workload.__module__ == "cetdsl.datasets"
assert cet.errors.CetdslError is cet.CetdslError
"""


def test_modules_are_loaded_when_they_are_asked_for() -> None:
    subprocess.run([sys.executable, "-c", MODULES], cwd=DOCS.parent, check=True)


@pytest.mark.parametrize("option", ["-O", "-OO"])
def test_a_python_that_drops_docstrings_rewrites_queries(option: str) -> None:
    program = "import cetdsl; from cetdsl.rewrite import rewrite; print(cetdsl.parse('PATTERN A'))"
    done = subprocess.run(
        [sys.executable, option, "-c", program], cwd=DOCS.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == "PATTERN A\n"


def test_there_is_one_version() -> None:
    project = (DOCS.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{cetdsl.__version__}"' in project


@pytest.mark.parametrize("name", CALLABLES)
def test_every_name_has_a_docstring(name: str) -> None:
    assert (getattr(cetdsl, name).__doc__ or "").strip(), f"cetdsl.{name} has no docstring"


@pytest.mark.parametrize("name", sorted(set(CALLABLES) - set(ERRORS)))
def test_every_docstring_has_an_example(name: str) -> None:
    assert ">>> " in (getattr(cetdsl, name).__doc__ or ""), f"cetdsl.{name} has no example"


def _methods_of_the_reference() -> list[str]:
    """The methods of the classes that ``docs/api.rst`` describes, by their full names."""
    reference = (DOCS / "api.rst").read_text(encoding="utf-8")
    described = re.findall(r"autoclass:: ([\w.]+)\.(\w+)(?:\(\))?\n   :members:((?:[^\n:]|\n      )*)\n", reference)
    found = []
    for module, name, members in described:
        methods = inspect.getmembers(getattr(importlib.import_module(module), name), inspect.isfunction)
        shown = re.findall(r"\w+", members) or [method for method, _ in methods if not method.startswith("_")]
        found += [f"{module}.{name}.{method}" for method, _ in methods if method in shown]
    return found


def _method(name: str) -> Callable[..., object]:
    module, holder, method = name.rsplit(".", 2)
    found: Callable[..., object] = getattr(getattr(importlib.import_module(module), holder), method)
    return found


METHODS = {name: _method(name) for name in _methods_of_the_reference()}
FUNCTIONS = {f"cetdsl.{name}": getattr(cetdsl, name) for name in CALLABLES if inspect.isfunction(getattr(cetdsl, name))}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_example(name: str) -> None:
    assert ">>> " in (METHODS[name].__doc__ or ""), f"{name} has no example"


@pytest.mark.parametrize("name", METHODS | FUNCTIONS)
def test_every_parameter_is_described(name: str) -> None:
    function = (METHODS | FUNCTIONS)[name]
    section = re.search(r"Parameters\n-{10}\n(.*?)(?=\n\S+\n-{4,}\n|$)", inspect.getdoc(function) or "", re.DOTALL)
    described = re.findall(r"^([\w*, ]+) : \S", section[1], re.MULTILINE) if section else []
    names = {each.strip(" *") for line in described for each in line.split(",")}
    assert names == set(inspect.signature(function).parameters) - {"self"}, f"the parameters of {name}"


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_in_the_reference(name: str) -> None:
    pages = [page.read_text(encoding="utf-8") for ending in ("rst", "md") for page in DOCS.rglob(f"*.{ending}")]
    assert any(re.search(rf"\b{re.escape(name)}\b", page) for page in pages), f"cetdsl.{name} is in no page of docs/"


@pytest.mark.parametrize("how", ["-c", "-m"])
def test_connect_is_an_extra(how: str, tmp_path: Path) -> None:
    """Without its packages, PySpark's Connect modules end a process that imports them before it has a main module."""
    block = "import sys; sys.modules['grpc'] = None\n"
    # Run by every Python that starts in this folder's environment, before `-c` and `-m` are looked at.
    (tmp_path / "sitecustomize.py").write_text(block)
    path = os.pathsep.join([str(tmp_path), str(DOCS.parent)])
    words = {"-c": ["-c", "import cetdsl; print('imported')"], "-m": ["-m", "cetdsl", "--version"]}[how]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(("imported", "cetdsl "))


@pytest.mark.parametrize("name", ["PatternFrame", "Workload"])
def test_every_method_of_what_is_bound_is_in_the_reference(name: str) -> None:
    reference = (DOCS / "api.rst").read_text(encoding="utf-8")
    [members] = re.findall(rf"autoclass:: cetdsl\.{name}\(\)\n   :members: ((?:.|\n)*?)\n\n", reference)
    public = {member for member in vars(getattr(cetdsl, name)) if not member.startswith("_")}
    assert set(re.findall(r"\w+", members)) == public
