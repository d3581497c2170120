"""Defer `wgmma` waits by one iteration, so that a matmul overlaps the next one."""

from __future__ import annotations

from tileir.analysis.loops import loops
from tileir.ir import Function
from tileir.passmanager.registry import PassResult, pass_


@pass_("defer-wgmma-waits")
def defer_wgmma_waits(function: Function) -> PassResult:
    """Keep the `wgmma` of one iteration in flight while the next one is issued.

    A loop whose only `wgmma` adds to a loop-carried accumulator waits for the `wgmma` of the
    previous iteration instead of its own, and then releases the stages that the previous one has
    read. The last `wgmma` is waited for after the loop.

    The wait stays where it is in two cases. A `wgmma` with operand A in registers reads them until
    its wait (PTX ISA, "wgmma.mma_async"), and the next iteration would overwrite them. A loop that
    stores to the buffers of its operands would overwrite these buffers too early.

    before:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %a, f16 addrspace(3)* %b, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 8> %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %acc = phi f32<64, 8> [0.0, entry], [%y, loop]
          gpu.mbarrier_wait %full, 0, %i
          %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %acc
          %y = gpu.wgmma_wait f32<64, 8> %x
          gpu.mbarrier_arrive %empty, 0
          %j = xor i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %more, loop, done
        done:
          store %p, %y
          ret
        }
    after:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %a, f16 addrspace(3)* %b, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 8> %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %acc = phi f32<64, 8> [0.0, entry], [%y, loop]
          %begun = phi i1 [false, entry], [true, loop]
          %last = phi i32 [0, entry], [0, loop]
          gpu.mbarrier_wait %full, 0, %i
          %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %acc
          %y = gpu.wgmma_wait f32<64, 8> %x {pending = 1}
          gpu.mbarrier_arrive %empty, %last, %begun
          %j = xor i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %more, loop, done.waited
        done.waited:
          %0 = gpu.wgmma_wait f32<64, 8> %y
          gpu.mbarrier_arrive %empty, 0, true
          br done
        done:
          store %p, %0
          ret
        }
    """  # noqa: E501
    from tileir.backend.software_pipeline.overlap_wgmma import overlap_wgmma

    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        changed = overlap_wgmma(function, header)
        if changed is not None:
            function, count = changed, count + 1
    return PassResult(function, (), {"matmuls overlapped": count} if count else {})
