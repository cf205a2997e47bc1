"""Runs batches of rules to their fix points, keeps a trace, and refuses to loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import RewriteCycle
from cetdsl.pattern.text import unparse
from cetdsl.rewrite.rule import Rule

#: The most steps of one batch; no query that people write comes near.
STEP_LIMIT = 10_000


@attrs.frozen
class Batch:
    """Rules that are applied in turn until none of them changes anything."""

    name: str
    rules: tuple[Rule, ...]

    def under(self, policy: str) -> Batch:
        """Returns the batch with only those rules that are valid under a matching policy."""
        return Batch(self.name, tuple(rule for rule in self.rules if policy in rule.policies))


@attrs.frozen
class Step:
    """One application of a rule."""

    batch: str
    rule: str
    before: ResolvedQuery
    after: ResolvedQuery

    def __str__(self) -> str:
        if self.before.query == self.after.query:
            return f"{self.rule}\n  columns {_names(self.before)}\n  ->      {_names(self.after)}"
        before, after = (_indented(resolved) for resolved in (self.before, self.after))
        return f"{self.rule}\n{before}\n  ->\n{after}"


def _names(resolved: ResolvedQuery) -> str:
    return ", ".join(resolved.columns)


def _indented(resolved: ResolvedQuery) -> str:
    return "\n".join("    " + line for line in unparse(resolved.query, lenient=True).splitlines())


@attrs.frozen
class Trace:
    """The steps of a rewriting, in order."""

    steps: tuple[Step, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that changed something, in order."""
        return tuple(step.rule for step in self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) if self.steps else "nothing to rewrite"


def run_batches(
    resolved: ResolvedQuery, batches: Sequence[Batch], step_limit: int = STEP_LIMIT
) -> tuple[ResolvedQuery, Trace]:
    """Apply each batch to its fix point.

    RewriteCycle is raised if a batch comes back to a query that it has left, or takes more than ``step_limit`` steps.
    """
    steps: list[Step] = []
    for batch in batches:
        resolved = _fix_point(resolved, batch, steps, step_limit)
    return resolved, Trace(tuple(steps))


def _fix_point(resolved: ResolvedQuery, batch: Batch, steps: list[Step], step_limit: int) -> ResolvedQuery:
    seen = {resolved}
    first = len(steps)
    while True:
        before_round = resolved
        for rule in batch.rules:
            after = rule.apply(resolved)
            if after is resolved or after == resolved:
                continue
            steps.append(Step(batch.name, rule.name, resolved, after))
            if after in seen or len(steps) - first > step_limit:
                recent = ", ".join(step.rule for step in steps[first:][-5:])
                why = "comes back to a query that it has left" if after in seen else f"exceeds {step_limit} steps"
                raise RewriteCycle(
                    f"the batch {batch.name!r} {why}; its last rules were {recent}",
                    hint="this is a defect of cetdsl; please report the query",
                )
            seen.add(after)
            resolved = after
        if resolved is before_round:
            return resolved
