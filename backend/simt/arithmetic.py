"""Arithmetic of the SIMT simulator, in numpy: LLVM's instructions and intrinsics, and the PTX
instructions that rules use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tileir.machine.floats import KERNELS, flush, fma
from tileir.types import I1, I32, Element, Pointer

Array: TypeAlias = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "i4": np.int8, "f4e2m1": np.int8, "f8e4m3": np.int8, "f8e5m2": np.int8, "f8e8m0": np.int8,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
"""Types of 4 bits occupy the low half of a byte."""
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _u(a: Array) -> Array:
    return a if a.dtype == bool else a.view(_UNSIGNED[a.dtype.itemsize])


def _on_unsigned(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(_u(a), _u(b)).astype(_u(a).dtype).view(a.dtype)


def _divide_toward_zero(a: Array, b: Array) -> Array:
    """Signed quotient towards zero."""
    quotient = np.floor_divide(a, b)
    remainder = a - quotient * b
    return quotient + ((remainder != 0) & ((a < 0) != (b < 0)))


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Float arithmetic of narrow types in a wider type, which is exact before the rounding."""

    def apply(*operands: Array) -> Array:
        kind = operands[0].dtype
        if kind in (np.float32, np.float64):
            return function(*operands).astype(kind)
        return function(*(x.astype(np.float32) for x in operands)).astype(kind)

    return apply


_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "udiv": _on_unsigned(np.floor_divide),
    "urem": _on_unsigned(np.remainder), "sdiv": _divide_toward_zero,
    "srem": lambda a, b: a - _divide_toward_zero(a, b) * b, "shl": np.left_shift,
    "lshr": _on_unsigned(np.right_shift), "ashr": np.right_shift,
    "fadd": _wide(np.add), "fsub": _wide(np.subtract), "fmul": _wide(np.multiply),
    "fdiv": _wide(np.divide), "frem": _wide(np.fmod),
}  # fmt: skip


_OF_BITS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.bitwise_xor, "sub": np.bitwise_xor, "mul": np.bitwise_and, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _extreme_of_numbers(a: Array, b: Array, largest: bool) -> Array:
    """Minimum or maximum of numbers, -0.0 below 0.0."""
    below = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    return np.where(below, b, a) if largest else np.where(below, a, b)


def _extreme(largest: bool, numbers: bool) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        result = _extreme_of_numbers(a, b, largest)
        left, right = np.isnan(a), np.isnan(b)
        if numbers:
            return np.where(left, b, np.where(right, a, result))
        return np.where(left, a, np.where(right, b, result))

    return apply


def _half_away(x: Array) -> Array:
    truncated = np.trunc(x)
    away = np.where(
        np.abs(x - truncated) >= 0.5, truncated + np.copysign(1, x).astype(x.dtype), truncated
    )
    return np.copysign(away, x)


def _zeros_above(a: Array) -> Array:
    bits = a.dtype.itemsize * 8
    return np.array([bits - int(x).bit_length() for x in _u(a)], a.dtype)


_INTRINSICS: Mapping[str, Callable[..., Array]] = {
    "smin": np.minimum, "smax": np.maximum, "umin": _on_unsigned(np.minimum),
    "umax": _on_unsigned(np.maximum), "abs": np.abs,
    "ctpop": lambda a: np.array([int(x).bit_count() for x in _u(a)], a.dtype),
    "ctlz": _zeros_above, "fma": fma, "fabs": np.abs, "copysign": np.copysign,
    "minimum": _extreme(False, False), "maximum": _extreme(True, False),
    "minimumnum": _extreme(False, True), "maximumnum": _extreme(True, True),
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": _half_away,
    "rint": np.rint,
}  # fmt: skip
_COMPARE: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def _approximate(function: Callable[[Array], Array], ftz: bool) -> Callable[..., Array]:
    if ftz:
        return lambda x: flush(function(flush(x).astype(np.float64)).astype(np.float32))
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


def _upper_half64(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: the upper half of the result, subnormals are
    zeros."""
    high, smallest = np.int64(-(1 << 32)), np.finfo(np.float64).tiny

    def flush_subnormals(x: Array) -> Array:
        return np.where(np.abs(x) < smallest, np.copysign(0.0, x), x)

    return lambda x: flush_subnormals(
        (function(flush_subnormals(x)).view(np.int64) & high).view(np.float64)
    )


def _to_f8(kind: Any, largest: float) -> Callable[[Array, Array], Array]:
    """Two f32 as two saturated 8-bit floats, the second in the low byte."""

    def apply(high: Array, low: Array) -> Array:
        def one(x: Array) -> Array:
            clipped = np.clip(x, np.float32(-largest), np.float32(largest)).astype(kind)
            return np.where(np.isnan(x), 0x7F, clipped.view(np.uint8)).astype(np.int16)

        return one(low) | (one(high) << 8)

    return apply


def _from_e4m3(pair: Array) -> Array:
    """Two f8e4m3 as two f16, in the order they have."""
    raw = np.ascontiguousarray(pair).view(np.uint8).view(ml_dtypes.float8_e4m3fn)
    return raw.astype(np.float16).view(np.int32)


def _permute(a: Array, b: Array, order: Array) -> Array:
    """The bytes of two words that the digits of `order` select (`prmt`, without sign
    replication)."""
    words = np.stack([np.ascontiguousarray(x).view(np.uint8).reshape(-1, 4) for x in (a, b)], 1)
    digits = np.stack([order >> 4 * i & 7 for i in range(4)], -1)
    return np.take_along_axis(words.reshape(-1, 8), digits, 1).view(np.int32)[:, 0]


def _subtract_halves(kind: Any) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        x, y = (np.ascontiguousarray(v).view(kind) for v in (a, b))
        return (x - y).astype(kind).view(np.int32)

    return apply


_APPROXIMATE: Mapping[str, Callable[[Array], Array]] = {
    "ex2": np.exp2, "lg2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rcp": lambda x: 1 / x,
}  # fmt: skip
"""PTX's approximate instructions."""

_PTX: Mapping[str, Callable[..., Array]] = {
    "cvt.rn.satfinite.e4m3x2.f32": _to_f8(ml_dtypes.float8_e4m3fn, 448.0),
    "cvt.rn.satfinite.e5m2x2.f32": _to_f8(ml_dtypes.float8_e5m2, 57344.0),
    "cvt.rn.f16x2.e4m3x2": _from_e4m3,
    "prmt.b32": _permute, "sub.rn.f16x2": _subtract_halves(np.float16),
    "sub.rn.bf16x2": _subtract_halves(ml_dtypes.bfloat16),
    **{
        f"{name}.approx{ftz}.f32": _approximate(apply, bool(ftz))
        for name, apply in _APPROXIMATE.items()
        for ftz in ("", ".ftz")
    },
    **{
        f"{name}.approx.ftz.f64": _upper_half64(_APPROXIMATE[name]) for name in ("rcp", "rsqrt")
    },
    "div.full.f32": np.divide, "div.full.ftz.f32": np.divide,
}  # fmt: skip
_ATOMICS = {
    "add": "add", "and": "and", "or": "or", "xor": "xor", "fadd": "fadd", "max": "smax",
    "min": "smin", "umax": "umax", "umin": "umin", "fmax": "maximumnum", "fmin": "minimumnum",
}  # fmt: skip


def _overflows_as_quotient(a: Array, b: Array) -> Array:
    return (b == -1) & (a == np.iinfo(a.dtype).min)


_MAY_OVERFLOW = {"sdiv": _overflows_as_quotient, "srem": _overflows_as_quotient}
"""The instructions whose result may be undefined (LLVM Language Reference, "sdiv")."""


class ArithmeticOps:
    """The arithmetic part of the thread interface; subclasses define handles, and the `active`
    threads."""

    active: Array

    def as_handle(self, array: Any, element: Element) -> Any:
        raise NotImplementedError

    def dtype(self, element: Element) -> Any:
        """numpy's type of an element; pointers are i64, 8-bit floats their bits."""
        return np.int64 if isinstance(element, Pointer) else DTYPES[element.name]

    def binary(self, name: str, element: Element, a: Any, b: Any, flags: str = "") -> Any:
        table = _OF_BITS if element is I1 else _BINARY
        if name in _MAY_OVERFLOW and element is not I1:
            overflows = _MAY_OVERFLOW[name](a.array, b.array) & self.active
            assert not overflows.any(), f"{name} of the least number by -1 is undefined in LLVM"
        return self.as_handle(table[name](a.array, b.array), element)

    def intrinsic(self, name: str, element: Element, *operands: Any, flags: str = "") -> Any:
        with np.errstate(all="ignore"):
            return self.as_handle(_INTRINSICS[name](*(x.array for x in operands)), element)

    def negate(self, element: Element, a: Any) -> Any:
        return self.as_handle(-a.array, element)

    def scale_by_power(self, element: Element, a: Any, power: Any) -> Any:
        return None

    def compare(self, predicate: str, element: Element, a: Any, b: Any) -> Any:
        x, y = a.array, b.array
        if element.is_float:
            return self.as_handle(_float_compare(predicate, x, y), I1)
        if predicate[0] == "u" or isinstance(element, Pointer):
            x, y = _u(x), _u(y)
        elif element is I1 and predicate[0] == "s":
            x, y = -x.astype(np.int8), -y.astype(np.int8)
        return self.as_handle(_COMPARE[predicate[-2:]](x, y), I1)

    def select(self, element: Element, condition: Any, a: Any, b: Any) -> Any:
        return self.as_handle(np.where(condition.array, a.array, b.array), element)

    def pack(self, element: Element, values: Sequence[Any]) -> Any:
        raw = np.stack([x.array.astype(self.dtype(element)) for x in values], axis=-1)
        return self.as_handle(raw.view(np.int32)[..., 0], I32)

    def in_one_word(self, element: Element, values: Sequence[Any]) -> bool:
        return True

    def unpack(self, element: Element, word: Any) -> list[Any]:
        raw = np.ascontiguousarray(word.array)[..., None].view(self.dtype(element))
        return [self.as_handle(raw[..., i], element) for i in range(raw.shape[-1])]

    def convert(self, name: str, source: Element, target: Element, a: Any) -> Any:
        x, new = a.array, self.dtype(target)
        if source.bits == 4 and name == "sext":
            x = (x ^ 8) - np.int8(8)
        if target.bits == 4:
            return self.as_handle(x.astype(np.int8) & 15, target)
        if name == "bitcast":
            return self.as_handle(x.view(new), target)
        with np.errstate(all="ignore"):
            return self.as_handle(_convert(name, x, new, target), target)

    def instruction(self, text: str, result: Element, operands: Sequence[tuple[Any, Any]]) -> Any:
        word = text.split()[0]
        with np.errstate(all="ignore"):
            return self.as_handle(
                ptx(word, self.dtype(result))(*(x.array for _, x in operands)), result
            )

    def atomic_result(self, name: str, element: Element, a: Array, b: Array) -> Array:
        """The value that an atomic access writes."""
        if name == "xchg":
            return b
        if name in ("uinc_wrap", "udec_wrap"):
            x, y = int(_u(a)[0]), int(_u(b)[0])
            up = 0 if x >= y else x + 1
            down = y if x == 0 or x > y else x - 1
            return np.array([up if name == "uinc_wrap" else down]).astype(a.dtype)
        word = _ATOMICS[name]
        table = _BINARY if word in _BINARY else _INTRINSICS
        return table[word](a, b).astype(a.dtype)


def _float_compare(predicate: str, x: Array, y: Array) -> Array:
    unordered = np.isnan(x) | np.isnan(y)
    if predicate in ("true", "false"):
        return np.full(x.shape, predicate == "true")
    if predicate in ("ord", "uno"):
        return unordered if predicate == "uno" else ~unordered
    with np.errstate(all="ignore"):
        result = _COMPARE[predicate[1:]](x, y)
    return result | unordered if predicate[0] == "u" else result & ~unordered


def _convert(name: str, x: Array, new: Any, target: Element) -> Array:
    if name in ("zext", "uitofp", "inttoptr"):
        return (_u(x) if x.dtype != bool else x).astype(new)
    if name in ("sext", "sitofp") and x.dtype == bool:
        return (-x.astype(np.int8)).astype(new)
    if name == "trunc" and target is I1:
        return (x & 1).astype(bool)
    if name in ("fptoui", "fptosi"):
        kind = _UNSIGNED[np.dtype(new).itemsize] if name == "fptoui" else new
        return np.trunc(x.astype(np.float64)).astype(kind).view(new)
    if name.endswith(".sat"):
        return _saturate(name, x, new)
    if name == "fptrunc" and new == ml_dtypes.bfloat16 and x.dtype == np.float64:
        return _odd(x).astype(new)
    return x.astype(new)


def _odd(x: Array) -> Array:
    """f64 to f32 rounded to odd, so that a second rounding is correct."""
    near = x.astype(np.float32)
    toward = np.where(
        np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float32(0)), near
    )
    lost = (toward.astype(np.float64) != x) & np.isfinite(x)
    return (toward.view(np.int32) | lost).view(np.float32)


def _saturate(name: str, x: Array, new: Any) -> Array:
    if new is np.bool_:
        return x >= 1 if name.startswith("fptoui") else x <= -1
    kind = _UNSIGNED[np.dtype(new).itemsize] if name.startswith("fptoui") else new
    limits = np.iinfo(kind)
    wide = np.nan_to_num(np.trunc(x.astype(np.longdouble)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    clamped = [int(max(limits.min, min(limits.max, v))) if np.isfinite(v) else
            (limits.max if v > 0 else limits.min) for v in wide]  # fmt: skip
    return np.array(clamped, kind).view(new)


def ptx(word: str, dtype: Any) -> Callable[..., Array]:
    """The result, of type `dtype`, of the PTX instruction `word` on its operands."""
    function = _PTX.get(word)
    if function is not None:
        return function
    if match := re.fullmatch(r"(add|sub|mul|div|fma)\.(r[zmpn])(\.ftz)?\.f(32|64);?", word):
        name = match[1] if match[1] == "fma" else f"f{match[1]}"
        return partial(KERNELS[name], rounding=match[2], ftz=bool(match[3]))
    if word == "min.xorsign.abs.f32":
        return _smaller_with_signs
    if word == "fma.rn.sat.f32":
        return lambda a, b, c: _clamp_to_unit(fma(a, b, c))
    if match := re.fullmatch(r"mul\.hi\.([su])(32|64)", word):
        return _mul_high(match[1] == "s")
    if match := re.fullmatch(r"(div|rem)\.([su])(16|32)", word):
        return _BINARY[match[2] + match[1]]
    if match := re.fullmatch(r"cvt\.(r[zmp])\.(f16|f32)\.(f32|f64)", word):
        return _cut(match[1], np.float16 if match[2] == "f16" else np.float32)
    raise AssertionError(f"no meaning for {word}")


def _smaller_with_signs(a: Array, b: Array) -> Array:
    """The smaller magnitude, negative where one of the signs is."""
    size = np.fmin(np.abs(a), np.abs(b))
    return np.where(np.signbit(a) ^ np.signbit(b), -size, size)


def _clamp_to_unit(x: Array) -> Array:
    """Clamped to 0 and 1; NaN becomes 0."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def _mul_high(signed: bool) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        x, y = (a, b) if signed else (_u(a), _u(b))
        high = [(int(p) * int(q)) >> bits & ((1 << bits) - 1) for p, q in zip(x, y, strict=True)]
        return np.array(high, _UNSIGNED[a.dtype.itemsize]).view(a.dtype)

    return apply


def _cut(mode: str, new: Any) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        near = x.astype(new)
        back = near.astype(np.float64)
        down, up = np.nextafter(near, new(-np.inf)), np.nextafter(near, new(np.inf))
        low, high = np.where(back > x, down, near), np.where(back < x, up, near)
        if mode == "rz":
            return np.where(x > 0, low, high).astype(new)
        return (low if mode == "rm" else high).astype(new)

    return apply
