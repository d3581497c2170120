"""Staging of the operands of dots by `mma` in shared memory, for operands that no asynchronous copy
loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import attrs

from tileir.analysis.uses import definitions
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.dot_layouts import dots_in_elements, mma_of
from tileir.backend.live_registers import ThreadRegisters
from tileir.backend.shared_memory.shared_tile import SharedTile, full_swizzle
from tileir.backend.software_pipeline.expand import step_of
from tileir.backend.software_pipeline.store_operands import DotRewriter, store_operands
from tileir.backend.software_pipeline.store_plan import (
    Buffers,
    StoredOperand,
    blocks_with_dots,
)
from tileir.backend.software_pipeline.warpgroup_dots import contiguous_dimension
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import LocalLoad
from tileir.ops.memory import Load
from tileir.ops.shape import Broadcast, ExpandDims, MakeRange, Reshape, Splat, Trans
from tileir.types import I32, Tile, shape_of
from tileir.values import Operand, Value, constant

_LEAST_BYTES = 2048
"""Smaller operands are converted in registers, by few shuffles."""

_INDICES = (MakeRange, Splat, Broadcast, ExpandDims, Reshape)
"""Ops on tiles that every thread computes in any layout."""


def stage_operands(
    function: Function, shared: int, copies: ThreadRegisters | None = None
) -> Function:
    """Store operands of dots by `mma` to shared memory, once each, and read them one step of K at a
    time. Otherwise each would be converted to the layout of every dot that takes it, as a whole: it
    would pass through shared memory as often, and its fragments would stay in registers.

    An operand A that is computed of a dot's result stays in registers. Operands of the later dots
    of a block that are there at the first one are stored with its own, under one barrier. Operands
    that a loop does not change are stored before it, up to half of `shared` bytes in all, and take
    no registers in it. Not staged are the operands of dots in loops with `cp.async` copies, those
    of blocks whose operands exceed `shared` bytes, and the only operand of a block if it is read
    once, as a whole. If the registers `copies` hold the program, operands that are loaded for dots
    alone are copied asynchronously outside of loops.
    """
    writer = _Writer(function, copies)
    blocks = {
        label: writer.in_block(block, shared) if label in writer.eligible else block
        for label, block in function.blocks.items()
    }
    if blocks == function.blocks:
        return function
    from tileir.backend.software_pipeline.store_once import store_once  # few kernels need it

    return store_once(function.with_blocks(blocks), shared // 2)


_Operands = tuple[StoredOperand | None, StoredOperand | None]


class _Writer:
    def __init__(self, function: Function, copies: ThreadRegisters | None) -> None:
        self.function, self.copies = function, copies
        self.origin, self.widths = definitions(function), AccessWidths(function)
        self.eligible = frozenset(blocks_with_dots(function))

    def in_block(self, block: Block, shared: int) -> Block:
        """The block with operands in at most `shared` bytes."""
        by_dot = {op: self._operands(op) for op in block.ops if isinstance(op, Dot)}
        if not _gains(by_dot):
            return block
        needed = {
            dot: [y for y in pair if y is not None] for dot, pair in by_dot.items() if any(pair)
        }

        def multiply(dot: Dot, stored: Buffers) -> list[Op]:
            return _multiply(dot, by_dot[dot], stored)

        rewriter = DotRewriter(lambda buffer: (buffer,), tuple, multiply)
        return store_operands(self.function, block, needed, shared, rewriter, copies=self.copies)[0]

    def _operands(self, dot: Dot) -> _Operands:
        kind = dot.results[0].type
        if mma_of(dot) is None or dot.predicate is not None or len(shape_of(kind)) != 2:
            return None, None
        chained = any(dots_in_elements(dot.a, self.origin))
        return None if chained else self._in_shared(dot.a), self._in_shared(dot.b)

    def _in_shared(self, operand: Operand) -> StoredOperand | None:
        """The dimension along which an operand is stored contiguously, which is that in memory;
        None if it stays in registers."""
        op = self._origin_of(operand)
        transposed = isinstance(op, Trans) and tuple(op.order) == (1, 0)
        value = op.value if isinstance(op, Trans) and transposed else operand
        kind = value.type
        if not isinstance(value, Value) or not isinstance(kind, Tile):
            return None
        element, sources = kind.element, self._data(value)
        if element.bits not in (8, 16, 32) or not sources:
            return None
        fast = contiguous_dimension(self.function, value)
        load = next((op for op in sources if isinstance(op, Load)), None)
        if load is not None:
            loaded = cast(Tile, load.results[0].type).element.bytes
            if self.widths.width(load, fast) * loaded < _WORD:
                return None
        place = SharedTile(element, kind.shape, fast, full_swizzle(element, kind.shape, fast))
        return StoredOperand(value, place, transposed) if place.bytes >= _LEAST_BYTES else None

    def _data(self, operand: Value) -> list[Op | None]:
        """The ops, None for a block's parameter, of whose results of the same shape `operand` is
        computed element by element; none where it is arithmetic on indices, or in shared memory."""
        waiting, seen, sources = list[Operand]([operand]), set[Operand](), list["Op | None"]()
        while waiting:
            value = waiting.pop()
            if value in seen or not isinstance(value, Value) or not isinstance(value.type, Tile):
                continue
            seen.add(value)
            op = self.origin.get(value)
            if op is not None and (op.elementwise or isinstance(op, _INDICES)):
                waiting += op.inputs
            elif op is not None and op.mnemonic == "gpu.local_load":
                return []
            elif value.type.shape == cast(Tile, operand.type).shape:
                sources.append(op)
        return sources

    def _origin_of(self, operand: Operand) -> Op | None:
        return self.origin.get(operand) if isinstance(operand, Value) else None


def _multiply(dot: Dot, operands: _Operands, stored: Buffers) -> list[Op]:
    """The dot, by steps of K where both operands are in buffers."""
    depth, step, total = shape_of(dot.a.type)[1], _step(dot, operands), dot.c
    ops: list[Op] = []
    for start in range(0, depth, step):
        a, b = (
            operand if x is None else _part(x, stored[x.key], dim, (start, step), ops)
            for operand, x, dim in zip((dot.a, dot.b), operands, (1, 0), strict=True)
        )
        last = dot.evolve(a=a, b=b, c=total, results=())
        last = attrs.evolve(last, results=dot.results if start + step == depth else ())
        ops.append(last)
        total = last.results[0]
    return ops


def _step(dot: Dot, operands: _Operands) -> int:
    """Elements of K that a dot reads at a time: all where an operand is not in a buffer."""
    depth = shape_of(dot.a.type)[1]
    step = depth if None in operands else step_of(dot)
    return step if step < depth and depth % step == 0 else depth


def _gains(by_dot: Mapping[Dot, _Operands]) -> bool:
    """Whether operands are read several times, or share a barrier: the conversion of one that is
    read once costs no more, and waits for other threads only where it has to."""
    steps = {dot: shape_of(dot.a.type)[1] // _step(dot, pair) for dot, pair in by_dot.items()}
    return sum(steps[dot] for dot, pair in by_dot.items() for x in pair if x is not None) > 1


_WORD = 4
"""The bytes that a thread should load at once: narrower operands are loaded in the layout of the
dot."""


def _part(
    x: StoredOperand, buffer: Value, dim: int, steps: tuple[int, int], ops: list[Op]
) -> Operand:
    """The slice of an operand along its dimension `dim`, which is K: `steps` are its first element
    and its length."""
    dim = 1 - dim if x.transposed else dim
    shape, offsets = list(x.place.shape), [0, 0]
    offsets[dim], shape[dim] = steps
    op: Op = LocalLoad(
        buffer, constant(I32, 0), Tile(x.place.element, tuple(shape)),
        offsets=tuple(offsets),
    )  # fmt: skip
    ops.append(op)
    if x.transposed:
        op = Trans(op.results[0], order=(1, 0))
        ops.append(op)
    return op.results[0]
