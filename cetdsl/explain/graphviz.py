"""Writes views as DOT source for Graphviz; only drawing it needs Graphviz, the package and the program."""

from __future__ import annotations

from collections.abc import Sequence

from cetdsl.explain.view import BOX, FINAL, NOWHERE, PlanView, ViewNode

_HEAD = ("rankdir=LR", 'node [fontname="Helvetica", fontsize=11]', 'edge [fontname="Courier", fontsize=10]')


def dot_of(views: PlanView | Sequence[PlanView]) -> str:
    """The DOT source of a view, or of several, each in a frame of its own.

    Examples
    --------
    >>> from cetdsl.explain.view import STATE, ViewEdge
    >>> nodes = (ViewNode("0", "A", shape=STATE), ViewNode("1", "B", shape=FINAL))
    >>> print(dot_of(PlanView("a then b", nodes, (ViewEdge("", "0"), ViewEdge("0", "1", "A.x < NEXT(B).x")))))
    digraph {
      rankdir=LR
      node [fontname="Helvetica", fontsize=11]
      edge [fontname="Courier", fontsize=10]
      label="a then b"
      "0" [label="A", shape=circle]
      "1" [label="B", shape=doublecircle]
      "begin 0" [shape=point, style=invis]
      "begin 0" -> "0" [label=""]
      "0" -> "1" [label="A.x < NEXT(B).x"]
    }
    """
    views = [views] if isinstance(views, PlanView) else list(views)
    lines = ["digraph {", *(f"  {line}" for line in _HEAD)]
    if len(views) == 1:
        lines += [f"  {line}" for line in _body(views[0], "")]
    else:
        for number, view in enumerate(views):
            lines.append(f"  subgraph cluster_{number} {{")
            lines += [f"    {line}" for line in _body(view, f"{number}.")]
            lines.append("  }")
    return "\n".join([*lines, "}"])


def quoted(text: str, newline: str = "\\n") -> str:
    r"""A DOT string.

    Examples
    --------
    >>> print(quoted('say "hi"'))
    "say \"hi\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", newline) + '"'


def _body(view: PlanView, prefix: str) -> list[str]:
    lines = [f"label={quoted(view.title)}"]
    lines += [_node(node, prefix) for node in view.nodes]
    if not view.nodes:
        # A view without a graph is shown as its text; "\l" ends a left-aligned line.
        text = view.text + "\n"
        lines.append(f"{quoted(prefix + 'text')} [label={quoted(text, chr(92) + 'l')}, shape=plaintext]")
    for edge in view.edges:
        source, target = edge.source, edge.target
        if source == NOWHERE:
            source = f"begin {target}"
            lines.append(f"{quoted(prefix + source)} [shape=point, style=invis]")
        if target == NOWHERE:
            target = f"end {source}"
            lines.append(f"{quoted(prefix + target)} [shape=point, style=invis]")
        lines.append(f"{quoted(prefix + source)} -> {quoted(prefix + target)} [label={quoted(edge.label)}]")
    return lines


def _node(node: ViewNode, prefix: str) -> str:
    if node.shape == BOX:
        text = "\n".join((node.label, *node.details)) + "\n"
        return f"{quoted(prefix + node.id)} [label={quoted(text, chr(92) + 'l')}, shape=box]"
    text = "\n".join((node.label, *node.details))
    shape = "doublecircle" if node.shape == FINAL else "circle"
    return f"{quoted(prefix + node.id)} [label={quoted(text)}, shape={shape}]"
