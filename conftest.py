"""One Spark session per run; CETDSL_TEST_MODE says on which kind of Spark.

====================  ===================================================  =======================================
mode                  session                                              tests
====================  ===================================================  =======================================
``classic`` (default) ``local[2]``                                         all but those marked ``cluster``
``connect``           Spark Connect, ``remote("local[2]")``                those that use Spark, but for ``cluster``
                                                                           and ``classic``
``cluster``           ``local-cluster[2,1,1024]``: executors are processes only those marked ``cluster``
====================  ===================================================  =======================================

``python run.py test`` runs all three. This file stands at the top because the doctests of the package use it too.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator

import pytest
from modes import SIMPLE_PLANS, settings
from sessions import session

MODES = ("classic", "connect", "cluster")


def mode() -> str:
    chosen = os.environ.get("CETDSL_TEST_MODE", "classic")
    if chosen not in MODES:
        raise pytest.UsageError(f"CETDSL_TEST_MODE is {chosen!r}; it can be {', '.join(MODES)}")
    return chosen


def pytest_report_header() -> str:
    return f"spark: {mode()}"


def pytest_sessionstart() -> None:
    from compile_once import compile_once

    compile_once()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")

    def belongs(item: pytest.Item) -> bool:
        in_cluster, in_spark = item.get_closest_marker("cluster"), item.get_closest_marker("spark")
        if mode() == "cluster":
            return in_cluster is not None
        more = item.get_closest_marker("classic") is not None
        return in_cluster is None and (mode() == "classic" or (in_spark is not None and not more))

    kept = [item for item in items if belongs(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not belongs(item)])
        items[:] = kept


def pytest_collection_finish() -> None:
    # The garbage collector need not look through the modules and the tests, which live until the end.
    gc.freeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The Spark session of the run."""
    with session(mode(), str(tmp_path_factory.mktemp("spark"))) as made:
        yield made


@pytest.fixture(autouse=True)
def _simple_plans(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs tests marked ``simple_plans`` with :data:`modes.SIMPLE_PLANS`, under which Spark takes half the time."""
    marked = request.node.get_closest_marker("simple_plans") is not None
    if mode() != "classic" or not marked or "spark" not in request.fixturenames:
        yield
        return
    with settings(request.getfixturevalue("spark"), SIMPLE_PLANS):
        yield


@pytest.fixture(autouse=True)
def _garbage(request: pytest.FixtureRequest) -> Iterator[None]:
    """On Connect, collects garbage between tests only.

    When a checkpoint is collected, its finalizer asks the server to drop it, for which it needs the lock of the
    client's channel. If Python runs the finalizer in a thread for which the holder of this lock is waiting, both wait
    for ever. Tests that expect errors leave such garbage.
    """
    if mode() != "connect" or "spark" not in request.fixturenames:
        yield
        return
    gc.disable()
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _names_for_doctests(request: pytest.FixtureRequest) -> None:
    """Gives examples in docstrings the names that they may use unimported: ``cet``, ``spark``, ``graph_of_checks``."""
    doctest = getattr(request.node, "dtest", None)
    if doctest is None:
        return
    import cetdsl

    names = request.getfixturevalue("doctest_namespace")
    names["cet"] = cetdsl
    if any(re.search(r"\bspark\b", example.source) for example in doctest.examples):
        names["spark"] = request.getfixturevalue("spark")
    if any(re.search(r"\bgraph_of_checks\b", example.source) for example in doctest.examples):
        names["graph_of_checks"] = _graph_of_checks()


def _graph_of_checks() -> object:
    """The graph of the checks A->B, B->C, B->D, D->E, each drawn on the account that the one before it went to."""
    import numpy as np

    from cetdsl.kernels.graph.attribute_graph import NEVER
    from cetdsl.kernels.vocabulary import Graph

    event, one = np.arange(4), np.ones(4, dtype=np.bool_)
    state, before, after, target = (
        np.array(x, dtype=np.int32) for x in ([0] * 4, [-1, 0, 0, 2], [1, NEVER, 3, NEVER], [1, 2, 3])
    )
    here, start, stop = event.astype(np.int32), np.array([0, 2, 2, 3]), np.array([2, 2, 3, 3])
    return Graph(event, state, one, one, here, before, here, after, start, stop, target)
