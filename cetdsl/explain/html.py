"""Writes views as a web page without external files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from cetdsl.explain.svg import svg_of
from cetdsl.explain.text import facts_of, text_of
from cetdsl.explain.view import PlanView, children_of

# Titles have the colour of the page or notebook that they are on, light or dark. Pictures and
# texts bring their own background.
_STYLE = """
.cetdsl { font-family: system-ui, sans-serif; line-height: 1.45; }
.cetdsl h2 { font-size: 1.15rem; border-bottom: 1px solid #9aa5b1; padding-bottom: .2rem; margin: 1.6rem 0 .6rem; }
.cetdsl h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
.cetdsl pre { background: #f5f7fa; color: #1f2933; padding: .7rem .9rem; border-radius: 6px; font-size: .85rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.cetdsl .picture { overflow-x: auto; background: #ffffff; border: 1px solid #e4e7eb; border-radius: 6px;
  padding: .3rem; }
.cetdsl svg { display: block; margin: 0 auto; max-width: none; }
.cetdsl details, .cetdsl .leaf { margin: .15rem 0 .15rem 1.1rem; }
.cetdsl summary, .cetdsl .leaf { font-family: monospace; font-size: .85rem; overflow-wrap: anywhere; }
.cetdsl summary { cursor: pointer; margin-left: -1.1rem; }
.cetdsl .note { opacity: .75; }
.cetdsl summary .note { margin-left: 1.1rem; }
""".strip()


def fragment_of(sections: Iterable[tuple[str, tuple[PlanView, ...]]]) -> str:
    """Returns the HTML that a notebook shows: titled sections of views."""
    parts = [f'<div class="cetdsl"><style>{_STYLE}</style>']
    for name, views in sections:
        parts.append(f"<h2>{escape(name)}</h2>")
        for view in views:
            parts.append(f"<h3>{escape(view.title)}</h3>")
            parts += _shown(view)
    return "\n".join([*parts, "</div>"])


def _shown(view: PlanView) -> Iterator[str]:
    """Yields the facts of a view, then its own text, a picture, a tree that unfolds, or a list of nodes."""
    picture = "" if view.text else svg_of(view)
    folds = view.folds and not picture
    text = facts_of(view) if picture or folds else text_of(view)
    if text:
        yield f"<pre>{escape(text)}</pre>"
    if picture:
        yield f'<div class="picture">{picture}</div>'
    elif folds:
        yield from _folding(view)


def _folding(view: PlanView) -> Iterator[str]:
    """A tree whose nodes unfold; a node with several parents is written in full below the first one only."""
    roots, children = children_of(view)
    nodes = {node.id: node for node in view.nodes}
    written: set[str] = set()

    def write(identity: str) -> Iterator[str]:
        node, below = nodes[identity], children[identity]
        label = escape(node.label)
        note = "".join(f'<div class="note">{escape(detail)}</div>' for detail in node.details)
        if identity in written:
            yield f'<div class="leaf">{label} <span class="note">(see above)</span></div>'
        elif not below:
            yield f'<div class="leaf">{label}{note}</div>'
        else:
            yield f"<details><summary>{label}{note}</summary>"
            for child in below:
                yield from write(child)
            yield "</details>"
        written.add(identity)

    for root in roots:
        yield from write(root)


def page_of(title: str, sections: Iterable[tuple[str, tuple[PlanView, ...]]]) -> str:
    """A whole web page of titled sections.

    Examples
    --------
    >>> page = page_of("plan", [("parsed", (PlanView("query", text="PATTERN A"),))])
    >>> page.startswith("<!DOCTYPE html>"), "PATTERN A" in page
    (True, True)
    """
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        "<style>:root { color-scheme: light dark; }",
        "body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }</style>",
        "</head><body>",
        fragment_of(sections),
        "</body></html>",
        "",
    ]
    return "\n".join(lines)
