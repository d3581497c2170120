"""Conversions between layouts that others make needless."""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.backend.layouts.assign_layouts import with_layout
from tileir.field import FieldKind
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
    """Remove conversions between layouts that are not needed.

        SAME       a conversion to the layout that a tile has is the tile
        CHAIN      of two conversions one after the other the second is enough
        LITERAL    a literal has any layout
        THROUGH    elementwise ops on tiles that were all converted from the layout their result
                   is converted to are computed there

    Conversions that nobody reads then go. Equal conversions are left to `cse`, those in loops to
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
    found = rewrite(function, {ConvertLayout.mnemonic: _converted})
    return function if found is function else dce(found)


def _converted(op: Op, walk: Walk) -> Answer:
    source: Operand = cast(Any, op).source
    wanted: Layout = cast(Any, op).layout
    if cast(Tile, source.type).layout == wanted:
        return source
    if isinstance(source, Constant):
        return Constant(op.results[0].type, source.bits)
    if isinstance(source, Undef):
        return Undef(op.results[0].type)
    made = walk.definition(source)
    if isinstance(made, ConvertLayout):
        return ConvertLayout(made.source, layout=wanted)
    work = _Remaking(wanted, walk)
    found = work.before(source, 0)
    if found is None:
        return op
    alone = work.ops[-1].results == (found,)  # then it takes over the name of the conversion
    return work.ops if alone else Replace((found,), tuple(work.ops))


@attrs.define
class _Remaking:
    """Makes a value in layout `wanted` without converting: `ops` are what makes it."""

    wanted: Layout
    walk: Walk
    ops: list[Op] = attrs.field(factory=list)
    known: dict[Value, Operand | None] = attrs.field(factory=dict)

    def before(self, operand: Operand, depth: int) -> Operand | None:
        """What `operand` was converted from, or is made of, in the layout; None where that would
        take a conversion."""
        if not isinstance(operand.type, Tile):
            return operand
        if not isinstance(operand, Value):
            return attrs.evolve(operand, type=self._laid_out(operand.type))
        if operand not in self.known:
            self.known[operand] = self._made(operand, depth)
        return self.known[operand]

    def _laid_out(self, kind: Tile) -> Tile:
        return Tile(kind.element, kind.shape, self.wanted)

    def _made(self, value: Value, depth: int) -> Operand | None:
        op = self.walk.definition(value)
        if isinstance(op, ConvertLayout) and cast(Tile, op.source.type).layout == self.wanted:
            return op.source
        if op is None or depth > _DEEPEST or not op.elementwise or op.effects or op.predicate:
            return None
        changes: dict[str, Any] = {}
        for field in op.schema:
            old = getattr(op, field.name)
            if field.kind is FieldKind.OPERAND:
                changes[field.name] = self.before(old, depth + 1)
                if changes[field.name] is None:
                    return None
            elif field.kind is FieldKind.RESULT_TYPE:
                changes[field.name] = with_layout(old, self.wanted)
            elif field.kind in (FieldKind.OPTIONAL, FieldKind.VARIADIC, FieldKind.PAIRS) and old:
                return None
        made = op.evolve(**changes, results=())
        self.ops.append(made)
        return made.results[op.results.index(value)]
