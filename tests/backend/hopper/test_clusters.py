"""Clusters: blocks that read each other's shared memory, in any order, and nothing left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.errors import CompileError, InterpretError, TileirError
from tileir.interp import interpret
from tileir.textual import parse

from .programs import corpus

CLUSTER, REMOTE = corpus("cluster"), corpus("remote")
ITERATIONS = 5


def four(text: str, seed: int, launch: Any) -> None:
    """Sums over four blocks."""
    x = np.random.default_rng(seed).integers(-5, 6, (3, 4, 16, 32)).astype(np.float32)
    out = np.full((3, 16, 32), np.nan, np.float32)
    launch(parse(text), 3, [x.reshape(-1), out.reshape(-1)], seed)
    assert np.array_equal(out, x.sum(1)), "other totals"


def two(text: str, seed: int, launch: Any) -> None:
    """Sums over two blocks, of one tile after the other."""
    x = np.random.default_rng(seed).integers(-5, 6, (2, ITERATIONS, 2, 16, 32)).astype(np.float32)
    out = np.full((2, ITERATIONS, 16, 32), np.nan, np.float32)
    launch(parse(text), 2, [x.reshape(-1), out.reshape(-1), ITERATIONS], seed)
    assert np.array_equal(out, x.sum(2)), "other totals"


def by_threads(module: Any, grid: int, arguments: list[Any], seed: int) -> None:
    SimtExecutor().launch(module, None, grid, arguments, target="sm_90a", seed=seed)


def run_interpreter(module: Any, grid: int, arguments: list[Any], seed: int) -> None:
    interpret(module, None, grid, arguments, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("launch", [by_threads, run_interpreter])
@pytest.mark.parametrize(("run", "text"), [(four, CLUSTER), (two, REMOTE)])
def test_accumulators_in_any_order(run: Any, text: str, launch: Any) -> None:
    for seed in range(6):
        run(text, seed, launch)


def test_code() -> None:
    kernel = compile_kernel(parse(CLUSTER), "sm_90a")
    assert kernel.metadata.cluster == (4, 1, 1) and kernel.metadata.blocks((3,)) == (12, 1, 1)
    assert ".reqnctapercluster 4" in kernel.ptx and "%clusterid.x" in kernel.ptx
    assert kernel.ptx.count("ld.shared::cluster") == 4 and "bar.sync" not in kernel.ptx
    assert kernel.machine_code.spills == kernel.machine_code.stack == 0
    kernel = compile_kernel(parse(REMOTE), "sm_90a")
    assert kernel.ptx.count("mbarrier.arrive.release.cluster.shared::cluster") == 2
    assert kernel.ptx.count("mbarrier.try_wait.parity.acquire.cluster") == 3
    assert kernel.machine_code.spills == kernel.machine_code.stack == 0


def test_arrivals_for_copies_order_nothing_else() -> None:
    """What threads wrote, other blocks do not see after arrivals of the scope of a block."""
    arrival = "gpu.mbarrier_arrive %staged, 0 {cluster = true}"
    text = REMOTE.replace("gpu.cluster_mbarrier_arrive %staged, 0", arrival)
    alone = "%staged = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = "
    assert text.count(f"{alone}2}}") == 1
    text = text.replace(f"{alone}2}}", f"{alone}8}}")
    for seed in range(4):
        with pytest.raises(AssertionError, match=r"reads byte .* nothing orders"):
            two(text, seed, by_threads)


def test_targets_without_clusters() -> None:
    with pytest.raises(CompileError, match="a cluster of 4 blocks: sm_80 has none"):
        compile_kernel(parse(CLUSTER), "sm_80")


FIRST = "  gpu.local_store %x, %b, 0\n  gpu.cluster_arrive\n  gpu.cluster_wait\n"
LAST = "  store %qq, %s2\n  gpu.cluster_wait\n"

LEFT_OUT: dict[str, tuple[Any, str, str, str, str]] = {
    "blocks have not staged": (
        four,
        CLUSTER,
        FIRST,
        "  gpu.local_store %x, %b, 0\n",
        "nothing orders|no thread wrote",
    ),
    "a block ends early": (
        four,
        CLUSTER.replace("  gpu.cluster_arrive\n  %w", "  %w"),
        LAST,
        "  store %qq, %s2\n",
        "at its end|ends with",
    ),
    "a rank that there is not": (four, CLUSTER, "%b, 0, 3, %row", "%b, 0, 4, %row", "no block 4"),
    "another rank": (four, CLUSTER, "%b, 0, 3, %row", "%b, 0, 2, %row", "other totals"),
    "rows of another": (four, CLUSTER, "%b, 0, 3, %row", "%b, 0, 3, 0", "other totals"),
    "barriers have not begun": (
        two,
        REMOTE,
        "  gpu.cluster_arrive\n  gpu.cluster_wait\n",
        "",
        "no barrier|that .* begins",
    ),
    "no thread says that it staged": (
        two,
        REMOTE,
        "  gpu.cluster_mbarrier_arrive %staged, 0\n",
        "",
        "deadlock",
    ),
    "no thread waits for what is staged": (
        two,
        REMOTE,
        "  gpu.cluster_mbarrier_wait %staged, 0, %parity\n",
        "",
        "nothing orders|no thread wrote|arrive",
    ),
    "no thread says that it has read": (
        two,
        REMOTE,
        "  gpu.cluster_mbarrier_arrive %drained, 0\n",
        "",
        "deadlock",
    ),
    "a buffer is written before it was read": (
        two,
        REMOTE,
        "  gpu.cluster_mbarrier_wait %drained, 0, %before\n",
        "",
        "nothing orders|arrive",
    ),
    "a block ends before it was read": (
        two,
        REMOTE,
        "done:\n  gpu.cluster_mbarrier_wait %drained, 0, %parity\n",
        "done:\n",
        "at its end|ends with|ends, and",
    ),
    "too few arrivals": (
        two,
        REMOTE,
        "%staged = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 2}",
        "%staged = gpu.mbarrier_alloc i64 addrspace(3)*",
        "arrive|nothing orders|no thread wrote|deadlock",
    ),
    "too many arrivals": (
        two,
        REMOTE,
        "%staged = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 2}",
        "%staged = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 3}",
        "deadlock",
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", LEFT_OUT)
def test_nothing_can_be_left_out(name: str) -> None:
    run, text, line, instead, message = LEFT_OUT[name]
    assert text.count(line) == 1, text.count(line)
    for seed in range(4):
        with pytest.raises(AssertionError, match=message):
            run(text.replace(line, instead), seed, by_threads)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a rank that there is not", "TIR0521"),
        ("a block ends early", "TIR0521"),
        ("no thread says that it staged", "TIR0518"),
        ("no thread waits for what is staged", "TIR05(03|05|19|21)"),
        ("too many arrivals", "TIR0518"),
    ],
)
def test_what_the_interpreter_reports(name: str, code: str) -> None:
    run, text, line, instead, _ = LEFT_OUT[name]
    with pytest.raises(InterpretError, match=code):
        for seed in range(8):
            run(text.replace(line, instead), seed, run_interpreter)


STAGED = "  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [4, 4, 32], swizzle = 3}\n"
SYNCHRONIZE = "  gpu.cluster_arrive\n  gpu.cluster_wait\n"
BEGIN = f"{STAGED}  %sent = gpu.mbarrier_alloc i64 addrspace(3)*\n{SYNCHRONIZE}"
EXPECT = "  gpu.mbarrier_expect %sent, 0 {bytes = 2048}\n"
SEND = "  gpu.cluster_scatter %x, %b, %r, %sent, 0 {blocks = 4}\n"
AWAIT = "  gpu.cluster_mbarrier_wait %sent, 0, 0\n"
SCATTERED = (
    CLUSTER.replace(STAGED.replace("4, 4, 32", "1, 16, 32"), BEGIN)
    .replace(FIRST, EXPECT + SEND + AWAIT)
    .replace("  gpu.cluster_arrive\n  %w", "  %w")
    .replace(LAST, "  store %qq, %s2\n")
)
for _rank in range(4):
    SCATTERED = SCATTERED.replace(
        f"gpu.cluster_load f32<4, 32> %b, 0, {_rank}, %row",
        f"gpu.local_load f32<4, 32> %b, {_rank}",
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("launch", [by_threads, run_interpreter])
def test_rows_that_are_sent(launch: Any) -> None:
    for seed in range(4):
        four(SCATTERED, seed, launch)
    kernel = compile_kernel(parse(SCATTERED), "sm_90a")
    assert "st.async.shared::cluster.mbarrier::complete_tx::bytes" in kernel.ptx
    assert kernel.machine_code.stack == 0
    assert (
        "barrier.cluster.arrive.relaxed" in kernel.ptx
        and "release.cluster.shared" not in kernel.ptx
    )


def test_only_barriers_are_begun_before_a_first_arrival() -> None:
    """What memory holds by then is published by an arrival that releases it."""
    kernel = compile_kernel(parse(CLUSTER), "sm_90a")
    assert "barrier.cluster.arrive" in kernel.ptx and "arrive.relaxed" not in kernel.ptx


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        (SEND, SEND.replace("%r, %sent", "0, %sent"), "writes byte|no thread wrote|on its way to"),
        (AWAIT, "", "reads byte|no thread wrote|at its end|ends with|on its way to"),
        (EXPECT, "", "deadlock"),
        (EXPECT, EXPECT.replace("2048", "2032"), "deadlock"),
        (SYNCHRONIZE, "", "no barrier|that .* begins"),
    ],
)
def test_rows_that_nothing_orders(line: str, instead: str, message: str) -> None:
    assert SCATTERED.count(line) == 1
    for seed in range(4):
        with pytest.raises(AssertionError, match=message):
            four(SCATTERED.replace(line, instead), seed, by_threads)


def test_single_halves_are_not_sent() -> None:
    """Bytes go to other blocks by four or more."""
    narrow = SCATTERED.replace("f32", "f16").replace("swizzle = 3", "swizzle = 2")
    with pytest.raises(CompileError, match="single elements of"):
        compile_kernel(parse(narrow), "sm_90a")


def test_rows_that_cannot_be_shared() -> None:
    with pytest.raises(TileirError, match="TIR0112"):
        parse(SCATTERED.replace("blocks = 4", "blocks = 5"))
    fewer = SCATTERED.replace("blocks = 4", "blocks = 2")
    with pytest.raises(InterpretError, match="the cluster has 4 blocks"):
        four(fewer, 1, run_interpreter)
    with pytest.raises(CompileError, match="stages of"):
        compile_kernel(parse(fewer), "sm_90a")


def test_ranks_that_race() -> None:
    """What two ranks write to global memory needs an order."""
    text = CLUSTER.replace("%mine = mul i32 %row, 32", "%mine = mul i32 %row, 0")
    with pytest.raises(InterpretError, match="race"):
        four(text, 1, run_interpreter)


NEIGHBOURS = """tir 1.0
stage "split_k"
define kernel void @k(i32* %x, i32* %count, i32* %y) {cluster = 4, num_warps = 1} {
entry:
  %i = program_id i32
  %r = gpu.cluster_rank i32
  %first = mul i32 %i, 4
  %mine = add i32 %first, %r
  %after = add i32 %r, 1
  %next = and i32 %after, 3
  %other = add i32 %first, %next
  %own = getelementptr i32* %x, %mine
  %its = getelementptr i32* %x, %other
  %q = getelementptr i32* %y, %mine
  %old = atomic_rmw i32 %count, 1 {op = add, sem = relaxed}
  store %own, %mine
ONE
  %v = load i32 %its
  store %q, %v
TWO
  store %own, -1
THREE
  ret
}
"""
"""Each rank reads what its neighbour wrote, which the neighbour then overwrites."""


@pytest.mark.parametrize("missing", [None, "ONE", "TWO"])
def test_a_barrier_of_a_cluster_orders_the_accesses_of_its_ranks(missing: str | None) -> None:
    """In any order of the ranks, some of which arrive at the next barrier before others have left;
    no barrier of one cluster orders another."""
    text = NEIGHBOURS
    for name in ("ONE", "TWO", "THREE"):
        text = text.replace(name, "" if name == missing else SYNCHRONIZE.rstrip("\n"))
    failures = 0
    for seed in range(6):
        x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
        try:
            interpret(parse(text), None, 2, [x, np.zeros(1, np.int32), y], seed=seed)
            assert y.tolist() == [1, 2, 3, 0, 5, 6, 7, 4]
        except InterpretError as error:
            assert error.code == "TIR0517", str(error)
            failures += 1
    assert failures == (6 if missing else 0)


@pytest.mark.parametrize("rank", ["sub i32 4, %i", "sub i32 0, %i"])
def test_a_rank_of_another_cluster_is_none(rank: str) -> None:
    """Also if there is such a cluster: that after the first one, or before the second one."""
    text = CLUSTER.replace("%b, 0, 3, %row", "%b, 0, %far, %row")
    text = text.replace("  %row = mul", f"  %far = {rank}\n  %row = mul", 1)
    x, out = np.zeros(2 * 4 * 16 * 32, np.float32), np.zeros(2 * 16 * 32, np.float32)
    with pytest.raises(InterpretError, match=r"rank (4|-1) has no such memory") as caught:
        interpret(parse(text), None, 2, [x, out])
    assert caught.value.code == "TIR0521"
