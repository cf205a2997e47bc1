"""The command line: every format in and out, and one readable message for everything that goes wrong."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from modes import QUICK_JAVA, more_on_classic

from cetdsl.cli import main
from cetdsl.errors import CommandLineError
from cetdsl.explain.stages import ON_REQUEST, STAGES
from cetdsl.java import java_problem

COUNT = "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)"
WINDOWS = COUNT + " WITHIN 10 SLIDE 10"
#: A a b b b: the known answer of SEQ(A, B+) over a1 a2 b3 b4 b5 is 14 trends.
EVENTS = [(1, "A", 5.0), (2, "A", 4.0), (3, "B", 1.0), (4, "B", 2.0), (5, "B", 3.0)]


@pytest.fixture(scope="session")
def files(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same events as Parquet, CSV and JSON, and as CSV with timestamps."""
    folder = tmp_path_factory.mktemp("cli")
    events = spark.createDataFrame(EVENTS, "t int, type string, x double")
    paths = {kind: str(folder / f"events.{kind}") for kind in ("parquet", "csv", "json")}
    events.write.parquet(paths["parquet"])
    header = "t,type,x\n"
    Path(paths["csv"]).write_text(header + "".join(f"{t},{kind},{x}\n" for t, kind, x in EVENTS))
    rows = (json.dumps({"t": t, "type": kind, "x": x}) for t, kind, x in EVENTS)
    Path(paths["json"]).write_text("\n".join(rows))
    paths["timestamps"] = str(folder / "timestamps.csv")
    Path(paths["timestamps"]).write_text(
        "ts,kind,x\n" + "".join(f"2024-01-01 00:00:0{t},{kind},{x}\n" for t, kind, x in EVENTS)
    )
    return paths


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one message that a command ends with."""
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    assert "\tat " not in said.err
    return said.err


@pytest.mark.parametrize("kind", more_on_classic("parquet", "csv", "json"))
def test_run_reads_every_format(files: dict[str, str], capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert main(["run", COUNT, "--input", files[kind], "--time", "t"]) == 0
    assert capsys.readouterr().out.split() == ["n", "--", "14"]


def test_run_reads_timestamps_from_csv(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query = COUNT + " WITHIN 1 minute SLIDE 1 minute"
    # The only timestamp column is the time, unless another is named.
    assert main(["run", query, "--input", files["timestamps"], "--type", "kind"]) == 0
    out = capsys.readouterr().out
    assert "2024-01-01 00:00 to 2024-01-01 00:01" in out
    assert "14" in out


@pytest.mark.parametrize("kind", more_on_classic("parquet", "csv", "json"))
def test_run_writes_every_format(files: dict[str, str], spark, tmp_path: Path, kind: str) -> None:
    target = str(tmp_path / f"answer.{kind}")
    assert main(["run", WINDOWS, "--input", files["csv"], "--time", "t", "--output", target]) == 0
    answer = spark.read.option("header", True).format(kind).load(target)
    assert [int(row.n) for row in answer.collect()] == [14]
    assert main(["run", WINDOWS, "--input", files["csv"], "--time", "t", "--output", target, "--overwrite"]) == 0


@pytest.mark.classic
def test_run_takes_the_query_from_a_file(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "query.txt"
    path.write_text("\ufeff-- how many\n" + COUNT, encoding="utf-8")  # as some editors begin a file
    assert main(["run", f"@{path}", "--input", files["csv"], "--time", "t", "--number", "string"]) == 0
    assert capsys.readouterr().out.split() == ["n", "--", "14"]


@pytest.mark.classic
def test_parameters_of_a_query(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, words = "PATTERN A WHERE A.x > :low AND A.type = :kind", ["--input", files["csv"], "--time", "t"]
    assert main(["run", query, *words, "--param", "low=4.5", "--param", "kind=A"]) == 0
    assert capsys.readouterr().out.split() == ["count", "-----", "1"]
    assert "hint: add --param kind=VALUE" in fails(capsys, "run", query, *words, "--param", "low=4")
    assert "no parameter :l\n  hint: write :l where" in fails(capsys, "run", "PATTERN A", *words, "--param", "l=4")
    assert "NAME=VALUE" in fails(capsys, "run", query, *words, "--param", "low")
    query = "PATTERN A WITHIN :w"
    assert main(["run", query, *words, "--param", "w=4"]) == 0
    assert capsys.readouterr().out.split() == ["count", "-----", "2"]
    assert "parameter :w: 'soon' is not a length of time" in fails(capsys, "run", query, *words, "--param", "w=soon")
    assert "hint: add --param w=VALUE" in fails(capsys, "run", query, *words)


@pytest.mark.classic
def test_a_query_without_return_is_counted(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "PATTERN SEQ(A, B+)", "--input", files["csv"], "--time", "t"]) == 0
    assert capsys.readouterr().out.split() == ["count", "-----", "14"]


def test_run_lists_trends(files: dict[str, str], spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "PATTERN SEQ(A a, B+ b[]) WHERE a.x > 4"
    assert main(["run", query, "--input", files["csv"], "--time", "t", "--trends"]) == 0
    out = capsys.readouterr().out
    assert "a(1, 5) > b(3, NULL)" in out or "a(1, 5) > b(3, 1)" in out
    assert len(out.splitlines()) == 2 + 7
    in_two_cases = "PATTERN SEQ(A a, B+ b[]) WHERE a.x > 4 AND a.X > 3 AND a.T > 0"
    assert main(["run", in_two_cases, "--input", files["csv"], "--time", "t", "--trends"]) == 0
    assert capsys.readouterr().out == out
    assert main(["run", query, "--input", files["csv"], "--time", "t", "--trends", "--limit", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 2
    target = str(tmp_path / "trends.csv")
    words = ["run", query, "--input", files["csv"], "--time", "t", "--trends", "--columns", "t", "--output", target]
    assert main(words) == 0
    rows = spark.read.csv(target, header=True, escape='"').collect()
    assert json.loads(min((row.trend for row in rows), key=len))[0] == {"variable": "a", "event": {"t": 1}}


def test_run_lists_one_match_after_the_other(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input", files["csv"], "--time", "t", "--columns", "t", "--matches"]
    assert main(["run", "PATTERN SEQ(A a, B+ b[]) MATCHING NEXT", *words]) == 0
    listed = capsys.readouterr().out.splitlines()[2:]
    assert main(["run", "PATTERN SEQ(A a, B+ b[]) MATCHING NEXT FIRST MATCH", *words]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == listed[:1]
    assert listed[0].startswith("a(1) > b(")
    assert main(["run", "PATTERN SEQ(B b, A a)", *words]) == 0
    assert capsys.readouterr().out.endswith("(no match)\n")


def test_run_lists_trends_as_rows_of_events(files: dict[str, str], spark, tmp_path: Path) -> None:
    target = str(tmp_path / "long.csv")
    words = ["run", "PATTERN SEQ(A, B)", "--input", files["csv"], "--time", "t", "--trends", "--layout", "long"]
    assert main([*words, "--columns", "t", "--output", target]) == 0
    rows = spark.read.csv(target, header=True, inferSchema=True)
    assert rows.columns == ["trend", "position", "variable", "t"]
    assert rows.count() == 2 * 2 * 3


def test_run_counts_and_lists_complete_trends(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "PATTERN SEQ(A, B+)", "--input", files["csv"], "--time", "t", "--complete"]
    assert main([*words, "maximal"]) == 0
    assert capsys.readouterr().out.split() == ["count", "-----", "2"]
    assert main([*words, "ends"]) == 0
    assert capsys.readouterr().out.split() == ["count", "-----", "8"]
    assert main([*words, "maximal", "--trends", "--columns", "t"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2 + 2
    assert "B(3) > B(4) > B(5)" in out[2]


def test_diagnose_says_why_nothing_matched(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "diagnosis.html"
    words = ["diagnose", "PATTERN SEQ(a, B+)", "--input", files["csv"], "--time", "t", "--html", str(page)]
    assert main([*words, "--sample", "100"]) == 0
    said = "a binds no event: no row has type = 'a'; 'A' occurs 2 times"
    assert said in capsys.readouterr().out
    assert "occurs 2 times" in page.read_text(encoding="utf-8")


def test_long_answers_say_that_there_is_more(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input", files["csv"], "--time", "t"]
    assert main(["run", "PATTERN (A OR B)", *words, "--trends", "--columns", "t", "--show", "3"]) == 0
    assert "the first 3 rows" in capsys.readouterr().out
    assert main(["run", "PATTERN SEQ(B, A)", *words]) == 0
    assert "(no trend; cetdsl diagnose says why)" in capsys.readouterr().out


@pytest.mark.parametrize("stage", [*STAGES, *ON_REQUEST])
def test_explain(files: dict[str, str], capsys: pytest.CaptureFixture[str], stage: str) -> None:
    assert main(["explain", COUNT, "--input", files["csv"], "--time", "t", "--stage", stage]) == 0
    assert capsys.readouterr().out.strip()


def test_pages(files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input", files["csv"], "--time", "t", "--html"]
    for command, text in (
        (["run", WINDOWS], "start of the window, t"),
        (["run", "PATTERN SEQ(A, B+)", "--trends"], "trends"),
        (["explain", COUNT], "<svg"),
    ):
        page = tmp_path / "page.html"
        assert main([*command, *words, str(page)]) == 0
        assert text in page.read_text(encoding="utf-8")
        assert f"wrote {page}" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("cetdsl ")


def test_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--help" in fails(capsys)
    assert "invalid choice: 'walk'" in fails(capsys, "walk")
    assert "--input" in fails(capsys, "run", COUNT)
    assert "not a number of rows" in fails(capsys, "run", COUNT, "--input", "a.csv", "--show", "0")
    assert "KEY=VALUE" in fails(capsys, "run", COUNT, "--input", "a.csv", "--conf", "x")
    assert "'=x' is not KEY=VALUE" in fails(capsys, "run", COUNT, "--input", "a.csv", "--conf", "=x")
    assert "'=1' is not NAME=VALUE" in fails(capsys, "run", COUNT, "--input", "a.csv", "--param", "=1")
    assert "names no column" in fails(capsys, "run", COUNT, "--input", "a.csv", "--trends", "--columns", ",")
    twice = ["run", COUNT, "--input", "a.csv", "--param", "lim=1", "--param", "lim=3"]
    assert "--param lim is given 2 times" in fails(capsys, *twice)
    assert "folder of --output" in fails(capsys, "run", COUNT, "--input", "a.csv", "--overwrite")
    of_trends = ["run", "PATTERN A", "--input", "a.csv", "--trends", "--number", "log2"]
    assert "--number speaks of counts" in fails(capsys, *of_trends)
    assert "add --trends" in fails(capsys, "run", COUNT, "--input", "a.csv", "--limit", "3")
    wrong = ["run", "PATTERN A", "--input", "a.csv", "--matches"]
    assert "one after the other" in fails(capsys, *wrong, "--complete", "ends")
    assert "not allowed with argument --matches" in fails(capsys, *wrong, "--trends")
    assert "leave RETURN out" in fails(capsys, "run", COUNT, "--input", "a.csv", "--complete", "ends")
    assert "invalid choice: 'most'" in fails(capsys, "run", COUNT, "--input", "a.csv", "--complete", "most")
    assert "does not tell its format" in fails(capsys, "run", COUNT, "--input", "events")
    assert "does not tell its format" in fails(capsys, "run", COUNT, "--input", "a.csv", "--output", "x.txt")
    assert "mixes csv and json" in fails(capsys, "run", COUNT, "--input", "a.csv", "b.json.gz")
    assert "cannot read the query" in fails(capsys, "run", "@/no/such/file", "--input", "a.csv")


def test_a_wrong_query_is_pointed_at(capsys: pytest.CaptureFixture[str]) -> None:
    message = fails(capsys, "run", "PATTERN SEQ(A, )", "--input", "a.csv", "--time", "t")
    assert "line 1: PATTERN SEQ(A, )" in message
    assert "^" in message
    assert "hint: " in message


def test_wrong_input(files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", COUNT, "--time", "t", "--input"]
    assert "/no/such.parquet" in fails(capsys, *words, "/no/such.parquet")
    torn = tmp_path / "torn.json"
    torn.write_text('[\n{"a":\n')
    assert "one object per line" in fails(capsys, *words, str(torn))
    assert "did you mean 't'?" in fails(capsys, "run", COUNT, "--time", "tt", "--input", files["csv"])
    missing = fails(capsys, "run", COUNT + " WHERE B.xx > 3 AND B.y < 2", "--time", "t", "--input", files["csv"])
    assert "'xx'" in missing
    assert "'y'" in missing
    target = tmp_path / "taken.csv"
    target.mkdir()
    message = fails(capsys, *words, files["csv"], "--output", str(target))
    assert "exists already" in message
    assert "--overwrite" in message


EVENT_LINES = "t,type\n" + "".join(f"{t},{kind}\n" for t, kind, _ in EVENTS)


@pytest.mark.parametrize(
    ("read", "output"),
    [
        ("e.csv", "e.csv"),
        ("in.csv", "./x/../in.csv"),
        ("in.csv", "in.csv/answer.csv"),
        ("out.csv/in/e.csv", "out.csv"),
        ("*.csv", "in.csv"),
        ("{[^a-h]n,no}.csv", "file:in.csv"),
        ("out.csv/*/e.csv", "out.csv"),
        (r"x\[1\].csv", "x[1].csv"),
        ("link.csv", "in.csv"),
        ("s3a://bucket/all/e.csv", "s3a://bucket/all/e.csv/"),
    ],
)
def test_what_is_read_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], read: str, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cetdsl.cli.spark_session", None)  # nothing is run
    kept = [Path("e.csv"), Path("in.csv/e.csv"), Path("out.csv/in/e.csv"), Path("x[1].csv/e.csv")]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(EVENT_LINES)
    Path("link.csv").symlink_to("in.csv")
    said = fails(capsys, "run", COUNT, "--input", "other.csv", read, "--output", output, "--overwrite")
    assert f"--overwrite would replace {output}, of which --input {read} reads" in said
    assert "hint: name another folder after --output" in said
    assert all(path.read_text() == EVENT_LINES for path in kept)


def test_a_file_is_not_replaced(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cetdsl.cli.spark_session", None)
    kept = tmp_path / "keep.csv"
    kept.write_text("precious")
    for more in ([], ["--overwrite"]):
        said = fails(capsys, "run", COUNT, "--input", files["csv"], "--output", str(kept), *more)
        assert "keep.csv is a file, and --overwrite replaces folders of answers only" in said
    assert kept.read_text() == "precious"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("events.csv", "--html would replace events.csv, or lie in it, and --input reads it"),
        ("folder/page.html", "--html would replace folder, or lie in it, and --input reads it"),
        ("query.txt", "--html would replace query.txt, or lie in it, and QUERY reads it"),
        ("other", "other is a folder"),
        ("nowhere/page.html", "nowhere/page.html is in no folder: there is no nowhere"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "diagnose", "run"])
def test_a_page_replaces_nothing_that_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    page: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cetdsl.cli.spark_session", None)  # nothing is run
    for folder in ("folder", "other"):
        Path(folder).mkdir()
    Path("events.csv").write_text(EVENT_LINES)
    Path("query.txt").write_text(WINDOWS)
    message = fails(capsys, command, "@query.txt", "--input", "events.csv", "folder", "--html", page)
    assert said in message
    assert "name a" in message
    assert (Path("events.csv").read_text(), Path("query.txt").read_text()) == (EVENT_LINES, WINDOWS)


def test_what_is_beside_the_input_is_replaced(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "events.csv").write_text(EVENT_LINES)
    target = tmp_path / "events.csv.answers.csv"
    for _ in range(2):
        words = ["--input", str(tmp_path / "events.csv"), "--time", "t", "--output", str(target), "--overwrite"]
        assert main(["run", COUNT, *words]) == 0


@pytest.mark.skipif(os.name == "nt", reason="files have no such names there")
def test_files_are_read_whatever_their_names(tmp_path: Path, spark, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is there is no pattern, and what else is in its folder does not matter."""
    (tmp_path / "a:b.csv").write_text(EVENT_LINES)
    for name in ("x[1].csv", "{a,b}*?.csv", "b\\c.csv"):
        (tmp_path / name).write_text(EVENT_LINES)
        assert main(["run", COUNT, "--input", str(tmp_path / name), "--time", "t"]) == 0
        assert capsys.readouterr().out.split() == ["n", "--", "14"]


def test_a_header_without_rows(tmp_path: Path, spark, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "header.csv"
    path.write_text("t,type\n")
    for words in (["run"], ["run", "--time", "t"], ["explain", "--time", "t"]):
        said = fails(capsys, words[0], COUNT, *words[1:], "--input", str(path))
        assert "header.csv has no rows below its header" in said
        assert "hint: give a file with events" in said


def test_csv_in_another_encoding(
    files: dict[str, str], tmp_path: Path, spark, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cities.csv"
    path.write_bytes("t,type,city\n1,A,\xfc\n2,A,\xf6\n".encode("latin-1"))
    words = ["run", "PATTERN A GROUP BY city", "--time", "t", "--input", str(path)]
    assert main([*words, "--encoding", "iso-8859-1"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert sorted(row.split() for row in rows) == [["\xf6", "1"], ["\xfc", "1"]]
    assert "invalid choice: 'UTF-16'" in fails(capsys, *words, "--encoding", "utf-16")
    said = fails(capsys, "run", COUNT, "--input", files["json"], "--encoding", "ISO-8859-1")
    assert "--encoding speaks of CSV, and the files are json" in said


def test_values_of_csv_may_have_line_breaks(tmp_path: Path, spark, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "notes.csv", tmp_path / "out.csv"
    path.write_text('type,t,note\nA,1,"first line\nB,2,second line"\nB,3,"a ""b"" c"\nB,4,5" pipe\n')
    assert main(["run", "PATTERN SEQ(A, B)", "--time", "t", "--input", str(path)]) == 0
    assert capsys.readouterr().out.split()[-1] == "2"
    words = ["run", "PATTERN A GROUP BY note", "--time", "t", "--input", str(path), "--trends", "--layout", "long"]
    assert main([*words, "--output", str(out)]) == 0
    assert main(["run", "PATTERN A GROUP BY note", "--time", "t", "--input", str(out)]) == 0
    assert "B,2,second line" in capsys.readouterr().out


def test_names_that_a_header_has_twice(tmp_path: Path, spark, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("ts,TS,type\n1,2,A\n")
    said = fails(capsys, "run", COUNT, "--input", str(path), "--time", "ts")
    assert "has the columns ts0, TS1, type: its first line has 'ts' more than once" in said
    assert "which are its first line" not in said


def test_an_error_of_a_worker_is_one_message(tmp_path: Path, spark, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "many.parquet")
    spark.range(200).selectExpr("id AS t", "'B' AS type", "double(id) AS x").write.parquet(path)
    message = fails(capsys, "run", "PATTERN B+", "--input", path, "--time", "t")
    assert "--number string" in message, "the message names the way out"
    rising = "PATTERN B+ b[] WHERE b.x < NEXT(b).x"
    assert "--number string" in fails(capsys, "run", rising, "--input", path, "--time", "t")
    null = str(tmp_path / "null.csv")
    Path(null).write_text("t,type\n1,A\n,B\n")
    assert "--on-null-time skip" in fails(capsys, "run", COUNT, "--input", null, "--time", "t")
    assert main(["run", COUNT, "--input", null, "--time", "t", "--on-null-time", "skip"]) == 0


def test_verbose_shows_where_an_error_came_from() -> None:
    with pytest.raises(ValueError, match="a pattern is missing"):
        main(["run", "PATTERN SEQ(A, )", "--input", "a.csv", "--verbose"])


# --- Starting Spark ----------------------------------------------------------------------------------------------


def process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python as a process of its own, which has to start Spark."""
    started = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA, **environment}
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_TESTING", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        started.pop(name, None)
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=started, check=False, timeout=300
    )


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return process("-m", "cetdsl", *words, **environment)


def test_a_process_prints_the_answer_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("t,type\n" + "".join(f"{t},{kind}\n" for t, kind, _ in EVENTS))
    done = command("run", COUNT, "--input", str(path), "--time", "t", "--master", "local[1]")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["n", "--", "14"], "")


@pytest.mark.skipif(os.name == "nt", reason="no file of Windows has a colon in its name")
def test_names_with_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("new:files")
    folder.mkdir()
    arrive(folder, "2024-01-01T00:00", (1, "A"), (2, "B"), (12, "A"))
    arrive(Path(), "12:30", (3, "B"))
    read = ["--input", "new:files/2024-01-01T00:00.csv", "12:30.csv", "--output", "12:31.csv"]
    on = ["--master", "local[1]"]
    # One process, and so one Java, for both commands; each has a session of its own.
    commands = [["run", COUNT, *read, "--time", "ts", *on], ["run", *FOLLOW, "--follow", str(folder), *on]]
    done = process(
        "-c", f"from cetdsl.cli import main; raise SystemExit([main(words) for words in {commands}] != [0, 0])"
    )
    assert (done.returncode, done.stderr) == (0, "wrote 12:31.csv\n")
    [answer] = Path("12:31.csv").glob("part-*")
    assert answer.read_text() == "n\n3\n"
    assert done.stdout.split()[-1] == "1"


@pytest.mark.classic
def test_a_terminal_that_lacks_letters(spark, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", shown)
    words = ["explain", "PATTERN \xc4", "--input", files["csv"], "--time", "t", "--stage", "parsed"]
    assert main(words) == 0
    shown.flush()
    assert b"\\xc4" in shown.buffer.getvalue()


@pytest.fixture
def fake_java(tmp_path: Path) -> str:
    """A JAVA_HOME whose Java is too old."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    return str(home)


@pytest.mark.skipif(os.name == "nt", reason="the fake Java is a shell script")
def test_a_java_that_is_too_old_or_missing_is_one_message(fake_java: str) -> None:
    words = ["run", COUNT, "--input", "a.csv", "--time", "t"]
    old = command(*words, JAVA_HOME=fake_java)
    assert old.returncode == 2
    assert "is version 11; Spark needs 17 or newer" in old.stderr
    assert "Traceback" not in old.stderr
    none = command(*words, JAVA_HOME="", PATH="/nowhere")
    assert none.returncode == 2
    assert "Java was not found" in none.stderr
    assert "apt-get install openjdk-17" in none.stderr


@pytest.mark.skipif(os.name == "nt", reason="the fake Java is a shell script")
def test_a_newer_java_on_the_path_is_pointed_at(fake_java: str, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    java = newer / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    assert java_problem({"PATH": str(newer)}) is None
    message, hint = java_problem({"PATH": str(newer), "JAVA_HOME": fake_java})
    assert "version 11" in message
    assert "unset JAVA_HOME" in hint
    java.write_text("#!/bin/sh\necho 'No Java runtime present' >&2\nexit 1\n")
    assert "does not start" in java_problem({"PATH": str(newer)})[0]


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    """A folder with one file of events, the last of which closes the first window."""
    folder = tmp_path / "events"
    folder.mkdir()
    arrive(folder, "one", (1, "A"), (3, "B"), (4, "B"), (12, "A"))
    return folder


def arrive(folder: Path, name: str, *events: tuple[int, str]) -> None:
    lines = (f"2024-01-01 00:00:{second:02},{kind}\n" for second, kind in events)
    (folder / f"{name}.csv").write_text("ts,type\n" + "".join(lines))


FOLLOW = (COUNT + " WITHIN 10 seconds SLIDE 10 seconds", "--time", "ts", "--delay", "1 second", "--once")


def test_columns_of_files_are_those_of_their_headers(
    followed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark would read them by their places, and take one column for another without a word."""
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("t,type,x,y\n1,A,0,0\n2,B,1,1000\n")
    two.write_text("t,type,y,x\n3,A,0,0\n4,B,1000,1\n")
    query = "RETURN SUM(B.x) PATTERN SEQ(A, B)"
    assert main(["run", query, "--time", "t", "--input", str(one)]) == 0
    capsys.readouterr()
    said = fails(capsys, "run", query, "--time", "t", "--input", str(one), str(two))
    assert re.search(r"/two.csv does not fit the columns of the other files: it has t, type, .*, and not t, type", said)
    two.write_text("t,type,x\n3,A,0\n")
    said = fails(capsys, "run", query, "--time", "t", "--input", str(one), str(two))
    assert re.search(r"/(one|two).csv does not fit the columns of the other files: it has [34] of them, and not", said)


def test_a_parquet_file_of_another_type_is_named(spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, kind in ("one", "int"), ("two", "string"):
        rows = spark.range(1).selectExpr("0 AS t", "'A' AS type", f"cast(id AS {kind}) AS x")
        rows.write.parquet(str(tmp_path / f"{name}.parquet"))
    words = ["run", "PATTERN A WHERE A.x > 0", "--time", "t", "--input"]
    said = fails(capsys, *words, *(str(tmp_path / f"{name}.parquet") for name in ("one", "two")))
    assert "does not fit the columns of the other files: 'x' is of Parquet's type" in said
    assert "hint: give files of the same columns" in said


def test_a_value_that_is_no_time_is_named(followed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (followed / "bad.csv").write_text("ts,type\nlater,B\n")
    for told in (["--follow", str(followed), *FOLLOW[3:]], ["--input", str(followed)]):
        said = fails(capsys, "run", *FOLLOW[:3], *told, *(["--format", "csv"] if "--input" in told else []))
        assert "'later' in bad.csv is no time" in said
    (followed / "bad.csv").unlink()
    for delay in ("soon", "-1 second"):
        said = fails(capsys, "run", *FOLLOW[:3], "--follow", str(followed), "--delay", delay, "--once")
        assert f"--delay {delay!r} is no length of time" in said


@pytest.mark.classic  # a function of Python runs for each micro-batch, on Connect elsewhere
def test_a_folder_is_followed_and_each_run_goes_on(
    spark, followed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    followed = followed.rename(tmp_path / "events[1]")  # a name that is no pattern
    words = ["run", *FOLLOW, "--follow", str(followed), "--checkpoint", str(tmp_path / "checkpoint")]
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out.split("\n")[2:] == ["2024-01-01 00:00 to 2024-01-01 00:00:10  3", ""]
    assert said.err == ""
    arrive(followed, "two", (2, "B"), (13, "B"), (25, "A"))
    assert main(["TS" if word == "ts" else word for word in words]) == 0
    said = capsys.readouterr()
    assert said.out.split("\n")[2:] == ["2024-01-01 00:00:10 to 2024-01-01 00:00:20  1", ""]
    assert said.err == "late events dropped: 1; a longer --delay waits for them\n"


@pytest.mark.classic
def test_state_is_whole_where_few_rows_are_shown(
    spark, followed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark asks no more tasks for rows once it has enough of them."""
    query = FOLLOW[0].replace("WITHIN", "GROUP BY k WITHIN")
    words = ["run", query, *FOLLOW[1:], "--follow", str(followed), "--show", "1"]
    words += ["--checkpoint", str(tmp_path / "checkpoint")]
    for name, begin in (("one", 0), ("two", 20)):
        events = ((begin, "A"), (begin + 1, "B"), (begin + 12, "A"))
        lines = [f"2024-01-01 00:00:{second:02},{kind},{key}\n" for key in range(40) for second, kind in events]
        (followed / f"{name}.csv").write_text("ts,type,k\n" + "".join(lines))
        assert main(words) == 0
        assert "(the first 1 rows of this batch; --show gives more)" in capsys.readouterr().out


@pytest.mark.classic
def test_columns_of_what_is_followed_stay_as_they_were(
    spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their types are part of what state means, so that no later file may change what is guessed."""
    folder = tmp_path / "events"
    folder.mkdir()

    def comes(name: str, *events: tuple[int, str, object]) -> None:
        lines = (f"2024-01-01 00:00:{second:02},{kind},{price}\n" for second, kind, price in events)
        (folder / name).write_text("event.time,type,price\n" + "".join(lines))

    query = FOLLOW[0].replace("COUNT(*) AS n", "SUM(B.price) AS s")
    words = ["run", query, "--follow", str(folder), "--time", "event.time", *FOLLOW[3:]]
    words += ["--checkpoint", str(tmp_path / "checkpoint{1}[2]")]
    comes("one.csv", (1, "A", 1), (3, "B", 2.5), (12, "A", 1))
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(" 00:00:10  2.5\n")
    (folder / "one.csv").unlink()
    comes("two.csv", (13, "B", 3), (25, "A", 1))
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(" 00:00:20  3\n")
    comes("three.csv", (26, "B", "dear"), (40, "A", 1))
    said = fails(capsys, *words)
    assert 'three.csv does not fit the columns of the first files: For input string: "dear"' in said
    assert "correct the file, or begin with another --checkpoint" in said
    comes("three.csv", (26, "B", 4), (40, "A", 1))
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(" 00:00:30  4\n")


@pytest.mark.classic
def test_an_interrupt_stops_what_follows_a_folder(
    spark, followed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It says nothing, whatever Java was asked just then."""
    words = [word for word in FOLLOW if word != "--once"]
    begun = tmp_path / "checkpoint" / "commits" / "0"

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    Thread(target=interrupt).start()
    assert main(["run", *words, "--follow", str(followed), "--checkpoint", str(begun.parents[1])]) == 130
    assert "Traceback" not in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is handler
    assert not spark.streams.active


@pytest.mark.parametrize(("more", "shares"), [((), "8"), (("--conf", "spark.sql.shuffle.partitions=3"), "3")])
def test_a_folder_is_followed_in_few_shares(
    followed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    shares: str,
) -> None:
    def session(*, configuration: dict[str, str], **_: Any) -> None:
        raise CommandLineError(f"shares: {configuration['spark.sql.shuffle.partitions']}", hint="enough is known")

    monkeypatch.setattr("cetdsl.cli.spark_session", session)
    assert f"shares: {shares}\n" in fails(capsys, "run", *FOLLOW, "--follow", str(followed), *more)


@pytest.mark.classic
def test_what_cannot_be_followed(
    files: dict[str, str], followed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query, folder = FOLLOW[0], str(followed)
    assert "one of the arguments --input --follow is required" in fails(capsys, "run", query)
    assert "--follow must know how long to wait" in fails(capsys, "run", query, "--follow", folder, "--time", "ts")
    told = ("--follow", folder, "--delay", "1 second")
    assert "--follow must know the time column" in fails(capsys, "run", query, *told)
    assert "--follow prints answers" in fails(capsys, "run", query, *told, "--time", "ts", "--output", "x.csv")
    assert "speak of a folder" in fails(capsys, "run", query, "--input", files["csv"], "--once")
    for kept, why in (
        (folder, "lies in the folder"),
        (f"{folder}/kept", "lies in the folder"),
        (files["csv"], "is a file"),
    ):
        assert why in fails(capsys, "run", query, *told, "--time", "ts", "--checkpoint", kept)
    (followed / "notes.txt").touch()
    assert "the name 'notes.txt' after --follow does not tell its format" in fails(
        capsys, "run", query, *told, "--time", "ts"
    )
    (followed / "notes.txt").unlink()
    (tmp_path / "empty").mkdir()
    empty = ("--follow", str(tmp_path / "empty"), "--delay", "1 second", "--time", "ts")
    assert "holds no file that tells the columns" in fails(capsys, "run", query, *empty)
    (tmp_path / "ticks").mkdir()
    (tmp_path / "ticks" / "one.csv").write_text("t,type\n1,A\n")
    ticks = ("--follow", str(tmp_path / "ticks"), "--delay", "1 second", "--time", "T")
    assert "--follow needs a timestamp" in fails(capsys, "run", query, *ticks)
    assert "a query without a window is never answered" in fails(capsys, "run", COUNT, *told, "--time", "ts")
    said = fails(capsys, "run", query, *told, "--time", "type")
    assert "'A' in one.csv is no time" in said
    assert "name another column after --time" in said
