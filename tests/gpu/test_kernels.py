"""Kernels on the GPU, against the interpreter and numpy. `pytest tests/gpu` is the whole command;
without a driver every test is skipped."""

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir.backend.executors import GpuExecutor
from tileir.builder import BF16, F32, I32, Builder, arg, pointer
from tileir.testing.op_cases import cells

pytestmark = pytest.mark.gpu

SHAPES = [(583, 931), (1823, 781), (4096, 1024), (16384, 512), (2048, 32768), (8192, 4096),
          (3, 1), (5, 7), (64, 200)]  # fmt: skip


def softmax(columns, element, block):
    b = Builder()
    buffers = {"x": arg(pointer(element), aligned=16), "y": arg(pointer(element), aligned=16)}
    with b.kernel("softmax", **buffers, rows=I32) as (x, y, rows):
        row = (b.program_id(axis=0) * block + b.arange(block))[:, None]
        offsets = row * columns + b.arange(columns)[None, :]
        mask = (row < rows).broadcast_to(block, columns)
        value = (x + offsets).load(mask, 0.0).to(F32)
        top = b.exp(value - value.max(axis=1)[:, None])
        (y + offsets).store((top / top.sum(axis=1)[:, None]).to(element), mask)
    return b.module()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape, block, dtype):
    rows, columns = shape
    element, kind = {"float32": (F32, np.float32), "bfloat16": (BF16, ml_dtypes.bfloat16)}[dtype]
    x = np.random.default_rng(rows).normal(size=shape).astype(np.float32).astype(kind)
    y = np.full(shape, np.nan).astype(kind)
    GpuExecutor().launch(softmax(columns, element, block), None, -(-rows // block), [x, y, rows])
    wide = x.astype(np.float64)
    top = np.exp(wide - wide.max(1, keepdims=True))
    bound = {"float32": 4e-6, "bfloat16": 2.0**-8}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), top / top.sum(1, keepdims=True), rtol=bound)


@pytest.mark.parametrize("n", [1, 511, 512, 100_003])
@pytest.mark.parametrize("name", ["add", "relu"])
def test_elementwise(name, n):
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), z=pointer(F32), n=I32) as (x, y, z, count):
        offsets = b.program_id(axis=0) * 512 + b.arange(512)
        mask = offsets < count
        left, right = (x + offsets).load(mask), (y + offsets).load(mask)
        (z + offsets).store(left + right if name == "add" else b.maximum(left, 0.0), mask)
    random = np.random.default_rng(n)
    left, right = (random.normal(size=n).astype(np.float32) for _ in range(2))
    out = np.full(n, np.nan, np.float32)
    GpuExecutor().launch(b.module(), None, -(-n // 512), [left, right, out, n])
    np.testing.assert_array_equal(out, left + right if name == "add" else np.maximum(left, 0))


TABLE = {c.name: c for c in cells([(), (7,), (16,), (3, 5), (130,), (4, 8, 16)])}
INEXACT = ("exp", "rsqrt", "reduce f", "scan f", "dot")


@pytest.mark.sampled(306)
@pytest.mark.parametrize("name", sorted(TABLE)[::7])
def test_ops_agree_with_the_interpreter(name):
    cell = TABLE[name]
    count, results = len(cell.inputs), []
    for launch in (GpuExecutor().launch, tileir.interpret):
        arguments = cell.arguments(len(name))
        more = {"allow_undef": True} if launch is tileir.interpret else {}
        launch(cell.module(), "cell", 1, arguments, **more)
        results.append(arguments[count:])
    for result, expected in zip(*results, strict=True):
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(result, expected)
            continue
        size = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-20}
        loose = cell.name.startswith(INEXACT)
        bound = size.get(expected.dtype.name, 2.0**-50) if loose else 0
        np.testing.assert_allclose(
            result.astype(np.float64), expected.astype(np.float64), rtol=bound,
            atol=bound * 64 if loose else 0,
        )  # fmt: skip
