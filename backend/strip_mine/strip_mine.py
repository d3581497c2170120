"""Strip-mining: tiles larger than the registers become loops over chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias, cast

import attrs

from tileir.analysis.partial import collects
from tileir.analysis.uses import definitions
from tileir.backend.demand import (
    is_large,
    max_tile_words,
    registers_of,
    warps_of,
)
from tileir.backend.strip_mine.emit_loops import LoopEmitter, chunk_size
from tileir.backend.strip_mine.plan import (
    Planner,
    Sink,
    StripMinePlan,
    straight_line_regions,
    tile_of,
)
from tileir.backend.strip_mine.spill import (
    SpillChunks,
    SpilledFunction,
    add_chunk_buffers,
    remove_whole_buffers,
    spill_values,
    values_to_spill,
)
from tileir.backend.strip_mine.stage_math import MathStagingPlanner
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Block, Function, Module
from tileir.op import Op
from tileir.ops.gpu import SharedAlloc
from tileir.ops.private import PrivateAlloc
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.types import shape_of
from tileir.values import Value

_BUFFERS = (PrivateAlloc, SharedAlloc)
_NESTING = 5
"""The most dimensions of a tile that are strip-mined, one after the other."""

_OF_EXCHANGED_BYTES = 4
"""How many times as large chunks are whose bytes are stored along another dimension than they are
loaded: a thread has eight neighbours along both then, and exchanges eight bytes at once."""

Planned: TypeAlias = tuple[tuple[Op, ...], StripMinePlan | None]
"""A straight-line region of a block, and its plan; None where nothing in it is strip-mined."""


@pass_("strip-mine")
def strip_mine(
    module: Module,
    *,
    warps: int = 0,
    limit: int = 0,
    chunk: int = 0,
    keep: int = -1,
    functions: bool = False,
) -> PassResult:
    """Strip-mine tiles of more than `limit` words per thread into loops over chunks.

    A word is a 32-bit register. `warps` is the number of warps of a block: 0 for the function's
    `num_warps`, or 16 if it has none. The pass then sets `num_warps`, since the sizes of the chunks
    depend on it. `limit` 0 is half of the registers of a thread (at most 128). `chunk` is the
    number of words per thread in a chunk, 0 for an eighth of the registers. `keep` is the number of
    words per thread that may stay in registers between loops, -1 for three eighths of the
    registers.

    - A store of a large tile becomes a loop that computes and stores one chunk per iteration.
    - A reduction of a large tile whose result is needed whole becomes a loop that combines chunks
      element by element, followed by a reduction of one chunk. A reduction by a function starts
      from the first chunk. A histogram is the total of the histograms of its chunks.
    - Elementwise ops, shape ops, loads, and reductions and scans along other dimensions are
      rematerialized for each chunk in each loop that needs them.
    - A scan along the strip-mined dimension and atomic accesses are computed by one loop, chunk by
      chunk in order. A scan carries its prefix through that loop; a reverse scan starts at the last
      chunk.
    - A value that crosses blocks, or that a loop carries, is spilled to private buffers if every op
      that reads or writes it can be strip-mined.
    - Independent loops over the same extent are fused.
    - Chunks of loads that several loops need are loaded once, before the loops, and stay in
      registers, up to `keep` words. Other chunks are reloaded. An eviction-first policy (`eviction
      = first`) is kept only for the last load.
    - An extent that is not a multiple of the chunk ends in a smaller chunk after the loop.
    - A load that must not be repeated, since a store in between may change the memory, is done by
      one loop, which writes its chunks to private memory (`gpu.private_store`) for later loops. The
      stored value is staged instead if it is smaller. Nothing is staged for `noalias` parameters,
      or for a store to exactly the addresses that were read.
    - With `functions`, a math function that several loops need is computed by one loop and staged.
      On CPUs, where private memory is cached, this is faster than rematerialization.

    The pass strip-mines the dimension along which the fewest reductions run, the first one if
    several are equal. A softmax of several rows becomes a loop over rows around loops over columns.
    An op that cannot be strip-mined stays whole, with remark TIR0752.

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
    outcomes = {
        f.name: strip_mine_function(
            f, warps=warps, limit=limit, chunk=chunk, keep=keep, functions=functions
        )
        for f in module.functions.values()
        if not f.is_declaration
    }
    rewritten = {name: cast(Function, outcome.ir) for name, outcome in outcomes.items()}
    all_functions = {**module.functions, **rewritten}
    remarks = tuple(r for outcome in outcomes.values() for r in outcome.remarks)
    statistics = {"loops": sum(o.statistics.get("loops", 0) for o in outcomes.values())}
    if all(f is module.functions[name] for name, f in all_functions.items()):
        return PassResult(module, remarks, statistics)
    return PassResult(with_stage(module.with_functions(all_functions)), remarks, statistics)


def with_stage(module: Module) -> Module:
    """`module` with stage `strip_mined` if it allocates buffers, or as it is."""
    ops = (op for function in module.functions.values() for op in function.ops)
    if module.stage is not None or not any(isinstance(op, _BUFFERS) for op in ops):
        return module
    return module.evolve(stage="strip_mined")


def strip_mine_function(
    function: Function, *, warps: int = 0, limit: int = 0, chunk: int = 0, keep: int = -1,
    sliced: frozenset[Value] = frozenset(), functions: bool = False, shared: bool = False,
) -> PassResult:  # fmt: skip
    """Run `strip-mine` on one function. Chunks of `sliced` values are `extract_slice` ops: reading
    a slice of such a value, which is in memory, costs no more than reading all of it. With
    `shared`, a matrix that is computed whole from large loads is stored to shared memory where
    loops would compute its chunks from these loads again; and chunks of bytes that are stored along
    another dimension than they are loaded, which threads exchange there, are larger."""
    return _StripMiner(
        function, *warps_of(function, warps), limit, chunk, keep, sliced, functions, shared
    ).run()


@attrs.define
class _StripMiner:
    """One run of the pass."""

    function: Function
    warps: int
    stated: bool
    limit: int
    chunk: int
    keep: int
    sliced: frozenset[Value]
    functions: bool
    shared: bool
    remarks: list[Diagnostic] = attrs.field(init=False, factory=list)
    cuts: int = attrs.field(init=False, default=0)
    stored: frozenset[Value] = attrs.field(init=False, default=frozenset())
    """Matrices whose slices are read from shared memory."""
    spilled: SpillChunks = attrs.field(init=False, factory=SpillChunks)

    def run(self) -> PassResult:
        function = self._spill(self.function)
        for _ in range(_NESTING):
            new = self._cut_once(function)
            if new is function:
                break
            function = dce(new)
        function = remove_whole_buffers(function, self.spilled)
        if self.stored:
            from tileir.backend.strip_mine.shared_slices import store_sliced  # few need it

            function = store_sliced(function, self.stored)
        self.remarks += self._whole_remarks(function)
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
    def cache_words(self) -> int:
        """Words of all threads that may stay in registers from one loop to the next."""
        return self.threads * (self.registers * 3 // 8 if self.keep < 0 else self.keep)

    @property
    def words(self) -> int:
        """Words of a chunk, over all threads; at most those of a tile that stays whole."""
        return min(self.threads * (self.chunk or self.registers // 8), self.large)

    @property
    def exchanged_words(self) -> int:
        """The same for bytes that are stored along another dimension than they are loaded, which
        threads exchange through shared memory."""
        times = _OF_EXCHANGED_BYTES if self.shared and not self.chunk else 1
        return min(times * self.words, self.large)

    def _planner(self, function: Function, assume_noalias: bool = False) -> Planner:
        kind = MathStagingPlanner if self.functions else Planner
        return kind(function, definitions(function), self.large, self.sliced, assume_noalias)

    def _must_cut(self, op: Op) -> bool:
        """Whether the code of `op` would grow with the size of its tile."""
        return bool(collects(op) or op.effects & Effects.WRITE) and is_large(op, self.large)

    def _whole_remarks(self, function: Function) -> list[Diagnostic]:
        """Remarks on the ops that stay whole, and whether `noalias` parameters would help."""
        if not any(self._must_cut(op) for op in function.ops):
            return []
        planner = self._planner(function, assume_noalias=True)
        readers, remarks = _readers(function), list[Diagnostic]()
        for block in function.blocks.values():
            for part in straight_line_regions(block.ops, self.large):
                large = [op for op in part if self._must_cut(op)]
                plan = planner.plan(part, _outside(part, readers)) if large else None
                remarks += [
                    _whole_remark(op, plan is not None and op in plan.sinks) for op in large
                ]
        return remarks

    def _spill(self, function: Function) -> Function:
        """`function` with values that cross blocks spilled to private buffers, if every op that
        reads or writes them can be strip-mined."""
        if not any(is_large(op, self.large) for op in function.ops):
            return function
        candidates = values_to_spill(function, definitions(function), self.large)
        values = [v for v in candidates if v not in self.sliced]
        while values:
            spilled = spill_values(function, values, self.large)
            unspilled = self._left_whole(spilled)
            if not unspilled:
                result, self.spilled = add_chunk_buffers(spilled, self.large, self._chunk_size)
                return result
            values = [v for v in values if v not in unspilled]
        return function

    def _left_whole(self, spilled: SpilledFunction) -> set[Value]:
        """The spilled values with an access that would stay whole."""
        function, owners = spilled.function, {b: v for v, b in spilled.buffers.items()}
        planner = self._planner(function)
        unspilled = set[Value]()
        for part, plan in chain.from_iterable(self._plans(planner).values()):
            accesses = [op for op in part if op.inputs and op.inputs[0] in owners]
            for op in accesses:
                if plan is None or not plan.cuts(op):
                    unspilled.add(owners[cast(Value, op.inputs[0])])
        return unspilled

    def _plans(self, planner: Planner) -> dict[str, list[Planned]]:
        """The straight-line regions of every block with their plans.

        A chunk may need a value of another region whole. That value then counts as read outside its
        region, even if no op of the program reads it there, and its region is planned once more."""
        function = planner.function
        readers = _readers(function)
        parts = [
            (block.label, part)
            for block in function.blocks.values()
            for part in straight_line_regions(block.ops, self.large)
        ]
        outside = [_outside(part, readers) for _, part in parts]
        plans = [planner.plan(part, out) for (_, part), out in zip(parts, outside, strict=True)]
        region_of = {v: n for n, (_, part) in enumerate(parts) for op in part for v in op.results}
        while True:
            more = dict[int, set[Value]]()
            for number, value in _whole_values(plans):
                region = region_of.get(value, number)
                if region != number and value not in outside[region]:
                    more.setdefault(region, set()).add(value)
            if not more:
                break
            for region, values in more.items():
                outside[region] |= values
                plans[region] = planner.plan(parts[region][1], outside[region])
        by_block: dict[str, list[Planned]] = {label: [] for label in function.blocks}
        for (label, part), plan in zip(parts, plans, strict=True):
            by_block[label].append((part, plan))
        return by_block

    def _chunk_size(self, extent: int, unit: int) -> int:
        return chunk_size(extent, unit, self.words)

    def _cut_once(self, function: Function) -> Function:
        if not any(is_large(op, self.large) for op in function.ops):
            return function
        planner = self._planner(function)
        plans = self._plans(planner)
        while self.shared and (repeated := _repeated_matrices(plans, planner)):
            self.stored |= repeated
            self.sliced |= repeated
            planner = self._planner(function)
            plans = self._plans(planner)
        blocks: dict[str, Block] = {}
        for block in function.blocks.values():
            for new in self._block(block, planner, plans[block.label], blocks):
                blocks[new.label] = new
        return function.with_blocks(blocks)

    def _block(
        self, block: Block, planner: Planner, regions: list[Planned], target: dict[str, Block]
    ) -> list[Block]:
        if not any(plan for _, plan in regions):
            return [block]
        labels = {*planner.function.blocks, *target}
        words = self.words, self.exchanged_words, self.cache_words
        emitter = LoopEmitter(block, planner, *words, labels, self.spilled)
        for part, plan in regions:
            if plan is None:
                emitter.ops += part
            else:
                emitter.write(plan)
                for sink in plan.sinks.values():
                    self._add_remark(sink)
        self.cuts += emitter.loops
        return emitter.finish()

    def _add_remark(self, sink: Sink) -> None:
        shape = " x ".join(map(str, shape_of(sink.tile.type)))
        message = f"{sink.op.mnemonic} of {shape} elements is a loop along dimension {sink.dim}"
        self.remarks.append(remark("TIR0751", message, sink.op.location))


def _whole_remark(op: Op, would_cut: bool) -> Diagnostic:
    message = f"{op.mnemonic} of {tile_of(op).type} stays whole: it needs many registers"
    if would_cut:
        message += "; if parameters were noalias, it would be cut"
    return remark("TIR0752", message, op.location)


def _whole_values(plans: Sequence[StripMinePlan | None]) -> Iterator[tuple[int, Value]]:
    """Values that chunks need whole, with the number of the plan."""
    for number, plan in enumerate(plans):
        for sink in plan.sinks.values() if plan else ():
            yield from ((number, value) for value in sink.slice.whole)


def _repeated_matrices(plans: Mapping[str, list[Planned]], planner: Planner) -> frozenset[Value]:
    """The matrices that a plan computes whole, and of which loops repeat the loads."""
    every = (plan for _, plan in chain.from_iterable(plans.values()) if plan is not None)
    return frozenset(v for plan in every for v in planner.repeated_matrices(plan))


def _readers(function: Function) -> dict[Value, set[Op]]:
    readers: dict[Value, set[Op]] = {}
    for op in function.ops:
        for operand in op.operands:
            if type(operand) is Value:
                readers.setdefault(operand, set()).add(op)
    return readers


def _outside(part: Sequence[Op], readers: dict[Value, set[Op]]) -> set[Value]:
    """Results of `part` that ops outside it read."""
    here = set(part)
    return {v for op in part for v in op.results if readers.get(v, set[Op]()) - here}
