"""Finds the types of terms, as Spark's simple strings, and type errors before anything runs.

An unknown type (None) never causes an error: Spark itself judges what is not known here.
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import NamedTuple

from cetdsl.aggregates.vocabulary import Input, Result
from cetdsl.analysis.functions import CASTS
from cetdsl.errors import CetdslError, QueryTypeError
from cetdsl.ir.schema import Schema
from cetdsl.pattern.expressions import (
    ARITHMETIC,
    COMPARISONS,
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Guarded,
    Length,
    Literal,
    Unary,
    strip,
)
from cetdsl.pattern.text import quote

LENGTHS_HINT = "a length of time is INTERVAL '5' MINUTE, in Python timedelta(minutes=5)"
INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: The number of digits that every value of an integer type fits.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
#: Types without an order, also nested in others; the names of struct fields, which may be such words, do not match.
_UNORDERED = re.compile(r"(?:^|[<:,])(?:map<|geometry\(|geography\(|(?:variant|interval)(?=$|[>,]))")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
#: The texts that Spark reads as dates and timestamps: a date or the beginning of one, a time of the day, or both.
_TIME = re.compile(r"[+-]?([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?|T?[0-9]{1,2}:.*", re.DOTALL)

_STRING_FUNCTIONS = ("lower", "upper", "concat_ws", "trim", "ltrim", "rtrim", "initcap")
_BOOLEAN_FUNCTIONS = (
    *("in", "isnull", "isnotnull", "isnan", "like", "ilike", "rlike"),
    *("contains", "startswith", "endswith", "equal_null", "regexp_like"),
)
_INT_FUNCTIONS = (
    *("length", "char_length", "year", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "quarter"),
    *("weekofyear", "hour", "minute", "second", "datediff", "size", "ascii", "instr"),
)
_DOUBLE_FUNCTIONS = ("sqrt", "exp", "log", "ln", "log2", "log10", "pow", "power", "sin", "cos", "tan", "cbrt")
_FIXED = {
    **{name: "decimal(10,0)" if name == "decimal" else name for name in CASTS},
    **dict.fromkeys(_STRING_FUNCTIONS, "string"),
    **dict.fromkeys(_BOOLEAN_FUNCTIONS, "boolean"),
    **dict.fromkeys(_INT_FUNCTIONS, "int"),
    **dict.fromkeys(_DOUBLE_FUNCTIONS, "double"),
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp", "unix_seconds", "unix_millis", "unix_micros"), "bigint"),
    "unix_date": "int",
    "to_date": "date",
    "to_timestamp_ntz": "timestamp_ntz",
    "date_trunc": "timestamp",
    "to_timestamp": "timestamp",
}
#: Functions whose result is a text for texts, and bytes or a list for bytes or lists.
_PARTS = ("concat", "substring")
#: Functions whose result is a time with or without a zone, depending on a setting.
_BY_SETTING = ("to_timestamp", "timestamp")
_SAME_AS_ARGUMENTS = ("coalesce", "greatest", "least", "nullif", "ifnull", "nvl")


def category(type_: str | None) -> str | None:
    """The family within which types can be compared; None when it is not known.

    Examples
    --------
    >>> category("decimal(10,2)"), category("timestamp_ntz"), category("array<int>"), category("void")
    ('number', 'instant', 'array', None)
    """
    if type_ is None:
        return None
    head = re.split(r"[(<\s]", type_.lower(), maxsplit=1)[0]
    if head in INTEGERS or head in ("float", "double", "decimal"):
        return "number"
    if head in ("string", "char", "varchar"):
        return "string"
    if head in ("date", "timestamp", "timestamp_ntz"):
        return "instant"
    return head if head in ("boolean", "binary", "interval", "array", "struct", "map", "variant") else None


def is_integer(type_: str | None) -> bool:
    """Whether a type is one of the whole numbers."""
    return type_ in INTEGERS


def decimal_digits(type_: str | None) -> tuple[int, int] | None:
    """Precision and scale of a decimal or integer type; None for others.

    Examples
    --------
    >>> decimal_digits("decimal(10,2)"), decimal_digits("int"), decimal_digits("double")
    ((10, 2), (10, 0), None)
    """
    if type_ in _DIGITS:
        return _DIGITS[type_], 0
    match = _DECIMAL.fullmatch(type_ or "")
    return (int(match[1]), int(match[2])) if match else None


def is_orderable(type_: str | None) -> bool:
    """Whether values can be compared and sorted; unknown types can.

    Examples
    --------
    >>> is_orderable("struct<map:int,l:array<interval day to second>>"), is_orderable("struct<a:variant,b:int>")
    (True, False)
    """
    return type_ is None or not _UNORDERED.search(type_.lower())


def is_collated(type_: str | None) -> bool:
    """Whether values are, or hold, texts of a collation other than Spark's default: equal ones may differ in bytes.

    Examples
    --------
    >>> is_collated("array<string collate UTF8_LCASE>"), is_collated("struct<collate:string>"), is_collated(None)
    (True, False, False)
    """
    return type_ is not None and "string collate " in type_.lower()


def type_of(expr: Expr, schema: Schema) -> str | None:
    """The type of a term whose names are resolved, or None.

    Examples
    --------
    >>> from cetdsl.ir.schema import Field
    >>> schema = Schema([Field("x", "int"), Field("y", "double")])
    >>> type_of(Binary("+", Attribute("a", "x"), Attribute("a", "y")), schema)
    'double'
    """
    return TypeCheck(schema).infer(expr)


def are_of_one_type(left: Expr, right: Expr, schema: Schema) -> bool:
    """Whether two terms, each over events of one variable, have the same type under all settings of the session.

    Examples
    --------
    >>> from cetdsl.ir.schema import Field
    >>> schema = Schema([Field("x", "double"), Field("d", "decimal(10,2)"), Field("t", "timestamp")])
    >>> x, d, t = Attribute("a", "x"), Attribute("a", "d"), Attribute("b", "t")
    >>> half, later = Binary("/", d, Literal(2)), Binary("+", t, Literal(datetime.timedelta(hours=1)))
    >>> [are_of_one_type(*pair, schema) for pair in ((x, Binary("*", x, Literal(2))), (half, half), (t, later))]
    [True, True, True]
    >>> are_of_one_type(half, Binary("/", d, Literal(30000)), schema)
    False
    """
    if strip(left) == strip(right):
        return True
    types = type_of(left, schema), type_of(right, schema)
    return types[0] is not None and types[0] == types[1] and _is_settled(left, schema) and _is_settled(right, schema)


def are_compared_in_order(left: Expr, right: Expr, schema: Schema) -> bool:
    """Whether the values of both terms keep their order in the common type in which Spark compares them.

    Numbers do, and so do dates. Local times do not if a clock is set forward, nor do texts that become numbers.

    Examples
    --------
    >>> from cetdsl.ir.schema import Field
    >>> schema = Schema([Field("i", "int"), Field("x", "double"), Field("s", "string"), Field("d", "date")])
    >>> i, x, s, d = (Attribute("a", name) for name in "ixsd")
    >>> [are_compared_in_order(*pair, schema) for pair in ((i, x), (i, s), (d, d))]
    [True, False, True]
    """
    types = type_of(left, schema), type_of(right, schema)
    families = {category(kind) for kind in types}
    return families == {"number"} or (families == {"instant"} and ("date" in types or types[0] == types[1]))


def _is_settled(term: Expr, schema: Schema) -> bool:
    """Whether the type of a term does not depend on the session's settings.

    Settings decide how many digits computed decimals have, and whether texts become instants or local times.
    """
    kind = type_of(term, schema)
    if kind is None or isinstance(term, (Attribute, Literal)):
        return kind is not None
    if "decimal" in kind or category(kind) != "instant" or kind == "date":
        return "decimal" not in kind
    if isinstance(term, Call) and term.name in _SAME_AS_ARGUMENTS:
        return all(_is_settled(argument, schema) for argument in term.arguments)
    if isinstance(term, Call):
        return term.name not in _BY_SETTING
    # A time plus or minus a length has the type of the time.
    return any(type_of(part, schema) == kind and _is_settled(part, schema) for part in term.children)


class TypeCheck:
    """Infers types bottom-up and collects the errors on the way in ``errors``."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.errors: list[CetdslError] = []

    def infer(self, expr: Expr) -> str | None:
        """The type of a term, or None when it is unknown or wrong."""
        if isinstance(expr, Literal):
            return literal_type(expr.value)
        if isinstance(expr, Attribute):
            return self.schema.type_of(expr.name)
        if isinstance(expr, Length):
            return "bigint"
        if isinstance(expr, Aggregate):
            return self._aggregate(expr)
        if isinstance(expr, Unary):
            return self._unary(expr)
        if isinstance(expr, Binary):
            return self._binary(expr)
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, Guarded):
            return self.infer(expr.term)
        return None

    def require_boolean(self, expr: Expr, what: str) -> None:
        """Note an error unless the term is a predicate."""
        type_ = self.infer(expr)
        if type_ not in (None, "boolean", "void"):
            self._wrong(f"{what} {quote(expr)} is of type {type_}, not boolean", "compare it with something")

    def _wrong(self, message: str, hint: str) -> None:
        self.errors.append(QueryTypeError(message, hint=hint))

    def _aggregate(self, expr: Aggregate) -> str | None:
        inner, function = None if expr.argument is None else self.infer(expr.argument), expr.definition
        if function.is_count:
            return "bigint"
        # Every known type is judged here, even one without a category, as it would otherwise fail in a worker.
        if function.input is Input.NUMBERS and inner is not None and category(inner) != "number":
            self._wrong(f"{quote(expr)} needs numbers, but its argument is of type {inner}", "use COUNT, MIN or MAX")
            return None
        if not is_orderable(inner):
            self._wrong(f"{quote(expr)} needs an order, but its argument is of type {inner}", "use COUNT")
            return None
        if function.finish.result is Result.DOUBLE:
            return "double"
        if function.finish.result is Result.TOTAL:
            return "bigint" if is_integer(inner) else inner if inner is None or "decimal" in inner else "double"
        return inner

    def _unary(self, expr: Unary) -> str | None:
        if expr.op == "not":
            self.require_boolean(expr.operand, "the operand")
            return "boolean"
        type_ = self.infer(expr.operand)
        if category(type_) not in ("number", "interval", None):
            self._wrong(f"- needs a number, but {quote(expr.operand)} is of type {type_}", "negate numbers only")
            return None
        return type_

    def _binary(self, expr: Binary) -> str | None:
        if expr.op in ARITHMETIC:
            return self._arithmetic(expr)
        if expr.op in COMPARISONS:
            self._compare(expr.left, expr.right, in_order=expr.op not in ("=", "!="))
        else:
            self.require_boolean(expr.left, "the operand")
            self.require_boolean(expr.right, "the operand")
        return "boolean"

    def _compare(self, left: Expr, right: Expr, in_order: bool = False) -> None:
        types = self.infer(left), self.infer(right)
        for side, type_ in zip((left, right), types, strict=True):
            if not is_orderable(type_):
                self._wrong(f"{quote(side)} cannot be compared: it is of type {type_}", "compare its parts instead")
                return
        kinds = category(types[0]), category(types[1])
        if None in kinds or kinds[0] == kinds[1]:
            return
        literal = [isinstance(side, Literal) for side in (left, right)]
        if set(kinds) == {"string", "instant"} and literal[kinds.index("string")]:
            self._check_time(*(left, right) if kinds[0] == "string" else (right, left))
            return
        message = f"cannot compare {quote(left)} ({types[0]}) with {quote(right)} ({types[1]})"
        if set(kinds) == {"string", "number"} and any(literal):
            if literal[kinds.index("string")]:
                hint = "write the number without quotes"
            elif in_order:
                hint = "cast the column to a number before asking; in quotes the number is a text, and '9' > '10'"
            else:
                hint = "write the number in quotes"
            self._wrong(message, hint)
        else:
            of_length = "interval" in kinds and "number" in kinds
            self._wrong(message, LENGTHS_HINT if of_length else "cast one of the columns before asking")

    def _check_time(self, text: Expr, other: Expr) -> None:
        """Records an error if a constant text that is compared with a time is no time."""
        assert isinstance(text, Literal)
        if not may_be_time(text.value):
            hint = "write it as '2024-02-29' or '2024-02-29 12:30:00'"
            self._wrong(f"{quote(text)} is no time, and is compared with {quote(other)}, which is one", hint)

    def _arithmetic(self, expr: Binary) -> str | None:
        types = self.infer(expr.left), self.infer(expr.right)
        kinds = category(types[0]), category(types[1])
        if None in kinds:
            return None
        if kinds == ("number", "number"):
            return _number(expr.op, *(_number_of(side, str(t)) for side, t in zip((expr.left, expr.right), types)))
        if expr.op == "-" and kinds == ("instant", "instant"):
            return "interval day" if types == ("date", "date") else "interval day to second"
        if expr.op in ("+", "-") and types[0] == "date" and is_integer(types[1]):
            return "date"
        if expr.op in ("+", "-") and kinds == ("instant", "interval"):
            return _moved(str(types[0]), str(types[1]))
        if expr.op == "+" and kinds == ("interval", "instant"):
            return _moved(str(types[1]), str(types[0]))
        scaled = set(kinds) == {"interval", "number"} and expr.op in ("*", "/")
        if scaled or (kinds == ("interval", "interval") and expr.op in ("+", "-")):
            return None
        wrong = 0 if kinds[0] != "number" else 1
        side = (expr.left, expr.right)[wrong]
        hints = {"string": "cast the column to a number before asking", "instant": LENGTHS_HINT}
        self._wrong(
            f"{expr.op} needs numbers, but {quote(side)} is of type {types[wrong]}",
            hints.get(str(kinds[wrong]), "use a numeric column"),
        )
        return None

    def _call(self, expr: Call) -> str | None:
        types = [self.infer(argument) for argument in expr.arguments]
        if expr.name == "in":
            for option in expr.arguments[1:]:
                self._compare(expr.arguments[0], option)
        if expr.name in _FIXED:
            return _FIXED[expr.name]
        if expr.name in ("abs", "round", "negative", "positive") and types:
            exact = expr.name != "round" or is_integer(types[0]) or types[0] in ("float", "double")
            return types[0] if exact and category(types[0]) != "string" else None
        if expr.name in ("ceil", "floor") and len(types) == 1:
            return "bigint" if is_integer(types[0]) or types[0] in ("float", "double") else None
        if expr.name in _PARTS:
            texts = types if expr.name == "concat" else types[:1]
            return "string" if set(texts) == {"string"} else None
        if expr.name in _SAME_AS_ARGUMENTS and len(set(types)) == 1:
            return types[0]
        return None


def may_be_time(text: str) -> bool:
    """Whether Spark may read a text as a date or a timestamp; the format of the time of day is not checked.

    Examples
    --------
    >>> [may_be_time(text) for text in ("2024-02-29 12:30", "2024", "12:30", "2024-02-30", "29.2.2024", "yesterday")]
    [True, True, True, False, False, False]
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return False
    year, month, day = (int(part or 1) for part in found.groups())
    try:
        datetime.date(2000 + year % 400, month, day)  # the calendar repeats itself after so many years
    except ValueError:
        return False
    return True


def literal_type(value: object) -> str | None:
    """The type that a constant has in Spark.

    Examples
    --------
    >>> literal_type(True), literal_type(7), literal_type(2**40), literal_type("x"), literal_type(None)
    ('boolean', 'int', 'bigint', 'string', None)
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "int" if -(2**31) <= value < 2**31 else "bigint"
    if isinstance(value, decimal.Decimal) and value.is_finite():
        digits = value.as_tuple()
        scale = max(-int(digits.exponent), 0)
        return f"decimal({max(len(digits.digits) + max(int(digits.exponent), 0), scale)},{scale})"
    if isinstance(value, datetime.datetime):
        return "timestamp"
    names = {
        float: "double",
        str: "string",
        datetime.date: "date",
        bytes: "binary",
        datetime.timedelta: "interval day to second",
    }
    return names.get(type(value))


class _Number(NamedTuple):
    """The type of a number, and its precision and scale if it is a whole or a decimal one."""

    type: str
    digits: tuple[int, int] | None


def _moved(instant: str, interval: str) -> str:
    """The type of the sum of an instant and an interval: a date stays a date unless hours are added."""
    has_hours = any(unit in interval for unit in ("hour", "minute", "second"))
    return "timestamp" if instant == "date" and has_hours else instant


def _number_of(side: Expr, type_: str) -> _Number:
    """Returns the type of a number as arithmetic sees it: a constant has no more digits than are written."""
    digits = decimal_digits(type_)
    if digits is not None and isinstance(side, Literal) and is_integer(type_):
        digits = len(str(abs(side.value))), 0
    return _Number(type_, digits)


def _number(op: str, left: _Number, right: _Number) -> str | None:
    if left.digits is None or right.digits is None:
        if "float" in (left.type, right.type) and "double" not in (left.type, right.type) and op != "/":
            # With an integer, the type depends on the session's ANSI mode.
            return "float" if left.type == right.type else None
        return "double"
    if is_integer(left.type) and is_integer(right.type):
        return "double" if op == "/" else INTEGERS[max(INTEGERS.index(left.type), INTEGERS.index(right.type))]
    return _decimal(op, left.digits, right.digits)


def _decimal(op: str, left: tuple[int, int], right: tuple[int, int]) -> str:
    """Spark's rules for the result of decimal arithmetic (``DecimalPrecision``)."""
    (p1, s1), (p2, s2) = left, right
    if op in ("+", "-"):
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif op == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif op == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    if precision > 38:
        whole = precision - scale
        scale = max(38 - whole, min(scale, 6))
        precision = 38
    return f"decimal({precision},{scale})"
