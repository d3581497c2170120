"""Literals at the ends of the range of each type."""

from __future__ import annotations

import pytest

from tileir.textual.literals import literal
from tileir.types import I1, I4, I8, I16, I32, I64, Scalar
from tileir.values import Constant


@pytest.mark.parametrize("element", [I1, I4, I8, I16, I32, I64], ids=str)
def test_integers_within_the_bits_of_a_type_are_literals(element: Scalar) -> None:
    """In decimal the numbers of the type, signed or unsigned; in hexadecimal its bits."""
    beyond = 1 << element.bits
    half = beyond // 2
    for number in (0, 1, half - 1, half, beyond - 1, beyond, -1, -half, -half - 1, 2 * beyond):
        result = literal(str(number), element)
        if -half <= number < half or (element is I1 and number == 1):
            assert isinstance(result, Constant) and result.bits == number % beyond
        elif not half <= number < beyond:
            assert result is None, number
        if number >= 0:
            result = literal(hex(number), element)
            assert (result is not None) == (number < beyond), hex(number)
            assert result is None or (isinstance(result, Constant) and result.bits == number)
        assert literal(f"-{hex(abs(number))}", element) is None
