"""Decides which conditions on neighbouring rows a kernel evaluates exactly as Spark would.

Such a condition combines columns, which Spark may have computed in any way, by comparisons, logical operators, IS NULL
and arithmetic of doubles. None of these can fail, rounds differently in Spark, or depends on a setting of the session.
All other conditions are left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.rows.expressions import Call, Column, Constant, Node, read_expression
from cetdsl.rows.tokens import Kind, tokens_of
from cetdsl.rows.words import COMPARED

_SMALL = ("tinyint", "smallint", "int")
_WHOLE = (*_SMALL, "bigint")
_REAL = ("float", "double")
#: Types whose values the kernel compares only with values of the same type.
_ALIKE = re.compile(r"boolean|string|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\)")
#: The types of numbers that are written in the text of a condition, beside those of columns.
_COUNT, _POINT = "whole number", "number with a point"
#: The bound up to which doubles represent whole numbers exactly, and the bound below which they fit 64 bits.
_EXACT, _LARGEST = 2**53, 2**63


@attrs.frozen
class _Unknown(Exception):
    """Raised with the reason why a condition is left to Spark."""

    why: str


def why_left_to_spark(sql: str, types: Mapping[str, str]) -> str | None:
    """Returns why Spark should evaluate a condition; None if the kernel may.

    Parameters
    ----------
    sql : str
    types : mapping of str to str
        The types of the columns that it may look at, by Spark's names.

    Returns
    -------
    str or None

    Examples
    --------
    >>> types = {"x": "double", "before": "double", "n": "int", "s": "string"}
    >>> why_left_to_spark("`x` < 1.1 * `before` AND `s` IS NOT NULL", types) is None
    True
    >>> why_left_to_spark("`n` + 1 < `x`", types)
    'it computes with int'
    >>> why_left_to_spark("upper(`s`) = 'A'", types)
    'it calls UPPER'
    """
    if "\\" in sql:
        return "it has a backslash, which settings of the session give a meaning"
    if _joins_texts(sql):
        return "it has a text of several, which a setting of the session puts together"
    try:
        kind = _kind_of(read_expression(sql), types)
    except UnsupportedQuery as error:
        return f"{error.message.split(' is not known')[0]} stands in it"
    except _Unknown as unknown:
        return unknown.why
    return None if kind == "boolean" else f"it is of type {kind}"


def _joins_texts(sql: str) -> bool:
    """Whether a string literal has a doubled quote in it, or stands directly beside another literal."""
    tokens = tokens_of(sql)
    are_texts = [token.kind is Kind.STRING for token in tokens]
    doubled = (token.text[-1] * 2 in token.text[1:-1] for token, is_text in zip(tokens, are_texts) if is_text)
    return any(doubled) or any(one and other for one, other in pairwise(are_texts))


def _kind_of(node: Node, types: Mapping[str, str]) -> str:
    """Returns the type of an expression; raises _Unknown unless the kernel finds its value exactly as Spark does."""
    if isinstance(node, Column):
        kind = types.get(node.name, "unknown")
        if kind not in (*_WHOLE, *_REAL) and not _ALIKE.fullmatch(kind):
            raise _Unknown(f"it looks at values of type {kind}")
        return kind
    if isinstance(node, Constant):
        return _kind_of_constant(node)
    kinds = [_kind_of(argument, types) for argument in node.arguments]
    if node.name in ("AND", "OR", "NOT"):
        if set(kinds) != {"boolean"}:
            raise _Unknown(f"it takes {kinds[0]} for a truth value")
        return "boolean"
    if node.name == "IS NULL":
        return "boolean"
    if node.name in COMPARED.values():
        if not _are_comparable(*kinds):
            raise _Unknown(f"it compares {kinds[0]} with {kinds[1]}")
        return "boolean"
    if node.name in ("+", "-", "*", "NEGATIVE", "ABS"):
        return _computed(node, kinds)
    raise _Unknown(f"it calls {node.name}")


def _kind_of_constant(node: Constant) -> str:
    if isinstance(node.value, (bool, str)):
        return node.kind
    if node.value is None or abs(node.value) >= _LARGEST:
        raise _Unknown("it has NULL, or a very large number, in its text")
    if isinstance(node.value, float):
        return _POINT
    return _COUNT if abs(node.value) <= _EXACT else "bigint"


def _are_comparable(one: str, other: str) -> bool:
    """Whether values of two types are compared exactly, whichever type Spark casts them to."""
    if one == other:
        return one != _POINT
    kinds = {one, other}
    if kinds <= {*_WHOLE, _COUNT} or kinds == set(_REAL):
        return True
    # A bigint may be rounded on the way to a double.
    return "double" in kinds and kinds <= {"double", _COUNT, _POINT, *_SMALL}


def _computed(node: Call, kinds: list[str]) -> str:
    """Returns the type of an arithmetic operation over operands of ``kinds``; raises _Unknown if it may differ."""
    if len(kinds) == 1:
        if kinds[0] in (_COUNT, _POINT) and node.name == "NEGATIVE":
            return kinds[0]
        if kinds[0] in _REAL:
            return kinds[0]
    elif "double" in kinds and set(kinds) <= {"double", _COUNT, _POINT, *_SMALL}:
        return "double"
    raise _Unknown(f"it computes with {next((kind for kind in kinds if kind != 'double'), kinds[0])}")
