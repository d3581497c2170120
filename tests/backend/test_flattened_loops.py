"""Persistent matmuls whose loop over tiles and whose loop over K are one loop: the addresses depend
on branches within the loop."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tileir
import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import loops
from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.target import target
from tileir.passmanager import run
from tileir.types import I32, element_of, shape_of

Array = np.ndarray[Any, Any]
SIZE, DEPTH, BLOCKS = 64, 32, 2
FORMS = ("if", "where", "hint", "nested", "counted", "table")


@triton.jit
def place_of(tile, rows, columns):
    """The row and the column of a tile, in groups of two rows of tiles."""
    group = tile // (2 * columns)
    height = min(rows - 2 * group, 2)
    return 2 * group + tile % height, (tile % (2 * columns)) // height


@triton.jit
def matmul(
    a, b, c, m, n, k, table, N: tl.constexpr, K: tl.constexpr, BLOCKS: tl.constexpr,
    FORM: tl.constexpr,
):  # fmt: skip
    """C = A B^T, tile after tile, in groups of two rows of tiles, whose places `table` has."""
    start = tl.program_id(0)
    rows, columns, steps = tl.cdiv(m, N), tl.cdiv(n, N), tl.cdiv(k, K)
    tiles = rows * columns
    per_block = tiles // BLOCKS
    if start < tiles % BLOCKS:
        per_block += 1
    tile, step, row, column = start - BLOCKS, -1, 0, 0
    lanes, along = tl.arange(0, N), tl.arange(0, K)
    offs_m, offs_n = lanes, lanes
    acc = tl.zeros((N, N), dtype=tl.float32)
    for i in range(steps * per_block):
        if FORM == "counted":
            step = i % steps
        else:
            step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            tile += BLOCKS
            row, column = place_of(tile, rows, columns)
            offs_m, offs_n = row * N + lanes, column * N + lanes
            if FORM == "hint":
                offs_m = tl.where(offs_m < m, offs_m, 0)
                offs_n = tl.where(offs_n < n, offs_n, 0)
                offs_m = tl.max_contiguous(tl.multiple_of(offs_m, N), N)
                offs_n = tl.max_contiguous(tl.multiple_of(offs_n, N), N)
            elif FORM == "nested":
                if row * N + N > m:
                    offs_m = tl.where(offs_m < m, offs_m, 0)
                else:
                    offs_m = offs_m + 0 * column
                if column * N + N > n:
                    offs_n = tl.where(offs_n < n, offs_n, 0)
            elif FORM == "table":
                row = tl.load(table + row)
                column = tl.load(table + rows + column, mask=column < columns, other=0)
                offs_m, offs_n = (row * N + lanes) % m, (column * N + lanes) % n
            else:
                offs_m, offs_n = offs_m % m, offs_n % n
        depth = step * K + along
        x = tl.load(a + offs_m[:, None] * k + depth[None, :], mask=depth[None, :] < k, other=0.0)
        y = tl.load(b + offs_n[None, :] * k + depth[:, None], mask=depth[:, None] < k, other=0.0)
        acc = tl.dot(x, y, acc)
        last = step == steps - 1
        if last:
            out_m, out_n = row * N + lanes, column * N + lanes
            inside = (out_m[:, None] < m) & (out_n[None, :] < n)
            tl.store(c + out_m[:, None] * n + out_n[None, :], acc.to(tl.float16), mask=inside)
            if FORM != "where":
                acc = tl.zeros((N, N), dtype=tl.float32)
        if FORM == "where":
            acc = tl.where(last, tl.zeros((N, N), dtype=tl.float32), acc)


@triton.jit
def blocks(a, b, c, m, n, k, N: tl.constexpr, K: tl.constexpr, BLOCKS: tl.constexpr):
    """`matmul` with descriptors: the branch computes scalars alone."""
    start = tl.program_id(0)
    rows, columns, steps = tl.cdiv(m, N), tl.cdiv(n, N), tl.cdiv(k, K)
    blocks_a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [N, K])
    blocks_b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
    blocks_c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [N, N])
    tiles = rows * columns
    per_block = tiles // BLOCKS
    if start < tiles % BLOCKS:
        per_block += 1
    tile, step, row, column = start - BLOCKS, -1, 0, 0
    acc = tl.zeros((N, N), dtype=tl.float32)
    for _ in range(steps * per_block):
        step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            tile += BLOCKS
            row, column = place_of(tile, rows, columns)
        x = blocks_a.load([row * N, step * K])
        y = blocks_b.load([column * N, step * K])
        acc = tl.dot(x, y.T, acc)
        if step == steps - 1:
            blocks_c.store([row * N, column * N], acc.to(tl.float16))
            acc = tl.zeros((N, N), dtype=tl.float32)


SIGNATURE = {**dict.fromkeys("abc", "*fp16:16"), **dict.fromkeys("mnk", "i32:16")}
VALUES = {"N": SIZE, "K": DEPTH, "BLOCKS": BLOCKS}


@cache
def module_of(form: str) -> Any:
    return matmul.module({**SIGNATURE, "table": "*i32"}, {**VALUES, "FORM": form})


def result(launch: Any, module: Any, shape: tuple[int, int, int], **options: Any) -> Array:
    m, n, k = shape
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-3, 4, (x, k)).astype(np.float16) for x in (m, n))
    c = np.full((m, n), np.nan, np.float16)
    arguments = {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k}
    if "matmul" in module.functions:
        places = [random.permutation(-(-x // SIZE)) for x in (m, n)]
        arguments["table"] = np.concatenate(places).astype(np.int32)
    launch(module, None, BLOCKS, arguments, **options)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))
    return c


SHAPES = [(64, 64, 32), (80, 144, 64), (192, 80, 80), (16, 48, 160), (192, 128, 64)]


def shapes_of(form: str) -> list[tuple[int, int, int]]:
    """A promise that offsets are contiguous holds in whole tiles."""
    return [x for x in SHAPES if form != "hint" or x[0] % SIZE == x[1] % SIZE == 0]


@pytest.mark.sampled(1, by="form")
@pytest.mark.parametrize(("form", "shape"), [(f, s) for f in FORMS for s in shapes_of(f)], ids=str)
def test_threads_compute_what_the_interpreter_does(form: str, shape: tuple[int, int, int]) -> None:
    """By default, one shape of each form; `test_the_pass_keeps_results` has all of them."""
    module = module_of(form)
    result(tileir.interpret, module, shape)
    for machine in ("sm_90", "sm_90a"):
        result(
            SimtExecutor().launch, module, shape,
            target=machine, num_warps=4, num_stages=3, warp_specialize=False,
        )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_pass_keeps_results(form: str) -> None:
    module = module_of(form)
    for warpgroups in (0, 1):
        changed = run(module, f"async-pipeline{{num-stages = 3, warpgroups = {warpgroups}}}").module
        assert sum(op.mnemonic == "gpu.async_copy" for op in changed.functions["matmul"].ops) > 2
        for shape in shapes_of(form):
            result(tileir.interpret, changed, shape)


@cache
def lowered_kernel(form: str, machine: str) -> Any:
    options = Options(num_warps=4, num_stages=3, warp_specialize=False)
    done = run_pipeline(module_of(form), target(machine), options, None)
    return done.stages["barriers"].functions[done.kernel]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("machine", ["sm_90", "sm_90a"])
def test_both_operands_are_copied_ahead(form: str, machine: str) -> None:
    ops = [*lowered_kernel(form, machine).ops]
    assert all(shape_of(op.result.type) == () for op in ops if op.mnemonic == "load")
    assert sum(op.mnemonic == "gpu.async_copy" for op in ops) == 3 * 2


@pytest.mark.parametrize("form", FORMS)
def test_a_wgmma_overlaps_with_the_next_iteration(form: str) -> None:
    """The branch that stores a tile waits for it, and resets it: no select of its elements."""
    ops = [*lowered_kernel(form, "sm_90a").ops]
    waits = [op.pending for op in ops if op.mnemonic == "gpu.wgmma_wait"]
    assert sorted(waits) == [0, 0, 1]
    assert not any(
        op.mnemonic == "select" and shape_of(op.result.type) == (SIZE, SIZE) for op in ops
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("machine", ["sm_90", "sm_90a"])
def test_quotients_are_in_branches(form: str, machine: str) -> None:
    """Every block that divides by what is not known ends the preparation of a tile."""
    function = lowered_kernel(form, machine)
    loop = loops(function).by_header["loop"]
    tree = dominance(function)
    for label in loop.order:
        divided = [op for op in function.blocks[label].ops if op.divides and op.effects]
        assert form == "counted" or not divided or not tree.dominates(label, loop.latch)


@pytest.mark.parametrize("machine", ["sm_90", "sm_90a"])
def test_offsets_with_hints_have_the_layout_of_the_addresses(machine: str) -> None:
    ops = lowered_kernel("hint", machine).ops
    converted = [op for op in ops if op.mnemonic == "gpu.convert_layout"]
    assert all(element_of(op.result.type) is not I32 for op in converted)


@pytest.mark.sampled(3, by="roles")
@pytest.mark.parametrize("roles", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_descriptors_of_blocks_that_a_branch_chooses(
    roles: bool, shape: tuple[int, int, int]
) -> None:
    module = blocks.module(SIGNATURE, VALUES)
    options = {"num_warps": 4, "num_stages": 3, "warp_specialize": roles}
    result(tileir.interpret, module, shape)
    result(SimtExecutor().launch, module, shape, target="sm_90a", **options)
    stage = run_pipeline(module, target("sm_90a"), Options(**options), None).stages["barriers"]
    ops = [op for function in stage.functions.values() for op in function.ops]
    assert any(op.mnemonic == "gpu.tma_load" for op in ops) == roles
    assert sorted(op.pending for op in ops if op.mnemonic == "gpu.wgmma_wait") == [0, 0, 1]
