"""PTX instructions on numpy arrays (PTX ISA, "Instruction Set").

An instruction is the mnemonic with its modifiers, as `add.rn.f16x2`. Those that approximate are
computed in f64 and rounded once, so a GPU's results differ within the error that the PTX ISA
states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from tileir.machine import casts, floats
from tileir.machine.float_formats import round_to, widen
from tileir.machine.tensor import RAW, Array, raw

_FLOATS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
_DTYPES: dict[str, np.dtype[Any]] = {
    **_FLOATS,
    **{f"{k}{n}": np.dtype(f"{'i' if k == 's' else 'u'}{n // 8}")
       for k in "bus" for n in (8, 16, 32, 64)},
    "pred": np.dtype(np.uint8),
}  # fmt: skip
"""Types by their word; a word with `x2` is two in one register."""


class UnknownPtxError(Exception):
    """PTX without a meaning on a CPU; the message is the part that has none."""


def _dtype(kind: str) -> np.dtype[Any]:
    return _DTYPES[kind.removesuffix("x2")]


def bits_of(kind: str) -> int:
    """The bits of a register of this type. Raises UnknownPtxError for other words."""
    if kind.removesuffix("x2") not in _DTYPES:
        raise UnknownPtxError(f"registers of type {kind}")
    return 8 * _dtype(kind).itemsize * (2 if kind.endswith("x2") else 1)


@attrs.frozen(eq=False)
class PtxOperand:
    """An operand: the bits of a register in `count` executions, or a number."""

    bits: Any
    count: int

    def read(self, kind: str) -> Array:
        """The values as numbers of a type, two for each execution if the type is a pair."""
        dtype, size = _dtype(kind), bits_of(kind) // 8
        bits = self.bits
        if isinstance(bits, float):
            bits = np.full(self.count, np.array(bits, dtype).view(RAW[size]))
        elif isinstance(bits, int):
            bits = np.full(self.count, bits & ((1 << 8 * size) - 1), RAW[size])
        return np.ascontiguousarray(bits.astype(RAW[size])).view(dtype)


@attrs.frozen(eq=False)
class Instruction:
    """The number of operands that an instruction reads, and its result."""

    reads: int
    compute: Callable[[Sequence[PtxOperand]], Array]


_Modifiers = tuple[tuple[str, ...], frozenset[str]]
"""The types of an instruction in order, and its other modifiers."""


@lru_cache(maxsize=256)
def instruction(opcode: str) -> Instruction:
    """The meaning of an instruction. Raises UnknownPtxError."""
    name, *words = opcode.split(".")
    kinds = tuple(w for w in words if w.removesuffix("x2") in (*_DTYPES, "e2m1"))
    modifiers = frozenset(words) - {*kinds}
    is_float = bool(kinds) and kinds[-1].removesuffix("x2") in _FLOATS
    row = (_OF_FLOATS if is_float else _OF_BITS).get(name) or _OF_ANY.get(name)
    if row is None or not kinds or not modifiers <= {*row[1].split()}:
        raise UnknownPtxError(opcode)
    return row[0](name, kinds, modifiers)


def _elementwise(kind: str, reads: int, compute: Callable[..., Array]) -> Instruction:
    return Instruction(reads, lambda sources: compute(*(s.read(kind) for s in sources)))


# Floats -------------------------------------------------------------------------------------------

_ROUNDING = ("rn", "rz", "rm", "rp")
_KERNELS = {
    "add": ("fadd", 2), "sub": ("fsub", 2), "mul": ("fmul", 2), "div": ("fdiv", 2),
    "fma": ("fma", 3), "mad": ("fma", 3), "neg": ("fneg", 1), "abs": ("fabs", 1),
    "copysign": ("copysign", 2), "min": ("fminnum", 2), "max": ("fmaxnum", 2),
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2, "lg2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rcp": lambda x: 1 / x,
}  # fmt: skip


def _arithmetic(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    kind = kinds[-1]
    mnemonic, reads = _KERNELS[name]
    if "NaN" in modifiers:
        mnemonic = {"min": "fminimum", "max": "fmaximum"}[name]
    kernel = floats.KERNELS[mnemonic]
    mode = next((m for m in _ROUNDING if m in modifiers), "rn")
    kernel = kernel if mode == "rn" else partial(kernel, rounding=mode)

    def compute(*values: Array) -> Array:
        ftz = "ftz" in modifiers and kind == "f32"
        result = kernel(*(floats.flush(v) if ftz else v for v in values))
        return _clamp(floats.flush(result) if ftz else result, modifiers)

    return _elementwise(kind, reads, compute)


def _clamp(result: Array, modifiers: frozenset[str]) -> Array:
    """Within 0 and 1 with `sat`, not negative with `relu`; NaN becomes 0 with `sat`."""
    one, zero = result.dtype.type(1), result.dtype.type(0)
    if "sat" in modifiers:
        return np.where(result > zero, np.where(result < one, result, one), zero)
    return np.where(result < zero, zero, result) if "relu" in modifiers else result


def _function(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    kind, apply = kinds[-1], _FUNCTIONS[name]
    ftz = "ftz" in modifiers and kind == "f32"

    def compute(value: Array) -> Array:
        result = round_to(apply(widen(floats.flush(value) if ftz else value)), value.dtype)
        return floats.flush(result) if ftz else result

    return _elementwise(kind, 1, compute)


# Bits and integers --------------------------------------------------------------------------------


def _multiplier(kind: str, modifiers: frozenset[str]) -> Callable[[Array, Array], Array]:
    """The low half, the high half, or all of integers multiplied."""
    bits = bits_of(kind)
    if "lo" in modifiers:
        return np.multiply
    if bits == 64 and "wide" in modifiers:
        raise UnknownPtxError(f"mul.wide.{kind}")

    def compute(a: Array, b: Array) -> Array:
        if bits == 64:
            high = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
            return np.array([h & (1 << 64) - 1 for h in high], np.uint64).view(a.dtype)
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        full = a.astype(wide) * b.astype(wide)
        return full if "wide" in modifiers else (full >> bits).astype(a.dtype)

    return compute


def _multiply(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    if len(modifiers) != 1:
        raise UnknownPtxError(f"{name} without lo, hi or wide")
    (kind,) = kinds
    multiply = _multiplier(kind, modifiers)
    if name == "mul":
        return _elementwise(kind, 2, multiply)
    added = kind[0] + str(2 * bits_of(kind)) if "wide" in modifiers else kind
    return Instruction(3, lambda s: multiply(s[0].read(kind), s[1].read(kind)) + s[2].read(added))


def _quotient(a: Array, b: Array) -> Array:
    """Rounded to zero."""
    result = np.floor_divide(a, b)
    return result + ((a - result * b != 0) & ((a < 0) != (b < 0)))


_INTEGERS: dict[str, tuple[int, Callable[..., Array]]] = {
    "add": (2, np.add), "sub": (2, np.subtract), "min": (2, np.minimum), "max": (2, np.maximum),
    "abs": (1, np.abs), "neg": (1, np.negative), "div": (2, _quotient),
    "rem": (2, lambda a, b: a - _quotient(a, b) * b), "and": (2, np.bitwise_and),
    "or": (2, np.bitwise_or), "xor": (2, np.bitwise_xor), "not": (1, np.invert),
}  # fmt: skip


def _integer(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    (kind,) = kinds
    reads, apply = _INTEGERS[name]
    if kind == "pred":
        return _elementwise(kind, reads, lambda *v: apply(*v) & np.uint8(1))
    return _elementwise(kind, reads, apply)


def _shift(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    (kind,) = kinds
    bits = bits_of(kind)

    def compute(s: Sequence[PtxOperand]) -> Array:
        value, places = s[0].read(kind), s[1].read("u32")
        kept = np.minimum(places, bits - 1).astype(value.dtype)
        if name == "shl":
            return np.where(places < bits, value << kept, 0).astype(value.dtype)
        if kind[0] == "s":
            return value >> kept
        return np.where(places < bits, value >> kept, 0).astype(value.dtype)

    return Instruction(2, compute)


def _by_lane(
    reads: Sequence[str], result: str, function: Callable[..., int]
) -> Callable[..., Instruction]:
    """An instruction as a function of Python's integers; `{}` is the instruction's type."""

    def make(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
        (kind,) = kinds
        if kind[0] == "s":
            raise UnknownPtxError(f"{name}.{kind}")
        types = [r.format(kind) for r in reads]
        bits, to = bits_of(kind), _dtype(result.format(kind))

        def compute(s: Sequence[PtxOperand]) -> Array:
            lanes = zip(*(x.read(t).tolist() for x, t in zip(s, types, strict=True)), strict=True)
            numbers = [function(bits, *lane) & ((1 << 8 * to.itemsize) - 1) for lane in lanes]
            return np.array(numbers, RAW[to.itemsize]).view(to)

        return Instruction(len(types), compute)

    return make


def _nth_set(bits: int, mask: int, base: int, offset: int) -> int:
    """`fns`: the place of the n-th set bit from `base`, upwards or downwards."""
    if offset == 0:
        return base if mask >> base & 1 else (1 << bits) - 1
    places = range(base, bits) if offset > 0 else range(base, -1, -1)
    present = [i for i in places if mask >> i & 1]
    return present[abs(offset) - 1] if abs(offset) <= len(present) else (1 << bits) - 1


def _permute_bytes(bits: int, a: int, b: int, order: int) -> int:
    """`prmt`: bytes of two words; the fourth bit of a digit repeats the sign of its byte."""
    data, total = a | b << 32, 0
    for i in range(4):
        digit = order >> 4 * i & 15
        byte = data >> 8 * (digit & 7) & 255
        total |= (255 * (byte >> 7) if digit & 8 else byte) << 8 * i
    return total


def _look_up(bits: int, a: int, b: int, c: int, table: int) -> int:
    """`lop3`: each bit is the bit of `table` that the three operands' bits number."""
    ones = (1 << bits) - 1
    terms = (
        (a if i & 4 else a ^ ones) & (b if i & 2 else b ^ ones) & (c if i & 1 else c ^ ones)
        for i in range(8)
        if table >> i & 1
    )
    return sum(terms)


def _extract_field(bits: int, a: int, start: int, size: int) -> int:
    return a >> (start & 255) & ((1 << (size & 255)) - 1)


def _insert_field(bits: int, a: int, b: int, start: int, size: int) -> int:
    mask = ((1 << (size & 255)) - 1) << (start & 255)
    return (b & ~mask) | (a << (start & 255) & mask)


def _compare(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    (kind,) = kinds
    words = modifiers - {"ftz"}
    if len(words) != 1:
        raise UnknownPtxError(f"setp of {kind}")
    (word,) = words
    is_float = kind in _FLOATS
    relation = _relation(word, is_float)
    ftz = "ftz" in modifiers and kind == "f32"
    return _elementwise(
        kind, 2,
        lambda a, b: relation(*(floats.flush(x) if ftz else x for x in (a, b))).astype(np.uint8),
    )  # fmt: skip


def _relation(word: str, is_float: bool) -> Callable[[Array, Array], Array]:
    if not is_float:
        name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(word, word)
        if f"o{name}" not in floats.RELATIONS:
            raise UnknownPtxError(f"setp.{word}")
        return np.not_equal if name == "ne" else floats.RELATIONS[f"o{name}"]
    if word in ("num", "nan"):
        return floats.RELATIONS["ord" if word == "num" else "uno"]
    name = f"u{word[:2]}" if len(word) == 3 else f"o{word}"
    if name not in floats.RELATIONS:
        raise UnknownPtxError(f"setp.{word}")
    return floats.RELATIONS[name]


_RELATIONS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan ftz"


def _select(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    (kind,) = kinds
    return Instruction(
        3, lambda s: np.where(s[2].read("pred") != 0, s[0].read(kind), s[1].read(kind))
    )


def _copy(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    (kind,) = kinds
    return _elementwise(kind, 1, lambda x: x)


# Conversions --------------------------------------------------------------------------------------

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _convert(name: str, kinds: tuple[str, ...], modifiers: frozenset[str]) -> Instruction:
    if len(kinds) != 2:
        raise UnknownPtxError(f"cvt of {len(kinds)} types")
    to, source = kinds
    if to == "e2m1x2" and source == "f32":
        return Instruction(2, partial(_as_nibbles, modifiers))
    if "e2m1x2" in kinds:
        raise UnknownPtxError(f"cvt.{to}.{source}")
    convert = partial(_convert_value, _dtype(to), modifiers)
    if to.endswith("x2") and not source.endswith("x2"):  # the second operand is the low half
        return Instruction(
            2, lambda s: np.stack([convert(s[1].read(source)), convert(s[0].read(source))], -1)
            .reshape(-1),
        )  # fmt: skip
    return _elementwise(source, 1, convert)


def _convert_value(to: np.dtype[Any], modifiers: frozenset[str], value: Array) -> Array:
    is_float, integral = value.dtype in _FLOATS.values(), modifiers & {*_INTEGRAL}
    if is_float and "ftz" in modifiers and value.dtype == np.float32:
        value = floats.flush(value)
    for word in integral if is_float else ():
        value = _INTEGRAL[word](widen(value))
    mode = next((m for m in _ROUNDING if m in modifiers), "rn")
    if to in _FLOATS.values():
        if not is_float:
            return casts.from_integer(value, to)
        saturate = "satfinite" in modifiers
        return _clamp(casts.to_float(value, to, rounding=mode, saturate=saturate), modifiers)
    if is_float:
        return casts.to_integer(value, to, saturate=True, is_signed=to.kind == "i")
    if "sat" in modifiers:
        limits = np.iinfo(to)
        numbers = [max(int(limits.min), min(int(limits.max), v)) for v in value.tolist()]
        return np.array(numbers, to)
    return value.astype(to)


def _as_nibbles(modifiers: frozenset[str], s: Sequence[PtxOperand]) -> Array:
    """Two floats as floats of 4 bits in a byte, the second in its low half."""
    kind = np.dtype(ml_dtypes.float4_e2m1fn)
    high, low = (raw(_round_to_nibble(x.read("f32"), kind, modifiers)) & 15 for x in s)
    return high << np.uint8(4) | low


def _round_to_nibble(
    value: Array, kind: np.dtype[Any], modifiers: frozenset[str]
) -> Array:  # fmt: skip
    return casts.to_float(_clamp(value, modifiers), kind, saturate=True)


# Tables -------------------------------------------------------------------------------------------

_Row = tuple[Callable[[str, tuple[str, ...], frozenset[str]], Instruction], str]

_OF_FLOATS: dict[str, _Row] = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "mad"), (_arithmetic, "rn rz rm rp ftz sat relu")),
    "div": (_arithmetic, "rn rz rm rp ftz approx full"),
    **dict.fromkeys(("neg", "abs", "copysign"), (_arithmetic, "ftz")),
    **dict.fromkeys(("min", "max"), (_arithmetic, "ftz NaN")),
    **dict.fromkeys(_FUNCTIONS, (_function, "rn ftz approx")),
}
_OF_BITS: dict[str, _Row] = {
    **dict.fromkeys(_INTEGERS, (_integer, "")),
    **dict.fromkeys(("mul", "mad"), (_multiply, "lo hi wide")),
    **dict.fromkeys(("shl", "shr"), (_shift, "")),
    "popc": (_by_lane(["{}"], "u32", lambda bits, a: a.bit_count()), ""),
    "clz": (_by_lane(["{}"], "u32", lambda bits, a: bits - a.bit_length()), ""),
    "brev": (_by_lane(["{}"], "{}", lambda bits, a: int(f"{a:0{bits}b}"[::-1], 2)), ""),
    "fns": (_by_lane(["b32", "b32", "s32"], "u32", _nth_set), ""),
    "prmt": (_by_lane(["b32"] * 3, "b32", _permute_bytes), ""),
    "lop3": (_by_lane(["b32"] * 4, "b32", _look_up), ""),
    "bfe": (_by_lane(["{}", "u32", "u32"], "{}", _extract_field), ""),
    "bfi": (_by_lane(["{}", "{}", "u32", "u32"], "{}", _insert_field), ""),
}
_OF_ANY: dict[str, _Row] = {
    "mov": (_copy, ""),
    "selp": (_select, ""),
    "setp": (_compare, _RELATIONS),
    "cvt": (_convert, "rn rz rm rp rni rzi rmi rpi ftz sat satfinite relu"),
}
"""By mnemonic, what makes the instruction, and the modifiers besides types that it knows."""
