"""How many warpgroups multiply, and how many slots rings have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.backend.layouts.wgmma import ROWS
from tileir.backend.warp_specialize.rings import Ring, RingPlan
from tileir.backend.warp_specialize.stored_operands import StoredOperand, can_split_n
from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.refusal import Refusal
from tileir.types import shape_of

_MOST_SUMS = 200
_FEWEST_SLOTS = 2
_ENOUGH = 40 << 10
"""Bytes under way that hide how long copies take: a microsecond, at what a multiprocessor reads."""


def choose_warpgroups(
    function: Function, warps: int, found: RingPlan, factors: Mapping[Dot, StoredOperand]
) -> int | Refusal:
    """How many warpgroups multiply: those that share the rows of each product, or the columns of
    one whose first factor all can read."""
    dots = [op for op in function.ops if isinstance(op, Dot)]
    tiles = [shape_of(op.c.type) for op in dots]
    apart = [shape_of(dot.c.type) for dot in dots if dot not in factors]
    rows = min(m for m, _ in apart or tiles) // ROWS

    def fits(dot: Dot, groups: int) -> bool:
        whole = shape_of(dot.c.type)[0] // ROWS % groups == 0
        return whole or (dot in factors and can_split_n(dot, found, groups))

    fitting = [g for g in (3, 2, 1) if all(fits(dot, g) for dot in dots)]
    held = {g: max(m * n // (128 * g) for m, n in tiles) for g in fitting}
    few = [g for g in fitting if held[g] <= _MOST_SUMS]
    if warps and not warps % 4 and warps // 4 in few:
        return warps // 4
    if not few:
        return Refusal("the accumulators need more than 255 registers per thread")
    return next((g for g in few if g <= rows), few[-1])


def choose_stage_counts(
    kinds: Sequence[tuple[Ring, ...]], room: int, wanted: int
) -> list[int] | None:
    """Slots of each kind of ring within `room` bytes: as many as fit of those in innermost loops,
    two of those that stay for a loop within, or one where that leaves too few of the others; None
    where not even that fits."""
    moving = sum(g[0].bytes for g in kinds if not g[0].early)
    found: dict[int, int] = {}
    for ahead in (2, 1):
        early = sum(g[0].bytes * (1 if g[0].resident else ahead) for g in kinds if g[0].early)
        found[ahead] = _fitting(room - early, moving, wanted)
    ahead = max(found, key=lambda n: (min((found[n] - 1) * moving, _ENOUGH), n))
    if not found[ahead]:
        return None
    held = {True: 1, False: ahead}
    return [held[g[0].resident] if g[0].early else found[ahead] for g in kinds]


def _fitting(room: int, each: int, wanted: int) -> int:
    """Slots of `each` bytes that fit, 8 at most; 0 for less than two."""
    if not each:
        return 1
    fits = min(room // each, wanted or 8)
    return fits if fits >= min(_FEWEST_SLOTS, wanted or _FEWEST_SLOTS) else 0
