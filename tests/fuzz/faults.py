"""Faults of a machine: damaged files and caches, killed workers, memory and disks that are full, and very large data.

All but those of the command line run in processes of their own, with Spark or without.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs

from cetdsl import cli
from cetdsl.kernels import _disk
from fuzz.cases import Case, Failure, Kind, within

COUNT = "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)"
#: Contents of files that are given as events, and of files that are given as queries.
CONTENTS: tuple[bytes, ...] = (b"", b"\n", b"\0" * 100, b"PAR1" + b"\xff" * 50 + b"PAR1", b"\xff\xfet\0,\0")
CONTENTS += (
    b"t,type\n1,A\n2,B\n",
    b"t,type\n1,A,3\n2\n",
    b't,type\n"1,A\n2,B\n',
    b"t,t\n1,2\n",
    b",\n,\n",
    b"t,type\n",
)
CONTENTS += (b'{"t": 1, "type": "A"}', b'{"t": 1', b"[]", b"null", b'{"t": {"a": 1}}', b'{"": 1}', b"t;type\n1;A\n")
CONTENTS += (b"t,type\n99999999999999999999999,A\n", b"t,type\n\xff\xff,\xc3\x28\n", b"t,type\n1," + b"x" * 100_000)
CONTENTS += (b"\xff" + COUNT.encode(), COUNT.encode("utf-16"), COUNT.encode() + b"\0", b"PATTERN " + b"(" * 9000)
ENDINGS = ("csv", "json", "parquet", "txt", "")
OPTIONS = (
    ["--time", "t"],
    [],
    ["--time", "nowhere"],
    ["--time", "t", "--type", ""],
    ["--show", "0"],
    ["--limit", "-1"],
)
OPTIONS += (["--time", "t", "--trends"], ["--time", "t", "--complete", "ends"], ["--time", "t", "--number", "string"])


@attrs.frozen
class Command(Case):
    """The command line over a file: it must answer, or end with one message."""

    content: bytes
    ending: str
    query: bytes
    options: list[str]
    place: str

    def check(self, spark: Any = None) -> None:
        with tempfile.TemporaryDirectory() as folder, within(60, 120):
            events, query = Path(folder, f"events.{self.ending}"), Path(folder, "query.txt")
            if self.place != "missing":
                events.write_bytes(self.content)
            if self.place == "folder":
                events = Path(folder, "a folder.csv")
                events.mkdir()
            query.write_bytes(self.query)
            words = ["run", f"@{query}", "--input", str(events), *self.options]
            if self.place == "output":
                words += ["--output", str(events)]
            out, said = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
                status = cli.main(words)
        if status not in (0, 2) or (status == 2) != said.getvalue().startswith("error: "):
            raise Failure(f"status {status}, and said {said.getvalue()[:300]!r}")
        if "Traceback" in said.getvalue() or "\tat " in said.getvalue():
            raise Failure(f"a traceback: {said.getvalue()[:2000]}")

    def smaller(self) -> Iterator[Case]:
        for field, plain in (("place", "here"), ("options", ["--time", "t"]), ("query", COUNT.encode())):
            if getattr(self, field) != plain:
                yield attrs.evolve(self, **{field: plain})


def command(choose: Random) -> Command:
    query = COUNT.encode() if choose.random() < 0.7 else choose.choice(CONTENTS)
    place = choose.choice(("here", "here", "here", "here", "missing", "folder", "output"))
    return Command(choose.choice(CONTENTS), choose.choice(ENDINGS), query, choose.choice(OPTIONS), place)


# ------------------------------------------------------------------------------------------ processes of their own


def run_script(
    script: str, arguments: list[str], seconds: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, with :class:`Failure` if it takes too long."""
    tests = Path(__file__).parent.parent
    path = os.pathsep.join([str(tests.parent), str(tests), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", script, *arguments]
    # A session of Spark Connect leaves variables by which another process would look for its server.
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environ = {**own, "PYTHONPATH": path, **environment}
    try:
        return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"not done after {seconds} seconds") from None


_KERNELS = """
import generators, sys, test_kernel_aggregate as kernels
case = generators.random_case(int(sys.argv[1]), kernels.FEATURES)
rows = generators.stack([case.rows])
print("checked", kernels.check(case.query, rows, case.tie_break, "string", (-1,), 0))
"""


@attrs.frozen
class Cache(Case):
    """The folder of compiled kernels, damaged, and a kernel that reads it."""

    seed: int
    damage: str
    share: float

    def check(self, spark: Any = None) -> None:
        kept = _disk.place()
        if kept is None:
            return
        choose = Random(self.seed)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(kept, folder, dirs_exist_ok=True)
            os.chmod(folder, 0o700)
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and choose.random() < self.share:
                    damage(path, self.damage, choose)
            done = run_script(_KERNELS, [str(self.seed)], 1200, NUMBA_CACHE_DIR=folder)
        if not done.stdout.startswith("checked"):
            raise Failure(f"status {done.returncode}: {done.stderr[-2000:]}")

    def smaller(self) -> Iterator[Case]:
        yield attrs.evolve(self, share=self.share / 2)


def damage(path: Path, how: str, choose: Random) -> None:
    content = bytearray(path.read_bytes())
    if how == "empty":
        content.clear()
    elif how == "truncated":
        del content[choose.randrange(len(content) + 1) :]
    elif how == "garbled" and content:
        for _ in range(8):
            content[choose.randrange(len(content))] = choose.randrange(256)
    elif how == "others":
        content[:] = choose.randbytes(200)
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to("/nowhere")
    elif how != "removed":
        path.write_bytes(content)
        path.chmod(0o666 if how == "writable" else 0o000 if how == "closed" else 0o600)


def cache(choose: Random) -> Cache:
    how = ("empty", "truncated", "garbled", "others", "folder", "link", "removed", "writable", "closed")
    # What is damaged is compiled again, which takes its time.
    return Cache(choose.getrandbits(30), choose.choice(how), choose.choice((0.02, 0.1)))


_SESSION = """
import os, resource, signal, subprocess, sys, threading, time
os.environ["PYSPARK_PYTHON"] = sys.executable
what, seed, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if what == "disk":
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from pyspark.sql import SparkSession, functions as F
import cetdsl as cet
from cetdsl.errors import recover
builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
builder = builder.config("spark.sql.shuffle.partitions", "3").config("spark.driver.memory", "2g")
if what == "memory":
    builder = builder.config("spark.executor.pyspark.memory", f"{limit}b").config("spark.python.worker.reuse", "false")
spark = builder.getOrCreate()

def killed():
    # A few of the processes that Spark's daemon has forked, each only once.
    seen = set()
    while len(seen) < 1:
        listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout
        rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
        children = {}
        for pid, parent, _ in rows:
            children.setdefault(int(parent), []).append(int(pid))
        own, left = [], [os.getpid()]
        while left:
            below = children.get(left.pop(), [])
            own += below
            left += below
        names = {int(pid): words for pid, _, words in rows}
        daemons = [pid for pid in own if "pyspark.daemon" in names[pid]]
        workers = [pid for pid in daemons if any(pid in children.get(parent, []) for parent in daemons)]
        for pid in workers[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
                seen.add(pid)
            except ProcessLookupError:
                pass
        time.sleep(0.02)

def ask(events, keys):
    df = spark.range(0, events, 1, 4).selectExpr(
        "id AS t", f"id % {keys} AS k", "IF(id % 3 = 0, 'A', 'B') AS type", "(id * 7919) % 1009 AS x")
    bound = df.pattern("PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x GROUP BY k WITHIN 90 SLIDE 30", time="t")
    rows = bound.count_trends(number="string").orderBy("k", "window").collect()
    return hash(tuple((row.k, row["window"].start, row["count"]) for row in rows)), len(rows)

os.environ["PYTHONHASHSEED"] = "0"
small = ask(3000, 7)
if what == "killed":
    threading.Thread(target=killed, daemon=True).start()
try:
    size = {"killed": 400_000, "disk": 3_000_000, "memory": 2_000_000}[what]
    one = ask(size, 7)
    print("first", one)
    print("same" if what != "killed" or ask(size, 7) == one else "DIFFERENT")
except Exception as error:
    own = recover(error)
    print("failed", type(own or error).__name__, str(own or error)[:300].replace(chr(10), " "))
if what != "disk":
    print("again" if ask(3000, 7) == small else "DIFFERENT")
print("done")
"""


@attrs.frozen
class Machine(Case):
    """A session on a machine where something runs out, or somebody kills a worker."""

    what: str
    seed: int
    limit: int

    def check(self, spark: Any = None) -> None:
        done = run_script(_SESSION, [self.what, str(self.seed), str(self.limit)], 600, PYTHONHASHSEED="0")
        if "done" not in done.stdout or "DIFFERENT" in done.stdout:
            raise Failure(f"{done.stdout[-1500:]} {done.stderr[-1500:]}")
        if self.what == "killed" and "failed" in done.stdout:
            raise Failure(f"no answer though one worker alone was killed: {done.stdout[-1500:]}")


def machine(choose: Random) -> Machine:
    what = choose.choice(("killed", "disk", "memory"))
    limit = {"killed": 0, "disk": choose.choice((1, 8)) * 2**20, "memory": choose.choice((900, 1500)) * 2**20}[what]
    return Machine(what, choose.getrandbits(16), limit)


_SIZES = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
what = sys.argv[1]
from pyspark.sql import SparkSession, functions as F
import cetdsl as cet
from cetdsl.errors import recover
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
spark = builder.config("spark.sql.shuffle.partitions", "1").config("spark.driver.memory", "6g").getOrCreate()
try:
    if what == "digits":
        events = spark.range(332_200).selectExpr("id AS t", "'B' AS type")
        [row] = events.pattern("PATTERN B+", time="t").count_trends(number="string").collect()
        sys.set_int_max_str_digits(0)
        assert len(row[0]) > 100_000 and int(row[0]) == 2**332_200 - 1
        assert float(events.pattern("PATTERN B+", time="t").count_trends(number="log2").first()[0]) == 332_200
    elif what == "strings":
        rows = spark.range(3).selectExpr("id AS t", "'B' AS type", "repeat(string(id), 100000000) AS s")
        [row] = rows.pattern("RETURN MAX(B.s) AS s PATTERN B+", time="t").aggregate().selectExpr("length(s)").collect()
        assert row[0] == 100_000_000
        listed = rows.pattern("PATTERN SEQ(B, B, B)", time="t").trends(columns=["s"])
        listed.selectExpr("length(trend[0].event.s)").collect()
    else:
        rows = spark.range(2200).selectExpr("id AS t", "'B' AS type", "repeat('x', 1000000) AS s")
        rows.pattern("RETURN MAX(B.s) AS s PATTERN SEQ(B, B)", time="t").aggregate().selectExpr("length(s)").collect()
        rows.pattern("PATTERN SEQ(B, B) WHERE B.t < 2", time="t").trends(columns=["s"]).count()
    print("answered")
except Exception as error:
    own = recover(error)
    print("ours" if own else "FOREIGN", type(own or error).__name__, str(own or error)[:1500])
"""


@attrs.frozen
class Size(Case):
    """Answers of 100,000 digits, strings of 100 MB, 2 GB of text in one key."""

    what: str

    def check(self, spark: Any = None) -> None:
        done = run_script(_SIZES, [self.what], 900)
        if not done.stdout.startswith(("answered", "ours")):
            raise Failure(f"{done.stdout[-1500:]} {done.stderr[-1500:]}")


def size(choose: Random) -> Size:
    return Size(choose.choice(("digits", "strings", "text")))


KINDS = {
    "commands": Kind(command, 4, spark=True),
    "caches": Kind(cache, 1, heavy=True),
    "machines": Kind(machine, 1, heavy=True),
    "sizes": Kind(size, 1, heavy=True),
}
