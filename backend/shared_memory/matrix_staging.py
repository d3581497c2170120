"""Staging of fragments through shared memory by matrix loads and stores.

`ldmatrix` and `stmatrix` move 8 rows of 16 bytes per matrix: lane 8 j + i names row i of matrix j,
and lane 4 r + t owns the word t of row r, or, transposed, two 16-bit rows of column r (PTX ISA,
"Warp-level matrix load instruction: ldmatrix"). The elements of a row are neighbours in shared
memory alone: in the tile they may be anywhere, and so may the rows of a matrix. Any layout of
16-bit elements whose lanes own different ones is hence read as such a fragment. Its side of a
conversion is accessed as if each lane owned the rows that it names. The swizzle then is the one for
that layout of rows, whose vectors are whole rows. The words arrive in the registers that `mma`
reads, or in which a transposed tile is stored, so none is packed or moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import attrs

from tileir.backend.shared_memory.conversion_staging import (
    ConversionStaging,
    MatrixAccess,
    Side,
    box_columns,
    box_staging,
    box_widths,
)
from tileir.backend.shared_memory.swizzle import Columns, Swizzle, swizzle_rows
from tileir.layout import Layout, Vector
from tileir.layout_algebra import pack
from tileir.layout_bits import Subspace, apply

_WORD = 4
"""Bytes of one row of a matrix that a lane owns."""
_LANES = 5
"""Bits of a lane's number."""
_MATRICES = 2
"""Bits of the number of a matrix of one instruction."""


@attrs.frozen
class _Fragment:
    """A layout as rows of matrices: `word` registers of a lane are in one word; `row` has the
    vectors of the elements of a row; `matrix` those of the bits of a matrix's number."""

    transposed: bool
    word: tuple[Vector, ...]
    row: tuple[Vector, ...]
    matrix: tuple[Vector, ...]
    rows: Layout
    """A layout in which each lane owns the row whose address it passes."""


def matrix_stagings(
    source: Layout, target: Layout, shape: Vector, size: int
) -> Iterator[ConversionStaging]:
    """The ways in which a tile of elements of `size` bytes gets from `source` to `target` with
    matrix stores, matrix loads or both."""
    widths = box_widths(source, target)
    if widths is None or source.extents != shape or target.extents != shape:
        return
    stored = [None] if source.is_replicated else [None, *_fragments(source, size, widths)]
    loaded = [None, *_fragments(target, size, widths), *_transposes(target, size, widths)]
    for by_store, by_load in product(stored, loaded):
        if by_store is None and by_load is None:
            continue
        swizzled = _choose_swizzle(source, target, by_store, by_load, widths, size)
        if swizzled is None:
            continue
        staged = box_staging(source, target, shape, size, widths, swizzled)
        if staged.iterations == 1:
            yield attrs.evolve(
                staged,
                source=_with_matrices(staged.source, by_store),
                target=_with_matrices(staged.target, by_load),
            )


def _fragments(layout: Layout, size: int, widths: Vector) -> Iterator[_Fragment]:
    """The ways to see a layout as rows of matrices."""
    if size > _WORD or len(layout.lane) != _LANES or layout.digits("lane"):
        return
    bits = (_WORD // size).bit_length() - 1
    if len(layout.register) < bits or any(not any(v) for v in layout.register):
        return
    word, lanes = layout.register[:bits], layout.lane
    words, row_lanes = (*word, *lanes[:2]), lanes[2:]
    if not (_counts(words) and _counts(row_lanes)):
        return
    yield _fragment(layout, False, word, words, row_lanes, widths)
    if size == 2:
        yield _fragment(layout, True, word, row_lanes, words, widths)


def _transposes(layout: Layout, size: int, widths: Vector) -> Iterator[_Fragment]:
    """The way to see any other layout of 16-bit elements, whose lanes own different ones, as rows
    of transposed matrices: in the tile, the elements of a row may be anywhere, and so may the rows
    of a matrix. A lane owns words of four matrices, so that one instruction reads them."""
    is_whole = len(layout.lane) == _LANES and len(layout.register) > _MATRICES
    if size != 2 or not is_whole or not all(map(any, (*layout.register, *layout.lane))):
        return
    word, lanes = layout.register[:1], layout.lane
    words = (*word, *lanes[:2])
    if not (_counts(words) and _counts(lanes[2:])):
        yield _fragment(layout, True, word, lanes[2:], words, widths)


def _counts(vectors: Sequence[Vector]) -> bool:
    """Whether vectors count 0, 1, 2, ... along one dimension."""
    dim = next((d for d, x in enumerate(vectors[0]) if x), 0)
    return all(sum(v) == v[dim] == 1 << i for i, v in enumerate(vectors))


def _fragment(
    layout: Layout, transposed: bool, word: tuple[Vector, ...], row: tuple[Vector, ...],
    number: tuple[Vector, ...], widths: Vector,
) -> _Fragment:  # fmt: skip
    registers = layout.register[len(word) :]
    matrix = tuple(v for v in registers if _is_inside(v, widths))[:_MATRICES]
    other_vectors = tuple(v for v in registers if v not in matrix)
    none = ((0,) * layout.rank,) * (_MATRICES - len(matrix))
    rows = Layout(
        layout.rank,
        (*row, *other_vectors),
        (*number, *matrix, *none),
        layout.warp,
        layout.block,
        layout.repeats,
    )
    return _Fragment(transposed, word, row, matrix, rows)


def _is_inside(v: Vector, widths: Vector) -> bool:
    return not any(x >> w for x, w in zip(v, widths, strict=True))


def _choose_swizzle(
    source: Layout, target: Layout, by_store: _Fragment | None, by_load: _Fragment | None,
    widths: Vector, size: int,
) -> Swizzle | None:  # fmt: skip
    """A swizzle in which the rows of the fragments are contiguous, from an aligned offset on."""
    rows = [f.row for f in (by_store, by_load) if f is not None]
    if len(set(rows)) > 1 or not all(_is_inside(v, widths) for v in rows[0]):
        return None
    sides = [
        box_columns(layout if f is None else f.rows, widths)
        for layout, f in ((source, by_store), (target, by_load))
    ]
    row = [pack(v, widths) for v in rows[0]]
    if len(Subspace.of(row)) < len(row):
        return None
    plain = sides[0] if by_store is None else sides[1] if by_load is None else None
    shared = len(row) if plain is None else _shared_prefix(row, plain)
    choice = swizzle_rows(row, shared, by_store is not None, sides[0], sides[1], sum(widths), size)
    if choice is None or not all(_is_aligned(choice, row, side) for side in _of_rows(sides, plain)):
        return None
    if by_store is not None:
        choice = attrs.evolve(choice, stored=_neighbours(by_store))
    if by_load is not None:
        choice = attrs.evolve(choice, loaded=_neighbours(by_load))
    return choice


def _neighbours(fragment: _Fragment) -> int:
    """Bits of the registers of a lane that are neighbours in a row."""
    return 0 if fragment.transposed else len(fragment.word)


def _of_rows(sides: Sequence[Columns], plain: Columns | None) -> list[Columns]:
    return [side for side in sides if side is not plain]


def _shared_prefix(row: Sequence[int], plain: Columns) -> int:
    """The number of bits of a row by which the registers of the other side move."""
    registers, count = Subspace.of(plain.registers), 0
    while count < len(row) and row[count] in registers:
        count += 1
    return count


def _is_aligned(choice: Swizzle, row: Sequence[int], side: Columns) -> bool:
    """Whether what is not part of a row moves by whole rows."""
    mask = (1 << len(row)) - 1
    row_starts = (v for v in (*side.registers, *side.threads) if v not in row)
    return not any(apply(choice.matrix, v) & mask for v in row_starts)


def _with_matrices(side: Side, fragment: _Fragment | None) -> Side:
    """`side`, of which an instruction moves up to four matrices of `fragment`."""
    if fragment is None:
        return side
    layout = side.layout
    where = {v: register for register, v in enumerate(layout.registers)}
    matrices = _combinations(fragment.matrix, layout.rank)
    words = _combinations(fragment.word, layout.rank)
    within = [_combine(matrix, word) for matrix in matrices for word in words]
    rows = fragment.rows
    accesses = [
        (start, tuple(where[_combine(rows.registers[start], v)] for v in within))
        for start in range(0, rows.size("register"), 1 << len(fragment.row))
    ]
    access = MatrixAccess(rows, fragment.transposed, len(matrices), tuple(accesses))
    return attrs.evolve(side, matrices=access)


def _combinations(vectors: Sequence[Vector], rank: int) -> list[Vector]:
    """The combinations of `vectors`, the first the lowest bit of their number."""
    totals: list[Vector] = [(0,) * rank]
    for vector in vectors:
        totals += [_combine(vector, x) for x in totals]
    return totals


def _combine(a: Vector, b: Vector) -> Vector:
    return tuple(x ^ y for x, y in zip(a, b, strict=True))
