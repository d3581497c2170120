"""Which roles ask for other registers than they are launched with."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.backend import compile as compile_
from tileir.backend.ptxas import ptxas
from tileir.ir import Module
from tileir.testing.kernels import matmul
from tileir.testing.workloads.convolution import Filter, implicit_gemm
from tileir.testing.workloads.matmuls import TileShape, mxfp8_weights, with_activation

WIDE = TileShape(128, 128, 64)
THREE = Filter(3, 3, 1, (1, 1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("module", "asks"),
    [
        (matmul(128, 128, 64), False),
        (with_activation(WIDE, "gelu"), False),
        (mxfp8_weights(WIDE), False),
        (matmul(128, 256, 64), True),
        (matmul(192, 128, 64), True),
        (implicit_gemm(128, 64, 64, THREE), True),
    ],
    ids=["plain", "activated", "scaled", "large", "three", "gathered"],
)
@pytest.mark.skipif(ptxas() is None, reason="only ptxas knows setmaxnreg")
def test_small_accumulators_need_no_other_registers(module: Module, asks: bool) -> None:
    compiled = compile_(module, "sm_90a")
    assert ("setmaxnreg" in compiled.ptx) == asks
    assert ".minnctapersm 1" in compiled.ptx
    machine_code = compiled.machine_code
    assert (machine_code.spills, machine_code.warnings) == (0, ())
    assert machine_code.registers <= 168


@pytest.mark.parametrize(
    ("options", "warps"),
    [
        ({"persistent": False}, 5),
        ({}, 8),  # such a block is alone
        ({"persistent": False, "split_k": 2}, 8),
        ({"persistent": False, "non_tma_alignments": (2, 2, 2)}, 8),  # four warps load
    ],
    ids=["shares", "alone", "split", "loads"],
)
def test_blocks_that_share_a_processor_have_one_warp_that_copies(
    options: dict[str, Any], warps: int
) -> None:
    kernel = compile_(matmul(64, 64, 64), "sm_90a", {"warp_specialize": True, **options})
    assert kernel.plan.num_warps == warps
    assert (kernel.machine_code.spills, kernel.machine_code.warnings) == (0, ())
