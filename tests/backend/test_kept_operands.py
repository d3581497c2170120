"""Operands of dots before and after a loop that stay in shared memory while the loop runs: threads
against the interpreter, and when operands are stored again instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tests.backend.test_stored_operands import random_operands
from tileir.backend.executors import SimtExecutor
from tileir.backend.live_registers import ThreadRegisters
from tileir.backend.software_pipeline.stored_operands import multiply_stored_operands
from tileir.builder import F16, F32, I32, Builder, arg, pointer

SIZE = 64
NONE, ENOUGH = ThreadRegisters(128, 16), ThreadRegisters(128, 255)


def around_loop(form: str = "plain") -> Any:
    """out = (x y^T, and n dots of tiles of z and w) x, where y^T is y for `form` "turned"."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xyzw"}
    with b.kernel("k", **kinds, n=I32, out=pointer(F32)) as (x, y, z, w, n, out):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        zero = b.full((SIZE, SIZE), 0.0, F32)
        left, right, total = (x + at).load(), (y + at).load(), b.var(zero)

        def before() -> None:
            turned = right if form == "turned" else b.trans(right, order=(1, 0))
            total.set(b.dot(left, turned, zero))

        if form in ("branch", "twice"):
            with b.if_(n > 0):
                before()
        if form != "branch":
            before()
        if form != "straight":
            with b.for_(0, n) as i:
                scaled = (z + (at + i * SIZE)).load() * 2.0
                total.set(b.dot(scaled.to(F16), (w + at).load(), total.get()))
        weights = (total.get() * 0.015625).to(F16)
        (out + at).store(b.dot(weights, left, b.dot(weights, right, zero)))
    return b.module()


def stores(module: Any, registers: ThreadRegisters) -> int:
    """The operands that threads store or copy."""
    function = multiply_stored_operands(module.functions["k"], 4, 1 << 16, copies=registers)
    names = [op.mnemonic for op in function.ops]
    return names.count("gpu.local_store") + names.count("gpu.async_copy")


@pytest.mark.parametrize(("form", "kept"), [
    ("plain", 2), ("turned", 2), ("twice", 2), ("branch", 0), ("straight", 0),
])  # fmt: skip
def test_operands_are_kept_where_registers_do_not_suffice(form: str, kept: int) -> None:
    """What only a branch has stored is stored again. Without a loop, one block has all dots."""
    module = around_loop(form)
    assert stores(module, ENOUGH) - stores(module, NONE) == kept


def test_operands_are_kept_in_half_of_the_memory() -> None:
    function = around_loop().functions["k"]
    counts = []
    for kibibytes in (64, 32, 24):
        new = multiply_stored_operands(function, 4, kibibytes << 10, copies=NONE)
        counts.append(sum(op.mnemonic == "gpu.local_store" for op in new.ops))
    assert counts == [3, 3, 4], "half of 24 KiB holds one of two operands"


@pytest.mark.parametrize("registers", [64, None])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("form", ["plain", "turned", "twice", "branch"])
def test_threads_compute_the_same(form: str, count: int, registers: int | None) -> None:
    module = around_loop(form)
    shapes = (SIZE, SIZE), (SIZE, SIZE), (SIZE + 3, SIZE), (SIZE, SIZE)
    arguments = [*random_operands(F16, *shapes), count, np.zeros((SIZE, SIZE), np.float32)]
    expected, actual = ([np.copy(a) for a in arguments] for _ in range(2))
    tileir.interpret(module, "k", (1,), [*expected[:4], count, expected[5]])
    options: dict[str, Any] = {"target": "sm_90a", "warp_specialize": False, "num_warps": 4}
    limit = {} if registers is None else {"max_registers": registers}
    SimtExecutor().launch(module, "k", (1,), [*actual[:4], count, actual[5]], **options, **limit)
    np.testing.assert_allclose(actual[5], expected[5], rtol=1e-3)
