"""Operands of one type, each type at its ends: relations, quotients and remainders, and integers
that become floats of 8 bits. By default, in the interpreter."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton.sources import kernel_of
from tests.sizes import for_each
from tileir.frontends.triton.dtypes import ALL, ARRAYS

INTEGERS = [np.dtype(f"{s}int{n}") for s in ("", "u") for n in (8, 16, 32, 64)]
FLOATS = [np.dtype(f"float{n}") for n in (16, 32, 64)]
RELATIONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


@triton.jit
def compare(x, y, out, N: tl.constexpr, BOOLS: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    if BOOLS:
        a, b = a != 0, b != 0
    tl.store(out + i, (a < b).to(tl.int8))
    tl.store(out + N + i, (a <= b).to(tl.int8))
    tl.store(out + 2 * N + i, (a > b).to(tl.int8))
    tl.store(out + 3 * N + i, (a >= b).to(tl.int8))
    tl.store(out + 4 * N + i, (a == b).to(tl.int8))
    tl.store(out + 5 * N + i, (a != b).to(tl.int8))


@triton.jit
def divide(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + N + i, a % b)


@triton.jit
def narrow(x, out, N: tl.constexpr, TO: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(TO).to(tl.float32))


def numbers(kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The ends of a type, its middle, and small numbers; of floats also what is no number."""
    if kind.kind == "f":
        return np.array([-np.inf, -1.5, -0.0, 0.0, 1.5, np.inf, np.nan, 7], kind)
    ends = np.iinfo(kind)
    half = ends.max // 2 + 1
    few = [ends.min, ends.min + 1, ends.max, ends.max - 1, half, 0, 1, 7]
    return np.array(few, kind)


def pairs(kind: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x, y = zip(*product(numbers(kind), repeat=2), strict=True)
    return np.array(x, kind), np.array(y, kind)


@for_each(
    ("kind", "bools"), [*((k, False) for k in (*INTEGERS, *FLOATS)), (np.dtype("int8"), True)]
)
def test_relations(kind: np.dtype[Any], bools: bool) -> None:
    """A NaN is unequal to all; true is more than false."""
    x, y = pairs(kind)
    out = np.zeros(6 * x.size, np.int8)
    compare[(1,)](x, y, out, N=x.size, BOOLS=bools, on="interpreter")
    a, b = (x != 0, y != 0) if bools else (x, y)
    expected = [relation(a, b) for relation in RELATIONS]
    np.testing.assert_array_equal(out.reshape(6, -1), np.array(expected).astype(np.int8))


@for_each("kind", INTEGERS)
def test_quotients_and_remainders(kind: np.dtype[Any]) -> None:
    """Rounded to zero, by the sign of the type."""
    x, y = pairs(kind)
    low = np.iinfo(kind).min
    y[(y == 0) | ((x == low) & (y.astype(object) == -1))] = 3
    out = np.zeros(2 * x.size, kind)
    divide[(1,)](x, y, out, N=x.size, on="interpreter")
    a, b = x.astype(object), y.astype(object)
    quotients = [
        abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(a, b, strict=True)
    ]
    expected = [*quotients, *(p - n * q for p, q, n in zip(a, b, quotients, strict=True))]
    assert out.astype(object).tolist() == expected


EIGHT_BITS = {
    "float8e4nv": (tl.float8e4nv, ml_dtypes.float8_e4m3fn),
    "float8e5": (tl.float8e5, ml_dtypes.float8_e5m2),
}


@for_each(("kind", "name"), product(INTEGERS, EIGHT_BITS))
def test_integers_become_the_nearest_floats_of_8_bits(kind: np.dtype[Any], name: str) -> None:
    """The largest where they are beyond it."""
    to, dtype = EIGHT_BITS[name]
    x = np.concatenate([numbers(kind), np.array([2, 3, 9, 17, 19, 100, 119, 127], kind)])
    out = np.zeros(x.size, np.float32)
    narrow[(1,)](x, out, N=x.size, TO=to, on="interpreter")
    largest = float(ml_dtypes.finfo(dtype).max)
    expected = np.clip(x.astype(np.float32), -largest, largest).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(out, expected)


NUMBERS = {
    **{str(n): n for n in (*INTEGERS, *FLOATS)},
    **{n: np.dtype(getattr(ml_dtypes, n)) for n in ("bfloat16", "float8_e4m3fn", "float8_e5m2")},
    "bool": np.dtype(bool),
}


@for_each("name", NUMBERS)
def test_types_have_the_sizes_and_ends_of_numbers(name: str) -> None:
    kind, number = ARRAYS[name], NUMBERS[name]
    bits = 1 if name == "bool" else 8 * number.itemsize
    assert (kind.itemsize, kind.primitive_bitwidth) == (number.itemsize, bits)
    assert tl.block_type(kind, [4, 8]).nbytes == 32 * bits // 8 or name == "bool"
    assert kind.is_int() == (name in ("bool", *map(str, INTEGERS))) != kind.is_floating()
    assert kind.is_int_signed() == (number.kind == "i")
    if name == "bool":
        assert (kind.bounds, kind.mangle()) == ((0, 1), "u1")
    elif kind.is_int():
        ends = np.iinfo(number)
        assert (kind.get_int_min_value(), kind.get_int_max_value()) == (ends.min, ends.max)
        assert kind.mangle() == f"{number.kind}{bits}" and kind.int_bitwidth == bits
    else:
        format = ml_dtypes.finfo(number)
        # the type without infinities has one more exponent
        bias = format.maxexp - 1 - (name == "float8_e4m3fn")
        assert (kind.fp_mantissa_width, kind.exponent_bias) == (format.nmant, bias)


QUESTIONS = {
    "bool": {"int1"}, "int": {"int1", *map(str, INTEGERS)}, "block": set(), "const": set(),
    "int_signed": {str(n) for n in INTEGERS if n.kind == "i"}, "void": set(), "ptr": set(),
    "int_unsigned": {"int1", *(str(n) for n in INTEGERS if n.kind == "u")},
    "floating": {"fp8e4nv", "fp8e5", "fp16", "bf16", "fp32", "fp64"}, "fp8": {"fp8e4nv", "fp8e5"},
    "standard_floating": {"fp16", "bf16", "fp32", "fp64"}, "fp8e4b15": set(), "fp8e5b16": set(),
}  # fmt: skip
"""Questions about types, and the types of which they are true."""


def test_types_know_what_they_are() -> None:
    """Each is the type of its own name and no other; no name asks about pointers' elements."""
    for kind, question in product(ALL, (*QUESTIONS, *(other.name for other in ALL))):
        expected = kind.name in QUESTIONS.get(question, {question})
        assert getattr(kind, f"is_{question}")() == expected, (kind, question)
    for kind, question in product(ALL, (*QUESTIONS, *(other.name for other in ALL))):
        for of_several in (tl.pointer_type(kind), tl.block_type(kind, [4])):
            if question in ("ptr", "block"):
                continue
            assert not getattr(of_several, f"is_{question}")(), (of_several, question)
    for kind, name in product((*ALL, tl.pointer_type(tl.int8)), ("is_number", "int8", "isint8")):
        assert not hasattr(kind, name)


OPERATORS = ("+", "-", "*", "//", "%", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=")


@for_each("kind", [kind for kind in INTEGERS if kind.itemsize in (1, 4)])
def test_what_is_known_while_compiling_is_what_a_kernel_computes(kind: Any) -> None:
    """With numbers at the ends of the type, and on both sides of 0."""
    least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    numbers = [n for n in (-7, -1, 0, 2, 7, most) if n >= least] + [least] * (least < 0)
    lines = ["def k(x, out):"]
    for number in numbers:
        lines.append(f"    v{number % 2**64} = tl.full((), {number}, tl.{kind})")
        lines.append(f"    w{number % 2**64} = tl.load(x + {numbers.index(number)})")
    results = []
    for (x, y), sign in product(product(numbers, repeat=2), OPERATORS):
        if sign in ("//", "%") and (y == 0 or (x, y) == (least, -1)):
            continue
        one, other = (f"{p}{x % 2**64} {sign} {p}{y % 2**64}" for p in "vw")
        lines.append(f"    tl.store(out + {len(results)}, ({one}) == ({other}))")
        results.append((x, sign, y))
    out = np.zeros(len(results), np.int8)
    kernel_of("\n".join(lines))[(1,)](np.array(numbers, kind), out, on="interpreter")
    assert not [one for one, equal in zip(results, out, strict=True) if not equal]
