"""Patterns and queries as users build them: immutable wrappers around nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from cetdsl.errors import AmbiguousTruth, InvalidNode, WindowError, shown, whole_number
from cetdsl.explain.notebook import pattern_fragment, query_fragment
from cetdsl.frontend import sase
from cetdsl.frontend.advised import Advised
from cetdsl.frontend.terms import Occurrence, Term, WithoutValue, is_constant, is_spark_column, is_special, to_expr
from cetdsl.pattern.expressions import (
    Aggregate,
    Attribute,
    Expr,
    Literal,
    Role,
    SparkColumn,
    bind_attributes,
    conjuncts,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, Within
from cetdsl.pattern.query import (
    AFTER_MATCH,
    AFTER_MATCH_HINT,
    AfterMatch,
    Computed,
    Query,
    Returned,
    Window,
    check_policy,
)
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse, unparse_pattern


class _Askable(Advised):
    """The base of patterns and queries: a method for each clause of a query, which returns a new query."""

    __slots__ = ()

    def _query(self) -> Query:
        raise NotImplementedError

    def _spoken(self) -> str:
        return "a query"

    def _instead_of(self, name: str) -> str:
        return self._nearest(name, f"it may be one of a bound query: df.pattern(query, time=...).{name}")

    def where(self, *predicates: object) -> QueryTerm:
        """Adds predicates that every trend must satisfy, to those that the query has already.

        Parameters
        ----------
        *predicates : Term or str
            The predicates, all of which must hold. A string is read as in WHERE:
            ``"b.price < NEXT(b).price AND [company]"``.

        Returns
        -------
        QueryTerm

        Raises
        ------
        InvalidNode
            If an argument is no predicate, such as the True or False that Python's ``and`` makes.
        ParseError
            If a string is malformed.

        Examples
        --------
        >>> B = event("B")
        >>> print((+B).where(B.price > 5).where("B.volume < 10"))
        PATTERN B+
        WHERE B.price > 5 AND B.volume < 10
        """
        query = self._query()
        where, columns = list(query.where), list(query.partition_by)
        for predicate in predicates:
            if isinstance(predicate, str):
                parsed, keys = sase.parse_predicates(predicate, query.pattern)
                where.extend(parsed)
                columns.extend(keys)
            else:
                # Conjunctions are split, so that both front ends build equal queries.
                where.extend(conjuncts(_predicate(predicate)))
        return QueryTerm(attrs.evolve(query, where=tuple(where), partition_by=tuple(columns)))

    def matching(self, policy: str) -> QueryTerm:
        """Sets the matching policy: which events a trend may skip between two that it binds. The last call wins.

        Parameters
        ----------
        policy : {"any", "next", "strict"}
            ``any``: skip-till-any-match, a trend may skip every event. ``next``: skip-till-next-match, it may skip only
            events that could not have been bound there. ``strict``: contiguous, the events of a trend are rows that
            follow each other directly in their partition and group. Without a call the policy is ``any``, but
            ``strict`` for :meth:`~cetdsl.PatternFrame.matches`.

        Returns
        -------
        QueryTerm

        Raises
        ------
        InvalidNode
            If there is no such policy.

        Examples
        --------
        >>> A, B = events("A B")
        >>> print((A >> +B).matching("next"))
        PATTERN SEQ(A, B+)
        MATCHING NEXT
        """
        check_policy(policy)  # a query without one has None, which is nothing to ask for
        return QueryTerm(attrs.evolve(self._query(), matching=policy))

    def after_match(self, skip: str) -> QueryTerm:
        """Sets where the search for the next match begins. The last call wins.

        Parameters
        ----------
        skip : str
            Where the search goes on after a match. ``"past_last"``, the default: behind its last event. ``"next_row"``:
            at the event behind its first one. ``"to_first(B)"`` or ``"to_last(B)"``: at the first or the last event
            that the match binds to B.

        Returns
        -------
        QueryTerm
            A query for :meth:`cetdsl.PatternFrame.matches`.

        Raises
        ------
        InvalidNode
            If ``skip`` is none of these, or the query keeps the :meth:`first` match only.

        Examples
        --------
        >>> A, B = events("A B")
        >>> print((A >> +B).matching("strict").after_match("to_last(B)"))
        PATTERN SEQ(A, B+)
        MATCHING STRICT
        AFTER MATCH SKIP TO LAST B
        """
        return self._selecting(after=_after_match(skip))

    def first(self) -> QueryTerm:
        """Keeps the first match only, per partition, group and, where windows slide, window.

        Returns
        -------
        QueryTerm
            A query for :meth:`cetdsl.PatternFrame.matches`.

        Raises
        ------
        InvalidNode
            If the query has a place to go on :meth:`after_match`.

        Examples
        --------
        >>> print((+event("B")).matching("strict").first())
        PATTERN B+
        MATCHING STRICT
        FIRST MATCH
        """
        return self._selecting(first=True)

    def longest(self) -> QueryTerm:
        """Takes the longest of the matches that begin at an event; of several longest ones the preferred one.

        Without this call the preferred match is taken, as in SQL: the first of several alternatives, and as many
        repetitions of a part as there can be before the next part is matched.

        Returns
        -------
        QueryTerm
            A query for :meth:`cetdsl.PatternFrame.matches`.

        Examples
        --------
        >>> A, B = events("A B")
        >>> print((A | (A >> B)).matching("strict").longest())
        PATTERN A OR SEQ(A, B)
        MATCHING STRICT
        LONGEST MATCH
        """
        return self._selecting(longest=True)

    def _selecting(self, **changes: Any) -> QueryTerm:
        query = self._query()
        return QueryTerm(attrs.evolve(query, selection=attrs.evolve(query.selection, **changes)))

    def partition_by(self, *columns: str) -> QueryTerm:
        """Partitions the events: all events of a trend have equal values of these columns; SASE's ``[company]``.

        Columns of earlier calls remain.

        Parameters
        ----------
        *columns : str
            Names of columns.

        Returns
        -------
        QueryTerm

        Raises
        ------
        InvalidNode
            If an argument is not the name of a column.

        Examples
        --------
        >>> print(event("B").partition_by("company"))
        PATTERN B
        WHERE [company]
        """
        query = self._query()
        return QueryTerm(attrs.evolve(query, partition_by=query.partition_by + _columns(columns, "partition_by")))

    def group_by(self, *columns: str, **computed: object) -> QueryTerm:
        """Groups the answer by these columns, which become columns of the answer. Columns of earlier calls remain.

        Parameters
        ----------
        *columns : str
            Names of columns.
        **computed : Term, str or Spark Column
            Groups that are computed from the columns of each event, by name: ``day=cet.fn.to_date(cet.col("ts"))``, or
            the text ``day="date(ts)"``.

        Returns
        -------
        QueryTerm

        Raises
        ------
        InvalidNode
            If an argument is no column, or is computed from several events or from none.
        ParseError
            If a text is malformed.

        Examples
        --------
        >>> print(event("B").group_by("sector"))
        PATTERN B
        GROUP BY sector
        >>> print(event("B").group_by("user", day="date(ts)"))
        PATTERN B
        GROUP BY user, date(ts) AS day
        """
        query = self._query()
        added = tuple(Computed(name, _of_one_event(name, term)) for name, term in computed.items())
        groups = (*query.group_by, *_columns(columns, "group_by"), *computed)
        return QueryTerm(attrs.evolve(query, group_by=groups, computed=query.computed + added))

    def within(self, length: object, slide: object = None) -> QueryTerm:
        """Sets the length of windows, and how far apart they start if they slide. The last call wins.

        A pattern with a length, and no other clause, can also be a part of another pattern. The first and the last
        event of the part then lie at most so far apart, and a NOT at one of its ends looks no further from the other
        end.

        Parameters
        ----------
        length : str, int, timedelta or Span
            ``"10 minutes"``, or a number of ticks for an integer time column.
        slide : str, int, timedelta or Span, optional
            How far apart windows start. By default there are no windows: ``length`` bounds the time of a trend's last
            event minus that of its first.

        Returns
        -------
        QueryTerm

        Raises
        ------
        WindowError
            If an argument is no length of time.

        Examples
        --------
        >>> print(event("B").within("10 minutes", slide="1 minute"))
        PATTERN B
        WITHIN 10 minutes SLIDE 1 minute
        >>> seq("view", seq("cart", absent("purchase")).within("1 hour"))
        SEQ(view, SEQ(cart, NOT purchase) WITHIN 1 hour)
        """
        window = Window(Span.parse(length), None if slide is None else _slide(slide))
        return QueryTerm(attrs.evolve(self._query(), window=window))

    def max_gap(self, length: object) -> QueryTerm:
        """Limits the time between neighbouring events of a trend. The last call wins.

        Parameters
        ----------
        length : str, int, timedelta or Span
            ``"30 minutes"``, or a number of ticks for an integer time column.

        Returns
        -------
        QueryTerm

        Raises
        ------
        WindowError
            If ``length`` is no length of time.

        Examples
        --------
        >>> print(kleene("click").max_gap("30 minutes"))
        PATTERN click+
        MAX_GAP 30 minutes
        """
        return QueryTerm(attrs.evolve(self._query(), max_gap=Span.parse(length)))

    def returning(self, *aggregates: object, **named: object) -> QueryTerm:
        """Sets the aggregates that the query returns. The last call wins.

        Parameters
        ----------
        *aggregates, **named : Term
            Aggregates, such as ``count()``, or ``n=count()`` to name the column of the answer.

        Returns
        -------
        QueryTerm

        Raises
        ------
        InvalidNode
            If an argument is no aggregate.

        Examples
        --------
        >>> from cetdsl.frontend.terms import avg, count
        >>> B = event("B")
        >>> print((+B).returning(count(), mean=avg(B.price)))
        RETURN COUNT(*), AVG(B.price) AS mean
        PATTERN B+
        """
        items = [Returned(_aggregate(item)) for item in aggregates]
        items += [Returned(_aggregate(item), name) for name, item in named.items()]
        return QueryTerm(attrs.evolve(self._query(), returning=tuple(items)))


def _slide(value: object) -> Span:
    try:
        return Span.parse(value)
    except WindowError as error:
        raise WindowError(f"the slide of windows: {error.message}", hint=error.hint) from None


def _predicate(value: object) -> Expr:
    if isinstance(value, (Term, Expr)):
        return to_expr(value)
    if isinstance(value, bool):
        raise InvalidNode(
            f"{value} is not a predicate: Python has already decided it",
            hint="join predicates with & | ~ instead of and, or, not, and compare columns: B.price == 5, not B == 5",
        )
    if is_spark_column(value):
        hint = "write it with event variables: .where(B.price > 5); or as the condition of event('B', condition)"
    else:
        hint = "write .where(B.price > 5), or the text 'B.price > 5'"
    raise InvalidNode(f"{shown(value)} is not a predicate", hint=hint)


def _of_one_event(name: str, value: object) -> Expr:
    """Returns the expression that a group is computed by, from columns of one event."""
    if is_spark_column(value):
        return SparkColumn(value)
    if isinstance(value, str):
        return sase.parse_group(value)
    if isinstance(value, (Term, Expr)):
        return to_expr(value)
    raise InvalidNode(
        f"{shown(value)} is nothing to group by",
        hint=f"write {name}=cet.fn.to_date(cet.col('ts')), the text {name}='date(ts)', or a Spark column",
    )


def _columns(columns: tuple[object, ...], method: str) -> tuple[str, ...]:
    for column in columns:
        computes = isinstance(column, Term) and not isinstance(column.node, Attribute)
        if method == "group_by" and (computes or is_spark_column(column)):
            raise InvalidNode(
                f"{shown(column)} is to be a group, and has no name", hint="give it one: .group_by(day=...)"
            )
        if isinstance(column, (list, tuple)) and column:
            hint = f"write .{method}({', '.join(map(shown, column))})"
            raise InvalidNode(f"{shown(column)} is a list, and columns are given one by one", hint=hint)
        if not isinstance(column, str) or not column:
            likely = column.node.name if isinstance(column, Term) and isinstance(column.node, Attribute) else "company"
            raise InvalidNode(f"{shown(column)} is not the name of a column", hint=f"write .{method}({likely!r})")
    return tuple(str(column) for column in columns)


def _after_match(skip: object) -> AfterMatch:
    found = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\)\s*)?", skip, re.DOTALL) if isinstance(skip, str) else None
    if found is None or found[1] not in AFTER_MATCH:
        raise InvalidNode(f"after_match({shown(skip)}) is no place to go on", hint=AFTER_MATCH_HINT)
    return AfterMatch(found[1], (found[2] or "").strip())


def _aggregate(value: object) -> Aggregate:
    node = value.node if isinstance(value, Term) else value
    if not isinstance(node, Aggregate):
        raise InvalidNode(
            f"{shown(value)} is not an aggregate",
            hint="use count(), count(B), sum(B.x), avg(B.x), min(B.x), max(B.x) or max(length())",
        )
    return node


@attrs.frozen(repr=False)
class QueryTerm(_Askable):
    """A query that is not bound to a DataFrame; ``str(query)`` is its text.

    Parameters
    ----------
    node : Query
        The immutable node.

    Examples
    --------
    >>> A, B = events("A B")
    >>> query = (A >> +B).where(A.x < B.x).within("1 hour")
    >>> query == parse(str(query))
    True
    """

    node: Query

    def _query(self) -> Query:
        return self.node

    def __str__(self) -> str:
        return unparse(self.node)

    def __repr__(self) -> str:
        return unparse(self.node, lenient=True)

    def _repr_html_(self) -> str:
        return query_fragment(self.node)


@attrs.frozen(eq=False, repr=False)
class PatternTerm(_Askable):
    """A pattern; operators combine patterns: ``A >> B``, ``+B``, ``A | B``, ``A & B``, ``~N``.

    Two patterns are equal when their nodes are.

    Parameters
    ----------
    node : Pattern
        The immutable node.

    Examples
    --------
    >>> A, B, N = events("A", "B", "N")
    >>> A >> ~N >> +B
    SEQ(A, NOT N, B+)
    >>> (A | B) >> "C"
    SEQ(A OR B, C)
    """

    node: Pattern

    def _query(self) -> Query:
        if isinstance(self.node, Not):
            raise InvalidNode(
                "a query cannot consist of an absent pattern alone",
                hint="say beside what it must not happen: seq(A, absent(N), B)",
            )
        return Query(self.node)

    def __bool__(self) -> bool:
        raise AmbiguousTruth(
            f"the pattern {self!r} has no truth value", hint="join patterns with >>, | and & instead of and, or, not"
        )

    def __eq__(self, other: object) -> bool:
        return self.node == other.node if isinstance(other, PatternTerm) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.node)

    def __repr__(self) -> str:
        return unparse_pattern(self.node, lenient=True)

    def _repr_html_(self) -> str:
        return pattern_fragment(self.node)

    def __str__(self) -> str:
        return unparse_pattern(self.node)

    def __rshift__(self, other: object) -> PatternTerm:
        return _joined(Seq, self, other)

    def __rrshift__(self, other: object) -> PatternTerm:
        return _joined(Seq, other, self)

    def __or__(self, other: object) -> PatternTerm:
        return _joined(Or, self, other)

    def __ror__(self, other: object) -> PatternTerm:
        return _joined(Or, other, self)

    def __and__(self, other: object) -> PatternTerm:
        return _joined(And, self, other)

    def __rand__(self, other: object) -> PatternTerm:
        return _joined(And, other, self)

    def __pos__(self) -> PatternTerm:
        return kleene(self)

    def __invert__(self) -> PatternTerm:
        return absent(self)


def _joined(kind: type[Seq] | type[Or] | type[And], left: object, right: object) -> PatternTerm:
    first, second = pattern_of(left), pattern_of(right)
    # A >> B >> C is one sequence of three, not a sequence in a sequence.
    parts = first.parts if isinstance(first, kind) else (first,)
    return PatternTerm(kind((*parts, second)))


@attrs.frozen(eq=False, repr=False)
class EventVariable(PatternTerm, WithoutValue):
    """An event variable. It is a pattern by itself, and its attributes are the columns of the events bound to it.

    ``B.price`` and ``B["price"]`` are the same term. The brackets are needed for a column with the name of a method of
    patterns (``where``, ``within``, ``node``, ...), or with a name that begins and ends with two underscores.
    ``B[2].price`` is the price of the third event bound to ``B``.

    Examples
    --------
    >>> B = event("B")
    >>> B.price < B["limit price"], B[2].price, B["where"]
    (B.price < B.`limit price`, B[2].price, B.where)
    """

    def __getattr__(self, name: str) -> Term:
        # Slots that are not filled yet (while unpickling) are looked up here too.
        if is_special(name) or name in ("node", "_event"):
            raise AttributeError(name)
        return Term(Attribute(self._event.variable, name))

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            return Term(Attribute(self._event.variable, key))
        index = whole_number(key)
        if index is not None:
            # Refused here already, where the index stands, not only where a column is named.
            Attribute(self._event.variable, "*", Role.NTH, index)
            return Occurrence(self._event.variable, Role.NTH, index)
        raise InvalidNode(
            f"{shown(key)} is neither a column nor a number",
            hint="write B['price'] for a column, B[2].price for one of the third event",
        )

    # Without this, Python would take __getitem__ for an endless iteration.
    __iter__ = None

    @property
    def _event(self) -> Event:
        assert isinstance(self.node, Event)
        return self.node

    def _named(self) -> str:
        return self._event.variable


def event(variable: str, condition: object = None, *, type: str | None = None) -> EventVariable:
    """Makes a variable that binds one event, by its type, a condition, or both.

    Parameters
    ----------
    variable : str
        The name that predicates, aggregates and answers use.
    condition : Term, str or Spark Column, optional
        The condition that the row of an event must meet: ``col("amount") > 1000``, the text ``"amount > 1000"``, or any
        Spark column. A Spark column has no text form.
    type : str, optional
        The value of the type column that an event must have. The default is ``variable``, or any value when there
        is a condition.

    Returns
    -------
    EventVariable

    Raises
    ------
    InvalidNode
        If the name is no text or empty, the type is no text, or the condition is no condition or speaks of another
        variable.
    ParseError
        If the text of the condition is malformed.

    Examples
    --------
    >>> event("c", type="Check")
    Check c
    >>> event("big", "amount > 1000")
    EVENT(big, big.amount > 1000)
    """
    if not isinstance(variable, str) or not variable:
        raise InvalidNode(f"{shown(variable)} is not the name of an event variable", hint="write event('A')")
    if type is not None and not isinstance(type, str):
        raise InvalidNode(
            f"the type {shown(type)} of {variable} is not a string", hint="compare other types by condition"
        )
    if condition is None:
        return EventVariable(Event(variable, variable if type is None else type))
    return EventVariable(Event(variable, type, _condition(condition, variable)))


def _condition(condition: object, variable: str) -> Expr:
    if is_spark_column(condition):
        return SparkColumn(condition)
    if isinstance(condition, str):
        node = sase.parse_condition(condition, variable)
    elif isinstance(condition, (Term, Expr)):
        node = bind_attributes(to_expr(condition), variable)
    else:
        raise InvalidNode(
            f"{shown(condition)} is not a condition of the event {variable}",
            hint="write col('amount') > 1000, 'amount > 1000', or a Spark column",
        )
    others = [name for name in variables(node) if name != variable]
    if others:
        raise InvalidNode(
            f"the condition of {variable} speaks of {others[0]}",
            hint="a condition is about one event; relate events by .where(...)",
        )
    return node


def events(*names: str) -> tuple[EventVariable, ...]:
    """Makes several event variables, whose types are their names.

    Parameters
    ----------
    *names : str
        Several names, or one string that separates them by spaces or commas.

    Returns
    -------
    tuple of EventVariable

    Raises
    ------
    InvalidNode
        If a name is no string, or is empty.

    Examples
    --------
    >>> A, B = events("A", "B")
    >>> events("A B") == (A, B)
    True
    """
    if len(names) == 1 and isinstance(names[0], str):
        names = tuple(re.split(r"[\s,]+", names[0].strip(" ,\t\n")))
    return tuple(event(name) for name in names)


def pattern_of(thing: object) -> Pattern:
    """Returns the node of a pattern; a string is the event of that name.

    Examples
    --------
    >>> pattern_of("A")
    Event(variable='A', type='A', condition=None)
    """
    if isinstance(thing, PatternTerm):
        return thing.node
    if isinstance(thing, Pattern):
        return thing
    if isinstance(thing, str):
        return event(thing).node
    if isinstance(thing, (QueryTerm, Query)):
        return _limited(thing.node if isinstance(thing, QueryTerm) else thing)
    if isinstance(thing, (Term, Occurrence)):
        hint = "predicates go into .where(...), the condition of one event into event('B', condition)"
        raise InvalidNode(f"the term {shown(thing)} is not a pattern", hint=hint)
    if isinstance(thing, (list, tuple)):
        raise InvalidNode(f"a {type(thing).__name__} is not a pattern", hint="write seq(A, B), or seq(*parts)")
    raise InvalidNode(f"{shown(thing)} is not a pattern", hint="build event variables with events('A', 'B')")


def _limited(query: Query) -> Pattern:
    """Returns the part of another pattern that a query states; it may have a pattern and a length alone."""
    window = query.window
    if window is not None and query == Query(query.pattern, window=window):
        if window.slide is None:
            return Within(query.pattern, window.length)
        raise InvalidNode(
            "windows that slide cannot be part of a pattern",
            hint="a part takes a length alone, .within('1 hour'); the slide belongs to the whole query",
        )
    raise InvalidNode(
        "a query cannot be part of a pattern",
        hint="a part takes .within(length) alone: call .where(...), .max_gap(...) and the like on the whole pattern",
    )


def query_of(thing: object) -> Query:
    """Returns the node of a query; takes a query, a pattern, a node of either, or a text.

    Examples
    --------
    >>> query_of("PATTERN SEQ(A, B)") == query_of(seq("A", "B"))
    True
    """
    if isinstance(thing, str):
        return sase.parse(thing)
    if isinstance(thing, Query):
        return thing
    if isinstance(thing, Pattern):
        return PatternTerm(thing)._query()
    if isinstance(thing, _Askable):
        return thing._query()
    raise InvalidNode(
        f"{shown(thing)} is not a query",
        hint="pass a pattern such as seq(A, kleene(B)), or the text 'PATTERN SEQ(A, B+)'",
    )


def parse(text: str, /, **parameters: object) -> QueryTerm:
    """Reads a query from its text form.

    Parameters
    ----------
    text : str
        ``[RETURN ...] PATTERN ... [WHERE ...] [MATCHING ...] [LONGEST MATCH] [FIRST MATCH] [AFTER MATCH SKIP ...]
        [PARTITION BY ...] [GROUP BY ...] [WITHIN ...] [MAX_GAP ...]``.
    **parameters : constant
        The constants that stand for ``:name`` in the text: numbers, strings, dates, timestamps, lengths of time, truth
        values or None. They are bound as values, and never read as part of the query. A parameter in the place of a
        length of time takes what :meth:`~cetdsl.QueryTerm.within` takes; those of ``A{:least,:most}`` take whole
        numbers.

    Returns
    -------
    QueryTerm

    Raises
    ------
    ParseError
        If the text is malformed, a parameter in it has no value, or the value does not fit its place. The error has the
        place in the text and a hint.
    InvalidNode
        If a parameter is no constant, or the text has no parameter of its name.

    Examples
    --------
    >>> parse("pattern Stock+ s[] where [company] and s.price < next(s).price within 1 hour")
    PATTERN Stock s+
    WHERE [company] AND s.price < NEXT(s).price
    WITHIN 1 hour
    >>> parse("PATTERN Stock+ WHERE Stock.price > :ratio * NEXT(Stock).price", ratio=1.05)
    PATTERN Stock+
    WHERE Stock.price > 1.05 * NEXT(Stock).price
    >>> parse("PATTERN Stock{:least,} WITHIN :length SLIDE 1 minute", least=2, length="10 minutes")
    PATTERN Stock{2,}
    WITHIN 10 minutes SLIDE 1 minute
    """
    return QueryTerm(sase.parse(text, constants(parameters)))


def constants(parameters: object) -> dict[str, Literal]:
    """Returns the constants that stand for the parameters of a text, by name."""
    if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
        raise InvalidNode(
            f"the parameters of a text are a dict of constants by name, not {shown(parameters)}",
            hint='write parameters={"ratio": 1.05}, and :ratio in the text',
        )
    return {name: _constant(name, value) for name, value in parameters.items()}


_PASS_ONE = "pass a single constant; a list has a parameter for each value: IN (:first, :second)"
_PASS_A_CONSTANT = "pass a constant: None, bool, int, float, str, Decimal, date, datetime or timedelta"


def _constant(name: str, value: object) -> Literal:
    """Returns the constant that stands for a parameter."""
    try:
        expr = to_expr(value)
    except InvalidNode as error:
        # A constant that is only out of range has a hint of its own; that for other values is about terms in Python.
        several = isinstance(value, (list, tuple, set, frozenset))
        hint = error.hint if is_constant(value) else _PASS_ONE if several else _PASS_A_CONSTANT
        raise InvalidNode(f"the parameter :{name}: {error.message}", hint=hint) from None
    if not isinstance(expr, Literal):
        raise InvalidNode(
            f"the parameter :{name} is a term, {shown(value)}", hint="write terms in the text, and pass constants"
        )
    return expr


def seq(*parts: object) -> PatternTerm:
    """Makes a pattern whose parts match one after the other: ``A >> B``.

    Parameters
    ----------
    *parts : PatternTerm or str
        A string is the event of that name.

    Returns
    -------
    PatternTerm

    Raises
    ------
    InvalidNode
        If there is no part, or a part is no pattern.

    Examples
    --------
    >>> seq("A", absent("N"), kleene("B"))
    SEQ(A, NOT N, B+)
    """
    return _of_parts(Seq, parts)


def any_of(*parts: object) -> PatternTerm:
    """Makes a pattern that matches where one of its parts does: ``A | B``.

    Parameters
    ----------
    *parts : PatternTerm or str
        A string is the event of that name.

    Returns
    -------
    PatternTerm

    Raises
    ------
    InvalidNode
        If there is no part, or a part is no pattern or a NOT.

    Examples
    --------
    >>> any_of("A", "B")
    A OR B
    """
    return _of_parts(Or, parts)


def all_of(*parts: object) -> PatternTerm:
    """Makes a pattern that matches where all its parts do, in any order of time: ``A & B``.

    Parameters
    ----------
    *parts : PatternTerm or str
        A string is the event of that name.

    Returns
    -------
    PatternTerm

    Raises
    ------
    InvalidNode
        If there are fewer than two parts, or a part is no pattern or a NOT.

    Examples
    --------
    >>> all_of("A", "B")
    A AND B
    """
    return _of_parts(And, parts)


def _of_parts(kind: Callable[[tuple[Pattern, ...]], Pattern], parts: tuple[object, ...]) -> PatternTerm:
    return PatternTerm(kind(tuple(map(pattern_of, parts))))


def kleene(pattern: object) -> PatternTerm:
    """Repeats a pattern one or more times (Kleene plus): ``+B``.

    Parameters
    ----------
    pattern : PatternTerm or str
        The pattern to repeat; a string is the event of that name.

    Returns
    -------
    PatternTerm

    Raises
    ------
    InvalidNode
        If the argument is no pattern, or a NOT.

    Examples
    --------
    >>> kleene(seq("A", kleene("B")))
    SEQ(A, B+)+
    """
    return repeat(pattern, 1)


def star(pattern: object) -> PatternTerm:
    """Repeats a pattern zero or more times (Kleene star).

    Parameters
    ----------
    pattern : PatternTerm or str
        The pattern to repeat; a string is the event of that name.

    Returns
    -------
    PatternTerm

    Raises
    ------
    InvalidNode
        If the argument is no pattern, or a NOT.

    Examples
    --------
    >>> seq("A", star("B"))
    SEQ(A, B*)
    """
    return repeat(pattern, 0)


def optional(pattern: object) -> PatternTerm:
    """Makes a pattern optional: it matches zero or one times.

    Parameters
    ----------
    pattern : PatternTerm or str
        The pattern that may be left out; a string is the event of that name.

    Returns
    -------
    PatternTerm

    Raises
    ------
    InvalidNode
        If the argument is no pattern, or a NOT.

    Examples
    --------
    >>> seq("A", optional("B"))
    SEQ(A, B?)
    """
    return repeat(pattern, 0, 1)


def repeat(pattern: object, at_least: int, at_most: int | None = None) -> PatternTerm:
    """Repeats a pattern from ``at_least`` to ``at_most`` times.

    Parameters
    ----------
    pattern : PatternTerm or str
        The pattern to repeat; a string is the event of that name.
    at_least : int
        The smallest number of repetitions; may be 0.
    at_most : int, optional
        The largest number of repetitions, at least 1; unbounded by default.

    Returns
    -------
    PatternTerm

    Raises
    ------
    InvalidNode
        If the bounds are not counts, or contradict each other, or the pattern is a NOT.

    Examples
    --------
    >>> repeat("B", 2, 3), repeat("B", 2), repeat("B", 2, 2)
    (B{2,3}, B{2,}, B{2})
    """
    least, most = _bound(at_least), None if at_most is None else _bound(at_most)
    return PatternTerm(Repeat(pattern_of(pattern), least, most))


def _bound(value: object) -> int:
    """Returns a bound of a repetition; raises InvalidNode for a value that is no whole number."""
    bound = whole_number(value)
    if bound is None:
        raise InvalidNode(f"{shown(value)} is not a number of repetitions", hint="write repeat(B, 2, 3)")
    return bound


def absent(pattern: object) -> PatternTerm:
    """Makes a negation: no match of the pattern may lie at this place of a sequence, ``~N``.

    Parameters
    ----------
    pattern : PatternTerm or str
        The pattern that must not match; a string is the event of that name.

    Returns
    -------
    PatternTerm
        A pattern that stands in :func:`seq` only.

    Raises
    ------
    InvalidNode
        If the argument is no pattern, or holds another NOT.

    Examples
    --------
    >>> seq("A", absent("N"), "B")
    SEQ(A, NOT N, B)
    """
    return PatternTerm(Not(pattern_of(pattern)))
