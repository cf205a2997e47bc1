"""What the documentation of other engines says of MATCH_RECOGNIZE, as far as the standard says the same.

The data and the answers are those of their pages; queries are told in the shape in which cetdsl takes them. Most are
matched in this process, as a table function does; those that ask for what Spark alone evaluates are one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.errors import EngineError
from cetdsl.execution.match_table import TableMatch

pytestmark = pytest.mark.simple_plans

Answer = list[tuple[Any, ...]]


def matched(prices: Sequence[float], clause: str, kind: str = "integer") -> Answer:
    """The rows that a clause gives of days and their prices."""
    schema = T.StructType().add("day", "integer").add("price", kind)
    rows = [(day, price) for day, price in enumerate(prices, 1)]
    return [tuple(row) for row in TableMatch(schema, f"ORDER BY day {clause}").answer(rows)]


# -- Oracle's guide for data warehouses --------------------------------------------------------------------------------

ACME = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
FLAT_BOTTOM = [*ACME[:16], 12, 24, 23, 22]
WAVES = [1000, 775, 900, 775, 900, 775, 900, 775, 800, 550, 900, 800, 1100, 800, 550, 800, 875, 950, 600, 300]
LONG_WAVES = [36.25, 36.47, 36.36, 36.25, 36.36, 36.7, 36.5, 36.66, 36.98, 37.08, 37.43, 37.68, 37.66, 37.32, 37.16]
LONG_WAVES += [36.98, 37.19, 37.45, 37.79, 37.49, 37.3, 37.08, 37.34, 37.54, 37.69, 37.6, 37.93, 38.17]
RISES, FALLS = "price > PREV(price)", "price < PREV(price)"
ORACLE: dict[str, tuple[Sequence[float], str, Answer]] = {
    "the mean of a union of variables": (
        ACME,
        f"""MEASURES FIRST(strt.day) AS a, LAST(down.day) AS b, AVG(stdn.price) AS c AFTER MATCH SKIP TO LAST up
        PATTERN (strt down+ up+) SUBSET stdn = (strt, down) DEFINE up AS {RISES}, down AS {FALLS}""",
        [(5, 6, 18.5), (10, 12, 59 / 3), (14, 16, 17.0)],
    ),
    "running and final means": (
        ACME,
        """MEASURES RUNNING AVG(a.price) AS r, FINAL AVG(a.price) AS f ALL ROWS PER MATCH PATTERN (a+)
        DEFINE a AS a.price >= AVG(a.price)""",
        [
            (day, mean, sum(run) / len(run), price)
            for begin, end in ((1, 5), (6, 10), (11, 11), (12, 14), (15, 15), (16, 20))
            for run in [ACME[begin - 1 : end]]
            for day, price in zip(range(begin, end + 1), run)
            for mean in [sum(run[: day - begin + 1]) / (day - begin + 1)]
        ],
    ),
    "rows left out of what is shown": (
        ACME,
        f"""MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c, FINAL AVG(s.price) AS m ALL ROWS PER MATCH
        AFTER MATCH SKIP TO LAST b PATTERN ({{- a -}} b+ {{- c+ -}}) SUBSET s = (a, b)
        DEFINE a AS price >= 10, b AS {RISES}, c AS price <= PREV(price)""",
        [
            (day, number, "b", mean, ACME[day - 1])
            for number, mean, days in (
                (1, 18.8, range(2, 6)),
                (2, 19.2, range(7, 11)),
                (3, 20.0, (13,)),
                (4, 50 / 3, (17, 18)),
            )
            for day in days
        ],
    ),
    "falls of a quarter": (
        WAVES,
        """MEASURES b.day AS day, a.price AS p, b.price AS q, ((b.price - a.price) * 100) / a.price AS percent
        AFTER MATCH SKIP TO b PATTERN (a b) DEFINE b AS (b.price - a.price) / a.price < -0.24""",
        [
            (day, before, price, 100 * (price - before) / before)
            for day, before, price in (
                (10, 800, 550),
                (14, 1100, 800),
                (15, 800, 550),
                (19, 950, 600),
                (20, 600, 300),
            )
        ],
    ),
    "until a fall is made good": (
        WAVES,
        """MEASURES a.day AS a, a.price AS p, b.price AS q, COUNT(c.*) + 1 AS n, d.day AS d, d.price AS r
        PATTERN (a b c* d)
        DEFINE b AS (b.price - a.price) / a.price < -0.08, c AS c.price < a.price, d AS d.price >= a.price""",
        [(1, 1000, 775, 11, 13, 1100), (14, 800, 550, 1, 16, 800)],
    ),
    "shapes of V and of U": (
        FLAT_BOTTOM,
        f"""MEASURES strt.day AS a, down.day AS b, up.day AS c AFTER MATCH SKIP TO LAST up
        PATTERN (strt down+ flat* up+) DEFINE down AS {FALLS}, flat AS price = PREV(price), up AS {RISES}""",
        [(5, 6, 10), (10, 12, 13), (14, 16, 18)],
    ),
    "waves": (
        WAVES,
        f"""MEASURES CLASSIFIER() AS c, COUNT(*) AS n ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST z
        PATTERN (p q+ r+ s+ t+ u+ v+ w+ x+ y+ z+) DEFINE q AS {RISES}, r AS {FALLS}, s AS {RISES}, t AS {FALLS},
            u AS {RISES}, v AS {FALLS}, w AS {RISES}, x AS {FALLS}, y AS {RISES}, z AS {FALLS}""",
        [(day, "pqrstuvwxyz"[day - 2], day - 1, WAVES[day - 1]) for day in range(2, 13)],
    ),
    "waves of three or four days": (
        LONG_WAVES,
        f"""MEASURES v.day AS a, z.day AS b, COUNT(w.price) AS w, COUNT(x.price) AS x, COUNT(y.price) AS y,
            COUNT(z.price) AS z AFTER MATCH SKIP TO LAST z PATTERN (v w{{3,4}} x{{3,4}} y{{3,4}} z{{3,4}})
        DEFINE w AS {RISES}, x AS {FALLS}, y AS {RISES}, z AS {FALLS}""",
        [(8, 22, 4, 4, 3, 3)],
    ),
    "shapes of W that overlap": (
        WAVES,
        f"""MEASURES MATCH_NUMBER() AS n, p.day AS a, t.day AS b, MAX(r.price) AS r, MIN(s.price) AS s
        AFTER MATCH SKIP TO LAST r PATTERN (p q+ r+ s+ t+)
        DEFINE q AS {FALLS}, r AS {RISES}, s AS {FALLS}, t AS {RISES}""",
        [
            (1, 1, 5, 900, 775),
            (2, 3, 7, 900, 775),
            (3, 5, 9, 900, 775),
            (4, 7, 11, 800, 550),
            (5, 9, 13, 900, 800),
            (6, 11, 18, 1100, 550),
        ],
    ),
}


@pytest.mark.parametrize(("prices", "clause", "expected"), ORACLE.values(), ids=ORACLE)
def test_oracle(prices: Sequence[float], clause: str, expected: Answer) -> None:
    found = matched(prices, clause, "double" if prices is LONG_WAVES else "integer")
    assert [
        pytest.approx(row) if None not in row and not any(isinstance(v, str) for v in row) else row for row in found
    ] == expected


CALLS = [(1354, 1575), (1603, 1829), (1857, 2301), (2320, 2819), (2840, 2964), (64342, 64457), (85753, 85790)]
CALLS += [(85808, 85985), (86011, 86412), (86437, 86546), (163436, 163505), (163534, 163967), (163982, 164454)]
CALLS += [(214677, 214764), (214782, 215248), (216056, 216271), (216297, 216728), (216747, 216853), (261138, 261463)]
CALLS += [(261493, 261864), (261890, 262098), (262115, 262655), (301931, 302226), (302248, 302779), (302804, 302992)]
CALLS += [(303015, 303258), (303283, 303337), (383019, 383378), (383407, 383534), (424800, 425096)]


def test_oracle_s_dropped_calls() -> None:
    clause = """ORDER BY start_time
        MEASURES a.start_time AS begin, SUM(end_time - start_time) AS took, COUNT(b.*) AS restarts, MATCH_NUMBER() AS n,
            LAST(end_time) - a.start_time - SUM(end_time - start_time) AS interrupted
        PATTERN (a b*) DEFINE b AS b.start_time - PREV(b.end_time) < 60"""
    schema = T.StructType().add("start_time", "integer").add("end_time", "integer")
    assert [tuple(row) for row in TableMatch(schema, clause).answer(CALLS)] == [
        (1354, 1514, 4, 1, 96),
        (64342, 115, 0, 2, 0),
        (85753, 724, 3, 3, 69),
        (163436, 974, 2, 4, 44),
        (214677, 553, 1, 5, 18),
        (216056, 752, 2, 6, 45),
        (261138, 1444, 3, 7, 73),
        (301931, 1311, 4, 8, 95),
        (383019, 486, 1, 9, 29),
        (424800, 296, 0, 10, 0),
    ]


# -- Trino's page, and the examples beside it --------------------------------------------------------------------------

FOUR, EIGHT, SIX = [90, 80, 70, 70], [90, 80, 70, 80, 90, 50, 40, 60], [90, 80, 70, 80, 70, 80]
LOWER, HIGHER = "B AS B.price < PREV(B.price)", "C AS C.price > PREV(C.price)"


def rows(text: str) -> list[tuple[int, int, str | None]]:
    """The day, the number of the match and the label of rows such as ``1:1A 2:2-``; a hyphen is of an empty match."""
    found = []
    for each in text.split():
        day, label = each.split(":")
        found.append((int(day), int(label[:-1]), None if label[-1] == "-" else label[-1]))
    return found


TRINO = [
    (EIGHT, f"(A B+ C+) DEFINE {LOWER}, {HIGHER}", "1:1A 2:1B 3:1B 4:1C 5:1C 6:2A 7:2B 8:2C"),
    # Empty patterns, anchors, alternatives, PERMUTE, groups.
    (FOUR, "(() | A)", "1:1- 2:2- 3:3- 4:4-"),
    (FOUR, "(^A)", "1:1A"),
    (FOUR, "(A^)", ""),
    (FOUR, "(^A^)", ""),
    (FOUR, "(A$)", "4:1A"),
    (FOUR, "($A)", ""),
    (FOUR, "($A$)", ""),
    (FOUR, f"(A B C) DEFINE {LOWER}, C AS C.price = PREV(C.price)", "2:1A 3:1B 4:1C"),
    (FOUR, f"(B | C | A) DEFINE {LOWER}, C AS C.price <= PREV(C.price)", "1:1A 2:2B 3:3B 4:4C"),
    (FOUR, f"(PERMUTE(B, C)) DEFINE {LOWER}, C AS C.price < PREV(C.price)", "2:1B 3:1C"),
    (FOUR, f"(((A) (B (C)))) DEFINE {LOWER}, C AS C.price = PREV(C.price)", "2:1A 3:1B 4:1C"),
    # Quantifiers, greedy and reluctant.
    *(
        (FOUR, f"(B{quantifier}) DEFINE B AS B.price <= PREV(B.price)", expected)
        for quantifiers, expected in (
            ("* {,} {,5}", "1:1- 2:2B 3:2B 4:2B"),
            ("*? ?? {,}? {,1}? {,2}? {,5}?", "1:1- 2:2- 3:3- 4:4-"),
            ("+ {1,} {2,} {1,5}", "2:1B 3:1B 4:1B"),
            ("+? {1,}? {1,1} {1,1}? {1,5}? {1} {1}?", "2:1B 3:2B 4:3B"),
            ("? {,1}", "1:1- 2:2B 3:3B 4:4B"),
            ("{,2}", "1:1- 2:2B 3:2B 4:3B"),
            ("{2,}? {2} {2}?", "2:1B 3:1B"),
            ("{5,} {5,}? {5,7} {5,7}? {5} {5}?", ""),
        )
        for quantifier in quantifiers.split()
    ),
    # Exclusions.
    *(
        (EIGHT, f"({pattern}) DEFINE {LOWER}, {HIGHER}", expected)
        for pattern, expected in (
            ("A {- B+ -} C+", "1:1A 4:1C 5:1C 6:2A 8:2C"),
            ("{- A -} {- B+ -} C+", "4:1C 5:1C 8:2C"),
            ("A {- {- B+ -} C+ -}", "1:1A 6:2A"),
            ("{- A B+ C+ -}", ""),
            ("A B+ {- ()* -} C+", "1:1A 2:1B 3:1B 4:1C 5:1C 6:2A 7:2B 8:2C"),
            ("A {- B -}+ {- C -}+", "1:1A 6:2A"),
            ("A {- B -}* {- C -}*", "1:1A 6:2A"),
            ("A {- B -}{1,2} {- C -}{1,2}", "1:1A 6:2A"),
            ("A {- C -}{2,3} {- B -}{2,3}", "3:1A"),
        )
    ),
    # Parts that match no row, repeated.
    *(
        (FOUR, f"({pattern}) DEFINE {LOWER}", expected)
        for pattern, expected in (
            ("()* | B", "1:1- 2:2- 3:3- 4:4-"),
            ("()+ | B", "1:1- 2:2- 3:3- 4:4-"),
            ("(){5,} | B", "1:1- 2:2- 3:3- 4:4-"),
            ("B | ()*", "1:1- 2:2B 3:3B 4:4-"),
            ("(B ()*)*", "1:1- 2:2B 3:2B 4:3-"),
            ("(B ()*)*?", "1:1- 2:2- 3:3- 4:4-"),
            ("^* | B", "1:1- 2:2- 3:3- 4:4-"),
            ("^+ | B", "1:1- 2:2B 3:3B"),
            ("^* A B", "1:1A 2:1B"),
            ("$* | B", "1:1- 2:2- 3:3- 4:4-"),
            ("$+ | B", "2:1B 3:2B"),
            ("B A $+", "3:1B 4:1A"),
        )
    ),
    # What variables are bound to depends on labels, or on rows that are bound to them.
    ([1, 1], "((A | B)* X) DEFINE X AS price = A.price", "1:1A 2:1X"),
    ([1, 1], "((A | B)* X) DEFINE X AS price = B.price", "1:1B 2:1X"),
    (
        range(1, 7),
        "((A | B)* X) DEFINE X AS price = PREV(LAST(A.price), 3) + FIRST(A.price) + PREV(LAST(B.price), 2)",
        "1:1B 2:1A 3:1A 4:1A 5:1B 6:1X",
    ),
    (
        range(1, 6),
        "((A | B)* X $) SUBSET U = (A, B) DEFINE X AS PREV(CLASSIFIER(U), 1) = 'A' AND LAST(CLASSIFIER(), 3) = 'B'"
        " AND FIRST(CLASSIFIER(U)) = 'B'",
        "1:1B 2:1B 3:1A 4:1A 5:1X",
    ),
    (FOUR, "(A+) DEFINE A AS NEXT(CLASSIFIER()) = 'A'", ""),
    (
        range(9),
        "((A | B)+ L) DEFINE L AS " + " AND ".join(f"FIRST(CLASSIFIER(), {n}) = 'B'" for n in range(8)),
        "1:1B 2:1B 3:1B 4:1B 5:1B 6:1B 7:1B 8:1B 9:1L",
    ),
    ([1] * 20, "((A+)+ B) DEFINE A AS price = 1, B AS price = 2", ""),
]


@pytest.mark.parametrize(
    ("prices", "pattern", "expected"), TRINO, ids=lambda value: value if isinstance(value, str) else ""
)
def test_trino_s_patterns(prices: Sequence[int], pattern: str, expected: str) -> None:
    measures = "MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c, RUNNING LAST(price) AS p"
    found = matched(prices, f"{measures} ALL ROWS PER MATCH PATTERN {pattern}")
    assert [row[:3] for row in found] == rows(expected)
    # The value of a row that is bound is its own, and that of an empty match NULL.
    assert all(own == (None if label is None else price) for _, _, label, own, price in found)


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("PAST LAST ROW", "1:1A 2:1B 3:1B 4:1C"),
        ("TO NEXT ROW", "1:1A 2:1B 3:1B 4:1C 2:2A 3:2B 4:2C 4:3A 5:3B 6:3C"),
        *((to, "1:1A 2:1B 3:1B 4:1C 4:2A 5:2B 6:2C") for to in ("TO FIRST C", "TO LAST B", "TO B", "TO U")),
    ],
)
def test_trino_s_places_to_go_on_at(skip: str, expected: str) -> None:
    clause = f"""MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c ALL ROWS PER MATCH AFTER MATCH SKIP {skip}
        PATTERN (A B+ C+ D?) SUBSET U = (C, D) DEFINE {LOWER}, {HIGHER}, D AS FALSE"""
    assert [row[:3] for row in matched(SIX, clause)] == rows(expected)


#: By the measure, of three rows that are all A.
NAVIGATED = {
    "price": [10, 20, 30],
    "LAST(price)": [10, 20, 30],
    "RUNNING LAST(price)": [10, 20, 30],
    "FIRST(price)": [10, 10, 10],
    "RUNNING FIRST(price)": [10, 10, 10],
    "FINAL FIRST(price)": [10, 10, 10],
    "FINAL LAST(price)": [30, 30, 30],
    "FINAL LAST(price, 2)": [10, 10, 10],
    "LAST(price, 10)": [None, None, None],
    "FIRST(price, 10)": [None, None, None],
    "NEXT(FIRST(price), 10)": [None, None, None],
    "PREV(FIRST(price), 10)": [None, None, None],
    "PREV(FIRST(price, 10), 2)": [None, None, None],
    "PREV(LAST(price, 10), 2)": [None, None, None],
    "PREV(price)": [None, 10, 20],
    "NEXT(price)": [20, 30, None],
    "NEXT(FIRST(price), 2)": [30, 30, 30],
    # The clause is RUNNING, so that the third row is not seen from the rows before.
    "FIRST(price, 2)": [None, None, 30],
    "CLASSIFIER() IN ('X', LOWER(CLASSIFIER()))": [False] * 3,
    "MATCH_NUMBER() IN (0, MATCH_NUMBER())": [True] * 3,
    "FIRST(A.price) IN (30, LAST(A.price))": [True, False, False],
}


def test_trino_s_measures() -> None:
    for measure, expected in NAVIGATED.items():
        found = matched([10, 20, 30], f"MEASURES {measure} AS m ALL ROWS PER MATCH PATTERN (A+)")
        assert [row[1] for row in found] == expected, measure
    of_pair = {"PREV(B.price, 4)": None, "PREV(B.price, 3)": 10, "PREV(B.price, 2)": 20, "NEXT(B.price, 1)": 40}
    for measure, value in {**of_pair, "NEXT(B.price, 2)": None}.items():
        clause = f"MEASURES {measure} AS m PATTERN (A B) DEFINE B AS B.price = PREV(B.price)"
        assert matched([10, 20, 30, 30, 40], clause) == [(value,)], measure
    labels = f"""MEASURES CLASSIFIER() AS c, NEXT(CLASSIFIER()) AS n, FINAL LAST(CLASSIFIER()) AS f ALL ROWS PER MATCH
        PATTERN (A B+ C+) DEFINE {LOWER}, {HIGHER}"""
    found = matched([90, 80, 70, 80], labels)
    assert [row[1:4] for row in found] == [("A", "B", "C"), ("B", "B", "C"), ("B", "C", "C"), ("C", None, "C")]
    unions = """MEASURES CLASSIFIER(U) AS u, CLASSIFIER(W) AS w ALL ROWS PER MATCH PATTERN ((L | H) A)
        SUBSET U = (L, H), W = (A, L, H) DEFINE A AS A.price = 80, L AS L.price < 80, H AS H.price > 80"""
    assert [row[1:3] for row in matched([90, 80, 70, 80], unions)] == [("H", "H"), ("H", "A"), ("L", "L"), ("L", "A")]
    nested = "MEASURES LAST('pattern_' || CLASSIFIER()) AS a, NEXT(U.price + 10) AS b,"
    nested += " LAST(CLASSIFIER() = 'A' OR price > 10) AS c, LAST(CLASSIFIER(U) = 'A' OR U.price > 99) AS d,"
    nested += " ARRAY_AGG(CLASSIFIER()) AS e, COUNT(1) AS f PATTERN (A B) SUBSET U = (A, B)"
    assert matched([1, 2, 3], nested) == [("pattern_B", 13, False, False, ["A", "B"], 2)]


def test_trino_s_unmatched_rows() -> None:
    clause = f"""MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c ALL ROWS PER MATCH WITH UNMATCHED ROWS
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{{2}}) DEFINE {LOWER}"""
    assert [row[:3] for row in matched([100, 100, 90, 80, 70, 100], clause)] == [
        (1, None, None),
        *rows("2:1A 3:1B 4:1B 3:2A 4:2B 5:2B"),
        (6, None, None),
    ]


# -- Flink's page ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prices", "clause", "expected"),
    [
        *(
            (
                [10, 11, 12, 13, 14, 16],
                f"""MEASURES C.price AS p PATTERN (A {kleene} C)
                DEFINE A AS A.price > 10, B AS B.price < 15, C AS C.price > 12""",
                found,
            )
            for kleene, found in (("B*", [(16,)]), ("B*?", [(13,), (16,)]))
        ),
        (
            [10, 12, 13, 11],
            """MEASURES FIRST(A.price) AS a, LAST(A.price) AS b, B.price AS c PATTERN (A+ B)
            DEFINE A AS LAST(A.price, 1) IS NULL OR A.price > LAST(A.price, 1), B AS B.price < LAST(A.price)""",
            [(10, 13, 11)],
        ),
        (
            [10, 15, 20, 31, 35],
            """MEASURES ARRAY_AGG(price) AS ps PATTERN (A B+)
            DEFINE A AS A.price >= 10, B AS B.price > A.price AND SUM(price) < 100 AND SUM(B.price) < 80""",
            [([10, 15, 20, 31],)],
        ),
        (
            [10, 15, 20, 31, 35],
            """MEASURES ARRAY_AGG(price) AS ps PATTERN (A B+) DEFINE A AS A.price >= 10,
            B AS (LAST(B.price, 1) IS NULL OR B.price > LAST(B.price, 1))
                AND (LAST(B.price, 2) IS NULL OR B.price > 2 * LAST(B.price, 2))""",
            [([10, 15, 20, 31],)],
        ),
        *(
            (
                prices,
                """MEASURES ARRAY_AGG(CLASSIFIER()) AS c PATTERN (A B? C)
                DEFINE B AS B.price < 20, C AS LAST(price, 1) < C.price""",
                [(found,)],
            )
            for prices, found in (([10, 15, 20], ["A", "B", "C"]), ([10, 20], ["A", "C"]))
        ),
        *(
            (
                [7, 9, 10, 5, 10, 7, 14],
                f"""MEASURES SUM(A.price) AS s, FIRST(day) AS a, LAST(day) AS b AFTER MATCH SKIP {skip} PATTERN (A+ C)
                DEFINE A AS SUM(A.price) < 30""",
                found,
            )
            for skip, found in (
                ("PAST LAST ROW", [(26, 1, 4), (17, 5, 7)]),
                # The page leaves the last match out, of rows 6 and 7.
                ("TO NEXT ROW", [(26, 1, 4), (24, 2, 5), (25, 3, 6), (22, 4, 7), (17, 5, 7), (7, 6, 7)]),
            )
        ),
        (
            # Twenty minutes are one tick.
            [20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19],
            """MEASURES C.day AS d, A.price - C.price AS fall PATTERN (A B* C) WITHIN 3
            DEFINE B AS B.price > A.price - 10, C AS C.price < A.price - 10""",
            [(10, 14)],
        ),
    ],
)
def test_flink(prices: Sequence[int], clause: str, expected: Answer) -> None:
    assert matched(prices, clause) == expected


def test_flink_s_search_that_would_not_end() -> None:
    """Its page goes on at the last A three times; the fourth match, of rows 6 and 7, begins with that row."""
    clause = "MEASURES LAST(day) AS b AFTER MATCH SKIP TO LAST A PATTERN (A+ C) DEFINE A AS SUM(A.price) < 30"
    with pytest.raises(EngineError, match="goes to the first row of match 4"):
        matched([7, 9, 10, 5, 10, 7, 14], clause)


# -- what Spark alone evaluates ----------------------------------------------------------------------------------------


def test_conditions_that_spark_evaluates(spark: Any) -> None:
    """Oracle's large volumes within an hour, and transfers; Snowflake's shapes of W; Trino's sub-queries."""
    minutes = [0, 5, 10, 11, 16, 19, 20, 33, 36, 48, 59, 69, 79, 89]
    thousands = [35, 15, 5, 42, 7, 5, 5, 55, 15, 15, 15, 55, 55, 15]
    volumes = spark.createDataFrame(list(zip(minutes, thousands)), "minute int, volume int").selectExpr(
        "TIMESTAMP '2010-01-01 12:00:00' + make_dt_interval(0, 0, minute) AS ts", "volume * 1000 AS volume"
    )
    summed = volumes.match_recognize(
        """ORDER BY ts MEASURES SUM(a.volume) AS total ALL ROWS PER MATCH PATTERN (a {- b* -} a {- b* -} a)
        DEFINE a AS a.volume > 30000 AND a.ts - FIRST(a.ts) < INTERVAL '0 01:00:00.00' DAY TO SECOND,
            b AS b.volume <= 30000 AND b.ts - FIRST(a.ts) < INTERVAL '0 01:00:00.00' DAY TO SECOND"""
    )
    log = [(6, 1000, "bob"), (15, 1500, "bob"), (20, 1500, "allen"), (23, 1000, "tim"), (26, 1_000_000, "tim")]
    transfers = spark.createDataFrame(
        [(date(2012, 1, 1) + timedelta(day - 1), amount, to) for day, amount, to in log],
        "at date, amount int, to string",
    )
    large = """y AS amount >= 1000000 AND LAST(x.at) - FIRST(x.at) < INTERVAL 30 DAYS
        AND y.at - LAST(x.at) < INTERVAL 10 DAYS"""
    to_many = transfers.match_recognize(
        f"ORDER BY at MEASURES FIRST(x.at) AS a, LAST(x.at) AS b, y.amount AS y PATTERN (x{{3,}} y)"
        f" DEFINE x AS amount < 2000, {large}"
    )
    to_others = transfers.match_recognize(
        """ORDER BY at MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH PATTERN (z x{2,} y)
        DEFINE z AS amount < 2000, x AS amount <= 2000 AND PREV(x.to) != x.to,
            y AS amount >= 1000000 AND LAST(x.at) - z.at < INTERVAL 30 DAYS AND y.at - LAST(x.at) < INTERVAL 10 DAYS
                AND SUM(x.amount) + z.amount < 20000"""
    )
    quotes = {"ABCD": [50, 36, 39, 42, 30, 47, 71, 80, 75, 63], "XYZ": [89, 24, 37, 63, 65, 56, 50, 54, 30, 32]}
    prices = spark.createDataFrame(
        [(company, day, price) for company, own in quotes.items() for day, price in enumerate(own, 1)],
        "company string, day int, price int",
    )
    double = prices.match_recognize(
        f"""PARTITION BY company ORDER BY day MEASURES FIRST(day) AS a, LAST(day) AS b, COUNT(*) AS n
        AFTER MATCH SKIP TO LAST more PATTERN (before less+ more+ less+ more+)
        DEFINE less AS {FALLS}, more AS {RISES}"""
    )
    four = spark.createDataFrame([(n, 100 * n) for n in range(1, 5)], "id int, value int")
    asked = four.match_recognize(
        """ORDER BY id
        MEASURES LAST(A.value + (SELECT 1000)) AS v, CAST(LOWER(LAST(CLASSIFIER())) || '_x' AS string) AS c,
            SUM(IF(CLASSIFIER() = 'A', value, -value)) AS s, (SELECT max(n) FROM range(3) AS r(n)) AS r
        AFTER MATCH SKIP TO NEXT ROW PATTERN (B? A) DEFINE A AS id > (SELECT 1), B AS id % 2 = 1"""
    )
    answers = {"summed": summed, "to_many": to_many, "to_others": to_others, "double": double, "asked": asked}
    named = [
        answer.select(F.lit(name).alias("name"), F.to_json(F.struct("*")).alias("row"))
        for name, answer in answers.items()
    ]
    found = sorted(tuple(row) for row in reduce(lambda one, other: one.union(other), named).collect())
    expected = {
        "summed": [
            f'{{"ts":"2010-01-01T12:{minute}:00.000Z","total":{total},"volume":{volume}}}'
            for minute, total, volume in (("00", 35000, 35000), ("11", 77000, 42000), ("33", 132000, 55000))
        ],
        "to_many": ['{"a":"2012-01-06","b":"2012-01-23","y":1000000}'],
        "to_others": [
            f'{{"at":"2012-01-{day}","c":"{label}","amount":{amount},"to":"{to}"}}'
            for (day, amount, to), label in zip(log[1:], "zxxy")
        ],
        "double": [f'{{"company":"{company}","a":1,"b":8,"n":8}}' for company in quotes],
        "asked": [
            f'{{"v":{value},"c":"a_x","s":{total},"r":2}}'
            for value, total in ((1200, 100), (1200, 200), (1400, 100), (1400, 400))
        ],
    }
    assert found == sorted((name, row) for name, listed in expected.items() for row in listed)
