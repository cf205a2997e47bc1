"""Explains a query by the stages that it passes, from its text to Spark's plan; each stage is shown as views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import check_choice
from cetdsl.execution.printed import printed
from cetdsl.execution.stopwatch import Taken
from cetdsl.explain.automata import pattern_view
from cetdsl.explain.graphviz import dot_of
from cetdsl.explain.html import fragment_of, page_of
from cetdsl.explain.physical import physical_views
from cetdsl.explain.text import text_of
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import quote_name, unparse
from cetdsl.planning.planner import Decision
from cetdsl.rewrite.engine import Step, Trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The stages, in the order in which a query passes them.
STAGES = ("parsed", "resolved", "rewritten", "physical", "spark")
#: The plans that are shown only when they are asked for: of trends, of complete trends, of their number, of samples, of
#: the heaviest trends, and of matches.
DECISIONS = ("trends", "complete", "complete_count", "sample", "top", "matches")
#: All that is shown only when it is asked for: also a survey, which runs a job.
ON_REQUEST = (*DECISIONS, "survey")


@attrs.frozen(repr=False)
class Explanation:
    """Explains how a query is understood and run; prints as text.

    Attributes
    ----------
    sections : tuple of (str, tuple of PlanView)
        The views of each stage that was asked for.
    """

    sections: tuple[tuple[str, tuple[PlanView, ...]], ...]

    @property
    def views(self) -> tuple[PlanView, ...]:
        """All views, in order."""
        return tuple(view for _, views in self.sections for view in views)

    @property
    def text(self) -> str:
        """All stages as text."""
        return "\n\n".join(_section_text(name, views) for name, views in self.sections)

    def graphviz(self) -> str:
        """Returns the views as one graph in Graphviz's language, DOT; only drawing it needs Graphviz.

        Returns
        -------
        str

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A")], "t int, type string")
        >>> df.pattern("PATTERN A+", time="t").explain("physical").graphviz().startswith("digraph")
        True
        """
        return dot_of(self.views)

    def html(self) -> str:
        """Returns the views as a web page with pictures, which needs no other file and no network.

        Returns
        -------
        str

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A")], "t int, type string")
        >>> "<svg" in df.pattern("PATTERN A+", time="t").explain("physical").html()
        True
        """
        return page_of("cetdsl: " + ", ".join(name for name, _ in self.sections), self.sections)

    def write_html(self, file: str | PathLike[str]) -> None:
        """Write the page of :meth:`html` to a file, as figures of Plotly do.

        Parameters
        ----------
        file : str or path
            It is replaced if it exists.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> df = spark.createDataFrame([(1, "A")], "t int, type string")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     df.pattern("PATTERN A+", time="t").explain().write_html(f"{folder}/plan.html")
        ...     "<svg" in Path(folder, "plan.html").read_text("utf-8")
        True
        """
        Path(file).write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        return fragment_of(self.sections)

    def __repr__(self) -> str:
        return self.text


def _section_text(name: str, views: tuple[PlanView, ...]) -> str:
    parts = [f"== {name} =="]
    for number, view in enumerate(views):
        # The first view of a stage needs no title of its own: the name of the stage stands above it.
        parts.append(("" if number == 0 else f"\n-- {view.title} --\n") + text_of(view))
    return "\n".join(parts)


@attrs.frozen
class Analysed:
    """A query as it was asked, as its columns resolve it, and as rules have rewritten it, step by step."""

    query: Query
    resolved: ResolvedQuery
    rewritten: ResolvedQuery
    trace: Trace


@attrs.frozen
class Plans:
    """Makes the plans of a query, each only for the stage that shows it.

    They are the ``dataframe`` of its answer, the numbers of a ``survey``, and the ``decisions`` by the stage that shows
    each: ``physical``, which is about the query's aggregates, and all of :data:`DECISIONS`. Spark jobs run for a
    survey. They may also run for a plan that depends on the events: for one that is made from a sample, or from the
    number of events in each group, or that consists of joins.
    """

    dataframe: Callable[[], DataFrame]
    survey: Callable[[], Mapping[str, Any]]
    decisions: Mapping[str, Callable[[], Decision]]


@attrs.frozen
class Measured:
    """The seconds that some stages took already, by name, and what measures a plan.

    ``takes`` measures the operators of the decision that a stage shows, and ``facts`` what only its strategy can count.
    """

    seconds: Mapping[str, float]
    takes: Callable[[Decision], Mapping[int, Taken]]
    facts: Callable[[Decision], tuple[tuple[str, str], ...]]


def explain_query(stage: str | None, analysed: Analysed, plans: Plans, measured: Measured | None = None) -> Explanation:
    """Explains one stage of a query, or all of :data:`STAGES`; if ``measured`` is given, also how long they take."""
    clock = _Clock(measured.seconds if measured is not None else None)

    def of_decision(stage: str) -> tuple[PlanView, ...]:
        decided = clock.timed(stage, plans.decisions[stage])
        if measured is None:
            return physical_views(decided)
        return physical_views(decided, measured.facts(decided), measured.takes(decided))

    query, resolved = analysed.query, analysed.resolved
    makers: dict[str, Callable[[], tuple[PlanView, ...]]] = {
        "parsed": lambda: (pattern_view(query.pattern, "query", unparse(query, lenient=True)),),
        "resolved": lambda: (resolved_view(resolved),),
        "rewritten": lambda: (rewritten_view(analysed.trace), final_view(analysed.rewritten)),
        "spark": lambda: (spark_view(clock.timed("spark", plans.dataframe)),),
        "survey": lambda: (survey_view(clock.timed("survey", plans.survey)),),
        **{stage: partial(of_decision, stage) for stage in ("physical", *DECISIONS)},
    }
    return Explanation(tuple((name, clock.shown(name, makers[name]())) for name in stages_of(stage)))


_Made = TypeVar("_Made")


class _Clock:
    """Measures how long stages take; it shows nothing if nothing is to be measured."""

    def __init__(self, seconds: Mapping[str, float] | None) -> None:
        self._seconds = None if seconds is None else dict(seconds)

    def timed(self, stage: str, make: Callable[[], _Made]) -> _Made:
        begin = perf_counter()
        made = make()
        if self._seconds is not None:
            self._seconds[stage] = perf_counter() - begin
        return made

    def shown(self, stage: str, views: tuple[PlanView, ...]) -> tuple[PlanView, ...]:
        """The views of a stage with the time that it took."""
        if self._seconds is None or stage not in self._seconds:
            return views
        fact = ("took", f"{1000 * self._seconds[stage]:.1f} ms to make")
        return attrs.evolve(views[0], facts=(fact, *views[0].facts)), *views[1:]


def stages_of(stage: str | None) -> tuple[str, ...]:
    """The stages that a name stands for.

    Examples
    --------
    >>> stages_of("physical")
    ('physical',)
    >>> stages_of("fysical")
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: no stage 'fysical'
      hint: did you mean 'physical'?
    """
    if stage is None:
        return STAGES
    known = (*STAGES, *ON_REQUEST)
    check_choice("stage", stage, known, f"choose one of {', '.join(known)}, or leave it out to see the first five")
    return (stage,)


def resolved_view(resolved: ResolvedQuery) -> PlanView:
    """The query with the exact names of its columns, and how events are read."""
    view = pattern_view(resolved.query.pattern, "query over the columns", unparse(resolved.query, lenient=True))
    return attrs.evolve(view, facts=events_facts(resolved))


def events_facts(resolved: ResolvedQuery) -> tuple[tuple[str, str], ...]:
    """Returns facts on how events are read from the columns of a DataFrame."""
    unit = "whole ticks" if resolved.time_unit == "tick" else "microseconds"
    ties = ", ".join(map(quote_name, resolved.tie_break))
    read = set(resolved.columns)
    columns = [f"{quote_name(f.name)} {f.type}" for f in resolved.schema.fields if f.name in read]
    return (
        ("time", f"{quote_name(resolved.time.name)} ({resolved.time.type}), in {unit}"),
        ("simultaneous", f"ordered by {ties}" if ties else "events of the same time are never in one trend"),
        ("type", quote_name(resolved.type) if resolved.type else "no column: conditions alone decide"),
        ("no time", "the row is left out" if resolved.on_null_time == "skip" else "an error"),
        ("columns", ", ".join(columns) or "none"),
    )


def rewritten_view(trace: Trace) -> PlanView:
    """The steps of rewriting: the rule that was applied, and the lines of the query that it changed."""
    nodes = [ViewNode(str(n), f"{n}. {step.rule}", _changes(step)) for n, step in enumerate(trace, 1)]
    edges = [ViewEdge(a.id, b.id) for a, b in pairwise(nodes)]
    text = "\n".join("\n".join([node.label, *(f"   {line}" for line in node.details)]) for node in nodes)
    return PlanView("rules", tuple(nodes), tuple(edges), (), text or "nothing to rewrite")


def _changes(step: Step) -> tuple[str, ...]:
    before, after = (unparse(side.query, lenient=True).splitlines() for side in (step.before, step.after))
    before.append("reads " + (", ".join(step.before.columns) or "no column"))
    after.append("reads " + (", ".join(step.after.columns) or "no column"))
    gone = [f"- {line}" for line in before if line not in after]
    return (*gone, *(f"+ {line}" for line in after if line not in before))


def final_view(rewritten: ResolvedQuery) -> PlanView:
    """The query that is planned."""
    text = unparse(rewritten.query, lenient=True)
    view = pattern_view(rewritten.query.pattern, "rewritten query", text)
    return attrs.evolve(view, facts=(("reads", ", ".join(map(quote_name, rewritten.columns)) or "no column"),))


#: What the names of a survey's numbers leave unsaid.
_REMARKS = {
    "surviving": ", those on a trend",
    "refs": ", the sum of the lengths of trends",
    "predicted_bytes": " at most for a graph",
    "bytes": " at most for a graph, as measured",
    "steps": ", as measured",
}


def survey_view(numbers: Mapping[str, Any]) -> PlanView:
    """Shows the sizes of the graphs of all groups and windows, and the work of listing their trends."""
    shown = {name: _shown_number(value) for name, value in numbers.items() if value is not None}
    return PlanView("survey", facts=tuple((name, f"{text}{_REMARKS.get(name, '')}") for name, text in shown.items()))


def _shown_number(value: float | list[str]) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return f"about {value:.3g}" if value >= 1e15 else f"{value:.0f}"


def spark_view(dataframe: DataFrame) -> PlanView:
    """Shows Spark's own explanation of the answer's DataFrame.

    Spark's public API only prints it, in classic Spark and in Connect, so what is printed is caught.
    """
    return PlanView("Spark's plan", text=printed(lambda: dataframe.explain(mode="formatted")).strip())
