"""Resolves how events are sorted, from arguments or else from settings of the session."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from cetdsl.errors import InvalidNode, is_one_of, shown
from cetdsl.frontend.memory import parse_memory
from cetdsl.ir.sorting import AUTO, SORT_MEMORY, SORTERS, AskedSort

_SORT, _MEMORY = "cetdsl.sort", "cetdsl.sort.memory"


def asked_sort(
    session: SparkSession, sort: str | None, memory: str | int | None, sorters: Sequence[str] = SORTERS
) -> AskedSort:
    """Returns the sorter and memory that are requested, from arguments, settings or defaults, in this order.

    An argument is one of ``sorters``; a setting is for all that is asked, and may be one that only others know.
    """
    by = session.conf.get(_SORT, None) or AUTO if sort is None else sort
    known = SORTERS if sort is None else sorters
    if not is_one_of(by, known):
        said = f"sort={shown(by)}" if sort is not None else f"the session's setting {_SORT}={shown(by)}"
        raise InvalidNode(f"{said} is unknown", hint=f"use {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")
    return AskedSort(by, _memory_of(session) if memory is None else parse_memory(memory))


def _memory_of(session: SparkSession) -> int:
    amount = session.conf.get(_MEMORY, None) or SORT_MEMORY
    try:
        return parse_memory(amount)
    except InvalidNode as error:
        raise InvalidNode(f"the session's setting {_MEMORY} is wrong: {error.message}", hint=error.hint) from None
