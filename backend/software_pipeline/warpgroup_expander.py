"""Rewriting of a loop whose dots are computed by warpgroups from tiles that are copied ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import cast

import attrs

from tileir.analysis.divided_loops import is_persistent
from tileir.analysis.loops import Loop
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.backend.layouts.shape_ops import is_layout_only
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.software_pipeline.accumulator_readers import conditional_readers
from tileir.backend.software_pipeline.expand import (
    NO_TILES,
    PipelineExpander,
    StagedLoad,
    dots_of,
    source_of,
)
from tileir.backend.software_pipeline.occupancy import (
    blocks_with_dots,
    is_stage_free,
    stages_of_warpgroups,
)
from tileir.backend.software_pipeline.overlap_wgmma import overlap_wgmma
from tileir.backend.software_pipeline.promoted_wgmma import accumulates_once, wgmma_and_wait
from tileir.backend.software_pipeline.store_plan import Stored
from tileir.backend.software_pipeline.warpgroup_dots import (
    WarpgroupOperands,
    stage_in_panels,
    stored_place,
)
from tileir.backend.target import Target
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import AsyncCopy, AsyncWait, BlockBarrier, LocalStore, SharedAlloc
from tileir.ops.hopper import AsyncFence, Wgmma
from tileir.ops.memory import Load
from tileir.passes.lookahead import Lookahead
from tileir.types import I32, Tile
from tileir.values import Operand, Value, constant


class WarpgroupExpander(PipelineExpander):
    """One loop whose loads become copies ahead, some of whose dots are computed by warpgroups.

    Every iteration waits for its stages, fences them for the asynchronous proxy and passes a
    barrier. It begins to fill the free stages after the first `wgmma`. With four stages or more, an
    iteration with a single dot waits for the next one's stages and fences them while its `wgmma`
    runs. After the last of several dots the fence gains nothing: attention takes 3 % longer.

    An iteration each of whose dots takes both operands from shared memory and adds to a sum that
    only this dot needs, and branches that reset it, waits for those of the iteration before, and
    passes a second barrier before it fills the stages which those have read. The first barrier and
    its fence follow the copies just issued. If there is one such dot, four stages or more, and the
    copies take long, the second barrier serves the next iteration, too: its stages are waited for
    and fenced before the copies of this one are issued. In a loop with a single dot, vectors are
    read from shared memory while its `wgmma` runs; with several dots, registers hold what passes
    between them. Where threads store operand B, what they have read of stages before the barrier
    of these stores is free after it: such a buffer has one stage less. What the addresses of the
    copies are loaded from, such as indices of rows, is loaded before the first `wgmma`.

    An iteration that stores to memory first, such as the state of a recurrence, waits, fences and
    passes the barrier before these stores, and begins to fill the free stages there.
    """

    def __init__(
        self, function: Function, loop: Loop, loads: list[StagedLoad], ahead: Lookahead, count: int,
        dots: Mapping[Dot, WarpgroupOperands], *, warps: int, scalars: tuple[Load, ...] = (),
        fixed: Mapping[Value, SharedTile] = NO_TILES, machine: Target | None = None,
        following: Sequence[Load] = (),
    ) -> None:  # fmt: skip
        self.by_warpgroups = dots
        self.alone = _are_alone(function, loop, loads, dots)
        """Whether nothing but the next iteration's dots needs the results of an iteration's."""
        self.has_one_barrier = False
        """Whether the barrier before the copies is that of the next iteration's stages, too."""
        self.is_persistent = is_persistent(function)
        count = self._best_stages(loads, count, warps, machine, fixed)
        self.stored_together = _stored_together(function, dots)
        """Dots whose operands B threads store before the first of them, under one barrier."""
        if machine is not None and not self._are_free(loads, count, warps, machine):
            self.stored_together = self.stored_together[:1]
        self.refilled = _refilled_loads(function, loop, loads, self.stored_together)
        self.refilled &= self._worth_refilling(loads, count, warps, machine)
        """Loads whose buffers the copies of an iteration refill after it has read them."""
        self.refilled_stage = Value(I32, "refilled")
        placed = [
            attrs.evolve(x, place=stage_in_panels(function, x, warps) or x.place)
            if dots.keys() & {*x.dots}
            else x
            for x in loads
        ]
        super().__init__(function, loop, placed, ahead, count, scalars=scalars, fixed=fixed)
        self.a_buffers = {
            dot: cast(SharedTile, stored_place(cast(Tile, dot.a.type), 1)).allocate(
                location=dot.location
            )
            for dot, where in dots.items()
            if where.a_stored
        }
        self.b_buffers = self._allocate_b()
        operands = [where.b_fixed for where in dots.values() if where.b_fixed is not None]
        self.fixed_buffers: dict[Stored, SharedAlloc] = {
            key: key[1].allocate() for key in dict.fromkeys(x.key for x in operands)
        }
        """The buffers of operands that the loop does not change, by operand and placement."""
        self.stored += [
            *self.a_buffers.values(), *dict.fromkeys(self.b_buffers.values()),
            *self.fixed_buffers.values(),
        ]  # fmt: skip
        place = defining_blocks(function)
        label = place[loads[0].op.results[0]]
        self.is_single = len(dots_of(function, loop)) == 1
        self.waits: list[Op] = []
        """For the dots of an iteration that are `alone`."""
        self.is_fenced = _reads_stages_first(function.blocks[label], dots)
        """Whether a `wgmma` reads stages before the fence of an operand that threads store."""
        same_block = all(place[dot.results[0]] == label for dot in dots)
        self.following = _with_views(function, following)
        """Loads for the next iteration, and what sees their results in another shape."""
        self.stores_before_wait = self._stores_before_reading(function.blocks[label])
        """Whether the stages are waited for after threads have computed and stored an operand."""
        may_be_ahead = self.is_single and same_block and count > _FEWEST_STAGES
        self.fences_ahead = self.is_fenced and may_be_ahead and not self.alone
        """Whether the stages of the next iteration are waited for and fenced during the `wgmma`."""

    def _best_stages(
        self, loads: Sequence[StagedLoad], count: int, warps: int, machine: Target | None,
        fixed: Mapping[Value, SharedTile],
    ) -> int:  # fmt: skip
        """The stages of the loop for which `count` were requested: one more where it is free, or
        one less for another resident block."""
        dots, each = self.by_warpgroups, sum(load.place.bytes for load in loads)
        (dot, *more) = dots
        if self.alone and not more and count >= _FEWEST_STAGES:
            return self._stages_of_one(dot, loads, count, warps, machine)
        if more and not self.alone and machine is not None:
            others = self._bytes_besides_stages(fixed)
            return stages_of_warpgroups(dots, count, each, others, warps, machine)
        return count

    def _stages_of_one(
        self, dot: Dot, loads: Sequence[StagedLoad], count: int, warps: int, machine: Target | None
    ) -> int:
        """The stages of a loop whose only dot is `alone`. It has one barrier if this costs nothing,
        or copies take long. With enough resident blocks, which multiply in the meantime, it waits
        for its own `wgmma`, if this leaves as many copies in flight. Of a persistent kernel fewer
        blocks are resident than fit."""
        each, deep = sum(load.place.bytes for load in loads), count > _FEWEST_STAGES
        free = deep and machine is not None and is_stage_free(dot, count, each, warps, machine)
        self.has_one_barrier = free or (deep and _have_short_rows(loads))
        if machine is not None and not self.is_persistent and (self.has_one_barrier or not deep):
            blocks = blocks_with_dots((dot,), count * each, warps, machine)
            if blocks >= _ENOUGH_BLOCKS:
                self.alone = self.has_one_barrier = False
                return count
        return count + free

    def apply(self) -> Function:
        """The function with the copies issued ahead, and a `wgmma` in flight if that is
        possible."""
        changed = super().apply()
        overlapped = self.alone and overlap_wgmma(changed, self.loop.header, refills=True)
        return overlapped or changed

    def _allocate_b(self) -> dict[Dot, SharedAlloc]:
        """The buffers of operands B that threads store, one for those that are alike."""
        buffers: dict[Dot, SharedAlloc] = {}
        for dot, where in self.by_warpgroups.items():
            if where.b_place is not None:
                alike = (x for x in buffers if self._stores_alike(x, dot))
                buffer = buffers.get(next(alike, dot))
                buffers[dot] = buffer or where.b_place.allocate(location=dot.location)
        return buffers

    def depth_of(self, load: StagedLoad) -> int:
        return self.depth - (load.op in self.refilled)

    def stage_of(self, load: StagedLoad, stage: Operand) -> Operand:
        in_loop = isinstance(stage, Value)
        return self.refilled_stage if in_loop and load.op in self.refilled else stage

    def parameters(self) -> tuple[Value, ...]:
        return (self.refilled_stage,) if self.refilled else ()

    # Ops of an iteration --------------------------------------------------------------------

    def on_entry(self, ops: list[Op]) -> list[Operand]:
        stage = constant(I32, 0)
        super().on_entry(ops)
        for dot, buffer in self.a_buffers.items():
            ops.append(LocalStore(dot.a, buffer.results[0], stage, location=dot.location))
        for (value, _), buffer in self.fixed_buffers.items():
            ops.append(LocalStore(value, buffer.results[0], stage))
        if self.fences_ahead or self.has_one_barrier:
            self._fence_stages(ops)
        elif self.a_buffers or self.fixed_buffers:
            ops.append(AsyncFence())
        if self.has_one_barrier:
            ops.append(BlockBarrier())
        return [stage] if self.refilled else []

    @cached_property
    def copies_first(self) -> bool:
        """Whether an iteration writes memory before its first load that is copied ahead, and its
        copies precede that: no `wgmma` is in flight then, and no later fence waits for them."""
        stores_b = any(x.b_place is not None for x in self.by_warpgroups.values())
        if self.alone or self.fences_ahead or stores_b or not self.is_fenced:
            return False
        staged = {x.op: x for x in self.loads}
        label = defining_blocks(self.function)[self.loads[0].op.results[0]]
        before = takewhile(lambda op: op not in staged, self.function.blocks[label].ops)
        return any(op.effects & Effects.WRITE for op in before)

    def wait_for_stages(self, ops: list[Op]) -> None:
        if self.has_one_barrier:
            return
        if not self.fences_ahead:
            waits: list[Op] = []
            self._fence_stages(waits)
            place = _first_access(ops) if self.is_fenced else len(ops)
            ops[place:place] = waits
        ops.append(BlockBarrier())

    def _fence_stages(self, ops: list[Op]) -> None:
        """Wait for this thread's copies into the oldest stages in flight, and let `wgmma` see
        them."""
        if not self.stores_before_wait:
            ops.append(AsyncWait(pending=self.count - 2))
        if self.is_fenced:
            ops.append(AsyncFence())

    def start_iteration(self, write: Value, ops: list[Op]) -> list[Operand]:
        copies: list[Op] = []
        following = self.issue_copies(write, copies)
        if self.copies_first:
            waits: list[Op] = []
            self.wait_for_stages(waits)
            place = _first_access(ops)
            ops[place:place] = [*waits, *copies]
            return following
        self.wait_for_stages(ops)
        first = next(i for i, op in enumerate(copies) if isinstance(op, AsyncCopy))
        loads = [i for i in range(first) if isinstance(copies[i], Load)]
        count = loads[-1] + 1 if loads else 0
        ops += copies[:count]  # what addresses are loaded from, such as indices of rows
        self.deferred_copies += copies[count:]
        return following

    def list_of(self, op: Op, ops: list[Op]) -> list[Op]:
        """Loads for the next iteration are issued with its copies: a fence before the first
        `wgmma` would wait for them."""
        goes_later = op in self.following and not any(isinstance(x, Wgmma) for x in ops)
        return self.deferred_copies if goes_later else ops

    # Dots -----------------------------------------------------------------------------------

    def dot(self, dot: Dot, stages: tuple[Value, Operand], ops: list[Op]) -> list[Operand]:
        where = self.by_warpgroups.get(dot)
        if where is None:
            return super().dot(dot, stages, ops)
        b, b_stage, trans_b = self._b(dot, where, stages[0], ops)
        a, a_stage, trans_a = self._a(dot, where, stages[0], ops)
        wgmma = Wgmma(
            a, a_stage, b, b_stage, dot.c, trans_a=trans_a, trans_b=trans_b,
            lhs_signed=dot.lhs_signed, rhs_signed=dot.rhs_signed, location=dot.location,
        )  # fmt: skip
        meanwhile = self.read_vectors(stages[0]) if self.is_single else []
        if self.alone:
            *issued, done = wgmma_and_wait(dot, wgmma, meanwhile)
            ops += issued
            self.waits.append(done)
            if len(self.waits) == len(self.by_warpgroups):
                ops += self.waits
                if self.has_one_barrier:  # the copies of this iteration are not under way yet
                    ops += [AsyncWait(pending=self.count - 3), AsyncFence()]
                ops.append(BlockBarrier())
                self._flush(ops)
            return []
        if self.fences_ahead:
            # A fence waits for all copies and loads under way: those of this iteration follow.
            meanwhile += [AsyncWait(pending=self.count - 3), AsyncFence()]
        self._flush(meanwhile)
        ops += wgmma_and_wait(dot, wgmma, meanwhile)
        if not self.refilled or dot is not self.stored_together[0]:
            return []
        return [self._next(self.refilled_stage, ops, self.depth - 1)]

    def _a(
        self, dot: Dot, where: WarpgroupOperands, stage: Operand, ops: list[Op]
    ) -> tuple[Operand, Operand, bool]:
        """Operand A: its buffer or tile, its stage, and whether it is transposed."""
        none = constant(I32, 0)
        if where.a_stored:
            return self.a_buffers[dot].results[0], none, False
        source = self.source(dot.a)
        if source is None:
            return dot.a, none, False
        if where.a_staged:
            return self.buffers[source[0]].results[0], stage, source[1]
        tile = self.load_tile(source, stage, ops)
        return tile, none, False

    def _b(
        self, dot: Dot, where: WarpgroupOperands, stage: Operand, ops: list[Op]
    ) -> tuple[Operand, Operand, bool]:
        """Operand B. It is stored first if the copies ahead do not have the layout that the
        instruction needs."""
        source = self.source(dot.b)
        if where.b_staged:
            assert source is not None
            return self.buffers[source[0]].results[0], stage, source[1]
        none = constant(I32, 0)
        if where.b_fixed is not None:
            return self.fixed_buffers[where.b_fixed.key].results[0], none, where.b_fixed.transposed
        buffer = self.b_buffers[dot].results[0]
        stored = self.stored_together if dot in self.stored_together else (dot,)
        if dot is not stored[0]:
            return buffer, none, False
        for place, each in {self.b_buffers[x]: x for x in stored}.items():
            source = self.source(each.b)
            value = each.b if source is None else self.load_tile(source, stage, ops)
            ops.append(LocalStore(value, place.results[0], none, location=each.location))
        if self.stores_before_wait and stored == self.stored_together:
            ops.append(AsyncWait(pending=self.count - 2))
        ops += [AsyncFence(), BlockBarrier()]
        return buffer, none, False

    def _bytes_besides_stages(self, fixed: Mapping[Value, SharedTile]) -> int:
        """The bytes of operands that threads store, and of the largest operand A in registers: a
        transposed one passes through shared memory."""
        stored: dict[object, int] = {value: place.bytes for value, place in fixed.items()}
        moved = 0
        for dot, where in self.by_warpgroups.items():
            a = cast(Tile, dot.a.type)
            if where.a_stored:
                stored[dot] = cast(SharedTile, stored_place(a, 1)).bytes
            elif where.a_in_registers:
                moved = max(moved, a.size * a.element.bytes)
            if where.b_fixed is not None:
                stored[where.b_fixed.key] = where.b_fixed.place.bytes
            elif where.b_place is not None:
                stored[dot.b, where.b_place] = where.b_place.bytes
        return sum(stored.values()) + moved

    def _worth_refilling(
        self, loads: Sequence[StagedLoad], count: int, warps: int, machine: Target | None
    ) -> set[Op]:
        """The loads to refill: none where no more blocks are resident with one stage less."""
        if machine is None:
            return self.refilled
        stored = (where.b_place for where in self.by_warpgroups.values())
        tiles = sum(place.bytes for place in stored if place is not None)
        less = sum(load.place.bytes for load in loads if load.op in self.refilled)
        shared = tiles + count * sum(load.place.bytes for load in loads)
        few, many = (
            blocks_with_dots(self.by_warpgroups, each, warps, machine)
            for each in (shared, shared - less)
        )
        return self.refilled if many > few else set()

    def _are_free(
        self, loads: Sequence[StagedLoad], count: int, warps: int, machine: Target
    ) -> bool:
        """Whether as many blocks are resident if operands B are stored together."""
        rings = count * sum(load.place.bytes for load in loads)
        tiles = {
            (dot.b, place): place.bytes
            for dot in self.stored_together
            if (place := self.by_warpgroups[dot].b_place) is not None
        }
        shared = (
            rings + bytes_ for bytes_ in (sum(tiles.values()), max(tiles.values(), default=0))
        )
        together, alone = (
            blocks_with_dots(self.by_warpgroups, each, warps, machine) for each in shared
        )
        return together == alone

    def _stores_alike(self, one: Dot, other: Dot) -> bool:
        """Whether two dots that are stored together have the same operand B."""
        together = {one, other} <= {*self.stored_together}
        places = {self.by_warpgroups[dot].b_place for dot in (one, other)}
        return together and one.b is other.b and len(places) == 1

    def _stores_before_reading(self, block: Block) -> bool:
        """Whether the first dot of `block` is one whose operand B threads store, and what is copied
        ahead is not read before."""
        first = next((op for op in block.ops if isinstance(op, Dot)), None)
        return (
            first in self.stored_together[:1]
            and all(self.source(dot.b) is None for dot in self.stored_together)
            and not any(x.through_registers and x.op not in self.following for x in self.loads)
        )

    def load_tile(self, source: tuple[int, bool], stage: Operand, ops: list[Op]) -> Operand:
        """A load of a whole stage into registers."""
        number, transposed = source
        dim = 0 if not transposed else 1
        depth = self.loads[number].place.shape[0]
        return self.part(source, dim, (0, depth), stage, ops)


def _with_views(function: Function, loads: Sequence[Load]) -> set[Op]:
    """`loads`, and the ops that see their results in another shape."""
    views, waiting = set[Op](loads), [op.result for op in loads]
    while waiting:
        for op in uses(function).get(waiting.pop(), ()):
            if is_layout_only(op):
                views.add(op)
                waiting += op.results
    return views


_ENOUGH_BLOCKS = 3
"""Resident blocks that keep the tensor cores busy while one waits. On an H200, f16 matmuls by tiles
of 64 x 64 x 64 with four blocks took 39.6 to 40.8 us, and 39.2 to 43.1 us where each kept its
`wgmma` in flight over the barrier."""

_MOST_IN_FLIGHT = 4
"""The most dots whose `wgmma`s stay in flight: accumulators of more leave few registers."""


_FEWEST_STAGES = 3
"""With three, one barrier would leave the copies of one iteration in flight."""

_LINE = 128
"""Bytes of a line of a cache."""


def _have_short_rows(loads: Sequence[StagedLoad]) -> bool:
    """Whether half of the copied bytes are in rows shorter than a line: each copy then accesses as
    many lines as two others do, and a fence after the copies takes longer."""
    short = [
        load.place.bytes for load in loads
        if load.place.shape[load.place.fast] * load.place.element.bytes < _LINE
    ]  # fmt: skip
    return 2 * sum(short) >= sum(load.place.bytes for load in loads)


def _are_alone(
    function: Function, loop: Loop, loads: Sequence[StagedLoad],
    dots: Mapping[Dot, WarpgroupOperands],
) -> bool:  # fmt: skip
    """Whether `dots` are all dots of the loop, take both operands from stages, and the loop only
    adds up their results."""
    every, place = dots_of(function, loop), defining_blocks(function)
    label = place[loads[0].op.results[0]]
    return (
        len(every) == len(dots) <= _MOST_IN_FLIGHT
        and all(x.b_is_there and not x.a_in_registers for x in dots.values())
        and all(place[dot.results[0]] == label for dot in dots)
        and all(_is_accumulated(function, loop, dot) for dot in every)
        and _follow_loads(function.blocks[label].ops, dots, loads)
    )


def _stored_together(function: Function, dots: Mapping[Dot, WarpgroupOperands]) -> tuple[Dot, ...]:
    """The dots, in order, whose operands B threads store, and that are in one block and have them
    at the first of these; only the first one where not all do."""
    place, origin = defining_blocks(function), definitions(function)
    stored = {dot for dot, where in dots.items() if where.b_place is not None}
    blocks = {place[dot.results[0]] for dot in stored}
    if len(blocks) != 1:
        return ()
    ops = function.blocks[blocks.pop()].ops
    first, *others = sorted(stored, key=ops.index)
    after = {*ops[ops.index(first) :]}
    if any(origin.get(cast(Value, dot.b)) in after for dot in others):
        return (first,)
    return (first, *others)


def _refilled_loads(
    function: Function, loop: Loop, loads: Sequence[StagedLoad], stored: tuple[Dot, ...]
) -> set[Op]:
    """The loads that threads have read to registers when they pass the barrier before the first dot
    of a loop; all its dots are `stored` before the first one."""
    every, place = dots_of(function, loop), defining_blocks(function)
    if not stored or len(every) != len(stored):
        return set()
    label, staged = place[stored[0].results[0]], {x.op.results[0]: x for x in loads}
    if place[loads[0].op.results[0]] != label:
        return set()  # the copies of an iteration are issued in an earlier block
    ops = function.blocks[label].ops
    before = {*ops[: ops.index(stored[0])]}
    later = set[Op]()
    for dot in stored:
        a, b = (source_of(function, staged, operand) for operand in (dot.a, dot.b))
        later |= {a[0].op} if a is not None else set()
        if b is not None and b[0].through_registers:
            later.add(b[0].op)  # other ops may read it after the dot
    readers = uses(function)
    return {
        x.op
        for x in loads
        if x.dots and place[x.op.results[0]] == label and x.op not in later
        and (not x.through_registers or before & {*readers.get(x.op.results[0], ())})
    }  # fmt: skip


def _follow_loads(
    ops: Sequence[Op], dots: Mapping[Dot, WarpgroupOperands], loads: Sequence[StagedLoad]
) -> bool:
    """Whether all `dots` of a block with these ops follow the first of `loads`."""
    staged = {load.op for load in loads}
    first = next(i for i, op in enumerate(ops) if op in staged)
    return not any(op in dots for op in ops[:first])


def _first_access(ops: Sequence[Op]) -> int:
    """Where among `ops` a fence does not wait for what they write: at their first access if they
    write, else after them."""
    if not any(op.effects & Effects.WRITE for op in ops):
        return len(ops)
    accesses = Effects.READ | Effects.WRITE
    return next(i for i, op in enumerate(ops) if op.effects & accesses)


def _reads_stages_first(block: Block, operands: Mapping[Dot, WarpgroupOperands]) -> bool:
    """Whether one of the dots reads what is copied ahead before threads store an operand, and fence
    it, in the same iteration: where all are in `block`, in its order."""
    dots = [op for op in block.ops if isinstance(op, Dot) and op in operands]
    before = takewhile(lambda x: x.b_is_there, (operands[dot] for dot in dots))
    return len(dots) < len(operands) or any(x.a_staged or x.b_staged for x in before)


def _is_accumulated(function: Function, loop: Loop, dot: Dot) -> bool:
    """Whether the loop passes the result of `dot` on, as the next accumulator, and only a branch
    that resets it reads it."""
    header, total = function.blocks[loop.header], dot.results[0]
    if dot.c not in header.parameters or not accumulates_once(dot):
        return False
    inside = {op for label in loop.blocks for op in function.blocks[label].ops}
    ends = {function.blocks[x].terminator for x in (loop.latch, loop.exits[0][0]) if x is not None}
    return conditional_readers(function, loop, dot.c, total) is not None and all(
        op is dot or op in ends for op in uses(function).get(dot.c, ()) if op in inside
    )
