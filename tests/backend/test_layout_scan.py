"""Scans and reductions in any layout, executed by all threads of a block in numpy."""

import itertools
import random
import re
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tileir
from tests.backend.test_layout_conversion import Counting, tilings
from tests.backend.thread_coordinates import coordinates
from tests.sizes import few_or_all
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.emit.reduction import reduce_tile
from tileir.backend.codegen.emit.scan import _Scan, scan_tile
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import vector_run
from tileir.backend.layouts.reduction_plan import (
    may_read_in,
    reduces_along,
    reduction_bytes,
    scans_along,
)
from tileir.backend.layouts.scan_plan import scan_bytes
from tileir.backend.simt.machine import ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.target import target as target_named
from tileir.builder import F32, I1, I8, I16, I32, Builder, arg, pointer
from tileir.errors import CompileError
from tileir.layout import Repeat, layout
from tileir.layout_fragments import mma_result, wgmma_result
from tileir.layout_tilings import blocked_layout
from tileir.machine import dtype_of
from tileir.ops.reduce import Combiner, Reduce, Scan
from tileir.textual import parse
from tileir.types import I64, Tile
from tileir.values import Value


class Recording(Counting):
    """Threads that also record what they write to shared memory, what they add and select."""

    def __init__(self, threads, memory):
        super().__init__(threads, memory)
        self.written, self.additions, self.selects = [], 0, 0

    def store_shared(self, element, offset, values):
        self.written += offset.array[self.active].tolist()
        return super().store_shared(element, offset, values)

    def binary(self, name, element, *operands):
        self.additions += name == "add"
        return super().binary(name, element, *operands)

    def select(self, *operands):
        self.selects += 1
        return super().select(*operands)


def machine(need, warps):
    b = Builder()
    with b.kernel("k"):
        pass
    module = b.module()
    thread = Recording(32 * warps, SimtMemory(need))
    function = module.functions["k"]
    return Lowering(
        module, function, target_named("sm_90"), thread, AccessWidths(function), {}, {}, warps
    )


def thread_values(it, values):
    """`values` as threads hold them; what is padding holds rubbish."""
    for register in range(it.size("register")):
        elements = [
            values[v] if all(a < n for a, n in zip(v, values.shape, strict=True)) else 77
            for v in coordinates(it, register)
        ]
        yield ThreadValues(np.array(elements, values.dtype))


def check(it, fragment, expected):
    for register, fragment_value in enumerate(fragment):
        for t, v in enumerate(coordinates(it, register)):
            if all(a < n for a, n in zip(v, expected.shape, strict=True)):
                assert fragment_value.array[t] == expected[v], (register, t, v)


def scan_and_result(lowering, op):
    """A scan after it ran, and its results."""
    scans = []

    def make(*operands):
        scans.append(_Scan(*operands))
        return scans[0]

    with mock.patch("tileir.backend.codegen.emit.scan._Scan", make):
        results = scan_tile(lowering, op)
    return scans[0], results


def check_scan(it, shape, axis, reverse, element=I64):
    values = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype_of(element))
    value = Value(Tile(element, shape, it))
    op = Scan((value,), axis=axis, combiner=Combiner.ADD, reverse=reverse)
    lowering = machine(scan_bytes(op), it.size("warp"))
    lowering.scratch = {op: 0}
    lowering.values[value] = list(thread_values(it, values))
    turned = np.flip(values, axis) if reverse else values
    expected = np.cumsum(turned, axis)
    scan, (result,) = scan_and_result(lowering, op)
    assert scan.base == scan_bytes(op)
    written = lowering.thread.written
    assert len(written) == len({*written}), "one thread writes what another one does"
    check(it, result, np.flip(expected, axis) if reverse else expected)
    return lowering.thread


def check_reduction(it, shape, axis):
    values = np.random.default_rng(0).integers(-9, 9, shape)
    value = Value(Tile(I64, shape, it))
    op = Reduce((value,), axis=axis, combiner=Combiner.ADD)
    lowering = machine(reduction_bytes(op), it.size("warp"))
    lowering.scratch = {op: 0}
    lowering.values[value] = list(thread_values(it, values))
    (reduced,) = reduce_tile(lowering, op)
    check(it.slice(axis), reduced, values.sum(axis))


LAYOUTS = {
    "rows": blocked_layout((16, 64), (1, 0), 4, 4),
    "columns": blocked_layout((16, 64), (0, 1), 4, 4),
    "long": blocked_layout((2, 1024), (1, 0), 4, 4),
    "odd": blocked_layout((5, 100), (1, 0), 4, 2),
    "three warps": blocked_layout((1, 192), (1, 0), 1, 3),
    "mma": mma_result((32, 32), (2, 2)),
    "wgmma": wgmma_result((64, 24), (4, 1)),
    "deep": blocked_layout((4, 8, 16), (2, 1, 0), 16, 4),
    "replicas": blocked_layout((8,), (0,), 2, 2),
    "lanes turned": layout(1, ((1,),), ((32,), (16,), (8,), (4,), (2,)), ((64,), (128,))),
    "warps below": layout(1, ((4,),), ((32,), (8,), (16,), (2,), (64,)), ((1,), (128,))),
    "runs": layout(1, ((1,), (2,), (128,), (256,)), ((4,), (8,), (16,), (32,), (64,))),
    "runs of warps": layout(
        1, ((64,), (1,), (128,)), ((2,), (4,), (8,), (16,), (32,)), ((256,), (512,))
    ),
    "warps in turn": layout(
        1,
        ((1,),),
        ((2,), (4,), (8,), (16,), (32,)),
        repeats=(Repeat("warp", 3, 0), Repeat("register", 2, 0), Repeat("warp", 2, 0)),
    ),
    "runs of lanes": layout(1, ((1,), (16,), (32,)), ((2,), (4,), (8,), (64,), (128,))),
}
SHAPES = {"rows": (16, 64), "columns": (16, 64), "long": (2, 1024), "odd": (5, 100),
          "three warps": (1, 192), "mma": (32, 32), "wgmma": (64, 24), "deep": (4, 8, 16),
          "replicas": (8,), "lanes turned": (256,), "warps below": (256,), "runs": (512,),
          "runs of warps": (1024,), "runs of lanes": (256,),
          "warps in turn": (763,)}  # fmt: skip


@pytest.mark.sampled(2, by="name")
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("element", [I32, I64], ids=["short joins", "long joins"])
def test_scans_follow_the_layout(name, reverse, element):
    for axis in range(len(SHAPES[name])):
        counts = check_scan(LAYOUTS[name], SHAPES[name], axis, reverse, element)
        assert counts.barriers <= 1 + (name in ("warps below", "warps in turn"))


JOINED = []
"""Calls of `then`."""


def then(name, operands):
    """`@then` of `AFFINE`, of 64 bits."""
    JOINED.append(name)
    m, c, n, d = (x.array for x in operands)
    with np.errstate(over="ignore"):
        return [ThreadValues(m * n), ThreadValues(c * n + d)]


@pytest.mark.sampled(1, by="name")
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("reverse", [False, True])
def test_functions_are_joined_in_order_in_any_layout(name, reverse):
    """Affine maps modulo 2^64, which do not commute."""
    it, shape = LAYOUTS[name], SHAPES[name]
    for axis in range(len(shape)):
        check_function(it, shape, axis, reverse)


def check_function(it, shape, axis, reverse):
    text = AFFINE.format(m=1, n=1, axis=0, reverse="").split("define kernel")[0]
    module = parse(f"{text.replace('i32', 'i64')}define kernel void @k() {{\nentry:\n  ret\n}}\n")
    chance = np.random.default_rng(1)
    operands = [chance.integers(-9, 9, shape) for _ in range(2)]
    values = [Value(Tile(I64, shape, it)) for _ in operands]
    op = Scan(tuple(values), axis=axis, combiner="then", reverse=reverse)
    function, warps = module.functions["k"], it.size("warp")
    thread = Counting(32 * warps, SimtMemory(scan_bytes(op)))
    thread.call_function = then
    lowering = Lowering(
        module, function, target_named("sm_90"), thread, AccessWidths(function), {op: 0}, {},
        warps,
    )  # fmt: skip
    for value, numbers in zip(values, operands, strict=True):
        lowering.values[value] = list(thread_values(it, numbers))
    expected = [x.copy() for x in operands]
    rows = [np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in expected]
    with np.errstate(over="ignore"):
        for i in range(1, shape[axis]):
            rows[1][i] += rows[1][i - 1] * rows[0][i]
            rows[0][i] *= rows[0][i - 1]
    scan, results = scan_and_result(lowering, op)
    for result, reference in zip(results, expected, strict=True):
        check(it, result, reference)
    assert scan.base == scan_bytes(op)
    has_flags = reverse and it.extents[axis] > shape[axis]
    assert scan.elements == [I64, I64, *[I1] * has_flags]


@pytest.mark.parametrize("name", LAYOUTS)
def test_reductions_follow_the_layout(name):
    for axis in range(len(SHAPES[name])):
        check_reduction(LAYOUTS[name], SHAPES[name], axis)


@pytest.mark.sampled(15)
@pytest.mark.parametrize(
    ("combiner", "number"),
    [("add", 0), ("mul", 1), ("and", 2), ("or", 2), ("xor", 0), ("smin", 99), ("smax", -5),
     ("umin", 99), ("umax", 5), ("fadd", -0.0), ("fmul", 1.0), ("fminimum", 99.0),
     ("fmaximum", -5.0), ("fminnum", 99.0), ("fmaxnum", -5.0)],
)  # fmt: skip
@pytest.mark.parametrize("axis", [0, 1])
def test_padding_takes_no_part_in_a_reduction(combiner, number, axis):
    """Numbers that are joined to themselves, and not with what padding holds."""
    it, element = LAYOUTS["odd"], F32 if isinstance(number, float) else I64
    values = np.full(SHAPES["odd"], number, np.float32 if element is F32 else np.int64)
    value = Value(Tile(element, values.shape, it))
    op = Reduce((value,), axis=axis, combiner=Combiner(combiner))
    lowering = machine(reduction_bytes(op), it.size("warp"))
    lowering.scratch = {op: 0}
    lowering.values[value] = list(thread_values(it, values))
    (reduced,) = reduce_tile(lowering, op)
    expected = values[0, :] if axis == 0 else values[:, 0]
    check(it.slice(axis), reduced, expected)
    check(
        it.slice(axis), [ThreadValues(np.signbit(x.array)) for x in reduced], np.signbit(expected)
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_tiling(data):
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.sampled_from([1, 2, 3, 4, 6, 8])) for _ in range(rank))
    it = data.draw(tilings(rank, shape, data.draw(st.sampled_from([1, 2, 6]))))
    if it.digits("lane"):
        return
    axis = data.draw(st.integers(0, rank - 1))
    check_scan(it, shape, axis, data.draw(st.booleans()), data.draw(st.sampled_from([I32, I64])))
    check_reduction(it, shape, axis)


# What is emitted ------------------------------------------------------------------------------

STD = {
    "argmax": ("argmax", "(f32, i32)", "f32<{n}> %v, i32<{n}> %i"),
    "welford": ("welford", "(f32, f32, f32)", "f32<{n}> %v, f32<{n}> %m2, f32<{n}> %one"),
}


def instructions(ptx):
    words = {"barriers": r"\bbar(?:rier)?\.(?:cta\.)?sync", "shuffles": r"shfl\.sync",
             "stores": r"\bst\.shared\S*", "loads": r"\bld\.shared\S*"}  # fmt: skip
    return {name: len(re.findall(pattern, ptx)) for name, pattern in words.items()}


def ptx_instructions(module, warps):
    return instructions(compile_kernel(module, "sm_90", {"num_warps": warps}).ptx)


def total(n):
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F32), aligned=16)) as (x, y):
        y.store((x + b.arange(n)).load().sum(axis=0))
    return b.module()


@pytest.mark.parametrize(
    ("n", "warps", "barriers", "more"),
    [(128, 4, 0, 0), (32, 1, 0, 0), (512, 2, 1, 0), (1024, 4, 1, 2), (2048, 8, 1, 3)],
)
def test_a_full_reduction_has_no_redundant_barrier(n, warps, barriers, more):
    """Kernels 230424_03 and 04 of Triton PTX 2023: two barriers and two round trips through shared
    memory, of which the document calls one redundant, and both where there is one warp. Lanes read
    the partials of one warp each, which saves registers, and join them by `more` shuffles; of two
    warps each lane reads both."""
    counts = ptx_instructions(total(n), warps)
    assert counts["shuffles"] == 5 + more
    assert counts["barriers"] == counts["stores"] == counts["loads"] == barriers


def softmax(m, n):
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F32), aligned=16)) as (x, y):
        place = b.arange(m)[:, None] * n + b.arange(n)[None, :]
        v = (x + place).load()
        e = (v - v.max(axis=1)[:, None]).exp()
        (y + place).store(e / e.sum(axis=1)[:, None])
    return b.module()


def test_a_row_softmax_reduces_within_a_warp_where_a_row_fits():
    rows = ptx_instructions(softmax(4, 256), 4)
    assert rows == {"barriers": 0, "shuffles": 10, "stores": 0, "loads": 0}
    several = ptx_instructions(softmax(16, 128), 4)
    assert several == {
        "barriers": 0,
        "shuffles": 18,
        "stores": 0,
        "loads": 0,
    }  # four by butterfly: 40
    row = ptx_instructions(softmax(1, 1024), 4)
    assert row == {"barriers": 2, "shuffles": 14, "stores": 2, "loads": 2}  # 2 x (5 + 2 of 4 warps)


KERNEL = """tir 1.0

declare {results} @{name}({parameters})

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y) {{
entry:
  %i = make_range i32<{n}>
  %xs = splat f32*<{n}> %x
  %p = getelementptr f32*<{n}> %xs, %i
  %v = load f32<{n}> %p
  %m2 = splat f32<{n}> 0.0
  %one = splat f32<{n}> 1.0
  {left} = reduce {results} {operands} {{combiner = @{name}}}
  store %y, %r
  ret
}}
"""


@pytest.mark.parametrize("name", STD)
@pytest.mark.parametrize(("n", "warps"), [(128, 1), (1024, 4)])
def test_reductions_of_several_values_synchronize_once(name, n, warps):
    symbol, results, operands = STD[name]
    count = results.count(",") + 1
    scalars = results.strip("()").split(", ")
    parameters = ", ".join(f"{t} %a{i}" for i, t in enumerate(scalars * 2))
    text = KERNEL.format(
        results=results, name=symbol, n=n, parameters=parameters,
        operands=re.sub(r"\S+> ", "", operands.format(n=n)),
        left=", ".join(["%r", *[f"%r{i}" for i in range(1, count)]]),
    )  # fmt: skip
    counts = ptx_instructions(parse(text), warps)
    several = 1 if warps > 1 else 0
    assert counts["barriers"] == several
    assert counts["shuffles"] == (5 + 2 * several) * count
    assert counts["stores"] == counts["loads"] == several * count


def test_a_scan_moves_nothing_but_totals():
    b = Builder()
    with b.kernel("k", x=arg(pointer(I32), aligned=16), y=arg(pointer(I32), aligned=16)) as (x, y):
        i = b.arange(1024)
        (y + i).store(b.scan((x + i).load(), axis=0, combiner="add"))
    module = b.module()
    counts = ptx_instructions(module, 4)
    # two runs of 512: of each 5 for the bits of the lane, and the prefix before a lane
    assert counts == {"barriers": 1, "shuffles": 12, "stores": 2, "loads": 2}
    x = np.arange(1024, dtype=np.int32)
    y = np.zeros_like(x)
    tileir.interpret(module, None, 1, [x, y])
    np.testing.assert_array_equal(y, np.cumsum(x))


AFFINE = """tir 1.0

define (i32, i32) @then(i32 %m, i32 %c, i32 %n, i32 %d) {{
entry:
  %product = mul i32 %m, %n
  %scaled = mul i32 %c, %n
  %sum = add i32 %scaled, %d
  ret %product, %sum
}}

define kernel void @k(i32* aligned(16) %x, i32* aligned(16) %y, i32* aligned(16) %z) {{
entry:
  %rows = make_range i32<{m}>
  %row = reshape i32<{m}, 1> %rows
  %columns = make_range i32<{n}>
  %column = reshape i32<1, {n}> %columns
  %i = broadcast i32<{m}, {n}> %row
  %j = broadcast i32<{m}, {n}> %column
  %scaled = mul i32<{m}, {n}> %i, {n}
  %place = add i32<{m}, {n}> %scaled, %j
  %xs = splat i32*<{m}, {n}> %x
  %p = getelementptr i32*<{m}, {n}> %xs, %place
  %v = load i32<{m}, {n}> %p
  %w = add i32<{m}, {n}> %v, %place
  %a, %b = scan (i32<{m}, {n}>, i32<{m}, {n}>) %v, %w {{axis = {axis}, combiner = @then{reverse}}}
  %ys = splat i32*<{m}, {n}> %y
  %q = getelementptr i32*<{m}, {n}> %ys, %place
  store %q, %a
  %zs = splat i32*<{m}, {n}> %z
  %r = getelementptr i32*<{m}, {n}> %zs, %place
  store %r, %b
  ret
}}
"""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "axis", "warps"),
    [(4, 256, 1, 4), (64, 8, 0, 2), (8, 64, 0, 4), (1, 1024, 1, 4), (2, 48, 1, 2), (256, 1, 0, 4)],
)
def test_scans_by_a_function_keep_the_order(m, n, axis, warps, reverse):
    """Affine maps, one after the other, in no order but theirs."""
    text = AFFINE.format(m=m, n=n, axis=axis, reverse=", reverse = true" if reverse else "")
    module = parse(text)
    x = np.random.default_rng(0).integers(-9, 9, m * n).astype(np.int32)
    expected = [x, np.zeros_like(x), np.zeros_like(x)]
    tileir.interpret(module, None, 1, expected)
    actual = [x, np.zeros_like(x), np.zeros_like(x)]
    SimtExecutor().launch(module, "k", 1, actual, num_warps=warps)
    np.testing.assert_array_equal(actual[1], expected[1])
    np.testing.assert_array_equal(actual[2], expected[2])


@pytest.mark.parametrize("first", ["", ", reverse = true"])
@pytest.mark.parametrize(("m", "n", "axis"), [(64, 8, 0), (256, 1, 0), (1, 1024, 1)])
def test_scans_of_both_directions_in_a_kernel(m, n, axis, first):
    """A lane that one scan reads from is not the other's."""
    text = AFFINE.format(m=m, n=n, axis=axis, reverse="" if first else ", reverse = true")
    line = next(line for line in text.splitlines() if " = scan " in line)
    before = f"axis = {axis}, combiner = @then{first}"
    both = line.replace("%a, %b", "%c, %d").replace(line[line.index("axis") :], before + "}")
    module = parse(text.replace(line, f"{both}\n{line.replace('%v, %w', '%c, %d')}"))
    x = np.random.default_rng(0).integers(-9, 9, m * n).astype(np.int32)
    expected, result = ([x, np.zeros_like(x), np.zeros_like(x)] for _ in range(2))
    tileir.interpret(module, None, 1, expected)
    SimtExecutor().launch(module, "k", 1, result, num_warps=4)
    np.testing.assert_array_equal(result[1], expected[1])
    np.testing.assert_array_equal(result[2], expected[2])


@pytest.mark.parametrize("element", [I8, I16, I32])
@pytest.mark.parametrize("combiner", [c.value for c in Combiner if not c.of_floats])
def test_one_instruction_reduces_integers_of_a_warp(element, combiner):
    """All but multiplication, for which there is none."""
    b = Builder()
    with b.kernel("k", x=pointer(element), y=pointer(element)) as (x, y):
        y.store(b.reduce((x + b.arange(256)).load(), axis=0, combiner=combiner))
    module = b.module()
    ptx = compile_kernel(module, "sm_90", {"num_warps": 2}).ptx
    one = combiner != "mul"
    assert (ptx.count("redux.sync"), ptx.count("shfl.sync")) == ((1, 0) if one else (0, 5))
    dtype, low = dtype_of(element), -(1 << element.bits - 1)
    values = np.random.default_rng(0).integers(low, -low, 256).astype(dtype)
    expected, actual = np.zeros(1, dtype), np.zeros(1, dtype)
    tileir.interpret(module, "k", 1, [values, expected])
    SimtExecutor().launch(module, "k", 1, [values, actual], num_warps=2)
    assert actual == expected


@pytest.mark.parametrize("combiner", ["or", "and", "xor", "add", "smin", "umax"])
@pytest.mark.parametrize("count", [0, 1, 128, 255, 256])
def test_one_instruction_reduces_bits_of_a_warp(combiner, count):
    """Those combiners that treat a bit as they treat a word."""
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I1)) as (x, y):
        bits = (x + b.arange(256)).load() != 0
        y.store(b.reduce(bits, axis=0, combiner=combiner))
    module = b.module()
    ptx = compile_kernel(module, "sm_90", {"num_warps": 2}).ptx
    assert ("redux.sync" in ptx) == (combiner in ("or", "and", "xor"))
    values = (np.arange(256) < count).astype(np.int32)
    expected, actual = np.zeros(1, np.bool_), np.zeros(1, np.bool_)
    tileir.interpret(module, "k", 1, [values, expected])
    SimtExecutor().launch(module, "k", 1, [values, actual], num_warps=2)
    assert actual == expected


ACROSS_WARPS = layout(2, ((1, 0), (0, 32)), tuple((0, 1 << n) for n in range(5)), ((2, 0), (4, 0)))
"""8 x 64 elements; warps share columns."""
READ_IN = {
    "the same": (ACROSS_WARPS.slice(0), True),
    "pairs": (layout(1, ((1,),), tuple((2 << n,) for n in range(5)), ((0,), (0,))), True),
    "one each": (layout(1, (), tuple((1 << n,) for n in range(5)), ((32,), (0,))), True),
    "turned": (layout(1, ((16,),), ((32,), (8,), (4,), (2,), (1,)), ((0,), (0,))), True),
    "more registers": (
        layout(1, ((1,), (2,)), ((4,), (8,), (16,), (32,), (0,)), ((0,), (0,))), False,
    ),
    "more elements": (
        layout(1, ((64,),), tuple((1 << n,) for n in range(5)), ((32,), (0,))), False,
    ),
    "fewer elements": (layout(1, (), tuple((1 << n,) for n in range(5)), ((0,), (0,))), False),
    "nothing": (None, False),
}  # fmt: skip
"""Layouts of 64 elements, and whether the result of a reduction over rows may be read in them."""


@pytest.mark.parametrize("name", READ_IN)
def test_a_result_is_read_in_the_layout_that_is_asked_for(name):
    target, accepted = READ_IN[name]
    assert may_read_in(ACROSS_WARPS, 0, target) == accepted
    assert not may_read_in(ACROSS_WARPS, 1, ACROSS_WARPS.slice(1))  # no warps share a row
    if not accepted:
        return
    values = np.random.default_rng(0).integers(-9, 9, (8, 64))
    value, result = Value(Tile(I64, (8, 64), ACROSS_WARPS)), Value(Tile(I64, (64,), target))
    op = Reduce((value,), axis=0, combiner=Combiner.ADD).evolve(results=(result,))
    lowering = machine(reduction_bytes(op), 4)
    lowering.scratch = {op: 0}
    lowering.values[value] = list(thread_values(ACROSS_WARPS, values))
    (reduced,) = reduce_tile(lowering, op)
    check(target, reduced, values.sum(0))


def random_layout(chance, ordered=False):
    """A layout of 16 x 64 elements by 4 warps, of whose vectors some are joined to others: threads
    and registers move along both dimensions at once."""
    vectors = [(0, 1 << n) for n in range(6)] + [(1 << n, 0) for n in range(4)]
    if not ordered:
        chance.shuffle(vectors)
    for _ in range(chance.randrange(4)):
        to, other = chance.sample(range(len(vectors)), 2)
        joined = tuple(a ^ b for a, b in zip(vectors[to], vectors[other], strict=True))
        vectors[to] = joined
    return layout(2, tuple(vectors[:3]), tuple(vectors[3:8]), tuple(vectors[8:]))


@pytest.mark.parametrize("count", few_or_all(40, 400))
def test_swizzled_layouts_are_scanned_where_threads_are_in_order(count):
    """Along each axis; other layouts are rejected, and the choice of layouts avoids them."""
    chance = random.Random(5)
    seen = {True: 0, False: 0}
    for _ in range(count):
        it = random_layout(chance)
        for axis in (0, 1):
            accepted = scans_along(it, axis)
            seen[accepted] += 1
            if accepted:
                check_scan(it, (16, 64), axis, chance.random() < 0.5)
                continue
            with pytest.raises(CompileError, match="swizzled along axis"):
                check_scan(it, (16, 64), axis, False)
    assert min(seen.values()) > count // 5


@pytest.mark.parametrize("count", few_or_all(30, 600))
def test_swizzled_layouts_are_reduced_where_threads_share_results(count):
    """Along each axis; other layouts are rejected: those whose lanes or warps move along the axis
    and the other dimension at once, and those of which another vector moves along the dimension
    that a swizzled register moves along."""
    chance = random.Random(7)
    seen = {True: 0, False: 0}
    for _ in range(count):
        it = random_layout(chance)
        for axis in (0, 1):
            accepted = reduces_along(it, axis)
            seen[accepted] += 1
            if accepted:
                check_reduction(it, (16, 64), axis)
                continue
            with pytest.raises(CompileError, match="swizzled along axis"):
                check_reduction(it, (16, 64), axis)
            diagonal = [v for v in it.register if v[axis] and v[1 - axis]]
            assert diagonal or any(v[axis] and v[1 - axis] for v in (*it.lane, *it.warp))
    assert min(seen.values()) > count // 5


@pytest.mark.parametrize("count", few_or_all(40, 400))
def test_runs_of_registers_are_neighbours_in_order(count):
    """From a multiple of their number on, in every thread, whatever threads move along."""
    chance, longest = random.Random(3), 1
    for _ in range(count):
        it = random_layout(chance, ordered=chance.random() < 0.6)
        for dim in (0, 1):
            run = vector_run(it, dim)
            longest = max(longest, run)
            for lane, warp in itertools.product(range(32), range(4)):
                first = it.coordinate(0, lane, warp)
                assert first[dim] % run == 0
                for register in range(run):
                    place = list(first)
                    place[dim] += register
                    assert it.coordinate(register, lane, warp) == tuple(place)
    assert longest >= 4


@pytest.mark.parametrize(("stride", "shuffles"), [(2, 4 * 5 + 4), (16, 16 * 5), (32, 6)])
def test_lanes_own_neighbours_that_share_lines(stride, shuffles):
    """A warp accesses fewer lines if its lanes are neighbours. Where each element is in another
    line, a thread owns 16 neighbours, and lanes exchange totals alone."""
    b = Builder()
    buffers = {n: arg(pointer(F32), aligned=16) for n in "xy"}
    with b.kernel("k", **buffers) as (x, y):
        place = b.arange(2048) * stride
        (y + place).store(b.scan((x + place).load(), axis=0, combiner="fadd"))
    module = b.module()
    code = compile_kernel(module, "sm_90", {"num_warps": 4})
    assert code.ptx.count("shfl.sync") == shuffles
    x = np.random.default_rng(0).integers(-9, 9, 2048 * stride).astype(np.float32)
    y = np.zeros_like(x)
    SimtExecutor().launch(module, "k", 1, [x, y], num_warps=4)
    np.testing.assert_array_equal(y[::stride], np.cumsum(x[::stride]))
