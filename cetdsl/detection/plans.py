"""The problem that a plan is chosen for, and the two kinds of plans: orders and trees.

Variables are named by their *positions* in one conjunctive branch of a pattern. A set of variables is a whole number
whose bit ``i`` says whether variable ``i`` is in it; such a number is called a *mask* here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import attrs

from cetdsl.errors import InvalidNode, UnknownVariable, shown

#: A node of a tree: the position of a variable, or the pair of both its children.
Node: TypeAlias = "int | tuple[Node, Node]"


@attrs.frozen
class Variable:
    """A positive variable of a branch: one event, or a set of ``at_least`` to ``at_most`` events, None for any number.

    Parameters
    ----------
    name : str
    at_least : int
    at_most : int or None
    monotone : int
        The number of attributes that predicates make rise, or fall, from each event of a set to the next.

    Examples
    --------
    >>> Variable("a").kleene, Variable("b", at_most=None).kleene
    (False, True)
    """

    name: str
    at_least: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    at_most: int | None = 1
    monotone: int = attrs.field(default=0, validator=attrs.validators.ge(0))

    @property
    def kleene(self) -> bool:
        """Whether it binds sets of events."""
        return self.at_most != 1


def _closure(pairs: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Adds (a, c) for each (a, b) and (b, c)."""
    closed = set(pairs)
    while more := {(a, d) for a, b in closed for c, d in closed if b == c} - closed:
        closed |= more
    return frozenset(closed)


def _pairs(pairs: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    return frozenset(pairs)


def _positions(positions: Iterable[int]) -> tuple[int, ...]:
    return tuple(positions)


@attrs.frozen
class Problem:
    """The planning problem of one conjunctive branch, that is, of a pattern without OR.

    Parameters
    ----------
    variables : tuple of Variable
        The positive variables, by position.
    ordered : frozenset of (int, int)
        (i, j): every event of variable i is before every event of variable j. The constructor takes the transitive
        closure. Two variables in neither order, like those of AND, may come in any order.
    predicates : frozenset of (int, int)
        Pairs (i, j), i < j, with predicates that must hold for every event of i and every event of j. (i, i) stands for
        predicates on a single event or between repetitions.
    adjacent : frozenset of (int, int)
        Pairs with predicates between neighbours only, which are tested once for any number of bound events.
    rising : tuple of tuple
        Chains of variables that bind one event each, along which predicates make an attribute rise.
    window : float or None
        Length of a window, in the unit of time that rates are measured by. None if rates are numbers of events, as in a
        group that is one window.
    span : bool
        Whether a match may begin at any time (``WITHIN`` without ``SLIDE``). Otherwise windows have fixed borders.

    Examples
    --------
    >>> problem = Problem.sequence("a", "b", "c", predicates={(0, 2)})
    >>> sorted(problem.ordered)
    [(0, 1), (0, 2), (1, 2)]
    >>> problem.names, problem.everything
    (('a', 'b', 'c'), 7)
    """

    variables: tuple[Variable, ...]
    ordered: frozenset[tuple[int, int]] = attrs.field(default=frozenset(), converter=_closure)
    predicates: frozenset[tuple[int, int]] = attrs.field(default=frozenset(), converter=_pairs)
    adjacent: frozenset[tuple[int, int]] = attrs.field(default=frozenset(), converter=_pairs)
    window: float | None = None
    span: bool = False
    rising: tuple[tuple[int, ...], ...] = ()

    def __attrs_post_init__(self) -> None:
        assert self.variables, "a plan binds at least one variable"
        assert all(i != j for i, j in self.ordered), "no variable is before itself"
        for i, j in self.ordered | self.predicates | self.adjacent:
            assert 0 <= min(i, j) <= max(i, j) < len(self.variables), "pairs are of positions"
        assert all(i <= j for i, j in self.predicates | self.adjacent), "a pair of predicates names the lower first"

    @classmethod
    def sequence(cls, *names: str | Variable, predicates: Iterable[tuple[int, int]] = ()) -> Problem:
        """Returns the problem of ``SEQ(names)``."""
        pairs = frozenset(combinations(range(len(names)), 2))
        return cls(tuple(map(_variable, names)), pairs, frozenset(predicates))

    @classmethod
    def conjunction(cls, *names: str | Variable, predicates: Iterable[tuple[int, int]] = ()) -> Problem:
        """Returns the problem of ``AND(names)``."""
        return cls(tuple(map(_variable, names)), frozenset(), frozenset(predicates))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, by position."""
        return tuple(variable.name for variable in self.variables)

    @property
    def everything(self) -> int:
        """The mask of all variables."""
        return (1 << len(self.variables)) - 1


def _variable(variable: str | Variable) -> Variable:
    return Variable(variable) if isinstance(variable, str) else variable


def _check_positions(positions: Sequence[int], what: str) -> None:
    if not positions or sorted(positions) != list(range(len(positions))):
        raise InvalidNode(
            f"{what} {shown(positions)} does not hold each position from 0 on once",
            hint="write each variable of the branch once",
        )


@attrs.frozen
class OrderPlan:
    """A plan that binds one variable after the other.

    Parameters
    ----------
    order : tuple of int
        The positions of all variables of a branch, in the order in which they are bound.

    Examples
    --------
    >>> plan = OrderPlan((2, 1, 0))
    >>> plan.show(["a", "b", "c"])
    'c, b, a'
    >>> plan.masks
    (4, 6, 7)
    """

    order: tuple[int, ...] = attrs.field(converter=_positions)

    def __attrs_post_init__(self) -> None:
        _check_positions(self.order, "the order")

    @property
    def masks(self) -> tuple[int, ...]:
        """The variables that are bound after each step."""
        masks, mask = [], 0
        for position in self.order:
            mask |= 1 << position
            masks.append(mask)
        return tuple(masks)

    def show(self, names: Sequence[str]) -> str:
        """Returns the plan in words, with names of variables by position."""
        return ", ".join(self.steps(names))

    def steps(self, names: Sequence[str]) -> tuple[str, ...]:
        """Returns what each step binds."""
        return tuple(names[position] for position in self.order)


@attrs.frozen
class TreePlan:
    """A plan that joins the partial matches of two sets of variables at each node.

    Parameters
    ----------
    root : int or tuple
        The position of a variable if there is only one, else the pair of both children, each again of this form.

    Examples
    --------
    >>> plan = TreePlan(((0, 2), 1))
    >>> plan.show(["a", "b", "c"])
    '((a, c), b)'
    >>> plan.inner
    ((0, 2), ((0, 2), 1))
    >>> plan.masks
    (1, 4, 5, 2, 7)
    """

    root: Node

    def __attrs_post_init__(self) -> None:
        _check_positions([node for node in walk(self.root) if isinstance(node, int)], "the tree of")

    @property
    def inner(self) -> tuple[tuple[Node, Node], ...]:
        """The joins, each after those below it."""
        return tuple(node for node in walk(self.root) if not isinstance(node, int))

    @property
    def masks(self) -> tuple[int, ...]:
        """The variables bound in each node, leaves included, each after those below it."""
        return tuple(map(mask_of, walk(self.root)))

    def show(self, names: Sequence[str]) -> str:
        """Returns the plan in words, with names of variables by position."""
        return shown_node(self.root, names)

    def steps(self, names: Sequence[str]) -> tuple[str, ...]:
        """Returns each node, and its parts, in words."""
        return tuple(shown_node(node, names) for node in walk(self.root))


Plan: TypeAlias = OrderPlan | TreePlan


def walk(node: Node) -> Iterator[Node]:
    """Yields a node and all below it, children before parents and left before right.

    Examples
    --------
    >>> list(walk(((0, 1), 2)))
    [0, 1, (0, 1), 2, ((0, 1), 2)]
    """
    if not isinstance(node, int):
        yield from walk(node[0])
        yield from walk(node[1])
    yield node


def shown_node(node: Node, names: Sequence[str]) -> str:
    """Returns a node, and its parts, in words.

    Examples
    --------
    >>> shown_node((0, (2, 1)), "abc")
    '(a, (c, b))'
    """
    if isinstance(node, int):
        return names[node]
    return f"({shown_node(node[0], names)}, {shown_node(node[1], names)})"


def is_convex(mask: int, ordered: frozenset[tuple[int, int]]) -> bool:
    """Whether no variable outside a mask must come, in time, between two variables of the mask.

    Examples
    --------
    >>> in_turn = Problem.sequence("a", "b", "c").ordered
    >>> is_convex(0b110, in_turn), is_convex(0b101, in_turn)
    (True, False)
    """
    after = {b for a, b in ordered if mask >> a & 1}
    before = {a for a, b in ordered if mask >> b & 1}
    return not any(not mask >> position & 1 for position in after & before)


def is_free(one: int, other: int, problem: Problem) -> bool:
    """Whether the events of two variables may come in any order of time.

    Examples
    --------
    >>> is_free(0, 1, Problem.conjunction("a", "b")), is_free(0, 1, Problem.sequence("a", "b"))
    (True, False)
    """
    return one != other and not {(one, other), (other, one)} & problem.ordered


def mask_of(node: Node) -> int:
    """Returns the mask of the variables in and below a node.

    Examples
    --------
    >>> mask_of((0, (2, 3)))
    13
    """
    return 1 << node if isinstance(node, int) else mask_of(node[0]) | mask_of(node[1])


def members(mask: int) -> Iterator[int]:
    """Yields the positions in a mask, in ascending order.

    Examples
    --------
    >>> list(members(13))
    [0, 2, 3]
    """
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def pattern_order(problem: Problem) -> OrderPlan:
    """Returns the plan that binds the variables as the pattern names them.

    Examples
    --------
    >>> pattern_order(Problem.sequence("a", "b", "c")).order
    (0, 1, 2)
    """
    return OrderPlan(tuple(range(len(problem.variables))))


def given_orders(names: object, problems: Sequence[Problem], negated: Collection[str] = ()) -> tuple[OrderPlan, ...]:
    """Returns the plans that a user requests, one for each branch of a pattern.

    Parameters
    ----------
    names : list of str
        All positive variables of the pattern, in the order in which they are to be bound. A branch ignores those that
        it does not have.
    problems : sequence of Problem
        The branches.
    negated : collection of str
        The variables under NOT, which stand in no order.

    Returns
    -------
    tuple of OrderPlan

    Raises
    ------
    InvalidNode
        It is no list of names; a variable is named twice, is missing, or is negated.
    UnknownVariable
        The pattern has no such variable.

    Examples
    --------
    >>> branch = Problem.sequence("a", "b", "c")
    >>> given_orders(["c", "a", "b"], [branch])
    (OrderPlan(order=(2, 0, 1)),)
    >>> given_orders(["c", "a"], [branch])
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: the plan ['c', 'a'] leaves out 'b'
      hint: write each variable that is not under NOT once: a, b, c
    """
    known = tuple(dict.fromkeys(name for problem in problems for name in problem.names))
    every = f"write each variable that is not under NOT once: {', '.join(known)}"
    if isinstance(names, (str, bytes, Mapping)) or not isinstance(names, Sequence):
        raise InvalidNode(f"the plan {shown(names)} is not a list of variables", hint=every)
    for number, name in enumerate(names):
        if not isinstance(name, str):
            raise InvalidNode(f"{shown(name)} in a plan is not the name of a variable", hint=every)
        if name in negated:
            raise InvalidNode(
                f"the plan names {name!r}, which stands under NOT",
                hint="leave it out: it is checked as soon as all that it mentions is bound",
            )
        if name not in known:
            raise UnknownVariable.among(name, known)
        if name in names[:number]:
            raise InvalidNode(f"the plan {shown(list(names))} names {name!r} twice", hint=every)
    missing = [name for name in known if name not in names]
    if missing:
        raise InvalidNode(f"the plan {shown(list(names))} leaves out {', '.join(map(repr, missing))}", hint=every)
    return tuple(
        OrderPlan(tuple(problem.names.index(name) for name in names if name in problem.names)) for problem in problems
    )


def given_tree(asked: object, problems: Sequence[Problem], negated: Collection[str] = ()) -> tuple[TreePlan, ...]:
    """Returns the trees that a user requests, one for each branch of a pattern.

    Parameters
    ----------
    asked : list
        A pair of parts to be joined. Each part is the name of a variable, or again a pair. A branch ignores variables
        that it does not have.
    problems : sequence of Problem
        The branches.
    negated : collection of str
        The variables under NOT, which stand in no tree.

    Returns
    -------
    tuple of TreePlan
        The earlier part of a sequence is on the left.

    Raises
    ------
    InvalidNode
        A part is no pair; a variable is named twice, is missing, or is negated; or a variable stands, in time, between
        two that are joined without it.
    UnknownVariable
        The pattern has no such variable.

    Examples
    --------
    >>> branch = Problem.sequence("a", "b", "c")
    >>> given_tree([["c", "b"], "a"], [branch])
    (TreePlan(root=(0, (1, 2))),)
    >>> given_tree([["a", "c"], "b"], [branch])
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: a tree cannot join a and c before b, which stands between them in time
      hint: join neighbours first
    """
    given_orders(_leaves(asked), problems, negated)
    return tuple(TreePlan(_rooted(asked, problem)) for problem in problems)


def _leaves(part: object) -> list[object]:
    if not isinstance(part, (list, tuple)):
        return [part]
    if len(part) != 2:
        raise InvalidNode(
            f"{shown(part)} in a plan joins {len(part)} parts",
            hint='a node of a tree joins two, as in [["a", "b"], "c"]; an order is a list of names alone',
        )
    return [leaf for each in part for leaf in _leaves(each)]


def _rooted(asked: object, problem: Problem) -> Node:
    """The tree of one branch, without the variables that it does not have."""

    def node_of(part: object) -> Node | None:
        if isinstance(part, str):
            return problem.names.index(part) if part in problem.names else None
        assert isinstance(part, (list, tuple)), part
        nodes = [node for node in map(node_of, part) if node is not None]
        if len(nodes) < 2:
            return nodes[0] if nodes else None
        left, right = sorted(nodes, key=lambda node: mask_of(node) & -mask_of(node))
        mask = mask_of((left, right))
        if not is_convex(mask, problem.ordered):
            bound = " and ".join(problem.names[position] for position in members(mask))
            between = next(
                problem.names[position]
                for position in members(problem.everything & ~mask)
                if not is_convex(mask, problem.ordered & _around(position, mask))
            )
            raise InvalidNode(
                f"a tree cannot join {bound} before {between}, which stands between them in time",
                hint="join neighbours first",
            )
        return left, right

    root = node_of(asked)
    assert root is not None, "each branch has a variable"
    return root


def _around(position: int, mask: int) -> frozenset[tuple[int, int]]:
    """Returns all pairs of a position and one of a mask, in both directions."""
    inside = list(members(mask))
    return frozenset({(one, position) for one in inside} | {(position, one) for one in inside})
