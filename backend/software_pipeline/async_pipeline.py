"""Pipelining through shared memory: the loads that feed dots become asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tileir.analysis.aliases import aliases
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import defining_blocks, uses
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.dot_layouts import mma_of
from tileir.backend.shared_memory.shared_tile import SharedTile, full_swizzle
from tileir.backend.software_pipeline.expand import (
    PipelineExpander,
    StagedLoad,
    are_read_in_one_block,
    dots_of,
    in_one_loop,
    step_of,
)
from tileir.backend.software_pipeline.occupancy import stages_of_most_blocks
from tileir.backend.software_pipeline.operand_prefetch import OperandPrefetch
from tileir.backend.target import FEW_WARPS, REGISTER_GRAIN
from tileir.effects import Effects
from tileir.errors import Diagnostic, InfeasibleError
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.shape import Trans
from tileir.passes.lookahead import Lookahead
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import Tile, element_of, shape_of
from tileir.values import Value

if TYPE_CHECKING:
    from tileir.backend.software_pipeline.warpgroup_dots import WarpgroupOperands
    from tileir.backend.target import Target


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
    """Copy the operands of dots to shared memory, some iterations before the dots read them.

    A load in a loop that only feeds dots becomes a circular buffer of `num_stages` stages.
    `num_stages - 1` stages are filled before the loop. Every iteration waits for its stage, passes
    one barrier, issues the copy into the stage that the previous iteration has read, and loads
    fragments from its own stage, one step of K at a time. `num_stages` 0 is as many stages as fit
    in `shared` bytes, at most 4. The attribute `stages` of a latch's branch overrides the option;
    with 1 the loop stays as it is.

    `prefetch_operands` applies to loops with one dot that `mma` computes in several steps. The
    fragments of a step are then loaded from shared memory before the previous step is computed,
    those of the first step in the previous iteration. If few warps are resident, the buffers of
    such a loop have one stage less, and a copy is issued into the stage that its own iteration has
    read.

    In an innermost loop without dots, whose latch states `stages` and `independent_iterations`, the
    loads of one- and two-dimensional tiles are copied ahead.

    Vectors and scalars that the dots need besides their operands are loaded as many iterations
    ahead: vectors to shared memory, scalars to registers. With `warpgroups`, dots that `wgmma`
    supports become `gpu.wgmma` (docs/explanation/pipelining.md).

    - A loop is pipelined if it has one latch, leaves from the latch or from its header, does not
      synchronize, and does not write memory that the loads may read. The attribute
      `independent_loads` of the latch's branch promises the last condition for loads whose values
      reach dots.
    - A load is pipelined if threads can copy 4 bytes or more of it at a time, masked elements are
      zero, and its address is computed without effects.

    Other loops and loads stay as they are, with a remark.

    before:
        define kernel void @matmul(f16* aligned(16) %a, f16* aligned(16) %b, f32* aligned(16) %c, i32 %n) {
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

        define kernel void @matmul(f16* aligned(16) %a, f16* aligned(16) %b, f32* aligned(16) %c, i32 %n) {
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
          %4 = select i1 %valid, %more.1, false
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
    outcomes = {
        n: pipeline_function(f, num_stages, shared, prefetch_operands, 4 * warpgroups)
        for n, f in module.functions.items()
    }
    remarks = tuple(r for outcome in outcomes.values() for r in outcome.remarks)
    counts = sum(outcome.statistics.get("loops pipelined", 0) for outcome in outcomes.values())
    if not counts:
        return PassResult(module, remarks)
    functions = {name: cast(Function, outcome.ir) for name, outcome in outcomes.items()}
    changed = module.evolve(functions=functions, stage="pipelined")
    return PassResult(changed, remarks, {"loops pipelined": counts})


def pipeline_function(
    function: Function, num_stages: int, shared: int, prefetch_operands: bool, warps: int = 0,
    *, num_warps: int = 0, machine: Target | None = None,
) -> PassResult:  # fmt: skip
    """Pipeline the loops of one function. `warps` is the number of warps if warpgroups may compute
    the dots, else 0. `num_warps` is the number of warps, 0 if unknown, and `machine` the target, if
    known."""
    remarks: list[Diagnostic] = []
    count = 0
    if warps and any(op.divides for op in function.ops):
        from tileir.backend.software_pipeline.version_uniform_loads import version_uniform_loads

        function = version_uniform_loads(function)
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        if (loop := loops(function).by_header.get(header)) is None:
            continue
        function = _with_scalar_loads(function, loop)
        options = _Options(num_stages, shared, prefetch_operands, warps, num_warps, machine)
        changed = _pipeline_loop(function, header, options, remarks)
        count += changed is not function
        function = changed
    if count and any(loop.parent for loop in loops(function).by_header.values()):
        from tileir.backend.software_pipeline.store_once import store_once  # few need it

        function = store_once(function, shared)
    return PassResult(function, tuple(remarks), {"loops pipelined": count} if count else {})


def _with_scalar_loads(function: Function, loop: Loop) -> Function:
    """`function` with scalar loads of what all elements of a tile share, where the loop has dots
    and loads more than their operands."""
    ops = [op for label in loop.blocks for op in function.blocks[label].ops]
    more = any(isinstance(op, Load) and len(shape_of(op.results[0].type)) == 1 for op in ops)
    if not more or not any(isinstance(op, Dot) for op in ops):
        return function
    from tileir.backend.software_pipeline.uniform_loads import load_scalars  # few need it

    return load_scalars(function, loop.blocks)


class _Options(NamedTuple):
    """The arguments of `pipeline_function`."""

    num_stages: int
    shared: int
    prefetch_operands: bool
    warps: int
    num_warps: int
    machine: Target | None


def _with_repeated_loads(function: Function, loop: Loop) -> Function:
    """`function` with loads of one of several equal elements, where the loop has dots."""
    ops = [op for label in loop.blocks for op in function.blocks[label].ops]
    facts = AccessWidths(function).facts
    repeats = any(
        max(facts.of(op.pointer).constancy) > 1
        if isinstance(op, Load)
        else op.mnemonic == "join" and op.inputs[0] is op.inputs[1]
        for op in ops
    )
    if not repeats or not any(isinstance(op, Dot) for op in ops):
        return function
    from tileir.backend.software_pipeline.repeated_loads import load_once

    return load_once(function, loop.blocks)


def _loads_for_next(function: Function, loop: Loop) -> list[Load]:
    """The loads for the next iteration of a loop with dots that may run before these."""
    latch = function.blocks[loop.latch] if loop.latch is not None else None
    if latch is None or not any(isinstance(op, Dot) for op in latch.ops):
        return []
    results = {r for op in latch.ops if isinstance(op, Dot) for r in op.results}
    carried = {v for edge in latch.terminator.successors for v in edge.arguments} - results
    if not any(isinstance(v, Value) and isinstance(v.type, Tile) for v in carried):
        return []
    from tileir.backend.software_pipeline.carried_loads import carried_loads

    return [op for op in carried_loads(function, loop) if _obstacle(function, loop, [op]) is None]


def _with_hoisted_loads(function: Function, loop: Loop) -> Function:
    """`function` with loads for the next iteration, of a loop with dots, before these."""
    loads = _loads_for_next(function, loop)
    if not loads:
        return function
    from tileir.backend.software_pipeline.carried_loads import hoist_loads

    return hoist_loads(function, loop, loads)


def _without_branches(function: Function, loop: Loop) -> Function:
    """`function` without branches on which addresses of loads depend, and with accumulators that
    branches reset, of a loop with dots."""
    ops = [op for label in loop.order for op in function.blocks[label].ops]
    if len(loop.order) < 3 or not any(isinstance(op, Dot) for op in ops):
        return function
    from tileir.backend.software_pipeline.accumulator_readers import reset_in_branches
    from tileir.backend.software_pipeline.select_addresses import select_addresses

    function = reset_in_branches(function, loop)
    loop, tree = loops(function).by_header[loop.header], dominance(function)
    every = [x for x in loop.order if all(tree.dominates(x, latch) for latch in loop.latches)]
    loads = [op for x in every for op in function.blocks[x].ops if isinstance(op, Load)]
    leaving = [function.blocks[label].terminator for label, _ in loop.exits]
    return select_addresses(function, loop, [v for op in (*loads, *leaving) for v in op.inputs])


def _pipeline_loop(
    function: Function, header: str, options: _Options, remarks: list[Diagnostic]
) -> Function:
    """`function` with the loop of `header` pipelined; the same if it is not."""
    loaded_once = _with_repeated_loads(function, loops(function).by_header[header])
    loaded_once = _with_hoisted_loads(loaded_once, loops(loaded_once).by_header[header])
    straight = _without_branches(loaded_once, loops(loaded_once).by_header[header])
    pipelined = _pipeline(straight, loops(straight).by_header[header], options, remarks)
    if pipelined is straight:
        return function
    return pipelined if straight is loaded_once else _with_branches(pipelined, header)


def _with_branches(function: Function, header: str) -> Function:
    """`function` with branches around quotients that few iterations of a loop need."""
    if not any(op.divides and op.effects for op in function.ops):
        return function
    from tileir.backend.software_pipeline.branch_quotients import branch_quotients  # few need it

    return branch_quotients(function, loops(function).by_header[header].order)


def _pipeline(
    function: Function, loop: Loop, options: _Options, remarks: list[Diagnostic]
) -> Function:
    warps = options.warps
    candidates = list(_staged_loads(function, loop, warps))
    multiplies = bool(candidates)
    if not multiplies and _is_independent(function, loop):
        candidates = list(_loads_of_iterations(function, loop))
    if not candidates:
        return function
    ahead = Lookahead.of(function, loop)
    if not isinstance(ahead, Refusal):
        ahead = _obstacle(function, loop, [load.op for load in candidates]) or ahead
    if isinstance(ahead, Refusal):
        remarks.extend(ahead.remark("TIR0653", "not pipelined", x.op.location) for x in candidates)
        return function
    loads = _add_staged_loads(function, ahead, candidates, remarks)
    if not loads:
        return function
    # The lookahead also has the loads on which addresses and the condition of the loop depend.
    reason = _obstacle(function, loop, [op for op in ahead.in_order() if isinstance(op, Load)])
    if reason is not None:
        remarks.extend(reason.remark("TIR0653", "not pipelined", x.op.location) for x in candidates)
        return function
    count = _number_of_stages(function, loop, loads, options, multiplies=multiplies)
    if count < 2:
        return function
    pipeline = _Pipeline(function, loop, loads, ahead, count)
    if not multiplies:
        refills, one_warp = are_read_in_one_block(function, loads), options.num_warps == 1
        return PipelineExpander(*pipeline, refills=refills, one_warp=one_warp).apply()
    if dots := _warpgroup_operands(function, loop, loads, warps):
        if (expanded := _expand_by_warpgroups(pipeline, dots, options)) is not None:
            return expanded
        options = options._replace(num_warps=warps)
    return _expand_by_threads(pipeline, options)


def _number_of_stages(
    function: Function, loop: Loop, loads: list[StagedLoad], options: _Options, *, multiplies: bool
) -> int:
    """The stages that the loop or the options request; else two to four, as shared memory allows.
    Fewer if copies that feed no dot would exceed it."""
    each = sum(load.place.bytes for load in loads)
    stated = getattr(function.blocks[cast(str, loop.latch)].terminator, "stages", None)
    count = stated or options.num_stages or max(2, min(4, options.shared // each))
    if not multiplies:
        return min(count, options.shared // each + 1)
    is_free = not stated and count == 1 and _has_free_stage(function, loop, loads, options)
    return 2 if is_free else count


def _expand_by_warpgroups(
    pipeline: _Pipeline, dots: Mapping[Dot, WarpgroupOperands], options: _Options
) -> Function | None:
    """Expand a loop of which warpgroups compute `dots`; None where two stages and what threads
    store exceed shared memory: threads refill a single stage."""
    from tileir.backend.software_pipeline.warpgroup_expander import WarpgroupExpander

    function, loop, loads, _, count = pipeline
    _, shared, _, warps, _, machine = options
    each = sum(load.place.bytes for load in loads)
    free = 2 * shared - count * each - _RESERVED
    kept = _fixed_next_to_warpgroups(function, loop, warps, dots, free)
    pipeline = pipeline._replace(loads=[*loads])
    scalars = _add_loads(pipeline, 2 * shared)
    expander = WarpgroupExpander(
        *pipeline, dots, warps=warps, scalars=scalars, fixed=kept, machine=machine,
        following=_loads_for_next(function, loop),
    )  # fmt: skip
    if count == _FEWEST_STAGES and expander.bytes > 2 * shared:
        return None
    _check_bytes(pipeline, count)
    return expander.apply()


def _has_free_stage(
    function: Function, loop: Loop, loads: list[StagedLoad], options: _Options
) -> bool:
    """Whether a loop of a launch that states one stage may have two: a multiprocessor holds several
    blocks of them, and warpgroups compute as many dots of the function as without copies."""
    from tileir.backend.layouts.wgmma import WARPS
    from tileir.backend.software_pipeline.warpgroup_dots import is_computed

    machine = options.machine
    if machine is None or _BLOCKS * sum(load.place.bytes for load in loads) > options.shared:
        return False
    warps = options.warps or (options.num_warps if machine.wgmma else 0)
    if not warps or warps % WARPS:
        return True
    by_warpgroups = _warpgroup_operands(function, loop, loads, options.warps)
    others = (op for op in function.ops if isinstance(op, Dot) and op not in by_warpgroups)
    return not any(is_computed(dot, warps) for dot in others)


def _expand_by_threads(pipeline: _Pipeline, options: _Options) -> Function:
    """Expand a loop whose dots are not computed by warpgroups."""
    function, loop, loads, _, count = pipeline
    _, shared, prefetch_operands, _, num_warps, machine = options
    if _prefetches(function, loop, loads):
        if machine is not None and num_warps:
            each = sum(load.place.bytes for load in loads)
            count = stages_of_most_blocks(loads[0].dots[0], count, each, num_warps, machine)
            pipeline = pipeline._replace(count=count)
        if prefetch_operands:
            _check_bytes(pipeline, count)
            return OperandPrefetch(*pipeline).apply()
    fixed: Mapping[Value, SharedTile] = {}
    if num_warps and len(dots_of(function, loop)) > 1:
        from tileir.backend.software_pipeline.fixed_operands import fixed_operands  # few need it

        registers = _registers_of_residents(pipeline, shared, num_warps, machine)
        fixed = fixed_operands(function, loop, num_warps, registers=registers)
        if registers is not None:
            stored = sum(place.bytes for place in fixed.values())
            with_fixed, without = (
                _resident_blocks(pipeline, size, shared, num_warps) for size in (stored, 0)
            )
            if with_fixed < without:
                fixed = fixed_operands(function, loop, num_warps)
    other_bytes = sum(place.bytes for place in fixed.values())
    refilled = _refilled_stages(pipeline, other_bytes, shared, num_warps)
    _check_bytes(pipeline, refilled or count)
    refills = refilled is not None
    scalars = _add_loads(pipeline._replace(count=refilled or count), 2 * shared, refills=refills)
    if refilled is not None:
        pipeline = pipeline._replace(count=refilled + 1)
    return PipelineExpander(*pipeline, scalars=scalars, fixed=fixed, refills=refills).apply()


def _check_bytes(pipeline: _Pipeline, stages: int) -> None:
    """Raises InfeasibleError (TIR0708) for more bytes of stages than any GPU has."""
    each = sum(load.place.bytes for load in pipeline.loads)
    if stages * each > _MOST_BYTES:
        message = f"{stages} stages of {each} bytes exceed the shared memory of every target"
        raise InfeasibleError(Diagnostic("TIR0708", message, pipeline.loads[0].op.location))


def _add_staged_loads(
    function: Function, ahead: Lookahead, candidates: list[StagedLoad], remarks: list[Diagnostic]
) -> list[StagedLoad]:
    """The candidates that `ahead` accepts, which run whenever the first one does."""
    loads: list[StagedLoad] = []
    for load in candidates:
        alone = (
            Refusal("the other operand is not loaded") if _lacks_partner(load, candidates) else None
        )
        why = alone or ahead.add(load.op, reads=True)
        if why is None and loads and not _follows(function, load, loads[0]):
            why = Refusal("it does not run whenever the first load does")
        if why is None:
            loads.append(load)
        else:
            remarks.append(why.remark("TIR0653", "not pipelined", load.op.location))
    return loads


def _fixed_next_to_warpgroups(
    function: Function, loop: Loop, warps: int, dots: Mapping[Dot, WarpgroupOperands], free: int
) -> Mapping[Value, SharedTile]:
    """The operands of dots by `mma`, in a loop of which warpgroups compute `dots`, that are stored
    before the loop, in up to `free` bytes."""
    if len(dots_of(function, loop)) == len(dots):
        return {}
    from tileir.backend.software_pipeline.fixed_operands import fixed_operands  # few need it

    fixed = fixed_operands(function, loop, warps, dots)
    return fixed if sum(place.bytes for place in fixed.values()) <= free else {}


def _refilled_stages(
    pipeline: _Pipeline, other_bytes: int, shared: int, num_warps: int
) -> int | None:
    """The stages of a loop that refills each one after its last read; None where it keeps a stage
    to be filled. It refills where its stages, of three or more, and `other_bytes` limit a
    multiprocessor of two times `shared` bytes to few warps, or do not fit; not where fragments may
    be prefetched. It has one stage less than otherwise, and fewer where as many blocks are resident
    with that one less, or each scheduler had one warp or none."""
    function, loop, loads, _, count = pipeline

    def resident(stages: int) -> int:
        return num_warps * _resident(pipeline, stages, other_bytes, shared)

    many = not num_warps or resident(count) >= FEW_WARPS
    if many or _prefetches(function, loop, loads) or not are_read_in_one_block(function, loads):
        return None
    fewer = range(count - 1, 0, -1)
    few = max(_SCHEDULERS, resident(count))
    stages = next((n for n in fewer if resident(n) > few), max(fewer, key=resident))
    if count == 2 and resident(count) > _SCHEDULERS:
        return None  # no copy would be under way when an iteration begins
    return stages if resident(stages) > resident(count) else None


def _resident(pipeline: _Pipeline, stages: int, other_bytes: int, shared: int) -> int:
    """The blocks with `stages` and `other_bytes` that two times `shared` bytes hold."""
    each = sum(load.place.bytes for load in pipeline.loads)
    return 2 * shared // (other_bytes + stages * each + _RESERVED)


def _resident_blocks(pipeline: _Pipeline, other_bytes: int, shared: int, num_warps: int) -> int:
    """The blocks that are resident with the stages of the loop, refilled if it refills them, and
    `other_bytes`."""
    stages = _refilled_stages(pipeline, other_bytes, shared, num_warps) or pipeline.count
    return _resident(pipeline, stages, other_bytes, shared)


def _registers_of_residents(
    pipeline: _Pipeline, shared: int, num_warps: int, machine: Target | None
) -> int | None:
    """The most registers of a thread with which as many blocks are resident as hold the stages that
    a loop refills; None where it refills none, or a thread may have all registers."""
    if machine is None or _refilled_stages(pipeline, 0, shared, num_warps) is None:
        return None
    threads = num_warps * machine.lanes * _resident_blocks(pipeline, 0, shared, num_warps)
    most = machine.registers_per_processor // threads // REGISTER_GRAIN * REGISTER_GRAIN
    return most if most < machine.max_registers else None


class _Pipeline(NamedTuple):
    """A loop, what is loaded ahead in it, and the number of its stages."""

    function: Function
    loop: Loop
    loads: list[StagedLoad]
    ahead: Lookahead
    count: int


def _add_loads(pipeline: _Pipeline, most: int, *, refills: bool = False) -> tuple[Load, ...]:
    """Add the vectors that the dots need, and the tiles that are carried to the next iteration, to
    the loads of a pipeline, if `most` bytes hold all stages; the scalars that they need. Stages
    that the loop `refills` are read in one block."""
    function, loop, loads, ahead, count = pipeline
    place = defining_blocks(function)
    dots = [] if refills else [dot for load in loads for dot in load.dots]
    blocks = dict.fromkeys(place[op.results[0]] for op in (*(x.op for x in loads), *dots))
    tiles: set[Op] = {load.op for load in loads}
    if not _loads_more_than(function, blocks, tiles):
        return ()
    from tileir.backend.software_pipeline.vector_loads import additional_loads  # few need it

    additional = additional_loads(
        function, loop, ahead, blocks,
        lambda op, promised: _obstacle(function, loop, [op], promised=promised),
        _loads_for_next(function, loop),
    )  # fmt: skip
    if count * sum(load.place.bytes for load in (*loads, *additional.tiles)) <= most:
        loads += additional.tiles
    return additional.scalars


def _loads_more_than(function: Function, blocks: Iterable[str], operands: set[Op]) -> bool:
    """Whether `blocks` load more than `operands`."""
    return any(
        isinstance(op, Load) and op not in operands for x in blocks for op in function.blocks[x].ops
    )


def _warpgroup_operands(
    function: Function, loop: Loop, loads: list[StagedLoad], warps: int
) -> Mapping[Dot, WarpgroupOperands]:
    if not warps:
        return {}
    from tileir.backend.software_pipeline.warpgroup_dots import warpgroup_operands

    return warpgroup_operands(function, loop, loads, warps)


_FEWEST_STAGES = 2
"""The fewest stages of a loop by warpgroups: copies fill one while `wgmma` reads another."""

_BLOCKS = 4
"""Blocks with two stages that a multiprocessor should hold where a launch states one stage."""

_LEAST_BYTES = 4
"""Bytes of the smallest asynchronous copy (PTX ISA, cp.async)."""

_SCHEDULERS = 4
"""Schedulers of a multiprocessor. One with a single warp idles while this waits."""

_RESERVED = 1024
"""Bytes of shared memory that the system takes of every block."""

_MOST_BYTES = 1 << 18
"""The most bytes of stages for which copies are emitted: no GPU has as much shared memory."""


def _prefetches(function: Function, loop: Loop, loads: list[StagedLoad]) -> bool:
    """Whether the loop is one dot by `mma`, of two buffers filled in its block, in several steps
    of K."""
    dots = dots_of(function, loop)
    if len(dots) != 1 or len(loads) != 2 or mma_of(dots[0]) is None:
        return False
    place = defining_blocks(function)
    if any(place[x.op.results[0]] != place[dots[0].results[0]] for x in loads):
        return False
    depth, step = shape_of(dots[0].a.type)[1], step_of(dots[0])
    direct = all(x.dots == (dots[0],) and not x.through_registers for x in loads)
    return depth > step and depth % step == 0 and direct


def _staged_loads(function: Function, loop: Loop, warps: int) -> Iterator[StagedLoad]:
    """The loads to stage among the loop's own blocks: those of inner loops run more often. Where
    `warps` may compute dots as warpgroups, also loads whose operands are computed in registers."""
    if not any(isinstance(op, Dot) for label in loop.blocks for op in function.blocks[label].ops):
        return
    contiguity, innermost = AccessWidths(function), loops(function).innermost
    for label in function.blocks:
        if innermost.get(label) != loop.header:
            continue
        for op in function.blocks[label].ops:
            if isinstance(op, Load) and (staged := _stage_load(function, op, contiguity, warps)):
                yield staged


def _is_independent(function: Function, loop: Loop) -> bool:
    """Whether no iteration of an innermost loop without dots loads what another one stores, and
    loads are to be issued ahead of it."""
    latch: Any = function.blocks[loop.latch].terminator if loop.latch else None
    if not getattr(latch, "independent_iterations", False) or (latch.stages or 1) < 2:
        return False
    innermost = loops(function).innermost
    ops = (op for label in loop.order for op in function.blocks[label].ops)
    return all(innermost.get(label) == loop.header for label in loop.order) and not any(
        isinstance(op, Dot) or op.shared is not None for op in ops
    )


def _loads_of_iterations(function: Function, loop: Loop) -> Iterator[StagedLoad]:
    """The loads to stage of a loop without dots: those of tiles of which a thread can copy 4 bytes
    or more at a time."""
    widths = AccessWidths(function)
    for label in loop.order:
        for op in function.blocks[label].ops:
            tile = op.results[0].type if isinstance(op, Load) else None
            if not isinstance(op, Load) or not isinstance(tile, Tile) or len(tile.shape) > 2:
                continue
            fast = widths.nearest(op.pointer)
            narrow = widths.width(op, fast) * tile.element.bytes < _LEAST_BYTES
            if op.volatile or op.predicate is not None or narrow:
                continue
            place = SharedTile(tile.element, tile.shape, fast, 0)
            if len(tile.shape) == 1:
                place = SharedTile(tile.element, (1, *tile.shape), 1, 0)
            yield StagedLoad(op, place, (), through_registers=True)


def _stage_load(
    function: Function, op: Load, contiguity: AccessWidths, warps: int
) -> StagedLoad | None:
    tile = op.results[0].type
    if not isinstance(tile, Tile) or len(tile.shape) != 2:
        return None
    dots = _dots_fed_by(function, op.results[0], transposed=False)
    through_registers = dots is None
    if through_registers:
        from tileir.backend.software_pipeline.warpgroup_dots import dots_through_registers

        dots = [(dot, 0) for dot in dots_through_registers(function, op.results[0], warps)]
    if not dots:
        return None
    if op.volatile or op.predicate is not None or not op.fills_with_zeros:
        return None
    place = defining_blocks(function)
    elsewhere = any(place[dot.results[0]] != place[op.results[0]] for dot, _ in dots)
    if elsewhere and not in_one_loop(function, op, [dot for dot, _ in dots]):
        return None
    fast = contiguity.nearest(op.pointer)
    width = contiguity.width(op, fast)
    if width * tile.element.bytes < 4:
        return None
    if through_registers:
        from tileir.backend.software_pipeline.repeated_loads import repeats_words  # few need it

        if repeats_words(function, op.pointer, width):
            return None
    stage = _stage_layout(tile, fast, dots)
    return StagedLoad(op, stage, tuple(dot for dot, _ in dots), through_registers)


def _follows(function: Function, load: StagedLoad, first: StagedLoad) -> bool:
    """Whether the block of `load` is dominated by that of the first load of an iteration."""
    place = defining_blocks(function)
    return dominance(function).dominates(place[first.op.results[0]], place[load.op.results[0]])


def _lacks_partner(load: StagedLoad, candidates: list[StagedLoad]) -> bool:
    """Whether the other operand of a dot by multiply-adds, fed by `load`, is not a candidate."""
    feeding = [dot for other in candidates if other is not load for dot in other.dots]
    return any(mma_of(dot) is None and dot not in feeding for dot in load.dots)


def _stage_layout(tile: Tile, fast: int, dots: list[tuple[Dot, int]]) -> SharedTile:
    """The layout of a stage: rows along the contiguous dimension of the load, swizzled where
    several rows are read at once."""
    swizzle = full_swizzle(tile.element, tile.shape, fast)
    for dot, k in dots:
        if mma_of(dot) is None and fast != k:
            swizzle = 0
    return SharedTile(tile.element, tile.shape, fast, swizzle)


def _dots_fed_by(
    function: Function, value: Value, *, transposed: bool
) -> list[tuple[Dot, int]] | None:
    """The dots that take `value` as an operand, with the dimension of the load that is K; None
    where another op reads it."""
    dots: list[tuple[Dot, int]] = []
    readers = uses(function).get(value, ())
    for op in readers:
        if isinstance(op, Dot) and value is not op.c:
            k = 1 if value is op.a else 0
            dots.append((op, 1 - k if transposed else k))
        elif isinstance(op, Trans) and not transposed and tuple(op.order) == (1, 0):
            inner = _dots_fed_by(function, op.results[0], transposed=True)
            if inner is None:
                return None
            dots += inner
        else:
            return None
    return dots if dots and all(_has_smem_operands(dot) for dot, _ in dots) else None


def _has_smem_operands(dot: Dot) -> bool:
    """Whether buffers can hold the dot's operands, whose elements take whole bytes."""
    return element_of(dot.a.type).bits >= 8  # type: ignore[union-attr]


def _only_writes(function: Function, op: Op) -> bool:
    """Whether `op` is an atomic whose old value nothing reads. No load after it may depend on what
    it synchronises with, since the program cannot tell whether it did."""
    return (
        op.is_atomic
        and bool(op.effects & Effects.WRITE)
        and not any(uses(function).get(result) for result in op.results)
    )


def _obstacle(
    function: Function, loop: Loop, loads: Sequence[Op], *, promised: bool = True
) -> Refusal | None:
    """The obstacle in a loop with one latch to running `loads` ahead: an op that may change the
    memory that they read. With `promised`, the latch may promise that there is none."""
    latch = function.blocks[cast(str, loop.latch)].terminator
    independent = any(
        getattr(latch, name, False) for name in ("independent_loads", "independent_iterations")
    )
    promised = promised and independent
    for label in loop.order:
        for op in function.blocks[label].ops:
            orders = bool(op.effects & Effects.SYNC) and not (
                promised and _only_writes(function, op)
            )
            if orders or (
                (op.effects & Effects.OUTSIDE or not promised)
                and any(aliases(function).may_change(op, load) for load in loads)
            ):
                return Refusal(
                    f"{op.mnemonic} in the loop may change the memory that is read", op.location
                )
    return None
