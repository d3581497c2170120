"""Matrices that are computed whole from large tiles: loops over chunks read slices of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.backend.strip_mine.strip_mine import strip_mine_function, with_stage
from tileir.builder import F16, F32, F64, I32, Builder, arg, pointer
from tileir.ir import Function, Module
from tileir.types import shape_of

BATCH, KEYS, DEPTH = 4, 16, 32
LIMIT = 8


def decode(
    element: Any = F32, keys: int = KEYS, depth: int = DEPTH, *, largest: bool = True,
    queries: str = "before",
) -> Module:  # fmt: skip
    """y [BATCH, depth] = the sum over n tiles of keys of exp2(s - m) v, where s = the sum of q k of
    each key, and m = the largest s of a row, or 0. A chunk of s along the keys needs the same chunk
    of k. s is computed whole if q is loaded `before` the loop, and m needs it."""
    b = Builder()
    kinds = {name: arg(pointer(element), aligned=16) for name in "qkv"}
    with b.kernel("f", **kinds, y=pointer(element), n=arg(I32)) as (q, k, v, y, n):
        rows = b.arange(BATCH)[:, None] * depth + b.arange(depth)[None, :]
        tiles = b.arange(BATCH)[:, None, None] * (keys * depth)
        tiles = tiles + b.arange(keys)[None, :, None] * depth + b.arange(depth)[None, None, :]
        first = (q + rows).load() if queries == "before" else None
        total = b.var(b.full((BATCH, depth), 0.0, element))
        with b.for_(0, n) as i:
            query = (q + rows).load() if first is None else first
            at = tiles + i * (BATCH * keys * depth)
            scores = (query[:, None, :] * (k + at).load()).sum(axis=2)
            most = scores.max(axis=1)[:, None] if largest else 0.0
            weights = b.exp2((scores - most).to(F32)).to(element)
            total.set(total.get() + (weights[:, :, None] * (v + at).load()).sum(axis=1))
        (y + rows).store(total.get())
    return b.module()


def strip_mine(module: Module, limit: int = LIMIT, *, shared: bool = True) -> Function:
    options: dict[str, Any] = {"warps": 1, "limit": limit, "chunk": 4, "keep": 0}
    return strip_mine_function(module.functions["f"], shared=shared, **options).ir


def names(function: Function) -> list[str]:
    return [op.mnemonic for op in function.ops]


def data(tiles: int, dtype: Any = np.float32, keys: int = KEYS, depth: int = DEPTH) -> list[Any]:
    rng = np.random.default_rng(tiles)
    q = rng.integers(-2, 3, (BATCH, depth)).astype(dtype)
    k, v = (rng.integers(-2, 3, (tiles, BATCH, keys, depth)).astype(dtype) for _ in range(2))
    return [q, k, v, np.zeros((BATCH, depth), dtype), tiles]


def result_of(arguments: list[Any]) -> Any:
    q, k, v, _, _ = arguments
    scores = np.einsum("bd,tbkd->tbk", q, k)
    weights = np.exp2(scores - scores.max(axis=2, keepdims=True))
    return np.einsum("tbk,tbkd->bd", weights, v)


def test_keys_are_loaded_once() -> None:
    """The weights are stored once in an iteration, and threads wait before and after. Without
    shared memory, the loop over chunks loads its keys a second time."""
    function = strip_mine(decode())
    done = names(function)
    assert done.count("load") == 3
    assert done.count("gpu.local_store") == done.count("gpu.local_gather") == 1
    at = done.index("gpu.local_store")
    assert done[at - 1] == done[at + 1] == "gpu.barrier"
    repeated = names(strip_mine(decode(), shared=False))
    assert repeated.count("load") == 4 and "gpu.local_store" not in repeated


@pytest.mark.parametrize(
    "module",
    [decode(largest=False), decode(element=F64), decode(queries="in the loop")],
    ids=["nothing needs the scores whole", "64 bits", "the scores are cut, too"],
)
def test_other_matrices_are_not_stored(module: Module) -> None:
    assert "gpu.local_store" not in names(strip_mine(module))


def test_chunks_next_to_a_whole_tile_are_larger() -> None:
    """The keys stay whole, so few blocks are resident: a chunk has 16 words per thread for 4, but
    at most those of a tile that is not large."""
    for limit, keys in ((32, 4), (LIMIT, 2)):
        (chunk,) = (
            op for op in strip_mine(decode(), limit).ops if op.mnemonic == "gpu.local_gather"
        )
        assert shape_of(chunk.results[0].type) == (BATCH, keys)


@pytest.mark.parametrize("tiles", [0, 1, 3])
def test_results_in_the_interpreter(tiles: int) -> None:
    module = decode()
    arguments = data(tiles)
    new = with_stage(module.with_functions({"f": strip_mine(module)}))
    tileir.interpret(new, "f", (1,), arguments)
    np.testing.assert_allclose(arguments[3], result_of(arguments), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tiles", [1, 2])
def test_results_on_threads(tiles: int) -> None:
    """A thread has 640 elements of a tile."""
    arguments = data(tiles, np.float16, keys=40, depth=128)
    module = decode(F16, keys=40, depth=128)
    compiled = compile_(module, "sm_90a", {"num_warps": 1})
    assert "gpu.local_gather" in names(compiled.stages["strip_mined"].functions["f"])
    SimtExecutor().launch(module, "f", (1,), arguments, num_warps=1, target="sm_90a")
    np.testing.assert_allclose(arguments[3], result_of(arguments), rtol=2e-3, atol=2e-3)
