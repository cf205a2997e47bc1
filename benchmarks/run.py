#!/usr/bin/env python3
"""Measures cetdsl against its floors: ``python benchmarks/run.py``; README.md says what is measured, and how.

A floor does with Spark alone only what any answer needs, such as to read, shuffle and sort the events.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import bounds  # after the line above: the repository's own cetdsl must be found first
import detection
import graphs
import panes
import races
import rows
import sharing
import streaming
import unlisted
from events import Events
from pyspark.sql import SparkSession

from cetdsl.java import java_path, require_java

_MODULES = (races, panes, graphs, sharing, bounds, unlisted, detection, rows, streaming)
RACES = {name: race for module in _MODULES for name, race in module.RACES.items()}
CHILDREN = {**races.CHILDREN, **panes.CHILDREN, **graphs.CHILDREN}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure cetdsl against its floors.")
    parser.add_argument("--only", metavar="RACE", action="append", choices=RACES, help=", ".join(RACES))
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each contestant (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data; 1 is the published size")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="local[CORES]")
    parser.add_argument("--data", type=Path, help="keep the generated events here (by default in a temporary folder)")
    parser.add_argument("--bars", type=Path, metavar="FILE", help="minute bars: ticker, minute, opening price")
    parser.add_argument("--output", type=Path, help="where results go (by default here at scale 1, else nowhere)")
    parser.add_argument("--report", action="store_true", help="only write table and picture of results.json again")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    output = options.output or (HERE if options.scale == 1 or options.report else None)
    if options.report:
        import report  # in this process alone: see draw()

        results = json.loads((output / "results.json").read_text(encoding="utf-8"))
        report.write(results, output)
        print(report.table(results))
        return 0
    if importlib.util.find_spec("matplotlib") is None:
        parser.error("matplotlib is missing, which draws the results: pip install matplotlib")
    require_java()
    if options.child:
        keep_to(options.cores)
    with folder(options.data) as data, folder(output) as kept, session(options.cores, options.master) as spark:
        events = Events(spark, data, options.scale, options.bars)
        if options.child:
            print(json.dumps(CHILDREN[options.child](events, options.runs)))
            return 0
        results, table = found(output, options), ""
        for name in options.only or RACES:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                race = RACES[name](events, options.runs)
            except races.Skipped as reason:
                print(f"  left out: {reason}", file=sys.stderr, flush=True)
                continue
            race["machine"], race["runs"] = machine(options.cores), options.runs
            race["measured_on"] = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
            race["load_average"] = round(os.getloadavg()[1], 1)
            results["races"][name] = race
            save(results, kept)
            table = draw(kept)
    print(table)
    return 0


def found(output: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    """The results to add to: those on disk, if they are of the same size and only some are measured again.

    Each race says on which machine it was run, and how often, where that is not as with the others.
    """
    fresh = {
        "machine": machine(options.cores),
        "versions": versions(),
        "scale": options.scale,
        "runs": options.runs,
    }
    path = output / "results.json" if output else None
    if options.only and path and path.exists():
        before: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if before["scale"] == fresh["scale"]:
            return before
    return {**fresh, "races": {}}


def save(results: dict[str, Any], output: Path) -> None:
    results["races"] = {name: results["races"][name] for name in RACES if name in results["races"]}
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def draw(output: Path) -> str:
    """Writes tables and pictures of what is saved, and returns the table.

    In a process of its own: matplotlib makes pyparsing keep all it has tried, for everybody in its process, and query
    texts are then read in 2.6 times the time.
    """
    command = [sys.executable, __file__, "--report", "--output", str(output)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="cetdsl-benchmarks-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def keep_to(cores: int) -> None:
    """Keeps this process and its children to so many cores, where the system can.

    Even a session of one task computes on two cores: Spark reads and sorts while a Python worker counts.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


@contextmanager
def session(cores: int, master: str | None = None) -> Iterator[SparkSession]:
    """One session for floors and candidates, with Spark's own settings but for memory, folders and logs.

    ``master`` may be that of a cluster, or "connect" for a server of Spark Connect on this machine.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH")])
    )
    with tempfile.TemporaryDirectory(prefix="cetdsl-benchmarks-", ignore_cleanup_errors=True) as scratch:
        settings = {
            "spark.driver.memory": "4g",
            "spark.local.dir": scratch,
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": scratch,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
        builder = SparkSession.builder.appName("cetdsl-benchmarks")
        if master == "connect":
            # PySpark starts the server, and only the command line can give it settings of the JVM.
            os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {settings['spark.driver.memory']} pyspark-shell"
            builder = builder.remote(f"local[{cores}]")
        else:
            builder = builder.master(master or f"local[{cores}]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


def machine(cores: int) -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        cpu = names[0] if names else cpu
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "cpu": cpu,
        "cores": cores,
        "memory_gb": round(memory),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    said = subprocess.run([java_path() or "java", "-version"], capture_output=True, text=True, check=False).stderr
    names = ("cetdsl", "pyspark", "numba", "numpy", "pyarrow")
    return {
        "Python": platform.python_version(),
        **{name: installed(name) for name in names},
        "Java": (re.findall(r'version "([^"]+)"', said) or ["unknown"])[0],
    }


def installed(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:  # run from a checkout that is not installed
        return "(checkout)"


if __name__ == "__main__":
    sys.exit(main())
