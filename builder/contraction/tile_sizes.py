"""Default tile sizes of a contraction, for stages without a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index
from tileir.builder.contraction.axes import TiledAxis
from tileir.builder.contraction.emit import guards
from tileir.builder.contraction.matmul import (
    contiguous,
    multiplicands,
    neighbours,
    operand_element,
    split,
)
from tileir.builder.contraction.stage import ComputeStage, Tiling
from tileir.builder.contraction.terms import Read, Reduce, Tensor, bounds, free, reads, walk
from tileir.types import Scalar

LANES = 1024
"""Elements of a tile of an elementwise stage."""

POINTS = 4096
"""Values that one step of a reduction combines."""

SHORT = 16
"""A reduction of at most this many values is unrolled."""

WINDOW = 128
"""Columns of a tile whose elements read a window of several rows."""

INSTANCES = 256
"""The number of program instances that a reduction should have."""

LEAST = 16
"""The smallest M, N or K of a tile."""

WORTH = 8
"""The smallest M, N and K that use a dot."""

MULTIPROCESSORS = 132
"""Multiprocessors of the modelled GPU (H100)."""

READING = 64
"""The cost of reading a row or column of an operand, in multiply-adds of a row or column."""

WASTE = 0.85
"""The least share of the elements of boxes that must be used."""

_MATMUL_TILES = {
    8: ((128, 128, 64), (64, 64, 64)),
    16: ((128, 256, 64), (128, 128, 64), (64, 128, 64), (64, 64, 64)),
    32: ((128, 128, 32), (64, 64, 32), (32, 32, 32)),
    64: ((64, 64, 16), (32, 32, 16)),
}
"""M, N and K of tiles by the bits of the operand elements, largest first."""


def tiling(stage: ComputeStage) -> Tiling:
    """Return the tiling of a stage: the tiles of a matmul if its first reduction can be one, else
    tiles of contiguous elements."""
    for term in walk(stage.term):
        if isinstance(term, Reduce) and (sides := matrix_sides(stage, term)) is not None:
            return _of_matrices(stage, term, *sides)
    return _of_elements(stage)


# Matrices ---------------------------------------------------------------------------------------


def matrix_sides(
    stage: ComputeStage, term: Reduce
) -> tuple[tuple[Index, ...], tuple[Index, ...]] | None:
    """The indices of rows and of columns, in the order of the elements; None if `term` is no
    matmul, or if its M, N or K is less than `WORTH`. Batch indices, which all multiplicands have,
    are in neither."""
    spans = dict(stage.elements)
    result = [frozenset(free(x) & spans.keys()) for x in multiplicands(term.of)]
    result = [x for x in result if x]
    if len(result) < 2 or term.kind != "sum":
        return None
    shared = frozenset.intersection(*result)
    groups = _join([x - shared for x in result if x - shared])
    if len(groups) != 2 or split(term, *groups) is None or operand_element(term) is None:
        return None
    last = next((i for i in reversed(list(spans)) if i in groups[0] | groups[1]), None)
    if last in groups[0]:
        groups.reverse()
    rows, columns = (tuple(i for i in spans if i in group) for group in groups)
    depth = prod(len(span) for _, span in term.over)
    extents = (prod(len(spans[i]) for i in side) for side in (rows, columns))
    return None if min(*extents, depth) < WORTH else (rows, columns)


def _join(groups: Sequence[frozenset[Index]]) -> list[frozenset[Index]]:
    """`groups`, where groups that share an index are merged."""
    indexes: list[frozenset[Index]] = []
    for group in groups:
        overlapping = [x for x in indexes if x & group]
        indexes = [x for x in indexes if not x & group]
        indexes.append(group.union(*overlapping))
    return indexes


def _of_matrices(
    stage: ComputeStage, term: Reduce, rows: tuple[Index, ...], columns: tuple[Index, ...]
) -> Tiling:
    spans = dict(stage.elements)
    kind = operand_element(term)
    assert isinstance(kind, Scalar)
    high, wide = (prod(len(spans[i]) for i in side) for side in (rows, columns))
    batch_indices = [i for i in spans if i not in (*rows, *columns)]
    copies = prod(len(spans[i]) for i in batch_indices)
    height, width, depth = _tile(kind, high, wide, copies)
    first = side_axes(stage, [(i, spans[i]) for i in rows], height)
    second = side_axes(stage, [(i, spans[i]) for i in columns], width)
    batch = (TiledAxis(tuple((i, spans[i]) for i in batch_indices)),) if batch_indices else ()
    walks = {term: depth_axis(term, depth)}
    warps = 8 if height * width >= 128 * 256 or (kind.bits == 32 and height >= 128) else 4
    few = height * width < 64 * 64
    return Tiling((*batch, *first, *second), walks, 8, 2 if few else warps, 3)


def _tile(kind: Scalar, high: int, wide: int, copies: int) -> tuple[int, int, int]:
    """M, N and K of the tile with the least estimated time: waves of tiles times the multiply-adds
    and reads of a tile. Extents do not exceed those of the matmul, rounded up to powers of two."""

    def time(choice: tuple[int, int, int]) -> float:
        height, width, _ = choice
        waves = -(-(-(-high // height) * -(-wide // width) * copies) // MULTIPROCESSORS)
        return waves * height * width * (1 + READING / height + READING / width)

    height, width, depth = min(_MATMUL_TILES.get(kind.bits, _MATMUL_TILES[16]), key=time)
    return min(height, _power(high, LEAST)), min(width, _power(wide, LEAST)), depth


def side_axes(
    stage: ComputeStage, spans: list[tuple[Index, range]], tile: int
) -> tuple[TiledAxis, ...]:
    """The axes of rows or columns. One flattened axis if all accesses are contiguous along the
    flattened indices. Otherwise an axis per index, if boxes with power-of-two extents, which tensor
    maps can load, waste few elements. Otherwise one flattened axis that is delinearized."""
    if len(spans) == 1 or len(spans[-1][1]) % tile == 0:
        return (TiledAxis(tuple(spans), tile),)
    flat = TiledAxis(tuple(spans), tile, flat=True)
    accesses = [(r.tensor, r.at) for r in reads(stage.term)]
    along = [a for a in (*accesses, (stage.output, stage.at)) if _touches(flat, a[1])]
    if all(_goes_along(flat, *access) for access in along) and not _is_guarded(stage, flat):
        return (flat,)
    box = min(_boxes(len(spans), tile), key=lambda b: (_covering(spans, b), [-n for n in b[::-1]]))
    if _covering(spans, box) * WASTE > flat.points:
        return (flat,)
    return tuple(TiledAxis((span,), n) for span, n in zip(spans, box, strict=True))


def _touches(axis: TiledAxis, at: Sequence[object]) -> bool:
    result = {i for position in at if isinstance(position, AffineIndex) for i in position.indices}
    return bool(result & set(axis.indices))


def _is_guarded(stage: ComputeStage, axis: TiledAxis) -> bool:
    """Whether a read or a reduction has a condition that fails at some points of an axis."""
    spans = dict(stage.elements)
    conditions: list[AffineBound] = []
    for term in walk(stage.term):
        conditions += guards(term) if isinstance(term, Read) else bounds(term)
        spans.update(term.over if isinstance(term, Reduce) else ())
    mine = set(axis.indices)
    return any(set(b.of.indices) & mine and not b.holds(spans) for b in conditions)


def _boxes(rank: int, points: int) -> list[tuple[int, ...]]:
    """Extents of boxes of `points` points, all powers of two."""
    if rank == 1:
        return [(points,)]
    sizes = [1 << n for n in range(points.bit_length())]
    return [(n, *extents) for n in sizes for extents in _boxes(rank - 1, points // n)]


def _covering(spans: Sequence[tuple[Index, range]], box: Sequence[int]) -> int:
    """The number of points of the boxes that cover the box `spans`."""
    return prod(-(-len(span) // n) * n for (_, span), n in zip(spans, box, strict=True))


def depth_axis(term: Reduce, depth: int) -> TiledAxis:
    """The axis K of a matmul: the reduced index that is contiguous in memory, or all reduced
    indices flattened if that index is short."""
    over = along_memory(term)
    points, inner = prod(len(span) for _, span in over), len(over[-1][1])
    depth = min(depth, _power(points, LEAST))
    if len(over) == 1 or inner % depth == 0:
        return TiledAxis(tuple(over), depth)
    dividing = inner & -inner  # the largest power of two that divides it
    return TiledAxis(tuple(over), dividing if dividing >= LEAST else depth, dividing < LEAST)


def along_memory(term: Reduce) -> list[tuple[Index, range]]:
    """The reduced indices with their ranges; indices that are contiguous in memory last."""
    near = [contiguous(read) for read in reads(term.of)]
    return sorted(term.over, key=lambda x: x[0] in near)


# Elements ---------------------------------------------------------------------------------------


def _of_elements(stage: ComputeStage) -> Tiling:
    """A tile of contiguous output elements; of two dimensions if an operand is contiguous along
    another index."""
    lanes = min(
        (_lanes(stage, t) for t in walk(stage.term) if isinstance(t, Reduce)), default=LANES
    )
    if _is_even(stage):
        flat = TiledAxis(stage.elements, min(lanes, _power(_points(stage), 1)), flat=True)
        return Tiling((flat,))
    axes: list[TiledAxis] = []
    lanes_left = lanes
    widest = WINDOW if _has_windows(stage) else lanes
    near = [i for i in _contiguous_reads(stage) if i is not stage.elements[-1][0]]
    for index, span in reversed(stage.elements):
        most = 32 if near and lanes > 32 and (index in near or not axes) else widest
        tile = min(most, lanes_left, _power(len(span), 1))
        lanes_left //= tile
        axes.insert(0, TiledAxis(((index, span),), tile))
    return Tiling(tuple(axes))


def _lanes(stage: ComputeStage, term: Reduce) -> int:
    """The elements of the tile of a stage with a reduction: few if the lanes of a warp follow the
    reduced index, and a quarter of `LANES` if many values are reduced."""
    if along_lanes(term):
        return max(1, min(8, _points(stage) // INSTANCES))
    return LANES if prod(len(span) for _, span in term.over) <= SHORT else LANES // 4


def _has_windows(stage: ComputeStage) -> bool:
    """Whether an element reads a window: several rows of a tensor."""
    rows: dict[Tensor, set[tuple[AffineIndex, ...]]] = {}
    for read in reads(stage.term):
        starts = tuple(at for at in read.at[:-1] if isinstance(at, AffineIndex))
        rows.setdefault(read.tensor, set()).add(starts)
    inner = {i for t in walk(stage.term) if isinstance(t, Reduce) for i, _ in t.over}
    outer = {index for index, _ in stage.elements}
    mixed = (
        set(at.indices) for rows_of_tensor in rows.values() for row in rows_of_tensor for at in row
    )
    several = any(len(row) > 1 for row in rows.values())
    return several or any(indices & inner and indices & outer for indices in mixed)


def _contiguous_reads(stage: ComputeStage) -> list[Index]:
    """Indices of elements along which a read is contiguous."""
    spans = dict(stage.elements)
    return [i for read in reads(stage.term) for i in neighbours(read) if i in spans]


def _is_even(stage: ComputeStage) -> bool:
    """Whether all accesses are contiguous along the flattened indices of elements."""
    if not stage.elements:
        return True
    accesses = [(read.tensor, read.at) for read in reads(stage.term) if not read.tensor.by_value]
    flat = TiledAxis(stage.elements, 1, flat=True)
    return all(_goes_along(flat, *access) for access in [*accesses, (stage.output, stage.at)])


def _goes_along(axis: TiledAxis, tensor: Tensor, at: Sequence[object]) -> bool:
    offset = AffineIndex()
    for stride, position in zip(tensor.strides, at, strict=True):
        if not isinstance(position, AffineIndex):
            return False
        offset += position * stride
    step = offset.coefficient(axis.indices[-1])
    return all(
        offset.coefficient(i) == step * s for i, s in zip(axis.indices, axis.strides, strict=True)
    )


def _points(stage: ComputeStage) -> int:
    return prod(len(span) for _, span in stage.elements)


def along_lanes(term: Reduce) -> bool:
    """Whether the lanes of a warp follow the reduced index: if a read is contiguous along reduced
    indices only."""
    indices = {index for index, _ in term.over}
    return any(
        indices_of_dim and indices.issuperset(indices_of_dim)
        for indices_of_dim in map(neighbours, reads(term.of))
    )


def walk_of(term: Reduce, shape: Sequence[int]) -> TiledAxis:
    """The axis of a reduction in a tile of `shape`."""
    over = along_memory(term)
    if not over:
        return TiledAxis(())
    points, extent = prod(len(span) for _, span in over), len(over[-1][1])
    lanes, along = max(1, POINTS // prod(shape)), along_lanes(term)
    if not along and prod(shape) > 64 and (points <= SHORT or extent < SHORT):
        return TiledAxis(tuple(over))
    flat = len(over) > 1 and extent < min(lanes, 64)
    return TiledAxis(tuple(over), min(lanes, _power(points if flat else extent, 1)), flat)


def _power(n: int, least: int) -> int:
    """The least power of two that is at least `n` and `least`."""
    return max(least, 1 << max(0, n - 1).bit_length())
