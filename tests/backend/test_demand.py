"""Which kernels are refused for the registers that their tiles take."""

import pytest

from tileir.backend.demand import check_registers
from tileir.backend.target import target as target_named
from tileir.errors import InfeasibleError
from tileir.textual import parse

KERNEL = """tir 1.0

define kernel void @k(i64* %rows, f16* %x, f16* %y, i64* %z) {
entry:
  %i = make_range i32<256>
  %ps = splat i64*<256> %rows
  %pi = getelementptr i64*<256> %ps, %i
  %row = load i64<256> %pi
  %start = mul i64<256> %row, 128
  %down = expand_dims i64<256, 1> %start {axis = 1}
  %from = broadcast i64<256, 128> %down
  %j = make_range i32<128>
  %wide = sext i64<128> %j
  %across = expand_dims i64<1, 128> %wide {axis = 0}
  %column = broadcast i64<256, 128> %across
  %place = add i64<256, 128> %from, %column
  %xs = splat f16*<256, 128> %x
  %px = getelementptr f16*<256, 128> %xs, %place
  %v = load f16<256, 128> %px
  %ys = splat f16*<256, 128> %y
  %py = getelementptr f16*<256, 128> %ys, %place
  store %py, %v
  ret
}
"""
STORED = """%zs = splat i64*<256, 128> %z
  %pz = getelementptr i64*<256, 128> %zs, %place
  store %pz, %place
  ret"""


def test_offsets_of_addresses_take_no_registers():
    """Of 64 bits, 512 of each thread of 4 warps, if all were there at once."""
    function = parse(KERNEL).kernel()
    check_registers(function, 4, target_named("sm_90a"))


def test_offsets_that_are_stored_take_registers():
    function = parse(KERNEL.replace("  ret\n", f"  {STORED}\n")).kernel()
    with pytest.raises(InfeasibleError, match="add takes about 512 registers"):
        check_registers(function, 4, target_named("sm_90a"))
