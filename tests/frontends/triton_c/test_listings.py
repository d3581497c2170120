"""The listings of Triton-C in MAPL 2019 give what numpy does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileir.frontends.triton_c import parse

HERE = Path(__file__).parent / "listings"
ON = pytest.mark.parametrize("on", ["interpreter", "simt"])


def program(name: str) -> Any:
    return parse((HERE / name).read_text(), name)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@ON
@pytest.mark.parametrize("size", [(32, 16, 16), (20, 17, 12), (1, 33, 5)])
def test_listing_1(on: str, size: tuple[int, int, int]) -> None:
    M, N, K = size
    a, b, c = normal(K, M), normal(K, N), np.full((N, M), np.nan, np.float32)
    found = program("listing1.c")
    assert found.tunables == {"TM": (16, 32, 64, 128), "TN": (16, 32, 64, 128), "TK": (8, 16)}
    grid = lambda t: (-(-M // t["TM"]), -(-N // t["TN"]))  # noqa: E731
    found.kernel("matmul_nt")[grid](a, b, c, M, N, K, TN=32, on=on)
    np.testing.assert_allclose(c.T, a.T @ b, rtol=1e-5, atol=1e-5)


@ON
def test_listing_4(on: str) -> None:
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-9, 9, s, dtype=np.int32) for s in (16, (32, 16), (16, 1)))
    one, two, three = (np.zeros(s, np.int32) for s in ((32, 16), (32, 16), (16, 16)))
    program("listing4.c").kernel()[(1,)](a, b, c, one, two, three, on=on)
    assert (one == a + b).all() and (two == one).all() and (three == a + c).all()


@ON
def test_listing_8(on: str) -> None:
    C, H, W, N = 16, 6, 7, 16
    shift_h = np.array([0, 1, 2, 1] * 4)
    shift_w = np.array([1, 2, 2, 1, 0, 1, 2, 0] * 2)
    image = normal(C, H, W)
    b, c = normal(C, N), np.full((N, 16), np.nan, np.float32)
    # The kernel reads a[m + delta[k]]: 16 neighbouring pixels, shifted per channel.
    start = image.ravel()
    found = program("listing8.c")
    host = {"C": C, "H": H, "W": W, "shift_h": shift_h, "shift_w": shift_w}
    found.kernel("shift_conv")[(1, 1)](start, b, c, 16, N, C - 8, on=on, constants=host)
    pixels = np.arange(16)
    delta = np.arange(C) * H * W + shift_h * W + shift_w
    shifted = start[pixels[:, None] + delta[None, : C - 8]]
    np.testing.assert_allclose(c.T, shifted @ b[: C - 8], rtol=1e-5, atol=1e-5)
