"""Demands of many queries on the events of a match, slot by slot, and the sub-patterns whose instances they share.

A *slot* holds one event. Events fit into it by their *kind*, the number of a text of the type column, and by *tests*,
the numbers of conditions on an event's own row. An *instance* of a vertex gives each of its slots an event.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec

#: A fit of any kind of event, and the length of a match that nothing bounds.
ANY_KIND, UNBOUNDED = -1, -1
#: So many tests have their bits in one number.
TESTS_IN_WORD = 62


@attrs.frozen
class Fit:
    """Events of a kind fit into a slot if one of ``tests`` holds of them; if there are none, all do.

    ``variable`` is the number of the name by which a query binds them, -1 in what several queries share.
    """

    kind: int
    tests: tuple[int, ...] = ()
    variable: int = -1


@attrs.frozen
class Compared:
    """``column of the event in a slot  <op>  other_column of the event in another slot``."""

    op: str
    slot: int
    column: int
    other: int
    other_column: int


@attrs.frozen
class Gap:
    """Requires that no event that fits lies strictly after the slots ``after`` and strictly before ``before``.

    If ``after`` is empty, the gap begins with the window; with a span, that long before the last event of the match. If
    ``before`` is empty, it ends with the window; with a span, that long after the first event.
    """

    fits: tuple[Fit, ...]
    after: frozenset[int]
    before: frozenset[int]


@attrs.frozen
class Demands:
    """The conditions on the events in the slots of a match.

    Attributes
    ----------
    slots : tuple of tuple of Fit
        For each slot what fits into it; no event fits in two ways.
    before : frozenset of (int, int)
        The event of the first slot is strictly before that of the second.
    apart : frozenset of (int, int)
        The events of both slots, the smaller number first, are of different instants.
    compared : frozenset of Compared
        Each with the smaller slot first.
    gaps : frozenset of Gap
    length : int
        The longest time from the first event to the last, in the unit of the time column, or UNBOUNDED.
    """

    slots: tuple[tuple[Fit, ...], ...]
    before: frozenset[tuple[int, int]] = frozenset()
    apart: frozenset[tuple[int, int]] = frozenset()
    compared: frozenset[Compared] = frozenset()
    gaps: frozenset[Gap] = frozenset()
    length: int = UNBOUNDED


@attrs.frozen
class Parent:
    """A vertex whose instances another one is made of: its number, and for each of its slots that of the child."""

    vertex: int
    slots: tuple[int, ...]


@attrs.frozen
class JoinedVertex:
    """A sub-pattern whose instances are kept for others, or what a query, or one alternative of it, looks for.

    Parents stand before their children. ``query`` is the number of a query, -1 of a sub-pattern. Matches of a query
    with sliding windows lie in one ``window`` of this length and slide at least. ``name`` is shown.
    """

    demands: Demands
    parents: tuple[Parent, ...] = ()
    query: int = -1
    window: tuple[int, int] | None = None
    name: str = ""


@attrs.frozen
class Walked:
    """A query whose trends are listed depth first, by themselves, among the events of all queries.

    ``query`` is its number. ``kernel`` says what it looks for: of its own variables, which have ``names``, and bind the
    events that fit into ``fits``; and of its own compared columns, which among those of all queries are ``codes``.
    """

    query: int
    kernel: KernelSpec
    names: tuple[str, ...]
    fits: tuple[Fit, ...]
    codes: tuple[int, ...]


@attrs.frozen
class InstancesSpec:
    """The specification by which a worker lists the matches of many queries.

    ``kernel`` says what the rows hold. ``kinds`` are the texts of the type column by number, and ``variables`` the
    names of event variables. ``queries`` are the names of the queries, ``keys`` says of each which keys its answer
    shows, and ``all_keys`` are those that any answer shows. The rows have windows if some query is ``sliding``. One
    task lists ``limit`` matches of a query at most, -1: all. Queries that are ``walked`` have no vertex.
    """

    kernel: KernelSpec
    vertices: tuple[JoinedVertex, ...]
    kinds: tuple[str, ...]
    variables: tuple[str, ...]
    queries: tuple[str, ...]
    keys: tuple[tuple[int, ...], ...]
    all_keys: tuple[int, ...]
    fields: tuple[str, ...]
    sliding: bool
    limit: int = -1
    walked: tuple[Walked, ...] = ()


#: What is told of each vertex, with Spark's types: its number, the instances that were built of it, the instances that
#: its children did not build again, the events of its own slots that nothing was built of, as a parent had no instance,
#: and how often its instances were too many to be kept.
WORK = (
    ("vertex", "int"),
    ("built", "bigint"),
    ("shared", "bigint"),
    ("avoided", "bigint"),
    ("not_kept", "bigint"),
)
