"""Pipelining through shared memory: the loads that feed dots become asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from tileir.analysis.aliases import aliases
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks, uses
from tileir.backend.codegen.emit.shared_tile import SharedTile, full_swizzle
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.dot_layouts import mma_of
from tileir.backend.software_pipeline.expand import PipelineExpander, StagedLoad, step_of
from tileir.backend.software_pipeline.lookahead import Lookahead
from tileir.backend.software_pipeline.operand_prefetch import OperandPrefetch
from tileir.effects import Effects
from tileir.errors import Diagnostic, InfeasibleError
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value

if TYPE_CHECKING:
    from tileir.backend.software_pipeline.warpgroup_dots import WarpgroupOperands


@pass_(
    "async-pipeline",
    choices={
        "num_stages": (1, 2, 3, 4, 5), "prefetch_operands": (True, False), "warpgroups": (0, 1, 2),
    },
)  # fmt: skip
def async_pipeline(
    module: Module, *, num_stages: int = 0, shared: int = 98304, prefetch_operands: bool = True,
    warpgroups: int = 0,
) -> PassResult:  # fmt: skip
    """Let copies into shared memory run `stages - 1` iterations ahead of the dots that need them.

    A load in a loop that only feeds dots becomes a buffer of `num_stages` stages: before the loop the
    first slots are filled, and every iteration waits for its own, passes one barrier, begins to
    fill the slot that the iteration before has read, and takes fragments from its own slot, a
    step of K at a time. `num_stages` 0 is as many as `shared` bytes hold, 4 at most. `stages` of a
    latch's branch wins over the option; with 1 the loop stays as it is. With `prefetch_operands`, where a
    loop has one dot, by `mma`, of several steps, each step's fragments are taken from shared
    memory before the step before is computed, those of the first step in the iteration before.

    Where `warpgroups` run the kernel, dots that they can compute become `gpu.wgmma`
    (docs/explanation/pipelining.md).

    A loop takes part if it has one latch, leaves from there or from its header, does not
    synchronise, and does not write what the loads may read. `independent_loads` of the latch's
    branch promises the last for loads whose values reach dots. A load takes part if threads can
    copy 4 bytes or more of it at a time, what masks leave out is zero, and its address is computed
    without effects. Others stay as they are, with a remark.

    before:
        define kernel void @product(f16* aligned(16) %a, f16* aligned(16) %b, f32* aligned(16) %c, i32 %n) {
        entry:
          %i = make_range i32<16>
          %r = expand_dims i32<16, 1> %i {axis = 1}
          %r16 = mul i32<16, 1> %r, 16
          %rows = broadcast i32<16, 16> %r16
          %k = expand_dims i32<1, 16> %i {axis = 0}
          %columns = broadcast i32<16, 16> %k
          %offs = add i32<16, 16> %rows, %columns
          %as = splat f16*<16, 16> %a
          %pa = getelementptr f16*<16, 16> %as, %offs
          %bs = splat f16*<16, 16> %b
          %pb = getelementptr f16*<16, 16> %bs, %offs
          br loop
        loop:
          %step = phi i32 [0, entry], [%next, loop]
          %qa = phi f16*<16, 16> [%pa, entry], [%qa.next, loop]
          %sum = phi f32<16, 16> [0.0, entry], [%total, loop]
          %x = load f16<16, 16> %qa
          %y = load f16<16, 16> %pb
          %total = dot f32<16, 16> %x, %y, %sum
          %qa.next = getelementptr f16*<16, 16> %qa, i32<16, 16> 256
          %next = add i32 %step, 1
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          cond_br %more, loop, done {stages = 2}
        done:
          %cs = splat f32*<16, 16> %c
          %pc = getelementptr f32*<16, 16> %cs, %offs
          store %pc, %total
          ret
        }
    after:
        stage "pipelined"

        define kernel void @product(f16* aligned(16) %a, f16* aligned(16) %b, f32* aligned(16) %c, i32 %n) {
        entry:
          %i = make_range i32<16>
          %r = expand_dims i32<16, 1> %i {axis = 1}
          %r16 = mul i32<16, 1> %r, 16
          %rows = broadcast i32<16, 16> %r16
          %k = expand_dims i32<1, 16> %i {axis = 0}
          %columns = broadcast i32<16, 16> %k
          %offs = add i32<16, 16> %rows, %columns
          %as = splat f16*<16, 16> %a
          %pa = getelementptr f16*<16, 16> %as, %offs
          %bs = splat f16*<16, 16> %b
          %pb = getelementptr f16*<16, 16> %bs, %offs
          %0 = gpu.shared_alloc f16 addrspace(3)* {shape = [2, 16, 16], swizzle = 1}
          %1 = gpu.shared_alloc f16 addrspace(3)* {shape = [2, 16, 16], swizzle = 1}
          %qa.next = getelementptr f16*<16, 16> %pa, i32<16, 16> 256
          %next = add i32 0, 1
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          gpu.async_copy %pa, %0, 0
          gpu.async_copy %pb, %1, 0
          gpu.async_commit
          br loop
        loop:
          %step = phi i32 [0, entry], [%next.2, loop]
          %sum = phi f32<16, 16> [0.0, entry], [%total, loop]
          %step.1 = phi i32 [%next, entry], [%next.1, loop]
          %qa = phi f16*<16, 16> [%qa.next, entry], [%qa.next.1, loop]
          %valid = phi i1 [%more, entry], [%4, loop]
          %read = phi i32 [0, entry], [%7, loop]
          %write = phi i32 [1, entry], [%10, loop]
          gpu.async_wait
          gpu.barrier
          %qa.next.1 = getelementptr f16*<16, 16> %qa, i32<16, 16> 256
          %next.1 = add i32 %step.1, 1
          %more.1, _ = icmp (i1, i1) %next.1, %n {predicate = slt}
          %2 = splat i1<16, 16> %valid
          gpu.async_copy %qa, %0, %write, %2
          %3 = splat i1<16, 16> %valid
          gpu.async_copy %pb, %1, %write, %3
          gpu.async_commit
          %4 = and i1 %valid, %more.1
          %5 = add i32 %read, 1
          %6, _ = icmp (i1, i1) %5, 2 {predicate = eq}
          %7 = select i32 %6, 0, %5
          %8 = add i32 %write, 1
          %9, _ = icmp (i1, i1) %8, 2 {predicate = eq}
          %10 = select i32 %9, 0, %8
          %11 = gpu.local_load f16<16, 16> %0, %read
          %12 = gpu.local_load f16<16, 16> %1, %read
          %total = dot f32<16, 16> %11, %12, %sum
          %next.2 = add i32 %step, 1
          %more.2, _ = icmp (i1, i1) %next.2, %n {predicate = slt}
          cond_br %more.2, loop, done {stages = 1}
        done:
          gpu.async_wait
          %cs = splat f32*<16, 16> %c
          %pc = getelementptr f32*<16, 16> %cs, %offs
          store %pc, %total
          ret
        }
    """  # noqa: E501
    found = {
        n: pipeline_function(f, num_stages, shared, prefetch_operands, 4 * warpgroups)
        for n, f in module.functions.items()
    }
    remarks = tuple(r for outcome in found.values() for r in outcome.remarks)
    counts = sum(outcome.statistics.get("loops pipelined", 0) for outcome in found.values())
    if not counts:
        return PassResult(module, remarks)
    functions = {name: cast(Function, outcome.ir) for name, outcome in found.items()}
    changed = module.evolve(functions=functions, stage="pipelined")
    return PassResult(changed, remarks, {"loops pipelined": counts})


def pipeline_function(
    function: Function, num_stages: int, shared: int, prefetch_operands: bool, warps: int = 0
) -> PassResult:
    """The same for one function; `warps` run it where warpgroups may compute its dots, else 0."""
    remarks: list[Diagnostic] = []
    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        loop = loops(function).by_header.get(header)
        if loop is None:
            continue
        options = num_stages, shared, prefetch_operands, warps
        changed = _pipelined(function, loop, options, remarks)
        count += changed is not function
        function = changed
    return PassResult(function, tuple(remarks), {"loops pipelined": count} if count else {})


def _pipelined(
    function: Function, loop: Loop, options: tuple[int, int, bool, int], remarks: list[Diagnostic]
) -> Function:
    num_stages, shared, prefetch_operands, warps = options
    found = list(_staged_loads(function, loop, warps))
    if not found or loop.latch is None:
        return function
    asked = getattr(function.blocks[loop.latch].terminator, "stages", None)
    wanted = asked or num_stages
    reason = _obstacle(function, loop, [load.op for load in found])
    ahead = Lookahead.of(function, loop) if reason is None else None
    if isinstance(ahead, Refusal):
        reason, ahead = ahead, None
    loads: list[StagedLoad] = []
    for load in found:
        if ahead is None:
            break
        alone = Refusal("the other operand is not loaded") if _alone(load, found) else None
        why = alone or ahead.add(load.op, reads=True)
        if why is None and loads and not _behind(function, load, loads[0]):
            why = Refusal("it is not read whenever others are")
        if why is None:
            loads.append(load)
        else:
            remarks.append(why.remark("TIR0653", "not pipelined", load.op.location))
    if ahead is not None and loads:
        # Addresses and the condition are computed ahead, too, from what the loop may load.
        reason = _obstacle(function, loop, [op for op in ahead.in_order() if isinstance(op, Load)])
    if reason is not None:
        remarks.extend(reason.remark("TIR0653", "not pipelined", x.op.location) for x in found)
        return function
    if ahead is None or not loads:
        return function
    each = sum(load.place.bytes for load in loads)
    count = wanted or max(2, min(4, shared // each))
    if count < 2:
        return function
    if count * each > _MOST_BYTES:
        message = f"{count} stages of {each} bytes are more than any shared memory holds"
        raise InfeasibleError(Diagnostic("TIR0708", message, loads[0].op.location))
    by_warpgroups = _warpgroup_operands(function, loop, loads, warps)
    if by_warpgroups:
        from tileir.backend.software_pipeline.warpgroup_expander import WarpgroupExpander

        return WarpgroupExpander(function, loop, loads, ahead, count, by_warpgroups).apply()
    kind = (
        OperandPrefetch
        if prefetch_operands and _prefetches(function, loop, loads)
        else PipelineExpander
    )
    return kind(function, loop, loads, ahead, count).apply()


def _warpgroup_operands(
    function: Function, loop: Loop, loads: list[StagedLoad], warps: int
) -> Mapping[Dot, WarpgroupOperands]:
    if not warps:
        return {}
    from tileir.backend.software_pipeline.warpgroup_dots import warpgroup_operands

    return warpgroup_operands(function, loop, loads, warps)


_MOST_BYTES = 1 << 18
"""Bytes of stages for which copies are written: no GPU's block has as much shared memory."""


def _prefetches(function: Function, loop: Loop, loads: list[StagedLoad]) -> bool:
    """Whether the loop is one dot by `mma`, of two buffers, in several steps of K."""
    dots = [op for x in loop.blocks for op in function.blocks[x].ops if isinstance(op, Dot)]
    if len(dots) != 1 or len(loads) != 2 or mma_of(dots[0]) is None:
        return False
    depth, step = shape_of(dots[0].a.type)[1], step_of(dots[0])
    direct = all(x.dots == (dots[0],) and not x.through_registers for x in loads)
    return depth > step and depth % step == 0 and direct


def _staged_loads(function: Function, loop: Loop, warps: int) -> Iterator[StagedLoad]:
    """Loads of the loop's own blocks: one in a loop within runs more often. Where
    `warps` may compute dots as warpgroups, also those of which registers make their operands."""
    if not any(isinstance(op, Dot) for label in loop.blocks for op in function.blocks[label].ops):
        return
    contiguity, innermost = AccessWidths(function), loops(function).innermost
    for label in function.blocks:
        if innermost.get(label) != loop.header:
            continue
        for op in function.blocks[label].ops:
            if isinstance(op, Load) and (found := _staged(function, op, contiguity, warps)):
                yield found


def _staged(
    function: Function, op: Load, contiguity: AccessWidths, warps: int
) -> StagedLoad | None:
    tile = op.results[0].type
    if not isinstance(tile, Tile) or len(tile.shape) != 2:
        return None
    dots = _fed(function, op.results[0], transposed=False)
    through_registers = dots is None
    if through_registers:
        from tileir.backend.software_pipeline.warpgroup_dots import dots_through_registers

        dots = [(dot, 0) for dot in dots_through_registers(function, op.results[0], warps)]
    if not dots:
        return None
    if op.volatile or op.predicate is not None or not _zero(op.other):
        return None
    place = defining_blocks(function)
    if any(place[dot.results[0]] != place[op.results[0]] for dot, _ in dots):
        return None
    fast = contiguity.nearest(op.pointer)
    if contiguity.width(op, fast) * tile.element.bytes < 4:
        return None
    stage = _stage_layout(tile, fast, dots)
    return StagedLoad(op, stage, tuple(dot for dot, _ in dots), through_registers)


def _behind(function: Function, load: StagedLoad, first: StagedLoad) -> bool:
    """Whether the block of `load` comes after, or is, that of the first load of an iteration."""
    place = defining_blocks(function)
    return dominance(function).dominates(place[first.op.results[0]], place[load.op.results[0]])


def _alone(load: StagedLoad, found: list[StagedLoad]) -> bool:
    """Whether a dot by multiply-adds takes its other factor from somewhere else."""
    feeding = [dot for other in found if other is not load for dot in other.dots]
    return any(mma_of(dot) is None and dot not in feeding for dot in load.dots)


def _stage_layout(tile: Tile, fast: int, dots: list[tuple[Dot, int]]) -> SharedTile:
    """Rows along the direction of the load; swizzled where several rows are read at once."""
    swizzle = full_swizzle(tile.element, tile.shape, fast)
    for dot, k in dots:
        if mma_of(dot) is None and fast != k:
            swizzle = 0
    return SharedTile(tile.element, tile.shape, fast, swizzle)


def _fed(function: Function, value: Value, *, transposed: bool) -> list[tuple[Dot, int]] | None:
    """The dots that take `value` as a factor, with the dimension of the load that is K; None
    where something else reads it."""
    found: list[tuple[Dot, int]] = []
    readers = uses(function).get(value, ())
    for op in readers:
        if isinstance(op, Dot) and value is not op.c:
            k = 1 if value is op.a else 0
            found.append((op, 1 - k if transposed else k))
        elif isinstance(op, Trans) and not transposed and tuple(op.order) == (1, 0):
            inner = _fed(function, op.results[0], transposed=True)
            if inner is None:
                return None
            found += inner
        else:
            return None
    return found if found and all(_worth(dot) for dot, _ in found) else None


def _worth(dot: Dot) -> bool:
    """Whether the dot can take its factors from registers: by `mma`, or both from buffers."""
    return element_of(dot.a.type).bits >= 8  # type: ignore[union-attr]


def _zero(other: Operand | None) -> bool:
    return other is None or (isinstance(other, Constant) and not other.bits)


def _obstacle(function: Function, loop: Loop, loads: Sequence[Op]) -> Refusal | None:
    """What keeps a whole loop from being pipelined, with copies in place of `loads`."""
    if loop.latch is None:
        return Refusal("the loop has several back edges")
    if len(loop.exits) != 1 or loop.exits[0][0] not in (loop.latch, loop.header):
        return Refusal("the loop leaves from elsewhere than its header or its end")
    latch = function.blocks[loop.latch].terminator
    promised = bool(getattr(latch, "independent_loads", False))
    for label in loop.order:
        for op in function.blocks[label].ops:
            ordered = op.effects & (Effects.SYNC | Effects.OUTSIDE)
            if op.effects & Effects.SYNC or (
                (ordered or not promised)
                and any(aliases(function).may_change(op, load) for load in loads)
            ):
                return Refusal(f"{op.mnemonic} in the loop may change what is read", op.location)
    return None
