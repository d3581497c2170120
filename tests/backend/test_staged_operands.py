"""Operands of dots by `mma` in shared memory: threads against the interpreter, without races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.test_stored_operands import (
    agree,
    chained_matmuls,
    count_stores,
    ops,
    random_operands,
    simple,
)
from tileir.analysis.loops import loops
from tileir.backend import Options, compile as compile_kernel
from tileir.builder import BF16, F16, F32, I8, I32, Builder, arg, pointer
from tileir.machine import dtype_of


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("warps", "rows", "columns", "depth", "iterations"), [
    (1, 32, 64, 64, 1), (2, 64, 32, 64, 1), (2, 32, 32, 64, 3), (4, 32, 64, 64, 2),
])  # fmt: skip
def test_chained_dots(warps: int, rows: int, columns: int, depth: int, iterations: int) -> None:
    """In a loop too, whose iterations wait before they overwrite the buffers."""
    module = chained_matmuls(rows, columns, depth, iterations)
    shapes = (rows, depth), (columns, depth), (columns, depth), (depth, depth)
    agree(module, [*random_operands(F16, *shapes), np.zeros((rows, depth), np.float32)], warps)
    names = ops(module, warps)
    assert count_stores(names) == 4, "operands that two dots read are stored once"


def test_operands_share_a_barrier() -> None:
    names = ops(chained_matmuls(64, 64, 64), 2)
    first = names.index("dot")
    assert count_stores(names[:first]) == 4
    assert names[:first].count("gpu.barrier") == 1
    last = len(names) - names[::-1].index("dot")
    assert "gpu.barrier" not in names[first:last]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("element", "total"), [(F16, F32), (F32, F32), (I8, I32)])
@pytest.mark.parametrize("warps", [1, 2])
def test_types(element: Any, total: Any, warps: int) -> None:
    module = simple(element, total, 64, 32, 64)
    arguments = [*random_operands(element, (64, 64), (32, 64)), np.zeros((64, 32), dtype_of(total))]
    agree(module, arguments, warps)
    names = ops(module, warps)
    assert count_stores(names) == 2
    assert names.count("dot") == 64 * element.bits // 8 // 32, "one step of K at a time"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(32, 32, 40), (48, 24, 72), (80, 16, 56)])
def test_extents_that_are_no_multiples(rows: int, columns: int, depth: int, warps: int) -> None:
    """Of the depth of an instruction."""
    module = simple(F16, F32, rows, columns, depth)
    shapes = (rows, depth), (columns, depth)
    agree(module, [*random_operands(F16, *shapes), np.zeros((rows, columns), np.float32)], warps)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_elements_are_stored_along_their_neighbours(order: tuple[int, int]) -> None:
    """Also where they are converted after the load: by 4 or 8 bytes, none of a single element."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("converted", x=kind, y=kind, out=kind) as (x, y, out):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        turned = b.arange(64)[:, None] + b.arange(64)[None, :] * 64
        places = at if order == (1, 0) else turned
        left, right = ((p + places).load().to(BF16) for p in (x, y))
        (out + at).store(b.dot(left, right, b.full((64, 64), 0.0, F32)))
    module = b.module()
    x, y = (v.astype(np.float32) for v in random_operands(F32, (64, 64), (64, 64)))
    agree(module, [x, y, np.zeros((64, 64), np.float32)], 2)
    text = compile_kernel(module, "sm_90", Options(num_warps=2)).ptx
    assert "ldmatrix" in text
    assert "st.shared.b16" not in text and "st.shared.u16" not in text


def test_what_a_dot_computes_is_an_operand_twice() -> None:
    """S as A stays in registers; as the transposed B of another dot it is stored as matrices."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("twice", x=kind, y=kind, out=pointer(F32)) as (x, y, out):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        left, right, zero = (x + at).load(), (y + at).load(), b.full((64, 64), 0.0, F32)
        scores = (b.dot(left, right, zero) * 0.25).to(F16)
        first = b.dot(scores, right, zero)
        (out + at).store(b.dot(left, b.trans(scores, order=(1, 0)), first))
    module = b.module()
    agree(module, [*random_operands(F16, (64, 64), (64, 64)), np.zeros((64, 64), np.float32)], 2)
    assert count_stores(ops(module, 2)) == 3
    assert "stmatrix" in compile_kernel(module, "sm_90", Options(num_warps=2)).ptx


def test_what_stays_in_registers() -> None:
    """Small operands, arithmetic on indices, elements without neighbours in memory, and operands
    beyond half of shared memory."""
    small = simple(F16, F32, 16, 16, 16)
    large = simple(F16, F32, 64, 256, 256)
    b = Builder()
    with b.kernel("indices", x=arg(pointer(F16)), out=pointer(F32)) as (x, out):
        rows, columns = b.arange(64)[:, None], b.arange(64)[None, :]
        at = rows * 64 + columns
        unit = (rows == columns).to(F16)
        strided = (x + at * 3).load()
        (out + at).store(b.dot(strided, unit, b.full((64, 64), 0.0, F32)))
    for module, warps in ((small, 1), (large, 8), (b.module(), 2)):
        assert count_stores(ops(module, warps)) == 0


def attention(heads: int, blocks: int, rows: int = 32, *, of_head: bool = False) -> Any:
    """Sums of (q k^T) v over `blocks` blocks of keys of each head, without pipelining. The queries
    are those of the head if `of_head`, else the same ones for all heads."""
    b, depth = Builder(), 64
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qkv"}
    with b.kernel("attention", **kinds, out=pointer(F32)) as (q, k, v, out):

        def grid(m: int, n: int) -> Any:
            return b.arange(m)[:, None] * n + b.arange(n)[None, :]

        queries = (q + grid(rows, depth)).load()
        total = b.var(b.full((rows, depth), 0.0, F32))
        with b.for_(0, heads, stages=1) as head:
            own = (q + grid(rows, depth) + head * (rows * depth)).load() if of_head else queries
            with b.for_(0, blocks, stages=1) as i:
                at = grid(32, depth) + (head * blocks + i) * (32 * depth)
                keys, values = (k + at).load(), (v + at).load()
                weights = b.dot(own, b.trans(keys, order=(1, 0)), b.full((rows, 32), 0.0, F32))
                total.set(b.dot((weights * 0.5).to(F16), values, total.get()))
        (out + grid(rows, depth)).store(total.get())
    return b.module()


def depths_of_stores(module: Any, warps: int = 2) -> list[int]:
    """The number of loops around each store of an operand, in ascending order."""
    stage = compile_kernel(module, "sm_80", Options(num_warps=warps)).tir_at("barriers")
    (function,) = stage.functions.values()
    return sorted(
        loops(function).depth(label)
        for label, block in function.blocks.items()
        for op in block.ops
        if op.mnemonic == "gpu.local_store"
    )


@pytest.mark.parametrize(("of_head", "depth"), [(False, 0), (True, 1)])
def test_operands_that_a_loop_does_not_change_are_stored_before_it(
    of_head: bool, depth: int
) -> None:
    """Before the outermost such loop. The operands that it loads are stored in it."""
    assert depths_of_stores(attention(3, 2, of_head=of_head)) == [depth, 2, 2]


def test_large_operands_are_stored_in_the_loop() -> None:
    """Other blocks need the rest of shared memory: 64 KiB are more than a quarter of it."""
    assert depths_of_stores(attention(2, 2, 512), 8) == [2, 2, 2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("of_head", [False, True])
@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_threads_wait_for_operands_stored_before_a_loop(of_head: bool, blocks: int) -> None:
    """Before they read them, and before those of the next head replace them."""
    heads = 3
    shapes = (heads * 32, 64), (heads * 32 * max(blocks, 1), 64), (heads * 32 * max(blocks, 1), 64)
    arguments = [*random_operands(F16, *shapes), np.zeros((32, 64), np.float32)]
    agree(attention(heads, blocks, of_head=of_head), arguments, 2)
