"""Integers at their limits are divided on a GPU as the interpreter divides them."""

import itertools

import numpy as np
import pytest

import tileir
from tests.backend.test_divisions import NARROW
from tileir.backend.executors import GpuExecutor
from tileir.textual import parse

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("op", ["sdiv", "udiv", "srem", "urem"])
def test_limits_are_divided(op: str, bits: int) -> None:
    module, info = parse(NARROW.format(op=op, bits=bits)), np.iinfo(f"i{bits // 8}")
    numbers = [info.min, info.min + 1, -7, -1, 1, 2, 3, info.max]
    x, y = (np.array(v, info.dtype) for v in zip(*itertools.product(numbers, numbers), strict=True))
    expected, actual = np.zeros(64, info.dtype), np.zeros(64, info.dtype)
    tileir.interpret(module, "k", 1, [x, y, expected])
    GpuExecutor().launch(module, "k", 1, [x, y, actual])
    np.testing.assert_array_equal(actual, expected)
