"""Tags streaming state with a digest of its meaning, so that another query's checkpoint is refused."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from hashlib import sha256
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.errors import OTHER_STATE, OTHER_STATE_ADVICE, OtherState, StreamingNotSupported
from cetdsl.execution.expressions import raised

#: Counts the ways in which rows have been put into state: another one where the same query reads them otherwise.
STATE_VERSION = 5
#: Types by whose values Spark cannot tell groups apart.
_WITHOUT_EQUALITY = ("map<", "variant", "interval")
#: What the text of a column with a lambda function has.
_LAMBDAS = ("->", "LambdaFunction(", "UnresolvedNamedLambdaVariable(")
#: Parameters of a lambda function in the text of a column: before an arrow, behind the function on Spark Connect, or by
#: themselves in the arguments of a user-defined function.
_PARAMETERS = re.compile(
    r"((?:\w+_[0-9]+, )*\w+_[0-9]+)\)? ->|((?:, \w+_[0-9]+)+)\)|UnresolvedNamedLambdaVariable\((\w+_[0-9]+)"
)
#: Where a part of a column was made, in the text of the column; the address of a constant's bytes.
_ORIGIN = re.compile(
    r",Origin\((?:None,){7}(?:None|Some\(\[Ljava\.lang\.StackTraceElement;@[0-9a-f]+\)),"
    r"(?:None|Some\(\(.*?:[0-9]+\)\)),None\)"
)
#: A constant timestamp in the text of a column, on the clock of the zone of the system that the driver runs on.
_INSTANT = re.compile(r"\b[0-9]{4,}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+\b")
_BYTES = re.compile(r"\[B@[0-9a-f]+\b")
#: A field of the events that are kept has a number in its name, another one each time. Where one run keeps two sets of
#: events that are equal in all else, as the sides of an AND may be, Spark takes them for one, and never closes the
#: second. Checkpoints do not know the name.
NAMES = count()


def stable_text(text: str, columns: Collection[str]) -> str:
    """Returns a text with Spark columns, without what differs between two columns that mean the same.

    Spark numbers the parameters of lambda functions by process. In the arguments of a user-defined function in Python
    it writes where each part was made: the line of the program, and the address of an object in the JVM. Of a constant
    timestamp it writes what a clock shows, so that the zone of that clock is added.

    Raises
    ------
    StreamingNotSupported
        If the text has a binary constant, of which Spark writes the address of an object instead of its bytes.

    Examples
    --------
    >>> stable_text("exists(a, x_7 -> =(x_7, y_3))", ["a", "y_3"])
    'exists(a, x_0 -> =(x_0, y_3))'
    >>> stable_text("exists(a, LambdaFunction(>(x_12, 3), x_12))", ["a"])
    'exists(a, LambdaFunction(>(x_0, 3), x_0))'
    >>> nowhere = "None," * 7
    >>> stable_text(f"f(List(g),false,Origin({nowhere}Some([Ljava.lang.StackTraceElement;@1f),None,None))", ["g"])
    'f(List(g),false)'
    """
    if _BYTES.search(text):
        raise StreamingNotSupported(
            "a Spark column with a binary constant is a group or a condition, and two such columns cannot be told "
            "apart, so a checkpoint could not be either",
            hint="compute it as a column of the DataFrame first, and name that column",
        )
    if _INSTANT.search(text):
        text += f" in {'/'.join(time.tzname)}"
    text = _ORIGIN.sub("", text)
    listed = _PARAMETERS.findall(text) if any(mark in text for mark in _LAMBDAS) else []
    names = [name for found in listed for part in found for name in re.findall(r"\w+", part)]
    numbers = {name: place for place, name in enumerate(dict.fromkeys(names)) if name not in columns}
    return re.sub(
        r"\b(\w+)_[0-9]+\b", lambda found: f"{found[1]}_{numbers[found[0]]}" if found[0] in numbers else found[0], text
    )


def of_same_meaning(rows: Column, meaning: str) -> Column:
    """Returns collected rows, an aggregate; raises where some were collected under another meaning.

    Spark compares the types of state with those of the query that goes on from a checkpoint, but not what is inside
    collected rows, so that it would read those of another query as if they were this one's. Each row adds the number of
    its meaning to its group.
    """
    digest = sha256(f"{STATE_VERSION} {meaning}".encode()).digest()
    number = F.lit(int.from_bytes(digest[:8], "big", signed=True))
    error = raised(OtherState, OTHER_STATE, hint=OTHER_STATE_ADVICE, kind="boolean")
    is_own = F.when((F.min(number) == number) & (F.max(number) == number), F.lit(True)).otherwise(error)
    return F.when(is_own, rows)


def given_once(grouped: DataFrame) -> DataFrame:
    """Returns groups that Spark gives once, at the end of their window; it starts them in no mode but append.

    In update mode it would give a group again whenever a row comes to it, and the kernels behind would take what is
    known of one key for the answer of all, and could not take back what a later event forbids. Which mode is asked for
    is known to Spark alone, and only when the stream starts. Then it refuses any other than append to plans with two
    operators that keep state, as what tells rows apart that are apart already is, until the plan is optimized and it is
    gone.
    """
    if any(word in grouped.schema.simpleString() for word in _WITHOUT_EQUALITY):
        return grouped
    return grouped.groupBy(*grouped.columns).agg(F.lit(True).alias("x")).drop("x")
