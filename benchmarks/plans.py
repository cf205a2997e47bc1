"""The race against seconds: patterns whose automata are large, planned or refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from events import Events
from measure import take_turns
from races import Result, Verdict, result

import cetdsl as cet
from cetdsl.errors import CetdslError

#: Every query of 10 kB is planned or refused within so many seconds.
LIMIT = 5.0
MANY = [f"V{number}" for number in range(60)]
#: Patterns, perhaps with predicates.
PLANNED = {
    "a sequence, 1 to 200 times": "SEQ(A, B){1,200}",
    "a sequence, 1 to 1,000 times": "SEQ(A, B){1,1000}",
    "4,095 events": "B{4095}",
    "60 optional parts": f"SEQ({', '.join(name + '?' for name in MANY)}, A)",
    "2,480 optional parts": f"SEQ({', '.join(['A?', 'B?'] * 1240)})",
    "900 alternatives in a row": f"SEQ({', '.join(['(A OR B)'] * 900)})",
    "60 alternatives, 60 times": f"({' OR '.join(MANY)}){{1,60}}",
    "300 long NOTs": f"SEQ(A, {', '.join(f'NOT C{{1,{4000 - number}}}' for number in range(300))}, B)",
    "60 counts": f"({' OR '.join(MANY)})+ WHERE {' AND '.join(f'COUNT({name}) >= 2' for name in MANY)}",
    "330 predicates along 4,000 events": "B{1,4000} WHERE "
    + " AND ".join(f"B.price + {number} < NEXT(B).price" for number in range(330)),
    "1,600 values": f"SEQ(A, B) WHERE A.key IN ({', '.join(map(str, range(1600)))})",
}


def plans(events: Events, runs: int) -> Result:
    """Each query by itself, until Spark has the lazy answer or the query is refused."""
    df = events.many_keys()

    def ask(pattern: str) -> Callable[[], None]:
        def once() -> None:
            with contextlib.suppress(CetdslError):
                cet.pattern(df, f"PATTERN {pattern}", time="time").count_trends(number="log2")

        return once

    measured = take_turns({name: ask(pattern) for name, pattern in PLANNED.items()}, runs)
    verdicts = [Verdict(name, name, "", LIMIT) for name in PLANNED]
    return result("patterns of large automata, until they are planned or refused", measured, verdicts)


RACES = {race.__name__: race for race in (plans,)}
