"""Shadows: states that decide which trends are complete where the edges at the ends of a path do not.

A *reading* of some bindings is the state that the automaton is in after them. If a variable stands at several places of
a pattern, a longer trend that contains these bindings may read them in other states, the *shadows* of the reading. A
trend is complete unless further bindings before it, after it or (for maximal trends) inside it lead to a shadow in
which the longer trend can end.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Machine

#: How the graph of the requested trends is built. ``STATES``: the states of the machine encode their shadows.
#: ``REDUCED``: the machine follows the edges of the base's graph that no longer path bypasses. ``FOLLOWED``: the kernel
#: follows sets of shadows along each edge of the base's graph.
STATES, REDUCED, FOLLOWED = "states", "reduced", "followed"


@attrs.frozen
class Reading:
    """The meaning of a state of the query's machine: a state of the base machine, and its shadows.

    ``place`` is the state of the base machine. If the state is initial, a trend may begin with an event in it only if
    longer trends can reach the event in each of the base states ``preceded``, and in none of ``unpreceded``. A trend
    may end in the state only if no trend goes on from the place or any of the ``shadows``, and no shadow is final. With
    a span, a shadow is a pair of base states: the one in which the longer trend reads the first event of the trend,
    which determines how long it may last, and the one in which it reads the current event. Without a span, both are the
    same.
    """

    place: int
    preceded: tuple[int, ...] = ()
    unpreceded: tuple[int, ...] = ()
    shadows: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class Shadows:
    """Recognises requested trends by a ``base`` machine; ``readings`` has an entry per state of the query's own.

    ``kind`` says how the graph is built. If shadows are ``followed``, ``covers`` has for each base state the states
    that cover it, as bits: those from which every continuation is possible that is possible from it. With a span,
    ``origins`` are then the base states in which a longer trend may read the first event of a trend after earlier
    events; they determine how long the longer trend may last.

    The query may have parts in place of a variable that the base reads as a whole (:class:`~cetdsl.ir.compiled.Parts`):
    ``wholes`` pairs each pivot that is a part with its whole variable.
    """

    base: Machine
    readings: tuple[Reading, ...]
    kind: str = STATES
    covers: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()
    wholes: tuple[tuple[int, int], ...] = ()
