"""Operands B that threads convert and store: what they have read of a stage before the barrier of
these stores is refilled in the same iteration, so that its buffer has one stage less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.software_pipeline.warpgroup_expander import WarpgroupExpander
from tileir.builder import F16, F32, I8, I32, Builder, arg, pointer
from tileir.ops.hopper import Wgmma

SIZE, DEPTH = 64, 32
OPTIONS = {"num_warps": 4, "warp_specialize": False}


@pytest.fixture
def refilling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refill also where the small tiles of these tests let no more blocks be resident."""
    monkeypatch.setattr(WarpgroupExpander, "_worth_refilling", lambda self, *_: self.refilled)


def matmul(
    *, stages: int = 3, narrow: str = "b", added: bool = False, direct: bool = False,
    size: int = SIZE, depth: int = DEPTH,
) -> Any:  # fmt: skip
    """A times B, of which `narrow` ones are of int8; with `added`, the columns of B are added to
    all rows of the result, after the dot of each step. With `direct`, the dot takes int8."""
    acc = I32 if direct else F32
    b = Builder()
    kinds = {name: I8 if name in narrow else F16 for name in "ab"}
    parameters = {name: arg(pointer(kind), aligned=16) for name, kind in kinds.items()}
    with b.kernel("k", **parameters, c=arg(pointer(acc), noalias=True), n=arg(I32)) as (x, y, z, n):
        rows, steps = b.arange(size), b.arange(depth)
        total = b.var(b.full((size, size), 0, acc))
        with b.for_(0, n, stages=stages) as i:
            along = steps + i * depth
            left = (x + (rows[:, None] * (n * depth) + along[None, :])).load()
            right = (y + (along[:, None] * size + rows[None, :])).load()
            operands = [
                v.to(F16) if k is I8 and not direct else v
                for k, v in zip(kinds.values(), (left, right), strict=True)
            ]
            total.set(b.dot(*operands, total.get()))
            if added:
                columns = right.to(acc).sum(axis=0)
                total.set(total.get() + columns.reshape(1, size).broadcast_to(size, size))
        (z + (rows[:, None] * size + rows[None, :])).store(total.get())
    return b.module()


def stages_of(module: Any) -> dict[str, int]:
    """The stages of each buffer into which copies go, by its element."""
    function = compile_kernel(module, "sm_90a", OPTIONS).tir_at("barriers").functions["k"]
    copied = {op.buffer for op in function.ops if op.mnemonic == "gpu.async_copy"}
    allocs = [op for op in function.ops if op.mnemonic == "gpu.shared_alloc"]
    return {str(SharedTile.of(op).element): op.shape[0] for op in allocs if op.results[0] in copied}


def test_a_stage_less_is_worth_a_resident_block() -> None:
    """Of blocks of 128 KiB one is resident, of 112 KiB two; of small ones registers decide."""
    assert stages_of(matmul(stages=2, size=128, depth=128)) == {"i8": 1, "f16": 2}
    assert stages_of(matmul(stages=3)) == {"i8": 3, "f16": 3}


@pytest.mark.usefixtures("refilling")
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_what_is_converted_has_a_stage_less(stages: int) -> None:
    assert stages_of(matmul(stages=stages)) == {"i8": stages - 1, "f16": stages}
    assert stages_of(matmul(stages=stages, narrow="ab")) == {"i8": stages - 1}


def test_what_is_read_after_the_dot_keeps_its_stages() -> None:
    assert stages_of(matmul(narrow="ab", direct=True, added=True)) == {"i8": 3}


def test_operands_as_they_are_loaded_keep_their_stages() -> None:
    assert stages_of(matmul(narrow="")) == {"f16": 3}


FORMS: list[dict[str, Any]] = [
    {}, {"narrow": "ab"}, {"added": True}, {"narrow": ""}, {"narrow": "ab", "direct": True},
    {"narrow": "ab", "direct": True, "added": True},
]  # fmt: skip


@pytest.mark.usefixtures("refilling")
@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("form", FORMS)
def test_threads_agree(form: dict[str, Any], stages: int, n: int) -> None:
    random = np.random.default_rng(n)
    kinds = [np.int8 if name in form.get("narrow", "b") else np.float16 for name in "ab"]
    a = random.integers(-3, 4, (SIZE, DEPTH * n)).astype(kinds[0])
    b = random.integers(-3, 4, (DEPTH * n, SIZE)).astype(kinds[1])
    c = np.full((SIZE, SIZE), 77, np.int32 if "direct" in form else np.float32)
    module = matmul(stages=stages, **form)
    assert_equal_results(module, [a, b, c, n], num_warps=4, target="sm_90a")


def split_matmul(*, converted: bool = False) -> Any:
    """A times B, of int8, as the sum of A (B / 4 * 4) and A (B % 4) and (A + A) (B % 4); with
    `late`, the last operand B is computed of the first result."""
    b = Builder()
    parameters = {name: arg(pointer(I8), aligned=16) for name in "ab"}
    with b.kernel("k", **parameters, c=arg(pointer(F32), noalias=True), n=arg(I32)) as (x, y, z, n):
        rows, steps = b.arange(SIZE), b.arange(SIZE)
        total = b.var(b.full((SIZE, SIZE), 0.0, F32))
        with b.for_(0, n, stages=3) as i:
            along = steps + i * SIZE
            left = (x + (rows[:, None] * (n * SIZE) + along[None, :])).load().to(F16)
            right = (y + (along[:, None] * SIZE + rows[None, :])).load()
            low = right & 3
            high, low = (right - low).to(F16), low.to(F16)
            first = b.dot(left, high, total.get())
            second = b.dot(left, low, first)
            third = first.to(F16) if converted else low
            total.set(b.dot(left + left, third, second))
        (z + (rows[:, None] * SIZE + rows[None, :])).store(total.get())
    return b.module()


@pytest.mark.parametrize("converted", [False, True])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_operands_are_stored_together(converted: bool, n: int) -> None:
    random = np.random.default_rng(n)
    a, b = (random.integers(0, 2, x).astype(np.int8) for x in ((SIZE, SIZE * n), (SIZE * n, SIZE)))
    module, c = split_matmul(converted=converted), np.full((SIZE, SIZE), 77, np.float32)
    assert_equal_results(module, [a, b, c, n], num_warps=4, target="sm_90a")


@pytest.mark.usefixtures("refilling")
@pytest.mark.parametrize(("converted", "stores"), [(False, 2), (True, 3)])
def test_one_fence_serves_operands_that_are_there(converted: bool, stores: int) -> None:
    module = compile_kernel(split_matmul(converted=converted), "sm_90a", OPTIONS).tir_at("barriers")
    function = module.functions["k"]
    block = next(
        b for b in function.blocks.values() if any(op.mnemonic == "gpu.wgmma" for op in b.ops)
    )
    names = [op.mnemonic for op in block.ops]
    assert names.count("gpu.wgmma") == 3 and names.count("gpu.local_store") == stores
    if not converted:
        assert names.count("gpu.async_fence") == 1 and names.count("gpu.barrier") == 2
        assert stages_of(split_matmul()) == {"i8": 2}


READY = ["gpu.async_wait", "gpu.async_fence", "gpu.barrier"]
"""The ops of an iteration that make its stages visible to `wgmma`."""


@pytest.mark.parametrize(("form", "stages", "names"), [
    ("stores", 2, [*READY, "gpu.async_copy", "store", "gpu.wgmma"]),
    ("loads", 2, [*READY, "gpu.wgmma", "gpu.async_copy", "load"]),
    ("stores B, too", 2, ["store", "gpu.async_wait", "gpu.barrier", "gpu.local_store",
                          "gpu.async_fence", "gpu.barrier", "gpu.wgmma", "gpu.async_copy"]),
    ("stores", 4, ["store", "gpu.barrier", "gpu.wgmma", "gpu.async_wait", "gpu.async_fence"]),
])  # fmt: skip
def test_a_fence_does_not_wait_for_what_an_iteration_stores(
    form: str, stages: int, names: list[str]
) -> None:
    """A recurrence stores its state before it reads the operands that are copied ahead. The fence
    of the copies precedes the store, which it would wait for otherwise. The copies of the next
    iteration precede the store, too: they land while it runs. They do not where a later fence, of
    an operand B that threads store or of the next stages, would wait for them."""
    b = Builder()
    types = {"x": arg(pointer(F16), aligned=16, readonly=True)}
    types |= {
        "y": arg(pointer(F32), aligned=16, noalias=True),
        "z": arg(pointer(F32), noalias=True),
    }
    with b.kernel("k", **types, n=I32) as (x, y, z, n):
        i = b.arange(64)
        place = i[:, None] * 64 + i[None, :]
        state = b.var(b.zeros((64, 64)))
        with b.for_(0, n, stages=stages) as at:
            if form == "loads":
                decay = (z + at).load()
            else:
                (y + at * 4096 + place).store(state.get())
                decay = 0.5
            v = (x + at * 4096 + place).load()
            right = v * 2.0 if form == "stores B, too" else v
            state.set(b.dot(b.trans(v, order=[1, 0]), right, state.get() * decay))
        (y + n * 4096 + place).store(state.get())
    module = b.module()
    function = compile_kernel(module, "sm_90a", OPTIONS).tir_at("pipelined").functions["k"]
    (ops,) = (x.ops for x in function.blocks.values() if any(isinstance(y, Wgmma) for y in x.ops))
    kinds = [op.mnemonic for op in ops if op.mnemonic in ("store", "load", *names)]
    assert kinds[: len(names)] == names
    arrays = [
        np.random.default_rng(5).integers(-1, 2, 3 * 4096).astype(np.float16),
        np.zeros(4 * 4096, np.float32), np.array([1, 0.5, -1], np.float32),
    ]  # fmt: skip
    assert_equal_results(module, [*arrays, 3], target="sm_90a", **OPTIONS)
