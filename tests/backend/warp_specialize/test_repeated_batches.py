"""Batches of matmuls that share an operand: a tensor map has no stride of 0, as one of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend.executors import SimtExecutor
from tileir.backend.tma.host_plan import HostPlan
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.passmanager import run

SIZE, DEPTH, BATCHES = 64, 32, 3
FRONT = "cse,licm,scalarize-pointer-steps,infer-descriptors"


def batched_matmul() -> Any:
    """The matmuls of batches of A and B, whose batches are `a_b` and `b_b` elements apart."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    numbers = {name: arg(I32, multiple_of=16) for name in ("k", "a_b", "b_b")}
    out = {"c": arg(pointer(F32), aligned=16, noalias=True)}
    with b.kernel("k", **kinds, **out, **numbers) as (x, y, z, k, a_b, b_b):
        batch, rows, steps = b.program_id(axis=2), b.arange(SIZE), b.arange(DEPTH)
        total = b.var(b.full((SIZE, SIZE), 0.0, F32))
        with b.for_(0, k, DEPTH) as start:
            along = steps + start
            left = (x + (rows[:, None] * k + along[None, :] + batch * a_b)).load()
            right = (y + (along[:, None] * SIZE + rows[None, :] + batch * b_b)).load()
            total.set(b.dot(left, right, total.get()))
        at = batch * SIZE**2 + rows[:, None] * SIZE + rows[None, :]
        (z + at).store(total.get())
    return b.module()


def arguments(shared: str) -> tuple[list[Any], Any]:
    random, k = np.random.default_rng(1), 2 * DEPTH
    a = random.integers(-3, 4, (1 if "a" in shared else BATCHES, SIZE, k)).astype(np.float16)
    b = random.integers(-3, 4, (1 if "b" in shared else BATCHES, k, SIZE)).astype(np.float16)
    steps = (0 if name in shared else SIZE * k for name in "ab")
    c = np.full((BATCHES, SIZE, SIZE), np.nan, np.float32)
    expected = np.broadcast_to(a.astype(np.float32) @ b.astype(np.float32), c.shape)
    return [a, b, c, k, *steps], expected


@pytest.mark.parametrize("shared", ["", "a", "b", "ab"])
def test_every_batch_reads_what_is_shared(shared: str) -> None:
    module = batched_matmul()
    described = run(module, "infer-descriptors").module
    assert sum(op.mnemonic == "descriptor_load" for op in described.functions["k"].ops) == 2
    for launch, changed, options in (
        (tileir.interpret, described, {}),
        (SimtExecutor().launch, module, {"target": "sm_90a", "warp_specialize": True}),
    ):
        inputs, expected = arguments(shared)
        launch(changed, "k", (1, 1, BATCHES), inputs, **options)
        np.testing.assert_array_equal(inputs[2], expected)


@pytest.mark.parametrize(("step", "stride"), [(0, 16), (4096, 8192)])
def test_no_map_has_a_stride_of_0(step: int, stride: int) -> None:
    kernel = run(batched_matmul(), f"{FRONT},warp-specialize").module.kernel(None)
    plan = HostPlan.of(kernel)
    maps = plan.map_values((4096, 8192, 16384, 2 * DEPTH, 4096, step)) if plan else None
    assert maps is not None
    assert [m.strides[0] for m in maps[:2]] == [8192, stride]


@pytest.mark.parametrize("stride", ["s", "s * 4", "64", "4096"])
def test_only_strides_that_may_be_0_have_alternatives(stride: str) -> None:
    """Those of a batch that is loaded, and the index along it: no constant is 0."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16, noalias=True) for name in "xy"}
    with b.kernel("k", **kinds, z=arg(pointer(F32), noalias=True), n=I32, s=I32) as (x, y, z, n, s):
        step = int(stride) if stride.isdigit() else s * 4 if "*" in stride else s
        rows = b.arange(DEPTH)
        at = rows[:, None] * DEPTH + rows[None, :]
        inside = (rows[:, None] < n) & (rows[None, :] < n)
        left = (x + (at + b.program_id() * step)).load(inside, 0.0)
        (z + at).store(b.dot(left, (y + at).load(), b.full((DEPTH, DEPTH), 0.0, F32)))
    ops = list(run(b.module(), "infer-descriptors").module.kernel().ops)
    sizes = [len(op.dimensions) for op in ops if op.mnemonic == "make_descriptor"]  # type: ignore[attr-defined]
    assert sorted(sizes) == [4, 4, 6]
    assert sum(op.mnemonic == "select" for op in ops) == (0 if stride.isdigit() else 2)
