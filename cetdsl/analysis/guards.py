"""Guards terms that may fail, so that they are only evaluated for events that their variable can bind.

A stream has events of many types. A division, or the conversion of a text to a number, fails for some values. It must
not fail for an event that the variable cannot bind.
"""

from __future__ import annotations

from collections.abc import Mapping

from cetdsl.analysis.types import category, is_integer, type_of
from cetdsl.ir.schema import Schema
from cetdsl.pattern.expressions import (
    ARITHMETIC,
    Binary,
    Call,
    Expr,
    Guarded,
    Literal,
    SparkColumn,
    Unary,
    strip,
    variables,
)

#: The conditions of variables by name; None for a variable without a condition.
Conditions = Mapping[str, Expr | None]
#: Functions that never fail: they have a value, or NULL, for all values of their arguments.
_TOTAL = (
    *("in", "isnull", "isnotnull", "equal_null", "string", "hash", "xxhash64", "length", "char_length", "concat_ws"),
    *("lower", "upper", "initcap", "trim", "ltrim", "rtrim", "concat", "substring", "reverse"),
    *("startswith", "endswith", "contains", "like", "ilike"),
)
#: Functions that never fail, unless they convert a text to a time or a number.
_TOTAL_UNLESS_READ = (
    *("year", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekofyear", "quarter", "hour", "minute"),
    *("second", "date_trunc", "to_date", "datediff", "unix_date", "unix_micros", "unix_millis", "unix_seconds"),
    *("unix_timestamp", "isnan", "sqrt", "exp", "ln", "log", "log2", "log10", "sin", "cos", "tan", "cbrt"),
)
#: Functions that never fail for a floating-point number.
_TOTAL_OF_A_REAL = ("abs", "round", "floor", "ceil", "sign")
#: Functions that never fail if all arguments have one type, or are numbers, so that no text is converted.
_TOTAL_OF_ONE_TYPE = ("coalesce", "nullif", "ifnull", "nvl", "greatest", "least")
#: Types to which all narrower whole numbers can be converted.
_WIDE = ("bigint", "double", "float")


def own_term(term: Expr, schema: Schema, conditions: Conditions) -> Expr:
    """Returns a term over the events of one variable as a term over an event's own row.

    A term that may fail is guarded by the variable's condition. If ``conditions`` lacks the variable, because it
    belongs to another side of an AND, the guard is FALSE, so that the term is evaluated for no event.
    """
    stripped = strip(term)
    condition = next((conditions.get(variable, Literal(False)) for variable in variables(term)), None)
    if condition is None or not may_fail(stripped, schema):
        return stripped
    return Guarded(strip(condition), stripped)


def may_fail(term: Expr, schema: Schema) -> bool:
    """Whether a term or predicate may fail for some values.

    It may if it divides, computes with numbers of few digits, calls a function that may fail, or is a Spark column.
    Adding a constant counts as safe, because times, for example, are far from the ends of their types.

    Examples
    --------
    >>> from cetdsl.ir.schema import Field
    >>> from cetdsl.pattern.expressions import Attribute
    >>> schema = Schema([Field("x", "int"), Field("y", "double"), Field("s", "string")])
    >>> x, y, s, one = Attribute("b", "x"), Attribute("b", "y"), Attribute("b", "s"), Literal(1)
    >>> terms = Binary("+", x, one), Binary("*", x, x), Binary("*", y, y), Binary("/", y, y), Binary("/", y, one)
    >>> [may_fail(term, schema) for term in (*terms, Call("int", (s,)), Call("bigint", (x,)))]
    [False, True, False, True, False, True, False]
    """
    return any(_fails(node, schema) for node in term.walk())


def _fails(node: Expr, schema: Schema) -> bool:
    """Whether the operation of a node fails for some values of its children."""
    if isinstance(node, Call):
        return not _is_total(node, [type_of(argument, schema) for argument in node.arguments])
    if isinstance(node, Unary):
        return node.op == "-" and not isinstance(node.operand, Literal) and not _is_real(node, schema)
    if not isinstance(node, Binary) or node.op not in ARITHMETIC:
        return isinstance(node, SparkColumn)
    if node.op in "/%":
        return not (isinstance(node.right, Literal) and node.right.value)
    is_moved = node.op != "*" and isinstance(node.left, Literal) != isinstance(node.right, Literal)
    return not is_moved and not _is_real(node, schema)


def _is_total(call: Call, types: list[str | None]) -> bool:
    """Whether a function never fails, given the types of its arguments."""
    name = call.name
    if name == "date_trunc":
        types = types[1:]  # the first one names a unit
    kinds = set(map(category, types))
    if name in _TOTAL or name.startswith("try_"):
        return True
    if name in _WIDE:
        return all(map(is_integer, types))
    if name in _TOTAL_OF_A_REAL:
        return types in (["float"], ["double"])
    if name in _TOTAL_OF_ONE_TYPE:
        return None not in types and (len(set(types)) == 1 or kinds == {"number"})
    return name in _TOTAL_UNLESS_READ and kinds.isdisjoint({None, "string"})


def _is_real(term: Expr, schema: Schema) -> bool:
    """Whether a term is a floating-point number, which may be infinite, or a time, which the calendar limits."""
    return type_of(term, schema) in ("float", "double", "date", "timestamp", "timestamp_ntz")
