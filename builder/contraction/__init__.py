"""Tensor contractions (elementwise terms reduced over indices) as tiled kernels.

    i, j, k = Index("i"), Index("j"), Index("k")
    a, b, c = (Tensor(name, F16, (512, 512)) for name in "abc")
    terms = Apply("mul", (Read(a, (affine(i), affine(k))), Read(b, (affine(k), affine(j)))))
    box = {index: range(512) for index in (i, j, k)}
    stage = contraction(c, (affine(i), affine(j)), "sum", terms, box)
    program = Program((stage,), (c,))
    program.run({a: left, b: right})[c]

See `docs/reference/builder.md`.
"""

from __future__ import annotations

from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index, affine
from tileir.builder.contraction.axes import TiledAxis
from tileir.builder.contraction.element_types import kind_of, stored_kind
from tileir.builder.contraction.function import TensorFunction, element_and_shape
from tileir.builder.contraction.functions import FUNCTIONS, JOININGS
from tileir.builder.contraction.fusion import fuse, inline
from tileir.builder.contraction.kernel import grid_of, kernel, tensors_of
from tileir.builder.contraction.program import KernelLaunch, Program, dtype_of, temporaries
from tileir.builder.contraction.ranges import ranges_of
from tileir.builder.contraction.stage import ComputeStage, Tiling, contraction, elementwise
from tileir.builder.contraction.terms import (
    Apply,
    Cast,
    Choose,
    Number,
    Position,
    Read,
    Reduce,
    Tensor,
    Term,
    free,
    reads,
    substitute,
    walk,
)
from tileir.builder.contraction.tile_sizes import tiling

__all__ = [
    "FUNCTIONS",
    "JOININGS",
    "AffineBound",
    "AffineIndex",
    "Apply",
    "Cast",
    "Choose",
    "ComputeStage",
    "Index",
    "KernelLaunch",
    "Number",
    "Position",
    "Program",
    "Read",
    "Reduce",
    "Tensor",
    "TensorFunction",
    "Term",
    "TiledAxis",
    "Tiling",
    "affine",
    "contraction",
    "dtype_of",
    "element_and_shape",
    "elementwise",
    "free",
    "fuse",
    "grid_of",
    "inline",
    "kernel",
    "kind_of",
    "ranges_of",
    "reads",
    "stored_kind",
    "substitute",
    "temporaries",
    "tensors_of",
    "tiling",
    "walk",
]  # fmt: skip
