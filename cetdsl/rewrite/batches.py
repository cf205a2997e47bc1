"""The order of rewriting, as data.

Planning relies on the following properties of a rewritten query:

- ``where`` holds no LOCAL and no CONSTANT predicate: these have become conditions of events or have gone. Its items
  are no conjunctions.
- No variable stands both inside and outside of NOT in the same side of the pattern, so a condition speaks of every
  occurrence of its variable.
- An adjacent predicate mentions plain attributes of the earlier event and NEXT attributes of the later one, never
  PREV. A comparison that separates has the later event on its left. The two variables are neighbours in some trend.
- A pairwise comparison that separates has on its right the variable that the pattern names first; in a predicate of a
  NOT, the negated variable is on the left.
- SEQ and OR are flat and have at least two parts, but for SEQ around AND, which makes it AND of events in a sequence.
- An event's condition is None, FALSE alone, or a conjunction without TRUE. A pattern without any possible match is an
  event that is FALSE, or a sequence of such events if the answer names several variables.
- ``columns`` are the columns that the query reads.
"""

from __future__ import annotations

from cetdsl.analysis.classify import PredicateClass, negations_of, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import UnsupportedQuery
from cetdsl.pattern.query import NEXT, Query
from cetdsl.pattern.text import quote
from cetdsl.rewrite.engine import Batch, Trace, run_batches
from cetdsl.rewrite.rule import Rule
from cetdsl.rewrite.rules.booleans import drop_true, fold_constants, push_not, simplify_condition, split_conjunction
from cetdsl.rewrite.rules.bounds import keep_tighter_bound
from cetdsl.rewrite.rules.columns import prune_columns
from cetdsl.rewrite.rules.keys import drop_equality_of_key, equality_to_partition
from cetdsl.rewrite.rules.negations import alternatives_of_not
from cetdsl.rewrite.rules.neighbours import equality_to_adjacent, pairwise_to_adjacent
from cetdsl.rewrite.rules.predicates import (
    abs_to_two_comparisons,
    normalise_adjacent,
    normalise_pairwise,
    push_local_predicate,
    rename_negated,
)
from cetdsl.rewrite.rules.repetitions import collapse_nested_repetition
from cetdsl.rewrite.rules.sequences import (
    deduplicate_alternatives,
    flatten_alternative,
    flatten_sequence,
    unwrap_single,
)
from cetdsl.rewrite.rules.sums import separate_sums
from cetdsl.rewrite.rules.unreachable import drop_unreachable, drop_vacuous_predicate, falsify_contradiction

_SHAPE = (flatten_sequence, flatten_alternative, deduplicate_alternatives, unwrap_single, collapse_nested_repetition)
_SIMPLIFY = (push_not, fold_constants, split_conjunction, drop_true)
_KEYS = (equality_to_partition, drop_equality_of_key)
_PREDICATES = (
    normalise_adjacent,
    abs_to_two_comparisons,
    separate_sums,
    alternatives_of_not,
    equality_to_adjacent,
    pairwise_to_adjacent,
    normalise_pairwise,
    keep_tighter_bound,
    push_local_predicate,
)
_PRUNE = (simplify_condition, falsify_contradiction, drop_unreachable, drop_vacuous_predicate)

#: The last batch has the rules of all others again: when a branch is dropped, single parts remain, and splits or keys
#: become possible that the branch prevented.
BATCHES = (
    Batch("normalise", (*_SHAPE, rename_negated)),
    Batch("simplify", _SIMPLIFY),
    Batch("keys", _KEYS),
    Batch("predicates", _PREDICATES),
    Batch("prune", (*_PRUNE, *_SHAPE, rename_negated, *_SIMPLIFY, *_KEYS, *_PREDICATES, prune_columns)),
)


def all_rules() -> tuple[Rule, ...]:
    """Every rule once, in the order of its first batch."""
    return tuple(dict.fromkeys(rule for batch in BATCHES for rule in batch.rules))


def rewrite(resolved: ResolvedQuery) -> tuple[ResolvedQuery, Trace]:
    """Returns the query in the forms that the planner reads, and the trace of the rewriting.

    UnsupportedQuery is raised if, under MATCHING NEXT, a predicate remains that relates events which may be no
    neighbours.

    Examples
    --------
    >>> from cetdsl.analysis import Field, Schema, analyse
    >>> from cetdsl.pattern.nodes import Event, Repeat
    >>> from cetdsl.pattern.query import Query
    >>> resolved = analyse(Query(Repeat(Repeat(Event("a")))), Schema([Field("ts", "timestamp")]))
    >>> better, trace = rewrite(resolved)
    >>> better.query.pattern
    Repeat(part=Event(variable='a', type=None, condition=None), at_least=1, at_most=None)
    >>> trace.rules
    ('collapse-nested-repetition',)
    """
    better, trace = run_batches(resolved, [batch.under(resolved.query.matching) for batch in BATCHES])
    _refuse_undecided(better.query)
    return better, trace


def _refuse_undecided(query: Query) -> None:
    """Raises if it depends on more events of a trend than the last one which event may be bound next."""
    if query.matching != NEXT:
        return
    for predicate in query.where:
        if shape(predicate) is PredicateClass.PAIRWISE and not negations_of(predicate, query.pattern):
            raise UnsupportedQuery(
                f"{quote(predicate)} by MATCHING NEXT: it relates events that may be no neighbours, so that the last "
                "event of a trend does not tell what may be bound next",
                hint="relate neighbours, as in NEXT(b).x > b.x, partition by a column that is to be equal, or use "
                "MATCHING ANY or STRICT",
            )
