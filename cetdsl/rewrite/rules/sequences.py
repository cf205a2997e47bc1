"""Rules on the nesting of SEQ and OR. The words of a pattern, its NOT markers included, stay the same."""

from __future__ import annotations

from collections.abc import Callable

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.nodes import And, Not, Or, Pattern, Repeat, Seq, dissolved, transform
from cetdsl.rewrite.rule import Keeps, rule


def rewrite_pattern(resolved: ResolvedQuery, change: Callable[[Pattern], Pattern]) -> ResolvedQuery:
    """The query with its pattern rebuilt bottom-up.

    AND at the top pairs trends, while elsewhere it stands for the orders of events. So a SEQ of a single AND keeps its
    SEQ at the top, and as a side of an AND at the top.
    """
    pattern = transform(resolved.query.pattern, change)
    if isinstance(resolved.query.pattern, And):
        pattern = pattern.with_children(tuple(_framed(side) for side in pattern.children))
    else:
        pattern = _framed(pattern)
    return resolved.with_query(pattern=pattern)


def _framed(pattern: Pattern) -> Pattern:
    return Seq((pattern,)) if isinstance(pattern, And) else pattern


@rule("flatten-sequence", keeps=Keeps.DERIVATIONS)
def flatten_sequence(resolved: ResolvedQuery) -> ResolvedQuery:
    """SEQ(A, SEQ(B, NOT N), C)  ->  SEQ(A, B, NOT N, C)"""
    return rewrite_pattern(resolved, lambda node: dissolved(node, Seq))


@rule("flatten-alternative", keeps=Keeps.DERIVATIONS)
def flatten_alternative(resolved: ResolvedQuery) -> ResolvedQuery:
    """A OR (B OR C)  ->  A OR B OR C"""
    return rewrite_pattern(resolved, lambda node: dissolved(node, Or))


@rule("deduplicate-alternatives", keeps=Keeps.TRENDS)
def deduplicate_alternatives(resolved: ResolvedQuery) -> ResolvedQuery:
    """A OR B OR A  ->  A OR B"""
    return rewrite_pattern(
        resolved, lambda node: Or(tuple(dict.fromkeys(node.parts))) if isinstance(node, Or) else node
    )


@rule("unwrap-single", keeps=Keeps.DERIVATIONS)
def unwrap_single(resolved: ResolvedQuery) -> ResolvedQuery:
    """SEQ(OR(A){1})  ->  A"""

    def change(node: Pattern) -> Pattern:
        # A lone NOT needs the sequence around it.
        if isinstance(node, (Seq, Or)) and len(node.parts) == 1 and not isinstance(node.parts[0], Not):
            return node.parts[0]
        if isinstance(node, Repeat) and (node.at_least, node.at_most) == (1, 1):
            return node.part
        return node

    return rewrite_pattern(resolved, change)
