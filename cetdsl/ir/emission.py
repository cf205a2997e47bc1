"""When a stream gives an answer: once, when it is final, or before."""

from __future__ import annotations

#: "final": once, when nothing can change it. "update": the answer of a window so far, whenever its events change.
#: "eager": a trend as soon as the last of its events has come.
FINAL, UPDATE, EAGER = ("final", "update", "eager")
