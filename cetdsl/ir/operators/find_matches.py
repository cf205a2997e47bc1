"""FindMatches: the kernel finds matches one after the other, as MATCH_RECOGNIZE does."""

from __future__ import annotations

import attrs

from cetdsl.ir.matches import Demand
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.ir.rows import NEXT_ROW, NOWHERE, PAST_LAST, TO_FIRST, Arrows
from cetdsl.ir.sorting import Sorting
from cetdsl.ir.windowing import SLIDING
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.query import STRICT
from cetdsl.pattern.text import quote, quote_name


@attrs.frozen
class FindMatches(Unary):
    """Gives a row per match: key columns, window, trend.

    Parameters
    ----------
    arrows : Arrows
        The positions that may follow each position; its variables are the numbers of ``demands``.
    demands : tuple of Demand
    single : tuple of bool
        For each variable of the query, whether a match binds at most one row to it.
    pairs : tuple of Expr
        Predicates on a row and the rows of another variable that the match has bound before.
    whole : tuple of Expr
        Predicates on a whole match.
    skip, skip_variable : int
        As in :class:`~cetdsl.ir.rows.MatchSpec`; and the variable of ``TO_FIRST`` or ``TO_LAST``, else -1.
    longest : bool
        Whether the longest match that begins at a row is taken.
    columns : tuple of str
        The columns of each event that are shown.
    sorting : Sorting, optional
        Who sorts the rows; None until Spark has found the types of terms, which decide it.
    """

    arrows: Arrows
    demands: tuple[Demand, ...]
    single: tuple[bool, ...]
    pairs: tuple[Expr, ...]
    whole: tuple[Expr, ...]
    skip: int
    skip_variable: int
    longest: bool
    columns: tuple[str, ...]
    sorting: Sorting | None = None
    walks = True

    @property
    def searches(self) -> bool:
        """Whether the conditions on a row depend on more of the match than the row before it."""
        strict = self.compiled.machine.matching == STRICT
        demands = (option for demand in self.demands for option in (demand.bound, *demand.unless) if option is not None)
        return bool(self.pairs or self.whole) or (not strict and any(option.predicates for option in demands))

    def steps(self) -> tuple[Step, ...]:
        source = self.source
        keys = [*map(quote_name, source.keys), *(["window"] if source.windowing.kind == SLIDING else [])]
        order = ", ".join(map(quote_name, (source.time, *source.tie_break)))
        policy = self.compiled.machine.matching
        lines = [
            f"matching: {policy}",
            "of those that begin at a row: " + ("the longest one" if self.longest else "the preferred one"),
            f"after a match: {self._after()}",
        ]
        lines += [f"with rows bound before: {quote(predicate)}" for predicate in self.pairs]
        lines += [f"of the whole match: {quote(predicate)}" for predicate in self.whole]
        sort = [f"by {', '.join(keys) or 'nothing: all rows in one task'}", f"order: {order}"]
        sort += [] if self.sorting is None else [self.sorting.who]
        packed = self.sorting is not None and self.sorting.in_parcels
        return (
            *([words.packed("rows")] if packed else []),
            Step("sort", tuple(sort)),
            Step("kernel: one match after the other", tuple(lines)),
        )

    def _after(self) -> str:
        name = self.compiled.name_of(self.skip_variable) if self.skip_variable >= 0 else ""
        return {
            PAST_LAST: "on behind its last row",
            NEXT_ROW: "on at the row behind its first one",
            TO_FIRST: f"on at the first row of {name}",
            NOWHERE: "no other one",
        }.get(self.skip, f"on at the last row of {name}")

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        if self.searches:
            return ("grows with the ways that are tried: what may follow depends on the rows bound so far",)
        return ("grows with the rows times the places of the pattern that they may stand at",)
