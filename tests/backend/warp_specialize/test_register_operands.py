"""Operand A that registers make: what becomes of what is loaded."""

from __future__ import annotations

from tests.sizes import for_each
from tileir.backend.tma.register_operands import (
    _can_be_copied,
    feeds_only_operand_a,
    other_uses,
    register_operand_inputs,
)
from tileir.ir import Function
from tileir.ops.descriptor import DescriptorLoad
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.passmanager import run
from tileir.textual import parse, print_module
from tileir.types import F16, F32, I8, Scalar, Tile
from tileir.values import Value

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


SCALED = "  %v = load f16<16, 16> %ptr\n  %w = fmul f16<16, 16> %v, 2.0\n"
ENDS: dict[str, tuple[str, bool]] = {
    "A": ("%d = dot f32<16, 16> %w, f16<16, 16> 1.0, 0.0", True),
    "A of two": ("%d = dot f32<16, 16> %w, f16<16, 16> 1.0, 0.0\n"
                 "  %e = dot f32<16, 16> %v, f16<16, 16> 1.0, 0.0", True),
    "B": ("%d = dot f32<16, 16> f16<16, 16> 1.0, %w, 0.0", False),
    "A and B": ("%d = dot f32<16, 16> %w, %w, 0.0", False),
    "A and B of what it is made of": ("%d = dot f32<16, 16> %w, %v, 0.0", False),
    "C": ("%d = dot f16<16, 16> f16<16, 16> 1.0, f16<16, 16> 1.0, %w", False),
    "A and C": ("%d = dot f16<16, 16> %w, f16<16, 16> 1.0, %w", False),
    "A, and memory": ("%d = dot f32<16, 16> %w, f16<16, 16> 1.0, 0.0\n  store %ptr, %w", False),
    "A, and a number": ("%d = dot f32<16, 16> %w, f16<16, 16> 1.0, 0.0\n"
                        "  %flat = reshape f16<256> %w\n"
                        "  %r = reduce f16 %flat {combiner = fadd}", False),
    "A, and a row": ("%r = reduce f16<16> %w {axis = 1, combiner = fadd}\n"
                     "  %r1 = expand_dims f16<16, 1> %r {axis = 1}\n"
                     "  %rs = broadcast f16<16, 16> %r1\n  %u = fadd f16<16, 16> %w, %rs\n"
                     "  %d = dot f32<16, 16> %u, f16<16, 16> 1.0, 0.0", True),
    "nothing": ("", False),
    "A of another block": ("br more\nmore:\n"
                           "  %d = dot f32<16, 16> %w, f16<16, 16> 1.0, 0.0", False),
    "A, and a dot of another block": ("%d = dot f32<16, 16> %w, f16<16, 16> 1.0, 0.0\n  br more\n"
                                      "more:\n  %e = dot f32<16, 16> %w, f16<16, 16> 1.0, 0.0",
                                      False),
}  # fmt: skip
"""What the scaled tile is used for, and whether it is only operand A of dots of its block."""
AS_DESCRIBED = "descriptor_load f16<16, 16> %desc, 0, 0"


def loop_function(body: str, *, in_loop: bool = True) -> Function:
    """A function with these ops in a loop, or in a block that runs once."""
    last = "more" if "more:" in body else "loop"
    text = f"""tir 1.0
define kernel void @f(f16* %p, tensor_desc<f16<16, 16>> %desc, i32 %n) {{
entry:
  %ptr = splat f16*<16, 16> %p
  br loop
loop:
  %k = phi i32 [0, entry], [%next, {last}]
{body}
  %next = add i32 %k, 1
  %goes_on, _ = icmp (i1, i1) %next, %n {{predicate = slt}}
  cond_br %goes_on, loop, done
done:
  ret
}}
"""
    if not in_loop:
        text = text.replace("cond_br %goes_on, loop, done", "br done")
        text = text.replace(
            f"  %k = phi i32 [0, entry], [%next, {last}]\n", "  %k = add i32 %n, 0\n"
        )
    return parse(text).kernel()


@for_each("name", ENDS)
def test_operand_a_alone_is_made_of_a_load_in_a_loop(name: str) -> None:
    """Whatever registers compute in between; in no loop, nothing is copied ahead."""
    end, is_only_a = ENDS[name]
    for in_loop in (True, False):
        function = loop_function(f"{SCALED}  {end}", in_loop=in_loop)
        (load,) = (op for op in function.ops if isinstance(op, Load))
        assert feeds_only_operand_a(function, load) is (is_only_a and in_loop)


@for_each("name", ENDS)
def test_inputs_of_operand_a_are_the_descriptor_loads_of_its_block(name: str) -> None:
    end, is_only_a = ENDS[name]
    body = SCALED.replace("load f16<16, 16> %ptr", AS_DESCRIBED)
    function = loop_function(f"{body}  {end}")
    dots = [op for op in function.ops if isinstance(op, Dot)]
    loads = [op for op in function.ops if isinstance(op, DescriptorLoad)]
    for dot in dots:
        assert register_operand_inputs(function, dot) == (loads if is_only_a else [])
    test = "  %few, _ = icmp (i1, i1) %k, 5 {predicate = slt}\n"
    predicated = loop_function(f"{test}{body.replace('%v =', '@%few %v =')}  {end}")
    for dot in (op for op in predicated.ops if isinstance(op, Dot)):
        assert register_operand_inputs(predicated, dot) == []


@for_each(("shape", "element", "is_copied"), [
    ((64,), F16, True), ((32,), F16, False), ((32,), F32, True), ((256,), F16, True),
    ((257,), F16, False), ((320,), F16, False), ((512,), F16, False), ((96,), F16, False),
    ((8, 3), F16, True), ((16, 300), F16, True), ((4, 64), F16, True), ((4, 8), F16, False),
    ((4, 16), F16, True), ((4, 320), F16, False), ((2, 4, 3), F16, True), ((3, 4, 8), F16, False),
    ((12, 16), F16, True), ((12, 20), F16, False), ((2, 2, 16), F16, True), ((1, 128), I8, True),
    ((1, 64), I8, False), ((9, 128), I8, True),
])  # fmt: skip
def test_tiles_of_whole_patterns_or_aligned_blocks_are_copied(
    shape: tuple[int, ...], element: Scalar, is_copied: bool
) -> None:
    """Rows by eight, or blocks of a multiple of 128 bytes whose rows have at most 256 elements."""
    assert _can_be_copied(Value(Tile(element, shape))) is is_copied


def test_numbers_are_not_copied() -> None:
    assert not _can_be_copied(Value(F16))
