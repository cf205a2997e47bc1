"""The times at which a stream gives an answer: once, when it is final, or earlier."""

from __future__ import annotations

#: "final": once, when nothing can change it. "update": the answer of a window so far, whenever its events change.
#: "eager": a trend as soon as the last of its events has come.
FINAL, UPDATE, EAGER = ("final", "update", "eager")
#: The prefixes of the names of observations that Spark makes of a stream; a serial number is appended to each.
#: KEPT: the events that came per time bucket (``ends``, JSON). KEYED: a bitmap of their ``keys``, and ``until`` when
#: they are needed. ANSWERED: the ``rows`` of answers. DECIDED: the ``decisions`` on sharing.
KEPT, KEYED, ANSWERED, DECIDED = ("cetdsl kept", "cetdsl keys", "cetdsl answers", "cetdsl sharing")
