"""Kernels as roles mean what they meant: interpreted, at every edge."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.backend.warp_specialize.kernels import wrapping_matmul
from tileir.backend import compile as compile_kernel
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import run
from tileir.testing.kernels import attention, convolution, matmul

FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"
SHAPES = ((64, 64, 32), (72, 200, 40), (1, 8, 8), (130, 136, 96))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transposed", (False, True))
@pytest.mark.parametrize(
    "pipeline", (f"{FRONT},warp-specialize", f"{FRONT},persist,warp-specialize,defer-wgmma-waits")
)
@pytest.mark.parametrize("shape", SHAPES)
def test_matmuls(shape: tuple[int, int, int], pipeline: str, transposed: bool) -> None:
    m, n, k = shape
    module = run(matmul(64, 64, 32, transposed=transposed), pipeline).module
    assert module.stage == "warp_specialized"
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    actual = np.full((m, n), np.nan, np.float16)
    grid = -(-m // 64) * -(-n // 64)
    second = np.ascontiguousarray(b.T) if transposed else b
    _run_interpreter(module, "matmul", (grid, 1, 1), [a, second, actual, m, n, k])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", SHAPES)
def test_matmul_whose_indices_wrap(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    signature = {"a": "*fp16:16", "b": "*fp16:16", "c": "*fp16:16"} | dict.fromkeys("mnk", "i32")
    tiles = {"BM": 64, "BN": 64, "BK": 32, "GROUP": 8}
    written = wrapping_matmul.module(signature, tiles)
    module = run(written, f"{FRONT},persist,warp-specialize,defer-wgmma-waits").module
    assert module.stage == "warp_specialized"
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    actual = np.full((m, n), np.nan, np.float16)
    grid = -(-m // 64) * -(-n // 64)
    _run_interpreter(module, "wrapping_matmul", (grid, 1, 1), [a, b, actual, m, n, k])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", ((8, 8, 32, 64), (5, 19, 40, 72), (1, 1, 8, 8)))
def test_convolution(shape: tuple[int, int, int, int]) -> None:
    h, w, c, k = shape
    module = run(
        convolution(4, 16, 64, 32), f"{FRONT},persist,warp-specialize,defer-wgmma-waits"
    ).module
    assert module.stage == "warp_specialized"
    random = np.random.default_rng(h)
    x, taps = (random.standard_normal(s).astype(np.float16) for s in ((2, h, w, c), (3, 3, c, k)))
    actual = np.full((2, h, w, k), np.nan, np.float16)
    grid = (-(-h // 4) * -(-w // 16), -(-k // 64), 2)
    _run_interpreter(module, "convolution", grid, [x, taps, actual, h, w, c, k])
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = sum(
        wide[:, r : r + h, s : s + w] @ taps[r, s].astype(np.float64)
        for r in range(3)
        for s in range(3)
    )
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize(
    "pipeline",
    (
        f"{FRONT},warp-specialize,pipeline-chained-matmuls",
        f"{FRONT},persist,warp-specialize,defer-wgmma-waits",
    ),
)
@pytest.mark.parametrize("t", (1, 64, 150))
def test_attention(t: int, pipeline: str, causal: bool) -> None:
    module = run(attention(64, 32, 32, causal=causal), pipeline).module
    assert module.stage == "warp_specialized"
    random = np.random.default_rng(t)
    q, k, v = (random.standard_normal((2, t, 32)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, np.nan)
    _run_interpreter(module, "attention", (-(-t // 64), 2, 1), [q, k, v, out, t, 0.25])
    np.testing.assert_allclose(out, _attention(q, k, v, 0.25, causal), atol=2e-3)


@pytest.mark.parametrize(
    ("module", "name", "counted"),
    [
        (matmul(64, 64, 32), "defer-wgmma-waits", {"matmuls overlapped": 1}),
        (matmul(64, 64, 32), "pipeline-chained-matmuls", {}),
        (attention(64, 32, 32), "pipeline-chained-matmuls", {"chains pipelined": 1}),
    ],
    ids=("overlap", "no chain", "pipeline-chained-matmuls"),
)
def test_what_passes_count(module: Module, name: str, counted: dict[str, int]) -> None:
    transformed = run(module, f"{FRONT},warp-specialize").module
    counts = Counter[str]()
    for record in run(transformed, name).records:  # of every function
        counts.update(
            {k: n for k, n in record.statistics.items() if k.startswith(("matmuls", "chains"))}
        )
    assert counts == counted


def _run_interpreter(
    module: Any, kernel: str, grid: tuple[int, int, int], arguments: list[Any]
) -> None:
    """Run it on its grid, or on two blocks where they work for all instances."""
    extents = [] if len(module.functions[kernel].parameters) == len(arguments) else list(grid)
    interpret(module, kernel, (2,) if extents else grid, [*arguments, *extents])


def _attention(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    scores = np.einsum("htd,hsd->hts", q.astype(float), k.astype(float)) * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hts,hsd->htd", weights, v.astype(float))


def test_no_barrier_stands_between_the_roles_of_a_kernel():
    """Its warps would wait for those of a role that waits for them."""
    kernel = compile_kernel(matmul(64, 64, 32), "sm_90a").stages["barriers"].kernel(None)
    names = [op.mnemonic for op in kernel.ops]
    first, last = names.index("gpu.role"), len(names) - names[::-1].index("gpu.role")
    assert set(names[first:last]) == {"gpu.role"}
