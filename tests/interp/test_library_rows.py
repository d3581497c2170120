"""Functions of the standard library on rows, called from Python, against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileir.builder import F32, I32, Builder, BuildError, pointer, tile

from .library import on_rows

ROWS = [(3, 1), (2, 2), (4, 5), (1, 13), (3, 16), (2, 24)]


def noisy(shape: tuple[int, int], dtype: type) -> np.ndarray:
    noise = np.random.default_rng(shape[1])
    x = noise.integers(-4, 5, shape).astype(dtype)
    if dtype is np.float32 and shape[1] > 4:
        x[0, :3] = [np.nan, np.inf, -np.inf]
        x[-1, 2] = np.nan
    return x


def in_order(x: np.ndarray, descending: bool) -> np.ndarray:
    """Columns in a stable order in which NaNs are greatest."""
    floats = np.where(np.isnan(x), np.inf, x.astype(np.float64))
    keys = (np.isnan(x), floats)
    if descending:
        keys = (~keys[0], -keys[1])
    outputs = [np.lexsort((keys[1][row], keys[0][row])) for row in range(len(x))]
    return np.array(outputs)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_rows_are_sorted_both_ways(shape: tuple[int, int], descending: bool, dtype: type) -> None:
    x = noisy(shape, dtype)
    order = in_order(x, descending)
    expected = np.take_along_axis(x, order, 1)
    (rows,) = on_rows("sort", x, descending)
    np.testing.assert_array_equal(rows, expected)
    values, columns = on_rows("argsort", x, descending)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(columns, order)


@pytest.mark.parametrize(("shape", "k"), [((4, 5), 2), ((1, 13), 13), ((3, 16), 1), ((2, 24), 7)])
@pytest.mark.parametrize("largest", [False, True])
def test_the_first_of_every_row(shape: tuple[int, int], k: int, largest: bool) -> None:
    x = noisy(shape, np.float32)
    order = in_order(x, largest)[:, :k]
    kinds = (tile(F32, (shape[0], k)), tile(I32, (shape[0], k)))
    values, columns = on_rows("topk", x, largest, results=kinds)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(columns, order)


@pytest.mark.parametrize("shape", ROWS)
def test_rows_backwards(shape: tuple[int, int]) -> None:
    x = noisy(shape, np.int16)
    np.testing.assert_array_equal(on_rows("reverse", x)[0], x[:, ::-1])


@pytest.mark.parametrize("shape", ROWS)
def test_softmax_of_rows_at_once_and_in_two_steps(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * 9
    wide = x.astype(np.float64)
    grown = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_allclose(
        on_rows("softmax", x)[0], grown / grown.sum(1, keepdims=True), rtol=1e-5
    )
    expected = np.log(grown.sum(1)) + wide.max(1)
    np.testing.assert_allclose(on_rows("logsumexp", x)[0], expected, rtol=1e-5)
    other = -x[:, ::-1].copy()
    nothing = np.full(shape[0], -np.inf, np.float32), np.zeros(shape[0], np.float32)
    m, s, p, scale = on_rows("softmax_step", *nothing, x)
    assert (scale == 0).all() and (m == x.max(1)).all()
    m2, s2, p2, scale2 = on_rows("softmax_step", m, s, other)
    whole = np.concatenate([p * scale2[:, None], p2], 1) / s2[:, None]
    both = np.concatenate([wide, other], 1)
    grown = np.exp(both - both.max(1, keepdims=True))
    np.testing.assert_allclose(whole, grown / grown.sum(1, keepdims=True), rtol=1e-5, atol=1e-30)
    assert (m2 == both.max(1).astype(np.float32)).all()


def test_nothing_is_known_of_what_was_left_out() -> None:
    """Rows of -inf alone, as masks leave them."""
    x = np.full((2, 3), -np.inf, np.float32)
    nothing = np.full(2, -np.inf, np.float32), np.zeros(2, np.float32)
    m, s, p, scale = on_rows("softmax_step", *nothing, x)
    assert (m == -np.inf).all() and not s.any() and not p.any() and not scale.any()
    assert (on_rows("logsumexp", x)[0] == -np.inf).all()
    assert (on_rows("logsumexp", -x)[0] == np.inf).all()


X = np.array([[-90, -3, -0.5, 0, 0.25, 4, 90]], np.float32)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("silu", lambda x: x / (1 + np.exp(-x))),
        ("gelu", lambda x: x / 2 * np.array([1 + math.erf(v / math.sqrt(2)) for v in x[0]])),
        ("softplus", lambda x: np.logaddexp(0, x)),
    ],
)
def test_activations(name: str, expected: object) -> None:
    (rows,) = on_rows(name, X)
    reference = expected(X.astype(np.float64))  # type: ignore[operator]
    np.testing.assert_allclose(rows, reference, rtol=2e-6, atol=1e-6)
    (half,) = on_rows(name, X.astype(np.float16))
    np.testing.assert_allclose(half, reference, rtol=4e-3, atol=1e-3)


@pytest.mark.parametrize("iterations", [0, 1, 7, 10])
def test_philox_of_tiles_and_any_number_of_rounds(
    iterations: int, benchmarks: Callable[[str], Any]
) -> None:
    counters = [np.arange(12, dtype=np.int32).reshape(3, 4) * n for n in (1, -7, 1 << 20, 3)]
    keys = [np.full((3, 4), k, np.int32) for k in (5, -2)]
    words = [c.view(np.uint32).astype(np.int64) for c in counters]
    expected = benchmarks("checks").philox(words, [5, 2**32 - 2], iterations)
    rows = on_rows("philox", *counters, *keys, iterations)
    assert [w.view(np.uint32).tolist() for w in rows] == [w.tolist() for w in expected]
    if iterations == 10:
        same = on_rows("philox", *counters, *keys)
        assert [w.tolist() for w in same] == [w.tolist() for w in rows]


def test_numbers_of_noise() -> None:
    words = np.array([[0, 1, -1, 2**31 - 1, -(2**31), 123456789, -123456789]], np.int32)
    (u,) = on_rows("uniform", words)
    wide = words.astype(np.int64)
    np.testing.assert_allclose(u, np.where(wide < 0, -wide - 1, wide) * 2.0**-31, rtol=1e-6)
    assert (u >= 0).all() and (u < 1 + 1e-9).all()
    v = np.linspace(0, 0.99, 7, dtype=np.float32)[None]
    a, b = on_rows("normal", u, v)
    radius = np.sqrt(-2 * np.log(np.maximum(u.astype(np.float64), 1e-7)))
    np.testing.assert_allclose(a, radius * np.cos(2 * np.pi * v), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(b, radius * np.sin(2 * np.pi * v), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["simt", "cpu"])
def test_rows_on_threads_and_on_this_machine(executor: str) -> None:
    pytest.importorskip("llvmlite")
    x = noisy((3, 13), np.float32)
    order = in_order(x, True)
    values, columns = on_rows("argsort", x, True, executor=executor)
    np.testing.assert_array_equal(columns, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(
        on_rows("sort", noisy((3, 13), np.int16), False, executor=executor)[0],
        np.sort(noisy((3, 13), np.int16), 1),
    )
    counters = [np.arange(12, dtype=np.int32).reshape(3, 4)] * 4
    keys = [np.full((3, 4), 9, np.int32)] * 2
    rows = on_rows("philox", *counters, *keys, executor=executor)
    assert [w.tolist() for w in rows] == [w.tolist() for w in on_rows("philox", *counters, *keys)]
    y = np.random.default_rng(3).standard_normal((5, 24)).astype(np.float32)
    np.testing.assert_allclose(
        on_rows("softmax", y, executor=executor)[0], on_rows("softmax", y)[0], rtol=1e-5
    )


def test_errors_of_the_library_are_at_the_callers_line() -> None:
    b = Builder()
    with b.kernel("k", n=I32) as (n,), pytest.raises(BuildError) as caught:
        b.library("sort", n)
    assert caught.value.code == "TIR0338"
    message = caught.value.diagnostics[0].message
    assert "its sort is ($E<$M, $N>, i1) -> ($E<$M, $N>) or ($E<$N>) -> ($E<$N>)" in message
    location = caught.value.diagnostics[0].location
    assert location is not None and location.file.endswith("test_library_rows.py")


def test_one_declaration_for_every_type() -> None:
    b = Builder()
    with b.kernel("k", p=pointer(I32)):
        narrow, wide = b.full((2, 4), 1, I32), b.full((2, 8), 1, I32)
        for _ in range(2):
            b.library("reverse", narrow)
            b.library("reverse", wide)
    assert [n for n in b.module().functions if n != "k"] == ["std.reverse", "std.reverse.1"]
