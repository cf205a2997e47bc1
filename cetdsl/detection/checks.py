"""Checks of numbers that a user gives."""

from __future__ import annotations

import math
from numbers import Integral, Real

from cetdsl.errors import InvalidNode, shown


def from_zero(value: object, what: str, hint: str) -> float:
    """Returns a finite number from 0 up as a double.

    Parameters
    ----------
    value : object
        What the user gave.
    what : str
        What it is, for the message.
    hint : str
        What to write instead.

    Raises
    ------
    InvalidNode
        It is no such number.

    Examples
    --------
    >>> from_zero(3, "the rate", "write 3")
    3.0
    >>> from_zero(float("nan"), "the rate", "write 3")
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: the rate is nan, which is not finite
      hint: write 3
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidNode(f"{what} is {shown(value)}, which is not a number", hint=hint)
    try:
        number = float(value)
    except OverflowError:  # of a whole number beyond all doubles
        number = math.inf
    if not math.isfinite(number):
        raise InvalidNode(f"{what} is {shown(value)}, which is not finite", hint=hint)
    if number < 0:
        raise InvalidNode(f"{what} is {shown(value)}, which is negative", hint=hint)
    return number


def whole_from_one(value: object, message: str, hint: str) -> int:
    """Returns a whole number from 1 up.

    Parameters
    ----------
    value : object
        What the user gave.
    message, hint : str
        What the error says if it is something else.

    Raises
    ------
    InvalidNode
        It is no such number.

    Examples
    --------
    >>> whole_from_one(3, "no such number", "write 3")
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidNode(message, hint=hint)
    return int(value)
