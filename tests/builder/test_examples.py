"""The example kernels written with the builder, against numpy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileir import Module, interpret

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> Any:
    """The module examples/NAME.py."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attention(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    """softmax(q kᵀ scale) v in f64."""
    scores = np.einsum("hid,hjd->hij", q.astype(float), k.astype(float)) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,hjd->hid", weights / weights.sum(-1, keepdims=True), v.astype(float))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", [1, 16, 37])
def test_flash_attention(positions: int, causal: bool) -> None:
    rows, columns, width, heads = 16, 8, 24, 2
    module: Module = example("flash_attention").flash_attention(rows, columns, width, causal=causal)
    random = np.random.default_rng(positions)
    shape = (heads, positions, width)
    q, k, v = (random.standard_normal(shape).astype(np.float16) for _ in range(3))
    out = np.full(shape, np.nan, np.float16)
    arguments = {"q": q, "k": k, "v": v, "out": out, "positions": positions, "scale": 0.2}
    interpret(module, "attention", (-(-positions // rows), heads), arguments)
    expected = attention(q, k, v, 0.2, causal)
    assert np.abs(out - expected).max() < 2e-3 * max(1, np.abs(expected).max())


def test_flash_attention_is_short() -> None:
    lines = (EXAMPLES / "flash_attention.py").read_text().splitlines()
    assert len(lines) < 60


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (16, 24, 8), (35, 50, 21)])
def test_matmul(m: int, n: int, k: int) -> None:
    rows, columns = 16, 24
    module: Module = example("matmul_builder").matmul(rows, columns, 8, group=2)
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    grid = (-(-m // rows) * -(-n // columns),)
    interpret(module, "matmul", grid, {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k})
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [1, 48, 50])
def test_softmax(n: int) -> None:
    module: Module = example("softmax_builder").softmax(50)
    x = np.random.default_rng(n).standard_normal((3, n + 2)).astype(np.float32)
    y = np.full_like(x, 7)
    interpret(module, "softmax", (3,), {"x": x, "y": y, "stride": n + 2, "n": n})
    weights = np.exp(x[:, :n].astype(float))
    np.testing.assert_allclose(y[:, :n], weights / weights.sum(1, keepdims=True), rtol=1e-6)
    assert (y[:, n:] == 7).all()
