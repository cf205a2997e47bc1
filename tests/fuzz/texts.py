"""Random query texts: from the grammar's rules, from nodes and from published queries, most of them damaged.

Within seconds, each must be planned, or refused by an error of cetdsl; no other exception may be raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import attrs
import generators
import nodes_strategy
import pyparsing as pp
from hypothesis import HealthCheck, Phase, given, seed, settings

from cetdsl.analysis import Binding, Field, Schema, analyse
from cetdsl.frontend.sase import grammar, parse, parse_queries
from cetdsl.ir.extraction import Extraction
from cetdsl.ir.kernel import ENDS, MAXIMAL
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.nodes import And
from cetdsl.pattern.text import unparse
from cetdsl.planning.planner import plan_aggregate, plan_complete, plan_trends
from cetdsl.planning.strategies.complete import CompleteRequest, CountRequest
from cetdsl.planning.strategies.event_graph import event_graph
from cetdsl.planning.strategies.request import compile_sides
from cetdsl.rewrite import rewrite
from fuzz.cases import Case, Kind, only_ours, within, without_parts

ROOT = Path(__file__).parent.parent.parent
#: Seconds in which a text of up to 10 kB is planned or refused, however it is asked.
LIMIT, LONGEST = 5, 10_000
#: The columns that most queries ask for, and one of each type.
COLUMNS = """t bigint, s int, type string, x int, y double, k string, g int, name string, a bigint, b string,
price double, ts timestamp, dt date, ntz timestamp_ntz, flag boolean, small tinyint, short smallint, f float,
d decimal(10,2), huge decimal(38,0), tiny decimal(38,38), raw binary, list array<int>, map map<string,int>,
row struct<a:int,b:string>, source string, destination string, ticker string, patient int, activity string, rate int,
volume bigint, amount double, kind string,
days interval day to second, months interval year to month"""
SCHEMA = Schema([Field(*column.strip().split(" ", 1)) for column in re.split(r",(?![^<(]*[>)])", COLUMNS)])
TIMES = ("t", "ts", "ntz", "dt")


def words(text: str) -> list[str]:
    return text.split()


NUMBERS = words("""0 1 -1 2147483647 2147483648 9223372036854775807 9223372036854775808 -9223372036854775809 1e308 1e309
-1e309 1e-400 0.0 -0.0 .5 5. 0x10 1_000 NaN Infinity -inf sNaN ² ٣ ½ 1e 1e+ 00 4096 4097 1e5000""")
NUMBERS += ["1" * 38, "1" * 39, "9" * 400, "9" * 5000, "0." + "3" * 60]
STRINGS = words(r"""'' ' ''' 'a''b' "" `` `a` '\' '%'""") + [f"'{each}'" for each in "\0\ud800\U0001f600\u202e\r\n"]
STRINGS += ["'" + "x" * 3000 + "'", "'-- '", *(f"DATE '{day}'" for day in ("2024-02-30", "+12000-01-01", "0000-00-00"))]
STRINGS += [f"DECIMAL '{number}'" for number in ("sNaN", "NaN", "1E+9999", "-0", "Infinity")]
STRINGS += [f"TIMESTAMP '{at}'" for at in ("0001-01-01", "9999-12-31 23:59:59-18:00", "now", "2024-03-10 02:30:00")]
WORDS = [*"()[]{},;.*+-/%=<>?!|&`'\"\\\n\r\t\0\ufeff\u2028ſİ", "GROUP BY", "IS NULL", "sum(A.x)", "CAST(x AS int)"]
WORDS += words("""
<= >= != <> == -- AND OR NOT SEQ PATTERN WHERE WITHIN SLIDE RETURN NEXT PREV FIRST COUNT(*) LENGTH NULL
TRUE BETWEEN IN LIKE NAME AS A B+ C* A.x A[i] A[i+1] A[99999] B{0,0} B{2,1} B{4095} {1,60} minutes months [k] DISTINCT
reflect('a','b') rand() uuid() abs(A.x) current_timestamp()""")


def plan(text: str, time: str) -> None:
    """Plans every answer to a text."""
    query = parse(text)
    assert parse(unparse(query)) == query or "\ud800" in text, "another query when it is written down"
    resolved = rewrite(analyse(query, SCHEMA, Binding(time)))[0]
    returning = tuple((item.output_name, item.aggregate) for item in resolved.query.returning)
    with only_ours():
        plan_aggregate(resolved, returning or (("count", Aggregate("count")),), "decimal")
    with only_ours():
        plan_trends(resolved, ("t",), 5)
    if isinstance(resolved.query.pattern, And):
        return
    for reading in (MAXIMAL, ENDS):
        request = CompleteRequest(resolved, reading, Extraction(), ("t",), None, compile_sides(resolved))
        with only_ours():
            plan_complete(request)
    with only_ours():
        plan_complete(CountRequest(request, "n", "string"))
    with only_ours():
        event_graph(resolved, ("t",), "auto")


@attrs.frozen
class Text(Case):
    """One text, asked without Spark."""

    text: str
    time: str = "t"

    def check(self, spark: Any = None) -> None:
        with within(LIMIT), only_ours():
            plan(self.text, self.time)

    def smaller(self) -> Iterator[Case]:
        for parts in without_parts(re.findall(r"\w+|\s+|.", self.text, re.DOTALL)):
            yield attrs.evolve(self, text="".join(parts))


@attrs.frozen
class Texts(Text):
    """Several named queries in one text."""

    def check(self, spark: Any = None) -> None:
        with within(LIMIT), only_ours():
            parse_queries(self.text)


@attrs.frozen
class Bound(Text):
    """One text bound to a DataFrame of Spark, which then looks at what is planned; nothing runs."""

    def check(self, spark: Any = None) -> None:
        frame = frame_of(spark)
        with within(2 * LIMIT, 120), only_ours():
            bound = frame.pattern(self.text, time=self.time)
            for ask in (
                lambda: bound.aggregate() if bound.query.returning else bound.count_trends(number="string"),
                lambda: bound.trends(limit=3),
                lambda: bound.complete_trends(),
                lambda: bound.explain(),
            ):
                with only_ours():
                    str(ask())


_FRAMES: dict[int, Any] = {}


def frame_of(spark: Any) -> Any:
    """An empty DataFrame with a column of each type."""
    if id(spark) not in _FRAMES:
        kinds = [f"CAST(NULL AS {field.type}) AS {field.name}" for field in SCHEMA.fields]
        _FRAMES[id(spark)] = spark.range(0).selectExpr(*kinds)
    return _FRAMES[id(spark)]


# Where texts come from ------------------------------------------------------------------------------------------------


@cache
def published() -> tuple[str, ...]:
    """The queries of the documents, the examples and the tests."""
    files = [*ROOT.glob("docs/*.rst"), *ROOT.glob("*.md"), *ROOT.glob("examples/*.py"), *ROOT.glob("cetdsl/*/*.py")]
    files += ROOT.glob("tests/test_*.py")
    found = []
    for path in sorted(files):
        text = path.read_text(encoding="utf-8")
        found += re.findall(r"(?:RETURN [^\n\"']*)?PATTERN [^\"]*?(?=\"|\n\s*\n|\Z)", text)[:60]
    for path in sorted(ROOT.glob("tests/fixtures/rewrite/*.txt")):
        found += re.split(r"\n\s*\n|\n--.*\n", path.read_text(encoding="utf-8"))
    return tuple(dict.fromkeys(text.strip() for text in found if 8 < len(text) < 2000))


def of_a_pattern(choose: Random, pattern: str) -> str:
    """A string that a regular expression may match, were it not for lookaheads and lookbehinds."""
    try:
        from re import _parser as parser
    except ImportError:  # before Python 3.11
        import sre_parse as parser
    return "".join(_piece(choose, *node) for node in parser.parse(pattern))


def _piece(choose: Random, op: Any, value: Any) -> str:
    name = str(op)
    if name in ("LITERAL", "NOT_LITERAL"):
        return chr(value) if name == "LITERAL" else choose.choice("aZ1 _é")
    if name == "ANY":
        return choose.choice("aZ1 _é'")
    if name == "IN":
        options = [each for each in value if str(each[0]) != "NEGATE"]
        return choose.choice("aZ1 _é") if len(options) < len(value) else _piece(choose, *choose.choice(options))
    if name == "RANGE":
        return chr(choose.randint(*value))
    if name == "CATEGORY":
        return {"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "x"}.get(str(value), "é")
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, high, inner = value
        times = choose.randint(low, min(high, low + 3))
        return "".join(_piece(choose, *node) for _ in range(times) for node in inner)
    if name == "BRANCH":
        return "".join(_piece(choose, *node) for node in choose.choice(value[1]))
    if name == "SUBPATTERN":
        return "".join(_piece(choose, *node) for node in value[-1])
    if name == "ATOMIC_GROUP":
        return "".join(_piece(choose, *node) for node in value)
    return ""


#: What rules for names, numbers, strings and units mostly give, rather than random strings of their expressions.
_LIKELY = words("A B A B A B C x y k g 1 2 5 3 2.5 'u' '2024-01-01' ticks minutes days < > = + abs upper")


def of_a_rule(choose: Random, rule: Any, depth: int = 0) -> str:
    """A random text of a rule of the grammar; the deeper the rule is nested, the shorter."""
    if isinstance(rule, pp.Regex):
        likely = [each for each in _LIKELY if rule.re.fullmatch(each)]
        return choose.choice(likely) if likely and choose.random() < 0.9 else of_a_pattern(choose, rule.re.pattern)
    if isinstance(rule, (pp.Empty, pp.StringEnd)):
        return ""
    if isinstance(rule, (pp.Literal, pp.Keyword)):
        return rule.match
    if isinstance(rule, (pp.NotAny, pp.FollowedBy)):
        return ""
    if isinstance(rule, (pp.Opt, pp.ZeroOrMore)):
        if choose.random() < (0.6 if depth > 25 else 0.4):
            return ""
        return of_a_rule(choose, rule.expr, depth + 1)
    if isinstance(rule, pp.OneOrMore):
        return " ".join(of_a_rule(choose, rule.expr, depth + 1) for _ in range(choose.choice((1, 1, 2))))
    if isinstance(rule, (pp.MatchFirst, pp.Or)):
        if depth > 40:
            return choose.choice(_LIKELY)
        # What begins with NOT is tried first by the grammar, and refused at most places.
        return of_a_rule(choose, choose.choice(rule.exprs[choose.random() < 0.7 and len(rule.exprs) > 1 :]), depth + 1)
    if isinstance(rule, pp.And):
        return " ".join(filter(None, (of_a_rule(choose, each, depth + 1) for each in rule.exprs)))
    inner = getattr(rule, "expr", None)
    return of_a_rule(choose, inner, depth + 1) if inner is not None and depth < 60 else choose.choice(_LIKELY)


def of_the_grammar(choose: Random) -> str:
    return of_a_rule(choose, grammar())


def of_a_stream(choose: Random) -> str:
    return unparse(generators.random_case(choose.getrandbits(40)).query)


def of_nodes(choose: Random) -> str:
    """The text of any valid query."""
    found: list[str] = []

    @seed(choose.getrandbits(40))
    @settings(
        max_examples=1, database=None, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    @given(nodes_strategy.queries())
    def draw(query: Any) -> None:
        found.append(unparse(query, lenient=True))

    draw()
    return found[0]


def repeated(choose: Random) -> str:
    """A pattern with one part again and again, beside or inside itself."""
    part = choose.choice(("A", "B+", "C?", "A*", "(A OR B)", "(A AND B)", "NOT N", "SEQ(A, B)", "A{2,3}"))
    times = int(10 ** choose.uniform(0, 3))
    shape = choose.choice(("row", "or", "and", "nested", "where", "sum", "signs"))
    if shape in ("row", "or", "and"):
        joint = {"row": ", ", "or": " OR ", "and": " AND "}[shape]
        parts = [part.replace("A", f"A{n}") if choose.random() < 0.3 else part for n in range(times)]
        return f"PATTERN SEQ(X, {joint.join(parts)}, Y)"
    if shape == "nested":
        opened, closed = choose.choice((("(", ")"), ("(", ")+"), ("SEQ(A, ", ")"), ("(", "){1,2}"), ("(A OR ", ")")))
        return "PATTERN " + opened * times + part + closed * times
    if shape == "signs":
        return "PATTERN A" + choose.choice("+*?") * times
    joint = choose.choice((" AND ", " OR "))
    test = choose.choice(("A.x > 1", "A.x + 1 < NEXT(A).x", "NOT A.x = 1", "A.x IS NULL", "SUM(A.x) > 2", "A.k = 'u'"))
    if shape == "where":
        return f"PATTERN A+ WHERE {joint.join([test] * times)}"
    return f"PATTERN A+ WHERE {choose.choice(('+', '-', '*', '/', '%')).join(['A.x'] * times)} > 1"


SOURCES: tuple[Callable[[Random], str], ...] = (
    lambda choose: choose.choice(published()),
    lambda choose: choose.choice(published()),
    of_the_grammar,
    of_a_stream,
    of_a_stream,
    of_nodes,
    repeated,
)


def damaged(choose: Random, text: str) -> str:
    """The text with something removed, doubled, swapped, or replaced by what is odd."""
    tokens = re.findall(r"\w+|\s+|.", text, re.DOTALL) or [""]
    for _ in range(choose.choice((0, 0, 1, 1, 1, 2, 3, 8))):
        at, other = choose.randrange(len(tokens)), choose.randrange(len(tokens))
        what = choose.randrange(9)
        if what == 0:
            tokens[at] = ""
        elif what == 1:
            tokens[at] *= 2
        elif what == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif what == 3:
            tokens[at] = choose.choice(NUMBERS)
        elif what == 4:
            tokens[at] = choose.choice(STRINGS)
        elif what == 5:
            tokens[at] = f" {choose.choice(WORDS)} "
        elif what == 6:
            low, high = sorted((at, other))
            tokens[low:low] = tokens[low : min(high, low + 30)] * choose.choice((1, 1, 2, 20))
        elif what == 7:
            tokens[at] = "".join(choose.sample(tokens[at], len(tokens[at])))
        else:
            tokens[at] += chr(
                choose.choice((choose.randrange(128), choose.randrange(0x3000), choose.randrange(0x110000)))
            )
    return "".join(tokens)[:LONGEST]


def a_text(choose: Random) -> str:
    text = choose.choice(SOURCES)(choose)
    if choose.random() < 0.1:
        tail = choose.choice(SOURCES)(choose)
        text = text[: choose.randint(0, len(text))] + tail[choose.randint(0, len(tail)) :]
    return damaged(choose, text)


def text(choose: Random) -> Text:
    if choose.random() < 0.05:
        parts = [f"NAME {a_text(choose)[:5]}{n}: {a_text(choose)};\n" for n in range(3)]
        return Texts("".join(parts)[:LONGEST])
    return Text(a_text(choose), choose.choice(TIMES))


def bound(choose: Random) -> Bound:
    source = choose.choice((SOURCES[0], of_a_stream, of_the_grammar))
    return Bound(damaged(choose, source(choose)), choose.choice(TIMES))


KINDS = {"texts": Kind(text, 400), "bound": Kind(bound, 6, spark=True)}
