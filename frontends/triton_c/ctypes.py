"""The types of Triton-C: C's scalars with signs, and pointers to them."""

from __future__ import annotations

import attrs

from tileir.frontends.triton_c.errors import ProgramError
from tileir.types import (
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    AddressSpace,
    Element,
    Pointer,
    Scalar,
)


@attrs.frozen
class CType:
    """A scalar type of the IR with C's sign, or a pointer to `pointee` in `space`."""

    name: str
    scalar: Scalar | None
    signed: bool = True
    pointee: CType | None = None
    space: AddressSpace = AddressSpace.GLOBAL

    @property
    def element(self) -> Element:
        """The IR's element type."""
        if self.pointee is not None:
            target = self.pointee.element
            return Pointer(target, self.space)
        assert self.scalar is not None
        return self.scalar

    @property
    def is_pointer(self) -> bool:
        """Whether this points to memory."""
        return self.pointee is not None

    @property
    def is_float(self) -> bool:
        """Whether this is half, float or double."""
        return self.scalar is not None and self.scalar.is_float

    @property
    def is_integer(self) -> bool:
        """Whether this is an integer type, bool included."""
        return self.scalar is not None and self.scalar.is_integer

    @property
    def bits(self) -> int:
        """Bits of a scalar."""
        return 64 if self.scalar is None else self.scalar.bits

    def __str__(self) -> str:
        return self.name


BOOL = CType("bool", I1, signed=False)
CHAR, UCHAR = CType("char", I8), CType("unsigned char", I8, signed=False)
SHORT, USHORT = CType("short", I16), CType("unsigned short", I16, signed=False)
INT, UINT = CType("int", I32), CType("unsigned int", I32, signed=False)
LONG, ULONG = CType("long", I64), CType("unsigned long", I64, signed=False)
HALF, FLOAT, DOUBLE = CType("half", F16), CType("float", F32), CType("double", F64)
VOID = CType("void", None)

_SIGNED = {"char": CHAR, "short": SHORT, "int": INT, "long": LONG}
_UNSIGNED = {"char": UCHAR, "short": USHORT, "int": UINT, "long": ULONG}
_SHORTER = {
    "": "int", "short int": "short", "long int": "long", "long long": "long",
    "long long int": "long",
}  # fmt: skip
_NAMED = {
    "void": VOID, "bool": BOOL, "half": HALF, "float": FLOAT, "double": DOUBLE,
    "fp16": HALF, "fp32": FLOAT, "fp64": DOUBLE, **_SIGNED,
    "int8": CHAR, "int16": SHORT, "int32": INT, "int64": LONG,
    "uint8": UCHAR, "uint16": USHORT, "uint32": UINT, "uint64": ULONG,
}  # fmt: skip


def type_named(words: tuple[str, ...]) -> CType:
    """The type that C's words name: `unsigned int`, `long long`. Raises ProgramError."""
    signs = [w for w in words if w in ("signed", "unsigned")]
    core = " ".join(sorted((w for w in words if w not in signs), reverse=True))
    core = _SHORTER.get(core, core)
    if len(signs) > 1 or core not in (_SIGNED if signs else _NAMED):
        raise ProgramError(f"there is no type {' '.join(words)}")
    return _UNSIGNED[core] if signs == ["unsigned"] else _NAMED[core]


def pointer_to(pointee: CType, space: AddressSpace = AddressSpace.GLOBAL) -> CType:
    """The pointer type."""
    if pointee.scalar is None and pointee.pointee is None:
        raise ProgramError("a pointer points to values, not to void")
    return CType(f"{pointee.name}*", None, pointee=pointee, space=space)


def usual(a: CType, b: CType) -> CType:
    """The type of an operation on both (C11 6.3.1.8, with half and without the promotion of
    floats). Raises ProgramError."""
    if a.is_pointer or b.is_pointer:
        if a == b:
            return a
        raise ProgramError(f"{a} and {b} have no common type")
    if a.is_float or b.is_float:
        floats = [t for t in (a, b) if t.is_float]
        return max(floats, key=lambda t: t.bits)
    a, b = _promote(a), _promote(b)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if not a.signed else b


def _promote(kind: CType) -> CType:
    return kind if kind.bits >= 32 else INT
