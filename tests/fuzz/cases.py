"""What all kinds of attack have in common: cases that pass or fail, that are made smaller, and that become tests."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import attrs

from cetdsl.errors import CetdslError, recover
from cetdsl.frontend.sase import parse
from cetdsl.pattern.text import unparse

#: The folder of the tests that are written for failures.
FOUND = Path(__file__).parent / "found"
#: How many smaller cases are tried for one failure, and for how many seconds.
ATTEMPTS, SECONDS = 400, 60


class Failure(AssertionError):
    """Raised if a case is not answered as it should be."""


@attrs.frozen
class Case:
    """One attack. The ``repr`` of its fields is Python that makes them again, so that a test can hold the case."""

    def check(self, spark: Any = None) -> None:
        """Raises whatever should not be raised, or a :class:`Failure`."""
        raise NotImplementedError

    def smaller(self) -> Iterator[Case]:
        """Cases that might fail as this one does, the smallest first."""
        return iter(())


@attrs.frozen
class Streams(Case):
    """A query over streams, which the column ``case`` tells apart."""

    text: str
    rows: list[dict[str, Any]]

    @property
    def numbered(self) -> list[dict[str, Any]]:
        """The rows, whose ``id`` is their place in the whole."""
        return [{**row, "id": index} for index, row in enumerate(self.rows)]

    def smaller(self) -> Iterator[Case]:
        for rows in without_parts(self.rows):
            yield attrs.evolve(self, rows=rows)
        yield from with_smaller_text(self)


class Kind(NamedTuple):
    """A kind of attack: what makes its cases, how many are tried in one round, and whether they need Spark."""

    make: Callable[[Random], Case]
    cases: int
    spark: bool = False
    #: Too large for every day: only with ``--minutes``, or by name.
    heavy: bool = False


@contextmanager
def within(seconds: float, hung: float = 60) -> Iterator[None]:
    """Raises if the block takes more processor seconds of this thread, or more than ``hung`` seconds of the clock."""

    def give_up(*_: object) -> None:
        raise Failure(f"not done after {hung} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, hung)
    begun = time.thread_time()
    try:
        yield
        if time.thread_time() - begun > seconds:
            raise Failure(f"took {time.thread_time() - begun:.1f} seconds, which is more than {seconds}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def only_ours(also: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Suppresses an error of cetdsl with a message that can be printed, and errors of ``also``; raises all others."""
    try:
        yield
    except also:
        pass
    except Failure:
        raise
    except Exception as error:
        own = recover(error)
        if own is None:
            raise
        if not isinstance(own, CetdslError) or not str(own).strip():
            raise Failure(f"an error that says nothing: {own!r}") from error
        str(own).encode()


def failure_of(case: Case, spark: Any) -> BaseException | None:
    """The error with which a case fails, None if it passes."""
    try:
        case.check(spark)
    except Exception as error:
        return error
    return None


def shrunk(case: Case, error: BaseException, spark: Any) -> tuple[Case, BaseException]:
    """The smallest case found that fails with an error of the same class, and that error."""
    left, deadline = ATTEMPTS, time.monotonic() + SECONDS
    progress = True
    while progress:
        progress = False
        for each in case.smaller():
            left -= 1
            if left < 0 or time.monotonic() > deadline:
                break
            found = failure_of(each, spark)
            if type(found) is type(error):
                case, error, progress = each, found, True
                break
    return case, error


_TEST = '''"""Found by python3 run.py fuzz: {origin}.

{error}
"""

import datetime  # noqa: F401
from decimal import Decimal  # noqa: F401
from math import inf, nan  # noqa: F401

from {module} import {name}


def test_{name_of_test}({fixture}):
    {source}.check({fixture})
'''


def write_down(case: Case, error: BaseException, origin: str, kind: Kind) -> Path:
    """Writes a file with a test of a case that fails, and returns its path."""
    FOUND.mkdir(exist_ok=True)
    source = repr(case)
    name_of_test = f"{type(case).__name__.lower()}_{hashlib.sha256(source.encode(errors='replace')).hexdigest()[:10]}"
    path = FOUND / f"test_{name_of_test}.py"
    said = f"{type(error).__name__}: {error}"[:1500].replace("\\", "\\\\").replace('"""', "'''")
    text = _TEST.format(
        origin=origin,
        error=said,
        module=type(case).__module__,
        name=type(case).__name__,
        name_of_test=name_of_test,
        fixture="spark" if kind.spark else "",
        source=source,
    )
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def without_parts(parts: list[Any]) -> Iterator[list[Any]]:
    """The list without a half, a quarter, ... and without each single part."""
    size = len(parts)
    while size := size // 2:
        for start in range(0, len(parts), size):
            if len(rest := parts[:start] + parts[start + size :]) < len(parts):
                yield rest


def with_smaller_text(case: Any) -> Iterator[Any]:
    """The case with a query that lacks one of its conditions, aggregates or clauses, each in turn."""
    query = parse(case.text)
    for index in range(len(query.where)):
        yield attrs.evolve(
            case, text=unparse(attrs.evolve(query, where=query.where[:index] + query.where[index + 1 :]))
        )
    for index in range(len(query.returning) if len(query.returning) > 1 else 0):
        rest = query.returning[:index] + query.returning[index + 1 :]
        yield attrs.evolve(case, text=unparse(attrs.evolve(query, returning=rest)))
    for field, none in (("group_by", ()), ("partition_by", ()), ("window", None)):
        if getattr(query, field):
            yield attrs.evolve(case, text=unparse(attrs.evolve(query, **{field: none})))
