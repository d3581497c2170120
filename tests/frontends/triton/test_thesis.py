"""Every kernel of seed 003 gives what numpy does, in the interpreter and thread by thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from . import thesis_kernels as k

ON = pytest.mark.parametrize("on", ["interpreter", "simt"])
X, Y = 32, 64


def strided(*shape: int) -> Any:
    """Random numbers; the second dimension is the slow one, so that strides are not all alike."""
    return np.random.default_rng(sum(shape)).standard_normal(shape[::-1]).astype(np.float32).T


def steps(array: Any) -> tuple[int, ...]:
    return tuple(n // array.itemsize for n in array.strides)


@ON
def test_add(on: str) -> None:
    x, y, out = strided(100), strided(101)[:100], np.zeros(100, np.float32)
    k.add[(4,)](x, y, out, 100, BLOCK_SIZE=32, on=on)
    assert (out == x + y).all()


@ON
def test_scaled_sum(on: str) -> None:
    a, b = strided(4, 512), strided(4, 512)[:, ::-1].copy()
    out = np.zeros((4, 512), np.float32)
    k.axpy_like[(8,)](a, *steps(a), b, *steps(b), 2.5, out, *steps(out), 512, 4, on=on)
    np.testing.assert_allclose(out, np.float32(2.5) * (a + b), rtol=1e-6)


@ON
@pytest.mark.parametrize(
    ("name", "shape", "grid", "extra"),
    [
        ("relu_scalar", (3, 5), 1, ()),
        ("relu_warps", (3, 5), 1, ()),
        ("relu_blocks", (32, 64), 2, ()),
        ("relu_rows", (64, 32), 1, (32,)),
        ("relu_tiles", (8, 128), 2, ()),
        ("relu_grouped", (32, 32), 8, ()),
    ],
)
def test_relu(on: str, name: str, shape: Any, grid: int, extra: tuple[int, ...]) -> None:
    a, out = strided(*shape), np.full(shape, np.nan, np.float32)
    getattr(k, name)[(grid,)](a, *steps(a), out, *steps(out), shape[1], shape[0], *extra, on=on)
    assert (out == np.maximum(a, 0)).all()


@ON
@pytest.mark.parametrize("name", ["swish_scalar", "swish_stored", "swish_rows"])
def test_swish(on: str, name: str) -> None:
    a, out = strided(3, 16), np.full((3, 16), np.nan, np.float32)
    stored = np.zeros((3, 16), np.float32)
    middle = (stored, *steps(stored)) if name == "swish_stored" else ()
    last = (16,) if name == "swish_rows" else ()
    kernel = getattr(k, name)
    kernel[(1,)](a, *steps(a), 1.5, *middle, out, *steps(out), 16, 3, *last, on=on)
    np.testing.assert_allclose(out, a / (1 + np.exp(-1.5 * a)), rtol=1e-5, atol=1e-6)


@ON
def test_sums(on: str) -> None:
    a, out = strided(3, 64), np.zeros(3, np.float32)
    k.sum_scalar[(1,)](a, *steps(a), out, 1, 3, 64, on=on)
    np.testing.assert_allclose(out, a.sum(1), rtol=1e-5, atol=1e-5)
    out[:] = 0
    k.sum_vector[(1,)](a, *steps(a), out, 1, 3, 64, on=on)
    np.testing.assert_allclose(out, a.sum(1), rtol=1e-5, atol=1e-5)
    parts = np.zeros((3, 2), np.float32)
    k.split_k[(2,)](a, *steps(a), parts, *steps(parts), 3, 64, on=on)
    out[:] = 0
    k.sum_of_split[(1,)](a, *steps(a), parts, *steps(parts), out, 1, 3, 64, on=on)
    np.testing.assert_allclose(out, a.sum(1), rtol=1e-5, atol=1e-5)
