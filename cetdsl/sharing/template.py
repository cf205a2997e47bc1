"""The merged template of a sharable set: every event variable once, every step labelled with its queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.automaton import build_automaton
from cetdsl.pattern.nodes import Repeat, events
from cetdsl.sharing.families import family


@attrs.frozen
class SharableSet:
    """Queries that share the propagation along a Kleene sub-pattern, burst by burst where that is less work.

    Attributes
    ----------
    queries : tuple of str
    kleene : tuple of Repeat
        The sub-pattern, as each of them states it.
    pane : int
        The greatest common divisor of all lengths and slides: windows begin and end with panes. 0: no windows.
    """

    queries: tuple[str, ...]
    kleene: tuple[Repeat, ...]
    pane: int

    @property
    def variables(self) -> frozenset[str]:
        """The variables of the sub-pattern, in the words of the first query."""
        return frozenset(event.variable for event in events(self.kleene[0]))


@attrs.frozen
class TemplateStep:
    """A step from one variable to another one, and the queries in which it is possible.

    ``source`` is None where trends begin, ``target`` is None where they end.
    """

    source: int | None
    target: int | None
    queries: tuple[str, ...]


@attrs.frozen
class MergedTemplate:
    """The automata of several queries over common variables.

    Attributes
    ----------
    variables : tuple of str
        How the first query that has it calls each variable.
    shared : frozenset of int
        The variables of the Kleene sub-pattern that is shared.
    steps : tuple of TemplateStep
    """

    variables: tuple[str, ...]
    shared: frozenset[int]
    steps: tuple[TemplateStep, ...]


def merge_templates(sharable: SharableSet, queries: Mapping[str, ResolvedQuery]) -> MergedTemplate:
    """The merged template of a sharable set (Hamlet, SIGMOD 2021, definition 4)."""
    numbers: dict[Hashable, int] = {}
    names: list[str] = []
    shared: set[int] = set()
    steps: dict[tuple[int | None, int | None], list[str]] = {}
    for name, repeat in zip(sharable.queries, sharable.kleene, strict=True):
        resolved = queries[name]
        number: dict[str, int] = {}
        for event in events(resolved.query.pattern):
            key = family(event, resolved.type)
            if key not in numbers:
                numbers[key] = len(names)
                names.append(event.variable)
            number[event.variable] = numbers[key]
        shared |= {number[event.variable] for event in events(repeat)}
        automaton = build_automaton(resolved.query.pattern)
        state = [number[variable] for variable in automaton.variables]
        found: list[tuple[int | None, int | None]] = [(None, state[q]) for q, _ in automaton.initial]
        found += [(state[step.source], state[step.target]) for step in automaton.transitions]
        found += [(state[q], None) for q, _ in automaton.final]
        for ends in dict.fromkeys(found):
            steps.setdefault(ends, []).append(name)
    return MergedTemplate(
        tuple(names),
        frozenset(shared),
        tuple(TemplateStep(source, target, tuple(names)) for (source, target), names in steps.items()),
    )
