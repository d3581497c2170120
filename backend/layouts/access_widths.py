"""Accesses to global memory through tiles of pointers. The width of a thread's accesses, from the
alignment of pointers and masks, and what accesses cost, by the neighbours that threads own."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.analysis import memoize
from tileir.analysis.alignment import Alignment, Alignments, alignment
from tileir.analysis.loops import loops
from tileir.backend.stage import has_op
from tileir.backend.target import LINE_BYTES, VECTOR_BYTES
from tileir.effects import ACCESSES, Effects
from tileir.ir import Function
from tileir.layout import Vector
from tileir.op import Op
from tileir.types import Pointer, Tile, element_of, shape_of
from tileir.values import Operand

_WIDEST_BYTES = 64
"""Four of the widest accesses: the most contiguous bytes that one thread may own."""
_LANES = 32
_SECTOR_BYTES = 32
"""The bytes that a cache reads from memory at once."""
_WORD = 4
"""Bytes of a register."""
_ADDED_ALONE = 64
"""The cost of an atomic addition of floats smaller than a word, which is a loop of
compare-and-swap. Lanes whose elements share a word repeat it. Two neighbours take one addition."""
_STRIDE = 64
"""The assumed distance in bytes of neighbours whose stride is not known."""


class AccessWidths:
    """Alignment facts of one function, as the memory rules need them. They are computed on first
    use, since many functions access memory by blocks of tensors alone."""

    def __init__(self, function: Function) -> None:
        self.function = function

    @property
    def facts(self) -> Alignments:
        """The contiguity facts of every value."""
        return alignment(self.function)

    def runs(self, pointer: Operand) -> tuple[int, ...]:
        """For each dimension, the number of neighbours with consecutive addresses."""
        return self.facts.of(pointer).contiguity

    def nearest(self, pointer: Operand) -> int:
        """The dimension along which most neighbours have consecutive addresses. If none are known
        to have, it is the dimension along which they are likely to; if none are likely to, the
        dimension with the shortest stride; the last of several. For strides that are parameters,
        the shorter one is a guess, which is made for operands of dots: these change their layout
        anyway. Without dots, it is the last dimension, unless its neighbours are known to be in
        different lines: a parameter may be shorter, and cannot have fewer neighbours in a line."""
        shape, runs = shape_of(pointer.type), self.runs(pointer)
        first = min(range(len(shape)), key=lambda d: (-min(runs[d], shape[d]), -d))
        if runs[first] > 1 or len(shape) < 2:
            return first
        from tileir.backend.layouts.stride_classes import StrideClass, distances, lengths

        away = [c or StrideClass.STRIDED for c in distances(self.function, pointer)]
        length = [(False, 0)] * len(shape)
        if min(away) is StrideClass.STRIDED:
            length = lengths(self.function, pointer)
            parameters = any(parameter for parameter, _ in length)
            if parameters and not has_op(self.function, "dot", "gpu.wgmma"):
                unknown = [d for d, (parameter, _) in enumerate(length) if parameter]
                return unknown[-1] if self._is_far(pointer, length[-1]) else len(shape) - 1
        moving = [d for d in range(len(shape)) if length[d] > (False, 0)] or range(len(shape))
        return min(moving, key=lambda d: (away[d], length[d], -d))

    def _is_far(self, pointer: Operand, length: tuple[bool, int]) -> bool:
        """Whether neighbours along a dimension of `length` (see `lengths`) are in different lines
        of the cache."""
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        is_parameter, stride = length
        return not is_parameter and stride * element.pointee.bytes >= LINE_BYTES

    def width(self, op: Op, dim: int) -> int:
        """The largest power of two of neighbours along `dim` that one thread may access at once:
        they are contiguous, aligned to their total size, under one mask, and within the tile."""
        masks = [self.facts.of(m) for m in (getattr(op, "mask", None), op.predicate) if m]
        return self._width(op, dim, masks)

    def aligned_width(self, op: Op, dim: int) -> int:
        """The width as in `width`, if all elements were under one mask."""
        return self._width(op, dim, ())

    def _width(self, op: Op, dim: int, masks: Sequence[Alignment]) -> int:
        pointer = op.inputs[0]
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        facts, size = self.facts.of(pointer), element.pointee.bytes
        width = 1
        while width * size < _WIDEST_BYTES:
            wider = width * 2
            fits = facts.contiguity[dim] % wider == 0 and shape_of(pointer.type)[dim] % wider == 0
            aligned = facts.multiple_at(dim, wider) % (wider * size) == 0
            even = all(m.constancy[dim] % wider == 0 for m in masks if len(m.constancy) > dim)
            if not (fits and aligned and even):
                break
            width = wider
        return width


class OneByOne(AccessWidths):
    """Facts for lanes that own neighbouring elements: no lane owns two contiguous ones."""

    def _width(self, op: Op, dim: int, masks: Sequence[Alignment]) -> int:
        return 1


@attrs.frozen
class AnchoredAccess:
    """An access of elements of `size` bytes, `width` of them at once, that runs `frequency` times.
    `sectors` states whether the sectors that two 16-byte writes share count, `adds` whether the
    access adds floats to memory, and `stride` is the distance of neighbours in bytes: 0 if they are
    contiguous, and None if it is not known."""

    width: int
    size: int
    write: bool
    frequency: int
    sectors: bool
    adds: bool
    stride: int | None

    @property
    def is_near(self) -> bool:
        """Whether neighbours are known to share lines."""
        return self.stride is not None and self.stride < LINE_BYTES

    @property
    def sector_elements(self) -> int:
        """The number of elements in a sector of the cache, of those `stride` bytes apart."""
        return max(1, _SECTOR_BYTES // self.stride) if self.stride else 1

    def scatters(self, owned: int) -> bool:
        """Whether lanes that own `owned` neighbours leave expensive gaps in the addresses of an
        instruction: a narrow access touches more lines, and a write only parts of its sectors. The
        bytes in the gaps of a 16-byte read are in the L1 cache for the next read."""
        width = min(self.width, owned)
        return width < owned and (self.sectors or width * self.size < VECTOR_BYTES)

    def cost(self, owned: int) -> float:
        """The cost per element if threads own `owned` neighbours: the instruction, its lines of 128
        bytes, and the sectors of 32 bytes that further instructions write again."""
        width = min(self.width, owned)
        if self.adds and width * self.size < _WORD:
            return self.frequency * _ADDED_ALONE
        if self.stride != 0:
            stride = _STRIDE if self.stride is None else self.stride
            return self.frequency * (1 + min(_LANES, owned * _LANES * stride / LINE_BYTES))
        if not self.scatters(owned):
            return self.frequency * 2 / width
        lines = max(1.0, owned * self.size * _LANES / LINE_BYTES)
        rewritten = 2 * (owned / width - 1) if self.write else 0
        return self.frequency * (1 + lines + rewritten) / width


@memoize
def accesses(function: Function) -> tuple[Op, ...]:
    """The ops of `function` that access global memory through a tile of pointers."""
    return tuple(filter(is_access, function.ops))


def is_access(op: Op) -> bool:
    """Whether `op` reads or writes memory through a tile of pointers, its first operand."""
    inputs = op.inputs
    first = inputs[0].type if inputs else None
    if not isinstance(first, Tile) or not isinstance(first.element, Pointer):
        return False
    return bool(op.effects & ACCESSES)


def shapes_of_streams(function: Function) -> frozenset[Vector]:
    """The shapes of tiles that are accessed deeper in loops than any of them is reduced."""
    around, reductions, others = loops(function), dict[Vector, int](), dict[Vector, int]()
    for label, block in function.blocks.items():
        for op in block.ops:
            is_reduction = op.mnemonic == "reduce"
            if is_reduction or is_access(op):
                depths = reductions if is_reduction else others
                shape = shape_of(op.inputs[0].type)
                depths[shape] = max(around.depth(label), depths.get(shape, 0))
    return frozenset(x for x, depth in reductions.items() if depth < others.get(x, 0))


def stores_of_bytes(function: Function, shape: Vector) -> list[Op]:
    """The ops that write bytes of tiles of `shape`; none in a function with transposes, whose tiles
    of one shape may differ in the order of their dimensions."""
    if has_op(function, "trans"):
        return []
    writes = (op for op in accesses(function) if op.effects & Effects.WRITE)
    return [
        op for op in writes
        if isinstance(kind := op.inputs[0].type, Tile) and kind.shape == shape
        and isinstance(kind.element, Pointer) and kind.element.pointee.bytes == 1
    ]  # fmt: skip
