"""What users say about how a stream keeps its events: by an argument, or else by a setting of the session."""

from __future__ import annotations

from pyspark.sql import DataFrame

from cetdsl.errors import InvalidNode, StreamingNotSupported, is_one_of, shown
from cetdsl.execution.compat import ROCKSDB, STATE_STORE, why_no_state_of_events
from cetdsl.ir.keeping import AUTO, EVENTS, STATES, AskedState

_STATE = "cetdsl.state"


def asked_state(df: DataFrame, state: str | None) -> AskedState:
    """Returns what is asked for, of a stream, and what Spark lacks for it; nothing is asked of a batch."""
    session = df.sparkSession
    by = session.conf.get(_STATE, None) or AUTO if state is None else state
    if not is_one_of(by, STATES):
        said = f"state={shown(by)}" if state is not None else f"the session's setting {_STATE}={shown(by)}"
        raise InvalidNode(f"{said} is unknown", hint=f"use {', '.join(map(repr, STATES[:-1]))} or {STATES[-1]!r}")
    if not df.isStreaming:
        return AskedState(by)
    asked = AskedState(by, why_no_state_of_events(session))
    if by == EVENTS and asked.lacks is not None:
        raise StreamingNotSupported(
            f"state={EVENTS!r} keeps each event once, and {asked.lacks}",
            hint=f"spark.conf.set({STATE_STORE!r}, {ROCKSDB!r}) before the stream is asked, or leave state= away",
        )
    return asked
