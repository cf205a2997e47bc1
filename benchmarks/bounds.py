"""The race against seconds: the worst texts that were found, read, planned or refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from events import Events
from measure import take_turns
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
#: Texts that are read at once and take long to plan.
PLANNED: dict[str, str] = {}
MANY = ";\n".join(f"NAME q{n}: RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x" for n in range(2_000))


def bounds(events: Events, runs: int) -> Result:
    """Each text by itself, and two thousand named queries in one text."""
    # What is planned, not what runs, so that no event is needed.
    df = events.spark.range(0).selectExpr("id AS time", "'A' AS type", "CAST(id AS int) AS k", "CAST(id AS int) AS x")

    def ask(text: str) -> Callable[[], None]:
        def once() -> None:
            with contextlib.suppress(CetdslError):
                str(cet.pattern(df, text, time="time").explain())

        return once

    measured = take_turns({name: ask(text) for name, text in {**READ, **PLANNED}.items()}, runs)
    measured |= take_turns({"2,000 queries": lambda: parse_queries(MANY)}, runs)
    verdicts = [Verdict(f"{name}, {SIZE:,} characters", name, "", LIMIT) for name in (*READ, *PLANNED)]
    verdicts.append(Verdict(f"2,000 named queries in a text of {len(MANY):,} characters", "2,000 queries", "", LIMIT))
    return result("texts made to take long, until they are planned or refused", measured, verdicts)


RACES = {race.__name__: race for race in (bounds,)}
