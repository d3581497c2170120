"""Code of the variants of a kernel: LLVM runs where a variant differs."""

from __future__ import annotations

import sys

import attrs
import pytest

from tileir.backend import Options, compile as compile_kernel
from tileir.backend.compile import CodeGenerator
from tileir.backend.nvptx import llvm_codegen
from tileir.backend.options import CodeVariant
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.ir import Module

FIRST, *OTHERS = CodeVariant
compiler = sys.modules[CodeGenerator.__module__]  # `tileir.backend.compile` is the function


def sums(loops: bool) -> Module:
    """`k(x, y, n)`: sums of columns, in a loop over rows or of one row."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, n=I32) as (x, y, n):
        at, total = b.arange(512), b.var(b.full((512,), 0.0, F32))
        with b.for_(n) if loops else b.if_(n > 0):
            row = (x + (n * 512 + at)).load()
            total += row * row.exp2() if loops else row
        (y + at).store(total.get())
    return b.module()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that are run after this fixture is requested."""
    done: list[str] = []
    for name in ("emit_kernel", "to_ptx"):
        own = getattr(compiler, name)
        monkeypatch.setattr(compiler, name, lambda *a, n=name, own=own: done.append(n) or own(*a))
    return done


def generator(module: Module, **options: bool) -> CodeGenerator:
    kernel = compile_kernel(module, "sm_90a", Options(num_warps=4), **options)
    assert isinstance(kernel.generate, CodeGenerator)
    return kernel.generate


def test_llvm_generates_other_code_from_the_same_text(steps: list[str]) -> None:
    generate = generator(sums(loops=True))
    first = generate(CodeVariant.DEPTH_FIRST)
    for variant in (CodeVariant.SCHEDULED, CodeVariant.UNREDUCED):
        steps.clear()
        code = generate(variant)
        assert steps == ["to_ptx"] and code.llvm == first.llvm
        unit = attrs.evolve(generate.unit, variant=variant)
        assert code.llvm == generate._emit(unit)[0], "no rule depends on the variant"


def test_variants_that_llvm_generates_share_the_optimized_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimized = list[str]()
    own = llvm_codegen._optimized_module
    monkeypatch.setattr(
        llvm_codegen, "_optimized_module", lambda text, *a: optimized.append(text) or own(text, *a)
    )
    generate, other = generator(sums(loops=True)), generator(sums(loops=False))
    unreduced, scheduled = CodeVariant.UNREDUCED, CodeVariant.SCHEDULED
    texts = [generate.depth_first.llvm, other.depth_first.llvm]
    optimized.clear()
    shared = [generate(variant).ptx for variant in (unreduced, scheduled)]
    assert optimized == texts[:1] and shared[0] != shared[1]
    assert generate(scheduled).ptx == shared[1], "it is not kept any longer"
    assert optimized == 2 * texts[:1]
    assert generate(unreduced).ptx == shared[0]
    assert other(scheduled) != generate(scheduled), "the kept module is of another kernel"
    assert optimized[3:] == [texts[1], texts[0]]
    generate(unreduced)
    own_level = llvm_codegen.to_ptx(texts[0], generate.machine, 1, (), scheduled)
    assert optimized[5:] == 2 * texts[:1], "the kept module is of another level"
    assert own_level == llvm_codegen.to_ptx(texts[0], generate.machine, 1, (), scheduled)


def test_what_a_variant_does_not_change_is_not_generated_again(steps: list[str]) -> None:
    generate = generator(sums(loops=False))
    for variant, run in (
        (CodeVariant.DEPTH_FIRST, []),
        (CodeVariant.PREFETCHED, []),  # no loop
        (CodeVariant.ALTERNATING, ["emit_kernel"]),  # one store
    ):
        steps.clear()
        assert generate(variant) is generate.depth_first
        assert steps == run


def test_a_variant_that_changes_the_kernel_is_generated(steps: list[str]) -> None:
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, n=I32) as (x, y, n):
        at, total = b.arange(512), b.var(b.full((512,), 0.0, F32))
        with b.for_(n) as i:
            total += (x + (i * 512 + at)).load().exp2()
        (y + at).store(total.get())
    generate = generator(b.module())
    steps.clear()
    code = generate(CodeVariant.PREFETCHED)
    assert steps == ["emit_kernel", "to_ptx"]
    assert code.llvm != generate.depth_first.llvm and code.ptx != generate.depth_first.ptx


@pytest.mark.parametrize("variant", OTHERS)
def test_a_separate_process_generates_the_same(variant: CodeVariant) -> None:
    here, there = (generator(sums(loops=True), isolate=x) for x in (False, True))
    assert here(variant) == there(variant)
