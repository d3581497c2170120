"""What kernels of large models are made of: locks, tables of addresses, packed weights, scans of
pairs, rows of one tile after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton.test_arguments import EXECUTORS

Array = np.ndarray[Any, Any]


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


@triton.jit
def summed_under_a_lock(x, total, lock, n, GROUPS: tl.constexpr, LANES: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, LANES)
    lock += row % GROUPS
    place = total + (row % GROUPS) * n + lanes
    value = tl.load(x + row * n + lanes, mask=lanes < n, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = lock + GROUPS
    if tl.load(seen) == 0:
        tl.atomic_xchg(seen, 1)
    else:
        value += tl.load(place, mask=lanes < n)
    tl.store(place, value, mask=lanes < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("on", EXECUTORS)
def test_instances_add_to_one_row_one_after_another(on: str) -> None:
    x, total, lock = normal(7, 50), np.full((3, 50), np.nan, np.float32), np.zeros(6, np.int32)
    summed_under_a_lock[(7,)](x, total, lock, 50, GROUPS=3, LANES=64, on=on)
    np.testing.assert_allclose(total, [x[i::3].sum(0) for i in range(3)], rtol=1e-5, atol=1e-5)
    assert lock.tolist() == [0, 0, 0, 1, 1, 1]


@triton.jit
def dot_of_packed(x, packed, scale, y, K, N: tl.constexpr, M: tl.constexpr, B: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for k in tl.range(0, K, B, num_stages=2):
        pairs = tl.load(packed + (k // 2 + tl.arange(0, B // 2))[:, None] * N + n)
        weight = tl.join(pairs & 0xF, (pairs >> 4) & 0xF).permute(0, 2, 1).reshape(B, N)
        by = tl.load(scale + (k // B) * N + n)
        left = tl.load(x + m * K + k + tl.arange(0, B)[None, :])
        acc = tl.dot(left, ((weight.to(tl.float32) - 8.0) * by).to(tl.float16), acc)
    tl.store(y + m * N + n, acc)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", EXECUTORS)
def test_weights_of_four_bits(on: str) -> None:
    x, weight = normal(16, 64, dtype=np.float16), np.random.default_rng(0).integers(0, 16, (64, 32))
    scale, y = np.float32([[0.5], [0.25]]).repeat(32, 1), np.zeros((16, 32), np.float32)
    packed = (weight[0::2] | weight[1::2] << 4).astype(np.uint8)
    dot_of_packed[(1,)](x, packed, scale, y, 64, N=32, M=16, B=32, on=on)
    expected = x.astype(np.float32) @ ((weight - 8) * scale.repeat(32, 0)).astype(np.float32)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)


@triton.jit
def after(decay, value, more, new):
    return decay * more, value * more + new


@triton.jit
def recurrent(decay, x, y, L: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    place = tl.arange(0, L)[:, None] * N + tl.arange(0, N)[None, :]
    both = (tl.load(decay + place), tl.load(x + place))
    _, state = tl.associative_scan(both, 0, after, reverse=REVERSE)
    tl.store(y + place, state)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", EXECUTORS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_state_that_decays(on: str, reverse: bool) -> None:
    decay, x, y = (
        abs(normal(64, 8)) % 1,
        normal(8, 64).reshape(64, 8),
        np.zeros((64, 8), np.float32),
    )
    recurrent[(1,)](decay, x, y, L=64, N=8, REVERSE=reverse, on=on)
    state, expected = np.zeros(8), np.zeros((64, 8))
    for i in range(64)[:: -1 if reverse else 1]:
        expected[i] = state = decay[i] * state + x[i]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@triton.jit
def inverse(a, y, B: tl.constexpr):
    i = tl.arange(0, B)
    place = i[:, None] * B + i[None, :]
    result = -tl.where(i[:, None] > i[None, :], tl.load(a + place), 0.0)
    for r in range(1, B):
        row = tl.sum(tl.where((i == r)[:, None], result, 0.0), 0)
        row += tl.sum(row[:, None] * result, 0) * (i < r)
        result = tl.where((i == r)[:, None], row[None, :], result)
    tl.store(y + place, result + (i[:, None] == i[None, :]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", EXECUTORS)
def test_a_triangle_is_inverted_row_by_row(on: str) -> None:
    a, y = normal(16, 16) / 4, np.zeros((16, 16), np.float32)
    inverse[(1,)](a, y, B=16, on=on)
    expected = np.linalg.inv(np.eye(16) + np.tril(a, -1))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@triton.jit
def doubled_each(table, sizes, count, LANES: tl.constexpr):
    for i in range(count):
        place = tl.load(table + i).to(tl.pointer_type(tl.float32)) + tl.arange(0, LANES)
        tl.multiple_of(place, [16])
        inside = tl.arange(0, LANES) < tl.load(sizes + i)
        tl.store(place, tl.load(place, mask=inside) * 2, mask=inside)


def test_addresses_come_from_a_table() -> None:
    """The launch names the arrays that the addresses point into: others are not accessed."""
    arrays = [np.arange(n, dtype=np.float32) for n in (5, 64, 33)]
    table = np.array([a.ctypes.data for a in arrays], np.int64)
    doubled_each[(1,)](table, np.array([5, 64, 33], np.int32), 3, LANES=64, on="cpu", memory=arrays)
    for a in arrays:
        np.testing.assert_array_equal(a, 2 * np.arange(len(a)))


@triton.jit
def promised_by_statements(x, out, step, BLOCK: tl.constexpr):
    places = x + step * 3 + tl.arange(0, BLOCK)
    tl.multiple_of(places, 16)
    for _ in range(2):
        tl.multiple_of(places, 32)
        tl.store(out + tl.arange(0, BLOCK), tl.load(places))
        places += BLOCK


def test_a_hint_that_is_not_used_is_about_the_name_it_is_given() -> None:
    signature = {"x": "*fp32", "out": "*fp32:16", "step": "i32"}
    module = promised_by_statements.module(signature, {"BLOCK": 128}, num_warps=1)
    promised = next(op for op in module.kernel().ops if op.mnemonic == "multiple_of").results[0]
    blocks = module.kernel().blocks
    assert any(promised in e.arguments for b in blocks.values() for e in b.terminator.successors)
    x, out = np.arange(300, dtype=np.float32), np.zeros(128, np.float32)
    promised_by_statements[(1,)](x, out, 4, BLOCK=128)
    assert (out == x[140:268]).all()


@triton.jit
def promised_in_a_loop(
    x, out, step, BLOCK: tl.constexpr, PROMISES: tl.constexpr, UNROLL: tl.constexpr
):
    places = x + step * 3 + tl.arange(0, BLOCK)
    if UNROLL:
        for _ in tl.static_range(2):
            if PROMISES:
                tl.multiple_of(places, 16)
            tl.store(out + tl.arange(0, BLOCK), tl.load(places))
            places += BLOCK
    else:
        n = 0
        while n < 2:
            if PROMISES:
                tl.multiple_of(places, 16)
            tl.store(out + tl.arange(0, BLOCK), tl.load(places))
            places += BLOCK
            n += 1


@pytest.mark.parametrize("unroll", [False, True])
def test_a_hint_that_is_not_used_has_no_effect_in_a_loop(unroll: bool) -> None:
    """A loop that is unrolled is none: the hint is about the name."""
    signature, hints = (
        {"x": "*fp32", "out": "*fp32:16", "step": "i32"},
        ("multiple_of", "max_contiguous"),
    )
    modules = [
        promised_in_a_loop.module(
            signature, {"BLOCK": 128, "PROMISES": promises, "UNROLL": unroll}, num_warps=1
        )
        for promises in (False, True)
    ]
    read = []
    for module in modules:
        results = {v for op in module.kernel().ops if op.mnemonic in hints for v in op.results}
        read.append([op for op in module.kernel().ops if not results.isdisjoint(op.operands)])
    assert not read[0] and bool(read[1]) == unroll


@triton.jit
def is_floating(x):
    return (x + tl.zeros((1,), tl.int1)).dtype.is_floating()


@triton.jit
def maximum(a, b):
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def largest_or_nan(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, BLOCK)), 0, maximum))


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_a_combiner_may_make_a_tile_to_ask_for_its_type(on: str) -> None:
    """As the kernels that PyTorch's compiler writes do."""
    x, out = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    largest_or_nan.run(x, out, BLOCK=64, grid=(1,), on=on)
    assert out[0] == 63
    x[5] = np.nan
    largest_or_nan.run(x, out, BLOCK=64, grid=(1,), on=on)
    assert np.isnan(out[0])


@triton.jit
def merge_statistics(mean, spread, weight, other_mean, other_spread, other_weight):
    difference, both = other_mean - mean, weight + other_weight
    share = tl.where(both == 0.0, 0.0, other_weight / both)
    mean_square = spread + other_spread + difference * difference * weight * share
    return mean + difference * share, mean_square, both


@triton.jit
def column_statistics(x, mean, variance, N, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    state = (tl.zeros((ROWS, COLUMNS), tl.float32),) * 3
    for first in range(0, N, ROWS):
        r = first + tl.arange(0, ROWS)[:, None]
        inside = (r < N) & (c < C)
        value = tl.load(x + r * C + c, mask=inside, other=0.0)
        one = (value, tl.zeros_like(value), tl.full_like(value, 1.0))
        both = zip(state, merge_statistics(*state, *one), strict=True)
        state = tuple([tl.where(inside, new, old) for old, new in both])
    result, spread, weight = tl.reduce(state, 0, merge_statistics)
    tl.store(mean + c, result[None, :], mask=c < C)
    tl.store(variance + c, (spread / weight)[None, :], mask=c < C)


@pytest.mark.parametrize("on", EXECUTORS)
def test_variances_of_columns_in_one_pass(on: str) -> None:
    x, mean, variance = normal(37, 7), np.zeros(7, np.float32), np.zeros(7, np.float32)
    column_statistics[(2,)](x, mean, variance, 37, 7, ROWS=8, COLUMNS=4, on=on)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, x.var(0), rtol=1e-4)


@triton.jit
def sorted_places(x, value, out, places, n, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    bits = tl.load(x + lanes, mask=lanes < n, other=float("inf")).to(tl.uint32, bitcast=True)
    ordered = tl.where((bits >> 31) == 1, ~bits, bits | 0x80000000)
    keys = tl.sort((ordered.to(tl.uint64) << 32) | lanes.to(tl.uint64))
    place = (keys & 0xFFFFFFFF).to(tl.int32)
    tl.store(places + lanes, place, mask=lanes < n)
    after = tl.gather(tl.load(value + lanes, mask=lanes < n), place, 0)
    tl.store(out + lanes, after, mask=lanes < n)


@pytest.mark.parametrize("on", EXECUTORS)
def test_places_are_sorted_along_with_what_they_hold(on: str) -> None:
    x, value = normal(29), np.arange(29, dtype=np.int16) * 3
    out, places = np.zeros(29, np.int16), np.zeros(29, np.int64)
    sorted_places[(1,)](x, value, out, places, 29, LANES=32, on=on)
    np.testing.assert_array_equal(places, x.argsort())
    np.testing.assert_array_equal(out, value[x.argsort()])


@triton.jit
def summed_by_the_last(x, parts, arrived, total, n, LANES: tl.constexpr, PARTS: tl.constexpr):
    lanes = tl.program_id(0) * LANES + tl.arange(0, LANES)
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + lanes, lanes < n, 0.0)))
    tl.debug_barrier()
    if tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu") == tl.num_programs(0) - 1:
        i = tl.arange(0, PARTS)
        tl.store(total, tl.sum(tl.load(parts + i, i < tl.num_programs(0), 0.0, volatile=True)))
        tl.atomic_xchg(arrived, 0)


@pytest.mark.parametrize("on", EXECUTORS)
def test_the_last_instance_adds_what_all_left(on: str) -> None:
    x, parts, total = normal(77), np.zeros(8, np.float32), np.zeros(1, np.float32)
    arrived = np.zeros(1, np.int32)
    summed_by_the_last[(5,)](x, parts, arrived, total, 77, LANES=16, PARTS=8, on=on)
    np.testing.assert_allclose(total[0], x.sum(), rtol=1e-4, atol=1e-5)
    assert arrived[0] == 0
