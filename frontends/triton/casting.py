"""Conversions of tensors, and the type that both operands of an operation are converted to."""

from __future__ import annotations

from typing import Any

from tileir.builder import Builder
from tileir.frontends.triton import dtypes
from tileir.frontends.triton.dtypes import DType, PointerType, promoted_type
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.shapes import broadcast
from tileir.frontends.triton.tensor import Kind, Tensor, literal, of
from tileir.types import tile


def cast(x: Tensor, to: Kind, *, rounding: str | None = None) -> Tensor:
    """`x` with its elements converted; to the nearest 8-bit float saturating, infinities too.
    Raises KernelError."""
    old = x.dtype
    if old == to:
        return x
    if isinstance(old, DType) and old.element is to.element:
        return Tensor(x.expr, to)
    if isinstance(to, PointerType) or isinstance(old, PointerType):
        return _cast_pointer(x, to)
    tensor = _same_number(x, to)
    if tensor is not None:
        return tensor
    if to.is_fp8() and not old.is_floating():
        x, old = cast(x, dtypes.float32), dtypes.float32
    signed = old.signed if old.is_int() else to.signed
    options: dict[str, Any] = {} if rounding is None else {"rounding": rounding}
    if to.is_fp8() and rounding is None:
        options["saturate"] = True
    return Tensor(x.expr.to(to.element, signed=signed, **options), to)


def _same_number(x: Tensor, to: DType) -> Tensor | None:
    """An integer known while compiling at a type that holds it too; None for all else."""
    if not isinstance(x.number, int) or not to.is_int() or to.is_bool():
        return None
    try:
        return literal(x.builder, int(x.number), to, x.shape)
    except KernelError:
        return None


def _cast_pointer(x: Tensor, to: Kind) -> Tensor:
    if isinstance(to, PointerType) and isinstance(x.dtype, DType) and x.dtype is not dtypes.int64:
        if not x.dtype.is_int():
            raise KernelError(f"{x.dtype} cannot be cast to {to}")
        x = cast(x, dtypes.int64)
    if to is dtypes.int1:
        address = cast(x, dtypes.int64)
        zero = literal(x.builder, 0, dtypes.int64, x.shape)
        return Tensor(x.builder.icmp(address.expr, zero.expr, predicate="ne")[0], dtypes.int1)
    if isinstance(to, DType) and to.element is not dtypes.int64.element:
        if not to.is_int():
            raise KernelError(f"{x.dtype} cannot be cast to {to}")
        return cast(cast(x, dtypes.int64), to)
    return Tensor(x.expr.to(to.element), to)


def bitcast(x: Tensor, to: Kind) -> Tensor:
    """The same bits as another type of the same width. Raises KernelError."""
    if x.dtype.is_ptr() != to.is_ptr():
        return cast(x, to)
    if isinstance(to, DType) and isinstance(x.dtype, DType):
        if to.primitive_bitwidth != x.dtype.primitive_bitwidth:
            raise KernelError(f"bits of {x.dtype} are not as many as of {to}")
        if to.element is x.dtype.element:
            return Tensor(x.expr, to)
    return Tensor(x.builder.bitcast(x.expr, tile(to.element, x.shape)), to)


def common(b: Builder, x: Any, y: Any, *, division: bool = False) -> tuple[Tensor, Tensor]:
    """Both at one type and shape. A number takes the tensor's type, unless it is of a higher
    rank (a float with integers). Raises KernelError."""
    if isinstance(x, (int, float)) and isinstance(y, Tensor):
        right, left = _common_with_number(b, y, x, division)
        return left, right
    if isinstance(y, (int, float)) and isinstance(x, Tensor):
        return _common_with_number(b, x, y, division)
    left, right = of(b, x), of(b, y)
    kind = _common_type(left.dtype, right.dtype, division)
    left, right = broadcast(cast(left, kind), cast(right, kind))
    return left, right


def common_tensors(b: Builder, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both at one type and shape; a number takes part with its own type, as in comparisons."""
    return common(b, of(b, x), of(b, y))


def _common_with_number(
    b: Builder, x: Tensor, number: float, division: bool
) -> tuple[Tensor, Tensor]:
    if isinstance(x.dtype, PointerType):
        raise KernelError(f"{x.dtype} and {number} have no common type")
    own = of(b, number).dtype
    if own.rank <= x.dtype.rank:
        small = x.dtype.is_fp16() or x.dtype.is_bf16()
        kind = dtypes.float32 if division and small else x.dtype
    else:
        kind = _common_type(x.dtype, own, division)
    return cast(x, kind), literal(b, number, kind, x.shape)


def _common_type(a: Kind, c: Kind, division: bool) -> Kind:
    if isinstance(a, PointerType) or isinstance(c, PointerType):
        if a == c:
            return a
        raise KernelError(f"{a} and {c} have no common type")
    try:
        return promoted_type(a, c, division=division)
    except TypeError as error:
        raise KernelError(str(error)) from None
