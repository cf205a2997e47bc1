"""Directives that take what they show from the code, so that it cannot grow old.

``automaton``        the automaton of a pattern, drawn
``graph``            what leads to what, drawn
``plan``             the plan that a generator makes, drawn
``plans-of-a-day``   rates of delayed flights over a day, and when the plan changes, drawn
``grammar``          the railroad diagrams of the text form, or of a clause
``rewrite-rules``    the table of rewrite rules
``reserved-words``   the words that names must be quoted for
``measured-races``   figures of the benchmark
``error-classes``    the tree of exceptions
``error-reference``  an entry for each of them but the root
``command-help``     what ``cetdsl COMMAND --help`` prints
``constant``         a text that the code holds
"""

from __future__ import annotations

import contextlib
import html
import importlib
import inspect
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import pyparsing
from clause_grammar import clause_grammar
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def figure(svg: str, label: str, kind: str) -> nodes.Node:
    """An inline picture with its text alternative."""
    svg = svg[svg.index("<svg") :]
    if 'role="img"' not in svg:
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(label, quote=True)}"', 1)
    return nodes.raw("", f'<div class="{kind}">{svg}</div>', format="html")


class Automaton(SphinxDirective):
    """``.. automaton:: SEQ(A, B+)``: the picture, and below it the pattern that it is of."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from cetdsl import parse
        from cetdsl.explain import draw_automaton

        text = " ".join(self.arguments[0].split())
        picture = draw_automaton(parse(f"PATTERN {text}").node.pattern)
        caption = nodes.paragraph("", "", nodes.literal("", text), classes=["caption"])
        return [nodes.container("", figure(picture, f"The automaton of {text}", "automaton"), caption)]


class Graph(SphinxDirective):
    """``.. graph:: What it shows``: a line each, such as ``c1 A→B: c2 c3``, with those that an arrow leads to.

    An arrow from nowhere leads to what no other arrow leads to; what none goes out from has a double border.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        from cetdsl.explain.svg import automaton_svg
        from cetdsl.explain.view import FINAL, NOWHERE, STATE, PlanView, ViewEdge, ViewNode

        lines = [line.partition(":") for line in self.content]
        steps = [ViewEdge(label.split()[0], later) for label, _, follow in lines for later in follow.split()]
        followers = {step.target for step in steps}
        boxes = [
            ViewNode(label.split()[0], label, shape=STATE if later.strip() else FINAL) for label, _, later in lines
        ]
        firsts = [ViewEdge(NOWHERE, box.id) for box in boxes if box.id not in followers]
        title = " ".join(self.arguments[0].split())
        picture = automaton_svg(PlanView(title, tuple(boxes), tuple(firsts + steps)))
        caption = nodes.paragraph("", title, classes=["caption"])
        return [nodes.container("", figure(picture, title, "automaton"), caption)]


class Plan(SphinxDirective):
    """``.. plan:: SEQ(a, b)``, ``:rates: a 10, b 5`` and perhaps ``:selectivities: a b 0.1``: the plan, drawn.

    The parts are single events; ``:algorithm:`` is "greedy", "dynamic" or "tree".
    """

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = dict.fromkeys(("rates", "selectivities", "algorithm"), str)

    def run(self) -> list[nodes.Node]:
        from cetdsl.detection.cost import Expectation
        from cetdsl.detection.plans import Problem
        from cetdsl.detection.statistics import Statistics
        from cetdsl.explain.plans import plan_view
        from cetdsl.explain.svg import tree_svg

        kind, *names = re.findall(r"\w+", self.arguments[0])
        rates = {name: float(rate) for name, rate in _parts(self.options["rates"])}
        shares = {(one, other): float(share) for one, other, share in _parts(self.options.get("selectivities", ""))}
        make = {"SEQ": Problem.sequence, "AND": Problem.conjunction}[kind]
        problem = make(*names, predicates=[tuple(sorted(map(names.index, pair))) for pair in shares])
        view = plan_view(Expectation(problem, Statistics(rates, shares)), self.options["algorithm"])
        text = " ".join(self.arguments[0].split())
        title = f"{text}, rates {self.options['rates']}, {view.title}"
        caption = nodes.paragraph("", "", nodes.literal("", text), nodes.Text(title[len(text) :]), classes=["caption"])
        return [nodes.container("", figure(tree_svg(view), title, "automaton"), caption)]


def _parts(text: str) -> list[list[str]]:
    return [part.split() for part in text.split(",") if part.strip()]


class PlansOfADay(SphinxDirective):
    """``.. plans-of-a-day:: 2013-06-13``: rates of delayed departures by airport, and when the plan changes."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        title = f"Departures delayed by 15 minutes or more, New York City, {self.arguments[0]}"
        caption = nodes.paragraph("", title, classes=["caption"])
        return [nodes.container("", figure(plans_of_a_day(self.arguments[0]), title, "automaton"), caption)]


#: How many delayed departures are in a slice, and by how much an invariant must be violated.
SLICE, DISTANCE = 20, 0.2


def plans_of_a_day(day: str) -> str:
    """The chart, from the loop that kernels run: statistics of the last eight slices, invariants, greedy orders."""
    from cetdsl.datasets import _flights_table
    from cetdsl.detection.decisions import Adaptation
    from cetdsl.detection.histograms import SlidingStatistics
    from cetdsl.detection.loop import Loop
    from cetdsl.detection.plans import Problem
    from cetdsl.explain.charts import chart_svg

    table = _flights_table().select(["scheduled", "origin", "dep_delay"])
    rows = zip(*(table[name].to_pylist() for name in table.column_names))
    events = sorted(
        (time.hour + time.minute / 60, origin)
        for time, origin, delay in rows
        if time.date().isoformat() == day and (delay or 0) >= 15
    )
    names = ("EWR", "JFK", "LGA")
    problem = Problem.sequence(*names)
    seen, loop, begun = SlidingStatistics(problem, 8), None, events[0][0]
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    marks = []
    for first in range(0, len(events) - SLICE + 1, SLICE):
        part = events[first : first + SLICE]
        end = part[-1][0]
        seen.add([end - begun, *(sum(origin == name for _, origin in part) for name in names)])
        begun, statistics = end, seen.statistics()
        for name in names:
            lines[name].append((end, statistics.rate(name)))
        if loop is None:
            loop = Loop(problem, "greedy", Adaptation(distance=DISTANCE), statistics)
            marks.append((end, loop.plan.show(names)))
        changes = loop.counts.changes
        plan = loop.observe(statistics)
        if loop.counts.changes > changes:
            marks.append((end, plan.show(names)))
    ticks = [(float(hour), f"{hour}:00") for hour in range(6, 25, 3)]
    return chart_svg(f"Rates and plans on {day}", lines, marks, ticks, "delayed departures an hour")


def text_grammar() -> pyparsing.ParserElement:
    """The grammar of queries."""
    from cetdsl.frontend.sase import grammar

    return told_apart(grammar())


#: The grammars that are drawn, by the argument of the directive.
GRAMMARS: dict[str, Callable[[], pyparsing.ParserElement]] = {"query": text_grammar, "clause": clause_grammar}


class Grammar(SphinxDirective):
    """``.. grammar:: clause``: a railroad diagram for each rule that consists of more than one word."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        grammar = GRAMMARS[self.arguments[0]]()
        drawn = [(name, mark, svg) for name, mark, svg in diagrams(grammar) if len(words(svg)) > 1]
        marks = {mark for _, mark, _ in drawn}
        result: list[nodes.Node] = []
        for name, mark, svg in drawn:
            heading = nodes.paragraph("", "", nodes.strong("", name), classes=["railroad-name"])
            anchor = nodes.raw("", f'<span id="{mark}"></span>', format="html")
            result += [anchor, heading, figure(linked(svg, marks), f"The rule {name}", "railroad")]
        return result


def diagrams(grammar: pyparsing.ParserElement) -> Iterator[tuple[str, str, str]]:
    """Name, bookmark and picture of every rule of a grammar."""
    import railroad
    from pyparsing.diagram import to_railroad

    # Alternatives one below the other, sequences from left to right, and no boxes around what the parser drops.
    sideways = patch("railroad.Stack", railroad.Sequence)
    unboxed = patch("pyparsing.diagram.AnnotatedItem", lambda label, item: item)
    with sideways, unboxed:
        for diagram in to_railroad(grammar, vertical=2):
            written: list[str] = []
            diagram.diagram.writeSvg(written.append)
            yield diagram.name, diagram.bookmark, "".join(written)


#: What rules are called that share a name with one of their parts: only one of a name would be drawn.
OTHER_NAMES = {
    (pyparsing.MatchFirst, "pattern part"): "pattern without NOT",
    (pyparsing.OneOrMore, "length"): "length of time",
    **{(pyparsing.And, word): f"{word} of patterns" for word in ("SEQ", "AND", "OR")},
    **{(pyparsing.MatchFirst, f"( after {word}"): "patterns in brackets" for word in ("SEQ", "AND", "OR")},
}


def told_apart(grammar: pyparsing.ParserElement) -> pyparsing.ParserElement:
    """The grammar, whose names nothing else needs in this process, with each name given once."""
    seen: set[int] = set()
    waiting = [grammar]
    while waiting:
        element = waiting.pop()
        if id(element) in seen:
            continue
        seen.add(id(element))
        waiting += element.recurse()
        name = OTHER_NAMES.get((type(element), element.name))
        # Of the two rules called "pattern part" the shorter one, with NOT or without, keeps its name.
        if name and not (name == "pattern without NOT" and len(element.recurse()) == 2):
            element.set_name(name)
    return grammar


def words(svg: str) -> set[str]:
    """The words in a diagram."""
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", svg))


def linked(svg: str, marks: set[str]) -> str:
    """The picture with links only to rules that are shown, and each word drawn once."""
    svg = re.sub(r"(<text[^>]*>[^<]*</text>)\1", r"\1", svg)

    def link(found: re.Match[str]) -> str:
        return found[0] if found[1] in marks else found[2]

    return re.sub(r'<a xlink:href="#([^"]*)">(.*?)</a>', link, svg, flags=re.DOTALL)


class Generated(SphinxDirective):
    """A directive that writes reStructuredText."""

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.lines()))


class RewriteRules(Generated):
    """``.. rewrite-rules::``: name, what it does, what it keeps."""

    def lines(self) -> Iterator[str]:
        from cetdsl.rewrite import all_rules

        for rule in all_rules():
            example, _, more = rule.doc.partition("\n\n")
            yield f"**{rule.name}**"
            yield "   .. code-block:: text"
            yield ""
            yield from (f"      {line}".rstrip() for line in example.splitlines())
            yield ""
            yield from (f"   {line}".rstrip() for line in more.splitlines())
            yield ""


class MeasuredRaces(Generated):
    """``.. measured-races:: sorting, sliding``: seconds of some races, and of what they ran against."""

    required_arguments = 1
    final_argument_whitespace = True

    def lines(self) -> Iterator[str]:
        path = Path(__file__).parents[2] / "benchmarks" / "results.json"
        self.env.note_dependency(str(path))
        races = json.loads(path.read_text(encoding="utf-8"))["races"]
        yield from (".. list-table::", "   :header-rows: 1", "   :widths: 64 12 12 12", "")
        yield from ("   * - What", "     - Seconds", "     - Against", "     - Ratio")
        for name in re.findall(r"\w+", self.arguments[0]):
            race = races[name]
            yield f"   * - **{race['about']}** ({race['measured_on'].split()[0]})"
            yield from ("     -",) * 3
            for line in race["verdicts"]:
                ratio = line["figure"] if line["unit"] == "x" else None
                figures = line["seconds"], line.get("against_seconds"), ratio
                yield f"   * - {line['what']}"
                yield from ("     -" if figure is None else f"     - {figure:.3g}" for figure in figures)
        yield ""


class ErrorClasses(Generated):
    """``.. error-classes::``: every exception under its base class."""

    def lines(self) -> Iterator[str]:
        from cetdsl import errors

        yield from self.below(errors.CetdslError, 0)

    def below(self, cls: type[Exception], depth: int) -> Iterator[str]:
        # Its own builtin base if it has one, else the one that it inherits.
        builtin = next(base for base in (*cls.__bases__, *cls.__mro__) if base.__module__ == "builtins")
        summary = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")
        link = f":class:`{cls.__name__} <cetdsl.errors.{cls.__name__}>`"
        yield f"{'  ' * depth}- {link} (``{builtin.__name__}``): {summary}"
        yield ""
        for child in sorted(cls.__subclasses__(), key=order):
            if child.__module__ == cls.__module__:
                yield from self.below(child, depth + 1)


class ErrorReference(Generated):
    """``.. error-reference::``: an entry for every exception but the root."""

    def lines(self) -> Iterator[str]:
        from cetdsl import errors

        for name in sorted(errors.__all__):
            if inspect.isclass(getattr(errors, name)) and name != "CetdslError":
                yield f".. autoexception:: cetdsl.errors.{name}()"
                yield ""


class ReservedWords(Generated):
    """``.. reserved-words::``: one paragraph of them."""

    def lines(self) -> Iterator[str]:
        from cetdsl.pattern.text import RESERVED

        yield ", ".join(f"``{word}``" for word in sorted(RESERVED)) + "."


class Constant(SphinxDirective):
    """``.. constant:: cetdsl.demo.GROWING_DELAYS``: a text that the code holds."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        text = getattr(importlib.import_module(module), name)
        return [nodes.literal_block(text, text, language="text")]


class CommandHelp(SphinxDirective):
    """``.. command-help:: run``: the help that the command prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from cetdsl.cli import main

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            main([self.arguments[0], "--help"])
        text = printed.getvalue().strip()
        return [nodes.literal_block(text, text, language="text")]


def order(cls: type) -> int:
    """The place of a class in its file."""
    return inspect.getsourcelines(cls)[1]


def setup(app: Sphinx) -> dict[str, object]:
    # argparse wraps its help to the width of the terminal, if there is one.
    os.environ["COLUMNS"] = "100"
    directives: dict[str, Callable[..., object]] = {
        "automaton": Automaton,
        "graph": Graph,
        "plan": Plan,
        "plans-of-a-day": PlansOfADay,
        "grammar": Grammar,
        "rewrite-rules": RewriteRules,
        "measured-races": MeasuredRaces,
        "error-classes": ErrorClasses,
        "error-reference": ErrorReference,
        "reserved-words": ReservedWords,
        "command-help": CommandHelp,
        "constant": Constant,
    }
    for name, directive in directives.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
