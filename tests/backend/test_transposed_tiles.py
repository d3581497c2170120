"""What is computed from transposed tiles has a layout of its own: the narrower of the loaded and
the stored elements are exchanged between threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.launches import results
from tileir.backend import compile as compile_kernel
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.builder import BF16, F16, F32, I8, Builder, arg, pointer

OPTIONS = {"num_warps": 4, "warp_specialize": False}
NUMPY = {BF16: bfloat16, F16: np.float16, F32: np.float32, I8: np.int8}
SIDE = 64


def column_copy(loaded: Any, stored: Any, body: Callable[[Any], Any] = lambda x: x) -> Any:
    """y = body(transpose of x), as `stored`, from a matrix whose columns are contiguous, so that
    no transpose would be needed."""
    b = Builder()
    kinds = {"x": arg(pointer(loaded), aligned=16), "y": arg(pointer(stored), aligned=16)}
    with b.kernel("k", **kinds) as (x, y):
        i, j = b.arange(SIDE)[:, None], b.arange(SIDE)[None, :]
        value = body(b.trans((x + (i * SIDE + j)).load(), order=(1, 0)).to(F32))
        (y + (i * SIDE + j)).store(value.to(stored))
    return b.module()


def epilogue(stored: Any) -> Any:
    """out = transpose(x w) / 2 as `stored`."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in ("x", "w")}
    with b.kernel("k", **kinds, out=arg(pointer(stored), aligned=16)) as (x, w, out):
        at = b.arange(SIDE)[:, None] * SIDE + b.arange(SIDE)[None, :]
        total = b.dot((x + at).load(), (w + at).load(), b.full((SIDE, SIDE), 0.0, F32))
        (out + at).store((b.trans(total, order=(1, 0)) * 0.5).to(stored))
    return b.module()


def exchanges(module: Any) -> list[Any]:
    """The elements of the tiles that a conversion moves between threads."""
    ops = compile_kernel(module, "sm_90a", OPTIONS).tir_at("barriers").functions["k"].ops
    return [
        op.inputs[0].type.element
        for op in ops
        if op.mnemonic == "gpu.convert_layout"
        and not isinstance(conversion(op.inputs[0].type, op.result.type.layout), tuple)
    ]


@pytest.mark.parametrize(
    ("loaded", "stored", "exchanged"),
    [(BF16, I8, I8), (F32, F16, F16), (F32, I8, I8), (BF16, F32, BF16), (I8, F16, I8)],
)
def test_the_narrower_elements_are_exchanged(loaded: Any, stored: Any, exchanged: Any) -> None:
    assert exchanges(column_copy(loaded, stored, lambda x: x * 0.5 + 1)) == [exchanged]


@pytest.mark.parametrize("stored", [F16, BF16, I8])
def test_the_result_of_a_dot_is_rounded_before_it_is_exchanged(stored: Any) -> None:
    assert F32 not in exchanges(epilogue(stored))


@pytest.mark.parametrize(
    ("loaded", "stored"), [(BF16, I8), (F32, F16), (BF16, F32), (I8, F16), (F16, F16)]
)
def test_threads_agree(loaded: Any, stored: Any) -> None:
    x = np.random.default_rng(3).integers(-50, 50, SIDE * SIDE).astype(NUMPY[loaded])
    arrays = [x, np.zeros(SIDE * SIDE, NUMPY[stored])]
    module = column_copy(loaded, stored, lambda x: x * 2 - 1)
    before, after = results(module, arrays, target="sm_90a", **OPTIONS)
    np.testing.assert_array_equal(after[1], before[1])


@pytest.mark.parametrize("stored", [F16, I8])
def test_threads_agree_on_an_epilogue(stored: Any) -> None:
    random = np.random.default_rng(4)
    arrays = [random.integers(-1, 2, SIDE * SIDE).astype(np.float16) for _ in range(2)]
    arrays += [np.zeros(SIDE * SIDE, NUMPY[stored])]
    before, after = results(epilogue(stored), arrays, target="sm_90a", **OPTIONS)
    np.testing.assert_array_equal(after[2], before[2])
