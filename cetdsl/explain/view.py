"""Views: the content of an explanation, as data. Text, DOT and HTML are rendered from views alone."""

from __future__ import annotations

import attrs

#: The source of an arrow that comes from nowhere (a trend may begin here), or the target of one that goes nowhere.
NOWHERE = ""

BOX, STATE, FINAL = "box", "state", "final"


@attrs.frozen
class ViewNode:
    """One thing in a view: a label, and further lines below it.

    The ``id`` is unique within the view and not empty. The shape says whether it is a step of a plan, a state of an
    automaton, or a state in which a trend may end.
    """

    id: str = attrs.field(validator=attrs.validators.min_len(1))
    label: str
    details: tuple[str, ...] = ()
    shape: str = attrs.field(default=BOX, validator=attrs.validators.in_((BOX, STATE, FINAL)))


@attrs.frozen
class ViewEdge:
    """An arrow; each line of its label is one condition. An end that is :data:`NOWHERE` stands for the outside."""

    source: str
    target: str
    label: str = ""


@attrs.frozen
class PlanView:
    """A titled graph with facts beside it, as names and values.

    ``text`` says the same as the graph, where words are better than a list of its nodes. If a tree is too large for a
    picture and ``folds``, a web page shows it with all nodes folded. The arrows of a tree lead to its root, as rows
    flow in a plan, or ``from_root`` to the parts that something is made of.

    Examples
    --------
    >>> view = PlanView("plan", (ViewNode("1", "events"), ViewNode("2", "answer")), (ViewEdge("1", "2"),))
    >>> [node.label for node in view.nodes]
    ['events', 'answer']
    """

    title: str
    nodes: tuple[ViewNode, ...] = ()
    edges: tuple[ViewEdge, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    text: str = ""
    folds: bool = False
    from_root: bool = False

    def __attrs_post_init__(self) -> None:
        known = {node.id for node in self.nodes} | {NOWHERE}
        assert len(known) == len(self.nodes) + 1, "ids of nodes must differ"
        assert all(edge.source in known and edge.target in known for edge in self.edges), "an edge leads to no node"

    @property
    def is_automaton(self) -> bool:
        """Whether the nodes are states."""
        return any(node.shape != BOX for node in self.nodes)


def children_of(view: PlanView) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the roots of a tree and the children of each node."""
    arrows = [(edge.source, edge.target) for edge in view.edges]
    if not view.from_root:
        arrows = [(target, source) for source, target in arrows]
    children: dict[str, list[str]] = {node.id: [] for node in view.nodes}
    for parent, child in arrows:
        children[parent].append(child)
    below = {child for _, child in arrows}
    return [node.id for node in view.nodes if node.id not in below], children
