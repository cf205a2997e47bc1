"""The plan of a pass over the events of several queries: which of them share, and how each is propagated."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import has_windows
from cetdsl.pattern.nodes import Repeat, events

#: The cost models of decisions on sharing: costs measured on this machine, or an equation of Hamlet (SIGMOD 2021).
CALIBRATED, EQUATION_8, EQUATION_7 = COST_MODELS = ("calibrated", "equation-8", "equation-7")


@attrs.frozen
class Sharing:
    """Settings for what queries share: ``mode`` is "dynamic", "static", "always" or "never".

    ``cost_model`` is one of :data:`COST_MODELS`. ``deviations`` are for the static mode: for each query, the fraction
    of the events of its Kleene patterns at which it differs from most queries. For queries that are not named, it is
    estimated from the first events.
    """

    mode: str = "dynamic"
    deviations: Mapping[str, float] = attrs.field(factory=dict)
    cost_model: str = CALIBRATED


@attrs.frozen
class Propagation:
    """Describes how one query of a pass is propagated.

    ``why_not_shared`` is None if the query is in a sharable set, or propagated abreast of others. A query that shares
    with none is propagated ``in_bursts``, by the same method as sharable sets, or else by itself; then its windows are
    products of panes if ``why_not_in_panes`` is None.
    """

    why_not_shared: str | None
    in_bursts: bool
    why_not_in_panes: str | None


#: For an AND at the top, which is not propagated itself.
PAIRED = Propagation(None, False, None)


@attrs.frozen
class SharableSet:
    """Queries that share the propagation along a Kleene sub-pattern, burst by burst where that is less work.

    ``kleene`` is the sub-pattern as each of the ``queries`` states it. ``pane`` is the greatest common divisor of all
    lengths and slides, so that windows begin and end with panes; 0: no windows.
    """

    queries: tuple[str, ...]
    kleene: tuple[Repeat, ...]
    pane: int

    @property
    def variables(self) -> frozenset[str]:
        """The variables of the sub-pattern, in the words of the first query."""
        return frozenset(event.variable for event in events(self.kleene[0]))


@attrs.frozen
class AbreastSet:
    """Queries that one walk over the events propagates, event by event, whatever windows each of them has.

    The walk propagates states that equal trends enter once for all queries, and looks up indexes that answer equal
    predicates between neighbours once. ``variables`` are the kinds of events that the queries repeat, by the names of
    the first query; ``reasons`` say for each query why it is not propagated burst by burst.
    """

    queries: tuple[str, ...]
    variables: tuple[str, ...]
    reasons: tuple[str, ...]


@attrs.frozen
class Member:
    """A query of a pass; or, for an AND at the top, the trends of one of its sides, or those that match both.

    ``spec`` uses the common variables and columns of the pass, and treats all keys as groups. ``groups`` are the
    numbers of the keys that the query itself groups by. ``variables`` pairs the number of each common variable that the
    query has with the query's own name for it. An AND is not propagated itself: it ``pairs`` the trends of the members
    with these names. Each of those ``is_side`` and gives no answer of its own.
    """

    name: str
    spec: KernelSpec
    groups: tuple[int, ...]
    propagation: Propagation
    variables: tuple[tuple[int, str], ...]
    is_side: bool = False
    pairs: tuple[str, ...] = ()

    @property
    def sliding(self) -> bool:
        """Whether its answers are distinguished by windows."""
        return has_windows(self.spec.query.windowing)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its aggregates."""
        return tuple(output.name for output in self.spec.answer.outputs)
