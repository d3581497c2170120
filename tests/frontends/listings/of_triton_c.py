"""The listings of Triton-C in MAPL 2019 (Tillet, Kung, Cox)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tileir.frontends.triton_c import parse

from .model import Listing, Refusal, close, normal, sizes, unset

FOLDER = Path(__file__).parents[1] / "triton_c" / "listings"


def program(name: str) -> Any:
    """A listing as it is read."""
    return parse((FOLDER / name).read_text(), name)


def product(on: str, M: int, N: int, K: int) -> None:
    a, b, c = normal(K, M), normal(K, N), unset(N, M)
    parsed = program("listing1.c")
    assert parsed.tunables == {"TM": (16, 32, 64, 128), "TN": (16, 32, 64, 128), "TK": (8, 16)}
    grid = lambda t: (-(-M // t["TM"]), -(-N // t["TN"]))  # noqa: E731
    parsed.kernel("matmul_nt")[grid](a, b, c, M, N, K, TN=32, on=on)
    close(c.T, a.T @ b)


def broadcasting(on: str) -> None:
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-9, 9, s, dtype=np.int32) for s in (16, (32, 16), (16, 1)))
    one, two, three = (np.zeros(s, np.int32) for s in ((32, 16), (32, 16), (16, 16)))
    program("listing4.c").kernel()[(1,)](a, b, c, one, two, three, on=on)
    assert (one == a + b).all() and (two == one).all() and (three == a + c).all()


def shift_convolution(on: str, M: int, N: int, K: int) -> None:
    """The kernel reads a[m + delta[k]]: `M` neighbouring pixels, shifted per channel."""
    C, H, W = K, 6, M // 5
    shift_h, shift_w = np.arange(C) % 3, np.arange(C) // 3 % 3
    delta = np.arange(C) * H * W + shift_h * W + shift_w
    rows = -(-M // 16) * 16
    start = normal(int(delta.max()) + (rows if M % 16 == 0 else M))
    b, c = normal(K, N), unset(N, M)
    host = {"C": C, "H": H, "W": W, "shift_h": shift_h, "shift_w": shift_w}
    kernel = program("listing8.c").kernel("shift_conv")
    kernel[(rows // 16, -(-N // 16))](start, b, c, M, N, K, on=on, constants=host)
    close(c.T, start[np.arange(M)[:, None] + delta[None, :]] @ b)


LISTINGS = (
    Listing(
        "Tillet 2019", "Listing 1", "matmul", "Triton-C", product,
        sizes("M N K", (32, 16, 16), (20, 17, 12), (1, 33, 5), (70, 40, 33)),
    ),
    Listing("Tillet 2019", "Listing 4", "broadcasting", "Triton-C", broadcasting, ({},)),
    Listing(
        "Tillet 2019", "Listing 8", "shift convolution", "Triton-C", shift_convolution,
        sizes("M N K", (16, 16, 8), (48, 16, 24), (32, 32, 16)),
        Refusal("float a[TM, TK] = *pa;", sizes("M N K", (20, 16, 8), (17, 16, 16))),
    ),
)  # fmt: skip
