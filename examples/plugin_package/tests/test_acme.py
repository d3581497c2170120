"""The package as its users see it: everything is found by its entry points."""

from __future__ import annotations

import numpy as np
import pytest

import tileir.backend
from tileir.executor import executor
from tileir.passmanager import run
from tileir.textual import parse, print_module

PROGRAM = """tir 1.0

define kernel void @softsign(f32* %x, f32* %y) {
entry:
  %pid = program_id i32
  %base = mul i32 %pid, 64
  %from = splat i32<64> %base
  %range = make_range i32<64>
  %at = add i32<64> %from, %range
  %xs = splat f32*<64> %x
  %px = getelementptr f32*<64> %xs, %at
  %a = load f32<64> %px
  %size = fabs f32<64> %a
  %sum = fadd f32<64> %size, 1.0
  %r = fdiv f32<64> %a, %sum
  %ys = splat f32*<64> %y
  %py = getelementptr f32*<64> %ys, %at
  store %py, %r
  ret
}
"""
X = np.random.default_rng(0).standard_normal(192).astype(np.float32)


def results(text: str, name: str) -> np.ndarray:
    """The array that the kernel stores, computed by the executor `name`."""
    y = np.zeros_like(X)
    executor(name).launch(parse(text), "softsign", 3, [X, y])
    return y


@pytest.fixture(scope="module")
def text_after_pass() -> str:
    return print_module(run(parse(PROGRAM), "acme-form-softsign,dce").module)


def test_the_pass_forms_the_op(text_after_pass: str) -> None:
    assert "%r = acme.softsign f32<64> %a\n" in text_after_pass
    assert "fdiv" not in text_after_pass and "fabs" not in text_after_pass


@pytest.mark.parametrize("change", ["{fast = approx}", "{rounding = rz}", "{ftz = true}"])
def test_the_pass_leaves_quotients_with_other_rounding(change: str) -> None:
    text = PROGRAM.replace("%a, %sum", f"%a, %sum {change}")
    assert "softsign f32" not in print_module(run(parse(text), "acme-form-softsign").module)


@pytest.mark.parametrize("name", ["interpreter", "simt", "cpu"])
def test_the_op_means_what_it_replaces(text_after_pass: str, name: str) -> None:
    np.testing.assert_array_equal(results(text_after_pass, name), results(PROGRAM, "interpreter"))


@pytest.mark.parametrize("target", ["sm_87", "sm_90a"])
def test_the_rule_makes_ptx(text_after_pass: str, target: str) -> None:
    ptx = tileir.backend.compile(parse(text_after_pass), target=target).ptx
    assert f".target {target}" in ptx and "abs.f32" in ptx and "div.rn.f32" in ptx
