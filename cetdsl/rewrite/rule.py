"""The class of a rewrite rule: its effect, what it keeps, and its before -> after as documentation."""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Callable

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import InvalidNode
from cetdsl.pattern.query import POLICIES

Apply = Callable[[ResolvedQuery], ResolvedQuery]


class Keeps(enum.Enum):
    """The properties that a rule preserves, the strongest first."""

    #: The trends, and the number of ways in which the pattern derives each.
    DERIVATIONS = "derivations"
    #: The set of trends, and so every aggregate over them.
    TRENDS = "trends"


@attrs.frozen
class Rule:
    """A named rewriting of a resolved query.

    ``apply`` returns the rewritten query, or the same object when there is nothing to do. ``doc`` shows the query
    before and after, in text form. ``policies`` are the matching policies under which the rule preserves what ``keeps``
    says: a rule about whole trends may change which events could have been bound next, on which other policies depend.
    """

    name: str
    keeps: Keeps
    apply: Apply
    doc: str
    policies: tuple[str, ...] = POLICIES


def rule(name: str, *, keeps: Keeps, policies: tuple[str, ...] = POLICIES) -> Callable[[Apply], Rule]:
    """Make a rule of a function whose docstring is ``before -> after``.

    Examples
    --------
    >>> @rule("do-nothing", keeps=Keeps.DERIVATIONS)
    ... def do_nothing(resolved):
    ...     '''A  ->  A'''
    ...     return resolved
    >>> do_nothing.name, do_nothing.doc
    ('do-nothing', 'A  ->  A')
    """

    def make(apply: Apply) -> Rule:
        doc = inspect.getdoc(apply) or ""
        drops_docstrings = sys.flags.optimize >= 2  # as python -OO
        if "->" not in doc and not drops_docstrings:
            raise InvalidNode(f"the rule {name!r} needs a docstring that says before -> after")
        return Rule(name, keeps, apply, doc, policies)

    return make
