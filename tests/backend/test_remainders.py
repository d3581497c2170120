"""Differences that are remainders."""

import re

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.transforms.remainders import form_remainders
from tileir.executor import executor
from tileir.textual import parse


def module_of(*lines):
    """A kernel that stores %r, which `lines` compute of the tiles %a and %b."""
    return parse(
        "tir 1.0\n\ndefine kernel void @k(i32* %x, i32* %y, i32* %out) {\nentry:\n"
        "  %i = make_range i32<64>\n"
        + "".join(
            f"  %{p}s = splat i32*<64> %{p}\n  %{p}i = getelementptr i32*<64> %{p}s, %i\n"
            for p in ("x", "y", "out")
        )
        + "  %a = load i32<64> %xi\n  %b = load i32<64> %yi\n"
        + "".join(f"  {line}\n" for line in lines)
        + "  store %outi, %r\n  ret\n}\n"
    )


def remainder(division, *, product="%q, %b", number="%a"):
    return (f"%q = {division}", f"%p = mul i32<64> {product}", f"%r = sub i32<64> {number}, %p")


@pytest.mark.parametrize(
    ("division", "formed"),
    [
        ("sdiv i32<64> %a, %b", "srem"),
        ("sdiv i32<64> %a, %b {rounding = floor}", "srem"),
        ("udiv i32<64> %a, %b", "urem"),
        ("udiv i32<64> %a, %b {rounding = floor}", "urem"),
        ("sdiv i32<64> %a, %b {rounding = ceil}", None),
        ("udiv i32<64> %a, %b {rounding = ceil}", None),
    ],
)
def test_what_a_quotient_leaves_is_the_remainder(division, formed):
    for product in ("%q, %b", "%b, %q"):
        module = module_of(*remainder(division, product=product))
        function = form_remainders(module.kernel())
        mnemonics = [op.mnemonic for op in function.ops if op.mnemonic in ("srem", "urem")]
        assert mnemonics == ([formed] if formed else [])
        random = np.random.default_rng(1)
        x = random.integers(-(2**31), 2**31, 64, dtype=np.int64).astype(np.int32)
        y = np.where(np.arange(64) % 2, random.integers(-9, 0, 64), x // 3 + 1).astype(np.int32)
        y[y == 0] = 1
        expected, out = np.zeros(64, np.int32), np.zeros(64, np.int32)
        tileir.interpret(module, "k", 1, [x, y, expected])
        executor("simt").launch(module, "k", 1, [x, y, out])
        np.testing.assert_array_equal(out, expected)


def _guard_division(division, name):
    """What `remainder` gives, with `name` computed where the divisor is not 0."""
    mask = "%m, _ = icmp (i1<64>, i1<64>) %b, 0 {predicate = ne}"
    lines = remainder(division)
    return (mask, *(f"@%m {line}" if line.startswith(name) else line for line in lines))


def test_other_differences_stay():
    quotient = "sdiv i32<64> %a, %b"
    for lines in (
        remainder(quotient, number="%b"),
        remainder(quotient, product="%q, %a"),
        remainder(quotient, product="%q, %q"),
        _guard_division(quotient, "%q"),
        _guard_division(quotient, "%r"),
    ):
        function = module_of(*lines).kernel()
        assert form_remainders(function) is function


PIXELS = """tir 1.0

define kernel void @k(f16* aligned(16) %x, f16* aligned(16) %y, i32 multiple_of(16) %n, \
i32 multiple_of(16) %m) {
entry:
  %pid = program_id i32
  %at = mul i32 %pid, 1024 {overflow = nsw}
  %i = make_range i32<1024>
  %ats = splat i32<1024> %at
  %offsets = add i32<1024> %ats, %i {overflow = nsw}
  %ns = splat i32<1024> %n
  %image = sdiv i32<1024> %offsets, %ns
  %whole = mul i32<1024> %image, %ns
  %rest = sub i32<1024> %offsets, %whole
  %ms = splat i32<1024> %m
  %row = sdiv i32<1024> %rest, %ms
  %index = add i32<1024> %image, %row
  %xs = splat f16*<1024> %x
  %p = getelementptr f16*<1024> %xs, %index
  %v = load f16<1024> %p
  %ys = splat f16*<1024> %y
  %q = getelementptr f16*<1024> %ys, %offsets
  store %q, %v
  ret
}
"""


def test_neighbours_of_a_remainder_have_the_same_quotient():
    """Each of the 8 elements of a thread is in the image and the row of the first one."""
    ptx = compile_kernel(parse(PIXELS), "sm_90a", Options(num_warps=4)).ptx
    assert len(re.findall(r"\bdiv\.[su]32", ptx)) == 2
