"""Insertion of redundant layout conversions, which `remove-conversions` should remove."""

from __future__ import annotations

import random
from typing import Any, cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.backend.layouts.assign_layouts import with_layout
from tileir.field import FieldKind
from tileir.ir import Block, Function, Module
from tileir.layout import Layout
from tileir.layout_tilings import blocked_layout
from tileir.op import Op
from tileir.ops.gpu import ConvertLayout
from tileir.types import Tile
from tileir.values import Operand, Value

_PLAIN = frozenset({FieldKind.OPERAND, FieldKind.RESULT_TYPE, FieldKind.ATTRIBUTE})


def detour(module: Module, seed: int) -> Module:
    """`module`, whose tiles have layouts, with a third of its elementwise ops computed in another
    layout, and a sixth of all tiles converted to another layout and back. The same seed yields the
    same module."""
    kernel = module.kernel()
    chance = random.Random(seed)
    function = _Detours(chance, int(cast(int, kernel.attributes["num_warps"]))).function(kernel)
    return module.evolve(functions={**module.functions, kernel.name: function})


@attrs.define
class _Detours:
    chance: random.Random
    num_warps: int
    ops: list[Op] = attrs.field(factory=list)
    env: dict[Value, Operand] = attrs.field(factory=dict)

    def function(self, function: Function) -> Function:
        order = cfg(function).order
        return function.with_blocks({name: self._block(function.blocks[name]) for name in order})

    def _block(self, block: Block) -> Block:
        self.ops = []
        for op in block.ops:
            self._write(op.remap(self.env))
        return attrs.evolve(block, ops=tuple(self.ops))

    def _write(self, op: Op) -> None:
        kind = _tile_of(op)
        chance = self.chance.random()
        if kind is not None and _movable(op) and chance < 1 / 3:
            self._elsewhere(op, kind, self._other(kind))
            return
        self.ops.append(op)
        if kind is not None and chance > 5 / 6:
            self._there_and_back(op.results[0], _layout(kind), self._other(kind))

    def _elsewhere(self, op: Op, kind: Tile, other: Layout) -> None:
        """Append the op with its operands converted to the layout `other`, and its result converted
        back."""
        changes: dict[str, Any] = {}
        for field in op.schema:
            old = getattr(op, field.name)
            if field.kind is FieldKind.OPERAND:
                changes[field.name] = self._convert(old, other)
            elif field.kind is FieldKind.RESULT_TYPE:
                changes[field.name] = with_layout(old, other)
        result = op.evolve(**changes, results=())
        self.ops.append(result)
        self.env[op.results[0]] = self._convert(result.results[0], _layout(kind))

    def _there_and_back(self, value: Value, kind: Layout, other: Layout) -> None:
        self.env[value] = self._convert(self._convert(value, other), kind)

    def _convert(self, operand: Operand, layout: Layout) -> Operand:
        if not isinstance(operand.type, Tile):
            return operand
        self.ops.append(ConvertLayout(operand, layout=layout))
        return self.ops[-1].results[0]

    def _other(self, kind: Tile) -> Layout:
        order = list(range(len(kind.shape)))
        self.chance.shuffle(order)
        return blocked_layout(
            kind.shape, tuple(order), self.chance.choice((1, 2, 4)), self.num_warps
        )


def _tile_of(op: Op) -> Tile | None:
    """The type of the only result of an op, if that is a tile with a layout."""
    kind = op.results[0].type if len(op.results) == 1 else None
    return kind if isinstance(kind, Tile) and kind.layout is not None else None


def _layout(kind: Tile) -> Layout:
    return cast(Layout, kind.layout)


def _movable(op: Op) -> bool:
    kinds = {field.kind for field in op.schema}
    return op.elementwise and not op.effects and op.predicate is None and kinds <= _PLAIN
