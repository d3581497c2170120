"""Operand A that registers make: what becomes of what is loaded."""

from __future__ import annotations

from tests.sizes import for_each
from tileir.backend.tma.register_operands import other_uses
from tileir.passmanager import run
from tileir.textual import parse, print_module

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


ROW_KERNEL = """tir 1.0
define kernel void @f(f16*{aligned} noalias %x, f16* aligned(16) noalias %a,
                      f32* aligned(16) noalias %y, i32 %s, i32 %n) {{
entry:
  %j = make_range i32<64>
  %i = make_range i32<16>
  %j1 = expand_dims i32<1, 64> %j {{axis = 0}}
  %i1 = expand_dims i32<16, 1> %i {{axis = 1}}
  %ii = broadcast i32<16, 64> %i1
  %jj = broadcast i32<16, 64> %j1
  %down = mul i32<16, 64> %ii, 1024
  %off = add i32<16, 64> %down, %jj
  %as = splat f16*<16, 64> %a
  %pa = getelementptr f16*<16, 64> %as, %off
  %far = mul i32 %s, {step}
  %from = getelementptr f16* %x, %far
  %xs = splat f16*<64> %from
  %px = getelementptr f16*<64> %xs, %j
  br loop
loop:
  %k = phi i32 [0, entry], [%next, loop]
  %sum = phi f32<16, 16> [0.0, entry], [%total, loop]
  %q = phi f16*<16, 64> [%pa, entry], [%qnext, loop]
  %r = phi f16*<64> [%px, entry], [%rnext, loop]
  %v = load f16<16, 64> %q
  %w1 = load f16<64> %r
  %w = expand_dims f16<1, 64> %w1 {{axis = 0}}
  %ws = broadcast f16<16, 64> %w
  %m = fmul f16<16, 64> %v, %ws
  %total = dot f32<16, 16> %m, f16<64, 16> 1.0, %sum
  %qnext = getelementptr f16*<16, 64> %q, i32<16, 64> 64
  %rnext = getelementptr f16*<64> %r, i32<64> 64
  %next = add i32 %k, 64 {{overflow = nsw}}
  %more, _ = icmp (i1, i1) %next, %n {{predicate = slt}}
  cond_br %more, loop, done
done:
  %e = make_range i32<16>
  %e1 = expand_dims i32<1, 16> %e {{axis = 0}}
  %ee = broadcast i32<16, 16> %e1
  %f1 = broadcast i32<16, 16> %i1
  %f16 = mul i32<16, 16> %f1, 16
  %to = add i32<16, 16> %f16, %ee
  %ys = splat f32*<16, 16> %y
  %py = getelementptr f32*<16, 16> %ys, %to
  store %py, %total
  ret
}}
"""
"""A row of 64 factors, at `{step}` times a number of elements from %x, scales the rows of operand
A."""


@for_each("aligned", (0, 4, 8, 16, 32))
@for_each("step", (1, 2, 4, 8, 16, 24))
def test_a_row_is_copied_if_it_is_aligned_at_every_launch(aligned: int, step: int) -> None:
    """Its pointer, and each distance from it, are multiples of 16 bytes, whatever the numbers."""
    stated = f" aligned({aligned})" if aligned else ""
    text = ROW_KERNEL.format(aligned=stated, step=step)
    described = print_module(run(parse(text), "infer-descriptors").module)
    is_aligned = aligned >= 16 and 2 * step % 16 == 0
    assert ("descriptor_load f16<64>" in described) is is_aligned
    assert "descriptor_load f16<16, 64>" in described


@for_each("step", (1, 8))
def test_a_row_whose_base_is_no_parameter_is_not_copied(step: int) -> None:
    """The host chooses the base, and nothing is known of its alignment."""
    text = ROW_KERNEL.format(aligned=" aligned(16)", step=step)
    chosen = """%positive, _ = icmp (i1, i1) %s, 0 {predicate = sgt}
  %base = select f16* %positive, %x, %z
  %from = getelementptr f16* %base, %far"""
    text = text.replace("%from = getelementptr f16* %x, %far", chosen)
    text = text.replace("noalias %x,", "noalias %x, f16* aligned(16) noalias %z,")
    described = print_module(run(parse(text), "infer-descriptors").module)
    assert "descriptor_load f16<64>" not in described
    assert "descriptor_load f16<16, 64>" in described


@for_each(("load", "shape", "lanes", "is_reported"), [
    ("%w1 = load f16<64> %r", "<64>", "%j", False),
    ("%v = load f16<16, 64> %q", "<16, 64>", "%jj", True),
])  # fmt: skip
def test_rows_that_threads_load_are_not_remarked(
    load: str, shape: str, lanes: str, is_reported: bool
) -> None:
    """A single row is not worth a tensor map; that a matrix has none is reported. Either is under a
    mask that is no bound."""
    mask = f"%odd, _ = icmp (i1{shape}, i1{shape}) {lanes}, 3 {{{{predicate = ne}}}}"
    text = ROW_KERNEL.replace(load, f"{mask}\n  {load}, %odd, 0.0")
    outcome = run(parse(text.format(aligned=" aligned(16)", step=8)), "infer-descriptors")
    assert ("no tensor map" in " ".join(r.message for r in outcome.remarks)) is is_reported
