"""Functions of elements in Triton's Python, of every type, next to Python's and numpy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir.frontends.triton.language.arithmetic import FUNCTIONS
from tileir.frontends.triton.language.extra import libdevice

from .sources import kernel_of

INTEGERS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]


def results(expressions: dict[str, Any], **inputs: Any) -> list[Any]:
    """The values of expressions of the inputs, each of the type that is stated."""
    (size,) = {len(x) for x in inputs.values()}
    outputs = [np.zeros(size, kind) for kind in expressions.values()]
    lines = [f"def k({', '.join(f'{name}_' for name in inputs)}, outs):"]
    lines.append(f"    i = tl.arange(0, {size})")
    lines += [f"    {name} = tl.load({name}_ + i)" for name in inputs]
    lines += [f"    tl.store(outs[{n}] + i, {text})" for n, text in enumerate(expressions)]
    kernel = kernel_of("\n".join(lines), outside={"libdevice": libdevice})
    kernel[(1,)](*inputs.values(), tuple(outputs), on="interpreter")
    return outputs


def wrap(values: list[int], kind: str) -> Any:
    """Integers modulo the size of the type."""
    bits = np.dtype(kind).itemsize * 8
    return np.array([v % (1 << bits) for v in values], np.uint64).astype(f"uint{bits}").view(kind)


@for_each("kind", INTEGERS)
def test_functions_of_integers(kind: str) -> None:
    ends = np.iinfo(kind)
    few = sorted({ends.min, ends.min + 1, 0, 1, 2, 5, 7, ends.max // 2 + 1, ends.max - 1, ends.max})
    pairs = [(a, b) for a, b in product(few, repeat=2) if b and (a, b) != (ends.min, -1)]
    bits, is_signed = ends.bits, ends.min < 0
    meanings: dict[str, Callable[[int, int], int]] = {
        "tl.abs(x)": lambda a, _: abs(a), "tl.maximum(x, y)": max, "tl.minimum(x, y)": min,
        "tl.clamp(x, 1, 5)": lambda a, _: min(max(a, 1), 5),
        "tl.cdiv(x, y)": lambda a, b: -(-a // b),
        "tl.where(x > y, x, y)": max, "tl.where(x <= y, x, y)": min,
        "tl.where((x > 1).logical_and(y > 1), x, y)": lambda a, b: a if a > 1 and b > 1 else b,
        "(x > 1).logical_or(y > 1).to(x.dtype)": lambda a, b: int(a > 1 or b > 1),
    }  # fmt: skip
    if is_signed:
        meanings["tl.abs(-3 + 0 * x)"] = lambda a, _: 3
        meanings["tl.maximum(x, -1)"] = lambda a, _: max(a, -1)
    if bits >= 32:
        size = 1 << bits
        meanings["tl.umulhi(x, y)"] = lambda a, b: (a % size) * (b % size) >> bits
    x, y = (np.array(side, kind) for side in zip(*pairs, strict=True))
    outputs = results(dict.fromkeys(meanings, kind), x=x, y=y)
    for (text, meaning), actual in zip(meanings.items(), outputs, strict=True):
        expected = wrap([meaning(int(a), int(b)) for a, b in pairs], kind)
        np.testing.assert_array_equal(actual, expected, err_msg=f"{kind}: {text}")


def test_functions_of_numbers() -> None:
    """What is known while compiling."""
    cases = {
        f"tl.cdiv({a}, {b})": -(-a // b) for a, b in product((0, 1, 7, 8, -7, -8), (1, 2, 3, -3))
    }
    cases |= {"tl.maximum(3, -4)": 3, "tl.minimum(3, -4)": -4, "tl.abs(-5)": 5, "max(2, 7)": 7}
    cases |= {"tl.clamp(9, 1, 5)": 5, "min(2, 7)": 2, "abs(-6)": 6}
    outputs = results(dict.fromkeys(cases, "int32"), x=np.zeros(2, np.int32))
    assert [out.tolist() for out in outputs] == [[value] * 2 for value in cases.values()]


@for_each("kind", ["float16", "float32", "float64"])
def test_functions_of_floats(kind: str) -> None:
    few = [-math.inf, -1e4, -2.5, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 1e4, math.inf, math.nan]
    x, y = (np.array(side, kind) for side in zip(*product(few, repeat=2), strict=True))
    every = "propagate_nan=tl.PropagateNan.ALL"
    with np.errstate(all="ignore"):
        meanings = {
            "tl.abs(x)": np.abs(x), "-x": -x, "tl.maximum(x, y)": np.fmax(x, y),
            "tl.minimum(x, y)": np.fmin(x, y), f"tl.maximum(x, y, {every})": np.maximum(x, y),
            f"tl.minimum(x, y, {every})": np.minimum(x, y),
            "tl.clamp(x, -1.0, 2.0)": np.fmin(np.fmax(x, kind_of(kind, -1)), kind_of(kind, 2)),
            f"tl.clamp(x, -1.0, 2.0, {every})": np.clip(x, kind_of(kind, -1), kind_of(kind, 2)),
            "(x != x).to(x.dtype)": np.isnan(x),
            "tl.floor(x)": np.floor(x), "tl.ceil(x)": np.ceil(x),
        }  # fmt: skip
        if kind != "float16":
            meanings["tl.fdiv(x, y)"] = meanings["tl.div_rn(x, y)"] = x / y
            meanings["tl.fma(x, y, x)"] = x * y + x
    for (text, expected), actual in zip(
        meanings.items(), results(dict.fromkeys(meanings, kind), x=x, y=y), strict=True
    ):
        np.testing.assert_allclose(actual, expected.astype(kind), rtol=1e-6, err_msg=text)


def kind_of(kind: str, value: float) -> Any:
    """A number of a type."""
    return np.dtype(kind).type(value)


NUMPY: dict[str, Any] = {
    **{name: getattr(np, name) for name in (
        "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "sinh",
        "cosh", "tanh", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint", "copysign", "fmod",
    )},
    **{name: getattr(np, name.replace("a", "arc", 1)) for name in (
        "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2",
    )},
    "sqrt_rn": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "nearbyint": np.rint, "pow": np.power,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
}  # fmt: skip


@for_each("kind", ["float64", "float32", "int32"])
def test_functions_that_are_one_op(kind: str) -> None:
    """Integers become float32."""
    assert NUMPY.keys() == FUNCTIONS.keys()
    x = np.array([-2.5, -0.875, -0.5, 0.25, 0.5, 0.75, 1.5, 2.5, 40.5])
    y = np.array([0.5, -3.0, 1.25, 2.0, -0.75, 1.0, 3.0, -2.0, 7.0])
    x, y = x.astype(kind), y.astype(kind) + (kind == "int32") * 9
    result_type = "float64" if kind == "float64" else "float32"
    two = ("pow", "atan2", "copysign", "fmod")
    texts = {f"libdevice.{name}(x{', y' * (name in two)})": result_type for name in NUMPY}
    precision = 1e-12 if kind == "float64" else 4e-6
    with np.errstate(all="ignore"):
        for name, actual in zip(NUMPY, results(texts, x=x, y=y), strict=True):
            operands = (x * 1.0, y * 1.0)[: 1 + (name in two)]
            expected = NUMPY[name](*operands)
            np.testing.assert_allclose(actual, expected, precision, err_msg=name)


@triton.jit
def half(n, N: tl.constexpr, M: tl.constexpr = 5):
    tl.static_assert(n.dtype == tl.int32)
    tl.static_assert(isinstance(N, int) and isinstance(M, int))
    return tl.full([N], 0, tl.int32) + n // 2 + M // 2


@triton.jit
def halves(out):
    four, minus = tl.cast(4, tl.int32), tl.cast(-7, tl.int32)
    tl.store(out + tl.arange(0, 4), half(minus, four))
    tl.store(out + 4 + tl.arange(0, 4), half(minus, N=four, M=minus))


def test_scalars_as_arguments_of_functions() -> None:
    """A parameter that is a constexpr is a number of Python, whose quotient is rounded down; others
    are scalars, whose quotient is rounded to zero."""
    out = np.zeros(8, np.int32)
    halves[(1,)](out, on="interpreter")
    assert out.tolist() == [-3 + 2] * 4 + [-3 - 4] * 4
