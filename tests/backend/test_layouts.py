"""Layout assignment: where conversions are, and that there are no more than needed."""

from math import prod

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tileir
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import AnchorLayouts, vector_run
from tileir.backend.layouts.assign_layouts import assign_layouts
from tileir.backend.layouts.reduction_plan import warps_along
from tileir.backend.layouts.shape_ops import operand_layout_of, result_layout, stays
from tileir.backend.legalize.link_inline import legalize
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.target import target
from tileir.builder import BF16, F16, F32, I8, I32, I64, Builder, arg, pointer
from tileir.layout_tilings import blocked_layout
from tileir.ops.rearrange import Cat
from tileir.textual import parse
from tileir.types import Tile
from tileir.values import Value


def layouts_of(module, warps=4):
    (name,) = module.functions
    function = legalize(module, name).functions[name]
    return assign_layouts(function, AnchorLayouts(function, AccessWidths(function), warps))


def conversions(function):
    """Block and element type of each conversion, in order."""
    return [
        (label, str(op.result.type.element), op.result.type.shape)
        for label, block in function.blocks.items()
        for op in block.ops
        if op.mnemonic == "gpu.convert_layout"
    ]


def kernel(body, element=F32, shape=(64, 64)):
    """`body(builder, x, y, across, down)`: offsets row by row, and column by column."""
    b = Builder()
    buffers = {name: arg(pointer(element), aligned=16) for name in "xy"}
    with b.kernel("k", **buffers) as (x, y):
        rows, columns = (b.arange(n) for n in shape)
        row_major = rows[:, None] * shape[1] + columns[None, :]
        down = rows[:, None] + columns[None, :] * shape[0]
        body(b, x, y, row_major, down)
    return b.module()


def test_softmax_needs_no_conversion():
    def body(b, x, y, row_major, down):
        v = (x + row_major).load()
        e = (v - v.max(axis=1)[:, None]).exp()
        (y + row_major).store(e / e.sum(axis=1)[:, None])

    assert conversions(layouts_of(kernel(body))) == []


@pytest.mark.parametrize("first", ["across", "down"])
def test_a_sum_of_rows_and_columns_converts_what_is_not_stored_so(first):
    def body(b, x, y, row_major, down):
        a, c = (x + row_major).load(), (y + down).load()
        (x + row_major).store(a + c if first == "across" else c + a)

    assert len(conversions(layouts_of(kernel(body)))) == 1


@pytest.mark.parametrize(("wide", "narrow"), [(F32, F16), (F16, F32)])
def test_the_narrow_side_of_a_cast_is_converted(wide, narrow):
    """Loaded as F16, stored as F32 by columns, or the other way around: f16 moves."""
    b = Builder()
    source, target = arg(pointer(wide), aligned=16), arg(pointer(narrow), aligned=16)
    with b.kernel("k", x=source, y=target) as (x, y):
        i, j = b.arange(64), b.arange(64)
        v = (x + (i[:, None] * 64 + j[None, :])).load().to(narrow)
        (y + (i[:, None] + j[None, :] * 64)).store(v)
    assert conversions(layouts_of(b.module())) == [("entry", "f16", (64, 64))]


LOOP = """tir 1.0

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {
entry:
  %i = make_range i32<64>
  %r = expand_dims i32<64, 1> %i {axis = 1}
  %c = expand_dims i32<1, 64> %i {axis = 0}
  %r64 = mul i32<64, 1> %r, 64
  %c64 = mul i32<1, 64> %c, 64
  %ra = broadcast i32<64, 64> %r64
  %ca = broadcast i32<64, 64> %c
  %across = add i32<64, 64> %ra, %ca
  %rd = broadcast i32<64, 64> %r
  %cd = broadcast i32<64, 64> %c64
  %down = add i32<64, 64> %rd, %cd
  %xs = splat f32*<64, 64> %x
  %p = getelementptr f32*<64, 64> %xs, %down
  %first = load f32<64, 64> %p
  br loop
loop:
  %k = phi i32 [0, entry], [%k1, loop]
  %sum = phi f32<64, 64> [%first, entry], [%next, loop]
  %ks = splat i32<64, 64> %k
  %offs = add i32<64, 64> %across, %ks
  %q = getelementptr f32*<64, 64> %xs, %offs
  %v = load f32<64, 64> %q
  %next = fadd f32<64, 64> %sum, %v
  %k1 = add i32 %k, 4096
  %more, _ = icmp (i1, i1) %k1, %n {predicate = slt}
  cond_br %more, loop, exit
exit:
  %ys = splat f32*<64, 64> %y
  %o = getelementptr f32*<64, 64> %ys, %down
  store %o, %next
  ret
}
"""


def test_conversions_stay_out_of_loops():
    """Loaded and stored by columns, summed in a loop over rows: one conversion on either side."""
    labels = [label for label, *_ in conversions(layouts_of(parse(LOOP)))]
    assert labels == ["entry", "exit"] or (len(labels) == 2 and "loop" not in labels)


def test_a_sum_is_converted_after_it_is_small():
    def body(b, x, y, row_major, down):
        total = (x + down).load().sum(axis=1)
        (y + b.arange(64)).store(total)

    assert all(shape == (64,) for _, _, shape in conversions(layouts_of(kernel(body))))


def test_a_row_of_a_matrix_and_vectors_have_one_width():
    """The gradient of a norm: a row and weights in f16, sums of rows, as vectors, in f32."""
    b, half = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("k", x=half, w=half, y=half, total=arg(pointer(F32), aligned=16)) as (
        x, w, y, total,
    ):  # fmt: skip
        columns = b.arange(4096)
        row = columns[None, :]
        product = (x + row).load().to(F32) * (w + columns).load().to(F32)[None, :]
        (y + row).store((product / product.sum(axis=1)[:, None]).to(F16))
        (total + columns).store(product.sum(axis=0))
    assert conversions(layouts_of(b.module(), 8)) == []


def test_a_row_is_converted_before_it_is_broadcast():
    def body(b, x, y, row_major, down):
        bias = (x + b.arange(64)).load()
        (y + row_major).store((x + row_major).load() + bias[None, :])

    assert all(shape == (64,) for _, _, shape in conversions(layouts_of(kernel(body))))


def test_small_tiles_leave_no_thread_without_an_element():
    """Kernel 03b of Triton PTX 2023: 128 elements for 128 threads are one each, not four for a
    warp."""
    b = Builder()
    buffers = {name: arg(pointer(F32), aligned=16) for name in "xy"}
    with b.kernel("k", **buffers, n=arg(I32, multiple_of=16)) as (x, y, n):
        i = b.arange(128)
        (y + i).store((x + i).load(i < n), i < n)
    (tile,) = {op.result.type for op in layouts_of(b.module()).ops if op.mnemonic == "load"}
    assert tile.layout.size("register") == 1 and not tile.layout.free_bits("warp")


@pytest.mark.parametrize(("size", "repeated"), [(64, True), (512, False)])
def test_one_warp_owns_a_reduced_tile_only_if_it_loads_few_words(size, repeated):
    """A store of bytes asks for 16 elements of a thread. Were all 512 of one warp, each of the 8
    warps would load 8 vectors of i64 per thread where one is enough."""
    b = Builder()
    types = {"x": arg(pointer(I64), aligned=16), "y": arg(pointer(I8), aligned=16)}
    with b.kernel("k", **types, n=pointer(I64)) as (x, y, n):
        i = b.arange(size)
        values = (x + i).load()
        (y + i).store(values.to(I8))
        n.store(values.sum(axis=0))
    function = layouts_of(b.module(), 8)
    (load,) = (op for op in function.ops if op.mnemonic == "load")
    assert bool(load.result.type.layout.free_bits("warp")) == repeated
    assert load.result.type.layout.size("register") * 8 <= 32


def test_a_row_that_is_summed_over_one_element_is_of_all_warps():
    """The sum of a tile of one row moves nothing: warps need not repeat each other's elements."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(BF16), aligned=16)) as (x,):
        at = b.arange(1)[:, None] * 64 + b.arange(64)[None, :]
        (x + b.arange(64)).store((x + at).load().sum(axis=0))
    (load,) = (op for op in layouts_of(b.module(), 2).ops if op.mnemonic == "load")
    assert load.result.type.layout.size("register") == 1


def interleaved_pairs(n):
    """Pairs of neighbours summed and subtracted: split, then joined again, then one after the
    other."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F32), aligned=16)) as (x, y):
        pairs = b.arange(n)[:, None] * 2 + b.arange(2)[None, :]
        low, high = b.split((x + pairs).load())
        (y + pairs).store(b.join(low + high, low - high))
        whole = b.cat(low, high, axis=0)
        (y + b.arange(2 * n) + 2 * n).store(whole)
    return b.module()


@pytest.mark.parametrize(("n", "free"), [(512, True), (64, False), (7, False), (100, False)])
@pytest.mark.parametrize("warps", [1, 4])
def test_halves_stay_in_registers(n, free, warps):
    module = interleaved_pairs(n)
    x = np.arange(2 * n, dtype=np.float32) ** 2
    results = []
    for launch in (SimtExecutor().launch, tileir.interpret):
        y = np.zeros(4 * n, np.float32)
        more = {"num_warps": warps} if launch is not tileir.interpret else {}
        launch(module, None, 1, [x, y], **more)
        results.append(y)
    np.testing.assert_array_equal(*results)
    if free:
        function = layouts_of(module, warps)
        assert all(stays(op) for op in function.ops if op.mnemonic in ("join", "split", "cat"))


def butterflies(n):
    """Sums and differences of elements 2**k apart, for every k from the largest on: a
    Walsh-Hadamard transform."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16)) as (x,):
        value, groups, rest = (x + b.arange(n)).load(), 1, n
        while rest > 1:
            rest //= 2
            pairs = b.trans(value.reshape(groups, 2, rest), order=(0, 2, 1))
            low, high = b.split(pairs)
            value = b.trans(b.join(low + high, low - high), order=(0, 2, 1))
            groups *= 2
        (x + b.arange(n)).store(value.reshape(n))
    return b.module()


def test_a_chain_of_splits_and_joins_moves_only_what_other_threads_own():
    """Layouts follow the halves through transposes and reshapes. 7 of the 12 pairings of 4096
    elements are of elements that different threads own. Each of the 128 threads has 32 elements,
    so that 2 conversions are enough for these, and 1 for the store."""
    function = layouts_of(butterflies(4096))
    assert all(stays(op) for op in function.ops if op.mnemonic in ("join", "split"))
    moved = [
        op
        for op in function.ops
        if op.mnemonic == "gpu.convert_layout"
        and not isinstance(conversion(op.inputs[0].type, op.result.type.layout), tuple)
    ]
    assert len(moved) == 3
    x = np.random.default_rng(1).integers(-9, 9, 4096).astype(np.float32)
    actual, expected = x.copy(), x.copy()
    SimtExecutor().launch(butterflies(4096), None, 1, [actual], num_warps=4)
    tileir.interpret(butterflies(4096), None, 1, [expected])
    np.testing.assert_array_equal(actual, expected)


def test_a_reshape_moves_nothing_between_threads():
    """Elements that are loaded along columns are stored along rows. A conversion moves them, which
    chooses where in shared memory they stand."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F32), aligned=16)) as (x, y):
        columns = (x + b.arange(64)[:, None] + b.arange(64)[None, :] * 64).load()
        (y + b.arange(4096)).store(columns.reshape(4096))
    reshapes = [op for op in layouts_of(b.module()).ops if op.mnemonic == "reshape"]
    assert reshapes
    for op in reshapes:
        source, tile = op.value.type, op.result.type
        assert tile.layout == source.layout.reshape(source.shape, tile.shape)
    x, y = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    SimtExecutor().launch(b.module(), None, 1, [x, y], num_warps=4)
    np.testing.assert_array_equal(y, x.reshape(64, 64).T.reshape(-1))


@pytest.mark.parametrize(
    ("shapes", "axis", "free"),
    [
        (((64,), (64,)), 0, True), (((4, 32), (4, 32)), 0, True), (((4, 32), (4, 32)), 1, True),
        (((64,), (32,)), 0, False), (((100,), (100,)), 0, False), (((4, 100), (4, 100)), 1, False),
    ],
)  # fmt: skip
def test_consecutive_tiles_keep_the_layout_of_halves_that_fill_theirs(shapes, axis, free):
    low, high = (Value(Tile(F32, shape)) for shape in shapes)
    op, layout = (
        Cat(low, high, axis=axis),
        blocked_layout(shapes[0], tuple(range(len(shapes[0])))[::-1], 2, 1),
    )
    result = result_layout(op, layout)
    assert (result is not None) == free
    if free:
        assert operand_layout_of(op, result) == layout and result.extents == op.result.type.shape


def test_a_sum_that_is_planned_elsewhere_is_converted():
    """The result of a reduction has the layout that its operand gives it, whatever is planned."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F32), aligned=16)) as (x, y):
        i = b.arange(8)
        column = (x + i).load()[:, None]
        (y + i).store(column.max(axis=1) + (x + i).load())
        (y + i[:, None] + 8).store(column)
    function = layouts_of(b.module(), 1)
    for op in function.ops:
        if op.mnemonic == "reduce":
            assert op.result.type.layout == op.inputs[0].type.layout.slice(1)
    x, y = np.arange(8, dtype=np.float32), np.zeros(16, np.float32)
    SimtExecutor().launch(b.module(), None, 1, [x, y], num_warps=1)
    np.testing.assert_array_equal(y, np.concatenate([2 * x, x]))


def choices_by_rows(experts, columns, repetitions):
    """Matmuls of rows with a vector, added up, of which the greatest ones are chosen by `again`
    further reductions."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), w=pointer(F32), y=pointer(F32)) as (x, w, y):
        column = b.arange(columns)
        row = b.arange(experts)[:, None] * columns
        logits = ((w + (row + column[None, :])).load() * (x + column).load()[None, :]).sum(axis=1)
        for i in range(repetitions):
            most = logits.max(axis=0)
            (y + i).store(most)
            logits = b.select(logits == most, -1.0, logits)
    return b.module()


@pytest.mark.parametrize(
    ("experts", "columns", "warps", "repetitions", "exchanges"),
    [
        (4, 64, 8, 3, 1),
        (8, 1024, 16, 1, 1),  # the totals are delivered to all warps
        (8, 64, 4, 3, 1),  # of rows of one warp each: they are converted once
        (16, 64, 8, 2, 1),
        (16, 64, 8, 1, 1),  # a conversion would spare nothing
        (64, 64, 4, 2, 2),  # more elements than lanes
    ],
)
def test_short_results_that_are_reduced_again_are_those_of_every_warp(
    experts, columns, warps, repetitions, exchanges
):
    module = choices_by_rows(experts, columns, repetitions)
    function = layouts_of(module, warps)
    reductions = [op for op in function.ops if op.mnemonic == "reduce"]
    by_shared = [op for op in reductions if warps_along(op.inputs[0].type.layout, op.axis) > 1]
    moved = [shape for _, _, shape in conversions(function) if shape == (experts,)]
    assert len(by_shared) + len(moved) == exchanges
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 8, n).astype(np.float32) for n in (columns, experts * columns))
    y = np.zeros(repetitions, np.float32)
    SimtExecutor().launch(module, None, 1, [x, w, y], num_warps=warps)
    totals = w.reshape(experts, columns) @ x
    np.testing.assert_array_equal(y, -np.unique(-totals)[:repetitions])


def column_totals(loop, centred):
    """Sums over rows, added up by a loop or not; each row less its mean of all columns."""
    b = Builder()
    tensors = {name: arg(pointer(F32), aligned=16) for name in "xy"}
    with b.kernel("k", **tensors, n=arg(I32)) as (x, y, n):
        column, total = b.arange(64), b.var(b.full((64,), 0.0, F32))
        at = b.arange(64)[:, None] * 64 + column[None, :]

        def add(start):
            rows = (x + (start + at)).load()
            totals = rows.sum(axis=0)
            total.set(total.get() + totals)
            if centred:
                (y + (64 + start + at)).store(rows - totals[None, :])

        if loop:
            with b.for_(0, n, 4096) as i:
                add(i)
        else:
            add(4096)
        (y + column).store(total.get())
    return b.module()


@pytest.mark.parametrize(
    ("loop", "centred", "owned"),
    [(True, False, 1), (False, False, 4), (True, True, 4)],
)
def test_threads_join_few_elements_of_what_a_loop_reduces(loop, centred, owned):
    """What warps add up is delivered with one element to a thread, unless it is needed next to the
    rows, of which a thread has four columns."""
    module = column_totals(loop, centred)
    function = layouts_of(module, 8)
    (reduction,) = [op for op in function.ops if op.mnemonic == "reduce"]
    assert reduction.result.type.layout.size("register") == owned
    assert not conversions(function) or not loop
    x = np.random.default_rng(0).integers(0, 9, (192, 64)).astype(np.float32)
    y = np.zeros(64 + x.size, np.float32)
    start = x.size if loop else 4096
    SimtExecutor().launch(module, None, 1, [x.reshape(-1), y, start], num_warps=8)
    np.testing.assert_array_equal(y[:64], (x if loop else x[64:128]).sum(axis=0))


def test_threads_own_neighbours_along_the_axis_of_a_scan():
    """Down the columns of a tile, they scan their elements before they exchange anything; rows of
    a warp stay whole lines."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16)) as (x,):
        at = b.arange(64)[:, None] * 32 + b.arange(32)[None, :]
        (x + at).store((x + at).load().cumsum(axis=0))
    function = layouts_of(b.module())
    (scan,) = (op for op in function.ops if op.mnemonic == "scan")
    owned = scan.result.type.layout.registers
    assert {(row, column) for row, column in owned} == {(i, j) for i in range(4) for j in range(4)}
    assert not conversions(function)
    values = np.random.default_rng(2).integers(0, 9, 64 * 32).astype(np.float32)
    expected = np.cumsum(values.reshape(64, 32), axis=0).reshape(-1)
    SimtExecutor().launch(b.module(), None, 1, [values], num_warps=4)
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(("aligned", "widest"), [(16, 8), (2, 1)])
def test_rows_that_are_not_aligned_keep_neighbouring_lanes_on_neighbours(aligned, widest):
    """A thread that owns 8 elements of f16 accesses unaligned rows one by one, and a warp then 16
    sectors by every instruction, whatever the alignment of what all rows share."""
    b = Builder()
    types = {name: arg(pointer(F16), aligned=aligned) for name in "xy"}
    with b.kernel("k", **types, w=arg(pointer(F16), aligned=16)) as (x, y, w):
        i = b.arange(1024)
        (y + i).store((x + i).load() * (w + i).load())
    function = layouts_of(b.module())
    (store,) = (op for op in function.ops if op.mnemonic == "store")
    assert vector_run(store.inputs[0].type.layout, 0) == widest
    assert not conversions(function)


@pytest.mark.parametrize(("rows", "columns", "owned"), [(4, 4, 1), (8, 8, 2), (16, 16, 4)])
def test_small_reduced_tiles_occupy_all_lanes(rows, columns, owned):
    """One warp computes what a tile of few elements holds, by as many lanes as there are elements,
    and not by those alone that could load them at once."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16)) as (x,):
        at = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]
        tile = (x + at).load()
        (x + at).store(tile - tile.max(axis=1)[:, None])
    (load,) = (op for op in layouts_of(b.module(), 1).ops if op.mnemonic == "load")
    assert vector_run(load.inputs[0].type.layout, 1) == owned


def rotation(length):
    """Two tiles, of other layouts, scaled by the sum of two vectors of `length` elements."""
    b = Builder()
    types = {name: arg(pointer(BF16), aligned=16) for name in "xyuv"}
    with b.kernel("k", **types) as (x, y, u, v):
        i = b.arange(length)
        scale = ((u + i).load() + (v + i).load())[None, :]
        for place, rows in ((x, 32), (y, 8)):
            at = b.arange(rows)[:, None] * length + i[None, :]
            (place + at).store((place + at).load() * scale)
    return b.module()


@pytest.mark.parametrize(("length", "vectors"), [(64, 4), (256, 2)])
def test_short_vectors_are_loaded_where_they_are_needed(length, vectors):
    """Vectors of at most one element for each thread pass through no shared memory; longer ones are
    loaded once."""
    function = layouts_of(rotation(length))
    loads = [op for op in function.ops if op.mnemonic == "load" and len(op.result.type.shape) == 1]
    assert (len(loads), not conversions(function)) == (vectors, length == 64)
    u, v = ((np.arange(length) % 60 + n).astype(bfloat16) for n in (1, 2))
    x, y = (np.full(rows * length, 3, bfloat16) for rows in (32, 8))
    SimtExecutor().launch(rotation(length), None, 1, [x, y, u, v], num_warps=4)
    for result, rows in ((x, 32), (y, 8)):
        np.testing.assert_array_equal(result, np.tile((u + v) * bfloat16(3), rows))


def test_short_vectors_are_read_from_shared_memory_where_they_are_needed():
    """A vector that is copied ahead and scales what a dot computes passes through no lanes."""
    b = Builder()
    types = {name: arg(pointer(F32 if name in "vy" else BF16), aligned=16) for name in "abvy"}
    with b.kernel("k", **types, n=I32) as (a, c, v, y, n):
        row, column = b.arange(64)[:, None], b.arange(64)[None, :]
        at = row * 64 + column
        total = b.var(b.full((64, 64), 0.0, F32))
        with b.for_(0, n, stages=2, independent_loads=True) as i:
            scale = (v + (b.arange(64) + i * 64)).load()
            left, right = ((p + (at + i * 4096)).load() for p in (a, c))
            product = b.dot(left, right, b.full((64, 64), 0.0, F32)) * scale[None, :]
            total.set(b.dot(product.to(BF16), right, total.get()))
        (y + at).store(total.get())
    options = Options(num_warps=4)
    function = run_pipeline(b.module(), target("sm_80"), options, None).stages["layouts"].kernel()
    scales = [op for op in function.ops if op.mnemonic == "gpu.local_load"
              and op.result.type.element is F32]  # fmt: skip
    assert scales and not any(prod(shape) == 64 for _, _, shape in conversions(function))


def test_what_runs_once_does_not_narrow_the_accesses_of_a_loop():
    """An unaligned store after a loop shares the layout of wide loads in it: it is written one by
    one, and the loads stay wide."""
    b = Builder()
    types = {"x": arg(pointer(F32), aligned=16), "y": arg(pointer(F32), aligned=4)}
    with b.kernel("k", **types, n=I32) as (x, y, n):
        i = b.arange(1024)
        total = b.var(b.full((1024,), 0.0, F32))
        with b.for_(0, n) as row:
            total.set(total.get() + (x + (i + row * 1024)).load())
        (y + i).store(total.get())
    function = layouts_of(b.module())
    (load,) = (op for op in function.ops if op.mnemonic == "load")
    assert vector_run(load.inputs[0].type.layout, 0) == 4


@pytest.mark.parametrize(
    ("read", "written", "owned"), [(BF16, F32, 4), (BF16, BF16, 8), (F32, BF16, 8), (F32, I64, 2)]
)
def test_threads_own_what_one_instruction_writes(read, written, owned):
    """A thread that owns 8 elements writes those of f32 in two instructions. Each would write every
    other 16 bytes of a row, which are half of a sector: sectors would be written twice. What is
    read so is in the first cache for the second instruction."""
    b = Builder()
    types = {"x": arg(pointer(read), aligned=16), "y": arg(pointer(written), aligned=16)}
    with b.kernel("k", **types) as (x, y):
        i = b.arange(4096)
        (y + i).store((x + i).load().to(written))
    function = layouts_of(b.module())
    (store,) = (op for op in function.ops if op.mnemonic == "store")
    assert vector_run(store.inputs[0].type.layout, 0) == owned
    assert not conversions(function)


@pytest.mark.parametrize(("carried", "moved"), [(True, ["i8"]), (False, [])])
def test_pointers_that_a_loop_carries_stay_where_they_are(carried, moved):
    """A byte of a pair of numbers is stored where a loop moves pointers to. The bytes are converted
    to the layout of the pointers, which have 64 bits. Pointers that an iteration computes are in
    the layout of the bytes."""
    b = Builder()
    types = {"x": arg(pointer(I32), aligned=16), "y": arg(pointer(I8), aligned=16)}
    with b.kernel("k", **types, n=I32) as (x, y, n):
        place = b.var(b.arange(1024) + 1)
        with b.for_(0, n) as row:
            pairs = (x + (b.arange(2048) + row * 2048)).load().reshape(1024, 2)
            first, second = b.split(pairs)
            to = place.get() if carried else b.arange(1024) + row * 1089
            (y + to).store((first + second).to(I8))
            place.set(place.get() + 1088)
    function = layouts_of(b.module())
    elements = [kind for label, kind, shape in conversions(function) if len(shape) == 1]
    assert elements == moved


def test_next_to_dots_threads_own_what_one_instruction_reads():
    """Loads of operands stay as wide as they can be, whatever the results are stored as. What dots
    compute moves to other threads anyway: these own what one instruction writes."""
    b = Builder()
    types = {"x": arg(pointer(BF16), aligned=16), "y": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **types) as (x, y):
        i = b.arange(64)
        place = i[:, None] * 64 + i[None, :]
        v = (x + place).load()
        (y + place).store(v.to(F32))
        (y + 4096 + place).store(b.dot(v, v, b.zeros((64, 64))))
        b.atomic_rmw(y + 8192 + place, b.dot(v, v, b.zeros((64, 64))), op="fadd")
    function = layouts_of(b.module())
    (load,) = (op for op in function.ops if op.mnemonic == "load")
    assert vector_run(load.inputs[0].type.layout, 1) == 8
    stores = [op for op in function.ops if op.mnemonic in ("store", "atomic_rmw")]
    assert [vector_run(op.inputs[0].type.layout, 1) for op in stores] == [8, 4, 4]


@pytest.mark.parametrize("repeated", [True, False])
def test_whole_sectors_are_written_of_what_a_loop_accumulates(repeated):
    """The state of a recurrence is stored in every iteration, or once, and the operands of its dot
    have elements of half its size: 16 bytes of them are neighbours for a thread. A thread owns 4
    neighbours of the state."""
    b = Builder()
    types = {"x": arg(pointer(BF16), aligned=16), "y": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **types, n=I32) as (x, y, n):
        i = b.arange(64)
        place = i[:, None] * 64 + i[None, :]
        state = b.var(b.zeros((64, 64)))
        with b.for_(0, n) as at:
            if repeated:
                (y + at * 4096 + place).store(state.get())
            v = (x + at * 4096 + place).load()
            state.set(b.dot(v, v, state.get() * 0.5))
        if not repeated:
            (y + place).store(state.get())
    module = b.module()
    function = layouts_of(module)
    (load,) = (op for op in function.ops if op.mnemonic == "load")
    (store,) = (op for op in function.ops if op.mnemonic == "store")
    assert vector_run(load.inputs[0].type.layout, 1) == 8
    assert vector_run(store.inputs[0].type.layout, 1) == 4
    rng = np.random.default_rng(2)
    array = rng.integers(-2, 3, 2 * 4096).astype(bfloat16)
    result, expected = (np.zeros(2 * 4096, np.float32) for _ in range(2))
    SimtExecutor().launch(module, None, 1, [array, result, 2], num_warps=4)
    tileir.interpret(module, None, 1, [array, expected, 2])
    assert np.array_equal(result, expected) and expected.any()


@pytest.mark.parametrize(
    ("element", "aligned", "repeated", "moved"),
    [(BF16, 2, True, 1), (BF16, 2, False, 1), (BF16, 4, True, 0), (F32, 4, True, 0)],
)
def test_neighbouring_lanes_write_single_halves_of_what_dots_compute(
    element, aligned, repeated, moved
):
    """A thread has two neighbours of a result. Where the address allows one instruction for both,
    and where an element is a word, the result is written from there."""
    b = Builder()
    types = {"x": arg(pointer(BF16), aligned=16), "y": arg(pointer(element), aligned=aligned)}
    with b.kernel("k", **types, n=I32) as (x, y, n):
        i, j = b.arange(64), b.arange(128)
        rows = x + i[:, None] * 32 + b.arange(32)[None, :]
        columns = x + 2048 + b.arange(32)[:, None] * 128 + j[None, :]
        place = i[:, None] * 128 + j[None, :]

        def body(at):
            product = b.dot(rows.load(), columns.load(), b.zeros((64, 128)))
            (y + at * 8192 + place).store(product.to(element))

        if repeated:
            with b.for_(0, n) as at:
                body(at)
        else:
            body(n)
    module = b.module()
    done = [x for x in conversions(layouts_of(module)) if x[2] == (64, 128)]
    assert len(done) == moved
    if aligned == 2 and repeated:
        rng = np.random.default_rng(1)
        array = rng.integers(-3, 4, 2048 + 4096).astype(bfloat16)
        result, expected = (np.zeros(2 * 8192, bfloat16) for _ in range(2))
        SimtExecutor().launch(module, None, 1, [array, result, 2], num_warps=4)
        tileir.interpret(module, None, 1, [array, expected, 2])
        assert np.array_equal(result, expected) and expected.any()
