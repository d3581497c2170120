"""Convolutions as matmuls: boxes of pixels, runs of them, tables of pointer increments, shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.workloads.running import agree, assembles, normal
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32
from tileir.testing.workloads import convolution, shifts, tables
from tileir.testing.workloads.convolution import Filter
from tileir.testing.workloads.tables import Increments

SMALL, WIDE, STRIDED = Filter(), Filter(2, 5, 1, (0, 2)), Filter(3, 3, 2)


def reference(x: Any, w: Any, filter: Filter) -> Any:
    """[n, oh, ow, k] of x [n, h, width, c] and w [rows, columns, c, k]."""
    down, horizontal = filter.padding
    wide = np.pad(x.astype(float), ((0, 0), (down, down), (horizontal, horizontal), (0, 0)))
    h, width = filter.output(*x.shape[1:3])
    step = filter.stride
    return sum(
        wide[:, r : r + (h - 1) * step + 1 : step, s : s + (width - 1) * step + 1 : step]
        @ w[r, s].astype(float)
        for r in range(filter.rows) for s in range(filter.columns)
    )  # fmt: skip


def case(filter: Filter, size: tuple[int, ...], dtype: Any = np.float16) -> tuple[Any, ...]:
    """x and w, y and its extents."""
    images, h, width, c, k = size
    x = normal(images, h, width, c, dtype=dtype)
    w = normal(filter.rows, filter.columns, c, k, dtype=dtype) / 4
    return x, w, reference(x, w, filter), *filter.output(h, width)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", (False, True))
@pytest.mark.parametrize("size", ((1, 5, 19, 24, 40), (2, 4, 4, 8, 8)))
@pytest.mark.parametrize("filter", (SMALL, WIDE, STRIDED), ids=str)
def test_boxes(filter: Filter, size: tuple[int, ...], first: bool) -> None:
    images, h, width, c, k = size
    h, width = (n - n % filter.stride for n in (h, width))
    x, w, y, oh, ow = case(filter, (images, h, width, c, k))
    extents = [h // filter.stride, width // filter.stride, oh, ow, c, k]
    y = y.transpose(0, 3, 1, 2) if first else y
    arguments = [x, w, np.zeros(y.shape, np.float16), *extents]
    grid = (-(-oh // 4) * -(-ow // 16), -(-k // 32), images)
    module = convolution.boxes(4, 16, 32, 16, filter, first=first)
    agree(module, grid, arguments, 2, y, off=2e-3, seeds=1)


@pytest.mark.parametrize(("pixels", "c"), ((64, 32), (49, 40), (5, 3)))
def test_channels_last(pixels: int, c: int) -> None:
    x = normal(2, c, pixels, dtype=np.float16)
    arguments = [x, np.zeros((2, pixels, c), np.float16), pixels, c]
    grid = (-(-pixels // 32), -(-c // 16), 2)
    module = convolution.channels_last(32, 16)
    agree(module, grid, arguments, 1, x.transpose(0, 2, 1), off=0, seeds=1, roles=False)


@pytest.mark.slow
@pytest.mark.parametrize("filter", (SMALL, STRIDED), ids=str)
@pytest.mark.parametrize("element", (F16, F32), ids=str)
def test_gathered(filter: Filter, element: Any) -> None:
    dtype = np.float16 if element is F16 else np.float32
    size = images, h, width, c, k = (2 if element is F16 else 1, 5, 7, 24, 40)
    x, w, y, oh, ow = case(filter, size, dtype)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    result = np.zeros((images, k, oh, ow), dtype)
    arguments = [first, w, result, h, width, oh, ow, c, k]
    roles = element is F16
    bm = 64 if roles else 32
    module = convolution.implicit_gemm(bm, 32, 16, filter, element)
    grid = (-(-oh * ow // bm), -(-k // 32), images)
    expected = y.transpose(0, 3, 1, 2)
    agree(module, grid, arguments, 2, expected, off=2e-3, roles=roles, seeds=1 + roles)


@pytest.mark.slow
@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("filter", (SMALL, WIDE, STRIDED), ids=str)
@pytest.mark.parametrize("element", (F16, F32), ids=str)
def test_tabled(filter: Filter, element: Any, last: bool) -> None:
    dtype = np.float16 if element is F16 else np.float32
    size = images, h, width, c, k = (2, 5, 7, 3, 40)
    x, w, y, oh, ow = case(filter, size, dtype)
    table = Increments.of(filter.rows, filter.columns, (c, h, width), last=last).pad_to(16)
    depth = filter.taps * c
    order = (0, 1, 2, 3) if last else (0, 3, 1, 2)
    turned = np.ascontiguousarray(x.transpose(order))
    result = np.zeros(y.transpose(order).shape, dtype)
    arguments = [
        turned, w.reshape(depth, k), result, table.increments, table.sides, h, width, oh, ow,
        c * h * width, depth, k,
    ]  # fmt: skip
    module = convolution.with_increment_table(64, 32, 16, filter, element, last=last)
    grid = (-(-oh * ow // 64), -(-k // 32), images)
    expected = y.transpose(order)
    agree(module, grid, arguments, 2, expected, off=2e-3, seeds=1, roles=element is F16)


def shift_channels(x: Any, rows: Any, columns: Any) -> Any:
    """x [n, h, width, c] with every channel shifted."""
    h, width = x.shape[1:3]
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.stack([
        wide[:, 1 + r : 1 + r + h, 1 + s : 1 + s + width, n]
        for n, (r, s) in enumerate(zip(rows, columns, strict=True))
    ], -1)  # fmt: skip


def distances(count: int) -> tuple[Any, Any]:
    """A shift of -1 to 1 in each direction for each of `count`."""
    distances_ = np.random.default_rng(count).integers(-1, 2, (2, count)).astype(np.int32)
    return distances_[0], distances_[1]


@pytest.mark.slow
@pytest.mark.parametrize("c", (16, 40))
def test_every_channel_shifted(c: int) -> None:
    images, h, width, k = 2, 5, 7, 40
    x, w = normal(images, h, width, c), normal(c, k)
    rows, columns = distances(c)
    table = tables.shifts(rows, columns, h, width).pad_to(16)
    expected = (shift_channels(x, rows, columns).astype(float) @ w.astype(float)).transpose(
        0, 3, 1, 2
    )
    turned = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    result = np.zeros((images, k, h, width), np.float16)
    arguments = [turned, w, result, table.increments, table.sides, h, width, c, k]
    grid = (1, 2, images)
    agree(shifts.shift_convolution(64, 32, 16), grid, arguments, 2, expected, off=2e-3)
    alone = np.zeros_like(turned)
    inputs = [turned, alone, rows, columns, h, width, c]
    moves = shift_channels(x, rows, columns).transpose(0, 3, 1, 2)
    agree(shifts.shift(64), (1, c, images), inputs, 1, moves, off=0, roles=False, seeds=1)


def test_blocks_share_the_channels() -> None:
    """The blocks of a cluster each load the pixels of their own steps early."""
    images, h, width, c, k = 1, 5, 7, 40, 32
    x, w = normal(images, h, width, c), normal(c, k)
    rows, columns = distances(c)
    table = tables.shifts(rows, columns, h, width).pad_to(16)
    expected = (shift_channels(x, rows, columns).astype(float) @ w.astype(float)).transpose(
        0, 3, 1, 2
    )
    turned = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    actual = np.full((images, k, h, width), np.nan, np.float16)
    arguments = [turned, w, actual, table.increments, table.sides, h, width, c, k]
    module = shifts.shift_convolution(64, 32, 16)
    SimtExecutor().launch(module, "shift", (1, 1, 1), arguments, target="sm_90a", split_k=2)
    np.testing.assert_allclose(actual, expected, atol=2e-2)


@pytest.mark.slow
def test_groups_of_channels_shifted() -> None:
    """Distances come from memory, pixels by tensor maps all the same."""
    images, h, width, c, k = 2, 5, 19, 48, 40
    x, w = normal(images, h, width, c), normal(c, k)
    rows, columns = distances(3)
    spread = (np.repeat(d, 16) for d in (rows, columns))
    expected = shift_channels(x, *spread).astype(float) @ w.astype(float)
    result = np.zeros((images, h, width, k), np.float16)
    arguments = [x, w, result, rows, columns, h, width, c, k]
    agree(
        shifts.uniform_shift_convolution(4, 16, 32, 16),
        (4, 2, images),
        arguments,
        2,
        expected,
        off=2e-3,
    )


LARGE = {
    "boxes": convolution.boxes(8, 16, 128, 64, SMALL),
    "task 7": convolution.boxes(16, 16, 32, 32, Filter(5, 10, 1, (2, 5))),
    "strided": convolution.boxes(8, 16, 128, 64, STRIDED),
    "gathered": convolution.implicit_gemm(128, 128, 64, SMALL),
    "task 6": convolution.with_increment_table(128, 64, 32, Filter(5, 5, 1, (2, 2)), last=True),
    "shifted": shifts.shift_convolution(128, 128, 64),
    "in groups": shifts.uniform_shift_convolution(8, 16, 128, 64),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", LARGE)
def test_assembled(name: str) -> None:
    assembles(LARGE[name])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ("gathered", "shifted"))
def test_pixels_are_read_where_they_are_multiplied(name: str) -> None:
    """Pixels of the next iteration are loaded after the matmul of this one, and pass neither
    through shared memory nor between threads."""
    compiled = assembles(LARGE[name])
    math = next(
        f for n, f in compiled.stages["barriers"].functions.items() if n.endswith(".consumer")
    )
    body = next(b for b in math.blocks.values() if any(o.mnemonic == "gpu.wgmma" for o in b.ops))
    names = [op.mnemonic for op in body.ops]
    assert names.index("gpu.wgmma") < names.index("load") < names.index("gpu.wgmma_wait")
    assert "gpu.convert_layout" not in names and "gpu.barrier" not in names


def test_runs_of_pixels_are_copied_along_rows() -> None:
    """Nothing says that neighbours touch, but channels are not adjacent for certain."""
    compiled = assembles(
        convolution.implicit_gemm(128, 64, 8, SMALL, F32), roles=False, num_warps=8
    )
    copies = [op for op in compiled.stages["pipelined"].functions["convolution"].ops
              if op.mnemonic == "gpu.shared_alloc"]  # fmt: skip
    assert copies[0].fast == 0 and compiled.ptx.count("cp.async.ca.shared.global [") > 0
