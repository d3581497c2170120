"""Matrix multiplication written with the builder: `matmul(64, 64, 32)`.

One program instance computes a `rows` x `columns` block of c = a b. Instances are numbered so
that `group` consecutive ones share columns of b, which keeps them in the cache.
"""

from __future__ import annotations

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module


def matmul(rows: int, columns: int, depth: int, *, group: int = 8) -> Module:
    """Kernel `matmul` over a: f16 [m, k], b: f16 [k, n], c: f32 [m, n], all row-major, of any
    size. Grid: (⌈m / rows⌉ · ⌈n / columns⌉,)."""
    b = Builder()
    data = arg(pointer(F16), aligned=16, readonly=True)
    out = arg(pointer(F32), aligned=16)
    with b.kernel("matmul", a=data, b=data, c=out, m=I32, n=I32, k=I32) as (x, y, z, m, n, k):
        b.configure(num_warps=4)
        column_tiles, row_tiles = b.cdiv(n, columns), b.cdiv(m, rows)
        number = b.program_id(axis=0)
        first = number // (column_tiles * group) * group
        height = b.minimum(row_tiles - first, group)
        i = (first + number % height) * rows + b.arange(rows)
        j = number % (column_tiles * group) // height * columns + b.arange(columns)
        step = b.arange(depth)

        acc = b.var(b.zeros((rows, columns)), name="acc")
        with b.for_(0, k, depth, stages=3) as start:
            along = start + step
            left = (x + i[:, None] * k + along).load((i[:, None] < m) & (along < k), 0.0)
            right = (y + along[:, None] * n + j).load((along[:, None] < k) & (j < n), 0.0)
            acc.set(left.dot(right, acc))
        (z + i[:, None] * n + j).store(acc, (i[:, None] < m) & (j < n))
    return b.module()
