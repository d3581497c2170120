"""The pass that allocates shared memory (the paper's section 5.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import cast

import attrs

from tileir.analysis.loops import loops
from tileir.analysis.shared_buffers import WAIT, alive
from tileir.backend.shared_memory.interference import InterferenceGraph, interference
from tileir.backend.shared_memory.offset_assignment import Allocation, assign_offsets, first_fit
from tileir.backend.shared_memory.requirements import SharedMemoryPlan, needs
from tileir.backend.target import STATIC_SHARED_BYTES, Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.passmanager.registry import pass_

_SMALL_BYTES = 4096
"""Allocations up to this many bytes may take more memory to save a barrier, within
`_FREE_BYTES`."""

_FREE_BYTES = STATIC_SHARED_BYTES // 4
"""The memory that all these allocations may take: so little that as many blocks are resident.
Allocations in loops may take as much again."""


@pass_("allocate-shared")
def allocate_shared(module: Module, *, limit: int = 0) -> Module:
    """Allocate shared memory for buffers and for ops that pass values between threads.

    The attribute `shared = [offset, size]` of an op is its shared-memory range in bytes. `shared`
    of the kernel is the total in bytes. Only kernels whose tiles have layouts (`assign-layouts`)
    change. Raises CompileError (TIR0708) for a kernel that takes more than `limit` bytes; 0 is no
    limit.

    - Live ranges: the range of an op is live while the op runs. A buffer is live from its first
      write to its last read, on any path and around loops, and while asynchronous copies write it.
      Allocations that are live at the same time are disjoint.
    - Offsets: each allocation gets the lowest free offset. Several orders of allocation are tried
      (Gergov 1999).
    - Asynchronous copies: nothing waits for the last copies of a pipelined loop. A `gpu.async_wait`
      is inserted after the loop if later ops can then reuse the buffers.
    - Barriers: two allocations whose reuse would cost a barrier are disjoint if this takes no more
      memory. Small allocations, and allocations in loops, may take a little more.

    before:
        stage "layouts"
        #a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]])
        define kernel void @spread(f32* %x, f32* %y) {num_warps = 4} {
        entry:
          %i = make_range i32<128, #a>
          %xs = splat f32*<128, #a> %x
          %p = getelementptr f32*<128, #a> %xs, %i
          %v = load f32<128, #a> %p
          %most = reduce f32 %v {combiner = fmaximum}
          %mosts = splat f32<128, #a> %most
          %less = fsub f32<128, #a> %v, %mosts
          %sum = reduce f32 %less {combiner = fadd}
          store %y, %sum
          ret
        }
    after:
        stage "allocated"
        #a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]])
        define kernel void @spread(f32* %x, f32* %y) {num_warps = 4, shared = 32} {
        entry:
          %i = make_range i32<128, #a>
          %xs = splat f32*<128, #a> %x
          %p = getelementptr f32*<128, #a> %xs, %i
          %v = load f32<128, #a> %p
          %most = reduce f32 %v {combiner = fmaximum, shared = [0, 16]}
          %mosts = splat f32<128, #a> %most
          %less = fsub f32<128, #a> %v, %mosts
          %sum = reduce f32 %less {combiner = fadd, shared = [16, 16]}
          store %y, %sum
          ret
        }
    """
    kernels = {f.name: f for f in module.functions.values() if f.kernel and not f.is_declaration}
    placed = {name: allocate_function(function, limit) for name, function in kernels.items()}
    if all(placed[name] is function for name, function in kernels.items()):
        return module
    return module.evolve(functions={**module.functions, **placed}, stage="allocated")


def allocate_function(
    function: Function, limit: int = 0, machine: Target | None = None
) -> Function:
    """Allocate shared memory for every op of `function`, whose tiles have layouts. Barriers are
    saved only as far as this costs no block that is resident on `machine`. Raises CompileError as
    `allocate_shared` does, and TIR0709 for a tile without a layout."""
    graph = interference(function)
    repeated = _ops_in_loops(function)
    warps = cast(int, function.attributes.get("num_warps", 1))

    def place(graph: InterferenceGraph) -> dict[Op, int]:
        return _offsets(graph, repeated, lambda least: _most_bytes(least, warps, limit, machine))

    offsets = place(graph)
    for drained in _with_drains(function):
        drained_graph = interference(drained)
        less = place(drained_graph)
        if _size(drained_graph, less) < _size(graph, offsets):
            function, graph, offsets = drained, drained_graph, less
    size = _size(graph, offsets)
    if size > limit > 0:
        raise _limit_error(graph, size, limit)
    return _with_ranges(function, graph, offsets, size)


def _ops_in_loops(function: Function) -> frozenset[Op]:
    inside = {label for loop in loops(function).by_header.values() for label in loop.blocks}
    return frozenset(op for label in inside for op in function.blocks[label].ops)


def _with_ranges(
    function: Function, graph: InterferenceGraph, offsets: Mapping[Op, int], size: int
) -> Function:
    places = {op: (offsets[op], need.size) for op, need in graph.needs.items()}
    blocks = {}
    for label, block in function.blocks.items():
        ops = tuple(_with_range(op, places.get(op)) for op in block.ops)
        same = all(a is b for a, b in zip(ops, block.ops, strict=True))
        blocks[label] = block if same else attrs.evolve(block, ops=ops)
    placed = function.with_blocks(blocks)
    attributes = {k: v for k, v in function.attributes.items() if k != "shared"}
    if size:
        attributes["shared"] = size
    same = attributes == function.attributes
    return placed if same else placed.evolve(attributes=attributes)


def _with_range(op: Op, byte_range: tuple[int, int] | None) -> Op:
    return op if op.shared == byte_range else op.evolve(shared=byte_range)


def _size(graph: InterferenceGraph, offsets: Mapping[Op, int]) -> int:
    return max((offsets[op] + need.size for op, need in graph.needs.items()), default=0)


# Offsets ------------------------------------------------------------------------------------


def _most_bytes(least: int, warps: int, limit: int, machine: Target | None) -> int | None:
    """The bytes that allocations may take to save barriers where a block of `warps` warps takes
    `least` bytes anyway; None for any number."""
    if machine is not None:
        return machine.shared_of_residents(warps, least)
    return max(limit, least) if limit else None


def _offsets(
    graph: InterferenceGraph, repeated: Collection[Op], most_bytes: Callable[[int], int | None]
) -> dict[Op, int]:
    """Choose an offset for every allocation: buffers first, as low as possible, then the ranges of
    single ops. `repeated` are the ops in loops. `most_bytes` tells how many may be taken to save
    barriers."""
    placed = _buffers(graph)
    least = max((placed[op] + graph.needs[op].size for op in placed), default=0)
    own = sorted(graph.inside, key=lambda op: -graph.needs[op].size)
    fits = {op: _lowest(graph, op, graph.inside[op], placed) for op in own}
    least = max([least, *(fits[op] + graph.needs[op].size for op in own)])
    unsynchronised, enough = _symmetric(graph), most_bytes(least)
    for op in own:
        size = graph.needs[op].size
        disjoint = _lowest(graph, op, graph.inside[op] | unsynchronised[op], placed)
        most = (
            least
            if size > _SMALL_BYTES
            else max(_FREE_BYTES, least + _FREE_BYTES * (op in repeated))
        )
        most = most if enough is None else min(most, enough)
        placed[op] = disjoint if disjoint + size <= most else fits[op]
    return placed


def _buffers(graph: InterferenceGraph) -> dict[Op, int]:
    """Choose offsets for the buffers. They leave a gap for the largest op that conflicts with the
    same buffers."""
    largest: dict[frozenset[Op], Op] = {}
    for op, neighbors in graph.inside.items():
        if neighbors and graph.needs[op].size >= graph.needs[largest.get(neighbors, op)].size:
            largest[neighbors] = op
    ops = [*graph.buffers, *largest.values()]
    number = {op: i for i, op in enumerate(ops)}
    conflicts: list[set[int]] = [set() for _ in ops]
    for op in ops:
        for other in graph.buffers.get(op) or graph.inside.get(op, ()):
            conflicts[number[op]].add(number[other])
            conflicts[number[other]].add(number[op])
    offsets = assign_offsets(
        [Allocation(graph.needs[op].size, graph.needs[op].alignment) for op in ops], conflicts
    )
    return {op: offsets[number[op]] for op in graph.buffers}


def _lowest(
    graph: InterferenceGraph, op: Op, neighbours: Collection[Op], placed: Mapping[Op, int]
) -> int:
    ranges = [(placed[x], placed[x] + graph.needs[x].size) for x in neighbours if x in placed]
    return first_fit(Allocation(graph.needs[op].size, graph.needs[op].alignment), ranges)


def _symmetric(graph: InterferenceGraph) -> dict[Op, set[Op]]:
    """For each op, the ops with which it should not share bytes, in either order."""
    pairs: dict[Op, set[Op]] = {op: set() for op in graph.needs}
    for op, neighbours in graph.unsynchronised.items():
        for other in neighbours:
            pairs[op].add(other)
            pairs[other].add(op)
    return pairs


# Copies without a wait ----------------------------------------------------------------------


def _with_drains(function: Function) -> Iterator[Function]:
    """Yield `function` with waits before the ops that allocate while all pending copies write dead
    buffers; yield nothing where there are none."""
    changed = function
    while (position := _first_undrained(changed)) is not None:
        from tileir.ops.gpu import AsyncWait  # few kernels need one

        label, index = position
        block = changed.blocks[label]
        ops = (*block.ops[:index], AsyncWait(location=block.ops[index].location))
        block = attrs.evolve(block, ops=(*ops, *block.ops[index:]))
        changed = changed.with_blocks({**changed.blocks, label: block})
    if changed is not function:
        yield changed


def _first_undrained(function: Function) -> tuple[str, int] | None:
    """The first op that allocates while every pending copy writes a dead buffer."""
    liveness = alive(function)
    if not liveness.copying:
        return None
    needed = needs(function)
    for label, block in function.blocks.items():
        for index, op in enumerate(block.ops):
            copying = liveness.copying.get(op)
            waited = index > 0 and block.ops[index - 1].mnemonic == WAIT
            if (
                copying
                and not waited
                and op in needed
                and not op.allocates_shared
                and not copying & liveness.needed[op]
            ):
                return label, index
    return None


# Errors -------------------------------------------------------------------------------------


def _limit_error(graph: InterferenceGraph, size: int, limit: int) -> CompileError:
    largest = max(graph.needs, key=lambda op: graph.needs[op].size)
    message = f"{size} bytes of shared memory are needed, and there are {limit}; "
    message += f"{largest.mnemonic} needs {graph.needs[largest].size}"
    return CompileError(Diagnostic("TIR0708", message, largest.location))


# A kernel and its roles, which run at the same time ------------------------------------------

_ROLE_ALIGNMENT = 1024
"""Bytes: what the range of a role is aligned to, the largest alignment of any buffer."""


def allocate_with_roles(
    module: Module, kernel: str, roles: Sequence[str], machine: Target
) -> Module:
    """`module` whose `kernel` and `roles` have ranges of shared memory, the roles' disjoint from
    each other and from the kernel's. Raises CompileError (TIR0708) past what a block has on
    `machine`."""
    limit = machine.shared_bytes
    allocated = allocate_function(module.functions[kernel], limit, machine)
    end, functions = SharedMemoryPlan.of(allocated).size, dict[str, Function]()
    for name in roles:
        function = allocate_function(module.functions[name])
        if size := SharedMemoryPlan.of(function).size:
            first = -(-end // _ROLE_ALIGNMENT) * _ROLE_ALIGNMENT
            end = first + size
            function = _offset_ranges(function, first, end)
        functions[name] = function
    if end > limit:
        message = f"{end} bytes of shared memory are needed, and there are {limit}"
        raise CompileError(Diagnostic("TIR0708", message, allocated.location))
    if end > SharedMemoryPlan.of(allocated).size:
        allocated = allocated.evolve(attributes={**allocated.attributes, "shared": end})
    return module.with_functions({**module.functions, kernel: allocated, **functions})


def _offset_ranges(function: Function, first: int, end: int) -> Function:
    """`function` with its ranges from byte `first` on."""
    blocks = {
        label: attrs.evolve(block, ops=tuple(_with_offset_range(op, first) for op in block.ops))
        for label, block in function.blocks.items()
    }
    moved = function.with_blocks(blocks)
    return moved.evolve(attributes={**moved.attributes, "shared": end})


def _with_offset_range(op: Op, first: int) -> Op:
    return op if op.shared is None else op.evolve(shared=(op.shared[0] + first, op.shared[1]))
