"""Triton's scalar types: those of the IR, with a sign and a name."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import attrs

from tileir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Pointer,
    Scalar,
)


@attrs.frozen(repr=False)
class DType:
    """A scalar type by its name in Triton; `signed` determines how integers are widened and
    compared."""

    name: str
    element: Scalar
    signed: bool = True

    @property
    def primitive_bitwidth(self) -> int:
        """Bits of one element."""
        return self.element.bits

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return max(1, self.element.bits // 8)

    @property
    def rank(self) -> int:
        """0 for bool, 1 for integers, 2 for floats: where a number may go without promotion."""
        return 2 if self.element.is_float else 0 if self.element is I1 else 1

    def is_floating(self) -> bool:
        """Whether this is a float type."""
        return self.element.is_float

    def is_int(self) -> bool:
        """Whether this is an integer type, bool included."""
        return self.element.is_integer

    def is_int_unsigned(self) -> bool:
        """Whether this is an unsigned integer type, bool included."""
        return self.is_int() and not self.is_int_signed()

    def is_int_signed(self) -> bool:
        """Whether this is a signed integer type."""
        return self.is_int() and self.signed and not self.is_bool()

    def is_bool(self) -> bool:
        """Whether this is int1."""
        return self.element is I1

    def is_ptr(self) -> bool:
        """Whether this is a pointer type."""
        return False

    def is_fp8(self) -> bool:
        """Whether this is an 8-bit float type."""
        return self.is_floating() and self.element.bits == 8

    def is_bf16(self) -> bool:
        """Whether this is bfloat16."""
        return self.element is BF16

    def is_fp16(self) -> bool:
        """Whether this is float16."""
        return self.element is F16

    def is_standard_floating(self) -> bool:
        """Whether this is a float type of 16 bits or more."""
        return self.is_floating() and not self.is_fp8()

    @property
    def int_bitwidth(self) -> int:
        """Bits of an integer. Raises AttributeError for a float."""
        if not self.is_int():
            raise AttributeError(f"{self} has no int_bitwidth")
        return self.primitive_bitwidth

    @property
    def fp_mantissa_width(self) -> int:
        """Bits of a float's fraction, without the leading one. Raises AttributeError for an
        integer."""
        return _float_format(self)[0]

    @property
    def exponent_bias(self) -> int:
        """The bias of a float's exponent. Raises AttributeError for an integer."""
        return _float_format(self)[1]

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest integer of this type."""
        bits = self.primitive_bitwidth
        if self.signed and not self.is_bool():
            return -(1 << bits - 1), (1 << bits - 1) - 1
        return 0, (1 << bits) - 1

    def get_int_min_value(self) -> int:
        """The least integer of this type."""
        return self.bounds[0]

    def get_int_max_value(self) -> int:
        """The largest integer of this type."""
        return self.bounds[1]

    def is_block(self) -> bool:
        """Whether this is the type of a tile."""
        return False

    def is_const(self) -> bool:
        """Whether this is a pointer that is read only."""
        return False

    def __getattr__(self, name: str) -> Any:
        """`is_int32`, `is_fp8e4nv` and so on: whether this is the type of that name."""
        return _question(name, lambda: self.name)

    @property
    def scalar(self) -> DType:
        """The type of one element: itself."""
        return self

    def with_element_ty(self, element_ty: DType) -> DType:
        """The type with other elements: that of the element."""
        return element_ty

    @property
    def cache_key_part(self) -> str:
        """The name of the type in a key."""
        return self.name

    def mangle(self) -> str:
        """The type as part of a function's name."""
        if self.is_int():
            return f"{'i' if self.signed and not self.is_bool() else 'u'}{self.primitive_bitwidth}"
        return self.name

    def codegen_name(self) -> str:
        """The type's name in the language: `float32` of `fp32`."""
        for short, long in (("fp", "float"), ("bf", "bfloat")):
            if self.name.startswith(short):
                return long + self.name[2:]
        return self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.codegen_name()}"


def _float_format(kind: DType) -> tuple[int, int]:
    """Bits of the fraction, and the exponent's bias."""
    if kind not in _FLOAT_FORMATS:
        raise AttributeError(f"{kind} is no float")
    return _FLOAT_FORMATS[kind]


def _question(name: str, own: Callable[[], str]) -> Callable[[], bool]:
    """The method `name` of a type: whether its own name is the one asked for."""
    predicate = name.removeprefix("is_")
    if predicate == name or predicate not in _QUESTIONS:
        raise AttributeError(f"a type has no {name}")
    return lambda: own() == predicate


@attrs.frozen
class PointerType:
    """A pointer in global memory to `element_ty`."""

    element_ty: DType
    address_space: int = 1
    const: bool = False

    @property
    def element(self) -> Pointer:
        """The IR's type."""
        return Pointer(self.element_ty.element)

    @property
    def name(self) -> str:
        """The text in signatures."""
        return f"*{self.element_ty.name}"

    def is_ptr(self) -> bool:
        """Whether this is a pointer type."""
        return True

    def is_const(self) -> bool:
        """Whether this is a pointer that is read only."""
        return self.const

    def __getattr__(self, name: str) -> Any:
        return _question(name, lambda: "")

    @property
    def scalar(self) -> PointerType:
        """The type of one element: itself."""
        return self

    def __str__(self) -> str:
        return f"pointer<{self.element_ty}>"


def _extents(shape: Any) -> tuple[int, ...]:
    return tuple(map(operator.index, shape))


@attrs.frozen
class BlockType:
    """The type of a tile: `x.type`."""

    element_ty: DType | PointerType
    shape: tuple[int, ...] = attrs.field(converter=_extents)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        bits = 64 if isinstance(self.element_ty, PointerType) else self.element_ty.element.bits
        return self.numel * (bits // 8)

    def get_block_shapes(self) -> tuple[int, ...]:
        """The shape."""
        return self.shape

    def with_element_ty(self, element_ty: DType | PointerType) -> BlockType:
        """The type of a tile of the same shape, of other elements."""
        return BlockType(element_ty, self.shape)

    @property
    def scalar(self) -> DType | PointerType:
        """The type of one element."""
        return self.element_ty

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def is_block(self) -> bool:
        """Whether this is the type of a tile."""
        return True

    def __getattr__(self, name: str) -> Any:
        return _question(name, lambda: "")

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.element_ty}>"


int1 = DType("int1", I1)
int8 = DType("int8", I8)
int16 = DType("int16", I16)
int32 = DType("int32", I32)
int64 = DType("int64", I64)
uint8 = DType("uint8", I8, signed=False)
uint16 = DType("uint16", I16, signed=False)
uint32 = DType("uint32", I32, signed=False)
uint64 = DType("uint64", I64, signed=False)
float8e4nv = DType("fp8e4nv", F8E4M3)
float8e5 = DType("fp8e5", F8E5M2)
float16 = DType("fp16", F16)
bfloat16 = DType("bf16", BF16)
float32 = DType("fp32", F32)
float64 = DType("fp64", F64)

pi32_t = PointerType(int32)

_FLOAT_FORMATS = {
    float8e4nv: (3, 7), float8e5: (2, 15), float16: (10, 15), bfloat16: (7, 127),
    float32: (23, 127), float64: (52, 1023),
}  # fmt: skip

LARGEST_FP8 = {float8e4nv: 448.0, float8e5: 57344.0}
"""The largest finite numbers of the 8-bit floats, at which conversions to them saturate."""

ALL = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float8e4nv, float8e5, float16, bfloat16, float32, float64,
)  # fmt: skip


class _Names(type):
    """The class of `Named`."""

    def __call__(cls, name: str) -> DType:
        for kind in ALL:
            if kind.name == name:
                return kind
        raise ValueError(f"there is no type {name!r}; there are {', '.join(t.name for t in ALL)}")

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (DType, PointerType, BlockType))


class Named(metaclass=_Names):
    """`tl.dtype`: the class of all types; called with a name, the type that has it. Raises
    ValueError."""


class const:  # noqa: N801 - Triton's name
    """The annotation of a pointer that is read only."""


def get_int_dtype(bitwidth: int, signed: bool) -> DType:
    """The integer type of this number of bits. Raises ValueError."""
    return Named(f"{'' if signed or bitwidth == 1 else 'u'}int{bitwidth}")  # type: ignore[return-value]


_QUESTIONS = {t.name for t in ALL} | {
    "block", "bool", "const", "floating", "fp8", "fp8e4b15", "fp8e4b8", "fp8e5b16", "int",
    "int_signed", "int_unsigned", "standard_floating", "void",
}  # fmt: skip
"""The types for which there is an `is_` method."""

SIGNATURE: dict[str, DType] = {
    "i1": int1, "i8": int8, "i16": int16, "i32": int32, "i64": int64,
    "u1": int1, "u8": uint8, "u16": uint16, "u32": uint32, "u64": uint64,
    "B": int1,
    **{t.name: t for t in ALL},
}  # fmt: skip
"""Types by the words of a kernel's signature."""

ARRAYS: dict[str, DType] = {
    "bool": int1, "int8": int8, "int16": int16, "int32": int32, "int64": int64,
    "uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64,
    "float16": float16, "bfloat16": bfloat16, "float32": float32, "float64": float64,
    "float8_e4m3fn": float8e4nv, "float8_e5m2": float8e5,
}  # fmt: skip
"""Types by the name of an array's dtype (numpy, ml_dtypes, torch)."""


def of_number(number: float) -> DType:
    """The type a Python number has by itself: the smallest of int32, uint32, int64, uint64 that
    holds it; float32, or float64 beyond its normal numbers. Raises ValueError past 64 bits."""
    if isinstance(number, bool):
        return int1
    if isinstance(number, int):
        bounds = ((int32, -(2**31), 2**31), (uint32, 0, 2**32))
        for kind, low, high in (*bounds, (int64, -(2**63), 2**63), (uint64, 0, 2**64)):
            if low <= number < high:
                return kind
        raise ValueError(f"{number} does not fit 64 bits")
    size = abs(number)
    ordinary = size == 0 or size != size or size == float("inf")
    ordinary = ordinary or 2**-126 <= size <= (2 - 2**-23) * 2**127
    return float32 if ordinary else float64


def promoted_type(a: DType, b: DType, *, division: bool = False) -> DType:
    """The type that an operation of two tensors is done in (Triton language reference, "Type
    promotion"). Raises TypeError for unsigned and signed operands of a division."""
    for wide in (float64, float32):
        if wide in (a, b):
            return wide
    if float16 in (a, b):
        return float32 if division else float16
    if bfloat16 in (a, b):
        return bfloat16 if a == b and not division else float32
    if a.is_fp8() or b.is_fp8():
        return a if a == b else float16
    if division and a.signed != b.signed and not (a.is_bool() or b.is_bool()):
        raise TypeError(f"division of {a} by {b}: cast one, so that both have the same sign")
    return _integer(a, b)


def _integer(a: DType, b: DType) -> DType:
    if a.signed == b.signed:
        return a if a.primitive_bitwidth > b.primitive_bitwidth else b
    unsigned, other = (a, b) if not a.signed else (b, a)
    return unsigned if unsigned.primitive_bitwidth >= other.primitive_bitwidth else other
