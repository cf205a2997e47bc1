"""What is kept of compiled kernels stays valid for as long as the code means the same, and no longer.

A package of small kernels, with the real ``_jit.py`` in it, is imported by a process of its own after each edit; the
statistics of Numba's dispatchers say what was compiled and what came from the disk.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

from cetdsl.kernels._jit import jit

PACKAGE = Path(__file__).parent.parent / "cetdsl"

LEAF = "from cetdsl.kernels._jit import jit\n\n@jit\ndef double(x):\n    return 2 * x\n"
CALL = "\n\n@jit\ndef call(x):\n    return double(x) + 1\n"
#: How a caller may get at its callee.
IMPORTS = {
    "name": "from cetdsl.kernels.low.leaf import double",
    "another_name": "from cetdsl.kernels.low.leaf import double as twice\ndouble = twice",
    "module": "from cetdsl.kernels.low import leaf\ndouble = leaf.double",
    "dotted": "import cetdsl.kernels.low.leaf\ndouble = cetdsl.kernels.low.leaf.double",
    "dotted_as": "import cetdsl.kernels.low.leaf as leaf\ndouble = leaf.double",
    "relative": "from .low.leaf import double",
    "relative_module": "from .low import leaf\ndouble = leaf.double",
    "relative_package": "from . import low\ndouble = low.leaf.double",
    "through_the_package": "from cetdsl.kernels.low import double",
    "through_a_module": "from cetdsl.kernels.name import double",
    "in_a_function": "def load():\n  from cetdsl.kernels.low.leaf import double\n  return double\n\ndouble = load()",
    "everything": "from cetdsl.kernels.low.leaf import *",
}
FORMULA = "from cetdsl.detection import arithmetic\n\ndouble = jit(arithmetic.double)\n"
CONSTANT = "from cetdsl.ir.sizes import SIZE\n\n@jit\ndef call(x):\n    return SIZE * x + 1\n"
RUN = """
import ast, importlib, json, sys
if "warm" in sys.argv:
    ast.parse = None
answers = {}
for name in sys.argv[1].split(","):
    call = importlib.import_module(f"cetdsl.kernels.{name}").call
    answers[name] = [call(10), bool(call.stats.cache_misses)]
print(json.dumps(answers))
"""


class Kernels:
    """A package of kernels in a folder, and one folder for what Numba makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder / "here", folder / "cache"
        self.more: dict[str, str] = {}
        self.log = ""
        for name, text in {
            "cetdsl/__init__.py": "",
            "cetdsl/errors.py": "MissingDependency = Exception\n",
            "cetdsl/detection/__init__.py": "",
            "cetdsl/detection/arithmetic.py": "def double(x):\n    return 2 * x\n",
            "cetdsl/kernels/formula.py": f"from cetdsl.kernels._jit import jit\n{FORMULA}{CALL}",
            "cetdsl/ir/__init__.py": "",
            "cetdsl/ir/sizes.py": "SIZE = 2\n\ndef other():\n    return 1\n",
            "cetdsl/kernels/__init__.py": "",
            "cetdsl/kernels/low/__init__.py": "from cetdsl.kernels.low.leaf import double\n",
            "cetdsl/kernels/low/leaf.py": LEAF,
            "cetdsl/kernels/constant.py": "from cetdsl.kernels._jit import jit\n" + CONSTANT,
            **{
                f"cetdsl/kernels/{name}.py": f"from cetdsl.kernels._jit import jit\n{line}{CALL}"
                for name, line in IMPORTS.items()
            },
        }.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in ("_disk.py", "_jit.py"):
            shutil.copy(PACKAGE / "kernels" / name, self.folder / "cetdsl" / "kernels")

    def edit(self, name: str, before: str, after: str) -> None:
        path = self.folder / "cetdsl" / name
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    def run(self, *callers: str, warm: bool = False) -> dict[str, tuple[int, bool]]:
        """What ``call(10)`` of each caller gives, and whether it was compiled; ``warm`` forbids to parse anything."""
        places = {"PYTHONPATH": str(self.folder), "NUMBA_CACHE_DIR": str(self.cache)}
        # Python goes on with bytecode of the same second and size, as of a file that is edited at once.
        environment = {**os.environ, **places, "PYTHONDONTWRITEBYTECODE": "1", **self.more}
        done = subprocess.run(
            [sys.executable, "-c", RUN, ",".join(callers), *(["warm"] if warm else [])],
            cwd=self.cache.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.log = done.stderr
        return {name: (value, compiled) for name, (value, compiled) in json.loads(done.stdout).items()}


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    return Kernels(tmp_path)


def test_an_edit_of_a_callee_compiles_its_callers_again_however_they_import_it(kernels: Kernels) -> None:
    assert kernels.run(*IMPORTS) == dict.fromkeys(IMPORTS, (21, True))
    assert kernels.log.count("compiling kernels, once on each machine") == 1
    assert kernels.run(*IMPORTS, warm=True) == dict.fromkeys(IMPORTS, (21, False))
    assert not kernels.log
    kernels.edit("kernels/low/leaf.py", "2 * x", "3 * x")
    assert kernels.run(*IMPORTS) == dict.fromkeys(IMPORTS, (31, True))
    # The old version is still there, for another process that still has it.
    kernels.edit("kernels/low/leaf.py", "3 * x", "2 * x")
    assert kernels.run(*IMPORTS, warm=True) == dict.fromkeys(IMPORTS, (21, False))


def test_only_what_compiled_code_may_depend_on_compiles_again(kernels: Kernels) -> None:
    callers = ["name", "constant"]
    assert kernels.run(*callers) == {"name": (21, True), "constant": (21, True)}
    kernels.edit("ir/sizes.py", "SIZE = 2", "SIZE = 3")
    assert kernels.run(*callers) == {"name": (21, False), "constant": (31, True)}
    kernels.edit("ir/sizes.py", "return 1", "return 2")
    kernels.edit("kernels/module.py", "+ 1", "+ 2")
    assert kernels.run(*callers) == {"name": (21, False), "constant": (31, False)}


def test_formulas_that_python_computes_too_compile_again_when_they_are_edited(kernels: Kernels) -> None:
    assert kernels.run("formula") == {"formula": (21, True)}
    assert kernels.run("formula", warm=True) == {"formula": (21, False)}
    kernels.edit("detection/arithmetic.py", "2 * x", "3 * x")
    assert kernels.run("formula") == {"formula": (31, True)}


def test_docstrings_comments_lines_and_places_compile_nothing_again(kernels: Kernels) -> None:
    assert kernels.run("name") == {"name": (21, True)}
    kernels.edit("kernels/low/leaf.py", "from", '"""What a leaf is."""\n\n\nfrom')
    kernels.edit("kernels/low/leaf.py", "    return", '    """Twice x."""\n    # Because of this.\n    return')
    kernels.edit("kernels/name.py", "@jit", "# One.\n# Two.\n@jit")
    kernels.edit("kernels/name.py", "double(x) + 1", "(double(x)\n        + 1)  # three")
    assert kernels.run("name") == {"name": (21, False)}
    # Nor does another place of the package.
    kernels.folder = kernels.folder.rename(kernels.folder.with_name("there"))
    assert kernels.run("name", warm=True) == {"name": (21, False)}


def test_a_damaged_note_of_a_syntax_tree_is_made_again(kernels: Kernels) -> None:
    assert kernels.run("name") == {"name": (21, True)}
    notes = sorted(kernels.cache.glob("syntax-*"))
    damages = ["", "x", "0 cetdsl.kernels.name\n", "\0" * 100, notes[0].read_text(errors="ignore")[:-1], None]
    # The package of kernels, _disk, _jit, name, low, low.leaf.
    for note, damage in zip(notes, damages, strict=True):
        note.unlink() if damage is None else note.write_text(damage)
    assert kernels.run("name") == {"name": (21, False)}
    assert sorted(kernels.cache.glob("syntax-*")) == notes
    assert kernels.run("name", warm=True) == {"name": (21, False)}


def test_kernels_in_an_archive_are_kept_too(kernels: Kernels) -> None:
    """As ``spark.submit.pyFiles`` ships them."""
    kernels.folder = Path(shutil.make_archive(str(kernels.folder), "zip", kernels.folder))
    assert kernels.run("name") == {"name": (21, True)}
    assert kernels.run("name", warm=True) == {"name": (21, False)}


def compiled_functions() -> list[tuple[Path, ast.Module, ast.FunctionDef]]:
    found = []
    for path in sorted((PACKAGE / "kernels").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and {"jit", "inlined"} & {
                decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)
            }:
                found.append((path, tree, node))
    return found


def test_compiled_functions_have_names_of_their_own() -> None:
    """Files are named by the module and the qualified name: these functions stand at the top, each name once."""
    functions = compiled_functions()
    assert functions
    assert all(node in tree.body for _, tree, node in functions)
    names = [(path, node.name) for path, _, node in functions]
    assert len(set(names)) == len(names)


def test_compiled_functions_depend_on_kernels_and_constants_only() -> None:
    """The cache follows imports of kernels, and of ``cetdsl.ir`` the constants alone."""
    for path, tree, function in compiled_functions():
        outside = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cetdsl")
            for alias in node.names
            if not (node.module or "").startswith("cetdsl.kernels")
        }
        for node in ast.walk(ast.Module(function.body, [])):
            if isinstance(node, ast.Name) and node.id in outside:
                assert outside[node.id].startswith("cetdsl.ir."), f"{path}: {node.id}"
                assert node.id.isupper(), f"{path}: {node.id}"


@jit
def _callee(number: int, pair: tuple[int, int], double: bool) -> int:
    return (number + pair[0]) * (2 if double else 1)


@jit
def _caller(numbers: np.ndarray) -> int:
    return _callee(1, (2, numbers[0]), True) + _callee(numbers[0], (numbers[0], 3), numbers[0] > 5)


def test_constants_and_short_numbers_in_a_call_compile_nothing_of_their_own() -> None:
    with event.install_recorder("numba:compile") as recorder:
        assert _caller(np.array([7], dtype=np.int32)) == 6 + 28
    compiled = [each.data for _, each in recorder.buffer if each.is_start]
    called = [each for each in compiled if each["dispatcher"].py_func is _callee.py_func]
    assert [list(map(str, each["args"])) for each in called] == [["int64", "UniTuple(int64 x 2)", "bool"]]
    assert not _callee.signatures, "nothing that Python could call is compiled of what kernels call"
