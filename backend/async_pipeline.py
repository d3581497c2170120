"""Pipelining through shared memory: the loads that feed dots become asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions, homes, uses
from tileir.backend.ahead import Ahead
from tileir.backend.contiguity import Contiguity
from tileir.backend.mma import instruction
from tileir.backend.shared import SharedTile, full_swizzle
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.compare import ICmp, IntegerPredicate, Select
from tileir.ops.dot import Dot
from tileir.ops.gpu import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    LocalLoad,
    SharedAlloc,
)
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.passes.dce import dce
from tileir.passes.edges import add_preheader, map_edges, with_arguments
from tileir.passmanager.registry import Outcome, pass_, remark
from tileir.types import F32, F64, I32, AddressSpace, Pointer, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant


@pass_("async-pipeline")
def async_pipeline(function: Function, *, stages: int = 0, shared: int = 98304) -> Outcome:
    """Let copies into shared memory run `stages - 1` iterations ahead of the dots that need them.

    A load in a loop that only feeds dots becomes a buffer of `stages` slots: before the loop the
    first slots are filled, and every iteration waits for its own, passes one barrier, begins to
    fill the slot that the iteration before has read, and takes fragments from its own slot, a
    step of K at a time. `stages` 0 is as many as `shared` bytes hold, 4 at most. `stages` of a
    latch's branch wins over the option; with 1 the loop stays as it is.

    A loop takes part if it has one latch, leaves from there or from its header, and neither writes
    memory nor synchronises; a load, if threads can copy 4 bytes or more of it at a time, what
    masks leave out is zero, and its address is computed without effects. Others stay as they
    are, with a remark.
    """
    remarks: list[Diagnostic] = []
    count = 0
    for header in tuple(loops(function).by_header):
        loop = loops(function).by_header.get(header)
        if loop is None:
            continue
        changed = _pipelined(function, loop, stages, shared, remarks)
        count += changed is not function
        function = changed
    return Outcome(function, tuple(remarks), {"loops pipelined": count} if count else {})


def _pipelined(
    function: Function, loop: Loop, stages: int, shared: int, remarks: list[Diagnostic]
) -> Function:
    found = list(_staged_loads(function, loop))
    if not found or loop.latch is None:
        return function
    asked = getattr(function.blocks[loop.latch].terminator, "stages", None)
    wanted = asked or stages
    reason = _obstacle(function, loop)
    ahead = Ahead.of(function, loop) if reason is None else None
    if isinstance(ahead, str):
        reason, ahead = ahead, None
    loads: list[_Staged] = []
    for load in found if ahead is not None else ():
        why = "the other factor is no load" if _alone(load, found) else ahead.add(load.op)
        if why is None:
            loads.append(load)
        else:
            remarks.append(remark("TIR0653", f"not pipelined: {why}", load.op.location))
    each = sum(load.place.bytes for load in loads)
    if ahead is None or not loads:
        remarks.extend(remark("TIR0653", f"not pipelined: {reason}", x.op.location) for x in found)
        return function
    count = wanted or max(2, min(4, shared // each))
    return _Rewriting(function, loop, loads, ahead, count).apply() if count > 1 else function


@attrs.frozen
class _Staged:
    """A load that becomes a buffer: where a slot lies in shared memory, and the dots it feeds."""

    op: Load
    place: SharedTile
    dots: tuple[Dot, ...]


def _staged_loads(function: Function, loop: Loop) -> Iterator[_Staged]:
    contiguity = Contiguity.of(function)
    for label in function.blocks:
        if label not in loop.blocks:
            continue
        for op in function.blocks[label].ops:
            if isinstance(op, Load) and (found := _staged(function, loop, op, contiguity)):
                yield found


def _staged(function: Function, loop: Loop, op: Load, contiguity: Contiguity) -> _Staged | None:
    tile = op.results[0].type
    dots = _fed(function, op.results[0], transposed=False)
    if dots is None or not isinstance(tile, Tile) or len(tile.shape) != 2:
        return None
    if op.volatile or op.predicate is not None or not _zero(op.other):
        return None
    place = homes(function)
    if any(place[dot.results[0]] != place[op.results[0]] for dot, _ in dots):
        return None
    fast = _fast(op, contiguity)
    if contiguity.width(op, fast) * tile.element.bytes < 4:
        return None
    return _Staged(op, _slot(tile, fast, dots), tuple(dot for dot, _ in dots))


def _alone(load: _Staged, found: list[_Staged]) -> bool:
    """Whether a dot by multiply-adds takes its other factor from somewhere else."""
    feeding = [dot for other in found if other is not load for dot in other.dots]
    return any(_mma(dot) is None and dot not in feeding for dot in load.dots)


def _slot(tile: Tile, fast: int, dots: list[tuple[Dot, int]]) -> SharedTile:
    """Rows along the direction of the load; swizzled where several rows are read at once."""
    swizzle = full_swizzle(tile.element, tile.shape, fast)
    for dot, k in dots:
        if _mma(dot) is None and fast != k:
            swizzle = 0
    return SharedTile(tile.element, tile.shape, fast, swizzle)


def _fast(op: Load, contiguity: Contiguity) -> int:
    runs = contiguity.runs(op.pointer)
    shape = shape_of(op.pointer.type)
    return max((1, 0), key=lambda d: min(runs[d], shape[d]))


def _fed(function: Function, value: Value, *, transposed: bool) -> list[tuple[Dot, int]] | None:
    """The dots that take `value` as a factor, with the dimension of the load that is K; None
    where something else reads it."""
    found: list[tuple[Dot, int]] = []
    readers = uses(function).get(value, ())
    for op in readers:
        if isinstance(op, Dot) and value is not op.c:
            k = 1 if value is op.a else 0
            found.append((op, 1 - k if transposed else k))
        elif isinstance(op, Trans) and not transposed:
            inner = _fed(function, op.results[0], transposed=True)
            if inner is None:
                return None
            found += inner
        else:
            return None
    return found if found and all(_worth(dot) for dot, _ in found) else None


def _worth(dot: Dot) -> bool:
    """Whether the dot can take its factors from registers: by `mma`, or both from buffers."""
    return len(dot.c.type.shape) == 2 and element_of(dot.a.type).bits >= 8  # type: ignore[union-attr]


def _mma(dot: Dot) -> Any:
    return instruction(cast(Any, element_of(dot.a.type)), dot.precision.value)


def _zero(other: Operand | None) -> bool:
    return other is None or (isinstance(other, Constant) and not other.bits)


def _obstacle(function: Function, loop: Loop) -> str | None:
    """What keeps a whole loop from being pipelined."""
    if loop.latch is None:
        return "the loop has several back edges"
    if len(loop.exits) != 1 or loop.exits[0][0] not in (loop.latch, loop.header):
        return "the loop leaves from elsewhere than its header or its end"
    for label in loop.blocks:
        for op in function.blocks[label].ops:
            if op.effects.value & (Effects.WRITE | Effects.SYNC).value:
                return f"{op.mnemonic} in the loop may change what is read"
    return None


class _Rewriting:
    """One loop whose loads become copies `count - 1` iterations ahead."""

    def __init__(
        self, function: Function, loop: Loop, loads: list[_Staged], ahead: Ahead, count: int
    ) -> None:
        self.function, self.loop, self.loads = function, loop, loads
        self.ahead, self.count = ahead, count
        self.origin = definitions(function)
        self.buffers = [self._buffer(load) for load in loads]
        self.by_value = {load.op.results[0]: i for i, load in enumerate(loads)}

    def _buffer(self, load: _Staged) -> SharedAlloc:
        place = load.place
        kind = Pointer(place.element, AddressSpace.SHARED)
        shape = (self.count, *place.shape)
        return SharedAlloc(
            kind, shape=shape, fast=place.fast, swizzle=place.swizzle, location=load.op.location
        )

    def apply(self) -> Function:
        """The function with the copies issued ahead."""
        function, before = self.function, self.loop.preheader
        if before is None:
            function, before = add_preheader(function, self.loop.header, self.loop.blocks)
        blocks = dict(function.blocks)
        self._before_loop(blocks, before)
        self._in_loop(blocks)
        return dce(function.with_blocks(blocks))

    def _before_loop(self, blocks: dict[str, Block], label: str) -> None:
        """Fill the first slots at the end of block `label`."""
        block, ahead = blocks[label], self.ahead
        ops: list[Op] = [*block.ops[:-1], *self.buffers]
        state, valid = ahead.entering(block), cast("Operand | None", None)
        for slot in range(self.count - 1):
            env = ahead.computed(state, ops)
            if ahead.tested_first:
                valid = ahead.both(valid, env, ops)
            self._copies(env, valid, constant(I32, slot), ops)
            if not ahead.tested_first:
                valid = ahead.both(valid, env, ops)
            state = ahead.advanced(env)
        given = [*ahead.passed(state, valid), constant(I32, 0), constant(I32, self.count - 1)]
        last = self._passing(block.terminator, given)
        blocks[label] = attrs.evolve(block, ops=(*ops, last))

    def _in_loop(self, blocks: dict[str, Block]) -> None:
        ahead, latch = self.ahead, cast(str, self.loop.latch)
        read, write = Value(I32, "read"), Value(I32, "write")
        header = blocks[self.loop.header]
        parameters = (*header.parameters, *ahead.parameters, read, write)
        blocks[self.loop.header] = attrs.evolve(header, parameters=parameters)
        home = homes(self.function)[self.loads[0].op.results[0]]
        block = blocks[home]
        ops: list[Op] = []
        first = min(block.ops.index(load.op) for load in self.loads)
        taken = {load.op for load in self.loads}
        passed: list[Operand] = []
        for index, op in enumerate(block.ops):
            if index == first:
                passed = self._issue(write, ops)
                passed += [self._next(read, ops), self._next(write, ops)]
            if isinstance(op, Dot):
                self._dot(op, read, ops)
            elif op not in taken and not self._transposes(op):
                ops.append(op)
        blocks[home] = attrs.evolve(block, ops=tuple(ops))
        block = blocks[latch]
        last: Any = self._passing(block.terminator, passed)
        blocks[latch] = attrs.evolve(block, ops=(*block.ops[:-1], last.evolve(stages=1)))

    def _issue(self, write: Value, ops: list[Op]) -> list[Operand]:
        """Wait for this iteration's slots and begin to fill those that are free; what the next
        iteration gets."""
        ahead = self.ahead
        ops += [AsyncWait(pending=self.count - 2), Barrier()]
        state, valid = ahead.carried()
        env = ahead.computed(state, ops)
        if ahead.tested_first:
            valid = ahead.both(valid, env, ops)
        self._copies(env, valid, write, ops)
        if not ahead.tested_first:
            valid = ahead.both(valid, env, ops)
        return ahead.passed(ahead.advanced(env), valid)

    def _copies(
        self, env: dict[Value, Operand], valid: Operand | None, slot: Operand, ops: list[Op]
    ) -> None:
        for load, buffer in zip(self.loads, self.buffers, strict=True):
            pointer = env.get(cast(Value, load.op.pointer), load.op.pointer)
            mask = self.ahead.mask(load.op, env, valid, ops)
            ops.append(AsyncCopy(pointer, buffer.results[0], slot, mask, location=load.op.location))
        ops.append(AsyncCommit())

    def _next(self, slot: Value, ops: list[Op]) -> Operand:
        """The slot after `slot`, round and round."""
        more = Add(slot, constant(I32, 1))
        full = ICmp(more.results[0], constant(I32, self.count), predicate_=IntegerPredicate.EQ)
        found = Select(full.results[0], constant(I32, 0), more.results[0])
        ops += [more, full, found]
        return found.results[0]

    # Dots -----------------------------------------------------------------------------------

    def _transposes(self, op: Op) -> bool:
        return isinstance(op, Trans) and op.value in self.by_value

    def _source(self, operand: Operand) -> tuple[int, bool] | None:
        """The number of the load that a factor comes from, and whether it is transposed."""
        if operand in self.by_value:
            return self.by_value[cast(Value, operand)], False
        op = self.origin.get(operand) if isinstance(operand, Value) else None
        if isinstance(op, Trans) and op.value in self.by_value:
            return self.by_value[cast(Value, op.value)], True
        return None

    def _dot(self, dot: Dot, read: Value, ops: list[Op]) -> None:
        """The dot, by steps of K where both factors are in buffers."""
        sources = self._source(dot.a), self._source(dot.b)
        depth = shape_of(dot.a.type)[1]
        step = _step(dot) if None not in sources else depth
        if step >= depth or depth % step:
            step = depth
        total = dot.c
        for start in range(0, depth, step):
            factors = [
                operand if source is None else self._part(source, dim, start, step, read, ops)
                for operand, source, dim in zip((dot.a, dot.b), sources, (1, 0), strict=True)
            ]
            results = dot.results if start + step == depth else ()
            made = dot.evolve(a=factors[0], b=factors[1], c=total, results=())
            made = attrs.evolve(made, results=results)
            ops.append(made)
            total = made.results[0]

    def _part(
        self, source: tuple[int, bool], dim: int, start: int, step: int, read: Value,
        ops: list[Op],
    ) -> Operand:  # fmt: skip
        """`step` of K from `start` of a factor whose dimension `dim` is K."""
        number, transposed = source
        load = self.loads[number]
        dim = 1 - dim if transposed else dim
        shape, offsets = list(load.place.shape), [0, 0]
        shape[dim], offsets[dim] = step, start
        kind = Tile(load.place.element, tuple(shape))
        made: Op = LocalLoad(
            kind, self.buffers[number].results[0], read, offsets=tuple(offsets),
            location=load.op.location,
        )  # fmt: skip
        ops.append(made)
        if transposed:
            made = Trans(made.results[0], order=(1, 0))
            ops.append(made)
        return made.results[0]

    def _passing(self, terminator: Op, given: Iterable[Operand]) -> Op:
        more = tuple(given)
        return map_edges(
            terminator, lambda e: with_arguments(e, more) if e.label == self.loop.header else e
        )


def _step(dot: Dot) -> int:
    """Steps of K done with fragments that are held together."""
    found = _mma(dot)
    if found is not None:
        return found.k
    return 4 if element_of(dot.a.type) in (F32, F64) else 8
