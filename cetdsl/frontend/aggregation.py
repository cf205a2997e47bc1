"""``aggregation_plan(queries)``: plans which sub-patterns many queries share; needs no DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

import attrs

from cetdsl.detection.statistics import Statistics, given_statistics
from cetdsl.errors import InvalidNode, check_choice, shown
from cetdsl.explain import Explanation
from cetdsl.explain.aggregation import plan_view
from cetdsl.frontend.workload import check_deadline, named_queries
from cetdsl.sharing.aggregation.draft import LEAST_SLOTS, Limits
from cetdsl.sharing.aggregation.graph import LEAST_ALIKE, MOST_NEIGHBOURS
from cetdsl.sharing.aggregation.plan import PlanData
from cetdsl.sharing.aggregation.planner import ALGORITHMS, Planner
from cetdsl.sharing.aggregation.worth import worth_keeping


@attrs.frozen(slots=False)
class AggregationPlan(PlanData):
    """The sub-patterns that the queries of a workload share, and those that these sub-patterns share in turn.

    Made by :func:`aggregation_plan`. A plan is immutable: ``adding`` and ``removing`` return a new one.

    Attributes
    ----------
    queries : dict of str to Query
        By name.
    vertices : tuple of Vertex
        Sub-patterns and queries, by level. Each has its ``number``, ``pattern``, ``level``, ``parents`` (by number),
        ``own`` (the slots of its pattern that no parent has), and, of a query, its name ``query`` and ``variables``.
        With statistics it has ``steps``, by which it is best put together, and its ``expected`` instances.
    edges : tuple of Edge
        Each has ``parent``, ``child`` and ``slots``: for each slot of the parent that of the child for the same event.
    levels : tuple of tuple of Vertex
        The vertices without parents, those made of them, and so on.
    entropy : float
        The structural entropy of the queries' graph under the plan, in bits.
    slots : int
        The number of slots of all vertices, without those that a vertex takes from its parents.
    root_slots : int
        The number of slots of the vertices without parents.
    unshared : tuple of str
        The queries that share nothing.
    finished : bool
        Whether the search ended by itself, and not by its deadline.
    dropped : int
        The sub-patterns that were found and not kept, as statistics say that they cost more than they save.

    Examples
    --------
    >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)", "r": "PATTERN E+"})
    >>> shared = plan.vertices[0]
    >>> print(shared.pattern, plan.serves(shared))
    SEQ(A, B) ('p', 'q')
    >>> [str(plan.vertex("p").pattern.slots[slot]) for slot in plan.vertex("p").own]
    ['C']
    """

    _planner: Planner = attrs.field(kw_only=True, eq=False, repr=False)
    _statistics: Statistics | None = attrs.field(default=None, kw_only=True, eq=False, repr=False)

    def adding(self, name: str, query: object, deadline: float | None = None) -> AggregationPlan:
        """Returns the plan with one more query. Only pairs that it is part of are looked at; the rest stays.

        Parameters
        ----------
        name : str
            The name of the new query.
        query : query or str
            The query, or its text.
        deadline : float, optional
            Seconds after which the plan found so far is taken.

        Returns
        -------
        AggregationPlan

        Raises
        ------
        InvalidNode
            If the name is no name, or there is a query of that name.
        ParseError
            If the text is malformed.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> wider = plan.adding("r", "PATTERN SEQ(A, B, E)")
        >>> wider.serves(wider.vertices[0])
        ('p', 'q', 'r')
        """
        ((name, added),) = named_queries({name: query}).items()
        if name in self.queries:
            raise InvalidNode(f"the plan has a query {name!r} already", hint="remove it first, or choose another name")
        changed = self._planner.copy()
        changed.add(name, added, check_deadline(deadline))
        return _plan_of(changed, self._statistics)

    def removing(self, name: str) -> AggregationPlan:
        """Returns the plan without a query. Sub-patterns that serve one query alone then are gone; the rest stays.

        Parameters
        ----------
        name : str
            The name of the query.

        Returns
        -------
        AggregationPlan

        Raises
        ------
        InvalidNode
            If there is no query of that name, or it is the last one.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> plan.removing("p").unshared
        ('q',)
        """
        if name not in self.queries:
            raise InvalidNode(f"the plan has no query {shown(name)}", hint="its names are those of plan.queries")
        if len(self.queries) == 1:
            raise InvalidNode(f"{name!r} is the only query of the plan", hint="a plan is for one query at least")
        changed = self._planner.copy()
        changed.remove(name)
        return _plan_of(changed, self._statistics)

    def explain(self, *, levels: int | None = 2, most: int | None = 8) -> Explanation:
        """The plan as text, Graphviz or HTML, with large clusters folded.

        Parameters
        ----------
        levels : int or None
            So many levels of sub-patterns are shown, those below by number only; None shows all.
        most : int or None
            So many children of a sub-pattern are shown, those of most queries, and so many sub-patterns without
            parents; None shows all. A web page folds what is too large for a picture, so that ``html()`` of all can
            be read too.

        Returns
        -------
        Explanation

        Raises
        ------
        InvalidNode
            If ``levels`` or ``most`` is neither None nor a whole number from 1 on.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> str(plan.explain(levels=None, most=None)) == str(plan)
        True
        """
        for value, what in ((levels, "levels"), (most, "most")):
            if value is not None:
                _require_count(value, what)
        return Explanation((("aggregation plan", (plan_view(self, levels, most),)),))

    def __str__(self) -> str:
        return str(self.explain())


def aggregation_plan(
    queries: Mapping[str, object] | str,
    algorithm: str = "casem+dce",
    deadline: float | None = None,
    *,
    statistics: Mapping[str, object] | None = None,
    least_alike: float = LEAST_ALIKE,
    most_neighbours: int = MOST_NEIGHBOURS,
    least_slots: int = LEAST_SLOTS,
    levels: int | None = None,
    parameters: Mapping[str, object] | None = None,
) -> AggregationPlan:
    """Find the sub-patterns that many queries share, without any DataFrame.

    Parameters
    ----------
    queries : mapping of str to query or text, or str
        By name; or one text, ``NAME q1: PATTERN ...; NAME q2: ...``.
    algorithm : {"casem+dce", "casem", "casem-2"}
        ``casem`` clusters queries, clusters of queries and so on; ``casem-2`` ends with two levels of sub-patterns;
        ``casem+dce`` goes on with what queries of different clusters have in common.
    deadline : float, optional
        Seconds after which the plan found so far is taken. With 0, no two queries share anything. Reading the queries
        and comparing their types comes first, however long it takes.
    statistics : dict, optional
        ``"rates"``: for each type the number of its events, per second, or per tick if times are whole numbers, or in
        all if there is no window; 1 if not given. ``"selectivities"``: for a pair of types the share of pairs of events
        that satisfy the predicates on both, and for a single type the share of its events that satisfy a comparison;
        1/3 if not given. With them the plan has no sub-pattern whose instances cost more to keep than to build again,
        and each vertex says in which order it is best put together. Types that occur in no query are ignored.
    least_alike : float
        Two queries are compared only if, of the event types that either of them has, both have more than this share,
        from 0 to 1.
    most_neighbours : int
        The number of most similar queries that each query is compared with.
    least_slots : int
        Sub-patterns of fewer events are not shared.
    levels : int, optional
        The greatest number of levels of sub-patterns; any number by default.
    parameters : mapping, optional
        The constants that stand for ``:name`` in the texts, by name, as of :func:`parse`.

    Returns
    -------
    AggregationPlan

    Raises
    ------
    InvalidNode
        If there is no query, or a name, the algorithm, a limit, the deadline, a statistic or a parameter is invalid.
    ParseError
        If a text is malformed.

    Notes
    -----
    Wu et al., "PatternInsight: An Online Approach to Complex Pattern Detection over Mobile Data Streams" (IEEE
    Transactions on Mobile Computing).

    Examples
    --------
    >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)", "r": "PATTERN E+"})
    >>> print(plan)
    == aggregation plan ==
    queries       3
    sub-patterns  1 in 1 level
    slots         4, of which 2 without parents
    entropy       1.000 bits
    search        finished
    <BLANKLINE>
    SEQ(A, B)
    :   for 2 queries
    :- p
    :      adds C
    +- q
           adds D
    1 query that shares nothing
        r
    """
    named = named_queries(queries, parameters or {}, "cet.aggregation_plan")
    check_choice("algorithm", algorithm, ALGORITHMS)
    if not _is_number(least_alike) or not 0 <= least_alike <= 1:
        raise InvalidNode(f"least_alike is a share from 0 to 1, not {shown(least_alike)}")
    _require_count(most_neighbours, "most_neighbours")
    _require_count(least_slots, "least_slots")
    if levels is not None:
        _require_count(levels, "levels")
    limits = Limits(least_alike, most_neighbours, least_slots, levels)
    known = None if statistics is None else given_statistics(statistics, None)
    return _plan_of(Planner(named, algorithm, limits, check_deadline(deadline)), known)


def _plan_of(planner: Planner, statistics: Statistics | None) -> AggregationPlan:
    plan = planner.plan if statistics is None else worth_keeping(planner.plan, statistics)
    parts = (plan.queries, plan.vertices, plan.edges, plan.entropy, plan.finished, plan.dropped)
    return AggregationPlan(*parts, planner=planner, statistics=statistics)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require_count(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidNode(f"{what} is a number from 1 on, not {shown(value)}")
