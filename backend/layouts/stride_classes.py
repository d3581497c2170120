"""The distance of neighbours along each dimension of a tile of pointers without contiguous
elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from math import prod

from tileir.analysis.affine import affine
from tileir.analysis.alignment import Alignments, alignment
from tileir.analysis.polynomial import Polynomial, Symbol
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add
from tileir.ops.memory import Load
from tileir.ops.shape import Broadcast, GetElementPtr, Splat
from tileir.types import Pointer, element_of, shape_of
from tileir.values import Operand, Value


class StrideClass(IntEnum):
    """Classes of distances between neighbours, the smallest first. A quotient or a remainder of an
    index mostly advances with the index; the values of a table are arbitrary; a stride is a
    stride."""

    SAME = 0
    COMPUTED = 1
    LOOKED_UP = 2
    STRIDED = 3


def distances(function: Function, pointer: Operand) -> list[StrideClass]:
    """The largest stride among the terms of the address, by dimension of `pointer`."""
    classes = [StrideClass.SAME] * len(shape_of(pointer.type))
    forms, origin = affine(function), definitions(function)
    for term in _terms(function, pointer):
        form, varying = forms.of(term), _varying(origin, term)
        for dim, varies in enumerate(varying):
            if form is not None:
                step = _of_stride(form.stride(dim))
            elif varies:
                step = StrideClass.LOOKED_UP if _looked_up(origin, term) else StrideClass.COMPUTED
            else:
                step = StrideClass.SAME
            classes[dim] = max(classes[dim], step)
    return classes


def lengths(function: Function, pointer: Operand) -> list[tuple[bool, int]]:
    """A key that orders strides by their likely length, by dimension of `pointer`.

    The key has whether the stride is a parameter, and the literal, or the power of two that divides
    the parameter. The stride of a tensor is one extent times others: the more extents, the more
    powers of two divide it.
    """
    forms, alignments = affine(function), alignment(function)
    longest = [(False, 0)] * len(shape_of(pointer.type))
    for term in _terms(function, pointer):
        form = forms.of(term)
        for dim in range(len(longest)):
            stride = None if form is None else form.stride(dim)
            if stride is not None:
                longest[dim] = max(longest[dim], _length(stride, alignments))
    return longest


def bytes_between(function: Function, pointer: Operand, dim: int) -> int | None:
    """The distance in bytes of neighbours along `dim` whose stride is a constant; None for other
    strides."""
    element = element_of(pointer.type)
    assert isinstance(element, Pointer)
    is_parameter, stride = lengths(function, pointer)[dim]
    return None if is_parameter or not stride else stride * element.pointee.bytes


def _length(stride: Polynomial, alignments: Alignments) -> tuple[bool, int]:
    if stride.constant is not None:
        return False, abs(stride.constant)
    divisors = (
        prod((_divisor(symbol, alignments) for symbol in symbols), start=number & -number)
        for symbols, number in stride.terms.items()
    )
    return True, min(divisors)


def _divisor(symbol: Symbol, alignments: Alignments) -> int:
    """The power of two that is known to divide a symbol."""
    return alignments.of(symbol).every if isinstance(symbol, Value) else 1


def _of_stride(stride: Polynomial | None) -> StrideClass:
    if stride is None or stride.constant not in (0, 1, -1):
        return StrideClass.STRIDED
    return StrideClass.COMPUTED if stride.terms else StrideClass.SAME


def _terms(function: Function, pointer: Operand) -> Iterator[Operand]:
    """The tiles whose sum is an address, as wide as the address."""
    forms, origin, waiting = affine(function), definitions(function), [pointer]
    while waiting:
        value = waiting.pop()
        op = origin.get(value) if isinstance(value, Value) else None
        if forms.of(value) is None and isinstance(op, (GetElementPtr, Add)):
            waiting += op.inputs
        else:
            yield value


def _varying(origin: Mapping[Value, Op], value: Operand) -> tuple[bool, ...]:
    """Whether elements may differ along a dimension, by dimension."""
    shape = shape_of(value.type)
    op = origin.get(value) if isinstance(value, Value) else None
    if isinstance(op, Broadcast):
        return tuple(n > 1 for n in shape_of(op.inputs[0].type))
    return tuple(n > 1 and not isinstance(op, Splat) for n in shape)


def _looked_up(origin: Mapping[Value, Op], value: Operand) -> bool:
    """Whether an element depends on one that is loaded."""
    seen: set[Value] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, Value) or current in seen:
            continue
        seen.add(current)
        op = origin.get(current)
        if isinstance(op, Load):
            return True
        waiting += op.inputs if op is not None else ()
    return False
