"""Which queries of a pass share, and how the others are propagated: decided here, shown by explain, obeyed by kernels.

Hamlet (SIGMOD 2021, section 3.1) shares a Kleene sub-pattern among queries whose partition and group columns agree,
whose windows overlap and whose aggregates can be computed from each other's. Passes see to the first two. The third
holds of all aggregates here, as their trends are counted in any case, and extremes are found in a walk of their own.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.ir.indexes import SCAN, index_of, lower_guards
from cetdsl.ir.kernel import KernelQuery
from cetdsl.ir.operators import Propagate
from cetdsl.ir.sharing import AbreastSet, Propagation, SharableSet
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.nodes import Repeat, events
from cetdsl.planning.panes import why_not_in_panes, why_panes_do_not_pay
from cetdsl.sharing.families import family, kleene_signatures

#: How a workload may decide what its queries share.
SHARING = ("dynamic", "static", "always", "never")
#: Fewer queries whose windows are products of panes are not worth a template, where that is ours to decide: of 20,000
#: events in 4 to 256 windows each, two queries took 1.3 to 13 times as long by template as by panes, ten as long.
FEW_IN_PANES = 6


def plan_sharing(
    queries: Mapping[str, ResolvedQuery], plans: Mapping[str, Propagate], mode: str
) -> tuple[tuple[SharableSet, ...], tuple[AbreastSet, ...], dict[str, Propagation]]:
    """Plans which queries share, each in at most one set, and how each query is propagated.

    The queries are the rewritten ones of one pass, by name, so their keys are equal. The plans are those of each query
    by itself.
    """
    refused = {name: why_not_in_bursts(plan.spec.query) for name, plan in plans.items()}
    slow = {
        name: why_not_in_panes(plan.spec) or why_panes_do_not_pay(plan.spec.query.windowing)
        for name, plan in plans.items()
    }
    candidates: dict[Hashable, dict[str, Repeat]] = {}
    for name, resolved in queries.items():
        for offer, repeat in _offers(resolved, plans[name]) if refused[name] is None else ():
            candidates.setdefault(offer, {})[name] = repeat
    reasons: dict[str, str | None] = {
        name: reason or "no other query has its Kleene pattern" for name, reason in refused.items()
    }
    ours = mode in ("dynamic", "static")
    sets, taken = [], set[str]()
    for found in sorted(candidates.values(), key=len, reverse=True):
        members = {name: repeat for name, repeat in found.items() if name not in taken}
        if len(members) < 2:
            continue
        taken |= set(members)
        if ours and len(members) < FEW_IN_PANES and all(slow[name] is None for name in members):
            few = f"fewer than {FEW_IN_PANES} queries whose windows are products of panes take less time apart"
            reasons |= dict.fromkeys(members, few)
            continue
        reasons |= dict.fromkeys(members)
        sets.append(SharableSet(tuple(members), tuple(members.values()), _pane([queries[name] for name in members])))
    abreast = _abreast(queries, plans, slow, reasons) if mode != "never" else ()
    reasons |= dict.fromkeys(name for one in abreast for name in one.queries)
    propagation = {}
    for name, reason in reasons.items():
        in_bursts = reason is not None and refused[name] is None and not (ours and slow[name] is None)
        propagation[name] = Propagation(reason, in_bursts, slow[name])
    return tuple(sets), abreast, propagation


def _abreast(
    queries: Mapping[str, ResolvedQuery],
    plans: Mapping[str, Propagate],
    slow: Mapping[str, str | None],
    reasons: dict[str, str | None],
) -> tuple[AbreastSet, ...]:
    """Returns the sets of queries that are propagated abreast, of those that do not share otherwise.

    They have equal windows, and events of one kind in common that they repeat. What keeps a query out is added to the
    ``reasons``.
    """
    found: list[tuple[Hashable, set[Hashable], list[str]]] = []
    repeated: dict[str, dict[Hashable, str]] = {}
    for name, reason in reasons.items():
        if reason is None or slow[name] is None:
            continue
        query = plans[name].spec.query
        if (refused := why_not_abreast(query)) is not None:
            reasons[name] = reason if reason == refused else f"{reason}; {refused}"
            continue
        repeated[name] = _repeated_types(queries[name])
        kinds, members = set(repeated[name]), [name]
        if not kinds:
            continue
        # Sets that this query connects become one.
        for one in [one for one in found if one[0] == query.windowing and one[1] & kinds]:
            found.remove(one)
            kinds |= one[1]
            members = one[2] + members
        found.append((query.windowing, kinds, members))
    return tuple(
        AbreastSet(tuple(members), tuple(repeated[members[0]].values()), tuple(str(reasons[name]) for name in members))
        for _, _, members in found
        if len(members) > 1
    )


def why_not_abreast(query: KernelQuery) -> str | None:
    """Returns why a query cannot be propagated abreast of others; None when it can."""
    if query.windowing.kind == SPAN:
        return "each of its trends has a span of its own"
    if query.pairs:
        return "it has pairwise predicates"
    if any(index_of(edge) == SCAN for edge in lower_guards(query.machine, 0).edges):
        return "no index answers what its neighbours are compared by"
    return None


def _repeated_types(resolved: ResolvedQuery) -> dict[Hashable, str]:
    """Returns the types of events that a query repeats without bound, and one variable of each."""
    found: dict[Hashable, str] = {}
    for node in resolved.query.pattern.walk():
        if isinstance(node, Repeat) and node.at_most is None:
            for event in events(node.part):
                types, _ = family(event, resolved.type)
                found.setdefault(types, event.variable)
    return found


def why_not_in_bursts(query: KernelQuery) -> str | None:
    """Returns why a query cannot be propagated burst by burst, as shared queries are; None when it can."""
    if query.windowing.kind == SPAN:
        return "each of its trends has a span of its own"
    if query.pairs:
        return "it has pairwise predicates"
    if query.negations:
        return "it has negations"
    if any(edge.comparisons or edge.listed for edge in query.machine.edges):
        return "it has predicates between neighbours"
    if not any(edge.source == edge.target for edge in query.machine.edges):
        return "it has no Kleene of a single variable"
    return None


def _offers(resolved: ResolvedQuery, plan: Propagate) -> list[tuple[Hashable, Repeat]]:
    """Returns what a query can share: Kleene sub-patterns in which a variable repeats."""
    machine, names = plan.compiled.machine, [name for name, _ in plan.compiled.variables]
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
