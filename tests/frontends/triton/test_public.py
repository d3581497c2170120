"""What public kernels rely on beyond what is written down of Triton."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton.test_arguments import EXECUTORS


@triton.jit
def scores(x, y, out, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    left = tl.load(x + i * COLUMNS + j, mask=j < n)
    block = tl.make_block_ptr(y, (ROWS, n), (COLUMNS, 1), (0, 0), (ROWS, COLUMNS), (1, 0))
    right = tl.load(block, boundary_check=(1,))
    tl.store(out + i * COLUMNS + j, left + right)
    tl.store(out + ROWS * COLUMNS + tl.arange(0, ROWS), tl.sum(left * right, axis=1))


@pytest.mark.parametrize("on", EXECUTORS)
def test_what_a_mask_leaves_out_is_zero(on: str) -> None:
    x, y = np.ones((4, 16), np.float32), np.full((4, 16), 2, np.float32)
    out = np.full(4 * 16 + 4, np.nan, np.float32)
    scores[(1,)](x, y, out, 10, ROWS=4, COLUMNS=16, on=on)
    table, counts = out[:64].reshape(4, 16), out[64:]
    assert (table[:, :10] == 3).all() and not table[:, 10:].any()
    assert (counts == 20).all()


class HostTensor:
    """An array of the host by what other libraries tell of theirs; numpy cannot take it."""

    def __init__(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        self._array, self.shape = array, array.shape
        self.dtype = f"torch.{dtype}"

    def data_ptr(self) -> int:
        return self._array.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(n // self._array.itemsize for n in self._array.strides)


@triton.jit
def double(x, out, row_stride, column_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    value = tl.load(x + i * row_stride + j * column_stride)
    tl.store(out + i * COLUMNS + j, value.to(tl.float32) * 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", EXECUTORS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float16", "int8", "bool"])
def test_tensors_of_the_host_have_any_type_and_strides(dtype: str, on: str) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    whole = (np.arange(8 * 32).reshape(8, 32) % 13).astype(kind)
    for part in (whole, whole[:, 4:20], whole[::2, ::2], whole.T):
        rows, columns = part.shape
        out = np.zeros(part.shape, np.float32)
        x = HostTensor(part, dtype)
        double[(1,)](x, out, *x.stride(), ROWS=rows, COLUMNS=columns, on=on)
        assert (out == part.astype(np.float32) * 2).all()


@triton.jit
def best(out, x, n, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    at = tl.zeros([LANES], tl.int32)
    most = tl.full([LANES], -1.0, tl.float32)
    for i in range(n):
        value, before = tl.load(x + i * LANES + lanes), most
        at, old = tl.where(value > before, i.to(tl.int64), -1), at
        if i % 2 == 1:
            at = at.to(tl.int32)
            at = tl.where(at < 0, old, at)
            most = tl.maximum(value, most)
            continue
        most = tl.maximum(value, most).to(tl.float64)
        at = tl.where(at < 0, old, at).to(tl.int32)
        most = most.to(tl.float32)
    tl.store(out + lanes, at)


@pytest.mark.parametrize("on", EXECUTORS)
def test_a_name_may_change_its_type_within_an_iteration_of_a_loop(on: str) -> None:
    x = np.random.default_rng(0).standard_normal((7, 8)).astype(np.float32)
    out = np.zeros(8, np.int32)
    best[(1,)](out, x, 7, LANES=8, on=on)
    assert (out == np.where(x.max(0) > -1, x.argmax(0), 0)).all()


@triton.jit
def change_type(out, n, HOW: tl.constexpr):
    total = 0
    for i in range(n):
        if HOW == 0:
            total = total + 1.5
        elif HOW == 1:
            total = i.to(tl.int64)
            if i > 2:
                continue
            total = i
        elif HOW == 2:
            if i > 2:
                total = total.to(tl.int64)
        else:
            total = i.to(tl.int64)
            break
    tl.store(out, total)


@pytest.mark.parametrize(
    ("how", "message", "line"),
    [
        (0, "total is int32 before the loop and fp32 in it", 5),
        (1, "total is int32 before the loop and int64 in it", 7),
        (2, "total has another type on another path", 3),
        (3, "total is int32 before the loop and int64 in it", 15),
    ],
)
def test_but_has_the_type_it_had_where_the_iteration_ends(
    how: int, message: str, line: int
) -> None:
    with pytest.raises(triton.CompilationError, match=message) as caught:
        change_type.module({"out": "*i32", "n": "i32"}, {"HOW": how})
    first = change_type.fn.__code__.co_firstlineno
    assert caught.value.line == first + line


@triton.jit
def rotate_halves(out, x, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, HALF)
    low, high = tl.load(x + row * n + i), tl.load(x + row * n + HALF + i)
    tl.store(out + row * n + i, -high)
    tl.store(out + row * n + HALF + i, low)


@pytest.mark.parametrize("on", EXECUTORS)
def test_results_may_be_written_over_an_argument(on: str) -> None:
    whole = np.arange(3 * 8, dtype=np.float32).reshape(3, 8)
    expected = np.concatenate([-whole[:, 4:], whole[:, :4]], axis=1)
    one, other = HostTensor(whole, "float32"), HostTensor(whole, "float32")
    rotate_halves[(3,)](one, other, 8, HALF=4, on=on)
    assert (whole == expected).all()


class View(HostTensor):
    """Part of a larger array, which a kernel may read, too."""

    def __init__(self, part: np.ndarray[Any, Any], whole: np.ndarray[Any, Any]) -> None:
        super().__init__(part, "float32")
        self.whole = whole
        self.is_contiguous = lambda: part.flags.c_contiguous
        self.untyped_storage = lambda: SimpleNamespace(nbytes=lambda: whole.nbytes)
        self.storage_offset = lambda: (part.ctypes.data - whole.ctypes.data) // 4


@triton.jit
def after(out, x, row_stride, columns, ROWS: tl.constexpr):
    i = tl.arange(0, ROWS)
    tl.store(out + i, tl.load(x + i * row_stride + columns))


@pytest.mark.parametrize("on", EXECUTORS)
def test_a_kernel_may_go_on_after_a_view(on: str) -> None:
    whole = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    out = np.zeros(4, np.float32)
    after[(1,)](out, View(whole[:, :5], whole), 6, 5, ROWS=4, on=on)
    assert (out == whole[:, 5]).all()
