"""What is known of a kernel while it is written, and its matrices."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.builder import BF16, F16, F32, I8, I32, Builder
from tileir.testing.matmul_programs.features import Traits
from tileir.testing.matmul_programs.sources import DESCRIPTOR, GATHERED, POINTERS, Axis, Source
from tileir.types import F8E4M3, Descriptor, Tile

ELEMENTS = ((F16, F32), (BF16, F32), (I8, I32), (F32, F32), (F8E4M3, F32), (F16, F16))
"""Factors and sums."""
LEAD = 64
"""A lead that is larger than any extent along it, where leads are no extents."""
ROOM = 24 * 1024
"""Elements of a matrix's buffer."""
_CLAMP = 4
_FURTHER = 8
"""Rows that a store may write behind the last one of the factors."""
FAMILIES, _CHAIN, _TILES = 6, 3, 5
"""Kinds of kernels, the one whose first product is a factor of the second, and the one whose
instances write several tiles."""


@attrs.frozen(eq=False)
class Writing:
    """A kernel as it is written: values by the names of parameters, and what was chosen."""

    b: Builder
    traits: Traits
    factor: Any
    total: Any
    bm: int
    bn: int
    bk: int
    values: dict[str, Any] = attrs.field(factory=dict[str, Any])

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def zero(self) -> Any:
        return 0 if self.total.is_integer else 0.0

    def zeros(self, *shape: int) -> Any:
        return self.b.full(shape, self.zero, self.total)

    def dot(self, x: Any, y: Any, sums: Any) -> Any:
        precision = "tf32" if self.factor is F32 else "ieee"
        imprecise = 1 << 20 if self.factor is F8E4M3 else 0
        return self.b.dot(x, y, sums, precision=precision, max_imprecise=imprecise)

    def narrowed(self, value: Any) -> Any:
        """A sum as a factor: small whole numbers again."""
        low, high = (self.b.constant(value.type, s * _CLAMP) for s in (-1, 1))
        kept = self.b.where(value < low, low, self.b.where(value > high, high, value))
        return kept if self.factor is self.total else kept.to(self.factor)


def given(traits: Traits, name: str) -> bool:
    """Whether a factor is a parameter that is a descriptor."""
    return traits["made"]["xy".index(name)] % 6 == 4


def is_chain(traits: Traits) -> bool:
    """Whether a product is a factor of another, round by round."""
    return traits["family"][0] % FAMILIES == _CHAIN


def is_tiles(traits: Traits) -> bool:
    """Whether an instance writes several tiles, one after the other."""
    return traits["family"][0] % FAMILIES == _TILES


def turned(traits: Traits, name: str) -> bool:
    """Whether a matrix lies by columns, as far as its type has products that take it so."""
    place = "xyz".index(name)
    digit = traits["majors"][place]
    halves = ELEMENTS[traits["element"][0] % len(ELEMENTS)][0].bits == 16
    if halves or name == "z":
        return bool(digit % 2)
    return digit % 8 == 1 if name == "x" else digit % 8 != 1  # as products of other types need them


def source(w: Writing, name: str, rows: Axis, columns: Axis) -> Source:
    """The matrix in a parameter, as the traits have it."""
    traits, place = w.traits, "xyz".find(name)
    base: Any = w[name]
    how = POINTERS if place > 1 else (0, 0, 0, DESCRIPTOR, DESCRIPTOR, GATHERED)[
        traits["made"][max(place, 0)] % 6
    ]  # fmt: skip
    if name == "v" or (name == "y" and how == GATHERED):
        how = POINTERS
    if traits["grid"][0] % 4 == 1 and not (place in (0, 1) and given(traits, name)):
        base = base + w["batch"] * (ROOM // 2)
    if how != DESCRIPTOR and name == "x" and traits["shift"][0] % 6 in (1, 2, 3):
        base = base + 1024
    if how != DESCRIPTOR and name == "x" and traits["shift"][1] % 4 == 3:
        base = base + w.b.program_id(axis=0) * 24
    if how == DESCRIPTOR and not given(traits, name):
        base = _made(w, base, rows, columns)
    masked = 0 if place < 0 else traits["masks"][place]
    if name == "z":
        masked = (0, 1, 2, 3, 4, 8, 9, 10)[masked % 8]
    wide = traits["promises"][1] % 4 == 3
    return Source(w.b, base, rows, columns, masked, how, wide, w["table"])


def _made(w: Writing, base: Any, rows: Axis, columns: Axis) -> Any:
    """A descriptor made by the program."""
    inner, outer = (rows, columns) if rows.lead is None else (columns, rows)
    kind = Descriptor(Tile(w.factor, (outer.size, inner.size)))
    pairs = [(outer.extent, outer.lead), (inner.extent, 1)]
    return w.b.make_descriptor(base, kind, pairs)


def axes(
    w: Writing, name: str, first: tuple[str, int], second: tuple[str, int]
) -> tuple[Axis, Axis]:
    """Rows and columns of a matrix: extents by name and sizes of tiles; one of both is next to
    each other in memory."""
    traits, upright = w.traits, name == "v" or not turned(w.traits, name)
    inner = second[0] if upright else first[0]
    how = traits["leads"]["xyz".index(name) if name in "xyz" else 0] % 6
    lead: Any = w[inner] if how < 2 else w[f"ld{name}"] if how < 5 else LEAD
    one = (1, None, None, w["one"])[traits["promises"][2] % 4]
    wraps = [name != "z" and traits["wrap"][d] % 4 == 2 for d in range(2)]
    further = name == "z" and upright and w.traits["output"][1] % 6 == 5
    end = w[first[0]] + _FURTHER if further else w[first[0]]
    r = Axis(end, first[1], lead if upright else one, name == "x" and wraps[0])
    c = Axis(w[second[0]], second[1], one if upright else lead, name == "y" and wraps[1])
    if name in "xy" and traits["made"]["xy".index(name)] % 6 in (3, 4):
        r, c = (
            attrs.evolve(a, wraps=False, lead=a.lead if a.lead is not one else None) for a in (r, c)
        )
    return r, c
