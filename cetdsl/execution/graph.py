"""The graph of a query as DataFrames for further use, for example with GraphFrames or in the user's own joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.errors import RENAME_KEY, ResolutionError
from cetdsl.execution.compat import own_errors
from cetdsl.execution.joins import JoinedGraph
from cetdsl.execution.vertices import KernelGraph, separable_transitions, value_names
from cetdsl.ir.operators import ShowGraph
from cetdsl.pattern.text import quote

#: How instants are formatted in ids, to the microsecond.
_INSTANTS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


class EventGraph:
    """The graph of a query's trends, as lazy DataFrames; made by ``df.pattern(...).graph()``.

    A vertex is an event at a position of the pattern, if it lies on some trend of its group and window; an edge joins
    two vertices that are neighbours in some trend. So the trends are the paths from a vertex that is ``first`` to one
    that is ``last``.

    Most edges need not be listed. Where a transition of the pattern compares the later event with the earlier one by
    equalities and at most one order, *attribute vertices* stand between them (Mei et al., ICPP 2021): single values, or
    ranges of values that no bound of an earlier event divides. A from-edge leads from each attribute vertex to the
    events whose value lies in it, and a to-edge from an event to a stretch of attribute vertices. All of these take
    space in proportion to the events. An event follows another one if it is later, and a from-edge leads to it from an
    attribute vertex that a to-edge of the other one covers. The edges of other transitions are the ``direct_edges``.

    The ids of vertices are the same whenever they are computed, and in all these DataFrames, as long as the events are.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A"), (2, "B"), (3, "B")], "t int, type string")
    >>> graph = df.pattern("PATTERN SEQ(A, B+)", time="t").graph()
    >>> graph.edges.orderBy("src", "dst").show()
    +---+---+
    |src|dst|
    +---+---+
    |A:0|B:1|
    |A:0|B:2|
    |B:1|B:2|
    +---+---+
    <BLANKLINE>

    Of an order predicate, a to-edge stands for as many edges as there are events in the ranges that it covers:

    >>> prices = spark.createDataFrame([(1, 10), (2, 30), (3, 20)], "t int, price int")
    >>> rising = "PATTERN P+ WHERE P.price < NEXT(P).price"
    >>> graph = prices.pattern(rising, time="t", type=None).graph()
    >>> graph.vertices.select("id", "source", "sink", "event").orderBy("id").show()
    +---+------+-----+-------+
    | id|source| sink|  event|
    +---+------+-----+-------+
    |P:0|  true|false|{1, 10}|
    |P:1| false| true|{2, 30}|
    |P:2| false| true|{3, 20}|
    +---+------+-----+-------+
    <BLANKLINE>
    >>> graph.attribute_vertices.select("id", "low", "high", "bounds").orderBy("id").show()
    +------+----+----+------+
    |    id| low|high|bounds|
    +------+----+----+------+
    |P->P:0|NULL|  11|    ()|
    |P->P:1|  11|  21|    [)|
    |P->P:2|  21|  31|    [)|
    |P->P:3|  31|NULL|    [)|
    +------+----+----+------+
    <BLANKLINE>
    >>> graph.to_edges.orderBy("src").show()
    +---+----+-----+---+
    |src|list|begin|end|
    +---+----+-----+---+
    |P:0|P->P|    1|  4|
    |P:1|P->P|    3|  4|
    |P:2|P->P|    2|  4|
    +---+----+-----+---+
    <BLANKLINE>
    >>> graph.from_edges.orderBy("src").show()
    +------+---+
    |   src|dst|
    +------+---+
    |P->P:0|P:0|
    |P->P:1|P:2|
    |P->P:2|P:1|
    +------+---+
    <BLANKLINE>
    >>> graph.edges.count(), graph.direct_edges.count()
    (2, 0)
    """

    def __init__(self, df: DataFrame, plan: ShowGraph, shown: Callable[[ShowGraph], str] | None = None) -> None:
        self._shown = shown
        self._parts = JoinedGraph(df, plan) if plan.joined else KernelGraph(df, plan)
        self._plan = plan
        self._transitions = separable_transitions(plan.compiled)

    def __repr__(self) -> str:
        return f"<EventGraph with positions {', '.join(self._positions)}>"

    def _repr_html_(self) -> str | None:
        return None if self._shown is None else self._shown(self._plan)

    @cached_property
    @own_errors()
    def vertices(self) -> DataFrame:
        """Event vertices.

        Group and partition columns, ``window`` if the query slides, ``id`` (string), ``position`` (the variable, with a
        number if it stands at several positions of the pattern), ``number`` (of the event within its key and window, in
        order of time), ``first`` and ``last`` (whether a trend may begin or end here), ``source`` and ``sink`` (whether
        no edge leads here or from here), and ``event``, a struct of the event's columns.
        """
        number = F.col("n").alias("number")
        flags = [F.col(name) for name in ("first", "last", "source", "sink")]
        columns = [self._vertex("n", "q").alias("id"), self._position("q").alias("position"), number, *flags]
        return self._placed(self._parts.vertices(), [*columns, F.col("event")])

    @cached_property
    @own_errors()
    def edges(self) -> DataFrame:
        """All edges: ``src`` and ``dst``, ids of vertices."""
        return self._pairs(self._parts.edges())

    @cached_property
    @own_errors()
    def direct_edges(self) -> DataFrame:
        """The edges, ``src`` and ``dst``, of the transitions that have no attribute vertices."""
        return self._pairs(self._parts.direct())

    def _pairs(self, rows: DataFrame) -> DataFrame:
        return rows.select(self._vertex("n0", "q0").alias("src"), self._vertex("n1", "q1").alias("dst"))

    @cached_property
    @own_errors()
    def attribute_vertices(self) -> DataFrame:
        """Attribute vertices.

        Group and partition columns, ``window`` if the query slides, ``id`` (string), ``earlier`` and ``later`` (the
        positions of the events between which they stand), ``attribute`` (what is compared of the later event), ``list``
        and ``number`` (the vertices of a list are numbered from 0 in the order of their values), ``values`` (those of
        the equalities), ``low``, ``high`` and ``bounds`` (of the order). Bounds are written as PostgreSQL does: ``[)``
        from ``low`` to before ``high``, ``(]`` from after ``low`` to ``high``, and NULL is no bound; ranges of whole
        numbers are ``[)``. Values that differ in type from transition to transition are shown as strings.
        """
        rows = self._unsigned_zeros(self._parts.attributes())
        columns = [
            self._attribute.alias("id"),
            *(self._of_transition(texts).alias(name) for name, texts in self._transition_texts.items()),
            self._list.alias("list"),
            F.col("a").alias("number"),
            self._values(rows).alias("values"),
            *self._bounds(rows),
        ]
        return self._placed(rows, columns)

    @cached_property
    @own_errors()
    def from_edges(self) -> DataFrame:
        """``src``, the id of an attribute vertex, and ``dst``, that of an event vertex whose value lies in it."""
        rows = self._unsigned_zeros(self._parts.from_edges())
        return rows.select(self._attribute.alias("src"), self._end("later").alias("dst"))

    @cached_property
    @own_errors()
    def to_edges(self) -> DataFrame:
        """The edges from event vertices to attribute vertices.

        ``src``, the id of an event vertex, ``list``, and ``begin`` and ``end``: the attribute vertices of the list
        whose number is at least ``begin`` and less than ``end``.
        """
        rows = self._unsigned_zeros(self._parts.to_edges())
        return rows.select(self._end("earlier").alias("src"), self._list.alias("list"), "begin", "end")

    @cached_property
    def _transition_texts(self) -> dict[str, list[str]]:
        codes = self._plan.compiled.codes
        return {
            "earlier": [self._positions[transition.edge.source] for transition in self._transitions],
            "later": [self._positions[transition.edge.target] for transition in self._transitions],
            "attribute": [", ".join(quote(codes[c.later].expr) for c in t.index) for t in self._transitions],
        }

    def _of_transition(self, texts: list[str]) -> Column:
        return F.get(F.array(*map(F.lit, texts)), F.col("transition")) if texts else F.lit(None).cast("string")

    def _unsigned_zeros(self, rows: DataFrame) -> DataFrame:
        """Returns the rows with 0.0 for -0.0, which equals it but has a text of its own."""
        doubles = [field for field in rows.schema.fields if isinstance(field.dataType, (T.DoubleType, T.FloatType))]
        changed = {field.name: F.col(field.name) + F.lit(0.0).cast(field.dataType) for field in doubles}
        return rows.withColumns(changed) if changed else rows

    @property
    def _list(self) -> Column:
        """A text that identifies a list by key, window, transition and the values of equalities."""
        texts, codes = self._transition_texts, self._plan.compiled.codes
        transitions = [f"{earlier}->{later}" for earlier, later in zip(texts["earlier"], texts["later"], strict=True)]
        parts = [self._place, self._of_transition(transitions)]
        for number, transition in enumerate(self._transitions):
            if transition.equalities:
                names = [quote(codes[c.later].expr) for c in transition.equalities]
                values = [F.col(f"v{number}_{k}").alias(name) for k, name in enumerate(names)]
                text = F.concat(F.lit(":"), F.to_json(F.struct(*values), _INSTANTS))
                parts.append(F.when(F.col("transition") == number, text).otherwise(""))
        return F.concat(*parts)

    @property
    def _attribute(self) -> Column:
        return F.concat(self._list, F.lit(":"), F.col("a"))

    def _end(self, side: str) -> Column:
        """The id of the event vertex of a transition's earlier or later side."""
        return F.concat(self._place, self._of_transition(self._transition_texts[side]), F.lit(":"), F.col("n"))

    def _values(self, rows: DataFrame) -> Column:
        """The values of the equalities as an array."""
        names = value_names(self._transitions)
        kind = _common([rows.schema[name].dataType for name in names])
        array = F.lit(None).cast(f"array<{kind}>")
        for number, transition in enumerate(self._transitions):
            if transition.equalities:
                own = F.array(*[F.col(name).cast(kind) for name in names if name.startswith(f"v{number}_")])
                array = F.when(F.col("transition") == number, own).otherwise(array)
        return array

    def _bounds(self, rows: DataFrame) -> list[Column]:
        """``low``, ``high`` and ``bounds``."""
        ranges = [
            _range(number, transition.order.op, rows.schema[f"low{number}"].dataType)
            for number, transition in enumerate(self._transitions)
            if transition.order is not None
        ]
        if not ranges:
            return [F.lit(None).cast("string").alias(name) for name in ("low", "high", "bounds")]
        kind = _common([field.dataType for field in rows.select(*[low for low, _, _ in ranges]).schema.fields])
        lows, highs, bounds = zip(*ranges, strict=True)
        return [
            F.coalesce(*[low.cast(kind) for low in lows]).alias("low"),
            F.coalesce(*[high.cast(kind) for high in highs]).alias("high"),
            F.coalesce(*bounds).alias("bounds"),
        ]

    def _placed(self, rows: DataFrame, columns: list[Column]) -> DataFrame:
        """Returns rows with the key and window columns that an answer shows."""
        source = self._plan.source
        shown = source.shown_keys
        keys = [F.col(f"k{source.keys.index(name)}") for name in shown]
        answer = rows.select(*keys, *source.window, *columns)
        own = answer.columns[len(keys) :]
        clashing = [name for name in shown if name.lower() in own]
        if clashing:
            raise ResolutionError(
                f"the key column {clashing[0]!r} clashes with the {clashing[0].lower()} column of the graph",
                hint=RENAME_KEY,
            )
        return answer.toDF(*shown, *own)

    @cached_property
    def _positions(self) -> list[str]:
        """The names of the states."""
        compiled = self._plan.compiled
        names = [compiled.variables[number][0] for number in compiled.machine.variables]
        once = Counter(names)
        labels = [name if once[name] == 1 else f"{name}#{names[:q].count(name) + 1}" for q, name in enumerate(names)]
        return labels if len(set(labels)) == len(labels) else [f"{name}#{q}" for q, name in enumerate(names)]

    def _position(self, state: str) -> Column:
        return F.get(F.array(*map(F.lit, self._positions)), F.col(state))

    @cached_property
    def _place(self) -> Column:
        """A text for key and window, with which each id begins."""
        source = self._plan.source
        parts = []
        if source.keys:
            keys = F.struct(*[F.col(f"k{n}").alias(name) for n, name in enumerate(source.keys)])
            parts += [F.to_json(keys, _INSTANTS), F.lit(":")]
        if source.window:
            start = F.col("window.start")
            parts += [F.unix_micros(start) if source.time_type == "timestamp" else start.cast("string"), F.lit(":")]
        return F.concat(*parts) if parts else F.lit("")

    def _vertex(self, number: str, state: str) -> Column:
        return F.concat(self._place, self._position(state), F.lit(":"), F.col(number))


def _range(number: int, op: str, kind: T.DataType) -> tuple[Column, Column, Column]:
    """Returns the bounds of a transition's ranges, and the brackets that close them (NULL for other transitions)."""
    low, high = F.col(f"low{number}"), F.col(f"high{number}")
    # Whether the lower bound belongs to the range, and whether the upper one does not.
    starts, stops = F.lit(op in (">=", "<")), F.lit(op in (">=", "<"))
    if op in (">", "<=") and isinstance(kind, (T.ByteType, T.ShortType, T.IntegerType, T.LongType)):
        # The sum is NULL if the bound is the largest number of its type; then the bound stays as it is.
        after_low, after_high = F.try_add(low, F.lit(1)), F.try_add(high, F.lit(1))
        starts, stops = after_low.isNotNull(), after_high.isNotNull()
        low, high = F.coalesce(after_low, low), F.coalesce(after_high, high)
    left = F.when(low.isNotNull() & starts, "[").otherwise("(")
    right = F.when(high.isNull() | stops, ")").otherwise("]")
    return low, high, F.when(F.col("transition") == number, F.concat(left, right))


def _common(kinds: list[T.DataType]) -> str:
    """Returns the type of values that are shown in one column: their own if they agree."""
    distinct = {kind.simpleString() for kind in kinds}
    return distinct.pop() if len(distinct) == 1 else "string"
