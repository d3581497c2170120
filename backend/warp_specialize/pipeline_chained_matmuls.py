"""A product one round later than what it is made of, so that it runs beside the next round."""

from __future__ import annotations

import attrs

from tileir.analysis.loops import loops
from tileir.ir import Function
from tileir.passmanager.registry import PassResult, pass_


@pass_("pipeline-chained-matmuls", choices={"ordered_softmax": (True, False)})
def pipeline_chained_matmuls(function: Function, *, ordered_softmax: bool = True) -> PassResult:
    """Let the last product of a round run beside what the next round does before it.

    A loop that makes the first factor of a product from another product, as attention does, keeps
    the tensor cores waiting while threads compute. Here every round begins its first product, then
    the last product of the round before, and computes while that one runs. With
    `ordered_softmax`: warpgroups begin theirs in turns, so that one computes while the products of another
    run. The first round is written out before the loop, the last product behind it (Shah et al.
    2024, "FlashAttention-3", section 3). Sums whose rows are multiplied by factors of their own are
    left as they are by warps whose factors are 1 (`gpu.conditional_scale`).

    before:
        stage "warp_specialized"

        define private void @math(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 16> %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %slot = phi i32 [0, entry], [%next, body]
          %sum = phi f32<64, 16> [0.0, entry], [%y, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          %s = gpu.wgmma f32<64, 16> %q, 0, %k, %i, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %s
          %e = exp2 f32<64, 16> %x
          %h = fptrunc f16<64, 16> %e
          %c = fmul f32<64, 16> %sum, 0.5
          gpu.mbarrier_wait %full, %slot, 0
          %z = gpu.wgmma f32<64, 16> %h, 0, %v, %slot, %c
          %y = gpu.wgmma_wait f32<64, 16> %z
          gpu.mbarrier_arrive %empty, %slot
          %next = add i32 %slot, 1
          %j = add i32 %i, 1
          br loop
        done:
          store %p, %sum
          ret
        }
    after:
        stage "warp_specialized"

        define private void @math(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 16> %p) {
        entry:
          gpu.named_barrier_arrive {begin = true}
          br loop
        loop:
          %i = phi i32 [0, entry]
          %slot = phi i32 [0, entry]
          %sum = phi f32<64, 16> [0.0, entry]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, loop.behind
        body:
          %s = gpu.wgmma f32<64, 16> %q, 0, %k, %i, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %s
          %e = exp2 f32<64, 16> %x
          %h = fptrunc f16<64, 16> %e
          %c = fmul f32<64, 16> %sum, 0.5
          %j = add i32 %i, 1
          br loop.rounds
        loop.rounds:
          %i.1 = phi i32 [%j, body], [%j.1, loop.round]
          %slot.1 = phi i32 [%slot, body], [%next, loop.round]
          %factor = phi f16<64, 16> [%h, body], [%h.1, loop.round]
          %total = phi f32<64, 16> [%c, body], [%c.1, loop.round]
          %more.1, _ = icmp (i1, i1) %i.1, %n {predicate = slt}
          cond_br %more.1, loop.round, loop.last
        loop.round:
          gpu.named_barrier_sync
          %s.1 = gpu.wgmma f32<64, 16> %q, 0, %k, %i.1, 0.0
          gpu.mbarrier_wait %full, %slot.1, 0
          %0 = gpu.wgmma f32<64, 16> %factor, 0, %v, %slot.1, %total
          gpu.named_barrier_arrive
          %x.1 = gpu.wgmma_wait f32<64, 16> %s.1 {pending = 1}
          %e.1 = exp2 f32<64, 16> %x.1
          %h.1 = fptrunc f16<64, 16> %e.1
          %j.1 = add i32 %i.1, 1
          %y = gpu.wgmma_wait f32<64, 16> %0
          gpu.mbarrier_arrive %empty, %slot.1
          %next = add i32 %slot.1, 1
          %c.1 = fmul f32<64, 16> %y, 0.5
          br loop.rounds
        loop.last:
          gpu.mbarrier_wait %full, %slot.1, 0
          %1 = gpu.wgmma f32<64, 16> %factor, 0, %v, %slot.1, %total
          %y.1 = gpu.wgmma_wait f32<64, 16> %1
          gpu.mbarrier_arrive %empty, %slot.1
          %next.1 = add i32 %slot.1, 1
          br loop.behind
        loop.behind:
          %i.2 = phi i32 [%i, loop], [%i.1, loop.last]
          %slot.2 = phi i32 [%slot, loop], [%next.1, loop.last]
          %sum.1 = phi f32<64, 16> [%sum, loop], [%y.1, loop.last]
          br done
        done:
          store %p, %sum.1
          ret
        }
    """  # noqa: E501
    from tileir.backend.warp_specialize.chained_matmul_pipeliner import delayed
    from tileir.backend.warp_specialize.chained_matmuls import chain

    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        found = chain(function, loops(function).by_header[header])
        if found is not None:
            function, count = delayed(function, found, ordered_softmax=ordered_softmax), count + 1
    function = _beginning(function) if count and ordered_softmax else function
    return PassResult(function, (), {"products delayed": count} if count else {})


def _beginning(function: Function) -> Function:
    """`function` with the first turn given to the first warpgroup where it begins."""
    from tileir.ops.warpgroup import NamedBarrierArrive

    entry = function.entry
    ops = (NamedBarrierArrive(begin=True), *entry.ops)
    return function.with_blocks({**function.blocks, entry.label: attrs.evolve(entry, ops=ops)})
