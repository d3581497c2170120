"""What each op means, said a second time in plain numpy, ml_dtypes and math.

An oracle takes the op and one array per operand (None for an absent one, a tuple for several)
and returns the result's array, or one per result. `DEFINED` names the lanes that must be defined
where that is not all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tileir.machine import dtype_of
from tileir.types import element_of, shape_of

from .ops_casts import CAST, width
from .ops_exact import round_fraction

Array = Any
Oracle = Callable[..., Any]


def exact(signed: bool, rule: Callable[..., int]) -> Oracle:
    """An integer rule on Python's unbounded numbers, wrapped to the operands' type."""

    def oracle(op: Any, *arrays: Array) -> Array:
        bits = width(arrays[0])

        def number(x: Any) -> int:
            n = int(x) & ((1 << bits) - 1)
            return n - (1 << bits) if signed and n >> (bits - 1) else n

        def lane(*items: Any) -> int:
            n = rule(op, *map(number, items)) & ((1 << bits) - 1)
            return n - (1 << bits) if n >> (bits - 1) and bits > 1 else n

        out = [lane(*items) for items in zip(*(a.reshape(-1) for a in arrays), strict=True)]
        return np.array(out, object).astype(arrays[0].dtype).reshape(arrays[0].shape)

    return oracle


def divide(op: Any, a: int, b: int) -> int:
    down, word = a // b, op.rounding.value
    if word == "floor" or a % b == 0:
        return down
    return down + 1 if word == "ceil" or (a < 0) != (b < 0) else down


def exact_remainder(op: Any, a: int, b: int) -> int:
    rest = abs(a) % abs(b)
    return a % b if op.rounding.value == "floor" else (rest if a >= 0 else -rest)


def high(op: Any, a: int, b: int) -> int:
    return (a * b) >> _bits(op)


def _bits(op: Any) -> int:
    return element_of(op.inputs[0].type).bits  # type: ignore[union-attr]


def nearest(rule: Callable[..., Any]) -> Oracle:
    return lambda op, *arrays: rule(*arrays)


def flush_subnormals(x: Array) -> Array:
    small = np.abs(x) < np.float32(2.0**-126)
    return np.where(small, np.copysign(np.float32(0), x), x)


def arithmetic(rule: Callable[..., Any]) -> Oracle:
    """Round to nearest and ftz; directed rounding has tests against exact arithmetic."""

    def oracle(op: Any, *arrays: Array) -> Any:
        if op.rounding.value != "rn":
            return NotImplemented
        if op.ftz:
            return flush_subnormals(rule(*map(flush_subnormals, arrays)))
        return rule(*arrays)

    return oracle


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """By exact fractions where everything is finite."""
    plain = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    out = np.array(plain)
    for index in np.ndindex(a.shape):
        x, y, z = (float(v[index]) for v in (a, b, c))
        if math.isfinite(x) and math.isfinite(y) and math.isfinite(z):
            real = Fraction(x) * Fraction(y) + Fraction(z)
            if real:
                out[index] = round_fraction(real, a.dtype)
    return out.astype(a.dtype)


def functional(rule: Callable[..., float]) -> Oracle:
    """A function of math, in f64."""

    def oracle(op: Any, *arrays: Array) -> Array:
        wide = [np.asarray(a, np.float64).reshape(-1).tolist() for a in arrays]
        out = [_quiet(rule, *items) for items in zip(*wide, strict=True)]
        return np.array(out, np.float64).reshape(arrays[0].shape)

    return oracle


def _quiet(rule: Callable[..., float], *items: float) -> float:
    if any(map(math.isnan, items)) and rule is not math.pow:
        return math.nan
    try:
        return rule(*items)
    except ValueError:
        return _pole(rule, *items)
    except OverflowError:
        return _overflow(rule, *items)


def _pole(rule: Callable[..., float], *items: float) -> float:
    x = items[0]
    if rule in (math.log, math.log2, math.log10) and x == 0:
        return -math.inf
    if rule is math.log1p and x == -1:
        return -math.inf
    if rule is math.atanh and abs(x) == 1:
        return math.copysign(math.inf, x)
    if rule is math.pow and x == 0:
        odd = items[1] == math.floor(items[1]) and items[1] % 2 == 1
        return math.copysign(math.inf, x) if odd else math.inf
    return math.nan


def _overflow(rule: Callable[..., float], *items: float) -> float:
    if rule is math.sinh:
        return math.copysign(math.inf, items[0])
    if rule is math.pow and items[0] < 0 and items[1] % 2 == 1:
        return -math.inf
    return math.inf


def reciprocal_root(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    return 1 / math.sqrt(x)


def minimum(a: Array, b: Array, lower: bool, keep_nan: bool) -> Array:
    """Lane by lane, by comparison and sign bits."""

    def lane(x: Any, y: Any) -> Any:
        if math.isnan(x) or math.isnan(y):
            if keep_nan or (math.isnan(x) and math.isnan(y)):
                return math.nan
            return y if math.isnan(x) else x
        key_x, key_y = (float(x), math.copysign(1, x)), (float(y), math.copysign(1, y))
        return x if (key_x <= key_y) == lower else y

    flat = zip(a.reshape(-1), b.reshape(-1), strict=True)
    return np.array([float(lane(x, y)) for x, y in flat]).reshape(a.shape).astype(a.dtype)


def clamp(op: Any, x: Array, low: Array, top: Array) -> Array:
    clamped = minimum(minimum(x, low, False, False), top, True, False)
    return (
        np.where(np.isnan(x), np.nan, clamped).astype(x.dtype) if op.nan.value == "all" else clamped
    )


def half_away(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.copysign(np.floor(np.abs(wide) + 0.5 * (np.abs(wide) < 2.0**52)), wide).astype(
        x.dtype
    )


def wrapping(rule: Callable[[int, int], int]) -> Oracle:
    """Wraps; defined where every promise of `overflow` holds."""

    def oracle(op: Any, a: Array, b: Array) -> Any:
        data = exact(True, lambda op, x, y: rule(x, y))(op, a, b)
        word, bits = op.overflow.value, width(a)
        fits = np.ones(a.shape, bool)
        for index in np.ndindex(a.shape):
            u, v = (int(x[index]) & ((1 << bits) - 1) for x in (a, b))
            s, t = (n - (1 << bits) if n >> (bits - 1) else n for n in (u, v))
            if "nuw" in word and not 0 <= rule(u, v) < 1 << bits:
                fits[index] = False
            if "nsw" in word and not -(1 << bits) <= 2 * rule(s, t) < 1 << bits:
                fits[index] = False
        return data, fits

    return oracle


INTEGER: dict[str, Oracle] = {
    "add": wrapping(lambda a, b: a + b),
    "sub": wrapping(lambda a, b: a - b),
    "mul": wrapping(lambda a, b: a * b),
    "sdiv": exact(True, divide),
    "udiv": exact(False, divide),
    "srem": exact(True, exact_remainder),
    "urem": exact(False, lambda op, a, b: a % b),
    "smulhi": exact(True, high),
    "umulhi": exact(False, high),
    "and": exact(False, lambda op, a, b: a & b),
    "or": exact(False, lambda op, a, b: a | b),
    "xor": exact(False, lambda op, a, b: a ^ b),
    "shl": exact(False, lambda op, a, b: a << b),
    "lshr": exact(False, lambda op, a, b: a >> b),
    "ashr": exact(True, lambda op, a, b: a >> (b % _bits(op))),
    "smin": exact(True, lambda op, a, b: min(a, b)),
    "smax": exact(True, lambda op, a, b: max(a, b)),
    "umin": exact(False, lambda op, a, b: min(a, b)),
    "umax": exact(False, lambda op, a, b: max(a, b)),
    "neg": exact(True, lambda op, a: -a),
    "iabs": exact(True, lambda op, a: abs(a)),
    "ctpop": exact(False, lambda op, a: bin(a).count("1")),
    "clz": exact(False, lambda op, a: _bits(op) - a.bit_length()),
}

FLOAT: dict[str, Oracle] = {
    "fadd": arithmetic(np.add),
    "fsub": arithmetic(np.subtract),
    "fmul": arithmetic(np.multiply),
    "fdiv": arithmetic(np.divide),
    "frem": nearest(lambda a, b: np.fmod(*(x.astype(np.float64) for x in (a, b))).astype(a.dtype)),
    "fma": arithmetic(fused_multiply_add),
    "fneg": nearest(np.negative),
    "fabs": nearest(np.abs),
    "copysign": nearest(np.copysign),
    "fminimum": nearest(lambda a, b: minimum(a, b, True, True)),
    "fmaximum": nearest(lambda a, b: minimum(a, b, False, True)),
    "fminnum": nearest(lambda a, b: minimum(a, b, True, False)),
    "fmaxnum": nearest(lambda a, b: minimum(a, b, False, False)),
    "clampf": clamp,
    "sqrt": nearest(lambda a: np.sqrt(a.astype(np.float64)).astype(a.dtype)),
    "floor": nearest(np.floor),
    "ceil": nearest(np.ceil),
    "ftrunc": nearest(np.trunc),
    "frint": nearest(np.rint),
    "fround": nearest(half_away),
}  # fmt: skip

MATH: dict[str, Oracle] = {
    name: functional(getattr(math, name))
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
        "cbrt", "pow",
    )
}  # fmt: skip
MATH["rsqrt"] = functional(reciprocal_root)


INTEGER_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def icmp(op: Any, a: Array, b: Array) -> Any:
    word, bits = op.predicate_.value, width(a)
    sign = word[0] == "s"

    def number(x: Any) -> int:
        n = int(x) & ((1 << bits) - 1)
        return n - (1 << bits) if sign and n >> (bits - 1) else n

    rule = INTEGER_RELATIONS[word[-2:]]
    flat = zip(a.reshape(-1), b.reshape(-1), strict=True)
    holds = np.array([rule(number(x), number(y)) for x, y in flat], bool).reshape(a.shape)
    return holds, ~holds


def fcmp(op: Any, a: Array, b: Array) -> Any:
    word = op.predicate_.value
    out = []
    for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True):
        nan = math.isnan(x) or math.isnan(y)
        if word in ("true", "false"):
            out.append(word == "true")
        elif word in ("ord", "uno"):
            out.append(nan == (word == "uno"))
        else:
            out.append(word[0] == "u" if nan else INTEGER_RELATIONS[word[1:]](float(x), float(y)))
    holds = np.array(out, bool).reshape(a.shape)
    return holds, ~holds


def dot(op: Any, a: Array, b: Array, c: Array) -> Any:
    """Integers exactly; floats have tests of their own."""
    if c.dtype != np.int32:
        return NotImplemented
    x, y = (_whole(v, s) for v, s in ((a, op.lhs_signed), (b, op.rhs_signed)))
    return (np.matmul(x, y) + c).astype(np.int64).astype(np.int32)


def _whole(x: Array, signed: bool) -> Array:
    n = x.astype(np.int64)
    return n if signed else n % (16 if x.dtype.name == "int4" else 256)


def gather(op: Any, source: Array, index: Array) -> Array:
    out = np.empty(index.shape, source.dtype)
    for place in np.ndindex(index.shape):
        where = list(place)
        where[op.axis] = int(index[place])
        out[place] = source[tuple(where)]
    return out


def extract(op: Any, x: Array, offsets: tuple[Any, ...]) -> Array:
    out = np.empty(shape_of(op.to), x.dtype)
    strides = op.strides or (1,) * x.ndim
    for place in np.ndindex(out.shape):
        at = [int(o) + p * s for o, p, s in zip(offsets, place, strides, strict=True)]
        out[place] = x[tuple(at)]
    return out


def insert(op: Any, x: Array, small: Array, offsets: tuple[Any, ...]) -> Array:
    out = np.array(x)
    strides = op.strides or (1,) * x.ndim
    for place in np.ndindex(small.shape):
        at = [int(o) + p * s for o, p, s in zip(offsets, place, strides, strict=True)]
        out[tuple(at)] = small[place]
    return out


def psi(op: Any, arms: tuple[Any, ...]) -> Any:
    p, a, q, b = arms
    shape = a.shape
    p, q = np.broadcast_to(p, shape), np.broadcast_to(q, shape)
    return np.where(q, b, a), p | q


def histogram(op: Any, x: Array, mask: Any) -> Array:
    bins = shape_of(op.to)[0]
    counted = x if mask is None else x[mask]
    return np.array([np.sum(counted == n) for n in range(bins)]).astype(dtype_of(op.to))


SHAPE: dict[str, Oracle] = {
    "make_range": lambda op: np.array(
        [op.start + i for i in range(shape_of(op.to)[0])], dtype_of(op.to)),
    "splat": lambda op, x: np.full(shape_of(op.to), x),
    "broadcast": lambda op, x: np.tile(
        x, [n // m for n, m in zip(shape_of(op.to), x.shape, strict=True)]),
    "reshape": lambda op, x: np.array(list(x.reshape(-1)), x.dtype).reshape(shape_of(op.to)),
    "expand_dims": lambda op, x: np.expand_dims(x, op.axis),
    "trans": lambda op, x: np.transpose(x, op.order),
    "join": lambda op, a, b: np.concatenate((a[..., None], b[..., None]), -1),
    "split": lambda op, x: (x[..., 0], x[..., 1]),
    "cat": lambda op, a, b: np.concatenate((a, b), op.axis),
    "gather": gather,
    "extract_slice": extract,
    "insert_slice": insert,
    "unsplat": lambda op, x: np.array(x.reshape(-1)[0]),
    "getelementptr": lambda op, p, i: np.array(
        [(int(a) + int(n) * element_of(op.pointer.type).pointee.bytes) % 2**64
         for a, n in zip(p.reshape(-1), i.reshape(-1), strict=True)], np.uint64).reshape(p.shape),
    "select": lambda op, c, a, b: np.where(c, a, b),
    "psi": psi,
    "icmp": icmp,
    "fcmp": fcmp,
    "histogram": histogram,
    "dot": dot,
    "multiple_of": lambda op, x: x,
    "contiguous": lambda op, x: x,
    "constant_run": lambda op, x: x,
}  # fmt: skip

ORACLES: dict[str, Oracle] = {**INTEGER, **FLOAT, **MATH, **CAST, **SHAPE}
