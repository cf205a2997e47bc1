"""The rows of an answer: group columns, window and outputs."""

from __future__ import annotations

import pyarrow as pa

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import has_windows
from cetdsl.kernels.answers.tables import AccumulatorTable, encode_partial, finish
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.chunks import Chunk, window_column
from cetdsl.kernels.wire.columns import from_numpy, python_value


def group_columns(spec: KernelSpec, chunk: Chunk, segment: Ints) -> list[pa.Array]:
    """The group columns of some keys of a chunk."""
    return chunk.key_columns(range(spec.answer.groups), segment)


def answer_columns(spec: KernelSpec, table: AccumulatorTable, groups: list[pa.Array], start: Ints) -> list[pa.Array]:
    """Returns the columns of an answer, or of partial results; ``start`` is when each row's window begins."""
    columns = list(groups)
    if has_windows(spec.query.windowing):
        columns.append(from_numpy(start) if spec.answer.partial else window_column(spec, start))
    if spec.answer.partial:
        return columns + encode_partial(table)
    return columns + finish(spec, table, RowNames(spec, groups, start))


class RowNames:
    """Describes rows of an answer by query, group and window, only when an error needs it."""

    def __init__(self, spec: KernelSpec, groups: list[pa.Array], start: Ints, query: str = "") -> None:
        self.spec = spec
        self.query = query
        self.groups = groups
        self.start = start

    def __call__(self, row: int) -> str:
        parts = []
        if self.groups:
            parts.append(f"group {tuple(python_value(column, row) for column in self.groups)!r}")
        if has_windows(self.spec.query.windowing):
            start, end = window_column(self.spec, self.start[row : row + 1]).flatten()
            parts.append(f"the window from {python_value(start, 0)} to {python_value(end, 0)}")
        row_name = ", ".join(parts) or "the whole input"
        return f"{row_name}, of the query {self.query!r}" if self.query else row_name
