"""Ways of writing that kernels of others use."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir import TileirError
from tileir.frontends.triton.language.core import constexpr
from tileir.frontends.triton.language.extra.cuda import (
    gdc_launch_dependents,
    gdc_wait,
    num_threads,
    num_warps,
)
from tileir.frontends.triton.language.standard import cdiv


@triton.jit
def recurrence(x, out, start, T):
    i = start.to(tl.int64) * 2
    total = tl.load(x + i)
    for i in range(T):
        total += tl.load(x + i)
    tl.store(out, total)


def test_the_variable_of_a_loop_may_have_been_something_else() -> None:
    x, out = np.arange(9, dtype=np.float32), np.zeros(1, np.float32)
    recurrence[(1,)](x, out, 4, 5)
    assert out[0] == 8 + 10


@triton.jit
def after_the_loop(out, start, T):
    i = start.to(tl.int64)
    for i in range(T):
        tl.store(out, i)
    tl.store(out, i)


def test_after_the_loop_it_is_neither() -> None:
    with pytest.raises(TileirError, match="was the variable of a loop"):
        after_the_loop.module({"out": "*i32", "start": "i32", "T": "i32"})


@triton.jit
def counted_down(out, n):
    place = 0
    for i in range(n - 1, -1, -1):
        tl.store(out + place, i)
        place += 1
    for j in tl.static_range(3):  # noqa: B007 - which is what is looked at
        pass
    tl.store(out + place, j)


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_loops_count_down_and_unrolled_ones_leave_their_last_number(on: str) -> None:
    out = np.zeros(6, np.int32)
    counted_down[(1,)](out, 5, on=on)
    assert out.tolist() == [4, 3, 2, 1, 0, 2]


@triton.jit
def left_by_return(out, n, SKIPPED: tl.constexpr):
    for i in range(n):
        for j in tl.static_range(6):
            if j == SKIPPED:
                continue
            for k in range(n):
                if k > i:
                    break
                tl.atomic_add(out + j, 1)
            if j > 3 and j % 2 == 0:
                break
        tl.atomic_add(out + 5, 1)


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_unrolled_loops_are_left_by_what_is_known(on: str) -> None:
    out = np.zeros(6, np.int32)
    left_by_return[(1,)](out, 3, SKIPPED=2, on=on)
    assert out.tolist() == [6, 6, 0, 6, 6, 3]


@triton.jit
def wide_bounds(out, first, last):
    count = tl.full((), 0, tl.int64)
    for i in range(first.to(tl.int64) * 32, last, -32):
        count += i
    tl.store(out, count)


def test_a_loop_of_wide_bounds_counts_down() -> None:
    out = np.zeros(1, np.int64)
    for first, last in ((3, 0), (2, 96), (0, -33), (3, 96)):
        wide_bounds[(1,)](out, first, last)
        assert out[0] == sum(range(first * 32, last, -32))


@triton.jit
def scale_offsets(offsets: tl.constexpr, by: tl.constexpr):
    return offsets * by.value


@triton.jit
def annotated_too_much(out, n, kind: tl.constexpr):
    i = scale_offsets(tl.arange(0, 8), 3)
    last = n.to(tl.int64) - 1
    tl.store(out + i // 3, (i + last).to(kind.value))


def test_a_function_takes_tensors_whatever_its_annotations_say() -> None:
    out = np.zeros(8, np.float32)
    annotated_too_much[(1,)](out, 1, tl.float32)
    assert out.tolist() == [0, 3, 6, 9, 12, 15, 18, 21]


@triton.jit
def optional(bias, out, n):
    value = 1.0
    if bias:
        value += tl.load(bias)
    tl.store(out, value)


def test_a_pointer_is_true_where_it_points_somewhere() -> None:
    out = np.zeros(1, np.float32)
    optional[(1,)](np.ones(1, np.float32), out, 5)
    assert out[0] == 2
    optional[(1,)](None, out, 5)
    assert out[0] == 1


@triton.jit
def through_block_pointers(x, out, M, N, B: tl.constexpr):
    source = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (B, B), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (0, 0), (B, B), (1, 0))
    for _ in range(0, N, B):
        value = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, (value * 2).to(target.dtype.element_ty), boundary_check=(0, 1))
        source, target = source.advance((0, B)), tl.advance(target, (0, B))


def test_block_pointers_have_a_type_and_advance() -> None:
    x, out = np.arange(7 * 19, dtype=np.float32).reshape(7, 19), np.zeros((7, 19), np.float16)
    through_block_pointers[(1,)](x, out, 7, 19, 8)
    np.testing.assert_array_equal(out, (x * 2).astype(np.float16))


@triton.jit
def raise_unless_twice(out, MODE: tl.constexpr):
    if MODE == "twice":
        number: constexpr = 2
    else:
        raise NotImplementedError(f"no {MODE}")
    tl.store(out, number)


def test_raise_is_an_error_where_it_is_reached() -> None:
    raise_unless_twice.module({"out": "*i32"}, {"MODE": "twice"})
    with pytest.raises(TileirError, match="NotImplementedError") as caught:
        raise_unless_twice.module({"out": "*i32"}, {"MODE": "thrice"})
    assert caught.value.location is not None and caught.value.location.column == 9


@triton.jit
def merge_halves(x, down: tl.constexpr = tl.core.CONSTEXPR_0):
    tl.static_assert(tl.standard._log2(x.shape[0]) == 3)
    return tl.bitonic_merge(x, 0, down)


@triton.jit
def falls_and_rises(out):
    i = tl.arange(0, 8)
    tl.store(out + i, merge_halves(tl.where(i < 4, 7 - 2 * i, 2 * i - 8)))


def test_parts_of_sorting_networks() -> None:
    out = np.zeros(8, np.int32)
    falls_and_rises[(1,)](out)
    assert out.tolist() == list(range(8))


@triton.jit
def overlapping(out, n, W: tl.constexpr):
    gdc_wait()
    tl.static_assert(num_threads() == 32 * num_warps() and num_warps() == W)
    gdc_launch_dependents()
    tl.store(out, cdiv(n, 3))


def test_what_a_kernel_asks_of_its_launch() -> None:
    out = np.zeros(1, np.int32)
    overlapping[(1,)](out, 7, 2, num_warps=2)
    assert out[0] == 3
    with pytest.raises(TileirError, match="not known"):
        overlapping.module({"out": "*i32", "n": "i32"}, {"W": 2})


class Range(NamedTuple):
    low: tl.tensor
    high: tl.tensor


@triton.jit
def widen(r, by):
    return Range(r.low - by, high=r.high + by)


@triton.jit
def sequences(out, n):
    bounds = Range(n, n)
    for i in range(n):
        bounds = widen(bounds, i)
    tl.static_assert([i * i for i in range(1, 4)] == (1, 4, 9))
    for i, value in enumerate(reversed(list(bounds))):
        tl.store(out + i, value)
    for place, value in zip((out + 2, out + 3), (max((n, 2)), n + 1), strict=True):
        tl.store(place, value)


def test_tuples_are_made_and_walked_as_in_python() -> None:
    out = np.zeros(4, np.int32)
    sequences[(1,)](out, 4)
    assert out.tolist() == [10, -2, 4, 5]


@triton.jit
def swizzled_places(rows, columns, M, N, G: tl.constexpr):
    at = tl.program_id(0)
    i, j = tl.swizzle2d(at // N, at % N, M, N, G)
    tl.store(rows + at, i)
    tl.store(columns + at, j)


def test_swizzled_places() -> None:
    rows, columns = np.zeros(12, np.int32), np.zeros(12, np.int32)
    swizzled_places[(12,)](rows, columns, 3, 4, 2)
    assert rows.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 2, 2, 2, 2]
    assert columns.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 1, 2, 3]


@triton.jit
def clip_and_add(x, low):
    return tl.where(x < low, low, x), x + low


@triton.jit
def nested_dots(x, out, n):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    for _ in range(n):
        for i in range(n):
            tile = tl.load(x + 256 * i + at)
            tl.store(out + 256 * i + at, tl.dot(tile, tile))
        for _ in tl.range(n, num_stages=1):
            tl.store(out, 1.0)


def test_innermost_loops_with_stages_promise_independent_loads() -> None:
    """Triton's software pipeliner moves loads that dots need ahead of stores."""
    x = np.zeros((4, 256), np.float32)
    for options, count in (({}, 1), ({"num_stages": 3}, 1), ({"num_stages": 1}, 0)):
        jumps = nested_dots.warmup(x, x, 1, grid=(1,), **options).kernel().ops
        assert sum(getattr(op, "independent_loads", False) for op in jumps) == count


@triton.jit
def shapes(x, out, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    kind: tl.constexpr = tl.dtype("uint32")
    least, total = tl.map_elementwise(clip_and_add, value, 3)
    tl.max_constancy(value < 4, 4)
    wide = tl.squeeze(tl.unsqueeze(least, 0), 0) + tl.add(total, tl.mul(value, tl.sub(2, 1)))
    sign = value.logical_and(value < 4).logical_or(value == 6)
    tl.static_assert(kind.is_uint32() and not kind.is_int64() and isinstance(kind, tl.dtype))
    i = 0
    while tl.condition(i < 2):
        tl.store(out + i * B + tl.arange(0, B), tl.where(i == 0, wide.to(kind), sign.to(kind)))
        i += 1
    smallest = tl.topk(value, 2, descending=False)
    tl.store(out + 2 * B + tl.arange(0, 2), smallest.to(kind))
    tl.store(out + 2 * B + 2, value.reduce_or(0).to(kind))


def test_names_of_the_newest_language() -> None:
    x, out = np.arange(8, dtype=np.int32), np.zeros(19, np.uint32)
    shapes[(1,)](x, out, 8)
    assert out[:8].tolist() == [max(v, 3) + v + 3 + v for v in range(8)]
    assert out[8:16].tolist() == [0, 1, 1, 1, 0, 0, 1, 0]
    assert out[16:].tolist() == [0, 1, 7]


@triton.jit
def talking(x, n):
    tl.device_print("x", tl.load(x + tl.program_id(0)), n)


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_what_a_kernel_prints_is_shown(on: str, capsys: pytest.CaptureFixture[str]) -> None:
    talking[(2,)](np.array([2.5, 7.5], np.float32), 33, on=on)
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("2.5", "7.5", "33", "(1, 0, 0)"))


@triton.jit
def asked_for_types(x, out, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    tl.static_assert(value.type.is_block() and not value.dtype.is_block() and not x.type.is_block())
    tl.static_assert(value.type.shape == (B,) and value.type.numel == B)
    tl.static_assert(value.type.element_ty == tl.float32 and value.type.scalar == value.dtype)
    tl.static_assert(f"{B:03d} {value.type!s:>10} {'x'!r}" == "008 <[8], fp32> 'x'")
    tl.store(out + tl.arange(0, B), (value * 2).to(value.type))


def test_a_tile_has_a_type_and_texts_have_formats() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.int32)
    asked_for_types[(1,)](x, out, 8)
    assert out.tolist() == list(range(0, 16, 2))


STEP = 3


@triton.jit
def one_step(x):
    return x + STEP


@triton.jit
def steps(out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), one_step(tl.arange(0, N)))


def test_a_kernel_follows_the_numbers_of_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(4, np.float32)
    for number in (3, 5, 0.5):
        monkeypatch.setitem(globals(), "STEP", number)
        steps[1](out, np.int64(4))
        assert out.tolist() == [number, 1 + number, 2 + number, 3 + number]
    assert steps.warmup(out, 4, grid=1) is steps.warmup(out, np.int64(4), grid=1)


def test_no_attributes_of_modules_are_read_for_watched_globals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The language refuses a name with a search for similar ones, which takes milliseconds."""
    requested = []
    monkeypatch.setattr(tl, "__getattr__", requested.append)
    steps.source.__dict__.pop("watched_globals", None)
    assert [name for _, name in steps.source.watched_globals] == ["STEP"]
    assert not requested


@triton.jit
def told_twice(out, num_warps: tl.constexpr):
    tl.store(out, num_warps)


def test_an_option_of_the_launch_may_be_a_parameter_too() -> None:
    out = np.zeros(1, np.int32)
    told_twice[(1,)](out, num_warps=2)
    assert out[0] == 2
    module = told_twice.warmup(out, num_warps=8, grid=(1,))
    assert module.kernel().attributes["num_warps"] == 8


@triton.jit
def too_far_in_a_tuple(x):
    two = 1, 2
    tl.store(x, two[2])


@triton.jit
def lengths(x):
    tl.store(x, len(tl.load(x)))


@triton.jit
def unknown_type(x):
    tl.store(x, tl.zeros((4,), tl.dtype("float7")))


@triton.jit
def mapped_in_pairs(x):
    tl.map_elementwise(clip_and_add, tl.arange(0, 4), 3, pack=2)


@triton.jit
def unequal_descriptor(x):
    tl.make_tensor_descriptor(x, [4, 4], [4, 1], [4])


@triton.jit
def squeezed_too_far(x):
    tl.squeeze(tl.arange(0, 4), 0)


@pytest.mark.parametrize(
    "kernel",
    [
        lengths,
        unknown_type,
        mapped_in_pairs,
        unequal_descriptor,
        squeezed_too_far,
        too_far_in_a_tuple,
    ],
)
def test_what_means_nothing_has_a_place(kernel: Any) -> None:
    with pytest.raises(TileirError) as caught:
        kernel.module({"x": "*fp32"})
    assert caught.value.code == "TIR1003" and caught.value.location is not None


def test_the_library_says_whose_language_it_reads() -> None:
    assert [int(n) for n in triton.__version__.split(".")] >= [3, 0, 0]
    assert triton.constexpr_function(max) is max
    triton.set_allocator(None)
