"""Who holds what of a matmul: warps over the batch, rows and columns, lanes within a warp; and
which accesses a layout serves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import AnchorLayouts, vector_run
from tileir.backend.layouts.dot_layouts import dot_layouts_of, layouts_of
from tileir.backend.layouts.wgmma import warpgroup, warpgroup_grid
from tileir.builder import I32, Builder, arg, pointer
from tileir.errors import CompileError
from tileir.layout import Layout
from tileir.layout_tilings import blocked_layout
from tileir.ops.dot import Dot
from tileir.textual import parse
from tileir.types import F16, F32, I8, Element, Tile
from tileir.values import Value


def product(kind: Element, m: int, n: int, k: int, batch: tuple[int, ...] = ()) -> Dot:
    total = kind if kind.bits > 16 else F32
    shapes = ((*batch, m, k), (*batch, k, n), (*batch, m, n))
    return Dot(*[Value(Tile(e, s)) for e, s in zip((kind, kind, total), shapes, strict=True)])


def of_warps(it: Layout, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """The elements that each warp holds, as a mask; the layout is as large as the tile."""
    assert all(e >= n for e, n in zip(it.extents, shape, strict=True))
    masks: list[np.ndarray[Any, Any]] = []
    for warp in range(it.size("warp")):
        mask = np.zeros(it.extents, bool)
        for register in range(it.size("register")):
            for lane in range(32):
                mask[it.coordinate(register, lane, warp)] = True
        masks.append(mask[tuple(slice(n) for n in shape)])
    return masks


def ways(it: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Among how many warps each dimension of a tile is shared."""
    masks = of_warps(it, shape)
    assert sum(m.astype(int) for m in masks).min() >= 1  # type: ignore[union-attr]
    return tuple(
        len({tuple(np.flatnonzero(m.any(tuple(set(range(m.ndim)) - {d})))) for m in masks})
        for d in range(len(shape))
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "sizes", "batch", "warps", "expected"),
    [
        (F16, (64, 64, 32), (), 4, (2, 2)), (F16, (128, 32, 32), (), 4, (4, 1)),
        (F16, (16, 128, 32), (), 4, (1, 4)), (F16, (64, 128, 16), (), 8, (2, 4)),
        (F32, (64, 64, 16), (), 4, (2, 2)), (F32, (128, 16, 16), (), 4, (4, 1)),
        (F16, (32, 32, 16), (2,), 4, (2, 2, 1)), (F16, (32, 32, 16), (4,), 4, (2, 2, 1)),
        (F16, (64, 64, 16), (8,), 16, (4, 2, 2)), (F16, (32, 32, 16), (3,), 4, (1, 2, 2)),
        (F16, (64, 64, 16), (6,), 16, (2, 4, 2)), (F32, (32, 32, 16), (1,), 4, (1, 2, 2)),
    ],
)  # fmt: skip
def test_warps_read_least(
    kind: Element, sizes: Any, batch: Any, warps: int, expected: tuple[int, ...]
) -> None:
    """As many along the batch as it divides by and no more than along the rest, which is shared so
    that rows and columns are read least."""
    m, n, _ = sizes
    layouts = layouts_of(product(kind, *sizes, batch), warps)
    shape = (*batch, m, n)
    shared = ways(layouts.c, shape)
    assert shared == expected or (
        np.prod(shared) == np.prod(expected) and shared[:-2] == expected[:-2]
    )


@pytest.mark.parametrize(("axis", "expected"), [(None, (1, 2)), (0, (1, 2)), (1, (2, 1))])
@pytest.mark.parametrize("accumulated", [False, True])
def test_equal_costs_are_decided_by_what_is_reduced(
    axis: int | None, expected: tuple[int, int], accumulated: bool
) -> None:
    """Of a square tile two warps read as much along M as along N. Each row is in one warp if rows
    are reduced, also after a loop."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("k", x=kind, y=kind, z=pointer(F32), n=I32) as (x, y, z, n):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        total = b.var(b.full((64, 64), 0.0, F32))
        if accumulated:
            with b.for_(0, n) as i:
                operands = (x + (at + i * 4096)).load(), (y + (at + i * 4096)).load()
                total.set(b.dot(*operands, total.get()))
        else:
            total.set(b.dot((x + at).load(), (y + at).load(), total.get()))
        result = total.get() * 2.0
        if axis is None:
            (z + at).store(result)
        else:
            (z + b.arange(64)).store(b.reduce(result, axis=axis, combiner="fadd"))
    (layouts,) = dot_layouts_of(b.module().functions["k"], 2).dots.values()
    assert ways(layouts.c, (64, 64)) == expected


@pytest.mark.parametrize(("rows", "expected"), [(64, (4, 1)), (63, (4, 1)), (32, (2, 2))])
def test_rows_first_where_another_dot_takes_them(rows: int, expected: tuple[int, int]) -> None:
    layouts = layouts_of(product(F16, rows, 64, 16), 4, rows_first=True)
    if rows == 64:
        assert ways(layouts.c, (rows, 64)) == expected
    assert layouts.mma is not None


@pytest.mark.parametrize(
    ("sizes", "batch", "warps", "width"),
    [
        ((16, 16), (), 2, 4), ((16, 16), (), 4, 2), ((16, 16), (), 8, 1), ((16, 16), (), 16, 1),
        ((32, 16), (), 4, 4), ((16, 16), (4,), 4, 4), ((16, 16), (4,), 16, 2),
    ],
)  # fmt: skip
def test_no_two_threads_compute_an_element_of_a_small_result(
    sizes: Any, batch: Any, warps: int, width: int
) -> None:
    """A thread has fewer neighbours where 16 bytes for each thread are more than the result has."""
    result = layouts_of(product(F32, *sizes, 16, batch), warps).c
    assert vector_run(result, result.rank - 1) == width
    elements, threads = int(np.prod((*batch, *sizes))), 32 * warps
    assert result.size("register") == max(1, elements // threads)


def test_lanes_that_multiply_and_add() -> None:
    """8 rows of 4 lanes, each of which holds 16 bytes of a row; operands have all of K."""
    result, width = layouts_of(product(F32, 32, 64, 8), 1), 4
    assert result.mma is None
    assert ways(layouts_of(product(F32, 32, 80, 8), 1).c, (32, 80)) == (1, 1)
    places = {result.c.coordinate(0, lane) for lane in range(32)}
    assert places == {(r, width * c) for r in range(8) for c in range(4)}
    first = [result.c.coordinate(r, 0) for r in range(width)]
    assert first == [(0, i) for i in range(width)]
    for it, dim in ((result.a, 0), (result.b, 1)):
        for lane in range(32):
            mine = {result.c.coordinate(r, lane)[dim] for r in range(result.c.size("register"))}
            coordinates = {it.coordinate(r, lane) for r in range(it.size("register"))}
            assert {v[dim] for v in coordinates} == mine
            assert {v[1 - dim] for v in coordinates} == set(range(8))


ACCESSES = """tir 1.0

define kernel void @k(f32* aligned(16) %x) {
entry:
  %i = make_range i32<64>
  %j = make_range i32<32>
  %r = expand_dims i32<64, 1> %i {axis = 1}
  %c = expand_dims i32<1, 32> %j {axis = 0}
  %r32 = mul i32<64, 1> %r, 32
  %rows = broadcast i32<64, 32> %r32
  %columns = broadcast i32<64, 32> %c
  %at = add i32<64, 32> %rows, %columns
  %xs = splat f32*<64, 32> %x
  %p = getelementptr f32*<64, 32> %xs, %at
  %v = load f32<64, 32> %p
  %ls = splat f32*<64> %x
  %q = getelementptr f32*<64> %ls, %i
  %w = load f32<64> %q
  store %q, %w
  ret
}
"""


def test_layouts_that_serve_an_access() -> None:
    """As wide in the same direction; of tiles of an element a thread any."""
    function = parse(ACCESSES).kernel()
    anchors = AnchorLayouts(function, AccessWidths(function), 4)
    large, small = (op for op in function.ops if op.mnemonic == "load")
    assert (anchors.width(large), anchors.width(small)) == (4, 4)
    for layout, serves in (
        (blocked_layout((64, 32), (1, 0), 4, 4), True),
        (blocked_layout((64, 32), (1, 0), 8, 4), True),
        (blocked_layout((64, 32), (1, 0), 2, 4), False),
        (blocked_layout((64, 32), (0, 1), 4, 4), False),
    ):
        assert anchors.serves(large, layout) == serves
    for width in (1, 2, 4):
        assert anchors.serves(small, blocked_layout((64,), (0,), width, 4))
    wide = AnchorLayouts(function, AccessWidths(function), 1)
    assert not wide.serves(small, blocked_layout((64,), (0,), 1, 1))
    assert anchors.of(next(iter(function.ops))) is None


def test_what_is_between_dots_is_looked_at_once() -> None:
    """64 additions of a value and itself, of which there are 2^64 ways back to the first matmul."""
    additions = "\n".join(f"  %s{n + 1} = fadd f32<32, 32> %s{n}, %s{n}" for n in range(64))
    function = parse(f"""tir 1.0

define kernel void @k(f32* %x) {{
entry:
  %a = splat f32<32, 32> f32 1.0
  %s0 = dot f32<32, 32> %a, %a, 0.0
{additions}
  %d = dot f32<32, 32> %s64, %a, 0.0
  ret
}}
""").kernel()
    first, second = (op for op in function.ops if op.mnemonic == "dot")
    dot_layouts = dot_layouts_of(function, 4)
    assert set(dot_layouts.dots) == {first, second}
    assert ways(dot_layouts.dots[first].c, (32, 32)) == ways(dot_layouts.dots[second].c, (32, 32))


@for_each(("m", "n", "warps", "expected"), [
        (64, 64, 4, (1, 1)), (128, 64, 8, (2, 1)), (64, 64, 8, (1, 2)), (192, 64, 8, (1, 2)),
        (192, 64, 12, (3, 1)), (128, 64, 16, (2, 2)), (64, 96, 12, (1, 3)), (256, 8, 16, (4, 1)),
    ])  # fmt: skip
def test_warpgroups_share_rows_first(m: int, n: int, warps: int, expected: tuple[int, int]) -> None:
    """As many of them as the blocks of 64 rows divide by."""
    assert warpgroup_grid(product(F16, m, n, 16), warps) == expected


def test_columns_that_warpgroups_cannot_share() -> None:
    with pytest.raises(
        CompileError, match="72 columns are not a multiple of 8 for each of 2 groups"
    ):
        warpgroup_grid(product(F16, 64, 72, 16), 8)


@for_each(("kind", "n", "expected"), [
        (F16, 8, 8), (F16, 256, 256), (F16, 264, 88), (F16, 272, 136), (F16, 520, 104),
        (I8, 8, 8), (I8, 16, 16), (I8, 24, 24), (I8, 40, 8), (I8, 48, 48), (I8, 120, 24),
        (I8, 256, 256), (I8, 264, 24), (I8, 288, 144),
    ])  # fmt: skip
def test_columns_of_one_instruction_are_as_many_as_there_may_be(
    kind: Element, n: int, expected: int
) -> None:
    """Up to 256, all alike; for integers a multiple of 16, 8 or 24 (PTX ISA, "wgmma.mma_async")."""
    place = {1: "i8", 2: "f16"}[kind.bytes] + " addrspace(3)*"
    total = "i32" if kind is I8 else "f32"
    function = parse(f"""tir 1.0
stage "warp_specialized"

define private void @k({place} %a, {place} %b, {total}<64, {n}> %c) {{
entry:
  %d = gpu.wgmma {total}<64, {n}> %a, 0, %b, 0, %c {{trans_b = true}}
  %e = gpu.wgmma_wait {total}<64, {n}> %d
  ret
}}
""").functions["k"]
    (op,) = (op for op in function.ops if op.mnemonic == "gpu.wgmma")
    assert warpgroup(op, 4).n == expected
