"""Removal of redundant conversions between layouts."""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.backend.layouts.assign_layouts import in_layout
from tileir.field import SEVERAL, FieldKind
from tileir.ir import Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.ops.gpu import ConvertLayout
from tileir.passes.dce import dce
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Walk, rewrite
from tileir.types import Tile
from tileir.values import Constant, Operand, Undef, Value

_DEEPEST = 16
"""Elementwise ops in a row that are looked through."""


@pass_("remove-conversions")
def remove_conversions(function: Function) -> Function:
    """Remove redundant layout conversions.

    - A conversion to the layout of its source is replaced by the source.
    - The first of two consecutive conversions is bypassed.
    - A literal takes the target layout itself.
    - An elementwise op whose operands were all converted from the target layout of its result is
      computed in that layout.

    Unused conversions are removed. Equal conversions are left to `cse`, conversions in loops to
    `licm`.

    before:
        stage "layouts"
        #a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]])
        #b = layout(rank = 1, lane = [[16], [8], [4], [2], [1]])
        define void @f(f32<32, #a> %x, f32*<32, #a> %p) {
        entry:
          %y = gpu.convert_layout f32<32, #b> %x {layout = #b}
          %z = fmul f32<32, #b> %y, 2.0
          %w = gpu.convert_layout f32<32, #a> %z {layout = #a}
          store %p, %w
          ret
        }
    after:
        stage "layouts"
        #a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]])
        define void @f(f32<32, #a> %x, f32*<32, #a> %p) {
        entry:
          %w = fmul f32<32, #a> %x, 2.0
          store %p, %w
          ret
        }
    """
    rewritten = rewrite(function, {ConvertLayout.mnemonic: _simplify_conversion})
    return function if rewritten is function else dce(rewritten)


def _simplify_conversion(op: Op, walk: Walk) -> Answer:
    source: Operand = cast(Any, op).source
    target: Layout = cast(Any, op).layout
    if cast(Tile, source.type).layout == target:
        return source
    if isinstance(source, Constant):
        return Constant(op.results[0].type, source.bits)
    if isinstance(source, Undef):
        return Undef(op.results[0].type)
    defining_op = walk.definition(source)
    if isinstance(defining_op, ConvertLayout):
        return ConvertLayout(defining_op.source, layout=target)
    work = _Remaking(target, walk)
    value = work.before(source, 0)
    if value is None:
        return op
    alone = work.ops[-1].results == (value,)  # it gets the name of the conversion
    return work.ops if alone else Replace((value,), tuple(work.ops))


@attrs.define
class _Remaking:
    """Rematerializes a value in layout `layout` without a conversion; `ops` are the new ops."""

    layout: Layout
    walk: Walk
    ops: list[Op] = attrs.field(factory=list)
    rematerialized: dict[Value, Operand | None] = attrs.field(factory=dict)

    def before(self, value: Value, depth: int) -> Operand | None:
        """`value` in the layout, as it was before a conversion or rematerialized; None where that
        would take a conversion."""
        if not isinstance(value.type, Tile):
            return value
        if value not in self.rematerialized:
            self.rematerialized[value] = self._rematerialize(value, depth)
        return self.rematerialized[value]

    def _rematerialize(self, value: Value, depth: int) -> Operand | None:
        op = self.walk.definition(value)
        if isinstance(op, ConvertLayout) and cast(Tile, op.source.type).layout == self.layout:
            return op.source
        if op is None or depth > _DEEPEST or not op.elementwise or op.effects or op.predicate:
            return None
        if any(getattr(op, field.name) for field in op.fields(FieldKind.OPTIONAL, *SEVERAL)):
            return None
        operands: dict[Value, Operand] = {}
        for old in op.inputs:
            if isinstance(old, Value):
                new = self.before(old, depth + 1)
                if new is None:
                    return None
                operands[old] = new
        new_op = in_layout(op, self.layout, operands)
        self.ops.append(new_op)
        return new_op.results[op.results.index(value)]
