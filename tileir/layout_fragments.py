"""Fragments: which thread holds which element of the operands of matrix instructions.

PTX ISA, "Matrix multiply-accumulate operation using mma instruction", sections "Matrix Fragments
for mma.m16n8k4" to "mma.m16n8k64" and "mma.m8n8k4"; "Asynchronous wgmma.mma_async", sections
"Register Fragments for wgmma.mma_async.m64nNk8" and on. They share one pattern: a lane's number
is (row of 8) * 4 + (word of 4), a word being as many neighbours along K as fill 32 bits; then come
8 rows further, then 4 words further along K.
"""

from __future__ import annotations

from math import prod

from tileir.layout import Layout, Repeat, Vector, layout
from tileir.types import F64, Element

ROWS, COLUMNS = 16, 8
"""Extents of the result of one `mma.m16n8k*`."""


def mma_result(shape: Vector, warps: Vector, *, rows: int = ROWS) -> Layout:
    """C and D of `mma.m16n8k*` (or m8n8k4 with `rows` 8) over a tile of `shape`, M and N last.

    `warps` counts warps per dimension of `shape`; warps are numbered along N fastest, then M, then
    batches. Registers repeat along N first, then M, until the tile is covered. Raises ValueError
    for less than two dimensions or counts that do not match."""
    _check(shape, warps)
    rank, m, n = len(shape), len(shape) - 2, len(shape) - 1
    steps = [Repeat("register", 2, n), Repeat("lane", 4, n), Repeat("lane", 8, m)]
    if rows == ROWS:
        steps.append(Repeat("register", 2, m))
    return _repeat_to_cover(rank, steps, shape, warps, (rows, COLUMNS))


def mma_operand(
    operand: str, element: Element, shape: Vector, warps: Vector, *, rows: int = ROWS
) -> Layout:
    """A (M x K, row) or B (K x N, column) of `mma` over a tile of `shape`, for `element`.

    `warps` are those of the result, as for `mma_result`: those that do not move along this
    operand hold copies. K may be any number: registers repeat along K, then along M or N; what
    one instruction consumes are the next registers of each. f64 and tf32 (in 32 bits) hold one
    element in a word's place. Raises ValueError as `mma_result`, or unless `operand` is a or b.
    """
    _check(shape, warps)
    if operand not in ("a", "b"):
        raise ValueError(f"expected operand a or b, found {operand}")
    rank, k = len(shape), len(shape) - (1 if operand == "a" else 2)
    outer = len(shape) - (2 if operand == "a" else 1)
    word = 1 if element is F64 else max(1, 32 // element.bits)
    steps = [Repeat("register", word, k), Repeat("lane", 4, k), Repeat("lane", 8, outer)]
    tall = operand == "a" and rows == ROWS
    if tall:
        steps.append(Repeat("register", 2, outer))
    covered = [1] * rank
    covered[k], covered[outer] = 4 * word, rows if operand == "a" else COLUMNS
    return _operand_covered(rank, steps, shape, warps, covered, operand)


def wgmma_result(shape: Vector, warps: Vector) -> Layout:
    """D of `wgmma.m64nNk*` over a tile of `shape`: the four warps of a warpgroup own 64 rows, and
    registers cover N; the columns of a warp are contiguous. `warps` counts warps per dimension, a
    multiple of 4 along M, which run along M fastest. Raises ValueError otherwise."""
    _check(shape, warps)
    if warps[-2] % 4:
        raise ValueError(f"expected a multiple of 4 warps along M, found {warps[-2]}")
    rank, m, n = len(shape), len(shape) - 2, len(shape) - 1
    steps = [Repeat("register", 2, n), Repeat("lane", 4, n), Repeat("lane", 8, m)]
    steps += [Repeat("register", 2, m), Repeat("warp", 4, m)]
    steps.append(Repeat("warp", groups := warps[-2] // 4, m))
    steps.append(Repeat("register", -(-shape[n] // (COLUMNS * warps[-1])), n))
    steps.append(Repeat("warp", warps[-1], n))
    steps += [Repeat("warp", warps[d], d) for d in reversed(range(rank - 2))]
    steps.append(Repeat("register", -(-shape[m] // (4 * ROWS * groups)), m))
    steps += [Repeat("register", -(-shape[d] // warps[d]), d) for d in reversed(range(rank - 2))]
    return layout(rank, repeats=tuple(steps))


def wgmma_operand(element: Element, shape: Vector, warps: Vector) -> Layout:
    """A of `wgmma` from registers (M x K): rows as `wgmma_result`, columns as `mma`. `warps` are
    those of the result; warps along N own copies. Raises ValueError as `wgmma_result`."""
    _check(shape, warps)
    if warps[-2] % 4:
        raise ValueError(f"expected a multiple of 4 warps along M, found {warps[-2]}")
    rank, m, k = len(shape), len(shape) - 2, len(shape) - 1
    word = max(1, 32 // element.bits)
    steps = [Repeat("register", word, k), Repeat("lane", 4, k), Repeat("lane", 8, m)]
    steps += [Repeat("register", 2, m), Repeat("warp", 4, m)]
    steps.append(Repeat("register", -(-shape[k] // (4 * word)), k))
    groups = warps[-2] // 4
    steps += [Repeat("warp", groups, m), Repeat("warp", warps[-1], None)]
    steps += [Repeat("warp", warps[d], d) for d in reversed(range(rank - 2))]
    steps.append(Repeat("register", -(-shape[m] // (64 * groups)), m))
    steps += [Repeat("register", -(-shape[d] // warps[d]), d) for d in reversed(range(rank - 2))]
    return layout(rank, repeats=tuple(steps))


def _repeat_to_cover(
    rank: int, steps: list[Repeat], shape: Vector, warps: Vector, instruction: tuple[int, int]
) -> Layout:
    """`steps`, one instruction, repeated by warps and registers until `shape` is covered."""
    covered = [1] * (rank - 2) + list(instruction)
    moved = list(steps)
    for d in (rank - 1, rank - 2, *reversed(range(rank - 2))):
        moved.append(Repeat("warp", warps[d], d))
        covered[d] *= warps[d]
    for d in (rank - 1, rank - 2, *reversed(range(rank - 2))):
        moved.append(Repeat("register", -(-shape[d] // covered[d]), d))
    return layout(rank, repeats=tuple(moved))


def _operand_covered(
    rank: int, steps: list[Repeat], shape: Vector, warps: Vector, covered: list[int], operand: str
) -> Layout:
    """The same for an operand: K in registers, warps along the result's other side replicate."""
    k, outer = (rank - 1, rank - 2) if operand == "a" else (rank - 2, rank - 1)
    moved = [*steps, Repeat("register", -(-shape[k] // covered[k]), k)]
    mine = {
        rank - 1: None if operand == "a" else outer,
        rank - 2: outer if operand == "a" else None,
    }
    for d in reversed(range(rank)):
        dim = mine.get(d, d)
        moved.append(Repeat("warp", warps[d], dim))
        if dim is not None:
            covered[dim] *= warps[d]
    for d in (outer, *reversed(range(rank - 2))):
        moved.append(Repeat("register", -(-shape[d] // covered[d]), d))
    return layout(rank, repeats=tuple(moved))


def _check(shape: Vector, warps: Vector) -> None:
    if len(shape) < 2 or len(warps) != len(shape) or prod(warps) < 1 or min(warps) < 1:
        raise ValueError(f"expected a count of warps for each of two or more extents of {shape}")
