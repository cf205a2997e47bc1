"""Checks of queries: rules on patterns, predicates, windows and answers, one function each.

The functions return errors instead of raising them, so that analysis can report all of a query at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from cetdsl.analysis.classify import PredicateClass, adjacent_pair, classify, mentions, mixing_error, shape
from cetdsl.analysis.lengths import lengths_of
from cetdsl.analysis.types import category
from cetdsl.errors import (
    RENAME_KEY,
    CetdslError,
    QueryTypeError,
    ResolutionError,
    StreamingNotSupported,
    UnknownVariable,
    UnsupportedQuery,
    WatermarkError,
    WindowError,
    nearest,
)
from cetdsl.ir.schema import Field, Schema
from cetdsl.pattern.expressions import (
    Aggregate,
    Expr,
    Length,
    Literal,
    Role,
    SparkColumn,
    aggregates,
    attributes,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Not, Pattern, Seq, events, negations
from cetdsl.pattern.properties import (
    binds_exactly_one,
    follow_pairs,
    has_sides_apart,
    maximum_length,
    negated_variables,
    positive_variables,
    sides,
)
from cetdsl.pattern.query import ANY, Computed, Query
from cetdsl.pattern.spans import Span, no_fixed_length
from cetdsl.pattern.text import quote, quote_name, write_after_match

Errors = Iterator[CetdslError]


def pattern_errors(pattern: Pattern) -> Errors:
    """NOT without a neighbour, AND where it has no meaning, patterns that match nothing."""
    alone = list(_lonely_negations(pattern, inside_sequence=False))
    yield from alone
    if not alone and maximum_length(pattern) == 0:
        yield UnsupportedQuery(f"the pattern {quote(pattern)} can match nothing", hint="add an event variable")
    yield from _and_errors(pattern)


def _lonely_negations(pattern: Pattern, *, inside_sequence: bool) -> Errors:
    hint = "put a positive part beside it: SEQ(A, NOT N, B)"
    if isinstance(pattern, Not) and not inside_sequence:
        yield UnsupportedQuery(f"{quote(pattern)} stands alone: NOT speaks of a gap between events", hint=hint)
        return
    is_sequence = isinstance(pattern, Seq)
    if is_sequence and not inside_sequence and all(isinstance(part, Not) for part in _flat(pattern)):
        yield UnsupportedQuery(f"{quote(pattern)} holds only NOT parts, so it binds no event", hint=hint)
        return
    if not isinstance(pattern, Not):
        for child in pattern.children:
            yield from _lonely_negations(child, inside_sequence=is_sequence)


def _flat(pattern: Pattern) -> list[Pattern]:
    if not isinstance(pattern, Seq):
        return [pattern]
    return [inner for part in pattern.parts for inner in _flat(part)]


def _and_errors(pattern: Pattern) -> Errors:
    inner: list[Pattern] = [pattern]
    if isinstance(pattern, And):
        inner = list(pattern.parts)
        if len(inner) > 2 and not has_sides_apart(pattern):
            names = Counter(name for side in inner for name in positive_variables(side))
            yield UnsupportedQuery(
                f"AND of more than two sides at the top binds variables of its own on each, but "
                f"{names.most_common(1)[0][0]!r} stands on several sides of {quote(pattern)}",
                hint="name them apart: AND(Stock a, Stock b, Bond c)",
            )
    for part in inner:
        for node in part.walk():
            if isinstance(node, And) and not all(isinstance(child, Event) for child in node.parts):
                yield UnsupportedQuery(
                    f"inside another pattern AND joins single events, not {quote(node)}",
                    hint="write out the orders with OR: SEQ(P, Q) OR SEQ(Q, P)",
                )


def condition_errors(event: Event) -> Errors:
    """Yields the errors of an event's condition that refers to anything but the row at hand."""
    if event.condition is None:
        return
    others = [name for name in variables(event.condition) if name != event.variable]
    if others:
        yield UnsupportedQuery(
            f"the condition of {event.variable!r} mentions {others[0]!r}, another variable",
            hint="relate variables in WHERE",
        )
    found = mentions(event.condition)
    if found.has_aggregate or found.next or found.prev:
        yield UnsupportedQuery(
            f"the condition of {event.variable!r} speaks of more than one event: {quote(event.condition)}",
            hint="move it to WHERE",
        )


def predicate_errors(predicate: Expr, pattern: Pattern) -> Errors:
    """Yields the errors of one conjunct of WHERE whose variables are all known.

    Under AND at the top, a predicate applies to the trends of those sides that bind all of its variables. If the sides
    have no variable in common, it may also relate events of different sides.
    """
    names = set(variables(predicate))
    own = [side for side in sides(pattern) if names <= {event.variable for event in events(side)}]
    if not own:
        negated = sorted(names - set(positive_variables(pattern)))
        if not has_sides_apart(pattern):
            yield UnsupportedQuery(
                f"{quote(predicate)} relates both sides of AND, which share a variable",
                hint="name the variables of the sides apart, or compare the sides after the query",
            )
        elif shape(predicate) is PredicateClass.AGGREGATE:
            yield UnsupportedQuery(
                f"{quote(predicate)} aggregates over several sides of AND, each of which is a trend of its own",
                hint="compare their attributes: a.x < b.x",
            )
        elif negated:
            yield UnsupportedQuery(
                f"{quote(predicate)} relates {negated[0]!r}, which stands under NOT, to another side of AND",
                hint="relate what is under NOT to variables of its own side",
            )
        else:
            own = [pattern]
    neighbours = follow_pairs(pattern)
    for side in own:
        yield from _side_errors(predicate, side, neighbours)


def _side_errors(predicate: Expr, pattern: Pattern, neighbours: frozenset[tuple[str, str]]) -> Errors:
    if any(isinstance(node, SparkColumn) for node in predicate.walk()):
        yield UnsupportedQuery(
            "a Spark column in WHERE does not say which event it speaks of",
            hint="use terms such as B.price, or give the column to event('b', column)",
        )
        return
    kind = classify(predicate, pattern)
    if kind is PredicateClass.CONSTANT:
        # TRUE alone says nothing wrong; generated queries have it.
        if predicate != Literal(True):
            yield UnsupportedQuery(
                f"the predicate {quote(predicate)} mentions no event", hint="leave it away, or compare an attribute"
            )
        return
    mixed = mixing_error(predicate)
    inner = list(_aggregate_errors(predicate))
    yield from inner
    if mixed is not None:
        yield mixed
    elif inner:
        return
    elif kind is PredicateClass.NEGATION:
        yield from _negation_errors(predicate, pattern)
    elif kind is PredicateClass.ADJACENT:
        pair = adjacent_pair(predicate)
        if pair is not None and pair not in neighbours:
            yield never_follows(pair)


def _aggregate_errors(predicate: Expr) -> Errors:
    for aggregate in aggregates(predicate):
        if isinstance(aggregate.argument, Length):
            yield UnsupportedQuery(
                f"{quote(aggregate)} in WHERE: a trend has a single length", hint="write LENGTH, as in LENGTH >= 3"
            )
        else:
            yield from argument_errors(aggregate)


def argument_errors(aggregate: Aggregate) -> Errors:
    """The argument of an aggregate is a term over plain attributes of one variable."""
    if aggregate.argument is None or isinstance(aggregate.argument, Length):
        return
    text = quote(aggregate)
    if aggregates(aggregate.argument) or any(isinstance(node, Length) for node in aggregate.argument.walk()):
        yield UnsupportedQuery(f"{text} aggregates an aggregate", hint="aggregate an attribute such as b.price")
    elif any(node.role is not Role.EACH for node in attributes(aggregate.argument)):
        yield UnsupportedQuery(
            f"{text} aggregates neighbours; the argument speaks of one event at a time",
            hint="use plain attributes such as b.price",
        )
    elif len(variables(aggregate.argument)) != 1:
        names = variables(aggregate.argument)
        yield UnsupportedQuery(
            f"{text} mentions {' and '.join(names) if names else 'no variable'}: it must mention exactly one",
            hint="aggregate the attributes of one variable, SUM(b.price)",
        )


def _negation_errors(predicate: Expr, pattern: Pattern) -> Errors:
    text = quote(predicate)
    negated = [name for name in variables(predicate) if name in negated_variables(pattern)]
    outer = [name for name in variables(predicate) if name not in negated]
    holders = [node for node in negations(pattern) if {e.variable for e in events(node)} >= set(negated)]
    if not holders:
        yield UnsupportedQuery(
            f"{text} relates {negated[0]!r} and {negated[1]!r}, which stand under different NOTs",
            hint="write one predicate for each NOT",
        )
        return
    if shape(predicate) is PredicateClass.AGGREGATE:
        yield UnsupportedQuery(
            f"{text} aggregates over {negated[0]!r}, which is bound only under NOT: no trend holds its events",
            hint="aggregate over variables outside NOT",
        )
        return
    if shape(predicate) is PredicateClass.ADJACENT:
        pair = adjacent_pair(predicate)
        if outer:
            yield UnsupportedQuery(
                f"{text} makes neighbours of {outer[0]!r} and the negated {negated[0]!r}: "
                "an event under NOT has no neighbour in the trend",
                hint="compare plain attributes",
            )
        elif pair and not any(pair in follow_pairs(node.part) for node in holders):
            yield never_follows(pair)
        return
    inside = {event.variable for node in holders for event in events(node)}
    for name in outer:
        if name in inside:
            yield UnsupportedQuery(
                f"{text}: {name!r} stands inside and outside of NOT, so it is not clear which is meant",
                hint="give the event under NOT a name of its own",
            )
        elif not binds_exactly_one(pattern, name):
            yield UnsupportedQuery(
                f"{text} relates the negated {negated[0]!r} to {name!r}, which need not bind exactly one event",
                hint="relate it to a variable outside every repetition and alternative",
            )


def never_follows(pair: tuple[str, str]) -> CetdslError:
    """The error for neighbours that the pattern never makes."""
    earlier, later = pair
    if earlier == later:
        return UnsupportedQuery(
            f"{earlier} never directly follows itself in this pattern, so it has no NEXT({earlier})",
            hint=f"repeat it with kleene({earlier}), in text {earlier}+",
        )
    return UnsupportedQuery(
        f"{later} never directly follows {earlier} in this pattern, so NEXT({later}) says nothing beside {earlier}",
        hint=f"compare all their events instead: {earlier}.x < {later}.x",
    )


def returned_errors(query: Query) -> Errors:
    """Aggregates over things that trends do not bind, and AND with lengths of shared trends."""
    for item in query.returning:
        aggregate = item.aggregate
        yield from argument_errors(aggregate)
        for name in variables(aggregate):
            if name in negated_variables(query.pattern):
                yield UnsupportedQuery(
                    f"{quote(aggregate)}: {name!r} is bound only under NOT, so no trend holds its events",
                    hint="aggregate over variables outside NOT",
                )
        if isinstance(aggregate.argument, Length) and not aggregate.definition.is_additive:
            yield from _shared_length_errors(aggregate, query.pattern)


def _shared_length_errors(aggregate: Aggregate, pattern: Pattern) -> Errors:
    if not isinstance(pattern, And):
        return
    names = [set(positive_variables(side)) for side in sides(pattern)]
    shared = sorted(set.intersection(*names))
    if shared:
        yield UnsupportedQuery(
            f"{quote(aggregate)} over AND whose sides share the variable {shared[0]!r}",
            hint="give the sides different variables, or ask for AVG(LENGTH)",
        )


def name_errors(query: Query, schema: Schema, *, is_stream: bool) -> Errors:
    """Yields errors for output columns of the same name.

    An answer shows its window if windows slide, and, if it is an aggregate of a stream, under a span as well.
    """
    groups, window = {schema.folded(name) for name in query.group_by}, query.window
    shows = window is not None and (window.slide is not None or (is_stream and bool(query.returning)))
    if shows and "window" in groups:
        yield ResolutionError(
            "the group column 'window' clashes with the window column of the answer",
            hint=RENAME_KEY,
        )
    counts = Counter(schema.folded(item.output_name) for item in query.returning)
    for name in dict.fromkeys(item.output_name for item in query.returning):
        folded = schema.folded(name)
        if counts[folded] > 1:
            counts[folded] = 0
            yield ResolutionError(
                f"RETURN has several columns called {name!r}", hint="name them apart: COUNT(*) AS trends"
            )
        if folded in groups or (shows and folded == "window"):
            what = "a group column" if folded in groups else "the window column of the answer"
            yield ResolutionError(
                f"the returned column {name!r} clashes with {what}",
                hint="name it COUNT(*) AS trends in a text, count_trends('trends') or aggregate(trends=...) in Python",
            )


def computed_errors(item: Computed, schema: Schema) -> Errors:
    """Yields an error for a computed column of another one's name."""
    known = [name for name in schema.names if schema.folded(name) == schema.folded(item.name)]
    if known:
        yield ResolutionError(
            f"the computed group {item.name!r} has the name of a column of the DataFrame, {known[0]!r}",
            hint=f"give it another name with AS, {quote_name(f'{item.name}_group')}, or group by the column",
        )


def policy_errors(query: Query, *, is_stream: bool) -> Errors:
    """Yields errors for queries that no policy but ANY allows: pairs of trends, and the events of a stream."""
    if query.matching == ANY:
        return
    asked = f"MATCHING {query.matching.upper()}"
    if isinstance(query.pattern, And):
        yield UnsupportedQuery(
            f"{asked} cannot be asked of an AND at the top, whose answers are pairs of trends",
            hint=f"ask for the trends of each side by itself, each with {asked}",
        )
    if is_stream:
        yield StreamingNotSupported(
            f"{asked} cannot be asked of a stream", hint="ask each closed window in a batch, or leave the policy away"
        )


def selection_errors(query: Query) -> Errors:
    """AFTER MATCH SKIP TO a variable that the pattern does not bind."""
    after = query.selection.after
    if after is None or not after.variable:
        return
    known = positive_variables(query.pattern)
    if after.variable not in known:
        binds = f"it binds {', '.join(known)}"
        if after.variable.upper() == "NEXT":
            binds += "; the row behind the first one is TO NEXT ROW"
        yield UnknownVariable(
            f"{write_after_match(after)}: the pattern binds no {after.variable!r}",
            hint=nearest(after.variable, known, binds),
        )


def window_errors(query: Query, time: Field | None, unit: str | None) -> Errors:
    """Lengths without a fixed size, and lengths in another unit than the time column."""
    if query.window is None:
        return
    spans = [("WITHIN", query.window.length)]
    if query.window.slide is not None:
        spans.append(("SLIDE", query.window.slide))
    for word, span in spans:
        yield from _span_errors(word, span, time, unit)
    units = {span.unit for _, span in spans}
    if time is None and units == {"tick", "microsecond"}:
        yield WindowError(
            f"WITHIN {query.window.length} SLIDE {query.window.slide} mixes ticks and units of time",
            hint="write both with a unit, or both without",
        )


def length_errors(query: Query, time: Field | None, unit: str | None) -> Errors:
    """Yields errors for lengths of parts and MAX_GAP that have no fixed size, or another unit than the time column."""
    for word, span in lengths_of(query):
        yield from _span_errors(word, span, time, unit)


def _span_errors(word: str, span: Span, time: Field | None, unit: str | None) -> Errors:
    if span.unit == "month":
        yield no_fixed_length(f"{word} {span}")
    elif time is not None and unit == "timestamp" and span.unit == "tick":
        yield WindowError(
            f"{word} {span} counts ticks, but the time column {time.name!r} is of type {time.type}",
            hint=f"write a unit: '{span} second{'' if span.amount == 1 else 's'}'",
        )
    elif time is not None and unit == "tick" and span.unit != "tick":
        yield WindowError(
            f"{word} {span} is a length of time, but the time column {time.name!r} is of type {time.type}",
            hint="write a whole number of ticks, or cast the column to timestamp",
        )


#: The most windows per event of a stream, which answers each window by itself, and keeps or reads an event for each.
MAX_STREAM_OVERLAP = 64


def stream_errors(query: Query, time: Field | None, watermarks: Mapping[str, int], schema: Schema) -> Errors:
    """Yields errors that keep a stream from ever answering: no window, or no watermark that closes windows."""
    window = query.window
    if window is None:
        yield StreamingNotSupported(
            "a query without a window is never answered on a stream, which does not end",
            hint="add a window, as in WITHIN 10 minutes SLIDE 1 minute",
        )
    elif window.slide is not None and window.length.amount > MAX_STREAM_OVERLAP * window.slide.amount:
        yield StreamingNotSupported(
            f"WITHIN {window.length} SLIDE {window.slide} puts each event into more than {MAX_STREAM_OVERLAP} windows, "
            "and a stream answers each of them by itself",
            hint="take a longer SLIDE",
        )
    if time is not None:
        yield from _watermark_errors(time, watermarks, schema)


def _watermark_errors(time: Field, watermarks: Mapping[str, int], schema: Schema) -> Errors:
    name, quoted = time.name, quote_name(time.name)
    marked = f"withWatermark({quoted!r}, '10 minutes')"
    windows = [field.name for field in schema.fields if field.name in watermarks and field.type.startswith("struct")]
    if time.type != "timestamp":
        made = f"F.to_timestamp_ltz({quoted!r})"
        if category(time.type) == "number":
            made = f"F.timestamp_seconds({quoted!r})"
        elif time.type == "timestamp_ntz":
            # Clocks of a zone may be set forward and back, while windows are aligned to UTC.
            made = f"F.concat(F.col({quoted!r}).cast('string'), F.lit('Z')).cast('timestamp')"
        yield WatermarkError(
            f"the time column {name!r} is of type {time.type}, and a stream's watermark is on a timestamp",
            hint=f"make it one: df.withColumn({name!r}, {made}).{marked}",
        )
    elif not watermarks:
        yield WatermarkError(
            "the stream has no watermark, so no window would ever be closed",
            hint=f"say how late events may come: df.{marked}",
        )
    elif name not in watermarks and windows:
        yield WatermarkError(
            f"the stream's watermark is on the windows {windows[0]!r} of an aggregation, but the time of the query is "
            f"{name!r}",
            hint=f"take the time of these windows: df.drop({name!r}).select('*', "
            f"F.window_time({quote_name(windows[0])!r}).alias({name!r})); with a second "
            "watermark behind the aggregation Spark would drop every row",
        )
    elif name not in watermarks:
        others = ", ".join(map(repr, watermarks))
        yield WatermarkError(
            f"the stream's watermark is on {others}, but the time of the query is {name!r}",
            hint=f"put it on that column, df.{marked}, or name the other one with time=",
        )


def collated(what: str, type_: str, name: str = "") -> UnsupportedQuery:
    """The error for a value with a collation, as kernels compare texts by bytes; ``name`` is that of its column."""
    if category(type_) == "string":
        column = repr(name or "text")
        text, remark = f"F.lower({column})", ", without F.lower where case counts"
        if "collate utf8_binary" in type_.lower():
            text, remark = column, ""
        if type_.lower().endswith("_rtrim"):
            text = f"F.rtrim({text})"
        hint = (
            f"give the column Spark's default collation first: df.withColumn({column}, "
            f"F.collate({text}, 'UTF8_BINARY')){remark}"
        )
    else:
        hint = "give the texts inside Spark's default collation first, as by CAST"
    return UnsupportedQuery(
        f"{what} is of type {type_}, in which texts of different bytes may be equal or come in another order, and "
        "kernels compare bytes",
        hint=hint,
    )


def unorderable(field: Field, what: str) -> QueryTypeError:
    """The error for a column that must be compared but cannot be."""
    return QueryTypeError(
        f"the {what} {field.name!r} is of type {field.type}, which has no order",
        hint="use a column of numbers, strings or times",
    )
