"""Operands of dots outside of loops that asynchronous copies store: threads against the
interpreter, and when operands are loaded to registers instead."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from tests.backend.test_stored_operands import agree, kernel_ops, ops, random_operands
from tileir.backend.live_registers import ThreadRegisters
from tileir.backend.software_pipeline.staged_operands import stage_operands
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ops.gpu import AsyncWait

SIZE = 64


def matmul(form: str = "plain", *, aligned: int = 16) -> Any:
    """out = x y, and one op more by `form`."""
    b = Builder()
    kind = arg(pointer(F16), aligned=aligned, noalias=True)
    with b.kernel("k", x=kind, y=kind, z=kind, out=pointer(F32)) as (x, y, z, out):
        rows, columns = b.arange(SIZE)[:, None], b.arange(SIZE)[None, :]
        at, zero = rows * SIZE + columns, b.full((SIZE, SIZE), 0.0, F32)
        if form == "stored before":
            (y + at).store((z + at).load())
        left = (x + at).load()
        if form == "padded":
            right = (y + at).load(mask=rows < SIZE - 8, other=1.0)
        elif form == "masked":
            right = (y + at).load(mask=rows < SIZE - 8, other=0.0)
        elif form == "looked up":
            right = (
                y + ((out + rows * SIZE).load().to(I32) * SIZE + columns * 1 + rows * SIZE)
            ).load()
        else:
            right = (y + at).load()
        if form == "doubled":
            left = left * 2.0
        if form == "stored after":
            (y + at).store((z + at).load())
        total = b.dot(left, right, zero)
        if form == "read":
            total = total + right.to(F32)
        if form == "accumulated":
            total = b.dot(left, b.trans(right, order=(1, 0)), total)
        (out + at).store(total)
    return b.module()


def check(module: Any, warps: int, size: int = SIZE) -> None:
    operands = random_operands(F16, *[(size, size)] * 3)
    agree(module, [*operands, np.zeros((size, size), np.float32)], warps)


@pytest.mark.parametrize("warps", [2, 4])
@pytest.mark.parametrize(("form", "copies"), [
    ("plain", 2), ("masked", 2), ("stored before", 2), ("accumulated", 2),
    ("padded", 1), ("read", 1), ("stored after", 1),
])  # fmt: skip
def test_what_only_dots_read_is_copied(form: str, copies: int, warps: int) -> None:
    """Copies fill with zeros, and read what memory holds until they have landed. An operand with
    other padding, which other ops read, or whose memory is written before the dot passes through
    registers."""
    module = matmul(form)
    check(module, warps)
    names = ops(module, warps)
    assert names.count("gpu.async_copy") == copies
    assert names.count("gpu.local_store") == 2 - copies


@pytest.mark.parametrize("warps", [2, 4])
def test_narrow_copies_pass_through_registers(warps: int) -> None:
    """A copy of less than 16 bytes would take as many instructions as a load."""
    module = matmul(aligned=8)
    check(module, warps)
    assert "gpu.async_copy" not in ops(module, warps)


@pytest.mark.parametrize(("copies", "count"), [
    (None, 0), (ThreadRegisters(64, 255), 2), (ThreadRegisters(64, 80), 2),
    (ThreadRegisters(64, 79), 0),
])  # fmt: skip
def test_copies_need_registers_and_a_target_that_has_them(
    copies: ThreadRegisters | None, count: int
) -> None:
    """64 registers of 64 threads for the loaded operands, then the accumulator, and 16 for others:
    where these are spilled, so are the addresses of copies."""
    function = matmul().functions["k"]
    names = [op.mnemonic for op in stage_operands(function, 1 << 16, copies=copies).ops]
    assert names.count("gpu.async_copy") == count
    assert names.count("gpu.local_store") == 2 - count


@pytest.mark.parametrize("warps", [2, 4])
@pytest.mark.parametrize("form", ["doubled", "stored before", "looked up"])
def test_copies_begin_before_anything_waits(form: str, warps: int) -> None:
    """A copy for the first dot precedes other accesses, unless the program writes the memory that
    it reads before, or its address depends on a load."""
    module = matmul(form)
    check(module, warps)
    names = [x for x in ops(module, warps) if x in ("gpu.async_copy", "load", "store")]
    assert (
        names[:-1]
        == {
            "doubled": ["gpu.async_copy", "load"],
            "stored before": ["gpu.async_copy", "load", "store", "gpu.async_copy"],
            "looked up": ["gpu.async_copy", "load", "gpu.async_copy"],
        }[form]
    )


@pytest.mark.parametrize("warps", [2, 4])
def test_operands_that_another_block_loads_are_stored(warps: int) -> None:
    """Nothing is copied in a block that accesses no memory."""
    b, kind = Builder(), arg(pointer(F16), aligned=16, noalias=True)
    with b.kernel("k", x=kind, y=kind, n=I32, out=pointer(F32)) as (x, y, n, out):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        left, right = (x + at).load(), (y + at).load()
        total = b.var(b.full((SIZE, SIZE), 0.0, F32))
        with b.if_(n > 0):
            total.set(b.dot(left, b.trans(right, order=(1, 0)), b.dot(left, right, total.get())))
        (out + at).store(total.get())
    module = b.module()
    operands = random_operands(F16, *[(SIZE, SIZE)] * 2)
    agree(module, [*operands, np.int32(1), np.zeros((SIZE, SIZE), np.float32)], warps)
    assert "gpu.async_copy" not in ops(module, warps)


def two_matmuls(size: int) -> Any:
    """out = (x y) z, where z is loaded after the first dot."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xyz"}
    with b.kernel("k", **kinds, out=pointer(F32)) as (x, y, z, out):
        at = b.arange(size)[:, None] * size + b.arange(size)[None, :]
        zero = b.full((size, size), 0.0, F32)
        first = (b.dot((x + at).load(), (y + at).load(), zero) * 0.125).to(F16)
        second = b.dot(first, (z + at).load(), zero)
        (out + at).store(second)
    return b.module()


def order(module: Any, warps: int) -> list[str]:
    """The copies, the waits for them and the dots of the compiled kernel, neighbours as one."""
    names = [x.replace("gpu.wgmma", "dot") for x in ops(module, warps)]
    kinds = ("gpu.async_copy", "gpu.async_wait", "dot")
    return [name.removeprefix("gpu.") for name, _ in groupby(x for x in names if x in kinds)]


@pytest.mark.parametrize("warps", [2, 4])
def test_the_copies_for_a_later_dot_are_in_flight_over_the_first_one(warps: int) -> None:
    """The first dot waits for its own operands only."""
    module = two_matmuls(SIZE)
    check(module, warps)
    assert order(module, warps) == ["async_copy", "async_wait", "dot", "async_wait", "dot"]
    waits = [op.pending for op in kernel_ops(module, warps) if isinstance(op, AsyncWait)]
    assert waits == [1, 0]


def test_large_operands_of_a_later_dot_are_copied_after_the_first_one() -> None:
    """They take memory that the operands of the first dot have taken before."""
    module = two_matmuls(2 * SIZE)
    check(module, 4, 2 * SIZE)
    assert order(module, 4) == ["async_copy", "async_wait", "dot"] * 2
