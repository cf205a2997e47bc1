"""The base of what users hold: an attribute that it does not have is an error with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from cetdsl.errors import UnknownAttribute, nearest, shown


class Advised:
    """An object that says what to write instead of an attribute that it does not have."""

    __slots__ = ()

    if not TYPE_CHECKING:  # or type checkers would take any name for one of these objects

        def __getattr__(self, name: str) -> NoReturn:
            # Copying, pickling and notebooks ask for private ones, and for a slot while it is not filled.
            if name.startswith("_") or hasattr(type(self), name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise UnknownAttribute(f"{self._spoken()} has no attribute {shown(name)}", hint=self._instead_of(name))

    def _spoken(self) -> str:
        """Returns what messages call the object."""
        raise NotImplementedError

    def _instead_of(self, name: str) -> str:
        """Returns the advice for an attribute that the object does not have."""
        raise NotImplementedError

    def _nearest(self, name: str, otherwise: str) -> str:
        """Returns the advice that names the nearest public attribute, or ``otherwise``."""
        return nearest(name, self._public(), otherwise)

    def _public(self) -> list[str]:
        """Returns the names of the public attributes."""
        return [name for name in dir(type(self)) if not name.startswith("_")]
