"""The ways to put the events of a task in order: by Spark, by the kernel, in sorted runs, or by the input itself.

Spark sorts rows after the shuffle and before it sends them to a worker; the kernel sorts them in the worker. For sorted
runs, workers sort events before the shuffle, so that Spark shuffles and sorts one row per run, not one per event. If
the input is in order, so that a task reads one *stretch* of a key's time, no event is shuffled at all.
"""

from __future__ import annotations

import attrs

#: What ``sort=`` may say. "auto": Spark or the kernel, whichever is expected to take less time, or sorted runs.
AUTO, KERNEL, SPARK, RUNS, INPUT = SORTERS = ("auto", "kernel", "spark", "runs", "input")
#: The bytes of events that the kernel holds while it sorts, before it writes them to disk. A worker takes several times
#: as much, for batches as they came, concatenated columns, keys, times and positions. Holding more saves no time.
SORT_MEMORY = 48 << 20
#: The memory limit where a task holds all of its events in any case.
UNLIMITED = 1 << 62


@attrs.frozen
class OrderKey:
    """A column that rows are sorted by, given by its position.

    The order is ascending or, if ``falls``, descending; NULL comes first unless ``nulls_last``.
    """

    column: int
    falls: bool = False
    nulls_last: bool = False


@attrs.frozen
class RowOrder:
    """The order in which a worker puts the rows of a task, by the positions of columns.

    Parameters
    ----------
    keys : tuple of int
        Rows that agree in all of these are to stand together.
    by : tuple of OrderKey
        The order of those rows: the first column holds whole numbers, times, truth values or doubles; the others may
        be of any type that has an order.
    memory : int
        About how many bytes of rows the worker may hold.
    nulls_apart : bool
        Whether rows in which the first column of ``by`` is NULL come before all other rows of the task.
    """

    keys: tuple[int, ...]
    by: tuple[OrderKey, ...] = ()
    memory: int = UNLIMITED
    nulls_apart: bool = False


@attrs.frozen
class AskedSort:
    """The requested sorter, one of :data:`SORTERS`, and the bytes of events that the kernel may hold."""

    by: str = AUTO
    memory: int = SORT_MEMORY


#: Where nothing is asked for.
AS_USUAL = AskedSort()


@attrs.frozen
class Sorting:
    """The decision on who sorts, and why.

    If ``runs`` gives a reason, events go in sorted runs. If it is empty, or if Spark finds that a column has no type
    that runs can hold, the kernel sorts and holds ``memory`` bytes of events, or Spark sorts if ``memory`` is 0;
    ``why`` gives the reason. Events may be ``packed``, many in one row, before they are sent to the kernel's tasks.

    Examples
    --------
    >>> sorting = Sorting("as asked for", SORT_MEMORY, runs="all columns are numbers")
    >>> sorting.in_runs, sorting.without_runs.in_runs, sorting.without_runs.by_kernel
    (True, False, True)
    """

    why: str
    memory: int = 0
    runs: str | None = None
    packed: bool = False

    @property
    def in_parcels(self) -> bool:
        """Whether events are sent to the kernel in parcels."""
        return self.packed and self.by_kernel

    @property
    def in_runs(self) -> bool:
        """Whether events are put into sorted runs before they are sent."""
        return self.runs is not None

    @property
    def without_runs(self) -> Sorting:
        """The decision for events that cannot be put into runs."""
        return attrs.evolve(self, runs=None)

    @property
    def by_kernel(self) -> bool:
        """Whether the kernel sorts all events of a task."""
        return self.memory > 0 and not self.in_runs

    @property
    def who(self) -> str:
        """Describes who sorts after the shuffle, and why, as plans show it.

        Examples
        --------
        >>> Sorting("as asked for").who
        'by Spark: as asked for'
        """
        return f"by {'the kernel' if self.by_kernel else 'Spark'}: {self.why}"
