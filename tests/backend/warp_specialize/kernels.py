"""A matmul as it is written in Triton: rows and columns wrap around at the edges."""

from __future__ import annotations

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl


@triton.jit
def wrapping_matmul(
    a, b, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Tiles of BM x BN in steps of BK; the mask of the result alone knows the edges."""
    pid, width = tl.program_id(0), GROUP * tl.cdiv(n, BN)
    first = pid // width * GROUP
    height = min(tl.cdiv(m, BM) - first, GROUP)
    i, j = first + pid % width % height, pid % width // height
    rows, columns = (i * BM + tl.arange(0, BM)) % m, (j * BN + tl.arange(0, BN)) % n
    depth = tl.arange(0, BK)
    left = a + rows[:, None] * k + depth[None, :]
    right = b + depth[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        x = tl.load(left, mask=depth[None, :] < k - step * BK, other=0.0)
        y = tl.load(right, mask=depth[:, None] < k - step * BK, other=0.0)
        total = tl.dot(x, y, total)
        left += BK
        right += BK * n
    rows, columns = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=inside)
