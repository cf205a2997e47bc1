"""Resolves a query against the columns of a DataFrame: finds every name, and reports every error at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import attrs

from cetdsl.analysis import checks
from cetdsl.analysis.functions import INSTEAD, function_errors
from cetdsl.analysis.lengths import as_predicates, has_lengths, unlimited
from cetdsl.analysis.types import TypeCheck, category, is_collated, is_integer, is_orderable
from cetdsl.errors import (
    CetdslError,
    InvalidNode,
    QueryTypeError,
    ResolutionError,
    UnknownColumn,
    UnknownFunction,
    UnknownVariable,
    is_one_of,
    names_of,
    nearest,
    raise_together,
    shown,
)
from cetdsl.ir import keeping
from cetdsl.ir.emission import FINAL
from cetdsl.ir.schema import Field, Schema
from cetdsl.ir.sorting import AS_USUAL, AskedSort
from cetdsl.pattern.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Length,
    Literal,
    bind_attributes,
    conjunction,
    conjuncts,
    transform,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Pattern, dissolved, events
from cetdsl.pattern.nodes import transform as transform_pattern
from cetdsl.pattern.query import Computed, Query, Returned
from cetdsl.pattern.text import quote, quote_name

#: A test for the names of functions, or their collection, from which a hint can name the nearest one.
KnownFunctions = Callable[[str], bool] | Collection[str]


def _names(names: str | Iterable[str] | None) -> tuple[str, ...]:
    return () if names is None else names_of(names, "tie_break=")


def _check_on_null_time(_: object, __: object, what: str) -> None:
    if not is_one_of(what, ("error", "skip")):
        raise InvalidNode(f"on_null_time={shown(what)} is unknown", hint="use 'error' or 'skip'")


@attrs.frozen
class Binding:
    """Describes how events are read from the columns of a DataFrame.

    ``time`` is the time column; None stands for the only timestamp column. ``tie_break`` names columns that order
    events of the same time; a single name is possible, too, and None for no column. ``type`` is the column with the
    type of an event; None if every event is of every type. ``on_null_time`` is ``"error"`` or ``"skip"``. ``sort`` is
    the requested way to sort the events of a task. ``watermarks`` are the delays of a stream's watermarks in
    microseconds, by column; None for a batch. ``computed`` are the columns that queries compute; answers do not show
    them among the columns of an event. ``state`` is the requested way in which a stream keeps its events.
    """

    time: str | None = None
    tie_break: tuple[str, ...] = attrs.field(default=(), converter=_names)
    type: str | None = "type"
    on_null_time: str = attrs.field(default="error", validator=_check_on_null_time)
    sort: AskedSort = AS_USUAL
    watermarks: Mapping[str, int] | None = None
    computed: tuple[Computed, ...] = ()
    state: keeping.AskedState = keeping.AS_USUAL


@attrs.frozen
class ResolvedQuery:
    """A query whose names are columns of a schema.

    Attributes
    ----------
    query : Query
        All names exact; every ``Event.type`` is None, its test being part of ``Event.condition``; ``where`` is a
        tuple of conjuncts.
    time_unit : {"timestamp", "tick"}
        Dates count as timestamps.
    type : str or None
        The type column, if some event needed it.
    columns : tuple of str
        The columns that the query reads; all of them until they are pruned.
    asked_partition_by : tuple of str
        The partition columns that the user named, for the answer; ``query.partition_by`` may grow by rewriting.
    watermark : int or None
        The delay of a stream's watermark in microseconds; None for a batch.
    event_columns : tuple of str
        The columns of an event: all but those that queries compute to group by them.
    emit : {"final", "update", "eager"}
        When a stream gives its answer.
    state : AskedState
        How a stream is to keep its events.
    by_bucket : bool
        Whether a span has a separate answer for the trends that start in each time bucket.
    computed : tuple of Computed
        The columns that queries have computed from those of an event.
    """

    query: Query
    schema: Schema
    time: Field
    time_unit: str
    tie_break: tuple[str, ...]
    type: str | None
    on_null_time: str
    columns: tuple[str, ...]
    asked_partition_by: tuple[str, ...]
    sort: AskedSort = AS_USUAL
    watermark: int | None = None
    event_columns: tuple[str, ...] = attrs.field(default=attrs.Factory(lambda own: own.schema.names, takes_self=True))
    emit: str = FINAL
    state: keeping.AskedState = keeping.AS_USUAL
    by_bucket: bool = False
    computed: tuple[Computed, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether the events are those of a stream."""
        return self.watermark is not None

    def with_query(self, **changes: Any) -> ResolvedQuery:
        """Returns a copy with these fields of the query changed; this very object when they equal the old ones."""
        # Making a new query checks all of its events, and most rewrite rules change nothing.
        if all(getattr(self.query, name) == value for name, value in changes.items()):
            return self
        query = attrs.evolve(self.query, **changes)
        return self if query == self.query else attrs.evolve(self, query=query)


def analyse(
    query: Query, schema: Schema, binding: Binding | None = None, *, known_functions: KnownFunctions | None = None
) -> ResolvedQuery:
    """Resolve a query against the columns of a DataFrame.

    ``known_functions`` says which function names exist; by default all do. If the query has an error, it is raised; if
    it has several, AnalysisErrors with all of them is raised.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event
    >>> schema = Schema([Field("ts", "timestamp"), Field("type", "string"), Field("Price", "double")])
    >>> where = (Binary(">", Attribute("A", "price"), Literal(5)),)
    >>> resolved = analyse(Query(Event("A", type="A"), where), schema)
    >>> resolved.time.name, resolved.query.where[0].left.name
    ('ts', 'Price')
    >>> analyse(Query(Event("A", type="A"), (Binary(">", Attribute("A", "prise"), Literal(5)),)), schema)
    Traceback (most recent call last):
        ...
    cetdsl.errors.UnknownColumn: no column 'prise' in the DataFrame; A.prise > 5 asks for it
      hint: did you mean 'Price'?
    """
    return _Analysis(query, schema, binding or Binding(), known_functions).run()


def resolve_computed(
    query: Query, schema: Schema, *, known_functions: KnownFunctions | None = None
) -> tuple[Computed, ...]:
    """Returns the columns that a query computes, with exact names.

    Errors in them are raised as by :func:`analyse`, which then treats these columns like all others.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event
    >>> query = Query(Event("A"), group_by=["day"], computed=[Computed("day", Call("date", (Attribute(None, "TS"),)))])
    >>> resolve_computed(query, Schema([Field("ts", "timestamp")]))[0].term.arguments[0].name
    'ts'
    """
    return _Analysis(query, schema, Binding(), known_functions).computed()


def _may_be_time(field: Field) -> bool:
    """Whether the values of a column can be the times of events."""
    return category(field.type) == "instant" or is_integer(field.type)


class _Analysis:
    """One analysis; its methods record errors and continue with the names and types that are still known."""

    def __init__(self, query: Query, schema: Schema, binding: Binding, functions: KnownFunctions | None) -> None:
        self.asked = query
        self.schema = schema
        self.binding = binding
        self.functions = functions
        self.errors: list[CetdslError] = []
        self._noted: set[tuple[type, str]] = set()
        self.variables = tuple(dict.fromkeys(event.variable for event in events(query.pattern)))

    def run(self) -> ResolvedQuery:
        time = self.time_column()
        unit = None if time is None else "tick" if is_integer(time.type) else "timestamp"
        self.asked = asked = self.without_lengths(time, unit)
        tie_break = self.tie_break()
        type_ = self.type_column()
        returning = self.returning()
        pattern = self.pattern(type_)
        where = self.where(pattern)
        partition_by = self.keys(asked.partition_by, "partition column")
        group_by = self.keys(asked.group_by, "group column")
        self.note(checks.window_errors(asked, time, unit))
        watermarks = self.binding.watermarks
        if watermarks is not None:
            self.note(checks.stream_errors(asked, time, watermarks, self.schema))
        self.note(checks.policy_errors(asked, is_stream=watermarks is not None))
        self.note(checks.selection_errors(asked))
        query = attrs.evolve(
            asked, pattern=pattern, where=where, partition_by=partition_by, group_by=group_by, returning=returning
        )
        self.note(checks.name_errors(query, self.schema, is_stream=watermarks is not None))
        raise_together(self.errors)
        assert time is not None
        assert unit is not None
        return ResolvedQuery(
            query=query,
            schema=self.schema,
            time=time,
            time_unit=unit,
            tie_break=tie_break,
            type=type_.name if type_ is not None else None,
            on_null_time=self.binding.on_null_time,
            columns=self.schema.names,
            asked_partition_by=partition_by,
            sort=self.binding.sort,
            watermark=None if watermarks is None else watermarks[time.name],
            state=self.binding.state,
            computed=self.binding.computed,
            event_columns=tuple(field.name for field in self.event_fields()),
        )

    def without_lengths(self, time: Field | None, unit: str | None) -> Query:
        """Returns the query with predicates in place of the lengths of time within the pattern."""
        asked = self.asked
        if not has_lengths(asked):
            return asked
        if self.note(checks.length_errors(asked, time, unit)) or time is None:
            return attrs.evolve(asked, pattern=unlimited(asked.pattern), max_gap=None)
        said, errors = as_predicates(asked, time)
        self.note(errors)
        return said

    def computed(self) -> tuple[Computed, ...]:
        found = []
        for item in self.asked.computed:
            what = f"the group {quote_name(item.name)}"
            self.note(checks.computed_errors(item, self.schema))
            term, complete = self.term(item.term, what)
            if complete:
                check = TypeCheck(self.schema)
                check.infer(term)
                self.note(check.errors, what)
            found.append(Computed(item.name, term))
        raise_together(self.errors)
        return tuple(found)

    # Errors

    def note(self, errors: Iterable[CetdslError], within: str = "") -> bool:
        """Records errors that are not known yet, with the part of the query they came from; returns whether any are."""
        found = list(errors)
        for error in found:
            noted = (type(error), str(error))
            if noted not in self._noted:
                self._noted.add(noted)
                error.message += f"; {within} asks for it" if within else ""
                self.errors.append(error)
        return bool(found)

    def resolve(
        self, name: str, what: str = "column", within: str = "", hint: Callable[[str], str] | None = None
    ) -> Field | None:
        """Returns the column of a name, or None after recording an error; ``hint`` says what to write instead."""
        try:
            return self.schema.resolve(name, what)
        except ResolutionError as error:
            if hint is not None and isinstance(error, UnknownColumn):
                error.hint = hint(name)
            self.note([error], within)
            return None

    # Binding

    def event_fields(self) -> tuple[Field, ...]:
        """The columns that no query has computed."""
        computed = {item.name for item in self.binding.computed}
        return tuple(field for field in self.schema.fields if field.name not in computed)

    def time_column(self) -> Field | None:
        if self.binding.time is None:
            return self.only_timestamp()
        field = self.resolve(self.binding.time, "time column", hint=self._hint_of_times)
        if field is not None and not _may_be_time(field):
            error = QueryTypeError(
                f"the time column {field.name!r} is of type {field.type}",
                hint="time is a timestamp, a date or a whole number; cast the column",
            )
            self.note([error])
            return None
        return field

    def _hint_of_times(self, name: str) -> str:
        """Returns a hint on how to give the column with the times of events."""
        times = [field.name for field in self.event_fields() if _may_be_time(field)]
        listed = ", ".join(map(repr, times)) or "none"
        return nearest(name, times, f"its columns that can be the time are {listed}")

    def only_timestamp(self) -> Field | None:
        fields = self.event_fields()
        found = [field for field in fields if field.type in ("timestamp", "timestamp_ntz")]
        if len(found) == 1:
            return self.resolve(found[0].name, "time column")
        if found:
            names = ", ".join(repr(field.name) for field in found)
            error = ResolutionError(
                f"which column is the time? The DataFrame has several timestamps: {names}",
                hint=f"say which: time={found[0].name!r}",
            )
        else:
            others = [f for f in fields if f.type == "date"]
            others += [f for f in fields if is_integer(f.type)]
            names = ", ".join(f"{field.name!r} ({field.type})" for field in others)
            hint = f"say which column is the time: {names}" if others else "cast a column with to_timestamp"
            error = ResolutionError("the DataFrame has no timestamp column", hint=hint)
        self.note([error])
        return None

    def type_column(self) -> Field | None:
        """The type column, if some event needs it."""
        typed = [event for event in events(self.asked.pattern) if event.type is not None]
        if self.binding.type is None or not typed:
            return None
        field = self.resolve(self.binding.type, "type column", hint=self._hint_of_types)
        if field is not None and category(field.type) != "string":
            error = QueryTypeError(
                f"the type column {field.name!r} is of type {field.type}, but {typed[0].variable!r} asks for the type "
                f"{typed[0].type!r}",
                hint=f"cast it to string, or use event({typed[0].variable!r}, condition)",
            )
            self.note([error])
            return None
        return field

    def _hint_of_types(self, name: str) -> str:
        """Returns a hint on how to give the column with the types of events."""
        texts = [field.name for field in self.schema.fields if category(field.type) == "string"]
        others = "type=None if every event is of every type"
        if not texts:
            return f"no column holds texts: write {others}, and event(name, condition) for events of a kind"
        close = get_close_matches(name, texts, n=1) or texts[:1]
        return f'write type="{close[0]}" if that column says what an event is, or {others}'

    def tie_break(self) -> tuple[str, ...]:
        names = self.keys(self.binding.tie_break, "tie_break column")
        fields = [self.schema.resolve(name) for name in names]
        collated = [field for field in fields if is_collated(field.type)]
        self.note(checks.collated(f"the tie_break column {f.name!r}", f.type, f.name) for f in collated)
        return names

    def keys(self, names: tuple[str, ...], what: str) -> tuple[str, ...]:
        fields = [self.resolve(name, what) for name in names]
        known = [field for field in fields if field is not None]
        self.note(checks.unorderable(field, what) for field in known if not is_orderable(field.type))
        return tuple(dict.fromkeys(field.name for field in known))

    # Pattern

    def pattern(self, type_: Field | None) -> Pattern:
        asked = flatten_and(self.asked.pattern)
        self.note(checks.pattern_errors(asked))
        resolved = {event: self.event(event, type_) for event in dict.fromkeys(events(asked))}
        return transform_pattern(asked, lambda node: resolved[node] if isinstance(node, Event) else node)

    def event(self, event: Event, type_: Field | None) -> Event:
        parts: list[Expr] = []
        if event.type is not None and type_ is not None:
            parts.append(Binary("=", Attribute(event.variable, type_.name), Literal(event.type)))
        if event.condition is not None:
            bound = attrs.evolve(event, condition=bind_attributes(event.condition, event.variable))
            assert bound.condition is not None
            if not self.note(checks.condition_errors(bound)):
                condition, _ = self.term(bound.condition, f"the condition of {event.variable!r}")
                self.types(condition, f"the condition of {event.variable!r},")
                parts += conjuncts(condition)
        return Event(event.variable, None, conjunction(parts) if parts else None)

    # Predicates and aggregates

    def where(self, pattern: Pattern) -> tuple[Expr, ...]:
        found: list[Expr] = []
        for predicate in (part for whole in self.asked.where for part in conjuncts(whole)):
            known, complete = self.term(transform(predicate, _count_to_length), quote(predicate))
            if complete and not self.note(checks.predicate_errors(known, pattern)):
                self.types(known, "the predicate")
            found.append(known)
        return tuple(dict.fromkeys(found))

    def returning(self) -> tuple[Returned, ...]:
        found: list[Returned] = []
        good = True
        for item in self.asked.returning:
            aggregate, complete = self.term(item.aggregate, quote(item.aggregate))
            assert isinstance(aggregate, Aggregate)
            good &= complete
            if complete:
                check = TypeCheck(self.schema)
                check.infer(aggregate)
                self.note(check.errors)
            # The name is fixed as written, so that resolving the column does not change its case.
            found.append(Returned(aggregate, item.output_name))
        if good:
            self.note(checks.returned_errors(self.asked))
        return tuple(found)

    def types(self, expr: Expr, what: str) -> None:
        check = TypeCheck(self.schema)
        check.require_boolean(expr, what)
        self.note(check.errors)

    def term(self, expr: Expr, within: str) -> tuple[Expr, bool]:
        """The term with exact names, and whether all of them were found."""
        before = len(self.errors)
        missing = [name for name in variables(expr) if name not in self.variables]
        self.note((self.unknown_variable(name) for name in missing), within)
        complete = (
            not missing and not self.unknown_functions(expr, within) and not self.note(function_errors(expr), within)
        )

        def exact(node: Expr) -> Expr:
            nonlocal complete
            if not isinstance(node, Attribute) or node.variable in missing:
                return node
            field = self.resolve(node.name, within=within)
            complete &= field is not None
            return node if field is None else attrs.evolve(node, name=field.name)

        return transform(expr, exact), complete and len(self.errors) == before

    def unknown_variable(self, name: str) -> CetdslError:
        named = [event.variable for event in events(self.asked.pattern) if event.type == name]
        if named:
            return UnknownVariable(
                f"no variable {name!r} in this pattern", hint=f"events of type {name!r} are bound to {named[0]!r}"
            )
        return UnknownVariable.among(name, self.variables)

    def unknown_functions(self, expr: Expr, within: str) -> bool:
        calls = [node.name for node in expr.walk() if isinstance(node, Call) and node.name != "in"]
        known = self.functions
        if known is None:
            return False
        names = () if callable(known) else known
        missing = [name for name in calls if not (known(name) if callable(known) else name in known)]
        otherwise = "a query calls functions of pyspark.sql.functions"
        unknown = (
            UnknownFunction(
                f"no function {name!r} in pyspark.sql.functions",
                hint=INSTEAD.get(name.lower()) or nearest(name, names, otherwise),
            )
            for name in missing
        )
        return self.note(unknown, within)


def _count_to_length(node: Expr) -> Expr:
    """COUNT(*) within one trend is its length."""
    return Length() if node == Aggregate("count") else node


def flatten_and(pattern: Pattern) -> Pattern:
    """Returns the pattern with nested ANDs as one: AND of three parts may be written as AND within AND."""
    return transform_pattern(pattern, lambda node: dissolved(node, And))
