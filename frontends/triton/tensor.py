"""A value of a kernel: an expression of the builder with Triton's type."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import attrs

from tileir.builder import Builder, Expr
from tileir.frontends.triton import dtypes
from tileir.frontends.triton.dtypes import DType, PointerType
from tileir.frontends.triton.errors import KernelError
from tileir.types import tile
from tileir.values import Constant

Kind: TypeAlias = DType | PointerType


@attrs.frozen(eq=False)
class Tensor:
    """A scalar (`shape` is empty) or a tile, whose elements are of type `dtype`."""

    expr: Expr
    dtype: Kind

    @property
    def builder(self) -> Builder:
        """The builder that inserts its ops."""
        return self.expr.builder

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; none for a scalar."""
        return self.expr.shape

    @property
    def number(self) -> int | float | None:
        """The number it is known to be, at every place; None where that is not known."""
        value = self.expr.value
        if not isinstance(value, Constant):
            return None
        result: Any = value.value
        if isinstance(self.dtype, DType) and not self.dtype.signed and result < 0:
            return result + (1 << self.dtype.primitive_bitwidth)
        return result


def of(b: Builder, value: Any) -> Tensor:
    """`value` as a tensor; a Python number has its own type. Raises KernelError."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float)):
        try:
            return literal(b, value, dtypes.of_number(value))
        except ValueError as error:
            raise KernelError(str(error)) from None
    raise KernelError(f"a tensor or a number is needed, not {describe(value)}")


def literal(b: Builder, number: float, kind: Kind, shape: tuple[int, ...] = ()) -> Tensor:
    """`number` at every place. Raises KernelError where the type cannot hold it."""
    if isinstance(kind, PointerType):
        raise KernelError(f"{number} is not a pointer")
    if kind.is_floating():
        value = float(number)
        if kind in dtypes.LARGEST_FP8 and value == value:
            most = dtypes.LARGEST_FP8[kind]
            value = max(-most, min(most, value))
        return Tensor(b.constant(tile(kind.element, shape), value), kind)
    if not isinstance(number, (bool, int)):
        raise KernelError(f"{number} is no {kind}")
    if kind.is_bool():
        return Tensor(b.constant(tile(kind.element, shape), bool(number)), kind)
    bits = kind.primitive_bitwidth
    low, high = (-(1 << bits - 1), 1 << bits - 1) if kind.signed else (0, 1 << bits)
    if not low <= number < high:
        raise KernelError(f"{number} is out of the range of {kind}")
    wrapped = number - (1 << bits) if number >= 1 << bits - 1 else number
    return Tensor(b.constant(tile(kind.element, shape), wrapped), kind)


def is_number(value: Any) -> bool:
    """Whether `value` is a scalar that is known while compiling."""
    return isinstance(value, Tensor) and not value.shape and value.number is not None


def describe(value: Any) -> str:
    """A value as messages name it."""
    if isinstance(value, Tensor):
        extents = f"<{', '.join(map(str, value.shape))}>" if value.shape else ""
        return f"{value.dtype}{extents}"
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        return f"{type(items).__name__} ({', '.join(map(describe, items))})"
    if callable(value) and not isinstance(value, type):
        return f"function {getattr(value, '__name__', repr(value))}"
    return f"{type(value).__name__} {value!r}"
