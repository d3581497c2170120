"""Dots by warpgroups whose operands threads store to shared memory, because no asynchronous copy
loads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.liveness import liveness
from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend.layouts.wgmma import WARPS
from tileir.backend.live_registers import ThreadRegisters, shared_of_one_block
from tileir.backend.software_pipeline.promoted_wgmma import wgmma_and_wait
from tileir.backend.software_pipeline.store_once import outermost_loop
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
from tileir.backend.target import Target
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
    function: Function, warps: int, shared: int, copies: ThreadRegisters | None = None,
    machine: Target | None = None,
) -> Function:  # fmt: skip
    """Compute dots by warpgroups, `warps` warps in all, from operands that threads store to shared
    memory.

    B is stored, and A where it was loaded or is a transpose; other A stay in registers. Operands of
    the later dots of a block that are there at the first one are stored with its own, under one
    barrier. Operands that a loop does not change are stored before it, as far as half of `shared`
    bytes hold them, and take no registers in it. If the registers `copies` hold the program,
    operands that are loaded for dots alone are copied asynchronously outside of loops. Otherwise
    operands of dots before and after a loop stay in shared memory meanwhile. Dots in loops with
    `cp.async` copies, and dots whose operands exceed `shared` bytes, are not changed. The operands
    of a block may take more than `shared` bytes where a dot needs them, and its tiles leave the
    registers of `machine` to one block.
    """
    if warps % WARPS:
        return function
    writer = _Operands(function, warps, copies)
    blocks = dict(function.blocks)
    labels = list(blocks_with_dots(function))
    for label in labels:
        writer.store_before_loops(function.blocks[label], shared // 2)
    if labels and copies is not None and not copies.suffice_for(function):
        writer.keep_during_loops(shared // 2)
    for label in cfg(function).order:
        if label in writer.by_block:
            most = max(shared, writer.needed_alone(label, shared, machine))
            blocks[label] = writer.in_block(function.blocks[label], most)
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
        self.kept = set[Stored]()
        """Operands that stay in shared memory while a loop runs."""
        self.kept_buffers: dict[Stored, tuple[str, Value]] = {}
        """A block that stores such an operand, the last one so far, and its buffer."""

    def store_before_loops(self, block: Block, most: int) -> None:
        """Store operands of the block's dots before a loop, `most` bytes in the whole function."""
        by_dot = {op: x for op in block.ops if isinstance(op, Dot) and (x := self._wgmma_dot(op))}
        self.by_block[block.label] = by_dot
        keys = self._keys(block.label)
        self.before[block.label] = self._stored_before(block.label, keys, most)

    def keep_during_loops(self, most: int) -> None:
        """Keep operands of dots before and after a loop in shared memory, up to `most` bytes with
        those that are stored before a loop. They would be live in registers in the loop."""
        size = sum(stored.bytes for _, (_, stored) in self.fixed)
        places = [x for x in self.by_block if x not in loops(self.function).innermost]
        for first, last in permutations(places, 2):
            repeated = [key for key in self._keys(first) if key in self._keys(last)]
            for key in repeated:
                is_kept = key not in self.kept and self._lives_in_loop(first, key[0], last)
                if is_kept and size + key[1].bytes <= most:
                    size += key[1].bytes
                    self.kept.add(key)

    def _lives_in_loop(self, first: str, operand: Operand, last: str) -> bool:
        """Whether a loop between two blocks does not read `operand`, which is live in it."""
        below, alive = dominance(self.function).dominates, liveness(self.function)
        return any(
            operand in alive.entering[header] and below(first, header) and below(header, last)
            for header in loops(self.function).by_header
        )

    def _keys(self, label: str) -> list[Stored]:
        """The stored operands of the dots of a block."""
        pairs = [(x.a, x.b) for x in self.by_block[label].values()]
        return list(dict.fromkeys(x.key for pair in pairs for x in pair if x is not None))

    def needed_alone(self, label: str, shared: int, machine: Target | None) -> int:
        """The bytes of shared memory for block `label` if a dot has more than `shared` bytes of
        operands, and one block of `machine` is resident anyway; 0 otherwise."""
        by_dot = self.by_block[label]
        sizes = (sum(y.place.bytes for y in {x.a, x.b} if y) for x in by_dot.values())
        if machine is None or max(sizes, default=0) <= shared:
            return 0
        return shared_of_one_block(self.function, by_dot, machine)

    def in_block(self, block: Block, shared: int) -> Block:
        """The block with its dots by warpgroups, as far as `shared` bytes hold their operands and
        those that were stored before a loop around it."""
        by_dot = self.by_block[block.label]
        below = dominance(self.function).dominates
        kept = {k: x for k, (at, x) in self.kept_buffers.items() if below(at, block.label)}
        before = {**kept, **self.before[block.label]}
        needed = {dot: [y for y in (x.a, x.b) if y is not None] for dot, x in by_dot.items()}

        def multiply(dot: Dot, stored: Buffers) -> list[Op]:
            return _multiply(by_dot[dot], stored)

        rewriter = DotRewriter(self._at_entry, lambda: (AsyncFence(),), multiply)
        stored_before = [
            key for (_, key), x in self.fixed.items() if block.label in self.readers[x]
        ]
        bytes_ = sum(place.bytes for _, place in (*stored_before, *self.kept))
        new, buffers = store_operands(
            self.function, block, needed, shared - bytes_, rewriter,
            copies=self.copies, before=before,
        )  # fmt: skip
        if block.label not in loops(self.function).innermost:
            for key in (self.kept & buffers.keys()) - kept.keys():
                self.kept_buffers[key] = block.label, buffers[key]
        return new

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
            loop = outermost_loop(self.function, label, key[0])
            size = sum(stored.bytes for _, (_, stored) in self.fixed)
            if key in result or loop is None or size + key[1].bytes > most:
                continue
            self.fixed[cast(str, loop.preheader), key] = buffer = key[1].allocate()
            self.buffers.append(buffer)
            self.readers[buffer] = {*loop.blocks}
            result[key] = buffer.results[0]
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
