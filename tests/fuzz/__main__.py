"""Runs the attacks by turns, writes a test for each failure, and says how many cases were tried.

The same seed and number of rounds try the same cases.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from sessions import session

from fuzz import answers, faults, fluent, kernels, live, texts, values, windows
from fuzz.cases import Kind, failure_of, shrunk, write_down

#: Cheap ones first.
KINDS: dict[str, Kind] = {
    name: kind
    for module in (texts, fluent, kernels, answers, values, windows, faults, live)
    for name, kind in module.KINDS.items()
}
#: A kind that has failed so often is left out: its failures may well have one cause.
ENOUGH = 5


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 run.py fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, help="go on for so long; else by rounds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, action="append", help="a kind of attack; may be said several times")
    parser.add_argument("--log", type=Path, help="a file that names each case before it is tried")
    chosen = parser.parse_args(words)
    names = chosen.only or [name for name, kind in KINDS.items() if chosen.minutes or not kind.heavy]
    deadline = time.monotonic() + 60 * chosen.minutes if chosen.minutes else None
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message="unclosed <socket", category=ResourceWarning)
    with ExitStack() as stack:
        spark = None
        if any(KINDS[name].spark for name in names):
            scratch = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            spark = stack.enter_context(session(os.environ.get("CETDSL_TEST_MODE", "classic"), scratch))
        return Run(spark, chosen.seed, chosen.log).go(names, chosen.rounds, deadline)


class Run:
    """How many cases of each kind were tried, how many failed, and how long they took."""

    def __init__(self, spark: Any, seed: int, log: Path | None) -> None:
        self.spark, self.seed, self.log = spark, seed, log
        self.tried: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def go(self, names: list[str], rounds: int, deadline: float | None) -> int:
        number = 0
        while (number < rounds) if deadline is None else (time.monotonic() < deadline):
            for name in names:
                self.round(name, deadline)
            number += 1
        for name in names:
            print(f"{name:<10} {self.tried[name]:>8} cases {self.failed[name]:>4} failed {self.seconds[name]:>8.1f} s")
        return 1 if self.failed.total() else 0

    def round(self, name: str, deadline: float | None) -> None:
        kind, begun = KINDS[name], time.monotonic()
        for _ in range(kind.cases):
            if self.failed[name] >= ENOUGH or (deadline is not None and time.monotonic() > deadline):
                break
            self.attempt(name, kind)
        self.seconds[name] += time.monotonic() - begun

    def attempt(self, name: str, kind: Kind) -> None:
        number = self.tried[name]
        self.tried[name] += 1
        case = kind.make(Random(f"{self.seed} {name} {number}"))
        if self.log:
            self.log.write_text(f"{name} {number} {case!r}", encoding="utf-8", errors="backslashreplace")
        error = failure_of(case, self.spark)
        if error is None:
            return
        self.failed[name] += 1
        case, error = shrunk(case, error, self.spark)
        origin = f"--only {name} --seed {self.seed}, case {number}"
        path = write_down(case, error, origin, kind)
        print(f"FAILED {origin}: {type(error).__name__}: {str(error)[:300]!r}\n    {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
