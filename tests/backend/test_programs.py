"""Control flow, atomics and synchronisation through the lowering, against the interpreter."""

import numpy as np
import pytest

import tileir
from tests.launches import results
from tileir.backend import compile as compile_kernel
from tileir.builder import F16, F32, I32, I64, Builder, pointer, tile
from tileir.testing.op_cases import Cell


def both(module, grid, arguments, **options):
    """Results of the interpreter and of the threads; and the module assembles."""
    interpreted, executed = results(module, arguments, grid, **options)
    for target in ("sm_80", "sm_90a"):
        assert compile_kernel(module, target).cubin
    return zip(interpreted, executed, strict=True)


def check(module, grid, arguments, rtol=0.0, **options):
    for expected, result in both(module, grid, arguments, **options):
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)


def matmul(m, n, k, element):
    b = Builder()
    names = dict.fromkeys("abc", None)
    kinds = {name: pointer(F32 if name == "c" else element) for name in names}
    with b.kernel("matmul", **kinds, steps=I32) as (x, y, z, steps):
        rows, columns, inner = b.arange(m)[:, None], b.arange(n)[None, :], b.arange(k)
        total = b.var(b.full((m, n), 0.0, F32))
        with b.for_(steps) as i:
            depth = i * k + inner
            left = (x + (rows * (k * 3) + depth[None, :])).load()
            right = (y + (depth[:, None] * n + columns)).load()
            total.set(b.dot(left, right, total.get()))
        (z + (rows * n + columns)).store(total.get())
    return b.module()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 8), (12, 20, 5)])
@pytest.mark.parametrize("warps", [1, 4])
def test_matmul_in_a_loop(m, n, k, warps):
    random = np.random.default_rng(m)
    x, y = random.normal(size=(m, 3 * k)), random.normal(size=(3 * k, n))
    arguments = [x.astype(np.float16), y.astype(np.float16), np.zeros((m, n), np.float32), 3]
    check(matmul(m, n, k, F16), 1, arguments, rtol=1e-5, num_warps=warps)


def test_branches_and_early_return():
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32) as (x, n):
        place = x + b.arange(32)
        with b.if_(b.program_id(axis=0) >= n):
            b.ret()
        value = b.var(place.load())
        with b.while_(lambda: value.get().sum(axis=0) < 5000.0):
            value.set(value.get() * 2.0)
        place.store(value.get())
    check(b.module(), 1, [np.arange(32, dtype=np.float32), 3])
    check(b.module(), 1, [np.arange(32, dtype=np.float32), 0])


def test_reduction_in_a_loop_waits_for_readers():
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32) as (x, n):
        total = b.var(b.constant(F32, 0.0))
        with b.for_(n) as i:
            value = (x + (i * 256 + b.arange(256))).load()
            total.set(total.get() + value.sum(axis=0))
        x.store(total.get())
    check(b.module(), 1, [np.arange(1024, dtype=np.float32), 4], num_warps=4)


def test_a_store_is_seen_by_a_later_load_of_another_thread():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        index = b.arange(128)
        (x + index).store(index * 3)
        back = (x + (127 - index)).load()
        (x + (128 + index)).store(back)
    module = b.module()
    check(module, 1, [np.zeros(256, np.int32)], num_warps=4)
    assert compile_kernel(module, "sm_90", {"num_warps": 4}).ptx.count("bar.sync") == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["add", "and", "or", "xor", "smax", "umin", "xchg", "inc", "dec"])
@pytest.mark.parametrize("size", [7, 64])
def test_atomics_on_tiles(kind, size):
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I32)) as (x, y):
        index = b.arange(size)
        old = b.atomic_rmw(x + index, index * 5, op=kind)
        (y + index).store(old)
    random = np.random.default_rng(size)
    x = random.integers(0, 50, size).astype(np.int32)
    check(b.module(), 1, [x, np.zeros_like(x)], num_warps=2)


@pytest.mark.parametrize("kind", ["fadd", "fmax", "fmin", "xchg"])
@pytest.mark.parametrize("element", [F32])
def test_float_atomics(kind, element):
    b = Builder()
    with b.kernel("k", x=pointer(element), y=pointer(element)) as (x, y):
        old = b.atomic_rmw(x, b.constant(element, 2.5), op=kind)
        y.store(old)
    check(b.module(), 1, [np.ones(1, np.float32), np.zeros(1, np.float32)], num_warps=4)


def test_compare_and_swap_takes_a_lock():
    b = Builder()
    with b.kernel("k", lock=pointer(I32), x=pointer(I64)) as (lock, x):
        old = b.atomic_cas(lock, 0, 1, sem="acquire")
        place = x + b.arange(8)
        place.store(place.load() + old.to(I64).broadcast_to(8))
        b.atomic_rmw(lock, 0, op="xchg", sem="release")
    arguments = [np.array([0], np.int32), np.arange(8)]
    check(b.module(), 1, arguments, num_warps=2)


def test_a_predicate_masks_a_store():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        index = b.arange(16)
        b.store(x + index, index, when=index < 9)
    check(b.module(), 1, [np.full(16, -1, np.int32)])


def test_threads_beyond_a_tile_store_once():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        b.atomic_rmw(x, 1, op="add")
    check(b.module(), 3, [np.zeros(1, np.int32)], num_warps=4)


@pytest.mark.parametrize(
    ("options", "target", "code"),
    [({"num_warps": 64}, "sm_90", "TIR0708"), ({}, "sm_42", "TIR0702")],
)
def test_what_the_target_lacks_is_refused(options, target, code):
    cell = Cell("x", (tile(F32, (16,)),), lambda b, x: x)
    with pytest.raises(tileir.TileirError) as caught:
        compile_kernel(cell.module(), target, options)
    assert caught.value.code == code


def test_a_tile_too_large_for_shared_memory_is_refused():
    wide = (tile(F32, (1 << 17,)), tile(I32, (1 << 17,)))
    cell = Cell("x", wide, lambda b, x, i: b.gather(x, i % 64, axis=0))
    with pytest.raises(tileir.TileirError) as caught:
        compile_kernel(cell.module(), "sm_90")
    assert caught.value.code == "TIR0708"


@pytest.mark.parametrize(("name", "barriers"), [("reversed", 1), ("in place", 0), ("apart", 0)])
def test_nothing_is_overwritten_before_it_is_loaded(name, barriers):
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        at = b.arange(1024)
        value = (x + at).load()
        place = {"reversed": x + (1023 - at), "in place": x + at, "apart": y + (1023 - at)}[name]
        place.store(value + 1.0)
    compiled = compile_kernel(b.module(), "sm_90", {"num_warps": 4})
    assert compiled.ptx.count("bar.sync") == barriers


def test_an_index_stands_where_the_result_does():
    b = Builder()
    with b.kernel("k", x=pointer(F32), i=pointer(I32), y=pointer(F32)) as (x, i, y):
        at = b.arange(16)
        wide = b.arange(64)
        index = (i + wide).load().reshape(16, 4).sum(axis=1)
        value = (x + at).load()
        (y + at).store(b.gather(value, index & 15, axis=0))
    random = np.random.default_rng(0)
    x, i = np.arange(16, dtype=np.float32), random.integers(0, 9, 64).astype(np.int32)
    for warps in (1, 4):
        check(b.module(), 1, [x, i, np.zeros(16, np.float32)], num_warps=warps)


def test_what_is_counted_stands_where_its_mask_does():
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I32)) as (x, y):
        at = b.arange(64)
        rows = (x + at).load().reshape(16, 4)
        mask = rows.sum(axis=1) > 12
        histogram = b.histogram(rows.max(axis=1), mask=mask, to=tile(I32, (10,)))
        (y + b.arange(10)).store(histogram)
    x = np.random.default_rng(1).integers(0, 9, 64).astype(np.int32)
    for warps in (1, 4):
        check(b.module(), 1, [x, np.zeros(10, np.int32)], num_warps=warps)
