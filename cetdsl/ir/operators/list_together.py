"""ListTogether: puts the matches of many queries beside each other, from some passes and from plans of their own."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.detect_together import DetectTogether
from cetdsl.ir.operators.together import Alone, Together


@attrs.frozen
class ListedAlone(Alone):
    """A query that no pass can take, and the key columns that its answer shows."""

    keys: tuple[str, ...]


@attrs.frozen
class ListTogether(Together):
    """Gives ``query``, the group and partition columns of all queries, ``window`` if any slides, and ``trend``.

    Its answer may be taken apart by query.
    """

    alone: tuple[ListedAlone, ...]
    columns: tuple[str, ...]
    limit: int | None = None

    @property
    def together(self) -> tuple[DetectTogether, ...]:
        """The operators that list the matches of each pass."""
        return tuple(each for one in self.passes for each in one.walk() if isinstance(each, DetectTogether))

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns that some answer shows."""
        own = [*(key for one in self.together for key in one.keys), *(key for one in self.alone for key in one.keys)]
        return tuple(dict.fromkeys(own))

    @property
    def sliding(self) -> bool:
        """Whether the windows of some query slide."""
        return any(one.sliding for one in self.together) or any(one.sliding for one in self.alone)

    @property
    def gives(self) -> tuple[str, ...]:
        query, *own = self.own_names
        return (query, *self.keys, *own)

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the columns that are not keys."""
        return ("query", *(["window"] if self.sliding else []), "trend")
