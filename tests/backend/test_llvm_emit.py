"""A kernel and what it calls as one module of LLVM IR."""

from __future__ import annotations

import pytest

from tileir.backend.llvm.emit import Unit, emit, reached
from tileir.backend.memory.scratch import Plan
from tileir.backend.target import target
from tileir.errors import CompileError
from tileir.ir import Module
from tileir.textual import parse

CALLS = """tir 1.0

declare i32 @elsewhere(i32 %a)

define i32 @inner(i32 %a) {
entry:
  %r = mul i32 %a, 3
  ret %r
}

define i32 @outer(i32 %a) {
entry:
  %s = call i32 @inner, %a
  %r = call i32 @inner, %s
  ret %r
}

define kernel void @k(i32* %x) {
entry:
  %v = load i32 %x
  %r = call i32 @outer, %v
  store %x, %r
  ret
}
"""


def unit(module: Module, warps: int) -> Unit:
    function = module.kernel()
    return Unit(module, function.name, Plan.of(function), warps)


def test_what_is_called_by_what_is_called_is_defined_once() -> None:
    module = parse(CALLS)
    assert [f.name for f in reached(module, module.kernel())] == ["outer", "inner"]
    text = emit(unit(module, 1), target("sm_80"))
    assert text.count("define ") == 3


def test_a_function_without_a_body_is_named_where_it_is_called() -> None:
    module = parse(CALLS.replace("mul i32 %a, 3", "call i32 @elsewhere, %a"))
    with pytest.raises(CompileError, match="@elsewhere cannot be compiled: it has no body") as info:
        list(reached(module, module.kernel()))
    assert (info.value.code, info.value.location and info.value.location.line) == ("TIR0706", 7)


BARRIER = """tir 1.0
stage "barriers"

define kernel void @k(i32* %x) {num_warps = WARPS} {
entry:
  gpu.barrier
  ret
}
"""


@pytest.mark.parametrize(("warps", "block"), [(1, False), (2, True)])
def test_the_lanes_of_one_warp_need_no_barrier_of_the_block(warps: int, block: bool) -> None:
    text = emit(unit(parse(BARRIER.replace("WARPS", str(warps))), warps), target("sm_80"))
    assert ("call void @llvm.nvvm.barrier.cta.sync" in text) == block
    assert ("call void @llvm.nvvm.bar.warp.sync" in text) == (not block)


RANK = """tir 1.0
stage "split"

define kernel void @k(i32* %x) {cluster = BLOCKS} {
entry:
  %r = gpu.cluster_rank i32
  store %x, %r
  ret
}
"""


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_a_kernel_says_how_many_blocks_a_cluster_has(blocks: int) -> None:
    text = emit(unit(parse(RANK.replace("BLOCKS", str(blocks))), 4), target("sm_90a"))
    assert (f'"nvvm.cluster_dim"="{blocks}"' in text) == (blocks > 1)
