"""Software-pipeline chained matmuls by one iteration."""

from __future__ import annotations

import attrs

from tileir.analysis.loops import loops
from tileir.ir import Function
from tileir.passmanager.registry import PassResult, pass_


@pass_("pipeline-chained-matmuls", choices={"ordered_softmax": (True, False)})
def pipeline_chained_matmuls(function: Function, *, ordered_softmax: bool = True) -> PassResult:
    """Software-pipeline chained matmuls by one iteration.

    In a loop that computes operand A of one matmul from the result of another, as attention does,
    the tensor cores idle while threads compute. After this pass, each iteration issues its first
    matmul and then the last matmul of the previous iteration, and computes while the latter is in
    flight. Loads that depend on no wait come before both, as far as there are registers for them.
    The first iteration is peeled, and the last matmul follows the loop (Shah et al. 2024,
    "FlashAttention-3", section 3).

    With `ordered_softmax`, the warpgroups alternate in issuing matmuls, so that one computes while
    the matmuls of another are in flight. Scales per row of the accumulator become
    `gpu.conditional_scale`, which a warp skips if all its scales are 1.

    before:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 16> %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %stage = phi i32 [0, entry], [%next, body]
          %acc = phi f32<64, 16> [0.0, entry], [%y, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          %s = gpu.wgmma f32<64, 16> %q, 0, %k, %i, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %s
          %e = exp2 f32<64, 16> %x
          %h = fptrunc f16<64, 16> %e
          %c = fmul f32<64, 16> %acc, 0.5
          gpu.mbarrier_wait %full, %stage, 0
          %z = gpu.wgmma f32<64, 16> %h, 0, %v, %stage, %c
          %y = gpu.wgmma_wait f32<64, 16> %z
          gpu.mbarrier_arrive %empty, %stage
          %next = add i32 %stage, 1
          %j = add i32 %i, 1
          br loop
        done:
          store %p, %acc
          ret
        }
    after:
        stage "warp_specialized"

        define private void @consumer(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 16> %p) {
        entry:
          gpu.named_barrier_arrive {begin = true}
          br loop
        loop:
          %i = phi i32 [0, entry]
          %stage = phi i32 [0, entry]
          %acc = phi f32<64, 16> [0.0, entry]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, loop.exit
        body:
          %s = gpu.wgmma f32<64, 16> %q, 0, %k, %i, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %s
          %e = exp2 f32<64, 16> %x
          %h = fptrunc f16<64, 16> %e
          %c = fmul f32<64, 16> %acc, 0.5
          %j = add i32 %i, 1
          br loop.mainloop
        loop.mainloop:
          %i.1 = phi i32 [%j, body], [%j.1, loop.body]
          %stage.1 = phi i32 [%stage, body], [%next, loop.body]
          %operand = phi f16<64, 16> [%h, body], [%h.1, loop.body]
          %acc.1 = phi f32<64, 16> [%c, body], [%c.1, loop.body]
          %more.1, _ = icmp (i1, i1) %i.1, %n {predicate = slt}
          cond_br %more.1, loop.body, loop.last
        loop.body:
          gpu.named_barrier_sync
          %s.1 = gpu.wgmma f32<64, 16> %q, 0, %k, %i.1, 0.0
          gpu.mbarrier_wait %full, %stage.1, 0
          %0 = gpu.wgmma f32<64, 16> %operand, 0, %v, %stage.1, %acc.1
          gpu.named_barrier_arrive
          %x.1 = gpu.wgmma_wait f32<64, 16> %s.1 {pending = 1}
          %e.1 = exp2 f32<64, 16> %x.1
          %h.1 = fptrunc f16<64, 16> %e.1
          %j.1 = add i32 %i.1, 1
          %y = gpu.wgmma_wait f32<64, 16> %0
          gpu.mbarrier_arrive %empty, %stage.1
          %next = add i32 %stage.1, 1
          %c.1 = fmul f32<64, 16> %y, 0.5
          br loop.mainloop
        loop.last:
          gpu.mbarrier_wait %full, %stage.1, 0
          %1 = gpu.wgmma f32<64, 16> %operand, 0, %v, %stage.1, %acc.1
          %y.1 = gpu.wgmma_wait f32<64, 16> %1
          gpu.mbarrier_arrive %empty, %stage.1
          %next.1 = add i32 %stage.1, 1
          br loop.exit
        loop.exit:
          %i.2 = phi i32 [%i, loop], [%i.1, loop.last]
          %stage.2 = phi i32 [%stage, loop], [%next.1, loop.last]
          %acc.2 = phi f32<64, 16> [%acc, loop], [%y.1, loop.last]
          br done
        done:
          store %p, %acc.2
          ret
        }
    """  # noqa: E501
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import pipeline_chain
    from tileir.backend.warp_specialize.chained_matmuls import find_chain

    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        chain = find_chain(function, loops(function).by_header[header])
        if chain is not None:
            function, count = (
                pipeline_chain(function, chain, ordered_softmax=ordered_softmax),
                count + 1,
            )
    function = _with_first_arrival(function) if count and ordered_softmax else function
    return PassResult(function, (), {"chains pipelined": count} if count else {})


def _with_first_arrival(function: Function) -> Function:
    """`function` with the arrival in its entry that lets the first warpgroup issue first."""
    from tileir.ops.warpgroup import NamedBarrierArrive

    entry = function.entry
    ops = (NamedBarrierArrive(begin=True), *entry.ops)
    return function.with_blocks({**function.blocks, entry.label: attrs.evolve(entry, ops=ops)})
