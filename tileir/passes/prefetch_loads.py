"""Software pipelining of loads: the paper's pre-fetching (MAPL 2019, section 5.1.1)."""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.errors import Diagnostic
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.passes.lookahead import Lookahead
from tileir.passes.register_pipeliner import RegisterPipeliner
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal


@pass_("prefetch-loads")
def prefetch_loads(function: Function, *, num_stages: int = 2) -> PassResult:
    """Issue the loads of a loop `stages - 1` iterations before their values are needed.

    With d = stages - 1, the loads of iterations 0 to d - 1 are issued before the loop. In the loop,
    the value for iteration i is a block parameter, and the load for iteration i + d is issued at
    the end. Each load is masked by the condition that its iteration runs. The ops that compute the
    addresses, masks and this condition are cloned to run d iterations ahead. For d = 1, the values
    that the iteration computes for the next one are used instead.

    A loop is pipelined if it has one latch and leaves from the latch or from its header. A load is
    pipelined if it is in no inner loop, runs in every iteration, has an address that changes with
    the loop and is computed without effects, and if no op in the loop may change the memory that it
    reads.

    The attribute `stages` of a latch's branch overrides the option, and is set to 1. Other loops
    stay as they are, with a remark at their loads. Masks that are always true are left to
    `simplify`, clones to `cse`, unused ops to `dce`.

    before:
        define void @f(f32*<8> %p0, f32*<8> %q, i32 %n) {
        entry:
          br loop
        loop:
          %p = phi f32*<8> [%p0, entry], [%p1, loop]
          %i = phi i32 [0, entry], [%j, loop]
          %s = phi f32<8> [0.0, entry], [%t, loop]
          %x = load f32<8> %p
          %t = fadd f32<8> %s, %x
          %p1 = getelementptr f32*<8> %p, i32<8> 8
          %j = add i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %more, loop, exit
        exit:
          store %q, %t
          ret
        }
    after:
        define void @f(f32*<8> %p0, f32*<8> %q, i32 %n) {
        entry:
          %x.1 = load f32<8> %p0
          br loop
        loop:
          %p = phi f32*<8> [%p0, entry], [%p1, loop]
          %i = phi i32 [0, entry], [%j, loop]
          %s = phi f32<8> [0.0, entry], [%t, loop]
          %x = phi f32<8> [%x.1, entry], [%x.2, loop]
          %t = fadd f32<8> %s, %x
          %p1 = getelementptr f32*<8> %p, i32<8> 8
          %j = add i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          %0 = splat i1<8> %more
          %x.2 = load f32<8> %p1, %0
          cond_br %more, loop, exit {stages = 1}
        exit:
          store %q, %t
          ret
        }
    """
    remarks: list[Diagnostic] = []
    done: list[str] = []
    for header in tuple(loops(function).by_header):
        changed = _pipeline(function, loops(function).by_header[header], num_stages, remarks)
        if changed is not function:
            done.append(header)
        function = changed
    counts = {"loops pipelined": len(done)} if done else {}
    return PassResult(_mark_loops(function, done), tuple(remarks), counts)


def _mark_loops(function: Function, done: list[str]) -> Function:
    """`function` with `stages = 1` on the loops around those in `done`, because the loads issued
    before an inner loop must not be pipelined in the outer one."""
    by_header = loops(function).by_header
    blocks = dict(function.blocks)
    for header in done:
        parent = by_header[header].parent
        while parent is not None:
            for latch in by_header[parent].latches:
                block, last = blocks[latch], cast(Any, blocks[latch].terminator)
                if last.stages != 1:
                    ops = (*block.ops[:-1], last.evolve(stages=1))
                    blocks[latch] = attrs.evolve(block, ops=ops)
            parent = by_header[parent].parent
    return function.with_blocks(blocks)


def _pipeline(
    function: Function, loop: Loop, num_stages: int, remarks: list[Diagnostic]
) -> Function:
    inner = loops(function).innermost
    own = (label for label in loop.order if inner[label] == loop.header)
    loads = [op for label in own for op in function.blocks[label].ops if _moving(op)]
    required = num_stages
    if loop.latch is not None:
        stated = getattr(function.blocks[loop.latch].terminator, "stages", None)
        required = num_stages if stated is None else stated
    if not loads or required < 2:
        return function
    ahead = Lookahead.of(function, loop)
    if required > _MOST_STAGES:
        ahead = Refusal(f"{required} stages, of {_MOST_STAGES} at most")
    if isinstance(ahead, Refusal):
        remarks.extend(ahead.remark("TIR0653", "not pipelined", op.location) for op in loads)
        return function
    pipeliner = RegisterPipeliner(function, loop, ahead, required - 1)
    for op in loads:
        why = pipeliner.schedule(cast(Load, op))
        if why is not None:
            remarks.append(why.remark("TIR0653", "not pipelined", op.location))
    return pipeliner.apply() if pipeliner.loads else function


_MOST_STAGES = 256
"""The most iterations whose loads are issued before a loop: a GPU's thread has fewer registers."""


def _moving(op: Op) -> bool:
    return isinstance(op, Load) and not op.volatile and op.predicate is None
