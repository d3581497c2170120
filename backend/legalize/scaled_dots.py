"""Decomposition of `dot_scaled` into a `dot` of bf16, f32 or f64: operands are converted and
multiplied by their scales.

An operand of 4 or 8 bits, times a power of two or an f8e4m3, is exact in bf16 except for its range,
and bf16 dots run on tensor cores. An f16 operand needs f32. A scaled bf16 operand needs f64, since
its exponent may be twice as large.
"""

from __future__ import annotations

from typing import Any

from tileir.backend.transforms.op_builder import OpBuilder
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import And, LShr, Or, Shl
from tileir.ops.cast import Bitcast, FPCast, FPExt, FPTrunc, ZExt
from tileir.ops.dot import Dot, OperandFormat
from tileir.ops.floats import FMul
from tileir.ops.rearrange import Join
from tileir.ops.shape import ExpandDims, Trans
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
    return rewrite(function, {"dot_scaled": _expand_dot_scaled})


def _expand_dot_scaled(op: Any, _: Walk) -> Replace | Op:
    builder = OpBuilder(op)
    operands = ((op.lhs, op.a_scale), (op.rhs, op.b_scale))
    fits_bf16 = all(_fits_bf16(format, scale) for format, scale in operands)
    compute_type = (
        BF16 if fits_bf16 else F64 if any(_may_exceed_f32(*side) for side in operands) else F32
    )
    a = _scale_operand(builder, op.a, op.a_scale, op.lhs_k_pack, -1, compute_type)
    b = _scale_operand(builder, op.b, op.b_scale, op.rhs_k_pack, -2, compute_type)
    if compute_type is F64:
        total = builder.add(FPExt(op.c, with_element(op.c.type, F64)))
        wide = builder.add(Dot(a, b, total))
        builder.add_final(FPTrunc(wide, op.c.type))
    else:
        builder.add_final(Dot(a, b, op.c))
    return Replace(builder.ops[-1].results, tuple(builder.ops))


def _fits_bf16(format: OperandFormat, scale: Operand | None) -> bool:
    """Whether an operand times its scale has at most 8 significant bits and fits the exponent of
    bf16."""
    if format is OperandFormat.F16:
        return False
    return format is not OperandFormat.BF16 or scale is None


def _may_exceed_f32(format: OperandFormat, scale: Operand | None) -> bool:
    """Whether an operand times its scale may exceed the range of f32 although the dot does not."""
    return format is OperandFormat.BF16 and scale is not None


def _scale_operand(
    builder: OpBuilder,
    x: Operand,
    scale: Operand | None,
    k_pack: bool,
    k_axis: int,
    compute_type: Scalar,
) -> Operand:
    """Operand `x` unpacked, scaled, and converted to `compute_type`; K is dimension `k_axis`."""
    if element_of(x.type) is I8:
        x = _unpack_e2m1(builder, x, k_axis if k_pack else -3 - k_axis)
    elif scale is None and element_of(x.type) is compute_type:
        return x
    if scale is None:
        return _cast(builder, x, compute_type)
    scaling_type = F64 if compute_type is F64 else F32
    wide = _cast(builder, x, scaling_type)
    spread = _broadcast_scale(builder, scale, shape_of(wide.type), k_axis, scaling_type)
    return _cast(builder, builder.add(FMul(wide, spread)), compute_type)


def _cast(builder: OpBuilder, x: Operand, element: Scalar) -> Operand:
    kind = with_element(x.type, element)
    return x if x.type is kind else builder.add(FPCast(x, kind))


def _unpack_e2m1(builder: OpBuilder, x: Operand, axis: int) -> Operand:
    """The e2m1 numbers of `x`, two per byte with the first one in the low bits, as f16 interleaved
    along `axis`."""
    shape = shape_of(x.type)
    wide = builder.add(ZExt(x, with_element(x.type, I16)))
    high = builder.add(LShr(wide, builder.literal(wide.type, 4)))
    pair = builder.add(Join(_nibble(builder, wide), _nibble(builder, high)))
    rank = len(shape)
    if axis == -2:
        pair = builder.add(Trans(pair, order=(*range(rank - 1), rank, rank - 1)))
    position = rank + axis
    return builder.reshape(pair, (*shape[:position], 2 * shape[position], *shape[position + 1 :]))


def _nibble(builder: OpBuilder, x: Operand) -> Operand:
    """The e2m1 number in the low bits of an i16, as f16: its exponent and significand are those of
    an f16 that is 2^14 times smaller."""
    sign = builder.add(
        Shl(builder.add(And(x, builder.literal(x.type, 8))), builder.literal(x.type, 12))
    )
    size = builder.add(
        Shl(builder.add(And(x, builder.literal(x.type, 7))), builder.literal(x.type, 9))
    )
    kind = with_element(x.type, F16)
    half = builder.add(Bitcast(builder.add(Or(sign, size)), kind))
    return builder.add(FMul(half, constant(kind, 2.0**14)))


def _broadcast_scale(
    builder: OpBuilder, scale: Operand, shape: tuple[int, ...], k_axis: int, element: Scalar
) -> Operand:
    """Scales of shape [.., rows, K / group] repeated to [.., rows, K]; transposed if `k_axis` is
    -2."""
    if element_of(scale.type) is I8:
        scale = builder.add(Bitcast(scale, with_element(scale.type, F8E8M0)))
    scale = _cast(builder, scale, element)
    k, groups = shape[k_axis], shape_of(scale.type)
    rank = len(groups)
    expanded = builder.add(ExpandDims(scale, axis=rank))
    repeated = builder.broadcast(expanded, (*groups, k // groups[-1]))
    spread = builder.reshape(repeated, (*groups[:-1], k))
    if k_axis == -1:
        return spread
    return builder.add(Trans(spread, order=(*range(rank - 2), rank - 1, rank - 2)))
