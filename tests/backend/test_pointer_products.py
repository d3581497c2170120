"""Products of operands that no tensor map describes: by warpgroups from what threads copy."""

import pytest

from tileir.backend import compile as compile_kernel
from tileir.builder import F16, F32, I32, Builder, arg, pointer


def wrapped_product():
    """C = A B with rows and columns modulo their extents, as Triton's tutorial has it."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16, readonly=True) for name in "ab"}
    sizes = {name: arg(I32, multiple_of=16) for name in "mnk"}
    with b.kernel("matmul", **kinds, c=pointer(F32), **sizes) as (x, y, z, m, n, k):
        rows = b.program_id(axis=0) * 64 + b.arange(64)
        columns = b.program_id(axis=1) * 64 + b.arange(64)
        depth = b.arange(32)
        left = b.var(
            x + (b.srem(rows, b.full((64,), m, I32), rounding="zero")[:, None] * k + depth[None, :])
        )
        right = b.var(
            y
            + (
                depth[:, None] * n
                + b.srem(columns, b.full((64,), n, I32), rounding="zero")[None, :]
            )
        )
        sums = b.var(b.full((64, 64), 0.0, F32))
        with b.for_(0, k, 32):
            sums.set(b.dot(left.get().load(), right.get().load(), sums.get()))
            left.set(left.get() + 32)
            right.set(right.get() + n * 32)
        mask = (rows[:, None] < m).broadcast_to(64, 64) & (columns[None, :] < n).broadcast_to(
            64, 64
        )
        (z + (rows[:, None] * n + columns[None, :])).store(sums.get(), mask)
    return b.module()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_indices_that_wrap_around_are_copied_ahead(target):
    """The neighbours of a wrapped index need not be neighbours in memory; under a mask they are."""
    options = {"num_warps": 4, "warp_specialize": False}
    text = str(compile_kernel(wrapped_product(), target, options).tir_at("pipelined"))
    assert text.count("gpu.async_copy") >= 2 and " srem " not in text
    assert " load " not in text
