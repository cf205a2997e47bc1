"""Variants of a query without some of its demands, or with a part of its pattern; they show which demand fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate, count, pairwise

import attrs

from cetdsl.pattern.expressions import Expr, conjuncts, variables
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, Within, dissolved, negations
from cetdsl.pattern.properties import positive_variables
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import quote, quote_name

#: The kinds of demands, in the order in which they are reported.
KEY, PREDICATE, NOT, REPETITION = "key", "predicate", "NOT", "repetition"
PART, GAP, WINDOW = "length of a part", "gap", "window"


@attrs.frozen
class Demand:
    """A demand of a query on trends, besides the order of their events, that can be removed from the query.

    ``kind`` and ``place``, its number among the demands of this kind, identify it; ``text`` is its text.
    """

    kind: str
    place: int
    text: str


@attrs.frozen
class Part:
    """A part of a query's pattern: its text, and the query for that part alone."""

    text: str
    query: Query


def demands_of(query: Query) -> tuple[Demand, ...]:
    """The demands of a query: equal columns, predicates, NOT, repetitions, and the window.

    A predicate on events under a NOT belongs to that NOT, and is no demand itself: with it, the query has more trends.

    Examples
    --------
    >>> from cetdsl.pattern.expressions import Attribute, Binary, Literal
    >>> from cetdsl.pattern.query import Window
    >>> from cetdsl.pattern.spans import Span
    >>> a, b, c = (Event(name, type=name) for name in "abc")
    >>> pattern = Seq((a, Not(c), Repeat(b, 3)))
    >>> where = (Binary(">", Attribute("b", "x"), Literal(1)),)
    >>> query = Query(pattern, where, partition_by=("user",), window=Window(Span.parse("1 hour")))
    >>> [demand.text for demand in demands_of(query)]
    ['[user]', 'b.x > 1', 'NOT c', 'b 3 times', 'WITHIN 1 hour']
    """
    found = [Demand(KEY, place, f"[{quote_name(name)}]") for place, name in enumerate(_keys(query))]
    found += [Demand(PREDICATE, place, quote(part)) for place, part in enumerate(_predicates(query))]
    found += [Demand(NOT, place, _not_text(query, node)) for place, node in enumerate(negations(query.pattern))]
    for place, node in enumerate(_repetitions(query.pattern)):
        found.append(Demand(REPETITION, place, f"{quote(node.part)} {node.at_least} times"))
    for place, part in enumerate(_limited_parts(query.pattern)):
        found.append(Demand(PART, place, f"{quote(part.part)} WITHIN {part.length}"))
    if query.max_gap is not None:
        found.append(Demand(GAP, 0, f"MAX_GAP {query.max_gap}"))
    if query.window is not None:
        found.append(Demand(WINDOW, 0, str(query.window)))
    return tuple(found)


def without(query: Query, dropped: Collection[Demand]) -> Query:
    """Returns the query without some of its demands; without the demand of a repetition, the part occurs at least once.

    Examples
    --------
    >>> pattern = Seq((Event("a"), Not(Event("c")), Event("b")))
    >>> query = Query(pattern, partition_by=("user", "day"))
    >>> user, _, not_c = demands_of(query)
    >>> without(query, [user, not_c]) == Query(Seq((Event("a"), Event("b"))), partition_by=("day",))
    True
    """
    places: dict[str, set[int]] = {}
    for demand in dropped:
        places.setdefault(demand.kind, set()).add(demand.place)
    keys, predicates = _keys(query), _predicates(query)
    gone_keys = {keys[place] for place in places.get(KEY, ())}
    gone = [predicates[place] for place in places.get(PREDICATE, ())]
    pattern = _without_parts(query.pattern, places)
    left = {node.variable for node in pattern.walk() if isinstance(node, Event)}
    # Predicates on a removed NOT are removed with it.
    where = [part for part in _conjuncts(query) if part not in gone and set(variables(part)) <= left]
    return attrs.evolve(
        query,
        pattern=pattern,
        where=where,
        partition_by=[name for name in query.partition_by if name not in gone_keys],
        group_by=[name for name in query.group_by if name not in gone_keys],
        window=None if WINDOW in places else query.window,
        max_gap=None if GAP in places else query.max_gap,
    )


def steps_of(query: Query) -> tuple[Part, ...]:
    """Returns the prefixes of a sequence, each with the conditions on its variables; else the sides, or the whole.

    The last prefix is the whole query. A NOT belongs to the step of the part behind it.

    Examples
    --------
    >>> a, b, c, n = (Event(name, type=name) for name in "abcn")
    >>> query = Query(Seq((a, Repeat(b), Not(n), c)))
    >>> [part.text for part in steps_of(query)]
    ['a', 'SEQ(a, b+)', 'SEQ(a, b+, NOT n, c)']
    """
    pattern = dissolved(query.pattern, Seq)
    if isinstance(pattern, (Or, And)):
        patterns: list[Pattern] = list(pattern.parts)
    elif isinstance(pattern, Seq):
        ends = [place for place, part in enumerate(pattern.parts, 1) if not isinstance(part, Not)]
        ends[-1] = len(pattern.parts)
        patterns = [Seq(pattern.parts[:end]) if end > 1 else pattern.parts[0] for end in ends]
    else:
        patterns = [pattern]
    finished = patterns if isinstance(pattern, Or) else patterns[-1:] if not isinstance(pattern, And) else []
    return tuple(Part(quote(part), _narrowed(query, part, part in finished)) for part in patterns)


def exchanged_orders(query: Query) -> Iterator[Part]:
    """Yields the query with two neighbouring parts of its sequence exchanged, for each two of them.

    Examples
    --------
    >>> query = Query(Seq(tuple(Event(name, type=name) for name in "abc")))
    >>> [part.text for part in exchanged_orders(query)]
    ['SEQ(b, a, c)', 'SEQ(a, c, b)']
    """
    pattern = dissolved(query.pattern, Seq)
    if not isinstance(pattern, Seq):
        return
    places = [place for place, part in enumerate(pattern.parts) if not isinstance(part, Not)]
    for one, other in pairwise(places):
        parts = list(pattern.parts)
        parts[one], parts[other] = parts[other], parts[one]
        exchanged = Seq(tuple(parts))
        yield Part(quote(exchanged), attrs.evolve(query, pattern=exchanged))


def cumulated(query: Query, demands: Collection[Demand]) -> list[Query]:
    """The query with only the first of some demands, then with the first two, and so on up to all of them."""
    kept = accumulate(demands, lambda before, demand: {*before, demand}, initial=set[Demand]())
    return [without(query, [demand for demand in demands if demand not in some]) for some in kept][1:]


def _narrowed(query: Query, pattern: Pattern, finished: bool) -> Query:
    """Returns the query for a part of its pattern, with the conditions on that part's variables.

    Predicates without variables, on the length of a trend, are kept only for ``finished`` trends.
    """
    names = {node.variable for node in pattern.walk() if isinstance(node, Event)}
    asked = [(part, set(variables(part))) for part in _conjuncts(query)]
    where = [part for part, own in asked if own <= names and (own or finished)]
    return attrs.evolve(query, pattern=pattern, where=where)


def _conjuncts(query: Query) -> list[Expr]:
    return list(dict.fromkeys(part for whole in query.where for part in conjuncts(whole)))


def _keys(query: Query) -> list[str]:
    return list(dict.fromkeys((*query.partition_by, *query.group_by)))


def _predicates(query: Query) -> list[Expr]:
    """The predicates on events that trends bind."""
    bound = set(positive_variables(query.pattern))
    return [part for part in _conjuncts(query) if set(variables(part)) <= bound]


def _not_text(query: Query, node: Not) -> str:
    names = {event.variable for event in node.walk() if isinstance(event, Event)}
    said = [quote(part) for part in _conjuncts(query) if names & set(variables(part))]
    return quote(node) + (f" with {' AND '.join(said)}" if said else "")


def _bound(pattern: Pattern) -> Iterator[Pattern]:
    """The nodes of the pattern that stand under no NOT, in reading order."""
    if not isinstance(pattern, Not):
        yield pattern
        for child in pattern.children:
            yield from _bound(child)


def _repetitions(pattern: Pattern) -> list[Repeat]:
    """Returns the repetitions that trends must bind more than once."""
    return [node for node in _bound(pattern) if isinstance(node, Repeat) and node.at_least > 1]


def _limited_parts(pattern: Pattern) -> list[Within]:
    """The parts that have a length of their own."""
    return [node for node in _bound(pattern) if isinstance(node, Within)]


def _without_parts(pattern: Pattern, gone: Mapping[str, Collection[int]]) -> Pattern:
    """Returns the pattern without some NOTs and lengths of parts, and with some repetitions bound at least once.

    ``gone`` has their numbers, by kind of demand.
    """
    # Numbers identify them, because parts that are written twice may be one object.
    numbers = {kind: count() for kind in (NOT, REPETITION, PART)}

    def is_gone(kind: str) -> bool:
        return next(numbers[kind]) in gone.get(kind, ())

    def rebuilt(node: Pattern) -> Pattern | None:
        if isinstance(node, Not):
            return None if is_gone(NOT) else node
        once = isinstance(node, Repeat) and node.at_least > 1 and is_gone(REPETITION)
        unlimited = isinstance(node, Within) and is_gone(PART)
        children = [child for child in map(rebuilt, node.children) if child is not None]
        if unlimited:
            return children[0]
        new = node.with_children(tuple(children)) if children else node
        return Repeat(new.part, 1, new.at_most) if once and isinstance(new, Repeat) else new

    whole = rebuilt(pattern)
    assert whole is not None, "a NOT stands in a sequence"
    return whole
