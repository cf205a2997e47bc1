"""Terms as users write them: wrappers that overload Python's operators around nodes that keep true equality."""

from __future__ import annotations

import builtins
import datetime
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

import attrs

from cetdsl.analysis.functions import ROW_FUNCTIONS
from cetdsl.errors import AmbiguousTruth, InvalidNode, shown
from cetdsl.frontend.advised import Advised
from cetdsl.pattern.expressions import Aggregate, Attribute, Call, Expr, Length, Literal, Role, Unary, joined
from cetdsl.pattern.nodes import Event
from cetdsl.pattern.spans import is_finer
from cetdsl.pattern.text import unparse_expression

__all__ = [
    "Functions",
    "Occurrence",
    "Term",
    "avg",
    "col",
    "count",
    "first",
    "fn",
    "last",
    "length",
    "max",
    "min",
    "next_",
    "prev",
    "stddev",
    "stddev_pop",
    "sum",
    "to_expr",
    "var_pop",
    "variance",
]

#: The methods of Spark columns that terms have under another name.
_METHODS_OF_COLUMNS = {"isNull": "is_null()", "isNotNull": "is_not_null()"}


@attrs.frozen(eq=False, repr=False)
class Term(Advised):
    """A value or predicate over events; Python's operators make larger ones.

    Comparisons (``==`` too) and arithmetic make new terms, ``& | ~`` join predicates. A term has no truth value; it
    becomes one only when a query runs.

    Parameters
    ----------
    node : Expr
        The immutable node that the term stands for.

    Examples
    --------
    >>> from cetdsl.frontend.patterns import events
    >>> A, B = events("A", "B")
    >>> A.rate * 2 < B.rate
    A.rate * 2 < B.rate
    >>> (B.price > 10) & ~B.sector.isin("tech", "energy")
    B.price > 10 AND NOT B.sector IN ('tech', 'energy')
    >>> (A.id == B.id).node == (A.id == B.id).node
    True
    """

    node: Expr

    def __bool__(self) -> bool:
        raise AmbiguousTruth(
            f"the predicate {self!r} has no truth value until it runs",
            hint="join predicates with & | ~ instead of and, or, not; write (a < b) & (b < c) instead of a < b < c, "
            "and .isin(...) instead of in",
        )

    def __hash__(self) -> int:
        return hash(self.node)

    def __repr__(self) -> str:
        return unparse_expression(self.node, lenient=True)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return _binary("=", self, other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return _binary("!=", self, other)

    def __lt__(self, other: object) -> Term:
        return _binary("<", self, other)

    def __le__(self, other: object) -> Term:
        return _binary("<=", self, other)

    def __gt__(self, other: object) -> Term:
        return _binary(">", self, other)

    def __ge__(self, other: object) -> Term:
        return _binary(">=", self, other)

    def __add__(self, other: object) -> Term:
        return _binary("+", self, other)

    def __radd__(self, other: object) -> Term:
        return _binary("+", other, self)

    def __sub__(self, other: object) -> Term:
        return _binary("-", self, other)

    def __rsub__(self, other: object) -> Term:
        return _binary("-", other, self)

    def __mul__(self, other: object) -> Term:
        return _binary("*", self, other)

    def __rmul__(self, other: object) -> Term:
        return _binary("*", other, self)

    def __truediv__(self, other: object) -> Term:
        return _binary("/", self, other)

    def __rtruediv__(self, other: object) -> Term:
        return _binary("/", other, self)

    def __mod__(self, other: object) -> Term:
        return _binary("%", self, other)

    def __rmod__(self, other: object) -> Term:
        return _binary("%", other, self)

    def __neg__(self) -> Term:
        return Term(Unary("-", self.node))

    def __abs__(self) -> Term:
        return Term(Call("abs", (self.node,)))

    def __and__(self, other: object) -> Term:
        return _connective("and", self, other)

    def __rand__(self, other: object) -> Term:
        return _connective("and", other, self)

    def __or__(self, other: object) -> Term:
        return _connective("or", self, other)

    def __ror__(self, other: object) -> Term:
        return _connective("or", other, self)

    def __invert__(self) -> Term:
        return Term(Unary("not", self.node))

    def _spoken(self) -> str:
        return f"the term {self!r}"

    def _instead_of(self, name: str) -> str:
        if name in ("cast", "astype"):
            return f"a cast is a function by the name of its type: cet.fn.int({self!r}), cet.fn.date({self!r})"
        if name in _METHODS_OF_COLUMNS:
            return f"write {self!r}.{_METHODS_OF_COLUMNS[name]}"
        field = _instead_of_part(self, name)
        if any(name.lower() in group for group in ROW_FUNCTIONS.values()):
            return f"a function stands before what it is called with: cet.fn.{name}({self!r}); {field}"
        return field

    def __getitem__(self, key: object) -> NoReturn:
        raise InvalidNode(f"the term {self!r} has no parts, such as {shown(key)}", hint=_instead_of_part(self, key))

    # Without this, Python would take __getitem__ for an endless iteration.
    __iter__ = None

    def __pow__(self, other: object) -> NoReturn:
        self._refuse("**", f"cet.fn.pow({self!r}, {shown(other)})")

    def __rpow__(self, other: object) -> NoReturn:
        self._refuse("**", f"cet.fn.pow({shown(other)}, {self!r})")

    def __floordiv__(self, other: object) -> NoReturn:
        self._refuse("//", f"cet.fn.floor({self!r} / {shown(other)})")

    def __rfloordiv__(self, other: object) -> NoReturn:
        self._refuse("//", f"cet.fn.floor({shown(other)} / {self!r})")

    def __pos__(self) -> NoReturn:
        self._refuse("+ before a single value", f"{self!r}, and + before an event variable, +B, to repeat it")

    def __round__(self, digits: object = None) -> NoReturn:
        self._refuse("round", f"cet.fn.round({self!r}{'' if digits is None else f', {shown(digits)}'})")

    def _refuse(self, operator: str, instead: str) -> NoReturn:
        raise InvalidNode(f"terms have no operator {operator}", hint=f"write {instead}")

    def is_null(self) -> Term:
        """Whether the value is NULL.

        Returns
        -------
        Term
            A predicate.

        Examples
        --------
        >>> Term(Attribute("b", "x")).is_null()
        b.x IS NULL
        """
        return Term(Call("isnull", (self.node,)))

    def is_not_null(self) -> Term:
        """Whether the value is not NULL.

        Returns
        -------
        Term
            A predicate.

        Examples
        --------
        >>> Term(Attribute("b", "x")).is_not_null()
        b.x IS NOT NULL
        """
        return Term(Call("isnotnull", (self.node,)))

    def isin(self, *values: object) -> Term:
        """Whether the value is one of ``values``.

        Parameters
        ----------
        *values : Term or constant
            The values, one by one, or as one list, tuple or set.

        Returns
        -------
        Term
            A predicate.

        Raises
        ------
        InvalidNode
            If there is no value, or one of them cannot stand in a term.

        Examples
        --------
        >>> Term(Attribute("b", "x")).isin(1, 2)
        b.x IN (1, 2)
        """
        listed = values
        if len(values) == 1 and isinstance(values[0], (list, tuple)):
            listed = tuple(values[0])
        elif len(values) == 1 and isinstance(values[0], (set, frozenset)):
            # A set has no order of its own; equal queries should have equal text.
            listed = tuple(sorted(map(to_expr, values[0]), key=repr))
        if not listed:
            raise InvalidNode("isin needs at least one value", hint="a predicate that never holds is ~(B.x == B.x)")
        return Term(Call("in", (self.node, *map(to_expr, listed))))

    def between(self, low: object, high: object) -> Term:
        """Whether the value lies from ``low`` to ``high``, both included.

        Parameters
        ----------
        low, high : Term or constant
            The bounds.

        Returns
        -------
        Term
            A predicate.

        Raises
        ------
        InvalidNode
            If a bound cannot stand in a term.

        Examples
        --------
        >>> Term(Attribute("b", "x")).between(1, 5)
        b.x >= 1 AND b.x <= 5
        """
        return (self >= low) & (self <= high)

    def like(self, pattern: object) -> Term:
        """Whether the string matches a SQL pattern, in which ``%`` stands for any letters and ``_`` for one.

        Parameters
        ----------
        pattern : Term or str
            The pattern. Behind a backslash, ``%``, ``_`` and the backslash itself stand for themselves.

        Returns
        -------
        Term
            A predicate.

        Raises
        ------
        InvalidNode
            If the pattern cannot stand in a term.

        Examples
        --------
        >>> Term(Attribute("b", "name")).like("A%")
        b.name LIKE 'A%'
        """
        return Term(Call("like", (self.node, to_expr(pattern))))


def _instead_of_part(term: Term, key: object) -> str:
    """Returns what is written for a field of a struct, or for an entry of a map or an array."""
    if not isinstance(key, str):
        return f"an entry of an array or a map is cet.fn.element_at({term!r}, ...), and arrays count from 1"
    of = term.node.name if isinstance(term.node, Attribute) else "st"
    column = f"df.withColumn({key!r}, F.col({f'{of}.{key}'!r}))"
    return f"a field of a struct is made a column of the DataFrame first, {column}"


def to_expr(value: object) -> Expr:
    """The node of a term, or the constant node of a Python value.

    Parameters
    ----------
    value : Term, Expr, None, bool, int, float, str, Decimal, date, datetime, timedelta, or a NumPy scalar of these

    Returns
    -------
    Expr

    Raises
    ------
    InvalidNode
        If ``value`` is nothing of these; the hint names the usual remedy.

    Examples
    --------
    >>> to_expr(3)
    Literal(value=3)
    """
    if isinstance(value, Term):
        return value.node
    if isinstance(value, Expr):
        return value
    value = _of_python(value)
    if value is None or isinstance(value, (bool, datetime.datetime, datetime.date, datetime.timedelta, Decimal)):
        return Literal(value)
    # A subclass, such as an enum, would be a constant of a type of its own.
    if isinstance(value, int):
        return Literal(int(value))
    if isinstance(value, float):
        return Literal(float(value))
    if isinstance(value, str):
        return Literal(str.__str__(value))
    raise InvalidNode(f"{_shown(value)} cannot stand in a term", hint=_remedy(value))


def is_constant(value: object) -> bool:
    """Whether a value is of a type that constants have, in whatever range."""
    kinds = (bool, int, float, str, Decimal, datetime.date, datetime.timedelta)
    return value is None or isinstance(value, kinds) or _is_of_numpy(value)


def _of_python(value: Any) -> Any:
    """A scalar of NumPy or pandas as one of Python."""
    if _is_of_numpy(value):
        if value.dtype.kind not in "mM":
            return value.item()
        # Of nanoseconds NumPy makes whole numbers.
        short = value.astype(f"{value.dtype.kind}8[us]")
        if short != value and value == value:
            raise _too_fine(value)
        return short.item()
    if isinstance(value, (datetime.datetime, datetime.timedelta)):
        return _of_pandas(value)
    return value


def _is_of_numpy(value: object) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0


def _of_pandas(value: Any) -> Any:
    """A time or a length of pandas as one of Python."""
    if value != value:
        return None  # NaT, which pandas has for both
    if is_finer(value):
        raise _too_fine(value)
    for convert in ("to_pydatetime", "to_pytimedelta"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    return value


def _too_fine(value: Any) -> InvalidNode:
    return InvalidNode(f"{_shown(value)} has parts of a microsecond", hint="Spark's times have microseconds")


def _shown(value: object) -> str:
    return f"{shown(value, 60)} ({type(value).__name__})"


def is_spark_column(value: object) -> bool:
    """Whether ``value`` is a Column of classic Spark or Spark Connect; neither is imported for that.

    Examples
    --------
    >>> is_spark_column("amount > 1000")
    False
    """
    return any(kind.__name__ == "Column" and kind.__module__.startswith("pyspark.") for kind in type(value).__mro__)


def _remedy(value: object) -> str:
    if is_spark_column(value):
        return (
            "Spark columns do not know event variables: write B.price and cetdsl.fn.<name>(...); only the condition of "
            "event(name, condition) may be a Spark column"
        )
    if isinstance(value, (list, tuple, set, frozenset)):
        return "compare with several values by .isin(...)"
    if isinstance(getattr(value, "node", None), Event) or isinstance(value, Occurrence):
        return "name a column of the event, as in B.price"
    if callable(value):
        return "functions of Python cannot run here; use operators and cetdsl.fn.<name>(...)"
    return "use a term such as B.price, or None, bool, int, float, str, Decimal, date, datetime or timedelta"


def _binary(op: str, left: object, right: object) -> Term:
    return Term(joined(op, (to_expr(left), to_expr(right))))


def _connective(op: str, left: object, right: object) -> Term:
    for side in (left, right):
        if not isinstance(side, (Term, Expr, bool)):
            # 3 & B.x is what Python makes of B.y > 3 & B.x > 1.
            raise InvalidNode(
                f"{_shown(side)} is not a predicate",
                hint="put each comparison in parentheses: (B.x > 3) & (B.y < 2)",
            )
    return _binary(op, left, right)


def _name_of(variable: object, what: str) -> str:
    if isinstance(variable, str) and variable:
        return variable
    node = getattr(variable, "node", variable)
    if isinstance(node, Event):
        return node.variable
    raise InvalidNode(
        f"{what} needs an event variable, not {_shown(variable)}",
        hint="pass what events('A', 'B') or event('a') gives",
    )


def _refusing(what: str, hint: str, operator: str) -> Callable[[WithoutValue, object], NoReturn]:
    """Returns an operator of events that says that a column is meant."""

    def refuse(event: WithoutValue, _: object) -> NoReturn:
        name = event._named()
        raise InvalidNode(f"the event {name} {what}", hint=f"{hint}: {name}.price {operator} 5")

    return refuse


_not_compared = partial(_refusing, "cannot be compared", "compare a column")
_not_computed = partial(_refusing, "is no number", "compute with a column")


class WithoutValue:
    """Refuses to compare an event with a value, or to compute with it, by which one of its columns is meant."""

    __slots__ = ()

    __lt__, __le__, __gt__, __ge__ = map(_not_compared, ("<", "<=", ">", ">="))
    __add__, __sub__, __mul__, __truediv__, __mod__ = map(_not_computed, "+-*/%")
    __radd__, __rsub__, __rmul__, __rtruediv__, __rmod__ = map(_not_computed, "+-*/%")

    def _named(self) -> str:
        """Returns the event as text."""
        return repr(self)


@attrs.frozen(order=False, repr=False)
class Occurrence(WithoutValue):
    """One of the events bound to a variable: ``next_(B)``, ``first(B)``, ``B[2]``; its attributes are columns.

    Examples
    --------
    >>> next_("B").price, next_("B")["limit price"]
    (NEXT(B).price, NEXT(B).`limit price`)
    """

    _variable: str
    _role: Role
    _index: int | None = None

    def __getattr__(self, name: str) -> Term:
        if is_special(name):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Term:
        if not isinstance(name, str):
            raise InvalidNode(f"{name!r} is not the name of a column", hint="write next_(B)['price']")
        return Term(Attribute(self._variable, name, self._role, self._index))

    def __repr__(self) -> str:
        return repr(self["*"]).removesuffix(".`*`")


def is_special(name: str) -> bool:
    """Whether Python or IPython asks for ``name`` by itself, so that it cannot be a column.

    Examples
    --------
    >>> is_special("__len__"), is_special("_repr_html_"), is_special("_c0")
    (True, True, False)
    """
    return (name.startswith("__") and name.endswith("__")) or name.startswith(("_repr_", "_ipython_"))


def next_(variable: object) -> Occurrence:
    """The event that follows directly in the trend, when it is bound to ``variable``.

    Parameters
    ----------
    variable : EventVariable or str
        The variable, or its name.

    Returns
    -------
    Occurrence
        Its attributes (or ``["name"]``) are columns.

    Raises
    ------
    InvalidNode
        If the argument is no event variable.

    Examples
    --------
    >>> from cetdsl.frontend.patterns import event
    >>> B = event("B")
    >>> B.price < next_(B).price
    B.price < NEXT(B).price
    """
    return Occurrence(_name_of(variable, "next_"), Role.NEXT)


def prev(variable: object) -> Occurrence:
    """The event that directly precedes in the trend, when it is bound to ``variable``.

    Parameters
    ----------
    variable : EventVariable or str
        The variable, or its name.

    Returns
    -------
    Occurrence
        Its attributes (or ``["name"]``) are columns.

    Raises
    ------
    InvalidNode
        If the argument is no event variable.

    Examples
    --------
    >>> prev("B").price <= 5
    PREV(B).price <= 5
    """
    return Occurrence(_name_of(variable, "prev"), Role.PREV)


def first(variable: object) -> Occurrence:
    """The first event of the trend that is bound to ``variable``.

    Parameters
    ----------
    variable : EventVariable or str
        The variable, or its name.

    Returns
    -------
    Occurrence
        Its attributes (or ``["name"]``) are columns.

    Raises
    ------
    InvalidNode
        If the argument is no event variable.

    Examples
    --------
    >>> first("B").price < last("B").price
    FIRST(B).price < LAST(B).price
    """
    return Occurrence(_name_of(variable, "first"), Role.FIRST)


def last(variable: object) -> Occurrence:
    """The last event of the trend that is bound to ``variable``.

    Parameters
    ----------
    variable : EventVariable or str
        The variable, or its name.

    Returns
    -------
    Occurrence
        Its attributes (or ``["name"]``) are columns.

    Raises
    ------
    InvalidNode
        If the argument is no event variable.

    Examples
    --------
    >>> last("B").price
    LAST(B).price
    """
    return Occurrence(_name_of(variable, "last"), Role.LAST)


def col(name: str) -> Term:
    """A column of the event itself, for the condition of :func:`cetdsl.event`.

    Parameters
    ----------
    name : str
        The column.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the name is no string, or is empty.

    Examples
    --------
    >>> from cetdsl.frontend.patterns import event
    >>> event("big", col("amount") > 1000)
    EVENT(big, big.amount > 1000)
    """
    if not isinstance(name, str) or not name:
        raise InvalidNode(f"{_shown(name)} is not the name of a column", hint="write col('amount')")
    return Term(Attribute(None, name))


class Functions:
    """The functions of one row of ``pyspark.sql.functions``, over terms: ``fn.abs(B.x)``, ``fn["abs"](B.x)``.

    The name is checked when the query meets a DataFrame, not here.

    Examples
    --------
    >>> fn.abs(Term(Attribute("b", "x")) - 3) < 5
    abs(b.x - 3) < 5
    """

    def __getattr__(self, name: str) -> Callable[..., Term]:
        if is_special(name):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Callable[..., Term]:
        if not isinstance(name, str):
            raise InvalidNode(
                f"the name of a function is a string, not {shown(name)}", hint='write cetdsl.fn["abs"](B.x)'
            )

        def call(*arguments: object) -> Term:
            return Term(Call(name, tuple(map(to_expr, arguments))))

        call.__name__ = call.__qualname__ = name
        return call

    def __repr__(self) -> str:
        return "<the functions of pyspark.sql.functions, over terms>"


#: The one instance of :class:`Functions`.
fn = Functions()


def count(variable: object = None) -> Term:
    """Counts trends, or the events bound to a variable.

    As an aggregate, ``count()`` is the number of trends, and ``count(B)`` the number of events bound to ``B`` over all
    trends. In a predicate, ``count(B)`` is the number of events of one trend that are bound to ``B``, and ``count()``
    that of all its events, as :func:`length` gives it.

    Parameters
    ----------
    variable : EventVariable or str, optional
        The variable whose events are counted.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no event variable; a term, such as ``B.x``, is none.

    Examples
    --------
    >>> count(), count("B") >= 3
    (COUNT(*), COUNT(B) >= 3)
    """
    return Term(Aggregate("count", None if variable is None else _count_of(variable)))


def _count_of(variable: object) -> str:
    if isinstance(variable, Term):
        raise InvalidNode(
            f"count takes a variable, not the term {variable!r}",
            hint="count(B) counts events; filter NULLs with .where(B.x.is_not_null())",
        )
    return _name_of(variable, "count")


def _aggregate(function: str, term: object) -> Term:
    if not isinstance(term, (Term, Expr)):
        _refuse_aggregate(function, term)
    return Term(Aggregate(function, None, to_expr(term)))


def _refuse_aggregate(function: str, term: object) -> NoReturn:
    raise InvalidNode(
        f"{function} needs a term, not {_shown(term)}",
        hint=f"write {function}(B.price)"
        + (f"; Python's own function is builtins.{function}" if hasattr(builtins, function) else ""),
    )


def sum(term: object) -> Term:
    """The sum of a term over the events bound to its variable.

    Parameters
    ----------
    term : Term
        A numeric term over one variable, such as ``B.price * B.volume``.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> sum(Term(Attribute("B", "price")))
    SUM(B.price)
    """
    return _aggregate("sum", term)


def avg(term: object) -> Term:
    """The average of a term over the events bound to its variable, or of :func:`length` over trends.

    Parameters
    ----------
    term : Term
        A numeric term over one variable, such as ``B.price * B.volume``, or :func:`length`.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> avg(Term(Attribute("B", "price"))) > 10
    AVG(B.price) > 10
    """
    return _aggregate("avg", term)


def stddev(term: object) -> Term:
    """The standard deviation of a sample: the square root of :func:`variance`.

    Parameters
    ----------
    term : Term
        A numeric term over one variable, such as ``B.price * B.volume``.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> stddev(Term(Attribute("B", "price"))) > 2
    STDDEV(B.price) > 2
    """
    return _aggregate("stddev", term)


def stddev_pop(term: object) -> Term:
    """The standard deviation of a population: the square root of :func:`var_pop`.

    Parameters
    ----------
    term : Term
        A numeric term over one variable, such as ``B.price * B.volume``.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> stddev_pop(Term(Attribute("B", "price")))
    STDDEV_POP(B.price)
    """
    return _aggregate("stddev_pop", term)


def variance(term: object) -> Term:
    """The variance of a sample, the values of a term over the events bound to its variable; NULL for fewer than two.

    An event that is in two trends counts as two values. Of ``n`` values with the mean ``m`` it is the sum of
    ``(x - m) ** 2`` divided by ``n - 1``, as that of SQL's ``VAR_SAMP``.

    Parameters
    ----------
    term : Term
        A numeric term over one variable, such as ``B.price * B.volume``.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> variance(Term(Attribute("B", "price")))
    VARIANCE(B.price)
    """
    return _aggregate("variance", term)


def var_pop(term: object) -> Term:
    """The variance of a population, the values of a term over the events bound to its variable.

    An event that is in two trends counts as two values. Of ``n`` values with the mean ``m`` it is the sum of
    ``(x - m) ** 2`` divided by ``n``, as that of SQL's ``VAR_POP``.

    Parameters
    ----------
    term : Term
        A numeric term over one variable, such as ``B.price * B.volume``.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> var_pop(Term(Attribute("B", "price")))
    VAR_POP(B.price)
    """
    return _aggregate("var_pop", term)


def min(term: object) -> Term:
    """The least value of a term over the events bound to its variable, or of :func:`length` over trends.

    Parameters
    ----------
    term : Term
        A term over one variable whose values have an order, or :func:`length`.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> min(length())
    MIN(LENGTH)
    """
    return _aggregate("min", term)


def max(term: object) -> Term:
    """The greatest value of a term over the events bound to its variable, or of :func:`length` over trends.

    Parameters
    ----------
    term : Term
        A term over one variable whose values have an order, or :func:`length`.

    Returns
    -------
    Term

    Raises
    ------
    InvalidNode
        If the argument is no term, such as a variable without a column.

    Examples
    --------
    >>> max(Term(Attribute("B", "price")))
    MAX(B.price)
    """
    return _aggregate("max", term)


def length() -> Term:
    """The number of events of a trend.

    Returns
    -------
    Term

    Examples
    --------
    >>> length() >= 3, max(length())
    (LENGTH >= 3, MAX(LENGTH))
    """
    return Term(Length())
