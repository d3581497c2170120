"""A tile of pointers under a mask as a block of a strided tensor.

    base + (start_0 + lane 0) stride_0 + (start_1 + lane 1) stride_1
    where start_0 + lane 0 < extent_0 and start_1 + lane 1 < extent_1

Strides and extents are made of what the host knows; starts, of anything that is the same in all
lanes. What no dimension of the tile explains becomes a dimension of the tensor of which the block
has one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
from typing import TypeAlias, cast

import attrs

from tileir.analysis.affine import Affine, AffineForms, Bound
from tileir.analysis.polynomial import (
    Lane,
    Monomial,
    Polynomial,
    ProgramIndex,
    Symbol,
    number,
    symbol,
)
from tileir.analysis.ranges import Ranges
from tileir.refusal import Refusal
from tileir.types import shape_of
from tileir.values import Operand, Value

Known: TypeAlias = Callable[[Value], bool]
"""Whether the host can compute a value."""

NOTHING = number(0)
"""No terms."""

_MOST = 5
"""Dimensions of a tensor map (CUDA driver API, "Tensor Map")."""


@attrs.frozen
class TensorDimension:
    """A dimension of the tensor: the block's first index in it, the distance of neighbours, the
    extent (None where nothing bounds it), and `tile_dim`, the dimension of the tile along it.
    `maybe_negative`: the part of the start that may be negative though the mask does not ask."""

    start: Polynomial
    stride: Polynomial
    extent: Polynomial | None
    tile_dim: int | None
    maybe_negative: Polynomial = NOTHING


@attrs.frozen
class TensorAccess:
    """The tensor that an access reads or writes a block of: neighbours in the last dimension are
    neighbours in memory. The first element is `offset` elements from `base`."""

    base: Value
    offset: Polynomial
    dimensions: tuple[TensorDimension, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions of the tile in the tensor's order."""
        return tuple(d.tile_dim for d in self.dimensions if d.tile_dim is not None)

    def block(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The extents of the block for a tile of `shape`."""
        return tuple(1 if d.tile_dim is None else shape[d.tile_dim] for d in self.dimensions)


@attrs.frozen
class HostFacts:
    """What is known of a function's integers, which of them the host can compute, and which the
    entry defines."""

    forms: AffineForms
    ranges: Ranges
    known: Known
    early: Known

    def settled(self, monomial: Monomial) -> bool:
        """Whether the host can compute a product."""
        return all(isinstance(s, Value) and self.known(s) for s in monomial)

    def split(self, form: Polynomial) -> tuple[Polynomial, Polynomial]:
        """The terms that the host can compute, and the others."""
        host = {m: c for m, c in form.terms.items() if self.settled(m)}
        return Polynomial(host), form - Polynomial(host)

    def unsure(self, form: Polynomial) -> Polynomial:
        """0 where no term of `form` is negative; else `form` less those of its terms that are not
        negative and cannot be computed early; all of it where what is left cannot, either."""
        sure = {
            monomial: factor
            for monomial, factor in form.terms.items()
            if factor > 0 and all(self._least(s) >= 0 for s in monomial)
        }
        if len(sure) == len(form.terms):
            return NOTHING
        late = {m: c for m, c in sure.items() if not all(self._soon(s) for s in m)}
        left = form - Polynomial(late)
        return left if all(self._soon(s) for m in left.terms for s in m) else form

    def _soon(self, which: Symbol) -> bool:
        return isinstance(which, ProgramIndex) or (isinstance(which, Value) and self.early(which))

    def _least(self, which: Symbol) -> int:
        return self.ranges.of(which)[0] if isinstance(which, Value) else 0


def delinearize(
    facts: HostFacts, pointer: Operand, mask: Operand | None, rank: int
) -> TensorAccess | Refusal:
    """The block that `pointer`, a tile of `rank` dimensions, stands for where `mask`; else why
    there is none."""
    found = facts.forms.of(pointer)
    if found is None or found.base is None:
        return Refusal("the address is not affine in lanes, iterations and scalars")
    bounds = () if mask is None else facts.forms.bounds(mask)
    if bounds is None:
        return Refusal("its mask is no conjunction of bounds")
    if min(shape_of(pointer.type), default=1) < 2:
        return Refusal("a dimension has one element")
    strides = [found.stride(d) for d in range(rank)]
    if any(s is None or not s.terms or facts.split(s)[1].terms for s in strides):
        return Refusal("its strides are not known to the host")
    limits = _limits(bounds)
    if isinstance(limits, Refusal):
        return limits
    return _Solving(facts, limits, cast("list[Polynomial]", strides)).solved(found)


# Bounds -----------------------------------------------------------------------------------------


@attrs.frozen
class _Limits:
    """By dimension of the tile: the index that must not be negative, less its lane; and the last
    index that is allowed, less the start."""

    starts: Mapping[int, Polynomial]
    rooms: Mapping[int, Polynomial]


def _limits(bounds: Iterable[Bound]) -> _Limits | Refusal:
    starts: dict[int, Polynomial] = {}
    rooms: dict[int, Polynomial] = {}
    for bound in bounds:
        forms = _not_negative(bound)
        if not forms:
            return Refusal(f"a bound is {bound.relation}")
        for form in forms:
            lane = next((s for m in form.terms for s in m if isinstance(s, Lane)), None)
            factor = None if lane is None else form.coefficient(lane)
            step = None if factor is None else factor.constant
            if lane is None or step not in (1, -1):
                return Refusal("a bound is not of one dimension, element by element")
            rest = form.without(lane)
            if any(isinstance(s, Lane) for m in rest.terms for s in m):
                return Refusal("a bound is of several dimensions")
            kept = starts if step == 1 else rooms
            if kept.setdefault(lane.dimension, rest) != rest:
                return Refusal("a dimension has two bounds")
    if not starts.keys() <= rooms.keys():
        return Refusal("a dimension is bounded from below alone")
    return _Limits(starts, rooms)


def _not_negative(bound: Bound) -> tuple[Polynomial, ...]:
    """What is 0 or more exactly where `bound` holds; nothing for relations of other kinds."""
    left, right, one = bound.left.offset, bound.right.offset, number(1)
    match bound.relation:
        case "slt":
            return (right - left - one,)
        case "sle":
            return (right - left,)
        case "sgt":
            return (left - right - one,)
        case "sge":
            return (left - right,)
        case "ult":
            return left, right - left - one
        case _:
            return ()


# Which part of the address belongs to which dimension ---------------------------------------------


@attrs.define
class _Solving:
    facts: HostFacts
    limits: _Limits
    strides: list[Polynomial]

    def solved(self, address: Affine) -> TensorAccess | Refusal:
        rest = address.offset
        for dim, stride in enumerate(self.strides):
            rest = rest - symbol(Lane(dim)) * stride
        made: dict[int, TensorDimension] = {}
        for dim in self.limits.rooms:
            found = self._bounded(dim, rest)
            if isinstance(found, Refusal):
                return found
            made[dim] = found
            rest = rest - found.start * found.stride
        host, rest = self.facts.split(rest)
        starts, others = self._shared_out(rest, [d for d in self._all() if d not in made])
        for dim, start in starts.items():
            if any(factor < 0 for factor in start.terms.values()):
                begun = self._begun(dim, host)
                start, host = start + begun, host - begun * self.strides[dim]
            made[dim] = TensorDimension(start, self.strides[dim], None, dim)
        return self._ordered(address, host, [*others, *(made[d] for d in self._all())])

    def _all(self) -> range:
        return range(len(self.strides))

    def _bounded(self, dim: int, rest: Polynomial) -> TensorDimension | Refusal:
        """The dimension whose indices the mask compares with an extent."""
        room, start = self.limits.rooms[dim], self.limits.starts.get(dim)
        if start is None:
            host, moving = self.facts.split(room + number(1))
            start = number(0) - moving
            taken = self._taken_off(host, self.strides[dim], rest)
            start = start + taken
            if () not in taken.terms:
                start = self._with_constant(start, self.strides[dim], rest)
        extent = room + start + number(1)
        if self.facts.split(extent)[1].terms:
            return Refusal("an extent is not known to the host")
        return TensorDimension(start, self.strides[dim], extent, dim)

    def _taken_off(self, room: Polynomial, stride: Polynomial, rest: Polynomial) -> Polynomial:
        """The terms that the bound takes off an extent because indices begin there: the address
        has them, too."""
        found = number(0)
        for monomial, factor in room.terms.items():
            begin = Polynomial({monomial: -factor})
            moved = (begin * stride).terms
            here = all(rest.terms.get(m) == c for m, c in moved.items())
            if here and (factor < 0 or not monomial):
                found = found + begin
        return found

    def _begun(self, dim: int, host: Polynomial) -> Polynomial:
        """The steps along `dim` in what the base is moved by: an index that falls from there is
        not negative where that is counted in."""
        stride = self.strides[dim]
        if len(stride.terms) != 1:
            return NOTHING
        ((of, by),) = stride.terms.items()
        found = NOTHING
        for monomial, factor in host.terms.items():
            if by > 0 and factor >= by and _contains(monomial, of):
                found = found + _quotient(monomial, factor - factor % by, stride)
        return found

    def _with_constant(self, start: Polynomial, stride: Polynomial, rest: Polynomial) -> Polynomial:
        """`start` and the number that the address has with it, which bounds leave open."""
        if len(stride.terms) != 1:
            return start
        ((monomial, factor),) = stride.terms.items()
        whole, left = divmod(rest.terms.get(monomial, 0), factor)
        return start + number(whole) if not left and monomial else start

    def _shared_out(
        self, rest: Polynomial, dims: list[int]
    ) -> tuple[dict[int, Polynomial], list[TensorDimension]]:
        """`rest` as starts of `dims` and dimensions of their own."""
        starts = {d: number(0) for d in dims}
        others: dict[Monomial, dict[Monomial, int]] = {}
        for monomial, factor in rest.terms.items():
            dim = self._fitting(monomial, factor, dims)
            if dim is not None:
                starts[dim] = starts[dim] + _quotient(monomial, factor, self.strides[dim])
                continue
            host = tuple(s for s in monomial if self.facts.settled((s,)))
            moving = tuple(s for s in monomial if s not in host)
            others.setdefault((*host,), {})[moving] = factor
        others = _merged(others, _MOST - len(self.strides))
        return starts, [_single(host, moving) for host, moving in others.items()]

    def _fitting(self, monomial: Monomial, factor: int, dims: list[int]) -> int | None:
        """The dimension along which a term goes: the one with the longest stride that divides it;
        a stride that is a number divides what is a number of steps."""
        plain = not any(self.facts.settled((s,)) for s in monomial)
        found: list[tuple[int, int, int]] = []
        for dim in dims:
            stride = self.strides[dim]
            if len(stride.terms) != 1:
                continue
            ((of, by),) = stride.terms.items()
            if (of or plain) and not factor % by and _contains(monomial, of):
                found.append((len(of), abs(by), dim))
        return max(found)[2] if found else None

    def _ordered(
        self, address: Affine, host: Polynomial, dimensions: list[TensorDimension]
    ) -> TensorAccess | Refusal:
        fast = [d for d in dimensions if d.tile_dim is not None and d.stride == number(1)]
        if not fast:  # a last one whose stride is a parameter, which the launcher finds to be 1
            last = (d for d in dimensions if d.tile_dim == len(self.strides) - 1)
            fast = [d for d in last if d.stride.constant is None]
        if len(fast) != 1:
            return Refusal("no dimension of the tile, or more than one, has neighbours in memory")
        if len(dimensions) > _MOST:
            return Refusal(f"it takes {len(dimensions)} dimensions")
        slow = [self._asked(d) for d in dimensions if d is not fast[0]]
        assert address.base is not None
        return TensorAccess(address.base, host, (*slow, self._asked(fast[0])))

    def _asked(self, dimension: TensorDimension) -> TensorDimension:
        if dimension.tile_dim in self.limits.starts:
            return dimension
        return attrs.evolve(dimension, maybe_negative=self.facts.unsure(dimension.start))


def _contains(monomial: Monomial, part: Monomial) -> bool:
    return all(monomial.count(s) >= part.count(s) for s in part)


def _quotient(monomial: Monomial, factor: int, stride: Polynomial) -> Polynomial:
    ((of, by),) = stride.terms.items()
    left = list(monomial)
    for which in of:
        left.remove(which)
    return Polynomial({tuple(left): factor // by})


def _merged(
    others: dict[Monomial, dict[Monomial, int]], most: int
) -> dict[Monomial, dict[Monomial, int]]:
    """`others`, the distances of dimensions that a block has one element of, with what is moved by
    them, where there are more than `most`: what moves by a multiple of another's distance moves by
    that one, too."""
    found = dict(others)
    for host in sorted(others, key=len, reverse=True):
        into = [o for o in found if len(o) < len(host) and _contains(host, o)]
        if len(found) <= most or not into:
            continue
        nearest = max(into, key=len)
        ((rest, _),) = _quotient(host, 1, Polynomial({nearest: 1})).terms.items()
        merged = dict(found[nearest])
        for moving, factor in found.pop(host).items():
            merged[*rest, *moving] = merged.get((*rest, *moving), 0) + factor
        found[nearest] = merged
    return found


def _single(host: Monomial, moving: Mapping[Monomial, int]) -> TensorDimension:
    """A dimension of which a block has one element."""
    step = gcd(*moving.values())
    start = Polynomial({m: factor // step for m, factor in moving.items()})
    return TensorDimension(start, Polynomial({host: step}), None, None)
