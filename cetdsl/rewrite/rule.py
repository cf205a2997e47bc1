"""A rewrite rule is one named value: what it does, what it keeps, and its before -> after as documentation."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import InvalidNode

Apply = Callable[[ResolvedQuery], ResolvedQuery]


class Keeps(enum.Enum):
    """What is the same before and after a rule, the strongest first."""

    #: The trends, and the number of ways in which the pattern derives each.
    DERIVATIONS = "derivations"
    #: The set of trends, and so every aggregate over them.
    TRENDS = "trends"


@attrs.frozen
class Rule:
    """A named rewriting of a resolved query.

    ``apply`` gives the rewritten query, or the same object when it has nothing to do. ``doc`` says in the text form of
    patterns what becomes of what.
    """

    name: str
    keeps: Keeps
    apply: Apply
    doc: str


def rule(name: str, *, keeps: Keeps) -> Callable[[Apply], Rule]:
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
        doc = inspect.getdoc(apply)
        if not doc or "->" not in doc:
            raise InvalidNode(f"the rule {name!r} needs a docstring that says before -> after")
        return Rule(name, keeps, apply, doc)

    return make
