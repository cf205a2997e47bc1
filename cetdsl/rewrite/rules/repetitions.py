"""Rules on repetitions of repetitions."""

from __future__ import annotations

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.nodes import Pattern, Repeat
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.sequences import rewrite_pattern


@rule("collapse-nested-repetition", keeps=Keeps.TRENDS)
def collapse_nested_repetition(resolved: ResolvedQuery) -> ResolvedQuery:
    """(A+)+  ->  A+
    (A+)?  ->  A*
    (A{2,3}){2,4}  ->  A{4,12}
    """

    def change(node: Pattern) -> Pattern:
        return collapse(node, node.part) if isinstance(node, Repeat) and isinstance(node.part, Repeat) else node

    return rewrite_pattern(resolved, change)


def collapse(outer: Repeat, inner: Repeat) -> Pattern:
    """Returns one repetition for two nested ones, if the numbers of repetitions that these allow have no gap.

    ``k`` rounds of a to b repetitions are k*a to k*b repetitions; two consecutive k leave no gap between them when
    k*b + 1 >= (k+1)*a. This gets easier as k grows, so the smallest k decides.
    """
    a, b, k = inner.at_least, inner.at_most, outer.at_least
    several = outer.at_most is None or outer.at_most > k
    if several and (k * b if b is not None else 0 if k == 0 else None) is not None:
        reach = k * b if b is not None else 0
        if reach + 1 < (k + 1) * a:
            return outer
    most = None if b is None or outer.at_most is None else b * outer.at_most
    return Repeat(inner.part, k * a, most)
