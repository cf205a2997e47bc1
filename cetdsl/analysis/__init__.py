"""Resolves names and types of a query against a schema. Knows patterns and columns, but neither Spark nor plans."""

from __future__ import annotations

from cetdsl.analysis.classify import PredicateClass, adjacent_pair, classify, negations_of, separate, shape
from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse
from cetdsl.analysis.types import type_of
from cetdsl.ir.schema import Field, Schema

__all__ = [
    "Binding",
    "Field",
    "PredicateClass",
    "ResolvedQuery",
    "Schema",
    "adjacent_pair",
    "analyse",
    "classify",
    "negations_of",
    "separate",
    "shape",
    "type_of",
]
