"""Directives that take what they show from the code, so that it cannot grow old.

``automaton``        the automaton of a pattern, drawn
``grammar``          the railroad diagrams of the text form
``rewrite-rules``    the table of rewrite rules
``reserved-words``   the words that names must be quoted for
``error-classes``    the tree of exceptions
``error-reference``  an entry for each of them but the root
``command-help``     what ``cetdsl COMMAND --help`` prints
"""

from __future__ import annotations

import contextlib
import html
import inspect
import io
import os
import re
from collections.abc import Callable, Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def figure(svg: str, label: str, kind: str) -> nodes.Node:
    """An inline picture with its text alternative."""
    svg = svg[svg.index("<svg") :]
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


class Grammar(SphinxDirective):
    """``.. grammar::``: a railroad diagram for each rule that consists of more than one word."""

    def run(self) -> list[nodes.Node]:
        from pyparsing.diagram import to_railroad

        from cetdsl.frontend.sase import grammar

        drawn = []
        for diagram in to_railroad(grammar(), vertical=7):
            written: list[str] = []
            diagram.diagram.writeSvg(written.append)
            drawn.append((diagram.name, diagram.bookmark, "".join(written)))
        shown = [(name, mark, svg) for name, mark, svg in drawn if len(words(svg)) > 1]
        marks = {mark for _, mark, _ in shown}
        result: list[nodes.Node] = []
        for name, mark, svg in shown:
            heading = nodes.paragraph("", "", nodes.strong("", name), classes=["railroad-name"])
            anchor = nodes.raw("", f'<span id="{mark}"></span>', format="html")
            result += [anchor, heading, figure(linked(svg, marks), f"The rule {name}", "railroad")]
        return result


def words(svg: str) -> set[str]:
    """The words in a diagram, without the notes of the diagram maker."""
    return {word for word in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if word != "[suppress]"}


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


class ErrorClasses(Generated):
    """``.. error-classes::``: every exception under its base class."""

    def lines(self) -> Iterator[str]:
        from cetdsl import errors

        yield from self.below(errors.CetdslError, 0)

    def below(self, cls: type[Exception], depth: int) -> Iterator[str]:
        builtins = [base.__name__ for base in cls.__mro__[1:] if base.__module__ == "builtins"]
        near = next(name for name in builtins if name not in ("BaseException", "object"))
        summary = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")
        yield f"{'  ' * depth}- :class:`{cls.__name__} <cetdsl.errors.{cls.__name__}>` (``{near}``): {summary}"
        yield ""
        for child in sorted(cls.__subclasses__(), key=order):
            if child.__module__ == cls.__module__:
                yield from self.below(child, depth + 1)


class ErrorReference(Generated):
    """``.. error-reference::``: an entry for every exception but the root."""

    def lines(self) -> Iterator[str]:
        from cetdsl import errors

        for name in sorted(errors.__all__):
            if name != "CetdslError":
                yield f".. autoexception:: cetdsl.errors.{name}()"
                yield ""


class ReservedWords(Generated):
    """``.. reserved-words::``: one paragraph of them."""

    def lines(self) -> Iterator[str]:
        from cetdsl.pattern.text import RESERVED

        yield ", ".join(f"``{word}``" for word in sorted(RESERVED)) + "."


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
        "grammar": Grammar,
        "rewrite-rules": RewriteRules,
        "error-classes": ErrorClasses,
        "error-reference": ErrorReference,
        "reserved-words": ReservedWords,
        "command-help": CommandHelp,
    }
    for name, directive in directives.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
