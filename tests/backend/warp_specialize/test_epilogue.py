"""Results of any columns pass through shared memory: whole panels, and what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.warp_specialize.test_unmapped import check, problem, small_numbers
from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F16, F32, I8, I32
from tileir.testing.kernels import matmul
from tileir.textual import parse

IN_A_BATCH = """tir 1.0
define kernel void @matmul(f16* aligned(16) %x, f16* aligned(16) %y, f16* aligned(16) %z, i32 multiple_of(8) %k, i32 multiple_of(8) %n) {
entry:
  %area = mul i32 %n, 70
  %d = make_descriptor tensor_desc<f16<64, 32>> %x, [i32 70, %k], [%k, i32 1]
  %e = make_descriptor tensor_desc<f16<32, 64>> %y, [%k, %n], [%n, i32 1]
  %f = make_descriptor tensor_desc<f16<1, 64, 64>> %z, [i32 1, %area], [i32 70, %n], [%n, i32 1]
  %p = program_id i32
  %row = mul i32 %p, 64
  br loop
loop:
  %at = phi i32 [0, entry], [%next, body]
  %sum = phi f32<64, 64> [0.0, entry], [%more, body]
  %test, _ = icmp (i1, i1) %at, %k {predicate = slt}
  cond_br %test, body, done
body:
  %v = descriptor_load f16<64, 32> %d, %row, %at
  %w = descriptor_load f16<32, 64> %e, %at, 0
  %more = dot f32<64, 64> %v, %w, %sum
  %next = add i32 %at, 32
  br loop
done:
  %twice = fadd f32<64, 64> %sum, %sum
  %shaped = reshape f32<1, 64, 64> %twice
  %rounded = fptrunc f16<1, 64, 64> %shaped
  descriptor_store %f, %rounded, 0, %row, 0
  ret
}
"""  # noqa: E501 - a function's header is one line

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


@pytest.mark.parametrize(
    ("old", "new", "conversions"),
    [
        ("", "", 0),
        # an op of two tiles is not computed on rows
        ("%shaped\n  des", "%shaped\n  %rounded = fadd f16<1, 64, 64> %half, %half\n  des", 1),
    ],
    ids=("a conversion of elements", "an addition"),
)
def test_rows_of_a_block_keep_the_layout_of_the_accumulator(
    old: str, new: str, conversions: int
) -> None:
    text = IN_A_BATCH.replace("%rounded =", "%half =").replace(old, new) if old else IN_A_BATCH
    module = parse(text)
    consumer = compile_(module, "sm_90a").stages["layouts"].functions["matmul.consumer"]
    assert sum(op.mnemonic == "gpu.convert_layout" for op in consumer.ops) == conversions
    x, y = small_numbers((70, 72), np.float16, 1), small_numbers((72, 40), np.float16, 2)
    z = np.full((70, 40), np.nan, np.float16)
    arguments = [x.reshape(-1), y.reshape(-1), z.reshape(-1), 72, 40]
    SimtExecutor().launch(module, "matmul", (2, 1, 1), arguments, target="sm_90a", seed=1)
    assert np.array_equal(z, (4 if old else 2) * (x.astype(np.float64) @ y.astype(np.float64)))


def test_a_vector_that_is_reshaped_to_a_block_has_no_rows() -> None:
    text = IN_A_BATCH.replace(
        "%shaped = reshape f32<1, 64, 64> %twice",
        "%range = make_range i32<4096>\n  %line = sitofp f32<4096> %range\n"
        "  %shaped = reshape f32<1, 64, 64> %line",
    )
    z = np.full((70, 40), np.nan, np.float16)
    arguments = [np.ones(70 * 72, np.float16), np.ones(72 * 40, np.float16), z.reshape(-1), 72, 40]
    SimtExecutor().launch(parse(text), "matmul", (2, 1, 1), arguments, target="sm_90a", seed=1)
    expected = np.arange(4096, dtype=np.float16).reshape(64, 64)[:, :40]
    assert np.array_equal(z, np.concatenate((expected, expected[:6])))
