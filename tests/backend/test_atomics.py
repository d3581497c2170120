"""Atomic additions of several floats at a time, and none told to anybody who does not ask."""

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F16, F32, I32, Builder, arg, pointer
from tileir.machine import dtype_of


def adding(element, *, read, masked=False):
    b = Builder()
    x, y = arg(pointer(element), aligned=16), arg(pointer(element), aligned=16)
    n = arg(I32, multiple_of=8)
    with b.kernel("k", x=x, y=y, n=n) as (x, y, n):
        at = b.arange(1024)
        value = (y + at).load()
        mask = at < n if masked else None
        old = b.atomic_rmw(x + at, value, mask, op="fadd", sem="relaxed")
        if read:
            (y + at).store(old)
    return b.module()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("element", "target", "expected"),
    [(F32, "sm_90", "add.v4.f32"), (F16, "sm_90", "add.noftz.v4.f16x2"),
     (BF16, "sm_90", "add.noftz.v4.bf16x2"), (F16, "sm_80", "add.noftz.f16x2"),
     (F32, "sm_80", "add.f32"), (BF16, "sm_80", "cas")],
)  # fmt: skip
@pytest.mark.parametrize("masked", [False, True])
def test_neighbours_are_added_together(element, target, expected, masked):
    module = adding(element, read=False, masked=masked)
    compiled = compile_kernel(module, target, {"num_warps": 4})
    assert expected in compiled.ptx and len(compiled.cubin) > 0
    assert "bar.sync" not in compiled.ptx and compiled.plan.shared == 0
    random = np.random.default_rng(0)
    numbers = [random.integers(-8, 8, 1024).astype(dtype_of(element)) for _ in range(2)]
    mine, theirs = ([a.copy() for a in numbers] for _ in range(2))
    tileir.interpret(module, None, 2, [*theirs, 512])
    SimtExecutor().launch(module, None, 2, [*mine, 512], target=target, num_warps=4)
    np.testing.assert_array_equal(*(x[0].astype(np.float32) for x in (mine, theirs)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("element", "expected"), [(F16, "f16x2"), (BF16, "bf16x2")])
def test_halves_are_added_together_where_loads_are_not_aligned(element, expected):
    b = Builder()
    x, y = arg(pointer(element), aligned=16), arg(pointer(F32))
    with b.kernel("k", x=x, y=y) as (x, y):
        at = b.arange(1024)
        scale = (y + b.program_id() + at).load()  # no two are known to be in one word
        b.atomic_rmw(x + at, scale.to(element), op="fadd", sem="relaxed")
    module = b.module()
    ptx = compile_kernel(module, "sm_90", {"num_warps": 4}).ptx
    adds = [line for line in ptx.splitlines() if ".add.noftz" in line]
    assert adds and all(expected in line for line in adds)
    inputs = [np.zeros(1024, dtype_of(element)), np.arange(1025, dtype=np.float32) % 32]
    mine, theirs = ([a.copy() for a in inputs] for _ in range(2))
    tileir.interpret(module, None, 2, theirs)
    SimtExecutor().launch(module, None, 2, mine, num_warps=4)
    np.testing.assert_array_equal(*(a[0].astype(np.float32) for a in (mine, theirs)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("element", [F32, F16, BF16])
def test_old_values_of_neighbours(element):
    module = adding(element, read=True)
    x, y = np.arange(1024).astype(dtype_of(element)), np.ones(1024, dtype_of(element))
    expected = x.copy()
    SimtExecutor().launch(module, None, 1, [x, y, 1024], num_warps=4)
    np.testing.assert_array_equal(y.astype(np.float32), expected.astype(np.float32))
    assert len(compile_kernel(module, "sm_90").cubin) > 0
