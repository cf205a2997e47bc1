"""Views of the plans by which matches are put together: orders as chains of steps, and trees from their leaves on."""

from __future__ import annotations

from cetdsl.detection.cost import Expectation
from cetdsl.detection.generators import GENERATORS
from cetdsl.detection.invariants import Condition, Recorder, tightest
from cetdsl.detection.plans import TreePlan, mask_of, walk
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode


def plan_view(expectation: Expectation, algorithm: str, most: int | None = 1) -> PlanView:
    """Returns the plan that a generator makes, with the expected partial matches and the invariants of each block.

    For blocks and invariants see :mod:`cetdsl.detection.invariants`.

    Parameters
    ----------
    expectation : Expectation
        The numbers of matches that are expected under the statistics that the plan is made for.
    algorithm : str
        "greedy", "dynamic" or "tree".
    most : int or None
        How many invariants of each block are shown; None for all deciding conditions.

    Returns
    -------
    PlanView

    Examples
    --------
    >>> from cetdsl.detection.plans import Problem
    >>> from cetdsl.detection.statistics import Statistics
    >>> rates = Statistics({"a": 100, "b": 15, "c": 10})
    >>> view = plan_view(Expectation(Problem.sequence("a", "b", "c"), rates), "greedy")
    >>> for node in view.nodes:
    ...     print(node.label, *node.details, sep="; ")
    bind c; 10 partial matches; c < b
    bind b; 75 partial matches; c, b < c, a
    bind a; 2,500 partial matches
    """
    names, recorder = expectation.problem.names, Recorder()
    made = GENERATORS[algorithm](expectation, recorder)
    deciding = [tightest([conditions], expectation, most) for conditions in recorder.deciding(made.blocks)]
    title = f"{algorithm}: {made.plan.show(names)}"

    def node(number: int, label: str, mask: int, invariants: tuple[Condition, ...]) -> ViewNode:
        count = f"{expectation.count(mask):,.4g}"
        matches = f"{count} partial match{'' if count == '1' else 'es'}"
        return ViewNode(str(number), label, (matches, *(condition.show(names) for condition in invariants)))

    if isinstance(made.plan, TreePlan):
        nodes, edges, left = [], [], iter(deciding)
        places = {each: number for number, each in enumerate(walk(made.plan.root))}
        for each, number in places.items():
            is_leaf = isinstance(each, int)
            label = names[each] if isinstance(each, int) else "join"
            nodes.append(node(number, label, mask_of(each), () if is_leaf else next(left)))
            edges += [] if isinstance(each, int) else [ViewEdge(str(places[child]), str(number)) for child in each]
        return PlanView(title, tuple(nodes), tuple(edges))
    # The greedy generator has a block for each step, dynamic programming for each but the first.
    first = 0 if algorithm == "greedy" else 1
    steps = [
        node(number, f"bind {names[position]}", mask, dict(enumerate(deciding, first)).get(number, ()))
        for number, (position, mask) in enumerate(zip(made.plan.order, made.plan.masks))
    ]
    return PlanView(title, tuple(steps), tuple(ViewEdge(str(k), str(k + 1)) for k in range(len(steps) - 1)))
