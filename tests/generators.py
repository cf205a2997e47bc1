"""Random streams and queries: small, valid, and full of ties, NULLs, NaN and odd patterns.

One set of builders serves two masters: hypothesis (``streams()``, ``queries()``, ``cases()``), which shrinks what it
finds, and plain seeds (``random_case(seed)``), which are many times faster.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from hypothesis import strategies as st
from reference import steps

from cetdsl.pattern.expressions import Aggregate, Attribute, Binary, Call, Expr, Length, Literal, Role, Unary
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, events, positive_events
from cetdsl.pattern.query import Query, Returned, Window
from cetdsl.pattern.spans import Span

#: The columns of every generated row, as Spark's DDL. ``id`` is the index of the row.
SCHEMA = "id bigint, t bigint, s int, type string, x int, y double, k string, g int, name string"
#: The columns of several streams as one; see :func:`stack`.
STACKED = SCHEMA + ", case int"

T = TypeVar("T")
Row = dict[str, Any]

_ORDERS = ("<", "<=", ">", ">=")
_ANY_COMPARISON = ("<", ">", "=", "<=", ">=", "!=")


@attrs.frozen
class Features:
    """What may occur in a generated query; switch off what a test cannot take, with ``attrs.evolve`` or keywords."""

    kleene: bool = True  # P+ and P* of a variable
    nested_kleene: bool = True  # ... of a pattern, and SEQ and OR inside each other
    optional: bool = True
    bounded_repeat: bool = True  # P{m,n}
    alternation: bool = True  # OR
    conjunction: bool = True  # AND of single events inside a pattern
    top_conjunction: bool = True  # AND of two patterns at the top
    repeated_variables: bool = True  # one variable at two places of the pattern
    overlap: bool = True  # variables with conditions, two variables for one type: one event satisfies several
    negation: bool = True  # NOT in the middle of a SEQ
    edge_negation: bool = True  # NOT at the start or the end of a SEQ
    nested_negation: bool = True  # NOT in a SEQ that is not the whole pattern
    complex_negation: bool = True  # NOT of a SEQ, Kleene, OR or AND
    correlated_negation: bool = True  # predicates between a negated and a positive variable
    local: bool = True
    adjacent: bool = True
    inseparable: bool = True  # adjacent and pairwise predicates that do not split into two sides
    pairwise: bool = True
    chains: bool = False  # comparisons of one attribute between all events of variables that follow each other
    aggregate_predicates: bool = True
    sliding: bool = True  # WITHIN l SLIDE s
    span: bool = True  # WITHIN l
    partition: bool = True
    group: bool = True
    doubles: bool = True  # predicates and aggregates over the double column y
    strings: bool = True  # predicates over string columns
    returned_strings: bool = False  # MIN and MAX of a string column
    computed_aggregates: bool = True  # SUM(b.x * 2)
    length_aggregates: bool = True  # MIN, MAX, AVG of LENGTH
    tie_break: bool = True
    aggregates: bool = True  # anything but COUNT(*) is returned

    @classmethod
    def none(cls, **on: bool) -> Features:
        """Events and flat SEQs only, but for what is switched on."""
        return cls(**{field.name: on.get(field.name, False) for field in attrs.fields(cls)})

    def without(self, *names: str) -> Features:
        """The same without some features."""
        return attrs.evolve(self, **dict.fromkeys(names, False))


ALL = Features()


@attrs.frozen
class Case:
    """A query, a stream for it, and the tie-break columns to bind."""

    query: Query
    rows: list[Row]
    tie_break: tuple[str, ...] = ()


# Choosing -------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Chooser:
    """Where choices come from. The first choice of everything is the simplest: hypothesis shrinks towards it."""

    integer: Callable[[int, int], int]

    def one(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def flag(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent

    def shuffled(self, items: Sequence[T]) -> list[T]:
        rest, mixed = list(items), []
        while rest:
            mixed.append(rest.pop(self.integer(0, len(rest) - 1)))
        return mixed


def _drawn(draw: Callable[[Any], Any]) -> Chooser:
    return Chooser(lambda low, high: draw(st.integers(low, high)))


# Strategies -----------------------------------------------------------------------------------------------------------


@st.composite
def streams(draw: Callable[[Any], Any], max_events: int = 7) -> list[Row]:
    """Rows of ``SCHEMA`` in any order, at most ``max_events``."""
    return build_stream(_drawn(draw), max_events)


@st.composite
def queries(draw: Callable[[Any], Any], features: Features = ALL) -> Query:
    """Valid queries over the columns of ``SCHEMA``, with a RETURN."""
    return build_query(_drawn(draw), features)


@st.composite
def cases(draw: Callable[[Any], Any], features: Features = ALL, max_events: int = 7) -> Case:
    """A query, a stream and a tie-break."""
    return build_case(_drawn(draw), features, max_events)


def random_case(seed: int, features: Features = ALL, max_events: int = 7) -> Case:
    """The case of a seed: the same on every run, without hypothesis."""
    return build_case(Chooser(random.Random(seed).randint), features, max_events)


def random_stream(seed: int, max_events: int = 7) -> list[Row]:
    """The stream of a seed."""
    return build_stream(Chooser(random.Random(seed).randint), max_events)


def stack(streams: Sequence[Sequence[Mapping[str, Any]]], column: str = "case") -> list[Row]:
    """Several streams as one, told apart by a column: with it in GROUP BY one Spark job judges them all.

    ``id`` becomes the index in the whole.
    """
    rows = [{**row, column: number} for number, stream in enumerate(streams) for row in stream]
    return [{**row, "id": index} for index, row in enumerate(rows)]


def stacked(first: int, count: int, max_events: int = 7) -> list[Row]:
    """``count`` random streams as one; their seeds count up from ``first``."""
    return stack([random_stream(first + number, max_events) for number in range(count)])


def frame(spark: Any, rows: Sequence[Row], schema: str = STACKED) -> Any:
    """A DataFrame of rows."""
    return spark.createDataFrame([tuple(row.values()) for row in rows], schema)


def build_case(choose: Chooser, features: Features = ALL, max_events: int = 7) -> Case:
    """A case from any source of choices."""
    query = build_query(choose, features)
    tie_break = ("s",) if features.tie_break and choose.flag(30) else ()
    # Mostly events of the types that the query asks for, or most answers would be empty.
    kinds = tuple(e.type for e in events(query.pattern) if e.type) if choose.flag(70) else ()
    return Case(query, build_stream(choose, max_events, kinds), tie_break)


# Streams --------------------------------------------------------------------------------------------------------------

_TYPES = ("A", "B", "A", "B", "C", "A", "B", "C", "B", "A", "B", "C", "D", None)
_X = (0, 1, 2, 3, 1, 2, -1, 4, 2, 3, None)
_Y = (0.0, 1.0, 2.0, 0.5, 1.5, -0.0, -1.0, 3.0, 2.5, None, math.nan, math.nan, math.inf, -math.inf)
_K = ("u", "u", "u", "u", "v", None)
_G = (1, 1, 1, 1, 2, None)
_NAMES = ("a", "b", "", "Z", "é", "ab", "\uffff", "\U0001f600", None)
_GAPS = (1, 1, 0, 0, 1, 2, 3, 1)


def build_stream(choose: Chooser, max_events: int = 7, likely: Sequence[str] = ()) -> list[Row]:
    """Rows from any source of choices, with more events of the ``likely`` types."""
    size = min(choose.one((5, 4, 6, 7, 5, 6, 6, 3, 7, 5, 2, 1, 0, 6, 4, 7, 6)), max_events)
    if size > 1 and choose.flag(4):
        gaps: tuple[int, ...] = (0,)  # all in one instant
    else:
        gaps = _GAPS
    time = choose.one((0, 0, 0, 1, -3, -7, 5, 100))
    kinds = tuple(likely) * 4 + (_TYPES[:-2] if choose.flag(70) else _TYPES)
    rows = []
    for _ in range(size):
        rows.append(
            {
                "id": 0,
                "t": time,
                "s": choose.integer(0, 2),
                "type": choose.one(kinds),
                "x": choose.one(_X),
                "y": choose.one(_Y),
                "k": choose.one(_K),
                "g": choose.one(_G),
                "name": choose.one(_NAMES),
            }
        )
        time += choose.one(gaps)
    if choose.flag(50):
        rows = choose.shuffled(rows)
    return [{**row, "id": index} for index, row in enumerate(rows)]


# Queries --------------------------------------------------------------------------------------------------------------


def _column(variable: str | None, name: str, role: Role = Role.EACH, index: int | None = None) -> Attribute:
    return Attribute(variable, name, role, index)


_PLAIN = tuple(Event(name, type=name) for name in "ABC")
_OVERLAPPING = (
    Event("a2", type="A"),
    Event("b2", type="B"),
    Event("big", condition=Binary(">", _column(None, "x"), Literal(1))),
    Event("c1", type="C", condition=Call("isnotnull", (_column(None, "x"),))),
    Event("warm", type="B", condition=Binary("<=", _column(None, "y"), Literal(1.5))),
)


def build_query(choose: Chooser, features: Features = ALL) -> Query:
    """A valid query from any source of choices."""
    pattern = _Patterns(choose, features).whole()
    return Query(
        pattern,
        _Predicates(choose, features, pattern).all(),
        partition_by=_partition(choose, features),
        group_by=_group(choose, features),
        window=_window(choose, features),
        returning=_returning(choose, features, pattern),
    )


def _partition(choose: Chooser, features: Features) -> tuple[str, ...]:
    if not features.partition or choose.flag(75):
        return ()
    rare = [("y",)] * features.doubles + [("name",)] * features.strings + [("k", "x")]
    return choose.one([("k",), ("k",), ("k",), ("k",), *rare])


def _group(choose: Chooser, features: Features) -> tuple[str, ...]:
    if not features.group or choose.flag(75):
        return ()
    return choose.one((("g",), ("g",), ("g",), ("g", "k")))


def _window(choose: Chooser, features: Features) -> Window | None:
    kinds = ["sliding"] * features.sliding + ["span"] * features.span
    if not kinds or choose.flag(45):
        return None
    if choose.one(kinds) == "span":
        return Window(Span(choose.one((4, 3, 2, 6, 5, 1, 8)), "tick"))
    length, slide = choose.one(((5, 5), (6, 2), (5, 3), (3, 5), (4, 1), (6, 4), (7, 3), (1, 1), (10, 10)))
    return Window(Span(length, "tick"), Span(slide, "tick"))


def _returning(choose: Chooser, features: Features, pattern: Pattern) -> list[Returned]:
    names = sorted({event.variable for event in positive_events(pattern)})
    columns = ["x"] + ["y"] * features.doubles
    shared = isinstance(pattern, And) and set.intersection(
        *({event.variable for event in events(side)} for side in pattern.parts)
    )
    chosen = {"count": Returned(Aggregate("count"))}
    for _ in range(choose.integer(0, 5) if features.aggregates else 0):
        function = choose.one(("count", "sum", "avg", "min", "max", "length", "name", "stddev", "variance", "var_pop"))
        attribute = _column(choose.one(names), choose.one(columns))
        if function == "count":
            node = Aggregate("count", attribute.variable)
        elif function == "length":
            if not features.length_aggregates:
                continue
            node = Aggregate("avg" if shared else choose.one(("max", "min", "avg")), None, Length())
        elif function == "name":
            if not features.returned_strings:
                continue
            node = Aggregate(choose.one(("min", "max")), None, _column(attribute.variable, "name"))
        else:
            computed = features.computed_aggregates and choose.flag(15)
            node = Aggregate(function, None, Binary("*", attribute, Literal(2)) if computed else attribute)
        item = Returned(node)
        chosen.setdefault(item.output_name, item)
    return list(chosen.values())


@attrs.define
class _Patterns:
    """Draws the pattern of a query."""

    choose: Chooser
    features: Features
    budget: int = 4  # event variables still to be placed
    negated: int = 0
    pool: list[Event] = attrs.field(factory=list)
    spare: list[Event] = attrs.field(factory=lambda: [Event(name, type=name) for name in "DEFGHIJK"])

    def whole(self) -> Pattern:
        pool = [*_PLAIN]
        if self.features.overlap and self.choose.flag(35):
            more = _OVERLAPPING if self.features.doubles else _OVERLAPPING[:-1]  # the last one asks for y
            pool = [*_PLAIN[:2], self.choose.one(more), self.choose.one(more)]
        self.pool = self.choose.shuffled(dict.fromkeys(pool)) if self.choose.flag(50) else list(dict.fromkeys(pool))
        if self.features.top_conjunction and self.choose.flag(10):
            sides = (self.pattern(1), self.pattern(1))
            # AND is not associative at the top, so a side that is an AND itself is refused.
            return And([Seq(side.parts) if isinstance(side, And) else side for side in sides])
        shape = self.choose.one(("seq", "seq", "seq", "repeat", "seq", "repeat", "or", "event"))
        return self.shape(shape, 2, top=True)

    def leaf(self) -> Event:
        self.budget -= 1
        if self.features.repeated_variables:
            # Mostly the first few, so that patterns name a variable twice now and then.
            return self.choose.one(self.pool[:3] if self.choose.flag(70) else self.pool)
        return self.pool.pop(0) if self.pool else self.spare.pop(0)

    def exhausted(self) -> bool:
        return self.budget <= 1 or (not self.features.repeated_variables and len(self.pool) <= 1)

    def pattern(self, depth: int) -> Pattern:
        f = self.features
        if self.exhausted():
            return self.leaf()
        if depth == 0 or not f.nested_kleene:
            return self.shape(self.choose.one(("event", "repeat")), 0)
        return self.shape(self.choose.one(("event", "repeat", "seq", "repeat", "or", "and", "repeat")), depth)

    def shape(self, shape: str, depth: int, top: bool = False) -> Pattern:
        f = self.features
        if shape == "repeat" and (bounds := self.bounds()):
            nested = depth > 0 and f.nested_kleene and self.choose.flag(40)
            return Repeat(self.pattern(depth - 1) if nested else self.leaf(), *bounds)
        if shape == "or" and f.alternation and not self.exhausted():
            return Or((self.pattern(depth - 1), self.pattern(depth - 1)))
        if shape == "and" and f.conjunction and not self.exhausted():
            parts = tuple(dict.fromkeys((self.leaf(), self.leaf())))
            return And(parts) if len(parts) > 1 else parts[0]
        if shape == "seq":
            return self.sequence(depth, top)
        return self.leaf()

    def bounds(self) -> tuple[int, int | None] | None:
        f = self.features
        options: list[tuple[int, int | None]] = [(1, None), (1, None), (1, None), (0, None)] if f.kleene else []
        options += [(0, 1)] if f.optional else []
        options += [self.choose.one(((2, 3), (1, 2), (2, 2), (2, None), (0, 2)))] if f.bounded_repeat else []
        return self.choose.one(options) if options else None

    def sequence(self, depth: int, top: bool) -> Pattern:
        parts: list[Pattern] = []
        for _ in range(self.choose.one((2, 2, 3, 2, 2))):
            if parts and self.budget < 1:
                break
            if parts and not self.features.repeated_variables and len(self.pool) < 2:
                break
            parts.append(self.pattern(depth - 1))
        f = self.features
        if (top or f.nested_negation) and self.choose.flag(25 if top else 15):
            places = list(range(1, len(parts))) if f.negation else []
            places += [0, len(parts)] if f.negation and f.edge_negation else []
            for _ in range(2 if self.choose.flag(10) else 1):
                if places:
                    parts.insert(self.choose.one(places), self.negation())
        if len(parts) == 1:
            # SEQ(AND(A, B)) might be read as the AND at the top that it is not.
            return Seq(parts[0].parts) if isinstance(parts[0], And) else parts[0]
        return Seq(parts)

    def negation(self) -> Not:
        self.negated += 1
        first = Event(f"n{self.negated}", type=self.choose.one("CBA"))
        if not self.features.complex_negation or not self.choose.flag(40):
            return Not(first)
        second = Event(f"m{self.negated}", type=self.choose.one("ABC"))
        shape = self.choose.one(("seq", "kleene", "seq kleene", "or", "and", "repeat"))
        parts: dict[str, Pattern] = {
            "seq": Seq((first, second)),
            "kleene": Repeat(first, 1, None),
            "seq kleene": Seq((first, Repeat(second, 1, None))),
            "or": Or((first, second)),
            "and": And((first, second)),
            "repeat": Repeat(first, 2, None),
        }
        return Not(parts[shape])


@attrs.define
class _Predicates:
    """Draws predicates that fit a pattern."""

    choose: Chooser
    features: Features
    pattern: Pattern

    def all(self) -> list[Expr]:
        f = self.features
        sides = list(self.pattern.parts) if isinstance(self.pattern, And) else [self.pattern]
        kinds = ["adjacent"] * 2 * f.adjacent + ["local"] * f.local + ["pairwise"] * f.pairwise
        kinds += ["aggregate"] * f.aggregate_predicates
        found: list[Expr] = []
        for _ in range(self.choose.one((1, 0, 1, 2, 1, 0, 1, 3, 0)) if kinds else 0):
            side = self.choose.one(sides)
            predicate = self.of_kind(self.choose.one(kinds), side)
            if predicate is not None:
                found.append(predicate)
        if f.chains:
            found += self.chain(self.choose.one(sides))
        for side in sides:
            for negation in (node for node in side.walk() if isinstance(node, Not)):
                found += self.of_negation(negation, side)
        return found

    def of_kind(self, kind: str, side: Pattern) -> Expr | None:
        names = sorted({event.variable for event in positive_events(side)})
        if kind == "local":
            return self.local(self.choose.one(names))
        if kind == "aggregate":
            return self.aggregate(names, with_length=side is self.pattern)
        follow, together = neighbours(side)
        if kind == "adjacent":
            # Repetitions of one variable are what people ask about most.
            loops = sorted((u, v) for u, v in follow if u == v)
            pairs = loops if loops and self.choose.flag(60) else sorted(follow)
            return self.adjacent(*self.choose.one(pairs)) if pairs else None
        pairs = sorted((u, v) for u, v in together if u != v)
        return self.pairwise(*self.choose.one(pairs)) if pairs else None

    def of_negation(self, negation: Not, side: Pattern) -> list[Expr]:
        f = self.features
        inside = sorted({event.variable for event in events(negation)})
        follow, together = neighbours(negation.part)
        once = [e.variable for e in positive_events(side) if occurrences(self.pattern, e.variable) == (1, 1)]
        found: list[Expr] = []
        if f.local and self.choose.flag(20):
            found.append(self.local(self.choose.one(inside)))
        # Neighbours inside NOT AND(N, M) are left alone: which of them comes first is anyone's guess.
        if f.adjacent and follow and not isinstance(negation.part, And) and self.choose.flag(30):
            found.append(self.adjacent(*self.choose.one(sorted(follow))))
        pairs = sorted((u, v) for u, v in together if u != v)
        if f.pairwise and pairs and self.choose.flag(20):
            found.append(self.pairwise(*self.choose.one(pairs)))
        if f.correlated_negation and once and self.choose.flag(35):
            found.append(self.pairwise(self.choose.one(inside), self.choose.one(sorted(set(once)))))
        return found

    def number(self) -> str:
        return self.choose.one(("x", "x", "y") if self.features.doubles else ("x",))

    def term(self, attribute: Attribute) -> Expr:
        shape = self.choose.integer(0, 11)
        computed: dict[int, Expr] = {
            7: Binary("*", attribute, Literal(2)),
            8: Binary("+", attribute, Literal(1)),
            9: Unary("-", attribute),
            10: Binary("%", attribute, Literal(3)),
            11: Binary("/", attribute, Literal(2)),
        }
        return computed.get(shape, attribute)

    def constant(self) -> Literal:
        return Literal(self.choose.one((1, 0, 2, 3, -1, 0.5, 1.5) if self.features.doubles else (1, 0, 2, 3, -1)))

    def local(self, variable: str, depth: int = 1) -> Expr:
        shapes = ["order", "order", "two", "null", "in"] + ["string", "text in"] * self.features.strings
        shape = self.choose.one(shapes + ["not", "or"] * (depth > 0))
        number = _column(variable, self.number())
        if shape == "order":
            return Binary(self.choose.one(_ANY_COMPARISON), self.term(number), self.constant())
        if shape == "two":
            return Binary(self.choose.one(_ORDERS), number, self.term(_column(variable, "x")))
        if shape == "null":
            column = _column(variable, self.choose.one(("x", "k") if self.features.strings else ("x",)))
            return Call(self.choose.one(("isnotnull", "isnull")), (column,))
        if shape == "in":
            return Call("in", (_column(variable, "x"), Literal(1), Literal(2), Literal(-1)))
        if shape == "string":
            return Binary(self.choose.one(_ANY_COMPARISON), _column(variable, "name"), Literal(self.choose.one("aZ")))
        if shape == "text in":
            return Call("in", (_column(variable, "k"), Literal("u"), Literal("w")))
        if shape == "not":
            return Unary("not", self.local(variable, depth - 1))
        return Binary("or", self.local(variable, depth - 1), self.local(variable, depth - 1))

    def adjacent(self, u: str, v: str) -> Expr:
        """A predicate between an event of u and the event of v right after it."""
        mirrored = self.choose.flag(30)

        def earlier(name: str) -> Attribute:
            return _column(u, name, Role.PREV if mirrored else Role.EACH)

        def later(name: str) -> Attribute:
            return _column(v, name, Role.EACH if mirrored else Role.NEXT)

        def order(ops: Sequence[str] = _ORDERS) -> Expr:
            return Binary(self.choose.one(ops), self.term(earlier(self.number())), self.term(later(self.number())))

        keys = ["x", "g"] + ["k", "name"] * self.features.strings + ["y"] * self.features.doubles

        def equal() -> Expr:
            name = self.choose.one(keys)
            return Binary("=", earlier(name), later(name))

        difference = Binary("-", earlier(self.number()), later(self.number()))
        shapes = ["order", "order", "equal", "both", "two orders", "distance"]
        shapes += ["product", "or", "unequal", "not", "half"] * self.features.inseparable
        shapes += ["text"] * self.features.strings
        shape = self.choose.one(shapes)
        if shape == "order":
            name = self.number()
            return order() if self.choose.flag(40) else Binary(self.choose.one(_ORDERS), earlier(name), later(name))
        if shape == "equal":
            return equal()
        if shape == "both":
            return Binary("and", equal(), order())
        if shape == "two orders":
            return Binary("and", order(), order())
        if shape == "distance":
            return Binary(self.choose.one(("<", "<=", ">")), Call("abs", (difference,)), Literal(2))
        if shape == "product":
            return Binary(">", Binary("*", earlier("x"), later(self.number())), Literal(2))
        if shape == "or":
            return Binary("or", order(), equal())
        if shape == "unequal":
            return order(("!=",))
        if shape == "not":
            return Unary("not", Binary("and", order(), equal()))
        if shape == "half":
            return Binary("or", order(), Binary(">", later("x"), Literal(1)))
        return Binary(self.choose.one(_ORDERS), earlier("name"), later("name"))

    def pairwise(self, u: str, v: str) -> Expr:
        shapes = ["order", "order", "equal", "sum"] + ["text"] * self.features.strings
        shapes += ["product", "or", "in"] * self.features.inseparable
        shape = self.choose.one(shapes)
        left, right = _column(u, self.number()), _column(v, self.number())
        if shape == "product":
            return Binary(self.choose.one(_ORDERS), Binary("*", left, right), self.constant())
        if shape == "or":
            return Binary("or", Binary(self.choose.one(_ORDERS), left, right), Binary("=", left, self.constant()))
        if shape == "in":
            return Call("in", (_column(u, "x"), _column(v, "x"), Literal(1)))
        if shape == "order":
            return Binary(self.choose.one(_ORDERS), self.term(left), right)
        if shape == "equal":
            return Binary(self.choose.one(("=", "!=")), _column(u, "x"), _column(v, "x"))
        if shape == "sum":
            return Binary(">", Binary("+", left, right), Literal(1))
        return Binary("=", _column(u, "k"), _column(v, "k"))

    def chain(self, side: Pattern) -> list[Expr]:
        """Comparisons of one attribute along the variables of a side, or of each with the first one."""
        names, attribute = list(dict.fromkeys(event.variable for event in positive_events(side))), self.number()
        firsts = [names[0]] * len(names) if self.choose.flag(30) else names
        return [
            Binary(self.choose.one((*_ORDERS, "=")), _column(u, attribute), _column(v, attribute))
            for u, v in zip(firsts, names[1:])
        ]

    def aggregate(self, names: Sequence[str], with_length: bool) -> Expr:
        u, v = self.choose.one(names), self.choose.one(names)
        x = _column(u, self.number())
        shapes = ["count", "fold", "last", "nth", "fold", "two folds", "counts", "or"] + ["length"] * with_length
        shape = self.choose.one(shapes)
        function = self.choose.one(("sum", "avg", "min", "max", "variance", "stddev_pop"))
        if shape == "count":
            return Binary(self.choose.one((">=", "=", "<", "!=")), Aggregate("count", u), self.small())
        if shape == "fold":
            return Binary(self.choose.one(_ORDERS), Aggregate(function, None, x), self.constant())
        if shape == "last":
            ends = _column(u, x.name, Role.LAST), _column(v, self.number(), Role.FIRST)
            return Binary(self.choose.one((">", "<", "=")), *ends)
        if shape == "nth":
            return Binary(">", _column(u, x.name, Role.NTH, self.choose.one((1, 0, 2))), Literal(0))
        if shape == "two folds":
            other = Aggregate(self.choose.one(("min", "max", "sum")), None, _column(v, self.number()))
            return Binary(self.choose.one(("<=", ">")), Aggregate(function, None, x), other)
        if shape == "counts":
            return Binary("<=", Aggregate("count", u), Binary("*", Aggregate("count", v), Literal(2)))
        if shape == "or":
            few = Binary("<", Aggregate("count", u), Literal(2))
            return Binary("or", few, Binary(">", _column(v, x.name, Role.LAST), Literal(0)))
        return Binary(self.choose.one((">=", "<=", "=")), Length(), self.small())

    def small(self) -> Literal:
        return Literal(self.choose.one((1, 2, 3)))


# Facts about a pattern ------------------------------------------------------------------------------------------------


def neighbours(pattern: Pattern) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Pairs (u, v) such that v may come right after u in a trend, and such that it may come anywhere after u."""
    edges: dict[Any, set[tuple[str, Any]]] = {}
    unseen = [(pattern,)]
    while unseen:
        todo = unseen.pop()
        if todo not in edges:
            edges[todo] = {(event.variable, left) for _, event, left in steps(todo)}
            unseen += [left for _, left in edges[todo]]

    def reachable(todo: Any) -> set[Any]:
        found, rest = {todo}, [todo]
        while rest:
            rest += [left for _, left in edges[rest.pop()] if left not in found and not found.add(left)]  # type: ignore
        return found

    follow, together = set(), set()
    for u, left in {arc for arcs in edges.values() for arc in arcs}:
        follow |= {(u, v) for v, _ in edges[left]}
        together |= {(u, v) for later in reachable(left) for v, _ in edges[later]}
    return follow, together


def occurrences(pattern: Pattern, variable: str) -> tuple[int, float]:
    """The least and the greatest number of events that a trend binds to a variable."""
    if isinstance(pattern, Event):
        return (1, 1) if pattern.variable == variable else (0, 0)
    if isinstance(pattern, Not):
        return (0, 0)
    parts = [occurrences(part, variable) for part in pattern.children]
    if isinstance(pattern, Or):
        return min(low for low, _ in parts), max(high for _, high in parts)
    if isinstance(pattern, Repeat):
        low, high = parts[0]
        most = math.inf if pattern.at_most is None else pattern.at_most
        return low * pattern.at_least, high * most if high else 0
    return sum(low for low, _ in parts), sum(high for _, high in parts)
