"""Kernels whose matmuls, arguments and questions to Python are unusual, as native code."""

import numpy as np
import pytest

import tileir
from tileir import textual
from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.executor import CpuExecutor
from tileir.builder import F16, F32, F64, I1, I8, I32, I64, Builder, pointer

DTYPES = {F16: np.float16, F32: np.float32, F64: np.float64, I8: np.int8, I32: np.int32}


def both(module, *arguments):
    """The interpreter and native code leave the same in the arguments."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    tileir.interpret(module, None, 1, list(arguments))
    CpuExecutor().launch(module, None, 1, copies)
    for expected, actual in zip(arguments, copies, strict=True):
        np.testing.assert_array_equal(actual, expected)
    return copies


def cells(b, shape):
    """The row-major number of every element."""
    total = 0
    for dim, extent in enumerate(shape):
        index = b.arange(extent)[
            tuple(slice(None) if d == dim else None for d in range(len(shape)))
        ]
        total = index + total * extent
    return total


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(
    ("operand", "total", "precision"),
    [(F32, F32, "ieee"), (F32, F32, "tf32"), (F16, F16, None), (F16, F32, None), (F64, F64, None),
     (I8, I32, None)],
)  # fmt: skip
def test_matmuls(batch, operand, total, precision):
    """Sums of whole numbers, which no order of additions changes; 4097 has more bits than TF32."""
    m, n, k = 5, 9, 7
    b = Builder()
    shapes = (*batch, m, k), (*batch, k, n), (*batch, m, n)
    with b.kernel("k", a=pointer(operand), b=pointer(operand), c=pointer(total)) as (x, y, z):
        left, right, to = (p + cells(b, s) for p, s in zip((x, y, z), shapes, strict=True))
        words = {} if precision is None else {"precision": precision}
        to.store(left.load().dot(right.load(), to.load(), **words))
    random = np.random.default_rng(m)
    a, c, d = (random.integers(-4, 5, s).astype(DTYPES[e])
               for s, e in zip(shapes, (operand, operand, total), strict=True))  # fmt: skip
    if precision is not None:
        a[..., 0, 0], d[..., 0, 0] = 4097, 4097
    both(b.module(), a, c, d)


def test_arguments_of_one_bit():
    b = Builder()
    with b.kernel("k", x=pointer(I32), first=I1, second=I1) as (x, first, second):
        tens = b.where(second, b.constant(I32, 10), 20)
        x.store(b.where(first, tens + 1, tens + 2))
    for first, second in ((True, False), (False, True)):
        (out, *_) = both(b.module(), np.zeros(1, np.int32), first, second)
        assert out[0] == (21 if first else 12)


def test_a_combiner_with_branches_of_two_results():
    module = textual.parse(
        """tir 1.0
define (i32, i32) @least(i32 %a, i32 %i, i32 %b, i32 %j) {
entry:
  %p, _ = icmp (i1, i1) %a, %b {predicate = sle}
  cond_br %p, first, second
first:
  ret %a, %i
second:
  ret %b, %j
}
define kernel void @k(i32* %x, i32* %y) {
entry:
  %r = make_range i32<64>
  %xs = splat i32*<64> %x
  %px = getelementptr i32*<64> %xs, %r
  %v = load i32<64> %px
  %least, %where = reduce (i32, i32) %v, %r {combiner = @least}
  store %y, %least
  %z = getelementptr i32* %y, i32 1
  store %z, %where
  ret
}
"""
    )
    x = np.random.default_rng(1).permutation(64).astype(np.int32)
    _, out = both(module, x, np.zeros(2, np.int32))
    assert out.tolist() == [0, int(np.argmin(x))]


def test_nanoseconds(monkeypatch):
    module = textual.parse(
        """tir 1.0
define kernel void @k(i64* %x) {
entry:
  %t = globaltimer i64
  store %x, %t
  ret
}
"""
    )
    monkeypatch.setattr(
        "tileir.backend.cpu.host_callbacks.time.time_ns", lambda: 1_234_567_890_123_456_789
    )
    out = [np.zeros(1, np.int64)]
    CpuExecutor().launch(module, None, 1, out)
    assert out[0][0] == 1_234_567_890_123_456_789


def test_the_code_as_optimised_is_for_all_to_read():
    b = Builder()
    with b.kernel("k", x=pointer(I64)) as (x,):
        x.store(5)
    text = compile_kernel(b.module()).optimized_llvm
    assert "define void @run(" in text and "store i64 5" in text
