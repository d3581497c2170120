"""Small decisions of the lowering, each by what it is for."""

from itertools import product
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest

import tileir
from tests.sizes import for_each
from tileir import textual
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.emit.reduction import _load_width
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.demand import choose_warps
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.byte_ranges import ranges_disjoint
from tileir.backend.shared_memory.fma_dot_staging import steps
from tileir.backend.target import TARGETS, target
from tileir.errors import CompileError
from tileir.limits import Limits, limits
from tileir.passes.scalarize import _reshape_index
from tileir.passmanager import run
from tileir.textual import print_module


@pytest.mark.parametrize(("old", "new"), [((4, 6), (24,)), ((2, 3, 4), (6, 4)), ((8,), (2, 2, 2))])
def test_a_reshape_keeps_the_order_of_elements(old, new):
    whole = np.arange(prod(old)).reshape(new)
    for number, index in enumerate(product(*map(range, old))):
        assert whole[_reshape_index(index, old, new)] == number


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_partial_results_are_read_as_wide_as_they_are_aligned(size):
    for warps in range(1, 33):
        width = _load_width(warps, size)
        assert width * size <= 16 and warps % width == 0
        assert width * 2 * size > 16 or warps % (width * 2)


@for_each("elements", [1, 8, 32, 64, 256, 2048])
@for_each("k", [1, 3, 8, 12, 16, 24, 64, 100, 512])
def test_dots_are_unrolled_by_divisors(k, elements):
    """As many steps as make about a thousand multiply-adds of a thread, one at least."""
    c = SimpleNamespace(type=SimpleNamespace(layout=SimpleNamespace(size=lambda axis: elements)))
    count = steps(SimpleNamespace(a=SimpleNamespace(type=SimpleNamespace(shape=(4, k))), c=c))
    assert k % count == 0 and (count * elements <= 1024 or count == 1)
    fitting = [n for n in (16, 8, 4, 2, 1, k) if k % n == 0 and n * elements <= 1024]
    assert count == max(fitting, default=1)


def test_accesses_that_share_no_byte():
    for a, b in product([(0, 4), (4, 8), (2, 6), (8, 12), (0, 12)], repeat=2):
        assert ranges_disjoint(a, b) == (not set(range(*a)) & set(range(*b)))
    assert not ranges_disjoint(None, (0, 4)) and not ranges_disjoint((0, 4), None)


def test_the_oldest_ptx_that_has_what_a_target_uses():
    """CUDA 12.1's for sm_89 (PTX ISA 8.1 brings its conversions of f8), 11.0's for sm_80."""
    by_name = {name: TARGETS[name].features for name in ("sm_80", "sm_86", "sm_89", "sm_90")}
    assert by_name == {"sm_80": "+ptx80", "sm_86": "+ptx80", "sm_89": "+ptx81", "sm_90": "+ptx81"}


COPY = """tir 1.0
define kernel void @k({e}* aligned({a}) %x, {e}* aligned({a}) %y) {{
entry:
  %i = make_range i32<4096>
  %xs = splat {e}*<4096> %x
  %p = getelementptr {e}*<4096> %xs, %i
  %v = load {e}<4096> %p
  %ys = splat {e}*<4096> %y
  %q = getelementptr {e}*<4096> %ys, %i
  store %q, %v
  ret
}}
"""


@pytest.mark.parametrize("aligned", [16, 32, 128])
@pytest.mark.parametrize(("element", "size"), [("i8", 1), ("f16", 2), ("f32", 4), ("f64", 8)])
def test_copies_are_by_sixteen_bytes(element, size, aligned):
    module = textual.parse(COPY.format(e=element, a=aligned))
    ptx = compile_kernel(module, "sm_80", {"num_warps": 4}).ptx
    wide = {1: "v4.b32", 2: "v4.b32", 4: "v4.b32", 8: "v2.b64"}[size]
    for what in ("ld.global", "st.global"):
        assert ptx.count(f"{what}.{wide}") == ptx.count(what) == 4096 * size // (128 * 16)


def test_a_kernel_without_tiles_with_one_that_has_some():
    scalar = "define kernel void @s(i32* %x) {\nentry:\n  store %x, 1\n  ret\n}\n"
    module = textual.parse(COPY.format(e="f32", a=16) + scalar)
    text = print_module(run(module, "assign-layouts").module)
    assert "f32<4096, #" in text and 'stage "layouts"' in text
    alone = textual.parse("tir 1.0\n" + scalar.replace("kernel ", ""))
    assert run(alone, "assign-layouts").module is alone


@pytest.mark.parametrize(("extent", "fits"), [(4096, True), (1 << 17, False)])
def test_shared_memory_that_no_block_has_is_refused(extent, fits):
    text = f"""tir 1.0
define kernel void @k(i32* %x, i32* %y) {{
entry:
  %i = make_range i32<256>
  %xs = splat i32*<256> %x
  %p = getelementptr i32*<256> %xs, %i
  %v = load i32<256> %p
  %h = histogram i32<{extent}> %v
  %s = reduce i32 %h {{combiner = smax}}
  store %y, %s
  ret
}}
"""
    if fits:
        assert compile_kernel(textual.parse(text), "sm_80").ptx
        return
    enough = limits(Limits(register_percent=10_000))
    with enough, pytest.raises(CompileError, match="shared memory"):
        compile_kernel(textual.parse(text), "sm_80")


CONVERTED = """tir 1.0
stage "layouts"
#a = layout(rank = 1, register = [[1], [2]], lane = [[4], [8], [16], [32], [64]])
#b = layout(rank = 1, register = [[32], [64]], lane = [[1], [2], [4], [8], [16]])
#c = layout(rank = 1, register = [[1], [64]], lane = [[2], [4], [8], [16], [32]])
define kernel void @k(i32* %x, i32* %y) {num_warps = 1} {
entry:
  %i = make_range i32<128, #c>
  %xs = splat i32*<128, #c> %x
  %p = getelementptr i32*<128, #c> %xs, %i
  %v = load i32<128, #c> %p
  %w = gpu.convert_layout i32<128, #b> %v {layout = #b}
  %u = gpu.convert_layout i32<128, #a> %w {layout = #a}
  %m, _ = icmp (i1<128, #a>, i1<128, #a>) %u, 100 {predicate = slt}
  %mc = gpu.convert_layout i1<128, #c> %m {layout = #c}
  %d = make_range i32<128, #a>
  %ds = splat i32*<128, #a> %x
  %e = getelementptr i32*<128, #a> %ds, %d
  store %e, %u
  %ys = splat i32*<128, #c> %y
  %q = getelementptr i32*<128, #c> %ys, %i
  store %q, %v, %mc
  ret
}
"""


def test_conversions_that_can_be_left_out():
    """One after another is one, and a comparison of numbers is made again."""
    text = print_module(run(textual.parse(CONVERTED), "remove-conversions").module)
    assert text.count("gpu.convert_layout") == 1 and text.count("gpu.convert_layout i32") == 1
    assert text.count("icmp") == 1


CARRIED = """tir 1.0
define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {
entry:
  %i = make_range i32<128>
  %three = splat i32<128> 3
  %odd = and i32<128> %i, %three
  %first, _ = icmp (i1<128>, i1<128>) %odd, 1 {predicate = ne}
  %xs = splat f32*<128> %x
  %p = getelementptr f32*<128> %xs, %i
  %ys = splat f32*<128> %y
  %q = getelementptr f32*<128> %ys, %i
  br loop
loop:
  %step = phi i32 [0, entry], [%next, loop]
  %mask = phi i1<128> [%first, entry], [%other, loop]
  %v = load f32<128> %p, %mask, 0.0
  store %q, %v, %mask
  %other, _ = icmp (i1<128>, i1<128>) %odd, 3 {predicate = slt}
  %next = add i32 %step, 1
  %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
  cond_br %more, loop, done
done:
  ret
}
"""


@pytest.mark.parametrize("warps", [1, 4])
def test_a_mask_that_a_loop_carries_is_asked_lane_by_lane(warps):
    module, x = textual.parse(CARRIED), np.arange(1, 129, dtype=np.float32)
    out = [np.full(128, -1, np.float32) for _ in range(2)]
    tileir.interpret(module, None, 1, [x, out[0], 1])
    SimtExecutor().launch(module, None, 1, [x, out[1], 1], num_warps=warps)
    np.testing.assert_array_equal(out[1], out[0])


CHAIN = """tir 1.0
define kernel void @k(f16* aligned(16) %a, f32* aligned(16) %c) {
entry:
  %i = make_range i32<4096>
  %offs = reshape i32<64, 64> %i
  %as = splat f16*<64, 64> %a
  %pa = getelementptr f16*<64, 64> %as, %offs
  %x = load f16<64, 64> %pa
  %s = dot f32<64, 64> %x, %x, 0.0
  %half = fmul f32<64, 64> %s, 0.5
  %n = fptrunc f16<64, 64> %half
  %old = fmul f32<64, 64> %s, 2.0
  %sum = fadd f32<64, 64> %old, %half
  %t = dot f32<64, 64> %n, %x, %sum
  %cs = splat f32*<64, 64> %c
  %pc = getelementptr f32*<64, 64> %cs, %offs
  store %pc, %t
  ret
}
"""


def test_chained_dots_stay_in_registers():
    """All warps along M: what one matmul gives another takes as it is, and as its accumulators."""
    done = run_pipeline(textual.parse(CHAIN), target("sm_80"), Options(num_warps=4), None)
    text = print_module(done.stages["layouts"])
    after = text[text.index(" = dot ") :]
    between = after[: after.index(" = dot ", 10)]
    assert "gpu.convert_layout" not in between


ROWS_IN_A_LOOP = """tir 1.0
define kernel void @k(f16* aligned(16) %a, f16* aligned(16) %b, f32* aligned(16) %r,
                      f16* aligned(16) %c) {
entry:
  %i = make_range i32<1024>
  %offs = reshape i32<16, 64> %i
  %k = make_range i32<256>
  %ks = reshape i32<16, 16> %k
  %as = splat f16*<16, 16> %a
  %pa = getelementptr f16*<16, 16> %as, %ks
  %x = load f16<16, 16> %pa
  %bs = splat f16*<16, 64> %b
  %pb = getelementptr f16*<16, 64> %bs, %offs
  %y = load f16<16, 64> %pb
  %first = dot f32<16, 64> %x, %y, 0.0
  %columns = make_range i32<64>
  br loop
loop:
  %at = phi i32 [0, entry], [%next, loop]
  %sum = phi f32<16, 64> [%first, entry], [%more.sum, loop]
  %from = mul i32 %at, 64
  %pr = getelementptr f32* %r, %from
  %rs = splat f32*<64> %pr
  %prs = getelementptr f32*<64> %rs, %columns
  %row = load f32<64> %prs
  %one = expand_dims f32<1, 64> %row {axis = 0}
  %all = broadcast f32<16, 64> %one
  %more.sum = fadd f32<16, 64> %sum, %all
  %next = add i32 %at, 1
  %more, _ = icmp (i1, i1) %next, 16 {predicate = slt}
  cond_br %more, loop, done
done:
  %n = fptrunc f16<16, 64> %more.sum
  %old = load f16<16, 64> %pb
  %cs = splat f16*<16, 64> %c
  %pc = getelementptr f16*<16, 64> %cs, %offs
  %older = load f16<16, 64> %pc
  %new = fadd f16<16, 64> %old, %n
  %newer = fadd f16<16, 64> %older, %new
  store %pc, %newer
  ret
}
"""


def test_rows_that_a_loop_loads_are_loaded_for_several_rows_of_a_thread():
    """In the layout of the accumulator a thread has two rows of four columns, and loads four
    elements of a row. In the layout of the accesses after the loop it would load eight."""
    module = textual.parse(ROWS_IN_A_LOOP)
    done = run_pipeline(module, target("sm_90a"), Options(num_warps=4), None)
    (row,) = (
        op.results[0].type
        for op in done.stages["layouts"].functions["k"].ops
        if op.mnemonic == "load" and op.results[0].type.shape == (64,)
    )
    assert row.layout.size("register") == 4
    random = np.random.default_rng(1)
    sizes = ((256, "f2"), (1024, "f2"), (1024, "f4"))
    inputs = [random.integers(-4, 5, n).astype(d) for n, d in sizes]
    out = [np.zeros(1024, np.float16) for _ in range(2)]
    tileir.interpret(module, None, 1, [*inputs, out[0]])
    SimtExecutor().launch(module, None, 1, [*inputs, out[1]], num_warps=4)
    np.testing.assert_array_equal(out[1], out[0])


def tile_load(name, kind, shape):
    """Lines that load a dense tile from a pointer, as `%name.v`."""
    extents = ", ".join(map(str, shape))
    return f"""%{name}.i = make_range i32<{prod(shape)}>
  %{name}.j = reshape i32<{extents}> %{name}.i
  %{name}.s = splat {kind}*<{extents}> %{name}
  %{name}.p = getelementptr {kind}*<{extents}> %{name}.s, %{name}.j
  %{name}.v = load {kind}<{extents}> %{name}.p"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(3, 5, 9, 7), (2, 12, 40, 24), (1, 33, 5, 100)], ids=str)
@pytest.mark.parametrize("warps", [1, 4])
def test_dots_of_odd_shapes(shape, warps):
    """Operands that pass through shared memory, padding left out."""
    batch, m, n, k = shape
    shapes = {"a": (batch, m, k), "b": (batch, k, n), "c": (batch, m, n)}
    parts = "\n  ".join(tile_load(x, "f32", s) for x, s in shapes.items())
    text = f"""tir 1.0
define kernel void @k(f32* %a, f32* %b, f32* %c) {{
entry:
  {parts}
  %d = dot f32<{batch}, {m}, {n}> %a.v, %b.v, %c.v
  store %c.p, %d
  ret
}}
"""
    random = np.random.default_rng(m)
    inputs = [random.integers(-4, 5, s).astype(np.float32) for s in shapes.values()]
    result = inputs[2].copy()
    SimtExecutor().launch(textual.parse(text), None, 1, [*inputs[:2], result], num_warps=warps)
    np.testing.assert_array_equal(result, inputs[0] @ inputs[1] + inputs[2])


@for_each(
    ("size", "warps"),
    [(1, 1), (128, 1), (129, 2), (256, 2), (257, 4), (2048, 4), (2049, 8), (4097, 16), (65536, 16)],
)
def test_warps_by_the_largest_tile(size, warps):
    """More as soon as a thread has more than 4 elements, beyond 4 warps more than 16."""
    text = f"""tir 1.0
define kernel void @k(i32* %x) {{
entry:
  %small = make_range i32<1>
  %large = make_range i32<{size}>
  ret
}}
"""
    function = textual.parse(text).functions["k"]
    assert choose_warps(function, target("sm_80")) == warps
    assert choose_warps(function.evolve(attributes={"num_warps": 3}), target("sm_80")) == 3
