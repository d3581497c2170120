"""The programs that `compile_time.py` compiles: three typical kernels, and generated programs of
one form and any length."""

from __future__ import annotations

import random
from collections.abc import Callable

from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module


def add(block: int = 1024) -> Module:
    """z = x + y, with a mask at the end."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("add", x=data, y=data, z=data, n=arg(I32, multiple_of=16)) as (x, y, z, n):
        place = b.program_id(axis=0) * block + b.arange(block)
        mask = place < n
        (z + place).store((x + place).load(mask) + (y + place).load(mask), mask)
    return b.module()


def softmax(block: int = 1024) -> Module:
    """A softmax of one row of `n` elements per instance."""
    b = Builder()
    data = arg(pointer(F32), aligned=16)
    with b.kernel("softmax", y=data, x=data, n=arg(I32, multiple_of=16)) as (y, x, n):
        column = b.arange(block)
        place = b.program_id(axis=0) * n + column
        value = (x + place).load(column < n, float("-inf"))
        top = (value - value.max(axis=0)).exp(fast="approx")
        total = b.splat(top.sum(axis=0), to=top.type)
        (y + place).store(b.fdiv(top, total, fast="approx"), column < n)
    return b.module()


def matmul(rows: int = 128, columns: int = 128, depth: int = 64) -> Module:
    """c = a b in f16 with accumulators in f32, masked at every edge."""
    b = Builder()
    data, size = arg(pointer(F16), aligned=16), arg(I32, multiple_of=16)
    out = arg(pointer(F32), aligned=16)
    with b.kernel("matmul", a=data, b=data, c=out, m=size, n=size, k=size) as (x, y, z, m, n, k):
        i = b.program_id(axis=0) * rows + b.arange(rows)
        j = b.program_id(axis=1) * columns + b.arange(columns)
        step, acc = b.arange(depth), b.var(b.zeros((rows, columns)), name="acc")
        with b.for_(0, k, depth) as start:
            along = start + step
            left = (x + i[:, None] * k + along).load((i[:, None] < m) & (along < k), 0.0)
            right = (y + along[:, None] * n + j).load((along[:, None] < k) & (j < n), 0.0)
            acc.set(left.dot(right, acc))
        (z + i[:, None] * n + j).store(acc, (i[:, None] < m) & (j < n))
    return b.module()


def arithmetic(ops: int) -> Module:
    """`ops` additions, multiplications and subtractions on a tile of 128 elements."""
    chance, b = random.Random(0), Builder()
    with b.kernel("arithmetic", x=pointer(F32), y=pointer(F32)) as (x, y):
        lanes = b.arange(128)
        values = [(x + lanes).load(), (x + lanes + 128).load()]
        for _ in range(ops):
            left, right = values[-1], chance.choice(values[-8:])
            values.append(chance.choice((left.__add__, left.__mul__, left.__sub__))(right))
        (y + lanes).store(values[-1])
    return b.module()


def accesses(ops: int) -> Module:
    """Masked loads and stores of many tiles, eleven ops for each tile."""
    b = Builder()
    with b.kernel("accesses", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        lanes = b.arange(128)
        for i in range(ops // 11):
            place = lanes + i * 128
            mask = place < n
            (y + place).store((x + place).load(mask, 0.0) * 2.0, mask)
    return b.module()


def branches(ops: int) -> Module:
    """A sequence of conditionals, six ops and three blocks for each."""
    b = Builder()
    with b.kernel("branches", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        lanes = b.arange(128)
        value = b.var((x + lanes).load(), name="value")
        for i in range(ops // 6):
            with b.if_(n > i):
                value.set(value * 1.5 + float(i))
        (y + lanes).store(value)
    return b.module()


def loops(ops: int) -> Module:
    """A sequence of small loops, eight ops for each."""
    b = Builder()
    with b.kernel("loops", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        lanes = b.arange(128)
        value = b.var((x + lanes).load(), name="value")
        for i in range(ops // 8):
            with b.for_(0, n, 1 + i % 7):
                value.set(value * 1.5 + float(i))
        (y + lanes).store(value)
    return b.module()


def reductions(ops: int) -> Module:
    """Reductions of tiles over all threads, each of the previous result, four ops for each."""
    b = Builder()
    with b.kernel("reductions", x=pointer(F32), y=pointer(F32)) as (x, y):
        lanes = b.arange(128)
        value = (x + lanes).load()
        for _ in range(ops // 4):
            value = value * 0.5 + value.sum(axis=0)
        (y + lanes).store(value)
    return b.module()


def conversions(ops: int) -> Module:
    """Transposes through shared memory, three ops for each."""
    b = Builder()
    with b.kernel("conversions", x=pointer(F32), y=pointer(F32)) as (x, y):
        place = b.arange(16)[:, None] * 16 + b.arange(16)
        value = (x + place).load()
        for i in range(ops // 3):
            value = b.trans(value, order=(1, 0)) * 0.5 + float(i)
        (y + place).store(value)
    return b.module()


KERNELS: dict[str, Callable[[], Module]] = {"add": add, "softmax": softmax, "matmul": matmul}
LONG: dict[str, Callable[[int], Module]] = {
    make.__name__: make for make in (arithmetic, accesses, branches, loops, reductions, conversions)
}
