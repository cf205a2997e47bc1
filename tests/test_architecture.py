"""The shape of the package: imports point down only, and each layer keeps to what it may know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "cetdsl"

#: Lowest first. A module may import its own layer and those before it.
LAYERS = (
    "errors",
    "tables",
    "java",
    "aggregates",
    "pattern",
    "detection",
    "ir",
    "rows",
    "analysis",
    "rewrite",
    "sharing",
    "planning",
    "kernels",
    "execution",
    "explain",
    "frontend",
    "__init__",
    "session",
    "paths",
    "datasets",
    "demo",
    "cli",
    "__main__",
)
#: The rooms of the kernels, lowest first. A module may import its own room and those before it.
ROOMS = (
    "_disk",
    "_heap",
    "_jit",
    "_borrow",
    "vocabulary",
    "_side_by_side",
    "numbers",
    "wire",
    "machine",
    "answers",
    "enumerate",
    "detect",
    "instances",
    "aggregate",
    "graph",
    "complete",
    "shared",
    "rows",
    "entry",
)
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from cetdsl import errors` imports cetdsl.errors; a name that is no module is the package's own.
            assert node.level == 0, f"{path}: imports are absolute here"
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if node.module == "cetdsl" and is_module(name) else node.module for name in modules)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    layer = layer_of(path)
    assert layer in LAYERS, "a new layer needs its place in LAYERS"
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "cetdsl":
            imported = rest.split(".")[0] or "__init__"
            assert LAYERS.index(imported) <= LAYERS.index(layer), f"{layer} imports {name}"


def kernel_arrows() -> Iterator[tuple[str, str]]:
    """Each kernel module with each kernel module that it imports."""
    for path in (PACKAGE / "kernels").rglob("*.py"):
        importing = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield from ((importing, name) for name in imports(path) if name.startswith("cetdsl.kernels."))


def test_arrows_between_rooms_of_the_kernels_point_down() -> None:
    for importing, imported in kernel_arrows():
        room, below = (name.split(".")[2] for name in (importing, imported))
        assert {room, below} <= set(ROOMS), "a new room needs its place in ROOMS"
        assert ROOMS.index(below) <= ROOMS.index(room), f"{importing} imports {imported}"


def test_kernel_modules_import_in_no_circle() -> None:
    arrows: dict[str, set[str]] = {}
    for importing, imported in kernel_arrows():
        arrows.setdefault(importing, set()).add(imported)
    # Who imports nobody that is left may go; who stays is on a circle, or leads to one.
    left = set(arrows)
    while free := {name for name in left if not arrows[name] & left}:
        left -= free
    assert not left


def test_every_folder_is_a_package() -> None:
    """A folder without __init__.py would be missing from the wheel."""
    assert {path.parent for path in MODULES} == {path.parent for path in MODULES if path.name == "__init__.py"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "kernels").rglob("*.py")), ids=name_of)
def test_a_file_of_the_kernels_has_one_purpose(path: Path) -> None:
    """Nobody reads more than 600 lines at once."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 600


def test_every_room_of_the_kernels_has_tests_of_its_name() -> None:
    """``test_kernel_<room>.py``, or several files whose names go on behind the room's."""
    rooms = {path.name for path in (PACKAGE / "kernels").iterdir() if (path / "__init__.py").exists()}
    tested = {path.stem.split("_")[2] for path in (ROOT / "tests").glob("test_kernel_*.py")}
    assert tested == rooms


@pytest.mark.parametrize(
    "layer", ["aggregates", "pattern", "detection", "ir", "rows", "analysis", "rewrite", "planning", "kernels"]
)
def test_layers_below_execution_know_no_spark(layer: str) -> None:
    for path in (PACKAGE / layer).rglob("*.py"):
        assert not {name for name in imports(path) if name.split(".")[0] == "pyspark"}, path


def test_the_algebra_needs_nothing_but_attrs() -> None:
    import sys

    for path in (path for layer in ("aggregates", "pattern") for path in (PACKAGE / layer).rglob("*.py")):
        tops = {name.split(".")[0] for name in imports(path)}
        assert tops <= {"attrs", "cetdsl", *sys.stdlib_module_names}, path


def test_execution_knows_no_pattern_nodes() -> None:
    for path in (PACKAGE / "execution").rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith("cetdsl.pattern.nodes")], path


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_public_api_of_spark_is_used(path: Path) -> None:
    private = re.compile(r"""[."'](_jdf|_jvm|_jsc|_jspark|_sc|_jc|rdd)\b""")
    assert not private.findall(path.read_text(encoding="utf-8"))


def test_kernels_run_without_spark(tmp_path: Path) -> None:
    """Not even by a chain of imports: executors' kernels, and their tests, need no Spark."""
    import subprocess
    import sys

    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for layer in ("aggregates", "pattern", "detection", "ir", "rows", "kernels", "planning")
        for path in sorted((PACKAGE / layer).rglob("*.py"))
    ]
    code = f"""
import importlib, sys, types
# The package itself imports everything; stand in for it, so that only its parts are seen.
package = types.ModuleType("cetdsl"); package.__path__ = [{str(PACKAGE)!r}]; sys.modules["cetdsl"] = package
for name in {modules!r}:
    importlib.import_module(name)
assert "pyspark" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
