"""Shadows: they tell which trends are complete where the edges at the ends of a path do not.

A *reading* of some bindings is the state that an automaton is in after them. Where a variable stands at several places
of a pattern, a longer trend may read the same bindings in other states: these are their *shadows*. A trend is complete
if nothing goes before it, after it or (for maximal trends) into it such that one of its shadows ends a trend.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Machine

#: How the graph of the trends is found: by the states of a machine whose states know their shadows; by leading the
#: edges that no longer path bypasses from state to state; or by following the shadows along each edge.
STATES, REDUCED, FOLLOWED = "states", "reduced", "followed"


@attrs.frozen
class Reading:
    """The meaning of a state of a machine.

    ``place`` is the state of the base machine. Where a trend may begin, the base states ``preceded`` of the event have
    something before them, and the states ``unpreceded`` have nothing. A trend may end where neither the place nor any
    of the ``shadows`` has something behind it, and no shadow ends a trend itself. With a span a shadow is a pair of
    base states: that in which the longer trend reads the first event, which says how long it may last, and that in
    which it reads this one; without, it is a state twice.
    """

    place: int
    preceded: tuple[int, ...] = ()
    unpreceded: tuple[int, ...] = ()
    shadows: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class Shadows:
    """Recognises requested trends by a ``base`` machine; ``readings`` has an entry per state of the query's own.

    ``kind`` says how the graph is found. Where shadows are ``followed``, ``covers`` has for each base state the states,
    as bits, in which a trend can go on in whatever ways it can go on here; with a span, ``origins`` are the base states
    in which a longer trend may read the first event of a trend after something else, which say how long it may last.

    The base may read variables whole that the query has in parts: ``wholes`` are each pivot that is such a part, and
    its whole variable.
    """

    base: Machine
    readings: tuple[Reading, ...]
    kind: str = STATES
    covers: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()
    wholes: tuple[tuple[int, int], ...] = ()
