"""Prefetch register operands: load them one iteration early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks
from tileir.backend.tma.register_operands import other_uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.hopper import TmaStore, Wgmma
from tileir.ops.memory import Load
from tileir.passes.cfg_edit import copy_op
from tileir.passes.dce import dce
from tileir.passes.lookahead import Lookahead
from tileir.passes.loop_pipeliner import LoopPipeliner
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import Tile
from tileir.values import Operand, Value


@pass_("prefetch-register-operands")
def prefetch_register_operands(function: Function) -> PassResult:
    """Load the register operands of a matmul while the previous matmul is in flight.

    The pass applies to loops that do not write global memory. A load from which operand A of a
    `wgmma` is computed is moved one iteration ahead, after the `wgmma` of that iteration. The ops
    that compute its address and mask move with it, including loads from lookup tables. The first
    load is issued before the loop. The load for an iteration that does not run is masked.

    before:
        stage "warp_specialized"

        define private void @consumer(f16* %x, i32* %t, f16 addrspace(3)* %b, i32 %n, f32*<64, 8> %p) {
        entry:
          %k = make_range i32<16>
          %q = expand_dims i32<1, 16> %k {axis = 0}
          %o = broadcast i32<64, 16> %q
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %acc = phi f32<64, 8> [0.0, entry], [%y, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          %pt = getelementptr i32* %t, %i
          %d = load i32 %pt
          %ds = splat i32<64, 16> %d
          %at = add i32<64, 16> %o, %ds
          %xs = splat f16*<64, 16> %x
          %px = getelementptr f16*<64, 16> %xs, %at
          %a = load f16<64, 16> %px
          %z = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %acc
          %y = gpu.wgmma_wait f32<64, 8> %z
          %j = add i32 %i, 1
          br loop
        done:
          store %p, %acc
          ret
        }
    after:
        stage "warp_specialized"

        define private void @consumer(f16* %x, i32* %t, f16 addrspace(3)* %b, i32 %n, f32*<64, 8> %p) {
        entry:
          %k = make_range i32<16>
          %q = expand_dims i32<1, 16> %k {axis = 0}
          %o = broadcast i32<64, 16> %q
          %more, _ = icmp (i1, i1) 0, %n {predicate = slt}
          %j = add i32 0, 1
          %pt = getelementptr i32* %t, i32 0
          %d = load i32 %pt, %more
          %ds = splat i32<64, 16> %d
          %at = add i32<64, 16> %o, %ds
          %xs = splat f16*<64, 16> %x
          %px = getelementptr f16*<64, 16> %xs, %at
          %0 = splat i1<64, 16> %more
          %a = load f16<64, 16> %px, %0
          br loop
        loop:
          %i = phi i32 [0, entry], [%j.2, body]
          %acc = phi f32<64, 8> [0.0, entry], [%y, body]
          %i.1 = phi i32 [%j, entry], [%j.1, body]
          %valid = phi i1 [%more, entry], [%1, body]
          %a.1 = phi f16<64, 16> [%a, entry], [%a.2, body]
          %more.1, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more.1, body, done
        body:
          %z = gpu.wgmma f32<64, 8> %a.1, 0, %b, 0, %acc
          %more.2, _ = icmp (i1, i1) %i.1, %n {predicate = slt}
          %j.1 = add i32 %i.1, 1
          %1 = select i1 %valid, %more.2, false
          %pt.1 = getelementptr i32* %t, %i.1
          %d.1 = load i32 %pt.1, %1
          %ds.1 = splat i32<64, 16> %d.1
          %at.1 = add i32<64, 16> %o, %ds.1
          %xs.1 = splat f16*<64, 16> %x
          %px.1 = getelementptr f16*<64, 16> %xs.1, %at.1
          %2 = splat i1<64, 16> %1
          %a.2 = load f16<64, 16> %px.1, %2
          %y = gpu.wgmma_wait f32<64, 8> %z
          %j.2 = add i32 %i, 1
          br loop
        done:
          store %p, %acc
          ret
        }
    """  # noqa: E501
    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        loop = loops(function).by_header.get(header)
        candidates = [] if loop is None else list(_find_loads(function, loop))
        ahead = Lookahead.of(function, loop) if loop is not None and candidates else None
        if loop is None or ahead is None or isinstance(ahead, Refusal):
            continue
        prefetcher = _Prefetcher(function, loop, ahead)
        prefetcher.loads += [x for x in candidates if ahead.add(x, reads=True) is None]
        if prefetcher.loads:
            function, count = prefetcher.apply(), count + len(prefetcher.loads)
    return PassResult(function, (), {"loads prefetched": count} if count else {})


def _find_loads(function: Function, loop: Loop) -> Iterator[Load]:
    """The loads of a loop that feed only operands A, of the first block that has any."""
    if not _leaves_memory_unchanged(function, loop):
        return
    innermost = loops(function).innermost
    for label in loop.order:
        ops = function.blocks[label].ops
        loads = [op for op in ops if isinstance(op, Load) and _is_plain(op)]
        matching = [op for op in loads if _feeds_only_operand_a(function, op, ops)]
        if matching and innermost[label] == loop.header:
            yield from matching
            return


def _is_plain(op: Load) -> bool:
    return not op.volatile and op.predicate is None and isinstance(op.result.type, Tile)


def _feeds_only_operand_a(function: Function, load: Load, block: Sequence[Op]) -> bool:
    """Whether all values computed from a load are operands A of `wgmma` ops of `block`."""
    ends = list(other_uses(function, load.result))
    return bool(ends) and all(isinstance(e, Wgmma) and e.a is v and e in block for e, v in ends)


def _leaves_memory_unchanged(function: Function, loop: Loop) -> bool:
    """Whether no op of a loop writes global memory. Barriers and TMA loads affect shared memory
    only."""
    changing = (Effects.WRITE | Effects.SYNC | Effects.OUTSIDE).value
    return not any(
        isinstance(op, TmaStore)
        or (op.effects.value & changing and not op.mnemonic.startswith("gpu."))
        for label in loop.blocks
        for op in function.blocks[label].ops
    )


class _Prefetcher(LoopPipeliner):
    """A loop whose loads run one iteration ahead, after its first `wgmma`, with what their
    addresses and masks depend on, other loads included."""

    def __init__(self, function: Function, loop: Loop, ahead: Lookahead) -> None:
        super().__init__(function, loop, ahead)
        self.condition = frozenset(ahead.slice)
        """The ops that the condition of the loop depends on."""
        self.loads: list[Load] = []

    def before_loop(self, blocks: dict[str, Block], label: str) -> None:
        block, ops = blocks[label], list(blocks[label].ops[:-1])
        arguments = self._emit_iteration(self.ahead.entering(block), None, ops)
        blocks[label] = self.pass_to_header(block, ops, arguments)

    def in_loop(self, blocks: dict[str, Block]) -> None:
        prefetched = tuple(Value(load.result.type, load.result.name) for load in self.loads)
        header = blocks[self.loop.header]
        parameters = (*header.parameters, *self.ahead.parameters, *prefetched)
        blocks[self.loop.header] = attrs.evolve(header, parameters=parameters)
        label = defining_blocks(self.function)[self.loads[0].result]
        blocks[label], arguments = self._prefetch_in_block(blocks[label])
        last = blocks[self.ahead.latch]
        blocks[self.ahead.latch] = self.pass_to_header(last, last.ops[:-1], arguments)
        env = dict(zip((load.result for load in self.loads), prefetched, strict=True))
        inside = {n: blocks[n] for n in self.loop.blocks}
        for name, block in inside.items():
            blocks[name] = attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))

    def clean_up(self, function: Function) -> Function:
        return dce(function)

    def _prefetch_in_block(self, block: Block) -> tuple[Block, list[Operand]]:
        """The block of the loads, with the next loads after its first `wgmma`."""
        state, valid = self.ahead.carried_state()
        ops: list[Op] = []
        arguments: list[Operand] = []
        for op in block.ops:
            if op not in self.loads:
                ops.append(op)
            if isinstance(op, Wgmma) and not arguments:
                arguments = self._emit_iteration(state, valid, ops)
        return attrs.evolve(block, ops=tuple(ops)), arguments

    def _emit_iteration(
        self, state: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> list[Operand]:
        """Emit the loads of the iteration that starts with `state`. Returns the arguments for the
        parameters of the header."""
        ahead = self.ahead
        env, in_order = dict(state), ahead.in_order()
        ops += [copy_op(op, env) for op in in_order if op in self.condition]
        if ahead.tested_first:
            valid = ahead.conjunction(valid, env, ops)
        for op in (x for x in in_order if x not in self.condition):
            ops.append(self._copy(op, env, valid, ops))
        copies = [self._copy(op, env, valid, ops) for op in self.loads]
        ops += copies
        if not ahead.tested_first:
            valid = ahead.conjunction(valid, env, ops)
        return [*ahead.header_arguments(ahead.advance(env), valid), *(x.results[0] for x in copies)]

    def _copy(self, op: Op, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]) -> Op:
        """A copy of `op` for an iteration that runs if `valid`."""
        if not isinstance(op, Load):
            return copy_op(op, env)
        mask = self.ahead.mask(op, env, valid, ops)
        return attrs.evolve(cast(Load, copy_op(op, env)), mask=mask)
