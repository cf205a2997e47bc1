"""The columns of the rows that carry events to kernels, and how facts about an event are encoded in them.

:mod:`cetdsl.execution.exchange` writes such rows and :mod:`cetdsl.kernels.wire.chunks` reads them. Both ask the layout
for a column by its name; no other module knows its position. The same holds for the rows with the answers of several
queries (:mod:`cetdsl.kernels.shared.workload`).
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

#: The roles of columns, in the order in which columns stand. The name of a column is its role and, where there may be
#: several of a role, a number: ``k0``, ``k1``, ``t``. In turn: partition or group key, number of the share of a key's
#: work, number of the time bucket (a pane is one; of several buckets, the first), number of the last of several time
#: buckets, time, tie-break column, bits of the variables that the event may be bound to, column that comparisons refer
#: to, column that is aggregated, number that orders simultaneous events, list of distances to earlier events, hash of
#: the whole event, one of the event's own columns, part of a pane's matrix, text that gives the kind of an event, bits
#: of the conditions that the event meets, time of the first and of the last event of a stretch.
KEY, SHARE, BUCKET, UNTIL, TIME, TIE, MASK, CODE = "k", "h", "s", "u", "t", "b", "m", "f"
VALUE, POSITION, LIST, FINGERPRINT, EVENT, MATRIX, KIND, TESTS = "v", "p", "l", "i", "e", "x", "j", "c"
FIRST, LAST = "g", "z"
#: Roles in rows that hold the answers of several queries: number of the query, start of the window, the window itself,
#: metrics of a task, and one of the columns that the queries share.
QUERY, START, WINDOW, METRICS, POOLED = "q", "w", "y", "r", "o"
#: Roles in rows of whole trends, besides: list of the trend's events, list of their variables, the trend.
NUMBERS, NAMES, TREND = "n", "a", "d"
#: The field that identifies an event in a trend, where trends are compared.
IDENTITY = "id"
_OF_ANSWERS = (QUERY, KEY, START, WINDOW, METRICS, POOLED)
_OF_EVENTS = (SHARE, BUCKET, UNTIL, TIME, TIE, MASK, CODE, VALUE, POSITION, LIST, FINGERPRINT, EVENT)
_OF_KERNELS = (FIRST, LAST, MATRIX, KIND, TESTS)
_ORDER = (*_OF_ANSWERS, *_OF_EVENTS, *_OF_KERNELS, NUMBERS, NAMES, TREND)


def numbered(role: str, count: int) -> tuple[str, ...]:
    """Returns the names of ``count`` columns of a role.

    Examples
    --------
    >>> numbered(KEY, 2)
    ('k0', 'k1')
    """
    return tuple(f"{role}{number}" for number in range(count))


@attrs.frozen
class Encoding:
    """The encoding of an event's time, and of the variables that it may be bound to, in columns.

    By default both have columns of their own, and the variables are the bits of a whole number. If ``bits`` > 0, there
    is no column of variables: the time column holds ``time * 2**bits`` plus the variables. If there is a
    ``dictionary``, the position of the variables' bits in it takes their place. The variables are ``known`` if there is
    only one, and every event may be bound to it; then they need no column.
    """

    bits: int = 0
    dictionary: tuple[int, ...] = ()
    known: bool = False


@attrs.frozen
class InColumn:
    """A column of the event that the rows hold in the column of this name."""

    name: str


@attrs.frozen
class OfTime:
    """A column of the event that is its time."""


@attrs.frozen
class OfVariable:
    """The column of the event that holds the text which the condition of its variable requires."""

    texts: tuple[str, ...]


#: The place where one of the event's own columns is found.
EventColumn = InColumn | OfTime | OfVariable


@attrs.frozen
class RunSpec:
    """The layout of sorted runs: ``keys`` key columns, then the time and other numbers, as NumPy types."""

    keys: int
    columns: tuple[str, ...]


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (_ORDER.index(name[0]), int(name[1:] or 0))))


@attrs.frozen
class RowLayout:
    """The columns of the rows that carry events.

    ``columns`` are the names of the columns, in their order. ``time`` is the user's name of the time column, and
    ``values`` are the Spark types of the aggregated columns. ``event`` says where to find each of the event's own
    columns that are shown, and ``runs`` how events were put into sorted runs, if they were. If ``sort_memory`` > 0, the
    rows of a task come in any order, and the reader puts them in :attr:`order`, holding about so many bytes. If events
    come ``in_parcels``, a row has the numbers of the first and the last time bucket that need its events, and then all
    other columns of many events as bytes. If parcels are ``repeated``, there is a row for each of these buckets, with
    its number alone. If they come with statistics that are ``learned``, these are in a column before all others.

    Examples
    --------
    >>> layout = RowLayout(["v0", "t", "k0", "m"], "ts", "timestamp")
    >>> layout.columns
    ('k0', 't', 'm', 'v0')
    >>> layout.position(MASK)
    2
    """

    columns: tuple[str, ...] = attrs.field(converter=_in_order)
    time: str
    time_type: str
    values: tuple[str, ...] = ()
    encoding: Encoding = Encoding()
    event: tuple[EventColumn, ...] = ()
    runs: RunSpec | None = None
    sort_memory: int = 0
    in_parcels: bool = False
    repeated: bool = False
    learned: bool = False

    @classmethod
    def of(
        cls, keys: int, time: str, time_type: str, ties: int = 0, codes: int = 0, lists: int = 0, bucketed: bool = False
    ) -> RowLayout:
        """Makes a query's layout: the given numbers of columns of each role, time and variables apart, no values."""
        single = (TIME, MASK, *([BUCKET] if bucketed else ()), *([POSITION] if lists else ()))
        several = numbered(KEY, keys) + numbered(TIE, ties) + numbered(CODE, codes) + numbered(LIST, lists)
        return cls((*single, *several), time, time_type)

    def with_values(self, types: tuple[str, ...]) -> RowLayout:
        """Returns the same layout with aggregated columns of these Spark types."""
        others = [name for name in self.columns if name[0] != VALUE]
        return attrs.evolve(self, columns=(*others, *numbered(VALUE, len(types))), values=types)

    def position(self, name: str) -> int:
        """Returns the position of the column of a name."""
        return self.columns.index(name)

    def has(self, name: str) -> bool:
        """Whether there is a column of a name."""
        return name in self.columns

    def all_of(self, role: str) -> tuple[str, ...]:
        """Returns the names of the columns of a role."""
        return tuple(name for name in self.columns if name[0] == role)

    @property
    def partition(self) -> tuple[str, ...]:
        """The columns by which rows are sent to tasks: only rows that agree in all of them are read together."""
        return tuple(name for name in self.columns if name[0] in (KEY, SHARE, BUCKET, WINDOW))

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which the rows of a partition are sorted.

        Distances in lists refer to this order. A fingerprint makes it the same whenever the rows are computed.
        """
        last = (POSITION,) if self.lists else (MASK, FINGERPRINT) if self.has(FINGERPRINT) else ()
        return (TIME, *self.all_of(TIE), *filter(self.has, last))

    @property
    def keys(self) -> int:
        """The number of partition and group keys."""
        return len(self.all_of(KEY))

    @property
    def codes(self) -> int:
        """The number of columns that comparisons refer to."""
        return len(self.all_of(CODE))

    @property
    def lists(self) -> int:
        """The number of lists of earlier events."""
        return len(self.all_of(LIST))


def of_pool(events: RowLayout, pooled: int) -> RowLayout:
    """Makes the layout of rows with the answers of several queries that share ``pooled`` columns."""
    columns = (QUERY, *events.all_of(KEY), START, WINDOW, METRICS, *numbered(POOLED, pooled))
    return RowLayout(columns, events.time, events.time_type)


def of_panes(events: RowLayout, matrices: int, bucketed: bool = False) -> RowLayout:
    """Makes the layout between the two stages of panes: the keys, the number of a pane as time, and its matrix.

    The panes of a stream come in any order, and in parcels, once for each of the time buckets that need them.
    """
    columns = (*events.all_of(KEY), TIME, *numbered(MATRIX, matrices))
    panes = RowLayout(columns, events.time, "bigint", encoding=Encoding(known=True))
    if not bucketed:
        return panes
    return in_repeated_parcels(attrs.evolve(panes, columns=(*columns, BUCKET), sort_memory=events.sort_memory))


def of_stretches(events: RowLayout, matrices: int) -> RowLayout:
    """Makes the layout of panes in stretches: that of panes, with the times of the stretch's first and last event."""
    columns = (*events.all_of(KEY), TIME, FIRST, LAST, *numbered(MATRIX, matrices))
    return RowLayout(columns, events.time, "bigint", encoding=Encoding(known=True))


def in_repeated_parcels(events: RowLayout) -> RowLayout:
    """Makes the layout of events of time buckets whose parcels are repeated, once for each of the buckets."""
    return attrs.evolve(events, columns=(*events.columns, UNTIL), in_parcels=True, repeated=True)


def of_trends(keys: int, time: str, time_type: str, sliding: bool) -> RowLayout:
    """Makes the layout of rows of whole trends, which are compared with each other within a key and window."""
    columns = (*numbered(KEY, keys), *([WINDOW] if sliding else ()), NUMBERS, NAMES, TREND)
    return RowLayout(columns, time, time_type)
