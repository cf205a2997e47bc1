"""Decides which queries of a pass share work, and how the others are propagated; explain shows it, kernels follow it.

A *pass* goes once over the events that several queries read. Its queries may share in two ways. In *bursts* (runs of
events of one type), a merged template of several queries propagates their common Kleene sub-pattern once for all.
*Abreast*, one *walk* over the events propagates several queries event by event, and shares equal states and index
lookups.

Hamlet (SIGMOD 2021, section 3.1) shares a Kleene sub-pattern among queries whose partition and group columns agree,
whose windows overlap and whose aggregates can be computed from each other's. Queries of one pass meet the first two
conditions. All aggregates here meet the third, because their trends are counted in any case, and extremes are found in
a walk of their own.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence, Set

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.ir.indexes import SCAN, index_of, lower_guards, with_orders
from cetdsl.ir.kernel import KernelQuery
from cetdsl.ir.operators import Propagate
from cetdsl.ir.operators.words import some
from cetdsl.ir.sharing import AbreastSet, Propagation, SharableSet
from cetdsl.ir.windowing import SLIDING, SPAN, overlap
from cetdsl.pattern.nodes import Repeat, events
from cetdsl.planning.panes import why_not_in_panes, why_panes_do_not_pay
from cetdsl.sharing.families import family, kleene_signatures

#: How a workload may decide what its queries share.
SHARING = ("dynamic", "static", "always", "never")
#: In the modes "dynamic" and "static", fewer queries than these get no template if their windows are products of panes:
#: of 20,000 events in 4 to 100 windows each, two queries took 0.9 to 1.7 times as long by template as by panes, three
#: 0.6 to 1.4 times, and five 0.4 to 1.2 times.
FEW_IN_PANES = 3
#: Queries that could share bursts join a walk over the same types that takes place in any case, if they are no more
#: than these, or no more than the queries of that walk: of 20,000 events in one window each, two or three queries took
#: 0.9 to 1.1 times as long by a walk of their own as by template, five 1.05 to 1.3 times, and ten took no extra time
#: beside twenty others.
FEW_IN_BURSTS = 3
#: If an event is in more windows than these, products of panes are faster than a walk with others.
FEW_WINDOWS = 6
_FEW = f"fewer than {FEW_IN_PANES} queries whose windows are products of panes take less time apart"
NEVER_ASKED = "sharing is never asked for"


def plan_sharing(
    queries: Mapping[str, ResolvedQuery], plans: Mapping[str, Propagate], mode: str
) -> tuple[tuple[SharableSet, ...], tuple[AbreastSet, ...], dict[str, Propagation]]:
    """Decides which queries share, each in at most one set, and how each query is propagated.

    ``queries`` are the rewritten queries of one pass, by name; their keys are equal. ``plans`` has the plan that each
    query would have by itself.
    """
    refused = {name: why_not_in_bursts(plan.spec.query) for name, plan in plans.items()}
    slow = {
        name: why_not_in_panes(plan.spec) or why_panes_do_not_pay(plan.spec.query.windowing)
        for name, plan in plans.items()
    }
    offers = {name: dict(_offers(resolved, plans[name])) for name, resolved in queries.items()}
    candidates: dict[Hashable, dict[str, Repeat]] = {}
    for name, own in offers.items():
        for offer, repeat in own.items() if refused[name] is None else ():
            candidates.setdefault(offer, {})[name] = repeat
    reasons = dict(refused)
    ours = mode in ("dynamic", "static")
    sets, taken = list[SharableSet](), set[str]()
    for found in sorted(candidates.values(), key=len, reverse=True):
        members = {name: repeat for name, repeat in found.items() if name not in taken}
        if len(members) < 2:
            continue
        taken |= set(members)
        if ours and len(members) < FEW_IN_PANES and all(slow[name] is None for name in members):
            reasons |= dict.fromkeys(members, _FEW)
            continue
        sets.append(SharableSet(tuple(members), tuple(members.values()), _pane([queries[name] for name in members])))
    sharing = {name for one in sets for name in one.queries}
    left = [name for name, reason in reasons.items() if reason is None and name not in sharing]
    reasons |= {name: _why_in_no_set(name, offers, refused, sharing) for name in left}
    walking = _Walking(queries, plans, slow, reasons)
    abreast = walking.sets(sets if ours else [])
    if mode == "never":
        # Queries that would otherwise walk together report why they do not.
        reasons |= dict.fromkeys((name for one in abreast for name in one.queries), NEVER_ASKED)
        abreast = ()
    together = {name for one in abreast for name in one.queries}
    sets = [one for one in sets if not together & set(one.queries)]
    reasons |= dict.fromkeys(together)
    propagation = {}
    for name, reason in reasons.items():
        in_bursts = reason is not None and refused[name] is None and not (ours and slow[name] is None)
        propagation[name] = Propagation(reason, in_bursts, slow[name])
    return tuple(sets), abreast, propagation


def _why_in_no_set(
    name: str,
    offers: Mapping[str, Mapping[Hashable, Repeat]],
    refused: Mapping[str, str | None],
    sharing: Set[str],
) -> str:
    """Returns why a query that may share bursts is in no set.

    ``offers`` are the Kleene patterns that each query of the pass has, ``refused`` is why it may not share them, and
    ``sharing`` are the queries that are in a set.
    """
    alike = [other for other, own in offers.items() if other != name and own.keys() & offers[name].keys()]
    if not alike:
        return "no other query of its pass has its Kleene pattern"
    willing = [other for other in alike if refused[other] is None]
    if not willing:
        return f"what else has its Kleene pattern may share no bursts: {some(alike)}"
    taken = [other for other in willing if other in sharing]
    return f"what else has its Kleene pattern shares another one: {some(taken)}" if taken else _FEW


#: Why a query that could walk with others is propagated by itself.
_NOBODY_WALKS = "no other query that walks repeats events of its types"


@attrs.define
class _Group:
    """Queries that repeat events of common types: ``walkers`` walk in any case, ``guests`` may walk with them."""

    types: set[Hashable]
    walkers: list[str]
    guests: list[str]

    def takes(self, other: _Group) -> bool:
        """Takes over the queries of another group if both have a type in common; returns whether they have."""
        common = bool(self.types & other.types)
        if common:
            self.types |= other.types
            self.walkers += other.walkers
            self.guests += other.guests
        return common


class _Walking:
    """Puts the queries that share no bursts into walks, and finds the reason why a query is in no walk.

    Parameters
    ----------
    queries, plans
        Those of the pass.
    slow : mapping of str to (str or None)
        Why the windows of a query are no products of panes.
    reasons : dict of str to (str or None)
        Why a query shares no bursts. The reasons why it is in no walk are added to it.
    """

    def __init__(
        self,
        queries: Mapping[str, ResolvedQuery],
        plans: Mapping[str, Propagate],
        slow: Mapping[str, str | None],
        reasons: dict[str, str | None],
    ) -> None:
        self._plans, self._slow, self._reasons = plans, slow, reasons
        self._types = {name: _repeated_types(resolved) for name, resolved in queries.items()}

    def sets(self, in_bursts: Sequence[SharableSet]) -> tuple[AbreastSet, ...]:
        """Returns the queries of each walk; a set that shares ``in_bursts`` may join a walk with all its queries."""
        groups: list[_Group] = []
        for name, reason in self._reasons.items():
            if reason is None:
                continue
            if (refused := why_not_abreast(self._plans[name].spec.query)) is not None:
                self._reasons[name] = reason if reason == refused else f"{reason}; {refused}"
                continue
            walkers, guests = ([name], []) if self._slow[name] is not None else ([], [name])
            if guests and not self._may_be_guest(name):
                continue
            group = _Group(set(self._types[name]), walkers, guests)
            groups = [group, *(one for one in groups if not group.takes(one))]
        left = list(in_bursts)
        for group in groups:
            left = [one for one in left if not self._joins(one, group)]
        found = []
        for group in groups:
            names = [name for name in self._types if name in (*group.walkers, *group.guests)]
            if group.walkers and len(names) > 1 and group.types:
                why = [self._reasons[name] or "others walk over the same events" for name in names]
                types = self._types[names[0]]
                found.append(AbreastSet(tuple(names), tuple(types.values()), tuple(why)))
            else:
                alone = {name: f"{self._reasons[name]}; {_NOBODY_WALKS}" for name in group.walkers}
                self._reasons.update(alone)
        return tuple(found)

    def _joins(self, one: SharableSet, group: _Group) -> bool:
        """Makes a set that shares bursts walk with the queries of a group, if that is no slower."""
        types = {kind for name in one.queries for kind in self._types[name]}
        few = len(one.queries) <= max(FEW_IN_BURSTS, len(group.walkers))
        joins = bool(group.walkers and types & group.types) and few and all(map(self._may_be_guest, one.queries))
        if joins:
            group.guests += one.queries
        return joins

    def _may_be_guest(self, name: str) -> bool:
        """Whether a query that could also be answered by panes, or in bursts, may walk with others.

        A walk takes each window by itself, and it computes exact counts modulo one prime at a time. So queries whose
        events are in many windows, or whose exact counts may have any size, stay out of walks.
        """
        spec = self._plans[name].spec
        windowing = spec.query.windowing
        few = windowing.kind != SLIDING or overlap(windowing) <= FEW_WINDOWS
        of_any_size = spec.answer.exact and spec.answer.number != "decimal"
        return few and not of_any_size


def why_not_abreast(query: KernelQuery) -> str | None:
    """Returns why a query cannot be propagated abreast of others; None when it can."""
    if query.windowing.kind == SPAN:
        return "each of its trends has a span of its own"
    if query.pairs:
        return "it has pairwise predicates between events that are no neighbours"
    if any(negation.sight is not None for negation in query.negations):
        return "a NOT looks from the event beside it no further than a length"
    if any(index_of(edge) == SCAN for edge in with_orders(lower_guards(query.machine, 0)).edges):
        return "no index answers what its neighbours are compared by"
    return None


def _repeated_types(resolved: ResolvedQuery) -> dict[Hashable, str]:
    """Returns the types of events that a query repeats without bound, and one variable of each."""
    found: dict[Hashable, str] = {}
    for node in resolved.query.pattern.walk():
        if isinstance(node, Repeat) and node.at_most is None:
            for event in events(node.part):
                found.setdefault(family(event, resolved.type), event.variable)
    return found


def why_not_in_bursts(query: KernelQuery) -> str | None:
    """Returns why a query cannot be propagated burst by burst, as shared queries are; None when it can."""
    if query.windowing.kind == SPAN:
        return "each of its trends has a span of its own"
    if query.pairs:
        return "it has pairwise predicates between events that are no neighbours"
    if query.negations:
        return "it has negations"
    if any(edge.comparisons or edge.listed for edge in query.machine.edges):
        return "it has predicates between neighbours"
    if not any(edge.source == edge.target for edge in query.machine.edges):
        return "it has no Kleene of a single variable"
    return None


def _offers(resolved: ResolvedQuery, plan: Propagate) -> list[tuple[Hashable, Repeat]]:
    """Returns what a query can share: Kleene sub-patterns in which a variable repeats."""
    machine, names = plan.compiled.machine, plan.compiled.names
    loops = {names[machine.variables[edge.source]] for edge in machine.edges if edge.source == edge.target}
    return [
        ((signature, family(event, resolved.type)), repeat)
        for signature, repeat in kleene_signatures(resolved).items()
        for event in events(repeat)
        if event.variable in loops
    ]


def _pane(members: list[ResolvedQuery]) -> int:
    windows = [resolved.query.window for resolved in members]
    lengths = [window.length.amount for window in windows if window is not None]
    slides = [window.slide.amount for window in windows if window is not None and window.slide is not None]
    return math.gcd(*lengths, *slides) if lengths else 0
