"""The registers that tiles fill which are alive across an op."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import attrs

from tileir.analysis import memoize
from tileir.analysis.liveness import liveness
from tileir.backend.demand import registers
from tileir.backend.target import Target
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.types import Tile
from tileir.values import Value

_OTHERS = 16
"""Registers of a thread for addresses, counters and what an instruction needs on the way."""


@attrs.frozen
class ThreadRegisters:
    """A block has `threads` with at most `most` registers each."""

    threads: int
    most: int

    @classmethod
    def of(cls, context: Any) -> ThreadRegisters | None:
        """The registers in `context` of the pipeline: of its warps on its target, if it states no
        limit. None for a target without asynchronous copies."""
        target, threads = context.target, context.target.lanes * context.num_warps
        most = context.max_registers or target.available_registers(threads)
        return cls(threads, most) if target.cp_async else None

    def fits(self, words: int) -> bool:
        """Whether `words`, over all threads, fit besides addresses and counters."""
        return words <= (self.most - _OTHERS) * self.threads

    def suffice_for(self, function: Function) -> bool:
        """Whether they hold the tiles that are alive across any op of `function`."""
        return self.fits(max(live_registers(function).values(), default=0))


def shared_of_one_block(function: Function, dots: Collection[Dot], machine: Target) -> int:
    """The bytes of shared memory that the operands of a dot may take where one of `dots` and what
    is alive across it fill half of the registers: one block is resident anyway. A conversion of the
    largest tile, with padding, fits besides; integers that are no results of dots do not count,
    since most are recomputed. 0 where more blocks may be resident."""
    live = live_registers(function)
    words = (
        live.get(x, 0) + sum(registers(cast(Tile, v.type)) for v in {x.a, x.b, x.c}) for x in dots
    )
    if 2 * max(words, default=0) < machine.registers_per_processor:
        return 0
    moved = [v for op in function.ops for v in op.results if _registers(v)]
    moved += [x.results[0] for x in dots]
    kinds = (cast(Any, value.type) for value in moved)
    largest = max((kind.size * kind.element.bytes for kind in kinds), default=0)
    return machine.shared_bytes - largest - largest // 8


@memoize
def live_registers(function: Function) -> Mapping[Op, int]:
    """For each op of a reachable block, the registers, over all threads, of the tiles of floats
    that are alive before it and after it. Tiles of integers and pointers do not count: most are
    ranges and splats, which the generated code computes where they are used."""
    alive, counts = liveness(function), dict[Op, int]()
    for label, leaving in alive.leaving.items():
        current = set(leaving)
        live = sum(map(_registers, current))
        for op in reversed(function.blocks[label].ops):
            defined = current.intersection(op.results)
            current -= defined
            live -= sum(map(_registers, defined))
            counts[op] = live
            read = {v for v in op.operands if isinstance(v, Value)} - current
            current |= read
            live += sum(map(_registers, read))
    return counts


def _registers(value: Value) -> int:
    kind: Any = value.type
    is_float = isinstance(kind, Tile) and getattr(kind.element, "is_float", False)
    return registers(kind) if is_float else 0
