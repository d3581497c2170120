"""Kernels cut into functions on the GPU, against the interpreter."""

import numpy as np
import pytest

import tileir
from tests.backend.test_scaling import accesses, arithmetic, branches, loops, module, reductions
from tileir.backend import compile as compile_kernel, executor
from tileir.backend.executor import GpuExecutor
from tileir.backend.llvm import cutting, optimise
from tileir.testing.checking import case, check

pytestmark = pytest.mark.gpu


@pytest.fixture
def cut(monkeypatch):
    """Every kernel is compiled anew, in parts of few lines; what was compiled."""
    found = []

    class Anew:
        @staticmethod
        def compile(*arguments):
            found.append(compile_kernel(*arguments))
            return found[-1]

    monkeypatch.setattr(optimise, "_LONG", 0)
    monkeypatch.setattr(cutting, "_LEAST", 8)
    monkeypatch.setattr(cutting, "_MOST", 80)
    monkeypatch.setattr(executor.Cache, "usual", staticmethod(lambda: Anew))
    return found


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
def test_programs_of_one_shape(cut, shape, count, n, warps):
    made, x = module(shape, count), np.linspace(-1, 1, 128 * 41).astype(np.float32)
    wanted, found = np.zeros(128, np.float32), np.zeros(128, np.float32)
    tileir.interpret(made, None, 1, [x.copy(), wanted, n])
    GpuExecutor().launch(made, None, 1, [x, found, n], num_warps=warps)
    assert ".func" in cut[0].ptx
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("name", ["gpu-1", "gpu-4"])
def test_generated_programs(cut, name, seed):
    verdict = check(case(name, seed))
    assert verdict.failure is None
    assert cut


@pytest.mark.parametrize(("shape", "n"), [(accesses, 128 * 2900), (branches, 25)])
def test_long_programs(shape, n):
    """As long as they must be to be cut."""
    made, x = module(shape, 3000), np.linspace(-1, 1, 128 * 3001).astype(np.float32)
    wanted, found = np.zeros(128, np.float32), np.zeros(128, np.float32)
    tileir.interpret(made, None, 1, [x.copy(), wanted, n])
    compiled = GpuExecutor().launch(made, None, 1, [x, found, n], num_warps=4)
    assert ".func" in compiled.ptx
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
