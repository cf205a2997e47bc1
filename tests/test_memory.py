"""Amounts of memory as users write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cetdsl.errors import CetdslError, InvalidNode
from cetdsl.frontend.memory import parse_memory

MEBIBYTE = 2**20


@pytest.mark.parametrize(
    ("amount", "size"),
    [
        ("512m", 512 * MEBIBYTE),
        ("1g", 1024 * MEBIBYTE),
        (" 64K ", 65536),
        ("2 GiB", 2048 * MEBIBYTE),
        ("3t", 3 * 2**40),
        ("1pb", 2**50),
        ("100b", 100),
        ("100", 100),
        (1_000_000, 1_000_000),
        (np.int64(7), 7),
    ],
)
def test_amounts_of_memory(amount: str | int, size: int) -> None:
    parsed = parse_memory(amount)
    assert (parsed, type(parsed)) == (size, int)


@pytest.mark.parametrize("amount", ["", "m", "much", "1.5g", "-1m", "1x", "1 000", "1gg", "٣m", 1.5, True, None, b"1g"])
def test_what_is_no_amount_of_memory(amount: Any) -> None:
    with pytest.raises(InvalidNode, match="is not an amount of memory") as refused:
        parse_memory(amount)
    assert isinstance(refused.value, CetdslError)
    assert "512m" in str(refused.value)


@pytest.mark.parametrize("amount", [0, -5, "0g", "0"])
def test_no_memory_is_no_amount(amount: str | int) -> None:
    with pytest.raises(InvalidNode, match="must be positive"):
        parse_memory(amount)
