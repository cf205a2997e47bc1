"""When a stream gives an answer: once, when it is final, or before."""

from __future__ import annotations

#: "final": once, when nothing can change it. "update": the answer of a window so far, whenever its events change.
#: "eager": a trend as soon as the last of its events has come.
FINAL, UPDATE, EAGER = ("final", "update", "eager")
#: What Spark observes of a stream: how the name of each observation begins, which goes on with a number. Of the events
#: that came ``ends``, for which time buckets, and ``keys``, as a bitmap, ``until`` when they are needed; of answers
#: their ``rows``; of sharing the ``decisions``.
KEPT, KEYED, ANSWERED, DECIDED = ("cetdsl kept", "cetdsl keys", "cetdsl answers", "cetdsl sharing")
