"""Instances taken alternately: right in any order, refused where two warpgroups cannot."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.options import Options
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.target import target
from tileir.backend.tuning.pass_parameters import compiler_space
from tileir.backend.warp_specialize.driver import warp_specialize
from tileir.backend.warp_specialize.options import WarpSpecializeOptions
from tileir.builder import F16, F32
from tileir.ir import Module
from tileir.ops.gpu import SharedAlloc
from tileir.ops.roles import Role
from tileir.passmanager import run
from tileir.testing.kernels import attention, matmul

FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"
PERSISTENT = f"{FRONT},persist,warp-specialize{{num-stages=2,warps=4}}"


def starts(module: Module) -> list[tuple[str, int, int]]:
    """Callees, first warps and warps of the roles that the kernel starts."""
    kernel = module.kernel(None)
    return [(op.callee, op.first, op.warps) for op in kernel.ops if isinstance(op, Role)]


@pytest.mark.slow
@pytest.mark.parametrize("blocks", (1, 2, 3))
@pytest.mark.parametrize("result", (F16, F32), ids=str)
def test_a_matmul_in_any_order(blocks: int, result: object) -> None:
    module = matmul(64, 32, 32, F16, result=result)
    m, n, k = 136, 104, 72
    random = np.random.default_rng(blocks)
    a, b = (random.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float16 if result is F16 else np.float32)
    for seed in range(3):
        SimtExecutor().launch(
            module, None, (12,), [a, b, c, m, n, k], target="sm_90a", seed=seed, blocks=blocks,
            pingpong=True,
        )  # fmt: skip
        assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("k", (0, 8))
def test_instances_of_few_steps(k: int) -> None:
    """Where an instance reads no stage or one, the next begins all the same."""
    a, b = np.ones((200, k), np.float16), np.ones((k, 40), np.float16)
    c = np.full((200, 40), np.nan, np.float16)
    SimtExecutor().launch(
        matmul(64, 32, 32, F16, result=F16), None, (8,), [a, b, c, 200, 40, k], target="sm_90a",
        blocks=1, pingpong=True,
    )  # fmt: skip
    assert np.array_equal(c, np.full((200, 40), k))


@pytest.mark.slow
def test_attention_in_any_order() -> None:
    t, heads = 150, 2
    random = np.random.default_rng(t)
    q, k, v = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(3))
    outputs = [np.full_like(q, np.nan) for _ in range(3)]
    for seed, o in enumerate(outputs):
        SimtExecutor().launch(
            attention(64, 32, 32, causal=True), None, (3, heads), [q, k, v, o, t, 0.25],
            target="sm_90a", seed=seed, blocks=1, pingpong=seed > 0, num_warps=4,
        )  # fmt: skip
    assert np.array_equal(outputs[0], outputs[1]) and np.array_equal(outputs[1], outputs[2])
    assert not np.isnan(outputs[0]).any()


def test_roles_that_are_started() -> None:
    transformed = run(matmul(64, 32, 32), f"{PERSISTENT},pingpong").module
    assert starts(transformed) == [
        ("matmul.producer", 4, 4), ("matmul.consumer.0", 0, 4), ("matmul.consumer.1", 8, 4)
    ]  # fmt: skip
    assert transformed.kernel(None).attributes["num_warps"] == 12
    assert "matmul.consumer" not in transformed.functions


@pytest.mark.parametrize("non_tma_alignments", [(), (2, 2, 0, 0, 0, 0)])
def test_registers_are_shared_out(non_tma_alignments: tuple[int, ...]) -> None:
    """In eights (PTX ISA, setmaxnreg), no more than a multiprocessor has; where threads load what
    tensor maps cannot, they have more of them."""
    options = Options(pingpong=True, non_tma_alignments=non_tma_alignments)
    done = run_pipeline(matmul(64, 32, 32), target("sm_90a"), options, None)
    roles = [op for op in done.stages["barriers"].kernel(None).ops if isinstance(op, Role)]
    counts = [role.registers for role in roles]
    assert len(counts) == 3 and all(n and n % 8 == 0 and 24 <= n <= 256 for n in counts)
    assert sum(32 * role.warps * (role.registers or 0) for role in roles) <= 65536
    assert (min(counts) > 64) == bool(non_tma_alignments)


@pytest.mark.parametrize(
    ("pipeline", "why"),
    (
        (f"{FRONT},warp-specialize", None),
        (f"{FRONT},persist", None),
        (
            f"{FRONT},persist,warp-specialize{{warps=8}}",
            "several warpgroups divide the rows of a matmul",
        ),
    ),
)
def test_where_there_is_no_pingpong(pipeline: str, why: str | None) -> None:
    before = run(matmul(128, 32, 32), pipeline).module
    after = run(before, "pingpong")
    assert after.module is before
    assert [d.message for d in after.remarks] == ([f"no ping-pong: {why}"] if why else [])


@pytest.mark.parametrize("tile", [(64, 256, 64), (64, 128, 64), (128, 128, 64)], ids=str)
def test_stages_leave_shared_memory_for_both_results(tile: tuple[int, int, int]) -> None:
    """As many as fit with the buffers of two results."""
    shared_bytes = 227 << 10
    expected = WarpSpecializeOptions(0, 4, shared_bytes, persistent=True, pingpong=True)
    kernel = warp_specialize(matmul(*tile, result=F16), "matmul", expected).module.functions[
        "matmul"
    ]
    buffers = [op for op in kernel.ops if isinstance(op, SharedAlloc)]
    size = sum(op.shape[0] * SharedTile.of(op).bytes for op in buffers)
    stage_bytes = 2 * tile[2] * (tile[0] + tile[1])
    assert size <= shared_bytes < size + stage_bytes + 1024


def test_code_has_no_spills_and_registers_for_both_accumulators() -> None:
    kernel = compile_kernel(matmul(128, 128, 64, result=F16), "sm_90a", {"pingpong": True})
    assert (kernel.machine_code.spills, kernel.machine_code.warnings) == (0, ())
    assert kernel.metadata.num_warps == 12
    assert kernel.metadata.shared <= 227 * 1024


@pytest.mark.slow
def test_the_tuner_tries_it() -> None:
    assert "pingpong" in [p.name for p in compiler_space(matmul(64, 64, 64)).parameters]
