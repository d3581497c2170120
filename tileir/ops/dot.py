"""Matrix multiplication: `dot` and `dot_scaled`."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import BOOL_ATTRIBUTE, INT, Numerics, Op, attribute, one_of, op, operand, optional
from tileir.signature import Each, TypeVariable, elements
from tileir.types import (
    BF16,
    F4E2M1,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F16,
    F32,
    F64,
    I4,
    I8,
    I32,
    Scalar,
    element_of,
    shape_of,
)
from tileir.values import Operand

MATRIX_ELEMENTS = elements("matrix", I4, I8, F8E4M3, F8E5M2, F16, BF16, F32, F64)
ACCUMULATOR_ELEMENTS = elements("accumulator", I32, F16, F32, F64)
C = TypeVariable("C", ACCUMULATOR_ELEMENTS, scalar=False)
F = TypeVariable("C", elements("f32", F32), scalar=False)
SCALED = elements("scaled matrix", I8, F4E2M1, F8E4M3, F8E5M2, F16, BF16)
SCALES = Each(elements("scale", F8E8M0, F8E4M3, I8), scalar=False)

_ACCUMULATORS_OF: dict[Scalar, tuple[Scalar, ...]] = {
    I4: (I32,), I8: (I32,), F8E4M3: (F16, F32), F8E5M2: (F16, F32), F16: (F16, F32), BF16: (F32,),
    F32: (F32,), F64: (F64,),
}  # fmt: skip


class Precision(Enum):
    """The precision of a matmul of f32 operands.

    `ieee` multiplies exactly. `tf32` rounds the operands to tf32, to nearest or toward zero. `x3`
    and `x6` split each operand into 2 or 3 parts of tf32 or bf16, and add the 3 or 6 largest of
    their pairwise matmuls.
    """

    IEEE = "ieee"
    TF32 = "tf32"
    TF32X3 = "tf32x3"
    BF16X3 = "bf16x3"
    BF16X6 = "bf16x6"


class OperandFormat(Enum):
    """Element formats of the operands of a scaled matmul (OCP Microscaling Formats 1.0)."""

    E4M3 = "e4m3"
    E5M2 = "e5m2"
    E2M1 = "e2m1"
    BF16 = "bf16"
    F16 = "f16"


_ELEMENTS: dict[OperandFormat, tuple[Scalar, ...]] = {
    OperandFormat.E4M3: (F8E4M3,), OperandFormat.E5M2: (F8E5M2,), OperandFormat.E2M1: (F4E2M1, I8),
    OperandFormat.BF16: (BF16,), OperandFormat.F16: (F16,),
}  # fmt: skip


@op("dot")
class Dot(Op):
    """The matmul `a` times `b` plus `c`: [M, K] by [K, N] onto [M, N], or batches of such matrices
    in a leading dimension. Elements are multiplied and accumulated at the precision of `c` or
    better, in any order. The error is at most (K + 1) half-ulps of |a| |b| + |c|, for operands
    rounded by `precision`. Integers wrap; each operand is signed or unsigned by itself.
    `max_imprecise` lets the hardware accumulate 8-bit floats at reduced precision for that many
    steps of K.

    The interpreter multiplies exactly, accumulates with at least 53 bits in an order that does not
    depend on the machine, adds `c`, and rounds once.

    `%d = dot f32<16, 8> %a, %b, %c {precision = tf32}`, given `f32<16, 32> %a, f32<32, 8> %b, f32<16, 8> %c`
    """  # noqa: E501 - an example is one line

    a: Operand = operand(Each(MATRIX_ELEMENTS, scalar=False))
    b: Operand = operand(Each(MATRIX_ELEMENTS, scalar=False))
    c: Operand = operand(C)
    precision: Precision = attribute(one_of(Precision), default=Precision.IEEE)
    max_imprecise: int = attribute(INT, default=0)
    lhs_signed: bool = attribute(BOOL_ATTRIBUTE, default=True)
    rhs_signed: bool = attribute(BOOL_ATTRIBUTE, default=True)
    results_ = (C,)
    multiplies_matrices = True
    numerics = Numerics(ulp=None)

    def verify(self) -> None:
        a, b, c = (shape_of(v.type) for v in (self.a, self.b, self.c))
        check_matmul_shapes(self, a, b, c)
        self._check_elements(element_of(self.a.type), element_of(self.b.type))
        self._check_attributes(element_of(self.a.type))

    def _check_elements(self, a: Any, b: Any) -> None:
        mixed = {a, b} <= {F8E4M3, F8E5M2}
        if a is not b and not mixed:
            raise self.fail("TIR0115", f"a and b must hold the same type: {a} and {b}", "b")
        element = element_of(self.c.type)
        if element not in _ACCUMULATORS_OF[a]:
            names = " or ".join(map(str, _ACCUMULATORS_OF[a]))
            raise self.fail("TIR0115", f"operands of {a} accumulate in {names}, not {element}", "c")

    def _check_attributes(self, a: Any) -> None:
        if self.precision is not Precision.IEEE and a is not F32:
            message = f"precision = {self.precision.value} is for f32, not {a}"
            raise self.fail("TIR0115", message, "precision")
        if self.max_imprecise < 0 or (self.max_imprecise and a.bits != 8):
            message = "max_imprecise counts steps of K of 8-bit float operands"
            raise self.fail("TIR0115", message, "max_imprecise")
        for name in ("lhs_signed", "rhs_signed"):
            if not getattr(self, name) and not a.is_integer:
                raise self.fail("TIR0115", f"{name} is for integers, not {a}", name)

    def evaluate(self, machine: Any, a: Any, b: Any, c: Any) -> Any:
        return machine.dot(a, b, c, self.precision.value, signed=(self.lhs_signed, self.rhs_signed))


@op("dot_scaled")
class DotScaled(Op):
    """`a` times `b` plus `c`, with operands in small formats and one scale per group of 16 or
    32 along K: `a_scale` is [M, K / group], `b_scale` is [N, K / group], a power of two (f8e8m0,
    or its bits in i8) or an f8e4m3. An absent scale is 1. e2m1 operands are f4e2m1, or i8 with two
    per byte, the first in the low bits, along K or (`lhs_k_pack`, `rhs_k_pack` false) along M or
    N. A scale of NaN makes its group NaN.

    The interpreter multiplies the scaled operands as `dot` does.

    `%d = dot_scaled f32<16, 8> %a, %b, %c, %s {lhs = e4m3, rhs = e5m2}`, given `f8e4m3<16, 64> %a, f8e5m2<64, 8> %b, f32<16, 8> %c, f8e8m0<16, 2> %s`
    """  # noqa: E501 - an example is one line

    a: Operand = operand(Each(SCALED, scalar=False))
    b: Operand = operand(Each(SCALED, scalar=False))
    c: Operand = operand(F)
    a_scale: Operand | None = optional(SCALES)
    b_scale: Operand | None = optional(SCALES)
    lhs: OperandFormat = attribute(one_of(OperandFormat))
    rhs: OperandFormat = attribute(one_of(OperandFormat))
    lhs_k_pack: bool = attribute(BOOL_ATTRIBUTE, default=True)
    rhs_k_pack: bool = attribute(BOOL_ATTRIBUTE, default=True)
    results_ = (F,)
    multiplies_matrices = True
    numerics = Numerics(ulp=None)

    def verify(self) -> None:
        self._check_format("a", self.lhs, self.lhs_k_pack)
        self._check_format("b", self.rhs, self.rhs_k_pack)
        a = unpacked_shape(shape_of(self.a.type), self._is_packed("a"), self.lhs_k_pack, last=True)
        b = unpacked_shape(shape_of(self.b.type), self._is_packed("b"), self.rhs_k_pack, last=False)
        check_matmul_shapes(self, a, b, shape_of(self.c.type))
        self._check_scale("a_scale", self.a_scale, a)
        self._check_scale("b_scale", self.b_scale, (*b[:-2], b[-1], b[-2]))

    def _is_packed(self, name: str) -> bool:
        return element_of(getattr(self, name).type) is I8

    def _check_format(self, name: str, format: OperandFormat, k_pack: bool) -> None:
        element = element_of(getattr(self, name).type)
        if element not in _ELEMENTS[format]:
            names = " or ".join(map(str, _ELEMENTS[format]))
            message = f"operands of format {format.value} are {names}, not {element}"
            raise self.fail("TIR0115", message, name)
        if not k_pack and element is not I8:
            message = "only i8 holding two e2m1 is packed"
            raise self.fail("TIR0115", message, "lhs_k_pack" if name == "a" else "rhs_k_pack")

    def _check_scale(self, name: str, scale: Any, shape: tuple[int, ...]) -> None:
        if scale is None:
            return
        result, k = shape_of(scale.type), shape[-1]
        fits = [k // g for g in (16, 32) if k % g == 0]
        if result[:-1] != shape[:-1] or result[-1] not in fits:
            required = " or ".join(str([*shape[:-1], n]) for n in fits) or "K of a multiple of 16"
            raise self.fail("TIR0112", f"{name} must be {required}, not {list(result)}", name)

    def evaluate(self, machine: Any, a: Any, b: Any, c: Any, a_scale: Any, b_scale: Any) -> Any:
        return machine.dot_scaled(
            a, b, c, a_scale, b_scale, k_pack=(self.lhs_k_pack, self.rhs_k_pack)
        )


def check_matmul_shapes(
    self: Any, a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]
) -> None:
    """[.., M, K] by [.., K, N] must give [.., M, N], rank 2 or 3."""
    if len(a) not in (2, 3):
        raise self.fail("TIR0112", f"a must have 2 or 3 dimensions, not {len(a)}", "a")
    if len(b) != len(a) or b[-2] != a[-1] or b[:-2] != a[:-2]:
        message = f"a is {list(a)}, so b must be {[*a[:-2], a[-1], 'N']}, not {list(b)}"
        raise self.fail("TIR0112", message.replace("'", ""), "b")
    if c != (*a[:-1], b[-1]):
        message = f"c must be {[*a[:-1], b[-1]]}, not {list(c)}"
        raise self.fail("TIR0112", message, "c")


def unpacked_shape(
    shape: tuple[int, ...], packed: bool, k_pack: bool, *, last: bool
) -> tuple[int, ...]:
    """The shape in unpacked elements, where two are packed per element along K (the last dimension
    of `a`, the one before it of `b`) or along the other."""
    if not packed or len(shape) < 2:
        return shape
    rows, columns = shape[-2:]
    double_columns = k_pack == last
    pair = (rows, 2 * columns) if double_columns else (2 * rows, columns)
    return (*shape[:-2], *pair)
