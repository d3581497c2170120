"""The register limit and the number of stages of a matmul loop with which more blocks are
resident."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import prod
from typing import Any, cast

from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend.layouts.dot_layouts import layouts_of, mma_of
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.software_pipeline.expand import dots_of, step_of
from tileir.backend.target import REGISTER_GRAIN, Target
from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.ops.gpu import LocalLoad, SharedAlloc
from tileir.ops.shape import Trans
from tileir.types import element_of, shape_of
from tileir.values import Operand, Value

_PLAIN, _AHEAD = 8, 24
"""Registers besides accumulators and fragments: without prefetch, where positions are recomputed,
and with it, where positions and the fragments of the next step stay in registers."""

_FEWEST_STAGES = 3
"""With two, only one copy is in flight."""

_LEAST = 63
"""The lowest limit: registers do not bound the occupancy of small matmuls."""


def register_limit(function: Function, warps: int, machine: Target) -> int | None:
    """The most registers of a thread with which more blocks of `function`, a pipelined loop of one
    dot by `mma`, are resident than with prefetched fragments; None if the number of blocks cannot
    be increased."""
    dot = _only_dot(function)
    if dot is None:
        return None
    accumulators, fragments = _register_words(dot, warps)
    threads = warps * machine.lanes
    by_shared = machine.shared_per_processor // max(1, _buffers(function))
    plain, ahead = (
        min(by_shared, machine.registers_per_processor // (threads * _round_up(used)))
        for used in (accumulators + fragments + _PLAIN, accumulators + 2 * fragments + _AHEAD)
    )
    if plain <= ahead or accumulators + fragments + _PLAIN > machine.max_registers:
        return None
    each = machine.registers_per_processor // (threads * plain)
    limit = each // REGISTER_GRAIN * REGISTER_GRAIN - 1
    return limit if limit >= _LEAST else None


def stages_of_most_blocks(
    dot: Dot, count: int, stage_bytes: int, warps: int, machine: Target
) -> int:
    """The stages of a loop whose only dot is computed by `mma`: one less than `count` where another
    block is resident with them, and as many bytes of all blocks are in flight. More blocks need
    fewer waves, and hide more of each other's latency."""
    accumulators, fragments = _register_words(dot, warps)
    words = machine.register_words(warps, accumulators + 2 * fragments + _AHEAD)
    if count <= _FEWEST_STAGES:
        return count
    return _one_less(count, lambda n: machine.resident_blocks(warps, words, n * stage_bytes))


def stages_of_warpgroups(
    dots: Iterable[Dot], count: int, stage_bytes: int, other_bytes: int, warps: int, machine: Target
) -> int:
    """The same for a loop of several `dots` by warpgroups, which takes `other_bytes` besides its
    stages: the `wgmma` of one block run while another block computes between its dots."""
    every = tuple(dots)
    if count < _FEWEST_STAGES:
        return count
    return _one_less(
        count, lambda n: blocks_with_dots(every, other_bytes + n * stage_bytes, warps, machine)
    )


def _one_less(count: int, resident: Callable[[int], int]) -> int:
    """One stage less than `count` where more blocks are `resident`, and as many bytes of all blocks
    are in flight."""
    most, more = resident(count), resident(count - 1)
    return count - (more > most > 0 and more * (count - 2) >= most * (count - 1))


def is_stage_free(dot: Dot, count: int, stage_bytes: int, warps: int, machine: Target) -> bool:
    """Whether another stage than `count` of `stage_bytes` leaves as many blocks resident that
    compute `dot` by warpgroups."""
    accumulators = prod(shape_of(dot.c.type)) // (warps * machine.lanes)
    words = machine.register_words(warps, accumulators + _AHEAD)
    resident, less = (
        machine.resident_blocks(warps, words, stages * stage_bytes) for stages in (count, count + 1)
    )
    return resident == less


def blocks_with_dots(dots: Iterable[Dot], shared: int, warps: int, machine: Target) -> int:
    """The resident blocks of a loop of `dots` by warpgroups, with `shared` bytes of a block."""
    accumulators = sum(prod(shape_of(dot.c.type)) for dot in dots) // (warps * machine.lanes)
    used = min(accumulators + _AHEAD, machine.max_registers)
    return machine.resident_blocks(warps, machine.register_words(warps, used), shared)


def _round_up(registers: int) -> int:
    return -(-registers // REGISTER_GRAIN) * REGISTER_GRAIN


def _only_dot(function: Function) -> Dot | None:
    """The first of the dots into which a loop's only dot was split; None where a loop has several
    dots."""
    dots_of_loops = [dots_of(function, loop) for loop in loops(function).by_header.values()]
    dots = [d for each in dots_of_loops for d in each]
    if not dots or mma_of(dots[0]) is None or _buffers(function) == 0:
        return None
    chained = all(b.c is a.results[0] for a, b in pairwise(dots))
    in_steps = all(_from_buffer(function, x) for dot in dots for x in (dot.a, dot.b))
    return dots[0] if chained and in_steps else None


def _from_buffer(function: Function, operand: Operand) -> bool:
    """Whether fragments of an operand are read step by step: others are in registers whole."""
    op = definitions(function).get(operand) if isinstance(operand, Value) else None
    if isinstance(op, Trans):
        op = definitions(function).get(cast(Value, op.value))
    return isinstance(op, LocalLoad)


def _register_words(dot: Dot, warps: int) -> tuple[int, int]:
    """Registers of a thread's accumulator, and of its fragments of one step."""
    layouts, step = layouts_of(dot, warps), step_of(dot)
    depth = layouts.a.extents[-1]
    words = [
        layout.size("register") * cast(Any, element_of(operand.type)).bits // 32
        for layout, operand in ((layouts.a, dot.a), (layouts.b, dot.b), (layouts.c, dot.c))
    ]
    return words[2], (words[0] + words[1]) * min(step, depth) // depth


def _buffers(function: Function) -> int:
    """Bytes of the buffers of a block."""
    return sum(
        op.shape[0] * SharedTile.of(op).bytes for op in function.ops if isinstance(op, SharedAlloc)
    )
