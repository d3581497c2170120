"""The resources that a block takes on a multiprocessor, derived from the program before code
generation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileir.analysis.liveness import liveness
from tileir.backend.compile import LoweredKernel
from tileir.backend.performance_model.accesses import accesses, by_depth, scattered_access_count
from tileir.backend.performance_model.model_inputs import ResourceUse, RoleProfile
from tileir.backend.performance_model.role_profile import roles_of
from tileir.backend.performance_model.work import WorkEstimate
from tileir.backend.target import Target
from tileir.backend.tma.host_plan import MapValues
from tileir.ir import Block, Function
from tileir.layout import Layout
from tileir.types import Pointer, Tile
from tileir.values import Value

_PLAIN = 16
"""Registers for addresses, counters and what an instruction needs on the way."""

_STEPS, _DEEP = 4, 16
"""Steps of K whose operands multiply-adds, and matrix instructions, keep live at once."""


def use_of(
    done: LoweredKernel, machine: Target, work: WorkEstimate, maps: Sequence[MapValues] = ()
) -> ResourceUse:
    """The resources of a block of kernel `done`, which does `work`. `maps` are its tensor maps for
    the arguments, if known."""
    last = done.stages["barriers"]
    functions = [f for f in last.functions.values() if not f.is_declaration]
    words = _PLAIN + max(most_registers(f) for f in functions)
    stages = [op.shape[0] for f in functions for op in _ops_named(f, "gpu.shared_alloc")]
    by_block = machine.registers_per_processor // (machine.lanes * done.num_warps) // 8 * 8
    limit = min(done.registers or machine.max_registers, by_block, machine.max_registers)
    plain = ResourceUse(
        done.num_warps, done.memory.size, words, max(stages, default=1), limit=limit
    )
    kernel = last.functions[done.kernel]
    roles = roles_of(last, kernel, maps)
    if roles is not None:
        return _by_roles(plain, _ops_named(kernel, "gpu.role"), roles)
    read = sum(
        _live_words(op.results[0]) for f in functions for op in _ops_named(f, "gpu.local_load")
    )
    fragments = read * 4.0 * machine.lanes * done.num_warps * max(1.0, work.steps)
    steps = accesses(kernel, by_depth(kernel)[0])
    gathers = scattered_access_count(steps, done.num_warps) * max(1.0, work.steps)
    return attrs.evolve(plain, fragments=fragments, gathers=gathers)


def _by_roles(plain: ResourceUse, started: Sequence[Any], roles: RoleProfile) -> ResourceUse:
    """The resources of a kernel whose warps have roles. Each role has the number of registers that
    it requests."""
    use = attrs.evolve(plain, roles=roles, stages=roles.num_stages)
    most = max(role.registers for role in started)
    if most == 0:  # its warps keep the registers with which they are launched
        return use
    words = sum(role.warps * 32 * role.registers for role in started)
    return attrs.evolve(use, limit=most, words=words)


def most_registers(function: Function) -> int:
    """The register pressure, in registers per thread. Splats, ranges and tiles of pointers count as
    one register per dimension, since the generated code rematerializes them."""
    alive, parts = liveness(function), dict(_operands(function))
    words_of = {v: words // parts.get(v, 1) or 1 for v, words in _words(function)}
    blocks = (function.blocks[label] for label in alive.leaving)
    return max((_most(b, alive.leaving[b.label], words_of) for b in blocks), default=0)


def _operands(function: Function) -> Iterator[tuple[Value, int]]:
    """Yield operands of dots, which are read a few steps of K at a time, each with the number of
    parts in which it is read."""
    for op in _ops_named(function, "dot"):
        bits, depth = op.a.type.element.bits, op.a.type.shape[-1]
        plain = bits == 32 and op.precision.value == "ieee"
        parts = max(1, depth // (_STEPS if plain else _DEEP))
        yield from ((v, parts) for v in (op.a, op.b) if isinstance(v, Value))


def _words(function: Function) -> Iterator[tuple[Value, int]]:
    for parameter in function.parameters:
        yield parameter.value, 1
    for block in function.blocks.values():
        yield from ((v, _live_words(v)) for v in block.parameters)
        yield from ((v, _live_words(v)) for op in block.ops for v in op.results)


def _most(block: Block, leaving: Iterable[Value], words_of: Mapping[Value, int]) -> int:
    """The largest register pressure at any op of `block`, computed from its end to its
    beginning."""
    current = set(leaving)
    words = sum(words_of[v] for v in current)
    most = words
    for op in reversed(block.ops):
        for result in op.results:
            if result in current:
                current.discard(result)
                words -= words_of[result]
        for operand in op.operands:
            if isinstance(operand, Value) and operand not in current:
                current.add(operand)
                words += words_of[operand]
        most = max(most, words)
    return most


def _live_words(value: Value) -> int:
    """The registers that `value` takes in a thread."""
    kind: Any = value.type
    if not isinstance(kind, Tile):
        return 1
    if isinstance(kind.element, Pointer) or kind.element.is_integer:
        return len(kind.shape)
    layout = kind.layout
    count = layout.size("register") if isinstance(layout, Layout) else 1
    return max(1, count * kind.element.bits // 32)


def _ops_named(function: Function, mnemonic: str) -> list[Any]:
    return [op for op in function.ops if op.mnemonic == mnemonic]
