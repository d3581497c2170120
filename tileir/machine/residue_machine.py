"""Floats as residues modulo a prime: a machine on which every law of algebra is exact.

Two programs that compute the same expression up to associativity, commutativity, distributivity
and fusion agree here bit for bit, with no tolerance; one that differs in anything else disagrees
with probability near one. Results are not comparable with real ones: compare residues with
residues. (The idea is FpSan's payload algebra in Triton's documentation; a prime modulus in place
of a power of two makes 1/2 exact, so that folding constants agrees too.)

A float of w bits holds its residue in its own bits, so memory, shapes and selection are those of
`Machine`. Numbers that are no fractions of powers of two, and functions, are fixed pseudo-random
residues; a function is exact at 0 and 1 where it is rational there. Order is that of the residues
nearest to zero. There are no infinities and NaNs: -inf and inf are the ends of that order.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.machine import casts, integers, reductions
from tileir.machine.float_formats import is_float
from tileir.machine.ieee import Machine
from tileir.machine.tensor import RAW, Array, Tensor, constant, dtype_of
from tileir.types import shape_of
from tileir.values import Constant

Kernel = Callable[..., Any]
PRIMES = {1: 251, 2: 65521, 4: 4294967291, 8: 4294967291}
"""Modulus by bytes of the format: f32 and f64 share one, so that widening keeps numbers."""


def modulus(dtype: Any) -> int:
    """The prime of a float format."""
    return PRIMES[dtype.itemsize]


def residues(data: Array) -> Array:
    """Residues of a float array, as u64."""
    bits = data.view(RAW[data.dtype.itemsize]).astype(np.uint64)
    return bits % np.uint64(modulus(data.dtype))


def to_float_bits(numbers: Array, dtype: Any) -> Array:
    """Residues as a float array."""
    return np.asarray(numbers).astype(RAW[dtype.itemsize]).view(dtype)


def embed(number: float, prime: int) -> int:
    """The residue of a float: exact for finite ones, the ends of the order for infinities."""
    if math.isnan(number):
        return zlib.crc32(b"nan") % prime
    if math.isinf(number):
        return prime // 2 if number > 0 else prime // 2 + 1
    numerator, denominator = float(number).as_integer_ratio()
    return numerator * pow(denominator, -1, prime) % prime


def centre(numbers: Array, prime: int) -> Array:
    """The representatives nearest to zero, as i64."""
    integers = numbers.astype(np.int64)
    return np.where(integers > prime // 2, integers - prime, integers)


def _mix(numbers: Array, salt: int, prime: int) -> Array:
    """A fixed pseudo-random function (the finaliser of splitmix64)."""
    x = numbers + np.uint64(salt * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))) % np.uint64(prime)


def inverse(numbers: Array, prime: int) -> Array:
    """Reciprocals, by Fermat; 0 has a fixed pseudo-random one."""
    result, power, exponent = np.ones_like(numbers), numbers, prime - 2
    while exponent:
        if exponent & 1:
            result = result * power % np.uint64(prime)
        power = power * power % np.uint64(prime)
        exponent >>= 1
    return np.where(numbers == 0, _mix(numbers, 7, prime), result)


def _kernel(compute: Callable[..., Array]) -> Kernel:
    """A kernel on float arrays from one on residues; rounding and the like have no meaning."""

    def kernel(*operands: Array, **_: Any) -> Array:
        dtype = operands[0].dtype
        prime = modulus(dtype)
        return to_float_bits(compute(prime, *map(residues, operands)) % np.uint64(prime), dtype)

    return kernel


def _negate(prime: int, a: Array) -> Array:
    return np.uint64(prime) - a


def _size(prime: int, a: Array) -> Array:
    return np.minimum(a, np.uint64(prime) - a)


def _with_sign(prime: int, a: Array, b: Array) -> Array:
    size = _size(prime, a)
    return np.where(centre(b, prime) < 0, np.uint64(prime) - size, size)


def _extreme(choose: Callable[..., Array]) -> Callable[..., Array]:
    def compute(prime: int, a: Array, b: Array) -> Array:
        return (choose(centre(a, prime), centre(b, prime)) % prime).astype(np.uint64)

    return compute


_low, _high = _extreme(np.minimum), _extreme(np.maximum)


def _tag(name: str) -> Callable[..., Array]:
    """A function known by its name alone, and at 0 and 1 where it is rational there."""
    salt, ends = zlib.crc32(name.encode()), _RATIONAL.get(name, {})

    def compute(prime: int, *operands: Array) -> Array:
        total = operands[0]
        for other in operands[1:]:
            total = _mix(total, salt, prime) + other
        array = _mix(total, salt, prime)
        if len(operands) == 1:
            for where, value in ends.items():
                array = np.where(operands[0] == where, np.uint64(value), array)
        return array

    return compute


_RATIONAL: dict[str, dict[int, int]] = {
    "exp": {0: 1}, "exp2": {0: 1, 1: 2}, "expm1": {0: 0}, "log": {1: 0}, "log2": {1: 0},
    "log10": {1: 0}, "log1p": {0: 0}, "sin": {0: 0}, "cos": {0: 1}, "tan": {0: 0},
    "asin": {0: 0}, "atan": {0: 0}, "sinh": {0: 0}, "cosh": {0: 1}, "tanh": {0: 0},
    "asinh": {0: 0}, "acosh": {1: 0}, "atanh": {0: 0}, "erf": {0: 0}, "erfc": {0: 1},
    "sqrt": {0: 0, 1: 1}, "rsqrt": {1: 1}, "cbrt": {0: 0, 1: 1}, "acos": {1: 0},
    "floor": {0: 0, 1: 1}, "ceil": {0: 0, 1: 1}, "ftrunc": {0: 0, 1: 1}, "fround": {0: 0, 1: 1},
    "frint": {0: 0, 1: 1},
}  # fmt: skip


def _clamp(prime: int, value: Array, low: Array, high: Array) -> Array:
    return _low(prime, _high(prime, value, low), high)


KERNELS: dict[str, Kernel] = {
    "fadd": _kernel(lambda p, a, b: a + b),
    "fsub": _kernel(lambda p, a, b: a + (np.uint64(p) - b)),
    "fmul": _kernel(lambda p, a, b: a * b),
    "fdiv": _kernel(lambda p, a, b: a * inverse(b, p)),
    "fma": _kernel(lambda p, a, b, c: a * b % np.uint64(p) + c),
    "fneg": _kernel(_negate),
    "fabs": _kernel(_size),
    "copysign": _kernel(_with_sign),
    "fminimum": _kernel(_low),
    "fmaximum": _kernel(_high),
    "fminnum": _kernel(_low),
    "fmaxnum": _kernel(_high),
    "clampf": _kernel(_clamp),
    **{name: _kernel(_tag(name)) for name in (*_RATIONAL, "pow", "atan2", "frem")},
}
"""Float kernels on residues, by mnemonic."""


def _compare_centred(compare: Kernel) -> Kernel:
    def relation(a: Array, b: Array) -> Array:
        prime = modulus(a.dtype)
        return compare(centre(residues(a), prime), centre(residues(b), prime))

    return relation


_WORDS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
          "gt": np.greater, "ge": np.greater_equal}  # fmt: skip
RELATIONS: dict[str, Kernel] = {
    **{prefix + word: _compare_centred(rule) for word, rule in _WORDS.items() for prefix in "ou"},
    "false": lambda a, b: np.zeros(a.shape, np.bool_),
    "uno": lambda a, b: np.zeros(a.shape, np.bool_),
    "true": lambda a, b: np.ones(a.shape, np.bool_),
    "ord": lambda a, b: np.ones(a.shape, np.bool_),
}
"""Float relations on residues, by the word of `fcmp`."""


def _refloat(data: Array, to: Any, **_: Any) -> Array:
    return to_float_bits(residues(data) % np.uint64(modulus(to)), to)


def _to_integer(data: Array, to: Any, **_: Any) -> Array:
    integers = centre(residues(data), modulus(data.dtype))
    return (integers & 1).astype(np.bool_) if to == np.bool_ else integers.astype(to)


def _from(read: Callable[[Array], Array]) -> Kernel:
    def convert(data: Array, to: Any) -> Array:
        number = read(data)
        kind = np.uint64 if number.dtype.kind == "u" else np.int64
        return to_float_bits((number.astype(kind) % kind(modulus(to))).astype(np.uint64), to)

    return convert


CONVERSIONS: dict[str, Kernel] = {
    **casts.KERNELS,
    **dict.fromkeys(("fptrunc", "fpext", "fpcast"), _refloat),
    **dict.fromkeys(("fptosi", "fptoui"), _to_integer),
    "sitofp": _from(integers.as_signed),
    "uitofp": _from(integers.as_unsigned),
}
"""Casts, by mnemonic."""


class RingMachine(Machine):
    """`Machine` with floats as residues."""

    kernels: dict[str, Kernel] = {**Machine.kernels, **KERNELS}
    conversions: dict[str, Kernel] = CONVERSIONS
    relations: dict[str, dict[str, Kernel]] = {**Machine.relations, "fcmp": RELATIONS}

    reductions = reductions.INTEGERS

    def constant(self, literal: Constant) -> Tensor:
        """A literal's value; the residue of a float."""
        dtype = dtype_of(literal.type)
        if not is_float(dtype):
            return constant(literal)
        residue = embed(float(literal.value), modulus(dtype))
        one = to_float_bits(np.array(residue, np.uint64), dtype)
        return Tensor(np.broadcast_to(one, shape_of(literal.type)))

    def dot(
        self, a: Tensor, b: Tensor, c: Tensor, precision: str, signed: tuple[bool, bool]
    ) -> Tensor:
        """`a @ b + c`."""
        plain = super().dot(a, b, c, "ieee", signed)
        if not is_float(c.data.dtype):
            return plain
        return Tensor(_matmul(a.data, b.data, c.data), plain.undef)


def _matmul(a: Array, b: Array, c: Array) -> Array:
    prime = np.uint64(modulus(c.dtype))
    left, right, total = residues(a), residues(b), residues(c)
    for k in range(a.shape[-1]):
        total = (total + left[..., :, k, None] * right[..., k, None, :] % prime) % prime
    return to_float_bits(total, c.dtype)
