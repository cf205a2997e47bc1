"""The judge: what a query means, spelled out slowly in plain Python.

Every trend is built event by event, and every rule of the language is checked on it by itself. Nothing here is clever,
and nothing is shared with the library but the nodes that say what was asked. Good for some seven events per window.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import attrs

from cetdsl.pattern import expressions as ex
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, events, positive_events
from cetdsl.pattern.query import Query
from cetdsl.pattern.spans import Span

Row = Mapping[str, Any]
Binding = tuple[int, str]  # the index of a row and the variable that it is bound to
Trend = tuple[Binding, ...]
Key = tuple[tuple[Any, ...], tuple[Any, Any] | None, tuple[Any, ...]]  # group, window, partition
Todo = tuple[Pattern, ...]  # what is still to be matched, in this order
Markers = frozenset[Not]

UTC = ZoneInfo("UTC")
EPOCH = datetime.datetime(1970, 1, 1)
NONE: Markers = frozenset()


# Asking -------------------------------------------------------------------------------------------------------------


def trends(
    query: Query,
    rows: Sequence[Row],
    *,
    time: str = "t",
    tie_break: Sequence[str] = (),
    type: str | None = "type",
    on_null_time: str = "error",
) -> dict[Key, set[Any]]:
    """All trends by group, window and partition; keys without a trend are left out.

    A trend is a tuple of (row index, variable). The answer to a top-level AND is a frozenset of trends, one per side.
    """
    stream = Stream(rows, time, tuple(tie_break), type)
    sides = _sides(query.pattern)
    relating = _relating(query)
    if len(sides) > 2 or relating:
        _require_own_variables(query)
    span = _span(query)
    answer: dict[Key, set[Any]] = {}
    for key, members in _cells(query, stream, on_null_time).items():
        found = [_trends_of_side(query, side, stream, members) for side in sides]
        if len(sides) > 1:
            together = (each for each in itertools.product(*found) if len(set(each)) == len(sides))
            found[0] = {
                frozenset(each)
                for each in together
                if (span is None or _duration(stream, itertools.chain(*each)) <= span)
                and all(holds(predicate, tuple(itertools.chain(*each)), rows) for predicate in relating)
            }
        if found[0]:
            answer[key] = found[0]
    return answer


def complete_trends(
    query: Query, rows: Sequence[Row], completeness: str = "maximal", **binding: Any
) -> dict[Key, set[Trend]]:
    """The trends that no other one of their group and window contains ("maximal") or contains as a run ("ends").

    A trend contains another one as a run if it binds the other's events consecutively.
    """
    contains = {"maximal": _is_subsequence, "ends": _is_run}[completeness]
    if isinstance(query.pattern, And):
        raise ValueError("complete trends of an AND at the top are not defined")
    return {
        key: {t for t in found if not any(t != other and contains(t, other) for other in found)}
        for key, found in trends(query, rows, **binding).items()
    }


def aggregate(
    query: Query, rows: Sequence[Row], aggregates: Mapping[str, ex.Aggregate], **binding: Any
) -> dict[tuple[tuple[Any, ...], tuple[Any, Any] | None], dict[str, Any]]:
    """The aggregates by group and window, over all trends of all partitions of the group.

    Values are exact: int, Decimal or Fraction (AVG of ints and decimals); float where the column is one.
    """
    return aggregate_found(trends(query, rows, **binding), rows, aggregates)


def aggregate_found(
    answer: Mapping[Key, Iterable[Any]], rows: Sequence[Row], aggregates: Mapping[str, ex.Aggregate]
) -> dict[tuple[tuple[Any, ...], tuple[Any, Any] | None], dict[str, Any]]:
    """The aggregates by group and window of trends that are known."""
    pools: dict[Any, list[Trend]] = {}
    for (group, window, _), found in answer.items():
        # The events of a pair of trends are those of both, one after the other.
        flat = (t if isinstance(t, tuple) else tuple(itertools.chain(*t)) for t in found)
        pools.setdefault((group, window), []).extend(flat)
    return {key: {name: _fold(node, pool, rows) for name, node in aggregates.items()} for key, pool in pools.items()}


def by_first_event(query: Query, rows: Sequence[Row], answer: Mapping[Key, Iterable[Any]]) -> dict[Key, set[Any]]:
    """The trends of a query with WITHIN and no SLIDE, by stretches of time of that length in which they begin."""
    length = max(_span(query) or 0, 1)
    apart: dict[Key, set[Any]] = {}
    for (group, _, partition), found in answer.items():
        for trend in found:
            bindings = trend if isinstance(trend, tuple) else itertools.chain(*trend)
            first = min(rows[index]["t"] for index, _ in bindings)
            start = _ticks(first) // length * length
            window = _like(first, start), _like(first, start + length)
            apart.setdefault((group, window, partition), set()).add(trend)
    return apart


def same_value(left: Any, right: Any, relative: float = 1e-9) -> bool:
    """Whether two aggregates agree: to ``relative`` where one is a float or Fraction, else exactly."""
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return type(left) is type(right) and left == right
    if isinstance(left, (float, Fraction)) or isinstance(right, (float, Fraction)):
        a, b = float(left), float(right)
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=relative, abs_tol=1e-12)
    return bool(left == right)


def _sides(pattern: Pattern) -> list[Pattern]:
    """The sides of an AND at the top, those of an AND within it too; else the pattern itself."""
    return [side for part in pattern.parts for side in _sides(part)] if isinstance(pattern, And) else [pattern]


def _relating(query: Query) -> list[ex.Expr]:
    """The predicates that mention several sides of an AND at the top."""
    if not isinstance(query.pattern, And):
        return []
    parts = [part for whole in query.where for part in ex.conjuncts(whole)]
    sides = [_variables(side) for side in _sides(query.pattern)]
    return [part for part in parts if not any(set(ex.variables(part)) <= side for side in sides)]


def _require_own_variables(query: Query) -> None:
    """Raises unless each side has variables of its own and predicates between sides compare plain attributes."""
    names = [{event.variable for event in positive_events(side)} for side in _sides(query.pattern)]
    if len(set().union(*names)) < sum(map(len, names)):
        raise ValueError("AND at the top has exactly two sides, or no variable stands on several of them")
    bound = {event.variable for event in positive_events(query.pattern)}
    if any(_kind(part) != "pairwise" or not set(ex.variables(part)) <= bound for part in _relating(query)):
        raise ValueError("only plain attributes of what several sides bind can be compared")


def _span(query: Query) -> int | None:
    """The longest time that an answer may take, all sides of an AND together; None without WITHIN, or with SLIDE."""
    return None if query.window is None or query.window.slide is not None else _amount(query.window.length)


def _duration(stream: Stream, bindings: Iterable[Binding]) -> int:
    times = [stream.time(i) for i, _ in bindings]
    return max(times) - min(times)


# Events, their order, and the windows they lie in -------------------------------------------------------------------


@attrs.frozen
class Stream:
    """The rows, and how they were bound to time and type."""

    rows: Sequence[Row]
    time_column: str
    tie_break: tuple[str, ...]
    type_column: str | None

    def time(self, i: int) -> int:
        """The time of an event in ticks, or in microseconds since the epoch."""
        return _ticks(self.rows[i][self.time_column])

    def precedes(self, i: int, j: int) -> bool:
        """Whether event i is strictly earlier than event j; simultaneous events do not precede one another."""
        return self._position(i) < self._position(j)

    def _position(self, i: int) -> tuple[Any, ...]:
        return (self.time(i), *(_rank(self.rows[i][column]) for column in self.tie_break))

    def satisfies(self, i: int, event: Event) -> bool:
        """Whether event i has the type and meets the condition of a variable."""
        row = self.rows[i]
        if event.type is not None and self.type_column is not None and row[self.type_column] != event.type:
            return False
        return event.condition is None or evaluate(event.condition, lambda node: row[node.name]) is True


def _cells(query: Query, stream: Stream, on_null_time: str) -> dict[Key, list[int]]:
    """Which events may be together in a trend as far as group, window and partition go."""
    cells: dict[Key, list[int]] = {}
    for i, row in enumerate(stream.rows):
        if row[stream.time_column] is None:
            if on_null_time == "skip":
                continue
            raise ValueError(f"row {i} has no time")
        group = tuple(_key(row[column]) for column in query.group_by)
        partition = tuple(_key(row[column]) for column in query.partition_by)
        for window in _windows(query, row[stream.time_column]):
            cells.setdefault((group, window, partition), []).append(i)
    return cells


def _windows(query: Query, time: Any) -> list[tuple[Any, Any] | None]:
    """All windows [k*slide, k*slide + length) that hold a time; without SLIDE only None, which stands for all time."""
    if query.window is None or query.window.slide is None:
        return [None]
    length, slide = _amount(query.window.length), _amount(query.window.slide)
    t = _ticks(time)
    starts = [k * slide for k in range((t - length) // slide, t // slide + 1)]
    return [(_like(time, start), _like(time, start + length)) for start in starts if start <= t < start + length]


def _amount(span: Span) -> int:
    if span.unit == "month":
        raise ValueError("a month has no fixed length")
    return span.amount


def _ticks(time: Any) -> int:
    if isinstance(time, datetime.datetime):
        epoch = EPOCH.replace(tzinfo=UTC) if time.tzinfo else EPOCH
        return (time - epoch) // datetime.timedelta(microseconds=1)
    if isinstance(time, datetime.date):
        return (time - EPOCH.date()).days * 86_400_000_000
    return int(time)


def _like(time: Any, ticks: int) -> Any:
    """Ticks as a value of the same kind as ``time`` (a timestamp for a date)."""
    if not isinstance(time, datetime.date):
        return ticks
    moment = EPOCH + datetime.timedelta(microseconds=ticks)
    zone = getattr(time, "tzinfo", None)
    return moment.replace(tzinfo=UTC).astimezone(zone) if zone else moment


def _key(value: Any) -> Any:
    """A value for grouping: NULL and NaN equal themselves, -0.0 equals 0.0."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


# The word of a pattern ----------------------------------------------------------------------------------------------


@cache
def steps(todo: Todo) -> frozenset[tuple[Markers, Event, Todo]]:
    """All ways to bind one more event: the NOTs crossed before it, its variable, and what is left to do after it."""
    if not todo:
        return frozenset()
    head, rest = todo[0], todo[1:]
    if isinstance(head, Event):
        return frozenset({(NONE, head, rest)})
    if isinstance(head, Not):
        return frozenset((crossed | {head}, event, left) for crossed, event, left in steps(rest))
    if isinstance(head, Repeat):
        again = _again(head)
        # An iteration that binds something ...
        found = {(crossed, event, left + again + rest) for crossed, event, left in steps((head.part,))}
        if head.at_least == 0:
            return frozenset(found) | steps(rest)
        # ... or, because it is required, one that binds nothing. Where none is required, it could only add NOTs.
        found |= {
            (nothing | crossed, event, left)
            for nothing in finishes((head.part,))
            for crossed, event, left in steps(again + rest)
        }
        return frozenset(found)
    return frozenset(step for choice in _choices(head) for step in steps(choice + rest))


@cache
def finishes(todo: Todo) -> frozenset[Markers]:
    """All ways to bind nothing more: the NOTs crossed then. No way at all when an event is still needed."""
    if not todo:
        return frozenset({NONE})
    head, rest = todo[0], todo[1:]
    if isinstance(head, Event):
        return frozenset()
    if isinstance(head, Not):
        return frozenset(crossed | {head} for crossed in finishes(rest))
    if isinstance(head, Repeat):
        if head.at_least == 0:
            return finishes(rest)
        return frozenset(a | b for a in finishes((head.part,)) for b in finishes(_again(head) + rest))
    return frozenset(crossed for choice in _choices(head) for crossed in finishes(choice + rest))


def _again(repeat: Repeat) -> Todo:
    """What is left of a repetition after one iteration."""
    if repeat.at_most == 1:
        return ()
    at_most = None if repeat.at_most is None else repeat.at_most - 1
    return (Repeat(repeat.part, max(repeat.at_least - 1, 0), at_most),)


def _choices(pattern: Pattern) -> list[Todo]:
    if isinstance(pattern, Seq):
        return [pattern.parts]
    if isinstance(pattern, Or):
        return [(part,) for part in pattern.parts]
    if isinstance(pattern, And):
        if not all(isinstance(part, Event) for part in pattern.parts):
            raise ValueError("inside a pattern, AND joins single events only")
        return list(itertools.permutations(pattern.parts))
    raise TypeError(f"not a pattern: {pattern!r}")


# Trends -------------------------------------------------------------------------------------------------------------


def _trends_of_side(query: Query, side: Pattern, stream: Stream, members: list[int]) -> set[Trend]:
    """The trends of a pattern among some events: of the whole query, or of one side of an AND at the top."""
    mentioned = _variables(side)
    positive = {event.variable for event in positive_events(side)}
    own, of_negations = [], []
    for predicate in (part for whole in query.where for part in ex.conjuncts(whole)):
        names = set(ex.variables(predicate))
        if names <= positive:
            own.append(predicate)
        elif names <= mentioned:
            of_negations.append(predicate)
        elif not isinstance(query.pattern, And) or not names <= _variables(query.pattern):
            raise ValueError(f"no side of the pattern binds all of {names}")
    span = _span(query)

    def allowed(trend: Trend, gaps: tuple[Markers, ...]) -> bool:
        return not any(
            _is_violated(negation, trend, gap, of_negations, positive, span, stream, members)
            for gap, crossed in enumerate(gaps)
            for negation in crossed
        )

    return {
        trend
        for trend, derivations in _matches(side, stream, members, own, query.matching)
        if (span is None or _duration(stream, trend) <= span) and any(allowed(trend, gaps) for gaps in derivations)
    }


def _variables(pattern: Pattern) -> set[str]:
    return {event.variable for event in events(pattern)}


def _matches(
    pattern: Pattern, stream: Stream, members: list[int], predicates: list[ex.Expr], matching: str = "any"
) -> Iterator[tuple[Trend, set[tuple[Markers, ...]]]]:
    """All sequences of bindings that spell a word of the pattern and meet the predicates.

    With each come its derivations: for every way to read the pattern, which NOTs stand in which gap. Gap 0 is before
    the first of n bindings and gap n after the last. ``matching`` is the policy: which of the members may lie between
    two consecutive bindings.
    """
    # Local and adjacent predicates are checked at once, because most sequences are dead by then.
    local = [p for p in predicates if _kind(p) == "local"]
    adjacent = [p for p in predicates if _kind(p) == "adjacent"]
    later = [p for p in predicates if _kind(p) not in ("local", "adjacent")]
    pairwise = [p for p in later if _kind(p) == "pairwise"]

    @cache
    def candidates(event: Event) -> list[Binding]:
        bindings = [(i, event.variable) for i in members if stream.satisfies(i, event)]
        return [binding for binding in bindings if all(holds(p, (binding,), stream.rows) for p in local)]

    def between(prefix: Trend, following: set[Event]) -> list[int]:
        """The members after the last binding that the next one may not skip: those that could be bound there."""
        if not prefix or matching == "any":
            return []
        later = [i for i in members if stream.precedes(prefix[-1][0], i)]
        if matching == "strict":
            return later
        bindable = (b for event in following for b in candidates(event) if b[0] in later)
        return [b[0] for b in bindable if _relates(b, prefix, adjacent, pairwise, stream)]

    def may_follow(prefix: Trend, i: int) -> bool:
        """Under the strict policy, whether both events are alone in their instants: simultaneous rows have no order."""
        neighbours = [prefix[-1][0], i] if prefix and matching == "strict" else []
        return all(j == n or stream.precedes(j, n) or stream.precedes(n, j) for n in neighbours for j in members)

    def extend(prefix: Trend, states: set[tuple[Todo, tuple[Markers, ...]]]) -> Iterator[Any]:
        derivations = {(*gaps, crossed) for todo, gaps in states for crossed in finishes(todo)}
        if prefix and derivations and all(holds(p, prefix, stream.rows) for p in later):
            yield prefix, derivations
        following = {event for todo, _ in states for _, event, _ in steps(todo)}
        skipped = between(prefix, following)
        for event in following:
            after = {
                (left, (*gaps, crossed))
                for todo, gaps in states
                for crossed, candidate, left in steps(todo)
                if candidate == event
            }
            for binding in candidates(event):
                if prefix and not stream.precedes(prefix[-1][0], binding[0]):
                    continue
                if any(stream.precedes(i, binding[0]) for i in skipped) or not may_follow(prefix, binding[0]):
                    continue
                if all(holds(p, (*prefix[-1:], binding), stream.rows) for p in adjacent):
                    yield from extend((*prefix, binding), after)

    yield from extend((), {((pattern,), ())})


def _relates(binding: Binding, prefix: Trend, adjacent: list[ex.Expr], pairwise: list[ex.Expr], stream: Stream) -> bool:
    """Whether all predicates hold that relate a binding to those before it."""
    return all(holds(p, (prefix[-1], binding), stream.rows) for p in adjacent) and all(
        holds(p, (earlier, binding), stream.rows) for p in pairwise for earlier in prefix
    )


def _is_violated(
    negation: Not,
    trend: Trend,
    gap: int,
    predicates: list[ex.Expr],
    positive: set[str],
    span: int | None,
    stream: Stream,
    members: list[int],
) -> bool:
    """Whether the negated pattern has a match in a gap of the trend."""
    room = members
    if gap > 0:
        room = [i for i in room if stream.precedes(trend[gap - 1][0], i)]
    elif span is not None:
        room = [i for i in room if stream.time(i) >= stream.time(trend[-1][0]) - span]
    if gap < len(trend):
        room = [i for i in room if stream.precedes(i, trend[gap][0])]
    elif span is not None:
        room = [i for i in room if stream.time(i) <= stream.time(trend[0][0]) + span]

    inside = _variables(negation)
    outside = positive - inside

    def settle(node: ex.Expr) -> ex.Expr:
        """The value of an attribute of the positive part, as a constant."""
        if not isinstance(node, ex.Attribute) or node.variable not in outside:
            return node
        bound = [i for i, variable in trend if variable == node.variable]
        if len(bound) > 1:
            raise ValueError(f"{node.variable} binds several events, so the negated part cannot speak of it")
        return ex.Literal(stream.rows[bound[0]][node.name] if bound else None)

    belonging = [
        ex.transform(p, settle)
        for p in predicates
        if set(ex.variables(p)) <= inside | outside and set(ex.variables(p)) & (inside - positive)
    ]
    return any(True for _ in _matches(negation.part, stream, room, belonging))


def _is_subsequence(short: Trend, long: Trend) -> bool:
    rest = iter(long)
    return all(binding in rest for binding in short)


def _is_run(short: Trend, long: Trend) -> bool:
    return any(long[i : i + len(short)] == short for i in range(len(long) - len(short) + 1))


# Predicates on a trend ----------------------------------------------------------------------------------------------


@cache
def _kind(predicate: ex.Expr) -> str:
    roles = {node.role for node in ex.attributes(predicate)}
    if any(isinstance(node, (ex.Aggregate, ex.Length)) for node in predicate.walk()):
        return "aggregate"
    if roles & {ex.Role.FIRST, ex.Role.LAST, ex.Role.NTH}:
        return "aggregate"
    if roles & {ex.Role.NEXT, ex.Role.PREV}:
        return "adjacent"
    return "local" if len(ex.variables(predicate)) == 1 else "pairwise"


def holds(predicate: ex.Expr, trend: Trend, rows: Sequence[Row]) -> bool:
    """Whether a predicate holds on a whole trend."""
    if _kind(predicate) == "aggregate":
        return evaluate(predicate, lambda node: _term_of_trend(node, trend, rows)) is True
    if _kind(predicate) == "adjacent":
        return all(_holds_adjacent(predicate, a, b, rows) for a, b in itertools.pairwise(trend))
    names = ex.variables(predicate)
    bound = [[i for i, variable in trend if variable == name] for name in names]
    return all(
        evaluate(predicate, lambda node, at=at: rows[at[node.variable]][node.name]) is True
        for at in (dict(zip(names, combination, strict=True)) for combination in itertools.product(*bound))
    )


def _holds_adjacent(predicate: ex.Expr, earlier: Binding, later: Binding, rows: Sequence[Row]) -> bool:
    """Whether an adjacent predicate holds for two consecutive bindings, or does not speak of them."""
    nexts, prevs, plain = (
        [node for node in ex.attributes(predicate) if node.role is role]
        for role in (ex.Role.NEXT, ex.Role.PREV, ex.Role.EACH)
    )
    if nexts and prevs:
        raise ValueError("NEXT and PREV in one predicate")
    # NEXT(v) is the later event beside a plain u; PREV(u) is the earlier event beside a plain v.
    at_earlier, at_later = (plain, nexts) if nexts else (prevs, plain)
    before, after = ({node.variable for node in nodes} for nodes in (at_earlier, at_later))
    if len(before) != 1 or len(after) != 1:
        raise ValueError("an adjacent predicate speaks of two events")
    if before != {earlier[1]} or after != {later[1]}:
        return True
    where_from = dict.fromkeys(at_later, later[0]) | dict.fromkeys(at_earlier, earlier[0])
    return evaluate(predicate, lambda node: rows[where_from[node]][node.name]) is True


def _term_of_trend(node: ex.Expr, trend: Trend, rows: Sequence[Row]) -> Any:
    """COUNT, SUM, ..., LENGTH, FIRST, LAST or an n-th event of a trend; NULL when there is no such event."""
    if isinstance(node, ex.Length):
        return len(trend)
    if isinstance(node, ex.Aggregate):
        if node.function == "count" and node.variable is None:
            return len(trend)
        value = _fold(node, [trend], rows)
        return float(value) if isinstance(value, Fraction) else value
    assert isinstance(node, ex.Attribute)
    bound = [i for i, variable in trend if variable == node.variable]
    place = {ex.Role.FIRST: 0, ex.Role.LAST: len(bound) - 1, ex.Role.NTH: node.index}.get(node.role)
    if place is None:
        raise ValueError("a plain attribute beside an aggregate of a trend")
    return rows[bound[place]][node.name] if 0 <= place < len(bound) else None


def _fold(node: ex.Aggregate, pool: Iterable[Trend], rows: Sequence[Row]) -> Any:
    """An aggregate over all events of some trends, each event counted once per trend that holds it."""
    pool = list(pool)
    if node.argument is None:
        if node.variable is None:
            return len(pool)
        return sum(variable == node.variable for trend in pool for _, variable in trend)
    if isinstance(node.argument, ex.Length):
        values: list[Any] = [len(trend) for trend in pool]
    else:
        (name,) = ex.variables(node.argument)
        # An event is in many trends: its value is found once.
        value_of = cache(lambda i: evaluate(node.argument, lambda attribute: rows[i][attribute.name]))
        values = [value_of(i) for trend in pool for i, variable in trend if variable == name]
    values = [value for value in values if value is not None]
    if not values:
        return None
    if node.function in ("min", "max"):
        return (min if node.function == "min" else max)(values, key=_rank)
    if node.function in _SPREADS:
        return _spread(values, *_SPREADS[node.function])
    total = _sum(values)
    if node.function == "sum":
        return total
    return total / len(values) if isinstance(total, float) else Fraction(total) / len(values)


#: What is subtracted from the number of values, and whether the root is taken.
_SPREADS = {"variance": (1, False), "var_pop": (0, False), "stddev": (1, True), "stddev_pop": (0, True)}


def _spread(values: list[Any], less: int, root: bool) -> Any:
    """The variance of values, or its root, by its definition."""
    if len(values) <= less:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    # Equal values are taken together, since there are few among many.
    times = {Fraction(value): count for value, count in Counter(values).items()}
    mean = sum(count * value for value, count in times.items()) / Fraction(len(values))
    variance = sum(count * (value - mean) ** 2 for value, count in times.items()) / (len(values) - less)
    return math.sqrt(variance) if root else variance


def _sum(values: list[Any]) -> Any:
    if not any(isinstance(value, float) for value in values):
        with localcontext() as context:
            context.prec = 200  # so that a sum of decimals is exact
            return sum(values)
    numbers = [float(value) for value in values]
    if any(math.isinf(n) or math.isnan(n) for n in numbers):
        return sum(n for n in numbers if math.isinf(n) or math.isnan(n))
    return math.fsum(numbers)


# Terms, as Spark evaluates them -------------------------------------------------------------------------------------


def evaluate(expr: ex.Expr, look: Callable[[Any], Any]) -> Any:
    """The value of a term, None for NULL; ``look`` knows attributes, aggregates and LENGTH."""
    if isinstance(expr, (ex.Attribute, ex.Aggregate, ex.Length)):
        return look(expr)
    if isinstance(expr, ex.Literal):
        return expr.value
    if isinstance(expr, ex.Binary) and expr.op in ("and", "or"):
        sides = [evaluate(expr.left, look), evaluate(expr.right, look)]
        decisive = expr.op == "or"
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive
    if isinstance(expr, ex.Binary):
        left, right = evaluate(expr.left, look), evaluate(expr.right, look)
        if left is None or right is None:
            return None
        return _compare(expr.op, left, right) if expr.op in ex.COMPARISONS else _compute(expr.op, left, right)
    if isinstance(expr, ex.Unary):
        value = evaluate(expr.operand, look)
        if value is None:
            return None
        return not value if expr.op == "not" else -value
    if isinstance(expr, ex.Guarded):
        return evaluate(expr.term, look) if evaluate(expr.condition, look) is True else None
    if isinstance(expr, ex.Call):
        return _call(expr.name.lower(), [evaluate(argument, look) for argument in expr.arguments])
    raise TypeError(f"the judge cannot evaluate {expr!r}")


def _call(name: str, values: list[Any]) -> Any:
    first = values[0]
    if name == "isnull":
        return first is None
    if name == "isnotnull":
        return first is not None
    if name == "isnan":
        return first is not None and math.isnan(first)
    if name == "coalesce":
        return next((value for value in values if value is not None), None)
    if first is None:
        return None
    if name == "in":
        if any(value is not None and _compare("=", first, value) for value in values[1:]):
            return True
        return None if None in values[1:] else False
    if name == "datediff":
        return None if None in values else (first - values[1]).days
    simple = {"abs": abs, "upper": str.upper, "lower": str.lower, "length": len, "bigint": int}
    if name not in simple:
        raise TypeError(f"the judge does not know the function {name!r}")
    return simple[name](first)


def _compare(op: str, left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    elif isinstance(left, str) != isinstance(right, str):
        raise TypeError(f"cannot compare {left!r} with {right!r}")
    a, b = _rank(left), _rank(right)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _rank(value: Any) -> tuple[int, Any]:
    """A key that sorts as Spark does: NULL first, NaN last and equal to itself, strings by their UTF-8 bytes."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    return (1, value.encode() if isinstance(value, str) else value)


def _compute(op: str, left: Any, right: Any) -> Any:
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    if op in ("/", "%") and right == 0:
        raise ZeroDivisionError("Spark fails on a division by zero")
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    if op == "*":
        return left * right
    if op == "/":
        exact = isinstance(left, Decimal) or isinstance(right, Decimal)
        return left / right if exact else float(left) / float(right)
    if isinstance(left, float):
        return math.nan if math.isinf(left) or math.isnan(left) or math.isnan(right) else math.fmod(left, right)
    # The remainder has the sign of the dividend.
    return abs(left) % abs(right) * (-1 if left < 0 else 1)
