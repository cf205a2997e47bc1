"""Checks the layout in which trends are asked for."""

from __future__ import annotations

from cetdsl.errors import InvalidNode, check_choice, shown
from cetdsl.execution.layouts import LAYOUTS, Layout
from cetdsl.ir.source import Source
from cetdsl.pattern.nodes import Pattern
from cetdsl.pattern.properties import binds_at_most_one, positive_variables


def given_layout(form: object, times: object, pattern: Pattern, columns: tuple[str, ...], source: Source) -> Layout:
    """The layout of the trends of a pattern, whose events show these columns."""
    check_choice("layout", form, LAYOUTS)
    if not isinstance(times, bool):
        raise InvalidNode(f"times is True or False, not {shown(times)}", hint="times=True shows when a trend begins")
    variables = tuple((name, binds_at_most_one(pattern, name)) for name in positive_variables(pattern))
    return Layout(str(form), variables, columns, source.shown_keys, source.time, times)
