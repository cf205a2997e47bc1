"""The physical vocabulary: what a kernel is told, in numbers only.

Everything here is plain data that pickles small and travels to the executors; no pattern node, no Spark object.
Variables, columns, negations and states are referred to by their position.
"""

from __future__ import annotations

import attrs

#: A window specification's ``kind``.
WHOLE, SLIDING, SPAN = "whole", "sliding", "span"

#: The forms a count may take (``number=``).
NUMBERS = ("decimal", "string", "double", "log2")

#: Where windows are products of panes: the most states, because a product takes time with their cube, ...
MAX_PANES_STATES = 12
#: ... and so many windows per event at least, else going through each event once per window costs less.
MIN_PANES_OVERLAP = 4

#: Which trends are asked for: all of them, or those that are not part of another one, by one of two readings.
ALL, MAXIMAL, ENDS = "all", "maximal", "ends"


@attrs.frozen
class Comparison:
    """``columns[later] of the later event  <op>  columns[earlier] of the earlier one``."""

    op: str
    later: int
    earlier: int


@attrs.frozen
class Edge:
    """A step from one state to another, with what must hold between the two neighbouring events.

    ``listed`` names list columns: the earlier event must be in the later one's list (inseparable predicates).
    ``guards`` names negations that must have no match in the gap.
    """

    source: int
    target: int
    comparisons: tuple[Comparison, ...] = ()
    listed: tuple[int, ...] = ()
    guards: tuple[int, ...] = ()


@attrs.frozen
class Machine:
    """An automaton with predicates on its edges.

    Attributes
    ----------
    variables : tuple of int
        The variable that each state reads.
    initial, final : tuple of (int, tuple of int)
        State, and the negations that must have no match before the first or after the last event.
    edges : tuple of Edge
    """

    variables: tuple[int, ...]
    initial: tuple[tuple[int, tuple[int, ...]], ...]
    final: tuple[tuple[int, tuple[int, ...]], ...]
    edges: tuple[Edge, ...]


@attrs.frozen
class Pair:
    """A pairwise predicate: for every event of ``left_variable`` and every one of ``right_variable``.

    ``columns[left] of the one  <op>  columns[right] of the other``.
    """

    op: str
    left_variable: int
    left: int
    right_variable: int
    right: int


@attrs.frozen
class Negation:
    """What must not match in a gap.

    ``correlated`` relates its variables (left) to positive ones (right), ``pairs`` its own to each other.
    """

    machine: Machine
    correlated: tuple[Pair, ...] = ()
    pairs: tuple[Pair, ...] = ()


@attrs.frozen
class Lane:
    """One number that is propagated along trends.

    Attributes
    ----------
    kind : {"count", "sum", "min", "max", "shortest", "longest"}
        ``count`` adds 1 for every event of ``variable`` (-1: of any), or, with a column, for every one where the
        column is not NULL.
    variable : int
    column : int
        Position among the value columns; -1 for none.
    """

    kind: str
    variable: int = -1
    column: int = -1


@attrs.frozen
class Output:
    """A column of the answer, made of lanes.

    ``numerator`` is the lane that holds the value; ``denominator`` (AVG) what it is divided by; for SUM, MIN and
    MAX ``present`` counts the non-null values, so that none of them gives NULL. ``-1`` is the number of trends.
    ``type`` is the Spark type of the aggregated column, or "" for counts.
    """

    name: str
    function: str
    numerator: int = -1
    denominator: int = -1
    present: int = -1
    type: str = ""


@attrs.frozen
class Windowing:
    """How time is cut: ``length`` and ``slide`` in the time column's own unit.

    ``cut`` > 0 says that the key has a last column that numbers stretches of time of this length: a task answers only
    the windows (or, for a span, the trends) that start in its own stretch, so that one long key is spread over all
    cores.
    """

    kind: str = WHOLE
    length: int = 0
    slide: int = 0
    cut: int = 0


def count_in_panes(windowing: Windowing) -> Windowing:
    """Sliding windows with panes as the unit of time, numbered from the epoch.

    A pane lies between two neighbouring starts and ends of windows. Where the slide divides the length there is one
    per slide, else two: up to the end of a window, and from there on.

    Examples
    --------
    >>> count_in_panes(Windowing(SLIDING, 60, 20)), count_in_panes(Windowing(SLIDING, 50, 20))
    (Windowing(kind='sliding', length=3, slide=1, cut=0), Windowing(kind='sliding', length=5, slide=2, cut=0))
    """
    whole, rest = divmod(windowing.length, windowing.slide)
    return Windowing(SLIDING, 2 * whole + 1, 2) if rest else Windowing(SLIDING, whole, 1)


def overlap(windowing: Windowing) -> int:
    """How many sliding windows an event is in at most."""
    return -(-windowing.length // windowing.slide)


@attrs.frozen
class RunSpec:
    """How events are put into sorted runs: ``keys`` key columns, then the time and other numbers, as NumPy types."""

    keys: int
    columns: tuple[str, ...]


#: Where a column of an event stands: among the last ones, or it is made from the time.
OWN, OF_TIME = -1, -2
#: One of these, the position of another column, or the text that the condition of each variable asks for.
Place = int | tuple[str, ...]


@attrs.frozen
class KernelSpec:
    """All that a worker must know to answer a query over its sorted events.

    Its input columns are, in this order: ``keys`` key columns (the first ``groups`` of them are output), the number of
    the time stretch if ``windowing.cut``, time, ``ties`` tie-break columns, the bit mask of variables that the event
    may be bound to, ``codes`` columns that comparisons refer to, ``values`` columns that lanes refer to, ``lists`` list
    columns preceded by the event's position in its key (if any), and for trends the event's own columns, but for those
    that are known without: ``shared`` has the position of another column of the same values, ``OF_TIME``, the texts of
    an event of each variable, or ``OWN``. If ``packed`` > 0 there is no mask: the time column holds
    ``time * 2**packed + mask``, or in place of the mask its number in ``book``. If there are ``runs``, events come in
    sorted runs. If there is ``unsorted``, they come in any order, and are to be sorted by the columns of these
    positions: the time and a whole number.

    ``completeness`` says which trends are asked for: ``ALL``, ``MAXIMAL`` or ``ENDS``.
    """

    machine: Machine
    negations: tuple[Negation, ...]
    windowing: Windowing
    keys: int
    groups: int
    time: str
    time_type: str
    ties: int
    codes: int
    values: tuple[str, ...]
    lists: int
    pairs: tuple[Pair, ...] = ()
    pivot: int = -1
    lanes: tuple[Lane, ...] = ()
    outputs: tuple[Output, ...] = ()
    number: str = "decimal"
    exact: bool = True
    partial: bool = False
    alone: bool = False
    packed: int = 0
    book: tuple[int, ...] = ()
    completeness: str = ALL
    runs: RunSpec | None = None
    unsorted: tuple[int, int] | None = None
    shared: tuple[Place, ...] = ()


#: Why events cannot be counted without looking at others.
COMPARED = "adjacent, pairwise or aggregate predicates compare events with each other"
NEGATED = "NOT needs the latest match of the negated pattern"
SPANNED = "a span without SLIDE needs one pass per first event"
_EXTREMES = {"min": "MIN", "shortest": "MIN", "max": "MAX", "longest": "MAX"}


def why_not_in_panes(spec: KernelSpec) -> str | None:
    """Why the windows of a query are no products of panes; None when they are.

    Examples
    --------
    >>> steps = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> spec = KernelSpec(steps, (), Windowing(), 0, 0, "t", "bigint", 0, 0, (), 0, lanes=(Lane("count", -2),))
    >>> why_not_in_panes(spec)
    'without windows nothing says how long a pane is'
    """
    if spec.pairs or spec.lists or any(edge.comparisons or edge.listed for edge in spec.machine.edges):
        return COMPARED
    if spec.negations:
        return NEGATED
    if spec.windowing.kind == SPAN:
        return SPANNED
    if spec.windowing.kind != SLIDING:
        return "without windows nothing says how long a pane is"
    if len(spec.machine.variables) > MAX_PANES_STATES:
        return f"the automaton has more than {MAX_PANES_STATES} states"
    if extremes := dict.fromkeys(_EXTREMES[lane.kind] for lane in spec.lanes if lane.kind in _EXTREMES):
        return f"an extreme is no sum of products: {', '.join(extremes)}"
    return None


def pays_in_panes(spec: KernelSpec) -> bool:
    """Whether the windows of a query are products of panes, and overlap enough for that to take less time."""
    return why_not_in_panes(spec) is None and overlap(spec.windowing) >= MIN_PANES_OVERLAP


def is_exact_lane(spec: KernelSpec, lane: Lane) -> bool:
    """Whether whole numbers are kept for this lane."""
    if not spec.exact:
        return False
    return lane.kind == "count" or not spec.values[lane.column].startswith(("double", "float"))


@attrs.frozen
class TrendsSpec:
    """What a worker must know to list trends.

    Attributes
    ----------
    kernel : KernelSpec
        The last columns of its input are those of the event.
    keys : tuple of int
        Positions of the key columns that the answer shows.
    variables : tuple of str
    fields : tuple of str
        Names of the event's fields in the answer.
    limit : int
        Trends that one task lists at most; -1: all.
    """

    kernel: KernelSpec
    keys: tuple[int, ...]
    variables: tuple[str, ...]
    fields: tuple[str, ...]
    limit: int = -1


@attrs.frozen
class GraphSpec:
    """What a worker must know to get trends out of the graph of a query.

    Attributes
    ----------
    trends : TrendsSpec
        ``trends.kernel.completeness`` says which ones.
    algorithm : {"auto", "m-cet", "t-cet", "h-cet", "anchors"}
    memory : int or None
        Bytes that the algorithm may keep of partial trends; None: no limit.
    shares : tuple of int
        Where several tasks share a key: the last key column holds one of these numbers, and says by its position which
        of as many equal parts of the key's trends is listed.
    """

    trends: TrendsSpec
    algorithm: str = "auto"
    memory: int | None = None
    shares: tuple[int, ...] = ()


#: What a survey says of each graph, and the Spark types of that.
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
    """What a worker must know to survey graphs; ``measure`` lists all trends to see what that takes."""

    graph: GraphSpec
    measure: bool


@attrs.frozen
class SampleSpec:
    """What a worker must know to draw ``size`` trends: each comes with a key, and the smallest keys are the sample."""

    graph: GraphSpec
    size: int
    seed: int


@attrs.frozen
class TopSpec:
    """What a worker must know to find the ``size`` heaviest trends.

    An event bound to ``variable`` (-1: to any) weighs its value in the first value column, or 1 if there is no such
    column.
    """

    graph: GraphSpec
    size: int
    variable: int = -1


@attrs.frozen
class ContainmentSpec:
    """What a worker must know to drop the trends that others contain.

    Attributes
    ----------
    keys : int
        Key columns, which come first; then the window if ``sliding``, the numbers of the trend's events (a list), the
        names of their variables (a list), and the trend itself. A key's trends come longest first.
    shown : tuple of int
        Positions of the key columns that the answer shows.
    sliding : bool
    variables : tuple of str
    completeness : {"maximal", "ends"}
    memory : int
        Bytes that the trends kept of one key and window may take.
    """

    keys: int
    shown: tuple[int, ...]
    sliding: bool
    variables: tuple[str, ...]
    completeness: str
    memory: int


@attrs.frozen
class EventGraphSpec:
    """What a worker must know to show the graph of a query as rows.

    Attributes
    ----------
    kernel : KernelSpec
        For vertices, the last columns of its input are those of the event; for what has to do with attribute
        vertices its values are the columns that comparisons refer to.
    part : {"vertices", "edges", "reduced", "direct", "attributes", "from", "to"}
    fields : tuple of str
        Names of the event's fields in the answer.
    """

    kernel: KernelSpec
    part: str
    fields: tuple[str, ...] = ()


@attrs.frozen
class WorkloadSpec:
    """What a worker must know to answer several queries over the same rows.

    A row of the answer has the number of its query, the key columns (those that its query does not group by are NULL),
    the start of its window (NULL without one), the window itself, and a *pool* of columns that the queries share: each
    uses as many of a type as it needs.

    Attributes
    ----------
    reader : KernelSpec
        What the rows hold.
    names : tuple of str
    queries : tuple of KernelSpec
    groups : tuple of tuple of int
        Per query the keys that it groups by.
    pool : tuple of (str, bytes)
        Name and serialised Arrow type of each column of the pool.
    places : tuple of tuple of int
        Per query the column of the pool of each of its own.
    partial_places : tuple of tuple of int
        The same of the partial results, for the stage that adds them up; empty where there is none.
    families : tuple of int
        Per variable the number of those that agree up to constants.
    sets : tuple of tuple of int
        The queries that may share.
    sharing : {"dynamic", "static", "always", "never"}
    deviations : tuple of float or None
        Per query what is known beforehand of how often it does otherwise than most, for static sharing.
    """

    reader: KernelSpec
    names: tuple[str, ...]
    queries: tuple[KernelSpec, ...]
    groups: tuple[tuple[int, ...], ...]
    pool: tuple[tuple[str, bytes], ...]
    places: tuple[tuple[int, ...], ...]
    partial_places: tuple[tuple[int, ...], ...]
    families: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    sharing: str
    deviations: tuple[float | None, ...]
