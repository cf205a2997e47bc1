"""Races against a limit in seconds: the worst texts and patterns that were found, until they are planned or refused."""

from __future__ import annotations

import contextlib
from functools import partial

from events import Events
from measure import take_turns
from pyspark.sql import DataFrame
from races import Result, Verdict, result

import cetdsl as cet
from cetdsl.errors import CetdslError
from cetdsl.frontend.sase import parse_queries

#: Every text of so many characters is answered within so many seconds.
SIZE, LIMIT = 10_000, 5.0


def repeated(unit: str, begin: str = "", end: str = "", between: str = "") -> str:
    """The unit as often as the size allows, each time with another number in place of ``0``."""
    times = (SIZE - len(begin) - len(end)) // (len(unit + between) + 3 * unit.count("0"))
    return begin + between.join(unit.replace("0", str(n)) for n in range(times)) + end


#: Texts that take long to read, whether they are queries or not.
READ = {
    "a comment of dashes": repeated("-", "PATTERN A a ", "\n (!"),
    "a string that is never closed": repeated("''", "PATTERN A WHERE A.x = '"),
    "digits that are no length": repeated("1", "PATTERN A WITHIN ", ". min"),
    "open parentheses": repeated("(", "PATTERN A WHERE ", "A.x"),
    "signs of repetition": repeated("+", "PATTERN A"),
    "nested sequences": repeated("SEQ(", "PATTERN ", "A"),
    "conditions joined by AND": repeated("A.x>0", "PATTERN A WHERE ", "", " AND "),
    "conditions joined by OR": repeated("A.x>0", "PATTERN A WHERE ", "", " OR "),
    "a sum": repeated("A.x*0", "PATTERN A WHERE ", " > 1", "+"),
    "minus signs": repeated("- ", "PATTERN A WHERE ", "A.x > 1"),
    "negations": repeated("NOT ", "PATTERN A WHERE ", "A.x > 1"),
    "a list of values": repeated("0", "PATTERN A WHERE A.x IN (", ")", ","),
    "columns in brackets": repeated("k", "PATTERN A WHERE [", "]", ","),
}
MANY = ";\n".join(f"NAME q{n}: RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x" for n in range(2_000))


NAMES = [f"V{number}" for number in range(60)]
#: Patterns, perhaps with predicates.
PLANNED = {
    "a sequence, 1 to 200 times": "SEQ(A, B){1,200}",
    "a sequence, 1 to 1,000 times": "SEQ(A, B){1,1000}",
    "4,095 events": "B{4095}",
    "60 optional parts": f"SEQ({', '.join(name + '?' for name in NAMES)}, A)",
    "2,480 optional parts": f"SEQ({', '.join(['A?', 'B?'] * 1240)})",
    "900 alternatives in a row": f"SEQ({', '.join(['(A OR B)'] * 900)})",
    "60 alternatives, 60 times": f"({' OR '.join(NAMES)}){{1,60}}",
    "300 long NOTs": f"SEQ(A, {', '.join(f'NOT C{{1,{4000 - number}}}' for number in range(300))}, B)",
    "60 counts": f"({' OR '.join(NAMES)})+ WHERE {' AND '.join(f'COUNT({name}) >= 2' for name in NAMES)}",
    "330 predicates along 4,000 events": "B{1,4000} WHERE "
    + " AND ".join(f"B.price + {number} < NEXT(B).price" for number in range(330)),
    "1,600 values": f"SEQ(A, B) WHERE A.key IN ({', '.join(map(str, range(1600)))})",
}


def texts(events: Events, runs: int) -> Result:
    """Each text by itself, and two thousand named queries in one text."""
    # Queries are planned and do not run, so no event is needed.
    df = events.spark.range(0).selectExpr("id AS time", "'A' AS type", "CAST(id AS int) AS k", "CAST(id AS int) AS x")
    contestants = {name: partial(_ask, df, text) for name, text in READ.items()}
    measured = take_turns({**contestants, "2,000 queries": lambda: parse_queries(MANY)}, runs)
    verdicts = [Verdict(f"{name}, {SIZE:,} characters", name, "", LIMIT) for name in READ]
    verdicts.append(Verdict(f"2,000 named queries in a text of {len(MANY):,} characters", "2,000 queries", "", LIMIT))
    return result("texts made to take long, until they are planned or refused", measured, verdicts)


def plans(events: Events, runs: int) -> Result:
    """Each pattern by itself, until Spark has the lazy answer or the query is refused."""
    df = events.many_keys()
    measured = take_turns({name: partial(_ask, df, f"PATTERN {text}") for name, text in PLANNED.items()}, runs)
    verdicts = [Verdict(name, name, "", LIMIT) for name in PLANNED]
    return result("patterns of large automata, until they are planned or refused", measured, verdicts)


def _ask(df: DataFrame, text: str) -> None:
    with contextlib.suppress(CetdslError):
        cet.pattern(df, text, time="time").count_trends(number="log2")


RACES = {race.__name__: race for race in (texts, plans)}
