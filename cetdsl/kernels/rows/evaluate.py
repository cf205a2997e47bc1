"""Evaluates expressions over the rows of a table, without Spark but with its NULL, NaN and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cetdsl.errors import EngineError, UnsupportedQuery
from cetdsl.kernels.wire.columns import from_bytes, from_numpy
from cetdsl.rows.expressions import Column, Constant, Node

#: Times of a zone, which come as those of the worker's clock and are only compared with each other.
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
#: Whole numbers, and the digits that decimals need for them, without a fraction.
_DIGITS = {pa.int8(): (3, 0), pa.int16(): (5, 0), pa.int32(): (10, 0), pa.int64(): (19, 0)}
_Arrays = Mapping[str, pa.Array]


def evaluate(node: Node, columns: _Arrays, rows: int) -> pa.Array:
    """Returns the value of an expression in each of ``rows`` rows.

    Parameters
    ----------
    node : Node
    columns : mapping of str to pyarrow.Array
        The values that it names.
    rows : int

    Returns
    -------
    pyarrow.Array

    Raises
    ------
    UnsupportedQuery
        If it calls a function, or has types, that are not known here.
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
    """Evaluates the nodes of one expression."""

    def __init__(self, columns: _Arrays, rows: int) -> None:
        self._columns, self._rows = columns, rows

    def of(self, node: Node) -> pa.Array:
        """The values of a node."""
        if isinstance(node, Column):
            if node.name not in self._columns:
                _refuse(f"the column {node.name!r}")
            return self._columns[node.name]
        if isinstance(node, Constant):
            return _constant(node, self._rows)
        if node.name == "CAST":
            return _cast(self.of(node.arguments[0]), _type_of(node.kind))
        if node.name == "CASE":
            return self._case([self.of(argument) for argument in node.arguments])
        if node.name == "LIKE":
            return self._like(*node.arguments)
        if node.name.lower() in TYPES and len(node.arguments) == 1:
            return _cast(self.of(node.arguments[0]), TYPES[node.name.lower()])
        known = _FUNCTIONS.get(node.name)
        if known is None:
            _refuse(f"the function {node.name}")
        return _array(known(*(self.of(argument) for argument in node.arguments)), node.name)

    def _case(self, parts: list[pa.Array]) -> pa.Array:
        values = _alike(*parts[1::2], *(parts[-1:] if len(parts) % 2 else [pa.nulls(self._rows)]))
        found = values[-1]
        for condition, value in reversed(list(zip(parts[0::2], values[:-1]))):
            found = pc.if_else(pc.fill_null(condition, False), value, found)
        return found

    def _like(self, tested: Node, wanted: Node) -> pa.Array:
        if not isinstance(wanted, Constant) or not isinstance(wanted.value, str):
            _refuse("LIKE of what is no constant")
        return pc.match_like(self.of(tested), wanted.value)


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
    if pa.types.is_floating(values.type) and to in _DIGITS:
        # As SQL does, towards zero.
        return pc.cast(pc.trunc(values), to)
    if to == ZONED and values.type != ZONED:
        return pc.assume_timezone(pc.cast(values, pa.timestamp("us")), "UTC")
    if pa.types.is_boolean(values.type) and pa.types.is_floating(to):
        return pc.cast(pc.cast(values, pa.int8()), to)
    return pc.cast(values, to)


def _alike(*values: pa.Array) -> tuple[pa.Array, ...]:
    """The values in a type that holds all of them."""
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
        sizes = [_DIGITS.get(kind) or (kind.precision - kind.scale, kind.scale) for kind in kinds]
        whole, scale = (max(each) for each in zip(*sizes))
        return pa.decimal128(min(38, whole + scale), scale)
    _refuse("bringing " + " and ".join(sorted(map(str, kinds))) + " together")


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


def _same(one: pa.Array, other: pa.Array) -> pa.Array:
    both = pc.and_(pc.is_valid(one), pc.is_valid(other))
    # False settles it where the comparison is NULL.
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
    if pc.any(pc.equal(other, 0.0)).as_py():
        raise EngineError("an expression divides by zero", hint="guard it: x / nullif(y, 0)")
    return pc.divide(one, other)


def _remainder(one: pa.Array, other: pa.Array) -> pa.Array:
    if pc.any(pc.equal(other, pa.scalar(0, other.type))).as_py():
        raise EngineError("an expression divides by zero", hint="guard it: x % nullif(y, 0)")
    quotient = pc.divide(one, other)
    if pa.types.is_floating(one.type):
        quotient = pc.trunc(quotient)
    return pc.subtract(one, pc.multiply(quotient, other))


def _joined(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_cast(one, pa.string()), _cast(other, pa.string()), "")


def _null_if(one: pa.Array, other: pa.Array) -> pa.Array:
    equal = _compared(_equal)(one, other)
    return pc.if_else(pc.fill_null(equal, False), pa.scalar(None, one.type), one)


def _of_alike(compute: Callable[..., Any]) -> Callable[..., pa.Array]:
    return lambda *values: compute(*_alike(*values))


def _listed(*values: pa.Array) -> pa.Array:
    """Arrays of some values; only their type is ever looked at."""
    return pa.array([None] * len(values[0]), pa.list_(_alike(*values)[0].type))


_FUNCTIONS: Mapping[str, Callable[..., pa.Array | None]] = {
    "AND": pc.and_kleene,
    "OR": pc.or_kleene,
    "NOT": pc.invert,
    "IS NULL": pc.is_null,
    "=": _compared(_equal),
    "<>": _compared(lambda one, other: pc.invert(_equal(one, other))),
    "<": _compared(_less),
    ">": _compared(lambda one, other: _less(other, one)),
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
    "COALESCE": _of_alike(pc.coalesce),
    "IF": lambda condition, one, other: pc.if_else(pc.fill_null(condition, False), *_alike(one, other)),
    "NULLIF": _null_if,
    "GREATEST": _of_alike(pc.max_element_wise),
    "LEAST": _of_alike(pc.min_element_wise),
    "UPPER": pc.utf8_upper,
    "LOWER": pc.utf8_lower,
    "LENGTH": pc.utf8_length,
    "CONCAT": lambda *values: reduce(_joined, values),
    "ARRAY": _listed,
}
