"""Turns the parts of a graph that the kernel gives, task by task, into DataFrames.

A graph's builder gives its parts as DataFrames with the columns below. K stands for all key columns ``k0``, ``k1``, ...
and the column ``window``, if windows slide; V for the values of equalities.

==============  ====================================================================================================
``vertices``    K, ``n`` (number of the event within its key and window), ``q`` (state), ``first``, ``last``,
                ``source``, ``sink``, ``event``
``edges``       K, ``n0``, ``q0`` (earlier event and its state), ``n1``, ``q1`` (later event)
``direct``      the same, of the transitions that have no attribute vertices
``attributes``  K, ``transition``, V, ``a`` (number of the attribute vertex on its list), and per order ``low0``,
                ``high0``, ...
``from_edges``  K, ``transition``, V, ``a``, ``n``
``to_edges``    K, ``transition``, V, ``n``, ``begin``, ``end`` (attribute vertices from ``begin`` to before ``end``)
==============  ====================================================================================================

``transition`` numbers the separable transitions of the machine. The columns V are ``v0_0``, ``v0_1``, ... for
transition 0, and so on; those of other transitions are NULL. A list of attribute vertices is named by K, transition and
V.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.execution.operators import Rows, execute
from cetdsl.execution.worker import map_stage
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.operators import ShowGraph
from cetdsl.ir.source import Source
from cetdsl.ir.stages import EventGraphSpec
from cetdsl.ir.transitions import Transition, transitions_of


def place_names(source: Source) -> list[str]:
    """Returns the names of the columns K."""
    return [f"k{n}" for n in range(len(source.keys))] + list(source.window)


def value_names(transitions: Sequence[Transition]) -> list[str]:
    """Returns the names of the columns V."""
    return [f"v{number}_{k}" for number, t in enumerate(transitions) for k in range(len(t.equalities))]


def separable_transitions(compiled: Compiled) -> list[Transition]:
    """Returns the transitions that have attribute vertices."""
    return [transition for transition in transitions_of(compiled.machine) if transition.is_separable]


class KernelGraph:
    """A graph that the kernel builds, each part of it by a pass over the sorted events."""

    def __init__(self, df: DataFrame, plan: ShowGraph) -> None:
        self.df = df
        self.plan = plan
        self.transitions = separable_transitions(plan.compiled)

    def vertices(self) -> DataFrame:
        rows = execute(self.df, self.plan.events(columns=self.plan.columns))
        frame = rows.frame
        event = [T.StructField(name, frame.type_of(name)) for name in self.plan.columns]
        flags = [T.StructField(name, T.BooleanType()) for name in ("first", "last", "source", "sink")]
        fields = [_long("n"), _int("q"), *flags, T.StructField("event", T.StructType(event))]
        return self._part("vertices", rows, fields)

    def edges(self) -> DataFrame:
        return self._pairs("edges")

    def reduced(self) -> DataFrame:
        """The edges that no longer path bypasses: each task has all events of a key, and reduces its share."""
        return self._pairs("reduced", execute(self.df, self.plan.events(shared=True)))

    def direct(self) -> DataFrame:
        return self._pairs("direct")

    def attributes(self) -> DataFrame:
        fields, columns = [_long("a")], [F.col("a")]
        for number, transition in enumerate(self.transitions):
            if transition.order is not None:
                for name in (f"low{number}", f"high{number}"):
                    fields.append(T.StructField(name, self._valued.types[transition.order.earlier]))
                    columns.append(F.col(name).cast(self._types[transition.order.earlier]).alias(name))
        return self._listed("attributes", fields, columns)

    def from_edges(self) -> DataFrame:
        return self._listed("from", [_long("a"), _long("n")], [F.col("a"), F.col("n")])

    def to_edges(self) -> DataFrame:
        names = ("n", "begin", "end")
        return self._listed("to", [_long(name) for name in names], [F.col(name) for name in names])

    @cached_property
    def _bare(self) -> Rows:
        return execute(self.df, self.plan.events())

    @cached_property
    def _valued(self) -> Rows:
        """The events with the values that are compared, each in its own type."""
        return execute(self.df, self.plan.events(tuple(code.expr for code in self.plan.compiled.codes)))

    @cached_property
    def _types(self) -> list[T.DataType]:
        """The types in which they are compared."""
        return self._valued.frame.code_types

    def _part(self, part: str, rows: Rows, fields: list[T.StructField]) -> DataFrame:
        schema = T.StructType([*rows.frame.place_fields("k", self.plan.source.keys), *fields])
        spec = EventGraphSpec(rows.spec, part, self.plan.columns, rows.shares)
        return map_stage(rows.data, "vertices", spec, schema)

    def _pairs(self, part: str, rows: Rows | None = None) -> DataFrame:
        return self._part(part, rows or self._bare, [_long("n0"), _int("q0"), _long("n1"), _int("q1")])

    def _listed(self, part: str, more: list[T.StructField], columns: list[Column]) -> DataFrame:
        """Returns a part that identifies lists. The kernel gives a value in one side's type, and NULL for the other."""
        fields, values = [_int("transition")], [F.col("transition")]
        for number, transition in enumerate(self.transitions):
            for k, comparison in enumerate(transition.equalities):
                sides = {f"f{number}_{k}": comparison.later, f"g{number}_{k}": comparison.earlier}
                fields += [T.StructField(name, self._valued.types[code]) for name, code in sides.items()]
                value = F.coalesce(*(F.col(name).cast(self._types[comparison.later]) for name in sides))
                values.append(value.alias(f"v{number}_{k}"))
        rows = self._part(part, self._valued, [*fields, *more])
        return rows.select(*place_names(self.plan.source), *values, *columns)


def _long(name: str) -> T.StructField:
    return T.StructField(name, T.LongType())


def _int(name: str) -> T.StructField:
    return T.StructField(name, T.IntegerType())
