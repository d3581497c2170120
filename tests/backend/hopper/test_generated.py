"""What the passes make roles of: the SIMT simulator agrees with the interpreter in any order, and
the assembler has nothing to say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.interp import interpret
from tileir.passmanager import run
from tileir.testing.kernels import attention, convolution, matmul

FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"
PLAIN, PERSISTENT, DELAYED = (
    f"{FRONT},warp-specialize",
    f"{FRONT},persist,warp-specialize,defer-wgmma-waits",
    f"{FRONT},warp-specialize,pipeline-chained-matmuls",
)


def check(
    module: Any, kernel: str, grid: tuple[int, int, int], arguments: list[Any], place: int
) -> None:
    """Run it as the interpreter does; `place` is the number of the argument written."""
    assert module.stage == "warp_specialized"
    more = len(module.functions[kernel].parameters) - len(arguments)
    blocks = (2, 1, 1) if more else grid
    inputs = [*arguments, *grid[:more]]
    expected, actual = (np.full_like(arguments[place], np.nan) for _ in range(2))
    interpret(module, kernel, blocks, [*inputs[:place], expected, *inputs[place + 1 :]])
    for seed in range(2):
        actual[:] = np.nan
        whole = [*inputs[:place], actual, *inputs[place + 1 :]]
        SimtExecutor().launch(module, kernel, blocks, whole, target="sm_90a", seed=seed)
        np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3)
    machine_code = compile_kernel(module, "sm_90a").machine_code
    assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("pipeline", [PLAIN, PERSISTENT])
def test_matmuls(pipeline: str, transposed: bool) -> None:
    m, n, k = 72, 200, 40
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    second = np.ascontiguousarray(b.T) if transposed else b
    module = run(matmul(64, 64, 32, transposed=transposed), pipeline).module
    result = np.zeros((m, n), np.float16)
    check(module, "matmul", (-(-m // 64) * -(-n // 64), 1, 1), [a, second, result, m, n, k], 2)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pipeline", [DELAYED, PERSISTENT])
def test_attention(pipeline: str, causal: bool) -> None:
    t = 100
    random = np.random.default_rng(t)
    q, k, v = (random.standard_normal((2, t, 32)).astype(np.float16) for _ in range(3))
    module = run(attention(64, 32, 32, causal=causal), pipeline).module
    check(module, "attention", (-(-t // 64), 2, 1), [q, k, v, np.zeros_like(q), t, 0.25], 3)


@pytest.mark.slow
def test_convolution() -> None:
    h, w, c, k = 5, 19, 40, 72
    random = np.random.default_rng(h)
    x, taps = (random.standard_normal(s).astype(np.float16) for s in ((1, h, w, c), (3, 3, c, k)))
    module = run(convolution(4, 16, 64, 32), PERSISTENT).module
    result = np.zeros((1, h, w, k), np.float16)
    grid = (-(-h // 4) * -(-w // 16), -(-k // 64), 1)
    check(module, "convolution", grid, [x, taps, result, h, w, c, k], 2)


def test_one_thread_loads() -> None:
    """After `elect.sync` the assembler knows that a thread is alone, and copies need no loop over
    the threads that might differ in their operands."""
    kernel = compile_kernel(run(matmul(128, 128, 64), PERSISTENT).module, "sm_90a")
    loads = [line for line in kernel.ptx.splitlines() if "cp.async.bulk.tensor.2d.shared" in line]
    assert len(loads) == 3 and not any("@" in line for line in loads)
    assert kernel.ptx.count("elect.sync") == 1
