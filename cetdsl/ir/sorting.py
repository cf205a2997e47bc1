"""Who puts the events of a task in order: Spark, before they are sent to a worker, or the kernel there."""

from __future__ import annotations

import attrs

#: Who sorts. "auto": whoever is expected to take less time.
AUTO, KERNEL, SPARK = SORTERS = ("auto", "kernel", "spark")
#: Bytes of events that the kernel holds while it sorts, before it writes them to disk.
SORT_MEMORY = 128 << 20
#: For where all events of a task are held in any case.
UNLIMITED = 1 << 62


@attrs.frozen
class AskedSort:
    """The sorter that is asked for, one of :data:`SORTERS`, and the bytes of events that the kernel may hold."""

    by: str = AUTO
    memory: int = SORT_MEMORY


#: Where nothing is asked for.
AS_USUAL = AskedSort()


@attrs.frozen
class Sorting:
    """The decision on who sorts, and why. The kernel holds ``memory`` bytes of events; 0: Spark sorts."""

    why: str
    memory: int = 0

    @property
    def by_kernel(self) -> bool:
        """Whether the kernel sorts."""
        return self.memory > 0
