"""The published algorithms that extract trends from a graph, behind one interface; all give the same trends.

=========  =====================================================================  ================================
algorithm  how                                                                    keeps
=========  =====================================================================  ================================
m-cet      depth first (:mod:`cetdsl.kernels.graph.walk`)                         one trend
t-cet      all partial trends first (:mod:`cetdsl.kernels.complete.graphlets`)    all of them
h-cet      partial trends of graphlets, stitched depth first; the graphlets are   what the memory limit allows
           chosen by exact costs (:mod:`cetdsl.kernels.complete.cuts`)
anchors    partial trends between chosen attribute vertices, joined depth first   what the memory limit allows
           (:mod:`cetdsl.kernels.complete.anchors`)
=========  =====================================================================  ================================

M-CET, T-CET and H-CET are those of Poppe et al., *Complete Event Trend Detection in High-Rate Event Streams*, SIGMOD
2017; anchors is that of Mei et al., *Minimizing Cost of Complete Event Trend Detection*, ICPP 2021. Where tasks share
the trends, their parts follow each other in the order of a walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels.complete.jobs import Measured, Settings, Work
from cetdsl.kernels.enumerate.blocks import BLOCK
from cetdsl.kernels.vocabulary import Block, Floats, Graph, Ints

USUAL = Settings()


def extract(
    graph: Graph,
    variable: Ints,
    low: Ints,
    high: Ints,
    *,
    complete: bool,
    settings: Settings = USUAL,
    limit: int = -1,
    share: tuple[int, int] = (0, 1),
    block: int = BLOCK,
    measured: Measured | None = None,
) -> Iterator[Block]:
    """Yields the trends of windows, in blocks of ``block`` bindings; a longer trend makes a block of its own.

    ``variable`` is the bit number of the variable that each state reads, and ``low:high`` are the events of each
    window. If ``complete``, the trends are the paths from sources to sinks; else the paths from any node that begins a
    trend to any that ends one. The extraction stops after ``limit`` trends (-1: after all); with a limit they are found
    by a walk, which does no work for the others.

    With a ``share`` (i, k), only the i-th of k parts of the trends is found. The parts have equally many refs (the sum
    of the lengths of trends), or about equally many where trends are put together from partial ones. The bytes and
    steps of the extraction are noted in ``measured``.
    """
    work = Work(graph, variable, low, high, complete, settings, measured)
    for job in work.share(*share) if limit < 0 else work.walk(*share):
        for found in job.blocks(limit, block):
            yield found
            limit -= len(found.slice) if limit >= 0 else 0
        work.finish(job)
        del job  # and its tables, before there are others


def count_refs(
    graph: Graph, low: Ints, high: Ints, *, complete: bool, settings: Settings = USUAL, measured: Measured | None = None
) -> tuple[Ints, Ints]:
    """Counts the trends of each window and sums up their lengths, by finding all of them and keeping none."""
    work = Work(graph, np.zeros(1, dtype=np.int64), low, high, complete, settings, measured)
    trends, refs = np.zeros(len(low), dtype=np.int64), np.zeros(len(low), dtype=np.int64)
    for job in work.jobs():
        found = job.count()
        chosen = slice(job.window, job.window + len(found[0]))
        trends[chosen], refs[chosen] = found
        work.finish(job)
        del job
    return trends, refs


class Survey(NamedTuple):
    """The facts about the extraction from each window; arrays of shape (windows,).

    ``algorithm`` is the published one that the plan amounts to. ``nodes`` and ``edges`` count those on trends, and
    ``atoms`` the atomic graphlets. The plan has ``graphlets``, of which ``cached`` are cached, or ``anchors``: all
    three are numbers. ``trends`` is the number of trends, and ``refs`` the sum of their lengths, exact below 2**53. The
    extraction is predicted to hold ``predicted_bytes`` and to take ``predicted_steps``: a step is a vertex or partial
    trend that it visits, a partial trend that it writes, or a ref of a trend that it puts together. ``bytes`` and
    ``steps`` are as measured, -1 if they were not.
    """

    algorithm: NDArray[np.object_]
    nodes: Ints
    edges: Ints
    atoms: Ints
    graphlets: Ints
    cached: Ints
    anchors: Ints
    trends: Floats
    refs: Floats
    predicted_bytes: Floats
    predicted_steps: Floats
    bytes: Ints
    steps: Ints


def survey(
    graph: Graph, low: Ints, high: Ints, *, complete: bool, settings: Settings = USUAL, measure: bool = False
) -> Survey:
    """Surveys the extraction from each window; to ``measure`` it, the survey finds all trends."""
    rows = []
    for number in range(len(low)):
        measured = Measured()
        window = slice(number, number + 1)
        work = Work(graph, np.zeros(1, dtype=np.int64), low[window], high[window], complete, settings, measured)
        rows.append(work.survey(0))
        if measure:
            job = work.job(0)
            job.count()
            work.finish(job)
        rows[-1] += (measured.bytes, measured.steps) if measure else (-1, -1)
    columns = zip(*rows) if rows else [()] * len(Survey._fields)
    kinds = [object, *[np.int64] * 6, *[np.float64] * 4, np.int64, np.int64]
    return Survey(*(np.array(column, dtype=kind) for column, kind in zip(columns, kinds)))
