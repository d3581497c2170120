"""Delinearization: a masked tile of pointers as a block of a strided tensor.

    base + (start_0 + lane 0) stride_0 + (start_1 + lane 1) stride_1
    where start_0 + lane 0 < extent_0 and start_1 + lane 1 < extent_1

The host must be able to compute strides and extents; starts may be any uniform values. Terms of
the address that belong to no dimension of the tile become additional dimensions of the tensor, in
which the block has one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
from typing import TypeAlias, cast

import attrs

from tileir.analysis.affine import AffineForm, AffineForms, MaskComparison
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

ZERO = number(0)
"""The zero polynomial."""

_MAX_DIMENSIONS = 5
"""Dimensions of a tensor map (CUDA driver API, "Tensor Map")."""


@attrs.frozen
class TensorDimension:
    """A dimension of the tensor. It has the first index of the block, the stride in elements, the
    extent (None if the mask has no bound), and `tile_dim`, the dimension of the tile along it (None
    for an additional dimension). `maybe_negative` is the part of the start that may be negative
    although the mask does not test for it."""

    start: Polynomial
    stride: Polynomial
    extent: Polynomial | None
    tile_dim: int | None
    maybe_negative: Polynomial = ZERO


@attrs.frozen
class TensorAccess:
    """The tensor of which an access reads or writes a block. The last dimension is contiguous in
    memory. The first element is `offset` elements from `base`."""

    base: Value
    offset: Polynomial
    dimensions: tuple[TensorDimension, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions of the tile in the order of the tensor."""
        return tuple(d.tile_dim for d in self.dimensions if d.tile_dim is not None)

    def block(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The extents of the block for a tile of `shape`."""
        return tuple(1 if d.tile_dim is None else shape[d.tile_dim] for d in self.dimensions)


@attrs.frozen
class HostFacts:
    """Affine forms and ranges of the integers of a function; the values that the host can compute;
    and the values that the entry block defines."""

    forms: AffineForms
    ranges: Ranges
    is_on_host: Known
    is_in_entry: Known

    def is_host_computable(self, monomial: Monomial) -> bool:
        """Whether the host can compute a monomial."""
        return all(isinstance(s, Value) and self.is_on_host(s) for s in monomial)

    def split(self, form: Polynomial) -> tuple[Polynomial, Polynomial]:
        """The terms that the host can compute, and the others."""
        host = {m: c for m, c in form.terms.items() if self.is_host_computable(m)}
        return Polynomial(host), form - Polynomial(host)

    def maybe_negative_part(self, form: Polynomial) -> Polynomial:
        """The part of `form` that may be negative: 0 if no term is negative. Otherwise nonnegative
        terms that the entry block cannot compute are left out, if it can compute all others."""
        nonnegative = {
            monomial: coefficient
            for monomial, coefficient in form.terms.items()
            if coefficient > 0 and all(self._minimum(s) >= 0 for s in monomial)
        }
        if len(nonnegative) == len(form.terms):
            return ZERO
        unavailable = {
            m: c
            for m, c in nonnegative.items()
            if not all(self._is_available_in_entry(s) for s in m)
        }
        remaining = form - Polynomial(unavailable)
        return (
            remaining
            if all(self._is_available_in_entry(s) for m in remaining.terms for s in m)
            else form
        )

    def _is_available_in_entry(self, symbol: Symbol) -> bool:
        return isinstance(symbol, ProgramIndex) or (
            isinstance(symbol, Value) and self.is_in_entry(symbol)
        )

    def _minimum(self, symbol: Symbol) -> int:
        return self.ranges.of(symbol)[0] if isinstance(symbol, Value) else 0


def delinearize(
    facts: HostFacts, pointer: Operand, mask: Operand | None, rank: int
) -> TensorAccess | Refusal:
    """The block of a tensor that `pointer`, a tile of `rank` dimensions, addresses under `mask`; or
    a Refusal with the reason why there is none."""
    address = facts.forms.of(pointer)
    if address is None or address.base is None:
        return Refusal("the address is not affine in lanes, iterations and scalars")
    bounds = () if mask is None else facts.forms.bounds(mask)
    if bounds is None:
        return Refusal("its mask is not a conjunction of bounds")
    if min(shape_of(pointer.type), default=1) < 2:
        return Refusal("a dimension has one element")
    strides = [address.stride(d) for d in range(rank)]
    if any(s is None or not s.terms or facts.split(s)[1].terms for s in strides):
        return Refusal("the host cannot compute its strides")
    limits = _limits(bounds)
    if isinstance(limits, Refusal):
        return limits
    return _DelinearizeSolver(facts, limits, cast("list[Polynomial]", strides)).solve(address)


# Bounds -----------------------------------------------------------------------------------------


@attrs.frozen
class _Limits:
    """Bounds by dimension of the tile. `starts` contains the start of the indices that the mask
    requires to be nonnegative, `ends` the last allowed index minus the start."""

    starts: Mapping[int, Polynomial]
    ends: Mapping[int, Polynomial]


def _limits(bounds: Iterable[MaskComparison]) -> _Limits | Refusal:
    starts: dict[int, Polynomial] = {}
    ends: dict[int, Polynomial] = {}
    for bound in bounds:
        forms = _nonnegative_forms(bound)
        if not forms:
            return Refusal(f"its mask has a comparison {bound.relation}, which is no bound")
        for form in forms:
            lane = next((s for m in form.terms for s in m if isinstance(s, Lane)), None)
            coefficient = None if lane is None else form.coefficient(lane)
            step = None if coefficient is None else coefficient.constant
            if lane is None or step not in (1, -1):
                return Refusal("a bound of its mask does not step by one along a dimension")
            limit = form.without(lane)
            if any(isinstance(s, Lane) for m in limit.terms for s in m):
                return Refusal("a bound of its mask depends on several dimensions")
            limits = starts if step == 1 else ends
            if limits.setdefault(lane.dimension, limit) != limit:
                return Refusal("its mask has two bounds for one dimension")
    if not starts.keys() <= ends.keys():
        return Refusal("its mask bounds a dimension only from below")
    return _Limits(starts, ends)


def _nonnegative_forms(bound: MaskComparison) -> tuple[Polynomial, ...]:
    """The forms that are all at least 0 exactly where `bound` holds; empty for other relations."""
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


# The terms of the address by dimension ------------------------------------------------------------


@attrs.define
class _DelinearizeSolver:
    facts: HostFacts
    limits: _Limits
    strides: list[Polynomial]

    def solve(self, address: AffineForm) -> TensorAccess | Refusal:
        remainder = address.offset
        for dim, stride in enumerate(self.strides):
            remainder = remainder - symbol(Lane(dim)) * stride
        dimensions: dict[int, TensorDimension] = {}
        for dim in self.limits.ends:
            dimension = self._bounded_dimension(dim, remainder)
            if isinstance(dimension, Refusal):
                return dimension
            dimensions[dim] = dimension
            remainder = remainder - dimension.start * dimension.stride
        host, remainder = self.facts.split(remainder)
        starts, extra = self._distribute(
            remainder, [d for d in self._dims() if d not in dimensions]
        )
        for dim, start in starts.items():
            if any(c < 0 for c in start.terms.values()):
                offset = self._steps_in_offset(dim, host)
                start, host = start + offset, host - offset * self.strides[dim]
            dimensions[dim] = TensorDimension(start, self.strides[dim], None, dim)
        return self._access(address, host, [*extra, *(dimensions[d] for d in self._dims())])

    def _dims(self) -> range:
        return range(len(self.strides))

    def _bounded_dimension(self, dim: int, remainder: Polynomial) -> TensorDimension | Refusal:
        """A dimension whose indices the mask compares with an extent."""
        end, start = self.limits.ends[dim], self.limits.starts.get(dim)
        if start is None:
            host, varying = self.facts.split(end + number(1))
            start = number(0) - varying
            if any(m not in remainder.terms for m in (start * self.strides[dim]).terms):
                # A term that the address lacks is an extent that the kernel computes.
                return Refusal("the host cannot compute an extent")
            shared = self._shared_terms(host, self.strides[dim], remainder)
            start = start + shared
            if () not in shared.terms:
                start = self._with_constant(start, self.strides[dim], remainder)
        extent = end + start + number(1)
        if self.facts.split(extent)[1].terms:
            return Refusal("the host cannot compute an extent")
        return TensorDimension(start, self.strides[dim], extent, dim)

    def _shared_terms(
        self, end: Polynomial, stride: Polynomial, remainder: Polynomial
    ) -> Polynomial:
        """The part of the start that the bound subtracts from the extent: terms that the address
        contains as well."""
        shared = number(0)
        for monomial, coefficient in end.terms.items():
            term = Polynomial({monomial: -coefficient})
            steps = (term * stride).terms
            is_in_address = all(remainder.terms.get(m) == c for m, c in steps.items())
            if is_in_address and (coefficient < 0 or not monomial):
                shared = shared + term
        return shared

    def _steps_in_offset(self, dim: int, host: Polynomial) -> Polynomial:
        """The steps along `dim` in the offset of the base. An index that decreases from there is
        nonnegative if these steps are part of its start."""
        stride = self.strides[dim]
        if len(stride.terms) != 1:
            return ZERO
        ((symbols, size),) = stride.terms.items()
        steps = ZERO
        for monomial, coefficient in host.terms.items():
            if size > 0 and coefficient >= size and _contains(monomial, symbols):
                steps = steps + _quotient(monomial, coefficient - coefficient % size, stride)
        return steps

    def _with_constant(
        self, start: Polynomial, stride: Polynomial, remainder: Polynomial
    ) -> Polynomial:
        """`start` plus the constant number of steps in the address, which bounds do not show."""
        if len(stride.terms) != 1:
            return start
        ((monomial, coefficient),) = stride.terms.items()
        steps, modulus = divmod(remainder.terms.get(monomial, 0), coefficient)
        return start + number(steps) if not modulus and monomial else start

    def _distribute(
        self, remainder: Polynomial, dims: list[int]
    ) -> tuple[dict[int, Polynomial], list[TensorDimension]]:
        """The terms of `remainder`, distributed to the starts of `dims` and to additional
        dimensions."""
        starts = {d: number(0) for d in dims}
        by_stride: dict[Monomial, dict[Monomial, int]] = {}
        for monomial, coefficient in remainder.terms.items():
            dim = self._best_dim(monomial, coefficient, dims)
            if dim is not None:
                starts[dim] = starts[dim] + _quotient(monomial, coefficient, self.strides[dim])
                continue
            host = tuple(s for s in monomial if self.facts.is_host_computable((s,)))
            varying = tuple(s for s in monomial if s not in host)
            by_stride.setdefault((*host,), {})[varying] = coefficient
        by_stride = _merge_dimensions(by_stride, _MAX_DIMENSIONS - len(self.strides))
        return starts, [_extra_dimension(host, varying) for host, varying in by_stride.items()]

    def _best_dim(self, monomial: Monomial, coefficient: int, dims: list[int]) -> int | None:
        """The dimension of a term: the one with the longest stride that divides it. A constant
        stride divides only terms that contain no value that the host computes."""
        is_varying = not any(self.facts.is_host_computable((s,)) for s in monomial)
        candidates: list[tuple[int, int, int]] = []
        for dim in dims:
            stride = self.strides[dim]
            if len(stride.terms) != 1:
                continue
            ((symbols, size),) = stride.terms.items()
            if (symbols or is_varying) and not coefficient % size and _contains(monomial, symbols):
                candidates.append((len(symbols), abs(size), dim))
        return max(candidates)[2] if candidates else None

    def _access(
        self, address: AffineForm, host: Polynomial, dimensions: list[TensorDimension]
    ) -> TensorAccess | Refusal:
        contiguous = [d for d in dimensions if d.tile_dim is not None and d.stride == number(1)]
        if not contiguous:
            # a last dimension whose stride is a parameter; the launcher checks that it is 1
            last = (d for d in dimensions if d.tile_dim == len(self.strides) - 1)
            contiguous = [d for d in last if d.stride.constant is None]
        if len(contiguous) != 1:
            return Refusal("not exactly one dimension of the tile is contiguous in memory")
        if len(dimensions) > _MAX_DIMENSIONS:
            return Refusal(
                f"it needs {len(dimensions)} dimensions, and a tensor map has {_MAX_DIMENSIONS}"
            )
        outer = [self._with_maybe_negative(d) for d in dimensions if d is not contiguous[0]]
        assert address.base is not None
        return TensorAccess(address.base, host, (*outer, self._with_maybe_negative(contiguous[0])))

    def _with_maybe_negative(self, dimension: TensorDimension) -> TensorDimension:
        if dimension.tile_dim in self.limits.starts:
            return dimension
        return attrs.evolve(
            dimension, maybe_negative=self.facts.maybe_negative_part(dimension.start)
        )


def _contains(monomial: Monomial, part: Monomial) -> bool:
    return all(monomial.count(s) >= part.count(s) for s in part)


def _quotient(monomial: Monomial, coefficient: int, stride: Polynomial) -> Polynomial:
    ((symbols, size),) = stride.terms.items()
    remaining = list(monomial)
    for variable in symbols:
        remaining.remove(variable)
    return Polynomial({tuple(remaining): coefficient // size})


def _merge_dimensions(
    by_stride: dict[Monomial, dict[Monomial, int]], limit: int
) -> dict[Monomial, dict[Monomial, int]]:
    """Merge additional dimensions until there are at most `limit`. `by_stride` maps strides to
    starts. A dimension whose stride is a multiple of another one's is merged into that one."""
    merged = dict(by_stride)
    for host in sorted(by_stride, key=len, reverse=True):
        divisors = [o for o in merged if len(o) < len(host) and _contains(host, o)]
        if len(merged) <= limit or not divisors:
            continue
        nearest = max(divisors, key=len)
        ((quotient, _),) = _quotient(host, 1, Polynomial({nearest: 1})).terms.items()
        nearest_start = dict(merged[nearest])
        for varying, coefficient in merged.pop(host).items():
            nearest_start[*quotient, *varying] = (
                nearest_start.get((*quotient, *varying), 0) + coefficient
            )
        merged[nearest] = nearest_start
    return merged


def _extra_dimension(host: Monomial, varying: Mapping[Monomial, int]) -> TensorDimension:
    """An additional dimension, in which the block has one element."""
    step = gcd(*varying.values())
    start = Polynomial({m: coefficient // step for m, coefficient in varying.items()})
    return TensorDimension(start, Polynomial({host: step}), None, None)
