"""Copies of a dict of containers that cost little more than the parts that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class _Container(Protocol):
    def copy(self) -> Any: ...


K = TypeVar("K")
V = TypeVar("V", bound=_Container)


class SharedValues(dict[K, V]):
    """A dict of containers whose copies share the containers that neither has changed since (copy on write).

    To change a container, get it by :meth:`change`. A container that is set must not be in use elsewhere.

    Examples
    --------
    >>> first = SharedValues({1: {5}, 2: {6}})
    >>> second = first.copy()
    >>> second.change(1).add(7)
    >>> first, second, first[2] is second[2]
    ({1: {5}, 2: {6}}, {1: {5, 7}, 2: {6}}, True)
    """

    #: The keys whose containers no copy shares; None if there are no copies.
    _own: set[K] | None = None

    def copy(self) -> SharedValues[K, V]:
        """A dict with the same containers."""
        copied = SharedValues(self)
        self._own, copied._own = set(), set()
        return copied

    def change(self, key: K, make: Callable[[], V] | None = None) -> V:
        """Returns a container that may be changed; if there is none, a new one that ``make`` creates."""
        if make is not None and key not in self:
            self[key] = make()
        elif self._own is not None and key not in self._own:
            self._own.add(key)
            self[key] = self[key].copy()
        return self[key]
