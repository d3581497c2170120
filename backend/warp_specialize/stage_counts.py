"""The number of consumer warpgroups of a kernel, and the number of stages of its rings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.backend.layouts.wgmma import ROWS
from tileir.backend.warp_specialize.rings import Ring, RingPlan
from tileir.backend.warp_specialize.stored_operands import TransposedOperand, can_split_n
from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.refusal import Refusal
from tileir.types import shape_of

_MAX_ACCUMULATOR_REGISTERS = 200
_MIN_STAGES = 2
_BYTES_IN_FLIGHT = 40 << 10
"""Bytes in flight that hide the latency of copies: one microsecond at the bandwidth of a
multiprocessor."""


def choose_warpgroups(
    function: Function, warps: int, plan: RingPlan, stored_operands: Mapping[Dot, TransposedOperand]
) -> int | Refusal:
    """The number of consumer warpgroups: they divide the rows of each dot, or the columns of a dot
    whose operand A is in shared memory. `warps` is the requested number of warps, 0 to choose."""
    dots = [op for op in function.ops if isinstance(op, Dot)]
    tiles = [shape_of(op.c.type) for op in dots]
    row_split = [shape_of(dot.c.type) for dot in dots if dot not in stored_operands]
    rows = min(m for m, _ in row_split or tiles) // ROWS

    def can_divide(dot: Dot, groups: int) -> bool:
        divides_rows = shape_of(dot.c.type)[0] // ROWS % groups == 0
        return divides_rows or (dot in stored_operands and can_split_n(dot, plan, groups))

    candidates = [g for g in (3, 2, 1) if all(can_divide(dot, g) for dot in dots)]
    registers = {g: max(m * n // (128 * g) for m, n in tiles) for g in candidates}
    feasible = [g for g in candidates if registers[g] <= _MAX_ACCUMULATOR_REGISTERS]
    if warps and not warps % 4 and warps // 4 in feasible:
        return warps // 4
    if not feasible:
        return Refusal("the accumulators need more than 255 registers per thread")
    return next((g for g in feasible if g <= rows), feasible[-1])


def choose_stage_counts(
    kinds: Sequence[tuple[Ring, ...]], available: int, requested: int
) -> list[int] | None:
    """The number of stages of each kind of ring, within `available` bytes: as many as fit for the
    rings of innermost loops; two for outer rings, or one if two would leave too few bytes in flight
    for the other rings. None if even that does not fit. `requested` is the maximum number, 0 for 8.
    """
    inner_bytes = sum(g[0].bytes for g in kinds if not g[0].is_outer)
    inner: dict[int, int] = {}
    for outer in (2, 1):
        outer_bytes = sum(
            g[0].bytes * (1 if g[0].resident else outer) for g in kinds if g[0].is_outer
        )
        inner[outer] = _stages_that_fit(available - outer_bytes, inner_bytes, requested)
    outer = max(inner, key=lambda n: (min((inner[n] - 1) * inner_bytes, _BYTES_IN_FLIGHT), n))
    if not inner[outer]:
        return None
    outer_counts = {True: 1, False: outer}
    return [outer_counts[g[0].resident] if g[0].is_outer else inner[outer] for g in kinds]


def _stages_that_fit(available: int, each: int, requested: int) -> int:
    """The number of stages of `each` bytes that fit, 8 at most; 0 if fewer than two fit."""
    if not each:
        return 1
    fits = min(available // each, requested or 8)
    return fits if fits >= min(_MIN_STAGES, requested or _MIN_STAGES) else 0
