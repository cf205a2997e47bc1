"""Borrowed arrays: views of arrays in compiled code that do not count references.

Numba counts a reference whenever a kernel takes an array out of a tuple, and cannot see in long functions that the
counting is of no use: half a thousand such pairs are left in the interpreter of tapes, each an atomic operation of some
twenty cycles. An array that was *borrowed* has no owner, so nothing is counted for it, which the compiler sees.

Whoever holds the array must outlive all uses of what is borrowed of it. The arguments of a function do: its caller
holds them until it returns. An array that a function makes itself does not, for it is let go after the last use of its
own name; it must be handed to another function, which borrows it there.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

from numba.core import types
from numba.extending import intrinsic

_Held = TypeVar("_Held")


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        for owner in ("meminfo", "parent"):
            field = getattr(array, owner)
            setattr(array, owner, field.type(None))
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind  # whose annotations do not know that it is a sequence
        for k, each in enumerate(parts):
            part = _without_owner(context, builder, each, builder.extract_value(value, k))
            value = builder.insert_value(value, part, k)
    return value


def _borrow(typing: Any, held: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return held(held), generate


class _Borrowing(Protocol):
    def __call__(self, held: _Held, /) -> _Held: ...


#: Returns an array, or a tuple with arrays in it, as borrowed; for compiled code alone.
borrowed = cast(_Borrowing, intrinsic(_borrow))
