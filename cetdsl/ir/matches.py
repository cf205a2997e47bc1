"""Matches that are found one after the other: the conditions that rows must satisfy to stand in a match."""

from __future__ import annotations

import attrs

from cetdsl.pattern.expressions import Expr

#: What the instant of a row must be, beside that of the row before it: anything; another one; the same; or another one,
#: where neither instant has further rows.
ANY_INSTANT, OTHER_INSTANT, SAME_INSTANT, ALONE = "any", "other", "same", "alone"


@attrs.frozen
class Option:
    """One way to go on: a row of a variable, for which predicates on it and on the row that is bound last hold.

    In these, the row is the one of the role NEXT.
    """

    variable: int
    predicates: tuple[Expr, ...] = ()


@attrs.frozen
class Demand:
    """The conditions that a row must satisfy to stand at some places of a match.

    It is ``bound`` in this way, or else it is skipped, where it must satisfy none of ``unless``.
    """

    instant: str
    bound: Option | None = None
    unless: tuple[Option, ...] = ()
