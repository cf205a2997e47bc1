"""The specifications of the stages that workers execute: what each must know beyond the query itself."""

from __future__ import annotations

import attrs

from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.extraction import USUAL, Extraction
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.parcels import ParcelSpec


@attrs.frozen
class TrendsSpec:
    """The specification by which a worker lists trends.

    ``keys`` are the numbers of the keys that the answer shows, ``fields`` the names of the event's fields in it. One
    task lists ``limit`` trends at most; -1: all. ``deferred`` has the numbers of deferred negations, each with the
    numbers of some fields: each trend then comes with the matches of these negations that may forbid it, and the events
    of a match have these fields. In this case there is no limit.
    """

    kernel: KernelSpec
    keys: tuple[int, ...]
    variables: tuple[str, ...]
    fields: tuple[str, ...]
    limit: int = -1
    deferred: tuple[tuple[int, tuple[int, ...]], ...] = ()


@attrs.frozen
class PaneSpec:
    """The specification by which a worker computes the matrices of a stream's panes, and packs them."""

    kernel: KernelSpec
    parcels: ParcelSpec


@attrs.frozen
class DetectSpec:
    """The specification by which a worker puts trends together by plans, one for each branch of the query."""

    trends: TrendsSpec
    plans: tuple[BranchPlan, ...]


@attrs.frozen
class LearnSpec:
    """The specification by which the state of a stream takes statistics of its events, for plans that adapt."""

    kernel: KernelSpec
    plans: tuple[BranchPlan, ...]


#: The columns, with Spark's types, of the report on each slice of a key's events. A slice may have several rows, whose
#: numbers the reader adds up.
DETECTION = (
    ("branch", "int"),
    ("slice", "bigint"),
    ("plan", "string"),
    ("events", "bigint"),
    ("planned", "boolean"),
    ("changed", "boolean"),
    ("violated", "string"),
    ("partial_matches", "map<string,bigint>"),
    ("seconds_deciding", "double"),
    ("seconds_planning", "double"),
    ("rates", "map<string,double>"),
    ("selectivities", "map<string,double>"),
)
#: The ``plan`` in this report for events whose trends were listed by a search without dead ends, in no order of the
#: variables.
NO_DEAD_ENDS = "without dead ends"


@attrs.frozen
class GraphSpec:
    """The specification by which a worker extracts trends from the graph of a query.

    ``trends.kernel.query.completeness`` says which trends. The memory of the ``extraction`` is that of a task, for the
    graph and for partial trends. If ``shares`` > 0, so many tasks share a key: each lists one of as many equal parts of
    the key's trends, which a column of the rows numbers; see :mod:`cetdsl.ir.shares`.
    """

    trends: TrendsSpec
    extraction: Extraction = USUAL
    shares: int = 0


@attrs.frozen
class PieceSpec:
    """The specification by which a worker finds its share of the partial trends between the anchors of one group."""

    graph: GraphSpec


@attrs.frozen
class JoinSpec:
    """The specification by which a worker joins partial trends along anchors: its part of ``shares`` of the trends.

    The partial trends may take ``memory`` bytes (None: no limit).
    """

    shares: int
    memory: int | None


#: The columns, with Spark's types, of a survey of graphs; there is one row per graph.
SURVEY = (
    ("events", "bigint"),
    ("surviving", "bigint"),
    ("starts", "bigint"),
    ("ends", "bigint"),
    ("vertices", "bigint"),
    ("edges", "bigint"),
    ("trends", "double"),
    ("refs", "double"),
    ("algorithm", "string"),
    ("atoms", "bigint"),
    ("cuts", "bigint"),
    ("cached", "bigint"),
    ("anchors", "bigint"),
    ("predicted_bytes", "double"),
    ("predicted_steps", "double"),
    ("bytes", "bigint"),
    ("steps", "bigint"),
)


@attrs.frozen
class SurveySpec:
    """The specification by which a worker surveys graphs; with ``measure``, it lists all trends to measure the work."""

    graph: GraphSpec
    measure: bool


@attrs.frozen
class SampleSpec:
    """The specification for drawing ``size`` trends: each gets a key, and the smallest keys are the sample."""

    graph: GraphSpec
    size: int
    seed: int


@attrs.frozen
class TopSpec:
    """The specification by which a worker finds the ``size`` heaviest trends.

    The weight of an event bound to one of the ``variables`` (none given: to any) is its value in the first value
    column, or 1 if there is no such column.
    """

    graph: GraphSpec
    size: int
    variables: tuple[int, ...] = ()


@attrs.frozen
class FirstSpec:
    """The specification by which a worker keeps the ``size`` rows of the greatest weight of each place.

    ``places`` are the numbers of the columns in which the rows of a place agree; ``weight`` is the number of the weight
    column.
    """

    size: int
    places: tuple[int, ...]
    weight: int


@attrs.frozen
class ContainmentSpec:
    """The specification by which a worker drops the trends that others contain.

    ``layout`` describes the rows, each a whole trend; those of a key and window come longest first. ``shown`` are the
    numbers of the keys that the answer shows, and ``completeness`` is "maximal" or "ends". The trends kept of one key
    and window may take ``memory`` bytes.
    """

    layout: RowLayout
    shown: tuple[int, ...]
    variables: tuple[str, ...]
    completeness: str
    memory: int


@attrs.frozen
class EventGraphSpec:
    """The specification by which a worker shows the graph of a query as rows.

    ``part`` is "vertices", "edges", "reduced", "direct", "attributes", "from" or "to". For vertices, the last columns
    of the rows are those of the event, which the answer shows as ``fields``. For attribute vertices and their edges,
    the value columns are those that comparisons refer to. If ``shares`` > 0, so many tasks share the reduced edges of
    each key.
    """

    kernel: KernelSpec
    part: str
    fields: tuple[str, ...] = ()
    shares: int = 0


@attrs.frozen
class Pool:
    """The format of rows that hold the answers of several queries, see :func:`~cetdsl.ir.layout.of_pool`.

    A row has the number of its query, the key columns (NULL if the query does not group by them), the start of its
    window (NULL without one), the window itself, and columns that the queries share: each query uses as many columns of
    a type as it needs. ``types`` is the serialised Arrow schema of the shared columns, and ``own`` names those of each
    query.
    """

    layout: RowLayout
    types: bytes
    own: tuple[tuple[str, ...], ...]


@attrs.frozen
class WorkloadSpec:
    """The specification by which a worker answers several queries over the same rows.

    ``reader`` says what the rows hold. Each query has an entry in ``names``, ``queries`` and ``groups`` (the keys that
    it groups by). ``partial`` is the format of partial results (None if there are none to add up), and ``answer`` that
    of the answer. ``families`` has for each variable the number of its family: variables of one family bind events of
    one type. One merged template propagates the queries of each of ``sets``, and one walk those of each of ``abreast``.
    Queries in none of these are evaluated by themselves, and ``in_panes`` says for each whether its windows are then
    products of panes. ``sharing`` and ``cost_model`` are those of :class:`~cetdsl.ir.sharing.Sharing`. ``deviations``
    and ``reasons``, why a query does not share (None: it may), have an entry per query. A query that ``pairs`` the
    trends of others, given by their numbers, is not propagated itself, and those others are not answered.
    """

    reader: KernelSpec
    names: tuple[str, ...]
    queries: tuple[KernelSpec, ...]
    groups: tuple[tuple[int, ...], ...]
    partial: Pool | None
    answer: Pool
    families: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    abreast: tuple[tuple[int, ...], ...]
    in_panes: tuple[bool, ...]
    sharing: str
    cost_model: str
    deviations: tuple[float | None, ...]
    reasons: tuple[str | None, ...]
    pairs: tuple[tuple[int, ...], ...]
