"""Borrowed arrays: views of arrays in compiled code that do not count references.

Numba counts a reference whenever a kernel takes an array out of a tuple, and in long functions the compiler does not
see that it could leave the counting out: it would leave some 500 pairs of an increment and a decrement in
:mod:`~cetdsl.kernels.shared.snapshots`, each an atomic operation of some twenty cycles. A *borrowed* array has no
owner, so the compiler sees that nothing must be counted.

The owner of an array must outlive all uses of the borrowed view. That holds for the arguments of a function, which its
caller owns until it returns. It does not hold for an array that a function makes itself, which is freed after the last
use of its own name; the function must pass it to another function, which borrows it there.
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
        parts: Any = kind  # Numba's annotations do not say that it is a sequence
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


#: Returns a borrowed view of an array, or of all arrays in a tuple; for compiled code only.
borrowed = cast(_Borrowing, intrinsic(_borrow))
