"""The command ``cetdsl``: ask a query of files, explain or diagnose it, run the demo, or compile the kernels."""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import json
import os
import platform
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, NoReturn, TypeVar

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    ArrayType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import cetdsl as cet
from cetdsl.demo import run_demo
from cetdsl.errors import SHARES, CetdslError, CommandLineError, nearest
from cetdsl.execution.compat import condition_of, is_of_spark
from cetdsl.explain.stages import ON_REQUEST, STAGES, Explanation
from cetdsl.explain.timeline import require_plotly
from cetdsl.frontend import sase
from cetdsl.frontend.diagnosis import USUAL_SAMPLE, Diagnosis
from cetdsl.frontend.patterns import QueryTerm
from cetdsl.frontend.session import PatternFrame
from cetdsl.frontend.watch import micro_batches
from cetdsl.ir.accumulators import NUMBERS
from cetdsl.paths import as_written, in_full, lies_in, literal, place_of, share_files
from cetdsl.pattern.expressions import Literal, attributes
from cetdsl.pattern.nodes import events as events_of
from cetdsl.pattern.query import ANY
from cetdsl.pattern.text import in_backquotes
from cetdsl.session import first_line, readable, spark_session
from cetdsl.tables import table

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
#: CSV as everyone else writes it: with a header, and a quote inside quotes doubled. Spark would read the columns of a
#: file whose header names them in another order by their places, and so take one for another; it stops there instead.
CSV = {"header": "true", "escape": '"', "enforceSchema": "false"}
#: Whether a line begins or ends a value that has a line break. Spark reads these only in files that it does not split.
_OPEN_QUOTE = "(length(value) - length(replace(value, '\"', ''))) % 2 = 1"
#: Into so many shares of the keys the state of a folder that is followed is cut, unless --conf says otherwise: few, as
#: each takes time, and as many on any machine, as a checkpoint goes with one number of them.
_SHARES = 8
_Value = TypeVar("_Value")
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".snappy", ".lz4")

#: The file in what Spark says of one that it could not read.
_UNREAD = re.compile(
    r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S.*?)\.\s+(?:Data type mismatch|SQLSTATE)"
)
#: The columns of a CSV file that are not those of the schema, by their names or their number, and those that are.
_OTHER_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (.+)\s+Schema: (.+)"
    r"|Number of column in CSV header .*\s+Header length: (\d+), schema size: (\d+)"
)
#: The column of a Parquet file that is not of the schema's type, that type, and its own.
_OTHER_TYPE = re.compile(r"Parquet column \[(.+?)\]\. Expected Spark type (\S+), actual Parquet type (\w+)")
#: What to do where Spark cannot read files.
_HINTS_OF_FILES = {
    "PATH_NOT_FOUND": "check the path; one that is not on this machine begins with its scheme, such as s3a://",
    "UNABLE_TO_INFER_SCHEMA": "give files that have rows",
}
#: What Hadoop says of a path that it takes for one with a scheme.
_NO_URI = "Relative path in absolute URI"
_HINT_OF_COLONS = (
    "check the path; Hadoop finds no names with a colon by patterns: give such files one by one, or their folder"
)
#: The arguments of Python that hints name and that are options here.
_ARGUMENT = re.compile(r"\b(number|on_null_time|layout)='(\w+)'")
#: What messages say of Python that has another name here.
_OF_PYTHON = {"sample=": "--sample", "matches()": "--matches", "with spark.read": "by --input"}
_EXAMPLES = """\
examples:
  cetdsl run "PATTERN SEQ(A, B+ b[]) WHERE b.price < NEXT(b).price WITHIN 1 hour SLIDE 10 min" \\
      --input trades.parquet --time ts --type kind
  cetdsl run @query.txt --input 'events/*.csv' --time ts --number string --output counts.csv
  cetdsl run @query.txt --follow events/ --time ts --delay '10 minutes'
  cetdsl explain @query.txt --input events.parquet --stage physical
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the words after ``cetdsl``, by default those of this process.

    The exit status is 0, 2 after an error that is printed as one message, or 130 after an interrupt.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    cetdsl ...
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not have all letters of the events
    words = list(sys.argv[1:] if arguments is None else arguments)
    verbose = "--verbose" in words
    try:
        chosen = _parser().parse_args(words)
        chosen.action(chosen)
        sys.stdout.flush()
    except SystemExit as finished:  # argparse ends like this after --help
        return int(finished.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; nothing is left to be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if verbose or not _is_expected(error):
            raise
        print(f"error: {_with_options(readable(error))}", file=sys.stderr)
        return 2
    return 0


def _with_options(message: str) -> str:
    """Returns a message of the library in the words of the command line.

    Examples
    --------
    >>> _with_options("leave these rows out with on_null_time='skip'")
    'leave these rows out with --on-null-time skip'
    >>> _with_options("ask for matches()")
    'ask for --matches'
    """
    for python, option in _OF_PYTHON.items():
        message = message.replace(python, option)
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2]}", message)


def _is_expected(error: Exception) -> bool:
    """Whether an error is about the query, the data or the machine, and not a defect of cetdsl."""
    return isinstance(error, (CetdslError, OSError)) or is_of_spark(error)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandLineError(message, hint=f"{self.prog} --help lists what it takes")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="cetdsl",
        description="Event patterns over Parquet, CSV and JSON files, on Spark.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the versions of cetdsl and what it runs on")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="answer a query", description="Answer a query over files.")
    run.set_defaults(action=_run)
    _add_query(run, follows=True)
    run.add_argument(
        "--delay", metavar="TIME", help="with --follow: how long to wait for late events, such as '10 minutes'"
    )
    run.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="with --follow: keep here how far it came, and go on from there; otherwise it begins anew each time",
    )
    run.add_argument("--once", action="store_true", help="with --follow: end when all files that are there are read")
    run.add_argument(
        "--number",
        choices=NUMBERS,
        default=NUMBERS[0],
        help="the form of counts: exact decimal (default), exact string, rounded double, or its log2",
    )
    listed = run.add_mutually_exclusive_group()
    listed.add_argument("--trends", action="store_true", help="list the trends themselves instead of aggregating them")
    listed.add_argument(
        "--matches", action="store_true", help="find one match after the other, as MATCH_RECOGNIZE does, and list them"
    )
    run.add_argument(
        "--complete",
        choices=("maximal", "ends"),
        help="count, or with --trends list, only trends that are not part of another one, in one of two meanings",
    )
    run.add_argument("--limit", type=_positive, metavar="N", help="with --trends or --matches: any N of them")
    run.add_argument(
        "--columns", type=_names, metavar="COL,COL", help="with --trends or --matches: the columns to keep of an event"
    )
    run.add_argument(
        "--layout",
        choices=("nested", "wide", "long"),
        default="nested",
        help="with --trends or --matches: a row per trend with an array of events (default) or with columns by "
        "variable, or a row per event",
    )
    target = run.add_mutually_exclusive_group()
    target.add_argument(
        "--output", metavar="PATH", help="write the answer to this folder, in the format its ending names"
    )
    target.add_argument("--show", type=_positive, default=20, metavar="N", help="print the first N rows (default 20)")
    run.add_argument(
        "--html",
        metavar="FILE",
        help="also draw the answer as a web page: with --trends up to --limit of them over time (default 20), else how "
        "many each window has; needs the extra plot",
    )
    run.add_argument("--overwrite", action="store_true", help="replace the folder of --output, unless it is read")

    explain = commands.add_parser("explain", help="show how a query runs", description="Show how a query would run.")
    explain.set_defaults(action=_explain)
    _add_query(explain)
    explain.add_argument(
        "--stage",
        choices=(*STAGES, *ON_REQUEST),
        help="one stage only; by default the first five of them. trends, matches: how these are found. complete, "
        "complete_count, sample, top: how complete trends are listed, counted, drawn, and found by weight, the longest "
        "first. survey: what their graphs hold, which runs a job",
    )

    explain.add_argument(
        "--measured",
        action="store_true",
        help="run the plan as far as each of its steps, and tell the rows and seconds of each",
    )
    explain.add_argument("--html", metavar="FILE", help="also write it as a web page, with pictures")

    diagnose = commands.add_parser(
        "diagnose", help="say why nothing matched", description="Say which part of a query no events meet."
    )
    diagnose.set_defaults(action=_diagnose)
    _add_query(diagnose)
    diagnose.add_argument(
        "--sample", type=_positive, metavar="N", help=f"count trends over about N events (default {USUAL_SAMPLE:,})"
    )
    diagnose.add_argument("--html", metavar="FILE", help="also write what is found as a web page")

    demo = commands.add_parser(
        "demo", help="a tour on real flights", description="Aircraft whose departure delay keeps growing within a day."
    )
    demo.set_defaults(action=_demo)
    demo.add_argument("--output", metavar="DIR", help="also write the answers into this folder; otherwise none is used")
    _add_spark(demo)

    warm = commands.add_parser(
        "warm-up",
        help="compile the kernels",
        description="Compile the kernels, so that no later query of this user waits for it.",
    )
    warm.set_defaults(action=_warm_up)
    _add_spark(warm)
    return parser


def _add_query(parser: argparse.ArgumentParser, follows: bool = False) -> None:
    parser.add_argument("query", metavar="QUERY", help="the text of the query, or @FILE to read it from a file")
    parser.set_defaults(follow=None)
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        type=_parameter,
        metavar="NAME=VALUE",
        help="the constant that stands for :NAME in the query: written as in a query, or else a text",
    )
    events = parser.add_mutually_exclusive_group(required=True)
    events.add_argument("--input", nargs="+", metavar="FILE", help="files, folders or patterns of them")
    if follows:
        events.add_argument(
            "--follow",
            metavar="DIR",
            help="answer files as they are moved into this folder, and print what is new; one must be there already",
        )
    parser.add_argument("--format", choices=("parquet", "csv", "json"), help="when the endings do not tell")
    parser.add_argument(
        "--encoding",
        type=str.upper,
        choices=("UTF-8", "ISO-8859-1"),
        default="UTF-8",
        help="how CSV files spell letters (default UTF-8; ISO-8859-1 is also known as Latin-1)",
    )
    parser.add_argument("--time", metavar="COL", help="the time column; by default the only timestamp column")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--type", default="type", metavar="COL", help="the column of event types (default: type)")
    kind.add_argument("--no-type", dest="type", action="store_const", const=None, help="every event is of every type")
    parser.add_argument("--tie-break", type=_names, metavar="COL,COL", help="columns that order events of equal time")
    parser.add_argument(
        "--on-null-time", choices=("error", "skip"), default="error", help="what to do with rows without time"
    )
    _add_spark(parser)


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="where Spark runs; by default all cores of this machine")
    parser.add_argument(
        "--conf", action="append", default=[], type=_setting, metavar="KEY=VALUE", help="a Spark setting"
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show Spark's log, and the traceback of an error (the exit status is then 1)",
    )


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        versions = [f"{name} {_version(name)}" for name in ("pyspark", "numba")]
        print(", ".join([f"cetdsl {cet.__version__}", *versions, f"Python {platform.python_version()}"]))
        parser.exit()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


#: Spark counts the rows that it gives in 32 bits, and one more than shown is asked for.
_MOST_ROWS = 2**31 - 1


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < _MOST_ROWS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names no column")
    return names


def _setting(text: str) -> tuple[str, str]:
    return _assigned(text, "KEY=VALUE")


def _parameter(text: str) -> tuple[str, Literal]:
    name, value = _assigned(text, "NAME=VALUE")
    return name, sase.parse_constant(value)


def _assigned(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not {form}")
    return name, value


def _once_each(option: str, given: Sequence[tuple[str, _Value]]) -> dict[str, _Value]:
    """Returns values by name; raises if a name is given twice."""
    for name, times in Counter(name for name, _ in given).items():
        if times > 1:
            raise CommandLineError(f"{option} {name} is given {times} times", hint="give it once")
    return dict(given)


def _session(chosen: argparse.Namespace) -> Any:
    configuration = _once_each("--conf", chosen.conf)
    if getattr(chosen, "follow", None):
        configuration = {SHARES: str(_SHARES), **configuration}
    return spark_session(master=chosen.master, configuration=configuration, verbose=chosen.verbose)


def _run(chosen: argparse.Namespace) -> None:
    lists = chosen.trends or chosen.matches
    if not lists and (chosen.limit or chosen.columns or chosen.layout != "nested"):
        raise CommandLineError("--limit, --columns and --layout speak of trends", hint="add --trends or --matches")
    if lists and chosen.number != NUMBERS[0]:
        raise CommandLineError("--number speaks of counts and sums", hint="leave it out, or --trends and --matches")
    if chosen.complete and chosen.matches:
        raise CommandLineError("--complete is about all trends, and --matches about one after the other")
    query = _query(chosen)
    if chosen.complete and not chosen.trends and query.node.returning:
        raise CommandLineError(
            "--complete counts trends, and RETURN asks for aggregates over all of them",
            hint="leave RETURN out, or add --trends to list the complete trends",
        )
    _check_following(chosen)
    _check_drawing(query, chosen)
    output = _format(chosen.output, "--output") if chosen.output else None
    _check_page(chosen)
    _check_replacing(chosen)
    inputs = _common_format(chosen)
    with _session(chosen) as spark, _naming_files(chosen):
        events = _events(spark, inputs, query, chosen)
        bound = _bind(events, query, chosen)
        if lists:
            columns = chosen.columns or (None if output else _mentioned(query, chosen.time))
            shape = {"limit": chosen.limit, "columns": columns, "layout": chosen.layout}
            if chosen.matches:
                answer = bound.matches(**shape)
            else:
                answer = bound.complete_trends(chosen.complete, **shape) if chosen.complete else bound.trends(**shape)
        elif chosen.complete:
            answer = bound.count_complete_trends(chosen.complete, number=chosen.number)
        elif query.node.returning:
            answer = bound.aggregate(number=chosen.number)
        else:
            answer = bound.count_trends(number=chosen.number)
        if chosen.follow:
            _follow(answer, events.schema, chosen)
        elif output:
            _write(answer, output, chosen)
        else:
            _show(answer, chosen.show, _why_none(query, chosen))
        if chosen.html:
            figure = cet.timeline(bound, chosen.limit or 20) if chosen.trends else cet.window_counts(bound)
            _write_page(figure, chosen.html, include_plotlyjs=True)


def _check_drawing(query: Any, chosen: argparse.Namespace) -> None:
    """Refuses to draw what has no picture, before anything runs."""
    if not chosen.html:
        return
    require_plotly()
    if chosen.follow or chosen.complete or chosen.matches:
        others = "matches that are taken one at a time" if chosen.matches else "complete trends"
        what = "--follow prints answers as they come" if chosen.follow else f"of {others} there is no picture"
        raise CommandLineError(f"--html draws one answer of all trends, and {what}", hint="leave --html out")
    window = query.node.window
    if not chosen.trends and (window is None or window.slide is None):
        raise CommandLineError(
            "--html draws how many trends each window has, and the query has no windows",
            hint="add WITHIN ... SLIDE ... to the query, or --trends to draw trends over time",
        )


def _check_following(chosen: argparse.Namespace) -> None:
    """Refuses what goes with a folder that is followed where none is, and the other way round."""
    if not chosen.follow:
        if chosen.delay or chosen.checkpoint or chosen.once:
            raise CommandLineError("--delay, --checkpoint and --once speak of a folder", hint="give it with --follow")
        return
    if not chosen.delay:
        raise CommandLineError(
            "--follow must know how long to wait for late events",
            hint="add --delay '10 minutes', or --delay '0 seconds' where events come in order of time",
        )
    if not chosen.time:
        raise CommandLineError("--follow must know the time column", hint="name it with --time")
    if chosen.output:
        raise CommandLineError(
            "--follow prints answers, and --output writes a folder once",
            hint="leave --output out, or write the stream in Python: answer.writeStream.format('parquet').start(...)",
        )
    if not chosen.checkpoint:
        return
    hint = "name a folder of its own after --checkpoint"
    if lies_in(chosen.checkpoint, chosen.follow):
        raise CommandLineError(
            f"--checkpoint {chosen.checkpoint} lies in the folder that --follow reads, as if its files were events",
            hint=hint,
        )
    place = place_of(chosen.checkpoint)
    if isinstance(place, Path) and place.is_file():
        raise CommandLineError(f"{chosen.checkpoint} is a file, and --checkpoint is a folder", hint=hint)


def _check_replacing(chosen: argparse.Namespace) -> None:
    """Refuses to replace what is read, or a file of the user, before anything runs."""
    if not chosen.output:
        if chosen.overwrite:
            raise CommandLineError("--overwrite replaces the folder of --output", hint="name it with --output")
        return
    hint = "name another folder after --output"
    read = [path for path in chosen.input if share_files(chosen.output, path)] if chosen.overwrite else []
    if read:
        raise CommandLineError(
            f"--overwrite would replace {chosen.output}, of which --input {read[0]} reads", hint=hint
        )
    place = place_of(chosen.output)
    if isinstance(place, Path) and place.is_file():
        raise CommandLineError(
            f"{chosen.output} is a file, and --overwrite replaces folders of answers only", hint=hint
        )


def _check_page(chosen: argparse.Namespace) -> None:
    """Refuses to write a web page to where something is read, or where no file can be."""
    if not chosen.html:
        return
    read = [("--input", path) for path in chosen.input]
    read += [("QUERY", chosen.query[1:])] if chosen.query.startswith("@") else []
    for option, path in read:
        if share_files(chosen.html, path):
            raise CommandLineError(
                f"--html would replace {path}, or lie in it, and {option} reads it",
                hint="name another file after --html",
            )
    page = Path(chosen.html)
    if page.is_dir() or not page.parent.is_dir():
        wrong = "is a folder" if page.is_dir() else f"is in no folder: there is no {page.parent}"
        raise CommandLineError(f"{chosen.html} {wrong}", hint="name a file after --html, in a folder that there is")


def _follow(answer: DataFrame, schema: StructType, chosen: argparse.Namespace) -> None:
    """Prints the answers of each micro-batch, and reports late events, until it is interrupted or done.

    The checkpoint keeps the ``schema`` of the events, from the first micro-batch on that is answered.
    """
    keeps = not chosen.checkpoint

    def show(rows: DataFrame, _: int) -> None:
        nonlocal keeps
        # All tasks have to run, also those whose rows are not shown: each writes its part of the state.
        rows.persist().count()
        found = rows.limit(chosen.show + 1).collect()
        rows.unpersist()
        if not keeps:
            _remember(rows.sparkSession, schema, chosen.checkpoint)
            keeps = True
        if found:
            print(table(rows.columns, found[: chosen.show]), flush=True)
        if len(found) > chosen.show:
            print(f"(the first {chosen.show} rows of this batch; --show gives more)", flush=True)

    with tempfile.TemporaryDirectory(prefix="cetdsl-", ignore_cleanup_errors=True) as scratch:
        writer = answer.writeStream.foreachBatch(show).option("checkpointLocation", chosen.checkpoint or scratch)
        running = (writer.trigger(availableNow=True) if chosen.once else writer).start()
        try:
            with _stopped_by_interrupt(running):
                for batch in micro_batches(running, every=1.0):
                    if batch.late:
                        print(f"late events dropped: {batch.late:,}; a longer --delay waits for them", file=sys.stderr)
        finally:
            running.stop()


@contextmanager
def _naming_files(chosen: argparse.Namespace) -> Iterator[None]:
    """Turns Spark's errors over files whose columns or records do not fit the schema into ones that name the file."""
    try:
        yield
    except Exception as error:
        unread, reason = _UNREAD.search(str(error)), _why_unread(error)
        if not is_of_spark(error) or unread is None or reason is None:
            raise
        if chosen.follow:
            anew = "begin with another --checkpoint" if chosen.checkpoint else "begin anew"
            what = "the first files"
            hint = f"correct the file, or {anew}, as columns are those of all files that are there then"
        else:
            what, hint = "the other files", "give files of the same columns, in the same order"
        raise CommandLineError(f"{unread[1]} does not fit the columns of {what}: {reason}", hint=hint) from error


def _why_unread(error: Exception) -> str | None:
    """Returns what does not fit the schema in a file that Spark could not read; None if something else is wrong."""
    if "[MALFORMED_RECORD" in str(error):
        return first_line(error)
    column = _OTHER_TYPE.search(str(error))
    if column is not None:
        return f"{column[1]!r} is of Parquet's type {column[3]}, and not {column[2]}"
    header = _OTHER_HEADER.search(str(error))
    if header is None:
        return None
    names, expected, number, expected_number = header.groups()
    return f"it has {names}, and not {expected}" if names else f"it has {number} of them, and not {expected_number}"


@contextmanager
def _stopped_by_interrupt(running: StreamingQuery) -> Iterator[None]:
    """Has an interrupt stop a stream, and raises KeyboardInterrupt when it has.

    It may come while Java is being asked something, where the connection cannot be used once more. So another thread
    stops the stream, over a connection of its own.
    """
    interrupted = Event()

    def stop(*_: object) -> None:
        interrupted.set()
        Thread(target=running.stop).start()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        raise KeyboardInterrupt


def _explain(chosen: argparse.Namespace) -> None:
    _report(chosen, lambda bound: bound.explain(chosen.stage, measured=chosen.measured))


def _diagnose(chosen: argparse.Namespace) -> None:
    _report(chosen, lambda bound: bound.diagnose(chosen.sample) if chosen.sample else bound.diagnose())


def _report(chosen: argparse.Namespace, ask: Callable[[PatternFrame], Explanation | Diagnosis]) -> None:
    """Prints what is asked about the query and its files, and writes it as a web page where that is requested."""
    _check_page(chosen)
    query = _query(chosen)
    inputs = _common_format(chosen)
    with _session(chosen) as spark, _naming_files(chosen):
        found = ask(_bind(_events(spark, inputs, query, chosen), query, chosen))
        print(found)
    _write_page(found, chosen.html)


def _write_page(shown: Any, path: str | None, **how: Any) -> None:
    """Writes the web page of the explanation or diagnosis where one is requested."""
    if path:
        shown.write_html(path, **how)
        print(f"wrote {path}", file=sys.stderr)


def _demo(chosen: argparse.Namespace) -> None:
    run_demo(lambda: _session(chosen), chosen.output)


def _warm_up(chosen: argparse.Namespace) -> None:
    with _session(chosen) as spark:
        for kind, seconds in cet.warm_up(spark).items():
            print(f"{kind}: {seconds:.1f} seconds")


def _query(chosen: argparse.Namespace) -> QueryTerm:
    """Returns the query of the command, with the constants of its parameters."""
    return QueryTerm(
        sase.parse(_text(chosen.query), _once_each("--param", chosen.param), lambda name: f"add --param {name}=VALUE")
    )


def _text(query: str) -> str:
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8-sig")  # some editors begin a file with a mark of its order
    except (OSError, UnicodeDecodeError) as error:
        hint = "write the name of a text file in UTF-8 behind @"
        raise CommandLineError(f"cannot read the query from {query[1:]!r}: {error}", hint=hint) from error


def _common_format(chosen: argparse.Namespace) -> str:
    kind = str(chosen.format or _format_of_endings(chosen))
    if kind != "csv" and chosen.encoding != "UTF-8":
        raise CommandLineError(
            f"--encoding speaks of CSV, and the files are {kind}", hint="leave --encoding out: it is UTF-8"
        )
    return kind


def _format_of_endings(chosen: argparse.Namespace) -> str:
    option = "--follow" if chosen.follow else "--input"
    formats = {_format(path, option) for path in chosen.input or _files_in(chosen.follow)}
    if len(formats) > 1:
        raise CommandLineError(
            f"{option} mixes {' and '.join(sorted(formats))} files",
            hint="give files of one format at a time",
        )
    return formats.pop()


def _files_in(folder: str) -> list[str]:
    """The files in a folder that is followed, but for hidden ones, which Spark passes over."""
    found = Path(folder)
    names = [path.name for path in found.iterdir()] if found.is_dir() else []
    shown = [name for name in names if name[0] not in "._"]
    if not shown:
        raise CommandLineError(
            f"{folder!r} holds no file that tells the columns",
            hint="move the first file of events there, or give --format where the folder is not on this machine",
        )
    return shown


def _format(path: str, option: str) -> str:
    """The format that the ending of a path names, as in ``events.csv.gz``."""
    name = path.rstrip("/\\").lower()
    for compression in _COMPRESSIONS:
        name = name.removesuffix(compression)
    for ending, kind in FORMATS.items():
        if name.endswith(ending):
            return kind
    hint = f"use an ending that does: {', '.join(FORMATS)}"
    if option != "--output":
        hint += "; or add --format"
    raise CommandLineError(f"the name {path!r} after {option} does not tell its format", hint=hint)


def _events(spark: SparkSession, kind: str, query: Any, chosen: argparse.Namespace) -> DataFrame:
    """Returns the events of the files, or those of a folder as a stream, whose columns the options name."""
    paths = [chosen.follow] if chosen.follow else chosen.input
    csv = _csv(chosen)
    remembered = _remembered(spark, chosen.checkpoint) if chosen.follow else None
    known = _read(spark, kind, paths, remembered, csv)
    if kind == "csv" and _has_line_breaks(spark, paths, chosen.encoding):
        csv = {**csv, "multiLine": "true"}
        known = _read(spark, kind, paths, remembered, csv)
    _refuse_no_rows(known, kind, paths)
    _refuse_unknown_columns(known, kind, paths, query, chosen)
    _refuse_texts_as_times(known, chosen.time)
    if not chosen.follow:
        return known
    # By default a value that is not of the guessed type would be NULL, without a word.
    reader = spark.readStream.schema(known.schema).options(mode="FAILFAST", **(csv if kind == "csv" else {}))
    return reader.format(kind).load(as_written(chosen.follow))


def _csv(chosen: argparse.Namespace) -> dict[str, str]:
    """Returns how the command has Spark read CSV, apart from line breaks in values."""
    return {**CSV, "encoding": chosen.encoding}


def _has_line_breaks(spark: SparkSession, paths: list[str], encoding: str) -> bool:
    """Whether some value of CSV files has a line break.

    Then Spark must not split files, nor may their names have signs of patterns, or a colon. So it is asked for only
    where it is needed.
    """
    lines = spark.read.option("encoding", encoding).text([as_written(path) for path in paths])
    return not lines.filter(_OPEN_QUOTE).isEmpty()


def _bind(events: DataFrame, query: Any, chosen: argparse.Namespace) -> Any:
    return cet.pattern(
        _with_watermark(events, chosen) if chosen.follow else events,
        query,
        time=chosen.time,
        type=chosen.type,
        tie_break=chosen.tie_break or (),
        on_null_time=chosen.on_null_time,
    )


def _remembered(spark: SparkSession, checkpoint: str | None) -> StructType | None:
    """Returns the schema that a checkpoint keeps; None if there is none."""
    if not checkpoint:
        return None
    try:
        kept = spark.read.text(literal(_schema_in(checkpoint))).first()
    except Exception as error:
        if condition_of(error) != "PATH_NOT_FOUND":
            raise
        return None
    return None if kept is None else StructType.fromJson(json.loads(kept[0]))


def _remember(spark: SparkSession, schema: StructType, checkpoint: str) -> None:
    """Keeps a schema in a checkpoint, as state goes on with the types that it began with, whatever files come."""
    kept = spark.range(0, 1, 1, 1).select(F.lit(schema.json()))
    kept.write.mode("overwrite").text(_schema_in(checkpoint))


def _schema_in(checkpoint: str) -> str:
    """Returns where a checkpoint keeps the schema: Spark reads and writes it, as the folder may be anywhere."""
    return f"{checkpoint}/schema"


def _read(
    spark: SparkSession, kind: str, paths: list[str], schema: StructType | None, csv: dict[str, str]
) -> DataFrame:
    """The events of some files, which have columns: those of a schema, or else those that are guessed."""
    try:
        events = _of_format(spark, kind, paths, schema, csv)
        columns = events.columns
    except Exception as error:
        if not is_of_spark(error):
            raise
        hint = _HINTS_OF_FILES.get(condition_of(error)) or (_HINT_OF_COLONS if _NO_URI in str(error) else None)
        if hint is None:
            raise
        raise CommandLineError(f"cannot read {', '.join(paths)}: {readable(error)}", hint=hint) from error
    if not columns:
        raise CommandLineError(f"{', '.join(paths)} is empty", hint="give a file with events")
    return events


def _of_format(
    spark: SparkSession, kind: str, paths: list[str], schema: StructType | None, csv: dict[str, str]
) -> DataFrame:
    read = [as_written(path) for path in paths]
    reader = spark.read if schema is None else spark.read.schema(schema)
    if kind == "csv":
        return reader.options(**csv).csv(read, inferSchema=schema is None)
    if kind == "json":
        events = reader.option("inferTimestamp", True).json(read)
        if events.columns == ["_corrupt_record"]:
            raise CommandLineError(
                f"{', '.join(paths)} holds no JSON that can be read", hint="write one object per line: JSON Lines"
            )
        return events
    return reader.parquet(*read)


def _with_watermark(events: DataFrame, chosen: argparse.Namespace) -> DataFrame:
    """The stream with a watermark on its time."""
    time = _field_of(events.schema, chosen.time)
    if time.dataType != TimestampType():
        raise CommandLineError(
            f"--follow needs a timestamp, on which Spark can have a watermark, and {time.name!r} is of type "
            f"{time.dataType.simpleString()}",
            hint="read the files once, by --input, or make the column a timestamp and ask the stream in Python",
        )
    try:
        return events.withWatermark(in_backquotes(time.name), chosen.delay)
    except Exception as error:
        # Spark has a condition for what is no interval, and none for one below 0, which is an illegal argument.
        is_of_delay = condition_of(error) in ("CANNOT_PARSE_INTERVAL", "NOT_STR")  # the latter where it is empty
        if not is_of_delay and not isinstance(error, IllegalArgumentException):
            raise
        raise CommandLineError(
            f"--delay {chosen.delay!r} is no length of time to wait", hint="write it like --delay '10 minutes'"
        ) from error


def _field_of(schema: StructType, name: str) -> StructField:
    """Returns the column of a name, of which Spark ignores the case."""
    return next(field for field in schema.fields if field.name.lower() == name.lower())


def _refuse_no_rows(events: DataFrame, kind: str, paths: list[str]) -> None:
    """Raises where CSV has a header only, which tells no types: every column is a text, also the time."""
    is_guessed = all(field.dataType == StringType() for field in events.schema.fields)
    if kind == "csv" and is_guessed and events.head() is None:
        raise CommandLineError(f"{', '.join(paths)} has no rows below its header", hint="give a file with events")


def _columns_told(events: DataFrame, kind: str, paths: list[str], chosen: argparse.Namespace) -> str:
    """Returns the columns of the files in words, and where they are from."""
    told = f"{', '.join(paths)} has the columns {', '.join(events.columns)}"
    if kind != "csv":
        return told
    twice = _named_twice(events.sparkSession, paths, _csv(chosen))
    if twice:
        names = ", ".join(map(repr, twice))
        return f"{told}: its first line has {names} more than once, and Spark writes the place of each behind the name"
    return f"{told}, which are its first line"


def _named_twice(spark: SparkSession, paths: list[str], csv: dict[str, str]) -> list[str]:
    """Returns the names that are more than once in the first line of CSV, of which Spark ignores the case."""
    line = spark.read.options(**{**csv, "header": "false"}).csv([as_written(path) for path in paths]).head()
    names = [] if line is None else [str(name) for name in line if name is not None]
    places: dict[str, list[str]] = {}
    for name in names:
        places.setdefault(name.lower(), []).append(name)
    return [found[0] for found in places.values() if len(found) > 1]


def _refuse_unknown_columns(df: DataFrame, kind: str, paths: list[str], query: Any, chosen: argparse.Namespace) -> None:
    """Raises where an option names a column that the files do not have, or where it must name one."""
    known = {name.lower() for name in df.columns}
    is_typed = any(event.type is not None for event in events_of(query.node.pattern))
    asked = [("--time", chosen.time), *(("--tie-break", name) for name in chosen.tie_break or ())]
    asked += [("--type", chosen.type)] if is_typed else []
    for option, name in asked:
        if name is not None and name.lower() not in known:
            advice = f"name one of them after {option}" + (", or say --no-type" if option == "--type" else "")
            has = _columns_told(df, kind, paths, chosen)
            raise CommandLineError(
                f"there is no column {name!r} for {option}: {has}", hint=nearest(name, df.columns, advice)
            )
    times = [field.name for field in df.schema.fields if isinstance(field.dataType, (TimestampType, TimestampNTZType))]
    if chosen.time is None and len(times) != 1:
        what = f"the timestamps {', '.join(times)}" if times else "no timestamp"
        has = _columns_told(df, kind, paths, chosen)
        raise CommandLineError(f"which column is the time? There is {what}: {has}", hint="name it with --time")


def _refuse_texts_as_times(events: DataFrame, name: str | None) -> None:
    """Raises where the time column has been read as text because some value in it is no time, and names it."""
    if name is None or _field_of(events.schema, name).dataType != StringType():
        return
    time = F.col(in_backquotes(name))
    # Times may be whole numbers, too. All columns are read, so that Spark compares the headers of all files.
    no_time = events.where(time.isNotNull() & F.try_to_timestamp(time).isNull() & time.try_cast("bigint").isNull())
    found = no_time.select("_metadata.file_name", "*").head()
    if found is None:
        return
    raise CommandLineError(
        f"{found[name]!r} in {found[0]} is no time, so that {name!r} is read as text",
        hint="write times as 2026-01-31 12:00:00 in all files, leave the file out, or name another column after --time",
    )


def _mentioned(query: Any, time: str | None) -> list[str] | None:
    """Returns the columns to show of a trend's events: its time and those that the query refers to."""
    if time is None:
        return None
    found: dict[str, str] = {}
    for name in (time, *(attribute.name for part in query.node.where for attribute in attributes(part))):
        found.setdefault(name.lower(), name)  # columns are found in any case
    return list(found.values())


def _why_none(query: Any, chosen: argparse.Namespace) -> str:
    """Returns what to say of an answer without rows."""
    if chosen.matches:
        return "no match"
    return "no trend; cetdsl diagnose says why" if query.node.matching == ANY else "no trend"


def _show(answer: DataFrame, number: int, none: str) -> None:
    """Prints the first rows of an answer, or why there is ``none``."""
    rows = answer.limit(number + 1).collect()
    print(table(answer.columns, rows[:number]))
    if len(rows) > number:
        print(f"(the first {number} rows; --show and --output give more)")
    elif not rows:
        print(f"({none})")


def _write(answer: DataFrame, kind: str, chosen: argparse.Namespace) -> None:
    if kind == "csv":
        answer = _flat(answer)
    writer = answer.write.mode("overwrite" if chosen.overwrite else "error")
    try:
        writer.options(**(CSV if kind == "csv" else {})).format(kind).save(in_full(chosen.output))
    except Exception as error:
        if condition_of(error) == "PATH_ALREADY_EXISTS":
            raise CommandLineError(
                f"{chosen.output} exists already", hint="--overwrite replaces it, or name another folder"
            ) from error
        raise
    print(f"wrote {chosen.output}", file=sys.stderr)


def _flat(answer: DataFrame) -> DataFrame:
    """The answer in columns that CSV can hold: a window as two, a trend as JSON."""
    columns = []
    for field in answer.schema.fields:
        column = F.col(f"`{field.name.replace('`', '``')}`")
        if isinstance(field.dataType, StructType) and field.dataType.names == ["start", "end"]:
            columns += [column[end].alias(f"{field.name}_{end}") for end in ("start", "end")]
        elif isinstance(field.dataType, (ArrayType, MapType, StructType)):
            columns.append(F.to_json(column).alias(field.name))
        else:
            columns.append(column)
    return answer.select(columns)
