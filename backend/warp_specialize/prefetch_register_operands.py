"""Loads of what products take from registers, a round before it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks
from tileir.backend.software_pipeline.lookahead import Lookahead
from tileir.backend.warp_specialize.register_operands import other_uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.hopper import TmaStore, Wgmma
from tileir.ops.memory import Load
from tileir.passes.cfg_edit import add_preheader, copy_op, map_edges, with_arguments
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import Tile
from tileir.values import Operand, Value


@pass_("prefetch-register-operands")
def prefetch_register_operands(function: Function) -> PassResult:
    """Load what a product takes from registers while the product before it runs.

    In a loop that changes no memory, a load whose result becomes the first factor of a product is
    made a round before, behind that round's product, with what its address and mask need, tables
    that they are looked up in included; the first one before the loop. A load of a round that does
    not come is masked.

    before:
        stage "warp_specialized"

        define private void @math(f16* %x, i32* %t, f16 addrspace(3)* %b, i32 %n, f32*<64, 8> %p) {
        entry:
          %k = make_range i32<16>
          %q = expand_dims i32<1, 16> %k {axis = 0}
          %o = broadcast i32<64, 16> %q
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %sum = phi f32<64, 8> [0.0, entry], [%y, body]
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
          %z = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %sum
          %y = gpu.wgmma_wait f32<64, 8> %z
          %j = add i32 %i, 1
          br loop
        done:
          store %p, %sum
          ret
        }
    after:
        stage "warp_specialized"

        define private void @math(f16* %x, i32* %t, f16 addrspace(3)* %b, i32 %n, f32*<64, 8> %p) {
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
          %sum = phi f32<64, 8> [0.0, entry], [%y, body]
          %i.1 = phi i32 [%j, entry], [%j.1, body]
          %valid = phi i1 [%more, entry], [%1, body]
          %a.1 = phi f16<64, 16> [%a, entry], [%a.2, body]
          %more.1, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more.1, body, done
        body:
          %z = gpu.wgmma f32<64, 8> %a.1, 0, %b, 0, %sum
          %more.2, _ = icmp (i1, i1) %i.1, %n {predicate = slt}
          %j.1 = add i32 %i.1, 1
          %1 = and i1 %valid, %more.2
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
          store %p, %sum
          ret
        }
    """
    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        loop = loops(function).by_header.get(header)
        found = [] if loop is None else list(_found(function, loop))
        if loop is not None and found:
            made = _Early(function, loop)
            taken = [load for load in found if made.add(load, reads=True) is None]
            if taken:
                function, count = made.applied(taken), count + len(taken)
    return PassResult(function, (), {"loads made early": count} if count else {})


def _found(function: Function, loop: Loop) -> Iterator[Load]:
    """The loads of a loop that become first factors of products, of its first block with such."""
    if loop.latch is None or len(loop.exits) != 1 or not _keeps_memory(function, loop):
        return
    leaves = loop.exits[0][0] in (loop.latch, loop.header)
    if not leaves or isinstance(Lookahead.of(function, loop), Refusal):
        return
    innermost = loops(function).innermost
    for label in loop.order:
        ops = function.blocks[label].ops
        loads = [op for op in ops if isinstance(op, Load) and _plain(op)]
        found = [op for op in loads if _becomes_factor(function, op, ops)]
        if found and innermost[label] == loop.header:
            yield from found
            return


def _plain(op: Load) -> bool:
    return not op.volatile and op.predicate is None and isinstance(op.result.type, Tile)


def _becomes_factor(function: Function, load: Load, block: Sequence[Op]) -> bool:
    """Whether all that ops on registers make of a load are first factors of products of `block`."""
    ends = list(other_uses(function, load.result))
    return bool(ends) and all(isinstance(e, Wgmma) and e.a is v and e in block for e, v in ends)


def _keeps_memory(function: Function, loop: Loop) -> bool:
    """Whether nothing in a loop changes what loads read; barriers and copies of roles concern
    shared memory alone."""
    changing = (Effects.WRITE | Effects.SYNC | Effects.OUTSIDE).value
    return not any(
        isinstance(op, TmaStore)
        or (op.effects.value & changing and not op.mnemonic.startswith("gpu."))
        for label in loop.blocks
        for op in function.blocks[label].ops
    )


class _Early(Lookahead):
    """A copy of what loads of a loop depend on, one round ahead: other loads, too."""

    def __init__(self, function: Function, loop: Loop) -> None:
        super().__init__(function, loop)
        self.take([self.condition])
        self.first = frozenset(self.slice)
        """What the loop's condition needs."""

    def applied(self, taken: list[Load]) -> Function:
        """The function with loads `taken` made a round before."""
        function, before = self.function, self.loop.preheader
        if before is None:
            function, before = add_preheader(function, self.loop.header, self.loop.blocks)
        held = tuple(Value(load.result.type, load.result.name) for load in taken)
        blocks = dict(function.blocks)
        entering, ops = blocks[before], list(blocks[before].ops[:-1])
        given = self._round(self.entering(entering), None, taken, ops)
        blocks[before] = attrs.evolve(
            entering, ops=(*ops, self._passing(entering.terminator, given))
        )
        header = blocks[self.loop.header]
        parameters = (*header.parameters, *self.parameters, *held)
        blocks[self.loop.header] = attrs.evolve(header, parameters=parameters)
        home = defining_blocks(function)[taken[0].result]
        blocks[home], given = self._within(blocks[home], taken)
        last = blocks[self.latch]
        passing = self._passing(last.terminator, given)
        blocks[self.latch] = attrs.evolve(last, ops=(*last.ops[:-1], passing))
        env = dict(zip((load.result for load in taken), held, strict=True))
        inside = {n: blocks[n] for n in self.loop.blocks}
        for name, block in inside.items():
            blocks[name] = attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))
        return dce(function.with_blocks(blocks))

    def _within(self, block: Block, taken: list[Load]) -> tuple[Block, list[Operand]]:
        """The block of the loads, the next ones begun behind its first product."""
        state, valid = self.carried_state()
        ops: list[Op] = []
        given: list[Operand] = []
        for op in block.ops:
            if op not in taken:
                ops.append(op)
            if isinstance(op, Wgmma) and not given:
                given = self._round(state, valid, taken, ops)
        return attrs.evolve(block, ops=tuple(ops)), given

    def _round(
        self, state: dict[Value, Operand], valid: Operand | None, taken: list[Load], ops: list[Op]
    ) -> list[Operand]:
        """The loads of the round that begins with `state`; what is passed on for `parameters` and
        them."""
        env, rest = dict(state), list(self.in_order())
        conditions = [op for op in rest if op in self.first]
        ops += [copy_op(op, env) for op in conditions]
        if self.tested_first:
            valid = self.both(valid, env, ops)
        for op in (x for x in rest if x not in self.first):
            ops.append(self._copied(op, env, valid, ops))
        loads = [self._copied(op, env, valid, ops) for op in taken]
        ops += loads
        if not self.tested_first:
            valid = self.both(valid, env, ops)
        return [*self.header_arguments(self.advance(env), valid), *(x.results[0] for x in loads)]

    def _copied(
        self, op: Op, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> Op:
        """A copy of `op` for a round that runs if `valid`."""
        if not isinstance(op, Load):
            return copy_op(op, env)
        mask = self.mask(op, env, valid, ops)
        return attrs.evolve(cast(Load, copy_op(op, env)), mask=mask)

    def _passing(self, terminator: Op, given: list[Operand]) -> Op:
        header = self.loop.header
        return map_edges(terminator, lambda e: with_arguments(e, given) if e.label == header else e)
