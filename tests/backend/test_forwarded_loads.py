"""Loads whose value other blocks have: LLVM's `gvn` replaces them in code for CPUs, and does not
search for them in code for GPUs."""

from __future__ import annotations

from tileir.backend.cpu import jit
from tileir.backend.nvptx.llvm_codegen import llvm_binding, optimized_ir
from tileir.backend.target import target

BODY = """
entry:
  %p = getelementptr float, ptr%SPACE %x, i64 %n
  %positive = icmp sgt i64 %n, 0
  br i1 %positive, label %then, label %else
then:
  store volatile i64 1, ptr%SPACE %y
  %v = load float, ptr%SPACE %p
  %twice = fadd float %v, %v
  br label %join
else:
  store volatile i64 2, ptr%SPACE %y
  %w = load float, ptr%SPACE %p
  %square = fmul float %w, %w
  br label %join
join:
  %s = phi float [%twice, %then], [%square, %else]
  %again = load float, ptr%SPACE %p
  %sum = fadd float %s, %again
  store float %sum, ptr%SPACE %p
  ret void
}
"""
GPU = (
    'target triple = "nvptx64-nvidia-cuda"\n'
    "define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, i64 %n) {"
    + BODY.replace("%SPACE", " addrspace(1)")
)
CPU = "define void @k(ptr %x, ptr %y, i64 %n) {" + BODY.replace("%SPACE", "")


def loads_on_cpu() -> int:
    llvm = llvm_binding()
    return str(jit._optimize(llvm, jit._machine(llvm, 3), CPU, 3)).count(" = load ")


def loads_on_gpu() -> int:
    return optimized_ir(GPU, target("sm_90a")).count(" = load ")


def test_each_target_has_its_setting_whatever_was_compiled_before() -> None:
    counts = [loads_on_cpu(), loads_on_gpu(), loads_on_cpu(), loads_on_gpu()]
    assert counts == [2, 3, 2, 3]
