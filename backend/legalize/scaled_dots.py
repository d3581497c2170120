"""Scaled products as products of bf16 or f32: factors are widened and multiplied by their scales.

Every factor of 4 or 8 bits times a power of two, or times an f8e4m3, is a bf16 but for range, and
products of bf16 run on tensor cores; f16 factors need f32, and scaled bf16 ones, whose exponents
may be twice as large, f64.
"""

from __future__ import annotations

from typing import Any

from tileir.backend.transforms.op_builder import OpBuilder
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import And, LShr, Or, Shl
from tileir.ops.cast import Bitcast, FPCast, FPExt, FPTrunc, ZExt
from tileir.ops.dot import Dot, Format
from tileir.ops.floats import FMul
from tileir.ops.shape import ExpandDims, Join, Trans
from tileir.rewrite import Replace, Walk, rewrite
from tileir.types import (
    BF16,
    F8E8M0,
    F16,
    F32,
    F64,
    I8,
    I16,
    Scalar,
    element_of,
    shape_of,
    with_element,
)
from tileir.values import Operand, constant


def expand_scaled(function: Function) -> Function:
    """`function` with every `dot_scaled` as a `dot`; itself where it has none."""
    return rewrite(function, {"dot_scaled": _product})


def _product(op: Any, _: Walk) -> Replace | Op:
    make = OpBuilder(op)
    sides = ((op.lhs, op.a_scale), (op.rhs, op.b_scale))
    narrow = all(_fits_bf16(format, scale) for format, scale in sides)
    work = BF16 if narrow else F64 if any(_is_vast(*side) for side in sides) else F32
    a = _factor(make, op.a, op.a_scale, op.lhs_k_pack, -1, work)
    b = _factor(make, op.b, op.b_scale, op.rhs_k_pack, -2, work)
    if work is F64:
        total = make.add(FPExt(op.c, with_element(op.c.type, F64)))
        wide = make.add(Dot(a, b, total))
        make.last(FPTrunc(wide, op.c.type))
    else:
        make.last(Dot(a, b, op.c))
    return Replace(make.ops[-1].results, tuple(make.ops))


def _fits_bf16(format: Format, scale: Operand | None) -> bool:
    """Whether a factor times its scale has at most 8 bits, and few enough for the exponent."""
    if format is Format.F16:
        return False
    return format is not Format.BF16 or scale is None


def _is_vast(format: Format, scale: Operand | None) -> bool:
    """Whether a factor times its scale may be beyond the range of f32 although a product is not."""
    return format is Format.BF16 and scale is not None


def _factor(
    make: OpBuilder, x: Operand, scale: Operand | None, k_pack: bool, k_axis: int, work: Scalar
) -> Operand:
    """A factor as `work`, unpacked and scaled; K is its dimension `k_axis`."""
    if element_of(x.type) is I8:
        x = _unpacked(make, x, k_axis if k_pack else -3 - k_axis)
    elif scale is None and element_of(x.type) is work:
        return x
    if scale is None:
        return _cast(make, x, work)
    exact = F64 if work is F64 else F32
    wide = _cast(make, x, exact)
    spread = _spread(make, scale, shape_of(wide.type), k_axis, exact)
    return _cast(make, make.add(FMul(wide, spread)), work)


def _cast(make: OpBuilder, x: Operand, element: Scalar) -> Operand:
    kind = with_element(x.type, element)
    return x if x.type is kind else make.add(FPCast(x, kind))


def _unpacked(make: OpBuilder, x: Operand, axis: int) -> Operand:
    """Two e2m1 per byte, the first in the low bits, side by side along `axis`, as f16."""
    shape = shape_of(x.type)
    wide = make.add(ZExt(x, with_element(x.type, I16)))
    high = make.add(LShr(wide, make.number(wide.type, 4)))
    pair = make.add(Join(_nibble(make, wide), _nibble(make, high)))
    rank = len(shape)
    if axis == -2:
        pair = make.add(Trans(pair, order=(*range(rank - 1), rank, rank - 1)))
    at = rank + axis
    return make.reshaped(pair, (*shape[:at], 2 * shape[at], *shape[at + 1 :]))


def _nibble(make: OpBuilder, x: Operand) -> Operand:
    """The e2m1 in the low bits of i16 as f16: exponent and significand stand for a small f16,
    2^14 times too small."""
    sign = make.add(Shl(make.add(And(x, make.number(x.type, 8))), make.number(x.type, 12)))
    size = make.add(Shl(make.add(And(x, make.number(x.type, 7))), make.number(x.type, 9)))
    kind = with_element(x.type, F16)
    half = make.add(Bitcast(make.add(Or(sign, size)), kind))
    return make.add(FMul(half, constant(kind, 2.0**14)))


def _spread(
    make: OpBuilder, scale: Operand, shape: tuple[int, ...], k_axis: int, exact: Scalar
) -> Operand:
    """[.., rows, K / group] over [.., rows, K], or transposed where K is the last but one."""
    if element_of(scale.type) is I8:
        scale = make.add(Bitcast(scale, with_element(scale.type, F8E8M0)))
    scale = _cast(make, scale, exact)
    k, groups = shape[k_axis], shape_of(scale.type)
    rank = len(groups)
    apart = make.add(ExpandDims(scale, axis=rank))
    every = make.widened(apart, (*groups, k // groups[-1]))
    whole = make.reshaped(every, (*groups[:-1], k))
    if k_axis == -1:
        return whole
    return make.add(Trans(whole, order=(*range(rank - 2), rank - 1, rank - 2)))
