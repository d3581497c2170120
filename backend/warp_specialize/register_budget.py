"""The registers per thread of the producer and the consumers (`setmaxnreg`)."""

from __future__ import annotations

from math import prod

from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.types import shape_of

_DEFAULT = {1: (0, 0), 2: (40, 232), 3: (32, 160)}
_COOPERATIVE_LOADS = {1: (0, 0), 2: (104, 200), 3: (80, 144)}
_STORED_OPERANDS = {1: (0, 0), 2: (24, 240), 3: (32, 160)}
"""Registers per thread of the producer and of the consumers, by the number of consumer warpgroups:
by default; where producer threads load blocks; where consumers store large operands A to shared
memory, which are live next to the accumulators."""
_AS_LAUNCHED = 0, 0
_SMALL_ACCUMULATOR, _MOST_WARPGROUPS = 64, 2
"""Accumulator registers per thread, and consumer warpgroups, up to which roles keep the 168
registers of the launch if all loads use tensor maps: without `setmaxnreg`, ptxas allocates a tenth
less."""
_LARGE_OPERAND = 64
"""Elements per thread of an operand that count as many."""
_FEW_ELEMENTS = 4
"""Elements per thread that a consumer loads at hardly any cost in registers."""


def choose_registers(
    function: Function, groups: int, cooperative_loads: bool, operand_elements: int
) -> tuple[int, int]:
    """The registers per thread of the producer and of the consumers; 0 for those of the launch.
    `function` has `groups` consumer warpgroups. `cooperative_loads` states whether producer threads
    load operands. `operand_elements` is the number of elements per consumer thread of the largest
    stored operand A."""
    if cooperative_loads:
        return _COOPERATIVE_LOADS[groups]
    if operand_elements >= _LARGE_OPERAND:
        return _STORED_OPERANDS[groups]
    small = (
        groups <= _MOST_WARPGROUPS
        and _accumulator_registers(function, groups) <= _SMALL_ACCUMULATOR
    )
    return _AS_LAUNCHED if small and not _gathers(function, groups) else _DEFAULT[groups]


def _gathers(function: Function, groups: int) -> bool:
    """Whether consumers load more than a few elements per thread from global memory."""
    loads = (op for op in function.ops if isinstance(op, Load))
    return any(prod(shape_of(op.result.type)) > _FEW_ELEMENTS * 128 * groups for op in loads)


def _accumulator_registers(function: Function, groups: int) -> int:
    """Registers per thread of the accumulators of all dots."""
    dots = (op for op in function.ops if isinstance(op, Dot))
    return sum(prod(shape_of(op.result.type)) for op in dots) // (128 * groups)
