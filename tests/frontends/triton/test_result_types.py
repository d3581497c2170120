"""The types of results (Triton language reference, "Type promotion", and the functions of
`triton.language.standard`): bfloat16 and small integers are computed wider, others are kept."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.frontends.triton.sources import kernel_of
from tests.sizes import for_each

TYPES: dict[str, Any] = {
    **{f"{s}int{n}": np.dtype(f"{s}int{n}") for n in (8, 16, 32, 64) for s in ("", "u")},
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32,
    "float64": np.float64,
}  # fmt: skip


def same(kind: str) -> str:
    return kind


def always(result: str) -> Any:
    return lambda kind: result


def without_bfloat16(kind: str) -> str:
    """The type of minima and maxima of two tensors."""
    return "float32" if kind == "bfloat16" else kind


def total(kind: str) -> str:
    """The type of sums: integers have 32 bits at least, and their sign."""
    small = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
    return small.get(kind, without_bfloat16(kind))


def next_to_int32(kind: str) -> str:
    """The type of a minimum with a number that is an integer, which has its own type."""
    return "int32" if kind in ("int8", "int16", "uint8", "uint16") else without_bfloat16(kind)


def quotient(kind: str) -> str:
    return "float64" if kind == "float64" else "float32"


def remainder(kind: str) -> str:
    return "float32" if kind in ("float16", "bfloat16") else kind


def extreme(kind: str) -> str:
    """The type of the extreme of a tensor: everything has 32 bits at least."""
    return "float32" if kind in ("float16", "bfloat16") else total(kind)


def function(kind: str) -> str:
    """The type of functions of floats."""
    return "float32" if "int" in kind else kind


RULES = {
    "x + x": same, "x - 1": same, "-x": same, "x * x": same, "x % x": remainder,
    "x / x": quotient, "x / 2": quotient, "2 / x": quotient, "x ** x": function,
    "x < x": always("int1"), "x != 1": always("int1"),
    "tl.maximum(x, x)": without_bfloat16, "tl.minimum(x, 1)": next_to_int32,
    "tl.clamp(x, x, x)": without_bfloat16, "tl.abs(x)": same, "tl.where(x > 0, x, 0)": same,
    "tl.sum(x, 0)": total, "tl.cumsum(x, 0)": total, "tl.cumprod(x, 0)": total,
    "tl.sum(x, 0, dtype=tl.float64)": always("float64"), "tl.max(x, 0)": extreme,
    "tl.min(x)": extreme, "tl.max(x, 0, return_indices=True)[0]": extreme,
    "tl.min(x, 0, return_indices=True)[1]": always("int32"),
    "tl.argmax(x, 0)": always("int32"), "tl.sort(x)": same, "tl.flip(x)": same,
    "tl.exp(x)": function, "tl.floor(x)": function, "tl.sigmoid(x)": quotient,
    "tl.softmax(x)": quotient, "tl.fdiv(x, x)": quotient, "tl.div_rn(x, x)": quotient,
    "tl.fma(x, x, x)": same, "tl.join(x, x)": same, "tl.broadcast_to(x, (8, 8))": same,
    "tl.zeros_like(x)": same, "tl.full_like(x, 1)": same, "tl.gather(x, i, 0)": same,
    "tl.load(p + i, mask=i < 2)": same,
}  # fmt: skip
"""Expressions of a tensor `x`, by the type of their result."""


DEFAULT = ("uint8", "int64", "bfloat16")
"""Types of the default tests."""


@pytest.mark.parametrize(
    "kind", [k if k in DEFAULT else pytest.param(k, marks=pytest.mark.slow) for k in TYPES]
)
def test_results_of_operators_and_functions(kind: str) -> None:
    lines = ["def k(p):", "    i = tl.arange(0, 8)", "    x = tl.load(p + i)"]
    lines += [
        f"    tl.static_assert(({text}).dtype == tl.{rule(kind)}, {text!r})"
        for text, rule in RULES.items()
        if "int" not in kind or "fma" not in text
    ]
    kernel_of("\n".join(lines))[(1,)](np.ones(8, TYPES[kind]), on="interpreter")


@pytest.mark.parametrize(
    ("a", "b", "out", "acc"),
    [
        ("float16", "float16", None, "float32"),
        ("float16", "float16", "float16", "float16"),
        ("bfloat16", "bfloat16", None, "float32"),
        ("bfloat16", "bfloat16", "bfloat16", "float32"),
        ("float32", "float32", None, "float32"),
        ("float64", "float64", None, "float64"),
        ("int8", "int8", None, "int32"),
        ("uint8", "int8", "float16", "int32"),
    ],
)
def test_results_of_dots(a: str, b: str, out: str | None, acc: str) -> None:
    option = "" if out is None else f", out_dtype=tl.{out}"
    lines = [
        "def k():",
        f"    x, y = tl.zeros((16, 32), tl.{a}), tl.zeros((32, 16), tl.{b})",
        f"    tl.static_assert(tl.dot(x, y{option}).dtype == tl.{acc})",
        f"    z = tl.zeros((16, 16), tl.{acc})",
        f"    tl.static_assert(tl.dot(x, y, z{option}).dtype == tl.{acc})",
    ]
    kernel_of("\n".join(lines))[(1,)](on="interpreter")


@for_each(("text", "expected"), [
    ("x ** y", [1, 32, 0.25, 81]), ("x ** 2", [1, 4, 4, 9]), ("2 ** y", [1, 32, 0.25, 16]),
    ("f ** 0.5", [1, 2, 3, 4]), ("4 ** (f / 2)", [2, 16, 512, 65536]),
])  # fmt: skip
def test_powers(text: str, expected: list[float]) -> None:
    """Integers become float32."""
    lines = [
        "def k(p, q, r, out):", "    i = tl.arange(0, 4)",
        "    x, y, f = tl.load(p + i), tl.load(q + i), tl.load(r + i)",
        f"    tl.store(out + i, {text})",
    ]  # fmt: skip
    x, y = np.array([1, 2, -2, 3], np.int32), np.array([0, 5, -2, 4], np.int32)
    out, f = np.zeros(4, np.float32), np.array([1, 4, 9, 16], np.float32)
    kernel_of("\n".join(lines))[(1,)](x, y, f, out, on="interpreter")
    np.testing.assert_allclose(out, expected, 1e-6)
