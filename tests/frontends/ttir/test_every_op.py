"""Ops on elements, by their names in MLIR's dialects `arith` and `math` and in Triton's, against
numpy. One kernel has a row of the result for each op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileir.frontends.ttir import read
from tileir.interp import interpret

N = 8
TYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def results(
    lines: Mapping[str, str], kinds: tuple[str, ...], result: str, *inputs: Any
) -> dict[str, Any]:
    """The result of each line, in which `%r` is defined from `%a`, `%b` and so on, of `kinds`."""
    names = "abc"[: len(kinds)]
    parameters = [f"%{n}p: !tt.ptr<{k}>" for n, k in zip(names, kinds, strict=True)]
    body = [f"%i = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>"]

    def place(name: str, base: str, kind: str, at: str = "%i") -> list[str]:
        pointers = f"tensor<{N}x!tt.ptr<{kind}>>"
        return [
            f"%{name}s = tt.splat {base} : !tt.ptr<{kind}> -> {pointers}",
            f"%{name}q = tt.addptr %{name}s, {at} : {pointers}, tensor<{N}xi32>",
        ]

    for n, kind in zip(names, kinds, strict=True):
        body += place(n, f"%{n}p", kind)
        body.append(f"%{n} = tt.load %{n}q : tensor<{N}x!tt.ptr<{kind}>>")
    for row, line in enumerate(lines.values()):
        body += [
            f"%k{row} = arith.constant dense<{row * N}> : tensor<{N}xi32>",
            f"%at{row} = arith.addi %i, %k{row} : tensor<{N}xi32>",
            *place(f"o{row}", "%o", result, f"%at{row}"),
            line.replace("%r", f"%r{row}"),
            f"tt.store %o{row}q, %r{row} : tensor<{N}x!tt.ptr<{result}>>",
        ]
    source = "\n".join([
        f"module {{\n  tt.func public @k({', '.join(parameters)}, %o: !tt.ptr<{result}>) {{",
        *body, "    tt.return\n  }\n}",
    ])  # fmt: skip
    out = np.zeros(N * len(lines), TYPES[result])
    interpret(read(source), "k", 1, [*(x.copy() for x in inputs), out])
    return dict(zip(lines, out.reshape(-1, N), strict=True))


def as_unsigned(x: Any) -> Any:
    return x.view(f"u{x.dtype.name}")


def ceiling(x: Any, y: Any) -> Any:
    return x // y + (x % y > 0)


def quotient(x: Any, y: Any) -> Any:
    x, y = x.astype(np.int64), y.astype(np.int64)
    return (np.abs(x) // np.abs(y)) * np.sign(x) * np.sign(y)


A = np.array([7, -7, 100, -128, 5, -1, 127, 64], np.int8)
B = np.array([3, 3, -7, 7, 5, 2, -2, 6], np.int8)
INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "addi": lambda x, y: x + y, "subi": lambda x, y: x - y, "muli": lambda x, y: x * y,
    "andi": lambda x, y: x & y, "ori": lambda x, y: x | y, "xori": lambda x, y: x ^ y,
    "divsi": quotient, "remsi": lambda x, y: x - quotient(x, y) * y,
    "divui": lambda x, y: as_unsigned(x) // as_unsigned(y),
    "remui": lambda x, y: as_unsigned(x) % as_unsigned(y),
    "floordivsi": lambda x, y: x // y, "ceildivsi": lambda x, y: -(-x.astype(np.int64) // y),
    "ceildivui": lambda x, y: ceiling(as_unsigned(x), as_unsigned(y)),
    "minsi": np.minimum, "maxsi": np.maximum,
    "minui": lambda x, y: np.minimum(as_unsigned(x), as_unsigned(y)),
    "maxui": lambda x, y: np.maximum(as_unsigned(x), as_unsigned(y)),
    "shli": lambda x, y: x << (y & 7), "shrsi": lambda x, y: x >> (y & 7),
    "shrui": lambda x, y: as_unsigned(x) >> as_unsigned(y & 7),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["i8", "i64"])
def test_ops_of_integers(kind: str) -> None:
    x, y = (v.astype(TYPES[kind]) for v in (A, B))
    seven = f"%s = arith.constant dense<7> : tensor<{N}x{kind}>"
    lines = {n: f"%r = arith.{n} %a, %b : tensor<{N}x{kind}>" for n in INTEGERS}
    for n in ("shli", "shrsi", "shrui"):
        masked = (
            seven.replace("%s", f"%{n}") + f"\n%{n}m = arith.andi %b, %{n} : tensor<{N}x{kind}>"
        )
        lines[n] = f"{masked}\n{lines[n].replace('%b', f'%{n}m')}"
    for name, row in results(lines, (kind, kind), kind, x, y).items():
        with np.errstate(over="ignore"):
            expected = np.asarray(INTEGERS[name](x, y)).astype(TYPES[kind])
        np.testing.assert_array_equal(row, expected, name)


BITS = {
    "math.absi": lambda n: abs(n), "math.ctpop": lambda n: (n % 2**32).bit_count(),
    "math.ctlz": lambda n: 32 - (n % 2**32).bit_length(),
}  # fmt: skip


def test_ops_of_the_bits_of_integers() -> None:
    x = np.array([0, 1, -1, 255, -256, 2**31 - 1, 12, -12], np.int32)
    lines = {n: f"%r = {n} %a : tensor<{N}xi32>" for n in BITS}
    lines["high"] = f"%r = tt.mulhiui %a, %a : tensor<{N}xi32>"
    rows = results(lines, ("i32",), "i32", x)
    for name, function in BITS.items():
        assert rows[name].tolist() == [function(int(n)) for n in x], name
    wide = [((int(n) % 2**32) ** 2 >> 32) for n in x]
    assert as_unsigned(rows["high"]).tolist() == wide


NAN = math.nan
F = np.array([1.5, -2.5, 0.5, 2.0, -0.0, NAN, 3.75, -1.25], np.float32)
G = np.array([2.0, 0.75, NAN, -2.0, 0.0, NAN, 0.5, -3.0], np.float32)
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addf": lambda x, y: x + y, "arith.subf": lambda x, y: x - y,
    "arith.mulf": lambda x, y: x * y, "arith.remf": np.fmod,
    "arith.minimumf": np.minimum, "arith.maximumf": np.maximum, "arith.minnumf": np.fmin,
    "arith.maxnumf": np.fmax, "math.copysign": np.copysign, "tt.precise_divf": np.divide,
    "arith.divf": np.divide, "math.atan2": np.arctan2,
}  # fmt: skip


def test_ops_of_two_floats() -> None:
    """Minima and maxima propagate NaNs (`minimumf`) or leave them out (`minnumf`)."""
    lines = {n: f"%r = {n} %a, %b : tensor<{N}xf32>" for n in PAIRS}
    for name, row in results(lines, ("f32", "f32"), "f32", F, G).items():
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(row, PAIRS[name](F, G), 3e-7, err_msg=name)
    powers = {"power": f"%r = math.powf %a, %b : tensor<{N}xf32>"}
    x, y = np.linspace(0.5, 3, N, dtype=np.float32), np.linspace(-2, 2, N, dtype=np.float32)
    np.testing.assert_allclose(results(powers, ("f32",) * 2, "f32", x, y)["power"], x**y, 1e-6)


U = np.array([0.0625, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 0.9375], np.float32)
FUNCTIONS: dict[str, Callable[[float], float]] = {
    **{n: getattr(math, n) for n in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh", "erf", "erfc", "sqrt", "cbrt",
        "floor", "ceil", "trunc",
    )},
    "rsqrt": lambda x: 1 / math.sqrt(x), "absf": abs,
    "roundeven": round, "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
}  # fmt: skip


def test_functions_of_floats() -> None:
    lines = {n: f"%r = math.{n} %a : tensor<{N}xf32>" for n in FUNCTIONS}
    for name, row in results(lines, ("f32",), "f32", U).items():
        np.testing.assert_allclose(row, [FUNCTIONS[name](float(u)) for u in U], 1e-6, err_msg=name)
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -1.25, 7.75], np.float32)
    names = ("floor", "ceil", "trunc", "round", "roundeven", "absf")
    for name, row in results({n: lines[n] for n in names}, ("f32",), "f32", x).items():
        assert row.tolist() == [FUNCTIONS[name](float(n)) for n in x], name
    (row,) = results(
        {"acosh": f"%r = math.acosh %a : tensor<{N}xf32>"}, ("f32",), "f32", U + 1
    ).values()
    np.testing.assert_allclose(row, np.arccosh(U + 1), 1e-6)
    fma = {"fma": f"%r = math.fma %a, %b, %a : tensor<{N}xf32>"}
    np.testing.assert_allclose(results(fma, ("f32",) * 2, "f32", F, G)["fma"], F * G + F, 1e-6)


RELATIONS = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
    "sge": np.greater_equal, "ult": np.less, "ule": np.less_equal, "ugt": np.greater,
    "uge": np.greater_equal,
}  # fmt: skip


def test_comparisons() -> None:
    """Of floats, `o` relations are false and `u` relations true where an operand is a NaN."""
    extended = f"\n%r = arith.extui %NAME : tensor<{N}xi1> to tensor<{N}xi32>"
    integers = {
        n: f"%{n} = arith.cmpi {n}, %a, %b : tensor<{N}xi32>{extended.replace('NAME', n)}"
        for n in RELATIONS
    }
    x, y = np.array([1, -1, 5, -7] * 2, np.int32), np.array([-1, 1, 5, -6] * 2, np.int32)
    for name, row in results(integers, ("i32",) * 2, "i32", x, y).items():
        a, b = (as_unsigned(v) if name[0] == "u" else v for v in (x, y))
        np.testing.assert_array_equal(row, RELATIONS[name](a, b), name)
    floats = {
        f"{k}{n[1:]}": f"%{k}{n[1:]} = arith.cmpf {k}{n[1:]}, %a, %b : tensor<{N}xf32>"
        + extended.replace("NAME", f"{k}{n[1:]}")
        for n in ("_eq", "une", "slt", "sle", "sgt", "sge") for k in "ou"
    }  # fmt: skip
    for name, row in results(floats, ("f32",) * 2, "i32", F, G).items():
        relation = RELATIONS.get(name[1:]) or RELATIONS[f"s{name[1:]}"]
        nan = np.isnan(F) | np.isnan(G)
        expected = np.where(nan, name[0] == "u", relation(F, G))
        np.testing.assert_array_equal(row, expected, name)


CASTS = [
    ("arith.extsi", "i8", "i32", A.astype(np.int32)),
    ("arith.extui", "i8", "i32", as_unsigned(A).astype(np.int32)),
    ("arith.trunci", "i32", "i8", (A.astype(np.int32) * 77).astype(np.int8)),
    ("arith.sitofp", "i8", "f32", A.astype(np.float32)),
    ("arith.uitofp", "i8", "f32", as_unsigned(A).astype(np.float32)),
    ("arith.fptosi", "f32", "i8", np.trunc(np.linspace(-100, 100, N)).astype(np.int8)),
    ("arith.fptoui", "f32", "i8", np.linspace(0, 250, N).astype(np.uint8).view(np.int8)),
    ("arith.extf", "f16", "f32", U),
    ("arith.truncf", "f32", "f16", (U / 3).astype(np.float16)),
    ("tt.bitcast", "f32", "i32", U.view(np.int32)),
]


@pytest.mark.parametrize(("name", "old", "new", "expected"), CASTS, ids=[c[0] for c in CASTS])
def test_casts(name: str, old: str, new: str, expected: Any) -> None:
    sources = {
        "arith.trunci": A.astype(np.int32) * 77, "arith.fptosi": np.linspace(-100, 100, N),
        "arith.fptoui": np.linspace(0, 250, N), "arith.extf": U, "arith.truncf": U / 3,
        "tt.bitcast": U,
    }  # fmt: skip
    x = np.asarray(sources.get(name, A)).astype(TYPES[old])
    to = "->" if name.startswith("tt.") else "to"
    line = f"%r = {name} %a : tensor<{N}x{old}> {to} tensor<{N}x{new}>"
    (row,) = results({name: line}, (old,), new, x).values()
    np.testing.assert_array_equal(row, expected)


def test_addresses_are_numbers() -> None:
    """The address of a pointer, as a pointer again."""
    pointers = f"tensor<{N}x!tt.ptr<f32>>"
    line = f"""%n = tt.ptr_to_int %aq : {pointers} -> tensor<{N}xi64>
    gpu.barrier
    %q = tt.int_to_ptr %n : tensor<{N}xi64> -> {pointers}
    %r = tt.load %q : {pointers}"""
    (row,) = results({"load": line}, ("f32",), "f32", U).values()
    np.testing.assert_array_equal(row, U)
