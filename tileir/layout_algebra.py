"""The algebra of layouts: inverses, composition, products and quotients.

Everything here is exact for the atom and for repetitions alike. Where a result is no layout (two
mixed-radix systems that do not fit together), functions return None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod

import attrs

from tileir.layout import AXES, Digit, Layout, Repeat, Vector, dependent, layout, merge_repeats
from tileir.layout_bits import Subspace, inverse as inverse_matrix, kernel


@attrs.frozen
class HardwareCoordinate:
    """A hardware coordinate."""

    register: int = 0
    lane: int = 0
    warp: int = 0
    block: int = 0


@attrs.frozen(slots=False)
class Inverse:
    """The inverse of a layout: from coordinates to the first place that owns them.

    It consists of the pseudo-inverse of the atom and the digits of repetitions.
    """

    layout: Layout

    @cached_property
    def widths(self) -> Vector:
        """Bits of the atom's extent per dimension."""
        return tuple(n.bit_length() - 1 for n in self.layout.atom_extents)

    @cached_property
    def matrix(self) -> tuple[int | None, ...]:
        """For every bit of the atom's coordinates, dimension 0 lowest, the hardware bits that
        select it, registers lowest; None if there are none."""
        return inverse_matrix(flat_columns(self.layout), sum(self.widths))

    @cached_property
    def _span(self) -> Subspace:
        return Subspace.of(flat_columns(self.layout))

    def place(self, coordinate: Sequence[int]) -> HardwareCoordinate | None:
        """The first owner of `coordinate`; None if it has none."""
        digits = self._digits(coordinate)
        if digits is None:
            return None
        low = [x % n for x, n in zip(coordinate, self.layout.atom_extents, strict=True)]
        beyond, hardware = self._span.reduce(pack(low, self.widths))
        if beyond:
            return None
        result: dict[str, int] = {}
        for axis in AXES:
            bits = len(self.layout.atom(axis))
            result[axis] = (hardware & ((1 << bits) - 1)) + digits.get(axis, 0)
            hardware >>= bits
        return HardwareCoordinate(**result)

    def _digits(self, coordinate: Sequence[int]) -> Mapping[str, int] | None:
        """The contribution of repetitions to every axis."""
        left = [x // n for x, n in zip(coordinate, self.layout.atom_extents, strict=True)]
        result: dict[str, int] = {}
        weights = {axis: 1 << len(self.layout.atom(axis)) for axis in AXES}
        for repeat in self.layout.repeats:
            if repeat.dim is not None:
                left[repeat.dim], digit = divmod(left[repeat.dim], repeat.count)
                result[repeat.axis] = result.get(repeat.axis, 0) + digit * weights[repeat.axis]
            weights[repeat.axis] *= repeat.count
        return None if any(left) else result


def invert(layout: Layout) -> Inverse:
    """The owners of every coordinate."""
    return Inverse(layout)


def pack(vector: Sequence[int], widths: Sequence[int]) -> int:
    """The coordinates of a vector side by side in one integer, dimension 0 lowest."""
    result, shift = 0, 0
    for x, width in zip(vector, widths, strict=True):
        result |= x << shift
        shift += width
    return result


def unpack(packed: int, widths: Sequence[int]) -> Vector:
    """The vector that `pack` made `packed` of."""
    vector: list[int] = []
    for width in widths:
        vector.append(packed & ((1 << width) - 1))
        packed >>= width
    return tuple(vector)


def flat_columns(layout: Layout, axes: Sequence[str] = AXES) -> tuple[int, ...]:
    """The vectors of the atom's bits, packed, of `axes` in order."""
    widths = [n.bit_length() - 1 for n in layout.atom_extents]
    return tuple(pack(v, widths) for axis in axes for v in layout.atom(axis))


# Holding an element more than once ----------------------------------------------------------


def replication(layout: Layout) -> int:
    """The number of places that own each element; 1 without replication."""
    free = len(kernel(flat_columns(layout)))
    return prod((r.count for r in layout.repeats if r.dim is None), start=1 << free)


def covers(layout: Layout, shape: Vector) -> bool:
    """Whether every element of a tile of `shape` has an owner."""
    full = len(Subspace.of(flat_columns(layout))) == sum(
        n.bit_length() - 1 for n in layout.atom_extents
    )
    if full:
        return all(a >= b for a, b in zip(layout.extents, shape, strict=True))
    result = invert(layout)
    return all(result.place(v) is not None for v in _coordinates(shape))


def _coordinates(shape: Vector) -> list[Vector]:
    coordinates: list[Vector] = [()]
    for n in shape:
        coordinates = [(*v, x) for v in coordinates for x in range(n)]
    return coordinates


# Registers in another order -----------------------------------------------------------------


def register_order(a: Layout, b: Layout) -> tuple[int, ...] | None:
    """For every register of `b`, the register of `a` of the same thread that owns its element.

    None if `a` and `b` differ by more than the order of registers.
    """
    if a.rank != b.rank or a.size("register") != b.size("register"):
        return None
    if a.thread_part != b.thread_part:
        return None
    where = {v: r for r, v in enumerate(a.registers)}
    result = [where.get(v) for v in b.registers]
    return None if None in result else tuple(r for r in result if r is not None)


def equal_up_to_registers(a: Layout, b: Layout) -> bool:
    """Whether every thread holds the same elements in both."""
    return register_order(a, b) is not None


# Products and quotients ---------------------------------------------------------------------


def product(inner: Layout, outer: Layout) -> Layout | None:
    """`outer` with every element of it replaced by a copy of what `inner` covers.

    On every axis the bits of `inner` come first. None if `inner` has repetitions and `outer` has
    bits that move along several dimensions at once, which a repetition cannot express."""
    if inner.rank != outer.rank:
        return None
    if not inner.repeats:
        scale = inner.extents
        atoms = [
            (*inner.atom(axis), *(_scale(v, scale) for v in outer.atom(axis))) for axis in AXES
        ]
        return layout(inner.rank, *atoms, repeats=outer.repeats)
    outer_repeats = _as_repeats(outer)
    if outer_repeats is None:
        return None
    atoms = [inner.atom(axis) for axis in AXES]
    return layout(inner.rank, *atoms, repeats=(*inner.repeats, *outer_repeats))


def divide(dividend: Layout, inner: Layout) -> Layout | None:
    """The layout `q` with `product(inner, q) == dividend`; None if `inner` is no left factor."""
    if dividend.rank != inner.rank:
        return None
    quotient = _beyond_atom(dividend, inner)
    result = (
        quotient if quotient is None or not inner.repeats else _without(quotient, inner.repeats)
    )
    if result is None or product(inner, result) != dividend:
        return None
    return result


def _beyond_atom(dividend: Layout, inner: Layout) -> Layout | None:
    """The part of `dividend` beyond the atom of `inner`, on its scale."""
    scale, atoms = inner.atom_extents, list[tuple[Vector, ...]]()
    for axis in AXES:
        count = len(inner.atom(axis))
        if dividend.atom(axis)[:count] != inner.atom(axis):
            return None
        vectors = dividend.atom(axis)[count:]
        if any(x % n for v in vectors for x, n in zip(v, scale, strict=True)):
            return None
        atoms.append(tuple(tuple(x // n for x, n in zip(v, scale, strict=True)) for v in vectors))
    return layout(dividend.rank, *atoms, repeats=dividend.repeats)


def _without(dividend: Layout, inner: Sequence[Repeat]) -> Layout | None:
    """`dividend` less the repetitions that it begins with."""
    listed = _as_repeats(dividend)
    if listed is None:
        return None
    left = merge_repeats(listed)
    for repeat in inner:
        first = next((i for i, r in enumerate(left) if dependent(r, repeat)), None)
        if first is None or (left[first].axis, left[first].dim) != (repeat.axis, repeat.dim):
            return None
        if left[first].count % repeat.count:
            return None
        left[first] = attrs.evolve(left[first], count=left[first].count // repeat.count)
        left = merge_repeats(tuple(r for r in left if r.count > 1))
    return layout(dividend.rank, repeats=tuple(left))


def _scale(v: Vector, scale: Vector) -> Vector:
    return tuple(x * n for x, n in zip(v, scale, strict=True))


def _as_repeats(layout: Layout) -> tuple[Repeat, ...] | None:
    """The same layout by repetitions alone: every dimension's bits in order, each axis' too."""
    waiting = {axis: list(layout.atom(axis)) for axis in AXES}
    reached, result = [1] * layout.rank, list[Repeat]()
    while any(waiting.values()):
        ready = [a for a in AXES if waiting[a] and _next_step(waiting[a][0], reached)]
        if not ready:
            return None
        vector = waiting[ready[0]].pop(0)
        dim = next((d for d, x in enumerate(vector) if x), None)
        result.append(Repeat(ready[0], 2, dim))
        if dim is not None:
            reached[dim] *= 2
    return (*result, *layout.repeats)


def _next_step(vector: Vector, reached: list[int]) -> bool:
    """Whether `vector` moves by the extent reached so far along one dimension, or not at all."""
    moving = [(x, n) for x, n in zip(vector, reached, strict=True) if x]
    return not moving or (len(moving) == 1 and moving[0][0] == moving[0][1])


# Composition --------------------------------------------------------------------------------


def compose(outer: Layout, inner: Layout) -> Layout | None:
    """`outer` after `inner`: the only coordinate of `inner` is the register of `outer`. For
    example, a layout of threads over offsets of shared memory, composed with the layout of a tile
    in shared memory, is a layout of threads over the tile. None if a digit of `inner` straddles
    digits of `outer`."""
    if inner.rank != 1:
        return None
    atoms = {axis: list[Vector]() for axis in AXES}
    for axis in AXES:
        for (step,) in inner.atom(axis):
            image = _image(outer, step, inner)
            if image is None:
                return None
            atoms[axis].append(image)
    repeats = list[Repeat]()
    for axis, digit in _ordered_digits(inner):
        repeat = _repeat(outer, axis, digit)
        if repeat is None:
            return None
        repeats.append(repeat)
    result = layout(outer.rank, *(tuple(atoms[a]) for a in AXES), repeats=tuple(repeats))
    return result if _is_composition(result, outer, inner) else None


def _image(outer: Layout, step: int, inner: Layout) -> Vector | None:
    """The image of one bit of `inner`, which is linear only while it stays within the atom of
    `outer`."""
    if step >= 1 << len(outer.register) and outer.digits("register"):
        return None
    return outer.coordinate(step) if step < outer.size("register") else None


def _ordered_digits(layout: Layout) -> list[tuple[str, Digit]]:
    digits = {axis: list(layout.digits(axis)) for axis in AXES}
    return [(r.axis, digits[r.axis].pop(0)) for r in layout.repeats]


def _repeat(outer: Layout, axis: str, digit: Digit) -> Repeat | None:
    (step,) = digit.step
    if not step:
        return Repeat(axis, digit.count, None)
    for other in outer.digits("register"):
        if other.weight == step and other.count % digit.count == 0:
            dim = next((d for d, x in enumerate(other.step) if x), None)
            return Repeat(axis, digit.count, dim)
    return None


def _is_composition(composition: Layout, outer: Layout, inner: Layout) -> bool:
    """Whether every digit of the composition moves as in `outer` and `inner`."""
    for axis in AXES:
        steps = [1 << i for i in range(len(inner.atom(axis)))]
        steps += [d.weight * (d.count - 1) for d in inner.digits(axis)]
        if axis == "register" and composition.size(axis) != inner.size(axis):
            return False
        for step in steps:
            (index,) = inner.coordinate(**{axis: step})
            if index >= outer.size("register"):
                return False
            if composition.coordinate(**{axis: step}) != outer.coordinate(index):
                return False
    return True
