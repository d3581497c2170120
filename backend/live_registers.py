"""The registers that tiles fill which are alive across an op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileir.analysis import memoize
from tileir.analysis.liveness import liveness
from tileir.backend.demand import registers
from tileir.ir import Function
from tileir.op import Op
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
