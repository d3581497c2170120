"""Numerics of Triton's language: the instruction of every function, and its accuracy.

What Triton 3.7 compiles each function to was read from its PTX for sm_90."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import tileir.backend
import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir.frontends import ttir
from tileir.frontends.triton.language.extra import libdevice
from tileir.textual import print_module

EXPRESSIONS: dict[str, str] = {
    "tl.exp(x)": "ex2.approx.f32",
    "tl.math.exp(x)": "ex2.approx.f32",
    "x.exp()": "ex2.approx.f32",
    "tl.exp2(x)": "ex2.approx.ftz.f32",
    "libdevice.exp2(x)": "ex2.approx.ftz.f32",
    "tl.sqrt(x)": "sqrt.approx.ftz.f32",
    "libdevice.sqrt(x)": "sqrt.approx.ftz.f32",
    "tl.rsqrt(x)": "rsqrt.approx.ftz.f32",
    "libdevice.rsqrt(x)": "rsqrt.approx.ftz.f32",
    "x / (x + 1)": "div.full.f32",
    "1 / x": "div.full.f32",
    "tl.fdiv(x, x + 1)": "div.full.f32",
    "tl.fdiv(x, x + 1, ieee_rounding=True)": "div.full.f32",
    "tl.sigmoid(x)": "ex2.approx.f32 div.full.f32",
    "tl.softmax(x)": "ex2.approx.f32",
    "x * x + 1.5": "fma.rn.f32",
    "x * x - x": "fma.rn.f32",
    "tl.sqrt_rn(x)": "sqrt.rn.f32",
    "tl.div_rn(x, x + 1)": "div.rn.f32",
    "libdevice.div_rn(x, x + 1)": "div.rn.f32",
    "libdevice.fast_expf(x)": "ex2.approx.ftz.f32",
    "libdevice.fast_exp10f(x)": "ex2.approx.ftz.f32",
    "libdevice.fast_logf(x)": "lg2.approx.ftz.f32",
    "libdevice.fast_log2f(x)": "lg2.approx.ftz.f32",
    "libdevice.fast_log10f(x)": "lg2.approx.ftz.f32",
    "libdevice.fast_sinf(x)": "sin.approx.ftz.f32",
    "libdevice.fast_cosf(x)": "cos.approx.ftz.f32",
    "libdevice.fast_dividef(x, x + 1)": "rcp.approx.ftz.f32",
}
"""Expressions of f32 by the approximate or exact instructions that they are."""

ACCURATE = [
    "tl.log(x)", "tl.log2(x)", "tl.sin(x)", "tl.cos(x)", "tl.erf(x)", "libdevice.exp(x)",
    "libdevice.log(x)", "libdevice.log1p(x)", "libdevice.pow(x, x)", "libdevice.tan(x)",
]  # fmt: skip
"""Expressions that are accurate functions, of several instructions."""

_APPROXIMATE = r"\b(?:(?:ex2|lg2|sin|cos|tanh|sqrt|rsqrt|div|rcp)\.\S*(?:approx|full)\S*)"


def kernel_of(expression: str) -> Any:
    """A kernel that stores an expression of what it loads."""
    return _kernel(expression)


@cache
def _kernel(expression: str) -> Any:
    import linecache

    name = f"<kernel {expression}>"
    text = f"def kernel(y, x, B: tl.constexpr):\n    i = tl.arange(0, B)\n    x = tl.load(x + i)\n    tl.store(y + i, {expression})\n"  # noqa: E501
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"tl": tl, "libdevice": libdevice}
    exec(compile(text, name, "exec"), names)
    return triton.jit(names["kernel"])


def ptx_of(expression: str, kind: Any = np.float32, **options: Any) -> str:
    a = np.zeros(128, kind)
    module = kernel_of(expression).warmup(a, a, B=128, grid=(1,), **options)
    return tileir.backend.compile(module, target="sm_90a").ptx


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_instruction_is_triton_s(expression: str) -> None:
    ptx = ptx_of(expression)
    for instruction in EXPRESSIONS[expression].split():
        assert re.search(rf"\b{re.escape(instruction)}\s", ptx), instruction
    if ".rn." not in EXPRESSIONS[expression]:
        assert not re.search(r"\b(?:div|sqrt|rcp)\.rn", ptx)


@for_each("expression", ACCURATE)
def test_what_is_accurate_in_triton_is_no_approximation(expression: str) -> None:
    a = np.zeros(128, np.float32)
    text = print_module(kernel_of(expression).warmup(a, a, B=128, grid=(1,)))
    assert "fast" not in text


@pytest.mark.parametrize(
    "expression", ["tl.exp(x)", "tl.exp2(x)", "tl.sqrt(x)", "tl.rsqrt(x)", "1 / x", "x / (x + 1)"]
)
def test_float64_is_accurate(expression: str) -> None:
    ptx = ptx_of(expression, np.float64)
    """Reciprocals and inverse roots start from an instruction with 20 bits."""
    assert not re.search(_APPROXIMATE.replace("|rcp", "").replace("|rsqrt", ""), ptx)
    assert "div.rn.f64" in ptx or "/" not in expression or "rcp.rn.f64" in ptx


@for_each(
    "expression", ["1 / x", "x / (x + 1)", "x / 3", "tl.fdiv(x, x + 1)", "x / x.to(tl.int32)"]
)
@for_each("kind", [np.float16, np.float32, np.float64, np.int32, np.int64])
def test_quotients_of_float32_alone_are_approximate(expression: str, kind: Any) -> None:
    a = np.zeros(128, kind)
    text = print_module(kernel_of(expression).warmup(a, a, B=128, grid=(1,)))
    (line,) = (line for line in text.splitlines() if " = fdiv " in line)
    assert ("fast" in line) == ("fdiv f32" in line) == (kind is not np.float64)


@pytest.mark.parametrize("expression", ["x * x + 1.5", "x * x - x"])
def test_fusion_follows_its_option(expression: str) -> None:
    assert "fma.rn.f32" in ptx_of(expression, enable_fp_fusion=True)
    unfused = ptx_of(expression, enable_fp_fusion=False)
    assert "fma" not in unfused and "mul.rn.f32" in unfused


def test_multiplications_that_are_rounded_as_named_are_never_fused() -> None:
    for expression in ("libdevice.mul_rn(x, x) + 1.0", "libdevice.add_rn(x * x, 1.0)"):
        assert "fma" not in ptx_of(expression)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
@pytest.mark.parametrize("expression", [*EXPRESSIONS, *ACCURATE])
def test_every_executor_is_close(on: str, expression: str) -> None:
    x = np.linspace(0.25, 4, 128).astype(np.float32)
    names = {
        "exp": np.exp, "exp2": np.exp2, "sqrt": np.sqrt, "log": np.log, "log2": np.log2,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "log1p": np.log1p, "pow": np.power,
    }  # fmt: skip
    y = np.zeros(128, np.float32)
    kernel_of(expression)[(1,)](y, x, B=128, on=on)
    word = re.fullmatch(r"(?:tl|libdevice)(?:\.math)?\.(\w+)\(x(?:, x)?\)", expression)
    if word and word[1] in names:
        wide = x.astype(np.float64)
        expected = names[word[1]](*([wide, wide] if word[1] == "pow" else [wide]))
        assert np.allclose(y, expected, rtol=1e-6, atol=1e-7)
    assert np.isfinite(y).all() and y.any()


@triton.jit
def square_minus_one(y, x):
    v = tl.load(x)
    tl.store(y, v * v - 1.0)


@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
def test_the_host_rounds_additions_and_multiplications(on: str) -> None:
    x, y = np.array([1 + 2.0**-12], np.float32), np.zeros(1, np.float32)
    square_minus_one[(1,)](y, x, on=on)
    assert y[0] == x[0] * x[0] - np.float32(1) != np.float32(float(x[0]) ** 2 - 1)


TEXT = """module {
  tt.func public @k(%y: !tt.ptr<f32>, %x: !tt.ptr<f32>) {
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %px = tt.addptr %xs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %px : tensor<128x!tt.ptr<f32>>
    OPS
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %py = tt.addptr %ys, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %py, %r : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""

STATEMENTS: dict[str, str] = {
    "%r = math.exp %v": "ex2.approx.f32",
    "%r = math.exp2 %v": "ex2.approx.ftz.f32",
    "%r = math.sqrt %v": "sqrt.approx.ftz.f32",
    "%r = math.rsqrt %v": "rsqrt.approx.ftz.f32",
    "%r = arith.divf %v, %v": "div.full.f32",
    "%r = tt.precise_sqrt %v": "sqrt.rn.f32",
    "%r = tt.precise_divf %v, %px0": "div.rn.f32",
    "%p = arith.mulf %v, %v; %r = arith.addf %p, %v": "fma.rn.f32",
    "%p = arith.mulf %v, %v; %r = arith.subf %p, %v": "fma.rn.f32",
}


def text_of(statements: str) -> str:
    written = statements.replace("%px0", "%v").split("; ")
    return TEXT.replace("OPS", "\n".join(f"    {s} : tensor<128xf32>" for s in written))


@pytest.mark.parametrize("statements", STATEMENTS)
def test_the_instruction_of_a_ttir_op_is_triton_s(statements: str) -> None:
    ptx = tileir.backend.compile(ttir.read(text_of(statements)), target="sm_90a").ptx
    assert re.search(rf"\b{re.escape(STATEMENTS[statements])}\s", ptx)


def test_fusion_of_a_ttir_text_follows_its_option() -> None:
    text = text_of("%p = arith.mulf %v, %v; %r = arith.addf %p, %v")
    module = ttir.read(text, enable_fp_fusion=False)
    assert "fma" not in tileir.backend.compile(module, target="sm_90a").ptx
