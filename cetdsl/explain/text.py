"""Writes views as text, in ASCII so that any terminal can print them."""

from __future__ import annotations

from cetdsl.explain.view import FINAL, NOWHERE, PlanView, ViewNode, children_of


def text_of(view: PlanView) -> str:
    """A view as readable text, without its title.

    Examples
    --------
    >>> from cetdsl.explain.view import ViewEdge, ViewNode
    >>> nodes = (ViewNode("1", "events", ("time: ts",)), ViewNode("2", "sort"), ViewNode("3", "answer"))
    >>> print(text_of(PlanView("plan", nodes, (ViewEdge("1", "2"), ViewEdge("2", "3")), (("cost", "linear"),))))
    cost  linear
    <BLANKLINE>
    answer
    +- sort
       +- events
           time: ts
    """
    body = view.text or (_states(view) if view.is_automaton else _tree(view))
    return "\n\n".join(part for part in (facts_of(view), body) if part)


def one_line(label: str) -> str:
    r"""The conditions of an arrow in one line.

    Examples
    --------
    >>> one_line("a.x < NEXT(b).x\nNOT c\n[TREE]")
    'a.x < NEXT(b).x AND NOT c  [TREE]'
    """
    lines = label.splitlines()
    marks = [line for line in lines if line.startswith("[")]
    conditions = " AND ".join(line for line in lines if not line.startswith("["))
    return "  ".join(part for part in (conditions, *marks) if part)


def facts_of(view: PlanView) -> str:
    """The facts of a view, one below the other."""
    width = max((len(name) for name, _ in view.facts), default=0)
    indent = " " * (width + 2)
    return "\n".join(f"{name:{width}}  " + value.replace("\n", "\n" + indent) for name, value in view.facts)


def _tree(view: PlanView) -> str:
    roots, children = children_of(view)
    nodes = {node.id: node for node in view.nodes}
    lines: list[str] = []

    def write(identity: str, first: str, rest: str) -> None:
        below = children[identity]
        node = nodes[identity]
        lines.append(first + node.label)
        bar = rest + (":   " if len(below) > 1 else "    ")
        lines.extend(bar + detail for detail in node.details)
        for child in below:
            last = child == below[-1]
            write(child, rest + ("+- " if last else ":- "), rest + ("   " if last else ":  "))

    for root in roots:
        write(root, "", "")
    return "\n".join(lines)


def _states(view: PlanView) -> str:
    """Each state with the arrows out of it."""
    labels = {node.id: node.label for node in view.nodes}
    rows: list[tuple[str, str]] = []
    for node in view.nodes:
        rows.append((node.label, _ends(view, node)))
        arrows = [edge for edge in view.edges if edge.source == node.id and edge.target != NOWHERE]
        rows += [(f"  -> {labels[edge.target]}", one_line(edge.label)) for edge in arrows]
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{left:{width}}  {right}".rstrip() for left, right in rows)


def _ends(view: PlanView, node: ViewNode) -> str:
    words = []
    for edge in view.edges:
        if edge.source == NOWHERE and edge.target == node.id:
            words.append("begins a trend" + (f" if {one_line(edge.label)}" if edge.label else ""))
    if node.shape == FINAL:
        guards = [one_line(edge.label) for edge in view.edges if edge.source == node.id and edge.target == NOWHERE]
        words.append("ends a trend" + "".join(f" if {guard}" for guard in guards if guard))
    return ", ".join(words)
