"""Merging of conversions: if an op combines a converted tile with another one and its result is
converted back, the other operand is converted instead. One conversion replaces two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from tileir.analysis.uses import definitions, uses
from tileir.backend.layouts.assign_layouts import in_layout
from tileir.field import SEVERAL, FieldKind
from tileir.ir import Block, Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.ops.gpu import ConvertLayout
from tileir.types import Tile
from tileir.values import Operand, Value

_MOST_ITERATIONS = 8
"""Elementwise ops in a row that a conversion may move before."""


def merge_conversions(function: Function) -> Function:
    """Compute an elementwise op whose result is converted in the target layout of that conversion,
    if all operands but one have been converted from that layout.

    before:
        %y = gpu.convert_layout f16<64, 64, #dot> %x {layout = #dot}
        %sum = fadd f16<64, 64, #dot> %y, %dot
        %z = gpu.convert_layout f16<64, 64, #rows> %sum {layout = #rows}
    after:
        %y = gpu.convert_layout f16<64, 64, #rows> %dot {layout = #rows}
        %z = fadd f16<64, 64, #rows> %x, %y

    The operand that is converted has no more bits than the result, and nothing else uses what was
    converted.
    """
    for _ in range(_MOST_ITERATIONS):
        if sum(isinstance(op, ConvertLayout) for op in function.ops) < 2:
            break
        merger = _ConversionMerger(uses(function), definitions(function))
        blocks = {label: merger.merge(block) for label, block in function.blocks.items()}
        if all(blocks[label] is block for label, block in function.blocks.items()):
            break
        function = function.with_blocks(blocks)
    return function


@attrs.frozen
class _ConversionMerger:
    readers: Mapping[Value, Any]
    made_by: Mapping[Value, Op]

    def merge(self, block: Block) -> Block:
        here, replaced = set(block.ops), dict[Op, tuple[Op, ...]]()
        for op in block.ops:
            if isinstance(op, ConvertLayout) and op.predicate is None:
                merged = self._merge_at(op, here)
                if merged.keys().isdisjoint(replaced):
                    replaced.update(merged)
                    here -= merged.keys()
        if not replaced:
            return block
        return attrs.evolve(
            block, ops=tuple(new for op in block.ops for new in replaced.get(op, (op,)))
        )

    def _merge_at(self, last: ConvertLayout, here: set[Op]) -> dict[Op, tuple[Op, ...]]:
        """The ops that replace `last`, what it converts, and the conversions of the operands of
        that; empty if nothing is saved."""
        source = last.source
        computed = self._definition(source, here)
        if computed is None or not computed.elementwise or computed.effects or computed.predicate:
            return {}
        if len(computed.results) != 1 or not self._is_used_once(source):
            return {}
        if any(getattr(computed, f.name) for f in computed.fields(FieldKind.OPTIONAL, *SEVERAL)):
            return {}
        layout, before, others = last.layout, dict[Value, Operand](), list[Value]()
        for operand in dict.fromkeys(v for v in computed.operands if type(v) is Value):
            first = self._definition(operand, here)
            if isinstance(first, ConvertLayout) and _layout(first.source) == layout:
                before[operand] = first.source
            elif isinstance(operand.type, Tile):
                others.append(operand)
        if len(others) != 1 or not any(map(self._is_used_once, before)):
            return {}
        if _bits(others[0]) > _bits(source):
            return {}
        converted = ConvertLayout(others[0], layout=layout)
        before[others[0]] = converted.results[0]
        removed = [self.made_by[v] for v in before if v is not others[0] and self._is_used_once(v)]
        moved = attrs.evolve(in_layout(computed, layout, before), results=last.results)
        return {**dict.fromkeys((*removed, computed), ()), last: (converted, moved)}

    def _definition(self, operand: Operand, here: set[Op]) -> Op | None:
        op = self.made_by.get(operand) if type(operand) is Value else None
        return op if op in here else None

    def _is_used_once(self, value: Operand) -> bool:
        return len(self.readers.get(cast(Value, value), ())) == 1


def _layout(operand: Operand) -> Layout | None:
    return operand.type.layout if isinstance(operand.type, Tile) else None


def _bits(operand: Operand) -> int:
    return cast(Any, cast(Tile, operand.type).element).bits
