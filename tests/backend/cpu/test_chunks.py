"""What is done with accumulators that take many registers: in loops over chunks, which are read
where the accumulators are."""

import numpy as np
import pytest

import tileir
from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.executor import CpuExecutor
from tileir.builder import F16, F32, F64, I8, I32, Builder, pointer
from tileir.types import tile

DTYPES = {F16: np.float16, F32: np.float32, F64: np.float64, I8: np.int8, I32: np.int32}
DEPTH = 8


def product(rows, columns, operand, total, after):
    """A kernel that accumulates dots, and stores what `after` makes of the accumulator."""
    b = Builder()
    kinds = {"x": pointer(operand), "y": pointer(operand), "z": pointer(total)}
    with b.kernel("k", **kinds, iterations=I32, m=I32) as (x, y, z, iterations, m):
        i, j, k = b.arange(rows)[:, None], b.arange(columns)[None, :], b.arange(DEPTH)
        left, right = x + i * DEPTH + k, y + k[:, None] * columns + j
        acc = b.var(b.zeros((rows, columns), total), name="acc")
        with b.for_(0, iterations):
            acc.set(left.load().dot(right.load(), acc))
        after(b, acc.get(), z, i, j, m)
    return b.module()


def store_selected(b, acc, z, i, j, m):
    """Chosen, scaled, masked."""
    n = acc.type.shape[1]
    (z + i * n + j).store(b.select(acc > 0, acc, acc * 3), i < m)


def twice(b, acc, z, i, j, m):
    """Read by two stores, which go different ways."""
    rows, n = acc.type.shape
    (z + i * n + j).store(acc + 1)
    (z + rows * n + (j * rows + i)).store(acc + 2, i < m)


def by_row(b, acc, z, i, j, m):
    """What a reduction over columns gives, subtracted."""
    n = acc.type.shape[1]
    top = acc.max(axis=1)
    (z + i * n + j).store(acc - top[:, None], i < m)


def by_both(b, acc, z, i, j, m):
    """Transposed."""
    rows = acc.type.shape[0]
    (z + b.trans(j * rows + i, order=(1, 0))).store(b.trans(acc, order=(1, 0)))


AFTER = [store_selected, twice, by_row, by_both]
KINDS = [(F16, F32), (F64, F64), (I8, I32), (F16, F16)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("after", AFTER, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("rows", "columns"), [(70, 33), (16, 136)])
def test_chunks(rows, columns, after):
    agree(rows, columns, F32, F32, after)


@pytest.mark.slow
@pytest.mark.parametrize(("operand", "total"), KINDS, ids=str)
def test_chunks_of_every_accumulator(operand, total):
    agree(70, 33, operand, total, store_selected)


def agree(rows, columns, operand, total, after):
    """The interpreter and native code compute the same accumulators of whole numbers."""
    module = product(rows, columns, operand, total, after)
    random = np.random.default_rng(rows)
    x, y = (random.integers(-2, 3, s).astype(DTYPES[operand])
            for s in ((rows, DEPTH), (DEPTH, columns)))  # fmt: skip
    expected, actual = (np.zeros((2, rows, columns), DTYPES[total]) for _ in range(2))
    tileir.interpret(module, None, 1, [x, y, expected, 3, rows - 1])
    for checked in (False, True):
        actual[:] = 0
        CpuExecutor().launch(module, None, 1, [x, y, actual, 3, rows - 1], checked=checked)
        np.testing.assert_array_equal(actual, expected)


def test_code_after_dots_does_not_grow_with_the_tile():
    """What a second and a third store add is as long for four times the rows."""
    more = []
    for rows in (64, 256):
        one, two = (
            compile_kernel(product(rows, 64, F32, F32, after)).llvm.count("\n")
            for after in (store_selected, twice)
        )
        more.append(two - one)
    assert more[1] <= more[0] + 20


def test_slices_by_hand():
    """Of accumulators, from where they are; of a tile that no matmul adds to, through memory."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), z=pointer(F32), at=I32) as (x, z, at):
        i, j = b.arange(32)[:, None], b.arange(32)[None, :]
        loaded = (x + i * 32 + j).load()
        for number, whole in enumerate((loaded.dot(loaded, b.zeros((32, 32), F32)), loaded)):
            part = b.extract_slice(whole, tile(F32, (8, 16)), (at, 5))
            place = z + number * 128 + b.arange(8)[:, None] * 16 + b.arange(16)[None, :]
            place.store(part)
    x = np.random.default_rng(0).integers(-3, 4, (32, 32)).astype(np.float32)
    out = np.zeros((2, 8, 16), np.float32)
    CpuExecutor().launch(b.module(), None, 1, [x, out, 7])
    for got, whole in zip(out, (x @ x, x), strict=True):
        np.testing.assert_array_equal(got, whole[7:15, 5:21])
