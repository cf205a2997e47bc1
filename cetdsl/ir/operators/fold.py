"""Fold: built-in Spark expressions only, an ``aggregate()`` over each key's sorted array of events."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Carry, Step
from cetdsl.pattern.text import quote_name


@attrs.frozen
class Fold(Carry):
    """Collects the events of each key and window into an array, and folds it."""

    only_batch = "Spark would sort the events of each key, as it does with no stream"

    aggregates = True

    def steps(self) -> tuple[Step, ...]:
        source = self.source
        keys = words.keys_and_window(source, source.keys)
        order = ", ".join(map(quote_name, (source.time, *source.tie_break)))
        by = "group by " + ", ".join(keys) if keys else "one group, as there is no key"
        return (
            Step("project", tuple(words.projected(source, self.compiled, self.values))),
            Step(by, (f"collect_list, which Spark sorts by {order}",)),
            Step("fold: aggregate() over the array", self.carried),
        )

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"linear in the events of {words.unit_of(self.source)}, besides sorting them",)
