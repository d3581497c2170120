"""Layouts: which thread holds which element of a tile, as a linear map over GF(2).

A layout maps hardware coordinates (register, lane, warp, block) to tile coordinates. Its *atom*
is linear over GF(2): every bit of a hardware coordinate contributes a vector of tile coordinates,
and contributions are combined by exclusive or. *Repetitions* multiply the atom along one
dimension by any count, so that 192 columns or 12 warps are covered exactly:

    coordinate[d] = xor of the atom's vectors [d] + sum of (digit * step) of d's repetitions

A hardware coordinate is read least significant digit first: the atom's bits, then the digits of
its repetitions in the order listed. The step of a repetition is the extent reached so far in its
dimension. A zero vector, or a repetition along no dimension, is replication: several threads hold
the same element. Coordinates past a tile's shape are padding and hold nothing.

The text form, read by `tileir.layout_text.parse_layout`:

    layout(rank = 2, register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]],
           warp = [[4, 0]], repeat = [warp 3 @ 0, register 5 @ 1])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, reduce as fold
from math import prod
from operator import add, or_, xor
from typing import TypeAlias, cast

import attrs

from tileir.layout_bits import Subspace

Vector: TypeAlias = tuple[int, ...]
"""One tile coordinate per dimension."""

AXES = ("register", "lane", "warp", "block")
"""The hardware coordinates, innermost first."""


@attrs.frozen
class Repeat:
    """`count` copies along `dim`, selected by a digit of hardware axis `axis`.

    `dim` None replicates: the digit selects nothing.
    """

    axis: str
    count: int
    dim: int | None

    def __str__(self) -> str:
        return f"{self.axis} {self.count} @ {'none' if self.dim is None else self.dim}"

    def __repr__(self) -> str:
        return f"<{self}>"


class Digit:
    """One digit of a hardware coordinate: `index // weight % count` moves by `step`."""

    def __init__(self, weight: int, count: int, step: Vector) -> None:
        self.weight, self.count, self.step = weight, count, step


@attrs.frozen(slots=False, cache_hash=True)
class Layout:
    """A map from hardware coordinates to coordinates of a tile of `rank` dimensions.

    Two layouts are equal exactly if their canonical descriptions are; build them through
    `layout()`, which canonicalises.
    """

    rank: int
    register: tuple[Vector, ...] = ()
    lane: tuple[Vector, ...] = ()
    warp: tuple[Vector, ...] = ()
    block: tuple[Vector, ...] = ()
    repeats: tuple[Repeat, ...] = ()

    def atom(self, axis: str) -> tuple[Vector, ...]:
        """Vectors of the atom's bits of `axis`, least significant first."""
        return getattr(self, axis)

    @cached_property
    def atom_extents(self) -> Vector:
        """Extent of the atom per dimension: powers of two."""
        vectors = [v for axis in AXES for v in self.atom(axis)]
        return tuple(
            1 << fold(or_, (v[d] for v in vectors), 0).bit_length() for d in range(self.rank)
        )

    @cached_property
    def extents(self) -> Vector:
        """Extent covered per dimension, padding included."""
        reached = list(self.atom_extents)
        for repeat in self.repeats:
            if repeat.dim is not None:
                reached[repeat.dim] *= repeat.count
        return tuple(reached)

    def size(self, axis: str) -> int:
        """Number of values of hardware coordinate `axis`."""
        return prod(
            (r.count for r in self.repeats if r.axis == axis), start=1 << len(self.atom(axis))
        )

    @cached_property
    def _digits(self) -> Mapping[str, tuple[Digit, ...]]:
        weights = {axis: 1 << len(self.atom(axis)) for axis in AXES}
        reached, result = list(self.atom_extents), {axis: [] for axis in AXES}
        for repeat in self.repeats:
            step = [0] * self.rank
            if repeat.dim is not None:
                step[repeat.dim] = reached[repeat.dim]
                reached[repeat.dim] *= repeat.count
            result[repeat.axis].append(Digit(weights[repeat.axis], repeat.count, tuple(step)))
            weights[repeat.axis] *= repeat.count
        return {axis: tuple(digits) for axis, digits in result.items()}

    def digits(self, axis: str) -> tuple[Digit, ...]:
        """The repetitions of `axis`, as digits with their steps."""
        return self._digits[axis]

    def coordinate(self, register: int = 0, lane: int = 0, warp: int = 0, block: int = 0) -> Vector:
        """The tile coordinate that this register of this thread holds."""
        low = high = (0,) * self.rank
        for axis, value in zip(AXES, (register, lane, warp, block), strict=True):
            if value:
                bits, steps = self._contributions.get((axis, value)) or self._contribute(
                    axis, value
                )
                low, high = tuple(map(xor, low, bits)), tuple(map(add, high, steps))
        return tuple(map(add, low, high))

    @cached_property
    def _contributions(self) -> dict[tuple[str, int], tuple[Vector, Vector]]:
        """The contributions of the indices computed so far to a coordinate: the parts that are
        combined by exclusive or, and those combined by addition."""
        return {}

    def _contribute(self, axis: str, value: int) -> tuple[Vector, Vector]:
        """The contribution of the index `value` of `axis` to a coordinate; it is cached."""
        low = high = (0,) * self.rank
        for bit, vector in enumerate(self.atom(axis)):
            if value >> bit & 1:
                low = tuple(map(xor, low, vector))
        for digit in self.digits(axis):
            k = value // digit.weight % digit.count
            high = tuple(a + k * b for a, b in zip(high, digit.step, strict=True))
        self._contributions[axis, value] = low, high
        return low, high

    @cached_property
    def registers(self) -> tuple[Vector, ...]:
        """Coordinate of every register of thread 0, in register order."""
        return tuple(self.coordinate(r) for r in range(self.size("register")))

    @cached_property
    def thread_part(self) -> tuple[object, ...]:
        """The layout without registers. It is equal for two layouts exactly if each thread starts
        at the same coordinate in both."""
        other_axes = AXES[1:]
        return tuple((self.atom(a), self.digits(a)) for a in other_axes)

    def free_bits(self, axis: str) -> int:
        """Mask of the atom's bits of `axis` whose vectors depend linearly on those of lower bits,
        inner axes and registers. A thread with such a bit set owns elements that another thread
        owns too."""
        return self._free[axis]

    @property
    def is_replicated(self) -> bool:
        """Whether several threads of a block hold one element."""
        axes = ("lane", "warp")
        return any(self._free[axis] for axis in axes) or any(
            not any(digit.step) for axis in axes for digit in self.digits(axis)
        )

    @cached_property
    def _free(self) -> Mapping[str, int]:
        span, result = Subspace(), dict[str, int]()
        widths = [n.bit_length() for n in self.atom_extents]
        for axis in AXES:
            result[axis] = 0
            for bit, vector in enumerate(self.atom(axis)):
                packed = 0
                for x, width in zip(vector, widths, strict=True):
                    packed = packed << width | x
                result[axis] |= 0 if span.add(packed) else 1 << bit
        return result

    # Transformations: of the tile, and so of the layout -----------------------------------

    def slice(self, dim: int) -> Layout:
        """The layout of a tile whose dimension `dim` was reduced away: threads along it
        replicate, registers along it are dropped."""
        return _slice(self, dim)

    def collapse(self, dim: int) -> Layout:
        """The same with `dim` kept at extent 1: the layout of a tile that is broadcast along it."""
        return self.slice(dim).expand_dims(dim)

    def expand_dims(self, dim: int) -> Layout:
        """The layout of the tile with a dimension of extent 1 put in at `dim`."""
        return _expand(self, dim)

    def transpose(self, order: tuple[int, ...]) -> Layout:
        """The layout of the tile whose dimension `i` is this one's `order[i]`."""

        def vectors(axis: str) -> tuple[Vector, ...]:
            return tuple(tuple(v[d] for d in order) for v in self.atom(axis))

        repeats = [
            r if r.dim is None else attrs.evolve(r, dim=order.index(r.dim)) for r in self.repeats
        ]
        return layout(self.rank, *map(vectors, AXES), repeats=tuple(repeats))

    def with_units(self, old: Vector, new: Vector) -> Layout:
        """The layout of the tile of shape `old` seen as `new`, which differs in extents of 1."""
        result = self
        for dim in reversed(range(len(old))):
            if old[dim] == 1:
                result = result.slice(dim)
        for dim, extent in enumerate(new):
            if extent == 1:
                result = result.expand_dims(dim)
        return result

    def reshape(self, old: Vector, new: Vector) -> Layout | None:
        """The layout of the tile of shape `old` after a row-major reshape to `new`; None if it is
        not a layout. Leading and trailing dimensions with equal extents stay as they are. Among the
        dimensions between, all but the first must have extents that are powers of two, without
        repetitions; the first one's extent within the atom must be divisible by the new extents."""
        first, last = _alike(old, new), -_alike(old[::-1], new[::-1])
        last = max(last, first - min(len(old), len(new)))
        mine, other = (slice(first, len(shape) + last) for shape in (old, new))
        inner, remaining = old[mine][1:], new[other][1:]
        repeated = {r.dim for r in self.repeats} & {*range(first + 1, mine.stop)}
        if repeated or self.extents[mine][1:] != inner or any(n & (n - 1) for n in remaining):
            return None
        atom = self.atom_extents[mine] or (1,)
        if prod(atom) % prod(remaining) or (not new[other] and self.extents[mine] != old[mine]):
            return None
        within = (prod(atom) // prod(remaining), *remaining) if new[other] else ()

        def split_index(v: Vector) -> Vector:
            index = _linearize(v[mine] or (0,), atom)
            return (*v[:first], *delinearize(index, within), *v[mine.stop :])

        def renumber(r: Repeat) -> Repeat:
            inner = r.dim is not None and r.dim >= mine.stop
            return attrs.evolve(r, dim=cast(int, r.dim) + len(new) - len(old)) if inner else r

        atoms = (tuple(map(split_index, self.atom(a))) for a in AXES)
        return layout(len(new), *atoms, repeats=tuple(map(renumber, self.repeats)))

    def __str__(self) -> str:
        parts = [f"rank = {self.rank}"]
        for axis in AXES:
            if vectors := self.atom(axis):
                parts.append(f"{axis} = [{', '.join(str(list(v)) for v in vectors)}]")
        if self.repeats:
            parts.append(f"repeat = [{', '.join(map(str, self.repeats))}]")
        return f"layout({', '.join(parts)})"

    def __repr__(self) -> str:
        return f"<{self}>"


def layout(
    rank: int,
    register: tuple[Vector, ...] = (),
    lane: tuple[Vector, ...] = (),
    warp: tuple[Vector, ...] = (),
    block: tuple[Vector, ...] = (),
    *,
    repeats: tuple[Repeat, ...] = (),
) -> Layout:
    """The canonical layout of this description.

    Repetitions of one axis along one dimension are merged, their powers of two become bits of
    the atom where no other repetition comes first, independent ones are listed in one order, and
    registers do not replicate.
    """
    atoms = {"register": [v for v in register if any(v)]}
    atoms |= {"lane": list(lane), "warp": list(warp), "block": list(block)}
    reached = list(Layout(rank, register, lane, warp, block).atom_extents)
    canonical: list[Repeat] = []
    for repeat in merge_repeats(repeats):
        low = _power_in(repeat.count)
        if any(dependent(r, repeat) for r in canonical):
            low = 1
        for _ in range(low.bit_length() - 1):
            step = [0] * rank
            if repeat.dim is not None:
                step[repeat.dim] = reached[repeat.dim]
                reached[repeat.dim] *= 2
            atoms[repeat.axis].append(tuple(step))
        if repeat.count > low:
            canonical.append(attrs.evolve(repeat, count=repeat.count // low))
    register, lane, warp, block = (tuple(atoms[a]) for a in AXES)
    return Layout(rank, register, lane, warp, block, tuple(_in_canonical_order(canonical)))


_CACHED = 512
"""The most results of `slice` and of `expand_dims` that are kept. The ops of a kernel ask for each
five times."""


@lru_cache(maxsize=_CACHED)
def _slice(whole: Layout, dim: int) -> Layout:
    keep = [d for d in range(whole.rank) if d != dim]
    atoms: list[tuple[Vector, ...]] = []
    for axis in AXES:
        vectors = [tuple([v[d] for d in keep]) for v in whole.atom(axis)]
        atoms.append(tuple(v for v in vectors if axis != "register" or any(v)))
    repeats: list[Repeat] = []
    for r in whole.repeats:
        left = None if r.dim is None or r.dim == dim else keep.index(r.dim)
        if r.axis != "register" or left is not None:
            repeats.append(attrs.evolve(r, dim=left))
    return layout(len(keep), *atoms, repeats=tuple(repeats))


@lru_cache(maxsize=_CACHED)
def _expand(whole: Layout, dim: int) -> Layout:
    def vectors(axis: str) -> tuple[Vector, ...]:
        return tuple((*v[:dim], 0, *v[dim:]) for v in whole.atom(axis))

    repeats = [
        r if r.dim is None or r.dim < dim else attrs.evolve(r, dim=r.dim + 1) for r in whole.repeats
    ]
    return layout(whole.rank + 1, *map(vectors, AXES), repeats=tuple(repeats))


def merge_repeats(repeats: tuple[Repeat, ...]) -> list[Repeat]:
    """Merge consecutive repetitions of one axis along one dimension."""
    result: list[Repeat] = []
    for repeat in repeats:
        if repeat.axis == "register" and repeat.dim is None:
            continue
        last = next((i for i in reversed(range(len(result))) if dependent(result[i], repeat)), None)
        if last is not None and (result[last].axis, result[last].dim) == (repeat.axis, repeat.dim):
            result[last] = attrs.evolve(result[last], count=result[last].count * repeat.count)
        else:
            result.append(repeat)
    return result


def _in_canonical_order(repeats: list[Repeat]) -> Iterator[Repeat]:
    """The same repetitions in canonical order: of those that may come next, the first by axis and
    dimension."""
    remaining = list(repeats)
    while remaining:
        ready = [
            r for i, r in enumerate(remaining) if not any(dependent(b, r) for b in remaining[:i])
        ]
        first = min(ready, key=lambda r: (AXES.index(r.axis), -1 if r.dim is None else r.dim))
        remaining.remove(first)
        yield first


def dependent(a: Repeat, b: Repeat) -> bool:
    """Whether the order of two repetitions matters: they share an axis or a dimension."""
    return a.axis == b.axis or (a.dim is not None and a.dim == b.dim)


def differs_in_units(old: Vector, new: Vector) -> bool:
    """Whether two shapes are the same but for extents of 1."""
    return [n for n in old if n > 1] == [n for n in new if n > 1]


def _alike(old: Vector, new: Vector) -> int:
    """The number of leading extents that two shapes have in common."""
    pairs = zip(old, new, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _linearize(v: Vector, shape: Vector) -> int:
    index = 0
    for x, n in zip(v, shape, strict=True):
        index = index * n + x
    return index


def delinearize(index: int, shape: Vector) -> Vector:
    """The coordinates of element `index` of a row-major array of `shape`."""
    result: list[int] = []
    for n in reversed(shape):
        result.append(index % n)
        index //= n
    return tuple(reversed(result))


def _power_in(n: int) -> int:
    """Largest power of two that divides `n`."""
    return n & -n
