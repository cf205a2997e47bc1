"""The pivot of a search: the variable whose one event is known before the others are looked for."""

from __future__ import annotations

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Machine
from cetdsl.ir.windowing import SPAN


def binds_once(machine: Machine, variable: int) -> bool:
    """Whether every word of the machine has the variable exactly once.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge, Machine
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> binds_once(machine, 0), binds_once(machine, 1)
    (True, False)
    """
    final = {state for state, _ in machine.final}
    open_pairs = [(state, int(machine.variables[state] == variable)) for state, _ in machine.initial]
    seen = set(open_pairs)
    while open_pairs:
        state, times = open_pairs.pop()
        if state in final and times != 1:
            return False
        for edge in machine.edges:
            if edge.source == state:
                pair = edge.target, min(times + int(machine.variables[edge.target] == variable), 2)
                if pair not in seen:
                    seen.add(pair)
                    open_pairs.append(pair)
    return True


def choose_pivot(spec: KernelSpec) -> int:
    """The variable with most pairwise predicates among those that bind one event of every trend; -1: none.

    Without a pivot a path is followed to where a predicate fails. For words of two that is cheaper than a pass for
    every event of the pivot; for longer ones a search without a pivot may see any number of paths that lead nowhere.
    """
    machine = spec.query.machine
    if not spec.query.pairs or (len(machine.variables) <= 2 and all(e.source != e.target for e in machine.edges)):
        return -1
    candidates = [pair.left_variable for pair in spec.query.pairs] + [pair.right_variable for pair in spec.query.pairs]
    if spec.query.windowing.kind == SPAN:  # the runs are about first events then
        first = {machine.variables[state] for state, _ in machine.initial}
        candidates = [variable for variable in candidates if first == {variable}]
    candidates = [variable for variable in candidates if binds_once(machine, variable)]
    return max(candidates, key=lambda v: (candidates.count(v), v == spec.query.pivot), default=-1)
