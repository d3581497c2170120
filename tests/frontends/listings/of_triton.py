"""The kernels of Triton's Python in OpenAI 2021, PTX 2023 and Lamont et al. (`table.py` has the
titles)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.frontends import triton

from ..triton import published_kernels as k
from .model import Listing, Refusal, close, normal, sizes, unset, whole


def add(on: str, n: int) -> None:
    x, y, z = np.arange(n, dtype=np.int32), np.full(n, 5, np.int32), np.zeros(n, np.int32)
    k.add[(triton.cdiv(n, 512),)](x, y, z, n, on=on)
    assert (z == x + 5).all()


def softmax(on: str, rows: int, columns: int) -> None:
    x, y = normal(rows, columns), unset(rows, columns)
    k.softmax[(rows,)](y, columns, 1, x, columns, 1, rows, columns, on=on)
    top = np.exp(x - x.max(1, keepdims=True))
    close(y, top / top.sum(1, keepdims=True))


def matmul(on: str, M: int, N: int, K: int, block: int) -> None:
    a, b, c = whole(M, K, dtype=np.float16), whole(K, N, dtype=np.float16), unset(M, N, dtype="f2")
    blocks = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block // 2, "GROUP_M": 2}
    grid = (triton.cdiv(M, block) * 2, triton.cdiv(triton.cdiv(N, block), 2))
    k.matmul[grid](a, b, c, M, N, K, K, 1, N, 1, N, 1, **blocks, on=on)
    close(c, a.astype("f") @ b.astype("f"), 1e-3)


def copy(name: str, warps: int, blocks: bool) -> Any:
    """A copy of `n` numbers by chunks of 128: a program instance each, or one for all."""

    def check(on: str, n: int) -> None:
        x, y = normal(n), unset(n)
        grid = triton.cdiv(n, 128) if blocks else 1
        getattr(k, name)[(grid,)](x, y, n, 128, num_warps=warps, on=on)
        assert (x == y).all()

    return check


def copy_of_rows(on: str, m: int, n: int) -> None:
    x, y = normal(m, n), unset(m, n)
    k.kernel_230424_02[(1,)](x, y, m, n, 128, num_warps=16, on=on)
    assert (x == y).all()


def sum_in_a_block(on: str, n: int) -> None:
    x, y = normal(n), unset(1)
    k.kernel_230424_03[(1,)](x, y, n, num_warps=4, on=on)
    close(y[0], x.sum())


def sum_of_blocks(on: str, n: int) -> None:
    x, y = normal(n), np.zeros(1, np.float32)
    k.kernel_230424_04[(triton.cdiv(n, 32),)](x, y, n, 32, num_warps=1, on=on)
    close(y[0], x.sum())


def transpose(on: str, n: int) -> None:
    x, y = normal(n, n), unset(n, n)
    k.kernel_230424_05[(1,)](x, y, n, num_warps=1, on=on)
    assert (y == x.T).all()


def sigmoid(on: str, n: int) -> None:
    x, y = normal(n), unset(n)
    k.kernel_230424_06[(1,)](x, y, n, num_warps=1, on=on)
    close(y, 1 / (1 + np.exp(-x)))


def product(on: str, m: int, n: int, k_: int) -> None:
    a, b = whole(m, k_, dtype=np.float16), whole(k_, n, dtype=np.float16)
    d = unset(m, n, dtype=np.float16)
    k.kernel_230429_01[(1,)](a, b, d, m, n, k_, num_warps=1, on=on)
    close(d, a.astype("f") @ b.astype("f"), 1e-3)


def conv2d(on: str, H: int, W: int, KH: int, KW: int) -> None:
    x, w, out = normal(H, W), normal(KH, KW), unset(H - KH + 1, W - KW + 1)
    grid = (triton.cdiv(out.shape[0], 8), triton.cdiv(out.shape[1], 16))
    k.conv2d[grid](x, w, out, H, W, KH, KW, 8, 16, on=on)
    views = np.lib.stride_tricks.sliding_window_view(x, (KH, KW))
    close(out, np.einsum("hwij,ij->hw", views, w), 1e-4)


def tutorial_matmul(on: str, M: int, N: int, K: int) -> None:
    a, b, c = whole(M, K, dtype=np.float16), whole(K, N, dtype=np.float16), unset(M, N, dtype="f2")
    grid = (triton.cdiv(M, 32) * triton.cdiv(N, 32),)
    k.masked_matmul[grid](a, b, c, M, N, K, 32, 32, 16, on=on)
    close(c, a.astype("f") @ b.astype("f"), 1e-3)


COUNTS = sizes("n", (1000,), (1008,), (128,), (1,), (517,))


def blog(name: str, what: str, check: Any, allowed: Any) -> Listing:
    return Listing("PTX 2023", f"kernel_{name}", what, "Triton", check, allowed)


LISTINGS = (
    Listing("OpenAI 2021", "add", "vector addition", "Triton", add,
            sizes("n", (512,), (1000,), (7,), (98432,))),
    Listing(
        "OpenAI 2021", "softmax", "softmax of rows", "Triton", softmax,
        sizes("rows columns", (3, 931), (2, 1024), (4, 1), (5, 781)),
    ),
    Listing(
        "OpenAI 2021", "matmul", "matmul", "Triton", matmul,
        sizes("M N K block", (64, 64, 32, 32), (128, 64, 64, 32), (32, 64, 16, 32),
              (128, 128, 64, 64)),
        Refusal("a = tl.load(A)", sizes("M N K block", (33, 64, 32, 32), (63, 64, 32, 32))),
    ),
    blog("230423_01", "copy", copy("kernel_230423_01", 4, True), COUNTS),
    blog("230423_01, 2 warps", "copy", copy("kernel_230423_01", 2, True), COUNTS),
    blog("230423_03a", "copy, 1 warp", copy("kernel_230423_03a", 1, True), COUNTS),
    blog("230423_03b", "copy, 16 warps", copy("kernel_230423_03b", 16, True), COUNTS),
    blog("230424_01", "copy in a loop", copy("kernel_230424_01", 16, False), COUNTS),
    blog(
        "230424_02", "copy of rows", copy_of_rows, sizes("m n", (1000, 32), (100, 32), (129, 7))
    ),
    blog("230423_04", "copy, known size", copy("kernel_230423_04", 1, True), COUNTS),
    blog("230423_05", "copy in a loop", copy("kernel_230423_05", 1, False), COUNTS),
    blog("230423_06", "copy in a loop", copy("kernel_230423_06", 1, False), COUNTS),
    blog("230423_07", "copy, last tile separate", copy("kernel_230423_07", 1, False), COUNTS),
    blog("230424_03", "sum", sum_in_a_block, sizes("n", (128,), (100,), (1,), (1000,))),
    blog("230424_04", "sum by atomics", sum_of_blocks, sizes("n", (128,), (100,), (1,), (1000,))),
    blog("230424_05", "transposition", transpose, sizes("n", (16,), (15,), (1,), (33,))),
    blog("230424_06", "sigmoid", sigmoid, sizes("n", (32,), (30,), (1,), (77,))),
    blog(
        "230429_01", "matmul", product, sizes("m n k_", (16, 16, 16), (15, 15, 15), (17, 8, 33))
    ),
    Listing(
        "Lamont", "masked loads", "matmul", "Triton", tutorial_matmul,
        sizes("M N K", (64, 64, 32), (33, 65, 17), (1, 5, 70)),
    ),
    Listing(
        "Lamont", "conv2d", "2D convolution", "Triton", conv2d,
        sizes("H W KH KW", (21, 34, 3, 3), (16, 32, 1, 1), (21, 34, 2, 5), (7, 7, 7, 7)),
    ),
)  # fmt: skip
