"""The conditions that rows must satisfy to stand in a match, where matches are found one after the other."""

from __future__ import annotations

import attrs

from cetdsl.pattern.expressions import Expr

#: What a row's instant must be, compared with that of the row before it: any; another one; the same; or another one,
#: while neither of the two instants has a further row.
ANY_INSTANT, OTHER_INSTANT, SAME_INSTANT, ALONE = "any", "other", "same", "alone"


@attrs.frozen
class Option:
    """One way to continue a match: by a row of a variable that satisfies predicates together with the last bound row.

    In the predicates, attributes of the new row have the role NEXT.
    """

    variable: int
    predicates: tuple[Expr, ...] = ()


@attrs.frozen
class Demand:
    """The conditions that a row must satisfy to stand at some places of a match.

    The row is bound by the option ``bound``. If that is None, the row is skipped, and must satisfy none of ``unless``.
    """

    instant: str
    bound: Option | None = None
    unless: tuple[Option, ...] = ()
