"""Flash attention, forward, written with the builder: `flash_attention(64, 64, 32, causal=True)`.

One program instance computes `rows` rows of one head: softmax(q kᵀ · scale) v, in one pass over
the keys, keeping the running maximum `m`, the running sum `l` and the output not yet divided by
it. Any number of positions: the last blocks are masked.
"""

from __future__ import annotations

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module

LOG2E = 1.4426950408889634


def flash_attention(rows: int, columns: int, width: int, *, causal: bool = False) -> Module:
    """Kernel `attention` over q, k, v, out: f16 [heads, positions, width] in row-major order.

    Grid: (⌈positions / rows⌉, heads). `scale` multiplies the scores before the softmax.
    """
    b = Builder()
    data = arg(pointer(F16), aligned=16, readonly=True)
    out = arg(pointer(F16), aligned=16)
    with b.kernel("attention", q=data, k=data, v=data, out=out, positions=I32, scale=F32) as (
        q, k, v, out, positions, scale,
    ):  # fmt: skip
        b.configure(num_warps=4)
        head = b.program_id(axis=1) * positions * width
        row = b.program_id(axis=0) * rows + b.arange(rows)
        lane, place = b.arange(columns), b.arange(width)
        at_row = head + row[:, None] * width + place
        query = (q + at_row).load(row[:, None] < positions, 0.0)

        m = b.var(b.full(rows, float("-inf")), name="m")
        l = b.var(b.zeros(rows), name="l")  # noqa: E741 - its name in the paper
        acc = b.var(b.zeros((rows, width)), name="acc")
        last = b.minimum((b.program_id(axis=0) + 1) * rows, positions) if causal else positions
        with b.for_(0, last, columns, stages=2) as start:
            column = start + lane
            inside = column < positions
            at_column = head + column[:, None] * width + place
            key = (k + at_column).load(inside[:, None], 0.0)
            value = (v + at_column).load(inside[:, None], 0.0)
            seen = inside & (column <= row[:, None]) if causal else inside[None, :]
            score = b.where(seen, query @ key.T * (scale * LOG2E), float("-inf"))
            highest = b.maximum(m, score.max(axis=1))
            weight = (score - highest[:, None]).exp2()
            shrink = (m - highest).exp2()
            l.set(l * shrink + weight.sum(axis=1))
            acc.set(weight.to(F16).dot(value, acc * shrink[:, None]))
            m.set(highest)
        (out + at_row).store(acc / l[:, None], row[:, None] < positions)
    return b.module()
