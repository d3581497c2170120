"""One kernel to put ops into, and its values by name."""

from __future__ import annotations

from tileir import textual
from tileir.ir import Function
from tileir.values import Value

HEADER = """tir 1.0

define kernel void @k(f32* aligned(16) %x, f32* %y, i32 multiple_of(4) %n, i32 %m, i64 %l, i1 %c) {
entry:
  %pid = program_id i32 {axis = 0}
  %r = make_range i32<64> {start = 0}
"""


def kernel(body: str, ending: str = "  ret\n") -> Function:
    return textual.parse(HEADER + body + ending + "}\n").kernel()


def value_named(function: Function, name: str) -> Value:
    values = [p.value for p in function.parameters]
    for block in function.blocks.values():
        values += [*block.parameters, *(v for op in block.ops for v in op.results)]
    return next(v for v in values if v.name == name)


LOOP = """  br head
head:
  %i = phi i32 [0, entry], [%j, head]
  %p = phi f32* [%x, entry], [%q, head]
  %s = phi i32 [%n, entry], [{next}, head]
  %j = add i32 %i, {step} {{overflow = nsw}}
  %q = getelementptr f32* %p, i32 {step}
  %v = add i32 %s, 0
  %t, _ = icmp (i1, i1) %j, 100 {{predicate = slt}}
  cond_br %t, head, out
out:
"""
"""A counter, a pointer and a number carried by a loop; `{step}` and `{next}` to be filled in."""

GRID = """  %n64 = mul i32 %m, 64
  %rows = make_range i32<4> {start = 0}
  %cols = make_range i32<16> {start = 0}
  %r1 = expand_dims i32<4, 1> %rows {axis = 1}
  %rs = mul i32<4, 1> %r1, 32
  %rb = broadcast i32<4, 16> %rs
  %c1 = expand_dims i32<1, 16> %cols {axis = 0}
  %cb = broadcast i32<4, 16> %c1
  %o = add i32<4, 16> %rb, %cb
"""
"""Offsets `%o` of a 4 by 16 matrix with rows 32 apart, and what they are made of."""
