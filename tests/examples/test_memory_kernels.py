"""The kernels of `benchmarks/memory.py` compute what they say, by interpreter and threads."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import tileir
from tileir.backend.executors import SimtExecutor

PATH = Path(__file__).parents[2] / "benchmarks" / "memory_kernels.py"
ROWS, COLUMNS = 6, 200


@pytest.fixture(scope="module")
def kernels():
    spec = importlib.util.spec_from_file_location("memory_kernels", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def softmax(x):
    top = np.exp(x - x.max(1, keepdims=True))
    return top / top.sum(1, keepdims=True)


def rms_normalize(x, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def subtract_mean(x):
    return x - x.mean(-1, keepdims=True)


def check(module, grid, output, inputs, expected, **options):
    for launch in (tileir.interpret, SimtExecutor().launch):
        y = np.full(output, np.nan, np.float32)
        more = {} if launch is tileir.interpret else options
        launch(module, None, grid, [y, *(x.copy() for x in inputs)], **more)
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6)


def matrix(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape or (ROWS, COLUMNS)).astype(np.float32)


@pytest.mark.parametrize("width", [256, 400])
@pytest.mark.parametrize("name", ["geglu", "swiglu"])
def test_gated(kernels, name, width):
    a, c = matrix(1), matrix(2)
    bend = gelu if name == "geglu" else lambda x: x * sigmoid(x)
    module = getattr(kernels, name)(a.size, width)
    check(module, -(-a.size // width), a.shape, [a, c], bend(a) * c, num_warps=4)


@pytest.mark.parametrize("width", [128, 100])
def test_dyt(kernels, width):
    x, w, v = matrix(1), matrix(2, COLUMNS), matrix(3, COLUMNS)
    module, grid = kernels.dyt(ROWS, COLUMNS, 2, width), (-(-COLUMNS // width), ROWS // 2)
    for launch in (tileir.interpret, SimtExecutor().launch):
        y = np.full_like(x, np.nan)
        launch(module, None, grid, [y, x, w, v, 0.5])
        np.testing.assert_allclose(y, np.tanh(0.5 * x) * w + v, rtol=2e-5, atol=2e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("block", "warps"), [(1, 4), (1, 1), (4, 4)])
def test_rows(kernels, block, warps):
    x, w, v = matrix(1), matrix(2, COLUMNS), matrix(3, COLUMNS)
    grid, options = -(-ROWS // block), {"num_warps": warps}
    module = kernels.softmax(ROWS, COLUMNS, block)
    check(module, grid, x.shape, [x], softmax(x), **options)
    module = kernels.rms_norm(ROWS, COLUMNS, block)
    check(module, grid, x.shape, [x, w], rms_normalize(x, 1e-6) * w, **options)
    module = kernels.layer_norm(ROWS, COLUMNS, block)
    check(
        module, grid, x.shape, [x, w, v], rms_normalize(subtract_mean(x), 1e-5) * w + v, **options
    )


@pytest.mark.parametrize("block", [1, 4])
def test_losses(kernels, block):
    p, q = softmax(matrix(1)), softmax(matrix(2))
    module = kernels.tvd(ROWS, COLUMNS, block)
    check(module, -(-ROWS // block), ROWS, [p, q], abs(p - q).sum(1) / 2, num_warps=2)


@pytest.mark.parametrize("block", [1, 4])
def test_divergence(kernels, block):
    p, q = softmax(matrix(1)), softmax(matrix(2))
    module = kernels.kl_div(ROWS, COLUMNS, block)
    expected = (q * (np.log(q) - np.log(p))).sum(1)
    y = np.full(ROWS, np.nan, np.float32)
    tileir.interpret(module, None, -(-ROWS // block), [y, np.log(p), q])
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6)


def test_group_norm(kernels):
    x, w, v = matrix(1, 2, 8, 36), matrix(2, 8), matrix(3, 8)
    groups = subtract_mean(x.reshape(2, 4, 72))
    expected = rms_normalize(groups, 1e-5).reshape(x.shape) * w[:, None] + v[:, None]
    check(kernels.group_norm(8, 4, 36), 8, x.shape, [x, w, v], expected, num_warps=2)
