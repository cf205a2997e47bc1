"""PropagateTogether: many queries in one pass over the events that they have in common."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.sharing import AbreastSet, Member, SharableSet, Sharing
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.text import quote_name


@attrs.frozen
class PropagateTogether(Unary):
    """Gives the rows of all queries, in shared columns; partial results if the queries' specifications say so.

    ``spec`` says what the rows hold, with windows that contain those of all ``members``. ``families`` has for each of
    the common variables the number of its family: variables of one family bind events of one type. The queries of each
    of ``sets`` share bursts, and those of each of ``abreast`` share a walk over the events (:mod:`cetdsl.ir.sharing`).
    """

    spec: KernelSpec
    values: tuple[Expr, ...]
    members: tuple[Member, ...]
    families: tuple[int, ...]
    sets: tuple[SharableSet, ...]
    abreast: tuple[AbreastSet, ...]
    sharing: Sharing
    stage = "workload"
    only_batch = None

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values, for_many=True),)

    @property
    def answered(self) -> tuple[Member, ...]:
        """The members that are queries."""
        return tuple(member for member in self.members if not member.is_side)

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries."""
        return tuple(member.name for member in self.answered)

    def steps(self) -> tuple[Step, ...]:
        alike: dict[str, list[str]] = {}
        for member in self.members:
            how = member.propagation
            if how.why_not_shared is None:
                continue
            if how.in_bursts:
                way = f"burst by burst: {how.why_not_shared}"
            elif how.why_not_in_panes is None:
                way = f"in panes: {how.why_not_shared}"
            else:
                way = f"event by event: {how.why_not_shared}; not in panes: {how.why_not_in_panes}"
            alike.setdefault(way, []).append(member.name)
        paired = (
            f"{member.name} pairs the trends of {words.some(member.pairs)}" for member in self.members if member.pairs
        )
        shared = (f"{words.some(one.queries)} may share ({', '.join(sorted(one.variables))})+" for one in self.sets)
        walked = (
            f"{words.some(one.queries)} abreast, event by event: they repeat {', '.join(one.variables)}, and "
            f"{'; '.join(dict.fromkeys(one.reasons))}"
            for one in self.abreast
        )
        alone = (f"{words.some(names)} alone, {way}" for way, names in alike.items())
        return (Step("kernel: all queries", (*shared, *walked, *alone, *paired)),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Returns, for each common variable, its names in the queries."""
        called: dict[int, dict[str, list[str]]] = {}
        for member in self.members:
            for number, name in member.variables:
                called.setdefault(number, {}).setdefault(name, []).append(member.name)
        return tuple(
            (
                self.compiled.name_of(number),
                "; ".join(f"{quote_name(name)} of {words.some(queries)}" for name, queries in called[number].items()),
            )
            for number in sorted(called)
        )
