"""Kernels compiled as long ones are, with entrances and rotated loops, on the GPU, against the
interpreter."""

import numpy as np
import pytest

import tileir
from tests.backend.test_scaling import accesses, arithmetic, branches, loops, module, reductions
from tileir.backend import compile as compile_kernel, executors, pipeline
from tileir.backend.executors import GpuExecutor
from tileir.backend.nvptx import llvm_codegen, ptxas_entry_points
from tileir.testing.checking import case, check

pytestmark = pytest.mark.gpu


@pytest.fixture
def recompiled_kernels(monkeypatch):
    """Every kernel is compiled once more, as one that is long; what was compiled."""
    kernels = []

    class Uncached:
        @staticmethod
        def compile(*arguments, **named):
            kernels.append(compile_kernel(*arguments, **named))
            return kernels[-1]

    monkeypatch.setattr(llvm_codegen, "_LONG", 0)
    monkeypatch.setattr(ptxas_entry_points, "_MANY", 0)
    monkeypatch.setattr(ptxas_entry_points, "_LEAST_DISTANCE", 2)
    monkeypatch.setattr(pipeline, "_MANY_LOOPS", 1)
    monkeypatch.setattr(executors.Cache, "usual", staticmethod(lambda: Uncached))
    return kernels


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(
    ("shape", "count", "n"),
    [
        (accesses, 40, 999),
        (arithmetic, 40, 0),
        (branches, 40, 25),
        (loops, 30, 2),
        (reductions, 8, 0),
    ],
)
def test_programs_of_one_shape(recompiled_kernels, shape, count, n, warps):
    program, x = module(shape, count), np.linspace(-1, 1, 128 * 41).astype(np.float32)
    expected, outputs = np.zeros(128, np.float32), np.zeros(128, np.float32)
    tileir.interpret(program, None, 1, [x.copy(), expected, n])
    GpuExecutor().launch(program, None, 1, [x, outputs, n], num_warps=warps)
    assert shape is not accesses or "$entrance_" in recompiled_kernels[0].ptx
    np.testing.assert_allclose(outputs, expected, rtol=1e-5)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("name", ["gpu-1", "gpu-4"])
def test_generated_programs(recompiled_kernels, name, seed):
    verdict = check(case(name, seed))
    assert verdict.failure is None
    assert recompiled_kernels


@pytest.mark.parametrize("n", [0, 1, 128 * 2900 - 77])
def test_long_programs(n):
    """As long as they must be to have entrances."""
    program, x = module(accesses, 4200), np.linspace(-1, 1, 128 * 4201).astype(np.float32)
    expected, outputs = np.zeros(128, np.float32), np.zeros(128, np.float32)
    tileir.interpret(program, None, 1, [x.copy(), expected, n])
    compiled = GpuExecutor().launch(program, None, 1, [x, outputs, n], num_warps=4)
    assert "$entrance_" in compiled.ptx
    np.testing.assert_allclose(outputs, expected, rtol=1e-4)
