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

#: The version of the format of rows in state; it changes whenever the same query would interpret kept rows differently.
STATE_VERSION = 5
#: Types by whose values Spark cannot group.
_WITHOUT_EQUALITY = ("map<", "variant", "interval")
#: The marks of a lambda function in the text of a column.
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
#: Numbers for unique names. One field of the kept events has such a number in its name: if one run keeps two sets of
#: events that are equal in all else, as for the sides of an AND, Spark would merge them into one operator, and never
#: close the second set. Checkpoints do not store the name.
NAMES = count()


def stable_text(text: str, columns: Collection[str]) -> str:
    """Returns the text of Spark columns without the details that differ between two columns with the same meaning.

    Spark numbers the parameters of lambda functions consecutively in a process. In the arguments of a Python
    user-defined function it writes the origin of each part: the line of the program, and the address of an object in
    the JVM. It writes a constant timestamp as local time, so the zone is added to the text.

    Raises
    ------
    StreamingNotSupported
        If the text has a binary constant, for which Spark writes the address of an object instead of its bytes.

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
    """Returns an aggregate of collected rows that raises if some of them were collected under another meaning.

    When a query continues from a checkpoint, Spark only compares the types of the state. It would read rows that
    another query collected as if they were this query's. So each row contributes a number for its meaning to its group.
    """
    digest = sha256(f"{STATE_VERSION} {meaning}".encode()).digest()
    number = F.lit(int.from_bytes(digest[:8], "big", signed=True))
    error = raised(OtherState, OTHER_STATE, hint=OTHER_STATE_ADVICE, kind="boolean")
    is_own = F.when((F.min(number) == number) & (F.max(number) == number), F.lit(True)).otherwise(error)
    return F.when(is_own, rows)


def given_once(grouped: DataFrame) -> DataFrame:
    """Returns groups that Spark emits once, at the end of their window; Spark starts the stream only in append mode.

    In update mode Spark would emit a group again whenever a row comes to it. The kernels behind would take the events
    of one key for those of all keys, and could not withdraw trends that a later event forbids. Only Spark knows the
    output mode, and only when the stream starts. It refuses other modes than append for plans with two stateful
    operators. So this function adds a second aggregation, which groups rows that are distinct already; Spark's
    optimizer removes it after the check.
    """
    if any(word in grouped.schema.simpleString() for word in _WITHOUT_EQUALITY):
        return grouped
    return grouped.groupBy(*grouped.columns).agg(F.lit(True).alias("x")).drop("x")
