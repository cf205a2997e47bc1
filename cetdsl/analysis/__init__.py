"""Names and types of a query against a schema. Knows patterns and columns, but neither Spark nor plans."""

from __future__ import annotations

from cetdsl.analysis.classify import (
    PredicateClass,
    Separable,
    adjacent_pair,
    classify,
    mentions,
    negations_of,
    separate,
    shape,
)
from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse
from cetdsl.analysis.types import category, is_integer, is_orderable, type_of
from cetdsl.ir.schema import Field, Schema

__all__ = [
    "Binding",
    "Field",
    "PredicateClass",
    "ResolvedQuery",
    "Schema",
    "Separable",
    "adjacent_pair",
    "analyse",
    "category",
    "classify",
    "is_integer",
    "is_orderable",
    "mentions",
    "negations_of",
    "separate",
    "shape",
    "type_of",
]
