"""The listings of Tile, Tensor Comprehensions and tensor expressions: Listing 2 of MAPL 2019 (MAPL
2019) and Halide's blur, Listing 2.1 of the thesis (Pham 2025), as tensor expressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.frontends import te
from tileir.frontends.tensor_comprehensions import parse as comprehensions
from tileir.frontends.tile import parse as tile

from .model import Listing, close, normal, sizes, whole

TILE = "function (A[I, K], B[J, K]) -> (C) { C[i, j: I, J] = +(A[i, k] * B[j, k]); }"
TC = "def f(float(I, K) A, float(J, K) B) -> (C) { C(i, j) +=! A(i, k) * B(j, k) }"


def by_tile(a: Any, b: Any, on: str) -> Any:
    return tile(TILE)(a, b, on=on)


def by_comprehension(a: Any, b: Any, on: str) -> Any:
    return comprehensions(TC).f(a, b, on=on)


def by_expression(a: Any, b: Any, on: str) -> Any:
    (i, k), (j, _) = a.shape, b.shape
    A, B = te.placeholder((i, k), "float32", "A"), te.placeholder((j, k), "float32", "B")
    t = te.reduce_axis((0, k), "k")
    C = te.compute((i, j), lambda i, j: te.sum(A[i, t] * B[j, t], axis=t), "C")
    return te.build(te.create_schedule(C), [A, B, C])(a, b, on=on)


def product(by: Any) -> Any:
    """C = A Bᵀ of whole numbers, which is exact."""

    def check(on: str, I: int, J: int, K: int) -> None:  # noqa: E741
        a, b = whole(I, K), whole(J, K)
        assert (by(a, b, on) == a @ b.T).all()

    return check


def blur(on: str, height: int, width: int) -> None:
    """With the listing's schedule: tiles of 256 x 32, rows blurred where columns are."""
    image = te.placeholder((height + 2, width + 2), "float32", "input")
    blur_x = te.compute(
        (height + 2, width), lambda y, x: (image[y, x] + image[y, x + 1] + image[y, x + 2]) / 3,
        "blur_x",
    )  # fmt: skip
    blur_y = te.compute(
        (height, width), lambda y, x: (blur_x[y, x] + blur_x[y + 1, x] + blur_x[y + 2, x]) / 3,
        "blur_y",
    )  # fmt: skip
    s = te.create_schedule(blur_y)
    y, x = blur_y.op.axis
    yo, xo, _, xi = s[blur_y].tile(y, x, 32, 256)
    s[blur_y].vectorize(xi)
    s[blur_y].parallel(yo)
    s[blur_x].compute_at(s[blur_y], xo)
    s[blur_x].vectorize(blur_x.op.axis[1])
    pixels = normal(height + 2, width + 2)
    horizontal = (pixels[:, :-2] + pixels[:, 1:-1] + pixels[:, 2:]) / np.float32(3)
    expected = (horizontal[:-2] + horizontal[1:-1] + horizontal[2:]) / np.float32(3)
    close(te.build(s, [image, blur_y])(pixels, on=on), expected)


MATMULS = sizes("I J K", (16, 32, 16), (20, 24, 40), (1, 7, 13), (65, 33, 70))

LISTINGS = (
    Listing("Tillet 2019", "Listing 2", "A Bᵀ", "Tile", product(by_tile), MATMULS),
    Listing(
        "Tillet 2019",
        "Listing 2",
        "A Bᵀ",
        "Tensor Comprehensions",
        product(by_comprehension),
        MATMULS,
    ),
    Listing(
        "Tillet 2019", "Listing 2", "A Bᵀ", "Tensor expressions", product(by_expression), MATMULS
    ),
    Listing(
        "Pham 2025", "Listing 2.1", "3x3 blur", "Tensor expressions", blur,
        sizes("height width", (32, 256), (37, 150), (1, 1), (65, 300)),
    ),
)  # fmt: skip
