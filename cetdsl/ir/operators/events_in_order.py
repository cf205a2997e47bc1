"""EventsInOrder: the events of a key in one task, in order of time."""

from __future__ import annotations

import attrs

from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.keeping import BY_WINDOW, Keeping
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Operator, Requirement, Step
from cetdsl.ir.sorting import Sorting
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.text import quote_name

#: Where nothing has been decided.
SORTED_BY_SPARK = Sorting("nothing says otherwise")


@attrs.frozen
class EventsInOrder(Requirement):
    """The requirement of a stage on its events, beside the columns that its query refers to.

    ``values`` are the aggregated terms of each event, and ``columns`` the user's columns of it that are shown; None: no
    events are shown. If ``identified``, each event has one more column, the last, that identifies it. If ``shared``, as
    many tasks as there are cores get all events of a key, each with the number of its share.

    If ``settled``, simultaneous events have an order that is the same whenever the rows are computed. The events of
    shares always have such an order, because the shares of a key agree on its trends only if all see its events in the
    same order.

    If ``in_panes``, events go to tasks by key and pane; without windows there are no keys, and a pane is a range of
    time. ``sorting`` says who sorts the events of a task, and ``keeping`` how a stream keeps them. These two are no
    requirements but decisions of the planner.

    If ``for_many``, many queries read the events, so that each event is sent with all that any of them asks for.

    If ``where_read``, events are not sent to the tasks of their keys. Each task has the events that it reads, in order
    within each part of a file.

    If there are plans that are ``learning``, one for each branch of the query, a stream that keeps each event once
    keeps statistics of the events for these plans, too.

    If there are ``tests``, each event has a bit per test, which says whether the test holds. ``kind`` is the column
    whose texts are the kinds of events.
    """

    spec: KernelSpec
    values: tuple[Expr, ...] = ()
    columns: tuple[str, ...] | None = None
    identified: bool = False
    shared: bool = False
    settled: bool = False
    in_panes: bool = False
    where_read: bool = False
    for_many: bool = False
    tests: tuple[Expr, ...] = ()
    kind: str | None = None
    learning: tuple[BranchPlan, ...] = ()
    sorting: Sorting = SORTED_BY_SPARK
    keeping: Keeping = BY_WINDOW

    def steps(self, below: Operator) -> tuple[Step, ...]:
        source, compiled = below.source, below.compiled
        lines = words.projected(source, compiled, self.values)
        if self.kind is not None:
            lines.append(f"kind: {quote_name(self.kind)}")
        if self.tests:
            lines.append(f"which of {len(self.tests)} conditions it meets" if len(self.tests) > 1 else "its condition")
        if self.columns is not None:
            lines.append("event: " + (", ".join(self.columns) or "no columns"))
        steps = [Step("project", tuple(lines))]
        if compiled.lists:
            steps.append(
                Step("list which earlier events fit", tuple(words.of_list(compiled, c) for c in compiled.lists))
            )
        keys = list(map(quote_name, source.keys)) + (["time bucket"] if source.windowing.cut else [])
        if self.where_read:
            keys.append("part of a file")
        if self.in_panes and not (self.where_read and self.spec.query.windowing.kind == WHOLE):
            keys.append("range of time" if self.spec.query.windowing.kind == WHOLE else "pane")
        if self.sorting.in_parcels:
            steps.append(words.packed("events"))
        if self.shared:
            steps.append(Step("copy to every share, one per core"))
            keys.insert(len(source.keys), "share")
        if source.is_stream:
            # If events are kept whole, the scan has shown that step already.
            kept = [] if self.keeping.whole else [self._kept(source)]
            return (*steps, *kept, Step("sort each task's events", (f"by the kernel: {self.sorting.why}",)))
        order = ", ".join([*keys, quote_name(source.time), *map(quote_name, source.tie_break)])
        sort, shuffle = f"sort each task's events by {order}", Step(words.shuffle(keys))
        if self.where_read:
            return (*steps, Step(sort, (self.sorting.who,)))
        if self.sorting.in_runs:
            runs = Step(sort, (f"put those of a key into sorted runs, one row each: {self.sorting.runs}",))
            return (*steps, runs, shuffle, Step("merge the runs of each key"))
        return (*steps, shuffle, Step(sort, (self.sorting.who,)))

    @property
    def learns(self) -> bool:
        """Whether the state of the stream keeps statistics of the events beside them."""
        return bool(self.learning) and self.keeping.once and not self.keeping.whole

    def _kept(self, source: Source) -> Step:
        kept = words.kept(source, self.keeping, in_panes=self.in_panes)
        if not self.learning:
            return kept
        begun = f"plans begin anew with each {words.unit_of(source).removeprefix('a ')}"
        if self.learns:
            begun = "keep statistics of the events that have passed, by which plans begin"
        return Step(kept.label, (*kept.details, begun))
