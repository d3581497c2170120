"""Values of the host: constexpr in arithmetic and tuples, assignment expressions, conditions,
dots of many dimensions and of bytes."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each

EXECUTORS = ["interpreter", "cpu", "simt"]


class Shape(NamedTuple):
    """Extents of a tile."""

    rows: Any
    columns: Any


@triton.jit
def fill_shape(z, shape):
    i = tl.arange(0, shape[0])[:, None] * shape[1] + tl.arange(0, shape[1])[None, :]
    tl.store(z + i, tl.full((shape[0], shape[1]), 7, tl.float32))


@pytest.mark.parametrize(
    "shape",
    [
        (tl.constexpr(4), tl.constexpr(8)), Shape(tl.constexpr(4), tl.constexpr(8)),
        tl.constexpr((4, 8)), tl.constexpr((tl.constexpr(4), 8)),
    ],
)  # fmt: skip
def test_constexprs_in_a_tuple_are_known(shape: Any) -> None:
    z = np.zeros(40, np.float32)
    fill_shape[(1,)](z, shape)
    assert (z[:32] == 7).all() and not z[32:].any()


@triton.jit
def multiply_by_first(z, x, several):
    tl.store(z + tl.arange(0, several[1]), tl.load(x) * several[0])


def test_a_tuple_may_hold_numbers_and_constexprs() -> None:
    z, x = np.zeros(8, np.int32), np.array([3], np.int32)
    multiply_by_first[(1,)](z, x, (5, tl.constexpr(4)))
    assert z.tolist() == [15] * 4 + [0] * 4


@triton.jit
def constant_width(z, n):
    tl.store(z + tl.arange(0, n), 1)


def test_a_constexpr_argument_is_known_without_an_annotation() -> None:
    z = np.zeros(8, np.int32)
    constant_width[(1,)](z, tl.constexpr(4))
    assert z.sum() == 4


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@for_each("apply", BINARY)
def test_arithmetic_of_the_host(apply: Any) -> None:
    for result in (apply(tl.constexpr(7), 3), apply(7, tl.constexpr(3))):
        assert isinstance(result, tl.constexpr) and result.value == apply(7, 3)
    both = apply(tl.constexpr(7), tl.constexpr(3))
    assert both.value == apply(7, 3) and bool(both) == bool(apply(7, 3))


def test_constexprs_are_used_as_what_they_wrap() -> None:
    n = tl.constexpr(4)
    assert (-n).value == -4 and (~n).value == -5 and list(range(n)) == [0, 1, 2, 3]
    assert {n: 1}[tl.constexpr(4)] == 1 and tl.constexpr((1, 2))[1] == 2
    assert tl.constexpr(n).value == 4 and int(n) == 4 and float(n) == 4.0
    assert tl.constexpr(tl.float32).primitive_bitwidth == 32 and list(tl.constexpr((1, 2)))


SIZES = (tl.constexpr(2), tl.constexpr(4))


@triton.jit
def from_outside(z):
    tl.store(z + tl.arange(0, SIZES[0] * SIZES[1]), 1)


def test_a_tuple_of_constexprs_may_be_a_global() -> None:
    z = np.zeros(10, np.int32)
    from_outside[(1,)](z)
    assert z.sum() == 8


@triton.jit
def assignment_expressions(z, N: tl.constexpr):
    if (n := tl.program_id(0)) == 0:
        tl.store(z, n + 1)
    m = (k := 4) + 1
    tl.store(z + 1, m + k)
    if (half := N // 2) > 2:
        tl.store(z + 2 + tl.arange(0, half), tl.full((half,), 3, tl.int32))
    i = 0
    while (j := i * 2) < 6:
        i += 1
    tl.store(z + 8, i + j)


@pytest.mark.parametrize("on", EXECUTORS)
def test_assignment_expressions(on: str) -> None:
    z = np.zeros(9, np.int32)
    assignment_expressions[(1,)](z, 8, on=on)
    assert z.tolist() == [1, 9, 3, 3, 3, 3, 0, 0, 9]


@triton.jit
def branch_on_tensor(x, SHAPE: tl.constexpr):
    c = tl.load(x + tl.zeros(SHAPE, tl.int32)) > 42
    if c:
        tl.store(x, 42)
    n = tl.load(x + tl.zeros(SHAPE, tl.int32))
    while n > 40:
        n -= 1
    tl.store(x + 1, 7 if c else 8)
    tl.store(x + 2 + tl.zeros(SHAPE, tl.int32), n)


@pytest.mark.parametrize("on", EXECUTORS)
@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_a_tensor_of_one_element_decides(on: str, shape: tuple[int, ...]) -> None:
    x, y = np.array([43, 0, 0], np.int32), np.array([41, 0, 0], np.int32)
    branch_on_tensor[(1,)](x, shape, on=on)
    branch_on_tensor[(1,)](y, shape, on=on)
    assert x.tolist() == [42, 7, 40] and y.tolist() == [41, 8, 40]


def test_a_tensor_of_several_elements_does_not() -> None:
    with pytest.raises(triton.CompilationError, match="one int1"):
        branch_on_tensor[(1,)](np.zeros(3, np.int32), (2,))


@triton.jit
def batched_matmul(z, x, y, SHAPE: tl.constexpr, N: tl.constexpr, ACC: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i).reshape(SHAPE), tl.load(y + i).reshape(SHAPE)
    start = tl.full(SHAPE, 1.0, tl.float32)
    result = tl.dot(a, b, start) if ACC else tl.dot(a, b)
    tl.store(z + i, result.reshape([N]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", EXECUTORS)
@pytest.mark.parametrize("before", [(2, 2), (2, 1, 2), (3,), ()])
@pytest.mark.parametrize("acc", [True, False])
def test_matmuls_with_any_dimensions_before(on: str, before: tuple[int, ...], acc: bool) -> None:
    shape, draw = (*before, 16, 16), np.random.default_rng(1)
    x, y = (draw.integers(-4, 5, shape).astype(np.float16) for _ in range(2))
    z = np.zeros(shape, np.float32)
    batched_matmul[(1,)](z, x, y, shape, x.size, acc, on=on)
    assert (z == x.astype(np.float32) @ y.astype(np.float32) + acc).all()


@triton.jit
def scaled_matmul(z, a, b, s, F: tl.constexpr, G: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    x = tl.load(a + i[:, None] * 32 + k[None, :])
    y = tl.load(b + k[:, None] * 16 + i[None, :])
    sx = tl.load(s + i[:, None])
    tl.store(z + i[:, None] * 16 + i[None, :], tl.dot_scaled(x, sx, F, y, None, G))


FORMATS = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("left", FORMATS)
@pytest.mark.parametrize("right", FORMATS)
def test_scaled_dots_take_formats_and_their_bits(left: str, right: str) -> None:
    a, b = np.ones((16, 32), FORMATS[left]), np.full((32, 16), 2, FORMATS[right])
    scale = np.full((16, 1), 128, np.uint8)
    for bits in (False, True):
        x, y = (v.view(f"u{v.itemsize}") if bits else v for v in (a, b))
        z = np.zeros((16, 16), np.float32)
        scaled_matmul[(1,)](z, x, y, scale, left, right)
        assert (z == 32 * 2 * 2).all()


def test_formats_that_do_not_fit_are_refused() -> None:
    z, s = np.zeros((16, 16), np.float32), np.full((16, 1), 127, np.uint8)
    a, b = np.ones((16, 32), np.float16), np.ones((32, 16), np.float16)
    with pytest.raises(triton.CompilationError, match="e4m3 operands"):
        scaled_matmul[(1,)](z, a, b, s, "e4m3", "fp16")
    with pytest.raises(triton.CompilationError, match="no format"):
        scaled_matmul[(1,)](z, a, b, s, "f16", "fp16")
