"""Dots by warpgroups whose operands threads store to shared memory: those that no copies feed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import attrs

from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend.codegen.emit.shared_tile import SharedTile
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.wgmma import WARPS
from tileir.backend.software_pipeline.store_plan import Stored, plan_block
from tileir.backend.software_pipeline.warpgroup_dots import fits, is_computed, panel_layout
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import BlockBarrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, Wgmma, WgmmaWait
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.types import I32, AddressSpace, Pointer, Tile
from tileir.values import Operand, Value, constant


def multiply_stored_operands(function: Function, warps: int, shared: int) -> Function:
    """Let `warps` warps compute dots as warpgroups from operands that they store to shared memory.

    B is stored, and A where it was loaded; what is computed of A stays in registers. Operands of
    the later dots of a block that are there at the first one are stored with its own, under one
    barrier. Dots of loops into which `cp.async` copies, and those for whose operands `shared`
    bytes do not suffice, stay.
    """
    if warps % WARPS:
        return function
    writer = _Operands(function, warps)
    blocks = dict(function.blocks)
    for label in writer.eligible():
        blocks[label] = writer.in_block(function.blocks[label], shared)
    if blocks == function.blocks:
        return function
    first = next(iter(blocks))
    entry = blocks[first]
    blocks[first] = attrs.evolve(entry, ops=(*writer.buffers, *entry.ops))
    return function.with_blocks(blocks)


@attrs.frozen(eq=False)
class _Stored:
    """An operand in shared memory: what is stored, how, and whether it is the transposed one."""

    value: Operand
    place: SharedTile
    transposed: bool

    @property
    def key(self) -> Stored:
        return self.value, self.place


@attrs.frozen(eq=False)
class _WgmmaDot:
    """A dot by warpgroups; `a` is None where it stays in registers."""

    dot: Dot
    a: _Stored | None
    b: _Stored


class _Operands:
    def __init__(self, function: Function, warps: int) -> None:
        self.function, self.warps = function, warps
        self.origin, self.widths = definitions(function), AccessWidths(function)
        self.buffers: list[SharedAlloc] = []

    def eligible(self) -> Iterator[str]:
        """Blocks with dots, less those of loops that copies run ahead of."""
        copied = {
            header
            for header, loop in loops(self.function).by_header.items()
            if any(
                op.mnemonic == "gpu.async_copy"
                for label in loop.blocks
                for op in self.function.blocks[label].ops
            )
        }
        innermost = loops(self.function).innermost
        for label, block in self.function.blocks.items():
            if innermost.get(label) not in copied and any(isinstance(x, Dot) for x in block.ops):
                yield label

    def in_block(self, block: Block, shared: int) -> Block:
        """The block with its dots by warpgroups, as far as `shared` bytes hold their operands."""
        by_dot = {op: x for op in block.ops if isinstance(op, Dot) and (x := self._wgmma_dot(op))}
        needed = {dot: [y for y in (x.a, x.b) if y is not None] for dot, x in by_dot.items()}
        operands = {x.key: x for each in needed.values() for x in each}
        keys: dict[Op, list[Stored]] = {dot: [x.key for x in each] for dot, each in needed.items()}
        planned = plan_block(block, keys, shared)
        stored: dict[Stored, SharedAlloc] = {}
        result: list[Op] = []
        for op in block.ops:
            stores = planned.get(op)
            if stores is None:
                result.append(op)
                continue
            if stores:
                if block.label in loops(self.function).innermost:
                    result.append(BlockBarrier())  # the wgmmas before have read the buffers
                for key in stores:
                    self._store(operands[key], stored, result)
                result += [AsyncFence(), BlockBarrier()]
            result += self._wgmma(by_dot[cast(Dot, op)], stored)
        return attrs.evolve(block, ops=tuple(result))

    def _wgmma_dot(self, dot: Dot) -> _WgmmaDot | None:
        if not is_computed(dot, self.warps):
            return None
        b = self._stored_operand(dot, "b")
        a = self._stored_operand(dot, "a") if self._is_loaded(dot.a) else None
        return None if b is None else _WgmmaDot(dot, a, b)

    def _stored_operand(self, dot: Dot, name: str) -> _Stored | None:
        """The operand as matrix descriptors can describe it once it is stored: along the dimension
        in which its elements were contiguous, where possible; None where they cannot."""
        operand: Operand = getattr(dot, name)
        op = self._origin_of(operand)
        transposed = isinstance(op, Trans) and tuple(op.order) == (1, 0)
        value = op.value if isinstance(op, Trans) and transposed else operand
        kind = cast(Tile, value.type)
        source = self._origin_of(value)
        fast = self.widths.nearest(source.pointer) if isinstance(source, Load) else 1
        for along in (fast, 1 - fast):
            place = panel_layout(kind.element, kind.shape, along)
            if place is not None and fits(dot, name, (place, transposed), self.warps):
                return _Stored(value, place, transposed)
        return None

    def _origin_of(self, operand: Operand) -> Op | None:
        return self.origin.get(operand) if isinstance(operand, Value) else None

    def _is_loaded(self, operand: Operand) -> bool:
        op = self._origin_of(operand)
        if isinstance(op, Trans):
            op = self._origin_of(op.value)
        return isinstance(op, Load)

    def _store(self, x: _Stored, stored: dict[Stored, SharedAlloc], ops: list[Op]) -> None:
        """Store an operand."""
        place = x.place
        buffer = SharedAlloc(
            Pointer(place.element, AddressSpace.SHARED), shape=(1, *place.shape), fast=place.fast,
            swizzle=place.swizzle, panel=place.panel,
        )  # fmt: skip
        stored[x.key] = buffer
        self.buffers.append(buffer)
        ops.append(LocalStore(x.value, buffer.results[0], constant(I32, 0)))

    def _wgmma(self, operands: _WgmmaDot, stored: dict[Stored, SharedAlloc]) -> list[Op]:
        dot, a, b, none = operands.dot, operands.a, operands.b, constant(I32, 0)
        wgmma = Wgmma(
            dot.a if a is None else stored[a.value, a.place].results[0], none,
            stored[b.value, b.place].results[0], none, dot.c,
            trans_a=a is not None and a.transposed, trans_b=b.transposed,
            lhs_signed=dot.lhs_signed, rhs_signed=dot.rhs_signed, location=dot.location,
        )  # fmt: skip
        return [wgmma, WgmmaWait(wgmma.results[0], results=dot.results, location=dot.location)]
