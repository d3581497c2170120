"""Rounding half away from zero: how PTX does it, and that this is exact."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tileir import textual
from tileir.backend import compile as compile_kernel

TO_INTEGER = """tir 1.0
define kernel void @k({e}* %x, {to}* %y) {{
entry:
  %v = load {e} %x
  %r = {function} {e} %v
{convert}  store %y, {stored}
  ret
}}
"""


def arithmetic(element: str, to: str = "", function: str = "fround") -> list[str]:
    """The instructions of a kernel that rounds a number, and converts it to `to`."""
    convert = f"  %i = fptosi {to} %r\n" if to else ""
    stored = "%i" if to else "%r"
    text = TO_INTEGER.format(
        e=element, to=to or element, function=function, convert=convert, stored=stored
    )
    ptx = compile_kernel(textual.parse(text), "sm_90").ptx
    matches = re.findall(r"\t((?:copysign|add|cvt|setp|selp|and|or|abs|fma)\.\S+)", ptx)
    return matches[1:]  # the first one compares the number of the thread with 0


@pytest.mark.parametrize("bits", [32, 64])
def test_three_instructions_round_half_away_from_zero(bits):
    moved = [f"copysign.f{bits}", f"add.rz.f{bits}"]
    assert arithmetic(f"f{bits}") == [*moved, f"cvt.rzi.f{bits}.f{bits}"]
    assert arithmetic(f"f{bits}", "i32") == [*moved, f"cvt.rzi.s32.f{bits}"]


def test_an_integer_is_made_of_what_was_not_truncated():
    assert arithmetic("f32", "i32", "ftrunc") == ["cvt.rzi.s32.f32"]
    assert arithmetic("f32", "i32", "floor") == [
        "cvt.rmi.f32.f32", "cvt.rzi.s32.f32",
    ]  # fmt: skip


def test_a_half_added_toward_zero_reaches_no_next_integer():
    """Numbers around halves and around the first ones without fractions."""
    near = np.array([0.0, 0.5, 1.5, 2.5, 127.5, 2**22 + 0.5, 2**23, 2**24, 2**31], np.float32)
    x = np.concatenate([near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.inf)])
    x = np.concatenate([x, -x]).astype(np.float32)
    exact = x.astype(np.float64) + np.copysign(0.5, x.astype(np.float64))
    toward_zero = exact.astype(np.float32)
    beyond = np.abs(toward_zero.astype(np.float64)) > np.abs(exact)
    toward_zero = np.where(beyond, np.nextafter(toward_zero, np.float32(0)), toward_zero)
    away = np.sign(x) * np.floor(np.abs(x.astype(np.float64)) + 0.5)
    np.testing.assert_array_equal(np.trunc(toward_zero), away)
    assert np.trunc(np.float32(0.49999997) + np.float32(0.5)) == 1.0, "rounded to nearest"
