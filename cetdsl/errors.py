"""The exceptions that cetdsl raises.

Each class derives from :class:`CetdslError` and from the builtin that a caller would expect (``LookupError`` for an
unknown name, ``ValueError`` for a bad value, ...). The message of an error says where and why it was raised; its
``hint`` says what to do next; its ``span`` points into the query text when there is one.
"""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import SupportsIndex

__all__ = [
    "AmbiguousTruth",
    "AnalysisErrors",
    "CetdslError",
    "CommandLineError",
    "CountOverflow",
    "EngineError",
    "GroupTooLarge",
    "InvalidNode",
    "MissingDependency",
    "NoPhysicalPlan",
    "NotExpressible",
    "NullTime",
    "OtherState",
    "ParseError",
    "QueryTypeError",
    "ResolutionError",
    "RewriteCycle",
    "StreamingNotSupported",
    "TimeOutOfRange",
    "UnknownAttribute",
    "UnknownColumn",
    "UnknownFunction",
    "UnknownVariable",
    "UnsupportedQuery",
    "WatermarkError",
    "WindowError",
    "recover",
    "recovering",
]


class CetdslError(Exception):
    """Root of all errors of cetdsl.

    Parameters
    ----------
    message : str
        A sentence that says what is wrong, and where.
    hint : str, optional
        One sentence that says what to do next.
    span : tuple of (int, int), optional
        Start and end offset, in characters, of the offending part of ``text``.
    text : str, optional
        The query text that ``span`` points into.

    Examples
    --------
    >>> print(CetdslError("no column 'prise'", hint="did you mean 'price'?"))
    no column 'prise'
      hint: did you mean 'price'?
    """

    def __init__(
        self, message: str, *, hint: str | None = None, span: tuple[int, int] | None = None, text: str | None = None
    ) -> None:
        self.message = message
        self.hint = hint
        self.span = span
        self.text = text
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None and self.text is not None:
            parts.append(point_at(self.text, self.span))
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        # A text that is quoted may hold half of a surrogate pair, which no terminal and no file takes.
        return "\n".join(parts).encode(errors="backslashreplace").decode()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[CetdslError], args: tuple[object, ...], state: dict[str, object]) -> CetdslError:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


#: The characters that are shown of a line of a query text.
_LONGEST_LINE = 200


def point_at(text: str, span: tuple[int, int]) -> str:
    """Returns the line of ``text`` that holds ``span``, with carets under it; of a long line the part around them.

    Examples
    --------
    >>> print(point_at("PATTERN SEQ(A, )", (15, 16)))
      line 1: PATTERN SEQ(A, )
                             ^
    """
    start = min(span[0], len(text))
    breaks = [found.end() for found in re.finditer(r"\r\n|\r|\n", text[:start])]
    line_start, line_number = (breaks[-1] if breaks else 0), len(breaks) + 1
    rest = re.compile(r"[^\r\n]*").match(text, start)
    line_end = rest.end() if rest else len(text)
    shown_start = max(line_start, start - _LONGEST_LINE // 2)
    shown_end = min(line_end, shown_start + _LONGEST_LINE)
    prefix = f"  line {line_number}: " + ("..." if shown_start > line_start else "")
    width = max(1, min(span[1], shown_end) - start)
    line = text[shown_start:shown_end] + ("..." if shown_end < line_end else "")
    # Tabs are kept in the padding, so that the caret stands under its character in any terminal.
    padding = "".join("\t" if c == "\t" else " " for c in line[: start - shown_start])
    return f"{prefix}{line}\n{' ' * len(prefix)}{padding}{'^' * width}"


def of_query(name: str, error: CetdslError) -> CetdslError:
    """Returns a copy of an error whose message begins with the name of its query."""
    named = copy.copy(error)
    named.message = f"query {name!r}: {error.message}"
    return named


def shown(value: object, most: int = 200) -> str:
    """Returns a short repr of a value for an error message, at most ``most`` characters.

    Examples
    --------
    >>> shown("x"), shown(10**5000), shown("x" * 500)[-5:]
    ("'x'", 'a number of 16610 bits', 'xx...')
    """
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # a class may do as it likes, and a list may hold a number too long for Python to write
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


def counted(count: int, one: str, several: str | None = None) -> str:
    """Returns a number with the name of the things that are counted.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row"), counted(0, "query", "queries")
    ('1 row', '1,200 rows', '0 queries')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def is_one_of(value: object, words: Iterable[str]) -> bool:
    """Whether a value is a string, and one of some words; other values may fail when they are compared with them."""
    return isinstance(value, str) and value in words


def check_choice(what: str, value: object, choices: Sequence[str], hint: str | None = None) -> None:
    """Raises InvalidNode unless an argument's value is one of some words.

    Parameters
    ----------
    what : str
        What the words are, as messages call it: "sharing mode".
    value : object
        What was given.
    choices : sequence of str
        The words.
    hint : str, optional
        What to do if no word is like the value; by default all words are listed.

    Raises
    ------
    InvalidNode
        The value is none of the words.

    Examples
    --------
    >>> check_choice("window unit", "dais", ["days", "hours"])
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: no window unit 'dais'
      hint: did you mean 'days'?
    """
    if not is_one_of(value, choices):
        otherwise = hint or f"choose one of {', '.join(choices)}"
        close = nearest(value, choices, otherwise) if isinstance(value, str) else otherwise
        raise InvalidNode(f"no {what} {shown(value)}", hint=close)


def whole_number(value: object) -> int | None:
    """Returns a whole number of Python or NumPy as one of Python; None for other values, as also True is one.

    Examples
    --------
    >>> import numpy as np
    >>> whole_number(np.int64(3)), whole_number(3.0), whole_number(True)
    (3, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # a boolean of NumPy
        return None


def names_of(names: object, what: str) -> tuple[str, ...]:
    """Returns the names that a user gave, as a single string or as several; raises InvalidNode for another value."""
    if isinstance(names, str):
        return (names,)
    if isinstance(names, Iterable) and not isinstance(names, (bytes, bytearray)):
        try:
            return tuple(names)
        except TypeError:  # columns of Spark say that they can be iterated over
            pass
    raise InvalidNode(f"{what} takes names of columns, not {shown(names)}", hint='write a list of names, ["x", "y"]')


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """Returns the hint for an unknown name: the known name that is nearest to it or begins with it, or ``otherwise``.

    Examples
    --------
    >>> nearest("serve", ["survey_all"], "none"), nearest("survey", ["survey_all"], "none")
    ('none', "did you mean 'survey_all'?")
    """
    candidates = sorted(set(known))
    folded = {c.lower(): c for c in candidates}
    close = get_close_matches(name.lower(), sorted(folded), n=1)
    if not close and len(name) > 2:
        close = [full for full in sorted(folded) if full.startswith(name.lower())]
    return f"did you mean {folded[close[0]]!r}?" if close else otherwise


class InvalidNode(CetdslError, ValueError):
    """A pattern, predicate or query cannot be built like this, or an argument has an invalid value."""


class UnknownAttribute(InvalidNode, AttributeError):
    """A term was asked for an attribute or a method that it does not have."""


class AmbiguousTruth(CetdslError, TypeError):
    """A term was used where Python wants True or False."""


class ParseError(CetdslError, ValueError):
    """The text form of a query is malformed."""


class NotExpressible(CetdslError, ValueError):
    """A node has no text form."""


class ResolutionError(CetdslError):
    """A query does not fit the DataFrame that it is bound to."""


class UnknownVariable(ResolutionError, LookupError):
    """A predicate or aggregate names a variable that the pattern does not bind."""

    @classmethod
    def among(cls, name: str, known: Iterable[str]) -> UnknownVariable:
        known = sorted(known)
        return cls(
            f"no variable {name!r} in this pattern", hint=nearest(name, known, f"the pattern binds {', '.join(known)}")
        )


class UnknownColumn(ResolutionError, LookupError):
    """A query names a column that the DataFrame does not have."""

    @classmethod
    def among(cls, name: str, known: Sequence[str], what: str = "column") -> UnknownColumn:
        return cls(
            f"no {what} {name!r} in the DataFrame",
            hint=nearest(name, known, f"its columns are {', '.join(map(repr, known)) or 'none'}"),
        )


class UnknownFunction(ResolutionError, LookupError):
    """A query calls a function that ``pyspark.sql.functions`` does not have."""


class QueryTypeError(ResolutionError, TypeError):
    """A query compares, orders, adds or uses as time values of types that do not allow it."""


class WindowError(ResolutionError, ValueError):
    """A window does not fit the time column, or has no fixed length."""


class UnsupportedQuery(ResolutionError, NotImplementedError):
    """A query is well formed, but cetdsl cannot answer it; the message gives the reason."""


class AnalysisErrors(ResolutionError):
    """A query, or a workload, has several errors; they are reported at once.

    Attributes
    ----------
    errors : tuple of CetdslError
        The errors, in the order in which the query states their causes.
    """

    def __init__(self, errors: Sequence[CetdslError], what: str = "the query") -> None:
        self.errors = tuple(errors)
        lines = [f"{what} has {len(self.errors)} errors"]
        for number, error in enumerate(self.errors, 1):
            lines.append(f" {number}. " + str(error).replace("\n", "\n    "))
        super().__init__("\n".join(lines))


def raise_together(errors: Sequence[CetdslError], what: str = "the query") -> None:
    """Raises a single error as it is, and several as one AnalysisErrors; returns if there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise AnalysisErrors(errors, what)


class RewriteCycle(CetdslError, RuntimeError):
    """The rewrite rules did not reach a fix point: a defect of the rules, not of the query."""


class NoPhysicalPlan(CetdslError, NotImplementedError):
    """Every strategy declined; the message lists their reasons."""


class StreamingNotSupported(UnsupportedQuery):
    """The request is not supported on a streaming DataFrame."""


class WatermarkError(CetdslError, ValueError):
    """A stream has no watermark on the time column of the query, or cannot have one."""


class EngineError(CetdslError, RuntimeError):
    """An error was found while a query runs, or there is no Spark session that could run it."""


class NullTime(EngineError, ValueError):
    """The time column holds NULLs."""

    @classmethod
    def refuse_rows(cls, many: int, column: str, *, or_more: bool = False) -> None:
        """Raises NullTime if ``many`` rows have no time; ``or_more`` says that not all rows were looked at."""
        if many:
            rows = counted(many, "row") + (" or more" if or_more else "")
            raise cls(f"the time column {column!r} is NULL in {rows}", hint=NULL_TIME_ADVICE)


class TimeOutOfRange(EngineError, OverflowError):
    """A time, or the bound of a window that holds it, cannot be expressed."""


class OtherState(EngineError, ValueError):
    """The checkpoint of a stream belongs to another query, setting, or version of cetdsl."""

    @classmethod
    def refuse_shares(cls, shares: int, now: str | None, kept: str | None) -> None:
        """Raises OtherState if a checkpoint has another number of shares of the keys than the stream that reads it.

        ``shares`` is the number that the stream was planned with. ``now`` is the value of the setting :data:`SHARES`,
        and ``kept`` its value when the checkpoint was made, as Spark tells a task; None if Spark does not tell it. A
        setting that has changed since the stream was planned changes nothing.
        """
        if kept is not None and now == str(shares) != kept:
            raise cls(
                f"{SHARES} is {shares} now, and was {kept} when the checkpoint was made, whose state has as many "
                "shares of the keys",
                hint=f"{set_shares(int(kept))} before the stream is asked, or a new checkpoint",
            )


#: The setting of Spark that says how many shares of the keys a stream has.
SHARES = "spark.sql.shuffle.partitions"


def set_shares(shares: int) -> str:
    """Returns what to write to set the number of shares of the keys of a stream, in Python or on the command line."""
    return f'spark.conf.set("{SHARES}", {shares}), or --conf {SHARES}={shares} on the command line,'


#: The message and the advice for state of another query, version or setting.
OTHER_STATE = (
    "the checkpoint holds events that were kept for another query, by another version of cetdsl, in another time "
    f"zone of the session, or with another {SHARES}"
)
OTHER_STATE_ADVICE = (
    f"start the stream with the query, the version, the time zone and the {SHARES} that its checkpoint belongs to, or "
    "with a new checkpoint"
)

#: The advice for a key, or a computed group, that has the name of another column of the answer.
RENAME_KEY = "rename the column of the DataFrame; a group that is computed gets another name by AS"
#: The advice for rows without a time.
NULL_TIME_ADVICE = "clean the data, or leave these rows out with on_null_time='skip'"
#: The message and the advice for a sum of whole numbers over the rows of a match that does not fit its type.
SUM_TOO_LARGE = "a SUM over the rows of a match does not fit BIGINT"
SUM_TOO_LARGE_ADVICE = "cast what is added up to DOUBLE or DECIMAL(38, 0)"
#: The advice for a sum or an average of decimals that does not.
DECIMAL_TOO_LARGE_ADVICE = "cast what is added up to DOUBLE, or to a decimal with fewer digits behind the point"
#: The form of sums of doubles, which are doubles whatever form was asked for.
OF_DOUBLES = "sum of doubles"
#: The range that a result did not fit, and the advice, by the number form.
OVERFLOW_ADVICE = {
    "decimal": (
        "DECIMAL(38, 0)",
        "use number='string' for the exact value at any size, or number='log2' for its logarithm",
    ),
    "double": (
        "the range of doubles",
        "use number='log2' for its logarithm, or number='string' for the exact value at any size",
    ),
    OF_DOUBLES: ("the range of doubles", "cast what is added up to a DECIMAL, or divide it by a large number first"),
}


class CountOverflow(EngineError, OverflowError):
    """An exact result does not fit the number form of the answer."""


class GroupTooLarge(EngineError, MemoryError):
    """One window of one group does not fit into a worker's memory."""


class MissingDependency(CetdslError, ImportError):
    """A package, or Java, that a feature needs is not installed."""


class CommandLineError(CetdslError, ValueError):
    """The command line was used wrongly."""


#: The code that makes Spark's workers run the Python of the program, on one machine.
SAME_PYTHON = "import os, sys; os.environ['PYSPARK_PYTHON'] = sys.executable"
#: The pattern of a cetdsl error in the text of a Spark exception: its class, its message, and the ends that such texts
#: have. Plans in Spark's own errors hold texts of this kind as well, inside of expressions.
_OWN = r"(?s)(?:^|(?<=\n)|(?<=: )|(?<=\] ))cetdsl\.errors\.(\w+): (.*?)\s*(?:SQLSTATE: \w+|\n\s+at |\n\n|\Z)"
#: The pattern of the errors of Spark where its workers are another Python, which fails before it runs cetdsl.
_OTHER_PYTHON = (
    r"(No module named '(?:pyarrow|pandas|numpy|pyspark)\b[\w.]*'|\[PYTHON_VERSION_MISMATCH\][^\n]*"
    r"|Cannot run program \"[^\n]*python[^\n]*\": [^\n]*)"
)


def recover(error: BaseException) -> CetdslError | None:
    """Returns the error of cetdsl that an exception of Spark wraps.

    Errors that are found while a query runs are raised in a Python worker or in the JVM. They reach the program as text
    inside an exception of PySpark, whose class on Spark Connect is another one than on classic Spark.

    Parameters
    ----------
    error : BaseException
        The exception that an action such as ``collect`` has raised.

    Returns
    -------
    CetdslError or None
        The error, or None if the exception does not come from cetdsl.

    Examples
    --------
    >>> missing = spark.createDataFrame([(1, "B"), (None, "B")], "t int, type string")
    >>> try:
    ...     missing.pattern("PATTERN B+", time="t").count_trends().collect()
    ... except Exception as error:
    ...     print(type(cet.errors.recover(error)).__name__, cet.errors.recover(error).message, sep=": ")
    NullTime: the time column 't' is NULL in 1 row
    """
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        if isinstance(current, CetdslError):
            return current
        text = str(current)
        own = re.search(_OWN, text)
        if own:
            return _restored(own[1], own[2])
        other = re.search(_OTHER_PYTHON, text)
        if other:
            return MissingDependency(
                f"Spark's Python workers are another Python, which cannot run the query: {other[1]}",
                hint=f"on one machine, write this before the session starts: {SAME_PYTHON}; on a cluster, install"
                " cetdsl in the Python of the executors",
            )
        seen.append(current)
        current = getattr(current, "_cause", None) or current.__cause__
    return None


def _restored(name: str, text: str) -> CetdslError:
    cls = globals().get(name)
    if not (isinstance(cls, type) and issubclass(cls, CetdslError)):
        cls = EngineError  # of another version of cetdsl
    message, _, hint = text.partition("\n  hint: ")
    return _rebuild(cls, (message,), {"message": message, "hint": hint or None, "span": None, "text": None})


@contextmanager
def recovering() -> Iterator[None]:
    """Makes a block, or with ``@recovering()`` a function, raise cetdsl's errors in place of Spark's.

    Spark's exception stays the error's ``__context__``. Exceptions that do not come from cetdsl are raised as they are.

    Yields
    ------
    None
        Nothing; the block needs no value.

    Examples
    --------
    >>> missing = spark.createDataFrame([(1, "B"), (None, "B")], "t int, type string")
    >>> answer = missing.pattern("PATTERN B+", time="t").count_trends()
    >>> with cet.errors.recovering():
    ...     answer.collect()
    Traceback (most recent call last):
        ...
    cetdsl.errors.NullTime: the time column 't' is NULL in 1 row
      hint: clean the data, or leave these rows out with on_null_time='skip'
    """
    try:
        yield
    except Exception as error:
        own = recover(error)
        if own is None or own is error:
            raise
        try:
            raise own from None
        finally:
            del own  # which refers to this frame: in a circle, all that the frames below hold would live on
