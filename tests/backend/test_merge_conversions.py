"""What a matmul computes is converted once, and combined with what is loaded in that layout."""

import numpy as np

import tileir
from tests.sizes import for_each
from tileir import textual
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import AnchorLayouts
from tileir.backend.layouts.assign_layouts import assign_layouts
from tileir.backend.layouts.merge_conversions import merge_conversions
from tileir.backend.legalize.link_inline import legalize
from tileir.builder import BF16, F32, I32, Builder, arg, pointer

LAYOUTS = """tir 1.0
stage "layouts"
#a = layout(rank = 1, register = [[1], [2]], lane = [[4], [8], [16], [32], [64]])
#b = layout(rank = 1, register = [[32], [64]], lane = [[1], [2], [4], [8], [16]])
define kernel void @k(f32* %x, f32* %y, f16* %z) {num_warps = 1} {
entry:
  %i = make_range i32<128, #a>
  %j = make_range i32<128, #b>
  %xs = splat f32*<128, #a> %x
  %p = getelementptr f32*<128, #a> %xs, %i
  %v = load f32<128, #a> %p
  %ys = splat f32*<128, #b> %y
  %q = getelementptr f32*<128, #b> %ys, %j
  %w = load f32<128, #b> %q
"""
END = """
  ret
}
"""
TWICE = """  %u = gpu.convert_layout f32<128, #b> %v {layout = #b}
  %s = fadd f32<128, #b> %w, %u
  %t = gpu.convert_layout f32<128, #a> %s {layout = #a}
  store %p, %t"""
USED_TWICE = TWICE.replace("  store", "  store %q, %u\n  store")
RESULT_USED = TWICE.replace("  store", "  store %q, %s\n  store")
IN_A_ROW = """  %u = gpu.convert_layout f32<128, #b> %v {layout = #b}
  %n = fmul f32<128, #a> %v, 3.0
  %s = fsub f32<128, #b> %u, %w
  %m = gpu.convert_layout f32<128, #b> %n {layout = #b}
  %r = fmaxnum f32<128, #b> %s, %m
  %t = gpu.convert_layout f32<128, #a> %r {layout = #a}
  store %p, %t"""
CAST = """  %u = gpu.convert_layout f32<128, #b> %v {layout = #b}
  %s, _ = icmp (i1<128, #b>, i1<128, #b>) %j, 7 {predicate = slt}
  %m = select f32<128, #b> %s, %w, %u
  %h = fptrunc f16<128, #b> %m
  %t = gpu.convert_layout f16<128, #a> %h {layout = #a}
  %zs = splat f16*<128, #a> %z
  %o = getelementptr f16*<128, #a> %zs, %i
  store %o, %t"""


@for_each(("body", "conversions"), [
        (TWICE, 1), (IN_A_ROW, 1), (USED_TWICE, 2), (RESULT_USED, 2), (CAST, 2),
    ])  # fmt: skip
def test_one_conversion_does_for_two(body, conversions):
    """Unless the converted operand or the result is used again, or two operands were to be
    converted."""
    (function,) = textual.parse(LAYOUTS + body + END).functions.values()
    merged = merge_conversions(function)
    names = [op.mnemonic for op in merged.ops if op.mnemonic == "gpu.convert_layout"]
    assert len(names) == conversions
    assert (merged is function) == (conversions == 2)


def accumulating_matmul(columns=64, inner=64, stored=True):
    """c += a b, in bf16, at an offset that may be odd; without `stored`, the sum is in x."""
    b = Builder()
    types = {n: arg(pointer(BF16), aligned=16) for n in "abcd"}
    with b.kernel("k", **types, offset=I32) as (x, y, z, other, offset):
        rows, at, k = b.arange(64), b.arange(columns), b.arange(inner)
        left = (x + rows[:, None] * inner + k[None, :]).load()
        right = (y + k[:, None] * columns + at[None, :]).load()
        c, d = (p + (rows[:, None] * columns + at[None, :] + offset) for p in (z, other))
        total = b.dot(left, right, b.full((64, columns), 0.0, F32)).to(BF16) + c.load()
        (c if stored else d).store(total)
    return b.module()


def layouts_of(module):
    function = legalize(module, "k").functions["k"]
    return assign_layouts(function, AnchorLayouts(function, AccessWidths(function), 4))


@for_each("stored", [True, False])
def test_single_halves_are_added_to_memory_by_neighbouring_lanes(stored):
    """Both the load and the store then touch 64 bytes of a row with an instruction, also where the
    sum is stored elsewhere."""
    laid_out = layouts_of(accumulating_matmul(stored=stored))
    merged = merge_conversions(laid_out)
    before, after = (
        sum(
            op.mnemonic == "gpu.convert_layout" and op.results[0].type.shape == (64, 64)
            for op in f.ops
        )
        for f in (laid_out, merged)
    )
    assert before - after == 1  # the others convert a and b
    (store,) = (op for op in merged.ops if op.mnemonic == "store")
    in_row = tuple((0, 1 << n) for n in range(5))
    assert store.inputs[1].type.layout.lane == in_row


def test_a_matmul_that_is_added_to_memory_is_exact():
    module = accumulating_matmul()
    generator = np.random.default_rng(0)
    a, b, c = (generator.integers(-2, 3, 64 * 64).astype(np.float32) for _ in "abc")
    halves = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in (a, b, c)]
    result, expected = halves[2].copy(), halves[2].copy()
    for launch, c in ((SimtExecutor().launch, result), (tileir.interpret, expected)):
        options = {} if launch is tileir.interpret else {"num_warps": 4}
        launch(module, None, 1, [halves[0], halves[1], c, c.copy(), 0], **options)
    np.testing.assert_array_equal(result, expected)
