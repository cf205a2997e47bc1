"""ShowTrends: trends under the user's names."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Unary


@attrs.frozen
class ShowTrends(Unary):
    """Renames the columns of rows of trends to those of an answer, whose events show these columns."""

    columns: tuple[str, ...]
    only_batch = None
