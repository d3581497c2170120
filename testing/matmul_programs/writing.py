"""The state of a kernel that is being written, and its matrices."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.builder import BF16, F16, F32, I8, I32, Builder
from tileir.testing.matmul_programs.features import Features
from tileir.testing.matmul_programs.sources import (
    DESCRIPTOR,
    GATHERED,
    POINTERS,
    MatmulAxis,
    OperandSource,
)
from tileir.types import F8E4M3, Descriptor, Tile

ELEMENTS = ((F16, F32), (BF16, F32), (I8, I32), (F32, F32), (F8E4M3, F32), (F16, F16))
"""Element types of operands and accumulator."""
LEAD = 64
"""A leading dimension that is larger than any extent, where it is not an extent."""
BUFFER_SIZE = 24 * 1024
"""Elements of a matrix's buffer."""
_CLAMP = 4
_FURTHER = 8
"""Rows that a store may write after the last row of the operands."""
FAMILIES, _CHAIN, _TILES = 6, 3, 5
"""The number of kinds of kernels; the one with chained dots, and the one whose instances write
several tiles."""


@attrs.frozen(eq=False)
class Writing:
    """A kernel that is being written: the values of parameters by name, and its features."""

    b: Builder
    features: Features
    operand: Any
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

    def dot(self, x: Any, y: Any, acc: Any) -> Any:
        precision = "tf32" if self.operand is F32 else "ieee"
        imprecise = 1 << 20 if self.operand is F8E4M3 else 0
        return self.b.dot(x, y, acc, precision=precision, max_imprecise=imprecise)

    def to_operand(self, value: Any) -> Any:
        """An accumulator as an operand: clamped to small whole numbers."""
        low, high = (self.b.constant(value.type, s * _CLAMP) for s in (-1, 1))
        clamped = self.b.where(value < low, low, self.b.where(value > high, high, value))
        return clamped if self.operand is self.total else clamped.to(self.operand)


def is_descriptor_parameter(features: Features, name: str) -> bool:
    """Whether an operand is a parameter that is a descriptor."""
    return features["access"]["xy".index(name)] % 6 == 4


def is_chain(features: Features) -> bool:
    """Whether the result of one dot is operand A of another one in the same iteration."""
    return features["family"][0] % FAMILIES == _CHAIN


def writes_several_tiles(features: Features) -> bool:
    """Whether an instance writes several tiles, one after the other."""
    return features["family"][0] % FAMILIES == _TILES


def is_column_major(features: Features, name: str) -> bool:
    """Whether a matrix is column-major, as far as dots of its type support that."""
    place = "xyz".index(name)
    digit = features["majors"][place]
    halves = ELEMENTS[features["element"][0] % len(ELEMENTS)][0].bits == 16
    if halves or name == "z":
        return bool(digit % 2)
    return digit % 8 == 1 if name == "x" else digit % 8 != 1  # wgmma reads others along K


def source(w: Writing, name: str, rows: MatmulAxis, columns: MatmulAxis) -> OperandSource:
    """The matrix at a parameter, accessed in the form that the features select."""
    features, place = w.features, "xyz".find(name)
    base: Any = w[name]
    how = POINTERS if place > 1 else (0, 0, 0, DESCRIPTOR, DESCRIPTOR, GATHERED)[
        features["access"][max(place, 0)] % 6
    ]  # fmt: skip
    if name == "v" or (name == "y" and how == GATHERED):
        how = POINTERS
    if features["grid"][0] % 4 == 1 and not (
        place in (0, 1) and is_descriptor_parameter(features, name)
    ):
        base = base + w["batch"] * (BUFFER_SIZE // 2)
    if how != DESCRIPTOR and name == "x" and features["shift"][0] % 6 in (1, 2, 3):
        base = base + 1024
    if how != DESCRIPTOR and name == "x" and features["shift"][1] % 4 == 3:
        base = base + w.b.program_id(axis=0) * 24
    if how == DESCRIPTOR and not is_descriptor_parameter(features, name):
        base = _make_descriptor(w, base, rows, columns)
    masked = 0 if place < 0 else features["masks"][place]
    if name == "z":
        masked = (0, 1, 2, 3, 4, 8, 9, 10)[masked % 8]
    wide = features["promises"][1] % 4 == 3
    return OperandSource(w.b, base, rows, columns, masked, how, wide, w["table"])


def _make_descriptor(w: Writing, base: Any, rows: MatmulAxis, columns: MatmulAxis) -> Any:
    """A descriptor that the program makes."""
    inner, outer = (rows, columns) if rows.lead is None else (columns, rows)
    kind = Descriptor(Tile(w.operand, (outer.size, inner.size)))
    pairs = [(outer.extent, outer.lead), (inner.extent, 1)]
    return w.b.make_descriptor(base, kind, pairs)


def axes(
    w: Writing, name: str, first: tuple[str, int], second: tuple[str, int]
) -> tuple[MatmulAxis, MatmulAxis]:
    """The rows and the columns of a matrix, from the names of extents and the sizes of tiles. One
    of the two is contiguous."""
    features, upright = w.features, name == "v" or not is_column_major(w.features, name)
    inner = second[0] if upright else first[0]
    how = features["leads"]["xyz".index(name) if name in "xyz" else 0] % 6
    lead: Any = w[inner] if how < 2 else w[f"ld{name}"] if how < 5 else LEAD
    one = (1, None, None, w["one"])[features["promises"][2] % 4]
    wraps = [name != "z" and features["wrap"][d] % 4 == 2 for d in range(2)]
    further = name == "z" and upright and w.features["output"][1] % 6 == 5
    end = w[first[0]] + _FURTHER if further else w[first[0]]
    r = MatmulAxis(end, first[1], lead if upright else one, name == "x" and wraps[0])
    c = MatmulAxis(w[second[0]], second[1], one if upright else lead, name == "y" and wraps[1])
    if name in "xy" and features["access"]["xy".index(name)] % 6 in (3, 4):
        r, c = (
            attrs.evolve(a, wraps=False, lead=a.lead if a.lead is not one else None) for a in (r, c)
        )
    return r, c
