"""Chooses predicates that are equivalent to all those between the events of an AND.

The chosen predicates form a forest over the variables or, if a span bounds all events together, a clique.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import combinations

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.machine import Pair

#: A variable, and the column of it that is compared.
_Term = tuple[int, int]
#: Two variables, the smaller number first.
_Link = tuple[int, int]


def forest_of(compiled: Compiled) -> tuple[Pair, ...] | str:
    """Returns equivalent predicates whose graph over the variables has no cycle; or why there are none.

    An edge of this graph may stand for any number of equalities and one other comparison. Among terms that are all
    equal, other equalities may be chosen: of ``a.x = b.x``, ``b.x = c.x`` and ``a.x = c.x`` each two imply the third.
    """
    pairs = tuple(dict.fromkeys(map(_turned, compiled.pairs)))
    forest = _Forest()
    for pair in pairs:
        if pair.op == "=":
            continue
        link = pair.left_variable, pair.right_variable
        if link in forest.links:
            return f"two comparisons other than = relate {_named(compiled, link)}"
        if not forest.joins(link):
            return _circle(compiled, link)
        forest.pairs.append(pair)
    # Two equal terms leave no choice of what to compare, so small groups come first.
    for terms in sorted(_equal_terms(pairs), key=len):
        if not forest.equates(terms):
            return _circle(compiled, _link_of(terms[0], terms[-1]))
    return tuple(forest.pairs)


def clique_of(compiled: Compiled) -> tuple[Pair, ...] | str:
    """Returns equivalent predicates between each two variables; or why there are none.

    Once the event of any one variable is given, this event alone must decide which events the others may bind. That is
    so for two variables, for any number of variables that must all be equal in the same terms, and for variables that
    no predicate relates.
    """
    pairs = tuple(dict.fromkeys(map(_turned, compiled.pairs)))
    variables = set(compiled.machine.variables)
    if len(variables) == 2:
        return forest_of(compiled)
    for pair in pairs:
        if pair.op != "=":
            link = _named(compiled, (pair.left_variable, pair.right_variable))
            return f"a span bounds {len(variables)} events together, and {link} are compared by {pair.op}"
    classes = _equal_terms(pairs)
    for terms in classes:
        if {variable for variable, _ in terms} != variables:
            equal = " and ".join(dict.fromkeys(compiled.name_of(variable) for variable, _ in terms))
            return f"a span bounds {len(variables)} events together, and of them only {equal} must be equal"
    return tuple(
        Pair("=", *one, *other) for terms in classes for one, other in combinations(terms, 2) if one[0] != other[0]
    )


class _Classes:
    """Disjoint sets of things that are connected (union-find)."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def of(self, thing: Hashable) -> Hashable:
        """Returns the representative of all things that are connected with this one."""
        while thing in self._above:
            thing = self._above[thing]
        return thing

    def join(self, one: Hashable, other: Hashable) -> bool:
        """Connects two things; returns whether they were not connected before."""
        ends = self.of(one), self.of(other)
        if ends[0] != ends[1]:
            self._above[ends[0]] = ends[1]
        return ends[0] != ends[1]


class _Forest:
    """The predicates chosen so far, and the variables that they link."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.links: set[_Link] = set()
        self._linked = _Classes()

    def joins(self, link: _Link) -> bool:
        """Adds a link, unless this closes a cycle; returns whether it was added."""
        added = self._linked.join(*link)
        if added:
            self.links.add(link)
        return added

    def equates(self, terms: list[_Term]) -> bool:
        """Adds equalities that make some terms equal; returns whether this is possible without a cycle."""
        equal = _Classes()
        # Pairs of variables that are linked already come first, so that new links are made only where needed.
        for one, other in sorted(combinations(terms, 2), key=lambda two: _link_of(*two) not in self.links):
            link = _link_of(one, other)
            if link[0] == link[1] or equal.of(one) == equal.of(other):
                continue
            if link in self.links or self.joins(link):
                equal.join(one, other)
                self.pairs.append(Pair("=", *one, *other))
        return len({equal.of(term) for term in terms}) == 1


def _turned(pair: Pair) -> Pair:
    """Returns the predicate with the smaller variable on the left."""
    if pair.left_variable < pair.right_variable:
        return pair
    return pair.turned


def _equal_terms(pairs: tuple[Pair, ...]) -> list[list[_Term]]:
    """Returns the groups of terms that equalities make equal."""
    groups: list[set[_Term]] = []
    for pair in pairs:
        if pair.op == "=":
            terms = {(pair.left_variable, pair.left), (pair.right_variable, pair.right)}
            touched = [group for group in groups if group & terms]
            groups = [group for group in groups if not group & terms]
            groups.append(terms.union(*touched))
    return [sorted(group) for group in groups]


def _link_of(one: _Term, other: _Term) -> _Link:
    return min(one[0], other[0]), max(one[0], other[0])


def _named(compiled: Compiled, link: _Link) -> str:
    return " and ".join(compiled.name_of(number) for number in link)


def _circle(compiled: Compiled, link: _Link) -> str:
    return f"the predicates relate the variables in a circle, through {_named(compiled, link)}"
