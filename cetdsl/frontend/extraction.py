"""Checks the arguments that say how complete trends are to be listed."""

from __future__ import annotations

from cetdsl.errors import InvalidNode, check_choice
from cetdsl.frontend.given import at_least_one
from cetdsl.frontend.memory import parse_memory
from cetdsl.ir.extraction import COST_MODELS, OPTIMIZERS, Extraction
from cetdsl.planning.strategies.complete import ALGORITHMS


def given_extraction(
    algorithm: str = "auto",
    memory_limit: str | int | None = None,
    optimizer: str = "auto",
    cost_model: str = "exact",
    anchors: int | None = None,
) -> Extraction:
    """Checks the arguments of ``complete_trends`` that control the work.

    Raises
    ------
    InvalidNode
        If an argument is none of those that there are, or has no meaning for the algorithm.
    """
    check_choice("algorithm", algorithm, ALGORITHMS)
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_choice("cost model", cost_model, COST_MODELS)
    for name, is_given in (("optimizer", optimizer != "auto"), ("cost_model", cost_model != "exact")):
        if is_given and algorithm != "h-cet":
            raise InvalidNode(
                f"{name}= says how h-cet cuts a graph into graphlets, and algorithm {algorithm!r} cuts none",
                hint=f"use algorithm='h-cet', or leave {name}= out",
            )
    if anchors is not None:
        _check_anchors(anchors, algorithm)
    return Extraction(algorithm, _memory(memory_limit, algorithm), optimizer, cost_model, anchors)


def given_road(algorithm: str) -> Extraction:
    """Checks the algorithm that counts or samples complete trends: "joins", or "auto", which leaves it to the planner.

    Raises
    ------
    InvalidNode
        The algorithm is neither.
    """
    check_choice("algorithm", algorithm, ("auto", "joins"))
    return Extraction(algorithm)


def _check_anchors(anchors: object, algorithm: str) -> None:
    hint = "leave anchors= out: then their number is chosen by what it costs"
    at_least_one("anchors", anchors, "values that trends pass through", hint)
    if algorithm != "anchors":
        raise InvalidNode(
            f"anchors= is the number of anchors, and algorithm {algorithm!r} has none",
            hint="use algorithm='anchors', or leave anchors= out",
        )


def _memory(memory_limit: str | int | None, algorithm: str) -> int | None:
    if memory_limit is None:
        return None
    # Kernels take half a second to load.
    from cetdsl.kernels.complete.jobs import Settings

    memory = parse_memory(memory_limit)
    # This raises unless it is enough for anything.
    Settings(memory=memory)
    if algorithm == "joins":
        raise InvalidNode(
            "algorithm 'joins' keeps its paths in Spark's shuffles, which memory_limit does not bound",
            hint="leave memory_limit out, or choose another algorithm",
        )
    return memory
