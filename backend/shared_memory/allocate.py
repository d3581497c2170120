"""The pass that says where in shared memory everything lies (the paper's section 5.2.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import attrs

from tileir.analysis.loops import loops
from tileir.analysis.shared_buffers import WAIT, alive
from tileir.backend.shared_memory.interference import InterferenceGraph, interference
from tileir.backend.shared_memory.offset_assignment import Allocation, assign_offsets, first_fit
from tileir.backend.shared_memory.requirements import BUFFERS, STATIC_LIMIT, needs
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.gpu import AsyncWait
from tileir.passmanager.registry import pass_

_SMALL = 4096
"""Rooms up to this many bytes may take more memory to save a barrier:"""

_FREE = STATIC_LIMIT // 4
"""up to so many bytes in all, which keep no block from running, and in loops so many more."""


@pass_("allocate-shared")
def allocate_shared(module: Module, *, limit: int = 0) -> Module:
    """Give every op that passes values through shared memory a room there, and every buffer.

    `shared = [offset, size]` of an op says where its room lies, `shared` of the kernel how many
    bytes there are. Kernels alone are changed, whose tiles have layouts (`assign-layouts`). Raises
    CompileError (TIR0708) for a kernel that takes more than `limit` bytes; 0 is no limit.

        LIVE    the room of an op is in use while it runs. A buffer is in use from where it is first
                written to where it is last read, on any path and around loops, and while copies
                into it are under way. What is in use at once does not overlap
        COLOUR  offsets are the lowest that are free, for orders that are tried (Gergov's problem)
        DRAIN   behind a loop whose copies run ahead nothing waits for the last of them: a
                `gpu.async_wait` does, where its buffers can then serve what follows
        APART   where overlapping would cost a barrier, since threads have not met in between, rooms
                lie apart, if that takes no more memory, or for small ones, and in loops, little

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


def allocate_function(function: Function, limit: int = 0) -> Function:
    """`function`, whose tiles have layouts, with a room for every op that needs one. Raises
    CompileError as `allocate_shared` does, and TIR0709 for a tile without a layout."""
    found = interference(function)
    repeated = _repeated(function)
    offsets = _offsets(found, repeated, limit)
    for drained in _drained(function):
        others = interference(drained)
        less = _offsets(others, repeated, limit)
        if _size(others, less) < _size(found, offsets):
            function, found, offsets = drained, others, less
    size = _size(found, offsets)
    if size > limit > 0:
        raise _too_much(found, size, limit)
    return _with_rooms(function, found, offsets, size)


def _repeated(function: Function) -> frozenset[Op]:
    inside = {label for loop in loops(function).by_header.values() for label in loop.blocks}
    return frozenset(op for label in inside for op in function.blocks[label].ops)


def _with_rooms(
    function: Function, found: InterferenceGraph, offsets: Mapping[Op, int], size: int
) -> Function:
    places = {op: (offsets[op], need.size) for op, need in found.needs.items()}
    blocks = {}
    for label, block in function.blocks.items():
        ops = tuple(_with_room(op, places.get(op)) for op in block.ops)
        same = all(a is b for a, b in zip(ops, block.ops, strict=True))
        blocks[label] = block if same else attrs.evolve(block, ops=ops)
    placed = function.with_blocks(blocks)
    attributes = {k: v for k, v in function.attributes.items() if k != "shared"}
    if size:
        attributes["shared"] = size
    same = attributes == function.attributes
    return placed if same else placed.evolve(attributes=attributes)


def _with_room(op: Op, room: tuple[int, int] | None) -> Op:
    return op if op.shared == room else op.evolve(shared=room)


def _size(found: InterferenceGraph, offsets: Mapping[Op, int]) -> int:
    return max((offsets[op] + need.size for op, need in found.needs.items()), default=0)


# Offsets ------------------------------------------------------------------------------------


def _offsets(found: InterferenceGraph, repeated: Collection[Op], limit: int) -> dict[Op, int]:
    """An offset for every room: buffers as low as they go, then what ops need for themselves.
    `repeated` are the ops in loops."""
    placed = _buffers(found)
    least = max((placed[op] + found.needs[op].size for op in placed), default=0)
    own = sorted(found.inside, key=lambda op: -found.needs[op].size)
    fits = {op: _lowest(found, op, found.inside[op], placed) for op in own}
    least = max([least, *(fits[op] + found.needs[op].size for op in own)])
    unsynchronised = _both_ways(found)
    for op in own:
        size = found.needs[op].size
        apart = _lowest(found, op, found.inside[op] | unsynchronised[op], placed)
        most = least if size > _SMALL else max(_FREE, least + _FREE * (op in repeated))
        if limit:
            most = min(most, max(limit, least))
        placed[op] = apart if apart + size <= most else fits[op]
    return placed


def _buffers(found: InterferenceGraph) -> dict[Op, int]:
    """Offsets of buffers, which leave room for the largest op that meets the same of them."""
    largest: dict[frozenset[Op], Op] = {}
    for op, meets in found.inside.items():
        if meets and found.needs[op].size >= found.needs[largest.get(meets, op)].size:
            largest[meets] = op
    ops = [*found.buffers, *largest.values()]
    number = {op: i for i, op in enumerate(ops)}
    apart: list[set[int]] = [set() for _ in ops]
    for op in ops:
        for other in found.buffers.get(op) or found.inside.get(op, ()):
            apart[number[op]].add(number[other])
            apart[number[other]].add(number[op])
    offsets = assign_offsets(
        [Allocation(found.needs[op].size, found.needs[op].alignment) for op in ops], apart
    )
    return {op: offsets[number[op]] for op in found.buffers}


def _lowest(
    found: InterferenceGraph, op: Op, others: Collection[Op], placed: Mapping[Op, int]
) -> int:
    taken = [(placed[x], placed[x] + found.needs[x].size) for x in others if x in placed]
    return first_fit(Allocation(found.needs[op].size, found.needs[op].alignment), taken)


def _both_ways(found: InterferenceGraph) -> dict[Op, set[Op]]:
    """Of every op, those that it had better not share bytes with, whichever comes first."""
    pairs: dict[Op, set[Op]] = {op: set() for op in found.needs}
    for op, others in found.unsynchronised.items():
        for other in others:
            pairs[op].add(other)
            pairs[other].add(op)
    return pairs


# Copies that nobody waits for ---------------------------------------------------------------


def _drained(function: Function) -> Iterator[Function]:
    """`function` with waits before ops that need room while copies are under way into buffers that
    nothing reads any more; nothing where there are none."""
    changed = function
    while (found := _undrained(changed)) is not None:
        label, index = found
        block = changed.blocks[label]
        ops = (*block.ops[:index], AsyncWait(location=block.ops[index].location))
        block = attrs.evolve(block, ops=(*ops, *block.ops[index:]))
        changed = changed.with_blocks({**changed.blocks, label: block})
    if changed is not function:
        yield changed


def _undrained(function: Function) -> tuple[str, int] | None:
    """The first op that needs room while all copies under way are into buffers of no use."""
    found = alive(function)
    if not found.copying:
        return None
    needed = needs(function)
    for label, block in function.blocks.items():
        for index, op in enumerate(block.ops):
            copying = found.copying.get(op)
            waited = index > 0 and block.ops[index - 1].mnemonic == WAIT
            if (
                copying
                and not waited
                and op in needed
                and op.mnemonic not in BUFFERS
                and not copying & found.needed[op]
            ):
                return label, index
    return None


# Errors -------------------------------------------------------------------------------------


def _too_much(found: InterferenceGraph, size: int, limit: int) -> CompileError:
    largest = max(found.needs, key=lambda op: found.needs[op].size)
    message = f"{size} bytes of shared memory are needed, and there are {limit}; "
    message += f"{largest.mnemonic} needs {found.needs[largest].size}"
    return CompileError(Diagnostic("TIR0708", message, largest.location))
