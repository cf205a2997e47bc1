"""Declares the aggregate functions. To add one, see "Adding an aggregate" in CONTRIBUTING."""

from __future__ import annotations

from cetdsl.aggregates.vocabulary import (
    COUNT,
    LARGEST,
    MOMENTS,
    ODD,
    SMALLEST,
    SUM,
    AggregateFunction,
    CentralMoment,
    Extreme,
    Input,
    Quotient,
    Total,
)

_DECLARED = (
    AggregateFunction("count", Input.EVENTS, (COUNT,), Total()),
    AggregateFunction("sum", Input.NUMBERS, (COUNT, SUM), Total()),
    AggregateFunction("avg", Input.NUMBERS, (COUNT, SUM), Quotient(), of_length=True),
    AggregateFunction("min", Input.ORDERED, (SMALLEST,), Extreme(), of_length=True),
    AggregateFunction("max", Input.ORDERED, (LARGEST,), Extreme(), of_length=True),
    AggregateFunction(
        "stddev", Input.NUMBERS, (*MOMENTS, ODD), CentralMoment(1, root=True), spellings=("stddev_samp",)
    ),
    AggregateFunction("stddev_pop", Input.NUMBERS, (*MOMENTS, ODD), CentralMoment(0, root=True)),
    AggregateFunction("variance", Input.NUMBERS, (*MOMENTS, ODD), CentralMoment(1), spellings=("var_samp",)),
    AggregateFunction("var_pop", Input.NUMBERS, (*MOMENTS, ODD), CentralMoment(0)),
)

#: All functions by name.
FUNCTIONS = {function.name: function for function in _DECLARED}
#: The name of each spelling.
SPELLINGS = {spelling: function.name for function in _DECLARED for spelling in (function.name, *function.spellings)}
