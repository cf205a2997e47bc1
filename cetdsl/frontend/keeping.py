"""Resolves how a stream keeps its events, from an argument or else from a setting of the session."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame

from cetdsl.errors import CetdslError, InvalidNode, StreamingNotSupported, is_one_of, names_of, shown
from cetdsl.execution.compat import (
    ROCKSDB,
    STATE_STORE,
    parallelism,
    schema_of,
    shuffle_tasks,
    why_no_state_of_events,
)
from cetdsl.ir.keeping import AUTO, EVENTS, STATES, WINDOWS, AskedState
from cetdsl.pattern.text import in_backquotes

_STATE = "cetdsl.state"
_LOG = logging.getLogger("cetdsl.streams")


def asked_state(df: DataFrame, state: str | None, *, whole: bool = False) -> AskedState:
    """Returns the state that is requested for a stream, and what Spark lacks for it; nothing is requested for a batch.

    If the events are to be kept ``whole``, each of them is to be kept once. The log tells of a session that would cut
    state into far more shares than it has tasks for.
    """
    session = df.sparkSession
    by = session.conf.get(_STATE, None) or AUTO if state is None else state
    if not is_one_of(by, STATES):
        said = f"state={shown(by)}" if state is not None else f"the session's setting {_STATE}={shown(by)}"
        raise InvalidNode(f"{said} is unknown", hint=f"use {', '.join(map(repr, STATES[:-1]))} or {STATES[-1]!r}")
    if not df.isStreaming:
        return AskedState(by)
    if whole and by == WINDOWS:
        raise InvalidNode(
            f"keep= keeps each event once, and state={WINDOWS!r} once for each of its windows",
            hint=f"leave one of them away, or write state={EVENTS!r}",
        )
    asked = AskedState(by, why_no_state_of_events(session), whole, shuffle_tasks(session), parallelism(session))
    if (whole or by == EVENTS) and asked.lacks is not None:
        said = "keep=" if whole else f"state={EVENTS!r}"
        raise StreamingNotSupported(
            f"{said} keeps each event once, and {asked.lacks}",
            hint=f"spark.conf.set({STATE_STORE!r}, {ROCKSDB!r}) before the stream is asked, or leave {said} away",
        )
    if asked.why_slow is not None:
        _LOG.warning("%s", CetdslError(f"a stream takes longer than it has to: {asked.why_slow}", hint=asked.advice))
    return asked


def kept_columns(df: DataFrame, keep: Sequence[str] | None, others: Iterable[str | None]) -> DataFrame:
    """Returns the DataFrame with the columns that state is to keep, None for all, and such ``others`` as it has."""
    if keep is None:
        return df
    schema = schema_of(df)
    named = [schema.resolve(name).name for name in names_of(keep, "keep=")]
    folded = {schema.folded(name) for name in others if name is not None}
    named += [name for name in schema.names if schema.folded(name) in folded]
    return df.select(*map(in_backquotes, dict.fromkeys(named)))
