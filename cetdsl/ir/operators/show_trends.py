"""ShowTrends: trends under the user's names."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Unary


@attrs.frozen
class ShowTrends(Unary):
    """The columns of an answer, of rows that have names of ours; events show these columns."""

    columns: tuple[str, ...]
