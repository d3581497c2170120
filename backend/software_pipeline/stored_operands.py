"""Dots by warpgroups whose operands threads store to shared memory, because no asynchronous copy
loads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import attrs

from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, is_invariant, loops
from tileir.analysis.uses import definitions
from tileir.backend.layouts.wgmma import WARPS
from tileir.backend.live_registers import ThreadRegisters
from tileir.backend.software_pipeline.promoted_wgmma import wgmma_and_wait
from tileir.backend.software_pipeline.store_operands import DotRewriter, store_operands
from tileir.backend.software_pipeline.store_plan import (
    Buffers,
    Stored,
    StoredOperand,
    blocks_with_dots,
)
from tileir.backend.software_pipeline.warpgroup_dots import (
    contiguous_dimension,
    is_computed,
    panels_that_fit,
)
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import BlockBarrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, Wgmma
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.types import I32, Tile
from tileir.values import Operand, Value, constant


def multiply_stored_operands(
    function: Function, warps: int, shared: int, copies: ThreadRegisters | None = None
) -> Function:
    """Compute dots by warpgroups, `warps` warps in all, from operands that threads store to shared
    memory.

    B is stored, and A where it was loaded or is a transpose; other A stay in registers. Operands of
    the later dots of a block that are there at the first one are stored with its own, under one
    barrier. Operands that a loop does not change are stored before it, as far as half of `shared`
    bytes hold them, and take no registers in it. If the registers `copies` hold the program,
    operands that are loaded for dots alone are copied asynchronously outside of loops. Dots in
    loops with `cp.async` copies, and dots whose operands exceed `shared` bytes, are not changed.
    """
    if warps % WARPS:
        return function
    writer = _Operands(function, warps, copies)
    blocks = dict(function.blocks)
    labels = list(blocks_with_dots(function))
    for label in labels:
        writer.store_before_loops(function.blocks[label], shared // 2)
    for label in labels:
        blocks[label] = writer.in_block(function.blocks[label], shared)
    if blocks == function.blocks:
        return function
    for label, ops in writer.before_loops():
        block = blocks[label]
        blocks[label] = attrs.evolve(block, ops=(*block.ops[:-1], *ops, block.terminator))
    first = next(iter(blocks))
    entry = blocks[first]
    blocks[first] = attrs.evolve(entry, ops=(*writer.buffers, *entry.ops))
    return function.with_blocks(blocks)


@attrs.frozen(eq=False)
class _WgmmaDot:
    """A dot by warpgroups; `a` is None where it stays in registers."""

    dot: Dot
    a: StoredOperand | None
    b: StoredOperand


class _Operands:
    def __init__(self, function: Function, warps: int, copies: ThreadRegisters | None) -> None:
        self.function, self.warps, self.copies = function, warps, copies
        self.origin = definitions(function)
        self.buffers: list[SharedAlloc] = []
        self.fixed: dict[tuple[str, Stored], SharedAlloc] = {}
        """Operands that are stored before a loop, by the block that leads to it."""
        self.readers: dict[SharedAlloc, set[str]] = {}
        """The blocks of the loops that read them."""
        self.by_block: dict[str, dict[Dot, _WgmmaDot]] = {}
        self.before: dict[str, Buffers] = {}

    def store_before_loops(self, block: Block, most: int) -> None:
        """Store operands of the block's dots before a loop, `most` bytes in the whole function."""
        by_dot = {op: x for op in block.ops if isinstance(op, Dot) and (x := self._wgmma_dot(op))}
        keys = [x.key for each in by_dot.values() for x in (each.a, each.b) if x is not None]
        self.by_block[block.label] = by_dot
        self.before[block.label] = self._stored_before(block.label, keys, most)

    def in_block(self, block: Block, shared: int) -> Block:
        """The block with its dots by warpgroups, as far as `shared` bytes hold their operands and
        those that were stored before a loop around it."""
        by_dot, before = self.by_block[block.label], self.before[block.label]
        needed = {dot: [y for y in (x.a, x.b) if y is not None] for dot, x in by_dot.items()}

        def multiply(dot: Dot, stored: Buffers) -> list[Op]:
            return _multiply(by_dot[dot], stored)

        rewriter = DotRewriter(self._at_entry, lambda: (AsyncFence(),), multiply)
        bytes_ = sum(
            key[1].bytes
            for (_, key), buffer in self.fixed.items()
            if block.label in self.readers[buffer]
        )
        return store_operands(
            self.function, block, needed, shared - bytes_, rewriter,
            copies=self.copies, before=before,
        )  # fmt: skip

    def before_loops(self) -> Iterator[tuple[str, list[Op]]]:
        """The operands that are stored at the end of a block, by block."""
        by_block: dict[str, list[Op]] = {}
        for (label, (value, _)), buffer in self.fixed.items():
            store = LocalStore(value, buffer.results[0], constant(I32, 0))
            by_block.setdefault(label, []).append(store)
        for label, stores in by_block.items():
            is_repeated = label in loops(self.function).innermost
            # Earlier dots may still read the buffers.
            first: list[Op] = [BlockBarrier()] if is_repeated else []
            yield label, [*first, *stores, AsyncFence(), BlockBarrier()]

    def _stored_before(self, label: str, keys: Iterable[Stored], most: int) -> Buffers:
        """The buffers of those operands `keys` of block `label` that are stored before a loop."""
        result: dict[Stored, Value] = {}
        for key in dict.fromkeys(keys):
            for (place, stored), buffer in self.fixed.items():
                if stored == key and dominance(self.function).dominates(place, label):
                    result[key] = buffer.results[0]
                    if label not in self.readers[buffer]:  # what comes between keeps it, too
                        self.readers[buffer].update(self.function.blocks)
            loop = self._loop_to_store_before(label, key[0])
            size = sum(stored.bytes for _, (_, stored) in self.fixed)
            if key in result or loop is None or size + key[1].bytes > most:
                continue
            self.fixed[cast(str, loop.preheader), key] = buffer = key[1].allocate()
            self.buffers.append(buffer)
            self.readers[buffer] = {*loop.blocks}
            result[key] = buffer.results[0]
        return result

    def _loop_to_store_before(self, label: str, operand: Operand) -> Loop | None:
        """The outermost loop around block `label` that does not change `operand` and that one
        block leads to; None where there is none."""
        around, result = loops(self.function), None
        loop = around.around(label)
        while loop is not None and is_invariant(self.function, loop, operand):
            result = result if loop.preheader is None else loop
            loop = None if loop.parent is None else around.by_header[loop.parent]
        return result

    def _at_entry(self, buffer: SharedAlloc) -> tuple[Op, ...]:
        """Record `buffer`, which is allocated at the start of the function, and return no ops to
        allocate it here."""
        self.buffers.append(buffer)
        return ()

    def _wgmma_dot(self, dot: Dot) -> _WgmmaDot | None:
        if not is_computed(dot, self.warps):
            return None
        b = self._stored_operand(dot, "b")
        a = self._stored_operand(dot, "a") if self._leaves_registers(dot.a) else None
        return None if b is None else _WgmmaDot(dot, a, b)

    def _stored_operand(self, dot: Dot, name: str) -> StoredOperand | None:
        """The operand as matrix descriptors can describe it once it is stored: along the dimension
        in which its elements were contiguous, where possible; None where they cannot."""
        operand: Operand = getattr(dot, name)
        op = self._origin_of(operand)
        transposed = isinstance(op, Trans) and tuple(op.order) == (1, 0)
        value = op.value if isinstance(op, Trans) and transposed else operand
        kind = cast(Tile, value.type)
        fast = contiguous_dimension(self.function, value)
        for along in (fast, 1 - fast):
            place = panels_that_fit(dot, name, (kind, transposed), along, self.warps)
            if place is not None:
                return StoredOperand(value, place, transposed)
        return None

    def _origin_of(self, operand: Operand) -> Op | None:
        return self.origin.get(operand) if isinstance(operand, Value) else None

    def _leaves_registers(self, operand: Operand) -> bool:
        """Whether an operand A passes through shared memory anyway: it is loaded, or it is a
        transpose of computed values."""
        return isinstance(self._origin_of(operand), (Load, Trans))


def _multiply(operands: _WgmmaDot, stored: Buffers) -> list[Op]:
    dot, a, b, none = operands.dot, operands.a, operands.b, constant(I32, 0)
    wgmma = Wgmma(
        dot.a if a is None else stored[a.key], none, stored[b.key], none, dot.c,
        trans_a=a is not None and a.transposed, trans_b=b.transposed,
        lhs_signed=dot.lhs_signed, rhs_signed=dot.rhs_signed, location=dot.location,
    )  # fmt: skip
    return wgmma_and_wait(dot, wgmma)
