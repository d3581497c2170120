"""Stages that an iteration refills after it has read them, where shared memory limits occupancy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.errors import InfeasibleError

ROWS, SIZE = 16, 64


def attention(
    stages: int = 3, *, conditional: bool = False, size: int = SIZE, keys: int = 0, rows: int = ROWS
) -> Any:
    """C = the sum over i of (Q K[i]^T) V[i] d[i], where i is even if it is `conditional`. Q has
    `rows` rows of `size` elements; K[i] and V[i] have `keys` ones, or as many rows as elements."""
    many = keys or size
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qkv"}
    kinds["d"] = arg(pointer(F32), aligned=16)
    with b.kernel("f", **kinds, c=pointer(F32), n=arg(I32)) as (q, k, v, d, c, n):
        columns = b.arange(size)[None, :]
        top = b.arange(rows)[:, None] * size + columns
        at = b.arange(many)[:, None] * size + columns
        queries, total = (q + top).load(), b.var(b.full((rows, size), 0.0, F32))
        with b.for_(0, n, stages=stages) as i:
            left, right = (
                (k + (at + i * (many * size))).load(),
                (v + (at + i * (many * size))).load(),
            )
            zero = b.full((rows, many), 0.0, F32)
            scores = b.dot(queries, b.trans(left, order=[1, 0]), zero).to(F16)
            scale = (d + i).load()
            if conditional:
                with b.if_(i % 2 == 0):
                    total.set(b.dot(scores, right, total.get()))
            else:
                total.set(b.dot(scores, right, total.get()) * scale)
        (c + top).store(total.get())
    return b.module()


def lower(module: Any, warps: int, machine: str = "sm_90") -> Any:
    return run_pipeline(module, target(machine), Options(num_warps=warps), None)


def in_loop(done: Any) -> list[str]:
    """What the loop does with shared memory, and its dots, in order."""
    function = done.stages["pipelined"].functions[done.kernel]
    ops = (op for label in ("loop", "body") for op in function.blocks[label].ops)
    names = [op.mnemonic for op in ops if op.mnemonic.startswith(("gpu.", "dot"))]
    return [name for i, name in enumerate(names) if names[i - 1 : i] != [name]]


def depths(done: Any) -> list[int]:
    ops = done.stages["pipelined"].functions[done.kernel].ops
    return [op.shape[0] for op in ops if op.mnemonic == "gpu.shared_alloc"]


def test_each_stage_is_refilled_after_its_last_read() -> None:
    """4 blocks of one warp would have three stages of two tiles; 6 have two. No tile waits for the
    reads of the other. The fragments of a tile need not be in registers at the same time, as they
    would be if the barrier preceded the dot."""
    done = lower(attention(), 1)
    assert depths(done)[:2] == [2, 2]
    each = ["gpu.local_load", "dot", "gpu.barrier", "gpu.async_copy"]
    assert in_loop(done) == ["gpu.async_wait", "gpu.barrier", *each, *each, "gpu.async_commit"]


@pytest.mark.parametrize(
    ("module", "warps", "depth"),
    [(attention(), 4, 3), (attention(2), 1, 2), (attention(conditional=True), 1, 3)],
    ids=["enough warps", "no stage would be under way", "reads in another block"],
)
def test_other_loops_keep_a_stage_to_be_filled(module: Any, warps: int, depth: int) -> None:
    assert depths(lower(module, warps))[:2] == [depth, depth]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_one_stage_is_refilled_where_each_scheduler_had_one_warp(stages: int) -> None:
    """4 blocks of one warp would have two stages, in less shared memory; 9 have one."""
    assert depths(lower(attention(stages), 1, "sm_80"))[:2] == [1, 1]


def test_stages_are_refilled_where_more_blocks_are_resident_then() -> None:
    """Of 2 warps, 4 blocks have three stages and 6 have two. Of 8, one block has three or two, and
    two blocks have one."""
    assert depths(lower(attention(), 2))[:2] == [2, 2]
    assert depths(lower(attention(size=128, keys=64), 8, "sm_86"))[:2] == [1, 1]


@pytest.mark.parametrize("warps", [4, 8])
def test_one_stage_is_refilled_where_two_do_not_fit(warps: int) -> None:
    """Each stage takes 128 KiB."""
    assert depths(lower(attention(2, size=256, keys=128), warps))[:2] == [1, 1]


def test_a_stage_that_no_gpu_has_is_refused() -> None:
    """Both tiles take 512 KiB."""
    with pytest.raises(InfeasibleError, match="exceed the shared memory"):
        lower(attention(2, size=512, keys=256), 4)


@pytest.mark.parametrize(("size", "buffers"), [(128, 3), (64, 2)])
def test_queries_are_stored_where_registers_would_limit_the_blocks(size: int, buffers: int) -> None:
    """3 blocks of 4 warps have 168 registers for each thread. The queries, which all four warps
    need, would take 32, and the fragments of 128 keys 64. 64 keys leave more warps resident."""
    options = Options(num_warps=4, num_stages=3)
    done = run_pipeline(attention(3, size=size), target("sm_90"), options, None)
    assert len(depths(done)) == buffers


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("warps", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_results_stay_as_they_are(n: int, warps: int, stages: int) -> None:
    random = np.random.default_rng(n)
    shapes = [(ROWS, SIZE), (n, SIZE, SIZE), (n, SIZE, SIZE)]
    inputs = [random.integers(-1, 2, shape).astype(np.float16) for shape in shapes]
    scales = random.integers(1, 3, n).astype(np.float32)
    module = attention(stages)
    expected, actual, threads = np.full((3, ROWS, SIZE), np.nan, np.float32)
    tileir.interpret(module, "f", (1,), [*inputs, scales, expected, n])
    changed = lower(module, warps, "sm_80").stages["pipelined"]
    tileir.interpret(changed, "f", (1,), [*inputs, scales, actual, n])
    np.testing.assert_array_equal(actual, expected)
    options: dict[str, Any] = {"num_warps": warps, "target": "sm_80"}
    SimtExecutor().launch(module, "f", (1,), [*inputs, scales, threads, n], **options)
    np.testing.assert_array_equal(threads, expected)


def test_threads_agree_where_queries_are_stored() -> None:
    random, size, n = np.random.default_rng(0), 128, 2
    shapes = [(ROWS, size), (n, size, size), (n, size, size)]
    inputs = [random.integers(-1, 2, shape).astype(np.float16) for shape in shapes]
    module, scales = attention(size=size), np.ones(n, np.float32)
    expected, threads = np.full((2, ROWS, size), np.nan, np.float32)
    tileir.interpret(module, "f", (1,), [*inputs, scales, expected, n])
    options: dict[str, Any] = {"num_warps": 4, "target": "sm_90"}
    SimtExecutor().launch(module, "f", (1,), [*inputs, scales, threads, n], **options)
    np.testing.assert_array_equal(threads, expected)


WARPGROUPS = Options(num_warps=4, warp_specialize=False)


@pytest.mark.parametrize(
    ("size", "stages", "depth"), [(128, 3, 2), (64, 3, 3), (128, 2, 2), (128, 4, 4)]
)
def test_warpgroups_have_a_stage_less_for_a_block_more(size: int, stages: int, depth: int) -> None:
    """One block of 120 KiB has three stages of keys and values of 128 elements, two have two each.
    Of 64 elements, 3 blocks have three stages: 4 with two would have fewer bytes under way. One
    block has three stages or four."""
    module = attention(stages, size=size, keys=64, rows=64)
    done = run_pipeline(module, target("sm_90a"), WARPGROUPS, None)
    assert "gpu.wgmma" in in_loop(done)
    assert depths(done)[:2] == [depth, depth]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_results_of_warpgroups_with_a_stage_less(n: int) -> None:
    random, size = np.random.default_rng(n), 128
    shapes = [(64, size), (n, 64, size), (n, 64, size)]
    inputs = [random.integers(-1, 2, shape).astype(np.float16) for shape in shapes]
    module, scales = attention(size=size, keys=64, rows=64), np.ones(n, np.float32)
    expected, threads = np.full((2, 64, size), np.nan, np.float32)
    tileir.interpret(module, "f", (1,), [*inputs, scales, expected, n])
    options: dict[str, Any] = {"num_warps": 4, "target": "sm_90a", "warp_specialize": False}
    SimtExecutor().launch(module, "f", (1,), [*inputs, scales, threads, n], **options)
    np.testing.assert_array_equal(threads, expected)


def mixed_matmuls(size: int, depth: int, stages: int) -> Any:
    """C = the sum over i of A[i] (B[i] as f16) + A[i] (D[i] as f16), of 64 rows, `size` columns and
    `depth` elements for each sum; B and D are f32."""
    b = Builder()
    halves, singles = arg(pointer(F16), aligned=16), arg(pointer(F32), aligned=16)
    with b.kernel("f", a=halves, b=singles, d=singles, c=pointer(F32), n=arg(I32)) as (
        left, right, other, c, n,
    ):  # fmt: skip
        at_a = b.arange(64)[:, None] * depth + b.arange(depth)[None, :]
        at_b = b.arange(depth)[:, None] * size + b.arange(size)[None, :]
        total = b.var(b.full((64, size), 0.0, F32))
        with b.for_(0, n, stages=stages) as i:
            rows = (left + (at_a + i * (64 * depth))).load()
            for x in (right, other):
                columns = (x + (at_b + i * (depth * size))).load().to(F16)
                total.set(b.dot(rows, columns, total.get()))
        (c + (b.arange(64)[:, None] * size + b.arange(size)[None, :])).store(total.get())
    return b.module()


@pytest.mark.parametrize(("size", "depth"), [(64, 2), (128, 1)])
def test_threads_refill_one_stage_where_warpgroups_lack_shared_memory(
    size: int, depth: int
) -> None:
    """Two stages of 144 KiB do not fit, with which warpgroups would compute the dots; two of 80 KiB
    do."""
    done = run_pipeline(mixed_matmuls(size, 128, 2), target("sm_90a"), WARPGROUPS, None)
    assert depths(done)[:3] == [depth] * 3
    assert ("gpu.wgmma" in in_loop(done)) == (depth == 2)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_results_of_a_stage_that_threads_refill_for_warpgroups(n: int) -> None:
    random = np.random.default_rng(n)
    left = random.integers(-1, 2, (n, 64, 128)).astype(np.float16)
    others = [random.integers(-1, 2, (n, 128, 128)).astype(np.float32) for _ in range(2)]
    module = mixed_matmuls(128, 128, 2)
    expected, threads = np.full((2, 64, 128), np.nan, np.float32)
    tileir.interpret(module, "f", (1,), [left, *others, expected, n])
    options: dict[str, Any] = {"num_warps": 4, "target": "sm_90a", "warp_specialize": False}
    SimtExecutor().launch(module, "f", (1,), [left, *others, threads, n], **options)
    np.testing.assert_array_equal(threads, expected)
