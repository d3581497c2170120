"""Registers of pipelined matmuls: limits that are chosen, and positions computed again."""

import re

import attrs
import numpy as np
import pytest

import tileir
from tests.backend.test_async_pipeline import arrays, matmul, run
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.software_pipeline.occupancy import register_limit
from tileir.backend.target import target
from tileir.builder import BF16, F16, F32
from tileir.errors import CompileError

BLOCK = (128, 128, 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", [F16, BF16])
def test_128_by_128_on_4_warps_leaves_registers_for_a_third_block(element, name):
    kernel = compile_kernel(
        matmul(element, F32, BLOCK, multiple=16), name, Options(num_warps=4, num_stages=3)
    )
    assert kernel.metadata.registers <= 167
    assert kernel.metadata.spills == 0
    ahead = Options(num_warps=4, num_stages=3, prefetch_operands=True)
    assert (
        compile_kernel(matmul(element, F32, BLOCK, multiple=16), name, ahead).metadata.registers
        > 168
    )


@pytest.mark.parametrize(
    ("columns", "warps", "limit"),
    [
        # 128 for the sum, 32 for one step of A and B, 8: three blocks; 216 with two steps: two
        (128, 4, 167),
        # 64 for the sum, 24 for A and B, 8: two blocks; 136 with two steps: one
        (128, 8, 127),
        (64, 8, 63),
    ],
)
def test_the_limit_is_what_a_further_block_leaves(columns, warps, limit):
    module = matmul(F16, F32, (128, columns, 32), stages=2)
    stages = run_pipeline(module, target("sm_90"), Options(num_warps=4), None).stages
    assert register_limit(stages["pipelined"].functions["matmul"], warps, target("sm_90")) == limit


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns, warps, stages", [(256, 8, 3), (128, 4, 7)])
def test_no_limit_where_no_more_blocks_fit(columns, warps, stages):
    module = matmul(F16, F32, (128, columns, 32), multiple=16)
    assert ".maxnreg" not in compile_kernel(module, "sm_90", Options(warps, num_stages=stages)).ptx


def test_two_blocks_have_shared_memory_for_their_stages():
    """Two stages of 48 KiB, not three; as many as are asked for."""
    module, machine = matmul(F16, F32, (128, 256, 64), multiple=16), target("sm_90")
    few, many = (
        run_pipeline(module, machine, Options(num_warps=8, num_stages=stages), None).memory.size
        for stages in (None, 3)
    )
    assert few == 2 * 49152 and many == 3 * 49152


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [1, 4, 8, 16])
def test_small_matmuls_have_no_limit(warps):
    """Other values take the registers there, and the assembler refuses fewer than it needs."""
    for name in ("sm_80", "sm_90"):
        kernel = compile_kernel(matmul(F16, F32, (16, 16, 16), multiple=16), name,
                               Options(num_warps=warps))  # fmt: skip
        assert ".maxnreg" not in kernel.ptx and kernel.metadata.spills == 0


def test_a_limit_that_a_target_cannot_keep_is_refused():
    for registers in (24, 256):
        with pytest.raises(CompileError, match="registers must be in 32 to 255") as caught:
            compile_kernel(matmul(F16, F32, BLOCK), "sm_90", Options(max_registers=registers))
        assert caught.value.code == "TIR0708"


@pytest.mark.slow
def test_a_limit_that_spills_goes():
    kernel = compile_kernel(
        matmul(F16, F32, BLOCK, multiple=16), "sm_90", Options(num_warps=4, num_stages=3)
    )
    tighter = kernel.ptx.replace(".maxnreg 167", ".maxnreg 128")
    assert tighter != kernel.ptx
    changed = attrs.evolve(kernel, ptx=tighter, limited=True)
    assert changed.metadata.registers > 128
    assert changed.metadata.spills == 0


@pytest.mark.slow
def test_the_index_of_a_thread_is_read_in_the_loop_and_after_it():
    kernel = compile_kernel(
        matmul(F16, F32, BLOCK, multiple=16), "sm_90", Options(num_warps=4, num_stages=3)
    )
    assert len(re.findall(r"mov.u32 t, %tid.x", kernel.llvm)) == 2
    free = compile_kernel(
        matmul(F16, F32, BLOCK, multiple=16), "sm_90", Options(num_warps=4, prefetch_operands=True)
    )
    assert "mov.u32 t, %tid.x" not in free.llvm


@pytest.mark.sampled(1)
@pytest.mark.parametrize("k", [32, 80, 16])
def test_positions_that_are_recomputed_mean_the_same(k):
    module = matmul(F16, F32, BLOCK, multiple=16)
    inputs = arrays(F16, F32, 144, 96, k, False)
    expected = run(tileir.interpret, module, (2, 1), inputs)
    result = run(SimtExecutor().launch, module, (2, 1), inputs, num_warps=4, num_stages=3)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
