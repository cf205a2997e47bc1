"""Evaluates SQL expressions over the rows of a table without Spark, but with its rules for NULL, NaN and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import reduce
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cetdsl.errors import EngineError, UnsupportedQuery
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.columns import bitmap, from_bytes, from_numpy, to_numpy, truths, validity
from cetdsl.rows.expressions import Call, Column, Constant, Node

#: The type of TIMESTAMP. Its values come as times of the worker's clock, and are only compared with each other.
ZONED = pa.timestamp("us", tz="UTC")
#: The types that values may have, by Spark's names.
TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": ZONED,
    "timestamp_ntz": pa.timestamp("us"),
}
_HINT = "write it with cetdsl's own cet.sql(...) or df.match_recognize(...), where Spark evaluates expressions"
#: Types of whole numbers, with the digits before and after the point that a decimal needs for them.
_DIGITS = {pa.int8(): (3, 0), pa.int16(): (5, 0), pa.int32(): (10, 0), pa.int64(): (19, 0)}
#: Decimals with up to so many digits after the point are written without an exponent, by both Java and Arrow.
_MOST_PLAIN = 6
#: The operators that fail for some values: the first ones not for doubles, the others for all types. So do functions
#: that are named like a type, which are casts.
_MAY_OVERFLOW = frozenset({"+", "-", "*", "NEGATIVE", "ABS"})
_MAY_FAIL = frozenset({"/", "%", "CAST"})
_Arrays = Mapping[str, pa.Array]


def evaluate(node: Node, columns: _Arrays, rows: int) -> pa.Array:
    """Returns the value of an expression in each of ``rows`` rows.

    Parameters
    ----------
    node : Node
    columns : mapping of str to pyarrow.Array
        The columns that the expression may name.
    rows : int

    Returns
    -------
    pyarrow.Array

    Raises
    ------
    UnsupportedQuery
        If the expression calls a function, or has types, that are not known here.
    EngineError
        If a number does not fit its type, or something is divided by zero.
    """
    try:
        return _Evaluation(columns, rows).of(node)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise _unknown(f"an operation of these types ({str(error).splitlines()[0]})") from error
    except pa.ArrowInvalid as error:
        raise EngineError(
            f"an expression cannot be computed: {str(error).splitlines()[0]}",
            hint="guard it with CASE, or cast numbers to DOUBLE",
        ) from error


def _unknown(what: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"{what} is not known in a table function, where Spark evaluates no expressions", hint=_HINT
    )


def _refuse(what: str) -> NoReturn:
    raise _unknown(what)


class _Evaluation:
    """Evaluates the nodes of one expression in ``rows`` rows: all rows of the columns, or those at some ``places``."""

    def __init__(self, columns: _Arrays, rows: int, places: Ints | None = None) -> None:
        self._columns, self._rows, self._places = columns, rows, places

    def of(self, node: Node) -> pa.Array:
        """Returns the values of a node."""
        if isinstance(node, Column):
            if node.name not in self._columns:
                _refuse(f"the column {node.name!r}")
            values = self._columns[node.name]
            return values if self._places is None else values.take(from_numpy(self._places))
        if isinstance(node, Constant):
            return _constant(node, self._rows)
        if node.name == "CAST":
            return _cast(self.of(node.arguments[0]), _type_of(node.kind))
        if node.name in ("AND", "OR"):
            return self._logic(node.name, *node.arguments)
        if node.name == "CASE" or (node.name == "IF" and len(node.arguments) == 3):
            return self._case(node.arguments)
        if node.name == "COALESCE":
            return self._first_known(node.arguments)
        if node.name == "LIKE":
            return self._like(*node.arguments)
        if node.name.lower() in TYPES and len(node.arguments) == 1:
            return _cast(self.of(node.arguments[0]), TYPES[node.name.lower()])
        known = _FUNCTIONS.get(node.name) if node.arguments else None
        if known is None:
            _refuse(f"the function {node.name}")
        return _array(known(*(self.of(argument) for argument in node.arguments)), node.name)

    def _may_fail(self, node: Node) -> bool:
        """Whether there may be values for which a node cannot be computed."""
        if not isinstance(node, Call):
            return False
        if node.name in _MAY_OVERFLOW and not self._is_real(node):
            return True
        if any(map(self._is_text, node.arguments)) and any(map(self._is_time, node.arguments)):
            return True  # the text would be read as a time
        return node.name in _MAY_FAIL or node.name.lower() in TYPES or any(map(self._may_fail, node.arguments))

    def _is_real(self, node: Node) -> bool:
        """Whether a node is known to be a double before it is evaluated."""
        if isinstance(node, Column):
            return node.name in self._columns and bool(pa.types.is_floating(self._columns[node.name].type))
        if isinstance(node, Constant):
            return node.kind == "double"
        return node.name in _MAY_OVERFLOW and any(map(self._is_real, node.arguments))

    def _is_text(self, node: Node) -> bool:
        """Whether a node is known to be a column of texts before it is evaluated."""
        return isinstance(node, Column) and node.name in self._columns and self._columns[node.name].type == pa.string()

    def _is_time(self, node: Node) -> bool:
        """Whether a node is known to be a time before it is evaluated."""
        if isinstance(node, Column):
            return node.name in self._columns and bool(pa.types.is_temporal(self._columns[node.name].type))
        return isinstance(node, Constant) and bool(node.kind) and bool(pa.types.is_temporal(TYPES[node.kind]))

    def _where(self, needed: Bools, node: Node) -> pa.Array:
        """Returns the values of a node in the rows where they are ``needed``; those in other rows are undefined.

        As in Spark, it is no error if a value cannot be computed in other rows, or a text cannot be read as a time.
        """
        if needed.all():
            return self.of(node)
        if not self._may_fail(node):
            values = self.of(node)
            return pc.if_else(_flags(needed), values, pa.scalar(None, values.type)) if self._is_text(node) else values
        places = np.flatnonzero(needed)
        inside = _Evaluation(self._columns, len(places), places if self._places is None else self._places[places])
        return inside.of(node).take(from_numpy(np.where(needed, np.cumsum(needed) - 1, 0), ~needed))

    def _logic(self, name: str, one: Node, other: Node) -> pa.Array:
        """Returns the values of AND or OR, whose second side is not evaluated where the first one settles it."""
        left = _truth(self.of(one))
        if name == "AND":
            return pc.and_kleene(left, _truth(self._where(truths(left) | ~validity(left), other)))
        return pc.or_kleene(left, _truth(self._where(~truths(left), other)))

    def _case(self, parts: Sequence[Node]) -> pa.Array:
        """Returns the values of CASE: of the part after the first condition that holds, or else of the last part."""
        rest = np.ones(self._rows, dtype=np.bool_)
        chosen, values = list[pa.Array](), list[pa.Array]()
        for condition, value in zip(parts[0::2], parts[1::2]):
            holds = rest & truths(_truth(self._where(rest, condition)))
            chosen.append(_flags(holds))
            values.append(self._where(holds, value))
            rest &= ~holds
        values.append(self._where(rest, parts[-1]) if len(parts) % 2 else pa.nulls(self._rows))
        *options, found = _alike(*values)
        for condition, option in zip(chosen, options):
            found = pc.if_else(condition, option, found)
        return found

    def _first_known(self, options: Sequence[Node]) -> pa.Array:
        """Returns the first of some values that is not NULL; the values after it are not computed."""
        rest = np.ones(self._rows, dtype=np.bool_)
        values = list[pa.Array]()
        for option in options:
            values.append(self._where(rest, option))
            rest &= ~validity(values[-1])
        return pc.coalesce(*_alike(*values))

    def _like(self, tested: Node, wanted: Node) -> pa.Array:
        if not isinstance(wanted, Constant) or not isinstance(wanted.value, str):
            _refuse("LIKE of what is no constant")
        return pc.match_like(_cast(self.of(tested), pa.string()), wanted.value)


def _constant(node: Constant, rows: int) -> pa.Array:
    """Returns a value in each of ``rows`` rows."""
    value, kind = node.value, TYPES[node.kind] if node.kind else pa.null()
    if value is None:
        return pa.nulls(rows, kind)
    places = from_numpy(np.zeros(rows, dtype=np.int32))
    if isinstance(value, str):
        return from_bytes([value.encode()], kind).take(places)
    bits = np.array([value], dtype="u1" if isinstance(value, bool) else kind.to_pandas_dtype())
    return from_numpy(bits).cast(kind).take(places)


def _array(found: Any, name: str) -> pa.Array:
    if found is None:
        _refuse(f"{name} of these types")
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _type_of(kind: str) -> pa.DataType:
    if kind.startswith("decimal("):
        digits, scale = kind[8:-1].split(",") if "," in kind else (kind[8:-1], "0")
        return pa.decimal128(int(digits), int(scale))
    if kind not in TYPES:
        _refuse(f"the type {kind}")
    return TYPES[kind]


def _cast(values: pa.Array, to: pa.DataType) -> pa.Array:
    kind = values.type
    if kind in (to, pa.null()):
        return pc.cast(values, to)
    if (_is_number(kind) and pa.types.is_temporal(to)) or (pa.types.is_temporal(kind) and _is_number(to)):
        _refuse(f"CAST between times and numbers ({kind} to {to})")
    if to == pa.string():
        return _as_text(values)
    if pa.types.is_decimal(to) and _is_number(kind):
        return _as_decimals(values, to)
    if pa.types.is_integer(to) and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        # SQL rounds towards zero.
        return pc.cast(pc.trunc(values), to)
    if to == ZONED:
        return pc.assume_timezone(pc.cast(values, pa.timestamp("us")), "UTC")
    if pa.types.is_boolean(kind) and pa.types.is_floating(to):
        return pc.cast(pc.cast(values, pa.int8()), to)
    # Not all whole numbers have an exact double; rounding them is no error.
    return pc.cast(values, to, safe=not (pa.types.is_integer(kind) and pa.types.is_floating(to)))


def _flags(holds: Bools) -> pa.Array:
    """Returns truth values as a column; :func:`bitmap` sets the bits where its argument is false."""
    return pa.Array.from_buffers(pa.bool_(), len(holds), [None, bitmap(~holds)])


def _as_text(values: pa.Array) -> pa.Array:
    """Returns values as texts, written as Spark does; raises for types that it writes in ways not known here."""
    kind = values.type
    if pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale > _MOST_PLAIN):
        _refuse(f"text of a {'double' if pa.types.is_floating(kind) else kind}, which Java writes in its own way,")
    if kind == ZONED:
        _refuse("text of a timestamp, which depends on the session's zone,")
    written = pc.cast(values, pa.string())
    # Arrow writes fractions of a second with all digits, Spark without zeros at the end.
    return pc.replace_substring_regex(written, r"\.?0*$", "") if pa.types.is_timestamp(kind) else written


def _as_decimals(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Returns numbers as decimals of a type; halves are rounded away from zero."""
    is_real = pa.types.is_floating(values.type)
    if not is_real:
        whole, scale = _size(values.type)
        if whole <= to.precision - to.scale and scale <= to.scale:
            return pc.cast(values, to)
    unit = Decimal(1).scaleb(-to.scale)
    with localcontext() as context:
        # The largest double has 309 digits before the point.
        context.prec = 400
        rounded = [
            # NaN and infinities become NULL; other doubles are converted as they are written.
            None
            if value is None or not isfinite(value)
            else Decimal(repr(value) if is_real else value).quantize(unit, ROUND_HALF_UP)
            for value in values.to_pylist()
        ]
    return pa.array(rounded, to)


def _truth(values: pa.Array) -> pa.Array:
    """Returns values as the truth values that AND, OR, NOT and CASE take; a NULL by itself has no type."""
    if values.type not in (pa.bool_(), pa.null()):
        _refuse(f"{values.type} in place of true or false")
    return pc.cast(values, pa.bool_())


def _alike(*values: pa.Array) -> tuple[pa.Array, ...]:
    """Returns the values in a type that holds all of them."""
    kinds = {value.type for value in values if value.type != pa.null()}
    if len(kinds) > 1:
        common = _common(kinds)
        return tuple(_cast(value, common) for value in values)
    return tuple(_cast(value, kind) for value in values for kind in [next(iter(kinds), pa.null())])


def _common(kinds: set[pa.DataType]) -> pa.DataType:
    if any(map(pa.types.is_floating, kinds)) and all(_is_number(kind) for kind in kinds):
        return pa.float64()
    if all(map(pa.types.is_integer, kinds)):
        return max(kinds, key=lambda kind: int(kind.bit_width))
    for time in (ZONED, pa.timestamp("us"), pa.date32()):
        if time in kinds and kinds <= {time, pa.date32(), pa.string()}:
            return time
    if kinds <= {pa.string(), pa.large_string()}:
        return pa.large_string()
    if all(pa.types.is_decimal(kind) or pa.types.is_integer(kind) for kind in kinds):
        whole, scale = (max(each) for each in zip(*map(_size, kinds)))
        return pa.decimal128(min(38, whole + scale), scale)
    _refuse("bringing " + " and ".join(sorted(map(str, kinds))) + " together")


def _size(kind: pa.DataType) -> tuple[int, int]:
    """Returns the digits of a decimal or a whole number before and after the point."""
    return _DIGITS.get(kind) or (kind.precision - kind.scale, kind.scale)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))


# -- comparisons ---------------------------------------------------------------------------------------------------


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def apply(one: pa.Array, other: pa.Array) -> pa.Array:
        one, other = _alike(one, other)
        if one.type == pa.null():
            return pa.nulls(len(one), pa.bool_())
        if pa.types.is_boolean(one.type):
            one, other = pc.cast(one, pa.int8()), pc.cast(other, pa.int8())
        return compare(one, other)

    return apply


def _equal(one: pa.Array, other: pa.Array) -> pa.Array:
    found = pc.equal(one, other)
    if pa.types.is_floating(one.type):
        # NaN equals NaN.
        found = pc.or_(found, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    return found


def _less(one: pa.Array, other: pa.Array) -> pa.Array:
    found = pc.less(one, other)
    if pa.types.is_floating(one.type):
        # NaN is larger than any number.
        found = pc.or_(found, pc.and_(pc.invert(pc.is_nan(one)), pc.is_nan(other)))
    return found


def _greater(one: pa.Array, other: pa.Array) -> pa.Array:
    return _less(other, one)


def _same(one: pa.Array, other: pa.Array) -> pa.Array:
    both = pc.and_(pc.is_valid(one), pc.is_valid(other))
    # Where one side is NULL, ``both`` is false, which settles the AND with a comparison that is NULL.
    return pc.or_(pc.and_(pc.is_null(one), pc.is_null(other)), pc.and_kleene(both, _equal(one, other)))


# -- numbers -------------------------------------------------------------------------------------------------------


def _numbers(compute: Callable[[Any, Any], Any]) -> Callable[[pa.Array, pa.Array], pa.Array | None]:
    def apply(one: pa.Array, other: pa.Array) -> pa.Array | None:
        if not all(value.type == pa.null() or _is_number(value.type) for value in (one, other)):
            return None
        if any(pa.types.is_decimal(value.type) for value in (one, other)):
            _refuse("arithmetic of decimals; cast them to DOUBLE: it")
        return compute(*_alike(one, other))

    return apply


def _divided(one: pa.Array, other: pa.Array) -> pa.Array:
    one, other = _cast(one, pa.float64()), _cast(other, pa.float64())
    _refuse_zeros(one, other, "/")
    return pc.divide(one, other)


def _remainder(one: pa.Array, other: pa.Array) -> pa.Array:
    if one.type == pa.null():
        return one
    _refuse_zeros(one, other, "%")
    both = validity(one) & validity(other)
    dividend, divisor = to_numpy(one), to_numpy(other)
    # The remainder of infinity is NaN.
    with np.errstate(invalid="ignore"):
        rest = np.fmod(dividend, np.where(both, divisor, divisor.dtype.type(1)))
    return from_numpy(rest, ~both)


def _refuse_zeros(one: pa.Array, other: pa.Array, sign: str) -> None:
    """Raises if a number that is not NULL is divided by zero."""
    if (validity(one) & validity(other) & (to_numpy(other) == 0)).any():
        raise EngineError("an expression divides by zero", hint=f"guard it: x {sign} nullif(y, 0)")


def _joined(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_cast(one, pa.string()), _cast(other, pa.string()), "")


def _null_if(one: pa.Array, other: pa.Array) -> pa.Array:
    equal = _compared(_equal)(one, other)
    return pc.if_else(pc.fill_null(equal, False), pa.scalar(None, one.type), one)


def _extreme(goes_before: Callable[[pa.Array, pa.Array], pa.Array]) -> Callable[..., pa.Array]:
    """Makes a function that returns, row by row, the first value that no other one goes before; NULL if all are."""

    def better(one: pa.Array, other: pa.Array) -> pa.Array:
        is_better = pc.or_kleene(pc.is_null(one), pc.fill_null(_compared(goes_before)(other, one), False))
        return pc.if_else(is_better, other, one)

    return lambda *values: reduce(better, _alike(*values))


def _listed(*values: pa.Array) -> pa.Array:
    """Returns a column of the type of an array of some values; only this type is ever looked at."""
    return pa.array([None] * len(values[0]), pa.list_(_alike(*values)[0].type))


_FUNCTIONS: Mapping[str, Callable[..., pa.Array | None]] = {
    "NOT": lambda values: pc.invert(_truth(values)),
    "IS NULL": pc.is_null,
    "=": _compared(_equal),
    "<>": _compared(lambda one, other: pc.invert(_equal(one, other))),
    "<": _compared(_less),
    ">": _compared(_greater),
    "<=": _compared(lambda one, other: pc.invert(_less(other, one))),
    ">=": _compared(lambda one, other: pc.invert(_less(one, other))),
    "<=>": lambda one, other: pc.is_null(one) if other.type == pa.null() else _compared(_same)(one, other),
    "+": _numbers(pc.add_checked),
    "-": _numbers(pc.subtract_checked),
    "*": _numbers(pc.multiply_checked),
    "/": _numbers(_divided),
    "%": _numbers(_remainder),
    "NEGATIVE": pc.negate_checked,
    "||": _joined,
    "ABS": pc.abs_checked,
    "NULLIF": _null_if,
    "GREATEST": _extreme(_greater),
    "LEAST": _extreme(_less),
    "UPPER": pc.utf8_upper,
    "LOWER": pc.utf8_lower,
    "LENGTH": pc.utf8_length,
    "CONCAT": lambda *values: reduce(_joined, values[1:], _cast(values[0], pa.string())),
    "ARRAY": _listed,
}
