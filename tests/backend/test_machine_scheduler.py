"""LLVM's machine scheduler, which is on for the processors and kernels that it is asked for."""

from __future__ import annotations

from tileir.backend.cpu.jit import generate
from tileir.backend.nvptx.llvm_codegen import to_ptx
from tileir.backend.options import CodeVariant
from tileir.backend.register_limit import live_halves
from tileir.backend.target import target

TERMS = 16
LOADED = "".join(
    f"""
  %p{i} = getelementptr float, ptr%SPACE %x, i64 {i}
  %v{i} = load float, ptr%SPACE %p{i}"""
    for i in range(TERMS)
)
SQUARES = "".join(f"\n  %s{i} = fmul float %v{i}, %v{i}" for i in range(TERMS))
ADDITIONS = "".join(f"\n  %a{i + 1} = fadd float %a{i}, %s{i}" for i in range(TERMS))
STORED = "".join(
    f"\n  %w{i} = fadd float %v{i}, %a{TERMS}\n  store float %w{i}, ptr%SPACE %p{i}"
    for i in range(TERMS)
)
BODY = f"""{LOADED}{SQUARES}
  %a0 = fadd float %s0, %s1{ADDITIONS}{STORED}
  ret void
}}
"""
GPU = f"""target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr addrspace(1) %x) {{{BODY.replace("%SPACE", " addrspace(1)")}"""
CPU = f"define void @k(ptr %x) {{{BODY.replace('%SPACE', '')}"


def test_one_kernel_is_scheduled_and_others_are_not() -> None:
    machine = target("sm_90a")
    before, code = to_ptx(GPU, machine), generate(CPU, 3)
    scheduled = to_ptx(GPU, machine, variant=CodeVariant.SCHEDULED)
    assert live_halves(scheduled) < live_halves(before)
    assert generate(CPU, 3) == code
    assert to_ptx(GPU, machine) == before
    assert generate(CPU, 3) == code
    assert to_ptx(GPU, machine, variant=CodeVariant.SCHEDULED) == scheduled


def test_registers_alive_at_once() -> None:
    ptx = """
	ld.global.b32 	%r1, [%rd1];
	ld.global.b16 	%rs1, [%rd1];
	add.s32 	%r2, %r1, %r1;
	setp.eq.s32 	%p1, %r2, 0;
	st.global.b32 	[%rd2], %r2;
"""
    assert live_halves(ptx) == 4 + 2 + 1


def test_a_value_that_a_loop_reads_is_alive_to_its_end() -> None:
    loop = """
	mov.b32 	%r1, 1;
$L__BB0_1:
	add.s32 	%r2, %r1, 1;
	mul.wide.s32 	%rd1, %r2, 4;
	st.global.b32 	[%rd1], 0;
	bra.uni 	$L__BB0_1;
"""
    assert live_halves(loop) == 8
    assert live_halves(loop.replace("bra.uni \t$L__BB0_1", "ret")) == 6
