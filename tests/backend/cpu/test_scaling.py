"""Powers of two that functions are multiplied by: in one instruction, the same as in two steps."""

import numpy as np
import pytest

from tileir.backend.cpu import numbers
from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.vector_registers import Registers, registers
from tileir.builder import F32, F64, Builder, pointer

SIZE = 4096
NAMES = ("exp", "exp2", "expm1", "sinh", "erfc")


def function_bits(element, x):
    """Every function of `x`, in the bits of its elements."""
    b = Builder()
    with b.kernel("k", y=pointer(element), x=pointer(element)) as (y, p):
        at = b.arange(SIZE)
        for row, name in enumerate(NAMES):
            (y + row * SIZE + at).store(getattr(b, name)((p + at).load()))
    y = np.zeros((len(NAMES), SIZE), x.dtype)
    compile_kernel(b.module())(1, [y.ctypes.data, x.ctypes.data])
    return np.where(np.isnan(y), 0, y).view(f"u{x.itemsize}")


@pytest.mark.slow
@pytest.mark.skipif(registers().bytes < 64, reason="no AVX-512: there are two steps anyway")
@pytest.mark.parametrize(("element", "dtype", "size"), [(F32, "f4", 50), (F64, "f8", 400)])
def test_one_instruction_rounds_as_two_steps(element, dtype, size, monkeypatch):
    x = (np.random.default_rng(7).standard_normal(SIZE) * size).astype(dtype)
    x[:8] = 0, -0.0, np.inf, -np.inf, np.nan, -103.9, 88.8, -745
    result = function_bits(element, x)
    monkeypatch.setattr(numbers, "registers", lambda: Registers(16, 32))
    np.testing.assert_array_equal(result, function_bits(element, x))
    assert np.unique(result).size > SIZE
