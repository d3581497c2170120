"""Operand A that registers make: what becomes of what is loaded."""

from __future__ import annotations

from tileir.backend.tma.register_operands import other_uses
from tileir.textual import parse

TEXT = """tir 1.0
define void @f(f16*<64, 16> %p, f32*<64, 16> %r, f16*<16, 8> %q, f32*<64, 8> %z) {
entry:
  %x = load f16<64, 16> %p
  %y = load f16<16, 8> %q
  %double = fmul f16<64, 16> %x, 2.0
  %triple = fmul f16<64, 16> %x, 3.0
  %sum = fadd f16<64, 16> %double, %triple
  %root = sqrt f16<64, 16> %sum
  %scaled = fadd f16<64, 16> %sum, %root
  %c = dot f32<64, 8> %scaled, %y, 0.0
  %wide = fpext f32<64, 16> %root
  store %r, %wide
  store %z, %c
  ret
}
"""


def test_chains_of_uses_that_join_have_one_end() -> None:
    """What registers make in several ways of a load is looked at once: all of it takes as long as
    there are ops."""
    function = parse(TEXT).functions["f"]
    named = {v.name: v for op in function.ops for v in op.results}
    ends = [(op.mnemonic, value) for op, value in other_uses(function, named["x"])]
    assert sorted(ends, key=str) == [("dot", named["scaled"]), ("store", named["wide"])]
