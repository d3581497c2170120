"""What a block of a kernel takes of a processor, read off the program before code is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tileir.analysis.liveness import liveness
from tileir.backend.compile import Staged
from tileir.backend.target import Target
from tileir.backend.tuning.cost import BY_WARP, GROUPED, Use
from tileir.ir import Block, Function
from tileir.layout import Layout
from tileir.types import Pointer, Tile
from tileir.values import Value

_PLAIN = 16
"""Registers for addresses, counters and what an instruction needs on the way."""

_STEPS, _DEEP = 4, 16
"""Steps of K whose factors multiply-adds, and matrix instructions, hold at once."""


def use_of(done: Staged, machine: Target, rounds: float) -> Use:
    """What a block of a staged kernel takes; `rounds` of its loop read fragments."""
    function = done.stages["barriers"].functions[done.kernel]
    slots = [op.shape[0] for op in _named(function, "gpu.shared_alloc")]
    read = sum(_held(op.results[0]) for op in _named(function, "gpu.local_load"))
    fragments = read * 4.0 * machine.lanes * done.num_warps * max(1.0, rounds)
    words = _PLAIN + most_registers(function)
    by_block = machine.registers_per_processor // (machine.lanes * done.num_warps)
    limit = min(done.registers or machine.max_registers, by_block, machine.max_registers)
    grouped = any("wgmma" in op.mnemonic for op in function.ops)
    return Use(
        done.num_warps, done.memory.size, words, max(slots, default=1), fragments, limit,
        GROUPED if grouped else BY_WARP,
    )  # fmt: skip


def most_registers(function: Function) -> int:
    """Words that the values alive at once need per thread, where they are most. Splats, ranges
    and tiles of pointers count as one word per dimension: code computes them again."""
    alive, parts = liveness(function), dict(_factors(function))
    held = {v: words // parts.get(v, 1) or 1 for v, words in _words(function)}
    blocks = (function.blocks[label] for label in alive.leaving)
    return max((_most(b, alive.leaving[b.label], held) for b in blocks), default=0)


def _factors(function: Function) -> Iterator[tuple[Value, int]]:
    """Factors of products, which are read a few steps of K at a time, with the parts that makes."""
    for op in _named(function, "dot"):
        bits, depth = op.a.type.element.bits, op.a.type.shape[-1]
        plain = bits == 32 and op.precision.value == "ieee"
        parts = max(1, depth // (_STEPS if plain else _DEEP))
        yield from ((v, parts) for v in (op.a, op.b) if isinstance(v, Value))


def _words(function: Function) -> Iterator[tuple[Value, int]]:
    for parameter in function.parameters:
        yield parameter.value, 1
    for block in function.blocks.values():
        yield from ((v, _held(v)) for v in block.parameters)
        yield from ((v, _held(v)) for op in block.ops for v in op.results)


def _most(block: Block, leaving: Iterable[Value], held: Mapping[Value, int]) -> int:
    """The most at any op of `block`, from its end to its beginning."""
    current = set(leaving)
    words = sum(held[v] for v in current)
    most = words
    for op in reversed(block.ops):
        for result in op.results:
            if result in current:
                current.discard(result)
                words -= held[result]
        for operand in op.operands:
            if isinstance(operand, Value) and operand not in current:
                current.add(operand)
                words += held[operand]
        most = max(most, words)
    return most


def _held(value: Value) -> int:
    """Words of `value` in a thread."""
    kind: Any = value.type
    if not isinstance(kind, Tile):
        return 1
    if isinstance(kind.element, Pointer) or kind.element.is_integer:
        return len(kind.shape)
    layout = kind.layout
    count = layout.size("register") if isinstance(layout, Layout) else 1
    return max(1, count * kind.element.bits // 32)


def _named(function: Function, mnemonic: str) -> list[Any]:
    return [op for op in function.ops if op.mnemonic == mnemonic]
