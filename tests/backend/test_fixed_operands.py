"""Operands that a loop does not change: in shared memory where registers do not suffice."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, arg, pointer

from .test_refilled_stages import attention, lower

SIZE = 64


def scores_times_values(*, scaled: bool = False) -> Any:
    """C = the sum over i of (Q B[i]^T) B[i], with half of the first B[i] where it is `scaled`."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qb"}
    with b.kernel("k", **kinds, c=pointer(F32), n=arg(I32)) as (q, y, z, n):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        zero = b.full((SIZE, SIZE), 0.0, F32)
        queries, total = (q + at).load(), b.var(zero)
        with b.for_(0, n, stages=2) as i:
            right = (y + (at + i * SIZE**2)).load()
            left = (right.to(F32) * 0.5).to(F16) if scaled else right
            scores = b.dot(queries, b.trans(left, order=[1, 0]), zero).to(F16)
            total.set(b.dot(scores, right, total.get()))
        (z + at).store(total.get())
    return b.module()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("warps", "buffers"), [(1, 2), (4, 1)])
def test_queries_are_stored_where_registers_do_not_hold_them(
    warps: int, buffers: int, scaled: bool
) -> None:
    """Of one warp each thread would have 128 registers of C, 128 of scores and 64 of queries. B may
    be computed in registers."""
    options = Options(num_warps=warps)
    done = run_pipeline(scores_times_values(scaled=scaled), target("sm_80"), options, None)
    ops = list(done.stages["pipelined"].functions[done.kernel].ops)
    assert sum(op.mnemonic == "gpu.shared_alloc" for op in ops) == buffers
    stores = [op for op in ops if op.mnemonic == "gpu.local_store"]
    assert len(stores) == buffers - 1


@pytest.mark.parametrize(("size", "stored"), [(256, 0), (512, 1)])
def test_copies_of_queries_in_several_warps_count(size: int, stored: int) -> None:
    """Each of 4 warps would have all 16 queries: of 512 elements, a thread would have 128 registers
    of queries and 64 of C."""
    done = lower(attention(2, size=size, keys=16), 4)
    ops = done.stages["pipelined"].functions[done.kernel].ops
    assert sum(op.mnemonic == "gpu.local_store" for op in ops) == stored


def test_fragments_are_loaded_in_the_order_in_which_dots_read_them() -> None:
    """Each `ldmatrix` loads one step of K of two fragments of B, which two instructions multiply
    into different accumulators: neither waits for the other."""
    ptx = compile_kernel(scores_times_values(), "sm_80", {"num_warps": 4}).ptx
    loaded: dict[str, int] = {}
    reads: list[int] = []
    for line in ptx.splitlines():
        if "ldmatrix" in line:
            number = len(set(loaded.values()))
            loaded.update(dict.fromkeys(re.findall(r"%r\d+", line.split("}")[0]), number))
        elif "mma.sync" in line:
            right = re.findall(r"\{([^}]*)\}", line)[2]
            reads += {loaded[register] for register in right.split(", ")}
    assert reads == sorted(reads)
    assert {reads.count(number) for number in reads} == {2}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_threads_agree(n: int, scaled: bool) -> None:
    random = np.random.default_rng(n)
    q = random.integers(-1, 2, (SIZE, SIZE)).astype(np.float16)
    tiles = random.integers(-1, 2, (n, SIZE, SIZE)).astype(np.float16)
    module = scores_times_values(scaled=scaled)
    expected, actual = np.full((2, SIZE, SIZE), np.nan, np.float32)
    tileir.interpret(module, "k", (1,), [q, tiles, expected, n])
    SimtExecutor().launch(module, "k", (1,), [q, tiles, actual, n], num_warps=1)
    np.testing.assert_array_equal(actual, expected)


ROWS, WIDTH = 32, 128


def gradients() -> Any:
    """The sums over i of S^T X[i] and of S K, for S = X[i] K^T: as those of keys and queries."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "kx"}
    more = {name: pointer(F32) for name in "yz"}
    with b.kernel("k", **kinds, **more, n=arg(I32)) as (k, x, y, z, n):
        column = b.arange(WIDTH)[None, :]
        at, of_x = (b.arange(m)[:, None] * WIDTH + column for m in (WIDTH, ROWS))
        keys, zero = (k + at).load(), b.full((ROWS, WIDTH), 0.0, F32)
        of_keys, of_queries = b.var(b.full((WIDTH, WIDTH), 0.0, F32)), b.var(zero)
        with b.for_(0, n, stages=2) as i:
            rows = (x + (of_x + i * (ROWS * WIDTH))).load()
            scores = b.dot(rows, b.trans(keys, order=[1, 0]), zero).to(F16)
            of_keys.set(b.dot(b.trans(scores, order=[1, 0]), rows, of_keys.get()))
            of_queries.set(b.dot(scores, keys, of_queries.get()))
        (y + at).store(of_keys.get())
        (z + of_x).store(of_queries.get())
    return b.module()


@pytest.mark.parametrize(("warps", "stores"), [(4, 1), (8, 0)])
def test_operands_next_to_warpgroups_are_stored_once(warps: int, stores: int) -> None:
    """Of 4 warps each thread would have 160 registers of accumulators, 32 of scores, and 128 of
    keys in the fragments of two dots."""
    options = Options(num_warps=warps, warp_specialize=False)
    done = run_pipeline(gradients(), target("sm_90a"), options, None)
    pipelined = done.stages["pipelined"].functions[done.kernel]
    assert any(op.mnemonic == "gpu.wgmma" for op in pipelined.ops)
    keys = [op for op in pipelined.ops if op.mnemonic == "gpu.local_store" and _is_square(op)]
    assert len(keys) == stores


def _is_square(op: Any) -> bool:
    return op.inputs[0].type.shape == (WIDTH, WIDTH)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", [3, 0, 1])
def test_threads_agree_on_gradients(n: int) -> None:
    random = np.random.default_rng(n)
    k = random.integers(-1, 2, (WIDTH, WIDTH)).astype(np.float16)
    x = random.integers(-1, 2, (n, ROWS, WIDTH)).astype(np.float16)
    expected, actual = (
        [np.full((m, WIDTH), np.nan, np.float32) for m in (WIDTH, ROWS)] for _ in "ef"
    )
    tileir.interpret(gradients(), "k", (1,), [k, x, *expected, n])
    options = {"target": "sm_90a", "num_warps": 4, "warp_specialize": False}
    SimtExecutor().launch(gradients(), "k", (1,), [k, x, *actual, n], **options)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)
