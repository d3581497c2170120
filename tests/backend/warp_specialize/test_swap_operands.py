"""Matmuls of few rows are computed transposed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backend.warp_specialize.test_unmapped import check, problem
from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F8E4M3, F16, F32, I8, I32
from tileir.interp import interpret
from tileir.passmanager import run
from tileir.testing.kernels import matmul
from tileir.textual import print_module


@pytest.mark.parametrize("transposed", (False, True))
@pytest.mark.parametrize("rows", (8, 24, 40, 56))
def test_interpreted(rows: int, transposed: bool) -> None:
    module = run(matmul(rows, 64, 32, transposed=transposed), "swap-operands").module
    assert f"dot f32<64, {rows}>" in print_module(module)
    arguments = problem(rows + 3, 130, 72, transposed)
    interpret(module, "matmul", (6, 1, 1), arguments)
    check(arguments, transposed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transposed", (False, True))
@pytest.mark.parametrize("size", ((35, 136, 72), (35, 133, 72), (21, 131, 75)))
@pytest.mark.parametrize("rows", (16, 40))
def test_on_threads(rows: int, size: tuple[int, int, int], transposed: bool) -> None:
    arguments = problem(*size, transposed)
    grid = (-(-size[0] // rows) * -(-size[1] // 64), 1, 1)
    module = matmul(rows, 64, 32, transposed=transposed)
    SimtExecutor().launch(module, "matmul", grid, arguments, target="sm_90a", seed=rows)
    check(arguments, transposed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "kinds",
    (
        (BF16, F32, BF16), (F16, F16, F16), (F32, F32, F32), (I8, I32, I32), (F8E4M3, F32, BF16),
    ),
    ids=str,
)  # fmt: skip
def test_other_elements(kinds: tuple[Any, Any, Any]) -> None:
    precision, imprecise = "tf32" if kinds[0] is F32 else "ieee", 64 * (kinds[0] is F8E4M3)
    module = matmul(
        16, 64, 64, *kinds, precision=precision, transposed=True, max_imprecise=imprecise
    )
    compiled = compile_(module, "sm_90a")
    assert "wgmma.mma_async.sync.aligned.m64n16" in compiled.ptx
    assert (compiled.machine_code.spills, compiled.machine_code.warnings) == (0, ())
    arguments = problem(20, 70, 96, True, (kinds[0], kinds[2]))
    SimtExecutor().launch(module, "matmul", (4, 1, 1), arguments, target="sm_90a", seed=1)
    check(arguments, True)
