"""Strip-mining of what is computed once and in order, and of what is folded by a function."""

import numpy as np
import pytest

from tileir.builder import F32, I32, Builder, arg, pointer, tile
from tileir.executor import executor
from tileir.passmanager import run
from tileir.textual import print_module

from .test_strip_mine import SMALL, equal
from .test_strip_mine_staging import numbers, private_tiles

NAMED = {"fadd": F32, "fmaxnum": F32, "fminimum": F32, "add": I32, "mul": I32, "smax": I32,
         "umin": I32, "xor": I32, "or": I32, "and": I32}  # fmt: skip


def kernel(b, *names, element=F32, promised=False, **more):
    kinds = {n: arg(pointer(element), noalias=promised) for n in names}
    return b.kernel("k", **kinds, **more)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("count", [33, 64, 96, 100])
@pytest.mark.parametrize("combiner", NAMED)
def test_a_scan_is_carried_from_chunk_to_chunk(combiner, count, promised):
    b, element = Builder(), NAMED[combiner]
    with kernel(b, "x", "y", element=element, promised=promised) as (x, y):
        place = b.arange(count)
        (y + place).store(b.scan((x + place).load(), combiner=combiner))
    kind = np.float32 if element is F32 else np.int32
    new = equal(b.module(), 1, [numbers(count, kind), np.zeros(count, kind)])
    assert "cond_br" in print_module(new) or count < 64
    assert bool(private_tiles(new)) != promised


@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (2, 70), (5, 33)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keep", [0, 2])
def test_scans_of_rows_and_of_columns(shape, axis, keep):
    rows, columns = shape
    b = Builder()
    with kernel(b, "x", "y") as (x, y):
        place = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]
        (y + place).store(b.scan((x + place).load(), axis=axis, combiner="fadd"))
    x = numbers(rows * columns)
    new = equal(b.module(), 1, [x, np.zeros_like(x)], keep=keep)
    assert f"scan f32<{rows}, {columns}>" not in print_module(new)


def test_what_follows_a_scan_reads_it_in_any_loop():
    """The sum of prefixes needs a loop after the one that scans, and another for the store."""
    b = Builder()
    with kernel(b, "x", "y") as (x, y):
        place = b.arange(160)
        value = (x + place).load()
        prefix = b.scan(value, combiner="fadd")
        rescanned = b.scan(prefix * 0.5 + value, combiner="fmaxnum")
        (y + place).store(rescanned - prefix.sum(axis=0))
    x = numbers(160)
    equal(b.module(), 1, [x, np.zeros_like(x)])


@pytest.mark.sampled(11)
@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("count", [33, 40, 64, 96, 100])
@pytest.mark.parametrize("combiner", ["fadd", "smax"])
def test_a_scan_from_the_end_begins_with_the_last_chunk(combiner, count, promised):
    b, element = Builder(), NAMED[combiner]
    with kernel(b, "x", "y", element=element, promised=promised) as (x, y):
        place = b.arange(count)
        value = (x + place).load()
        (y + place).store(b.scan(value, combiner=combiner, reverse=True))
    kind = np.float32 if element is F32 else np.int32
    new = equal(b.module(), 1, [numbers(count, kind), np.zeros(count, kind)])
    assert f"scan {element}<{count}>" not in print_module(new)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (5, 33)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("first", [False, True])
def test_scans_there_and_back_are_loops_of_their_own(shape, axis, first):
    """Each reads what the other left, and the store to where the value was read follows both."""
    rows, columns = shape
    b = Builder()
    with kernel(b, "x", "y") as (x, y):
        place = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]
        value = (x + place).load()
        there = b.scan(value, axis=axis, combiner="fadd", reverse=first)
        back = b.scan(there + value, axis=axis, combiner="fmaxnum", reverse=not first)
        (x + place).store(back - there)
        (y + place).store(back + value)
    x = numbers(rows * columns)
    new = equal(b.module(), 1, [x, np.zeros_like(x)])
    assert f"scan f32<{rows}, {columns}>" not in print_module(new)


def test_a_scan_by_a_function_stays_whole():
    b = Builder()
    with kernel(b, "x", "y", promised=True) as (x, y):
        place = b.arange(100)
        scanned = b.scan((x + place).load(), axis=0, combiner=lambda a, c: a + c)
        (y + place).store(scanned)
    result = run(b.module(), SMALL.format(keep=0))
    assert {d.code for d in result.remarks} == {"TIR0752"}


def folding(count, *, rows=0):
    """x + y + x y of all elements: associative, commutative, and no op."""
    b = Builder()
    with b.function("both", (F32,), a=F32, c=F32) as (a, c):
        b.ret(a + c + a * c)
    with kernel(b, "x", "y") as (x, y):
        if rows:
            place = b.arange(rows)[:, None] * count + b.arange(count)[None, :]
            value = b.reduce((x + place).load(), axis=1, combiner="both")
            (y + b.arange(rows)).store(value)
        else:
            y.store(b.reduce((x + b.arange(count)).load(), combiner="both"))
    return b.module()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("count", [31, 33, 64, 96, 100])
@pytest.mark.parametrize("keep", [0, 1])
def test_a_reduction_by_a_function_begins_with_the_first_chunk(count, rows, keep):
    x = np.random.default_rng(2).choice([0.0, -2.0], size=count * max(rows, 1)).astype(np.float32)
    new = equal(folding(count, rows=rows), 1, [x, np.zeros(max(rows, 1), np.float32)], keep=keep)
    assert f"load f32<{count}>" not in print_module(new) or count < 32


@pytest.mark.sampled(5)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("count", [33, 64, 100])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_the_largest(name, count, rows):
    """Of several, the first."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(I32)) as (x, y):
        place = b.arange(rows)[:, None] * count + b.arange(count)[None, :]
        (y + b.arange(rows)).store(getattr((x + place).load(), name)(axis=1))
    x = np.random.default_rng(4).integers(0, 9, rows * count).astype(np.float32)
    equal(b.module(), 1, [x, np.zeros(rows, np.int32)])


@pytest.mark.parametrize("count", [33, 64, 100])
@pytest.mark.parametrize("masked", [False, True])
def test_a_histogram_is_the_total_of_those_of_its_chunks(count, masked):
    b = Builder()
    with kernel(b, "x", "y", element=I32, n=I32) as (x, y, n):
        place = b.arange(count)
        mask = (place < n) if masked else None
        histogram = b.histogram((x + place).load(), tile(I32, (8,)), mask)
        (y + b.arange(8)).store(histogram)
    equal(b.module(), 1, [numbers(count, np.int32), np.zeros(8, np.int32), count - 7])


@pytest.mark.parametrize("count", [33, 64, 100])
def test_atomic_accesses_happen_once_and_in_order(count):
    """What was there before is stored twice; stores and loads around stay where they are."""
    b = Builder()
    with kernel(b, "x", "y", "z", n=I32) as (x, y, z, n):
        place = b.arange(count)
        (x + place).store((y + place).load() + 1.0)
        old = b.atomic_rmw(x + place, (z + place).load(), place < n, op="fadd")
        inside = place < n
        (y + place).store(old * 2.0, inside)
        (z + place).store((x + (count - 1 - place)).load())
        (z + count + place).store(old, inside)
    arguments = [numbers(count), numbers(count, seed=1), numbers(2 * count, seed=2), count - 5]
    new = equal(b.module(), 1, arguments)
    text = print_module(new)
    assert f"f32<{count}>" not in text
    assert text.count("atomic_rmw") <= 2


def test_an_atomic_access_of_which_nothing_is_read():
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I32)) as (x, y):
        place = b.arange(96)
        b.atomic_rmw(y + place % 7, (x + place).load(), op="add")
    equal(b.module(), 3, [numbers(96, np.int32), np.zeros(7, np.int32)], loops=2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["simt", "cpu"])
@pytest.mark.parametrize("what", ["scan", "argmax", "fold", "histogram", "atomic", "softmax"])
def test_threads_agree(on, what):
    """Tiles too large for two warps, and on a CPU for one."""
    count = 9001
    b = Builder()
    if what == "fold":
        module, x, y = folding(count), np.zeros(count, np.float32), np.zeros(1, np.float32)
        x[5], x[-1] = 2.0, 3.0
    else:
        element = I32 if what in ("histogram", "atomic") else F32
        with b.kernel("k", x=pointer(element), y=pointer(F32 if element is F32 else I32)) as (x, y):
            place = b.arange(count)
            value = (x + place).load()
            if what == "scan":
                (y + place).store(b.scan(value, combiner="fadd"))
            elif what == "argmax":
                (y + place).store(value * 1.0)
                (y + value.argmax(axis=0)).store(-1.0)
            elif what == "histogram":
                (y + b.arange(8)).store(b.histogram(value, tile(I32, (8,))))
            elif what == "atomic":
                b.atomic_rmw(y + place % 77, value, op="add")
            else:
                weight = (value - value.max(axis=0)).exp()
                (y + place).store(weight / weight.sum(axis=0))
        module = b.module()
        x = numbers(count, np.float32 if element is F32 else np.int32)
        y = np.zeros(count, x.dtype)
    result = []
    for machine in ("interpreter", on):
        copies = [x.copy(), y.copy()]
        executor(machine).launch(with_warps(module, 2), None, (1,), copies)
        result.append(copies)
    for a, c in zip(*result, strict=True):
        np.testing.assert_allclose(c, a, rtol=1e-4, atol=1e-6)


def with_warps(module, warps):
    name = next(n for n, f in module.functions.items() if f.kernel)
    function = module.functions[name]
    changed = function.evolve(attributes={**function.attributes, "num_warps": warps})
    return module.evolve(functions={**module.functions, name: changed})
