"""Predicates and terms as frozen nodes with true equality.

A term mentions attributes of event variables; it never holds a Spark object, except in :class:`SparkColumn`,
whose equality is identity because Spark columns have none of their own.
"""

from __future__ import annotations

import datetime
import enum
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial, reduce
from itertools import islice
from typing import Any

import attrs

from cetdsl.aggregates.functions import FUNCTIONS, SPELLINGS
from cetdsl.aggregates.vocabulary import AggregateFunction
from cetdsl.errors import InvalidNode, shown

ARITHMETIC = ("+", "-", "*", "/", "%")
CONNECTIVES = ("and", "or")
AGGREGATES = tuple(FUNCTIONS)

#: The comparisons as functions of two values.
HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS = tuple(HOLDS)
#: The comparison with its sides exchanged: ``a < b`` says ``b > a``.
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: The comparison that holds exactly when the key does not (NULLs aside).
NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

#: The most levels of nested terms, or of nested patterns. Spark Connect reads about fifty levels, and Java's stack
#: allows somewhat more.
DEEPEST = 40
#: Operations whose long chains become balanced trees.
_BALANCED = ("and", "or", "+")
#: The depth from which on chains are balanced; shorter ones are joined from the left, as they are written.
_LONG = 16
#: The first whole number that has no place in Spark's BIGINT, and the most digits of its DECIMAL.
_BIGINT_END, _DECIMAL_DIGITS = 2**63, 38
#: The longest constant length of time, which Spark can add to any time of the years 1 to 9999.
LONGEST_INTERVAL = datetime.timedelta(days=10_000_000)
#: The bound below which positions of events in a trend lie.
_INDEX_END = 2**31


class Role(enum.Enum):
    """The event, among those bound to a variable, that an attribute refers to."""

    EACH = "each"
    NEXT = "next"
    PREV = "prev"
    FIRST = "first"
    LAST = "last"
    NTH = "nth"


class Expr:
    """Base of all terms and predicates."""

    __slots__ = ()
    depth = 1

    @property
    def children(self) -> tuple[Expr, ...]:
        """The direct sub-terms, left to right."""
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        """Returns the same node over other sub-terms."""
        return self

    def walk(self) -> Iterator[Expr]:
        """Yields this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def depth_over(children: Iterable[Any]) -> int:
    """Returns the number of levels of a node over these children; raises InvalidNode if Spark cannot read as many."""
    depth = 1 + max((child.depth for child in children), default=0)
    if depth > DEEPEST:
        raise InvalidNode(
            f"more than {DEEPEST} levels stand inside each other",
            hint="compute inner parts as columns of the DataFrame first, and leave out what changes nothing",
        )
    return depth


#: The default of the field ``depth``: the number of levels of a node, itself included.
DEPTH: Any = attrs.Factory(lambda self: depth_over(self.children), takes_self=True)


def check_text(_: Any, __: Any, value: Any) -> None:
    """Refuses text that is no valid Unicode, which neither Spark nor a file can store."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidNode(
                f"{value!r} holds half of a surrogate pair, which is no character",
                hint="decode what it was read from with the right encoding",
            ) from None


def check_name(_: Any, __: Any, value: Any) -> None:
    """Refuses a value that cannot be a name."""
    if value == "":
        raise InvalidNode("a name is empty", hint="name a column, or an event variable, by its letters")
    check_text(_, __, value)


def as_terms(terms: Iterable[Expr]) -> tuple[Expr, ...]:
    """Any sequence of terms as a tuple."""
    return tuple(terms)


@attrs.frozen
class Literal(Expr):
    """A constant that Spark can represent: None, bool, int, float, str, Decimal, date, datetime or timedelta."""

    value: Any = attrs.field(validator=check_text)

    def __attrs_post_init__(self) -> None:
        value = self.value
        if isinstance(value, int) and not -_BIGINT_END <= value < _BIGINT_END:
            raise InvalidNode(
                f"{shown(value)} is beyond the range of BIGINT",
                hint=f"up to {_DECIMAL_DIGITS} digits fit into a decimal: DECIMAL '...', in Python Decimal('...')",
            )
        if isinstance(value, Decimal):
            _check_decimal(value)
        if isinstance(value, datetime.timedelta) and abs(value) > LONGEST_INTERVAL:
            raise InvalidNode(
                f"an interval of {value.days} days is out of range",
                hint=f"the longest has {LONGEST_INTERVAL.days} days, which is more than the years 1 to 9999",
            )
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            try:
                value.astimezone(datetime.timezone.utc)
            except OverflowError:
                raise InvalidNode(
                    f"{value.isoformat(' ')} is not within the years 1 to 9999 in UTC", hint="write it without a zone"
                ) from None

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python but are different constants in SQL.
        if not isinstance(other, Literal) or type(self.value) is not type(other.value):
            return NotImplemented if not isinstance(other, Literal) else False
        return bool(self.value == other.value) or (self.value != self.value and other.value != other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), "nan" if self.value != self.value else self.value))


def _check_decimal(value: Decimal) -> None:
    digits = value.as_tuple()
    if not isinstance(digits.exponent, int):
        raise InvalidNode(f"{value} is no decimal", hint=f"only doubles have it: DOUBLE '{str(value).lstrip('-s')}'")
    whole, scale = len(digits.digits) + max(digits.exponent, 0), max(-digits.exponent, 0)
    if max(whole, scale) > _DECIMAL_DIGITS:
        raise InvalidNode(
            f"a decimal of {max(whole, scale)} digits is too long: there is place for {_DECIMAL_DIGITS}",
            hint="write a double, such as 1e50",
        )


@attrs.frozen
class Attribute(Expr):
    """A column of the events bound to a variable: ``b.price``, ``NEXT(b).price``, ``b[2].price``.

    ``variable`` is None only inside the condition of an event that has not been given its variable yet.
    ``index`` (0-based) belongs to ``Role.NTH`` alone.
    """

    variable: str | None = attrs.field(validator=check_text)
    name: str = attrs.field(validator=check_name)
    role: Role = Role.EACH
    index: int | None = None

    def __attrs_post_init__(self) -> None:
        if (self.role is Role.NTH) != (self.index is not None):
            raise InvalidNode("an index belongs to an n-th event, and only to it")
        if self.index is not None and self.index < 0:
            raise InvalidNode(
                f"the index of {self.variable}[{shown(self.index)}] is negative",
                hint=f"count from 0, or use LAST({self.variable})",
            )
        if self.index is not None and self.index >= _INDEX_END:
            raise InvalidNode(
                f"no trend is as long as the index of {self.variable}[{shown(self.index)}] asks for",
                hint=f"an index is below 2^31; LAST({self.variable}) is the last event",
            )


@attrs.frozen
class Unary(Expr):
    """``-x`` or ``NOT x``."""

    op: str = attrs.field(validator=attrs.validators.in_(("-", "not")))
    operand: Expr
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Unary(self.op, children[0])


@attrs.frozen
class Binary(Expr):
    """Arithmetic, a comparison, or AND / OR of two terms."""

    op: str = attrs.field(validator=attrs.validators.in_((*COMPARISONS, *ARITHMETIC, *CONNECTIVES)))
    left: Expr
    right: Expr
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Binary(self.op, *children)


@attrs.frozen
class Call(Expr):
    """A function of ``pyspark.sql.functions``, or ``in`` (a value, then the list it may be in)."""

    name: str = attrs.field(validator=check_text)
    arguments: tuple[Expr, ...] = attrs.field(converter=as_terms)
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.arguments

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Call(self.name, children)


@attrs.frozen
class Length(Expr):
    """The number of bindings of a trend."""


def _spelt(name: str) -> str:
    """The name of a function in its usual spelling."""
    return SPELLINGS.get(name, name)


@attrs.frozen
class Aggregate(Expr):
    """``COUNT(*)``, ``COUNT(b)``, ``SUM(b.x)``, ``MAX(LENGTH)``.

    In RETURN it runs over all trends, in WHERE over the events of one trend.

    Parameters
    ----------
    function : str
        The name of one of :data:`cetdsl.aggregates.functions.FUNCTIONS`, in any spelling.
    variable : str or None
        The variable that ``COUNT(b)`` counts; None for ``COUNT(*)`` and when there is an argument.
    argument : Expr or None
        What is aggregated: a term over one variable, or :class:`Length`.
    """

    function: str = attrs.field(converter=_spelt, validator=attrs.validators.in_(AGGREGATES))
    variable: str | None = attrs.field(default=None, validator=check_text)
    argument: Expr | None = None
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)

    def __attrs_post_init__(self) -> None:
        name, counts = self.function.upper(), self.definition.is_count
        if counts and self.argument is not None:
            raise InvalidNode(
                f"{name} takes a variable or *, not a term",
                hint=f"{name}(b) counts events; filter NULLs with a predicate on the variable",
            )
        if not counts and (self.argument is None or self.variable is not None):
            raise InvalidNode(f"{name} needs an attribute such as b.price, or LENGTH")
        if isinstance(self.argument, Length) and not self.definition.of_length:
            raise InvalidNode(f"{name}(LENGTH) is not an aggregate", hint="use AVG, MIN or MAX of LENGTH, or COUNT(b)")

    @property
    def definition(self) -> AggregateFunction:
        """The definition of the function."""
        return FUNCTIONS[self.function]

    @property
    def children(self) -> tuple[Expr, ...]:
        return () if self.argument is None else (self.argument,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Aggregate(self.function, self.variable, children[0] if children else None)


@attrs.frozen(eq=False)
class SparkColumn(Expr):
    """A condition that the user wrote as a Spark column; opaque, so equal only to itself."""

    column: Any


@attrs.frozen
class Guarded(Expr):
    """The value of a term for events for which a condition holds, and NULL for all others.

    It occurs in plans, never in a query. So a term that fails for some values, for example by a division by zero, is
    not evaluated for an event that its variable cannot bind.
    """

    condition: Expr
    term: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.condition, self.term

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Guarded(*children)


def attributes(expr: Expr) -> list[Attribute]:
    """All attributes that a term mentions, in reading order, with repetitions."""
    return [node for node in expr.walk() if isinstance(node, Attribute)]


def aggregates(expr: Expr) -> list[Aggregate]:
    """All aggregates inside a term."""
    return [node for node in expr.walk() if isinstance(node, Aggregate)]


def variables(expr: Expr) -> list[str]:
    """The variables that a term mentions, each once, in reading order."""
    found: dict[str, None] = {}
    for node in expr.walk():
        if isinstance(node, (Attribute, Aggregate)) and node.variable is not None:
            found.setdefault(node.variable)
    return list(found)


def conjuncts(expr: Expr) -> list[Expr]:
    """The parts of a conjunction, left to right.

    Examples
    --------
    >>> x, y = Attribute("a", "x"), Attribute("a", "y")
    >>> len(conjuncts(Binary("and", Binary("<", x, y), Binary("and", x, y))))
    3
    """
    return operands(expr, "and")


def operands(expr: Expr, op: str) -> list[Expr]:
    """Returns the operands that an operation joins, left to right, however it is nested."""
    return list(_operands(expr, op))


def _operands(expr: Expr, op: str) -> Iterator[Expr]:
    if isinstance(expr, Binary) and expr.op == op:
        yield from _operands(expr.left, op)
        yield from _operands(expr.right, op)
    else:
        yield expr


def conjunction(parts: Sequence[Expr]) -> Expr:
    """The parts joined by AND; TRUE when there are none."""
    return joined("and", parts) if parts else Literal(True)


def joined(op: str, parts: Sequence[Expr]) -> Expr:
    """The parts joined by an operation: from the left, or as a balanced tree if they are very many.

    Every tree of AND, OR and + that users build is made here, so that Spark can read one of some hundred parts.

    Examples
    --------
    >>> parts = [Attribute("a", f"x{n}") for n in range(1000)]
    >>> joined("or", parts[:3]) == Binary("or", Binary("or", parts[0], parts[1]), parts[2])
    True
    >>> joined("or", parts).depth
    11
    """
    whole = parts[0]
    for part in parts[1:]:
        whole = _joined(op, whole, part)
    return whole


def _joined(op: str, left: Expr, right: Expr) -> Expr:
    """Joins two terms; appending to a long chain takes time logarithmic in its length."""
    if op not in _BALANCED:
        return Binary(op, left, right)
    if _is_long(left, op):
        return reduce(partial(_with_last, op), operands(right, op), left)
    if max(left.depth, right.depth) < _LONG:
        return Binary(op, left, right)
    return reduce(partial(_with_last, op), (*operands(left, op), *operands(right, op)))


def _is_long(expr: Expr, op: str) -> bool:
    """Whether an operation joins so many operands that their tree has been balanced."""
    return next(islice(_operands(expr, op), _LONG, None), None) is not None


def _with_last(op: str, tree: Expr, last: Expr) -> Expr:
    """Returns a balanced tree with one more operand at its end, placed such that the tree stays balanced."""
    if isinstance(tree, Binary) and tree.op == op:
        right = _with_last(op, tree.right, last)
        if right.depth < tree.depth:
            return Binary(op, tree.left, right)
    return Binary(op, tree, last)


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The term rebuilt bottom-up, each node replaced by ``change(node)``."""
    children = expr.children
    rebuilt = tuple(transform(child, change) for child in children)
    return change(expr if rebuilt == children else expr.with_children(rebuilt))


def with_attributes(expr: Expr, change: Callable[[Attribute], Attribute]) -> Expr:
    """The term with each attribute replaced by ``change(attribute)``."""
    return transform(expr, lambda node: change(node) if isinstance(node, Attribute) else node)


def bind_attributes(expr: Expr, variable: str) -> Expr:
    """The condition of an event with its own columns given to ``variable``."""
    return with_attributes(expr, lambda a: attrs.evolve(a, variable=variable) if a.variable is None else a)


def rename_variables(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The term with other names for some variables of its columns.

    Examples
    --------
    >>> rename_variables(Attribute("a", "x"), {"a": "b"}).variable
    'b'
    """

    def renamed(attribute: Attribute) -> Attribute:
        own = attribute.variable
        return attribute if own is None else attrs.evolve(attribute, variable=names.get(own, own))

    return with_attributes(expr, renamed)


def strip(expr: Expr) -> Expr:
    """A one-event term as a term over that event's own row."""
    return with_attributes(expr, lambda attribute: Attribute(None, attribute.name))
