"""Strip-mining: tiles larger than the registers become loops over pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias, cast

import attrs

from tileir.analysis.partial import collects
from tileir.analysis.uses import definitions
from tileir.backend.strip_mine.emit_loops import LoopEmitter, piece_size
from tileir.backend.strip_mine.plan import Plan, Planner, Sink, straight_line_regions, tile_of
from tileir.backend.strip_mine.register_limits import (
    is_large,
    max_tile_words,
    registers_of,
    warps_of,
)
from tileir.backend.strip_mine.spill import (
    SpillChunks,
    SpilledFunction,
    in_pieces,
    spill_values,
    values_to_spill,
    without_whole,
)
from tileir.backend.strip_mine.stage_math import MathStagingPlanner
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Block, Function, Module
from tileir.op import Op
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.types import shape_of
from tileir.values import Value

"""Ops that read every element of a tile, whatever becomes of it."""

_NESTING = 5
"""Tiles have at most this many dimensions to cut one after the other."""

Planned: TypeAlias = tuple[tuple[Op, ...], Plan | None]
"""A stretch of a block, and how it is cut, if it is."""


@pass_("strip-mine")
def strip_mine(
    module: Module,
    *,
    warps: int = 0,
    limit: int = 0,
    piece: int = 0,
    keep: int = -1,
    functions: bool = False,
) -> PassResult:
    """Cut tiles of more than `limit` words per thread into loops over pieces of `piece` words.

    `warps` are the warps of a block: 0 for the function's `num_warps`, or 16 where it has none,
    which then says so, since pieces are made for them.
    `limit` 0 is half of the registers a thread may have (of 128), `piece` 0 an eighth. `keep` is
    how many words per thread may stay in registers between loops, -1 for three eighths.

        STORE   a store of a large tile becomes a loop that computes and stores one piece
        REDUCE  a reduction of a large tile whose result is needed whole becomes a loop that
                combines pieces element by element, and a reduction of one piece
        CHAIN   elementwise and shape ops, loads, and reductions and scans along other dimensions
                are computed again for each piece in each loop that needs them
        FOLD    a reduction by a function begins with the first piece; a histogram is the sum of
                those of its pieces
        ONCE    a scan along the dimension that is cut takes along what it has come to, and atomic
                accesses happen once: their pieces are computed in order by one loop, which begins
                with the last one where the scan does
        MOVE    a value that crosses blocks, or that a loop carries, goes through private buffers,
                where all ops that read or write it can be cut
        FUSE    loops that need nothing of each other are one loop
        KEEP    of a load that several loops need, pieces of `keep` words in all are loaded once,
                outside the loops, and stay in registers; others are loaded again. A policy that
                what is loaded is not needed again (`eviction = first`) is for the last time
        REST    where the extent is no multiple of the piece, the rest is a smaller piece after it

        STAGE   a load that must not be repeated, since a store between may change what it reads, is
                done by one loop, which writes its pieces into memory of each thread's own
                (`gpu.private_store`) for later ones; where that is less, what is stored is
                computed so. `noalias` says that nothing has to be staged, as does a store to the
                very addresses that were read
        APPLY   with `functions`, one of mathematics that several loops need is computed by one and
                staged: where memory is near, that takes less time than computing it again

    A dimension is chosen that waits for as few reductions as possible, the first one among equals:
    a softmax of several rows becomes a loop over rows, and then loops over columns. What cannot be
    cut stays whole, with a remark.

    before {keep=0}:
        define kernel void @scale(f32* noalias %x, f32* noalias %y) {
        entry:
          %i = make_range i32<65536>
          %xs = splat f32*<65536> %x
          %p = getelementptr f32*<65536> %xs, %i
          %v = load f32<65536> %p
          %m = reduce f32 %v {combiner = fmaxnum}
          %ms = splat f32<65536> %m
          %w = fdiv f32<65536> %v, %ms
          %ys = splat f32*<65536> %y
          %q = getelementptr f32*<65536> %ys, %i
          store %q, %w
          ret
        }
    after:
        define kernel void @scale(f32* noalias %x, f32* noalias %y) {num_warps = 16} {
        entry:
          br entry.strip
        entry.strip:
          %start = phi i32 [0, entry], [%next, entry.strip]
          %sum = phi f32<8192> [nan, entry], [%total, entry.strip]
          %xs = splat f32*<8192> %x
          %r = make_range i32<8192>
          %from = splat i32<8192> %start
          %i = add i32<8192> %r, %from
          %p = getelementptr f32*<8192> %xs, %i
          %v = load f32<8192> %p
          %total = fmaxnum f32<8192> %sum, %v
          %next = add i32 %start, 8192
          %more, _ = icmp (i1, i1) %next, 65536 {predicate = slt}
          cond_br %more, entry.strip, entry.after
        entry.after:
          %m = reduce f32 %total {combiner = fmaxnum}
          br entry.strip.1
        entry.strip.1:
          %start.1 = phi i32 [0, entry.after], [%next.1, entry.strip.1]
          %ys = splat f32*<8192> %y
          %r.1 = make_range i32<8192>
          %from.1 = splat i32<8192> %start.1
          %i.1 = add i32<8192> %r.1, %from.1
          %q = getelementptr f32*<8192> %ys, %i.1
          %xs.1 = splat f32*<8192> %x
          %p.1 = getelementptr f32*<8192> %xs.1, %i.1
          %v.1 = load f32<8192> %p.1
          %ms = splat f32<8192> %m
          %w = fdiv f32<8192> %v.1, %ms
          store %q, %w
          %next.1 = add i32 %start.1, 8192
          %more.1, _ = icmp (i1, i1) %next.1, 65536 {predicate = slt}
          cond_br %more.1, entry.strip.1, entry.after.1
        entry.after.1:
          ret
        }
    """
    found = {
        f.name: strip_mine_function(
            f, warps=warps, limit=limit, piece=piece, keep=keep, functions=functions
        )
        for f in module.functions.values()
        if not f.is_declaration
    }
    made = {name: cast(Function, outcome.ir) for name, outcome in found.items()}
    after = {**module.functions, **made}
    remarks = tuple(r for outcome in found.values() for r in outcome.remarks)
    statistics = {"loops": sum(o.statistics.get("loops", 0) for o in found.values())}
    if all(f is module.functions[name] for name, f in after.items()):
        return PassResult(module, remarks, statistics)
    return PassResult(strips(module.with_functions(after)), remarks, statistics)


def strips(module: Module) -> Module:
    """`module` after `strip-mine`: of stage `strip_mined` where ops of the backend keep tiles."""
    ops = (op for function in module.functions.values() for op in function.ops)
    if module.stage is not None or all(op.mnemonic != "gpu.private_alloc" for op in ops):
        return module
    return module.evolve(stage="strip_mined")


def strip_mine_function(
    function: Function, *, warps: int = 0, limit: int = 0, piece: int = 0, keep: int = -1,
    sliced: frozenset[Value] = frozenset(), functions: bool = False,
) -> PassResult:  # fmt: skip
    """`strip-mine` on one function; `sliced` values lie where pieces of them are read at no more
    cost than they have."""
    return _Run(function, *warps_of(function, warps), limit, piece, keep, sliced, functions).run()


@attrs.define
class _Run:
    """One run of the pass."""

    function: Function
    warps: int
    stated: bool
    limit: int
    piece: int
    keep: int
    sliced: frozenset[Value]
    functions: bool
    remarks: list[Diagnostic] = attrs.field(init=False, factory=list)
    cuts: int = attrs.field(init=False, default=0)
    moving: SpillChunks = attrs.field(init=False, factory=SpillChunks)

    def run(self) -> PassResult:
        function = self._moved(self.function)
        for _ in range(_NESTING):
            new = self._once(function)
            if new is function:
                break
            function = dce(new)
        function = without_whole(function, self.moving)
        self.remarks += self._whole(function)
        if function is not self.function and not self.stated:
            attributes = {**function.attributes, "num_warps": self.warps}
            function = function.evolve(attributes=attributes)
        return PassResult(function, tuple(self.remarks), {"loops": self.cuts})

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def registers(self) -> int:
        return registers_of(self.threads)

    @property
    def large(self) -> int:
        return max_tile_words(self.threads, self.limit)

    @property
    def kept(self) -> int:
        """Words, over all threads, that stay in registers from one loop to the next."""
        return self.threads * (self.registers * 3 // 8 if self.keep < 0 else self.keep)

    @property
    def words(self) -> int:
        """Words of a piece, over all threads; no more than a tile that is not cut has."""
        return min(self.threads * (self.piece or self.registers // 8), self.large)

    def _planner(self, function: Function, apart: bool = False) -> Planner:
        kind = MathStagingPlanner if self.functions else Planner
        return kind(function, definitions(function), self.large, self.sliced, apart)

    def _should(self, op: Op) -> bool:
        """Whether code for `op` as it is would not stay small."""
        return bool(collects(op) or op.effects & Effects.WRITE) and is_large(op, self.large)

    def _whole(self, function: Function) -> list[Diagnostic]:
        """What is said of ops that stay whole, and of promises with which they would not."""
        if not any(self._should(op) for op in function.ops):
            return []
        planner = self._planner(function, apart=True)
        readers, found = _readers(function), list[Diagnostic]()
        for block in function.blocks.values():
            for part in straight_line_regions(block.ops, self.large):
                whole = [op for op in part if self._should(op)]
                plan = planner.plan(part, _outside(part, readers)) if whole else None
                found += [_kept(op, plan is not None and op in plan.sinks) for op in whole]
        return found

    def _moved(self, function: Function) -> Function:
        """`function` with values that cross blocks in memory, where all that reads and writes them
        can be cut."""
        if not any(is_large(op, self.large) for op in function.ops):
            return function
        found = values_to_spill(function, definitions(function), self.large)
        values = [v for v in found if v not in self.sliced]
        while values:
            through = spill_values(function, values, self.large)
            whole = self._left_whole(through)
            if not whole:
                moved, self.moving = in_pieces(through, self.large, self._size)
                return moved
            values = [v for v in values if v not in whole]
        return function

    def _left_whole(self, through: SpilledFunction) -> set[Value]:
        """The values in memory of which not all accesses would be cut."""
        function, owners = through.function, {b: v for v, b in through.buffers.items()}
        planner = self._planner(function)
        found = set[Value]()
        for part, plan in chain.from_iterable(self._plans(planner).values()):
            moving = [op for op in part if op.inputs and op.inputs[0] in owners]
            for op in moving:
                if plan is None or not plan.cuts(op):
                    found.add(owners[cast(Value, op.inputs[0])])
        return found

    def _plans(self, planner: Planner) -> dict[str, list[Planned]]:
        """The stretches of every block with their plans. What pieces need whole from elsewhere is
        read outside of where it is computed, whether or not an op of the program reads it there."""
        function = planner.function
        readers = _readers(function)
        parts = [
            (block.label, part)
            for block in function.blocks.values()
            for part in straight_line_regions(block.ops, self.large)
        ]
        outside = [_outside(part, readers) for _, part in parts]
        plans = [planner.plan(part, out) for (_, part), out in zip(parts, outside, strict=True)]
        homes = {v: n for n, (_, part) in enumerate(parts) for op in part for v in op.results}
        while True:
            more = dict[int, set[Value]]()
            for number, value in _needed(plans):
                home = homes.get(value, number)
                if home != number and value not in outside[home]:
                    more.setdefault(home, set()).add(value)
            if not more:
                break
            for home, values in more.items():
                outside[home] |= values
                plans[home] = planner.plan(parts[home][1], outside[home])
        found: dict[str, list[Planned]] = {label: [] for label in function.blocks}
        for (label, part), plan in zip(parts, plans, strict=True):
            found[label].append((part, plan))
        return found

    def _size(self, extent: int, unit: int) -> int:
        return piece_size(extent, unit, self.words)

    def _once(self, function: Function) -> Function:
        if not any(is_large(op, self.large) for op in function.ops):
            return function
        planner = self._planner(function)
        plans = self._plans(planner)
        blocks: dict[str, Block] = {}
        for block in function.blocks.values():
            for new in self._block(block, planner, plans[block.label], blocks):
                blocks[new.label] = new
        return function.with_blocks(blocks)

    def _block(
        self, block: Block, planner: Planner, planned: list[Planned], taken: dict[str, Block]
    ) -> list[Block]:
        if not any(plan for _, plan in planned):
            return [block]
        labels = {*planner.function.blocks, *taken}
        writer = LoopEmitter(block, planner, self.words, self.kept, labels, self.moving)
        for part, plan in planned:
            if plan is None:
                writer.ops += part
            else:
                writer.write(plan)
                for sink in plan.sinks.values():
                    self._note(sink)
        self.cuts += writer.loops
        return writer.finish()

    def _note(self, sink: Sink) -> None:
        shape = " x ".join(map(str, shape_of(sink.tile.type)))
        message = f"{sink.op.mnemonic} of {shape} elements is a loop along dimension {sink.dim}"
        self.remarks.append(remark("TIR0751", message, sink.op.location))


def _kept(op: Op, apart: bool) -> Diagnostic:
    message = f"{op.mnemonic} of {tile_of(op).type} stays whole: it needs many registers"
    if apart:
        message += "; if parameters were noalias, it would be cut"
    return remark("TIR0752", message, op.location)


def _needed(plans: Sequence[Plan | None]) -> Iterator[tuple[int, Value]]:
    """What pieces need whole, with the number of the plan that cuts them."""
    for number, plan in enumerate(plans):
        for sink in plan.sinks.values() if plan else ():
            yield from ((number, value) for value in sink.chain.whole)


def _readers(function: Function) -> dict[Value, set[Op]]:
    found: dict[Value, set[Op]] = {}
    for op in function.ops:
        for operand in op.operands:
            if type(operand) is Value:
                found.setdefault(operand, set()).add(op)
    return found


def _outside(part: Sequence[Op], readers: dict[Value, set[Op]]) -> set[Value]:
    """Results of `part` that ops outside it read."""
    here = set(part)
    return {v for op in part for v in op.results if readers.get(v, set[Op]()) - here}
