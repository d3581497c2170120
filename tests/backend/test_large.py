"""Kernels of which LLVM does less, large ones and matmuls: they still compile, to code that does
the same."""

import re
from typing import Any

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.nvptx import llvm_codegen
from tileir.builder import F16, F32, I32, Builder, pointer
from tileir.ir import Module
from tileir.testing.kernels import attention, matmul


def kernel() -> Module:
    """A reduction by a function, after a loop with an invariant in it."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        place = b.arange(128)
        total = b.var((x + place).load(), name="total")
        with b.for_(0, 8):
            total.set(total * 0.5 + (x + place + 128).load())
        (y + place).store(total + total.get().reduce(0, lambda p, q: p + q * 0.5))
    return b.module()


def straight() -> Module:
    """A masked addition."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        place = b.program_id(axis=0) * 256 + b.arange(256)
        (y + place).store((x + place).load(place < n) + 1.0, place < n)
    return b.module()


def kinds(ptx: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in re.findall(r"^\t(?:@%\w+ )?(\w+)", ptx, re.MULTILINE):
        counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.parametrize("opt_level", [0, 1, 3])
def test_large_kernels_have_the_same_instructions(monkeypatch, opt_level):
    usual = compile_kernel(kernel(), "sm_90", {"opt_level": opt_level}).ptx
    monkeypatch.setattr(llvm_codegen, "_LARGE", 1)
    large = compile_kernel(kernel(), "sm_90", {"opt_level": opt_level})
    assert large.cubin
    for name in ("ld", "st", "fma", "bar"):
        assert kinds(large.ptx).get(name) == kinds(usual).get(name)


PIPELINES = ("_optimize", "_optimize_functions", "_optimize_straight", "_combine")


def whole(module: Module, options: dict[str, Any]) -> str:
    """PTX by LLVM's whole pipeline."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llvm_codegen, "_pipeline_for", lambda text, level: llvm_codegen._optimize)
        return compile_kernel(module, "sm_90a", options).ptx


@pytest.mark.sampled(1)
@pytest.mark.parametrize("result", [F16, F32])
def test_plain_matmuls_are_compiled_as_by_the_whole_pipeline(result):
    """Only additions and the like may be others."""
    module = matmul(128, 128, 64, result=result)
    plain = kinds(compile_kernel(module, "sm_90a", {"warp_specialize": True}).ptx)
    by_pipeline = kinds(whole(module, {"warp_specialize": True}))
    for name in ("bar", "st", "stmatrix", "wgmma", "cp", "mbarrier", "fence", "cvt"):
        assert plain.get(name) == by_pipeline.get(name)
    assert sum(plain.values()) <= sum(by_pipeline.values()) + 8


def test_kernels_without_dots_have_the_same_instructions():
    assert compile_kernel(kernel(), "sm_90a").ptx == whole(kernel(), {})
    ptx = compile_kernel(straight(), "sm_90a").ptx
    assert kinds(ptx) == kinds(whole(straight(), {}))


@pytest.mark.slow
def test_how_much_of_llvm_a_kernel_needs(monkeypatch):
    done: list[str] = []
    for name in PIPELINES:
        usual = getattr(llvm_codegen, name)

        def record_and_call(*args: Any, n: str = name, f: Any = usual, **more: Any) -> None:
            done.append(n)
            f(*args, **more)

        monkeypatch.setattr(llvm_codegen, name, record_and_call)

    def used(module: Module, **options: Any) -> str:
        done.clear()
        compile_kernel(module, "sm_90a", options)
        return done[0]

    assert used(matmul(128, 128, 64), warp_specialize=True) == "_combine"
    assert (
        used(matmul(128, 128, 64), warp_specialize=True, non_tma_alignments=(2, 2, 2))
        == "_optimize_functions"
    )
    assert used(matmul(128, 128, 64), warp_specialize=True, split_k=2) == "_optimize_functions"
    assert used(attention(64, 64, 64), warp_specialize=True) == "_optimize"  # weights in registers
    assert used(matmul(128, 128, 64), warp_specialize=False) == "_optimize_functions"
    assert used(kernel()) == "_optimize_functions"
    assert used(straight()) == "_optimize_straight"
    assert used(straight(), opt_level=0) == "_optimize"


def test_plain_matmuls_without_optimisation_compile():
    kernel = compile_kernel(
        matmul(128, 128, 64), "sm_90a", {"warp_specialize": True, "opt_level": 0}
    )
    assert "wgmma" in kernel.ptx and kernel.cubin
