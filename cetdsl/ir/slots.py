"""Demands of many queries on the events of a match, slot by slot, and the sub-patterns whose instances they share.

A *vertex* is a sub-pattern, or what a query looks for; it consists of *slots*, each of which holds one event. The
*kind* of an event is the number of its text in the type column, and a *test* is a condition on an event's own row; both
decide whether an event fits into a slot. An *instance* of a vertex assigns an event to each of its slots.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec

#: A fit of any kind of event, and the length of a match that nothing bounds.
ANY_KIND, UNBOUNDED = -1, -1
#: The number of tests whose bits are in one whole number.
TESTS_IN_WORD = 62


@attrs.frozen
class Fit:
    """A condition for events to fit into a slot: they have the ``kind``, and satisfy one of ``tests`` if there are any.

    ``variable`` is the number of the name by which a query binds the events; -1 if several queries share the slot.
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
    """Requires that no event of ``fits`` lies strictly after the slots ``after`` and strictly before ``before``.

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
        For each slot, the alternative conditions to fit into it; no event satisfies two of them.
    before : frozenset of (int, int)
        Pairs of slots: the event of the first is strictly before that of the second.
    apart : frozenset of (int, int)
        Pairs of slots, the smaller number first, whose events are of different instants.
    compared : frozenset of Compared
        Comparisons, each with the smaller slot first.
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
    """A vertex from whose instances a child is built: its number, and for each of its slots the child's slot."""

    vertex: int
    slots: tuple[int, ...]


@attrs.frozen
class JoinedVertex:
    """A sub-pattern whose instances are kept to build others, or what a query, or one alternative of it, looks for.

    Parents stand before their children. ``query`` is the number of the query; -1 for a sub-pattern. If the windows of
    the query slide, ``window`` is their length and slide, and a match lies in at least one of them. ``name`` is shown
    to users.
    """

    demands: Demands
    parents: tuple[Parent, ...] = ()
    query: int = -1
    window: tuple[int, int] | None = None
    name: str = ""


@attrs.frozen
class Walked:
    """A query whose trends are listed depth first, by themselves, among the events of all queries.

    ``query`` is its number. ``kernel`` specifies its trends in the query's own numbering. ``names`` and ``fits`` have
    the name of each of its variables and the events that it binds; ``codes`` has, for each of its compared columns, the
    number of this column among those of all queries.
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
    names of event variables. ``queries`` are the names of the queries, ``keys`` are the keys that the answer of each
    shows, and ``all_keys`` are those that any answer shows. The rows have windows if the windows of some query slide
    (``sliding``). One task lists at most ``limit`` matches of a query (-1: all). The queries in ``walked`` have no
    vertex.
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


#: The columns, with Spark's types, of the report on each vertex: its number, the instances built of it, the instances
#: that its children need not build again, the events of its own slots for which nothing was built because a parent had
#: no instance, and how often it had too many instances to keep them.
WORK = (
    ("vertex", "int"),
    ("built", "bigint"),
    ("shared", "bigint"),
    ("avoided", "bigint"),
    ("not_kept", "bigint"),
)
