"""Pictures that the library draws where pages are built: ``.. cell::`` runs Python and shows what a notebook would."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from typing import Any

from cetdsl_gallery import prepare_spark, script_of
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SETUP = Path(__file__).parents[1] / "example_setup.py"


class Cell(SphinxDirective):
    """``.. cell:: What it shows``: lines of Python, and the picture of the last one, an expression.

    The lines may use what the examples of every page may. They are not shown.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(SETUP))
        title = " ".join(self.arguments[0].split())
        name = f"{self.env.docname.replace('/', '-')}-{self.env.new_serialno('cell')}"
        drawn = picture(shown(list(self.content)), name, self.env.docname.count("/"))
        caption = nodes.paragraph("", title, classes=["caption"])
        return [nodes.container("", nodes.raw("", f'<div class="automaton">{drawn}</div>', format="html"), caption)]


def shown(lines: list[str]) -> Any:
    """The value of the last line, after those before it have run."""
    prepare_spark()
    known = runpy.run_path(str(SETUP))
    *before, last = ast.parse("\n".join(lines)).body
    assert isinstance(last, ast.Expr), "the last line of a cell is what it shows"
    exec(compile(ast.Module(before, []), "cell", "exec"), known)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), known)


def picture(value: Any, name: str, depth: int) -> str:
    """A view as the library draws it, or a figure of Plotly as an element of this name; pages stand so deep."""
    from cetdsl.explain.svg import svg_of
    from cetdsl.explain.view import PlanView

    if isinstance(value, PlanView):
        return svg_of(value)
    import plotly.io as pio

    return pio.to_html(value, include_plotlyjs=script_of(depth), full_html=False, validate=False, div_id=name)


def setup(app: Sphinx) -> dict[str, object]:
    app.add_directive("cell", Cell)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
