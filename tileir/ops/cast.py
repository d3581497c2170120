"""Conversions, elementwise. The result's type is stated; its shape is the operand's."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tileir.op import (
    BOOL_ATTRIBUTE,
    EXACT,
    ROUNDED,
    Effects,
    Op,
    attribute,
    family,
    one_of,
    op,
    operand,
    result_type,
)
from tileir.signature import (
    ANY_ELEMENT,
    FLOATS,
    INDICES,
    INTEGERS,
    POINTERS,
    Elements,
    Shaped,
    TypeVariable,
    elements,
)
from tileir.types import BF16, F4E2M1, F8E4M3, F8E5M2, F8E8M0, F16, F32, F64, Pointer, Type
from tileir.values import Operand

EVERY_FLOAT = elements("float of any width", F4E2M1, F8E4M3, F8E5M2, F8E8M0, F16, BF16, F32, F64)
I = TypeVariable("S", INTEGERS)  # noqa: E741 - the conventional name of an integer type variable
F = TypeVariable("S", FLOATS)
X = TypeVariable("S", EVERY_FLOAT)
P = TypeVariable("S", POINTERS)
W = TypeVariable("S", INDICES)
ANY = TypeVariable("S", ANY_ELEMENT)


class CastRounding(Enum):
    """The rounding mode, by the names of the PTX ISA: to nearest even, to zero, down, up."""

    NEAREST = "rn"
    ZERO = "rz"
    DOWN = "rm"
    UP = "rp"


def _to(allowed: Elements, like: TypeVariable) -> Any:
    return result_type(Shaped(allowed, like, "R"))


@family
class Cast(Op):
    """One value in, the same shape of another element type out."""

    elementwise = True

    def infer(self, bound: Any) -> tuple[Type, ...]:
        return (bound["R"],)

    def evaluate(self, machine: Any, value: Any) -> Any:
        return machine.convert(self.mnemonic, value, element(self.result.type))

    def widths(self) -> tuple[int, int]:
        """Bits of the operand's and of the result's element."""
        return element(self.inputs[0].type).bits, element(self.to).bits  # type: ignore[attr-defined]

    def require(self, fits: bool, rule: str) -> None:
        """Refuse the pair of types unless it `fits`."""
        if not fits:
            result = f"{self.inputs[0].type} to {self.to}"  # type: ignore[attr-defined]
            raise self.fail("TIR0109", f"the result must be {rule}: {result}", "to")


def element(type: Any) -> Any:
    """Element type of a tile, or the type itself."""
    return getattr(type, "element", type)


@op("trunc")
class Trunc(Cast):
    """The low bits of an integer, as a narrower one.

    `%r = trunc i8<64> %a`, given `i32<64> %a`
    """

    value: Operand = operand(I)
    to: Type = _to(INTEGERS, I)

    def verify(self) -> None:
        old, new = self.widths()
        self.require(new < old, "narrower")


@op("zext")
class ZExt(Cast):
    """An integer as a wider one, zeros above.

    `%r = zext i32<64> %a`, given `i8<64> %a`
    """

    value: Operand = operand(I)
    to: Type = _to(INTEGERS, I)

    def verify(self) -> None:
        old, new = self.widths()
        self.require(new > old, "wider")


@op("sext")
class SExt(Cast):
    """An integer as a wider one, copies of the sign above (of i1: true becomes -1).

    `%r = sext i32<64> %a`, given `i8<64> %a`
    """

    value: Operand = operand(I)
    to: Type = _to(INTEGERS, I)

    def verify(self) -> None:
        old, new = self.widths()
        self.require(new > old, "wider")


@family
class RoundingCast(Cast):
    """A conversion to floats with one rounding, `saturate` giving the largest finite number of
    its sign where the result would be infinite or has no representation."""

    numerics = ROUNDED

    def evaluate(self, machine: Any, value: Any) -> Any:
        mode, saturate = self.rounding.value, self.saturate  # type: ignore[attr-defined]
        to = element(self.result.type)
        return machine.convert(self.mnemonic, value, to, rounding=mode, saturate=saturate)


@op("fptrunc")
class FPTrunc(RoundingCast):
    """A float as a narrower one, rounded once.

    `%r = fptrunc f16<64> %a {rounding = rz}`, given `f32<64> %a`
    """

    value: Operand = operand(F)
    to: Type = _to(FLOATS, F)
    rounding: CastRounding = attribute(one_of(CastRounding), default=CastRounding.NEAREST)
    saturate: bool = attribute(BOOL_ATTRIBUTE, default=False)

    def verify(self) -> None:
        old, new = self.widths()
        self.require(new < old, "narrower")


@op("fpext")
class FPExt(Cast):
    """A float as a wider one: exact.

    `%r = fpext f32<64> %a`, given `f16<64> %a`
    """

    value: Operand = operand(F)
    to: Type = _to(FLOATS, F)
    numerics = EXACT

    def verify(self) -> None:
        old, new = self.widths()
        self.require(new > old, "wider")


@op("fpcast")
class FPCast(RoundingCast):
    """Convert a float to any other format, 8-bit and 4-bit ones included, rounded once. In a format
    without infinity (f8e4m3), overflow becomes NaN, or the largest finite number with `saturate`.
    f4e2m1, which has no NaN either, always saturates and converts NaN to its largest number. f8e8m0
    has only powers of two: it rounds to the nearest, ties up. Zero, negative numbers and NaN become
    NaN; with `saturate`, zero and negative numbers become its smallest number.

    `%r = fpcast f8e4m3<64> %a {saturate = true}`, given `f32<64> %a`
    """

    value: Operand = operand(X)
    to: Type = _to(EVERY_FLOAT, X)
    rounding: CastRounding = attribute(one_of(CastRounding), default=CastRounding.NEAREST)
    saturate: bool = attribute(BOOL_ATTRIBUTE, default=False)

    def verify(self) -> None:
        self.require(element(self.value.type) is not element(self.to), "of another format")


@family
class ToInteger(Cast):
    """A float rounded to zero as an integer."""

    numerics = EXACT

    def evaluate(self, machine: Any, value: Any) -> Any:
        saturate = self.saturate  # type: ignore[attr-defined]
        return machine.convert(self.mnemonic, value, element(self.result.type), saturate=saturate)


@op("fptosi")
class FPToSI(ToInteger):
    """A float rounded to zero, as a signed integer. Out of range and NaN are undefined; with
    `saturate` they become the nearest end of the range and 0.

    `%r = fptosi i32<64> %a`, given `f32<64> %a`
    """

    value: Operand = operand(F)
    to: Type = _to(INTEGERS, F)
    saturate: bool = attribute(BOOL_ATTRIBUTE, default=False)


@op("fptoui")
class FPToUI(ToInteger):
    """A float rounded to zero, as an unsigned integer. Out of range and NaN are undefined; with
    `saturate` they become the nearest end of the range and 0.

    `%r = fptoui i32<64> %a {saturate = true}`, given `f32<64> %a`
    """

    value: Operand = operand(F)
    to: Type = _to(INTEGERS, F)
    saturate: bool = attribute(BOOL_ATTRIBUTE, default=False)


@op("sitofp")
class SIToFP(Cast):
    """A signed integer as a float, rounded once to nearest even (of i1: true is -1).

    `%r = sitofp f32<64> %a`, given `i32<64> %a`
    """

    value: Operand = operand(I)
    to: Type = _to(FLOATS, I)
    numerics = ROUNDED


@op("uitofp")
class UIToFP(Cast):
    """An unsigned integer as a float, rounded once to nearest even.

    `%r = uitofp f32<64> %a`, given `i32<64> %a`
    """

    value: Operand = operand(I)
    to: Type = _to(FLOATS, I)
    numerics = ROUNDED


@op("ptrtoint")
class PtrToInt(Cast):
    """The address of a pointer, its low bits for an integer narrower than 64 bits.

    `%r = ptrtoint i64<64> %p`, given `f32*<64> %p`
    """

    value: Operand = operand(P)
    to: Type = _to(INDICES, P)


@op("inttoptr")
class IntToPtr(Cast):
    """The pointer to an address; an integer narrower than 64 bits is extended by zeros.

    `%r = inttoptr f32*<64> %a`, given `i64<64> %a`
    """

    value: Operand = operand(W)
    to: Type = _to(POINTERS, W)


@op("bitcast")
class Bitcast(Cast):
    """The same bits as another type of the same width; between pointers, another pointee in the
    same address space. Pointers and numbers are converted by `ptrtoint` and `inttoptr`.

    `%r = bitcast i32<64> %a`, given `f32<64> %a`
    """

    value: Operand = operand(ANY)
    to: Type = _to(ANY_ELEMENT, ANY)
    effects_ = Effects.PURE

    def verify(self) -> None:
        old, new = self.widths()
        self.require(old == new, "as wide")
        source, target = element(self.value.type), element(self.to)
        if isinstance(source, Pointer) or isinstance(target, Pointer):
            space = getattr(source, "space", None)
            self.require(space is getattr(target, "space", None), "in the same address space")


@op("addrspacecast")
class AddrSpaceCast(Cast):
    """A pointer as one to the same pointee in another address space; one of the two is generic.

    `%r = addrspacecast f32 addrspace(0)*<64> %p`, given `f32*<64> %p`
    """

    value: Operand = operand(P)
    to: Type = _to(POINTERS, P)

    def verify(self) -> None:
        source, target = element(self.value.type), element(self.to)
        self.require(source.pointee is target.pointee, "a pointer to the same type")
        spaces = {int(source.space), int(target.space)}
        self.require(len(spaces) == 2 and 0 in spaces, "to or from the generic address space")
