"""Results of any columns pass through shared memory: whole panels, and what is left."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backend.warp_specialize.test_unmapped import check, problem
from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F16, F32, I8, I32
from tileir.testing.kernels import matmul

TILES = ((64, 72), (64, 200), (64, 8), (64, 40), (64, 56), (128, 176), (128, 24))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", (8, 4, 3))
@pytest.mark.parametrize("tile", TILES)
def test_any_columns(tile: tuple[int, int], more: int) -> None:
    size = (66, tile[1] // 8 * 8 + more, 72)
    arguments = problem(*size, True)
    grid = (-(-size[0] // tile[0]) * -(-size[1] // tile[1]), 1, 1)
    module = matmul(*tile, 64, transposed=True)
    SimtExecutor().launch(module, "matmul", grid, arguments, target="sm_90a", seed=tile[1])
    check(arguments, True)


@pytest.mark.slow
@pytest.mark.parametrize("columns", (8, 24, 40, 72, 96, 176, 200))
def test_rows_of_operands_are_no_panels(columns: int) -> None:
    for more in (8, 5):
        arguments = problem(66, columns + more, 72, False)
        module = matmul(64, columns, 32)
        SimtExecutor().launch(module, "matmul", (4, 1, 1), arguments, target="sm_90a", seed=columns)
        check(arguments, False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tile", ((64, 40), (64, 96), (64, 72)))
@pytest.mark.parametrize(
    "kinds", ((F16, F32, F32), (BF16, F32, BF16), (F32, F32, F32), (I8, I32, I32)), ids=str
)
def test_any_element(kinds: tuple[Any, Any, Any], tile: tuple[int, int]) -> None:
    if kinds[0] is I8 and tile[1] % 16:
        tile = (64, 48)
    precision = "tf32" if kinds[0] is F32 else "ieee"
    module = matmul(*tile, 64, *kinds, precision=precision, transposed=True)
    arguments = problem(70, 100, 80, True, (kinds[0], kinds[2]))
    grid = (2 * -(-100 // tile[1]), 1, 1)
    SimtExecutor().launch(module, "matmul", grid, arguments, target="sm_90a", seed=3)
    check(arguments, True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_stages_in_any_order(seed: int) -> None:
    arguments = problem(130, 410, 32, True)
    module = matmul(64, 200, 16, transposed=True)
    SimtExecutor().launch(
        module, "matmul", (9, 1, 1), arguments, target="sm_90a", seed=seed, blocks=1 + seed % 2
    )
    check(arguments, True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "tile", ((128, 200, 64), (128, 192, 64), (128, 176, 64), (64, 200, 64), (192, 160, 64))
)
@pytest.mark.parametrize("transposed", (False, True))
def test_the_assembler_has_nothing_to_say(tile: tuple[int, int, int], transposed: bool) -> None:
    compiled = compile_(matmul(*tile, transposed=transposed), "sm_90a")
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in compiled.ptx
    assert "st.global" not in compiled.ptx
    machine_code = compiled.machine_code
    assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())


def test_tf32_results_are_copied() -> None:
    module = matmul(128, 128, 32, F32, F32, F32, precision="tf32", transposed=True)
    compiled = compile_(module, "sm_90a")
    assert "st.global" not in compiled.ptx
    assert compiled.machine_code.spills == 0
