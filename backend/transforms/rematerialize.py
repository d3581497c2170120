"""Rematerialization of index and address tiles in loops whose accumulators fill the registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks, definitions
from tileir.backend.codegen.lowering import REMATERIALIZED_BLOCKS
from tileir.backend.layouts.dot_layouts import mma_of
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.passes.cfg_edit import copy_op
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.types import Tile, Type, element_of
from tileir.values import Operand, Value

_MAX_DEPTH, _MAX_OPS = 32, 64
"""Limits of a rematerialized slice: its depth, and its number of ops."""


@pass_("rematerialize")
def rematerialize(function: Function) -> PassResult:
    """Rematerialize index tiles in loops of matrix instructions, and after them.

    The accumulators of a dot take most of a thread's registers. Index and mask tiles whose live
    ranges cross the loop would take many more. Integers, conditions and pointers that a few cheap
    ops compute from scalars are therefore recomputed in the blocks that use them. The kernel's
    attribute `recomputing` names these blocks; they read the thread index from its special
    register.

    before:
        define kernel void @matmul(f16* %a, f16* %b, f32* %c, i32 %n) {
        entry:
          %i = make_range i32<16>
          %r = expand_dims i32<16, 1> %i {axis = 1}
          %r16 = mul i32<16, 1> %r, i32<16, 1> 16
          %rows = broadcast i32<16, 16> %r16
          %k = expand_dims i32<1, 16> %i {axis = 0}
          %columns = broadcast i32<16, 16> %k
          %offs = add i32<16, 16> %rows, %columns
          %as = splat f16*<16, 16> %a
          %pa = getelementptr f16*<16, 16> %as, %offs
          %x = load f16<16, 16> %pa
          br loop
        loop:
          %step = phi i32 [0, entry], [%next, loop]
          %sum = phi f32<16, 16> [0.0, entry], [%total, loop]
          %bs = splat f16*<16, 16> %b
          %pb = getelementptr f16*<16, 16> %bs, %offs
          %y = load f16<16, 16> %pb
          %total = dot f32<16, 16> %x, %y, %sum
          %next = add i32 %step, 1
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          cond_br %more, loop, done
        done:
          %cs = splat f32*<16, 16> %c
          %pc = getelementptr f32*<16, 16> %cs, %offs
          store %pc, %total
          ret
        }
    after:
        define kernel void @matmul(f16* %a, f16* %b, f32* %c, i32 %n) {recomputing = ["loop", "done"]} {
        entry:
          %i = make_range i32<16>
          %r = expand_dims i32<16, 1> %i {axis = 1}
          %r16 = mul i32<16, 1> %r, 16
          %rows = broadcast i32<16, 16> %r16
          %k = expand_dims i32<1, 16> %i {axis = 0}
          %columns = broadcast i32<16, 16> %k
          %offs = add i32<16, 16> %rows, %columns
          %as = splat f16*<16, 16> %a
          %pa = getelementptr f16*<16, 16> %as, %offs
          %x = load f16<16, 16> %pa
          br loop
        loop:
          %step = phi i32 [0, entry], [%next, loop]
          %sum = phi f32<16, 16> [0.0, entry], [%total, loop]
          %bs = splat f16*<16, 16> %b
          %i.1 = make_range i32<16>
          %r.1 = expand_dims i32<16, 1> %i.1 {axis = 1}
          %r16.1 = mul i32<16, 1> %r.1, 16
          %rows.1 = broadcast i32<16, 16> %r16.1
          %k.1 = expand_dims i32<1, 16> %i.1 {axis = 0}
          %columns.1 = broadcast i32<16, 16> %k.1
          %offs.1 = add i32<16, 16> %rows.1, %columns.1
          %pb = getelementptr f16*<16, 16> %bs, %offs.1
          %y = load f16<16, 16> %pb
          %total = dot f32<16, 16> %x, %y, %sum
          %next = add i32 %step, 1
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          cond_br %more, loop, done
        done:
          %cs = splat f32*<16, 16> %c
          %i.2 = make_range i32<16>
          %r.2 = expand_dims i32<16, 1> %i.2 {axis = 1}
          %r16.2 = mul i32<16, 1> %r.2, 16
          %rows.2 = broadcast i32<16, 16> %r16.2
          %k.2 = expand_dims i32<1, 16> %i.2 {axis = 0}
          %columns.2 = broadcast i32<16, 16> %k.2
          %offs.2 = add i32<16, 16> %rows.2, %columns.2
          %pc = getelementptr f32*<16, 16> %cs, %offs.2
          store %pc, %total
          ret
        }
    """  # noqa: E501
    is_done = function.is_declaration or REMATERIALIZED_BLOCKS in function.attributes
    labels = () if is_done else tuple(_blocks_with_accumulators(function))
    if not labels:
        return PassResult(function)
    op_of, blocks = definitions(function), dict(function.blocks)
    for label in labels:
        blocks[label] = _rematerialize_in(blocks[label], op_of, defining_blocks(function))
    attributes = {**function.attributes, REMATERIALIZED_BLOCKS: labels}
    changed = function.with_blocks(blocks).evolve(attributes=attributes)
    return PassResult(dce(changed), (), {"blocks": len(labels)})


def _blocks_with_accumulators(function: Function) -> Iterator[str]:
    """Blocks of loops with dots by `mma`, and the blocks they dominate, in order."""
    tree = dominance(function)
    full = [loop for loop in loops(function).by_header.values() if _has_mma(function, loop)]
    for label in cfg(function).order:
        if any(tree.dominates(loop.header, label) for loop in full):
            yield label


def _has_mma(function: Function, loop: Loop) -> bool:
    ops = (op for label in loop.order for op in function.blocks[label].ops)
    return any(isinstance(op, Dot) and mma_of(op) is not None for op in ops)


def _rematerialize_in(
    block: Block, op_of: Mapping[Value, Op], block_of: Mapping[Value, str]
) -> Block:
    ops, env = list[Op](), dict[Value, Operand]()
    for op in block.ops:
        for operand in op.operands:
            if isinstance(operand, Value) and block_of[operand] != block.label:
                ops += _copies(operand, op_of, env) or ()
        ops.append(op.remap(env))
    return attrs.evolve(block, ops=tuple(ops))


def _copies(root: Value, op_of: Mapping[Value, Op], env: dict[Value, Operand]) -> list[Op] | None:
    """Copies of the ops that compute tile `root` from scalars; `env` maps old to new results. None
    where `root` cannot be rematerialized."""
    if root in env:
        return []
    slice_ = _backward_slice(root, op_of, env)
    return None if slice_ is None else [copy_op(op, env) for op in slice_]


def _backward_slice(root: Value, op_of: Mapping[Value, Op], env: Mapping[Value, Operand]) -> Any:
    """The ops between scalars and `root`, in order; None where one is expensive or where a value is
    a block parameter."""
    ops: dict[Op, None] = {}

    def take(value: Operand, depth: int) -> bool:
        if not isinstance(value, Value) or not isinstance(value.type, Tile) or value in env:
            return True
        op = op_of.get(value)
        if op is None or depth == _MAX_DEPTH or not _is_cheap(op):
            return False
        if op not in ops and not all(take(x, depth + 1) for x in op.operands):
            return False
        ops[op] = None
        return len(ops) <= _MAX_OPS

    return list(ops) if isinstance(root.type, Tile) and take(root, 0) else None


def _is_cheap(op: Op) -> bool:
    """Whether `op` computes integers, conditions or pointers with at most one instruction."""
    if op.effects is not Effects.PURE or not all(_is_not_float(v.type) for v in op.results):
        return False
    if not op.inputs or (op.moves_elements and op.mnemonic != "trans"):
        return True
    return op.elementwise and not op.divides and all(_is_not_float(v.type) for v in op.inputs)


def _is_not_float(type: Type) -> bool:
    return not element_of(type).is_float  # type: ignore[union-attr]
