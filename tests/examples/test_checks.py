"""The checks of the benchmarks refuse zeros, exchanged rows and results that are slightly wrong,
and accept what is rounded as the kernels round it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

TYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


@pytest.fixture(scope="module")
def checks(benchmarks: Any) -> Any:
    return benchmarks("checks")


def normal(kind: str, *shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(TYPES[kind])


def f32(x: Any) -> Any:
    return np.asarray(x, np.float32)


def matmul(checks: Any, kind: str, depth: int) -> tuple[Any, Any, Any]:
    a, b = normal(kind, 48, depth), normal(kind, depth, 40, seed=1)
    out = "bf16" if kind == "f8" else kind
    inner = checks.F8_ACCUMULATED if kind == "f8" else checks.ACCUMULATED
    return *checks.matmul(a, b, checks.UNITS[out], inner), (f32(a) @ f32(b)).astype(TYPES[out])


def attend(checks: Any, kind: str, t: int, causal: bool, group: int = 1) -> tuple[Any, Any, Any]:
    """As the kernels do it: weights relative to the largest are rounded, their sum is not."""
    d, rows = 64, checks.sample(t, 12)
    q, k, v = (normal(kind, 2, h, t, d, seed=s) for s, h in enumerate((2, 2 // group, 2 // group)))
    out = "bf16" if kind == "f8" else kind
    options = {"causal": causal, "unit": checks.UNITS[out], "weights": checks.UNITS[kind]}
    exact, bound = checks.attention(q, k, v, rows, **options)
    keys, values = (np.repeat(f32(x), group, 1) for x in (k, v))
    scores = f32(q)[:, :, rows] @ np.swapaxes(keys, 2, 3) / np.float32(8)
    if causal:
        scores = np.where(np.arange(t) > np.array(rows)[:, None], -np.inf, scores)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    low = raised.astype(TYPES[kind]).astype(np.float32)
    return exact, bound, (low @ values / raised.sum(-1, keepdims=True)).astype(TYPES[out])


def gradient(checks: Any, name: str, causal: bool, group: int) -> tuple[Any, Any, Any]:
    t, d, rows = 192, 64, checks.sample(192, 12)
    q, k, v, g = (normal("bf16", 2, h, t, d, seed=s)
                  for s, h in enumerate((2, 2 // group, 2 // group, 2)))  # fmt: skip
    options = {"causal": causal, "unit": checks.UNITS["bf16"]}
    keys, values = (np.repeat(f32(x), group, 1) for x in (k, v))
    scores = f32(q) @ np.swapaxes(keys, 2, 3) / np.float32(8)
    if causal:
        scores = np.where(np.arange(t) > np.arange(t)[:, None], -np.inf, scores)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    total = np.log(raised.sum(-1)) + scores.max(-1)
    p = raised / raised.sum(-1, keepdims=True)
    dp = f32(g) @ np.swapaxes(values, 2, 3)
    low, result = f32(p.astype(TYPES["bf16"])), p @ values
    squares = (np.square(result) + np.square(p) @ np.square(values)) * np.square(f32(g))
    statistics = total, (result * f32(g)).sum(-1), np.sqrt(squares.sum(-1))
    exact, bound = checks.gradients((q, k, v, g), statistics, rows, **options)[name]
    delta = (f32((low @ values).astype(TYPES["bf16"])) * f32(g)).sum(-1)
    ds = f32((p * (dp - delta[..., None]) / 8).astype(TYPES["bf16"]))
    results = {"dq": ds @ keys, "dk": np.swapaxes(ds, 2, 3) @ f32(q),
            "dv": np.swapaxes(low, 2, 3) @ f32(g)}[name]  # fmt: skip
    if name != "dq":
        results = results.reshape(2, 2 // group, group, t, d).sum(2)
    return exact, bound, results[:, :, rows].astype(TYPES["bf16"])


def convolve(checks: Any, kind: str) -> tuple[Any, Any, Any]:
    x, taps = normal(kind, 2, 8, 8, 32), normal(kind, 3, 3, 32, 40)
    places = [(n, i, j) for n in range(2) for i in (0, 3, 7) for j in (0, 4, 7)]
    padded = np.pad(f32(x), ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = [np.einsum("rsc,rsck->k", padded[n, i : i + 3, j : j + 3], f32(taps))
            for n, i, j in places]  # fmt: skip
    return *checks.convolution(x, taps, places, checks.UNITS[kind]), np.stack(rows).astype(
        TYPES[kind]
    )


def soft(checks: Any, kind: str) -> tuple[Any, Any, Any]:
    x = normal(kind, 12, 3000) * TYPES[kind](3)
    weights = np.exp(f32(x) - f32(x).max(1, keepdims=True))
    weights_out = (weights / weights.sum(1, keepdims=True)).astype(TYPES[kind])
    return *checks.softmax(x, checks.UNITS[kind]), weights_out


def elementwise(checks: Any, kind: str) -> tuple[Any, Any, Any]:
    x = normal(kind, 30, 100)
    exact = np.tanh(x.astype(np.float64))
    return *checks.elementwise(exact, checks.UNITS[kind], 2.0**-20), np.tanh(f32(x)).astype(
        TYPES[kind]
    )


CASES: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
    **{f"matmul {kind} {k}": lambda c, kind=kind, k=k: matmul(c, kind, k)
       for kind in TYPES for k in (16, 700, 16384)},
    **{f"attention {kind} {t} {causal}": lambda c, kind=kind, t=t, w=causal: attend(c, kind, t, w)
       for kind in TYPES for t in (100, 8192) for causal in (False, True)},
    "attention with shared keys": lambda c: attend(c, "f16", 200, False, 2),
    **{f"{name} {causal} {group}":
       lambda c, name=name, w=causal, g=group: gradient(c, name, w, g)
       for name in ("dq", "dk", "dv") for causal in (False, True) for group in (1, 2)},
    **{f"convolution {kind}": lambda c, kind=kind: convolve(c, kind) for kind in ("f16", "f32")},
    **{f"softmax {kind}": lambda c, kind=kind: soft(c, kind) for kind in ("bf16", "f32")},
    **{f"elementwise {kind}": lambda c, kind=kind: elementwise(c, kind)
       for kind in ("bf16", "f16", "f32")},
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_a_check_tells_right_from_wrong(checks: Any, name: str) -> None:
    exact, bound, right = CASES[name](checks)
    assert checks.fault(right, exact, bound) is None
    for what, other in checks.wrong_results(exact).items():
        assert checks.fault(other, exact, bound), what
    copy = right.astype(np.float64)
    for what, other in {
        "twice as large": 2 * copy,
        "a tenth larger": 1.1 * copy,
        "its negative": -copy,
        "one row of zeros": copy * (np.arange(exact.shape[-2]) != 3)[:, None],
        "one row of another": np.concatenate([copy[..., :1, :], copy[..., :-1, :]], -2),
        "one element missing": np.where(np.abs(exact) == np.abs(exact).max(), 0.0, copy),
        "not written": np.where(np.arange(exact.shape[-1]) == 1, np.nan, copy),
        "infinite": np.where(np.arange(exact.shape[-1]) == 1, np.inf, copy),
    }.items():
        assert checks.fault(other, exact, bound), what
    assert checks.fault(copy[..., :-1], exact, bound)


@pytest.mark.parametrize("head", [0, 1])
def test_every_head_of_every_batch_is_looked_at(checks: Any, head: int) -> None:
    exact, bound, right = attend(checks, "f16", 100, False)
    for batch in range(2):
        other = right.copy()
        other[batch, head] = right[1 - batch, head]
        assert checks.fault(other, exact, bound)


@pytest.mark.slow
def test_a_bound_that_accepts_zeros_is_no_bound(checks: Any) -> None:
    """As the f8 check of attention had one: an absolute error of 0.125."""
    exact, _, right = attend(checks, "f8", 8192, False)
    with pytest.raises(ValueError, match="accepts zeros"):
        checks.fault(right, exact, np.full(exact.shape, 0.125))
    with pytest.raises(ValueError, match="is zero"):
        checks.fault(right, np.zeros(exact.shape), np.full(exact.shape, 0.125))


def test_integers_are_exact(checks: Any) -> None:
    a, b = (np.random.default_rng(s).integers(-128, 128, (64, 64)) for s in (0, 1))
    exact, bound = checks.matmul(a, b, 0.0, 0.0)
    assert checks.fault(a @ b, exact, bound) is None
    wrong = a @ b
    wrong[5, 7] += 1
    assert checks.fault(wrong, exact, bound)


def test_samples_have_both_ends(checks: Any) -> None:
    for extent in (1, 2, 63, 64, 65, 1000):
        sampled = checks.sample(extent)
        assert sampled == sorted(set(sampled)) and {0, extent - 1} <= set(sampled)
        assert len(sampled) == min(extent, checks.ROWS) and sampled[-1] < extent


def test_of_one_dimension_elements_are_sampled(checks: Any) -> None:
    (some,) = checks.some_rows(np.arange(1 << 20))
    assert some.shape == (64 * checks.ROWS * 16, 1)
    assert {0, (1 << 20) - 1} <= set(some.ravel())
    (rows,) = checks.some_rows(np.arange(1 << 20).reshape(-1, 16), count=8)
    assert rows.shape == (8, 16)


def test_random_words_are_the_published_ones(checks: Any) -> None:
    """Known answers of the authors' Random123 for Philox 4x32-10."""
    words = checks.philox(
        [np.array([0, 0xFFFFFFFF]) for _ in range(4)], [np.array([0, 0xFFFFFFFF])] * 2
    )
    assert [int(w[0]) for w in words] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(w[1]) for w in words] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_a_few_elements_may_all_be_rounded_up(checks: Any, kind: str) -> None:
    """The roundings of a row of 8 elements do not cancel; a fraction of the bound that all elements
    of a large result have in common is detected."""
    for seed in range(200):
        x, y = normal(kind, 1, 8, seed=seed), normal(kind, 8, 8, seed=seed + 1000)
        exact, bound = checks.matmul(f32(x), f32(y), checks.UNITS[kind])
        result = f32(exact.astype(x.dtype))
        assert checks.fault(result, exact, bound) is None
    x, y = normal(kind, 64, 64), normal(kind, 64, 64, seed=1)
    exact, bound = checks.matmul(f32(x), f32(y), checks.UNITS[kind])
    assert checks.fault(exact * (1 + checks.UNITS[kind]), exact, bound) is not None
