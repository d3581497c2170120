"""Dots that take their operands in the order along K in which lanes have them."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tileir import interpret
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.dot_layouts import k_order
from tileir.backend.layouts.mma import instruction
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.target import target
from tileir.builder import BF16, F32, I32, Builder, arg, pointer
from tileir.types import Tile

NUMPY = {BF16: bfloat16, F32: np.float32}


def places(b, rows, columns, step):
    return b.arange(rows)[:, None] * step + b.arange(columns)[None, :]


def scaled_rows(element, k, columns=16, operand=F32):
    """A B^T of rows of `k` elements that are loaded at once and doubled."""
    b = Builder()
    types = {name: arg(pointer(element), aligned=16) for name in "xy"}
    with b.kernel("k", **types, z=arg(pointer(F32), aligned=16)) as (x, y, z):
        left = ((x + places(b, 16, k, k)).load() * 2.0).to(operand)
        right = ((y + places(b, columns, k, k)).load() * 2.0).to(operand)
        total = b.dot(
            left,
            b.trans(right, order=[1, 0]),
            b.full((16, columns), 0.0, F32),
            precision="tf32" if operand is F32 else "ieee",
        )
        (z + places(b, 16, columns, columns)).store(total)
    return b.module()


def chained_dots(element):
    """(A B) C of matrices of 16 x 16."""
    b = Builder()
    types = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **types) as (x, y, z):
        at = places(b, 16, 16, 16)
        zero = b.full((16, 16), 0.0, F32)
        a, c = (x + at).load().to(element), (y + at).load().to(element)
        precision = "tf32" if element is F32 else "ieee"
        first = b.dot(a, c, zero, precision=precision).to(element)
        (z + at).store(b.dot(first, c, zero, precision=precision))
    return b.module()


def lowered_kernel(module, warps=1):
    done = run_pipeline(module, target("sm_90a"), Options(num_warps=warps), None)
    return done.stages["layouts"].kernel()


def moved_operands(kernel):
    """The conversions of operands of dots after which elements are in other threads."""
    origin = {result: op for op in kernel.ops for result in op.results}
    for dot in (op for op in kernel.ops if op.mnemonic == "dot"):
        waiting = list(dot.inputs[:2])
        while waiting:
            op = origin.get(waiting.pop())
            if op is None or op.mnemonic in ("load", "dot"):
                continue
            converts = op.mnemonic == "gpu.convert_layout"
            if converts and not isinstance(conversion(op.source.type, op.layout), tuple):
                yield op
            waiting += op.inputs


def simulator_result(module, shapes, elements):
    """The result of the last array, on the SIMT machine as interpreted."""
    chance = np.random.default_rng(1)
    arrays = [chance.integers(-4, 4, n).astype(NUMPY[e])
              for n, e in zip(shapes, elements, strict=True)]  # fmt: skip
    expected = [array.copy() for array in arrays]
    interpret(module, "k", (1,), expected)
    SimtExecutor().launch(module, "k", 1, arrays, num_warps=1)
    assert np.any(expected[-1]) and np.array_equal(arrays[-1], expected[-1])


@pytest.mark.parametrize(
    ("element", "k", "columns", "operand"),
    [
        (BF16, 32, 16, F32),
        (BF16, 32, 16, BF16),
        (F32, 16, 16, F32),
        (F32, 16, 24, F32),
        (BF16, 32, 8, BF16),
    ],
)
def test_rows_that_lanes_load_are_operands(element, k, columns, operand):
    """Four lanes load a row, 16 bytes each: those of a fragment, with other elements along K."""
    module = scaled_rows(element, k, columns, operand)
    assert not list(moved_operands(lowered_kernel(module)))
    sizes = 16 * k, columns * k, 16 * columns
    simulator_result(module, sizes, (element, element, F32))


def test_rows_of_other_lanes_move():
    """Three lanes load a row."""
    module = scaled_rows(BF16, 24)
    assert list(moved_operands(lowered_kernel(module)))
    simulator_result(module, (16 * 24, 16 * 24, 256), (BF16, BF16, F32))


@pytest.mark.parametrize("element", [F32, BF16])
def test_a_result_is_the_a_of_the_next_dot(element):
    """Lanes own neighbours of a result in pairs, and single columns of A in tf32."""
    kernel = lowered_kernel(chained_dots(element))
    first, second = (op for op in kernel.ops if op.mnemonic == "dot")
    converted = [
        op for op in moved_operands(kernel)
        if op.source.type.layout == first.result.type.layout
    ]  # fmt: skip
    assert not converted and second.a.type.shape == (16, 16)
    simulator_result(chained_dots(element), (256, 256, 256), (F32, F32, F32))


def test_lanes_step_as_asked_and_words_by_the_shortest_steps():
    half, single = instruction(BF16, "ieee"), instruction(F32, "tf32")
    assert k_order(half, (2, 4)) == (1, 2, 4, 8) and k_order(single, (1, 2)) == (1, 2, 4)
    assert k_order(half, (8, 16)) == (1, 8, 16, 2, 4)
    assert k_order(single, (8, 16)) == (8, 16, 1, 2, 4)
    assert k_order(single, (2, 4)) == (2, 4, 1)


@pytest.mark.parametrize("order", [(8, 16, 1, 2, 4), (2, 4, 1), (1, 2, 4)])
def test_operands_in_an_order_have_each_element_once(order):
    from tileir.backend.layouts.dot_layouts import layouts_of

    dot = next(op for op in lowered_kernel(scaled_rows(F32, 16)).ops if op.mnemonic == "dot")
    wide = dot.evolve(a=_of(dot.a, (16, 64)), b=_of(dot.b, (64, 16)), results=())
    plain = layouts_of(wide, 1)
    ordered = plain.in_order(order)
    for usual, layout in ((plain.a, ordered.a), (plain.b, ordered.b)):
        owned = {
            layout.coordinate(r, lane) for r in range(layout.size("register")) for lane in range(32)
        }
        assert len(owned) == 16 * 64 and layout.extents == usual.extents


def _of(value, shape):
    from tileir.values import Value

    return Value(Tile(value.type.element, shape, value.type.layout), value.name)


def chunks(element, rows=32, columns=64):
    """The state that dots of `rows` keys and values add to, and the sums of the queries with it:
    S += K^T V, O[i] = (Q K^T) V + Q S, all tf32 of what is copied ahead as `element`."""
    b = Builder()
    inputs = {name: arg(pointer(element), aligned=16) for name in "qkv"}
    with b.kernel("k", **inputs, o=arg(pointer(F32), aligned=16), n=arg(I32)) as (q, k, v, o, n):
        narrow, wide = places(b, rows, rows, rows), places(b, rows, columns, columns)
        state, zero = b.var(b.full((rows, columns), 0.0, F32)), b.full((rows, rows), 0.0, F32)
        with b.for_(0, n, stages=3, independent_loads=True) as i:
            at, to = narrow + i * (rows * rows), wide + i * (rows * columns)
            queries, keys = ((x + at).load().to(F32) for x in (q, k))
            values = (v + to).load().to(F32)
            scores = b.dot(queries, b.trans(keys, order=[1, 0]), zero, precision="tf32")
            total = b.dot(queries, state.get(), b.full((rows, columns), 0.0, F32), precision="tf32")
            (o + to).store(b.dot(scores, values, total, precision="tf32"))
            state.set(b.dot(b.trans(keys, order=[1, 0]), values, state.get(), precision="tf32"))
    return b.module()


@pytest.mark.parametrize("warps", [2, 4])
def test_narrow_stages_are_read_as_neighbours_by_wider_dots(warps):
    """`ldmatrix` loads two neighbours along K for a lane. Each stage is read in the layouts of its
    dots, and no conversion of it goes through shared memory."""
    kernel = lowered_kernel(chunks(BF16), warps)
    reads = {op.results[0]: op for op in kernel.ops if op.mnemonic == "gpu.local_load"}
    assert len(reads) >= 3
    for op in reads.values():
        assert op.type.element is BF16
        assert op.type.layout.lane[:2] in (((0, 2), (0, 4)), ((2, 0), (4, 0)))
    casts = {op.results[0] for op in kernel.ops if op.mnemonic == "fpext" and op.value in reads}
    converted = {op.source for op in kernel.ops if op.mnemonic == "gpu.convert_layout"}
    assert converted.isdisjoint({*reads, *casts})


@pytest.mark.parametrize("warps", [1, 2])
def test_sums_of_neighbours_stay_as_they_are(warps):
    random, n = np.random.default_rng(0), 2
    shapes = (n, 32, 32), (n, 32, 32), (n, 32, 64)
    inputs = [random.integers(-1, 2, shape).astype(bfloat16) for shape in shapes]
    expected, threads = np.full((2, n, 32, 64), np.nan, np.float32)
    module = chunks(BF16)
    interpret(module, "k", (1,), [*inputs, expected, n])
    options = {"num_warps": warps, "target": "sm_90a"}
    SimtExecutor().launch(module, "k", (1,), [*inputs, threads, n], **options)
    np.testing.assert_array_equal(threads, expected)
