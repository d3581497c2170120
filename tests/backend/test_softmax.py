"""Whole kernels: softmax, add and relu through every stage, executed by threads in numpy and read
as PTX."""

import re

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F32, I32, Builder, arg, pointer


def softmax(columns, element=F32, multiple=1):
    """One row per instance, `columns` wide, `n` of them used."""
    b = Builder()
    buffers = {"x": arg(pointer(element), aligned=16), "y": arg(pointer(element), aligned=16)}
    numbers = {"n": arg(I32, multiple_of=multiple), "stride": arg(I32, multiple_of=multiple)}
    with b.kernel("softmax", **buffers, **numbers) as (x, y, n, stride):
        columns_ = b.arange(columns)
        offsets, mask = b.program_id(axis=0) * stride + columns_, columns_ < n
        value = (x + offsets).load(mask, float("-inf")).to(F32)
        top = b.exp(value - b.splat(value.max(axis=0), to=value.type))
        quotient = top / b.splat(top.sum(axis=0), to=top.type)
        (y + offsets).store(quotient.to(element), mask)
    return b.module()


def elementwise(apply, size=512, multiple=4):
    b = Builder()
    buffers = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **buffers, n=arg(I32, multiple_of=multiple)) as (x, y, z, n):
        offsets = b.program_id(axis=0) * size + b.arange(size)
        mask = offsets < n
        (z + offsets).store(apply(b, (x + offsets).load(mask), (y + offsets).load(mask)), mask)
    return b.module()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("columns", [1, 7, 48, 200, 512, 931])
@pytest.mark.parametrize("warps", [1, 3, 4])
def test_softmax_by_threads(columns, warps):
    used, rows = max(1, columns - 3), 2
    random = np.random.default_rng(columns)
    x = random.normal(size=(rows, used)).astype(np.float32)
    y = np.full_like(x, np.nan)
    SimtExecutor().launch(softmax(columns), None, rows, [x, y, used, used], num_warps=warps)
    top = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, top / top.sum(1, keepdims=True), rtol=2e-6)


def test_threads_agree_with_the_interpreter_in_bf16():
    module = softmax(96, BF16)
    x = np.random.default_rng(0).normal(size=(3, 96)).astype("float32")

    x = x.astype(ml_dtypes.bfloat16)
    out = [np.zeros_like(x) for _ in range(2)]
    SimtExecutor().launch(module, None, 3, [x, out[0], 96, 96])
    tileir.interpret(module, None, 3, [x, out[1], 96, 96])
    np.testing.assert_allclose(*(y.astype("float32") for y in out), rtol=2**-7)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_90a"])
def test_add_is_vectorised_under_its_mask(target):
    compiled = compile_kernel(elementwise(lambda b, x, y: x + y), target, {"num_warps": 4})
    assert len(re.findall(r"@%p\d+ ld\.global\.v4\.b32", compiled.ptx)) == 2
    assert len(re.findall(r"@%p\d+ st\.global\.v4\.b32", compiled.ptx)) == 1
    assert "bar.sync" not in compiled.ptx
    assert compiled.metadata.spills == 0 and compiled.metadata.registers <= 32


def test_an_unknown_bound_leaves_whole_tiles_vectorised():
    """Two paths for the load and two for the store; which is taken the whole block agrees on."""
    ptx = compile_kernel(softmax(512, multiple=1), "sm_90", {"num_warps": 4}).ptx
    assert len(re.findall(r"\bld\.global\S*\.v4\.\w+", ptx)) == 0  # rows start anywhere
    aligned = compile_kernel(elementwise(lambda b, x, y: x + y, multiple=1), "sm_90").ptx
    assert len(re.findall(r"\bld\.global\S*\.v4\.\w+", aligned)) == 2
    assert len(re.findall(r"@%p\d+ ld\.global\.b32", aligned)) == 8


def test_a_known_bound_is_vectorised():
    ptx = compile_kernel(softmax(4096, multiple=16), "sm_90a", {"num_warps": 8}).ptx
    assert len(re.findall(r"ld\.global\.v4\.b32", ptx)) == 4
    assert len(re.findall(r"st\.global\.v4\.b32", ptx)) == 4


def test_one_barrier_per_reduction():
    ptx = compile_kernel(softmax(4096, multiple=16), "sm_90a", {"num_warps": 8}).ptx
    assert ptx.count("bar.sync") == 2
    assert compile_kernel(softmax(512), "sm_90", {"num_warps": 1}).ptx.count("bar.sync") == 0


def test_half_precision_moves_16_bytes_at_once():
    ptx = compile_kernel(softmax(4096, BF16, 16), "sm_90a", {"num_warps": 8}).ptx
    assert len(re.findall(r"ld\.global\.v4\.b32", ptx)) == 2


def test_nothing_is_contracted_unless_the_op_says_so():
    plain = compile_kernel(elementwise(lambda b, x, y: x * y + x), "sm_90").ptx
    assert "fma.rn.f32" not in plain and "mul.rn.f32" in plain

    def fused_multiply_add(b, x, y):
        return b.fadd(b.fmul(x, y, fast="contract"), x, fast="contract")

    assert "fma.rn.f32" in compile_kernel(elementwise(fused_multiply_add), "sm_90").ptx


def test_the_same_module_gives_the_same_bytes():
    first, second = (compile_kernel(softmax(200), "sm_90") for _ in range(2))
    assert first.ptx == second.ptx and first.cubin == second.cubin


def test_every_stage_can_be_looked_at():
    compiled = compile_kernel(softmax(64), "sm_90")
    layouts = compiled.tir_at("layouts")
    tiles = [v.type for op in layouts.functions["softmax"].ops for v in op.results]
    assert layouts.stage == "layouts"
    assert all(t.layout is not None for t in tiles if hasattr(t, "shape"))
