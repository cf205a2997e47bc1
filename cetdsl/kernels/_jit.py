"""Sets Numba up so that compiled kernels are kept on disk wherever that is possible.

Numba's own cache compiles a kernel again when its file has changed, even if only a comment has changed or the file has
been moved. But it does not notice a change of a function that the kernel calls, or of a class that its signature names.
So the cache here depends on the meaning of a kernel's module, its *version*: a digest of the syntax trees, without
docstrings, of the module and of all modules of ``cetdsl.kernels`` and ``cetdsl.ir`` that it imports, directly or not;
of the latter only the constants count. (``cetdsl.detection.arithmetic``, whose formulas are also compiled, counts as
one of these modules.) Each version has a directory of its own. To parse all this in every worker would take longer than
to load the machine code, so the digest of each syntax tree is kept in a small file beside the directories.

Numba keeps an index file per function, and if two processes write it at once, one signature may end up with the code of
another. Here each signature has a file of its own, which is used only if it is whole and can be trusted (``_disk``).

Kernels give the arrays of a tuple names of their own before an inner loop, because each access to a field of a tuple of
arrays counts references, unless the tuple was borrowed (``_borrow``). With such accesses in its inner loops, the survey
of bursts took 300 ns per event; without, it takes 11. If the loop writes to arrays, compiled code may still fetch an
array of a tuple again after each write, so kernels that do little else take their arrays one by one; this halves the
time of a walk, and makes no difference for building graphs.
"""

from __future__ import annotations

import ast
import hashlib
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from cetdsl.errors import MissingDependency
from cetdsl.kernels import _disk

try:
    import numba
except ImportError as error:  # pragma: no cover - needs an environment without numba
    raise MissingDependency(
        "the kernel strategy needs Numba on every executor, and it cannot be imported here",
        hint="pip install numba in the Python environment of every executor",
    ) from error

_Function = TypeVar("_Function", bound=Callable[..., Any])
_caching: Any = import_module("numba.core.caching")
_serialize: Any = import_module("numba.core.serialize")
_types: Any = import_module("numba.core.types")
_loader: Any = globals()["__loader__"]
_HERE = Path(__file__).parent
_KERNELS, _IR, _FORMULAS = "cetdsl.kernels.", "cetdsl.ir.", "cetdsl.detection.arithmetic."


class _Source(NamedTuple):
    """The text of a module, and whether it is a package's ``__init__``."""

    text: bytes
    is_package: bool


class _Syntax(NamedTuple):
    """The meaning of a module's text: a digest, and the names that it imports, which need not all be modules."""

    digest: str
    imports: tuple[str, ...]


@cache
def _source(module: str) -> _Source | None:
    """The source of a module, which may lie in an archive; None for a name that is no module."""
    package, _, name = module.rpartition(".")
    if package != "cetdsl":
        parent = _source(package) if package else None
        if parent is None or not parent.is_package:
            return None
    stem = _HERE.parent.joinpath(*module.split(".")[1:])
    for path, is_package in ((stem.with_name(f"{name}.py"), False), (stem / "__init__.py", True)):
        try:
            return _Source(_loader.get_data(str(path)), is_package)
        except OSError:
            continue
    return None


@cache
def _syntax(module: str) -> _Syntax:
    """Returns the meaning of a module: from the file that keeps it or, if there is none, from its syntax tree."""
    source = _source(module)
    assert source is not None
    own = _loader.get_data(__file__)
    key = hashlib.sha256(f"{sys.implementation.cache_tag} {module} ".encode() + own + source.text).hexdigest()
    folder = _disk.place()
    assert folder is not None
    memo = folder / f"syntax-{key[:32]}"
    known = _disk.read(memo)
    if known:
        digest, *imports = known.decode().split()
        return _Syntax(digest, tuple(imports))
    syntax = _parse(module, source)
    _disk.write(memo, " ".join([syntax.digest, *syntax.imports]).encode())
    return syntax


def _parse(module: str, source: _Source) -> _Syntax:
    tree = ast.parse(source.text)
    imports = sorted(set(_imports(tree, module if source.is_package else module.rpartition(".")[0])))
    if module.startswith(_IR):
        # Compiled code cannot call the functions there, nor take the classes.
        tree.body = [statement for statement in tree.body if not isinstance(statement, ast.FunctionDef | ast.ClassDef)]
    return _Syntax(hashlib.sha256(ast.dump(_Bare().visit(tree)).encode()).hexdigest(), tuple(imports))


class _Bare(ast.NodeTransformer):
    """Removes the docstrings from a syntax tree; comments are not in it, and its dump has no line numbers."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Yields the names of ``cetdsl.kernels``, ``cetdsl.ir`` and the formulas that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if f"{name}.".startswith((_KERNELS, _IR, _FORMULAS)))


@cache
def _version(module: str) -> str:
    """Returns a digest of all that the compiled code of a module may depend on."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found and _source(name):
            found.add(name)
            waiting += _syntax(name).imports
            if name.count(".") > 1:
                waiting.append(name.rpartition(".")[0])  # a package is imported with its modules
    parts = [numba.__version__, *(f"{name} {_syntax(name).digest}" for name in sorted(found))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class _Locator(_caching._CacheLocator):  # type: ignore[misc]
    """Tells Numba the directory of a function's machine code, and the stamp of the version for which it is valid."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_file = function.__code__.co_filename  # Numba names it in a warning
        self._module = function.__module__
        self._stamp = _version(self._module)

    def ensure_cache_path(self) -> None:
        """Does nothing: the folder is made where a file is written."""

    def get_cache_path(self) -> str:
        folder = _disk.place()
        assert folder is not None
        return str(folder / f"kernels-{self._stamp}")

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return self._module


class _Files(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Names the files of a function: by its qualified name, and not, as Numba's own class would, by its line too."""

    def __init__(self, function: Callable[..., Any]) -> None:
        # Not the inherited one, which looks for a locator of Numba's.
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Locator(function)
        self._filename_base = self.get_filename_base(function.__qualname__, getattr(sys, "abiflags", ""))


class _File:
    """The files of one function, one per signature and processor; each has Numba's key and the compiled code."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = Path(folder), name

    def _path(self, key: Any) -> Path:
        # The text of a key is the same in each process; its pickled form is not.
        return self._folder / f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.kernel"

    def load(self, key: Any) -> Any:
        body = _disk.read(self._path(key))
        if body is None:
            return None
        found, data = pickle.loads(body)
        return data if found == key else None

    def save(self, key: Any, data: Any) -> None:
        _disk.write(self._path(key), _serialize.dumps((key, data)))


class _Cache(_caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Files

    def __init__(self, function: Callable[..., Any], use: str) -> None:
        super().__init__(function)
        self._cache_file = _File(self._cache_path, f"{self._impl.filename_base}.{use}")
        self._kernel = f"{function.__module__}.{function.__qualname__}"

    def load_overload(self, signature: Any, target: Any) -> Any:
        try:
            known = super().load_overload(signature, target)
        except Exception as error:
            # The file is whole, but other versions of what it names may raise any error, and none may stop a query.
            _disk.LOG.warning("a kernel in %s cannot be loaded, and is compiled anew: %r", self._cache_path, error)
            known = None
        if known is None:
            _tell_of_compiling(self._kernel)
        return known


@cache
def _warn_of_compiling() -> None:
    """Warns once in a process why its first answers take long; workers' logs show no level below warnings."""
    _disk.LOG.warning("compiling kernels, once on each machine; cetdsl warm-up does it before they are needed")


def _tell_of_compiling(kernel: str) -> None:
    _warn_of_compiling()
    _disk.LOG.info("compiling %s", kernel)


def jit(function: _Function) -> _Function:
    """Compiles with ``numba.njit`` and the disk cache; ``nogil``, because kernels touch nothing but arrays."""
    return _compile(function, forceinline=False)


def inlined(function: _Function) -> _Function:
    """Compiles like :func:`jit`, for small functions in inner loops: a call would copy each array's descriptor."""
    return _compile(function, forceinline=True)


def _general(kind: Any) -> Any:
    """Returns the type for which a kernel is compiled if another kernel calls it with a value of this type.

    Numba would compile it anew for each constant argument, and for each width of whole numbers.
    """
    if isinstance(kind, _types.BaseTuple) and not isinstance(kind, _types.BaseNamedTuple):
        return _types.BaseTuple.from_types(tuple(map(_general, kind)))
    kind = _types.unliteral(kind)
    return _types.int64 if isinstance(kind, _types.Integer) and kind.signed else kind


def _compile(function: _Function, *, forceinline: bool) -> _Function:
    kernel = _dispatcher(function, "kernel", forceinline=forceinline)
    # For a function that only other kernels call, the wrapper that unpacks Python objects would be a sixth of the time
    # of compiling, and of the code.
    callee = _dispatcher(function, "callee", forceinline=forceinline, no_cpython_wrapper=True)
    kernel.get_call_template = lambda args, kws: callee.get_call_template(tuple(map(_general, args)), kws)
    kernel.get_overload = callee.get_overload
    return cast(_Function, kernel)


def _dispatcher(function: Callable[..., Any], use: str, **options: Any) -> Any:
    """Returns a dispatcher that compiles a function for one use; each signature is compiled when it is first needed."""
    njit: Any = numba.njit  # its annotations know some of the options only
    made = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    # Without the source, versions could not be told apart, so nothing is kept.
    if _source(function.__module__) and _disk.place():
        made._cache = _Cache(function, use)
    return made
