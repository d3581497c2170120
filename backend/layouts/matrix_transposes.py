"""Layout conversions within a warp that transpose matrices of 8 by 8 elements of 16 bits, which
`movmatrix` does (PTX ISA, "movmatrix").

A fragment of such a matrix has two neighbours of a row in each lane, and rows in lanes that are
four apart. Where the operand of a dot is also an operand of another one, transposed, the neighbours
of one fragment are the rows of the other. Shuffles also have to select and to pack these elements.
"""

from __future__ import annotations

import attrs

from tileir.backend.layouts.warp_shuffles import LANE_BITS
from tileir.layout import Layout
from tileir.layout_bits import Subspace, apply

Word = tuple[int, int]
"""The registers of the two elements of a word."""


@attrs.frozen
class TransposePlan:
    """For the registers of one repetition: each word of `source` is transposed into the word of
    `target` at the same place."""

    source: tuple[Word, ...]
    target: tuple[Word, ...]


def transposition(source: Layout, target: Layout) -> TransposePlan | None:
    """The plan from `source` to `target`, two layouts of elements of 16 bits; None if the
    conversion is no transposition of matrices within a warp."""
    from tileir.layout_algebra import flat_columns

    if (
        source.repeats != target.repeats
        or source.atom_extents != target.atom_extents
        or source.warp != target.warp
        or any(r.axis == "lane" for r in source.repeats)
    ):
        return None
    columns, target_columns = (list(flat_columns(x, ("register",))) for x in (source, target))
    lanes, target_lanes = (list(flat_columns(x, ("lane",))) for x in (source, target))
    if len(lanes) != LANE_BITS or len(target_lanes) != LANE_BITS:
        return None
    neighbour, row = target_lanes[2], lanes[2]
    if lanes[:2] != target_lanes[3:] or lanes[3:] != target_lanes[:2]:
        return None
    if neighbour not in columns or row not in target_columns:
        return None
    if not all(map(Subspace.of([]).add, [*columns, *lanes])):
        return None
    words = {place: word for word, place in _words(columns, neighbour)}
    pairs = [(words.get(place), word) for word, place in _words(target_columns, row)]
    if len(pairs) != len(words) or any(word is None for word, _ in pairs):
        return None
    return TransposePlan(
        tuple(word for word, _ in pairs if word is not None), tuple(word for _, word in pairs)
    )


def _words(columns: list[int], packed: int) -> list[tuple[Word, int]]:
    """The words of registers with `columns` whose elements differ by the vector `packed`, each with
    the place of its first element."""
    bit = 1 << columns.index(packed)
    return [
        ((register, register | bit), apply(columns, register))
        for register in range(1 << len(columns))
        if not register & bit
    ]
