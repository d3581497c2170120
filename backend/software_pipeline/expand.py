"""Expand a loop into a software pipeline: its loads become asynchronous copies, several iterations
ahead of the dots that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks, definitions, passed_to, uses
from tileir.backend.layouts.dot_layouts import mma_of, reads_words_of_bytes
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Select
from tileir.ops.dot import Dot
from tileir.ops.gpu import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    BlockBarrier,
    LocalLoad,
    LocalStore,
    SharedAlloc,
)
from tileir.ops.memory import Load
from tileir.ops.shape import Reshape, Trans
from tileir.passes.dce import dce
from tileir.passes.lookahead import Lookahead
from tileir.passes.loop_pipeliner import LoopPipeliner
from tileir.types import I32, Tile, shape_of
from tileir.values import Constant, Operand, Value, constant

_SHORT = 128
"""The most elements of a vector that registers hold while a `wgmma` runs: up to 32 registers of
each thread."""

NO_TILES: Mapping[Value, SharedTile] = {}


@attrs.frozen
class StagedLoad:
    """A load that becomes a circular buffer: the layout of a stage in shared memory, and the dots
    it feeds; `through_registers`, where other ops than these dots read the loaded tile, too."""

    op: Load
    place: SharedTile
    dots: tuple[Dot, ...]
    through_registers: bool = False


class PipelineExpander(LoopPipeliner):
    """One loop whose loads become copies `count - 1` iterations ahead.

    The circular buffers have `count` stages, and the copies of an iteration are issued before it
    reads its own stages. If the loop `refills` stages (`are_read_in_one_block`), the buffers have
    `count - 1`, which may be one. Each copy then goes to the stage that this iteration has read,
    after its last read and a barrier.
    """

    def __init__(
        self, function: Function, loop: Loop, loads: list[StagedLoad], ahead: Lookahead, count: int,
        *, scalars: tuple[Load, ...] = (), fixed: Mapping[Value, SharedTile] = NO_TILES,
        refills: bool = False, one_warp: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(function, loop, ahead)
        self.loads, self.count = loads, count
        self.staged = {x.op.results[0]: x for x in self.loads}
        self.refills = refills
        self.depth = count - 1 if self.refills else count
        """The stages of a buffer."""
        self.one_warp = one_warp
        """Whether all threads that copy and read are of one warp."""
        self.origin = definitions(function)
        self.buffers = [self._buffer(load) for load in loads]
        self.scalars = scalars
        """Scalars that are loaded ahead as the copies are. The loop carries them."""
        self.carried_scalars: tuple[Value, ...] = ()
        self.following_scalars: list[Operand] = []
        """Of the last iteration that has been loaded ahead."""
        self.following_stage: Operand = constant(I32, 0)
        """The stage that the next iteration reads."""
        self.fixed = {value: place.allocate() for value, place in fixed.items()}
        """Operands that are the same in all iterations, and are stored before the loop."""
        self.stored: list[SharedAlloc] = [*self.fixed.values()]
        """Buffers that threads store to."""
        self.deferred_copies: list[Op] = []
        """Copies into the free stages that are not placed yet."""
        self.refilling_copies: list[Op] = []
        """Copies into stages that this iteration has yet to read."""
        self.unread: dict[Op, StagedLoad] = {}
        """Loads of the block whose stages registers have not been read from yet."""

    @property
    def bytes(self) -> int:
        """The bytes of shared memory of all buffers."""
        return sum(op.shape[0] * SharedTile.of(op).bytes for op in (*self.buffers, *self.stored))

    def _buffer(self, load: StagedLoad) -> SharedAlloc:
        return load.place.allocate(self.depth_of(load), load.op.location)

    def depth_of(self, load: StagedLoad) -> int:
        """The stages of the buffer of `load`."""
        return self.depth

    def stage_of(self, load: StagedLoad, stage: Operand) -> Operand:
        """The stage that an iteration reads or fills in the buffer of `load`. Buffers with the
        usual depth use `stage`."""
        return stage

    def before_loop(self, blocks: dict[str, Block], label: str) -> None:
        """Fill the first stages at the end of block `label`."""
        block, ahead = blocks[label], self.ahead
        ops: list[Op] = [*block.ops[:-1], *self.buffers, *self.stored]
        state, valid = ahead.entering(block), cast("Operand | None", None)
        scalars: list[Operand] = []
        for stage in range(self.count - 1):
            env, valid = ahead.compute_iteration(state, valid, ops)
            self._copies(env, valid, constant(I32, stage), ops)
            scalars += self._load_scalars(env, valid, ops)
            if not ahead.tested_first:
                valid = ahead.conjunction(valid, env, ops)
            state = ahead.advance(env)
        first: list[Operand] = [constant(I32, 0)]
        if not self.refills:
            first.append(constant(I32, self.count - 1))
        arguments = [*ahead.header_arguments(state, valid), *first, *scalars]
        arguments += self.on_entry(ops)
        blocks[label] = self.pass_to_header(block, ops, arguments)

    def in_loop(self, blocks: dict[str, Block]) -> None:
        ahead, latch = self.ahead, cast(str, self.loop.latch)
        read = Value(I32, "read")
        write = read if self.refills else Value(I32, "write")
        header = blocks[self.loop.header]
        self.carried_scalars = self._scalar_parameters()
        parameters = (
            *header.parameters, *ahead.parameters, *dict.fromkeys((read, write)),
            *self.carried_scalars, *self.parameters(),
        )  # fmt: skip
        blocks[self.loop.header] = attrs.evolve(header, parameters=parameters)
        passed: list[Operand] = []
        for label in self._blocks_with_stages():
            blocks[label] = self._with_stages(blocks[label], (read, write), passed)
        block = blocks[latch]
        blocks[latch] = self.pass_to_header(block, block.ops[:-1], passed, stages=1)

    def _blocks_with_stages(self) -> list[str]:
        """The blocks of the loop, but not of loops in it, that load ahead or whose dots read what
        is loaded ahead, in order."""
        function, header = self.function, self.loop.header
        place, innermost = defining_blocks(function), loops(function).innermost
        ahead = (*(load.op for load in self.loads), *self.scalars)
        labels = {place[op.results[0]] for op in ahead}
        for label in self.loop.order:
            dots = (op for op in function.blocks[label].ops if isinstance(op, Dot))
            if any(self.source(x) for dot in dots for x in (dot.a, dot.b)):
                labels.add(label)
        return [x for x in self.loop.order if x in labels and innermost.get(x) == header]

    def _with_stages(
        self, block: Block, stages: tuple[Value, Value], passed: list[Operand]
    ) -> Block:
        """`block` with dots that read stages in place of loads. Before the first load of an
        iteration it waits for the stages, and `passed` gets the arguments of the next iteration."""
        (read, write), ops = stages, list[Op]()
        visited: set[Op] = {load.op for load in self.loads}
        here = set(block.ops)
        unread: dict[Op, StagedLoad] = {
            x.op: x for x in self.loads if x.through_registers and x.op in here
        }
        self.unread = unread
        for op in block.ops[:-1]:
            if op in visited and not passed:
                passed += self.start_iteration(write, ops)
                self.following_stage = self._next(read, ops)
                passed.append(self.following_stage)
                if not self.refills:
                    passed.append(self._next(write, ops))
                passed += [*self.carried_scalars[len(self.scalars) :], *self.following_scalars]
            needed = (op.c,) if isinstance(op, Dot) else op.operands
            for load in [x for x in unread if x.results[0] in needed]:
                if not self._transposes(op):
                    self.list_of(op, ops).extend(self._whole_stage(unread.pop(load), read))
            if op in unread:
                continue  # it is loaded where it is needed
            if isinstance(op, Dot) and passed:
                passed += self.dot(op, (read, self.following_stage), ops)
            elif op not in visited and op not in self.scalars and not self._transposes(op):
                self.list_of(op, ops).append(op)
        for load in unread.values():
            ops += self._whole_stage(load, read)
        if self.refills:
            ops = self._refill(ops)
        self._flush(ops)
        return attrs.evolve(block, ops=(*ops, block.terminator))

    def _refill(self, ops: list[Op]) -> list[Op]:
        """`ops`, which read all stages of an iteration, with each copy after the dots that read the
        stage that it fills: its fragments need not be in registers at the same time."""
        reads, loaded = dict[Operand, int](), dict[Operand, Operand]()
        for i, op in enumerate(ops):
            if isinstance(op, LocalLoad):
                loaded[op.results[0]] = op.buffer
                reads[op.buffer] = i
            elif isinstance(op, (Trans, Dot)):
                for buffer in (loaded[v] for v in op.inputs if v in loaded):
                    reads[buffer] = i
                    if isinstance(op, Trans):
                        loaded[op.results[0]] = buffer
        start = next(i for i, op in enumerate(ops) if isinstance(op, AsyncWait)) + 1
        placed: dict[int, list[Op]] = {}
        copies, position = list[Op](), start
        for op in self.refilling_copies:
            copies.append(op)
            if isinstance(op, AsyncCopy):
                position = max(position, reads.get(op.buffer, start))
                placed.setdefault(position, []).extend(copies)
                copies = []
        placed[position] += copies
        self.refilling_copies = []
        result: list[Op] = []
        for i, op in enumerate(ops):
            result.append(op)
            if i in placed:
                result += [self.barrier(), *placed[i]]
        return result

    def read_vectors(self, stage: Value) -> list[Op]:
        """Loads of the short vectors that are not in registers yet."""
        ops: list[Op] = []
        for op, load in [*self.unread.items()]:
            if load.place.shape[0] == 1 and load.place.shape[1] <= _SHORT:
                ops += self._whole_stage(self.unread.pop(op), stage)
        return ops

    def _whole_stage(self, load: StagedLoad, stage: Operand) -> list[Op]:
        """A load of the whole stage into registers, in place of the global load."""
        buffer = self.buffers[self.loads.index(load)].results[0]
        kind, place = load.op.results[0].type, load.op.location
        stage = self.stage_of(load, stage)
        whole = Tile(load.place.element, load.place.shape)
        ops: list[Op] = [LocalLoad(buffer, stage, whole, location=place)]
        if shape_of(kind) != load.place.shape:
            ops.append(Reshape(ops[-1].results[0], kind, location=place))
        if not load.op.fills_with_zeros:  # copies also store zeros for masked elements
            mask, other = cast(Operand, load.op.mask), cast(Operand, load.op.other)
            ops.append(Select(mask, ops[-1].results[0], other, location=place))
        return [*ops[:-1], attrs.evolve(ops[-1], results=load.op.results)]

    def _scalar_parameters(self) -> tuple[Value, ...]:
        """The header's parameters for scalars: those of its own iteration, and of the following
        ones that are loaded already."""
        values = [op.results[0] for op in self.scalars]
        more = [Value(v.type) for _ in range(self.count - 2) for v in values]
        return (*values, *more)

    def _load_scalars(
        self, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> list[Operand]:
        """The scalars of the iteration with the values `env`, which may not run."""
        return [self.ahead.load(x, env, valid, ops, zero=True) for x in self.scalars]

    def clean_up(self, function: Function) -> Function:
        """Wait for the copies in flight at the loop's exits: the bytes of the buffers may be reused
        afterwards."""
        blocks = dict(function.blocks)
        for label in sorted({target for _, target in self.loop.exits}):
            block = blocks[label]
            blocks[label] = attrs.evolve(block, ops=(AsyncWait(pending=0), *block.ops))
        return dce(function.with_blocks(blocks))

    # Ops of an iteration --------------------------------------------------------------------

    def on_entry(self, ops: list[Op]) -> list[Operand]:
        """Emit ops after the copies of the first stages; returns the arguments for `parameters`."""
        stage = constant(I32, 0)
        for value, buffer in self.fixed.items():
            ops.append(LocalStore(value, buffer.results[0], stage, location=buffer.location))
        return []

    def parameters(self) -> tuple[Value, ...]:
        """Parameters of the header in addition to the lookahead's and the stages."""
        return ()

    def start_iteration(self, write: Value, ops: list[Op]) -> list[Operand]:
        """Wait for this iteration's stages and issue the copies into free ones; the lookahead's
        arguments for the next iteration. Dots by multiply-adds, which are many instructions, load
        their first operands before the copies."""
        self.wait_for_stages(ops)
        if self.refills:
            issued: list[Op] = []
            following = self.issue_copies(write, issued)
            feeding = _feeding_loads(issued)
            ops += [op for op in issued if op in feeding]
            self.refilling_copies = [op for op in issued if op not in feeding]
            return following
        dots = [dot for load in self.loads for dot in load.dots]
        at_once = not dots or any(mma_of(dot) is not None for dot in dots)
        return self.issue_copies(write, ops if at_once else self.deferred_copies)

    def list_of(self, op: Op, ops: list[Op]) -> list[Op]:
        """The list in which `op`, of an iteration whose ops so far are `ops`, is next."""
        return ops

    def barrier(self) -> BlockBarrier:
        """A barrier between copies and reads of a stage by different threads."""
        return BlockBarrier(warp=self.one_warp)

    def wait_for_stages(self, ops: list[Op]) -> None:
        """Wait until the oldest stages in flight are filled by all threads."""
        ops += [AsyncWait(pending=self.count - 2), self.barrier()]

    def issue_copies(self, write: Value, ops: list[Op]) -> list[Operand]:
        """Issue the copies into the free stages."""
        ahead = self.ahead
        state, valid = ahead.carried_state()
        env, valid = ahead.compute_iteration(state, valid, ops)
        self._copies(env, valid, write, ops)
        self.following_scalars = self._load_scalars(env, valid, ops)
        if not ahead.tested_first:
            valid = ahead.conjunction(valid, env, ops)
        return ahead.header_arguments(ahead.advance(env), valid)

    def _copies(
        self, env: dict[Value, Operand], valid: Operand | None, stage: Operand, ops: list[Op]
    ) -> None:
        for load, buffer in zip(self.loads, self.buffers, strict=True):
            pointer = env.get(cast(Value, load.op.pointer), load.op.pointer)
            mask = self.ahead.mask(load.op, env, valid, ops)
            if shape_of(load.op.pointer.type) != load.place.shape:
                pointer, mask = (self._as_row(v, load, ops) for v in (pointer, mask))
            place = self.stage_of(load, stage)
            ops.append(
                AsyncCopy(pointer, buffer.results[0], place, mask, location=load.op.location)
            )
        ops.append(AsyncCommit())

    def _as_row(self, vector: Operand | None, load: StagedLoad, ops: list[Op]) -> Any:
        """The pointers or the mask of a vector as those of a row."""
        if vector is None:
            return None
        kind = Tile(cast(Tile, vector.type).element, load.place.shape)
        if isinstance(vector, Constant):
            return Constant(kind, vector.bits)
        ops.append(Reshape(vector, kind, location=load.op.location))
        return ops[-1].results[0]

    def _next(self, stage: Value, ops: list[Op], depth: int = 0) -> Operand:
        """The stage after `stage` in a circular buffer of `depth` stages, 0 for as many as most
        have."""
        depth = depth or self.depth
        if depth == 1:
            return constant(I32, 0)
        more = Add(stage, constant(I32, 1))
        full = ICmp(more.results[0], constant(I32, depth), predicate_=IntegerPredicate.EQ)
        following = Select(full.results[0], constant(I32, 0), more.results[0])
        ops += [more, full, following]
        return following.results[0]

    # Dots -----------------------------------------------------------------------------------

    def _transposes(self, op: Op) -> bool:
        """Whether `op` only transposes what dots read from a stage."""
        if not _swaps(op) or op.value not in self.staged:
            return False
        readers = uses(self.function).get(op.results[0], ())
        return all(isinstance(x, Dot) and op.results[0] is not x.c for x in readers)

    def source(self, operand: Operand) -> tuple[int, bool] | None:
        """The number of the load that an operand comes from, and whether it is transposed."""
        source = source_of(self.function, self.staged, operand)
        return None if source is None else (self.loads.index(source[0]), source[1])

    def dot(self, dot: Dot, stages: tuple[Value, Operand], ops: list[Op]) -> list[Operand]:
        """Emit the dot, by steps of K where both operands are in buffers; `stages` are this
        iteration's and the next one's. Arguments for `parameters`."""
        pair = (dot.a, dot.b)
        sources, fixed = [self.source(x) for x in pair], [self._fixed_source(x) for x in pair]
        depth = shape_of(dot.a.type)[1]
        in_buffers = all(x or y for x, y in zip(sources, fixed, strict=True))
        step = step_of(dot) if in_buffers else depth
        if step >= depth or depth % step:
            step = depth
        total = dot.c
        for start in range(0, depth, step):
            operands = list[Operand]()
            for operand, source, stored, dim in zip(pair, sources, fixed, (1, 0), strict=True):
                part = operand
                if stored is not None:
                    part = self._part_of_fixed(stored, dim, (start, step), ops)
                elif source is not None:
                    part = self.part(source, dim, (start, step), stages[0], ops)
                operands.append(part)
            self._flush(ops)
            total = self.add_step(dot, operands, total, last=start + step == depth, ops=ops)
        return []

    def _fixed_source(self, operand: Operand) -> tuple[SharedAlloc, bool] | None:
        """The buffer of an operand that is stored before the loop, and whether it holds the operand
        transposed."""
        if not self.fixed or not isinstance(operand, Value):
            return None
        if operand in self.fixed:
            return self.fixed[operand], False
        op = self.origin.get(operand)
        if _swaps(op) and op.value in self.fixed:
            return self.fixed[op.value], True
        return None

    def _part_of_fixed(
        self, stored: tuple[SharedAlloc, bool], dim: int, steps: tuple[int, int], ops: list[Op]
    ) -> Operand:
        """The slice of a stored operand along its dimension `dim`, which is K: `steps` are its
        first element and its length."""
        (buffer, transposed), (start, step) = stored, steps
        place = SharedTile.of(buffer)
        dim = 1 - dim if transposed else dim
        shape, offsets = list(place.shape), [0, 0]
        shape[dim], offsets[dim] = step, start
        kind = Tile(place.element, tuple(shape))
        op: Op = LocalLoad(buffer.results[0], constant(I32, 0), kind, offsets=tuple(offsets))
        ops.append(op)
        if transposed:
            op = Trans(op.results[0], order=(1, 0))
            ops.append(op)
        return op.results[0]

    def _flush(self, ops: list[Op]) -> None:
        """Issue the deferred copies."""
        ops += self.deferred_copies
        self.deferred_copies.clear()

    def add_step(
        self, dot: Dot, operands: list[Operand], total: Operand, *, last: bool, ops: list[Op]
    ) -> Operand:
        """Emit one step of the dot; returns its accumulator."""
        step = dot.evolve(a=operands[0], b=operands[1], c=total, results=())
        step = attrs.evolve(step, results=dot.results if last else ())
        ops.append(step)
        return step.results[0]

    def part(
        self, source: tuple[int, bool], dim: int, steps: tuple[int, int], stage: Operand,
        ops: list[Op],
    ) -> Operand:  # fmt: skip
        """The slice of an operand along its dimension `dim`, which is K: `steps` are its first
        element and its length."""
        (number, transposed), (start, step) = source, steps
        load = self.loads[number]
        dim = 1 - dim if transposed else dim
        shape, offsets = list(load.place.shape), [0, 0]
        shape[dim], offsets[dim] = step, start
        kind = Tile(load.place.element, tuple(shape))
        op: Op = LocalLoad(
            self.buffers[number].results[0], self.stage_of(load, stage), kind,
            offsets=tuple(offsets), location=load.op.location,
        )  # fmt: skip
        ops.append(op)
        if transposed:
            op = Trans(op.results[0], order=(1, 0))
            ops.append(op)
        return op.results[0]


def are_read_in_one_block(function: Function, loads: Sequence[StagedLoad]) -> bool:
    """Whether dots by `mma` and other ops read all stages in the block of the loads, so that a loop
    may refill them."""
    place, readers = defining_blocks(function), uses(function)
    blocks = {place[load.op.results[0]] for load in loads}
    pending = [load.op.results[0] for load in loads]
    while pending:
        for op in readers.get(pending.pop(), ()):
            blocks |= {place[v] for v in op.results[:1]}
            pending += op.results if isinstance(op, Trans) else ()
    dots = [dot for load in loads for dot in load.dots]
    return len(blocks) == 1 and all(mma_of(dot) is not None for dot in dots)


def _feeding_loads(ops: Sequence[Op]) -> set[Op]:
    """The loads among `ops`, and what their operands are computed from."""
    feeding, needed = set[Op](), set[Operand]()
    for op in reversed(ops):
        if isinstance(op, Load) or any(v in needed for v in op.results):
            feeding.add(op)
            needed.update(op.operands)
    return feeding


def source_of(
    function: Function, staged: Mapping[Value, StagedLoad], operand: Operand
) -> tuple[StagedLoad, bool] | None:
    """The load that an operand comes from, by the values of those that are `staged`, and whether
    it is transposed; None for other operands."""
    if not isinstance(operand, Value):
        return None
    if operand in staged:
        return staged[operand], False
    op = definitions(function).get(operand)
    if _swaps(op) and isinstance(op.value, Value) and op.value in staged:
        return staged[op.value], True
    return None


def _swaps(op: Op | None) -> TypeGuard[Trans]:
    """Whether `op` exchanges rows and columns."""
    return isinstance(op, Trans) and tuple(op.order) == (1, 0)


def dots_of(function: Function, loop: Loop) -> list[Dot]:
    """The dots of a loop and of those in it."""
    return [op for label in loop.order for op in function.blocks[label].ops if isinstance(op, Dot)]


def in_one_loop(function: Function, load: Op, dots: Sequence[Op]) -> bool:
    """Whether `dots` are in the innermost loop of a load."""
    place, innermost = defining_blocks(function), loops(function).innermost
    return len({innermost.get(place[op.results[0]]) for op in (load, *dots)}) == 1


def passed_on(function: Function, op: Op, value: Value) -> list[Value]:
    """The parameters to which `op` passes `value` within an iteration of its loop."""
    if not op.successors:
        return []
    place, innermost = defining_blocks(function), loops(function).innermost
    header = innermost.get(place[value])
    return [
        v for v in passed_to(function, op, value)
        if innermost.get(place[v]) == header != place[v]
    ]  # fmt: skip


def step_of(dot: Dot) -> int:
    """Elements of K per step: the K of the instruction, or of two of them where `ldmatrix` then
    loads 4 matrices and not 2; 16 for multiply-adds."""
    instruction = mma_of(dot)
    if instruction is None:
        return 16
    pairs = reads_words_of_bytes(dot) and shape_of(dot.a.type)[-1] % (2 * instruction.k) == 0
    return 2 * instruction.k if pairs else instruction.k
