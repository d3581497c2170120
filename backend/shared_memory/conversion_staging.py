"""Staging of a tile through shared memory, from one layout to another.

The tile is cut into boxes. The extent of a box is the power of two that both layouts cover by bits.
Within a box, offsets are linear over GF(2) (`tileir.backend.shared_memory.swizzle`); boxes are
contiguous. Layouts that do not split so (swizzled across boxes, or with repeated lanes) use padded
rows, with the padding that takes the fewest wavefronts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING

import attrs

from tileir.layout import Layout, Vector
from tileir.layout_bits import apply, kernel

if TYPE_CHECKING:
    from tileir.backend.shared_memory.swizzle import Columns, Swizzle

_ITERATION_BYTES = 65536
"""Bytes of a tile that are staged at once: the registers of two warpgroups hold such a tile and its
f32 accumulator. Larger tiles take several iterations, each of which tests what all registers hold.
"""

_PADS = (0, 4, 8, 16, 32, 64)
"""Bytes after a row that are tried."""


_WORD = 4
"""Bytes of a register."""

_SAMPLE = 4
"""Accesses of a side whose wavefronts are counted to compare ways."""


@attrs.frozen
class MatrixAccess:
    """A side accessed by matrix loads or stores. In `rows` a lane owns the row whose address it
    passes. Per instruction: the register of `rows` where that row begins, and the registers of the
    fragment, word by word."""

    rows: Layout
    transposed: bool
    count: int
    """Matrices of 8 rows that an instruction moves."""
    accesses: tuple[tuple[int, tuple[int, ...]], ...]


@attrs.frozen
class Side:
    """One side of the passage: its layout, and the registers of each access, neighbours in
    memory, the first at the lowest offset. Where a target has matrix instructions, `matrices`
    takes the place of these accesses."""

    layout: Layout
    groups: tuple[tuple[int, ...], ...]
    matrices: MatrixAccess | None = None

    @property
    def vector(self) -> int:
        """Elements per access."""
        return len(self.groups[0])


@attrs.frozen(slots=False)
class ConversionStaging:
    """Byte offsets of a tile of `shape`. The offset of coordinate `x` is the exclusive or of
    `matrix` over the bits of its low parts (`widths[d]` bits, dimension 0 lowest), plus `(x[d] >>
    widths[d]) * strides[d]`. Coordinates up to `covered` have an offset."""

    size: int
    """Bytes of an element."""
    shape: Vector
    covered: Vector
    widths: Vector
    matrix: tuple[int, ...]
    strides: Vector
    bytes: int
    source: Side
    target: Side

    @property
    def iterations(self) -> int:
        """The number of passes through shared memory."""
        return -(-self.bytes // _ITERATION_BYTES)

    @property
    def bytes_at_once(self) -> int:
        """The bytes of shared memory in use at a time."""
        return min(self.bytes, _ITERATION_BYTES)

    def low(self, v: Vector) -> int:
        """The part of the offset within a box."""
        from tileir.layout_algebra import pack

        parts = [x & ((1 << w) - 1) for x, w in zip(v, self.widths, strict=True)]
        return apply(self.matrix, pack(parts, self.widths))

    def high(self, v: Vector) -> int:
        """The offset of the box."""
        terms = zip(v, self.widths, self.strides, strict=True)
        return sum((x >> w) * stride for x, w, stride in terms)

    def offset(self, v: Vector) -> int:
        """The byte offset of the element at `v`."""
        return self.low(v) + self.high(v)

    @cached_property
    def cost(self) -> int:
        """Wavefronts of warp 0, on both sides."""
        return sum(_side_cost(self, side) for side in (self.source, self.target))

    def moves(self) -> int:
        """Instructions that pack and unpack the words of a thread, on both sides."""
        return sum(_moves(self, side) for side in (self.source, self.target))


@cache
def staging(source: Layout, target: Layout, shape: Vector, size: int) -> ConversionStaging:
    """The staging of a tile of elements of `size` bytes from layout `source` to `target`."""
    candidates = [s for s in (_swizzled_staging(source, target, shape, size),) if s is not None]
    if candidates and _lanes_in_boxes(candidates[0]):
        return candidates[0]
    candidates += _rows(source, target, shape, size)
    return min(candidates, key=lambda s: s.cost)


def _lanes_in_boxes(staging: ConversionStaging) -> bool:
    """Whether no lane leaves its box, so that the swizzle accounts for every conflict."""
    lanes = (v for side in (staging.source, staging.target) for v in side.layout.lane)
    return all(not any(x >> w for x, w in zip(v, staging.widths, strict=True)) for v in lanes)


def _side_cost(staging: ConversionStaging, side: Side) -> int:
    """Accesses and their wavefronts, by a sample of them."""
    from tileir.backend.shared_memory.bank_conflicts import wavefronts
    from tileir.backend.shared_memory.swizzle import WIDEST

    if side.matrices is None:
        layout, lanes, wide = side.layout, side.layout.size("lane"), staging.size * side.vector
        starts = [group[0] for group in side.groups]
    else:
        layout, lanes, wide = side.matrices.rows, 8 * side.matrices.count, WIDEST
        starts = [start for start, _ in side.matrices.accesses]
    sample = starts[:: max(1, len(starts) // _SAMPLE)]
    cost = sum(wavefronts(_offsets(staging, layout, start, lanes), wide) for start in sample)
    return len(starts) * (cost + len(sample)) // len(sample)


def _moves(staging: ConversionStaging, side: Side) -> int:
    """The number of instructions that move or pack words because the elements of one access are not
    neighbours in registers."""
    each, moves = max(1, _WORD // staging.size), 0
    groups = side.groups
    if side.matrices is not None:
        groups = tuple(registers for _, registers in side.matrices.accesses)
    for group in groups:
        words = [group[i : i + each] for i in range(0, len(group), each)]
        moves += sum(not _is_run(word, each) for word in words)
        moves += 0 if len(words) == 1 or _is_run(group, len(group)) else len(words)
    return moves


def _is_run(registers: tuple[int, ...], count: int) -> bool:
    """Whether registers are `count` neighbours, the first a multiple of it."""
    first = registers[0]
    return first % count == 0 and registers == tuple(range(first, first + count))


def _offsets(
    staging: ConversionStaging, layout: Layout, register: int, lanes: int
) -> list[int | None]:
    """The byte offset of `register` of each lane; None past what is staged."""
    columns = _lane_columns(staging, layout)
    if columns is not None:
        first = layout.coordinate(register)
        low, high = staging.low(first), staging.high(first)
        return [(low ^ apply(columns, lane)) + high for lane in range(lanes)]
    offsets: list[int | None] = []
    for lane in range(lanes):
        at = layout.coordinate(register, lane)
        inside = all(a < n for a, n in zip(at, staging.covered, strict=True))
        offsets.append(staging.offset(at) if inside else None)
    return offsets


def _lane_columns(staging: ConversionStaging, layout: Layout) -> list[int] | None:
    """The contribution of each bit of the lane to the offset, by exclusive or; None if a lane may
    be in another box, or past what is staged."""
    vectors = layout.atom("lane")
    if layout.digits("lane") or any(
        n > covered for n, covered in zip(layout.extents, staging.covered, strict=True)
    ):
        return None
    if any(x >> w for v in vectors for x, w in zip(v, staging.widths, strict=True)):
        return None
    return [staging.low(v) for v in vectors]


# Boxes ------------------------------------------------------------------------------------------


def _swizzled_staging(
    source: Layout, target: Layout, shape: Vector, size: int
) -> ConversionStaging | None:
    from tileir.backend.shared_memory.swizzle import swizzle

    widths = box_widths(source, target)
    if widths is None:
        return None
    low = [box_columns(layout, widths) for layout in (source, target)]
    swizzled = swizzle(low[0], low[1], sum(widths), size)
    return box_staging(source, target, shape, size, widths, swizzled)


def box_widths(source: Layout, target: Layout) -> Vector | None:
    """The bits of the coordinates within a box; None where the layouts do not split so."""
    extents = zip(source.atom_extents, target.atom_extents, strict=True)
    widths = tuple(min(a, b).bit_length() - 1 for a, b in extents)
    layouts = source, target
    if not all(_splits(layout, widths) for layout in layouts):
        return None
    replicated = any(kernel(box_columns(layout, widths).registers) for layout in layouts)
    return None if replicated else widths


def box_staging(
    source: Layout, target: Layout, shape: Vector, size: int, widths: Vector, swizzled: Swizzle
) -> ConversionStaging:
    """Boxes of `widths` bits, each swizzled by `swizzled`."""
    bits = sum(widths)
    counts = [-(-n >> w) for n, w in zip(shape, widths, strict=True)]
    strides, step = [0] * len(shape), size << bits
    for d in reversed(range(len(shape))):
        strides[d] = step
        step *= counts[d]
    covered = tuple(n << w for n, w in zip(counts, widths, strict=True))
    matrix = tuple(x * size for x in swizzled.matrix)
    sides = [
        plain_side(layout, widths, matrix, size << vector)
        for layout, vector in ((source, swizzled.stored), (target, swizzled.loaded))
    ]
    return ConversionStaging(size, shape, covered, widths, matrix, tuple(strides), step, *sides)


def _splits(layout: Layout, widths: Vector) -> bool:
    """Whether every bit moves either within a box or between boxes, these by bits of their own,
    and no lanes repeat."""
    high = [0] * layout.rank
    for axis in ("register", "lane", "warp", "block"):
        for v in layout.atom(axis):
            above = [x >> w for x, w in zip(v, widths, strict=True)]
            below = any(x & ((1 << w) - 1) for x, w in zip(v, widths, strict=True))
            if any(above) and below:
                return False
            for d, x in enumerate(above):
                if x & high[d] or x & (x - 1):
                    return False
                high[d] |= x
    return not layout.digits("lane") and not layout.digits("block")


def box_columns(layout: Layout, widths: Vector) -> Columns:
    """The bits that move within a box."""
    from tileir.backend.shared_memory.swizzle import Columns

    registers, lanes, warps = (
        _low_columns(layout.atom(a), widths) for a in ("register", "lane", "warp")
    )
    return Columns(tuple(x for x in registers if x), lanes, warps)


def _low_columns(vectors: Sequence[Vector], widths: Vector) -> tuple[int, ...]:
    from tileir.layout_algebra import pack

    masks = [(1 << w) - 1 for w in widths]
    return tuple(pack([x & m for x, m in zip(v, masks, strict=True)], widths) for v in vectors)


def plain_side(layout: Layout, widths: Vector, matrix: tuple[int, ...], wide: int) -> Side:
    """Registers of a layout by access: those whose offsets differ in bits below `wide` alone."""
    low = [apply(matrix, x) for x in _low_columns(layout.atom("register"), widths)]
    bits = 1 << len(low)
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for register, v in enumerate(layout.registers):
        offset = apply(low, register % bits)
        above = tuple(x >> w for x, w in zip(v, widths, strict=True))
        key = (offset & ~(wide - 1), *above)
        groups.setdefault(key, []).append((offset & (wide - 1), register))
    return Side(layout, tuple(tuple(r for _, r in sorted(group)) for group in groups.values()))


# Rows -------------------------------------------------------------------------------------------


def _rows(source: Layout, target: Layout, shape: Vector, size: int) -> Iterator[ConversionStaging]:
    """Rows along one dimension or another, with padding."""
    fasts = {_fastest(source), _fastest(target), len(shape) - 1}
    for fast, pad in product(sorted(fasts), _PADS):
        if pad % size == 0 and (pad == 0 or len(shape) > 1):
            yield _padded_staging(source, target, shape, size, fast, pad)


def _fastest(layout: Layout) -> int:
    """The dimension along which the first registers move."""
    first = layout.registers[1] if len(layout.registers) > 1 else ()
    return next((d for d, x in enumerate(first) if x), layout.rank - 1)


def _padded_staging(
    source: Layout, target: Layout, shape: Vector, size: int, fast: int, pad: int
) -> ConversionStaging:
    strides, step = [0] * len(shape), size
    for d in (fast, *(d for d in reversed(range(len(shape))) if d != fast)):
        strides[d] = step
        step *= shape[d]
        step += pad if d == fast else 0
    zeros = (0,) * len(shape)
    sides = [
        Side(layout, _runs(layout, shape, tuple(strides), size, fast))
        for layout in (source, target)
    ]
    return ConversionStaging(size, shape, shape, zeros, (), tuple(strides), step, *sides)


def _runs(
    layout: Layout, shape: Vector, strides: Vector, size: int, fast: int
) -> tuple[tuple[int, ...], ...]:
    """Registers that are neighbours along `fast`, as many as lanes and warps leave aligned."""
    from tileir.backend.shared_memory.swizzle import WIDEST

    wide = 1
    while wide * 2 * size <= WIDEST and _has_aligned_vectors(
        layout, shape, strides, size, fast, wide * 2
    ):
        wide *= 2
    count = layout.size("register")
    return tuple(tuple(range(r, r + wide)) for r in range(0, count, wide))


def _has_aligned_vectors(
    layout: Layout, shape: Vector, strides: Vector, size: int, fast: int, wide: int
) -> bool:
    """Whether registers by `wide` are neighbours at aligned offsets in every thread."""
    count = layout.size("register")
    if count % wide or shape[fast] % wide or any(s % (wide * size) for s in strides if s != size):
        return False
    vectors = [v for axis in ("lane", "warp") for v in layout.atom(axis)]
    vectors += [d.step for axis in ("lane", "warp") for d in layout.digits(axis)]
    if any(v[fast] % wide for v in vectors):
        return False
    for r, v in enumerate(layout.registers):
        first = layout.registers[r - r % wide]
        expected = [x + (r % wide if d == fast else 0) for d, x in enumerate(first)]
        if first[fast] % wide or list(v) != expected:
            return False
    return True
