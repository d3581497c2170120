"""The alignment lattice: three numbers per dimension, and how they shrink."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import gcd

import attrs

from tileir.ir import Parameter
from tileir.op import Op
from tileir.types import Pointer, Scalar, Type, element_of, shape_of
from tileir.values import Constant, Undef

LARGEST = 1 << 63
"""`multiple` of zero, which is a multiple of everything."""


@attrs.frozen(weakref_slot=False, repr=False)
class Alignment:
    """The facts about a value along each dimension; a scalar counts as a tile of shape (1,).

    - `contiguity[d]`: elements along dimension d are grouped by this number from index 0 on; the
      last group may be shorter. Within a group, neighbours differ by exactly 1: integers as signed
      numbers that do not wrap, pointers by one element.
    - `multiple[d]`: a power of two that divides the first element of every group: integers in
      units, pointers in bytes. With groups of one it divides every element.
    - `constancy[d]`: elements along dimension d are grouped likewise, and are equal within a group.
    - `step`: the distance of neighbours in the units of `multiple`: 1 for integers, the size of the
      pointee in bytes for pointers.
    """

    multiple: tuple[int, ...]
    contiguity: tuple[int, ...]
    constancy: tuple[int, ...]
    step: int = 1
    hinted: tuple[int, ...] = ()
    """The divisor that `multiple_of` promised for the runs that a later `contiguous` defines."""

    @property
    def every(self) -> int:
        """The largest power of two known to divide every element."""
        return max(self.multiple_at(d, 1) for d in range(len(self.multiple)))

    def multiple_at(self, dimension: int, stride: int) -> int:
        """A divisor of the elements whose index along `dimension` is a multiple of `stride`."""
        run, first = self.contiguity[dimension], self.multiple[dimension]
        return first if stride % run == 0 else gcd(first, self.step * gcd(stride, run))

    def regroup(self, contiguity: Sequence[int]) -> Alignment:
        """The same facts with smaller groups, each of which divides the present one."""
        if tuple(contiguity) == self.contiguity:
            return self
        multiple = tuple(self.multiple_at(d, run) for d, run in enumerate(contiguity))
        return Alignment(multiple, tuple(contiguity), self.constancy, self.step)

    def meet(self, other: Alignment, contiguity: Sequence[int]) -> Alignment:
        """The facts that are true of both values; each group of the result comes from one of them,
        where both are contiguous in groups of `contiguity`."""
        dims = range(len(contiguity))
        multiple = tuple(
            gcd(self.multiple_at(d, contiguity[d]), other.multiple_at(d, contiguity[d]))
            for d in dims
        )
        constancy = tuple(map(gcd, self.constancy, other.constancy))
        return Alignment(multiple, tuple(contiguity), constancy, self.step)

    def without_wraparound(self, bits: int) -> Alignment:
        """These facts, where neighbours were known to differ by 1 only modulo 2^bits: groups
        that start at a multiple of their size do not wrap."""
        half = 1 << (bits - 1)
        runs = tuple(
            run if run == 1 else gcd(run, first, half)
            for run, first in zip(self.contiguity, self.multiple, strict=True)
        )
        return self.regroup(runs)


def extents(type: Type) -> tuple[int, ...]:
    """Shape of `type`, a scalar's being (1,)."""
    return shape_of(type) or (1,)


def step_of(type: Type) -> int:
    """Distance of neighbours: bytes for pointers, 1 otherwise."""
    element = element_of(type)
    return element.pointee.bytes if isinstance(element, Pointer) else 1


@lru_cache(1024)
def unknown(type: Type) -> Alignment:
    """Nothing but the type is known."""
    ones = (1,) * len(extents(type))
    return Alignment(ones, ones, ones, step_of(type))


@lru_cache(1024)
def uniform(type: Type, multiple: int) -> Alignment:
    """All elements equal, and a multiple of `multiple`."""
    shape = extents(type)
    return Alignment((multiple,) * len(shape), (1,) * len(shape), shape, step_of(type))


def of_literal(literal: Constant | Undef) -> Alignment:
    """Facts about a literal: equal elements. Nothing is known of undef."""
    if isinstance(literal, Undef):
        return unknown(literal.type)
    element = element_of(literal.type)
    is_float = isinstance(element, Scalar) and element.is_float
    return uniform(literal.type, 1 if is_float else power_of_two(literal.bits))


def of_parameter(parameter: Parameter) -> Alignment:
    """The facts that the caller promises of a parameter; they apply to every element of a tile."""
    promise = parameter.attributes
    multiple = power_of_two(promise.aligned or promise.multiple_of or 1)
    facts = unknown(parameter.type)
    return Alignment(
        (multiple,) * len(facts.multiple), facts.contiguity, facts.constancy, facts.step
    )


def power_of_two(number: int) -> int:
    """The largest power of two that divides `number`, capped; zero gives the cap."""
    return min(number & -number, LARGEST) if number else LARGEST


def elementwise(op: Op, facts: Sequence[Alignment]) -> list[Alignment]:
    """An op of which nothing is known but that equal elements give equal elements."""
    return [multiples_of(v.type, facts) for v in op.results]


def multiples_of(type: Type, facts: Iterable[Alignment], multiple: int = 1) -> Alignment:
    """Elements that are multiples of `multiple`, equal where those of all `facts` are."""
    shape = extents(type)
    runs = (1,) * len(shape)
    return Alignment((multiple,) * len(shape), runs, constancy(shape, facts), step_of(type))


def constancy(shape: tuple[int, ...], facts: Iterable[Alignment]) -> tuple[int, ...]:
    """Groups in which all `facts` are constant, in a tile of `shape`. Scalars always are."""
    result = shape
    for fact in facts:
        if len(fact.constancy) == len(result) and fact.constancy != result:
            result = tuple(map(gcd, result, fact.constancy))
    return result
